"""A block of its own: torch's fused kernel between what complex numbers have turned."""

import torch
import torch.nn.functional as F
from torch import nn

from variants.llama import LLaMABlock
from variants.norms import RMSNorm


def turned(x, angles):
    """Feature i and feature i + d_k/2 are one complex number."""
    wide = torch.promote_types(x.dtype, torch.float32)
    real, imaginary = x.to(wide).chunk(2, dim=-1)
    turn = torch.polar(torch.ones_like(angles), angles)
    turn = turn.to(torch.complex128 if wide == torch.float64 else torch.complex64)
    numbers = torch.complex(real.contiguous(), imaginary.contiguous()) * turn
    return torch.cat([numbers.real, numbers.imag], dim=-1).to(x.dtype)


class OwnBlock(LLaMABlock):
    def attend(self, x, cache, layer):
        attention, past = self.self_attn, 0 if cache is None else cache.length
        angles = attention.angles[past : past + x.size(1)].to(x.device)
        query, key, value = attention.project(x)
        query, key = turned(query, angles), turned(key, angles)
        if cache is not None:
            key, value = cache.update(layer, key, value)
        t_q, t_k = query.size(2), key.size(2)
        seen = torch.ones(t_k, t_k, dtype=torch.bool, device=x.device).tril()[t_k - t_q :]
        heads = F.scaled_dot_product_attention(query, key, value, seen, enable_gqa=True)
        return attention.w_o(heads.transpose(1, 2).reshape(x.shape))

    def forward(self, x, cache=None, layer=0):
        x = x + self.attend(self.attention_norm(x), cache, layer)
        inner, network = self.ffn_norm(x), self.feed_forward
        return x + network.w_down(F.silu(network.w_gate(inner)) * network.w_up(inner))


class LLaMA(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        half = config.d_model // config.n_heads // 2
        power = torch.arange(half, dtype=torch.float64, device="cpu") / half
        place = torch.arange(config.context, dtype=torch.float64, device="cpu")
        angles = place[:, None] * torch.exp(
            -power * torch.tensor(config.base, device="cpu").double().log()
        )
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.blocks = nn.ModuleList([OwnBlock(config, angles) for _ in range(config.n_layers)])
        self.norm = RMSNorm(config.d_model, config.eps)
        self.head = nn.Linear(config.d_model, config.vocab, bias=False)
        for name, parameter in self.named_parameters():
            if not name.endswith("gain"):
                nn.init.normal_(parameter, 0.0, 0.02)

    def forward(self, tokens, cache=None):
        x = self.embed(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        return F.linear(self.norm(x), self.head.weight)
