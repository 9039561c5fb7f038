"""Day 41 · AdamW and Muon

Lesson  course lesson 41
Hints   course hint 41     (one more each time; the first gives the steps of one way)
Check   course watch 41    (checks at every save; `course check 41` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay. Step t of a parameter θ with gradient g:

        θ ← θ − η·λ·θ
        m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
        θ ← θ − η · m̂ / (√v̂ + ε)     m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ)

    - `params` are parameters, or groups (dicts with `"params"`), as for every optimizer in PyTorch. A
      group may set its own `lr`, `betas`, `eps` and `weight_decay`, under these names.
    - Parameters are in float32 or float64, on any device. Gradients are dense and real.
    - `torch.optim.AdamW` with the same arguments takes the same steps, up to rounding.

    Raises:
        ValueError: `lr`, `eps` or `weight_decay` is negative, or a beta is outside [0, 1).

    Source: Loshchilov & Hutter 2019, algorithm 2, with the learning rate in the decay, as in PyTorch.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each parameter that has a gradient; return the closure's loss, if there is a closure.

        - Parameters are changed in place; gradients are not changed.
        - A parameter whose `grad` is None is skipped entirely: it does not decay, and its t does not
          increase. t counts the steps of each parameter, from 1; m and v are 0 before the first step.
        - `group["lr"]` and the other settings are read at every step, since schedulers change them.
        - The state of a parameter is in `self.state[parameter]`, a dict of tensors and numbers, under names
          of your choice. Then you need no code for `state_dict` and `load_state_dict`: a new optimizer that
          loads the state continues exactly where the old one stopped.
        - `closure` clears the gradients, computes the loss, calls `backward`, and returns the loss. Without
          a closure, return None.
        """
        raise NotImplementedError


def orthogonalize(matrix: Float[Tensor, "m n"], steps: int = 5) -> Float[Tensor, "m n"]:
    """Bring all singular values of a matrix near 1, and keep its singular vectors (Newton–Schulz).

        X ← G / max(‖G‖, 10⁻⁷)                        ‖G‖ is the Frobenius norm
        X ← a·X + b·(X Xᵀ) X + c·(X Xᵀ)² X            `steps` times

    with a = 3.4445, b = −4.7750 and c = 2.0315.

    - `matrix` is not changed. It may be square, tall or wide, of any scale. The result for a matrix of
      zeros is zeros.
    - Return the last X in the shape and dtype of `matrix`. float16 and bfloat16 are computed in
      float32, and float64 in float64.
    - With `steps=0`, the result is the matrix divided by its norm.

    Raises:
        ValueError: `matrix` does not have two dimensions, or `steps` is negative.

    Source: Jordan et al. 2024, `zeropower_via_newtonschulz5`.
    """
    raise NotImplementedError


class Muon(torch.optim.Optimizer):
    """Momentum whose step is orthogonalized, for weight matrices. A step of a matrix θ (m, n):

        B ← μ·B + (1 − μ)·G
        O = orthogonalize((1 − μ)·G + μ·B)
        θ ← θ − η·λ·θ − η · 0.2·√max(m, n) · O

    - The contract of `AdamW` on groups, `step` and state holds here as well; a group may set its own
      `lr`, `momentum` and `weight_decay`. B is 0 before the first step.
    - The constructor refuses parameters that are not matrices; AdamW trains those.
    - `torch.optim.Muon(…, nesterov=True, adjust_lr_fn="match_rms_adamw")` takes the same steps, but it
      orthogonalizes in bfloat16, and its arguments are in a different order.

    Raises:
        ValueError: a parameter is not a matrix, `lr` or `weight_decay` is negative, or `momentum` is outside
            [0, 1).

    Source: Jordan et al. 2024 (Nesterov momentum, then Newton–Schulz); Liu et al. 2025, eq. 4, where the
    factor 0.2·√max(m, n) makes the step about as large as AdamW's, so that both can share η.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
    ):
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each matrix that has a gradient; return the closure's loss, if there is a closure.

        The number of Newton–Schulz steps is 5.
        """
        raise NotImplementedError
