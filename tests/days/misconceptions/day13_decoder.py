"""Day 13: what goes wrong where a layer must not look ahead, and must look at the source."""

from course.judging.misconceptions import Misconception

TRIANGLE = "torch.ones(1, size, size, dtype=torch.bool).tril()"

CONNECTIONS = "self.sublayer = clones(SublayerConnection(size, dropout, norm), 3)"
OWN = "x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))"
SOURCE = "x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))"
THINK = "return self.sublayer[2](x, self.feed_forward)"
MASKS = """src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,"""
MASKS_SWAPPED = "tgt_mask: Tensor | None = None, src_mask: Tensor | None = None,"

LAYERS = "self.layers = clones(layer, n)"
FINAL = 'self.norm = LayerNorm(layer.size) if layer.norm == "pre" else None'
LOOP = "for layer in self.layers:\n            x = layer(x, memory, src_mask, tgt_mask)"
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


BOTH = "(src_mask if tgt_mask is None else tgt_mask if src_mask is None else src_mask & tgt_mask)"

MISCONCEPTIONS = [
    # --- subsequent_mask
    Misconception(
        "diagonal_hidden",
        "subsequent_mask",
        "Your mask hides a position from itself. It may look at itself: what stands there is the token that was said "
        "last, and the one to predict is the next. Besides, the first position would have nothing to look at.",
        {".tril()": ".tril(-1)"},
    ),
    Misconception(
        "one_ahead",
        "subsequent_mask",
        "Your mask lets each position look one ahead, and what stands there is just the token that it is to predict.",
        {".tril()": ".tril(1)"},
    ),
    Misconception(
        "upper_triangle",
        "subsequent_mask",
        "Your mask shows each position itself and the future, and hides its past. Rows are queries: row 0 may see only "
        "position 0, the last row everything.",
        {".tril()": ".triu()"},
    ),
    Misconception(
        "true_is_hidden",
        "subsequent_mask",
        "Your mask is True where a position may *not* look, as torch's own layers have it. Here, as in torch's "
        "`scaled_dot_product_attention`, True means *may be attended to*.",
        {".tril()": ".triu(1)"},
    ),
    Misconception(
        "mask_to_be_added",
        "subsequent_mask",
        "Your mask holds 0 and −∞, to be added to the scores. Here masks are boolean: attention itself knows how to "
        "hide a key, and two booleans can be joined by `&`.",
        {TRIANGLE: 'torch.full((1, size, size), float("-inf")).triu(1)'},
    ),
    Misconception(
        "mask_of_numbers",
        "subsequent_mask",
        "Your mask holds ones and zeros as real numbers. Masks are boolean here.",
        {"dtype=torch.bool": "dtype=torch.float32"},
    ),
    Misconception(
        "mask_of_integers",
        "subsequent_mask",
        "Your mask holds ones and zeros as integers. Masks are boolean here: `~` and `masked_fill` mean something else, "
        "or nothing, with integers.",
        {"dtype=torch.bool": "dtype=torch.long"},
    ),
    Misconception(
        "no_axis_for_the_batch",
        "subsequent_mask",
        "Your mask has no axis for the batch. With its first axis of length 1 it lines up with `(B, T, T)` and with a "
        "padding mask `(B, 1, T)`, and attention can put an axis for the heads behind it.",
        {"torch.ones(1, size, size,": "torch.ones(size, size,"},
    ),
    Misconception(
        "an_axis_for_the_heads",
        "subsequent_mask",
        "Your mask has an axis for the heads already. Attention puts it there by itself; what it wants is `(1, T, T)`.",
        {"torch.ones(1, size, size,": "torch.ones(1, 1, size, size,"},
    ),
    Misconception(
        "everything_visible",
        "subsequent_mask",
        "Your mask forbids nothing. With it a decoder learns to copy the next token from where it stands, and can do "
        "nothing once it has to find it itself.",
        {".tril()": ""},
    ),
    # --- DecoderLayer: what it holds
    Misconception(
        "as_in_the_annotated_transformer",
        "DecoderLayer",
        "These are the connections of a well-known annotated Transformer, and they differ in two things. They are pre-norm whatever is asked for, "
        "where post-norm is the default; and their norm is another: its parameters are called `a_2` and `b_2`, its deviation divides by n − 1, and "
        "its ε is added after the root. Those of day 11 may be imported.",
        connections(norm_by_std(OTHER_NAMES), arrangement='"pre"'),
    ),
    Misconception(
        "annotated_transformer_with_our_names",
        "DecoderLayer",
        "Your connections are pre-norm whatever is asked for, where post-norm is the default. And their norm divides by a deviation of n − 1, to "
        "which ε is added after the root; the variance divides by n, and ε stands under the root. Those of day 11 may be imported.",
        connections(norm_by_std(OUR_NAMES), arrangement='"pre"'),
    ),
    Misconception(
        "norms_by_std",
        "DecoderLayer",
        "The norms in your connections divide by a deviation of n − 1, to which ε is added after the root, as `x.std()` suggests. The variance "
        "divides by n, and ε stands under the root. The `LayerNorm` of day 11 may be imported.",
        connections(norm_by_std(OUR_NAMES)),
    ),
    Misconception(
        "norms_of_torch",
        "DecoderLayer",
        "The norms in your connections are torch's. They compute the same, but their parameters are called `weight` and `bias`; ours, of day 11, are "
        "`gain` and `bias`.",
        connections("", "nn.LayerNorm(size)"),
    ),
    Misconception(
        "norms_and_dropout_of_its_own",
        "DecoderLayer",
        "Your layer has norms and a dropout of its own, as torch's has, and is post-norm whatever is asked for. Here they belong to three connections, under "
        "`sublayer`, which know both arrangements: `SublayerConnection` of day 11 may be imported.",
        {
            CONNECTIONS: "self.norm1 = LayerNorm(size)\n        self.norm2 = LayerNorm(size)\n"
            "        self.norm3 = LayerNorm(size)\n        self.dropout = nn.Dropout(dropout)",
            OWN: "x = self.norm1(x + self.dropout(self.self_attn(x, x, x, tgt_mask)))",
            SOURCE: "x = self.norm2(x + self.dropout(self.src_attn(x, memory, memory, src_mask)))",
            THINK: "return self.norm3(x + self.dropout(self.feed_forward(x)))",
        },
    ),
    Misconception(
        "norm_not_taken",
        "DecoderLayer",
        "Your layer cannot be told where its norms go: it takes no `norm`. Here it does, and hands it to its connections; post-norm is the default.",
        {
            '        norm: str = "post",\n': "",
            CONNECTIONS: CONNECTIONS.replace(", norm)", ")"),
            "self.norm = norm": "pass",
        },
    ),
    Misconception(
        "always_pre_norm",
        "DecoderLayer",
        "Your layer is pre-norm whatever it is told. Most later models are; the paper's is post-norm, and so is the default here.",
        {CONNECTIONS: CONNECTIONS.replace("norm)", '"pre")')},
    ),
    Misconception(
        "two_connections",
        "DecoderLayer",
        "Your layer has two connections, as an encoder layer has. A decoder layer has three parts, each with a shortcut "
        "and a norm of its own.",
        {CONNECTIONS: CONNECTIONS.replace("3)", "2)"), "self.sublayer[2]": "self.sublayer[1]"},
    ),
    Misconception(
        "connections_in_a_list",
        "DecoderLayer",
        "Your connections stand in a plain Python list. The layer does not know that they are parts of it: their norms "
        "are never trained, saved or moved to a GPU, and `eval()` does not reach their dropout.",
        {
            CONNECTIONS: "self.sublayer = [SublayerConnection(size, dropout, norm) for _ in range(3)]"
        },
    ),
    Misconception(
        "one_connection_for_all",
        "DecoderLayer",
        "Your three connections are one and the same object, named three times. Each norm does work of its own, and has "
        "a gain and a bias of its own.",
        {
            CONNECTIONS: "self.sublayer = nn.ModuleList([SublayerConnection(size, dropout, norm)] * 3)"
        },
    ),
    Misconception(
        "one_attention_for_both",
        "DecoderLayer",
        "Your layer keeps one attention for both jobs: what it looks for in its own past and in the source are "
        "different things, with projections of their own.",
        {"self.src_attn = src_attn": "self.src_attn = self_attn"},
    ),
    Misconception(
        "attentions_swapped",
        "DecoderLayer",
        "Your two attentions have changed places: you keep as `self_attn` what was given for the source, and the other "
        "way round.",
        {
            "self.self_attn = self_attn": "self.self_attn = src_attn",
            "self.src_attn = src_attn": "self.src_attn = self_attn",
        },
    ),
    Misconception(
        "norm_is_a_layer_norm",
        "DecoderLayer",
        "Your layer's `norm` is a LayerNorm. The norms are in the connections already; `layer.norm` is the word that "
        'the layer was given, "post" or "pre", which the stack reads.',
        {"self.norm = norm": 'self.norm = nn.LayerNorm(size) if norm == "pre" else norm'},
    ),
    Misconception(
        "size_not_kept",
        "DecoderLayer",
        "Your layer does not keep `size`. The stack asks the layer for it, to know how wide its norm is.",
        {"self.size = size": "pass"},
    ),
    Misconception(
        "norm_not_kept",
        "DecoderLayer",
        "Your layer does not keep the word `norm`. The stack asks the layer for it, to know whether it needs a norm at "
        "the end.",
        {"self.norm = norm": "pass"},
    ),
    Misconception(
        "always_post_norm",
        "DecoderLayer",
        "Your layer is post-norm whatever it is told: the word `norm` does not reach its connections.",
        {CONNECTIONS: CONNECTIONS.replace(", norm)", ")")},
    ),
    Misconception(
        "pre_norm_is_the_default",
        "DecoderLayer",
        "Your layer is pre-norm where nothing is said. In this course post-norm is the default, because it is the paper's.",
        {'norm: str = "post"': 'norm: str = "pre"'},
    ),
    Misconception(
        "dropout_not_passed_on",
        "DecoderLayer",
        "Your layer never drops anything: the `dropout` that it is given does not reach its connections.",
        {CONNECTIONS: CONNECTIONS.replace("dropout", "0.0")},
    ),
    Misconception(
        "source_dropped_twice",
        "DecoderLayer",
        "What attention finds in the source is dropped twice: once by your layer, and once more by the connection, "
        "which does that by itself.",
        {
            SOURCE: SOURCE.replace(
                "self.src_attn(x, memory, memory, src_mask)",
                "self.sublayer[1].dropout(self.src_attn(x, memory, memory, src_mask))",
            )
        },
    ),
    # --- DecoderLayer: memory
    Misconception(
        "memory_normed_again",
        "DecoderLayer",
        "In pre-norm you norm the memory, too. It comes from the end of the encoder, whose final norm has seen to that; "
        "the connection's norm is for the target's own vectors.",
        {
            SOURCE: 'normed = self.sublayer[1].norm(memory) if self.norm == "pre" else memory\n        '
            + SOURCE.replace("x, memory, memory,", "x, normed, normed,")
        },
    ),
    Misconception(
        "memory_detached",
        "DecoderLayer",
        "Your output is right, but no gradient flows back into the memory: it is detached on the way. The memory is where the "
        "encoder learns from; without that gradient it never would.",
        {SOURCE: SOURCE.replace("memory, memory,", "memory.detach(), memory.detach(),")},
    ),
    Misconception(
        "values_from_the_target",
        "DecoderLayer",
        "Your attention to the source takes its values from the target: it looks into the source and brings back its own "
        "words. What is handed over belongs to what was found, so keys and values come together.",
        {SOURCE: SOURCE.replace("x, memory, memory,", "x, memory, x,")},
    ),
    Misconception(
        "queries_from_the_source",
        "DecoderLayer",
        "In your attention to the source it is the source that asks and the target that answers. The decoder asks: "
        "queries come from it, keys and values from the memory.",
        {SOURCE: SOURCE.replace("x, memory, memory,", "memory, x, x,")},
    ),
    Misconception(
        "source_never_read",
        "DecoderLayer",
        "Your second attention looks at the target again, and the source is never read. Such a decoder writes well and "
        "translates nothing.",
        {SOURCE: SOURCE.replace("x, memory, memory, src_mask", "x, x, x, tgt_mask")},
    ),
    Misconception(
        "own_attention_reads_the_source",
        "DecoderLayer",
        "Your first attention reads the source as well. It is for the target's own past: query, key and value are all "
        "the target's.",
        {OWN: OWN.replace("x, x, x, tgt_mask", "x, memory, memory, src_mask")},
    ),
    Misconception(
        "own_attention_used_again",
        "DecoderLayer",
        "You look at the source with `self_attn`, and `src_attn` is never used. The two look for different things, with "
        "projections of their own.",
        {SOURCE: SOURCE.replace("self.src_attn", "self.self_attn")},
    ),
    # --- DecoderLayer: masks
    Misconception(
        "masks_in_torchs_order",
        "DecoderLayer",
        "Your layer takes the target's mask before the source's, as torch's own decoder layer does. Here `src_mask` comes "
        "first, as the source does.",
        {MASKS: MASKS_SWAPPED},
    ),
    Misconception(
        "masks_swapped",
        "DecoderLayer",
        "Your masks have changed places: what is to hide the future stands at the source, and what hides the source's "
        "padding stands at the target. Where both are equally long nothing complains.",
        {
            OWN: OWN.replace("tgt_mask", "src_mask"),
            SOURCE: SOURCE.replace("src_mask", "tgt_mask"),
        },
    ),
    Misconception(
        "target_mask_for_the_source",
        "DecoderLayer",
        "You hide parts of the source by the target's mask. The source is there as a whole: the first word of a "
        "translation may need its last.",
        {SOURCE: SOURCE.replace("src_mask", "tgt_mask")},
    ),
    Misconception(
        "source_mask_for_the_target",
        "DecoderLayer",
        "You hide parts of the target by the source's mask, and nothing hides the future.",
        {OWN: OWN.replace("tgt_mask", "src_mask")},
    ),
    Misconception(
        "future_not_hidden_from_the_source",
        "DecoderLayer",
        "Where lengths allow it you hide the later words of the *source*, too. Only the target has a future; the source "
        "is there as a whole.",
        {
            SOURCE: f"both = {BOTH} if x.size(1) == memory.size(1) else src_mask\n        "
            + SOURCE.replace("src_mask", "both")
        },
    ),
    Misconception(
        "source_mask_not_passed_on",
        "DecoderLayer",
        "Your layer takes `src_mask` and does not pass it on, so the source's padding is read like words.",
        {SOURCE: SOURCE.replace(", src_mask", "")},
    ),
    Misconception(
        "target_mask_not_passed_on",
        "DecoderLayer",
        "Your layer takes `tgt_mask` and does not pass it on, so every token sees the ones that it is to predict. The "
        "training loss will be wonderful, and the translations will be nonsense.",
        {OWN: OWN.replace(", tgt_mask", "")},
    ),
    Misconception(
        "mask_made_by_the_layer",
        "DecoderLayer",
        "Your layer makes its own mask and does not look at the one that it is given, which may hide more: padding, for "
        "one. Whoever calls decides what is hidden.",
        {
            OWN: OWN.replace(
                "tgt_mask", "torch.ones(1, x.size(1), x.size(1), device=x.device).tril() > 0"
            )
        },
    ),
    Misconception(
        "mask_made_where_none_is_given",
        "DecoderLayer",
        "Without a `tgt_mask` your layer hides the future all the same. None means that nothing is hidden: whoever calls "
        "decides.",
        {
            OWN: OWN.replace(
                "tgt_mask",
                "torch.ones(1, x.size(1), x.size(1), device=x.device).tril() > 0 "
                "if tgt_mask is None else tgt_mask",
            )
        },
    ),
    Misconception(
        "target_mask_inverted",
        "DecoderLayer",
        "Your `tgt_mask` is turned round on its way to attention. True means *may be attended to*, here as everywhere; torch's own layers mean the "
        "opposite.",
        {OWN: OWN.replace("tgt_mask", "None if tgt_mask is None else ~tgt_mask")},
    ),
    Misconception(
        "target_mask_of_the_first_call",
        "DecoderLayer",
        "Your layer keeps the `tgt_mask` of its first call and uses it ever after. The next batch has another length and "
        "other padding.",
        {
            OWN: 'self.mask = getattr(self, "mask", tgt_mask)\n        '
            + OWN.replace("tgt_mask", "self.mask")
        },
    ),
    # --- DecoderLayer: order and connections
    Misconception(
        "source_first",
        "DecoderLayer",
        "Your layer looks at the source before it looks at its own past. First the target sorts itself out, then it "
        "asks the source.",
        {
            OWN: "x = self.sublayer[0](x, lambda x: self.src_attn(x, memory, memory, src_mask))",
            SOURCE: "x = self.sublayer[1](x, lambda x: self.self_attn(x, x, x, tgt_mask))",
        },
    ),
    Misconception(
        "network_before_the_source",
        "DecoderLayer",
        "Your network comes between the two attentions. It comes last, when both have brought what they found.",
        {
            SOURCE: "x = self.sublayer[1](x, self.feed_forward)",
            THINK: "return self.sublayer[2](x, lambda x: self.src_attn(x, memory, memory, src_mask))",
        },
    ),
    Misconception(
        "own_past_is_lost",
        "DecoderLayer",
        "What comes of the first attention is thrown away. A connection does not change x, it returns something new, and "
        "that has to be kept.",
        {OWN: OWN.removeprefix("x = ")},
    ),
    Misconception(
        "source_is_lost",
        "DecoderLayer",
        "What comes of the attention to the source is thrown away. A connection does not change x, it returns something "
        "new, and that has to be kept.",
        {SOURCE: SOURCE.removeprefix("x = ")},
    ),
    Misconception(
        "first_connection_twice",
        "DecoderLayer",
        "Both attentions go through the first connection: they share a norm, and another is never used or trained.",
        {"self.sublayer[1]": "self.sublayer[0]"},
    ),
    Misconception(
        "second_connection_twice",
        "DecoderLayer",
        "The source and the network go through the same connection, the second: they share a norm, and the third is "
        "never used or trained.",
        {"self.sublayer[2]": "self.sublayer[1]"},
    ),
    Misconception(
        "source_side_by_side",
        "DecoderLayer",
        "Your two attentions work side by side: the one to the source asks with the x that the layer was given. It asks "
        "with what the first attention has made of it.",
        {
            OWN: f"first = x\n        {OWN}",
            SOURCE: SOURCE.replace("lambda x:", "lambda _, x=first:"),
        },
    ),
    Misconception(
        "no_connection_around_the_source",
        "DecoderLayer",
        "The attention to the source stands alone, without its connection. A token would learn from the source and "
        "forget what it has said.",
        {SOURCE: "x = self.src_attn(x, memory, memory, src_mask)"},
    ),
    Misconception(
        "source_adds_x",
        "DecoderLayer",
        "What you hand to the second connection adds x to what attention finds. The connection has the shortcut already, "
        "so x is counted twice.",
        {SOURCE: SOURCE.replace("lambda x: ", "lambda x: x + ")},
    ),
    Misconception(
        "all_three_see_the_unnormed",
        "DecoderLayer",
        "In pre-norm all three parts work on the layer's own x, past the norms. A connection calls what you hand it with the vectors to work on, "
        "normed where they should be: a small function has to use its own argument, and not the x outside.",
        {
            OWN: OWN.replace("lambda x:", "lambda _, x=x:"),
            SOURCE: SOURCE.replace("lambda x:", "lambda _, x=x:"),
            THINK: THINK.replace("self.feed_forward)", "lambda _: self.feed_forward(x))"),
        },
    ),
    Misconception(
        "both_attentions_see_the_unnormed",
        "DecoderLayer",
        "In pre-norm both attentions ask with the layer's own x, past the norms. A connection calls what you hand it with the vectors to work on, "
        "normed where they should be: a small function has to use its own argument, and not the x outside.",
        {
            OWN: OWN.replace("lambda x:", "lambda _, x=x:"),
            SOURCE: SOURCE.replace("lambda x:", "lambda _, x=x:"),
        },
    ),
    Misconception(
        "network_sees_the_unnormed",
        "DecoderLayer",
        "In pre-norm your network works on the layer's own x, past the norm. The connection calls what you hand it with the vectors to work on, "
        "normed where they should be.",
        {THINK: THINK.replace("self.feed_forward)", "lambda _: self.feed_forward(x))")},
    ),
    Misconception(
        "own_past_unnormed",
        "DecoderLayer",
        "In pre-norm your first attention works on the layer's own x, past the norm. The connection calls what you hand "
        "it with the vectors to work on: use those, all three times.",
        {OWN: OWN.replace("lambda x:", "lambda _, x=x:")},
    ),
    Misconception(
        "only_the_queries_normed",
        "DecoderLayer",
        "In pre-norm only the queries of your first attention are normed; keys and values are the layer's own x. All "
        "three are the same vectors: those that the connection calls you with.",
        {OWN: OWN.replace("lambda x: self.self_attn(x,", "lambda y, x=x: self.self_attn(y,")},
    ),
    Misconception(
        "source_asked_by_the_unnormed",
        "DecoderLayer",
        "In pre-norm your queries to the source are the layer's own x, past the norm. The connection calls what you hand "
        "it with the vectors that should ask.",
        {SOURCE: SOURCE.replace("lambda x:", "lambda _, x=x:")},
    ),
    Misconception(
        "memory_returned_too",
        "DecoderLayer",
        "Your layer returns the memory as well. The memory stays as it is for all layers; what is returned is the "
        "target's vectors alone.",
        {THINK: THINK + ", memory"},
    ),
    # --- Decoder
    Misconception(
        "final_norm_of_the_annotated_transformer",
        "Decoder",
        "This is the stack of a well-known annotated Transformer, and it differs in two things. It ends in a norm in post-norm, too, where the last "
        "layer has normed already; and that norm is another: its parameters are called `a_2` and `b_2`, its deviation divides by n − 1, and its ε is added "
        "after the root.",
        {FINAL: norm_by_std(OTHER_NAMES) + "\n        self.norm = Norm(layer.size)"},
    ),
    Misconception(
        "final_norm_by_std_always",
        "Decoder",
        "Your stack has a norm at the end in post-norm, too, where the last layer has normed already. And that norm divides by a deviation of n − 1, to "
        "which ε is added after the root; the variance divides by n, and ε stands under the root.",
        {FINAL: norm_by_std(OUR_NAMES) + "\n        self.norm = Norm(layer.size)"},
    ),
    Misconception(
        "final_norm_by_std",
        "Decoder",
        "Your final norm divides by a deviation of n − 1, to which ε is added after the root, as `x.std()` suggests. The variance divides by n, "
        "and ε stands under the root. The `LayerNorm` of day 11 may be imported.",
        {FINAL: norm_by_std(OUR_NAMES) + "\n        " + FINAL.replace("LayerNorm", "Norm")},
    ),
    Misconception(
        "layers_in_a_list",
        "Decoder",
        "Your layers stand in a plain Python list. The stack does not know that they are parts of it: no optimiser "
        "finds their weights, and `eval()` and `to()` do not reach them.",
        {LAYERS: "self.layers = list(clones(layer, n))"},
    ),
    Misconception(
        "one_layer_n_times",
        "Decoder",
        "Your n layers are one and the same object, named n times: they share all weights. Each layer has weights of "
        "its own.",
        {LAYERS: "self.layers = nn.ModuleList([layer] * n)"},
    ),
    Misconception(
        "original_among_the_copies",
        "Decoder",
        "Your first layer is not a copy but the very layer that was given. Whoever makes a second stack of it, or changes "
        "it, changes this one.",
        {LAYERS: "self.layers = nn.ModuleList([layer, *clones(layer, n - 1)])"},
    ),
    Misconception(
        "norm_of_torch",
        "Decoder",
        "Your final norm is torch's. It computes the same, but its parameters are called `weight` and `bias`; ours, of "
        "day 11, are `gain` and `bias`.",
        {FINAL: FINAL.replace("LayerNorm", "nn.LayerNorm")},
    ),
    Misconception(
        "final_norm_always",
        "Decoder",
        "Your stack has a norm at the end in post-norm, too. There the last layer ends in a norm already; the final "
        "norm is for pre-norm, where nothing else would norm the last sum.",
        {FINAL: "self.norm = LayerNorm(layer.size)"},
    ),
    Misconception(
        "final_norm_missing",
        "Decoder",
        "In pre-norm the norm at the end is missing. Each layer there ends in a sum that nobody has normed, and the "
        "last sum leaves the stack.",
        {FINAL: "self.norm = None"},
    ),
    Misconception(
        "final_norm_not_used",
        "Decoder",
        "Your stack has its final norm, and never calls it.",
        {RETURN: "return x"},
    ),
    Misconception(
        "memory_normed_by_the_stack",
        "Decoder",
        "In pre-norm your stack norms the memory. The memory comes from the end of the encoder, which has a final norm "
        "of its own; yours is for what leaves the decoder.",
        {LOOP: "memory = memory if self.norm is None else self.norm(memory)\n        " + LOOP},
    ),
    Misconception(
        "target_mask_only_for_the_first",
        "Decoder",
        "Only your first layer gets `tgt_mask`. The second looks into the future, and one leak is enough.",
        {
            LOOP: "for i, layer in enumerate(self.layers):\n"
            "            x = layer(x, memory, src_mask, tgt_mask if i == 0 else None)"
        },
    ),
    Misconception(
        "masks_swapped_by_the_stack",
        "Decoder",
        "Your stack hands the layers their masks in the wrong order: a layer wants the source's first.",
        {LOOP: LOOP.replace("src_mask, tgt_mask", "tgt_mask, src_mask")},
    ),
    Misconception(
        "source_mask_not_given_to_the_layers",
        "Decoder",
        "Your stack does not give `src_mask` to its layers, so the source's padding is read like words.",
        {LOOP: LOOP.replace("src_mask, tgt_mask", "None, tgt_mask")},
    ),
    Misconception(
        "target_mask_not_given_to_the_layers",
        "Decoder",
        "Your stack does not give `tgt_mask` to its layers, so every token sees the ones that it is to predict.",
        {LOOP: LOOP.replace(", tgt_mask", "")},
    ),
    Misconception(
        "memory_from_the_layer_before",
        "Decoder",
        "From the second layer on your memory is what the layer before has made. Every layer looks at the same "
        "memory: what the encoder made of the source.",
        {LOOP: LOOP + "\n            memory = x"},
    ),
    Misconception(
        "memory_for_the_first_only",
        "Decoder",
        "Only your first layer looks at the source; to the others the target itself is given as memory.",
        {
            LOOP: "for i, layer in enumerate(self.layers):\n"
            "            x = layer(x, memory, src_mask, tgt_mask) if i == 0 else layer(x, x, None, tgt_mask)"
        },
    ),
    Misconception(
        "target_and_memory_swapped",
        "Decoder",
        "Your stack hands the layers memory and target in the wrong order: the target comes first.",
        {LOOP: LOOP.replace("x, memory", "memory, x")},
    ),
    Misconception(
        "layers_from_the_last",
        "Decoder",
        "You go through the layers from the last to the first.",
        {LOOP: LOOP.replace("self.layers", "reversed(self.layers)")},
    ),
    Misconception(
        "all_layers_read_the_input",
        "Decoder",
        "Every one of your layers works on what the stack was given, so only the last one counts. Each works on "
        "what the layer before it made.",
        {
            LOOP: LOOP.replace("for", "first = x\n        for", 1).replace(
                "layer(x,", "layer(first,"
            )
        },
    ),
    Misconception(
        "return_in_the_loop",
        "Decoder",
        "Your stack returns after its first layer: the `return` stands inside the loop.",
        {LOOP: LOOP + "\n            return x if self.norm is None else self.norm(x)"},
    ),
]
