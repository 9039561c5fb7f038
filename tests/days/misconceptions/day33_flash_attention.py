"""Day 33: what goes wrong with tiles: the running softmax, borders, gradients, memory, dtypes."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "flash_attention",
        {
            "padded_with_zeros": (
                "You fill up the last block of keys with zeros and do not mask them. Their score is 0, and exp(0) is a weight like any other: give them −∞, or let the last tile be smaller.",
                {
                    "seen = _": "padded = t_k + -t_k % block\nseen = padded if offset is None else min(rows.stop + offset, padded)",
                    "_forward(): key.size(1)": "key.size(1) - missing",
                    "_forward(): wide = _": "wide = _\nmissing = -key.size(1) % block\nkey, value = (torch.cat([one, one.new_zeros(len(one), missing, one.size(-1))], dim=1) for one in (key, value))",
                    "_backward(): key.size(1)": "key.size(1) - missing",
                    "_backward(): wide = _": "wide = _\nmissing = -key.size(1) % block\nkey, value = (torch.cat([one, one.new_zeros(len(one), missing, one.size(-1))], dim=1) for one in (key, value))",
                    "grad_key.to(_)": "grad_key[:, : key.size(1) - missing].to(_)",
                    "grad_value.to(_)": "grad_value[:, : key.size(1) - missing].to(_)",
                },
            ),
            "gradients_for_equal_widths": (
                "Your gradients take for granted that values are as wide as keys. dV has the width of V, d_v.",
                {"grad_query, grad_key, grad_value = _": "grad_query, grad_key, grad_value = _\ngrad_value = torch.zeros_like(key, dtype=wide)"},
            ),
            "causal_only_if_square": (
                "You hide later keys only where there are as many keys as queries. With more keys than queries the last query belongs to the last key.",
                {"offset = ...": "offset = 0 if causal and query.size(-2) == key.size(-2) else None"},
            ),
            # --- memory: right numbers, and too many of them
            "recorded_by_autograd": (
                "Your tiles are right, and every one of them is kept for the backward pass, by autograd or by you: together they are the matrix that you meant to "
                "avoid. Between the passes only the inputs, the output and a number a query may be kept. So autograd must not look in, and the backward pass "
                "computes the tiles again.",
                {"higher = _": "higher = _.detach()", "_FlashAttention.apply(*flat, block, offset)": "_forward(*flat, block, offset)[0]"},
            ),
            "the_whole_matrix": (
                "Your output is right, and it comes from a matrix of T_q × T_k weights. That is day 8's attention. Here a tile of scores is used and forgotten "
                "before the next one is made.",
                {
                    "flat = _": "def attend(query, key, value):\n"
                    "    wide = torch.promote_types(query.dtype, torch.float32)\n"
                    "    scores = query.to(wide) @ key.to(wide).mT / math.sqrt(query.size(-1))\n"
                    "    if causal:\n"
                    "        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril(offset)\n"
                    "        scores = scores.masked_fill(~past, torch.finfo(wide).min)\n"
                    "    weights = scores.softmax(dim=-1)\n"
                    "    weights = weights.masked_fill(~past, 0.0) if causal else weights\n"
                    "    return (weights @ value.to(wide)).to(value.dtype)\n"
                    "flat = _",
                    "_FlashAttention.apply(*flat, block, offset)": "attend(*flat)",
                },
            ),
            "mask_of_all": (
                "Your scores go by tiles, but your mask is made for all queries and keys at once, T_q × T_k. Make the part that a tile needs from the places of "
                "its rows and columns; most tiles need none.",
                {
                    "later = ...": "later = torch.ones(rows.stop, columns.stop, dtype=torch.bool, device=scores.device).triu(offset + 1)",
                    "later.triu(...)": "later[rows, columns]",
                },
            ),
            # --- the running softmax
            "total_not_scaled_down": (
                "When a higher score comes you scale the accumulator down, but not the normalizer that it will be divided by. Both were summed under the old maximum.",
                {"rescale * normalizer": "normalizer"},
            ),
            "mixture_not_scaled_down": (
                "When a higher score comes you scale the normalizer down, but not the accumulator. Both were summed under the old maximum.",
                {"rescale * accumulator": "accumulator"},
            ),
            "tile_maximum_only": (
                "You use the maximum of the newest tile, even where an earlier tile had a higher one. Then the sums so far are scaled *up*, by the exponential "
                "of the difference, and overflows. The maximum is that of all keys so far.",
                {"torch.maximum(maximum, _)": "_"},
            ),
            "no_maximum": (
                "You take the exponential of the scores as they are. Beyond 88 it is infinite in float32, and below −103 it is 0. Subtract the highest score so "
                "far.",
                {"higher = ...": "higher = torch.zeros_like(maximum)"},
            ),
            "maximum_begins_at_0": (
                "Your running maximum begins at 0. Where all scores are far below that, each exponential is 0, and so is the normalizer. Begin at the lowest finite "
                "number.",
                {"torch.finfo(wide).min": "0.0"},
            ),
            "divided_in_each_tile": (
                "You divide the accumulator by the normalizer after every tile, and keep adding to it as if you had not. Divide once, after the last tile.",
                {"rescale * accumulator + _": "(rescale * accumulator + _) / normalizer.clamp(min=1)"},
            ),
            # --- scores
            "not_scaled": (
                "Your scores are not divided by √d_k.",
                {"_forward(): scale = ...": "scale = 1.0", "_backward(): scale = ...": "scale = 1.0"},
            ),
            # --- borders
            "rest_left_out": (
                "The remainder after dividing a length by the block is never read: the last few keys count nothing, and the last queries get nothing. "
                "The last tile is smaller.",
                {
                    "range(0, t_q, block)": "range(0, t_q - block + 1, block)",
                    "range(0, seen, block)": "range(0, seen - block + 1, block)",
                    "value.new_empty": "value.new_zeros",
                    "query.new_empty": "query.new_zeros",
                },
            ),
            "causal_ignored": (
                "`causal` is taken, and hides nothing.",
                {"offset = ...": "offset = None"},
            ),
            "aligned_to_the_first_key": (
                "Your first query belongs to the first key. Where there are more keys than queries, the queries are the last of the positions: query i sees keys "
                "up to T_k − T_q + i.",
                {"offset = ...": "offset = 0 if causal else None"},
            ),
            "oneself_hidden": (
                "A query does not see the key of its own position. Its own key is no later than it.",
                {"_ > last": "_ >= last", "last - columns.start + 1": "last - columns.start"},
            ),
            "next_key_visible": (
                "Each query sees one key that is later. Your border is one place too far to the right.",
                {"last - columns.start + 1": "last - columns.start + 2", "rows.stop": "rows.stop + 1"},
            ),
            # --- gradients
            "no_gradient": (
                "Your output is right, and no gradient reaches the inputs: it was computed where autograd does not look, and has no derivative of its own.",
                {"_FlashAttention.apply(*flat, block, offset)": "_forward(*flat, block, offset)[0].detach()"},
            ),
            "mean_not_subtracted": (
                "In the gradient of the scores you multiply by the weights, and stop there. The softmax couples its weights: from each entry of dO Vᵀ the mean D "
                "of its query is subtracted first.",
                {"grad_weights - delta": "grad_weights"},
            ),
            "maximum_not_in_log_sum": (
                "The number that you keep for each query is log ℓ, without the maximum under which ℓ was summed. L = m + log ℓ.",
                {"maximum + normalizer.log()": "normalizer.log()"},
            ),
            "query_gradient_not_scaled": (
                "The gradient of the query lacks the factor 1/√d_k.",
                {"alpha=scale": ""},
            ),
            "key_gradient_overwritten": (
                "The gradients of keys and values are those of the last block of queries. Every block adds its part.",
                {
                    "grad_value[:, columns].baddbmm_(weights.mT, grad)": "grad_value[:, columns] = weights.mT @ grad",
                    "grad_key[:, columns].baddbmm_(_, q)": "grad_key[:, columns] = _ @ q",
                },
            ),
            "backward_not_causal": (
                "Your forward pass hides later keys, your backward pass does not: weights that were 0 come back to life.",
                {"8: _scores(q, k, rows, columns, offset)": "q @ k.mT", "8: scores - _": "(scores - _).clamp(max=80)"},
            ),
            "kept_outside": (
                "You keep L where the next call overwrites it. Two layers call, and only then comes the first backward pass: each call needs what it kept itself.",
                {
                    "6: return _": "flash_attention.kept = logsumexp\nreturn _",
                    "grad_query, grad_key, grad_value = _": "logsumexp = flash_attention.kept\ngrad_query, grad_key, grad_value = _",
                },
            ),
            # --- what goes in and out
            "log_sum_returned": (
                "You return L beside the output. Wanted is the output alone; L is between you and your backward pass.",
                {"11: return _": "return _, output"},
            ),
            "four_axes_expected": (
                "Your answer works for (B, h, T, d) alone. There may be any number of leading dimensions, none included.",
                {"flat = ...": "_, _, t_q, _ = query.shape\nflat = (one.unsqueeze(0).flatten(0, -3) for one in (query, key, value))"},
            ),
            "joined_by_view": (
                "You make one batch dimension by `view`. Heads come out of a transposition and are not contiguous: `view` refuses them, `reshape` and "
                "`flatten` copy where they must.",
                {"one.unsqueeze(0).flatten(0, -3)": "one.view(math.prod(query.shape[:-2]), *one.shape[-2:])"},
            ),
            # --- queries without keys
            "nan_without_keys": (
                "A query that may attend to nothing gives NaN: its maximum is −∞, and −∞ − (−∞) is not a number.",
                {"torch.finfo(wide).min": "-math.inf"},
            ),
            "maximum_of_no_keys": (
                "Where there are no keys at all, you ask for the maximum of an empty tile, and torch has none.",
                {"yield rows, _": "yield rows, _ or [slice(0, 0)]"},
            ),
            # --- dtypes
            "not_widened": (
                "Halves are computed in half precision. Dot products overflow in float16 beyond 65504, and scores near 70 are rounded to half a unit in bfloat16: "
                "widen each tile to float32.",
                {"_forward(): wide = ...": "wide = query.dtype", "_backward(): wide = ...": "wide = query.dtype"},
            ),
            "log_sum_in_halves": (
                "Your output is right, but you keep L in half precision. Near 70 a bfloat16 has neighbors half a unit away, and all weights of the query are off "
                "by the exponential of that in the backward pass. One number a query can be float32.",
                {"_forward(): dtype=wide": ""},
            ),
            "result_in_float32": (
                "Your output is float32 where the inputs are halves. Sum in float32, and give back the dtype that came in.",
                {"value.new_empty(*query.shape[:-1], _)": "value.new_empty(*query.shape[:-1], _, dtype=wide)"},
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
                {"value.new_empty(*query.shape[:-1], value.size(-1))": "torch.empty(*query.shape[:-1], value.size(-1), dtype=value.dtype)"},
            ),
            "gradients_made_on_the_cpu": (
                "You sum the gradients in tensors on the CPU. Make them where the inputs are, as `torch.zeros_like` does.",
                {"torch.zeros_like(one, dtype=wide)": "torch.zeros(one.shape, dtype=wide)"},
            ),
        },
    ),
]
