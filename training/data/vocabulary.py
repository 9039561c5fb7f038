"""From text to ids and back: symbols, characters, byte-pair encoding; kept in `vocabulary.json`.

Ids 0, 1 and 2 are padding, start and end wherever sequences have ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from training.errors import Refused

PAD, START, END = 0, 1, 2
SPECIAL = ("<pad>", "<start>", "<end>")


class Vocabulary(Protocol):
    """Text to ids and back. Start and end are for others to add."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text.

        Raises:
            Refused: something in it that the vocabulary has not.
        """

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; padding, start and end say nothing."""

    def names(self, ids: Iterable[int]) -> list[str]:
        """What to write on a picture's axis for each id."""

    def as_json(self) -> dict[str, Any]:
        """What `from_json` makes it from again."""


class Symbols:
    """Symbols of their own, written in text with a separator between them, or none.

    Args:
        symbols: the symbol of each id; the first may be `SPECIAL`.
        separator: what stands between two: a space, or nothing where each is one character.
    """

    def __init__(self, symbols: Sequence[str], separator: str = ""):
        self.symbols = list(symbols)
        self.separator = separator
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """The ids of a text.

        Raises:
            Refused: a symbol that there is not.
        """
        try:
            return [self._ids[symbol] for symbol in (text.split() if self.separator else text)]
        except KeyError as error:
            some = " ".join(map(repr, self._writable()[:80]))
            raise Refused(f"The model has never seen {error.args[0]!r}. It knows {some}") from error

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; padding, start and end say nothing."""
        return self.separator.join(
            self.symbols[number] for number in ids if self.symbols[number] not in SPECIAL
        )

    def names(self, ids: Iterable[int]) -> list[str]:
        """The symbols, with what cannot be seen made visible."""
        return [self.symbols[number].replace("\n", "↵").replace(" ", "␣") for number in ids]

    def _writable(self) -> list[str]:
        return [symbol for symbol in self.symbols if symbol not in SPECIAL]

    def as_json(self) -> dict[str, Any]:
        return {"kind": "symbols", "symbols": self.symbols, "separator": self.separator}


class BytePairs:
    """Byte-level byte-pair encoding by Hugging Face's `tokenizers`: lossless on any text.

    Its ids 0, 1 and 2 are padding, start and end.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer):
        self._tokenizer = tokenizer

    @classmethod
    def learnt_from(cls, lines: Iterable[str], size: int) -> BytePairs:
        """The vocabulary of `size` tokens, the 256 bytes and three special ones included.

        Raises:
            Refused: a size without room for those.
        """
        smallest = 256 + len(SPECIAL)
        if size < smallest:
            raise Refused(
                f"vocabulary must be at least {smallest} (256 bytes and {', '.join(SPECIAL)}), "
                f"not {size}"
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
        """The ids of a text, which may hold anything; a written `<end>` is letters like others."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        self._tokenizer.encode_special_tokens = True  # "<pad>" in a text is five characters
        return [found.ids for found in self._tokenizer.encode_batch(list(texts))]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; padding, start and end say nothing, broken UTF-8 becomes U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def names(self, ids: Iterable[int]) -> list[str]:
        """Each token's own text, with a space made visible."""
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

    Special tokens that are written in a text are read as such, so that a text may hold the turns of a chat;
    and what the tokenizer puts before a text, such as the token that begins one, is put there.

    Args:
        tokenizer: which may know more tokens than the model.
        size: the number of tokens that the model has embeddings of.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, size: int):
        self.tokenizer = tokenizer
        self._size = size

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> list[int]:
        """The ids of a text.

        Raises:
            Refused: a text that the tokenizer cannot encode, or a token without an embedding.
        """
        try:
            ids: list[int] = self.tokenizer.encode(text).ids
        except Exception as error:  # it raises nothing narrower
            raise Refused(f"The tokenizer cannot encode the text: {error}") from error
        for number in set(ids):
            if number >= self._size:
                raise Refused(
                    f"The tokenizer does not fit the model, which has no embedding of the token "
                    f"{self.tokenizer.id_to_token(number)!r} (id {number}): the model has {self._size}"
                )
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without special ones."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def names(self, ids: Iterable[int]) -> list[str]:
        """Each token's own text, with a space made visible."""
        texts = (self.tokenizer.decode([number], skip_special_tokens=False) for number in ids)
        return [text.replace(" ", "␣").replace("\n", "↵") for text in texts]

    def as_json(self) -> dict[str, Any]:
        tokenizer = json.loads(self.tokenizer.to_str())
        return {"kind": "published", "tokenizer": tokenizer, "size": self._size}


@dataclass(frozen=True)
class Languages:
    """How text becomes ids on both sides. A language model has one side alone."""

    source: Vocabulary | None
    target: Vocabulary
    end: int | None
    """The token that ends a target; None where its length is that of its source."""

    def as_json(self) -> dict[str, Any]:
        """What `languages_from_json` makes them from again."""
        source: Any = self.source and self.source.as_json()
        if self.source is self.target:
            source = "target"
        return {"source": source, "target": self.target.as_json(), "end": self.end}


def languages_from_json(found: dict[str, Any]) -> Languages:
    """The vocabularies that `as_json` described.

    Raises:
        KeyError, TypeError, ValueError, or tokenizers' Exception: it describes none.
    """
    target = from_json(found["target"])
    if found["source"] is None:
        source = None
    else:
        source = target if found["source"] == "target" else from_json(found["source"])
    return Languages(source, target, found["end"])


def characters(text: str) -> Symbols:
    """The characters that occur, in the order of their numbers."""
    return Symbols(sorted(set(text)))


def from_json(found: dict[str, Any]) -> Vocabulary:
    """The vocabulary that `as_json` described.

    Raises:
        KeyError, TypeError, ValueError: it describes none.
    """
    if found["kind"] == "symbols":
        return Symbols(found["symbols"], found["separator"])
    if found["kind"] == "byte pairs":
        return BytePairs(tokenizers.Tokenizer.from_str(json.dumps(found["tokenizer"])))
    if found["kind"] == "published":
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(found["tokenizer"]))
        return Published(tokenizer, found["size"])
    raise ValueError(f"no vocabulary is called {found['kind']!r}")
