"""The complete Transformer of *Attention Is All You Need* in one file: model, training, decoding, text.

Paper: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; § in the headings refers to it. The file
builds up from attention to the parts of a layer, the two stacks and the model (§3). Training (§5),
decoding (§6.1), tokenization and BLEU follow. Every public definition but `tokenize_13a` is an exercise
of days 8 to 22; its numbered comments are the first hint of the exercise.

From symbols to names
    B               batch: number of sequences processed together
    T, S            time: tokens in a target sequence, in a source sequence
    T_q, T_k        time, in attention: of the queries, of the keys and values
    N               n, layers in a stack; in LabelSmoothing, rows
    d_model         width of a token's vector between the layers
    h               heads
    d_k, d_v        width of a query or key, of a value, inside one head: d_model / h
    d_ff            width of the hidden layer of the feed-forward network
    V               tokens in a vocabulary
    Q, K, V, W      query, key, value, w_…; projections are nn.Linear, x Wᵀ + b (no b in the paper)
    γ, β, ε         gain, bias, eps of a layer norm
    P_drop, ε_ls    dropout, smoothing

Masks are boolean: True means *may be attended to*. Where every key is masked, weights and output are 0.
"""

import copy
import html
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

# --- Day 8 · Attention (§3.2.1) -------------------------------------------------------------------


def attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "*batch T_q d_v"], Float[Tensor, "*batch T_q T_k"]]:
    """Compute scaled dot-product attention: each query's output is a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`; both are 0 where every key is masked.

    Raises:
        ValueError: a mask that is not boolean, or does not broadcast to `(…, T_q, T_k)`.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1. Dropout on the weights is not in the text.
    """
    # 1. Take the dot product of every query with every key, and scale by 1/√d_k, so that random vectors
    #    have scores of variance 1. Upcast half precision first: float16 overflows above 65504.
    wide = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):  # autocast would downcast again
        scores = query.to(wide) @ key.to(wide).transpose(-2, -1)  # (…, T_q, T_k)
    scores = scores / math.sqrt(query.size(-1))
    # 2. Give each masked key the lowest finite score, before the softmax. Not −∞: a row of only
    #    −∞ becomes NaN, which spreads through the model and its gradients.
    if mask is not None:
        _check_mask(mask, scores.shape)
        scores = scores.masked_fill(~mask, torch.finfo(wide).min)
    # 3. Apply the softmax over the keys.
    weights = scores.softmax(dim=-1)  # (…, T_q, T_k)
    # 4. Set masked weights to exactly 0. This matters only where every key is masked.
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    weights = weights.to(value.dtype)
    # 5. Apply dropout to the weights, if given. Average the values by the weights; return both.
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights  # (…, T_q, d_v)


def _check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    """Reject an invalid mask early: a model would train with it, silently and badly."""
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be boolean (True = may be attended to), got {mask.dtype}")
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(size not in (1, full) for size, full in sizes):
        raise ValueError(f"mask must broadcast to {tuple(shape)}, got {tuple(mask.shape)}")


# --- Day 9 · Multi-head attention (§3.2.2) --------------------------------------------------------


