"""Day 42: what goes wrong where a draft is judged, where the next token comes from, and in the caches."""

from course.judging.misconceptions import of, on_devices

RANDOM = "torch.rand(k, generator=generator, dtype=q.dtype, device=q.device)"
DRAWN = "torch.multinomial(following, 1, generator=generator)"
ALONG_THE_SUM = "torch.searchsorted(following.cumsum(dim=0), torch.rand(1, dtype=following.dtype, device=q.device, generator=generator))"
LAST_ALONE = {"text[:, draft_cache.length :]": "text[:, -1:] if draft_cache.length else text"}
LAST_NOT_ROLLED_BACK = {"text[:, target_cache.length :]": "text[:, tokens.size(1) - 1 :] if target_cache.length else text"}
ROOMY = {"new_cache(model.config, 1, end)": "new_cache(model.config, 1, 9 * end)"}
ALWAYS_K = ROOMY | {"min(k, end - tokens.size(1) - 1)": "k"}
PASS = "logits = target(text[:, target_cache.length :], target_cache)[0]"
PROMPT_FIRST = "if not target_cache.length:\n    target(tokens, target_cache)\n    roll_back(target_cache, tokens.size(1) - 1)\n"

OTHERWISE_DRAWN = (
    "You draw proposals with temperature, top-k and top-p, but the q that you judge them by lacks at least one of these. q must be the distribution that "
    "they were drawn from; otherwise the distribution of the text is neither the draft's nor the target's."
)
APPENDED = "draft_probs.append(probabilities(logits))"
PROPOSAL = "torch.multinomial(draft_probs[-1], 1, generator=generator)"


def judged_by(q):
    """The edits that draw a proposal as it should be, and pass on another q."""
    return {APPENDED: f"draft_probs.append({q})", PROPOSAL: "torch.multinomial(probabilities(logits), 1, generator=generator)"}


