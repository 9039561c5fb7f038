"""How the course's costs grow: CPU seconds against size, and the exponent e of the fitted c·n^e.

    step        a training step of a GPT (forward, backward, AdamW; 4 rows of 128 tokens) against its
                parameters, from width 32 to 512. At large widths the products decide, and e tends to 1.
    decoding    the next token of a GPT of 4 layers and width 256 against the tokens before it, with a cache
                and without. Without one the model reads all of them again: e is 1 at least, and tends to 2.
    grade       `course grade`, all days, against learners, with one worker and with two
    tests       the checks of `make test` that belong to days, against the number of days

Models and caches are allocated before the clock starts, and a first call is not timed. On one thread of the
CPU; contenders and sizes alternate. Each curve is also drawn, in an SVG of its name in the folder `--out`.

    python benchmarks/growth.py step decoding
    python benchmarks/growth.py grade tests --rounds 1         an hour; run nothing else
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import frame
import torch
import torch.nn.functional as F

from course.curriculum import DAYS, ROOT
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import new_cache

Curve = dict[int, Callable[[], float]]
"""What returns the seconds of one call, by size."""


def step() -> dict[str, Curve]:
    """Return a training step of each model, by its parameters."""
    tokens, acts = torch.randint(256, (4, 129)), {}
    for width in (32, 64, 128, 256, 512):
        model = GPT(GPTConfig(256, 128, 4, 4, width, 4 * width, dropout=0.0))
        adam = torch.optim.AdamW(model.parameters(), fused=True)

        def act(model: GPT = model, adam: torch.optim.Optimizer = adam) -> None:
            adam.zero_grad(set_to_none=False)
            logits = model(tokens[:, :-1]).flatten(0, 1)
            F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
            adam.step()

        acts[frame.parameters(model)] = act
    return {"a training step": warmed(acts)}


def decoding() -> dict[str, Curve]:
    """Return the computation of one more token, by the number of tokens before it."""
    model = GPT(GPTConfig(1000, 2049, 4, 4, 256, 1024, dropout=0.0)).eval()
    model.requires_grad_(False)
    cache, text = new_cache(model.config, 1, 2049), torch.randint(1000, (1, 2049))
    cache.keys.normal_()
    cache.values.normal_()

    def cached(count: int) -> None:
        cache.lengths, cache.length = [count] * model.config.n_layers, count
        model(text[:, count : count + 1], cache)

    lengths = [2**power for power in range(6, 12)]
    return {
        "with a cache": warmed({length: partial(cached, length) for length in lengths}),
        "without": warmed({length: partial(model, text[:, : length + 1]) for length in lengths}),
    }


def warmed(acts: dict[int, Callable[[], object]]) -> Curve:
    """Return the timing of each call, after one that is not timed."""
    for act in acts.values():
        act()
    return {size: partial(frame.cpu_seconds, act) for size, act in acts.items()}


def of_children(command: list[str]) -> float:
    """Return the CPU seconds of a program and its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def grade() -> dict[str, Curve]:
    """Return the grading of right answers, by the number of learners."""
    from grading import make_class

    def graded(learners: int, jobs: int) -> float:
        with tempfile.TemporaryDirectory() as name:
            make_class(Path(name, "class"), learners)
            out = ["--out", str(Path(name, "out")), "--jobs", str(jobs)]
            return of_children(["course.cli", "grade", str(Path(name, "class")), *out])

    sizes = (10, 30, 60, 120)
    return {f"jobs {jobs}": {n: partial(graded, n, jobs) for n in sizes} for jobs in (1, 2)}


def tests() -> dict[str, Curve]:
    """Return the checks of the first days, by their number."""

    def checked(number: int) -> float:
        chosen = " or ".join(day.stem for day in DAYS[:number])
        files = ["tests/course/test_days.py", "tests/days"]
        return of_children(["pytest", "-q", "-n", "0", *files, "-k", chosen])

    return {"checks": {number: partial(checked, number) for number in (5, 10, 20, 35, 50)}}


CURVES: dict[str, tuple[Callable[[], dict[str, Curve]], str]] = {
    "step": (step, "parameters"),
    "decoding": (decoding, "tokens before"),
    "grade": (grade, "learners"),
    "tests": (tests, "days"),
}


def main() -> None:
    """Measure, print and draw."""
    parser = frame.options(__doc__, rounds=5)
    parser.add_argument(
        "curves", nargs="+", choices=CURVES, metavar="CURVE", help=", ".join(CURVES)
    )
    parser.add_argument("--out", type=Path, default=Path("runs/growth"), help="of the pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    frame.on_one_thread(64)
    for name in args.curves:
        make, unit = CURVES[name]
        contenders = {
            (key, n): act for key, by_length in make().items() for n, act in by_length.items()
        }
        curves: dict[str, dict[int, float]] = {}
        for (key, n), seconds in frame.in_turns(contenders, args.rounds).items():
            curves.setdefault(key, {})[n] = statistics.median(seconds)
        for key, curve in curves.items():
            lines = frame.table([unit], ["CPU ms"], f"{key}: n^{frame.exponent(curve):.2f}")
            for n, seconds in curve.items():
                lines.add_row(f"{n:,}", f"{1e3 * seconds:,.2f}")
            frame.console.print(lines)
        draw(curves, unit, args.out / f"{name}.svg")


def draw(curves: dict[str, dict[int, float]], unit: str, file: Path) -> None:
    """Draw the curves on logarithmic axes, each with its exponent."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for (key, curve), color in zip(curves.items(), ("#0072B2", "#D55E00"), strict=False):
        name = f"{key}: $n^{{{frame.exponent(curve):.2f}}}$"
        axes.loglog(
            list(curve),
            [1e3 * seconds for seconds in curve.values()],
            "o-",
            color=color,
            label=name,
        )
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.minorticks_off()
    axes.set(xlabel=unit, ylabel="CPU milliseconds")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(file, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    main()
