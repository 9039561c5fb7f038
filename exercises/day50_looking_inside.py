"""Day 50 · Looking inside

Lesson  course lesson 50
Hints   course hint 50     (one more each time; the first gives the steps of one way)
Check   course watch 50    (checks at every save; `course check 50` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    GPT(config)
        Predict the next token at every position, from that token and those before it.
        called with (tokens, cache=None, positions=None, mask=None)
            Return the logits of the token after each position, without a softmax.
    LLaMA(config)
        A decoder-only language model: predict the next token at every position.
        called with (tokens, cache=None, positions=None, mask=None)
            Return logits for the token that follows each token of a chunk.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.gpt import GPT
from variants.llama import LLaMA


@torch.no_grad()
def logit_lens(model: GPT | LLaMA, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "N+1 B T V"]:
    """Return the logits that a language model would have if it ended after 0, 1, … N of its blocks.

        logitsₙ = norm(hₙ) W_oᵀ,  n = 0 … N

    The norm is the final one, and the last logits are the model's own.

    - `model` is a GPT of day 23 or a LLaMA of day 32, in any mode. Both hold `blocks` and the final `norm`.
      A LLaMA multiplies by `head.weight` to get logits; a GPT has no `head`, and uses `embed.weight`.
    - `tokens` are int64 ids `(B, T)`. Return `(N + 1, B, T, V)`: first the logits from the input of the
      first block, then those after each block. Dropout is inactive, whatever the mode.
    - Afterwards, the model is unchanged, even if the call raises an error (on too many tokens, for
      example). None of your hooks is left, and all other hooks are still there. Each module has the
      same mode and attributes as before, with none that you added.

    Raises:
        ValueError: more tokens than `model.config.context`.

    Source: nostalgebraist 2020; Belrose et al. 2023, *Eliciting Latent Predictions from Transformers with the
    Tuned Lens*, §2.
    """
    raise NotImplementedError


@torch.no_grad()
def patch_activation(
    model: nn.Module,
    tokens: Int[Tensor, "B T"],
    source: Int[Tensor, "B T"] | None,
    module: nn.Module,
    where: object = ...,
) -> Tensor:
    """Return `model(tokens)`, computed with some of the numbers that enter `module` replaced.

        x[where] ← x′[where]

    x is the input of `module` on `tokens`, x′ that on `source`. Without a `source`, x[where] becomes 0: this
    is an ablation. `where` is an index, such as `(slice(None), 3)` for position 3 of each row.

    - `model` is called as `model(tokens)`. `module` is a part of it that each run calls once, with a tensor
      as its first positional argument.
    - `tokens` and `source` have the same shape, and so have x and x′. `where` is any index that
      `x[where]` accepts; the default, `...`, means all of x. Only the input of `module` changes: other
      modules that read the same tensor get it unchanged. `tokens` and `source` are not changed.
    - Without a `source`, the model runs once.
    - Return the model's output on `tokens`. Dropout is inactive in both runs, whatever the mode.
    - Afterwards, the model is unchanged, even if one of the runs raises an error: see `logit_lens`.

    Raises:
        What the model or the index raises.

    Source: Vig et al. 2020, *Investigating Gender Bias in Language Models Using Causal Mediation Analysis*;
    Meng et al. 2022, §2.1 (causal tracing); Heimersheim & Nanda 2024, *How to use and interpret activation
    patching*.
    """
    raise NotImplementedError


def prefix_matching_score(
    weights: Float[Tensor, "B h T T"], tokens: Int[Tensor, "B T"]
) -> Float[Tensor, " h"]:
    """Return the share of its attention that each head gives to what followed the same token earlier.

        score = mean over t of Σ { A[t, s + 1] : s < t, x_s = x_t }

    The mean is over all positions t of all rows whose token x_t occurs earlier in its row. A perfect
    induction head scores 1. If no token occurs twice, the score is 0.

    - `weights` are `(B, h, T, T)`: row t holds the weights of position t on itself and on earlier
      positions, and sums to 1. `tokens` are int64 ids `(B, T)`.
    - For each position, add the weights on all places that follow an earlier occurrence of its token.
      If a token is equal to the token before it, such a place is the token's own, and counts.
    - The score is the mean over all positions, of all rows, whose token has occurred earlier.
    - Return `(h,)` with the dtype and device of `weights`. If there is no such position, all scores are 0.

    Raises:
        ValueError: shapes that do not belong together.

    Source: Olsson et al. 2022, "prefix matching", a mean over repetitions of random tokens.
    """
    raise NotImplementedError
