"""Gradients, in a form that a check can observe.

This module never imports torch: if no code has imported it, there are no tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from course.checks.arrays import is_floating, is_tensor, loaded_torch

# What each entry of an output counts in the number that is differentiated: uneven, so that no two
# entries can change places, and exact in every dtype.
PROBE = (1.0, -0.5, 2.0, 0.25, -1.5, 0.75, -2.0)


def named_parameters(module: Any) -> Iterator[tuple[str, Any]]:
    """Return each parameter once, a tied one under the name that comes first in the alphabet, so that
    the order in which the modules were created does not matter."""
    names: dict[int, tuple[str, Any]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        previous = names.get(id(parameter))
        if previous is None or name < previous[0]:
            names[id(parameter)] = name, parameter
    yield from names.values()


def wanting_gradients(inputs: Any) -> Any:
    """Return copies of all floating-point tensors, however nested, that require gradients."""
    if isinstance(inputs, dict):
        return {name: wanting_gradients(value) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(wanting_gradients(value) for value in inputs)
    if is_tensor(inputs) and is_floating(inputs):
        return inputs.detach().clone().requires_grad_()
    return inputs


def backward(*outputs: Any) -> None:
    """Differentiate outputs, with a different factor for every entry.

    An output that does not require a gradient creates none, which the check then observes.
    """
    total: Any = 0.0
    for output in outputs:
        if is_tensor(output) and output.requires_grad:
            total = total + (output * _probe(output)).sum()
    if is_tensor(total):
        total.backward()


def _probe(output: Any) -> Any:
    pattern = itertools.islice(itertools.cycle(PROBE), output.numel())
    return output.new_tensor(list(pattern)).view(output.shape)


def gradients(of: Any) -> dict[str, Any]:
    """Return the gradients of a module's parameters or of the tensors in a dict, by name; None for
    those without a gradient."""
    if _is_module(of):
        return {name: parameter.grad for name, parameter in named_parameters(of)}
    return {
        name: value.grad for name, value in of.items() if is_tensor(value) and value.requires_grad
    }


def _is_module(value: object) -> bool:
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.nn.Module)
