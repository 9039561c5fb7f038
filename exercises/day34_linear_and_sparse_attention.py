"""Day 34 · Linear and sparse attention

Lesson  course lesson 34
Hints   course hint 34     (one more each time; the first gives the steps of one way)
Check   course watch 34    (checks at every save; `course check 34` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
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
    """Compute a weighted mean of the values for every query, in time and memory linear in T.

        V′ᵢ = φ(Qᵢ)ᵀ Sᵢ / φ(Qᵢ)ᵀ Zᵢ,    Sᵢ = Σⱼ φ(Kⱼ) Vⱼᵀ,    Zᵢ = Σⱼ φ(Kⱼ),    φ(x) = elu(x) + 1

    The sums run over all keys or, with `causal`, over those at j ≤ i. So query i weights key j by
    φ(Qᵢ)ᵀ φ(Kⱼ), divided by the sum of these weights; there is no factor 1/√d_k. Half-precision inputs are
    computed in float32. Where the weights sum to 0, the output is 0.

    - `query` is `(…, T_q, d_k)`, `key` `(…, T_k, d_k)` and `value` `(…, T_k, d_v)`, with any leading
      batch dimensions. d_v may differ from d_k. T_q and T_k may be 0.
    - With `causal`, query i attends only to keys up to position i, and T_q equals T_k.
    - Return `(…, T_q, d_v)` in the inputs' dtype. float16 and bfloat16 are computed in float32, and
      float64 in float64, so the result is correct to the dtype's rounding, however long the sums are.
    - φ(x) is x + 1 for x above 0 and eˣ for x below 0, where it must be as exact as eˣ: queries and
      keys with features of about −20 still weight the values correctly. (In float32, elu(x) + 1 is
      exactly 0 from −17.4 on.)
    - If the sum of the weights is exactly 0, as with T_k = 0, the output is 0, never NaN. Add nothing
      to a denominator.
    - No intermediate tensor has T_q × T_k numbers. With `causal`, compute in chunks of C tokens, C a
      constant such as 64: inside a chunk, multiply queries by keys; for all earlier chunks, use the
      sums S and Z. Compute a state for each chunk, not for each token: the backward pass then needs (T
      / C) · d_k · d_v saved numbers, not T · d_k · d_v.

    Raises:
        ValueError: `causal`, and T_q is not T_k.

    Source: Katharopoulos et al. 2020, *Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention*, eqs. 4 to 7; causal: eqs. 8 to 12. Their backward pass, §3.3.1, stores no states.
    """
    raise NotImplementedError


def sliding_window_mask(
    size: int, window: int, global_tokens: int = 0
) -> Bool[Tensor, "1 size size"]:
    """Return the mask, True where a token may attend to another: at most `window` positions to either side.

        mask[0, i, j]  where  |i − j| ≤ window,  or i < global_tokens,  or j < global_tokens

    The paper's window w is 2 · window. The first `global_tokens` tokens attend to all, and all to them.

    - `size` is the number of tokens; 0 returns an empty mask.
    - `window` is the maximum distance at which a token attends to another token, to the left and to the
      right: it attends to itself and to at most 2 · window others. With 0, each token attends only to
      itself; with size − 1 or more, all tokens attend to all.
    - The first `global_tokens` tokens attend to all tokens, and all tokens attend to them, at any
      distance. With `size` or more, all tokens attend to all.
    - Return a boolean `(1, size, size)` on the CPU, True = may attend, as `subsequent_mask` does. The
      window covers both sides; `sliding_window_mask(…) & subsequent_mask(size)` is its causal form.

    Raises:
        ValueError: `size`, `window` or `global_tokens` below 0.

    Source: Beltagy et al. 2020, *Longformer: The Long-Document Transformer*, §3.1 and figure 2. There
    any tokens may be global, such as those of a question; here they are the first.
    """
    raise NotImplementedError
