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

    python benchmarks/training_runs.py                          tasks and ladder, on the CPU
    python benchmarks/training_runs.py --device cuda --ladder shakespeare_gpu \\
        --tasks shakespeare_gpu multi30k_gpu
    python benchmarks/training_runs.py --tasks copy arithmetic --data-dir DIR --rounds 9 --json training.json
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import torch
from rich.console import Console
from torch import Tensor, nn

# A script's own folder comes first, where `training` is this file.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from model import TorchDecoder, TorchEncoder
from rounds import (
    console,
    in_long_turns,
    in_words,
    machine_with,
    ratios,
    show_machine,
    table,
    write,
)

from training import settings as settings_
from training.data import tasks
from training.devices import ProcessContext, pick
from training.loop.run_folder import Run
from training.loop.trainer import Trainer, Window
from training.models.architectures import Model
from training.settings import CONFIGS, Settings

OURS, PLAIN = "ours", "torch.nn"
PACE = ["tokens/s", "range", "peak"]
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
    return kind(
        settings, task, Run(Path(tempfile.gettempdir()) / "no run"), ProcessContext(pick(device))
    )


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


def peak(settings: Settings, device: str, kind: type[Trainer]) -> int | None:
    """The most bytes that training needs, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_train_a_little, args=(theirs, settings, device, kind))
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


def _train_a_little(pipe, settings: Settings, device: str, kind: type[Trainer]) -> None:
    task = tasks.load(settings, Console(quiet=True))
    runner = Runner(prepared(settings, task, device, kind))
    cuda = pick(device).type == "cuda"
    pipe.send(0 if cuda else psutil.Process().memory_info().rss)
    runner.go(5)
    pipe.send(torch.cuda.max_memory_allocated() if cuda else 0)


def paces_of(runners: dict[str, Runner], arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Tokens a second of every contender in every round."""
    goes = {name: runner.go for name, runner in runners.items()}
    return in_long_turns(goes, arguments.rounds, arguments.turn)


def figures(
    trainer: Trainer, paces: list[float], arguments: argparse.Namespace
) -> dict[str, float | int | None]:
    """The median of all rounds, how far they spread, and the memory."""
    most = peak(trainer.settings, arguments.device, type(trainer))
    return asdict(Figures(statistics.median(paces), min(paces), max(paces), most, trainer.size))


def settings_of(name: str, arguments: argparse.Namespace) -> Settings:
    """A shipped config, with the data where they were said to be."""
    return settings_.load(CONFIGS / f"{name}.yaml").but({"data_dir": str(arguments.data_dir or "")})


def of_task(name: str, arguments: argparse.Namespace) -> dict[str, object]:
    """A shipped config, by us and by torch's layers."""
    settings = settings_of(name, arguments)
    task = tasks.load(settings, console)
    kinds = {OURS: Trainer, PLAIN: PlainTrainer}
    runners = {
        key: Runner(prepared(settings, task, arguments.device, kind)) for key, kind in kinds.items()
    }
    paces = paces_of(runners, arguments)
    found: dict[str, object] = {
        key: figures(runner.trainer, paces[key], arguments) for key, runner in runners.items()
    }
    # Of paces, theirs over ours: that is our time over theirs.
    return found | {"ratio": statistics.median(ratios(paces[PLAIN], paces[OURS]))}


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
    steps = rungs(settings_of(name, arguments))
    runners = {
        rung: Runner(
            prepared(
                settings,
                tasks.load(settings, console),
                arguments.device,
            )
        )
        for rung, settings in steps.items()
    }
    paces = paces_of(runners, arguments)
    found: dict[str, dict[str, object]] = {
        rung: figures(runner.trainer, paces[rung], arguments) for rung, runner in runners.items()
    }
    for before, after in pairwise(found):
        found[after]["gain"] = statistics.median(ratios(paces[after], paces[before]))
    return found


# --- What is told ---------------------------------------------------------------------------------


def show_tasks(found: dict[str, dict]) -> None:
    """Tasks: a line for each contender."""
    lines = table(["config", ""], ["parameters", *PACE, "ours / torch.nn"])
    for name, one in found.items():
        for key, config, ratio in ((OURS, name, f"{one['ratio']:.2f}"), (PLAIN, "", "")):
            row = one[key]
            lines.add_row(config, key, f"{row['parameters']:,}", *pace(row), ratio)
    console.print(lines)


def show_ladder(name: str, found: dict[str, dict]) -> None:
    """The ladder: a line for each rung."""
    lines = table([""], [*PACE, "gain"], f"ladder: {name}")
    for rung, row in found.items():
        lines.add_row(rung, *pace(row), f"× {row['gain']:.2f}" if "gain" in row else "")
    console.print(lines)


def pace(row: dict[str, float]) -> tuple[str, str, str]:
    """The cells of `PACE`."""
    return (
        f"{row['tokens_per_second']:,.0f}",
        f"{row['slowest']:,.0f} – {row['fastest']:,.0f}",
        in_words(row["peak_bytes"]),
    )


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

    where = machine_with(pick(arguments.device))
    show_machine(where)
    by_task = {name: of_task(name, arguments) for name in arguments.tasks}
    if by_task:
        show_tasks(by_task)
    ladders = {name: of_ladder(name, arguments) for name in arguments.ladder}
    for name, found in ladders.items():
        show_ladder(name, found)
    write({"machine": where, "tasks": by_task, "ladders": ladders}, arguments.json)


if __name__ == "__main__":
    main()
