"""The distribution that follows each number of accepted proposals, then a choice; the text is filled in."""

import torch
from torch.nn.functional import pad

from variants.kv_cache import new_cache
from variants.sampling import distribution
from variants.speculative import roll_back


def accept_draft(draft_tokens, draft_probs, target_probs, generator=None):
    padded = pad(draft_probs, (0, 0, 0, 1))  # nothing was proposed after the last proposal
    positive = torch.relu(target_probs - padded)
    odds = (target_probs[:-1] / draft_probs)[torch.arange(len(draft_tokens)), draft_tokens]
    random = torch.rand(odds.shape, generator=generator, device=odds.device)
    rejected = torch.nonzero(random > odds.clamp(max=1.0))
    place = int(rejected[0, 0]) if len(rejected) else len(draft_tokens)
    row = positive[place] / positive[place].sum()
    return torch.cat((draft_tokens[:place], row.multinomial(1, generator=generator)))


@torch.inference_mode()
def speculative_generate(target, draft, tokens, max_new_tokens, k=4, generator=None, **limits):
    known = tokens.size(1)
    text = pad(tokens, (0, max_new_tokens))
    end = text.size(1)
    big, small = (new_cache(model.config, 1, end) for model in (target, draft))
    while known != end:
        upto = known + min(k, end - known - 1)
        q = []
        for place in range(known, upto):
            logits = draft(text[:, small.length : place], small)[0, -1]
            q.append(distribution(logits.float(), **limits))
            text[0, place] = torch.multinomial(q[-1], 1, generator=generator)[0]
        p = distribution(target(text[:, big.length : upto], big).float(), **limits)[0]
        p = p[p.size(0) - len(q) - 1 :]
        q = torch.stack(q) if q else torch.empty(0, p.size(1), device=p.device)
        new = accept_draft(text[0, known:upto], q, p, generator)
        text[0, known : known + len(new)] = new
        known += len(new)
        roll_back(big, known - 1)
        roll_back(small, known - 1)
    return text.clone()
