"""Day 11: common mistakes in layer norm, residual connections, and copies of modules."""

from course.judging.misconceptions import of

MEAN = "wide.mean(dim=-1, keepdim=True)"
SQUARES = "(wide - mean).square().mean(dim=-1, keepdim=True)"


def statistics(variance: str = SQUARES, mean: str = MEAN) -> dict[str, str]:
    """Compute mean and variance by these expressions."""
    return {"variance, mean = ...": f"mean = {mean}\nvariance = {variance}"}


MISCONCEPTIONS = [
    *of(
        "LayerNorm",
        {
            # --- LayerNorm: names and starts
            "as_in_the_annotated_transformer": (
                "This is the layer norm of the Annotated Transformer, which differs in three points: its parameters are called `a_2` and `b_2`, its standard "
                "deviation divides by n − 1, and ε is added after the root. Here the names are `gain` and `bias`, the variance divides by n, and ε is under "
                "the root.",
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
                "Your parameters are called `weight` and `bias`, as in `nn.LayerNorm`. Here the scale is called `gain`: the checks set weights by their names.",
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
                "Your gain and bias are not `nn.Parameter`s. The optimizer receives only parameters, so gain and bias would never learn.",
                {"self.gain = nn.Parameter(_)": "self.gain = _", "self.bias = nn.Parameter(_)": "self.bias = _"},
            ),
            "one_gain_for_all_features": (
                "Your gain and bias are a single number each. Every feature should have its own gain and bias.",
                {"torch.ones(features)": "torch.ones(1)", "torch.zeros(features)": "torch.zeros(1)"},
            ),
            "gain_starts_at_0": (
                "Your gain is initialized to 0, so the output is the bias for every input. Initialize it to 1.",
                {"torch.ones": "torch.zeros"},
            ),
            # --- LayerNorm: which numbers
            "norm_over_time": (
                "Your mean and variance are computed over the tokens, the second-to-last axis. Normalize each vector over its own features.",
                {"1: dim=-1": "dim=-2"},
            ),
            "norm_over_everything": (
                "You compute one mean and one variance over the entire tensor. Compute both for every vector, over its features.",
                statistics("(wide - mean).square().mean()", "wide.mean()"),
            ),
            "batch_norm": (
                "You normalize each feature over all vectors: this is batch norm. Layer norm normalizes each vector over its own features, so a sentence gets "
                "the same result in every batch.",
                {"1: dim=-1": "dim=tuple(range(x.dim() - 1))"},
            ),
            "keepdim_forgotten": (
                "Your mean or variance has lost the axis over which it was computed, so it broadcasts along the wrong axis. A single vector works; a batch "
                "does not. Keep that axis, with length 1.",
                {"1: keepdim=True": ""},
            ),
            # --- LayerNorm: the variance
            "as_widely_copied": (
                "This is a widely copied layer norm, which differs in three points: its standard deviation divides by n − 1, ε is added after the root, "
                "and ε is 1e-6. Here the variance divides by n, ε is under the root, and ε is 1e-5.",
                {
                    "eps=1e-5": "eps=1e-6",
                    "wide = ...": "wide = x",
                    **statistics("wide.var(dim=-1, keepdim=True)"),
                    "normalized = ...": "normalized = centered / (variance.sqrt() + self.eps)",
                },
            ),
            "unbiased_and_eps_outside": (
                "There are two mistakes: your standard deviation divides by n − 1, and you add ε after the root. Here the variance divides by n, and ε is "
                "under the root.",
                {
                    "wide = ...": "wide = x",
                    **statistics("wide.var(dim=-1, keepdim=True)"),
                    "normalized = ...": "normalized = centered / (variance.sqrt() + self.eps)",
                },
            ),
            "unbiased": (
                "Your variance divides by n − 1, the default of PyTorch's `var` and `std`. Layer norm divides by n. (With a single feature, n − 1 would be 0.)",
                {"correction=0": ""},
            ),
            "sum_for_mean": (
                "Your variance is the sum of the squares, not their mean. Every vector then has length 1 instead of variance 1: it is too small by a factor "
                "of √n.",
                statistics("(wide - mean).square().sum(dim=-1, keepdim=True)"),
            ),
            "variance_by_difference": (
                "Your variance is the mean of the squares minus the square of the mean. That is right on paper, but inaccurate: with a mean of 1000 and a "
                "standard deviation of 0.1, two numbers near 1,000,000 differ by 0.01, which float32 cannot resolve. Subtract the mean first, then square.",
                statistics("wide.square().mean(dim=-1, keepdim=True) - mean.square()"),
            ),
            "root_mean_square": (
                "You divide by the root mean square without subtracting the mean: this is RMSNorm, the subject of day 28. Layer norm subtracts the mean first.",
                statistics("wide.square().mean(dim=-1, keepdim=True)", "0.0"),
            ),
            "not_centered": (
                "You divide by the standard deviation, but do not subtract the mean. Before the bias is added, the result should have mean 0.",
                {"centered = ...": "centered = wide"},
            ),
            "not_divided": (
                "You subtract the mean, but do not divide by the standard deviation. Before gain and bias, every vector should have variance 1.",
                {"centered * _.rsqrt()": "centered"},
            ),
            "divided_by_variance": (
                "You divide by the variance. Divide by its square root.",
                {"_.rsqrt": "_.reciprocal"},
            ),
            "statistics_detached": (
                "Your results are right, but your gradients are not: you treat the mean and the standard deviation as constants (`detach`, `no_grad`). Both "
                "depend on x, so gradients must flow through them.",
                {"centered = ...": "centered = wide - mean.detach()", "variance + self.eps": "variance.detach() + self.eps"},
            ),
            # --- LayerNorm: eps
            "eps_outside_the_root": (
                "You add ε to the standard deviation, after the root. Add it to the variance, under the root. The difference is large where the variance is "
                "about as small as ε, and at variance 0 the gradient of the root alone is NaN.",
                {"centered * _.rsqrt()": "centered / (variance.sqrt() + self.eps)"},
            ),
            "eps_forgotten": (
                "Your layer norm has no ε. A vector of equal numbers has variance 0, and 0 / 0 is NaN; with ε the result is the bias.",
                {"variance + self.eps": "variance"},
            ),
            "eps_squared": (
                "You square ε before you add it to the variance. Add ε itself.",
                {"self.eps": "self.eps**2"},
            ),
            "eps_fixed": (
                "Your ε is always 1e-5. Use the argument.",
                {"self.eps": "1e-5"},
            ),
            "eps_of_1e_6": (
                "Your default ε is 1e-6. Papers and libraries differ here. In this course, as in PyTorch, the default is 1e-5.",
                {"eps=1e-5": "eps=1e-6"},
            ),
            # --- LayerNorm: gain and bias
            "gain_forgotten": (
                "Your gain has no effect. Multiply the normalized vector by it before you add the bias.",
                {"self.gain * normalized": "normalized"},
            ),
            "bias_forgotten": (
                "Your bias has no effect: each feature is off by the same amount in every vector. Add the bias at the end.",
                {"_ + self.bias": "_"},
            ),
            # --- LayerNorm: dtypes and side effects
            "halves_not_widened": (
                "In float16 your squares, or their mean, overflow: 300² is 90,000, but the largest float16 number is 65504. Compute mean and variance in "
                "float32, and cast back to the dtype of x after the division.",
                {"wide = ...": "wide = x"},
            ),
            "float32_for_everything": (
                "Your result is always float32. Return the dtype of x. Upcasting half precision is right, but float64 must not be converted to float32, which "
                "loses more than half of its digits.",
                {
                    "wide = ...": "wide = x.float()",
                    **statistics(),
                    "(centered * _.rsqrt()).to(x.dtype)": "centered / _.sqrt()",
                },
            ),
            "halves_left_in_float32": (
                "In half precision your result is float32. Upcasting x is right, but cast the result back.",
                {"_.to(x.dtype)": "_"},
            ),
            "float64_narrowed": (
                "You always compute in float32. That is right for half precision, but float64 loses nine of its sixteen digits.",
                {
                    "wide = ...": "wide = x.float()",
                    **statistics(),
                    "centered * _.rsqrt()": "centered / _.sqrt()",
                },
            ),
            "x_centered_in_place": (
                "You subtract the mean from x in place. The caller still needs x for the residual connection. (And PyTorch raises an error if x is a leaf "
                "that requires grad.)",
                {"wide = _": "x -= x.mean(dim=-1, keepdim=True)\nwide = _"},
            ),
        },
    ),
    *of(
        "SublayerConnection",
        {
            # --- SublayerConnection: where the norm goes
            "connection_of_the_annotated_transformer": (
                "Your connection does not accept the argument `norm`: it is always pre-norm, as in the Annotated Transformer. Here `norm` selects the "
                "arrangement, and the default is post-norm, as in the paper.",
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
                "You use `nn.LayerNorm`, whose parameters are called `weight` and `bias`. Use your own `LayerNorm`, with `gain` and `bias`.",
                {"LayerNorm(size)": "nn.LayerNorm(size)"},
            ),
            "norm_without_parameters": (
                "Your connection has no submodule `norm`, so the gain and bias of its norm cannot be learned. Create the layer norm once in `__init__`, as "
                "the attribute `norm`.",
                {"self.norm = LayerNorm(size)": "pass", "1: self.norm": "LayerNorm(x.size(-1)).to(x)", "2: self.norm": "LayerNorm(x.size(-1)).to(x)"},
            ),
            "pre_norm_by_default": (
                "Your default is pre-norm, as in most later models. Here the default is post-norm, as in the paper: it normalizes after the addition.",
                {"norm='post'": "norm='pre'"},
            ),
            "always_pre_norm": (
                'Your connection is always pre-norm. (Note that Python always treats `norm == "pre" or "post"` as true.) Post-norm normalizes after the '
                "addition.",
                {"2: self.norm(...)": "x + self.dropout(sublayer(self.norm(x)))"},
            ),
            "always_post_norm": (
                "Your connection is always post-norm. In pre-norm the layer norm is applied to the sublayer's input only.",
                {"1: return ...": "return self.norm(x + self.dropout(sublayer(x)))"},
            ),
            "pre_and_post_exchanged": (
                "You swapped the two arrangements. Post-norm normalizes the sum, after the sublayer; pre-norm normalizes the input of the sublayer.",
                {"self.pre": "not self.pre"},
            ),
            "shortcut_from_the_normed": (
                "In pre-norm you add the sublayer's output to the *normalized* x. Add it to x itself, so that the residual connection leaves x unchanged.",
                {"1: return ...": "x = self.norm(x)\nreturn x + self.dropout(sublayer(x))"},
            ),
            "normed_before_and_after": (
                "In pre-norm you also normalize the sum. Normalize only the input of the sublayer. A pre-norm stack has an additional layer norm at its end.",
                {"1: return _": "return self.norm(_)"},
            ),
            "norm_inside_the_branch": (
                "In post-norm you normalize the sublayer's output and then add x. Add x first, and normalize the *sum*.",
                {"self.norm(x + _)": "x + self.norm(_)"},
            ),
            "no_shortcut": (
                "Your connection has no residual connection: x is not added to the sublayer's output.",
                {"return x + _": "return _", "self.norm(x + _)": "self.norm(_)"},
            ),
            "asked_twice": (
                "You call the sublayer twice. The second call costs as much as the first, draws a different dropout mask, and overwrites stored results such "
                "as attention weights.",
                {"1: return _": "sublayer(self.norm(x))\nreturn _", "2: return _": "sublayer(x)\nreturn _"},
            ),
            "method_forward": (
                "You call the sublayer's `forward`. Call the sublayer itself: it may be any callable, such as a lambda, and calling a module also runs "
                "its hooks.",
                {"1: sublayer(_)": "sublayer.forward(_)", "sublayer(x)": "sublayer.forward(x)"},
            ),
            "output_added_in_place": (
                "You add in place to the sublayer's output. The sublayer may still use this tensor, which can even be x itself.",
                {"return x + _": "output = _\noutput += x\nreturn output", "return self.norm(x + _)": "output = _\noutput += x\nreturn self.norm(output)"},
            ),
            "x_added_to_in_place": (
                "You add to x in place, which overwrites the caller's tensor. Create a new tensor.",
                {"return x + _": "x += _\nreturn x", "return self.norm(x + _)": "x += _\nreturn self.norm(x)"},
            ),
            "shortcut_detached": (
                "No gradient flows through your residual connection, because you detached x before adding it.",
                {"return x + _": "return x.detach() + _", "self.norm(x + _)": "self.norm(x.detach() + _)"},
            ),
            # --- SublayerConnection: dropout
            "dropout_on_the_sum": (
                "You apply dropout to the sum, so it also zeroes entries of x. Apply it to the sublayer's output alone, before the addition (§5.4).",
                {"1: x + self.dropout(_)": "self.dropout(x + _)", "x + self.dropout(sublayer(x))": "self.dropout(x + sublayer(x))"},
            ),
            "dropout_after_post_norm": (
                "In post-norm you apply dropout last, after the layer norm. Apply it to the sublayer's output, before the addition (§5.4).",
                {"2: self.norm(...)": "self.dropout(self.norm(x + sublayer(x)))"},
            ),
            "dropout_on_shortcut": (
                "You apply dropout to x. Apply it to the sublayer's output, and leave the residual connection unchanged.",
                {"1: x + self.dropout(_)": "self.dropout(x) + _", "x + self.dropout(sublayer(x))": "self.dropout(x) + sublayer(x)"},
            ),
            "nothing_dropped": (
                "Your connection applies no dropout. In training mode, each feature of the sublayer's output is dropped with the given probability.",
                {"1: self.dropout(_)": "_", "self.dropout(sublayer(x))": "sublayer(x)"},
            ),
            "dropout_in_evaluation": (
                "You apply dropout in evaluation mode as well. `F.dropout` does not know the module's mode, but an `nn.Dropout` that is part of the module "
                "follows `train()` and `eval()`.",
                {
                    "1: self.dropout(_)": "nn.functional.dropout(_, self.dropout.p)",
                    "self.dropout(sublayer(x))": "nn.functional.dropout(sublayer(x), self.dropout.p)",
                },
            ),
            "dropout_of_half": (
                "Your dropout ignores the given probability: `nn.Dropout()` without an argument drops half of all values.",
                {"nn.Dropout(dropout)": "nn.Dropout()"},
            ),
            "dropout_as_share_kept": (
                "You keep values with probability p. In the paper and in PyTorch, p is the probability of dropping a value.",
                {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
            ),
            "whole_branches_dropped": (
                "You drop all features of a token, or none. Drop each feature independently. (Dropping an entire sublayer is a different technique, called "
                "stochastic depth.)",
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
                "Your list contains the module itself, n times, so all layers share one set of weights. Make copies.",
                {"(... for _ in range(n))": "[module] * n"},
            ),
            "shallow_copies": (
                "Your clones share their parameters, because the copies are shallow or tied together. Each clone needs its own parameters.",
                {"copy.deepcopy": "copy.copy"},
            ),
            "the_original_first": (
                "Your first clone is the module itself. Return n copies, none of which is the original.",
                {"(... for _ in range(n))": "[module, *(copy.deepcopy(module) for _ in range(n - 1))][:n]"},
            ),
            "a_plain_list": (
                "You return a Python list. A module ignores the contents of a plain list: `parameters()` would miss the copies, and they would not move "
                "to a GPU.",
                {"return ...": "return [copy.deepcopy(module) for _ in range(n)]"},
            ),
            "a_sequential": (
                "You return an `nn.Sequential`, which passes each module's output to the next module as its only argument. Encoder layers also need a mask. "
                "Return an `nn.ModuleList`, which only stores modules.",
                {"return ...": "return nn.Sequential(*(copy.deepcopy(module) for _ in range(n)))"},
            ),
            "one_too_few": (
                "You return one clone too few. If you count from 1, note that `range(1, n)` has n − 1 numbers.",
                {"range(n)": "range(1, n)"},
            ),
            "filled_anew": (
                "You reinitialize the weights of your clones. They should be copies of the module as it is now.",
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
