"""Published language models, read into our own classes: GPT-2 and the LLaMA family.

A model is a folder as `transformers` writes it: `config.json`, `tokenizer.json`, and `model.safetensors`
or several such files with `model.safetensors.index.json`; or a LLaMA in one file of GGUF. All of it is
data: nothing in it is run.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import tokenizers
import torch
from rich.console import Console
from torch import Tensor
from torch.overrides import TorchFunctionMode

from training.data import wheels
from training.data.downloads import File, find
from training.data.lfs_pointers import POINTER, refuse_a_pointer
from training.devices import pick
from training.errors import Refused, TooLong
from training.generation.chat_templates import Message, rendered
from training.generation.generate import Ask, Choose, Sample, Sampling, choosing, pieces
from training.models.architectures import Model, put_in_place
from training.models.base_model import rope_of
from variants import hugging_face
from variants.fused import fuse, last_alone
from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT, Reader
from variants.llama import LLaMA, LLaMAConfig
from variants.rope_scaling import linear_divisors, llama3_divisors, stretch
from variants.sampling import sample

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
ENDS, TOKENIZER_CONFIG = "generation_config.json", "tokenizer_config.json"  # may be missing
TEMPLATE = "chat_template.jinja"  # likewise
ADAPTER = "adapter_config.json"
SLOW_TOKENIZERS = ("tokenizer.model", "spiece.model", "vocab.json", "merges.txt")
LEAST_REPLY = 64  # tokens that a reply must have room for

SMOLLM2 = "smollm2-135m"  # from the package index: where there is no hub, there may be one
HUB = "https://huggingface.co"
SHORT = {
    name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
}


@dataclass(frozen=True)
class Classes:
    """What a published model is computed with."""

    gpt2: Callable[[Any], Model] = CachedGPT
    llama: Callable[[Any], Model] = LLaMA
    reader: Callable[[Model, int], Ask] = Reader
    sample: Sample = sample


@dataclass
class Pretrained:
    """A published model, and what it takes to use it."""

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
    _ask: Ask | None = None

    @classmethod
    def load(cls, path: Path, device: str = "auto", classes: Classes | None = None) -> Pretrained:
        """The model in a folder, or in a file of GGUF.

        Args:
            path: the folder or the file.
            device: `auto` is a GPU where there is one.
            classes: what it is computed with; ours if left out.

        Raises:
            Refused: no such folder, a file that is missing or damaged, or a model that we have no class for.
        """
        load = cls._from_gguf if path.is_file() else cls._from_folder
        return load(path, device, classes or Classes())

    @classmethod
    def _from_gguf(cls, path: Path, device: str, classes: Classes) -> Pretrained:
        from training.models import gguf_file  # gguf takes a fifth of a second to import

        found = gguf_file.read(path)
        with torch.device("meta"), _Uninitialized():  # without numbers, which are to come
            model = classes.llama(found.config)
        put_in_place(model, found.weights)
        if found.divisors is not None:
            stretch(model, found.divisors)
        where = pick(device)
        return cls(
            fuse(model.to(where).eval()),
            found.tokenizer,
            found.ends,
            where,
            found.template,
            found.specials,
            classes,
            found.divisors,
            rope_of(found.divisors),
        )

    @classmethod
    def _from_folder(cls, folder: Path, device: str, classes: Classes) -> Pretrained:
        _refuse_what_is_no_whole_model(folder)
        config = _json(folder / CONFIG)
        tokenizer = _tokenizer(folder / TOKENIZER)
        model, divisors = _model(folder, config, classes)
        where = pick(device)
        return cls(
            fuse(model.to(where).eval()),
            tokenizer,
            _ends(folder, config, tokenizer),
            where,
            _template(folder),
            _specials(folder),
            classes,
            divisors,
            _rope(config),
        )

    def generate(self, prompt: str, tokens: int, drawing: Sampling) -> Iterator[str]:
        """Go on with a text: pieces of what follows, as they come, to the model's end of a text.

        Raises:
            Refused: an empty prompt, or one with a token that the model has no embedding of.
        """
        ids = self.encode(prompt)
        if not ids:
            raise Refused("The prompt is empty: there is nothing to go on with")
        return pieces(self._choosing(ids, drawing), self, ids, tokens, self.ends)

    def reply(self, messages: Sequence[Message], tokens: int, drawing: Sampling) -> Iterator[str]:
        """Answer in a conversation: pieces of the reply, as they come.

        Args:
            messages: the conversation, with the user's at the end.
            tokens: the most tokens of the reply.
            drawing: how each is chosen.

        Raises:
            TooLong: the conversation and a reply do not fit into the model's context.
            Refused: a model without a chat template, or a template that cannot be used.
        """
        if self.template is None:
            raise Refused(
                "This model has no chat template: course generate continues a text with it"
            )
        text = rendered(self.template, messages, self.specials)
        ids = self._known(self.tokenizer.encode(text, add_special_tokens=False).ids)
        room = self.model.config.context - len(ids)
        if room < min(tokens, LEAST_REPLY):
            raise TooLong(
                f"The message has to fit into the model's context of {self.model.config.context} "
                f"tokens, and so has its reply: the conversation has {len(ids)}"
            )
        if not ids:
            raise Refused("The chat template makes an empty text: there is nothing to reply to")
        return pieces(self._choosing(ids, drawing), self, ids, min(tokens, room), self.ends)

    def _choosing(self, ids: list[int], drawing: Sampling) -> Choose:
        """How tokens are chosen. A text that continues the one read last is read from there on."""
        context = self.model.config.context
        known = len(self._read)
        if self._ask is None or not 0 < known < len(ids) or ids[:known] != self._read:
            self._ask = self.classes.reader(last_alone(self.model), context)
        ask = self._ask

        def reading(seen: Tensor) -> Tensor:
            self._read = []  # where this is interrupted, layers may have read more than others
            logits = ask(seen)
            # Beyond the context the text moves, and no cache holds it any more.
            self._read = ids.copy() if len(ids) < context else []
            return logits

        return choosing(
            reading, drawing, context=context, device=self.device, sampler=self.classes.sample
        )

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with those that the model wants before it.

        Raises:
            Refused: a token that the model has no embedding of; tokenizers may know more than they need.
        """
        try:
            return self._known(self.tokenizer.encode(text).ids)
        except Refused:
            raise
        except Exception as error:  # it raises nothing narrower
            raise Refused(f"The tokenizer cannot encode the prompt: {error}") from error

    def _known(self, ids: Sequence[int]) -> list[int]:
        room = self.model.config.vocab
        for number in ids:
            if number >= room:
                raise Refused(
                    f"The model has no embedding of the token {self.tokenizer.id_to_token(number)!r} "
                    f"(id {number}): the tokenizer has {self.tokenizer.get_vocab_size()} tokens, and the "
                    f"model {room}"
                )
        return list(ids)

    def decode(self, ids: Any) -> str:
        """The text of ids, without special ones."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))


class _Uninitialized(TorchFunctionMode):
    """Within it `torch.nn.init` does nothing: for tensors on "meta" it would first import torch's compiler,
    which takes longer than to load a small model."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


