"""`course assemble llama`: the learner's own LLaMA, trained on Shakespeare, quantized, exported,
and heard.

It calls the commands of `training/` one after the other, as for any other run. Training runs the
learner's code in this process, as `course train --answers` does.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import typer
from rich.rule import Rule
from rich.text import Text

from course.assembly import graduation, runs
from course.curriculum import Day
from course.judging.results import DayResult
from course.terminal import display
from training.program import Program

CONFIG = "shakespeare_llama.yaml"
PROMPT, TOKENS, TEMPERATURE = "ROMEO:\n", 400, 0.8


def assemble_llama(
    program: Program,
    answers: Path,
    failing: Callable[[Sequence[Day], Path], list[DayResult]],
    data_dir: Path | None,
    steps: int | None,
) -> None:
    """Train a LLaMA of the learner's parts, quantize it, export it, and generate text with it.

    Args:
        program: the program to which these commands belong.
        answers: the folder with the parts.
        failing: returns those of some days that fail, so that they are named before training.
        data_dir: the folder that contains Shakespeare, if not the cache.
        steps: the number of training steps; that of the config if omitted.
    """
    console = display.console()
    with console.status("Checking your parts …"):
        wrong = failing(runs.days_of(runs.LANGUAGE_MODELS["llama"]), answers)
    if wrong:
        console.print(graduation.warning(wrong))
    with program.refusals():
        from training.generation.generate import Sampling
        from training.inference import answering, export  # torch takes a second to import
        from training.launch import options, start  # torch takes a second to import
        from training.models.onnx_models import MISSING, installed
        from training.settings import CONFIGS

        def begin(what: str) -> None:
            console.print(Rule(Text(what, "bold"), align="left", style="quiet"))

        folder = Path("runs") / f"llama-{datetime.now():%Y%m%d-%H%M%S}"
        request = options.request_from(
            "shakespeare",
            [],
            {"steps": steps, "answers": str(answers)},
            config=CONFIGS / CONFIG,
            resume=None,
            out=folder,
            epochs=None,
            device="cpu",
            data_dir=data_dir,
            provider=program.provider,
        )
        begin("Your LLaMA reads Shakespeare")
        if status := start.run(program, request, devices=1):
            raise typer.Exit(status)
        begin("Its weights, a byte each")
        small = export.quantize(program, folder, None, "cpu", data_dir)
        begin("Without PyTorch: ONNX")
        if installed():
            export.export(program, folder, folder / "llama.onnx", data_dir)
        else:
            console.print(Text(MISSING, "quiet"), soft_wrap=True)
        begin("It speaks")
        answering.generate(program, small, PROMPT, TOKENS, Sampling(TEMPERATURE), "cpu")
        chat = ["course", "chat", "--pretrained", "smollm2-135m", "--answers", str(answers)]
        hint = f"The same parts compute a published model (93 MB, fetched once): {shlex.join(chat)}"
        console.print(Text(hint, "quiet"), soft_wrap=True)
