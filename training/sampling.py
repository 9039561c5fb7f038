"""The next token, drawn from what a language model says of it."""

from __future__ import annotations

import torch
from torch import Tensor

COLDEST = 1e-6  # below it only the likeliest is ever drawn, and what is divided by it overflows


def sample(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw one token of each row of logits, or log-probabilities, `(B, V)`.

    Args:
        logits: what the model says.
        temperature: divides the logits; 0 takes the likeliest.
        top_k: only so many likeliest tokens can be drawn.
        top_p: only the likeliest tokens that together have this probability, at least one (Holtzman et
            al. 2020, *The Curious Case of Neural Text Degeneration*, §3.1).
        generator: where the randomness comes from.

    Returns:
        Tokens, `(B,)`.
    """
    if temperature < COLDEST:
        return logits.argmax(dim=-1)
    logits = logits.float() / temperature
    if top_k is not None and top_k < logits.size(-1):
        weakest = logits.topk(top_k).values[:, -1:]  # (B, 1)
        logits = logits.masked_fill(logits < weakest, -torch.inf)
    probabilities = logits.softmax(dim=-1)
    if top_p is not None:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered  # what the likelier ones have together
        out = torch.zeros_like(ordered, dtype=torch.bool).scatter(1, order, before >= top_p)
        probabilities = probabilities.masked_fill(out, 0.0)
    drawn = torch.multinomial(probabilities.cpu(), 1, generator=generator)
    return drawn.squeeze(1).to(logits.device)
