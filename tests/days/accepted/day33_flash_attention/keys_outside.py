"""One loop over blocks of keys, all queries at once; an autograd Function at the top of the file."""

import torch


def visible(t_q, columns, t_k, device):
    place = torch.arange(t_q, device=device)[:, None] + t_k - t_q
    return torch.arange(columns.start, columns.stop, device=device)[None] <= place


def cut(t_k, block):
    return [slice(i, min(i + block, t_k)) for i in range(0, t_k, block)]


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, block, causal):
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        qs = q.to(wide) / q.shape[-1] ** 0.5
        t_q, t_k = q.shape[-2], k.shape[-2]
        top = torch.full((*q.shape[:-1],), float("-inf"), dtype=wide, device=q.device)
        total = torch.zeros_like(top)
        out = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=wide, device=q.device)
        for columns in cut(t_k, block):
            s = torch.einsum("...qd,...kd->...qk", qs, k[..., columns, :].to(wide))
            if causal:
                s = s.masked_fill(~visible(t_q, columns, t_k, q.device), float("-inf"))
            new = torch.maximum(top, s.amax(-1))
            safe = torch.where(new == float("-inf"), 0.0, new)
            p = torch.exp(s - safe[..., None])
            old = torch.exp(top - safe)
            total = total * old + p.sum(-1)
            out = out * old[..., None] + p @ v[..., columns, :].to(wide)
            top = new
        some = total > 0
        out = torch.where(some[..., None], out / torch.where(some, total, 1.0)[..., None], 0.0)
        lse = torch.where(some, top + total.log(), 0.0)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = block, causal, wide
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        block, causal, wide = ctx.how
        t_q, t_k = q.shape[-2], k.shape[-2]
        scale = q.shape[-1] ** -0.5
        g = grad.to(wide)
        mean = (g * out.to(wide)).sum(-1, keepdim=True)
        dq = torch.zeros_like(q, dtype=wide)
        dk, dv = (
            [k.new_zeros(*k.shape[:-2], 0, k.shape[-1])],
            [v.new_zeros(*v.shape[:-2], 0, v.shape[-1])],
        )
        for columns in cut(t_k, block):
            kb, vb = k[..., columns, :].to(wide), v[..., columns, :].to(wide)
            p = torch.exp(q.to(wide) @ kb.transpose(-1, -2) * scale - lse[..., None])
            if causal:
                p = torch.where(visible(t_q, columns, t_k, q.device), p, 0.0)
            ds = p * (g @ vb.transpose(-1, -2) - mean)
            dq += ds @ kb * scale
            dk.append((ds.transpose(-1, -2) @ q.to(wide) * scale).to(k.dtype))
            dv.append((p.transpose(-1, -2) @ g).to(v.dtype))
        return dq.to(q.dtype), torch.cat(dk, -2), torch.cat(dv, -2), None, None


def flash_attention(query, key, value, block=64, causal=False):
    return Flash.apply(query, key, value, block, causal)
