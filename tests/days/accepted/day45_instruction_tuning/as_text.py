"""Conversations as lists of pairs, labels by a loop, rows as lists of documents."""

import torch


def chat_tokens(messages, encode, start, end, reply=False):
    pairs = []
    for message in messages:
        mine = message["role"] == "assistant"
        pairs += [(start, False)]
        pairs += [(one, False) for one in encode(message["role"] + "\n")]
        pairs += [(one, mine) for one in [*encode(message["content"]), end]]
        pairs += [(one, False) for one in encode("\n")]
    if reply:
        pairs += [(one, False) for one in [start, *encode("assistant\n")]]
    return (
        torch.tensor([one for one, _ in pairs], dtype=torch.int64),
        torch.tensor([mine for _, mine in pairs], dtype=torch.bool),
    )


def answer_labels(tokens, written):
    result = torch.full(tokens.shape, -100, dtype=tokens.dtype, device=tokens.device)
    for t in range(tokens.shape[-1] - 1):
        result[..., t] = torch.where(written[..., t + 1], tokens[..., t + 1], result[..., t])
    return result


def pack(examples, length, pad):
    rows = []
    for tokens, labels in examples:
        for row in rows:
            if sum(len(one) for one, _ in row) + len(tokens) <= length:
                row.append((tokens, labels))
                break
        else:
            rows.append([(tokens, labels)])
    device = examples[0][0].device if len(examples) else "cpu"
    whole = torch.zeros(4, len(rows), length, dtype=torch.int64, device=device)
    mask = torch.zeros(len(rows), length, length, dtype=torch.bool, device=device)
    for r, row in enumerate(rows):
        left = length - sum(len(one) for one, _ in row)
        filler = torch.full((left,), pad, device=device), torch.full((left,), -100, device=device)
        at = 0
        for tokens, labels in [*row, filler]:
            to = at + len(tokens)
            whole[0, r, at:to], whole[1, r, at:to] = tokens, labels
            whole[2, r, at:to] = torch.arange(to - at, device=device)
            mask[r, at:to, at:to] = torch.ones(to - at, to - at, device=device).tril() > 0
            at = to
    return whole[0], whole[1], whole[2], mask
