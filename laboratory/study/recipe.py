"""A recipe: what a language model is made of, where models of equal sizes are compared."""

from __future__ import annotations

from dataclasses import dataclass, fields

from training.errors import Refused
from training.settings import Settings, check, choice, in_range

GROUPS = 4  # of a GroupNorm: 16 features each where d_model is 64


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What stands where in a model. The defaults are the paper's decoder without a source.

    Sizes, and whether norms come before or after a sublayer, are the trainer's: `training.settings`.

    Raises:
        Refused: a value that is not allowed, or parts that are not meant for each other.
    """

    normalized_by: str = choice("layer", "rms", "group", "none", default="layer")
    # of the last norm, where the layers have theirs before their sublayers
    final_norm: str = choice("same", "layer", "none", default="same")
    activation: str = choice(
        *("relu", "gelu", "gelu_tanh", "mish", "swish", "swiglu", "geglu", "bilinear"),
        default="relu",
    )
    positions: str = choice(
        "sinusoid", "learned", "t5", "rope", "alibi", "none", default="sinusoid"
    )
    attention: str = choice(
        *("full", "fused", "grouped", "multi_query", "window", "linear", "convolved", "mamba"),
        default="full",
    )
    qk_norm: bool = False  # normalize queries and keys
    # rope: how texts longer than the context are read; kept, the angles grow as ever
    longer: str = choice("kept", "linear", "yarn", "llama3", "window", default="kept")
    groups: int = in_range(1, None, 2)  # grouped: key/value heads
    window: int = in_range(2, None, 32)  # window: earlier tokens that a token sees; even
    # in place of each feed-forward network; 0 is the one network
    experts: int = in_range(0, None, 0)
    top_k: int = in_range(1, None, 1)  # experts of each token
    # the weights of a token's experts sum to 1; Switch has the router's p
    renormalized: bool = True
    balance: float = in_range(0, None, 0.01)  # the weight of the experts' balance in the loss

    def __post_init__(self) -> None:
        for part in fields(self):
            check(part, getattr(self, part.name))
        if self.attention == "mamba":
            self._check_mamba()
        if self.positions in ("t5", "alibi") and self.attention != "full":
            raise Refused(
                f"positions={self.positions} is added to the scores, which attention=full alone "
                f"shows: with attention={self.attention} take sinusoid, learned or none"
            )
        if self.attention == "linear" and self.positions == "rope":
            raise Refused(
                "attention=linear needs positive features, and positions=rope turns them: take "
                "sinusoid, learned or none"
            )
        if self.longer != "kept" and (self.positions, self.attention) != ("rope", "full"):
            raise Refused(
                f"longer={self.longer} is for positions=rope and attention=full, not "
                f"{self.positions} and {self.attention}"
            )
        if self.attention == "window" and self.window % 2:
            raise Refused(f"window must be even, got {self.window}")
        if self.experts:
            self._check_experts()

    def _check_mamba(self) -> None:
        if self.positions != "none":
            raise Refused(
                "attention=mamba reads in order, and has no use for positions: "
                f"positions=none, not {self.positions}"
            )
        if self.experts:
            raise Refused(
                "attention=mamba stands for the feed-forward network as well: experts must be 0"
            )

    def _check_experts(self) -> None:
        if self.activation != "swiglu":
            raise Refused(f"experts are of activation=swiglu, not {self.activation}")
        if self.top_k > self.experts:
            raise Refused(f"top_k must be at most experts={self.experts}, got {self.top_k}")

    def check(self, settings: Settings) -> None:
        """Whether a model of these sizes can be made of it.

        Raises:
            Refused: no.
        """
        if settings.model != "paper":
            raise Refused(
                f"a recipe says what the model is made of: model must be paper, not {settings.model}"
            )
        if settings.norm != "pre" and self.attention == "mamba":
            raise Refused("attention=mamba norms before a sublayer: norm must be pre")
        if self.positions == "rope" and settings.d_model // settings.heads % 2:
            raise Refused(
                "positions=rope rotates features in pairs: d_model / heads must be even, got "
                f"{settings.d_model // settings.heads}"
            )
        if self.attention == "grouped" and settings.heads % self.groups:
            raise Refused(
                f"groups must divide heads, got groups={self.groups}, heads={settings.heads}"
            )
        if self.normalized_by == "group" and settings.d_model % GROUPS:
            raise Refused(
                f"normalized_by=group has {GROUPS} groups, which must divide d_model = "
                f"{settings.d_model}"
            )
