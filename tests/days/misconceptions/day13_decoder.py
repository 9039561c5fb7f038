"""Day 13: what goes wrong where a layer must not look ahead, and must look at the source."""

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
        "subsequent_mask",
        {
            # --- subsequent_mask
            "diagonal_hidden": (
                "Your mask hides a position from itself. It may look at itself: what stands there is the token that was said last, and the one to predict is the "
                "next. Besides, the first position would have nothing to look at.",
                {"_.tril()": "_.tril(-1)"},
            ),
            "one_ahead": (
                "Your mask lets each position look one ahead, and what stands there is just the token that it is to predict.",
                {"_.tril()": "_.tril(1)"},
            ),
            "upper_triangle": (
                "Your mask shows each position itself and the future, and hides its past. Rows are queries: row 0 may see only position 0, the last row everything.",
                {"_.tril": "_.triu"},
            ),
            "true_is_hidden": (
                "Your mask is True where a position may *not* look, as torch's own layers have it. Here, as in torch's `scaled_dot_product_attention`, True means "
                "*may be attended to*.",
                {"_.tril()": "_.triu(1)"},
            ),
            "mask_to_be_added": (
                "Your mask holds 0 and −∞, to be added to the scores. Here masks are boolean: attention itself knows how to hide a key, and two booleans can be "
                "joined by `&`.",
                {"return ...": "return torch.full((1, size, size), float('-inf')).triu(1)"},
            ),
            "mask_of_numbers": (
                "Your mask holds ones and zeros as real numbers. Masks are boolean here.",
                {"torch.bool": "torch.float32"},
            ),
            "mask_of_integers": (
                "Your mask holds ones and zeros as integers. Masks are boolean here: `~` and `masked_fill` mean something else, or nothing, with integers.",
                {"torch.bool": "torch.long"},
            ),
            "no_axis_for_the_batch": (
                "Your mask has no axis for the batch. With its first axis of length 1 it lines up with `(B, T, T)` and with a padding mask `(B, 1, T)`, and "
                "attention can put an axis for the heads behind it.",
                {"1": ""},
            ),
            "an_axis_for_the_heads": (
                "Your mask has an axis for the heads already. Attention puts it there by itself; what it wants is `(1, T, T)`.",
                {"return ...": "return torch.ones(1, 1, size, size, dtype=torch.bool).tril()"},
            ),
            "everything_visible": (
                "Your mask forbids nothing. With it a decoder learns to copy the next token from where it stands, and can do nothing once it has to find it itself.",
                {"_.tril()": "_"},
            ),
        },
    ),
    *of(
        "DecoderLayer",
        {
            # --- DecoderLayer: what it holds
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
                "Your layer has norms and a dropout of its own, as torch's has, and is post-norm whatever is asked for. Here they belong to three connections, "
                "under `sublayer`, which know both arrangements: `SublayerConnection` of day 11 may be imported.",
                {
                    "self.sublayer = ...": "self.norm1 = LayerNorm(size)\n"
                    "self.norm2 = LayerNorm(size)\n"
                    "self.norm3 = LayerNorm(size)\n"
                    "self.dropout = nn.Dropout(dropout)",
                    "self.sublayer[0](x, lambda x: _)": "self.norm1(x + self.dropout(_))",
                    "self.sublayer[1](x, lambda x: _)": "self.norm2(x + self.dropout(_))",
                    "self.sublayer[2](x, _)": "self.norm3(x + self.dropout(_(x)))",
                },
            ),
            "norm_not_taken": (
                "Your layer cannot be told where its norms go: it takes no `norm`. Here it does, and hands it to its connections; post-norm is the default.",
                {"norm='post'": "", "norm": "", "self.norm = norm": "pass"},
            ),
            "always_pre_norm": (
                "Your layer is pre-norm whatever it is told. Most later models are; the paper's is post-norm, and so is the default here.",
                {"clones(..., 3)": "clones(SublayerConnection(size, dropout, 'pre'), 3)"},
            ),
            "two_connections": (
                "Your layer has two connections, as an encoder layer has. A decoder layer has three parts, each with a shortcut and a norm of its own.",
                {"clones(_, 3)": "clones(_, 2)", "self.sublayer[2]": "self.sublayer[1]"},
            ),
            "connections_in_a_list": (
                "Your connections stand in a plain Python list. The layer does not know that they are parts of it: their norms are never trained, saved or moved "
                "to a GPU, and `eval()` does not reach their dropout.",
                {"clones(..., 3)": "[SublayerConnection(size, dropout, norm) for _ in range(3)]"},
            ),
            "one_connection_for_all": (
                "Your three connections are one and the same object, named three times. Each norm does work of its own, and has a gain and a bias of its own.",
                {"clones(_, 3)": "nn.ModuleList([_] * 3)"},
            ),
            "one_attention_for_both": (
                "Your layer keeps one attention for both jobs: what it looks for in its own past and in the source are different things, with projections of their "
                "own.",
                {"self.src_attn = src_attn": "self.src_attn = self_attn"},
            ),
            "attentions_swapped": (
                "Your two attentions have changed places: you keep as `self_attn` what was given for the source, and the other way round.",
                {"self.self_attn = self_attn": "self.self_attn = src_attn", "self.src_attn = src_attn": "self.src_attn = self_attn"},
            ),
            "norm_is_a_layer_norm": (
                'Your layer\'s `norm` is a LayerNorm. The norms are in the connections already; `layer.norm` is the word that the layer was given, "post" or "pre", '
                "which the stack reads.",
                {"self.norm = norm": "self.norm = nn.LayerNorm(size) if norm == 'pre' else norm"},
            ),
            "size_not_kept": (
                "Your layer does not keep `size`. The stack asks the layer for it, to know how wide its norm is.",
                {"self.size = size": "pass"},
            ),
            "norm_not_kept": (
                "Your layer does not keep the word `norm`. The stack asks the layer for it, to know whether it needs a norm at the end.",
                {"self.norm = norm": "pass"},
            ),
            "always_post_norm": (
                "Your layer is post-norm whatever it is told: the word `norm` does not reach its connections.",
                {"norm": ""},
            ),
            "pre_norm_is_the_default": (
                "Your layer is pre-norm where nothing is said. In this course post-norm is the default, because it is the paper's.",
                {"norm='post'": "norm='pre'"},
            ),
            "dropout_not_passed_on": (
                "Your layer never drops anything: the `dropout` that it is given does not reach its connections.",
                {"dropout": "0.0"},
            ),
            "source_dropped_twice": (
                "What attention finds in the source is dropped twice: once by your layer, and once more by the connection, which does that by itself.",
                {"2: lambda x: _": "lambda x: self.sublayer[1].dropout(_)"},
            ),
            # --- DecoderLayer: memory
            "memory_normed_again": (
                "In pre-norm you norm the memory, too. It comes from the end of the encoder, whose final norm has seen to that; the connection's norm is for the "
                "target's own vectors.",
                {
                    "x = _[1](x, ...)": "normed = _[1].norm(memory) if self.norm == 'pre' else memory\n"
                    "x = _[1](x, lambda x: self.src_attn(x, normed, normed, src_mask))"
                },
            ),
            "memory_detached": (
                "Your output is right, but no gradient flows back into the memory: it is detached on the way. The memory is where the encoder learns from; without "
                "that gradient it never would.",
                {"2: lambda x: ...": "lambda x: self.src_attn(x, memory.detach(), memory.detach(), src_mask)"},
            ),
            "values_from_the_target": (
                "Your attention to the source takes its values from the target: it looks into the source and brings back its own words. What is handed over "
                "belongs to what was found, so keys and values come together.",
                {"2: lambda x: ...": "lambda x: self.src_attn(x, memory, x, src_mask)"},
            ),
            "queries_from_the_source": (
                "In your attention to the source it is the source that asks and the target that answers. The decoder asks: queries come from it, keys and values "
                "from the memory.",
                {"2: lambda x: ...": "lambda x: self.src_attn(memory, x, x, src_mask)"},
            ),
            "source_never_read": (
                "Your second attention looks at the target again, and the source is never read. Such a decoder writes well and translates nothing.",
                {"2: lambda x: ...": "lambda x: self.src_attn(x, x, x, tgt_mask)"},
            ),
            "own_attention_reads_the_source": (
                "Your first attention reads the source as well. It is for the target's own past: query, key and value are all the target's.",
                {"self.self_attn(x, x, x, tgt_mask)": "self.self_attn(x, memory, memory, src_mask)"},
            ),
            "own_attention_used_again": (
                "You look at the source with `self_attn`, and `src_attn` is never used. The two look for different things, with projections of their own.",
                {"self.src_attn": "self.self_attn"},
            ),
            # --- DecoderLayer: masks
            "masks_in_torchs_order": (
                "Your layer takes the target's mask before the source's, as torch's own decoder layer does. Here `src_mask` comes first, as the source does.",
                {"forward(): src_mask=None": "masks=None", "forward(): tgt_mask=None": "src_mask=None", "forward(): masks=None": "tgt_mask=None"},
            ),
            "masks_swapped": (
                "Your masks have changed places: what is to hide the future stands at the source, and what hides the source's padding stands at the target. Where "
                "both are equally long nothing complains.",
                {
                    "x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))\n"
                    "x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))": "x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, src_mask))\n"
                    "x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, tgt_mask))"
                },
            ),
            "target_mask_for_the_source": (
                "You hide parts of the source by the target's mask. The source is there as a whole: the first word of a translation may need its last.",
                {"src_mask": "tgt_mask"},
            ),
            "source_mask_for_the_target": (
                "You hide parts of the target by the source's mask, and nothing hides the future.",
                {"tgt_mask": "src_mask"},
            ),
            "future_not_hidden_from_the_source": (
                "Where lengths allow it you hide the later words of the *source*, too. Only the target has a future; the source is there as a whole.",
                {
                    "src_mask": "both",
                    "1: x = _": "x = _\n"
                    "both = (src_mask if tgt_mask is None else tgt_mask if src_mask is None else src_mask & tgt_mask) if x.size(1) == memory.size(1) else src_mask",
                },
            ),
            "source_mask_not_passed_on": (
                "Your layer takes `src_mask` and does not pass it on, so the source's padding is read like words.",
                {"src_mask": ""},
            ),
            "target_mask_not_passed_on": (
                "Your layer takes `tgt_mask` and does not pass it on, so every token sees the ones that it is to predict. The training loss will be wonderful, and "
                "the translations will be nonsense.",
                {"tgt_mask": ""},
            ),
            "mask_made_by_the_layer": (
                "Your layer makes its own mask and does not look at the one that it is given, which may hide more: padding, for one. Whoever calls decides what is "
                "hidden.",
                {"tgt_mask": "torch.ones(1, x.size(1), x.size(1), device=x.device).tril() > 0"},
            ),
            "mask_made_where_none_is_given": (
                "Without a `tgt_mask` your layer hides the future all the same. None means that nothing is hidden: whoever calls decides.",
                {"tgt_mask": "torch.ones(1, x.size(1), x.size(1), device=x.device).tril() > 0 if tgt_mask is None else tgt_mask"},
            ),
            "target_mask_inverted": (
                "Your `tgt_mask` is turned round on its way to attention. True means *may be attended to*, here as everywhere; torch's own layers mean the "
                "opposite.",
                {"tgt_mask": "None if tgt_mask is None else ~tgt_mask"},
            ),
            "target_mask_of_the_first_call": (
                "Your layer keeps the `tgt_mask` of its first call and uses it ever after. The next batch has another length and other padding.",
                {"1: x = ...": "self.mask = getattr(self, 'mask', tgt_mask)\nx = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, self.mask))"},
            ),
            # --- DecoderLayer: order and connections
            "source_first": (
                "Your layer looks at the source before it looks at its own past. First the target sorts itself out, then it asks the source.",
                {
                    "self.self_attn(x, x, x, tgt_mask)": "self.src_attn(x, memory, memory, src_mask)",
                    "2: lambda x: ...": "lambda x: self.self_attn(x, x, x, tgt_mask)",
                },
            ),
            "network_before_the_source": (
                "Your network comes between the two attentions. It comes last, when both have brought what they found.",
                {"self.feed_forward": "lambda x: self.src_attn(x, memory, memory, src_mask)", "2: lambda x: ...": "self.feed_forward"},
            ),
            "own_past_is_lost": (
                "What comes of the first attention is thrown away. A connection does not change x, it returns something new, and that has to be kept.",
                {"1: x = _": "_"},
            ),
            "source_is_lost": (
                "What comes of the attention to the source is thrown away. A connection does not change x, it returns something new, and that has to be kept.",
                {"2: x = _": "_"},
            ),
            "first_connection_twice": (
                "Both attentions go through the first connection: they share a norm, and another is never used or trained.",
                {"self.sublayer[1]": "self.sublayer[0]"},
            ),
            "second_connection_twice": (
                "The source and the network go through the same connection, the second: they share a norm, and the third is never used or trained.",
                {"self.sublayer[2]": "self.sublayer[1]"},
            ),
            "source_side_by_side": (
                "Your two attentions work side by side: the one to the source asks with the x that the layer was given. It asks with what the first attention has "
                "made of it.",
                {"1: x = _": "first = x\nx = _", "2: lambda x: _": "lambda _, x=first: _"},
            ),
            "no_connection_around_the_source": (
                "The attention to the source stands alone, without its connection. A token would learn from the source and forget what it has said.",
                {"self.sublayer[1](x, lambda x: _)": "_"},
            ),
            "source_adds_x": (
                "What you hand to the second connection adds x to what attention finds. The connection has the shortcut already, so x is counted twice.",
                {"2: lambda x: _": "lambda x: x + _"},
            ),
            "all_three_see_the_unnormed": (
                "In pre-norm all three parts work on the layer's own x, past the norms. A connection calls what you hand it with the vectors to work on, normed "
                "where they should be: a small function has to use its own argument, and not the x outside.",
                {"1: lambda x: _": "lambda _, x=x: _", "2: lambda x: _": "lambda _, x=x: _", "self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "both_attentions_see_the_unnormed": (
                "In pre-norm both attentions ask with the layer's own x, past the norms. A connection calls what you hand it with the vectors to work on, normed "
                "where they should be: a small function has to use its own argument, and not the x outside.",
                {"1: lambda x: _": "lambda _, x=x: _", "2: lambda x: _": "lambda _, x=x: _"},
            ),
            "network_sees_the_unnormed": (
                "In pre-norm your network works on the layer's own x, past the norm. The connection calls what you hand it with the vectors to work on, normed "
                "where they should be.",
                {"self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "own_past_unnormed": (
                "In pre-norm your first attention works on the layer's own x, past the norm. The connection calls what you hand it with the vectors to work on: "
                "use those, all three times.",
                {"1: lambda x: _": "lambda _, x=x: _"},
            ),
            "only_the_queries_normed": (
                "In pre-norm only the queries of your first attention are normed; keys and values are the layer's own x. All three are the same vectors: those "
                "that the connection calls you with.",
                {"1: lambda x: ...": "lambda y, x=x: self.self_attn(y, x, x, tgt_mask)"},
            ),
            "source_asked_by_the_unnormed": (
                "In pre-norm your queries to the source are the layer's own x, past the norm. The connection calls what you hand it with the vectors that should "
                "ask.",
                {"2: lambda x: _": "lambda _, x=x: _"},
            ),
            "memory_returned_too": (
                "Your layer returns the memory as well. The memory stays as it is for all layers; what is returned is the target's vectors alone.",
                {"return _": "return _, memory"},
            ),
        },
    ),
    *of(
        "Decoder",
        {
            # --- Decoder
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
            "final_norm_not_used": (
                "Your stack has its final norm, and never calls it.",
                {"return ...": "return x"},
            ),
            "memory_normed_by_the_stack": (
                "In pre-norm your stack norms the memory. The memory comes from the end of the encoder, which has a final norm of its own; yours is for what "
                "leaves the decoder.",
                {"for layer in self.layers:\n    _": "memory = memory if self.norm is None else self.norm(memory)\nfor layer in self.layers:\n    _"},
            ),
            "target_mask_only_for_the_first": (
                "Only your first layer gets `tgt_mask`. The second looks into the future, and one leak is enough.",
                {
                    "for layer in self.layers:\n    ...": "for i, layer in enumerate(self.layers):\n"
                    "    x = layer(x, memory, src_mask, tgt_mask if i == 0 else None)"
                },
            ),
            "masks_swapped_by_the_stack": (
                "Your stack hands the layers their masks in the wrong order: a layer wants the source's first.",
                {"layer(x, memory, src_mask, tgt_mask)": "layer(x, memory, tgt_mask, src_mask)"},
            ),
            "source_mask_not_given_to_the_layers": (
                "Your stack does not give `src_mask` to its layers, so the source's padding is read like words.",
                {"src_mask": "None"},
            ),
            "target_mask_not_given_to_the_layers": (
                "Your stack does not give `tgt_mask` to its layers, so every token sees the ones that it is to predict.",
                {"tgt_mask": ""},
            ),
            "memory_from_the_layer_before": (
                "From the second layer on your memory is what the layer before has made. Every layer looks at the same memory: what the encoder made of the source.",
                {"x = _": "x = _\nmemory = x"},
            ),
            "memory_for_the_first_only": (
                "Only your first layer looks at the source; to the others the target itself is given as memory.",
                {"for layer in self.layers:\n    x = _": "for i, layer in enumerate(self.layers):\n    x = _ if i == 0 else layer(x, x, None, tgt_mask)"},
            ),
            "target_and_memory_swapped": (
                "Your stack hands the layers memory and target in the wrong order: the target comes first.",
                {"layer(x, memory, src_mask, tgt_mask)": "layer(memory, x, src_mask, tgt_mask)"},
            ),
            "layers_from_the_last": (
                "You go through the layers from the last to the first.",
                {"self.layers": "reversed(self.layers)"},
            ),
            "all_layers_read_the_input": (
                "Every one of your layers works on what the stack was given, so only the last one counts. Each works on what the layer before it made.",
                {"for layer in self.layers:\n    ...": "first = x\nfor layer in self.layers:\n    x = layer(first, memory, src_mask, tgt_mask)"},
            ),
            "return_in_the_loop": (
                "Your stack returns after its first layer: the `return` stands inside the loop.",
                {"x = _": "x = _\nreturn x if self.norm is None else self.norm(x)"},
            ),
        },
    ),
]
