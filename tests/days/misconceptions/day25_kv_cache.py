"""Day 25: what goes wrong where something is kept: where it is written, who counts, who sees what."""

from course.judging.misconceptions import Misconception

CACHE, ATTENTION = "KVCache", "CachedSelfAttention"

# What edits find in the cache.
ZEROS = {
    "torch.empty(sizes)": "torch.zeros(sizes)",
    "torch.empty_like(self.keys)": "torch.zeros_like(self.keys)",
}
SIZES = "sizes = n_layers, batch, n_heads, max_len, d_k"
ROOM_KEYS = "self.keys = self._room_like(self.keys, key)"
ROOM_VALUES = "self.values = self._room_like(self.values, value)"
START = "start = self.lengths[layer]"
WRITE_KEYS = "self.keys[layer, :, :, start:end] = key.detach()"
WRITE_VALUES = "self.values[layer, :, :, start:end] = value.detach()"
COUNT = "self.length = min(self.lengths)"
GIVE = "return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]"
MOVE_KEYS = "self.keys[:, :, :, :held] = self.keys[:, rows, :, :held]"
MOVE_VALUES = "self.values[:, :, :, :held] = self.values[:, rows, :, :held]"

# What edits find in attention.
ORDER = "query, key, value = self.w_qkv(x)"
UPDATE = "key, value = cache.update(layer, key, value)"
MASK = ".tril(t_k - t_q)"
ATTEND = "heads, _ = attention(query, key, value, mask, self.dropout)"
JOIN = "heads.transpose(1, 2).flatten(-2)"


def both(keys, values, old, new):
    """The same change in the lines of keys and values."""
    return {keys: keys.replace(old, new), values: values.replace(old, new)}


