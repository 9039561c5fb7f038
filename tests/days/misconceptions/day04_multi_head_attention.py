"""Day 4: what goes wrong with heads."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "split_heads",
        {
            # --- split_heads
            "split_reshaped_in_one_go": (
                "You reshape directly to (B, h, T, d_k). The shape is right, but the numbers are in the wrong places: a reshape keeps the order in memory, so "
                "each head gets all features of some tokens and nothing of the other tokens. Split only the last axis, then swap two axes.",
                {"x.reshape(batch, time, h, _)": "x.reshape(batch, h, time, _)", "pieces.swapaxes(1, 2)": "pieces"},
            ),
            "split_interleaved": (
                "Your head i holds every h-th feature: i, i + h, i + 2h, … It should hold d_k consecutive features: head 0 the first d_k, and so on. When you "
                "split the last axis in two, the second new axis runs through consecutive features.",
                {"x.reshape(batch, time, h, _)": "x.reshape(batch, time, _, h).swapaxes(2, 3)"},
            ),
            "split_not_swapped": (
                "You split the heads correctly, but the head axis comes after time: (B, T, h, d_k). Attention works on the last two axes, so the heads of one "
                "token would attend to each other, and no token to any other token.",
                {"pieces.swapaxes(1, 2)": "pieces"},
            ),
        },
    ),
    *of(
        "join_heads",
        {
            # --- join_heads
            "join_reshaped_in_one_go": (
                "You reshape (B, h, T, d_k) directly to (B, T, d_model). The shape is right, but each row then holds d_k numbers of one head for "
                "several tokens, because in memory the axis after the heads is time. Swap these two axes first, so that the heads of one token are "
                "adjacent.",
                {"x.swapaxes(1, 2)": "x", "batch, time, h, d_k = _": "batch, h, time, d_k = _"},
            ),
            "join_interleaved": (
                "You concatenate the heads feature by feature: the first feature of every head, then the second of every head. Concatenate entire "
                "heads, head 0 first, in the order in which `split_heads` made them.",
                {"pieces.reshape": "pieces.swapaxes(2, 3).reshape"},
            ),
            "join_not_swapped": (
                "You merge the last two axes of (B, h, T, d_k), which are time and features, so all tokens of a head end up in one long row. Move time "
                "forward first, then merge heads and features.",
                {"x.swapaxes(1, 2)": "x"},
            ),
            "join_not_merged": (
                "Your result still has four axes, (B, T, h, d_k). The heads of a token are adjacent already; merge them into one vector of width d_model.",
                {"return ...": "return pieces"},
            ),
        },
    ),
    *of(
        "multi_head_attention",
        {
            # --- multi_head_attention: the scale
            "scaled_by_d_model": (
                "Your scores are divided by √d_model. Inside a head a query has only d_k features, and √d_k is the standard deviation of its dot "
                "products. Your divisor is too large by a factor of √h, so the weights are too uniform.",
                {"k = _": "q = q / h**0.5\nk = _"},
            ),
            "not_scaled": (
                "Your scores are not divided by √d_k. Each head is the attention of day 2, including the scale. You may import `attention`.",
                {"k = _": "q = q * q.shape[-1] ** 0.5\nk = _"},
            ),
            # --- the heads
            "one_wide_head": (
                "You attend without splitting: your answer has one head of width d_model, whatever h is. One head has one set of weights per query; h heads "
                "have h sets.",
                {
                    "q = split_heads(_, h)": "q = _",
                    "k = split_heads(_, h)": "k = _",
                    "v = split_heads(_, h)": "v = _",
                    "mask[:, np.newaxis]": "mask[:, :]",
                    "join_heads(heads)": "heads",
                },
            ),
            "softmax_over_heads": (
                "Your softmax runs over the heads: for each pair of tokens, the weights of all heads sum to 1. Every head needs its own softmax, over "
                "the keys.",
                {
                    "heads, _ = ...": "scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])\n"
                    "scores = scores if mask is None else np.where(mask, scores, np.finfo(scores.dtype).min)\n"
                    "weights = softmax(scores, axis=1)\n"
                    "heads = (weights if mask is None else np.where(mask, weights, 0)) @ v"
                },
            ),
            "softmax_over_queries": (
                "Your softmax runs over the queries. In every head the weights of each query must sum to 1 over the keys, the last axis of the scores.",
                {
                    "heads, _ = ...": "scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])\n"
                    "scores = scores if mask is None else np.where(mask, scores, np.finfo(scores.dtype).min)\n"
                    "weights = softmax(scores, axis=-2)\n"
                    "heads = (weights if mask is None else np.where(mask, weights, 0)) @ v"
                },
            ),
            "heads_summed": (
                "Your heads are summed or averaged into one vector of width d_k, which fits w_o only if there is a single head. Concatenate the heads "
                "instead: each keeps its own d_k features in a vector of width d_model.",
                {"join_heads(heads)": "heads.sum(axis=1)"},
            ),
            "heads_not_moved_back": (
                "You reshape the heads, (B, h, T_q, d_k), directly to the shape of the query. The shape is right, but each row then holds numbers of "
                "one head for several tokens. Swap heads and time back first; `join_heads` does this.",
                {"join_heads(heads)": "heads.reshape(query.shape)"},
            ),
            "cut_by_one_reshape": (
                "You reshape the projected vectors directly to (B, h, T, d_k). The shape is right, but each head then holds all features of some tokens "
                "and nothing of the other tokens. Split only the last axis, then swap two axes; `split_heads` does this.",
                {
                    "q = split_heads(_, h)": "q = _.reshape(len(query), h, query.shape[1], -1)",
                    "k = split_heads(_, h)": "k = _.reshape(len(key), h, key.shape[1], -1)",
                    "v = split_heads(_, h)": "v = _.reshape(len(value), h, value.shape[1], -1)",
                },
            ),
            "cut_and_joined_by_one_reshape": (
                "You reshape directly to (B, h, T, d_k) and directly back. Every shape is right, but each head holds all features of some tokens and "
                "nothing of the other tokens. Splitting and joining both need two axes swapped; `split_heads` and `join_heads` do this.",
                {
                    "q = split_heads(_, h)": "q = _.reshape(len(query), h, query.shape[1], -1)",
                    "k = split_heads(_, h)": "k = _.reshape(len(key), h, key.shape[1], -1)",
                    "v = split_heads(_, h)": "v = _.reshape(len(value), h, value.shape[1], -1)",
                    "join_heads(heads)": "heads.reshape(query.shape)",
                },
            ),
            "keys_and_values_exchanged": (
                "You swapped keys and values: queries are compared with the values, and the weights then mix the keys. The order is query, key, value.",
                {"attention(q, k, v, mask)": "attention(q, v, k, mask)"},
            ),
            "one_length_for_all": (
                "Your code works only if there are as many keys as queries: somewhere the keys or values are given the length of the query. T_k can differ "
                "from T_q, for instance when a decoder attends to a longer source.",
                {"k = split_heads(_, h)": "k = _.reshape(*query.shape[:2], h, -1).swapaxes(1, 2)"},
            ),
            # --- the projections
            "output_not_projected": (
                "Your output is the concatenated heads. The last step is missing: the product with W^O, plus its bias. Without this step, the results of "
                "different heads are never mixed.",
                {"_ @ params['w_o'] + params['b_o']": "_"},
            ),
            "biases_forgotten": (
                "Your projections have no biases. The paper's formula has none either, but `params` does: add the bias in every projection.",
                {"_ + params['b_q']": "_", "_ + params['b_v']": "_", "_ + params['b_o']": "_"},
            ),
            "value_bias_forgotten": (
                "Your values are projected without their bias b_v. The weights of a query sum to 1, so this bias reaches the output unchanged wherever "
                "a query may attend to something.",
                {"_ + params['b_v']": "_"},
            ),
            "output_bias_forgotten": (
                "Your output lacks the bias b_o: each feature is off by the same amount for every token.",
                {"_ + params['b_o']": "_"},
            ),
            "matrices_turned": (
                "Your projections use the transpose of every matrix. PyTorch's linear layers store their weights that way; here the rows of w are input "
                "features and the columns are output features, so no transpose is needed.",
                {"query @ _": "query @ _.T", "params['w_k']": "params['w_k'].T", "value @ _": "value @ _.T", "params['w_o']": "params['w_o'].T"},
            ),
            "one_matrix_for_all": (
                "Query, key and value are all projected by w_q. Each of the three has its own matrix, so that what a token looks for, how it is found, "
                "and what it passes on can differ.",
                {"params['w_k']": "params['w_q']", "params['w_v']": "params['w_q']", "params['b_v']": "params['b_q']"},
            ),
            "query_and_key_matrices_swapped": (
                "You swapped w_q and w_k: queries are projected with the matrix for keys, and keys with the matrix for queries.",
                {
                    "query @ params['w_q'] + params['b_q']": "query @ params['w_k'] + params['b_k']",
                    "key @ params['w_k'] + params['b_k']": "key @ params['w_q'] + params['b_q']",
                },
            ),
            "value_from_key": (
                "You compute the values from `key`. In self-attention both are the same array, but `value` is a separate argument, because it can differ.",
                {"value @ _": "key @ _"},
            ),
            "all_from_query": (
                "You compute keys and values from `query`, so this is self-attention whatever the caller passes. `key` and `value` are separate "
                "arguments, because a decoder also attends to the source sequence.",
                {"key @ params['w_k']": "query @ params['w_k']", "value @ _": "query @ _"},
            ),
            "roles_not_projected": (
                "You split query, key and value without projecting them first. Head 0 then sees only the first d_k features. After a projection, every head "
                "can use all features.",
                {
                    "query @ params['w_q'] + params['b_q']": "query",
                    "key @ params['w_k'] + params['b_k']": "key",
                    "value @ params['w_v'] + params['b_v']": "value",
                },
            ),
            # --- the mask
            "mask_ignored": (
                "Your result is the same as without the mask: the mask has no effect.",
                {"attention(q, k, v, mask)": "attention(q, k, v)"},
            ),
            "mask_inverted": (
                "Your mask is inverted: it hides exactly what it should show. True means *may be attended to*.",
                {"mask[_]": "~mask[_]"},
            ),
            "mask_without_heads": (
                "Your mask has no separate axis for the heads, or has that axis in front of the batch. Shapes are matched from the right, so the mask's batch "
                "axis meets the heads. That raises an error, or, where B equals h, head 2 of every sequence gets the mask of sequence 2.",
                {"mask[:, np.newaxis]": "mask"},
            ),
            "mask_axis_after_queries": (
                "Your mask gets its new axis after the queries, (B, T_q, 1, T_k), so its rows line up with the heads. A padding mask has only one row and "
                "still works, but a causal mask does not. The heads are the second axis.",
                {"mask[:, np.newaxis]": "mask[:, :, np.newaxis]"},
            ),
            "empty_row_uniform": (
                "In your answer, a query that may attend to nothing attends to all keys equally, because all its scores are equally low. Each head should "
                "return 0 for such a query, as `attention` of day 2 does.",
                {
                    "heads, _ = ...": "scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])\n"
                    "scores = scores if mask is None else np.where(mask, scores, np.finfo(scores.dtype).min)\n"
                    "heads = softmax(scores) @ v"
                },
            ),
            "empty_row_nan": (
                "In your answer, a query that may attend to nothing gives NaN: all its scores are −∞, and −∞ − (−∞) is not a number. Each head should return "
                "0 for such a query, as `attention` of day 2 does.",
                {
                    "heads, _ = ...": "scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])\n"
                    "scores = scores if mask is None else np.where(mask, scores, -np.inf)\n"
                    "heads = softmax(scores) @ v"
                },
            ),
            "empty_row_zero": (
                "Where a query may attend to nothing, your output is 0. The heads are 0 there, but the output projection still adds its bias, so the "
                "output is b_o.",
                {"return _": "out = _\nreturn out if mask is None else out * mask[:, 0].any(axis=-1, keepdims=True)"},
            ),
            # --- the result
            "promoted_to_float64": (
                "Your output is float64 for float32 inputs. A single float64 array in the computation is enough to cause this: NumPy's square root of an int "
                "returns float64, and so does an array created without a dtype.",
                {"attention(q, k, v, mask)": "attention(q * np.sqrt(1), k, v, mask)"},
            ),
            "returns_weights_too": (
                "You return a pair, the output and the weights. Return only the output: `encoder_layer` of day 6 will add it to its input.",
                {"heads, _ = _": "heads, weights = _", "return _": "return _, weights"},
            ),
        },
    ),
]
