"""Sliding-window attention: each token attends to its neighbourhood, and a few tokens to everything.

It replaces the mask that day 8's `attention` is given. As a mask alone it saves nothing: all T × T
scores are computed, and most are thrown away. Computed in blocks of queries, each with the keys of its
neighbourhood, the same attention takes time and memory that grow like T.

From symbols to names
    T               size, time: as many queries as keys
    w               the paper's window, both sides together: 2 · window
    G               global_tokens, or T where there are more of them than tokens
    i, j            positions of a query, of a key
    N, n            blocks of queries, queries of a block
    m               keys that come into question for a block: G + 3 · n
    d_k, d_v        width of a query or key, of a value, inside one head
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from implementation import attention

# --- Day 34 · Sliding window ----------------------------------------------------------------------


def sliding_window_mask(
    size: int, window: int, global_tokens: int = 0
) -> Bool[Tensor, "1 size size"]:
    """Who may attend to whom where tokens look no further than `window` positions, to either side.

        mask[0, i, j]  where  |i − j| ≤ window,  or i < global_tokens,  or j < global_tokens

    Args:
        size: the number of tokens; 0 gives an empty mask.
        window: the largest distance at which a token sees another, to the left and to the right. It
            sees itself and at most 2 · window others: the paper's window w is 2 · window, w/2 on each
            side. 0 leaves each token itself alone; size − 1 or more lets all see all.
        global_tokens: how many of the first tokens attend to all, and all to them, whatever the
            distance. `size` or more lets all see all.

    Returns:
        Boolean `(1, size, size)` on the CPU, True = may attend, as `subsequent_mask` gives it. It looks
        to both sides; `sliding_window_mask(…) & subsequent_mask(size)` is its causal form, in which
        tokens see `window` earlier ones, and the global ones are seen by all later ones.

    Raises:
        ValueError: a negative `size`, `window` or `global_tokens`.

    Source: Beltagy et al. 2020, *Longformer: The Long-Document Transformer*, §3.1 and figure 2. There
    any tokens may be global ones, such as those of a question; here they are the first.
    """
    if size < 0 or window < 0 or global_tokens < 0:
        raise ValueError(
            f"size, window and global_tokens must not be negative, and are {size}, {window} and "
            f"{global_tokens}"
        )
    # 1. How far apart every query and every key are: near enough?
    position = torch.arange(size)  # (T,)
    distance = (position.unsqueeze(1) - position).abs()  # (T, T)
    near = distance <= window  # (T, T)
    # 2. The first tokens see all, and are seen by all.
    first = position < global_tokens  # (T,)
    return (near | first | first.unsqueeze(1)).unsqueeze(0)  # (1, T, T)


def sliding_window_attention(
    query: Float[Tensor, "*batch T d_k"],
    key: Float[Tensor, "*batch T d_k"],
    value: Float[Tensor, "*batch T d_v"],
    window: int,
    global_tokens: int = 0,
) -> Float[Tensor, "*batch T d_v"]:
    """Day 8's attention under `sliding_window_mask(T, window, global_tokens)`, without its T × T scores.

    Args:
        query: `(…, T, d_k)`, with any leading batch dimensions.
        key: `(…, T, d_k)`.
        value: `(…, T, d_v)`.
        window: as `sliding_window_mask` takes it.
        global_tokens: as `sliding_window_mask` takes it.

    Returns:
        The output of `attention(query, key, value, mask)`, `(…, T, d_v)`. No tensor on the way holds
        many more than T · (global_tokens + 3 · max(window, 64)) numbers for each row of the batch.

    Raises:
        ValueError: a negative `window` or `global_tokens`, or not as many queries as keys.

    Source: Beltagy et al. 2020, §3.1 and §3.2 (their *chunks* implementation). There global attention
    has projections of its own; here it uses the same queries, keys and values.
    """
    if window < 0 or global_tokens < 0:
        raise ValueError(
            f"window and global_tokens must not be negative, and are {window} and {global_tokens}"
        )
    t = key.size(-2)
    if query.size(-2) != t:
        raise ValueError(
            f"there must be as many queries as keys, and there are {query.size(-2)} and {t}"
        )
    # 1. Cut time into blocks that are no shorter than the window, and fill the last one up.
    many = min(global_tokens, t)  # G
    size = max(min(window, t), 64)  # n; many small products are slower than a few larger ones
    blocks = -(-t // size)
    query_blocks, key_blocks, value_blocks = (
        F.pad(x, (0, 0, 0, blocks * size - t)).unflatten(-2, (blocks, size))
        for x in (query, key, value)
    )  # (…, N, n, d_k or d_v)
    # 2. So a block's queries see no further than the block before their own and the one after it.
    keys = torch.cat([_shared(key[..., :many, :], blocks), _neighbours(key_blocks)], dim=-2)
    values = torch.cat([_shared(value[..., :many, :], blocks), _neighbours(value_blocks)], dim=-2)
    # 3. Of these keys each query sees those that are near enough. Global ones are not seen twice.
    start = size * torch.arange(blocks, device=query.device).view(-1, 1, 1)  # (N, 1, 1)
    i = start + torch.arange(size, device=query.device).unsqueeze(-1)  # (N, n, 1)
    j = start + torch.arange(-size, 2 * size, device=query.device)  # (N, 1, 3 · n)
    near = ((i - j).abs() <= window) & (many <= j) & (j < t)  # (N, n, 3 · n)
    mask = F.pad(near, (many, 0), value=True)  # (N, n, m)
    # 4. Attend, a block beside the other. The global tokens see everything.
    outputs, _ = attention(query_blocks, keys, values, mask)  # (…, N, n, d_v)
    outputs = outputs.flatten(-3, -2)[..., many:t, :]  # (…, T − G, d_v)
    first, _ = attention(query[..., :many, :], key, value)  # (…, G, d_v)
    return torch.cat([first, outputs], dim=-2)  # (…, T, d_v)


def _neighbours(x: Float[Tensor, "*batch N n d"]) -> Float[Tensor, "*batch N 3n d"]:
    """Every block with the one before it and the one after it; beyond the ends there are zeros."""
    around = F.pad(x, (0, 0, 0, 0, 1, 1))  # (…, N + 2, n, d)
    return torch.cat([around[..., :-2, :, :], x, around[..., 2:, :, :]], dim=-2)


def _shared(x: Float[Tensor, "*batch G d"], blocks: int) -> Float[Tensor, "*batch N G d"]:
    """The same tokens for every block."""
    return x.unsqueeze(-3).expand(*x.shape[:-2], blocks, *x.shape[-2:])
