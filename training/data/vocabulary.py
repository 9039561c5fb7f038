"""Vocabularies: symbols, characters, byte-pair encoding; stored in `vocabulary.json`.

Ids 0, 1 and 2 are padding, start and end for tasks whose sequences have ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from training.errors import Refused

PAD, START, END = 0, 1, 2
SPECIAL = ("<pad>", "<start>", "<end>")
CHAT_MARKS = ("<|im_start|>", "<|im_end|>")  # of a published model, around each message


class Vocabulary(Protocol):
    """Maps text to ids and back. Callers add start and end."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Encode a text.

        Raises:
            Refused: the text has a symbol that is not in the vocabulary.
        """

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts."""

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids, without padding, start and end."""

    def names(self, ids: Iterable[int]) -> list[str]:
        """Return a label for each id, for a picture's axis."""

    def as_json(self) -> dict[str, Any]:
        """Return the vocabulary as JSON."""


class Symbols:
    """A vocabulary of symbols, separated in text by a separator or by nothing.

    Args:
        symbols: the symbol of each id; the first may be `SPECIAL`.
        separator: between two symbols: a space, or nothing if each is one character.
    """

    def __init__(self, symbols: Sequence[str], separator: str = ""):
        self.symbols = list(symbols)
        self.separator = separator
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """Encode a text.

        Raises:
            Refused: unknown symbol.
        """
        try:
            return [self._ids[symbol] for symbol in (text.split() if self.separator else text)]
        except KeyError as error:
            some = " ".join(map(repr, self._writable()[:80]))
            raise Refused(
                f"{error.args[0]!r} is not in the model's vocabulary, which has {some}"
            ) from error

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids, without padding, start and end."""
        return self.separator.join(
            self.symbols[number] for number in ids if self.symbols[number] not in SPECIAL
        )

    def names(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols, with whitespace made visible."""
        return [self.symbols[number].replace("\n", "↵").replace(" ", "␣") for number in ids]

    def _writable(self) -> list[str]:
        return [symbol for symbol in self.symbols if symbol not in SPECIAL]

    def as_json(self) -> dict[str, Any]:
        return {"kind": "symbols", "symbols": self.symbols, "separator": self.separator}


class BytePairs:
    """Byte-level byte-pair encoding by Hugging Face's `tokenizers`: lossless on any text.

    Ids 0, 1 and 2 are padding, start and end.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer):
        self._tokenizer = tokenizer

    @classmethod
    def learned_from(cls, lines: Iterable[str], size: int) -> BytePairs:
        """Learn a vocabulary of `size` tokens, including the 256 bytes and three special tokens.

        Raises:
            Refused: `size` is too small for those.
        """
        smallest = 256 + len(SPECIAL)
        if size < smallest:
            raise Refused(
                f"vocabulary must be at least {smallest} (256 bytes and {', '.join(SPECIAL)}), "
                f"got {size}"
            )
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines, trainer)
        return cls(tokenizer)

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Encode any text; `<end>` in it is plain text."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, on all cores."""
        self._tokenizer.encode_special_tokens = True  # "<pad>" in a text is plain text
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids, without padding, start and end; invalid UTF-8 becomes U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def names(self, ids: Iterable[int]) -> list[str]:
        """Return each token's text, with spaces made visible."""
        return [
            SPECIAL[number]
            if number < len(SPECIAL)
            else self._tokenizer.decode([number]).replace(" ", "␣").replace("\n", "↵")
            for number in ids
        ]

    def as_json(self) -> dict[str, Any]:
        return {"kind": "byte pairs", "tokenizer": json.loads(self._tokenizer.to_str())}


