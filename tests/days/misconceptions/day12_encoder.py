"""Day 12: what goes wrong where parts become a layer, and layers a stack."""

from course.judging.misconceptions import Misconception

CONNECTIONS = "self.sublayer = clones(SublayerConnection(size, dropout, norm), 2)"
ATTEND = "x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))"
THINK = "return self.sublayer[1](x, self.feed_forward)"
KEEP_NORM = "self.norm = norm"

LAYERS = "self.layers = clones(layer, n)"
FINAL = 'self.norm = LayerNorm(layer.size) if layer.norm == "pre" else None'
LOOP = "for layer in self.layers:\n            x = layer(x, mask)"
RETURN = "return x if self.norm is None else self.norm(x)"

OUR_NAMES = ("gain", "bias")
OTHER_NAMES = ("a_2", "b_2")  # in a well-known annotated Transformer


def norm_by_std(names: tuple[str, str]) -> str:
    """A local class of a norm as it is widely copied: n − 1, and ε outside the root."""
    gain, bias = names
    lines = (
        "class Norm(nn.Module):",
        "    def __init__(self, features, eps=1e-6):",
        "        super().__init__()",
        f"        self.{gain} = nn.Parameter(torch.ones(features))",
        f"        self.{bias} = nn.Parameter(torch.zeros(features))",
        "        self.eps = eps",
        "    def forward(self, x):",
        "        mean = x.mean(-1, keepdim=True)",
        "        std = x.std(-1, keepdim=True)",
        f"        return self.{gain} * (x - mean) / (std + self.eps) + self.{bias}",
    )
    return "\n        ".join(lines)


def connections(
    norm_class: str, made: str = "Norm(size)", arrangement: str = "norm"
) -> dict[str, str]:
    """Connections of one's own, around another norm, that are post- or pre-norm as `arrangement` says."""
    lines = (
        norm_class,
        "class Connection(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        f"        self.norm = {made}",
        "        self.dropout = nn.Dropout(dropout)",
        "    def forward(self, x, sublayer):",
        f'        if {arrangement} == "pre":',
        "            return x + self.dropout(sublayer(self.norm(x)))",
        "        return self.norm(x + self.dropout(sublayer(x)))",
        CONNECTIONS.replace("SublayerConnection(size, dropout, norm)", "Connection()"),
    )
    return {CONNECTIONS: "\n        ".join(line for line in lines if line)}


