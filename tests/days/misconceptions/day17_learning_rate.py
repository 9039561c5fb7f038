"""Day 17: what goes wrong with the learning rate."""

from course.judging.misconceptions import Misconception

FIRST = "step = max(step, 1)"
SMALLER = "min(step**-0.5, step * warmup**-1.5)"
RESULT = f"return factor * model_size**-0.5 * {SMALLER}"


def _wrong(id: str, tell: str, edits: dict[str, str]) -> Misconception:
    return Misconception(id, "rate", tell, edits)


MISCONCEPTIONS = [
    Misconception(
        "falls_from_the_peak",
        "rate",
        "After the warm-up you count steps anew. The rate falls like 1/√step of all the steps that there were, not of those since the warm-up; as it is, it jumps at the peak, and then "
        "falls too fast.",
        {
            "min(step**-0.5, step * warmup**-1.5)": "(step * warmup**-1.5 if step < warmup else (step - warmup + 1) ** -0.5)"
        },
    ),
    # --- the two curves
    _wrong(
        "larger_curve",
        "You take the larger of the two curves. It is enormous in the first step, smallest where it should be highest, and "
        "then grows without end: the *smaller* of the two is the rate.",
        {SMALLER: SMALLER.replace("min", "max")},
    ),
    _wrong(
        "warm_up_never_ends",
        "Your rate goes up for ever: the curve that falls like 1/√step is not there, or never wins.",
        {RESULT: "return factor * model_size**-0.5 * step * warmup**-1.5"},
    ),
    _wrong(
        "no_warm_up",
        "Your rate falls from the first step on: the line that goes up is not there, or never wins. The first steps are when a "
        "large rate does most harm.",
        {RESULT: "return factor * model_size**-0.5 * step**-0.5"},
    ),
    _wrong(
        "flat_after_the_warm_up",
        "Your rate stays where it is once the warm-up is over. It should fall again, like 1/√step.",
        {SMALLER: "min(warmup**-0.5, step * warmup**-1.5)"},
    ),
    _wrong(
        "warm_up_by_the_root",
        "Your line rises as step / √warmup, which passes the other curve long before the warm-up ends. For the two to "
        "meet at `step = warmup` the line needs a larger power of the warm-up: set them equal, and see which.",
        {"warmup**-1.5": "warmup**-0.5"},
    ),
    _wrong(
        "warm_up_as_a_share",
        "Your line is step / warmup, which reaches 1 at the end of the warm-up. The other curve is at 1/√warmup there, and the "
        "two have to meet.",
        {"warmup**-1.5": "warmup**-1.0"},
    ),
    _wrong(
        "warm_up_multiplied",
        "You multiply the falling curve by the share of the warm-up that is done, so that your warm-up bends like √step. It is a straight "
        "line: the falling curve has no part in it yet.",
        {SMALLER: "step**-0.5 * min(1.0, step / warmup)"},
    ),
    _wrong(
        "brackets",
        "You raise step · warmup to the power −1.5, both together. Only the warm-up is raised to it: a power binds more tightly than a "
        "product.",
        {"step * warmup**-1.5": "(step * warmup) ** -1.5"},
    ),
    _wrong(
        "step_and_warm_up_swapped",
        "In your line step and warm-up have changed places: it is the warm-up that has the power −1.5, and the line goes up "
        "with the step.",
        {"step * warmup**-1.5": "warmup * step**-1.5"},
    ),
    _wrong(
        "root_of_the_step",
        "You multiply by √step where you should divide by it: mind the sign of the power. The rate has to fall after the "
        "warm-up.",
        {"(step**-0.5": "(step**0.5"},
    ),
    _wrong(
        "falls_like_one_over_step",
        "Your rate falls like 1/step after the warm-up. It is the root of the step that counts: four times as many "
        "steps, half the rate.",
        {"step**-0.5": "step**-1.0"},
    ),
    _wrong(
        "falls_from_the_peak_anew",
        "After the warm-up you count the steps from there, 1/√(step − warmup). The falling curve counts all steps, from the very "
        "first, or the rate jumps at the peak.",
        {SMALLER: "(step * warmup**-1.5 if step <= warmup else (step - warmup) ** -0.5)"},
    ),
    _wrong(
        "falls_in_a_line",
        "Your rate falls in a straight line and reaches 0. It should fall like 1/√step, ever more slowly, and never reach 0.",
        {
            SMALLER: "(step * warmup**-1.5 if step <= warmup else warmup**-0.5 * max(0.0, 2 - step / warmup))"
        },
    ),
    _wrong(
        "peak_of_one",
        "Your rate is 1 at its peak (times factor and width). In the paper the warm-up's length decides how high the peak is: "
        "1/√warmup.",
        {SMALLER: "min((warmup / step) ** 0.5, step / warmup)"},
    ),
    _wrong(
        "starts_one_over_warm_up_late",
        "Your warm-up ends a step later than `warmup` says. The rate is highest *at* that step.",
        {SMALLER: "min(step**-0.5, step * (warmup + 1) ** -1.5)"},
    ),
    _wrong(
        "warm_up_of_4000",
        "Your warm-up takes 4000 steps whatever the caller says. That is the paper's number; here it is an argument.",
        {"warmup**-1.5": "4000**-1.5"},
    ),
    _wrong(
        "whole_division",
        "You divide whole numbers with `//`, which throws away what is behind the point: during the warm-up nothing is left.",
        {"step * warmup**-1.5": "(step // warmup) * warmup**-0.5"},
    ),
    # --- where one begins to count
    _wrong(
        "counted_from_0",
        "You count one step too many: your rate of a step is that of the next. Steps count from 1 here; only step 0, which a scheduler asks for "
        "before the first, is treated as step 1.",
        {FIRST: "step = step + 1"},
    ),
    _wrong(
        "rate_0_at_step_0",
        "Your rate at step 0 is 0. torch's schedulers ask for step 0 first and use what they get for the first step, which would "
        "then change nothing. It should be the rate of step 1.",
        {FIRST: "if step == 0:\n        return 0.0"},
    ),
    _wrong(
        "fails_at_step_0",
        "At step 0 you raise 0 to a negative power, which is a division by 0. torch's schedulers ask for step 0 as soon as they are "
        "made: step 0 counts as step 1.",
        {FIRST: ""},
    ),
    # --- factor and width
    _wrong(
        "factor_forgotten",
        "Your rate does not depend on `factor`. All of it is multiplied by the factor, before the peak and after.",
        {"factor * model_size": "model_size"},
    ),
    _wrong(
        "factor_under_the_root",
        "Your factor stands under the root together with the width, so that a larger factor makes the rate smaller. It multiplies the "
        "whole.",
        {"factor * model_size**-0.5": "(factor * model_size) ** -0.5"},
    ),
    _wrong(
        "factor_on_the_warm_up_only",
        "Your factor multiplies the line of the warm-up only. The curve that falls needs it too, or the two no longer meet at the "
        "end of the warm-up.",
        {
            RESULT: "return model_size**-0.5 * min(step**-0.5, factor * step * warmup**-1.5)",
        },
    ),
    _wrong(
        "factor_after_the_warm_up_only",
        "Your factor multiplies the falling curve only. The line of the warm-up needs it too, or the two no longer meet "
        "at the end of the warm-up.",
        {
            RESULT: "return model_size**-0.5 * min(factor * step**-0.5, step * warmup**-1.5)",
        },
    ),
    _wrong(
        "width_forgotten",
        "Your rate does not depend on the width of the model. Wider models take smaller steps: divide by √model_size.",
        {"factor * model_size**-0.5": "factor"},
    ),
    _wrong(
        "width_of_512",
        "Your rate is that of a model of width 512, whatever `model_size` says.",
        {"model_size**-0.5": "512**-0.5"},
    ),
    _wrong(
        "width_not_rooted",
        "You divide by the width itself. Its root is meant: a model four times as wide has half the rate.",
        {"model_size**-0.5": "model_size**-1.0"},
    ),
    _wrong(
        "width_multiplied",
        "You multiply by √model_size, and so a wider model takes larger steps. Mind the sign of the power: it takes smaller ones.",
        {"model_size**-0.5": "model_size**0.5"},
    ),
    # --- what comes back
    _wrong(
        "in_float32",
        "You compute in float32: your rate has seven right digits where a Python float has sixteen. There is no tensor in this: "
        "ordinary numbers will do.",
        {
            RESULT: "import torch\n\n    return float(torch.tensor("
            + RESULT.removeprefix("return ")
            + "))"
        },
    ),
    _wrong(
        "tensor",
        "Your rate is a tensor. Optimisers and schedulers want a plain number: a float.",
        {RESULT: "import torch\n\n    return torch.tensor(" + RESULT.removeprefix("return ") + ")"},
    ),
    _wrong(
        "rounded",
        "You round the rate. Late in a long run, and in the first steps, hardly a digit is left of it.",
        {RESULT: f"return round({RESULT.removeprefix('return ')}, 6)"},
    ),
]
