"""The tasks, each with its vocabularies, batches and held-out splits.

copy         copy ten symbols
sorting      sort ten symbols
arithmetic   add two numbers of up to three digits, digit by digit
shakespeare  the next character of Shakespeare's plays
text         the next token of any text
chat         the assistant's messages in conversations
translation  translate sentences
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
from training.data.conversations import Chat
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

HELD_OUT = {"validation": 500, "test": 1000}  # held-out sequences of the generated tasks


MULTI30K_PAIRS = 29_000  # training pairs


class Task(Protocol):
    """What a run trains on."""

    @property
    def languages(self) -> Languages:
        """The vocabularies."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The held-out splits: `validation`, and `test` if there is one."""

    @property
    def per_epoch(self) -> int | None:
        """The number of batches in an epoch; None for generated data."""

    @property
    def fingerprint(self) -> str:
        """A digest of the data: a run must not resume with different data."""

    @property
    def held_out_bytes(self) -> int | None:
        """The number of UTF-8 bytes of the held-out text; None for other tasks."""

    def batch(self, number: int) -> Rows:
        """Return the batch with this number, counted from 0."""

    def held_out(self, split: str) -> list[Rows]:
        """Return an entire split, in batches."""

    def texts(self, split: str) -> list[tuple[str, str]]:
        """Return a split as texts, sources and targets; None for language models."""


def load(
    settings: Settings,
    console: Console,
    languages: Languages | None = None,
) -> Task:
    """Load the task that the settings name, with its data.

    Args:
        settings: the task, its size, and its data.
        languages: the vocabularies of an existing run.

    Raises:
        Refused: the data cannot be loaded, or is too small.
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
                raise Refused("The task `text` needs a text file: --data FILE")
            return Text(settings, read_text(Path(settings.data)), languages)
        case "chat":
            if not settings.data or languages is None:
                raise Refused(
                    "The task `chat` needs a file of conversations, and a model that it trains further: "
                    "--data FILE.jsonl --from DIR|FILE|NAME|RUN"
                )
            return Chat(settings, languages)
        case _:
            languages_asked = settings.data, settings.source, settings.target
            pairs = parallel(*languages_asked, _data_dir(settings), console)
            return Translation(settings, pairs, languages)


def _data_dir(settings: Settings) -> Path | None:
    """Return the folder of downloaded corpora, if the settings name one.

    Raises:
        Refused: the folder does not exist.
    """
    folder = Path(settings.data_dir) if settings.data_dir else None
    if folder is not None and not folder.is_dir():
        raise Refused(
            f"The data folder {folder} no longer exists: pass --data-dir DIR with the folder that has the "
            "data now, or that it may be downloaded to"
        )
    return folder


# --- Generated tasks ------------------------------------------------------------------------------


class GeneratedPairs:
    """An endless supply of sequence pairs. Held-out pairs never occur in training.

    A subclass defines the questions and their answers.
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
        samples = self._draw(4 * total, draws("held out", settings.task))
        questions: Tensor = torch.unique(samples, dim=0)
        order = torch.randperm(len(questions), generator=draws("order", settings.task))
        self._held_out = questions[order[:total]]

    def batch(self, number: int) -> Rows:
        """Generate questions, with their answers."""
        source = draws(self._settings.seed, "batch", number)
        count = self._settings.batch
        rows = self._allowed(self._draw(count, source))
        while len(rows) < count:
            rows = torch.cat([rows, self._allowed(self._draw(count, source))])
        return self._rows(rows[:count])

    def held_out(self, split: str) -> list[Rows]:
        """Generate questions that occur in no batch."""
        return in_batches(self._rows(self._questions(split)), 250)

    def texts(self, split: str) -> list[tuple[str, str]]:
        """Format questions and answers as text."""
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
        """Generate questions as rows of small numbers, `(count, …)`."""
        raise NotImplementedError

    def _rows(self, questions: Tensor) -> Rows:
        """Encode questions and their answers as tokens."""
        raise NotImplementedError


def _codes(questions: Tensor) -> Tensor:
    """Encode each row of numbers below 1000, at most two of them above 10, as one number."""
    base = 1000 if questions.size(1) == 2 else 11
    powers = torch.tensor([base**power for power in range(questions.size(1))])
    codes: Tensor = (questions * powers).sum(dim=1)
    return codes


class Copy(GeneratedPairs):
    """Copy ten symbols. 0 is padding, and 1, a regular symbol, starts every answer."""

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
    """Sort ten symbols out of nine, which requires counting."""

    symbols = ("<pad>", *map(str, range(1, 10)))

    def _answer(self, questions: Tensor) -> Tensor:
        return questions.sort(dim=1).values


