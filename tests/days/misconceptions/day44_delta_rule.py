"""Day 44: what goes wrong where a state is corrected: what is erased, what decays, and in which order."""

from course.judging.misconceptions import of, on_devices

PREPARED = """
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    decay = torch.ones_like(beta) if decay is None else decay
    query, key, value, beta, decay = (x.to(wide) for x in (query, key, value, beta, decay))
    state = _zeros(key, value) if state is None else state.to(value)
"""
LAYOUT_OF_DAY_34 = f"""
def delta_rule(query, key, value, beta, decay=None, state=None):
{PREPARED.replace("state is None", "state is None or state.size(-1) != value.size(-1)")}
    state = state.transpose(-2, -1) if state.size(-2) == value.size(-1) else state
    outputs = [value[..., :0, :]]
    for t in range(key.size(-2)):
        q, k, v = (x[..., t, :].unsqueeze(-2) for x in (query, key, value))
        state = decay[..., t, None, None] * state
        state = state + k.transpose(-2, -1) @ (beta[..., t, None, None] * (v - k @ state))
        outputs.append(q @ state)
    return torch.cat(outputs, dim=-2).to(dtype), state
"""
TOKEN_BY_TOKEN = """
def chunked_delta_rule(query, key, value, beta, decay=None, state=None, chunk=64):
    return delta_rule(query, key, value, beta, decay, state)
"""
READ_FROM_STATE = "since * (q @ state.transpose(-2, -1)) + _"
RECALLED_FROM_STATE = "since * (k @ state.transpose(-2, -1))"

