"""Torch's own attention, layers and Transformer, with the weights of `implementation.py` copied over.

Torch's masks mean *hidden*, ours *may be attended to*; torch holds the three projections of attention
in one block. One table of names serves both ways: `copied` writes our weights into torch's module, and
`gradients` reads its gradients under our names.
"""

import re

import torch
from torch import Tensor, nn

NAMES = {
    "multihead_attn": "src_attn",
    "out_proj": "w_o",
    "linear1": "feed_forward.w_1",
    "linear2": "feed_forward.w_2",
    "norm1": "sublayer.0.norm",
    "norm2": "sublayer.1.norm",
    "norm3": "sublayer.2.norm",
    "norm.weight": "norm.gain",
    "source.weight": "src_embed.0.lut.weight",
    "target.weight": "tgt_embed.0.lut.weight",
    "output": "generator.proj",
}


def renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Torch's tensors under our names; a block of three projections becomes three views of it."""
    ours = {}
    for name, tensor in tensors.items():
        for theirs, our in NAMES.items():
            name = re.sub(rf"\b{re.escape(theirs)}\b", our, name)
        block = re.fullmatch(r"(.*)in_proj_(weight|bias)", name)
        if block:
            parts = zip("qkv", tensor.chunk(3), strict=True)
            ours |= {f"{block[1]}w_{letter}.{block[2]}": part for letter, part in parts}
        else:
            ours[name] = tensor
    return ours


def copied(ours: nn.Module, theirs: nn.Module) -> nn.Module:
    """Torch's module with our weights: each of ours has its place there, and nothing is left over."""
    parameters, weights = renamed(dict(theirs.named_parameters())), dict(ours.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    return theirs


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """The gradient of every parameter, under our names."""
    return renamed({name: parameter.grad for name, parameter in module.named_parameters()})


def randomized(module: nn.Module) -> nn.Module:
    """The module with no parameter left at 0 or 1, and no two layers alike: what is copied shows."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return module


def hidden(mask: Tensor | None, rows: int, h: int, t_q: int) -> Tensor | None:
    """Our mask `(1|B, 1|T_q, T_k)` as torch's attn_mask, `(B · h, T_q, T_k)`, True where *hidden*."""
    if mask is None:
        return None
    return ~mask.expand(rows, t_q, -1).repeat_interleave(h, dim=0)


def torch_encoder(d_model, h, d_ff, norm, n):
    """A stack, which has a norm at its end in pre-norm only: nn.Transformer would always have one."""
    layer = nn.TransformerEncoderLayer(
        d_model, h, d_ff, dropout=0.0, batch_first=True, norm_first=norm == "pre"
    )
    final = nn.LayerNorm(d_model) if norm == "pre" else None
    return nn.TransformerEncoder(layer, n, final, enable_nested_tensor=False)


def torch_decoder(d_model, h, d_ff, norm, n):
    """The same for the decoder."""
    layer = nn.TransformerDecoderLayer(
        d_model, h, d_ff, dropout=0.0, batch_first=True, norm_first=norm == "pre"
    )
    final = nn.LayerNorm(d_model) if norm == "pre" else None
    return nn.TransformerDecoder(layer, n, final)


def assert_same_gradients(ours, theirs, rename):
    """Every parameter has the gradient that a published model has; `rename` gives its names as ours."""
    actual, expected = (
        {name: parameter.grad for name, parameter in model.named_parameters()}
        for model in (ours, theirs)
    )
    assert_agree(actual, rename(expected))


def assert_agree(actual, expected):
    """Tensors, or tuples or dicts of them, of the same dtype and shape, agree to 1e-10."""
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
