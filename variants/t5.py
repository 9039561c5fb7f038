"""T5: the paper's encoder and decoder with relative instead of absolute positions.

Paper: Raffel et al. 2020, *Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer*; § below are its own. New after `implementation.py`: no positions are added to the tokens;
instead of a mask, a stack gets a bias, which each head adds to its scores. Blocks are pre-norm with RMSNorm,
no layer has a bias vector, and one embedding matrix serves source, target and output.

From symbols to names
    B               batch: sequences worked on side by side
    S, T            time: tokens of the source, of the target
    T_q, T_k        time, where attention is meant: of the queries, of the keys and values
    V               vocab, tokens in the vocabulary that source and target share
    N, h            n_layers, n_heads
    d_model         width of a token's vector everywhere between the layers
    d_k             width of a query, key or value in one head; h · d_k may differ from d_model
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
    """Return the buckets of relative positions: one per short distance, shared by long distances.

        bucket(d) = d                                                       if d < m
                    min(n − 1, m + ⌊(n − m) · log(d / m) / log(D / m)⌋)     otherwise

    `relative_position` is key position − query position. If `bidirectional`, d = |relative_position|,
    n = ⌊num_buckets / 2⌋, and keys after the query have buckets n + bucket(d). Otherwise n = num_buckets,
    and keys after the query count as d = 0. m = ⌊n / 2⌋, D = `max_distance`.

    Raises:
        ValueError: `num_buckets` too small, or `max_distance` at most m.

    Source: Raffel et al. 2020, §2.1; the formula is in their code (Mesh TensorFlow).
    """
    n = num_buckets // 2 if bidirectional else num_buckets
    m = n // 2
    if m < 1:
        least = 4 if bidirectional else 2
        raise ValueError(f"num_buckets must be at least {least}, got {num_buckets}")
    if max_distance <= m:
        raise ValueError(f"max_distance must be above {m}, got {max_distance}")
    # 1. Compute the distance, and the first bucket of its direction.
    if bidirectional:
        distance = relative_position.abs()  # (…)
        first = n * (relative_position > 0).long()  # (…)
    else:
        distance = (-relative_position).clamp(min=0)  # (…)
        first = 0
    # 2. Compute the distances at which buckets 1, 2 … n − 1 begin: consecutive up to m, then at equal
    #    ratios up to D. Round before ⌈ ⌉, so that 16.000…1 becomes 16.
    ratio = max_distance / m
    begins = [m * ratio ** (k / (n - m)) for k in range(1, n - m)]
    begins = [*range(1, m + 1), *(math.ceil(round(begin, 6)) for begin in begins)]
    # 3. The bucket is the number of these that the distance has reached.
    edges = torch.tensor(begins, device=distance.device)  # (n − 1,)
    return first + torch.bucketize(distance.contiguous(), edges, right=True)  # (…)


@dataclass(frozen=True)
class T5Config:
    """The sizes of a T5; the defaults are those of T5-Small, with 60 million parameters.

    Attributes:
        d_k: width of a query, key or value in one head, independent of d_model: T5-3B has 32 heads of
            width 128 on vectors of 1024.
        eps: ε of every norm.
        num_buckets: the number of buckets of distances, at least 4.
        max_distance: D; all distances from D on share a bucket. It is above num_buckets / 2.
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
    """Multi-head attention with a bias added to its scores, which are not scaled.

        headᵢ = softmax(Qᵢ Kᵢᵀ + biasᵢ) Vᵢ

    `w_q`, `w_k`, `w_v` and `w_o` have no biases; head i owns features i·d_k to (i+1)·d_k − 1.

    Source: Raffel et al. 2020, §2.1; without the division by √d_k: their code.
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
        """Attend from `query` to `key` and `value`, with dropout of the weights.

        `bias` takes the place of a mask: −∞ hides a key. A query that sees no key gets 0.
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
    """The feed-forward network of day 10 without biases, optionally gated.

        FFN(x)       = max(0, x W₁) W₂
        FFN_gated(x) = (GELU(x W_gate) · x W₁) W₂,    GELU by tanh, as on day 23

    `w_gate` is None without a gate.

    Source: Raffel et al. 2020, §2.1; gated: Shazeer 2020, *GLU Variants Improve Transformer*, §2.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        self.w_1 = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.w_gate = nn.Linear(config.d_model, config.d_ff, bias=False) if config.gated else None
        self.w_2 = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position separately, with dropout of the hidden activations."""
        hidden = self.w_1(x)  # (…, d_ff)
        if self.w_gate is None:
            return self.w_2(self.dropout(hidden.relu()))  # (…, d_model)
        gate = F.gelu(self.w_gate(x), approximate="tanh")  # (…, d_ff)
        return self.w_2(self.dropout(gate * hidden))  # (…, d_model)


