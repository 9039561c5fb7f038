"""Sections of a long benchmark, which share the time, and which a killed run does not repeat."""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import frame
import torch

ROOT = Path(__file__).resolve().parent.parent
SHOWN = {
    "tokens/s": "{:,.0f} tokens/s",
    "ms": "{:,.3f} ms",
    "times": "{:.2f} × the time of the first",
    "TFLOP/s": "{:,.1f} TFLOP/s",
    "MFU": "MFU {:.1%}",
    "GiB": "{:.2f} GiB",
    "loss": "loss {:.3f}",
    "seconds": "{:,.0f} s",
    "same": "{:.1%} of tokens as the first",
    "parameters": "{:,} parameters",
    "note": "{}",
}


class Skipped(Exception):
    """A section cannot run here; its text says why."""


@dataclass(frozen=True)
class BenchContext:
    """Where a section runs, and how long it may take: 0 seconds on a dry run."""

    device: torch.device
    dry: bool
    out: Path
    nanogpt: Path | None = None
    data_dir: Path | None = None
    seconds: float = 0.0

    def size(self, full: Any, toy: Any) -> Any:
        """Return one of the two."""
        return toy if self.dry else full

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.dry else torch.bfloat16

    @property
    def card(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU, dry"


@dataclass(frozen=True)
class Section:
    """One thing to show.

    Attributes:
        weight: seconds that it takes of nine minutes on an H100; the sections share the time by it.
        least: it is not begun with fewer seconds left.
    """

    name: str
    measure: Callable[[BenchContext], list[frame.Row]]
    weight: float
    goal: str = ""
    least: float = 0.0


def code() -> str:
    """Return a digest of the code that the figures depend on."""
    files = [
        file
        for room in ("benchmarks", "variants", "training")
        for file in (ROOT / room).rglob("*.py")
    ]
    files += [ROOT / "implementation.py"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:8]


class Results:
    """The records of all sections in a file of JSON lines, and beside it as a table in Markdown."""

    def __init__(self, file: Path, card: str):
        self.file = file
        self.key = f"{card}, torch {torch.__version__}, code {code()}"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.records: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def statuses(self) -> dict[str, str]:
        """Return the status of each section that was run on this card with this code."""
        return {
            entry["part"]: entry["status"] for entry in self.records if entry["key"] == self.key
        }

    def add(self, section: Section, status: str, rows: list[frame.Row], seconds: float) -> None:
        """Replace a section's record in both files. A kill leaves each file as it was or as it will be."""
        from training.checkpoints import write_atomically

        new = {"key": self.key, "part": section.name, "goal": section.goal, "status": status}
        old = [
            entry
            for entry in self.records
            if (entry["key"], entry["part"]) != (self.key, section.name)
        ]
        self.records = [*old, {**new, "seconds": round(seconds, 1), "rows": rows}]
        lines = (json.dumps(record, ensure_ascii=False) for record in self.records)
        write_atomically(self.file, ("\n".join(lines) + "\n").encode())
        write_atomically(self.file.with_suffix(".md"), self.as_table().encode())

    def as_table(self) -> str:
        """Return Markdown: a table for each card, torch and code."""
        lines = []
        for key in dict.fromkeys(entry["key"] for entry in self.records):
            lines += [f"**{key}**", "", "| part | goal | | measured |", "|---|---|---|---|"]
            for record in (entry for entry in self.records if entry["key"] == key):
                first = f"{record['part']} | {record['goal']}"
                for row in record["rows"]:
                    cells = ", ".join(
                        SHOWN[name].format(row[name]) for name in SHOWN if name in row
                    )
                    lines.append(f"| {first} | {row['what']} | {cells.replace('|', '/')} |")
                    first = " | "
            lines.append("")
        return "\n".join(lines)


def outcome(section: Section, here: BenchContext) -> tuple[str, list[frame.Row]]:
    """Return a section's status and rows; an exception becomes its row."""
    try:
        return "done", section.measure(here)
    except (Skipped, ModuleNotFoundError) as error:
        return "skipped", [{"what": "", "note": f"skipped: {error}"}]
    except Exception as error:
        if type(error).__name__ == "Interrupted":  # what the trainer makes of Ctrl-C
            raise KeyboardInterrupt from error
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return "failed", [{"what": "", "note": words}]
    finally:
        if here.device.type == "cuda":
            torch.compiler.reset()  # compiled code holds its model
            gc.collect()
            torch.cuda.empty_cache()


def run(sections: list[Section], here: BenchContext, file: Path, seconds: float) -> bool:
    """Run the sections that are not done, failed or skipped ones last. Returns whether none failed."""
    until, results = time.monotonic() + seconds, Results(file, here.card)
    earlier = results.statuses()
    waiting = [section for section in sections if earlier.get(section.name) != "done"]
    waiting.sort(key=lambda section: section.name in earlier)
    while waiting:
        remaining, weights = until - time.monotonic(), sum(section.weight for section in waiting)
        section = waiting.pop(0)
        if remaining <= section.least:
            frame.console.print(f"{section.name}: no time left; run the command again")
            continue
        share = here.size(remaining * section.weight / weights, 0.0)
        started = time.monotonic()
        status, rows = outcome(section, replace(here, seconds=share))
        took = time.monotonic() - started
        results.add(section, status, rows, took)
        frame.console.print(f"{section.name}: {status} in {took:.0f} s")
    frame.console.print(results.as_table(), markup=False)
    return "failed" not in results.statuses().values()
