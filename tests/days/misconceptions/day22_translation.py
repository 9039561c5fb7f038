"""Day 22: what goes wrong with BLEU, and with batches of tokens."""

from course.judging.misconceptions import Misconception

MISCONCEPTIONS = [
    # --- bleu -------------------------------------------------------------------------------------
    Misconception(
        "from_0_to_1",
        "bleu",
        "Your score lies between 0 and 1. BLEU is printed from 0 to 100.",
        {"return 100 * math.exp(": "return math.exp("},
    ),
    Misconception(
        "mean_of_sentences",
        "bleu",
        "You score each sentence and take the mean. BLEU adds up matches and lengths over the whole corpus first, and divides "
        "once: a sentence of three words has no score of its own.",
        source="""
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
    Misconception(
        "references_a_sentence",
        "bleu",
        "You take `references[i]` for the references of sentence i, as NLTK has them. Here they come as streams: `references[k]` is one "
        "translation of the whole corpus, and `references[k][i]` its sentence i.",
        {
            "for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):": "for index, hypothesis in enumerate(hypotheses):\n        alternatives = references[index]"
        },
    ),
    Misconception(
        "streams_forgotten",
        "bleu",
        "You take `references` for a list with one reference for each hypothesis. It is a list of *streams*, each of them such a list: `references[k][i]` is the k-th reference for sentence i, "
        "also where there is one stream only.",
        {"zip(hypotheses, *references, strict=True)": "zip(hypotheses, references, strict=False)"},
    ),
    Misconception(
        "first_reference_alone",
        "bleu",
        "You use the first stream of references and no other. A hypothesis may agree with any of them.",
        {
            "zip(hypotheses, *references, strict=True)": "zip(hypotheses, references[0], strict=True)"
        },
    ),
    Misconception(
        "not_clipped",
        "bleu",
        "You count every n-gram that occurs in a reference, as often as the hypothesis says it: `the the the the` would be "
        "perfect. It counts at most as often as a reference has it.",
        {"(mine & most).total()": "sum(count for gram, count in mine.items() if gram in most)"},
    ),
    Misconception(
        "each_ngram_once",
        "bleu",
        "You count each n-gram that matches once. It counts as often as both have it: the smaller of the two counts.",
        {"(mine & most).total()": "len(mine.keys() & most.keys())"},
    ),
    Misconception(
        "references_added_up",
        "bleu",
        "You add up the counts of all references. A word that each of three references has once counts once: take the largest of "
        "the counts, not their sum.",
        {"most |= ngrams(other, n)": "most += ngrams(other, n)"},
    ),
    Misconception(
        "references_in_common",
        "bleu",
        "You keep what all references have in common. What any of them has is right.",
        {
            "most |= ngrams(other, n)": "most = most & ngrams(other, n) if most else ngrams(other, n)"
        },
    ),
    Misconception(
        "recall_for_precision",
        "bleu",
        "You divide by the n-grams of the references: that is recall. BLEU asks which share of what was said is right; that too "
        "little was said is the brevity penalty's concern.",
        {"totals[n - 1] += mine.total()": "totals[n - 1] += most.total()"},
    ),
    Misconception(
        "no_brevity_penalty",
        "bleu",
        "There is no brevity penalty in your score: whoever says only what is certain would be perfect.",
        {"100 * math.exp(brevity + logs / 4)": "100 * math.exp(logs / 4)"},
    ),
    Misconception(
        "reward_for_length",
        "bleu",
        "Your penalty is a reward for hypotheses longer than their references. It is at most 1: too long is punished by precision.",
        {"min(0.0, 1 - reference_length": "(1 - reference_length"},
    ),
    Misconception(
        "lengths_upside_down",
        "bleu",
        "In your brevity penalty the lengths have changed places: it is exp(1 − r / c), r the references' length, c the "
        "hypotheses', and holds where c is the smaller.",
        {"reference_length / hypothesis_length)": "hypothesis_length / reference_length)"},
    ),
    Misconception(
        "penalty_without_exponential",
        "bleu",
        "Your brevity penalty is c / r. It is exp(1 − r / c), which punishes harder.",
        {
            "brevity = min(0.0, 1 - reference_length / hypothesis_length)": "brevity = math.log(min(1, hypothesis_length / reference_length))"
        },
    ),
    Misconception(
        "shortest_reference",
        "bleu",
        "For the brevity penalty you take the shortest reference. The one closest in length to the hypothesis counts.",
        {"key=lambda size: (abs(size - len(tokens)), size)": "key=lambda size: size"},
    ),
    Misconception(
        "longest_reference",
        "bleu",
        "For the brevity penalty you take the longest reference. The one closest in length to the hypothesis counts.",
        {"key=lambda size: (abs(size - len(tokens)), size)": "key=lambda size: -size"},
    ),
    Misconception(
        "length_of_the_first",
        "bleu",
        "For the brevity penalty you take the first reference. The one closest in length to the hypothesis counts.",
        {"key=lambda size: (abs(size - len(tokens)), size)": "key=lambda size: 0"},
    ),
    Misconception(
        "mean_length",
        "bleu",
        "For the brevity penalty you take the mean length of the references. The one closest in length to the hypothesis counts.",
        {
            "(len(other) for other in others), key=lambda size: (abs(size - len(tokens)), size)": "[sum(len(other) for other in others) / len(others)]"
        },
    ),
    Misconception(
        "closest_stream",
        "bleu",
        "You take the stream whose whole length is closest. Which reference is closest in length is asked for each sentence by itself, and "
        "may be another one each time.",
        {
            "hypothesis_length = reference_length = 0": "hypothesis_length, of_streams = 0, [0] * len(references)",
            """        reference_length += min(
            (len(other) for other in others), key=lambda size: (abs(size - len(tokens)), size)
        )
""": "        of_streams = [so_far + len(other) for so_far, other in zip(of_streams, others)]\n",
            "    if matches[0] == 0 or": "    reference_length = min(of_streams, key=lambda size: (abs(size - hypothesis_length), size))\n    if matches[0] == 0 or",
        },
    ),
    Misconception(
        "tie_to_the_longer",
        "bleu",
        "Of two references equally close in length you take the longer one. The shorter one is meant.",
        {"(abs(size - len(tokens)), size)": "(abs(size - len(tokens)), -size)"},
    ),
    Misconception(
        "tie_to_the_first",
        "bleu",
        "Of two references equally close in length you take the one that comes first. The shorter one is meant: the order of the "
        "streams must not matter.",
        {"(abs(size - len(tokens)), size)": "abs(size - len(tokens))"},
    ),
    Misconception(
        "arithmetic_mean",
        "bleu",
        "You take the mean of the four precisions themselves. BLEU takes their geometric mean: the mean of their logarithms, then "
        "the exponential.",
        {
            "logs += math.log((matched or smooth) / total)": "logs += (matched or smooth) / total",
            "math.exp(brevity + logs / 4)": "math.exp(brevity) * (logs / 4)",
        },
    ),
    Misconception(
        "no_root",
        "bleu",
        "You multiply the four precisions and do not take the fourth root: the mean of the logarithms is meant, their sum over 4.",
        {"brevity + logs / 4": "brevity + logs"},
    ),
    Misconception(
        "penalty_under_the_root",
        "bleu",
        "Your brevity penalty is under the fourth root too. Only the precisions are averaged.",
        {"brevity + logs / 4": "(brevity + logs) / 4"},
    ),
    Misconception(
        "up_to_three",
        "bleu",
        "You count runs of up to three words. It is four: watch the end of `range`.",
        {
            "for n in range(1, 5):": "for n in range(1, 4):",
            "matches, totals = [0] * 4, [0] * 4": "matches, totals = [0] * 3, [0] * 3",
            "totals[3] == 0": "totals[2] == 0",
            "logs / 4": "logs / 3",
        },
    ),
    Misconception(
        "not_smoothed",
        "bleu",
        "Your score is 0 as soon as one order has no match. sacrebleu smooths it: the first order without a match counts half a "
        "match.",
        {"if matches[0] == 0 or": "if 0 in matches or"},
    ),
    Misconception(
        "smoothed_alike",
        "bleu",
        "Every order without a match counts half a match in your score. The first counts 1/2, the second 1/4, the third 1/8.",
        {"smooth /= 2": "smooth = 0.5"},
    ),
    Misconception(
        "smoothed_to_a_floor",
        "bleu",
        "Every order without a match counts a tenth of a match in your score: that is another smoothing of sacrebleu's, `floor`. Here, as by "
        "its default, the first counts 1/2, the second 1/4, the third 1/8.",
        {"smooth /= 2": "smooth = 0.1"},
    ),
    Misconception(
        "smoothed_by_a_whole",
        "bleu",
        "An order without a match counts a whole match in your score: halve before you use it, not after.",
        {
            "        if matched == 0:\n            smooth /= 2\n        logs += math.log((matched or smooth) / total)\n": "        logs += math.log((matched or smooth) / total)\n        if matched == 0:\n            smooth /= 2\n"
        },
    ),
    Misconception(
        "one_added_to_all",
        "bleu",
        "You add one to matches and totals. That is another smoothing (Lin & Och 2004); here orders that have a match stay as they are.",
        {"math.log((matched or smooth) / total)": "math.log((matched + 1) / (total + 1))"},
    ),
    Misconception(
        "smoothed_from_nothing",
        "bleu",
        "Where not a single word is right your score is not 0. Smoothing is for orders without a match, not for corpora.",
        {"if matches[0] == 0 or totals[3] == 0:": "if totals[3] == 0:"},
    ),
    Misconception(
        "missing_orders_left_out",
        "bleu",
        "Where no sentence has a run of four words you average the orders that there are. The score is 0: BLEU is for corpora.",
        {
            "if matches[0] == 0 or totals[3] == 0:": "if matches[0] == 0:",
            "for matched, total in zip(matches, totals, strict=True):": "for matched, total in zip(matches, totals, strict=True):\n        if total == 0:\n            continue",
        },
    ),
    Misconception(
        "split_at_spaces",
        "bleu",
        "You split at spaces, so `end.` and `end` are different words. BLEU depends on its tokens, and sacrebleu's are those of "
        "`tokenize_13a` (Post 2018: scores with other tokens cannot be compared).",
        {"tokenize_13a(line) for line": "line.split() for line"},
    ),
    Misconception(
        "letters_for_words",
        "bleu",
        "You compare letters: a string was taken for its words. Make tokens of each line first.",
        {"tokenize_13a(line) for line": "list(line) for line"},
    ),
    Misconception(
        "lower_case",
        "bleu",
        "You compare in lower case. Upper and lower case differ, unless one asks for it.",
        {"tokenize_13a(line) for line": "tokenize_13a(line.lower()) for line"},
    ),
    Misconception(
        "hypothesis_not_tokenised",
        "bleu",
        "You make tokens of the references by `tokenize_13a`, and of the hypotheses otherwise: then no full stop ever matches.",
        {
            "(tokenize_13a(line) for line in (hypothesis, *alternatives))": "(hypothesis.split(), *map(tokenize_13a, alternatives))"
        },
    ),
    # --- token_batches ----------------------------------------------------------------------------
    Misconception(
        "padding_not_counted",
        "token_batches",
        "You count the tokens that there are. Once the batch is padded every source is as long as the longest, and every target "
        "too: that is what it takes up, and what must not pass the limit.",
        {
            "if batch and (len(batch) + 1) * (source + target) > max_tokens:": "held = sum(len(side) for one in [*batch, pair] for side in one)\n        if batch and held > max_tokens:"
        },
    ),
    Misconception(
        "longest_pair_for_both",
        "token_batches",
        "You take the longest pair's length for all. The longest source and the longest target may be of different pairs, and the "
        "batch is padded to both.",
        {
            "if batch and (len(batch) + 1) * (source + target) > max_tokens:": "widest = max(len(one[0]) + len(one[1]) for one in [*batch, pair])\n        if batch and (len(batch) + 1) * widest > max_tokens:"
        },
    ),
    Misconception(
        "sources_alone",
        "token_batches",
        "You count the sources alone. The targets lie in memory, too.",
        {"(len(batch) + 1) * (source + target)": "(len(batch) + 1) * source"},
    ),
    Misconception(
        "targets_alone",
        "token_batches",
        "You count the targets alone. The sources lie in memory, too.",
        {"(len(batch) + 1) * (source + target)": "(len(batch) + 1) * target"},
    ),
    Misconception(
        "longer_of_the_two",
        "token_batches",
        "You count the longer of source and target. Both lie in memory: it is their sum.",
        {"(len(batch) + 1) * (source + target)": "(len(batch) + 1) * max(source, target)"},
    ),
    Misconception(
        "asked_too_late",
        "token_batches",
        "You ask whether the batch is full without the pair that is to come: it passes the limit with the last one.",
        {"(len(batch) + 1) * (source + target)": "len(batch) * (source + target)"},
    ),
    Misconception(
        "lengths_of_the_newest",
        "token_batches",
        "You multiply the number of pairs by the lengths of the newest one. An earlier pair of the batch may have a longer target.",
        {
            "source, target = max(longest_source, len(pair[0])), max(longest_target, len(pair[1]))": "source, target = len(pair[0]), len(pair[1])"
        },
    ),
    Misconception(
        "first_pair_not_measured",
        "token_batches",
        "When you begin another batch, both longest lengths go back to 0, and the pair that the batch begins with is never measured. It is in the batch, and the padding of all the "
        "others is at least as long as it.",
        {
            "batch, source, target = [], len(pair[0]), len(pair[1])": "batch, source, target = [], 0, 0"
        },
    ),
    Misconception(
        "pairs_for_tokens",
        "token_batches",
        "You put `max_tokens` pairs into a batch. It is a number of tokens: a batch of long sentences holds fewer.",
        {"(len(batch) + 1) * (source + target) > max_tokens": "len(batch) + 1 > max_tokens"},
    ),
    Misconception(
        "not_sorted",
        "token_batches",
        "You take the pairs in the order in which they come, so a short one is padded to the length of the long one beside it. Put pairs of about one length together first.",
        {"sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))": "pairs"},
    ),
    Misconception(
        "one_pair_a_batch",
        "token_batches",
        "Each pair has a batch of its own. That needs no padding, but then nothing is computed side by side: a batch takes in pairs as long as there is room.",
        {"(len(batch) + 1) * (source + target) > max_tokens": "len(batch) == 1"},
    ),
    Misconception(
        "last_batch_lost",
        "token_batches",
        "The pairs that are left when the loop ends are lost: hand the last batch over, too.",
        {"    if batch:\n        yield batch\n": ""},
    ),
    Misconception(
        "long_pairs_lost",
        "token_batches",
        "You leave out pairs that are too long for any batch. Nothing may be lost: such a pair has a batch of its own.",
        {
            "        # 2. How large would": "        if len(pair[0]) + len(pair[1]) > max_tokens:\n            continue\n        # 2. How large would"
        },
    ),
    Misconception(
        "long_pairs_cut",
        "token_batches",
        "You cut pairs that are too long. A translation of half a sentence teaches something wrong: it has a batch of its own, whole.",
        {
            "        # 2. How large would": "        pair = pair[0][: max_tokens // 2], pair[1][: max_tokens // 2]\n        # 2. How large would"
        },
    ),
    Misconception(
        "empty_batch_first",
        "token_batches",
        "Before a pair that is too long for any batch you hand over an empty batch: ask whether there is anything in it.",
        {"if batch and (len(batch) + 1)": "if (len(batch) + 1)"},
    ),
    Misconception(
        "empty_batch_last",
        "token_batches",
        "Where there is nothing left you hand over an empty batch at the end.",
        {"    if batch:\n        yield batch\n": "    yield batch if pairs else []\n"},
    ),
    Misconception(
        "pair_lost_between_batches",
        "token_batches",
        "The pair that does not fit any more is lost: it is the first of the next batch.",
        {
            "batch, source, target = [], len(pair[0]), len(pair[1])": "batch, longest_source, longest_target = [], 0, 0\n            continue"
        },
    ),
    Misconception(
        "pair_in_two_batches",
        "token_batches",
        "The pair that does not fit any more is in two batches: in the one that it makes too large, and in the next.",
        {
            "            yield batch\n            batch, source": "            yield [*batch, pair]\n            batch, source"
        },
    ),
    Misconception(
        "one_list_for_all",
        "token_batches",
        "You hand over a list, and then empty it to use it again. Whoever keeps the batches, to mix them for instance, holds one and the "
        "same list many times. Begin a new one for each batch.",
        {
            "batch, source, target = [], len(pair[0]), len(pair[1])": "batch.clear()\n            source, target = len(pair[0]), len(pair[1])"
        },
    ),
    Misconception(
        "twins_lost",
        "token_batches",
        "A pair that occurs several times is left once: a set, or the keys of a dict, forget how often. What is frequent is learnt "
        "more.",
        {"in sorted(pairs,": "in sorted(set(pairs),"},
    ),
    Misconception(
        "sides_swapped",
        "token_batches",
        "In your batches the target comes first.",
        {"        batch.append(pair)\n": "        batch.append(pair[::-1])\n"},
    ),
    Misconception(
        "sides_sorted_apart",
        "token_batches",
        "You sort sources and targets apart: then no sentence stands beside its own translation any more.",
        {
            "sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))": "zip(sorted((one for one, _ in pairs), key=len), sorted((two for _, two in pairs), key=len))"
        },
    ),
]
