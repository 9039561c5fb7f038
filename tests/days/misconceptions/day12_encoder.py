"""Day 12: what goes wrong where parts become a layer, and layers a stack."""

from course.judging.misconceptions import of

OUR_NAMES = ("gain", "bias")
OTHER_NAMES = ("a_2", "b_2")  # in a well-known annotated Transformer


def norm_by_std(names: tuple[str, str]) -> str:
    """A local class of a norm as it is widely copied: n − 1, and ε outside the root."""
    gain, bias = names
    return f"""
class Norm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.{gain} = nn.Parameter(torch.ones(features))
        self.{bias} = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.{gain} * (x - mean) / (std + self.eps) + self.{bias}
"""


def connections(norm_class: str, made: str = "Norm(size)", arrangement: str = "norm") -> dict[str, str]:
    """Connections of one's own, around another norm, that are post- or pre-norm as `arrangement` says."""
    own = f"""{norm_class}
class Connection(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = {made}
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        if {arrangement} == "pre":
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
"""
    return {"self.sublayer = _": f"{own}self.sublayer = _", "SublayerConnection(size, dropout, norm)": "Connection()"}


MISCONCEPTIONS = [
    *of(
        "EncoderLayer",
        {
            # --- EncoderLayer: what it holds
            "as_in_the_annotated_transformer": (
                "These are the connections of a well-known annotated Transformer, and they differ in two things. They are pre-norm whatever is asked for, where "
                "post-norm is the default; and their norm is another: its parameters are called `a_2` and `b_2`, its deviation divides by n − 1, and its ε is "
                "added after the root. Those of day 11 may be imported.",
                connections(norm_by_std(OTHER_NAMES), arrangement="'pre'"),
            ),
            "annotated_transformer_with_our_names": (
                "Your connections are pre-norm whatever is asked for, where post-norm is the default. And their norm divides by a deviation of n − 1, to which ε "
                "is added after the root; the variance divides by n, and ε stands under the root. Those of day 11 may be imported.",
                connections(norm_by_std(OUR_NAMES), arrangement="'pre'"),
            ),
            "norms_by_std": (
                "The norms in your connections divide by a deviation of n − 1, to which ε is added after the root, as `x.std()` suggests. The variance divides by "
                "n, and ε stands under the root. The `LayerNorm` of day 11 may be imported.",
                connections(norm_by_std(OUR_NAMES)),
            ),
            "norms_of_torch": (
                "The norms in your connections are torch's. They compute the same, but their parameters are called `weight` and `bias`; ours, of day 11, are "
                "`gain` and `bias`.",
                connections("", "nn.LayerNorm(size)"),
            ),
            "norms_and_dropout_of_its_own": (
                "Your layer has norms and a dropout of its own, as torch's has, and is post-norm whatever is asked for. Here they belong to two connections, under "
                "`sublayer`, which know both arrangements: `SublayerConnection` of day 11 may be imported.",
                {
                    "self.sublayer = ...": "self.norm1 = LayerNorm(size)\nself.norm2 = LayerNorm(size)\nself.dropout = nn.Dropout(dropout)",
                    "self.sublayer[0](x, lambda x: _)": "self.norm1(x + self.dropout(_))",
                    "self.sublayer[1](x, _)": "self.norm2(x + self.dropout(_(x)))",
                },
            ),
            "norm_not_taken": (
                "Your layer cannot be told where its norms go: it takes no `norm`. Here it does, and hands it to its connections; post-norm is the default.",
                {"norm='post'": "", "norm": "", "self.norm = norm": "pass"},
            ),
            "always_pre_norm": (
                "Your layer is pre-norm whatever it is told. Most later models are; the paper's is post-norm, and so is the default here.",
                {"clones(..., 2)": "clones(SublayerConnection(size, dropout, 'pre'), 2)"},
            ),
            "connections_in_a_list": (
                "Your connections stand in a plain Python list. The layer does not know that they are parts of it: their norms are never trained, saved or moved "
                "to a GPU, and `eval()` does not reach their dropout.",
                {"clones(..., 2)": "[SublayerConnection(size, dropout, norm) for _ in range(2)]"},
            ),
            "one_connection_for_both": (
                "Your two connections are one and the same object, named twice. The norm after attention and the norm after the network do different work, so each "
                "has a gain and a bias of its own.",
                {"clones(_, 2)": "nn.ModuleList([_] * 2)"},
            ),
            "three_connections": (
                "Your layer has three connections. An encoder layer has two parts, and so two connections; the third belongs to the decoder, which looks at the "
                "source as well.",
                {"clones(_, 2)": "clones(_, 3)"},
            ),
            "norm_is_a_layer_norm": (
                'Your layer\'s `norm` is a LayerNorm. The norms are in the connections already; `layer.norm` is the word that the layer was given, "post" or "pre", '
                "which the stack reads.",
                {"self.norm = norm": "self.norm = nn.LayerNorm(size) if norm == 'pre' else norm"},
            ),
            "norm_not_kept": (
                "Your layer does not keep the word `norm`. The stack asks the layer for it, to know whether it needs a norm at the end.",
                {"self.norm = norm": "pass"},
            ),
            "size_not_kept": (
                "Your layer does not keep `size`. The stack asks the layer for it, to know how wide its norm is.",
                {"self.size = size": "pass"},
            ),
            "parts_copied": (
                "Your layer works on copies of the parts that it was given. It should keep the parts themselves: whoever made them may want to share or watch "
                "them. Copies are made by the stack.",
                {"self.self_attn = self_attn": "self.self_attn = clones(self_attn, 1)[0]", "self.feed_forward = _": "self.feed_forward = clones(_, 1)[0]"},
            ),
            "pre_norm_is_the_default": (
                "Your layer is pre-norm where nothing is said. In this course post-norm is the default, because it is the paper's.",
                {"norm='post'": "norm='pre'"},
            ),
            # --- EncoderLayer: post and pre, dropout
            "always_post_norm": (
                "Your layer is post-norm whatever it is told: the word `norm` does not reach its connections.",
                {"norm": ""},
            ),
            "dropout_not_passed_on": (
                "Your layer never drops anything: the `dropout` that it is given does not reach its connections.",
                {"dropout": "0.0"},
            ),
            "dropout_fixed": (
                "Your layer's dropout is the paper's 0.1, whatever the caller asks for.",
                {"dropout": "0.1"},
            ),
            "attention_dropped_twice": (
                "What attention says is dropped twice: once by your layer, and once more by the connection, which does that by itself.",
                {"lambda x: _": "lambda x: self.sublayer[0].dropout(_)"},
            ),
            "network_dropped_twice": (
                "What the network says is dropped twice: once by your layer, and once more by the connection, which does that by itself.",
                {"self.feed_forward": "lambda x: self.sublayer[1].dropout(self.feed_forward(x))"},
            ),
            "dropout_in_evaluation": (
                "Something is dropped in evaluation mode, too. The function `dropout` drops unless it is told that training is over; a module `nn.Dropout` is told "
                "by `eval()`. The connections have one already.",
                {"lambda x: _": "lambda x: nn.functional.dropout(_, 0.0 if self.training else self.sublayer[0].dropout.p)"},
            ),
            # --- EncoderLayer: forward
            "attention_is_lost": (
                "What comes of attention is thrown away: the network works on the x that the layer was given. A connection does not change x, it returns something "
                "new, and that has to be kept.",
                {"x = _": "_"},
            ),
            "network_is_lost": (
                "What comes of the network is thrown away: you return what there was before it.",
                {"return _": "_\nreturn x"},
            ),
            "first_connection_twice": (
                "Both parts go through the first connection, so both share one norm, and the second is never used or trained.",
                {"self.sublayer[1]": "self.sublayer[0]"},
            ),
            "connections_swapped": (
                "Your connections have changed places: the first is attention's, the second the network's.",
                {"self.sublayer[0]": "self.sublayer[-1]", "self.sublayer[1]": "self.sublayer[-2]"},
            ),
            "network_first": (
                "Your network comes before attention. Look around first, then think.",
                {"return ...": "", "x = _": "x = self.sublayer[1](x, self.feed_forward)\nreturn _"},
            ),
            "no_connection_around_attention": (
                "Attention stands alone, without its connection: no shortcut, no norm, no dropout. A token would learn from the others and forget itself.",
                {"self.sublayer[0](x, lambda x: _)": "_"},
            ),
            "no_connection_around_network": (
                "The network stands alone, without its connection: no shortcut, no norm, no dropout.",
                {"self.sublayer[1](x, _)": "_(x)"},
            ),
            "attention_adds_x": (
                "What you hand to the first connection adds x to attention's output. The connection has the shortcut already, so x is counted twice.",
                {"lambda x: _": "lambda x: x + _"},
            ),
            "network_adds_x": (
                "What you hand to the second connection adds x to the network's output. The connection has the shortcut already, so x is counted twice.",
                {"self.feed_forward": "lambda x: x + self.feed_forward(x)"},
            ),
            "both_see_the_unnormed": (
                "In pre-norm both your parts work on the layer's own x, past the norms. A connection calls what you hand it with the vectors to work on, normed "
                "where they should be: a small function has to use its own argument, and not the x outside.",
                {"lambda x: _": "lambda _, x=x: _", "self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "network_sees_the_unnormed": (
                "In pre-norm your network works on the layer's own x, past the norm. The connection calls what you hand it with the vectors to work on, normed "
                "where they should be.",
                {"self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "attention_sees_the_unnormed": (
                "In pre-norm your attention works on the layer's own x, past the norm. The connection calls what you hand it with the vectors to work on, normed "
                "where they should be: use those, all three times.",
                {"lambda x: _": "lambda _, x=x: _"},
            ),
            "only_the_queries_normed": (
                "In pre-norm only your queries are normed; keys and values are the layer's own x. All three are the same vectors: those that the connection calls "
                "you with.",
                {"lambda x: ...": "lambda y, x=x: self.self_attn(y, x, x, mask)"},
            ),
            "shortcut_from_the_normed": (
                "In pre-norm your shortcut around attention starts after the norm. It starts before: a token's own vector goes past the norm untouched, all the "
                "way through the stack.",
                {
                    "x = self.sublayer[0](x, _)": "x = self.sublayer[0].norm(x) if self.norm == 'pre' else x\n"
                    "attend = _\n"
                    "found = self.sublayer[0].dropout(attend(x))\n"
                    "x = x + found if self.norm == 'pre' else self.sublayer[0](x, attend)"
                },
            ),
            "mask_not_passed_on": (
                "Your layer takes the mask and does not pass it on to attention, so padding is read like words.",
                {"mask": ""},
            ),
            "mask_inverted": (
                "Your mask is turned round on its way. True means *may be attended to*, here as everywhere; torch's own layers mean the opposite by their "
                "`key_padding_mask`.",
                {"mask": "None if mask is None else ~mask"},
            ),
            "mask_with_an_axis_for_the_heads": (
                "You give the mask an axis for the heads. Attention does that by itself: it takes `(B, 1, S)` or `(B, S, S)`, as the layer does.",
                {"mask": "None if mask is None else mask.unsqueeze(1)"},
            ),
            "mask_of_keys_only": (
                "You keep one row of the mask for all queries. That is enough for padding, `(B, 1, S)`; a mask `(B, S, S)` lets each query see something else.",
                {"mask": "None if mask is None else mask[:, :1]"},
            ),
            "mask_of_the_first_call": (
                "Your layer keeps the mask of its first call and uses it ever after. The next batch has other words and other padding.",
                {"x = ...": "self.mask = getattr(self, 'mask', mask)\nx = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, self.mask))"},
            ),
            "time_before_batch": (
                "You turn batch and time round for attention, as some of torch's layers want it. Ours take `(B, S, d_model)`: turned round, the first words of all "
                "sentences attend to each other.",
                {"lambda x: _": "lambda x: (lambda x: _)(x.transpose(0, 1)).transpose(0, 1)"},
            ),
            "weights_returned_too": (
                "Your layer returns a pair, as torch's attention does. A layer returns the tokens' vectors alone, so that the next layer can work on them; the "
                "weights are kept by the attention.",
                {"return _": "return _, self.self_attn"},
            ),
        },
    ),
    *of(
        "Encoder",
        {
            # --- Encoder: what it holds
            "final_norm_of_the_annotated_transformer": (
                "This is the stack of a well-known annotated Transformer, and it differs in two things. It ends in a norm in post-norm, too, where the last layer "
                "has normed already; and that norm is another: its parameters are called `a_2` and `b_2`, its deviation divides by n − 1, and its ε is added after "
                "the root.",
                {"self.norm = ...": norm_by_std(OTHER_NAMES) + "self.norm = Norm(layer.size)"},
            ),
            "final_norm_by_std_always": (
                "Your stack has a norm at the end in post-norm, too, where the last layer has normed already. And that norm divides by a deviation of n − 1, to "
                "which ε is added after the root; the variance divides by n, and ε stands under the root.",
                {"self.norm = ...": norm_by_std(OUR_NAMES) + "self.norm = Norm(layer.size)"},
            ),
            "final_norm_by_std": (
                "Your final norm divides by a deviation of n − 1, to which ε is added after the root, as `x.std()` suggests. The variance divides by n, and ε "
                "stands under the root. The `LayerNorm` of day 11 may be imported.",
                {"self.norm = _": norm_by_std(OUR_NAMES) + "self.norm = _", "LayerNorm": "Norm"},
            ),
            "layers_in_a_list": (
                "Your layers stand in a plain Python list. The stack does not know that they are parts of it: no optimiser finds their weights, and `eval()` and "
                "`to()` do not reach them.",
                {"clones(layer, n)": "list(clones(layer, n))"},
            ),
            "one_layer_n_times": (
                "Your n layers are one and the same object, named n times: they share all weights. Each layer has weights of its own.",
                {"clones(layer, n)": "nn.ModuleList([layer] * n)"},
            ),
            "original_among_the_copies": (
                "Your first layer is not a copy but the very layer that was given. Whoever makes a second stack of it, or changes it, changes this one.",
                {"clones(layer, n)": "nn.ModuleList([layer, *clones(layer, n - 1)])"},
            ),
            "one_layer_too_few": (
                "Your stack has one layer too few. The layer that is given is only the pattern: it is not among them.",
                {"clones(layer, n)": "clones(layer, n - 1)"},
            ),
            "one_layer_too_many": (
                "Your stack has one layer too many: n copies and the layer that was given. That one is only the pattern.",
                {"clones(layer, n)": "nn.ModuleList([layer, *clones(layer, n)])"},
            ),
            "copies_started_anew": (
                "Your copies lose the weights of the layer that they were made of. They are copies of it as it is; giving weights their first values is for "
                "whoever makes the whole model.",
                {"self.norm = _": "for parameter in self.layers.parameters():\n    nn.init.constant_(parameter, 0.02)\nself.norm = _"},
            ),
            "norm_of_torch": (
                "Your final norm is torch's. It computes the same, but its parameters are called `weight` and `bias`; ours, of day 11, are `gain` and `bias`.",
                {"LayerNorm(layer.size)": "nn.LayerNorm(layer.size)"},
            ),
            "final_norm_always": (
                "Your stack has a norm at the end in post-norm, too. There the last layer ends in a norm already; the final norm is for pre-norm, where nothing "
                "else would norm the last sum.",
                {"_ if ... else None": "_"},
            ),
            "final_norm_missing": (
                "In pre-norm the norm at the end is missing. Each layer there ends in a sum that nobody has normed, and the last sum leaves the stack.",
                {"self.norm = ...": "self.norm = None"},
            ),
            "final_norm_the_wrong_way_round": (
                "Your final norm is there in post-norm and missing in pre-norm. Ask which of the two ends in a norm anyway.",
                {"layer.norm == 'pre'": "layer.norm != 'pre'"},
            ),
            "final_norm_not_used": (
                "Your stack has its final norm, and never calls it.",
                {"return ...": "return x"},
            ),
            # --- Encoder: forward
            "norm_after_every_layer": (
                "In pre-norm you norm after every layer. Then nothing goes past the norms untouched, which pre-norm is for: its final norm comes once, at the end.",
                {"x = layer(x, mask)": "x = layer(x, mask)\nx = x if self.norm is None else self.norm(x)", "return ...": "return x"},
            ),
            "norm_at_the_start": (
                "In pre-norm your stack norms what comes in, not what goes out. Every layer norms what it reads by itself; what is left unnormed is the last sum.",
                {"for layer in self.layers:\n    ...": "", "return _": "x = _\nfor layer in self.layers:\n    x = layer(x, mask)\nreturn x"},
            ),
            "mask_not_given_to_the_layers": (
                "Your stack takes the mask and gives it to none of its layers.",
                {"layer(x, mask)": "layer(x)"},
            ),
            "mask_only_for_the_first": (
                "Only your first layer gets the mask. Padding is hidden once, and read by all later layers.",
                {"for layer in self.layers:\n    ...": "for i, layer in enumerate(self.layers):\n    x = layer(x, mask if i == 0 else None)"},
            ),
            "layers_from_the_last": (
                "You go through the layers from the last to the first.",
                {"self.layers": "reversed(self.layers)"},
            ),
            "all_layers_read_the_input": (
                "Every one of your layers works on what the stack was given, so only the last one counts. Each works on what the layer before it made.",
                {"for layer in self.layers:\n    ...": "first = x\nfor layer in self.layers:\n    x = layer(first, mask)"},
            ),
            "first_layer_again_and_again": (
                "You go through your first layer n times. The others have weights that nobody uses.",
                {"layer(x, mask)": "self.layers[0](x, mask)"},
            ),
            "return_in_the_loop": (
                "Your stack returns after its first layer: the `return` stands inside the loop.",
                {"x = layer(x, mask)": "x = layer(x, mask)\nreturn x if self.norm is None else self.norm(x)"},
            ),
            "shortcut_around_every_layer": (
                "You add to each layer's output what went into the layer. The shortcuts are inside the layer, around each part.",
                {"layer(x, mask)": "x + layer(x, mask)"},
            ),
            "all_outputs_returned": (
                "Your stack returns the outputs of all its layers. The next part of the model wants one tensor: what the last layer made.",
                {"for layer in self.layers:\n    _": "outputs = []\nfor layer in self.layers:\n    _\n    outputs.append(x)", "return ...": "return outputs"},
            ),
        },
    ),
]
