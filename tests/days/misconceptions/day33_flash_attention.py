"""Day 33: what goes wrong with tiles: the running softmax, borders, gradients, memory, dtypes."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "flash_attention",
        {
            "padded_with_zeros": (
                "You pad the last block of keys with zeros and do not mask them. Their score is 0, and exp(0) is 1, so they get weight. Set their scores to "
                "−∞, or make the last tile smaller.",
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
                "Your backward pass assumes that values are as wide as keys. dV has the width of V, d_v.",
                {"grad_query, grad_key, grad_value = _": "grad_query, grad_key, grad_value = _\ngrad_value = torch.zeros_like(key, dtype=wide)"},
            ),
            "causal_only_if_square": (
                "You hide later keys only if there are as many keys as queries. With more keys than queries, the last query is at the position of the last "
                "key.",
                {"offset = ...": "offset = 0 if causal and query.size(-2) == key.size(-2) else None"},
            ),
            # --- memory: right numbers, and too many of them
            "recorded_by_autograd": (
                "Your tiles are right, but all of them are stored for the backward pass, by autograd or by you. Together they are the matrix that you wanted "
                "to avoid. Store only the inputs, the output and one number per query, hide the tiles from autograd, and compute them again in the backward "
                "pass.",
                {"higher = _": "higher = _.detach()", "_FlashAttention.apply(*flat, block, offset)": "_forward(*flat, block, offset)[0]"},
            ),
            "the_whole_matrix": (
                "Your output is right, but you compute it from a matrix of T_q × T_k weights, as on day 8. Here each tile of scores is computed, used, and "
                "discarded before the next tile.",
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
                "You compute the scores in tiles, but create the mask for all queries and keys at once, T_q × T_k. Create only the part that a tile needs, "
                "from the positions of its rows and columns. Most tiles need no mask.",
                {
                    "later = ...": "later = torch.ones(rows.stop, columns.stop, dtype=torch.bool, device=scores.device).triu(offset + 1)",
                    "later.triu(...)": "later[rows, columns]",
                },
            ),
            # --- the running softmax
            "total_not_scaled_down": (
                "When a higher score appears, you scale the accumulator down, but not the normalizer. Both were summed with the old maximum.",
                {"rescale * normalizer": "normalizer"},
            ),
            "mixture_not_scaled_down": (
                "When a higher score appears, you scale the normalizer down, but not the accumulator. Both were summed with the old maximum.",
                {"rescale * accumulator": "accumulator"},
            ),
            "tile_maximum_only": (
                "You use the maximum of the newest tile, even if an earlier tile had a higher score. The sums so far are then scaled *up* by the exponential "
                "of the difference, which can overflow. Use the maximum of all keys so far.",
                {"torch.maximum(maximum, _)": "_"},
            ),
            "no_maximum": (
                "You take the exponential of the scores without subtracting a maximum. In float32, the exponential of a score above 89 is infinite, and that "
                "of a score below −104 is 0. Subtract the highest score so far.",
                {"higher = ...": "higher = torch.zeros_like(maximum)"},
            ),
            "maximum_begins_at_0": (
                "Your running maximum starts at 0. Where all scores are far below 0, every exponential is 0, and so is the normalizer. Start at the lowest "
                "finite number.",
                {"torch.finfo(wide).min": "0.0"},
            ),
            "divided_in_each_tile": (
                "You divide the accumulator by the normalizer after every tile, but continue to add to it as if you had not divided. Divide once, after the "
                "last tile.",
                {"rescale * accumulator + _": "(rescale * accumulator + _) / normalizer.clamp(min=1)"},
            ),
            # --- scores
            "not_scaled": (
                "Your scores are not divided by √d_k.",
                {"_forward(): scale = ...": "scale = 1.0", "_backward(): scale = ...": "scale = 1.0"},
            ),
            # --- borders
            "rest_left_out": (
                "You skip the remainder when the block size does not divide a length: the last few keys have no effect, and the last queries get no result. "
                "Make the last tile smaller.",
                {
                    "range(0, t_q, block)": "range(0, t_q - block + 1, block)",
                    "range(0, seen, block)": "range(0, seen - block + 1, block)",
                    "value.new_empty": "value.new_zeros",
                    "query.new_empty": "query.new_zeros",
                },
            ),
            "causal_ignored": (
                "You accept `causal`, but it hides nothing.",
                {"offset = ...": "offset = None"},
            ),
            "aligned_to_the_first_key": (
                "Your first query is at the position of the first key. If there are more keys than queries, the queries are the last positions: query i may "
                "attend to keys up to T_k − T_q + i.",
                {"offset = ...": "offset = 0 if causal else None"},
            ),
            "oneself_hidden": (
                "A query does not attend to the key at its own position. It must be allowed to, because this key is not later than the query.",
                {"_ > last": "_ >= last", "last - columns.start + 1": "last - columns.start"},
            ),
            "next_key_visible": (
                "Each query attends to one later key. Your causal limit is one place too far to the right.",
                {"last - columns.start + 1": "last - columns.start + 2", "rows.stop": "rows.stop + 1"},
            ),
            # --- gradients
            "no_gradient": (
                "Your output is right, but no gradient reaches the inputs: autograd did not record the computation, and you define no backward pass for it.",
                {"_FlashAttention.apply(*flat, block, offset)": "_forward(*flat, block, offset)[0].detach()"},
            ),
            "mean_not_subtracted": (
                "For the gradient of the scores, you only multiply by the weights. The softmax couples its weights: first subtract from each entry of dO Vᵀ "
                "the mean D of its query.",
                {"grad_weights - delta": "grad_weights"},
            ),
            "maximum_not_in_log_sum": (
                "The number that you store for each query is log ℓ, without the maximum m that was subtracted when ℓ was summed. It should be L = m + log ℓ.",
                {"maximum + normalizer.log()": "normalizer.log()"},
            ),
            "query_gradient_not_scaled": (
                "The gradient of the query lacks the factor 1/√d_k.",
                {"alpha=scale": ""},
            ),
            "key_gradient_overwritten": (
                "Your gradients of keys and values are those of the last block of queries. Every block must add its part.",
                {
                    "grad_value[:, columns].baddbmm_(weights.mT, grad)": "grad_value[:, columns] = weights.mT @ grad",
                    "grad_key[:, columns].baddbmm_(_, q)": "grad_key[:, columns] = _ @ q",
                },
            ),
            "backward_not_causal": (
                "Your forward pass hides later keys, but your backward pass does not, so weights that were 0 are no longer 0.",
                {"8: _scores(q, k, rows, columns, offset)": "q @ k.mT", "8: scores - _": "(scores - _).clamp(max=80)"},
            ),
            "kept_outside": (
                "You store L in a place that the next call overwrites. With two layers, both forward passes run before the first backward pass, so each call "
                "must store its own L.",
                {
                    "6: return _": "flash_attention.kept = logsumexp\nreturn _",
                    "grad_query, grad_key, grad_value = _": "logsumexp = flash_attention.kept\ngrad_query, grad_key, grad_value = _",
                },
            ),
            # --- what goes in and out
            "log_sum_returned": (
                "You return L together with the output. Return only the output; L is for your backward pass.",
                {"11: return _": "return _, output"},
            ),
            "four_axes_expected": (
                "Your answer works only for shape (B, h, T, d). There can be any number of leading axes, or none.",
                {"flat = ...": "_, _, t_q, _ = query.shape\nflat = (one.unsqueeze(0).flatten(0, -3) for one in (query, key, value))"},
            ),
            "joined_by_view": (
                "You merge the batch dimensions with `view`. Heads come from a transposition and are not contiguous, so `view` raises an error. `reshape` and "
                "`flatten` copy where necessary.",
                {"one.unsqueeze(0).flatten(0, -3)": "one.view(math.prod(query.shape[:-2]), *one.shape[-2:])"},
            ),
            # --- queries without keys
            "nan_without_keys": (
                "A query that may attend to nothing gives NaN: its maximum is −∞, and −∞ − (−∞) is not a number.",
                {"torch.finfo(wide).min": "-math.inf"},
            ),
            "maximum_of_no_keys": (
                "If there are no keys at all, you take the maximum of an empty tile, for which PyTorch raises an error.",
                {"yield rows, _": "yield rows, _ or [slice(0, 0)]"},
            ),
            # --- dtypes
            "not_widened": (
                "You compute in half precision. In float16, dot products beyond 65504 overflow; in bfloat16, scores near 70 are rounded to half a unit. "
                "Upcast each tile to float32.",
                {"_forward(): wide = ...": "wide = query.dtype", "_backward(): wide = ...": "wide = query.dtype"},
            ),
            "log_sum_in_halves": (
                "Your output is right, but you store L in half precision. In bfloat16, neighboring numbers near 70 are half a unit apart, and in the backward "
                "pass all weights of the query are off by the exponential of this error. Store this one number per query in float32.",
                {"_forward(): dtype=wide": ""},
            ),
            "result_in_float32": (
                "Your output is float32 for inputs in half precision. Accumulate in float32, but return the dtype of the inputs.",
                {"value.new_empty(*query.shape[:-1], _)": "value.new_empty(*query.shape[:-1], _, dtype=wide)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "flash_attention",
        {
            "mask_made_on_the_cpu": (
                "You create the causal mask of a tile on the CPU, but its scores can be on a GPU. `torch.ones` takes `device=scores.device`.",
                {"device=scores.device": ""},
            ),
            "maximum_made_on_the_cpu": (
                "Your running maximum starts on the CPU, but is compared with scores that can be on a GPU. `q.new_full` creates it on the device of `q`.",
                {"q.new_full(_, torch.finfo(wide).min)": "torch.full(_, torch.finfo(wide).min, dtype=wide)"},
            ),
            "output_made_on_the_cpu": (
                "You collect the output in a tensor on the CPU. Writing to it copies silently and raises no error, but your result is on the CPU, and each "
                "tile waits for the copy. `value.new_empty` creates the tensor on the device of `value`.",
                {"value.new_empty(*query.shape[:-1], value.size(-1))": "torch.empty(*query.shape[:-1], value.size(-1), dtype=value.dtype)"},
            ),
            "gradients_made_on_the_cpu": (
                "You accumulate the gradients in tensors on the CPU. Create them on the device of the inputs, for instance with `torch.zeros_like`.",
                {"torch.zeros_like(one, dtype=wide)": "torch.zeros(one.shape, dtype=wide)"},
            ),
        },
    ),
]
