"""Backward of the plain sums; the gradients are divided when the group's tokens have been counted."""

import torch


def run_epoch(batches, model, loss, optimizer=None, scheduler=None, accumulate=1):
    if optimizer is None:
        return measure(batches, model, loss)
    model.train()
    model.zero_grad()
    losses, counts, waiting = [], [], 0
    for number, batch in enumerate(batches, start=1):
        value = loss_of(batch, model, loss)
        value.backward()
        losses.append(value.item())
        counts.append(int(batch.ntokens))
        waiting += 1
        if number % accumulate == 0:
            step(model, optimizer, scheduler, sum(counts[-waiting:]))
            waiting = 0
    if waiting:
        step(model, optimizer, scheduler, sum(counts[-waiting:]))
    return sum(losses) / sum(counts)


def step(model, optimizer, scheduler, tokens):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(max(tokens, 1))
    optimizer.step()
    if scheduler:
        scheduler.step()
    model.zero_grad(set_to_none=True)


def measure(batches, model, loss):
    model.eval()
    with torch.inference_mode():
        values = [(loss_of(batch, model, loss).item(), int(batch.ntokens)) for batch in batches]
    return sum(value for value, _ in values) / sum(count for _, count in values)


def loss_of(batch, model, loss):
    out = model.forward(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    scores = model.generator(out)
    return loss(scores.reshape(-1, scores.shape[-1]), batch.tgt_y.reshape(-1))
