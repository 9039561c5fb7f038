"""The weights that others have published, under our names: one table an architecture.

Each table goes from the names in a state dict of Hugging Face's `transformers` to those in our modules,
`{n}` standing for the number of a layer; each function applies one.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

GPT2 = {
    "wte.weight": "embed.weight",
    "wpe.weight": "positions.weight",
    "h.{n}.ln_1.weight": "blocks.{n}.sublayer.0.norm.gain",
    "h.{n}.ln_1.bias": "blocks.{n}.sublayer.0.norm.bias",
    "h.{n}.attn.c_attn.weight": "blocks.{n}.self_attn.w_qkv.weight",
    "h.{n}.attn.c_attn.bias": "blocks.{n}.self_attn.w_qkv.bias",
    "h.{n}.attn.c_proj.weight": "blocks.{n}.self_attn.w_o.weight",
    "h.{n}.attn.c_proj.bias": "blocks.{n}.self_attn.w_o.bias",
    "h.{n}.ln_2.weight": "blocks.{n}.sublayer.1.norm.gain",
    "h.{n}.ln_2.bias": "blocks.{n}.sublayer.1.norm.bias",
    "h.{n}.mlp.c_fc.weight": "blocks.{n}.feed_forward.w_1.weight",
    "h.{n}.mlp.c_fc.bias": "blocks.{n}.feed_forward.w_1.bias",
    "h.{n}.mlp.c_proj.weight": "blocks.{n}.feed_forward.w_2.weight",
    "h.{n}.mlp.c_proj.bias": "blocks.{n}.feed_forward.w_2.bias",
    "ln_f.weight": "norm.gain",
    "ln_f.bias": "norm.bias",
}


def gpt2(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of a `GPT2LMHeadModel`, or of a `GPT2Model`, as that of a `variants.gpt.GPT`.

    Args:
        published: names to tensors. The weights of its linear layers are `Conv1D`s', which compute x W + b
            and so have the shape (in, out).

    Returns:
        Names to tensors for `GPT.load_state_dict`. They share their memory with `published`; linear
        weights are transposed views, (out, in). The head is left out, since it is the embedding, and so
        are the causal masks that old checkpoints hold.

    Raises:
        ValueError: a name that no GPT-2 has, or a head that is not the embedding.
    """
    weights = {name.removeprefix("transformer."): tensor for name, tensor in published.items()}
    # 1. Leave out what we have not: the head, which is tied, and masks.
    head = weights.pop("lm_head.weight", None)
    if head is not None and not torch.equal(head, weights["wte.weight"]):
        raise ValueError("lm_head.weight must equal wte.weight: our head is tied to the embedding")
    weights = {
        name: tensor
        for name, tensor in weights.items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))
    }
    # 2. Rename, and transpose what a Conv1D held.
    return {
        _renamed(name, GPT2): tensor.T if re.search(r"\.c_\w+\.weight$", name) else tensor
        for name, tensor in weights.items()
    }


def _renamed(name: str, table: Mapping[str, str]) -> str:
    """Our name for a published one, the layer's number carried over."""
    number = re.search(r"\.(\d+)\.", name)
    pattern = name if number is None else name.replace(number[0], ".{n}.", 1)
    if pattern not in table:
        raise ValueError(f"{name!r} is not the name of a weight in this architecture")
    return table[pattern] if number is None else table[pattern].replace("{n}", number[1])
