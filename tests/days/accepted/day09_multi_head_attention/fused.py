"""All three projections in one product, torch's fused kernel for the output, and the weights on the side."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import attention


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k, self.p_drop = h, d_model // h, dropout
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.weights = None

    def forward(self, query, key, value, mask=None):
        def heads_of(linear, x):
            return linear(x).view(x.size(0), -1, self.h, self.d_k).permute(0, 2, 1, 3)

        q, k, v = heads_of(self.w_q, query), heads_of(self.w_k, key), heads_of(self.w_v, value)
        mask = mask if mask is None else mask.unsqueeze(-3)
        with torch.no_grad():
            self.weights = attention(q, k, v, mask)[1]
        dropped = self.p_drop if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropped)
        return self.w_o(heads.permute(0, 2, 1, 3).reshape(query.shape))
