"""BERT: a Transformer's encoder alone, which learns by filling in gaps from both sides.

Paper: Devlin et al. 2018, *BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding*; § below are its own, and "the published code" is Google's. What is new after
`implementation.py`: there is no decoder, some of the tokens are hidden and predicted, positions are
learnt, each token belongs to a segment, and ReLU becomes GELU. The norms stay behind the shortcuts.

The paper's second task, to tell whether two sentences follow each other, is not here: later work (Liu
et al. 2019, *RoBERTa*, §4.2) does as well without it.

From symbols to names
    B               batch: sequences worked on side by side
    T               time: tokens of a sequence, at most `context`
    V               vocab, tokens in the vocabulary
    N               n_layers, layers in the stack
    d_model         width of a token's vector everywhere between the layers
    d_ff            width of the hidden layer of the feed-forward network; 4 · d_model in the paper
    W_e, W_p, W_s   `embed.weight`, `positions.weight`, `segments.weight`
    b               `bias`, of the output projection
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
    """The sizes of a BERT. The defaults are BERT-base, uncased, of 110 million parameters.

    Attributes:
        vocab: V, the number of tokens.
        context: the most tokens that the model can read at once: positions in its table.
        n_layers: N, the number of layers.
        n_heads: heads of the attention; it divides d_model.
        d_model: width of the tokens' vectors.
        d_ff: width of the feed-forward networks' hidden layer. It does not follow d_model by itself.
        dropout: the probability with which a feature of the embedding, an attention weight, or a
            feature of a sublayer's output is dropped in training.
        eps: of every LayerNorm.
        segments: how many kinds of segment there are: a first and a second sentence.

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
    """The feed-forward network of day 10 with GELU, as it is defined, and without dropout inside.

        FFN(x) = GELU(x W₁ + b₁) W₂ + b₂
        GELU(x) = x Φ(x) = x · ½ (1 + erf(x / √2))

    Args and attributes: as there, `w_1` and `w_2`.

    Source: Devlin et al. 2018, appendix A.2; Hendrycks & Gimpel 2016, *Gaussian Error Linear Units*, §2.
    `transformers` computes BERT's GELU so; the published code ended with the approximation by tanh.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__(d_model, d_ff, dropout=0.0)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype."""
        return self.w_2(F.gelu(self.w_1(x)))  # (…, d_model)


class Layer(EncoderLayer):
    """One layer of BERT: an encoder layer in post-norm, whose norms have an ε of their own.

        x ← LN(x + Dropout(Attention(x, x, x, mask)))
        x ← LN(x + Dropout(FFN(x)))

    Args:
        size, self_attn, feed_forward, dropout: as for an `EncoderLayer`.
        eps: of both norms.

    Attributes: those of an `EncoderLayer`.

    Source: Devlin et al. 2018, §3: the encoder layer of Vaswani et al. 2017, §3.1.
    """

    def __init__(
        self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float, eps: float
    ):
        super().__init__(size, self_attn, feed_forward, dropout, norm="post")
        for connection in self.sublayer:
            connection.norm.eps = eps


