"""The key-value cache: what attention computed for earlier tokens is kept, not computed again.

A decoder reads its own text once for every token that it writes. No token sees a later one, so the keys
and values of those already read never change. With them kept, a step projects one token instead of all:
n tokens cost n projections instead of n²/2. The price is memory. Nothing is trained for it, and no weight
is new: every model here has the parameters, the names and the results of the one that it stands for.

From symbols to names
    B               batch: sequences that are continued side by side
    T               time: tokens of a chunk, which are read at once
    T_q, T_k        time, where attention is meant: of the queries, of the keys and values
    N               n_layers
    h               n_heads, heads that keys and values have
    d_k             width of a key or value inside one head
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import attention, clones
from variants.gpt import GPT, Block, CausalSelfAttention, FeedForward, GPTConfig
from variants.sampling import generate

# --- Day 25 · KV cache ----------------------------------------------------------------------------


class KVCache:
    """Room for the keys and values of all layers, made once and filled chunk by chunk.

    Args:
        n_layers: N, the number of layers that keep something.
        batch: B, the number of rows.
        n_heads: h, the number of heads that keys and values have; where several heads share them, as on
            day 31, that is the number of key-value heads.
        max_len: the most tokens that a row can hold.
        d_k: width of a key or value inside one head.

    Attributes:
        keys, values: `(N, B, h, max_len, d_k)` each, 2 · N · B · h · max_len · d_k numbers together, and
            no other tensor. Both exist from the start, on torch's default device and in its default
            dtype; the first chunk decides: the cache takes its device and dtype while it is empty. What
            stands at positions not yet written means nothing.
        length: how many tokens every layer holds, an int; 0 at first. The layers are updated in turn, so
            in the middle of a step some hold more: until the last layer has its chunk, `length` is still
            the position of the chunk's first token.

    Raises:
        ValueError: a size below 1.

    Source: Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You Need*, §2.4 (incremental
    multi-head attention).
    """

    def __init__(self, n_layers: int, batch: int, n_heads: int, max_len: int, d_k: int):
        sizes = n_layers, batch, n_heads, max_len, d_k
        if min(sizes) < 1:
            raise ValueError(
                f"n_layers, batch, n_heads, max_len and d_k must be at least 1, and are {sizes}"
            )
        # 1. The room for keys, and as much for values.
        self.keys = torch.empty(sizes)  # (N, B, h, max_len, d_k)
        self.values = torch.empty_like(self.keys)  # (N, B, h, max_len, d_k)
        # 2. How many tokens each layer holds, and how many they all hold.
        self.lengths = [0] * n_layers
        self.length = 0

    def update(
        self,
        layer: int,
        key: Float[Tensor, "B n_heads T d_k"],
        value: Float[Tensor, "B n_heads T d_k"],
    ) -> tuple[Float[Tensor, "B n_heads T_k d_k"], Float[Tensor, "B n_heads T_k d_k"]]:
        """Append a chunk to one layer.

        Args:
            layer: the number of the layer, counted from 0.
            key: the chunk's keys, `(B, h, T, d_k)`; T may be 0.
            value: its values, of the same shape.

        Returns:
            All keys and all values of that layer up to now, the chunk's at the end: `(B, h, T_k, d_k)`
            each, in their order of arrival. They may be views into the cache: read them before the next
            `reorder`, and do not write into them. The cache holds numbers, and no history: what is
            returned needs no gradient, and the chunk's graph is not kept.

        Raises:
            ValueError: a layer that there is not; a chunk of another shape than `(B, h, T, d_k)`; more
                tokens than `max_len`; or another dtype or device than that of the tokens held. The cache
                is then as it was.
        """
        self._check_chunk(layer, key, value)
        # 1. While nothing is held, the room takes the chunk's dtype and device.
        self.keys = self._room_like(self.keys, key)  # (N, B, h, max_len, d_k)
        self.values = self._room_like(self.values, value)  # (N, B, h, max_len, d_k)
        # 2. Write the numbers, without their history, behind what this layer holds.
        start = self.lengths[layer]
        end = start + key.size(2)
        self.keys[layer, :, :, start:end] = key.detach()  # (B, h, T, d_k)
        self.values[layer, :, :, start:end] = value.detach()  # (B, h, T, d_k)
        # 3. Count: this layer holds more, and all of them together hold what each of them holds.
        self.lengths[layer] = end
        self.length = min(self.lengths)
        # 4. Give back what this layer holds now.
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]  # (B, h, T_k, d_k) each

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Let every row continue another one's text, as beams do: row i becomes what row `rows[i]` was.

        Args:
            rows: int64 `(B,)`, each from 0 to B − 1. Rows may repeat, or be left out.

        Raises:
            ValueError: another shape or dtype, or rows that there are not (only the CPU is asked: a GPU
                would have to wait). The cache is then as it was.
        """
        batch = self.keys.size(1)
        if rows.shape != (batch,) or rows.dtype != torch.int64:
            raise ValueError(
                f"rows must be int64 of shape ({batch},), one for each row of the cache, and is "
                f"{rows.dtype} of {tuple(rows.shape)}"
            )
        if rows.device.type == "cpu" and not (rows.min() >= 0 and rows.max() < batch):
            raise ValueError(f"rows must lie in 0 to {batch - 1}, and are {rows.tolist()}")
        # 1. In every layer, but only what is held. The right side is a copy, made before it is written.
        held = max(self.lengths)
        self.keys[:, :, :, :held] = self.keys[:, rows, :, :held]  # (N, B, h, held, d_k)
        self.values[:, :, :, :held] = self.values[:, rows, :, :held]  # (N, B, h, held, d_k)

    def _room_like(self, room: Tensor, chunk: Tensor) -> Tensor:
        """The room itself where it fits the chunk; else new room, to which nothing has to be copied."""
        if (room.dtype, room.device) == (chunk.dtype, chunk.device):
            return room
        return torch.empty_like(room, dtype=chunk.dtype, device=chunk.device)

    def _check_chunk(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Refuse a chunk that does not fit, before anything is written."""
        n_layers, batch, n_heads, max_len, d_k = self.keys.shape
        if not 0 <= layer < n_layers:
            raise ValueError(f"layer must lie in 0 to {n_layers - 1}, and is {layer}")
        for name, chunk in (("key", key), ("value", value)):
            if chunk.dim() != 4 or chunk.shape != (batch, n_heads, key.size(2), d_k):
                raise ValueError(
                    f"{name} must be (B, n_heads, T, d_k) = ({batch}, {n_heads}, T, {d_k}), with one T "
                    f"for both, and has shape {tuple(chunk.shape)}"
                )
            held = self.keys if any(self.lengths) else key
            if (chunk.dtype, chunk.device) != (held.dtype, held.device):
                raise ValueError(
                    f"{name} must be {held.dtype} on {held.device} as what is held, and is "
                    f"{chunk.dtype} on {chunk.device}"
                )
        if self.lengths[layer] + key.size(2) > max_len:
            raise ValueError(
                f"layer {layer} holds {self.lengths[layer]} tokens of at most max_len = {max_len}: "
                f"there is no room for {key.size(2)} more"
            )


class CachedSelfAttention(CausalSelfAttention):
    """The causal self-attention of day 23, which also continues a text whose beginning it has read.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    Q comes from the chunk's T_q tokens. K and V come from all T_k tokens so far, of which the chunk's are
    the last T_q: query t stands at position T_k − T_q + t.

    Args:
        d_model: width of the tokens' vectors.
        n_heads: h; it divides d_model.
        dropout: the probability with which an attention weight is dropped in training.

    Attributes:
        w_qkv, w_o: those of `CausalSelfAttention`, in the same layout, and nothing else: weights load
            from one into the other.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; Shazeer 2019, §2.4.
    """

    def forward(
        self, x: Float[Tensor, "B T d_model"], cache: KVCache | None = None, layer: int = 0
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all that came before it.

        Args:
            x: the chunk, `(B, T, d_model)`; T may be 0. Any chunks that make up a text give, one after
                the other, what the whole text gives at once, to rounding.
            cache: what it attends to beside the chunk. The chunk's keys and values are appended to it.
                No gradient passes through keys and values from a cache: it is for decoding, not for
                training. None: the chunk is the whole text, and the result that of day 23, gradients too.
            layer: which of the cache's layers is this one's.

        Returns:
            The shape and dtype of `x`.

        Raises:
            ValueError: as `KVCache.update` does.
        """
        # 1. Project the chunk alone into query, key and value, and split each into heads.
        query, key, value = self.w_qkv(x).chunk(3, dim=-1)  # (B, T_q, d_model) each
        query = query.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        key = key.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        value = value.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T_q, d_k)
        # 2. Append keys and values to those of earlier tokens, and take them all.
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, h, T_k, d_k) each
        # 3. Who may see whom: the first query sees all that came before the chunk, and itself.
        t_q, t_k = query.size(2), key.size(2)
        mask = torch.ones(t_q, t_k, dtype=torch.bool, device=x.device).tril(t_k - t_q)  # (T_q, T_k)
        # 4. Attend, join the heads, and mix them by the output projection.
        heads, _ = attention(query, key, value, mask, self.dropout)  # (B, h, T_q, d_k)
        return self.w_o(heads.transpose(1, 2).flatten(-2))  # (B, T_q, d_model)


