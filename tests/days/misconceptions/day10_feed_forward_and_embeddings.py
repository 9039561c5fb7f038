"""Day 10: what goes wrong with the feed-forward network, the embeddings, and the positions."""

from course.judging.misconceptions import Misconception

W_1 = "self.w_1 = nn.Linear(d_model, d_ff)"
W_2 = "self.w_2 = nn.Linear(d_ff, d_model)"
HIDDEN = "hidden = self.dropout(self.w_1(x).relu())"
NARROW = "return self.w_2(hidden)"
DROPOUT = "nn.Dropout(dropout)"

TABLE = "nn.Embedding(vocab, d_model)\n"
START = "nn.init.normal_(self.lut.weight, std=d_model**-0.5)"
LOOK_UP = "return self.lut(tokens) * math.sqrt(self.d_model)"

EXPONENT = "(even / d_model)"
ANGLES = "angles = position / 10000 ** (even / d_model)"
SINES = "table[:, 0::2] = angles.sin()"
COSINES = "table[:, 1::2] = angles.cos()[:, : d_model // 2]"
EMPTY = "table = torch.empty(max_len, d_model, dtype=torch.get_default_dtype())"
BUFFER = 'self.register_buffer("pe", table.unsqueeze(0), persistent=False)'
ADD = "return self.dropout(x + self.pe[:, : x.size(1)])"
TOO_LONG = "if x.size(1) > self.pe.size(1):"

