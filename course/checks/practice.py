"""The practice GPU: a torch device with the rules of a GPU and the numbers of the CPU.

A tensor on it is a wrapper around a CPU tensor. Every operation on it goes through
`__torch_dispatch__`, which refuses what CUDA refuses (above all, mixing CPU tensors with tensors on
the device), computes on the CPU tensors, and wraps the result. Random numbers come from the CPU's
generator. So an answer's results there equal those on the CPU, to the last bit.

Everything that uses torch's experimental API for devices written in Python is in this file. Where
CUDA and the practice GPU differ, CUDA is right: `tests/course/checks/test_practice.py` lists what
was compared.
"""

# mypy: disable-error-code="assignment, arg-type, attr-defined, call-arg, misc, no-untyped-call, override"

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch

NAME, DEVICE = "practice", "practice:0"
_SETUP = backend_registration._setup_privateuseone_for_python_backend

TWO_DEVICES = (
    "Expected all tensors to be on the same device, "
    f"but found at least two devices, {DEVICE} and cpu!"
)
INDICES = "indices should be either on cpu or on the same device as the indexed tensor ({})"
GENERATOR = "Expected a '{}' device type for generator but found '{}'"
TO_NUMPY = (
    f"can't convert {DEVICE} device type tensor to numpy. "
    "Use Tensor.cpu() to copy the tensor to host memory first."
)

