"""Tasks: batches are functions of their number, answers are right, what is held out is not learned from."""

import gzip
import hashlib
import itertools
import json
import random

import pytest
import torch

from tests.training.conftest import POETRY, QUIET, small
from training.data import corpora, tasks
from training.data.batches import Rows, draws, padded
from training.data.conversations import Chat
from training.data.tasks import Text, Translation
from training.data.vocabulary import END, PAD, START, BytePairs, Languages, characters
from training.errors import Refused

DRAWN = ("copy", "sorting", "arithmetic")
PAIRS = [
    (f"the {a} sees {b} birds" + " today" * (b % 4), f"le {a} voit {b} oiseaux" + " ici" * (b % 4))
    for a in "abcdefgh"
    for b in range(40)
]
random.Random(0).shuffle(PAIRS)


def load(name, **changes):
    return tasks.load(small(name, **changes), QUIET)


def translation(**changes):
    splits = {"train": PAIRS[:240], "validation": PAIRS[240:280], "test": PAIRS[280:]}
    return Translation(small("translation", **changes), splits)


def same(rows: Rows, other: Rows) -> bool:
    if (rows.source is None) != (other.source is None):
        return False
    sources = rows.source is None or torch.equal(rows.source, other.source)
    return sources and torch.equal(rows.target, other.target)


@pytest.mark.parametrize("name", [*DRAWN, "text", "translation"])
def test_a_batch_is_a_function_of_seed_and_number(name, poem):
    data = {"data": str(poem)} if name == "text" else {}
    if name == "translation":
        first, two, other = translation(), translation(), translation(seed=1)
    else:
        first, two, other = load(name, **data), load(name, **data), load(name, seed=1, **data)
    for number in (7, 0, 300, 7):
        assert same(first.batch(number), two.batch(number))
    assert not same(first.batch(0), first.batch(1))
    assert not same(first.batch(0), other.batch(0))


@pytest.mark.parametrize("name", DRAWN)
def test_answers_are_right(name):
    task = load(name)
    rows = task.batch(3)
    for source, target in zip(rows.source.tolist(), rows.target.tolist(), strict=True):
        question = task.languages.source.decode(source)
        answer = task.languages.target.decode(target[1:])
        assert target[0] == START
        if name == "copy":
            assert answer == question and len(source) == 10
        elif name == "sorting":
            assert answer.split() == sorted(question.split()) and len(source) == 10
        else:
            first_number, right = question.removesuffix("=").split("+")
            assert int(answer) == int(first_number) + int(right) and END in target


def test_vocabularies_have_the_sizes_they_are_said_to_have():
    sizes = {name: len(load(name).languages.target) for name in DRAWN}
    assert sizes == {"copy": 11, "sorting": 10, "arithmetic": 15}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_held_out_is_never_learned_from(name):
    task = load(name, batch=2000)
    held_out = {
        tuple(row[row != PAD].tolist())
        for split in task.splits
        for rows in task.held_out(split)
        for row in rows.source
    }
    assert len(held_out) == 1500
    for number in range(20):
        batch = task.batch(number)
        assert len(batch) == 2000
        assert held_out.isdisjoint(tuple(row[row != PAD].tolist()) for row in batch.source)


@pytest.mark.parametrize("name", DRAWN)
def test_the_held_out_sequences_are_a_thousand_whatever_the_seed(name):
    first, other = load(name), load(name, seed=5)
    assert len(first.texts("test")) == 1000 and len(first.texts("validation")) == 500
    assert first.texts("test") == other.texts("test")
    assert sum(len(rows) for rows in first.held_out("test")) == 1000


def test_every_held_out_token_of_a_text_is_predicted_once(poem):
    task = load("text", data=str(poem), context=50)
    predicted = torch.cat([rows.target[:, 1:].flatten() for rows in task.held_out("validation")])
    full = task.languages.target.encode(POETRY[int(0.9 * len(POETRY)) :])
    assert predicted.tolist() == full[1:]


