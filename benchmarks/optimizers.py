"""AdamW beside Muon: a GPT on the characters of Shakespeare, at nine peak rates and three seeds, on the CPU.

Both train the same GPT (2 layers, width 64) from the same initial weights on the same batches, with the same
weight decay, a warm-up of 20 steps, and a linear decay to 0. Muon trains the matrices of the blocks, and
AdamW, at the same rate, the rest. The CPU seconds of a step are medians of steps that alternate. Then AdamW
trains at its best rate for as many steps as fit into Muon's time. The range test raises the rate in every
step. The lesson of day 41 quotes the best losses.

    python benchmarks/optimizers.py
    python benchmarks/optimizers.py --steps 50 --seeds 0 --rates 0.004 0.016      a small setting
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import frame
import torch
import torch.nn.functional as F
from torch import Tensor

from training.data.corpora import TINY_SHAKESPEARE
from training.data.downloads import find
from variants.gpt import GPT, GPTConfig
from variants.optimizers import AdamW, Muon

RATES = tuple(0.0005 * 2**doubling for doubling in range(9))
NAMES = ("AdamW", "Muon")
WARMUP, BATCH = 20, 16
SIZES = {"context": 64, "n_layers": 2, "n_heads": 4, "d_model": 64, "d_ff": 256, "dropout": 0.0}


def optimizers(model: GPT, name: str) -> list[torch.optim.Optimizer]:
    """Return one optimizer for all parameters, or Muon for the blocks' matrices and AdamW for the rest."""
    hidden = [
        matrix for matrix in model.blocks.parameters() if matrix.dim() == 2 and name == "Muon"
    ]
    remaining = [
        parameter
        for parameter in model.parameters()
        if all(parameter is not each for each in hidden)
    ]
    rest = AdamW(remaining, betas=(0.9, 0.99), weight_decay=0.1)
    return [rest, Muon(hidden, weight_decay=0.1)] if hidden else [rest]


def one_step(model: GPT, chosen: list[torch.optim.Optimizer], rows: Tensor, rate: float) -> float:
    """Take a step at this learning rate, and return the loss before it."""
    loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    for optimizer in chosen:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def batch(tokens: Tensor, generator: torch.Generator) -> Tensor:
    """Draw rows of text."""
    starts = torch.randint(len(tokens) - 65, (BATCH, 1), generator=generator)
    return tokens[starts + torch.arange(65)]


def text(data_dir: Path | None) -> Tensor:
    """Return Shakespeare's characters as tokens."""
    read = find(TINY_SHAKESPEARE, data_dir, frame.console).read_text(encoding="utf-8")
    letters = sorted(set(read))
    return torch.tensor([letters.index(letter) for letter in read])


def built(tokens: Tensor, name: str) -> tuple[GPT, list[torch.optim.Optimizer]]:
    """Return a model and its optimizers."""
    model = GPT(GPTConfig(vocab=int(tokens.max()) + 1, **SIZES))
    return model, optimizers(model, name)


def trained(
    tokens: Tensor, name: str, seed: int, rates: Iterable[float]
) -> tuple[GPT, list[float]]:
    """Train with a rate for each step, and return the model and the losses."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, chosen = built(tokens, name)
    generator = torch.Generator().manual_seed(seed)
    return model, [one_step(model, chosen, batch(tokens, generator), rate) for rate in rates]


def loss_of(tokens: Tensor, case: tuple[str, float, int, int]) -> float:
    """Train, and return the loss on the last tenth of the text."""
    name, peak, seed, steps = case
    split = len(tokens) * 9 // 10
    each = (peak * min((at + 1) / WARMUP, (steps - at) / (steps - WARMUP)) for at in range(steps))
    model, _ = trained(tokens[:split], name, seed, each)
    rows = tokens[split:][: 500 * 65].view(500, 65)
    with torch.no_grad():
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()).item()


def range_test(tokens: Tensor, case: tuple[str, int]) -> list[float]:
    """Raise the rate from 10⁻⁴ to 1 in 100 steps, and return the loss of each five of them."""
    _, losses = trained(tokens, *case, (10 ** (-4 + step / 25) for step in range(100)))
    return [round(statistics.mean(losses[at : at + 5]), 2) for at in range(0, 100, 5)]


def seconds(tokens: Tensor, rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of a step with each."""
    generator, taken = torch.Generator().manual_seed(0), {name: [] for name in NAMES}
    models = {name: built(tokens, name) for name in NAMES}
    for _ in range(rounds):
        rows = batch(tokens, generator)
        for name, (model, chosen) in models.items():
            step = partial(one_step, model, chosen, rows, 0.001)
            taken[name].append(frame.cpu_seconds(step))
    return {name: statistics.median(each[3:]) for name, each in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = frame.options(__doc__, rounds=43)
    parser.add_argument("--processes", type=int, default=2, help="that train at the same time")
    parser.add_argument("--data-dir", type=Path, help="where tinyshakespeare/input.txt is")
    parser.add_argument("--steps", type=int, default=200, help="more than the warm-up of 20")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="peak learning rates")
    args = parser.parse_args()
    seeds, rates = args.seeds, args.rates
    frame.on_one_thread(41)
    cases = [(name, rate, seed, args.steps) for name in NAMES for rate in rates for seed in seeds]
    losses: dict[str, dict[str, list[float]]] = {name: {} for name in NAMES}
    tokens = text(args.data_dir)
    taken = seconds(tokens, args.rounds)
    train = partial(loss_of, tokens)
    times = taken["Muon"] / taken["AdamW"]
    steps = round(args.steps * times)
    with ProcessPoolExecutor(args.processes) as pool:
        for (name, rate, *_), loss in zip(cases, pool.map(train, cases), strict=True):
            losses[name].setdefault(str(rate), []).append(loss)
            print(f"{name:6} {rate:6} {loss:.3f}", flush=True)
        best = {
            name: min(rates, key=lambda rate: statistics.mean(each[str(rate)]))
            for name, each in losses.items()
        }
        ramps = [(name, seed) for name in NAMES for seed in seeds]
        for (name, _), ramp in zip(
            ramps, pool.map(partial(range_test, tokens), ramps), strict=True
        ):
            print(f"{name:6} range test {ramp}")
        longer = list(pool.map(train, [("AdamW", best["AdamW"], seed, steps) for seed in seeds]))
    lines = frame.table(["optimizer"], ["best rate", "steps", "loss", "range"])
    for name, values, number in (
        *((name, losses[name][str(best[name])], args.steps) for name in NAMES),
        ("AdamW, in Muon's time", longer, steps),
    ):
        lines.add_row(name, str(best[name.split(",")[0]]), str(number), *frame.middle(values, 3))
    frame.console.print(lines)
    print(f"a step: {times:.2f} times as long with Muon")


if __name__ == "__main__":
    main()