MISCONCEPTIONS = [
    # --- EncoderLayer: what it holds
    Misconception(
        "as_in_the_annotated_transformer",
        "EncoderLayer",
        "These are the connections of a well-known annotated Transformer, and they differ in two things. They are pre-norm whatever is asked for, "
        "where post-norm is the default; and their norm is another: its parameters are called `a_2` and `b_2`, its deviation divides by n − 1, and "
        "its ε is added after the root. Those of day 11 may be imported.",
        connections(norm_by_std(OTHER_NAMES), arrangement='"pre"'),
    ),
    Misconception(
        "annotated_transformer_with_our_names",
        "EncoderLayer",
        "Your connections are pre-norm whatever is asked for, where post-norm is the default. And their norm divides by a deviation of n − 1, to "
        "which ε is added after the root; the variance divides by n, and ε stands under the root. Those of day 11 may be imported.",
        connections(norm_by_std(OUR_NAMES), arrangement='"pre"'),
    ),
    Misconception(
        "norms_by_std",
        "EncoderLayer",
        "The norms in your connections divide by a deviation of n − 1, to which ε is added after the root, as `x.std()` suggests. The variance "
        "divides by n, and ε stands under the root. The `LayerNorm` of day 11 may be imported.",
        connections(norm_by_std(OUR_NAMES)),
    ),
    Misconception(
        "norms_of_torch",
        "EncoderLayer",
        "The norms in your connections are torch's. They compute the same, but their parameters are called `weight` and `bias`; ours, of day 11, are "
        "`gain` and `bias`.",
        connections("", "nn.LayerNorm(size)"),
    ),
    Misconception(
        "norms_and_dropout_of_its_own",
        "EncoderLayer",
        "Your layer has norms and a dropout of its own, as torch's has, and is post-norm whatever is asked for. Here they belong to two connections, under "
        "`sublayer`, which know both arrangements: `SublayerConnection` of day 11 may be imported.",
        {
            CONNECTIONS: "self.norm1 = LayerNorm(size)\n        self.norm2 = LayerNorm(size)\n"
            "        self.dropout = nn.Dropout(dropout)",
            ATTEND: "x = self.norm1(x + self.dropout(self.self_attn(x, x, x, mask)))",
            THINK: "return self.norm2(x + self.dropout(self.feed_forward(x)))",
        },
    ),
    Misconception(
        "norm_not_taken",
        "EncoderLayer",
        "Your layer cannot be told where its norms go: it takes no `norm`. Here it does, and hands it to its connections; post-norm is the default.",
        {
            '        norm: str = "post",\n': "",
            CONNECTIONS: CONNECTIONS.replace(", norm)", ")"),
            "self.norm = norm": "pass",
        },
    ),
    Misconception(
        "always_pre_norm",
        "EncoderLayer",
        "Your layer is pre-norm whatever it is told. Most later models are; the paper's is post-norm, and so is the default here.",
        {CONNECTIONS: CONNECTIONS.replace("norm)", '"pre")')},
    ),
    Misconception(
        "connections_in_a_list",
        "EncoderLayer",
        "Your connections stand in a plain Python list. The layer does not know that they are parts of it: their norms "
        "are never trained, saved or moved to a GPU, and `eval()` does not reach their dropout.",
        {
            CONNECTIONS: "self.sublayer = [SublayerConnection(size, dropout, norm) for _ in range(2)]"
        },
    ),
    Misconception(
        "one_connection_for_both",
        "EncoderLayer",
        "Your two connections are one and the same object, named twice. The norm after attention and the norm after "
        "the network do different work, so each has a gain and a bias of its own.",
        {
            CONNECTIONS: "self.sublayer = nn.ModuleList([SublayerConnection(size, dropout, norm)] * 2)"
        },
    ),
    Misconception(
        "three_connections",
        "EncoderLayer",
        "Your layer has three connections. An encoder layer has two parts, and so two connections; the third belongs "
        "to the decoder, which looks at the source as well.",
        {CONNECTIONS: CONNECTIONS.replace("2)", "3)")},
    ),
    Misconception(
        "norm_is_a_layer_norm",
        "EncoderLayer",
        "Your layer's `norm` is a LayerNorm. The norms are in the connections already; `layer.norm` is the word that "
        'the layer was given, "post" or "pre", which the stack reads.',
        {KEEP_NORM: 'self.norm = nn.LayerNorm(size) if norm == "pre" else norm'},
    ),
    Misconception(
        "norm_not_kept",
        "EncoderLayer",
        "Your layer does not keep the word `norm`. The stack asks the layer for it, to know whether it needs a norm at "
        "the end.",
        {KEEP_NORM: "pass"},
    ),
    Misconception(
        "size_not_kept",
        "EncoderLayer",
        "Your layer does not keep `size`. The stack asks the layer for it, to know how wide its norm is.",
        {"self.size = size": "pass"},
    ),
    Misconception(
        "parts_copied",
        "EncoderLayer",
        "Your layer works on copies of the parts that it was given. It should keep the parts themselves: whoever made "
        "them may want to share or watch them. Copies are made by the stack.",
        {
            "self.self_attn = self_attn": "self.self_attn = clones(self_attn, 1)[0]",
            "self.feed_forward = feed_forward": "self.feed_forward = clones(feed_forward, 1)[0]",
        },
    ),
    Misconception(
        "pre_norm_is_the_default",
        "EncoderLayer",
        "Your layer is pre-norm where nothing is said. In this course post-norm is the default, because it is the paper's.",
        {'norm: str = "post"': 'norm: str = "pre"'},
    ),
    # --- EncoderLayer: post and pre, dropout
    Misconception(
        "always_post_norm",
        "EncoderLayer",
        "Your layer is post-norm whatever it is told: the word `norm` does not reach its connections.",
        {CONNECTIONS: CONNECTIONS.replace(", norm)", ")")},
    ),
    Misconception(
        "dropout_not_passed_on",
        "EncoderLayer",
        "Your layer never drops anything: the `dropout` that it is given does not reach its connections.",
        {CONNECTIONS: CONNECTIONS.replace("dropout", "0.0")},
    ),
    Misconception(
        "dropout_fixed",
        "EncoderLayer",
        "Your layer's dropout is the paper's 0.1, whatever the caller asks for.",
        {CONNECTIONS: CONNECTIONS.replace("dropout", "0.1")},
    ),
    Misconception(
        "attention_dropped_twice",
        "EncoderLayer",
        "What attention says is dropped twice: once by your layer, and once more by the connection, which does that "
        "by itself.",
        {
            ATTEND: ATTEND.replace(
                "self.self_attn(x, x, x, mask)",
                "self.sublayer[0].dropout(self.self_attn(x, x, x, mask))",
            )
        },
    ),
    Misconception(
        "network_dropped_twice",
        "EncoderLayer",
        "What the network says is dropped twice: once by your layer, and once more by the connection, which does that "
        "by itself.",
        {
            THINK: THINK.replace(
                "self.feed_forward)",
                "lambda x: self.sublayer[1].dropout(self.feed_forward(x)))",
            )
        },
    ),
    Misconception(
        "dropout_in_evaluation",
        "EncoderLayer",
        "Something is dropped in evaluation mode, too. The function `dropout` drops unless it is told that training is "
        "over; a module `nn.Dropout` is told by `eval()`. The connections have one already.",
        {
            ATTEND: ATTEND.replace(
                "self.self_attn(x, x, x, mask)",
                "nn.functional.dropout("
                "self.self_attn(x, x, x, mask), 0.0 if self.training else self.sublayer[0].dropout.p)",
            )
        },
    ),
    # --- EncoderLayer: forward
    Misconception(
        "attention_is_lost",
        "EncoderLayer",
        "What comes of attention is thrown away: the network works on the x that the layer was given. A connection "
        "does not change x, it returns something new, and that has to be kept.",
        {ATTEND: ATTEND.removeprefix("x = ")},
    ),
    Misconception(
        "network_is_lost",
        "EncoderLayer",
        "What comes of the network is thrown away: you return what there was before it.",
        {THINK: THINK.replace("return ", "") + "\n        return x"},
    ),
    Misconception(
        "first_connection_twice",
        "EncoderLayer",
        "Both parts go through the first connection, so both share one norm, and the second is never used or trained.",
        {"self.sublayer[1]": "self.sublayer[0]"},
    ),
    Misconception(
        "connections_swapped",
        "EncoderLayer",
        "Your connections have changed places: the first is attention's, the second the network's.",
        {"self.sublayer[0]": "self.sublayer[-1]", "self.sublayer[1]": "self.sublayer[-2]"},
    ),
    Misconception(
        "network_first",
        "EncoderLayer",
        "Your network comes before attention. Look around first, then think.",
        {
            ATTEND: "x = self.sublayer[1](x, self.feed_forward)",
            THINK: "return self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))",
        },
    ),
    Misconception(
        "no_connection_around_attention",
        "EncoderLayer",
        "Attention stands alone, without its connection: no shortcut, no norm, no dropout. A token would learn from the "
        "others and forget itself.",
        {ATTEND: "x = self.self_attn(x, x, x, mask)"},
    ),
    Misconception(
        "no_connection_around_network",
        "EncoderLayer",
        "The network stands alone, without its connection: no shortcut, no norm, no dropout.",
        {THINK: "return self.feed_forward(x)"},
    ),
    Misconception(
        "attention_adds_x",
        "EncoderLayer",
        "What you hand to the first connection adds x to attention's output. The connection has the shortcut already, so "
        "x is counted twice.",
        {ATTEND: ATTEND.replace("lambda x: ", "lambda x: x + ")},
    ),
    Misconception(
        "network_adds_x",
        "EncoderLayer",
        "What you hand to the second connection adds x to the network's output. The connection has the shortcut already, "
        "so x is counted twice.",
        {THINK: THINK.replace("self.feed_forward)", "lambda x: x + self.feed_forward(x))")},
    ),
    Misconception(
        "both_see_the_unnormed",
        "EncoderLayer",
        "In pre-norm both your parts work on the layer's own x, past the norms. A connection calls what you hand it with the vectors to work on, "
        "normed where they should be: a small function has to use its own argument, and not the x outside.",
        {
            ATTEND: ATTEND.replace("lambda x:", "lambda _, x=x:"),
            THINK: THINK.replace("self.feed_forward)", "lambda _: self.feed_forward(x))"),
        },
    ),
    Misconception(
        "network_sees_the_unnormed",
        "EncoderLayer",
        "In pre-norm your network works on the layer's own x, past the norm. The connection calls what you hand it with the vectors to work on, "
        "normed where they should be.",
        {THINK: THINK.replace("self.feed_forward)", "lambda _: self.feed_forward(x))")},
    ),
    Misconception(
        "attention_sees_the_unnormed",
        "EncoderLayer",
        "In pre-norm your attention works on the layer's own x, past the norm. The connection calls what you hand it "
        "with the vectors to work on, normed where they should be: use those, all three times.",
        {ATTEND: ATTEND.replace("lambda x:", "lambda _, x=x:")},
    ),
    Misconception(
        "only_the_queries_normed",
        "EncoderLayer",
        "In pre-norm only your queries are normed; keys and values are the layer's own x. All three are the same "
        "vectors: those that the connection calls you with.",
        {ATTEND: ATTEND.replace("lambda x: self.self_attn(x,", "lambda y, x=x: self.self_attn(y,")},
    ),
    Misconception(
        "shortcut_from_the_normed",
        "EncoderLayer",
        "In pre-norm your shortcut around attention starts after the norm. It starts before: a token's own vector goes "
        "past the norm untouched, all the way through the stack.",
        {
            ATTEND: 'x = self.sublayer[0].norm(x) if self.norm == "pre" else x\n'
            "        attend = lambda x: self.self_attn(x, x, x, mask)\n"
            "        found = self.sublayer[0].dropout(attend(x))\n"
            '        x = x + found if self.norm == "pre" else self.sublayer[0](x, attend)'
        },
    ),
    Misconception(
        "mask_not_passed_on",
        "EncoderLayer",
        "Your layer takes the mask and does not pass it on to attention, so padding is read like words.",
        {ATTEND: ATTEND.replace(", mask", "")},
    ),
    Misconception(
        "mask_inverted",
        "EncoderLayer",
        "Your mask is turned round on its way. True means *may be attended to*, here as everywhere; torch's own layers "
        "mean the opposite by their `key_padding_mask`.",
        {ATTEND: ATTEND.replace(", mask", ", None if mask is None else ~mask")},
    ),
    Misconception(
        "mask_with_an_axis_for_the_heads",
        "EncoderLayer",
        "You give the mask an axis for the heads. Attention does that by itself: it takes `(B, 1, S)` or `(B, S, S)`, "
        "as the layer does.",
        {ATTEND: ATTEND.replace(", mask", ", None if mask is None else mask.unsqueeze(1)")},
    ),
    Misconception(
        "mask_of_keys_only",
        "EncoderLayer",
        "You keep one row of the mask for all queries. That is enough for padding, `(B, 1, S)`; a mask `(B, S, S)` lets "
        "each query see something else.",
        {ATTEND: ATTEND.replace(", mask", ", None if mask is None else mask[:, :1]")},
    ),
    Misconception(
        "mask_of_the_first_call",
        "EncoderLayer",
        "Your layer keeps the mask of its first call and uses it ever after. The next batch has other words and "
        "other padding.",
        {
            ATTEND: 'self.mask = getattr(self, "mask", mask)\n        '
            + ATTEND.replace(", mask", ", self.mask")
        },
    ),
    Misconception(
        "time_before_batch",
        "EncoderLayer",
        "You turn batch and time round for attention, as some of torch's layers want it. Ours take `(B, S, d_model)`: "
        "turned round, the first words of all sentences attend to each other.",
        {
            ATTEND: ATTEND.replace("lambda x: ", "lambda x: (lambda x: ").replace(
                "x, x, x, mask))", "x, x, x, mask))(x.transpose(0, 1)).transpose(0, 1))"
            )
        },
    ),
    Misconception(
        "weights_returned_too",
        "EncoderLayer",
        "Your layer returns a pair, as torch's attention does. A layer returns the tokens' vectors alone, so that the "
        "next layer can work on them; the weights are kept by the attention.",
        {THINK: THINK + ", self.self_attn"},
    ),
    # --- Encoder: what it holds
    Misconception(
        "final_norm_of_the_annotated_transformer",
        "Encoder",
        "This is the stack of a well-known annotated Transformer, and it differs in two things. It ends in a norm in post-norm, too, where the last "
        "layer has normed already; and that norm is another: its parameters are called `a_2` and `b_2`, its deviation divides by n − 1, and its ε is added "
        "after the root.",
        {FINAL: norm_by_std(OTHER_NAMES) + "\n        self.norm = Norm(layer.size)"},
    ),
    Misconception(
        "final_norm_by_std_always",
        "Encoder",
        "Your stack has a norm at the end in post-norm, too, where the last layer has normed already. And that norm divides by a deviation of n − 1, to "
        "which ε is added after the root; the variance divides by n, and ε stands under the root.",
        {FINAL: norm_by_std(OUR_NAMES) + "\n        self.norm = Norm(layer.size)"},
    ),
    Misconception(
        "final_norm_by_std",
        "Encoder",
        "Your final norm divides by a deviation of n − 1, to which ε is added after the root, as `x.std()` suggests. The variance divides by n, "
        "and ε stands under the root. The `LayerNorm` of day 11 may be imported.",
        {FINAL: norm_by_std(OUR_NAMES) + "\n        " + FINAL.replace("LayerNorm", "Norm")},
    ),
    Misconception(
        "layers_in_a_list",
        "Encoder",
        "Your layers stand in a plain Python list. The stack does not know that they are parts of it: no optimiser "
        "finds their weights, and `eval()` and `to()` do not reach them.",
        {LAYERS: "self.layers = list(clones(layer, n))"},
    ),
    Misconception(
        "one_layer_n_times",
        "Encoder",
        "Your n layers are one and the same object, named n times: they share all weights. Each layer has weights of "
        "its own.",
        {LAYERS: "self.layers = nn.ModuleList([layer] * n)"},
    ),
    Misconception(
        "original_among_the_copies",
        "Encoder",
        "Your first layer is not a copy but the very layer that was given. Whoever makes a second stack of it, or changes "
        "it, changes this one.",
        {LAYERS: "self.layers = nn.ModuleList([layer, *clones(layer, n - 1)])"},
    ),
    Misconception(
        "one_layer_too_few",
        "Encoder",
        "Your stack has one layer too few. The layer that is given is only the pattern: it is not among them.",
        {LAYERS: "self.layers = clones(layer, n - 1)"},
    ),
    Misconception(
        "one_layer_too_many",
        "Encoder",
        "Your stack has one layer too many: n copies and the layer that was given. That one is only the pattern.",
        {LAYERS: "self.layers = nn.ModuleList([layer, *clones(layer, n)])"},
    ),
    Misconception(
        "copies_started_anew",
        "Encoder",
        "Your copies lose the weights of the layer that they were made of. They are copies of it as it is; giving "
        "weights their first values is for whoever makes the whole model.",
        {
            LAYERS: LAYERS + "\n        for parameter in self.layers.parameters():\n"
            "            nn.init.constant_(parameter, 0.02)"
        },
    ),
    Misconception(
        "norm_of_torch",
        "Encoder",
        "Your final norm is torch's. It computes the same, but its parameters are called `weight` and `bias`; ours, of "
        "day 11, are `gain` and `bias`.",
        {FINAL: FINAL.replace("LayerNorm", "nn.LayerNorm")},
    ),
    Misconception(
        "final_norm_always",
        "Encoder",
        "Your stack has a norm at the end in post-norm, too. There the last layer ends in a norm already; the final "
        "norm is for pre-norm, where nothing else would norm the last sum.",
        {FINAL: "self.norm = LayerNorm(layer.size)"},
    ),
    Misconception(
        "final_norm_missing",
        "Encoder",
        "In pre-norm the norm at the end is missing. Each layer there ends in a sum that nobody has normed, and the "
        "last sum leaves the stack.",
        {FINAL: "self.norm = None"},
    ),
    Misconception(
        "final_norm_the_wrong_way_round",
        "Encoder",
        "Your final norm is there in post-norm and missing in pre-norm. Ask which of the two ends in a norm anyway.",
        {FINAL: FINAL.replace("==", "!=")},
    ),
    Misconception(
        "final_norm_not_used",
        "Encoder",
        "Your stack has its final norm, and never calls it.",
        {RETURN: "return x"},
    ),
    # --- Encoder: forward
    Misconception(
        "norm_after_every_layer",
        "Encoder",
        "In pre-norm you norm after every layer. Then nothing goes past the norms untouched, which pre-norm is for: its "
        "final norm comes once, at the end.",
        {
            LOOP: "for layer in self.layers:\n"
            "            x = layer(x, mask)\n"
            "            x = x if self.norm is None else self.norm(x)",
            RETURN: "return x",
        },
    ),
    Misconception(
        "norm_at_the_start",
        "Encoder",
        "In pre-norm your stack norms what comes in, not what goes out. Every layer norms what it reads by itself; what "
        "is left unnormed is the last sum.",
        {
            LOOP: "x = x if self.norm is None else self.norm(x)\n        " + LOOP,
            RETURN: "return x",
        },
    ),
    Misconception(
        "mask_not_given_to_the_layers",
        "Encoder",
        "Your stack takes the mask and gives it to none of its layers.",
        {LOOP: LOOP.replace(", mask", "")},
    ),
    Misconception(
        "mask_only_for_the_first",
        "Encoder",
        "Only your first layer gets the mask. Padding is hidden once, and read by all later layers.",
        {
            LOOP: "for i, layer in enumerate(self.layers):\n"
            "            x = layer(x, mask if i == 0 else None)"
        },
    ),
    Misconception(
        "layers_from_the_last",
        "Encoder",
        "You go through the layers from the last to the first.",
        {LOOP: LOOP.replace("self.layers", "reversed(self.layers)")},
    ),
    Misconception(
        "all_layers_read_the_input",
        "Encoder",
        "Every one of your layers works on what the stack was given, so only the last one counts. Each works on "
        "what the layer before it made.",
        {
            LOOP: LOOP.replace("for", "first = x\n        for", 1).replace(
                "layer(x,", "layer(first,"
            )
        },
    ),
    Misconception(
        "first_layer_again_and_again",
        "Encoder",
        "You go through your first layer n times. The others have weights that nobody uses.",
        {LOOP: LOOP.replace("x = layer(", "x = self.layers[0](")},
    ),
    Misconception(
        "return_in_the_loop",
        "Encoder",
        "Your stack returns after its first layer: the `return` stands inside the loop.",
        {LOOP: LOOP + "\n            return x if self.norm is None else self.norm(x)"},
    ),
    Misconception(
        "shortcut_around_every_layer",
        "Encoder",
        "You add to each layer's output what went into the layer. The shortcuts are inside the layer, around each part.",
        {LOOP: LOOP.replace("x = layer(", "x = x + layer(")},
    ),
    Misconception(
        "all_outputs_returned",
        "Encoder",
        "Your stack returns the outputs of all its layers. The next part of the model wants one tensor: what the last "
        "layer made.",
        {
            LOOP: LOOP.replace("for", "outputs = []\n        for", 1)
            + "\n            outputs.append(x)",
            RETURN: "return outputs",
        },
    ),
]
