"""What can be learnt: each task with its vocabularies, its batches, and what is held out.

copy         say again ten symbols
sorting      put ten symbols into order
arithmetic   add two numbers of up to three digits, digit by digit
shakespeare  the next character of Shakespeare's plays
text         the next token of any text
translation  sentences of one language in another
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import torch
from rich.console import Console
from torch import Tensor

from implementation import token_batches
from training.data.batches import Rows, draws, in_batches, padded
from training.data.corpora import LANGUAGES, TINY_SHAKESPEARE, parallel, read_text
from training.data.downloads import find
from training.data.vocabulary import (
    END,
    PAD,
    SPECIAL,
    START,
    BytePairs,
    Languages,
    Symbols,
    Vocabulary,
    characters,
)
from training.errors import Refused
from training.settings import Settings

HELD_OUT = {"validation": 500, "test": 1000}  # sequences of the tasks that are drawn


MULTI30K_PAIRS = 29_000  # to learn from


class Task(Protocol):
    """What a run learns from."""

    @property
    def languages(self) -> Languages:
        """Its vocabularies."""

    @property
    def splits(self) -> tuple[str, ...]:
        """What is held out: `validation`, and `test` where there is one."""

    @property
    def per_epoch(self) -> int | None:
        """Batches that go once through what there is; None where there is no end of it."""

    @property
    def fingerprint(self) -> str:
        """What has been read, as a digest: a run must not go on with something else."""

    @property
    def held_out_bytes(self) -> int | None:
        """The UTF-8 bytes of the text that is held out; None where it is no text."""

    def batch(self, number: int) -> Rows:
        """The batch of this number, counted from 0: the same whenever it is asked for."""

    def held_out(self, split: str) -> list[Rows]:
        """Everything of a split, in batches."""

    def texts(self, split: str) -> list[tuple[str, str]]:
        """The same as texts: sources, and what is wanted. A language model has none."""


def load(
    settings: Settings,
    console: Console,
    languages: Languages | None = None,
) -> Task:
    """The task that the settings ask for, with its data.

    Args:
        settings: which task, how much of it, and where its data lie.
        console: where fetching is shown.
        languages: the vocabularies, where a run has made them already.

    Raises:
        Refused: data that cannot be had, or that nothing can be learnt from.
    """
    match settings.task:
        case "copy":
            return Copy(settings)
        case "sorting":
            return Sorting(settings)
        case "arithmetic":
            return Arithmetic(settings)
        case "shakespeare":
            return Text(
                settings, read_text(find(TINY_SHAKESPEARE, _data_dir(settings), console)), languages
            )
        case "text":
            if not settings.data:
                raise Refused("The task `text` learns from a file of yours: --data FILE")
            return Text(settings, read_text(Path(settings.data)), languages)
        case _:
            languages_asked = settings.data, settings.source, settings.target
            pairs = parallel(*languages_asked, _data_dir(settings), console)
            return Translation(settings, pairs, languages)


def _data_dir(settings: Settings) -> Path | None:
    """The folder in which the files of others lie, if one was named.

    Raises:
        Refused: it is gone.
    """
    folder = Path(settings.data_dir) if settings.data_dir else None
    if folder is not None and not folder.is_dir():
        raise Refused(
            f"The data were in the folder {folder}, which is gone: --data-dir DIR says where they "
            "are now, or may be fetched to"
        )
    return folder


# --- Tasks that are drawn -------------------------------------------------------------------------


class GeneratedPairs:
    """Pairs of sequences without end. What is held out is never learnt from.

    A subclass says what its questions are, and the answer to each.
    """

    symbols: tuple[str, ...]
    separator = " "
    end: int | None = None
    splits = ("validation", "test")
    per_epoch = None
    fingerprint = ""
    held_out_bytes = None

    def __init__(self, settings: Settings):
        vocabulary = Symbols(self.symbols, self.separator)
        self.languages = Languages(vocabulary, vocabulary, self.end)
        self._settings = settings
        total = sum(HELD_OUT.values())
        drawn = self._draw(4 * total, draws("held out", settings.task))
        questions: Tensor = torch.unique(drawn, dim=0)
        order = torch.randperm(len(questions), generator=draws("order", settings.task))
        self._held_out = questions[order[:total]]

    def batch(self, number: int) -> Rows:
        """Fresh questions, with their answers."""
        source = draws(self._settings.seed, "batch", number)
        wanted = self._settings.batch
        kept = self._allowed(self._draw(wanted, source))
        while len(kept) < wanted:
            kept = torch.cat([kept, self._allowed(self._draw(wanted, source))])
        return self._rows(kept[:wanted])

    def held_out(self, split: str) -> list[Rows]:
        """Questions that no batch holds."""
        return in_batches(self._rows(self._questions(split)), 250)

    def texts(self, split: str) -> list[tuple[str, str]]:
        """Questions and answers as they are written."""
        rows, words = self._rows(self._questions(split)), self.languages.target
        assert rows.source is not None
        return [
            (words.decode(question), words.decode(answer[1:]))
            for question, answer in zip(rows.source.tolist(), rows.target.tolist(), strict=True)
        ]

    def _questions(self, split: str) -> Tensor:
        first = HELD_OUT["validation"]
        return self._held_out[:first] if split == "validation" else self._held_out[first:]

    def _allowed(self, questions: Tensor) -> Tensor:
        return questions[~torch.isin(_codes(questions), _codes(self._held_out))]

    def _draw(self, count: int, source: torch.Generator) -> Tensor:
        """Questions as rows of small numbers, `(count, …)`."""
        raise NotImplementedError

    def _rows(self, questions: Tensor) -> Rows:
        """The questions as they are asked, and their answers."""
        raise NotImplementedError


def _codes(questions: Tensor) -> Tensor:
    """One number for each row of numbers below 1000, of which at most two are above 10."""
    base = 1000 if questions.size(1) == 2 else 11
    powers = torch.tensor([base**place for place in range(questions.size(1))])
    codes: Tensor = (questions * powers).sum(dim=1)
    return codes


class Copy(GeneratedPairs):
    """Ten symbols, to be said again. 0 is padding, and 1, a symbol like others, starts every answer."""

    symbols = ("<pad>", *map(str, range(1, 11)))
    length = 10

    def _draw(self, count: int, source: torch.Generator) -> Tensor:
        return torch.randint(1, len(self.symbols), (count, self.length), generator=source)

    def _rows(self, questions: Tensor) -> Rows:
        start = torch.full((len(questions), 1), START)
        return Rows(questions, torch.cat([start, self._answer(questions)], dim=1))

    def _answer(self, questions: Tensor) -> Tensor:
        return questions


class Sorting(Copy):
    """Ten symbols out of nine, to be put into order: it has to count."""

    symbols = ("<pad>", *map(str, range(1, 10)))

    def _answer(self, questions: Tensor) -> Tensor:
        return questions.sort(dim=1).values


class Arithmetic(GeneratedPairs):
    """Two numbers below 1000, `123+45=`, and their sum, the digit that counts most first."""

    symbols = (*SPECIAL, *"0123456789", "+", "=")
    separator = ""
    end = END

    def _draw(self, count: int, source: torch.Generator) -> Tensor:
        return torch.randint(0, 1000, (count, 2), generator=source)

    def _rows(self, questions: Tensor) -> Rows:
        words = self.languages.target
        sources = [words.encode(f"{a}+{b}=") for a, b in questions.tolist()]
        targets = [[START, *words.encode(str(a + b)), END] for a, b in questions.tolist()]
        return Rows(padded(sources), padded(targets))


# --- Text -----------------------------------------------------------------------------------------


class Text:
    """One long text, whose last tenth is held out. Batches are windows from anywhere in the rest."""

    splits = ("validation",)

    def __init__(self, settings: Settings, text: str, languages: Languages | None = None):
        cut = int(0.9 * len(text))
        learnt, held_out = text[:cut], text[cut:]
        if languages is None:
            if settings.vocabulary:
                lines = learnt.splitlines(keepends=True)
                vocabulary: Vocabulary = BytePairs.learnt_from(lines, settings.vocabulary)
            else:
                # Of the whole: a character of the held-out part alone would have no number.
                vocabulary = characters(text)
            languages = Languages(None, vocabulary, None)
        self.languages = languages
        self._train = torch.tensor(languages.target.encode(learnt))
        self._validation = torch.tensor(languages.target.encode(held_out))
        if len(self._validation) < 2 or len(self._train) <= settings.context:
            raise Refused(
                f"The text is too short: {len(self._train)} tokens to learn from and "
                f"{len(self._validation)} held out. It takes {settings.context + 1} and 2"
            )
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.held_out_bytes = len(held_out.encode())
        self.per_epoch = max(1, len(self._train) // (settings.batch * settings.context))
        self._settings = settings

    @property
    def learnt(self) -> Tensor:
        """The tokens of the training split."""
        return self._train

    def batch(self, number: int) -> Rows:
        """Windows of context + 1 tokens, each from a place of its own."""
        size, length = self._settings.batch, self._settings.context + 1
        places = torch.randint(
            len(self._train) - length + 1,
            (size, 1),
            generator=draws(self._settings.seed, "batch", number),
        )
        return Rows(None, self._train[places + torch.arange(length)])

    def held_out(self, split: str) -> list[Rows]:
        """The held-out part in windows that do not overlap: each token is predicted once, but the first."""
        context, tokens = self._settings.context, self._validation
        found, full = [], (len(tokens) - 1) // context
        if full:
            windows = Rows(None, tokens.unfold(0, context + 1, context))
            found = in_batches(windows, max(1, 16_384 // context))
        rest = tokens[full * context :]
        return found + ([Rows(None, rest.unsqueeze(0))] if len(rest) > 1 else [])

    def texts(self, split: str) -> list[tuple[str, str]]:
        """None: nothing is asked of a language model."""
        return []


# --- Translation ----------------------------------------------------------------------------------


class Sentences:
    """Sentences of ids in one long tensor, so that millions of them fit into memory.

    `spans` says where each lies: a `range` has a length, which is all that batching asks for.
    """

    def __init__(self, sentences: list[list[int]]):
        self._ids = torch.tensor([number for one in sentences for number in one], dtype=torch.int32)
        self.spans: list[range] = []
        position = 0
        for one in sentences:
            self.spans.append(range(position, position + len(one)))
            position += len(one)

    def rows(self, spans: list[range]) -> Tensor:
        """Sentences side by side."""
        rows = torch.full((len(spans), max(map(len, spans))), PAD)
        for row, span in zip(rows, spans, strict=True):
            row[: len(span)] = self._ids[span.start : span.stop]
        return rows


class Parallel:
    """Sentence pairs as ids, in batches of about equally many tokens."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]], budget: int):
        self._sources = Sentences(sources)
        self._targets = Sentences([[START, *target, END] for target in targets])
        self._pairs = list(zip(self._sources.spans, self._targets.spans, strict=True))
        self._budget = budget

    def batches(self, source: torch.Generator | None = None) -> list[list[tuple[range, range]]]:
        """Where the pairs of each batch lie; the batches in any order, if there is something to draw from."""
        if source is None:
            return list(token_batches(self._pairs, self._budget))  # type: ignore[arg-type]
        # Pairs of equal lengths in another order each time make other batches, of the same sizes.
        pairs = [
            self._pairs[i] for i in torch.randperm(len(self._pairs), generator=source).tolist()
        ]
        found = list(token_batches(pairs, self._budget))
        return [found[i] for i in torch.randperm(len(found), generator=source).tolist()]

    def rows(self, batch: list[tuple[range, range]]) -> Rows:
        """A batch as tensors."""
        sources, targets = zip(*batch, strict=True)
        return Rows(self._sources.rows(list(sources)), self._targets.rows(list(targets)))


