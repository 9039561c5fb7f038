"""The equations one by one, out of place and copied back; powers of X for the polynomial."""

import math

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def step(self, closure=None):
        loss = closure() if closure else None
        for group in self.param_groups:
            eta, (b1, b2) = group["lr"], group["betas"]
            for p in filter(lambda p: p.grad is not None, group["params"]):
                memory = self.state[p]
                t = memory["t"] = memory.get("t", 0) + 1
                m = memory["m"] = b1 * memory.get("m", 0.0) + (1 - b1) * p.grad
                v = memory["v"] = b2 * memory.get("v", 0.0) + (1 - b2) * p.grad**2
                m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
                old = p.detach()
                new = old - eta * group["weight_decay"] * old
                old.copy_(new - eta * m_hat / (torch.sqrt(v_hat) + group["eps"]))
        return loss


def orthogonalize(matrix, steps=5):
    x = matrix.double() if matrix.dtype == torch.float64 else matrix.float()
    x = x / max(float(x.square().sum().sqrt()), 1e-7)
    for _ in range(steps):
        cubed = x @ (x.mT @ x)
        x = 3.4445 * x - 4.775 * cubed + 2.0315 * cubed @ (x.mT @ x)
    return x.to(matrix)


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.95, weight_decay=0.1):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def step(self, closure=None):
        loss = closure() if closure else None
        for group in self.param_groups:
            mu = group["momentum"]
            for p in filter(lambda p: p.grad is not None, group["params"]):
                b = self.state[p]["b"] = mu * self.state[p].get("b", 0.0) + (1 - mu) * p.grad
                o = orthogonalize((1 - mu) * p.grad + mu * b)
                with torch.no_grad():
                    p -= group["lr"] * (
                        0.2 * math.sqrt(max(p.size())) * o + group["weight_decay"] * p
                    )
        return loss