def test_a_text_s_batches_hold_what_is_learned_from_alone(poem):
    task = load("text", data=str(poem), context=30, batch=64)
    learned = POETRY[: int(0.9 * len(POETRY))]
    rows = task.batch(0)
    assert rows.target.shape == (64, 31) and rows.source is None
    assert all(task.languages.target.decode(row.tolist()) in learned for row in rows.target)
    assert rows.tokens == 64 * 30


def test_subwords_are_learned_from_the_training_split_alone(tmp_path):
    strange = "쀍쀍쀍쀍 " * 40
    path = tmp_path / "text"
    path.write_text("a quiet sea, " * 400 + strange, encoding="utf-8")
    task = load("text", data=str(path), vocabulary=300, context=8)
    assert all("쀍" not in name for name in task.languages.target.names(range(300)))


def test_an_epoch_of_translation_holds_every_pair_once():
    task = translation()
    pairs = []
    for number in range(task.per_epoch, 2 * task.per_epoch):
        rows = task.batch(number)
        words = task.languages.target
        for source, target in zip(rows.source.tolist(), rows.target.tolist(), strict=True):
            assert target[0] == START and END in target
            pairs.append((words.decode(source), words.decode(target)))
    assert sorted(pairs) == sorted(PAIRS[:240])


def test_epochs_differ_in_order_and_company():
    task = translation()
    first = [task.batch(n) for n in range(task.per_epoch)]
    second = [task.batch(n) for n in range(task.per_epoch, 2 * task.per_epoch)]
    assert not all(map(same, first, second))


def test_batches_keep_to_their_budget_and_hold_pairs_of_like_length():
    task = translation(batch_tokens=300)
    for number in range(task.per_epoch):
        rows = task.batch(number)
        assert len(rows) * (rows.source.size(1) + rows.target.size(1)) <= 300
        assert (rows.source != PAD).float().mean() > 0.8


def test_long_pairs_are_not_learned_from_but_held_out_ones_are_all_measured():
    short = translation(longest=6)
    assert 0 < sum(len(short.batch(n)) for n in range(short.per_epoch)) < 240
    assert sum(len(rows) for rows in short.held_out("test")) == 40
    with pytest.raises(Refused, match="longest is 2 tokens"):
        translation(longest=2)


def test_of_few_pairs_alone_words_and_sentences_are_learned_and_all_that_is_held_out_is_measured():
    few, full = translation(pairs=60, vocabulary=290), translation(vocabulary=290)
    cut = {"train": PAIRS[:60], "validation": PAIRS[240:280], "test": PAIRS[280:]}
    alone = Translation(small("translation", vocabulary=290), cut)
    assert few.per_epoch < full.per_epoch
    assert all(same(few.batch(n), alone.batch(n)) for n in range(2 * few.per_epoch))
    assert all(map(same, few.held_out("test"), alone.held_out("test")))
    assert sum(len(rows) for rows in few.held_out("validation")) == 40
    with pytest.raises(Refused, match="pairs"):
        translation(pairs=-1)


def test_separate_vocabularies_are_of_their_language_each():
    task = translation(joint=False, vocabulary=290)
    source, target = task.languages.source, task.languages.target
    assert any("bird" in name for name in source.names(range(len(source))))
    assert not any("bird" in name for name in target.names(range(len(target))))


def test_lower_case_reaches_what_is_measured():
    pairs = {split: [("The Cat", "Le Chat")] * 30 for split in ("train", "validation", "test")}
    task = Translation(small("translation", lowercase=True, vocabulary=262), pairs)
    assert task.texts("test")[0] == ("the cat", "le chat")


# --- Shares of a batch ----------------------------------------------------------------------------


@pytest.mark.parametrize("labeled", [False, True])
def test_processes_share_a_batch_out(labeled):
    """Rows of conversations have labels, too: −100 where nothing is to be predicted."""
    target = torch.arange(1, 16).view(5, 3)
    rows = Rows(torch.arange(1, 11).view(5, 2), target)
    if labeled:
        rows = Rows(None, target, target.masked_fill(target % 4 == 0, -100))
        assert rows.tokens == 12
    shares = [rows.share(rank, 2) for rank in range(2)]
    assert sum(map(len, shares)) == 5
    assert sum(share.tokens for share in shares) == rows.tokens
    together = torch.cat([share.target for share in shares])
    assert sorted(together.tolist()) == rows.target.tolist()