def rms_normed(module: nn.Module, eps: float) -> nn.Module:
    """Replace every `LayerNorm` in a module by an `nn.RMSNorm` (an exercise on day 28), and return it."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if isinstance(child, LayerNorm):
                setattr(parent, name, nn.RMSNorm(child.gain.numel(), eps))
    return module


class T5(nn.Module):
    """The complete T5: encode the source once, then compute logits for each target position.

        bias[head, i, j] = table[bucket(j − i), head]; −∞ where query i must not see key j
        memory = Dropout(Encoder(Dropout(E[src]), bias))
        states = Dropout(Decoder(Dropout(E[tgt]), memory, bias))
        logits = states Eᵀ / √d_model

    All layers of a stack share its table, `encoder_bias` or `decoder_bias`; cross-attention has none. The
    output layer is tied to `embed`. Each matrix is initialized separately: E from N(0, 1), the tables from
    N(0, 1/d_model), a linear layer with n inputs from N(0, 1/n), but `w_q` from N(0, 1/(n · d_k)).

    Raises:
        ValueError: a mask that is not boolean or has a wrong shape; `num_buckets` or `max_distance` that
            `relative_position_bucket` refuses.

    Source: Raffel et al. 2020, §2.1 (norms, bias, dropout); the scale of the logits and the initial
    weights: their code, as in Hugging Face's `T5ForConditionalGeneration`. T5 1.1, the gated one, has an
    untied output layer without the scale; here it is always tied and scaled.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        # 1. Store the config. Make one embedding matrix, a table of biases for each stack, and the dropout
        #    of a stack's input and output.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.encoder_bias = nn.Embedding(config.num_buckets, config.n_heads)
        self.decoder_bias = nn.Embedding(config.num_buckets, config.n_heads)
        self.dropout = nn.Dropout(config.dropout)
        # 2. Build the two stacks of days 12 and 13 from today's parts, pre-norm. Then replace their norms.
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
        # 3. Initialize each matrix separately: so far the copies of a layer are equal. Queries are smaller
        #    by √d_k, by which their scores are not divided.
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
        """Encode the source into the memory."""
        # 1. Compute the bias, once for all layers: look up the bucket of each key − query, with separate
        #    buckets for both directions; move the heads to the front. −∞ where the mask forbids a key.
        bias = self._bias(self.encoder_bias, src.size(1), bidirectional=True)  # (1, h, S, S)
        bias = _masked_bias("src_mask", src_mask, src.size(0), bias)  # (1|B, h, S, S)
        # 2. Look up the tokens, without a factor; apply dropout, the stack, and dropout again.
        return self.dropout(self.encoder(self.dropout(self.embed(src)), bias))  # (B, S, d_model)

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """Decode target tokens into states, which are not scaled yet."""
        # 1. Compute the bias of the self-attention, from the decoder's table and for one direction: −∞ where
        #    the mask forbids a key, and at every key after the query, with any mask.
        bias = self._bias(self.decoder_bias, tgt.size(1), bidirectional=False)  # (1, h, T, T)
        bias = _masked_bias("tgt_mask", tgt_mask, tgt.size(0), bias)  # (1|B, h, T, T)
        earlier = subsequent_mask(tgt.size(1)).to(tgt.device)  # (1, T, T)
        bias = torch.where(earlier, bias, -math.inf)  # (1|B, h, T, T)
        # 2. The bias of the cross-attention is 0, or −∞ where the source's mask forbids a key.
        src_bias = bias.new_zeros(1, 1, 1, memory.size(1))  # (1, 1, 1, S)
        src_bias = _masked_bias("src_mask", src_mask, tgt.size(0), src_bias)  # (1|B, 1, 1, S)
        # 3. Look up the tokens; apply dropout, the stack, and dropout again, as in the encoder.
        x = self.dropout(self.embed(tgt))  # (B, T, d_model)
        return self.dropout(self.decoder(x, memory, src_bias, bias))  # (B, T, d_model)

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the token after each target token.

        A mask is True at real tokens, `(1|B, 1, S)` for the source, `(1|B, 1, T)` or `(1|B, T, T)` for the
        target; None means that all are real. No position sees a later one with any mask.
        """
        # 1. Encode, and decode.
        states = self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)  # (B, T, d_model)
        # 2. Multiply by the embeddings, and divide by √d_model: E has a standard deviation of 1.
        return F.linear(states * self.config.d_model**-0.5, self.embed.weight)  # (B, T, V)

    def _bias(
        self, table: nn.Embedding, size: int, bidirectional: bool
    ) -> Float[Tensor, "1 h size size"]:
        """Return the bias of a stack's scores, for `size` queries and keys."""
        position = torch.arange(size, device=table.weight.device)  # (T,)
        relative = position - position.unsqueeze(1)  # (T, T), a row for each query
        buckets = relative_position_bucket(
            relative, bidirectional, self.config.num_buckets, self.config.max_distance
        )  # (T, T)
        return table(buckets).permute(2, 0, 1).unsqueeze(0)  # (1, h, T, T)


def _masked_bias(name: str, mask: Tensor | None, rows: int, bias: Tensor) -> Tensor:
    """Return the bias with −∞ where the mask forbids a key."""
    if mask is None:
        return bias
    t_q, t_k = bias.shape[2:]
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean (True = may be attended to), got {mask.dtype}")
    if mask.shape not in [(b, t, t_k) for b in (1, rows) for t in (1, t_q)]:
        raise ValueError(f"{name} must be (1|{rows}, 1|{t_q}, {t_k}), got {tuple(mask.shape)}")
    return torch.where(mask.unsqueeze(1), bias, -math.inf)  # (1|B, 1|h, T_q, T_k)
