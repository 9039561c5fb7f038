"""Day 21: what goes wrong with byte-pair encoding."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "train_bpe",
        {
            # --- train_bpe --------------------------------------------------------------------------------
            "vocabulary_of_merges_alone": (
                "You make `vocab_size` merges. The 256 bytes are in the vocabulary already and count: a vocabulary of 300 has room for 44 merges, and one of 256 "
                "for none.",
                {"vocab_size - 256": "vocab_size"},
            ),
            "one_merge_too_many": (
                "You make one merge more than the vocabulary has room for: ask whether there is room before you merge, not after.",
                {"len(merges) < _": "len(merges) <= _"},
            ),
            "one_merge_too_few": (
                "You stop one merge early: with 256 + r ids there is room for r merges.",
                {"1: len(merges)": "len(merges) + 1"},
            ),
            "stops_at_pairs_that_occur_once": (
                "You stop as soon as no pair occurs twice. The exercise goes on: pairs that occur once merge too, until the vocabulary is full or the text is a "
                "single id.",
                {"pair = _": "pair = _\nif counts[pair] < 2:\n    break"},
            ),
            "fails_where_no_pair_is_left": (
                "You ask for the commonest pair also where there is none: once the text is a single id, or empty, there are no neighbours to count. Then it stops, "
                "with fewer merges than were wanted.",
                {"_ and len(ids) > 1": "_"},
            ),
            "ties_to_the_pair_seen_first_ever": (
                "Of equally common pairs you merge the one that you saw first since training began, as when counts are kept from merge to merge. The one that "
                "occurs first in the sequence *as it is now* is meant: a merge brings new pairs, and they may stand before old ones.",
                {
                    "merges: ... = []": "merges, seen = [], {}",
                    "pair = max(counts, key=_)": "for pair in counts:\n    seen.setdefault(pair, len(seen))\npair = max(sorted(counts, key=seen.get), key=_)",
                },
            ),
            "ties_to_the_last": (
                "Of equally common pairs you merge the one that occurs last. The first is meant: `max` with `>=`, or over a reversed order, prefers the last.",
                {"max(counts, key=_)": "max(reversed(counts), key=_)"},
            ),
            "ties_to_the_largest": (
                "Of equally common pairs you merge the one with the largest ids: that is what `max` of (count, pair) does. The one that occurs first in the text "
                "is meant.",
                {"counts.__getitem__": "lambda pair: (counts[pair], pair)"},
            ),
            "ties_to_the_smallest": (
                "Of equally common pairs you merge the one with the smallest ids. The one that occurs first in the text is meant.",
                {"max(counts, key=_)": "max(sorted(counts), key=_)"},
            ),
            "rarest_pair": (
                "You merge the rarest pair. What occurs most often saves the most ids.",
                {"max(counts, key=_)": "min(counts, key=_)"},
            ),
            "pairs_in_twos": (
                "You count every second pair only: the ids 0 and 1, then 2 and 3. Each id is the right half of one pair and the left half of the next.",
                {"itertools.pairwise(ids)": "list(zip(ids[::2], ids[1::2])) or [(ids[0], ids[1])]"},
            ),
            "overlapping_pairs_counted_once": (
                "In a run of one letter you count only the pairs that could be merged at once: two in `aaaa`. Every adjacent pair counts, so `aaaa` has three.",
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
                "You count the pairs of the bytes once, and merge the commonest of them in turn. After each merge there are new pairs, with the new id in them, "
                "and old ones that are gone: count again.",
                {
                    "counts = ...": "raw = list(text.encode('utf-8'))\n"
                    "counts = Counter(two for two in itertools.pairwise(raw) if two not in merges)\n"
                    "if not counts:\n"
                    "    break"
                },
            ),
            "split_into_words_in_training": (
                "You learn from words: no pair across a space is counted. The text is one sequence here, spaces and all; splitting it first is what GPT-2 does.",
                {
                    "counts = Counter(_)": "counts = Counter(two for two in _ if not {32, 10} & {b for i in two for b in BPE(merges).spelling[i]})\n"
                    "if not counts:\n"
                    "    break"
                },
            ),
            "characters_in_training": (
                "You learn from the characters' code points. Then `Ω` is the id 937, which is a merge's. Start from the bytes of UTF-8: there are 256 of them, and "
                "every text is made of them.",
                {"list(...)": "[ord(character) for character in text]"},
            ),
            "lower_case_in_training": (
                "You learn from the text in lower case: an upper-case letter is another byte, and what you learn does not fit it.",
                {"text.encode": "text.lower().encode"},
            ),
            "sequence_never_merged": (
                "You find a pair and do not replace it in the sequence, so the same pair is the commonest for ever.",
                {"BPE.merge(ids, pair, ...)": "ids"},
            ),
            "new_ids_from_257": (
                "The first merge has the id 256: bytes are 0 to 255. In training yours is 257, so merges of merges point one too high.",
                {"256 + len(merges)": "257 + len(merges)"},
            ),
        },
    ),
    *of(
        "BPE",
        {
            # --- BPE --------------------------------------------------------------------------------------
            "merged_as_it_is_read": (
                "You merge as you read, from left to right, whatever fits what was read last. The merge of the lowest rank goes first, wherever it stands: a byte "
                "may belong to the one after it rather than to the one before.",
                {
                    "rank = _": "rank = _\n"
                    "unread, ids = ids, []\n"
                    "for number in unread:\n"
                    "    while ids and (ids[-1], number) in rank:\n"
                    "        number = 256 + rank[(ids.pop(), number)]\n"
                    "    ids.append(number)",
                    "(fitting := ...)": "(fitting := set())",
                },
            ),
            "longest_piece_from_the_left": (
                "You look for the longest piece that you know, from left to right, as in a dictionary. Byte-pair encoding repeats its training: the merge of the "
                "lowest rank goes first, wherever it stands, and may take a byte from a longer piece.",
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
            "last_merge_first": (
                "You apply the merge that was learnt last first. They were learnt in an order: what a later merge is made of, an earlier one has to make.",
                {"min(fitting, key=_)": "max(fitting, key=_)"},
            ),
            "first_place_first": (
                "You merge from left to right whatever pair fits. The merge of the lowest rank comes first, wherever it stands: else another text is made of the "
                "same merges than in training.",
                {"pair = ...": "pair = next(two for two in itertools.pairwise(ids) if two in rank)"},
            ),
            "longest_spelling_first": (
                "You apply the merge that spells most. That is how a dictionary is searched; byte-pair encoding repeats its training, so the lowest rank comes "
                "first.",
                {"pair = ...": "pair = max(fitting, key=lambda two: (len(self.spelling[256 + rank[two]]), -rank[two]))"},
            ),
            "one_merge_alone": (
                "You apply one merge and stop. As long as a pair of the text is a known merge there is more to do, also with the ids just made.",
                {
                    "while (fitting := (set(itertools.pairwise(ids)) & rank.keys())):\n    _": "if (fitting := (set(itertools.pairwise(ids)) & rank.keys())):\n"
                    "    _"
                },
            ),
            "merges_of_bytes_alone": (
                "You merge bytes and never what was merged before: the pairs that you look for are those of the text's bytes. After a merge, look at the new "
                "sequence.",
                {"rank.keys()": "known", "rank = _": "rank = _\nknown = set(itertools.pairwise(ids)) & rank.keys()"},
            ),
            "merged_ids_from_257": (
                "Your encoder gives the merge of rank r the id 257 + r. It is 256 + r: the bytes are 0 to 255.",
                {"256 + rank[pair]": "257 + rank[pair]"},
            ),
            "merged_ids_from_0": (
                "Your encoder gives the merge of rank r the id r, which is a byte's. Merges come after the 256 bytes.",
                {"256 + rank[pair]": "rank[pair]"},
            ),
            "bytes_used_twice": (
                "After a merge you go on one id further instead of two: the right half of the pair is used again, and the sequence does not get shorter.",
                {
                    "position += 2": "position += 1",
                    "while (fitting := (set(itertools.pairwise(ids)) & rank.keys())):\n    _": "for _ in range(len(ids)):\n"
                    "    fitting = set(itertools.pairwise(ids)) & rank.keys()\n"
                    "    if not fitting:\n"
                    "        break\n"
                    "    _",
                },
            ),
            "from_right_to_left": (
                "In a run of one letter you merge from the right: `aaa` becomes a, aa. From the left it is aa, a.",
                {"merged: list[int] = []": "ids, pair = list(ids)[::-1], pair[::-1]\nmerged: list[int] = []", "return merged": "return merged[::-1]"},
            ),
            "first_occurrence_alone": (
                "You replace the first occurrence of a pair only. In `merge` every occurrence is replaced before the next pair is looked for; in training all of "
                "them are one merge.",
                {"position += 2": "return [*merged, *ids[position + 2 :]]", "while ...:\n    pair = ...\n    ids = _": "for pair in self.merges:\n    ids = _"},
            ),
            "characters_for_bytes": (
                "You encode the characters' code points. Any character beyond the first 256 then takes the id of a merge or of nothing. Encode the text as UTF-8 "
                "first.",
                {"list(text.encode('utf-8'))": "[ord(character) for character in text]"},
            ),
            "ascii_alone": (
                "You drop what is not ASCII. Nothing may be lost: UTF-8 has bytes for every character.",
                {"text.encode('utf-8')": "text.encode('ascii', errors='ignore')"},
            ),
            "normalised": (
                "You normalise the text first: é written as e and an accent becomes one character, and what comes back is not what went in. Take the text as it is.",
                {"text.encode": "__import__('unicodedata').normalize('NFC', text).encode"},
            ),
            "stripped": (
                "You strip the text, or split it at its spaces: blanks and line ends are bytes like all others, and decoding must give them back.",
                {"text.encode": "' '.join(text.split()).encode"},
            ),
            "each_id_decoded_alone": (
                "You decode each id by itself and join the words. An id may be half a character, which by itself is not UTF-8: join the bytes of all ids, then "
                "decode once.",
                {"decode(): return ...": "return ''.join(self.spelling[number].decode('utf-8', errors='replace') for number in ids)"},
            ),
            "invalid_bytes_left_out": (
                "You leave out bytes that are not UTF-8. Each becomes U+FFFD, so that one sees that something was there.",
                {"'replace'": "'ignore'"},
            ),
            "invalid_bytes_raise": (
                "Bytes that are not UTF-8 raise in your `decode`. A model may say any sequence of ids: replace what cannot be read.",
                {"'replace'": "'strict'"},
            ),
            "latin_1": (
                "You read the bytes as Latin-1: then é comes back as Ã©. They were written as UTF-8.",
                {"decode(): 'utf-8'": "'latin-1'", "errors='replace'": ""},
            ),
            "spelled_backwards": (
                "Your merges spell their right half first.",
                {"self.spelling[left] + _": "_ + self.spelling[left]"},
            ),
            "halves_not_spelled_out": (
                "Your ids of merges spell the numbers of their halves, taken as bytes. A half may be a merge itself: spell it out first.",
                {"self.spelling[left] + ...": "bytes([left % 256, right % 256])"},
            ),
        },
    ),
]
