"""torch's own parts, called as its documentation has it; one graph and one backward for a group."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as recompute


def clip_gradients(parameters, max_norm):
    with_one = [one for one in parameters if one.grad is not None]
    if not with_one:
        return torch.tensor(0.0, dtype=torch.float32)
    wide = []
    for one in with_one:
        copy = nn.Parameter(
            torch.zeros_like(one, dtype=torch.promote_types(one.dtype, torch.float32))
        )
        copy.grad = one.grad.to(copy.dtype, copy=True)
        wide.append(copy)
    norm = nn.utils.clip_grad_norm_(wide, max_norm)
    for one, copy in zip(with_one, wide, strict=True):
        one.grad = copy.grad.to(one.dtype)
    return norm


class LossScaler(torch.amp.GradScaler):
    def __init__(self, init_scale=2.0**16, growth_interval=2000):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        super().__init__(device, init_scale=init_scale, growth_interval=growth_interval)


def checkpoint(function, *inputs):
    return recompute(function, *inputs, use_reentrant=False)


def train_step(model, batches, loss, optimizer, scaler, max_norm, dtype=None):
    batches = list(batches)
    model.zero_grad()
    losses, tokens = 0.0, 0
    for inputs, targets in batches:
        if dtype is None:
            logits = model(inputs)
        else:
            with torch.autocast(device_type=inputs.device.type, dtype=dtype):
                logits = model(inputs)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        losses = losses + loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        tokens += targets.ne(-100).sum().item()
    mean = losses / tokens
    scaler.scale(mean).backward()
    scaler.unscale_(optimizer)
    norm = clip_gradients(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    model.zero_grad()
    return float(mean), float(norm)