class Arithmetic(GeneratedPairs):
    """Add two numbers below 1000, `123+45=`, most significant digit first."""

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
    """One long text; the last tenth is held out, and batches are random windows of the rest."""

    splits = ("validation",)

    def __init__(self, settings: Settings, text: str, languages: Languages | None = None):
        cut = int(0.9 * len(text))
        learned, held_out = text[:cut], text[cut:]
        if languages is None:
            if settings.vocabulary:
                lines = learned.splitlines(keepends=True)
                vocabulary: Vocabulary = BytePairs.learned_from(lines, settings.vocabulary)
            else:
                # From the entire text, so that no held-out character is missing from the vocabulary.
                vocabulary = characters(text)
            languages = Languages(None, vocabulary, None)
        self.languages = languages
        self._train = torch.tensor(languages.target.encode(learned))
        self._validation = torch.tensor(languages.target.encode(held_out))
        if len(self._validation) < 2 or len(self._train) <= settings.context:
            raise Refused(
                f"The text is too short: it must have at least {settings.context + 1} training tokens and 2 "
                f"held-out ones, got {len(self._train)} and {len(self._validation)}"
            )
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.held_out_bytes = len(held_out.encode())
        self.per_epoch = max(1, len(self._train) // (settings.batch * settings.context))
        self._settings = settings

    @property
    def learned(self) -> Tensor:
        """The tokens of the training split."""
        return self._train

    def batch(self, number: int) -> Rows:
        """Return random windows of context + 1 tokens."""
        size, length = self._settings.batch, self._settings.context + 1
        places = torch.randint(
            len(self._train) - length + 1,
            (size, 1),
            generator=draws(self._settings.seed, "batch", number),
        )
        return Rows(None, self._train[places + torch.arange(length)])

    def held_out(self, split: str) -> list[Rows]:
        """Return the held-out text in windows that predict every token but the first once."""
        context, tokens = self._settings.context, self._validation
        windows_of, full = [], (len(tokens) - 1) // context
        if full:
            windows = Rows(None, tokens.unfold(0, context + 1, context))
            windows_of = in_batches(windows, max(1, 16_384 // context))
        rest = tokens[full * context :]
        return windows_of + ([Rows(None, rest.unsqueeze(0))] if len(rest) > 1 else [])

    def texts(self, split: str) -> list[tuple[str, str]]:
        """Return None: a language model has no questions and answers."""
        return []


# --- Translation ----------------------------------------------------------------------------------


class Sentences:
    """Sentences of ids in one long tensor, so that millions of them fit into memory.

    `spans` are their positions as `range`s, whose lengths are all that batching needs.
    """

    def __init__(self, sentences: list[list[int]]):
        self._ids = torch.tensor(
            [number for sentence in sentences for number in sentence], dtype=torch.int32
        )
        self.spans: list[range] = []
        position = 0
        for sentence_ids in sentences:
            self.spans.append(range(position, position + len(sentence_ids)))
            position += len(sentence_ids)

    def rows(self, spans: list[range]) -> Tensor:
        """Return sentences as padded rows."""
        rows = torch.full((len(spans), max(map(len, spans))), PAD)
        for row, span in zip(rows, spans, strict=True):
            row[: len(span)] = self._ids[span.start : span.stop]
        return rows


class Parallel:
    """Sentence pairs as ids, in batches of about equal numbers of tokens."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]], budget: int):
        self._sources = Sentences(sources)
        self._targets = Sentences([[START, *target, END] for target in targets])
        self._pairs = list(zip(self._sources.spans, self._targets.spans, strict=True))
        self._budget = budget

    def batches(self, source: torch.Generator | None = None) -> list[list[tuple[range, range]]]:
        """Return the pairs of each batch; in random order if a generator is given."""
        if source is None:
            return list(token_batches(self._pairs, self._budget))  # type: ignore[arg-type]
        # Shuffling pairs of equal lengths changes the batches, but not their sizes.
        pairs = [
            self._pairs[i] for i in torch.randperm(len(self._pairs), generator=source).tolist()
        ]
        batches = list(token_batches(pairs, self._budget))
        return [batches[i] for i in torch.randperm(len(batches), generator=source).tolist()]

    def rows(self, batch: list[tuple[range, range]]) -> Rows:
        """Return a batch as tensors."""
        sources, targets = zip(*batch, strict=True)
        return Rows(self._sources.rows(list(sources)), self._targets.rows(list(targets)))


class Translation:
    """Sentence pairs, in subwords learned from the training split only."""

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
        self._learned = len(train)
        self.languages = languages or _learned_from(train, settings)
        self._train = self._parallel(train, settings.longest)
        self._epoch = (-1, self._train.batches())
        self.per_epoch = len(self._epoch[1])

    def batch(self, number: int) -> Rows:
        """Return a batch; in each epoch every pair occurs once."""
        epoch, position = divmod(number, self.per_epoch)
        if epoch != self._epoch[0]:
            self._epoch = epoch, self._train.batches(draws(self._settings.seed, "epoch", epoch))
        return self._train.rows(self._epoch[1][position])

    def held_out(self, split: str) -> list[Rows]:
        """Return every pair of the split, of any length."""
        some = self._parallel(self._texts[split], None)
        return [some.rows(batch) for batch in some.batches()]

    def texts(self, split: str) -> list[tuple[str, str]]:
        """Return the pairs of a split as text."""
        return self._texts[split]

    def sizes(self) -> str:
        """Describe the number of pairs, with a comparison where it is small."""
        validation, test = (len(self._texts[split]) for split in self.splits)
        words = (
            f"{self._learned:,} training pairs, {validation:,} for validation, {test:,} for testing"
        )
        if self._settings.data in LANGUAGES or self._learned >= MULTI30K_PAIRS:
            return words
        return f"{words}. For comparison: Multi30k has {MULTI30K_PAIRS:,} training pairs"

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
    """Compute a digest of all sentences of all splits."""
    digest = hashlib.sha256()
    for split, some in pairs.items():
        digest.update(f"{split} {len(some)}\n".encode())
        for source, target in some:
            digest.update(f"{source}\n{target}\n".encode())
    return digest.hexdigest()


def _learned_from(pairs: list[tuple[str, str]], settings: Settings) -> Languages:
    """Learn subwords of both languages together, or separately."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    if settings.joint:
        both = BytePairs.learned_from(sides[0] + sides[1], settings.vocabulary)
        return Languages(both, both, END)
    source, target = (BytePairs.learned_from(side, settings.vocabulary) for side in sides)
    return Languages(source, target, END)
