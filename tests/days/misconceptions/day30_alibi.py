"""Day 30: what goes wrong with slopes and with the bias that they make."""

from course.judging.misconceptions import Misconception

SLOPES, BIAS = "alibi_slopes", "alibi_bias"

POWER = "power = 2 ** (n_heads.bit_length() - 1)"
RAISED = "2 ** (-8 * k / power)"
STEPS = "range(1, power + 1)"
RAISED_BETWEEN = "2 ** (-8 * k / (2 * power))"
ODD = "range(1, 2 * missing, 2)"
BETWEEN = f"[{RAISED_BETWEEN} for k in {ODD}]"
MADE = "return torch.tensor(slopes)"

QUERY = "query = key[t_k - t_q :]"
DISTANCE = "(query.unsqueeze(1) - key).abs()"
RESULT = "-alibi_slopes(n_heads).view(-1, 1, 1) * distance"

MISCONCEPTIONS = [
    # --- slopes: any number of heads
    Misconception(
        "power_strictly_below",
        SLOPES,
        "You look for a power of two *below* the number of heads even where that number is one itself. Your slopes of 8 heads are "
        "then the right numbers in another order: those of 4 heads first. A power of two has the plain sequence.",
        {POWER: "power = max(1, 2 ** ((n_heads - 1).bit_length() - 1))"},
    ),
    Misconception(
        "plain_formula_for_any_number",
        SLOPES,
        "You use 2^(−8k/h) for every h. That is the rule where h is a power of two; for the others the authors' code, and every model "
        "trained with it, takes the slopes of the power of two below and fills up with some of the one above.",
        {POWER: "power = n_heads"},
    ),
    Misconception(
        "first_slopes_of_the_longer",
        SLOPES,
        "The slopes that you fill up with are the first ones of twice the power of two, one after the other. Every second one of these "
        "you have already: take the first, the third, the fifth …, which lie between those that you have.",
        {ODD: "range(1, missing + 1)"},
    ),
    Misconception(
        "even_slopes_of_the_longer",
        SLOPES,
        "The slopes that you fill up with are those that you have already, once more from the start: the second, the fourth, the sixth … of twice the "
        "power of two. So pairs of heads are alike. Wanted are the first, the third, the fifth …, which lie between.",
        {ODD: "range(2, 2 * missing + 1, 2)"},
    ),
    Misconception(
        "last_slopes_of_the_longer",
        SLOPES,
        "You fill up with the gentlest of the slopes between. The steepest come first: the first, third, fifth … of twice the power of two.",
        {ODD: "range(2 * (power - missing) + 1, 2 * power, 2)"},
    ),
    Misconception(
        "cut_from_the_longer",
        SLOPES,
        "You take the first slopes of the next larger power of two. So all heads are steep, and none looks far. The power of two *below* "
        "comes first, whole, down to 1/256.",
        {POWER: "power = 2 ** (n_heads - 1).bit_length()", MADE: f"{MADE[:-1]}[:n_heads])"},
    ),
    Misconception(
        "nearest_power",
        SLOPES,
        "You round to the nearest power of two, so that a number of heads a little below one gets that power's slopes, cut off. It is "
        "always the power below that comes first.",
        {
            POWER: "power = 2 ** round(float(torch.tensor(float(n_heads)).log2()))",
            MADE: f"{MADE[:-1]}[:n_heads])",
        },
    ),
    Misconception(
        "sorted_slopes",
        SLOPES,
        "You have the right slopes, sorted. Where the number of heads is no power of two those that fill up come after the others, and it is "
        "by their places that trained heads find them.",
        {MADE: "return torch.tensor(sorted(slopes, reverse=True))"},
    ),
    Misconception(
        "those_between_first",
        SLOPES,
        "You put the slopes that fill up before the power of two's own. They come after them.",
        {f"slopes += {BETWEEN}": f"slopes = {BETWEEN} + slopes"},
    ),
    # --- slopes: the sequence
    Misconception(
        "always_halving",
        SLOPES,
        "Your slopes are halved from head to head, whatever the number of heads. That is so for 8 heads, the paper's example. In general 8 "
        "halvings are shared out among h steps, so that the last slope is always 1/256.",
        {RAISED: "2.0**-k", RAISED_BETWEEN: "2 ** (-k / 2)"},
    ),
    Misconception(
        "exponent_without_8",
        SLOPES,
        "Your exponent is −k/h, without the 8: the gentlest slope is ½ instead of 1/256, and no head sees further than a few tokens.",
        {RAISED: "2 ** (-k / power)", RAISED_BETWEEN: "2 ** (-k / (2 * power))"},
    ),
    Misconception(
        "counted_from_0",
        SLOPES,
        "You count k from 0, so the first slope is 1 and the last is not yet 1/256. k runs from 1 to h.",
        {STEPS: "range(power)"},
    ),
    Misconception(
        "all_counted_from_0",
        SLOPES,
        "You count k from 0, in both sequences, so the first slope is 1 and the last is not yet 1/256. k runs from 1.",
        {STEPS: "range(power)", ODD: "range(0, 2 * missing - 1, 2)"},
    ),
    Misconception(
        "gentlest_first",
        SLOPES,
        "Your slopes rise from head to head. The first head's is the steepest.",
        {STEPS: "range(power, 0, -1)"},
    ),
    Misconception(
        "base_e",
        SLOPES,
        "You take powers of e. They are powers of 2: eight heads have ½, ¼, ⅛ …",
        {
            RAISED: "2.718281828459045 ** (-8 * k / power)",
            RAISED_BETWEEN: "2.718281828459045 ** (-8 * k / (2 * power))",
        },
    ),
    Misconception(
        "evenly_spaced",
        SLOPES,
        "Your slopes are evenly spaced. They are a geometric sequence: each is the same *fraction* of the one before.",
        {RAISED: "1 - (k - 1) * (255 / 256) / power"},
    ),
    Misconception(
        "negative_slopes",
        SLOPES,
        "Your slopes are negative. A slope says how steeply scores fall, and is positive; the minus sign is the bias's.",
        {MADE: "return -torch.tensor(slopes)"},
    ),
    Misconception(
        "float64_slopes",
        SLOPES,
        "Your slopes are float64. Compute them as finely as you like, and hand them out in torch's default dtype: the scores that they are added to have it.",
        {MADE: f"{MADE[:-1]}, dtype=torch.float64)"},
    ),
    # --- the bias: where queries are
    Misconception(
        "queries_first",
        BIAS,
        "You take the queries for the first positions. They are the last: with a cache the only query is the newest token, at position t_k − 1, and "
        "what is near it are the last keys.",
        {QUERY: "query = key[:t_q]"},
    ),
    Misconception(
        "query_after_the_keys",
        BIAS,
        "Your queries are one position too far on, behind the last key. The newest token's own key is among the keys: at distance 0 from it.",
        {QUERY: "query = key[t_k - t_q :] + 1"},
    ),
    Misconception(
        "queries_backwards",
        BIAS,
        "Your queries are in the wrong order: the first row is the last position. Query i is at position t_k − t_q + i.",
        {QUERY: "query = key[t_k - t_q :].flip(0)"},
    ),
    # --- the bias: the distance
    Misconception(
        "later_keys_rewarded",
        BIAS,
        "Your distance has a sign, so keys later than the query get a *higher* score the further away they are. Under a causal mask nobody sees "
        "it; an encoder would stare at the end of its text. Distance is positive both ways.",
        {DISTANCE: "(query.unsqueeze(1) - key)"},
    ),
    Misconception(
        "later_keys_at_0",
        BIAS,
        "Keys later than the query have a bias of 0 with you, as though they were as near as the query itself. Here they are as far away as earlier ones; hiding "
        "them is the mask's business.",
        {DISTANCE: "(query.unsqueeze(1) - key).clamp(min=0)"},
    ),
    Misconception(
        "hides_the_future",
        BIAS,
        "You have put the causal mask into the bias: later keys are at −∞. The bias only says how far; an encoder adds it too, and a decoder "
        "has its own mask.",
        {RESULT: f"({RESULT}).masked_fill(query.unsqueeze(1) < key, -torch.inf)"},
    ),
    Misconception(
        "key_position_alone",
        BIAS,
        "Your bias grows with the key's own position and is the same for every query. A causal softmax cannot tell that from the distance, as each row is only shifted, "
        "and much published code does so; here the bias is the distance, so that it means the same without a causal mask.",
        {RESULT: "alibi_slopes(n_heads).view(-1, 1, 1) * key.expand(t_q, t_k)"},
    ),
    Misconception(
        "counted_from_1",
        BIAS,
        "You count the distance from 1: a query pays for looking at itself. The softmax would not notice, but query and key at the same position are 0 apart.",
        {DISTANCE: f"({DISTANCE} + 1)"},
    ),
    Misconception(
        "share_of_the_length",
        BIAS,
        "You divide the distance by the length. Five tokens back is then another bias in each text, and what was learnt on short texts is wrong for long "
        "ones: just what this was made to avoid.",
        {DISTANCE: f"{DISTANCE} / max(1, t_k)"},
    ),
    Misconception(
        "logarithm_of_the_distance",
        BIAS,
        "Your penalty grows with the logarithm of the distance. Others have tried that since; these biases are linear.",
        {DISTANCE: f"{DISTANCE}.add(1).log()"},
    ),
    Misconception(
        "square_of_the_distance",
        BIAS,
        "Your penalty grows with the square of the distance. It is linear, as the name says.",
        {DISTANCE: f"{DISTANCE}.square()"},
    ),
    # --- the bias: slopes and sign
    Misconception(
        "bonus_for_distance",
        BIAS,
        "Your sign is turned round: the further away a key, the *higher* its score. The bias is taken off the score.",
        {RESULT: RESULT.removeprefix("-")},
    ),
    Misconception(
        "no_slopes",
        BIAS,
        "Every head has the same bias, the bare distance. Each has a slope of its own: some look only at their neighbours, others far back.",
        {RESULT: "-torch.ones(n_heads, 1, 1) * distance"},
    ),
    Misconception(
        "divided_by_the_slope",
        BIAS,
        "You divide the distance by the slope. It is multiplied: the first head, with the largest slope, falls most steeply.",
        {RESULT: "-distance / alibi_slopes(n_heads).view(-1, 1, 1)"},
    ),
    Misconception(
        "bias_as_a_factor",
        BIAS,
        "You return e to the power of the bias. It is the bias itself that is *added to the scores*, before the softmax takes the exponential.",
        {RESULT: f"({RESULT}).exp()"},
    ),
    # --- the bias: axes
    Misconception(
        "keys_before_queries",
        BIAS,
        "Your axes of queries and keys are exchanged. With as many of one as of the other nobody notices, for the distance is the same both ways.",
        {RESULT: f"({RESULT}).transpose(1, 2)"},
    ),
    Misconception(
        "heads_last",
        BIAS,
        "Your heads are on the last axis. They come first, (n_heads, t_q, t_k), as in the scores that the bias is added to.",
        {RESULT: f"({RESULT}).movedim(0, -1)"},
    ),
    Misconception(
        "one_head_squeezed",
        BIAS,
        "With a single head you lose the axis of the heads. It stays, with length 1: the scores have it, too.",
        {RESULT: f"({RESULT})[0 if n_heads == 1 else slice(None)]"},
    ),
    Misconception(
        "no_queries_all_queries",
        BIAS,
        "With no queries you return a row for every key. A slice that counts from the end, [-t_q:], takes everything where t_q is 0.",
        {QUERY: "query = key[-t_q:]"},
    ),
]
