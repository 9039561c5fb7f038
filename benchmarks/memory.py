"""Peak memory of training and inference, measured and predicted by `training.models.peak_memory`.

The paper's decoder, GPT-2 and LLaMA, at three sizes, float32, one thread. Each row is a process of its own,
which measures the maximum during a step (forward, backward, Adam), or while the model reads a text, beyond
what the process held before there was a model (VmHWM; on a GPU `torch.cuda.max_memory_allocated`). glibc is
told to return freed memory at once (MALLOC_MMAP_THRESHOLD_). The parts of a peak, which are weights, moments,
cache and activations, are exact: tests/training/test_peak_memory.py counts them.

Ways: `train`; `recompute`, each layer checkpointed; `fused`, without stored attention weights and dropout
(the paper's decoder on the CPU); `infer`, a text read without gradients, into a cache if the model has one.
A peak of at least 200 MB must be within 15% of the prediction.

    python benchmarks/memory.py
    python benchmarks/memory.py gpt llama
"""

from __future__ import annotations

from typing import Any

import frame
import torch

from training.data.vocabulary import Languages, Symbols
from training.models.architectures import Objective, build, recompute_layers
from training.models.peak_memory import inference_peak, sizes_of, training_peak
from training.settings import MODELS, Settings
from variants.kv_cache import new_cache
from variants.memory import Step

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# of the model; vocabulary; batch and tokens of a step; ways
SIZES: dict[str, tuple[dict[str, Any], int, int, int, tuple[str, ...]]] = {
    "small": ({"layers": 4, "d_model": 256, "heads": 8, "d_ff": 1024}, 2000, 4, 256, ("train",)),
    "wide": (
        {"layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048},
        *(8000, 2, 256, ("train", "recompute", "infer")),
    ),
    "long": (
        {"layers": 2, "d_model": 256, "heads": 8, "d_ff": 1024},
        *(2000, 1, 1024, ("train", "fused", "infer")),
    ),
}
MORE_ROWS = 4  # that are read at once without a backward pass
OFF, LARGE = 0.15, 200e6


def main() -> None:
    """Measure, print and assert."""
    parser = frame.options(__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    given = parser.parse_args()
    if unknown := set(given.models) - set(MODELS):
        parser.error(f"MODEL must be one of {', '.join(MODELS)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    if given.one:
        print(list(measure(*given.one)))
        return
    frame.show_machine(DEVICE)
    lines = frame.table(["model", "size", "way"], ["predicted, MB", "measured, MB", "off by"])
    wrong = []
    for model in given.models or MODELS:
        for size, (*_, ways) in SIZES.items():
            for way in ways:
                if way == "fused" and (model != "paper" or DEVICE.type != "cpu"):
                    continue
                case = model, size, way
                at_once = {"MALLOC_MMAP_THRESHOLD_": str(2**16)}  # bytes: larger tensors
                wanted, peak = frame.in_a_process(__file__, *case, **at_once)
                off = peak / wanted - 1
                lines.add_row(*case, f"{wanted / 1e6:,.0f}", f"{peak / 1e6:,.0f}", f"{off:+.1%}")
                if wanted >= LARGE and abs(off) > OFF:
                    wrong.append(case)
    frame.console.print(lines)
    assert not wrong, f"not as predicted: {wrong}"


def measure(model: str, size: str, way: str) -> tuple[int, int]:
    """Return the predicted and the measured peak, in bytes."""
    shape, vocab, batch, tokens, _ = SIZES[size]
    dropout = 0.0 if model == "llama" or way in ("fused", "infer") else 0.1
    settings = Settings(
        task="shakespeare",
        model=model,
        kv_heads=2 if model == "llama" else 0,
        context=tokens,
        dropout=dropout,
        smoothing=0.0,
        fused=way == "fused",
        recompute=way == "recompute",
        **shape,
    )
    step = Step(
        batch=batch * (MORE_ROWS if way == "infer" else 1),
        tokens=tokens,
        dropped=0 if not dropout else 4 if DEVICE.type == "cpu" else 1,
        fused=settings.fused,
        recompute=settings.recompute,
    )
    go = infer if way == "infer" else train
    tiny = settings.but({"layers": 1, "d_model": 64, "d_ff": 64, "context": 16})
    go(tiny, 50, Step(batch=2, tokens=16))  # what torch allocates at a first call
    return go(settings, vocab, step)


def train(settings: Settings, vocab: int, step: Step) -> tuple[int, int]:
    """Take two steps: Adam's moments are created at the end of the first."""
    before = frame.start_peak(DEVICE)
    objective = Objective(made(settings, vocab), 0.0).train()
    adam = torch.optim.Adam(objective.parameters(), foreach=False)
    tokens = torch.randint(1, vocab, (step.batch, step.tokens + 1), device=DEVICE)
    for _ in range(2):
        frame.start_peak(DEVICE)
        adam.zero_grad()
        loss, _ = objective(None, tokens)
        (loss / tokens.numel()).backward()
        adam.step()
    predicted = sum(training_peak(sizes_of(settings, vocab), step).values())
    return predicted, frame.peak(DEVICE) - before


def infer(settings: Settings, vocab: int, step: Step) -> tuple[int, int]:
    """Read a text at once, into a cache if the model has one."""
    before = frame.start_peak(DEVICE)
    model = made(settings, vocab).eval()
    tokens = torch.randint(1, vocab, (step.batch, step.tokens), device=DEVICE)
    room = 0 if settings.model == "paper" else step.tokens
    frame.start_peak(DEVICE)
    with torch.no_grad():
        if room:
            with DEVICE:
                cache = new_cache(model.config, step.batch, room)
            model(tokens, cache)
        else:
            model.generator(model(tokens))
    predicted = sum(inference_peak(sizes_of(settings, vocab), step, room).values())
    return predicted, frame.peak(DEVICE) - before


def made(settings: Settings, vocab: int) -> Any:
    """Return the model that `course train` builds."""
    model = build(settings, Languages(None, Symbols(tuple(map(str, range(vocab))), " "), None))
    if settings.recompute:
        recompute_layers(model)
    return model.to(DEVICE)


if __name__ == "__main__":
    main()
