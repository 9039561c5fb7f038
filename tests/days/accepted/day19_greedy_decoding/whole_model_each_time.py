"""The model is called as in training, source and all, for every token anew."""

import torch

from implementation import subsequent_mask


def greedy_decode(model, src, src_mask, max_len, start, end=None):
    with torch.no_grad():
        said = torch.full((src.size(0), 1), start, dtype=torch.int64, device=src.device)
        over = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
        while said.size(1) < max_len and not over.all():
            causal = subsequent_mask(said.size(1)).to(src.device)
            states = model(src, said, src_mask, causal)
            word = model.generator(states)[:, -1].argmax(-1)
            word[over] = 0
            said = torch.hstack([said, word[:, None]])
            if end is not None:
                over |= word == end
        return said
