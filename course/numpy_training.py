"""A model with one attention layer, and its training, in NumPy only: for the lessons before
PyTorch.

Day 1 derives the gradient of the loss, day 7 that of attention; everything else is matrix products.
"""

from __future__ import annotations

import numpy as np

from numpy_reference import (
    attention,
    attention_backward,
    join_heads,
    log_softmax,
    multi_head_attention,
    split_heads,
)

Array = np.ndarray


class OneLayer:
    """Compute logits from tokens or vectors by one layer of attention.

    Args:
        d_model: The width of the vectors.
        classes: The number of classes, or of all classes of several answers side by side.
        rng: The source of the initial parameters.
        h: The number of heads.
        vocab: The size of the vocabulary; without it, inputs are vectors.
        positions: What is added to the vectors: a fixed table, the number of learned vectors, or
            nothing.
        residual: Whether the layer's input is added to its output.
    """

    def __init__(
        self,
        d_model: int,
        classes: int,
        rng: np.random.Generator,
        *,
        h: int = 1,
        vocab: int = 0,
        positions: Array | int = 0,
        residual: bool = False,
    ):
        self.h, self.residual = h, residual
        self.table = None if isinstance(positions, int) else positions
        p = {
            f"w_{n}": rng.uniform(-1, 1, (d_model, d_model)) * (3 / d_model) ** 0.5 for n in "qkvo"
        }
        p |= {f"b_{n}": np.zeros(d_model) for n in "qkvo"}
        p |= {"w_read": rng.uniform(-1, 1, (d_model, classes)) / d_model**0.5}
        p |= {"b_read": np.zeros(classes)}
        if vocab:
            p["tokens"] = rng.standard_normal((vocab, d_model))
        if isinstance(positions, int) and positions:
            p["positions"] = rng.standard_normal((positions, d_model))
        self.params = p
        self._moments = {name: (np.zeros_like(one), np.zeros_like(one)) for name, one in p.items()}
        self._steps = 0

    def logits(self, inputs: Array, mask: Array | None = None) -> Array:
        """Return the logits `(B, T, classes)` for tokens `(B, T)` or vectors `(B, T, d_model)`."""
        x = self._embedded(inputs)
        y = multi_head_attention(x, x, x, self.params, self.h, mask) + self.residual * x
        logits: Array = y @ self.params["w_read"] + self.params["b_read"]
        return logits

    def loss(self, inputs: Array, targets: Array, mask: Array | None = None) -> float:
        """Return the mean cross-entropy; targets `(B, T)`, or `(B, T, n)` for n answers."""
        return _cross_entropy(self.logits(inputs, mask), targets)[0]

    def step(
        self, inputs: Array, targets: Array, mask: Array | None = None, lr: float = 0.01
    ) -> None:
        """Move every parameter a little against its gradient (Adam)."""
        self._steps += 1
        for name, grad in self.gradients(inputs, targets, mask).items():
            mean, square = self._moments[name]
            mean += 0.1 * (grad - mean)
            square += 0.001 * (grad**2 - square)
            size = np.sqrt(square / (1 - 0.999**self._steps)) + 1e-8
            self.params[name] -= lr * mean / (1 - 0.9**self._steps) / size

    def gradients(
        self, inputs: Array, targets: Array, mask: Array | None = None
    ) -> dict[str, Array]:
        """Return the gradient of the loss for every parameter."""
        p, x = self.params, self._embedded(inputs)
        q, k, v = (split_heads(x @ p[f"w_{n}"] + p[f"b_{n}"], self.h) for n in "qkv")
        heads, weights = attention(q, k, v, None if mask is None else mask[:, np.newaxis])
        joined = join_heads(heads)
        y = joined @ p["w_o"] + p["b_o"] + self.residual * x
        _, grad_logits = _cross_entropy(y @ p["w_read"] + p["b_read"], targets)

        grads = _linear("read", y, grad_logits)
        grad_y = grad_logits @ p["w_read"].T
        grads |= _linear("o", joined, grad_y)
        grad_x = self.residual * grad_y
        back = attention_backward(split_heads(grad_y @ p["w_o"].T, self.h), q, k, v, weights)
        for name, part in zip("qkv", map(join_heads, back), strict=True):
            grads |= _linear(name, x, part)
            grad_x = grad_x + part @ p[f"w_{name}"].T
        for name, rows in (("tokens", inputs), ("positions", np.arange(x.shape[1]))):
            if name in p:
                grads[name] = np.zeros_like(p[name])
                np.add.at(grads[name], rows, grad_x if name == "tokens" else grad_x.sum(axis=0))
        return grads

    def _embedded(self, inputs: Array) -> Array:
        x = self.params["tokens"][inputs] if "tokens" in self.params else inputs
        table = self.params.get("positions", self.table)
        return x if table is None else x + table[: x.shape[1]]


def _cross_entropy(logits: Array, targets: Array) -> tuple[float, Array]:
    """The mean loss, and its gradient: probability minus target."""
    per_answer = logits.reshape(*targets.shape, -1)
    log_p = log_softmax(per_answer)
    right = np.eye(per_answer.shape[-1])[targets]
    gradient = (np.exp(log_p) - right) / targets.size
    return float(-(log_p * right).sum() / targets.size), gradient.reshape(logits.shape)


def _linear(name: str, x: Array, grad: Array) -> dict[str, Array]:
    """The gradients of a matrix and its bias, summed over all positions."""
    x, grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return {f"w_{name}": x.T @ grad, f"b_{name}": grad.sum(axis=0)}
