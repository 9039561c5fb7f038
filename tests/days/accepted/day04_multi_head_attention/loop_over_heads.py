"""One head after the other, with its own columns of the projections and rows of w_o, added up as they come.

The key's bias is left out: it adds one number to all scores of a query, and the softmax does not see it.
"""

import numpy as np

from numpy_reference import attention


def split_heads(x, h):
    d_k = x.shape[-1] // h
    heads = np.empty((x.shape[0], h, x.shape[1], d_k), dtype=x.dtype)
    for head in range(h):
        heads[:, head] = x[..., head * d_k : (head + 1) * d_k]
    return heads


def join_heads(x):
    batch, h, time, d_k = x.shape
    joined = np.empty((batch, time, h * d_k), dtype=x.dtype)
    for head in range(h):
        joined[..., head * d_k : (head + 1) * d_k] = x[:, head]
    return joined


def multi_head_attention(query, key, value, params, h, mask=None):
    d_k = query.shape[-1] // h
    output = np.zeros(query.shape, dtype=query.dtype) + params["b_o"]
    for head in range(h):
        own = slice(head * d_k, (head + 1) * d_k)
        q = query @ params["w_q"][:, own] + params["b_q"][own]
        k = key @ params["w_k"][:, own]
        v = value @ params["w_v"][:, own] + params["b_v"][own]
        found, _ = attention(q, k, v, mask)
        output = output + found @ params["w_o"][own]
    return output
