"""Day 31: what goes wrong with shared keys: whose they are, masks, sizes, heads joined."""

from course.judging.misconceptions import Misconception

NAME = "GroupedQueryAttention"

KV_WIDTH = "d_kv = d_model // n_heads * n_kv_heads"
KEEP_KV = "self.n_kv_heads = n_kv_heads"
LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_O = (
    f"self.w_{role} = nn.Linear(d_model, {width}, bias=False)"
    for role, width in (("q", "d_model"), ("k", "d_kv"), ("v", "d_kv"), ("o", "d_model"))
)
OUT = "return self.w_o(self.attend(query, key, value))"

SPLIT_Q = "self.w_q(x).unflatten(-1, (self.n_heads, d_k))"
SPLIT_K = "self.w_k(x).unflatten(-1, (self.n_kv_heads, d_k))"
SPLIT_V = "self.w_v(x).unflatten(-1, (self.n_kv_heads, d_k))"
FORWARD_Q, FORWARD_K, FORWARD_V = (f"{name}.transpose(1, 2)" for name in ("query", "key", "value"))
PROJECTED = f"return {FORWARD_Q}, {FORWARD_K}, {FORWARD_V}"

REFUSED = "if t_q > t_k:"
GROUP = "query = query.unflatten(1, (self.n_kv_heads, share))"
PAST = "past = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)"
BORDER = ".tril(t_k - t_q)"
REPEAT = "past.repeat(share, 1)"
CALL = "attention(query, key, value, mask)"
UNGROUP = "heads.unflatten(2, (share, t_q)).flatten(1, 2)"
JOIN = "return heads.transpose(1, 2).flatten(-2)"


def by_features(split: str) -> str:
    """A split in which the heads' features lie interleaved."""
    inside = split.split("(-1, (")[1].removesuffix("))")
    number, width = inside.split(", ")
    return split.replace(inside, f"{width}, {number}") + ".transpose(-1, -2)"


def by_view(split: str) -> str:
    """A split that puts heads before time without moving anything."""
    projected, inside = split.split(".unflatten(-1, (")
    number = inside.split(", ")[0]
    return f"{projected}.reshape(x.size(0), {number}, x.size(1), d_k).transpose(1, 2)"


