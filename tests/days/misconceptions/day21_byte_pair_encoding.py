"""Day 21: what goes wrong with byte-pair encoding."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "train_bpe",
        {
            # --- train_bpe --------------------------------------------------------------------------------
            "vocabulary_of_merges_alone": (
                "You make `vocab_size` merges. The vocabulary size includes the 256 bytes: a vocabulary of 300 has room for 44 merges, and a vocabulary of "
                "256 for none.",
                {"vocab_size - 256": "vocab_size"},
            ),
            "one_merge_too_many": (
                "You make one merge more than the vocabulary has room for. Check the size before you merge, not afterwards.",
                {"len(merges) < _": "len(merges) <= _"},
            ),
            "stops_at_pairs_that_occur_once": (
                "You stop as soon as no pair occurs twice. Merge pairs that occur once, too, until the vocabulary is full or the text is a single id.",
                {"pair = _": "pair = _\nif counts[pair] < 2:\n    break"},
            ),
            "fails_where_no_pair_is_left": (
                "You look for the most frequent pair even if there is no pair: a text that is a single id, or empty, has none. In that case stop, with fewer "
                "merges than requested.",
                {"_ and len(ids) > 1": "_"},
            ),
            "ties_to_the_pair_seen_first_ever": (
                "In a tie you merge the pair that you saw first since training began, as if the counts were kept from merge to merge. The pair that occurs "
                "first in the *current* sequence wins: a merge creates new pairs, which can come before old pairs.",
                {
                    "merges: ... = []": "merges, seen = [], {}",
                    "pair = max(counts, key=_)": "for pair in counts:\n    seen.setdefault(pair, len(seen))\npair = max(sorted(counts, key=seen.get), key=_)",
                },
            ),
            "ties_to_the_last": (
                "In a tie you merge the pair that occurs last. The first pair should win: comparing with `>=`, or in reversed order, prefers the last.",
                {"max(counts, key=_)": "max(reversed(counts), key=_)"},
            ),
            "ties_to_the_smallest": (
                "In a tie you merge the pair with the smallest ids. The pair that occurs first in the sequence should win.",
                {"max(counts, key=_)": "max(sorted(counts), key=_)"},
            ),
            "ties_to_the_largest_bytes": (
                "In a tie you merge the pair whose bytes come last in order, as some courses and libraries do. Here the pair that occurs first in the "
                "sequence wins.",
                {"counts.__getitem__": "lambda pair: (counts[pair], *(BPE(merges).spelling[one] for one in pair))"},
            ),
            "ties_to_the_largest": (
                "In a tie you merge the pair with the largest ids, as `max` of (count, pair) does. The pair that occurs first in the sequence should win.",
                {"counts.__getitem__": "lambda pair: (counts[pair], pair)"},
            ),
            "overlapping_pairs_counted_once": (
                "In a run of one letter you count only pairs that do not overlap: two in `aaaa`. Every adjacent pair counts, so `aaaa` has three.",
                {
                    "counts = Counter(_)": "counts, taken = Counter(), -1\n"
                    "for place, two in enumerate(_):\n"
                    "    if two[0] == two[1] and taken == place - 1 and place and (ids[place - 1], ids[place]) == two:\n"
                    "        continue\n"
                    "    counts[two] += 1\n"
                    "    taken = place"
                },
            ),
            "counted_once": (
                "You count the pairs of the bytes once and merge them in order of frequency. Each merge creates new pairs and removes old ones: count again "
                "after each merge.",
                {
                    "counts = ...": "raw = list(text.encode('utf-8'))\n"
                    "counts = Counter(two for two in itertools.pairwise(raw) if two not in merges)\n"
                    "if not counts:\n"
                    "    break"
                },
            ),
            "several_merges_at_one_count": (
                "In a tie you merge all equally frequent pairs before you count again. Each merge changes the counts of neighboring pairs: merge one pair, "
                "then count.",
                {
                    "3: ids = ...": "",
                    "merges.append(pair)": "",
                    "pair = ...": "most = max(counts.values())\nfor pair in [two for two in counts if counts[two] == most][: vocab_size - 256 - len(merges)]:\n"
                    "    ids = BPE.merge(ids, pair, 256 + len(merges))\n    merges.append(pair)",
                },
            ),
            "split_into_words_in_training": (
                "You train on words, so no pair that contains a space is counted. Here the text is one sequence that includes the spaces. GPT-2 splits its "
                "text into words first.",
                {
                    "counts = Counter(_)": "counts = Counter(two for two in _ if not {32, 10} & {b for i in two for b in BPE(merges).spelling[i]})\n"
                    "if not counts:\n"
                    "    break"
                },
            ),
            "characters_in_training": (
                "You train on the characters' code points, so `Ω` has the id 937, which belongs to a merge. Start from the bytes of UTF-8: there are 256 of "
                "them, and they can represent any text.",
                {"list(...)": "[ord(character) for character in text]"},
            ),
        },
    ),
    *of(
        "BPE",
        {
            # --- BPE --------------------------------------------------------------------------------------
            "longest_piece_from_the_left": (
                "You look for the longest vocabulary entry, from left to right. Encoding repeats the merges of training: the merge with the lowest rank comes "
                "first, wherever it applies, and may use a byte that a longer entry would need.",
                {
                    "rank = _": "rank = _\n"
                    "known, raw, ids = {word: number for number, word in enumerate(self.spelling)}, bytes(ids), []\n"
                    "while raw:\n"
                    "    size = next(size for size in range(len(raw), 0, -1) if raw[:size] in known)\n"
                    "    ids.append(known[raw[:size]])\n"
                    "    raw = raw[size:]",
                    "(fitting := ...)": "(fitting := set())",
                },
            ),
            "first_place_first": (
                "You merge any known pair from left to right. The merge with the lowest rank must come first, wherever it applies; otherwise the ids differ "
                "from those of training.",
                {"pair = ...": "pair = next(two for two in itertools.pairwise(ids) if two in rank)"},
            ),
            "longest_spelling_first": (
                "You apply the merge with the longest spelling. Encoding repeats the merges of training, so the lowest rank comes first.",
                {"pair = ...": "pair = max(fitting, key=lambda two: (len(self.spelling[256 + rank[two]]), -rank[two]))"},
            ),
            "one_merge_alone": (
                "You apply one merge and stop. Continue as long as a pair of the sequence is a known merge, including pairs with new ids.",
                {
                    "while (fitting := (set(itertools.pairwise(ids)) & rank.keys())):\n    _": "if (fitting := (set(itertools.pairwise(ids)) & rank.keys())):\n"
                    "    _"
                },
            ),
            "fails_without_a_pair": (
                "Your encoder looks for the pair of lowest rank even where there is no pair: in an empty text, in a single byte, or after the last merge. "
                "Stop as soon as fewer than two ids are left.",
                {
                    "while (fitting := ...):\n    _": "while True:\n    pair = min(itertools.pairwise(ids), key=lambda two: rank.get(two, len(rank)))\n    if pair not in rank:\n        break\n    ids = self.merge(ids, pair, 256 + rank[pair])"
                },
            ),
            "merged_ids_from_0": (
                "Your encoder gives the merge of rank r the id r, which belongs to a byte. Merges come after the 256 bytes.",
                {"256 + rank[pair]": "rank[pair]"},
            ),
            "from_right_to_left": (
                "In a run of one letter you merge from the right: `aaa` becomes a, aa. Merging from the left gives aa, a.",
                {"merged: list[int] = []": "ids, pair = list(ids)[::-1], pair[::-1]\nmerged: list[int] = []", "return merged": "return merged[::-1]"},
            ),
            "first_occurrence_alone": (
                "You replace only the first occurrence of a pair. A merge replaces every occurrence before you choose the next pair.",
                {"position += 2": "return [*merged, *ids[position + 2 :]]", "while ...:\n    pair = ...\n    ids = _": "for pair in self.merges:\n    ids = _"},
            ),
            "characters_for_bytes": (
                "You encode the characters' code points. A code point above 255 is the id of a merge, or not an id at all. Encode the text as UTF-8 first.",
                {"list(text.encode('utf-8'))": "[ord(character) for character in text]"},
            ),
            "stripped": (
                "You strip the text or split it at spaces. Spaces and line breaks are bytes like all others, and decoding must return them.",
                {"text.encode": "' '.join(text.split()).encode"},
            ),
            "each_id_decoded_alone": (
                "You decode each id separately and join the texts. An id can be half a character, which is not valid UTF-8 by itself. Join the bytes of all "
                "ids, then decode once.",
                {"decode(): return ...": "return ''.join(self.spelling[number].decode('utf-8', errors='replace') for number in ids)"},
            ),
            "invalid_bytes_left_out": (
                "You leave out bytes that are not valid UTF-8. Replace invalid bytes by U+FFFD, so that the error is visible.",
                {"'replace'": "'ignore'"},
            ),
            "invalid_bytes_raise": (
                "Invalid UTF-8 raises an error in your `decode`. A model can generate any sequence of ids: replace invalid bytes.",
                {"'replace'": "'strict'"},
            ),
            "halves_not_spelled_out": (
                "You use the ids of a merge's two parts as if they were bytes. A part can be a merge itself: use all its bytes.",
                {"self.spelling[left] + ...": "bytes([left % 256, right % 256])"},
            ),
        },
    ),
]