class Published:
    """The tokenizer of a published model.

    Special tokens in a text are encoded as such, so that a text may contain chat turns. The tokenizer may
    add tokens before the text, such as a beginning-of-text token.

    Args:
        tokenizer: may have more tokens than the model.
        size: the number of the model's embeddings.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, size: int):
        self.tokenizer = tokenizer
        self._size = size

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str, plain: bool = False) -> list[int]:
        """Encode a text. In plain text special tokens are not recognized, and none is added.

        Raises:
            Refused: the tokenizer cannot encode the text, or a token has no embedding.
        """
        self.tokenizer.encode_special_tokens = plain
        try:
            ids: list[int] = self.tokenizer.encode(text, add_special_tokens=not plain).ids
        except Exception as error:  # tokenizers raises a plain Exception
            raise Refused(f"The tokenizer cannot encode the text: {error}") from error
        finally:
            self.tokenizer.encode_special_tokens = False  # others use it, too
        for number in set(ids):
            if number >= self._size:
                raise Refused(
                    f"The tokenizer does not fit the model, which has no embedding for the token "
                    f"{self.tokenizer.id_to_token(number)!r} (id {number}): the model has {self._size}"
                )
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def names(self, ids: Iterable[int]) -> list[str]:
        """Return each token's text, with spaces made visible."""
        texts = (self.tokenizer.decode([number], skip_special_tokens=False) for number in ids)
        return [text.replace(" ", "␣").replace("\n", "↵") for text in texts]

    def as_json(self) -> dict[str, Any]:
        tokenizer = json.loads(self.tokenizer.to_str())
        return {"kind": "published", "tokenizer": tokenizer, "size": self._size}


def chat_format(words: Vocabulary) -> tuple[Callable[[str], list[int]], int, int]:
    """Return what `chat_tokens` needs: an encoding in which every text is plain text, and the tokens before
    and after a message.

    Raises:
        Refused: the vocabulary has no such tokens.
    """
    if isinstance(words, BytePairs):
        return words.encode, START, END
    if isinstance(words, Published):
        start, end = map(words.tokenizer.token_to_id, CHAT_MARKS)
        if start is not None and end is not None and max(start, end) < len(words):
            return partial(words.encode, plain=True), start, end
    raise Refused(
        f"The model's vocabulary must have tokens around messages: {' and '.join(CHAT_MARKS)} of a published "
        "model, or those of a run with a byte-pair encoding (--set vocabulary=N)"
    )


@dataclass(frozen=True)
class Languages:
    """The source and target vocabularies. A language model has no source."""

    source: Vocabulary | None
    target: Vocabulary
    end: int | None
    """The token that ends a target; None if targets are as long as their sources."""

    def as_json(self) -> dict[str, Any]:
        """Return the vocabularies as JSON."""
        source: Any = self.source and self.source.as_json()
        if self.source is self.target:
            source = "target"
        return {"source": source, "target": self.target.as_json(), "end": self.end}


def languages_from_json(entry: dict[str, Any]) -> Languages:
    """Read vocabularies from JSON.

    Raises:
        KeyError, TypeError, ValueError, or tokenizers' Exception: invalid JSON contents.
    """
    target = from_json(entry["target"])
    if entry["source"] is None:
        source = None
    else:
        source = target if entry["source"] == "target" else from_json(entry["source"])
    return Languages(source, target, entry["end"])


def characters(text: str) -> Symbols:
    """Return the characters of a text, sorted by code point."""
    return Symbols(sorted(set(text)))


def from_json(entry: dict[str, Any]) -> Vocabulary:
    """Read a vocabulary from JSON.

    Raises:
        KeyError, TypeError, ValueError: invalid JSON contents.
    """
    if entry["kind"] == "symbols":
        return Symbols(entry["symbols"], entry["separator"])
    if entry["kind"] == "byte pairs":
        return BytePairs(tokenizers.Tokenizer.from_str(json.dumps(entry["tokenizer"])))
    if entry["kind"] == "published":
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(entry["tokenizer"]))
        return Published(tokenizer, entry["size"])
    raise ValueError(f"unknown kind of vocabulary {entry['kind']!r}")
