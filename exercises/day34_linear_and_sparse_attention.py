"""Day 34 · Linear and sparse attention

Lesson  course lesson 34
Hints   course hint 34
Check   course watch 34    (checks at every save; `course check 34` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def linear_attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    causal: bool = False,
) -> Float[Tensor, "*batch T_q d_v"]:
    """Every query takes a weighted mean of the values, in time and memory that grow like T.

        V′ᵢ = φ(Qᵢ)ᵀ Sᵢ / φ(Qᵢ)ᵀ Zᵢ,    Sᵢ = Σⱼ φ(Kⱼ) Vⱼᵀ,    Zᵢ = Σⱼ φ(Kⱼ),    φ(x) = elu(x) + 1

    The sums run over all keys or, where it is causal, over those at j ≤ i. So query i weighs key j by
    φ(Qᵢ)ᵀ φ(Kⱼ), divided by the sum of these weights. Nothing is divided by √d_k.

    Args:
        query: what each position looks for, `(…, T_q, d_k)`, with any leading batch dimensions.
        key: what each position offers to be found by, `(…, T_k, d_k)`.
        value: what each position hands over, `(…, T_k, d_v)`; d_v may differ from d_k.
        causal: whether query i sees only the keys up to position i; then T_q is T_k.

    Returns:
        The output `(…, T_q, d_v)`, in the inputs' dtype. float16 and bfloat16 are computed in float32,
        float64 in float64: the result is right to the dtype's rounding, however long the sums.
        φ is x + 1 above 0 and eˣ below, and as exact there as eˣ is: a query or key of features
        about −20 still weighs the values rightly. (Float32's elu(x) + 1 is exactly 0 from −17.4 on.)
        A sum of weights that is exactly 0, as where T_k is 0, gives an output of 0, never NaN; nothing
        else is added to a denominator. T_q may be 0 as well.
        No tensor on the way holds T_q × T_k numbers. Where it is causal, the work is done in chunks of C
        tokens, C a fixed number such as 64: inside a chunk queries meet keys, of all earlier chunks they
        read the S and Z that these have left. There is a state for each chunk, and not for each token:
        what is kept for a backward pass are (T / C) · d_k · d_v numbers, and not T · d_k · d_v.

    Raises:
        ValueError: `causal`, and T_q is not T_k.

    Source: Katharopoulos et al. 2020, *Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention*, eqs. 4 to 7; causal: eqs. 8 to 12. A backward pass of their own, §3.3.1, does
    without any states kept.
    """
    # 1. Widen halves. Make every feature of queries and keys positive: φ.
    # 2. Give each token one more value, 1: what becomes of it is the sum of the weights. So S and Z
    #    are one matrix.
    # 3. Not causal: add up all keys and values, then let each query read the sum.
    # 4. Causal: cut time into chunks, and fill the last one up with nothing.
    # 5. Inside a chunk each query meets the keys up to its own.
    # 6. Of the chunks before it, each chunk gets one sum.
    # 7. Add the two, and put the chunks together again.
    # 8. Divide by the sum of the weights, where there is any weight.
    raise NotImplementedError


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
    # 1. How far apart every query and every key are: near enough?
    # 2. The first tokens see all, and are seen by all.
    raise NotImplementedError
