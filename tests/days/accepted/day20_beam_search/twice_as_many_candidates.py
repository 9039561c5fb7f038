"""Of 2·beam candidates the first `beam` that have not ended go on, so that the beam stays full; a beam of
one is greedy decoding, from the day before."""

import torch

from implementation import greedy_decode, subsequent_mask


def beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6):
    if beam == 1:
        return greedy_decode(model, src, src_mask, max_len, start, end)
    with torch.inference_mode():
        return search(model, src, src_mask, max_len, start, end, beam, alpha)


def search(model, src, src_mask, max_len, start, end, beam, alpha):
    rows = src.size(0)
    best = [(float("-inf"), [start]) for _ in range(rows)]
    memory = model.encode(src, src_mask)
    # (row of the source, log-probability, tokens) of everything that is still going on, in one list
    going = [(row, 0.0, [start]) for row in range(rows)]
    for n in range(1, max_len):
        at = torch.tensor([row for row, _, _ in going], device=src.device)
        said = torch.tensor([tokens for _, _, tokens in going], device=src.device)
        states = model.decode(memory[at], src_mask[at], said, subsequent_mask(n).to(src.device))
        log_probs = model.generator(states[:, -1]).cpu().double()
        scores = torch.tensor([[score] for _, score, _ in going], dtype=torch.double) + log_probs
        vocab, following = log_probs.size(1), []
        for row in range(rows):
            mine = [i for i, one in enumerate(going) if one[0] == row]
            if not mine:
                continue
            flat = scores[mine].flatten()
            value, index = flat.topk(min(2 * beam, len(flat)))
            alive = 0
            for rank, (score, i) in enumerate(zip(value.tolist(), index.tolist(), strict=True)):
                tokens = [*going[mine[i // vocab]][2], i % vocab]
                if tokens[-1] == end or n == max_len - 1:
                    if rank < beam:
                        worth = score / ((5 + n) / 6) ** alpha
                        best[row] = max(best[row], (worth, tokens))
                elif alive < beam:
                    alive += 1
                    following.append((row, score, tokens))
        going = following
        if not going:
            break
    width = max(len(tokens) for _, tokens in best)
    result = torch.zeros(rows, width, dtype=torch.long, device=src.device)
    for row, (_, tokens) in enumerate(best):
        result[row, : len(tokens)] = torch.tensor(tokens)
    return result
