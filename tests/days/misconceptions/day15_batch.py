"""Day 15: what goes wrong with a batch."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "Batch",
        {
            # --- the shift
            "nothing_shifted": (
                "Your decoder gets the target and must predict the same target, position by position. It would learn to copy its input. The token to predict "
                "at a position is the token *after* it.",
                {"tgt[:, :-1]": "tgt", "tgt[:, 1:]": "tgt"},
            ),
            "shifted_backwards": (
                "Your decoder gets all tokens but the first and must predict all but the last. Each position has to predict the token *before* it, which it "
                "can already see. Swap the two.",
                {"self.tgt = tgt[:, :-1]\nself.tgt_y = tgt[:, 1:]": "self.tgt = tgt[:, 1:]\nself.tgt_y = tgt[:, :-1]"},
            ),
            "target_not_shortened": (
                "Your `tgt` still contains the last token. Nothing comes after that token, so there is nothing to predict at its position, and `tgt_y` is one "
                "token shorter.",
                {"tgt[:, :-1]": "tgt"},
            ),
            "prediction_not_shortened": (
                "Your `tgt_y` still contains the start symbol, and is as long as the whole target. The start symbol is an input and is never predicted.",
                {"tgt[:, 1:]": "tgt"},
            ),
            "rolled": (
                "You rotate the target by one position, so the start symbol becomes the last token to predict. Slice instead: both sequences are one token "
                "shorter than the target.",
                {"tgt[:, :-1]": "tgt", "tgt[:, 1:]": "tgt.roll(-1, dims=1)"},
            ),
            "shifted_along_the_batch": (
                "You remove a sequence instead of a token: the shift runs along the batch. Time is the second axis.",
                {"tgt[:, :-1]": "tgt[:-1]", "tgt[:, 1:]": "tgt[1:]"},
            ),
            # --- the source's mask
            "source_mask_without_query_axis": (
                "Your `src_mask` has shape (B, S). The axis of the queries, of length 1, is missing, so attention would take the batch axis for the queries.",
                {"(src != pad).unsqueeze(1)": "src != pad"},
            ),
            "source_mask_with_a_head_axis": (
                "Your `src_mask` has shape (B, 1, 1, S). Attention adds the axis for the heads itself (day 9).",
                {"self.src_mask = _": "self.src_mask = _.unsqueeze(2)"},
            ),
            "source_mask_squared": (
                "Your `src_mask`, of shape (B, S, S), hides padded queries as well as padded keys. Hiding keys is enough, because nothing uses the outputs of "
                "padded queries. And in the decoder the queries are the T target tokens, not the S source tokens.",
                {"self.src_mask = _": "self.src_mask = _ & (src != pad).unsqueeze(2)"},
            ),
            "source_mask_inverted": (
                "Your `src_mask` is True at padding. In this course True means *may be attended to*; in `nn.MultiheadAttention` it means *hidden*.",
                {"src != pad": "src == pad"},
            ),
            # --- the target's mask
            "target_mask_of_the_whole_target": (
                "Your `tgt_mask` has shape (B, T, T), made for the whole target. The decoder's input is one token shorter, so T − 1 tokens attend to each "
                "other.",
                {"self.tgt.size": "tgt.size", "self.tgt != pad": "tgt != pad"},
            ),
            "target_mask_of_the_prediction": (
                "Your `tgt_mask` hides the positions where `tgt_y` is padding. The keys are the decoder's input, `tgt`. In each short sequence you hide one "
                "key too many, the end symbol.",
                {"self.tgt != pad": "self.tgt_y != pad"},
            ),
            "target_mask_hides_queries": (
                "In your `tgt_mask` the padding hides queries, not keys: the axes are swapped. Keys are the last axis.",
                {"3: _.unsqueeze(1)": "_.unsqueeze(2)"},
            ),
            "target_mask_or": (
                "Your `tgt_mask` allows keys that are real *or* earlier, so the future is visible. A key must be both.",
                {"_ & causal_mask": "_ | causal_mask"},
            ),
            "target_mask_without_padding": (
                "Your `tgt_mask` hides only the future, with the same mask for all sequences. Tokens would attend to padding between or before words.",
                {"... & causal_mask": "causal_mask.expand(tgt.size(0), -1, -1)"},
            ),
            "target_mask_without_the_future": (
                "Your `tgt_mask` hides only padding. Every position can attend to later positions, which hold the tokens to predict.",
                {"_ & causal_mask": "_.expand(-1, self.tgt.size(1), -1)"},
            ),
            "target_mask_hides_queries_too": (
                "Your `tgt_mask` hides padded queries as well as padded keys. Let a padded query attend to the real tokens before it: nothing uses its "
                "output, but a query without any key is a special case to avoid.",
                {"3: _.unsqueeze(1)": "_.unsqueeze(1) & _.unsqueeze(2)"},
            ),
            "target_mask_without_diagonal": (
                "In your `tgt_mask`, no position may attend to itself. It must be allowed to, because the token to predict is the next one. With your mask, "
                "the first position has no key.",
                {"_ & causal_mask": "_ & causal_mask.tril(-1)"},
            ),
            # --- the number of tokens
            "counts_the_decoders_input": (
                "You count the tokens of `tgt`, including the start symbol. The loss is on the tokens of `tgt_y`. In a sentence that fills its row both "
                "counts are equal; in every other sentence, your count is one too many.",
                {"self.tgt_y": "self.tgt"},
            ),
            "counts_the_whole_target": (
                "You count the start symbol. It is an input that is never predicted and has no loss, so your mean loss is too small, especially for short "
                "sentences.",
                {"self.tgt_y": "tgt"},
            ),
            "counts_padding": (
                "You count every position of `tgt_y`, including padding. Padding has no loss, so your mean depends on the lengths of the other sentences in "
                "the batch.",
                {"(self.tgt_y != pad).sum": "self.tgt_y.numel"},
            ),
            # --- the id of padding
            "pad_is_0": (
                "You compare with 0 whatever `pad` is. If 0 is a real token, it is hidden and not counted, and the real padding is treated as text.",
                {"src != pad": "src != 0", "self.tgt != pad": "self.tgt != 0", "self.tgt_y != pad": "self.tgt_y != 0"},
            ),
            # --- without a target
            "nothing_set_without_a_target": (
                "Without a target, your batch lacks the four target attributes. They should exist and be None, so that a caller can check them.",
                {"self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None": "pass"},
            ),
            "target_is_demanded": (
                "Your batch cannot be created without a target. A source alone must be enough, for example when you translate it.",
                {"tgt is not None": "True"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "Batch",
        {
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` creates its mask on the CPU, and you combine it with a mask on the device of the tokens. Move it to that device: "
                "`.to(tgt.device)`.",
                {"_.to(tgt.device)": "_"},
            ),
        },
    ),
]
