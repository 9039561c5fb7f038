"""Hypotheses that have ended stay in the beam, and go on with 0 at no cost; the winner is picked at last."""

import torch

from implementation import subsequent_mask

LOWEST = -1e9


@torch.no_grad()
def beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6):
    count = len(src)
    memory = model.encode(src, src_mask)
    memory = memory[:, None].expand(-1, beam, -1, -1).flatten(0, 1)
    mask = src_mask[:, None].expand(-1, beam, -1, -1).flatten(0, 1)
    tokens = torch.full((count * beam, 1), start, dtype=torch.int64, device=src.device)
    over = torch.zeros(count * beam, dtype=torch.bool, device=src.device)
    sums = torch.full((count, beam), LOWEST, device=src.device)
    sums[:, 0] = 0
    sums = sums.view(-1)
    lengths = torch.zeros_like(tokens[:, 0])
    while tokens.shape[1] < max_len and not over.all():
        sees = subsequent_mask(tokens.shape[1]).to(src.device)
        log_probs = model.generator(model.decode(memory, mask, tokens, sees)[:, -1]).float()
        vocab = log_probs.shape[-1]
        nothing = torch.full_like(log_probs, LOWEST)
        nothing[:, 0] = 0.0
        log_probs = torch.where(over[:, None], nothing, log_probs)
        candidates = (sums[:, None] + log_probs).view(count, beam * vocab)
        order = candidates.argsort(dim=1, descending=True)[:, :beam]
        sums = candidates.gather(1, order).view(-1)
        first = torch.arange(count, device=src.device)[:, None] * beam
        parent = (first + torch.div(order, vocab, rounding_mode="floor")).view(-1)
        token = (order % vocab).view(-1)
        lengths = lengths[parent] + (~over[parent]).long()
        over = over[parent] | (token == end)
        tokens = torch.cat([tokens[parent], token[:, None]], dim=1)
    worth = (sums / ((5 + lengths) / 6) ** alpha).view(count, beam)
    winner = worth.argmax(dim=1)
    chosen = tokens.view(count, beam, -1)[torch.arange(count, device=src.device), winner]
    longest = 1 + int(lengths.view(count, beam).gather(1, winner[:, None]).max())
    return chosen[:, :longest]
