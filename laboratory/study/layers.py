"""The parts of the models that are compared: the references', joined so that each may stand for another.

In every variant, attention has the projections of day 31's `GroupedQueryAttention`, without biases, and no
dropout of the weights, which four of them never store. So variants differ only in how queries meet keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from implementation import PositionwiseFeedForward
from training.errors import Refused
from variants.activations import SwiGLU, gelu, mish
from variants.alibi import alibi_bias
from variants.grouped_query import GroupedQueryAttention
from variants.latent import QKNorm
from variants.linear import linear_attention
from variants.moe import TopKRouter
from variants.rope import apply_rope, rope_angles
from variants.rope_scaling import linear_divisors, llama3_divisors
from variants.sliding_window import sliding_window_attention
from variants.t5 import T5Config, relative_position_bucket

MAX_POSITIONS = 5000
"""Positions in the tables of sinusoids and of angles, as `PositionalEncoding` has by itself."""

BASE = 10_000.0  # of the rotary angles, as `rope_angles` has by itself

TAPS = 4  # of a short convolution

HIDDEN = -1e4
"""A score that leaves no weight in float32, and that float16 can hold."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": partial(gelu, approximate="none"),
    "gelu_tanh": partial(gelu, approximate="tanh"),
    "mish": mish,
    "swish": F.silu,
}
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "bilinear": nn.Identity(),
    "geglu": partial(gelu, approximate="none"),
}
"""What is applied to a network's gate (Shazeer 2020, *GLU Variants Improve Transformer*, eq. 5)."""

# --- Positions ------------------------------------------------------------------------------------


class Learned(nn.Module):
    """Add a learned vector for each position, which starts as large as a token's (as in GPT-2, day 23).

    Raises:
        Refused: more tokens than it was made for, on the call.
    """

    def __init__(self, context: int, d_model: int, dropout: float):
        super().__init__()
        self.table = nn.Embedding(context, d_model)  # N(0, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """From `(B, T, d_model)` to the same shape."""
        context = self.table.num_embeddings
        if x.size(1) > context:
            raise Refused(f"positions=learned ends at {context} tokens, and there are {x.size(1)}")
        added: Tensor = self.dropout(x + self.table.weight[: x.size(1)])
        return added


