"""Day 28: what goes wrong with the norms of a vector and of its groups, with two curves, and with a gate."""

from course.judging.misconceptions import Misconception

WIDE = "wide = x.to(torch.promote_types(x.dtype, torch.float32))"

# RMSNorm
SQUARE = "mean_square = wide.square().mean(dim=-1, keepdim=True)"
ROOT = "(mean_square + self.eps).rsqrt()"
NORMED = f"normed = wide * {ROOT}"
GAIN = "return (self.gain * normed).to(x.dtype)"
RMS_INIT = "self.gain = nn.Parameter(torch.ones(features))"

# GroupNorm
SPLIT = "split = wide.unflatten(-1, (self.groups, x.size(-1) // self.groups))"
CENTRED = "centred = split - split.mean(dim=-1, keepdim=True)"
VARIANCE = "variance = centred.square().mean(dim=-1, keepdim=True)"
OVER = "(centred * (variance + self.eps).rsqrt())"
GROUP_NORMED = f"normed = {OVER}.flatten(-2)"
SHIFT = "return (self.gain * normed + self.bias).to(x.dtype)"
BIAS_INIT = "self.bias = nn.Parameter(torch.zeros(features))"

# gelu
EXACT = "signed = (wide / math.sqrt(2)).erf()"
TANH = "signed = (math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)).tanh()"
SHARE = "return (wide * 0.5 * (1 + signed)).to(x.dtype)"
WHICH = 'if approximate == "none":'

# mish
SOFTPLUS = "softplus = F.softplus(wide)"
SQUASHED = "return (wide * softplus.tanh()).to(x.dtype)"

# SwiGLU
W_GATE = "self.w_gate = nn.Linear(d_model, d_ff, bias=False)"
W_UP = "self.w_up = nn.Linear(d_model, d_ff, bias=False)"
W_DOWN = "self.w_down = nn.Linear(d_ff, d_model, bias=False)"
PROJECTED = "gate = self.w_gate(x)"
SWISH = "gate = gate * gate.sigmoid()"
GATED = "return self.w_down(gate * self.w_up(x))"


def all_axes(line: str) -> str:
    """The same mean, over all axes."""
    return line.replace("dim=-1, keepdim=True", "")


def over(axis: str, line: str) -> str:
    """The same mean, over another axis."""
    return line.replace("dim=-1", f"dim={axis}")


def detached(line: str) -> str:
    """The same, taken for a constant."""
    name, value = line.split(" = ")
    return f"{name} = ({value}).detach()"


