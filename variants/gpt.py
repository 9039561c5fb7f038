"""GPT-2: a decoder-only Transformer language model.

Papers: Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training* (GPT), and
Radford et al. 2019, *Language Models are Unsupervised Multitask Learners* (GPT-2); each Source names
its paper. The changes from `implementation.py`: no cross-attention, pre-norm, learned positions, GELU
instead of ReLU, and the embedding matrix is also the output projection.

From symbols to names
    B               batch: number of sequences processed together
    T               time: tokens of a sequence, at most `context`
    V               vocab, tokens in the vocabulary
    N               n_layers, blocks in the stack
    h               n_heads
    d_model         width of the residual stream
    d_k             width of a query, key or value inside one head: d_model / h
    d_ff            width of the hidden layer of the feed-forward network; 4 · d_model in GPT-2
    W_e, W_p        `embed.weight`, `positions.weight`

A parameter that a later day needs names that day, such as `# day 25`. `generate` of `variants/sampling.py`
generates text with a model, and `variants/train_gpt.py` trains one.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

import implementation


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT; by default those of the smallest GPT-2, which has 124 million parameters.

    `context` is the maximum number of tokens in a sequence. `dropout` is the probability of dropping an
    attention weight, or a feature of the embeddings or of a sublayer's output.

    Source: Radford et al. 2019, table 2 and §2.3; dropout, and d_ff = 4 · d_model: Radford et al. 2018,
    §4.1.
    """

    vocab: int = 50257
    context: int = 1024
    n_layers: int = 12
    n_heads: int = 12
    d_model: int = 768
    d_ff: int = 3072
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    """Attend from each token to itself and to earlier tokens, in h heads.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; one projection for the three, and biases: OpenAI's
    published code of GPT-2.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(
                f"n_heads must divide d_model, got n_heads={n_heads}, d_model={d_model}"
            )
        # 1. Store the number of heads. One projection into query, key and value, one for the output,
        #    and the dropout of the weights.
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache=None,  # day 25: a `KVCache`, with the keys and values of the tokens before x
        layer=None,  # day 25: the layer of the cache
        mask=None,  # day 45: (B, 1, T, T), in place of the causal mask
    ) -> Float[Tensor, "B T d_model"]:
        """Return the output; row t depends on `x[:, :t + 1]` alone."""
        # 1. Project once, and cut the result into query, key and value.
        query, key, value = self.w_qkv(x).chunk(3, dim=-1)  # (B, T, d_model) each
        # 2. Split the last axis of each into heads.
        query = query.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
        key = key.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
        value = value.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, h, T_k, d_k) each
        t, t_k = x.size(1), key.size(2)
        if mask is None and 1 < t < t_k:  # after those of a cache; a single token sees everything
            mask = torch.ones(t, t_k, dtype=torch.bool, device=x.device).tril(t_k - t)
        # 3. Attend from each token to itself and to earlier tokens.
        p = self.dropout.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(
            query, key, value, mask, dropout_p=p, is_causal=mask is None and t == t_k
        )  # (B, h, T, d_k)
        # 4. Join the heads, and apply the output projection.
        return self.w_o(heads.transpose(1, 2).flatten(-2))  # (B, T, d_model)


class FeedForward(nn.Module):
    """Apply the feed-forward network of day 10 with GELU, a smooth ReLU, and without dropout inside.

        FFN(x) = GELU(x W₁ + b₁) W₂ + b₂
        GELU(x) = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))

    Source: Radford et al. 2018, §4.1; Hendrycks & Gimpel 2016, *Gaussian Error Linear Units*, §2, the
    approximation by tanh.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Map `(…, d_model)` to the same shape and dtype."""
        return self.w_2(F.gelu(self.w_1(x), approximate="tanh"))  # (…, d_model)


class LayerNorm(implementation.LayerNorm):
    """Apply the LayerNorm of day 11, in one kernel of PyTorch."""

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the last axis, then scale and shift it."""
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class Block(nn.Module):
    """Apply one layer of GPT-2: pre-norm causal self-attention, then the feed-forward network.

        x ← x + Dropout(Attention(LN(x)))
        x ← x + Dropout(FFN(LN(x)))

    `self_attn` is called as `self_attn(x, **attention_args)`.

    Source: Radford et al. 2019, §2.3.
    """

    def __init__(self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float):
        super().__init__()
        self.self_attn = self_attn
        self.feed_forward = feed_forward
        self.norm_1 = LayerNorm(size)
        self.norm_2 = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T d_model"], **attention_args
    ) -> Float[Tensor, "B T d_model"]:
        """Map `(B, T, d_model)` to the same shape and dtype."""
        x = x + self.dropout(self.self_attn(self.norm_1(x), **attention_args))  # (B, T, d_model)
        return x + self.dropout(self.feed_forward(self.norm_2(x)))  # (B, T, d_model)


