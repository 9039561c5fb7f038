"""The bytes that a model needs, part by part, from its sizes alone.

    training    weights, gradients, moments (of Adam), activations
    inference   weights, KV cache

The formulas hold for the paper's decoder alone, GPT-2 (`gpt.py`) and LLaMA (`llama.py`). Activations are
what autograd stores of *these* references, operation by operation: their norms and attention store more
than fused kernels do. `training.models.peak_memory` adds the parts up; `benchmarks/memory.py` measures them.

From symbols to names
    B, T            batch, tokens: of a step
    V, N            vocab, layers
    d, f            d_model, d_ff
    h, G            heads, kv_heads: query heads, key-value heads
    d_k             d / h
    P               parameters
    s               number: bytes per number, 4 in float32
    m               dropped: bytes per number that dropout stores, 0 without dropout
"""

from __future__ import annotations

from dataclasses import dataclass

INDEX, FLAG, WIDE = 8, 1, 8  # bytes of an int64, a bool, a float64
POSITIONS = 5000  # of `implementation.PositionalEncoding`


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a language model.

    Raises:
        ValueError: an unknown model, or heads that do not divide.
    """

    model: str  # "paper", "gpt" or "llama"
    vocab: int
    layers: int
    d_model: int
    heads: int
    d_ff: int
    kv_heads: int = 0  # 0: as many as heads. LLaMA only
    context: int = 0  # rows of GPT-2's position embedding, and of LLaMA's angles
    norm: str = "post"  # or "pre", in the paper's model; the others are pre-norm
    tie: bool = False  # in the paper's model; GPT-2 ties embedding and head, LLaMA does not

    def __post_init__(self) -> None:
        if self.model not in ("paper", "gpt", "llama"):
            raise ValueError(f"model must be paper, gpt or llama, got {self.model!r}")
        if self.d_model % self.heads or self.heads % self.groups:
            sizes = f"d_model={self.d_model}, heads={self.heads}, kv_heads={self.groups}"
            raise ValueError(f"heads must divide d_model, and kv_heads heads, got {sizes}")
        if self.kv_heads and self.model != "llama":
            raise ValueError(f"kv_heads must be 0 unless model is llama, got {self.kv_heads}")

    @property
    def groups(self) -> int:
        """G."""
        return self.kv_heads or self.heads

    @property
    def d_kv(self) -> int:
        """Width of all keys, or all values, of a token: G · d_k."""
        return self.d_model // self.heads * self.groups

    @property
    def last_norm(self) -> bool:
        """Whether a norm follows the layers."""
        return self.model != "paper" or self.norm == "pre"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One forward (and backward) pass.

    Raises:
        ValueError: a fused kernel with dropout, which the CPU does not have.
    """

    batch: int
    tokens: int
    number: int = 4  # 4 or 8: the references compute half precision partly in float32
    dropped: int = (
        0  # with dropout: s on the CPU, which stores factors, 1 on a GPU, which stores flags
    )
    fused: bool = (
        False  # the paper's model in PyTorch's kernels, on the CPU: attention stores no weights
    )
    recompute: bool = False  # store only the inputs of layers (Chen et al. 2016, §4)

    def __post_init__(self) -> None:
        if self.fused and self.dropped:
            raise ValueError(f"dropped must be 0 if fused: no such kernel, got {self.dropped}")


# --- Weights, gradients, moments, cache -----------------------------------------------------------


def layer_parameters(sizes: Sizes) -> int:
    """Count the parameters of one layer: attention's, the feed-forward network's, the two norms'.

        paper, GPT-2   4 d² + 4 d  +  2 d f + f + d  +  4 d
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

    paper          V d  +  N layers  +  V d + V      V d less if tied; 2 d more in pre-norm
    GPT-2          V d + context · d  +  N layers  +  2 d
    LLaMA          V d  +  N layers  +  d  +  V d
    """
    d, table = sizes.d_model, sizes.vocab * sizes.d_model
    layers = sizes.layers * layer_parameters(sizes)
    if sizes.model == "gpt":
        return table + sizes.context * d + layers + 2 * d
    if sizes.model == "llama":
        return 2 * table + layers + d
    return (1 if sizes.tie else 2) * table + sizes.vocab + layers + 2 * d * sizes.last_norm


def weights(sizes: Sizes, number: int = 4) -> int:
    """Return P · s, the bytes of the weights, and of their gradients."""
    return parameters(sizes) * number


def moments(sizes: Sizes, number: int = 4) -> int:
    """Return 2 · P · s: Adam's two averages (Kingma & Ba 2015, algorithm 1). PyTorch's step counters, 4 bytes
    per parameter tensor, are not included."""
    return 2 * weights(sizes, number)


