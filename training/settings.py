"""The settings of a run: a YAML file in `training/configs/`, changes by `--set`, and the allowed
values.

The defaults are the paper's: post-norm, P_drop = 0.1, ε_ls = 0.1, the learning rate of §5.3.
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

CONFIGS = Path(__file__).resolve().with_name("configs")
TASKS = ("copy", "sorting", "arithmetic", "shakespeare", "text", "chat", "translation")
OF_LANGUAGE = ("shakespeare", "text", "chat")
MODELS = ("paper", "gpt", "llama")
SET_BY_OPTION = {
    "task": "TASK",
    "answers": "TASK --answers DIR",
    "data_dir": "TASK --data-dir DIR",
    "pretrained": "TASK --from DIR|FILE|NAME|RUN",
}
SETTING_TASKS = {
    "data": ("text", "chat", "translation"),
    "source": ("translation",),
    "target": ("translation",),
}
"""Settings that only some tasks use."""
RENAMED = {"average": "average_last"}
"""Settings by the names that older runs have for them."""
OF_THE_PRETRAINED = frozenset(
    {"model", "layers", "d_model", "heads", "kv_heads", "d_ff", "norm", "tie", "vocabulary"}
)
"""Settings that the published model determines in fine-tuning."""


def choice(*choices: str, default: Any = MISSING) -> Any:
    """Define a setting that is one of these words."""
    return field(default=default, metadata={"choices": choices})


def in_range(low: float, high: float | None, default: Any = MISSING) -> Any:
    """Define a setting that is a number from `low` to `high`, inclusive; `high` may be None."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that a run depends on."""

    task: str = choice(*TASKS)

    # The model
    # for language models: the paper's decoder without a source, GPT-2 of day 23, or LLaMA of day 32
    model: str = choice(*MODELS, default="paper")
    layers: int = in_range(1, None, 6)  # of the encoder, and of the decoder
    d_model: int = in_range(1, None, 512)  # width of the tokens' vectors
    heads: int = in_range(1, None, 8)  # of each attention; they divide d_model
    kv_heads: int = in_range(0, None, 0)  # LLaMA: key/value heads; 0 means heads
    d_ff: int = in_range(1, None, 2048)  # width of the feed-forward networks' hidden layer
    dropout: float = in_range(0, 0.999, 0.1)  # dropout probability
    # for model=paper only: GPT is pre-norm and tied, LLaMA pre-norm and not tied
    norm: str = choice("post", "pre", default="post")  # after each sublayer's sum, or before it
    tie: bool = False  # tie both embeddings and the output layer; needs a joint vocabulary
    answers: str = ""  # a folder of exercises whose parts replace the reference's
    pretrained: str = ""  # language models: the model to fine-tune, which determines the sizes
    # with `pretrained`: the rank of LoRA's updates; 0 trains all weights
    lora: int = in_range(0, None, 0)

    # The data
    data: str = ""  # translation: toy, multi30k, wmt14 or a file of pairs; text, chat: the file
    data_dir: str = ""  # a folder in which downloaded corpora are looked for first
    source: str = "en"  # translation: the corpus's source language: en, de or fr
    target: str = "fr"  # translation: the target language
    lowercase: bool = False  # translation: lowercase all text
    vocabulary: int = in_range(
        0, 1_000_000, 0
    )  # size of the byte-pair encoding; 0 means characters
    joint: bool = True  # one vocabulary for both languages
    # language models: maximum number of tokens the model reads; chat: what exceeds it is cut off
    context: int = in_range(1, 5000, 64)
    pairs: int = in_range(0, None, 0)  # translation: train on the first so many pairs; 0 means all
    # translation: maximum length of a training sentence, in tokens
    longest: int = in_range(2, 5000, 128)
    batch: int = in_range(1, None, 64)  # sequences in a batch
    # translation: tokens in a batch, both sides, padding included; 0 uses `batch`
    batch_tokens: int = in_range(0, None, 0)

    # The recipe
    steps: int = in_range(1, None, 100_000)  # optimizer steps
    factor: float = in_range(0, None, 1.0)  # times the paper's learning rate
    warmup: int = in_range(1, None, 4000)  # steps of linear warm-up
    # fraction of the steps, at the end, in which the learning rate decays to 0
    cooldown: float = in_range(0, 1, 0.0)
    smoothing: float = in_range(0, 0.999, 0.1)  # label smoothing ε; 0 for language models
    # muon: for the matrices of the layers; AdamW, at the same rate, for the rest
    optimizer: str = choice("adamw", "muon", default="adamw")
    beta2: float = in_range(0, 0.999999, 0.98)  # Adam's decay of the squared gradients' mean
    weight_decay: float = in_range(0, None, 0.0)  # 0 gives the paper's Adam
    clip: float = in_range(0, None, 0.0)  # maximum norm of the gradient; 0 means no clipping
    accumulate: int = in_range(1, None, 1)  # batches per optimizer step
    # decay of the weights' exponential moving average; 0 means none
    ema: float = in_range(0, 0.999999, 0.0)
    # last checkpoints, `save_every` steps apart, whose mean is the final weights (Vaswani et al. 2017,
    # §6.1); 0 means no mean
    average_last: int = in_range(0, None, 0)
    seed: int = in_range(0, 2**63 - 1, 0)  # random seed

    # Validation and checkpoints
    validate_every: int = in_range(1, None, 500)  # steps
    # maximum number of validation tokens, spread evenly; 0 means all
    validate_tokens: int = in_range(0, None, 0)
    # early stopping after so many validations without a new best; 0 means never
    patience: int = in_range(0, None, 0)
    save_every: int = in_range(1, None, 500)  # steps

    # Decoding
    # translation: α of the length penalty in beam search (Wu et al. 2016, eq. 14); 0.6 as in the paper
    length_penalty: float = in_range(0, None, 0.6)

    # Computation
    # auto: half precision on a GPU, fp32 elsewhere
    precision: str = choice("auto", "fp32", "bf16", "fp16", default="auto")
    compile: bool = False  # use torch.compile: slow to start, faster on a GPU
    fused: bool = True  # use PyTorch's fused kernels, which store no attention weights
    recompute: bool = False  # gradient checkpointing, one checkpoint per layer
    shard: bool = False  # FSDP2 instead of DDP, with several processes

    def __post_init__(self) -> None:
        for setting in fields(self):
            check(setting, getattr(self, setting.name))
        if self.d_model % self.heads:
            raise Refused(
                f"heads must divide d_model, got heads={self.heads}, d_model={self.d_model}"
            )
        if self.optimizer == "muon" and (self.shard or self.lora):
            raise Refused(
                "optimizer=muon needs entire matrices: it cannot be had with shard or lora"
            )
        if self.task == "translation" and self.source == self.target:
            raise Refused(f"source and target must differ, got {self.source!r} for both")
        if self.tie and self.task == "translation" and not self.joint:
            raise Refused("tie=true needs a joint vocabulary: set joint=true or tie=false")
        if self.smoothing and self.of_language:
            raise Refused(f"smoothing must be 0 for language models, got {self.smoothing:g}")
        if self.model != "paper" and not self.of_language:
            raise Refused(
                f"model={self.model} is a language model, for {_listed(OF_LANGUAGE)}, and not for the task "
                f"{self.task}"
            )
        if self.pretrained and not self.of_language:
            raise Refused(
                f"--from fine-tunes language models, for {_listed(OF_LANGUAGE)}, and not for the task "
                f"{self.task}"
            )
        if self.task == "chat" and (self.answers or self.shard or self.recompute):
            raise Refused(
                "chat packs several conversations into a row, which only the reference's attention can "
                "read: it cannot be had with --answers, shard or recompute"
            )
        if self.lora and not self.pretrained:
            raise Refused(f"lora={self.lora} updates a published model: it needs --from")
        if self.kv_heads and self.model != "llama":
            raise Refused(f"kv_heads is for model=llama only, got model={self.model}")
        if self.model == "llama":
            self._check_llama()
        if self.average_last and self.ema:
            raise Refused("average_last and ema cannot be combined: set one of them to 0")

    def _check_llama(self) -> None:
        if self.dropout:
            raise Refused("dropout must be 0 for model=llama: --set dropout=0")
        if self.kv_heads and self.heads % self.kv_heads:
            raise Refused(
                f"kv_heads must divide heads, got kv_heads={self.kv_heads}, heads={self.heads}"
            )
        if self.d_model // self.heads % 2:
            raise Refused(
                f"d_model / heads must be even for model=llama (RoPE rotates pairs of features), got "
                f"{self.d_model // self.heads}"
            )

    @property
    def of_language(self) -> bool:
        """Whether the task trains a language model (rather than a sequence-to-sequence model)."""
        return self.task in OF_LANGUAGE

    def replace(self, changes: Mapping[str, Any]) -> Settings:
        """Return the settings with these changes."""
        return replace(self, **changes)

    def as_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False, allow_unicode=True)


