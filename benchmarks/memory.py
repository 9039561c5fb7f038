"""Memory of training and inference, measured and predicted by `variants.memory` and
`training.models.peak_memory`.

The paper's decoder, GPT-2 and LLaMA, at three sizes, float32, one thread. Each row is a process of its own,
which measures:

    weights, moments, cache   the storages of all their tensors, each counted once
    activations               the storages that autograd saves in a forward pass, without the weights
                              (`torch.autograd.graph.saved_tensors_hooks`)
    peak                      the maximum during a step (forward, backward, Adam), or while the model reads a
                              text, beyond what the process held before there was a model (VmHWM; on a GPU
                              `torch.cuda.max_memory_allocated`)

Ways: `train`; `recompute`, each layer checkpointed; `fused`, without stored attention weights and dropout
(the paper's decoder on the CPU); `infer`, a text read without gradients, into a cache if the model has one.
Weights, moments and cache must be as predicted to the byte, activations within 5%, and the peak within 15%
if it is at least 200 MB. For this peak of tensors glibc returns freed memory at once
(MALLOC_MMAP_THRESHOLD_). By default it keeps some for later; `usual` is the peak of a second process that
does, printed without a limit.

    python benchmarks/memory.py
    python benchmarks/memory.py gpt llama --json memory.json
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import frame
import torch
from torch import Tensor, nn

from training.data.vocabulary import Languages, Symbols
from training.models.architectures import Objective, build, recompute_layers
from training.models.peak_memory import inference_peak, sizes_of, training_peak
from training.settings import MODELS, Settings
from variants.kv_cache import CachedGPT, KVCache, new_cache
from variants.memory import (
    Step,
    activations,
    kv_cache,
    moments,
    tables,
    weights,
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SIZES: dict[
    str, tuple[dict[str, Any], int, int, int]
] = {  # of the model; vocabulary; batch and tokens of a step
    "small": ({"layers": 4, "d_model": 256, "heads": 8, "d_ff": 1024}, 2000, 4, 256),
    "wide": ({"layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048}, 8000, 2, 256),
    "long": ({"layers": 2, "d_model": 256, "heads": 8, "d_ff": 1024}, 2000, 1, 1024),
}
WAYS = {
    "small": ("train",),
    "wide": ("train", "recompute", "infer"),
    "long": ("train", "fused", "infer"),
}
MORE_ROWS = 4  # that are read at once without a backward pass
KV_HEADS = 2  # of LLaMA
DROPOUT = 0.1

GIVEN_BACK = 2**16  # bytes: what is larger goes back to the system when it is freed

ACTIVATIONS_OFF, PEAK_OFF, LARGE = 0.05, 0.15, 200e6

Case = tuple[str, str, str]
"""Model, size, way."""
Figures = dict[str, dict[str, int]]
"""Bytes by part: `predicted` and `measured`."""


def main() -> None:
    """Measure, print and assert."""
    parser = frame.options(__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    given = parser.parse_args()
    if unknown := set(given.models) - set(MODELS):
        parser.error(f"MODEL must be one of {', '.join(MODELS)}, got {', '.join(unknown)}")

    torch.set_num_threads(1)
    if given.one:
        print(json.dumps(measure(*given.one)))
        return
    cases = [
        (model, size, way)
        for model in given.models or MODELS
        for size, ways in WAYS.items()
        for way in ways
        if way != "fused" or (model == "paper" and DEVICE.type == "cpu")
    ]
    facts = frame.show_machine(DEVICE)
    rows = [(case, in_processes(case)) for case in cases]
    for inference in (False, True):
        show(rows, inference)
    figures = [{"case": case, **found} for case, found in rows]
    frame.write({"machine": facts, "cases": figures}, given.json)
    for case, found in rows:
        check(" ".join(case), found["predicted"], found["measured"])


def check(name: str, predicted: dict[str, int], measured: dict[str, int]) -> None:
    """Assert what the formulas must reach."""
    for part, wanted in predicted.items():
        most = {"activations": ACTIVATIONS_OFF, "peak": PEAK_OFF}.get(part, 0.0)
        off = abs(measured[part] - wanted)
        if part != "peak" or wanted >= LARGE:
            assert off <= most * wanted, (
                f"{name}: {part} differs by {off:,} bytes from the prediction"
            )


def in_processes(case: Case) -> Figures:
    """Return `measure` of a process that gives memory back at once, and the peak of one that does not."""
    found: Figures = frame.in_a_process(__file__, *case, MALLOC_MMAP_THRESHOLD_=str(GIVEN_BACK))
    if DEVICE.type == "cpu":
        found["measured"]["usual"] = frame.in_a_process(__file__, *case)["measured"]["peak"]
    return found


def measure(model: str, size: str, way: str) -> Figures:
    """Return what is predicted and what is measured, in bytes."""
    shape, vocab, batch, tokens = SIZES[size]
    dropout = 0.0 if model == "llama" or way in ("fused", "infer") else DROPOUT
    settings = Settings(
        task="shakespeare",
        model=model,
        kv_heads=KV_HEADS if model == "llama" else 0,
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


def train(settings: Settings, vocab: int, step: Step) -> Figures:
    """Count activations in one step, and measure the peak in another."""
    before = frame.start_peak(DEVICE)
    model = made(settings, vocab)
    objective = Objective(model, 0.0).train()
    adam = torch.optim.Adam(model.parameters(), foreach=False)
    tokens = drawn(vocab, step.batch, step.tokens + 1)
    counted = kept_by_autograd(objective, tokens)
    for _ in range(2):  # the moments are created at the end of the first step
        frame.start_peak(DEVICE)
        adam.zero_grad()
        loss, _ = objective(None, tokens)
        (loss / tokens.numel()).backward()
        adam.step()
    states = adam.state.values()
    measured = {
        "weights": of_the_model(model),
        "moments": storages(one[name] for one in states for name in ("exp_avg", "exp_avg_sq")),
        "activations": counted,
        "peak": frame.peak(DEVICE) - before,
    }
    sizes = sizes_of(settings, vocab)
    predicted = {
        "weights": weights(sizes) + tables(sizes),
        "moments": moments(sizes),
        "activations": activations(sizes, step),
        "peak": sum(training_peak(sizes, step).values()),
    }
    return {"predicted": predicted, "measured": measured}


def infer(settings: Settings, vocab: int, step: Step) -> Figures:
    """Read a text at once, into a cache if the model has one."""
    before = frame.start_peak(DEVICE)
    model = made(settings, vocab).eval()
    tokens = drawn(vocab, step.batch, step.tokens)
    cache: KVCache | None = None
    frame.start_peak(DEVICE)
    with torch.no_grad():
        if settings.model == "paper":
            model.generator(model(tokens))
        else:
            with DEVICE:
                cache = new_cache(model.config, step.batch, step.tokens)
            model(tokens, cache)
    most = frame.peak(DEVICE) - before
    sizes, room = sizes_of(settings, vocab), step.tokens if cache else 0
    predicted = {
        "weights": weights(sizes) + tables(sizes),
        "cache": kv_cache(sizes, step.batch, room),
        "peak": sum(inference_peak(sizes, step, room).values()),
    }
    held_there = storages([cache.keys, cache.values]) if cache else 0
    measured = {"weights": of_the_model(model), "cache": held_there, "peak": most}
    return {"predicted": predicted, "measured": measured}


def made(settings: Settings, vocab: int) -> Any:
    """Return the model that `course train` builds, with GPT-2 able to use a cache, which costs nothing."""
    symbols = Symbols(tuple(map(str, range(vocab))), " ")
    model = build(settings, Languages(None, symbols, None))
    if settings.model == "gpt":
        cached = CachedGPT(model.config)
        cached.generator = model.generator
        model = cached
    if settings.recompute:
        recompute_layers(model)
    return model.to(DEVICE)


def drawn(vocab: int, batch: int, tokens: int) -> Tensor:
    """Return random tokens."""
    return torch.randint(1, vocab, (batch, tokens), device=DEVICE)


def of_the_model(model: nn.Module) -> int:
    """Return the bytes of weights, tables, and LLaMA's angles, which are neither parameter nor buffer."""
    angles: list[Any] = [one.angles for one in model.modules() if hasattr(one, "angles")]
    return storages([*model.parameters(), *model.buffers(), *angles])


