"""The delta rule: a linear attention that replaces what a key held, instead of adding to it.

It replaces `linear_attention` of day 34, whose state is a sum: a value that was written stays in it forever.
Here the state first recalls what the present key holds, and only the error is written. A decay, if there is
one, forgets everything else a little. Two functions compute the same:

    delta_rule              token by token: the definition, and what decoding runs
    chunked_delta_rule      chunk by chunk: one triangular system for all its errors. What training runs

From symbols to names
    T               time
    C               tokens of a chunk
    d_k, d_v        width of a query or key, of a value, inside one head
    β               beta, how much of the error is corrected
    α               decay, how much of the state a token keeps
    S               state, (d_v, d_k) as in the papers: transposed from day 34's
    u               error, or `errors` of a chunk: what is written under a token's key
    Γ               kept, the product of the decays after token j, up to token i
    γ               since, the product of the decays from the start of the chunk
"""

import torch
from jaxtyping import Float
from torch import Tensor

# --- Day 44 · Token by token ----------------------------------------------------------------------


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

    Raises:
        ValueError: an argument of a different shape.

    Source: Yang, Kautz & Hatamizadeh 2025, *Gated Delta Networks: Improving Mamba2 with Delta Rule*, eq. 10.
    Without decay: Schlag, Irie & Schmidhuber 2021, *Linear Transformers Are Secretly Fast Weight
    Programmers*, §4.2; Yang et al. 2024, *Parallelizing Linear Transformers with the Delta Rule*, §2.2.
    """
    _check_shapes(query, key, value, beta, decay, state)
    # 1. Upcast half precision. The first state is zeros.
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    decay = torch.ones_like(beta) if decay is None else decay
    query, key, value, beta, decay = (x.to(wide) for x in (query, key, value, beta, decay))
    state = _zeros(key, value) if state is None else state.to(value)
    outputs = [value[..., :0, :]]  # (…, 0, d_v), so that T = 0 has something to concatenate
    with torch.autocast(value.device.type, enabled=False):  # which would round the state
        for t in range(key.size(-2)):
            q, k, v = (
                x[..., t, :].unsqueeze(-1) for x in (query, key, value)
            )  # (…, d_k or d_v, 1)
            # 2. Let the entire state decay.
            state = decay[..., t, None, None] * state  # (…, d_v, d_k)
            # 3. Recall what the key holds now, and write β times the error under it.
            error = beta[..., t, None, None] * (v - state @ k)  # (…, d_v, 1)
            state = state + error @ k.transpose(-2, -1)  # (…, d_v, d_k)
            # 4. Read the new state with the query.
            outputs.append((state @ q).transpose(-2, -1))  # (…, 1, d_v)
    # 5. Concatenate the tokens, and cast back to the values' dtype.
    return torch.cat(outputs, dim=-2).to(dtype), state  # (…, T, d_v), (…, d_v, d_k)


# --- Day 44 · In chunks ---------------------------------------------------------------------------


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

    Raises:
        ValueError: an argument of a different shape, or a chunk of no tokens.

    Source: Yang et al. 2024, §3.1 and §3.2 (without decay); Yang, Kautz & Hatamizadeh 2025, §3.3. They
    solve for two matrices that do not depend on S (the UT transform), so that all chunks are solved at once.
    """
    _check_shapes(query, key, value, beta, decay, state)
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    # 1. Upcast half precision. β and α become columns. The first state is zeros.
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    decay = torch.ones_like(beta) if decay is None else decay
    query, key, value, beta, decay = (x.to(wide) for x in (query, key, value, beta, decay))
    beta, decay = beta.unsqueeze(-1), decay.unsqueeze(-1)  # (…, T, 1) each
    state = _zeros(key, value) if state is None else state.to(value)
    outputs = [value[..., :0, :]]  # (…, 0, d_v)
    with torch.autocast(value.device.type, enabled=False):  # which would round the state
        for start in range(0, key.size(-2), chunk):
            q, k, v, b, a = (
                x[..., start : start + chunk, :] for x in (query, key, value, beta, decay)
            )
            # 2. Multiply the decays: those after token j up to token i (Γ), and from the start (γ).
            c = k.size(-2)
            later = torch.ones(c, c, dtype=torch.bool, device=k.device).tril(-1)  # (C, C): i > j
            decay_between = torch.where(later, a, 1.0).cumprod(dim=-2).tril()  # (…, C, C)
            since = a.cumprod(dim=-2)  # (…, C, 1)
            # 3. Solve for the errors: each key also recalls the errors written before it in the chunk.
            system = (b * (k @ k.transpose(-2, -1)) * decay_between).tril(-1)  # (…, C, C)
            targets = b * (v - since * (k @ state.transpose(-2, -1)))  # (…, C, d_v)
            errors = torch.linalg.solve_triangular(system, targets, upper=False, unitriangular=True)
            # 4. Read the state from before the chunk, and the errors up to each query's own token.
            scores = (q @ k.transpose(-2, -1)) * decay_between  # (…, C, C)
            outputs.append(since * (q @ state.transpose(-2, -1)) + scores @ errors)  # (…, C, d_v)
            # 5. Let the state decay by the entire chunk, and write the errors into it.
            last = decay_between[..., -1:, :].transpose(-2, -1)  # (…, C, 1)
            state = since[..., -1:, :] * state + errors.transpose(-2, -1) @ (last * k)
    # 6. Concatenate the chunks, and cast back to the values' dtype.
    return torch.cat(outputs, dim=-2).to(dtype), state  # (…, T, d_v), (…, d_v, d_k)


def _zeros(key: Tensor, value: Tensor) -> Tensor:
    """Return the state before the first token."""
    return value.new_zeros(*value.shape[:-2], value.size(-1), key.size(-1))  # (…, d_v, d_k)


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    decay: Tensor | None,
    state: Tensor | None,
) -> None:
    """Check the shapes: many others would broadcast, to a different result."""
    *batch, tokens, d_k = key.shape
    expected = {
        "query": (query, (*batch, tokens, d_k)),
        "value": (value, (*batch, tokens, value.size(-1))),
        "beta": (beta, (*batch, tokens)),
        "decay": (decay, (*batch, tokens)),
        "state": (state, (*batch, value.size(-1), d_k)),
    }
    for name, (tensor, shape) in expected.items():
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} must be {shape}, got {tuple(tensor.shape)}")
