"""T5: the paper's encoder and decoder, told how far apart two tokens are, and not where they stand.

Paper: Raffel et al. 2020, *Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer*; § below are its own. What is new after `implementation.py`: no positions are added to the
tokens; where a stack had a mask it has a bias, which each head adds to its scores. Norms come first and do
not centre, nothing is shifted by a learnt vector, and one table serves source, target and output.

From symbols to names
    B               batch: sequences worked on side by side
    S, T            time: tokens of the source, of the target
    T_q, T_k        time, where attention is meant: of the queries, of the keys and values
    V               vocab, tokens in the vocabulary that source and target share
    N, h            n_layers, n_heads
    d_model         width of a token's vector everywhere between the layers
    d_k             width of a query, key or value inside one head; h · d_k need not be d_model
    d_ff            width of the hidden layer of the feed-forward network
    D, ε            max_distance, eps
    E               `embed.weight`
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from implementation import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    LayerNorm,
    subsequent_mask,
)

# --- Day 27 · T5 (§2.1) ---------------------------------------------------------------------------


def relative_position_bucket(
    relative_position: Int[Tensor, "*shape"],
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
) -> Int[Tensor, "*shape"]:
    """Sort distances into buckets: each short one has its own, long ones share, ever more of them.

        bucket(d) = d                                                       if d < m
                    min(n − 1, m + ⌊(n − m) · log(d / m) / log(D / m)⌋)     otherwise

    d is the distance, n the number of buckets for one direction, and m = ⌊n / 2⌋.

    Args:
        relative_position: position of the key − position of the query, integers of any shape.
        bidirectional: whether queries see keys on both sides. If so, d = |relative_position| and
            n = ⌊num_buckets / 2⌋, and keys after the query have buckets from n on: n + bucket(d). If
            not, n = num_buckets, and every key after the query counts as d = 0.
        num_buckets: at least 2, or 4 where bidirectional.
        max_distance: D, above m. All distances from D on share the last bucket.

    Returns:
        int64, in the shape and on the device of `relative_position`, from 0 to num_buckets − 1. ⌊ ⌋ is
        of the true value, not of a rounded one: of 32 buckets, bidirectional, D = 128, bucket 10 begins
        at distance 16 exactly.

    Raises:
        ValueError: too few buckets, or a `max_distance` that is not above m.

    Source: Raffel et al. 2020, §2.1; the formula is in their code (Mesh TensorFlow).
    """
    n = num_buckets // 2 if bidirectional else num_buckets
    m = n // 2
    if m < 1:
        least = 4 if bidirectional else 2
        raise ValueError(f"num_buckets must be at least {least}, and is {num_buckets}")
    if max_distance <= m:
        raise ValueError(
            f"max_distance must be above {m}, since every distance below {m} has a bucket of its own, "
            f"and is {max_distance}"
        )
    # 1. The distance, and the first bucket of its direction.
    if bidirectional:
        distance = relative_position.abs()  # (…)
        first = n * (relative_position > 0).long()  # (…)
    else:
        distance = (-relative_position).clamp(min=0)  # (…)
        first = 0
    # 2. The distances at which buckets 1, 2 … n − 1 begin: one apart as far as m, then at equal ratios on
    #    the way to D. Rounded before ⌈ ⌉: what comes out as 16.000…1 is 16.
    ratio = max_distance / m
    begins = [m * ratio ** (k / (n - m)) for k in range(1, n - m)]
    begins = [*range(1, m + 1), *(math.ceil(round(begin, 6)) for begin in begins)]
    # 3. The bucket is how many of them the distance has reached.
    edges = torch.tensor(begins, device=distance.device)  # (n − 1,)
    return first + torch.bucketize(distance.contiguous(), edges, right=True)  # (…)


@dataclass(frozen=True)
class T5Config:
    """The sizes of a T5. The defaults are those of T5-Small, of 60 million parameters.

    Attributes:
        vocab: V, the number of tokens.
        n_layers: N, the number of layers in each stack.
        n_heads: h.
        d_model: width of the tokens' vectors.
        d_k: width of a query, key or value inside one head. Nothing ties it to d_model: in T5-3B 32 heads
            of 128 look at vectors of 1024.
        d_ff: width of the feed-forward networks' hidden layer.
        dropout: the probability with which anything is dropped in training.
        eps: ε, in every norm.
        num_buckets: how many ranges of distance a stack tells apart, at least 4.
        max_distance: D, from where on it tells none apart; above num_buckets / 2.
        gated: whether the feed-forward networks are gated, as in T5 1.1.

    Source: Raffel et al. 2020, §2.1 and §3.7; vocab and ε: the published checkpoints.
    """

    vocab: int = 32128
    n_layers: int = 6
    n_heads: int = 8
    d_model: int = 512
    d_k: int = 64
    d_ff: int = 2048
    dropout: float = 0.1
    eps: float = 1e-6
    num_buckets: int = 32
    max_distance: int = 128
    gated: bool = False


class BiasedAttention(nn.Module):
    """Multi-head attention whose scores are not scaled; instead, something is added to them.

        headᵢ = softmax(Qᵢ Kᵢᵀ + biasᵢ) Vᵢ

    Args:
        config: a `T5Config`.

    Attributes:
        w_q, w_k, w_v: `nn.Linear(d_model, h · d_k, bias=False)`; head i, counted from 0, owns outputs
            i·d_k to (i+1)·d_k − 1.
        w_o: `nn.Linear(h · d_k, d_model, bias=False)`; head i owns inputs i·d_k to (i+1)·d_k − 1.

    Source: Raffel et al. 2020, §2.1; that nothing is divided by √d_k: their code.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        self.n_heads = config.n_heads
        self.w_q = nn.Linear(config.d_model, config.n_heads * config.d_k, bias=False)
        self.w_k = nn.Linear(config.d_model, config.n_heads * config.d_k, bias=False)
        self.w_v = nn.Linear(config.d_model, config.n_heads * config.d_k, bias=False)
        self.w_o = nn.Linear(config.n_heads * config.d_k, config.d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        query: Float[Tensor, "B T_q d_model"],
        key: Float[Tensor, "B T_k d_model"],
        value: Float[Tensor, "B T_k d_model"],
        bias: Float[Tensor, "#B #h #T_q T_k"],
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend from `query` to `key` and `value`; weights are dropped in training.

        `bias` is added to the scores, `(1|B, 1|h, 1|T_q, T_k)`. It stands where a layer passes on its
        mask, and serves as one: −∞ hides a key. A query that sees none gets 0.
        """
        q = self.w_q(query).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        k = self.w_k(key).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_k, d_k)
        v = self.w_v(value).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_k, d_k)
        wide = torch.promote_types(q.dtype, torch.float32)  # as in `attention` of day 8
        with torch.autocast(q.device.type, enabled=False):
            scores = q.to(wide) @ k.to(wide).transpose(-2, -1) + bias  # (B, h, T_q, T_k)
        hidden = bias == -math.inf  # (1|B, 1|h, 1|T_q, T_k)
        weights = scores.masked_fill(hidden, torch.finfo(wide).min).softmax(dim=-1)
        weights = weights.masked_fill(hidden, 0.0).to(v.dtype)  # (B, h, T_q, T_k)
        heads = self.dropout(weights) @ v  # (B, h, T_q, d_k)
        return self.w_o(heads.transpose(1, 2).flatten(-2))  # (B, T_q, d_model)


class FeedForward(nn.Module):
    """The feed-forward network of day 10 without biases, and gated if the config says so.

        FFN(x)       = max(0, x W₁) W₂
        FFN_gated(x) = (GELU(x W_gate) · x W₁) W₂,    GELU by tanh, as on day 23

    Args:
        config: a `T5Config`.

    Attributes:
        w_1: `nn.Linear(d_model, d_ff, bias=False)`.
        w_gate: another, or None where nothing is gated.
        w_2: `nn.Linear(d_ff, d_model, bias=False)`.

    Source: Raffel et al. 2020, §2.1; gated: Shazeer 2020, *GLU Variants Improve Transformer*, §2.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        self.w_1 = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.w_gate = nn.Linear(config.d_model, config.d_ff, bias=False) if config.gated else None
        self.w_2 = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype; hidden values are dropped in training."""
        hidden = self.w_1(x)  # (…, d_ff)
        if self.w_gate is None:
            return self.w_2(self.dropout(hidden.relu()))  # (…, d_model)
        gate = F.gelu(self.w_gate(x), approximate="tanh")  # (…, d_ff)
        return self.w_2(self.dropout(gate * hidden))  # (…, d_model)


def rms_normed(module: nn.Module, eps: float) -> nn.Module:
    """The module itself, every `LayerNorm` in it replaced by an `nn.RMSNorm`, which does not centre.

    RMSNorm(x) = γ x / √(mean(x²) + ε) is torch's here, γ its `weight`; on day 28 it is an exercise.
    """
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if isinstance(child, LayerNorm):
                setattr(parent, name, nn.RMSNorm(child.gain.numel(), eps))
    return module


class T5(nn.Module):
    """The whole: read the source once, then score each target token from those before it.

        bias[head, i, j] = table[bucket(j − i), head]; −∞ where query i must not see key j
        memory = Dropout(Encoder(Dropout(E[src]), bias))
        states = Dropout(Decoder(Dropout(E[tgt]), memory, bias))
        logits = states Eᵀ / √d_model

    Args:
        config: a `T5Config`.

    Attributes:
        config: as given.
        embed: E, `nn.Embedding(vocab, d_model)`, of source and target. It is the output projection as
            well: the head is tied, has no bias, and is no parameter of its own.
        encoder_bias, decoder_bias: `nn.Embedding(num_buckets, n_heads)`, a table for each stack, which its
            layers share. (Published weights keep it in the first layer.)
        encoder: the pre-norm `Encoder` of day 12, whose layers have a `BiasedAttention` and a
            `FeedForward`, and whose norms, in the layers and at its end, are `rms_normed`. What it is
            given as its mask is the bias, `(1|B, 1|h, 1|T_q, T_k)`: its layers only pass it on.
        decoder: the same of day 13's `Decoder`. Attention to the source has no table.

        These five hold all parameters, and nothing else stands in the state dict. E starts at N(0, 1),
        the two tables at N(0, 1/d_model), the matrix of a linear layer with n inputs at N(0, 1/n), but
        that of each `w_q` at N(0, 1/(n · d_k)). Each is drawn for itself. Gains start at 1.

    Source: Raffel et al. 2020, §2.1 (norms, bias, dropout); the scale of the logits and the initial
    weights: their code, as Hugging Face's `T5ForConditionalGeneration` has it. T5 1.1, the gated one, has a
    head of its own and does not scale; here the head is tied and scaled, gated or not.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        # 1. Keep the config. One table of tokens, a table of biases for each stack, and the dropout of
        #    what enters a stack and of what leaves it.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.encoder_bias = nn.Embedding(config.num_buckets, config.n_heads)
        self.decoder_bias = nn.Embedding(config.num_buckets, config.n_heads)
        self.dropout = nn.Dropout(config.dropout)
        # 2. The two stacks of days 12 and 13 out of today's parts, pre-norm. Then change their norms.
        encoder_layer = EncoderLayer(
            config.d_model, BiasedAttention(config), FeedForward(config), config.dropout, norm="pre"
        )
        decoder_layer = DecoderLayer(
            config.d_model,
            BiasedAttention(config),
            BiasedAttention(config),
            FeedForward(config),
            config.dropout,
            norm="pre",
        )
        self.encoder = rms_normed(Encoder(encoder_layer, config.n_layers), config.eps)
        self.decoder = rms_normed(Decoder(decoder_layer, config.n_layers), config.eps)
        # 3. Initial weights, each matrix drawn for itself: the copies of a layer are equal so far. Queries
        #    start smaller by √d_k, by which their scores are not divided.
        nn.init.normal_(self.embed.weight)
        nn.init.normal_(self.encoder_bias.weight, std=config.d_model**-0.5)
        nn.init.normal_(self.decoder_bias.weight, std=config.d_model**-0.5)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                fan = module.in_features * (config.d_k if name.endswith("w_q") else 1)
                nn.init.normal_(module.weight, std=fan**-0.5)

    def encode(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "#B 1 S"] | None
    ) -> Float[Tensor, "B S d_model"]:
        """From source tokens `(B, S)` to the memory `(B, S, d_model)`; the mask is that of `forward`."""
        # 1. The bias, once for all layers: the bucket of each key − query, both directions told apart,
        #    looked up in the table; heads in front. Where the mask forbids a key, −∞ instead.
        bias = self._bias(self.encoder_bias, src.size(1), bidirectional=True)  # (1, h, S, S)
        bias = _hidden("src_mask", src_mask, src.size(0), bias)  # (1|B, h, S, S)
        # 2. Look up the tokens, without a factor, and drop; through the stack, and drop again.
        return self.dropout(self.encoder(self.dropout(self.embed(src)), bias))  # (B, S, d_model)

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """From the memory and target tokens `(B, T)` to states `(B, T, d_model)`, which are not scaled."""
        # 1. The bias of the own past, from the other table and in one direction: −∞ where the mask forbids
        #    a key, and at every key after the query, whatever the mask says.
        bias = self._bias(self.decoder_bias, tgt.size(1), bidirectional=False)  # (1, h, T, T)
        bias = _hidden("tgt_mask", tgt_mask, tgt.size(0), bias)  # (1|B, h, T, T)
        earlier = subsequent_mask(tgt.size(1)).to(tgt.device)  # (1, T, T)
        bias = torch.where(earlier, bias, -math.inf)  # (1|B, h, T, T)
        # 2. Towards the source no distance counts: 0, or −∞ where its mask forbids a key.
        src_bias = bias.new_zeros(1, 1, 1, memory.size(1))  # (1, 1, 1, S)
        src_bias = _hidden("src_mask", src_mask, tgt.size(0), src_bias)  # (1|B, 1, 1, S)
        # 3. Look up, drop, through the stack, and drop, as in the encoder.
        x = self.dropout(self.embed(tgt))  # (B, T, d_model)
        return self.dropout(self.decoder(x, memory, src_bias, bias))  # (B, T, d_model)

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T V"]:
        """Score what comes next after each target token.

        Args:
            src: source ids `(B, S)`.
            tgt: target ids `(B, T)`, from the start symbol on.
            src_mask: True at real source tokens, `(1|B, 1, S)`; None where all are.
            tgt_mask: True at real target tokens, `(1|B, 1, T)`, or `(1|B, T, T)` as `Batch` of day 15 makes
                it; None where all are. No position sees a later one in any case.

        Returns:
            Logits `(B, T, V)` in the weights' dtype: row t scores the token after `tgt[:, t]`. No softmax
            is applied. S and T may be any length, 0 too. Where a query may attend to nothing, as to a
            source of padding alone, that attention gives 0.

        Raises:
            ValueError: a mask that is not boolean, or of another shape; `num_buckets` or `max_distance`
                that `relative_position_bucket` refuses.
        """
        # 1. Encode, and decode.
        states = self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)  # (B, T, d_model)
        # 2. Score each token by the product with its embedding, over √d_model: E starts large.
        return F.linear(states * self.config.d_model**-0.5, self.embed.weight)  # (B, T, V)

    def _bias(
        self, table: nn.Embedding, size: int, bidirectional: bool
    ) -> Float[Tensor, "1 h size size"]:
        """What a stack adds to the scores of `size` queries and keys."""
        position = torch.arange(size, device=table.weight.device)  # (T,)
        relative = position - position.unsqueeze(1)  # (T, T), a row for each query
        buckets = relative_position_bucket(
            relative, bidirectional, self.config.num_buckets, self.config.max_distance
        )  # (T, T)
        return table(buckets).permute(2, 0, 1).unsqueeze(0)  # (1, h, T, T)


def _hidden(name: str, mask: Tensor | None, rows: int, bias: Tensor) -> Tensor:
    """The bias `(1|B, 1|h, T_q, T_k)` with −∞ where the mask forbids a key."""
    if mask is None:
        return bias
    t_q, t_k = bias.shape[2:]
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean (True = may be attended to), not {mask.dtype}")
    if mask.shape not in [(b, t, t_k) for b in (1, rows) for t in (1, t_q)]:
        raise ValueError(
            f"{name} must be (1|{rows}, 1|{t_q}, {t_k}), and has shape {tuple(mask.shape)}"
        )
    return torch.where(mask.unsqueeze(1), bias, -math.inf)  # (1|B, 1|h, T_q, T_k)