def kept_by_autograd(objective: nn.Module, tokens: Tensor) -> int:
    """Return the bytes of a forward pass's saved tensors, without the model's own."""
    own = {one.untyped_storage().data_ptr() for one in objective.parameters()}
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        bare = tensor.detach()  # an output with its history would keep itself alive
        if bare.untyped_storage().data_ptr() not in own:
            kept.append(bare)
        return bare

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        objective(None, tokens)
    return storages(kept)


def storages(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the storages of tensors, shared ones once."""
    each = {one.data_ptr(): one.nbytes() for one in (t.untyped_storage() for t in tensors)}
    return sum(each.values())


def show(rows: list[tuple[Case, Figures]], infers: bool) -> None:
    """Print a table of training, or of inference: each part as predicted / as measured."""
    some = [(case, found) for case, found in rows if (case[2] == "infer") == infers]
    if not some:
        return
    parts = list(some[0][1]["predicted"])
    title = f"{'Inference' if infers else 'Training'}, MB: predicted/measured"
    lines = frame.table([""], [*parts, "off by", "usual"], title)
    for case, found in some:
        predicted, measured = found["predicted"], found["measured"]
        cells = [f"{predicted[part] / 1e6:,.0f}/{measured[part] / 1e6:,.0f}" for part in parts]
        usual = f"{measured['usual'] / 1e6:,.0f}" if "usual" in measured else ""
        lines.add_row(
            " ".join(case), *cells, f"{measured['peak'] / predicted['peak'] - 1:+.1%}", usual
        )
    frame.console.print(lines)


if __name__ == "__main__":
    main()
