"""What training and inference hold in memory, by part: predicted by `variants.memory` and
`training.models.peak_memory`, and measured.

The paper's decoder, GPT-2 and LLaMA, at three sizes, float32, one thread. Each line of the tables is a
process of its own, in which these are measured:

    weights, moments, cache   the storages of all their tensors, each counted once
    activations               the distinct storages that autograd keeps of one forward pass
                              (`torch.autograd.graph.saved_tensors_hooks`), but for the weights
    peak                      the most that the process holds during one step (forward, backward, Adam), or
                              while it reads a text, beyond what it held before there was a model: as the
                              system counts it (VmHWM, set back right before); on a GPU
                              `torch.cuda.max_memory_allocated`

Ways: `train`; `recompute`, each layer checkpointed; `fused`, no attention weights kept and no dropout (the
paper's decoder on the CPU); `infer`, a whole text read without gradients, into a cache where there is one.
Weights, moments and cache must be as predicted to the byte, activations within 5%, and the peak within 15%
where it is at least 200 MB. That is the peak of tensors: glibc is told to give back at once what was freed
(MALLOC_MMAP_THRESHOLD_). Left to itself it keeps some of it for later; the peak of a second process, which
does, is told beside as `usual`, and nothing is asked of it.

    python benchmarks/memory.py
    python benchmarks/memory.py gpt llama --json memory.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# A script's own folder comes first, where `training` is another script.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rounds import console, machine_with, show_machine, table, write

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
MORE_ROWS = 4  # that are read at once where nothing has to be kept for a backward pass
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
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    options.add_argument("--json", type=Path)
    options.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # in a process of its own
    given = options.parse_args()
    if unknown := set(given.models) - set(MODELS):
        options.error(f"there is no model {', '.join(unknown)}: {', '.join(MODELS)}")

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
    rows = [(case, in_processes(case)) for case in cases]
    show_machine({**machine_with(DEVICE), "load": f"{os.getloadavg()[0]:.1f}"})
    for inference in (False, True):
        show(rows, inference)
    write([{"case": case, **found} for case, found in rows], given.json)
    for case, found in rows:
        check(" ".join(case), found["predicted"], found["measured"])


def check(name: str, predicted: dict[str, int], measured: dict[str, int]) -> None:
    """What the formulas have to reach."""
    for part, wanted in predicted.items():
        most = {"activations": ACTIVATIONS_OFF, "peak": PEAK_OFF}.get(part, 0.0)
        off = abs(measured[part] - wanted)
        if part != "peak" or wanted >= LARGE:
            assert off <= most * wanted, f"{name}: {part} is {off:,} bytes off what was predicted"


# --- What is measured -----------------------------------------------------------------------------


def in_processes(case: Case) -> Figures:
    """`measure` in a process that gives memory back at once, and the peak of one that does as usual."""
    found = in_a_process(case, {"MALLOC_MMAP_THRESHOLD_": str(GIVEN_BACK)})
    if DEVICE.type == "cpu":
        found["measured"]["usual"] = in_a_process(case, {})["measured"]["peak"]
    return found


def in_a_process(case: Case, environment: dict[str, str]) -> Figures:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--one", *case]
    around = os.environ | environment
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=around)
    found: Figures = json.loads(done.stdout)
    return found


def measure(model: str, size: str, way: str) -> Figures:
    """What is predicted of a case, and what is measured, in bytes."""
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
    go(tiny, 50, Step(batch=2, tokens=16))  # what torch makes at a first call
    return go(settings, vocab, step)


def train(settings: Settings, vocab: int, step: Step) -> Figures:
    """A step in which activations are counted, and one in which the peak is measured."""
    before = held()
    model = made(settings, vocab)
    objective = Objective(model, 0.0).train()
    adam = torch.optim.Adam(model.parameters(), foreach=False)
    tokens = drawn(vocab, step.batch, step.tokens + 1)
    counted = kept_by_autograd(objective, tokens)
    for _ in range(2):  # the moments come into being at the end of the first step
        start_peak()
        adam.zero_grad()
        loss, _ = objective(None, tokens)
        (loss / tokens.numel()).backward()
        adam.step()
    states = adam.state.values()
    measured = {
        "weights": of_the_model(model),
        "moments": storages(one[name] for one in states for name in ("exp_avg", "exp_avg_sq")),
        "activations": counted,
        "peak": peak() - before,
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
    """A text is read at once, into a cache where the model has one."""
    before = held()
    model = made(settings, vocab).eval()
    tokens = drawn(vocab, step.batch, step.tokens)
    cache: KVCache | None = None
    start_peak()
    with torch.no_grad():
        if settings.model == "paper":
            model.generator(model(tokens))
        else:
            with DEVICE:
                cache = new_cache(model.config, step.batch, step.tokens)
            model(tokens, cache)
    most = peak() - before
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
    """The model that `course train` makes; GPT-2 knows of a cache, which costs nothing without one."""
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
    """Some tokens."""
    return torch.randint(1, vocab, (batch, tokens), device=DEVICE)


def of_the_model(model: nn.Module) -> int:
    """Weights, tables, and LLaMA's angles, which are neither parameter nor buffer."""
    angles: list[Any] = [one.angles for one in model.modules() if hasattr(one, "angles")]
    return storages([*model.parameters(), *model.buffers(), *angles])


def kept_by_autograd(objective: nn.Module, tokens: Tensor) -> int:
    """The bytes of a forward pass's saved tensors, but for the model's own."""
    own = {one.untyped_storage().data_ptr() for one in objective.parameters()}
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        bare = tensor.detach()  # an output with its history would hold itself, for ever
        if bare.untyped_storage().data_ptr() not in own:
            kept.append(bare)
        return bare

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        objective(None, tokens)
    return storages(kept)


def storages(tensors: Iterable[Tensor]) -> int:
    """The bytes that tensors lie in, shared ones once."""
    each = {one.data_ptr(): one.nbytes() for one in (t.untyped_storage() for t in tensors)}
    return sum(each.values())


def held() -> int:
    """What is held now: by the process, or on the GPU."""
    if DEVICE.type == "cuda":
        return torch.cuda.memory_allocated()
    return in_status("VmRSS")


def start_peak() -> None:
    """The most so far is what there is now."""
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most since then."""
    if DEVICE.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return in_status("VmHWM")


def in_status(name: str) -> int:
    """A line of Linux' account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


# --- What is printed ------------------------------------------------------------------------------


def show(rows: list[tuple[Case, Figures]], infers: bool) -> None:
    """A table of training, or of inference: each part as predicted / as measured, and what
    the peak is off by."""
    some = [(case, found) for case, found in rows if (case[2] == "infer") == infers]
    if not some:
        return
    parts = list(some[0][1]["predicted"])
    title = f"{'Inference' if infers else 'Training'}, MB: predicted/measured"
    lines = table([""], [*parts, "off by", "usual"], title)
    for case, found in some:
        predicted, measured = found["predicted"], found["measured"]
        cells = [f"{predicted[part] / 1e6:,.0f}/{measured[part] / 1e6:,.0f}" for part in parts]
        usual = f"{measured['usual'] / 1e6:,.0f}" if "usual" in measured else ""
        lines.add_row(
            " ".join(case), *cells, f"{measured['peak'] / predicted['peak'] - 1:+.1%}", usual
        )
    console.print(lines)


if __name__ == "__main__":
    main()