class MultiHeadedAttention(nn.Module):
    """Attend in h subspaces at once, each with its own projections; d_k = d_v = d_model / h.

        MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O
        headᵢ = Attention(Q Wᵢ^Q, K Wᵢ^K, V Wᵢ^V)

    Raises:
        ValueError: h does not divide d_model; or a mask that is not boolean or not `(1|B, 1|T_q, T_k)`.

    Source: Vaswani et al. 2017, §3.2.2.
    """

    def __init__(self, h: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        if h < 1 or d_model % h != 0:
            raise ValueError(f"h must divide d_model, got h={h}, d_model={d_model}")
        # 1. Make the projections of query, key, value and output, for all heads together; dropout.
        self.h = h
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.weights: Tensor | None = None

    def forward(
        self,
        query: Float[Tensor, "B T_q d_model"],
        key: Float[Tensor, "B T_k d_model"],
        value: Float[Tensor, "B T_k d_model"],
        mask: Bool[Tensor, "#B #T_q T_k"] | None = None,
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend from `query` to `key` and `value`; the mask applies to every head."""
        # 1. Insert an axis for the heads into the mask, after the batch.
        if mask is not None:
            _check_mask(mask, (query.size(0), query.size(1), key.size(1)))
            if mask.dim() != 3 or mask.size(-1) != key.size(1):
                raise ValueError(f"mask must be (1|B, 1|T_q, T_k), got {tuple(mask.shape)}")
            mask = mask.unsqueeze(1)  # (1|B, 1, 1|T_q, T_k)
        # 2. Project, and split the last axis into heads: (B, T, d_model) → (B, h, T, d_k).
        q = self.w_q(query).unflatten(-1, (self.h, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        k = self.w_k(key).unflatten(-1, (self.h, -1)).transpose(1, 2)  # (B, h, T_k, d_k)
        v = self.w_v(value).unflatten(-1, (self.h, -1)).transpose(1, 2)  # (B, h, T_k, d_k)
        # 3. Attend. The heads are one more batch dimension. Store the weights for inspection.
        heads, weights = attention(q, k, v, mask, self.dropout)  # (B, h, T_q, d_k)
        self.weights = weights.detach()
        # 4. Join the heads, and apply the output projection.
        return self.w_o(heads.transpose(1, 2).flatten(-2))  # (B, T_q, d_model)


# --- Day 10 · Feed-forward, embeddings, positions (§3.3 to §3.5) ----------------------------------


class PositionwiseFeedForward(nn.Module):
    """Apply the same two-layer feed-forward network at every position.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    Source: Vaswani et al. 2017, §3.3, eq. 2. The dropout inside is not in the paper's text; the
    authors' own code has it (`relu_dropout`).
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        # 1. Make two linear layers, and the dropout between them.
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position separately; positions do not see each other here."""
        # 1. Project up, apply the ReLU and dropout, and project back down.
        hidden = self.dropout(self.w_1(x).relu())  # (…, d_ff)
        return self.w_2(hidden)  # (…, d_model)


class Embeddings(nn.Module):
    """Look up a vector for each token, and multiply it by √d_model.

    Source: Vaswani et al. 2017, §3.4 (the factor); initialization: tensor2tensor.
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        # 1. Make the embedding matrix, initialized with a standard deviation of 1/√d_model.
        self.d_model = d_model
        self.lut = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.lut.weight, std=d_model**-0.5)

    def forward(self, tokens: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T d_model"]:
        """Return the tokens' vectors."""
        # 1. Look up, and scale, so that each feature has variance 1 at initialization.
        return self.lut(tokens) * math.sqrt(self.d_model)  # (…, T, d_model)


class PositionalEncoding(nn.Module):
    """Add sines and cosines of the position, with one wavelength for each pair of features.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Raises:
        ValueError: more than `max_len` positions, or a width other than `d_model`.

    Source: Vaswani et al. 2017, §3.5; dropout on the sum, §5.4.
    """

    pe: Tensor

    def __init__(self, d_model: int, dropout: float, max_len: int = 5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        # 1. Compute the angles, in float64: float32 is accurate to only 3 digits at position 4999.
        position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)  # (max_len, 1)
        even = torch.arange(0, d_model, 2, dtype=torch.float64)  # (⌈d_model/2⌉,), the paper's 2i
        angles = position / 10000 ** (even / d_model)  # (max_len, ⌈d_model/2⌉)
        # 2. Put sines into columns 0, 2, 4 …, and cosines into columns 1, 3, 5 …
        table = torch.empty(max_len, d_model, dtype=torch.get_default_dtype())
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()[:, : d_model // 2]
        # 3. Register a buffer: it moves with the module, and no optimizer updates it.
        self.register_buffer("pe", table.unsqueeze(0), persistent=False)  # (1, max_len, d_model)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Add the first T positions, then apply dropout."""
        if x.size(1) > self.pe.size(1):
            raise ValueError(f"x must fit max_len={self.pe.size(1)}, got {x.size(1)} positions")
        if x.size(2) != self.pe.size(2):
            raise ValueError(f"x must have d_model={self.pe.size(2)} features, got {x.size(2)}")
        # 1. Add the positions, and apply dropout to the sum.
        return self.dropout(x + self.pe[:, : x.size(1)])  # (B, T, d_model)


# --- Day 11 · Norm and residual (§3.1, §5.4) ------------------------------------------------------


class LayerNorm(nn.Module):
    """Normalize every vector to mean 0 and variance 1, then scale and shift it.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    Raises:
        ValueError: a width other than `features`.

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not in the paper.
    """

    def __init__(self, features: int, eps: float = 1e-5):
        super().__init__()
        # 1. Make the two parameters, and store ε.
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the last axis, with the biased variance σ² (divisor n)."""
        if x.size(-1) != self.gain.numel():
            raise ValueError(f"x must have {self.gain.numel()} features, got {x.size(-1)}")
        # 1. Compute each vector's own mean and variance. Upcast half precision first, as in attention.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)  # (…, 1) each
        # 2. Subtract the mean, and divide by the standard deviation.
        centered = wide - mean
        normalized = (centered * (variance + self.eps).rsqrt()).to(x.dtype)
        # 3. Apply the scale and the shift.
        return self.gain * normalized + self.bias


class SublayerConnection(nn.Module):
    """Add a residual connection and a LayerNorm around a sublayer.

        post-norm, as in the paper   LN(x + Dropout(Sublayer(x)))
        pre-norm                     x + Dropout(Sublayer(LN(x)))

    Raises:
        ValueError: a `norm` other than `"post"` and `"pre"`.

    Source: Vaswani et al. 2017, §3.1 and §5.4 (dropout, before the addition); pre-norm: Xiong et al.
    2020, *On Layer Normalization in the Transformer Architecture*, figure 1.
    """

    def __init__(self, size: int, dropout: float, norm: str = "post"):
        super().__init__()
        if norm not in ("post", "pre"):
            raise ValueError(f'norm must be "post" or "pre", got {norm!r}')
        # 1. Make the norm and the dropout, and store where the norm goes.
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.pre = norm == "pre"

    def forward(
        self, x: Float[Tensor, "B T size"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T size"]:
        """Apply `sublayer`, which keeps the shape `(B, T, size)`, inside the residual connection."""
        # 1. Pre-norm: normalize the sublayer's input. The residual connection passes x on unchanged.
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        # 2. Post-norm: normalize the sum.
        return self.norm(x + self.dropout(sublayer(x)))


def clones(module: nn.Module, n: int) -> nn.ModuleList:
    """Return n deep copies of a module, as an `nn.ModuleList`.

    Source: Vaswani et al. 2017, §3.1 (identical layers) and §3.3 (different parameters in each).
    """
    # 1. Make n deep copies.
    return nn.ModuleList(copy.deepcopy(module) for _ in range(n))


# --- Day 12 · Encoder (§3.1) ----------------------------------------------------------------------


class EncoderLayer(nn.Module):
    """Apply self-attention, then the feed-forward network, each in a `SublayerConnection`.

    Source: Vaswani et al. 2017, §3.1 (Encoder) and figure 1, left.
    """

    def __init__(
        self,
        size: int,
        self_attn: nn.Module,
        feed_forward: nn.Module,
        dropout: float,
        norm: str = "post",
    ):
        super().__init__()
        # 1. Store the parts, and make a residual connection for each.
        self.self_attn = self_attn
        self.feed_forward = feed_forward
        self.sublayer = clones(SublayerConnection(size, dropout, norm), 2)
        self.size = size
        self.norm = norm

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B #S S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """Return the layer's output."""
        # 1. Self-attention: queries, keys and values are the same tokens.
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        # 2. The feed-forward network.
        return self.sublayer[1](x, self.feed_forward)  # (B, S, d_model)


class Encoder(nn.Module):
    """Apply N encoder layers in turn; in pre-norm, a final LayerNorm normalizes the result.

    Source: Vaswani et al. 2017, §3.1; the final norm of pre-norm: Xiong et al. 2020, table 1.
    """

    def __init__(self, layer: EncoderLayer, n: int):
        super().__init__()
        # 1. Make n layers, each with its own weights, and the final norm of pre-norm.
        self.layers = clones(layer, n)
        self.norm = LayerNorm(layer.size) if layer.norm == "pre" else None

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B #S S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """Return the encoded source; every layer gets the same `mask`."""
        # 1. Apply the layers in turn, then the final norm, if there is one.
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


# --- Day 13 · Decoder (§3.1, §3.2.3) --------------------------------------------------------------


def subsequent_mask(size: int) -> Bool[Tensor, "1 size size"]:
    """Return the causal mask `(1, size, size)`: True where the key comes no later than the query.

    Source: Vaswani et al. 2017, §3.1 (Decoder) and §3.2.3.
    """
    # 1. Take the lower triangle, diagonal included.
    return torch.ones(1, size, size, dtype=torch.bool).tril()


class DecoderLayer(nn.Module):
    """Apply masked self-attention, cross-attention to the encoder's output, and the feed-forward network.

    Source: Vaswani et al. 2017, §3.1 (Decoder), §3.2.3 and figure 1, right.
    """

    def __init__(
        self,
        size: int,
        self_attn: nn.Module,
        src_attn: nn.Module,
        feed_forward: nn.Module,
        dropout: float,
        norm: str = "post",
    ):
        super().__init__()
        # 1. Store the parts, and make a residual connection for each.
        self.self_attn = self_attn
        self.src_attn = src_attn
        self.feed_forward = feed_forward
        self.sublayer = clones(SublayerConnection(size, dropout, norm), 3)
        self.size = size
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the layer's output; `memory` is the encoder's output."""
        # 1. Masked self-attention: each position attends to itself and to earlier ones.
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        # 2. Cross-attention: queries from the decoder, keys and values from the encoder's output.
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))
        # 3. The feed-forward network.
        return self.sublayer[2](x, self.feed_forward)  # (B, T, d_model)


class Decoder(nn.Module):
    """Apply N decoder layers in turn, all to the same memory; in pre-norm, a final LayerNorm follows.

    Source: Vaswani et al. 2017, §3.1; the final norm of pre-norm: Xiong et al. 2020, table 1.
    """

    def __init__(self, layer: DecoderLayer, n: int):
        super().__init__()
        # 1. Make n layers, each with its own weights, and the final norm of pre-norm.
        self.layers = clones(layer, n)
        self.norm = LayerNorm(layer.size) if layer.norm == "pre" else None

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the decoder's output."""
        # 1. Apply the layers in turn, then the final norm, if there is one.
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return x if self.norm is None else self.norm(x)


# --- Day 14 · The whole model (§3) ----------------------------------------------------------------


class Generator(nn.Module):
    """Project the decoder's hidden states to log-probabilities of the next token.

    Source: Vaswani et al. 2017, §3.4 and figure 1 (Linear, Softmax).
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        # 1. Make the output projection.
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Return log-probabilities over the vocabulary."""
        # 1. Project, and compute the log-softmax in one step.
        return self.proj(x).log_softmax(dim=-1)  # (…, vocab)


class EncoderDecoder(nn.Module):
    """Encode the source once, then predict each target token from the target tokens before it.

    The caller applies the generator: decoding needs it for the last position only.

    Source: Vaswani et al. 2017, §3.1 and figure 1.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ):
        super().__init__()
        # 1. Store the five parts.
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator

    def encode(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "#B #S S"] | None
    ) -> Float[Tensor, "B S d_model"]:
        """Return the memory, the encoder's output for the source tokens."""
        # 1. Embed the tokens, and apply the encoder.
        return self.encoder(self.src_embed(src), src_mask)

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the decoder's output for the target tokens."""
        # 1. Embed the tokens, and apply the decoder.
        return self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B #S S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the decoder's output for a source and a target."""
        # 1. Encode, then decode.
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)


def make_model(
    src_vocab: int,
    tgt_vocab: int,
    n: int = 6,
    d_model: int = 512,
    d_ff: int = 2048,
    h: int = 8,
    dropout: float = 0.1,
    norm: str = "post",
    tie: bool = False,
) -> EncoderDecoder:
    """Build and initialize a Transformer. The default sizes are the paper's base model's, which also ties.

    Raises:
        ValueError: h does not divide d_model, an unknown `norm`, or `tie` with two vocabularies.

    Source: Vaswani et al. 2017, §3, table 3 (base), §3.4 (tying); its initialization is not stated. This
    one: Glorot & Bengio 2010, eq. 16.
    """
    if tie and src_vocab != tgt_vocab:
        raise ValueError(f"tie must have equal vocabularies, got {src_vocab=}, {tgt_vocab=}")

    # 1. Define the parts. Each call makes new ones, so that no two share a parameter.
    def mha() -> MultiHeadedAttention:
        return MultiHeadedAttention(h, d_model, dropout)

    def ffn() -> PositionwiseFeedForward:
        return PositionwiseFeedForward(d_model, d_ff, dropout)

    def embed(vocab: int) -> nn.Sequential:
        return nn.Sequential(Embeddings(d_model, vocab), PositionalEncoding(d_model, dropout))

    # 2. Build the layers, the stacks and the model.
    encoder_layer = EncoderLayer(d_model, mha(), ffn(), dropout, norm)
    decoder_layer = DecoderLayer(d_model, mha(), mha(), ffn(), dropout, norm)
    model = EncoderDecoder(
        Encoder(encoder_layer, n),
        Decoder(decoder_layer, n),
        embed(src_vocab),
        embed(tgt_vocab),
        Generator(d_model, tgt_vocab),
    )
    # 3. Initialize the weight of each linear layer separately, Xavier uniform: clones are still equal.
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    # 4. Tie the weights: both embeddings and the output projection share one Parameter.
    if tie:
        shared = model.src_embed[0].lut.weight  # (V, d_model)
        model.tgt_embed[0].lut.weight = shared
        model.generator.proj.weight = shared
    return model


# --- Day 15 · Batch (§5.1) ------------------------------------------------------------------------


class Batch:
    """Prepare source and target sequences for training: shifted targets and masks.

    Attributes:
        src_mask: `(B, 1, S)`, False at padding.
        tgt, tgt_y: the decoder's input and the tokens it has to predict, both `(B, T − 1)`.
        tgt_mask: `(B, T − 1, T − 1)`, True at keys that are no padding and come no later than the query.
        ntokens: the number of tokens in `tgt_y` without padding.

    Raises:
        ValueError: a target of fewer than two tokens, or with a different number of rows than the source.

    Source: Vaswani et al. 2017, §3.1 (outputs shifted right) and §5.1.
    """

    def __init__(
        self, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"] | None = None, pad: int = 0
    ):
        # 1. Store the source, and mask its padding.
        self.src = src
        self.src_mask = (src != pad).unsqueeze(1)  # (B, 1, S)
        self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None
        if tgt is not None:
            if tgt.size(1) < 2:
                raise ValueError(f"tgt must have at least 2 tokens, got shape {tuple(tgt.shape)}")
            if tgt.size(0) != src.size(0):
                raise ValueError(f"src and tgt must match in rows, got {len(src)} and {len(tgt)}")
            # 2. Shift the target by one: inputs without the last token, targets without the first.
            self.tgt = tgt[:, :-1]  # (B, T − 1)
            self.tgt_y = tgt[:, 1:]  # (B, T − 1)
            # 3. Combine both masks: keys that are no padding and come no later than the query.
            causal_mask = subsequent_mask(self.tgt.size(1)).to(tgt.device)  # (1, T − 1, T − 1)
            self.tgt_mask = (self.tgt != pad).unsqueeze(1) & causal_mask  # (B, T − 1, T − 1)
            # 4. Count the targets that are no padding: the summed loss is divided by their number.
            self.ntokens = (self.tgt_y != pad).sum()


# --- Day 16 · Label smoothing (§5.4) --------------------------------------------------------------


class LabelSmoothing(nn.Module):
    """Compute the KL divergence from a smoothed target: 1 − ε on the right token, ε over the others.

        L = Σ over rows, Σ over classes  q · (log q − log p)
        q = 1 − ε at the target, ε / (size − 2) elsewhere, 0 at the padding

    Raises:
        ValueError: fewer than 3 classes, or an argument out of range or of the wrong shape.

    Source: Vaswani et al. 2017, §5.4 (ε_ls = 0.1); Szegedy et al. 2016, *Rethinking the Inception
    Architecture*, §7, spread ε over all classes; to leave out target and padding is The Annotated
    Transformer's. The divergence is the cross-entropy minus the entropy of q: its minimum is 0.
    """

    def __init__(self, size: int, padding_idx: int, smoothing: float = 0.0):
        super().__init__()
        if size < 3 or not 0 <= smoothing <= 1:
            raise ValueError(f"size must be at least 3, smoothing 0 to 1, got {size}, {smoothing}")
        if not 0 <= padding_idx < size:
            raise ValueError(f"padding_idx must be in 0 to {size - 1}, got {padding_idx}")
        # 1. Store what determines the target distribution.
        self.size = size
        self.padding_idx = padding_idx
        self.smoothing = smoothing

    def forward(
        self, log_probs: Float[Tensor, "N size"], target: Int[Tensor, "N"]
    ) -> Float[Tensor, ""]:
        """Return the summed divergence of finite `log_probs`, computed in float32 or wider."""
        if log_probs.dim() != 2 or log_probs.size(1) != self.size:
            raise ValueError(f"log_probs must be (N, {self.size}), got {tuple(log_probs.shape)}")
        if target.shape != log_probs.shape[:1]:
            raise ValueError(f"target must be ({len(log_probs)},), got {tuple(target.shape)}")
        # 1. Give the target 1 − ε, and every other class its share of ε. Upcast half precision first:
        #    it cannot represent the small shares of a large vocabulary.
        wide = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
        smoothed = torch.full_like(wide, self.smoothing / (self.size - 2))  # (N, size)
        smoothed.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        # 2. Set the padding column to 0, and every row whose target is padding.
        smoothed[:, self.padding_idx] = 0
        smoothed.masked_fill_((target == self.padding_idx).unsqueeze(1), 0)
        # 3. Sum the divergence, in which 0 · log 0 is 0.
        return F.kl_div(wide, smoothed, reduction="sum").to(log_probs.dtype)


# --- Day 17 · Learning rate (§5.3) ----------------------------------------------------------------


def rate(step: int, model_size: int, factor: float, warmup: int) -> float:
    """Compute the learning rate of an optimizer step: linear warm-up, then decay like 1/√step.

        lrate = factor · d_model^−0.5 · min(step^−0.5, step · warmup^−1.5)

    Raises:
        ValueError: a warm-up of less than one step, a negative step, or a `model_size` below 1.

    Source: Vaswani et al. 2017, §5.3, eq. 3.
    """
    if warmup < 1 or step < 0:
        raise ValueError(f"warmup must be at least 1 and step at least 0, got {warmup} and {step}")
    if model_size < 1:
        raise ValueError(f"model_size must be at least 1, got {model_size}")
    # 1. Treat step 0 as step 1: `LambdaLR` asks for it before the first optimizer step.
    step = max(step, 1)
    # 2. Take the minimum of the two curves, which meet at the end of the warm-up.
    return factor * model_size**-0.5 * min(step**-0.5, step * warmup**-1.5)


# --- Day 18 · Training loop (§5) ------------------------------------------------------------------


def run_epoch(
    batches: Iterable[Batch],
    model: EncoderDecoder,
    loss: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    accumulate: int = 1,
) -> float:
    """Make one pass over the batches: train if there is an optimizer, otherwise only measure the loss.

    A step's gradient is that of the mean loss over the target tokens of `accumulate` batches, without
    padding. The result is the mean loss over all of them.

    Raises:
        ValueError: `accumulate` below 1, or no token to predict.

    Source: Vaswani et al. 2017, §5.
    """
    if accumulate < 1:
        raise ValueError(f"accumulate must be at least 1, got {accumulate}")
    training = optimizer is not None
    model.train(training)
    total_loss, total_tokens = 0.0, 0
    remaining = iter(batches)
    with torch.set_grad_enabled(training):
        # 1. Read a group of batches: its tokens must be counted before the first backward pass.
        while group := list(itertools.islice(remaining, accumulate)):
            if any(batch.tgt is None for batch in group):
                raise ValueError("batches must hold tokens to predict, got one without a target")
            tokens = sum(batch.ntokens for batch in group)
            if training:
                optimizer.zero_grad()
            for batch in group:
                # 2. Forward pass: states, log-probabilities, summed loss.
                states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
                log_probs = model.generator(states)  # (B, T − 1, V)
                summed = loss(log_probs.flatten(0, 1), batch.tgt_y.flatten())
                # 3. Backward pass: each batch adds its part of the group's mean loss.
                if training:
                    (summed / max(tokens, 1)).backward()
                total_loss += summed.detach().to(torch.promote_types(summed.dtype, torch.float32))
            # 4. Take one optimizer step for the group, and one scheduler step.
            if training:
                optimizer.step()
                if scheduler is not None:
                    scheduler.step()
            total_tokens += tokens
    if total_tokens == 0:
        raise ValueError("batches must hold tokens to predict, got none")
    # 5. Return the mean over tokens, not over batches, which differ in size.
    return float(total_loss / total_tokens)


# --- Day 19 · Greedy decoding (§3) ----------------------------------------------------------------


@torch.no_grad()
def greedy_decode(
    model: EncoderDecoder,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B 1 S"],
    max_len: int,
    start: int,
    end: int | None = None,
    pad: int = 0,  # later: what follows `end`
) -> Int[Tensor, "B t"]:
    """Generate the most likely token at each step, until every row has `end` or the length is `max_len`.

    The model's mode stays as it is: call `model.eval()` before.

    Raises:
        ValueError: `max_len` below 1.

    Source: Vaswani et al. 2017, §3 (auto-regressive).
    """
    if max_len < 1:
        raise ValueError(f"max_len must be at least 1, got {max_len}")
    # 1. Encode the source once. Every row begins with the start symbol, and none is finished.
    memory = model.encode(src, src_mask)  # (B, S, d_model)
    tokens = torch.full((src.size(0), 1), start, dtype=torch.long, device=src.device)
    finished = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
    while tokens.size(1) < max_len and not (end is not None and finished.all()):
        # 2. Predict the next token from the last position.
        causal_mask = subsequent_mask(tokens.size(1)).to(src.device)  # (1, t, t)
        states = model.decode(memory, src_mask, tokens, causal_mask)  # (B, t, d_model)
        next_tokens = model.generator(states[:, -1]).argmax(dim=-1)  # (B,)
        # 3. Append it, or padding in rows that have finished. Rows that generate `end` finish.
        next_tokens = next_tokens.masked_fill(finished, pad)
        tokens = torch.cat([tokens, next_tokens.unsqueeze(1)], dim=1)
        if end is not None:
            finished |= next_tokens == end
    return tokens


# --- Day 20 · Beam search (§6.1) ------------------------------------------------------------------


@torch.no_grad()
def beam_search(
    model: EncoderDecoder,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B 1 S"],
    max_len: int,
    start: int,
    end: int,
    beam: int = 4,
    alpha: float = 0.6,
    pad: int = 0,  # later: what follows `end`
) -> Int[Tensor, "B t"]:
    """Extend the `beam` most likely hypotheses in parallel, and return the best that ended or was cut off.

    A hypothesis of n tokens after the start symbol, its `end` included, has the score

        log P(tokens | source) / ((5 + n) / 6)^alpha

    The model's mode stays as it is: call `model.eval()` before.

    Raises:
        ValueError: `max_len` or `beam` below 1, or a negative `alpha`.

    Source: Vaswani et al. 2017, §6.1 (beam 4, α = 0.6); Wu et al. 2016, *Google's Neural Machine
    Translation System*, §7, eq. 14.
    """
    if max_len < 1 or beam < 1:
        raise ValueError(f"max_len and beam must be at least 1, got {max_len} and {beam}")
    if not alpha >= 0:
        raise ValueError(f"alpha must be at least 0, got {alpha}")
    rows, device = src.size(0), src.device
    # 1. Encode the source once, and repeat each row `beam` times. The hypotheses of a row are still
    #    identical, so all but one have an initial score of −∞.
    memory = model.encode(src, src_mask).repeat_interleave(beam, dim=0)  # (B·beam, S, d_model)
    src_mask = src_mask.repeat_interleave(beam, dim=0)  # (B·beam, 1, S)
    tokens = torch.full((rows, beam, 1), start, dtype=torch.long, device=device)
    wide = torch.promote_types(memory.dtype, torch.float32)  # half precision rounds a long sum
    scores = torch.full((rows, beam), -math.inf, device=device, dtype=wide)
    scores[:, 0] = 0.0
    best = torch.full((rows, max_len), pad, dtype=torch.long, device=device)
    best[:, 0] = start
    best_score = torch.full_like(scores[:, 0], -math.inf)  # (B,)
    longest = torch.ones_like(best[:, 0])  # (B,)
    for n in range(1, max_len):
        # 2. Score every continuation of every hypothesis, and keep the `beam` best of each row.
        causal_mask = subsequent_mask(n).to(device)
        states = model.decode(memory, src_mask, tokens.flatten(0, 1), causal_mask)
        log_probs = model.generator(states[:, -1]).unflatten(0, (rows, beam))  # (B, beam, V)
        totals = (scores.unsqueeze(-1) + log_probs).flatten(1)  # (B, beam·V)
        scores, chosen = totals.topk(beam)  # (B, beam)
        parent, next_tokens = chosen // log_probs.size(-1), chosen % log_probs.size(-1)
        tokens = tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, n))
        tokens = torch.cat([tokens, next_tokens.unsqueeze(-1)], dim=-1)  # (B, beam, n + 1)
        # 3. Remove hypotheses that ended from the beam; the next round replaces them. Keep each row's
        #    best ended hypothesis.
        ended = (next_tokens == end) | (n == max_len - 1)
        values = (scores / ((5 + n) / 6) ** alpha).masked_fill(~ended, -math.inf)
        value, which = values.max(dim=-1)  # (B,)
        better = value > best_score
        best[better, : n + 1] = tokens[better, which[better]]
        best_score = torch.where(better, value, best_score)
        longest = torch.where(better, n + 1, longest)
        scores = scores.masked_fill(ended, -math.inf)
        # 4. Stop when no hypothesis can still win (this only saves time): a score only falls, and the
        #    length penalty divides it by no more than that of max_len − 1 tokens.
        bound = scores.max(dim=-1).values / ((4 + max_len) / 6) ** alpha
        if (bound <= best_score).all():
            break
    return best[:, : max(longest.tolist(), default=1)]