MISCONCEPTIONS = [
    # --- RMSNorm: names and starts
    Misconception(
        "rms_named_as_in_torch",
        "RMSNorm",
        "Your parameter is called `weight`, as in `nn.RMSNorm`. Here the scale is `gain`: weights are given by their "
        "names, so a name is part of the answer.",
        source="""class RMSNorm(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
""",
    ),
    Misconception(
        "rms_with_bias",
        "RMSNorm",
        "Your norm has a bias. RMSNorm takes no mean away, and puts nothing in its place: the gain is all that it "
        "learns.",
        {
            RMS_INIT: f"{RMS_INIT}\n        {BIAS_INIT}",
            GAIN: "return (self.gain * normed + self.bias).to(x.dtype)",
        },
    ),
    Misconception(
        "rms_gain_is_no_parameter",
        "RMSNorm",
        "Your gain is a plain tensor. Only an `nn.Parameter` is found by the model's `parameters()`, and so by the "
        "optimiser; this one would stay as it is for ever.",
        {RMS_INIT: "self.gain = torch.ones(features)"},
    ),
    Misconception(
        "rms_one_gain",
        "RMSNorm",
        "Your gain is a single number. Every feature has its own.",
        {
            "if x.size(-1) != self.gain.numel():": "if False:",
            RMS_INIT: "self.gain = nn.Parameter(torch.ones(1))",
        },
    ),
    Misconception(
        "rms_gain_plus_one",
        "RMSNorm",
        "You multiply by 1 + gain, and start the gain at 0, as in Gemma. Here the gain is the factor itself, and "
        "starts at 1.",
        {
            RMS_INIT: "self.gain = nn.Parameter(torch.zeros(features))",
            GAIN: "return ((1 + self.gain) * normed).to(x.dtype)",
        },
    ),
    # --- RMSNorm: halves
    Misconception(
        "rms_rounded_before_the_gain",
        "RMSNorm",
        "You go back to the dtype of x before the gain comes in. It is rounded twice then; and where the gain is "
        "float32 and x a half, as in mixed precision, the product is float32 again, and so is all that follows.",
        {GAIN: "return self.gain * normed.to(x.dtype)"},
    ),
    Misconception(
        "rms_left_in_float32",
        "RMSNorm",
        "In half precision your result is float32. You widened x, which is right, and never came back.",
        {GAIN: "return self.gain * normed"},
    ),
    Misconception(
        "rms_float64_narrowed",
        "RMSNorm",
        "You compute in float32 whatever comes. That widens the halves, which is right, and narrows float64: more than "
        "half of its sixteen digits are lost.",
        {WIDE: "wide = x.float()"},
    ),
    Misconception(
        "rms_in_halves",
        "RMSNorm",
        "You square x in the dtype that comes in. float16 ends at 65504, so from 256 on a square is infinite; the root "
        "is, too, and the whole vector becomes 0. Widen halves to float32 first.",
        {WIDE: "wide = x", GAIN: "return (self.gain * normed).to(x.dtype)  # too late"},
    ),
    # --- RMSNorm: which numbers
    Misconception(
        "rms_centred",
        "RMSNorm",
        "You subtract the mean: that is a LayerNorm without its bias. RMSNorm leaves the mean in the vector, and "
        "saves its computation.",
        {WIDE: f"{WIDE}\n        wide = wide - wide.mean(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "rms_divided_by_deviation",
        "RMSNorm",
        "You divide by the deviation, in which the mean has been taken away, but leave the mean in x. The mean "
        "square is that of x as it is.",
        {SQUARE: "mean_square = wide.var(dim=-1, keepdim=True, correction=0)"},
    ),
    Misconception(
        "rms_centred_over_root_mean_square",
        "RMSNorm",
        "You subtract the mean from x, and divide by the root of the mean of x² with the mean still in it. Nothing is "
        "centred here.",
        {NORMED: f"normed = (wide - wide.mean(dim=-1, keepdim=True)) * {ROOT}"},
    ),
    Misconception(
        "rms_sum_for_mean",
        "RMSNorm",
        "You divide by the vector's length, the root of the *sum* of the squares. With the mean each feature has a "
        "size of about 1; now it is √n times too small.",
        {SQUARE: SQUARE.replace("mean(", "sum(")},
    ),
    Misconception(
        "rms_mean_of_sizes",
        "RMSNorm",
        "You divide by the mean of the sizes, |x|. Square first, then take the mean, then the root: large features count "
        "for more.",
        {SQUARE: "mean_square = wide.abs().mean(dim=-1, keepdim=True).square()"},
    ),
    Misconception(
        "rms_no_root",
        "RMSNorm",
        "You divide by the mean square itself. Without the root a vector that was twice as large comes out half as "
        "large, instead of the same.",
        {ROOT: "(mean_square + self.eps).reciprocal()"},
    ),
    Misconception(
        "rms_over_everything",
        "RMSNorm",
        "You take one mean square over the whole tensor. Every vector has its own, over its features.",
        {SQUARE: all_axes(SQUARE)},
    ),
    Misconception(
        "rms_over_a_sentence",
        "RMSNorm",
        "You take one mean square for each sentence, tokens and features together. Every vector has its own; otherwise "
        "a token would see how loud those after it are.",
        {SQUARE: over("tuple(range(max(0, x.dim() - 2), x.dim()))", SQUARE)},
    ),
    Misconception(
        "rms_over_time",
        "RMSNorm",
        "Your mean runs over the tokens, the last axis but one. Each vector is normed over its own features.",
        {SQUARE: over("-2", SQUARE)},
    ),
    Misconception(
        "rms_keepdim_forgotten",
        "RMSNorm",
        "Your mean square has lost the axis it was taken over, and no longer lines up with x: one vector alone works, a "
        "batch does not. Keep that axis, with length 1.",
        {SQUARE: SQUARE.replace(", keepdim=True", "")},
    ),
    Misconception(
        "rms_detached",
        "RMSNorm",
        "Your results are right, your gradients are not: the mean square is taken for a constant (`detach`, "
        "`no_grad`). It depends on x itself, and so a longer x gets a smaller gradient.",
        {SQUARE: detached(SQUARE)},
    ),
    # --- RMSNorm: eps
    Misconception(
        "rms_eps_outside_the_root",
        "RMSNorm",
        "Your ε is added after the root. It belongs under the root, to the mean square. The two differ where that is "
        "as small as ε; and at a vector of zeros the root alone has no gradient but NaN.",
        {NORMED: "normed = wide / (mean_square.sqrt() + self.eps)"},
    ),
    Misconception(
        "rms_eps_forgotten",
        "RMSNorm",
        "Your norm does without ε. A vector of zeros is then 0 / 0, which is NaN.",
        {ROOT: "mean_square.rsqrt()"},
    ),
    Misconception(
        "rms_eps_squared",
        "RMSNorm",
        "Your ε is squared before it is added. The formula adds ε itself to the mean square.",
        {ROOT: "(mean_square + self.eps**2).rsqrt()"},
    ),
    Misconception(
        "rms_eps_as_lower_bound",
        "RMSNorm",
        "Your ε only stands in where the mean square is smaller. It is added, always.",
        {ROOT: "mean_square.clamp(min=self.eps).rsqrt()"},
    ),
    Misconception(
        "rms_eps_fixed",
        "RMSNorm",
        "Your ε is 1e-5 whatever the caller says. It is an argument: use it.",
        {ROOT: "(mean_square + 1e-5).rsqrt()"},
    ),
    Misconception(
        "rms_eps_of_the_dtype",
        "RMSNorm",
        "Your ε is the dtype's own, as in `nn.RMSNorm` when it is given none. It is an argument: use it.",
        {ROOT: "(mean_square + torch.finfo(x.dtype).eps).rsqrt()"},
    ),
    # --- RMSNorm: the gain
    Misconception(
        "rms_gain_forgotten",
        "RMSNorm",
        "Your gain is there, but changes nothing. What is normed is multiplied by it.",
        {GAIN: "return normed.to(x.dtype)"},
    ),
    Misconception(
        "rms_gain_before_norm",
        "RMSNorm",
        "You multiply by the gain before you norm, so it has a say in the mean square. It comes after the division.",
        {WIDE: f"{WIDE} * self.gain", GAIN: "return normed.to(x.dtype)"},
    ),
    Misconception(
        "rms_gain_starts_at_0",
        "RMSNorm",
        "Your gain starts at 0, so at first nothing comes through. It starts at 1.",
        {RMS_INIT: "self.gain = nn.Parameter(torch.zeros(features))"},
    ),
    Misconception(
        "rms_in_place",
        "RMSNorm",
        "You write into x. Your caller still needs it: x goes on along the shortcut. (And torch refuses it for a "
        "tensor that wants a gradient.)",
        {NORMED: f"{NORMED}\n        x.copy_(normed)"},
    ),
    # --- GroupNorm: names and starts
    Misconception(
        "group_named_as_in_torch",
        "GroupNorm",
        "Your parameters are called `weight` and `bias`, as in `nn.GroupNorm`. Here the scale is `gain`: weights are "
        "given by their names, so a name is part of the answer.",
        source="""class GroupNorm(nn.Module):
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
    Misconception(
        "group_of_pictures",
        "GroupNorm",
        "You handed the tokens to torch's group norm with time as its last axis, as the pixels of a picture. It takes "
        "mean and variance over them as well: every token sees all others, those after it too. Each is to be "
        "normed alone.",
        source="""class GroupNorm(nn.Module):
    def __init__(self, groups, features, eps):
        super().__init__()
        self.groups = groups
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        seen = x if x.dim() > 2 else x.reshape(-1, x.size(-1), 1)
        seen = seen.transpose(1, -1) if x.dim() > 2 else seen
        seen = nn.functional.group_norm(seen, self.groups, self.gain, self.bias, self.eps)
        return seen.transpose(1, -1) if x.dim() > 2 else seen.reshape(x.shape)
""",
    ),
    Misconception(
        "group_gain_for_each_group",
        "GroupNorm",
        "Your gain and bias have a number for each group. Every feature has its own.",
        {
            "if x.size(-1) != self.gain.numel():": "if False:",
            RMS_INIT: "self.gain = nn.Parameter(torch.ones(groups))",
            BIAS_INIT: "self.bias = nn.Parameter(torch.zeros(groups))",
            SHIFT: "each = x.size(-1) // self.groups\n"
            "        gain, bias = (p.repeat_interleave(each) for p in (self.gain, self.bias))\n"
            "        return (gain * normed + bias).to(x.dtype)",
        },
    ),
    Misconception(
        "group_gain_starts_at_0",
        "GroupNorm",
        "Your gain starts at 0, so at first all that comes out is the bias. It starts at 1.",
        {RMS_INIT: "self.gain = nn.Parameter(torch.zeros(features))"},
    ),
    # --- GroupNorm: halves
    Misconception(
        "group_rounded_before_the_gain",
        "GroupNorm",
        "You go back to the dtype of x before gain and bias come in. Where they are float32 and x a half, as in mixed "
        "precision, the result is float32 again, and so is all that follows.",
        {SHIFT: "return self.gain * normed.to(x.dtype) + self.bias"},
    ),
    Misconception(
        "group_left_in_float32",
        "GroupNorm",
        "In half precision your result is float32. You widened x, which is right, and never came back.",
        {SHIFT: "return self.gain * normed + self.bias"},
    ),
    Misconception(
        "group_float64_narrowed",
        "GroupNorm",
        "You compute in float32 whatever comes. That widens the halves, which is right, and narrows float64: more than "
        "half of its sixteen digits are lost.",
        {WIDE: "wide = x.float()"},
    ),
    Misconception(
        "group_in_halves",
        "GroupNorm",
        "You square in the dtype that comes in. float16 ends at 65504, so from 256 on a square is infinite, and "
        "whatever is divided by its root becomes 0. Widen halves to float32 first.",
        {WIDE: "wide = x"},
    ),
    # --- GroupNorm: which numbers
    Misconception(
        "group_interleaved",
        "GroupNorm",
        "Your groups are dealt out like cards: feature i goes to group i mod G. A group is neighbours: the first n / G "
        "features, then the next.",
        {
            SPLIT: "split = wide.unflatten(-1, (-1, self.groups)).transpose(-2, -1)",
            GROUP_NORMED: f"normed = {OVER}.transpose(-2, -1).flatten(-2)",
        },
    ),
    Misconception(
        "group_size_for_number",
        "GroupNorm",
        "You took `groups` for the size of a group. It is how many groups there are: the size is n / G.",
        {SPLIT: "split = wide.unflatten(-1, (-1, self.groups))"},
    ),
    Misconception(
        "group_all_features",
        "GroupNorm",
        "You norm all features of a vector together, as LayerNorm does. Each group has a mean and a variance of its "
        "own.",
        {SPLIT: "split = wide.unsqueeze(-2)"},
    ),
    Misconception(
        "group_mean_of_all",
        "GroupNorm",
        "You subtract the mean of the whole vector, and divide by each group's deviation. The mean is each group's own "
        "as well.",
        {CENTRED: "centred = split - wide.mean(dim=-1, keepdim=True).unsqueeze(-1)"},
    ),
    Misconception(
        "group_variance_of_all",
        "GroupNorm",
        "You centre each group, and divide by the deviation of the whole vector. The variance is each group's own as "
        "well.",
        {VARIANCE: "variance = centred.square().mean(dim=(-2, -1), keepdim=True)"},
    ),
    Misconception(
        "group_over_everything",
        "GroupNorm",
        "You take one mean and one variance for each group over the whole batch. Every token has its own, or a "
        "sentence would come out differently in other company.",
        {
            CENTRED: over("(*range(x.dim() - 1), -1)", CENTRED),
            VARIANCE: over("(*range(x.dim() - 1), -1)", VARIANCE),
        },
    ),
    Misconception(
        "group_over_time",
        "GroupNorm",
        "You take mean and variance of each group over all tokens of a sentence, as the paper does over the pixels of a "
        "picture. Then a token sees those after it: each is to be normed alone.",
        {
            CENTRED: over("(max(-3, -x.dim() - 1), -1)[x.dim() < 2 :]", CENTRED),
            VARIANCE: over("(max(-3, -x.dim() - 1), -1)[x.dim() < 2 :]", VARIANCE),
        },
    ),
    Misconception(
        "group_across_groups",
        "GroupNorm",
        "Your mean runs over the axis of the groups, not over that of their features. Which of the two axes is last, "
        "after the split?",
        {CENTRED: over("-2", CENTRED), VARIANCE: over("-2", VARIANCE)},
    ),
    Misconception(
        "group_view_of_rows",
        "GroupNorm",
        "You make rows of all tokens with `view`. It refuses a tensor that lies in memory by columns, such as a "
        "transposed one; `reshape` copies where it must, and splitting the last axis alone needs no copy.",
        {
            SPLIT: "split = wide.view(-1, self.groups, x.size(-1) // self.groups)",
            GROUP_NORMED: f"normed = {OVER}.view(x.shape)",
        },
    ),
    # --- GroupNorm: the variance
    Misconception(
        "group_unbiased",
        "GroupNorm",
        "Your variance divides by n/G − 1, as torch's `var` and `std` do unless told otherwise. The norm divides by the "
        "group's size. With a single feature in a group you divide by 0.",
        {VARIANCE: "variance = split.var(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "group_sum_for_mean",
        "GroupNorm",
        "Your variance is the sum of the squares, not their mean. So every group comes out with length 1 instead of "
        "variance 1.",
        {VARIANCE: VARIANCE.replace("mean(", "sum(")},
    ),
    Misconception(
        "group_variance_by_difference",
        "GroupNorm",
        "Your variance is the mean of the squares minus the square of the mean. True on paper; but at a mean of 1000 "
        "and a deviation of 0.1 float32 has no room for the difference. Subtract the mean first, then square.",
        {
            VARIANCE: "variance = split.square().mean(dim=-1, keepdim=True) "
            "- split.mean(dim=-1, keepdim=True).square()"
        },
    ),
    Misconception(
        "group_not_centred",
        "GroupNorm",
        "You do not subtract the mean: that is RMSNorm in groups. GroupNorm centres each group first.",
        {CENTRED: "centred = split"},
    ),
    Misconception(
        "group_not_divided",
        "GroupNorm",
        "You subtract the mean, but do not divide by the deviation. Every group is to have variance 1 before gain and "
        "bias come to it.",
        {GROUP_NORMED: "normed = centred.flatten(-2)"},
    ),
    Misconception(
        "group_statistics_detached",
        "GroupNorm",
        "Your results are right, your gradients are not: mean and deviation are taken for constants (`detach`, "
        "`no_grad`). They depend on x themselves.",
        {
            CENTRED: "centred = split - split.mean(dim=-1, keepdim=True).detach()",
            VARIANCE: detached(VARIANCE),
        },
    ),
    # --- GroupNorm: eps, gain and bias
    Misconception(
        "group_eps_outside_the_root",
        "GroupNorm",
        "Your ε is added to the deviation, after the root. It belongs under the root. The two differ where the "
        "variance is as small as ε; and at variance 0 the root alone has no gradient but NaN.",
        {GROUP_NORMED: "normed = (centred / (variance.sqrt() + self.eps)).flatten(-2)"},
    ),
    Misconception(
        "group_eps_forgotten",
        "GroupNorm",
        "Your norm does without ε. A group of equal numbers has variance 0, and 0 / 0 is NaN; with ε it gives the "
        "bias.",
        {OVER: "(centred * variance.rsqrt())"},
    ),
    Misconception(
        "group_eps_fixed",
        "GroupNorm",
        "Your ε is 1e-5 whatever the caller says. It is an argument: use it.",
        {OVER: "(centred * (variance + 1e-5).rsqrt())"},
    ),
    Misconception(
        "group_gain_forgotten",
        "GroupNorm",
        "Your gain is there, but changes nothing. What is normed is multiplied by it before the bias is added.",
        {SHIFT: "return (normed + self.bias).to(x.dtype)"},
    ),
    Misconception(
        "group_bias_forgotten",
        "GroupNorm",
        "Your bias is there, but changes nothing: every feature is off by its own constant.",
        {SHIFT: "return (self.gain * normed).to(x.dtype)"},
    ),
    Misconception(
        "group_gain_times_bias",
        "GroupNorm",
        "Your gain multiplies the bias, too. Scale first, and add the bias to what is scaled.",
        {SHIFT: "return (self.gain * (normed + self.bias)).to(x.dtype)"},
    ),
    Misconception(
        "group_in_place",
        "GroupNorm",
        "You write into x. Your caller still needs it: x goes on along the shortcut. (And torch refuses it for a "
        "tensor that wants a gradient.)",
        {SHIFT: f"x.copy_(normed)\n        {SHIFT}"},
    ),
    # --- gelu
    Misconception(
        "gelu_curves_exchanged",
        "gelu",
        'Your two curves have changed places: "none" is the definition, with the error function, and "tanh" the '
        "approximation. Less than 0.001 apart, and enough to part two models with the same weights.",
        {WHICH: 'if approximate == "tanh":'},
    ),
    Misconception(
        "gelu_always_exact",
        "gelu",
        'You give the definition whatever is asked for. With "tanh" the approximation is wanted, with which GPT-2 '
        "was trained.",
        {WHICH: "if True:"},
    ),
    Misconception(
        "gelu_always_tanh",
        "gelu",
        'You give the approximation by tanh whatever is asked for. With "none" the definition is wanted, with the '
        "error function.",
        {WHICH: "if False:"},
    ),
    Misconception(
        "gelu_two_over_pi_without_root",
        "gelu",
        "The factor in your tanh is 2/π. It is √(2/π) ≈ 0.8, twice the height of the normal curve at 0: so the slopes agree "
        "there.",
        {TANH: TANH.replace("math.sqrt(2 / math.pi)", "2 / math.pi")},
    ),
    Misconception(
        "gelu_root_of_pi_over_two",
        "gelu",
        "The fraction under your root stands on its head: √(2/π) ≈ 0.8, not √(π/2) ≈ 1.25.",
        {TANH: TANH.replace("2 / math.pi", "math.pi / 2")},
    ),
    Misconception(
        "gelu_cube_outside_the_factor",
        "gelu",
        "Your factor √(2/π) multiplies x alone. It multiplies the cubic term, too: the parenthesis closes after x³.",
        {TANH: "signed = (math.sqrt(2 / math.pi) * wide + 0.044715 * wide**3).tanh()"},
    ),
    Misconception(
        "gelu_constant_on_the_sum",
        "gelu",
        "Your 0.044715 multiplies x as well as x³. It belongs to the cubic term alone, which is a small correction.",
        {TANH: TANH.replace("wide + 0.044715 * wide**3", "0.044715 * (wide + wide**3)")},
    ),
    Misconception(
        "gelu_constant_inside_the_cube",
        "gelu",
        "You take the cube of 0.044715 · x. Only x is cubed: the cubic term is 0.044715 · x³.",
        {TANH: TANH.replace("0.044715 * wide**3", "(0.044715 * wide) ** 3")},
    ),
    Misconception(
        "gelu_constant_misremembered",
        "gelu",
        "Your cubic term has 0.44715 in front. A zero is missing: 0.044715.",
        {TANH: TANH.replace("0.044715", "0.44715")},
    ),
    Misconception(
        "gelu_square_for_cube",
        "gelu",
        "Your tanh has x² where x³ belongs. The curve of the shares is turned onto itself about 0, so only odd powers "
        "can stand there.",
        {TANH: TANH.replace("wide**3", "wide**2")},
    ),
    Misconception(
        "gelu_cubic_term_forgotten",
        "gelu",
        "Your tanh lacks the cubic term, 0.044715 · x³.",
        {TANH: TANH.replace("(wide + 0.044715 * wide**3)", "wide")},
    ),
    Misconception(
        "gelu_tanh_written_out",
        "gelu",
        "You wrote tanh out with exponentials, and they overflow: for large features it is ∞/∞, which is NaN. "
        "`torch.tanh` does not compute them.",
        {
            TANH: "twice = (2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)).exp()\n"
            "        signed = (twice - 1) / (twice + 1)"
        },
    ),
    Misconception(
        "gelu_erf_of_x",
        "gelu",
        "You take erf(x). The share of the normal distribution below x is ½ (1 + erf(x / √2)): erf is made for a "
        "distribution that is narrower.",
        {EXACT: "signed = wide.erf()"},
    ),
    Misconception(
        "gelu_erf_of_half",
        "gelu",
        "You take erf(x / 2). In the exact curve x is divided by √2.",
        {EXACT: "signed = (wide / 2).erf()"},
    ),
    Misconception(
        "gelu_by_sigmoid",
        "gelu",
        'Your exact curve is x · σ(1.702 x), a third form, from the same paper. It is 0.02 off; "none" asks for the '
        "error function.",
        {EXACT: "signed = 2 * (1.702 * wide).sigmoid() - 1"},
    ),
    Misconception(
        "gelu_half_forgotten",
        "gelu",
        "Your share runs from 0 to 2. It is half of 1 + erf(…), or of 1 + tanh(…).",
        {SHARE: "return (wide * (1 + signed)).to(x.dtype)"},
    ),
    Misconception(
        "gelu_share_alone",
        "gelu",
        "You return the share Φ(x) itself. The share is what x is multiplied by.",
        {SHARE: "return (0.5 * (1 + signed)).to(x.dtype)"},
    ),
    Misconception(
        "gelu_density",
        "gelu",
        "You multiply x by the height of the normal curve at x. It is the share *below* x that is wanted, the area to "
        "its left.",
        {EXACT: "signed = 2 * (-wide.square() / 2).exp() / math.sqrt(2 * math.pi) - 1"},
    ),
    Misconception(
        "gelu_in_halves",
        "gelu",
        "You compute in the dtype that comes in. Left of 0 you add 1 to a number near −1, and a half has hardly a digit left "
        "for what remains: the tail is noise. Widen halves to float32 first.",
        {WIDE: "wide = x"},
    ),
    Misconception(
        "gelu_left_in_float32",
        "gelu",
        "In half precision your result is float32. You widened x, which is right, and never came back.",
        {SHARE: SHARE.replace(".to(x.dtype)", "")},
    ),
    Misconception(
        "gelu_float64_narrowed",
        "gelu",
        "You compute in float32 whatever comes. That widens the halves, which is right, and narrows float64: more than "
        "half of its sixteen digits are lost.",
        {WIDE: "wide = x.float()"},
    ),
    Misconception(
        "gelu_in_place",
        "gelu",
        "You write your result into x. It is your caller's. (And torch refuses it for a tensor that wants a gradient.)",
        {SHARE: "return x.copy_(wide * 0.5 * (1 + signed))"},
    ),
    # --- mish
    Misconception(
        "mish_softplus_written_out",
        "mish",
        "You compute eˣ in the softplus, with `log` or `log1p`. From 89 on it is infinite in float32: the value may survive "
        "that, its gradient is 0 · ∞, which is NaN. torch has a softplus that does not compute eˣ where x is large.",
        {SOFTPLUS: "softplus = (1 + wide.exp()).log()"},
    ),
    Misconception(
        "mish_as_a_fraction",
        "mish",
        "You wrote tanh and logarithm out, as a fraction of powers of eˣ. True on paper; from 45 on it is ∞/∞ in "
        "float32, which is NaN.",
        {
            SOFTPLUS: "power = wide.exp()\n    softplus = power * (power + 2)",
            SQUASHED: "return (wide * softplus / (softplus + 2)).to(x.dtype)",
        },
    ),
    Misconception(
        "mish_sigmoid_for_tanh",
        "mish",
        "You squash the softplus by the sigmoid. It is above 0, so the sigmoid only runs from ½ to 1, and nothing "
        "is ever shut. tanh runs from 0 to 1 here.",
        {SQUASHED: "return (wide * softplus.sigmoid()).to(x.dtype)"},
    ),
    Misconception(
        "mish_is_swish",
        "mish",
        "You multiply x by σ(x): that is Swish, a near relative. Mish squashes the softplus of x by tanh.",
        {SQUASHED: "return (wide * wide.sigmoid()).to(x.dtype)"},
    ),
    Misconception(
        "mish_tanh_of_x",
        "mish",
        "You multiply the softplus by the tanh of x. The other way round: x times the tanh of its softplus.",
        {SQUASHED: "return (softplus * wide.tanh()).to(x.dtype)"},
    ),
    Misconception(
        "mish_x_tanh_x",
        "mish",
        "You multiply x by tanh(x), without the softplus. That curve goes up on the left as well.",
        {SOFTPLUS: "softplus = wide"},
    ),
    Misconception(
        "mish_tanh_of_exp",
        "mish",
        "You take tanh(eˣ), without the logarithm: that curve has a name of its own, TanhExp. The softplus is "
        "ln(1 + eˣ).",
        {SOFTPLUS: "softplus = wide.exp()"},
    ),
    Misconception(
        "mish_x_forgotten",
        "mish",
        "You return tanh(softplus(x)), a share from 0 to 1. The share is what x is multiplied by.",
        {SQUASHED: "return softplus.tanh().to(x.dtype)"},
    ),
    Misconception(
        "mish_relu_for_softplus",
        "mish",
        "Your softplus is max(0, x). Then everything below 0 is cut off; the softplus is smooth, and ln 2 at 0.",
        {SOFTPLUS: "softplus = wide.relu()"},
    ),
    Misconception(
        "mish_in_halves",
        "mish",
        "You compute in the dtype that comes in. Left of 0 the softplus of a half adds a small eˣ to 1, and hardly a "
        "digit of it is left. Widen halves to float32 first.",
        {WIDE: "wide = x", SOFTPLUS: "softplus = (1 + wide.exp()).log()"},
    ),
    Misconception(
        "mish_left_in_float32",
        "mish",
        "In half precision your result is float32. You widened x, which is right, and never came back.",
        {SQUASHED: SQUASHED.replace(".to(x.dtype)", "")},
    ),
    Misconception(
        "mish_float64_narrowed",
        "mish",
        "You compute in float32 whatever comes. That widens the halves, which is right, and narrows float64: more than "
        "half of its sixteen digits are lost.",
        {WIDE: "wide = x.float()"},
    ),
    Misconception(
        "mish_in_place",
        "mish",
        "You write your result into x. It is your caller's. (And torch refuses it for a tensor that wants a gradient.)",
        {SQUASHED: "return x.copy_(wide * softplus.tanh())"},
    ),
    # --- SwiGLU: the layers
    Misconception(
        "swiglu_named_as_in_llama",
        "SwiGLU",
        "Your layers are called `w1`, `w2` and `w3`, as in LLaMA's own code. Here they are `w_gate`, `w_down` and "
        "`w_up`: weights are given by their names, so a name is part of the answer.",
        source="""class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False)
        self.w2 = nn.Linear(d_ff, d_model, bias=False)
        self.w3 = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))
