"""Time of decoding with a key/value cache.

A `CachedGPT` of 4 layers, width 256 and 4 heads with random weights, float32, on one thread of the CPU:

    decoding    a prompt of 16 tokens is continued greedily by 256, by `generate_cached` and by `generate`,
                alternating; both must give the same tokens. The ratio is of the same round.

    python benchmarks/kv_cache.py
    python benchmarks/kv_cache.py --rounds 15 --json kv_cache.json
"""

from __future__ import annotations

from collections.abc import Callable

import frame
import torch
from torch import Tensor

from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT, generate_cached
from variants.sampling import generate

CONFIG = GPTConfig(
    vocab=1000, context=1024, n_layers=4, n_heads=4, d_model=256, d_ff=1024, dropout=0.0
)
PROMPT, NEW = 16, 256
CACHED, PLAIN = "cached", "not cached"


def main() -> None:
    """Measure, print and assert."""
    given = frame.options(__doc__, rounds=7).parse_args()
    facts = frame.on_one_thread(25)
    model = random_model()
    decoding = decode_in_turns(model, given.rounds)
    show(decoding, given.rounds)
    frame.write({"machine": facts, "decoding": decoding}, given.json)


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


def show(decoding: frame.Taken, rounds: int) -> None:
    """Print a table."""
    lines = frame.table([""], ["seconds", "range"], f"{NEW} tokens, greedily, medians of {rounds}")
    for way, seconds in decoding.items():
        lines.add_row(way, *frame.middle(seconds))
    lines.add_row("ratio", *frame.middle(frame.ratios(decoding[PLAIN], decoding[CACHED]), 1))
    frame.console.print(lines)


if __name__ == "__main__":
    main()
