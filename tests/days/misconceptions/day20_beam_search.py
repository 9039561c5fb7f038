"""Day 20: what goes wrong with beam search: in the bookkeeping, at the ends, and in what the winner is chosen by."""

from course.judging.misconceptions import Misconception

ENCODE = "memory = model.encode(src, src_mask).repeat_interleave(beam, dim=0)"
WIDEN_MASK = "src_mask = src_mask.repeat_interleave(beam, dim=0)"
BEGIN = "torch.full((rows, beam, 1), start, dtype=torch.long, device=device)"
ONE_PLACE = "scores[:, 0] = 0.0"
BEST = "best = torch.full((rows, max_len), 0, dtype=torch.long, device=device)"
FIRST = "best[:, 0] = start"
STEPS = "for n in range(1, max_len):"
MASK = "earlier = subsequent_mask(n).to(device)"
DECODE = "states = model.decode(memory, src_mask, tokens.flatten(0, 1), earlier)"
GENERATE = "model.generator(states[:, -1])"
TOTALS = "(scores.unsqueeze(-1) + log_probs)"
TOPK = "scores, chosen = totals.topk(beam)"
SPLIT = "parent, following = chosen // log_probs.size(-1), chosen % log_probs.size(-1)"
GATHER = "tokens = tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, n))"
ENDED = "ended = (following == end) | (n == max_len - 1)"
VALUES = "values = (scores / ((5 + n) / 6) ** alpha).masked_fill(~ended, -math.inf)"
BETTER = "better = value > best_value"
KEEP = "best[better, : n + 1] = tokens[better, which[better]]"
LONGEST = "longest = torch.where(better, n + 1, longest)"
LEAVE = "scores = scores.masked_fill(ended, -math.inf)"
HOPE = "hope = scores.max(dim=-1).values / ((4 + max_len) / 6) ** alpha"
STOP = "if (hope <= best_value).all():"
RETURN = "return best[:, : max(longest.tolist(), default=1)]"


def penalty(formula):
    """The edits that put another penalty in place, and give nothing up before it is over."""
    return {
        "scores / ((5 + n) / 6) ** alpha": formula,
        HOPE: "hope = torch.where(scores.max(dim=-1).values.isinf(), -math.inf, math.inf)",
    }


# Another way to write it, in which hypotheses that have ended stay in the beam and go on with 0 at no cost.
ENDED_STAY = """
@torch.no_grad()
def beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6):
    rows, device = src.size(0), src.device
    memory = model.encode(src, src_mask).repeat_interleave(beam, dim=0)
    src_mask = src_mask.repeat_interleave(beam, dim=0)
    tokens = torch.full((rows, beam, 1), start, dtype=torch.long, device=device)
    scores = torch.full((rows, beam), -math.inf, device=device)
    scores[:, 0] = 0.0
    over = torch.zeros(rows, beam, dtype=torch.bool, device=device)
    lengths = torch.zeros(rows, beam, dtype=torch.long, device=device)
    while tokens.size(-1) < max_len and not over.all():
        earlier = subsequent_mask(tokens.size(-1)).to(device)
        states = model.decode(memory, src_mask, tokens.flatten(0, 1), earlier)
        log_probs = model.generator(states[:, -1]).unflatten(0, (rows, beam))
        silence = torch.full_like(log_probs, -math.inf)
        silence[..., 0] = 0.0
        log_probs = torch.where(over.unsqueeze(-1), silence, log_probs)
        totals = (scores.unsqueeze(-1) + log_probs).flatten(1)
        scores, chosen = totals.topk(beam)
        parent, following = chosen // log_probs.size(-1), chosen % log_probs.size(-1)
        tokens = tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, tokens.size(-1)))
        tokens = torch.cat([tokens, following.unsqueeze(-1)], dim=-1)
        over, lengths = over.gather(1, parent), lengths.gather(1, parent)
        lengths = lengths + (~over).long()
        over = over | (following == end)
    which = (scores / ((5 + lengths) / 6) ** alpha).argmax(dim=-1, keepdim=True)
    best = tokens.gather(1, which.unsqueeze(-1).expand(-1, -1, tokens.size(-1))).squeeze(1)
    return best[:, : 1 + int(lengths.gather(1, which).max())]
"""


