"""Rows that have ended leave the batch; the mask is made of compared positions, the token of a sort."""

import torch


def greedy_decode(model, src, src_mask, max_len, start, end=None):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        return speak(model, src, src_mask, max_len, start, end)
    finally:
        torch.set_grad_enabled(before)


def speak(model, src, src_mask, max_len, start, end):
    result = torch.zeros(src.shape[0], max_len, dtype=torch.long, device=src.device)
    result[:, 0] = start
    speaking = torch.arange(src.shape[0], device=src.device)
    memory = model.encode(src, src_mask)
    length = 1
    while length < max_len and len(speaking):
        at = torch.arange(length, device=src.device)
        sees = (at[:, None] >= at[None, :])[None]
        said = result[speaking, :length]
        states = model.decode(memory[speaking], src_mask[speaking], said, sees)
        log_probs = model.generator(states)[:, -1, :]
        token = log_probs.sort(dim=-1, descending=True).indices[:, 0]
        result[speaking, length] = token
        length += 1
        if end is not None:
            speaking = speaking[token != end]
    return result[:, :length]
