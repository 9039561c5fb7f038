"""Everything that a GPU should show, in ten minutes, with one command.

    python benchmarks/on_gpu.py                    nine minutes on this machine's GPU
    python benchmarks/on_gpu.py --nanogpt DIR      also nanoGPT's model; DIR has its model.py
    python benchmarks/on_gpu.py --dry              every section at toy size on the CPU, to find mistakes

The sections run in the order of `SECTIONS`, the most telling first, and share the remaining time by weight.
When a section ends, its rows are in on_gpu.jsonl and on_gpu.md in the folder `--out`. Kill the command at
any time: the next one runs what is missing for this card, torch and code; sections that failed or were
skipped come last. Nothing is downloaded: Tiny Shakespeare must be in the cache or in `--data-dir`. What needs
a package that is not installed is skipped, and its row names the package.

Times are medians of five rounds in which the contenders alternate, between CUDA events, after a warm-up.
Memory is PyTorch's peak during one call, beyond what is allocated before. MFU, model FLOPs utilization, is
FLOP/s over the card's peak in bfloat16 (`training.devices.PEAK_FLOPS`; an unknown card has no MFU). FLOPs of
one training token (Chowdhery et al. 2022, *PaLM*, appendix B):

    6 N + 12 · n_layers · d_model · T        N: parameters without learned positions

and of causal attention 2 · B · h · T² · d_k forward, 3.5 times that with the backward pass. Work that is
masked or computed twice does not count.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where the course is not installed

import frame
import sections
from frame import Row
from sections import BenchContext, Section

# A section imports what it measures itself: where a package is missing, it alone is skipped.

Act = Callable[[], Any]
SILENT = Console(quiet=True)


def beside(
    acts: Mapping[str, Act], here: BenchContext, tokens: int = 0, flops: float = 0.0
) -> list[Row]:
    """Return a row for each contender, in the time of this section."""
    return frame.beside(acts, here.device, here.seconds, tokens, flops)


def both_passes(acts: Mapping[str, Callable[[], Tensor]]) -> dict[str, Act]:
    """Return acts that compute the gradients too."""
    return {name: lambda act=act: act().sum().backward() for name, act in acts.items()}


def skipped(name: str, why: str = "the package is not installed") -> Row:
    """Return the row of a contender that cannot run here."""
    return {"what": name, "note": f"skipped: {why}"}


def agree(acts: Mapping[str, Callable[[], Tensor]], here: BenchContext) -> None:
    """Assert that all contenders compute what the first does, up to rounding."""
    tolerance = here.size(0.03, 1e-4)
    with torch.no_grad():
        expected, *rest = (act() for act in acts.values())
    for other in rest:
        torch.testing.assert_close(other, expected, rtol=tolerance, atol=tolerance)


# --- The sections ---------------------------------------------------------------------------------


def correctness(here: BenchContext) -> list[Row]:
    """Run the checks on CUDA, in a process of their own, as long as there is time."""
    command = [sys.executable, "-m", "pytest", "tests/course/test_cuda.py", "-q", "--tb=line"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the plugins take seconds
    if here.dry:
        command += ["-k", "day08"]
        environment["CUDA_VISIBLE_DEVICES"] = ""
    elif importlib.util.find_spec("xdist"):
        command += ["-p", "xdist", "-n", str(min(8, frame.cores()))]
    stopped, most = "", here.seconds or None
    try:
        kind = {
            "cwd": sections.ROOT,
            "env": environment,
            "stdout": subprocess.PIPE,
            "timeout": most,
        }
        output = subprocess.run(command, check=False, **kind).stdout
    except subprocess.TimeoutExpired as error:
        stopped, output = "; stopped: no time left", error.stdout or b""
    text = output.decode(errors="replace")
    counts = Counter("".join(re.findall(r"^([.FEs]+)(?: +\[.*)?$", text, re.MULTILINE)))
    if not counts and not stopped:
        raise RuntimeError(text[-250:])
    summary = (
        f"{counts['.']} passed, {counts['F'] + counts['E']} failed, {counts['s']} skipped{stopped}"
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", text, re.MULTILINE)[:5]
    return [{"what": "tests/course/test_cuda.py", "note": "; ".join([summary, *failed])}]


def paces(trainer: Any, acts: Mapping[str, Act], here: BenchContext) -> list[Row]:
    """Return a row for each contender that trains a model of the trainer's sizes."""
    chosen, tokens = trainer.settings, trainer.settings.batch * trainer.settings.context
    positions = chosen.context * chosen.d_model if chosen.model == "gpt" else 0
    flops = 6 * (trainer.size - positions) + 12 * chosen.layers * chosen.d_model * chosen.context
    rows = beside(acts, here, tokens, tokens * flops)
    return [row | {"parameters": trainer.size} for row in rows]