MISCONCEPTIONS = [
    # --- the cache: writing
    Misconception(
        "position_counted_by_the_first_layer",
        CACHE,
        "You count a chunk as soon as the first layer has it, and write where that count points: all later layers then write behind "
        "their chunk's place and leave a gap. A layer writes behind what it holds itself.",
        {
            **ZEROS,
            START: "start = self.length",
            COUNT: "self.length = self.lengths[0]",
        },
    ),
    Misconception(
        "written_at_the_beginning",
        CACHE,
        "You write each chunk at the beginning of the room, over the one before it. It goes behind what the layer holds.",
        {START: "start = 0"},
    ),
    Misconception(
        "one_layer_for_all",
        CACHE,
        "All layers write into one and the same place. Each layer has keys and values of its own, which `layer` names.",
        {
            WRITE_KEYS: WRITE_KEYS.replace("[layer,", "[0,"),
            WRITE_VALUES: WRITE_VALUES.replace("[layer,", "[0,"),
            GIVE: GIVE.replace("[layer,", "[0,"),
        },
    ),
    Misconception(
        "keys_kept_as_values",
        CACHE,
        "You keep the keys twice, once as values.",
        {WRITE_VALUES: WRITE_VALUES.replace("value.detach()", "key.detach()")},
    ),
    Misconception(
        "dtype_of_its_own",
        CACHE,
        "Your cache stays in the dtype that it was made in, whatever it is given. An empty one takes the dtype of the first chunk: "
        "a model in half precision wants a cache in half precision.",
        {ROOM_KEYS: "pass", ROOM_VALUES: ""},
    ),
    Misconception(
        "history_kept",
        CACHE,
        "You keep keys and values together with the graph that made them, so no activation of any step is ever freed. Keep the numbers "
        "alone.",
        {
            WRITE_KEYS: WRITE_KEYS.replace(".detach()", ""),
            WRITE_VALUES: WRITE_VALUES.replace(".detach()", ""),
        },
    ),
    # --- the cache: what it gives back
    Misconception(
        "only_the_chunk",
        CACHE,
        "`update` gives back the chunk that it was given. The queries need all keys and values up to now.",
        {GIVE: "return key, value"},
    ),
    Misconception(
        "only_what_was_before",
        CACHE,
        "`update` gives back what was held before the chunk came. A token sees itself, too: the chunk belongs to the result.",
        {GIVE: GIVE.replace(":end]", ":start]")},
    ),
    Misconception(
        "the_whole_room",
        CACHE,
        "`update` gives back the whole room, with places that nothing was written to yet. Give back what the layer holds now, and no more.",
        {
            **ZEROS,
            GIVE: "return self.keys[layer], self.values[layer]",
        },
    ),
    Misconception(
        "values_before_keys",
        CACHE,
        "`update` gives back the values first. Keys come first, then values.",
        {GIVE: "return self.values[layer, :, :, :end], self.keys[layer, :, :, :end]"},
    ),
    Misconception(
        "room_for_one_more",
        CACHE,
        "Your room has one place too many. `max_len` tokens are to fit, the first of them included.",
        {SIZES: SIZES.replace("max_len", "max_len + 1")},
    ),
    # --- the cache: its length
    Misconception(
        "counted_by_every_layer",
        CACHE,
        "Your `length` goes up with every layer that has its chunk, so it ends as many times too large as there are layers. It counts tokens, "
        "and a token is one, however many layers keep something of it.",
        {COUNT: "self.length += key.size(2)"},
    ),
    Misconception(
        "counted_too_soon",
        CACHE,
        "Your `length` goes up as soon as the first layer has its chunk. Later layers of the same step, which take a position from it, would "
        "see it moved: it counts what *every* layer holds.",
        {COUNT: "self.length = max(self.lengths)"},
    ),
    Misconception(
        "steps_counted",
        CACHE,
        "Your `length` counts chunks. It counts tokens, of which a chunk may have many.",
        {COUNT: "self.length += layer == len(self.lengths) - 1"},
    ),
    Misconception(
        "length_of_the_room",
        CACHE,
        "Your `length` is the size of the room. It is how much of it is filled: 0 at first.",
        {"self.length = 0": "self.length = max_len", COUNT: "self.length = self.keys.size(3)"},
    ),
    # --- the cache: rows that change places
    Misconception(
        "rows_moved_one_by_one",
        CACHE,
        "You move the rows one by one within the same tensor, so a row that was overwritten is copied further as if it were the old one. "
        "Pick all rows first, then write.",
        {
            MOVE_KEYS: "for row, old in enumerate(rows.tolist()):\n            self.keys[:, row] = self.keys[:, old]",
            MOVE_VALUES: "for row, old in enumerate(rows.tolist()):\n            self.values[:, row] = self.values[:, old]",
        },
    ),
    Misconception(
        "keys_moved_alone",
        CACHE,
        "`reorder` moves the keys and leaves the values where they were: a beam would look with one text's keys at another's values.",
        {MOVE_VALUES: "pass"},
    ),
    Misconception(
        "rows_moved_in_the_first_layer",
        CACHE,
        "`reorder` moves the rows of the first layer alone. A beam has a past in every layer.",
        both(MOVE_KEYS, MOVE_VALUES, "[:, ", "[0, "),
    ),
    Misconception(
        "rows_the_other_way",
        CACHE,
        "You read `rows` the other way round: row i is to become what row `rows[i]` was, and not to go there.",
        both(MOVE_KEYS, MOVE_VALUES, "rows", "rows.argsort(stable=True)"),
    ),
    Misconception(
        "rows_not_moved",
        CACHE,
        "`reorder` changes nothing.",
        {MOVE_KEYS: "pass", MOVE_VALUES: ""},
    ),
    # --- attention: who sees whom
    Misconception(
        "aligned_to_the_beginning",
        ATTENTION,
        "Your mask takes the chunk's queries for the first tokens of the text: they see the oldest keys, and not themselves. They are the "
        "last T_q of T_k positions.",
        {MASK: ".tril()"},
    ),
    Misconception(
        "chunks_see_their_future",
        ATTENTION,
        "With a cache nothing is hidden in your attention. That is right for a single new token. In a chunk of several, a token must not see "
        "the next ones.",
        {MASK: ".tril(t_k - t_q if cache is None else t_k)"},
    ),
    Misconception(
        "nothing_hidden",
        ATTENTION,
        "Nothing is hidden in your attention: every token sees later ones.",
        {MASK: ""},
    ),
    Misconception(
        "next_token_seen",
        ATTENTION,
        "Each token sees one token too many: the next one.",
        {MASK: ".tril(t_k - t_q + 1)"},
    ),
    Misconception(
        "itself_hidden",
        ATTENTION,
        "No token sees itself in your attention. The last key that it may see is its own.",
        {MASK: ".tril(t_k - t_q - 1)"},
    ),
    Misconception(
        "square_mask",
        ATTENTION,
        "Your mask is square, made for as many keys as queries. With a cache there are more keys: it is (T_q, T_k).",
        {"torch.ones(t_q, t_k,": "torch.ones(t_q, t_q,", MASK: ".tril()"},
    ),
    # --- attention: what is kept
    Misconception(
        "past_not_used",
        ATTENTION,
        "You append to the cache, and then attend to the chunk alone. `update` gives back what to attend to.",
        {UPDATE: "cache.update(layer, key, value)"},
    ),
    Misconception(
        "appended_twice",
        ATTENTION,
        "You call `update` twice, once for the keys and once for the values, so that every chunk stands in the cache two times.",
        {
            UPDATE: "keys, _ = cache.update(layer, key, value)\n"
            "            _, value = cache.update(layer, key, value)\n"
            "            key = keys[:, :, : value.size(2)]\n"
            "            value = value[:, :, : key.size(2)]"
        },
    ),
    Misconception(
        "first_layer_of_the_cache",
        ATTENTION,
        "You always use the cache's first layer. Each layer of a model has its own, whose number `forward` is given.",
        {UPDATE: UPDATE.replace("(layer,", "(0,")},
    ),
    Misconception(
        "past_kept_in_the_layer",
        ATTENTION,
        "You keep the past in the layer itself. Then it reads every text as the continuation of the one before, and saves it with its weights. "
        "What was read belongs in the cache.",
        {
            UPDATE: "if hasattr(self, 'past_key'):\n"
            "                key = torch.cat([self.past_key, key], dim=2)\n"
            "                value = torch.cat([self.past_value, value], dim=2)\n"
            "            self.register_buffer('past_key', key)\n"
            "            self.register_buffer('past_value', value)"
        },
    ),
    # --- attention: the rest of it
    Misconception(
        "keys_before_queries",
        ATTENTION,
        "You take the first third of the projection for the key. Its order is query, key, value.",
        {ORDER: ORDER.replace("query, key,", "key, query,")},
    ),
    Misconception(
        "not_dropped",
        ATTENTION,
        "In training you drop no weights.",
        {ATTEND: ATTEND.replace(", self.dropout", "")},
    ),
    Misconception(
        "heads_joined_without_moving",
        ATTENTION,
        "You join the heads without moving time back in front of them, so the numbers of different tokens are mixed.",
        {JOIN: "heads.reshape(x.shape)"},
    ),
    Misconception(
        "no_output_projection",
        ATTENTION,
        "You return the joined heads. The output projection `w_o` mixes them.",
        {f"return self.w_o({JOIN})": f"return {JOIN}"},
    ),
]
