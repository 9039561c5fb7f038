"""Day 9: what goes wrong with heads: views, projections, masks, weights that are kept, dropout."""

from course.judging.misconceptions import of, on_devices


def written_out(scores: str, weights: str = "scores.softmax(dim=-1)") -> dict[str, str]:
    """Attention written out on the spot, in the inputs' dtype, with these masked scores and these weights."""
    own = f"""
def written_out_attention(q, k, v, mask=None, dropout=None):
    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
    scores = scores if mask is None else {scores}
    weights = {weights}
    weights = weights if dropout is None else dropout(weights)
    return weights @ v, weights
"""
    return {"heads, weights = _": f"{own}heads, weights = _", "attention": "written_out_attention"}


# An answer need not have the switch, so a wrong one ignores it, too.
SWITCH = {"self.keep_weights": "True or self.keep_weights"}
MISCONCEPTIONS = [
    *of(
        "MultiHeadedAttention",
        {
            id: (tell, edits | SWITCH)
            for id, (tell, edits) in {
                # --- what there is to learn
                "no_biases": (
                    "Your projections have no biases. The paper's formula shows none, and some models leave them out; here each of the four has one, as `nn.Linear` "
                    "gives by itself.",
                    {
                        "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_o = ...": "self.w_o = nn.Linear(d_model, d_model, bias=False)",
                    },
                ),
                "no_biases_but_the_last": (
                    "Your `w_q`, `w_k` and `w_v` have no biases. Some models leave them out; here each of the four has one, as `nn.Linear` gives by itself.",
                    {
                        "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_model, bias=False)",
                    },
                ),
                "projections_in_a_list": (
                    "Your four projections are nameless entries of a list. Here they are attributes of the module, `w_q`, `w_k`, `w_v` and `w_o`: weights are saved, "
                    "loaded and given by these names.",
                    {
                        "self.w_q = ...": "",
                        "self.w_k = ...": "",
                        "self.w_v = ...": "",
                        "self.w_o = ...": "self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])",
                        "self.w_q": "self.linears[0]",
                        "self.w_k": "self.linears[1]",
                        "self.w_v": "self.linears[2]",
                        "self.w_o": "self.linears[3]",
                    },
                ),
                "projections_in_a_plain_list": (
                    "Your projections lie in a plain Python list (or dict), where `nn.Module` does not see them: they are in no state dict, and no optimiser will ever "
                    "train them. Make them attributes of the module, each by its own name.",
                    {
                        "self.w_q = ...": "",
                        "self.w_k = ...": "",
                        "self.w_v = ...": "",
                        "self.w_o = ...": "self.linears = [nn.Linear(d_model, d_model) for _ in range(4)]",
                        "self.w_q": "self.linears[0]",
                        "self.w_k": "self.linears[1]",
                        "self.w_v": "self.linears[2]",
                        "self.w_o": "self.linears[3]",
                    },
                ),
                "projections_in_one": (
                    "You have one projection of three times the width for query, key and value together. That is how GPT does it, where all three come from the same "
                    "tokens. Here they need not, and each has a projection of its own: `w_q`, `w_k`, `w_v`.",
                    {
                        "self.w_q = ...": "",
                        "self.w_k = ...": "",
                        "self.w_v = ...": "self.w_qkv = nn.Linear(d_model, 3 * d_model)",
                        "self.w_q(query)": "self.w_qkv(query).chunk(3, dim=-1)[0]",
                        "self.w_k(key)": "self.w_qkv(key).chunk(3, dim=-1)[1]",
                        "self.w_v(value)": "self.w_qkv(value).chunk(3, dim=-1)[2]",
                    },
                ),
                "one_linear_named_three_times": (
                    "Your `w_q`, `w_k` and `w_v` are one and the same layer under three names, so there is one matrix to learn. What a token looks for, what it can be "
                    "found by and what it hands over are three things: make three layers.",
                    {"self.w_k = ...": "self.w_k = self.w_q", "self.w_v = ...": "self.w_v = self.w_q"},
                ),
                "one_linear_named_four_times": (
                    "Your four projections are one and the same layer under four names, so there is one matrix to learn: `[layer] * 4` repeats a reference, it copies "
                    "nothing. Make four layers.",
                    {"self.w_k = ...": "self.w_k = self.w_q", "self.w_v = ...": "self.w_v = self.w_q", "self.w_o = ...": "self.w_o = self.w_q"},
                ),
                "as_wide_as_one_head": (
                    "Your projections of query, key and value are as wide as a single head. Each of the three holds the matrices of all h heads side by side, so it is "
                    "d_model wide; splitting comes after.",
                    {
                        "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model // h)",
                        "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_model // h)",
                        "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_model // h)",
                    },
                ),
                "heads_of_full_width": (
                    "Each of your heads is d_model wide. In the paper (§3.2.2) the heads share out the width: d_k = d_model / h, so that h heads cost about as much as "
                    "one of full width.",
                    {
                        "self.w_q = ...": "self.w_q = nn.Linear(d_model, h * d_model)",
                        "self.w_k = ...": "self.w_k = nn.Linear(d_model, h * d_model)",
                        "self.w_v = ...": "self.w_v = nn.Linear(d_model, h * d_model)",
                        "self.w_o = ...": "self.w_o = nn.Linear(h * d_model, d_model)",
                    },
                ),
                "no_output_projection": (
                    "You have no `w_o`, or it is never used: your output is the heads laid side by side. Without the output projection what head 0 has found stays in "
                    "the first d_k features for good; w_o lets all heads write everywhere.",
                    {"self.w_o = ...": "", "self.w_o(_)": "_"},
                ),
                "output_projection_unused": (
                    "You have `w_o`, but your output is the heads laid side by side, without it. Then what head 0 has found stays in the first d_k features; w_o lets "
                    "all heads write everywhere.",
                    {"self.w_o(_)": "_"},
                ),
                # --- the names of other things
                "weights_as_a_buffer": (
                    "Your weights are a buffer, so that after a call they are in the state dict: a model saved then does not load into a new one, which has none yet. "
                    "A plain attribute is enough for something one only looks at.",
                    {"self.weights: Tensor | None = None": "self.register_buffer('weights', None)"},
                ),
                "weights_under_another_name": (
                    "Your module has no attribute `weights`. The last call's attention weights are to be found there, whatever else they are called in other code.",
                    {"self.weights: Tensor | None = None": "self.attn = None", "self.weights = _": "self.attn = _"},
                ),
                "weights_missing_at_first": (
                    "`weights` is there only after the first call. Whoever looks before gets an AttributeError; it should be None.",
                    {"self.weights: Tensor | None = None": ""},
                ),
                # --- which goes through what
                "query_and_key_projections_swapped": (
                    "Your query goes through `w_k` and your key through `w_q`. Each by its own, or loaded weights mean something else.",
                    {
                        "q = self.w_q(query).unflatten(-1, (self.h, -1)).transpose(1, 2)\n"
                        "k = self.w_k(key).unflatten(-1, (self.h, -1)).transpose(1, 2)": "q = self.w_k(query).unflatten(-1, (self.h, -1)).transpose(1, 2)\n"
                        "k = self.w_q(key).unflatten(-1, (self.h, -1)).transpose(1, 2)"
                    },
                ),
                "one_projection_for_all": (
                    "Query, key and value all go through `w_q`. With one projection for queries and keys a token is always found best by what it asks itself; each of "
                    "the three has its own.",
                    {"self.w_k": "self.w_q", "self.w_v": "self.w_q"},
                ),
                "key_projected_by_w_q": (
                    "Your key goes through `w_q` instead of `w_k`. What a token looks for and what it can be found by are two things.",
                    {"self.w_k": "self.w_q"},
                ),
                "value_projected_by_w_k": (
                    "Your value goes through `w_k` instead of `w_v`. What a token can be found by and what it hands over are two things.",
                    {"self.w_v": "self.w_k"},
                ),
                "value_from_key": (
                    "Your values are made from the key. In the paper's model the two are the same tokens, but `value` is an argument of its own because they need not "
                    "be.",
                    {"self.w_v(value)": "self.w_v(key)"},
                ),
                "value_from_query": (
                    "Your values are made from the query. A query only asks; what it receives comes from `value`.",
                    {"self.w_v(value)": "self.w_v(query)"},
                ),
                "all_from_query": (
                    "Your keys and values are made from the query: this is self-attention whatever the caller passes. A decoder asks a sequence that is not its own.",
                    {"self.w_k(key)": "self.w_k(query)", "self.w_v(value)": "self.w_v(query)"},
                ),
                # --- heads
                "one_wide_head": (
                    "You attend without splitting: that is one head of width d_model, whatever h is. One head has one set of weights a query; h heads can look at h "
                    "places at once.",
                    {
                        "self.w_q(query).unflatten(-1, (self.h, -1))": "self.w_q(query).unflatten(-1, (1, -1))",
                        "self.w_k(key).unflatten(-1, (self.h, -1))": "self.w_k(key).unflatten(-1, (1, -1))",
                        "self.w_v(value).unflatten(-1, (self.h, -1))": "self.w_v(value).unflatten(-1, (1, -1))",
                    },
                ),
                "keys_as_long_as_queries": (
                    "You cut key and value into heads by the query's length, which fits only in self-attention. A decoder looks at a source that is longer or shorter "
                    "than what it has said: each of the three has its own length.",
                    {
                        "self.w_q(query).unflatten(-1, (self.h, -1))": "self.w_q(query).view(*query.shape[:2], self.h, query.size(-1) // self.h)",
                        "self.w_k(key).unflatten(-1, (self.h, -1))": "self.w_k(key).view(*query.shape[:2], self.h, query.size(-1) // self.h)",
                        "self.w_v(value).unflatten(-1, (self.h, -1))": "self.w_v(value).view(*query.shape[:2], self.h, query.size(-1) // self.h)",
                    },
                ),
                "split_and_join_without_transpose": (
                    "You get the shape (B, h, T, d_k) by a view alone, and go back by a view as well. A view keeps the numbers in their order: each of your heads "
                    "holds all features of a few tokens, not a few features of all tokens. Cut the last axis in two, then move the heads forward.",
                    {
                        "q = _.transpose(1, 2)": "q = _.contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
                        "k = _.transpose(1, 2)": "k = _.contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
                        "v = _.transpose(1, 2)": "v = _.contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
                        "self.w_o(...)": "self.w_o(heads.reshape(query.shape))",
                    },
                ),
                "split_without_transpose": (
                    "You get the shape (B, h, T, d_k) by a view alone. A view keeps the numbers in their order: each of your heads holds all features of a few tokens, "
                    "not a few features of all tokens. Cut the last axis in two, then move the heads forward.",
                    {
                        "q = ...": "q = self.w_q(query).reshape(len(query), self.h, -1, query.size(-1) // self.h)",
                        "k = ...": "k = self.w_k(key).reshape(len(query), self.h, -1, query.size(-1) // self.h)",
                        "v = ...": "v = self.w_v(value).reshape(len(query), self.h, -1, query.size(-1) // self.h)",
                    },
                ),
                "join_without_transpose": (
                    "You join the heads by a view or reshape of (B, h, T, d_k). It keeps the numbers in their order, head by head, so a row of your result holds "
                    "several tokens of one head. Bring each token's pieces together first.",
                    {"self.w_o(...)": "self.w_o(heads.reshape(query.shape))"},
                ),
                "view_after_transpose": (
                    "You call `view` on a tensor that has just been transposed. A view cannot change the order in memory, and says so. Either copy first, or use what "
                    "copies where it must.",
                    {"_.flatten(-2)": "_.view(query.shape)"},
                ),
                "heads_interleaved": (
                    "Your heads take every h-th feature: head 0 features 0, h, 2h … A head owns neighbours, i·d_k to (i+1)·d_k − 1: the heads' matrices lie side by "
                    "side. So the axis of the heads comes before that of their features.",
                    {
                        "q = ...": "q = self.w_q(query).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "k = ...": "k = self.w_k(key).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "v = ...": "v = self.w_v(value).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                    },
                ),
                "heads_interleaved_and_back": (
                    "Your heads take every h-th feature, and put them back there. That is a model of its own and would learn, but with weights that were made for "
                    "heads side by side it gives something else: head i owns features i·d_k to (i+1)·d_k − 1.",
                    {
                        "q = ...": "q = self.w_q(query).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "k = ...": "k = self.w_k(key).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "v = ...": "v = self.w_v(value).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "heads.transpose(1, 2)": "heads.permute(0, 2, 3, 1)",
                    },
                ),
                "join_interleaved": (
                    "You lay the heads together feature by feature: the first of every head, then the second of every head. They belong side by side, the whole of "
                    "head 0 first.",
                    {"heads.transpose(1, 2)": "heads.permute(0, 2, 3, 1)"},
                ),
                "h_and_d_k_swapped": (
                    "You have d_k heads of width h: the two have changed places where the last axis is cut. h is the number of heads.",
                    {
                        "self.w_q(query).unflatten(-1, (self.h, -1))": "self.w_q(query).unflatten(-1, (-1, self.h))",
                        "self.w_k(key).unflatten(-1, (self.h, -1))": "self.w_k(key).unflatten(-1, (-1, self.h))",
                        "self.w_v(value).unflatten(-1, (self.h, -1))": "self.w_v(value).unflatten(-1, (-1, self.h))",
                    },
                ),
                "heads_attend_to_heads": (
                    "Your heads were cut, but not moved forward: attention works on the last two axes, and with (B, T, h, d_k) these are heads and features. So the "
                    "heads of one token attend to each other, and tokens never meet.",
                    {"q = _.transpose(1, 2)": "q = _", "k = _.transpose(1, 2)": "k = _", "v = _.transpose(1, 2)": "v = _", "heads.transpose(1, 2)": "heads"},
                ),
                "time_comes_first": (
                    "You take the first axis for time and the second for the batch, as `nn.MultiheadAttention` does unless it is told `batch_first`. Here the batch "
                    "comes first; your sequences attend to each other.",
                    {
                        "q = _.transpose(1, 2)": "q = _.permute(1, 2, 0, 3)",
                        "k = _.transpose(1, 2)": "k = _.permute(1, 2, 0, 3)",
                        "v = _.transpose(1, 2)": "v = _.permute(1, 2, 0, 3)",
                        "heads.transpose(1, 2)": "heads.permute(2, 0, 1, 3)",
                    },
                ),
                "heads_averaged": (
                    "You average the heads' weights, and every head uses the average. Then all heads look at the same places, and one would have done.",
                    {"self.weights = _": "weights = weights.mean(dim=1, keepdim=True).expand_as(weights)\nheads = weights @ v\nself.weights = _"},
                ),
                "softmax_over_heads": (
                    "Your softmax runs over the heads: for each pair of tokens the heads share out a 1 among themselves. Every head has a softmax of its own, over the "
                    "keys.",
                    written_out("scores.masked_fill(~mask, -1e4)", "scores.softmax(dim=1)"),
                ),
                # --- the scale
                "scaled_by_d_model": (
                    "Your scores are divided by √d_model. Inside a head a query is only d_k wide, and √d_k is the deviation of its dot products; your heads look at "
                    "everything more evenly than they should.",
                    {"attention(q, k, v, mask, _)": "attention(q / self.h**0.5, k, v, mask, _)"},
                ),
                "scaled_twice": (
                    "Your scores are divided by √d_k twice. `attention` does it already.",
                    {"attention(q, k, v, mask, _)": "attention(q / q.size(-1) ** 0.5, k, v, mask, _)"},
                ),
                "not_scaled": (
                    "Your scores are not divided by √d_k. Heads are attention as it was on day 8, scale included; `attention` may be imported.",
                    {"attention(q, k, v, mask, _)": "attention(q * q.size(-1) ** 0.5, k, v, mask, _)"},
                ),
                # --- the mask
                "mask_ignored": (
                    "Your result is what comes out without the mask: it is taken, but changes nothing.",
                    {"attention(q, k, v, mask, _)": "attention(q, k, v, None, _)"},
                ),
                "mask_inverted": (
                    "Your mask works the wrong way round: it hides exactly what it should show. True means *may be attended to* here; in `nn.MultiheadAttention` it "
                    "means the opposite.",
                    {"1: mask = _": "mask = ~_"},
                ),
                "mask_without_heads": (
                    "Your mask has no axis of its own for the heads. Shapes are matched from the right, so the mask's batch axis meets the heads: that raises an "
                    "error, or, where B equals h, head 2 of every sequence gets the mask of sequence 2.",
                    {"mask.unsqueeze(1)": "mask[:]"},
                ),
                "mask_axis_in_front": (
                    "Your mask gets its new axis in front of the batch, and so its batch axis meets the heads: that raises an error, or, where B equals h, head 2 of "
                    "every sequence gets the mask of sequence 2. Heads come after the batch.",
                    {"mask.unsqueeze(1)": "mask.unsqueeze(0)"},
                ),
                "mask_axis_after_queries": (
                    "Your mask gets its new axis after the queries, (B, T_q, 1, T_k), so its rows are dealt out to the heads. A padding mask has one row and survives "
                    "that, a causal one does not. Heads are the second axis.",
                    {"mask.unsqueeze(1)": "mask.unsqueeze(2)"},
                ),
                "mask_twice_an_axis": (
                    "Your mask gets two new axes, as a mask of shape (B, T_k) would need. This one is (1|B, 1|T_q, T_k) already, and lacks only that of the heads.",
                    {"1: mask = _": "mask = _.unsqueeze(2)"},
                ),
                "mask_tiled": (
                    "You repeat the mask for the heads in the wrong order: all sequences, then all sequences again. With batch and heads as two axes the heads of one "
                    "sequence follow each other, so its mask has to come h times in a row.",
                    {"1: mask = ...": "mask = mask.expand(len(query), -1, -1).repeat(self.h, 1, 1)\nmask = mask.unflatten(0, (len(query), self.h))"},
                ),
                "mask_on_first_head": (
                    "Your mask holds in the first head only; the others see everything. It is the same for every head.",
                    {"1: mask = _": "mask = _.repeat(1, self.h, 1, 1)\nmask[:, 1:] = True"},
                ),
                "minus_1e9_in_halves": (
                    "You fill forbidden scores with −1e9, or lower still, in the inputs' own dtype. float16 ends at −65504, so that torch refuses; and a query that "
                    "may attend to nothing attends to everything equally, where its heads should give 0. `attention` of day 8 sees to both, and may be imported.",
                    written_out("scores.masked_fill(~mask, -1e9)"),
                ),
                "empty_row_uniform": (
                    "A query that may attend to nothing attends to everything equally in your answer: all its scores are equally low. Its heads should give 0, as "
                    "`attention` of day 8 does; the output is then the bias of `w_o`.",
                    written_out("scores.masked_fill(~mask, torch.finfo(scores.dtype).min)"),
                ),
                "empty_row_nan": (
                    "A query that may attend to nothing gives NaN in your answer: all its scores are −∞, and −∞ − (−∞) is no number. Its heads should give 0, as "
                    "`attention` of day 8 does; the output is then the bias of `w_o`.",
                    written_out("scores.masked_fill(~mask, -math.inf)"),
                ),
                "mask_added": (
                    "You add the mask to the scores. That is for masks of 0 and −∞; ours are boolean, and True counts as 1 in a sum: a permitted key only becomes e "
                    "times likelier.",
                    written_out("scores + mask"),
                ),
                "empty_row_zero": (
                    "Where a query may attend to nothing your output is 0. The heads give 0 there, and after that comes the output projection as everywhere: what is "
                    "left is its bias.",
                    {"4: return _": "out = _\nreturn out if mask is None else out * mask[:, 0].any(-1, keepdim=True)"},
                ),
                # --- the weights
                "weights_not_kept": (
                    "Your output is right, but `weights` stays None after a call. Keep what `attention` returns beside its output.",
                    {"weights.detach()": "None"},
                ),
                "weights_kept_in_training_only": (
                    "Your weights are kept in training mode only. It is in evaluation mode that one mostly wants to look at them.",
                    {"weights.detach()": "weights.detach() if self.training else self.weights"},
                ),
                "weights_of_the_first_call": (
                    "Your weights are those of the first call for ever. Each call replaces them.",
                    {"weights.detach()": "weights.detach() if self.weights is None else self.weights"},
                ),
                "weights_averaged_over_heads": (
                    "Your `weights` are averaged over the heads, as `nn.MultiheadAttention` returns them unless told otherwise. Wanted are each head's own, (B, h, "
                    "T_q, T_k): what heads differ in is what one looks at them for.",
                    {"weights.detach": "weights.mean(dim=1).detach"},
                ),
                "weights_summed_over_heads": (
                    "Your `weights` are summed over the heads. Wanted are each head's own, (B, h, T_q, T_k).",
                    {"weights.detach": "weights.sum(dim=1).detach"},
                ),
                "weights_of_one_head": (
                    "Your `weights` are those of one head only. Wanted are those of all, (B, h, T_q, T_k).",
                    {"weights.detach": "weights[:, 0].detach"},
                ),
                "weights_are_scores": (
                    "What you keep in `weights` are scores, before the softmax. Weights are what the values are mixed by: rows that sum to 1.",
                    {"weights.detach": "(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).detach"},
                ),
                "returns_weights_too": (
                    "You return a pair, the output and the weights, as `nn.MultiheadAttention` does. Only the output is wanted: a layer will add it to something. The "
                    "weights are kept in the attribute.",
                    {"4: return _": "return _, self.weights"},
                ),
                # --- dropout
                "dropout_unused": (
                    "Nothing is dropped in your answer: there may be a dropout, but `attention` never gets it.",
                    {"self.dropout": ""},
                ),
                "dropout_on_output": (
                    "You drop entries of the output instead of weights. That dropout exists as well, but it belongs to the residual connection (day 11); here it is "
                    "the weights that are dropped.",
                    {"self.dropout": "", "4: return _": "return self.dropout(_)"},
                ),
                "dropout_on_output_too": (
                    "You drop weights, as you should, and entries of the output as well. The second dropout belongs to the residual connection (day 11), which would "
                    "then drop twice.",
                    {"4: return _": "return self.dropout(_)"},
                ),
                "dropout_on_heads": (
                    "You drop features of the heads' outputs, after the values were mixed. It is the weights that are dropped, before: a query then misses a key as a "
                    "whole.",
                    {"self.dropout": "", "heads.transpose": "self.dropout(heads).transpose"},
                ),
                "dropout_always_on": (
                    "You drop in evaluation mode as well. `F.dropout` does not know the module's mode unless it is told; an `nn.Dropout` that is part of the module "
                    "does.",
                    {"3: self.dropout": "lambda w: F.dropout(w, self.dropout.p)"},
                ),
                "dropout_p_not_passed": (
                    "Your dropout has torch's own default, one half, whatever the caller asks for. The probability is an argument: pass it on.",
                    {"nn.Dropout(dropout)": "nn.Dropout()"},
                ),
                "dropout_of_a_tenth": (
                    "Your dropout is 0.1 whatever the caller asks for, 0 included: in training the same input gives something else each time. The paper's 0.1 is only "
                    "the default.",
                    {"nn.Dropout(dropout)": "nn.Dropout(0.1)"},
                ),
                "dropout_not_by_default": (
                    "Where the caller names no probability, nothing is dropped. The default is the paper's 0.1.",
                    {"dropout=0.1": "dropout=0.0"},
                ),
                "dropout_keeps_for_drops": (
                    "Your dropout keeps with the probability it should drop with. In torch and in the paper p is the share that is dropped.",
                    {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
                ),
                "dropout_is_a_number": (
                    "You hand `attention` the probability. It wants something it can call on the weights, such as an `nn.Dropout`.",
                    {"nn.Dropout(dropout)": "dropout"},
                ),
                # --- what does not belong here
                "residual_inside": (
                    "You add the query to the result. The shortcut comes with the layer (day 11); added here, it would be there twice.",
                    {"4: return _": "return query + _"},
                ),
                "projections_switched_off": (
                    "Your output is right, but `w_q`, `w_k` and `w_v` get no gradient: heads were detached, or made under `no_grad`. Only `w_o` could ever learn.",
                    {"heads.transpose": "heads.detach().transpose"},
                ),
                "weights_detached_before_use": (
                    "Your output is right, but `w_q` and `w_k` get no gradient: the weights were detached before they mixed the values. Detach a copy to look at, if "
                    "you like, not those that are used.",
                    {"self.weights = _": "heads = _ @ v\nself.weights = _"},
                ),
                "heads_in_float32": (
                    "Your heads are float32 whatever came in, and where `w_o` has another dtype it refuses them. `attention` widens inside where it has to, and gives "
                    "back the dtype that it got.",
                    {"attention(q, k, v, mask, _)": "attention(q.float(), k.float(), v.float(), mask, _)"},
                ),
            }.items()
        },
    ),
    *of(
        "MultiHeadedAttention",
        {
            # An answer need not have the switch, so a wrong one ignores it, too. (The text stays findable for a second mistake.)
            "fused_drops_in_evaluation_mode": (
                "Where the weights are not kept, you drop in evaluation mode as well. The fused kernel is a function: it does not know the module's mode unless it "
                "is told.",
                {"_ if self.training else 0.0": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "MultiHeadedAttention",
        {
            "heads_joined_on_the_cpu": (
                "You join the heads in a tensor that you made on the CPU. Make it on the device of what goes into it: `device=query.device`, or `torch.zeros_like`.",
                {"heads.transpose(1, 2).flatten(-2)": "torch.zeros(query.shape, dtype=query.dtype) + heads.transpose(1, 2).flatten(-2)"},
            ),
        },
    ),
]
