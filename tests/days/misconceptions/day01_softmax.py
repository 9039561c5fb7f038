"""Day 1: what goes wrong with softmax and log_softmax."""

from course.judging.misconceptions import Misconception, of


def in_both(name: str, tell: str, softmax: dict[str, str], log_softmax: dict[str, str]) -> list[Misconception]:
    """A mistake that is the same in both exercises."""
    return [
        *of("softmax", {name: (tell, softmax)}),
        *of("log_softmax", {f"log_{name}": (tell, log_softmax)}),
    ]


MISCONCEPTIONS = [
    # --- Both: the axis ----------------------------------------------------------------------------
    *in_both(
        "axis_ignored",
        "Your scores always compete along the last axis: `axis` is ignored. For any other axis the result has the right shape and the wrong numbers.",
        {"1: axis=axis": "axis=-1", "3: axis=axis": "axis=-1"},
        {"1: axis=axis": "axis=-1", "2: axis=axis": "axis=-1"},
    ),
    *in_both(
        "axis_zero",
        "Your scores always compete along axis 0, down the columns, whatever `axis` is. That is right for a single row of scores, which has no other axis, so "
        "the mistake is easy to miss.",
        {"1: axis=axis": "axis=0", "3: axis=axis": "axis=0"},
        {"1: axis=axis": "axis=0", "2: axis=axis": "axis=0"},
    ),
    *in_both(
        "axis_one",
        "Your scores always compete along axis 1. In a matrix that is the last axis, but a single row has no axis 1, and an array with more axes has a "
        "different last axis. `axis` says which axis to use.",
        {"1: axis=axis": "axis=1", "3: axis=axis": "axis=1"},
        {"1: axis=axis": "axis=1", "2: axis=axis": "axis=1"},
    ),
    *in_both(
        "one_sum_for_everything",
        "All weights of the array together sum to 1: you use the largest score and the sum of the whole array. Each row must sum to 1 by itself, so take the "
        "maximum and the sum per row, along `axis`.",
        {"x.max(axis=axis, keepdims=True)": "x.max()", "3: axis=axis": "", "3: keepdims=True": ""},
        {"x.max(axis=axis, keepdims=True)": "x.max()", "2: axis=axis": "", "2: keepdims=True": ""},
    ),
    *in_both(
        "largest_of_everything",
        "Your result is right as long as all rows have scores of similar size. It fails for a row far below the largest score of the entire array: all its "
        "exponentials become 0, and so does their sum. Each row needs its own largest score.",
        {"x.max(axis=axis, keepdims=True)": "x.max()"},
        {"x.max(axis=axis, keepdims=True)": "x.max()"},
    ),
    *in_both(
        "keepdims_forgotten",
        "Your result is right only for a single row. Taking the largest score or the sum along an axis removes that axis, and the result then lines up with "
        "the wrong axis. In a square array no error is raised.",
        {"1: keepdims=True": "", "3: keepdims=True": ""},
        {"1: keepdims=True": "", "2: keepdims=True": ""},
    ),
    *of(
        "softmax",
        {
            # --- softmax: the shift ------------------------------------------------------------------------
            "overflows": (
                "Your weights are NaN for large scores: e^710 overflows in float64 and e^89 in float32, and ∞ / ∞ is not a number. A shift of all "
                "scores cancels in the fraction, so you may choose a shift after which no score is large.",
                {"shifted = ...": "shifted = x"},
            ),
            "overflows_over_everything": (
                "Your weights sum to 1 over the entire array, but each row should sum to 1 along `axis`. And they become NaN for large scores: e^710 "
                "overflows in float64, and ∞ / ∞ is not a number.",
                {"shifted = ...": "shifted = x", "3: axis=axis": "", "3: keepdims=True": ""},
            ),
            "largest_absolute_value": (
                "Your shift is the largest absolute value. In a row of very negative scores it makes every score even lower: all exponentials become 0, "
                "and 0 / 0 is NaN. Use the largest *score*, with its sign.",
                {"x.max": "np.abs(x).max"},
            ),
            "divided_by_the_largest": (
                "Your scores are divided by the largest score. The difference of two scores decides the ratio of their weights, and a division changes these "
                "differences. A subtraction does not.",
                {"shifted = x - _": "shifted = x / _"},
            ),
            "clipped": (
                "Your scores are clipped at a fixed limit before the exponential. All scores beyond the limit become equal, and so do their weights, however "
                "far apart the scores were.",
                {"shifted = ...": "shifted = np.clip(x, -500, 500)"},
            ),
            # --- softmax: the formula ----------------------------------------------------------------------
            "lowest_wins": (
                "Your weights are those of the negated scores: the lowest score gets the largest weight. The sign was flipped somewhere, perhaps by "
                "subtracting x from the largest score.",
                {"shifted = ...": "shifted = x.min(axis=axis, keepdims=True) - x"},
            ),
            "no_exponential": (
                "Your scores are divided by their sum, without an exponential. Scores can be negative, and their sum can be 0. The exponential makes every "
                "share positive before you divide.",
                {"shifted = ...": "shifted = x", "np.exp(shifted)": "shifted"},
            ),
            "exponential_of_one_number": (
                "You use the exponential of `math`, which takes a single number, but your scores are an array. NumPy's exponential works on every entry of an "
                "array.",
                {"np.exp": "math.exp"},
            ),
            "sigmoid": (
                "Your result is the sigmoid of each score separately. In a softmax the scores compete: when one score rises, all other weights fall, "
                "and together the weights sum to 1.",
                {"return ...": "return 1 / (1 + np.exp(-x))"},
            ),
            "not_divided": (
                "Your weights do not sum to 1, because you return the exponentials. Divide them by their sum to turn them into shares.",
                {"return ...": "return exponentials"},
            ),
            "epsilon_in_the_sum": (
                "Your sum has a small number added to it, as a guard against a division by 0. Once the largest score is subtracted, the sum is at least "
                "1 and needs no such guard; with the guard, the weights no longer sum to 1.",
                {"exponentials / _": "exponentials / (_ + 1e-8)"},
            ),
            "half_shifted": (
                "Your numerator uses shifted scores and your denominator unshifted scores. A shift cancels in the fraction only if both use it.",
                {"exponentials.sum": "np.exp(x).sum"},
            ),
            "promoted_to_float64": (
                "Your weights are float64 for float32 scores. Nothing here needs more precision, and a float64 array makes every later result float64.",
                {"shifted = x - _": "shifted = x.astype(float) - _"},
            ),
            "always_float32": (
                "Your weights are float32 even for float64 scores, so half of the digits are lost.",
                {"return _": "return _.astype(np.float32)"},
            ),
            "in_place": (
                "Your result is right, but you changed the scores in `x`, for instance by subtracting the largest score in place. The caller may still need them.",
                {"shifted = x - _": "x -= _\nshifted = x"},
            ),
        },
    ),
    *of(
        "log_softmax",
        {
            # --- log_softmax -------------------------------------------------------------------------------
            "log_of_zero": (
                "Your log-weights are logarithms of finished weights. A weight far below the largest has already become 0, and the logarithm of 0 is −∞: no "
                "logarithm can recover the lost number. Simplify log(e^a / b) on paper first.",
                {"shifted - ...": "np.log(softmax(x, axis))"},
            ),
            "log_of_weight_plus_1e-12": (
                "Your log-weights are logarithms of weights to which a small number was added. That hides the −∞, but no weight can then be less than your small "
                "number. Simplify log(e^a / b) on paper first.",
                {"shifted - ...": "np.log(softmax(x, axis) + 1e-12)"},
            ),
            "log_of_at_least_a_tiny_weight": (
                "Your log-weights never fall below a floor: you replace tiny weights by a smallest number before the logarithm. The true log-weights fall "
                "without limit. Take the logarithm of the fraction first, on paper, so that no weight is computed.",
                {"shifted - ...": "np.log(np.maximum(softmax(x, axis), np.finfo(x.dtype).tiny))"},
            ),
            "log_of_an_overflow": (
                "Your log-weights are the logarithm of the fraction exactly as the formula writes it. It overflows for large scores, and for very low scores "
                "it takes the logarithm of 0. Simplify log(e^a / b) on paper, and subtract the largest score first.",
                {"shifted - ...": "np.log(np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True))"},
            ),
            "log_overflows": (
                "Your formula is right, but it overflows: the exponentials of large scores are ∞, and those of very negative scores sum to 0. A shift "
                "of all scores does not change the result, so you may choose a shift after which no score is large.",
                {"shifted = ...": "shifted = x"},
            ),
            "largest_not_added_back": (
                "Your sum uses the shifted scores, but its logarithm is subtracted from the unshifted scores, so each row is off by its largest score. "
                "Use the shifted scores in both places, or add the shift back.",
                {"shifted - _": "x - _"},
            ),
            "shift_not_in_the_sum": (
                "You use the shifted scores in the numerator, but not in the sum. Each row is off by its largest score, and the sum still overflows. Use the "
                "shifted scores in both places.",
                {"np.exp(shifted)": "np.exp(x)"},
            ),
            "largest_subtracted_twice": (
                "Your result is off by each row's largest score, because you subtracted it twice: once in the shift, and again together with the "
                "logarithm of the sum.",
                {"return _": "return _ - x.max(axis=axis, keepdims=True)"},
            ),
            "sum_of_logs": (
                "You take the logarithms before the sum, where each logarithm only undoes an exponential. The logarithm of a sum is not the sum of the "
                "logarithms: add first.",
                {"np.log(...)": "np.log(np.exp(shifted)).sum(axis=axis, keepdims=True)"},
            ),
            "log_forgotten": (
                "Your result subtracts the sum of the exponentials itself, not its logarithm. The logarithm of a fraction is the difference of *two "
                "logarithms*.",
                {"np.log(_)": "_"},
            ),
            "weights_returned": (
                "Your result is the softmax itself, which is positive. Return the logarithms of the weights, which are 0 or less.",
                {"shifted - ...": "softmax(x, axis)"},
            ),
            "sign_turned": (
                "Your log-weights have the wrong sign. A weight is at most 1, so its logarithm is at most 0. Only the loss has a minus sign in front.",
                {"shifted - _": "_ - shifted"},
            ),
            "log_epsilon_in_the_sum": (
                "Your sum has a small number added to it, as a guard against the logarithm of 0. Once the largest score is subtracted, the sum is at "
                "least 1 and needs no such guard; with the guard, every log-weight is a little too small.",
                {"np.log(_)": "np.log(_ + 1e-8)"},
            ),
            "axis_not_passed_on": (
                "Your log-weights are logarithms of `softmax(x)` without its axis: whatever `axis` is, they are computed along the last axis. And where "
                "a weight has become 0, its logarithm is −∞.",
                {"shifted - ...": "np.log(softmax(x))"},
            ),
            "log_promoted_to_float64": (
                "Your log-weights are float64 for float32 scores. Nothing here needs more precision, and a float64 array makes every later result float64.",
                {"shifted = x - _": "shifted = x.astype(float) - _"},
            ),
            "log_in_place": (
                "Your result is right, but you changed the scores in `x`, for instance by subtracting the largest score in place. The caller may still need them.",
                {"shifted = x - _": "x -= _\nshifted = x"},
            ),
        },
    ),
]