""",
    ),
    Misconception(
        "swiglu_one_matrix_up",
        "SwiGLU",
        "Gate and up are one layer of twice the width, `w_gate_up`, which computes the same in one product. Here they are "
        "two, by the names `w_gate` and `w_up`.",
        source="""class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate_up = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate, up = self.w_gate_up(x).chunk(2, dim=-1)
        return self.w_down(nn.functional.silu(gate) * up)
""",
    ),
    Misconception(
        "swiglu_with_biases",
        "SwiGLU",
        "Your layers have biases, as `nn.Linear` has unless told otherwise. Equation 6 has three matrices and nothing else.",
        {line: line.replace(", bias=False", "") for line in (W_GATE, W_UP, W_DOWN)},
    ),
    Misconception(
        "swiglu_bias_at_the_end",
        "SwiGLU",
        "Your last layer has a bias. Equation 6 has three matrices and nothing else.",
        {W_DOWN: W_DOWN.replace(", bias=False", "")},
    ),
    Misconception(
        "swiglu_two_thirds_taken_inside",
        "SwiGLU",
        "Your hidden layer is ⅔ of d_ff wide. To have as many weights as before, the caller asks for ⅔ of the old width; here "
        "d_ff is the width that is wanted.",
        {line: line.replace("d_ff", "int(2 * d_ff / 3)") for line in (W_GATE, W_UP, W_DOWN)},
    ),
    Misconception(
        "swiglu_four_times_as_wide",
        "SwiGLU",
        "Your hidden layer is 4 · d_model wide whatever is asked for. Here d_ff is an argument of its own.",
        {line: line.replace("d_ff", "4 * d_model") for line in (W_GATE, W_UP, W_DOWN)},
    ),
    # --- SwiGLU: the gate
    Misconception(
        "swiglu_gate_and_up_exchanged",
        "SwiGLU",
        "Your two projections have changed places: Swish falls on what comes from `w_gate`. A model that is trained this "
        "way is as good, and a published one's weights give nonsense in it.",
        {
            PROJECTED: "gate = self.w_up(x)",
            GATED: "return self.w_down(gate * self.w_gate(x))",
        },
    ),
    Misconception(
        "swiglu_relu_gate",
        "SwiGLU",
        "Your gate is a ReLU: that is ReGLU, of the same paper. SwiGLU has Swish, x · σ(x).",
        {SWISH: "gate = gate.relu()"},
    ),
    Misconception(
        "swiglu_gelu_gate",
        "SwiGLU",
        "Your gate is a GELU: that is GEGLU, of the same paper. SwiGLU has Swish, x · σ(x).",
        {SWISH: "gate = F.gelu(gate)"},
    ),
    Misconception(
        "swiglu_sigmoid_gate",
        "SwiGLU",
        "Your gate is a sigmoid alone: that is GLU, with which it all began. Swish is x · σ(x), and can be larger than 1.",
        {SWISH: "gate = gate.sigmoid()"},
    ),
    Misconception(
        "swiglu_bilinear",
        "SwiGLU",
        "You multiply the two projections as they are. The one from `w_gate` goes through Swish first.",
        {SWISH: "pass"},
    ),
    Misconception(
        "swiglu_swish_on_both",
        "SwiGLU",
        "Both projections go through Swish. Only the gate does; what it opens or shuts comes as it is.",
        {GATED: "return self.w_down(gate * F.silu(self.w_up(x)))"},
    ),
    Misconception(
        "swiglu_swish_on_the_product",
        "SwiGLU",
        "You multiply first, and Swish falls on the product. It falls on the gate alone, before that.",
        {SWISH: "pass", GATED: "return self.w_down(F.silu(gate * self.w_up(x)))"},
    ),
    Misconception(
        "swiglu_without_gate",
        "SwiGLU",
        "The projection by `w_up` is not used: this is an ordinary network with Swish between two layers. Gate and up are "
        "multiplied.",
        {GATED: "return self.w_down(gate)"},
    ),
    Misconception(
        "swiglu_sum_for_product",
        "SwiGLU",
        "You add the gate to what it is to open or shut. ⊗ multiplies, feature by feature.",
        {GATED: GATED.replace("gate *", "gate +")},
    ),
    Misconception(
        "swiglu_shortcut_inside",
        "SwiGLU",
        "You add x to the output. The shortcut is not part of this network: the block puts it around every sublayer, and "
        "then it would be there twice.",
        {GATED: GATED.replace("return ", "return x + ")},
    ),
    Misconception(
        "swiglu_sigmoid_written_out",
        "SwiGLU",
        "You wrote the sigmoid out, and e⁻ˣ overflows where a gate is far below 0: the value is 0, as it should be, its gradient "
        "is 0 · ∞, which is NaN. `torch.sigmoid` does not.",
        {SWISH: "gate = gate / (1 + (-gate).exp())"},
    ),
    Misconception(
        "swiglu_gate_detached",
        "SwiGLU",
        "Your results are right, your gradients are not: the sigmoid is taken for a constant. Swish is differentiated whole, "
        "or the gate does not learn when to open.",
        {SWISH: "gate = gate * gate.detach().sigmoid()"},
    ),
    Misconception(
        "swiglu_three_axes_only",
        "SwiGLU",
        "Your network asks for exactly three axes. It treats every token by itself, so any number of axes may stand in "
        "front; `nn.Linear` does not mind.",
        {PROJECTED: f"batch, time, _ = x.shape\n        {PROJECTED}"},
    ),
    Misconception(
        "swiglu_float32_whatever_comes",
        "SwiGLU",
        "Your gate is computed in float32 whatever comes, and float64 loses more than half of its digits. "
        "`nn.Linear` and Swish keep the dtype: nothing is to be cast here.",
        {SWISH: "gate = gate.float() * gate.float().sigmoid()\n        gate = gate.to(x.dtype)"},
    ),
]
