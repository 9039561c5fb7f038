"""One query at a time, over the keys that it may attend to."""

import math

import numpy as np


def attention(query, key, value, mask=None):
    batch, t_q, t_k = query.shape[:-2], query.shape[-2], key.shape[-2]
    allowed = np.broadcast_to(True if mask is None else mask, (*batch, t_q, t_k))
    weights = np.zeros((*batch, t_q, t_k), dtype=query.dtype)
    output = np.zeros((*batch, t_q, value.shape[-1]), dtype=query.dtype)
    for place in np.ndindex(*batch, t_q):
        keep = np.flatnonzero(allowed[place])
        if len(keep) == 0:
            continue
        scores = np.array([query[place] @ key[place[:-1]][k] for k in keep]) / math.sqrt(
            query.shape[-1]
        )
        exponentials = np.exp(scores - scores.max())
        weights[place][keep] = exponentials / exponentials.sum()
        for k in keep:
            output[place] += weights[place][k] * value[place[:-1]][k]
    return output, weights