class Transform(nn.Module):
    """What the head does to each state before it is compared with the embeddings.

        Transform(x) = LN(GELU(x W + b)),    GELU as in `FeedForward`

    Args:
        d_model: width of the states.
        eps: of the norm.

    Attributes:
        dense: `nn.Linear(d_model, d_model)`.
        norm: a `LayerNorm(d_model, eps)`.

    Source: the published code (`get_masked_lm_output`); the paper does not speak of it.
    """

    def __init__(self, d_model: int, eps: float):
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.norm = LayerNorm(d_model, eps)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype."""
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
    """Make an exercise of a text: choose some tokens, hide most of them, and ask for all of them.

    Each token that is not special is chosen with probability p. A chosen one becomes

        with probability 0.8    the token `mask_id`
        with probability 0.1    a random token, each of the V as likely, special ones and itself too
        with probability 0.1    what it was

    so that no token can be trusted, and the model learns something about those, too, that are not
    hidden: once it is put to use, no text holds a mask.

    Args:
        tokens: int64 ids of any shape, such as `(B, T)`; also empty.
        mask_id: the token that hides another.
        vocab: V, the number of tokens.
        special: ids that are never chosen, such as those of padding, [CLS] and [SEP], as a list, tuple or
            set; may be empty. `mask_id` need not be among them: text holds none.
        p: the probability with which a token is chosen. 0 chooses none, 1 all but the special.
        generator: where the randomness comes from, on the device of `tokens`; None for torch's own. Equal
            states give equal results, and a draw changes the state.

    Returns:
        Inputs and labels, in that order: new tensors of the shape, dtype and device of `tokens`, which
        stays as it is. A label is what the token was where it was chosen, also where it stays what it
        was, and −100 elsewhere, which `F.cross_entropy` leaves out. Tokens that were not chosen stand in
        the inputs unchanged. Every token's fate is independent of all the others': a row may have more
        or fewer than its share chosen, or none.

    Raises:
        ValueError: `mask_id`, or one of `special`, outside 0 to V − 1, or p outside 0 to 1.

    Source: Devlin et al. 2018, §3.1, task #1, and appendix A.1. The published code chooses a fixed
    number of each row's tokens, 15% of its length; to draw for each alone is the way of `transformers`.
    """
    if not 0 <= mask_id < vocab:
        raise ValueError(f"mask_id must lie in 0 to {vocab - 1}, and is {mask_id}")
    for number in special:
        if not 0 <= number < vocab:
            raise ValueError(f"special ids must lie in 0 to {vocab - 1}, and one is {number}")
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie in 0 to 1, and is {p}")
    # 1. Choose each token with probability p, but no special one.
    never = torch.tensor(list(special), dtype=tokens.dtype, device=tokens.device)
    draw = torch.rand(tokens.shape, generator=generator, device=tokens.device)  # (…, T)
    chosen = (draw < p) & ~torch.isin(tokens, never)  # (…, T)
    # 2. The labels: what the chosen tokens were.
    labels = tokens.masked_fill(~chosen, -100)  # (…, T)
    # 3. Draw once more for every token: one number from 0 to 1, cut at 0.8 and at 0.9, says what becomes
    #    of it if it was chosen.
    fate = torch.rand(tokens.shape, generator=generator, device=tokens.device)  # (…, T)
    hidden = chosen & (fate < 0.8)  # (…, T)
    replaced = chosen & (fate >= 0.8) & (fate < 0.9)  # (…, T)
    # 4. Put the mask and the random tokens in their places, in a copy. The others stay.
    instead = torch.randint(
        vocab, tokens.shape, generator=generator, dtype=tokens.dtype, device=tokens.device
    )  # (…, T)
    inputs = tokens.masked_fill(hidden, mask_id)  # (…, T)
    return torch.where(replaced, instead, inputs), labels


class BERT(nn.Module):
    """The whole: from a text with gaps to scores of what belongs at every position.

        x₀ = Dropout(LN(W_e[tokens] + W_p[0 … T − 1] + W_s[segments]))
        xₙ = Layer(xₙ₋₁), n = 1 … N
        logits = Transform(x_N) W_eᵀ + b

    Args:
        config: a `BERTConfig`.

    Attributes:
        config: as given.
        embed: W_e, `nn.Embedding(vocab, d_model)`, without a padding index. It is the output projection
            as well: the head is tied, and has no matrix of that shape of its own.
        positions: W_p, `nn.Embedding(context, d_model)`, learnt.
        segments: W_s, `nn.Embedding(config.segments, d_model)`.
        norm: a `LayerNorm(d_model, eps)`, on the sum of the three, before the dropout.
        encoder: an `Encoder` of N `Layer`s, each of a `MultiHeadedAttention` and a `FeedForward`, with
            the config's dropout on attention weights and on both shortcuts.
        transform: a `Transform(d_model, eps)`.
        bias: b, `(V,)`, a parameter, free: nothing else is tied to it.

        These seven hold all parameters, and nothing else stands in the state dict. Every matrix, the
        three tables among them, starts at N(0, 0.02²), cut off at two deviations, ±0.04. Biases start at
        0, gains at 1.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Devlin et al. 2018, §3 (the layers; Input/Output Representations and figure 2: the sum of the
    three), §3.1 and appendix A.2; the norm of the sum, the head and the start: the published code.
    """

    def __init__(self, config: BERTConfig):
        super().__init__()
        # 1. Keep the config. Tables for tokens, positions and segments, the norm of their sum, and its
        #    dropout.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.segments = nn.Embedding(config.segments, config.d_model)
        self.norm = LayerNorm(config.d_model, config.eps)
        self.dropout = nn.Dropout(config.dropout)
        # 2. The stack of layers.
        layer = Layer(
            config.d_model,
            MultiHeadedAttention(config.n_heads, config.d_model, config.dropout),
            FeedForward(config.d_model, config.d_ff),
            config.dropout,
            config.eps,
        )
        self.encoder = Encoder(layer, config.n_layers)
        # 3. The head: a transform, and a bias for each token of the vocabulary.
        self.transform = Transform(config.d_model, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))
        # 4. Start every matrix at N(0, 0.02²), cut off at two deviations; biases at 0.
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
        """Score what belongs at each position.

        Args:
            tokens: ids `(B, T)`, T ≤ context, such as the inputs of `mask_tokens`. The first token of a
                row stands at position 0.
            segments: the segment of each token, from 0 to `config.segments` − 1, `(B, T)`. None: all are 0.
            mask: True where a token may be attended to, `(1|B, 1|T, T)`, as for the `Encoder`: `(B, 1, T)`
                hides padding. None: all may be. A hidden token is scored all the same.

        Returns:
            Logits `(B, T, V)` in the weights' dtype. They are not normed: no softmax is applied. Without
            a mask every row of them depends on all T tokens, before and after it. T = 0 gives
            `(B, 0, V)`.

        Raises:
            ValueError: more tokens than `config.context`, segments of another shape than `tokens`, or a
                mask that is not boolean, or of another shape.
        """
        if tokens.size(1) > self.config.context:
            raise ValueError(
                f"tokens must be at most context = {self.config.context} long, not {tokens.size(1)}"
            )
        if segments is not None and segments.shape != tokens.shape:
            raise ValueError(
                f"segments must have the shape of tokens, {tuple(tokens.shape)}, and have "
                f"{tuple(segments.shape)}"
            )
        # 1. Look up tokens, positions and segments, and add. Norm the sum, then drop some features.
        positions = torch.arange(tokens.size(1), device=tokens.device)  # (T,)
        if segments is None:
            segments = torch.zeros_like(tokens)  # (B, T)
        x = self.embed(tokens) + self.positions(positions) + self.segments(segments)
        x = self.dropout(self.norm(x))  # (B, T, d_model)
        # 2. Through the layers.
        x = self.encoder(x, mask)  # (B, T, d_model)
        # 3. Transform, and score each token of the vocabulary by the product with its embedding, and by
        #    its bias.
        return F.linear(self.transform(x), self.embed.weight, self.bias)  # (B, T, V)
