"""Everything by einsum, chunks of sixteen side by side; the mask from two triangles."""

import torch
import torch.nn.functional as F


def linear_attention(query, key, value, causal=False):
    dtype = value.dtype
    if dtype != torch.float64:
        query, key, value = query.float(), key.float(), value.float()
    # elu(x) + 1, with e^x where elu is e^x − 1
    q = F.relu(query) + torch.exp(-F.relu(-query))
    k = F.relu(key) + torch.exp(-F.relu(-key))
    if not causal:
        numerator = torch.einsum(
            "...qk,...kv->...qv", q, torch.einsum("...tk,...tv->...kv", k, value)
        )
        denominator = torch.einsum("...qk,...k->...q", q, k.sum(-2))
    else:
        t, c = key.shape[-2], 16
        rest = (c - t % c) % c
        filled = [
            torch.cat([x, x.new_zeros(*x.shape[:-2], rest, x.shape[-1])], -2) for x in (q, k, value)
        ]
        q, k, v = (x.reshape(*x.shape[:-2], (t + rest) // c, c, x.shape[-1]) for x in filled)
        scores = torch.einsum("...nqk,...ntk->...nqt", q, k)
        scores = scores * torch.ones(c, c, dtype=scores.dtype, device=scores.device).tril()
        states = torch.einsum("...ntk,...ntv->...nkv", k, v)
        sums = k.sum(-2)
        states = torch.cat([torch.zeros_like(states[..., :1, :, :]), states], -3).cumsum(-3)
        sums = torch.cat([torch.zeros_like(sums[..., :1, :]), sums], -2).cumsum(-2)
        n = q.shape[-3]
        numerator = torch.einsum("...nqt,...ntv->...nqv", scores, v)
        numerator = numerator + torch.einsum("...nqk,...nkv->...nqv", q, states[..., :n, :, :])
        denominator = scores.sum(-1) + torch.einsum("...nqk,...nk->...nq", q, sums[..., :n, :])
        numerator = numerator.flatten(-3, -2)[..., :t, :]
        denominator = denominator.flatten(-2)[..., :t]
    empty = (denominator == 0).to(denominator.dtype)
    return (numerator / (denominator + empty).unsqueeze(-1)).to(dtype)


def sliding_window_mask(size, window, global_tokens=0):
    everything = torch.ones(1, size, size, dtype=torch.bool)
    mask = everything.tril(window) & everything.triu(-window)
    mask[:, :global_tokens] = True
    mask[:, :, :global_tokens] = True
    return mask
