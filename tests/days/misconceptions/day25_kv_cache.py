"""Day 25: what goes wrong where something is kept: where it is written, who counts, who sees what."""

from course.judging.misconceptions import of, on_devices

MASKED = {"t_q > 1": "True"}  # a single query, too

MISCONCEPTIONS = [
    *of(
        "KVCache",
        {
            # --- the cache: writing
            "position_counted_by_the_first_layer": (
                "You count a chunk as soon as the first layer has it, and write where that count points: all later layers then write behind their chunk's place "
                "and leave a gap. A layer writes behind what it holds itself.",
                {
                    "torch.empty": "torch.zeros",
                    "1: torch.empty_like": "torch.zeros_like",
                    "2: self.lengths[layer]": "self.length",
                    "min(self.lengths)": "self.lengths[0]",
                },
            ),
            "written_at_the_beginning": (
                "You write each chunk at the beginning of the room, over the one before it. It goes behind what the layer holds.",
                {"2: self.lengths[layer]": "0"},
            ),
            "one_layer_for_all": (
                "All layers write into one and the same place. Each layer has keys and values of its own, which `layer` names.",
                {
                    "2: self.keys[...] = _": "self.keys[0, :, :, start:end] = _",
                    "2: self.values[...] = _": "self.values[0, :, :, start:end] = _",
                    "4: return ...": "return self.keys[0, :, :, :end], self.values[0, :, :, :end]",
                },
            ),
            "one_counter_for_all_layers": (
                "All your layers share one counter, and each of them moves it. So the second layer writes a chunk after the place where the first layer wrote "
                "it. Each layer needs to know how many tokens it holds itself.",
                {
                    "torch.empty": "torch.zeros",
                    "1: torch.empty_like": "torch.zeros_like",
                    "2: self.lengths[layer]": "self.length",
                    "3: self.length = ...": "self.length = end",
                },
            ),
            "dtype_of_its_own": (
                "Your cache stays in the dtype that it was made in, whatever it is given. An empty one takes the dtype of the first chunk: a model in half "
                "precision wants a cache in half precision.",
                {"update(): self.keys = ...": "", "update(): self.values = ...": "pass"},
            ),
            "history_kept": (
                "You keep keys and values together with the graph that made them, so no activation of any step is ever freed. Keep the numbers alone.",
                {"key.detach()": "key", "value.detach()": "value"},
            ),
            # --- the cache: what it gives back
            "only_the_chunk": (
                "`update` gives back the chunk that it was given. The queries need all keys and values up to now.",
                {"4: return ...": "return key, value"},
            ),
            "the_whole_room": (
                "`update` gives back the whole room, with places that nothing was written to yet. Give back what the layer holds now, and no more.",
                {"torch.empty": "torch.zeros", "1: torch.empty_like": "torch.zeros_like", "4: return ...": "return self.keys[layer], self.values[layer]"},
            ),
            "room_for_one_more": (
                "Your room has one place too many. `max_len` tokens are to fit, the first of them included.",
                {"sizes = ...": "sizes = n_layers, batch, n_heads, max_len + 1, d_k"},
            ),
            # --- the cache: its length
            "counters_of_the_class": (
                "All your caches count together: what belongs to one of them is kept in the class, and a new cache starts the others from 0 again. `self.` makes it "
                "the cache's own.",
                {"self.lengths = ...": "type(self).lengths = [0] * n_layers"},
            ),
            "counted_by_every_layer": (
                "Your `length` goes up with every layer that has its chunk, so it ends as many times too large as there are layers. It counts tokens, and a token "
                "is one, however many layers keep something of it.",
                {"3: self.length = ...": "self.length += key.size(2)"},
            ),
            "counted_too_soon": (
                "Your `length` goes up as soon as the first layer has its chunk. Later layers of the same step, which take a position from it, would see it moved: "
                "it counts what *every* layer holds.",
                {"min(self.lengths)": "max(self.lengths)"},
            ),
            "steps_counted": (
                "Your `length` counts chunks. It counts tokens, of which a chunk may have many.",
                {"self.length = min(_)": "self.length += layer == len(_) - 1"},
            ),
            # --- the cache: rows that change places
            "rows_moved_one_by_one": (
                "You move the rows one by one within the same tensor, so a row that was overwritten is copied further as if it were the old one. Pick all rows "
                "first, then write.",
                {
                    "self.keys[:, :, :, :held] = ...": "for row, old in enumerate(rows.tolist()):\n    self.keys[:, row] = self.keys[:, old]",
                    "self.values[:, :, :, :held] = ...": "for row, old in enumerate(rows.tolist()):\n    self.values[:, row] = self.values[:, old]",
                },
            ),
            "keys_moved_alone": (
                "`reorder` moves the keys and leaves the values where they were: a beam would look with one text's keys at another's values.",
                {"self.values[:, :, :, :held] = ...": "pass"},
            ),
            "rows_moved_as_far_as_all_layers_hold": (
                "`reorder` moves as many places as *every* layer holds. In the middle of a step some layers hold more: their newest chunk stays with the old rows.",
                {"max(self.lengths)": "self.length"},
            ),
            "rows_the_other_way": (
                "You read `rows` the other way round: row i is to become what row `rows[i]` was, and not to go there.",
                {
                    "1: self.keys[...]": "self.keys[:, rows.argsort(stable=True), :, :held]",
                    "1: self.values[...]": "self.values[:, rows.argsort(stable=True), :, :held]",
                },
            ),
        },
    ),
    *of(
        "CachedSelfAttention",
        {
            # --- attention: who sees whom
            "aligned_to_the_beginning": (
                "Your mask takes the chunk's queries for the first tokens of the text: they see the oldest keys, and not themselves. They are the last T_q of T_k "
                "positions.",
                MASKED | {"t_k - t_q": ""},
            ),
            "chunks_see_their_future": (
                "With a cache nothing is hidden in your attention. That is right for a single new token. In a chunk of several, a token must not see the next ones.",
                {"t_k - t_q": "t_k - t_q if cache is None else t_k"},
            ),
            "later_chunks_see_their_future": (
                "You mask the first chunk, and hide nothing once there is a past. That is right for a single new token. In a later chunk of several, too, a token "
                "must not see the next ones.",
                {"t_k - t_q": "t_k - t_q if t_q == t_k else t_k"},
            ),
            "mask_of_an_earlier_chunk": (
                "You keep a mask for each size of chunk. How far a chunk's tokens see depends on what came before it as well: with a new cache the mask of an earlier "
                "text lets them see their future.",
                MASKED
                | {
                    "mask = _.tril(t_k - t_q)": "kept = self.__dict__.setdefault('kept', {})\n"
                    "if t_q not in kept or kept[t_q].size(1) < t_k:\n"
                    "    kept[t_q] = _.tril(t_k - t_q)\n"
                    "mask = kept[t_q][:, :t_k]"
                },
            ),
            "mask_inverted": (
                "Your mask is True where a key must be hidden. `attention` takes True for *may be attended to*: each token sees only later tokens.",
                MASKED | {"attention(query, key, value, mask, _)": "attention(query, key, value, ~mask, _)"},
            ),
            "square_mask": (
                "Your mask is square, made for as many keys as queries. With a cache there are more keys: it is (T_q, T_k).",
                MASKED | {"mask = ....tril(t_k - t_q)": "mask = torch.ones(t_q, t_q, dtype=torch.bool, device=x.device).tril()"},
            ),
            # --- attention: the stored keys and values
            "past_not_used": (
                "You append to the cache, and then attend to the chunk alone. `update` gives back what to attend to.",
                {"key, value = _": "_"},
            ),
            "appended_twice": (
                "You call `update` twice, once for the keys and once for the values, so every chunk is in the cache twice.",
                {
                    "key, value = ...": "keys, _ = cache.update(layer, key, value)\n"
                    "_, value = cache.update(layer, key, value)\n"
                    "key = keys[:, :, : value.size(2)]\n"
                    "value = value[:, :, : key.size(2)]"
                },
            ),
            "first_layer_of_the_cache": (
                "You always use the cache's first layer. Each layer of a model has its own, whose number `forward` is given.",
                {"cache.update(layer, key, value)": "cache.update(0, key, value)"},
            ),
            "past_kept_in_the_layer": (
                "You keep the past in the layer itself. Then it reads every text as the continuation of the one before, and saves it with its weights. What was "
                "read belongs in the cache.",
                {
                    "key, value = ...": "if hasattr(self, 'past_key'):\n"
                    "    key = torch.cat([self.past_key, key], dim=2)\n"
                    "    value = torch.cat([self.past_value, value], dim=2)\n"
                    "self.register_buffer('past_key', key)\n"
                    "self.register_buffer('past_value', value)"
                },
            ),
            # --- attention: the rest of it
            "not_dropped": (
                "In training you drop no weights.",
                {"self.dropout": ""},
            ),
            "heads_joined_without_moving": (
                "You join the heads without moving time back in front of them, so the numbers of different tokens are mixed.",
                {"self.w_o(...)": "self.w_o(heads.reshape(x.shape))"},
            ),
            "no_output_projection": (
                "You return the joined heads. The output projection `w_o` mixes them.",
                {"self.w_o(_)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "KVCache",
        {
            "room_stays_on_the_cpu": (
                "Your cache stays on the CPU, where it was allocated: writing into it copies each chunk there, and attention gets keys that are not where its queries are. Allocate on the device of the first chunk.",
                {
                    "(room.dtype, room.device) == (chunk.dtype, chunk.device)": "room.dtype == chunk.dtype",
                    "torch.empty_like(room, dtype=chunk.dtype, device=chunk.device)": "torch.empty_like(room, dtype=chunk.dtype)",
                    "(chunk.dtype, chunk.device) != (held.dtype, held.device)": "chunk.dtype != held.dtype",
                },
            ),
        },
    ),
    *on_devices(
        "CachedSelfAttention",
        {
            "mask_made_on_the_cpu": (
                "You make the mask on the CPU, and the scores may be on a GPU. `torch.ones` takes `device=x.device`.",
                {"device=x.device": ""},
            ),
        },
    ),
]