class Rotary(nn.Module):
    """Rotate queries or keys by their positions (day 29). A text longer than the trained context is read with
    stretched angles, by the factor `T / context`, where `longer` says how.

    `yarn` also multiplies queries and keys by 0.1 · ln s + 1 for the factor s (Peng et al. 2023, *YaRN*,
    eq. 22), and has its α = 1 and β = 32; `llama3` has the 1 and 4 of LLaMA 3.1 in their places.
    """

    angles: Tensor

    def __init__(self, d_k: int, context: int, longer: str = "kept"):
        super().__init__()
        self.d_k, self.context, self.longer = d_k, context, longer
        self.register_buffer("angles", rope_angles(d_k, MAX_POSITIONS).float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """From `(B, h, T, d_k)` to the same shape."""
        factor = x.size(2) / self.context
        if factor <= 1 or self.longer in ("kept", "window"):
            return apply_rope(x, self.angles, layout="halves")
        angles = self.angles / self._divisors(factor).to(self.angles)
        temperature = 0.1 * math.log(factor) + 1 if self.longer == "yarn" else 1.0
        return apply_rope(temperature * x, angles, layout="halves")

    def _divisors(self, factor: float) -> Tensor:
        if self.longer == "linear":
            return linear_divisors(self.d_k, factor)
        high = {"yarn": 32.0, "llama3": 4.0}[self.longer]
        return llama3_divisors(self.d_k, BASE, factor, 1.0, high, self.context)


class AlibiBias(nn.Module):
    """What ALiBi adds to the scores (day 30): a matrix for the trained length, computed again beyond it."""

    bias: Tensor

    def __init__(self, heads: int, context: int):
        super().__init__()
        self.heads = heads
        self.register_buffer("bias", alibi_bias(heads, context, context), persistent=False)

    def forward(self, size: int) -> Tensor:
        """For `size` queries and keys: `(h, size, size)`."""
        if size <= self.bias.size(1):
            return self.bias[:, :size, :size]  # it depends on the distance alone
        return alibi_bias(self.heads, size, size).to(self.bias)


class T5Bias(nn.Module):
    """What T5 adds to the scores (day 27): one table for all layers, started as T5's own."""

    def __init__(self, heads: int, d_model: int):
        super().__init__()
        self.table = nn.Embedding(T5Config.num_buckets, heads)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def forward(self, size: int) -> Tensor:
        """For `size` queries and keys: `(h, size, size)`."""
        position = torch.arange(size, device=self.table.weight.device)  # (T,)
        relative = position - position.unsqueeze(1)  # (T, T), a row for each query
        buckets = relative_position_bucket(
            relative, False, T5Config.num_buckets, T5Config.max_distance
        )
        biases: Tensor = self.table(buckets).permute(2, 0, 1)
        return biases


# --- Attention --------------------------------------------------------------------------------------


class PositionedAttention(GroupedQueryAttention):
    """Attention of day 31 with positions: `rotate` is applied to queries and keys first.

    Attributes:
        norm: what normalizes queries and keys before that (day 43), or None.
    """

    def __init__(self, d_model: int, heads: int, n_kv_heads: int, rotate: nn.Module):
        super().__init__(d_model, heads, n_kv_heads)
        self.rotate = rotate
        self.norm: QKNorm | None = None

    def forward(self, x: Tensor) -> Tensor:
        """From `(B, T, d_model)` to the same shape; no token sees a later one."""
        mixed: Tensor = self.w_o(self.attend(*self.met(x)))
        return mixed

    def met(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `(B, h, T, d_k)` and keys as they meet, and values: both `(B, G, T, d_k)`."""
        query, key, value = self.project(x)
        if self.norm is not None:
            query, key = self.norm(query, key)
        return self.rotate(query), self.rotate(key), value


class Fused(PositionedAttention):
    """PyTorch's own kernel, which stores no scores."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """From queries `(B, h, T, d_k)`, keys and values `(B, G, T, d_k)` to `(B, T, d_model)`."""
        key, value = (
            tensor.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)
            for tensor in (key, value)
        )
        return _joined(F.scaled_dot_product_attention(query, key, value, is_causal=True))


class Convolved(Fused):
    """Before the projections, each feature is added to a weighted sum of its last four values, as Mamba's
    convolution has it (day 37)."""

    def __init__(self, d_model: int, heads: int, n_kv_heads: int, rotate: nn.Module):
        super().__init__(d_model, heads, n_kv_heads, rotate)
        self.convolution = nn.Conv1d(d_model, d_model, TAPS, groups=d_model)

    def forward(self, x: Tensor) -> Tensor:
        """From `(B, T, d_model)` to the same shape; no token sees a later one."""
        earlier = F.pad(x.transpose(1, 2), (TAPS - 1, 0))  # (B, d_model, 3 + T)
        return super().forward(x + self.convolution(earlier).transpose(1, 2))


class Biased(PositionedAttention):
    """Something is added to the scaled scores, before the softmax."""

    def __init__(self, d_model: int, heads: int, bias: nn.Module):
        super().__init__(d_model, heads, heads, nn.Identity())
        self.bias = bias

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """From heads `(B, h, T, d_k)` to joined ones, `(B, T, d_model)`."""
        size = query.size(2)
        earlier = torch.ones(1, size, size, dtype=torch.bool, device=query.device).tril()
        bias = self.bias(size).masked_fill(~earlier, -math.inf).to(query.dtype)  # (h, T, T)
        return _joined(F.scaled_dot_product_attention(query, key, value, attn_mask=bias))


class Windowed(PositionedAttention):
    """Each token sees itself and the `window` tokens before it, in texts of more than `beyond` tokens."""

    def __init__(self, d_model: int, heads: int, window: int, rotate: nn.Module, beyond: int = 0):
        super().__init__(d_model, heads, heads, rotate)
        self.window, self.beyond = window, beyond

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """From heads `(B, h, T, d_k)` to joined ones, `(B, T, d_model)`."""
        size, d_k = query.shape[2:]
        if size <= self.beyond:
            return super().attend(query, key, value)
        half = self.window // 2
        # Day 34's window reaches as far to the right as to the left. Where keys stand `half` places later
        # than their queries, all that it sees are earlier tokens. Before the first of them there is filling:
        # one feature more, 1 in every query and 0 in every key, hides it. It would change the scale.
        query = query * math.sqrt((d_k + 1) / d_k)
        query = F.pad(query, (0, 1, 0, half), value=1.0)  # (B, h, T + half, d_k + 1)
        filling = F.pad(key.new_zeros(*key.shape[:2], half, d_k), (0, 1), value=HIDDEN)
        key = torch.cat([filling, F.pad(key, (0, 1))], dim=2)  # (B, h, half + T, d_k + 1)
        value = F.pad(value, (0, 0, half, 0))  # (B, h, half + T, d_k)
        mixed = sliding_window_attention(query, key, value, half)
        return _joined(mixed[:, :, :size])


class Linear(PositionedAttention):
    """Day 34's linear attention."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """From heads `(B, h, T, d_k)` to joined ones, `(B, T, d_model)`."""
        return _joined(linear_attention(query, key, value, causal=True))


def _joined(heads: Tensor) -> Tensor:
    """From `(B, h, T, d_k)` to `(B, T, d_model)`."""
    return heads.transpose(1, 2).flatten(-2)


# --- The rest of a layer --------------------------------------------------------------------------


class FeedForward(PositionwiseFeedForward):
    """The network of day 10 with another curve in place of its relu."""

    def __init__(self, d_model: int, d_ff: int, dropout: float, activation: str):
        super().__init__(d_model, d_ff, dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """From `(…, d_model)` to the same shape."""
        narrowed: Tensor = self.w_2(self.dropout(self.activation(self.w_1(x))))
        return narrowed


class GatedFeedForward(SwiGLU):
    """The gated network of day 28 with a different activation of its gate, or none."""

    def __init__(self, d_model: int, d_ff: int, gate: str):
        super().__init__(d_model, d_ff)
        self.gate = GATES[gate]

    def forward(self, x: Tensor) -> Tensor:
        """From `(…, d_model)` to the same shape."""
        narrowed: Tensor = self.w_down(self.gate(self.w_gate(x)) * self.w_up(x))
        return narrowed


class UnnormalizedRouter(TopKRouter):
    """Day 35's router with the probabilities themselves as weights, so that a single expert's weight has a
    gradient (Fedus, Zoph & Shazeer 2021, *Switch Transformers*, §2.1, eq. 2)."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From `(…, d_model)` to weights and experts `(…, k)`, and probabilities `(…, n_experts)`."""
        _, experts, probs = super().forward(x)
        return probs.gather(-1, experts), experts, probs
