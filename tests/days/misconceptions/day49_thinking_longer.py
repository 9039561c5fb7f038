"""Day 49: what goes wrong when samples are counted, estimated and chosen."""

from course.judging.misconceptions import of

FALSY = "You leave out every answer that is false in Python: 0 and the empty text, too. Only None stands for no answer."
FIRST_SEEN = "return max(votes, key=votes.__getitem__, default=None)"
RESULT = "return 1.0 - wrong / math.comb(n, k)"
SCORED = "return max(pairs, key=lambda pair: pair[1], default=(None, 0.0))[0]"
TOTAL = "return max(totals, key=totals.__getitem__, default=None)"

MISCONCEPTIONS = [
    *of(
        "majority_vote",
        {
            "none_votes": (
                "Samples without an answer vote for None in your count. If many texts are cut off, None wins; a sample without an answer has no vote.",
                {"if answer is not None:\n    _": "_"},
            ),
            "falsy_dropped": (FALSY, {"answer is not None": "answer"}),
            "tie_to_last_seen": (
                "In a tie, your winner is the answer that was first seen last. It should be the answer that was seen first.",
                {FIRST_SEEN: "return max(reversed(votes), key=votes.__getitem__, default=None)"},
            ),
            "tie_to_first_complete": (
                "In a tie, your winner is the answer that reaches this number of votes first. It should be the answer that was seen first.",
                {
                    "votes[answer] = ...": "votes[answer] = votes.get(answer, 0) + 1\nif best is None or votes[answer] > votes[best]:\n    best = answer",
                    "votes: ... = {}": "votes, best = {}, None",
                    FIRST_SEEN: "return best",
                },
            ),
            "tie_to_smallest": (
                "In a tie, your winner is the smallest answer, perhaps because you sort the answers first. It should be the answer that was seen first.",
                {FIRST_SEEN: "return max(sorted(votes), key=votes.__getitem__, default=None)"},
            ),
            "absolute_majority": (
                "You return None unless an answer has more than half of the samples. With many different answers none may have; the most frequent one wins all the same.",
                {FIRST_SEEN: "return next((one for one, count in votes.items() if 2 * count > len(answers)), None)"},
            ),
            "nobody_raises": (
                "If no sample has an answer, your code raises an error. Return None: there is no winner.",
                {FIRST_SEEN: "return max(votes, key=votes.__getitem__)"},
            ),
            "first_sample": (
                "You return the first sample's answer, so further samples are spent for nothing.",
                {FIRST_SEEN: "return next(iter(votes), None)"},
            ),
            "rarest": (
                "You return the rarest answer. It should be the most frequent one.",
                {FIRST_SEEN: "return min(votes, key=votes.__getitem__, default=None)"},
            ),
            "with_its_votes": (
                "You return the answer together with its number of votes. Return the answer alone.",
                {FIRST_SEEN: "return max(votes.items(), key=lambda one: one[1], default=None)"},
            ),
        },
    ),
    *of(
        "pass_at_k",
        {
            "with_replacement": (
                "You take the share of right samples for the true probability, and compute 1 − (1 − c/n)ᵏ. On average that is too low, most of all for k near n: "
                "it chooses the same sample several times. Choose k different samples.",
                {RESULT: "return 1.0 - (1.0 - correct / n) ** k"},
            ),
            "independent_of_k": (
                "Your result is c/n whatever k is. That is pass@1; with more tries, the chance that one of them is right grows.",
                {RESULT: "return correct / n"},
            ),
            "added_up": (
                "Your result grows by c/n with each try. Tries can be right together, so their probabilities do not add up.",
                {RESULT: "return min(1.0, k * correct / n)"},
            ),
            "all_right": (
                "You count the choices in which every sample is right. One right sample among the k is enough.",
                {"math.comb(n - correct, k)": "math.comb(correct, k)", "1.0 - wrong / _": "wrong / _"},
            ),
            "none_right": (
                "Your result is the probability that all k tries are wrong. pass@k is its complement.",
                {"1.0 - wrong / _": "wrong / _"},
            ),
            "some_wrong": (
                "You subtract the choices in which all k samples are right. The remaining choices have a wrong sample; you want those with a right one.",
                {"math.comb(n - correct, k)": "math.comb(correct, k)"},
            ),
            "exactly_one": (
                "You count the choices with exactly one right sample. Two right ones are a pass, too.",
                {RESULT: "return correct * math.comb(n - correct, k - 1) / math.comb(n, k)"},
            ),
            "product_of_shares": (
                "Your share of wrong samples has the same denominator at every try. After a wrong sample has been taken, one sample less is left, and one wrong sample less.",
                {RESULT: "return 1.0 - math.prod(max(n - correct - i, 0) / n for i in range(k))"},
            ),
            "overflows": (
                "Your factorials are floats, and with more than 170 samples they overflow. Let the large factors cancel before you multiply them, or compute with integers.",
                {RESULT: "return 1.0 - float(wrong) / float(math.comb(n, k))"},
            ),
            "wraps_at_the_end": (
                "If exactly k samples are wrong, your result is 1. There is still one choice with all of them.",
                {"wrong = math.comb(n - correct, k)": "wrong = math.comb(n - correct, k) if n - correct > k else 0"},
            ),
            "in_percent": (
                "Your result is in percent. Return a number between 0 and 1.",
                {"1.0 - wrong / _": "100.0 * (1.0 - wrong / _)"},
            ),
        },
    ),
    *of(
        "best_of_n",
        {
            "lowest_score": (
                "You choose the sample with the lowest score. A higher score is better.",
                {SCORED: "return min(pairs, key=lambda pair: pair[1], default=(None, 0.0))[0]"},
            ),
            "starts_at_zero": (
                "Your best score so far starts at 0, so with negative scores, such as log-probabilities, no sample is ever better.",
                {SCORED: "best, highest = None, 0.0\nfor answer, score in pairs:\n    if score > highest:\n        best, highest = answer, score\nreturn best"},
            ),
            "none_chosen": (
                "You also consider samples that have no answer. Their scores may be high; leave them out first.",
                {"[pair for pair in _ if pair[0] is not None]": "list(_)"},
            ),
            "falsy_left_out": (FALSY, {"pair[0] is not None": "pair[0]"}),
            "none_stops": (
                "You choose the best sample first, and leave out those without an answer afterwards. Leave them out first: then the best of the others remains.",
                {SCORED: "return answers[max(range(len(scores)), key=lambda i: scores[i])]"},
            ),
            "tie_to_last": (
                "Of several samples with the highest score you choose the last. It should be the first.",
                {SCORED: "return max(reversed(pairs), key=lambda pair: pair[1], default=(None, 0.0))[0]"},
            ),
            "tie_to_largest": (
                "Of several samples with the highest score you choose the one with the largest answer, perhaps because you compare pairs of score and answer. It should be the first of these samples.",
                {SCORED: "return max(((score, answer) for answer, score in pairs), default=(0.0, None))[1]"},
            ),
            "tie_to_first_answer": (
                "Of several samples with the highest score, you choose the one whose answer was seen first, with a lower score. Here, the first of these samples counts.",
                {
                    SCORED: "best = {}\nfor answer, score in pairs:\n    best[answer] = max(best.get(answer, -math.inf), score)\nreturn max(best, key=best.__getitem__, default=None)"
                },
            ),
            "always_weighted": (
                "You add up the scores of equal answers even if `weighted` is False. Then, the single best sample decides.",
                {"not weighted": "False"},
            ),
            "never_weighted": (
                "`weighted` changes nothing in your choice. With it, the scores of samples with the same answer add up.",
                {"not weighted": "True"},
            ),
            "mean_score": (
                "Weighted, you compare mean scores. Then an answer gains nothing when more samples agree on it; compare the sums.",
                {TOTAL: "return max(totals, key=lambda one: totals[one] / answers.count(one), default=None)"},
            ),
            "counts_alone": (
                "Weighted, you count the samples of each answer, and their scores make no difference. Each sample counts as much as its score.",
                {"totals.get(answer, 0.0) + score": "totals.get(answer, 0.0) + 1.0"},
            ),
            "last_score": (
                "Weighted, each answer has the score of its last sample: you overwrite the total in place of adding to it.",
                {"totals.get(answer, 0.0) + score": "score"},
            ),
            "total_tie_to_last": (
                "Of several answers with the largest sum you choose the one that was first seen last. It should be the answer that was seen first.",
                {TOTAL: "return max(reversed(totals), key=totals.__getitem__, default=None)"},
            ),
            "total_starts_at_zero": (
                "Weighted, you return None if all scores are 0, perhaps because your largest sum so far starts at 0. Return the answer that was seen first.",
                {
                    TOTAL: "best, largest = None, 0.0\nfor answer, total in totals.items():\n    if total > largest:\n        best, largest = answer, total\nreturn best"
                },
            ),
            "nobody_weighted_raises": (
                "If no sample has an answer, your weighted choice raises an error. Return None: there is nothing to choose.",
                {TOTAL: "return max(totals, key=totals.__getitem__)"},
            ),
            "index": (
                "You return the index of the best sample. Return its answer.",
                {SCORED: "return max(range(len(pairs)), key=lambda i: pairs[i][1], default=None)"},
            ),
            "with_its_score": (
                "You return the answer together with its score. Return the answer alone.",
                {SCORED: "return max(pairs, key=lambda pair: pair[1], default=(None, 0.0))"},
            ),
        },
    ),
]
