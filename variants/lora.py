"""LoRA: fine-tuning by low-rank updates of some weight matrices, which stay frozen.

    h = W x + (α / r) B A x

Only A and B are trained: r (d_in + d_out) numbers per matrix instead of d_in · d_out, and as many gradients
and moments of Adam. After training, W + (α / r) B A replaces W, so the model is as fast as the original.

Paper: Hu et al. 2021, *LoRA: Low-Rank Adaptation of Large Language Models*.

From symbols to names
    W               the weight of the layer, (d_out, d_in), frozen
    A, B            `a`, (r, d_in); `b`, (d_out, r)
    r               rank
    α / r           `scale`: with α constant, the learning rate need not follow the rank
"""

from collections.abc import Collection, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

ALPHA = 16.0


class LoRALinear(nn.Linear):
    """An `nn.Linear` with a low-rank update that is 0 at initialization.

    Args:
        linear: the layer; its weight and bias are shared, and frozen.
        rank: r.
        alpha: α.

    Attributes:
        a: A, initialized from N(0, 1 / d_in), so that A x is about as large as x.
        b: B, initialized to 0.
        scale: α / r.

    Source: Hu et al. 2021, §4.1, which gives no standard deviation for A.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float = ALPHA):
        d_out, d_in = linear.weight.shape
        super().__init__(d_in, d_out, linear.bias is not None, device="meta")  # allocates nothing
        # 1. The layer's own weight and bias, which are not trained.
        self.weight, self.bias = linear.weight, linear.bias
        for frozen in linear.parameters():
            frozen.requires_grad_(False)
        # 2. The update is 0 because B is. If A were 0 as well, neither would have a gradient.
        like = {"dtype": linear.weight.dtype, "device": linear.weight.device}
        self.a = nn.Parameter(torch.randn(rank, d_in, **like) / d_in**0.5)  # (r, d_in)
        self.b = nn.Parameter(torch.zeros(d_out, rank, **like))  # (d_out, r)
        self.scale = alpha / rank

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        """Return W x + b + (α / r) B A x, without computing B A."""
        update = F.linear(F.linear(x, self.a), self.b)  # (…, d_out)
        return super().forward(x) + self.scale * update  # (…, d_out)


def add_lora(model: nn.Module, rank: int, names: Collection[str], alpha: float = ALPHA) -> None:
    """Freeze a model, and add low-rank updates to its linear layers with these names, in place.

    Args:
        rank: r.
        names: the last parts of the layers' names, such as `w_q` and `w_v`.
        alpha: α.

    Raises:
        ValueError: rank below 1, or no linear layer with one of these names.
    """
    if rank < 1:
        raise ValueError(f"rank must be at least 1, got {rank}")
    chosen = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.rpartition(".")[2] in names
    }
    if not chosen:
        raise ValueError(f"names must include a linear layer's, got {', '.join(names)}")
    model.requires_grad_(False)
    for name, layer in chosen.items():
        model.set_submodule(name, LoRALinear(layer, rank, alpha))


def merged(weights: Mapping[str, Tensor], alpha: float = ALPHA) -> dict[str, Tensor]:
    """Return the state dict of the plain model from that of a model with updates.

        W ← W + (α / r) B A

    Args:
        weights: names to tensors; those without an update are returned as they are.
        alpha: α, as in `add_lora`.

    Source: Hu et al. 2021, §4.1.
    """
    found = {name: one for name, one in weights.items() if not name.endswith((".a", ".b"))}
    for name, a in weights.items():
        if name.endswith(".a"):
            layer = name.removesuffix(".a")
            update = weights[f"{layer}.b"] @ a  # (d_out, d_in)
            found[f"{layer}.weight"] = found[f"{layer}.weight"] + alpha / len(a) * update
    return found
