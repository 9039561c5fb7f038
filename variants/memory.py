"""The bytes that a language model needs, part by part, from its sizes alone.

    training    weights, gradients, moments (of Adam), activations
    inference   weights, KV cache

The formulas hold for GPT-2 (`gpt.py`) and LLaMA (`llama.py`). Activations are what autograd stores of GPT-2,
operation by operation.

From symbols to names
    B, T            batch, tokens: of a step
    V, N            vocab, layers
    d, f            d_model, d_ff
    h, G            heads, kv_heads: query heads, key/value heads
    d_k             d / h
    P               parameters
    s               number: bytes per number, 4 in float32
    m               dropped: bytes per number that dropout stores, 0 without dropout
"""

from __future__ import annotations

from dataclasses import dataclass

INDEX = 8  # bytes of an int64


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a language model.

    Raises:
        ValueError: an unknown model, or heads that do not divide.
    """

    model: str  # "gpt" or "llama"
    vocab: int
    layers: int
    d_model: int
    heads: int
    d_ff: int
    kv_heads: int = 0  # 0: as many as heads. LLaMA only
    context: int = 0  # rows of GPT-2's position embedding

    def __post_init__(self) -> None:
        if self.model not in ("gpt", "llama"):
            raise ValueError(f"model must be gpt or llama, got {self.model!r}")
        if self.d_model % self.heads or self.heads % (self.kv_heads or self.heads):
            sizes = f"d_model={self.d_model}, heads={self.heads}, kv_heads={self.kv_heads}"
            raise ValueError(f"heads must divide d_model, and kv_heads heads, got {sizes}")
        if self.kv_heads and self.model != "llama":
            raise ValueError(f"kv_heads must be 0 unless model is llama, got {self.kv_heads}")

    @property
    def d_kv(self) -> int:
        """Width of all keys, or all values, of a token: G · d_k."""
        return self.d_model // self.heads * (self.kv_heads or self.heads)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One forward and backward pass."""

    batch: int
    tokens: int
    number: int = 4  # 4 or 8: the references compute half precision partly in float32
    dropped: int = (
        0  # with dropout: s on the CPU, which stores factors, 1 on a GPU, which stores flags
    )
    recompute: bool = False  # store only the inputs of layers (Chen et al. 2016, §4)


# --- Weights, moments, cache ----------------------------------------------------------------------


def layer_parameters(sizes: Sizes) -> int:
    """Count the parameters of one layer: attention's, the feed-forward network's, the two norms'.

        GPT-2          4 d² + 4 d  +  2 d f + f + d  +  4 d
        LLaMA          2 d² + 2 d d_kv  +  3 d f  +  2 d

    With f = 4 d the first is the 12 d² of Kaplan et al. 2020, *Scaling Laws for Neural Language Models*,
    eq. 2.1, plus 13 d.
    """
    d, f = sizes.d_model, sizes.d_ff
    if sizes.model == "llama":
        return 2 * d * d + 2 * d * sizes.d_kv + 3 * d * f + 2 * d
    return 4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d


def parameters(sizes: Sizes) -> int:
    """Count all parameters, shared ones once.

    GPT-2          V d + context · d  +  N layers  +  2 d
    LLaMA          V d  +  N layers  +  d  +  V d
    """
    d, embedding = sizes.d_model, sizes.vocab * sizes.d_model
    layers = sizes.layers * layer_parameters(sizes)
    if sizes.model == "llama":
        return 2 * embedding + layers + d
    return embedding + sizes.context * d + layers + 2 * d


def weights(sizes: Sizes, number: int = 4) -> int:
    """Return P · s, the bytes of the weights, and of their gradients."""
    return parameters(sizes) * number


def moments(sizes: Sizes, number: int = 4) -> int:
    """Return 2 · P · s: Adam's two averages (Kingma & Ba 2015, algorithm 1). PyTorch's step counters, 4 bytes
    per parameter tensor, are not included."""
    return 2 * weights(sizes, number)


def kv_cache(sizes: Sizes, batch: int, tokens: int, number: int = 4) -> int:
    """Return 2 · N · B · T · G · d_k · s (Shazeer 2019, *Fast Transformer Decoding*, §2.4, all layers)."""
    return 2 * sizes.layers * batch * tokens * sizes.d_kv * number


# --- Activations ----------------------------------------------------------------------------------


def layer_activations(sizes: Sizes, step: Step) -> dict[str, int]:
    """Return the bytes that autograd stores of one layer of GPT-2, without recomputation.

        projections   3 B T d s             inputs of w_qkv; of w_o; of w_1
        heads         3 B T d s             queries, keys, values
        weights       B h T s               in one kernel: log-sum-exp of each row
                      2 B h T² s            with dropout: output of the softmax, and weights that multiply
                                            the values; for B = 1 copies of queries and keys, 2 T d s
        feed-forward  2 B T f s             GELU: its input and output
        norms         B T (2 d + 4) s       two LayerNorms: input, mean and 1 / std
        dropout       B T 2 d m + B h T² m  of both sublayers, and of the weights

    With f = 4 d, s = 2 and m = 1 this is the B T d (34 + 5 h T / d) of Korthikanti et al. 2022, *Reducing
    Activation Recomputation in Large Transformer Models*, eq. 1, plus the mean and 1 / std of both norms,
    4 B T s.
    """
    rows, d, s, m = step.batch * step.tokens, sizes.d_model, step.number, step.dropped
    pairs = rows * sizes.heads * step.tokens
    copies = 2 * rows * d * s * (step.batch == 1)
    return {
        "projections": 3 * rows * d * s,
        "heads": 3 * rows * d * s,
        "weights": 2 * pairs * s + copies if m else rows * sizes.heads * s,
        "feed-forward": 2 * rows * sizes.d_ff * s,
        "norms": 2 * _norm(sizes, step),
        "dropout": (2 * rows * d + pairs) * m,
    }


def _norm(sizes: Sizes, step: Step) -> int:
    """Return the bytes that autograd stores of one norm."""
    return step.batch * step.tokens * (sizes.d_model + 2) * step.number


def outer_activations(sizes: Sizes, step: Step) -> dict[str, int]:
    """Return the bytes that autograd stores outside the layers of GPT-2.

    ids           8 B (T + 1) + 8 B T + 8 T   tokens, a copy as targets if B > 1, and positions
    dropout       B T d m                     of the embedding
    norm          B T (d + 2) s               the last LayerNorm
    head          B T (d + V) s               its input, and the log-probabilities
    sum           s                           the total weight of the targets
    """
    rows, d, s = step.batch * step.tokens, sizes.d_model, step.number
    targets = rows if step.batch > 1 else 0
    return {
        "ids": (step.batch + rows + targets + step.tokens) * INDEX,
        "dropout": rows * d * step.dropped,
        "norm": _norm(sizes, step),
        "head": rows * (d + sizes.vocab) * s,
        "sum": s,
    }


def activations(sizes: Sizes, step: Step) -> int:
    """Return the bytes that autograd stores between the forward and the backward pass of GPT-2.

    N layers + outside; recomputed: N · B T d s + outside
    """
    outside = sum(outer_activations(sizes, step).values())
    if not step.recompute:
        return sizes.layers * sum(layer_activations(sizes, step).values()) + outside
    return sizes.layers * step.batch * step.tokens * sizes.d_model * step.number + outside
