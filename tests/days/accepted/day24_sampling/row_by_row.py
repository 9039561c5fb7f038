"""Lists and loops, a row at a time; a draw goes along the sums until they pass a random number."""

import torch


def one_row(scores, temperature, top_k, top_p):
    """A list of float64 probabilities for a list of logits."""
    ids = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    if temperature == 0:
        return [float(i == ids[0]) for i in range(len(scores))]
    if top_k is not None and top_k < len(ids):
        ids = [i for i in ids if scores[i] >= scores[ids[top_k - 1]]]
    row = torch.tensor([scores[i] for i in ids], dtype=torch.float64)
    shares = ((row - row[0]) / temperature).exp()
    shares = (shares / shares.sum()).tolist()
    if top_p is not None and top_p < 1:
        total, kept = 0.0, 0
        for share in shares:
            total += share
            kept += 1
            if total >= top_p:
                break
        ids, shares = ids[:kept], [share / total for share in shares[:kept]]
    result = [0.0] * len(scores)
    for i, share in zip(ids, shares, strict=True):
        result[i] = share
    return result


def distribution(logits, temperature=1.0, top_k=None, top_p=None):
    rows = logits.detach().reshape(-1, logits.size(-1)).cpu()
    made = torch.empty(rows.shape, dtype=torch.float64)
    different, which = rows.unique(dim=0, return_inverse=True)
    for i, row in enumerate(different.tolist()):
        made[which == i] = torch.tensor(
            one_row(row, temperature, top_k, top_p), dtype=torch.float64
        )
    return made.reshape(logits.shape).to(logits.device, logits.dtype)


def sample(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    p = distribution(logits.detach().double(), temperature, top_k, top_p)
    upto = p.cumsum(dim=-1)
    point = torch.rand(p.shape[:-1], generator=generator, dtype=torch.float64, device=logits.device)
    passed = (upto <= point.unsqueeze(-1) * upto[..., -1:]).sum(dim=-1)
    return passed.clamp(max=p.size(-1) - 1)


def generate(
    model, tokens, max_new_tokens, temperature=1.0, top_k=None, top_p=None, generator=None
):
    was = {name: module.training for name, module in model.named_modules()}
    grad = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        for _, module in model.named_modules():
            module.training = False
        text = tokens.clone()
        for _ in range(max_new_tokens):
            seen = (
                text if text.shape[1] <= model.config.context else text[:, -model.config.context :]
            )
            last = model(seen).select(1, -1)
            text = torch.hstack([text, sample(last, temperature, top_k, top_p, generator)[:, None]])
        return text
    finally:
        torch.set_grad_enabled(grad)
        for name, module in model.named_modules():
            module.training = was[name]
