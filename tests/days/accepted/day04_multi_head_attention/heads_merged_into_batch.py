"""Batch and heads as one axis of B·h sequences, the mask repeated for each; −∞ with care for empty rows."""

import math

import numpy as np


def split_heads(x, h):
    return np.ascontiguousarray(x.reshape(*x.shape[:2], h, -1).transpose(0, 2, 1, 3))


def join_heads(x):
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


def project(x, params, name):
    return np.dot(x, params[f"w_{name}"]) + params[f"b_{name}"]


def multi_head_attention(query, key, value, params, h, mask=None):
    batch, t_q, d_model = query.shape
    d_k = d_model // h
    q = split_heads(project(query, params, "q"), h).reshape(batch * h, t_q, d_k)
    k, v = (
        split_heads(project(x, params, name), h).reshape(batch * h, x.shape[1], d_k)
        for x, name in ((key, "k"), (value, "v"))
    )
    scores = (q / math.sqrt(d_k)) @ k.transpose(0, 2, 1)
    if mask is not None:
        every = np.broadcast_to(mask, (batch, t_q, key.shape[1])).repeat(h, axis=0)
        scores = np.where(every, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        exponentials = np.nan_to_num(np.exp(scores - scores.max(axis=-1, keepdims=True)))
    total = exponentials.sum(axis=-1, keepdims=True)
    heads = (exponentials @ v) / np.where(total == 0, 1, total)
    return project(join_heads(heads.reshape(batch, h, t_q, d_k)), params, "o")
