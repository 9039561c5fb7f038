"""Day 22: what goes wrong with BLEU, and with batches of tokens."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "bleu",
        {
            # --- bleu -------------------------------------------------------------------------------------
            "from_0_to_1": (
                "Your score lies between 0 and 1. BLEU is printed from 0 to 100.",
                {"return 100 * _": "return _"},
            ),
            "mean_of_sentences": (
                "You score each sentence and take the mean. BLEU adds up matches and lengths over the whole corpus first, and divides once: a sentence of three "
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
                "You take `references[i]` for the references of sentence i, as NLTK has them. Here they come as streams: `references[k]` is one translation of the "
                "whole corpus, and `references[k][i]` its sentence i.",
                {
                    "for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):\n    _": "for index, hypothesis in enumerate(hypotheses):\n"
                    "    alternatives = references[index]\n"
                    "    _"
                },
            ),
            "streams_forgotten": (
                "You take `references` for a list with one reference for each hypothesis. It is a list of *streams*, each of them such a list: `references[k][i]` "
                "is the k-th reference for sentence i, also where there is one stream only.",
                {"zip(hypotheses, *references, strict=True)": "zip(hypotheses, references, strict=False)"},
            ),
            "first_reference_alone": (
                "You use the first stream of references and no other. A hypothesis may agree with any of them.",
                {"zip(hypotheses, *references, strict=True)": "zip(hypotheses, references[0], strict=True)"},
            ),
            "not_clipped": (
                "You count every n-gram that occurs in a reference, as often as the hypothesis says it: `the the the the` would be perfect. It counts at most as "
                "often as a reference has it.",
                {"(mine & most).total()": "sum(count for gram, count in mine.items() if gram in most)"},
            ),
            "each_ngram_once": (
                "You count each n-gram that matches once. It counts as often as both have it: the smaller of the two counts.",
                {"(mine & most).total()": "len(mine.keys() & most.keys())"},
            ),
            "references_added_up": (
                "You add up the counts of all references. A word that each of three references has once counts once: take the largest of the counts, not their sum.",
                {"most |= _": "most += _"},
            ),
            "references_in_common": (
                "You keep what all references have in common. What any of them has is right.",
                {"most |= _": "most = most & _ if most else _"},
            ),
            "recall_for_precision": (
                "You divide by the n-grams of the references: that is recall. BLEU asks which share of what was said is right; that too little was said is the "
                "brevity penalty's concern.",
                {"mine.total": "most.total"},
            ),
            "no_brevity_penalty": (
                "There is no brevity penalty in your score: whoever says only what is certain would be perfect.",
                {"brevity + logs / 4": "logs / 4"},
            ),
            "reward_for_length": (
                "Your penalty is a reward for hypotheses longer than their references. It is at most 1: too long is punished by precision.",
                {"min(0.0, _)": "_"},
            ),
            "lengths_upside_down": (
                "In your brevity penalty the lengths have changed places: it is exp(1 − r / c), r the references' length, c the hypotheses', and holds where c is "
                "the smaller.",
                {"reference_length / _": "_ / reference_length"},
            ),
            "penalty_without_exponential": (
                "Your brevity penalty is c / r. It is exp(1 − r / c), which punishes harder.",
                {"min(0.0, ...)": "math.log(min(1, hypothesis_length / reference_length))"},
            ),
            "shortest_reference": (
                "For the brevity penalty you take the shortest reference. The one closest in length to the hypothesis counts.",
                {"(..., size)": "size"},
            ),
            "longest_reference": (
                "For the brevity penalty you take the longest reference. The one closest in length to the hypothesis counts.",
                {"(..., size)": "-size"},
            ),
            "length_of_the_first": (
                "For the brevity penalty you take the first reference. The one closest in length to the hypothesis counts.",
                {"(..., size)": "0"},
            ),
            "mean_length": (
                "For the brevity penalty you take the mean length of the references. The one closest in length to the hypothesis counts.",
                {"min(_, key=...)": "min([sum(_) / len(others)])"},
            ),
            "closest_stream": (
                "You take the stream whose whole length is closest. Which reference is closest in length is asked for each sentence by itself, and may be another "
                "one each time.",
                {
                    "hypothesis_length = reference_length = 0": "hypothesis_length, of_streams = 0, [0] * len(references)",
                    "reference_length += ...": "of_streams = [so_far + len(other) for so_far, other in zip(of_streams, others)]",
                    "if _:\n    return 0.0": "reference_length = min(of_streams, key=lambda size: (abs(size - hypothesis_length), size))\n"
                    "if _:\n"
                    "    return 0.0",
                },
            ),
            "tie_to_the_longer": (
                "Of two references equally close in length you take the longer one. The shorter one is meant.",
                {"(_, size)": "(_, -size)"},
            ),
            "tie_to_the_first": (
                "Of two references equally close in length you take the one that comes first. The shorter one is meant: the order of the streams must not matter.",
                {"(_, size)": "_"},
            ),
            "arithmetic_mean": (
                "You take the mean of the four precisions themselves. BLEU takes their geometric mean: the mean of their logarithms, then the exponential.",
                {"math.log(_)": "_", "4: return ...": "return 100 * math.exp(brevity) * (logs / 4)"},
            ),
            "no_root": (
                "You multiply the four precisions and do not take the fourth root: the mean of the logarithms is meant, their sum over 4.",
                {"logs / 4": "logs"},
            ),
            "penalty_under_the_root": (
                "Your brevity penalty is under the fourth root too. Only the precisions are averaged.",
                {"brevity + logs / 4": "(brevity + logs) / 4"},
            ),
            "up_to_three": (
                "You count runs of up to three words. It is four: watch the end of `range`.",
                {"[0] * 4, [0] * 4": "[0] * 3, [0] * 3", "range(1, 5)": "range(1, 4)", "totals[3]": "totals[2]", "logs / 4": "logs / 3"},
            ),
            "not_smoothed": (
                "Your score is 0 as soon as one order has no match. sacrebleu smooths it: the first order without a match counts half a match.",
                {"matches[0] == 0": "0 in matches"},
            ),
            "smoothed_alike": (
                "Every order without a match counts half a match in your score. The first counts 1/2, the second 1/4, the third 1/8.",
                {"smooth /= 2": "smooth = 0.5"},
            ),
            "smoothed_to_a_floor": (
                "Every order without a match counts a tenth of a match in your score: that is another smoothing of sacrebleu's, `floor`. Here, as by its default, "
                "the first counts 1/2, the second 1/4, the third 1/8.",
                {"smooth /= 2": "smooth = 0.1"},
            ),
            "smoothed_by_a_whole": (
                "An order without a match counts a whole match in your score: halve before you use it, not after.",
                {"if matched == 0:\n    smooth /= 2": "", "logs += _": "logs += _\nif matched == 0:\n    smooth /= 2"},
            ),
            "one_added_to_all": (
                "You add one to matches and totals. That is another smoothing (Lin & Och 2004); here orders that have a match stay as they are.",
                {"(matched or smooth) / total": "(matched + 1) / (total + 1)"},
            ),
            "smoothed_from_nothing": (
                "Where not a single word is right your score is not 0. Smoothing is for orders without a match, not for corpora.",
                {"matches[0] == 0 or _": "_"},
            ),
            "missing_orders_left_out": (
                "Where no sentence has a run of four words you average the orders that there are. The score is 0: BLEU is for corpora.",
                {"_ or totals[3] == 0": "_", "if _:\n    smooth /= 2": "if total == 0:\n    continue\nif _:\n    smooth /= 2"},
            ),
            "split_at_spaces": (
                "You split at spaces, so `end.` and `end` are different words. BLEU depends on its tokens, and sacrebleu's are those of `tokenize_13a` (Post 2018: "
                "scores with other tokens cannot be compared).",
                {"tokenize_13a(line)": "line.split()"},
            ),
            "letters_for_words": (
                "You compare letters: a string was taken for its words. Make tokens of each line first.",
                {"tokenize_13a(line)": "list(line)"},
            ),
            "lower_case": (
                "You compare in lower case. Upper and lower case differ, unless one asks for it.",
                {"tokenize_13a(line)": "tokenize_13a(line.lower())"},
            ),
            "hypothesis_not_tokenised": (
                "You make tokens of the references by `tokenize_13a`, and of the hypotheses otherwise: then no full stop ever matches.",
                {"(... for line in ...)": "(hypothesis.split(), *map(tokenize_13a, alternatives))"},
            ),
        },
    ),
    *of(
        "token_batches",
        {
            # --- token_batches ----------------------------------------------------------------------------
            "padding_not_counted": (
                "You count the tokens that there are. Once the batch is padded every source is as long as the longest, and every target too: that is what it takes "
                "up, and what must not pass the limit.",
                {
                    "source, target = _": "source, target = _\nheld = sum(len(side) for one in [*batch, pair] for side in one)",
                    "(len(batch) + 1) * (source + target)": "held",
                },
            ),
            "longest_pair_for_both": (
                "You take the longest pair's length for all. The longest source and the longest target may be of different pairs, and the batch is padded to both.",
                {"source, target = _": "source, target = _\nwidest = max(len(one[0]) + len(one[1]) for one in [*batch, pair])", "source + target": "widest"},
            ),
            "sources_alone": (
                "You count the sources alone. The targets lie in memory, too.",
                {"source + target": "source"},
            ),
            "targets_alone": (
                "You count the targets alone. The sources lie in memory, too.",
                {"source + target": "target"},
            ),
            "longer_of_the_two": (
                "You count the longer of source and target. Both lie in memory: it is their sum.",
                {"source + target": "max(source, target)"},
            ),
            "asked_too_late": (
                "You ask whether the batch is full without the pair that is to come: it passes the limit with the last one.",
                {"len(batch) + 1": "len(batch)"},
            ),
            "lengths_of_the_newest": (
                "You multiply the number of pairs by the lengths of the newest one. An earlier pair of the batch may have a longer target.",
                {"max(longest_source, _), ...": "_, len(pair[1])"},
            ),
            "first_pair_not_measured": (
                "When you begin another batch, both longest lengths go back to 0, and the pair that the batch begins with is never measured. It is in the batch, "
                "and the padding of all the others is at least as long as it.",
                {"[], len(pair[0]), len(pair[1])": "[], 0, 0"},
            ),
            "pairs_for_tokens": (
                "You put `max_tokens` pairs into a batch. It is a number of tokens: a batch of long sentences holds fewer.",
                {"_ * (source + target)": "_"},
            ),
            "not_sorted": (
                "You take the pairs in the order in which they come, so a short one is padded to the length of the long one beside it. Put pairs of about one "
                "length together first.",
                {"sorted(pairs, key=...)": "pairs"},
            ),
            "one_pair_a_batch": (
                "Each pair has a batch of its own. That needs no padding, but then nothing is computed side by side: a batch takes in pairs as long as there is "
                "room.",
                {"batch and ...": "batch and len(batch) == 1"},
            ),
            "last_batch_lost": (
                "The pairs that are left when the loop ends are lost: hand the last batch over, too.",
                {"if batch:\n    yield batch": ""},
            ),
            "long_pairs_lost": (
                "You leave out pairs that are too long for any batch. Nothing may be lost: such a pair has a batch of its own.",
                {"source, target = _": "if len(pair[0]) + len(pair[1]) > max_tokens:\n    continue\nsource, target = _"},
            ),
            "long_pairs_cut": (
                "You cut pairs that are too long. A translation of half a sentence teaches something wrong: it has a batch of its own, whole.",
                {"source, target = _": "pair = pair[0][: max_tokens // 2], pair[1][: max_tokens // 2]\nsource, target = _"},
            ),
            "empty_batch_first": (
                "Before a pair that is too long for any batch you hand over an empty batch: ask whether there is anything in it.",
                {"batch and _": "_"},
            ),
            "empty_batch_last": (
                "Where there is nothing left you hand over an empty batch at the end.",
                {"if batch:\n    yield batch": "yield batch if pairs else []"},
            ),
            "pair_lost_between_batches": (
                "The pair that does not fit any more is lost: it is the first of the next batch.",
                {"batch, source, target = ...": "batch, longest_source, longest_target = [], 0, 0\ncontinue"},
            ),
            "pair_in_two_batches": (
                "The pair that does not fit any more is in two batches: in the one that it makes too large, and in the next.",
                {
                    "if _:\n    yield batch\n    batch, source, target = ...": "if _:\n"
                    "    yield [*batch, pair]\n"
                    "    batch, source, target = [], len(pair[0]), len(pair[1])"
                },
            ),
            "one_list_for_all": (
                "You hand over a list, and then empty it to use it again. Whoever keeps the batches, to mix them for instance, holds one and the same list many "
                "times. Begin a new one for each batch.",
                {"batch, source, target = ...": "batch.clear()\nsource, target = len(pair[0]), len(pair[1])"},
            ),
            "twins_lost": (
                "A pair that occurs several times is left once: a set, or the keys of a dict, forget how often. What is frequent is learnt more.",
                {"sorted(pairs, key=_)": "sorted(set(pairs), key=_)"},
            ),
            "sides_swapped": (
                "In your batches the target comes first.",
                {"batch.append(pair)": "batch.append(pair[::-1])"},
            ),
            "sides_sorted_apart": (
                "You sort sources and targets apart: then no sentence stands beside its own translation any more.",
                {"sorted(pairs, key=...)": "zip(sorted((one for one, _ in pairs), key=len), sorted((two for _, two in pairs), key=len))"},
            ),
        },
    ),
]
