"""The whole target's mask cut to size, a triangle of numbers, a count by subtraction, copies."""

import torch


class Batch:
    def __init__(self, src, tgt=None, pad=0):
        self.src, self.src_mask = src, src.ne(pad).unsqueeze(-2)
        if tgt is None:
            self.tgt = None
            self.tgt_y = None
            self.tgt_mask = None
            self.ntokens = None
        else:
            size = tgt.size(-1)
            triangle = torch.triu(torch.ones(size, size, device=tgt.device), diagonal=1) == 0
            mask = torch.logical_and(tgt.ne(pad).unsqueeze(-2), triangle)
            self.tgt_mask = mask[:, :-1, :-1]
            self.tgt = tgt[..., :-1].clone()
            self.tgt_y = tgt[..., 1:].contiguous()
            self.ntokens = torch.tensor(self.tgt_y.numel()) - (self.tgt_y == pad).sum().cpu()
