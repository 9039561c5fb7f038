"""Day 24 · Sampling

Lesson  course lesson 24
Hints   course hint 24     (one more each time; the first gives the steps of one way)
Check   course watch 24    (checks at every save; `course check 24` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
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
    """Return the probabilities that the next token is drawn with: the model's, sharpened and cut.

        P(token i) ∝ exp(logitᵢ / τ) if i is among the k most likely, and then in the nucleus, else 0

    Temperature, top-k and top-p apply in this order. The nucleus is the smallest set of most likely tokens
    whose probabilities, after temperature and top-k (summing to 1), add up to at least p: the token that
    crosses p is in it.

    - `logits` are scores `(…, V)` with any leading batch dimensions, V ≥ 1. A logit of −∞ is a token that is
      never drawn; each row has a finite logit.
    - `temperature` is τ. Below 1 it favors the likely tokens, above 1 the unlikely. At 0, the most
      likely token has probability 1, whatever k and p are; among equally likely tokens, the one with
      the lowest id.
    - `top_k` keeps the tokens with the k-th largest logit or more. All tokens that tie with the k-th
      stay, so there may be more than k. With None, or with V or more, all tokens stay.
    - `top_p` is p, from 0 to 1. Equally likely tokens enter the nucleus in the order of their ids. With
      0, only the most likely token stays; with None or 1, all tokens stay.
    - Return probabilities `(…, V)` in the dtype of `logits`: each row sums to 1, to rounding, and is
      exactly 0 where a token cannot be drawn. Half-precision inputs are computed in
      float32.
    - Nothing is random, and `logits` is not changed.

    Raises:
        ValueError: a temperature that is negative, NaN or infinite, `top_k` below 1, or `top_p` outside 0
            to 1.

    Source: Holtzman et al. 2020, §3.1 (top-p), §3.2 (top-k) and §3.3 (temperature).
    """
    raise NotImplementedError


def sample(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "*batch"]:
    """Draw one token from each row's `distribution`, independently of the other rows.

    - `temperature`, `top_k` and `top_p` are those of `distribution`.
    - `generator` is the source of randomness, on the device of `logits`; None means torch's global one.
      Draws from equal states are equal, and a draw advances the state.
    - Return int64 ids `(…)`, one for each row: for logits `(V,)`, a 0-d tensor. A token of probability
      0 is never drawn.

    Raises:
        ValueError: as `distribution` does.
    """
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
    """Continue each prompt by `max_new_tokens` tokens: draw one, append it, and repeat.

    A text longer than `model.config.context` is cut off at the left for the model.

    - `model` maps tokens `(B, t)` to logits `(B, t, V)`, and reads at most `model.config.context`
      tokens at once, such as a `GPT`. It reads the last `context` tokens of a longer text.
    - `tokens` are prompts, int64 ids `(B, T)` of one length T ≥ 1, which may exceed the context.
    - `temperature`, `top_k`, `top_p` and `generator` are those of `sample`. With `max_new_tokens=0`
      nothing is added.
    - Return int64 ids `(B, T + max_new_tokens)`: the full prompts, each followed by its continuation.
      `tokens` is not changed.
    - The model is called in evaluation mode, without gradients. Afterwards the model and each of its modules
      are in the mode that they were in before, also after an exception.

    Raises:
        ValueError: an empty prompt (T = 0), a negative `max_new_tokens`, and as `distribution` does.

    Source: Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*, §2, eq. 1: a text's
    probability is the product of each token's, given those before it.
    """
    raise NotImplementedError