COPIES = {"copy_", "_to_copy", "_copy_from"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
# Operations that take single numbers from the CPU, besides those that work entry by entry.
WITH_NUMBERS = {"where", "fill", "fill_", "masked_fill", "masked_fill_", *INDEXING}
# Operations that make a tensor on the device (those that torch would make empty and then resize, which a
# wrapper cannot be, among them), and those that `torch.tensor` uses beneath `__torch_dispatch__`.
ATEN = torch.ops.aten
FACTORIES = (
    *(ATEN.empty.memory_format, ATEN.empty_strided.default, ATEN.linspace.default),
    *(ATEN.arange.default, ATEN.arange.start, ATEN.arange.start_step, ATEN.logspace.default),
    *(ATEN.eye.default, ATEN.eye.m, ATEN.randperm.default, ATEN.randperm.generator),
    *(ATEN.tril_indices.default, ATEN.triu_indices.default),
    *(ATEN._copy_from.default, ATEN._local_scalar_dense.default),
)
# What autocast computes in half precision, and what in float32.
NARROW = (
    *(ATEN.linear.default, ATEN.matmul.default, ATEN.mm.default, ATEN.bmm.default),
    *(ATEN.addmm.default, ATEN.baddbmm.default, ATEN.scaled_dot_product_attention.default),
)
WIDE = (
    *(ATEN.softmax.int, ATEN.log_softmax.int, ATEN.layer_norm.default, ATEN.exp.default),
    *(ATEN.cross_entropy_loss.default, ATEN.nll_loss.default),
)

# What was raised within a backward pass. On its way through autograd an exception would end the process,
# because torch calls the device's guard, which is Python, while it is set. So `_Rules` raises it afterwards.
_IN_BACKWARD: list[Exception] = []
_FUNCTION, _HOOKS = (
    torch.autograd.function.BackwardCFunction,
    torch.autograd.graph.saved_tensors_hooks,
)
_APPLY, _HOOKED = _FUNCTION.apply, _HOOKS.__init__


class Practice(Tensor):
    """A tensor on the practice GPU."""

    values: Tensor
    """The CPU tensor with its numbers. Views share its memory."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: Tensor) -> Practice:
        """Wrap a CPU tensor, which is not copied."""
        tensor: Practice = Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=DEVICE,
        )
        tensor.values = values
        return tensor

    @classmethod
    def __torch_dispatch__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return _computed(function, *args, **(kwargs or {}))
        except Exception as error:
            if sys._getframe(1).f_code.co_name != "_engine_run_backward":
                raise
            _IN_BACKWARD.append(error)
            return None

    # --- What torch asks of a tensor in Python, and not of its operations

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError(TO_NUMPY)
        return self.detach().cpu().numpy()

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def untyped_storage(self) -> Any:
        return self.values.untyped_storage()

    def data_ptr(self) -> int:
        return self.values.data_ptr()

    def __format__(self, how: str) -> str:
        return format(self.item(), how) if self.dim() == 0 else format(repr(self), how)

    def __repr__(self, **_: Any) -> str:
        text = torch._tensor_str._str(Practice(self.values)).replace("Practice(", "tensor(", 1)
        text = f"{text[:-1]}, requires_grad=True)" if self.requires_grad else text
        return f"Parameter containing:\n{text}" if isinstance(self, nn.Parameter) else text

    def __deepcopy__(self, _: Any) -> Tensor:
        return _rebuilt(self.values.clone(), *_made_of(self))

    def __reduce_ex__(self, _: Any) -> Any:
        return _rebuilt, (self.values.clone(), *_made_of(self))


def _made_of(tensor: Tensor) -> tuple[bool, bool]:
    return tensor.requires_grad, isinstance(tensor, nn.Parameter)


def _rebuilt(values: Tensor, requires_grad: bool, is_parameter: bool) -> Tensor:
    tensor = Practice(values)
    if is_parameter:
        return nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


# --- Operations -----------------------------------------------------------------------------------


def _computed(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What an operation makes of tensors on the device.

    Raises:
        RuntimeError: CUDA refuses it, because a tensor is on a different device.
    """
    tensors = list(_tensors((args, list(kwargs.values()))))
    name = function._schema.name.removeprefix("aten::")
    _refuse_two_devices(function, name, args, tensors)
    if name == "_copy_from":
        args[1].values.copy_(_bare(args[0]))
        return args[1]
    device = kwargs.get("device")
    where = {} if device is None else {"device": "cpu", "pin_memory": None}
    keywords = {key: where.get(key, _bare(value)) for key, value in kwargs.items()}
    result = function(*_bare(args), **keywords)
    if torch.Tag.inplace_view in function.tags:  # the wrapper's own shape changes, too
        with no_dispatch():
            function(*args, **kwargs)
    to_cpu = name == "copy_" and not isinstance(args[0], Practice)
    if to_cpu or (device is not None and torch.device(device).type == "cpu"):
        return result
    # Within `inference_mode`, a view of a tensor from outside is not an inference tensor, either.
    inference = torch.is_inference_mode_enabled() and not (
        function.is_view and not args[0].is_inference()
    )
    with torch.inference_mode(inference):
        return _wrapped(
            result,
            {id(tensor.values): tensor for tensor in tensors if isinstance(tensor, Practice)},
        )


def _refuse_two_devices(function: Any, name: str, args: Any, tensors: list[Tensor]) -> None:
    foreign = [tensor for tensor in tensors if not isinstance(tensor, Practice)]
    if not foreign or name in COPIES:
        return
    if name in INDEXING:
        if not isinstance(args[0], Practice):
            raise RuntimeError(INDICES.format("cpu"))
        foreign = [tensor for tensor in _tensors(args[2:]) if not isinstance(tensor, Practice)]
    takes_numbers = name in WITH_NUMBERS or torch.Tag.pointwise in function.tags
    fixed = [*args[: int(function._schema.is_mutable)]]  # what is changed in place
    fixed += args[1:2] if name.startswith("masked_fill") else []  # and a mask
    for cpu_tensor in foreign:
        if not takes_numbers or cpu_tensor.dim() > 0 or any(cpu_tensor is other for other in fixed):
            kind = str(cpu_tensor.dtype).removeprefix("torch.")
            what = (
                f"The CPU tensor is {kind} of shape {tuple(cpu_tensor.shape)}, given to `{name}`."
            )
            raise RuntimeError(f"{TWO_DEVICES}\n{what}")


def _tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor among the arguments of an operation."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        yield from itertools.chain.from_iterable(map(_tensors, value))


def _bare(value: Any) -> Any:
    """The same arguments, with CPU tensors in place of wrappers."""
    if isinstance(value, tuple | list):
        return type(value)(map(_bare, value))
    return value.values if isinstance(value, Practice) else value


def _wrapped(value: Any, wrappers: dict[int, Practice]) -> Any:
    """The same result on the device. What was changed in place is the tensor that it was."""
    if isinstance(value, tuple | list):
        return type(value)(_wrapped(item, wrappers) for item in value)
    if isinstance(value, Tensor):
        return wrappers[id(value)] if id(value) in wrappers else Practice(value)
    return value


def _cast(function: Any, narrow: bool, *args: Any, **kwargs: Any) -> Any:
    """An operation within autocast: on inputs of the dtype that autocast gives it."""
    dtype = torch.get_autocast_dtype(NAME) if narrow else torch.float32

    def cast(value: Any) -> Any:
        half_or_single = isinstance(value, Tensor) and value.dtype.itemsize < 8
        return value.to(dtype) if half_or_single and value.is_floating_point() else value

    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    with torch._C._ExcludeDispatchKeyGuard(key):
        return function(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})


# --- Generators, and what else the experimental API lacks -----------------------------------------

_GENERATOR = torch.Generator


