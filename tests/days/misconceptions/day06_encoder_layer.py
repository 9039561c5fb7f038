"""Day 6: what goes wrong with norms, the feed-forward network, and the shortcuts around both."""

from course.judging.misconceptions import Misconception

CENTRE = "centred = x - x.mean(axis=-1, keepdims=True)"
VARIANCE = "(centred**2).mean(axis=-1, keepdims=True)"
NORM = "gain * centred / np.sqrt(variance + eps) + bias"
RELU = "np.maximum(0, x @ w_1 + b_1)"
ATTEND = "attended = multi_head_attention(x, x, x, params, h, mask)"
FIRST_NORM = 'x = layer_norm(x + attended, params["gain_1"], params["bias_1"])'
THINK = 'transformed = feed_forward(x, params["w_1"], params["b_1"], params["w_2"], params["b_2"])'
SECOND_NORM = 'layer_norm(x + transformed, params["gain_2"], params["bias_2"])'

MISCONCEPTIONS = [
    # --- layer_norm: which numbers
    Misconception(
        "norm_over_time",
        "layer_norm",
        "Your mean and variance run over the tokens, the last axis but one. Each vector is normed by itself, over "
        "its own features: what stands elsewhere in the sentence does not matter.",
        {CENTRE: CENTRE.replace("-1", "-2"), VARIANCE: VARIANCE.replace("-1", "-2")},
    ),
    Misconception(
        "norm_over_axis_1",
        "layer_norm",
        "Your mean and variance run over axis 1. That is the features' axis in a list of vectors only; in a batch of "
        "sequences it is the tokens'. The features are always the last axis, however many come before.",
        {CENTRE: CENTRE.replace("-1", "1"), VARIANCE: VARIANCE.replace("-1", "1")},
    ),
    Misconception(
        "norm_over_axis_0",
        "layer_norm",
        "Your mean and variance run over the first axis, which is right for a single vector only. The features are "
        "always the last axis, however many come before.",
        {CENTRE: CENTRE.replace("-1", "0"), VARIANCE: VARIANCE.replace("-1", "0")},
    ),
    Misconception(
        "norm_over_a_sentence",
        "layer_norm",
        "You take one mean and one variance for each sentence, over its tokens and features together. Every vector has "
        "its own, over its features alone, and vectors come with any number of axes before.",
        {CENTRE: CENTRE.replace("-1", "(1, 2)"), VARIANCE: VARIANCE.replace("-1", "(1, 2)")},
    ),
    Misconception(
        "norm_over_everything",
        "layer_norm",
        "You take one mean and one variance over the whole array. Every vector has its own, over its features; "
        "otherwise a loud token would make all the others quiet.",
        {CENTRE: "centred = x - x.mean()", VARIANCE: "(centred**2).mean()"},
    ),
    Misconception(
        "batch_norm",
        "layer_norm",
        "You norm each feature over all vectors: that is batch norm. Layer norm goes the other way and norms each "
        "vector over its features, so that a sentence comes out the same whatever it is batched with.",
        {
            CENTRE: CENTRE.replace("-1", "tuple(range(x.ndim - 1))"),
            VARIANCE: VARIANCE.replace("-1", "tuple(range(x.ndim - 1))"),
        },
    ),
    Misconception(
        "keepdims_forgotten",
        "layer_norm",
        "A mean or a variance of yours has lost the axis it was taken over, and so no longer lines up with x: a "
        "vector alone works, a batch does not. Keep that axis, with length 1.",
        {
            CENTRE: CENTRE.replace(", keepdims=True", ""),
            VARIANCE: VARIANCE.replace(", keepdims=True", ""),
        },
    ),
    # --- layer_norm: the variance
    Misconception(
        "unbiased_and_eps_outside",
        "layer_norm",
        "Your deviation divides by n − 1, and ε is added to it after the root. Both are found in well-known code; "
        "here the variance divides by n and ε stands inside the root, as in the docstring.",
        {
            VARIANCE: "x.var(axis=-1, keepdims=True, ddof=1)",
            "np.sqrt(variance + eps)": "(np.sqrt(variance) + eps)",
        },
    ),
    Misconception(
        "unbiased",
        "layer_norm",
        "Your variance divides by n − 1. That is for guessing a variance from a sample; these n features are all "
        "there are, and the norm divides by n.",
        {VARIANCE: "x.var(axis=-1, keepdims=True, ddof=1)"},
    ),
    Misconception(
        "sum_for_mean",
        "layer_norm",
        "Your variance is the sum of the squares, not their mean. So every vector comes out with length 1 (before "
        "gain and bias) instead of variance 1, too small by √n.",
        {VARIANCE: VARIANCE.replace("mean", "sum")},
    ),
    Misconception(
        "variance_by_difference",
        "layer_norm",
        "Your variance is the mean of the squares minus the square of the mean. True on paper; but at a mean of 1000 and a "
        "deviation of 0.1 two numbers near 1 000 000 should differ by 0.01, and float32 cannot hold that. "
        "Subtract the mean first, then square.",
        {VARIANCE: "(x**2).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2"},
    ),
    Misconception(
        "variance_by_difference_kept_positive",
        "layer_norm",
        "Your variance is the mean of the squares minus the square of the mean, kept from falling below 0. That hides "
        "the NaN, not the reason: at a mean of 1000 and a deviation of 0.1 float32 has no room for the difference. "
        "Subtract the mean first, then square.",
        {
            VARIANCE: "(x**2).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2\n"
            "    variance = np.maximum(variance, 0)"
        },
    ),
    Misconception(
        "root_mean_square",
        "layer_norm",
        "You divide by the root of the mean square without subtracting the mean anywhere: that is RMSNorm, which "
        "comes on day 28. Layer norm centres each vector first.",
        {CENTRE: "centred = x"},
    ),
    Misconception(
        "centred_over_root_mean_square",
        "layer_norm",
        "You subtract the mean, but divide by the root of the mean of x², which still has the mean in it. The variance is "
        "the mean of the squares of the *centred* numbers.",
        {VARIANCE: "(x**2).mean(axis=-1, keepdims=True)"},
    ),
    Misconception(
        "not_divided",
        "layer_norm",
        "You subtract the mean, but do not divide by the deviation. Every vector is to have variance 1 before gain and "
        "bias come to it.",
        {NORM: "gain * centred + bias"},
    ),
    Misconception(
        "divided_but_not_centred",
        "layer_norm",
        "You divide by the deviation, but do not subtract the mean. What comes out should have mean 0 before the bias moves it.",
        {"gain * centred": "gain * x"},
    ),
    Misconception(
        "divided_by_variance",
        "layer_norm",
        "You divide by the variance. Divide by its root, or the scale of x comes out upside down instead of gone: "
        "twice as large an x would give half as much.",
        {"np.sqrt(variance + eps)": "(variance + eps)"},
    ),
    Misconception(
        "mean_absolute_deviation",
        "layer_norm",
        "You divide by the mean distance from the mean, without squares. The deviation is the root of the mean square.",
        {"np.sqrt(variance + eps)": "(np.abs(centred).mean(axis=-1, keepdims=True) + eps)"},
    ),
    # --- layer_norm: eps
    Misconception(
        "eps_outside_the_root",
        "layer_norm",
        "Your ε is added to the deviation, after the root. It belongs to the variance, under the root: the two differ "
        "a lot where the variance is itself about as small as ε.",
        {"np.sqrt(variance + eps)": "(np.sqrt(variance) + eps)"},
    ),
    Misconception(
        "eps_squared",
        "layer_norm",
        "Your ε is squared before it is added to the variance. The formula adds ε itself.",
        {"variance + eps": "variance + eps**2"},
    ),
    Misconception(
        "eps_forgotten",
        "layer_norm",
        "Your norm does without ε. A vector of equal numbers has variance 0, and 0 / 0 is NaN; with ε it gives the bias.",
        {"variance + eps": "variance"},
    ),
    Misconception(
        "eps_as_lower_bound",
        "layer_norm",
        "Your ε only stands in where the variance is smaller. It is added to the variance, always, so that the result "
        "bends smoothly.",
        {"variance + eps": "np.maximum(variance, eps)"},
    ),
    Misconception(
        "eps_fixed",
        "layer_norm",
        "Your ε is 1e-5 whatever the caller says. It is an argument: use it.",
        {"variance + eps": "variance + 1e-5"},
    ),
    Misconception(
        "eps_of_1e_6",
        "layer_norm",
        "Your default ε is 1e-6. Papers and libraries differ here; in this course, as in PyTorch, it is 1e-5.",
        {"eps: float = 1e-5": "eps: float = 1e-6"},
    ),
    # --- layer_norm: gain and bias
    Misconception(
        "gain_before_norm",
        "layer_norm",
        "You multiply by the gain before you norm. The norm then takes away most of what the gain did; it comes after "
        "the division, so that a feature can be made louder for good.",
        {CENTRE: "x = gain * x\n    " + CENTRE, "gain * centred": "centred"},
    ),
    Misconception(
        "gain_forgotten",
        "layer_norm",
        "Your result is what a gain of 1 gives. Multiply by the gain before you add the bias.",
        {"gain * centred": "centred"},
    ),
    Misconception(
        "bias_forgotten",
        "layer_norm",
        "Your result is what a bias of 0 gives: every feature is off by its own constant.",
        {NORM: NORM.replace(" + bias", "")},
    ),
    Misconception(
        "gain_times_bias",
        "layer_norm",
        "Your gain multiplies the bias, too. Scale first, and add the bias to the scaled vector.",
        {NORM: "gain * (centred / np.sqrt(variance + eps) + bias)"},
    ),
    Misconception(
        "gain_and_bias_swapped",
        "layer_norm",
        "Gain and bias have changed places: you multiply by the bias and add the gain.",
        {NORM: "bias * centred / np.sqrt(variance + eps) + gain"},
    ),
    Misconception(
        "gain_plus_one",
        "layer_norm",
        "You multiply by 1 + gain. Some models store the gain that way; here it is the factor itself.",
        {"gain * centred": "(1 + gain) * centred"},
    ),
    # --- layer_norm: side effects
    Misconception(
        "norm_changes_x",
        "layer_norm",
        "Your result is right, but x itself was centred on the way. Its owner may still need it as it was.",
        {CENTRE: "x -= x.mean(axis=-1, keepdims=True)\n    centred = x"},
    ),
    Misconception(
        "promoted_to_float64",
        "layer_norm",
        "Your result is float64 for float32 inputs. One float64 array on the way is enough: a mean that was asked for "
        "in float64, or an array from `np.zeros` that was not told its dtype.",
        {CENTRE: "centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)"},
    ),
    # --- feed_forward
    Misconception(
        "relu_missing",
        "feed_forward",
        "Nothing is cut off between your two layers. Two matrix products in a row are one matrix product: without the "
        "ReLU the second layer adds nothing.",
        {RELU: "x @ w_1 + b_1"},
    ),
    Misconception(
        "relu_at_the_end",
        "feed_forward",
        "Your ReLU comes after the second layer instead of between the two. Nothing in the output could be negative, "
        "and the two layers before it are only one.",
        {RELU: "x @ w_1 + b_1", "hidden @ w_2 + b_2": "np.maximum(0, hidden @ w_2 + b_2)"},
    ),
    Misconception(
        "relu_twice",
        "feed_forward",
        "There is a second ReLU, after the second layer. The output may be negative: it is added to a vector, and must "
        "be able to take away.",
        {"hidden @ w_2 + b_2": "np.maximum(0, hidden @ w_2 + b_2)"},
    ),
    Misconception(
        "largest_for_relu",
        "feed_forward",
        "`np.max` looks for the largest number of *one* array, and takes what comes second for an axis. The ReLU compares "
        "every number of the hidden layer with 0, by itself.",
        {RELU: "np.max(0, x @ w_1 + b_1)"},
    ),
    Misconception(
        "relu_before_bias",
        "feed_forward",
        "You cut off below 0 before adding b_1. The bias is there to say *where* each hidden unit begins, so it "
        "belongs under the ReLU.",
        {RELU: "np.maximum(0, x @ w_1) + b_1"},
    ),
    Misconception(
        "relu_on_input",
        "feed_forward",
        "You cut off x before the first layer. The ReLU belongs to the hidden layer, after the first product and bias.",
        {RELU: "np.maximum(0, x) @ w_1 + b_1"},
    ),
    Misconception(
        "relu_keeps_negatives",
        "feed_forward",
        "Your ReLU works the wrong way round: it keeps what is negative and sets the rest to 0.",
        {"np.maximum": "np.minimum"},
    ),
    Misconception(
        "absolute_value",
        "feed_forward",
        "You take the absolute value of the hidden layer. ReLU sets what is negative to 0, it does not turn it round.",
        {RELU: "np.abs(x @ w_1 + b_1)"},
    ),
    Misconception(
        "sigmoid",
        "feed_forward",
        "Between your layers stands a sigmoid. The paper's network has ReLU, max(0, ·), which lets what is positive "
        "through as it is.",
        {RELU: "1 / (1 + np.exp(-(x @ w_1 + b_1)))"},
    ),
    Misconception(
        "gelu",
        "feed_forward",
        "Between your layers stands GELU, as in BERT and GPT. The paper's network has ReLU: max(0, ·).",
        {
            RELU: "x @ w_1 + b_1\n"
            "    hidden = 0.5 * hidden * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))"
        },
    ),
    Misconception(
        "b_1_forgotten",
        "feed_forward",
        "Your first layer lacks its bias b_1. Without it every hidden unit begins at exactly 0.",
        {RELU: "np.maximum(0, x @ w_1)"},
    ),
    Misconception(
        "b_2_forgotten",
        "feed_forward",
        "Your second layer lacks its bias b_2: every feature is off by its own constant.",
        {"hidden @ w_2 + b_2": "hidden @ w_2"},
    ),
    Misconception(
        "both_biases_forgotten",
        "feed_forward",
        "Both your layers lack their bias.",
        {RELU: "np.maximum(0, x @ w_1)", "hidden @ w_2 + b_2": "hidden @ w_2"},
    ),
    Misconception(
        "network_matrices_turned",
        "feed_forward",
        "You use both matrices turned, as x @ w.T, which only fits where d_ff equals d_model. The rows of w_1 belong to "
        "what goes in: w_1 is (d_model, d_ff), so x @ w_1.",
        {"x @ w_1": "x @ w_1.T", "hidden @ w_2": "hidden @ w_2.T"},
    ),
    Misconception(
        "network_layers_swapped",
        "feed_forward",
        "You go through the second layer first. That fits only where d_ff equals d_model: first comes w_1, which widens.",
        {RELU: "np.maximum(0, x @ w_2 + b_2)", "hidden @ w_2 + b_2": "hidden @ w_1 + b_1"},
    ),
    Misconception(
        "network_adds_x",
        "feed_forward",
        "Your network adds x to its own output. The shortcut is the encoder layer's, around the network; inside it would "
        "be added twice.",
        {"hidden @ w_2 + b_2": "hidden @ w_2 + b_2 + x"},
    ),
    # --- encoder_layer: the shortcuts
    Misconception(
        "no_shortcuts",
        "encoder_layer",
        "Neither of your parts has a shortcut around it: x is replaced by what attention and the network make of it. "
        "What came in is added to what they found, both times.",
        {
            "layer_norm(x + attended": "layer_norm(attended",
            "layer_norm(x + transformed": "layer_norm(transformed",
        },
    ),
    Misconception(
        "no_shortcut_around_attention",
        "encoder_layer",
        "You norm what attention found without adding x to it. A token then knows what the others told it, but not "
        "what it was itself.",
        {"layer_norm(x + attended": "layer_norm(attended"},
    ),
    Misconception(
        "no_shortcut_around_feed_forward",
        "encoder_layer",
        "You norm what the feed-forward network gives without adding what went into it. Both parts have a shortcut.",
        {"layer_norm(x + transformed": "layer_norm(transformed"},
    ),
    Misconception(
        "shortcut_from_the_input",
        "encoder_layer",
        "You add the feed-forward network's output to the x that the layer was given. It is added to what went into "
        "the network: the normed sum after attention.",
        {FIRST_NORM: f"first = x\n    {FIRST_NORM}", "x + transformed": "first + transformed"},
    ),
    Misconception(
        "shortcut_around_the_norm",
        "encoder_layer",
        "You add the feed-forward network's output to the sum after attention as it was before its norm. In post-norm "
        "the shortcut starts after the norm: what goes into the network is what is added.",
        {
            FIRST_NORM: f"total = x + attended\n    {FIRST_NORM}",
            "x + transformed": "total + transformed",
        },
    ),
    Misconception(
        "network_sees_attention_only",
        "encoder_layer",
        "Your feed-forward network works on what attention found. It works on the normed sum, in which each token still "
        "has itself.",
        {"feed_forward(x,": "feed_forward(attended,"},
    ),
    Misconception(
        "network_sees_the_unnormed_sum",
        "encoder_layer",
        "Your feed-forward network works on the sum as it was before the first norm. Norm first: what goes into the "
        "network is the normed sum, the same that is added to its output.",
        {
            FIRST_NORM: f"total = x + attended\n    {FIRST_NORM}",
            "feed_forward(x,": "feed_forward(total,",
        },
    ),
    Misconception(
        "network_sees_the_input",
        "encoder_layer",
        "Your feed-forward network works on the x that the layer was given, beside attention. It comes after attention, "
        "and thinks about what attention brought.",
        {FIRST_NORM: f"first = x\n    {FIRST_NORM}", "feed_forward(x,": "feed_forward(first,"},
    ),
    Misconception(
        "feed_forward_first",
        "encoder_layer",
        "Your feed-forward network comes before attention. Look around first, then think.",
        {
            ATTEND: THINK.replace("transformed", "attended"),
            THINK: ATTEND.replace("attended", "transformed"),
        },
    ),
    # --- encoder_layer: the norms
    Misconception(
        "pre_norm",
        "encoder_layer",
        "You norm what goes into each part, and add its output to x as it was: pre-norm, as later models have it (day "
        "11 compares the two). The paper norms after the addition, so that what leaves the layer is normed.",
        {
            ATTEND: 'normed = layer_norm(x, params["gain_1"], params["bias_1"])\n'
            "    attended = multi_head_attention(normed, normed, normed, params, h, mask)",
            FIRST_NORM: 'x = x + attended\n    normed = layer_norm(x, params["gain_2"], params["bias_2"])',
            "feed_forward(x,": "feed_forward(normed,",
            SECOND_NORM: "x + transformed",
        },
    ),
    Misconception(
        "norm_before_addition",
        "encoder_layer",
        "You norm what each part found and then add x, which stays as it was. Add first, then norm the sum.",
        {
            "layer_norm(x + attended": "x + layer_norm(attended",
            "layer_norm(x + transformed": "x + layer_norm(transformed",
        },
    ),
    Misconception(
        "no_norms",
        "encoder_layer",
        "Your shortcuts are right and the norms are missing, both of them. Every addition is followed by one.",
        {FIRST_NORM: "x = x + attended", SECOND_NORM: "x + transformed"},
    ),
    Misconception(
        "no_first_norm",
        "encoder_layer",
        "The norm after attention is missing. The sum is normed before it goes into the feed-forward network.",
        {FIRST_NORM: "x = x + attended"},
    ),
    Misconception(
        "no_last_norm",
        "encoder_layer",
        "The norm at the end is missing: after the feed-forward network, too, the sum is normed.",
        {SECOND_NORM: "x + transformed"},
    ),
    Misconception(
        "first_norm_twice",
        "encoder_layer",
        "Both your norms use gain_1 and bias_1. The two are told apart by their numbers: each has its own.",
        {'params["gain_2"], params["bias_2"]': 'params["gain_1"], params["bias_1"]'},
    ),
    Misconception(
        "second_norm_twice",
        "encoder_layer",
        "Both your norms use gain_2 and bias_2. The two are told apart by their numbers: each has its own.",
        {'params["gain_1"], params["bias_1"]': 'params["gain_2"], params["bias_2"]'},
    ),
    Misconception(
        "norms_swapped",
        "encoder_layer",
        "Your norms have changed places: number 1 comes after attention, number 2 after the feed-forward network.",
        {
            FIRST_NORM: FIRST_NORM.replace("_1", "_2"),
            f"return {SECOND_NORM}": f"return {SECOND_NORM}".replace("_2", "_1"),
        },
    ),
    Misconception(
        "gain_and_bias_swapped_in_the_layer",
        "encoder_layer",
        "In your layer's norms gain and bias have changed places: each vector is multiplied by the bias, and the gain "
        "is added. The gain comes first.",
        {
            'params["gain_1"], params["bias_1"]': 'params["bias_1"], params["gain_1"]',
            'params["gain_2"], params["bias_2"]': 'params["bias_2"], params["gain_2"]',
        },
    ),
    Misconception(
        "normed_without_gain_and_bias",
        "encoder_layer",
        "Your norms work with a gain of 1 and a bias of 0. Both are in `params`, for each norm its own.",
        {
            'params["gain_1"], params["bias_1"]': 'np.ones_like(params["gain_1"]), np.zeros_like(params["bias_1"])',
            'params["gain_2"], params["bias_2"]': 'np.ones_like(params["gain_2"]), np.zeros_like(params["bias_2"])',
        },
    ),
    # --- encoder_layer: the rest
    Misconception(
        "mask_not_passed_on",
        "encoder_layer",
        "Your result is what comes out without the mask: it never reaches the attention, and padding is read.",
        {ATTEND: ATTEND.replace(", mask", "")},
    ),
    Misconception(
        "mask_inverted",
        "encoder_layer",
        "Your mask works the wrong way round. True means *may be attended to*, here as everywhere: pass it on as it is.",
        {ATTEND: ATTEND.replace(", mask", ", None if mask is None else ~mask")},
    ),
    Misconception(
        "one_head",
        "encoder_layer",
        "Your attention runs with one head, whatever h is.",
        {ATTEND: ATTEND.replace(" h,", " 1,")},
    ),
    Misconception(
        "layer_changes_x",
        "encoder_layer",
        "Your output is right, but the caller's x was changed: `x += …` writes into it. A sum that is named anew, "
        "`x = x + …`, leaves it alone.",
        {FIRST_NORM: 'x += attended\n    x = layer_norm(x, params["gain_1"], params["bias_1"])'},
    ),
]
