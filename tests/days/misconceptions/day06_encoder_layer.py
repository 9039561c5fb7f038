"""Day 6: what goes wrong with norms, the feed-forward network, and the shortcuts around both."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "layer_norm",
        {
            # --- layer_norm: which numbers
            "norm_over_time": (
                "Your mean and variance are computed over the tokens, the second-to-last axis. Each vector is normalized separately, over its own features, "
                "whatever the other tokens of the sentence are.",
                {"1: axis=-1": "axis=-2", "2: axis=-1": "axis=-2"},
            ),
            "norm_over_a_sentence": (
                "You compute one mean and one variance for each sentence, over tokens and features together. Compute both for every vector, over its "
                "features, with any number of leading axes.",
                {"1: axis=-1": "axis=(1, 2)", "2: axis=-1": "axis=(1, 2)"},
            ),
            "batch_norm": (
                "You normalize each feature over all vectors: this is batch norm. Layer norm normalizes each vector over its features, so a sentence gets the "
                "same result in every batch.",
                {"1: axis=-1": "axis=tuple(range(x.ndim - 1))", "2: axis=-1": "axis=tuple(range(x.ndim - 1))"},
            ),
            "keepdims_forgotten": (
                "Your mean or variance has lost the axis over which it was computed, so it no longer lines up with x. A single vector works; a batch does "
                "not. Keep that axis, with length 1.",
                {"1: keepdims=True": "", "2: keepdims=True": ""},
            ),
            # --- layer_norm: the variance
            "unbiased_and_eps_outside": (
                "Your standard deviation divides by n − 1, and ε is added after the square root. Well-known implementations do both. Here the variance "
                "divides by n, and ε is under the root, as the docstring says.",
                {"variance = ...": "variance = x.var(axis=-1, keepdims=True, ddof=1)", "np.sqrt(variance + eps)": "np.sqrt(variance) + eps"},
            ),
            "unbiased": (
                "Your variance divides by n − 1, which estimates a variance from a sample. Layer norm divides by n, the number of features.",
                {"variance = ...": "variance = x.var(axis=-1, keepdims=True, ddof=1)"},
            ),
            "sum_for_mean": (
                "Your variance is the sum of the squares, not their mean. Before gain and bias, every vector then has length 1 instead of variance 1: it is "
                "too small by a factor of √n.",
                {"(centered**2).mean": "(centered**2).sum"},
            ),
            "variance_by_difference": (
                "Your variance is the mean of the squares minus the square of the mean. That is right on paper, but with a mean of 1000 and a standard "
                "deviation of 0.1, two numbers near 1,000,000 differ by 0.01, which float32 cannot resolve. Subtract the mean first, then square.",
                {"variance = ...": "variance = (x**2).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2"},
            ),
            "root_mean_square": (
                "You divide by the root of the mean square, and subtract the mean nowhere. That is RMSNorm, the topic of day 28. Layer norm centers each "
                "vector first.",
                {"centered = ...": "centered = x"},
            ),
            "not_divided": (
                "You subtract the mean, but do not divide by the standard deviation. Every vector must have variance 1 before gain and bias are applied.",
                {"_ / np.sqrt(variance + eps)": "_"},
            ),
            "divided_but_not_centred": (
                "You divide by the standard deviation, but do not subtract the mean. Before the bias is added, the result should have mean 0.",
                {"gain * centered": "gain * x"},
            ),
            "divided_by_variance": (
                "You divide by the variance, not by its square root. If x is twice as large, your result is half as large: the scale is not removed.",
                {"np.sqrt(_)": "_"},
            ),
            # --- layer_norm: eps
            "eps_outside_the_root": (
                "Your ε is added to the standard deviation, after the square root. Add it to the variance, under the root. The difference is large where the "
                "variance is about as small as ε.",
                {"np.sqrt(variance + eps)": "np.sqrt(variance) + eps"},
            ),
            "eps_squared": (
                "Your ε is squared before it is added to the variance. The formula adds ε itself.",
                {"variance + eps": "variance + eps**2"},
            ),
            "eps_forgotten": (
                "Your layer norm has no ε. A vector of equal numbers has variance 0, and 0 / 0 is NaN; with ε the result is the bias.",
                {"variance + eps": "variance"},
            ),
            "eps_fixed": (
                "Your ε is always 1e-5, whatever the caller passes. Use the argument.",
                {"variance + eps": "variance + 1e-5"},
            ),
            "eps_of_1e_6": (
                "Your default ε is 1e-6. Papers and libraries differ here. In this course, as in PyTorch, the default is 1e-5.",
                {"eps=1e-5": "eps=1e-6"},
            ),
            # --- layer_norm: gain and bias
            "gain_forgotten": (
                "Your gain has no effect: the result is the same as with a gain of 1. Multiply by the gain before you add the bias.",
                {"gain * centered": "centered"},
            ),
            "bias_forgotten": (
                "Your bias has no effect: each feature is off by the same amount in every vector. Add the bias at the end.",
                {"_ + bias": "_"},
            ),
            "gain_times_bias": (
                "Your gain multiplies the bias, too. Scale first, then add the bias to the scaled vector.",
                {"gain * centered / _ + bias": "gain * (centered / _ + bias)"},
            ),
            # --- layer_norm: side effects
            "norm_changes_x": (
                "Your result is right, but your function changed x, for example by centering it in place. The caller may still need the original x.",
                {"centered = x - _": "x -= _\ncentered = x"},
            ),
            "promoted_to_float64": (
                "Your result is float64 for float32 inputs. A single float64 array in the computation is enough to cause this: a mean with "
                "`dtype=np.float64`, for example, or an array created without a dtype.",
                {"x.mean(axis=-1, keepdims=True)": "x.mean(axis=-1, keepdims=True, dtype=np.float64)"},
            ),
        },
    ),
    *of(
        "feed_forward",
        {
            # --- feed_forward
            "relu_missing": (
                "There is no ReLU between your two layers. Two matrix products in a row are equivalent to one product, so without the ReLU the second layer "
                "adds nothing.",
                {"np.maximum(0, _)": "_"},
            ),
            "relu_at_the_end": (
                "Your ReLU comes after the second layer instead of between the two layers. No output is ever negative, and without a ReLU in between, two "
                "linear layers are equivalent to one.",
                {"np.maximum(0, _)": "_", "return _": "return np.maximum(0, _)"},
            ),
            "largest_for_relu": (
                "`np.max` returns the largest number of *one* array and treats its second argument as an axis. The ReLU compares every number of the hidden "
                "layer with 0.",
                {"np.maximum": "np.max"},
            ),
            "relu_before_bias": (
                "You apply the ReLU before adding b_1. The bias determines *where* each hidden unit becomes active, so it must be added before the ReLU.",
                {"np.maximum(0, x @ w_1 + b_1)": "np.maximum(0, x @ w_1) + b_1"},
            ),
            "relu_on_input": (
                "You apply the ReLU to x, before the first layer. The ReLU belongs to the hidden layer, after the first product and bias.",
                {"np.maximum(0, x @ w_1 + b_1)": "np.maximum(0, x) @ w_1 + b_1"},
            ),
            "relu_keeps_negatives": (
                "Your ReLU is inverted: it keeps negative numbers and sets all others to 0.",
                {"np.maximum": "np.minimum"},
            ),
            "gelu": (
                "Between your layers you apply GELU, as in BERT and GPT. The paper's network has ReLU: max(0, ·).",
                {"hidden = ...": "hidden = x @ w_1 + b_1\nhidden = 0.5 * hidden * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))"},
            ),
            "b_1_forgotten": (
                "Your first layer lacks its bias b_1. Without this bias, every hidden unit switches on at exactly 0.",
                {"x @ w_1 + b_1": "x @ w_1"},
            ),
            "b_2_forgotten": (
                "Your second layer lacks its bias b_2: each feature is off by the same amount for every token.",
                {"return _ + b_2": "return _"},
            ),
            "network_matrices_turned": (
                "You use both matrices transposed, which fits only if d_ff equals d_model. The rows of w_1 are the input features: w_1 is (d_model, d_ff).",
                {"x @ w_1 + b_1": "x @ w_1.T + b_1", "hidden @ w_2": "hidden @ w_2.T"},
            ),
            "network_adds_x": (
                "Your network adds x to its own output. The residual connection belongs to the encoder layer, around the network; inside the network, x "
                "would be added twice.",
                {"return _": "return _ + x"},
            ),
        },
    ),
    *of(
        "encoder_layer",
        {
            # --- encoder_layer: the shortcuts
            "no_shortcuts": (
                "Neither of your sublayers has a residual connection: x is replaced by the output of attention, and then by that of the feed-forward "
                "network. Both times, the sublayer's input must be added to its output.",
                {"x + attended": "attended", "x + transformed": "transformed"},
            ),
            "shortcut_from_the_input": (
                "You add the feed-forward network's output to the x that the layer was given. It must be added to the network's input: the normalized sum "
                "after attention.",
                {"attended = _": "attended = _\nfirst = x", "x + transformed": "first + transformed"},
            ),
            "network_sees_attention_only": (
                "The input of your feed-forward network is the output of attention alone. Its input must be the normalized sum, which still contains the "
                "token itself.",
                {"transformed = ...": "transformed = feed_forward(attended, params['w_1'], params['b_1'], params['w_2'], params['b_2'])"},
            ),
            "network_sees_the_input": (
                "Your feed-forward network works on the x that the layer was given, parallel to attention. The network must come after attention and use its "
                "result.",
                {
                    "attended = _": "attended = _\nfirst = x",
                    "transformed = ...": "transformed = feed_forward(first, params['w_1'], params['b_1'], params['w_2'], params['b_2'])",
                },
            ),
            "feed_forward_first": (
                "Your feed-forward network comes before attention. In the paper's layer attention comes first, then the feed-forward network.",
                {
                    "attended = ...": "attended = feed_forward(x, params['w_1'], params['b_1'], params['w_2'], params['b_2'])",
                    "transformed = ...": "transformed = multi_head_attention(x, x, x, params, h, mask)",
                },
            ),
            # --- encoder_layer: the norms
            "pre_norm": (
                "You normalize the input of each sublayer and add its output to the unnormalized x. This is pre-norm, which most later models use (day 11 "
                "compares the two). The paper normalizes after the addition, so the layer's output is normalized.",
                {
                    "attended = ...": "normalized = layer_norm(x, params['gain_1'], params['bias_1'])",
                    "x = ...": "attended = multi_head_attention(normalized, normalized, normalized, params, h, mask)",
                    "transformed = ...": "x = x + attended",
                    "return ...": "normalized = layer_norm(x, params['gain_2'], params['bias_2'])\n"
                    "transformed = feed_forward(normalized, params['w_1'], params['b_1'], params['w_2'], params['b_2'])\n"
                    "return x + transformed",
                },
            ),
            "norm_before_addition": (
                "You normalize the output of each sublayer and then add x. Add x first, then normalize the sum.",
                {
                    "layer_norm(x + attended, _, ...)": "x + layer_norm(attended, _, params['bias_1'])",
                    "return ...": "return x + layer_norm(transformed, params['gain_2'], params['bias_2'])",
                },
            ),
            "no_norms": (
                "Your residual connections are right, but both norms are missing. A norm follows every addition.",
                {"x = ...": "x = x + attended", "return ...": "return x + transformed"},
            ),
            "no_last_norm": (
                "The norm at the end is missing. The sum after the feed-forward network must be normalized, too.",
                {"return ...": "return x + transformed"},
            ),
            "first_norm_twice": (
                "Both your norms use gain_1 and bias_1. Each norm has its own gain and bias, distinguished by their number.",
                {"'gain_2'": "'gain_1'", "'bias_2'": "'bias_1'"},
            ),
            "normed_without_gain_and_bias": (
                "Your norms use a gain of 1 and a bias of 0. Each norm has its own gain and bias in `params`.",
                {
                    "params['gain_1']": "np.ones_like(params['gain_1'])",
                    "params['bias_1']": "np.zeros_like(params['bias_1'])",
                    "params['gain_2']": "np.ones_like(params['gain_2'])",
                    "params['bias_2']": "np.zeros_like(params['bias_2'])",
                },
            ),
            # --- encoder_layer: the rest
            "mask_not_passed_on": (
                "Your result is the same as without a mask: the mask never reaches the attention, so tokens attend to padding.",
                {"mask": ""},
            ),
            "mask_inverted": (
                "Your mask is inverted. True means *may be attended to* everywhere in this course, so pass the mask on unchanged.",
                {"mask": "None if mask is None else ~mask"},
            ),
            "one_head": (
                "Your attention runs with one head, whatever h is.",
                {"h": "1"},
            ),
            "layer_changes_x": (
                "Your output is right, but the caller's x was changed: an in-place addition writes into it. Assign the sum to a new variable instead.",
                {"attended = _": "attended = _\nx += attended", "x + attended": "x"},
            ),
        },
    ),
]
