"""Day 7 · Backward

Lesson  course lesson 7
Hints   course hint 7
Check   course watch 7    (checks at every save; `course check 7` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import math

import numpy as np
from jaxtyping import Float


def softmax_backward(
    grad_weights: Float[np.ndarray, "*batch T_k"], weights: Float[np.ndarray, "*batch T_k"]
) -> Float[np.ndarray, "*batch T_k"]:
    """From the gradient of the softmax's output to that of its input, along the last axis.

        ∂L/∂sᵢ = wᵢ · (∂L/∂wᵢ − Σⱼ wⱼ · ∂L/∂wⱼ)

    Args:
        grad_weights: ∂L/∂w, `(…, T_k)`.
        weights: w = softmax(s), `(…, T_k)`, as the forward pass computed them.

    Returns:
        ∂L/∂s, `(…, T_k)`, in the inputs' dtype; they stay as they are. It sums to 0 along the last
        axis, for a common shift of the scores changes nothing. Where a weight is 0 it is 0.

    Source: the chain rule with ∂wⱼ/∂sᵢ = wⱼ (δᵢⱼ − wᵢ); Dao et al. 2022, *FlashAttention*, appendix
    B.2.
    """
    # 1. The mean of the incoming gradient, weighted by the weights: what a common shift would earn.
    # 2. A score gains as far as its weight's gradient exceeds that mean, in proportion to its
    #    weight.
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
    """Backpropagation through `attention`, by hand.

    With O = W V, W = softmax(S) and S = Q Kᵀ / √d_k, and dX short for ∂L/∂X:

        dV = Wᵀ dO        dW = dO Vᵀ        dS from dW by softmax_backward
        dQ = dS K / √d_k  dK = dSᵀ Q / √d_k

    Args:
        grad_output: ∂L/∂output, `(…, T_q, d_v)`.
        query: as given to `attention`, `(…, T_q, d_k)`, with the same leading dimensions as the
            rest.
        key: likewise, `(…, T_k, d_k)`.
        value: likewise, `(…, T_k, d_v)`.
        weights: as `attention` returned them, `(…, T_q, T_k)`; taken as given. A mask needs no care
            here: hidden keys have weight 0, and the gradient through a weight of 0 is 0.

    Returns:
        `(grad_query, grad_key, grad_value)`, each of the shape and dtype of what it is the
        gradient of.

    Source: the chain rule; Dao et al. 2022, *FlashAttention*, appendix B.2.
    """
    # 1. The output is weights @ value: the gradient of each factor is the other one, transposed.
    # 2. Back through the softmax, then through the division by √d_k.
    # 3. The scores are query @ keyᵀ: again each factor gets the other one.
    raise NotImplementedError
