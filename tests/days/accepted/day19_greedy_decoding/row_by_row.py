"""Each row decoded by itself, as a list of numbers, and filled up at last."""

import torch


def greedy_decode(model, src, src_mask, max_len, start, end=None):
    with torch.inference_mode():
        rows = [
            say(model, src[i : i + 1], src_mask[i : i + 1], max_len, start, end)
            for i in range(len(src))
        ]
    longest = max(len(row) for row in rows)
    filled = [row + [0] * (longest - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64, device=src.device)


def say(model, src, src_mask, max_len, start, end):
    said = [start]
    while len(said) < max_len and (end is None or len(said) == 1 or said[-1] != end):
        tgt = torch.tensor([said], device=src.device)
        n = len(said)
        sees = torch.ones(1, n, n, device=src.device).tril() > 0
        states = model.decode(model.encode(src, src_mask), src_mask, tgt, sees)
        said.append(model.generator(states)[0, -1].argmax().item())
    return said
