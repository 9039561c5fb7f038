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
                "Your connections are those of *The Annotated Transformer*, and they differ from the course's in two ways. They are always pre-norm, while post-norm is "
                "the default here. And their norm has parameters called `a_2` and `b_2`, a standard deviation that divides by n − 1, and an ε that is added outside the "
                "root. You can import the connection of day 11.",
                connections(norm_by_std(OTHER_NAMES), arrangement="'pre'"),
            ),
            "annotated_transformer_with_our_names": (
                "Your connections are always pre-norm, while post-norm is the default here. And their norm divides by a standard deviation with n − 1, to which ε is "
                "added outside the root; the variance should divide by n, and ε belongs under the root. You can import the connection of day 11.",
                connections(norm_by_std(OUR_NAMES), arrangement="'pre'"),
            ),
            "norms_by_std": (
                "The norms in your connections divide by a standard deviation with n − 1, as `x.std()` does, and add ε outside the root. The variance should divide by "
                "n, and ε belongs under the root. You can import the `LayerNorm` of day 11.",
                connections(norm_by_std(OUR_NAMES)),
            ),
            "norms_of_torch": (
                "The norms in your connections are PyTorch's. They compute the same, but their parameters are called `weight` and `bias`; those of day 11 are `gain` "
                "and `bias`.",
                connections("", "nn.LayerNorm(size)"),
            ),
            "norms_and_dropout_of_its_own": (
                "Your layer has its own norms and its own dropout, as PyTorch's has, and is always post-norm. Here they belong to two connections, in `sublayer`, which "
                "support both arrangements: you can import the `SublayerConnection` of day 11.",
                {
                    "self.sublayer = ...": "self.norm1 = LayerNorm(size)\nself.norm2 = LayerNorm(size)\nself.dropout = nn.Dropout(dropout)",
                    "self.sublayer[0](x, lambda x: _)": "self.norm1(x + self.dropout(_))",
                    "self.sublayer[1](x, _)": "self.norm2(x + self.dropout(_(x)))",
                },
            ),
            "norm_not_taken": (
                "Your layer has no argument `norm`. It should accept one and pass it to its connections; post-norm is the default.",
                {"norm='post'": "", "norm": "", "self.norm = norm": "pass"},
            ),
            "always_pre_norm": (
                "Your layer is pre-norm whatever `norm` is. Most later models are pre-norm; the paper's is post-norm, and so is the default here.",
                {"clones(..., 2)": "clones(SublayerConnection(size, dropout, 'pre'), 2)"},
            ),
            "connections_in_a_list": (
                "Your connections are in a plain Python list. PyTorch does not find modules there: their norms are never trained, saved or moved to a GPU, and `eval()` "
                "does not reach their dropout.",
                {"clones(..., 2)": "[SublayerConnection(size, dropout, norm) for _ in range(2)]"},
            ),
            "one_connection_for_both": (
                "Your two connections are the same object. The norm after attention and the norm after the feed-forward network have different jobs, so each has its "
                "own gain and bias.",
                {"clones(_, 2)": "nn.ModuleList([_] * 2)"},
            ),
            "three_connections": (
                "Your layer has three connections. An encoder layer has two sublayers, so it needs two; the third belongs to the decoder, which also attends to the "
                "source.",
                {"clones(_, 2)": "clones(_, 3)"},
            ),
            "norm_is_a_layer_norm": (
                "Your layer's `norm` is a LayerNorm. The norms are already in the connections; `layer.norm` is the string that the layer was given, post or pre, which "
                "the stack reads.",
                {"self.norm = norm": "self.norm = nn.LayerNorm(size) if norm == 'pre' else norm"},
            ),
            "norm_not_kept": (
                "Your layer does not store `norm`. The stack reads it from the layer to decide whether it needs a final norm.",
                {"self.norm = norm": "pass"},
            ),
            "size_not_kept": (
                "Your layer does not store `size`. The stack reads it from the layer to create its final norm.",
                {"self.size = size": "pass"},
            ),
            "parts_copied": (
                "Your layer uses copies of the modules that it was given. It should store the modules themselves, because the caller may want to share or inspect them. "
                "Copying is the job of the stack.",
                {"self.self_attn = self_attn": "self.self_attn = clones(self_attn, 1)[0]", "self.feed_forward = _": "self.feed_forward = clones(_, 1)[0]"},
            ),
            "pre_norm_is_the_default": (
                "Your layer is pre-norm by default. In this course post-norm is the default, because it is the paper's.",
                {"norm='post'": "norm='pre'"},
            ),
            # --- EncoderLayer: post and pre, dropout
            "always_post_norm": (
                "Your layer is post-norm whatever `norm` is: the argument does not reach its connections.",
                {"norm": ""},
            ),
            "dropout_not_passed_on": (
                "Your layer never drops anything: its argument `dropout` does not reach its connections.",
                {"dropout": "0.0"},
            ),
            "dropout_fixed": (
                "Your layer's dropout is the paper's 0.1, whatever `dropout` is.",
                {"dropout": "0.1"},
            ),
            "attention_dropped_twice": (
                "Dropout is applied twice to the output of attention: once by your layer, and once by the connection, which always applies it.",
                {"lambda x: _": "lambda x: self.sublayer[0].dropout(_)"},
            ),
            "network_dropped_twice": (
                "Dropout is applied twice to the output of the feed-forward network: once by your layer, and once by the connection, which always applies it.",
                {"self.feed_forward": "lambda x: self.sublayer[1].dropout(self.feed_forward(x))"},
            ),
            "dropout_in_evaluation": (
                "Dropout is also active in evaluation mode. The function `dropout` is active unless its argument `training` is False; a module `nn.Dropout` is turned "
                "off by `eval()`. The connections already have one.",
                {"lambda x: _": "lambda x: nn.functional.dropout(_, 0.0 if self.training else self.sublayer[0].dropout.p)"},
            ),
            # --- EncoderLayer: forward
            "attention_is_lost": (
                "The output of the first connection is lost: the feed-forward network gets the layer's input. A connection does not change x in place; it returns a new "
                "tensor, which you have to keep.",
                {"x = _": "_"},
            ),
            "network_is_lost": (
                "The output of the second connection is lost: you return its input.",
                {"return _": "_\nreturn x"},
            ),
            "first_connection_twice": (
                "Both sublayers go through the first connection, so they share one norm, and the second connection is never used or trained.",
                {"self.sublayer[1]": "self.sublayer[0]"},
            ),
            "connections_swapped": (
                "Your connections are swapped: the first belongs to attention, the second to the feed-forward network.",
                {"self.sublayer[0]": "self.sublayer[-1]", "self.sublayer[1]": "self.sublayer[-2]"},
            ),
            "network_first": (
                "Your feed-forward network comes before attention. Self-attention comes first.",
                {"return ...": "", "x = _": "x = self.sublayer[1](x, self.feed_forward)\nreturn _"},
            ),
            "no_connection_around_attention": (
                "Attention has no connection around it: no residual connection, no norm, no dropout. A token would get information from the others and lose its own.",
                {"self.sublayer[0](x, lambda x: _)": "_"},
            ),
            "no_connection_around_network": (
                "The feed-forward network has no connection around it: no residual connection, no norm, no dropout.",
                {"self.sublayer[1](x, _)": "_(x)"},
            ),
            "attention_adds_x": (
                "The function that you pass to the first connection adds x to the output of attention. The residual connection already does, so x is counted twice.",
                {"lambda x: _": "lambda x: x + _"},
            ),
            "network_adds_x": (
                "The function that you pass to the second connection adds x to the output of the feed-forward network. The residual connection already does, so x is "
                "counted twice.",
                {"self.feed_forward": "lambda x: x + self.feed_forward(x)"},
            ),
            "both_see_the_unnormed": (
                "In pre-norm, both sublayers get the layer's own x instead of the normalized one. A connection calls your function with its input, which is normalized "
                "in pre-norm: use that argument, not the x outside.",
                {"lambda x: _": "lambda _, x=x: _", "self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "network_sees_the_unnormed": (
                "In pre-norm, your feed-forward network gets the layer's own x. The connection calls your function with its input, which is normalized in pre-norm: use "
                "that argument.",
                {"self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "attention_sees_the_unnormed": (
                "In pre-norm, your attention gets the layer's own x. The connection calls your function with its input, which is normalized in pre-norm: use that "
                "argument for query, key and value.",
                {"lambda x: _": "lambda _, x=x: _"},
            ),
            "only_the_queries_normed": (
                "In pre-norm, only your queries are normalized; keys and values are the layer's own x. All three should be the tensor that the connection passes to "
                "your function.",
                {"lambda x: ...": "lambda y, x=x: self.self_attn(y, x, x, mask)"},
            ),
            "shortcut_from_the_normed": (
                "In pre-norm, your residual connection around attention starts after the norm. It should start before it, so that a token's vector passes through the "
                "stack without normalization.",
                {
                    "x = self.sublayer[0](x, _)": "x = self.sublayer[0].norm(x) if self.norm == 'pre' else x\n"
                    "attend = _\n"
                    "found = self.sublayer[0].dropout(attend(x))\n"
                    "x = x + found if self.norm == 'pre' else self.sublayer[0](x, attend)"
                },
            ),
            "mask_not_passed_on": (
                "Your layer does not pass the mask to attention, so tokens attend to padding.",
                {"mask": ""},
            ),
            "mask_inverted": (
                "Your mask is inverted on its way to attention. True means *may be attended to* everywhere in this course; in the `key_padding_mask` of PyTorch's own "
                "layers it means the opposite.",
                {"mask": "None if mask is None else ~mask"},
            ),
            "mask_with_an_axis_for_the_heads": (
                "You add an axis for the heads to the mask. Attention does that itself: it takes `(B, 1, S)` or `(B, S, S)`, as the layer does.",
                {"mask": "None if mask is None else mask.unsqueeze(1)"},
            ),
            "mask_of_keys_only": (
                "You use one row of the mask for all queries. That works for padding, `(B, 1, S)`; but with a mask `(B, S, S)`, each query has its own row.",
                {"mask": "None if mask is None else mask[:, :1]"},
            ),
            "mask_of_the_first_call": (
                "Your layer stores the mask of its first call and uses it in all later calls. The next batch has different sentences and different padding.",
                {"x = ...": "self.mask = getattr(self, 'mask', mask)\nx = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, self.mask))"},
            ),
            "time_before_batch": (
                "You swap the batch and time axes for attention, as some of PyTorch's layers expect. Ours take `(B, S, d_model)`: with the axes swapped, tokens attend "
                "to the same position of other sentences.",
                {"lambda x: _": "lambda x: (lambda x: _)(x.transpose(0, 1)).transpose(0, 1)"},
            ),
            "weights_returned_too": (
                "Your layer returns a tuple, as PyTorch's attention does. A layer returns only the vectors, so that the next layer can use them as its input; the "
                "attention module stores the weights.",
                {"return _": "return _, self.self_attn"},
            ),
        },
    ),
    *of(
        "Encoder",
        {
            # --- Encoder: what it holds
            "final_norm_of_the_annotated_transformer": (
                "Your stack is that of *The Annotated Transformer*, and it differs from the course's in two ways. It has a final norm in post-norm too, where the last "
                "layer already normalizes. And that norm has parameters called `a_2` and `b_2`, a standard deviation that divides by n − 1, and an ε that is added "
                "outside the root.",
                {"self.norm = ...": norm_by_std(OTHER_NAMES) + "self.norm = Norm(layer.size)"},
            ),
            "final_norm_by_std_always": (
                "Your stack has a final norm in post-norm too, where the last layer already normalizes. And that norm divides by a standard deviation with n − 1, to "
                "which ε is added outside the root; the variance should divide by n, and ε belongs under the root.",
                {"self.norm = ...": norm_by_std(OUR_NAMES) + "self.norm = Norm(layer.size)"},
            ),
            "final_norm_by_std": (
                "Your final norm divides by a standard deviation with n − 1, as `x.std()` does, and adds ε outside the root. The variance should divide by n, and ε "
                "belongs under the root. You can import the `LayerNorm` of day 11.",
                {"self.norm = _": norm_by_std(OUR_NAMES) + "self.norm = _", "LayerNorm": "Norm"},
            ),
            "layers_in_a_list": (
                "Your layers are in a plain Python list. PyTorch does not find modules there: the optimizer does not get their weights, and `eval()` and `to()` do not "
                "reach them.",
                {"clones(layer, n)": "list(clones(layer, n))"},
            ),
            "one_layer_n_times": (
                "Your n layers are the same object: they share all weights. Each layer should have its own weights.",
                {"clones(layer, n)": "nn.ModuleList([layer] * n)"},
            ),
            "original_among_the_copies": (
                "Your first layer is not a copy but the layer that was given. If the caller builds a second stack from it, or changes it, your stack changes too.",
                {"clones(layer, n)": "nn.ModuleList([layer, *clones(layer, n - 1)])"},
            ),
            "one_layer_too_few": (
                "Your stack has one layer too few. The given layer is only the original for the copies; it is not one of the n.",
                {"clones(layer, n)": "clones(layer, n - 1)"},
            ),
            "one_layer_too_many": (
                "Your stack has one layer too many: n copies and the layer that was given, which should not be in the stack.",
                {"clones(layer, n)": "nn.ModuleList([layer, *clones(layer, n)])"},
            ),
            "copies_started_anew": (
                "Your copies lose the weights of the given layer. They should be exact copies; initialization is the job of the code that builds the complete model.",
                {"self.norm = _": "for parameter in self.layers.parameters():\n    nn.init.constant_(parameter, 0.02)\nself.norm = _"},
            ),
            "norm_of_torch": (
                "Your final norm is PyTorch's. It computes the same, but its parameters are called `weight` and `bias`; those of day 11 are `gain` and `bias`.",
                {"LayerNorm(layer.size)": "nn.LayerNorm(layer.size)"},
            ),
            "final_norm_always": (
                "Your stack has a final norm in post-norm too. There, the last layer already ends with a norm; the final norm is for pre-norm, where the last sum would "
                "not be normalized otherwise.",
                {"_ if ... else None": "_"},
            ),
            "final_norm_missing": (
                "In pre-norm, the final norm is missing. Each pre-norm layer ends with a sum, so the output of your stack is not normalized.",
                {"self.norm = ...": "self.norm = None"},
            ),
            "final_norm_the_wrong_way_round": (
                "Your final norm is there in post-norm and missing in pre-norm. Which of the two already ends with a norm?",
                {"layer.norm == 'pre'": "layer.norm != 'pre'"},
            ),
            "final_norm_not_used": (
                "Your stack has a final norm and never calls it.",
                {"return ...": "return x"},
            ),
            # --- Encoder: forward
            "norm_after_every_layer": (
                "In pre-norm, you normalize after every layer. Pre-norm keeps the residual stream free of norms; the final norm comes once, at the end.",
                {"x = layer(x, mask)": "x = layer(x, mask)\nx = x if self.norm is None else self.norm(x)", "return ...": "return x"},
            ),
            "norm_at_the_start": (
                "In pre-norm, your stack normalizes its input instead of its output. Every layer normalizes its own input; only the last sum is left without a norm.",
                {"for layer in self.layers:\n    ...": "", "return _": "x = _\nfor layer in self.layers:\n    x = layer(x, mask)\nreturn x"},
            ),
            "mask_not_given_to_the_layers": (
                "Your stack accepts the mask and passes it to none of its layers.",
                {"layer(x, mask)": "layer(x)"},
            ),
            "mask_only_for_the_first": (
                "Only your first layer gets the mask. The padding is hidden there, and all later layers attend to it.",
                {"for layer in self.layers:\n    ...": "for i, layer in enumerate(self.layers):\n    x = layer(x, mask if i == 0 else None)"},
            ),
            "layers_from_the_last": (
                "Your layers run in reverse order.",
                {"self.layers": "reversed(self.layers)"},
            ),
            "all_layers_read_the_input": (
                "Each of your layers gets the input of the stack, so only the last one counts. Each layer should get the output of the previous one.",
                {"for layer in self.layers:\n    ...": "first = x\nfor layer in self.layers:\n    x = layer(first, mask)"},
            ),
            "first_layer_again_and_again": (
                "You run the first layer n times. The other layers are never used.",
                {"layer(x, mask)": "self.layers[0](x, mask)"},
            ),
            "return_in_the_loop": (
                "Your stack returns after its first layer: the `return` is inside the loop.",
                {"x = layer(x, mask)": "x = layer(x, mask)\nreturn x if self.norm is None else self.norm(x)"},
            ),
            "shortcut_around_every_layer": (
                "You add each layer's input to its output. The residual connections are inside the layer, around each sublayer.",
                {"layer(x, mask)": "x + layer(x, mask)"},
            ),
            "all_outputs_returned": (
                "Your stack returns the outputs of all layers. The next part of the model expects one tensor: the output of the last layer.",
                {"for layer in self.layers:\n    _": "outputs = []\nfor layer in self.layers:\n    _\n    outputs.append(x)", "return ...": "return outputs"},
            ),
        },
    ),
]
