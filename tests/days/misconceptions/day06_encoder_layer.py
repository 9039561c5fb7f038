"""Day 6: what goes wrong with norms, the feed-forward network, and the shortcuts around both."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "layer_norm",
        {
            # --- layer_norm: which numbers
            "norm_over_time": (
                "Your mean and variance run over the tokens, the last axis but one. Each vector is normed by itself, over its own features: what stands elsewhere "
                "in the sentence does not matter.",
                {"1: axis=-1": "axis=-2", "2: axis=-1": "axis=-2"},
            ),
            "norm_over_axis_1": (
                "Your mean and variance run over axis 1. That is the features' axis in a list of vectors only; in a batch of sequences it is the tokens'. The "
                "features are always the last axis, however many come before.",
                {"1: axis=-1": "axis=1", "2: axis=-1": "axis=1"},
            ),
            "norm_over_axis_0": (
                "Your mean and variance run over the first axis, which is right for a single vector only. The features are always the last axis, however many come "
                "before.",
                {"1: axis=-1": "axis=0", "2: axis=-1": "axis=0"},
            ),
            "norm_over_a_sentence": (
                "You take one mean and one variance for each sentence, over its tokens and features together. Every vector has its own, over its features alone, "
                "and vectors come with any number of axes before.",
                {"1: axis=-1": "axis=(1, 2)", "2: axis=-1": "axis=(1, 2)"},
            ),
            "norm_over_everything": (
                "You take one mean and one variance over the whole array. Every vector has its own, over its features; otherwise a loud token would make all the "
                "others quiet.",
                {"x.mean(axis=-1, keepdims=True)": "x.mean()", "2: axis=-1": "", "2: keepdims=True": ""},
            ),
            "batch_norm": (
                "You norm each feature over all vectors: that is batch norm. Layer norm goes the other way and norms each vector over its features, so that a "
                "sentence comes out the same whatever it is batched with.",
                {"1: axis=-1": "axis=tuple(range(x.ndim - 1))", "2: axis=-1": "axis=tuple(range(x.ndim - 1))"},
            ),
            "keepdims_forgotten": (
                "A mean or a variance of yours has lost the axis it was taken over, and so no longer lines up with x: a vector alone works, a batch does not. Keep "
                "that axis, with length 1.",
                {"1: keepdims=True": "", "2: keepdims=True": ""},
            ),
            # --- layer_norm: the variance
            "unbiased_and_eps_outside": (
                "Your deviation divides by n − 1, and ε is added to it after the root. Both are found in well-known code; here the variance divides by n and ε "
                "stands inside the root, as in the docstring.",
                {"variance = ...": "variance = x.var(axis=-1, keepdims=True, ddof=1)", "np.sqrt(variance + eps)": "np.sqrt(variance) + eps"},
            ),
            "unbiased": (
                "Your variance divides by n − 1. That is for guessing a variance from a sample; these n features are all there are, and the norm divides by n.",
                {"variance = ...": "variance = x.var(axis=-1, keepdims=True, ddof=1)"},
            ),
            "sum_for_mean": (
                "Your variance is the sum of the squares, not their mean. So every vector comes out with length 1 (before gain and bias) instead of variance 1, "
                "too small by √n.",
                {"(centred**2).mean": "(centred**2).sum"},
            ),
            "variance_by_difference": (
                "Your variance is the mean of the squares minus the square of the mean. True on paper; but at a mean of 1000 and a deviation of 0.1 two numbers "
                "near 1 000 000 should differ by 0.01, and float32 cannot hold that. Subtract the mean first, then square.",
                {"variance = ...": "variance = (x**2).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2"},
            ),
            "variance_by_difference_kept_positive": (
                "Your variance is the mean of the squares minus the square of the mean, kept from falling below 0. That hides the NaN, not the reason: at a mean "
                "of 1000 and a deviation of 0.1 float32 has no room for the difference. Subtract the mean first, then square.",
                {"variance = ...": "variance = (x**2).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2\nvariance = np.maximum(variance, 0)"},
            ),
            "root_mean_square": (
                "You divide by the root of the mean square without subtracting the mean anywhere: that is RMSNorm, which comes on day 28. Layer norm centres each "
                "vector first.",
                {"centred = ...": "centred = x"},
            ),
            "centred_over_root_mean_square": (
                "You subtract the mean, but divide by the root of the mean of x², which still has the mean in it. The variance is the mean of the squares of the "
                "*centred* numbers.",
                {"centred**2": "x**2"},
            ),
            "not_divided": (
                "You subtract the mean, but do not divide by the deviation. Every vector is to have variance 1 before gain and bias come to it.",
                {"_ / np.sqrt(variance + eps)": "_"},
            ),
            "divided_but_not_centred": (
                "You divide by the deviation, but do not subtract the mean. What comes out should have mean 0 before the bias moves it.",
                {"gain * centred": "gain * x"},
            ),
            "divided_by_variance": (
                "You divide by the variance. Divide by its root, or the scale of x comes out upside down instead of gone: twice as large an x would give half as "
                "much.",
                {"np.sqrt(_)": "_"},
            ),
            "mean_absolute_deviation": (
                "You divide by the mean distance from the mean, without squares. The deviation is the root of the mean square.",
                {"np.sqrt(variance + eps)": "np.abs(centred).mean(axis=-1, keepdims=True) + eps"},
            ),
            # --- layer_norm: eps
            "eps_outside_the_root": (
                "Your ε is added to the deviation, after the root. It belongs to the variance, under the root: the two differ a lot where the variance is itself "
                "about as small as ε.",
                {"np.sqrt(variance + eps)": "np.sqrt(variance) + eps"},
            ),
            "eps_squared": (
                "Your ε is squared before it is added to the variance. The formula adds ε itself.",
                {"variance + eps": "variance + eps**2"},
            ),
            "eps_forgotten": (
                "Your norm does without ε. A vector of equal numbers has variance 0, and 0 / 0 is NaN; with ε it gives the bias.",
                {"variance + eps": "variance"},
            ),
            "eps_as_lower_bound": (
                "Your ε only stands in where the variance is smaller. It is added to the variance, always, so that the result bends smoothly.",
                {"variance + eps": "np.maximum(variance, eps)"},
            ),
            "eps_fixed": (
                "Your ε is 1e-5 whatever the caller says. It is an argument: use it.",
                {"variance + eps": "variance + 1e-5"},
            ),
            "eps_of_1e_6": (
                "Your default ε is 1e-6. Papers and libraries differ here; in this course, as in PyTorch, it is 1e-5.",
                {"eps=1e-5": "eps=1e-6"},
            ),
            # --- layer_norm: gain and bias
            "gain_before_norm": (
                "You multiply by the gain before you norm. The norm then takes away most of what the gain did; it comes after the division, so that a feature can "
                "be made louder for good.",
                {"centred = _": "x = gain * x\ncentred = _", "gain * centred": "centred"},
            ),
            "gain_forgotten": (
                "Your result is what a gain of 1 gives. Multiply by the gain before you add the bias.",
                {"gain * centred": "centred"},
            ),
            "bias_forgotten": (
                "Your result is what a bias of 0 gives: every feature is off by its own constant.",
                {"_ + bias": "_"},
            ),
            "gain_times_bias": (
                "Your gain multiplies the bias, too. Scale first, and add the bias to the scaled vector.",
                {"gain * centred / _ + bias": "gain * (centred / _ + bias)"},
            ),
            "gain_and_bias_swapped": (
                "Gain and bias have changed places: you multiply by the bias and add the gain.",
                {"gain * centred / _ + bias": "bias * centred / _ + gain"},
            ),
            "gain_plus_one": (
                "You multiply by 1 + gain. Some models store the gain that way; here it is the factor itself.",
                {"gain * centred": "(1 + gain) * centred"},
            ),
            # --- layer_norm: side effects
            "norm_changes_x": (
                "Your result is right, but x itself was changed on the way, as where it is centred in place. Its owner may still need it as it was.",
                {"centred = x - _": "x -= _\ncentred = x"},
            ),
            "promoted_to_float64": (
                "Your result is float64 for float32 inputs. One float64 array on the way is enough: a mean that was asked for in float64, or an array from "
                "`np.zeros` that was not told its dtype.",
                {"x.mean(axis=-1, keepdims=True)": "x.mean(axis=-1, keepdims=True, dtype=np.float64)"},
            ),
        },
    ),
    *of(
        "feed_forward",
        {
            # --- feed_forward
            "relu_missing": (
                "Nothing is cut off between your two layers. Two matrix products in a row are one matrix product: without the ReLU the second layer adds nothing.",
                {"np.maximum(0, _)": "_"},
            ),
            "relu_at_the_end": (
                "Your ReLU comes after the second layer instead of between the two. Nothing in the output could be negative, and the two layers before it are only "
                "one.",
                {"np.maximum(0, _)": "_", "return _": "return np.maximum(0, _)"},
            ),
            "relu_twice": (
                "There is a second ReLU, after the second layer. The output may be negative: it is added to a vector, and must be able to take away.",
                {"return _": "return np.maximum(0, _)"},
            ),
            "largest_for_relu": (
                "`np.max` looks for the largest number of *one* array, and takes what comes second for an axis. The ReLU compares every number of the hidden layer "
                "with 0, by itself.",
                {"np.maximum": "np.max"},
            ),
            "relu_before_bias": (
                "You cut off below 0 before adding b_1. The bias is there to say *where* each hidden unit begins, so it belongs under the ReLU.",
                {"np.maximum(0, x @ w_1 + b_1)": "np.maximum(0, x @ w_1) + b_1"},
            ),
            "relu_on_input": (
                "You cut off x before the first layer. The ReLU belongs to the hidden layer, after the first product and bias.",
                {"np.maximum(0, x @ w_1 + b_1)": "np.maximum(0, x) @ w_1 + b_1"},
            ),
            "relu_keeps_negatives": (
                "Your ReLU works the wrong way round: it keeps what is negative and sets the rest to 0.",
                {"np.maximum": "np.minimum"},
            ),
            "absolute_value": (
                "You take the absolute value of the hidden layer. ReLU sets what is negative to 0, it does not turn it round.",
                {"np.maximum(0, _)": "np.abs(_)"},
            ),
            "sigmoid": (
                "Between your layers stands a sigmoid. The paper's network has ReLU, max(0, ·), which lets what is positive through as it is.",
                {"np.maximum(0, _)": "1 / (1 + np.exp(-_))"},
            ),
            "gelu": (
                "Between your layers stands GELU, as in BERT and GPT. The paper's network has ReLU: max(0, ·).",
                {"hidden = ...": "hidden = x @ w_1 + b_1\nhidden = 0.5 * hidden * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))"},
            ),
            "b_1_forgotten": (
                "Your first layer lacks its bias b_1. Without it every hidden unit begins at exactly 0.",
                {"x @ w_1 + b_1": "x @ w_1"},
            ),
            "b_2_forgotten": (
                "Your second layer lacks its bias b_2: every feature is off by its own constant.",
                {"return _ + b_2": "return _"},
            ),
            "both_biases_forgotten": (
                "Both your layers lack their bias.",
                {"x @ w_1 + b_1": "x @ w_1", "return _ + b_2": "return _"},
            ),
            "network_matrices_turned": (
                "You use both matrices turned, as x @ w.T, which only fits where d_ff equals d_model. The rows of w_1 belong to what goes in: w_1 is (d_model, "
                "d_ff), so x @ w_1.",
                {"x @ w_1 + b_1": "x @ w_1.T + b_1", "hidden @ w_2": "hidden @ w_2.T"},
            ),
            "network_layers_swapped": (
                "You go through the second layer first. That fits only where d_ff equals d_model: first comes w_1, which widens.",
                {"x @ w_1 + b_1": "x @ w_2 + b_2", "hidden @ w_2 + b_2": "hidden @ w_1 + b_1"},
            ),
            "network_adds_x": (
                "Your network adds x to its own output. The shortcut is the encoder layer's, around the network; inside it would be added twice.",
                {"return _": "return _ + x"},
            ),
        },
    ),
    *of(
        "encoder_layer",
        {
            # --- encoder_layer: the shortcuts
            "no_shortcuts": (
                "Neither of your parts has a shortcut around it: x is replaced by what attention and the network make of it. What came in is added to what they "
                "found, both times.",
                {"x + attended": "attended", "x + transformed": "transformed"},
            ),
            "no_shortcut_around_attention": (
                "You norm what attention found without adding x to it. A token then knows what the others told it, but not what it was itself.",
                {"x + attended": "attended"},
            ),
            "no_shortcut_around_feed_forward": (
                "You norm what the feed-forward network gives without adding what went into it. Both parts have a shortcut.",
                {"x + transformed": "transformed"},
            ),
            "shortcut_from_the_input": (
                "You add the feed-forward network's output to the x that the layer was given. It is added to what went into the network: the normed sum after "
                "attention.",
                {"attended = _": "attended = _\nfirst = x", "x + transformed": "first + transformed"},
            ),
            "shortcut_around_the_norm": (
                "You add the feed-forward network's output to the sum after attention as it was before its norm. In post-norm the shortcut starts after the norm: "
                "what goes into the network is what is added.",
                {"attended = _": "attended = _\ntotal = x + attended", "x + transformed": "total + transformed"},
            ),
            "network_sees_attention_only": (
                "Your feed-forward network works on what attention found. It works on the normed sum, in which each token still has itself.",
                {"transformed = ...": "transformed = feed_forward(attended, params['w_1'], params['b_1'], params['w_2'], params['b_2'])"},
            ),
            "network_sees_the_unnormed_sum": (
                "Your feed-forward network works on the sum as it was before the first norm. Norm first: what goes into the network is the normed sum, the same "
                "that is added to its output.",
                {
                    "attended = _": "attended = _\ntotal = x + attended",
                    "transformed = ...": "transformed = feed_forward(total, params['w_1'], params['b_1'], params['w_2'], params['b_2'])",
                },
            ),
            "network_sees_the_input": (
                "Your feed-forward network works on the x that the layer was given, beside attention. It comes after attention, and thinks about what attention "
                "brought.",
                {
                    "attended = _": "attended = _\nfirst = x",
                    "transformed = ...": "transformed = feed_forward(first, params['w_1'], params['b_1'], params['w_2'], params['b_2'])",
                },
            ),
            "feed_forward_first": (
                "Your feed-forward network comes before attention. Look around first, then think.",
                {
                    "attended = ...": "attended = feed_forward(x, params['w_1'], params['b_1'], params['w_2'], params['b_2'])",
                    "transformed = ...": "transformed = multi_head_attention(x, x, x, params, h, mask)",
                },
            ),
            # --- encoder_layer: the norms
            "pre_norm": (
                "You norm what goes into each part, and add its output to x as it was: pre-norm, as later models have it (day 11 compares the two). The paper "
                "norms after the addition, so that what leaves the layer is normed.",
                {
                    "attended = ...": "normed = layer_norm(x, params['gain_1'], params['bias_1'])",
                    "x = ...": "attended = multi_head_attention(normed, normed, normed, params, h, mask)",
                    "transformed = ...": "x = x + attended",
                    "return ...": "normed = layer_norm(x, params['gain_2'], params['bias_2'])\n"
                    "transformed = feed_forward(normed, params['w_1'], params['b_1'], params['w_2'], params['b_2'])\n"
                    "return x + transformed",
                },
            ),
            "norm_before_addition": (
                "You norm what each part found and then add x, which stays as it was. Add first, then norm the sum.",
                {
                    "layer_norm(x + attended, _, ...)": "x + layer_norm(attended, _, params['bias_1'])",
                    "return ...": "return x + layer_norm(transformed, params['gain_2'], params['bias_2'])",
                },
            ),
            "no_norms": (
                "Your shortcuts are right, but both norms are missing. Every addition is followed by one.",
                {"x = ...": "x = x + attended", "return ...": "return x + transformed"},
            ),
            "no_first_norm": (
                "The norm after attention is missing. The sum is normed before it goes into the feed-forward network.",
                {"x = ...": "x = x + attended"},
            ),
            "no_last_norm": (
                "The norm at the end is missing: after the feed-forward network, too, the sum is normed.",
                {"return ...": "return x + transformed"},
            ),
            "first_norm_twice": (
                "Both your norms use gain_1 and bias_1. The two are told apart by their numbers: each has its own.",
                {"'gain_2'": "'gain_1'", "'bias_2'": "'bias_1'"},
            ),
            "second_norm_twice": (
                "Both your norms use gain_2 and bias_2. The two are told apart by their numbers: each has its own.",
                {"'gain_1'": "'gain_2'", "'bias_1'": "'bias_2'"},
            ),
            "norms_swapped": (
                "Your norms have changed places: number 1 comes after attention, number 2 after the feed-forward network.",
                {"'gain_1'": "'gain_2'", "'bias_1'": "'bias_2'", "return ...": "return layer_norm(x + transformed, params['gain_1'], params['bias_1'])"},
            ),
            "gain_and_bias_swapped_in_the_layer": (
                "In your layer's norms gain and bias have changed places: each vector is multiplied by the bias, and the gain is added. The gain comes first.",
                {
                    "layer_norm(x + attended, _, ...)": "layer_norm(x + attended, params['bias_1'], _)",
                    "return ...": "return layer_norm(x + transformed, params['bias_2'], params['gain_2'])",
                },
            ),
            "normed_without_gain_and_bias": (
                "Your norms work with a gain of 1 and a bias of 0. Both are in `params`, for each norm its own.",
                {
                    "params['gain_1']": "np.ones_like(params['gain_1'])",
                    "params['bias_1']": "np.zeros_like(params['bias_1'])",
                    "params['gain_2']": "np.ones_like(params['gain_2'])",
                    "params['bias_2']": "np.zeros_like(params['bias_2'])",
                },
            ),
            # --- encoder_layer: the rest
            "mask_not_passed_on": (
                "Your result is what comes out without the mask: it never reaches the attention, and padding is read.",
                {"mask": ""},
            ),
            "mask_inverted": (
                "Your mask works the wrong way round. True means *may be attended to*, here as everywhere: pass it on as it is.",
                {"mask": "None if mask is None else ~mask"},
            ),
            "one_head": (
                "Your attention runs with one head, whatever h is.",
                {"h": "1"},
            ),
            "layer_changes_x": (
                "Your output is right, but the caller's x was changed: `x += …` writes into it. A sum that is named anew, `x = x + …`, leaves it alone.",
                {"attended = _": "attended = _\nx += attended", "x + attended": "x"},
            ),
        },
    ),
]