MISCONCEPTIONS = [
    # --- whose keys a head asks
    Misconception(
        "kv_heads_tiled",
        NAME,
        "Your heads take the keys in turn: head 0 the first, head 1 the second … and then again from the first. Neighbours share: with 6 heads and 2 of "
        "keys, heads 0, 1, 2 ask the first and 3, 4, 5 the second. (`repeat_interleave` does that, `repeat` the other.)",
        {
            GROUP: "query = query.unflatten(1, (share, self.n_kv_heads)).transpose(1, 2)",
            UNGROUP: "heads.unflatten(2, (share, t_q)).transpose(1, 2).flatten(1, 2)",
        },
    ),
    Misconception(
        "queries_grouped_in_turn",
        NAME,
        "You deal the heads out to the groups in turn, and join them group by group: so head 1 comes out in another place than it went in. Neighbouring heads "
        "form a group, which keeps their order.",
        {GROUP: "query = query.unflatten(1, (share, self.n_kv_heads)).transpose(1, 2)"},
    ),
    Misconception(
        "heads_joined_across_groups",
        NAME,
        "Your groups are right, and then you join the first heads of all groups, the second of all groups …. Head i goes back to place i: group by group.",
        {UNGROUP: "heads.unflatten(2, (share, t_q)).transpose(1, 2).flatten(1, 2)"},
    ),
    Misconception(
        "queries_before_heads_in_a_group",
        NAME,
        "You lay a group's queries out head by head, and take the results apart token by token. There are as many rows either way; only their order is another.",
        {UNGROUP: "heads.unflatten(2, (t_q, share)).transpose(2, 3).flatten(1, 2)"},
    ),
    Misconception(
        "group_size_for_number_of_groups",
        NAME,
        "You take `n_kv_heads` for the number of heads in a group. It is the number of heads of keys and values, that is, of groups; a group has n_heads / n_kv_heads heads.",
        {
            KEEP_KV: "self.n_kv_heads = n_heads // n_kv_heads",
            KV_WIDTH: "d_kv = d_model // n_heads * (n_heads // n_kv_heads)",
        },
    ),
    Misconception(
        "first_kv_head_for_all",
        NAME,
        "All your heads ask the first head of keys and values. That is multi-query attention; with several there is one for each group.",
        {CALL: "attention(query, key[:, :1], value[:, :1], mask)"},
    ),
    Misconception(
        "kv_heads_averaged",
        NAME,
        "You average the heads of keys and values. Averaging is how the *weights* of a trained model are turned into fewer heads, once; here each group has its own.",
        {CALL: "attention(query, key.mean(1, keepdim=True), value.mean(1, keepdim=True), mask)"},
    ),
    Misconception(
        "queries_shared_too",
        NAME,
        "The heads of a group share their query as well, so they all give the same. Keys and values are shared; each head asks for itself.",
        {GROUP: f"{GROUP}[:, :, :1].expand(-1, -1, share, -1, -1)"},
    ),
    Misconception(
        "values_not_shared",
        NAME,
        "Keys and values have changed places: what is compared with the query comes from `w_v`, and what is mixed from `w_k`.",
        {PROJECTED: f"return {FORWARD_Q}, {FORWARD_V}, {FORWARD_K}"},
    ),
    # --- masks
    Misconception(
        "mask_interleaved",
        NAME,
        "Your heads' queries lie one head's after the other's, but the rows of your mask are repeated one by one. So most queries have the mask of another "
        "position. The whole mask is repeated, as often as a group has heads.",
        {REPEAT: "past.repeat_interleave(share, dim=0)"},
    ),
    Misconception(
        "one_triangle_over_all_heads",
        NAME,
        "You cut one triangle out of all the queries of a group, of several heads one after the other. The first head is right; to the later ones nothing is hidden. Each "
        "head needs the mask from its start.",
        {
            PAST: "past = torch.ones(share * t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)",
            REPEAT: "past",
        },
    ),
    Misconception(
        "mask_from_the_first_key",
        NAME,
        "Your mask takes the queries for the first positions. With as many queries as keys that is the same; with a cache, one new query would see the very first "
        "key only. The queries are the last positions.",
        {BORDER: ".tril()"},
    ),
    Misconception(
        "mask_of_queries_alone",
        NAME,
        "Your mask is square, (T_q, T_q). With a cache there are more keys than queries, and it does not fit: it is (T_q, T_k).",
        {
            PAST: "past = torch.ones(t_q, t_q, dtype=torch.bool, device=query.device).tril()",
        },
    ),
    Misconception(
        "no_mask",
        NAME,
        "Nothing is hidden: every token sees the later ones, and what it is to predict. This attention is causal by itself.",
        {CALL: "attention(query, key, value)"},
    ),
    Misconception(
        "mask_of_a_chunk_forgotten",
        NAME,
        "Where there are more keys than queries you hide nothing. That is right for a single query, the newest; in a chunk of several the earlier ones must not "
        "see the later.",
        {CALL: "attention(query, key, value, mask if t_q == t_k else None)"},
    ),
    Misconception(
        "oneself_hidden",
        NAME,
        "A token does not see itself, and the first sees nothing at all. Its own key is no later than its query.",
        {BORDER: ".tril(t_k - t_q - 1)"},
    ),
    Misconception(
        "next_token_visible",
        NAME,
        "Each token sees one that is later: the very one it is to predict. Your triangle's border is one place too far to the right.",
        {BORDER: ".tril(t_k - t_q + 1)"},
    ),
    Misconception(
        "triangle_turned_round",
        NAME,
        "Your mask shows the later tokens and hides the earlier. True is what may be attended to.",
        {BORDER: ".triu(t_k - t_q)"},
    ),
    Misconception(
        "mask_of_the_first_call",
        NAME,
        "You keep the mask of the first call. Another call may have other lengths.",
        {
            PAST: PAST.replace("past = ", 'past = self.__dict__.setdefault("past", ') + ")",
        },
    ),
    # --- scores
    Misconception(
        "not_scaled",
        NAME,
        "Your scores are not divided by √d_k.",
        {CALL: "attention(query * query.size(-1) ** 0.5, key, value, mask)"},
    ),
    Misconception(
        "scaled_by_d_model",
        NAME,
        "You divide the scores by √d_model. What is summed up in a score is d_k products, one head's.",
        {CALL: "attention(query / self.n_heads**0.5, key, value, mask)"},
    ),
    Misconception(
        "scaled_by_kv_width",
        NAME,
        "You divide the scores by the root of the width of `w_k`, all heads of keys together. What is summed up in a score is d_k products, those of one head.",
        {CALL: "attention(query / self.n_kv_heads**0.5, key, value, mask)"},
    ),
    Misconception(
        "scaled_twice",
        NAME,
        "Your scores are divided by √d_k twice. `attention` of day 8 does it already.",
        {CALL: "attention(query / query.size(-1) ** 0.5, key, value, mask)"},
    ),
    # --- what there is to learn
    Misconception(
        "kv_as_wide_as_the_model",
        NAME,
        "Your `w_k` and `w_v` are as wide as the model. There are n_kv_heads heads of width d_k to fill, and no more: that is what is saved.",
        {KV_WIDTH: "d_kv = d_model"},
    ),
    Misconception(
        "kv_heads_wider",
        NAME,
        "You share the width of the model out among the heads of keys and values. But a key is compared with a query, so it is as wide: d_k = d_model / n_heads.",
        {KV_WIDTH: "d_kv = d_model // n_kv_heads"},
    ),
    Misconception(
        "kv_of_one_head",
        NAME,
        "Your `w_k` and `w_v` make one head, whatever `n_kv_heads` says. That is right for multi-query attention alone.",
        {KV_WIDTH: "d_kv = d_model // n_heads"},
    ),
    Misconception(
        "biases",
        NAME,
        "Your projections have biases, as `nn.Linear` gives by itself. Here none of the four has one.",
        {
            line: line.replace(", bias=False", "")
            for line in (LINEAR_Q, LINEAR_K, LINEAR_V, LINEAR_O)
        },
    ),
    Misconception(
        "biases_but_the_last",
        NAME,
        "Your `w_q`, `w_k` and `w_v` have biases. Some models have them there; here none of the four has one.",
        {line: line.replace(", bias=False", "") for line in (LINEAR_Q, LINEAR_K, LINEAR_V)},
    ),
    Misconception(
        "bias_of_the_last",
        NAME,
        "Your `w_o` has a bias. None of the four projections has one.",
        {LINEAR_O: LINEAR_O.replace(", bias=False", "")},
    ),
    Misconception(
        "keys_and_values_one_layer",
        NAME,
        "Your `w_k` and `w_v` are one and the same layer under two names. What a token is found by and what it hands over are two things.",
        {LINEAR_V: "self.w_v = self.w_k"},
    ),
    Misconception(
        "mask_in_the_state_dict",
        NAME,
        "A mask is kept in the state dict. It is no weight, and a published checkpoint does not have it. Make it when it is needed, or register it with `persistent=False`.",
        {
            LINEAR_O: f'{LINEAR_O}\n        self.register_buffer("past", torch.ones(d_model, d_model).tril())'
        },
    ),
    Misconception(
        "output_not_projected",
        NAME,
        "You return the joined heads. `w_o` mixes them, at the very end.",
        {OUT: "return self.attend(query, key, value)"},
    ),
    Misconception(
        "projected_in_attend",
        NAME,
        "Your `attend` has gone through `w_o` already. It returns the joined heads; the projection follows in `forward`.",
        {OUT: "return self.attend(query, key, value)", JOIN: f"return self.w_o({JOIN[7:]})"},
    ),
    Misconception(
        "residual_inside",
        NAME,
        "You add x to the result. The shortcut belongs to the block around it; added here, it would be there twice.",
        {OUT: f"return x + {OUT[7:]}"},
    ),
    # --- heads, cut and joined
    Misconception(
        "heads_by_view",
        NAME,
        "You bring heads before time by one `view` or `reshape`: the shape is right, and the numbers are those of other tokens. Cut the last axis first; then exchange the two axes.",
        {split: by_view(split) for split in (SPLIT_Q, SPLIT_K, SPLIT_V)},
    ),
    Misconception(
        "features_before_heads",
        NAME,
        "You cut the last axis into features and then heads, so that a head's outputs lie far apart. They are neighbours: head i owns those from i·d_k on.",
        {split: by_features(split) for split in (SPLIT_Q, SPLIT_K, SPLIT_V)},
    ),
    Misconception(
        "kv_features_before_heads",
        NAME,
        "Your queries are cut into heads rightly, keys and values are not: a head owns neighbouring outputs, those from j·d_k on.",
        {split: by_features(split) for split in (SPLIT_K, SPLIT_V)},
    ),
    Misconception(
        "time_before_heads",
        NAME,
        "What `project` returns has time before heads. Heads come first, (B, heads, T, d_k): so a cache keeps them, and so they attend.",
        {
            PROJECTED: "return query, key, value",
            REFUSED: "if False:",
            GROUP: "query, key, value = (one.transpose(1, 2) for one in (query, key, value))\n"
            "        t_q, t_k = query.size(2), key.size(2)\n"
            f"        {GROUP}",
        },
    ),
    Misconception(
        "joined_by_view",
        NAME,
        "You join the heads by one `view` or `reshape`, with time still behind them: the shape is right, and a row holds numbers of several tokens. Exchange the axes first.",
        {JOIN: "return heads.reshape(heads.size(0), t_q, self.n_heads * heads.size(-1))"},
    ),
    Misconception(
        "joined_by_features",
        NAME,
        "You join the heads feature by feature: the first of every head, then the second of every head. `w_o` takes them head by head, head 0 with all its features first.",
        {JOIN: "return heads.permute(0, 2, 3, 1).flatten(-2)"},
    ),
    Misconception(
        "joined_to_any_width",
        NAME,
        "You leave it to `reshape(…, -1)` to find out the width. Where there are no tokens it cannot: 0 times anything is 0.",
        {JOIN: "return heads.transpose(1, 2).reshape(heads.size(0), t_q, -1)"},
    ),
    Misconception(
        "single_kv_head_squeezed",
        NAME,
        "Where there is a single head of keys and values you drop its axis. It stays, with length 1: a cache keeps it, and the queries' axes have to meet it.",
        {
            PROJECTED: f"return {FORWARD_Q}, {FORWARD_K}.squeeze(1), {FORWARD_V}.squeeze(1)",
            REFUSED: "if False:",
        },
    ),
    # --- gradients and dtypes
    Misconception(
        "kept_keys_detached",
        NAME,
        "Your outputs are right, but keys and values get no gradient: they were detached, as a cache does. In training `w_k` and `w_v` would never learn.",
        {CALL: "attention(query, key.detach(), value.detach(), mask)"},
    ),
    Misconception(
        "heads_in_float32",
        NAME,
        "Your heads are float32 whatever came in, and where `w_o` has another dtype it refuses them. `attention` widens inside where it has to, and gives back the dtype that it got.",
        {CALL: "attention(query.float(), key.float(), value.float(), mask)"},
    ),
]
