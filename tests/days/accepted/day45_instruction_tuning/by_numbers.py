"""The number of each example in its row, from which positions and mask follow."""

import torch
import torch.nn.functional as F


def chat_tokens(messages, encode, start, end, reply=False):
    pieces = []
    for message in messages:
        mine = message["role"] == "assistant"
        pieces += [([start], False), (encode(f"{message['role']}\n"), False)]
        pieces += [(encode(message["content"]), mine), ([end], mine), (encode("\n"), False)]
    if reply:
        pieces += [([start], False), (encode("assistant\n"), False)]
    tokens = [torch.tensor(ids, dtype=torch.long) for ids, _ in pieces]
    written = [torch.full((len(ids),), mine) for ids, mine in pieces]
    none = torch.empty(0)
    return torch.cat([none.long(), *tokens]), torch.cat([none.bool(), *written])


def answer_labels(tokens, written):
    known = torch.where(written, tokens, -100)
    return F.pad(known[..., 1:], (0, 1), value=-100)[..., : tokens.size(-1)]


def pack(examples, length, pad):
    rows = []
    for number, (tokens, _) in enumerate(examples):
        sizes = [sum(len(examples[one][0]) for one in row) for row in rows]
        fitting = [
            row for row, size in zip(rows, sizes, strict=True) if size + len(tokens) <= length
        ]
        fitting[0].append(number) if fitting else rows.append([number])
    device = examples[0][0].device if rows else None
    tokens = torch.full((len(rows), length), pad, device=device)
    labels = torch.full((len(rows), length), -100, device=device)
    numbers = torch.full((len(rows), length), len(examples), device=device)
    for r, row in enumerate(rows):
        joined = torch.cat([examples[one][0] for one in row])
        tokens[r, : len(joined)] = joined
        labels[r, : len(joined)] = torch.cat([examples[one][1] for one in row])
        sizes = torch.tensor([len(examples[one][0]) for one in row], device=device)
        which = torch.tensor(row, device=device).repeat_interleave(sizes)
        numbers[r, : len(joined)] = which
    same = numbers[:, :, None] == numbers[:, None, :]
    at = torch.arange(length, device=device)
    mask = same & (at[:, None] >= at)
    return tokens, labels, mask.sum(-1) - 1, mask
