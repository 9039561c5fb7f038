"""Fine-tuning: what a run takes from a published model before it trains all weights, or LoRA's updates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from training.data.vocabulary import Languages, Published, chat_format
from training.errors import Refused
from training.generation.chat_templates import chatml
from training.models.architectures import Model, copy_weights, weights_of
from training.models.base_model import PublishedConfig
from training.models.hub import folder_of
from training.models.pretrained import Pretrained
from training.settings import Settings
from variants.lora import add_lora

PROJECTIONS = (
    *("w_qkv", "w_q", "w_k", "w_v", "w_o"),
    *("w_1", "w_2", "w_gate", "w_up", "w_down"),
)
"""Linear layers that LoRA updates: those of attention and of the feed-forward networks."""


@dataclass(frozen=True)
class Origin:
    """The published model from which a run begins."""

    base: PublishedConfig
    weights: dict[str, Tensor]
    """In float32, whatever they were published in: halves would lose small steps."""
    languages: Languages

    @property
    def fingerprint(self) -> str:
        """Return a digest of the weights."""
        hasher = hashlib.sha256()
        for name, weight in sorted(self.weights.items()):
            hasher.update(name.encode())
            hasher.update(weight.contiguous().numpy().tobytes())
        return hasher.hexdigest()

    def fitted(self, settings: Settings) -> Settings:
        """Return the settings with this model's sizes.

        Raises:
            Refused: the windows exceed the model's context, or the model does not use a setting.
        """
        config = self.base.config
        if settings.context > config.context:
            raise Refused(
                f"context must be at most {config.context} tokens, which is what the model in --from "
                f"reads, got {settings.context}: --set context={config.context}"
            )
        return settings.replace(self.base.settings)

    def for_chat(self) -> Origin:
        """Return the same model with day 45's chat template, whose end token ends a reply.

        Raises:
            Refused: the vocabulary has no tokens for this template.
        """
        words = self.languages.target
        _, *marks = chat_format(words)
        ends = sorted({*self.base.ends, marks[1]})
        return replace(
            self, base=replace(self.base, template=chatml(*words.names(marks)), ends=ends)
        )

    def begin(self, model: Model, settings: Settings) -> None:
        """Load these weights into a model and, if the settings ask for LoRA, freeze it and add
        updates.

        Raises:
            Refused: the names or shapes are not the model's.
        """
        copy_weights(model, self.weights)
        if settings.lora:
            add_lora(model, settings.lora, PROJECTIONS)


def origin(settings: Settings, console: Console) -> Origin:
    """Read the published model that the settings name; download it once if necessary.

    Raises:
        Refused: the model cannot be downloaded or read.
    """
    data_dir = Path(settings.data_dir) if settings.data_dir else None
    pretrained = Pretrained.load(folder_of(settings.pretrained, data_dir, console), "cpu")
    weights = {name: weight.float() for name, weight in weights_of(pretrained.model).items()}
    # A LLaMA that is tied has its head twice here, and is trained with one matrix for both.
    tied = "head.weight" not in weights
    if not tied and torch.equal(weights["head.weight"], weights["embed.weight"]):
        del weights["head.weight"]
        tied = True
    base = PublishedConfig(
        config=replace(pretrained.model.config),
        tied=tied,
        divisors=None if pretrained.divisors is None else pretrained.divisors.tolist(),
        rope=pretrained.rope,
        ends=sorted(pretrained.ends),
        template=pretrained.template,
        specials=dict(pretrained.specials),
    )
    words = Published(pretrained.tokenizer, base.config.vocab)
    return Origin(base, weights, Languages(None, words, None))
