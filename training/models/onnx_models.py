"""Language models as ONNX: write and read one file with graph, weights, settings and vocabulary."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from training.checkpoints import write_atomically
from training.data.vocabulary import Languages, languages_from_json
from training.errors import Refused
from training.models.architectures import Model
from training.models.cached_decoding import cached_forward
from training.models.fused import fuse
from training.models.parts import Parts
from training.settings import Settings, from_yaml
from variants.kv_cache import CachedModel
from variants.onnx_export import NEEDED, OnnxModel, export

ENDING = ".onnx"
SETTINGS, VOCABULARY = "course.settings", "course.vocabulary"  # keys of the file's own metadata
MISSING = f"ONNX needs packages that are not installed here: {NEEDED}"


def installed() -> bool:
    """Return whether the packages for writing and reading are installed."""
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))


def write(path: Path, model: Model, settings: Settings, languages: Languages, parts: Parts) -> None:
    """Write a language model, completely or not at all.

    Args:
        path: ends in .onnx; an existing file is replaced.
        parts: the model's parts. The reference's parts read with a cache, a learner's read the full
            text.

    Raises:
        Refused: this is not a language model, a learner's parts cannot be exported as a graph,
            packages are missing, or the file cannot be written.
    """
    if not settings.of_language:
        raise Refused(
            f"course export is for language models, and the task {settings.task} asks for answers"
        )
    _refuse_without_packages()
    import onnx

    # Operation by operation, as every runtime of ONNX knows them.
    served = cached_forward(fuse(model, False), settings.replace({"fused": False}), parts)
    cached = isinstance(served, CachedModel)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            parts.attribute_errors("cannot be written as ONNX."),
        ):
            draft = Path(folder) / "model.onnx"
            export(served.model if isinstance(served, CachedModel) else model, draft, cache=cached)
            exported = onnx.load(draft)
        _forget_the_making(exported)
        for key, text in (
            (SETTINGS, settings.as_yaml()),
            (VOCABULARY, json.dumps(languages.as_json())),
        ):
            exported.metadata_props.add(key=key, value=text)
        write_atomically(path, exported.SerializeToString())
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error
    finally:
        fuse(model, settings.fused)


def read(path: Path) -> tuple[Settings, Languages, OnnxModel]:
    """Read what `write` has written: the settings, the vocabulary, and the model in ONNX Runtime.

    Raises:
        Refused: packages are missing, or the file does not exist, is damaged, or was not written by
            `write`.
    """
    _refuse_without_packages()
    if not path.is_file():
        raise Refused(f"There is no file {path}")
    try:
        model = OnnxModel(path, context=1)
    except Exception as error:  # onnxruntime's have no other class in common
        raise Refused(f"{path} is damaged, or not an ONNX file: {error}") from error
    metadata = model.session.get_modelmeta().custom_metadata_map
    if not {SETTINGS, VOCABULARY} <= metadata.keys():
        raise Refused(f"{path} was not written by course export: it has no vocabulary")
    settings = from_yaml(metadata[SETTINGS], path)
    try:
        languages = languages_from_json(json.loads(metadata[VOCABULARY]))
    except Exception as error:  # tokenizers raises this very class
        raise Refused(f"{path} is damaged: {error}") from error
    model.config.context = settings.context
    model.generator = nn.LogSoftmax(dim=-1)
    return settings, languages, model


def _forget_the_making(model: Any) -> None:
    """Take away what the exporter notes of each operation, such as the lines of code that it comes from:
    a third of a small file, with the names of the files that were run."""
    graph = model.graph
    for noted in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        noted.ClearField("metadata_props")
        noted.ClearField("doc_string")
    graph.ClearField("value_info")


def _refuse_without_packages() -> None:
    if not installed():
        raise Refused(MISSING)
