"""Train a GPT on a text file, and print a sample: the whole training loop in one file.

    python -m variants.train_gpt FILE [--steps N] [--out FOLDER] [--compile]

The tokens are the bytes of the file. The same command again resumes from the checkpoint in FOLDER. The
sizes and settings are the constants below, close to those that nanoGPT (Karpathy 2022) suggests for a CPU.
"""

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from variants.gpt import GPT, GPTConfig
from variants.sampling import generate

CONFIG = GPTConfig(256, context=64, n_layers=4, n_heads=4, d_model=128, d_ff=512, dropout=0.0)
ROWS, ACCUMULATED = 12, 1  # rows in a batch; batches in a step, which need no more memory than one
RATE, WARMUP, LEAST = 1e-3, 0.05, 0.1  # peak; warm-up, as a share of the steps; last rate / peak
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.99), 0.1, 1.0
REPORTS, VALIDATED, HELD_OUT = 10, 20, 0.1  # reports; batches in each; held-out share of the text
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "mps" if torch.backends.mps.is_available() else "cpu")
# bfloat16 has the range of float32; float16 would need the loss scaler of day 38.
HALF = GPU and torch.cuda.is_bf16_supported(including_emulation=False)


def loss_of(model: nn.Module, text: Tensor, context: int) -> Tensor:
    """Return the mean cross-entropy, in nats per byte, of rows drawn from the text."""
    starts = torch.randint(len(text) - context, (ROWS, 1))
    rows = text[starts + torch.arange(context + 1)].to(DEVICE, torch.long)  # (B, T + 1)
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=HALF):
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def validation_loss(model: nn.Module, text: Tensor, context: int) -> float:
    """Return the loss on held-out text, on the same rows each time."""
    model.eval()
    torch.manual_seed(0)
    losses = [loss_of(model, text, context).item() for _ in range(VALIDATED)]
    model.train()
    return sum(losses) / VALIDATED


def learning_rate(step: int, steps: int) -> float:
    """Return the learning rate: a linear warm-up, then half a cosine down to LEAST of the peak."""
    warmup = max(1, round(WARMUP * steps))
    progress = (step - warmup) / max(1, steps - warmup)  # from 0 to 1, after the warm-up
    cosine = LEAST + (1 - LEAST) * (1 + math.cos(math.pi * progress)) / 2
    return RATE * ((step + 1) / warmup if step < warmup else cosine)


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """Return AdamW with weight decay for matrices, and none for biases and norms."""
    groups: dict[bool, list[Tensor]] = {True: [], False: []}
    for parameter in model.parameters():
        groups[parameter.dim() >= 2].append(parameter)
    undecayed = {"params": groups[False], "weight_decay": 0.0}
    return torch.optim.AdamW([{"params": groups[True]}, undecayed], RATE, BETAS, 1e-8, WEIGHT_DECAY)


def train(text: bytes, steps: int, out: Path, config: GPTConfig, compiled: bool = False) -> GPT:
    """Train a GPT from scratch, or from the checkpoint in the folder `out`, and return it.

    Raises:
        ValueError: the text is too short to hold out a part that is longer than the context.
    """
    tokens, context = torch.frombuffer(bytearray(text), dtype=torch.uint8), config.context
    held_out = round(HELD_OUT * len(tokens))
    if held_out <= context:
        raise ValueError(f"text must be over {context / HELD_OUT:.0f} bytes long, got {len(text)}")
    torch.manual_seed(0)
    model, first, file = GPT(config).to(DEVICE), 0, out / "checkpoint.pt"
    optimizer = adamw(model)
    if file.exists():
        saved = torch.load(file, map_location=DEVICE, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
        print(f"resumed at step {first}")
    run = torch.compile(model) if compiled else model  # the same parameters
    for step in range(first, steps):
        # 1. Batches and dropout depend on the step alone, so that a resumed run draws the same ones.
        torch.manual_seed(step + 1)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        # 2. Accumulate gradients: the mean over the batches is the gradient of one large batch.
        for _ in range(ACCUMULATED):
            loss = loss_of(run, tokens[:-held_out], context)
            (loss / ACCUMULATED).backward()
        # 3. Clip the gradient, and take the step.
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        # 4. Report, and save. A rename leaves a complete checkpoint if the run is killed in between.
        if (step + 1) % max(1, steps // REPORTS) == 0 or step + 1 == steps:
            held = validation_loss(run, tokens[-held_out:], context)
            print(f"step {step + 1:5}: loss {loss.item():.3f}, validation {held:.3f}", flush=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            out.mkdir(parents=True, exist_ok=True)
            torch.save(state | {"step": step + 1}, out / "new.pt")
            (out / "new.pt").replace(file)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m variants.train_gpt")
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("runs/train_gpt"))
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    model = train(given.file.read_bytes(), given.steps, given.out, CONFIG, given.compile)
    sample = generate(model, torch.tensor([[10]], device=DEVICE), 500, temperature=0.8)  # "\n", …
    print(bytes(sample[0].tolist()).decode(errors="replace"))
