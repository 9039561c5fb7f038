"""The settings of a run: a YAML file in `configs/`, what `--set` changes of it, and what is allowed.

Whatever is not set is the paper's: post-norm, P_drop = 0.1, ε_ls = 0.1, the rate of §5.3.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from training.errors import Refused

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
TASKS = ("copy", "sorting", "arithmetic", "shakespeare", "text", "translation")
OF_LANGUAGE = ("shakespeare", "text")
MODELS = ("paper", "gpt", "llama")
EXPLAINED = "training/settings.py"
ELSEWHERE = {
    "task": "TASK",
    "answers": "TASK --answers DIR",
    "data_dir": "TASK --data-dir DIR",
    "pretrained": "TASK --from DIR|FILE|NAME",
}
WITH = {"data": ("text", "translation"), "source": ("translation",), "target": ("translation",)}
"""Settings that some tasks alone make use of."""
OF_THE_PRETRAINED = frozenset(
    {"model", "layers", "d_model", "heads", "kv_heads", "d_ff", "norm", "tie", "vocabulary"}
)
"""Settings that a published model decides where one is fine-tuned."""


def among(*choices: str, default: Any = MISSING) -> Any:
    """A setting that is one of a few words."""
    return field(default=default, metadata={"choices": choices})


def within(low: float, high: float | None, default: Any = MISSING) -> Any:
    """A setting that is a number from `low` to `high`, both included; no `high` is no end."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that a run depends on, and that it can be begun again from."""

    task: str = among(*TASKS)

    # The model
    # for language: the paper's decoder without a source, GPT-2 of day 23, or LLaMA of day 32
    model: str = among(*MODELS, default="paper")
    layers: int = within(1, None, 6)  # of the encoder, and as many of the decoder
    d_model: int = within(1, None, 512)  # width of the tokens' vectors
    heads: int = within(1, None, 8)  # of each attention; they divide d_model
    kv_heads: int = within(0, None, 0)  # LLaMA: heads for keys and values; 0 is as many as heads
    d_ff: int = within(1, None, 2048)  # width of the feed-forward networks' hidden layer
    dropout: float = within(0, 0.999, 0.1)  # the probability with which a number is dropped
    # the next two are the paper's to choose: GPT is pre-norm and tied, LLaMA pre-norm and not tied
    norm: str = among("post", "pre", default="post")  # after each sublayer's sum, or before it
    tie: bool = False  # one matrix for both embeddings and the output; needs a joint vocabulary
    answers: str = ""  # a folder of exercises whose parts stand in for the reference's
    pretrained: str = ""  # for language: the published model that is fine-tuned; sizes are its own
    lora: int = within(0, None, 0)  # with it: the rank of LoRA's updates; 0 trains all weights

    # The data
    data: str = ""  # translation: toy, multi30k, wmt14 or a file of pairs; text: the file
    data_dir: str = ""  # a folder in which the files of others are looked for first
    source: str = "en"  # translation: from this language of a corpus: en, de or fr
    target: str = "fr"  # translation: into this one
    lowercase: bool = False  # translation: learn, answer and measure in small letters
    vocabulary: int = within(0, 1_000_000, 0)  # tokens of byte-pair encoding; 0 is characters
    joint: bool = True  # one vocabulary for both languages
    context: int = within(1, 5000, 64)  # language models: tokens that are read at once
    pairs: int = within(0, None, 0)  # translation: the first so many are learnt from; 0 is all
    longest: int = within(2, 5000, 128)  # translation: longer sentences are not learnt from
    batch: int = within(1, None, 64)  # sequences of a batch
    batch_tokens: int = within(0, None, 0)  # translation: padded tokens of a batch, both sides

    # The recipe
    steps: int = within(1, None, 100_000)  # of the optimiser
    factor: float = within(0, None, 1.0)  # times the paper's learning rate
    warmup: int = within(1, None, 4000)  # steps in which the learning rate rises
    cooldown: float = within(0, 1, 0.0)  # the share of the steps, at the end, that falls to 0
    smoothing: float = within(0, 0.999, 0.1)  # of the labels; 0 for language models
    weight_decay: float = within(0, None, 0.0)  # AdamW's; 0 is the paper's Adam
    clip: float = within(0, None, 0.0)  # the largest norm of the gradient; 0 is any
    accumulate: int = within(1, None, 1)  # batches of a step
    ema: float = within(0, 0.999999, 0.0)  # decay of the running mean of the weights; 0 is none
    average: int = within(0, None, 0)  # checkpoints whose mean is the final model; 0 is none
    seed: int = within(0, 2**63 - 1, 0)  # where all that is drawn comes from

    # What is looked at, and kept
    validate_every: int = within(1, None, 500)  # steps
    validate_tokens: int = within(0, None, 0)  # at most so many, spread evenly; 0 is all
    patience: int = within(0, None, 0)  # validations without a new best until it stops; 0 is never
    save_every: int = within(1, None, 500)  # steps

    # How it is computed
    # auto is half precision on a GPU, and fp32 elsewhere
    precision: str = among("auto", "fp32", "bf16", "fp16", default="auto")
    compile: bool = False  # by torch.compile: slow to start, faster on a GPU
    fused: bool = True  # by PyTorch's kernels, which store no attention weights
    recompute: bool = False  # activations of a layer anew in the backward pass
    shard: bool = False  # FSDP2 in place of DDP where there are several processes

    def __post_init__(self) -> None:
        for setting in fields(self):
            check(setting, getattr(self, setting.name))
        if self.d_model % self.heads:
            raise Refused(
                f"heads must divide d_model, and {self.heads} does not divide {self.d_model}"
            )
        if self.task == "translation" and self.source == self.target:
            raise Refused(f"source and target are both {self.source!r}")
        if self.tie and self.task == "translation" and not self.joint:
            raise Refused("tie needs one joint vocabulary: set joint=true or tie=false")
        if self.smoothing and self.of_language:
            raise Refused(
                f"smoothing must be 0 for {self.task}: it shares out among real tokens only"
            )
        if self.model != "paper" and not self.of_language:
            raise Refused(
                f"model={self.model} goes on with a text, and the task {self.task} asks for answers: "
                f"it is for {' and '.join(OF_LANGUAGE)}"
            )
        if self.pretrained and not self.of_language:
            raise Refused(
                f"--from is for language models, {' and '.join(OF_LANGUAGE)}: the task {self.task} asks "
                "for answers"
            )
        if self.lora and not self.pretrained:
            raise Refused(f"lora={self.lora} updates a published model: it needs --from")
        if self.kv_heads and self.model != "llama":
            raise Refused(f"kv_heads is for model=llama: model={self.model} has as many as heads")
        if self.model == "llama":
            self._check_llama()
        if self.average and self.ema:
            raise Refused("average and ema are two ways to the same end: set one of them to 0")

    def _check_llama(self) -> None:
        if self.dropout:
            raise Refused("dropout must be 0 for model=llama, which has none: --set dropout=0")
        if self.kv_heads and self.heads % self.kv_heads:
            raise Refused(
                f"kv_heads must divide heads, and {self.kv_heads} does not divide {self.heads}"
            )
        if self.d_model // self.heads % 2:
            raise Refused(
                f"model=llama turns features in pairs: d_model / heads must be even, and is "
                f"{self.d_model // self.heads}"
            )

    @property
    def of_language(self) -> bool:
        """Whether it is a language model that is trained: it goes on with a text, and answers none."""
        return self.task in OF_LANGUAGE

    def but(self, changes: Mapping[str, Any]) -> Settings:
        """The same settings with some changed."""
        return replace(self, **changes)

    def as_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False, allow_unicode=True)


