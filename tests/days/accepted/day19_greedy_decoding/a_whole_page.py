"""A page of zeros is filled in column by column; the decoder always reads all of it, and is cut at last."""

import torch

from implementation import subsequent_mask


@torch.no_grad()
def greedy_decode(model, src, src_mask, max_len, start, end=None):
    page = src.new_zeros((len(src), max_len), dtype=torch.int64)
    page[:, 0] = start
    memory = model.encode(src, src_mask)
    sees = subsequent_mask(max_len).to(src.device).expand(len(src), -1, -1)
    for column in range(1, max_len):
        states = model.decode(memory, src_mask, page, sees)
        log_probs = model.generator(states[:, column - 1])
        page[:, column] = log_probs.max(dim=1).indices
    if end is None:
        return page
    # A place is silent if `end` stands anywhere before it, after the start symbol.
    ends = page == end
    ends[:, 0] = False
    silent = ends.cumsum(dim=1) - ends.long() > 0
    page = page.masked_fill(silent, 0)
    return page[:, : int((~silent).sum(dim=1).max())]
