"""Day 31: what goes wrong with shared keys: whose they are, masks, sizes, heads joined."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "GroupedQueryAttention",
        {
            # --- whose keys a head asks
            "kv_heads_tiled": (
                "Your query heads take the KV heads in turn: head 0 the first, head 1 the second, and so on. Neighbors should share a KV head: with 6 heads "
                "and 2 KV heads, heads 0, 1, 2 use the first and heads 3, 4, 5 the second. (`repeat_interleave` repeats in this order, `repeat` in yours.)",
                {"query.unflatten(1, (_, share))": "query.unflatten(1, (share, _)).transpose(1, 2)", "_.flatten(1, 2)": "_.transpose(1, 2).flatten(1, 2)"},
            ),
            "queries_grouped_in_turn": (
                "You assign the query heads to the groups in turn, but join them group by group, so head 1 ends up in a different place. Neighboring heads "
                "should form a group, which keeps their order.",
                {"query.unflatten(1, (_, share))": "query.unflatten(1, (share, _)).transpose(1, 2)"},
            ),
            "heads_joined_across_groups": (
                "Your groups are right, but you join the first heads of all groups, then the second heads of all groups, and so on. Head i belongs at place "
                "i: join group by group.",
                {"_.flatten(1, 2)": "_.transpose(1, 2).flatten(1, 2)"},
            ),
            "group_size_for_number_of_groups": (
                "You treat `n_kv_heads` as the number of heads in a group. It is the number of KV heads, which is the number of groups. A group has n_heads / "
                "n_kv_heads query heads.",
                {"self.n_kv_heads = n_kv_heads": "self.n_kv_heads = n_heads // n_kv_heads", "_ * n_kv_heads": "_ * (n_heads // n_kv_heads)"},
            ),
            "first_kv_head_for_all": (
                "All your query heads use the first KV head. That is multi-query attention. With several KV heads, each group has its own.",
                {"attention(query, key, value, mask)": "attention(query, key[:, :1], value[:, :1], mask)"},
            ),
            "keys_repeated": (
                "Your outputs are right, but you copy keys and values, once for each query head. The heads of a group can use the same tensor: treat them as "
                "additional queries, or add an axis of length 1 to broadcast over.",
                {
                    "heads, _ = ...": "key, value = key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1)\n"
                    "heads, _ = attention(query.unflatten(2, (share, t_q)).flatten(1, 2), key, value, past)\n"
                    "heads = heads.unflatten(1, (self.n_kv_heads, share)).flatten(2, 3)"
                },
            ),
            # --- masks
            "one_triangle_over_all_heads": (
                "You build one triangle over all the queries of a group, with several heads one after the other. The first head is right, but nothing is "
                "hidden from the later heads. Each head needs the whole mask.",
                {"past = ...": "past = torch.ones(share * t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)", "past.repeat(share, 1)": "past"},
            ),
            "mask_from_the_first_key": (
                "Your mask treats the queries as the first positions. With as many queries as keys that is right, but with a cache, one new query would "
                "attend only to the very first key. The queries are the last positions.",
                {"t_k - t_q": ""},
            ),
            "mask_of_queries_alone": (
                "Your mask is square, (T_q, T_q). With a cache there are more keys than queries, and your mask does not fit: its shape must be (T_q, T_k).",
                {"past = ...": "past = torch.ones(t_q, t_q, dtype=torch.bool, device=query.device).tril()"},
            ),
            "no_mask": (
                "Your attention masks nothing: every token attends to later tokens, including the token that it must predict. This attention is causal by "
                "itself.",
                {"mask": ""},
            ),
            "mask_of_a_chunk_forgotten": (
                "If there are more keys than queries, you mask nothing. That is right for a single query, the newest, but in a chunk of several tokens, "
                "earlier tokens must not attend to later ones.",
                {"mask": "mask if t_q == t_k else None"},
            ),
            "oneself_hidden": (
                "No token attends to itself, and the first token attends to nothing. A query may attend to the key at its own position.",
                {"t_k - t_q": "t_k - t_q - 1"},
            ),
            "next_token_visible": (
                "Each token attends to one later token, which is the token that it must predict. Your triangle reaches one column too far to the right.",
                {"t_k - t_q": "t_k - t_q + 1"},
            ),
            "mask_inverted": (
                "Your mask is True where a key must be hidden, so each token attends only to later tokens. In `attention`, True means *may be attended to*.",
                {"mask": "~mask"},
            ),
            "mask_of_the_first_call": (
                "You keep the mask of the first call. Another call can have other lengths.",
                {"past = _": "past = self.__dict__.setdefault('past', _)"},
            ),
            "hidden_score_not_low_enough": (
                "You give hidden keys a score that is low, but not lower than all others. Scores of this size occur in a trained model, and then hidden keys "
                "get weight. −∞, or the lowest number of the dtype, is safe.",
                {
                    "heads, _ = ...": "wide = torch.promote_types(query.dtype, torch.float32)\n"
                    "scores = query.to(wide) @ key.to(wide).transpose(-2, -1) / query.size(-1) ** 0.5\n"
                    "weights = scores.masked_fill(~mask, -1e4).softmax(dim=-1)\n"
                    "heads = weights.to(value.dtype) @ value"
                },
            ),
            # --- scores
            "not_scaled": (
                "Your scores are not divided by √d_k.",
                {"3: query": "query * query.size(-1) ** 0.5"},
            ),
            "scaled_by_d_model": (
                "You divide the scores by √d_model. A score is a sum of d_k products, those of one head, so divide by √d_k.",
                {"3: query": "query / self.n_heads**0.5"},
            ),
            "scaled_twice": (
                "Your scores are divided by √d_k twice. The `attention` of day 8 already divides them.",
                {"3: query": "query / query.size(-1) ** 0.5"},
            ),
            # --- what there is to learn
            "kv_as_wide_as_the_model": (
                "Your `w_k` and `w_v` are as wide as the model. They need only n_kv_heads heads of width d_k: this is what grouped-query attention saves.",
                {"d_model // n_heads * n_kv_heads": "d_model"},
            ),
            "biases": (
                "Your projections have biases, the default of `nn.Linear`. Here none of the four has a bias.",
                {
                    "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model)",
                    "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_kv)",
                    "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_kv)",
                    "self.w_o = ...": "self.w_o = nn.Linear(d_model, d_model)",
                },
            ),
            "mask_in_the_state_dict": (
                "Your state dict contains a mask. A mask is not a weight, and a published checkpoint does not contain it. Create it when you need it, or "
                "register it with `persistent=False`.",
                {"self.w_o = _": "self.w_o = _\nself.register_buffer('past', torch.ones(d_model, d_model).tril())"},
            ),
            "output_not_projected": (
                "You return the concatenated heads. The last step, the projection `w_o`, is missing.",
                {"self.w_o(_)": "_"},
            ),
            "projected_in_attend": (
                "Your `attend` already applies `w_o`. It should return the concatenated heads; `forward` applies the projection.",
                {"self.w_o(_)": "_", "4: return _": "return self.w_o(_)"},
            ),
            # --- heads, cut and joined
            "heads_by_view": (
                "You move heads before time with one `view` or `reshape`. The shape is right, but the numbers belong to other tokens. Split the last axis "
                "first, then swap the two axes.",
                {
                    "self.w_q(x).unflatten(-1, (_, d_k))": "self.w_q(x).reshape(x.size(0), _, x.size(1), d_k).transpose(1, 2)",
                    "self.w_k(x).unflatten(-1, (_, d_k))": "self.w_k(x).reshape(x.size(0), _, x.size(1), d_k).transpose(1, 2)",
                    "value = ...": "value = self.w_v(x).reshape(x.size(0), self.n_kv_heads, x.size(1), d_k).transpose(1, 2)",
                },
            ),
            "time_before_heads": (
                "Your `project` returns time before heads. Heads should come first, (B, heads, T, d_k): the cache stores this layout, and attention needs it.",
                {
                    "2: return ...": "return query, key, value",
                    "t_q > t_k": "False",
                    "share = _": "share = _\nquery, key, value = (one.transpose(1, 2) for one in (query, key, value))\nt_q, t_k = query.size(2), key.size(2)",
                },
            ),
            "joined_by_view": (
                "You join the heads with one `view` or `reshape` while time is still after the heads. The shape is right, but a row holds numbers of several "
                "tokens. Swap the two axes first.",
                {"4: return ...": "return heads.reshape(heads.size(0), t_q, self.n_heads * heads.size(-1))"},
            ),
            "joined_to_any_width": (
                "You let `reshape(…, -1)` infer the width. Without tokens it cannot: 0 times any width is 0.",
                {"_.flatten(-2)": "_.reshape(heads.size(0), t_q, -1)"},
            ),
            "single_kv_head_squeezed": (
                "With a single KV head, you remove its axis. Keep it, with length 1: a cache stores it, and the queries' axes must line up with it.",
                {"key.transpose(1, 2)": "key.transpose(1, 2).squeeze(1)", "value.transpose(1, 2)": "value.transpose(1, 2).squeeze(1)", "t_q > t_k": "False"},
            ),
            # --- gradients and dtypes
            "kept_keys_detached": (
                "Your outputs are right, but keys and values get no gradient: they are detached, as in a cache, or computed under `no_grad`. In training, "
                "`w_k` and `w_v` would never learn.",
                {"attention(query, key, value, mask)": "attention(query, key.detach(), value.detach(), mask)"},
            ),
            "heads_in_float32": (
                "Your heads are float32 for any input, so `w_o` raises an error if it has a different dtype. `attention` upcasts internally where necessary, "
                "and returns the dtype that it received.",
                {"attention(query, key, value, mask)": "attention(query.float(), key.float(), value.float(), mask)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "GroupedQueryAttention",
        {
            "mask_made_on_the_cpu": (
                "You create the mask on the CPU, but the scores can be on a GPU. `torch.ones` takes `device=query.device`.",
                {"device=query.device": ""},
            ),
        },
    ),
]
