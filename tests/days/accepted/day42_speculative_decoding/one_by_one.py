"""Proposals judged one by one, as Python numbers; the text is a list of ids."""

import torch

from variants.kv_cache import new_cache
from variants.sampling import distribution
from variants.speculative import roll_back


def drawn(weights, generator):
    sums = weights.double().cumsum(dim=0)
    point = torch.rand(1, generator=generator, dtype=torch.float64, device=weights.device)
    return int((sums <= point * sums[-1]).sum())


def accept_draft(draft_tokens, draft_probs, target_probs, generator=None):
    new = []
    for p, q, x in zip(target_probs, draft_probs, draft_tokens.tolist(), strict=False):
        ratio = min(1.0, float(p[x]) / float(q[x]))
        if float(torch.rand(1, generator=generator, device=p.device)) >= ratio:
            rest = torch.where(p > q, p - q, torch.zeros_like(p))
            new.append(drawn(rest / rest.sum(), generator))
            break
        new.append(x)
    else:
        new.append(drawn(target_probs[len(draft_tokens)], generator))
    return torch.tensor(new, device=draft_tokens.device)


def speculative_generate(target, draft, tokens, max_new_tokens, k=4, generator=None, **limits):
    ids = tokens[0].tolist()
    end = len(ids) + max_new_tokens
    caches = {model: new_cache(model.config, 1, end + k + 1) for model in (target, draft)}

    def read(model):
        chunk = torch.tensor([ids[caches[model].length :]], device=tokens.device)
        with torch.no_grad():
            return distribution(model(chunk, caches[model])[0].float(), **limits)

    while len(ids) < end:
        kept, rows = len(ids), []
        for _ in range(min(k, end - kept - 1)):
            rows.append(read(draft)[-1])
            ids.append(drawn(rows[-1], generator))
        judged = read(target)[-(len(rows) + 1) :]
        proposed = torch.tensor(ids[kept:], dtype=torch.int64, device=tokens.device)
        q = torch.stack(rows) if rows else judged[:0]
        ids[kept:] = accept_draft(proposed, q, judged, generator).tolist()
        for cache in caches.values():
            roll_back(cache, len(ids) - 1)
    return torch.tensor([ids], device=tokens.device)