def tables(sizes: Sizes, number: int = 4) -> int:
    """Return the bytes of buffers: the paper's 5000 · d sines; LLaMA's context · 2 d_k cosines and sines, and
    context · d_k / 2 float64 angles."""
    if sizes.model == "paper":
        return POSITIONS * sizes.d_model * number
    d_k = sizes.d_model // sizes.heads
    return sizes.context * (2 * d_k * number + d_k // 2 * WIDE) * (sizes.model == "llama")


def kv_cache(sizes: Sizes, batch: int, tokens: int, number: int = 4) -> int:
    """Return 2 · N · B · T · G · d_k · s (Shazeer 2019, *Fast Transformer Decoding*, §2.4, all layers)."""
    return 2 * sizes.layers * batch * tokens * sizes.d_kv * number


# --- Activations ----------------------------------------------------------------------------------


def layer_activations(sizes: Sizes, step: Step) -> dict[str, int]:
    """Return the bytes that autograd stores of one layer, without recomputation.

        projections   3 B T d s             inputs of w_q, w_k, w_v; of w_o; of w_1
        heads         B T (d + 2 d_kv) s    queries, keys, values
        weights       2 B h T² s            output of the softmax; weights that multiply the values
                      kernel: B h T s       log-sum-exp of each row; paper: + T² s, the mask as numbers
                      GPT-2, dropout: 2 B h T² s, and for B = 1 copies of queries and keys, 2 T d s
        masks         2 T²                  bools, for scores and for weights; paper, not fused
        feed-forward  B T f s · 1           ReLU: its output, the input of w_2; 2 with dropout
                                2           GELU: its input and output
                                4           SwiGLU: W x, Swish, V x, product
        norms         B T (6 d + 2) s       two LayerNorms, paper: input, centered and normalized; 1 / std
                      B T (2 d + 4) s       GPT-2, and paper if fused: input, mean and 1 / std
                      B T (4 d + 2) s       two RMSNorms: input and normalized; 1 / rms
        dropout       B T 2 d m + B h T² m  of both sublayers, and of the weights; paper: + B T f m

    For GPT-2 with f = 4 d, s = 2 and m = 1 this is the B T d (34 + 5 h T / d) of Korthikanti et al. 2022,
    *Reducing Activation Recomputation in Large Transformer Models*, eq. 1, plus the mean and 1 / std of both
    norms, 4 B T s.
    """
    rows, d, f = step.batch * step.tokens, sizes.d_model, sizes.d_ff
    square, s, m = step.tokens**2, step.number, step.dropped
    pairs = step.batch * sizes.heads * square
    llama, paper = sizes.model == "llama", sizes.model == "paper"
    written = paper and not step.fused  # GPT-2 and LLaMA call PyTorch's kernel as they are
    hidden = 4 if llama else 1 + bool(m) if paper else 2
    if written or m:
        kept = 2 * pairs * s + 2 * rows * d * s * (step.batch == 1 and not written)
    else:
        kept = (step.batch * sizes.heads * step.tokens + square * paper) * s
    return {
        "projections": 3 * rows * d * s,
        "heads": rows * (d + 2 * sizes.d_kv) * s,
        "weights": kept,
        "masks": 2 * square * FLAG * written,
        "feed-forward": hidden * rows * f * s,
        "norms": 2 * _norm(sizes, step),
        "dropout": 0 if llama else (2 * rows * d + pairs + rows * f * paper) * m,
    }


def _norm(sizes: Sizes, step: Step) -> int:
    """Return the bytes that autograd stores of one norm."""
    if sizes.model == "llama":
        each = 2 * sizes.d_model + 1
    elif sizes.model == "gpt" or step.fused:
        each = sizes.d_model + 2
    else:
        each = 3 * sizes.d_model + 1
    return step.batch * step.tokens * each * step.number


def outer_activations(sizes: Sizes, step: Step) -> dict[str, int]:
    """Return the bytes that autograd stores outside the layers.

    ids           8 B (T + 1) + 8 B T   tokens, and a copy as targets. GPT-2: + 8 T
    dropout       B T d m               of the embedding; not LLaMA
    norm          B T (3 d + 1) s       the paper's last LayerNorm, if there is one
                  B T (d + 2) s         GPT-2's, and the paper's if fused
                  B T (2 d + 1) s       the last RMSNorm
    head          B T (d + V) s         its input, and the log-probabilities
    sum           s                     the total weight of the targets
    """
    rows, d, s = step.batch * step.tokens, sizes.d_model, step.number
    llama = sizes.model == "llama"
    copied = rows if step.batch > 1 else 0
    ids = step.batch + rows + copied + step.tokens * (sizes.model == "gpt")
    return {
        "ids": ids * INDEX,
        "dropout": 0 if llama else rows * d * step.dropped,
        "norm": _norm(sizes, step) * sizes.last_norm,
        "head": rows * (d + sizes.vocab) * s,
        "sum": s,
    }


def activations(sizes: Sizes, step: Step) -> int:
    """Return the bytes that autograd stores between the forward and the backward pass.

    N layers + outside; recomputed: N · B T d s + outside; the paper's decoder also gives layers a T² mask
    """
    outside = sum(outer_activations(sizes, step).values())
    if not step.recompute:
        return sizes.layers * sum(layer_activations(sizes, step).values()) + outside
    entering = sizes.layers * step.batch * step.tokens * sizes.d_model * step.number
    return entering + outside + step.tokens**2 * FLAG * (sizes.model == "paper")
