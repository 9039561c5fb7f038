"""Sliding-window attention: each token attends to nearby tokens, and a few tokens attend to all.

It replaces the mask of day 8's `attention`. A mask alone saves nothing: all T × T scores are computed, and
most are discarded. Computed in blocks of queries, each with the keys of its neighborhood, the same attention
takes time and memory linear in T.

From symbols to names
    T               size, time: as many queries as keys
    w               the paper's window, both sides together: 2 · window
    G               global_tokens, or T where there are more of them than tokens
    i, j            positions of a query, of a key
    N, n            blocks of queries, queries of a block
    m               keys that a block may attend to: G + 3 · n
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
    """Return the mask, True where a token may attend to another: at most `window` positions to either side.

        mask[0, i, j]  where  |i − j| ≤ window,  or i < global_tokens,  or j < global_tokens

    The paper's window w is 2 · window. The first `global_tokens` tokens attend to all, and all to them.

    Raises:
        ValueError: `size`, `window` or `global_tokens` below 0.

    Source: Beltagy et al. 2020, *Longformer: The Long-Document Transformer*, §3.1 and figure 2. There
    any tokens may be global, such as those of a question; here they are the first.
    """
    if size < 0 or window < 0 or global_tokens < 0:
        raise ValueError(
            f"size, window and global_tokens must be at least 0, got {size}, {window}, {global_tokens}"
        )
    # 1. Compute the distance of every query and every key, and compare it with the window.
    position = torch.arange(size)  # (T,)
    distance = (position.unsqueeze(1) - position).abs()  # (T, T)
    near = distance <= window  # (T, T)
    # 2. Let the first tokens attend to all, and all to them.
    first = position < global_tokens  # (T,)
    return (near | first | first.unsqueeze(1)).unsqueeze(0)  # (1, T, T)


def sliding_window_attention(
    query: Float[Tensor, "*batch T d_k"],
    key: Float[Tensor, "*batch T d_k"],
    value: Float[Tensor, "*batch T d_v"],
    window: int,
    global_tokens: int = 0,
) -> Float[Tensor, "*batch T d_v"]:
    """Compute day 8's attention under `sliding_window_mask`, without its T × T scores.

    No tensor has many more than T · (global_tokens + 3 · max(window, 64)) numbers for each row of the batch.

    Raises:
        ValueError: `window` or `global_tokens` below 0, or not as many queries as keys.

    Source: Beltagy et al. 2020, §3.1 and §3.2 (their *chunks* implementation). There global attention
    has its own projections; here it uses the same queries, keys and values.
    """
    if window < 0 or global_tokens < 0:
        raise ValueError(
            f"window and global_tokens must be at least 0, got {window}, {global_tokens}"
        )
    t = key.size(-2)
    if query.size(-2) != t:
        raise ValueError(f"there must be as many queries as keys, got {query.size(-2)} and {t}")
    # 1. Cut time into blocks that are no shorter than the window, and pad the last one.
    many = min(global_tokens, t)  # G
    size = max(min(window, t), 64)  # n; many small products are slower than a few larger ones
    blocks = -(-t // size)
    query_blocks, key_blocks, value_blocks = (
        F.pad(x, (0, 0, 0, blocks * size - t)).unflatten(-2, (blocks, size))
        for x in (query, key, value)
    )  # (…, N, n, d_k or d_v)
    # 2. So a block's queries see at most their own block, the one before it and the one after it.
    keys = torch.cat([_shared(key[..., :many, :], blocks), _neighbors(key_blocks)], dim=-2)
    values = torch.cat([_shared(value[..., :many, :], blocks), _neighbors(value_blocks)], dim=-2)
    # 3. Of these keys, mask those that are too distant, and global ones, which would count twice.
    start = size * torch.arange(blocks, device=query.device).view(-1, 1, 1)  # (N, 1, 1)
    i = start + torch.arange(size, device=query.device).unsqueeze(-1)  # (N, n, 1)
    j = start + torch.arange(-size, 2 * size, device=query.device)  # (N, 1, 3 · n)
    near = ((i - j).abs() <= window) & (many <= j) & (j < t)  # (N, n, 3 · n)
    mask = F.pad(near, (many, 0), value=True)  # (N, n, m)
    # 4. Attend in all blocks at once. The global tokens attend to everything.
    outputs, _ = attention(query_blocks, keys, values, mask)  # (…, N, n, d_v)
    outputs = outputs.flatten(-3, -2)[..., many:t, :]  # (…, T − G, d_v)
    first, _ = attention(query[..., :many, :], key, value)  # (…, G, d_v)
    return torch.cat([first, outputs], dim=-2)  # (…, T, d_v)


def _neighbors(x: Float[Tensor, "*batch N n d"]) -> Float[Tensor, "*batch N 3n d"]:
    """Return every block with the one before and the one after it; beyond the ends there are zeros."""
    around = F.pad(x, (0, 0, 0, 0, 1, 1))  # (…, N + 2, n, d)
    return torch.cat([around[..., :-2, :, :], x, around[..., 2:, :, :]], dim=-2)


def _shared(x: Float[Tensor, "*batch G d"], blocks: int) -> Float[Tensor, "*batch N G d"]:
    """Return the same tokens for every block."""
    return x.unsqueeze(-3).expand(*x.shape[:-2], blocks, *x.shape[-2:])
