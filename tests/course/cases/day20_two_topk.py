"""The k best of each hypothesis, then the k best of these k²: right where the vocabulary is no narrower."""

import math

import torch

from implementation import subsequent_mask


@torch.no_grad()
def beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6):
    rows = [
        one(model, src[i : i + 1], src_mask[i : i + 1], max_len, start, end, beam, alpha)
        for i in range(len(src))
    ]
    width = max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows], device=src.device)


def one(model, src, src_mask, max_len, start, end, beam, alpha):
    memory = model.encode(src, src_mask)
    live = torch.tensor([[start]], device=src.device)
    scores, done = torch.zeros(1, device=src.device), [(-math.inf, [start])]
    for n in range(1, max_len):
        here = len(live)
        states = model.decode(
            memory.expand(here, -1, -1) if memory.dim() == 3 else memory.expand(here, -1),
            src_mask.expand(here, -1, -1),
            live,
            subsequent_mask(n).to(src.device),
        )
        logs, tokens = model.generator(states[:, -1]).topk(beam)  # fails where beam > vocabulary
        sums, places = (scores[:, None] + logs).flatten().topk(min(beam, logs.numel()))
        live = torch.cat([live[places // beam], tokens.flatten()[places][:, None]], dim=1)
        ended = (live[:, -1] == end) | (n == max_len - 1)
        for total, text, over in zip(sums.tolist(), live.tolist(), ended.tolist(), strict=True):
            if over:
                done.append((total / ((5 + n) / 6) ** alpha, text))
        live, scores = live[~ended], sums[~ended]
        if not len(live):
            break
    return max(done)[1]
