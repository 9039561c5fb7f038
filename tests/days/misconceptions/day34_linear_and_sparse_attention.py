"""Day 34: what goes wrong with sums in place of a softmax, with chunks, and with windows."""

from course.judging.misconceptions import of, on_devices


def with_features(body: str) -> str:
    """A whole definition: the same features in float32 at least, and then another way to use them."""
    return f"""
def linear_attention(query, key, value, causal=False):
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    query = torch.where(query > 0, query + 1, query.clamp(max=0).exp())
    key = torch.where(key > 0, key + 1, key.clamp(max=0).exp())
{body}
    return (mixed / total.masked_fill(total == 0, 1.0)).to(dtype)
"""


ALL_KEYS = """
    if not causal:
        mixed = query @ (key.transpose(-2, -1) @ value)
        total = query @ key.sum(-2).unsqueeze(-1)
        return (mixed / total.masked_fill(total == 0, 1.0)).to(dtype)
"""
TABLE = with_features("""
    weights = query @ key.transpose(-2, -1)
    if causal:
        weights = weights.tril()
    mixed, total = weights @ value, weights.sum(-1, keepdim=True)
""")
STATES_BY_SUMS = with_features(f"""{ALL_KEYS}
    states = (key.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(-3)
    mixed = (query.unsqueeze(-2) @ states).squeeze(-2)
    total = (query * key.cumsum(-2)).sum(-1, keepdim=True)
""")
CHUNKS_IN_A_LIST = with_features(f"""{ALL_KEYS}
    value = F.pad(value, (0, 1), value=1.0)
    state, sums = 0.0, []
    for start in range(0, key.size(-2), 64):
        q, k, v = (x[..., start : start + 64, :] for x in (query, key, value))
        sums.append((q @ k.transpose(-2, -1)).tril() @ v)
        if start > 0:
            sums[-1] = sums[-1] + q @ state
        state = state + k.transpose(-2, -1) @ v
    sums = torch.cat(sums, -2)
    mixed, total = sums[..., :-1], sums[..., -1:]
""")
WINDOW_OF_ONE_SIDE_OPEN = "Your window has a border on one side only: the difference of positions needs its absolute value."

PUBLISHED_TABLE = """
def linear_attention(query, key, value, causal=False):
    query, key = F.elu(query) + 1, F.elu(key) + 1
    weights = query @ key.transpose(-2, -1)
    if causal:
        weights = weights.tril()
    return weights / (weights.sum(-1, keepdim=True) + 1e-6) @ value
"""
PUBLISHED_STATES = """
def linear_attention(query, key, value, causal=False):
    query, key = F.elu(query) + 1, F.elu(key) + 1
    if not causal:
        total = query @ key.sum(-2).unsqueeze(-1)
        return query @ (key.transpose(-2, -1) @ value) / (total + 1e-6)
    states = (key.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(-3)
    total = (query * key.cumsum(-2)).sum(-1, keepdim=True)
    return (query.unsqueeze(-2) @ states).squeeze(-2) / (total + 1e-6)
"""
CAUSAL_TABLE = with_features(f"""{ALL_KEYS}
    weights = (query @ key.transpose(-2, -1)).tril()
    mixed, total = weights @ value, weights.sum(-1, keepdim=True)
""")
KEPT_MASK = """
def sliding_window_mask(size, window, global_tokens=0):
    arguments = size, window, global_tokens
    kept = sliding_window_mask.__dict__.setdefault("kept", {})
    if arguments not in kept:
        position = torch.arange(size)
        near = (position.unsqueeze(1) - position).abs() <= window
        first = position < global_tokens
        kept[arguments] = (near | first | first.unsqueeze(1)).unsqueeze(0)
    return kept[arguments]
"""

