"""Speculative decoding: a small draft model proposes tokens, and the target checks all of them in one pass.

Paper: Leviathan et al. 2023, *Fast Inference from Transformers via Speculative Decoding*; § below are its
own. (Chen et al. 2023, *Accelerating Large Language Model Decoding with Speculative Sampling*, found the same
algorithm.) A model decodes one token per pass. In a large model, a pass over a few tokens takes hardly longer
than a pass over one, because both read every weight. So a small model guesses ahead, and the target accepts
or rejects the guesses such that the text has exactly the target's distribution. The draft changes the speed.

From symbols to names
    M_p, M_q        target, draft
    p(x), q(x)      rows of target_probs, draft_probs: the probabilities of the next token
    γ               k: tokens that the draft proposes for one pass of the target
    α               the acceptance rate: the probability that a proposal is accepted
    T, V            tokens in a text, in the vocabulary
"""

from types import SimpleNamespace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.kv_cache import KVCache, new_cache
from variants.sampling import distribution

# --- Day 42 · Speculative decoding ----------------------------------------------------------------


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

    Raises:
        ValueError: shapes that do not belong together.

    Source: Leviathan et al. 2023, §2.3 and algorithm 1; Chen et al. 2023, algorithm 2.
    """
    k = len(draft_tokens)
    vocab = target_probs.size(-1)
    if draft_tokens.dim() != 1 or (draft_probs.shape, target_probs.shape) != (
        (k, vocab),
        (k + 1, vocab),
    ):
        raise ValueError(
            "draft_tokens, draft_probs and target_probs must be (k,), (k, V) and (k + 1, V), got "
            f"{tuple(draft_tokens.shape)}, {tuple(draft_probs.shape)} and {tuple(target_probs.shape)}"
        )
    # 1. The probability of each proposal in both models.
    proposed = draft_tokens.unsqueeze(1)  # (k, 1)
    p = target_probs[:k].gather(1, proposed).squeeze(1)  # (k,)
    q = draft_probs.gather(1, proposed).squeeze(1)  # (k,)
    # 2. Accept or reject each, and count those before the first rejection.
    uniform = torch.rand(k, generator=generator, dtype=q.dtype, device=q.device)  # (k,)
    accepted = uniform < p / q  # (k,)
    n = int(accepted.long().cumprod(dim=0).sum())
    # 3. The distribution of the token that follows them.
    following = target_probs[n]  # (V,)
    if n < k:
        residual = (following - draft_probs[n]).clamp(min=0)  # (V,)
        # If p and q differ by rounding alone, no weight may be left.
        following = residual if residual.any() else following
    # 4. Draw it, and append it to the accepted proposals. (`multinomial` normalizes.)
    token = torch.multinomial(following, 1, generator=generator)  # (1,)
    return torch.cat([draft_tokens[:n], token])  # (n + 1,)


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

    Raises:
        ValueError: not one row of at least one token, a negative `max_new_tokens`, `k` below 1, a text that
            exceeds the context of a model, and as `distribution` does.

    Source: Leviathan et al. 2023, §2.1 and algorithm 1.
    """
    _check(target, draft, tokens, max_new_tokens, k)
    end = tokens.size(1) + max_new_tokens
    # 1. An empty cache for each model.
    target_cache, draft_cache = (new_cache(model.config, 1, end) for model in (target, draft))

    def probabilities(logits: Float[Tensor, "T V"]) -> Float[Tensor, "T V"]:
        wide = torch.promote_types(logits.dtype, torch.float32)
        return distribution(logits.to(wide), temperature, top_k, top_p)  # (T, V)

    while tokens.size(1) < end:
        # 2. The draft proposes k tokens, one after another; near the end fewer, because one more follows.
        text, draft_probs = tokens, []
        for _ in range(min(k, end - tokens.size(1) - 1)):
            logits = draft(text[:, draft_cache.length :], draft_cache)[:, -1]  # (1, V)
            draft_probs.append(probabilities(logits))  # (1, V)
            proposal = torch.multinomial(draft_probs[-1], 1, generator=generator)  # (1, 1)
            text = torch.cat([text, proposal], dim=1)  # (1, t + 1)
        # 3. One pass of the target over all tokens that it has not read.
        logits = target(text[:, target_cache.length :], target_cache)[0]  # (t, V)
        target_probs = probabilities(logits[-len(draft_probs) - 1 :])  # (k + 1, V)
        # 4. Append the accepted proposals and the token after them.
        proposals = text[0, tokens.size(1) :]  # (k,)
        rows = torch.cat([*draft_probs, target_probs[:0]])  # (k, V)
        new = accept_draft(proposals, rows, target_probs, generator)  # (n + 1,)
        tokens = torch.cat([tokens, new.unsqueeze(0)], dim=1)  # (1, t + n + 1)
        # 5. Roll both caches back to the text. Neither model has read its last token.
        for cache in (target_cache, draft_cache):
            roll_back(cache, tokens.size(1) - 1)
    return tokens