def load(path: Path) -> Settings:
    """Read settings from a YAML file.

    Raises:
        Refused: the file is missing or not YAML, a key is unknown, or a value is not allowed.
    """
    try:
        return from_yaml(path.read_bytes(), path)
    except OSError as error:
        moved = "; the shipped settings are in training/configs/"
        where = moved if path.parts[0] == "configs" else ""
        raise Refused(f"{path} cannot be read: {error.strerror}{where}") from error


def named(path: Path) -> set[str]:
    """Return the names of the settings that a valid YAML file sets; the rest have defaults."""
    return set(yaml.safe_load(path.read_bytes()))


def from_yaml(text: bytes | str, path: Path) -> Settings:
    """Read settings from YAML.

    Args:
        path: the file it comes from, for error messages.

    Raises:
        Refused: the text is not YAML, a key is unknown, or a value is not allowed.
    """
    try:
        entries = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(entries, dict):
        raise Refused(f"{path} must contain settings, one `key: value` per line")
    renamed = {RENAMED.get(key, str(key)): value for key, value in entries.items()}
    try:
        return Settings(**{key: _typed(key, value, Settings) for key, value in renamed.items()})
    except TypeError as error:
        raise Refused(f"{path} must set `task:` to one of {', '.join(TASKS)}") from error
    except Refused as error:
        raise Refused(f"{path}: {error}") from error


