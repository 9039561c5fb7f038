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
                "You multiply every query with every key: that is the T × T table again. Add up the products of keys and values first; where it is causal, let only the queries and keys of one chunk meet.",
                PUBLISHED_TABLE,
            ),
            "published_state_for_each_token": (
                "Where it is causal there is a d_k × d_v state for every single token, and all of them are kept for the backward pass. Go by chunks: one state for each, and inside a chunk queries meet keys.",
                PUBLISHED_STATES,
            ),
            "infinite_beside_the_choice": (
                "For features above 88 the exponential that you do not use is infinite, and its gradient, 0 times infinity, is NaN. Keep what goes into it at 0 or below.",
                {"query.clamp(max=0).exp()": "query.exp()", "key.clamp(max=0).exp()": "key.exp()"},
            ),
            "widths_taken_for_equal": (
                "You take for granted that values are as wide as queries and keys. They have a width of their own, d_v, and so has the output.",
                {"return _": "return _[..., : query.size(-1)]"},
            ),
            # --- memory: right numbers, in a way that the day is there to avoid
            "table_of_scores": (
                "Your numbers are right, but there are T × T of them in memory, as there are where every query is multiplied with every key. Add up the "
                "products of keys and values first; where it is causal, let only the queries and keys of one chunk meet.",
                TABLE,
            ),
            "state_for_each_token": (
                "Your numbers are right, but there is a d_k × d_v state for every single token: in a running sum over all the outer products, or in a loop over "
                "tokens whose states are all kept for the backward pass. Go by chunks: one state for each, and inside a chunk queries meet keys.",
                STATES_BY_SUMS,
            ),
            # --- numbers
            "small_number_in_the_denominator": (
                "You add a small number to the denominator. Much published code does, and float32 hardly notices; in float64 it is a hundred million times the "
                "rounding. Divide by the sum of the weights itself, and treat a sum that is exactly 0 by itself.",
                {"mixed / ...": "mixed / (total + 1e-6)"},
            ),
            "zero_by_zero": (
                "Where there are no keys you divide 0 by 0, which is NaN. Nothing to attend to gives 0, as in day 8.",
                {"mixed / ...": "mixed / total"},
            ),
            "result_stays_wide": (
                "Half precision comes out as float32. Compute in float32, then give back the inputs' dtype.",
                {"output.to(dtype)": "output"},
            ),
            # --- features
            "scaled": (
                "You divide by √d_k. That belongs to the softmax. Here it changes the features themselves, and the formula does not have it.",
                {"query = _": "query = query / query.size(-1) ** 0.5\nquery = _"},
            ),
            "no_one_added": (
                "Your features are elu(x), without the 1. They can be negative, so weights can be, and their sum can come near 0.",
                {"query = ...": "query = F.elu(query)", "torch.where(key > 0, key + 1, ...)": "F.elu(key)"},
            ),
            "keys_not_mapped": (
                "Only your queries go through the feature map. Keys do as well, or weights can be negative.",
                {"torch.where(key > 0, key + 1, ...)": "key"},
            ),
            # --- the denominator
            "not_divided": (
                "You do not divide by the sum of the weights, so the output grows with the number of keys. It is a mean of the values.",
                {"mixed / ...": "mixed"},
            ),
            # --- causal
            "causal_ignored": (
                "`causal` changes nothing: every query sees all keys, later ones too.",
                {"causal and t_q != t_k": "False", "not causal": "True"},
            ),
            "blind_to_itself": (
                "A query does not see its own position. Keys up to the query's place count, its own included; the first token has nothing else.",
                {"_.tril()": "_.tril(-1)"},
            ),
            "chunk_sees_itself_whole": (
                "Inside a chunk every query meets every key, later ones too. Only keys up to the query's own may count, there as elsewhere.",
                {"_.tril()": "_"},
            ),
            "chunks_forget": (
                "Every chunk starts from 0, so a query forgets everything before its own chunk. What earlier chunks have left has to be added, to numerator and "
                "denominator.",
                {"_ + query @ earlier": "_"},
            ),
            "state_detached": (
                "Your outputs are right, but the state that is handed from chunk to chunk has lost its gradient: keys and values learn nothing from queries of "
                "later chunks.",
                {"earlier = _": "earlier = _.detach()"},
            ),
            "tail_dropped": (
                "Tokens that do not fill a chunk are dropped. T may be any number: fill the last chunk up, or let it be shorter.",
                {"-(-t_k // size)": "max(1, t_k // size)", "sums = _[..., :t_q, :]": "sums = _[..., : min(t_q, chunks * size), :]"},
            ),
            "no_chunks_to_join": (
                "Where there are no tokens there are no chunks, and `cat` refuses an empty list. Start the list with a piece of length 0, or ask first.",
                CHUNKS_IN_A_LIST,
            ),
        },
    ),
    *of(
        "sliding_window_mask",
        {
            "mask_handed_out_again": (
                "You keep the masks that you have made and return the same tensor again. Writing into one, as `&=` does, changes all. Create a new one each time, or return a copy.",
                KEPT_MASK,
            ),
            "numbers_to_be_added": (
                "You return numbers to be added to scores, 0 and −∞. Masks are boolean here, True = may attend: & and `attention` expect it.",
                {"return _": "return torch.zeros(1, size, size).masked_fill(~_, float('-inf'))"},
            ),
            # --- the window
            "window_of_both_sides": (
                "You take `window` for both sides together, as Longformer's w is. Here it is the largest distance to either side: w = 2 · window.",
                {"distance <= window": "distance <= window // 2"},
            ),
            "window_of_the_past": (
                "Your window reaches back only. This mask looks to both sides; & with `subsequent_mask` makes it causal.",
                {"_.abs()": "_", "near = _": "near = (0 <= distance) & _"},
            ),
            "window_wraps_around": (
                "Your window wraps around: the first token sees the last one. (`roll` does that.) A text has ends, and at its ends a token sees less.",
                {"near = _": "distance = torch.minimum(distance, size - distance)\nnear = _"},
            ),
            "without_itself": (
                "A token does not see itself. Its distance to itself is 0, which is within any window.",
                {"near = _": "near = _ & (distance > 0)"},
            ),
            "zero_means_no_window": (
                "You take a window of 0 for no window at all, as `if window:` or `window or …` do. It is the narrowest one: each token sees itself.",
                {"distance <= window": "distance <= (window or size)"},
            ),
            # --- global tokens
            "global_tokens_are_not_seen": (
                "The global tokens see all, but are not seen by all. It goes both ways: that is how news from one end reaches the other in two layers.",
                {"near | first": "near"},
            ),
            "global_tokens_do_not_see": (
                "The global tokens are seen by all, but do not see all. It goes both ways.",
                {"_ | first.unsqueeze(1)": "_"},
            ),
            "global_tokens_ignored": (
                "`global_tokens` changes nothing.",
                {"near | first | ...": "near"},
            ),
            "one_global_token_too_many": (
                "There is one global token more than asked for. Positions count from 0, so the first g tokens are those below g.",
                {"position < _": "position <= _"},
            ),
            # --- form
            "inverted": (
                "Your mask is True where a token may *not* attend. True means may attend, here as everywhere in this course.",
                {"return _": "return ~_"},
            ),
            "no_batch_axis": (
                "Your mask is (size, size). It has an axis for the batch in front, as `subsequent_mask` has: (1, size, size).",
                {"_.unsqueeze(0)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "linear_attention",
        {
            "ones_made_on_the_cpu": (
                "You append a column of ones that is on the CPU to values that may be on a GPU. `value.new_ones` makes it where they are.",
                {"value = F.pad(value, (0, 1), value=1.0)": "value = torch.cat([value, torch.ones(*value.shape[:-1], 1, dtype=wide)], dim=-1)"},
            ),
        },
    ),
]
