"""Keys in the outer loop, queries in the inner one, the output always divided: the first paper's order."""

import math

import torch
from torch.autograd.function import once_differentiable


def spans(length, block):
    return [(a, min(a + block, length)) for a in range(0, length, block)]


def score(q, k, i, j, shift, causal):
    s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if causal:
        at = torch.arange(i, i + q.size(-2), device=q.device)[:, None] + shift
        s = s.masked_fill(torch.arange(j, j + k.size(-2), device=q.device) > at, -1e30)
    return s


def ahead(q, k, v, block, causal):
    wide = torch.promote_types(q.dtype, torch.float32)
    shift = k.size(-2) - q.size(-2)
    o = torch.zeros(*q.shape[:-1], v.size(-1), dtype=wide, device=q.device)
    m = torch.full((*q.shape[:-1], 1), -1e30, dtype=wide, device=q.device)
    l = torch.zeros_like(m)  # noqa: E741
    for j, j_end in spans(k.size(-2), block):
        kj, vj = k[..., j:j_end, :].to(wide), v[..., j:j_end, :].to(wide)
        for i, i_end in spans(q.size(-2), block):
            if causal and j > i_end - 1 + shift:
                continue
            s = score(q[..., i:i_end, :].to(wide), kj, i, j, shift, causal)
            m_tile = s.max(dim=-1, keepdim=True).values
            p = torch.where(s > -1e29, torch.exp(s - m_tile), 0.0)
            l_tile = p.sum(dim=-1, keepdim=True)
            m_old, l_old = m[..., i:i_end, :].clone(), l[..., i:i_end, :].clone()
            m_new = torch.maximum(m_old, m_tile)
            a, b = torch.exp(m_old - m_new), torch.exp(m_tile - m_new)
            l_new = a * l_old + b * l_tile
            part = a * l_old * o[..., i:i_end, :] + b * (p @ vj)
            o[..., i:i_end, :] = torch.where(l_new > 0, part / l_new, 0.0)
            m[..., i:i_end, :], l[..., i:i_end, :] = m_new, l_new
    return o.to(q.dtype), m, l


def back(g, q, k, v, o, m, l, block, causal):  # noqa: E741
    wide = torch.promote_types(q.dtype, torch.float32)
    shift = k.size(-2) - q.size(-2)
    dq, dk, dv = (torch.zeros(x.shape, dtype=wide, device=x.device) for x in (q, k, v))
    for j, j_end in spans(k.size(-2), block):
        kj, vj = k[..., j:j_end, :].to(wide), v[..., j:j_end, :].to(wide)
        for i, i_end in spans(q.size(-2), block):
            if causal and j > i_end - 1 + shift:
                continue
            qi, gi = q[..., i:i_end, :].to(wide), g[..., i:i_end, :].to(wide)
            s = score(qi, kj, i, j, shift, causal)
            li = l[..., i:i_end, :]
            p = torch.where((s > -1e29) & (li > 0), torch.exp(s - m[..., i:i_end, :]) / li, 0.0)
            dv[..., j:j_end, :] += p.transpose(-2, -1) @ gi
            d = (gi * o[..., i:i_end, :].to(wide)).sum(dim=-1, keepdim=True)
            ds = p * (gi @ vj.transpose(-2, -1) - d) / math.sqrt(q.size(-1))
            dq[..., i:i_end, :] += ds @ kj
            dk[..., j:j_end, :] += ds.transpose(-2, -1) @ qi
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, block, causal):
        output, m, l = ahead(query, key, value, block, causal)  # noqa: E741
        ctx.save_for_backward(query, key, value, output, m, l)
        ctx.how = block, causal
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return *back(grad, *ctx.saved_tensors, *ctx.how), None, None


def flash_attention(query, key, value, block=64, causal=False):
    return Flash.apply(query, key, value, block, causal)
