"""An autograd.Function for checkpoints; one long vector to clip; a scaler that counts down."""

import contextlib

import torch

_ANCHOR = torch.zeros(1)


def clip_gradients(parameters, max_norm):
    found = [one.grad for one in parameters if one.grad is not None]
    if len(found) == 0:
        return torch.zeros(())
    double = any(one.dtype is torch.float64 for one in found)
    dtype = torch.float64 if double else torch.float32
    vector = torch.cat([one.flatten().to(dtype) for one in found])
    norm = (vector * vector).sum().sqrt()
    vector = vector * torch.minimum(max_norm / (norm + 0.000001), torch.ones_like(norm))
    for one in found:
        piece, vector = vector[: one.numel()], vector[one.numel() :]
        one.copy_(piece.view_as(one))
    return norm


class LossScaler:
    def __init__(self, init_scale=65536.0, growth_interval=2000):
        self.power, self.interval = init_scale, growth_interval
        self.left = growth_interval
        self.verdict = None

    def get_scale(self):
        return float(self.power)

    def scale(self, loss):
        factor = torch.tensor(self.power, dtype=torch.float32, device=loss.device)
        return torch.mul(loss, factor)

    def unscale_(self, optimizer):
        self.verdict = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                parameter.grad *= 1.0 / self.power
                total = parameter.grad.abs().max()
                if not bool(total < float("inf")):
                    self.verdict = False

    def step(self, optimizer):
        if self.verdict is None:
            self.unscale_(optimizer)
        return optimizer.step() if self.verdict else None

    def update(self):
        good, self.verdict = self.verdict, None
        self.left -= 1
        if not good:
            self.power *= 0.5
        elif self.left > 0:
            return
        else:
            self.power *= 2.0
        self.left = self.interval


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, noted, anchor, *inputs):
        ctx.function, ctx.noted = function, noted
        ctx.where = [i for i, one in enumerate(inputs) if torch.is_tensor(one)]
        ctx.rest = {i: one for i, one in enumerate(inputs) if i not in ctx.where}
        ctx.save_for_backward(*[inputs[i] for i in ctx.where])
        return function(*inputs)

    @staticmethod
    def backward(ctx, *arriving):
        inputs = dict(ctx.rest)
        for i, one in zip(ctx.where, ctx.saved_tensors, strict=True):
            inputs[i] = one.detach()
            inputs[i].requires_grad = one.requires_grad
        now = _random_state()
        state, casts = ctx.noted
        _set_random_state(state)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            for kind, enabled, dtype in casts:
                stack.enter_context(torch.amp.autocast(kind, dtype=dtype, enabled=enabled))
            results = ctx.function(*[inputs[i] for i in range(len(inputs))])
        _set_random_state(now)
        results = [results] if torch.is_tensor(results) else list(results)
        pairs = zip(results, arriving, strict=True)
        with torch.enable_grad():
            sums = [torch.sum(result * grad) for result, grad in pairs if result.requires_grad]
        torch.autograd.backward(sums)
        back = [inputs[i].grad if i in ctx.where else None for i in range(len(inputs))]
        return None, None, None, *back


def _random_state():
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), gpus


def _set_random_state(state):
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


def checkpoint(function, *inputs):
    if not torch.is_grad_enabled():
        return function(*inputs)
    casts = [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda")
    ]
    anchor = _ANCHOR.detach().requires_grad_()
    return _Recompute.apply(function, (_random_state(), casts), anchor, *inputs)


def train_step(model, batches, loss, optimizer, scaler, max_norm, dtype=None):
    pairs = [(inputs, targets) for inputs, targets in batches]
    count = torch.cat([targets.flatten() for _, targets in pairs]).ne(-100).sum()
    for one in model.parameters():
        one.grad = None
    values = []
    for inputs, targets in pairs:
        kind = inputs.device.type
        how = contextlib.nullcontext() if dtype is None else torch.autocast(kind, dtype=dtype)
        with how:
            logits = model(inputs)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        mean = loss(logits.flatten(end_dim=-2), targets.view(-1)) / count
        scaler.scale(mean).backward()
        values.append(mean.detach())
    scaler.unscale_(optimizer)
    norm = clip_gradients(list(model.parameters()), max_norm)
    scaler.step(optimizer)
    scaler.update()
    for one in model.parameters():
        one.grad = None
    return torch.stack(values).sum().item(), norm.item()