MISCONCEPTIONS = [
    *of(
        "delta_rule",
        {
            # --- what is written
            "added_as_on_day_34": (
                "You add β v kᵀ and erase nothing. The delta rule first reads the value that the key recalls, and writes only the difference between the new "
                "value and that one.",
                {"v - state @ k": "v"},
            ),
            "beta_on_the_value_alone": (
                "You multiply the new value by β, but erase the recalled value completely. β scales the entire error: with β = 0, nothing must change.",
                {"_ * (v - state @ k)": "_ * v - state @ k"},
            ),
            "beta_on_what_is_erased_alone": (
                "You multiply the recalled value by β, but write the new value in full. β scales the entire error.",
                {"_ * (v - state @ k)": "v - _ * (state @ k)"},
            ),
            # --- the order within a token
            "read_before_writing": (
                "You read the state before you write the token. o_t is read from S_t, so a token's query can recall its own value.",
                {"outputs.append(_)": "", "error = _": "outputs.append((state @ q).transpose(-2, -1))\nerror = _"},
            ),
            "decayed_after_writing": (
                "You write first and decay afterwards, so the new value decays, too. Only the earlier state should decay.",
                {"state = decay[..., t, None, None] * state": "", "state = state + _": "state = decay[..., t, None, None] * (state + _)"},
            ),
            "recalled_before_the_decay": (
                "You measure the error on a state that has not decayed. What the key recalls is α S k, so with β = 1 your state does not store the value "
                "exactly.",
                {
                    "state = decay[..., t, None, None] * state": "",
                    "state = state + _": "state = decay[..., t, None, None] * state + _",
                },
            ),
            # --- what the arguments are
            "decay_taken_for_a_logarithm": (
                "You take the exponential of `decay`, as published functions do with their g. Here, `decay` is α itself, the factor of the state.",
                {"torch.ones_like(beta) if decay is None else decay": "torch.ones_like(beta) if decay is None else decay.exp()"},
            ),
            "queries_scaled": (
                "Your outputs are 1/√d_k of what they should be. Published functions scale the queries; here they are used as given.",
                {"state @ q": "state @ q / q.size(-2) ** 0.5"},
            ),
            "queries_and_keys_normalized_here": (
                "You normalize queries and keys yourself, as published functions can do. Here both are used as given.",
                {
                    "outputs = [value[..., :0, :]]": "outputs = [value[..., :0, :]]\nquery, key = (torch.nn.functional.normalize(x, dim=-1) for x in (query, key))"
                },
            ),
            "keys_normalized_here": (
                "Everything is right for keys of length 1, but you normalize keys yourself. The caller does that: keys are used as given.",
                {"outputs = [value[..., :0, :]]": "outputs = [value[..., :0, :]]\nkey = torch.nn.functional.normalize(key, dim=-1)"},
            ),
            "beta_clamped": (
                "Everything is right for β up to 1, but you clamp a greater one. β is used as given: at 2 the recalled value turns into its negative, plus twice the new one.",
                {"outputs = [value[..., :0, :]]": "outputs = [value[..., :0, :]]\nbeta = beta.clamp(0, 1)"},
            ),
            # --- the state
            "begins_with_nothing": (
                "You always start with zeros and ignore `state`. A text that is read in pieces continues from the state after the previous piece.",
                {"_zeros(key, value) if state is None else state.to(value)": "_zeros(key, value)"},
            ),
            "keeps_the_layout_of_day_34": (
                "Your state is day 34's, `(…, d_k, d_v)`. Here it is transposed, `(…, d_v, d_k)`, as in the papers on the delta rule.",
                LAYOUT_OF_DAY_34,
            ),
            "the_given_state_is_written_over": (
                "You change the given state in place. Another text with the same beginning may share that state, and autograd needs each earlier state. "
                "Create a new tensor at each step.",
                {"state = decay[..., t, None, None] * state": "state *= decay[..., t, None, None]", "state = state + _": "state += _"},
            ),
            "state_detached": (
                "Your outputs are right, but no gradient reaches the given state, so the earlier piece of the text gets no gradient.",
                {"state.to(value)": "state.to(value).detach()"},
            ),
            # --- numbers
            "halves_not_widened": (
                "You compute in half precision. The state changes with every token, and rounding errors add up. Compute in float32, and cast at the end.",
                {"dtype, wide = ...": "dtype, wide = value.dtype, value.dtype"},
            ),
            "given_state_narrowed": (
                "Your outputs are right, but you round the given state to half precision. The state is float32, so that nothing is lost between two pieces "
                "of a text.",
                {"state.to(value)": "state.to(dtype).to(value)"},
            ),
            "state_narrowed": (
                "You return the state in half precision. It must stay in float32, because all later tokens are computed from it.",
                {"_, state": "_, state.to(dtype)"},
            ),
            "result_stays_wide": (
                "Your outputs are float32 although the values are in half precision. Compute in float32, and return the outputs in the dtype of the values.",
                {"_.to(dtype)": "_"},
            ),
            "nothing_to_join": (
                "Without any tokens, you concatenate an empty list, which PyTorch cannot do. The outputs should then have the shape `(…, 0, d_v)`.",
                {"[value[..., :0, :]]": "[]"},
            ),
        },
    ),
    *of(
        "chunked_delta_rule",
        {
            # --- the system
            "corrected_by_the_first_state_alone": (
                "Within a chunk, you measure each error on the state from before the chunk. But a key also recalls what earlier tokens of the chunk have "
                "written: the errors are the unknowns of the linear system.",
                {"errors = ...": "errors = known"},
            ),
            "system_with_another_sign": (
                "You add the values that a key recalls from earlier tokens of the chunk; they have to be subtracted. The matrix of the system is I plus the "
                "scores.",
                {
                    "torch.linalg.solve_triangular(system, known, upper=False, unitriangular=True)": "torch.linalg.solve_triangular(-system, known, upper=False, unitriangular=True)"
                },
            ),
            "beta_of_the_other_token": (
                "In your system each score is multiplied by the β of the token that was written earlier. Use the β of the later token, whose error you "
                "compute.",
                {"b * (k @ k.transpose(-2, -1)) * kept": "b.transpose(-2, -1) * (k @ k.transpose(-2, -1)) * kept"},
            ),
            # --- what is read
            "own_token_not_read": (
                "Your queries read only the tokens before their own. A token's query is answered after the token has been written.",
                {"(q @ k.transpose(-2, -1)) * kept": "((q @ k.transpose(-2, -1)) * kept).tril(-1)"},
            ),
            # --- the right-hand side
            "right_hand_side_without_beta": (
                "Your right-hand side lacks β: each token would write its entire error. A token's β multiplies both its row of the matrix and its right-hand "
                "side.",
                {"b * (v - _)": "v - _"},
            ),
            # --- what decays
            "scores_of_queries_not_decayed": (
                "Inside a chunk, your queries read the errors without decay. The errors decay with every later token, up to the query's own.",
                {"(q @ k.transpose(-2, -1)) * kept": "(q @ k.transpose(-2, -1)).tril()"},
            ),
            "scores_of_keys_not_decayed": (
                "In your system, keys recall the errors without decay. The errors decay with every later token, up to the key's own.",
                {"b * (k @ k.transpose(-2, -1)) * kept": "b * (k @ k.transpose(-2, -1))"},
            ),
            "decay_of_the_written_token_too": (
                "In your code, what a token writes decays by that token's own α. A new value should decay only from the next token on.",
                {
                    "(b * (k @ k.transpose(-2, -1)) * kept).tril(-1)": "(b * (k @ k.transpose(-2, -1)) * kept).tril(-1) * a.transpose(-2, -1)",
                    "scores = _": "kept = kept * a.transpose(-2, -1)\nscores = _",
                },
            ),
            "decays_up_to_the_token_before": (
                "Your Γ lacks the decay of the later of its two tokens. The state decays before a token is written and read, so a token's own α applies to "
                "everything that came before it.",
                {
                    "kept = ...": "kept = torch.where(later, a, 1.0).cumprod(dim=-2)\nkept = torch.cat([torch.ones_like(kept[..., :1, :]), kept[..., :-1, :]], dim=-2).tril()",
                },
            ),
            "first_state_read_as_it_was": (
                "Your queries read the state from before the chunk without decay. That state has decayed with every token up to the query's own.",
                {READ_FROM_STATE: "q @ state.transpose(-2, -1) + _"},
            ),
            "first_state_recalled_as_it_was": (
                "Your keys read the state from before the chunk without decay. That state has decayed with every token up to the key's own.",
                {RECALLED_FROM_STATE: "k @ state.transpose(-2, -1)"},
            ),
            "state_passed_on_as_it_was": (
                "You pass on the state from before a chunk without the decays of the chunk.",
                {"since[..., -1:, :] * state": "state"},
            ),
            "errors_passed_on_as_they_were": (
                "You pass on the errors of a chunk without the decays of the tokens that follow them in the chunk.",
                {"last * k": "k"},
            ),
            "divided_by_vanishing_products": (
                "You divide one product of decays by another. This is right on paper, but the product over a chunk can underflow to 0. Multiply only the "
                "decays in between.",
                {"kept = ...": "kept = (since / since.transpose(-2, -1)).tril()", "since = _": "", "later = _": "since = a.cumprod(dim=-2)"},
            ),
            "logarithm_of_zero": (
                "A decay of exactly 0 gives NaN: its logarithm is −∞, and −∞ minus −∞ is not a number.",
                {
                    "kept = ...": "sums = a.log().cumsum(dim=-2)\nkept = (sums - sums.transpose(-2, -1)).masked_fill(~later & ~torch.eye(c, dtype=torch.bool, device=k.device), -torch.inf).exp()"
                },
            ),
            "logarithm_clamped": (
                "Your outputs are right, but no gradient reaches a decay of exactly 0, as if you clamped decays before you take their logarithms. Multiply the decays themselves.",
                {
                    "kept = ...": "sums = a.clamp(min=1e-30).log().cumsum(dim=-2)\nkept = (sums - sums.transpose(-2, -1)).masked_fill(~later & ~torch.eye(c, dtype=torch.bool, device=k.device), -torch.inf).exp()",
                    "since = ...": "since = sums.exp()",
                },
            ),
            # --- from chunk to chunk
            "each_chunk_by_itself": (
                "Each of your chunks starts with the given state or with zeros, so what earlier chunks have written is lost.",
                {
                    "outputs = [value[..., :0, :]]": "outputs = [value[..., :0, :]]\ngiven = state",
                    "state = since[..., -1:, :] * state + _": "last_state = since[..., -1:, :] * state + _",
                    "_, state": "_, last_state",
                },
            ),
            "last_chunk_dropped": (
                "You leave out the last chunk if it is shorter than the others, so the outputs have fewer tokens than the text. T need not be a multiple of "
                "the chunk.",
                {"range(0, key.size(-2), chunk)": "range(0, key.size(-2) - key.size(-2) % chunk, chunk)"},
            ),
            "token_by_token": (
                "Your results are right, but you compute them token by token. Compute the tokens of a chunk together, by products of matrices.",
                TOKEN_BY_TOKEN,
            ),
            # --- the state and numbers
            "halves_not_widened_in_chunks": (
                "In half precision, your code fails or its results are not accurate: PyTorch solves triangular systems only in float32 or float64. Compute "
                "in float32, and cast at the end.",
                {"dtype, wide = ...": "dtype, wide = value.dtype, value.dtype"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "delta_rule",
        {
            "first_state_made_on_the_cpu": (
                "Your first state is on the CPU, but the inputs may be on a GPU. `value.new_zeros` creates it on their device.",
                {"_zeros(key, value)": "torch.zeros(*value.shape[:-2], value.size(-1), key.size(-1))"},
            ),
        },
    ),
    *on_devices(
        "chunked_delta_rule",
        {
            "mask_made_on_the_cpu": (
                "You create a mask on the CPU, but the inputs may be on a GPU. Pass the `device` of the inputs.",
                {"device=k.device": ""},
            ),
        },
    ),
]