def test_a_process_without_rows_works_on_one_that_does_not_count():
    rows = Rows(None, torch.ones(2, 4, dtype=torch.long))
    idle = rows.share(2, 3)
    assert len(idle) == 1 and idle.tokens == 0 and not idle.counted


def test_padding_and_draws():
    assert padded([[1, 2, 3], [4]]).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert torch.equal(
        torch.rand(3, generator=draws("a", 1)), torch.rand(3, generator=draws("a", 1))
    )
    assert not torch.equal(
        torch.rand(3, generator=draws("a", 1)), torch.rand(3, generator=draws("a", 2))
    )


# --- Corpora --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is empty"),
        (b"one line", "too short"),
        (b"good\nbad \xff\xfe", r"is not UTF-8: byte 9 .line 2. is 0xff"),
    ],
)
def test_a_text_that_cannot_be_learned_from_is_refused(body, words, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(body)
    with pytest.raises(Refused, match=words):
        load("text", data=str(path))


def test_a_text_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refused, match="cannot be read"):
        load("text", data=str(tmp_path / "none.txt"))
    with pytest.raises(Refused, match="--data FILE"):
        load("text")


@pytest.mark.parametrize(
    ("data", "source", "target", "words"),
    [
        ("multi40k", "de", "en", "data must be toy, multi30k, wmt14 or a file of sentence pairs"),
        ("toy", "en", "de", "toy has the languages en, fr, got 'de'"),
        ("wmt14", "en", "fr", "wmt14 has the languages de, en, got 'fr'"),
    ],
)
def test_a_corpus_that_there_is_not_is_refused(data, source, target, words):
    with pytest.raises(Refused, match=words):
        corpora.parallel(data, source, target, None, QUIET)


def test_the_toy_corpus_goes_both_ways():
    forth = corpora.parallel("toy", "en", "fr", None, QUIET)
    back = corpora.parallel("toy", "fr", "en", None, QUIET)
    assert [(b, a) for a, b in forth["test"]] == back["test"]


def multi30k(folder, monkeypatch, lines):
    """A stand-in for the files, with digests of its own."""
    (folder / "multi30k").mkdir()
    digests = {}
    for name in corpora._MULTI30K_DIGESTS:
        body = gzip.compress("".join(f"{line} {name}\n" for line in lines(name)).encode())
        (folder / "multi30k" / f"{name}.gz").write_bytes(body)
        digests[name] = hashlib.sha256(body).hexdigest()
    return digests


def test_multi30k_is_read_in_pairs(tmp_path, monkeypatch):
    digests = multi30k(tmp_path, monkeypatch, lambda name: "abc")
    monkeypatch.setattr(corpora, "_MULTI30K_DIGESTS", digests)
    splits = corpora.parallel("multi30k", "fr", "de", tmp_path, QUIET)
    assert splits["train"] == [(f"{c} train.fr", f"{c} train.de") for c in "abc"]
    assert splits["test"][0] == ("a test_2016_flickr.fr", "a test_2016_flickr.de")
    assert splits["validation"][2] == ("c val.fr", "c val.de")


def test_sides_of_different_lengths_are_refused(tmp_path, monkeypatch):
    digests = multi30k(tmp_path, monkeypatch, lambda name: "ab" if name == "val.de" else "abc")
    monkeypatch.setattr(corpora, "_MULTI30K_DIGESTS", digests)
    with pytest.raises(
        Refused, match=r"val\.fr and val\.de must have equal numbers of lines, got 3 and 2"
    ):
        corpora.parallel("multi30k", "fr", "de", tmp_path, QUIET)


def test_a_corpus_of_one_line_is_refused(tmp_path, monkeypatch):
    digests = multi30k(tmp_path, monkeypatch, lambda name: "a")
    monkeypatch.setattr(corpora, "_MULTI30K_DIGESTS", digests)
    with pytest.raises(Refused, match="more than one training line"):
        corpora.parallel("multi30k", "de", "en", tmp_path, QUIET)


