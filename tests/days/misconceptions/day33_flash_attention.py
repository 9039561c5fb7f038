"""Day 33: what goes wrong with tiles: the running softmax, borders, gradients, memory, dtypes."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "flash_attention",
        {
            "padded_with_zeros": (
                "You fill up the last block of keys with zeros and do not mask them. Their score is 0, and exp(0) is a weight like any other: give them −∞, or let the last tile be smaller.",
                {
                    "flat = _": "missing = -t_k % block\nkey, value = (torch.cat([one, one.new_zeros(*batch, missing, one.size(-1))], dim=-2) for one in (key, value))\nflat = _",
                    "seen = ...": "seen = min(rows.stop + t_k - t_q, t_k + -t_k % block) if causal else t_k + -t_k % block",
                },
            ),
            "mean_without_keys": (
                "A query that may attend to nothing gets the mean of some values: a large negative score in place of −∞ makes all of its weights equal. Its output is to be 0.",
                {"-math.inf": "-1e9"},
            ),
            "mean_of_all_without_keys": (
                "A query that may attend to nothing gets the mean of all values: a large negative score in place of −∞ makes all of its weights equal. Its output is to be 0.",
                {"-math.inf": "torch.finfo(scores.dtype).min", "seen = ...": "seen = t_k"},
            ),
            "one_key_left_out": (
                "Where a single key is left over for the last tile, you leave it out. A tile of one key counts like any other.",
                {
                    "range(0, length, block)": "range(0, length - (length % block == 1), block)",
                    "value.new_empty": "value.new_zeros",
                    "query.new_empty": "query.new_zeros",
                },
            ),
            "one_causal_key_left_out": (
                "In a causal text you leave out the last tile where it has a single key. A tile of one key counts like any other.",
                {"seen = ...": "seen = min(rows.stop + t_k - t_q, t_k) if causal else t_k\nif causal and seen % block == 1:\n    seen -= 1"},
            ),
            "small_number_in_the_denominator": (
                "You add a small number to the total before you divide. The total is at least 1, or exactly 0 where no key was seen: only that needs care.",
                {"mixed / ...": "mixed / (total + 1e-6)"},
            ),
            "maximum_begins_too_high": (
                "Your highest score begins at −10,000. Where all scores lie far below that, each exponential is 0, and so is the total. Begin at the lowest number that there is.",
                {"torch.finfo(wide).min": "-1e4"},
            ),
            "divided_in_halves": (
                "You divide in half precision: the sum over the values is infinite in float16 from 65504 on, though the mean is not. Divide first, then go back to the inputs' dtype.",
                {"mixed / ...": "mixed.to(value.dtype) / total.clamp(min=1).to(value.dtype)"},
            ),
            "gradients_for_equal_widths": (
                "Your gradients take for granted that values are as wide as keys. dV has the width of V, d_v.",
                {"grad_query, grad_key, grad_value = _": "grad_query, grad_key, grad_value = _\ngrad_value = torch.zeros_like(key, dtype=wide)"},
            ),
            "causal_only_if_square": (
                "You hide later keys only where there are as many keys as queries. With more keys than queries the last query belongs to the last key.",
                {
                    "causal and columns.stop - 1 > last": "causal and t_q == t_k and columns.stop - 1 > last",
                    "seen = ...": "seen = min(rows.stop + t_k - t_q, t_k) if causal and t_q == t_k else t_k",
                },
            ),
            # --- memory: right numbers, and too many of them
            "recorded_by_autograd": (
                "Your tiles are right, and every one of them is kept for the backward pass, by autograd or by you: together they are the matrix that you meant to "
                "avoid. Between the passes only the inputs, the output and a number a query may be kept. So autograd must not look in, and the backward pass "
                "computes the tiles again.",
                {"higher = _": "higher = _.detach()", "by_hand(forward, backward, *flat)": "forward(*flat)[0]"},
            ),
            "backward_by_the_matrix": (
                "Your forward pass goes by tiles; your backward pass computes all weights at once, T_q × T_k of them. There it is the most memory that is needed "
                "in training, so it goes by tiles, too.",
                {
                    "grad_query, grad_key, grad_value = _": "q, k, v = query, key.to(wide), value.to(wide)\n"
                    "scores = (query.to(wide) @ key.to(wide).mT) * scale\n"
                    "if causal:\n"
                    "    past = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)\n"
                    "    scores = scores.masked_fill(~past, torch.finfo(wide).min)\n"
                    "weights = scores.softmax(dim=-1)\n"
                    "weights = weights.masked_fill(~past, 0.0) if causal else weights\n"
                    "grad = grad_output.to(wide)\n"
                    "along = (grad * output).sum(dim=-1, keepdim=True)\n"
                    "grad_scores = weights * (grad @ v.mT - along) * scale\n"
                    "return ((grad_scores @ k).to(query.dtype), (grad_scores.mT @ query.to(wide)).to(query.dtype), (weights.mT @ grad).to(query.dtype))\n"
                    "grad_query, grad_key, grad_value = _"
                },
            ),
            "the_whole_matrix": (
                "Your output is right, and it comes from a matrix of T_q × T_k weights. That is day 8's attention. Here a tile of scores is used and forgotten "
                "before the next one is made.",
                {
                    "flat = _": "def attend(query, key, value):\n"
                    "    scores = query.to(wide) @ key.to(wide).mT * scale\n"
                    "    if causal:\n"
                    "        past = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)\n"
                    "        scores = scores.masked_fill(~past, torch.finfo(wide).min)\n"
                    "    weights = scores.softmax(dim=-1)\n"
                    "    weights = weights.masked_fill(~past, 0.0) if causal else weights\n"
                    "    return (weights @ value.to(wide)).to(value.dtype)\n"
                    "flat = _",
                    "by_hand(forward, backward, *flat)": "(lambda query, key, value: attend(query, key, value))(*flat)",
                },
            ),
            "mask_of_all": (
                "Your scores go by tiles, but your mask is made for all queries and keys at once, T_q × T_k. Make the part that a tile needs from the places of "
                "its rows and columns; most tiles need none.",
                {
                    "later = ...": "later = ~torch.ones(t_q, t_k, dtype=torch.bool, device=scores.device).tril(t_k - t_q)",
                    "later.triu(...)": "later[rows, columns]",
                },
            ),
            # --- the running softmax
            "total_not_scaled_down": (
                "When a higher score comes you scale the mixture down, but not the total that it will be divided by. Both were summed under the old maximum.",
                {"total.mul_(shrink)": "total"},
            ),
            "mixture_not_scaled_down": (
                "When a higher score comes you scale the total down, but not the values mixed so far. Both were summed under the old maximum.",
                {"mixed.mul_(shrink)": "mixed"},
            ),
            "nothing_scaled_down": (
                "Each tile has a maximum of its own, and you add what was computed under one to what was computed under another. Before a tile is added, what is "
                "there must be brought to the new maximum.",
                {"total.mul_(shrink)": "total", "mixed.mul_(shrink)": "mixed"},
            ),
            "scaled_up": (
                "What was summed under the old maximum you scale up, by exp(new − old). Everything is to be smaller under a higher maximum: exp(old − new).",
                {"highest.sub_(higher)": "(higher - highest).clamp(max=80)"},
            ),
            "tile_maximum_only": (
                "You go on with the maximum of the newest tile, also where an earlier tile had a higher one. Then what is there is scaled *up*, by the exponential "
                "of the difference, and overflows. The maximum is that of all keys so far.",
                {"torch.maximum(highest, _)": "_"},
            ),
            "maximum_of_the_first_tile": (
                "You keep the maximum of the first tile. A much higher score in a later one overflows.",
                {"higher = ...": "higher = highest.where(highest > torch.finfo(wide).min / 2, scores.amax(-1, True))"},
            ),
            "no_maximum": (
                "You take the exponential of the scores as they are. Beyond 88 it is infinite in float32, and below −103 it is 0. Subtract the highest score so "
                "far.",
                {"higher = ...": "higher = torch.zeros_like(highest)"},
            ),
            "maximum_begins_at_0": (
                "Your highest score begins at 0. Where all scores lie far below that, each exponential is 0, and so is the total. Begin at the lowest number that "
                "there is.",
                {"torch.finfo(wide).min": "0.0"},
            ),
            "softmax_of_each_tile": (
                "You take a softmax within each tile, and the mean over the tiles. A tile of weak keys then counts as much as one of strong keys. The weights of "
                "all tiles share one total.",
                {
                    "scores.sub_(highest).exp_()": "scores.softmax(dim=-1)",
                    "total.mul_(shrink).add_(_)": "total.add_((_ > 0).to(wide))",
                    "mixed.mul_(shrink)": "mixed",
                },
            ),
            "divided_in_each_tile": (
                "You divide the mixture by the total after every tile, and go on adding to it as if you had not. Divide once, after the last tile.",
                {"_.baddbmm_(weights, v)": "_.baddbmm_(weights, v).div_(total.clamp(min=1))"},
            ),
            "not_divided": (
                "You never divide by the total: what you return is a sum, no mean.",
                {"mixed / ...": "mixed"},
            ),
            "last_tile_alone": (
                "Each tile of keys takes the place of what the tiles before it gave. Their results are to be added up.",
                {"total.mul_(shrink).add_": "total.copy_", "mixed.mul_(shrink)": "mixed.zero_()"},
            ),
            # --- scores
            "not_scaled": (
                "Your scores are not divided by √d_k.",
                {"scale = ...": "scale = 1.0"},
            ),
            "scaled_by_d_k": (
                "Your scores are divided by d_k. It is its square root, once.",
                {"math.sqrt(_)": "_"},
            ),
            "scaled_by_value_width": (
                "Your scores are divided by √d_v, the width of the values. They are dot products of queries and keys: it is √d_k.",
                {"query.size(-1)": "value.size(-1)"},
            ),
            "scaled_by_block": (
                "Your scores are divided by the root of the block's size. How the keys are cut into tiles must not show in the result: it is √d_k.",
                {"query.size(-1)": "block"},
            ),
            # --- borders
            "rest_left_out": (
                "What is left over when a length is divided by the block is never looked at: the last few keys count nothing, and the last queries get nothing. "
                "The last tile is smaller.",
                {
                    "min(_, length)": "_",
                    "range(0, length, block)": "range(0, length - block + 1, block)",
                    "value.new_empty": "value.new_zeros",
                    "query.new_empty": "query.new_zeros",
                },
            ),
            "one_block_of_keys": (
                "Each block of queries meets the keys of one block only, its own. That is local attention; here every query meets every key that it may see.",
                {"1: blocks(_)": "[one for one in blocks(_) if one.start == rows.start]"},
            ),
            "causal_ignored": (
                "`causal` is taken, and hides nothing.",
                {"seen = ...": "seen = t_k", "causal and ...": "False"},
            ),
            "causal_by_whole_tiles": (
                "You leave out the tiles that lie wholly in the future. In the tiles that the diagonal crosses, there are later keys to be hidden one by one.",
                {"causal and ...": "False"},
            ),
            "aligned_to_the_first_key": (
                "Your first query belongs to the first key. Where there are more keys than queries, the queries are the last of the positions: query i sees keys "
                "up to T_k − T_q + i.",
                {"rows.stop + t_k - t_q": "rows.stop", "rows.start + t_k - t_q": "rows.start"},
            ),
            "border_of_the_tile": (
                "In each tile that is not wholly visible you hide what lies above the tile's own diagonal. The border runs where query and key are the same "
                "*position*, and that is the tile's diagonal only if queries and keys begin at the same place, and their blocks too.",
                {"last - columns.start + 1": "1"},
            ),
            "oneself_hidden": (
                "A query does not see the key of its own position. Its own key is no later than it.",
                {"_ > last": "_ >= last", "_ + 1": "_"},
            ),
            "next_key_visible": (
                "Each query sees one key that is later. Your border is one place too far to the right.",
                {"_ + 1": "_ + 2", "rows.stop": "rows.stop + 1"},
            ),
            "tiles_left_out_too_early": (
                "You leave out every tile that lies beyond what a block's *first* query sees. The last query of the block sees further: leave out what lies beyond "
                "that.",
                {"rows.stop": "rows.start + 1"},
            ),
            "hidden_scores_0": (
                "Later keys get a score of 0, and exp(0) = 1 is no small weight. −∞ makes it 0.",
                {"-math.inf": "0.0"},
            ),
            # --- gradients
            "no_gradient": (
                "Your output is right, and no gradient reaches the inputs: it was computed where autograd does not look, and has no derivative of its own.",
                {"by_hand(forward, backward, *flat)": "forward(*flat)[0].detach()"},
            ),
            "mean_not_subtracted": (
                "In the gradient of the scores you multiply by the weights, and stop there. The softmax couples its weights: from each entry of dO Vᵀ the mean D "
                "of its query is subtracted first.",
                {"(grad @ v.mT).sub_(along)": "grad @ v.mT"},
            ),
            "mean_of_a_tile": (
                "The mean that you subtract in the softmax's gradient is that of one tile. It runs over all keys: and the output knows it, as the sum of dO · O.",
                {
                    "grad_scores = ...": "grad_scores = grad @ v.mT\n"
                    "along = (grad_scores * weights).sum(dim=-1, keepdim=True)\n"
                    "grad_scores = grad_scores.sub_(along).mul_(weights)"
                },
            ),
            "along_by_value": (
                "You sum dO over its features, without the output beside it. D is the sum of dO · O.",
                {"grad * output[:, rows]": "grad"},
            ),
            "softmax_of_a_tile_backward": (
                "In the backward pass you take the softmax within each tile. Its total belongs to that tile; the weights are exp(S − L), with the L that the "
                "forward pass kept for all keys.",
                {"scores.sub_(log_sum[:, rows]).exp_": "scores.softmax(dim=-1).nan_to_num"},
            ),
            "maximum_not_in_log_sum": (
                "The number that you keep for each query is log ℓ, without the maximum under which ℓ was summed. L = m + log ℓ.",
                {"highest + total.log()": "total.log()"},
            ),
            "total_not_in_log_sum": (
                "You keep the highest score of each query, and weights in the backward pass are exp(S − m): nothing divides them by their total. L = m + log ℓ.",
                {"highest + total.log()": "highest"},
            ),
            "log_forgotten": (
                "You keep m + ℓ. It is m + log ℓ, so that exp(S − L) is exp(S − m) / ℓ.",
                {"total.log()": "total"},
            ),
            "query_gradient_not_scaled": (
                "The gradient of the query lacks the factor 1/√d_k.",
                {"grad_query * scale": "grad_query"},
            ),
            "key_gradient_not_scaled": (
                "The gradient of the key lacks the factor 1/√d_k.",
                {"_.baddbmm_(grad_scores.mT, q)": "_.baddbmm_(grad_scores.mT, q / scale)"},
            ),
            "key_gradient_scaled_twice": (
                "The gradient of the key has the factor 1/√d_k twice. If your queries are scaled already, it is in them.",
                {"_.baddbmm_(grad_scores.mT, q)": "_.baddbmm_(grad_scores.mT, q * scale)"},
            ),
            "key_gradient_overwritten": (
                "The gradients of keys and values are those of the last block of queries. Every block adds its part.",
                {
                    "grad_value[:, columns].baddbmm_(weights.mT, grad)": "grad_value[:, columns] = weights.mT @ grad",
                    "grad_key[:, columns].baddbmm_(_, q)": "grad_key[:, columns] = _ @ q",
                },
            ),
            "query_gradient_overwritten": (
                "The gradient of a query is that of the last block of keys. Every block adds its part.",
                {"grad_query[:, rows].baddbmm_(grad_scores, k)": "grad_query[:, rows] = grad_scores @ k"},
            ),
            "backward_not_causal": (
                "Your forward pass hides later keys, your backward pass does not: weights that were 0 come back to life.",
                {"8: tile(q, k, rows, columns)": "q @ k.mT", "8: scores.sub_(_)": "scores.sub_(_).clamp_(max=80)"},
            ),
            "kept_outside": (
                "You keep L where the next call overwrites it. Two layers call, and only then comes the first backward pass: each call needs what it kept itself.",
                {
                    "6: return _": "flash_attention.kept = log_sum\nreturn _",
                    "grad_query, grad_key, grad_value = _": "log_sum = flash_attention.kept\ngrad_query, grad_key, grad_value = _",
                },
            ),
            # --- what goes in and out
            "log_sum_returned": (
                "You return L beside the output. Wanted is the output alone; L is between you and your backward pass.",
                {"10: return _": "return _, output"},
            ),
            "four_axes_expected": (
                "Your answer works for (B, h, T, d) alone. There may be any number of leading dimensions, none included.",
                {"flat = ...": "_, _, t_q, _ = query.shape\nflat = (one.unsqueeze(0).flatten(0, -3) for one in (query, key, value))"},
            ),
            "joined_by_view": (
                "You make one batch dimension by `view`. Heads come out of a transposition and lie in memory in another order: `view` refuses them, `reshape` and "
                "`flatten` copy where they must.",
                {"one.unsqueeze(0).flatten(0, -3)": "one.view(math.prod(batch), *one.shape[-2:])"},
            ),
            "query_changed": (
                "Your query is changed in place, as it is where it is scaled so, and its owner's tensor with it. Compute a new one.",
                {"3: _ * scale": "_.mul_(scale)"},
            ),
            # --- queries without keys
            "nan_without_keys": (
                "A query that may attend to nothing gives NaN: its highest score is −∞, and −∞ − (−∞) is no number.",
                {"torch.finfo(wide).min": "-math.inf"},
            ),
            "zero_by_zero": (
                "A query that may attend to nothing has a total of 0, and 0 / 0 is NaN. Its output is to be 0.",
                {"total.clamp(min=1)": "total"},
            ),
            "gradients_without_keys": (
                "Your output is right, but where a query may attend to nothing your backward pass makes NaN: its log-sum-exp is −∞, and exp(−∞ − (−∞)) is no "
                "number.",
                {"6: math.inf": "-math.inf"},
            ),
            "maximum_of_no_keys": (
                "Where there are no keys at all, you ask for the maximum of an empty tile, and torch has none.",
                {"1: blocks(_)": "blocks(_) or [slice(0, 0)]"},
            ),
            # --- dtypes
            "not_widened": (
                "Halves are computed in half precision. Dot products overflow in float16 beyond 65504, and scores near 70 are rounded to half a unit in bfloat16: "
                "widen each tile to float32.",
                {"wide = ...": "wide = query.dtype"},
            ),
            "summed_in_halves": (
                "Your scores are computed in float32, and what is summed over the tiles is in half precision. In bfloat16 256 + 1 is 256: a sum over many tiles "
                "stops growing.",
                {
                    "v = value[:, columns].to(wide)\n_": "total.copy_(total.to(query.dtype))\nv = value[:, columns].to(wide)\n_\nmixed.copy_(mixed.to(query.dtype))"
                },
            ),
            "log_sum_in_halves": (
                "Your output is right, but you keep L in half precision. Near 70 a bfloat16 has neighbours half a unit away, and all weights of the query are off "
                "by the exponential of that in the backward pass. One number a query can be float32.",
                {"2: dtype=wide": ""},
            ),
            "scores_narrowed": (
                "Your scores are rounded to half precision before the exponential. Near 70 a bfloat16 has neighbours half a unit away, and exp turns half a unit "
                "into a factor of 1.6.",
                {"q @ k.mT": "(q @ k.mT).to(query.dtype).to(wide)"},
            ),
            "always_float32": (
                "You compute in float32 whatever comes in. Halves need that; float64 loses half of its digits.",
                {"wide = ...": "wide = torch.float32"},
            ),
            "result_in_float32": (
                "Your output is float32 where the inputs are halves. Sum in float32, and give back the dtype that came in.",
                {"value.new_empty(len(query), t_q, _)": "value.new_empty(len(query), t_q, _, dtype=wide)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "flash_attention",
        {
            "mask_made_on_the_cpu": (
                "You make the causal mask of a tile on the CPU, and its scores may be on a GPU. `torch.ones` takes `device=scores.device`.",
                {"device=scores.device": ""},
            ),
            "maximum_made_on_the_cpu": (
                "Your running maximum begins on the CPU, and is compared with scores that may be on a GPU. `q.new_full` makes it where `q` is.",
                {"q.new_full(_, torch.finfo(wide).min)": "torch.full(_, torch.finfo(wide).min, dtype=wide)"},
            ),
            "output_made_on_the_cpu": (
                "You collect the output in a tensor on the CPU. Writing into it copies silently, so nothing is refused, but your result is on the CPU and each tile waits for the copy. `value.new_empty` makes it where `value` is.",
                {"value.new_empty(len(query), t_q, value.size(-1))": "torch.empty(len(query), t_q, value.size(-1), dtype=value.dtype)"},
            ),
            "gradients_made_on_the_cpu": (
                "You sum the gradients in tensors on the CPU. Make them where the inputs are, as `torch.zeros_like` does.",
                {"torch.zeros_like(one, dtype=wide)": "torch.zeros(one.shape, dtype=wide)"},
            ),
        },
    ),
]
