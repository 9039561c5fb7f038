"""BERT: a Transformer encoder, pre-trained to predict masked tokens from both sides.

Paper: Devlin et al. 2018, *BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding*; § below are its own, and "the published code" is Google's. New after `implementation.py`:
there is no decoder, some tokens are masked and predicted, position embeddings are learned, each token
belongs to a segment, and GELU replaces ReLU. Blocks are post-norm, as in the paper of 2017.

The paper's second task, next-sentence prediction, is left out: RoBERTa (Liu et al. 2019, §4.2) does as well
without it.

From symbols to names
    B               batch: sequences worked on side by side
    T               time: tokens of a sequence, at most `context`
    V               vocab, tokens in the vocabulary
    N               n_layers, layers in the stack
    d_model         width of a token's vector everywhere between the layers
    d_ff            width of the hidden layer of the feed-forward network; 4 · d_model in the paper
    W_e, W_p, W_s   `embed.weight`, `positions.weight`, `segments.weight`
    b               `bias` of the output layer
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from implementation import (
    Encoder,
    EncoderLayer,
    LayerNorm,
    MultiHeadedAttention,
    PositionwiseFeedForward,
)


@dataclass(frozen=True)
class BERTConfig:
    """The sizes of a BERT; the defaults are BERT-base, uncased, with 110 million parameters.

    Attributes:
        context: the maximum number of tokens, which is the number of position embeddings.
        dropout: probability for features of the embedding, attention weights and sublayers' outputs.
        eps: ε of every LayerNorm.
        segments: the number of segments: a first and a second sentence.

    Source: Devlin et al. 2018, §3 and appendix A.2; context, eps, segments: the published code.
    """

    vocab: int = 30522
    context: int = 512
    n_layers: int = 12
    n_heads: int = 12
    d_model: int = 768
    d_ff: int = 3072
    dropout: float = 0.1
    eps: float = 1e-12
    segments: int = 2


class FeedForward(PositionwiseFeedForward):
    """The feed-forward network of day 10 with exact GELU, and without dropout inside.

        FFN(x) = GELU(x W₁ + b₁) W₂ + b₂
        GELU(x) = x Φ(x) = x · ½ (1 + erf(x / √2))

    Source: Devlin et al. 2018, appendix A.2; Hendrycks & Gimpel 2016, *Gaussian Error Linear Units*, §2.
    `transformers` computes BERT's GELU exactly; the published code ended with the tanh approximation.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__(d_model, d_ff, dropout=0.0)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position separately."""
        return self.w_2(F.gelu(self.w_1(x)))  # (…, d_model)


class Layer(EncoderLayer):
    """One layer of BERT: a post-norm encoder layer whose norms have BERT's ε.

        x ← LN(x + Dropout(Attention(x, x, x, mask)))
        x ← LN(x + Dropout(FFN(x)))

    Source: Devlin et al. 2018, §3: the encoder layer of Vaswani et al. 2017, §3.1.
    """

    def __init__(
        self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float, eps: float
    ):
        super().__init__(size, self_attn, feed_forward, dropout, norm="post")
        for connection in self.sublayer:
            connection.norm.eps = eps


