"""Time of decoding with a key/value cache.

A `CachedGPT` of 4 layers, width 256 and 4 heads with random weights, float32, on one thread of the CPU:

    decoding    a prompt of 16 tokens is continued greedily by 256, by `generate_cached` and by `generate`,
                alternating; both must give the same tokens. The ratio is of the same round.

    python benchmarks/kv_cache.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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


def main() -> None:
    """Measure, print and assert."""
    given = frame.options(__doc__, rounds=7).parse_args()
    facts = frame.on_one_thread(25)
    model = CachedGPT(CONFIG).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(5)  # as initialized, it would repeat a token
    prompt = torch.randint(CONFIG.vocab, (1, PROMPT))
    texts: dict[str, Tensor] = {}

    def decode(name: str, way: Callable[..., Tensor]) -> None:
        texts[name] = way(model, prompt, NEW, temperature=0.0)

    ways = {"cached": generate_cached, "not cached": generate}
    found = frame.timed_in_turns(
        {name: partial(decode, name, way) for name, way in ways.items()}, given.rounds
    )
    assert torch.equal(*texts.values()), "the tokens differ"
    assert len(texts["cached"][0, PROMPT:].unique()) > NEW // 8, "too few different tokens"
    title = f"{NEW} tokens, greedily, medians of {given.rounds}"
    lines = frame.table([""], ["seconds", "range"], title)
    for way, seconds in found.items():
        lines.add_row(way, *frame.middle(seconds))
    lines.add_row("ratio", *frame.middle(frame.ratios(found["not cached"], found["cached"]), 1))
    frame.console.print(lines)
    frame.write({"machine": facts, "decoding": found}, given.json)


if __name__ == "__main__":
    main()