MISCONCEPTIONS = [
    # --- PositionwiseFeedForward: the two layers
    Misconception(
        "layers_named_as_in_torch",
        "PositionwiseFeedForward",
        "Your layers are called `linear1` and `linear2`, as in `nn.TransformerEncoderLayer`. Here they are `w_1` and "
        "`w_2`: weights are given by their names, so a name is part of the answer.",
        source="""class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.linear2(self.dropout(self.linear1(x).relu()))
""",
    ),
    Misconception(
        "layers_in_a_sequential",
        "PositionwiseFeedForward",
        "Your layers lie in an `nn.Sequential`, so their parameters are called `net.0.weight` and the like. The two "
        "layers are to be attributes of their own, `w_1` and `w_2`.",
        source="""class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        )

    def forward(self, x):
        return self.net(x)
""",
    ),
    Misconception(
        "convolutions",
        "PositionwiseFeedForward",
        "You use convolutions of kernel size 1, as §3.3 puts it in other words. They compute the same, but they want "
        "the features in the middle axis and a third axis in their weights: here both are `nn.Linear`.",
        source="""class PositionwiseFeedForward(nn.Module):
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
    Misconception(
        "linear_sizes_swapped",
        "PositionwiseFeedForward",
        "Both your layers have their two sizes the wrong way round. `nn.Linear` wants first the width of what goes in, "
        "then that of what comes out, although it stores its weight the other way, as (out, in).",
        {
            W_1: W_1.replace("d_model, d_ff", "d_ff, d_model"),
            W_2: W_2.replace("d_ff, d_model", "d_model, d_ff"),
        },
    ),
    Misconception(
        "hidden_always_four_times_as_wide",
        "PositionwiseFeedForward",
        "Your hidden layer is 4 · d_model wide whatever is asked for. That is the paper's choice of d_ff; here d_ff is an "
        "argument of its own.",
        {
            W_1: W_1.replace("d_ff", "4 * d_model"),
            W_2: W_2.replace("d_ff", "4 * d_model"),
        },
    ),
    Misconception(
        "no_biases",
        "PositionwiseFeedForward",
        "Neither of your layers has a bias. Equation 2 has two, b₁ and b₂.",
        {
            W_1: W_1.replace("d_ff)", "d_ff, bias=False)"),
            W_2: W_2.replace("d_model)", "d_model, bias=False)"),
        },
    ),
    Misconception(
        "second_layer_without_bias",
        "PositionwiseFeedForward",
        "Your second layer has no bias. Equation 2 ends in b₂.",
        {W_2: W_2.replace("d_model)", "d_model, bias=False)")},
    ),
    # --- PositionwiseFeedForward: the cut
    Misconception(
        "relu_missing",
        "PositionwiseFeedForward",
        "Nothing is cut off between your two layers. Without the ReLU they are one linear layer, written with more "
        "numbers.",
        {HIDDEN: "hidden = self.dropout(self.w_1(x))"},
    ),
    Misconception(
        "relu_at_the_end",
        "PositionwiseFeedForward",
        "Your cut comes after the second layer instead of between the two. What is added to a token could then never "
        "be negative.",
        {HIDDEN: "hidden = self.dropout(self.w_1(x))", NARROW: "return self.w_2(hidden).relu()"},
    ),
    Misconception(
        "relu_twice",
        "PositionwiseFeedForward",
        "There is a second cut, after the second layer. The output is added to a token, and must be able to take "
        "away from it.",
        {NARROW: "return self.w_2(hidden).relu()"},
    ),
    Misconception(
        "relu_on_input",
        "PositionwiseFeedForward",
        "You cut off x below 0 before the first layer. The cut is for the hidden values, which the first layer makes.",
        {HIDDEN: "hidden = self.dropout(self.w_1(x.relu()))"},
    ),
    Misconception(
        "relu_before_bias",
        "PositionwiseFeedForward",
        "You cut off before the bias b₁ is added. The bias says where each hidden unit begins, so it belongs under "
        "the maximum.",
        {HIDDEN: "hidden = self.dropout((x @ self.w_1.weight.T).relu() + self.w_1.bias)"},
    ),
    Misconception(
        "gelu",
        "PositionwiseFeedForward",
        "Between your layers stands GELU, as in BERT and GPT. The paper's network has max(0, ·).",
        {HIDDEN: "hidden = self.dropout(nn.functional.gelu(self.w_1(x)))"},
    ),
    Misconception(
        "leaky_relu",
        "PositionwiseFeedForward",
        "Below 0 your hidden values are made small, not 0: that is a leaky ReLU. Equation 2 has max(0, ·).",
        {HIDDEN: "hidden = self.dropout(nn.functional.leaky_relu(self.w_1(x)))"},
    ),
    Misconception(
        "shortcut_inside",
        "PositionwiseFeedForward",
        "You add x to the output. The shortcut is not part of this network: `SublayerConnection` of day 11 puts it "
        "around every sublayer, and then it would be there twice.",
        {NARROW: "return x + self.w_2(hidden)"},
    ),
    Misconception(
        "three_axes_only",
        "PositionwiseFeedForward",
        "Your network asks for exactly three axes. It treats every vector by itself, so any number of axes may stand "
        "in front; `nn.Linear` does not mind.",
        {HIDDEN: "batch, time, _ = x.shape\n        " + HIDDEN},
    ),
    Misconception(
        "x_cut_in_place",
        "PositionwiseFeedForward",
        "You cut off x itself, in place, before the first layer. The cut is for the hidden values; and x still "
        "belongs to your caller, who adds it to your output.",
        {HIDDEN: "hidden = self.dropout(self.w_1(nn.functional.relu(x, inplace=True)))"},
    ),
    # --- PositionwiseFeedForward: dropout
    Misconception(
        "dropout_on_output",
        "PositionwiseFeedForward",
        "Your dropout falls on the output. Here it falls on the hidden values; the output gets a dropout of its own on "
        "day 11, just before it is added.",
        {HIDDEN: "hidden = self.w_1(x).relu()", NARROW: "return self.dropout(self.w_2(hidden))"},
    ),
    Misconception(
        "dropout_on_both",
        "PositionwiseFeedForward",
        "Your dropout falls on the hidden values, which is right, and on the output as well. The output gets a dropout "
        "of its own on day 11; now it would be dropped twice.",
        {NARROW: "return self.dropout(self.w_2(hidden))"},
    ),
    Misconception(
        "dropout_on_input",
        "PositionwiseFeedForward",
        "Your dropout falls on x, before the first layer. It belongs to the hidden values, after the cut.",
        {HIDDEN: "hidden = self.w_1(self.dropout(x)).relu()"},
    ),
    Misconception(
        "no_dropout",
        "PositionwiseFeedForward",
        "Nothing is ever dropped. In training each hidden value is dropped with the probability that was asked for.",
        {HIDDEN: "hidden = self.w_1(x).relu()"},
    ),
    Misconception(
        "dropout_in_evaluation",
        "PositionwiseFeedForward",
        "Your dropout goes on in evaluation. `F.dropout` drops unless it is told that this is no training; a module of "
        "`nn.Dropout` is told by `train()` and `eval()`.",
        {HIDDEN: "hidden = nn.functional.dropout(self.w_1(x).relu(), self.dropout.p)"},
    ),
    Misconception(
        "dropout_not_passed_on",
        "PositionwiseFeedForward",
        "Your dropout does not know the probability that was asked for: `nn.Dropout()` alone drops half of "
        "everything.",
        {DROPOUT: "nn.Dropout()"},
    ),
    Misconception(
        "dropout_as_share_kept",
        "PositionwiseFeedForward",
        "You took the dropout for the share that is kept. In the paper, and in torch, P_drop is the share that is dropped.",
        {DROPOUT: "nn.Dropout(1 - dropout)"},
    ),
    Misconception(
        "dropout_not_made_up_for",
        "PositionwiseFeedForward",
        "You drop hidden values, but leave the others as they are. Then their sum is smaller in training than in "
        "evaluation; what is kept is divided by 1 − p, so that on average nothing changes.",
        {
            HIDDEN: "hidden = self.w_1(x).relu()\n"
            "        if self.training:\n"
            "            hidden = hidden * (torch.rand_like(hidden) >= self.dropout.p)"
        },
    ),
    Misconception(
        "whole_vectors_dropped",
        "PositionwiseFeedForward",
        "You drop all hidden values of a token, or none. Each hidden value has a chance of its own; otherwise a token "
        "that is hit learns nothing at all.",
        {
            HIDDEN: "hidden = self.w_1(x).relu()\n"
            "        hidden = hidden * self.dropout(torch.ones_like(hidden[..., :1]))"
        },
    ),
    Misconception(
        "no_dropout_unless_asked",
        "PositionwiseFeedForward",
        "Your default dropout is 0. The paper's P_drop is 0.1 (§5.4), and so is the default here.",
        {"dropout: float = 0.1": "dropout: float = 0.0"},
    ),
    # --- Embeddings
    Misconception(
        "table_named_otherwise",
        "Embeddings",
        "Your table is not called `lut`. Weights are given by their names, so a name is part of the answer.",
        source="""class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def forward(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.d_model)
""",
    ),
    Misconception(
        "table_turned",
        "Embeddings",
        "Your table has a row for each feature and a column for each token. `nn.Embedding` wants the number of rows "
        "first: one row a token. The exercise takes them in the other order.",
        {TABLE: TABLE.replace("vocab, d_model", "d_model, vocab")},
    ),
    Misconception(
        "not_scaled",
        "Embeddings",
        "Your vectors are the rows of the table as they are. The paper multiplies them by √d_model (§3.4), or they are "
        "much smaller than the positions that are added to them.",
        {LOOK_UP: "return self.lut(tokens)"},
    ),
    Misconception(
        "started_at_1_and_not_scaled",
        "Embeddings",
        "Two things that hide each other. Your table starts with a deviation of 1, as `nn.Embedding` makes it, and its rows are not multiplied by √d_model. The sizes come out as the paper "
        "wants them, but a table that is tied to the last layer gives scores √d_model times too large. Start at d_model^−½, and multiply (§3.4).",
        {START: "pass", LOOK_UP: "return self.lut(tokens)"},
    ),
    Misconception(
        "scaled_by_root_of_vocab",
        "Embeddings",
        "You multiply by √vocab. The factor is √d_model, the root of the vectors' width: how many other tokens there "
        "are says nothing about the size of one.",
        {LOOK_UP: LOOK_UP.replace("self.d_model", "self.lut.num_embeddings")},
    ),
    Misconception(
        "power_without_parentheses",
        "Embeddings",
        "You multiply by d_model / 2. In Python `d_model ** 1 / 2` is (d_model ** 1) / 2: a power binds tighter than a "
        "division.",
        {LOOK_UP: LOOK_UP.replace("math.sqrt(self.d_model)", "self.d_model / 2")},
    ),
    Misconception(
        "scaled_by_d_model",
        "Embeddings",
        "You multiply by d_model. The factor is its root: the table's rows have length 1 at the start, and each of "
        "d_model features is to have size 1.",
        {LOOK_UP: LOOK_UP.replace("math.sqrt(self.d_model)", "self.d_model")},
    ),
    Misconception(
        "divided_by_root",
        "Embeddings",
        "You divide by √d_model, as attention does with its scores. Embeddings are multiplied by it: they are small in "
        "the table.",
        {LOOK_UP: LOOK_UP.replace("*", "/")},
    ),
    Misconception(
        "scale_as_an_array",
        "Embeddings",
        "In half precision your result is float32. Your factor is a tensor with an axis of its own, and such a tensor "
        "has a say in the dtype of a product; a plain number has none.",
        {
            LOOK_UP: LOOK_UP.replace(
                "math.sqrt(self.d_model)",
                "torch.tensor([float(self.d_model)], device=tokens.device).sqrt()",
            )
        },
    ),
    Misconception(
        "padding_index",
        "Embeddings",
        "Your table has a padding index: token 0 never gets a gradient, and its row starts at 0. That padding does not count is the "
        "masks' business; here every row is a row like any other.",
        {
            TABLE: TABLE.replace("d_model)", "d_model, padding_idx=0)"),
            START: START + "\n        with torch.no_grad():\n            self.lut.weight[0] = 0.0",
        },
    ),
    Misconception(
        "padding_index_refilled",
        "Embeddings",
        "Your table has a padding index: token 0 never gets a gradient. (Its row does not even start at 0, for you "
        "fill the table afterwards.) That padding does not count is the masks' business; here every row learns.",
        {TABLE: TABLE.replace("d_model)", "d_model, padding_idx=0)")},
    ),
    Misconception(
        "table_detached",
        "Embeddings",
        "No gradient reaches your table. You look up in its numbers (`.data`, `.detach()`) instead of in the parameter "
        "itself, so it would never learn.",
        {LOOK_UP: LOOK_UP.replace("self.lut(tokens)", "self.lut.weight.data[tokens]")},
    ),
    Misconception(
        "two_axes_only",
        "Embeddings",
        "Your embeddings ask for exactly two axes of ids. Every id is looked up by itself, so any number of axes may "
        "stand in front.",
        {LOOK_UP: "batch, time = tokens.shape\n        " + LOOK_UP},
    ),
    Misconception(
        "starts_at_deviation_1",
        "Embeddings",
        "Your table starts with a deviation of 1, as `nn.Embedding` makes it. Times √d_model that is far too large: at "
        "width 512 every feature is about 23, and the positions added to it, of size 1, are drowned.",
        {START: "pass"},
    ),
    Misconception(
        "starts_at_variance_root",
        "Embeddings",
        "Your table starts with a deviation of 1/d_model. N(0, 1/d_model) names the *variance*; "
        "`normal_` wants the deviation, its root.",
        {START: START.replace("d_model**-0.5", "1 / d_model")},
    ),
    Misconception(
        "starts_uniform",
        "Embeddings",
        "Your table starts with the right deviation, but uniform. N is the normal distribution.",
        {START: "nn.init.uniform_(self.lut.weight, -((3 / d_model) ** 0.5), (3 / d_model) ** 0.5)"},
    ),
    Misconception(
        "starts_within_a_tenth",
        "Embeddings",
        "Your table starts uniform between −0.1 and 0.1, as in a well-known tutorial. Here it starts at N(0, 1/d_model): "
        "normal, and the smaller the wider the vectors are.",
        {START: "nn.init.uniform_(self.lut.weight, -0.1, 0.1)"},
    ),
    Misconception(
        "starts_by_xavier",
        "Embeddings",
        "Your table starts as Xavier's rule has it, whose deviation depends on the number of tokens as well: the "
        "larger the vocabulary, the smaller the vectors. A row is looked up, not summed over; only d_model counts.",
        {START: "nn.init.xavier_uniform_(self.lut.weight)"},
    ),
    Misconception(
        "starts_at_a_fiftieth",
        "Embeddings",
        "Your table starts with a deviation of 0.02, as in BERT and GPT-2, whose embeddings are not multiplied by "
        "√d_model. Here it is 1/√d_model.",
        {START: START.replace("d_model**-0.5", "0.02")},
    ),
    # --- PositionalEncoding: the table
    Misconception(
        "table_is_a_parameter",
        "PositionalEncoding",
        "Your table is an `nn.Parameter`. The sines are not learnt: as a parameter they would be counted, filled anew by "
        "every initialisation, and changed by an optimiser. A buffer moves with the module too.",
        {BUFFER: "self.pe = nn.Parameter(table.unsqueeze(0))"},
    ),
    Misconception(
        "table_is_an_attribute",
        "PositionalEncoding",
        "Your table is a plain attribute, and stays where and as it was made when the module moves: on a GPU the sum fails, in "
        "half precision it comes out as float32. Register it with the module.",
        {BUFFER: "self.pe = table.unsqueeze(0)"},
    ),
    Misconception(
        "table_left_in_float64",
        "PositionalEncoding",
        "Your table is float64, so a float32 model becomes float64 at its very first addition. Compute it in "
        "float64, and store it in the dtype that modules have.",
        {EMPTY: EMPTY.replace("torch.get_default_dtype()", "torch.float64")},
    ),
    Misconception(
        "table_without_batch_axis",
        "PositionalEncoding",
        "Your table is (max_len, d_model). The sums come out the same; but `pe` is asked for with an axis of length 1 in front, "
        "for the batch.",
        {
            "table.unsqueeze(0)": "table",
            TOO_LONG: "if x.size(1) > self.pe.size(0):",
            "self.pe[:, : x.size(1)]": "self.pe[: x.size(1)]",
        },
    ),
    Misconception(
        "time_first",
        "PositionalEncoding",
        "Your table is (max_len, 1, d_model) and your time the first axis, as in a well-known tutorial. Here the batch comes "
        "first: as it is, each *sequence* gets one vector added, the same for all its tokens.",
        {
            "table.unsqueeze(0)": "table.unsqueeze(1)",
            TOO_LONG: "if False:",
            "self.pe[:, : x.size(1)]": "self.pe[: x.size(0)]",
        },
    ),
    Misconception(
        "halves_concatenated",
        "PositionalEncoding",
        "You put all sines on the left and all cosines on the right. The paper interleaves them: each cosine stands "
        "right beside the sine of the same angle.",
        {
            "table[:, 0::2]": "table[:, : even.numel()]",
            "table[:, 1::2]": "table[:, even.numel() :]",
        },
    ),
    Misconception(
        "sine_and_cosine_swapped",
        "PositionalEncoding",
        "Your cosines are in the even columns and your sines in the odd ones. Position 0 tells: its row is 0, 1, 0, "
        "1 …, for sin 0 comes first.",
        {"angles.sin()": "angles.cos()", "angles.cos()[": "angles.sin()["},
    ),
    Misconception(
        "only_sines",
        "PositionalEncoding",
        "Your odd columns hold sines too, so each pair is one number twice. With its cosine beside it, every angle of "
        "the circle has a pair of its own.",
        {"angles.cos()[": "angles.sin()["},
    ),
    Misconception(
        "exponent_without_two",
        "PositionalEncoding",
        "Your exponent is i / d_model, half of what it should be. i counts the pairs; 2i is the number of the even "
        "column.",
        {EXPONENT: "(even / 2 / d_model)"},
    ),
    Misconception(
        "exponents_doubled_and_shifted",
        "PositionalEncoding",
        "Your loop counts 0, 2, 4 …, which is the paper's 2i already, and its exponents double it again; and the cosine has one of its own, for the "
        "next column. Sine and cosine of a pair share one angle. (A widely copied loop has both.)",
        {
            ANGLES: "angles = position / 10000 ** (2 * even / d_model)\n"
            "        shifted = position / 10000 ** (2 * (even + 1) / d_model)",
            COSINES: COSINES.replace("angles", "shifted"),
        },
    ),
    Misconception(
        "exponent_doubled",
        "PositionalEncoding",
        "Your exponent is twice what it should be. `arange(0, d_model, 2)` holds 0, 2, 4 …: that is the paper's 2i already.",
        {EXPONENT: "(2 * even / d_model)"},
    ),
    Misconception(
        "last_exponent_is_one",
        "PositionalEncoding",
        "Your exponents run from 0 to exactly 1, as in some libraries, which divide by the number of pairs less one. "
        "In the paper the last one, (d_model − 2) / d_model, stops short of 1.",
        {EXPONENT: "(even / 2 / max(even.numel() - 1, 1))"},
    ),
    Misconception(
        "cosine_with_its_own_exponent",
        "PositionalEncoding",
        "Your cosines have exponents of their own, (2i + 1) / d_model. Sine and cosine of a pair share one angle.",
        {"angles.cos()[": "(position / 10000 ** ((even + 1) / d_model)).cos()["},
    ),
    Misconception(
        "multiplied_by_the_power",
        "PositionalEncoding",
        "You multiply the position by 10000^(2i/d_model) where the paper divides. The waves are to become ever longer from left "
        "to right, not shorter.",
        {"position / 10000": "position * 10000"},
    ),
    Misconception(
        "base_of_1000",
        "PositionalEncoding",
        "Your waves are those of a base of 1000. The paper's is 10000: a zero is missing.",
        {"position / 10000": "position / 1000"},
    ),
    Misconception(
        "positions_from_1",
        "PositionalEncoding",
        "Your positions start at 1. They are counted from 0, so the first row is 0, 1, 0, 1 …",
        {"torch.arange(max_len, dtype": "torch.arange(1, max_len + 1, dtype"},
    ),
    Misconception(
        "odd_width_fails",
        "PositionalEncoding",
        "Your table works for even widths only. An odd one has one cosine fewer than sines: the last sine stands alone.",
        {"angles.cos()[:, : d_model // 2]": "angles.cos()"},
    ),
    Misconception(
        "max_len_ignored",
        "PositionalEncoding",
        "Your table always has 5000 positions. That is only the default of `max_len`.",
        {
            "torch.arange(max_len, dtype": "torch.arange(5000, dtype",
            "torch.empty(max_len,": "torch.empty(5000,",
        },
    ),
    Misconception(
        "default_of_512",
        "PositionalEncoding",
        "Unless told otherwise your table has 512 positions, as many models have. Here the default is 5000.",
        {"max_len: int = 5000": "max_len: int = 512"},
    ),
    # --- PositionalEncoding: the sum
    Misconception(
        "whole_table_added",
        "PositionalEncoding",
        "You add the whole table. A sequence is rarely as long as `max_len`: it gets the first T rows.",
        {ADD: "return self.dropout(x + self.pe)"},
    ),
    Misconception(
        "cut_by_the_batch",
        "PositionalEncoding",
        "You cut the table to the number of *sequences*. The batch is x's first axis; the tokens are counted by its "
        "second.",
        {"self.pe[:, : x.size(1)]": "self.pe[:, : x.size(0)]"},
    ),
    Misconception(
        "last_rows_added",
        "PositionalEncoding",
        "You add the last T rows of the table. The first token has position 0.",
        {"self.pe[:, : x.size(1)]": "self.pe[:, self.pe.size(1) - x.size(1) :]"},
    ),
    Misconception(
        "first_length_remembered",
        "PositionalEncoding",
        "Your module keeps the rows that it cut for its first batch, and uses them for the next one too. Lengths change "
        "from batch to batch: cut the table at every call.",
        {
            ADD: 'if not hasattr(self, "rows"):\n'
            "            self.rows = self.pe[:, : x.size(1)]\n"
            "        return self.dropout(x + self.rows)"
        },
    ),
    Misconception(
        "scaled_here_as_well",
        "PositionalEncoding",
        "You multiply x by √d_model before you add the table. `Embeddings` does that already.",
        {ADD: ADD.replace("x + ", "x * x.size(-1) ** 0.5 + ")},
    ),
    Misconception(
        "x_not_added",
        "PositionalEncoding",
        "You return the positions alone. They are added to what the tokens mean, not put in its place.",
        {ADD: ADD.replace("x + ", "torch.zeros_like(x) + ")},
    ),
    Misconception(
        "x_changed_in_place",
        "PositionalEncoding",
        "Your result is right, but x itself was changed on the way: `x += …` writes into your caller's tensor, and where "
        "that is a leaf that wants a gradient, torch refuses.",
        {ADD: "x += self.pe[:, : x.size(1)]\n        return self.dropout(x)"},
    ),
    Misconception(
        "x_detached",
        "PositionalEncoding",
        "No gradient passes your sum: x was cut off from where it came from (`.data`, `.detach()`, a `no_grad` around "
        "too much). The table needs none, but the embeddings below do.",
        {ADD: ADD.replace("x + ", "x.detach() + ")},
    ),
    # --- PositionalEncoding: dropout
    Misconception(
        "dropout_on_x",
        "PositionalEncoding",
        "Your dropout falls on the tokens before the table is added. It falls on the sum (§5.4), positions included.",
        {ADD: "return self.dropout(x) + self.pe[:, : x.size(1)]"},
    ),
    Misconception(
        "dropout_on_positions",
        "PositionalEncoding",
        "Your dropout falls on the positions alone. It falls on the sum (§5.4).",
        {ADD: "return x + self.dropout(self.pe[:, : x.size(1)])"},
    ),
    Misconception(
        "dropout_on_each",
        "PositionalEncoding",
        "You drop from the tokens and from the positions separately, and add then. Dropout falls on the sum (§5.4): a feature is "
        "there or not, both parts of it together.",
        {ADD: "return self.dropout(x) + self.dropout(self.pe[:, : x.size(1)].expand_as(x))"},
    ),
    Misconception(
        "no_dropout_on_sum",
        "PositionalEncoding",
        "Nothing is ever dropped. In training each feature of the sum is, with the probability that was asked for.",
        {ADD: "return x + self.pe[:, : x.size(1)]"},
    ),
    Misconception(
        "positions_dropped_in_evaluation",
        "PositionalEncoding",
        "Your dropout goes on in evaluation. `F.dropout` drops unless it is told that this is no training; a module of "
        "`nn.Dropout` is told by `train()` and `eval()`.",
        {ADD: "return nn.functional.dropout(x + self.pe[:, : x.size(1)], self.dropout.p)"},
    ),
    Misconception(
        "usual_dropout_of_half",
        "PositionalEncoding",
        "Your dropout does not know the probability that was asked for: `nn.Dropout()` alone drops half of "
        "everything.",
        {DROPOUT: "nn.Dropout()"},
    ),
    Misconception(
        "share_kept_for_share_dropped",
        "PositionalEncoding",
        "You took the dropout for the share that is kept. In the paper, and in torch, P_drop is the share that is dropped.",
        {DROPOUT: "nn.Dropout(1 - dropout)"},
    ),
    Misconception(
        "whole_tokens_dropped",
        "PositionalEncoding",
        "You drop all features of a token, or none. Each feature has a chance of its own; a token that is hit would be "
        "missing from the sentence.",
        {
            ADD: "kept = self.dropout(torch.ones_like(x[..., :1]))\n"
            "        return kept * (x + self.pe[:, : x.size(1)])"
        },
    ),
]