class Transform(nn.Module):
    """The head's transform of each state before the product with the embeddings.

        Transform(x) = LN(GELU(x W + b)),    GELU as in `FeedForward`

    Source: the published code (`get_masked_lm_output`); the paper does not mention it.
    """

    def __init__(self, d_model: int, eps: float):
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.norm = LayerNorm(d_model, eps)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each state separately."""
        return self.norm(F.gelu(self.dense(x)))  # (…, d_model)


# --- Day 26 · BERT --------------------------------------------------------------------------------


def mask_tokens(
    tokens: Int[Tensor, "*batch T"],
    mask_id: int,
    vocab: int,
    special: Collection[int],
    p: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "*batch T"], Int[Tensor, "*batch T"]]:
    """Select tokens for prediction, and mask most of them; return the inputs and the labels.

    Each token that is not special is selected with probability p. A selected token becomes

        with probability 0.8    the token `mask_id`
        with probability 0.1    a random token, uniform over all V
        with probability 0.1    itself

    The inputs of a fine-tuned model have no masks: because any token may be wrong, the model also learns
    representations of unmasked tokens. Labels are −100 where nothing is predicted, which
    `F.cross_entropy` ignores.

    Raises:
        ValueError: `mask_id` or an id in `special` outside 0 to V − 1, or p outside 0 to 1.

    Source: Devlin et al. 2018, §3.1, task #1, and appendix A.1. The published code selects exactly 15% of
    each row's tokens; `transformers` draws for each token separately, as here.
    """
    if not 0 <= mask_id < vocab:
        raise ValueError(f"mask_id must be in 0 to {vocab - 1}, got {mask_id}")
    for number in special:
        if not 0 <= number < vocab:
            raise ValueError(f"special ids must be in 0 to {vocab - 1}, got {number}")
    if not 0 <= p <= 1:
        raise ValueError(f"p must be in 0 to 1, got {p}")
    # 1. Select each token with probability p, but no special token.
    never = torch.tensor(list(special), dtype=tokens.dtype, device=tokens.device)
    draw = torch.rand(tokens.shape, generator=generator, device=tokens.device)  # (…, T)
    chosen = (draw < p) & ~torch.isin(tokens, never)  # (…, T)
    # 2. The labels are the original tokens where they are selected.
    labels = tokens.masked_fill(~chosen, -100)  # (…, T)
    # 3. Draw a second number for every token: 0.8 and 0.9 divide the selected tokens into masked, random
    #    and unchanged ones.
    fate = torch.rand(tokens.shape, generator=generator, device=tokens.device)  # (…, T)
    hidden = chosen & (fate < 0.8)  # (…, T)
    replaced = chosen & (fate >= 0.8) & (fate < 0.9)  # (…, T)
    # 4. Write the mask and the random tokens into a copy.
    instead = torch.randint(
        vocab, tokens.shape, generator=generator, dtype=tokens.dtype, device=tokens.device
    )  # (…, T)
    inputs = tokens.masked_fill(hidden, mask_id)  # (…, T)
    return torch.where(replaced, instead, inputs), labels


class BERT(nn.Module):
    """The complete BERT: from a masked text to the logits of every position.

        x₀ = Dropout(LN(W_e[tokens] + W_p[0 … T − 1] + W_s[segments]))
        xₙ = Layer(xₙ₋₁), n = 1 … N
        logits = Transform(x_N) W_eᵀ + b

    The output layer is tied to `embed`; its bias is a separate parameter. Every matrix is initialized from
    N(0, 0.02²), truncated at ±0.04, biases to 0 and gains to 1.

    Raises:
        ValueError: n_heads does not divide d_model; more tokens than `context`, segments that are not shaped
            like `tokens`, or a mask that is not boolean or has a wrong shape.

    Source: Devlin et al. 2018, §3 (the layers; Input/Output Representations and figure 2: the sum of the
    three), §3.1 and appendix A.2; the norm of the sum, the head, initialization: the published code.
    """

    def __init__(self, config: BERTConfig):
        super().__init__()
        # 1. Store the config. Make the embedding matrices of tokens, positions and segments, the norm of
        #    their sum, and its dropout.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.segments = nn.Embedding(config.segments, config.d_model)
        self.norm = LayerNorm(config.d_model, config.eps)
        self.dropout = nn.Dropout(config.dropout)
        # 2. Build the stack of layers.
        layer = Layer(
            config.d_model,
            MultiHeadedAttention(config.n_heads, config.d_model, config.dropout),
            FeedForward(config.d_model, config.d_ff),
            config.dropout,
            config.eps,
        )
        self.encoder = Encoder(layer, config.n_layers)
        # 3. Make the head: a transform, and a bias for each token of the vocabulary.
        self.transform = Transform(config.d_model, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))
        # 4. Initialize every matrix from N(0, 0.02²), truncated at two standard deviations; biases to 0.
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
        mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of each position, which depend on the tokens on both sides.

        `segments` is from 0 to `config.segments` − 1, and all 0 if None. `mask` is True where a token may be
        attended to; `(B, 1, T)` hides padding.
        """
        if tokens.size(1) > self.config.context:
            raise ValueError(
                f"tokens must be at most context = {self.config.context} long, got {tokens.size(1)}"
            )
        if segments is not None and segments.shape != tokens.shape:
            raise ValueError(
                f"segments must have the shape of tokens, {tuple(tokens.shape)}, got "
                f"{tuple(segments.shape)}"
            )
        # 1. Look up tokens, positions and segments, and add them. Normalize the sum, then apply dropout.
        positions = torch.arange(tokens.size(1), device=tokens.device)  # (T,)
        if segments is None:
            segments = torch.zeros_like(tokens)  # (B, T)
        x = self.embed(tokens) + self.positions(positions) + self.segments(segments)
        x = self.dropout(self.norm(x))  # (B, T, d_model)
        # 2. Apply the layers.
        x = self.encoder(x, mask)  # (B, T, d_model)
        # 3. Transform the states, and multiply them by the embeddings of all tokens; add the bias.
        return F.linear(self.transform(x), self.embed.weight, self.bias)  # (B, T, V)
