"""One vector after the other, with sums written out, and attention in loops over heads and queries."""

import math

import numpy as np


def layer_norm(x, gain, bias, eps=1e-5):
    normed = np.empty_like(x)
    for place in np.ndindex(*x.shape[:-1]):
        vector = x[place]
        n = len(vector)
        mean = sum(vector) / n
        variance = sum((feature - mean) ** 2 for feature in vector) / n
        for i in range(n):
            normed[place][..., i] = (
                gain[i] * (vector[i] - mean) / math.sqrt(variance + eps) + bias[i]
            )
    return normed


def feed_forward(x, w_1, b_1, w_2, b_2):
    output = np.zeros(x.shape, dtype=x.dtype) + b_2
    for unit in range(len(b_1)):
        hidden = x @ w_1[:, unit] + b_1[unit]
        hidden = hidden * (hidden > 0)
        output = output + hidden[..., None] * w_2[unit]
    return output


def encoder_layer(x, params, h, mask=None):
    batch, time, d_model = x.shape
    d_k = d_model // h
    allowed = np.ones((batch, time, time), dtype=bool) & (True if mask is None else mask)
    q, k, v = (x @ params[f"w_{name}"] + params[f"b_{name}"] for name in "qkv")
    joined = np.zeros_like(x)
    for b, head, t in np.ndindex(batch, h, time):
        own = slice(head * d_k, (head + 1) * d_k)
        keys = np.flatnonzero(allowed[b, t])
        if len(keys):
            scores = k[b, keys, own] @ q[b, t, own] / math.sqrt(d_k)
            exponentials = np.exp(scores - scores.max())
            joined[b, t, own] = exponentials @ v[b, keys, own] / exponentials.sum()
    attended = joined @ params["w_o"] + params["b_o"]
    x = layer_norm(attended + x, params["gain_1"], params["bias_1"])
    thought = feed_forward(x, params["w_1"], params["b_1"], params["w_2"], params["b_2"])
    return layer_norm(thought + x, params["gain_2"], params["bias_2"])
