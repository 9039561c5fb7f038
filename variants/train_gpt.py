"""Train a GPT on a text file, and print a sample: the whole training loop in one file.

    python -m variants.train_gpt FILE [--steps N] [--out FOLDER] [--compile]

The tokens are the bytes of the file. The same command again resumes from `checkpoint.pt` in FOLDER; `best.pt`
has the weights with the lowest validation loss. The sizes and settings are the constants below, close to
those that nanoGPT (Karpathy 2022) suggests for a CPU. It trains on one device.
"""

import argparse
import hashlib
import math
import time
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from variants.gpt import GPT, GPTConfig
from variants.sampling import generate

CONFIG = GPTConfig(256, context=64, n_layers=4, n_heads=4, d_model=128, d_ff=512, dropout=0.0)
BATCH_SIZE = 12  # rows
GRAD_ACCUM = 1  # batches in a step, which need no more memory than one
LEARNING_RATE = 1e-3  # at its peak
WARMUP_SHARE = 0.05  # of the steps
MIN_LR_SHARE = 0.1  # of the peak, after the last step
BETAS = (0.9, 0.99)
WEIGHT_DECAY = 0.1
GRAD_CLIP = 1.0
REPORTS = 10
EVAL_BATCHES = 20  # in each report
HELD_OUT_SHARE = 0.1  # of the text
HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_CUDA else "mps" if torch.backends.mps.is_available() else "cpu")
# bfloat16 has the range of float32; float16 would need the loss scaler of day 38.
USE_BF16 = HAS_CUDA and torch.cuda.is_bf16_supported(including_emulation=False)


def random_batch_loss(model: nn.Module, text: Tensor, context: int) -> Tensor:
    """Return the mean cross-entropy, in nats per byte, of rows drawn from the text."""
    starts = torch.randint(len(text) - context, (BATCH_SIZE, 1))
    rows = text[starts + torch.arange(context + 1)].to(DEVICE, torch.long)  # (B, T + 1)
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=USE_BF16):
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def validation_loss(model: nn.Module, text: Tensor, context: int) -> float:
    """Return the loss on held-out text, on the same rows each time."""
    model.eval()
    torch.manual_seed(0)
    losses = [random_batch_loss(model, text, context).item() for _ in range(EVAL_BATCHES)]
    model.train()
    return sum(losses) / EVAL_BATCHES


def learning_rate(step: int, steps: int) -> float:
    """Return the learning rate: a linear warm-up, then half a cosine down to MIN_LR_SHARE of the peak."""
    warmup = max(1, round(WARMUP_SHARE * steps))
    progress = (step - warmup) / max(1, steps - warmup)  # from 0 to 1, after the warm-up
    cosine = MIN_LR_SHARE + (1 - MIN_LR_SHARE) * (1 + math.cos(math.pi * progress)) / 2
    return LEARNING_RATE * ((step + 1) / warmup if step < warmup else cosine)


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """Return AdamW with weight decay for matrices, and none for biases and norms."""
    groups: dict[bool, list[Tensor]] = {True: [], False: []}
    for parameter in model.parameters():
        groups[parameter.dim() >= 2].append(parameter)
    decayed, undecayed = {"params": groups[True]}, {"params": groups[False], "weight_decay": 0.0}
    return torch.optim.AdamW([decayed, undecayed], LEARNING_RATE, BETAS, 1e-8, WEIGHT_DECAY)


def train(text: bytes, steps: int, out: Path, config: GPTConfig, compiled: bool = False) -> GPT:
    """Train a GPT from scratch, or from the checkpoint in the folder `out`, and return it.

    Raises:
        ValueError: the text is too short to hold out a part that is longer than the context, or the
            checkpoint in `out` is of another text, number of steps or config.
    """
    context, held_out = config.context, round(HELD_OUT_SHARE * len(text))
    if held_out <= context:
        raise ValueError(
            f"text must be over {context / HELD_OUT_SHARE:.0f} bytes long, got {len(text)}"
        )
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    settings = {name: value for name, value in globals().items() if name.isupper()}
    run = {"text": hashlib.sha256(text).hexdigest(), "steps": steps} | asdict(config)
    run |= {name: repr(value) for name, value in settings.items() if name != "CONFIG"}
    torch.manual_seed(0)
    model, path = GPT(config).to(DEVICE), out / "checkpoint.pt"
    optimizer = adamw(model)
    first, best = 0, math.inf
    if path.exists():
        saved = torch.load(path, map_location=DEVICE, weights_only=True)
        if differences := [name for name in run if saved.get("run", {}).get(name) != run[name]]:
            raise ValueError(
                f"{out} has a run with a different {differences[0]}: pass a new folder as --out"
            )
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first, best = saved["step"], saved["best"]
        print(f"resumed at step {first}")
    forward = torch.compile(model) if compiled else model  # the same parameters
    started, tokens_read = time.perf_counter(), 0  # since the last report
    for step in range(first, steps):
        # 1. Batches and dropout depend on the step alone, so that a resumed run draws the same ones.
        torch.manual_seed(step + 1)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        # 2. Accumulate gradients: the mean over the batches is the gradient of one large batch.
        for _ in range(GRAD_ACCUM):
            loss = random_batch_loss(forward, tokens[:-held_out], context)
            (loss / GRAD_ACCUM).backward()
            tokens_read += BATCH_SIZE * context
        # 3. Clip the gradient, and take the step.
        nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)
        optimizer.step()
        optimizer.zero_grad()
        # 4. Report, and save.
        if (step + 1) % max(1, steps // REPORTS) == 0 or step + 1 == steps:
            last_loss = loss.item()  # waits for the GPU, so that the time is the step's
            speed = tokens_read / (time.perf_counter() - started)
            validation = validation_loss(forward, tokens[-held_out:], context)
            losses = f"loss {last_loss:.3f}, validation {validation:.3f}"
            print(f"step {step + 1:5}: {losses}, {speed:,.0f} tokens/s", flush=True)
            if validation < best:
                best = validation
                weights = {"model": model.state_dict(), "config": asdict(config)}
                save(weights | {"step": step + 1}, out / "best.pt")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(state | {"step": step + 1, "best": best, "run": run}, path)
            started, tokens_read = time.perf_counter(), 0
    return model


def save(state: dict, path: Path) -> None:
    """Save by a rename, which leaves a complete file if the run is killed in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m variants.train_gpt")
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("runs/train_gpt"))
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    model = train(options.file.read_bytes(), options.steps, options.out, CONFIG, options.compile)
    sample = generate(model, torch.tensor([[10]], device=DEVICE), 500, temperature=0.8)  # "\n", …
    print(bytes(sample[0].tolist()).decode(errors="replace"))
