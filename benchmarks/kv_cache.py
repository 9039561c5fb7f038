"""Time and memory of a key/value cache.

A `CachedGPT` of 4 layers, width 256 and 4 heads with random weights, float32, on one thread of the CPU:

    decoding    a prompt of 16 tokens is continued greedily by 256, by `generate_cached` and by `generate`,
                alternating; both must give the same tokens. The ratio is of the same round.
    one token   the time of one cached token after about 64, 128, 256 and 512: in total, inside attention and
                outside it. The four texts alternate, token by token. The time outside must not depend on the
                length: the largest of its four medians must be within 20% of the smallest.
    memory      a cache must store 2 · layers · batch · heads · max_len · d_k numbers.

    python benchmarks/kv_cache.py
    python benchmarks/kv_cache.py --rounds 15 --json kv_cache.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import frame
import torch
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
STEPS = 60  # single tokens of each text, half of them before that length, half after
WITHIN = 1.2  # the largest time outside attention over the smallest
CACHED, PLAIN = "cached", "not cached"


def main() -> None:
    """Measure, print and assert."""
    given = frame.options(__doc__, rounds=7).parse_args()
    facts = frame.on_one_thread(25)
    model = random_model()
    decoding = decode_in_turns(model, given.rounds)
    steps = frame.in_turns({str(held): single_steps(model, held) for held in HELD}, STEPS)
    numbers = {batch: cache_numbers(batch) for batch in (1, 8)}

    spread = show(decoding, steps, numbers, given.rounds)
    frame.write(
        {"machine": facts, "decoding": decoding, "steps": steps, "numbers": numbers}, given.json
    )
    assert spread < WITHIN, "outside attention the time of a token depends on the length"


def random_model() -> CachedGPT:
    """Return a model with weights five times as large as at initialization, where it would repeat a token."""
    model = CachedGPT(CONFIG).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(5)
    return model


def decode_in_turns(model: CachedGPT, rounds: int) -> frame.Taken:
    """Return the seconds of every round, both ways, after checking that the tokens are the same."""
    prompt = torch.randint(CONFIG.vocab, (1, PROMPT))
    texts: dict[str, Tensor] = {}

    def decode(name: str, way: Callable[..., Tensor]) -> None:
        texts[name] = way(model, prompt, NEW, temperature=0.0)

    ways = {
        CACHED: lambda: frame.cpu_seconds(lambda: decode(CACHED, generate_cached)),
        PLAIN: lambda: frame.cpu_seconds(lambda: decode(PLAIN, generate)),
    }
    found = frame.in_turns(ways, rounds)
    assert texts[CACHED].tolist() == texts[PLAIN].tolist()
    assert len(texts[CACHED][0, PROMPT:].unique()) > NEW // 8, "too few different tokens"
    return found


def single_steps(model: CachedGPT, held: int) -> Callable[[], tuple[float, float]]:
    """Return a function that reads the next token of a text, from STEPS / 2 before `held` on, and returns the
    seconds outside and inside attention."""
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
    """Return the number of elements of a cache of full length, after checking it against the formula."""
    cache = new_cache(CONFIG, batch, CONFIG.context)
    held = sum(one.numel() for one in vars(cache).values() if isinstance(one, Tensor))
    d_k = CONFIG.d_model // CONFIG.n_heads
    assert held == 2 * CONFIG.n_layers * batch * CONFIG.n_heads * CONFIG.context * d_k
    return held


def show(
    decoding: frame.Taken,
    steps: dict[str, list[tuple[float, float]]],
    numbers: dict[int, int],
    rounds: int,
) -> float:
    """Print three tables. Return the largest time outside attention over the smallest."""
    lines = frame.table([""], ["seconds", "range"], f"{NEW} tokens, greedily, medians of {rounds}")
    for way, seconds in decoding.items():
        lines.add_row(way, *frame.middle(seconds))
    lines.add_row("ratio", *frame.middle(frame.ratios(decoding[PLAIN], decoding[CACHED]), 1))
    frame.console.print(lines)

    lines = frame.table(["tokens"], ["ms a token", "in attention", "outside"], "One cached token")
    outsides = []
    for held, found in steps.items():
        outside, inside = (1e3 * statistics.median(column) for column in zip(*found, strict=True))
        outsides.append(outside)
        lines.add_row(held, f"{outside + inside:.2f}", f"{inside:.2f}", f"{outside:.2f}")
    spread: float = max(outsides) / min(outsides)
    lines.add_row("largest over smallest", "", "", f"{spread:.2f}")
    frame.console.print(lines)

    lines = frame.table(["rows"], ["numbers", "float32"], f"A cache of {CONFIG.context} tokens")
    for batch, count in numbers.items():
        lines.add_row(str(batch), f"{count:,}", frame.in_mib(4 * count))
    frame.console.print(lines)
    return spread


if __name__ == "__main__":
    main()
