"""The bytes that a model needs, part by part, from its sizes alone.

    training    weights, gradients, moments (of Adam), activations
    inference   weights, cache

It holds for three language models: the paper's decoder alone, GPT-2 (`gpt.py`) and LLaMA (`llama.py`).
Activations are what autograd keeps of *these* references, operation by operation. They spell out norms and
attention, and so keep more than fused kernels do. Lessons 25, 31, 33 and 38 draw from it.
`training.models.peak_memory` adds the parts up; `benchmarks/memory.py` measures them.

From symbols to names
    B, T            batch, tokens: of a step
    V, N            vocab, layers
    d, f            d_model, d_ff
    h, G            heads, kv_heads: heads that ask, heads that answer
    d_k             d / h
    P               parameters
    s               number: bytes of a number, 4 in float32
    m               dropped: bytes that dropout keeps for a number, 0 where nothing is dropped
"""

from __future__ import annotations

from dataclasses import dataclass

INDEX, FLAG, WIDE = 8, 1, 8  # bytes of an int64, a bool, a float64
POSITIONS = 5000  # in the paper's table of sines, of `implementation.PositionalEncoding`


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a language model.

    Attributes:
        model: `"paper"`, `"gpt"` or `"llama"`.
        vocab, layers, d_model, heads, d_ff: V, N, d, h, f.
        kv_heads: G; 0 is as many as heads. For LLaMA alone.
        context: positions in GPT-2's table, and in LLaMA's of angles.
        norm: `"post"` or `"pre"`: the paper's to choose; the others are pre-norm.
        tie: whether embedding and output share a matrix: the paper's to choose; GPT-2 does, LLaMA not.

    Raises:
        ValueError: another model, or heads that do not divide.
    """

    model: str
    vocab: int
    layers: int
    d_model: int
    heads: int
    d_ff: int
    kv_heads: int = 0
    context: int = 0
    norm: str = "post"
    tie: bool = False

    def __post_init__(self) -> None:
        if self.model not in ("paper", "gpt", "llama"):
            raise ValueError(f"model must be paper, gpt or llama, not {self.model!r}")
        if self.d_model % self.heads or self.heads % self.groups:
            raise ValueError(
                f"heads must divide d_model, and kv_heads heads: {self.d_model}, {self.heads}, "
                f"{self.groups}"
            )
        if self.kv_heads and self.model != "llama":
            raise ValueError("kv_heads is for llama: the others have as many as heads")

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
    """What is asked of a model at once.

    Attributes:
        batch, tokens: B, T.
        number: s: 4 in float32, 8 in float64. For activations nothing narrower: the references widen
            halves on the way.
        dropped: m: 0 without dropout, s on the CPU, which keeps factors, 1 on a GPU, which keeps flags.
        fused: the model after `fuse` of `variants/fused.py`, on the CPU: attention keeps no weights, and
            drops none.
        recompute: only what enters a layer is kept (Chen et al. 2016, §4), as `CheckpointedGPT` does it.

    Raises:
        ValueError: a kernel that also drops: on the CPU there is none.
    """

    batch: int
    tokens: int
    number: int = 4
    dropped: int = 0
    fused: bool = False
    recompute: bool = False

    def __post_init__(self) -> None:
        if self.fused and self.dropped:
            raise ValueError(
                "fused is without dropout: with it torch has no such kernel on the CPU"
            )


# --- Weights, gradients, moments, cache -----------------------------------------------------------


def layer_parameters(sizes: Sizes) -> int:
    """Parameters of one layer.

        paper, GPT-2   4 d² + 4 d  +  2 d f + f + d  +  4 d
        LLaMA          2 d² + 2 d d_kv  +  3 d f  +  2 d

    They are attention's, the feed-forward network's, the two norms'. With f = 4 d the first is the 12 d²
    of Kaplan et al. 2020, *Scaling Laws for Neural Language Models*, eq. 2.1, and 13 d more.
    """
    d, f = sizes.d_model, sizes.d_ff
    if sizes.model == "llama":
        return 2 * d * d + 2 * d * sizes.d_kv + 3 * d * f + 2 * d
    return 4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d


def parameters(sizes: Sizes) -> int:
    """P, shared ones once.

    paper          V d  +  N layers  +  V d + V      V d less where tied; 2 d more in pre-norm
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
    """P · s; as many are the gradients."""
    return parameters(sizes) * number


def moments(sizes: Sizes, number: int = 4) -> int:
    """What Adam keeps, 2 · P · s: two averages for each parameter (Kingma & Ba 2015, algorithm 1). torch
    also counts steps, in 4 bytes for each of the parameters' tensors."""
    return 2 * weights(sizes, number)