def test_sgm_segments_are_unescaped():
    body = b'<doc><seg id="1"> A &amp; B </seg>\n<seg id="2">C\nD</seg></doc>'
    assert corpora._segments(body, "x") == ["A & B", "C\nD"]


# --- Pairs of a learner's own ---------------------------------------------------------------------

CATS = [(f"the {n} cats", f"les {n} chats") for n in range(200)]


def pairs_file(path, pairs, end="\n"):
    path.write_bytes("".join(f"{source}\t{target}{end}" for source, target in pairs).encode())
    return str(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n\n"])
def test_pairs_of_one_s_own(end, tmp_path):
    """Every pair is in one part, a twentieth to validate on and as much to test on, in any order."""
    again = [("the 7 cats", "les sept chats"), ("the 11 cats", "les onze chats")]
    data = pairs_file(tmp_path / "mine.tsv", CATS + again, end)
    splits = corpora.parallel(data, "en", "fr", None, QUIET)
    assert sorted(pair for part in splits.values() for pair in part) == sorted(CATS + again)
    sources = {part: {source for source, _ in pairs} for part, pairs in splits.items()}
    assert [len(sources[part]) for part in ("train", "validation", "test")] == [180, 10, 10]
    assert len(set.union(*sources.values())) == 200  # the same source is never in two parts
    turned = pairs_file(tmp_path / "turned.tsv", (CATS + again)[::-1], end)
    other = corpora.parallel(turned, "en", "fr", None, QUIET)
    assert {part: sorted(some) for part, some in other.items()} == {
        part: sorted(some) for part, some in splits.items()
    }


def test_no_more_is_held_out_than_tells_something(monkeypatch, tmp_path):
    monkeypatch.setattr(corpora, "MAX_HELD_OUT", 4)
    splits = corpora.own_pairs(pairs_file(tmp_path / "mine.tsv", CATS))
    assert [len(splits[part]) for part in ("train", "validation", "test")] == [192, 4, 4]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("a\tb\nhello\nc\td\n", r"and line 2 is 'hello'\."),
        ("a\tb\n\tbonjour\n", r"line 2 is '\\tbonjour'"),
        ("a\t\nb\t \n", r"line 1 is 'a\\t', line 2 is 'b\\t '"),
        ("Go.\tVa !\tCC-BY 2.0\n", r"line 1 is 'Go\.\\tVa !\\tCC-BY 2\.0'.*`cut -f 1,2`"),
        ("x\n" * 9, "line 1 is 'x', line 2 is 'x', line 3 is 'x', and 6 more"),
        ("y" * 99, f"line 1 is '{'y' * 60}…'"),
        ("a\tb\n" * 99, "must have at least 40 different source sentences, got 1"),
        ("\n \n", "must have at least 40 different source sentences, got 0"),
        ("", "is empty"),
        (b"a\tb\n\xff\n", r"is not UTF-8: byte 4 \(line 2\) is 0xff"),
    ],
)
def test_what_is_no_file_of_pairs_is_refused(body, words, tmp_path):
    """By the line and what is in it."""
    path = tmp_path / "mine.tsv"
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    with pytest.raises(Refused, match=words):
        corpora.own_pairs(str(path))


def test_a_folder_is_no_file_of_pairs(tmp_path):
    with pytest.raises(Refused, match="cannot be read: Is a directory"):
        corpora.own_pairs(str(tmp_path))


def test_few_pairs_are_told_beside_what_others_have(tmp_path):
    data = pairs_file(tmp_path / "mine.tsv", CATS)
    own = small("translation", data=data)
    assert tasks.load(own, QUIET).sizes() == (
        "180 training pairs, 10 for validation, 10 for testing. For comparison: Multi30k has 29,000 "
        "training pairs"
    )
    toy = tasks.load(small("translation", pairs=900), QUIET).sizes()
    assert toy == "900 training pairs, 500 for validation, 1,000 for testing"


# --- Conversations --------------------------------------------------------------------------------


