"""Day 11: what goes wrong with norms, the shortcuts around sublayers, and copies of modules."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "LayerNorm",
        {
            # --- LayerNorm: names and starts
            "as_in_the_annotated_transformer": (
                "This is the norm of a well-known annotated Transformer, and it differs in three things: its parameters are called `a_2` and `b_2`, its deviation "
                "divides by n − 1, and its ε is added after the root. Here: `gain` and `bias`, n, and under the root.",
                """class LayerNorm(nn.Module):
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
            "named_as_in_torch": (
                "Your parameters are called `weight` and `bias`, as in `nn.LayerNorm`. Here the scale is `gain`: weights are given by their names, so a name is "
                "part of the answer.",
                """class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
""",
            ),
            "gain_is_no_parameter": (
                "Your gain and bias are no `nn.Parameter`s. Only these are found by the model's `parameters()`, and so by the optimizer; plain tensors and "
                "buffers would stay as they are for ever.",
                {"self.gain = nn.Parameter(_)": "self.gain = _", "self.bias = nn.Parameter(_)": "self.bias = _"},
            ),
            "one_gain_for_all_features": (
                "Your gain and bias are a single number each. Every feature has its own.",
                {"torch.ones(features)": "torch.ones(1)", "torch.zeros(features)": "torch.zeros(1)"},
            ),
            "gain_starts_at_0": (
                "Your gain starts at 0, so at first everything that comes out is the bias, whatever goes in. It starts at 1.",
                {"torch.ones": "torch.zeros"},
            ),
            "starts_at_random": (
                "Your gain and bias do not start at 1 and 0, with which at first the norm only normalizes.",
                {"torch.ones": "torch.randn", "torch.zeros": "torch.randn"},
            ),
            # --- LayerNorm: which numbers
            "norm_over_time": (
                "Your mean and variance run over the tokens, the last axis but one. Each vector is normed over its own features: what stands elsewhere in the "
                "sentence does not matter.",
                {"1: dim=-1": "dim=-2", "length.square() / x.size(-1)": "centred.square().mean(dim=-2, keepdim=True)"},
            ),
            "norm_over_a_sentence": (
                "You take one mean and one variance for each sentence, tokens and features together. Every vector has its own.",
                {"1: dim=-1": "dim=(-2, -1)", "length.square() / x.size(-1)": "centred.square().mean(dim=(-2, -1), keepdim=True)"},
            ),
            "norm_over_everything": (
                "You take one mean and one variance over the whole tensor. Every vector has its own, over its features.",
                {"1: dim=-1": "", "1: keepdim=True": "", "length.square() / x.size(-1)": "centred.square().mean()"},
            ),
            "batch_norm": (
                "You norm each feature over all vectors: that is batch norm. Layer norm norms each vector over its features, so that a sentence comes out the same "
                "whatever it is batched with.",
                {
                    "1: dim=-1": "dim=tuple(range(x.dim() - 1))",
                    "length.square() / x.size(-1)": "centred.square().mean(dim=tuple(range(x.dim() - 1)), keepdim=True)",
                },
            ),
            "keepdim_forgotten": (
                "A mean or a variance of yours has lost the axis it was taken over, and no longer lines up with x: one vector alone works, a batch does not. Keep "
                "that axis, with length 1.",
                {"1: keepdim=True": "", "length.square() / x.size(-1)": "centred.square().mean(dim=-1)"},
            ),
            # --- LayerNorm: the variance
            "as_widely_copied": (
                "This is a widely copied norm, and it differs in three things: `x.std()` divides by n − 1, ε is added to the deviation, after the root, and is "
                "1e-6. Here: n, under the root, and 1e-5.",
                {
                    "eps=1e-5": "eps=1e-6",
                    "wide = ...": "wide = x",
                    "variance = ...": "deviation = wide.std(dim=-1, keepdim=True)",
                    "normed = ...": "normed = centred / (deviation + self.eps)",
                },
            ),
            "unbiased_and_eps_outside": (
                "Your deviation divides by n − 1, and ε is added to it after the root. Both are found in well-known code, where `x.std()` is to blame; here the "
                "variance divides by n, and ε stands under the root.",
                {
                    "wide = ...": "wide = x",
                    "variance = ...": "deviation = wide.std(dim=-1, keepdim=True)",
                    "normed = ...": "normed = centred / (deviation + self.eps)",
                },
            ),
            "unbiased_in_halves": (
                "Two things. Your variance divides by n − 1, as torch's `var` does unless told otherwise; the norm divides by n. And you compute in the dtype that "
                "comes in: the variance of features like 300 is more than float16 can hold. Widen halves to float32 first.",
                {"wide = ...": "wide = x", "length.square() / x.size(-1)": "wide.var(dim=-1, keepdim=True)"},
            ),
            "unbiased": (
                "Your variance divides by n − 1, as torch's `var` and `std` do unless told otherwise. These n features are all there are, and the norm divides by "
                "n. With a single feature n − 1 is even 0.",
                {"length.square() / x.size(-1)": "wide.var(dim=-1, keepdim=True)"},
            ),
            "sum_for_mean": (
                "Your variance is the sum of the squares, not their mean. So every vector comes out with length 1 instead of variance 1, too small by √n.",
                {"_ / x.size(-1)": "_"},
            ),
            "variance_by_difference": (
                "Your variance is the mean of the squares minus the square of the mean. True on paper; but at a mean of 1000 and a deviation of 0.1 two numbers "
                "near 1 000 000 should differ by 0.01, and float32 cannot hold that. Subtract the mean first, then square.",
                {"length.square() / x.size(-1)": "wide.square().mean(dim=-1, keepdim=True) - wide.mean(dim=-1, keepdim=True).square()"},
            ),
            "variance_by_difference_kept_positive": (
                "Your variance is the mean of the squares minus the square of the mean, kept from falling below 0. That hides the NaN, not the reason: at a mean "
                "of 1000 and a deviation of 0.1 float32 has no room for the difference.",
                {
                    "variance = ...": "variance = wide.square().mean(dim=-1, keepdim=True) - wide.mean(dim=-1, keepdim=True).square()\n"
                    "variance = variance.clamp(min=0.0)"
                },
            ),
            "root_mean_square": (
                "You divide by the root of the mean square without subtracting the mean anywhere: that is RMSNorm, which comes on day 28. Layer norm centres each "
                "vector first.",
                {"wide - ...": "wide"},
            ),
            "centred_over_root_mean_square": (
                "You subtract the mean, but divide by the root of the mean of x², which still has the mean in it.",
                {"length.square() / x.size(-1)": "wide.square().mean(dim=-1, keepdim=True)"},
            ),
            "not_centred": (
                "You divide by the deviation, but do not subtract the mean. What comes out should have mean 0 before the bias moves it.",
                {"centred * _": "wide * _"},
            ),
            "not_divided": (
                "You subtract the mean, but do not divide by the deviation. Every vector is to have variance 1 before gain and bias come to it.",
                {"centred * ...": "centred"},
            ),
            "divided_by_variance": (
                "You divide by the variance. Divide by its root, or the scale of x comes out upside down instead of gone.",
                {"_.rsqrt": "_.reciprocal"},
            ),
            "statistics_detached": (
                "Your results are right, but your gradients are wrong: mean and deviation are taken for constants (`detach`, `no_grad`). They depend on x themselves, "
                "and that is how the norm holds a gradient in check.",
                {"wide - _": "wide - _.detach()", "variance = _": "variance = _.detach()"},
            ),
            "deviation_detached": (
                "Your results are right, but your gradients are wrong: the deviation is taken for a constant. It depends on x itself, and so a longer x gets a smaller "
                "gradient, not a larger one.",
                {"variance = _": "variance = _.detach()"},
            ),
            # --- LayerNorm: eps
            "eps_outside_the_root": (
                "Your ε is added to the deviation, after the root. It belongs under the root. The two differ where the variance is as small as ε; and at variance "
                "0 the root alone has no gradient but NaN.",
                {"centred * ...": "centred / (variance.sqrt() + self.eps)"},
            ),
            "eps_added_to_std": (
                "Your ε is added to the deviation that `std` gives. It belongs to the variance, under the root: the two differ a lot where the variance is as "
                "small as ε, and there your gradients are hundreds of times too large.",
                {"variance = ...": "deviation = wide.std(dim=-1, keepdim=True, correction=0)", "centred * ...": "centred / (deviation + self.eps)"},
            ),
            "eps_forgotten": (
                "Your norm does without ε. A vector of equal numbers has variance 0, and 0 / 0 is NaN; with ε it gives the bias.",
                {"variance + self.eps": "variance"},
            ),
            "eps_squared": (
                "Your ε is squared before it is added to the variance. The formula adds ε itself.",
                {"self.eps": "self.eps**2"},
            ),
            "eps_as_lower_bound": (
                "Your ε only stands in where the variance is smaller. It is added to the variance, always.",
                {"variance + self.eps": "variance.clamp(min=self.eps)"},
            ),
            "eps_fixed": (
                "Your ε is 1e-5 whatever the caller says. It is an argument: use it.",
                {"self.eps": "1e-5"},
            ),
            "eps_of_1e_6": (
                "Your default ε is 1e-6. Papers and libraries differ here; in this course, as in PyTorch, it is 1e-5.",
                {"eps=1e-5": "eps=1e-6"},
            ),
            "eps_of_1e_12": (
                "Your default ε is 1e-12, as in BERT's code. In this course, as in PyTorch, it is 1e-5.",
                {"eps=1e-5": "eps=1e-12"},
            ),
            # --- LayerNorm: gain and bias
            "gain_forgotten": (
                "Your gain is there, but changes nothing. What is normed is multiplied by it before the bias is added.",
                {"self.gain * normed": "normed"},
            ),
            "bias_forgotten": (
                "Your bias is there, but changes nothing: every feature is off by its own constant.",
                {"_ + self.bias": "_"},
            ),
            "gain_times_bias": (
                "Your gain multiplies the bias, too. Scale first, and add the bias to what is scaled.",
                {"return ...": "return self.gain * (normed + self.bias)"},
            ),
            "gain_before_norm": (
                "You multiply by the gain before you norm, and the norm takes away most of what it did. It comes after the division.",
                {"wide = _": "wide = _\nwide = self.gain * wide", "self.gain * normed": "normed"},
            ),
            "gain_plus_one": (
                "You multiply by 1 + gain. Some models store the gain that way; here it is the factor itself, and starts at 1.",
                {"3: self.gain": "1 + self.gain"},
            ),
            # --- LayerNorm: dtypes and side effects
            "halves_not_widened": (
                "In float16 your squares, or their mean, overflow: 300² is 90 000, and the largest number of float16 is 65504. Compute mean and variance in "
                "float32 and come back to x's dtype after the division.",
                {"wide = ...": "wide = x", "length.square() / x.size(-1)": "wide.var(dim=-1, keepdim=True, correction=0)"},
            ),
            "squares_overflow_in_halves": (
                "In float16 your squares overflow: 300² is 90 000, and the largest number of float16 is 65504. A single such feature makes the variance infinite, "
                "and the whole vector comes out as the bias. Compute mean and variance in float32 and come back to x's dtype after the division.",
                {"wide = ...": "wide = x", "length.square() / x.size(-1)": "centred.square().mean(dim=-1, keepdim=True)"},
            ),
            "float32_for_everything": (
                "Your result is float32 whatever comes in: you compute in it, and never come back. That is right on the way for the halves, but the result has x's "
                "dtype; and float64 loses more than half of its digits.",
                {
                    "wide = ...": "wide = x.float()",
                    "length.square() / x.size(-1)": "centred.square().mean(dim=-1, keepdim=True)",
                    "(centred * _.rsqrt()).to(x.dtype)": "centred / _.sqrt()",
                },
            ),
            "halves_left_in_float32": (
                "In half precision your result is float32. You widened x, which is right, and never came back.",
                {"_.to(x.dtype)": "_"},
            ),
            "float64_narrowed": (
                "You compute in float32 whatever comes. That widens the halves, which is right, and narrows float64: ten of its sixteen digits are lost.",
                {
                    "wide = ...": "wide = x.float()",
                    "length.square() / x.size(-1)": "centred.square().mean(dim=-1, keepdim=True)",
                    "centred * _.rsqrt()": "centred / _.sqrt()",
                },
            ),
            "x_centred_in_place": (
                "You centre x itself, in place. Whoever called still needs it: x goes on along the shortcut. (And torch refuses it for a tensor that wants a "
                "gradient.)",
                {"wide = _": "x -= x.mean(dim=-1, keepdim=True)\nwide = _"},
            ),
        },
    ),
    *of(
        "SublayerConnection",
        {
            # --- SublayerConnection: where the norm goes
            "connection_of_the_annotated_transformer": (
                "Your connection cannot be told where its norm goes: it takes `size` and `dropout` only, and is pre-norm, as in a well-known annotated "
                "Transformer. Here it takes `norm` as well, and post-norm, the paper's arrangement, is the default.",
                """class SublayerConnection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))
""",
            ),
            "torchs_layer_norm": (
                "Your norm is torch's `nn.LayerNorm`, whose parameters are called `weight` and `bias`. Use your own `LayerNorm`, with `gain` and `bias`.",
                {"LayerNorm(size)": "nn.LayerNorm(size)"},
            ),
            "norm_without_parameters": (
                "Your connection has no norm of its own among its parts: made anew at every call, or not kept, it has nothing that can be learnt. Make it once, "
                "and keep it as `norm`.",
                {"self.norm = LayerNorm(size)": "pass", "1: self.norm": "LayerNorm(x.size(-1)).to(x)", "2: self.norm": "LayerNorm(x.size(-1)).to(x)"},
            ),
            "pre_norm_by_default": (
                "Your default is pre-norm, as most later models have it. The paper norms after the addition, and so does the default here.",
                {"norm='post'": "norm='pre'"},
            ),
            "always_pre_norm": (
                'Your connection is pre-norm whatever is asked for. (Note that `norm == "pre" or "post"` is always true in Python.) The paper\'s is post-norm: the '
                "norm comes after the addition.",
                {"2: self.norm(...)": "x + self.dropout(sublayer(self.norm(x)))"},
            ),
            "always_post_norm": (
                'Your connection is post-norm whatever is asked for. With `norm="pre"` the norm stands inside the branch, and the shortcut past it.',
                {"1: return ...": "return self.norm(x + self.dropout(sublayer(x)))"},
            ),
            "pre_and_post_exchanged": (
                "Your two arrangements have changed places. Post-norm norms the sum, after the sublayer; pre-norm norms what the sublayer is given.",
                {"self.pre": "not self.pre"},
            ),
            "shortcut_from_the_normed": (
                "In pre-norm you add the sublayer's output to the *normed* x. The point of pre-norm is a shortcut that nothing touches: x itself.",
                {"1: return ...": "x = self.norm(x)\nreturn x + self.dropout(sublayer(x))"},
            ),
            "normed_before_and_after": (
                "In pre-norm you norm the sum as well. There only the sublayer's input is normed; a stack has one more norm at its very end.",
                {"1: return _": "return self.norm(_)"},
            ),
            "post_norm_normed_before_as_well": (
                "In post-norm your sublayer is given a normed x. It gets x as it is; only the sum is normed.",
                {"sublayer(x)": "sublayer(self.norm(x))"},
            ),
            "branch_normed_then_dropped": (
                "In post-norm you norm the sublayer's output, drop some of that, and then add x. It is the *sum* that is normed, shortcut and all, and the dropout "
                "comes before the addition.",
                {"2: self.norm(...)": "x + self.dropout(self.norm(sublayer(x)))"},
            ),
            "norm_inside_the_branch": (
                "In post-norm you norm the sublayer's output and then add x. It is the *sum* that is normed, shortcut and all.",
                {"self.norm(x + _)": "x + self.norm(_)"},
            ),
            "normed_x_plus_sublayer": (
                "In post-norm you norm x and then add the sublayer's output. It is the *sum* that is normed.",
                {"self.norm(x + _)": "self.norm(x) + _"},
            ),
            "post_norm_without_shortcut": (
                "Your post-norm has no shortcut: x is not added. A few such layers, and all tokens are alike (day 6).",
                {"self.norm(x + _)": "self.norm(_)"},
            ),
            "pre_norm_without_shortcut": (
                "Your pre-norm has no shortcut: x is not added.",
                {"return x + _": "return _"},
            ),
            "no_shortcut": (
                "There is no shortcut: x is not added to what the sublayer gives.",
                {"return x + _": "return _", "self.norm(x + _)": "self.norm(_)"},
            ),
            "asked_twice": (
                "You ask the sublayer twice. The second time costs as much as the first, draws another dropout, and overwrites what a sublayer keeps, such as "
                "attention its weights.",
                {"1: return _": "sublayer(self.norm(x))\nreturn _", "2: return _": "sublayer(x)\nreturn _"},
            ),
            "method_forward": (
                "You ask the sublayer for its `forward`. It may be any callable, such as a lambda; and calling a module, not its `forward`, is what runs its hooks.",
                {"1: sublayer(_)": "sublayer.forward(_)", "sublayer(x)": "sublayer.forward(x)"},
            ),
            "output_added_in_place": (
                "You add in place to what the sublayer gave you. That is its own tensor: it may be one that it keeps, or, as here, x itself.",
                {"return x + _": "output = _\noutput += x\nreturn output", "return self.norm(x + _)": "output = _\noutput += x\nreturn self.norm(output)"},
            ),
            "x_added_to_in_place": (
                "You add to x in place. It is your caller's, and `x += …` writes into it; `x + …` makes a new one.",
                {"return x + _": "x += _\nreturn x", "return self.norm(x + _)": "x += _\nreturn self.norm(x)"},
            ),
            "shortcut_detached": (
                "No gradient comes back along your shortcut: the x that is added was detached. The shortcut is there for the gradient as much as for x.",
                {"return x + _": "return x.detach() + _", "self.norm(x + _)": "self.norm(x.detach() + _)"},
            ),
            # --- SublayerConnection: dropout
            "dropout_on_the_sum": (
                "Your dropout falls on the sum, so it tears holes into the shortcut. It falls on the sublayer's output alone, before the addition (§5.4).",
                {"1: x + self.dropout(_)": "self.dropout(x + _)", "x + self.dropout(sublayer(x))": "self.dropout(x + sublayer(x))"},
            ),
            "dropout_after_post_norm": (
                "In post-norm your dropout comes last, after the norm. It falls on the sublayer's output, before the addition (§5.4).",
                {"2: self.norm(...)": "self.dropout(self.norm(x + sublayer(x)))"},
            ),
            "dropout_on_sublayers_input": (
                "Your dropout falls on what the sublayer is given. It falls on what comes out of it.",
                {"1: self.dropout(sublayer(_))": "sublayer(self.dropout(_))", "self.dropout(sublayer(x))": "sublayer(self.dropout(x))"},
            ),
            "dropout_on_shortcut": (
                "Your dropout falls on the shortcut. It falls on the sublayer's output; the shortcut stays whole.",
                {"1: x + self.dropout(_)": "self.dropout(x) + _", "x + self.dropout(sublayer(x))": "self.dropout(x) + sublayer(x)"},
            ),
            "nothing_dropped": (
                "Nothing is ever dropped. In training each feature of the sublayer's output is, with the probability that was asked for.",
                {"1: self.dropout(_)": "_", "self.dropout(sublayer(x))": "sublayer(x)"},
            ),
            "dropout_in_evaluation": (
                "Your dropout goes on in evaluation. `F.dropout` drops unless it is told that this is no training; a module of `nn.Dropout` is told by `train()` "
                "and `eval()`.",
                {
                    "1: self.dropout(_)": "nn.functional.dropout(_, self.dropout.p)",
                    "self.dropout(sublayer(x))": "nn.functional.dropout(sublayer(x), self.dropout.p)",
                },
            ),
            "dropout_of_half": (
                "Your dropout does not know the probability that was asked for: `nn.Dropout()` alone drops half of everything.",
                {"nn.Dropout(dropout)": "nn.Dropout()"},
            ),
            "dropout_of_a_tenth": (
                "Your dropout is 0.1 whatever is asked for. That is the paper's choice; here it is an argument.",
                {"nn.Dropout(dropout)": "nn.Dropout(0.1)"},
            ),
            "dropout_as_share_kept": (
                "You took the dropout for the share that is kept. In the paper, and in torch, P_drop is the share that is dropped.",
                {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
            ),
            "whole_branches_dropped": (
                "You drop all features of a token, or none. Each feature has a chance of its own. (Dropping a whole branch is known as stochastic depth, and is "
                "another idea.)",
                {
                    "return x + self.dropout(_)": "kept = self.dropout(torch.ones_like(x[..., :1]))\nreturn x + kept * _",
                    "2: return ...": "kept = self.dropout(torch.ones_like(x[..., :1]))\nreturn self.norm(x + kept * sublayer(x))",
                },
            ),
        },
    ),
    *of(
        "clones",
        {
            # --- clones
            "one_module_many_times": (
                "Your list holds the module itself, n times. A name more is no copy: all layers share one set of weights, and a step that changes one changes them "
                "all.",
                {"(... for _ in range(n))": "[module] * n"},
            ),
            "one_copy_many_times": (
                "You copy once, and put that one copy into the list n times. Every place needs a copy of its own.",
                {"(_ for _ in range(n))": "[_] * n"},
            ),
            "shallow_copies": (
                "Your clones share their parameters, with each other and with the original: the copies are shallow, new modules around the same parts, or were "
                "tied together. Each is to be free to learn something else.",
                {"copy.deepcopy": "copy.copy"},
            ),
            "the_original_first": (
                "The module itself is the first of your clones. It stays its owner's: n copies are asked for, none of them the original.",
                {"(... for _ in range(n))": "[module, *(copy.deepcopy(module) for _ in range(n - 1))][:n]"},
            ),
            "a_plain_list": (
                "You return a Python list. A module does not look into lists: `parameters()` would not find the copies, they would never learn, and never move to "
                "a GPU.",
                {"return ...": "return [copy.deepcopy(module) for _ in range(n)]"},
            ),
            "a_sequential": (
                "You return an `nn.Sequential`. It can be called with one argument and feeds each part into the next; encoder layers want a mask as well. Here an "
                "`nn.ModuleList` is asked for, which only keeps.",
                {"return ...": "return nn.Sequential(*(copy.deepcopy(module) for _ in range(n)))"},
            ),
            "one_too_few": (
                "There is one clone too few. Do you count from 1? `range(1, n)` has n − 1 numbers.",
                {"range(n)": "range(1, n)"},
            ),
            "one_too_many": (
                "There is one clone too many. n copies are asked for; the original is not one of them, and does not need to be counted.",
                {"range(n)": "range(n + 1)"},
            ),
            "filled_anew": (
                "Your clones start from weights of their own. They are copies of the module as it is now: equal to it at the start, and different only by what "
                "they learn.",
                {
                    "return ...": "copies = nn.ModuleList(copy.deepcopy(module) for _ in range(n))\n"
                    "for parameter in copies.parameters():\n"
                    "    nn.init.normal_(parameter, std=0.02)\n"
                    "return copies"
                },
            ),
        },
    ),
]
