"""Day 28: what goes wrong with the norms of a vector and of its groups, with two curves, and with a gate."""

from course.judging.misconceptions import of

RMS_LEFT_IN_FLOAT32 = "In half precision your result is float32. You upcast x, which is right, and never converted back."
RMS_FLOAT64_NARROWED = "You compute in float32 whatever the input is. That upcasts half precision, which is right, but it also narrows float64, which loses more than half of its sixteen digits."
RMS_EPS_FIXED = "Your ε is 1e-5 whatever the caller says. It is an argument: use it."
RMS_IN_PLACE = "You write into x. Your caller still needs it: x also continues along the residual connection. (And PyTorch refuses it for a tensor that requires a gradient.)"
GELU_IN_PLACE = "You write your result into x. It belongs to your caller. (And PyTorch refuses it for a tensor that requires a gradient.)"
MISCONCEPTIONS = [
    *of(
        "RMSNorm",
        {
            # --- RMSNorm: names and starts
            "rms_named_as_in_torch": (
                "Your parameter is called `weight`, as in `nn.RMSNorm`. Here the scale is `gain`: weights are given by their names, so a name is part of the "
                "answer.",
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
                "Your norm has a bias. RMSNorm subtracts no mean and adds nothing: the gain is its only parameter.",
                {"self.eps = eps": "self.bias = nn.Parameter(torch.zeros(features))\nself.eps = eps", "_.to(x.dtype)": "(_ + self.bias).to(x.dtype)"},
            ),
            "rms_gain_is_no_parameter": (
                "Your gain is no `nn.Parameter`. Only these are found by the model's `parameters()`, and so by the optimizer; a plain tensor or a buffer "
                "would stay as it is for ever.",
                {"nn.Parameter(_)": "_"},
            ),
            "rms_gain_plus_one": (
                "You multiply by 1 + gain, and initialize the gain to 0, as Gemma does. Here the gain is the factor itself, and it is initialized to 1.",
                {"torch.ones": "torch.zeros", "2: self.gain": "1 + self.gain"},
            ),
            # --- RMSNorm: halves
            "rms_rounded_before_the_gain": (
                "Your vectors are in the dtype of x when the gain comes in. They are rounded twice then; and where the gain is float32 and x a half, as in mixed "
                "precision, the product is float32 again, and so is all that follows.",
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
                "You square x in the dtype that comes in. float16 ends at 65504, so from 256 on a square is infinite; the root is, too, and the entire vector "
                "becomes 0. Upcast half precision to float32 first.",
                {"wide = ...": "wide = x"},
            ),
            # --- RMSNorm: which numbers
            "rms_centered": (
                "You subtract the mean: that is a LayerNorm without its bias. RMSNorm leaves the mean in the vector, and saves its computation.",
                {"wide = _": "wide = _\nwide = wide - wide.mean(dim=-1, keepdim=True)"},
            ),
            "rms_sum_for_mean": (
                "You divide by the vector's length, the root of the *sum* of the squares. With the mean each feature has a size of about 1; now it is √n times too "
                "small.",
                {"_.mean": "_.sum"},
            ),
            "rms_no_root": (
                "You divide by the mean square itself. Without the root a vector that was twice as large comes out half as large, instead of the same.",
                {"_.rsqrt": "_.reciprocal"},
            ),
            "rms_over_everything": (
                "You take one mean square over the whole tensor. Every vector has its own, over its features.",
                {"dim=-1": "", "keepdim=True": ""},
            ),
            "rms_keepdim_forgotten": (
                "Your mean square has lost the axis it was taken over, and no longer lines up with x: one vector alone works, a batch does not. Keep that axis, "
                "with length 1.",
                {"keepdim=True": ""},
            ),
            "rms_detached": (
                "Your results are right, but your gradients are wrong: the mean square is treated as a constant (`detach`, `no_grad`). It depends on x itself, and so a "
                "longer x gets a smaller gradient.",
                {"mean_square = _": "mean_square = _.detach()"},
            ),
            # --- RMSNorm: eps
            "rms_eps_outside_the_root": (
                "Your ε is added after the root. It belongs under the root, to the mean square. The two differ where that is as small as ε; and at a vector of "
                "zeros the root alone has no gradient but NaN.",
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
                "Your gain is there, but changes nothing. The normalized vector is multiplied by it.",
                {"self.gain * normalized": "normalized"},
            ),
            "rms_gain_before_norm": (
                "You multiply by the gain before you normalize, so the gain affects the mean square. It belongs after the division.",
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
                "Your parameters are called `weight` and `bias`, as in `nn.GroupNorm`. Here the scale is `gain`: weights are given by their names, so a name is "
                "part of the answer.",
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
                "You go back to the dtype of x before gain and bias come in. Where they are float32 and x a half, as in mixed precision, the result is float32 "
                "again, and so is all that follows.",
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
                "You square in the dtype that comes in. float16 ends at 65504, so from 256 on a square is infinite, and whatever is divided by its root becomes 0. "
                "Upcast half precision to float32 first.",
                {"wide = ...": "wide = x"},
            ),
            # --- GroupNorm: which numbers
            "group_interleaved": (
                "You assign features to groups in turn: feature i goes to group i mod G. A group consists of neighbors: the first n / G features, then the next.",
                {"split = ...": "split = wide.unflatten(-1, (-1, self.groups)).transpose(-2, -1)", "_.flatten": "_.transpose(-2, -1).flatten"},
            ),
            "group_size_for_number": (
                "You took `groups` for the size of a group. It is how many groups there are: the size is n / G.",
                {"(self.groups, ...)": "(-1, self.groups)"},
            ),
            "group_all_features": (
                "You normalize all features of a vector together, as LayerNorm does. Each group has a mean and a variance of its own.",
                {"split = ...": "split = wide.unsqueeze(-2)"},
            ),
            "group_over_everything": (
                "You take one mean and one variance for each group over the whole batch. Every token has its own, or a sentence would come out differently in "
                "other company.",
                {
                    "split - ...": "split - split.mean(dim=(*range(x.dim() - 1), -1), keepdim=True)",
                    "variance = ...": "variance = centered.square().mean(dim=(*range(x.dim() - 1), -1), keepdim=True)",
                },
            ),
            "group_view_of_rows": (
                "You make rows of all tokens with `view`. It refuses a tensor that is not contiguous, such as a transposed one; `reshape` copies where it "
                "must, and splitting the last axis alone needs no copy.",
                {"wide.unflatten(-1, (self.groups, _))": "wide.view(-1, self.groups, _)", "_.flatten(-2)": "_.view(x.shape)"},
            ),
            # --- GroupNorm: the variance
            "group_unbiased": (
                "Your variance divides by n/G − 1, as torch's `var` and `std` do unless told otherwise. The norm divides by the group's size. With a single "
                "feature in a group you divide by 0.",
                {"centered.square().mean": "split.var"},
            ),
            "group_variance_by_difference": (
                "Your variance is the mean of the squares minus the square of the mean. That is true on paper, but at a mean of 1000 and a standard deviation of 0.1 float32 has no "
                "room for the difference. Subtract the mean first, then square.",
                {"variance = ...": "variance = split.square().mean(dim=-1, keepdim=True) - split.mean(dim=-1, keepdim=True).square()"},
            ),
            "group_not_centered": (
                "You do not subtract the mean: that is RMSNorm in groups. GroupNorm centers each group first.",
                {"split - ...": "split"},
            ),
            "group_statistics_detached": (
                "Your results are right, but your gradients are wrong: the mean and the standard deviation are treated as constants (`detach`, `no_grad`). Both depend on x.",
                {"split - _": "split - _.detach()", "variance = _": "variance = _.detach()"},
            ),
            # --- GroupNorm: eps, gain and bias
            "group_eps_outside_the_root": (
                "Your ε is added to the standard deviation, after the root. It belongs under the root. The two differ where the variance is as small as ε; and at variance "
                "0 the root alone has no gradient but NaN.",
                {"centered * ...": "centered / (variance.sqrt() + self.eps)"},
            ),
            "group_eps_forgotten": (
                "Your norm does without ε. A group of equal numbers has variance 0, and 0 / 0 is NaN; with ε it gives the bias.",
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
                'Your two curves have changed places: "none" is the definition, with the error function, and "tanh" the approximation. Less than 0.001 apart, and '
                "enough to part two models with the same weights.",
                {"2: 'none'": "'tanh'"},
            ),
            "gelu_always_exact": (
                'You give the definition whatever is asked for. With "tanh" the approximation is wanted, with which GPT-2 was trained.',
                {"approximate == 'none'": "True"},
            ),
            "gelu_two_over_pi_without_root": (
                "The factor in your tanh is 2/π. It is √(2/π) ≈ 0.8, twice the height of the normal curve at 0: so the slopes agree there.",
                {"math.sqrt(2 / math.pi)": "2 / math.pi"},
            ),
            "gelu_cube_outside_the_factor": (
                "Your factor √(2/π) multiplies x alone. It multiplies the cubic term, too: the parenthesis closes after x³.",
                {"_ * (wide + ...)": "_ * wide + 0.044715 * wide**3"},
            ),
            "gelu_cubic_term_forgotten": (
                "Your tanh lacks the cubic term, 0.044715 · x³.",
                {"wide + ...": "wide"},
            ),
            "gelu_tanh_written_out": (
                "Your approximate curve is NaN for large features, as it is where tanh is written out with exponentials: they overflow, and ∞/∞ is no number. "
                "`torch.tanh` does not compute them.",
                {"signed = (... * _).tanh()": "twice = (2 * math.sqrt(2 / math.pi) * _).exp()\nsigned = (twice - 1) / (twice + 1)"},
            ),
            "gelu_erf_of_x": (
                "You take erf(x). The share of the normal distribution below x is ½ (1 + erf(x / √2)): erf is made for a distribution that is narrower.",
                {"wide / math.sqrt(2)": "wide"},
            ),
            "gelu_always_by_sigmoid": (
                'Both your curves are x · σ(1.702 x), a third form, from the same paper. It is 0.02 off. "none" asks for the error function, "tanh" for the form '
                "with the cubic term.",
                {"(wide / math.sqrt(2)).erf()": "2 * (1.702 * wide).sigmoid() - 1", "signed = (... * _).tanh()": "signed = 2 * (1.702 * wide).sigmoid() - 1"},
            ),
            "gelu_half_forgotten": (
                "Your share runs from 0 to 2. It is half of 1 + erf(…), or of 1 + tanh(…).",
                {"wide * 0.5": "wide"},
            ),
            "gelu_in_halves": (
                "You compute in the dtype that comes in. Left of 0 you add 1 to a number near −1, and a half has hardly a digit left for what remains: the tail is "
                "noise. Upcast half precision to float32 first.",
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
                "You go through the features one by one, and `torch.stack` refuses an empty list: a tensor without numbers has a result, too. A function of each feature needs "
                "no loop.",
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
                "Your gradient is NaN for large features, as it is where the softplus computes eˣ, with `log` or `log1p`: from 89 on that is infinite in "
                "float32, and 0 · ∞ is no number. torch has a softplus that does not compute eˣ where x is large.",
                {"F.softplus(wide)": "(1 + wide.exp()).log()"},
            ),
            "mish_is_swish": (
                "You multiply x by σ(x): that is Swish, a near relative. Mish squashes the softplus of x by tanh.",
                {"softplus.tanh": "wide.sigmoid"},
            ),
            "mish_tanh_of_x": (
                "You multiply the softplus by the tanh of x. The other way round: x times the tanh of its softplus.",
                {"wide * softplus.tanh()": "softplus * wide.tanh()"},
            ),
            "mish_x_forgotten": (
                "You return tanh(softplus(x)), a share from 0 to 1. The share is what x is multiplied by.",
                {"wide * _": "_"},
            ),
            "mish_relu_for_softplus": (
                "Your softplus is max(0, x). Then everything below 0 is cut off; the softplus is smooth, and ln 2 at 0.",
                {"F.softplus(wide)": "wide.relu()"},
            ),
            "mish_in_halves": (
                "You compute in the dtype that comes in. Left of 0 the softplus of a half adds a small eˣ to 1, and hardly a digit of it is left. Widen halves to "
                "float32 first.",
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
                "You go through the features one by one, and `torch.stack` refuses an empty list: a tensor without numbers has a result, too. A function of each feature needs "
                "no loop.",
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
                "Your layers are called `w1`, `w2` and `w3`, as in LLaMA's own code. Here they are `w_gate`, `w_down` and `w_up`: weights are given by their "
                "names, so a name is part of the answer.",
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
                "Gate and up are one layer of twice the width, `w_gate_up`, which computes the same in one product. Here they are two, by the names `w_gate` and "
                "`w_up`.",
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
                "Your layers have biases, as `nn.Linear` has unless told otherwise. Equation 6 has three matrices and nothing else.",
                {
                    "self.w_gate = ...": "self.w_gate = nn.Linear(d_model, d_ff)",
                    "self.w_up = ...": "self.w_up = nn.Linear(d_model, d_ff)",
                    "nn.Linear(d_ff, d_model, bias=False)": "nn.Linear(d_ff, d_model)",
                },
            ),
            "swiglu_two_thirds_taken_inside": (
                "Your hidden layer is ⅔ of d_ff wide. To have as many weights as before, the caller asks for ⅔ of the old width; here d_ff is the width that is "
                "wanted.",
                {
                    "self.w_gate = ...": "self.w_gate = nn.Linear(d_model, int(2 * d_ff / 3), bias=False)",
                    "self.w_up = ...": "self.w_up = nn.Linear(d_model, int(2 * d_ff / 3), bias=False)",
                    "nn.Linear(d_ff, d_model, bias=False)": "nn.Linear(int(2 * d_ff / 3), d_model, bias=False)",
                },
            ),
            # --- SwiGLU: the gate
            "swiglu_gate_and_up_exchanged": (
                "Your two projections have changed places: Swish falls on what comes from `w_gate`. A model that is trained this way is as good, and a published "
                "one's weights give nonsense in it.",
                {"gate = self.w_gate(x)": "gate = self.w_up(x)", "return ...": "return self.w_down(gate * self.w_gate(x))"},
            ),
            "swiglu_relu_gate": (
                "Your gate is a ReLU: that is ReGLU, of the same paper. SwiGLU has Swish, x · σ(x).",
                {"gate * gate.sigmoid()": "gate.relu()"},
            ),
            "swiglu_sigmoid_gate": (
                "Your gate is a sigmoid alone: that is GLU, with which it all began. Swish is x · σ(x), and can be larger than 1.",
                {"1: gate * _": "_"},
            ),
            "swiglu_bilinear": (
                "You multiply the two projections as they are. The one from `w_gate` goes through Swish first.",
                {"gate = gate * gate.sigmoid()": "pass"},
            ),
            "swiglu_sigmoid_written_out": (
                "Your gradient is NaN where a gate is far below 0, as it is where the sigmoid is written out: e⁻ˣ overflows there, the value is 0, as it "
                "should be, and its gradient is 0 · ∞. `torch.sigmoid` does not compute e⁻ˣ so.",
                {"gate * gate.sigmoid()": "gate / (1 + (-gate).exp())"},
            ),
            "swiglu_gate_detached": (
                "Your results are right, but your gradients are wrong: the sigmoid is taken for a constant. Swish is differentiated whole, or the gate does not learn "
                "when to open.",
                {"gate.sigmoid": "gate.detach().sigmoid"},
            ),
            "swiglu_starts_small": (
                "Your weights are drawn with a standard deviation of 0.02, as GPT's and LLaMA's are. Here they are initialized as `nn.Linear` does it; the model around it "
                "may change them.",
                {"self.w_down = _": "self.w_down = _\nfor one in (self.w_gate, self.w_up, self.w_down):\n    nn.init.normal_(one.weight, std=0.02)"},
            ),
            "swiglu_three_axes_only": (
                "Your network asks for exactly three axes. It treats every token by itself, so it accepts any number of leading axes; `nn.Linear` does not mind.",
                {"gate = self.w_gate(x)": "batch, time, _ = x.shape\ngate = self.w_gate(x)"},
            ),
            "swiglu_float32_whatever_comes": (
                "Your gate is computed in float32 whatever comes, and float64 loses more than half of its digits. `nn.Linear` and Swish keep the dtype: nothing is "
                "to be cast here.",
                {"gate = gate * gate.sigmoid()": "gate = gate.float() * gate.float().sigmoid()\ngate = gate.to(x.dtype)"},
            ),
        },
    ),
]
