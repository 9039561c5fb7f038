"""Day 50 · Looking inside

Lesson  course lesson 50
Hints   course hint 50
Check   course watch 50    (checks at every save; `course check 50` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    GPT(config)
        Predict the next token at every position, from that token and those before it.
        called with (tokens)
            Return the logits of the token after each position, without a softmax.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.gpt import GPT


@torch.no_grad()
def logit_lens(model: GPT, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "N+1 B T V"]:
    """Return the logits that a GPT would have if it ended after 0, 1, … N of its blocks.

        logitsₙ = LN(hₙ) W_eᵀ,  n = 0 … N

    LN is the final norm, and the last logits are the model's own.

    Raises:
        ValueError: more tokens than `model.config.context`.

    Source: nostalgebraist 2020; Belrose et al. 2023, *Eliciting Latent Predictions from Transformers with the
    Tuned Lens*, §2.
    """
    # 1. The residual stream is the input of each block, and at the end that of the final norm.
    # 2. Run the model, without dropout.
    # 3. Leave the model as it was, also after an error.
    # 4. Read every state as the model reads the last one.
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

    Raises:
        What the model or the index raises.

    Source: Vig et al. 2020, *Investigating Gender Bias in Language Models Using Causal Mediation Analysis*;
    Meng et al. 2022, §2.1 (causal tracing); Heimersheim & Nanda 2024, *How to use and interpret activation
    patching*.
    """
    # 1. Run without dropout.
    # 2. On `source`, record what enters the module.
    # 3. On `tokens`, replace it.
    # 4. Leave the model as it was, also after an error.
    raise NotImplementedError


def prefix_matching_score(
    weights: Float[Tensor, "B h T T"], tokens: Int[Tensor, "B T"]
) -> Float[Tensor, " h"]:
    """Return the share of its attention that each head gives to what followed the same token earlier.

        score = mean over t of Σ { A[t, s + 1] : s < t, x_s = x_t }

    The mean is over all positions t of all rows whose token x_t occurs earlier in its row. A perfect
    induction head scores 1. If no token occurs twice, the score is 0.

    Raises:
        ValueError: shapes that do not belong together.

    Source: Olsson et al. 2022, "prefix matching", a mean over repetitions of random tokens.
    """
    # 1. Where the token at t occurs earlier: rows are t, columns s < t.
    # 2. The wanted place is one further.
    # 3. The weight on all wanted places of a position, and a mean over the positions that have one.
    raise NotImplementedError