def gpt2(here: BenchContext) -> list[Row]:
    """Train GPT-2 124M with our trainer, and nanoGPT's model with the steps of its train.py."""
    from trainers import nanogpt_step, trained

    vocabulary = here.size(50304, 64)  # nanoGPT's: GPT-2's, rounded up to a multiple of 64
    trainer, step = trained("gpt2_124m_gpu", {"accumulate": 1}, vocabulary, here)
    theirs = {"nanoGPT": nanogpt_step(here, trainer)} if here.nanogpt else {}
    return paces(trainer, {"ours": step, **theirs}, here)


def small_model(here: BenchContext) -> list[Row]:
    """Train the model of 2.5 million parameters for Shakespeare's characters."""
    from trainers import trained

    sizes = {"layers": 4, "d_model": 256, "heads": 8, "d_ff": 688, "batch": 256}
    trainer, step = trained("shakespeare_gpu", sizes, 65, here)
    return paces(trainer, {"ours": step}, here)


def attention_at(length: int, here: BenchContext) -> list[Row]:
    """Compare causal attention at a length, 16,384 tokens in all: forward, then both passes."""
    from implementation import attention, subsequent_mask
    from variants.flash import flash_attention

    length = here.size(length, length // 64)
    batch, heads, d_k = here.size(16384 // length, 1), here.size(16, 2), here.size(64, 8)
    shape, kind = (batch, heads, length, d_k), {"device": here.device, "dtype": here.dtype}
    q, k, v = (torch.randn(shape, requires_grad=True, **kind) for _ in range(3))
    mask = subsequent_mask(length).to(here.device)  # (1, T, T)
    forward: dict[str, Callable[[], Tensor]] = {
        "PyTorch's kernel": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "day 33": lambda: flash_attention(q, k, v, causal=True),
        "day 8": lambda: attention(q, k, v, mask)[0],
    }
    both = {f"{name}, both passes": act for name, act in both_passes(forward).items()}
    rows = []
    if here.device.type == "cuda" and importlib.util.find_spec("triton"):
        from variants.flash_triton import flash_forward

        forward["Triton"] = lambda: flash_forward(q, k, v, causal=True)[0]
    else:
        rows = [skipped("Triton", "it needs a GPU and the package triton")]
    agree({name: act for name, act in forward.items() if name != "day 8"}, here)
    flops, half = 2 * batch * heads * length**2 * d_k, replace(here, seconds=here.seconds / 2)
    with torch.no_grad():
        rows += beside(forward, half, flops=flops)
    return rows + beside(both, half, flops=3.5 * flops)


def decoding(batch: int, here: BenchContext) -> list[Row]:
    """Generate greedily with random weights of SmolLM2-135M's size, after a prompt of 32 tokens."""
    from variants.kv_cache import generate_cached
    from variants.llama import LLaMA, LLaMAConfig

    sizes = here.size((49152, 2048, 30, 9, 3, 576, 1536), (64, 64, 2, 4, 2, 32, 64))
    model = LLaMA(LLaMAConfig(*sizes, eps=1e-5)).to(here.device, here.dtype).eval()
    prompt = torch.randint(model.config.vocab, (batch, 32), device=here.device)
    new = here.size(128, 4)
    acts = {"ours": lambda: generate_cached(model, prompt, new, temperature=0)}
    if not importlib.util.find_spec("transformers"):
        return [*beside(acts, here, tokens=batch * new), skipped("transformers")]
    acts["transformers"] = in_transformers(model, prompt, new)
    rows = beside(acts, here, tokens=batch * new)
    same = (acts["ours"]() == acts["transformers"]()).float().mean()
    return [rows[0], rows[1] | {"same": float(same)}]  # in bfloat16 near ties differ


def in_transformers(ours: Any, prompt: Tensor, new: int) -> Act:
    """Return an act that generates with the same weights in `transformers`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from training.inference.hugging_face_folder import llama_settings
    from variants.hugging_face import llama_published

    with prompt.device:
        theirs = LlamaForCausalLM(LlamaConfig(**llama_settings(ours.config, None)))
    theirs.load_state_dict(llama_published(ours.state_dict()))
    theirs.to(ours.embed.weight.dtype).eval()
    options = {"do_sample": False, "min_new_tokens": new, "max_new_tokens": new, "pad_token_id": 0}
    mask = torch.ones_like(prompt)
    return lambda: theirs.generate(prompt, attention_mask=mask, **options)


def shakespeare(here: BenchContext) -> list[Row]:
    """Train training/configs/shakespeare_gpu.yaml, and report its best loss on the whole last tenth."""
    from trainers import of_shakespeare

    from training import settings
    from training.data import tasks
    from training.devices import ProcessContext
    from training.loop.run_folder import Run
    from training.loop.training_loop import Trainer

    chosen = of_shakespeare(settings.load(settings.CONFIGS / "shakespeare_gpu.yaml"), here)
    run = Run(here.out / f"shakespeare-{sections.code()}")  # a killed run resumes
    run = run if run.config.exists() else Run.begin(run.folder, chosen)
    trainer = Trainer(chosen, tasks.load(chosen, SILENT), run, ProcessContext(here.device))
    trainer.train(None)
    progress = trainer.progress
    return [{"what": "seed 0", "loss": progress.best, "seconds": progress.seconds}]


TRITON = "Triton: at most 2.00 × the time of PyTorch's kernel"
SECTIONS = [
    Section("Checks on CUDA", correctness, 110, "0 failed"),
    Section("GPT-2 124M, training", gpt2, 90, "MFU at least 45% on an H100"),
    Section("2.5M parameters, training", small_model, 30, "at least 1,000,000 tokens/s"),
    *(
        Section(f"Attention, {length:,} tokens", partial(attention_at, length), 10, TRITON)
        for length in (1024, 2048, 4096, 8192, 16384)
    ),
    Section("SmolLM2-135M, decoding, batch 1", partial(decoding, 1), 25),
    Section("SmolLM2-135M, decoding, batch 64", partial(decoding, 64), 25),
    Section("Shakespeare, loss", shakespeare, 130, "at most 1.45", least=100),
]


def main(arguments: list[str] | None = None) -> None:
    """Measure. Exit 1 if a section failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="9 by default")
    parser.add_argument("--dry", action="store_true", help="toy sizes, on the CPU")
    parser.add_argument("--nanogpt", type=Path, metavar="DIR", help="has nanoGPT's model.py")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="has tinyshakespeare/")
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path("runs/on_gpu"))
    args = parser.parse_args(arguments)
    if not args.dry and not torch.cuda.is_available():
        parser.error("there is no CUDA GPU here; --dry runs on the CPU")
    if args.nanogpt and not (args.nanogpt / "model.py").is_file():
        parser.error(f"--nanogpt must be a folder with nanoGPT's model.py, got {args.nanogpt}")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    device = torch.device("cpu" if args.dry else "cuda")
    here = BenchContext(device, args.dry, args.out, args.nanogpt, args.data_dir)
    fine = sections.run(SECTIONS, here, args.out / "on_gpu.jsonl", 60 * args.minutes)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
