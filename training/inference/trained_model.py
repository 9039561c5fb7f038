"""Use a trained model: translate, generate, look at attention.

Everything comes from the run's folder: settings, vocabularies, weights, and a learner's own parts
if those were trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from implementation import Batch, beam_search, greedy_decode
from training.checkpoints import read_weights
from training.data.batches import padded
from training.data.vocabulary import END, PAD, START, Languages
from training.devices import pick
from training.errors import Refused
from training.generation.generate import Sampling, continue_text
from training.loop.run_folder import Run
from training.models import onnx_models
from training.models.architectures import build, with_weights
from training.models.attention_weights import self_attention
from training.models.base_model import PublishedConfig
from training.models.cached_decoding import CachedEncoderDecoder, cached_forward
from training.models.fused import fuse
from training.models.parts import REFERENCES, Parts, PartsProvider, parts_of
from training.progress import OnProgress, no_progress
from training.settings import Settings
from variants.onnx_export import OnnxModel

MARGIN = 50  # tokens that a translation may be longer than its source: Vaswani et al. 2017, §6.1
AT_ONCE = 4000  # source tokens that are decoded side by side, times the beam
MAX_SOURCE_TOKENS = 1000  # tokens of a source
AS_LIKELY = Sampling()  # as the model has it


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one kind of attention in one layer, `(h, rows, columns)`, with labels for rows and
    columns."""

    title: str
    weights: Tensor
    rows: list[str]
    columns: list[str]


