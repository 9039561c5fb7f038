"""Day 49: what goes wrong when samples are counted, estimated and chosen."""

from course.judging.misconceptions import of

FALSY = "You leave out every answer that is false in Python, such as 0 and the empty text. Only None means that there is no answer."
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
                "In a tie, you choose the answer that first appeared last. Choose the one that appeared first.",
                {FIRST_SEEN: "return max(reversed(votes), key=votes.__getitem__, default=None)"},
            ),
            "tie_to_first_complete": (
                "In a tie, you choose the answer that reaches this number of votes first. Choose the one that appeared first.",
                {
                    "votes[answer] = ...": "votes[answer] = votes.get(answer, 0) + 1\nif best is None or votes[answer] > votes[best]:\n    best = answer",
                    "votes: ... = {}": "votes, best = {}, None",
                    FIRST_SEEN: "return best",
                },
            ),
            "tie_to_smallest": (
                "In a tie, you choose the smallest answer, perhaps because you sort the answers first. Choose the one that appeared first.",
                {FIRST_SEEN: "return max(sorted(votes), key=votes.__getitem__, default=None)"},
            ),
            "absolute_majority": (
                "You return None unless an answer has more than half of the samples. The most frequent answer should win even if it has fewer.",
                {FIRST_SEEN: "return next((one for one, count in votes.items() if 2 * count > len(answers)), None)"},
            ),
            "nobody_raises": (
                "If no sample has an answer, your code raises an error. Return None: there is no winner.",
                {FIRST_SEEN: "return max(votes, key=votes.__getitem__)"},
            ),
            "first_sample": (
                "You return the first sample's answer, so all other samples are wasted.",
                {FIRST_SEEN: "return next(iter(votes), None)"},
            ),
            "rarest": (
                "You return the rarest answer. Return the most frequent one.",
                {FIRST_SEEN: "return min(votes, key=votes.__getitem__, default=None)"},
            ),
            "with_its_votes": (
                "You return the answer together with its number of votes. Return only the answer.",
                {FIRST_SEEN: "return max(votes.items(), key=lambda one: one[1], default=None)"},
            ),
        },
    ),
    *of(
        "pass_at_k",
        {
            "with_replacement": (
                "You treat the share of right samples as the true probability, and compute 1 − (1 − c/n)ᵏ. On average, that is too low, because it can "
                "choose the same sample several times. Choose k different samples.",
                {RESULT: "return 1.0 - (1.0 - correct / n) ** k"},
            ),
            "independent_of_k": (
                "Your result is c/n whatever k is. That is pass@1; with more tries, the chance that one of them is right grows.",
                {RESULT: "return correct / n"},
            ),
            "added_up": (
                "Your result grows by c/n with each try. Several tries can be right at once, so you cannot add their probabilities.",
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
                "You count the choices with exactly one right sample. Two right samples are a pass, too.",
                {RESULT: "return correct * math.comb(n - correct, k - 1) / math.comb(n, k)"},
            ),
            "product_of_shares": (
                "Your share of wrong samples has the same denominator at every try. Once a wrong sample has been taken, there is one sample fewer, and one "
                "wrong sample fewer.",
                {RESULT: "return 1.0 - math.prod(max(n - correct - i, 0) / n for i in range(k))"},
            ),
            "overflows": (
                "You convert factorials or binomial coefficients to floats, which overflow when there are many samples. Let the large factors cancel before you multiply them, or compute with integers.",
                {RESULT: "return 1.0 - float(wrong) / float(math.comb(n, k))"},
            ),
            "wraps_at_the_end": (
                "If exactly k samples are wrong, your result is 1. But one choice of k samples contains only wrong ones.",
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
                "You choose the best sample first, and leave out samples without an answer afterwards. Leave them out first, then choose the best of the "
                "remaining samples.",
                {SCORED: "return answers[max(range(len(scores)), key=lambda i: scores[i])]"},
            ),
            "tie_to_last": (
                "Of several samples with the highest score, you choose the last. Choose the first.",
                {SCORED: "return max(reversed(pairs), key=lambda pair: pair[1], default=(None, 0.0))[0]"},
            ),
            "tie_to_largest": (
                "Of several samples with the highest score, you choose the one with the largest answer, perhaps because you compare pairs of score and "
                "answer. Choose the first of these samples.",
                {SCORED: "return max(((score, answer) for answer, score in pairs), default=(0.0, None))[1]"},
            ),
            "tie_to_first_answer": (
                "Of several samples with the highest score, you choose the one whose answer appeared first among all samples, even with a lower score. "
                "Choose the first of these samples.",
                {
                    SCORED: "best = {}\nfor answer, score in pairs:\n    best[answer] = max(best.get(answer, -math.inf), score)\nreturn max(best, key=best.__getitem__, default=None)"
                },
            ),
            "always_weighted": (
                "You add up the scores of equal answers even if `weighted` is False. Then, the single sample with the highest score should decide.",
                {"not weighted": "False"},
            ),
            "never_weighted": (
                "`weighted` changes nothing in your choice. With it, the scores of samples with the same answer add up.",
                {"not weighted": "True"},
            ),
            "mean_score": (
                "With `weighted`, you compare mean scores. An answer then gains nothing if more samples agree on it. Compare the sums.",
                {TOTAL: "return max(totals, key=lambda one: totals[one] / answers.count(one), default=None)"},
            ),
            "counts_alone": (
                "With `weighted`, you count the samples of each answer and ignore their scores. Add up the scores instead.",
                {"totals.get(answer, 0.0) + score": "totals.get(answer, 0.0) + 1.0"},
            ),
            "last_score": (
                "With `weighted`, each answer gets the score of its last sample: you overwrite the total instead of adding to it.",
                {"totals.get(answer, 0.0) + score": "score"},
            ),
            "total_tie_to_last": (
                "Of several answers with the largest sum, you choose the one that first appeared last. Choose the one that appeared first.",
                {TOTAL: "return max(reversed(totals), key=totals.__getitem__, default=None)"},
            ),
            "total_starts_at_zero": (
                "With `weighted`, you return None if all scores are 0, perhaps because your largest sum so far starts at 0. Return the answer that appeared "
                "first.",
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
                "You return the answer together with its score. Return only the answer.",
                {SCORED: "return max(pairs, key=lambda pair: pair[1], default=(None, 0.0))"},
            ),
        },
    ),
]
