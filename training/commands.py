"""The commands `train`, `translate`, `generate`, `chat`, `evaluate`, `attention`, `compare`, `quantize` and
`export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from training.errors import Refused
from training.program import Program, follows

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
RunOrFile = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|FILE", help="The folder of a run, or a file that course export wrote."
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="auto, cpu, cuda, cuda:1 or mps; auto uses a GPU if the machine has one.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        metavar="DIR",
        help="The data folder; by default the cache. A run remembers it.",
    ),
]
Answers = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        metavar="DIR",
        help="With --pretrained, run the model with your own parts: this folder's definitions of days 23 to "
        "32. The reference supplies the rest.",
    ),
]
Temperature = Annotated[float, typer.Option(min=0, help="0 always takes the most likely token.")]
TopK = Annotated[int | None, typer.Option(min=1, help="Sample from the k most likely tokens.")]
TopP = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Sample from the most likely tokens with total probability p."),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
MinP = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Min-p: only sample tokens with at least this fraction of the top token's probability.",
    ),
]
Penalty = Annotated[
    float,
    typer.Option(
        "--repetition-penalty",
        help="Repetition penalty: above 1, tokens already in the text become less likely.",
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Beam size; 1 is greedy. The default for translation is 4."),
]


def train(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK|FILE",
            help="copy, sorting, arithmetic, shakespeare, text, chat, translation, grpo, or a file.",
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file of settings; by default training/configs/<task>.yaml."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting. training/settings.py explains each one; training/configs/ has examples.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of optimizer steps.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of passes through the data.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.")] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="adamw, or muon: Muon for the matrices of the layers, and AdamW for the rest.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="translation: toy, multi30k, wmt14, or your own file with a sentence, a tab and its "
            "translation on each line; text: your own file; chat: a conversation on each line, "
            '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}. The '
            "assistant's messages are learned. A conversation that is longer than the setting `context` is "
            "cut off there.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="LANGUAGE", help="translation: the source language, en, de or fr."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="LANGUAGE", help="translation: the target language, en, de or fr."),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR|FILE|NAME|RUN",
            help="text, shakespeare, chat: fine-tune a published model (a folder, a GGUF file, or a name "
            "such as smollm2-135m) or a run. --set lora=8 trains low-rank updates instead of all weights. "
            "grpo: improve the instruction-tuned model of a run of course assemble reasoner.",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            metavar="DIR",
            help="Train your own parts: this folder's definitions of days 8 to 14, or of the days that GPT "
            "and LLaMA consist of. The reference supplies the rest.",
        ),
    ] = None,
    device: Device = "auto",
    devices: Annotated[
        int | None, typer.Option(min=1, help="Number of processes; by default one for each GPU.")
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run's folder; by default runs/<task>-<time>."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Resume a run that was stopped.")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="NAME", help="grpo: what is rewarded; sums is the only one."
        ),
    ] = None,
) -> None:
    """Train a model.

    Ctrl-C stops the run at the end of a step; --resume resumes it.
    """
    program: Program = context.obj
    with program.refusals(quiet=follows()):
        if task == "grpo":
            unsupported = (
                config,
                epochs,
                optimizer,
                data,
                source,
                target,
                answers,
                devices,
                data_dir,
            )
            if any(unsupported) or device not in ("auto", "cpu"):
                raise Refused(
                    "course train grpo takes --from RUN, --task sums, --set, --steps, --seed, --out and "
                    "--resume"
                )
            raise typer.Exit(
                _grpo(program, pretrained, of, changes or [], steps, seed, out, resume)
            )
        if of:
            raise Refused(f"--task is for course train grpo, got task {task}")
        from training.launch import options, start  # torch takes a second to import

        request = options.request_from(
            task,
            changes or [],
            {
                "steps": steps,
                "seed": seed,
                "optimizer": optimizer,
                "data": data,
                "source": source,
                "target": target,
                "pretrained": pretrained,
                "answers": answers and str(answers),
            },
            config=config,
            resume=resume,
            out=out,
            epochs=epochs,
            device=device,
            data_dir=data_dir,
            provider=program.provider,
        )
        raise typer.Exit(start.run(program, request, devices))


def _grpo(
    program: Program,
    source: str | None,
    task: str | None,
    changes: list[str],
    steps: int | None,
    seed: int | None,
    out: Path | None,
    resume: Path | None,
) -> int:
    """Begin or resume a run of reinforcement learning."""
    from training.reasoning import running  # torch takes a second to import

    if resume is not None:
        if source or task or changes or steps is not None or seed is not None or out:
            raise Refused("A resumed run keeps its settings: --resume RUN alone")
        return running.run(program, resume)
    if source is None or task != "sums":
        raise Refused("course train grpo needs --from RUN and --task sums")
    return running.improve(program, Path(source), changes, {"steps": steps, "seed": seed}, out)


def translate(
    context: typer.Context,
    run: RunFolder,
    text: Annotated[
        str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file with a text on each line.")
    ],
    beam: Beam = None,
    device: Device = "auto",
) -> None:
    """Run a trained encoder-decoder on a text: translate, add or sort it."""
    program: Program = context.obj
    with program.refusals():
        from training.inference import answering  # torch takes a second to import

        answering.translate(program, run, text, beam, device)


def generate(
    context: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN|FILE",
            help="The folder of a run, or a file that course export wrote.",
            show_default=False,
        ),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|FILE|NAME",
            help="Published weights instead: a folder of GPT-2's or LLaMA's with config.json, "
            "tokenizer.json and model.safetensors, a LLaMA in a GGUF file, or a name such as gpt2, "
            "which is downloaded once.",
        ),
    ] = None,
    prompt: Annotated[
        str, typer.Option(show_default="a line break", help="The text to continue.")
    ] = "\n",
    tokens: Annotated[int, typer.Option(min=1, help="Number of tokens to generate.")] = 300,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Penalty = 1.0,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Stop before this text; can be given several times."),
    ] = None,
    seed: Seed = 0,
    draft: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Decode speculatively: the same distribution in fewer passes. MODEL is a smaller model with "
            "the same vocabulary, a run or what --pretrained takes; `lookup` proposes what followed the last "
            "tokens earlier in the text.",
        ),
    ] = None,
    answers: Answers = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Continue a text with a language model that you trained or a published one."""
    program: Program = context.obj
    with program.refusals():
        from training.generation.generate import Sampling
        from training.inference import answering  # torch takes a second to import

        sampling = Sampling(temperature, top_k, top_p, seed, min_p, repetition_penalty)
        if stop and not all(stop):
            raise Refused("--stop takes a text that is not empty")
        if answers and not pretrained:
            raise Refused(
                "--answers works only with --pretrained: a run keeps the parts that it was trained with"
            )
        if draft and (answers or min_p or repetition_penalty != 1):
            raise Refused("--draft cannot be used with --answers, --min-p or --repetition-penalty")
        if draft and (run is None) != (pretrained is None):
            answering.generate_with_a_draft(
                program,
                run or str(pretrained),
                draft,
                prompt,
                tokens,
                sampling,
                device,
                data_dir,
                stop or (),
            )
        elif run and not pretrained:
            answering.generate(program, run, prompt, tokens, sampling, device, stop or ())
        elif pretrained and not run:
            answering.generate_pretrained(
                program, pretrained, prompt, tokens, sampling, device, data_dir, answers, stop or ()
            )
        else:
            raise Refused(
                "course generate takes one model: RUN, FILE, or --pretrained DIR|FILE|NAME"
            )


