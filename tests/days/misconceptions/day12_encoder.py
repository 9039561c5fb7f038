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
                "Your connections are those of *The Annotated Transformer*. They are always pre-norm, but post-norm is the default here. Their norm calls its "
                "parameters `a_2` and `b_2`, divides by n − 1 in its standard deviation, and adds ε outside the root. You can import the connection of day "
                "11.",
                connections(norm_by_std(OTHER_NAMES), arrangement="'pre'"),
            ),
            "annotated_transformer_with_our_names": (
                "Your connections are always pre-norm, but post-norm is the default here. Their norm divides by n − 1 in its standard deviation and adds ε "
                "outside the root. The variance should divide by n, and ε belongs under the root. You can import the connection of day 11.",
                connections(norm_by_std(OUR_NAMES), arrangement="'pre'"),
            ),
            "norms_of_torch": (
                "The norms in your connections are PyTorch's. Their results are the same, but their parameters are called `weight` and `bias`; those of day "
                "11 are `gain` and `bias`.",
                connections("", "nn.LayerNorm(size)"),
            ),
            "norms_and_dropout_of_its_own": (
                "Your layer has its own norms and its own dropout, like PyTorch's layer, and is always post-norm. Here, norms and dropout belong to two "
                "connections, in `sublayer`, which support both arrangements. You can import the `SublayerConnection` of day 11.",
                {
                    "self.sublayer = ...": "self.norm1 = LayerNorm(size)\nself.norm2 = LayerNorm(size)\nself.dropout = nn.Dropout(dropout)",
                    "self.sublayer[0](x, lambda x: _)": "self.norm1(x + self.dropout(_))",
                    "self.sublayer[1](x, _)": "self.norm2(x + self.dropout(_(x)))",
                },
            ),
            "norm_not_taken": (
                "Your layer has no argument `norm`. It should accept `norm`, with post-norm as the default, and pass it to its connections.",
                {"norm='post'": "", "norm": "", "self.norm = norm": "pass"},
            ),
            "always_pre_norm": (
                "Your layer is pre-norm whatever `norm` is. Most later models are pre-norm, but the paper's model is post-norm, which is the default here.",
                {"clones(..., 2)": "clones(SublayerConnection(size, dropout, 'pre'), 2)"},
            ),
            "connections_in_a_list": (
                "Your connections are in a plain Python list, where PyTorch does not find modules. Their norms are never trained, saved or moved to a GPU, "
                "and `eval()` does not reach their dropout.",
                {"clones(..., 2)": "[SublayerConnection(size, dropout, norm) for _ in range(2)]"},
            ),
            "one_connection_for_both": (
                "Your two connections are the same object. The norm after attention and the norm after the feed-forward network have different jobs, so each "
                "needs its own gain and bias.",
                {"clones(_, 2)": "nn.ModuleList([_] * 2)"},
            ),
            "norm_is_a_layer_norm": (
                "The `norm` of your layer is a LayerNorm. The norms are already in the connections. `layer.norm` should be the string that the caller passed, "
                '"post" or "pre", which the stack reads.',
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
            "pre_norm_is_the_default": (
                "Your layer is pre-norm by default. In this course the default is post-norm, as in the paper.",
                {"norm='post'": "norm='pre'"},
            ),
            # --- EncoderLayer: post and pre, dropout
            "always_post_norm": (
                "Your layer is post-norm whatever `norm` is: the argument does not reach its connections.",
                {"norm": ""},
            ),
            "dropout_not_passed_on": (
                "Your layer never applies dropout: its argument `dropout` does not reach its connections.",
                {"dropout": "0.0"},
            ),
            "attention_dropped_twice": (
                "Dropout is applied twice to the output of attention: once by your layer, and once by the connection, which always applies it.",
                {"lambda x: _": "lambda x: self.sublayer[0].dropout(_)"},
            ),
            # --- EncoderLayer: forward
            "attention_is_lost": (
                "The output of the first connection is lost, so the feed-forward network gets the layer's input. A residual connection does not change x in place. It "
                "returns a new tensor, which you must keep.",
                {"x = _": "_"},
            ),
            "first_connection_twice": (
                "Both sublayers go through the first connection, so they share one norm, and the second connection is never used or trained.",
                {"self.sublayer[1]": "self.sublayer[0]"},
            ),
            "network_first": (
                "Your feed-forward network comes before attention. Self-attention comes first.",
                {"return ...": "", "x = _": "x = self.sublayer[1](x, self.feed_forward)\nreturn _"},
            ),
            "no_connection_around_attention": (
                "Attention has no connection around it: no residual connection, no norm, no dropout. A token would receive information from other tokens and "
                "lose its own.",
                {"self.sublayer[0](x, lambda x: _)": "_"},
            ),
            "attention_adds_x": (
                "The function that you pass to the first connection adds x to the output of attention. The residual connection already adds x, so x is "
                "counted twice.",
                {"lambda x: _": "lambda x: x + _"},
            ),
            "sublayer_called_at_once": (
                "You call attention yourself and pass its result to the connection. The connection expects a function: it decides when the sublayer is called, "
                "and on which x. Wrap the call in a `lambda`.",
                {"lambda x: _": "_"},
            ),
            "both_see_the_unnormed": (
                "In pre-norm, both sublayers get the layer's own x, which is not normalized. A connection calls your function with the normalized input: use "
                "that argument, not the x outside.",
                {"lambda x: _": "lambda _, x=x: _", "self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "only_the_queries_normed": (
                "In pre-norm, only your queries are normalized; keys and values are the layer's own x. All three should be the tensor that the connection passes to "
                "your function.",
                {"lambda x: ...": "lambda y, x=x: self.self_attn(y, x, x, mask)"},
            ),
            "mask_not_passed_on": (
                "Your layer does not pass the mask to attention, so tokens attend to padding.",
                {"mask": ""},
            ),
            "mask_inverted": (
                "Your mask is inverted on its way to attention. True means *may be attended to* everywhere in this course; in the `key_padding_mask` of "
                "PyTorch's own layers, it means the opposite.",
                {"mask": "None if mask is None else ~mask"},
            ),
            "mask_with_an_axis_for_the_heads": (
                "You add an axis for the heads to the mask. Attention adds this axis itself: like the layer, it accepts `(B, 1, S)` or `(B, S, S)`.",
                {"mask": "None if mask is None else mask.unsqueeze(1)"},
            ),
            "weights_returned_too": (
                "Your layer returns a tuple, as PyTorch's attention does. Return only the vectors, so that the next layer can use them as its input. The "
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
                "Your stack is that of *The Annotated Transformer*. It has a final norm in post-norm too, where the last layer already normalizes. Its norm "
                "calls the parameters `a_2` and `b_2`, divides by n − 1 in its standard deviation, and adds ε outside the root. You can import the "
                "`LayerNorm` of day 11.",
                {"self.norm = ...": norm_by_std(OTHER_NAMES) + "self.norm = Norm(layer.size)"},
            ),
            "final_norm_by_std": (
                "Your final norm divides by n − 1 in its standard deviation, as `x.std()` does, and adds ε outside the root. The variance should divide by n, "
                "and ε belongs under the root. You can import the `LayerNorm` of day 11.",
                {"self.norm = _": norm_by_std(OUR_NAMES) + "self.norm = _", "LayerNorm": "Norm"},
            ),
            "layers_in_a_list": (
                "Your layers are in a plain Python list, where PyTorch does not find modules. The optimizer does not receive their weights, and `eval()` and "
                "`to()` do not reach them.",
                {"clones(layer, n)": "list(clones(layer, n))"},
            ),
            "one_layer_n_times": (
                "Your n layers are the same object, so they share all weights. Each layer should have its own weights.",
                {"clones(layer, n)": "nn.ModuleList([layer] * n)"},
            ),
            "original_among_the_copies": (
                "Your first layer is the layer that was passed in, not a copy. If the caller builds a second stack from this layer, or changes it, your stack "
                "changes too.",
                {"clones(layer, n)": "nn.ModuleList([layer, *clones(layer, n - 1)])"},
            ),
            "norm_of_torch": (
                "Your final norm is PyTorch's. Its result is the same, but its parameters are called `weight` and `bias`; those of day 11 are `gain` and "
                "`bias`.",
                {"LayerNorm(layer.size)": "nn.LayerNorm(layer.size)"},
            ),
            "final_norm_always": (
                "Your stack has a final norm in post-norm too, where the last layer already ends with a norm. The final norm is only for pre-norm, where "
                "nothing else normalizes the last sum.",
                {"_ if ... else None": "_"},
            ),
            "final_norm_missing": (
                "In pre-norm, the final norm is missing. Each pre-norm layer ends with a sum, so the output of your stack is not normalized.",
                {"self.norm = ...": "self.norm = None"},
            ),
            "final_norm_the_wrong_way_round": (
                "Your stack has a final norm in post-norm and none in pre-norm. In which of the two does a layer already end with a norm?",
                {"layer.norm == 'pre'": "layer.norm != 'pre'"},
            ),
            # --- Encoder: forward
            "norm_after_every_layer": (
                "In pre-norm, you normalize after every layer. Pre-norm has no norm on the residual stream between layers. The final norm comes once, at the "
                "end.",
                {"x = layer(x, mask)": "x = layer(x, mask)\nx = x if self.norm is None else self.norm(x)", "return ...": "return x"},
            ),
            "mask_not_given_to_the_layers": (
                "Your stack accepts the mask but passes it to none of its layers.",
                {"layer(x, mask)": "layer(x)"},
            ),
            "mask_only_for_the_first": (
                "Only your first layer gets the mask. All later layers attend to padding.",
                {"for layer in self.layers:\n    ...": "for i, layer in enumerate(self.layers):\n    x = layer(x, mask if i == 0 else None)"},
            ),
            "all_layers_read_the_input": (
                "Each of your layers gets the input of the stack, so only the last layer has an effect. Each layer should get the output of the previous "
                "layer.",
                {"for layer in self.layers:\n    ...": "first = x\nfor layer in self.layers:\n    x = layer(first, mask)"},
            ),
            "return_in_the_loop": (
                "Your stack returns after its first layer: the `return` is inside the loop.",
                {"x = layer(x, mask)": "x = layer(x, mask)\nreturn x if self.norm is None else self.norm(x)"},
            ),
        },
    ),
]
