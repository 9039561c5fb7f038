"""Nothing is sorted: each token is compared with each other one. Draws by exponential clocks."""

import torch


def distribution(logits, temperature=1.0, top_k=None, top_p=None):
    size = logits.shape[-1]
    ids = torch.arange(size, device=logits.device)
    if temperature == 0:
        best = logits.max(dim=-1, keepdim=True).values == logits
        first = torch.where(best, ids, size).min(dim=-1, keepdim=True).values
        return (ids == first).to(logits.dtype)
    x = logits.double() if logits.dtype == torch.float64 else logits.float()
    x = x / temperature
    if top_k is not None:
        ahead = (x[..., None, :] > x[..., :, None]).sum(dim=-1)  # how many are strictly likelier
        x = torch.where(ahead < top_k, x, float("-inf"))
    p = torch.exp(torch.log_softmax(x, dim=-1))
    if top_p is not None and top_p != 1:
        other, own = p[..., None, :], p[..., :, None]
        earlier = (other > own) | ((other == own) & (ids[None, :] < ids[:, None]))
        before = (other * earlier).sum(dim=-1)
        needed = (before < top_p) | ~earlier.any(dim=-1)
        p = p * needed
        p = p / p.sum(dim=-1, keepdim=True)
    return p.to(logits.dtype)


def sample(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    p = distribution(logits.double(), temperature, top_k, top_p)
    clocks = torch.empty_like(p).exponential_(generator=generator)
    return (p / clocks).argmax(dim=-1)


def generate(
    model, tokens, max_new_tokens, temperature=1.0, top_k=None, top_p=None, generator=None
):
    training = [module for module in model.modules() if module.training]
    context = model.config.context
    try:
        model.train(False)
        with torch.inference_mode():
            page = torch.cat([tokens, tokens.new_zeros(len(tokens), max_new_tokens)], dim=1)
            for end in range(tokens.size(1), page.size(1)):
                logits = model(page[:, max(0, end - context) : end])
                page[:, end] = sample(logits[:, -1, :], temperature, top_k, top_p, generator)
    finally:
        for module in training:
            module.training = True
    return page.clone()
