"""The loop over parameters apart from the update; corrections in the rate; a sum for Muon's mean."""

import torch


class ByParameter(torch.optim.Optimizer):
    """An optimizer that visits each parameter with a gradient."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is not None:
                    one.mul_(1 - group["lr"] * group["weight_decay"])
                    self.update(one, one.grad, self.state[one], group)
        return loss


class AdamW(ByParameter):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def update(self, one, grad, state, group):
        if "step" not in state:
            state.update(step=torch.tensor(0.0), m=torch.zeros_like(one), v=torch.zeros_like(one))
        state["step"] += 1
        (beta_1, beta_2), t = group["betas"], state["step"].item()
        state["m"].mul_(beta_1).add_(grad, alpha=1 - beta_1)
        state["v"].mul_(beta_2).addcmul_(grad, grad, value=1 - beta_2)
        root = state["v"].sqrt().div_((1 - beta_2**t) ** 0.5).add_(group["eps"])
        one.addcdiv_(state["m"], root, value=-group["lr"] / (1 - beta_1**t))


def orthogonalize(matrix, steps=5):
    wide = torch.promote_types(matrix.dtype, torch.float32)
    if matrix.size(0) > matrix.size(1):
        return orthogonalize(matrix.T, steps).T
    x = matrix.to(wide) / torch.linalg.matrix_norm(matrix.to(wide)).clamp(min=1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = torch.addmm(x, torch.addmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.to(matrix.dtype)


class Muon(ByParameter):
    def __init__(self, params, lr=1e-3, momentum=0.95, weight_decay=0.1):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def update(self, one, grad, state, group):
        buffer = state.setdefault("sum", torch.zeros_like(one))
        buffer.mul_(group["momentum"]).add_(grad)
        ahead = (1 - group["momentum"]) * grad.add(buffer, alpha=group["momentum"])
        one.sub_(orthogonalize(ahead), alpha=group["lr"] * 0.2 * max(one.shape) ** 0.5)