def ended_stay(find, put):
    """That other way, with one change."""
    assert ENDED_STAY.count(find) == 1, find
    return ENDED_STAY.replace(find, put)


MISCONCEPTIONS = [
    # --- the length penalty
    Misconception(
        "no_length_penalty",
        "beam_search",
        "Your hypotheses are compared by their bare log-probability, or all divided by the same number, as when what fills a row up after its end is counted as well. "
        "Every further token makes the sum smaller, so short ones win merely for being short. What a hypothesis is worth is divided by a penalty that grows with its own length.",
        penalty("scores"),
    ),
    Misconception(
        "mean_log_probability",
        "beam_search",
        "You divide by the number of tokens. That is a length penalty too, and a much stronger one. The one asked for grows more slowly: see the formula in "
        "the docstring.",
        penalty("scores / n"),
    ),
    Misconception(
        "power_of_the_bare_length",
        "beam_search",
        "You divide by n to the power of alpha. Other programs do that; here 5 is added to n, and the sum divided by 6, so that a hypothesis of one token "
        "is not penalised at all, and the first few tokens count little.",
        penalty("scores / n**alpha"),
    ),
    Misconception(
        "alpha_ignored",
        "beam_search",
        "Your penalty is (5 + n) / 6 whatever alpha is. It is raised to the power of alpha: 0 switches it off, 1 is what you have.",
        penalty("scores / ((5 + n) / 6)"),
    ),
    Misconception(
        "alpha_as_a_factor",
        "beam_search",
        "Alpha is a factor in your penalty. A factor that all hypotheses share changes no comparison; the penalty is raised to the power of alpha.",
        penalty("scores / (((5 + n) / 6) * alpha)"),
    ),
    Misconception(
        "six_divides_n_alone",
        "beam_search",
        "In your penalty only n is divided by 6. The sum 5 + n is: a bracket is missing.",
        penalty("scores / (5 + n / 6) ** alpha"),
    ),
    Misconception(
        "penalty_multiplies",
        "beam_search",
        "You multiply by the penalty. Log-probabilities are negative, so that makes long hypotheses worse still; divided by it they come nearer to 0.",
        penalty("scores * ((5 + n) / 6) ** alpha"),
    ),
    Misconception(
        "penalised_twice",
        "beam_search",
        "You divide by the penalty twice, perhaps once when a hypothesis ends and once more when the best is chosen. That is a penalty with twice the alpha: long hypotheses "
        "gain too much by it.",
        penalty("scores / ((5 + n) / 6) ** alpha / ((5 + n) / 6) ** alpha"),
    ),
    Misconception(
        "start_counted",
        "beam_search",
        "You count the start symbol into the length. It was given, not chosen: n counts the tokens after it.",
        penalty("scores / ((6 + n) / 6) ** alpha"),
    ),
    Misconception(
        "end_not_counted",
        "beam_search",
        "You do not count the end into the length. It was chosen, and its probability is in the sum: n counts it.",
        penalty("scores / ((5 + n - (following == end).long()) / 6) ** alpha"),
    ),
    Misconception(
        "cut_off_counted_as_ended",
        "beam_search",
        "You count an end that is not there: a hypothesis that is cut off at `max_len` has one token less than you penalise it for.",
        penalty("scores / ((5 + n + (following != end).long()) / 6) ** alpha"),
    ),
    Misconception(
        "cut_off_not_penalised",
        "beam_search",
        "Hypotheses that are cut off at `max_len` keep their bare log-probability, and are compared with the penalised ones of those that ended. The same "
        "penalty belongs to both.",
        penalty("scores / ((5 + n * (following == end) + 1 * (following != end)) / 6) ** alpha"),
    ),
    Misconception(
        "penalty_inside_the_search",
        "beam_search",
        "You put the penalised sums back into the search, so the next step penalises them again. The running sums stay bare; the penalty is for comparing "
        "hypotheses of different length, when they are over.",
        penalty("scores / ((5 + n) / 6) ** alpha")
        | {
            LEAVE: "scores = (scores / ((5 + n) / 6) ** alpha).masked_fill(ended, -math.inf)",
        },
    ),
    # --- who wins
    Misconception(
        "first_ended_wins",
        "beam_search",
        "The first hypothesis of a row that ends is your winner. Others, still going on, may come to be worth more.",
        {BETTER: "better = (value > best_value) & best_value.isinf()"},
    ),
    Misconception(
        "decided_at_the_first_end",
        "beam_search",
        "As soon as one hypothesis of a row has ended you choose, among all that the beam holds. Those that have not ended are not over: they may still "
        "come to more, or to less.",
        {
            ENDED: "ended = ((following == end) | (n == max_len - 1)).any(dim=-1, keepdim=True).expand(-1, beam)",
            BETTER: "better = (value > best_value) & best_value.isinf()",
        },
    ),
    Misconception(
        "last_ended_wins",
        "beam_search",
        "What ends later takes the place of what ended before, even if it is worth less. Remember the best of all that ever ended.",
        {BETTER: "better = value > -math.inf"},
    ),
    Misconception(
        "cut_off_only_if_nothing_ended",
        "beam_search",
        "Hypotheses that are cut off at `max_len` count for you only where no other has ended. They compete on equal terms.",
        {
            ENDED: "over = following == end\n"
            "        nothing = best_value.isinf().unsqueeze(1) & ~over.any(dim=-1, keepdim=True)\n"
            "        ended = over | (nothing & (n == max_len - 1))"
        },
    ),
    Misconception(
        "cut_off_thrown_away",
        "beam_search",
        "Hypotheses that are cut off at `max_len` are lost. They compete on equal terms with those that ended.",
        {ENDED: "ended = following == end"},
    ),
    Misconception(
        "hope_without_penalty",
        "beam_search",
        "You give up what goes on as soon as its log-probability is below what the best is worth. But the best is penalised, and the other is not yet: a long hypothesis "
        "may win by its length.",
        {HOPE: "hope = scores.max(dim=-1).values"},
    ),
    Misconception(
        "hope_at_the_present_length",
        "beam_search",
        "You give up what goes on when it would lose if it ended *now*. It may go on to be longer, with hardly less probability, and win: the most it can still come to is its "
        "sum, divided by the penalty at `max_len`.",
        {HOPE: "hope = scores.max(dim=-1).values / ((5 + n) / 6) ** alpha"},
    ),
    Misconception(
        "stops_when_the_likeliest_has_ended",
        "beam_search",
        "You stop when the likeliest hypothesis of the beam has ended. It is the likeliest so far; with a length penalty one that goes on may still be "
        "worth more in the end.",
        {STOP: "if (following[:, 0] == end).all():"},
    ),
    # --- ends
    Misconception(
        "ended_go_on",
        "beam_search",
        "Hypotheses that have ended go on growing. What a model says after an end means nothing, and may be very likely: a hypothesis that ends is complete, "
        "and leaves the search.",
        {LEAVE: "scores = scores.masked_fill(torch.full_like(ended, n == max_len - 1), -math.inf)"},
    ),
    Misconception(
        "stops_when_one_row_is_done",
        "beam_search",
        "You stop as soon as *one* row has found its best. The others have not yet.",
        {STOP: STOP.replace("all", "any")},
    ),
    Misconception(
        "end_ignored",
        "beam_search",
        "For you nothing ever ends before `max_len`. `end` completes a hypothesis.",
        {ENDED: "ended = torch.full_like(following, n == max_len - 1).bool()"},
    ),
    Misconception(
        "max_len_without_start",
        "beam_search",
        "Your hypotheses have one token more than `max_len`. It counts the start symbol.",
        {
            STEPS: "max_len = max_len + 1\n    best, best[:, 0] = torch.zeros(rows, max_len, dtype=torch.long, device=device), start\n    "
            + STEPS
        },
    ),
    Misconception(
        "one_too_few",
        "beam_search",
        "You stop one token short: a hypothesis may be `max_len` long, its start symbol included.",
        {STEPS: "max_len = max(max_len - 1, 1)\n    " + STEPS},
    ),
    Misconception(
        "flags_stay_in_their_places",
        "beam_search",
        "You remember which *place* of the beam has ended, but the hypotheses change places. When the tokens come along with their parent, so "
        "must the note that it has ended.",
        source=ended_stay("over, lengths = over.gather(1, parent), lengths", "lengths = lengths"),
    ),
    Misconception(
        "lengths_stay_in_their_places",
        "beam_search",
        "You count the lengths by places of the beam, but the hypotheses change places. The count has to come along with the tokens.",
        source=ended_stay(
            "= over.gather(1, parent), lengths.gather(1, parent)",
            "= over.gather(1, parent), lengths",
        ),
    ),
    Misconception(
        "silence_costs",
        "beam_search",
        "What has ended goes on with 0, and you charge what the model thinks of that. Nobody asked the model: after its end a hypothesis keeps its "
        "sum.",
        source=ended_stay("silence[..., 0] = 0.0", "silence[..., 0] = log_probs[..., 0]"),
    ),
    # --- the search
    Misconception(
        "all_places_alike",
        "beam_search",
        "All places of the beam begin with the same hypothesis at the same score, so all of them choose the same token, and go on doing so: you follow one beginning, "
        "many times over. At the start there is only one hypothesis in each row; the other places have to be worth nothing yet.",
        {ONE_PLACE: "scores[:] = 0.0"},
    ),
    Misconception(
        "parents_not_gathered",
        "beam_search",
        "You append the chosen tokens to whatever stood in their places. A continuation belongs to the hypothesis that it continues, "
        "which may have stood in another place: its tokens have to come along.",
        {GATHER: "pass"},
    ),
    Misconception(
        "parents_of_the_first_row",
        "beam_search",
        "You fetch the parents from the whole batch: their numbers count within a row, so in the second row and later yours point into the first. With a single row it does not show.",
        {GATHER: "tokens = tokens.flatten(0, 1)[parent]"},
    ),
    Misconception(
        "index_divided_by_the_beam_alone",
        "beam_search",
        "You split the flat index by the beam. A row of the flattened scores is V numbers for the first hypothesis, then V for the second: which one it is, and which "
        "token, comes from dividing by V.",
        {SPLIT: "parent, following = chosen // beam, chosen % beam"},
    ),
    Misconception(
        "index_divided_twice",
        "beam_search",
        "You divide the flat index by V, and then by the beam as well. It counts within a row already, so the quotient by V is the hypothesis; yours is always the first.",
        {
            SPLIT: "parent, following = chosen // log_probs.size(-1) // beam, chosen % log_probs.size(-1)"
        },
    ),
    Misconception(
        "quotient_and_remainder_exchanged",
        "beam_search",
        "Quotient and remainder have changed places: of a flat index divided by V the quotient is the hypothesis, the remainder the token. A token's number is no place of the beam.",
        {SPLIT: "parent, following = chosen % log_probs.size(-1), chosen // log_probs.size(-1)"},
    ),
    Misconception(
        "index_divided_by_the_beam",
        "beam_search",
        "You divide the flat index by the beam. A row of the flattened scores is V numbers for the first hypothesis, then V for the second: which one it is, and which "
        "token, comes from dividing by V.",
        {
            SPLIT: "parent, following = (chosen // beam) % beam, (chosen % beam) % log_probs.size(-1)"
        },
    ),
    Misconception(
        "parent_and_token_exchanged",
        "beam_search",
        "Quotient and remainder have changed places: of a flat index divided by V the quotient is the hypothesis, the remainder the token.",
        {
            SPLIT: "following, parent = (chosen // log_probs.size(-1)) % log_probs.size(-1), (chosen % log_probs.size(-1)) % beam"
        },
    ),
    Misconception(
        "rows_mixed",
        "beam_search",
        "You give the places of the beam their sources in the wrong order: row 0, row 1, row 2, row 0, row 1 … The tokens stand in the order row 0, row 0 …, row 1, row 1 …, each row "
        "as often as the beam is wide.",
        {
            ENCODE: ENCODE.replace("repeat_interleave(beam, dim=0)", "repeat(beam, 1, 1)"),
            WIDEN_MASK: WIDEN_MASK.replace("repeat_interleave(beam, dim=0)", "repeat(beam, 1, 1)"),
        },
    ),
    Misconception(
        "masks_of_other_rows",
        "beam_search",
        "The source's mask is repeated in another order than the memory, so rows look at the memory through each other's masks. Without padding that does not show.",
        {WIDEN_MASK: WIDEN_MASK.replace("repeat_interleave(beam, dim=0)", "repeat(beam, 1, 1)")},
    ),
    Misconception(
        "scores_replaced",
        "beam_search",
        "You compare hypotheses by their last token alone. A hypothesis is as likely as the product of all its tokens: add their log-probabilities up.",
        {TOTALS: "(scores.masked_fill(scores > -math.inf, 0.0).unsqueeze(-1) + log_probs)"},
    ),
    Misconception(
        "probabilities_added",
        "beam_search",
        "You add probabilities. The probability of a sequence is a product, so it is log-probabilities that are added.",
        {TOTALS: "(scores.unsqueeze(-1) + log_probs.exp())"},
    ),
    Misconception(
        "each_goes_on_alone",
        "beam_search",
        "After the first step each of your hypotheses goes on greedily by itself. They compete: all continuations of all hypotheses of a row are compared, and one that "
        "is good twice may take the place of another.",
        {
            TOPK: "scores, chosen = totals.topk(beam)\n"
            "        if n > 1:\n"
            "            scores, alone = totals.unflatten(1, (beam, -1)).max(dim=-1)\n"
            "            chosen = alone + torch.arange(beam, device=device) * log_probs.size(-1)"
        },
    ),
    Misconception(
        "beam_ignored",
        "beam_search",
        "You follow one beginning only, whatever the beam: that is greedy decoding.",
        {TOPK: TOPK + "\n        scores[:, 1:] = -math.inf"},
    ),
    Misconception(
        "beam_as_wide_as_the_vocabulary",
        "beam_search",
        "Your beam never holds more hypotheses than there are tokens. At the first step there are no more; at the second there are V times as many.",
        {TOPK: TOPK + "\n        scores[:, log_probs.size(-1) :] = -math.inf"},
    ),
    Misconception(
        "beam_wider_than_the_vocabulary",
        "beam_search",
        "You ask the first step for `beam` different tokens, and a vocabulary may have fewer. Fill the beam up with hypotheses that are worth nothing, or take what there is.",
        {TOPK: "log_probs[:, 0].topk(beam)\n        " + TOPK},
    ),
    Misconception(
        "one_too_many_followed",
        "beam_search",
        "You follow one beginning more than `beam`.",
        {
            "rows, device = src.size(0), src.device": "rows, device, beam = src.size(0), src.device, beam + 1"
        },
    ),
    # --- what the model is asked
    Misconception(
        "start_is_0",
        "beam_search",
        "Your hypotheses begin with 0, whatever `start` is. Which symbol begins a target is an argument.",
        {BEGIN: BEGIN.replace("start", "0"), FIRST: FIRST.replace("start", "0")},
    ),
    Misconception(
        "generator_forgotten",
        "beam_search",
        "You take states for log-probabilities. `model.generator` turns one into the other.",
        {GENERATE: "states[:, -1]"},
    ),
    Misconception(
        "first_position_asked",
        "beam_search",
        "You ask the first position what comes next. It sees the start symbol alone; the last one has seen everything that was said.",
        {GENERATE: "model.generator(states[:, 0])"},
    ),
    Misconception(
        "last_token_alone",
        "beam_search",
        "You give the decoder only the last token of each hypothesis. It keeps no memory of earlier calls: it must read all of them, each time.",
        {
            DECODE: DECODE.replace(
                "tokens.flatten(0, 1), earlier",
                "tokens[..., -1:].flatten(0, 1), earlier[:, -1:, -1:]",
            )
        },
    ),
    Misconception(
        "no_causal_mask",
        "beam_search",
        "You ask the decoder without a causal mask. All that it sees has been said, true; but in training the earlier positions never saw the later ones, so their states "
        "are not those the model was trained on.",
        {MASK: "earlier = torch.ones(1, n, n, dtype=torch.bool, device=device)"},
    ),
    Misconception(
        "source_mask_forgotten",
        "beam_search",
        "You search without the source's mask, so padding is read as if it were words.",
        {ENCODE: ENCODE.replace("src_mask", "None"), DECODE: DECODE.replace("src_mask", "None")},
    ),
    Misconception(
        "source_mask_only_when_encoding",
        "beam_search",
        "The encoder gets the source's mask, and the decoder does not. It looks at the memory of padding, which is not nothing.",
        {DECODE: DECODE.replace("src_mask", "None")},
    ),
    Misconception(
        "source_mask_only_when_decoding",
        "beam_search",
        "The decoder gets the source's mask, and the encoder does not. Its real tokens have then looked at the padding already.",
        {ENCODE: ENCODE.replace("src_mask", "None")},
    ),
    # --- the result
    Misconception(
        "all_hypotheses_returned",
        "beam_search",
        "You return everything that is left in the beam. One hypothesis a row is asked for, the best.",
        {RETURN: "return tokens"},
    ),
    Misconception(
        "value_too",
        "beam_search",
        "You return more than the tokens. They alone are asked for.",
        {RETURN: RETURN + ", best_value"},
    ),
    Misconception(
        "start_dropped",
        "beam_search",
        "Your result lacks the start symbol. Each row begins with it, as in greedy decoding.",
        {RETURN: RETURN.replace("best[:, :", "best[:, 1 :")},
    ),
    Misconception(
        "end_not_kept",
        "beam_search",
        "A row's `end` is missing from your result. It is kept, and 0 comes after it.",
        {
            KEEP: KEEP
            + "\n        best[better] = best[better].masked_fill(best[better] == end, 0)",
            LONGEST: "longest = torch.where(better, n + 1 - (following.gather(1, which.unsqueeze(1)).squeeze(1) == end).long(), longest)",
        },
    ),
    Misconception(
        "filled_up_with_end",
        "beam_search",
        "You fill the rows that are shorter up with `end`. They are filled with 0, the padding.",
        {
            BEST: BEST.replace("0, dtype", "end, dtype"),
            KEEP: "best[better] = end\n        " + KEEP,
        },
    ),
    Misconception(
        "filled_up_to_max_len",
        "beam_search",
        "You return `max_len` columns in any case. The result is as long as its longest row.",
        {RETURN: "return best"},
    ),
    Misconception(
        "as_long_as_what_was_tried",
        "beam_search",
        "Your result is as long as the longest hypothesis that was *tried*. It is as long as the longest that is returned.",
        {RETURN: "return best[:, : n + 1] if max_len > 1 else best"},
    ),
    Misconception(
        "totals_in_halves",
        "beam_search",
        "You add log-probabilities up in the dtype in which they come. In half precision a total soon takes no notice of small ones: what is added is less than its last digit, and "
        "hypotheses that differ come out alike. Keep the totals in float32.",
        {"wide = torch.promote_types(memory.dtype, torch.float32)": "wide = memory.dtype"},
    ),
    Misconception(
        "not_whole_numbers",
        "beam_search",
        "Your tokens are no integers. Ids are int64.",
        {RETURN: RETURN.replace("return best", "return best.float()")},
    ),
    Misconception(
        "dtype_of_the_source",
        "beam_search",
        "Your tokens have the dtype of the source. They are int64, whatever integers the source is made of.",
        {RETURN: RETURN.replace("return best", "return best.to(src.dtype)")},
    ),
    Misconception(
        "gradients_kept",
        "beam_search",
        "Every step keeps what a `backward` would need. Nobody will ask for gradients of a search: the decorator above the function switches that off.",
        {"@torch.no_grad()\n": ""},
    ),
]
