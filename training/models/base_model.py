"""What a fine-tuned model has of the published one that its settings cannot say; kept in `base.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from variants.gpt import GPTConfig
from variants.llama import LLaMAConfig

KINDS = {"gpt": GPTConfig, "llama": LLaMAConfig}


@dataclass(frozen=True)
class Base:
    """A published model without its weights and its tokenizer.

    Attributes:
        config: its sizes; its context may be longer than the windows that a run trains on.
        tied: whether the output projection is the embedding.
        divisors: of a LLaMA's angles, where they are stretched.
        rope: the same by the names of `transformers`; None where it has none for them.
        ends: tokens with which a text ends.
        template: the chat template, where there is one.
        specials: `bos_token` and `eos_token`, where there are any.
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
        """The settings that it decides."""
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
        """What `base_from_json` makes it from again."""
        return {"kind": self.kind, **asdict(self)}


def base_from_json(found: dict[str, Any]) -> Base:
    """The model that `Base.as_json` described.

    Raises:
        KeyError, TypeError: it describes none.
    """
    config = KINDS[found.pop("kind")](**found.pop("config"))
    return Base(config=config, **found)


def rope_of(divisors: Tensor | None) -> dict[str, Any] | None:
    """Stretched angles by the names of `transformers`: linear ones, or none; LLaMA 3's are not recognized."""
    if divisors is None:
        return {"rope_type": "default"}
    if (divisors == divisors[0]).all():
        return {"rope_type": "linear", "factor": float(divisors[0])}
    return None