# --- What it needs --------------------------------------------------------------------------------


def roll_back(cache: KVCache, length: int) -> None:
    """Forget what a cache holds from position `length` on; the next chunk overwrites it.

    A cache that holds no more than `length` tokens is not changed.

    Raises:
        ValueError: a negative `length`.
    """
    if length < 0:
        raise ValueError(f"length must be at least 0, got {length}")
    cache.lengths = [min(layer_length, length) for layer_length in cache.lengths]
    cache.length = min(cache.lengths)


class PromptLookup(nn.Module):
    """A draft without weights, which proposes what followed the last tokens earlier in the text.

    It looks for the latest earlier place of the last `n` tokens, or else of the last `n − 1`, and so on. If
    there is none, it repeats the last token. It is called like a model, and gives its prediction
    probability 1. Its cache stores the ids: one layer, one head, one number a token.

    Source: Saxena 2023, *Prompt Lookup Decoding*.
    """

    def __init__(self, vocab: int, context: int, n: int = 3):
        super().__init__()
        sizes = {"n_layers": 1, "n_heads": 1, "d_model": 1}
        self.config, self.n = SimpleNamespace(vocab=vocab, context=context, **sizes), n

    def forward(self, tokens: Int[Tensor, "1 T"], cache: KVCache) -> Float[Tensor, "1 1 V"]:
        """Return the logits after the last token only, and append the chunk to the cache."""
        # 1. The full text: the cache holds the ids before this chunk.
        ids = tokens[:, None, :, None].double()  # (1, 1, T, 1)
        text = cache.update(0, ids, ids)[0].flatten().long()  # (t,)
        # 2. One token is possible: 0 for its logit, −∞ for all others.
        logits = torch.full((1, 1, self.config.vocab), -torch.inf, device=tokens.device)
        logits[..., self._following(text)] = 0.0
        return logits

    def _following(self, text: Int[Tensor, " t"]) -> Tensor:
        """Return the token that is expected to follow a text."""
        for n in range(min(self.n, len(text) - 1), 0, -1):
            windows = text[:-1].unfold(0, n, 1)  # (t − n, n)
            places = (windows == text[-n:]).all(dim=1).nonzero()  # (found, 1)
            if len(places):
                return text[places[-1] + n]  # (1,)
        return text[-1:]  # (1,)


def _check(target: nn.Module, draft: nn.Module, tokens: Tensor, new: int, k: int) -> None:
    """Check the arguments of `speculative_generate`."""
    if tokens.size(0) != 1 or tokens.size(1) == 0:
        raise ValueError(f"tokens must be (1, T) with T ≥ 1, got {tuple(tokens.shape)}")
    if new < 0 or k < 1:
        raise ValueError(f"max_new_tokens must be at least 0 and k at least 1, got {new} and {k}")
    context = min(target.config.context, draft.config.context)
    if tokens.size(1) + new > context:
        raise ValueError(
            f"the text must fit into the context of both models, {context}, "
            f"got {tokens.size(1)} + {new} tokens"
        )
