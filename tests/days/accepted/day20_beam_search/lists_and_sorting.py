"""Each row by itself, with lists of hypotheses that are sorted, in Python's floats."""

import torch


@torch.no_grad()
def beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6):
    rows = [
        best_of_row(model, src[i : i + 1], src_mask[i : i + 1], max_len, start, end, beam, alpha)
        for i in range(src.shape[0])
    ]
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=src.device)


def best_of_row(model, src, src_mask, max_len, start, end, beam, alpha):
    memory = model.encode(src, src_mask)
    going, over = [(0.0, [start])], []
    for n in range(1, max_len):
        tgt = torch.tensor([tokens for _, tokens in going], device=src.device)
        many = len(going)
        sees = torch.ones(1, n, n, device=src.device).tril() == 1
        states = model.decode(memory.expand(many, -1, -1), src_mask.expand(many, -1, -1), tgt, sees)
        log_probs = model.generator(states)[:, -1].double().tolist()
        longer = [
            (score + log_probs[i][token], [*tokens, token])
            for i, (score, tokens) in enumerate(going)
            for token in range(len(log_probs[i]))
        ]
        longer.sort(key=lambda hypothesis: -hypothesis[0])
        over += [one for one in longer[:beam] if one[1][-1] == end]
        going = [one for one in longer[:beam] if one[1][-1] != end]
        if not going:
            break
    return max(over + going, key=lambda one: worth(one, alpha))[1] if max_len > 1 else [start]


def worth(hypothesis, alpha):
    score, tokens = hypothesis
    return score * ((5 + len(tokens) - 1) / 6) ** -alpha
