"""Sampling: from a language model's logits to text.

Paper: Holtzman et al. 2020, *The Curious Case of Neural Text Degeneration*; § below are its own. A
trained model gives every token some probability. Sampling from all of them derails a text sooner or
later, because thousands of unlikely tokens add up; always taking the most likely token makes the text
repeat itself. A temperature and a cut tail are in between.

From symbols to names
    B               batch: sequences that are continued side by side
    T               time: tokens of the prompts
    V               tokens in the vocabulary
    τ, k, p         temperature, top_k, top_p
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def distribution(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "*batch V"]:
    """Return the probabilities that the next token is drawn with: the model's, sharpened and cut.

        P(token i) ∝ exp(logitᵢ / τ) if i is among the k most likely, and then in the nucleus, else 0

    Temperature, top-k and top-p apply in this order. The nucleus is the smallest set of most likely tokens
    whose probabilities, after temperature and top-k (summing to 1), add up to at least p: the token that
    crosses p is in it.

    Raises:
        ValueError: a temperature that is negative, NaN or infinite, `top_k` below 1, or `top_p` outside 0
            to 1.

    Source: Holtzman et al. 2020, §3.1 (top-p), §3.2 (top-k) and §3.3 (temperature).
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be at least 0 and finite, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, or None, got {top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be 0 to 1, or None, got {top_p}")
    # 1. Temperature 0 is a limit, since nothing can be divided by 0: the most likely token gets all.
    if temperature == 0:
        return F.one_hot(logits.argmax(dim=-1), logits.size(-1)).to(logits.dtype)  # (…, V)
    # 2. Divide by the temperature. Subtract each row's maximum first, so that nothing overflows.
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = (scores - scores.amax(dim=-1, keepdim=True)) / temperature  # (…, V)
    # 3. Top-k: tokens that score less than the k-th get probability 0.
    if top_k is not None and top_k < logits.size(-1):
        kth = scores.topk(top_k, dim=-1).values[..., -1:]  # (…, 1)
        scores = scores.masked_fill(scores < kth, -math.inf)  # (…, V)
    probabilities = scores.softmax(dim=-1)  # (…, V)
    # 4. Top-p: go through the tokens from the most likely on, but only through those that top-k has left
    #    in some row. A token is out if those before it reach p already; the first is always in. Then let
    #    the rest sum to 1 again.
    if top_p is not None and top_p < 1:
        ids = probabilities.reshape(-1, logits.size(-1)).any(dim=0).nonzero().squeeze(1)  # (n,)
        ordered, order = probabilities[..., ids].sort(dim=-1, descending=True, stable=True)
        before = F.pad(ordered.cumsum(dim=-1)[..., :-1], (1, 0))  # (…, n), from 0 on
        out = before >= top_p  # (…, n), in order of probability
        out[..., :1] = False
        out = torch.zeros_like(probabilities).bool().scatter(-1, ids[order], out)  # (…, V), by id
        probabilities = probabilities.masked_fill(out, 0.0)
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return probabilities.to(logits.dtype)


def sample(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "*batch"]:
    """Draw one token from each row's `distribution`, independently of the other rows.

    Raises:
        ValueError: as `distribution` does.
    """
    # 1. The probabilities, not rounded to half precision, which would lose rare tokens.
    wide = torch.promote_types(logits.dtype, torch.float32)
    probabilities = distribution(logits.to(wide), temperature, top_k, top_p)  # (…, V)
    # 2. Draw. `multinomial` takes one batch dimension: flatten the others, and restore them.
    rows = probabilities.reshape(-1, logits.size(-1))  # (rows, V)
    return torch.multinomial(rows, 1, generator=generator).reshape(logits.shape[:-1])  # (…)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode, and at the end every module back into its own mode."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@torch.no_grad()
def generate(
    model: nn.Module,
    tokens: Int[Tensor, "B T"],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B T_new"]:
    """Continue each prompt by `max_new_tokens` tokens: draw one, append it, and repeat.

    A text longer than `model.config.context` is cut off at the left for the model.

    Raises:
        ValueError: an empty prompt (T = 0), a negative `max_new_tokens`, and as `distribution` does.

    Source: Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*, §2, eq. 1: a text's
    probability is the product of each token's, given those before it.
    """
    if tokens.size(1) == 0:
        raise ValueError("tokens must have at least one token a row, got an empty prompt")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, got {max_new_tokens}")
    # 1. Remember the mode of each module, and switch dropout off.
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for _ in range(max_new_tokens):
            # 2. The model reads the last `context` tokens. The logits of the last position count.
            logits = model(tokens[:, -model.config.context :])[:, -1]  # (B, V)
            # 3. Draw, and append.
            following = sample(logits, temperature, top_k, top_p, generator)  # (B,)
            tokens = torch.cat([tokens, following.unsqueeze(1)], dim=1)  # (B, t + 1)
    finally:
        # 4. Restore the mode of each module.
        for module, training in modes.items():
            module.training = training
    return tokens
