"""A model with one attention layer, and its training by gradient descent, in NumPy only.

The lessons before PyTorch build it of the learner's own functions. Day 1 derives the gradient of
the loss, day 7 those of a matrix product and of attention. There is nothing else in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import numpy_reference

Array = np.ndarray
PARTS = ("attention", "attention_backward", "join_heads", "log_softmax", "split_heads")


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
        **parts: Functions to build it of, by the names in `PARTS`; the others are the reference's.

    Raises:
        ValueError: a part that is not in `PARTS`.
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
        **parts: Callable[..., Any],
    ):
        if unknown := parts.keys() - set(PARTS):
            raise ValueError(f"parts must be among {PARTS}, got {sorted(unknown)}")
        self.parts = {name: getattr(numpy_reference, name) for name in PARTS} | parts
        self.h, self.residual = h, residual
        self.table = None if isinstance(positions, int) else positions
        p: dict[str, Array] = {
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

    def logits(self, inputs: Array, mask: Array | None = None) -> Array:
        """Return the logits `(B, T, classes)` for tokens `(B, T)` or vectors `(B, T, d_model)`."""
        return self._forward(inputs, mask)[-1]

    def loss(self, inputs: Array, targets: Array, mask: Array | None = None) -> float:
        """Return the mean cross-entropy; targets `(B, T)`, or `(B, T, n)` for n answers."""
        return self._cross_entropy(self.logits(inputs, mask), targets)[0]

    def step(
        self, inputs: Array, targets: Array, mask: Array | None = None, lr: float = 0.5
    ) -> None:
        """Move every parameter against its gradient: plain gradient descent."""
        for name, grad in self.gradients(inputs, targets, mask).items():
            self.params[name] -= lr * grad

    def gradients(
        self, inputs: Array, targets: Array, mask: Array | None = None
    ) -> dict[str, Array]:
        """Return the gradient of the loss for every parameter: `_forward`, from its end back."""
        split_heads, join_heads = self.parts["split_heads"], self.parts["join_heads"]
        x, q, k, v, weights, joined, y, logits = self._forward(inputs, mask)
        grads: dict[str, Array] = {}

        grad_logits = self._cross_entropy(logits, targets)[1]
        grad_y = self._linear_backward("read", y, grad_logits, grads)
        grad_heads = split_heads(self._linear_backward("o", joined, grad_y, grads), self.h)
        back = self.parts["attention_backward"](grad_heads, q, k, v, weights)
        grad_x = self.residual * grad_y
        for name, grad in zip("qkv", back, strict=True):  # x takes three ways: their gradients add
            grad_x = grad_x + self._linear_backward(name, x, join_heads(grad), grads)
        if "tokens" in self.params:  # a row's gradient is the sum over the places of its token
            grads["tokens"] = np.zeros_like(self.params["tokens"])
            np.add.at(grads["tokens"], inputs, grad_x)
        if "positions" in self.params:
            grads["positions"] = np.zeros_like(self.params["positions"])
            grads["positions"][: x.shape[1]] = grad_x.sum(axis=0)
        return grads

    def _forward(self, inputs: Array, mask: Array | None) -> tuple[Array, ...]:
        """Return the logits, after everything on the way to them that a gradient needs."""
        p, split_heads = self.params, self.parts["split_heads"]
        x = p["tokens"][inputs] if "tokens" in p else inputs
        table = p.get("positions", self.table)
        if table is not None:
            x = x + table[: x.shape[1]]
        q, k, v = (split_heads(x @ p[f"w_{n}"] + p[f"b_{n}"], self.h) for n in "qkv")
        mask = None if mask is None else mask[:, np.newaxis]
        heads, weights = self.parts["attention"](q, k, v, mask)
        joined = self.parts["join_heads"](heads)
        y = joined @ p["w_o"] + p["b_o"] + self.residual * x
        return x, q, k, v, weights, joined, y, y @ p["w_read"] + p["b_read"]

    def _linear_backward(self, name: str, x: Array, grad: Array, grads: dict[str, Array]) -> Array:
        """Add the gradients of the matrix and the bias of y = x W + b to `grads`; return that of x.

        `grad` is the gradient of y.
        """
        rows, grad_rows = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        grads[f"w_{name}"] = rows.T @ grad_rows
        grads[f"b_{name}"] = grad_rows.sum(axis=0)
        grad_x: Array = grad @ self.params[f"w_{name}"].T
        return grad_x

    def _cross_entropy(self, logits: Array, targets: Array) -> tuple[float, Array]:
        """Return the mean loss and its gradient: probability minus target."""
        per_answer = logits.reshape(*targets.shape, -1)
        log_p = self.parts["log_softmax"](per_answer)
        right = np.eye(per_answer.shape[-1])[targets]
        gradient = (np.exp(log_p) - right) / targets.size
        return float(-(log_p * right).sum() / targets.size), gradient.reshape(logits.shape)
