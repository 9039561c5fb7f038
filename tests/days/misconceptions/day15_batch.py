"""Day 15: what goes wrong with a batch."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "Batch",
        {
            # --- the shift
            "nothing_shifted": (
                "Your decoder is given the target and is to predict the same target, position by position. It would learn to copy the token in front of it. What "
                "it is to predict at a position is the token *after*.",
                {"tgt[:, :-1]": "tgt", "tgt[:, 1:]": "tgt"},
            ),
            "shifted_backwards": (
                "Your decoder is given all but the first token and is to predict all but the last: each position is to guess the token *before* it, which it can "
                "look up. It is the other way round.",
                {"self.tgt = tgt[:, :-1]\nself.tgt_y = tgt[:, 1:]": "self.tgt = tgt[:, 1:]\nself.tgt_y = tgt[:, :-1]"},
            ),
            "target_not_shortened": (
                "Your `tgt` still has its last token. Nothing comes after that one, so there is nothing to predict from it, and `tgt_y` is one shorter.",
                {"tgt[:, :-1]": "tgt"},
            ),
            "prediction_not_shifted": (
                "Your `tgt_y` is the target without its last token, the same as `tgt`: each position is to predict the token that it is given. What is to be "
                "predicted comes one later.",
                {"tgt[:, 1:]": "tgt[:, :-1]"},
            ),
            "prediction_not_shortened": (
                "Your `tgt_y` still has the start symbol, and is as long as the whole target. Nobody has to predict that symbol: it is given.",
                {"tgt[:, 1:]": "tgt"},
            ),
            "both_cut_at_the_front": (
                "Both your sequences have lost their first token, so they are equal. The decoder is given the start symbol, and it is the last token that it is "
                "not given.",
                {"tgt[:, :-1]": "tgt[:, 1:]"},
            ),
            "rolled": (
                "You turn the target around by one place: the start symbol comes out at the end, to be predicted after the end of the sentence. Cut, do not turn: "
                "both sequences are one shorter than the target.",
                {"tgt[:, :-1]": "tgt", "tgt[:, 1:]": "tgt.roll(-1, dims=1)"},
            ),
            "shifted_along_the_batch": (
                "You cut off a sequence instead of a token: the shift runs along the batch. Time is the second axis.",
                {"tgt[:, :-1]": "tgt[:-1]", "tgt[:, 1:]": "tgt[1:]"},
            ),
            # --- the source's mask
            "source_mask_without_query_axis": (
                "Your `src_mask` is (B, S). It lacks the axis of the queries, of length 1; attention would take your batch for queries.",
                {"(src != pad).unsqueeze(1)": "src != pad"},
            ),
            "source_mask_with_a_head_axis": (
                "Your `src_mask` is (B, 1, 1, S). The axis of the heads is added inside the attention (day 9), not here.",
                {"self.src_mask = _": "self.src_mask = _.unsqueeze(2)"},
            ),
            "source_mask_hides_queries": (
                "Your `src_mask` has its axis of length 1 at the end: it hides queries, and lets every other query see all the padding. It is keys that have to be "
                "hidden, the last axis.",
                {"(src != pad).unsqueeze(1)": "(src != pad).unsqueeze(2)"},
            ),
            "source_mask_squared": (
                "Your `src_mask` hides padded queries as well as padded keys, (B, S, S). Keys are enough: what padded queries find nobody reads. And in the "
                "decoder the queries are target tokens, of which there are T.",
                {"self.src_mask = _": "self.src_mask = _ & (src != pad).unsqueeze(2)"},
            ),
            "source_mask_inverted": (
                "Your `src_mask` is True at padding. In this course True means *may be attended to*; `nn.MultiheadAttention` has it the other way round.",
                {"src != pad": "src == pad"},
            ),
            "source_mask_of_numbers": (
                "Your `src_mask` holds numbers, not True and False. A mask of ones and zeros means one thing to code that multiplies, another to code that adds, "
                "and nothing to code that asks which is True.",
                {"self.src_mask = _": "self.src_mask = _.float()"},
            ),
            # --- the target's mask
            "target_mask_of_the_whole_target": (
                "Your `tgt_mask` is (B, T, T), made for the whole target. The decoder is given one token less, and T − 1 of them attend to each other.",
                {"self.tgt.size": "tgt.size", "self.tgt != pad": "tgt != pad"},
            ),
            "target_mask_of_the_prediction": (
                "Your `tgt_mask` hides where `tgt_y` is padding. Keys are what the decoder is given, and that is `tgt`: you hide one key too many in each short "
                "sequence, its end symbol.",
                {"self.tgt != pad": "self.tgt_y != pad"},
            ),
            "target_mask_or": (
                "Your `tgt_mask` lets through what is real *or* earlier, so the future is open. A key must be both.",
                {"_ & earlier": "_ | earlier"},
            ),
            "target_mask_without_padding": (
                "Your `tgt_mask` hides the future only, with one mask for all sequences. Padding between or before words would be attended to.",
                {"... & earlier": "earlier.expand(tgt.size(0), -1, -1)"},
            ),
            "target_mask_without_a_batch": (
                "Your `tgt_mask` hides the future only, and has no batch: (1, T − 1, T − 1). Each sequence has padding of its own.",
                {"... & earlier": "earlier"},
            ),
            "target_mask_without_the_future": (
                "Your `tgt_mask` hides padding only. Every position may read ahead, and finds there what it is to predict.",
                {"_ & earlier": "_.expand(-1, self.tgt.size(1), -1)"},
            ),
            "target_mask_like_the_sources": (
                "Your `tgt_mask` is made like the source's, (B, 1, T − 1), and hides padding only. Every position may read ahead, and finds there what it is to "
                "predict.",
                {"_ & earlier": "_"},
            ),
            "target_mask_hides_queries_too": (
                "Your `tgt_mask` hides padded queries as well as padded keys. A padded query keeps its real earlier keys: nobody reads what it finds, and a query "
                "with nothing to attend to is a special case that is better not made.",
                {"3: _.unsqueeze(1)": "_.unsqueeze(1) & _.unsqueeze(2)"},
            ),
            "target_mask_hides_queries": (
                "The padding in your `tgt_mask` hides queries, not keys: the axes are swapped. Keys are the last axis.",
                {"3: _.unsqueeze(1)": "_.unsqueeze(2)"},
            ),
            "target_mask_without_diagonal": (
                "In your `tgt_mask` no position sees itself. It may: what it is to predict is the token after. As it is, the first position has nothing to attend "
                "to.",
                {"_ & earlier": "_ & earlier.tril(-1)"},
            ),
            "target_mask_reversed": (
                "In your `tgt_mask` each position sees what comes after it, and not what came before: the triangle is the other one.",
                {"_ & earlier": "_ & earlier.mT"},
            ),
            "target_mask_of_numbers": (
                "Your `tgt_mask` holds numbers, not True and False. A mask of ones and zeros means one thing to code that multiplies, another to code that adds, "
                "and nothing to code that asks which is True.",
                {"_ & earlier": "(_ & earlier).float()"},
            ),
            # --- the number of tokens
            "counts_the_decoders_input": (
                "You count the tokens of `tgt`, the start symbol among them. There is a loss on the tokens of `tgt_y`: in a sentence that fills its row both "
                "counts are equal, in every other yours is one too many.",
                {"self.tgt_y": "self.tgt"},
            ),
            "counts_the_whole_target": (
                "You count the start symbol. It is given, never predicted, and has no loss; so your mean loss comes out too small, the more the shorter the "
                "sentences are.",
                {"self.tgt_y": "tgt"},
            ),
            "one_start_taken_off_each_row": (
                "You count the whole target, and take off one token a row for its start symbol. A row of nothing but padding has none, and comes to −1. Count what "
                "is real in `tgt_y`.",
                {"(self.tgt_y != pad).sum()": "(tgt != pad).sum() - len(tgt)"},
            ),
            "counts_the_source": (
                "You count the source's tokens. The loss is summed over the target's.",
                {"self.tgt_y": "src"},
            ),
            "counts_padding": (
                "You count every place of `tgt_y`, padding included. There is no loss on padding, so the mean would sink by nothing but longer neighbours in the "
                "batch.",
                {"(self.tgt_y != pad).sum": "self.tgt_y.numel"},
            ),
            "counts_sequences": (
                "You count the sequences. A loss per sequence says more about lengths than about the model; what is counted are the real tokens of `tgt_y`.",
                {"(self.tgt_y != pad).sum()": "tgt.size(0)"},
            ),
            "counts_each_row": (
                "You count each sequence for itself. One number is wanted, for the whole batch.",
                {"_.sum()": "_.sum(dim=1)"},
            ),
            "mean_for_a_count": (
                "You take the mean of the flags: that is the share of real tokens. Their number is wanted.",
                {"_.sum()": "_.float().mean() * tgt.size(0)"},
            ),
            "sum_of_the_ids": (
                "You add up the ids of the tokens. Count them: it is the flags, real or not, that have to be added.",
                {"self.tgt_y != pad": "self.tgt_y * (self.tgt_y != pad)"},
            ),
            # --- the id of padding
            "pad_is_0": (
                "You take 0 for padding whatever `pad` says. Where 0 is a word, it would be hidden and not counted, and the real padding would be read.",
                {"src != pad": "src != 0", "self.tgt != pad": "self.tgt != 0", "self.tgt_y != pad": "self.tgt_y != 0"},
            ),
            "pad_is_0_in_the_masks": (
                "Your masks take 0 for padding whatever `pad` says; only the count asks for `pad`.",
                {"src != pad": "src != 0", "self.tgt != pad": "self.tgt != 0"},
            ),
            "pad_is_0_in_the_targets_mask": (
                "Your `tgt_mask` takes 0 for padding whatever `pad` says.",
                {"self.tgt != pad": "self.tgt != 0"},
            ),
            "pad_is_0_in_the_count": (
                "Your count takes 0 for padding whatever `pad` says. Padding is then counted as if it had a loss, and the word that has the id 0 is not.",
                {"self.tgt_y != pad": "self.tgt_y != 0"},
            ),
            "ids_above_the_pad": (
                "You take ids above `pad` for real and those below for padding. Padding is one id; where it is not the smallest, there are words on both sides.",
                {"src != pad": "src > pad", "self.tgt != pad": "self.tgt > pad", "self.tgt_y != pad": "self.tgt_y > pad"},
            ),
            # --- without a target
            "count_is_0_without_a_target": (
                "Without a target your `ntokens` is 0. That would be a count, and here nothing was counted: it is None, like the other three.",
                {"self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None": "self.tgt = self.tgt_y = self.tgt_mask = None\nself.ntokens = 0"},
            ),
            "nothing_set_without_a_target": (
                "Without a target your batch lacks the four names that belong to it. They should be there and be None, so that whoever has a batch can ask.",
                {"self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None": "pass"},
            ),
            "target_is_demanded": (
                "Your batch cannot be made without a target. A source alone must do: to translate, or to look at what the encoder makes of it.",
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