def talk(*contents, **changes):
    roles = ("user", "assistant") * len(contents)
    messages = [
        {"role": role, "content": content} for role, content in zip(roles, contents, strict=False)
    ]
    return json.dumps({"messages": messages} | changes)


def chat(tmp_path, lines, context=24, words=None):
    (tmp_path / "talks.jsonl").write_text("\ufeff" + "\r\n".join(lines) + "\n\n", encoding="utf-8")
    settings = small("chat", data=str(tmp_path / "talks.jsonl"), context=context, batch=2)
    return Chat(settings, Languages(None, words or BytePairs.learned_from([], 259), None))


def test_in_an_epoch_every_conversation_is_learned_once(tmp_path):
    """Packed, in another order in each epoch. Those that are held out have a row each."""
    lines = [talk(f"{n}?", f"{n}!") for n in range(40)]
    task, turned = chat(tmp_path, lines, 64), chat(tmp_path, lines[::-1], 64)

    def answers(rows):
        return [
            task.languages.target.decode(labels[labels >= 0].tolist()) for labels in rows.labels
        ]

    first, second = (
        [answers(task.batch(index + epoch * task.per_epoch)) for index in range(task.per_epoch)]
        for epoch in (0, 1)
    )
    texts = "".join(itertools.chain(*first))
    held_out = "".join(itertools.chain(*map(answers, task.held_out("validation"))))
    assert sorted((texts + held_out).split("!")) == sorted(
        "".join(f"{n}!" for n in range(40)).split("!")
    )
    assert held_out.count("!") == 2 and first != second
    assert sorted("".join(itertools.chain(*second))) == sorted(texts)
    assert held_out == "".join(itertools.chain(*map(answers, turned.held_out("validation"))))
    assert task.sizes() == "38 training conversations in 19 rows, 2 for validation"


def test_what_exceeds_the_context_is_cut_off_and_counted(tmp_path):
    """An answer is learned as far as it is read; a conversation whose answer is not read is left out."""
    task = chat(tmp_path, [talk("?", "a" * 90), talk("?", "b" * 90), talk("?" * 30, "unread")], 26)
    assert "3 in the file are longer than context = 26 tokens" in task.sizes()
    rows = [*task.held_out("validation"), *(task.batch(n) for n in range(task.per_epoch))]
    read = [int((batch.labels >= 0).sum()) for batch in rows]
    assert read == [7, 7] and all(batch.target.size(1) == 26 for batch in rows)
    with pytest.raises(Refused, match="has an answer in its first 10 tokens: --set context=N"):
        chat(tmp_path, [talk("?", "a"), talk("?", "b")], 10)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"line 2: this is not JSON \(.*, column 3\)"),
        ("[1]", 'line 2: there is no "messages"'),
        ('{"messages": "hi"}', "line 2: \"messages\" must be a list of objects, got 'hi'"),
        (talk("a"), "line 2: there is no message of the assistant"),
        (talk("a", "b").replace("user", "human"), "message 1 must be system, user, assistant, got 'hu"),
        (talk("a", 5), "line 2: the content of message 2 must be a text, got 5"),
        (talk("a", "\ud800"), "line 2: .*surrogates not allowed"),
        ("[" * 99999, "line 2: .*recursion"),
        ("\n\n".join("x" * 9), "line 2: .* line 4: .* line 6: .*, and 6 more"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_conversation_is_refused(line, words, tmp_path):
    with pytest.raises(Refused, match=words):
        chat(tmp_path, [talk("a", "b"), line, talk("c", "d")])


def test_conversations_need_tokens_around_messages_and_two_that_differ(tmp_path):
    with pytest.raises(Refused, match="must have tokens around messages"):
        chat(tmp_path, [talk("a", "b"), talk("c", "d")], words=characters("abcd"))
    with pytest.raises(Refused, match="at least 2 different conversations, got 1"):
        chat(tmp_path, [talk("a", "b"), talk("a", "b")])


def test_text_in_the_middle_of_a_window_is_what_it_was(poem):
    text = Text(small("text", data=str(poem), context=16), POETRY)
    row = text.batch(0).target[0]
    assert POETRY.count(text.languages.target.decode(row.tolist())) >= 1
