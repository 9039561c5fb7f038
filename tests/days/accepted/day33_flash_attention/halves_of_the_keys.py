"""Attention to half of the keys, to the other half, and the two weighed by their log-sum-exp."""

import torch
from torch.autograd.function import once_differentiable


def merged(q, k, v, block, first, last_seen):
    """Output and log-sum-exp over some keys, by halves until they fit into a tile."""
    if k.size(-2) > block:
        half = (k.size(-2) + 1) // 2
        one, lse = merged(q, k[..., :half, :], v[..., :half, :], block, first, last_seen)
        two, lse_two = merged(q, k[..., half:, :], v[..., half:, :], block, first + half, last_seen)
        both = torch.logaddexp(lse, lse_two)
        some = both > -torch.inf
        share = (
            torch.where(some, (lse - both).exp(), 0.0),
            torch.where(some, (lse_two - both).exp(), 0.0),
        )
        return one * share[0] + two * share[1], both
    scores = tile(q, k, first, last_seen)
    lse = scores.logsumexp(-1, keepdim=True)
    weights = torch.where(lse > -torch.inf, (scores - lse).exp(), 0.0)
    return weights @ v.to(q.dtype), lse


def tile(q, k, first, last_seen):
    scores = torch.einsum("...id,...jd->...ij", q, k.to(q.dtype))
    if last_seen is not None:
        place = torch.arange(first, first + k.size(-2), device=q.device)
        scores = scores.masked_fill(place > last_seen.unsqueeze(-1), -torch.inf)
    return scores


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, block, causal):
        wide = torch.promote_types(query.dtype, torch.float32)
        last = torch.arange(query.size(-2), device=query.device) + key.size(-2) - query.size(-2)
        outs = [query.new_zeros(*query.shape[:-2], 0, value.size(-1))]
        sums = [query.new_zeros(*query.shape[:-2], 0, 1, dtype=wide)]
        for start in range(0, query.size(-2), block):
            rows = slice(start, start + block)
            q = query[..., rows, :].to(wide) * query.size(-1) ** -0.5
            out, lse = merged(q, key, value, block, 0, last[rows] if causal else None)
            outs.append(out.to(query.dtype))
            sums.append(lse)
        ctx.block, ctx.last = block, last if causal else None
        output = torch.cat(outs, dim=-2)
        ctx.save_for_backward(query, key, value, output, torch.cat(sums, dim=-2))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        query, key, value, output, sums = ctx.saved_tensors
        scale, block = query.size(-1) ** -0.5, ctx.block
        grads = [torch.zeros_like(x, dtype=sums.dtype) for x in (query, key, value)]
        for start in range(0, query.size(-2), block):
            rows = slice(start, start + block)
            q, g = query[..., rows, :].to(sums.dtype) * scale, grad[..., rows, :].to(sums.dtype)
            lse = sums[..., rows, :]
            for first in range(0, key.size(-2), block):
                here = slice(first, first + block)
                k, v = key[..., here, :].to(sums.dtype), value[..., here, :].to(sums.dtype)
                scores = tile(q, k, first, None if ctx.last is None else ctx.last[rows])
                weights = torch.where(scores > -torch.inf, (scores - lse).exp(), 0.0)
                towards = torch.einsum("...if,...jf->...ij", g, v)
                mean = (g * output[..., rows, :]).sum(-1, keepdim=True)
                slope = weights * (towards - mean)
                grads[0][..., rows, :] += slope @ k * scale
                grads[1][..., here, :] += torch.einsum("...ij,...id->...jd", slope, q)
                grads[2][..., here, :] += torch.einsum("...ij,...if->...jf", weights, g)
        return *(x.to(query.dtype) for x in grads), None, None


def flash_attention(query, key, value, block=64, causal=False):
    return Attention.apply(query, key, value, block, causal)