class CachedBlock(Block):
    """A block of day 23 whose attention is called as `self_attn(x, cache, layer)`."""

    def forward(
        self, x: Float[Tensor, "B T d_model"], cache: KVCache | None = None, layer: int = 0
    ) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype."""
        x = self.sublayer[0](x, lambda x: self.self_attn(x, cache, layer))
        return self.sublayer[1](x, self.feed_forward)  # (B, T, d_model)


class CachedGPT(GPT):
    """The GPT of day 23, which also continues a text whose beginning it has read.

    Args:
        config: a `GPTConfig`.

    Attributes:
        config, embed, positions, blocks, norm: those of `GPT`, started as there, with a
            `CachedSelfAttention` in each `CachedBlock`. Weights load from one into the other.

    Raises:
        ValueError: n_heads does not divide d_model.
    """

    def __init__(self, config: GPTConfig):
        super().__init__(config)
        # 1. Blocks that know of a cache, with the weights that day 23's have started from.
        block = CachedBlock(
            config.d_model,
            CachedSelfAttention(config.d_model, config.n_heads, config.dropout),
            FeedForward(config.d_model, config.d_ff),
            config.dropout,
        )
        blocks = clones(block, config.n_layers)
        blocks.load_state_dict(self.blocks.state_dict())
        self.blocks = blocks

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """Score what comes next after each token of a chunk.

        Args:
            tokens: ids `(B, T)`: the chunk that follows what the cache holds.
            cache: a cache that has read the tokens before these; it then has read these too. None: the
                chunk is the whole text.

        Returns:
            Logits `(B, T, V)`: the rows that `GPT` has for these tokens at the end of the whole text.

        Raises:
            ValueError: as `past_length` and `KVCache.update` do.
        """
        # 1. Positions go on where the cache ends.
        past = past_length(tokens, cache, self.config)
        positions = torch.arange(past, past + tokens.size(1), device=tokens.device)  # (T,)
        x = self.dropout(self.embed(tokens) + self.positions(positions))  # (B, T, d_model)
        # 2. Through the blocks in turn, each with its own layer of the cache, and the final norm.
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)  # (B, T, d_model)
        return F.linear(self.norm(x), self.embed.weight)  # (B, T, V)


def past_length(tokens: Int[Tensor, "B T"], cache: KVCache | None, config: GPTConfig) -> int:
    """The position of a chunk's first token: how many tokens a model has read before it.

    Args:
        tokens: the chunk, `(B, T)`.
        cache: what the model has read; None: nothing.
        config: the model's, a `GPTConfig` or one with the fields `context` and `n_layers`.

    Raises:
        ValueError: cache and chunk together are more than `config.context`, or the cache has other layers
            than the model.
    """
    past = 0 if cache is None else cache.length
    if past + tokens.size(1) > config.context:
        raise ValueError(
            f"tokens must be at most context = {config.context} long, those in the cache included, not "
            f"{past} + {tokens.size(1)}"
        )
    if cache is not None and len(cache.keys) != config.n_layers:
        raise ValueError(
            f"the cache has {len(cache.keys)} layers, and the model n_layers = {config.n_layers}"
        )
    return past


def new_cache(config: GPTConfig, batch: int, max_len: int) -> KVCache:
    """An empty cache that fits a model.

    Args:
        config: the model's, a `GPTConfig` or one with the same fields; of `n_kv_heads`, where it has them,
            there are as many heads in the cache.
        batch: the number of rows.
        max_len: the most tokens that a row is to hold; more than `config.context` is of no use.
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
    """`generate` of day 24 with a cache: the same tokens, sooner.

    Once the text is longer than the context nothing can be kept: every token moves one position to the
    left, and what it saw at the beginning is cut off. From there on the model reads the whole context for
    every token, as without a cache.

    Args:
        model: called as `model(tokens, cache)`, and as `model(tokens)`, such as a `CachedGPT`; its
            `config` is one that `new_cache` reads.
        tokens, max_new_tokens, temperature, top_k, top_p, generator: as for `generate`.

    Returns:
        As `generate` does, and the same where no two choices are as close as rounding: cached logits are
        uncached ones to the dtype's rounding.

    Raises:
        ValueError: as `generate` does.
    """
    reader = Reader(model, min(tokens.size(1) + max_new_tokens, model.config.context))
    return generate(reader, tokens, max_new_tokens, temperature, top_k, top_p, generator)


class Reader(nn.Module):
    """A model as `generate` asks it, with ever longer texts: of each it reads what is new."""

    def __init__(self, model: nn.Module, max_len: int):
        super().__init__()
        self.model = model
        self.config = model.config
        self.max_len = max_len
        self.cache: KVCache | None = None

    def forward(self, tokens: Int[Tensor, "B t"]) -> Float[Tensor, "B T V"]:
        """Logits of the tokens that it has not read yet; where the text has moved, of all."""
        if self.cache is None:
            self.cache = new_cache(self.config, len(tokens), self.max_len)
        past = self.cache.length
        if past == tokens.size(1):  # no longer than before: cut off on the left
            return self.model(tokens)  # (B, context, V)
        return self.model(tokens[:, past:], self.cache)  # (B, T, V)
