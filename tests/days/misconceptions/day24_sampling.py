"""Day 24: what goes wrong between logits and text: what is cut, in which order, and what is drawn from."""

from course.judging.misconceptions import of, on_devices

ALL_LEFT = {"left = ...": "left = torch.arange(logits.size(-1), device=logits.device)"}

MISCONCEPTIONS = [
    *of(
        "distribution",
        {
            # --- temperature
            "temperature_multiplies": (
                "You multiply by the temperature. Divide the logits by it: a low temperature then makes the differences larger, and the likely tokens more "
                "likely.",
                {"_ / temperature": "_ * temperature"},
            ),
            "temperature_after_the_softmax": (
                "You divide the probabilities by the temperature. They no longer sum to 1, and their ratios do not change. Divide the logits instead: the "
                "softmax turns differences of logits into ratios.",
                {"_ / temperature": "_ / 1.0", "scores.softmax(dim=-1)": "scores.softmax(dim=-1) / temperature"},
            ),
            "temperature_0_divides": (
                "At temperature 0 you divide by 0, which gives NaN. Handle this limit separately: the most likely token gets all the probability.",
                {"temperature == 0": "False"},
            ),
            "temperature_0_is_off": (
                "You treat temperature 0 as *no temperature*, and return the plain softmax. At temperature 0 the most likely token must have probability 1. "
                "(`if temperature:` is false for 0.)",
                {"if temperature == 0:\n    _": "if temperature == 0:\n    temperature = 1.0\nif False:\n    _"},
            ),
            "temperature_0_shares_among_equals": (
                "At temperature 0, equally likely tokens share the probability in your answer. The token with the lowest id should get all of it, so that "
                "nothing is random at 0.",
                {
                    "if temperature == 0:\n    _": "best = logits == logits.amax(dim=-1, keepdim=True)\n"
                    "if temperature == 0:\n"
                    "    return (best / best.sum(dim=-1, keepdim=True)).to(logits.dtype)\n"
                    "if False:\n"
                    "    _"
                },
            ),
            # --- top-k
            "top_k_cuts_the_kth": (
                "You remove the k-th largest logit as well, and with k = 1 every token. Remove only the logits *below* the k-th largest.",
                {"scores < kth": "scores <= kth"},
            ),
            "top_k_one_too_many": (
                "You keep k + 1 tokens. Counting from 0, the k-th largest logit has index k − 1.",
                {"kth = ...": "kth = scores.sort(dim=-1, descending=True).values[..., top_k : top_k + 1]"},
            ),
            "top_k_fills_with_0": (
                "You set the removed logits to 0. A logit of 0 is an ordinary score, and the softmax gives it a share. A token that must never occur has the "
                "logit −∞.",
                {"-math.inf": "0.0"},
            ),
            "top_k_not_renormalized": (
                "After top-k, your probabilities do not sum to 1: you remove tokens after the softmax and do not renormalize. Remove them before the softmax, "
                "or divide by the remaining sum.",
                {
                    "3: scores = ...": "cut = scores < kth",
                    "3: probabilities = _": "probabilities = _\n"
                    "if top_k is not None and top_k < logits.size(-1):\n"
                    "    probabilities = probabilities.masked_fill(cut, 0.0)",
                },
            ),
            "top_k_of_the_whole_batch": (
                "You take the k-th largest logit of all rows together. Each row should keep its own k most likely tokens.",
                {"kth = ...": "kth = scores.flatten().topk(min(top_k * scores[..., 0].numel(), scores.numel())).values[-1:]"},
            ),
            "top_k_cuts_ties": (
                "Of the tokens that tie with the k-th, you keep only some: those that `topk` happens to return. These tokens are equally likely, so keep them "
                "all, even if that makes more than k.",
                {
                    "kth = _": "kth = _\nkept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, scores.topk(top_k, dim=-1).indices, True)",
                    "scores < kth": "~kept",
                },
            ),
            "top_k_above_the_vocabulary": (
                "If k is larger than the vocabulary, you ask `topk` for more tokens than exist. In this case, keep all tokens.",
                {"_ and top_k < logits.size(-1)": "_"},
            ),
            # --- top-p
            "top_p_drops_the_token_that_crosses": (
                "Your nucleus stops short of p: the token with which the sum crosses p is missing. The sum of the nucleus must *reach* p, so this token "
                "belongs to it.",
                {"F.pad(_[..., :-1], (1, 0))": "_"},
            ),
            "top_p_can_leave_nothing": (
                "You drop the token with which the sum crosses p. If the most likely token alone is above p, nothing is left, and 0 divided by 0 is NaN. The "
                "token that crosses p belongs to the nucleus.",
                {"F.pad(_[..., :-1], (1, 0))": "_", "out[..., :1] = False": ""},
            ),
            "top_p_is_a_threshold": (
                "You keep the tokens whose own probability is at least p. Top-p adds up the probabilities, starting with the largest, until their *sum* "
                "reaches p.",
                {"before >= top_p": "ordered < top_p"},
            ),
            "top_p_not_in_order_of_ids": (
                "You determine which tokens to drop in sorted order, but drop them as if this order were the order of the ids. Map each decision back to the "
                "token that it belongs to.",
                ALL_LEFT | {"out = ....scatter(-1, ..., out)": ""},
            ),
            "top_p_sent_back_the_wrong_way": (
                "You undo the sorting with the permutation that made it. `order` holds the id at each place of the sorted list. To undo the sorting, *write* "
                "to these ids instead of reading from them.",
                ALL_LEFT | {"_.scatter(-1, left[order], out)": "out.gather(-1, order)"},
            ),
            "top_p_not_renormalized": (
                "The probabilities in the nucleus do not sum to 1. Divide by their sum.",
                {"probabilities = probabilities / ...": ""},
            ),
            "top_p_before_temperature": (
                "You choose the nucleus before the temperature is applied. Apply the temperature first, then top-k, then top-p, each to the result of the "
                "step before.",
                ALL_LEFT
                | {
                    "ordered, order = ...": "plain = logits.to(scores.dtype).masked_fill(scores == -math.inf, -math.inf).softmax(dim=-1)\n"
                    "ordered, order = plain.sort(dim=-1, descending=True, stable=True)"
                },
            ),
            "top_p_before_top_k": (
                "You add up probabilities from before top-k. Choose the nucleus among the tokens that top-k keeps, after their probabilities sum to 1 again: "
                "then fewer tokens reach p.",
                ALL_LEFT
                | {
                    "3: scores = _": "all_scores, scores = scores, _",
                    "ordered, order = ...": "whole = all_scores.softmax(dim=-1) if top_k is not None and top_k < logits.size(-1) else probabilities\n"
                    "ordered, order = whole.sort(dim=-1, descending=True, stable=True)",
                },
            ),
            "top_p_ties_from_the_end": (
                "Among equally likely tokens, you add those with higher ids to the nucleus first. Add them in the order of their ids: use a sort that keeps "
                "the order of equal values.",
                {"_.sort(dim=-1, descending=True, stable=True)": "(one.flip(-1) for one in _.sort(dim=-1, stable=True))"},
            ),
            "top_p_one_more_where_exact": (
                "If the most likely tokens add up to exactly p, you keep one token more. The nucleus is complete as soon as its sum *reaches* p.",
                {"before >= top_p": "before > top_p"},
            ),
            "top_p_0_leaves_nothing": (
                "With p = 0, your answer keeps no token, and 0 divided by 0 is NaN. Always keep the most likely token.",
                {"out[..., :1] = False": ""},
            ),
            "top_p_1_cuts": (
                "With p = 1 you drop tokens. In floating point, a sum can reach 1 before its last terms are added. With p = 1, keep all tokens.",
                {"_ and top_p < 1": "_"},
            ),
            # --- softmax
            "softmax_over_the_first_axis": (
                "Your probabilities sum to 1 along the batch. Each *row* should be a distribution: the vocabulary is the last axis.",
                {"scores.softmax(dim=-1)": "scores.softmax(dim=0)"},
            ),
            "exp_overflows": (
                "You take the exponential of the unshifted logits. Large logits give infinity and then NaN; very low logits give 0 divided by 0. Subtract "
                "each row's maximum first, which does not change a softmax.",
                {"scores - ...": "scores", "scores.softmax(dim=-1)": "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"},
            ),
            "changes_the_logits": (
                "Your probabilities are right, but you changed the caller's logits with an in-place operation. The caller may still need them.",
                {"scores = ... / temperature": "logits /= temperature\nscores = logits.to(scores.dtype)"},
            ),
            # --- dtypes
            "computed_in_half_precision": (
                "You compute in half precision. There, a division by a small temperature overflows, and a sum of a thousand probabilities is accurate to only "
                "two or three digits, so the nucleus ends at the wrong token. Compute in float32, and cast the result back.",
                {"logits.to(...)": "logits", "scores - ...": "scores"},
            ),
            "float32_stays": (
                "You return float32 where the logits are in half precision. Probabilities should have the dtype of the logits.",
                {"4: _.to(logits.dtype)": "_"},
            ),
            "float64_lost": (
                "Your probabilities are right only to float32's precision, although the logits are float64: some step is computed in float32.",
                {"logits.to(...)": "logits.float()"},
            ),
        },
    ),
    *of(
        "sample",
        {
            "takes_the_likeliest": (
                "You take the most likely token each time. *Sampling* means choosing each token with its probability.",
                {"torch.multinomial(rows, 1, generator=generator)": "rows.argmax(dim=-1)"},
            ),
            "one_draw_for_all_rows": (
                "You draw once, and every row gets the same token. Draw separately for each row.",
                {"torch.multinomial(rows, 1, generator=generator)": "torch.multinomial(rows[:1], 1, generator=generator).expand(len(rows), 1)"},
            ),
            "softmax_twice": (
                "You apply a softmax to values that are already probabilities. All tokens then occur about equally often, even those of probability 0.",
                {"probabilities.reshape": "probabilities.softmax(dim=-1).reshape"},
            ),
            "sample_without_temperature": (
                "In your `sample`, the temperature has no effect. Pass it on to `distribution`.",
                {"temperature": "1.0"},
            ),
            "seeded_inside": (
                "You set a seed inside the function, so every call draws the same. The caller decides about seeds; a draw only advances the generator.",
                {"return _": "torch.manual_seed(0) if generator is None else generator.manual_seed(0)\nreturn _"},
            ),
            "one_axis_in_front": (
                "You pass the probabilities to `multinomial` unchanged. It accepts at most one axis before the vocabulary, but the logits can have more. "
                "Merge the leading axes first, and give the ids the shape of those axes.",
                {"rows = ...": "rows = probabilities", "_.reshape(...)": "_.squeeze(-1)"},
            ),
            "keeps_the_axis_of_the_draw": (
                "Your ids have an additional last axis of length 1, which `multinomial` adds for the number of draws. Return one id per row, in the shape of "
                "the leading axes.",
                {"_.reshape(...)": "_.reshape(*logits.shape[:-1], 1)"},
            ),
            "all_ones_squeezed": (
                "You squeeze every axis of length 1. A batch of one row must give a batch of one id, so remove only the last axis.",
                {"return _": "return _.squeeze()"},
            ),
            "ids_in_the_dtype_of_the_logits": (
                "Your ids are not integers. Return int64, the dtype that an embedding expects for lookups.",
                {"return _": "return _.to(logits.dtype)"},
            ),
        },
    ),
    *of(
        "generate",
        {
            # --- what the model reads
            "reads_the_beginning": (
                "If a text is longer than the context, you pass the model the *first* tokens, so it never sees what it has just generated. Pass the last "
                "`context` tokens.",
                {"tokens[:, -_ :]": "tokens[:, : _]"},
            ),
            "context_ignored": (
                "You pass the model the whole text, however long. It can take at most `model.config.context` tokens at once, because it has no positions for "
                "more.",
                {"tokens[...]": "tokens"},
            ),
            "prompt_cut": (
                "You cut the text itself down to the context. Only the model's input should be cut: the result contains the whole prompt and all new tokens.",
                {"logits = model(_)[:, -1]": "tokens = _\nlogits = model(tokens)[:, -1]"},
            ),
            # --- what is drawn from
            "one_continuation_for_all": (
                "Every row gets the first row's token. Each row has its own prompt and its own next token.",
                {"following = _": "following = _[:1].expand(len(tokens))"},
            ),
            "draws_from_probabilities": (
                "You pass probabilities to `sample`, which expects logits and applies a softmax itself. A second softmax makes the distribution nearly "
                "uniform, and tokens of probability 0 can occur.",
                {"logits": "logits.softmax(dim=-1)"},
            ),
            "generate_without_temperature": (
                "In your `generate`, the temperature has no effect. Pass it on to `sample`.",
                {"temperature": "1.0"},
            ),
            "generate_without_generator": (
                "In your `generate`, the generator has no effect. Pass it on to `sample`; otherwise PyTorch's global state determines the draws.",
                {"generator": ""},
            ),
            # --- what is returned
            "without_the_prompt": (
                "You return only the new tokens. Return the prompt followed by the new tokens.",
                {"return tokens": "return tokens[:, tokens.size(1) - max_new_tokens :]"},
            ),
            "one_too_many": (
                "You add one token more than `max_new_tokens`.",
                {"range(_)": "range(_ + 1)"},
            ),
            "counts_the_prompt": (
                "You count the prompt among the new tokens. `max_new_tokens` is the number of tokens to *add*.",
                {"range(_)": "range(_ - tokens.size(1))"},
            ),
            # --- the model
            "dropout_on": (
                "You call the model in whatever mode it happens to be. In training mode, dropout is active in every step, and the text is worse than the "
                "model can generate.",
                {"model.eval()": ""},
            ),
            "left_in_evaluation_mode": (
                "Your function leaves the model in evaluation mode. A training run that samples now and then would continue without dropout, and without any "
                "error.",
                {"module.training = training": ""},
            ),
            "put_into_training_mode_at_the_end": (
                "You end with `model.train()`, whatever mode the model was in before. And if an error is raised, the model stays in evaluation mode. Remember "
                "each module's mode at the start, and restore it in a `finally`.",
                {
                    "try:\n    _\nfinally:\n    ...": "try:\n"
                    "    _\n"
                    "except ZeroDivisionError:\n"
                    "    pass\n"
                    "else:\n"
                    "    model.train()\n"
                    "    for module, training in modes.items():\n"
                    "        pass"
                },
            ),
            "parts_lose_their_modes": (
                "You restore the mode of the model as a whole, and its parts get the same mode. A part can have a different mode, such as a frozen part in "
                "evaluation mode. Remember each module's mode.",
                {"for module, training in _:\n    module.training = training": "model.train(modes[model])\nfor module, training in _:\n    pass"},
            ),
            "modes_lost_by_an_error": (
                "If an error is raised, your model stays in evaluation mode, because the line that restores the mode is never reached. A `finally` block is "
                "always reached.",
                {
                    "try:\n    _\nfinally:\n    ...": "try:\n"
                    "    _\n"
                    "except ZeroDivisionError:\n"
                    "    pass\n"
                    "else:\n"
                    "    for module, training in modes.items():\n"
                    "        module.training = training"
                },
            ),
            "gradients_off_for_good": (
                "You disable gradients and never enable them again. A training run that samples in between cannot continue afterwards. `torch.no_grad()`, as "
                "a decorator or in a `with`, restores the previous state by itself.",
                {"torch.no_grad()": "", "model.eval()": "model.eval()\ntorch.set_grad_enabled(False)"},
            ),
            "gradients_kept": (
                "Every step stores what a backward pass would need, for the whole text. Nothing ever uses it: a sampled token has no gradient. A decorator "
                "above the function can disable the recording.",
                {"torch.no_grad()": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "distribution",
        {
            "dropped_tokens_marked_on_the_cpu": (
                "You mark the tokens that top-p drops in a tensor on the CPU, but scatter indices into it that can be on a GPU. `torch.zeros_like` creates a "
                "tensor on the device of its argument.",
                {"torch.zeros_like(probabilities)": "torch.zeros(probabilities.shape)"},
            ),
        },
    ),
    *on_devices(
        "sample",
        {
            "drawn_on_the_cpu": (
                "You move the probabilities to the CPU to draw from them. `torch.multinomial` draws on any device, but a generator on a GPU works only there.",
                {"torch.multinomial(rows, 1, generator=generator)": "torch.multinomial(rows.cpu(), 1, generator=generator)"},
            ),
            "noise_made_on_the_cpu": (
                "You draw the noise on the CPU, but the probabilities can be on a GPU. Create the noise on their device, for instance with `torch.empty_like`.",
                {
                    "torch.multinomial(rows, 1, generator=generator)": "(rows / torch.empty(rows.shape, dtype=wide).exponential_(generator=generator)).argmax(dim=-1)",
                },
            ),
        },
    ),
    *on_devices(
        "generate",
        {
            "tokens_on_the_cpu": (
                "You concatenate the tokens on the CPU. Your result is then on the CPU whatever device the prompt is on, and a model on a GPU raises an error "
                "in the next step.",
                {"torch.cat([tokens, following.unsqueeze(1)], dim=1)": "torch.cat([tokens.cpu(), following.cpu().unsqueeze(1)], dim=1)"},
            ),
        },
    ),
]
