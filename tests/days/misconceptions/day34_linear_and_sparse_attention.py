"""Day 34: what goes wrong with sums in place of a softmax, with chunks, and with windows."""

from course.judging.misconceptions import Misconception

LINEAR, MASK = "linear_attention", "sliding_window_mask"

# --- of linear_attention
WIDE = "torch.promote_types(value.dtype, torch.float32)"
WIDEN = "query, key, value = query.to(wide), key.to(wide), value.to(wide)"
PHI_Q = "torch.where(query > 0, query + 1, query.clamp(max=0).exp())"
PHI_K = "torch.where(key > 0, key + 1, key.clamp(max=0).exp())"
ONE = "value = F.pad(value, (0, 1), value=1.0)"
BRANCH = "if not causal:"
READ = "sums = query @ state"
CHUNKS = "chunks = -(-t_k // size)"
INSIDE = "(query @ key.transpose(-2, -1)).tril()"
EARLIER = "earlier = F.pad(state, (0, 0, 0, 0, 1, 0))[..., :-1, :, :].cumsum(dim=-3)"
JOIN = "sums = weights @ value + query @ earlier"
PARTS = "mixed, total = sums[..., :-1], sums[..., -1:]"
DIVIDE = "output = mixed / total.masked_fill(total == 0, 1.0)"
RESULT = "return output.to(dtype)"

# --- of sliding_window_mask
DISTANCE = "distance = (position.unsqueeze(1) - position).abs()"
NEAR = "near = distance <= window"
FIRST = "first = position < global_tokens"
JOINED = "(near | first | first.unsqueeze(1)).unsqueeze(0)"


def mapped(query: str, key: str) -> dict[str, str]:
    """Other features of queries and keys."""
    return {PHI_Q: query, PHI_K: key}


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

