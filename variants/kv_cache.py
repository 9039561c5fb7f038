"""The key-value cache: keep the keys and values of earlier tokens instead of recomputing them.

Without a cache, a decoder computes the keys and values of its whole text again for every new token. These
never change, because no token attends to a later one. With a cache, a step projects one token instead of all:
n tokens cost n projections instead of n²/2. The price is memory. Nothing is retrained: every model here
has the parameters and names of the uncached one, and its results up to rounding.

From symbols to names
    B               batch: number of sequences processed together
    T               time: tokens of a chunk, which are read at once
    T_q, T_k        time, where attention is meant: of the queries, of the keys and values
    N               n_layers
    h               n_heads, heads of the keys and values
    d_k             width of a key or value inside one head
"""

from inspect import signature

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import attention
from variants.gpt import GPT, CausalSelfAttention, GPTConfig
from variants.sampling import generate

# --- Day 25 · KV cache ----------------------------------------------------------------------------


class KVCache:
    """Store the keys and values of all layers, in memory that is allocated once and filled chunk by chunk.

    `keys` and `values` are `(N, B, h, max_len, d_k)` each: 2 · N · B · h · max_len · d_k numbers. `length` is
    the number of tokens that all layers store. During a forward pass the earlier layers already store the
    new chunk, so `length` still is the position of the chunk's first token.

    Source: Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You Need*, §2.4 (incremental
    multi-head attention).
    """

    def __init__(self, n_layers: int, batch: int, n_heads: int, max_len: int, d_k: int):
        # 1. Allocate memory for the keys, and as much for the values.
        self.keys = torch.empty(n_layers, batch, n_heads, max_len, d_k)
        self.values = torch.empty_like(self.keys)  # (N, B, h, max_len, d_k)
        # 2. Count the tokens that each layer stores, and those that all layers store.
        self.lengths = [0] * n_layers
        self.length = 0

    def update(
        self,
        layer: int,
        key: Float[Tensor, "B n_heads T d_k"],
        value: Float[Tensor, "B n_heads T d_k"],
    ) -> tuple[Float[Tensor, "B n_heads T_k d_k"], Float[Tensor, "B n_heads T_k d_k"]]:
        """Append a chunk to one layer, counted from 0, and return all keys and values of that layer.

        Raises:
            ValueError: a layer index out of range, a shape other than `(B, h, T, d_k)`, or more than
                `max_len` tokens. The cache is unchanged.
        """
        self._check_chunk(layer, key, value)
        # 1. While the cache is empty, it takes the chunk's dtype and device.
        if not any(self.lengths):
            self.keys = self.keys.to(key)  # (N, B, h, max_len, d_k)
            self.values = self.values.to(value)  # (N, B, h, max_len, d_k)
        # 2. Write the chunk, detached from the graph, after the tokens that this layer stores.
        start = self.lengths[layer]
        end = start + key.size(2)
        self.keys[layer, :, :, start:end] = key.detach()  # (B, h, T, d_k)
        self.values[layer, :, :, start:end] = value.detach()  # (B, h, T, d_k)
        # 3. Count the tokens of this layer, and those that all layers store.
        self.lengths[layer] = end
        self.length = min(self.lengths)
        # 4. Return everything that this layer stores now.
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]  # (B, h, T_k, d_k) each

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Reorder the batch for beam search: row i becomes what row `rows[i]` was."""
        # 1. Reorder the filled part of every layer. Indexing by a tensor copies before anything is written.
        end = max(self.lengths)
        self.keys[:, :, :, :end] = self.keys[:, rows, :, :end]  # (N, B, h, end, d_k)
        self.values[:, :, :, :end] = self.values[:, rows, :, :end]  # (N, B, h, end, d_k)

    def _check_chunk(self, layer: int | None, key: Tensor, value: Tensor) -> None:
        """Check a chunk before anything is written."""
        n_layers, batch, n_heads, max_len, d_k = self.keys.shape
        if layer is None or not 0 <= layer < n_layers:
            raise ValueError(f"layer must be 0 to {n_layers - 1}, got {layer}")
        if key.dim() != 4 or not key.shape == value.shape == (batch, n_heads, key.size(2), d_k):
            raise ValueError(
                f"key and value must be (B, n_heads, T, d_k) = ({batch}, {n_heads}, T, {d_k}), "
                f"got {tuple(key.shape)} and {tuple(value.shape)}"
            )
        if self.lengths[layer] + key.size(2) > max_len:
            raise ValueError(
                f"layer {layer} must hold at most max_len = {max_len} tokens, "
                f"got {self.lengths[layer]} + {key.size(2)}"
            )


class CachedSelfAttention(CausalSelfAttention):
    """The causal self-attention of day 23, which can also continue a text that a cache holds.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    Q comes from the chunk's T_q tokens. K and V come from all T_k tokens so far, of which the chunk's are
    the last T_q: query t is at position T_k − T_q + t.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; Shazeer 2019, §2.4.
    """

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all earlier tokens.

        Raises:
            ValueError: a cache without the index of its layer, and as `KVCache.update` does.
        """
        # 1. Project the chunk alone into query, key and value, and split each into heads.
        query, key, value = self.w_qkv(x).chunk(3, dim=-1)  # (B, T_q, d_model) each
        query = query.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        key = key.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        value = value.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        # 2. Append keys and values to those of earlier tokens, and take them all.
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, h, T_k, d_k) each
        # 3. The mask: each query sees all tokens before the chunk, and its own up to itself. A single
        #    query sees everything, and needs none.
        t_q, t_k = query.size(2), key.size(2)
        mask = None  # or (T_q, T_k)
        if t_q > 1:
            mask = torch.ones(t_q, t_k, dtype=torch.bool, device=x.device).tril(t_k - t_q)
        # 4. Attend, join the heads, and apply the output projection.
        heads, _ = attention(query, key, value, mask, self.dropout)  # (B, h, T_q, d_k)
        return self.w_o(heads.transpose(1, 2).flatten(-2))  # (B, T_q, d_model)


