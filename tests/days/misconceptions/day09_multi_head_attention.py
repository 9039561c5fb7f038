"""Day 9: what goes wrong with heads: views, projections, masks, weights that are kept, dropout."""

from dataclasses import replace

from course.judging.misconceptions import Misconception

NAME = "MultiHeadedAttention"
SPLIT = ".unflatten(-1, (self.h, -1)).transpose(1, 2)"
Q, K, V = (
    f"self.w_{role}({name}){SPLIT}"
    for role, name in zip("qkv", ("query", "key", "value"), strict=True)
)
JOIN = "heads.transpose(1, 2).flatten(-2)"
MIX = f"self.w_o({JOIN})"
ATTEND = "heads, weights = attention(q, k, v, mask, self.dropout)"
CALL = "attention(q, k, v, mask, self.dropout)"
MASK_AXIS = "mask = mask.unsqueeze(1)"
KEEP = "self.weights = weights.detach()"
NONE_AT_FIRST = "self.weights: Tensor | None = None"
LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_O = (
    f"self.w_{role} = nn.Linear(d_model, d_model)" for role in "qkvo"
)
DROPOUT = "self.dropout = nn.Dropout(dropout)"


def everywhere(old: str, new: str) -> dict[str, str]:
    """The same change in the lines of query, key and value."""
    return {line: line.replace(old, new) for line in (Q, K, V)}


def written_out(fill: str, weights: str = "scores.softmax(dim=-1)") -> dict[str, str]:
    """Attention written out on the spot, in the inputs' dtype, with this fill and these weights. The call
    stays as it is, for a second mistake in it."""
    lines = (
        "def written_out_attention(q, k, v, mask=None, dropout=None):",
        "    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5",
        f"    scores = scores if mask is None else scores.masked_fill(~mask, {fill})",
        f"    weights = {weights}",
        "    weights = weights if dropout is None else dropout(weights)",
        "    return weights @ v, weights",
        "heads, weights = written_out_attention(",
    )
    return {"heads, weights = attention(": "\n            ".join(lines)}


