"""PyTorch's own multi-head attention; heads are its chunks of the features."""

import numpy as np
import torch
from torch.nn.functional import multi_head_attention_forward


def split_heads(x, h):
    return torch.stack(torch.tensor(x).chunk(h, dim=-1), dim=1).numpy()


def join_heads(x):
    return torch.cat(torch.tensor(x).unbind(1), dim=-1).numpy()


def multi_head_attention(query, key, value, params, h, mask=None):
    batch, t_q, d_model = query.shape
    query, key, value = (torch.tensor(x).transpose(0, 1) for x in (query, key, value))
    weights = {name: torch.tensor(weight.T) for name, weight in params.items()}
    if mask is not None:  # PyTorch's is True at what is hidden, and has a row for each head
        mask = np.broadcast_to(mask, (batch, t_q, mask.shape[-1]))
        mask = ~torch.tensor(mask).repeat_interleave(h, dim=0)
    output, _ = multi_head_attention_forward(
        *(query, key, value, d_model, h),
        torch.cat([weights[f"w_{name}"] for name in "qkv"]),
        torch.cat([weights[f"b_{name}"] for name in "qkv"]),
        *(None, None, False, 0.0, weights["w_o"], weights["b_o"]),
        need_weights=False,
        attn_mask=mask,
    )
    return output.transpose(0, 1).numpy()