class TrainedModel:
    """A trained model, and everything needed to use it."""

    def __init__(
        self,
        settings: Settings,
        languages: Languages,
        model: Any,
        device: torch.device,
        parts: Parts | None = None,
        base: PublishedConfig | None = None,
    ):
        self.settings, self.languages, self.device = settings, languages, device
        self.model: Any = model.to(device).eval()
        self.parts = parts or REFERENCES[settings.model]
        self.base = base
        """What it has of a published model, where it was fine-tuned."""

    @classmethod
    def load(
        cls, folder: Path, device: str = "auto", provider: PartsProvider | None = None
    ) -> TrainedModel:
        """Load the best model of a run, or the model in an ONNX file.

        Args:
            folder: the folder of the run, or the file.
            device: `auto` is a GPU if there is one.
            provider: loads parts from a learner's files, if the run has any.

        Raises:
            Refused: there is no run, the run has no weights yet, or it is damaged.
        """
        if folder.suffix.lower() == onnx_models.ENDING and not folder.is_dir():
            return cls(*onnx_models.read(folder), torch.device("cpu"))
        run = Run.found(folder)
        settings, languages = run.settings(), run.languages()
        if languages is None or not run.weights.exists():
            raise Refused(f"{folder} has no trained model yet")
        where = pick(device)
        parts = parts_of(settings, run.answers, provider)
        base = run.base()
        model = with_weights(build(settings, languages, parts, base), read_weights(run.weights))
        return cls(settings, languages, model, where, parts, base)

    @property
    def context(self) -> int:
        """The maximum number of tokens that a language model reads; a published model can read more
        than a fine-tuning window."""
        return self.settings.context if self.base is None else self.base.config.context

    @property
    def usual_beam(self) -> int:
        """Return the beam size of Vaswani et al. 2017, §6.1, for translation; all other tasks decode
        greedily."""
        return 4 if self.settings.task == "translation" else 1

    # --- From sequence to sequence ----------------------------------------------------------------

    def translate(
        self,
        texts: Sequence[str],
        beam: int = 4,
        alpha: float | None = None,
        tell: OnProgress = no_progress,
    ) -> list[str]:
        """Return the model's output for each text, in the same order. A beam of 1 is greedy
        decoding.

        Raises:
            Refused: this is a language model, the model does not know a symbol, or a text is too
                long.
        """
        alpha = self.settings.length_penalty if alpha is None else alpha
        sources = [self._source(text) for text in texts]
        answers = [""] * len(texts)
        done = 0
        for places in _alike(sources, AT_ONCE // beam):
            decoded = self._decode([sources[index] for index in places], beam, alpha)
            for index, answer in zip(places, decoded, strict=True):
                answers[index] = self.languages.target.decode(answer)
            done += len(places)
            tell("answers", done, len(texts))
        return answers

    def _source(self, text: str) -> list[int]:
        if self.languages.source is None:
            raise Refused("This is a language model: use course generate")
        ids = self.languages.source.encode(text.lower() if self.settings.lowercase else text)
        if len(ids) > MAX_SOURCE_TOKENS:
            raise Refused(
                f"The text has {len(ids)} tokens, and at most {MAX_SOURCE_TOKENS} are read at once"
            )
        return ids

    def _decode(self, sources: list[list[int]], beam: int, alpha: float) -> Iterator[list[int]]:
        """The tokens of each answer, without its start and end. Without an end, answers are as long as
        their sources, which are of one length."""
        src = padded(sources).to(self.device)
        src_mask = Batch(src, pad=PAD).src_mask
        end = self.languages.end
        longest = src.size(1) + 1 + (MARGIN if end is not None else 0)
        if end is None:
            beam = 1
        model = self.model
        if self.parts is REFERENCES[self.settings.model]:
            model = CachedEncoderDecoder(model, self.settings, longest, beam)
        with self.parts.attribute_errors():
            if beam == 1 or end is None:
                tokens = greedy_decode(model, src, src_mask, longest, START, end)
            else:
                tokens = beam_search(model, src, src_mask, longest, START, end, beam, alpha)
        for row in tokens[:, 1:].tolist():
            yield row[: row.index(END)] if end is not None and END in row else row

    # --- Language ---------------------------------------------------------------------------------

    def generate(
        self, prompt: str, tokens: int = 200, sampling: Sampling = AS_LIKELY
    ) -> Iterator[str]:
        """Yield pieces of the continuation of a text as they are generated.

        Raises:
            Refused: this is not a language model, the prompt is empty, or the model does not know a
                character.
        """
        if not self.settings.of_language:
            raise Refused("This model answers: course translate gives it a text")
        ask = cached_forward(self.model, self.settings, self.parts, self.context)

        def asked(window: Tensor) -> Tensor:
            with self.parts.attribute_errors():
                return ask(window)

        yield from continue_text(
            asked,
            self.languages.target,
            prompt,
            tokens,
            sampling,
            context=self.context,
            device=self.device,
            ends=() if self.base is None else self.base.ends,
        )

    # --- Attention --------------------------------------------------------------------------------

    def attention(self, text: str) -> list[AttentionMap]:
        """Return what every head of every layer attends to, in a text and in the model's answer to
        it.

        Raises:
            Refused: the text is empty, or the model cannot read it.
        """
        if isinstance(self.model, OnnxModel):
            raise Refused(
                "An ONNX file has no attention weights: use the run that it was exported from"
            )
        fuse(self.model, False)
        try:
            with self.parts.attribute_errors():
                return self._attention(text)
        finally:
            fuse(self.model, self.settings.fused)

    def _attention(self, text: str) -> list[AttentionMap]:
        target = self.languages.target
        if self.settings.of_language:
            ids = target.encode(text)[-self.settings.context :]
            if not ids:
                raise Refused("The text must not be empty")
            layers = self_attention(self.model, torch.tensor([ids], device=self.device))
            names = target.names(ids)
            return [
                AttentionMap(f"layer {number}", weights, names, names)
                for number, weights in enumerate(layers, 1)
            ]
        source = self._source(text)
        if not source or self.languages.source is None:
            raise Refused("The text must not be empty")
        (answer,) = self._decode([source], 1, 0.0)
        prefix = [START, *answer]
        batch = Batch(
            torch.tensor([source], device=self.device),
            torch.tensor([[*prefix, PAD]], device=self.device),
            pad=PAD,
        )
        with torch.no_grad():
            self.model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        read = self.languages.source.names(source)
        # The symbol that starts an answer may be one like others elsewhere.
        generated = ["<start>", *target.names(answer)]
        maps = [
            AttentionMap(f"encoder {n}", layer.self_attn.weights[0].cpu(), read, read)
            for n, layer in enumerate(self.model.encoder.layers, 1)
        ]
        for n, layer in enumerate(self.model.decoder.layers, 1):
            own, cross = layer.self_attn.weights[0].cpu(), layer.src_attn.weights[0].cpu()
            maps.append(AttentionMap(f"decoder {n}, own past", own, generated, generated))
            maps.append(AttentionMap(f"decoder {n}, source", cross, generated, read))
        return maps


def _alike(sources: Sequence[list[int]], tokens: int) -> Iterator[list[int]]:
    """The places of sources of one length, at most so many tokens at a time; none of the empty ones.

    Sources of one length need no padding, and their answers end at about the same time.
    """
    by_length: dict[int, list[int]] = {}
    for index, source in enumerate(sources):
        by_length.setdefault(len(source), []).append(index)
    for length, places in sorted(by_length.items()):
        size = max(1, tokens // max(1, length))
        if length:
            yield from (places[first : first + size] for first in range(0, len(places), size))