# --- Where it is ----------------------------------------------------------------------------------


def folder_of(asked: str, data_dir: Path | None, console: Console) -> Path:
    """The folder or file of a model: the one that was named, or that of a published model, fetched once.

    Args:
        asked: a folder, a file of GGUF, or a name on the hub, such as `gpt2` or `owner/model`, or
            `smollm2-135m`.
        data_dir: where the files are looked for, and fetched to, instead of the cache.
        console: where fetching is shown.

    Raises:
        Refused: neither a folder nor a name, or files that cannot be had; the text says what to fetch
            where.
    """
    if Path(asked).is_dir() or Path(asked).is_file():
        return Path(asked)
    if asked == SMOLLM2:
        return wheels.unpacked(wheels.SMOLLM2, data_dir, console)
    name = SHORT.get(asked, asked)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII) or ".." in name:
        known = ", ".join([SMOLLM2, *SHORT])
        raise Refused(
            f"There is no folder or file {asked}, and a published model is one of {known}, or "
            "owner/model as on huggingface.co"
        )

    def fetched(file: str, sha256: str | None = None, kind: str = "resolve") -> Path:
        kept = file if kind == "resolve" else f"{file}.pointer"
        return find(
            File(f"{name}/{kept}", f"{HUB}/{name}/{kind}/main/{file}", sha256), data_dir, console
        )

    def weights(file: str) -> None:
        pointer = fetched(file, kind="raw").read_text(encoding="utf-8", errors="replace")
        digest = POINTER.search(pointer)
        fetched(file, digest[1] if digest else None)

    folder = fetched(CONFIG).parent
    fetched(TOKENIZER)
    if not (folder / WEIGHTS).exists() and not (folder / INDEX).exists():
        for file in (ENDS, TOKENIZER_CONFIG, TEMPLATE):  # asked for once: not every model has them
            with contextlib.suppress(Refused):
                fetched(file)
    if not (folder / INDEX).exists():
        try:
            weights(WEIGHTS)
            return folder
        except Refused as missing:
            try:
                fetched(INDEX)
            except Refused:
                raise missing from None
    for file in sorted(set(_weight_map(folder / INDEX).values())):
        weights(file)
    return folder


