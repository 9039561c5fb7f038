"""torch.autograd.grad instead of backward, gradients added up in a list; a running mean, no total."""

import torch


def run_epoch(batches, model, loss, optimizer=None, scheduler=None, accumulate=1):
    model.train(mode=bool(optimizer))
    mean, seen = 0.0, 0
    for group in groups_of(batches, accumulate):
        tokens = sum(int(batch.ntokens) for batch in group)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        added = [None] * len(weights)
        for batch in group:
            if optimizer:
                value = summed_loss(model, loss, batch)
                new = torch.autograd.grad(value / max(tokens, 1), weights, allow_unused=True)
                added = [either(*both) for both in zip(added, new, strict=True)]
            else:
                with torch.no_grad():
                    value = summed_loss(model, loss, batch)
            count = int(batch.ntokens)
            if count:
                seen += count
                mean += (value.item() / count - mean) * count / seen
        if optimizer:
            for weight, gradient in zip(weights, added, strict=True):
                weight.grad = gradient
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
    return mean


def either(one, other):
    """The sum of what is there of the two."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def groups_of(batches, size):
    group = []
    for batch in batches:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def summed_loss(model, loss, batch):
    log_probs = model.generator(
        model(src=batch.src, tgt=batch.tgt, src_mask=batch.src_mask, tgt_mask=batch.tgt_mask)
    )
    rows = torch.cat(list(log_probs), dim=0)
    return loss(rows, torch.cat(list(batch.tgt_y)))
