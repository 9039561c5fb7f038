"""Day 20: what goes wrong with beam search: in the bookkeeping, at the ends, and in what the winner is chosen by."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "beam_search",
        {
            # --- the length penalty
            "no_length_penalty": (
                "You compare hypotheses by their log-probability without a penalty, or divide all of them by the same number, for instance because you also "
                "count the padding after the end. Each additional token makes the sum smaller, so short hypotheses win only because they are short. Divide by "
                "a penalty that grows with the hypothesis's own length.",
                {"scores / ...": "scores", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "mean_log_probability": (
                "You divide by the number of tokens. The penalty in the docstring grows more slowly with the length.",
                {"((5 + n) / 6) ** alpha": "n", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "power_of_the_bare_length": (
                "You divide by n to the power of alpha, as other programs do. Here 5 is added to n and the sum is divided by 6, so that the penalty of one "
                "token is 1 and the first few tokens matter little.",
                {"((5 + n) / 6) ** alpha": "n**alpha", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "penalty_multiplies": (
                "You multiply by the penalty. Log-probabilities are negative, so this makes the scores of long hypotheses even lower. Dividing brings them "
                "closer to 0.",
                {"scores / _": "scores * _", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "penalty_inside_the_search": (
                "You put the penalized sums back into the search, so the next step penalizes them again. Keep the running sums without a penalty. Use it only "
                "to compare finished hypotheses of different lengths.",
                {"scores.masked_fill": "(scores / ((5 + n) / 6) ** alpha).masked_fill", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "start_counted": (
                "You count the start symbol in the length. The start symbol is given, not generated: n counts only the tokens after it.",
                {"5 + n": "6 + n", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "end_not_counted": (
                "You do not count the end symbol in the length. It is generated, and its probability is in the sum, so n counts it.",
                {"5 + n": "5 + n - (next_tokens == end).long()", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            "one_token_less_counted": (
                "Your length is one token short, whether a hypothesis ended or was cut off. n counts every token after the start symbol, including the end "
                "symbol: the penalty of one token is ((5 + 1) / 6)^alpha = 1.",
                {"5 + n": "4 + n"},
            ),
            "cut_off_not_penalised": (
                "Hypotheses cut off at `max_len` keep their log-probability without a penalty, and you compare them with the scores of finished hypotheses. "
                "Both need the same penalty.",
                {"5 + n": "5 + n * (next_tokens == end) + 1 * (next_tokens != end)", "4: _ / ... ** alpha": "torch.where(_.isinf(), -math.inf, math.inf)"},
            ),
            # --- who wins
            "first_ended_wins": (
                "The first hypothesis of a row that finishes is your result. Unfinished hypotheses may still reach a higher score.",
                {"better = _": "better = _ & best_score.isinf()"},
            ),
            "cut_off_thrown_away": (
                "You discard hypotheses cut off at `max_len`. They should compete on equal terms with those that ended.",
                {"_ | (n == max_len - 1)": "_"},
            ),
            "cut_off_only_if_nothing_ended": (
                "You consider hypotheses cut off at `max_len` only if no other hypothesis has finished. They should compete on equal terms.",
                {
                    "ended = ... | _": "over = next_tokens == end\n"
                    "nothing = best_score.isinf().unsqueeze(1) & ~over.any(dim=-1, keepdim=True)\n"
                    "ended = over | (nothing & _)",
                },
            ),
            "hope_without_penalty": (
                "You drop an unfinished hypothesis as soon as its log-probability is below the best score. But the best score includes the penalty and the "
                "log-probability does not, so a long hypothesis might still win.",
                {"4: _ / ... ** alpha": "_"},
            ),
            "hope_at_the_present_length": (
                "You drop an unfinished hypothesis if it would lose by ending *now*. It might grow longer while losing hardly any probability, and win. The "
                "highest score that it can reach is its sum divided by the penalty at `max_len`.",
                {"4 + max_len": "5 + n"},
            ),
            "stops_when_the_likeliest_has_ended": (
                "You stop when the most probable hypothesis of the beam has finished. With a length penalty, an unfinished hypothesis might still reach a "
                "higher score.",
                {"bound <= best_score": "next_tokens[:, 0] == end"},
            ),
            "stops_when_as_many_have_ended": (
                "You stop when as many hypotheses have ended as the beam is wide. An unfinished hypothesis might still reach a higher score: stop when none "
                "can.",
                {
                    "1: longest = _": "longest = _\nover = torch.zeros_like(longest)",
                    "better = _": "better = _ & (over < beam)\nover = over + ended.sum(dim=-1)",
                },
            ),
            # --- ends
            "ended_go_on": (
                "You extend finished hypotheses. Predictions after the end symbol are meaningless, but can have a high probability. A finished hypothesis "
                "must leave the search.",
                {"3: scores = ...": "scores = scores.masked_fill(torch.full_like(ended, n == max_len - 1), -math.inf)"},
            ),
            "stops_when_one_row_is_done": (
                "You stop as soon as *one* row has found its best hypothesis. Stop when all rows have.",
                {"_.all": "_.any"},
            ),
            "max_len_without_start": (
                "Your hypotheses have one token more than `max_len`. The start symbol counts as one of the `max_len` tokens.",
                {"1: longest = _": "longest = _\nmax_len = max_len + 1\nbest, best[:, 0] = torch.zeros(rows, max_len, dtype=torch.long, device=device), start"},
            ),
            # --- the search
            "all_places_alike": (
                "All hypotheses of the beam begin as copies with the same score, so all of them choose the same token in every step, and you follow one "
                "prefix several times. At the start, only one copy in each row should be able to win.",
                {"scores[:, 0] = 0.0": "scores[:] = 0.0"},
            ),
            "parents_not_gathered": (
                "You append the chosen tokens without reordering the prefixes. A token belongs to the hypothesis that it extends, which can have a different "
                "index in the beam: move the tokens of that hypothesis to the new index.",
                {"tokens = tokens.gather(1, ...)": "pass"},
            ),
            "index_divided_by_the_beam": (
                "You divide the flat index by the beam width. The flattened axis has V entries for the first hypothesis, then V for the second. Divide by V "
                "to get the hypothesis and the token.",
                {"chosen // ...": "(chosen // beam) % beam", "chosen % _": "(chosen % beam) % _"},
            ),
            "rows_mixed": (
                "You order the copies of the sources as row 0, row 1, row 2, row 0, row 1, … The tokens are ordered as row 0, row 0, …, row 1, row 1, …: each "
                "row is repeated once per hypothesis.",
                {"memory = ...": "memory = model.encode(src, src_mask).repeat(beam, 1, 1)", "src_mask = ...": "src_mask = src_mask.repeat(beam, 1, 1)"},
            ),
            "scores_replaced": (
                "You compare hypotheses by their last token only. The probability of a hypothesis is the product over all its tokens: add up their "
                "log-probabilities.",
                {"scores.unsqueeze": "scores.masked_fill(scores > -math.inf, 0.0).unsqueeze"},
            ),
            "probabilities_added": (
                "You add probabilities. The probability of a sequence is a product, so add log-probabilities.",
                {"_ + log_probs": "_ + log_probs.exp()"},
            ),
            "each_goes_on_alone": (
                "After the first step you extend each hypothesis greedily by itself. Hypotheses should compete: compare all continuations of all hypotheses "
                "of a row. Two good continuations of one hypothesis can displace another hypothesis.",
                {
                    "scores, chosen = _": "scores, chosen = _\n"
                    "if n > 1:\n"
                    "    scores, alone = totals.unflatten(1, (beam, -1)).max(dim=-1)\n"
                    "    chosen = alone + torch.arange(beam, device=device) * log_probs.size(-1)"
                },
            ),
            "beam_ignored": (
                "You follow only one prefix, whatever `beam` is: this is greedy decoding.",
                {"scores, chosen = _": "scores, chosen = _\nscores[:, 1:] = -math.inf"},
            ),
            "beam_wider_than_the_vocabulary": (
                "You select `beam` different tokens in the first step, but the vocabulary can be smaller than the beam. Fill the beam with hypotheses that "
                "cannot win, or select fewer tokens.",
                {"totals = _": "totals = _\nlog_probs[:, 0].topk(beam)"},
            ),
            # --- what the model is asked
            "source_mask_forgotten": (
                "You search without the source mask, so the model attends to padding as if padding were words.",
                {"model.encode(src, src_mask)": "model.encode(src, None)", "2: src_mask": "None"},
            ),
            "source_mask_only_when_encoding": (
                "The encoder gets the source mask, but the decoder does not, so the decoder attends to padding. The encoder returns a vector for every "
                "position, including padding.",
                {"2: src_mask": "None"},
            ),
            # --- the result
            "start_dropped": (
                "Your result lacks the start symbol. Each row should begin with it, as in greedy decoding.",
                {"best[:, : _]": "best[:, 1 : _]"},
            ),
            "end_not_kept": (
                "A row's `end` is missing from your result. Keep it, followed by 0.",
                {
                    "3: best_score = _": "best[better] = best[better].masked_fill(best[better] == end, 0)\nbest_score = _",
                    "torch.where(better, n + 1, longest)": "torch.where(better, n + 1 - (next_tokens.gather(1, which.unsqueeze(1)).squeeze(1) == end).long(), longest)",
                },
            ),
            "filled_up_to_max_len": (
                "You always return `max_len` columns. The result should only be as long as its longest row.",
                {"4: best[...]": "best"},
            ),
            "totals_in_halves": (
                "You add up log-probabilities in their own dtype. In half precision, adding a small number to a large total soon changes nothing, so "
                "different hypotheses get equal totals. Keep the totals in float32.",
                {"wide = ...": "wide = memory.dtype"},
            ),
            "dtype_of_the_source": (
                "Your tokens have the dtype of the source. They should be int64, whatever integer dtype the source has.",
                {"4: best[_]": "best.to(src.dtype)[_]"},
            ),
            "gradients_kept": (
                "You record every step for a backward pass. A search has no gradient: a decorator above the function can disable the recording.",
                {"torch.no_grad()": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "beam_search",
        {
            "beams_made_on_the_cpu": (
                "Your beams start in a tensor on the CPU, but the source can be on a GPU. Create the tensor with `device=src.device`.",
                {"torch.full((rows, beam, 1), start, dtype=torch.long, device=device)": "torch.full((rows, beam, 1), start, dtype=torch.long)"},
            ),
            "scores_made_on_the_cpu": (
                "You keep the beams' scores on the CPU, but add log-probabilities that can be on a GPU. Create the scores with `device=src.device`.",
                {"torch.full((rows, beam), -math.inf, device=device, dtype=wide)": "torch.full((rows, beam), -math.inf, dtype=wide)"},
            ),
            "best_made_on_the_cpu": (
                "You keep the best sequences on the CPU, so your result is on the CPU whatever device the source is on. Create the tensor with "
                "`device=src.device`.",
                {"torch.full((rows, max_len), 0, dtype=torch.long, device=device)": "torch.full((rows, max_len), 0, dtype=torch.long)"},
            ),
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` creates its mask on the CPU. Move it to the device of the source before the model gets it: `.to(src.device)`.",
                {"_.to(device)": "_"},
            ),
        },
    ),
]