# --- What it is -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Architecture:
    """An architecture that we have a class for."""

    config: Callable[[Mapping[str, Any]], GPTConfig | LLaMAConfig]
    model: Callable[[Classes], Callable[[Any], Model]]
    renamed: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


def kind_of(path: Path) -> str:
    """The architecture of a model, as its configuration names it; a file of GGUF is a LLaMA's.

    Raises:
        Refused: one that we have no class for.
    """
    kind = "llama" if path.is_file() else str(_json(path / CONFIG).get("model_type"))
    if kind not in KINDS:
        raise Refused(
            f"{path / CONFIG} is of a model of type {kind!r}: there are classes for "
            f"{', '.join(KINDS)}"
        )
    return kind


def _gpt2(config: Mapping[str, Any]) -> GPTConfig:
    _only(
        config,
        activation_function=("gelu_new", "gelu_pytorch_tanh"),
        layer_norm_epsilon=(1e-5,),
        scale_attn_weights=(True,),
        scale_attn_by_inverse_layer_idx=(False,),
        add_cross_attention=(False,),
        tie_word_embeddings=(True,),
    )
    width = _size(config, "n_embd")
    return GPTConfig(
        vocab=_size(config, "vocab_size"),
        context=_size(config, "n_positions"),
        n_layers=_size(config, "n_layer"),
        n_heads=_size(config, "n_head"),
        d_model=width,
        d_ff=4 * width if config.get("n_inner") is None else _size(config, "n_inner"),
        dropout=0.0,
    )


