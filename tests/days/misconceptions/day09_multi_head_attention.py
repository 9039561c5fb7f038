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
                    "Your projections have no biases. The paper's formula shows none, and some models leave them out. Here each of the four projections has a "
                    "bias, the default of `nn.Linear`.",
                    {
                        "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_model, bias=False)",
                        "self.w_o = ...": "self.w_o = nn.Linear(d_model, d_model, bias=False)",
                    },
                ),
                "projections_in_a_plain_list": (
                    "Your projections are in a plain Python list (or dict), whose contents `nn.Module` ignores. They are missing from the state dict, and the "
                    "optimizer does not train them. Make each projection an attribute of the module.",
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
                    "You have one projection of three times the width for query, key and value together. GPT does this, because there all three come from the "
                    "same tokens. Here they can come from different tokens, so each has its own projection: `w_q`, `w_k`, `w_v`.",
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
                    "Your `w_q`, `w_k` and `w_v` are the same layer under three names, so the module learns only one matrix for queries, keys and values. "
                    "Make three layers.",
                    {"self.w_k = ...": "self.w_k = self.w_q", "self.w_v = ...": "self.w_v = self.w_q"},
                ),
                "as_wide_as_one_head": (
                    "Your projections of query, key and value are only as wide as a single head. Each projection holds the matrices of all h heads side by "
                    "side, so it is d_model wide. Split its output into heads afterwards.",
                    {
                        "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model // h)",
                        "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_model // h)",
                        "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_model // h)",
                    },
                ),
                "no_output_projection": (
                    "You have no `w_o`, or you do not apply it: your output is the concatenated heads. Without the output projection, the result of head "
                    "0 can only reach the first d_k features.",
                    {"self.w_o = ...": "", "self.w_o(_)": "_"},
                ),
                "output_projection_unused": (
                    "You have `w_o`, but you do not apply it: your output is the concatenated heads. Without the output projection, the result of head 0 "
                    "can only reach the first d_k features.",
                    {"self.w_o(_)": "_"},
                ),
                # --- the names of other things
                "weights_as_a_buffer": (
                    "Your weights are a buffer, so after a call they are in the state dict, and a saved model does not load into a new one. Use a plain "
                    "attribute.",
                    {"self.weights: Tensor | None = None": "self.register_buffer('weights', None)"},
                ),
                "weights_under_another_name": (
                    "Your module has no attribute `weights`. Store the attention weights of the last call under this name.",
                    {"self.weights: Tensor | None = None": "self.attn = None", "self.weights = _": "self.attn = _"},
                ),
                # --- which goes through what
                "query_and_key_projections_swapped": (
                    "Your query goes through `w_k` and your key through `w_q`. Swap them: weights loaded from a file expect each input at its own projection.",
                    {
                        "q = self.w_q(query).unflatten(-1, (self.h, -1)).transpose(1, 2)\n"
                        "k = self.w_k(key).unflatten(-1, (self.h, -1)).transpose(1, 2)": "q = self.w_k(query).unflatten(-1, (self.h, -1)).transpose(1, 2)\n"
                        "k = self.w_q(key).unflatten(-1, (self.h, -1)).transpose(1, 2)"
                    },
                ),
                "one_projection_for_all": (
                    "Query, key and value all go through `w_q`. Each has its own projection, so that what a token looks for can differ from what it offers.",
                    {"self.w_k": "self.w_q", "self.w_v": "self.w_q"},
                ),
                "value_from_key": (
                    "You compute the values from `key`. In self-attention both are the same tensor, but `value` is a separate argument, because it can differ.",
                    {"self.w_v(value)": "self.w_v(key)"},
                ),
                "keys_and_values_exchanged": (
                    "You swapped keys and values: queries are compared with the output of `w_v`, and the weights mix the output of `w_k`. The order is query, "
                    "key, value.",
                    {"attention(q, k, v, mask, _)": "attention(q, v, k, mask, _)"},
                ),
                "all_from_query": (
                    "You compute keys and values from `query`, so your module does self-attention whatever the caller passes. In cross-attention, keys and "
                    "values come from a different sequence.",
                    {"self.w_k(key)": "self.w_k(query)", "self.w_v(value)": "self.w_v(query)"},
                ),
                # --- heads
                "one_wide_head": (
                    "You attend without splitting: your answer has one head of width d_model, whatever h is. Split the projections into h heads, each with "
                    "its own attention weights.",
                    {
                        "self.w_q(query).unflatten(-1, (self.h, -1))": "self.w_q(query).unflatten(-1, (1, -1))",
                        "self.w_k(key).unflatten(-1, (self.h, -1))": "self.w_k(key).unflatten(-1, (1, -1))",
                        "self.w_v(value).unflatten(-1, (self.h, -1))": "self.w_v(value).unflatten(-1, (1, -1))",
                    },
                ),
                "keys_as_long_as_queries": (
                    "You split key and value with the query's length, which works only in self-attention. In cross-attention the source has a different "
                    "length, so use each tensor's own length.",
                    {
                        "self.w_q(query).unflatten(-1, (self.h, -1))": "self.w_q(query).view(*query.shape[:2], self.h, query.size(-1) // self.h)",
                        "self.w_k(key).unflatten(-1, (self.h, -1))": "self.w_k(key).view(*query.shape[:2], self.h, query.size(-1) // self.h)",
                        "self.w_v(value).unflatten(-1, (self.h, -1))": "self.w_v(value).view(*query.shape[:2], self.h, query.size(-1) // self.h)",
                    },
                ),
                "split_and_join_without_transpose": (
                    "You split the heads with a view alone, and join them with a view as well. A view keeps the order in memory, so each head holds all "
                    "features of a few tokens instead of a few features of all tokens. Divide the last axis first, then exchange axes.",
                    {
                        "q = _.transpose(1, 2)": "q = _.contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
                        "k = _.transpose(1, 2)": "k = _.contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
                        "v = _.transpose(1, 2)": "v = _.contiguous().view(len(query), self.h, -1, query.size(-1) // self.h)",
                        "self.w_o(...)": "self.w_o(heads.reshape(query.shape))",
                    },
                ),
                "split_without_transpose": (
                    "You split the heads with a view alone. A view keeps the order in memory, so each head holds all features of a few tokens instead of "
                    "a few features of all tokens. Divide the last axis first, then exchange axes.",
                    {
                        "q = ...": "q = self.w_q(query).reshape(len(query), self.h, -1, query.size(-1) // self.h)",
                        "k = ...": "k = self.w_k(key).reshape(len(query), self.h, -1, query.size(-1) // self.h)",
                        "v = ...": "v = self.w_v(value).reshape(len(query), self.h, -1, query.size(-1) // self.h)",
                    },
                ),
                "join_without_transpose": (
                    "You join the heads with a view or reshape of (B, h, T, d_k). That keeps the order in memory, head by head, so a row of your result holds "
                    "several tokens of one head. Bring the heads of each token together first.",
                    {"self.w_o(...)": "self.w_o(heads.reshape(query.shape))"},
                ),
                "view_after_transpose": (
                    "You call `view` on a transposed tensor, which raises an error because its memory is not contiguous. Use a method that copies if "
                    "necessary.",
                    {"_.flatten(-2)": "_.view(query.shape)"},
                ),
                "heads_interleaved": (
                    "Your heads take every h-th feature: head 0 has features 0, h, 2h and so on. Head i should have the consecutive features i·d_k to "
                    "(i+1)·d_k − 1, so the head axis must come before the axis of each head's features.",
                    {
                        "q = ...": "q = self.w_q(query).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "k = ...": "k = self.w_k(key).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                        "v = ...": "v = self.w_v(value).unflatten(-1, (-1, self.h)).permute(0, 3, 1, 2)",
                    },
                ),
                "h_and_d_k_swapped": (
                    "You make d_k heads of width h. Swap the two numbers where you divide the last axis: h is the number of heads.",
                    {
                        "self.w_q(query).unflatten(-1, (self.h, -1))": "self.w_q(query).unflatten(-1, (-1, self.h))",
                        "self.w_k(key).unflatten(-1, (self.h, -1))": "self.w_k(key).unflatten(-1, (-1, self.h))",
                        "self.w_v(value).unflatten(-1, (self.h, -1))": "self.w_v(value).unflatten(-1, (-1, self.h))",
                    },
                ),
                "heads_attend_to_heads": (
                    "You divided the features into heads but did not move the head axis forward. Attention works on the last two axes, and in (B, T, h, d_k) "
                    "these are heads and features, so the heads of one token attend to each other.",
                    {"q = _.transpose(1, 2)": "q = _", "k = _.transpose(1, 2)": "k = _", "v = _.transpose(1, 2)": "v = _", "heads.transpose(1, 2)": "heads"},
                ),
                "time_comes_first": (
                    "You treat the first axis as time and the second as the batch, the default of `nn.MultiheadAttention`. Here the batch comes first, so "
                    "your sequences attend to each other.",
                    {
                        "q = _.transpose(1, 2)": "q = _.permute(1, 2, 0, 3)",
                        "k = _.transpose(1, 2)": "k = _.permute(1, 2, 0, 3)",
                        "v = _.transpose(1, 2)": "v = _.permute(1, 2, 0, 3)",
                        "heads.transpose(1, 2)": "heads.permute(2, 0, 1, 3)",
                    },
                ),
                "softmax_over_heads": (
                    "Your softmax runs over the heads: for each pair of tokens the weights of all heads sum to 1. Every head needs its own softmax over "
                    "the keys.",
                    written_out("scores.masked_fill(~mask, -1e4)", "scores.softmax(dim=1)"),
                ),
                # --- the scale
                "scaled_by_d_model": (
                    "Your scores are divided by √d_model. Inside a head a query has d_k features, so the standard deviation of its dot products is √d_k. "
                    "Your weights are more uniform than they should be.",
                    {"attention(q, k, v, mask, _)": "attention(q / self.h**0.5, k, v, mask, _)"},
                ),
                "not_scaled": (
                    "Your scores are not divided by √d_k. Each head is the attention of day 8, including the scale; you may import `attention`.",
                    {"attention(q, k, v, mask, _)": "attention(q * q.size(-1) ** 0.5, k, v, mask, _)"},
                ),
                # --- the mask
                "mask_ignored": (
                    "Your result is that of attention without a mask: your module accepts the mask, but the mask has no effect.",
                    {"attention(q, k, v, mask, _)": "attention(q, k, v, None, _)"},
                ),
                "mask_inverted": (
                    "Your mask is inverted: it hides the keys that may be attended to. True means *may be attended to* here; in `nn.MultiheadAttention`, True "
                    "means *hidden*.",
                    {"1: mask = _": "mask = ~_"},
                ),
                "mask_without_heads": (
                    "Your mask has no axis for the heads. Broadcasting aligns shapes from the right, so the mask's batch axis meets the heads. This "
                    "raises an error, or, if B equals h, head 2 of every sequence gets the mask of sequence 2.",
                    {"mask.unsqueeze(1)": "mask[:]"},
                ),
                "mask_axis_in_front": (
                    "Your mask gets its new axis before the batch, so its batch axis meets the heads. This raises an error, or, if B equals h, head 2 of "
                    "every sequence gets the mask of sequence 2. The head axis comes after the batch.",
                    {"mask.unsqueeze(1)": "mask.unsqueeze(0)"},
                ),
                "mask_axis_after_queries": (
                    "Your mask gets its new axis after the queries, (B, T_q, 1, T_k), so its rows line up with the heads. A padding mask has only one row and "
                    "still works, but a causal mask does not. The heads are the second axis.",
                    {"mask.unsqueeze(1)": "mask.unsqueeze(2)"},
                ),
                "mask_twice_an_axis": (
                    "Your mask gets two new axes, as a mask of shape (B, T_k) would need. This mask already has the shape (1|B, 1|T_q, T_k) and lacks only "
                    "the head axis.",
                    {"1: mask = _": "mask = _.unsqueeze(2)"},
                ),
                "minus_1e9_in_halves": (
                    "You mask with −1e9 or less in the dtype of the inputs. float16 cannot represent this number, so PyTorch raises an error. There is a "
                    "second mistake: a fully masked query attends to all keys equally, although its heads should return 0. You may import `attention` of "
                    "day 8, which handles both.",
                    written_out("scores.masked_fill(~mask, -1e9)"),
                ),
                "empty_row_uniform": (
                    "In your answer, a fully masked query attends to all keys equally, because all its scores are equally low. Its heads should return 0, as "
                    "`attention` of day 8 does. The output is then the bias of `w_o`.",
                    written_out("scores.masked_fill(~mask, torch.finfo(scores.dtype).min)"),
                ),
                "empty_row_nan": (
                    "In your answer, a fully masked query gives NaN: all its scores are −∞, and −∞ − (−∞) is not a number. Its heads should return 0, as "
                    "`attention` of day 8 does. The output is then the bias of `w_o`.",
                    written_out("scores.masked_fill(~mask, -math.inf)"),
                ),
                "empty_row_zero": (
                    "For a fully masked query, your output is 0. Its heads return 0, but the output projection applies to this query as well, so its output "
                    "is the bias of `w_o`.",
                    {"4: return _": "out = _\nreturn out if mask is None else out * mask[:, 0].any(-1, keepdim=True)"},
                ),
                # --- the weights
                "weights_not_kept": (
                    "Your output is right, but `weights` stays None after a call. Store the weights that `attention` returns.",
                    {"weights.detach()": "None"},
                ),
                "weights_of_the_first_call": (
                    "Your `weights` remain those of the first call. Replace them at every call.",
                    {"weights.detach()": "weights.detach() if self.weights is None else self.weights"},
                ),
                "weights_averaged_over_heads": (
                    "Your `weights` are averaged over the heads, the default of `nn.MultiheadAttention`. Store each head's own weights, (B, h, T_q, T_k).",
                    {"weights.detach": "weights.mean(dim=1).detach"},
                ),
                "weights_are_scores": (
                    "You store the scores, before the softmax. The weights come after the softmax: their rows sum to 1.",
                    {"weights.detach": "(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).detach"},
                ),
                "returns_weights_too": (
                    "You return a pair, the output and the weights, as `nn.MultiheadAttention` does. Return only the output, and store the weights in the "
                    "attribute.",
                    {"4: return _": "return _, self.weights"},
                ),
                # --- dropout
                "dropout_unused": (
                    "Your answer applies no dropout: if your module has a dropout layer, `attention` does not receive it.",
                    {"self.dropout": ""},
                ),
                "dropout_on_output": (
                    "You apply dropout to the output instead of the weights. Dropout on the output belongs to the residual connection (day 11); here it "
                    "applies to the weights.",
                    {"self.dropout": "", "4: return _": "return self.dropout(_)"},
                ),
                "dropout_always_on": (
                    "You apply dropout in evaluation mode as well. `F.dropout` does not know the module's mode, but an `nn.Dropout` that is part of the "
                    "module follows it.",
                    {"attention(q, k, v, mask, _)": "attention(q, k, v, mask, lambda w: F.dropout(w, _.p))"},
                ),
                "dropout_p_not_passed": (
                    "Your dropout uses PyTorch's default of one half, whatever the caller passes. Pass the argument on.",
                    {"nn.Dropout(dropout)": "nn.Dropout()"},
                ),
                "dropout_not_by_default": (
                    "Your default dropout is not 0.1. Use the paper's 0.1 when the caller passes no probability.",
                    {"dropout=0.1": "dropout=0.0"},
                ),
                "dropout_keeps_for_drops": (
                    "Your dropout keeps each weight with probability p. In PyTorch and in the paper, p is the probability of dropping a weight.",
                    {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"},
                ),
                "dropout_is_a_number": (
                    "You pass the dropout probability to `attention`. Pass something that can be called on the weights, such as an `nn.Dropout`.",
                    {"nn.Dropout(dropout)": "dropout"},
                ),
                # --- what does not belong here
                "residual_inside": (
                    "You add the query to the result. The residual connection belongs to the layer (day 11), which would then add it a second time.",
                    {"4: return _": "return query + _"},
                ),
                "heads_in_float32": (
                    "You convert the heads to float32, so `w_o` fails if it has a different dtype. `attention` upcasts internally where necessary and "
                    "returns the dtype that it received.",
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
                "When the weights are not stored, you apply dropout in evaluation mode as well. The fused kernel is a function that does not know the "
                "module's mode: pass it a probability of 0 in evaluation mode.",
                {"_ if self.training else 0.0": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "MultiHeadedAttention",
        {
            "heads_joined_on_the_cpu": (
                "You join the heads in a tensor that you create on the CPU. Create it on the device of its contents: `device=query.device`, or "
                "`torch.zeros_like`.",
                {"heads.transpose(1, 2).flatten(-2)": "torch.zeros(query.shape, dtype=query.dtype) + heads.transpose(1, 2).flatten(-2)"},
            ),
        },
    ),
]
