"""Day 17: what goes wrong with the learning rate."""

from course.judging.misconceptions import of

MISCONCEPTIONS = of(
    "rate",
    {
        "falls_from_the_peak": (
            "After the warm-up you count the steps from the peak. The learning rate decays like 1/√step, where step counts from the beginning of training. "
            "With your count it jumps at the peak and then decays too fast.",
            {"min(step**-0.5, _)": "_ if step < warmup else (step - warmup + 1) ** -0.5"},
        ),
        # --- the two curves
        "larger_curve": (
            "You take the larger of the two curves. It is very large in the first step, smallest where the peak should be, and then grows without limit. "
            "The learning rate is the *smaller* of the two.",
            {"min(step**-0.5, _)": "max(step**-0.5, _)"},
        ),
        "warm_up_never_ends": (
            "Your learning rate rises forever: the curve that decays like 1/√step is missing, or is never the smaller of the two.",
            {"return _ * ...": "return _ * step * warmup**-1.5"},
        ),
        "no_warm_up": (
            "Your learning rate decays from the first step on: the rising line is missing, or is never the smaller of the two.",
            {"min(step**-0.5, ...)": "step**-0.5"},
        ),
        "flat_after_the_warm_up": (
            "Your learning rate stays constant after the warm-up. It should decay like 1/√step.",
            {"step**-0.5": "warmup**-0.5"},
        ),
        "warm_up_by_the_root": (
            "Your line rises as step / √warmup, which exceeds the other curve long before the warm-up ends. The two curves must meet at `step = warmup`, "
            "which needs a different power of `warmup`: set the curves equal to find it.",
            {"warmup**-1.5": "warmup**-0.5"},
        ),
        "brackets": (
            "You raise the product of step and warmup to the power −1.5. Only `warmup` has this power, because a power binds more tightly than a product.",
            {"step * warmup**-1.5": "(step * warmup) ** -1.5"},
        ),
        "step_and_warm_up_swapped": (
            "You swapped `step` and `warmup` in the rising line. The power −1.5 belongs to `warmup`, and the line is proportional to `step`.",
            {"step * warmup**-1.5": "warmup * step**-1.5"},
        ),
        "root_of_the_step": (
            "You multiply by √step instead of dividing by it: check the sign of the power. The learning rate must decay after the warm-up.",
            {"step**-0.5": "step**0.5"},
        ),
        "falls_like_one_over_step": (
            "Your learning rate decays like 1/step after the warm-up. It should decay like 1/√step: four times as many steps give half the learning rate.",
            {"step**-0.5": "step**-1.0"},
        ),
        "peak_of_one": (
            "Your learning rate is 1 at its peak (times factor and width). In the paper the length of the warm-up determines the peak: 1/√warmup.",
            {"min(step**-0.5, ...)": "min((warmup / step) ** 0.5, step / warmup)"},
        ),
        "warm_up_of_4000": (
            "Your warm-up takes 4000 steps, whatever `warmup` is. That is the paper's value; here it is an argument.",
            {"warmup**-1.5": "4000**-1.5"},
        ),
        # --- where one begins to count
        "counted_from_0": (
            "You count one step too many: at each step you return the learning rate of the next step. Here steps count from 1. Only step 0, which a scheduler "
            "passes before the first step, is treated as step 1.",
            {"max(step, 1)": "step + 1"},
        ),
        "rate_0_at_step_0": (
            "Your learning rate at step 0 is 0. PyTorch's schedulers pass step 0 first and use the result for the first optimizer step, which would then "
            "change nothing. Return the learning rate of step 1.",
            {"step = max(step, 1)": "if step == 0:\n    return 0.0"},
        ),
        "fails_at_step_0": (
            "At step 0 you raise 0 to a negative power, which is a division by zero. PyTorch's schedulers pass step 0 as soon as they are created. Treat step "
            "0 as step 1.",
            {"step = max(step, 1)": ""},
        ),
        # --- factor and width
        "factor_forgotten": (
            "Your learning rate does not depend on `factor`. The factor multiplies the result, before and after the peak.",
            {"factor * _": "_"},
        ),
        "doubled": (
            "Your learning rate is twice what it should be, at every step. tensor2tensor multiplied the paper's formula by 2, and some code copied this. Here "
            "such a number is the argument `factor`, so leave out the 2.",
            {"return _": "return 2 * _"},
        ),
        "width_forgotten": (
            "Your learning rate does not depend on the width of the model. Wider models use smaller steps: divide by √model_size.",
            {"factor * ...": "factor"},
        ),
        "width_of_512": (
            "Your learning rate is that of a model of width 512, whatever `model_size` is.",
            {"model_size**-0.5": "512**-0.5"},
        ),
        "width_multiplied": (
            "You multiply by √model_size, so a wider model uses larger steps. Check the sign of the power: a wider model should use smaller steps.",
            {"model_size**-0.5": "model_size**0.5"},
        ),
        # --- what comes back
        "in_float32": (
            "You compute in float32, so your learning rate has seven correct digits, while a Python float has sixteen. No tensor is needed here.",
            {"return _": "import torch\nreturn float(torch.tensor(_))"},
        ),
    },
)
