"""PyTorch's own multi-head attention, which returns the weights as well, with the four layers' parameters."""

import torch
from torch import nn
from torch.nn.functional import multi_head_attention_forward


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.h, self.p = h, dropout
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.weights = None

    def forward(self, query, key, value, mask=None):
        (batch, t_q, d_model), t_k = query.shape, key.size(1)
        if mask is None:
            mask = torch.ones(1, 1, t_k, dtype=torch.bool, device=query.device)
        mask = mask.expand(batch, t_q, t_k)
        # PyTorch's mask is True at what is hidden, and has a row for each head. Where it hides everything,
        # PyTorch's weights are NaN: such a query attends to all keys here, and its heads become 0 below.
        empty = ~mask.any(-1, keepdim=True)
        hidden = ~(mask | empty).repeat_interleave(self.h, dim=0)
        inputs = self.w_q, self.w_k, self.w_v
        identity = torch.eye(d_model, dtype=query.dtype, device=query.device)
        heads, weights = multi_head_attention_forward(
            *(x.transpose(0, 1) for x in (query, key, value)),
            *(d_model, self.h),
            torch.cat([linear.weight for linear in inputs]),
            torch.cat([linear.bias for linear in inputs]),
            *(None, None, False, self.p, identity, torch.zeros_like(self.w_o.bias)),
            training=self.training,
            attn_mask=hidden,
            average_attn_weights=False,
        )
        self.weights = weights.detach().masked_fill(empty.unsqueeze(1), 0.0)
        return self.w_o(heads.transpose(0, 1).masked_fill(empty, 0.0))
