"""Day 46 · LoRA

Lesson  course lesson 46
Hints   course hint 46     (one more each time; the first gives the steps of one way)
Check   course watch 46    (checks at every save; `course check 46` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class LoRALinear(nn.Module):
    """Replace an `nn.Linear` by one with a low-rank update, which is 0 at initialization.

        h = W x + b + (α / r) B A x

    - `linear` is an `nn.Linear` with or without a bias, in any floating-point dtype, on any device.
      `alpha` is α.
    - `weight` and `bias` are the layer's own parameters, the same objects, not copies. Neither requires
      a gradient afterwards. `bias` is None if the layer has none.
    - `a` is A, a parameter `(rank, d_in)`, initialized from N(0, 1 / d_in), so that A x is about as
      large as x. `b` is B, a parameter `(d_out, rank)`, initialized to 0. Both have the dtype and the
      device of `weight`, and require gradients.
    - `weight`, `a`, `b` and, if the layer has one, `bias` are the parameters, and nothing else is in
      the state dict.

    Raises:
        ValueError: `rank` is below 1.

    Source: Hu et al. 2021, eq. 3 and §4.1, which gives no standard deviation for A.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float = 16.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        """Return W x + b + (α / r) B A x, without computing B A.

        - `x` has any number of leading axes, and the dtype of the layer. Gradients reach `x`, `a` and `b`.
        """
        raise NotImplementedError


def add_lora(model: nn.Module, rank: int, names: Collection[str], alpha: float = 16.0) -> None:
    """Freeze a model, and replace its linear layers with these names by `LoRALinear`, in place.

    - `names` are the last parts of the layers' names, without the dots: `w_q` matches
      `blocks.0.attention.w_q`, `blocks.1.attention.w_q` and a `w_q` of the model itself, but not
      `w_qk`, `new_w_q` or `w_q.inner`.
    - Each `nn.Linear` with such a name is replaced by a `LoRALinear` of it, wherever it is. Other
      modules are never replaced, whatever their name. The model itself is not an `nn.Linear`, and no
      layer occurs in two places.
    - Afterwards, only the new layers' `a` and `b` require gradients. So these are the entire update:
      after the same call on a copy of the original model, `load_state_dict(update, strict=False)`
      restores the tuned model.

    Raises:
        ValueError: `rank` is below 1, or no linear layer has one of these names.

    Source: Hu et al. 2021, §4.2, where the layers are the projections of attention.
    """
    raise NotImplementedError


@torch.no_grad()
def merge_lora(model: nn.Module) -> None:
    """Replace each `LoRALinear` of a model by an `nn.Linear` that computes the same, in place.

        W ← W + (α / r) B A

    - Each `LoRALinear` of the model is replaced by an `nn.Linear` with the merged weight and the same
      bias, wherever it is. The model's parameters then have the names and shapes of the original model.
      They may or may not require gradients.
    - Outputs change by rounding only. The layer's old weight is not changed: other models may share it.
    - The model itself is not a `LoRALinear`.

    Source: Hu et al. 2021, §4.1, "No Additional Inference Latency".
    """
    raise NotImplementedError
