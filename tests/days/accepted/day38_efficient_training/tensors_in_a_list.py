"""Hooks for what autograd saves, tensors in a list; squares added up by hand; the scale as an exponent."""

import math

import torch


def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    squares = torch.zeros((), dtype=torch.float32)
    for one in parameters:
        if one.grad is not None:
            squares = squares.to(one.device)
            wide = one.grad.double() if one.grad.dtype == torch.float64 else one.grad.float()
            squares = squares + (wide**2).sum()
    norm = squares**0.5
    factor = max_norm / (norm + 1e-6)
    if not factor >= 1:
        for one in parameters:
            if one.grad is not None:
                dtype = one.grad.dtype
                one.grad = (one.grad.to(torch.promote_types(dtype, factor.dtype)) * factor).to(
                    dtype
                )
    return norm


class LossScaler:
    def __init__(self, init_scale=2.0**16, growth_interval=2000):
        self.value = init_scale
        self.every = growth_interval
        self.history = []
        self.bad = None

    def get_scale(self):
        return self.value * 1.0

    def scale(self, loss):
        if loss.dtype in (torch.float16, torch.bfloat16):
            loss = loss.float()
        return self.value * loss

    def unscale_(self, optimizer):
        self.bad = False
        for group in optimizer.param_groups:
            for one in filter(lambda one: one.grad is not None, group["params"]):
                one.grad = one.grad / self.value
                self.bad |= not math.isfinite(float(one.grad.sum() * 0))

    def step(self, optimizer):
        self.unscale_(optimizer) if self.bad is None else None
        if not self.bad:
            optimizer.step()

    def update(self):
        self.history.append(not self.bad)
        self.bad = None
        if not self.history[-1]:
            self.value, self.history = self.value / 2, []
        if len(self.history) == self.every:
            self.value, self.history = self.value * 2, []


def checkpoint(function, *inputs):
    cuda = any(isinstance(one, torch.Tensor) and one.is_cuda for one in inputs)
    kind = "cuda" if cuda else "cpu"
    state = torch.cuda.get_rng_state() if cuda else torch.get_rng_state()
    cpu_state = torch.get_rng_state()
    enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    rest, handed_out = {}, []

    def pack(tensor):
        handed_out.append(None)
        return len(handed_out) - 1

    def unpack(index):
        if index not in rest:
            again = []
            before_cpu = torch.get_rng_state()
            before = torch.cuda.get_rng_state() if cuda else None
            torch.set_rng_state(cpu_state)
            if cuda:
                torch.cuda.set_rng_state(state)
            hooks = torch.autograd.graph.saved_tensors_hooks(
                lambda tensor: again.append(tensor.detach()), lambda _: None
            )
            with torch.enable_grad(), torch.autocast(kind, dtype=dtype, enabled=enabled), hooks:
                function(*inputs)
            torch.set_rng_state(before_cpu)
            if cuda:
                torch.cuda.set_rng_state(before)
            rest.update(enumerate(again))
        return rest.pop(index)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(*inputs)


def train_step(model, batches, loss, optimizer, scaler, max_norm, dtype=None):
    batches, parameters = tuple(batches), list(model.parameters())
    counts = [int(torch.count_nonzero(targets + 100)) for _, targets in batches]
    sums = []
    optimizer.zero_grad(set_to_none=False)
    for inputs, targets in batches:
        with torch.amp.autocast(inputs.device.type, dtype or torch.bfloat16, dtype is not None):
            logits = model(inputs)
        rows = torch.cat([*logits.to(torch.promote_types(logits.dtype, torch.float32))])
        value = loss(rows, torch.cat([*targets]))
        sums.append(float(value))
        grads = torch.autograd.grad(scaler.scale(value / sum(counts)), parameters)
        for one, grad in zip(parameters, grads, strict=True):
            one.grad = grad if one.grad is None else one.grad + grad
    scaler.unscale_(optimizer)
    norm = clip_gradients(iter(parameters), max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=False)
    return math.fsum(sums) / sum(counts), float(norm)
