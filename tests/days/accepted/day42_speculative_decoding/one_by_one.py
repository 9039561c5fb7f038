"""Proposals judged one by one in Python numbers; lists of ids; the draft reads its last proposal at once."""

import torch

from variants.kv_cache import new_cache
from variants.sampling import distribution
from variants.speculative import roll_back


def drawn(weights, generator):
    """A place, with probability in proportion to its weight."""
    sums = weights.double().cumsum(dim=0)
    point = torch.rand(1, generator=generator, dtype=torch.float64, device=weights.device)
    return int((sums <= point * sums[-1]).sum())


def accept_draft(draft_tokens, draft_probs, target_probs, generator=None):
    new = []
    for place, x in enumerate(draft_tokens.tolist()):
        p, q = target_probs[place], draft_probs[place]
        ratio = min(1.0, float(p[x]) / float(q[x]))
        if float(torch.rand(1, generator=generator, device=p.device)) >= ratio:
            rest = torch.where(p > q, p - q, torch.zeros_like(p))
            new.append(drawn(rest / rest.sum(), generator))
            break
        new.append(x)
    else:
        new.append(drawn(target_probs[len(draft_tokens)], generator))
    return torch.tensor(new, device=draft_tokens.device)


def speculative_generate(
    target,
    draft,
    tokens,
    max_new_tokens,
    k=4,
    temperature=1.0,
    top_k=None,
    top_p=None,
    generator=None,
):
    device, ids = tokens.device, tokens[0].tolist()
    end = len(ids) + max_new_tokens
    caches = {model: new_cache(model.config, 1, end + k + 1) for model in {target, draft}}

    def read(model):
        """Probabilities of the positions that a model has not read."""
        cache = caches[model]
        chunk = torch.tensor([ids[cache.length :]], device=device)
        with torch.no_grad():
            return distribution(model(chunk, cache)[0].float(), temperature, top_k, top_p)

    while len(ids) < end:
        kept, rows = len(ids), []
        proposals = min(k, end - kept - 1)
        for _ in range(proposals):
            rows.append(read(draft)[-1])
            ids.append(drawn(rows[-1], generator))
        judged = read(target)[-(proposals + 1) :]
        proposed = torch.tensor(ids[kept:], dtype=torch.int64, device=device)
        q = torch.stack(rows) if rows else judged[:0]
        ids[kept:] = accept_draft(proposed, q, judged, generator).tolist()
        for cache in caches.values():
            roll_back(cache, len(ids) - 1)
    return torch.tensor([ids], device=device)
