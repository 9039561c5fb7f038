"""The attention weights of the layers of a language model.

The paper's attention stores its weights. For GPT-2 and LLaMA, they are recomputed from the input of
the attention, by the names of its projections, so that this also works for a learner's own parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from implementation import attention
from training.models.architectures import Model, layers
from training.models.cached_decoding import split
from variants.rope import apply_rope


@torch.no_grad()
def self_attention(model: Model, tokens: Tensor) -> list[Tensor]:
    """Return the weights `(h, T, T)` of each layer of a language model, for one text `(1, T)`."""
    modules: list[Any] = [layer.self_attn for layer in layers(model)]
    with _what_enters(modules) as entered:
        model(tokens)
    if not hasattr(model, "config"):
        return [module.weights[0].cpu() for module in modules]
    return [
        _weights(*_queries_and_keys(module, x, model.config))[0].cpu()
        for module, x in zip(modules, entered, strict=True)
    ]


@contextmanager
def _what_enters(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """The first argument of each module's next call, in the order of the calls."""
    entered: list[Tensor] = []
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
        for module in modules
    ]
    try:
        yield entered
    finally:
        for hook in hooks:
            hook.remove()


def _queries_and_keys(module: Any, x: Tensor, config: Any) -> tuple[Tensor, Tensor]:
    """`(1, h, T, d_k)` each, as GPT-2 or LLaMA compares them."""
    if hasattr(module, "w_qkv"):
        query, key, _ = module.w_qkv(x).chunk(3, dim=-1)  # (1, T, d_model)
        return split(query, config.n_heads), split(key, config.n_heads)
    angles = module.angles[: x.size(1)]  # which may be stretched
    query = apply_rope(split(module.w_q(x), config.n_heads), angles, layout="halves")
    key = apply_rope(split(module.w_k(x), config.n_kv_heads), angles, layout="halves")
    return query, key.repeat_interleave(config.n_heads // config.n_kv_heads, dim=1)


def _weights(query: Tensor, key: Tensor) -> Tensor:
    size = query.size(2)
    earlier = torch.ones(1, size, size, dtype=torch.bool, device=query.device).tril()
    return attention(query, key, key, earlier)[1]
