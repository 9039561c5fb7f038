"""Day 2: what goes wrong with attention."""

from course.judging.misconceptions import of

MISCONCEPTIONS = of(
    "attention",
    {
        "not_scaled": (
            "Your weights are exactly those you get when the scores are not divided by √d_k. The dot product of two vectors of d_k random numbers with "
            "variance 1 has a standard deviation of √d_k. Without the division, the softmax saturates as d_k grows.",
            {"_ / math.sqrt(query.shape[-1])": "_"},
        ),
        "scaled_by_d_k": (
            "Your scores are divided by d_k itself. Eq. 1 divides by its square root, the standard deviation of a dot product of d_k terms. Dividing by more "
            "makes the weights too uniform.",
            {"math.sqrt(_)": "_"},
        ),
        "scaled_by_time": (
            "Your scores are divided by the square root of the number of keys. The scale belongs to the width of the vectors, the last axis of the query, not "
            "to the length of the sequence.",
            {"query.shape[-1]": "key.shape[-2]"},
        ),
        "scaled_by_query_length": (
            "Your scores are divided by the square root of the number of queries, `shape[-2]`. The scale belongs to the width of the vectors, the last axis "
            "of the query, not to the length of the sequence.",
            {"query.shape[-1]": "query.shape[-2]"},
        ),
        "scaled_by_axis_one": (
            "Your scores are divided by the square root of `shape[1]`. That is d_k for a single sequence, but it is the length or the batch size as soon as "
            "there are leading axes. The width of a vector is the last axis: count from the end.",
            {"query.shape[-1]": "query.shape[1]"},
        ),
        "scaled_up": (
            "Your scores are multiplied by √d_k instead of divided by √d_k. That makes the softmax put nearly all weight on one key.",
            {"_ / math.sqrt(query.shape[-1])": "_ * math.sqrt(query.shape[-1])"},
        ),
        "softmax_over_queries": (
            "Your softmax runs over the queries: the columns of the weights sum to 1. The weights of each query, a row, must sum to 1 over the keys.",
            {"axis=-1": "axis=-2"},
        ),
        "softmax_over_everything": (
            "Your softmax divides by the sum over all queries and keys together. Each query needs its own sum.",
            {
                "3: weights = ...": "weights = np.exp(scores - scores.max(axis=(-2, -1), keepdims=True))\n"
                "weights = weights / weights.sum(axis=(-2, -1), keepdims=True)"
            },
        ),
        "overflows": (
            "Your attention overflows for large scores: you take exponentials without subtracting each row's largest score first. The `softmax` of day 1 does "
            "that, and you may import it.",
            {"softmax(scores, axis=-1)": "np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)"},
        ),
        "no_mask_hides_everything": (
            "Without a mask your weights are all equal: the scores go through `np.where` even when `mask` is None, and NumPy treats None as False, "
            "so every score is replaced. Without a mask nothing is hidden; handle this case separately.",
            {"2: mask is not None": "True"},
        ),
        "mask_ignored": (
            "Your result is the same as without the mask: the mask has no effect.",
            {"2: scores = ...": "scores = scores", "np.where(mask, weights, 0)": "weights"},
        ),
        "mask_inverted": (
            "Your mask is inverted: it hides exactly what it should show. True means *may be attended to*.",
            {"np.where(mask, scores, _)": "np.where(~mask, scores, _)", "np.where(mask, weights, 0)": "np.where(~mask, weights, 0)"},
        ),
        "mask_inverted_once": (
            "You hide the scores where the mask is True, but True means *may be attended to*: the visible keys get the lowest score, and all weight goes to "
            "the forbidden keys. When their weights are then set to 0, nothing is left.",
            {"np.where(mask, scores, _)": "np.where(mask, _, scores)"},
        ),
        "masked_by_index": (
            "You write to the scores at an index, `scores[~mask] = …`. Such an index must have the shape of the scores, but a mask can have fewer axes, or "
            "axes of length 1. `np.where` broadcasts the mask.",
            {"2: scores = ...": "scores[~mask] = -np.inf"},
        ),
        "mask_asked_for_its_truth": (
            "You use an array as a truth value (`if mask:`), which is undefined for several entries. Check whether the mask is None.",
            {"2: mask is not None": "mask"},
        ),
        "mask_after_softmax": (
            "Your mask sets weights to 0 after the softmax, so the remaining weights no longer sum to 1: the hidden keys took part in the softmax. Hide the "
            "scores before the softmax.",
            {"2: scores = ...": "scores = scores"},
        ),
        "renormalized": (
            "You set hidden weights to 0 after the softmax and divide the other weights by their sum. That is right on paper, but where all visible weights "
            "are 0, by underflow or because no key is visible, it computes 0/0. Mask the scores before the softmax.",
            {
                "2: scores = ...": "scores = scores",
                "4: weights = ...": "weights = np.where(mask, weights, 0)\nweights = weights / weights.sum(axis=-1, keepdims=True)",
            },
        ),
        "mask_score_of_zero": (
            "In your answer a forbidden key has the score 0, whether you set it or multiplied by the mask. A score of 0 still gets a weight, because exp(0) "
            "= 1. Only a score far below all others gets the weight 0.",
            {"np.finfo(scores.dtype).min": "0", "np.where(mask, weights, 0)": "weights"},
        ),
        "minus_1e4": (
            "You give a forbidden key the score −10,000. Real scores can be lower. If all visible scores are lower, the hidden key wins. And a query that may "
            "attend to nothing attends to all keys equally, although its weights and output should be exactly 0.",
            {"np.finfo(scores.dtype).min": "-1e4", "np.where(mask, weights, 0)": "weights"},
        ),
        "minus_1e9_added_in_float64": (
            "You add an array that contains −1e9 for forbidden scores. NumPy creates it in float64, so float32 scores become float64. And where a query may "
            "attend to nothing, all its scores get the same −1e9, which changes no weight: the hidden keys count as visible. Its weights and output should "
            "be exactly 0.",
            {"2: scores = ...": "scores = scores + np.where(mask, 0, -1e9)", "np.where(mask, weights, 0)": "weights"},
        ),
        "empty_row_uniform": (
            "In your answer, a query that may attend to nothing attends to all keys equally: all its scores are equally low, and a softmax of equal scores is "
            "uniform. Its weights and output should be exactly 0.",
            {"np.where(mask, weights, 0)": "weights"},
        ),
        "empty_row_nan": (
            "In your answer, a query that may attend to nothing gives NaN: all its scores are −∞, and −∞ − (−∞) is not a number. Its weights and output "
            "should be exactly 0.",
            {"np.finfo(scores.dtype).min": "-np.inf", "np.where(mask, weights, 0)": "weights"},
        ),
        "promoted_to_float64": (
            "Your result is float64 for float32 inputs. A single float64 array in the computation is enough to cause this: `np.sqrt` of an int returns "
            "float64, and so do `astype(float)` and arrays created without a dtype.",
            {"math.sqrt": "np.sqrt"},
        ),
        "pair_swapped": (
            "You return (weights, output). The order is (output, weights).",
            {"return _, weights": "return weights, _"},
        ),
        "output_only": (
            "You return only the output. Return the weights as well, as a pair: (output, weights).",
            {"return _, weights": "return _"},
        ),
        "keys_and_values_exchanged": (
            "You swapped keys and values: queries are compared with the values, and the weights then mix the keys. Scores come from the keys; the weights mix "
            "the values.",
            {"np.swapaxes(key, -2, -1)": "np.swapaxes(value, -2, -1)", "weights @ value": "weights @ key"},
        ),
        "all_axes_transposed": (
            "`.T` reverses all axes, including the batch. Swap only the last two axes of the key.",
            {"np.swapaxes(key, -2, -1)": "key.T"},
        ),
        "key_not_transposed": (
            "You multiply queries and keys without transposing the keys, which fits only if T_k equals d_k. A row of scores holds a query's dot "
            "products with all keys, so swap the last two axes of the key.",
            {"np.swapaxes(key, -2, -1)": "key"},
        ),
    },
)