def load(path: Path) -> Settings:
    """The settings that a YAML file holds.

    Raises:
        Refused: no such file, no YAML in it, an unknown key, or a value that is not allowed.
    """
    try:
        return from_yaml(path.read_bytes(), path)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def named(path: Path) -> set[str]:
    """The settings that a YAML file which can be loaded names; the others have their defaults."""
    return set(yaml.safe_load(path.read_bytes()))


def from_yaml(text: bytes | str, path: Path) -> Settings:
    """The settings that `Settings.as_yaml` wrote, or that somebody did.

    Args:
        text: YAML.
        path: the file that it comes from, named where it is wrong.

    Raises:
        Refused: no YAML, an unknown key, or a value that is not allowed.
    """
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise Refused(f"{path} must hold settings, one `key: value` a line")
    try:
        return Settings(**{str(key): _typed(str(key), value) for key, value in found.items()})
    except TypeError as error:
        raise Refused(
            f"{path} names no task: it needs `task:`, one of {', '.join(TASKS)}"
        ) from error
    except Refused as error:
        raise Refused(f"{path}: {error}") from error


def config_of(task: str, data: str | None, pretrained: bool = False) -> Path:
    """The shipped config of a task, of one on certain data, or of fine-tuning.

    Raises:
        Refused: there is no such task.
    """
    if task not in TASKS:
        raise Refused(f"There is no task {task!r}{_nearest(task, TASKS)}: {', '.join(TASKS)}")
    name = {"multi30k": "multi30k", "wmt14": "transformer_base"}.get(data or "", task)
    if pretrained and task in OF_LANGUAGE:
        return CONFIGS / "finetuning.yaml"
    return CONFIGS / f"{name if task == 'translation' else task}.yaml"