def _llama(config: Mapping[str, Any]) -> LLaMAConfig:
    _only(config, hidden_act=("silu",), attention_bias=(False,), mlp_bias=(False,))
    heads, width = _size(config, "num_attention_heads"), _size(config, "hidden_size")
    _only(config, head_dim=(width // heads, None))
    grouped = config.get("num_key_value_heads") is not None
    return LLaMAConfig(
        vocab=_size(config, "vocab_size"),
        context=_size(config, "max_position_embeddings"),
        n_layers=_size(config, "num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=_size(config, "num_key_value_heads") if grouped else heads,
        d_model=width,
        d_ff=_size(config, "intermediate_size"),
        eps=_number(config, "rms_norm_eps"),
        base=_base(config),
    )


def _mistral(config: Mapping[str, Any]) -> LLaMAConfig:
    """A Mistral attends to a window of the text: where that holds the entire context, it is a LLaMA."""
    context, window = _size(config, "max_position_embeddings"), config.get("sliding_window")
    if window is not None and _size(config, "sliding_window") < context:
        raise Refused(
            f"{CONFIG} has a sliding_window of {window} tokens, and a context of {context}: our class "
            "attends to all tokens before one"
        )
    return _llama(config)


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise Refused(f"{CONFIG} has no table of rope parameters, but {rope!r}")
    return rope


def _base(config: Mapping[str, Any]) -> float:
    """The base of the angles."""
    return _number({"rope_theta": 10000.0} | dict(config) | _rope(config), "rope_theta")


def _divisors(config: Mapping[str, Any]) -> Tensor | None:
    """What the angles are divided by, where they are stretched for longer texts."""
    rope = _rope(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    head_dim = _size(config, "hidden_size") // _size(config, "num_attention_heads")
    if kind == "default":
        return None
    if kind == "linear":
        return linear_divisors(head_dim, _number(rope, "factor"))
    if kind == "llama3":
        low, high = _number(rope, "low_freq_factor"), _number(rope, "high_freq_factor")
        if not low < high:
            raise Refused(
                f"{CONFIG} must have low_freq_factor < high_freq_factor, got {low}, {high}"
            )
        original = _size(rope, "original_max_position_embeddings")
        factor = _number(rope, "factor")
        return llama3_divisors(head_dim, _base(config), factor, low, high, original)
    raise Refused(f"{CONFIG} has rope_type {kind!r}: our class computes default, linear and llama3")


KINDS = {
    "gpt2": _Architecture(_gpt2, lambda classes: classes.gpt2, hugging_face.gpt2),
    "llama": _Architecture(_llama, lambda classes: classes.llama, hugging_face.llama),
    "mistral": _Architecture(_mistral, lambda classes: classes.llama, hugging_face.llama),
}


def _only(config: Mapping[str, Any], **allowed: tuple[Any, ...]) -> None:
    """Refuse what our classes do not compute. What a config leaves out is as usual."""
    for key, values in allowed.items():
        if key in config and config[key] not in values:
            raise Refused(
                f"{CONFIG} has {key} {config[key]!r}, and our class computes {values[0]!r} alone"
            )


def _size(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise Refused(f"{CONFIG} must have {key}, a whole number above 0, and has {value!r}")
    return value


def _number(config: Mapping[str, Any], key: str) -> float:
    value: Any = config.get(key)
    if type(value) not in (int, float) or not value > 0:
        raise Refused(f"{CONFIG} must have {key}, a number above 0, and has {value!r}")
    return float(value)


def _model(
    folder: Path, config: Mapping[str, Any], classes: Classes
) -> tuple[Model, Tensor | None]:
    """Our class with the published weights, and what its angles are divided by."""
    kind = KINDS[kind_of(folder)]
    ours = kind.config(config)
    try:
        with torch.device("meta"), _Uninitialized():  # without numbers, which are to come
            model = kind.model(classes)(ours)
        weights = kind.renamed(_with_its_head(_weights(folder), config))
    except ValueError as error:
        raise Refused(f"{folder} is no {config['model_type']}: {error}") from error
    put_in_place(model, weights)
    divisors = None if kind.config is _gpt2 else _divisors(config)
    if divisors is not None:
        stretch(model, divisors)
    return model, divisors


def _with_its_head(published: dict[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors as they came. Only a head that is tied to the embedding may be left out."""
    tied = config.get("tie_word_embeddings", config["model_type"] == "gpt2")
    if not tied and "lm_head.weight" not in published:
        raise ValueError("there is no lm_head.weight, and tie_word_embeddings is false")
    return published


def _refuse_what_is_no_whole_model(folder: Path) -> None:
    """Before a file that is missing is named: what else the folder may be.

    Raises:
        Refused: an adapter, a tokenizer that needs converting, or pointers in place of files.
    """
    if (folder / ADAPTER).exists() and not (folder / CONFIG).exists():
        base = _json(folder / ADAPTER).get("base_model_name_or_path")
        raise Refused(
            f"{folder} holds a LoRA adapter: low-rank changes to the weights of {base!r}, and no model. "
            "Merge it first: `PeftModel.from_pretrained(model, DIR).merge_and_unload()` of peft, "
            "and `save_pretrained`"
        )
    slow = [name for name in SLOW_TOKENIZERS if (folder / name).exists()]
    if slow and (folder / CONFIG).exists() and not (folder / TOKENIZER).exists():
        raise Refused(
            f"{folder} has {slow[0]} and no {TOKENIZER}. Convert it once: "
            "`AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)` of transformers writes the latter"
        )
    for path in [folder / TOKENIZER, *sorted(folder.glob("*.safetensors"))]:
        refuse_a_pointer(path)


def _weights(folder: Path) -> dict[str, Tensor]:
    """The published tensors by name, of one file or of several."""
    if (folder / WEIGHTS).exists():
        return _tensors(folder / WEIGHTS)
    if not (folder / INDEX).exists():
        old = [path.name for path in sorted(folder.glob("*.bin"))]
        why = f". {old[0]} is a pickle, which may run code: it is not read" if old else ""
        raise Refused(f"{folder} has neither {WEIGHTS} nor {INDEX}{why}")
    found: dict[str, Tensor] = {}
    wanted = _weight_map(folder / INDEX)
    for file in sorted(set(wanted.values())):
        tensors = _tensors(folder / file)
        missing = [name for name, its in wanted.items() if its == file and name not in tensors]
        if missing:
            raise Refused(f"{folder / file} has no {missing[0]}, which {INDEX} says it has")
        found |= tensors
    return found


def _weight_map(index: Path) -> dict[str, str]:
    """The file of each tensor."""
    found = _json(index).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise Refused(f"{index} names no files: it needs a weight_map")
    for file in found.values():
        if not isinstance(file, str) or not re.fullmatch(r"[\w.-]+\.safetensors", file, re.ASCII):
            raise Refused(f"{index} names {file!r}, which is no .safetensors beside it")
    return found


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        tensors = safetensors.torch.load_file(path)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from error
    except safetensors.SafetensorError as error:
        raise Refused(f"{path} is damaged: {error}") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            raise Refused(
                f"{path} holds {name} as {tensor.dtype}: only floating-point weights are read"
            )
    return tensors


def _tokenizer(path: Path) -> tokenizers.Tokenizer:
    _json(path)  # which says more of what is missing or damaged
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # it raises nothing narrower
        raise Refused(f"{path} is no tokenizer: {error}") from error


def _ends(
    folder: Path, config: Mapping[str, Any], tokenizer: tokenizers.Tokenizer
) -> frozenset[int]:
    """The tokens with which a text ends, from the first file that names any: the one for generating,
    the model's, the tokenizer's."""
    for found in (_optional(folder / ENDS), config):
        ids = found.get("eos_token_id")
        if ends := frozenset(
            end for end in (ids if isinstance(ids, list) else [ids]) if type(end) is int
        ):
            return ends
    token = _optional(folder / TOKENIZER_CONFIG).get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    end = tokenizer.token_to_id(content) if isinstance(content, str) else None
    return frozenset() if end is None else frozenset([end])


def _template(folder: Path) -> str | None:
    """The chat template: a file of its own, or in the tokenizer's, where several may have names."""
    if (path := folder / TEMPLATE).exists():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise Refused(f"{path} cannot be read: {error}") from error
    found = _optional(folder / TOKENIZER_CONFIG).get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _specials(folder: Path) -> dict[str, str]:
    known = _optional(folder / TOKENIZER_CONFIG)
    found = {}
    for name in ("bos_token", "eos_token"):
        token = known.get(name)
        content = token.get("content") if isinstance(token, dict) else token
        found[name] = content if isinstance(content, str) else ""
    return found


def _optional(path: Path) -> dict[str, Any]:
    return _json(path) if path.exists() else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise Refused(f"{path} is damaged: it must hold an object")
    return found
