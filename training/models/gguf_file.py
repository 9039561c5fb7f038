"""A LLaMA in one GGUF file, the format of llama.cpp, with sizes, weights, tokenizer and chat
template.

The file is data: nothing in it is executed. Its weights are read row by row into float32, whatever
their type.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
import torch
from torch import Tensor

from training.data.lfs_pointers import refuse_a_pointer
from training.errors import Refused
from training.models.gguf_tokenizer import tokenizer_of
from variants.llama import LLaMAConfig
from variants.rope_scaling import linear_divisors

ENDING = ".gguf"
MAGIC = b"GGUF"
TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
AT_ONCE = 2**20  # numbers that are dequantized in one step

NAMES = {
    "token_embd.weight": "embed.weight",
    "output_norm.weight": "norm.gain",
    "output.weight": "head.weight",
}
LAYER_NAMES = {
    "attn_norm.weight": "attention_norm.gain",
    "attn_q.weight": "self_attn.w_q.weight",
    "attn_k.weight": "self_attn.w_k.weight",
    "attn_v.weight": "self_attn.w_v.weight",
    "attn_output.weight": "self_attn.w_o.weight",
    "ffn_norm.weight": "ffn_norm.gain",
    "ffn_gate.weight": "feed_forward.w_gate.weight",
    "ffn_up.weight": "feed_forward.w_up.weight",
    "ffn_down.weight": "feed_forward.w_down.weight",
}
FACTORS = "rope_freqs.weight"  # what llama.cpp divides the angles of each pair by


@dataclass(frozen=True)
class LlamaFile:
    """The contents of a file, for our class."""

    config: LLaMAConfig
    weights: dict[str, Tensor]
    divisors: Tensor | None
    """Of the angles, where they are stretched."""
    tokenizer: tokenizers.Tokenizer
    ends: frozenset[int]
    template: str | None
    """The chat template, in the language of Jinja."""
    specials: dict[str, str]
    """`bos_token` and `eos_token`, for the template."""


def read(path: Path) -> LlamaFile:
    """Read a file of the LLaMA family.

    Raises:
        Refused: the file is not GGUF, damaged or truncated, or its model is one that our class does
            not compute.
    """
    refuse_a_pointer(path)
    try:
        with path.open("rb") as handle:
            if handle.read(len(MAGIC)) != MAGIC:
                raise Refused(f"{path} is not a GGUF file: it does not begin with {MAGIC.decode()}")
        reader = gguf.GGUFReader(path)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        reader.fields.clear()  # one small array for each token and merge
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from error
    except Refused:
        raise
    except Exception as error:  # the library checks little, and raises whatever comes of it
        raise Refused(f"{path} is damaged or truncated: {error}") from error
    try:
        return _llama(reader, _Facts(facts))
    except (Refused, ValueError) as error:
        raise Refused(f"{path}: {error}") from error


class _Facts:
    """The metadata of a file."""

    def __init__(self, facts: Mapping[str, Any]):
        self._facts = facts

    def get(self, key: str, default: Any = None) -> Any:
        return self._facts.get(key, default)

    def size(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]  # some writers give one number for each layer
        if type(value) is not int or value < 1:
            raise Refused(f"{key} must be a whole number above 0, got {value!r}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float) or not (math.isfinite(value) and value > 0):
            raise Refused(f"{key} must be a number above 0, got {value!r}")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str | None:
        value = self.get(key, default)
        if value is not None and not isinstance(value, str):
            raise Refused(f"{key} must be a text, got {value!r}")
        return value


def _llama(reader: gguf.GGUFReader, facts: _Facts) -> LlamaFile:
    tensors = reader.tensors
    architecture = facts.text("general.architecture")
    if architecture != "llama":
        raise Refused(
            f"the architecture is {architecture!r}: our class for GGUF files is that of 'llama'"
        )
    if facts.get("llama.expert_count"):
        raise Refused(
            f"a mixture of {facts.get('llama.expert_count')} experts: our LLaMA has one feed-forward "
            "network in each layer"
        )
    if facts.get("split.count", 1) > 1:
        raise Refused(
            f"one of {facts.get('split.count')} parts of a model: join them with "
            "`llama-gguf-split --merge`"
        )
    shapes = {tensor.name: tuple(reversed(tensor.shape.tolist())) for tensor in tensors}
    if len(shape := shapes.get("token_embd.weight", ())) != 2:
        raise Refused("there is no matrix token_embd.weight, the embedding")
    config = _config(facts, vocab=shape[0])
    tokenizer = tokenizer_of(facts.get)
    return LlamaFile(
        config,
        _weights(reader, config),
        _divisors(tensors, facts, config.d_model // config.n_heads),
        tokenizer,
        _ends(facts),
        facts.text("tokenizer.chat_template"),
        {
            f"{name}_token": tokenizer.id_to_token(number) or ""
            for name in ("bos", "eos")
            if type(number := facts.get(f"tokenizer.ggml.{name}_token_id")) is int
        },
    )


def _config(facts: _Facts, vocab: int) -> LLaMAConfig:
    heads = facts.size("llama.attention.head_count")
    width = facts.size("llama.embedding_length")
    if width % heads:
        raise Refused(f"head_count must divide embedding_length, got {heads} and {width}")
    for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        if (length := facts.size(f"llama.{key}", width // heads)) != width // heads:
            raise Refused(
                f"llama.{key} is {length}, and our class computes "
                f"embedding_length / head_count = {width // heads} alone"
            )
    return LLaMAConfig(
        vocab=vocab,
        context=facts.size("llama.context_length"),
        n_layers=facts.size("llama.block_count"),
        n_heads=heads,
        n_kv_heads=facts.size("llama.attention.head_count_kv", heads),
        d_model=width,
        d_ff=facts.size("llama.feed_forward_length"),
        eps=facts.number("llama.attention.layer_norm_rms_epsilon"),
        base=facts.number("llama.rope.freq_base", 10000.0),
    )


def _divisors(tensors: list[gguf.ReaderTensor], facts: _Facts, head_dim: int) -> Tensor | None:
    """What the angles are divided by: LLaMA 3's are a tensor of their own, linear ones a number."""
    for tensor in tensors:
        if tensor.name == FACTORS:
            divisors = _dequantized(tensor).double()
            if divisors.shape != (head_dim // 2,) or not (divisors > 0).all():
                raise Refused(f"{FACTORS} must be {head_dim // 2} numbers above 0")
            return divisors
    kind = facts.text("llama.rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise Refused(f"llama.rope.scaling.type is {kind!r}: our class computes none and linear")
    if kind == "none":
        return None
    return linear_divisors(head_dim, facts.number("llama.rope.scaling.factor"))


def _ends(facts: _Facts) -> frozenset[int]:
    """The tokens with which a text, or a turn of a chat, ends."""
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return frozenset(end for key in keys if type(end := facts.get(key)) is int)


# --- Weights --------------------------------------------------------------------------------------


def _weights(reader: gguf.GGUFReader, config: LLaMAConfig) -> dict[str, Tensor]:
    """The weights by our names. A head that is missing is the embedding."""
    weights: dict[str, Tensor] = {}
    for tensor in reader.tensors:
        if tensor.name == FACTORS:
            continue
        name = _our_name(tensor.name)
        weight = _dequantized(tensor)
        if name.endswith(("w_q.weight", "w_k.weight")):
            heads = config.n_heads if name.endswith("w_q.weight") else config.n_kv_heads
            weight = in_halves(weight, heads, tensor.name)
        weights[name] = weight
        _let_go(reader)
    weights.setdefault("head.weight", weights["embed.weight"])
    return weights


def _let_go(reader: gguf.GGUFReader) -> None:
    """Give the pages of the file that were read back to the system, where it takes advice."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        reader.data._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def _our_name(name: str) -> str:
    block, _, rest = name.partition(".")
    number, _, part = rest.partition(".")
    if name in NAMES:
        return NAMES[name]
    if block == "blk" and number.isdecimal() and part in LAYER_NAMES:
        return f"blocks.{number}.{LAYER_NAMES[part]}"
    raise Refused(f"{name!r} is not the name of a weight in our LLaMA")


def in_halves(weight: Tensor, heads: int, name: str = "the matrix") -> Tensor:
    """Return the rows of a query or key projection in the layout "halves", as Hugging Face has
    them.

    llama.cpp rotates neighboring features, 2i and 2i + 1, so its conversion permutes the rows:
    features i and i + d_k/2 of each head become neighbors. This is the inverse permutation.
    """
    if weight.dim() != 2 or len(weight) % (2 * heads):
        raise Refused(f"{name} must have an even number of rows for each of {heads} heads")
    pairs = weight.view(heads, len(weight) // heads // 2, 2, weight.size(1))
    return pairs.transpose(1, 2).reshape(weight.shape)


def _dequantized(tensor: gguf.ReaderTensor) -> Tensor:
    """A tensor in float32, a few rows at a time: little more memory is in use than what comes of it."""
    if tensor.tensor_type.name not in TYPES:
        raise Refused(
            f"{tensor.name} is of type {tensor.tensor_type.name}: {', '.join(TYPES)} are read"
        )
    weight = torch.empty(tuple(reversed(tensor.shape.tolist())))
    rows, target = np.atleast_2d(tensor.data), np.atleast_2d(weight.numpy())
    for few in _few(*target.shape):
        target[few] = gguf.dequantize(rows[few], tensor.tensor_type)
    if not np.isfinite(target).all():
        raise Refused(f"{tensor.name} holds numbers that are not finite: the file is damaged")
    return weight


def _few(rows: int, width: int) -> Iterator[slice]:
    step = max(1, AT_ONCE // max(1, width))
    for first in range(0, rows, step):
        yield slice(first, first + step)