def refuse_useless(task: str, changes: Iterable[str]) -> None:
    """Refuse what was asked for and would change nothing.

    Raises:
        Refused: a setting that the task has no use for.
    """
    for key in changes:
        if task not in WITH.get(key, TASKS):
            raise Refused(f"{key} is for {' and '.join(WITH[key])}: the task {task} has none")


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    """What `--set key=value …` asks for.

    Raises:
        Refused: no `=`, an unknown key, or a value of another type.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise Refused(f"--set takes key=value, not {text!r}")
        if key.strip() in ELSEWHERE:
            raise Refused(f"{key.strip()} is not for --set: course train {ELSEWHERE[key.strip()]}")
        try:
            changes[key.strip()] = _typed(key.strip(), yaml.safe_load(value) if value else "")
        except yaml.YAMLError as error:
            raise Refused(f"{key.strip()} cannot be {value!r}") from error
    return changes


_TYPES = typing.get_type_hints(Settings)
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def _typed(key: str, value: Any) -> Any:
    """The value as the setting's type, where it is one."""
    if key not in _TYPES:
        near = max(_TYPES, key=lambda name: difflib.SequenceMatcher(None, key, name).ratio())
        raise Refused(
            f"There is no setting {key!r} (did you mean {near!r}?): {EXPLAINED} explains every setting"
        )
    wanted = _TYPES[key]
    if isinstance(value, str) and wanted is float:
        try:
            return float(value)  # YAML takes 1e-3 for a word: it has no point
        except ValueError:
            pass
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is str and value is None:
        return ""
    if wanted is str and key in ("source", "target") and value is False:
        return "no"  # Norwegian, which YAML takes for an answer
    if type(value) is not wanted:
        raise Refused(f"{key} must be {_WORDS[wanted]}, not {value!r}")
    return value


def check(setting: Field[Any], value: Any) -> None:
    """Refuse a value that is not allowed.

    Raises:
        Refused: it names what is.
    """
    if choices := setting.metadata.get("choices"):
        if value not in choices:
            raise Refused(
                f"{setting.name} must be one of {', '.join(choices)}, not {value!r}"
                f"{_nearest(str(value), choices)}"
            )
    elif "low" in setting.metadata:
        low, high = setting.metadata["low"], setting.metadata["high"]
        if not (low <= value and (high is None or value <= high)) or value == float("inf"):
            allowed = f"at least {low}" if high is None else f"from {low} to {high}"
            raise Refused(f"{setting.name} must be {allowed}, not {value}")


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
