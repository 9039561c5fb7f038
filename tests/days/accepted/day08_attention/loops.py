"""One query after the other, each over the keys it may attend to, with exponentials written out."""

import itertools
import math

import torch


def attention(query, key, value, mask=None, dropout=None):
    batch, (t_q, d_k), t_k = query.shape[:-2], query.shape[-2:], key.shape[-2]
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    allowed = torch.ones(*batch, t_q, t_k, dtype=torch.bool, device=query.device)
    if mask is not None:
        allowed = allowed & mask
    rows = []
    for place in itertools.product(*(range(size) for size in (*batch, t_q))):
        keys = torch.nonzero(allowed[place]).flatten()
        row = torch.zeros(t_k, dtype=wide, device=query.device)
        if len(keys):
            scores = (key[place[:-1]][keys].to(wide) * query[place].to(wide)).sum(-1) / math.sqrt(
                d_k
            )
            exponentials = torch.exp(scores - scores.max().detach())
            row = row.index_put((keys,), exponentials / exponentials.sum())
        rows.append(row.to(query.dtype))
    weights = torch.stack(rows).reshape(*batch, t_q, t_k)
    if dropout:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights
