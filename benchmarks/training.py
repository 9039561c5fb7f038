"""How fast training goes, by task and setting, beside torch's own layers; and what each optimisation brings.

Tasks: the shipped configs, each as `course train` would run it, beside the same run with the encoder and
decoder of `torch.nn`. The contenders see the same batches and take turns in every round, each round beginning
with another one. A ratio is our time over the other's in the same round: below 1 we are faster.

Ladder: one task, from float32 and attention that stores its weights, a step at a time: bfloat16, fused
attention, compilation, a batch four times as large. The gain of a rung is its tokens a second over those of
the rung before it.

Peak memory is that of the device on CUDA; on the CPU it is that of a process of its own, less what it holds
before the first step.

Figures mean something on a quiet machine only. On the CPU, bfloat16 and compilation are seldom faster.

    python benchmarks/training.py                          tasks and ladder, on the CPU
    python benchmarks/training.py --device cuda --ladder shakespeare_gpu --tasks shakespeare_gpu multi30k_gpu
    python benchmarks/training.py --tasks copy arithmetic --data-dir DIR --rounds 9 --json training.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

# A script's own folder comes first, where `training` is this file.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.model import TorchDecoder, TorchEncoder
from training import settings as settings_
from training import tasks
from training.devices import Place, pick
from training.model import Model
from training.run import Run
from training.settings import CONFIGS, Settings
from training.trainer import Trainer, Window

OURS, PLAIN = "ours", "torch.nn"
SAMPLED = 0.002  # seconds between two looks at a process's memory


@dataclass(frozen=True)
class Figures:
    """What was measured of one way to train."""

    tokens_per_second: float
    slowest: float
    fastest: float
    peak_bytes: int | None
    parameters: int


# --- Who takes part -------------------------------------------------------------------------------


class TorchLanguage(nn.Module):
    """torch's encoder as the decoder of a language model."""

    def __init__(self, encoder: nn.TransformerEncoder):
        super().__init__()
        self.encoder = encoder
        self.layers = encoder.layers

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, mask=~mask.squeeze(0), is_causal=True)


def with_torch_layers(model: Model, settings: Settings) -> Model:
    """The same model, its layers torch's own."""
    sizes = {
        "d_model": settings.d_model,
        "nhead": settings.heads,
        "dim_feedforward": settings.d_ff,
        "dropout": settings.dropout,
        "batch_first": True,
        "norm_first": settings.norm == "pre",
    }
    final = settings.norm == "pre"
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes),
        settings.layers,
        nn.LayerNorm(settings.d_model) if final else None,
        enable_nested_tensor=False,
    )
    if not hasattr(model, "encoder"):
        model.decoder = TorchLanguage(encoder)
        return model
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**sizes),
        settings.layers,
        nn.LayerNorm(settings.d_model) if final else None,
    )
    model.encoder, model.decoder = TorchEncoder(encoder), TorchDecoder(decoder)
    return model


class PlainTrainer(Trainer):
    """A trainer of a model with torch's layers."""

    def build(self) -> Model:
        return with_torch_layers(super().build(), self.settings)


def prepared(
    settings: Settings, task: tasks.Task, device: str, kind: type[Trainer] = Trainer
) -> Trainer:
    """A trainer with a folder that nothing is written to."""
    return kind(settings, task, Run(Path(tempfile.gettempdir()) / "no run"), Place(pick(device)))


# --- Measuring ------------------------------------------------------------------------------------


class Runner:
    """One contender, and its batches."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self._groups = trainer._groups()

    def go(self, steps: int) -> float:
        """Tokens a second over a few steps."""
        window, started = Window(), time.perf_counter()
        for _ in range(steps):
            self.trainer._step(next(self._groups), window)
        float(window.losses[-1])  # until the device has done it
        return sum(window.tokens) / (time.perf_counter() - started)


def in_turns(runners: dict[str, Runner], rounds: int, turn: float) -> dict[str, list[float]]:
    """Tokens a second of every contender in every round."""
    for runner in runners.values():
        runner.go(3)  # allocations, the choice of kernels, perhaps compilation
    first = next(iter(runners.values()))
    started = time.perf_counter()
    first.go(2)
    steps = max(1, round(turn / ((time.perf_counter() - started) / 2)))
    paces: dict[str, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            paces[name].append(runners[name].go(steps))
    return paces


def peak(settings: Settings, device: str, kind: type[Trainer], data_dir: Path | None) -> int | None:
    """The most bytes that training needs, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_train_a_little, args=(theirs, settings, device, kind, data_dir))
    child.start()
    held = ours.recv()  # what it holds before the first step
    if pick(device).type == "cuda":
        most = ours.recv()
    else:
        process, most = psutil.Process(child.pid), held
        while not ours.poll(SAMPLED):
            most = max(most, process.memory_info().rss)
    child.join()
    return int(most - held)


def _train_a_little(pipe, settings: Settings, device: str, kind: type[Trainer], data_dir) -> None:
    task = tasks.load(settings, data_dir, Console(quiet=True))
    runner = Runner(prepared(settings, task, device, kind))
    cuda = pick(device).type == "cuda"
    pipe.send(0 if cuda else psutil.Process().memory_info().rss)
    runner.go(5)
    pipe.send(torch.cuda.max_memory_allocated() if cuda else 0)


def figures(paces: list[float], trainer: Trainer, most: int | None) -> Figures:
    """The median of all rounds, and how far they spread."""
    return Figures(statistics.median(paces), min(paces), max(paces), most, trainer.size)


def of_task(name: str, arguments: argparse.Namespace) -> dict[str, object]:
    """A shipped config, by us and by torch's layers."""
    settings = settings_.load(CONFIGS / f"{name}.yaml")
    task = tasks.load(settings, arguments.data_dir, Console())
    kinds = {OURS: Trainer, PLAIN: PlainTrainer}
    runners = {
        key: Runner(prepared(settings, task, arguments.device, kind)) for key, kind in kinds.items()
    }
    paces = in_turns(runners, arguments.rounds, arguments.turn)
    ratios = [theirs / ours for ours, theirs in zip(paces[OURS], paces[PLAIN], strict=True)]
    found: dict[str, object] = {
        key: asdict(
            figures(
                paces[key],
                runners[key].trainer,
                peak(settings, arguments.device, kind, arguments.data_dir),
            )
        )
        for key, kind in kinds.items()
    }
    return found | {"ratio": statistics.median(ratios)}


def rungs(settings: Settings) -> dict[str, Settings]:
    """The ladder: each rung is the one before it and one thing more."""
    bare = settings.but({"precision": "fp32", "fused": False, "compile": False})
    half = bare.but({"precision": "bf16"})
    fused = half.but({"fused": True})
    compiled = fused.but({"compile": True})
    larger = compiled.but({"batch": 4 * settings.batch, "batch_tokens": 4 * settings.batch_tokens})
    return {
        "float32": bare,
        "+ bfloat16": half,
        "+ fused attention": fused,
        "+ compile": compiled,
        "+ batch × 4": larger,
    }


def of_ladder(name: str, arguments: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Every rung in turns; the gain of each over the one before it."""
    found = rungs(settings_.load(CONFIGS / f"{name}.yaml"))
    runners = {
        rung: Runner(
            prepared(
                settings,
                tasks.load(settings, arguments.data_dir, Console()),
                arguments.device,
            )
        )
        for rung, settings in found.items()
    }
    paces = in_turns(runners, arguments.rounds, arguments.turn)
    told: dict[str, dict[str, object]] = {
        rung: asdict(
            figures(
                paces[rung],
                runners[rung].trainer,
                peak(settings, arguments.device, Trainer, arguments.data_dir),
            )
        )
        for rung, settings in found.items()
    }
    for before, after in pairwise(found):
        gains = [b / a for a, b in zip(paces[before], paces[after], strict=True)]
        told[after]["gain"] = statistics.median(gains)
    return told


# --- What is told ---------------------------------------------------------------------------------


def show_tasks(found: dict[str, dict], console: Console) -> None:
    """Tasks: a line for each contender."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("config", "", "parameters", "tokens/s", "range", "peak", "ours / torch.nn"):
        table.add_column(column, justify="left" if column in ("config", "") else "right")
    for name, one in found.items():
        for key in (OURS, PLAIN):
            row = one[key]
            table.add_row(
                name if key == OURS else "",
                key,
                f"{row['parameters']:,}",
                f"{row['tokens_per_second']:,.0f}",
                f"{row['slowest']:,.0f} – {row['fastest']:,.0f}",
                in_words(row["peak_bytes"]),
                f"{one['ratio']:.2f}" if key == OURS else "",
            )
    console.print(table)


def show_ladder(name: str, found: dict[str, dict], console: Console) -> None:
    """The ladder: a line for each rung."""
    table = Table(box=box.SIMPLE_HEAD, title=f"ladder: {name}", title_justify="left")
    for column in ("", "tokens/s", "range", "peak", "gain"):
        table.add_column(column, justify="right" if column else "left")
    for rung, row in found.items():
        table.add_row(
            rung,
            f"{row['tokens_per_second']:,.0f}",
            f"{row['slowest']:,.0f} – {row['fastest']:,.0f}",
            in_words(row["peak_bytes"]),
            f"× {row['gain']:.2f}" if "gain" in row else "",
        )
    console.print(table)


def in_words(most: int | None) -> str:
    """Bytes as MiB."""
    return "unmeasured" if most is None else f"{most / 2**20:,.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    usual = ["copy", "sorting", "arithmetic", "translation"]
    parser.add_argument("--tasks", nargs="*", default=usual, help="configs by name")
    parser.add_argument("--ladder", nargs="*", default=["translation"], help="configs by name")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--turn", type=float, default=1.0, help="seconds of a turn")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()

    device = pick(arguments.device)
    chip = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    where = {
        "device": f"{device}, {chip}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    console = Console(soft_wrap=True, highlight=False)
    console.print(", ".join(f"{key} {value}" for key, value in where.items()))
    by_task = {name: of_task(name, arguments) for name in arguments.tasks}
    if by_task:
        show_tasks(by_task, console)
    ladders = {name: of_ladder(name, arguments) for name in arguments.ladder}
    for name, found in ladders.items():
        show_ladder(name, found, console)
    if arguments.json:
        everything = {"machine": where, "tasks": by_task, "ladders": ladders}
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