MISCONCEPTIONS = [
    *of(
        "accept_draft",
        {
            # --- which proposals are accepted
            "accepts_only_what_the_target_likes_more": (
                "You accept a proposal exactly where the target gives it at least the draft's probability. A proposal with a lower probability is not always "
                "rejected: it is accepted with probability p/q.",
                {"uniform < p / q": "p >= q"},
            ),
            "accepts_with_the_targets_probability": (
                "You accept a proposal with the target's probability p. The proposal was already drawn with probability q, so it enters the text with "
                "probability p · q. By what do you have to multiply q to get p?",
                {"p / q": "p"},
            ),
            "judged_by_the_next_row": (
                "You compare each proposal with the target's next row. Row i is the distribution at the position of proposal i; the last row is for the "
                "token after all proposals.",
                {"target_probs[:k].gather(1, proposed)": "target_probs[1:].gather(1, proposed)"},
            ),
            "accepts_by_the_inverse_ratio": (
                "Your acceptance probability is q/p, the inverse. A token that the target finds more likely than the draft does must always be accepted.",
                {"p / q": "q / p"},
            ),
            "accepts_the_most_likely_alone": (
                "You accept a proposal only if it is the target's most likely token. That is right at temperature 0. Otherwise the text gets the most likely tokens "
                "too rarely or too often, and most proposals are lost.",
                {"uniform < p / q": "target_probs[:k].argmax(dim=-1) == draft_tokens"},
            ),
            "one_number_for_all_proposals": (
                "You draw one uniform number for all proposals. Then a proposal that was accepted says something about the next. Each proposal needs a "
                "number of its own.",
                {RANDOM: "torch.rand(1, generator=generator, dtype=q.dtype, device=q.device)"},
            ),
            "continues_after_a_rejection": (
                "You keep proposals behind one that was rejected. They were drawn as the continuation of a text that does not exist.",
                {"_.cumprod(dim=0)": "_", "draft_tokens[:n]": "draft_tokens[accepted]"},
            ),
            "counts_all_that_would_be_accepted": (
                "You count every proposal that would be accepted on its own, and keep that number. After an early rejection, you then keep the rejected "
                "proposal. Count only the proposals before the first rejection.",
                {"_.cumprod(dim=0)": "_"},
            ),
            "keeps_the_rejected_proposal": (
                "You keep the rejected proposal and put the new token after it. The new token takes its place.",
                {"draft_tokens[:n]": "draft_tokens[: n + 1]"},
            ),
            # --- what the token after a rejection is drawn from
            "rejected_token_from_the_target": (
                "After a rejection you draw from the target's distribution p. A token that the draft proposes too often then has two chances: as an accepted "
                "proposal, and again here. Draw only from the probability that is still missing, the positive part of p − q.",
                {"residual if residual.any() else following": "following"},
            ),
            "not_normalized": (
                "You draw along the running sum as if the weights p − q added up to 1. They add up to less, so the rest of the probability goes to the last "
                "token. Divide by their sum first.",
                {DRAWN: f"{ALONG_THE_SUM}.clamp(max=len(following) - 1)"},
            ),
            # --- the token that follows when all are accepted
            "no_token_after_all_proposals": (
                "If all proposals are accepted, you return only the proposals. The target's pass has already computed the distribution of one more token, "
                "which is free.",
                {"return _": "return _[: max(k, 1)] if n == k else _"},
            ),
            "last_row_not_used": (
                "After all proposals, you draw from the row that judged the last proposal. The target returned one more row, for the token after that "
                "proposal.",
                {"following = target_probs[n]": "following = target_probs[min(n, max(k - 1, 0))]"},
            ),
            "always_subtracts": (
                "You subtract the draft's probabilities even when every proposal was accepted. The draft model did not propose the token after them: draw it from the "
                "target's own distribution.",
                {"if n < k:\n    _": "if k:\n    _", "draft_probs[n]": "draft_probs[min(n, k - 1)]"},
            ),
            "ids_in_int32": (
                "Your ids are int32. Ids are int64 everywhere in the course, as in the tokens that you get.",
                {"return _": "return _.int()"},
            ),
            # --- the source of random numbers
            "accepts_without_the_generator": (
                "Your tokens do not depend only on `generator`: the numbers that decide what is accepted come from torch's global generator.",
                {RANDOM: "torch.rand(k, dtype=q.dtype, device=q.device)"},
            ),
            "draws_without_the_generator": (
                "Your tokens do not depend only on `generator`: the last token is drawn with torch's global generator.",
                {DRAWN: "torch.multinomial(following, 1)"},
            ),
        },
    ),
    *of(
        "speculative_generate",
        {
            # --- caches
            "rolled_back_too_little": (
                "You roll back to the length of the text. The last token of the text was drawn, and no model has read it: a cache holds one token fewer.",
                {"roll_back(cache, tokens.size(1) - 1)": "roll_back(cache, tokens.size(1))"},
            ),
            "only_the_draft_rolled_back": (
                "The target's cache keeps the rejected proposals. The next pass continues a text that does not exist.",
                LAST_NOT_ROLLED_BACK | ROOMY | {"5: (target_cache, draft_cache)": "(draft_cache,)"},
            ),
            "only_the_target_rolled_back": (
                "The draft's cache keeps its rejected proposals. Your text is right, but the draft continues a text that does not exist, so too few of its proposals "
                "are accepted.",
                LAST_ALONE | ROOMY | {"5: (target_cache, draft_cache)": "(target_cache,)"},
            ),
            "caches_thrown_away": (
                "Your text is right, but you begin each round with empty caches, so both models read the full text again. Keep them, and roll them back.",
                {"text, draft_probs = _": "target_cache, draft_cache = (new_cache(model.config, 1, end) for model in (target, draft))\ntext, draft_probs = _"},
            ),
            "draft_reads_the_last_token_alone": (
                "You always pass only the last token of the text to the draft. After a round in which all proposals were accepted, the draft has not read "
                "the last proposal either: its cache has a gap, and later proposals are worse.",
                LAST_ALONE,
            ),
            # --- the draft
            "most_likely_proposals": (
                "Your proposals are the draft's most likely tokens, and you judge them as if they had been drawn from its distribution. A proposal must be "
                "drawn from the same row that you pass on.",
                {PROPOSAL: "draft_probs[-1].argmax(dim=-1, keepdim=True)"},
            ),
            "draft_at_temperature_1": (
                "Your text is right, but you do not apply temperature, top-k and top-p to the draft, so fewer proposals are accepted than possible.",
                {APPENDED: "draft_probs.append(logits.softmax(dim=-1))"},
            ),
            "drawn_without_limits": (
                "You draw proposals from the draft's distribution at temperature 1, without top-k and top-p, but judge them by the distribution with all "
                "three. Draw them from the same row that you pass on.",
                {PROPOSAL: "torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)"},
            ),
            "q_without_limits": (OTHERWISE_DRAWN, judged_by("logits.softmax(dim=-1)")),
            "q_without_the_temperature": (OTHERWISE_DRAWN, judged_by("distribution(logits, 1.0, top_k, top_p)")),
            "q_without_the_cut": (OTHERWISE_DRAWN, judged_by("distribution(logits, temperature)")),
            # --- the target
            "target_without_the_temperature": (
                "You do not apply the temperature to the target's rows. The text is drawn from these rows.",
                {"target_probs = probabilities(_)": "target_probs = distribution(_, 1.0 if temperature else 0.0, top_k, top_p)"},
            ),
            "target_without_top_k": (
                "You do not apply top-k to the target's rows. The text is drawn from these rows.",
                {"target_probs = probabilities(_)": "target_probs = distribution(_, temperature, None, top_p)"},
            ),
            "target_at_temperature_1": (
                "You do not apply temperature, top-k and top-p to the target's rows. The text is drawn from these rows.",
                {"target_probs = probabilities(_)": "target_probs = _.softmax(dim=-1)"},
            ),
            "first_rows_of_the_target": (
                "You take the first rows of the target's logits. In the first round, these rows include the prompt's. The last rows judge the proposals.",
                {"logits[-len(draft_probs) - 1 :]": "logits[: len(draft_probs) + 1]"},
            ),
            "target_reads_the_prompt_by_itself": (
                "Your text is right, but the target reads the prompt in a pass of its own. The first round's pass can read the prompt and the proposals at once.",
                {PASS: PROMPT_FIRST + PASS},
            ),
            # --- how much is generated
            "proposes_beyond_the_end": (
                "You always propose k tokens, even if fewer can be used, and cut the text afterwards. The last round then reads beyond the end of the text, "
                "which may be the end of the context.",
                ALWAYS_K | {"return tokens": "return tokens[:, :end]"},
            ),
            "counts_rounds": (
                "You run `max_new_tokens` rounds. A round adds up to k + 1 tokens, and `max_new_tokens` counts tokens.",
                ALWAYS_K | {"while tokens.size(1) < end:\n    _": "for _round in range(max_new_tokens):\n    _"},
            ),
            "without_the_prompt": (
                "You return only the new tokens. The result should begin with the prompt, like the result of `generate`.",
                {"return tokens": "return tokens[:, end - max_new_tokens :]"},
            ),
            # --- the source of random numbers
            "proposals_without_the_generator": (
                "Your text does not depend only on `generator`: the proposals are drawn with torch's global generator.",
                {PROPOSAL: "torch.multinomial(draft_probs[-1], 1)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "accept_draft",
        {
            "numbers_made_on_the_cpu": (
                "You draw the uniform numbers on the CPU, but the probabilities may be on a GPU. `torch.rand` takes `device=`.",
                {RANDOM: "torch.rand(k, generator=generator, dtype=q.dtype)"},
            ),
        },
    ),
]