class Translation:
    """Sentence pairs, in subwords that were learnt from the training split alone."""

    splits = ("validation", "test")
    held_out_bytes = None

    def __init__(
        self,
        settings: Settings,
        pairs: dict[str, list[tuple[str, str]]],
        languages: Languages | None = None,
    ):
        if settings.lowercase:
            pairs = {
                split: [(source.lower(), target.lower()) for source, target in some]
                for split, some in pairs.items()
            }
        self._texts = {split: pairs[split] for split in self.splits}
        self._settings = settings
        self.fingerprint = _digest(pairs)
        train = pairs["train"][: settings.pairs or None]
        self._learnt = len(train)
        self.languages = languages or _learnt_from(train, settings)
        self._train = self._parallel(train, settings.longest)
        self._epoch = (-1, self._train.batches())
        self.per_epoch = len(self._epoch[1])

    def batch(self, number: int) -> Rows:
        """A batch of its epoch: in each epoch every pair occurs once."""
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch[0]:
            self._epoch = epoch, self._train.batches(draws(self._settings.seed, "epoch", epoch))
        return self._train.rows(self._epoch[1][place])

    def held_out(self, split: str) -> list[Rows]:
        """Every pair of the split, however long."""
        some = self._parallel(self._texts[split], None)
        return [some.rows(batch) for batch in some.batches()]

    def texts(self, split: str) -> list[tuple[str, str]]:
        """The pairs of a split, as they are written."""
        return self._texts[split]

    def sizes(self) -> str:
        """How many pairs there are, in words, with something to compare a small number to."""
        validation, test = (len(self._texts[split]) for split in self.splits)
        words = f"{self._learnt:,} pairs to learn from, {validation:,} to validate on, {test:,} to test on"
        if self._settings.data in LANGUAGES or self._learnt >= MULTI30K_PAIRS:
            return words
        return f"{words}. For comparison: Multi30k has {MULTI30K_PAIRS:,} pairs to learn from"

    def _parallel(self, pairs: list[tuple[str, str]], longest: int | None) -> Parallel:
        sources, targets = (
            words.encode_all([pair[side] for pair in pairs])
            for side, words in enumerate((self.languages.source, self.languages.target))
            if words is not None
        )
        if longest is not None:
            short = [
                (source, target)
                for source, target in zip(sources, targets, strict=True)
                if 0 < len(source) <= longest and 0 < len(target) <= longest
            ]
            if not short:
                raise Refused(f"No sentence pair is short enough: longest is {longest} tokens")
            sources, targets = map(list, zip(*short, strict=True))
        return Parallel(sources, targets, self._settings.batch_tokens)


def _digest(pairs: dict[str, list[tuple[str, str]]]) -> str:
    """Of every sentence of every split, in order."""
    digest = hashlib.sha256()
    for split, some in pairs.items():
        digest.update(f"{split} {len(some)}\n".encode())
        for source, target in some:
            digest.update(f"{source}\n{target}\n".encode())
    return digest.hexdigest()


def _learnt_from(pairs: list[tuple[str, str]], settings: Settings) -> Languages:
    """Subwords of both languages together, or of each for itself."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    if settings.joint:
        both = BytePairs.learnt_from(sides[0] + sides[1], settings.vocabulary)
        return Languages(both, both, END)
    source, target = (BytePairs.learnt_from(side, settings.vocabulary) for side in sides)
    return Languages(source, target, END)
