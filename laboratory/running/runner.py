"""A study from its first cell to its report: what is finished is kept, and never run twice."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from laboratory.running.cell import load
from laboratory.running.cost import weight
from laboratory.running.digests import ROOT, digest_of
from laboratory.running.machine import kind_of
from laboratory.running.workers import Job, JobResult, perform_all
from laboratory.study.counting import counted
from laboratory.study.description import Cell, Study
from laboratory.study.results import CellResult, Results
from training import devices
from training.cores import cores
from training.errors import Refused

RUNS = Path("runs") / "studies"
THREADS = 1  # of a cell: with more, the order of sums would depend on the machine
PLAIN_EVERY = 15.0  # seconds between two lines where there is no terminal


def run(
    study: Study,
    device: str,
    jobs: int | None,
    data_dir: Path | None,
    console: Console,
    runs: Path = RUNS,
    earlier: Results | None = None,
) -> Results:
    """Run what is not finished yet: first what chooses the learning rates, where the study asks for that.

    Args:
        device: auto, cpu, cuda or mps.
        jobs: cells side by side; as many as it may use cores, or there are GPUs, if left out.
        earlier: results that are extended, wherever they were made: their cells are not run again.

    Raises:
        Refused: results of different settings, data that cannot be had,
            a folder that cannot be written or is in use, or cells that failed.
    """
    begun = commit(study.name)  # now: until the last cell has ended much may be committed
    before = {cell.variant for cell in earlier.cells} if earlier else set()
    if earlier is not None and earlier.provenance.get("asked") != study.asked_of(before):
        raise Refused(
            f"The results of {study.name} were made with different settings: run it without --seeds"
        )
    places = places_of(device, jobs)
    folder = runs / study.name
    old = earlier.cells if earlier else []
    with _alone(folder, study.name):
        chosen = earlier.rates if earlier else {}
        remaining = [cell for cell in study.trials if cell.tuned_at not in chosen]
        tried = _tried(remaining, places, data_dir, folder, console)
        rates = chosen | {name: _best(by) for name, by in tried.items()}
        trials = (earlier.trials if earlier else {}) | tried
        existing = {_which(cell.variant, cell.point, cell.seed) for cell in old}
        cells = [
            cell
            for cell in study.at(rates).cells
            if _which(cell.variant, dict(cell.point), cell.seed) not in existing
        ]
        planned, fingerprint = _planned(cells, places[0], data_dir, folder)
        performed = [*old, *_performed(planned, places, console)]
        levels = earlier.counted if earlier else counted(load(_located(cells[0], data_dir)))
    origin = _made(places[0], begun, fingerprint) | {"asked": study.asked}
    if earlier:
        seeds = ", ".join(map(str, sorted({cell.seed for cell in cells})))
        new = ", ".join(variant for variant in study.variants if variant not in before)
        origin = _extended(
            earlier.provenance, origin, f"{f'{new}, ' if new else ''}seeds {seeds}" if cells else ""
        )
    return Results(study.name, origin, performed, levels, rates, trials)


def _which(variant: str, point: Mapping[str, object], seed: int) -> str:
    return f"{variant} {sorted(point.items())} {seed}"


def _tried(
    trials: Iterable[Cell],
    places: Sequence[str],
    data_dir: Path | None,
    folder: Path,
    console: Console,
) -> dict[str, dict[float, list[float]]]:
    """The losses on the selection split at each factor of the learning rate, by place; NaN where a run
    diverged."""
    planned = _planned(trials, places[0], data_dir, folder)[0]
    losses: dict[str, dict[float, list[float]]] = {}
    results = _performed(planned, places, console) if planned else []
    for job, result in zip(
        sorted(planned, key=lambda planned_job: planned_job.cell.name), results, strict=True
    ):
        assert job.cell.rate is not None
        by = losses.setdefault(job.cell.tuned_at, {})
        by.setdefault(job.cell.rate, []).append(result.figures["loss"])
    return losses


def _best(tried: Mapping[float, Sequence[float]]) -> float:
    """The factor with the lowest mean loss, of those at which no run diverged if there is one."""
    sums = {rate: sum(losses) for rate, losses in tried.items()}
    return min(sums, key=lambda rate: sums[rate] if math.isfinite(sums[rate]) else math.inf)


def _extended(
    old: Mapping[str, str | int], new: Mapping[str, str | int], runs: str
) -> dict[str, str | int]:
    """Where results come from to which runs were added, perhaps on a different machine."""
    if not runs:
        return dict(old)
    changes = ", ".join(f"{key} {new[key]}" for key in ("commit", "machine", "torch"))
    added = f"{runs} with {changes}"
    return {
        **old,
        "asked": new["asked"],
        "extended": "; ".join(filter(None, [str(old.get("extended", "")), added])),
    }


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Hold the folder's lock, so that no other process writes into it."""
    # The system takes the lock back, however its holder ends.
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise Refused(f"Another `course study {name}` is writing into {folder}") from error
    except OSError as error:
        raise Refused(f"{folder} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def places_of(device: str, jobs: int | None) -> list[str]:
    """The device of each process."""
    chosen = devices.pick(device)
    if chosen.type != "cuda" or chosen.index is not None:
        return [str(chosen)] * (jobs or (cores() if chosen.type == "cpu" else 1))
    count = torch.cuda.device_count()
    return [f"cuda:{number % count}" for number in range(jobs or count)]


def _located(cell: Cell, data_dir: Path | None) -> Cell:
    if data_dir is None:
        return cell
    return replace(cell, settings=cell.settings.replace({"data_dir": str(data_dir.resolve())}))


def _planned(
    cells: Iterable[Cell], device_name: str, data_dir: Path | None, folder: Path
) -> tuple[list[Job], str]:
    """Each cell with its folder, the most expensive of a seed first, so that none is left over at the end."""
    located = [_located(cell, data_dir) for cell in cells]
    order = sorted(located, key=lambda cell: (cell.seed, -weight(cell)))
    device = torch.device(device_name)
    machine = kind_of(device)
    fingerprints: dict[tuple[str, str, bool], str] = {}
    jobs = []
    for cell in order:
        data = (cell.task, cell.settings.data, cell.rate is None)
        if data not in fingerprints:
            fingerprints[data] = load(cell).fingerprint
        digest = digest_of(cell, fingerprints[data], device, machine)
        jobs.append(Job(cell, folder / f"{cell.name}-{digest[:12]}"))
    return jobs, " ".join(sorted(fingerprint[:12] for fingerprint in fingerprints.values()))


def _performed(planned: list[Job], places: Sequence[str], console: Console) -> list[CellResult]:
    """All cells in the order of the study, those that were finished before among them."""
    finished = [job for job in planned if job.finished]
    remaining = [job for job in planned if not job.finished]
    if finished:
        console.print(f"{len(finished)} of {len(planned)} cells are finished already")
    by_name = {job.cell.name: job.read() for job in finished}
    failed: list[JobResult] = []
    with _showing([job.cell for job in remaining], console) as ended:
        for done in perform_all(remaining, places, THREADS):
            ended(done)
            if done.result is None:
                failed.append(done)
            else:
                by_name[done.job.cell.name] = done.result
    if failed:
        errors = "\n".join(f"{done.job.cell.name}: {done.error}" for done in failed)
        raise Refused(
            f"{len(failed)} of {len(planned)} cells failed; the others are kept.\n{errors}"
        )
    return [by_name[name] for name in sorted(by_name)]


@contextmanager
def _showing(cells: list[Cell], console: Console) -> Iterator[Callable[[JobResult], None]]:
    """Show how many cells have ended and the time left: a bar in a terminal, else a line now and then.

    Yields a function to call for each cell that has ended.
    """
    total, done, weighed = sum(map(weight, cells)), 0, 0.0
    began = printed = time.perf_counter()
    bar = Progress(
        *(TextColumn("{task.description}"), BarColumn()),
        console=console,
        transient=True,
        disable=not (cells and console.is_terminal),
    )
    task = bar.add_task(f"{len(cells)} cells", total=total)

    def ended(job: JobResult) -> None:
        nonlocal done, weighed, printed
        done, weighed, now = done + 1, weighed + weight(job.job.cell), time.perf_counter()
        remaining = timedelta(seconds=round((now - began) * (total / weighed - 1)))
        words = f"{done} of {len(cells)} cells, about {remaining} left"
        bar.update(task, completed=weighed, description=words)
        if not console.is_terminal and (done == len(cells) or now - printed > PLAIN_EVERY):
            printed = now
            console.print(words)

    with bar:
        yield ended


# --- Where they come from -------------------------------------------------------------------------


def _made(device_name: str, begun: str, fingerprint: str) -> dict[str, str | int]:
    device = torch.device(device_name)
    return {
        "torch": torch.__version__,
        "machine": kind_of(device),
        "device": device.type,
        "threads": THREADS,
        "commit": begun,
        "data": fingerprint,
    }


def commit(study: str) -> str:
    """Of git, and whether the code or the study has changed since; unknown outside a clone."""
    try:
        head, changed = (
            subprocess.run(
                ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (
                ("rev-parse", "--short=12", "HEAD"),
                ("status", "--porcelain", "--", "*.py", f"laboratory/studies/{study}/study.yaml"),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}, changed since" if changed else head
