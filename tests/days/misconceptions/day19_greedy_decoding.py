"""Day 19: what goes wrong when a model is let speak, most of it only in a batch, or only after an end."""

from course.judging.misconceptions import of, on_devices

# As the Annotated Transformer does it, for a batch of one and without an end.
AS_ANNOTATED = """
def greedy_decode(model, src, src_mask, max_len, start, end=None):
    memory = model.encode(src, src_mask)
    said = torch.full((1, 1), start).type_as(src)
    for _ in range(max_len - 1):
        earlier = subsequent_mask(said.size(1)).to(src.device)
        states = model.decode(memory, src_mask, said, earlier)
        following = model.generator(states[:, -1]).argmax(dim=1)[0].item()
        said = torch.cat([said, torch.full((1, 1), following).type_as(src)], dim=1)
    return said
"""
MISCONCEPTIONS = [
    *of(
        "greedy_decode",
        {
            "as_the_annotated_transformer_decodes": (
                "You decode as the Annotated Transformer does: for a batch of one, `(1, 1)` to begin with and `[0]` of what comes next, always up to `max_len`. "
                "Here each row of a batch says something of its own, until its `end`, and what is said is kept for no gradient.",
                AS_ANNOTATED,
            ),
            "as_the_annotated_transformer_decodes_and_masks": (
                "You decode as the Annotated Transformer does: for a batch of one, `(1, 1)` to begin with and `[0]` of what comes next, always up to `max_len`. "
                "Here each row of a batch says something of its own, until its `end`. And your mask has the dtype of the tokens; True and False are meant.",
                AS_ANNOTATED.replace(".to(src.device)", ".type_as(src)"),
            ),
            # --- how long
            "max_len_without_start": (
                "Your rows have one token more than `max_len`. It counts the start symbol.",
                {"_ < max_len": "_ <= max_len"},
            ),
            "one_too_few": (
                "Your rows have one token less than `max_len`. A row may be `max_len` long, its start symbol included.",
                {"_ < max_len": "_ < max_len - 1"},
            ),
            "as_long_as_the_source": (
                "You say as many tokens as the source has. That is right for copying; a translation has a length of its own, and only `end` and `max_len` limit it.",
                {"_ < max_len": "_ < min(max_len, src.size(1))"},
            ),
            "start_dropped": (
                "Your result lacks the start symbol. Each row begins with it.",
                {"return tokens": "return tokens[:, 1:]"},
            ),
            "stops_before_the_end_is_put_down": (
                "You stop where all rows say `end` at once, and before it is put down. A row keeps its `end`: append first, then ask whether to go on.",
                {"3: tokens = _": "if end is not None and (following == end).all():\n    break\ntokens = _"},
            ),
            # --- where to begin
            "start_is_0": (
                "Your rows begin with 0, whatever `start` is. A model that was trained to begin with another symbol has never seen that one at the first place, "
                "and says anything.",
                {"start": "0"},
            ),
            "start_is_1": (
                "Your rows begin with 1, whatever `start` is. Which symbol begins a target is the data's affair, so it is an argument.",
                {"start": "1"},
            ),
            "one_start_for_all_rows": (
                "You begin with a single start symbol, `(1, 1)`. That is enough for a batch of one. Every row of the batch has its own beginning.",
                {"(src.size(0), 1)": "(1, 1)"},
            ),
            "begins_with_the_source": (
                "Your rows begin with the first token of their source. The decoder knows targets, and these begin with `start`.",
                {"1: tokens = ...": "tokens = src[:, :1].long()"},
            ),
            "source_repeated_as_target": (
                "You give the decoder the source as if it had been said already. What the decoder reads is what *it* has said so far, from the start symbol on.",
                {"states = ...": "states = model.decode(memory, src_mask, src, subsequent_mask(src.size(1)).to(src.device))"},
            ),
            # --- what comes next
            "first_position_asked": (
                "You ask the first position what comes next. It sees the start symbol alone, and says the same each time. The last one has seen everything that "
                "was said.",
                {"states[:, -1]": "states[:, 0]"},
            ),
            "position_before_the_last_asked": (
                "You ask the position before the last. What it predicts has been said already: the state at place i is about the token at place i + 1, so the last "
                "one is about the token that is missing.",
                {"states[:, -1]": "states[:, max(states.size(1) - 2, 0)]"},
            ),
            "generator_forgotten": (
                "You look for the largest entry of a state. A state is no list of tokens: `model.generator` turns it into log-probabilities, one for each token of "
                "the vocabulary.",
                {"model.generator(_)": "_"},
            ),
            "least_likely": (
                "You say the *least* likely token. Log-probabilities are negative, but the largest one is still the likeliest.",
                {"_.argmax": "_.argmin"},
            ),
            "sampled": (
                "You draw a token by its probability. That is sampling, and has its day (24); greedy decoding says the likeliest token, the same one every time.",
                {"_.argmax(dim=-1)": "torch.multinomial(_.float().exp(), 1).squeeze(1)"},
            ),
            "argmax_over_rows": (
                "Your argmax runs over the rows of the batch: for each token you find the row that likes it best. Each row looks for its own likeliest token, over "
                "the vocabulary, the last axis.",
                {"dim=-1": "dim=0"},
            ),
            "one_token_for_all_rows": (
                "Every row says what the first row says. With a batch of one that does not show. There is a next token for each row.",
                {"2: following = _": "following = _[:1].expand(src.size(0))"},
            ),
            "last_token_alone": (
                "You give the decoder only the last token. It keeps no memory of earlier calls: it must read everything that was said so far, each time. (How to "
                "spare it that is day 25.)",
                {"states = ...": "states = model.decode(memory, src_mask, tokens[:, -1:], earlier[:, -1:, -1:])"},
            ),
            # --- masks
            "no_causal_mask": (
                "You ask the decoder without a mask for its own past. All that it sees has been said, true; but in training the earlier positions never saw the "
                "later ones. Now they do, their states are others than those the model was trained on, and the last position reads them.",
                {"subsequent_mask(_).to(src.device)": "torch.ones(1, _, _, dtype=torch.bool, device=src.device)"},
            ),
            "causal_mask_inverted": (
                "Your causal mask is upside down: True means *may be attended to*. A position sees itself and what comes before it.",
                {"earlier = _": "earlier = ~_"},
            ),
            "source_mask_forgotten": (
                "You decode without the source's mask, so padding is read as if it were words. What a sentence becomes then depends on its neighbours in the batch.",
                {"model.encode(src, src_mask)": "model.encode(src, None)", "2: src_mask": "None"},
            ),
            "source_mask_only_when_encoding": (
                "The encoder gets the source's mask, and the decoder does not. It looks at the memory of padding, which is not nothing: an encoder gives a vector "
                "for every place.",
                {"2: src_mask": "None"},
            ),
            "source_mask_only_when_decoding": (
                "The decoder gets the source's mask, and the encoder does not. Its real tokens have then looked at the padding already.",
                {"model.encode(src, src_mask)": "model.encode(src, None)"},
            ),
            # --- the end
            "end_ignored": (
                "You go on to `max_len` whether or not a row has said `end`. What a model says after it means nothing: no sentence that it was trained on went on "
                "there.",
                {"finished |= ...": ""},
            ),
            "stops_when_one_row_ends": (
                "You stop as soon as *one* row has said `end`. The others have not finished yet: stop when all have.",
                {"finished.all": "finished.any"},
            ),
            "stops_when_all_end_together": (
                "You stop only if all rows say `end` in the same step, and forget what they said before. A row that has ended stays ended.",
                {"3: following = ...": "", "finished |= _": "finished = _"},
            ),
            "forgets_who_has_ended": (
                "You only look at the token that was said last. A row that said `end` two steps ago has started to speak again: once it has ended, it stays so.",
                {"finished |= _": "finished = _"},
            ),
            "last_end_cut_off_and_ended_rows_speak_on": (
                "You break off before the last `end` is added, and rows that have said theirs go on speaking until then. Each row keeps its `end`, and is 0 after "
                "it.",
                {"3: following = ...": "if end is not None and (finished | (following == end)).all():\n    break"},
            ),
            "ended_rows_speak_on": (
                "Rows that have said `end` go on speaking until the last one has ended. After its `end` a row is 0.",
                {"3: following = ...": ""},
            ),
            "ended_rows_repeat_end": (
                "You fill the rows that have ended with `end`. They are filled with 0, the padding: `end` stands once, and says where the row ends.",
                {"3: 0": "end or 0"},
            ),
            "ended_rows_repeat_start": (
                "You fill the rows that have ended with `start`. They are filled with 0, the padding.",
                {"3: 0": "start"},
            ),
            "end_not_kept": (
                "A row's `end` is missing from your result. It is kept, and 0 comes after it: so a sentence that ended can be told from one that was cut off at "
                "`max_len`.",
                {
                    "following == end": "ends",
                    "3: following = ...": "ends = torch.zeros_like(finished) if end is None else following == end\n"
                    "following = following.masked_fill(finished | ends, 0)",
                },
            ),
            "noticed_one_step_late": (
                "You notice an `end` one step too late, so a row says one token more after it.",
                {"following == end": "tokens[:, -2] == end"},
            ),
            "fills_up_to_max_len": (
                "You go on when every row has ended, and add columns of 0 up to `max_len`. The result is as long as its longest row.",
                {"_ and not ...": "_"},
            ),
            "last_end_cut_off": (
                "You break off before the last `end` is added. The longest row keeps its `end`, as the others do.",
                {"3: tokens = _": "if end is not None and (finished | (following == end)).all():\n    break\ntokens = _"},
            ),
            "finishes_before_the_end_is_put_down": (
                "A row counts as finished in your answer before its `end` is put down: it gets 0 in place of it, and where it is the last row you stop without it. "
                "A row keeps its `end`: append what it says, then note who has finished.",
                {"3: following = _": "if end is not None:\n    finished |= following == end\n    if finished.all():\n        break\nfollowing = _"},
            ),
            # --- the result
            "not_whole_numbers": (
                "Your tokens are no integers. Ids are int64, the dtype that an embedding looks up by; `torch.zeros` and `torch.ones` make float32 unless they are "
                "told otherwise.",
                {"torch.long": "torch.float32"},
            ),
            "dtype_of_the_source": (
                "Your tokens have the dtype of the source. They are int64, whatever integers the source is made of.",
                {"return tokens": "return tokens.to(src.dtype)"},
            ),
            "probabilities_too": (
                "You return more than the tokens. They alone are asked for.",
                {"return tokens": "return tokens, finished"},
            ),
            "gradients_kept": (
                "Every step keeps what a `backward` would need, for all steps at once. Nobody will ask for gradients of an argmax: it has none. The decorator "
                "above the function switches that off.",
                {"torch.no_grad()": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "greedy_decode",
        {
            "start_made_on_the_cpu": (
                "Your sequences begin in a tensor on the CPU, though the source may be on a GPU. Make it with `device=src.device`.",
                {"torch.full(_, start, dtype=torch.long, device=src.device)": "torch.full(_, start, dtype=torch.long)"},
            ),
            "finished_made_on_the_cpu": (
                "You note on the CPU which sequences are finished, and ask the tokens, which may be on a GPU. Make the notes with `device=src.device`.",
                {"torch.zeros(_, dtype=torch.bool, device=src.device)": "torch.zeros(_, dtype=torch.bool)"},
            ),
            "finished_on_the_cpu_chooses": (
                "You note on the CPU which sequences are finished, and choose by it between tokens that may be on a GPU. Make the notes with `device=src.device`.",
                {
                    "torch.zeros(_, dtype=torch.bool, device=src.device)": "torch.zeros(_, dtype=torch.bool)",
                    "following.masked_fill(finished, 0)": "torch.where(finished, 0, following)",
                },
            ),
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` makes its mask on the CPU. Move it to where the source is before the model sees it: `.to(src.device)`.",
                {"_.to(src.device)": "_"},
            ),
        },
    ),
]