# --- Day 21 · Byte-pair encoding (§5.1) -----------------------------------------------------------


def train_bpe(text: str, vocab_size: int) -> "BPE":
    """Learn a vocabulary by repeatedly merging the most frequent pair of adjacent ids.

    Raises:
        ValueError: a `vocab_size` below 256.

    Source: Sennrich, Haddow & Birch 2016, *Neural Machine Translation of Rare Words with Subword
    Units*, §3.2; on bytes: Radford et al. 2019 (GPT-2), §2.2.
    """
    if vocab_size < 256:
        raise ValueError(f"vocab_size must be at least 256, got {vocab_size}")
    # 1. Start from the UTF-8 bytes.
    ids = list(text.encode("utf-8"))
    merges: list[tuple[int, int]] = []
    while len(merges) < vocab_size - 256 and len(ids) > 1:
        # 2. Find the most frequent adjacent pair. A Counter keeps the order of insertion, and max returns
        #    the first of equal pairs.
        counts = Counter(itertools.pairwise(ids))
        pair = max(counts, key=counts.__getitem__)
        # 3. Replace it everywhere by the next free id.
        ids = BPE.merge(ids, pair, 256 + len(merges))
        merges.append(pair)
    return BPE(merges)


class BPE:
    """Encode text as ids and decode ids to text, without loss, for any text.

    Ids 0 to 255 are the bytes; id 256 + r is the pair `merges[r]`, of rank r.

    Raises:
        ValueError: a merge of ids that do not exist yet, or an id out of range.

    Source: Sennrich, Haddow & Birch 2016, §3.2.
    """

    def __init__(self, merges: Sequence[tuple[int, int]]):
        # 1. Store the bytes of each id: those of a merge are its two parts, concatenated.
        self.merges = list(merges)
        self.spelling = [bytes([byte]) for byte in range(256)]
        for left, right in self.merges:
            size = len(self.spelling)
            if not (0 <= left < size and 0 <= right < size):
                raise ValueError(f"merges must use ids below {size} here, got {(left, right)}")
            self.spelling.append(self.spelling[left] + self.spelling[right])

    @staticmethod
    def merge(ids: Sequence[int], pair: tuple[int, int], new: int) -> list[int]:
        """Replace each occurrence of a pair by a new id, from left to right, without overlaps."""
        # 1. Scan the ids. Where the pair begins, replace both of its ids.
        merged: list[int] = []
        position = 0
        while position < len(ids):
            if tuple(ids[position : position + 2]) == pair:
                merged.append(new)
                position += 2
            else:
                merged.append(ids[position])
                position += 1
        return merged

    def encode(self, text: str) -> list[int]:
        """Return the text's ids: apply the merges in the order in which they were learned."""
        # 1. Start from the bytes, and apply the merge of lowest rank until none applies.
        ids = list(text.encode("utf-8"))
        rank = {pair: number for number, pair in enumerate(self.merges)}
        while fitting := set(itertools.pairwise(ids)) & rank.keys():
            pair = min(fitting, key=rank.__getitem__)
            ids = self.merge(ids, pair, 256 + rank[pair])
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids. Invalid UTF-8, which a model may generate, becomes U+FFFD."""
        # 1. Concatenate the bytes of all ids before you decode: a character may span several ids.
        ids = list(ids)
        for number in ids:
            if not 0 <= number < len(self.spelling):
                raise ValueError(f"ids must be in 0 to {len(self.spelling) - 1}, got {number}")
        return b"".join(self.spelling[number] for number in ids).decode("utf-8", errors="replace")


# --- Day 22 · Translation (§5.1, §6.1) ------------------------------------------------------------


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Compute corpus BLEU, from 0 to 100: how similar translations are to human references.

        BLEU = 100 · BP · exp(¼ Σ log pₙ),  n = 1 … 4;   BP = min(1, exp(1 − r / c))

    pₙ is the modified (clipped) n-gram precision: the share of the hypotheses' n-grams that also occur in
    a reference, each counted at most as often as in the reference that has it most often. c is the total
    length of the hypotheses, r that of their closest references in length (the shorter at a tie).
    `references[k][i]` is the k-th reference of sentence i.

    Raises:
        ValueError: no references, streams that differ in length, or a string instead of a stream.

    Source: Papineni et al. 2002, *BLEU*, §2.3; Post 2018, *A Call for Clarity in Reporting BLEU
    Scores*; smoothing: Chen & Cherry 2014, technique 3.
    """
    if isinstance(hypotheses, str) or any(isinstance(stream, str) for stream in references):
        raise ValueError("hypotheses and each stream of references must be lists, got a string")
    if not references or any(len(stream) != len(hypotheses) for stream in references):
        lengths = [len(stream) for stream in references]
        raise ValueError(f"references must be streams of {len(hypotheses)} lines, got {lengths}")

    def ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
        return Counter(zip(*(tokens[first:] for first in range(n)), strict=False))

    matches, totals = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):
        tokens, *rest = (tokenize_13a(line) for line in (hypothesis, *alternatives))
        # 1. Add up the lengths of the hypothesis, and of the reference closest in length.
        hypothesis_length += len(tokens)
        reference_length += min(
            (len(other) for other in rest), key=lambda size: (abs(size - len(tokens)), size)
        )
        # 2. Count the n-grams that hypothesis and references share. For Counters, | takes the larger
        #    count of each n-gram, and & the smaller.
        for n in range(1, 5):
            most: Counter[tuple[str, ...]] = Counter()
            for other in rest:
                most |= ngrams(other, n)
            mine = ngrams(tokens, n)
            matches[n - 1] += (mine & most).total()
            totals[n - 1] += mine.total()
    if matches[0] == 0 or totals[3] == 0:
        return 0.0
    # 3. Sum the logarithms of the four precisions, smoothed where there is no match.
    logs, smooth = 0.0, 1.0
    for matched, total in zip(matches, totals, strict=True):
        if matched == 0:
            smooth /= 2
        logs += math.log((matched or smooth) / total)
    # 4. Return their geometric mean, times the brevity penalty.
    brevity = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(brevity + logs / 4)


