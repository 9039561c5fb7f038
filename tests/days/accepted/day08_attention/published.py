"""torch's own attention on the identity matrix gives the weights, and mixes no values itself."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def attention(query, key, value, mask=None, dropout=None):
    wide = torch.promote_types(query.dtype, torch.float32)
    identity = torch.eye(key.size(-2), dtype=wide, device=key.device)
    identity = identity.expand(*key.shape[:-1], key.size(-2))
    weights = scaled_dot_product_attention(query.to(wide), key.to(wide), identity, attn_mask=mask)
    weights = weights.type_as(query)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights
