"""Day 41: where decay goes, what is corrected, whose state it is; which norm, which dtype, which factor."""

from course.judging.misconceptions import of, on_devices

ELSEWHERE = "self.__dict__.setdefault('memory', {}).setdefault(parameter, {})"
FIND_STATE = "state = self.state[parameter]"
SKIPPED = "if parameter.grad is None:\n    continue"
AS_ZEROS = "if parameter.grad is None:\n    parameter.grad = torch.zeros_like(parameter)"
STATE_ELSEWHERE = (
    "Your running means are not in `self.state`. So they are not in the state dict either, and a resumed run starts without them.",
    {FIND_STATE: f"state = {ELSEWHERE}"},
)
NONE_AS_ZEROS = (
    "You treat a gradient of None as zeros. A parameter that is not part of the loss then moves: it decays, or its running mean of old gradients moves it. "
    "Skip such a parameter.",
    {SKIPPED: AS_ZEROS},
)
ZEROS_SKIPPED = (
    "You skip a gradient of zeros as if it were missing. Only None means that a parameter has no gradient: a gradient of zeros is a step, in which the "
    "weights decay and the running means still move them.",
    {SKIPPED: "if parameter.grad is None or not parameter.grad.any():\n    continue"},
)
NOT_IN_PLACE = (
    "You give the parameter new memory (`parameter.data = …`). A flat buffer or a tied view that shares the old memory no longer sees your step. Change the "
    "parameter in place.",
    {"parameter.sub_(_)": "parameter.data = parameter - _"},
)
DECAY = "4: parameter.mul_(...)"
COUPLED = "gradient = parameter.grad + group['weight_decay'] * parameter"
RATE_FROM_THE_CONSTRUCTOR = (
    "You use the learning rate from the constructor. The learning rate of this step is in the group: groups set their own, and schedulers change it.",
    {"step(): for group in self.param_groups:\n    _": "for group in self.param_groups:\n    group = group | {'lr': self.defaults['lr']}\n    _"},
)
DECAY_WITHOUT_RATE = (
    "Your weights shrink by λ in every step. They should shrink by η·λ, so that the decay slows down with the learning rate.",
    {DECAY: "parameter.mul_(1 - group['weight_decay'])"},
)
DECAY_FORGOTTEN = ("Your weights do not decay: your step is right only if the weight decay is 0.", {DECAY: ""})

