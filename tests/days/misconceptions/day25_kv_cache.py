"""Day 25: what goes wrong where something is kept: where it is written, who counts, who sees what."""

from course.judging.misconceptions import of, on_devices

MASKED = {"t_q > 1": "True"}  # a single query, too

MISCONCEPTIONS = [
    *of(
        "KVCache",
        {
            # --- the cache: writing
            "position_counted_by_the_first_layer": (
                "You count a chunk as soon as the first layer has stored it, and write at the position of that count. All later layers then write after their "
                "chunk's place and leave a gap. Each layer must write directly after what it holds itself.",
                {
                    "torch.empty": "torch.zeros",
                    "1: torch.empty_like": "torch.zeros_like",
                    "2: self.lengths[layer]": "self.length",
                    "min(self.lengths)": "self.lengths[0]",
                },
            ),
            "written_at_the_beginning": (
                "You write each chunk at the start of the buffer, over the previous chunk. Write it directly after what the layer already holds.",
                {"2: self.lengths[layer]": "0"},
            ),
            "one_layer_for_all": (
                "All layers write to the same place. Each layer has its own keys and values, selected by `layer`.",
                {
                    "2: self.keys[...] = _": "self.keys[0, :, :, start:end] = _",
                    "2: self.values[...] = _": "self.values[0, :, :, start:end] = _",
                    "4: return ...": "return self.keys[0, :, :, :end], self.values[0, :, :, :end]",
                },
            ),
            "one_counter_for_all_layers": (
                "All your layers share one counter, and each layer advances it, so the second layer writes a chunk after the place where the first layer "
                "wrote it. Each layer must know how many tokens it holds itself.",
                {
                    "torch.empty": "torch.zeros",
                    "1: torch.empty_like": "torch.zeros_like",
                    "2: self.lengths[layer]": "self.length",
                    "3: self.length = ...": "self.length = end",
                },
            ),
            "dtype_of_its_own": (
                "Your cache keeps the dtype that it was created with. An empty cache should take the dtype of the first chunk: a model in half precision "
                "needs a cache in half precision.",
                {"update(): self.keys = ...": "", "update(): self.values = ...": "pass"},
            ),
            "history_kept": (
                "You store keys and values together with their computation graph, so the activations of past steps are never freed. Store only the values, "
                "without the graph.",
                {"key.detach()": "key", "value.detach()": "value"},
            ),
            # --- the cache: what it gives back
            "only_the_chunk": (
                "Your `update` returns the chunk that it was given. The queries need all keys and values so far.",
                {"4: return ...": "return key, value"},
            ),
            "the_whole_room": (
                "Your `update` returns the whole buffer, including places that nothing was written to yet. Return only the keys and values that this layer has stored so far.",
                {"torch.empty": "torch.zeros", "1: torch.empty_like": "torch.zeros_like", "4: return ...": "return self.keys[layer], self.values[layer]"},
            ),
            "room_for_one_more": (
                "Your buffer has one place too many. It should hold `max_len` tokens in all, including the first.",
                {"sizes = ...": "sizes = n_layers, batch, n_heads, max_len + 1, d_k"},
            ),
            # --- the cache: its length
            "counters_of_the_class": (
                "All your caches share their counters, which are stored in the class: creating a cache resets the counters of all others. Assigning to "
                "`self.` gives each cache its own.",
                {"self.lengths = ...": "type(self).lengths = [0] * n_layers"},
            ),
            "counted_by_every_layer": (
                "Your `length` increases with every layer that stores its chunk, so it ends up too large by a factor of the number of layers. It should count "
                "tokens, and a token counts once, however many layers store it.",
                {"3: self.length = ...": "self.length += key.size(2)"},
            ),
            "counted_too_soon": (
                "Your `length` increases as soon as the first layer has its chunk. Later layers of the same step, which compute a position from `length`, "
                "would see it too early. It should count what *every* layer holds.",
                {"min(self.lengths)": "max(self.lengths)"},
            ),
            "steps_counted": (
                "Your `length` counts chunks. It should count tokens, and a chunk can have many.",
                {"self.length = min(_)": "self.length += layer == len(_) - 1"},
            ),
            # --- the cache: rows that change places
            "rows_moved_one_by_one": (
                "You move the rows one by one within the same tensor, so an overwritten row is copied again as if it were the old row. Select all rows first, "
                "then write.",
                {
                    "self.keys[:, :, :, :held] = ...": "for row, old in enumerate(rows.tolist()):\n    self.keys[:, row] = self.keys[:, old]",
                    "self.values[:, :, :, :held] = ...": "for row, old in enumerate(rows.tolist()):\n    self.values[:, row] = self.values[:, old]",
                },
            ),
            "keys_moved_alone": (
                "Your `reorder` moves the keys but not the values. A beam would then use the keys of one text and the values of another.",
                {"self.values[:, :, :, :held] = ...": "pass"},
            ),
            "rows_moved_as_far_as_all_layers_hold": (
                "Your `reorder` moves only as many positions as *every* layer holds. In the middle of a step some layers hold more, and their newest chunk "
                "stays with the old rows.",
                {"max(self.lengths)": "self.length"},
            ),
            "rows_the_other_way": (
                "You read `rows` in the wrong direction: the new row i should be the old row `rows[i]`.",
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
                "Your mask treats the chunk's queries as the first tokens of the text: they attend to the oldest keys, and not to themselves. They are the "
                "last T_q of the T_k positions.",
                MASKED | {"t_k - t_q": ""},
            ),
            "chunks_see_their_future": (
                "With a cache, your attention masks nothing. That is right for a single new token, but in a chunk of several tokens, a token must not attend "
                "to the tokens after it.",
                {"t_k - t_q": "t_k - t_q if cache is None else t_k"},
            ),
            "later_chunks_see_their_future": (
                "You mask the first chunk, but nothing once the cache holds tokens. That is right for a single new token, but in a later chunk of several "
                "tokens, a token must not attend to the tokens after it.",
                {"t_k - t_q": "t_k - t_q if t_q == t_k else t_k"},
            ),
            "mask_of_an_earlier_chunk": (
                "You store one mask for each chunk size. How far a chunk's tokens can see also depends on how many tokens came before. With a new cache, the "
                "mask of an earlier text lets tokens attend to their future.",
                MASKED
                | {
                    "mask = _.tril(t_k - t_q)": "kept = self.__dict__.setdefault('kept', {})\n"
                    "if t_q not in kept or kept[t_q].size(1) < t_k:\n"
                    "    kept[t_q] = _.tril(t_k - t_q)\n"
                    "mask = kept[t_q][:, :t_k]"
                },
            ),
            "mask_inverted": (
                "Your mask is True where a key must be hidden, so each token attends only to later tokens. In `attention`, True means *may be attended to*.",
                MASKED | {"attention(query, key, value, mask, _)": "attention(query, key, value, ~mask, _)"},
            ),
            "square_mask": (
                "Your mask is square, made for as many keys as queries. With a cache there are more keys than queries: the mask must have shape (T_q, T_k).",
                MASKED | {"mask = ....tril(t_k - t_q)": "mask = torch.ones(t_q, t_q, dtype=torch.bool, device=x.device).tril()"},
            ),
            # --- attention: the stored keys and values
            "past_not_used": (
                "You append to the cache, but attend only to the chunk. Attend to what `update` returns.",
                {"key, value = _": "_"},
            ),
            "appended_twice": (
                "You call `update` twice, once for the keys and once for the values, so every chunk is stored twice.",
                {
                    "key, value = ...": "keys, _ = cache.update(layer, key, value)\n"
                    "_, value = cache.update(layer, key, value)\n"
                    "key = keys[:, :, : value.size(2)]\n"
                    "value = value[:, :, : key.size(2)]"
                },
            ),
            "first_layer_of_the_cache": (
                "You always use the cache's first layer. Each layer of a model has its own entry in the cache, and `forward` receives its number.",
                {"cache.update(layer, key, value)": "cache.update(0, key, value)"},
            ),
            "past_kept_in_the_layer": (
                "You store past keys and values in the layer itself. The layer then treats every text as the continuation of the previous text, and saves "
                "past tokens with its weights. Past tokens belong in the cache.",
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
                "In training mode, you do not drop any attention weights.",
                {"self.dropout": ""},
            ),
            "heads_joined_without_moving": (
                "You join the heads without moving time back before the heads, so the numbers of different tokens are mixed.",
                {"self.w_o(...)": "self.w_o(heads.reshape(x.shape))"},
            ),
            "no_output_projection": (
                "You return the concatenated heads. The output projection `w_o`, which mixes them, is missing.",
                {"self.w_o(_)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "KVCache",
        {
            "room_stays_on_the_cpu": (
                "Your cache stays on the CPU, where it was allocated. Writing to it copies each chunk to the CPU, and attention gets keys that are not on the "
                "device of its queries. Allocate on the device of the first chunk.",
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
                "You create the mask on the CPU, but the scores can be on a GPU. `torch.ones` takes `device=x.device`.",
                {"device=x.device": ""},
            ),
        },
    ),
]