MISCONCEPTIONS = [
    *of(
        "linear_attention",
        {
            "published_table_of_scores": (
                "You multiply every query by every key, which makes a T × T matrix. Add up the products of keys and values first. In the causal case, "
                "multiply queries by keys only within a chunk.",
                PUBLISHED_TABLE,
            ),
            "published_state_for_each_token": (
                "In the causal case, you compute a d_k × d_v state for every token, and autograd stores all these states for the backward pass. Work in "
                "chunks: one state per chunk, and queries times keys within a chunk.",
                PUBLISHED_STATES,
            ),
            "infinite_beside_the_choice": (
                "For features above 89, the exponential that you do not select is infinite, and its gradient, 0 times infinity, is NaN. Limit the input of "
                "the exponential to 0 or less.",
                {"query.clamp(max=0).exp()": "query.exp()", "key.clamp(max=0).exp()": "key.exp()"},
            ),
            "widths_taken_for_equal": (
                "You assume that values are as wide as queries and keys. They have their own width, d_v, which is also the width of the output.",
                {"return _": "return _[..., : query.size(-1)]"},
            ),
            # --- memory: right numbers, in a way that the day is there to avoid
            "table_of_scores": (
                "Your numbers are right, but a T × T matrix is in memory, probably because you multiply every query by every key. Add up the products of keys "
                "and values first. In the causal case, multiply queries by keys only within a chunk.",
                TABLE,
            ),
            "state_for_each_token": (
                "Your numbers are right, but you store a d_k × d_v state for every token: in a running sum over all the outer products, or in a loop over "
                "tokens that keeps its states for the backward pass. Work in chunks: one state per chunk, and queries times keys within a chunk.",
                STATES_BY_SUMS,
            ),
            # --- numbers
            "small_number_in_the_denominator": (
                "You add a small number to the denominator, as much published code does. In float32 it hardly matters, but in float64 it is a hundred million "
                "times larger than the rounding error. Divide by the plain sum of the weights, and handle a sum of exactly 0 separately.",
                {"mixed / ...": "mixed / (total + 1e-6)"},
            ),
            "zero_by_zero": (
                "If there are no keys, you divide 0 by 0, which is NaN. A query without keys should give 0, as on day 8.",
                {"mixed / ...": "mixed / total"},
            ),
            "result_stays_wide": (
                "For half precision you return float32. Compute in float32, but return the dtype of the inputs.",
                {"output.to(dtype)": "output"},
            ),
            # --- features
            "scaled": (
                "You divide by √d_k. That scale belongs to the softmax. Here it would change the features themselves, and the formula does not contain it.",
                {"query = _": "query = query / query.size(-1) ** 0.5\nquery = _"},
            ),
            "no_one_added": (
                "Your features are elu(x), without the 1. They can be negative, so weights can be negative, too, and their sum can be close to 0.",
                {"query = ...": "query = F.elu(query)", "torch.where(key > 0, key + 1, ...)": "F.elu(key)"},
            ),
            "keys_not_mapped": (
                "You apply the feature map only to the queries. Apply it to the keys, too; otherwise weights can be negative.",
                {"torch.where(key > 0, key + 1, ...)": "key"},
            ),
            # --- the denominator
            "not_divided": (
                "You do not divide by the sum of the weights, so your output grows with the number of keys. It should be a weighted mean of the values.",
                {"mixed / ...": "mixed"},
            ),
            # --- causal
            "causal_ignored": (
                "In your answer `causal` has no effect: every query attends to all keys, including later ones.",
                {"causal and t_q != t_k": "False", "not causal": "True"},
            ),
            "blind_to_itself": (
                "A query does not attend to its own position. It must attend to the keys up to its own position, inclusive; the first token has no other key.",
                {"_.tril()": "_.tril(-1)"},
            ),
            "chunk_sees_itself_whole": (
                "Within a chunk, every query attends to every key, including later ones. Here, too, a query may attend only to keys up to its own position.",
                {"_.tril()": "_"},
            ),
            "chunks_forget": (
                "Every chunk starts from 0, so a query ignores everything before its own chunk. Add the sums of the earlier chunks, to both numerator and "
                "denominator.",
                {"_ + query @ earlier": "_"},
            ),
            "state_detached": (
                "Your outputs are right, but the state passed from chunk to chunk is detached, so keys and values get no gradient from queries of later "
                "chunks.",
                {"earlier = _": "earlier = _.detach()"},
            ),
            "tail_dropped": (
                "You drop the tokens that do not fill a chunk. T can be any number: pad the last chunk, or make it shorter.",
                {"-(-t_k // size)": "max(1, t_k // size)", "sums = _[..., :t_q, :]": "sums = _[..., : min(t_q, chunks * size), :]"},
            ),
            "no_chunks_to_join": (
                "Without tokens there are no chunks, and `cat` raises an error for an empty list. Start the list with a piece of length 0, or handle this "
                "case separately.",
                CHUNKS_IN_A_LIST,
            ),
        },
    ),
    *of(
        "sliding_window_mask",
        {
            "mask_handed_out_again": (
                "You store masks and return the same tensor again. If a caller writes into one, for instance with `&=`, all later results change. Create a "
                "new mask each time, or return a copy.",
                KEPT_MASK,
            ),
            "numbers_to_be_added": (
                "You return a mask of 0 and −∞, to be added to scores. Masks are boolean here, and True means *may be attended to*: `&` and `attention` "
                "require this.",
                {"return _": "return torch.zeros(1, size, size).masked_fill(~_, float('-inf'))"},
            ),
            # --- the window
            "window_of_both_sides": (
                "You treat `window` as the width of both sides together, like Longformer's w. Here it is the maximum distance to either side: w = 2 · window.",
                {"distance <= window": "distance <= window // 2"},
            ),
            "window_of_the_past": (
                "Your window covers only earlier positions. This mask covers both sides; combining it with `subsequent_mask` by `&` makes it causal.",
                {"_.abs()": "_", "near = _": "near = (0 <= distance) & _"},
            ),
            "window_wraps_around": (
                "Your window wraps around: the first token attends to the last token, as it does if you use `roll`. A text has two ends, where a token "
                "attends to fewer neighbors.",
                {"near = _": "distance = torch.minimum(distance, size - distance)\nnear = _"},
            ),
            "without_itself": (
                "Your window leaves out the token itself. The distance of a token to itself is 0, which is within any window.",
                {"near = _": "near = _ & (distance > 0)"},
            ),
            "zero_means_no_window": (
                "You treat a window of 0 as no window at all, as `if window:` or `window or …` does. A window of 0 is the narrowest: each token attends only "
                "to itself.",
                {"distance <= window": "distance <= (window or size)"},
            ),
            # --- global tokens
            "global_tokens_are_not_seen": (
                "Your global tokens attend to all tokens, but not all tokens attend to them. Both must be allowed, so that information can pass from one end "
                "to the other in two layers.",
                {"near | first": "near"},
            ),
            "global_tokens_do_not_see": (
                "All tokens attend to your global tokens, but these do not attend to all tokens. Both must be allowed.",
                {"_ | first.unsqueeze(1)": "_"},
            ),
            "global_tokens_ignored": (
                "In your answer `global_tokens` has no effect.",
                {"near | first | ...": "near"},
            ),
            "one_global_token_too_many": (
                "Your mask has one global token too many. Positions count from 0, so the first g tokens are those at positions below g.",
                {"position < _": "position <= _"},
            ),
            # --- form
            "inverted": (
                "Your mask is True where a token may *not* attend. True means *may be attended to*, here as everywhere in this course.",
                {"return _": "return ~_"},
            ),
            "no_batch_axis": (
                "Your mask has shape (size, size). Add an axis of length 1 for the batch in front, as in `subsequent_mask`: (1, size, size).",
                {"_.unsqueeze(0)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "linear_attention",
        {
            "ones_made_on_the_cpu": (
                "You append a column of ones that is on the CPU to values that can be on a GPU. `value.new_ones` creates it on the device of the values.",
                {"value = F.pad(value, (0, 1), value=1.0)": "value = torch.cat([value, torch.ones(*value.shape[:-1], 1, dtype=wide)], dim=-1)"},
            ),
        },
    ),
]
