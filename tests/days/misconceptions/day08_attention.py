"""Day 8: what goes wrong with attention in PyTorch: axes, masks, dropout, gradients, dtypes."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "attention",
        {
            # --- the scores
            "not_scaled": (
                "Your weights are those you get when the scores are not divided by √d_k. A dot product of two vectors of d_k random numbers has a deviation of "
                "√d_k: undivided, the softmax saturates as vectors widen.",
                {"scores / ...": "scores"},
            ),
            "scaled_by_d_k": (
                "Your scores are divided by d_k itself, or twice by its square root, which comes to the same. The root is meant, and once (eq. 1): it is the "
                "deviation of a dot product of d_k terms, and dividing by more makes all weights alike.",
                {"math.sqrt(_)": "_"},
            ),
            "scaled_by_time": (
                "Your scores are divided by the square root of the number of keys. The scale belongs to the width of the vectors, the last axis of the query, not "
                "to the length of the sequence.",
                {"query.size(-1)": "key.size(-2)"},
            ),
            "scaled_by_value_width": (
                "Your scores are divided by √d_v, the width of the values. Scores are dot products of queries and keys: it is their width, d_k, that counts, and "
                "the two need not be equal.",
                {"query.size": "value.size"},
            ),
            "scaled_by_axis_one": (
                "Your scores are divided by the square root of the size of axis 1. That is d_k for a single sequence only; with a batch it is the length, with "
                "heads their number. Count from the end.",
                {"query.size(-1)": "query.size(1)"},
            ),
            "scaled_up": (
                "Your scores are multiplied by √d_k instead of divided by it, which makes the softmax pick one key.",
                {"scores / _": "scores * _"},
            ),
            "scaled_after_softmax": (
                "Your scale comes after the softmax: the weights are divided by √d_k, and no longer sum to 1. The *scores* are divided, so that they are not too "
                "far apart for a softmax.",
                {"scores / ...": "scores", "3: weights = _": "weights = _ / math.sqrt(query.size(-1))"},
            ),
            "root_in_float32": (
                "Your √d_k is a float32 tensor, so in float64 your result is right to 7 digits instead of 16. A Python number has no such dtype: it takes on that "
                "of the tensor it meets.",
                {"math.sqrt(_)": "torch.sqrt(torch.tensor(float(_), dtype=torch.float32))"},
            ),
            "query_scaled_in_place": (
                "You divide the query in place by √d_k. It is the caller's tensor: in self-attention the same one may be the key as well, and autograd refuses to "
                "have a leaf overwritten. Make a new tensor.",
                {
                    "scores = query.to(wide) @ ...": "query /= math.sqrt(query.size(-1))",
                    "scores = scores / ...": "scores = query.to(wide) @ key.to(wide).transpose(-2, -1)\nscores = scores",
                },
            ),
            # --- axes
            "all_axes_reversed": (
                "`.T` reverses all axes, the batch too, as in NumPy. Only the last two of the key are to change places.",
                {"_.transpose(-2, -1)": "_.T"},
            ),
            "axes_one_and_two_swapped": (
                "You swap axes 1 and 2 of the key. These are time and features with exactly one batch axis; with heads, axis 1 is the heads. Time and features are "
                "always the last two: count from the end.",
                {"_.transpose(-2, -1)": "_.transpose(1, 2)"},
            ),
            "key_not_transposed": (
                "Queries are multiplied with keys as they are, which fits only where T_k equals d_k. A row of scores holds a query's dot products with all keys: "
                "the last two axes of the key have to change places.",
                {"_.transpose(-2, -1)": "_"},
            ),
            "key_reshaped": (
                "Your key has the right shape, (…, d_k, T_k), but not by a transposition: a view or reshape keeps the numbers in their order in memory and only "
                "sets the brackets anew, so columns are filled with pieces of several keys.",
                {"_.transpose(-2, -1)": "_.reshape(*key.shape[:-2], key.size(-1), key.size(-2))"},
            ),
            "query_and_key_swapped": (
                "Query and key have changed places: your scores have a row for each key. A row belongs to the query that asks, a column to the key that is asked.",
                {"scores = _ @ ...": "scores = key.to(wide) @ _.transpose(-2, -1)"},
            ),
            "softmax_over_queries": (
                "Your softmax runs over the queries: the columns of the weights sum to 1. Each query shares out its own attention among the keys, so the rows must.",
                {"dim=-1": "dim=-2"},
            ),
            "softmax_over_axis_one": (
                "Your softmax runs over axis 1. The keys are there for a single sequence only: with a batch, the queries are, and with heads, the heads. The keys "
                "are the last axis of the scores: count from the end.",
                {"dim=-1": "dim=1"},
            ),
            "softmax_over_axis_two": (
                "Your softmax runs over axis 2. The keys are there with exactly one batch axis; with heads, the queries are. The keys are the last axis of the "
                "scores: count from the end.",
                {"dim=-1": "dim=2"},
            ),
            "softmax_over_the_batch": (
                "Your softmax runs over the first axis, the batch: sequences that have nothing to do with each other share out attention. The keys are the last "
                "axis of the scores.",
                {"dim=-1": "dim=0"},
            ),
            "weights_transposed": (
                "You mix the values by the transposed weights, which fits only where T_q equals T_k. A row of the weights belongs to the query, and its product "
                "with the values sums over the keys, as it stands.",
                {"weights @ value": "weights.transpose(-2, -1) @ value"},
            ),
            "flattened_by_view": (
                "You merge the leading axes by `view`, which works only where the memory happens to lie right. Tensors that were split into heads have been "
                "transposed, and do not. A matrix product takes any leading axes: none need be merged.",
                {
                    "with _:\n    scores = ...": "with _:\n"
                    "    flat = [x.to(wide).view(-1, *x.shape[-2:]) for x in (query, key)]\n"
                    "scores = torch.bmm(flat[0], flat[1].transpose(-2, -1))\n"
                    "scores = scores.view(*query.shape[:-1], key.size(-2))"
                },
            ),
            "overflows": (
                "Your attention is right for small scores and overflows for large ones: exponentials were taken without subtracting each row's largest score "
                "first. A softmax of torch does that.",
                {"scores.softmax(dim=-1)": "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"},
            ),
            # --- the mask
            "mask_asked_for_its_truth": (
                "You ask a tensor whether it is true (`if mask:`, `mask or …`), and a tensor of several flags has no answer. What you want to know is whether "
                "there is a mask at all.",
                {"2: mask is not None": "mask"},
            ),
            "mask_gets_an_axis_here": (
                "Your `attention` gives the mask an axis for heads. It knows of no heads: they are one of any number of leading axes, and whoever has made them "
                "(day 9) sees to it that the mask fits.",
                {"2: scores = _": "mask = mask.unsqueeze(1)\nscores = _"},
            ),
            "mask_as_an_index": (
                "You write into the scores at the places that an index by the mask picks out. An index has to have the scores' own shape; a mask here may have "
                "axes of length 1, or fewer axes, and is to broadcast.",
                {"2: scores = ...": "scores[~mask] = torch.finfo(wide).min"},
            ),
            "mask_ignored": (
                "Your result is what attention gives without the mask: the mask was taken, but changes nothing. (Methods of a tensor return a new one, unless "
                "their name ends in an underscore.)",
                {"2: scores = ...": "scores = scores", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "mask_inverted": (
                "Your mask works the wrong way round: it hides exactly what it should show. True means *may be attended to* here, as in "
                "`scaled_dot_product_attention`; in `nn.MultiheadAttention` True hides, and `masked_fill` fills where it is given True.",
                {"2: ~mask": "mask", "4: ~mask": "mask"},
            ),
            "mask_inverted_once": (
                "You fill the scores where the mask is True, and True means *may be attended to*: the permitted keys get the lowest score. Setting the forbidden "
                "weights to 0 afterwards then leaves nothing.",
                {"2: ~mask": "mask"},
            ),
            "mask_after_softmax": (
                "Your mask sets weights to 0 after the softmax, so what is left no longer sums to 1: the hidden keys took their share first. Hide the scores "
                "before the softmax.",
                {"2: scores = ...": "scores = scores"},
            ),
            "renormalised": (
                "Your mask sets weights to 0 after the softmax, and you divide what is left by its sum. True on paper; but a hidden key with a high score has left "
                "the others so little that it rounded to 0. Hide the scores before the softmax.",
                {
                    "2: scores = ...": "scores = scores",
                    "weights = weights.masked_fill(~mask, 0.0)": "weights = weights.masked_fill(~mask, 0.0)\n"
                    "weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-38)",
                },
            ),
            "mask_score_of_zero": (
                "A forbidden key has the score 0 in your answer, whether it was set or multiplied to it, and a score of 0 still has a weight: exp(0) = 1. Only a "
                "score far below all others gets the weight 0.",
                {"torch.finfo(wide).min": "0.0", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "mask_multiplied": (
                "A forbidden key has the score 0 when your softmax begins, whether it was set or multiplied to it, and takes a share with it: exp(0) = 1. You set "
                "its weight to 0 afterwards, but what is left no longer sums to 1.",
                {"2: scores = ...": "scores = scores * mask"},
            ),
            "one_minus_a_boolean": (
                "You subtract the mask from 1, as one does where masks are numbers. Here they are boolean, which torch does not subtract: what turns a boolean "
                "round is `~`. And replace a forbidden score rather than add to it.",
                {"2: scores = ...": "scores = scores + (1 - mask) * -1e9", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "mask_added": (
                "You add the mask to the scores. That is for masks of 0 and −∞; ours are boolean, and True counts as 1 in a sum: a permitted key only becomes e "
                "times likelier.",
                {"2: scores = ...": "scores = scores + mask", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "mask_added_then_zero": (
                "You add the mask to the scores, where True counts as 1, and set forbidden weights to 0 after the softmax: what is left no longer sums to 1. A "
                "mask of booleans says which scores to replace, before the softmax.",
                {"2: scores = ...": "scores = scores + mask"},
            ),
            "no_scale_and_minus_infinity_in_halves": (
                "Several things. Your scores are not divided by √d_k, which saturates the softmax as vectors widen. They are computed in the inputs' own dtype, "
                "which in half precision rounds and overflows. And you fill forbidden ones with −∞: a query that may attend to nothing gives NaN.",
                {
                    "wide = ...": "wide = query.dtype",
                    "scores / ...": "scores",
                    "torch.finfo(wide).min": "-math.inf",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                },
            ),
            "no_scale_and_minus_infinity": (
                "Two things. Your scores are not divided by √d_k, which saturates the softmax as vectors widen. And you fill forbidden ones with −∞: a query that "
                "may attend to nothing gives NaN, where it should get weights and output of exactly 0.",
                {"scores / ...": "scores", "torch.finfo(wide).min": "-math.inf", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_infinity_in_halves_without_dropout": (
                "Several things. `dropout` is taken, but never called. Your scores are computed in the inputs' own dtype, which in half precision rounds and "
                "overflows. And you fill forbidden ones with −∞: a query that may attend to nothing gives NaN.",
                {
                    "wide = ...": "wide = query.dtype",
                    "torch.finfo(wide).min": "-math.inf",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                    "dropout(weights)": "weights",
                },
            ),
            "minus_infinity_in_halves_nan_repaired": (
                "Your scores are computed in the inputs' own dtype: in half precision they are rounded, and overflow. And where they do, NaN is made 0 in the "
                "weights, so that nobody notices: a query that should have attended to something attends to nothing. Widen query and key first.",
                {
                    "wide = ...": "wide = query.dtype",
                    "torch.finfo(wide).min": "-math.inf",
                    "3: weights = _": "weights = _.nan_to_num()",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                },
            ),
            "minus_infinity_in_halves_over_axis_one": (
                "Two things. Your softmax runs over axis 1; the keys are the last axis of the scores, whatever comes before it. And you fill forbidden scores with "
                "−∞, in the inputs' own dtype: where all that the softmax compares is forbidden it gives NaN, and in half precision dot products are rounded, and "
                "overflow.",
                {"wide = ...": "wide = query.dtype", "torch.finfo(wide).min": "-math.inf", "dim=-1": "dim=1", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_infinity_in_halves": (
                "You compute in the inputs' own dtype and fill forbidden scores with −∞, as much well-known code does. In half precision dot products are rounded, "
                "and overflow; and a query that may attend to nothing gives NaN, since all its scores are −∞.",
                {"wide = ...": "wide = query.dtype", "torch.finfo(wide).min": "-math.inf", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e9_in_halves_and_softmax_in_float32": (
                "You widen to float32 for the softmax only. Before it, halves are rounded and overflow, and float16 has no −1e9 (or less) to fill with: torch "
                "refuses; and float64 is narrowed by it. And a query that may attend to nothing attends to everything equally, since all its scores are equally "
                "low.",
                {
                    "wide = ...": "wide = query.dtype",
                    "torch.finfo(wide).min": "-1e9",
                    "scores.softmax(dim=-1)": "scores.softmax(dim=-1, dtype=torch.float32)",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                },
            ),
            "mask_inverted_and_minus_1e9_in_halves": (
                "Several things. Your mask works the wrong way round: True means *may be attended to* here, and `masked_fill` fills where it is given True. You "
                "compute in the inputs' own dtype and fill with −1e9 (or less), which float16 does not have. And a query that may attend to nothing gets weights "
                "all the same.",
                {"wide = ...": "wide = query.dtype", "2: ~mask": "mask", "torch.finfo(wide).min": "-1e9", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e9_in_halves_scaled_after_softmax": (
                "Several things. Your scale comes after the softmax: the *scores* are divided by √d_k, not the weights, which no longer sum to 1. You compute in "
                "the inputs' own dtype and fill with −1e9 (or less), which float16 does not have. And a query that may attend to nothing gets weights all the same.",
                {
                    "wide = ...": "wide = query.dtype",
                    "scores / ...": "scores",
                    "torch.finfo(wide).min": "-1e9",
                    "3: weights = _": "weights = _ / math.sqrt(query.size(-1))",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                },
            ),
            "minus_1e9_in_halves": (
                "You compute in the inputs' own dtype and fill forbidden scores with −1e9 (or less), as much well-known code does. In half precision dot products "
                "are rounded, and overflow, and float16 has no −1e9: torch refuses it. And a query that may attend to nothing attends to everything equally, since "
                "all its scores are equally low.",
                {"wide = ...": "wide = query.dtype", "torch.finfo(wide).min": "-1e9", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e9_in_halves_then_zero": (
                "You compute in the inputs' own dtype and fill forbidden scores with −1e9 (or less). In half precision dot products are rounded, and overflow, and "
                "float16 has no −1e9: torch refuses it. Widen query and key first; then the fill fits as well.",
                {"wide = ...": "wide = query.dtype", "torch.finfo(wide).min": "-1e9"},
            ),
            "lowest_in_halves": (
                "You compute in the inputs' own dtype. In half precision dot products are rounded, and overflow. And you fill forbidden scores with that dtype's "
                "lowest number and leave it at that: a query that may attend to nothing attends to everything equally.",
                {"wide = ...": "wide = query.dtype", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e9_added": (
                "You add −1e9 to forbidden scores. A query that may attend to nothing then attends to everything about equally, as all its scores are about "
                "equally low; and the sum passes gradients on as if nothing were hidden. Replace the score; do not push it.",
                {"2: scores = ...": "scores = scores - 1e9 * (~mask).to(wide)", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e4": (
                "You fill forbidden scores with −10 000 or thereabouts. That number was chosen so that it fits into float16; it hides a key only as long as no "
                "permitted score lies lower. And a query that may attend to nothing attends to everything equally.",
                {"torch.finfo(wide).min": "-1e4", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e4_then_zero": (
                "You fill forbidden scores with −10 000 or thereabouts. That number was chosen so that it fits into float16; where permitted scores lie lower, the "
                "hidden keys take all, and nothing is left when their weights are set to 0.",
                {"torch.finfo(wide).min": "-1e4"},
            ),
            "lowest_of_the_halves": (
                "You widen the scores to float32 and fill with the lowest number of the *inputs'* dtype. Float16's is −65504, and float32 scores may lie far below "
                "it: then the hidden keys win. Ask the dtype that the scores have by then.",
                {"torch.finfo(wide)": "torch.finfo(query.dtype)"},
            ),
            "minus_1e4_added": (
                "You add −10 000 to forbidden scores. That number was chosen so that it fits into float16; it hides a key only as long as all scores are small, "
                "and a loud one is heard through it. Replace the score; do not push it.",
                {"2: scores = ...": "scores = scores - 1e4 * (~mask).to(wide)", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "empty_row_uniform": (
                "A query that may attend to nothing attends to everything equally in your answer: all its scores are equally low, and a softmax of equal scores is "
                "uniform. It should get weights and output of exactly 0.",
                {"weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "empty_row_nan": (
                "A query that may attend to nothing gives NaN in your answer: all its scores are −∞, and −∞ − (−∞) is no number. NaN times 0 is NaN as well, so "
                "multiplying by the mask does not mend it. It should get weights and output of exactly 0.",
                {"torch.finfo(wide).min": "-math.inf", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "nan_repaired_too_late": (
                "Your results are right, but NaN is repaired only in what you return. Where a query may attend to nothing its weights were NaN when the values "
                "were mixed by them, and on the way back NaN · 0 is NaN: every value gets a gradient of NaN. It has to be stopped before the weights are used.",
                {
                    "torch.finfo(wide).min": "-math.inf",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                    "return _, weights": "return _.nan_to_num(), weights.nan_to_num()",
                },
            ),
            "minus_infinity_added": (
                "Your results are right, and some of your gradients are NaN. You add −∞ to forbidden scores: the sum passes every gradient on as it is, and that "
                "of a softmax of nothing but −∞ is NaN. A score that is replaced passes none on.",
                {"2: scores = ...": "scores = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)"},
            ),
            "weights_changed_in_place": (
                "Your results are right, but the backward pass fails: you write zeros into the softmax's result, and autograd still needs that result as it was, "
                "for the softmax's gradient. Make new weights instead.",
                {"weights.masked_fill": "weights.masked_fill_"},
            ),
            # --- dropout
            "dropout_ignored": (
                "`dropout` is taken, but never called.",
                {"dropout(weights)": "weights"},
            ),
            "dropout_on_scores": (
                "You drop scores, before the softmax. A dropped score is 0, and exp(0) = 1: that key is not gone, it gets a weight of its own. It is the weights "
                "that are dropped.",
                {"3: weights = _": "scores = scores if dropout is None else dropout(scores)\nweights = _", "dropout(weights)": "weights"},
            ),
            "dropout_on_output": (
                "You drop entries of the output, not weights. Then a query loses features of its mixture; what is meant is that it cannot rely on any one key.",
                {"weights = dropout(weights)": "return dropout(weights @ value), weights"},
            ),
            "weights_before_dropout": (
                "Your output is right, but the weights that you return are those before dropout. Wanted are the weights that the values were really mixed by.",
                {"5: weights = _": "return _ @ value, weights"},
            ),
            "weights_dropped_only_in_return": (
                "You return the weights after dropout, but mix the values by those before it: dropout changes nothing in the output.",
                {"5: weights = _": "return weights @ value, _"},
            ),
            "dropout_twice": (
                "`dropout` is called twice: once for the weights you return, once for those the values are mixed by. It draws anew at each call, so the two differ.",
                {"weights @ value": "(weights if dropout is None else dropout(weights)) @ value"},
            ),
            "dropped_weights_renormalised": (
                "You divide the dropped weights by their sum, so that rows sum to 1 again. Dropout has made up for what it took by its factor 1/(1 − p); in "
                "training a row sums to 1 on average only.",
                {"5: weights = _": "weights = _\nweights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)"},
            ),
            # --- gradients
            "weights_detached": (
                "Your results are right, but no gradient reaches query and key: the weights were detached (or computed without gradients) before they mixed the "
                "values. So what to ask for could never be learnt.",
                {"weights @ value": "weights.detach() @ value"},
            ),
            "nothing_recorded": (
                "Your results are right, but no gradient reaches anything: they were computed under `no_grad`, or from `.data`, or went through NumPy. Autograd "
                "only knows what tensors do while it watches.",
                {"return _, weights": "return _.detach(), weights.detach()"},
            ),
            # --- dtypes
            "softmax_in_float32": (
                "You widen to float32 for the softmax only. That is too late for halves, whose scores are rounded or have overflowed already; and for float64 it "
                "is no widening: half of the digits are gone.",
                {"wide = ...": "wide = query.dtype", "scores.softmax(dim=-1)": "scores.softmax(dim=-1, dtype=torch.float32)"},
            ),
            "not_widened": (
                "The dot products of your queries and keys are taken in half precision, whatever you do with them afterwards. In float16 those of wide vectors "
                "pass 65504 and are infinite; in bfloat16 a score of 70 has neighbours half a unit away. Widen query and key, and narrow after the softmax.",
                {"wide = ...": "wide = query.dtype"},
            ),
            "narrowed_too_early": (
                "You go back to half precision before the softmax. The scores fit, but are rounded: near 70 a bfloat16 has neighbours half a unit away, and exp "
                "turns half a unit into a factor of 1.6.",
                {"scores.softmax": "scores.to(query.dtype).softmax"},
            ),
            "always_float32": (
                "You compute in float32 whatever comes in. Halves need that; for float64 it means that half of the digits are gone, even if the dtype is put right "
                "at the end.",
                {"wide = ...": "wide = torch.float32"},
            ),
            "result_in_float32": (
                "Your output and weights are float32 where the inputs are float16 or bfloat16. Compute in float32, but give back what you were given: the next "
                "layer's matrices are halves.",
                {"weights.to(value.dtype)": "weights", "weights @ value": "weights @ value.to(wide)"},
            ),
            "weights_in_float32": (
                "Your output has the inputs' dtype, but your weights are float32 where the inputs are halves. Both are to come in the dtype that went in.",
                {"weights.to(value.dtype)": "weights", "weights @ value": "(weights @ value.to(wide)).to(value.dtype)"},
            ),
            "dtypes_mixed": (
                "Your weights are float32 when they meet values in half precision, and torch multiplies no matrices of two dtypes. After the softmax, go back to "
                "the dtype that came in.",
                {"weights.to(value.dtype)": "weights"},
            ),
            # --- the result
            "pair_swapped": (
                "You return (weights, output). The order is (output, weights).",
                {"return _, weights": "return weights, _"},
            ),
            "output_only": (
                "You return the output alone. The weights are wanted too, as a pair: (output, weights).",
                {"return _, weights": "return _"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "attention",
        {
            "hidden_scores_made_on_the_cpu": (
                "What you put in place of hidden scores is a tensor of its own, made on the CPU: on a GPU it meets scores that are not there. A plain number, or a tensor made with `device=scores.device`, works anywhere.",
                {"scores.masked_fill(~mask, torch.finfo(wide).min)": "torch.where(mask, scores, torch.full(scores.shape, torch.finfo(wide).min, dtype=wide))"},
            ),
            "root_made_on_the_cpu": (
                "You divide by a tensor that you made, and it is on the CPU wherever the queries are. √d_k is a plain number: `math.sqrt` returns one.",
                {"math.sqrt(query.size(-1))": "torch.tensor([query.size(-1)], dtype=wide).sqrt()"},
            ),
        },
    ),
]
