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

# --- Day 46 · LoRA --------------------------------------------------------------------------------


class LoRALinear(nn.Module):
    """Replace an `nn.Linear` by one with a low-rank update, which is 0 at initialization.

        h = W x + b + (α / r) B A x

    Raises:
        ValueError: `rank` is below 1.

    Source: Hu et al. 2021, eq. 3 and §4.1, which gives no standard deviation for A.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float = 16.0):
        super().__init__()
        if rank < 1:
            raise ValueError(f"rank must be at least 1, got {rank}")
        # 1. Take over the layer's own weight and bias, and freeze them.
        self.weight = linear.weight.requires_grad_(False)  # (d_out, d_in)
        self.bias = None if linear.bias is None else linear.bias.requires_grad_(False)  # (d_out,)
        # 2. The update is 0 because B is. If A were 0 as well, neither would have a gradient.
        d_out, d_in = linear.weight.shape
        a = torch.randn(rank, d_in, dtype=linear.weight.dtype, device=linear.weight.device)
        self.a = nn.Parameter(a / d_in**0.5)  # (r, d_in)
        self.b = nn.Parameter(linear.weight.new_zeros(d_out, rank))  # (d_out, r)
        self.scale = alpha / rank

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        """Return W x + b + (α / r) B A x, without computing B A."""
        # 1. Go through the r numbers A x: both products are small.
        update = F.linear(F.linear(x, self.a), self.b)  # (…, d_out)
        # 2. Scale the update, and add it to what the layer computes.
        return F.linear(x, self.weight, self.bias) + self.scale * update  # (…, d_out)


def add_lora(model: nn.Module, rank: int, names: Collection[str], alpha: float = 16.0) -> None:
    """Freeze a model, and replace its linear layers with these names by `LoRALinear`, in place.

    Raises:
        ValueError: `rank` is below 1, or no linear layer has one of these names.

    Source: Hu et al. 2021, §4.2, where the layers are the projections of attention.
    """
    # 1. Find the linear layers whose name ends with one of these parts, before anything is replaced.
    chosen = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.rpartition(".")[2] in names
    }
    if not chosen:
        raise ValueError(f"names must include a linear layer's, got {', '.join(names)}")
    updated = {name: LoRALinear(layer, rank, alpha) for name, layer in chosen.items()}
    # 2. Freeze everything, and put the new layers in their place.
    model.requires_grad_(False)
    for name, layer in updated.items():
        model.set_submodule(name, layer)


@torch.no_grad()
def merge_lora(model: nn.Module) -> None:
    """Replace each `LoRALinear` of a model by an `nn.Linear` that computes the same, in place.

        W ← W + (α / r) B A

    Source: Hu et al. 2021, §4.1, "No Additional Inference Latency".
    """
    updated = {
        name: layer for name, layer in model.named_modules() if isinstance(layer, LoRALinear)
    }
    for name, layer in updated.items():
        # 1. Multiply the factors, and add the scaled product to a copy of the weight.
        weight = layer.weight + layer.scale * layer.b @ layer.a  # (d_out, d_in)
        # 2. Put a plain linear layer in its place, with the same bias.
        plain = nn.Linear(*weight.shape[::-1], bias=layer.bias is not None, device="meta")
        plain.weight, plain.bias = nn.Parameter(weight, layer.weight.requires_grad), layer.bias
        model.set_submodule(name, plain)


# --- For training runs -------------------------------------------------------------------------------


def merged(weights: Mapping[str, Tensor], alpha: float = 16.0) -> dict[str, Tensor]:
    """Return the state dict of the plain model from that of a model with updates.

        W ← W + (α / r) B A

    Args:
        weights: names to tensors; those without an update are returned as they are.
        alpha: α, as in `add_lora`.

    Source: Hu et al. 2021, §4.1.
    """
    result = {name: weight for name, weight in weights.items() if not name.endswith((".a", ".b"))}
    for name, a in weights.items():
        if name.endswith(".a"):
            layer = name.removesuffix(".a")
            update = weights[f"{layer}.b"] @ a  # (d_out, d_in)
            result[f"{layer}.weight"] = result[f"{layer}.weight"] + alpha / len(a) * update
    return result
