"""The worker's side: a published model in a learner's own classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import training.models.gguf_file  # noqa: F401  ahead of the request: our folder is cut from the path then
from course.assembly.runs import PUBLISHED, described, put_in
from training.errors import Refused, TooLong
from training.generation.generate import Sampling
from training.models.parts import whose
from training.models.pretrained import Classes, Pretrained, kind_of
from variants.gpt import GPT

Send = Callable[..., None]


class _Stage:
    """What is loaded, and the text that is under way."""

    model: Pretrained
    pieces: Iterator[str]
    named = ""


STAGE = _Stage()


def serve(request: dict[str, Any], send: Send) -> None:
    """Answer a request: load a model, begin a text, or return its next piece."""
    number = {"number": request["number"]}
    try:
        send(_answer(request) | number)
    except TooLong as error:
        send({"too_long": str(error)} | number)
    except Refused as error:
        send({"refused": str(error)} | number)
    except (Exception, SystemExit) as error:  # a learner's code may raise anything
        words = f"The parts in {STAGE.named} raise an error. {described(error, STAGE.named)}"
        send({"refused": words} | number)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if "load" in request:
        return {"lines": _load(**request["load"])}
    if "begin" in request:
        _begin(**request["begin"])
        return {}
    return {"piece": next(STAGE.pieces, None)}


def _load(answers: str, named: str, model: str) -> list[str]:
    """Load parts and weights, and tell whose the parts are."""
    STAGE.named = named
    path = Path(model)
    assembled = put_in(PUBLISHED[kind_of(path)], Path(answers), named)
    decoding = sys.modules["variants.kv_cache"]
    if {"GroupedQueryAttention", "attention"} & set(assembled.own):
        # PyTorch's fused kernel; the inherited `attend` computes with the learner's parts.
        del sys.modules["variants.llama"].RotaryAttention.attend

    class OwnGPT(decoding.CachedGPT):  # type: ignore[misc, name-defined]
        forward = GPT.forward  # a learner's takes no cache

    classes = Classes(
        gpt2=OwnGPT,
        llama=getattr(assembled.module, "LLaMA", Classes.llama),
        cached_forward=decoding.CachedModel,
        sample=sys.modules["variants.sampling"].sample,
    )
    STAGE.model = Pretrained.load(path, "cpu", classes)
    return list(whose(assembled.own, assembled.filled))


def _begin(
    tokens: int,
    sampling: dict[str, Any],
    prompt: str | None = None,
    messages: list[dict[str, str]] | None = None,
) -> None:
    how = Sampling(**sampling)
    if messages is None:
        STAGE.pieces = STAGE.model.generate(prompt or "", tokens, how)
    else:
        STAGE.pieces = STAGE.model.reply(messages, tokens, how)