def config_of(task: str, data: str | None, pretrained: bool = False) -> Path:
    """Return the shipped config for a task, its data, and fine-tuning.

    Raises:
        Refused: unknown task.
    """
    if task not in TASKS:
        raise Refused(
            f"task must be one of {', '.join(TASKS)}, got {task!r}{_nearest(task, TASKS)}"
        )
    name = {"multi30k": "multi30k", "wmt14": "transformer_base"}.get(data or "", task)
    if pretrained and task in OF_LANGUAGE and task != "chat":
        return CONFIGS / "finetuning.yaml"
    return CONFIGS / f"{name if task == 'translation' else task}.yaml"


def refuse_useless(task: str, changes: Iterable[str]) -> None:
    """Refuse settings that the task does not use.

    Raises:
        Refused: the task does not use one of these settings.
    """
    for key in changes:
        if task not in SETTING_TASKS.get(key, TASKS):
            raise Refused(f"{key} is for {_listed(SETTING_TASKS[key])} only, got task {task}")


def parse_changes(texts: Iterable[str], of: type = Settings) -> dict[str, Any]:
    """Parse `--set key=value …`.

    Args:
        of: the dataclass with the settings.

    Raises:
        Refused: `=` is missing, a key is unknown, or a value has the wrong type.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise Refused(f"--set must be key=value, got {text!r}")
        if key.strip() in SET_BY_OPTION:
            raise Refused(
                f"{key.strip()} cannot be changed by --set: use course train {SET_BY_OPTION[key.strip()]}"
            )
        try:
            changes[key.strip()] = _typed(key.strip(), yaml.safe_load(value) if value else "", of)
        except yaml.YAMLError as error:
            raise Refused(f"{key.strip()} cannot be {value!r}") from error
    return changes


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def _typed(key: str, value: Any, of: type) -> Any:
    """Return the value as the setting's type."""
    types = typing.get_type_hints(of)
    if key not in types:
        near = max(types, key=lambda name: difflib.SequenceMatcher(None, key, name).ratio())
        explained = f"{of.__module__.replace('.', '/')}.py"
        raise Refused(
            f"There is no setting {key!r} (did you mean {near!r}?): {explained} explains every setting"
        )
    kind = types[key]
    if isinstance(value, str) and kind is float:
        try:
            return float(value)  # YAML reads 1e-3 as a string, because it has no point
        except ValueError:
            pass
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and value is None:
        return ""
    if kind is str and key in ("source", "target") and value is False:
        return "no"  # Norwegian, which YAML reads as false
    if type(value) is not kind:
        raise Refused(f"{key} must be {_WORDS[kind]}, got {value!r}")
    return value


def check(setting: Field[Any], value: Any) -> None:
    """Refuse a value that is not allowed.

    Raises:
        Refused: the value is not allowed; the message says what is.
    """
    if choices := setting.metadata.get("choices"):
        if value not in choices:
            raise Refused(
                f"{setting.name} must be one of {', '.join(choices)}, got {value!r}"
                f"{_nearest(str(value), choices)}"
            )
    elif "low" in setting.metadata:
        low, high = setting.metadata["low"], setting.metadata["high"]
        if not (low <= value and (high is None or value <= high)) or value == float("inf"):
            allowed = f"at least {low}" if high is None else f"from {low} to {high}"
            raise Refused(f"{setting.name} must be {allowed}, got {value}")


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[:-1] else names)


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