def tables(sizes: Sizes, number: int = 4) -> int:
    """What a model holds beside weights: the paper's 5000 · d sines, LLaMA's context · d_k / 2 angles in
    float64."""
    if sizes.model == "paper":
        return POSITIONS * sizes.d_model * number
    return sizes.context * (sizes.d_model // sizes.heads // 2) * WIDE * (sizes.model == "llama")


def kv_cache(sizes: Sizes, batch: int, tokens: int, number: int = 4) -> int:
    """Room for keys and values, 2 · N · B · T · G · d_k · s (Shazeer 2019, *Fast Transformer Decoding*,
    §2.4, for all layers)."""
    return 2 * sizes.layers * batch * tokens * sizes.d_kv * number


# --- Activations ----------------------------------------------------------------------------------


def layer_activations(sizes: Sizes, step: Step) -> dict[str, int]:
    """What autograd keeps of one layer, in bytes; all of it but where it recomputes.

        projections   3 B T d s             what w_q, w_k, w_v read, what w_o reads, what w_1 reads
        heads         B T (d + 2 d_kv) s    queries, keys, values
        weights       2 B h T² s            the softmax's output; the weights that mix the values
                      fused: B h T s        each row's log-sum; paper: + T² s, the mask as numbers
        masks         2 T² h / G            bools, for scores and for weights; not fused
        angles        2 T d_k s             LLaMA: cosines and sines, for queries and for keys; not fused
        feed-forward  B T f s · 1           ReLU: its output, which is what w_2 reads; 2 with dropout
                                2           GELU: its input and output
                                5           SwiGLU: W x, σ(W x), Swish, V x, product; fused: 4, no σ
        norms         B T (4 d + 4) s       two LayerNorms: centered and normed, length and deviation
                      B T (2 d + 4) s       fused: input, mean and deviation
                      B T (4 d + 2) s       two RMSNorms: input and normed, deviation
        dropout       B T 2 d m + B h T² m  of both shortcuts, and of the weights; paper: + B T f m

    For GPT-2 with f = 4 d, s = 2 and m = 1 this is the B T d (34 + 5 h T / d) of Korthikanti et al. 2022,
    *Reducing Activation Recomputation in Large Transformer Models*, eq. 1, and what this norm keeps
    beyond a fused one's input, B T (2 d + 4) s, and the masks.
    """
    rows, d, f = step.batch * step.tokens, sizes.d_model, sizes.d_ff
    square, s, m = step.tokens**2, step.number, step.dropped
    pairs = step.batch * sizes.heads * square
    llama, paper = sizes.model == "llama", sizes.model == "paper"
    hidden = 5 - step.fused if llama else 1 + bool(m) if paper else 2
    if step.fused:
        kept, masks = (step.batch * sizes.heads * step.tokens + square * paper) * s, 0
    else:
        kept, masks = 2 * pairs * s, 2 * square * (sizes.heads // sizes.groups) * FLAG
    return {
        "projections": 3 * rows * d * s,
        "heads": rows * (d + 2 * sizes.d_kv) * s,
        "weights": kept,
        "masks": masks,
        "angles": 2 * step.tokens * (d // sizes.heads) * s * (llama and not step.fused),
        "feed-forward": hidden * rows * f * s,
        "norms": 2 * _norm(sizes, step),
        "dropout": 0 if llama else (2 * rows * d + pairs + rows * f * paper) * m,
    }


def _norm(sizes: Sizes, step: Step) -> int:
    """What autograd keeps of one norm, in bytes."""
    vectors = 1 if step.fused and sizes.model != "llama" else 2
    each = vectors * sizes.d_model + (1 if sizes.model == "llama" else 2)
    return step.batch * step.tokens * each * step.number


def outer_activations(sizes: Sizes, step: Step) -> dict[str, int]:
    """What autograd keeps outside the layers, in bytes.

    ids           8 B (T + 1) + 8 B T   tokens; what is wanted, copied out of them. GPT-2, not fused: + 8 T
    angles        2 context d_k s       LLaMA, fused: cosines and sines of all positions, kept by the model
    dropout       B T d m               of the embedding; not LLaMA
    norm          B T (2 d + 2) s       the last LayerNorm, where there is one; fused: B T (d + 2) s
                  B T (2 d + 1) s       the last RMSNorm
    head          B T (d + V) s         what it reads, and the log-probabilities
    sum           s                     the weight of all that is wanted
    """
    rows, d, s = step.batch * step.tokens, sizes.d_model, step.number
    llama = sizes.model == "llama"
    copied = rows if step.batch > 1 else 0
    ids = step.batch + rows + copied + step.tokens * (sizes.model == "gpt" and not step.fused)
    return {
        "ids": ids * INDEX,
        "angles": 2 * sizes.context * (d // sizes.heads) * s * (llama and step.fused),
        "dropout": 0 if llama else rows * d * step.dropped,
        "norm": _norm(sizes, step) * sizes.last_norm,
        "head": rows * (d + sizes.vocab) * s,
        "sum": s,
    }


def activations(sizes: Sizes, step: Step) -> int:
    """What autograd keeps between the forward and the backward pass, in bytes.

    N layers + outside
    recomputed: N · B T d s + outside; the paper's decoder also hands each layer one T² mask
    """
    outside = sum(outer_activations(sizes, step).values())
    if not step.recompute:
        return sizes.layers * sum(layer_activations(sizes, step).values()) + outside
    entering = sizes.layers * step.batch * step.tokens * sizes.d_model * step.number
    return entering + outside + step.tokens**2 * FLAG * (sizes.model == "paper")