MISCONCEPTIONS = [
    # --- memory: right numbers, in a way that the day is there to avoid
    Misconception(
        "table_of_scores",
        LINEAR,
        "Your numbers are right, but you multiply every query with every key: that is T × T numbers again. Add up the products of keys and values first; "
        "where it is causal, let only the queries and keys of one chunk meet.",
        source=TABLE,
    ),
    Misconception(
        "state_for_each_token",
        LINEAR,
        "Your numbers are right, but there is a d_k × d_v state for every single token: in a running sum over all the outer products, or in a loop over tokens whose states are all kept for the "
        "backward pass. Go by chunks: one state for each, and inside a chunk queries meet keys.",
        source=STATES_BY_SUMS,
    ),
    # --- numbers
    Misconception(
        "small_number_in_the_denominator",
        LINEAR,
        "You add a small number to the denominator. Much published code does, and float32 hardly notices; in float64 it is a hundred million times the rounding. Divide by the sum of the weights itself, and treat a sum that is exactly 0 by itself.",
        {DIVIDE: "output = mixed / (total + 1e-6)"},
    ),
    Misconception(
        "one_added_after_rounding",
        LINEAR,
        "You compute elu(x) and then add 1. Below 0 elu(x) is eˣ − 1, so eˣ is rounded away beside the 1: at x = −17.4 float32 is left with exactly 0. The feature is eˣ itself there.",
        mapped("F.elu(query) + 1", "F.elu(key) + 1"),
    ),
    Misconception(
        "zero_by_zero",
        LINEAR,
        "Where there are no keys you divide 0 by 0, which is NaN. Nothing to attend to gives 0, as in day 8.",
        {DIVIDE: "output = mixed / total"},
    ),
    Misconception(
        "sums_in_halves",
        LINEAR,
        "You add up in the inputs' own dtype. In float16 a sum over thousands of keys overflows, in bfloat16 it stops growing after a few hundred. Compute in float32, and round once, at the end.",
        {WIDE: "value.dtype"},
    ),
    Misconception(
        "always_float32",
        LINEAR,
        "You compute in float32 whatever comes in, so float64 loses half of its digits. Only what is narrower has to be widened.",
        {WIDE: "torch.float32"},
    ),
    Misconception(
        "result_stays_wide",
        LINEAR,
        "Half precision comes out as float32. Compute in float32, then give back the inputs' dtype.",
        {RESULT: "return output"},
    ),
    # --- features
    Misconception(
        "scaled",
        LINEAR,
        "You divide by √d_k. That belongs to the softmax. Here it changes the features themselves, and the formula does not have it.",
        {WIDEN: f"{WIDEN}\n        query = query / query.size(-1) ** 0.5"},
    ),
    Misconception(
        "no_one_added",
        LINEAR,
        "Your features are elu(x), without the 1. They can be negative, so weights can be, and their sum can come near 0.",
        mapped("F.elu(query)", "F.elu(key)"),
    ),
    Misconception(
        "relu",
        LINEAR,
        "Your features are max(0, x). Below 0 they are 0 and have no gradient; elu(x) + 1 stays positive everywhere.",
        mapped("query.relu()", "key.relu()"),
    ),
    Misconception(
        "exponential",
        LINEAR,
        "Your features are eˣ on both sides of 0. Above 0 elu(x) + 1 is a straight line, x + 1.",
        mapped("query.exp()", "key.exp()"),
    ),
    Misconception(
        "softmax_of_features",
        LINEAR,
        "You take softmaxes of queries and keys. That is another linear attention (Shen et al. 2018). Here every feature goes through elu(x) + 1 by itself.",
        mapped("query.softmax(-1)", "key.softmax(-1)"),
    ),
    Misconception(
        "keys_not_mapped",
        LINEAR,
        "Only your queries go through the feature map. Keys do as well, or weights can be negative.",
        {PHI_K: "key"},
    ),
    Misconception(
        "queries_not_mapped",
        LINEAR,
        "Only your keys go through the feature map. Queries do as well, or weights can be negative.",
        {PHI_Q: "query"},
    ),
    Misconception(
        "values_mapped",
        LINEAR,
        "Your values go through the feature map, too. Values are what is mixed, and stay as they are.",
        {ONE: f"value = F.elu(value) + 1\n        {ONE}"},
    ),
    # --- the denominator
    Misconception(
        "not_divided",
        LINEAR,
        "You do not divide by the sum of the weights, so the output grows with the number of keys. It is a mean of the values.",
        {DIVIDE: "output = mixed"},
    ),
    Misconception(
        "divided_by_the_count",
        LINEAR,
        "You divide by the number of keys. What a mean with weights is divided by is the sum of the weights, which is each query's own: φ(q) · Σ φ(k).",
        {DIVIDE: "output = mixed / max(t_k, 1)"},
    ),
    Misconception(
        "divided_by_the_keys_alone",
        LINEAR,
        "Your denominator is the sum of the keys' features, and the query has no part in it. A query with larger features has larger weights: they have to cancel, φ(q) · Σ φ(k).",
        {
            PARTS: f"{PARTS}\n        total = total / query.flatten(-3, -2)[..., :t_q, :].sum(-1, keepdim=True) if causal else total / query.sum(-1, keepdim=True)"
        },
    ),
    Misconception(
        "denominator_of_all_keys",
        LINEAR,
        "Your numerator is causal, your denominator runs over all keys. Both sums end at the query's own position; otherwise later tokens are seen after all, and the weights do not sum to 1.",
        {
            BRANCH: f"everything = query @ key.sum(-2).unsqueeze(-1)\n        {BRANCH}",
            PARTS: "mixed, total = sums[..., :-1], everything",
        },
    ),
    Misconception(
        "denominator_of_the_chunk",
        LINEAR,
        "Your denominator knows the query's own chunk only, your numerator the chunks before as well. So the output grows from chunk to chunk.",
        {JOIN: "sums = weights @ value + F.pad((query @ earlier)[..., :-1], (0, 1))"},
    ),
    # --- causal
    Misconception(
        "causal_ignored",
        LINEAR,
        "`causal` changes nothing: every query sees all keys, later ones too.",
        {BRANCH: "if True:", "causal and t_q != t_k": "False"},
    ),
    Misconception(
        "blind_to_itself",
        LINEAR,
        "A query does not see its own position. Keys up to the query's place count, its own included; the first token has nothing else.",
        {INSIDE: INSIDE.replace("tril()", "tril(-1)")},
    ),
    Misconception(
        "looks_ahead",
        LINEAR,
        "In a chunk your queries see the keys from their own position on, in place of those up to it.",
        {INSIDE: INSIDE.replace("tril()", "triu()")},
    ),
    Misconception(
        "chunk_sees_itself_whole",
        LINEAR,
        "Inside a chunk every query meets every key, later ones too. Only keys up to the query's own may count, there as elsewhere.",
        {INSIDE: INSIDE.replace(".tril()", "")},
    ),
    Misconception(
        "own_chunk_twice",
        LINEAR,
        "The sum that a chunk reads holds the chunk itself already: its keys count twice, and its queries see later ones. It reads what the chunks *before* it have left.",
        {EARLIER: "earlier = state.cumsum(dim=-3)"},
    ),
    Misconception(
        "last_chunk_only",
        LINEAR,
        "A chunk reads what the one before it has left, and those further back are forgotten. The state is a sum over all of them.",
        {EARLIER: EARLIER.replace(".cumsum(dim=-3)", "")},
    ),
    Misconception(
        "chunks_forget",
        LINEAR,
        "Every chunk starts anew, so that a query forgets all that came before its own. What earlier chunks have left has to be added, to numerator and denominator.",
        {JOIN: "sums = weights @ value"},
    ),
    Misconception(
        "state_detached",
        LINEAR,
        "Your outputs are right, but the state that is handed from chunk to chunk has lost its gradient: keys and values learn nothing from queries of later chunks.",
        {EARLIER: f"{EARLIER}.detach()"},
    ),
    Misconception(
        "tail_dropped",
        LINEAR,
        "Tokens that do not fill a chunk are dropped. T may be any number: fill the last chunk up, or let it be shorter.",
        {
            CHUNKS: "chunks = max(1, t_k // size)",
            "[..., :t_q, :]": "[..., : min(t_q, chunks * size), :]",
        },
    ),
    Misconception(
        "filled_up_in_front",
        LINEAR,
        "You fill up with tokens in front, and take the result from the front as well. What is filled up has to be cut off at the same end.",
        {"F.pad(x, (0, 0, 0, missing))": "F.pad(x, (0, 0, missing, 0))"},
    ),
    Misconception(
        "no_chunks_to_join",
        LINEAR,
        "Where there are no tokens there are no chunks, and `cat` refuses an empty list. Start the list with a piece of length 0, or ask first.",
        source=CHUNKS_IN_A_LIST,
    ),
    # --- the window
    Misconception(
        "window_of_both_sides",
        MASK,
        "You take `window` for both sides together, as Longformer's w is. Here it is the largest distance to either side: w = 2 · window.",
        {NEAR: "near = distance <= window // 2"},
    ),
    Misconception(
        "window_ends_early",
        MASK,
        "The token at distance `window` exactly is hidden. It is the last one that is seen; and with a window of 0 a token would not even see itself.",
        {NEAR: "near = distance < window"},
    ),
    Misconception(
        "window_of_the_past",
        MASK,
        "Your window reaches back only. This mask looks to both sides; & with `subsequent_mask` makes it causal.",
        {
            DISTANCE: "distance = position.unsqueeze(1) - position",
            NEAR: "near = (0 <= distance) & (distance <= window)",
        },
    ),
    Misconception(
        "window_of_one_side_open",
        MASK,
        "Your window has a border on one side only: the difference of positions needs its absolute value.",
        {DISTANCE: "distance = position.unsqueeze(1) - position"},
    ),
    Misconception(
        "window_of_future_open",
        MASK,
        "Your window has a border on one side only: the difference of positions needs its absolute value.",
        {DISTANCE: "distance = position - position.unsqueeze(1)"},
    ),
    Misconception(
        "window_wraps_around",
        MASK,
        "Your window wraps around: the first token sees the last one. (`roll` does that.) A text has ends, and at its ends a token sees less.",
        {DISTANCE: f"{DISTANCE}\n    distance = torch.minimum(distance, size - distance)"},
    ),
    Misconception(
        "blocks",
        MASK,
        "You cut the text into blocks that see themselves. At a block's border neighbours do not see each other then; a window slides along with each token.",
        {NEAR: "near = position.unsqueeze(1) // (window + 1) == position // (window + 1)"},
    ),
    Misconception(
        "without_itself",
        MASK,
        "A token does not see itself. Its distance to itself is 0, which is within any window.",
        {NEAR: "near = (distance <= window) & (distance > 0)"},
    ),
    Misconception(
        "zero_means_no_window",
        MASK,
        "You take a window of 0 for no window at all, as `if window:` or `window or …` do. It is the narrowest one: each token sees itself.",
        {NEAR: "near = distance <= (window or size)"},
    ),
    # --- global tokens
    Misconception(
        "global_tokens_are_not_seen",
        MASK,
        "The global tokens see all, but are not seen by all. It goes both ways: that is how news from one end reaches the other in two layers.",
        {JOINED: "(near | first.unsqueeze(1)).unsqueeze(0)"},
    ),
    Misconception(
        "global_tokens_do_not_see",
        MASK,
        "The global tokens are seen by all, but do not see all. It goes both ways.",
        {JOINED: "(near | first).unsqueeze(0)"},
    ),
    Misconception(
        "global_tokens_ignored",
        MASK,
        "`global_tokens` changes nothing.",
        {JOINED: "near.unsqueeze(0)"},
    ),
    Misconception(
        "one_global_token_too_many",
        MASK,
        "There is one global token more than asked for. Positions count from 0, so the first g tokens are those below g.",
        {FIRST: "first = position <= global_tokens"},
    ),
    Misconception(
        "position_of_a_global_token",
        MASK,
        "You take `global_tokens` for the position of the one that is global. It is how many of the first are.",
        {FIRST: "first = position == global_tokens"},
    ),
    Misconception(
        "last_tokens_global",
        MASK,
        "Your global tokens are the last ones. They are the first: so every later token of a causal model can see them.",
        {FIRST: "first = position >= size - global_tokens"},
    ),
    Misconception(
        "global_tokens_see_each_other_only",
        MASK,
        "Your global tokens see each other, and nobody else further away than the window. A pair may attend where *one* of the two is global.",
        {JOINED: "(near | (first & first.unsqueeze(1))).unsqueeze(0)"},
    ),
    Misconception(
        "global_tokens_without_a_window",
        MASK,
        "The pairs within the window are lost where a token is not global. What may attend is near, *or* one of the two is global.",
        {
            JOINED: "(first | first.unsqueeze(1)).unsqueeze(0) if global_tokens else near.unsqueeze(0)"
        },
    ),
    # --- form
    Misconception(
        "inverted",
        MASK,
        "Your mask is True where a token may *not* attend. True means may attend, here as everywhere in this course.",
        {JOINED: f"~{JOINED}"},
    ),
    Misconception(
        "no_batch_axis",
        MASK,
        "Your mask is (size, size). It has an axis for the batch in front, as `subsequent_mask` has: (1, size, size).",
        {JOINED: JOINED.removesuffix(".unsqueeze(0)")},
    ),
    Misconception(
        "numbers_for_flags",
        MASK,
        "Your mask holds numbers. Masks are boolean here: & and `attention` expect it.",
        {JOINED: f"{JOINED}.int()"},
    ),
]
