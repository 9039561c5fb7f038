"""What a run shows: a live display or plain lines, `metrics.csv`, TensorBoard."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from training.checkpoints import write_atomically
from training.loop.run_folder import Run

RECENT = 100  # rows from which the remaining time is estimated
PLAIN_EVERY = 15.0  # seconds between two lines without a terminal


@dataclass
class Row:
    """The metrics of a step: a row of `metrics.csv`. Losses are per token, without label smoothing."""

    step: int
    seconds: float
    loss: float
    perplexity: float
    validation_loss: float | None
    validation_perplexity: float | None
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    memory_bytes: float | None
    mfu: float | None
    """Model FLOPs utilization: the fraction of the device's peak FLOP/s that the model uses
    (Chowdhery et al. 2022, *PaLM*, appendix B)."""


COLUMNS = [column.name for column in fields(Row)]


def perplexity(loss: float) -> float:
    """Return exp(loss), for a loss per token."""
    return math.exp(loss) if loss < 700 else math.inf


def read_metrics(run: Run) -> list[dict[str, float | None]]:
    """Read the rows of `metrics.csv`, without an incomplete last row."""
    try:
        text = run.metrics.read_text(encoding="utf-8")
    except OSError:
        return []
    complete = text[: text.rfind("\n") + 1]  # half of a number may be a number, too
    rows: list[dict[str, float | None]] = []
    for row in csv.DictReader(complete.splitlines()):
        try:
            rows.append({name: float(row[name]) if row[name] else None for name in COLUMNS})
        except (TypeError, ValueError, KeyError):
            break
    return rows


def _as_csv(rows: list[dict[str, float | None]]) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _written(value) for name, value in row.items()})
    return file.getvalue()


class Monitor:
    """Show and record the metrics of a run.

    Args:
        steps: the total number of steps.
        done: steps already done; rows of later steps, from a killed run, are removed.
    """

    def __init__(self, run: Run, steps: int, done: int, console: Console):
        self._steps = steps
        self._console = console
        self._pace: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._told = -math.inf
        self._best: tuple[float, int] | None = None
        self._live: Live | None = None
        self._lost = False
        rows = [row for row in read_metrics(run) if (row["step"] or 0) <= done]
        for old in rows:
            self._note(old["validation_loss"], old["step"])
        write_atomically(run.metrics, _as_csv(rows).encode())
        self._file = run.metrics.open("a", newline="", encoding="utf-8")
        self._csv = csv.DictWriter(self._file, COLUMNS)
        from torch.utils.tensorboard import SummaryWriter  # imported here because it takes a second

        self._board: Any = SummaryWriter(str(run.folder), purge_step=done + 1)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show the display while the run trains."""
        try:
            if self._console.is_terminal:
                with Live(
                    console=self._console, refresh_per_second=4, transient=True
                ) as self._live:
                    yield
            else:
                yield
        finally:
            self._live = None
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(OSError):
                self._board.close()

    def show(self, row: Row) -> None:
        """Show a row."""
        self._note(row.validation_loss, row.step)
        self._pace.append((row.step, time.perf_counter()))
        if self._live is not None:
            self._live.update(self._panel(row))
            if (
                row.validation_loss is not None
            ):  # printed above the display, and stays when it is gone
                self._console.print(Text(self._history(row), "dim"), soft_wrap=True)
        elif row.validation_loss is not None or time.perf_counter() - self._told > PLAIN_EVERY:
            self._told = time.perf_counter()
            self._console.print(Text(self._line(row)), soft_wrap=True)

    def keep(self, row: Row) -> None:
        """Write a row to `metrics.csv` and TensorBoard."""
        try:
            self._csv.writerow({name: _written(value) for name, value in asdict(row).items()})
            self._file.flush()
            for name, value in asdict(row).items():
                if name not in ("step", "seconds") and value is not None:
                    self._board.add_scalar(name, value, row.step)
        except OSError as error:  # a full disk must not end the run
            if not self._lost:
                self.say(f"The metrics of step {row.step} could not be written: {error.strerror}")
            self._lost = True

    def say(self, words: str) -> None:
        """Print a message."""
        self._console.print(Text(words, "yellow"), soft_wrap=True)

    def _note(self, loss: float | None, step: float | None) -> None:
        """The best validation so far, including before a resumed run was stopped."""
        if loss is not None and step is not None and (self._best is None or loss < self._best[0]):
            self._best = loss, int(step)

    def _left(self, row: Row) -> str:
        """The remaining time at the pace of the last rows."""
        (first, then), (last, now) = self._pace[0], self._pace[-1]
        if first == last:
            return "–"
        remaining = (now - then) / (last - first) * (self._steps - row.step)
        return str(timedelta(seconds=round(remaining)))

    def _history(self, row: Row) -> str:
        number = f"{row.step:>{len(str(self._steps))}}"
        return f"step {number}  loss {row.loss:.4f}  {_validation(row)}"

    def _line(self, row: Row) -> str:
        words = [
            f"step {row.step}/{self._steps}",
            f"loss {row.loss:.4f}",
            f"perplexity {short(row.perplexity)}",
        ]
        if row.validation_loss is not None:
            words.append(_validation(row))
        words += [
            f"{row.tokens_per_second:,.0f} tokens/s",
            f"rate {row.learning_rate:.2e}",
            f"left {self._left(row)}",
        ]
        return "  ".join(words + self._of_the_gpu(row))

    def _of_the_gpu(self, row: Row) -> list[str]:
        words = []
        if row.memory_bytes is not None:
            words.append(f"{row.memory_bytes / 2**30:.1f} GB")
        if row.mfu is not None:
            words.append(f"MFU {row.mfu:.0%}")
        return words

    def _panel(self, row: Row) -> RenderableType:
        bar = Table.grid(padding=(0, 2, 0, 0))
        share = Text(f"{row.step} of {self._steps}", "bold")
        bar.add_row(
            share, ProgressBar(self._steps, row.step, width=36), Text(f"{self._left(row)} left")
        )
        facts = Table.grid(padding=(0, 3, 0, 0))
        names = ["loss", "perplexity", "tokens/s", "learning rate"]
        values = [
            f"{row.loss:.4f}",
            short(row.perplexity),
            f"{row.tokens_per_second:,.0f}",
            f"{row.learning_rate:.2e}",
        ]
        if self._best is not None:
            names.append("best validation")
            values.append(f"{self._best[0]:.4f} at {self._best[1]}")
        for words in self._of_the_gpu(row):
            names.append("GPU")
            values.append(words)
        facts.add_row(*(Text(name, "dim") for name in names))
        facts.add_row(*values)
        return Group(bar, facts)


def _validation(row: Row) -> str:
    assert row.validation_loss is not None and row.validation_perplexity is not None
    return f"validation {row.validation_loss:.4f}  (perplexity {short(row.validation_perplexity)})"


def short(perplexity: float) -> str:
    """Format a perplexity with significant digits only, and without an exponent."""
    if perplexity < 100:
        return f"{perplexity:.3f}"
    return f"{perplexity:,.0f}" if perplexity < 1e9 else "over 1,000,000,000"


def _written(value: float | None) -> str:
    """Format integers as such, and other numbers with float32's digits."""
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() else f"{value:.9g}"
