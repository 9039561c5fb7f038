"""Day 24 · Sampling

Lesson  course lesson 24
Hints   course hint 24
Check   course watch 24    (checks at every save; `course check 24` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import math

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
    """The probabilities that the next token is drawn with: those of the model, sharpened and cut.

        P(token i) ∝ exp(logitᵢ / τ) if i is among the k likeliest, and then in the nucleus, else 0

    The three apply in this order: temperature, top-k, top-p. The nucleus is the smallest set of likeliest
    tokens whose probabilities, as temperature and top-k have left them (summing to 1), add up to at
    least p: the token that crosses p is in it.

    Args:
        logits: scores `(…, V)`, with any leading batch dimensions, V ≥ 1. A logit of −∞ is a token that
            never comes; each row has a finite one.
        temperature: τ. Below 1 it favours the likely tokens, above 1 the unlikely. 0 gives probability 1
            to the likeliest token, to the one of lowest id among equals, whatever k and p are.
        top_k: how many tokens can be drawn: those with the k-th largest logit or more. Tokens that tie
            with the k-th all stay, so there may be more than k. None, V or more: all stay.
        top_p: p, from 0 to 1. Equally likely tokens enter the nucleus in the order of their ids. 0 leaves
            the likeliest token; None or 1: all stay.

    Returns:
        Probabilities `(…, V)` in the dtype of `logits`, each row summing to 1 to its rounding, exactly 0
        where a token cannot be drawn. Half precision is computed in float32. Nothing is random, and
        `logits` stays as it is.

    Raises:
        ValueError: a temperature that is negative, NaN or infinite, `top_k` below 1, or `top_p` outside 0
            to 1.

    Source: Holtzman et al. 2020, §3.1 (top-p), §3.2 (top-k) and §3.3 (temperature).
    """
    # 1. Temperature 0 is the limit that nothing can be divided by: all probability to the likeliest.
    # 2. Divide by the temperature. The largest logit becomes 0 first, so that none overflows.
    # 3. Top-k: what scores less than the k-th can never come.
    # 4. Top-p: go through the tokens from the likeliest on. One is out if those before it reach p
    #    already; the first is always in. Then let what is left sum to 1 again.
    raise NotImplementedError


def sample(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "*batch"]:
    """Draw one token from each row's `distribution`, independently of the other rows.

    Args:
        logits: scores `(…, V)`.
        temperature, top_k, top_p: as for `distribution`.
        generator: where the randomness comes from, on the device of `logits`; None for torch's own. Its
            state is the same before equal draws, and another after one.

    Returns:
        int64 ids `(…)`, one for each row: logits `(V,)` give a 0-d tensor. A token of probability 0 is
        never drawn.

    Raises:
        ValueError: as `distribution` does.
    """
    # 1. The probabilities, not rounded to half precision, which would lose the rare tokens.
    # 2. Draw. `multinomial` knows one batch dimension, so make it one and undo that.
    raise NotImplementedError


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
    """Continue each prompt: draw a token, append it, and ask again.

    Args:
        model: maps tokens `(B, t)` to logits `(B, t, V)`, and can read `model.config.context` tokens at
            once, such as a `GPT`. Of a longer text it is given the last `context` tokens.
        tokens: prompts, int64 ids `(B, T)`, all of one length T ≥ 1, which may exceed the context.
        max_new_tokens: how many tokens to add; 0 adds none.
        temperature, top_k, top_p: as for `distribution`.
        generator: as for `sample`.

    Returns:
        int64 ids `(B, T + max_new_tokens)`: the whole prompts, and what follows them. `tokens` stays as
        it is. The model is asked in evaluation mode, without gradients; afterwards it and each of
        its modules are in the mode that they were in, also where something raised on the way.

    Raises:
        ValueError: an empty prompt (T = 0), a negative `max_new_tokens`, and as `distribution` does.

    Source: Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*, §2, eq. 1: a text's
    probability is the product of each token's, given those before it.
    """
    # 1. Remember every module's mode, and switch dropout off.
    # 2. Let the model read what it can, from the right. The last position is the one to draw from.
    # 3. Draw, and append.
    # 4. Leave each module in the mode that it was in.
    raise NotImplementedError
