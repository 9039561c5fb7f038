"""Token by token, in loops over plain lists."""

import torch


class Batch:
    def __init__(self, src, tgt=None, pad=0):
        def flags(rows):
            return torch.tensor(rows, dtype=torch.bool, device=src.device)

        self.src = src
        self.src_mask = flags([[[token != pad for token in row]] for row in src.tolist()])
        self.tgt, self.tgt_y, self.tgt_mask, self.ntokens = None, None, None, None
        if tgt is None:
            return
        self.tgt, self.tgt_y = tgt[:, :-1], tgt[:, 1:]
        self.tgt_mask = flags(
            [
                [[row[j] != pad and j <= i for j in range(len(row))] for i in range(len(row))]
                for row in self.tgt.tolist()
            ]
        )
        self.ntokens = sum(token != pad for row in self.tgt_y.tolist() for token in row)
