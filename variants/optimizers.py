"""Optimizers: AdamW, written out, and Muon, whose step has singular values near 1.

Adam divides each gradient by a running estimate of its own size, so that all parameters move at the same
speed. AdamW shrinks the weights directly instead of through the gradient (decoupled weight decay). Muon
treats the gradient of a weight matrix as a matrix: it brings all singular values near 1.

Papers: Kingma & Ba 2015, *Adam*; Loshchilov & Hutter 2019, *Decoupled Weight Decay Regularization*
(AdamW); Jordan et al. 2024, *Muon: An optimizer for hidden layers in neural networks*; Liu et al. 2025,
*Muon is Scalable for LLM Training* (weight decay, and the scale of the step).

From symbols to names
    θ               parameter
    g, G            gradient; G where it is a matrix
    m, v            mean, square: running means of g and of g²
    β₁, β₂          betas
    η, λ, ε         lr, weight_decay, eps
    B, μ            buffer, momentum
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# --- Day 41 · AdamW and Muon ----------------------------------------------------------------------


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay. Step t of a parameter θ with gradient g:

        θ ← θ − η·λ·θ
        m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
        θ ← θ − η · m̂ / (√v̂ + ε)     m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ)

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
        for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
            if not value >= 0:
                raise ValueError(f"{name} must be at least 0, got {value}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be at least 0 and below 1, got {betas}")
        # 1. Call the constructor of `torch.optim.Optimizer` with the parameters and a dict of the settings,
        #    by name: a group that does not set one gets it from there.
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each parameter that has a gradient; return the closure's loss, if there is a closure."""
        # 1. If there is a closure, call it with gradients enabled: it computes the gradients.
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta_1, beta_2 = group["betas"]
            for parameter in group["params"]:
                # 2. Skip a parameter without a gradient.
                if parameter.grad is None:
                    continue
                # 3. Find its state, which is empty at first, and count this step.
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                state["step"] += 1
                # 4. Decay the weights.
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                # 5. Update both running means.
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                mean.lerp_(parameter.grad, 1 - beta_1)
                square.lerp_(parameter.grad.square(), 1 - beta_2)
                # 6. Correct their bias towards 0, and step.
                unbiased = mean / (1 - beta_1 ** state["step"])
                size = (square / (1 - beta_2 ** state["step"])).sqrt()
                parameter.sub_(group["lr"] * unbiased / (size + group["eps"]))
        return loss


def orthogonalize(matrix: Float[Tensor, "m n"], steps: int = 5) -> Float[Tensor, "m n"]:
    """Bring all singular values of a matrix near 1, and keep its singular vectors (Newton–Schulz).

        X ← G / max(‖G‖, 10⁻⁷)                        ‖G‖ is the Frobenius norm
        X ← a·X + b·(X Xᵀ) X + c·(X Xᵀ)² X            `steps` times

    with a = 3.4445, b = −4.7750 and c = 2.0315.

    Raises:
        ValueError: `matrix` does not have two dimensions, or `steps` is negative.

    Source: Jordan et al. 2024, `zeropower_via_newtonschulz5`.
    """
    if matrix.dim() != 2:
        raise ValueError(f"matrix must have 2 dimensions, got {matrix.dim()}")
    if steps < 0:
        raise ValueError(f"steps must be at least 0, got {steps}")
    a, b, c = 3.4445, -4.7750, 2.0315
    # 1. Compute in float32 at least. Make a tall matrix wide: then X Xᵀ is the smaller product.
    x = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
    tall = matrix.size(0) > matrix.size(1)
    if tall:
        x = x.T
    # 2. Divide by the norm: no singular value exceeds 1 afterwards.
    x = x / x.norm().clamp(min=1e-7)
    # 3. Apply the polynomial to all singular values at once.
    for _ in range(steps):
        gram = x @ x.T  # (min(m, n), min(m, n))
        x = a * x + (b * gram + c * gram @ gram) @ x
    # 4. Transpose it back, and return it in the input's dtype.
    return (x.T if tall else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose step is orthogonalized, for weight matrices. A step of a matrix θ (m, n):

        B ← μ·B + (1 − μ)·G
        O = orthogonalize((1 − μ)·G + μ·B)
        θ ← θ − η·λ·θ − η · 0.2·√max(m, n) · O

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
        for name, value in {"lr": lr, "weight_decay": weight_decay}.items():
            if not value >= 0:
                raise ValueError(f"{name} must be at least 0, got {value}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
        # 1. Call the constructor of `torch.optim.Optimizer` with the parameters and the settings.
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    shape = tuple(parameter.shape)
                    raise ValueError(f"parameters must have 2 dimensions, got the shape {shape}")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each matrix that has a gradient; return the closure's loss, if there is a closure."""
        # 1. If there is a closure, call it with gradients enabled: it computes the gradients.
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            momentum = group["momentum"]
            for parameter in group["params"]:
                # 2. Skip a matrix without a gradient.
                if parameter.grad is None:
                    continue
                # 3. Update the running mean of its gradients, and look one step ahead (Nesterov).
                state = self.state[parameter]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                buffer = state["momentum_buffer"].lerp_(parameter.grad, 1 - momentum)
                ahead = parameter.grad.lerp(buffer, momentum)
                # 4. Decay the weights, and step along the orthogonalized mean.
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                scale = 0.2 * math.sqrt(max(parameter.shape))
                parameter.sub_(group["lr"] * scale * orthogonalize(ahead))
        return loss
