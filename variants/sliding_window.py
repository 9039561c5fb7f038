"""Sliding-window attention: each token attends to its neighbourhood, and a few tokens to everything.

It replaces the mask that day 8's `attention` is given. As a mask alone it saves nothing: all T × T
scores are computed, and most are thrown away. Computed in blocks of queries, each with the keys of its
neighbourhood, the same attention takes time and memory that grow like T.

From symbols to names
    T               size, time: as many queries as keys
    w               the paper's window, both sides together: 2 · window
    G               global_tokens, or T where there are more of them than tokens
    i, j            positions of a query, of a key
    n               queries of a block
    m               keys that a block sees: at most G + n + 2 · window
    d_k, d_v        width of a query or key, of a value, inside one head
"""

import torch
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
        more than about T · (global_tokens + 3 · window + 64) numbers for each row of the batch.

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
    # 1. The global tokens see everything.
    many = min(global_tokens, t)  # G
    outputs = [attention(query[..., :many, :], key, value)[0]]  # (…, G, d_v)
    # 2. All others come in blocks, which are no smaller than the window: so a key is in three blocks'
    #    neighbourhoods at most, or in many where the window is narrow and the keys are few.
    block = max(window, 64)
    position = torch.arange(t, device=query.device)  # (T,)
    for start in range(many, t, block):
        stop = min(start + block, t)
        # 3. A block sees the global keys, and its neighbours' up to a window away.
        left, right = max(many, start - window), min(t, stop + window)
        seen = torch.cat([position[:many], position[left:right]])  # (m,)
        keys = torch.cat([key[..., :many, :], key[..., left:right, :]], dim=-2)  # (…, m, d_k)
        values = torch.cat([value[..., :many, :], value[..., left:right, :]], dim=-2)
        # 4. Of the neighbours each query sees those that are near enough.
        near = (position[start:stop].unsqueeze(1) - seen).abs() <= window  # (n, m)
        mask = near | (seen < many)  # (n, m)
        outputs.append(attention(query[..., start:stop, :], keys, values, mask)[0])  # (…, n, d_v)
    return torch.cat(outputs, dim=-2)  # (…, T, d_v)
