"""Day 30: what goes wrong with slopes and with the bias that they make."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "alibi_slopes",
        {
            # --- slopes: any number of heads
            "power_strictly_below": (
                "You look for a power of two *below* the number of heads even when the number of heads is itself a power of two. For 8 heads, your slopes are "
                "then the right numbers in a different order: those for 4 heads come first. For a power of two, use the plain sequence.",
                {"power = ...": "power = max(1, 2 ** ((n_heads - 1).bit_length() - 1))"},
            ),
            "plain_formula_for_any_number": (
                "You use 2^(−8k/h) for every h. That is the rule where h is a power of two. For other h, the authors' code, and every model trained with it, "
                "takes the slopes for the next lower power of two, and adds some of those for twice that power.",
                {"power = ...": "power = n_heads"},
            ),
            "even_slopes_of_the_longer": (
                "For your additional slopes, you take the second, the fourth, the sixth, … for twice the power of two. You already have these slopes, so "
                "some heads have equal slopes. Take the first, the third, the fifth, …, which are between the others.",
                {"range(1, 2 * missing, 2)": "range(2, 2 * missing + 1, 2)"},
            ),
            "those_between_first": (
                "You put the additional slopes before those of the power of two. They should come after them.",
                {"slopes += _": "slopes = _ + slopes"},
            ),
            # --- slopes: the sequence
            "always_halving": (
                "Your slopes halve from head to head, whatever the number of heads. That is right for 8 heads, the paper's example. In general, h steps share "
                "8 halvings, so that the last slope of a power of two is always 1/256.",
                {"2 ** (-8 * k / power)": "2.0**-k", "-8 * k / (2 * power)": "-k / 2"},
            ),
            "exponent_without_8": (
                "Your exponent is −k/h, without the 8. Your smallest slope is ½ instead of 1/256, so no head can attend further back than a few tokens.",
                {"-8 * k / power": "-k / power", "2: -8 * k": "-k"},
            ),
            "counted_from_0": (
                "You count k from 0, so the first slope is 1, and the last is larger than 1/256. k runs from 1 to h.",
                {"range(1, power + 1)": "range(power)"},
            ),
            "gentlest_first": (
                "Your slopes rise from head to head. The first head should have the largest slope.",
                {"range(1, power + 1)": "range(power, 0, -1)"},
            ),
            "base_e": (
                "You take powers of e. The slopes are powers of 2: eight heads have ½, ¼, ⅛, …",
                {"2 ** (-8 * k / power)": "2.718281828459045 ** (-8 * k / power)", "2: 2 ** _": "2.718281828459045 ** _"},
            ),
            "negative_slopes": (
                "Your slopes are negative. A slope should be positive: it says how fast scores fall with the distance. The minus sign is in the bias.",
                {"return _": "return -_"},
            ),
            "float32_slopes": (
                "Your slopes are float32, whatever PyTorch's default dtype is. If `torch.set_default_dtype` has changed the default, the model's scores have "
                "the new dtype, and so should the slopes.",
                {"torch.tensor(slopes)": "torch.tensor(slopes, dtype=torch.float32)"},
            ),
            "float64_slopes": (
                "Your slopes are float64. Compute them as precisely as you like, but return them in PyTorch's default dtype, which is the dtype of the scores.",
                {"torch.tensor(slopes)": "torch.tensor(slopes, dtype=torch.float64)"},
            ),
        },
    ),
    *of(
        "alibi_bias",
        {
            # --- the bias: where queries are
            "queries_first": (
                "You treat the queries as the first positions. They are the last: with a cache, the only query is the newest token, at position t_k − 1, and "
                "the keys near it are the last keys.",
                {"key[t_k - t_q :]": "key[:t_q]"},
            ),
            # --- the bias: the distance
            "later_keys_rewarded": (
                "Your distance has a sign, so keys after the query get a *higher* score the further away they are. Under a causal mask this has no effect, "
                "but an encoder would attend to the end of its sequence. The distance is positive in both directions.",
                {"_.abs()": "_"},
            ),
            "later_keys_at_0": (
                "In your answer, keys after the query have a bias of 0, as if they were as near as the query itself. Their bias should fall with their "
                "distance, like that of earlier keys. Hiding them is the job of the mask.",
                {"_.abs()": "_.clamp(min=0)"},
            ),
            "hides_the_future": (
                "Your bias contains the causal mask: later keys have −∞. The bias should depend only on the distance, because an encoder adds it, too, and a "
                "decoder has a separate mask.",
                {"return _": "return _.masked_fill(query.unsqueeze(1) < key, -torch.inf)"},
            ),
            "key_position_alone": (
                "Your bias grows with the key's own position and is the same for every query. After a causal softmax the weights are the same, because each "
                "row of scores is only shifted, and much published code does this. Here the bias is the distance, so that it is also right without a causal "
                "mask.",
                {"-_ * distance": "_ * key.expand(t_q, t_k)"},
            ),
            "key_counted_from_the_last": (
                "Your bias is the distance between each key and the *last* position, the same for every query, as in MPT's code. After a causal softmax the "
                "weights are the same, because each row of scores is only shifted. Here the bias depends on the distance between query and key, so that it is "
                "also right without a causal mask.",
                {"-_ * distance": "-_ * (t_k - 1 - key).expand(t_q, t_k)"},
            ),
            "counted_from_1": (
                "You count the distance from 1, so a query is not at distance 0 from itself. The softmax gives the same weights, but query and key at the "
                "same position are 0 apart.",
                {"distance = _": "distance = (_ + 1)"},
            ),
            # --- the bias: slopes and sign
            "bonus_for_distance": (
                "Your sign is wrong: the farther away a key is, the *higher* its score. The bias must lower the score.",
                {"-_ * distance": "_ * distance"},
            ),
            "no_slopes": (
                "Every head has the same bias, the plain distance. Each head needs its own slope: some heads then look only at their neighbors, others far "
                "back.",
                {"-....view(-1, 1, 1)": "-torch.ones(n_heads, 1, 1)"},
            ),
            "bias_as_a_factor": (
                "You return e to the power of the bias. Return the bias itself, which is *added to the scores*; the softmax takes the exponential.",
                {"return _": "return _.exp()"},
            ),
            # --- the bias: axes
            "keys_before_queries": (
                "You swapped the axes of queries and keys. With equal numbers of queries and keys the result is the same, because the distance is symmetric.",
                {"return _": "return _.transpose(1, 2)"},
            ),
            "heads_last": (
                "Your heads are on the last axis. They should come first, (n_heads, t_q, t_k), as in the scores to which the bias is added.",
                {"return _": "return _.movedim(0, -1)"},
            ),
            "one_head_squeezed": (
                "With a single head, you remove the axis of the heads. Keep it, with length 1: the scores have it, too.",
                {"return _": "return _[0 if n_heads == 1 else slice(None)]"},
            ),
            "no_queries_all_queries": (
                "With no queries you return a row for every key. A slice that counts from the end, [-t_q:], takes everything if t_q is 0.",
                {"t_k - t_q": "-t_q"},
            ),
        },
    ),
]
