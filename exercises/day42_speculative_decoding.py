"""Day 42 · Speculative decoding

Lesson  course lesson 42
Hints   course hint 42     (one more each time; the first gives the steps of one way)
Check   course watch 42    (checks at every save; `course check 42` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    new_cache(config, batch, max_len)
        Return an empty cache for a model, with as many heads as the config's `n_kv_heads` where it has them.
    distribution(logits, temperature=1.0, top_k=None, top_p=None)
        Return the probabilities that the next token is drawn with: the model's, sharpened and cut.
    roll_back(cache, length)
        Forget what a cache holds from position `length` on; the next chunk overwrites it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.kv_cache import new_cache
from variants.sampling import distribution
from variants.speculative import roll_back


def accept_draft(
    draft_tokens: Int[Tensor, " k"],
    draft_probs: Float[Tensor, "k V"],
    target_probs: Float[Tensor, "k+1 V"],
    generator: torch.Generator | None = None,
) -> Int[Tensor, " n"]:
    """Return the proposals that the target accepts, and one more token.

        accept x with probability min(1, p(x) / q(x)); after a rejection draw from norm(max(0, p − q))

    If every `draft_tokens[i]` was drawn from `draft_probs[i]`, then each returned token has the distribution
    of its row of `target_probs`.

    - `draft_tokens` are the k proposals for consecutive positions, int64 ids `(k,)`. `draft_probs[i]`
      is the distribution from which `draft_tokens[i]` was drawn, so this token's probability in it is
      not 0.
    - `target_probs[i]` is the target's distribution at the same position. The last row, `target_probs[k]`,
      is for the token after all proposals. Both are float32 or float64, and each row sums to 1 up to
      rounding.
    - k may be 0: then you draw a single token, from `target_probs[0]`.
    - Return int64 ids `(n + 1,)`: the first n proposals, n from 0 to k, and one token after them.
      Proposals after a rejected proposal are dropped.
    - `generator` is the source of every random number, on the device of the tensors; None means torch's
      global one. Calls with equal generator states return equal tokens.

    Raises:
        ValueError: shapes that do not belong together.

    Source: Leviathan et al. 2023, §2.3 and algorithm 1; Chen et al. 2023, algorithm 2.
    """
    raise NotImplementedError


@torch.no_grad()
def speculative_generate(
    target: nn.Module,
    draft: nn.Module,
    tokens: Int[Tensor, "1 T"],
    max_new_tokens: int,
    k: int = 4,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "1 T_new"]:
    """Continue a prompt as `generate` does with the target alone: the same distribution, in fewer passes.

    The caller sets the evaluation mode of the models, whose modes do not change.

    - `target` and `draft` are called as `model(chunk, cache)` and append the chunk to the cache, such
      as a `CachedGPT` or a `LLaMA`. The target returns logits `(1, t, V)` for the t tokens of the
      chunk; use only the last position of the draft's result. Both have the same V tokens and are in
      evaluation mode, which the caller sets. Make each cache with `new_cache(model.config, 1,
      max_len)`.
    - `tokens` is one prompt, int64 ids `(1, T)`, T ≥ 1. The text fits into the context of both models.
    - `temperature`, `top_k` and `top_p` are those of `distribution`, for target and draft alike. The
      probabilities are at least float32. `generator` is the source of every random number.
    - In each round the target is called once, with all tokens that its cache does not hold: in the
      first round these are the prompt and the proposals. Each model reads only tokens that are new to
      it.
    - A round proposes k tokens, or fewer if the text is nearly complete: if m tokens are missing, a
      round proposes at most m − 1. With `max_new_tokens=0` no model is called.
    - Return int64 ids `(1, T + max_new_tokens)`: the prompt and its continuation. `tokens` is not changed.

    Raises:
        ValueError: not one row of at least one token, a negative `max_new_tokens`, `k` below 1, a text that
            exceeds the context of a model, and as `distribution` does.

    Source: Leviathan et al. 2023, §2.1 and algorithm 1.
    """
    raise NotImplementedError