class _Generator(_GENERATOR):
    """Stands for `torch.Generator`: one on the device is of the CPU's numbers, and says where it is."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        on_practice = torch.device(device).type == NAME
        generator: _Generator = super().__new__(cls, "cpu" if on_practice else device)
        generator.on_practice = on_practice
        return generator

    @property
    def device(self) -> torch.device:
        return torch.device(DEVICE) if self.on_practice else super().device


class _Rules(TorchFunctionMode):
    """Within it, a generator draws on its own device, a CPU parameter can be given data on the device, and
    memory can be pinned. Each CPU tensor keeps the line of the answer that made it."""

    def __init__(self, file: str | None) -> None:
        super().__init__()
        self._file = file

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is Tensor.pin_memory:
            return args[0].clone()
        if function is Tensor.register_hook:
            args = args[0], _noted(args[1])
        if function == Tensor.data.__set__:
            old, new = args
            if isinstance(old, Practice):
                old.values = new.values
            elif isinstance(new, Practice):
                return torch.utils.swap_tensors(old, _rebuilt(new.values, *_made_of(old)))
        result, failure = None, None
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            failure = error
        if _IN_BACKWARD:
            failure = _IN_BACKWARD[0]
            _IN_BACKWARD.clear()
        if failure is not None:
            lines = _lines_of_cpu_tensors((args, list(kwargs.values())))
            if lines and str(failure).startswith(TWO_DEVICES):
                failure.cpu_line = lines[0]
            raise failure
        if type(result) is Tensor and self._file is not None:
            here = sys._getframe(1)
            while here is not None and here.f_code.co_filename != self._file:
                here = here.f_back
            cpu_lines = _lines_of_cpu_tensors((args, list(kwargs.values())))
            if cpu_lines:
                result.cpu_line = cpu_lines[0]
            elif here is not None:
                code = here.f_code
                result.cpu_line = here.f_lineno, code.co_qualname, code.co_filename
        generator = kwargs.get("generator")
        if generator is not None and isinstance(result, Tensor):
            kinds = result.device.type, generator.device.type
            if kinds[0] != kinds[1]:
                raise RuntimeError(GENERATOR.format(*kinds))
        return result


def _noted(call: Any) -> Any:
    """The same function for autograd to call in a backward pass: what it raises is for `_Rules` to raise."""

    @functools.wraps(call)
    def noted(*args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:
            _IN_BACKWARD.append(error)
            return None

    return noted


def _apply(function: Any, *gradients: Any) -> Any:
    """The backward pass of a custom function."""
    result = _noted(_APPLY)(function, *gradients)
    return (None,) * len(function.needs_input_grad) if result is None else result


def _hooked(hooks: Any, pack: Any, unpack: Any) -> None:
    """Hooks on saved tensors, as checkpointing uses them to compute a layer again."""
    _HOOKED(hooks, pack, _noted(unpack))


def _lines_of_cpu_tensors(arguments: Any) -> list[Any]:
    """Where the answer made each CPU tensor among the arguments, as far as that is known."""
    lines = (vars(tensor).get("cpu_line") for tensor in _tensors(arguments))
    return [line for line in lines if line is not None]


# --- The device -----------------------------------------------------------------------------------


class _Module(backend_registration._DummyBackendModule):
    """`torch.practice`."""

    available = False

    def is_available(self) -> bool:
        return self.available

    def get_rng_state(self, _: Any = DEVICE) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, _: Any = DEVICE) -> None:
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


_LIBRARIES: list[Any] = []  # what is registered lives as long as they do


@functools.cache
def register() -> None:
    """Make the device known to torch."""
    _SETUP(NAME, backend_module=_Module())
    every, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for make in FACTORIES:
        aten.impl(make, functools.partial(_computed, make), "PrivateUse1")
    for operation in NARROW + WIDE:
        cast = functools.partial(_cast, operation, operation in NARROW)
        aten.impl(operation, cast, "AutocastPrivateUse1")
    _LIBRARIES.extend([every, aten])
    torch.serialization.add_safe_globals([_rebuilt])


@contextmanager
def running(file: str | None = None) -> Iterator[None]:
    """Make the device torch's accelerator within the context, with generators; `Module.to` keeps
    parameter objects, so that tied parameters stay tied.

    Args:
        file: the answer's file; the lines of it that create CPU tensors are recorded.
    """
    register()
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    before = torch.practice.available, torch.Generator
    torch.practice.available, torch.Generator = True, _Generator
    _FUNCTION.apply, _HOOKS.__init__ = _apply, _hooked
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        # In a thread of the device's own, as autograd has for each, an exception would end the process.
        with _Rules(file), torch.autograd.set_multithreading_enabled(False):
            yield
    finally:
        torch.practice.available, torch.Generator = before
        _FUNCTION.apply, _HOOKS.__init__ = _APPLY, _HOOKED
        torch.__future__.set_swap_module_params_on_conversion(swaps)
