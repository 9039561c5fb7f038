"""Day 22: what goes wrong with BLEU, and with batches of tokens."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "bleu",
        {
            # --- bleu -------------------------------------------------------------------------------------
            "from_0_to_1": (
                "Your score is between 0 and 1. BLEU is reported from 0 to 100.",
                {"return 100 * _": "return _"},
            ),
            "mean_of_sentences": (
                "You score each sentence and take the mean. BLEU adds up matches and lengths over the entire corpus and divides once: a sentence of three "
                "words has no score of its own.",
                """
def bleu(hypotheses, references):
    def ngrams(tokens, n):
        return Counter(zip(*(tokens[first:] for first in range(n))))

    scores = []
    for hypothesis, *alternatives in zip(hypotheses, *references):
        tokens, *others = (tokenize_13a(line) for line in (hypothesis, *alternatives))
        length = min((len(other) for other in others), key=lambda size: (abs(size - len(tokens)), size))
        logs, smooth, silent = 0.0, 1.0, False
        for n in range(1, 5):
            most = Counter()
            for other in others:
                most |= ngrams(other, n)
            mine = ngrams(tokens, n)
            matched, total = (mine & most).total(), mine.total()
            silent |= total == 0 or (n == 1 and matched == 0)
            if silent:
                break
            if matched == 0:
                smooth /= 2
            logs += math.log((matched or smooth) / total)
        brevity = 0.0 if silent else min(0.0, 1 - length / len(tokens))
        scores.append(0.0 if silent else 100 * math.exp(brevity + logs / 4))
    return sum(scores) / len(scores)