class CachedGPT(GPT):
    """The GPT of day 23 with the attention of day 25 in its blocks; its state dict and results are the same.

    A `GPT` itself takes a cache as well, faster: its attention is one kernel.
    """

    def __init__(self, config: GPTConfig):
        super().__init__(config)
        for block in self.blocks:
            self_attn = CachedSelfAttention(config.d_model, config.n_heads, config.dropout)
            self_attn.load_state_dict(block.self_attn.state_dict())
            block.self_attn = self_attn


def past_length(tokens: Int[Tensor, "B T"], cache: KVCache | None, config: GPTConfig) -> int:
    """Return the position of a chunk's first token: the number of tokens that the cache holds.

    `config` is a `GPTConfig`, or any other with the fields `context` and `n_layers`.

    Raises:
        ValueError: cache and chunk together are longer than `config.context`, or the cache does not have the
            model's number of layers.
    """
    past = 0 if cache is None else cache.length
    if past + tokens.size(1) > config.context:
        raise ValueError(
            f"tokens must be at most context = {config.context} long, with those in the cache, "
            f"got {past} + {tokens.size(1)}"
        )
    if cache is not None and len(cache.keys) != config.n_layers:
        raise ValueError(
            f"cache must have n_layers = {config.n_layers} layers, got {len(cache.keys)}"
        )
    return past


def new_cache(config: GPTConfig, batch: int, max_len: int) -> KVCache:
    """Return an empty cache for a model, with as many heads as the config's `n_kv_heads` where it has them.

    A `max_len` above `config.context` is never filled.
    """
    heads = getattr(config, "n_kv_heads", config.n_heads)
    return KVCache(config.n_layers, batch, heads, max_len, config.d_model // config.n_heads)


def generate_cached(
    model: nn.Module,
    tokens: Int[Tensor, "B T"],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B T_new"]:
    """Generate as `generate` of day 24 does, with a cache: the same tokens, faster.

    Cached logits equal uncached ones up to rounding, so only near ties can differ. Once the text is longer
    than the context, the window slides: every token's position changes, so nothing cached is valid, and each
    step reads the full context.

    Raises:
        ValueError: as `generate` does.
    """
    cached = CachedModel(model, min(tokens.size(1) + max_new_tokens, model.config.context))
    return generate(cached, tokens, max_new_tokens, temperature, top_k, top_p, generator)


class CachedModel(nn.Module):
    """Wrap a model for `generate`: pass on only the tokens that its cache does not hold."""

    def __init__(self, model: nn.Module, max_len: int):
        super().__init__()
        self.model = model
        self.config = model.config
        self.max_len = max_len
        self.cache: KVCache | None = None
        # `generate` reads the last logits alone, and ours compute no others if asked.
        self.how = {"last": True} if "last" in signature(model.forward).parameters else {}

    def forward(self, tokens: Int[Tensor, "B t"]) -> Float[Tensor, "B T V"]:
        """Return the logits of the new tokens, or of the last one; once the context slides, of all tokens."""
        if self.cache is None:
            self.cache = new_cache(self.config, len(tokens), self.max_len)
        past = self.cache.length
        sliding = tokens.size(1) <= past  # no longer than before, so it was cut off at the left
        if sliding:
            return self.model(tokens, **self.how)  # (B, context, V), or (B, 1, V)
        return self.model(tokens[:, past:], self.cache, **self.how)  # (B, T, V), or (B, 1, V)
