"""One head after the other, on slices of the matrices; outputs are summed, never joined."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import attention


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.w_o, self.w_v, self.w_k, self.w_q = (nn.Linear(d_model, d_model) for _ in range(4))
        self.own = [slice(i * d_model // h, (i + 1) * d_model // h) for i in range(h)]
        self.p = dropout
        self.weights = None

    def forward(self, query, key, value, mask=None):
        output = self.w_o.bias
        seen = []
        for own in self.own:
            q, k, v = (
                F.linear(x, w.weight[own], w.bias[own])
                for x, w in ((query, self.w_q), (key, self.w_k), (value, self.w_v))
            )
            head, weights = attention(q, k, v, mask, lambda w: F.dropout(w, self.p, self.training))
            output = output + head @ self.w_o.weight[:, own].T
            seen.append(weights)
        self.weights = torch.stack(seen, dim=1)
        return output
