"""Day 10: what goes wrong with the feed-forward network, the embeddings, and the positions."""

from course.judging.misconceptions import of, on_devices

DROPOUT_IN_EVALUATION = (
    "You apply dropout in evaluation mode as well. `F.dropout` does not know the module's mode, but an `nn.Dropout` that is part of the module follows `train()` "
    "and `eval()`."
)
DROPOUT_NOT_PASSED_ON = "Your dropout ignores the given probability: `nn.Dropout()` without an argument drops half of all values."
DROPOUT_AS_SHARE_KEPT = "You keep values with probability p. In the paper and in PyTorch, p is the probability of dropping a value."
MISCONCEPTIONS = [
    *of(
        "PositionwiseFeedForward",
        {
            # --- PositionwiseFeedForward: the two layers
            "layers_named_as_in_torch": (
                "Your layers are called `linear1` and `linear2`, as in `nn.TransformerEncoderLayer`. Name them `w_1` and `w_2`: the checks set weights by "
                "their names.",
                """class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.linear2(self.dropout(self.linear1(x).relu()))
""",
            ),
            "layers_in_a_sequential": (
                "Your layers are in an `nn.Sequential`, so their parameters have names such as `net.0.weight`. Make the two layers attributes of the "
                "module, `w_1` and `w_2`.",
                """class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        )

    def forward(self, x):
        return self.net(x)
""",
            ),
            "linear_sizes_swapped": (
                "You swapped the two sizes of both layers. `nn.Linear` takes the input width first and the output width second, although it stores its weight "
                "as (out, in).",
                {"self.w_1 = _\nself.w_2 = nn.Linear(d_ff, d_model)": "self.w_1 = nn.Linear(d_ff, d_model)\nself.w_2 = _"},
            ),
            "hidden_always_four_times_as_wide": (
                "Your hidden layer is always 4 · d_model wide. That is the paper's choice of d_ff; use the argument d_ff.",
                {"nn.Linear(d_model, d_ff)": "nn.Linear(d_model, 4 * d_model)", "nn.Linear(d_ff, d_model)": "nn.Linear(4 * d_model, d_model)"},
            ),
            "no_biases": (
                "Neither of your layers has a bias. Equation 2 has two, b₁ and b₂.",
                {"nn.Linear(d_model, d_ff)": "nn.Linear(d_model, d_ff, bias=False)", "nn.Linear(d_ff, d_model)": "nn.Linear(d_ff, d_model, bias=False)"},
            ),
            # --- PositionwiseFeedForward: the cut
            "relu_missing": (
                "There is no ReLU between your two layers. Without a ReLU, the two are equivalent to one linear layer.",
                {"self.w_1(x).relu()": "self.w_1(x)"},
            ),
            "relu_at_the_end": (
                "Your ReLU comes after the second layer instead of between the two layers, so your output is never negative.",
                {"self.w_1(x).relu()": "self.w_1(x)", "return _": "return _.relu()"},
            ),
            "relu_on_input": (
                "You apply the ReLU to x before the first layer. Apply it to the hidden values, the output of the first layer.",
                {"self.w_1(x).relu()": "self.w_1(x.relu())"},
            ),
            "relu_before_bias": (
                "You apply the ReLU before you add the bias b₁. The bias sets where each hidden unit becomes active, so it must be inside the maximum.",
                {"self.w_1(x).relu()": "(x @ self.w_1.weight.T).relu() + self.w_1.bias"},
            ),
            "gelu": (
                "Your activation is GELU, as in BERT and GPT. The paper's network has max(0, ·).",
                {"self.w_1(x).relu()": "nn.functional.gelu(self.w_1(x))"},
            ),
            "shortcut_inside": (
                "You add x to the output. The residual connection is not part of this network: `SublayerConnection` of day 11 adds x, so x would be added "
                "twice.",
                {"return _": "return x + _"},
            ),
            "three_axes_only": (
                "Your network requires exactly three axes. It processes every vector separately, so it should accept any number of leading axes, as "
                "`nn.Linear` does.",
                {"hidden = ...": "batch, time, _ = x.shape\nhidden = self.dropout(self.w_1(x).relu())"},
            ),
            "x_cut_in_place": (
                "You apply the ReLU to x itself, in place, before the first layer. Apply it to the hidden values, and leave x unchanged, because the "
                "caller still needs it.",
                {"self.w_1(x).relu()": "self.w_1(nn.functional.relu(x, inplace=True))"},
            ),
            # --- PositionwiseFeedForward: dropout
            "dropout_on_output": (
                "You apply dropout to the output. Apply it to the hidden values. The output gets its own dropout on day 11, just before it is added to x.",
                {"self.dropout(_)": "_", "return _": "return self.dropout(_)"},
            ),
            "no_dropout": (
                "Your network applies no dropout. In training mode, each hidden value is dropped with the given probability.",
                {"self.dropout(_)": "_"},
            ),
            "dropout_in_evaluation": (
                DROPOUT_IN_EVALUATION,
                {"self.dropout(_)": "nn.functional.dropout(_, self.dropout.p)"},
            ),
            "dropout_not_passed_on": (
                DROPOUT_NOT_PASSED_ON,
                {"nn.Dropout(dropout)": "nn.Dropout()"},
            ),
            "dropout_as_share_kept": (
                DROPOUT_AS_SHARE_KEPT,
                {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
            ),
            "dropout_not_made_up_for": (
                "You drop hidden values but leave the others unchanged, so their sum is smaller in training than in evaluation. Divide the remaining values "
                "by 1 − p, so that their expected sum stays the same.",
                {"hidden = self.dropout(_)": "hidden = _\nif self.training:\n    hidden = hidden * (torch.rand_like(hidden) >= self.dropout.p)"},
            ),
            "whole_vectors_dropped": (
                "You drop all hidden values of a token, or none. Drop each hidden value independently.",
                {"hidden = self.dropout(_)": "hidden = _\nhidden = hidden * self.dropout(torch.ones_like(hidden[..., :1]))"},
            ),
            "no_dropout_unless_asked": (
                "Your default dropout is 0. The default should be the paper's P_drop of 0.1 (§5.4).",
                {"dropout=0.1": "dropout=0.0"},
            ),
        },
    ),
    *of(
        "Embeddings",
        {
            # --- Embeddings
            "table_named_otherwise": (
                "Your embedding matrix is not called `lut`. The checks set weights by name, so use this name.",
                """class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def forward(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.d_model)
""",
            ),
            "table_turned": (
                "Your embedding matrix has a row for each feature and a column for each token. `nn.Embedding` takes the number of rows first, which is the "
                "number of tokens. The exercise takes its two arguments in the other order.",
                {"nn.Embedding(vocab, d_model)": "nn.Embedding(d_model, vocab)"},
            ),
            "not_scaled": (
                "You return the rows of the embedding matrix unscaled. The paper multiplies them by √d_model (§3.4); otherwise they are much smaller than "
                "the positions that are added to them.",
                {"_ * math.sqrt(self.d_model)": "_"},
            ),
            "started_at_1_and_not_scaled": (
                "Two mistakes hide each other: your embedding matrix is initialized with a standard deviation of 1, the default of `nn.Embedding`, and "
                "its rows are not multiplied by √d_model. The result has the right size, but logits from a tied output layer would be √d_model times too "
                "large. Initialize with d_model^−½, and multiply (§3.4).",
                {"nn.init.normal_(self.lut.weight, std=d_model**-0.5)": "pass", "_ * math.sqrt(self.d_model)": "_"},
            ),
            "scaled_by_d_model": (
                "You multiply by d_model. The factor is √d_model: initially each row has length 1, and afterwards each of its d_model features should be "
                "about 1 in size.",
                {"math.sqrt(_)": "_"},
            ),
            "divided_by_root": (
                "You divide by √d_model, the way attention divides its scores by √d_k. Multiply the embeddings by √d_model: the entries of the matrix are "
                "small.",
                {"self.lut(tokens) * _": "self.lut(tokens) / _"},
            ),
            "scale_as_an_array": (
                "In half precision your result is float32. Your factor is a tensor with an axis, which takes part in type promotion; a plain number does not.",
                {"math.sqrt(_)": "torch.tensor([float(_)], device=tokens.device).sqrt()"},
            ),
            "padding_index": (
                "Your embedding matrix has a padding index, so the row of token 0 is initialized to 0 and never gets a gradient. The masks handle padding; "
                "here every row must learn.",
                {
                    "self.lut = nn.Embedding(vocab, d_model)\n_": "self.lut = nn.Embedding(vocab, d_model, padding_idx=0)\n"
                    "_\n"
                    "with torch.no_grad():\n"
                    "    self.lut.weight[0] = 0.0"
                },
            ),
            "table_detached": (
                "No gradient reaches your embedding matrix: you look up rows in a detached copy (`.data`, `.detach()`), not in the parameter. The matrix "
                "would never learn.",
                {"self.lut(tokens)": "self.lut.weight.data[tokens]"},
            ),
            "two_axes_only": (
                "Your embeddings require ids with exactly two axes. Each id is looked up separately, so accept any number of leading axes.",
                {"return _": "batch, time = tokens.shape\nreturn _"},
            ),
            "starts_at_deviation_1": (
                "Your embedding matrix is initialized with a standard deviation of 1, the default of `nn.Embedding`. After the multiplication by √d_model, "
                "the features are far too large: about 23 at width 512, while the positions added to them are at most 1.",
                {"nn.init.normal_(self.lut.weight, std=d_model**-0.5)": "pass"},
            ),
            "starts_at_variance_root": (
                "Your embedding matrix is initialized with a standard deviation of 1/d_model. N(0, 1/d_model) states the *variance*; the standard "
                "deviation is its square root.",
                {"d_model**-0.5": "1 / d_model"},
            ),
            "starts_uniform": (
                "Your embedding matrix has the right standard deviation, but a uniform distribution. N stands for the normal distribution.",
                {"nn.init.normal_(_, std=d_model**-0.5)": "nn.init.uniform_(_, -((3 / d_model) ** 0.5), (3 / d_model) ** 0.5)"},
            ),
            "starts_by_xavier": (
                "You use Xavier initialization, whose standard deviation also depends on the number of tokens: a larger vocabulary gives smaller vectors. A "
                "lookup does not sum over the rows, so only d_model matters.",
                {"nn.init.normal_": "nn.init.xavier_uniform_", "std=d_model**-0.5": ""},
            ),
            "starts_at_a_fiftieth": (
                "Your embedding matrix is initialized with a standard deviation of 0.02, as in BERT and GPT-2, which do not multiply their embeddings by "
                "√d_model. Here the standard deviation is 1/√d_model.",
                {"d_model**-0.5": "0.02"},
            ),
        },
    ),
    *of(
        "PositionalEncoding",
        {
            # --- PositionalEncoding: the table
            "table_is_a_parameter": (
                "Your table is an `nn.Parameter`, so it would be counted, reinitialized, and changed by an optimizer. The sines are not learned. A buffer "
                "moves with the module, too, and no optimizer changes it.",
                {"self.register_buffer('pe', _, persistent=False)": "self.pe = nn.Parameter(_)"},
            ),
            "table_is_an_attribute": (
                "Your table is a plain attribute, so it does not move with the module. On a GPU the sum raises an error, and in half precision the result is "
                "float32. Register the table as a buffer.",
                {"self.register_buffer('pe', _, persistent=False)": "self.pe = _"},
            ),
            "table_left_in_float64": (
                "Your table is float64, so the first addition turns the activations of a float32 model into float64. Compute the table in float64, and store "
                "it in the default dtype.",
                {"torch.get_default_dtype()": "torch.float64"},
            ),
            "table_without_batch_axis": (
                "Your table has shape (max_len, d_model). The sums are right, but `pe` should have a leading axis of length 1 for the batch.",
                {
                    "table.unsqueeze(0)": "table",
                    "x.size(1) > self.pe.size(1)": "x.size(1) > self.pe.size(0)",
                    "self.pe[:, : x.size(1)]": "self.pe[: x.size(1)]",
                },
            ),
            "time_first": (
                "Your table has shape (max_len, 1, d_model), with time as the first axis, as in a well-known tutorial. Here the batch comes first, so your "
                "module adds the same vector to all tokens of a sequence.",
                {"table.unsqueeze(0)": "table.unsqueeze(1)", "x.size(1) > self.pe.size(1)": "False", "self.pe[:, : x.size(1)]": "self.pe[: x.size(0)]"},
            ),
            "halves_concatenated": (
                "You put all sines on the left and all cosines on the right. The paper interleaves them: each cosine is next to the sine of the same angle.",
                {"table[:, 0::2] = _": "table[:, : even.numel()] = _", "table[:, 1::2] = _": "table[:, even.numel() :] = _"},
            ),
            "sine_and_cosine_swapped": (
                "Your even columns hold cosines and your odd columns hold sines. Swap them: the row of position 0 is 0, 1, 0, 1, …, because sin 0 = 0 comes "
                "first.",
                {"table[:, 0::2] = angles.sin()\ntable[:, 1::2] = angles.cos()[_]": "table[:, 0::2] = angles.cos()\ntable[:, 1::2] = angles.sin()[_]"},
            ),
            "exponent_without_two": (
                "Your exponent is i / d_model, half of what it should be. i counts the pairs; 2i is the index of the even column.",
                {"even / d_model": "even / 2 / d_model"},
            ),
            "exponent_doubled": (
                "Your exponent is twice what it should be. The even column indices 0, 2, 4 and so on are already the paper's 2i.",
                {"even / d_model": "2 * even / d_model"},
            ),
            "cosine_with_its_own_exponent": (
                "Each of your columns has its own exponent: that of a cosine is larger than that of the sine next to it. The sine and the cosine of a pair "
                "must have the same angle.",
                {
                    "torch.arange(0, d_model, 2, dtype=_)": "torch.arange(d_model, dtype=_)",
                    "angles.sin()": "angles.sin()[:, 0::2]",
                    "_[:, : d_model // 2]": "_[:, 1::2]",
                },
            ),
            "base_1000": (
                "Your base is 1000. The paper's base is 10000, so its longest wavelength is near 10000 · 2π.",
                {"10000": "1000"},
            ),
            "multiplied_by_the_power": (
                "You multiply the position by 10000^(2i/d_model). Divide by this power instead, so that the wavelengths grow from left to right.",
                {"position / _": "position * _"},
            ),
            "positions_from_1": (
                "Your positions start at 1. They should start at 0, so that the first row is 0, 1, 0, 1, …",
                {"torch.arange(max_len, dtype=_)": "torch.arange(1, max_len + 1, dtype=_)"},
            ),
            "odd_width_fails": (
                "Your table works only for even widths. An odd width has one cosine fewer than it has sines.",
                {"_[:, : d_model // 2]": "_"},
            ),
            "max_len_ignored": (
                "Your table always has 5000 positions. That is only the default of `max_len`. Use the argument.",
                {"1: max_len": "5000", "2: max_len": "5000"},
            ),
            "default_of_512": (
                "In your answer the default of `max_len` is 512, as in many models. Here the default is 5000.",
                {"max_len=5000": "max_len=512"},
            ),
            # --- PositionalEncoding: the sum
            "whole_table_added": (
                "You add the entire table. A sequence is usually shorter than `max_len`: add only the first T rows.",
                {"self.pe[:, : x.size(1)]": "self.pe"},
            ),
            "cut_by_the_batch": (
                "You cut the table to the number of *sequences*. The first axis of x is the batch; the second axis is the tokens.",
                {"1: x.size(1)": "x.size(0)"},
            ),
            "scaled_here_as_well": (
                "You multiply x by √d_model before you add the table. `Embeddings` already does this.",
                {"x + _": "x * x.size(-1) ** 0.5 + _"},
            ),
            "x_not_added": (
                "You return only the positions. Add them to x.",
                {"x + _": "torch.zeros_like(x) + _"},
            ),
            "x_changed_in_place": (
                "Your result is right, but you changed x in place. An in-place addition overwrites the caller's tensor, and PyTorch raises an error if x is a "
                "leaf that requires grad.",
                {"return self.dropout(x + _)": "x += _\nreturn self.dropout(x)"},
            ),
            "x_detached": (
                "No gradient passes through your sum, because x was detached (`.data`, `.detach()` or `no_grad`). The embedding layer below needs this "
                "gradient.",
                {"x + _": "x.detach() + _"},
            ),
            # --- PositionalEncoding: dropout
            "dropout_on_x": (
                "You apply dropout to x before you add the table. Apply it to the sum (§5.4).",
                {"self.dropout(x + _)": "self.dropout(x) + _"},
            ),
            "dropout_on_each": (
                "You apply dropout to x and to the positions separately. Apply it to the sum (§5.4), so that a dropped feature is missing entirely.",
                {"self.dropout(x + _)": "self.dropout(x) + self.dropout(_.expand_as(x))"},
            ),
            "no_dropout_on_sum": (
                "Your module applies no dropout. In training mode, each feature of the sum is dropped with the given probability.",
                {"self.dropout(_)": "_"},
            ),
            "positions_dropped_in_evaluation": (
                DROPOUT_IN_EVALUATION,
                {"self.dropout(_)": "nn.functional.dropout(_, self.dropout.p)"},
            ),
            "usual_dropout_of_half": (
                DROPOUT_NOT_PASSED_ON,
                {"nn.Dropout(dropout)": "nn.Dropout()"},
            ),
            "whole_tokens_dropped": (
                "You drop all features of a token, or none. Drop each feature independently.",
                {"return self.dropout(_)": "kept = self.dropout(torch.ones_like(x[..., :1]))\nreturn kept * _"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "PositionalEncoding",
        {
            "table_beside_the_buffer": (
                "You add positions that are on the CPU, wherever `x` is. `module.to(device)` moves only parameters and buffers, so add the buffer `pe` itself.",
                {
                    "self.register_buffer('pe', table.unsqueeze(0), persistent=False)": "self.register_buffer('pe', table.unsqueeze(0), persistent=False)\nself.table = self.pe",
                    "x + self.pe[...]": "x + self.table[:, :x.size(1)].to(x.dtype)",
                },
            ),
        },
    ),
]
