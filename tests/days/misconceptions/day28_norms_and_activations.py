"""Day 28: what goes wrong with the norms of a vector and of its groups, with two curves, and with a gate."""

from course.judging.misconceptions import of

RMS_LEFT_IN_FLOAT32 = "In half precision your result is float32. Upcasting x is right, but cast the result back."
RMS_FLOAT64_NARROWED = "You always compute in float32. That is right for half precision, but float64 loses more than half of its sixteen digits."
RMS_EPS_FIXED = "Your ε is 1e-5 whatever the caller passes. Use the argument."
RMS_IN_PLACE = (
    "You write into x. The caller still needs x, for instance for the residual connection. (And PyTorch raises an error if x is a leaf that requires grad.)"
)
GELU_IN_PLACE = "You write your result into x. The caller may still need x. (And PyTorch raises an error if x is a leaf that requires grad.)"
MISCONCEPTIONS = [
    *of(
        "RMSNorm",
        {
            # --- RMSNorm: names and starts
            "rms_named_as_in_torch": (
                "Your parameter is called `weight`, as in `nn.RMSNorm`. Here the scale is called `gain`: the checks set weights by name.",
                """class RMSNorm(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
""",
            ),
            "rms_with_bias": (
                "Your norm has a bias. RMSNorm does not subtract the mean or add a bias: the gain is its only parameter.",
                {"self.eps = eps": "self.bias = nn.Parameter(torch.zeros(features))\nself.eps = eps", "_.to(x.dtype)": "(_ + self.bias).to(x.dtype)"},
            ),
            "rms_gain_is_no_parameter": (
                "Your gain is not an `nn.Parameter`. The model's `parameters()`, and so the optimizer, includes only parameters; a plain tensor or a buffer "
                "would never change.",
                {"nn.Parameter(_)": "_"},
            ),
            "rms_gain_plus_one": (
                "You multiply by 1 + gain, and initialize the gain to 0, as Gemma does. Here the gain itself is the factor, and it is initialized to 1.",
                {"torch.ones": "torch.zeros", "2: self.gain": "1 + self.gain"},
            ),
            # --- RMSNorm: halves
            "rms_rounded_before_the_gain": (
                "You cast the vectors to the dtype of x before you multiply by the gain, so they are rounded twice. And in mixed precision, where the gain is "
                "float32 and x is in half precision, the product becomes float32 again, like everything after it.",
                {"return ...": "return self.gain * normalized.to(x.dtype)"},
            ),
            "rms_left_in_float32": (
                RMS_LEFT_IN_FLOAT32,
                {"_.to(x.dtype)": "_"},
            ),
            "rms_float64_narrowed": (
                RMS_FLOAT64_NARROWED,
                {"wide = ...": "wide = x.float()"},
            ),
            "rms_in_halves": (
                "You square x in its own dtype. The largest float16 number is 65504, so the square of 256 is already infinite. The root is then infinite, "
                "too, and the entire vector becomes 0. Upcast half precision to float32 first.",
                {"wide = ...": "wide = x"},
            ),
            # --- RMSNorm: which numbers
            "rms_centred": (
                "You subtract the mean, so your norm is a LayerNorm without a bias. RMSNorm leaves the mean in the vector and saves its computation.",
                {"wide = _": "wide = _\nwide = wide - wide.mean(dim=-1, keepdim=True)"},
            ),
            "rms_sum_for_mean": (
                "You divide by the vector's length, the root of the *sum* of the squares. With the mean of the squares, each feature has a size of about 1; "
                "yours are too small by a factor of √n.",
                {"_.mean": "_.sum"},
            ),
            "rms_no_root": (
                "You divide by the mean square itself. Without the root, a vector twice as large gives a result half as large, instead of the same result.",
                {"_.rsqrt": "_.reciprocal"},
            ),
            "rms_over_everything": (
                "You take one mean square over the whole tensor. Take one for each vector, over its features.",
                {"dim=-1": "", "keepdim=True": ""},
            ),
            "rms_keepdim_forgotten": (
                "Your mean square has lost the axis over which it was computed, so it no longer lines up with x. A single vector works; a batch does not. "
                "Keep that axis, with length 1.",
                {"keepdim=True": ""},
            ),
            "rms_detached": (
                "Your results are right, but your gradients are wrong: you treat the mean square as a constant (`detach`, `no_grad`). It depends on x, so "
                "gradients must flow through it.",
                {"mean_square = _": "mean_square = _.detach()"},
            ),
            # --- RMSNorm: eps
            "rms_eps_outside_the_root": (
                "Your ε is added after the root. Add it to the mean square, under the root. The difference is large where the mean square is about as small "
                "as ε, and for a vector of zeros the gradient of the root alone is NaN.",
                {"wide * ...": "wide / (mean_square.sqrt() + self.eps)"},
            ),
            "rms_eps_forgotten": (
                "Your norm has no ε. A vector of zeros then gives 0 / 0, which is NaN.",
                {"mean_square + self.eps": "mean_square"},
            ),
            "rms_eps_fixed": (
                RMS_EPS_FIXED,
                {"self.eps": "1e-5"},
            ),
            # --- RMSNorm: the gain
            "rms_gain_forgotten": (
                "Your gain has no effect. Multiply the normalized vector by it.",
                {"self.gain * normalized": "normalized"},
            ),
            "rms_gain_before_norm": (
                "You multiply by the gain before you normalize, so the gain affects the mean square. Multiply after the division.",
                {"wide = _": "wide = _ * self.gain", "self.gain * normalized": "normalized"},
            ),
            "rms_in_place": (
                RMS_IN_PLACE,
                {"return _": "x.copy_(normalized)\nreturn _"},
            ),
        },
    ),
    *of(
        "GroupNorm",
        {
            # --- GroupNorm: names and starts
            "group_named_as_in_torch": (
                "Your parameters are called `weight` and `bias`, as in `nn.GroupNorm`. Here the scale is called `gain`: the checks set weights by name.",
                """class GroupNorm(nn.Module):
    def __init__(self, groups, features, eps):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        seen = x.reshape(-1, x.size(-1))
        seen = nn.functional.group_norm(seen, self.groups, self.weight, self.bias, self.eps)
        return seen.reshape(x.shape)
""",
            ),
            # --- GroupNorm: halves
            "group_rounded_before_the_gain": (
                "You cast back to the dtype of x before you apply gain and bias. In mixed precision, where both are float32 and x is in half precision, the "
                "result becomes float32 again, like everything after it.",
                {"return ...": "return self.gain * normalized.to(x.dtype) + self.bias"},
            ),
            "group_left_in_float32": (
                RMS_LEFT_IN_FLOAT32,
                {"_.to(x.dtype)": "_"},
            ),
            "group_float64_narrowed": (
                RMS_FLOAT64_NARROWED,
                {"wide = ...": "wide = x.float()"},
            ),
            "group_in_halves": (
                "You square in the dtype of x. The largest float16 number is 65504, so the square of 256 is already infinite, and dividing by its root gives "
                "0. Upcast half precision to float32 first.",
                {"wide = ...": "wide = x"},
            ),
            # --- GroupNorm: which numbers
            "group_interleaved": (
                "You assign features to groups in turn: feature i is in group i mod G. A group should consist of consecutive features: the first n / G "
                "features, then the next n / G, and so on.",
                {"split = ...": "split = wide.unflatten(-1, (-1, self.groups)).transpose(-2, -1)", "_.flatten": "_.transpose(-2, -1).flatten"},
            ),
            "group_size_for_number": (
                "You treat `groups` as the size of a group. It is the number of groups G; the size is n / G.",
                {"(self.groups, ...)": "(-1, self.groups)"},
            ),
            "group_all_features": (
                "You normalize all features of a vector together, as LayerNorm does. Each group should have its own mean and variance.",
                {"split = ...": "split = wide.unsqueeze(-2)"},
            ),
            "group_over_everything": (
                "You take one mean and one variance per group over the whole batch. Each token should have its own; otherwise a sentence gets a different "
                "result in another batch.",
                {
                    "split - ...": "split - split.mean(dim=(*range(x.dim() - 1), -1), keepdim=True)",
                    "variance = ...": "variance = centered.square().mean(dim=(*range(x.dim() - 1), -1), keepdim=True)",
                },
            ),
            "group_view_of_rows": (
                "You turn the tokens into rows with `view`, which raises an error for a transposed tensor, because its memory is not contiguous. `reshape` "
                "copies where necessary, and splitting only the last axis needs no copy.",
                {"wide.unflatten(-1, (self.groups, _))": "wide.view(-1, self.groups, _)", "_.flatten(-2)": "_.view(x.shape)"},
            ),
            # --- GroupNorm: the variance
            "group_unbiased": (
                "Your variance divides by n/G − 1, the default of PyTorch's `var` and `std`. GroupNorm divides by the group's size, n/G. With a single "
                "feature per group, you divide by 0.",
                {"centered.square().mean": "split.var"},
            ),
            "group_variance_by_difference": (
                "Your variance is the mean of the squares minus the square of the mean. That is right on paper, but with a mean of 1000 and a standard "
                "deviation of 0.1, float32 cannot resolve the difference. Subtract the mean first, then square.",
                {"variance = ...": "variance = split.square().mean(dim=-1, keepdim=True) - split.mean(dim=-1, keepdim=True).square()"},
            ),
            "group_not_centred": (
                "You do not subtract the mean, so your norm is RMSNorm in groups. GroupNorm centers each group first.",
                {"split - ...": "split"},
            ),
            "group_statistics_detached": (
                "Your results are right, but your gradients are wrong: you treat the mean and the standard deviation as constants (`detach`, `no_grad`). Both "
                "depend on x, so gradients must flow through them.",
                {"split - _": "split - _.detach()", "variance = _": "variance = _.detach()"},
            ),
            # --- GroupNorm: eps, gain and bias
            "group_eps_outside_the_root": (
                "Your ε is added to the standard deviation, after the root. Add it to the variance, under the root. The difference is large where the "
                "variance is about as small as ε, and at variance 0 the gradient of the root alone is NaN.",
                {"centered * ...": "centered / (variance.sqrt() + self.eps)"},
            ),
            "group_eps_forgotten": (
                "Your norm has no ε. A group of equal numbers has variance 0, and 0 / 0 is NaN. With ε, the result is the bias.",
                {"variance + self.eps": "variance"},
            ),
            "group_eps_fixed": (
                RMS_EPS_FIXED,
                {"self.eps": "1e-5"},
            ),
            "group_in_place": (
                RMS_IN_PLACE,
                {"return _": "x.copy_(normalized)\nreturn _"},
            ),
        },
    ),
    *of(
        "gelu",
        {
            # --- gelu
            "gelu_curves_exchanged": (
                'You swapped the two curves: "none" is the definition, with the error function, and "tanh" is the approximation. They differ by less than '
                "0.001, but a model trained with one curve should run with the same curve.",
                {"2: 'none'": "'tanh'"},
            ),
            "gelu_always_exact": (
                'You always return the definition. `approximate="tanh"` selects the approximation, with which GPT-2 was trained.',
                {"approximate == 'none'": "True"},
            ),
            "gelu_two_over_pi_without_root": (
                "The factor in your tanh is 2/π. It should be √(2/π) ≈ 0.8, so that the approximation has the same slope at 0 as the error function.",
                {"math.sqrt(2 / math.pi)": "2 / math.pi"},
            ),
            "gelu_cube_outside_the_factor": (
                "Your factor √(2/π) multiplies only x. It must multiply the cubic term, too: the parenthesis closes after x³.",
                {"_ * (wide + ...)": "_ * wide + 0.044715 * wide**3"},
            ),
            "gelu_cubic_term_forgotten": (
                "Your tanh lacks the cubic term, 0.044715 · x³.",
                {"wide + ...": "wide"},
            ),
            "gelu_tanh_written_out": (
                "Your approximate curve is NaN for large features. That happens if you write out tanh with exponentials: they overflow, and ∞/∞ is not a "
                "number. `torch.tanh` avoids this.",
                {"signed = (... * _).tanh()": "twice = (2 * math.sqrt(2 / math.pi) * _).exp()\nsigned = (twice - 1) / (twice + 1)"},
            ),
            "gelu_erf_of_x": (
                "You take erf(x). The share of the normal distribution below x is ½ (1 + erf(x / √2)), because erf is defined for a narrower distribution.",
                {"wide / math.sqrt(2)": "wide"},
            ),
            "gelu_always_by_sigmoid": (
                'Both your curves are x · σ(1.702 x), a third form, from the same paper. This form is off by up to 0.02. "none" should use the error '
                'function, and "tanh" the form with the cubic term.',
                {"(wide / math.sqrt(2)).erf()": "2 * (1.702 * wide).sigmoid() - 1", "signed = (... * _).tanh()": "signed = 2 * (1.702 * wide).sigmoid() - 1"},
            ),
            "gelu_half_forgotten": (
                "Your share of x runs from 0 to 2. It should be half of 1 + erf(…), or of 1 + tanh(…).",
                {"wide * 0.5": "wide"},
            ),
            "gelu_in_halves": (
                "You compute in the dtype of x. For negative x you add 1 to a number near −1, and in half precision hardly any digit of the difference is "
                "left: the left tail is noise. Upcast half precision to float32 first.",
                {"wide = ...": "wide = x"},
            ),
            "gelu_left_in_float32": (
                RMS_LEFT_IN_FLOAT32,
                {"_.to(x.dtype)": "_"},
            ),
            "gelu_float64_narrowed": (
                RMS_FLOAT64_NARROWED,
                {"wide = ...": "wide = x.float()"},
            ),
            "gelu_number_by_number": (
                "You loop over the features, and `torch.stack` raises an error for an empty list. A tensor without entries must work, too. A function that "
                "acts on each feature needs no loop.",
                {"return _": "return torch.stack(list(_.flatten())).view(x.shape)"},
            ),
            "gelu_in_place": (
                GELU_IN_PLACE,
                {"_.to(x.dtype)": "x.copy_(_)"},
            ),
        },
    ),
    *of(
        "mish",
        {
            # --- mish
            "mish_softplus_written_out": (
                "Your gradient is NaN for large features. That happens if you write out the softplus with eˣ and `log` or `log1p`: from x = 89 on, eˣ is "
                "infinite in float32, and 0 · ∞ is not a number. PyTorch has a softplus that does not compute eˣ where x is large.",
                {"F.softplus(wide)": "(1 + wide.exp()).log()"},
            ),
            "mish_is_swish": (
                "You multiply x by σ(x), which is Swish, a similar activation. Mish multiplies x by the tanh of the softplus of x.",
                {"softplus.tanh": "wide.sigmoid"},
            ),
            "mish_tanh_of_x": (
                "You multiply the softplus of x by the tanh of x. Multiply x by the tanh of its softplus instead.",
                {"wide * softplus.tanh()": "softplus * wide.tanh()"},
            ),
            "mish_x_forgotten": (
                "You return tanh(softplus(x)), a share between 0 and 1. Multiply x by this share.",
                {"wide * _": "_"},
            ),
            "mish_relu_for_softplus": (
                "Your softplus is max(0, x), which cuts off everything below 0. The softplus is smooth, and ln 2 at x = 0.",
                {"F.softplus(wide)": "wide.relu()"},
            ),
            "mish_in_halves": (
                "You compute in the dtype of x. For negative x, the softplus adds a small eˣ to 1, and in half precision hardly any digit of eˣ is left. "
                "Upcast half precision to float32 first.",
                {"wide = ...": "wide = x", "F.softplus(wide)": "(1 + wide.exp()).log()"},
            ),
            "mish_left_in_float32": (
                RMS_LEFT_IN_FLOAT32,
                {"_.to(x.dtype)": "_"},
            ),
            "mish_float64_narrowed": (
                RMS_FLOAT64_NARROWED,
                {"wide = ...": "wide = x.float()"},
            ),
            "mish_number_by_number": (
                "You loop over the features, and `torch.stack` raises an error for an empty list. A tensor without entries must work, too. A function that "
                "acts on each feature needs no loop.",
                {"return _": "return torch.stack(list(_.flatten())).view(x.shape)"},
            ),
            "mish_in_place": (
                GELU_IN_PLACE,
                {"_.to(x.dtype)": "x.copy_(_)"},
            ),
        },
    ),
    *of(
        "SwiGLU",
        {
            # --- SwiGLU: the layers
            "swiglu_named_as_in_llama": (
                "Your layers are called `w1`, `w2` and `w3`, as in LLaMA's own code. Here they are called `w_gate`, `w_down` and `w_up`: the checks set "
                "weights by name.",
                """class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False)
        self.w2 = nn.Linear(d_ff, d_model, bias=False)
        self.w3 = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))
""",
            ),
            "swiglu_one_matrix_up": (
                "Gate and up are one layer of twice the width in your answer, `w_gate_up`, which computes the same in one product. Here they are two layers, "
                "called `w_gate` and `w_up`.",
                """class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate_up = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate, up = self.w_gate_up(x).chunk(2, dim=-1)
        return self.w_down(nn.functional.silu(gate) * up)
""",
            ),
            "swiglu_with_biases": (
                "Your layers have biases, the default of `nn.Linear`. Equation 6 has three matrices and no biases.",
                {
                    "self.w_gate = ...": "self.w_gate = nn.Linear(d_model, d_ff)",
                    "self.w_up = ...": "self.w_up = nn.Linear(d_model, d_ff)",
                    "nn.Linear(d_ff, d_model, bias=False)": "nn.Linear(d_ff, d_model)",
                },
            ),
            "swiglu_two_thirds_taken_inside": (
                "Your hidden layer is ⅔ of d_ff wide. To keep the parameter count of an ordinary network, the caller already passes ⅔ of the old width. Here "
                "d_ff is the width of the hidden layer.",
                {
                    "self.w_gate = ...": "self.w_gate = nn.Linear(d_model, int(2 * d_ff / 3), bias=False)",
                    "self.w_up = ...": "self.w_up = nn.Linear(d_model, int(2 * d_ff / 3), bias=False)",
                    "nn.Linear(d_ff, d_model, bias=False)": "nn.Linear(int(2 * d_ff / 3), d_model, bias=False)",
                },
            ),
            # --- SwiGLU: the gate
            "swiglu_gate_and_up_exchanged": (
                "You swapped the two projections: Swish must be applied to the output of `w_gate`. A model trained your way is just as good, but published "
                "weights give nonsense in it.",
                {"gate = self.w_gate(x)": "gate = self.w_up(x)", "return ...": "return self.w_down(gate * self.w_gate(x))"},
            ),
            "swiglu_relu_gate": (
                "Your gate is a ReLU, which makes the network ReGLU, from the same paper. SwiGLU uses Swish, x · σ(x).",
                {"gate * gate.sigmoid()": "gate.relu()"},
            ),
            "swiglu_sigmoid_gate": (
                "Your gate is only a sigmoid, which makes the network the original GLU. Swish is x · σ(x), and can be larger than 1.",
                {"1: gate * _": "_"},
            ),
            "swiglu_bilinear": (
                "You multiply the two projections directly. Apply Swish to the output of `w_gate` first.",
                {"gate = gate * gate.sigmoid()": "pass"},
            ),
            "swiglu_sigmoid_written_out": (
                "Your gradient is NaN where a gate is far below 0. That happens if you write out the sigmoid: e⁻ˣ overflows. The value is 0, as it should be, "
                "but its gradient is 0 · ∞. `torch.sigmoid` avoids this.",
                {"gate * gate.sigmoid()": "gate / (1 + (-gate).exp())"},
            ),
            "swiglu_gate_detached": (
                "Your results are right, but your gradients are wrong: you treat the sigmoid as a constant. Differentiate the whole Swish: its derivative "
                "contains that of the sigmoid, too.",
                {"gate.sigmoid": "gate.detach().sigmoid"},
            ),
            "swiglu_starts_small": (
                "Your weights are initialized with a standard deviation of 0.02, as in GPT and LLaMA. Here they keep the initialization of `nn.Linear`; the "
                "model that uses them can change it.",
                {"self.w_down = _": "self.w_down = _\nfor one in (self.w_gate, self.w_up, self.w_down):\n    nn.init.normal_(one.weight, std=0.02)"},
            ),
            "swiglu_three_axes_only": (
                "Your network requires exactly three axes. It processes each token separately, so it should accept any number of leading axes, as `nn.Linear` "
                "does.",
                {"gate = self.w_gate(x)": "batch, time, _ = x.shape\ngate = self.w_gate(x)"},
            ),
            "swiglu_float32_whatever_comes": (
                "You compute the gate in float32 for any input, so float64 loses more than half of its digits. `nn.Linear` and Swish keep the dtype, so you "
                "need not cast anything.",
                {"gate = gate * gate.sigmoid()": "gate = gate.float() * gate.float().sigmoid()\ngate = gate.to(x.dtype)"},
            ),
        },
    ),
]
