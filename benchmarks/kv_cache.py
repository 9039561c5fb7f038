"""What a key-value cache gains, and what it costs.

The model is a `CachedGPT` of 4 layers, width 256 and 4 heads with random weights, float32, on one thread of
the CPU. Three things are measured:

    decoding    a prompt of 16 tokens is continued greedily by 256, by `generate_cached` and by `generate`.
                They take turns, each round begins with the other one, and both must give the same tokens.
                The ratio is that of the same round.
    one token   the time of one cached token where about 64, 128, 256 and 512 are held, in all, inside
                attention itself, and outside it. The four texts take turns, token by token. What is outside
                does not depend on how many are held: of its four medians the largest must be within 20% of
                the smallest.
    memory      a cache must hold 2 · layers · batch · heads · max_len · d_k numbers.

Times are CPU seconds of the process, which other programs disturb less than they disturb the clock. On one
thread of a quiet machine the two are the same. The load of the machine is printed.

    python benchmarks/kv_cache.py
    python benchmarks/kv_cache.py --rounds 15 --json kv_cache.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from rounds import console, in_turns, in_words, machine_with, ratios, show_machine, table, write
from torch import Tensor

from variants import kv_cache
from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT, generate_cached, new_cache
from variants.sampling import generate

CONFIG = GPTConfig(
    vocab=1000, context=1024, n_layers=4, n_heads=4, d_model=256, d_ff=1024, dropout=0.0
)
PROMPT, NEW = 16, 256
HELD = (64, 128, 256, 512)
STEPS = 60  # single tokens of each text, half of them before so many are held, half after
WITHIN = 1.2  # the largest time outside attention over the smallest
CACHED, PLAIN = "cached", "not cached"


def main() -> None:
    """Measure, print and assert."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--json", type=Path)
    given = options.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(25)
    model = random_model()
    load = os.getloadavg()[0]
    decoding = decode_in_turns(model, given.rounds)
    steps = in_turns({str(held): single_steps(model, held) for held in HELD}, STEPS)
    numbers = {batch: cache_numbers(batch) for batch in (1, 8)}

    show_machine({**machine_with(torch.device("cpu")), "load": f"{load:.1f}"})
    spread = show(decoding, steps, numbers, given.rounds)
    write({"load": load, "decoding": decoding, "steps": steps, "numbers": numbers}, given.json)
    assert spread < WITHIN, "outside attention the time of a token depends on what is held"


# --- What is measured -----------------------------------------------------------------------------


def random_model() -> CachedGPT:
    """Weights five times as large as a new model's, whose greedy text is one token, repeated."""
    model = CachedGPT(CONFIG).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(5)
    return model


def decode_in_turns(model: CachedGPT, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round, both ways; the tokens are the same."""
    prompt = torch.randint(CONFIG.vocab, (1, PROMPT))
    texts: dict[str, Tensor] = {}

    def seconds(name: str, way: Callable[..., Tensor]) -> float:
        started = time.process_time()
        texts[name] = way(model, prompt, NEW, temperature=0.0)
        return time.process_time() - started

    ways = {
        CACHED: partial(seconds, CACHED, generate_cached),
        PLAIN: partial(seconds, PLAIN, generate),
    }
    found = in_turns(ways, rounds)
    assert texts[CACHED].tolist() == texts[PLAIN].tolist()
    assert len(texts[CACHED][0, PROMPT:].unique()) > NEW // 8, "a text that tells little"
    return found


def single_steps(model: CachedGPT, held: int) -> Callable[[], tuple[float, float]]:
    """A function that reads the next token of a text, from STEPS / 2 before `held` on. It gives the seconds
    outside and inside attention."""
    text = torch.randint(CONFIG.vocab, (1, held + STEPS // 2))
    cache = new_cache(CONFIG, 1, text.size(1))
    attention = kv_cache.attention
    inside = 0.0

    def timed(*arguments: Any) -> tuple[Tensor, Tensor]:
        nonlocal inside
        started = time.process_time()
        result = attention(*arguments)
        inside += time.process_time() - started
        return result

    @torch.no_grad()
    def step() -> tuple[float, float]:
        nonlocal inside
        token = text[:, cache.length : cache.length + 1]
        with patch.object(kv_cache, "attention", timed):
            inside, started = 0.0, time.process_time()
            model(token, cache)
            whole = time.process_time() - started
        return whole - inside, inside

    with torch.no_grad():
        model(text[:, : held - STEPS // 2], cache)
    return step


def cache_numbers(batch: int) -> int:
    """How many numbers a cache of full length holds: those of its tensors, and as many as they should be."""
    cache = new_cache(CONFIG, batch, CONFIG.context)
    held = sum(one.numel() for one in vars(cache).values() if isinstance(one, Tensor))
    d_k = CONFIG.d_model // CONFIG.n_heads
    assert held == 2 * CONFIG.n_layers * batch * CONFIG.n_heads * CONFIG.context * d_k
    return held


# --- What is printed -------------------------------------------------------------------------------


def show(
    decoding: dict[str, list[float]],
    steps: dict[str, list[tuple[float, float]]],
    numbers: dict[int, int],
    rounds: int,
) -> float:
    """Three tables. Returned is the largest time outside attention over the smallest."""
    lines = table([""], ["seconds", "range"], f"{NEW} tokens, greedily, medians of {rounds}")
    for way, seconds in decoding.items():
        lines.add_row(
            way, f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}–{max(seconds):.2f}"
        )
    gains = ratios(decoding[PLAIN], decoding[CACHED])
    lines.add_row("ratio", f"{statistics.median(gains):.1f}", f"{min(gains):.1f}–{max(gains):.1f}")
    console.print(lines)

    lines = table(["tokens held"], ["ms a token", "in attention", "outside"], "One cached token")
    outsides = []
    for held, found in steps.items():
        outside, inside = (1e3 * statistics.median(column) for column in zip(*found, strict=True))
        outsides.append(outside)
        lines.add_row(held, f"{outside + inside:.2f}", f"{inside:.2f}", f"{outside:.2f}")
    spread: float = max(outsides) / min(outsides)
    lines.add_row("largest over smallest", "", "", f"{spread:.2f}")
    console.print(lines)

    lines = table(["rows"], ["numbers", "float32"], f"A cache of {CONFIG.context} tokens")
    for batch, count in numbers.items():
        lines.add_row(str(batch), f"{count:,}", in_words(4 * count))
    console.print(lines)
    return spread


if __name__ == "__main__":
    main()
