"""Day 10: what goes wrong with the feed-forward network, the embeddings, and the positions."""

from course.judging.misconceptions import of, on_devices

DROPOUT_IN_EVALUATION = (
    "Your dropout goes on in evaluation. `F.dropout` drops unless it is told that this is no training; a module of `nn.Dropout` is told by `train()` "
    "and `eval()`."
)
DROPOUT_NOT_PASSED_ON = "Your dropout does not know the probability that was asked for: `nn.Dropout()` alone drops half of everything."
DROPOUT_AS_SHARE_KEPT = "You took the dropout for the share that is kept. In the paper, and in torch, P_drop is the share that is dropped."
MISCONCEPTIONS = [
    *of(
        "PositionwiseFeedForward",
        {
            # --- PositionwiseFeedForward: the two layers
            "layers_named_as_in_torch": (
                "Your layers are called `linear1` and `linear2`, as in `nn.TransformerEncoderLayer`. Here they are `w_1` and `w_2`: weights are given by their "
                "names, so a name is part of the answer.",
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
                "Your layers lie in an `nn.Sequential`, so their parameters are called `net.0.weight` and the like. The two layers are to be attributes of their "
                "own, `w_1` and `w_2`.",
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
            "convolutions": (
                "You use convolutions of kernel size 1, as §3.3 puts it in other words. They compute the same, but they want the features in the middle axis and a "
                "third axis in their weights: here both are `nn.Linear`.",
                """class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.dropout(self.w_1(x.transpose(1, 2)).relu())
        return self.w_2(hidden).transpose(1, 2)
""",
            ),
            "linear_sizes_swapped": (
                "Both your layers have their two sizes the wrong way round. `nn.Linear` wants first the width of what goes in, then that of what comes out, "
                "although it stores its weight the other way, as (out, in).",
                {"self.w_1 = _\nself.w_2 = nn.Linear(d_ff, d_model)": "self.w_1 = nn.Linear(d_ff, d_model)\nself.w_2 = _"},
            ),
            "hidden_always_four_times_as_wide": (
                "Your hidden layer is 4 · d_model wide whatever is asked for. That is the paper's choice of d_ff; here d_ff is an argument of its own.",
                {"nn.Linear(d_model, d_ff)": "nn.Linear(d_model, 4 * d_model)", "nn.Linear(d_ff, d_model)": "nn.Linear(4 * d_model, d_model)"},
            ),
            "no_biases": (
                "Neither of your layers has a bias. Equation 2 has two, b₁ and b₂.",
                {"nn.Linear(d_model, d_ff)": "nn.Linear(d_model, d_ff, bias=False)", "nn.Linear(d_ff, d_model)": "nn.Linear(d_ff, d_model, bias=False)"},
            ),
            "second_layer_without_bias": (
                "Your second layer has no bias. Equation 2 ends in b₂.",
                {"nn.Linear(d_ff, d_model)": "nn.Linear(d_ff, d_model, bias=False)"},
            ),
            # --- PositionwiseFeedForward: the cut
            "relu_missing": (
                "Nothing is cut off between your two layers. Without the ReLU they are one linear layer, written with more numbers.",
                {"self.w_1(x).relu()": "self.w_1(x)"},
            ),
            "relu_at_the_end": (
                "Your cut comes after the second layer instead of between the two. What is added to a token could then never be negative.",
                {"self.w_1(x).relu()": "self.w_1(x)", "return _": "return _.relu()"},
            ),
            "relu_twice": (
                "There is a second cut, after the second layer. The output is added to a token, and must be able to take away from it.",
                {"return _": "return _.relu()"},
            ),
            "relu_on_input": (
                "You cut off x below 0 before the first layer. The cut is for the hidden values, which the first layer makes.",
                {"self.w_1(x).relu()": "self.w_1(x.relu())"},
            ),
            "relu_before_bias": (
                "You cut off before the bias b₁ is added. The bias says where each hidden unit begins, so it belongs under the maximum.",
                {"self.w_1(x).relu()": "(x @ self.w_1.weight.T).relu() + self.w_1.bias"},
            ),
            "gelu": (
                "Between your layers stands GELU, as in BERT and GPT. The paper's network has max(0, ·).",
                {"self.w_1(x).relu()": "nn.functional.gelu(self.w_1(x))"},
            ),
            "leaky_relu": (
                "Below 0 your hidden values are made small, not 0: that is a leaky ReLU. Equation 2 has max(0, ·).",
                {"self.w_1(x).relu()": "nn.functional.leaky_relu(self.w_1(x))"},
            ),
            "shortcut_inside": (
                "You add x to the output. The shortcut is not part of this network: `SublayerConnection` of day 11 puts it around every sublayer, and then it "
                "would be there twice.",
                {"return _": "return x + _"},
            ),
            "three_axes_only": (
                "Your network asks for exactly three axes. It treats every vector by itself, so any number of axes may stand in front; `nn.Linear` does not mind.",
                {"hidden = ...": "batch, time, _ = x.shape\nhidden = self.dropout(self.w_1(x).relu())"},
            ),
            "x_cut_in_place": (
                "You cut off x itself, in place, before the first layer. The cut is for the hidden values; and x still belongs to your caller, who adds it to your "
                "output.",
                {"self.w_1(x).relu()": "self.w_1(nn.functional.relu(x, inplace=True))"},
            ),
            # --- PositionwiseFeedForward: dropout
            "dropout_on_output": (
                "Your dropout falls on the output. Here it falls on the hidden values; the output gets a dropout of its own on day 11, just before it is added.",
                {"self.dropout(_)": "_", "return _": "return self.dropout(_)"},
            ),
            "dropout_on_both": (
                "Your dropout falls on the hidden values, which is right, and on the output as well. The output gets a dropout of its own on day 11; now it would "
                "be dropped twice.",
                {"return _": "return self.dropout(_)"},
            ),
            "dropout_on_input": (
                "Your dropout falls on x, before the first layer. It belongs to the hidden values, after the cut.",
                {"self.dropout(...)": "self.w_1(self.dropout(x)).relu()"},
            ),
            "no_dropout": (
                "Nothing is ever dropped. In training each hidden value is dropped with the probability that was asked for.",
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
                "You drop hidden values, but leave the others as they are. Then their sum is smaller in training than in evaluation; what is kept is divided by 1 "
                "− p, so that on average nothing changes.",
                {"hidden = self.dropout(_)": "hidden = _\nif self.training:\n    hidden = hidden * (torch.rand_like(hidden) >= self.dropout.p)"},
            ),
            "whole_vectors_dropped": (
                "You drop all hidden values of a token, or none. Each hidden value has a chance of its own; otherwise a token that is hit learns nothing at all.",
                {"hidden = self.dropout(_)": "hidden = _\nhidden = hidden * self.dropout(torch.ones_like(hidden[..., :1]))"},
            ),
            "no_dropout_unless_asked": (
                "Your default dropout is 0. The paper's P_drop is 0.1 (§5.4), and so is the default here.",
                {"dropout=0.1": "dropout=0.0"},
            ),
        },
    ),
    *of(
        "Embeddings",
        {
            # --- Embeddings
            "table_named_otherwise": (
                "Your table is not called `lut`. Weights are given by their names, so a name is part of the answer.",
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
                "Your table has a row for each feature and a column for each token. `nn.Embedding` wants the number of rows first: one row a token. The exercise "
                "takes them in the other order.",
                {"nn.Embedding(vocab, d_model)": "nn.Embedding(d_model, vocab)"},
            ),
            "not_scaled": (
                "Your vectors are the rows of the table as they are. The paper multiplies them by √d_model (§3.4), or they are much smaller than the positions "
                "that are added to them.",
                {"_ * math.sqrt(self.d_model)": "_"},
            ),
            "started_at_1_and_not_scaled": (
                "Two things that hide each other. Your table starts with a deviation of 1, as `nn.Embedding` makes it, and its rows are not multiplied by "
                "√d_model. The sizes come out as the paper wants them, but a table that is tied to the last layer gives scores √d_model times too large. Start at "
                "d_model^−½, and multiply (§3.4).",
                {"nn.init.normal_(self.lut.weight, std=d_model**-0.5)": "pass", "_ * math.sqrt(self.d_model)": "_"},
            ),
            "scaled_by_root_of_vocab": (
                "You multiply by √vocab. The factor is √d_model, the root of the vectors' width: how many other tokens there are says nothing about the size of "
                "one.",
                {"self.d_model": "self.lut.num_embeddings"},
            ),
            "power_without_parentheses": (
                "You multiply by d_model / 2. In Python `d_model ** 1 / 2` is (d_model ** 1) / 2: a power binds tighter than a division.",
                {"_ * math.sqrt(self.d_model)": "_ * self.d_model / 2"},
            ),
            "scaled_by_d_model": (
                "You multiply by d_model. The factor is its root: the table's rows have length 1 at the start, and each of d_model features is to have size 1.",
                {"math.sqrt(_)": "_"},
            ),
            "divided_by_root": (
                "You divide by √d_model, as attention does with its scores. Embeddings are multiplied by it: they are small in the table.",
                {"self.lut(tokens) * _": "self.lut(tokens) / _"},
            ),
            "scale_as_an_array": (
                "In half precision your result is float32. Your factor is a tensor with an axis of its own, and such a tensor has a say in the dtype of a product; "
                "a plain number has none.",
                {"math.sqrt(_)": "torch.tensor([float(_)], device=tokens.device).sqrt()"},
            ),
            "padding_index": (
                "Your table has a padding index: token 0 never gets a gradient, and its row starts at 0. That padding does not count is the masks' business; here "
                "every row is a row like any other.",
                {
                    "self.lut = nn.Embedding(vocab, d_model)\n_": "self.lut = nn.Embedding(vocab, d_model, padding_idx=0)\n"
                    "_\n"
                    "with torch.no_grad():\n"
                    "    self.lut.weight[0] = 0.0"
                },
            ),
            "padding_index_refilled": (
                "Your table has a padding index: token 0 never gets a gradient. (Its row does not even start at 0, for you fill the table afterwards.) That "
                "padding does not count is the masks' business; here every row learns.",
                {"nn.Embedding(vocab, d_model)": "nn.Embedding(vocab, d_model, padding_idx=0)"},
            ),
            "table_detached": (
                "No gradient reaches your table. You look up in its numbers (`.data`, `.detach()`) instead of in the parameter itself, so it would never learn.",
                {"self.lut(tokens)": "self.lut.weight.data[tokens]"},
            ),
            "two_axes_only": (
                "Your embeddings ask for exactly two axes of ids. Every id is looked up by itself, so any number of axes may stand in front.",
                {"return _": "batch, time = tokens.shape\nreturn _"},
            ),
            "starts_at_deviation_1": (
                "Your table starts with a deviation of 1, as `nn.Embedding` makes it. Times √d_model that is far too large: at width 512 every feature is about "
                "23, and the positions added to it, of size 1, are drowned.",
                {"nn.init.normal_(self.lut.weight, std=d_model**-0.5)": "pass"},
            ),
            "starts_at_variance_root": (
                "Your table starts with a deviation of 1/d_model. N(0, 1/d_model) names the *variance*; `normal_` wants the deviation, its root.",
                {"d_model**-0.5": "1 / d_model"},
            ),
            "starts_uniform": (
                "Your table starts with the right deviation, but uniform. N is the normal distribution.",
                {"nn.init.normal_(_, std=d_model**-0.5)": "nn.init.uniform_(_, -((3 / d_model) ** 0.5), (3 / d_model) ** 0.5)"},
            ),
            "starts_within_a_tenth": (
                "Your table starts uniform between −0.1 and 0.1, as in a well-known tutorial. Here it starts at N(0, 1/d_model): normal, and the smaller the wider "
                "the vectors are.",
                {"nn.init.normal_(_, std=d_model**-0.5)": "nn.init.uniform_(_, -0.1, 0.1)"},
            ),
            "starts_by_xavier": (
                "Your table starts as Xavier's rule has it, whose deviation depends on the number of tokens as well: the larger the vocabulary, the smaller the "
                "vectors. A row is looked up, not summed over; only d_model counts.",
                {"nn.init.normal_": "nn.init.xavier_uniform_", "std=d_model**-0.5": ""},
            ),
            "starts_at_a_fiftieth": (
                "Your table starts with a deviation of 0.02, as in BERT and GPT-2, whose embeddings are not multiplied by √d_model. Here it is 1/√d_model.",
                {"d_model**-0.5": "0.02"},
            ),
        },
    ),
    *of(
        "PositionalEncoding",
        {
            # --- PositionalEncoding: the table
            "table_is_a_parameter": (
                "Your table is an `nn.Parameter`. The sines are not learnt: as a parameter they would be counted, filled anew by every initialisation, and changed "
                "by an optimiser. A buffer moves with the module too.",
                {"self.register_buffer('pe', _, persistent=False)": "self.pe = nn.Parameter(_)"},
            ),
            "table_is_an_attribute": (
                "Your table is a plain attribute, and stays where and as it was made when the module moves: on a GPU the sum fails, in half precision it comes out "
                "as float32. Register it with the module.",
                {"self.register_buffer('pe', _, persistent=False)": "self.pe = _"},
            ),
            "table_left_in_float64": (
                "Your table is float64, so a float32 model becomes float64 at its very first addition. Compute it in float64, and store it in the dtype that "
                "modules have.",
                {"torch.get_default_dtype()": "torch.float64"},
            ),
            "table_without_batch_axis": (
                "Your table is (max_len, d_model). The sums come out the same; but `pe` is asked for with an axis of length 1 in front, for the batch.",
                {
                    "table.unsqueeze(0)": "table",
                    "x.size(1) > self.pe.size(1)": "x.size(1) > self.pe.size(0)",
                    "self.pe[:, : x.size(1)]": "self.pe[: x.size(1)]",
                },
            ),
            "time_first": (
                "Your table is (max_len, 1, d_model) and your time the first axis, as in a well-known tutorial. Here the batch comes first: as it is, each "
                "*sequence* gets one vector added, the same for all its tokens.",
                {"table.unsqueeze(0)": "table.unsqueeze(1)", "x.size(1) > self.pe.size(1)": "False", "self.pe[:, : x.size(1)]": "self.pe[: x.size(0)]"},
            ),
            "halves_concatenated": (
                "You put all sines on the left and all cosines on the right. The paper interleaves them: each cosine stands right beside the sine of the same "
                "angle.",
                {"table[:, 0::2] = _": "table[:, : even.numel()] = _", "table[:, 1::2] = _": "table[:, even.numel() :] = _"},
            ),
            "sine_and_cosine_swapped": (
                "Your cosines are in the even columns and your sines in the odd ones. Position 0 tells: its row is 0, 1, 0, 1 …, for sin 0 comes first.",
                {"table[:, 0::2] = angles.sin()\ntable[:, 1::2] = angles.cos()[_]": "table[:, 0::2] = angles.cos()\ntable[:, 1::2] = angles.sin()[_]"},
            ),
            "only_sines": (
                "Your odd columns hold sines too, so each pair is one number twice. With its cosine beside it, every angle of the circle has a pair of its own.",
                {"angles.cos": "angles.sin"},
            ),
            "exponent_without_two": (
                "Your exponent is i / d_model, half of what it should be. i counts the pairs; 2i is the number of the even column.",
                {"even / d_model": "even / 2 / d_model"},
            ),
            "exponents_doubled_and_shifted": (
                "Your loop counts 0, 2, 4 …, which is the paper's 2i already, and its exponents double it again; and the cosine has one of its own, for the next "
                "column. Sine and cosine of a pair share one angle. (A widely copied loop has both.)",
                {
                    "even / d_model": "2 * even / d_model",
                    "table = _": "shifted = position / 10000 ** (2 * (even + 1) / d_model)\ntable = _",
                    "angles.cos": "shifted.cos",
                },
            ),
            "exponent_doubled": (
                "Your exponent is twice what it should be. `arange(0, d_model, 2)` holds 0, 2, 4 …: that is the paper's 2i already.",
                {"even / d_model": "2 * even / d_model"},
            ),
            "last_exponent_is_one": (
                "Your exponents run from 0 to exactly 1, as in some libraries, which divide by the number of pairs less one. In the paper the last one, (d_model − "
                "2) / d_model, stops short of 1.",
                {"even / d_model": "even / 2 / max(even.numel() - 1, 1)"},
            ),
            "cosine_with_its_own_exponent": (
                "Your cosines have exponents of their own, (2i + 1) / d_model. Sine and cosine of a pair share one angle.",
                {"angles.cos": "(position / 10000 ** ((even + 1) / d_model)).cos"},
            ),
            "multiplied_by_the_power": (
                "You multiply the position by 10000^(2i/d_model) where the paper divides. The waves are to become ever longer from left to right, not shorter.",
                {"position / _": "position * _"},
            ),
            "base_of_1000": (
                "Your waves are those of a base of 1000. The paper's is 10000: a zero is missing.",
                {"10000 ** _": "1000 ** _"},
            ),
            "positions_from_1": (
                "Your positions start at 1. They are counted from 0, so the first row is 0, 1, 0, 1 …",
                {"torch.arange(max_len, dtype=_)": "torch.arange(1, max_len + 1, dtype=_)"},
            ),
            "odd_width_fails": (
                "Your table works for even widths only. An odd one has one cosine fewer than sines: the last sine stands alone.",
                {"_[:, : d_model // 2]": "_"},
            ),
            "max_len_ignored": (
                "Your table always has 5000 positions. That is only the default of `max_len`.",
                {"1: max_len": "5000", "2: max_len": "5000"},
            ),
            "default_of_512": (
                "Unless told otherwise your table has 512 positions, as many models have. Here the default is 5000.",
                {"max_len=5000": "max_len=512"},
            ),
            # --- PositionalEncoding: the sum
            "whole_table_added": (
                "You add the whole table. A sequence is rarely as long as `max_len`: it gets the first T rows.",
                {"self.pe[:, : x.size(1)]": "self.pe"},
            ),
            "cut_by_the_batch": (
                "You cut the table to the number of *sequences*. The batch is x's first axis; the tokens are counted by its second.",
                {"1: x.size(1)": "x.size(0)"},
            ),
            "last_rows_added": (
                "You add the last T rows of the table. The first token has position 0.",
                {"self.pe[:, : x.size(1)]": "self.pe[:, self.pe.size(1) - x.size(1) :]"},
            ),
            "first_length_remembered": (
                "Your module keeps the rows that it cut for its first batch, and uses them for the next one too. Lengths change from batch to batch: cut the table "
                "at every call.",
                {"return self.dropout(x + _)": "if not hasattr(self, 'rows'):\n    self.rows = _\nreturn self.dropout(x + self.rows)"},
            ),
            "scaled_here_as_well": (
                "You multiply x by √d_model before you add the table. `Embeddings` does that already.",
                {"x + _": "x * x.size(-1) ** 0.5 + _"},
            ),
            "x_not_added": (
                "You return the positions alone. They are added to what the tokens mean, not put in its place.",
                {"x + _": "torch.zeros_like(x) + _"},
            ),
            "x_changed_in_place": (
                "Your result is right, but x itself was changed on the way: `x += …` writes into your caller's tensor, and where that is a leaf that wants a "
                "gradient, torch refuses.",
                {"return self.dropout(x + _)": "x += _\nreturn self.dropout(x)"},
            ),
            "x_detached": (
                "No gradient passes your sum: x was cut off from where it came from (`.data`, `.detach()`, a `no_grad` around too much). The table needs none, but "
                "the embeddings below do.",
                {"x + _": "x.detach() + _"},
            ),
            # --- PositionalEncoding: dropout
            "dropout_on_x": (
                "Your dropout falls on the tokens before the table is added. It falls on the sum (§5.4), positions included.",
                {"self.dropout(x + _)": "self.dropout(x) + _"},
            ),
            "dropout_on_positions": (
                "Your dropout falls on the positions alone. It falls on the sum (§5.4).",
                {"self.dropout(x + _)": "x + self.dropout(_)"},
            ),
            "dropout_on_each": (
                "You drop from the tokens and from the positions separately, and add then. Dropout falls on the sum (§5.4): a feature is there or not, both parts "
                "of it together.",
                {"self.dropout(x + _)": "self.dropout(x) + self.dropout(_.expand_as(x))"},
            ),
            "no_dropout_on_sum": (
                "Nothing is ever dropped. In training each feature of the sum is, with the probability that was asked for.",
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
            "share_kept_for_share_dropped": (
                DROPOUT_AS_SHARE_KEPT,
                {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
            ),
            "whole_tokens_dropped": (
                "You drop all features of a token, or none. Each feature has a chance of its own; a token that is hit would be missing from the sentence.",
                {"return self.dropout(_)": "kept = self.dropout(torch.ones_like(x[..., :1]))\nreturn kept * _"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "PositionalEncoding",
        {
            "table_beside_the_buffer": (
                "You add positions that are on the CPU, wherever `x` is. `module.to(device)` moves parameters and buffers and nothing else: add the buffer `pe` itself.",
                {
                    "self.register_buffer('pe', table.unsqueeze(0), persistent=False)": "self.register_buffer('pe', table.unsqueeze(0), persistent=False)\nself.table = self.pe",
                    "x + self.pe[...]": "x + self.table[:, :x.size(1)].to(x.dtype)",
                },
            ),
        },
    ),
]
