"""Three filters of logits in a row, as libraries chain them: −∞ for what goes. The sort goes upwards."""

import torch


def divided(scores, temperature):
    return scores / temperature


def k_best(scores, k):
    smallest = torch.sort(scores, dim=-1, descending=True)[0][..., min(k, scores.size(-1)) - 1]
    return scores.masked_fill(scores < smallest[..., None], -torch.inf)


def nucleus(scores, p):
    if p == 1:
        return scores
    backwards = scores.flip(-1)  # so that of equals the lower id comes later, and goes last
    upwards, order = torch.sort(backwards, dim=-1, stable=True)
    shares = torch.softmax(upwards, dim=-1)
    # From the likeliest down: what has been summed up when a token's turn comes.
    before = shares.flip(-1).cumsum(dim=-1).flip(-1) - shares
    go = before >= p
    go[..., -1] = False
    go = torch.empty_like(go).scatter_(-1, order, go).flip(-1)
    return scores.masked_fill(go, -torch.inf)


def distribution(logits, temperature=1.0, top_k=None, top_p=None):
    if temperature == 0:
        result = torch.zeros_like(logits)
        return result.scatter_(-1, logits.argmax(-1, keepdim=True), 1)
    scores = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    scores = divided(scores, temperature)
    if top_k is not None:
        scores = k_best(scores, top_k)
    if top_p is not None:
        scores = nucleus(scores, top_p)
    return torch.softmax(scores, dim=-1).type_as(logits)


def sample(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    flat = logits.reshape(-1, logits.size(-1)).float()
    drawn = torch.multinomial(
        distribution(flat, temperature, top_k, top_p), num_samples=1, generator=generator
    )
    return drawn.view(logits.shape[:-1])


def generate(
    model, tokens, max_new_tokens, temperature=1.0, top_k=None, top_p=None, generator=None
):
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        return extended(
            model, tokens, max_new_tokens, (temperature, top_k, top_p, generator)
        ).clone()
    finally:
        for module, training in before:
            module.training = training


@torch.no_grad()
def extended(model, tokens, missing, how):
    if missing == 0:
        return tokens
    logits = model(tokens[:, -model.config.context :])
    new = sample(logits[:, -1], *how)
    return extended(model, torch.cat((tokens, new.view(-1, 1)), dim=-1), missing - 1, how)
