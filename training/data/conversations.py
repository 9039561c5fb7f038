"""Conversations in a file of JSON lines; models learn the assistant's messages (day 45)."""

from __future__ import annotations

import hashlib
import json
import math
from operator import itemgetter
from pathlib import Path

import torch
from torch import Tensor

from training.data.batches import Rows, draws, padded
from training.data.corpora import HELD_OUT, MAX_HELD_OUT, first_of, read_text, short
from training.data.vocabulary import PAD, Languages, chat_format
from training.errors import Refused
from training.settings import Settings
from variants.instruction import answer_labels, chat_tokens, pack

ROLES = ("system", "user", "assistant")
OPEN_ROWS = 64  # rows that may still get a conversation

Conversation = list[dict[str, str]]
"""Messages with their `role` and `content`."""


class Chat:
    """Conversations as tokens and labels; a twentieth is held out.

    What exceeds `context` tokens is cut off. A batch packs conversations into rows of that length; in each
    epoch every conversation occurs once. A held-out row is one conversation, so that any model can read it.

    Raises:
        Refused: a line is not a conversation, or nothing remains to learn.
    """

    splits = ("validation",)
    held_out_bytes = None

    def __init__(self, settings: Settings, languages: Languages):
        self.languages, self._settings = languages, settings
        text = read_text(Path(settings.data))
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        digested = [
            (_digest(conversation), conversation)
            for conversation in conversations(text, settings.data)
        ]
        digested.sort(key=itemgetter(0))  # in an order that does not depend on the file's
        distinct = list(dict(digested))
        if len(distinct) < 2:
            raise Refused(
                f"{settings.data} must have at least 2 different conversations, got {len(distinct)}"
            )
        last = distinct[min(MAX_HELD_OUT, max(1, int(HELD_OUT * len(distinct)))) - 1]
        self._long = 0
        self._validation = self._examples(
            [conversation for digest, conversation in digested if digest <= last]
        )
        self._train = self._examples(
            [conversation for digest, conversation in digested if digest > last]
        )
        self._rows = _in_rows([len(tokens) for tokens, _ in self._train], settings.context)
        self.per_epoch = math.ceil(len(self._rows) / settings.batch)

    def _examples(self, examples_in: list[Conversation]) -> list[tuple[Tensor, Tensor]]:
        """Return tokens and labels of the conversations that have something to learn within the context."""
        form, context, examples = chat_format(self.languages.target), self._settings.context, []
        for conversation in examples_in:
            tokens, is_answer = chat_tokens(conversation, *form)
            labels = answer_labels(tokens, is_answer)[:context]
            self._long += len(tokens) > context
            if (labels != -100).any():
                examples.append((tokens[:context], labels))
        if not examples:
            raise Refused(
                f"No training conversation, or no held-out one, has an answer in its first {context} tokens: "
                "--set context=N reads more"
            )
        return examples

    def sizes(self) -> str:
        """Describe the number of conversations, and how many are cut off."""
        train, held_out = len(self._train), len(self._validation)
        words = f"{train:,} training conversations in {len(self._rows):,} rows, {held_out:,} for validation"
        if not self._long:
            return words
        return (
            f"{words}. {self._long:,} in the file are longer than context = {self._settings.context} tokens: "
            "what exceeds it is cut off"
        )

    def batch(self, number: int) -> Rows:
        """Return packed rows; in each epoch every conversation occurs once."""
        settings, (epoch, position) = self._settings, divmod(number, self.per_epoch)
        order = torch.randperm(len(self._rows), generator=draws(settings.seed, "epoch", epoch))
        rows = order[position * settings.batch : (position + 1) * settings.batch].tolist()
        examples = [self._train[index] for row in rows for index in self._rows[row]]
        return Rows(None, *pack(examples, settings.context, PAD))

    def held_out(self, split: str) -> list[Rows]:
        """Return the held-out conversations, sorted so that neighbors have similar lengths."""
        size = max(1, 16_384 // self._settings.context)
        order = sorted(self._validation, key=lambda example: len(example[0]))
        batches = []
        for first in range(0, len(order), size):
            tokens, labels = zip(*order[first : first + size], strict=True)
            batches.append(Rows(None, padded(tokens), padded(labels, -100)))
        return batches

    def texts(self, split: str) -> list[tuple[str, str]]:
        """Return nothing: a language model has no questions and answers."""
        return []


def _in_rows(lengths: list[int], context: int) -> list[list[int]]:
    """Return the conversations of each row, by the rule of `pack`: the first row that has room.

    It packs the conversations of some rows into at most as many: those of a row fit into one together.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for number, length in enumerate(lengths):
        begin = max(0, len(rows) - OPEN_ROWS)
        row = next((row for row in range(begin, len(rows)) if room[row] >= length), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(context)
        rows[row].append(number)
        room[row] -= length
    return rows


def _digest(conversation: Conversation) -> str:
    """Return a digest of a conversation: which ones are held out depends on nothing else."""
    return hashlib.sha256(json.dumps(conversation).encode()).hexdigest()


# --- The file -------------------------------------------------------------------------------------


def conversations(text: str, name: str) -> list[Conversation]:
    """Return the conversation of each line that is not blank.

    Args:
        text: the content of the file.
        name: the name of the file, for messages.

    Raises:
        Refused: lines that are not conversations, or in which the assistant says nothing.
    """
    result: list[Conversation] = []
    wrong: list[str] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        try:
            if line.strip():
                result.append(_conversation(line))
        except (ValueError, RecursionError) as error:
            wrong.append(f"line {number}: {error}")
    if wrong:
        raise Refused(
            f'{name} must have a conversation in each line, such as {{"messages": [{{"role": "user", '
            f'"content": "…"}}, {{"role": "assistant", "content": "…"}}]}}. {first_of(wrong, "; ")}'
        )
    return result


def _conversation(line: str) -> Conversation:
    """Return the messages of a line.

    Raises:
        ValueError, RecursionError: the line is not a conversation.
    """
    try:
        messages = json.loads(line)["messages"]
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON ({error.msg}, column {error.colno})") from error
    except (TypeError, KeyError) as error:
        raise ValueError('there is no "messages"') from error
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError(f'"messages" must be a list of objects, got {short(repr(messages))}')
    cleaned = [{key: message.get(key) for key in ("role", "content")} for message in messages]
    for number, message in enumerate(cleaned, 1):
        if message["role"] not in ROLES:
            role = short(repr(message["role"]))
            raise ValueError(f"the role of message {number} must be {', '.join(ROLES)}, got {role}")
        if not isinstance(message["content"], str):
            content = short(repr(message["content"]))
            raise ValueError(f"the content of message {number} must be a text, got {content}")
        message["content"].encode()  # half a surrogate pair is a ValueError
    if all(message["role"] != "assistant" for message in cleaned):
        raise ValueError("there is no message of the assistant")
    return cleaned
