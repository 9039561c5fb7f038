"""Day 20: what goes wrong with beam search: in the bookkeeping, at the ends, and in what the winner is chosen by."""

from course.judging.misconceptions import of, on_devices

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
    *of(
        "beam_search",
        {
            # --- the length penalty
            "no_length_penalty": (
                "Your hypotheses are compared by their bare log-probability, or all divided by the same number, as when what fills a row up after its end is "
                "counted as well. Every further token makes the sum smaller, so short ones win merely for being short. What a hypothesis is worth is divided by a "
                "penalty that grows with its own length.",
                {"scores / ...": "scores", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "mean_log_probability": (
                "You divide by the number of tokens. That is a length penalty too, and a much stronger one. The one asked for grows more slowly: see the formula "
                "in the docstring.",
                {"((5 + n) / 6) ** alpha": "n", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "power_of_the_bare_length": (
                "You divide by n to the power of alpha. Other programs do that; here 5 is added to n, and the sum divided by 6, so that a hypothesis of one token "
                "is not penalised at all, and the first few tokens count little.",
                {"((5 + n) / 6) ** alpha": "n**alpha", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "alpha_ignored": (
                "Your penalty is (5 + n) / 6 whatever alpha is. It is raised to the power of alpha: 0 switches it off, 1 is what you have.",
                {"((5 + n) / 6) ** alpha": "(5 + n) / 6", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "alpha_as_a_factor": (
                "Alpha is a factor in your penalty. A factor that all hypotheses share changes no comparison; the penalty is raised to the power of alpha.",
                {"((5 + n) / 6) ** alpha": "((5 + n) / 6) * alpha", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "six_divides_n_alone": (
                "In your penalty only n is divided by 6. The sum 5 + n is: a bracket is missing.",
                {"(5 + n) / 6": "5 + n / 6", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "penalty_multiplies": (
                "You multiply by the penalty. Log-probabilities are negative, so that makes long hypotheses worse still; divided by it they come nearer to 0.",
                {"scores / _": "scores * _", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "penalised_twice": (
                "You divide by the penalty twice, perhaps once when a hypothesis ends and once more when the best is chosen. That is a penalty with twice the "
                "alpha: long hypotheses gain too much by it.",
                {"scores / _": "scores / _ / _", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "start_counted": (
                "You count the start symbol into the length. It was given, not chosen: n counts the tokens after it.",
                {"5 + n": "6 + n", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "end_not_counted": (
                "You do not count the end into the length. It was chosen, and its probability is in the sum: n counts it.",
                {"5 + n": "5 + n - (following == end).long()", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "cut_off_counted_as_ended": (
                "You count an end that is not there: a hypothesis that is cut off at `max_len` has one token less than you penalise it for.",
                {"5 + n": "5 + n + (following != end).long()", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "cut_off_not_penalised": (
                "Hypotheses that are cut off at `max_len` keep their bare log-probability, and are compared with the penalised ones of those that ended. The same "
                "penalty belongs to both.",
                {"5 + n": "5 + n * (following == end) + 1 * (following != end)", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "penalty_inside_the_search": (
                "You put the penalised sums back into the search, so the next step penalises them again. The running sums stay bare; the penalty is for comparing "
                "hypotheses of different length, when they are over.",
                {"scores.masked_fill": "(scores / ((5 + n) / 6) ** alpha).masked_fill", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            # --- who wins
            "first_ended_wins": (
                "The first hypothesis of a row that ends is your winner. Others, still going on, may come to be worth more.",
                {"better = _": "better = _ & best_value.isinf()"},
            ),
            "decided_at_the_first_end": (
                "As soon as one hypothesis of a row has ended you choose, among all that the beam holds. Those that have not ended are not over: they may still "
                "come to more, or to less.",
                {"ended = _": "ended = _.any(dim=-1, keepdim=True).expand(-1, beam)", "better = _": "better = _ & best_value.isinf()"},
            ),
            "last_ended_wins": (
                "What ends later takes the place of what ended before, even if it is worth less. Remember the best of all that ever ended.",
                {"value > best_value": "value > -math.inf"},
            ),
            "cut_off_only_if_nothing_ended": (
                "Hypotheses that are cut off at `max_len` count for you only where no other has ended. They compete on equal terms.",
                {
                    "ended = ... | _": "over = following == end\n"
                    "nothing = best_value.isinf().unsqueeze(1) & ~over.any(dim=-1, keepdim=True)\n"
                    "ended = over | (nothing & _)"
                },
            ),
            "cut_off_thrown_away": (
                "Hypotheses that are cut off at `max_len` are lost. They compete on equal terms with those that ended.",
                {"_ | (n == max_len - 1)": "_"},
            ),
            "hope_without_penalty": (
                "You give up what goes on as soon as its log-probability is below what the best is worth. But the best is penalised, and the other is not yet: a "
                "long hypothesis may win by its length.",
                {"4: _ / ... ** alpha": "_"},
            ),
            "hope_at_the_present_length": (
                "You give up what goes on when it would lose if it ended *now*. It may go on to be longer, with hardly less probability, and win: the most it can "
                "still come to is its sum, divided by the penalty at `max_len`.",
                {"4 + max_len": "5 + n"},
            ),
            "stops_when_the_likeliest_has_ended": (
                "You stop when the likeliest hypothesis of the beam has ended. It is the likeliest so far; with a length penalty one that goes on may still be "
                "worth more in the end.",
                {"hope <= best_value": "following[:, 0] == end"},
            ),
            # --- ends
            "ended_go_on": (
                "Hypotheses that have ended go on growing. What a model says after an end means nothing, and may be very likely: a hypothesis that ends is "
                "complete, and leaves the search.",
                {"3: scores = ...": "scores = scores.masked_fill(torch.full_like(ended, n == max_len - 1), -math.inf)"},
            ),
            "stops_when_one_row_is_done": (
                "You stop as soon as *one* row has found its best. The others have not yet.",
                {"_.all": "_.any"},
            ),
            "end_ignored": (
                "For you nothing ever ends before `max_len`. `end` completes a hypothesis.",
                {"(following == end) | _": "torch.full_like(following, _).bool()"},
            ),
            "max_len_without_start": (
                "Your hypotheses have one token more than `max_len`. It counts the start symbol.",
                {"1: longest = _": "longest = _\nmax_len = max_len + 1\nbest, best[:, 0] = torch.zeros(rows, max_len, dtype=torch.long, device=device), start"},
            ),
            "one_too_few": (
                "You stop one token short: a hypothesis may be `max_len` long, its start symbol included.",
                {"1: longest = _": "longest = _\nmax_len = max(max_len - 1, 1)"},
            ),
            "flags_stay_in_their_places": (
                "You remember which *place* of the beam has ended, but the hypotheses change places. When the tokens come along with their parent, so must the "
                "note that it has ended.",
                ended_stay("over, lengths = over.gather(1, parent), lengths", "lengths = lengths"),
            ),
            "lengths_stay_in_their_places": (
                "You count the lengths by places of the beam, but the hypotheses change places. The count has to come along with the tokens.",
                ended_stay(
                    "= over.gather(1, parent), lengths.gather(1, parent)",
                    "= over.gather(1, parent), lengths",
                ),
            ),
            "silence_costs": (
                "What has ended goes on with 0, and you charge what the model thinks of that. Nobody asked the model: after its end a hypothesis keeps its sum.",
                ended_stay("silence[..., 0] = 0.0", "silence[..., 0] = log_probs[..., 0]"),
            ),
            # --- the search
            "all_places_alike": (
                "All places of the beam begin with the same hypothesis at the same score, so all of them choose the same token, and go on doing so: you follow one "
                "beginning, many times over. At the start there is only one hypothesis in each row; the other places have to be worth nothing yet.",
                {"scores[:, 0] = 0.0": "scores[:] = 0.0"},
            ),
            "parents_not_gathered": (
                "You append the chosen tokens to whatever stood in their places. A continuation belongs to the hypothesis that it continues, which may have stood "
                "in another place: its tokens have to come along.",
                {"tokens = tokens.gather(1, ...)": "pass"},
            ),
            "parents_of_the_first_row": (
                "You fetch the parents from the whole batch: their numbers count within a row, so in the second row and later yours point into the first. With a "
                "single row it does not show.",
                {"tokens.gather(1, ...)": "tokens.flatten(0, 1)[parent]"},
            ),
            "index_divided_by_the_beam_alone": (
                "You split the flat index by the beam. A row of the flattened scores is V numbers for the first hypothesis, then V for the second: which one it "
                "is, and which token, comes from dividing by V.",
                {"..., chosen % ...": "chosen // beam, chosen % beam"},
            ),
            "index_divided_twice": (
                "You divide the flat index by V, and then by the beam as well. It counts within a row already, so the quotient by V is the hypothesis; yours is "
                "always the first.",
                {"chosen // _": "chosen // _ // beam"},
            ),
            "quotient_and_remainder_exchanged": (
                "Quotient and remainder have changed places: of a flat index divided by V the quotient is the hypothesis, the remainder the token. A token's "
                "number is no place of the beam.",
                {"chosen // ..., _": "_, chosen // log_probs.size(-1)"},
            ),
            "index_divided_by_the_beam": (
                "You divide the flat index by the beam. A row of the flattened scores is V numbers for the first hypothesis, then V for the second: which one it "
                "is, and which token, comes from dividing by V.",
                {"chosen // ...": "(chosen // beam) % beam", "chosen % _": "(chosen % beam) % _"},
            ),
            "parent_and_token_exchanged": (
                "Quotient and remainder have changed places: of a flat index divided by V the quotient is the hypothesis, the remainder the token.",
                {"parent, following = _, ...": "following, parent = _ % log_probs.size(-1), (chosen % log_probs.size(-1)) % beam"},
            ),
            "rows_mixed": (
                "You give the places of the beam their sources in the wrong order: row 0, row 1, row 2, row 0, row 1 … The tokens stand in the order row 0, row 0 "
                "…, row 1, row 1 …, each row as often as the beam is wide.",
                {"memory = ...": "memory = model.encode(src, src_mask).repeat(beam, 1, 1)", "src_mask = ...": "src_mask = src_mask.repeat(beam, 1, 1)"},
            ),
            "masks_of_other_rows": (
                "The source's mask is repeated in another order than the memory, so rows look at the memory through each other's masks. Without padding that does "
                "not show.",
                {"src_mask = ...": "src_mask = src_mask.repeat(beam, 1, 1)"},
            ),
            "scores_replaced": (
                "You compare hypotheses by their last token alone. A hypothesis is as likely as the product of all its tokens: add their log-probabilities up.",
                {"scores.unsqueeze": "scores.masked_fill(scores > -math.inf, 0.0).unsqueeze"},
            ),
            "probabilities_added": (
                "You add probabilities. The probability of a sequence is a product, so it is log-probabilities that are added.",
                {"_ + log_probs": "_ + log_probs.exp()"},
            ),
            "each_goes_on_alone": (
                "After the first step each of your hypotheses goes on greedily by itself. They compete: all continuations of all hypotheses of a row are compared, "
                "and one that is good twice may take the place of another.",
                {
                    "scores, chosen = _": "scores, chosen = _\n"
                    "if n > 1:\n"
                    "    scores, alone = totals.unflatten(1, (beam, -1)).max(dim=-1)\n"
                    "    chosen = alone + torch.arange(beam, device=device) * log_probs.size(-1)"
                },
            ),
            "beam_ignored": (
                "You follow one beginning only, whatever the beam: that is greedy decoding.",
                {"scores, chosen = _": "scores, chosen = _\nscores[:, 1:] = -math.inf"},
            ),
            "beam_as_wide_as_the_vocabulary": (
                "Your beam never holds more hypotheses than there are tokens. At the first step there are no more; at the second there are V times as many.",
                {"scores, chosen = _": "scores, chosen = _\nscores[:, log_probs.size(-1) :] = -math.inf"},
            ),
            "beam_wider_than_the_vocabulary": (
                "You ask the first step for `beam` different tokens, and a vocabulary may have fewer. Fill the beam up with hypotheses that are worth nothing, or "
                "take what there is.",
                {"totals = _": "totals = _\nlog_probs[:, 0].topk(beam)"},
            ),
            "one_too_many_followed": (
                "You follow one beginning more than `beam`.",
                {"rows, device = ...": "rows, device, beam = src.size(0), src.device, beam + 1"},
            ),
            # --- what the model is asked
            "start_is_0": (
                "Your hypotheses begin with 0, whatever `start` is. Which symbol begins a target is an argument.",
                {"1: tokens = ...": "tokens = torch.full((rows, beam, 1), 0, dtype=torch.long, device=device)", "best[:, 0] = start": "best[:, 0] = 0"},
            ),
            "generator_forgotten": (
                "You take states for log-probabilities. `model.generator` turns one into the other.",
                {"model.generator(_)": "_"},
            ),
            "first_position_asked": (
                "You ask the first position what comes next. It sees the start symbol alone; the last one has seen everything that was said.",
                {"states[:, -1]": "states[:, 0]"},
            ),
            "last_token_alone": (
                "You give the decoder only the last token of each hypothesis. It keeps no memory of earlier calls: it must read all of them, each time.",
                {"states = ...": "states = model.decode(memory, src_mask, tokens[..., -1:].flatten(0, 1), earlier[:, -1:, -1:])"},
            ),
            "no_causal_mask": (
                "You ask the decoder without a causal mask. All that it sees has been said, true; but in training the earlier positions never saw the later ones, "
                "so their states are not those the model was trained on.",
                {"subsequent_mask(n).to(device)": "torch.ones(1, n, n, dtype=torch.bool, device=device)"},
            ),
            "source_mask_forgotten": (
                "You search without the source's mask, so padding is read as if it were words.",
                {"model.encode(src, src_mask)": "model.encode(src, None)", "2: src_mask": "None"},
            ),
            "source_mask_only_when_encoding": (
                "The encoder gets the source's mask, and the decoder does not. It looks at the memory of padding, which is not nothing.",
                {"2: src_mask": "None"},
            ),
            "source_mask_only_when_decoding": (
                "The decoder gets the source's mask, and the encoder does not. Its real tokens have then looked at the padding already.",
                {"model.encode(src, src_mask)": "model.encode(src, None)"},
            ),
            # --- the result
            "all_hypotheses_returned": (
                "You return everything that is left in the beam. One hypothesis a row is asked for, the best.",
                {"4: best[...]": "tokens"},
            ),
            "value_too": (
                "You return more than the tokens. They alone are asked for.",
                {"return _": "return _, best_value"},
            ),
            "start_dropped": (
                "Your result lacks the start symbol. Each row begins with it, as in greedy decoding.",
                {"best[:, : _]": "best[:, 1 : _]"},
            ),
            "end_not_kept": (
                "A row's `end` is missing from your result. It is kept, and 0 comes after it.",
                {
                    "3: best_value = _": "best[better] = best[better].masked_fill(best[better] == end, 0)\nbest_value = _",
                    "torch.where(better, n + 1, longest)": "torch.where(better, n + 1 - (following.gather(1, which.unsqueeze(1)).squeeze(1) == end).long(), longest)",
                },
            ),
            "filled_up_with_end": (
                "You fill the rows that are shorter up with `end`. They are filled with 0, the padding.",
                {"best = ...": "best = torch.full((rows, max_len), end, dtype=torch.long, device=device)", "better = _": "better = _\nbest[better] = end"},
            ),
            "filled_up_to_max_len": (
                "You return `max_len` columns in any case. The result is as long as its longest row.",
                {"4: best[...]": "best"},
            ),
            "as_long_as_what_was_tried": (
                "Your result is as long as the longest hypothesis that was *tried*. It is as long as the longest that is returned.",
                {"4: best[...]": "best[:, : n + 1] if max_len > 1 else best"},
            ),
            "totals_in_halves": (
                "You add log-probabilities up in the dtype in which they come. In half precision a total soon takes no notice of small ones: what is added is less "
                "than its last digit, and hypotheses that differ come out alike. Keep the totals in float32.",
                {"wide = ...": "wide = memory.dtype"},
            ),
            "not_whole_numbers": (
                "Your tokens are no integers. Ids are int64.",
                {"4: best[_]": "best.float()[_]"},
            ),
            "dtype_of_the_source": (
                "Your tokens have the dtype of the source. They are int64, whatever integers the source is made of.",
                {"4: best[_]": "best.to(src.dtype)[_]"},
            ),
            "gradients_kept": (
                "Every step keeps what a `backward` would need. Nobody will ask for gradients of a search: the decorator above the function switches that off.",
                {"torch.no_grad()": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "beam_search",
        {
            "beams_made_on_the_cpu": (
                "Your beams begin in a tensor on the CPU, though the source may be on a GPU. Make it with `device=src.device`.",
                {"torch.full((rows, beam, 1), start, dtype=torch.long, device=device)": "torch.full((rows, beam, 1), start, dtype=torch.long)"},
            ),
            "scores_made_on_the_cpu": (
                "You keep the beams' scores on the CPU, and add log-probabilities that may be on a GPU. Make them with `device=src.device`.",
                {"torch.full((rows, beam), -math.inf, device=device, dtype=wide)": "torch.full((rows, beam), -math.inf, dtype=wide)"},
            ),
            "best_made_on_the_cpu": (
                "You keep the best sequences on the CPU, so your result is there whatever device the source is on. Make the tensor with `device=src.device`.",
                {"torch.full((rows, max_len), 0, dtype=torch.long, device=device)": "torch.full((rows, max_len), 0, dtype=torch.long)"},
            ),
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` makes its mask on the CPU. Move it to where the source is before the model sees it: `.to(src.device)`.",
                {"_.to(device)": "_"},
            ),
        },
    ),
]
