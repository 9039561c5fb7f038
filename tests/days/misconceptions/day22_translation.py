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
                "You score each sentence and take the mean. BLEU adds up matches and lengths over the entire corpus and divides once. A sentence of three "
                "words has no 4-gram, so it cannot be scored alone.",
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
                "You use `references[i]` as the references of sentence i, as NLTK does. Here each reference is a stream: `references[k]` is one translation "
                "of the entire corpus, and `references[k][i]` is its sentence i.",
                {
                    "for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):\n    _": "for index, hypothesis in enumerate(hypotheses):\n"
                    "    alternatives = references[index]\n"
                    "    _"
                },
            ),
            "first_reference_alone": (
                "You use only the first stream of references. A match with any stream should count.",
                {"zip(hypotheses, *references, strict=True)": "zip(hypotheses, references[0], strict=True)"},
            ),
            "not_clipped": (
                "You count every n-gram that occurs in a reference as often as the hypothesis contains it, so `the the the the` could be perfect. Count each "
                "n-gram at most as often as it occurs in a reference.",
                {"(mine & most).total()": "sum(count for gram, count in mine.items() if gram in most)"},
            ),
            "references_added_up": (
                "You add up the counts of all references. A word that occurs once in each of three references should count once: take the largest of the "
                "counts, not their sum.",
                {"most |= _": "most += _"},
            ),
            "no_brevity_penalty": (
                "Your score has no brevity penalty. A system that outputs only a few words that it is sure of would score 100.",
                {"brevity + logs / 4": "logs / 4"},
            ),
            "reward_for_length": (
                "Your penalty is above 1 for hypotheses longer than their references. It must be at most 1: additional words already lower the precision.",
                {"min(0.0, _)": "_"},
            ),
            "shortest_reference": (
                "You use the shortest reference for the brevity penalty. Use the reference closest in length to the hypothesis.",
                {"(..., size)": "size"},
            ),
            "length_of_the_first": (
                "You use the first reference for the brevity penalty. Use the reference closest in length to the hypothesis.",
                {"(..., size)": "0"},
            ),
            "tie_to_the_longer": (
                "If two references are equally close in length, you use the longer reference. Use the shorter one.",
                {"(_, size)": "(_, -size)"},
            ),
            "arithmetic_mean": (
                "You use the arithmetic mean of the four precisions. BLEU uses their geometric mean: the exponential of the mean of their logarithms.",
                {"math.log(_)": "_", "4: return ...": "return 100 * math.exp(brevity) * (logs / 4)"},
            ),
            "no_root": (
                "You multiply the four precisions but do not take the fourth root: use the mean of the logarithms, their sum divided by 4.",
                {"logs / 4": "logs"},
            ),
            "not_smoothed": (
                "Your score is 0 as soon as one order has no match. sacrebleu smooths the score: the first order without a match counts as half a match.",
                {"matches[0] == 0": "0 in matches"},
            ),
            "one_added_to_all": (
                "You add 1 to all matches and totals. That is a different smoothing (Lin & Och 2004). Here orders with a match stay unchanged.",
                {"(matched or smooth) / total": "(matched + 1) / (total + 1)"},
            ),
            "smoothed_from_nothing": (
                "Your score is above 0 even if no word matches. Smoothing applies only if some word matches.",
                {"matches[0] == 0 or _": "_"},
            ),
            "missing_orders_left_out": (
                "If no hypothesis has a 4-gram, you leave the missing orders out. The score must be 0 in this case: BLEU is meant for corpora.",
                {"_ or totals[3] == 0": "_", "if _:\n    smooth /= 2": "if total == 0:\n    continue\nif _:\n    smooth /= 2"},
            ),
            "split_at_spaces": (
                "You split at spaces, so `end.` and `end` are different words. BLEU depends on the tokenizer, and sacrebleu uses `tokenize_13a` (Post 2018: "
                "scores with different tokenizers cannot be compared).",
                {"tokenize_13a(line)": "line.split()"},
            ),
            "lower_case": (
                "You convert the text to lower case. By default, BLEU distinguishes upper and lower case.",
                {"tokenize_13a(line)": "tokenize_13a(line.lower())"},
            ),
        },
    ),
    *of(
        "token_batches",
        {
            # --- token_batches ----------------------------------------------------------------------------
            "padding_not_counted": (
                "You count only real tokens. After padding, every source is as long as the longest source, and every target as long as the longest target. "
                "This padded size must not exceed the limit.",
                {
                    "source, target = _": "source, target = _\nheld = sum(len(side) for one in [*batch, pair] for side in one)",
                    "(len(batch) + 1) * (source + target)": "held",
                },
            ),
            "longest_pair_for_both": (
                "You use the lengths of the longest pair. The longest source and the longest target can be in different pairs, and the batch is padded to "
                "both.",
                {"source, target = _": "source, target = _\nwidest = max(len(one[0]) + len(one[1]) for one in [*batch, pair])", "source + target": "widest"},
            ),
            "sources_alone": (
                "You count only the sources. The targets need memory, too.",
                {"source + target": "source"},
            ),
            "asked_too_late": (
                "You check the size without the next pair, so the batch exceeds the limit once that pair is added.",
                {"len(batch) + 1": "len(batch)"},
            ),
            "lengths_of_the_newest": (
                "You multiply the number of pairs by the lengths of the newest pair. An earlier pair of the batch can have a longer source or target.",
                {"max(longest_source, _), ...": "_, len(pair[1])"},
            ),
            "first_pair_not_measured": (
                "When you start a new batch, you set both longest lengths to 0, although the batch already contains its first pair. All other pairs are "
                "padded to at least the length of this pair.",
                {"[], len(pair[0]), len(pair[1])": "[], 0, 0"},
            ),
            "pairs_for_tokens": (
                "You put `max_tokens` pairs into a batch. `max_tokens` is a number of tokens: a batch of long sentences holds fewer pairs.",
                {"_ * (source + target)": "_"},
            ),
            "not_sorted": (
                "You batch the pairs in their original order, so a short pair is padded to the length of a long pair. Put pairs of similar length together "
                "first.",
                {"sorted(pairs, key=...)": "pairs"},
            ),
            "last_batch_lost": (
                "The pairs that remain when the loop ends are lost. Yield the last batch, too.",
                {"if batch:\n    yield batch": ""},
            ),
            "long_pairs_lost": (
                "You leave out pairs that are too long for any batch. Such a pair should get its own batch.",
                {"source, target = _": "if len(pair[0]) + len(pair[1]) > max_tokens:\n    continue\nsource, target = _"},
            ),
            "long_pairs_cut": (
                "You truncate pairs that are too long. A truncated translation is a wrong training example. Such a pair should get its own batch, untruncated.",
                {"source, target = _": "pair = pair[0][: max_tokens // 2], pair[1][: max_tokens // 2]\nsource, target = _"},
            ),
            "empty_batch_first": (
                "Before a pair that is too long for any batch, you yield an empty batch. Check first whether the batch contains a pair.",
                {"batch and _": "_"},
            ),
            "empty_batch_last": (
                "If no pair remains, you yield an empty batch at the end.",
                {"if batch:\n    yield batch": "yield batch if pairs else []"},
            ),
            "pair_lost_between_batches": (
                "The pair that no longer fits is lost. It should be the first pair of the next batch.",
                {"batch, source, target = ...": "batch, longest_source, longest_target = [], 0, 0\ncontinue"},
            ),
            "one_list_for_all": (
                "You yield a list and then empty it to use it again. A caller that stores the batches, for instance to shuffle them, gets the same list many "
                "times. Create a new list for each batch.",
                {"batch, source, target = ...": "batch.clear()\nsource, target = len(pair[0]), len(pair[1])"},
            ),
            "twins_lost": (
                "A pair that occurs several times remains only once: a set, or the keys of a dict, drops repetitions. Frequent pairs should have more weight "
                "in training.",
                {"sorted(pairs, key=_)": "sorted(set(pairs), key=_)"},
            ),
        },
    ),
]
