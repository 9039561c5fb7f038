"""Day 44 · The delta rule

Lesson  course lesson 44
Hints   course hint 44     (one more each time; the first gives the steps of one way)
Check   course watch 44    (checks at every save; `course check 44` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def delta_rule(
    query: Float[Tensor, "*batch T d_k"],
    key: Float[Tensor, "*batch T d_k"],
    value: Float[Tensor, "*batch T d_v"],
    beta: Float[Tensor, "*batch T"],
    decay: Float[Tensor, "*batch T"] | None = None,
    state: Float[Tensor, "*batch d_v d_k"] | None = None,
) -> tuple[Float[Tensor, "*batch T d_v"], Float[Tensor, "*batch d_v d_k"]]:
    """Correct what the state recalls for each token's key, and answer the token's query.

        S_t = α_t S_{t−1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ
        o_t = S_t q_t

    Keys are used as given: the caller normalizes them to length 1. Half-precision inputs are computed in
    float32.

    Returns:
        The outputs, in the values' dtype, and the state after the last token, in float32 at least.

    - `query` and `key` are `(…, T, d_k)`, `value` is `(…, T, d_v)`, `beta` and `decay` are `(…, T)`,
      with the same leading dimensions, of which there may be any number. d_v may differ from d_k. T may
      be 0.
    - Everything is used as given: keys and queries are not normalized here, queries are not scaled, β may
      be greater than 1, and `decay` is α itself, not its logarithm. Without `decay`, α is 1. A decay
      may be 0, which forgets everything.
    - `state` is S before the first token, `(…, d_v, d_k)`: row i belongs to value feature i. Without
      `state`, S is zero. Output t is read from the state *after* token t has been written.
    - Return the outputs, `(…, T, d_v)`, and the state after the last token. If a text is read in
      pieces, each from the state after the previous piece, the outputs are those of the whole text.
    - Gradients reach all arguments, including the state: nothing is detached.
    - The outputs have the dtype of `value`. float16 and bfloat16 are computed in float32, and the state
      stays in float32, including the given state; float64 is computed in float64. The results are
      correct to the dtype's rounding.
    - No argument is changed, including the given state.

    Raises:
        ValueError: an argument of a different shape.

    Source: Yang, Kautz & Hatamizadeh 2025, *Gated Delta Networks: Improving Mamba2 with Delta Rule*, eq. 10.
    Without decay: Schlag, Irie & Schmidhuber 2021, *Linear Transformers Are Secretly Fast Weight
    Programmers*, §4.2; Yang et al. 2024, *Parallelizing Linear Transformers with the Delta Rule*, §2.2.
    """
    raise NotImplementedError


def chunked_delta_rule(
    query: Float[Tensor, "*batch T d_k"],
    key: Float[Tensor, "*batch T d_k"],
    value: Float[Tensor, "*batch T d_v"],
    beta: Float[Tensor, "*batch T"],
    decay: Float[Tensor, "*batch T"] | None = None,
    state: Float[Tensor, "*batch d_v d_k"] | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "*batch T d_v"], Float[Tensor, "*batch d_v d_k"]]:
    """Compute `delta_rule` with a few matrix products for each chunk of tokens, the last perhaps shorter.

    Within a chunk that starts from the state S, S_t is γ_t S + Σ_{j ≤ t} Γ_tj u_j k_jᵀ: γ_t is the product
    of the chunk's decays up to t, and Γ_tj that of the decays after j, up to t. Each error u_t depends on the
    errors before it: a triangular system, in which token t is row t of K, V and U.

        (I + tril(diag(β) (K Kᵀ ⊙ Γ), −1)) U = diag(β) (V − diag(γ) K Sᵀ)

    Returns:
        The outputs, in the values' dtype, and the state after the last token, in float32 at least.

    - The arguments and results are those of `delta_rule`, and `chunk` is the number of tokens of a chunk,
      at least 1. T need not be a multiple of it.
    - For any `chunk`, outputs, state and gradients are those of `delta_rule`, up to rounding.
    - There is no loop over the tokens of each chunk: with T ≈ 2,450 and chunks of about 95 tokens,
      there are fewer than two PyTorch operations for each token. A loop over the chunks is fine, and so
      is a loop over the positions in a chunk that handles all chunks at once.
      `torch.linalg.solve_triangular` solves a triangular system, with gradients, in float32 and
      float64.
    - Products of decays may underflow to 0 within a chunk, and a decay may be 0: no result becomes
      infinite or NaN, and gradients are still correct.

    Raises:
        ValueError: an argument of a different shape, or a chunk of no tokens.

    Source: Yang et al. 2024, §3.1 and §3.2 (without decay); Yang, Kautz & Hatamizadeh 2025, §3.3. They
    solve for two matrices that do not depend on S (the UT transform), so that all chunks are solved at once.
    """
    raise NotImplementedError