MISCONCEPTIONS = [
    *of(
        "AdamW",
        {
            # --- where decay goes
            "decay_in_the_gradient": (
                "You add the decay to the gradient. Adam then divides the decay by the size of the gradient, too, and a weight with large gradients hardly "
                "decays: that is L2 regularization. AdamW decays the weights directly.",
                {
                    DECAY: COUPLED,
                    "mean.lerp_(parameter.grad, _)": "mean.lerp_(gradient, _)",
                    "square.lerp_(parameter.grad.square(), _)": "square.lerp_(gradient.square(), _)",
                },
            ),
            "decay_without_the_rate": DECAY_WITHOUT_RATE,
            "decay_after_the_step": (
                "You decay the weights after the step, so part of the step decays, too. Decay the weights first.",
                {DECAY: "", "parameter.sub_(_)": "parameter.sub_(_)\nparameter.mul_(1 - group['lr'] * group['weight_decay'])"},
            ),
            "decay_forgotten": DECAY_FORGOTTEN,
            # --- both means
            "not_corrected": (
                "You use both running means as they are. Both start at 0, and the second stays near 0 for longer than the first. Without the correction, the "
                "first steps have the wrong size.",
                {"mean / ...": "mean", "square / ...": "square"},
            ),
            "second_not_corrected": (
                "You correct only the first running mean. The second starts at 0 as well, and stays too small for even longer.",
                {"square / ...": "square"},
            ),
            "betas_swapped": (
                "You have swapped the betas. β₁ belongs to the mean of the gradients, β₂ to the mean of their squares.",
                {"beta_1, beta_2 = _": "beta_2, beta_1 = _"},
            ),
            "gradients_summed": (
                "You add the full gradient to β₁ times the old mean. This is the momentum of SGD, a sum that is up to 1 / (1 − β₁) times as large as a mean.",
                {"mean.lerp_(parameter.grad, ...)": "mean.mul_(beta_1).add_(parameter.grad)"},
            ),
            # --- the denominator
            "root_forgotten": (
                "You divide by the mean of the squares, not by its square root. The step then depends on the scale of the gradients, which the division was "
                "meant to remove.",
                {"(_).sqrt()": "_"},
            ),
            "epsilon_within_the_root": (
                "You add ε before you take the root. This has the effect of √ε, which is ten thousand times as large for ε = 10⁻⁸.",
                {"(_).sqrt()": "(_ + group['eps']).sqrt()", "size + group['eps']": "size"},
            ),
            "epsilon_before_the_correction": (
                "You add ε to the root of the uncorrected second moment, as in the short form at the end of §2 of the Adam paper. In the first steps, ε then "
                "counts for much more.",
                {"_ * unbiased / (...)": "_ * unbiased * (1 - beta_2 ** state['step']) ** 0.5 / (square.sqrt() + group['eps'])"},
            ),
            # --- which step it is, and whose
            "one_count_for_all": (
                "You count the steps of all parameters together. A parameter that gets its first gradient later is corrected as if its means had been running all along.",
                {
                    "beta_1, beta_2 = _": "beta_1, beta_2 = _\ngroup['count'] = group.get('count', 0) + 1",
                    "state['step'] += 1": "state['step'] = group['count']",
                },
            ),
            "counts_from_2": (
                "You correct the first step as if it were the second. t counts from 1: the first step is corrected by 1 − β₁ and 1 − β₂.",
                {"state['step'] = 0": "state['step'] = 1"},
            ),
            "count_outside_the_state": (
                "You count the steps in an attribute of the optimizer, which its state dict does not contain, so a resumed run corrects its means as if they "
                "were new.",
                {
                    "1: loss = None": "loss = None\nself.count = getattr(self, 'count', 0) + 1",
                    "state['step'] += 1": "state['step'] = self.count",
                },
            ),
            "rate_from_the_constructor": RATE_FROM_THE_CONSTRUCTOR,
            "none_as_zeros": NONE_AS_ZEROS,
            "zeros_skipped": ZEROS_SKIPPED,
            "state_elsewhere": STATE_ELSEWHERE,
            # --- what is changed
            "not_in_place": NOT_IN_PLACE,
            "gradient_squared_in_place": (
                "Your step is right, but you square the gradient in place. The gradient belongs to the caller, who may still clip it, log it or add to it.",
                {"parameter.grad.square()": "parameter.grad.square_()"},
            ),
        },
    ),
    *of(
        "orthogonalize",
        {
            # --- the norm
            "not_divided": (
                "You do not divide by the norm first. The polynomial brings only singular values from 0 to 1 near 1; larger ones explode.",
                {"x = x / ...": ""},
            ),
            "spectral_norm": (
                "You divide by the largest singular value. Divide by the Frobenius norm: it is never smaller, and does not need a decomposition.",
                {"x.norm()": "torch.linalg.matrix_norm(x, 2)"},
            ),
            "small_number_added": (
                "You add 10⁻⁷ to the norm. Instead, replace the norm by 10⁻⁷ only if it is smaller.",
                {"x.norm().clamp(min=1e-7)": "(x.norm() + 1e-7)"},
            ),
            "zeros_divided": (
                "You turn a matrix of zeros into NaN. Its norm is 0, so divide by at least 10⁻⁷.",
                {"_.clamp(min=1e-7)": "_"},
            ),
            # --- the polynomial
            "classical_coefficients": (
                "You iterate 1.5·X − 0.5·X Xᵀ X, the classical Newton–Schulz iteration. It converges exactly, but needs many more steps for small singular "
                "values.",
                {"a, b, c = ...": "a, b, c = 1.5, -0.5, 0.0"},
            ),
            "b_and_c_swapped": (
                "You have swapped b and c: b is the factor of X Xᵀ, and c the factor of its square.",
                {"b * gram + c * gram @ gram": "c * gram + b * gram @ gram"},
            ),
            "squared_by_entries": (
                "You square the entries of X Xᵀ. The square of a matrix is its product with itself.",
                {"c * gram @ gram": "c * gram * gram"},
            ),
            "exactly_orthogonal": (
                "Your singular values are exactly 1, as after a singular value decomposition. Newton–Schulz brings them only near 1, between about 0.7 and "
                "1.2.",
                {"for _ in range(steps):\n    ...": "u, s, v = torch.linalg.svd(x, full_matrices=False)\nx = (u * (s > 1e-6)) @ v"},
            ),
            "one_step_short": (
                "You apply the polynomial one time too few.",
                {"range(steps)": "range(1, steps)"},
            ),
            # --- shapes and dtypes
            "left_transposed": (
                "You return a tall matrix as a wide one. If you transpose it to save work, transpose it back at the end.",
                {"x.T if tall else x": "x"},
            ),
            "in_bfloat16": (
                "You compute in bfloat16, as PyTorch's and the original Muon do on GPUs. The result then has only two or three correct digits. Compute at "
                "least in float32.",
                {"matrix.to(...)": "matrix.bfloat16()"},
            ),
            "always_float32": (
                "You compute in float32 even if the matrix is float64, so half of the digits are lost.",
                {"matrix.to(...)": "matrix.float()"},
            ),
            "left_in_float32": (
                "You always return float32. The result should have the dtype of the matrix.",
                {"_.to(matrix.dtype)": "_"},
            ),
            "divided_in_place": (
                "You divide the matrix in place, so you change the caller's matrix. In an optimizer, that is the gradient or the running mean.",
                {"x = x / _": "x.div_(_)"},
            ),
        },
    ),
    *of(
        "Muon",
        {
            # --- the size of the step
            "factor_forgotten": (
                "Your step is the orthogonalized matrix times η. The larger the matrix is, the smaller the entries of this step are; the factor 0.2·√max(m, "
                "n) makes up for that.",
                {"scale = ...": "scale = 1.0"},
            ),
            "original_factor": (
                "You scale by √max(1, m/n), the factor of the original Muon. Here the factor is 0.2·√max(m, n), so that AdamW and Muon can share a learning "
                "rate.",
                {"scale = ...": "scale = math.sqrt(max(1, parameter.size(0) / parameter.size(1)))"},
            ),
            "smaller_side": (
                "Your factor uses the smaller side of the matrix. The larger side determines how small the entries are.",
                {"max(parameter.shape)": "min(parameter.shape)"},
            ),
            "rows_alone": (
                "Your factor uses √m, the root of the number of rows. Use the larger of the two sides.",
                {"max(parameter.shape)": "parameter.size(0)"},
            ),
            # --- momentum
            "not_orthogonalized": (
                "Your step is the running mean itself: SGD with momentum. Muon orthogonalizes it first.",
                {"orthogonalize(ahead)": "ahead"},
            ),
            "orthogonalized_before_the_mean": (
                "You orthogonalize each gradient, and then average. The average of orthogonal matrices is not orthogonal. Update the running mean first, "
                "then call `orthogonalize`.",
                {
                    FIND_STATE: f"{FIND_STATE}\ngradient = orthogonalize(parameter.grad)",
                    "_.lerp_(parameter.grad, 1 - momentum)": "_.lerp_(gradient, 1 - momentum)",
                    "parameter.grad.lerp(_, momentum)": "gradient.lerp(_, momentum)",
                    "orthogonalize(ahead)": "ahead",
                },
            ),
            "not_ahead": (
                "You orthogonalize the running mean itself. Muon looks one step ahead (Nesterov): it mixes the gradient into the mean a second time.",
                {"orthogonalize(ahead)": "orthogonalize(buffer)"},
            ),
            "sum_and_mean_mixed": (
                "Your B is a sum, μ·B + G, but you look ahead as if it were a mean. Both forms exist; with the sum, you have to orthogonalize G + μ·B.",
                {"_.lerp_(parameter.grad, 1 - momentum)": "_.mul_(momentum).add_(parameter.grad)"},
            ),
            "begins_with_the_first_gradient": (
                "Your B is initialized to the first gradient. Here it is initialized to 0, so the first gradient gets the weight 1 − μ, like each later one.",
                {"torch.zeros_like(parameter)": "parameter.grad.clone()"},
            ),
            # --- decay
            "decay_with_the_factor": (
                "Your decay contains the factor 0.2·√max(m, n). That factor belongs to the step only; the decay is η·λ for matrices of every shape.",
                {DECAY: "parameter.mul_(1 - group['lr'] * 0.2 * math.sqrt(max(parameter.shape)) * group['weight_decay'])"},
            ),
            "muons_decay_without_the_rate": DECAY_WITHOUT_RATE,
            # --- whose state, which settings
            "muons_none_as_zeros": NONE_AS_ZEROS,
            "muons_zeros_skipped": ZEROS_SKIPPED,
            "muons_state_elsewhere": STATE_ELSEWHERE,
            # --- what is changed
            "muons_not_in_place": NOT_IN_PLACE,
            "gradient_looks_ahead_in_place": (
                "Your step is right, but you mix the running mean into the gradient in place. The gradient belongs to the caller, who may still log it or add to it.",
                {"parameter.grad.lerp(_, momentum)": "parameter.grad.lerp_(_, momentum)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "AdamW",
        {
            "means_on_the_cpu": (
                "Your running means are always on the CPU. `torch.zeros_like` creates them on the device of the parameter, in its dtype.",
                {"state['exp_avg'] = ...": "state['exp_avg'] = torch.zeros(parameter.shape, dtype=parameter.dtype)"},
            ),
        },
    ),
    *on_devices(
        "Muon",
        {
            "mean_on_the_cpu": (
                "Your running mean is always on the CPU. `torch.zeros_like` creates it on the device of the matrix, in its dtype.",
                {"torch.zeros_like(parameter)": "torch.zeros(parameter.shape, dtype=parameter.dtype)"},
            ),
        },
    ),
]