class GPT(nn.Module):
    """Predict the next token at every position, from that token and those before it.

        h₀ = Dropout(W_e[tokens] + W_p[0 … T − 1])
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = LN(h_N) W_eᵀ

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Radford et al. 2018, §3.1, eq. 2, and §4.1 (0.02, learned positions, dropout); Radford et al.
    2019, §2.3 (where the norms are, the smaller initialization of the residual layers).
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        # 1. Store the config. Embeddings of tokens and of positions, and the dropout of their sum.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        # 2. Make the blocks, each with its own weights, and the final norm.
        self.blocks = nn.ModuleList(
            Block(
                config.d_model,
                CausalSelfAttention(config.d_model, config.n_heads, config.dropout),
                FeedForward(config.d_model, config.d_ff),
                config.dropout,
            )
            for _ in range(config.n_layers)
        )
        self.norm = LayerNorm(config.d_model)
        # 3. Initialize every matrix from N(0, 0.02²), those that write to the residual stream with a
        #    smaller standard deviation: their 2 N outputs add up. Biases are 0.
        for name, parameter in self.named_parameters():
            if name.endswith(("w_o.weight", "w_2.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.n_layers))
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        cache=None,  # day 25: a `KVCache`; the tokens follow those that it holds, and are appended
        positions=None,  # day 45: (B, T), if a row has several texts
        mask=None,  # day 45: (B, T, T), True where a token may attend to another
        last: bool = False,  # later: return the logits of the last position only, (B, 1, V)
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the token after each position, without a softmax.

        Raises:
            ValueError: more tokens than `config.context`.
        """
        past = 0 if cache is None else cache.length
        if past + tokens.size(1) > self.config.context:
            raise ValueError(
                f"tokens must be at most context = {self.config.context} long, got {past + tokens.size(1)}"
            )
        if cache is not None and len(cache.keys) != self.config.n_layers:
            raise ValueError(
                f"cache must have {self.config.n_layers} layers, got {len(cache.keys)}"
            )
        # 1. Look up the tokens and their positions, add, and apply dropout to the sum.
        positions = (
            torch.arange(past, past + tokens.size(1), device=tokens.device)  # (T,)
            if positions is None
            else positions
        )
        x = self.dropout(self.embed(tokens) + self.positions(positions))  # (B, T, d_model)
        # 2. Through the blocks in turn, then through the final norm.
        attention_args = {} if mask is None else {"mask": mask.unsqueeze(1)}
        for layer, block in enumerate(self.blocks):
            if cache is not None:
                attention_args |= {"cache": cache, "layer": layer}
            x = block(x, **attention_args)  # (B, T, d_model)
        if last:
            x = x[:, -1:]  # (B, 1, d_model)
        x = self.norm(x)  # (B, T, d_model)
        # 3. The logit of a token is the product of the state with the token's embedding.
        return F.linear(x, self.embed.weight)  # (B, T, V)
