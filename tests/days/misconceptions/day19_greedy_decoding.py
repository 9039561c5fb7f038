"""Day 19: what goes wrong when a model is let speak, most of it only in a batch, or only after an end."""

from course.judging.misconceptions import of, on_devices

# As the Annotated Transformer does it, for a batch of one and without an end.
AS_ANNOTATED = """
def greedy_decode(model, src, src_mask, max_len, start, end=None):
    memory = model.encode(src, src_mask)
    said = torch.full((1, 1), start).type_as(src)
    for _ in range(max_len - 1):
        causal_mask = subsequent_mask(said.size(1)).to(src.device)
        states = model.decode(memory, src_mask, said, causal_mask)
        next_tokens = model.generator(states[:, -1]).argmax(dim=1)[0].item()
        said = torch.cat([said, torch.full((1, 1), next_tokens).type_as(src)], dim=1)
    return said
"""
MISCONCEPTIONS = [
    *of(
        "greedy_decode",
        {
            "as_the_annotated_transformer_decodes": (
                "You decode as the Annotated Transformer does: for a batch of one, with an initial tensor of shape `(1, 1)`, the first entry of the "
                "prediction, and always up to `max_len`. Here each row of a batch generates its own tokens until its `end`, and no gradients are recorded.",
                AS_ANNOTATED,
            ),
            # --- how long
            "max_len_without_start": (
                "Your rows have one token more than `max_len`. The start symbol counts as one of the `max_len` tokens.",
                {"_ < max_len": "_ <= max_len"},
            ),
            "one_too_few": (
                "Your rows have one token fewer than `max_len`. A row can have `max_len` tokens, including its start symbol.",
                {"_ < max_len": "_ < max_len - 1"},
            ),
            "start_dropped": (
                "Your result lacks the start symbol. Each row should begin with it.",
                {"return tokens": "return tokens[:, 1:]"},
            ),
            "stops_before_the_end_is_put_down": (
                "When all rows generate `end` at once, you stop before you append it. A row keeps its `end`: append first, then decide whether to continue.",
                {"3: tokens = _": "if end is not None and (next_tokens == end).all():\n    break\ntokens = _"},
            ),
            # --- where to begin
            "start_is_0": (
                "Your rows begin with 0, whatever `start` is. The model was trained with a different first symbol, so its predictions after 0 mean nothing.",
                {"start": "0"},
            ),
            "one_start_for_all_rows": (
                "You begin with a single start symbol, of shape `(1, 1)`, which is enough only for a batch of one. Every row of the batch needs its own start "
                "symbol.",
                {"(src.size(0), 1)": "(1, 1)"},
            ),
            # --- what comes next
            "first_position_asked": (
                "You use the prediction at the first position. It attends only to the start symbol, so it is the same in every step. The last position "
                "attends to the complete prefix.",
                {"states[:, -1]": "states[:, 0]"},
            ),
            "generator_forgotten": (
                "You take the largest entry of a decoder state. Its entries do not stand for tokens: `model.generator` turns the state into "
                "log-probabilities, one for each entry of the vocabulary.",
                {"model.generator(_)": "_"},
            ),
            "argmax_over_rows": (
                "Your argmax is over the rows of the batch: for each token you find the row with the largest log-probability. Find each row's most probable "
                "token instead, over the vocabulary, the last axis.",
                {"dim=-1": "dim=0"},
            ),
            "one_token_for_all_rows": (
                "Every row gets the token of the first row. With a batch of one the result is right. Each row has its own next token.",
                {"2: next_tokens = _": "next_tokens = _[:1].expand(src.size(0))"},
            ),
            "last_token_alone": (
                "You pass only the last token to the decoder. The decoder stores nothing from earlier calls, so it needs the complete prefix each time. (Day "
                "25 stores the intermediate results.)",
                {"states = ...": "states = model.decode(memory, src_mask, tokens[:, -1:], causal_mask[:, -1:, -1:])"},
            ),
            # --- masks
            "no_causal_mask": (
                "You call the decoder without a causal mask. In training, no position attended to later positions. Now the earlier tokens of the prefix "
                "attend to later ones, so their states differ from those of training, and the last position attends to these states.",
                {"subsequent_mask(_).to(src.device)": "torch.ones(1, _, _, dtype=torch.bool, device=src.device)"},
            ),
            "source_mask_forgotten": (
                "You decode without the source mask, so the model attends to padding as if padding were words. The output for a sentence then depends on the "
                "other sentences in the batch.",
                {"model.encode(src, src_mask)": "model.encode(src, None)", "2: src_mask": "None"},
            ),
            "source_mask_only_when_encoding": (
                "The encoder gets the source mask, but the decoder does not, so the decoder attends to padding. The encoder returns a vector for every "
                "position, including padding.",
                {"2: src_mask": "None"},
            ),
            # --- the end
            "end_ignored": (
                "You continue to `max_len`, whether or not a row has generated `end`. Tokens after `end` are meaningless: in training, no target continued "
                "after its end.",
                {"finished |= ...": ""},
            ),
            "stops_when_one_row_ends": (
                "You stop as soon as *one* row has generated `end`. Stop when all rows have.",
                {"finished.all": "finished.any"},
            ),
            "forgets_who_has_ended": (
                "You check only the newest token. A row that generated `end` two steps ago now has a different newest token, but it must stay finished.",
                {"finished |= _": "finished = _"},
            ),
            "ended_rows_speak_on": (
                "Finished rows continue until the last row has ended. After its `end`, a row should be filled with 0.",
                {"3: next_tokens = ...": ""},
            ),
            "ended_rows_repeat_end": (
                "You fill finished rows with `end`. Fill them with 0, the padding: `end` occurs once and marks the end of the row.",
                {"3: 0": "end or 0"},
            ),
            "end_not_kept": (
                "A row's `end` is missing from your result. Keep it, followed by 0: it distinguishes a finished sentence from a sentence that was cut off at "
                "`max_len`.",
                {
                    "next_tokens == end": "ends",
                    "3: next_tokens = ...": "ends = torch.zeros_like(finished) if end is None else next_tokens == end\n"
                    "next_tokens = next_tokens.masked_fill(finished | ends, 0)",
                },
            ),
            "fills_up_to_max_len": (
                "You continue after every row has ended, and append columns of 0 up to `max_len`. The result should only be as long as its longest row.",
                {"_ and not ...": "_"},
            ),
            "last_end_cut_off": (
                "You stop before you append the last `end`. The longest row should keep its `end`, like the other rows.",
                {"3: tokens = _": "if end is not None and (finished | (next_tokens == end)).all():\n    break\ntokens = _"},
            ),
            # --- the result
            "dtype_of_the_source": (
                "Your tokens have the dtype of the source. They should be int64, whatever integer dtype the source has.",
                {"return tokens": "return tokens.to(src.dtype)"},
            ),
            "gradients_kept": (
                "You record every step for a backward pass, which keeps the activations of all steps in memory. An argmax has no gradient. A decorator above "
                "the function can disable the recording.",
                {"torch.no_grad()": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "greedy_decode",
        {
            "start_made_on_the_cpu": (
                "Your sequences start in a tensor on the CPU, but the source can be on a GPU. Create the tensor with `device=src.device`.",
                {"torch.full(_, start, dtype=torch.long, device=src.device)": "torch.full(_, start, dtype=torch.long)"},
            ),
            "finished_made_on_the_cpu": (
                "You track on the CPU which sequences are finished, but compare tokens that can be on a GPU. Create that tensor with `device=src.device`.",
                {"torch.zeros(_, dtype=torch.bool, device=src.device)": "torch.zeros(_, dtype=torch.bool)"},
            ),
            "finished_on_the_cpu_chooses": (
                "You track on the CPU which sequences are finished, and use this to choose between tokens that can be on a GPU. Create that tensor with "
                "`device=src.device`.",
                {
                    "torch.zeros(_, dtype=torch.bool, device=src.device)": "torch.zeros(_, dtype=torch.bool)",
                    "next_tokens.masked_fill(finished, 0)": "torch.where(finished, 0, next_tokens)",
                },
            ),
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` creates its mask on the CPU. Move it to the device of the source before the model gets it: `.to(src.device)`.",
                {"_.to(src.device)": "_"},
            ),
        },
    ),
]
