"""Day 15: what goes wrong with a batch."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "Batch",
        {
            # --- the shift
            "nothing_shifted": (
                "Your decoder gets the target and has to predict the same target, position by position. It would learn to copy its input. The token to predict at a "
                "position is the token *after* it.",
                {"tgt[:, :-1]": "tgt", "tgt[:, 1:]": "tgt"},
            ),
            "shifted_backwards": (
                "Your decoder gets all tokens but the first and has to predict all but the last: each position has to predict the token *before* it, which it can "
                "attend to. It should be the other way round.",
                {"self.tgt = tgt[:, :-1]\nself.tgt_y = tgt[:, 1:]": "self.tgt = tgt[:, 1:]\nself.tgt_y = tgt[:, :-1]"},
            ),
            "target_not_shortened": (
                "Your `tgt` still has its last token. Nothing comes after that token, so there is nothing to predict from it, and `tgt_y` is one shorter.",
                {"tgt[:, :-1]": "tgt"},
            ),
            "prediction_not_shifted": (
                "Your `tgt_y` is the target without its last token, the same as `tgt`: each position has to predict its own input. The token to predict is the next "
                "one.",
                {"tgt[:, 1:]": "tgt[:, :-1]"},
            ),
            "prediction_not_shortened": (
                "Your `tgt_y` still has the start symbol, and is as long as the whole target. The start symbol is an input and is never predicted.",
                {"tgt[:, 1:]": "tgt"},
            ),
            "both_cut_at_the_front": (
                "Both your sequences have lost their first token, so they are equal. The decoder's input includes the start symbol and leaves out the last token.",
                {"tgt[:, :-1]": "tgt[:, 1:]"},
            ),
            "rolled": (
                "You rotate the target by one position: the start symbol becomes the last token to predict. Slice instead of rotating: both sequences are one shorter "
                "than the target.",
                {"tgt[:, :-1]": "tgt", "tgt[:, 1:]": "tgt.roll(-1, dims=1)"},
            ),
            "shifted_along_the_batch": (
                "You remove a sequence instead of a token: the shift runs along the batch. Time is the second axis.",
                {"tgt[:, :-1]": "tgt[:-1]", "tgt[:, 1:]": "tgt[1:]"},
            ),
            # --- the source's mask
            "source_mask_without_query_axis": (
                "Your `src_mask` is (B, S). The axis of the queries, of length 1, is missing; attention would use the batch axis as queries.",
                {"(src != pad).unsqueeze(1)": "src != pad"},
            ),
            "source_mask_with_a_head_axis": (
                "Your `src_mask` is (B, 1, 1, S). The axis of the heads is added inside the attention (day 9), not here.",
                {"self.src_mask = _": "self.src_mask = _.unsqueeze(2)"},
            ),
            "source_mask_hides_queries": (
                "Your `src_mask` has its axis of length 1 at the end: it hides queries, and lets every other query attend to all the padding. It should hide keys, the "
                "last axis.",
                {"(src != pad).unsqueeze(1)": "(src != pad).unsqueeze(2)"},
            ),
            "source_mask_squared": (
                "Your `src_mask` hides padded queries as well as padded keys, (B, S, S). Keys are enough, because the outputs of padded queries are not used. And in "
                "the decoder the queries are target tokens, of which there are T.",
                {"self.src_mask = _": "self.src_mask = _ & (src != pad).unsqueeze(2)"},
            ),
            "source_mask_inverted": (
                "Your `src_mask` is True at padding. In this course True means *may be attended to*; `nn.MultiheadAttention` has it the other way round.",
                {"src != pad": "src == pad"},
            ),
            "source_mask_of_numbers": (
                "Your `src_mask` contains numbers, not True and False. Code that multiplies, code that adds and code that tests for True would each interpret ones and "
                "zeros differently.",
                {"self.src_mask = _": "self.src_mask = _.float()"},
            ),
            # --- the target's mask
            "target_mask_of_the_whole_target": (
                "Your `tgt_mask` is (B, T, T), made for the whole target. The decoder's input is one token shorter, so T − 1 tokens attend to each other.",
                {"self.tgt.size": "tgt.size", "self.tgt != pad": "tgt != pad"},
            ),
            "target_mask_of_the_prediction": (
                "Your `tgt_mask` hides where `tgt_y` is padding. The keys are the decoder's input, `tgt`: you hide one key too many in each short sequence, its end "
                "symbol.",
                {"self.tgt != pad": "self.tgt_y != pad"},
            ),
            "target_mask_or": (
                "Your `tgt_mask` allows keys that are real *or* earlier, so the future is visible. A key must be both.",
                {"_ & causal_mask": "_ | causal_mask"},
            ),
            "target_mask_without_padding": (
                "Your `tgt_mask` hides the future only, with one mask for all sequences. Padding between or before words would be attended to.",
                {"... & causal_mask": "causal_mask.expand(tgt.size(0), -1, -1)"},
            ),
            "target_mask_without_a_batch": (
                "Your `tgt_mask` hides the future only, and has no batch: (1, T − 1, T − 1). Each sequence has padding of its own.",
                {"... & causal_mask": "causal_mask"},
            ),
            "target_mask_without_the_future": (
                "Your `tgt_mask` hides padding only. Every position may attend to later positions, which hold the tokens to predict.",
                {"_ & causal_mask": "_.expand(-1, self.tgt.size(1), -1)"},
            ),
            "target_mask_like_the_sources": (
                "Your `tgt_mask` is made like the source's, (B, 1, T − 1), and hides padding only. Every position may attend to later positions, which hold the tokens "
                "to predict.",
                {"_ & causal_mask": "_"},
            ),
            "target_mask_hides_queries_too": (
                "Your `tgt_mask` hides padded queries as well as padded keys. A padded query keeps its real earlier keys: its output is not used, and a query without "
                "any key is a special case to avoid.",
                {"3: _.unsqueeze(1)": "_.unsqueeze(1) & _.unsqueeze(2)"},
            ),
            "target_mask_hides_queries": (
                "The padding in your `tgt_mask` hides queries, not keys: the axes are swapped. Keys are the last axis.",
                {"3: _.unsqueeze(1)": "_.unsqueeze(2)"},
            ),
            "target_mask_without_diagonal": (
                "In your `tgt_mask`, no position may attend to itself. It may, because the token to predict is the next one. With your mask, the first position has no "
                "key.",
                {"_ & causal_mask": "_ & causal_mask.tril(-1)"},
            ),
            "target_mask_reversed": (
                "In your `tgt_mask`, each position may attend to later positions and not to earlier ones: use the other triangle.",
                {"_ & causal_mask": "_ & causal_mask.mT"},
            ),
            "target_mask_of_numbers": (
                "Your `tgt_mask` contains numbers, not True and False. Code that multiplies, code that adds and code that tests for True would each interpret ones and "
                "zeros differently.",
                {"_ & causal_mask": "(_ & causal_mask).float()"},
            ),
            # --- the number of tokens
            "counts_the_decoders_input": (
                "You count the tokens of `tgt`, including the start symbol. The loss is on the tokens of `tgt_y`: in a sentence that fills its row both counts are "
                "equal, in every other yours is one too many.",
                {"self.tgt_y": "self.tgt"},
            ),
            "counts_the_whole_target": (
                "You count the start symbol. It is an input, never predicted, and has no loss; so your mean loss is too small, and more so for short sentences.",
                {"self.tgt_y": "tgt"},
            ),
            "one_start_taken_off_each_row": (
                "You count the whole target and subtract one token per row for its start symbol. A row of padding only has no start symbol, and counts as −1. Count the "
                "real tokens in `tgt_y`.",
                {"(self.tgt_y != pad).sum()": "(tgt != pad).sum() - len(tgt)"},
            ),
            "counts_the_source": (
                "You count the source's tokens. The loss is summed over the target's.",
                {"self.tgt_y": "src"},
            ),
            "counts_padding": (
                "You count every position of `tgt_y`, including padding. There is no loss on padding, so the mean would depend on the lengths of the other sentences in "
                "the batch.",
                {"(self.tgt_y != pad).sum": "self.tgt_y.numel"},
            ),
            "counts_sequences": (
                "You count the sequences. A loss per sequence depends on the lengths; count the real tokens of `tgt_y`.",
                {"(self.tgt_y != pad).sum()": "tgt.size(0)"},
            ),
            "counts_each_row": (
                "You count each sequence separately. The result should be one number for the whole batch.",
                {"_.sum()": "_.sum(dim=1)"},
            ),
            "mean_for_a_count": (
                "You take the mean of the flags, which is the share of real tokens. The result should be their number.",
                {"_.sum()": "_.float().mean() * tgt.size(0)"},
            ),
            "sum_of_the_ids": (
                "You add up the ids of the tokens. To count the real tokens, add up the flags that say whether each is real.",
                {"self.tgt_y != pad": "self.tgt_y * (self.tgt_y != pad)"},
            ),
            # --- the id of padding
            "pad_is_0": (
                "You compare with 0 whatever `pad` is. If 0 is a real token, it is hidden and not counted, and the real padding is treated as text.",
                {"src != pad": "src != 0", "self.tgt != pad": "self.tgt != 0", "self.tgt_y != pad": "self.tgt_y != 0"},
            ),
            "pad_is_0_in_the_masks": (
                "Your masks compare with 0 whatever `pad` is; only the count uses `pad`.",
                {"src != pad": "src != 0", "self.tgt != pad": "self.tgt != 0"},
            ),
            "pad_is_0_in_the_targets_mask": (
                "Your `tgt_mask` compares with 0 whatever `pad` is.",
                {"self.tgt != pad": "self.tgt != 0"},
            ),
            "pad_is_0_in_the_count": (
                "Your count compares with 0 whatever `pad` is. Padding is then counted as if it had a loss, and the real token with the id 0 is not.",
                {"self.tgt_y != pad": "self.tgt_y != 0"},
            ),
            "ids_above_the_pad": (
                "You treat ids above `pad` as real and ids below as padding. Padding is one id; if it is not the smallest, there are real tokens on both sides.",
                {"src != pad": "src > pad", "self.tgt != pad": "self.tgt > pad", "self.tgt_y != pad": "self.tgt_y > pad"},
            ),
            # --- without a target
            "count_is_0_without_a_target": (
                "Without a target, your `ntokens` is 0. It should be None, like the other three attributes.",
                {"self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None": "self.tgt = self.tgt_y = self.tgt_mask = None\nself.ntokens = 0"},
            ),
            "nothing_set_without_a_target": (
                "Without a target, your batch lacks the four target attributes. They should exist and be None, so that a caller can test them.",
                {"self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None": "pass"},
            ),
            "target_is_demanded": (
                "Your batch cannot be created without a target. A source alone must be enough, for example to translate it.",
                {"tgt is not None": "True"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "Batch",
        {
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` makes its mask on the CPU, and you join it with a mask that is where the tokens are. Move it there: `.to(tgt.device)`.",
                {"_.to(tgt.device)": "_"},
            ),
        },
    ),
]
