"""The facts about the published model behind a fine-tuned one that settings cannot express; stored in
`base.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from variants.gpt import GPTConfig
from variants.llama import LLaMAConfig

KINDS = {"gpt": GPTConfig, "llama": LLaMAConfig}


@dataclass(frozen=True)
class PublishedConfig:
    """A published model without its weights and its tokenizer.

    Attributes:
        config: the sizes; the context may be longer than the windows that a run trains on.
        tied: whether the output projection is the embedding.
        divisors: the divisors of a LLaMA's angles, if they are scaled.
        rope: the same under the names of `transformers`; None if it has no names for them.
        ends: the tokens that end a text.
        template: the chat template, if there is one.
        specials: `bos_token` and `eos_token`, if there are any.
    """

    config: GPTConfig | LLaMAConfig
    tied: bool
    divisors: list[float] | None = None
    rope: Mapping[str, Any] | None = None
    ends: list[int] = field(default_factory=list)
    template: str | None = None
    specials: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The setting `model`."""
        return "gpt" if isinstance(self.config, GPTConfig) else "llama"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the model determines."""
        config = self.config
        return {
            "model": self.kind,
            "layers": config.n_layers,
            "d_model": config.d_model,
            "heads": config.n_heads,
            "kv_heads": config.n_kv_heads if isinstance(config, LLaMAConfig) else 0,
            "d_ff": config.d_ff,
            "norm": "pre",
            "tie": self.tied,
            "vocabulary": 0,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the JSON that `base_from_json` reads."""
        return {"kind": self.kind, **asdict(self)}


def base_from_json(entry: dict[str, Any]) -> PublishedConfig:
    """Return the model that `PublishedConfig.as_json` described.

    Raises:
        KeyError, TypeError: the JSON describes no model.
    """
    config = KINDS[entry.pop("kind")](**entry.pop("config"))
    return PublishedConfig(config=config, **entry)


def rope_of(divisors: Tensor | None) -> dict[str, Any] | None:
    """Return scaled angles under the names of `transformers`: linear scaling, or none; LLaMA 3's
    scaling is not recognized."""
    if divisors is None:
        return {"rope_type": "default"}
    if (divisors == divisors[0]).all():
        return {"rope_type": "linear", "factor": float(divisors[0])}
    return None
