"""Day 15: what goes wrong with a batch."""

from course.judging.misconceptions import Misconception

SRC_MASK = "self.src_mask = (src != pad).unsqueeze(1)"
TGT = "self.tgt = tgt[:, :-1]"
TGT_Y = "self.tgt_y = tgt[:, 1:]"
EARLIER = "earlier = subsequent_mask(self.tgt.size(1)).to(tgt.device)"
TGT_MASK = "self.tgt_mask = (self.tgt != pad).unsqueeze(1) & earlier"
NTOKENS = "self.ntokens = (self.tgt_y != pad).sum()"
NONE = "self.tgt = self.tgt_y = self.tgt_mask = self.ntokens = None"

MISCONCEPTIONS = [
    # --- the shift
    Misconception(
        "nothing_shifted",
        "Batch",
        "Your decoder is given the target and is to predict the same target, position by position. It would learn to copy the token "
        "in front of it. What it is to predict at a position is the token *after*.",
        {TGT: "self.tgt = tgt", TGT_Y: "self.tgt_y = tgt"},
    ),
    Misconception(
        "shifted_backwards",
        "Batch",
        "Your decoder is given all but the first token and is to predict all but the last: each position is to guess "
        "the token *before* it, which it can look up. It is the other way round.",
        {TGT: "self.tgt = tgt[:, 1:]", TGT_Y: "self.tgt_y = tgt[:, :-1]"},
    ),
    Misconception(
        "target_not_shortened",
        "Batch",
        "Your `tgt` still has its last token. Nothing comes after that one, so there is nothing to predict from it, "
        "and `tgt_y` is one shorter.",
        {TGT: "self.tgt = tgt"},
    ),
    Misconception(
        "prediction_not_shifted",
        "Batch",
        "Your `tgt_y` is the target without its last token, the same as `tgt`: each position is to predict the token that it "
        "is given. What is to be predicted comes one later.",
        {TGT_Y: "self.tgt_y = tgt[:, :-1]"},
    ),
    Misconception(
        "prediction_not_shortened",
        "Batch",
        "Your `tgt_y` still has the start symbol, and is as long as the whole target. Nobody has to predict that "
        "symbol: it is given.",
        {TGT_Y: "self.tgt_y = tgt"},
    ),
    Misconception(
        "both_cut_at_the_front",
        "Batch",
        "Both your sequences have lost their first token, so they are equal. The decoder is given the start symbol, and "
        "it is the last token that it is not given.",
        {TGT: "self.tgt = tgt[:, 1:]"},
    ),
    Misconception(
        "rolled",
        "Batch",
        "You turn the target around by one place: the start symbol comes out at the end, to be predicted after the end of "
        "the sentence. Cut, do not turn: both sequences are one shorter than the target.",
        {TGT: "self.tgt = tgt", TGT_Y: "self.tgt_y = tgt.roll(-1, dims=1)"},
    ),
    Misconception(
        "shifted_along_the_batch",
        "Batch",
        "You cut off a sequence instead of a token: the shift runs along the batch. Time is the second axis.",
        {TGT: "self.tgt = tgt[:-1]", TGT_Y: "self.tgt_y = tgt[1:]"},
    ),
    # --- the source's mask
    Misconception(
        "source_mask_without_query_axis",
        "Batch",
        "Your `src_mask` is (B, S). It lacks the axis of the queries, of length 1; attention would take your batch for "
        "queries.",
        {SRC_MASK: "self.src_mask = src != pad"},
    ),
    Misconception(
        "source_mask_with_a_head_axis",
        "Batch",
        "Your `src_mask` is (B, 1, 1, S). The axis of the heads is added inside the attention (day 9), not here.",
        {SRC_MASK: "self.src_mask = (src != pad).unsqueeze(1).unsqueeze(2)"},
    ),
    Misconception(
        "source_mask_hides_queries",
        "Batch",
        "Your `src_mask` has its axis of length 1 at the end: it hides queries, and lets every other query see all the padding. It is "
        "keys that have to be hidden, the last axis.",
        {SRC_MASK: "self.src_mask = (src != pad).unsqueeze(2)"},
    ),
    Misconception(
        "source_mask_squared",
        "Batch",
        "Your `src_mask` hides padded queries as well as padded keys, (B, S, S). Keys are enough: what padded "
        "queries find nobody reads. And in the decoder the queries are target tokens, of which there are T.",
        {SRC_MASK: "self.src_mask = (src != pad).unsqueeze(1) & (src != pad).unsqueeze(2)"},
    ),
    Misconception(
        "source_mask_inverted",
        "Batch",
        "Your `src_mask` is True at padding. In this course True means *may be attended to*; `nn.MultiheadAttention` has "
        "it the other way round.",
        {SRC_MASK: "self.src_mask = (src == pad).unsqueeze(1)"},
    ),
    Misconception(
        "source_mask_of_numbers",
        "Batch",
        "Your `src_mask` holds numbers, not True and False. A mask of ones and zeros means one thing to code that "
        "multiplies, another to code that adds, and nothing to code that asks which is True.",
        {SRC_MASK: "self.src_mask = (src != pad).unsqueeze(1).float()"},
    ),
    # --- the target's mask
    Misconception(
        "target_mask_of_the_whole_target",
        "Batch",
        "Your `tgt_mask` is (B, T, T), made for the whole target. The decoder is given one token less, and T − 1 of them "
        "attend to each other.",
        {
            EARLIER: EARLIER.replace("self.tgt", "tgt"),
            TGT_MASK: TGT_MASK.replace("self.tgt !=", "tgt !="),
        },
    ),
    Misconception(
        "target_mask_of_the_prediction",
        "Batch",
        "Your `tgt_mask` hides where `tgt_y` is padding. Keys are what the decoder is given, and that is `tgt`: you hide one "
        "key too many in each short sequence, its end symbol.",
        {TGT_MASK: TGT_MASK.replace("self.tgt !=", "self.tgt_y !=")},
    ),
    Misconception(
        "target_mask_or",
        "Batch",
        "Your `tgt_mask` lets through what is real *or* earlier, so the future is open. A key must be both.",
        {TGT_MASK: TGT_MASK.replace("&", "|")},
    ),
    Misconception(
        "target_mask_without_padding",
        "Batch",
        "Your `tgt_mask` hides the future only, with one mask for all sequences. Padding between or before words would be "
        "attended to.",
        {TGT_MASK: "self.tgt_mask = earlier.expand(tgt.size(0), -1, -1)"},
    ),
    Misconception(
        "target_mask_without_a_batch",
        "Batch",
        "Your `tgt_mask` hides the future only, and has no batch: (1, T − 1, T − 1). Each sequence has padding of its own.",
        {TGT_MASK: "self.tgt_mask = earlier"},
    ),
    Misconception(
        "target_mask_without_the_future",
        "Batch",
        "Your `tgt_mask` hides padding only. Every position may read ahead, and finds there what it is to predict.",
        {
            TGT_MASK: "self.tgt_mask = (self.tgt != pad).unsqueeze(1).expand(-1, self.tgt.size(1), -1)"
        },
    ),
    Misconception(
        "target_mask_like_the_sources",
        "Batch",
        "Your `tgt_mask` is made like the source's, (B, 1, T − 1), and hides padding only. Every position may read ahead, and "
        "finds there what it is to predict.",
        {TGT_MASK: "self.tgt_mask = (self.tgt != pad).unsqueeze(1)"},
    ),
    Misconception(
        "target_mask_hides_queries_too",
        "Batch",
        "Your `tgt_mask` hides padded queries as well as padded keys. A padded query keeps its real earlier keys: "
        "nobody reads what it finds, and a query with nothing to attend to is a special case that is better not made.",
        {TGT_MASK: TGT_MASK.replace("&", "& (self.tgt != pad).unsqueeze(2) &")},
    ),
    Misconception(
        "target_mask_hides_queries",
        "Batch",
        "The padding in your `tgt_mask` hides queries, not keys: the axes are swapped. Keys are the last axis.",
        {TGT_MASK: TGT_MASK.replace("unsqueeze(1)", "unsqueeze(2)")},
    ),
    Misconception(
        "target_mask_without_diagonal",
        "Batch",
        "In your `tgt_mask` no position sees itself. It may: what it is to predict is the token after. As it is, the first "
        "position has nothing to attend to.",
        {TGT_MASK: TGT_MASK.replace("earlier", "earlier.tril(-1)")},
    ),
    Misconception(
        "target_mask_reversed",
        "Batch",
        "In your `tgt_mask` each position sees what comes after it, and not what came before: the triangle is the other one.",
        {TGT_MASK: TGT_MASK.replace("earlier", "earlier.mT")},
    ),
    Misconception(
        "target_mask_of_numbers",
        "Batch",
        "Your `tgt_mask` holds numbers, not True and False. A mask of ones and zeros means one thing to code that multiplies, "
        "another to code that adds, and nothing to code that asks which is True.",
        {TGT_MASK: "self.tgt_mask = ((self.tgt != pad).unsqueeze(1) & earlier).float()"},
    ),
    # --- the number of tokens
    Misconception(
        "counts_the_decoders_input",
        "Batch",
        "You count the tokens of `tgt`, the start symbol among them. There is a loss on the tokens of `tgt_y`: in a sentence that "
        "fills its row both counts are equal, in every other yours is one too many.",
        {NTOKENS: "self.ntokens = (self.tgt != pad).sum()"},
    ),
    Misconception(
        "counts_the_whole_target",
        "Batch",
        "You count the start symbol. It is given, never predicted, and has no loss; so your mean loss comes out too small, the "
        "more the shorter the sentences are.",
        {NTOKENS: "self.ntokens = (tgt != pad).sum()"},
    ),
    Misconception(
        "one_start_taken_off_each_row",
        "Batch",
        "You count the whole target, and take off one token a row for its start symbol. A row of nothing but padding has none, and comes to −1. Count what is real in "
        "`tgt_y`.",
        {NTOKENS: "self.ntokens = (tgt != pad).sum() - len(tgt)"},
    ),
    Misconception(
        "counts_the_source",
        "Batch",
        "You count the source's tokens. The loss is summed over the target's.",
        {NTOKENS: "self.ntokens = (src != pad).sum()"},
    ),
    Misconception(
        "counts_padding",
        "Batch",
        "You count every place of `tgt_y`, padding included. There is no loss on padding, so the mean would sink by "
        "nothing but longer neighbours in the batch.",
        {NTOKENS: "self.ntokens = self.tgt_y.numel()"},
    ),
    Misconception(
        "counts_sequences",
        "Batch",
        "You count the sequences. A loss per sequence says more about lengths than about the model; what is counted "
        "are the real tokens of `tgt_y`.",
        {NTOKENS: "self.ntokens = tgt.size(0)"},
    ),
    Misconception(
        "counts_each_row",
        "Batch",
        "You count each sequence for itself. One number is wanted, for the whole batch.",
        {NTOKENS: "self.ntokens = (self.tgt_y != pad).sum(dim=1)"},
    ),
    Misconception(
        "mean_for_a_count",
        "Batch",
        "You take the mean of the flags: that is the share of real tokens. Their number is wanted.",
        {NTOKENS: "self.ntokens = (self.tgt_y != pad).float().mean() * tgt.size(0)"},
    ),
    Misconception(
        "sum_of_the_ids",
        "Batch",
        "You add up the ids of the tokens. Count them: it is the flags, real or not, that have to be added.",
        {NTOKENS: "self.ntokens = (self.tgt_y * (self.tgt_y != pad)).sum()"},
    ),
    # --- the id of padding
    Misconception(
        "pad_is_0",
        "Batch",
        "You take 0 for padding whatever `pad` says. Where 0 is a word, it would be hidden and not counted, and the real "
        "padding would be read.",
        {
            SRC_MASK: SRC_MASK.replace("pad", "0"),
            TGT_MASK: TGT_MASK.replace("pad", "0"),
            NTOKENS: NTOKENS.replace("pad", "0"),
        },
    ),
    Misconception(
        "pad_is_0_in_the_masks",
        "Batch",
        "Your masks take 0 for padding whatever `pad` says; only the count asks for `pad`.",
        {SRC_MASK: SRC_MASK.replace("pad", "0"), TGT_MASK: TGT_MASK.replace("pad", "0")},
    ),
    Misconception(
        "pad_is_0_in_the_targets_mask",
        "Batch",
        "Your `tgt_mask` takes 0 for padding whatever `pad` says.",
        {TGT_MASK: TGT_MASK.replace("pad", "0")},
    ),
    Misconception(
        "pad_is_0_in_the_count",
        "Batch",
        "Your count takes 0 for padding whatever `pad` says. Padding is then counted as if it had a loss, and the word that "
        "has the id 0 is not.",
        {NTOKENS: NTOKENS.replace("pad", "0")},
    ),
    Misconception(
        "ids_above_the_pad",
        "Batch",
        "You take ids above `pad` for real and those below for padding. Padding is one id; where it is not the smallest, "
        "there are words on both sides.",
        {
            SRC_MASK: SRC_MASK.replace("!=", ">"),
            TGT_MASK: TGT_MASK.replace("!=", ">"),
            NTOKENS: NTOKENS.replace("!=", ">"),
        },
    ),
    # --- without a target
    Misconception(
        "count_is_0_without_a_target",
        "Batch",
        "Without a target your `ntokens` is 0. That would be a count, and here nothing was counted: it is None, like the "
        "other three.",
        {NONE: "self.tgt = self.tgt_y = self.tgt_mask = None\n        self.ntokens = 0"},
    ),
    Misconception(
        "nothing_set_without_a_target",
        "Batch",
        "Without a target your batch lacks the four names that belong to it. They should be there and be None, so that whoever "
        "has a batch can ask.",
        {NONE: "pass"},
    ),
    Misconception(
        "target_is_demanded",
        "Batch",
        "Your batch cannot be made without a target. A source alone must do: to translate, or to look at what the encoder "
        "makes of it.",
        {"if tgt is not None:": "if True:"},
    ),
]
