"""Commands that use a trained model: translate, generate, chat, evaluate, attention."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.text import Text

from training.data import tasks
from training.data.corpora import lines_of, read_text
from training.errors import Refused
from training.generation.generate import Sampling, Tokenizer, stop_at
from training.generation.text_generator import TextGenerator
from training.inference import evaluation
from training.inference.chat import HELP, PROMPT, ChatSession, converse
from training.inference.hugging_face_folder import tokenizer
from training.inference.trained_model import TrainedModel
from training.loop.run_folder import Run
from training.models.cached_decoding import with_a_cache
from training.models.hub import folder_of
from training.models.pretrained import Pretrained
from training.program import Program
from training.progress import waiting
from training.reasoning import running
from training.reasoning.reasoner import SETTINGS
from variants.speculative import PromptLookup, speculative_generate

LOOKUP = "lookup"


def translate(program: Program, run: Path, text: str, beam: int | None, device: str) -> None:
    """Print a model's output for a text, or for each line of a file.

    Raises:
        Refused: the folder has no model, or the text cannot be encoded.
    """
    model = TrainedModel.load(run, device, program.provider)
    beam = beam or model.usual_beam
    if not _is_file(Path(text)):
        _refuse_what_is_no_text(text)
        print(model.translate([text], beam)[0])
        return
    lines = [line.removesuffix("\r") for line in lines_of(read_text(Path(text)))]
    words = f"Answering {len(lines):,} line{'s' if len(lines) > 1 else ''}"
    with waiting(program.console(stderr=True), words) as tell:
        answers = model.translate(lines, beam, tell=tell)
    for answer in answers:
        print(answer)


def generate(
    program: Program,
    run: Path,
    prompt: str,
    tokens: int,
    sampling: Sampling,
    device: str,
    stops: Collection[str] = (),
) -> None:
    """Print a text and a trained model's continuation as it is generated.

    Raises:
        Refused: the folder has no language model, or the text cannot be encoded.
    """
    model = TrainedModel.load(run, device, program.provider)
    _print_as_it_comes(prompt, stop_at(model.generate(prompt, tokens, sampling), stops))


def generate_pretrained(
    program: Program,
    name: str,
    prompt: str,
    tokens: int,
    sampling: Sampling,
    device: str,
    data_dir: Path | None,
    answers: Path | None = None,
    stops: Collection[str] = (),
) -> None:
    """Print a text and a published model's continuation as it is generated.

    Raises:
        Refused: the model cannot be loaded, or the prompt is empty.
    """
    with speaking(program, name, answers, device, data_dir) as speaker:
        _print_as_it_comes(prompt, stop_at(speaker.generate(prompt, tokens, sampling), stops))


def chat(
    program: Program,
    name: str,
    tokens: int,
    sampling: Sampling,
    device: str,
    data_dir: Path | None,
    answers: Path | None,
    system: str | None,
) -> None:
    """Chat with a published model at the terminal.

    Raises:
        Refused: the model cannot be loaded.
    """
    console = program.console(stderr=True)
    with speaking(program, name, answers, device, data_dir) as speaker:
        if sys.stdin.isatty():
            console.print(Text(HELP, "quiet"), soft_wrap=True)

        def ask() -> str:
            return input(PROMPT if sys.stdin.isatty() else "")

        def write(piece: str) -> None:
            print(piece, end="", flush=True)

        converse(ChatSession(speaker, sampling, tokens, console, write, system), ask)


def generate_with_a_draft(
    program: Program,
    model: str | Path,
    draft: str,
    prompt: str,
    tokens: int,
    sampling: Sampling,
    device: str,
    data_dir: Path | None,
    stops: Collection[str] = (),
) -> None:
    """Print a text and its continuation, decoded speculatively, and the number of tokens per pass.

    Args:
        model: a run, or a published model's folder, file or name.
        draft: the same for the draft; "lookup" looks up the last tokens in the text.

    Raises:
        Refused: a model cannot be loaded or used in this way, the two have different vocabularies, or the
            text does not fit into the context of both.
    """
    target, words = _loaded(program, model, device, data_dir)
    vocab, context = target.model.config.vocab, target.model.config.context
    helper: Any = PromptLookup(vocab, context)
    if draft != LOOKUP:
        other, theirs = _loaded(program, draft, device, data_dir)
        if _texts(other, theirs) != _texts(target, words):
            raise Refused(f"The draft must have the vocabulary of the model, and {draft} has not")
        helper = other.model
    ids = words.encode(prompt)
    room = min(context, helper.config.context) - len(ids)
    if not ids:
        raise Refused("The prompt must not be empty")
    if tokens > room:
        raise Refused(
            "With --draft, prompt and --tokens must fit into the context of both models: --tokens must be at "
            f"most {room}, got {tokens}"
        )
    passes: list[int] = []
    hook = target.model.register_forward_pre_hook(lambda _, read: passes.append(read[0].size(1)))
    with hook:
        text = speculative_generate(
            target.model,
            helper,
            torch.tensor([ids], device=target.device),
            tokens,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            generator=torch.Generator(target.device).manual_seed(sampling.seed),
        )[0].tolist()
    new = list(itertools.takewhile(lambda token: token not in target.ends, text[len(ids) :]))
    continuation = words.decode(ids + new)[len(words.decode(ids)) :]
    _print_as_it_comes(prompt, stop_at(iter([continuation]), stops))
    count = len(passes)
    summary = (
        f"{tokens} tokens in {count} passes of the model: {tokens / count:.2f} tokens per pass"
    )
    program.console(stderr=True).print(Text(summary, "quiet"), soft_wrap=True)


def _texts(model: Pretrained, words: Tokenizer) -> list[str]:
    """Return the text of each token."""
    return [words.decode([token]) for token in range(model.model.config.vocab)]


def _loaded(
    program: Program, name: str | Path, device: str, data_dir: Path | None
) -> tuple[Pretrained, Tokenizer]:
    """Load a published model, or that of a run in the same form, and its vocabulary.

    Raises:
        Refused: the model cannot be loaded, or is called in a different way.
    """
    if not isinstance(name, Path) and not Run(Path(name)).config.exists():
        path = folder_of(name, data_dir, program.console(stderr=True))
        published = Pretrained.load(path, device)
        return published, published
    trained = TrainedModel.load(Path(name), device, program.provider)
    model = with_a_cache(trained.model, trained.settings, trained.parts)
    words, base = trained.languages.target, trained.base
    if model is None:
        raise Refused(
            "--draft and course chat take runs of a GPT-2 or a LLaMA, made of the course's own parts"
        )
    pretrained = Pretrained(
        model, tokenizer(words), frozenset(base.ends if base else ()), trained.device
    )
    if base is not None:
        pretrained.template, pretrained.specials = base.template, base.specials
    return pretrained, words


@contextlib.contextmanager
def speaking(
    program: Program, name: str, answers: Path | None, device: str, data_dir: Path | None
) -> Iterator[TextGenerator]:
    """Load a published model: computed here by our classes, or in a worker by a learner's.

    Raises:
        Refused: the model cannot be loaded, or the parts cannot be used.
    """
    console = program.console(stderr=True)
    is_reasoner = (Path(name) / SETTINGS).exists()
    if answers is None and is_reasoner:
        yield running.speaker(program, Path(name))
        return
    if answers is None:
        yield _loaded(program, name, device, data_dir)[0]
        return
    if is_reasoner or Run(Path(name)).config.exists():
        raise Refused("--answers is for published models: a run keeps its own parts")
    path = folder_of(name, data_dir, console)
    if device not in ("auto", "cpu"):
        raise Refused(f"--answers needs --device cpu, got {device}")

    def told(line: str) -> None:
        console.print(program.safe(line), soft_wrap=True)

    with program.provider.speaker(answers, path, told) as speaker:
        yield speaker


def _print_as_it_comes(prompt: str, pieces: Iterator[str]) -> None:
    first = next(pieces, "")  # refuse a prompt before printing it
    print(prompt.lstrip("\n"), end="")
    for piece in itertools.chain([first], pieces):
        print(piece, end="", flush=True)
    print()


def evaluate(
    program: Program,
    run: Path,
    split: str | None,
    beam: int | None,
    as_json: bool,
    device: str,
    data_dir: Path | None,
) -> None:
    """Print a model's evaluation on a held-out split of its training data, or of data in `data_dir`.

    Raises:
        Refused: the folder has no model, the split does not exist, or the data cannot be loaded.
    """
    model = TrainedModel.load(run, device, program.provider)
    console = program.console(stderr=as_json)
    settings = model.settings.replace({"data_dir": str(data_dir)}) if data_dir else model.settings
    task = tasks.load(settings, console, model.languages)
    if Run(run).facts().get("data") not in (None, task.fingerprint):
        words = "The data has changed since training: the model may have been trained on what is held out now"
        console.print(Text(words, "yellow"), soft_wrap=True)
    split = split or task.splits[-1]
    with waiting(console, f"Evaluating on the {split} split") as tell:
        result = evaluation.evaluate(model, task, split, beam, tell)
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        console.print(evaluation.as_table(result))


def attention(program: Program, run: Path, text: str, out: Path | None, device: str) -> None:
    """Plot a model's attention, and print the picture's path.

    Raises:
        Refused: the folder has no model, the text cannot be encoded, or the picture cannot be written.
    """
    picture = out or Run(run).attention
    refuse_what_is_no_picture(picture)
    from training.inference.plots import draw_attention  # Matplotlib takes a third of a second

    try:
        draw_attention(TrainedModel.load(run, device, program.provider).attention(text), picture)
    except OSError as error:
        raise Refused(f"{picture} cannot be written: {error.strerror}") from error
    program.console().print(Text(str(picture)), soft_wrap=True)


def refuse_what_is_no_picture(path: Path) -> None:
    """Check a picture's name before computing anything.

    Raises:
        Refused: the name does not end in a known format.
    """
    from training.inference.plots import METADATA  # Matplotlib takes a third of a second

    endings = ", ".join(METADATA)
    if path.is_dir():
        raise Refused(f"--out must be a file ending in {endings}, got the folder {path}")
    if path.suffix.lower() not in METADATA:
        raise Refused(f"{path} must end in one of {endings}")


def _refuse_what_is_no_text(text: str) -> None:
    """Refuse an empty text, a folder, and what looks like the name of a file that does not exist."""
    if not text.strip():
        raise Refused("The text must not be empty")
    if _is(Path(text).is_dir):
        raise Refused(f"{text} is a folder: pass a file or a text")
    if re.fullmatch(r"\S*(\w\.[A-Za-z]\w{0,9}|[/\\]\S*)", text):
        raise Refused(
            f"The file {text} does not exist. If it is meant as a text, put a space before it"
        )


def _is_file(path: Path) -> bool:
    return _is(path.is_file)


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except OSError:  # a long text is not a file name
        return False