""",
            ),
            "references_a_sentence": (
                "You use `references[i]` as the references of sentence i, as NLTK does. Here they are streams: `references[k]` is one translation of the "
                "entire corpus, and `references[k][i]` is its sentence i.",
                {
                    "for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):\n    _": "for index, hypothesis in enumerate(hypotheses):\n"
                    "    alternatives = references[index]\n"
                    "    _"
                },
            ),
            "streams_forgotten": (
                "You use `references` as a list with one reference per hypothesis. It is a list of *streams*, each of which is such a list: "
                "`references[k][i]` is the k-th reference of sentence i, even if there is only one stream.",
                {"zip(hypotheses, *references, strict=True)": "zip(hypotheses, references, strict=False)"},
            ),
            "first_reference_alone": (
                "You use only the first stream of references. A match with any stream counts.",
                {"zip(hypotheses, *references, strict=True)": "zip(hypotheses, references[0], strict=True)"},
            ),
            "not_clipped": (
                "You count every n-gram that occurs in a reference as often as the hypothesis contains it, so `the the the the` would be perfect. It counts "
                "at most as often as in a reference.",
                {"(mine & most).total()": "sum(count for gram, count in mine.items() if gram in most)"},
            ),
            "each_ngram_once": (
                "You count each matched n-gram once. It counts as often as both contain it: the smaller of the two counts.",
                {"(mine & most).total()": "len(mine.keys() & most.keys())"},
            ),
            "references_added_up": (
                "You add up the counts of all references. A word that occurs once in each of three references counts once: take the largest of the counts, "
                "not their sum.",
                {"most |= _": "most += _"},
            ),
            "references_in_common": (
                "You use only the n-grams that all references share. A match with any reference counts.",
                {"most |= _": "most = most & _ if most else _"},
            ),
            "recall_for_precision": (
                "You divide by the n-grams of the references: this is recall. BLEU measures the precision of the hypothesis; the brevity penalty handles "
                "short hypotheses.",
                {"mine.total": "most.total"},
            ),
            "no_brevity_penalty": (
                "Your score has no brevity penalty: a system that outputs only what it is sure of would score 100.",
                {"brevity + logs / 4": "logs / 4"},
            ),
            "reward_for_length": (
                "Your penalty is above 1 for hypotheses longer than their references. It is at most 1: additional words already lower the precision.",
                {"min(0.0, _)": "_"},
            ),
            "lengths_upside_down": (
                "The lengths in your brevity penalty are swapped: it is exp(1 − r / c), where r is the references' length and c the hypotheses', and applies "
                "if c is smaller.",
                {"reference_length / _": "_ / reference_length"},
            ),
            "penalty_without_exponential": (
                "Your brevity penalty is c / r. It is exp(1 − r / c), which is smaller.",
                {"min(0.0, ...)": "math.log(min(1, hypothesis_length / reference_length))"},
            ),
            "shortest_reference": (
                "You use the shortest reference for the brevity penalty. Use the one closest in length to the hypothesis.",
                {"(..., size)": "size"},
            ),
            "longest_reference": (
                "You use the longest reference for the brevity penalty. Use the one closest in length to the hypothesis.",
                {"(..., size)": "-size"},
            ),
            "length_of_the_first": (
                "You use the first reference for the brevity penalty. Use the one closest in length to the hypothesis.",
                {"(..., size)": "0"},
            ),
            "mean_length": (
                "You use the mean length of the references for the brevity penalty. Use the one closest in length to the hypothesis.",
                {"min(_, key=...)": "min([sum(_) / len(others)])"},
            ),
            "closest_stream": (
                "You use the stream with the closest total length. The closest reference is chosen for each sentence separately, and may be from a different "
                "stream each time.",
                {
                    "hypothesis_length = reference_length = 0": "hypothesis_length, of_streams = 0, [0] * len(references)",
                    "reference_length += ...": "of_streams = [so_far + len(other) for so_far, other in zip(of_streams, others)]",
                    "if _:\n    return 0.0": "reference_length = min(of_streams, key=lambda size: (abs(size - hypothesis_length), size))\n"
                    "if _:\n"
                    "    return 0.0",
                },
            ),
            "tie_to_the_longer": (
                "If two references are equally close in length, you use the longer one. Use the shorter one.",
                {"(_, size)": "(_, -size)"},
            ),
            "tie_to_the_first": (
                "If two references are equally close in length, you use the first one. Use the shorter one: the order of the streams must not matter.",
                {"(_, size)": "_"},
            ),
            "arithmetic_mean": (
                "You use the arithmetic mean of the four precisions. BLEU uses their geometric mean: the exponential of the mean of their logarithms.",
                {"math.log(_)": "_", "4: return ...": "return 100 * math.exp(brevity) * (logs / 4)"},
            ),
            "no_root": (
                "You multiply the four precisions but do not take the fourth root: use the mean of the logarithms, their sum divided by 4.",
                {"logs / 4": "logs"},
            ),
            "penalty_under_the_root": (
                "Your brevity penalty is under the fourth root too. Only the precisions are averaged.",
                {"brevity + logs / 4": "(brevity + logs) / 4"},
            ),
            "up_to_three": (
                "You count n-grams up to n = 3 instead of 4: check the end of `range`.",
                {"[0] * 4, [0] * 4": "[0] * 3, [0] * 3", "range(1, 5)": "range(1, 4)", "totals[3]": "totals[2]", "logs / 4": "logs / 3"},
            ),
            "not_smoothed": (
                "Your score is 0 as soon as one order has no match. sacrebleu smooths it: the first order without a match counts as half a match.",
                {"matches[0] == 0": "0 in matches"},
            ),
            "smoothed_alike": (
                "Every order without a match counts as half a match in your score. The first counts 1/2, the second 1/4, the third 1/8.",
                {"smooth /= 2": "smooth = 0.5"},
            ),
            "smoothed_to_a_floor": (
                "Every order without a match counts as a tenth of a match in your score: this is sacrebleu's `floor` smoothing. Here, as by its default, the "
                "first counts 1/2, the second 1/4, the third 1/8.",
                {"smooth /= 2": "smooth = 0.1"},
            ),
            "smoothed_by_a_whole": (
                "The first order without a match counts as a whole match in your score: halve the number before you use it, not after.",
                {"if matched == 0:\n    smooth /= 2": "", "logs += _": "logs += _\nif matched == 0:\n    smooth /= 2"},
            ),
            "one_added_to_all": (
                "You add one to matches and totals. This is a different smoothing (Lin & Och 2004); here orders with a match are unchanged.",
                {"(matched or smooth) / total": "(matched + 1) / (total + 1)"},
            ),
            "smoothed_from_nothing": (
                "Your score is above 0 even if no word matches. Smoothing applies only if some word matches.",
                {"matches[0] == 0 or _": "_"},
            ),
            "missing_orders_left_out": (
                "If no hypothesis has a 4-gram, you average over the remaining orders. The score is 0 in this case, because BLEU is meant for corpora.",
                {"_ or totals[3] == 0": "_", "if _:\n    smooth /= 2": "if total == 0:\n    continue\nif _:\n    smooth /= 2"},
            ),
            "split_at_spaces": (
                "You split at spaces, so `end.` and `end` are different words. BLEU depends on its tokens, and sacrebleu uses those of `tokenize_13a` (Post "
                "2018: scores with different tokens cannot be compared).",
                {"tokenize_13a(line)": "line.split()"},
            ),
            "letters_for_words": (
                "You compare letters, because a string is iterated letter by letter. Tokenize each line first.",
                {"tokenize_13a(line)": "list(line)"},
            ),
            "lower_case": (
                "You compare in lower case. By default, upper and lower case are different.",
                {"tokenize_13a(line)": "tokenize_13a(line.lower())"},
            ),
            "hypothesis_not_tokenised": (
                "You tokenize the references with `tokenize_13a`, but not the hypotheses: no period at the end of a word ever matches.",
                {"(... for line in ...)": "(hypothesis.split(), *map(tokenize_13a, alternatives))"},
            ),
        },
    ),
    *of(
        "token_batches",
        {
            # --- token_batches ----------------------------------------------------------------------------
            "padding_not_counted": (
                "You count only real tokens. After padding, every source is as long as the longest source, and every target as long as the longest target: "
                "this padded size must not exceed the limit.",
                {
                    "source, target = _": "source, target = _\nheld = sum(len(side) for one in [*batch, pair] for side in one)",
                    "(len(batch) + 1) * (source + target)": "held",
                },
            ),
            "longest_pair_for_both": (
                "You use the lengths of the longest pair. The longest source and the longest target may be from different pairs, and the batch is padded to "
                "both.",
                {"source, target = _": "source, target = _\nwidest = max(len(one[0]) + len(one[1]) for one in [*batch, pair])", "source + target": "widest"},
            ),
            "sources_alone": (
                "You count only the sources. The targets need memory too.",
                {"source + target": "source"},
            ),
            "targets_alone": (
                "You count only the targets. The sources need memory too.",
                {"source + target": "target"},
            ),
            "longer_of_the_two": (
                "You count the longer one of source and target. Both need memory: use their sum.",
                {"source + target": "max(source, target)"},
            ),
            "asked_too_late": (
                "You check the size without the next pair, so the batch exceeds the limit after its last pair.",
                {"len(batch) + 1": "len(batch)"},
            ),
            "lengths_of_the_newest": (
                "You multiply the number of pairs by the lengths of the newest one. An earlier pair of the batch may have a longer target.",
                {"max(longest_source, _), ...": "_, len(pair[1])"},
            ),
            "first_pair_not_measured": (
                "When you begin a new batch, both longest lengths go back to 0, although the batch already contains its first pair. All others are padded to "
                "at least the length of this pair.",
                {"[], len(pair[0]), len(pair[1])": "[], 0, 0"},
            ),
            "pairs_for_tokens": (
                "You put `max_tokens` pairs into a batch. It is a number of tokens: a batch of long sentences holds fewer pairs.",
                {"_ * (source + target)": "_"},
            ),
            "not_sorted": (
                "You batch the pairs in their original order, so a short one is padded to the length of a long one. Put pairs of similar length together "
                "first.",
                {"sorted(pairs, key=...)": "pairs"},
            ),
            "one_pair_a_batch": (
                "Each pair has a batch of its own. This needs no padding, but the pairs are not computed in parallel: add pairs to a batch as long as there "
                "is room.",
                {"batch and ...": "batch and len(batch) == 1"},
            ),
            "last_batch_lost": (
                "The pairs that remain when the loop ends are lost: yield the last batch too.",
                {"if batch:\n    yield batch": ""},
            ),
            "long_pairs_lost": (
                "You leave out pairs that are too long for any batch. Such a pair gets a batch of its own.",
                {"source, target = _": "if len(pair[0]) + len(pair[1]) > max_tokens:\n    continue\nsource, target = _"},
            ),
            "long_pairs_cut": (
                "You truncate pairs that are too long. A truncated translation is a wrong training example: such a pair gets a batch of its own, untruncated.",
                {"source, target = _": "pair = pair[0][: max_tokens // 2], pair[1][: max_tokens // 2]\nsource, target = _"},
            ),
            "empty_batch_first": (
                "Before a pair that is too long for any batch you yield an empty batch: check whether the batch contains a pair.",
                {"batch and _": "_"},
            ),
            "empty_batch_last": (
                "If no pair remains, you yield an empty batch at the end.",
                {"if batch:\n    yield batch": "yield batch if pairs else []"},
            ),
            "pair_lost_between_batches": (
                "The pair that no longer fits is lost: it is the first pair of the next batch.",
                {"batch, source, target = ...": "batch, longest_source, longest_target = [], 0, 0\ncontinue"},
            ),
            "pair_in_two_batches": (
                "The pair that no longer fits is in two batches: in the one that it makes too large, and in the next.",
                {
                    "if _:\n    yield batch\n    batch, source, target = ...": "if _:\n"
                    "    yield [*batch, pair]\n"
                    "    batch, source, target = [], len(pair[0]), len(pair[1])"
                },
            ),
            "one_list_for_all": (
                "You yield a list and then empty it to use it again. A caller that stores the batches, for instance to shuffle them, has the same list many "
                "times. Create a new list for each batch.",
                {"batch, source, target = ...": "batch.clear()\nsource, target = len(pair[0]), len(pair[1])"},
            ),
            "twins_lost": (
                "A pair that occurs several times remains only once: a set, or the keys of a dict, lose the count. Frequent pairs should have more weight in "
                "training.",
                {"sorted(pairs, key=_)": "sorted(set(pairs), key=_)"},
            ),
            "sides_swapped": (
                "In your batches the target comes first.",
                {"batch.append(pair)": "batch.append(pair[::-1])"},
            ),
            "sides_sorted_apart": (
                "You sort sources and targets separately, so sentences are no longer paired with their own translations.",
                {"sorted(pairs, key=...)": "zip(sorted((one for one, _ in pairs), key=len), sorted((two for _, two in pairs), key=len))"},
            ),
        },
    ),
]
