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
                "Your mask hides a position from itself. A position may attend to itself: it holds the most recent known token, and the token to predict is "
                "the next one. With your mask, the first position has no key at all.",
                {"_.tril()": "_.tril(-1)"},
            ),
            "one_ahead": (
                "Your mask lets each position attend to the next position, which holds the token to predict.",
                {"_.tril()": "_.tril(1)"},
            ),
            "upper_triangle": (
                "Your mask shows each position itself and the future, and hides the past. Rows are queries: row 0 may attend only to position 0, and the last "
                "row to all positions.",
                {"_.tril": "_.triu"},
            ),
            "true_is_hidden": (
                "Your mask is True where attention is *forbidden*, as in PyTorch's own layers. Here, as in PyTorch's `scaled_dot_product_attention`, True means *may be "
                "attended to*.",
                {"_.tril()": "_.triu(1)"},
            ),
            "mask_to_be_added": (
                "Your mask contains 0 and −∞, as if it were added to the scores. Here masks are boolean: attention itself hides the keys, and two boolean "
                "masks can be combined with `&`.",
                {"return ...": "return torch.full((1, size, size), float('-inf')).triu(1)"},
            ),
            "mask_of_numbers": (
                "Your mask contains the floating-point numbers 0 and 1. Masks are boolean here.",
                {"torch.bool": "torch.float32"},
            ),
            "no_axis_for_the_batch": (
                "Your mask has no axis for the batch. With a first axis of length 1, a mask broadcasts with `(B, T, T)` and with a padding mask `(B, 1, T)`, "
                "and attention can add the axis for the heads.",
                {"1": ""},
            ),
            "an_axis_for_the_heads": (
                "Your mask already has an axis for the heads. Attention adds that axis itself and expects `(1, T, T)`.",
                {"return ...": "return torch.ones(1, 1, size, size, dtype=torch.bool).tril()"},
            ),
        },
    ),
    *of(
        "DecoderLayer",
        {
            # --- DecoderLayer: what it holds
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
                "Your layer has its own norms and its own dropout, like PyTorch's layer, and is always post-norm. Here, norms and dropout belong to three "
                "connections, in `sublayer`, which support both arrangements. You can import the `SublayerConnection` of day 11.",
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
                "Your layer has no argument `norm`. It should accept `norm`, with post-norm as the default, and pass it to its connections.",
                {"norm='post'": "", "norm": "", "self.norm = norm": "pass"},
            ),
            "always_pre_norm": (
                "Your layer is pre-norm whatever `norm` is. Most later models are pre-norm, but the paper's model is post-norm, which is the default here.",
                {"clones(..., 3)": "clones(SublayerConnection(size, dropout, 'pre'), 3)"},
            ),
            "two_connections": (
                "Your layer has two connections, like an encoder layer. A decoder layer has three sublayers, each with its own residual connection and norm.",
                {"clones(_, 3)": "clones(_, 2)", "self.sublayer[2]": "self.sublayer[1]"},
            ),
            "connections_in_a_list": (
                "Your connections are in a plain Python list, where PyTorch does not find modules. Their norms are never trained, saved or moved to a GPU, "
                "and `eval()` does not reach their dropout.",
                {"clones(..., 3)": "[SublayerConnection(size, dropout, norm) for _ in range(3)]"},
            ),
            "one_connection_for_all": (
                "Your three connections are the same object. Each norm has a different job, so each needs its own gain and bias.",
                {"clones(_, 3)": "nn.ModuleList([_] * 3)"},
            ),
            "one_attention_for_both": (
                "Your layer uses one attention for both jobs. Self-attention and cross-attention look for different things, so each needs its own projections.",
                {"self.src_attn = src_attn": "self.src_attn = self_attn"},
            ),
            "attentions_swapped": (
                "Your two attentions are swapped: you store the cross-attention as `self_attn` and the self-attention as `src_attn`.",
                {"self.self_attn = self_attn": "self.self_attn = src_attn", "self.src_attn = src_attn": "self.src_attn = self_attn"},
            ),
            "norm_is_a_layer_norm": (
                "The `norm` of your layer is a LayerNorm. The norms are already in the connections. `layer.norm` should be the string that the caller passed, "
                '"post" or "pre", which the stack reads.',
                {"self.norm = norm": "self.norm = nn.LayerNorm(size) if norm == 'pre' else norm"},
            ),
            "size_not_kept": (
                "Your layer does not store `size`. The stack reads it from the layer to create its final norm.",
                {"self.size = size": "pass"},
            ),
            "norm_not_kept": (
                "Your layer does not store `norm`. The stack reads it from the layer to decide whether it needs a final norm.",
                {"self.norm = norm": "pass"},
            ),
            "always_post_norm": (
                "Your layer is post-norm whatever `norm` is: the argument does not reach its connections.",
                {"norm": ""},
            ),
            "pre_norm_is_the_default": (
                "Your layer is pre-norm by default. In this course the default is post-norm, as in the paper.",
                {"norm='post'": "norm='pre'"},
            ),
            "dropout_not_passed_on": (
                "Your layer never applies dropout: its argument `dropout` does not reach its connections.",
                {"dropout": "0.0"},
            ),
            # --- DecoderLayer: memory
            "memory_normed_again": (
                "In pre-norm, you normalize the memory too. The encoder's final norm has already normalized the memory; the connection's norm is for the "
                "target's own vectors.",
                {
                    "x = _[1](x, ...)": "normed = _[1].norm(memory) if self.norm == 'pre' else memory\n"
                    "x = _[1](x, lambda x: self.src_attn(x, normed, normed, src_mask))"
                },
            ),
            "memory_detached": (
                "Your output is right, but the memory is detached, so no gradient flows back into it. The encoder gets all its gradients through the memory.",
                {"2: lambda x: ...": "lambda x: self.src_attn(x, memory.detach(), memory.detach(), src_mask)"},
            ),
            "values_from_the_target": (
                "Your cross-attention takes its values from the target, so it mixes target vectors instead of source vectors. Keys and values should both "
                "come from the memory.",
                {"2: lambda x: ...": "lambda x: self.src_attn(x, memory, x, src_mask)"},
            ),
            "queries_from_the_source": (
                "In your cross-attention, the queries come from the source, and keys and values from the target. It should be the opposite: queries from the "
                "decoder, keys and values from the memory.",
                {"2: lambda x: ...": "lambda x: self.src_attn(memory, x, x, src_mask)"},
            ),
            "source_never_read": (
                "Your second attention attends to the target again, and the source is never used. The output of such a decoder is unrelated to the source.",
                {"2: lambda x: ...": "lambda x: self.src_attn(x, x, x, tgt_mask)"},
            ),
            "own_attention_reads_the_source": (
                "Your first attention uses the source. It should be self-attention: query, key and value should all come from the target.",
                {"self.self_attn(x, x, x, tgt_mask)": "self.self_attn(x, memory, memory, src_mask)"},
            ),
            "own_attention_used_again": (
                "You use `self_attn` for the source too, and `src_attn` is never used. Self-attention and cross-attention look for different things, so each "
                "needs its own projections.",
                {"self.src_attn": "self.self_attn"},
            ),
            "sublayers_called_at_once": (
                "You call attention yourself and pass its result to the connection. The connection expects a function: it decides when the sublayer is called, "
                "and on which x. Wrap each call in a `lambda`.",
                {"1: lambda x: _": "_", "2: lambda x: _": "_"},
            ),
            "first_connection_for_all": (
                "All three sublayers go through the first connection, so they share one norm, and the other two connections are never used or trained.",
                {"self.sublayer[1]": "self.sublayer[0]", "self.sublayer[2]": "self.sublayer[0]"},
            ),
            # --- DecoderLayer: masks
            "masks_in_torchs_order": (
                "Your layer takes `tgt_mask` before `src_mask`, like PyTorch's decoder layer. Here `src_mask` comes first.",
                {"forward(): src_mask=None": "masks=None", "forward(): tgt_mask=None": "src_mask=None", "forward(): masks=None": "tgt_mask=None"},
            ),
            "masks_swapped": (
                "Your masks are swapped: the causal mask is applied to the source, and the source's padding mask to the target. If both have the same length, no error "
                "is raised.",
                {
                    "x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))\n"
                    "x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))": "x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, src_mask))\n"
                    "x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, tgt_mask))"
                },
            ),
            "target_mask_for_the_source": (
                "You apply the target's mask to the source. Cross-attention may use the complete source: the first word of a translation can depend on the "
                "last word of the source.",
                {"src_mask": "tgt_mask"},
            ),
            "source_mask_for_the_target": (
                "You apply the source's mask to the target, and nothing hides the future.",
                {"tgt_mask": "src_mask"},
            ),
            "source_mask_not_passed_on": (
                "Your layer does not pass `src_mask` to cross-attention, so target tokens attend to the source's padding.",
                {"src_mask": ""},
            ),
            "target_mask_not_passed_on": (
                "Your layer does not pass `tgt_mask` to self-attention, so every token attends to the tokens to predict. The training loss would be very low, "
                "and the translations would be wrong.",
                {"tgt_mask": ""},
            ),
            "mask_made_by_the_layer": (
                "Your layer creates its own causal mask and ignores `tgt_mask`, which can hide more, such as padding. The caller decides what is hidden.",
                {"tgt_mask": "torch.ones(1, x.size(1), x.size(1), device=x.device).tril() > 0"},
            ),
            "target_mask_inverted": (
                "Your `tgt_mask` is inverted on its way to attention. True means *may be attended to* everywhere in this course; in PyTorch's own layers, it "
                "means the opposite.",
                {"tgt_mask": "None if tgt_mask is None else ~tgt_mask"},
            ),
            # --- DecoderLayer: order and connections
            "source_first": (
                "Your layer applies cross-attention before self-attention. Self-attention comes first.",
                {
                    "self.self_attn(x, x, x, tgt_mask)": "self.src_attn(x, memory, memory, src_mask)",
                    "2: lambda x: ...": "lambda x: self.self_attn(x, x, x, tgt_mask)",
                },
            ),
            "own_past_is_lost": (
                "The output of the first connection is lost. A connection does not change x in place. It returns a new tensor, which you must keep.",
                {"1: x = _": "_"},
            ),
            "first_connection_twice": (
                "Both attentions go through the first connection: they share a norm, and one of the other connections is never used or trained.",
                {"self.sublayer[1]": "self.sublayer[0]"},
            ),
            "no_connection_around_the_source": (
                "Cross-attention has no connection around it. A token would receive information from the source and lose its own.",
                {"self.sublayer[1](x, lambda x: _)": "_"},
            ),
            "all_three_see_the_unnormed": (
                "In pre-norm, all three sublayers get the layer's own x, which is not normalized. A connection calls your function with the normalized input: "
                "use that argument, not the x outside.",
                {"1: lambda x: _": "lambda _, x=x: _", "2: lambda x: _": "lambda _, x=x: _", "self.feed_forward": "lambda _: self.feed_forward(x)"},
            ),
            "only_the_queries_normed": (
                "In pre-norm, only the queries of your first attention are normalized; keys and values are the layer's own x. All three should be the tensor that the "
                "connection passes to your function.",
                {"1: lambda x: ...": "lambda y, x=x: self.self_attn(y, x, x, tgt_mask)"},
            ),
            "memory_returned_too": (
                "Your layer returns the memory as well. All layers use the same memory, so return only the target's vectors.",
                {"return _": "return _, memory"},
            ),
        },
    ),
    *of(
        "Decoder",
        {
            # --- Decoder
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
            "target_mask_only_for_the_first": (
                "Only your first layer gets `tgt_mask`. All later layers attend to the future, and a single leak is enough.",
                {
                    "for layer in self.layers:\n    ...": "for i, layer in enumerate(self.layers):\n"
                    "    x = layer(x, memory, src_mask, tgt_mask if i == 0 else None)"
                },
            ),
            "masks_swapped_by_the_stack": (
                "Your stack passes the masks to the layers in the wrong order: a layer takes `src_mask` first.",
                {"layer(x, memory, src_mask, tgt_mask)": "layer(x, memory, tgt_mask, src_mask)"},
            ),
            "source_mask_not_given_to_the_layers": (
                "Your stack does not pass `src_mask` to its layers, so target tokens attend to the source's padding.",
                {"src_mask": "None"},
            ),
            "target_mask_not_given_to_the_layers": (
                "Your stack does not pass `tgt_mask` to its layers, so every token attends to the tokens to predict.",
                {"tgt_mask": ""},
            ),
            "memory_from_the_layer_before": (
                "From the second layer on, your memory is the output of the previous layer. Every layer must attend to the same memory, the output of the "
                "encoder.",
                {"x = _": "x = _\nmemory = x"},
            ),
            "target_and_memory_swapped": (
                "Your stack passes memory and target to the layers in the wrong order. The target comes first.",
                {"layer(x, memory, src_mask, tgt_mask)": "layer(memory, x, src_mask, tgt_mask)"},
            ),
            "all_layers_read_the_input": (
                "Each of your layers gets the input of the stack, so only the last layer has an effect. Each layer should get the output of the previous "
                "layer.",
                {"for layer in self.layers:\n    ...": "first = x\nfor layer in self.layers:\n    x = layer(first, memory, src_mask, tgt_mask)"},
            ),
            "return_in_the_loop": (
                "Your stack returns after its first layer: the `return` is inside the loop.",
                {"x = _": "x = _\nreturn x if self.norm is None else self.norm(x)"},
            ),
        },
    ),
]
