"""All batches in a list, groups by slices, one graph and one backward a group; encode, then decode."""

import contextlib

import torch


def run_epoch(batches, model, loss, optimizer=None, scheduler=None, accumulate=1):
    batches = list(batches)
    learns = optimizer is not None
    model.train() if learns else model.eval()
    group_losses, group_tokens = [], []
    with contextlib.nullcontext() if learns else torch.no_grad():
        for first in range(0, len(batches), accumulate):
            total, tokens = 0, 0
            for batch in batches[first : first + accumulate]:
                memory = model.encode(batch.src, batch.src_mask)
                states = model.decode(memory, batch.src_mask, batch.tgt, batch.tgt_mask)
                predictions = model.generator(states.flatten(end_dim=1))
                total = total + loss(predictions, batch.tgt_y.contiguous().view(-1))
                tokens = tokens + (batch.tgt_y != 0).sum().item()
            if learns:
                optimizer.zero_grad(set_to_none=False)
                if tokens:
                    mean = total / tokens
                    mean.backward()
                    optimizer.step()
                if scheduler is not None:
                    scheduler.step()
            group_losses.append(float(total))
            group_tokens.append(tokens)
    return sum(group_losses) / sum(group_tokens)
