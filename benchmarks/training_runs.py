"""Speed of training by task and setting, beside torch's own layers, and the gain of each optimization.

Tasks: the shipped configs as `course train` runs them, beside the same runs with encoder and decoder of
`torch.nn`. The contenders have the same batches and alternate. A ratio is our time over the other's in the
same round: below 1 we are faster.

Ladder: one task, from float32 and attention that stores its weights, adding one thing at a time: bfloat16,
fused attention, compilation, a batch four times as large. The gain of a rung is its tokens per second over
those of the previous rung.

Peak memory is that of the device on CUDA; on the CPU it is that of a process of its own, beyond what it holds
before the first step. Use a quiet machine. On the CPU bfloat16 and compilation are seldom faster.

    python benchmarks/training_runs.py                          tasks and ladder, on the CPU
    python benchmarks/training_runs.py --device cuda --ladder shakespeare_gpu \\
        --tasks shakespeare_gpu multi30k_gpu
    python benchmarks/training_runs.py --tasks copy arithmetic --data-dir DIR --rounds 9 --json training.json
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import frame
import psutil
import torch
from model import TorchDecoder, TorchEncoder
from rich.console import Console
from torch import Tensor, nn

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


# --- Contenders -----------------------------------------------------------------------------------


class TorchLanguage(nn.Module):
    """torch's encoder as the decoder of a language model."""

    def __init__(self, encoder: nn.TransformerEncoder):
        super().__init__()
        self.encoder = encoder
        self.layers = encoder.layers

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, mask=~mask.squeeze(0), is_causal=True)


def with_torch_layers(model: Model, settings: Settings) -> Model:
    """Replace a model's layers by torch's own."""
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
    """Return a trainer with a folder that nothing is written to."""
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
        """Return tokens per second over some steps."""
        window, started = Window(), time.perf_counter()
        for _ in range(steps):
            self.trainer._step(next(self._groups), window)
        float(window.losses[-1])  # waits for the device
        return sum(window.tokens) / (time.perf_counter() - started)


def peak(settings: Settings, device: str, kind: type[Trainer]) -> int | None:
    """Return the peak memory of training, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_train_a_little, args=(theirs, settings, device, kind))
    child.start()
    held = ours.recv()  # before the first step
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


def paces_of(runners: dict[str, Runner], arguments: argparse.Namespace) -> frame.Taken:
    """Return tokens per second of every contender by round."""
    goes = {name: runner.go for name, runner in runners.items()}
    return frame.in_long_turns(goes, arguments.rounds, arguments.turn)


def figures(
    trainer: Trainer, paces: list[float], arguments: argparse.Namespace
) -> dict[str, float | int | None]:
    """Return the median of all rounds, the range, and the memory."""
    return {
        "tokens_per_second": statistics.median(paces),
        "slowest": min(paces),
        "fastest": max(paces),
        "peak_bytes": peak(trainer.settings, arguments.device, type(trainer)),
        "parameters": trainer.size,
    }


def settings_of(name: str, arguments: argparse.Namespace) -> Settings:
    """Return a shipped config, with the data in `--data-dir`."""
    return settings_.load(CONFIGS / f"{name}.yaml").but({"data_dir": str(arguments.data_dir or "")})


def of_task(name: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Measure a shipped config, with our layers and torch's."""
    settings = settings_of(name, arguments)
    task = tasks.load(settings, frame.console)
    kinds = {OURS: Trainer, PLAIN: PlainTrainer}
    runners = {
        key: Runner(prepared(settings, task, arguments.device, kind)) for key, kind in kinds.items()
    }
    paces = paces_of(runners, arguments)
    found: dict[str, object] = {
        key: figures(runner.trainer, paces[key], arguments) for key, runner in runners.items()
    }
    # The pace of theirs over ours is our time over theirs.
    return found | {"ratio": statistics.median(frame.ratios(paces[PLAIN], paces[OURS]))}


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
                tasks.load(settings, frame.console),
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
        found[after]["gain"] = statistics.median(frame.ratios(paces[after], paces[before]))
    return found


# --- What is printed ------------------------------------------------------------------------------


def show_tasks(found: dict[str, dict]) -> None:
    """Print a row for each contender."""
    lines = frame.table(["config", ""], ["parameters", *PACE, "ours / torch.nn"])
    for name, one in found.items():
        for key, config, ratio in ((OURS, name, f"{one['ratio']:.2f}"), (PLAIN, "", "")):
            row = one[key]
            lines.add_row(config, key, f"{row['parameters']:,}", *pace(row), ratio)
    frame.console.print(lines)


def show_ladder(name: str, found: dict[str, dict]) -> None:
    """Print a row for each rung."""
    lines = frame.table([""], [*PACE, "gain"], f"ladder: {name}")
    for rung, row in found.items():
        lines.add_row(rung, *pace(row), f"× {row['gain']:.2f}" if "gain" in row else "")
    frame.console.print(lines)


def pace(row: dict[str, float]) -> tuple[str, str, str]:
    """Return the cells of `PACE`."""
    return (
        f"{row['tokens_per_second']:,.0f}",
        f"{row['slowest']:,.0f} – {row['fastest']:,.0f}",
        frame.in_mib(row["peak_bytes"]),
    )


def main() -> None:
    """Measure and print."""
    parser = frame.options(__doc__, rounds=7)
    usual = ["copy", "sorting", "arithmetic", "translation"]
    parser.add_argument("--tasks", nargs="*", default=usual, help="configs by name")
    parser.add_argument("--ladder", nargs="*", default=["translation"], help="configs by name")
    parser.add_argument("--turn", type=float, default=1.0, help="seconds of a turn")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", type=Path)
    arguments = parser.parse_args()

    where = frame.show_machine(pick(arguments.device))
    by_task = {name: of_task(name, arguments) for name in arguments.tasks}
    if by_task:
        show_tasks(by_task)
    ladders = {name: of_ladder(name, arguments) for name in arguments.ladder}
    for name, found in ladders.items():
        show_ladder(name, found)
    frame.write({"machine": where, "tasks": by_task, "ladders": ladders}, arguments.json)


if __name__ == "__main__":
    main()
