"""Every head at once by Einstein sums: the matrices are cut into heads, never the vectors."""

import numpy as np

from numpy_reference import softmax


def split_heads(x, h):
    return np.stack(np.split(x, h, axis=-1), axis=1)


def join_heads(x):
    return np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1)


def multi_head_attention(query, key, value, params, h, mask=None):
    d_model = query.shape[-1]
    d_k = d_model // h
    w_q, w_k, w_v = (params[name].reshape(d_model, h, d_k) for name in ("w_q", "w_k", "w_v"))
    b_q, b_k, b_v = (params[name].reshape(h, 1, d_k) for name in ("b_q", "b_k", "b_v"))
    q = np.einsum("btm,mhd->bhtd", query, w_q) + b_q
    k = np.einsum("btm,mhd->bhtd", key, w_k) + b_k
    v = np.einsum("btm,mhd->bhtd", value, w_v) + b_v
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * d_k**-0.5
    if mask is not None:
        mask = np.expand_dims(mask, 1)
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    weights = softmax(scores)
    if mask is not None:
        weights = weights * mask
    return (
        np.einsum("bhqk,bhkd,hdm->bqm", weights, v, params["w_o"].reshape(h, d_k, d_model))
        + params["b_o"]
    )
