"""Day 17: what goes wrong with the learning rate."""

from course.judging.misconceptions import of

MISCONCEPTIONS = of(
    "rate",
    {
        "falls_from_the_peak": (
            "After the warm-up you count steps anew. The rate falls like 1/√step of all the steps that there were, not of those since the warm-up; as it is, "
            "it jumps at the peak, and then falls too fast.",
            {"min(step**-0.5, _)": "_ if step < warmup else (step - warmup + 1) ** -0.5"},
        ),
        # --- the two curves
        "larger_curve": (
            "You take the larger of the two curves. It is enormous in the first step, smallest where it should be highest, and then grows without end: the "
            "*smaller* of the two is the rate.",
            {"min(step**-0.5, _)": "max(step**-0.5, _)"},
        ),
        "warm_up_never_ends": (
            "Your rate goes up for ever: the curve that falls like 1/√step is not there, or never wins.",
            {"return _ * ...": "return _ * step * warmup**-1.5"},
        ),
        "no_warm_up": (
            "Your rate falls from the first step on: the line that goes up is not there, or never wins. The first steps are when a large rate does most harm.",
            {"min(step**-0.5, ...)": "step**-0.5"},
        ),
        "flat_after_the_warm_up": (
            "Your rate stays where it is once the warm-up is over. It should fall again, like 1/√step.",
            {"step**-0.5": "warmup**-0.5"},
        ),
        "warm_up_by_the_root": (
            "Your line rises as step / √warmup, which passes the other curve long before the warm-up ends. For the two to meet at `step = warmup` the line "
            "needs a larger power of the warm-up: set them equal, and see which.",
            {"warmup**-1.5": "warmup**-0.5"},
        ),
        "warm_up_as_a_share": (
            "Your line is step / warmup, which reaches 1 at the end of the warm-up. The other curve is at 1/√warmup there, and the two have to meet.",
            {"warmup**-1.5": "warmup**-1.0"},
        ),
        "warm_up_multiplied": (
            "You multiply the falling curve by the share of the warm-up that is done, so that your warm-up bends like √step. It is a straight line: the "
            "falling curve has no part in it yet.",
            {"return _ * ...": "return _ * step**-0.5 * min(1.0, step / warmup)"},
        ),
        "brackets": (
            "You raise step · warmup to the power −1.5, both together. Only the warm-up is raised to it: a power binds more tightly than a product.",
            {"step * warmup**-1.5": "(step * warmup) ** -1.5"},
        ),
        "step_and_warm_up_swapped": (
            "In your line step and warm-up have changed places: it is the warm-up that has the power −1.5, and the line goes up with the step.",
            {"step * warmup**-1.5": "warmup * step**-1.5"},
        ),
        "root_of_the_step": (
            "You multiply by √step where you should divide by it: mind the sign of the power. The rate has to fall after the warm-up.",
            {"step**-0.5": "step**0.5"},
        ),
        "falls_like_one_over_step": (
            "Your rate falls like 1/step after the warm-up. It is the root of the step that counts: four times as many steps, half the rate.",
            {"step**-0.5": "step**-1.0"},
        ),
        "falls_from_the_peak_anew": (
            "After the warm-up you count the steps from there, 1/√(step − warmup). The falling curve counts all steps, from the very first, or the rate jumps "
            "at the peak.",
            {"min(step**-0.5, _)": "_ if step <= warmup else (step - warmup) ** -0.5"},
        ),
        "falls_in_a_line": (
            "Your rate falls in a straight line and reaches 0. It should fall like 1/√step, ever more slowly, and never reach 0.",
            {"min(step**-0.5, _)": "_ if step <= warmup else warmup**-0.5 * max(0.0, 2 - step / warmup)"},
        ),
        "peak_of_one": (
            "Your rate is 1 at its peak (times factor and width). In the paper the warm-up's length decides how high the peak is: 1/√warmup.",
            {"min(step**-0.5, ...)": "min((warmup / step) ** 0.5, step / warmup)"},
        ),
        "starts_one_over_warm_up_late": (
            "Your warm-up ends a step later than `warmup` says. The rate is highest *at* that step.",
            {"warmup**-1.5": "(warmup + 1) ** -1.5"},
        ),
        "warm_up_of_4000": (
            "Your warm-up takes 4000 steps whatever the caller says. That is the paper's number; here it is an argument.",
            {"warmup**-1.5": "4000**-1.5"},
        ),
        "whole_division": (
            "You divide whole numbers with `//`, which throws away what is behind the point: during the warm-up nothing is left.",
            {"step * warmup**-1.5": "(step // warmup) * warmup**-0.5"},
        ),
        # --- where one begins to count
        "counted_from_0": (
            "You count one step too many: your rate of a step is that of the next. Steps count from 1 here; only step 0, which a scheduler asks for before the "
            "first, is treated as step 1.",
            {"max(step, 1)": "step + 1"},
        ),
        "rate_0_at_step_0": (
            "Your rate at step 0 is 0. torch's schedulers ask for step 0 first and use what they get for the first step, which would then change nothing. It "
            "should be the rate of step 1.",
            {"step = max(step, 1)": "if step == 0:\n    return 0.0"},
        ),
        "fails_at_step_0": (
            "At step 0 you raise 0 to a negative power, which is a division by 0. torch's schedulers ask for step 0 as soon as they are made: step 0 counts as "
            "step 1.",
            {"step = max(step, 1)": ""},
        ),
        # --- factor and width
        "factor_forgotten": (
            "Your rate does not depend on `factor`. All of it is multiplied by the factor, before the peak and after.",
            {"factor * _": "_"},
        ),
        "factor_under_the_root": (
            "Your factor stands under the root together with the width, so that a larger factor makes the rate smaller. It multiplies the whole.",
            {"factor * ...": "(factor * model_size) ** -0.5"},
        ),
        "factor_on_the_warm_up_only": (
            "Your factor multiplies the line of the warm-up only. The curve that falls needs it too, or the two no longer meet at the end of the warm-up.",
            {"factor * _": "_", "step * _": "factor * step * _"},
        ),
        "factor_after_the_warm_up_only": (
            "Your factor multiplies the falling curve only. The line of the warm-up needs it too, or the two no longer meet at the end of the warm-up.",
            {"factor * _": "_", "step**-0.5": "factor * step**-0.5"},
        ),
        "width_forgotten": (
            "Your rate does not depend on the width of the model. Wider models take smaller steps: divide by √model_size.",
            {"factor * ...": "factor"},
        ),
        "width_of_512": (
            "Your rate is that of a model of width 512, whatever `model_size` says.",
            {"model_size**-0.5": "512**-0.5"},
        ),
        "width_not_rooted": (
            "You divide by the width itself. Its root is meant: a model four times as wide has half the rate.",
            {"model_size**-0.5": "model_size**-1.0"},
        ),
        "width_multiplied": (
            "You multiply by √model_size, and so a wider model takes larger steps. Mind the sign of the power: it takes smaller ones.",
            {"model_size**-0.5": "model_size**0.5"},
        ),
        # --- what comes back
        "in_float32": (
            "You compute in float32: your rate has seven right digits where a Python float has sixteen. There is no tensor in this: ordinary numbers will do.",
            {"return _": "import torch\nreturn float(torch.tensor(_))"},
        ),
        "tensor": (
            "Your rate is a tensor. Optimisers and schedulers want a plain number: a float.",
            {"return _": "import torch\nreturn torch.tensor(_)"},
        ),
        "rounded": (
            "You round the rate. Late in a long run, and in the first steps, hardly a digit is left of it.",
            {"return _": "return round(_, 6)"},
        ),
    },
)
