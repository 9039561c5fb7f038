"""Day 8: what goes wrong with attention in PyTorch: axes, masks, dropout, gradients, dtypes."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "attention",
        {
            # --- the scores
            "not_scaled": (
                "You do not divide the scores by √d_k. The dot product of two vectors of d_k random numbers with variance 1 has a standard deviation "
                "of √d_k. Without the division, the softmax saturates for wide vectors.",
                {"scores / ...": "scores"},
            ),
            "scaled_by_d_k": (
                "You divide the scores by d_k, or twice by its square root. Divide once by √d_k (eq. 1), the standard deviation of a dot product of d_k "
                "terms. Dividing by more makes all weights nearly equal.",
                {"math.sqrt(_)": "_"},
            ),
            "scaled_by_axis_one": (
                "You divide the scores by the square root of the size of axis 1. That is d_k only for a single sequence; with a batch it is the length, and "
                "with heads it is the number of heads. Count from the end.",
                {"query.size(-1)": "query.size(1)"},
            ),
            "scaled_up": (
                "You multiply the scores by √d_k instead of dividing them by √d_k, so the softmax puts nearly all weight on one key.",
                {"scores / _": "scores * _"},
            ),
            "root_in_float32": (
                "Your √d_k is a float32 tensor, so a float64 result is accurate to 7 digits instead of 16. A Python number takes on the dtype of the tensor "
                "that it is combined with.",
                {"math.sqrt(_)": "torch.sqrt(torch.tensor(float(_), dtype=torch.float32))"},
            ),
            # --- axes
            "all_axes_reversed": (
                "Your transpose reverses all axes, including the batch. Exchange only the last two axes of the key.",
                {"_.transpose(-2, -1)": "_.T"},
            ),
            "key_not_transposed": (
                "You multiply the queries by the keys without a transpose, which works only if T_k equals d_k. A row of scores contains a query's dot "
                "products with all keys, so exchange the last two axes of the key.",
                {"_.transpose(-2, -1)": "_"},
            ),
            "key_reshaped": (
                "Your key has the right shape, (…, d_k, T_k), but it was not transposed: a view or reshape keeps the entries in their order in memory, so "
                "each column mixes parts of several keys.",
                {"_.transpose(-2, -1)": "_.reshape(*key.shape[:-2], key.size(-1), key.size(-2))"},
            ),
            "keys_and_values_exchanged": (
                "You swapped keys and values: queries are compared with the values, and the weights then mix the keys. Scores come from the keys; the weights "
                "mix the values.",
                {"key.to": "value.to", "weights @ value": "weights @ key"},
            ),
            "softmax_over_queries": (
                "Your softmax runs over the queries: the columns of the weights sum to 1. Each query distributes its own attention among the keys, so the "
                "rows must sum to 1.",
                {"dim=-1": "dim=-2"},
            ),
            "softmax_without_dim": (
                "You do not name the axis of the softmax. The method `softmax` requires an axis, and `F.softmax` guesses it from the number of axes. Each "
                "query distributes its weights over the keys, the last axis.",
                {"dim=-1": ""},
            ),
            "flattened_by_view": (
                "You merge the leading axes with `view`, which can merge axes only if they are adjacent in memory. Heads come from a transposition, so "
                "theirs are not. A matrix product accepts any leading axes, so you need not merge them.",
                {
                    "with _:\n    scores = ...": "with _:\n"
                    "    flat = [x.to(wide).view(-1, *x.shape[-2:]) for x in (query, key)]\n"
                    "scores = torch.bmm(flat[0], flat[1].transpose(-2, -1))\n"
                    "scores = scores.view(*query.shape[:-1], key.size(-2))"
                },
            ),
            "overflows": (
                "Your attention overflows for large scores, for instance because you exponentiate without subtracting each row's maximum. PyTorch's softmax "
                "subtracts it.",
                {"scores.softmax(dim=-1)": "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"},
            ),
            # --- the mask
            "mask_asked_for_its_truth": (
                "You use a tensor as a truth value (`if mask:`, `mask or …`), which is undefined for several entries. Check whether the mask is None.",
                {"2: mask is not None": "mask"},
            ),
            "mask_gets_an_axis_here": (
                "Your function adds an axis for heads to the mask. Heads are just leading axes, so attention must not assume a head axis: the caller (day 9) "
                "adds it to the mask.",
                {"2: scores = _": "mask = mask.unsqueeze(1)\nscores = _"},
            ),
            "mask_ignored": (
                "Your result is that of attention without a mask: your function accepts the mask, but the mask has no effect. (Tensor methods return a new "
                "tensor, unless their name ends in an underscore.)",
                {"2: scores = ...": "scores = scores", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "mask_inverted": (
                "Your mask is inverted: it hides the keys that may be attended to. True means *may be attended to* here, as in "
                "`scaled_dot_product_attention`. In `nn.MultiheadAttention`, True means *hidden*, and `masked_fill` overwrites the entries where its mask is "
                "True.",
                {"2: ~mask": "mask", "4: ~mask": "mask"},
            ),
            "mask_after_softmax": (
                "You set masked weights to 0 after the softmax, so the remaining weights no longer sum to 1. Mask the scores before the softmax.",
                {"2: scores = ...": "scores = scores"},
            ),
            "renormalised": (
                "You set masked weights to 0 after the softmax and divide the remaining weights by their sum. That is right on paper, but if a masked key has "
                "a high score, the other weights are rounded to 0 before you divide. Mask the scores before the softmax.",
                {
                    "2: scores = ...": "scores = scores",
                    "weights = weights.masked_fill(~mask, 0.0)": "weights = weights.masked_fill(~mask, 0.0)\n"
                    "weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-38)",
                },
            ),
            "mask_score_of_zero": (
                "In your answer a masked key has the score 0. A score of 0 still gets a weight, because exp(0) = 1. Only a score far below all others gets "
                "the weight 0.",
                {"torch.finfo(wide).min": "0.0", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "one_minus_a_boolean": (
                "You subtract the mask from 1, which works for numeric masks. Here the mask is boolean, and PyTorch refuses to subtract booleans: invert the "
                "mask with `~`. And replace a masked score instead of adding to it.",
                {"2: scores = ...": "scores = scores + (1 - mask) * -1e9", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "mask_added": (
                "You add the mask to the scores. That works for masks of 0 and −∞. Here the mask is boolean, and True counts as 1 in a sum, so a visible key "
                "gets only e times the weight of a hidden key with the same score.",
                {"2: scores = ...": "scores = scores + mask", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_infinity_in_halves": (
                "You compute in the dtype of the inputs, so scores in half precision are rounded or overflow. There is a second mistake: you mask with −∞, as "
                "much published code does, so a fully masked query gives NaN.",
                {"wide = ...": "wide = query.dtype", "torch.finfo(wide).min": "-math.inf", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e9_in_halves": (
                "You compute in the dtype of the inputs and mask with −1e9 or less, as much published code does. In half precision the dot products are "
                "rounded or overflow, and float16 cannot represent −1e9. There is a second mistake: a fully masked query attends to all keys equally, "
                "although its weights should be 0.",
                {"wide = ...": "wide = query.dtype", "torch.finfo(wide).min": "-1e9", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "lowest_in_halves": (
                "You compute in the dtype of the inputs, and in half precision the dot products are rounded or overflow. There is a second mistake: a fully "
                "masked query attends to all keys equally, although its weights should be 0.",
                {"wide = ...": "wide = query.dtype", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e9_added": (
                "You add −1e9 to masked scores. A fully masked query then attends to all keys about equally, and masked scores still get a gradient through "
                "the sum. Replace the score instead of adding to it.",
                {"2: scores = ...": "scores = scores - 1e9 * (~mask).to(wide)", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "minus_1e4": (
                "You mask with a number near −10,000, which is small enough to fit into float16. It hides a key only if no visible key has a lower score. "
                "There is a second mistake: a fully masked query attends to all keys equally.",
                {"torch.finfo(wide).min": "-1e4", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "lowest_of_the_halves": (
                "You upcast the scores to float32 but mask with the lowest number of the *inputs'* dtype. The lowest float16 number is −65504, and float32 "
                "scores can be lower. Use the lowest number of the scores' own dtype.",
                {"torch.finfo(wide)": "torch.finfo(query.dtype)"},
            ),
            "empty_row_uniform": (
                "In your answer, a fully masked query attends to all keys equally, because all its scores are equally low. Its weights and output should be "
                "exactly 0.",
                {"weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "empty_row_nan": (
                "In your answer, a fully masked query gives NaN: all its scores are −∞, and −∞ − (−∞) is not a number. Multiplying by the mask does not help, "
                "because NaN times 0 is NaN. Its weights and output should be exactly 0.",
                {"torch.finfo(wide).min": "-math.inf", "weights.masked_fill(~mask, 0.0)": "weights"},
            ),
            "nan_repaired_too_late": (
                "Your results are right, but you replace NaN only in the returned values. The weights of a fully masked query are NaN when they multiply the "
                "values, and in the backward pass NaN · 0 is NaN, so every value gets a gradient of NaN. Prevent the NaN before the weights are used.",
                {
                    "torch.finfo(wide).min": "-math.inf",
                    "weights.masked_fill(~mask, 0.0)": "weights",
                    "return _, weights": "return _.nan_to_num(), weights.nan_to_num()",
                },
            ),
            "minus_infinity_added": (
                "Your results are right, but some gradients are NaN. You add −∞ to masked scores, and the softmax of a fully masked row has a gradient of "
                "NaN, which reaches query and key through the sum. A replaced score passes no gradient on.",
                {"2: scores = ...": "scores = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)"},
            ),
            "weights_changed_in_place": (
                "Your results are right, but the backward pass fails: you overwrite the softmax's result, which autograd still needs. Create new weights instead.",
                {"weights.masked_fill": "weights.masked_fill_"},
            ),
            # --- dropout
            "dropout_ignored": (
                "You never call `dropout`.",
                {"dropout(weights)": "weights"},
            ),
            "dropout_on_scores": (
                "You apply dropout to the scores, before the softmax. A dropped score is 0, and exp(0) = 1, so that key still gets weight. Apply dropout to "
                "the weights.",
                {"3: weights = _": "scores = scores if dropout is None else dropout(scores)\nweights = _", "dropout(weights)": "weights"},
            ),
            "dropout_on_output": (
                "You apply dropout to the output. Apply it to the weights, so that a query cannot rely on a single key.",
                {"weights = dropout(weights)": "return dropout(weights @ value), weights"},
            ),
            "weights_before_dropout": (
                "Your output is right, but you return the weights before dropout. Return the weights that were multiplied by the values.",
                {"5: weights = _": "return _ @ value, weights"},
            ),
            "dropout_twice": (
                "You call `dropout` twice: once for the returned weights, and once for the output. Each call drops different weights, so the returned weights "
                "are not those that produced the output.",
                {"weights @ value": "(weights if dropout is None else dropout(weights)) @ value"},
            ),
            # --- gradients
            "weights_detached": (
                "Your results are right, but no gradient reaches query and key, because you detached the weights or computed them under `no_grad`. Layers "
                "before them would never learn.",
                {"weights @ value": "weights.detach() @ value"},
            ),
            "nothing_recorded": (
                "Your results are right, but no gradient reaches any input: you computed them under `no_grad`, from `.data`, or with NumPy. Autograd records "
                "only operations on tensors outside `no_grad`.",
                {"return _, weights": "return _.detach(), weights.detach()"},
            ),
            # --- dtypes
            "softmax_in_float32": (
                "You upcast to float32 only for the softmax. In half precision the scores have been rounded or have overflowed by then, and a float64 input "
                "loses half of its digits.",
                {"wide = ...": "wide = query.dtype", "scores.softmax(dim=-1)": "scores.softmax(dim=-1, dtype=torch.float32)"},
            ),
            "not_widened": (
                "You compute the dot products in half precision. In float16, dot products of wide vectors exceed 65504 and become infinite. In bfloat16, "
                "neighboring numbers near 70 are half a unit apart. Upcast query and key, and cast back after the softmax.",
                {"wide = ...": "wide = query.dtype"},
            ),
            "always_float32": (
                "You always compute in float32. Half precision needs this, but a float64 input loses half of its digits, even if you cast the result back.",
                {"wide = ...": "wide = torch.float32"},
            ),
            "result_in_float32": (
                "Your output and weights are float32 for inputs in half precision. Compute in float32, but return the dtype of the inputs, which the next "
                "layer expects.",
                {"weights.to(value.dtype)": "weights", "weights @ value": "weights @ value.to(wide)"},
            ),
            "dtypes_mixed": (
                "Your weights are float32 when they multiply values in half precision, and PyTorch does not multiply matrices of two dtypes. Cast the weights "
                "back after the softmax.",
                {"weights.to(value.dtype)": "weights"},
            ),
            # --- the result
            "pair_swapped": (
                "You return (weights, output). The order is (output, weights).",
                {"return _, weights": "return weights, _"},
            ),
            "output_only": (
                "You return the output alone. Return a pair: (output, weights).",
                {"return _, weights": "return _"},
            ),
            "fused_kernel": (
                "You call PyTorch's fused kernel, which returns the output and never forms the weights. The weights are part of the result here, so compute them "
                "in steps.",
                {"return _, weights": "return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), None"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "attention",
        {
            "hidden_scores_made_on_the_cpu": (
                "You replace hidden scores with a new tensor that is created on the CPU, so on a GPU the two devices do not match. A plain number, or a "
                "tensor created with `device=scores.device`, works on any device.",
                {"scores.masked_fill(~mask, torch.finfo(wide).min)": "torch.where(mask, scores, torch.full(scores.shape, torch.finfo(wide).min, dtype=wide))"},
            ),
            "root_made_on_the_cpu": (
                "You divide by a tensor that you create on the CPU, whatever device the queries are on. Use `math.sqrt`, which returns a plain number.",
                {"math.sqrt(query.size(-1))": "torch.tensor([query.size(-1)], dtype=wide).sqrt()"},
            ),
        },
    ),
]
