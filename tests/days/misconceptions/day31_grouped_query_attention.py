"""Day 31: what goes wrong with shared keys: whose they are, masks, sizes, heads joined."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "GroupedQueryAttention",
        {
            # --- whose keys a head asks
            "kv_heads_tiled": (
                "Your heads take the keys in turn: head 0 the first, head 1 the second … and then again from the first. Neighbors share: with 6 heads and 2 of "
                "keys, heads 0, 1, 2 ask the first and 3, 4, 5 the second. (`repeat_interleave` does that, `repeat` the other.)",
                {"query.unflatten(1, (_, share))": "query.unflatten(1, (share, _)).transpose(1, 2)", "_.flatten(1, 2)": "_.transpose(1, 2).flatten(1, 2)"},
            ),
            "queries_grouped_in_turn": (
                "You assign the heads to the groups in turn, and join them group by group: so head 1 ends up in a different place. Neighboring "
                "heads form a group, which keeps their order.",
                {"query.unflatten(1, (_, share))": "query.unflatten(1, (share, _)).transpose(1, 2)"},
            ),
            "heads_joined_across_groups": (
                "Your groups are right, and then you join the first heads of all groups, the second of all groups …. Head i goes back to place i: group by group.",
                {"_.flatten(1, 2)": "_.transpose(1, 2).flatten(1, 2)"},
            ),
            "group_size_for_number_of_groups": (
                "You take `n_kv_heads` for the number of heads in a group. It is the number of heads of keys and values, that is, of groups; a group has n_heads / "
                "n_kv_heads heads.",
                {"self.n_kv_heads = n_kv_heads": "self.n_kv_heads = n_heads // n_kv_heads", "_ * n_kv_heads": "_ * (n_heads // n_kv_heads)"},
            ),
            "first_kv_head_for_all": (
                "All your heads ask the first head of keys and values. That is multi-query attention; with several there is one for each group.",
                {"attention(query, key, value, mask)": "attention(query, key[:, :1], value[:, :1], mask)"},
            ),
            "keys_repeated": (
                "Your outputs are right, but keys and values are copied, once for each query head. The heads of a group can ask the same tensor: to its keys they are "
                "only more queries, or another axis of length 1 to broadcast over.",
                {
                    "heads, _ = ...": "key, value = key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1)\n"
                    "heads, _ = attention(query.unflatten(2, (share, t_q)).flatten(1, 2), key, value, past)\n"
                    "heads = heads.unflatten(1, (self.n_kv_heads, share)).flatten(2, 3)"
                },
            ),
            # --- masks
            "one_triangle_over_all_heads": (
                "You cut one triangle out of all the queries of a group, of several heads one after the other. The first head is right; to the later ones nothing "
                "is hidden. Each head needs the whole mask.",
                {"past = ...": "past = torch.ones(share * t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)", "past.repeat(share, 1)": "past"},
            ),
            "mask_from_the_first_key": (
                "Your mask takes the queries for the first positions. With as many queries as keys that is the same; with a cache, one new query would see the "
                "very first key only. The queries are the last positions.",
                {"t_k - t_q": ""},
            ),
            "mask_of_queries_alone": (
                "Your mask is square, (T_q, T_q). With a cache there are more keys than queries, and it does not fit: it is (T_q, T_k).",
                {"past = ...": "past = torch.ones(t_q, t_q, dtype=torch.bool, device=query.device).tril()"},
            ),
            "no_mask": (
                "Nothing is hidden: every token sees the later ones, and what it is to predict. This attention is causal by itself.",
                {"mask": ""},
            ),
            "mask_of_a_chunk_forgotten": (
                "Where there are more keys than queries you hide nothing. That is right for a single query, the newest; in a chunk of several the earlier ones "
                "must not see the later.",
                {"mask": "mask if t_q == t_k else None"},
            ),
            "oneself_hidden": (
                "A token does not see itself, and the first sees nothing at all. Its own key is no later than its query.",
                {"t_k - t_q": "t_k - t_q - 1"},
            ),
            "next_token_visible": (
                "Each token sees one that is later: the very one it is to predict. Your triangle's border is one place too far to the right.",
                {"t_k - t_q": "t_k - t_q + 1"},
            ),
            "mask_inverted": (
                "Your mask is True where a key must be hidden. `attention` takes True for *may be attended to*: each token sees the later ones alone.",
                {"mask": "~mask"},
            ),
            "mask_of_the_first_call": (
                "You keep the mask of the first call. Another call may have other lengths.",
                {"past = _": "past = self.__dict__.setdefault('past', _)"},
            ),
            "hidden_score_not_low_enough": (
                "You give hidden keys a score that is low, but not lower than any other: in a trained model scores of this size occur, and beside them what is "
                "hidden is seen. Minus infinity, or the lowest number of the dtype, is safe.",
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
                "You divide the scores by √d_model. What is summed up in a score is d_k products, one head's.",
                {"3: query": "query / self.n_heads**0.5"},
            ),
            "scaled_twice": (
                "Your scores are divided by √d_k twice. `attention` of day 8 does it already.",
                {"3: query": "query / query.size(-1) ** 0.5"},
            ),
            # --- what there is to learn
            "kv_as_wide_as_the_model": (
                "Your `w_k` and `w_v` are as wide as the model. There are n_kv_heads heads of width d_k to fill, and no more: that is what is saved.",
                {"d_model // n_heads * n_kv_heads": "d_model"},
            ),
            "biases": (
                "Your projections have biases, as `nn.Linear` gives by itself. Here none of the four has one.",
                {
                    "self.w_q = ...": "self.w_q = nn.Linear(d_model, d_model)",
                    "self.w_k = ...": "self.w_k = nn.Linear(d_model, d_kv)",
                    "self.w_v = ...": "self.w_v = nn.Linear(d_model, d_kv)",
                    "self.w_o = ...": "self.w_o = nn.Linear(d_model, d_model)",
                },
            ),
            "mask_in_the_state_dict": (
                "A mask is kept in the state dict. It is no weight, and a published checkpoint does not have it. Make it when it is needed, or register it with "
                "`persistent=False`.",
                {"self.w_o = _": "self.w_o = _\nself.register_buffer('past', torch.ones(d_model, d_model).tril())"},
            ),
            "output_not_projected": (
                "You return the joined heads. `w_o` mixes them, at the very end.",
                {"self.w_o(_)": "_"},
            ),
            "projected_in_attend": (
                "Your `attend` has gone through `w_o` already. It returns the joined heads; the projection follows in `forward`.",
                {"self.w_o(_)": "_", "4: return _": "return self.w_o(_)"},
            ),
            # --- heads, cut and joined
            "heads_by_view": (
                "You bring heads before time by one `view` or `reshape`: the shape is right, and the numbers are those of other tokens. Cut the last axis first; "
                "then exchange the two axes.",
                {
                    "self.w_q(x).unflatten(-1, (_, d_k))": "self.w_q(x).reshape(x.size(0), _, x.size(1), d_k).transpose(1, 2)",
                    "self.w_k(x).unflatten(-1, (_, d_k))": "self.w_k(x).reshape(x.size(0), _, x.size(1), d_k).transpose(1, 2)",
                    "value = ...": "value = self.w_v(x).reshape(x.size(0), self.n_kv_heads, x.size(1), d_k).transpose(1, 2)",
                },
            ),
            "time_before_heads": (
                "What `project` returns has time before heads. Heads come first, (B, heads, T, d_k): so a cache keeps them, and so they attend.",
                {
                    "2: return ...": "return query, key, value",
                    "t_q > t_k": "False",
                    "share = _": "share = _\nquery, key, value = (one.transpose(1, 2) for one in (query, key, value))\nt_q, t_k = query.size(2), key.size(2)",
                },
            ),
            "joined_by_view": (
                "You join the heads by one `view` or `reshape`, with time still behind them: the shape is right, and a row holds numbers of several tokens. "
                "Exchange the axes first.",
                {"4: return ...": "return heads.reshape(heads.size(0), t_q, self.n_heads * heads.size(-1))"},
            ),
            "joined_to_any_width": (
                "You leave it to `reshape(…, -1)` to find out the width. Where there are no tokens it cannot: 0 times anything is 0.",
                {"_.flatten(-2)": "_.reshape(heads.size(0), t_q, -1)"},
            ),
            "single_kv_head_squeezed": (
                "Where there is a single head of keys and values you drop its axis. It stays, with length 1: a cache keeps it, and the queries' axes have to meet "
                "it.",
                {"key.transpose(1, 2)": "key.transpose(1, 2).squeeze(1)", "value.transpose(1, 2)": "value.transpose(1, 2).squeeze(1)", "t_q > t_k": "False"},
            ),
            # --- gradients and dtypes
            "kept_keys_detached": (
                "Your outputs are right, but keys and values get no gradient: they are detached, as in a cache, or made under `no_grad`. In training `w_k` and "
                "`w_v` would never learn.",
                {"attention(query, key, value, mask)": "attention(query, key.detach(), value.detach(), mask)"},
            ),
            "heads_in_float32": (
                "Your heads are float32 whatever came in, and where `w_o` has another dtype it refuses them. `attention` upcasts internally where it has to, and returns "
                "back the dtype that it got.",
                {"attention(query, key, value, mask)": "attention(query.float(), key.float(), value.float(), mask)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "GroupedQueryAttention",
        {
            "mask_made_on_the_cpu": (
                "You make the mask on the CPU, and the scores may be on a GPU. `torch.ones` takes `device=query.device`.",
                {"device=query.device": ""},
            ),
        },
    ),
]