WITHOUT_THE_SWITCH = [
    # --- what there is to learn
    Misconception(
        "no_biases",
        NAME,
        "Your projections have no biases. The paper's formula shows none, and some models leave them out; here each of the four "
        "has one, as `nn.Linear` gives by itself.",
        {
            line: line.replace("d_model)", "d_model, bias=False)")
            for line in (LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_O)
        },
    ),
    Misconception(
        "no_biases_but_the_last",
        NAME,
        "Your `w_q`, `w_k` and `w_v` have no biases. Some models leave them out; here each of the four has one, as `nn.Linear` gives by itself.",
        {
            line: line.replace("d_model)", "d_model, bias=False)")
            for line in (LINEAR_Q, LINEAR_K, LINEAR_V)
        },
    ),
    Misconception(
        "projections_in_a_list",
        NAME,
        "Your four projections are nameless entries of a list. Here they are attributes of the module, `w_q`, `w_k`, `w_v` and `w_o`: "
        "weights are saved, loaded and given by these names.",
        {
            LINEAR_Q: "self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])",
            LINEAR_K: "",
            LINEAR_V: "",
            LINEAR_O: "",
            Q: Q.replace("w_q", "linears[0]"),
            K: K.replace("w_k", "linears[1]"),
            V: V.replace("w_v", "linears[2]"),
            MIX: MIX.replace("w_o", "linears[3]"),
        },
    ),
    Misconception(
        "projections_in_a_plain_list",
        NAME,
        "Your projections lie in a plain Python list (or dict), where `nn.Module` does not see them: they are in no state dict, and no "
        "optimiser will ever train them. Make them attributes of the module, each by its own name.",
        {
            LINEAR_Q: "self.linears = [nn.Linear(d_model, d_model) for _ in range(4)]",
            LINEAR_K: "",
            LINEAR_V: "",
            LINEAR_O: "",
            Q: Q.replace("w_q", "linears[0]"),
            K: K.replace("w_k", "linears[1]"),
            V: V.replace("w_v", "linears[2]"),
            MIX: MIX.replace("w_o", "linears[3]"),
        },
    ),
    Misconception(
        "projections_in_one",
        NAME,
        "You have one projection of three times the width for query, key and value together. That is how GPT does it, where all three come "
        "from the same tokens. Here they need not, and each has a projection of its own: `w_q`, `w_k`, `w_v`.",
        {
            LINEAR_Q: "self.w_qkv = nn.Linear(d_model, 3 * d_model)",
            LINEAR_K: "",
            LINEAR_V: "",
            Q: Q.replace("w_q(query)", "w_qkv(query).chunk(3, dim=-1)[0]"),
            K: K.replace("w_k(key)", "w_qkv(key).chunk(3, dim=-1)[1]"),
            V: V.replace("w_v(value)", "w_qkv(value).chunk(3, dim=-1)[2]"),
        },
    ),
    Misconception(
        "one_linear_named_three_times",
        NAME,
        "Your `w_q`, `w_k` and `w_v` are one and the same layer under three names, so there is one matrix to learn. What a token looks for, what it "
        "can be found by and what it hands over are three things: make three layers.",
        {LINEAR_K: "self.w_k = self.w_q", LINEAR_V: "self.w_v = self.w_q"},
    ),
    Misconception(
        "one_linear_named_four_times",
        NAME,
        "Your four projections are one and the same layer under four names, so there is one matrix to learn: `[layer] * 4` repeats a reference, it "
        "copies nothing. Make four layers.",
        {
            LINEAR_K: "self.w_k = self.w_q",
            LINEAR_V: "self.w_v = self.w_q",
            LINEAR_O: "self.w_o = self.w_q",
        },
    ),
    Misconception(
        "as_wide_as_one_head",
        NAME,
        "Your projections of query, key and value are as wide as a single head. Each of the three holds the matrices of all h heads side by "
        "side, so it is d_model wide; splitting comes after.",
        {
            line: line.replace("d_model)", "d_model // h)")
            for line in (LINEAR_Q, LINEAR_K, LINEAR_V)
        },
    ),
    Misconception(
        "heads_of_full_width",
        NAME,
        "Each of your heads is d_model wide. In the paper (§3.2.2) the heads share out the width: d_k = d_model / h, so that h heads cost "
        "about as much as one of full width.",
        {
            **{
                line: line.replace("d_model)", "h * d_model)")
                for line in (LINEAR_Q, LINEAR_K, LINEAR_V)
            },
            LINEAR_O: LINEAR_O.replace("(d_model,", "(h * d_model,"),
        },
    ),
    Misconception(
        "no_output_projection",
        NAME,
        "You have no `w_o`, or it is never used: your output is the heads laid side by side. Without the output projection what head 0 has found stays in the "
        "first d_k features for good; w_o lets all heads write everywhere.",
        {LINEAR_O: "", MIX: JOIN},
    ),
    Misconception(
        "output_projection_unused",
        NAME,
        "You have `w_o`, but your output is the heads laid side by side, without it. Then what head 0 has found stays in the first d_k "
        "features; w_o lets all heads write everywhere.",
        {MIX: JOIN},
    ),
    # --- the names of other things
    Misconception(
        "weights_as_a_buffer",
        NAME,
        "Your weights are a buffer, so that after a call they are in the state dict: a model saved then does not load into a new one, "
        "which has none yet. A plain attribute is enough for something one only looks at.",
        {NONE_AT_FIRST: 'self.register_buffer("weights", None)'},
    ),
    Misconception(
        "weights_under_another_name",
        NAME,
        "Your module has no attribute `weights`. The last call's attention weights are to be found there, whatever else they are called in other code.",
        {NONE_AT_FIRST: "self.attn = None", KEEP: "self.attn = weights.detach()"},
    ),
    Misconception(
        "weights_missing_at_first",
        NAME,
        "`weights` is there only after the first call. Whoever looks before gets an AttributeError; it should be None.",
        {NONE_AT_FIRST: ""},
    ),
    # --- which goes through what
    Misconception(
        "query_and_key_projections_swapped",
        NAME,
        "Your query goes through `w_k` and your key through `w_q`. Each by its own, or loaded weights mean something else.",
        {Q: Q.replace("w_q", "w_k"), K: K.replace("w_k", "w_q")},
    ),
    Misconception(
        "one_projection_for_all",
        NAME,
        "Query, key and value all go through `w_q`. With one projection for queries and keys a token is always found best by what it asks "
        "itself; each of the three has its own.",
        {K: K.replace("w_k", "w_q"), V: V.replace("w_v", "w_q")},
    ),
    Misconception(
        "key_projected_by_w_q",
        NAME,
        "Your key goes through `w_q` instead of `w_k`. What a token looks for and what it can be found by are two things.",
        {K: K.replace("w_k", "w_q")},
    ),
    Misconception(
        "value_projected_by_w_k",
        NAME,
        "Your value goes through `w_k` instead of `w_v`. What a token can be found by and what it hands over are two things.",
        {V: V.replace("w_v", "w_k")},
    ),
    Misconception(
        "value_from_key",
        NAME,
        "Your values are made from the key. In the paper's model the two are the same tokens, but `value` is an argument of its own "
        "because they need not be.",
        {V: V.replace("(value)", "(key)")},
    ),
    Misconception(
        "value_from_query",
        NAME,
        "Your values are made from the query. A query only asks; what it receives comes from `value`.",
        {V: V.replace("(value)", "(query)")},
    ),
    Misconception(
        "all_from_query",
        NAME,
        "Your keys and values are made from the query: this is self-attention whatever the caller passes. A decoder asks a sequence "
        "that is not its own.",
        {K: K.replace("(key)", "(query)"), V: V.replace("(value)", "(query)")},
    ),
    # --- heads
    Misconception(
        "one_wide_head",
        NAME,
        "You attend without splitting: that is one head of width d_model, whatever h is. One head has one set of weights a query; h heads "
        "can look at h places at once.",
        everywhere("(self.h, -1)", "(1, -1)"),
    ),
    Misconception(
        "keys_as_long_as_queries",
        NAME,
        "You cut key and value into heads by the query's length, which fits only in self-attention. A decoder looks at a source that is longer or "
        "shorter than what it has said: each of the three has its own length.",
        everywhere(
            SPLIT,
            ".view(*query.shape[:2], self.h, query.size(-1) // self.h).transpose(1, 2)",
        ),
    ),
    Misconception(
        "split_and_join_without_transpose",
        NAME,
        "You get the shape (B, h, T, d_k) by a view alone, and go back by a view as well. A view keeps the numbers in their order: each of your heads holds "
        "all features of a few tokens, not a few features of all tokens. Cut the last axis in two, then move the heads forward.",
        everywhere(
            SPLIT,
            ".unflatten(-1, (self.h, -1)).contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
        )
        | {JOIN: "heads.reshape(query.shape)"},
    ),
    Misconception(
        "split_without_transpose",
        NAME,
        "You get the shape (B, h, T, d_k) by a view alone. A view keeps the numbers in their order: each of your heads holds all features of "
        "a few tokens, not a few features of all tokens. Cut the last axis in two, then move the heads forward.",
        everywhere(SPLIT, ".reshape(len(query), self.h, -1, query.size(-1) // self.h)"),
    ),
    Misconception(
        "join_without_transpose",
        NAME,
        "You join the heads by a view or reshape of (B, h, T, d_k). It keeps the numbers in their order, head by head, so a row of your result "
        "holds several tokens of one head. Bring each token's pieces together first.",
        {JOIN: "heads.reshape(query.shape)"},
    ),
    Misconception(
        "view_after_transpose",
        NAME,
        "You call `view` on a tensor that has just been transposed. A view cannot change the order in memory, and says so. "
        "Either copy first, or use what copies where it must.",
        {JOIN: "heads.transpose(1, 2).view(query.shape)"},
    ),
    Misconception(
        "heads_interleaved",
        NAME,
        "Your heads take every h-th feature: head 0 features 0, h, 2h … A head owns neighbours, i·d_k to (i+1)·d_k − 1: the heads' matrices "
        "lie side by side. So the axis of the heads comes before that of their features.",
        everywhere(SPLIT, ".unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)"),
    ),
    Misconception(
        "heads_interleaved_and_back",
        NAME,
        "Your heads take every h-th feature, and put them back there. That is a model of its own and would learn, but with weights that were made for heads side by "
        "side it gives something else: head i owns features i·d_k to (i+1)·d_k − 1.",
        everywhere(SPLIT, ".unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)")
        | {JOIN: "heads.permute(0, 2, 3, 1).flatten(-2)"},
    ),
    Misconception(
        "join_interleaved",
        NAME,
        "You lay the heads together feature by feature: the first of every head, then the second of every head. They belong side by side, "
        "the whole of head 0 first.",
        {JOIN: "heads.permute(0, 2, 3, 1).flatten(-2)"},
    ),
    Misconception(
        "h_and_d_k_swapped",
        NAME,
        "You have d_k heads of width h: the two have changed places where the last axis is cut. h is the number of heads.",
        everywhere("(self.h, -1)", "(-1, self.h)"),
    ),
    Misconception(
        "heads_attend_to_heads",
        NAME,
        "Your heads were cut, but not moved forward: attention works on the last two axes, and with (B, T, h, d_k) these are heads and "
        "features. So the heads of one token attend to each other, and tokens never meet.",
        everywhere(".transpose(1, 2)", "") | {JOIN: "heads.flatten(-2)"},
    ),
    Misconception(
        "time_comes_first",
        NAME,
        "You take the first axis for time and the second for the batch, as `nn.MultiheadAttention` does unless it is told `batch_first`. Here the "
        "batch comes first; your sequences attend to each other.",
        everywhere(".transpose(1, 2)", ".permute(1, 2, 0, 3)")
        | {JOIN: "heads.permute(2, 0, 1, 3).flatten(-2)"},
    ),
    Misconception(
        "heads_averaged",
        NAME,
        "You average the heads' weights, and every head uses the average. Then all heads look at the same places, and one would have done.",
        {
            ATTEND: f"{ATTEND}\n            weights = weights.mean(dim=1, keepdim=True).expand_as(weights)\n"
            "            heads = weights @ v"
        },
    ),
    Misconception(
        "softmax_over_heads",
        NAME,
        "Your softmax runs over the heads: for each pair of tokens the heads share out a 1 among themselves. Every head has a softmax of "
        "its own, over the keys.",
        written_out("-1e4", "scores.softmax(dim=1)"),
    ),
    # --- the scale
    Misconception(
        "scaled_by_d_model",
        NAME,
        "Your scores are divided by √d_model. Inside a head a query is only d_k wide, and √d_k is the deviation of its dot products; your "
        "heads look at everything more evenly than they should.",
        {CALL: CALL.replace("(q,", "(q / self.h**0.5,")},
    ),
    Misconception(
        "scaled_twice",
        NAME,
        "Your scores are divided by √d_k twice. `attention` does it already.",
        {CALL: CALL.replace("(q,", "(q / q.size(-1) ** 0.5,")},
    ),
    Misconception(
        "not_scaled",
        NAME,
        "Your scores are not divided by √d_k. Heads are attention as it was on day 8, scale included; `attention` may be imported.",
        {CALL: CALL.replace("(q,", "(q * q.size(-1) ** 0.5,")},
    ),
    # --- the mask
    Misconception(
        "mask_ignored",
        NAME,
        "Your result is what comes out without the mask: it is taken, but changes nothing.",
        {CALL: CALL.replace("mask", "None")},
    ),
    Misconception(
        "mask_inverted",
        NAME,
        "Your mask works the wrong way round: it hides exactly what it should show. True means *may be attended to* here; in "
        "`nn.MultiheadAttention` it means the opposite.",
        {MASK_AXIS: "mask = ~mask.unsqueeze(1)"},
    ),
    Misconception(
        "mask_without_heads",
        NAME,
        "Your mask has no axis of its own for the heads. Shapes are matched from the right, so the mask's batch axis meets the heads: "
        "that raises an error, or, where B equals h, head 2 of every sequence gets the mask of sequence 2.",
        {MASK_AXIS: "mask = mask[:]"},
    ),
    Misconception(
        "mask_axis_in_front",
        NAME,
        "Your mask gets its new axis in front of the batch, and so its batch axis meets the heads: that raises an error, or, where B "
        "equals h, head 2 of every sequence gets the mask of sequence 2. Heads come after the batch.",
        {MASK_AXIS: "mask = mask.unsqueeze(0)"},
    ),
    Misconception(
        "mask_axis_after_queries",
        NAME,
        "Your mask gets its new axis after the queries, (B, T_q, 1, T_k), so its rows are dealt out to the heads. A padding mask has one "
        "row and survives that, a causal one does not. Heads are the second axis.",
        {MASK_AXIS: "mask = mask.unsqueeze(2)"},
    ),
    Misconception(
        "mask_twice_an_axis",
        NAME,
        "Your mask gets two new axes, as a mask of shape (B, T_k) would need. This one is (1|B, 1|T_q, T_k) already, and lacks only that of the heads.",
        {MASK_AXIS: "mask = mask.unsqueeze(1).unsqueeze(2)"},
    ),
    Misconception(
        "mask_tiled",
        NAME,
        "You repeat the mask for the heads in the wrong order: all sequences, then all sequences again. With batch and heads as two axes the "
        "heads of one sequence follow each other, so its mask has to come h times in a row.",
        {
            MASK_AXIS: "mask = mask.expand(len(query), -1, -1).repeat(self.h, 1, 1)\n"
            "            mask = mask.unflatten(0, (len(query), self.h))"
        },
    ),
    Misconception(
        "mask_on_first_head",
        NAME,
        "Your mask holds in the first head only; the others see everything. It is the same for every head.",
        {
            MASK_AXIS: "mask = mask.unsqueeze(1).repeat(1, self.h, 1, 1)\n            mask[:, 1:] = True",
        },
    ),
    Misconception(
        "minus_1e9_in_halves",
        NAME,
        "You fill forbidden scores with −1e9, or lower still, in the inputs' own dtype. float16 ends at −65504, so that torch refuses; and a "
        "query that may attend to nothing attends to everything equally, where its heads should give 0. `attention` of day 8 sees to both, and may be "
        "imported.",
        written_out("-1e9"),
    ),
    Misconception(
        "empty_row_uniform",
        NAME,
        "A query that may attend to nothing attends to everything equally in your answer: all its scores are equally low. Its heads should "
        "give 0, as `attention` of day 8 does; the output is then the bias of `w_o`.",
        written_out("torch.finfo(scores.dtype).min"),
    ),
    Misconception(
        "empty_row_nan",
        NAME,
        "A query that may attend to nothing gives NaN in your answer: all its scores are −∞, and −∞ − (−∞) is no number. Its heads should "
        "give 0, as `attention` of day 8 does; the output is then the bias of `w_o`.",
        written_out("-math.inf"),
    ),
    Misconception(
        "mask_added",
        NAME,
        "You add the mask to the scores. That is for masks of 0 and −∞; ours are boolean, and True counts as 1 in a sum: a permitted key "
        "only becomes e times likelier.",
        {
            k: v.replace("scores.masked_fill(~mask, 0)", "scores + mask")
            for k, v in written_out("0").items()
        },
    ),
    Misconception(
        "empty_row_zero",
        NAME,
        "Where a query may attend to nothing your output is 0. The heads give 0 there, and after that comes the output projection as "
        "everywhere: what is left is its bias.",
        {
            f"return {MIX}": f"out = {MIX}\n        return out if mask is None else out * mask[:, 0].any(-1, keepdim=True)"
        },
    ),
    # --- the weights
    Misconception(
        "weights_not_kept",
        NAME,
        "Your output is right, but `weights` stays None after a call. Keep what `attention` returns beside its output.",
        {KEEP: "self.weights = None"},
    ),
    Misconception(
        "weights_kept_in_training_only",
        NAME,
        "Your weights are kept in training mode only. It is in evaluation mode that one mostly wants to look at them.",
        {KEEP: "self.weights = weights.detach() if self.training else self.weights"},
    ),
    Misconception(
        "weights_of_the_first_call",
        NAME,
        "Your weights are those of the first call for ever. Each call replaces them.",
        {KEEP: "self.weights = weights.detach() if self.weights is None else self.weights"},
    ),
    Misconception(
        "weights_averaged_over_heads",
        NAME,
        "Your `weights` are averaged over the heads, as `nn.MultiheadAttention` returns them unless told otherwise. Wanted are each head's own, "
        "(B, h, T_q, T_k): what heads differ in is what one looks at them for.",
        {KEEP: "self.weights = weights.mean(dim=1).detach()"},
    ),
    Misconception(
        "weights_summed_over_heads",
        NAME,
        "Your `weights` are summed over the heads. Wanted are each head's own, (B, h, T_q, T_k).",
        {KEEP: "self.weights = weights.sum(dim=1).detach()"},
    ),
    Misconception(
        "weights_of_one_head",
        NAME,
        "Your `weights` are those of one head only. Wanted are those of all, (B, h, T_q, T_k).",
        {KEEP: "self.weights = weights[:, 0].detach()"},
    ),
    Misconception(
        "weights_are_scores",
        NAME,
        "What you keep in `weights` are scores, before the softmax. Weights are what the values are mixed by: rows that sum to 1.",
        {KEEP: "self.weights = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).detach()"},
    ),
    Misconception(
        "returns_weights_too",
        NAME,
        "You return a pair, the output and the weights, as `nn.MultiheadAttention` does. Only the output is wanted: a layer will add it to "
        "something. The weights are kept in the attribute.",
        {f"return {MIX}": f"return {MIX}, self.weights"},
    ),
    # --- dropout
    Misconception(
        "dropout_unused",
        NAME,
        "Nothing is dropped in your answer: there may be a dropout, but `attention` never gets it.",
        {CALL: CALL.replace(", self.dropout", "")},
    ),
    Misconception(
        "dropout_on_output",
        NAME,
        "You drop entries of the output instead of weights. That dropout exists as well, but it belongs to the residual connection (day 11); here "
        "it is the weights that are dropped.",
        {CALL: CALL.replace(", self.dropout", ""), f"return {MIX}": f"return self.dropout({MIX})"},
    ),
    Misconception(
        "dropout_on_output_too",
        NAME,
        "You drop weights, as you should, and entries of the output as well. The second dropout belongs to the residual connection (day 11), "
        "which would then drop twice.",
        {f"return {MIX}": f"return self.dropout({MIX})"},
    ),
    Misconception(
        "dropout_on_heads",
        NAME,
        "You drop features of the heads' outputs, after the values were mixed. It is the weights that are dropped, before: a query then misses a "
        "key as a whole.",
        {
            CALL: CALL.replace(", self.dropout", ""),
            "heads.transpose(1, 2)": "self.dropout(heads).transpose(1, 2)",
        },
    ),
    Misconception(
        "dropout_always_on",
        NAME,
        "You drop in evaluation mode as well. `F.dropout` does not know the module's mode unless it is told; an `nn.Dropout` that is part of the module "
        "does.",
        {CALL: CALL.replace("self.dropout", "lambda w: F.dropout(w, self.dropout.p)")},
    ),
    Misconception(
        "dropout_p_not_passed",
        NAME,
        "Your dropout has torch's own default, one half, whatever the caller asks for. The probability is an argument: pass it on.",
        {DROPOUT: "self.dropout = nn.Dropout()"},
    ),
    Misconception(
        "dropout_of_a_tenth",
        NAME,
        "Your dropout is 0.1 whatever the caller asks for, 0 included: in training the same input gives something else each time. The paper's 0.1 is "
        "only the default.",
        {DROPOUT: "self.dropout = nn.Dropout(0.1)"},
    ),
    Misconception(
        "dropout_not_by_default",
        NAME,
        "Where the caller names no probability, nothing is dropped. The default is the paper's 0.1.",
        {"dropout: float = 0.1": "dropout: float = 0.0"},
    ),
    Misconception(
        "dropout_keeps_for_drops",
        NAME,
        "Your dropout keeps with the probability it should drop with. In torch and in the paper p is the share that is dropped.",
        {DROPOUT: "self.dropout = nn.Dropout(1 - dropout)"},
    ),
    Misconception(
        "dropout_is_a_number",
        NAME,
        "You hand `attention` the probability. It wants something it can call on the weights, such as an `nn.Dropout`.",
        {DROPOUT: "self.dropout = dropout"},
    ),
    # --- what does not belong here
    Misconception(
        "residual_inside",
        NAME,
        "You add the query to the result. The shortcut comes with the layer (day 11); added here, it would be there twice.",
        {f"return {MIX}": f"return query + {MIX}"},
    ),
    Misconception(
        "projections_switched_off",
        NAME,
        "Your output is right, but `w_q`, `w_k` and `w_v` get no gradient: heads were detached, or made under `no_grad`. Only `w_o` could "
        "ever learn.",
        {"heads.transpose(1, 2)": "heads.detach().transpose(1, 2)"},
    ),
    Misconception(
        "weights_detached_before_use",
        NAME,
        "Your output is right, but `w_q` and `w_k` get no gradient: the weights were detached before they mixed the values. Detach a copy to "
        "look at, if you like, not those that are used.",
        {ATTEND: f"{ATTEND}\n            heads = weights.detach() @ v"},
    ),
    Misconception(
        "heads_in_float32",
        NAME,
        "Your heads are float32 whatever came in, and where `w_o` has another dtype it refuses them. `attention` widens inside where it has to, and gives "
        "back the dtype that it got.",
        {CALL: CALL.replace("q, k, v", "q.float(), k.float(), v.float()")},
    ),
]

SWITCH = "if self.keep_weights:"

MISCONCEPTIONS = [
    # An answer need not have the switch, so a wrong one ignores it, too. (The text stays findable for a second mistake.)
    *(
        replace(one, edits=one.edits | {SWITCH: f"if True:  # {SWITCH}"})
        for one in WITHOUT_THE_SWITCH
    ),
    Misconception(
        "fused_drops_in_evaluation_mode",
        NAME,
        "Where the weights are not kept, you drop in evaluation mode as well. The fused kernel is a function: it does not know the "
        "module's mode unless it is told.",
        {"self.dropout.p if self.training else 0.0": "self.dropout.p"},
    ),
]
