"""PyTorch's own attention; applied to the identity matrix, it returns the weights."""

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention


def attention(query, key, value, mask=None):
    t_k = key.shape[-2]
    identity = np.broadcast_to(np.eye(t_k, dtype=key.dtype), (*key.shape[:-1], t_k))
    query, key, value, identity = (torch.tensor(x) for x in (query, key, value, identity))
    if mask is not None:
        mask = torch.tensor(np.broadcast_to(mask, (*query.shape[:-1], t_k)))
    output, weights = (
        scaled_dot_product_attention(query, key, x, attn_mask=mask).numpy()
        for x in (value, identity)
    )
    return output, weights
