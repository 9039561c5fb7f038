"""Day 7: what goes wrong with the gradients of softmax and attention.

Someone may write the softmax's derivative a second time inside attention_backward, so its commonest
mistakes stand here twice; those of the softmax itself come first.
"""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "softmax_backward",
        {
            # --- softmax_backward
            "elementwise_derivative": (
                "Your derivative of the softmax is w · (1 − w), entry by entry, as a sigmoid has it. That is only the diagonal of the Jacobian: raising one score "
                "also lowers all the other weights of its row, because they sum to 1.",
                {"weights * (_ - mean)": "weights * (1 - weights) * _"},
            ),
            "mean_forgotten": (
                "Your gradient of the scores is w · ∂L/∂w, with nothing subtracted. A weight can only gain what the others of its row lose, so the row's weighted "
                "mean has to be taken off first; then the row sums to 0.",
                {"_ - mean": "_"},
            ),
            "mean_not_weighted": (
                "You subtract the plain mean of ∂L/∂w. It is the mean weighted by the weights: a key that has hardly any weight hardly counts.",
                {"(weights * _).sum": "_.mean"},
            ),
            "plain_sum_subtracted": (
                "You subtract the plain sum of ∂L/∂w. Each term of that sum must be multiplied by its weight, which makes it a weighted mean.",
                {"1: weights * _": "_"},
            ),
            "weighted_sum_divided_again": (
                "You take the mean of w · ∂L/∂w, which divides by the number of keys. The weights sum to 1 already, so their weighted *sum* is the weighted mean.",
                {"_.sum": "_.mean"},
            ),
            "sum_over_queries": (
                "Your sum runs over the queries, the last axis but one. Each row of weights came from a softmax of its own, so the sum runs along the row, over "
                "the keys.",
                {"axis=-1": "axis=-2"},
            ),
            "sum_over_everything": (
                "Your sum runs over all rows together; for a single row that is right. Each row of weights came from a softmax of its own and has a mean of its "
                "own.",
                {"axis=-1": "", "keepdims=True": ""},
            ),
            "sum_lost_its_axis": (
                "Your sum has lost the axis that it ran along, so it broadcasts along the wrong one: with as many rows as columns the numbers are wrong, otherwise "
                "the shapes clash. Keep the axis with length 1.",
                {"keepdims=True": ""},
            ),
            "dot_product_of_one_row": (
                "Your weighted mean is a dot product, which `@` gives for a single row only. With more rows it is a matrix product: every row with every other, or "
                "shapes that clash. Each row's weights meet that row's gradient only.",
                {"mean = ...": "mean = weights @ grad_weights"},
            ),
            "handed_through": (
                "Your function hands the gradient through as it came. The softmax has a derivative of its own, and the weights are given because it is made of "
                "them.",
                {"weights * (_ - mean)": "_"},
            ),
            "weights_and_gradient_exchanged": (
                "In your last step the weights and their gradient have changed places. The mean is one of gradients, so it is subtracted from gradients; the "
                "weights multiply the difference.",
                {"weights * (_ - mean)": "_ * (weights - mean)"},
            ),
            "sign_of_the_gradient": (
                "Your gradient of the scores has the wrong sign: the mean is subtracted from ∂L/∂w, not the other way round. With it, every step downhill goes "
                "uphill.",
                {"_ - mean": "mean - _"},
            ),
            "mean_added": (
                "You add the weighted mean instead of subtracting it. Off its diagonal the Jacobian is −wᵢ wⱼ, with a minus: when one score rises, the other "
                "weights fall.",
                {"_ - mean": "_ + mean"},
            ),
            "weights_only_in_the_mean": (
                "You subtract the weighted mean and stop. The difference is still to be multiplied by each score's own weight: a score whose weight is 0 moves "
                "nothing, so its gradient is 0.",
                {"2: weights * _": "_"},
            ),
            "mean_not_multiplied": (
                "You multiply ∂L/∂w by the weights and then subtract the mean as it is. The mean belongs inside the parentheses: it is multiplied by the weight "
                "too, or the row does not sum to 0.",
                {"weights * (_ - mean)": "weights * _ - mean"},
            ),
            "diagonal_missing": (
                "Your gradient holds only what a score does to the *other* weights, −wᵢ wⱼ. What it does to its own weight, wᵢ (1 − wᵢ), is missing.",
                {"_ - mean": "weights * _ - mean"},
            ),
            "gradient_of_log_softmax": (
                "That is the gradient of the *log*-softmax: ∂L/∂s = g − w Σ g, where g is the gradient at the log-weights. Here the gradient arrives at the "
                "weights themselves.",
                {"weights * (_ - mean)": "_ - weights * _.sum(axis=-1, keepdims=True)"},
            ),
            "cross_entropy_shortcut": (
                'You subtract ∂L/∂w from the weights, as in the well-known shortcut "probabilities minus targets". That one is for softmax *and* cross-entropy '
                "together; here any loss may follow, and only its gradient at the weights is known.",
                {"weights * (_ - mean)": "weights - _"},
            ),
            "softmax_taken_again": (
                "You take the softmax of `weights` first. They are the softmax's output already, as the forward pass computed it: its derivative needs nothing "
                "else.",
                {"mean = _": "weights = softmax(weights)\nmean = _"},
            ),
            "jacobian_of_one_row": (
                "Your Jacobian, from `np.diag` and `np.outer`, is that of a single row. `np.diag` of a matrix *reads* its diagonal, and `np.outer` flattens: with "
                "more rows than one every row needs a Jacobian of its own.",
                {"mean = ...": "jacobian = np.diag(weights) - np.outer(weights, weights)", "weights * (_ - mean)": "jacobian @ _"},
            ),
            "input_overwritten": (
                "Your numbers are right, but they were computed inside `grad_weights`, which the caller may still need. `-=` and `*=` write into the array that "
                "was given.",
                {"mean = _": "grad_weights -= _\ngrad_weights *= weights", "weights * (_ - mean)": "_"},
            ),
            "promoted_to_float64": (
                "Your gradient is float64 for float32 inputs: something that is float64 by itself got in. `np.eye` and `np.zeros` make such arrays, unless they "
                "get a dtype.",
                {"mean = _": "mean = _ * np.eye(1)[0]"},
            ),
        },
    ),
    *of(
        "attention_backward",
        {
            # --- attention_backward
            "softmax_skipped": (
                "Your gradient goes from the weights straight to the query and the key, as if the scores were the weights. The softmax lies between them and has a "
                "gradient of its own; you have just written it.",
                {"softmax_backward(_, weights)": "_"},
            ),
            "elementwise_derivative_in_attention": (
                "Your gradient of the scores is w · (1 − w) · ∂L/∂w, entry by entry, as a sigmoid has it. Raising one score also lowers all the other weights of "
                "its row; `softmax_backward` takes care of that.",
                {"softmax_backward(_, weights)": "weights * (1 - weights) * _"},
            ),
            "mean_forgotten_in_attention": (
                "Your gradient of the scores is w · ∂L/∂w. That is only half of the softmax's derivative: the row's weighted mean has to be taken off first; "
                "`softmax_backward` does both.",
                {"softmax_backward(_, weights)": "weights * _"},
            ),
            "sum_over_queries_in_attention": (
                "On the way back through the softmax your sum runs over the queries. Each row of weights came from a softmax of its own, so the sum runs over the "
                "keys, the last axis.",
                {"softmax_backward(_, weights)": "weights * (_ - (weights * _).sum(axis=-2, keepdims=True))"},
            ),
            "root_of_numpy": (
                "Your gradients of query and key are float64 for float32 inputs. `np.sqrt` of an int is a float64 of NumPy's, which turns all that it touches into "
                "float64; `math.sqrt` gives a plain Python float, which does not.",
                {"math.sqrt": "np.sqrt"},
            ),
            "softmax_forward_again": (
                "On the way back you take the softmax of the gradient. Going back multiplies by the softmax's *derivative* at the weights; the function itself "
                "belongs to the way there.",
                {"softmax_backward(_, weights)": "softmax(_)"},
            ),
            "arguments_exchanged": (
                "You hand the weights and their gradient to `softmax_backward` in the wrong order: the gradient comes first.",
                {"softmax_backward(_, weights)": "softmax_backward(weights, _)"},
            ),
            "weights_computed_again": (
                "You compute the weights again from query and key. Use the ones that are given: with a mask in the forward pass, query and "
                "key alone would give others.",
                {"grad_value = _": "weights = softmax(query @ np.swapaxes(key, -2, -1) / np.sqrt(query.dtype.type(query.shape[-1])))\ngrad_value = _"},
            ),
            "scale_forgotten": (
                "The factor 1/√d_k is missing from your gradients of query and key. The scores were divided by √d_k on the way there, so their gradient is divided "
                "by it on the way back.",
                {"query.shape[-1]": "1"},
            ),
            "scale_forgotten_in_grad_query": (
                "The factor 1/√d_k is missing from your gradient of the query; that of the key has it. Both go through the same division, so both have it.",
                {"grad_scores @ key": "grad_scores @ key * math.sqrt(key.shape[-1])"},
            ),
            "scale_forgotten_in_grad_key": (
                "The factor 1/√d_k is missing from your gradient of the key; that of the query has it. Both go through the same division, so both have it.",
                {"_ @ query": "_ @ query * math.sqrt(key.shape[-1])"},
            ),
            "scaled_twice": (
                "Your gradients of query and key are divided by d_k, which is √d_k twice. There was one division on the way there, by √d_k, so there is one on the "
                "way back.",
                {"math.sqrt": "float"},
            ),
            "scaled_up": (
                "Your gradient of the scores is multiplied by √d_k. The scores were *divided* by it, and a constant factor goes back as it went there.",
                {"grad_scores / _": "grad_scores * _"},
            ),
            "scaled_by_value_width": (
                "Your gradients are divided by √d_v, the width of the values. The scale in the scores belongs to the width of queries and keys, d_k, and the two "
                "need not be equal.",
                {"query.shape": "value.shape"},
            ),
            "scaled_by_number_of_keys": (
                "Your gradients are divided by the square root of the number of keys. The scale belongs to the width of the vectors, the last axis of query and "
                "key.",
                {"query.shape[-1]": "key.shape[-2]"},
            ),
            "grad_value_scaled": (
                "Your gradient of the value has a factor 1/√d_k too many. The value meets the weights after the softmax, and the scale is before it.",
                {"grad_value = _": "grad_value = _ / math.sqrt(key.shape[-1])"},
            ),
            "weights_scaled": (
                "You divided the weights by √d_k before going back through the softmax. The softmax's derivative is taken at the weights as they are; it is the "
                "gradient that gets the factor.",
                {"2: weights": "weights / math.sqrt(key.shape[-1])", "grad_scores = grad_scores / ...": ""},
            ),
            "weights_not_transposed": (
                "In your gradient of the value the weights are not transposed. A value collects from every query that looked at it, so the sum runs over the "
                "queries; that the shapes fit when T_q = T_k proves nothing.",
                {"np.swapaxes(weights, -2, -1)": "weights"},
            ),
            "value_not_transposed": (
                "In your gradient of the weights the value is not transposed. A weight of query and key gains the dot product of that query's output gradient with "
                "that key's value; that the shapes fit when T_k = d_v proves nothing.",
                {"np.swapaxes(value, -2, -1)": "value"},
            ),
            "scores_not_transposed": (
                "In your gradient of the key the gradient of the scores is not transposed. A key collects from every query that it was compared with, so the sum "
                "runs over the queries; that the shapes fit when T_q = T_k proves nothing.",
                {"np.swapaxes(grad_scores, -2, -1)": "grad_scores"},
            ),
            "key_transposed_once_more": (
                "In your gradient of the query the key is transposed. It was transposed once on the way there, and the gradient of a product takes the transpose "
                "of what stood there, which is the key itself.",
                {"grad_scores @ key": "grad_scores @ np.swapaxes(key, -2, -1)"},
            ),
            "gradient_of_the_transposed_key": (
                "Your gradient of the key is that of keyᵀ, `(d_k, T_k)`: transposed, it would be right. A gradient has the shape of what it is the gradient of.",
                {"grad_key = ...": "grad_key = np.swapaxes(query, -2, -1) @ grad_scores"},
            ),
            "all_axes_transposed": (
                "Your transpose moves the batch's axis too: without a batch it is right, with one it is not. Only the last two axes are to change places.",
                {"np.swapaxes(weights, -2, -1)": "weights.T", "np.swapaxes(value, -2, -1)": "value.T", "np.swapaxes(grad_scores, -2, -1)": "grad_scores.T"},
            ),
            "factors_not_exchanged": (
                "Your gradient of the query is made with the query, and that of the key with the key. In a product each factor's gradient holds the *other* "
                "factor: how much a score moves with the query depends on the key.",
                {"_ @ query": "_ @ key", "grad_scores @ key": "grad_scores @ query"},
            ),
            "grad_value_from_scores": (
                "Your gradient of the value uses the gradient of the scores. The value never met the scores: the output is weights times value, so its gradient "
                "holds the weights themselves.",
                {"grad_value = ...": "pass", "return _": "grad_value = np.swapaxes(grad_scores, -2, -1) @ grad_output\nreturn _"},
            ),
            "grad_value_from_grad_weights": (
                "Your gradient of the value uses the gradient of the weights. The output is weights times value, and the gradient of one factor holds the other "
                "factor itself, not its gradient.",
                {"grad_value = ...": "pass", "return _": "grad_value = np.swapaxes(grad_weights, -2, -1) @ grad_output\nreturn _"},
            ),
            "output_for_its_gradient": (
                "Your gradient of the value is made with the output of attention. The chain rule wants what arrives from the loss, `grad_output`; the output "
                "itself is not needed for it.",
                {"_ @ grad_output": "_ @ (weights @ value)"},
            ),
            "uphill_step": (
                "All three of your gradients have the wrong sign, as if the step of gradient descent were in them already. A gradient points uphill; the minus "
                "belongs to the optimizer's step.",
                {"return ...": "return -grad_query, -grad_key, -grad_value"},
            ),
            "query_and_key_exchanged": (
                "You return the gradients of key and query in each other's place. The order is (grad_query, grad_key, grad_value).",
                {"return ...": "return grad_key, grad_query, grad_value"},
            ),
            "value_first": (
                "You return the gradient of the value first. The order is that of attention's arguments: (grad_query, grad_key, grad_value).",
                {"return ...": "return grad_value, grad_query, grad_key"},
            ),
            "order_reversed": (
                "You return the gradients in the order in which they are found, the value's first. The order is that of attention's arguments: (grad_query, "
                "grad_key, grad_value).",
                {"return ...": "return grad_value, grad_key, grad_query"},
            ),
        },
    ),
]
