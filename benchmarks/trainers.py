"""What the training sections of `on_gpu.py` train, at full size or as a toy."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sections import BenchContext, Skipped
from torch import nn

from training import settings
from training.data.batches import Rows
from training.data.corpora import TINY_SHAKESPEARE
from training.data.downloads import find
from training.data.vocabulary import Languages, Symbols
from training.devices import ProcessContext
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer, Window
from training.settings import Settings

Act = Callable[[], Any]
TOY = {"layers": 1, "d_model": 32, "heads": 2, "d_ff": 64, "context": 16, "batch": 2}
TOY |= {"compile": False, "validate_every": 1000, "save_every": 1000, "warmup": 1}
BATCHES = 8  # random ones, again and again


class RandomTokens:
    """A task for the trainer: random tokens, because what is timed does not depend on the text."""

    fingerprint, per_epoch, splits, held_out_bytes = "", None, (), None

    def __init__(self, vocabulary: int, batch: int, context: int):
        self.languages = Languages(None, Symbols(tuple(map(str, range(vocabulary))), " "), None)
        draw = torch.Generator().manual_seed(0)
        shape = (BATCHES, batch, context + 1)
        self.tokens = torch.randint(1, vocabulary, shape, generator=draw)  # 0 is padding

    def batch(self, number: int) -> Rows:
        return Rows(None, self.tokens[number % BATCHES])


def trained(
    config: str, changes: Mapping[str, Any], vocabulary: int, here: BenchContext
) -> tuple[Trainer, Act]:
    """Return a trainer of random tokens with a shipped config, and an act that takes one of its steps."""
    chosen = settings.load(settings.CONFIGS / f"{config}.yaml").replace(changes)
    chosen = chosen.replace(here.size({}, TOY | {"precision": "fp32"}))
    task: Any = RandomTokens(vocabulary, chosen.batch, chosen.context)
    nowhere = Run(Path(tempfile.gettempdir()) / "no run")  # a step writes nothing
    trainer = Trainer(chosen, task, nowhere, ProcessContext(here.device))
    batches = trainer.groups()
    return trainer, lambda: trainer.step(next(batches), Window())


def nanogpt_step(here: BenchContext, trainer: Trainer) -> Act:
    """Return a training step of nanoGPT's model of the trainer's sizes, on the trainer's batches."""
    spec: Any = importlib.util.spec_from_file_location("nanogpt", here.nanogpt / "model.py")
    nanogpt = sys.modules["nanogpt"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nanogpt)
    chosen, kind = trainer.settings, here.device.type
    sizes = {"n_layer": chosen.layers, "n_head": chosen.heads, "n_embd": chosen.d_model}
    vocabulary = len(trainer.task.languages.target)
    config = nanogpt.GPTConfig(block_size=chosen.context, vocab_size=vocabulary, **sizes)
    model = nanogpt.GPT(config).to(here.device)
    optimizer = model.configure_optimizers(0.1, 6e-4, (0.9, 0.95), kind)
    if chosen.compile:
        model.compile()
    batches = trainer.groups()

    def step() -> None:
        tokens = next(batches)[0].to(here.device).target
        with torch.autocast(kind, torch.bfloat16, enabled=not here.dry):
            loss = model(tokens[:, :-1], tokens[:, 1:].contiguous())[1]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def of_shakespeare(chosen: Settings, here: BenchContext) -> Settings:
    """Return settings with Tiny Shakespeare, which is not downloaded; at toy size with this file's text."""
    if here.dry:
        return chosen.replace(TOY | {"task": "text", "data": __file__, "steps": 2})

    def refuse(*_: Any) -> None:
        raise Skipped(f"{TINY_SHAKESPEARE.name} is not in the cache or in --data-dir DIR")

    find(TINY_SHAKESPEARE, here.data_dir, Console(quiet=True), refuse)
    return chosen.replace({"data_dir": str(here.data_dir or "")})
