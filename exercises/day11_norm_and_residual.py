"""Day 11 · Norm and residual

Lesson  course lesson 11
Hints   course hint 11     (one more each time; the first gives the steps of one way)
Check   course watch 11    (checks at every save; `course check 11` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """Normalize every vector to mean 0 and variance 1, then scale and shift it.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    - `features` is the width of the vectors. `eps` is ε, inside the root.
    - `gain` is γ, `(features,)`, initialized to ones; `bias` is β, `(features,)`, initialized to zeros.

    Raises:
        ValueError: a width other than `features`.

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not in the paper.
    """

    def __init__(self, features: int, eps: float = 1e-5):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the last axis, with the biased variance σ² (divisor n).

        - Each vector has its own μ and σ².
        - The result has the shape and dtype of `x`.
        - A mean of 1000 with a standard deviation of 1 in float32 is normalized correctly, and so are
          features of 300 in float16, whose squares float16 cannot represent.
        """
        raise NotImplementedError


class SublayerConnection(nn.Module):
    """Add a residual connection and a LayerNorm around a sublayer.

        post-norm, as in the paper   LN(x + Dropout(Sublayer(x)))
        pre-norm                     x + Dropout(Sublayer(LN(x)))

    - `size` is d_model. The argument `norm` is `"post"` or `"pre"`.
    - `dropout` is the probability of dropping a feature of the sublayer's output.
    - The attribute `norm` is a `LayerNorm(size)`, and `dropout` an `nn.Dropout`.

    Raises:
        ValueError: a `norm` other than `"post"` and `"pre"`.

    Source: Vaswani et al. 2017, §3.1 and §5.4 (dropout, before the addition); pre-norm: Xiong et al.
    2020, *On Layer Normalization in the Transformer Architecture*, figure 1.
    """

    def __init__(self, size: int, dropout: float, norm: str = "post"):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B T size"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T size"]:
        """Apply `sublayer`, which keeps the shape `(B, T, size)`, inside the residual connection.

        - `sublayer` maps `(B, T, size)` to the same shape.
        - The result has the shape and dtype of `x`. Neither `x` nor the output of `sublayer` is changed in
          place.
        """
        raise NotImplementedError


def clones(module: nn.Module, n: int) -> nn.ModuleList:
    """Return n deep copies of a module, as an `nn.ModuleList`.

    - The `nn.ModuleList` lets the model find the parameters. For n = 0 the list is
      empty.
    - Each copy has its own parameters, with the values that `module` has now. The copies share no
      parameters, and none of the copies is the original.

    Source: Vaswani et al. 2017, §3.1 (identical layers) and §3.3 (different parameters in each).
    """
    raise NotImplementedError
