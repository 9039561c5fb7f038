"""Day 2: what goes wrong with attention."""

from course.misconceptions import Misconception

MISCONCEPTIONS = [
    Misconception(
        "not_scaled",
        "attention",
        "Your weights are exactly those you get when the scores are not divided by √d_k. A dot product of two "
        "vectors of d_k random numbers has a deviation of √d_k: undivided, the softmax saturates as vectors widen.",
        {" / math.sqrt(query.shape[-1])": ""},
    ),
    Misconception(
        "scaled_by_d_k",
        "attention",
        "Your scores are divided by d_k itself. Its square root is meant (eq. 1): that is the deviation of a dot "
        "product of d_k terms, and dividing by more makes all weights alike.",
        {"math.sqrt(query.shape[-1])": "query.shape[-1]"},
    ),
    Misconception(
        "scaled_by_time",
        "attention",
        "Your scores are divided by the square root of the number of keys. The scale belongs to the width of the "
        "vectors, the last axis of the query, not to the length of the sequence.",
        {"query.shape[-1]": "key.shape[-2]"},
    ),
    Misconception(
        "scaled_by_value_width",
        "attention",
        "Your scores are divided by √d_v, the width of the values. Scores are dot products of queries and keys: "
        "it is their width, d_k, that counts, and the two need not be equal.",
        {"query.shape[-1]": "value.shape[-1]"},
    ),
    Misconception(
        "scaled_up",
        "attention",
        "Your scores are multiplied by √d_k instead of divided by it, which makes the softmax pick one key.",
        {"/ math.sqrt": "* math.sqrt"},
    ),
    Misconception(
        "softmax_over_queries",
        "attention",
        "Your softmax runs over the queries: the columns of the weights sum to 1. Each query shares out its own "
        "attention among the keys, so the rows must.",
        {"softmax(scores, axis=-1)": "softmax(scores, axis=-2)"},
    ),
    Misconception(
        "softmax_over_everything",
        "attention",
        "Your softmax divides by the sum over all queries and keys together. Each query has a sum of its own.",
        {
            "softmax(scores, axis=-1)": "np.exp(scores - scores.max(axis=(-2, -1), keepdims=True))\n"
            "    weights = weights / weights.sum(axis=(-2, -1), keepdims=True)"
        },
    ),
    Misconception(
        "overflows",
        "attention",
        "Your attention is right for small scores and overflows for large ones: exponentials were taken without "
        "subtracting each row's largest score first. Day 1's `softmax` does that, and may be imported.",
        {"softmax(scores, axis=-1)": "np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)"},
    ),
    Misconception(
        "mask_ignored",
        "attention",
        "Your result is what attention gives without the mask: the mask was taken, but changes nothing.",
        {
            "np.where(mask, scores, np.finfo(scores.dtype).min)": "scores",
            "np.where(mask, weights, 0)": "weights",
        },
    ),
    Misconception(
        "mask_inverted",
        "attention",
        "Your mask works the wrong way round: it hides exactly what it should show. True means *may be attended to*.",
        {
            "np.where(mask, scores": "np.where(~mask, scores",
            "np.where(mask, weights": "np.where(~mask, weights",
        },
    ),
    Misconception(
        "mask_after_softmax",
        "attention",
        "Your mask sets weights to 0 after the softmax, so what is left no longer sums to 1: the hidden keys took "
        "their share first. Hide the scores before the softmax.",
        {"np.where(mask, scores, np.finfo(scores.dtype).min)": "scores"},
    ),
    Misconception(
        "mask_score_of_zero",
        "attention",
        "Your mask gives a forbidden key the score 0, and a score of 0 still has a weight: exp(0) = 1. Only a score "
        "far below all others gets the weight 0.",
        {"np.finfo(scores.dtype).min": "0", "np.where(mask, weights, 0)": "weights"},
    ),
    Misconception(
        "mask_multiplied",
        "attention",
        "Your scores are multiplied by the mask before the softmax, which makes a forbidden score 0, not impossible: "
        "exp(0) = 1. Where a query may attend to nothing your weights are 0, as they should.",
        {"np.where(mask, scores, np.finfo(scores.dtype).min)": "scores * mask"},
    ),
    Misconception(
        "mask_too_weak",
        "attention",
        "Your mask lowers a forbidden score to a number that is low, but not low enough: with scores of ±10 000 the "
        "hidden keys win. Use the lowest number of the dtype, or −∞ with care for empty rows.",
        {"np.finfo(scores.dtype).min": "-1e3", "np.where(mask, weights, 0)": "weights"},
    ),
    Misconception(
        "empty_row_uniform",
        "attention",
        "A query that may attend to nothing attends to everything equally in your answer: all its scores are equally "
        "low, and a softmax of equal scores is uniform. It should get weights and output of exactly 0.",
        {"np.where(mask, weights, 0)": "weights"},
    ),
    Misconception(
        "empty_row_nan",
        "attention",
        "A query that may attend to nothing gives NaN in your answer: all its scores are −∞, and −∞ − (−∞) is no "
        "number. It should get weights and output of exactly 0.",
        {"np.finfo(scores.dtype).min": "-np.inf", "np.where(mask, weights, 0)": "weights"},
    ),
    Misconception(
        "promoted_to_float64",
        "attention",
        "Your result is float64 for float32 inputs. `np.sqrt(d_k)` of an int is a float64 of NumPy's, and that turns "
        "all it touches into float64; `math.sqrt` gives a plain Python float, which does not.",
        {"math.sqrt": "np.sqrt"},
    ),
    Misconception(
        "pair_swapped",
        "attention",
        "You return (weights, output). The order is (output, weights).",
        {"return weights @ value, weights": "return weights, weights @ value"},
    ),
    Misconception(
        "output_only",
        "attention",
        "You return the output alone. The weights are wanted too, as a pair: (output, weights).",
        {"return weights @ value, weights": "return weights @ value"},
    ),
    Misconception(
        "all_axes_transposed",
        "attention",
        "`.T` reverses all axes, the batch too. Only the last two are to be swapped: `np.swapaxes(key, -2, -1)`.",
        {"np.swapaxes(key, -2, -1)": "key.T"},
    ),
    Misconception(
        "key_not_transposed",
        "attention",
        "Queries are multiplied with keys as they are, which fits only where T_k equals d_k. A row of scores holds a "
        "query's dot products with all keys: the last two axes of the key have to change places.",
        {"np.swapaxes(key, -2, -1)": "key"},
    ),
]