def tokenize_13a(line: str) -> list[str]:
    """Tokenize like NIST's mteval-v13a.pl (sacreBLEU's `13a`), as published BLEU scores presuppose."""
    line = line.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity in ("&quot;", "&amp;", "&lt;", "&gt;"):
        line = line.replace(entity, html.unescape(entity))
    line = re.sub(r"([{-~\[-` -&(-+:-@/])", r" \1 ", f" {line} ")
    line = re.sub(r"([^0-9])([.,])", r"\1 \2 ", line)
    line = re.sub(r"([.,])([^0-9])", r" \1 \2", line)
    line = re.sub(r"([0-9])(-)", r"\1 \2 ", line)
    return line.split()


def token_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], max_tokens: int
) -> Iterator[list[tuple[Sequence[int], Sequence[int]]]]:
    """Group sentence pairs by length, so that batches are about equal in size and have little padding.

    Raises:
        ValueError: `max_tokens` below 1.

    Source: Vaswani et al. 2017, §5.1.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
    batch: list[tuple[Sequence[int], Sequence[int]]] = []
    longest_source = longest_target = 0
    # 1. Sort by length: pairs of similar length need little padding.
    for pair in sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1]))):
        # 2. Compute the batch's size with this pair. If it is too large, begin a new batch.
        source, target = max(longest_source, len(pair[0])), max(longest_target, len(pair[1]))
        if batch and (len(batch) + 1) * (source + target) > max_tokens:
            yield batch
            batch, source, target = [], len(pair[0]), len(pair[1])
        batch.append(pair)
        longest_source, longest_target = source, target
    if batch:
        yield batch
