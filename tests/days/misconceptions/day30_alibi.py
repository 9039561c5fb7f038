"""Day 30: what goes wrong with slopes and with the bias that they make."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "alibi_slopes",
        {
            # --- slopes: any number of heads
            "power_strictly_below": (
                "You look for a power of two *below* the number of heads even where that number is one itself. Your slopes of 8 heads are then the right numbers "
                "in a different order: those of 4 heads first. A power of two has the plain sequence.",
                {"power = ...": "power = max(1, 2 ** ((n_heads - 1).bit_length() - 1))"},
            ),
            "plain_formula_for_any_number": (
                "You use 2^(−8k/h) for every h. That is the rule where h is a power of two; for the others the authors' code, and every model trained with it, "
                "takes the slopes of the power of two below and fills up with some of the one above.",
                {"power = ...": "power = n_heads"},
            ),
            "even_slopes_of_the_longer": (
                "The slopes that you fill up with are those that you have already, from the beginning: the second, the fourth, the sixth … of twice the "
                "power of two. So pairs of heads are alike. Take the first, the third, the fifth …, which are between those.",
                {"range(1, 2 * missing, 2)": "range(2, 2 * missing + 1, 2)"},
            ),
            "those_between_first": (
                "You put the slopes that fill up before the power of two's own. They come after them.",
                {"slopes += _": "slopes = _ + slopes"},
            ),
            # --- slopes: the sequence
            "always_halving": (
                "Your slopes are halved from head to head, whatever the number of heads. That is so for 8 heads, the paper's example. In general 8 halvings are "
                "shared out among h steps, so that the last slope is always 1/256.",
                {"2 ** (-8 * k / power)": "2.0**-k", "-8 * k / (2 * power)": "-k / 2"},
            ),
            "exponent_without_8": (
                "Your exponent is −k/h, without the 8: the gentlest slope is ½ instead of 1/256, and no head sees further than a few tokens.",
                {"-8 * k / power": "-k / power", "2: -8 * k": "-k"},
            ),
            "counted_from_0": (
                "You count k from 0, so the first slope is 1 and the last is not yet 1/256. k runs from 1 to h.",
                {"range(1, power + 1)": "range(power)"},
            ),
            "gentlest_first": (
                "Your slopes rise from head to head. The first head's is the steepest.",
                {"range(1, power + 1)": "range(power, 0, -1)"},
            ),
            "base_e": (
                "You take powers of e. They are powers of 2: eight heads have ½, ¼, ⅛ …",
                {"2 ** (-8 * k / power)": "2.718281828459045 ** (-8 * k / power)", "2: 2 ** _": "2.718281828459045 ** _"},
            ),
            "negative_slopes": (
                "Your slopes are negative. A slope says how steeply scores fall, and is positive; the minus sign is the bias's.",
                {"return _": "return -_"},
            ),
            "float32_slopes": (
                "Your slopes are float32, whatever torch's default dtype is. Where `torch.set_default_dtype` has made it another, the model's scores have that one.",
                {"torch.tensor(slopes)": "torch.tensor(slopes, dtype=torch.float32)"},
            ),
            "float64_slopes": (
                "Your slopes are float64. Compute them as precisely as you like, and return them in PyTorch's default dtype: the scores that they are added to have "
                "it.",
                {"torch.tensor(slopes)": "torch.tensor(slopes, dtype=torch.float64)"},
            ),
        },
    ),
    *of(
        "alibi_bias",
        {
            # --- the bias: where queries are
            "queries_first": (
                "You treat the queries as the first positions. They are the last: with a cache the only query is the newest token, at position t_k − 1, and what "
                "is near it are the last keys.",
                {"key[t_k - t_q :]": "key[:t_q]"},
            ),
            # --- the bias: the distance
            "later_keys_rewarded": (
                "Your distance has a sign, so keys later than the query get a *higher* score the further away they are. Under a causal mask this has no effect; an "
                "encoder would attend to the end of its sequence. Distance is positive both ways.",
                {"_.abs()": "_"},
            ),
            "later_keys_at_0": (
                "Keys later than the query have a bias of 0 with you, as though they were as near as the query itself. Here they are as far away as earlier ones; "
                "hiding them is the mask's business.",
                {"_.abs()": "_.clamp(min=0)"},
            ),
            "hides_the_future": (
                "You have put the causal mask into the bias: later keys are at −∞. The bias only says how far; an encoder adds it too, and a decoder has its own "
                "mask.",
                {"return _": "return _.masked_fill(query.unsqueeze(1) < key, -torch.inf)"},
            ),
            "key_position_alone": (
                "Your bias grows with the key's own position and is the same for every query. A causal softmax cannot tell that from the distance, as each row is "
                "only shifted, and much published code does so; here the bias is the distance, so that it means the same without a causal mask.",
                {"-_ * distance": "_ * key.expand(t_q, t_k)"},
            ),
            "key_counted_from_the_last": (
                "Your bias is the distance between each key and the *last* position, and the same for every query, as in MPT's code. After a causal softmax it is "
                "equal to the distance's, because each row is only shifted. Here the bias is the distance between query and key, so that it means the same without "
                "a causal mask.",
                {"-_ * distance": "-_ * (t_k - 1 - key).expand(t_q, t_k)"},
            ),
            "counted_from_1": (
                "You count the distance from 1: a query pays for looking at itself. The softmax would not notice, but query and key at the same position are 0 "
                "apart.",
                {"distance = _": "distance = (_ + 1)"},
            ),
            # --- the bias: slopes and sign
            "bonus_for_distance": (
                "Your sign is wrong: the farther away a key, the *higher* its score. The bias has to lower the score.",
                {"-_ * distance": "_ * distance"},
            ),
            "no_slopes": (
                "Every head has the same bias, the bare distance. Each has a slope of its own: some look only at their neighbors, others far back.",
                {"-....view(-1, 1, 1)": "-torch.ones(n_heads, 1, 1)"},
            ),
            "bias_as_a_factor": (
                "You return e to the power of the bias. It is the bias itself that is *added to the scores*, before the softmax takes the exponential.",
                {"return _": "return _.exp()"},
            ),
            # --- the bias: axes
            "keys_before_queries": (
                "Your axes of queries and keys are exchanged. With equally many queries and keys this has no effect, because the distance is symmetric.",
                {"return _": "return _.transpose(1, 2)"},
            ),
            "heads_last": (
                "Your heads are on the last axis. They come first, (n_heads, t_q, t_k), as in the scores that the bias is added to.",
                {"return _": "return _.movedim(0, -1)"},
            ),
            "one_head_squeezed": (
                "With a single head you lose the axis of the heads. It stays, with length 1: the scores have it, too.",
                {"return _": "return _[0 if n_heads == 1 else slice(None)]"},
            ),
            "no_queries_all_queries": (
                "With no queries you return a row for every key. A slice that counts from the end, [-t_q:], takes everything where t_q is 0.",
                {"t_k - t_q": "-t_q"},
            ),
        },
    ),
]
