"""Day 7: what goes wrong with the gradients of softmax and attention.

An answer may contain the softmax's derivative a second time, inside attention_backward, so its most common
mistakes are listed twice; those of softmax_backward come first.
"""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "softmax_backward",
        {
            # --- softmax_backward
            "elementwise_derivative": (
                "Your derivative of the softmax is w · (1 − w), entry by entry, as for a sigmoid. That is only the diagonal of the Jacobian. Raising one "
                "score also lowers all other weights of its row, because they sum to 1.",
                {"weights * (_ - mean)": "weights * (1 - weights) * _"},
            ),
            "mean_forgotten": (
                "Your gradient of the scores is w · ∂L/∂w, with nothing subtracted. A weight can grow only if other weights in its row shrink, so subtract "
                "the row's weighted mean first. Each row of the result then sums to 0.",
                {"_ - mean": "_"},
            ),
            "mean_not_weighted": (
                "You subtract the plain mean of ∂L/∂w. Use the mean weighted by the attention weights.",
                {"(weights * _).sum": "_.mean"},
            ),
            "sum_over_queries": (
                "Your sum runs over the queries, the second-to-last axis. Each row of weights comes from its own softmax, so sum along the row, over the keys.",
                {"axis=-1": "axis=-2"},
            ),
            "sum_lost_its_axis": (
                "Your sum removed the axis along which it ran, so it broadcasts along a different axis. With equal numbers of rows and columns the result is "
                "wrong; otherwise NumPy raises an error. Keep this axis, with length 1.",
                {"keepdims=True": ""},
            ),
            "dot_product_of_one_row": (
                "Your weighted mean is a matrix product with `@`, which is a dot product only for a single row. With several rows it combines every row with "
                "every other row, or the shapes do not match. Each row of weights goes only with the gradient of the same row.",
                {"mean = ...": "mean = weights @ grad_weights"},
            ),
            "handed_through": (
                "Your function returns the gradient unchanged. The softmax has its own derivative, and you need the weights to compute it.",
                {"weights * (_ - mean)": "_"},
            ),
            "sign_of_the_gradient": (
                "Your gradient of the scores has the wrong sign: subtract the mean from ∂L/∂w, not ∂L/∂w from the mean. With the wrong sign, gradient descent "
                "increases the loss.",
                {"_ - mean": "mean - _"},
            ),
            "weights_only_in_the_mean": (
                "You subtract the weighted mean and stop. Multiply the difference by the weights: a score whose weight is 0 has no effect, so its "
                "gradient is 0.",
                {"2: weights * _": "_"},
            ),
            "diagonal_missing": (
                "Your gradient contains only the effect of a score on the *other* weights, −wᵢ wⱼ. Its effect on its own weight, wᵢ (1 − wᵢ), is missing.",
                {"_ - mean": "weights * _ - mean"},
            ),
            "gradient_of_log_softmax": (
                "You return the gradient of the *log*-softmax: ∂L/∂s = g − w Σ g, where g is the gradient at the log-weights. Here the gradient arrives at "
                "the weights themselves.",
                {"weights * (_ - mean)": "_ - weights * _.sum(axis=-1, keepdims=True)"},
            ),
            "softmax_taken_again": (
                "You apply the softmax to `weights` first. `weights` is already the softmax's output, and the derivative needs nothing else.",
                {"mean = _": "weights = softmax(weights)\nmean = _"},
            ),
            "jacobian_of_one_row": (
                "Your Jacobian, from `np.diag` and `np.outer`, is that of a single row. Given a matrix, `np.diag` returns its diagonal, and `np.outer` "
                "flattens it. With several rows, each row needs its own Jacobian.",
                {"mean = ...": "jacobian = np.diag(weights) - np.outer(weights, weights)", "weights * (_ - mean)": "jacobian @ _"},
            ),
            "input_overwritten": (
                "Your numbers are right, but you computed them inside `grad_weights`, which the caller may still need. In-place operators overwrite the "
                "array that was passed in.",
                {"mean = _": "grad_weights -= _\ngrad_weights *= weights", "weights * (_ - mean)": "_"},
            ),
            "promoted_to_float64": (
                "Your gradient is float64 for float32 inputs, because an intermediate array is float64. `np.eye` and `np.zeros` create float64 arrays "
                "unless you pass a dtype.",
                {"mean = _": "mean = _ * np.eye(1)[0]"},
            ),
        },
    ),
    *of(
        "attention_backward",
        {
            # --- attention_backward
            "softmax_skipped": (
                "You use the gradient of the weights as the gradient of the scores. The softmax is between scores and weights: apply `softmax_backward`.",
                {"softmax_backward(_, weights)": "_"},
            ),
            "mean_forgotten_in_attention": (
                "Your gradient of the scores is w · ∂L/∂w, which is only half of the softmax's derivative. The row's weighted mean must be subtracted first. "
                "`softmax_backward` does both.",
                {"softmax_backward(_, weights)": "weights * _"},
            ),
            "root_of_numpy": (
                "Your gradients of query and key are float64 for float32 inputs. `np.sqrt` of an int is a NumPy float64, which promotes every array to "
                "float64. `math.sqrt` returns a plain Python float, which does not.",
                {"math.sqrt": "np.sqrt"},
            ),
            "arguments_exchanged": (
                "You pass the weights and their gradient to `softmax_backward` in the wrong order: the gradient comes first.",
                {"softmax_backward(_, weights)": "softmax_backward(weights, _)"},
            ),
            "weights_computed_again": (
                "You compute the weights again from query and key. Use the weights that are passed in: if the forward pass had a mask, query and key alone "
                "give different weights.",
                {"grad_value = _": "weights = softmax(query @ np.swapaxes(key, -2, -1) / np.sqrt(query.dtype.type(query.shape[-1])))\ngrad_value = _"},
            ),
            "scale_forgotten": (
                "The factor 1/√d_k is missing from your gradients of query and key. The forward pass divides the scores by √d_k, so the backward pass must "
                "divide their gradient by √d_k.",
                {"query.shape[-1]": "1"},
            ),
            "scale_forgotten_in_grad_key": (
                "The factor 1/√d_k is missing from your gradient of the key. The gradients of query and key both need it.",
                {"_ @ query": "_ @ query * math.sqrt(key.shape[-1])"},
            ),
            "scaled_twice": (
                "Your gradients of query and key are divided by √d_k twice. The forward pass divides once, so the backward pass divides once.",
                {"math.sqrt": "float"},
            ),
            "scaled_up": (
                "You multiply the gradient of the scores by √d_k. The forward pass *divides* by √d_k, so the backward pass divides, too.",
                {"grad_scores / _": "grad_scores * _"},
            ),
            "scaled_by_value_width": (
                "You divide the gradients by √d_v, where d_v is the width of the values. Use d_k, the width of queries and keys, which can differ from d_v.",
                {"query.shape": "value.shape"},
            ),
            "grad_value_scaled": (
                "Your gradient of the value has an extra factor 1/√d_k. The value is used after the softmax, but the scale applies before the softmax.",
                {"grad_value = _": "grad_value = _ / math.sqrt(key.shape[-1])"},
            ),
            "weights_not_transposed": (
                "In your gradient of the value the weights are not transposed. The gradient of a value sums over all queries. (The shapes fit only "
                "because T_q = T_k.)",
                {"np.swapaxes(weights, -2, -1)": "weights"},
            ),
            "value_not_transposed": (
                "In your gradient of the weights the value is not transposed. Each entry is the dot product of a query's output gradient and a key's "
                "value. (The shapes fit only because T_k = d_v.)",
                {"np.swapaxes(value, -2, -1)": "value"},
            ),
            "scores_not_transposed": (
                "In your gradient of the key the gradient of the scores is not transposed. The gradient of a key sums over all queries. (The shapes fit "
                "only because T_q = T_k.)",
                {"np.swapaxes(grad_scores, -2, -1)": "grad_scores"},
            ),
            "key_transposed_once_more": (
                "In your gradient of the query you transpose the key. The forward pass transposes it once, and the backward pass transposes it back, so "
                "use the key itself.",
                {"grad_scores @ key": "grad_scores @ np.swapaxes(key, -2, -1)"},
            ),
            "gradient_of_the_transposed_key": (
                "Your gradient of the key has the shape `(d_k, T_k)`: it is the gradient of keyᵀ. A gradient has the shape of its array, so transpose it.",
                {"grad_key = ...": "grad_key = np.swapaxes(query, -2, -1) @ grad_scores"},
            ),
            "all_axes_transposed": (
                "Your transpose also moves the batch axis, so it is right only without a batch. Exchange only the last two axes.",
                {"np.swapaxes(weights, -2, -1)": "weights.T", "np.swapaxes(value, -2, -1)": "value.T", "np.swapaxes(grad_scores, -2, -1)": "grad_scores.T"},
            ),
            "factors_not_exchanged": (
                "You compute the gradient of the query from the query, and that of the key from the key. In a product, each factor's gradient contains the "
                "*other* factor.",
                {"_ @ query": "_ @ key", "grad_scores @ key": "grad_scores @ query"},
            ),
            "query_and_key_exchanged": (
                "You return the gradients of query and key in the wrong order. The order is (grad_query, grad_key, grad_value).",
                {"return ...": "return grad_key, grad_query, grad_value"},
            ),
            "order_reversed": (
                "You return the gradients in the order in which you computed them. The order is that of attention's arguments: (grad_query, grad_key, "
                "grad_value).",
                {"return ...": "return grad_value, grad_key, grad_query"},
            ),
        },
    ),
]
