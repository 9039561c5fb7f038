"""Positions compared with positions, what is hidden before what is seen, properties made on demand."""

import torch


class Batch:
    def __init__(self, src, tgt=None, pad=0):
        self.src = src
        self.pad = pad
        self.whole = tgt

    @property
    def src_mask(self):
        return torch.ne(self.src, self.pad)[:, None, :]

    @property
    def tgt(self):
        return None if self.whole is None else self.whole.narrow(1, 0, self.whole.shape[1] - 1)

    @property
    def tgt_y(self):
        return None if self.whole is None else self.whole.narrow(1, 1, self.whole.shape[1] - 1)

    @property
    def tgt_mask(self):
        if self.whole is None:
            return None
        position = torch.arange(self.tgt.shape[1], device=self.tgt.device)
        later = position[None, None, :] > position[None, :, None]
        return ~(later | (self.tgt == self.pad)[:, None, :])

    @property
    def ntokens(self):
        return None if self.whole is None else int(torch.count_nonzero(self.tgt_y - self.pad))