def chat(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run of course train chat, course train grpo or course assemble reasoner.",
            show_default=False,
        ),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|FILE|NAME",
            help="A published model instead: a folder, a GGUF file, or a name such as smollm2-135m, which is "
            "downloaded once. It needs a chat template.",
        ),
    ] = None,
    answers: Answers = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens in a reply.")] = 512,
    temperature: Temperature = 0.6,
    top_k: TopK = None,
    top_p: TopP = 0.9,
    min_p: MinP = None,
    repetition_penalty: Penalty = 1.0,
    seed: Seed = 0,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Talk with a model that you trained or a published one.

    Ctrl-C stops a reply, Ctrl-D ends the conversation.
    """
    program: Program = context.obj
    with program.refusals():
        from training.generation.generate import Sampling
        from training.inference import answering  # torch takes a second to import

        sampling = Sampling(temperature, top_k, top_p, seed, min_p, repetition_penalty)
        if (run is None) == (pretrained is None):
            raise Refused("course chat takes one model: RUN, or --pretrained DIR|FILE|NAME")
        answering.chat(
            program, run or str(pretrained), tokens, sampling, device, data_dir, answers, system
        )


def evaluate(
    context: typer.Context,
    run: RunOrFile,
    split: Annotated[
        str | None,
        typer.Option(metavar="SPLIT", help="test or validation; by default test, if there is one."),
    ] = None,
    beam: Beam = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Evaluate a trained model on an entire held-out split."""
    program: Program = context.obj
    with program.refusals():
        from training.inference import answering  # torch takes a second to import

        answering.evaluate(program, run, split, beam, as_json, device, data_dir)


def attention(
    context: typer.Context,
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text that the model reads.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The picture, .png, .svg or .pdf; by default RUN/attention.png.",
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Draw what every layer and head of a trained model attends to."""
    program: Program = context.obj
    with program.refusals():
        from training.inference import answering  # torch takes a second to import

        answering.attention(program, run, text, out, device)


def compare(
    context: typer.Context,
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="The folders of two or more runs.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The picture, .png, .svg or .pdf; by default compare.png in the first run's folder.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Compare runs: curves, settings that differ, losses at equal steps, tokens and time."""
    program: Program = context.obj
    with program.refusals():
        from training.inference import compare  # Matplotlib takes a second to import

        compare.compare(program, runs, out, as_json)


def quantize(
    context: typer.Context,
    run: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A new folder for the quantized run; by default RUN-int8."
        ),
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Quantize a trained model to int8, and measure what that changes."""
    program: Program = context.obj
    with program.refusals():
        from training.inference import export  # torch takes a second to import

        export.quantize(program, run, out, device, data_dir)


def export(
    context: typer.Context,
    run: RunFolder,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write, ending in .onnx.")
    ] = None,
    hugging_face: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A new folder with a GPT or a LLaMA for transformers to load."
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Export a trained language model to ONNX, and measure it, or to a folder for transformers."""
    program: Program = context.obj
    with program.refusals():
        from training.inference import export  # torch takes a second to import

        if (onnx is None) == (hugging_face is None):
            raise Refused("course export takes exactly one of --onnx FILE and --hugging-face DIR")
        if onnx is not None:
            export.export(program, run, onnx, data_dir)
        elif hugging_face is not None:
            export.export_folder(program, run, hugging_face)
