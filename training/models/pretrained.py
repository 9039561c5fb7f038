"""Published language models, loaded into the course's own classes: GPT-2 and the LLaMA family.

A model is a folder as `transformers` writes it: `config.json`, `tokenizer.json`, and
`model.safetensors` or several such files with `model.safetensors.index.json`; or a LLaMA in one
GGUF file. All of this is data: nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from training.devices import pick
from training.errors import Refused, TooLong
from training.generation.chat_templates import Message, rendered
from training.generation.generate import (
    NextLogits,
    NextToken,
    Sample,
    Sampling,
    make_sampler,
    stream_text,
)
from training.models import model_config
from training.models.architectures import Model, assign_weights
from training.models.base_model import rope_of
from training.models.model_folder import (
    CONFIG,
    TOKENIZER,
    chat_template,
    end_tokens,
    read_json,
    read_tokenizer,
    read_weights,
    refuse_incomplete,
    special_tokens,
)
from variants import hugging_face
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import CachedModel
from variants.llama import LLaMA, LLaMAConfig
from variants.rope_scaling import stretch
from variants.sampling import sample

MIN_REPLY_TOKENS = 64  # tokens that a reply must have room for


@dataclass(frozen=True)
class Classes:
    """The classes with which a published model is computed."""

    gpt2: Callable[[Any], Model] = GPT
    llama: Callable[[Any], Model] = LLaMA
    cached_forward: Callable[[Model, int], NextLogits] = CachedModel
    sample: Sample = sample


@dataclass
class Pretrained:
    """A published model, and everything needed to use it."""

    model: Model
    tokenizer: tokenizers.Tokenizer
    ends: frozenset[int]
    device: torch.device
    template: str | None = None
    """The chat template, where the model has one."""
    specials: Mapping[str, str] = field(default_factory=dict)
    """`bos_token` and `eos_token`, for the template."""
    classes: Classes = field(default_factory=Classes)
    divisors: Tensor | None = None
    """Of a LLaMA's angles, where they are stretched."""
    rope: Mapping[str, Any] | None = None
    """The same by the names of `transformers`; None where it has none for them."""
    _read: list[int] = field(default_factory=list)
    _next_logits: NextLogits | None = None

    @classmethod
    def load(cls, path: Path, device: str = "auto", classes: Classes | None = None) -> Pretrained:
        """Load the model in a folder or in a GGUF file.

        Args:
            path: the folder or the file.
            device: `auto` is a GPU if there is one.
            classes: the classes that compute the model; ours if omitted.

        Raises:
            Refused: the folder does not exist, a file is missing or damaged, or we have no class
                for the model.
        """
        load = cls._from_gguf if path.is_file() else cls._from_folder
        return load(path, device, classes or Classes())

    @classmethod
    def _from_gguf(cls, path: Path, device: str, classes: Classes) -> Pretrained:
        from training.models import gguf_file  # gguf takes a fifth of a second to import

        file = gguf_file.read(path)
        with torch.device("meta"), _Uninitialized():  # the weights are assigned later
            model = classes.llama(file.config)
        assign_weights(model, file.weights)
        if file.divisors is not None:
            stretch(model, file.divisors)
        where = pick(device)
        return cls(
            model.to(where).eval(),
            file.tokenizer,
            file.ends,
            where,
            file.template,
            file.specials,
            classes,
            file.divisors,
            rope_of(file.divisors),
        )

    @classmethod
    def _from_folder(cls, folder: Path, device: str, classes: Classes) -> Pretrained:
        refuse_incomplete(folder)
        config = read_json(folder / CONFIG)
        tokenizer = read_tokenizer(folder / TOKENIZER)
        model, divisors = _model(folder, config, classes)
        where = pick(device)
        return cls(
            model.to(where).eval(),
            tokenizer,
            end_tokens(folder, config, tokenizer),
            where,
            chat_template(folder),
            special_tokens(folder),
            classes,
            divisors,
            model_config.rope_parameters(config),
        )

    def generate(self, prompt: str, tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield the continuation of a text in pieces, up to the model's end-of-text token.

        Raises:
            Refused: the prompt is empty, or has a token without an embedding.
        """
        ids = self.encode(prompt)
        if not ids:
            raise Refused("The prompt must not be empty")
        return stream_text(self._sampler(ids, sampling), self, ids, tokens, self.ends)

    def reply(self, messages: Sequence[Message], tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield the reply in a conversation in pieces.

        Args:
            messages: the conversation; the last message is the user's.
            tokens: the maximum number of tokens in the reply.

        Raises:
            TooLong: the conversation and a reply exceed the model's context.
            Refused: the model has no chat template, or it cannot be used.
        """
        if self.template is None:
            raise Refused(
                "This model has no chat template: course generate continues a text with it"
            )
        text = rendered(self.template, messages, self.specials)
        ids = self._known(self.tokenizer.encode(text, add_special_tokens=False).ids)
        room = self.model.config.context - len(ids)
        if room < min(tokens, MIN_REPLY_TOKENS):
            raise TooLong(
                f"The message has to fit into the model's context of {self.model.config.context} "
                f"tokens, and so has its reply: the conversation has {len(ids)}"
            )
        if not ids:
            raise Refused("The chat template returned an empty text")
        return stream_text(self._sampler(ids, sampling), self, ids, min(tokens, room), self.ends)

    def _sampler(self, ids: list[int], sampling: Sampling) -> NextToken:
        """Return the next-token function. A text that continues the last one reuses its cache."""
        context = self.model.config.context
        count = len(self._read)
        if self._next_logits is None or not 0 < count < len(ids) or ids[:count] != self._read:
            self._next_logits = self.classes.cached_forward(self.model, context)
        ask = self._next_logits

        def reading(tokens: Tensor) -> Tensor:
            self._read = []  # if interrupted here, some layers' caches are longer than others'
            logits = ask(tokens)
            # Beyond the context the window moves, and the cache is no longer valid.
            self._read = ids.copy() if len(ids) < context else []
            return logits

        return make_sampler(
            reading, sampling, context=context, device=self.device, sampler=self.classes.sample
        )

    def encode(self, text: str) -> list[int]:
        """Encode a text, with the tokenizer's beginning-of-text token if it has one.

        Raises:
            Refused: a token has no embedding; a tokenizer may have more tokens than its model.
        """
        try:
            return self._known(self.tokenizer.encode(text).ids)
        except Refused:
            raise
        except Exception as error:  # tokenizers raises a plain Exception
            raise Refused(f"The tokenizer cannot encode the prompt: {error}") from error

    def _known(self, ids: Sequence[int]) -> list[int]:
        room = self.model.config.vocab
        for number in ids:
            if number >= room:
                raise Refused(
                    f"The model has no embedding for the token {self.tokenizer.id_to_token(number)!r} "
                    f"(id {number}): the tokenizer has {self.tokenizer.get_vocab_size()} tokens, and the "
                    f"model {room}"
                )
        return list(ids)

    def decode(self, ids: Any) -> str:
        """Decode ids, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))


class _Uninitialized(TorchFunctionMode):
    """Turn `torch.nn.init` off: for tensors on "meta" it would import torch's compiler, which takes longer
    than loading a small model."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return keywords["tensor"] if "tensor" in keywords else args[0]
        return func(*args, **keywords)


# --- What it is -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Architecture:
    """An architecture that we have a class for."""

    config: Callable[[Mapping[str, Any]], GPTConfig | LLaMAConfig]
    model: Callable[[Classes], Callable[[Any], Model]]
    renamed: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


def kind_of(path: Path) -> str:
    """Return the architecture of a model, as its configuration names it; a GGUF file is a LLaMA.

    Raises:
        Refused: we have no class for this architecture.
    """
    kind = "llama" if path.is_file() else str(read_json(path / CONFIG).get("model_type"))
    if kind not in KINDS:
        raise Refused(
            f"{path / CONFIG} is of a model of type {kind!r}: there are classes for "
            f"{', '.join(KINDS)}"
        )
    return kind


KINDS = {
    "gpt2": _Architecture(model_config.gpt2, lambda classes: classes.gpt2, hugging_face.gpt2),
    "llama": _Architecture(model_config.llama, lambda classes: classes.llama, hugging_face.llama),
    "mistral": _Architecture(
        model_config.mistral, lambda classes: classes.llama, hugging_face.llama
    ),
}


def _model(
    folder: Path, config: Mapping[str, Any], classes: Classes
) -> tuple[Model, Tensor | None]:
    """Our class with the published weights, and what its angles are divided by."""
    kind = KINDS[kind_of(folder)]
    ours = kind.config(config)
    try:
        with torch.device("meta"), _Uninitialized():  # the weights are assigned later
            model = kind.model(classes)(ours)
        weights = kind.renamed(_with_its_head(read_weights(folder), config))
    except ValueError as error:
        raise Refused(f"{folder} is not a {config['model_type']} model: {error}") from error
    assign_weights(model, weights)
    divisors = None if kind.config is model_config.gpt2 else model_config.rope_divisors(config)
    if divisors is not None:
        stretch(model, divisors)
    return model, divisors


def _with_its_head(published: dict[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors as they came. Only a head that is tied to the embedding may be left out."""
    tied = config.get("tie_word_embeddings", config["model_type"] == "gpt2")
    if not tied and "lm_head.weight" not in published:
        raise ValueError("there is no lm_head.weight, and tie_word_embeddings is false")
    return published
