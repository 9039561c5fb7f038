"""Day 11: what goes wrong with norms, the shortcuts around sublayers, and copies of modules."""

from course.judging.misconceptions import Misconception

WIDE = "wide = x.to(torch.promote_types(x.dtype, torch.float32))"
CENTRE = "centred = wide - wide.mean(dim=-1, keepdim=True)"
VARIANCE = "variance = length.square() / x.size(-1)"
BY_MEAN = "variance = centred.square().mean(dim=-1, keepdim=True)"  # the same
ROOT = "(variance + self.eps).rsqrt()"
NORMED = f"normed = (centred * {ROOT}).to(x.dtype)"
SCALE = "return self.gain * normed + self.bias"

NORM = "self.norm = LayerNorm(size)"
DROPOUT = "nn.Dropout(dropout)"
PRE = "return x + self.dropout(sublayer(self.norm(x)))"
POST = "return self.norm(x + self.dropout(sublayer(x)))"

COPIES = "return nn.ModuleList(copy.deepcopy(module) for _ in range(n))"

MISCONCEPTIONS = [
    # --- LayerNorm: names and starts
    Misconception(
        "as_in_the_annotated_transformer",
        "LayerNorm",
        "This is the norm of a well-known annotated Transformer, and it differs in three things: its parameters are "
        "called `a_2` and `b_2`, its deviation divides by n − 1, and its ε is added after the root. Here: `gain` "
        "and `bias`, n, and under the root.",
        source="""class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2
""",
    ),
    Misconception(
        "named_as_in_torch",
        "LayerNorm",
        "Your parameters are called `weight` and `bias`, as in `nn.LayerNorm`. Here the scale is `gain`: weights are "
        "given by their names, so a name is part of the answer.",
        source="""class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
""",
    ),
    Misconception(
        "gain_is_no_parameter",
        "LayerNorm",
        "Your gain and bias are plain tensors. Only an `nn.Parameter` is found by the model's `parameters()`, and so by the "
        "optimiser; these two would stay as they are for ever.",
        {
            "self.gain = nn.Parameter(torch.ones(features))": "self.gain = torch.ones(features)",
            "self.bias = nn.Parameter(torch.zeros(features))": "self.bias = torch.zeros(features)",
        },
    ),
    Misconception(
        "one_gain_for_all_features",
        "LayerNorm",
        "Your gain and bias are a single number each. Every feature has its own.",
        {
            "torch.ones(features)": "torch.ones(1)",
            "torch.zeros(features)": "torch.zeros(1)",
        },
    ),
    Misconception(
        "gain_starts_at_0",
        "LayerNorm",
        "Your gain starts at 0, so at first everything that comes out is the bias, whatever goes in. It starts at 1.",
        {"torch.ones(features)": "torch.zeros(features)"},
    ),
    Misconception(
        "starts_at_random",
        "LayerNorm",
        "Your gain and bias start at random numbers. They start at 1 and 0, so that at first the norm only norms.",
        {
            "torch.ones(features)": "torch.randn(features)",
            "torch.zeros(features)": "torch.randn(features)",
        },
    ),
    # --- LayerNorm: which numbers
    Misconception(
        "norm_over_time",
        "LayerNorm",
        "Your mean and variance run over the tokens, the last axis but one. Each vector is normed over its own "
        "features: what stands elsewhere in the sentence does not matter.",
        {CENTRE: CENTRE.replace("-1", "-2"), VARIANCE: BY_MEAN.replace("-1", "-2")},
    ),
    Misconception(
        "norm_over_a_sentence",
        "LayerNorm",
        "You take one mean and one variance for each sentence, tokens and features together. Every vector has its own.",
        {CENTRE: CENTRE.replace("-1", "(-2, -1)"), VARIANCE: BY_MEAN.replace("-1", "(-2, -1)")},
    ),
    Misconception(
        "norm_over_everything",
        "LayerNorm",
        "You take one mean and one variance over the whole tensor. Every vector has its own, over its features.",
        {
            CENTRE: "centred = wide - wide.mean()",
            VARIANCE: "variance = centred.square().mean()",
        },
    ),
    Misconception(
        "batch_norm",
        "LayerNorm",
        "You norm each feature over all vectors: that is batch norm. Layer norm norms each vector over its features, so that "
        "a sentence comes out the same whatever it is batched with.",
        {
            CENTRE: CENTRE.replace("-1", "tuple(range(x.dim() - 1))"),
            VARIANCE: BY_MEAN.replace("-1", "tuple(range(x.dim() - 1))"),
        },
    ),
    Misconception(
        "keepdim_forgotten",
        "LayerNorm",
        "A mean or a variance of yours has lost the axis it was taken over, and no longer lines up with x: one vector "
        "alone works, a batch does not. Keep that axis, with length 1.",
        {
            CENTRE: CENTRE.replace(", keepdim=True", ""),
            VARIANCE: BY_MEAN.replace(", keepdim=True", ""),
        },
    ),
    # --- LayerNorm: the variance
    Misconception(
        "as_widely_copied",
        "LayerNorm",
        "This is a widely copied norm, and it differs in three things: `x.std()` divides by n − 1, ε is added to the "
        "deviation, after the root, and is 1e-6. Here: n, under the root, and 1e-5.",
        {
            "eps: float = 1e-5": "eps: float = 1e-6",
            WIDE: "wide = x",
            VARIANCE: "deviation = wide.std(dim=-1, keepdim=True)",
            NORMED: "normed = centred / (deviation + self.eps)",
        },
    ),
    Misconception(
        "unbiased_and_eps_outside",
        "LayerNorm",
        "Your deviation divides by n − 1, and ε is added to it after the root. Both are found in well-known code, where "
        "`x.std()` is to blame; here the variance divides by n, and ε stands under the root.",
        {
            WIDE: "wide = x",
            VARIANCE: "deviation = wide.std(dim=-1, keepdim=True)",
            NORMED: "normed = centred / (deviation + self.eps)",
        },
    ),
    Misconception(
        "unbiased_in_halves",
        "LayerNorm",
        "Two things. Your variance divides by n − 1, as torch's `var` does unless told otherwise; the norm divides by n. And you compute in the dtype that comes in: "
        "the variance of features like 300 is more than float16 can hold. Widen halves to float32 first.",
        {WIDE: "wide = x", VARIANCE: "variance = wide.var(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "unbiased",
        "LayerNorm",
        "Your variance divides by n − 1, as torch's `var` and `std` do unless told otherwise. These n features are all there are, "
        "and the norm divides by n. With a single feature n − 1 is even 0.",
        {VARIANCE: "variance = wide.var(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "sum_for_mean",
        "LayerNorm",
        "Your variance is the sum of the squares, not their mean. So every vector comes out with length 1 instead of "
        "variance 1, too small by √n.",
        {VARIANCE: "variance = length.square()"},
    ),
    Misconception(
        "variance_by_difference",
        "LayerNorm",
        "Your variance is the mean of the squares minus the square of the mean. True on paper; but at a mean of 1000 and a "
        "deviation of 0.1 two numbers near 1 000 000 should differ by 0.01, and float32 cannot hold that. "
        "Subtract the mean first, then square.",
        {
            VARIANCE: "variance = wide.square().mean(dim=-1, keepdim=True) "
            "- wide.mean(dim=-1, keepdim=True).square()"
        },
    ),
    Misconception(
        "variance_by_difference_kept_positive",
        "LayerNorm",
        "Your variance is the mean of the squares minus the square of the mean, kept from falling below 0. That hides "
        "the NaN, not the reason: at a mean of 1000 and a deviation of 0.1 float32 has no room for the difference.",
        {
            VARIANCE: "variance = wide.square().mean(dim=-1, keepdim=True) "
            "- wide.mean(dim=-1, keepdim=True).square()\n"
            "        variance = variance.clamp(min=0.0)"
        },
    ),
    Misconception(
        "root_mean_square",
        "LayerNorm",
        "You divide by the root of the mean square without subtracting the mean anywhere: that is RMSNorm, which "
        "comes on day 28. Layer norm centres each vector first.",
        {CENTRE: "centred = wide"},
    ),
    Misconception(
        "centred_over_root_mean_square",
        "LayerNorm",
        "You subtract the mean, but divide by the root of the mean of x², which still has the mean in it.",
        {VARIANCE: "variance = wide.square().mean(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "not_centred",
        "LayerNorm",
        "You divide by the deviation, but do not subtract the mean. What comes out should have mean 0 before the bias "
        "moves it.",
        {NORMED: NORMED.replace("centred", "wide")},
    ),
    Misconception(
        "not_divided",
        "LayerNorm",
        "You subtract the mean, but do not divide by the deviation. Every vector is to have variance 1 before gain and "
        "bias come to it.",
        {NORMED: "normed = centred.to(x.dtype)"},
    ),
    Misconception(
        "divided_by_variance",
        "LayerNorm",
        "You divide by the variance. Divide by its root, or the scale of x comes out upside down instead of gone.",
        {ROOT: "(variance + self.eps).reciprocal()"},
    ),
    Misconception(
        "statistics_detached",
        "LayerNorm",
        "Your results are right, your gradients are not: mean and deviation are taken for constants (`detach`, `no_grad`). They "
        "depend on x themselves, and that is how the norm holds a gradient in check.",
        {
            CENTRE: "centred = wide - wide.mean(dim=-1, keepdim=True).detach()",
            VARIANCE: "variance = (length.square() / x.size(-1)).detach()",
        },
    ),
    Misconception(
        "deviation_detached",
        "LayerNorm",
        "Your results are right, your gradients are not: the deviation is taken for a constant. It depends on x "
        "itself, and so a longer x gets a smaller gradient, not a larger one.",
        {VARIANCE: "variance = (length.square() / x.size(-1)).detach()"},
    ),
    # --- LayerNorm: eps
    Misconception(
        "eps_outside_the_root",
        "LayerNorm",
        "Your ε is added to the deviation, after the root. It belongs under the root. The two differ where the variance is as "
        "small as ε; and at variance 0 the root alone has no gradient but NaN.",
        {NORMED: "normed = (centred / (variance.sqrt() + self.eps)).to(x.dtype)"},
    ),
    Misconception(
        "eps_added_to_std",
        "LayerNorm",
        "Your ε is added to the deviation that `std` gives. It belongs to the variance, under the root: the two differ "
        "a lot where the variance is as small as ε, and there your gradients are hundreds of times too large.",
        {
            VARIANCE: "deviation = wide.std(dim=-1, keepdim=True, correction=0)",
            NORMED: "normed = (centred / (deviation + self.eps)).to(x.dtype)",
        },
    ),
    Misconception(
        "eps_forgotten",
        "LayerNorm",
        "Your norm does without ε. A vector of equal numbers has variance 0, and 0 / 0 is NaN; with ε it gives the bias.",
        {ROOT: "variance.rsqrt()"},
    ),
    Misconception(
        "eps_squared",
        "LayerNorm",
        "Your ε is squared before it is added to the variance. The formula adds ε itself.",
        {ROOT: "(variance + self.eps**2).rsqrt()"},
    ),
    Misconception(
        "eps_as_lower_bound",
        "LayerNorm",
        "Your ε only stands in where the variance is smaller. It is added to the variance, always.",
        {ROOT: "variance.clamp(min=self.eps).rsqrt()"},
    ),
    Misconception(
        "eps_fixed",
        "LayerNorm",
        "Your ε is 1e-5 whatever the caller says. It is an argument: use it.",
        {ROOT: "(variance + 1e-5).rsqrt()"},
    ),
    Misconception(
        "eps_of_1e_6",
        "LayerNorm",
        "Your default ε is 1e-6. Papers and libraries differ here; in this course, as in PyTorch, it is 1e-5.",
        {"eps: float = 1e-5": "eps: float = 1e-6"},
    ),
    Misconception(
        "eps_of_1e_12",
        "LayerNorm",
        "Your default ε is 1e-12, as in BERT's code. In this course, as in PyTorch, it is 1e-5.",
        {"eps: float = 1e-5": "eps: float = 1e-12"},
    ),
    # --- LayerNorm: gain and bias
    Misconception(
        "gain_forgotten",
        "LayerNorm",
        "Your gain is there, but changes nothing. What is normed is multiplied by it before the bias is added.",
        {SCALE: "return normed + self.bias"},
    ),
    Misconception(
        "bias_forgotten",
        "LayerNorm",
        "Your bias is there, but changes nothing: every feature is off by its own constant.",
        {SCALE: "return self.gain * normed"},
    ),
    Misconception(
        "gain_times_bias",
        "LayerNorm",
        "Your gain multiplies the bias, too. Scale first, and add the bias to what is scaled.",
        {SCALE: "return self.gain * (normed + self.bias)"},
    ),
    Misconception(
        "gain_before_norm",
        "LayerNorm",
        "You multiply by the gain before you norm, and the norm takes away most of what it did. It comes after the "
        "division.",
        {CENTRE: "wide = self.gain * wide\n        " + CENTRE, SCALE: "return normed + self.bias"},
    ),
    Misconception(
        "gain_plus_one",
        "LayerNorm",
        "You multiply by 1 + gain. Some models store the gain that way; here it is the factor itself, and starts at 1.",
        {SCALE: "return (1 + self.gain) * normed + self.bias"},
    ),
    # --- LayerNorm: dtypes and side effects
    Misconception(
        "halves_not_widened",
        "LayerNorm",
        "In float16 your squares, or their mean, overflow: 300² is 90 000, and the largest number of float16 is 65504. "
        "Compute mean and variance in float32 and come back to x's dtype after the division.",
        {WIDE: "wide = x", VARIANCE: "variance = wide.var(dim=-1, keepdim=True, correction=0)"},
    ),
    Misconception(
        "squares_overflow_in_halves",
        "LayerNorm",
        "In float16 your squares overflow: 300² is 90 000, and the largest number of float16 is 65504. A single such feature makes the variance "
        "infinite, and the whole vector comes out as the bias. Compute mean and variance in float32 and come back to x's dtype after the division.",
        {WIDE: "wide = x", VARIANCE: BY_MEAN},
    ),
    Misconception(
        "float32_for_everything",
        "LayerNorm",
        "Your result is float32 whatever comes in: you compute in it, and never come back. That is right on the way for the halves, but the result has x's dtype; "
        "and float64 loses more than half of its digits.",
        {
            WIDE: "wide = x.float()",
            VARIANCE: BY_MEAN,
            NORMED: "normed = centred / (variance + self.eps).sqrt()",
        },
    ),
    Misconception(
        "halves_left_in_float32",
        "LayerNorm",
        "In half precision your result is float32. You widened x, which is right, and never came back.",
        {NORMED: NORMED.replace(".to(x.dtype)", "")},
    ),
    Misconception(
        "float64_narrowed",
        "LayerNorm",
        "You compute in float32 whatever comes. That widens the halves, which is right, and narrows float64: ten of its sixteen digits are "
        "lost.",
        {
            WIDE: "wide = x.float()",
            VARIANCE: BY_MEAN,
            NORMED: "normed = (centred / (variance + self.eps).sqrt()).to(x.dtype)",
        },
    ),
    Misconception(
        "x_centred_in_place",
        "LayerNorm",
        "You centre x itself, in place. Whoever called still needs it: x goes on along the shortcut. (And torch refuses "
        "it for a tensor that wants a gradient.)",
        {WIDE: "x -= x.mean(dim=-1, keepdim=True)\n        " + WIDE},
    ),
    # --- SublayerConnection: where the norm goes
    Misconception(
        "connection_of_the_annotated_transformer",
        "SublayerConnection",
        "Your connection cannot be told where its norm goes: it takes `size` and `dropout` only, and is pre-norm, as in a well-known annotated "
        "Transformer. Here it takes `norm` as well, and post-norm, the paper's arrangement, is the default.",
        source="""class SublayerConnection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))
""",
    ),
    Misconception(
        "torchs_layer_norm",
        "SublayerConnection",
        "Your norm is torch's `nn.LayerNorm`, whose parameters are called `weight` and `bias`. Use your own `LayerNorm`, with "
        "`gain` and `bias`.",
        {NORM: "self.norm = nn.LayerNorm(size)"},
    ),
    Misconception(
        "norm_without_parameters",
        "SublayerConnection",
        "Your connection has no norm of its own among its parts: made anew at every call, or not kept, it has nothing that "
        "can be learnt. Make it once, and keep it as `norm`.",
        {
            NORM: "pass",
            PRE: PRE.replace("self.norm(x)", "LayerNorm(x.size(-1)).to(x)(x)"),
            POST: "return LayerNorm(x.size(-1)).to(x)(x + self.dropout(sublayer(x)))",
        },
    ),
    Misconception(
        "pre_norm_by_default",
        "SublayerConnection",
        "Your default is pre-norm, as most later models have it. The paper norms after the addition, and so does the "
        "default here.",
        {'norm: str = "post"': 'norm: str = "pre"'},
    ),
    Misconception(
        "always_pre_norm",
        "SublayerConnection",
        'Your connection is pre-norm whatever is asked for. (Note that `norm == "pre" or "post"` is always true in Python.) '
        "The paper's is post-norm: the norm comes after the addition.",
        {POST: PRE},
    ),
    Misconception(
        "always_post_norm",
        "SublayerConnection",
        'Your connection is post-norm whatever is asked for. With `norm="pre"` the norm stands inside the branch, and the '
        "shortcut past it.",
        {PRE: POST},
    ),
    Misconception(
        "pre_and_post_exchanged",
        "SublayerConnection",
        "Your two arrangements have changed places. Post-norm norms the sum, after the sublayer; pre-norm norms what the "
        "sublayer is given.",
        {"if self.pre:": "if not self.pre:"},
    ),
    Misconception(
        "shortcut_from_the_normed",
        "SublayerConnection",
        "In pre-norm you add the sublayer's output to the *normed* x. The point of pre-norm is a shortcut that nothing touches: "
        "x itself.",
        {PRE: "x = self.norm(x)\n            return x + self.dropout(sublayer(x))"},
    ),
    Misconception(
        "normed_before_and_after",
        "SublayerConnection",
        "In pre-norm you norm the sum as well. There only the sublayer's input is normed; a stack has one more norm at "
        "its very end.",
        {PRE: "return self.norm(x + self.dropout(sublayer(self.norm(x))))"},
    ),
    Misconception(
        "post_norm_normed_before_as_well",
        "SublayerConnection",
        "In post-norm your sublayer is given a normed x. It gets x as it is; only the sum is normed.",
        {POST: POST.replace("sublayer(x)", "sublayer(self.norm(x))")},
    ),
    Misconception(
        "branch_normed_then_dropped",
        "SublayerConnection",
        "In post-norm you norm the sublayer's output, drop some of that, and then add x. It is the *sum* that is normed, shortcut and all, and the dropout comes "
        "before the addition.",
        {POST: "return x + self.dropout(self.norm(sublayer(x)))"},
    ),
    Misconception(
        "norm_inside_the_branch",
        "SublayerConnection",
        "In post-norm you norm the sublayer's output and then add x. It is the *sum* that is normed, shortcut and all.",
        {POST: "return x + self.norm(self.dropout(sublayer(x)))"},
    ),
    Misconception(
        "normed_x_plus_sublayer",
        "SublayerConnection",
        "In post-norm you norm x and then add the sublayer's output. It is the *sum* that is normed.",
        {POST: "return self.norm(x) + self.dropout(sublayer(x))"},
    ),
    Misconception(
        "post_norm_without_shortcut",
        "SublayerConnection",
        "Your post-norm has no shortcut: x is not added. A few such layers, and all tokens are alike (day 6).",
        {POST: "return self.norm(self.dropout(sublayer(x)))"},
    ),
    Misconception(
        "pre_norm_without_shortcut",
        "SublayerConnection",
        "Your pre-norm has no shortcut: x is not added.",
        {PRE: "return self.dropout(sublayer(self.norm(x)))"},
    ),
    Misconception(
        "no_shortcut",
        "SublayerConnection",
        "There is no shortcut: x is not added to what the sublayer gives.",
        {
            PRE: "return self.dropout(sublayer(self.norm(x)))",
            POST: "return self.norm(self.dropout(sublayer(x)))",
        },
    ),
    Misconception(
        "asked_twice",
        "SublayerConnection",
        "You ask the sublayer twice. The second time costs as much as the first, draws another dropout, and overwrites what "
        "a sublayer keeps, such as attention its weights.",
        {
            PRE: "sublayer(self.norm(x))\n            " + PRE,
            POST: "sublayer(x)\n        " + POST,
        },
    ),
    Misconception(
        "method_forward",
        "SublayerConnection",
        "You ask the sublayer for its `forward`. It may be any callable, such as a lambda; and calling a module, "
        "not its `forward`, is what runs its hooks.",
        {
            PRE: PRE.replace("sublayer(", "sublayer.forward("),
            POST: POST.replace("sublayer(", "sublayer.forward("),
        },
    ),
    Misconception(
        "output_added_in_place",
        "SublayerConnection",
        "You add in place to what the sublayer gave you. That is its own tensor: it may be one that it keeps, or, as here, x "
        "itself.",
        {
            PRE: "output = self.dropout(sublayer(self.norm(x)))\n"
            "            output += x\n"
            "            return output",
            POST: "output = self.dropout(sublayer(x))\n        output += x\n        return self.norm(output)",
        },
    ),
    Misconception(
        "x_added_to_in_place",
        "SublayerConnection",
        "You add to x in place. It is your caller's, and `x += …` writes into it; `x + …` makes a new one.",
        {
            PRE: "x += self.dropout(sublayer(self.norm(x)))\n            return x",
            POST: "x += self.dropout(sublayer(x))\n        return self.norm(x)",
        },
    ),
    Misconception(
        "shortcut_detached",
        "SublayerConnection",
        "No gradient comes back along your shortcut: the x that is added was detached. The shortcut is there for the gradient "
        "as much as for x.",
        {
            PRE: PRE.replace("x + ", "x.detach() + "),
            POST: POST.replace("x + ", "x.detach() + "),
        },
    ),
    # --- SublayerConnection: dropout
    Misconception(
        "dropout_on_the_sum",
        "SublayerConnection",
        "Your dropout falls on the sum, so it tears holes into the shortcut. It falls on the sublayer's output alone, before "
        "the addition (§5.4).",
        {
            PRE: "return self.dropout(x + sublayer(self.norm(x)))",
            POST: "return self.norm(self.dropout(x + sublayer(x)))",
        },
    ),
    Misconception(
        "dropout_after_post_norm",
        "SublayerConnection",
        "In post-norm your dropout comes last, after the norm. It falls on the sublayer's output, before the addition "
        "(§5.4).",
        {POST: "return self.dropout(self.norm(x + sublayer(x)))"},
    ),
    Misconception(
        "dropout_on_sublayers_input",
        "SublayerConnection",
        "Your dropout falls on what the sublayer is given. It falls on what comes out of it.",
        {
            PRE: "return x + sublayer(self.dropout(self.norm(x)))",
            POST: "return self.norm(x + sublayer(self.dropout(x)))",
        },
    ),
    Misconception(
        "dropout_on_shortcut",
        "SublayerConnection",
        "Your dropout falls on the shortcut. It falls on the sublayer's output; the shortcut stays whole.",
        {
            PRE: "return self.dropout(x) + sublayer(self.norm(x))",
            POST: "return self.norm(self.dropout(x) + sublayer(x))",
        },
    ),
    Misconception(
        "nothing_dropped",
        "SublayerConnection",
        "Nothing is ever dropped. In training each feature of the sublayer's output is, with the probability that was "
        "asked for.",
        {
            PRE: "return x + sublayer(self.norm(x))",
            POST: "return self.norm(x + sublayer(x))",
        },
    ),
    Misconception(
        "dropout_in_evaluation",
        "SublayerConnection",
        "Your dropout goes on in evaluation. `F.dropout` drops unless it is told that this is no training; a module of "
        "`nn.Dropout` is told by `train()` and `eval()`.",
        {
            PRE: "return x + nn.functional.dropout(sublayer(self.norm(x)), self.dropout.p)",
            POST: "return self.norm(x + nn.functional.dropout(sublayer(x), self.dropout.p))",
        },
    ),
    Misconception(
        "dropout_of_half",
        "SublayerConnection",
        "Your dropout does not know the probability that was asked for: `nn.Dropout()` alone drops half of "
        "everything.",
        {DROPOUT: "nn.Dropout()"},
    ),
    Misconception(
        "dropout_of_a_tenth",
        "SublayerConnection",
        "Your dropout is 0.1 whatever is asked for. That is the paper's choice; here it is an argument.",
        {DROPOUT: "nn.Dropout(0.1)"},
    ),
    Misconception(
        "dropout_as_share_kept",
        "SublayerConnection",
        "You took the dropout for the share that is kept. In the paper, and in torch, P_drop is the share that is dropped.",
        {DROPOUT: "nn.Dropout(1 - dropout)"},
    ),
    Misconception(
        "whole_branches_dropped",
        "SublayerConnection",
        "You drop all features of a token, or none. Each feature has a chance of its own. (Dropping a whole branch is "
        "known as stochastic depth, and is another idea.)",
        {
            PRE: "kept = self.dropout(torch.ones_like(x[..., :1]))\n"
            "            return x + kept * sublayer(self.norm(x))",
            POST: "kept = self.dropout(torch.ones_like(x[..., :1]))\n"
            "        return self.norm(x + kept * sublayer(x))",
        },
    ),
    # --- clones
    Misconception(
        "one_module_many_times",
        "clones",
        "Your list holds the module itself, n times. A name more is no copy: all layers share one set of weights, and a step that "
        "changes one changes them all.",
        {COPIES: "return nn.ModuleList([module] * n)"},
    ),
    Misconception(
        "one_copy_many_times",
        "clones",
        "You copy once, and put that one copy into the list n times. Every place needs a copy of its own.",
        {COPIES: "return nn.ModuleList([copy.deepcopy(module)] * n)"},
    ),
    Misconception(
        "shallow_copies",
        "clones",
        "Your clones share their parameters, with each other and with the original: the copies are shallow, new modules "
        "around the same parts, or were tied together. Each is to be free to learn something else.",
        {COPIES: "return nn.ModuleList(copy.copy(module) for _ in range(n))"},
    ),
    Misconception(
        "the_original_first",
        "clones",
        "The module itself is the first of your clones. It stays its owner's: n copies are asked for, none of them the "
        "original.",
        {
            COPIES: "return nn.ModuleList([module, *(copy.deepcopy(module) for _ in range(n - 1))][:n])"
        },
    ),
    Misconception(
        "a_plain_list",
        "clones",
        "You return a Python list. A module does not look into lists: `parameters()` would not find the copies, they would "
        "never learn, and never move to a GPU.",
        {COPIES: "return [copy.deepcopy(module) for _ in range(n)]"},
    ),
    Misconception(
        "a_sequential",
        "clones",
        "You return an `nn.Sequential`. It can be called with one argument and feeds each part into the next; encoder "
        "layers want a mask as well. Here an `nn.ModuleList` is asked for, which only keeps.",
        {COPIES: "return nn.Sequential(*(copy.deepcopy(module) for _ in range(n)))"},
    ),
    Misconception(
        "one_too_few",
        "clones",
        "There is one clone too few. Do you count from 1? `range(1, n)` has n − 1 numbers.",
        {COPIES: COPIES.replace("range(n)", "range(1, n)")},
    ),
    Misconception(
        "one_too_many",
        "clones",
        "There is one clone too many. n copies are asked for; the original is not one of them, and does not need to be "
        "counted.",
        {COPIES: COPIES.replace("range(n)", "range(n + 1)")},
    ),
    Misconception(
        "filled_anew",
        "clones",
        "Your clones start from weights of their own. They are copies of the module as it is now: equal to it at the "
        "start, and different only by what they learn.",
        {
            COPIES: "copies = nn.ModuleList(copy.deepcopy(module) for _ in range(n))\n"
            "    for parameter in copies.parameters():\n"
            "        nn.init.normal_(parameter, std=0.02)\n"
            "    return copies"
        },
    ),
]
