"""Day 7 · Backward

Lesson  course lesson 7
Hints   course hint 7     (one more each time; the first gives the steps of one way)
Check   course watch 7    (checks at every save; `course check 7` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
"""

import math

import numpy as np
from jaxtyping import Float


def softmax_backward(
    grad_weights: Float[np.ndarray, "*batch T_k"], weights: Float[np.ndarray, "*batch T_k"]
) -> Float[np.ndarray, "*batch T_k"]:
    """Return the gradient of the scores s from that of w = softmax(s), along the last axis.

        ∂L/∂sᵢ = Σⱼ ∂L/∂wⱼ · ∂wⱼ/∂sᵢ
        ∂wⱼ/∂sᵢ = wⱼ (δᵢⱼ − wᵢ),   δᵢⱼ = 1 if i = j, otherwise 0

    - `grad_weights` is ∂L/∂w, and `weights` is w as the forward pass computed it, both `(…, T_k)`.
    - Return ∂L/∂s, `(…, T_k)`, in the inputs' dtype. Neither input is changed in place.
    - The result sums to 0 along the last axis, because a common shift of the scores changes nothing.
      Where a weight is 0, the gradient is 0.

    Source: the chain rule with ∂wⱼ/∂sᵢ = wⱼ (δᵢⱼ − wᵢ); Dao et al. 2022, *FlashAttention*, appendix
    B.2.
    """
    raise NotImplementedError


def attention_backward(
    grad_output: Float[np.ndarray, "*batch T_q d_v"],
    query: Float[np.ndarray, "*batch T_q d_k"],
    key: Float[np.ndarray, "*batch T_k d_k"],
    value: Float[np.ndarray, "*batch T_k d_v"],
    weights: Float[np.ndarray, "*batch T_q T_k"],
) -> tuple[
    Float[np.ndarray, "*batch T_q d_k"],
    Float[np.ndarray, "*batch T_k d_k"],
    Float[np.ndarray, "*batch T_k d_v"],
]:
    """Return the gradients of `attention`'s query, key and value; dX is short for ∂L/∂X.

        O = W V,   W = softmax(S),   S = Q Kᵀ / √d_k
        C = A B has the gradients dA = dC Bᵀ and dB = Aᵀ dC

    Returns:
        `(grad_query, grad_key, grad_value)`. A mask needs no extra step: a hidden key has weight 0,
        and the gradient through a weight of 0 is 0.

    - `grad_output` is ∂L/∂output, `(…, T_q, d_v)`.
    - `query`, `key` and `value` are the arguments with which `attention` was called, `(…, T_q, d_k)`,
      `(…, T_k, d_k)` and `(…, T_k, d_v)`. All arrays have the same leading dimensions.
    - `weights` are the weights that `attention` returned, `(…, T_q, T_k)`. Use them as given.
    - Each gradient has the shape and dtype of its array. No input is changed in place.

    Source: the chain rule; Dao et al. 2022, *FlashAttention*, appendix B.2.
    """
    raise NotImplementedError
