"""The files of a published model, as `transformers` writes them, read as data: nothing in them is
executed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import tokenizers
from torch import Tensor

from training.data.lfs_pointers import refuse_a_pointer
from training.errors import Refused

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
ENDS, TOKENIZER_CONFIG = "generation_config.json", "tokenizer_config.json"  # may be missing
TEMPLATE = "chat_template.jinja"  # likewise
ADAPTER = "adapter_config.json"
SLOW_TOKENIZERS = ("tokenizer.model", "spiece.model", "vocab.json", "merges.txt")


def refuse_incomplete(folder: Path) -> None:
    """Refuse a folder without all files, and say what the folder may be instead.

    Raises:
        Refused: the folder is an adapter, has a tokenizer that needs converting, or has pointers
            instead of files.
    """
    if (folder / ADAPTER).exists() and not (folder / CONFIG).exists():
        base = read_json(folder / ADAPTER).get("base_model_name_or_path")
        raise Refused(
            f"{folder} holds a LoRA adapter: low-rank changes to the weights of {base!r}, not a model. "
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


COMPILED = "_orig_mod."  # before each name, where a model was saved as torch.compile returned it


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the published tensors by name, from one file or several."""
    return {name.removeprefix(COMPILED): tensor for name, tensor in _all_tensors(folder).items()}


def _all_tensors(folder: Path) -> dict[str, Tensor]:
    if (folder / WEIGHTS).exists():
        return _tensors(folder / WEIGHTS)
    if not (folder / INDEX).exists():
        old = [path.name for path in sorted(folder.glob("*.bin"))]
        why = f". {old[0]} is a pickle, which may run code: it is not read" if old else ""
        raise Refused(f"{folder} has neither {WEIGHTS} nor {INDEX}{why}")
    result: dict[str, Tensor] = {}
    files = weight_map(folder / INDEX)
    for file in sorted(set(files.values())):
        tensors = _tensors(folder / file)
        missing = [name for name, its in files.items() if its == file and name not in tensors]
        if missing:
            raise Refused(f"{folder / file} has no {missing[0]}, which {INDEX} says it has")
        result |= tensors
    return result


def weight_map(index: Path) -> dict[str, str]:
    """Return the file of each tensor."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise Refused(f"{index} names no files: it needs a weight_map")
    for file in files.values():
        if not isinstance(file, str) or not re.fullmatch(r"[\w.-]+\.safetensors", file, re.ASCII):
            raise Refused(f"{index} names {file!r}, which is not a .safetensors file beside it")
    return files


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


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    read_json(path)  # which says more of what is missing or damaged
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # it raises nothing narrower
        raise Refused(f"{path} is not a tokenizer: {error}") from error


def end_tokens(
    folder: Path, config: Mapping[str, Any], tokenizer: tokenizers.Tokenizer
) -> frozenset[int]:
    """Return the tokens that end a text, from the first file that names any: the generation config, the
    model's config, or the tokenizer's."""
    for settings in (_optional(folder / ENDS), config):
        ids = settings.get("eos_token_id")
        if ends := frozenset(
            end for end in (ids if isinstance(ids, list) else [ids]) if type(end) is int
        ):
            return ends
    token = _optional(folder / TOKENIZER_CONFIG).get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    end = tokenizer.token_to_id(content) if isinstance(content, str) else None
    return frozenset() if end is None else frozenset([end])


def chat_template(folder: Path) -> str | None:
    """Return the chat template: from its own file, or from the tokenizer's, which may contain several
    named templates."""
    if (path := folder / TEMPLATE).exists():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise Refused(f"{path} cannot be read: {error}") from error
    template = _optional(folder / TOKENIZER_CONFIG).get("chat_template")
    if isinstance(template, list):
        named = {
            entry.get("name"): entry.get("template")
            for entry in template
            if isinstance(entry, dict)
        }
        template = named.get("default")
    return template if isinstance(template, str) else None


def special_tokens(folder: Path) -> dict[str, str]:
    config = _optional(folder / TOKENIZER_CONFIG)
    tokens = {}
    for name in ("bos_token", "eos_token"):
        token = config.get(name)
        content = token.get("content") if isinstance(token, dict) else token
        tokens[name] = content if isinstance(content, str) else ""
    return tokens


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise Refused(f"{path} is damaged: it must hold an object")
    return content
