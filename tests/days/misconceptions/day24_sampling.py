"""Day 24: what goes wrong between logits and text: what is cut, in which order, and what is drawn from."""

from course.judging.misconceptions import of, on_devices

ALL_LEFT = {"left = ...": "left = torch.arange(logits.size(-1), device=logits.device)"}

MISCONCEPTIONS = [
    *of(
        "distribution",
        {
            # --- temperature
            "temperature_multiplies": (
                "You multiply by the temperature. The logits are divided by it: a low one makes the differences larger, and so the likely tokens likelier.",
                {"_ / temperature": "_ * temperature"},
            ),
            "temperature_after_the_softmax": (
                "You divide the probabilities by the temperature, so they no longer sum to 1, and their proportions are what they were. It is the logits that are "
                "divided: the softmax turns their differences into ratios.",
                {"_ / temperature": "_ / 1.0", "scores.softmax(dim=-1)": "scores.softmax(dim=-1) / temperature"},
            ),
            "temperature_0_divides": (
                "At temperature 0 you divide by 0, and get NaN. Handle the limit separately: the most likely token gets all the probability.",
                {"temperature == 0": "False"},
            ),
            "temperature_0_is_off": (
                "You treat temperature 0 as *no temperature*, and return the plain softmax. At temperature 0 the most likely token has probability 1. "
                "(`if temperature:` is false for 0.)",
                {"if temperature == 0:\n    _": "if temperature == 0:\n    temperature = 1.0\nif False:\n    _"},
            ),
            "temperature_0_shares_among_equals": (
                "At temperature 0 equally likely tokens share the probability in your answer. One of them gets all of it, that of the lowest id, so that nothing "
                "is random at 0.",
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
                "You cut the k-th largest logit as well, and with k = 1 everything. Only what is *below* it goes.",
                {"scores < kth": "scores <= kth"},
            ),
            "top_k_one_too_many": (
                "You keep k + 1 tokens. Counted from 0, the k-th largest is at index k − 1.",
                {"kth = ...": "kth = scores.sort(dim=-1, descending=True).values[..., top_k : top_k + 1]"},
            ),
            "top_k_fills_with_0": (
                "You set the logits that are cut to 0. A logit of 0 is a score like any other, and the softmax gives it a share. What can never come has the logit "
                "−∞.",
                {"-math.inf": "0.0"},
            ),
            "top_k_not_renormalized": (
                "What top-k leaves does not sum to 1: you cut after the softmax and do not renormalize. Cut before it, or divide by the remaining sum.",
                {
                    "3: scores = ...": "cut = scores < kth",
                    "3: probabilities = _": "probabilities = _\n"
                    "if top_k is not None and top_k < logits.size(-1):\n"
                    "    probabilities = probabilities.masked_fill(cut, 0.0)",
                },
            ),
            "top_k_of_the_whole_batch": (
                "Your k-th largest logit is that of all rows together. Each row keeps its own k most likely tokens.",
                {"kth = ...": "kth = scores.flatten().topk(min(top_k * scores[..., 0].numel(), scores.numel())).values[-1:]"},
            ),
            "top_k_cuts_ties": (
                "Of tokens that tie with the k-th you keep only some: those that `topk` happened to list. They are equally likely, so they all stay, though there "
                "are more than k then.",
                {
                    "kth = _": "kth = _\nkept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, scores.topk(top_k, dim=-1).indices, True)",
                    "scores < kth": "~kept",
                },
            ),
            "top_k_above_the_vocabulary": (
                "Where k is larger than the vocabulary, you ask `topk` for more than there is. All tokens stay then.",
                {"_ and top_k < logits.size(-1)": "_"},
            ),
            # --- top-p
            "top_p_drops_the_token_that_crosses": (
                "Your nucleus stops short of p: the token with which the sum crosses p is missing. The set is to *reach* p, so that token is in it.",
                {"F.pad(_[..., :-1], (1, 0))": "_"},
            ),
            "top_p_can_leave_nothing": (
                "You drop the token that crosses p. Where the most likely token alone is above p, nothing is left, and 0 divided by 0 is NaN. The token that crosses p "
                "belongs to the nucleus.",
                {"F.pad(_[..., :-1], (1, 0))": "_", "out[..., :1] = False": ""},
            ),
            "top_p_is_a_threshold": (
                "You keep the tokens whose own probability is p or more. Top-p adds them up from the most likely on, until their *sum* reaches p.",
                {"before >= top_p": "ordered < top_p"},
            ),
            "top_p_not_in_order_of_ids": (
                "Which tokens go is found among the sorted probabilities, and you cut by it as if it were in the order of ids. Each answer has to go back to the "
                "token that it is about.",
                ALL_LEFT | {"out = ....scatter(-1, ..., out)": ""},
            ),
            "top_p_sent_back_the_wrong_way": (
                "You undo the sorting with the same permutation that made it. `order` holds the id at each place; to go back you *write* to these ids, you "
                "do not read from them.",
                ALL_LEFT | {"_.scatter(-1, left[order], out)": "out.gather(-1, order)"},
            ),
            "top_p_not_renormalized": (
                "The probabilities in the nucleus do not sum to 1. Divide by their sum.",
                {"probabilities = probabilities / ...": ""},
            ),
            "top_p_before_temperature": (
                "You choose the nucleus before the temperature has done its work. First the temperature, then top-k, then top-p: each sees what the one before has "
                "left.",
                ALL_LEFT
                | {
                    "ordered, order = ...": "plain = logits.to(scores.dtype).masked_fill(scores == -math.inf, -math.inf).softmax(dim=-1)\n"
                    "ordered, order = plain.sort(dim=-1, descending=True, stable=True)"
                },
            ),
            "top_p_before_top_k": (
                "You add up probabilities that top-k has not cut yet. The nucleus is chosen among what top-k has left, after that sums to 1 again: then fewer "
                "tokens reach p.",
                ALL_LEFT
                | {
                    "3: scores = _": "all_scores, scores = scores, _",
                    "ordered, order = ...": "whole = all_scores.softmax(dim=-1) if top_k is not None and top_k < logits.size(-1) else probabilities\n"
                    "ordered, order = whole.sort(dim=-1, descending=True, stable=True)",
                },
            ),
            "top_p_ties_from_the_end": (
                "Of equally likely tokens you let those of higher ids into the nucleus first. They enter in the order of their ids: sort so that equals stay in "
                "order.",
                {"_.sort(dim=-1, descending=True, stable=True)": "(one.flip(-1) for one in _.sort(dim=-1, stable=True))"},
            ),
            "top_p_one_more_where_exact": (
                "Where the most likely tokens add up to exactly p, you keep one more. The set is complete as soon as its sum *reaches* p.",
                {"before >= top_p": "before > top_p"},
            ),
            "top_p_0_leaves_nothing": (
                "With p = 0 no token is left in your answer, and 0 divided by 0 is NaN. The most likely token always stays.",
                {"out[..., :1] = False": ""},
            ),
            "top_p_1_cuts": (
                "With p = 1 you cut tokens. In floating point a sum can reach 1 before its last terms have been added; p = 1 keeps all.",
                {"_ and top_p < 1": "_"},
            ),
            # --- softmax
            "softmax_over_the_first_axis": (
                "Your probabilities sum to 1 down the batch. Each *row* is a distribution: the vocabulary is the last axis.",
                {"scores.softmax(dim=-1)": "scores.softmax(dim=0)"},
            ),
            "exp_overflows": (
                "You take the exponential of the logits as they are: large ones give infinity, and then NaN, small ones 0 divided by 0. A softmax does not change "
                "when each row's maximum is subtracted first.",
                {"scores - ...": "scores", "scores.softmax(dim=-1)": "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"},
            ),
            "changes_the_logits": (
                "Your probabilities are right, but the logits are not what they were: something is done to them in place. They belong to the caller.",
                {"scores = ... / temperature": "logits /= temperature\nscores = logits.to(scores.dtype)"},
            ),
            # --- dtypes
            "computed_in_half_precision": (
                "You compute in half precision. There a division by a small temperature overflows, and a sum of a thousand probabilities is right to two or three "
                "digits: the nucleus ends somewhere else. Go through float32, and back at the end.",
                {"logits.to(...)": "logits", "scores - ...": "scores"},
            ),
            "float32_stays": (
                "You return float32 where the logits are in half precision. Probabilities have the dtype of the logits.",
                {"4: _.to(logits.dtype)": "_"},
            ),
            "float64_lost": (
                "Your probabilities are right to float32's digits only, though the logits are float64: a step on the way is made in float32.",
                {"logits.to(...)": "logits.float()"},
            ),
        },
    ),
    *of(
        "sample",
        {
            "takes_the_likeliest": (
                "You take the most likely token each time. To *draw* means to take each token with its probability.",
                {"torch.multinomial(rows, 1, generator=generator)": "rows.argmax(dim=-1)"},
            ),
            "one_draw_for_all_rows": (
                "You draw once, and every row gets the same token. Each row has a draw of its own.",
                {"torch.multinomial(rows, 1, generator=generator)": "torch.multinomial(rows[:1], 1, generator=generator).expand(len(rows), 1)"},
            ),
            "softmax_twice": (
                "You apply a softmax to what are probabilities already. All tokens then come about equally often, those of probability 0 too.",
                {"probabilities.reshape": "probabilities.softmax(dim=-1).reshape"},
            ),
            "sample_without_temperature": (
                "The temperature changes nothing in your `sample`: it has to be passed on to `distribution`.",
                {"temperature": "1.0"},
            ),
            "seeded_inside": (
                "You seed the randomness inside, so every call draws the same. Where it comes from is the caller's affair; a draw only moves it on.",
                {"return _": "torch.manual_seed(0) if generator is None else generator.manual_seed(0)\nreturn _"},
            ),
            "one_axis_in_front": (
                "You hand `multinomial` the probabilities as they are. It knows one axis in front of the vocabulary, or none; the logits may have more. Lay their "
                "rows in one line first, and give the ids the shape of the axes in front.",
                {"rows = ...": "rows = probabilities", "_.reshape(...)": "_.squeeze(-1)"},
            ),
            "keeps_the_axis_of_the_draw": (
                "Your ids have an axis of length 1 at their end: `multinomial` leaves it, for the number of draws. One id a row is asked for, in the shape of the "
                "axes in front.",
                {"_.reshape(...)": "_.reshape(*logits.shape[:-1], 1)"},
            ),
            "all_ones_squeezed": (
                "You squeeze every axis of length 1. A batch of one row gives a batch of one id: only the last axis goes.",
                {"return _": "return _.squeeze()"},
            ),
            "ids_in_the_dtype_of_the_logits": (
                "Your ids are no integers. An id is int64, the dtype that an embedding looks up by.",
                {"return _": "return _.to(logits.dtype)"},
            ),
        },
    ),
    *of(
        "generate",
        {
            # --- what the model reads
            "reads_the_beginning": (
                "Of a text that is longer than its context you give the model the *first* tokens. It never sees what it has just written. The last `context` "
                "tokens are the model's input.",
                {"tokens[:, -_ :]": "tokens[:, : _]"},
            ),
            "context_ignored": (
                "You give the model the whole text, however long. It can read `model.config.context` tokens at once, no more: it has no positions for them.",
                {"tokens[...]": "tokens"},
            ),
            "prompt_cut": (
                "You cut the text itself down to the context. Only the model reads less: the result holds the whole prompt, and all that follows.",
                {"logits = model(_)[:, -1]": "tokens = _\nlogits = model(tokens)[:, -1]"},
            ),
            # --- what is drawn from
            "one_continuation_for_all": (
                "Every row gets the first row's token. Each row has its own prompt, and its own next token.",
                {"following = _": "following = _[:1].expand(len(tokens))"},
            ),
            "draws_from_probabilities": (
                "You hand `sample` probabilities. It takes logits, and makes probabilities of them itself: a second softmax flattens everything, and what could "
                "never come comes.",
                {"logits": "logits.softmax(dim=-1)"},
            ),
            "generate_without_temperature": (
                "The temperature changes nothing in your `generate`: it has to be passed on to `sample`.",
                {"temperature": "1.0"},
            ),
            "generate_without_generator": (
                "The generator changes nothing in your `generate`: it has to be passed on to `sample`, or torch's own state decides.",
                {"generator": ""},
            ),
            # --- what is returned
            "without_the_prompt": (
                "You return what follows the prompt, without the prompt.",
                {"return tokens": "return tokens[:, tokens.size(1) - max_new_tokens :]"},
            ),
            "one_too_many": (
                "You add one token more than `max_new_tokens`.",
                {"range(_)": "range(_ + 1)"},
            ),
            "counts_the_prompt": (
                "You count the prompt among the new tokens. `max_new_tokens` says how many are *added*.",
                {"range(_)": "range(_ - tokens.size(1))"},
            ),
            # --- the model
            "dropout_on": (
                "The model is asked in the mode that it happens to be in. In training mode dropout removes parts of every step: the text is worse than the model "
                "is.",
                {"model.eval()": ""},
            ),
            "left_in_evaluation_mode": (
                "Your model stays in evaluation mode. A training run that samples now and then continues without dropout, without any error.",
                {"module.training = training": ""},
            ),
            "put_into_training_mode_at_the_end": (
                "You end with `model.train()`, whatever mode the model was in; and where something raises on the way, it stays in evaluation mode. Remember each "
                "module's mode at the beginning, and put it back in a `finally`.",
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
                "You put the model as a whole back into its mode, and its parts with it. A part may have been in a different mode, such as a frozen part in evaluation "
                "mode: remember each module's.",
                {"for module, training in _:\n    module.training = training": "model.train(modes[model])\nfor module, training in _:\n    pass"},
            ),
            "modes_lost_by_an_error": (
                "Where something raises on the way, your model stays in evaluation mode: the line that puts it back is never reached. `finally` is.",
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
                "You switch gradients off, and never on again. A training run that samples in between cannot continue afterwards. `torch.no_grad()`, as a "
                "decorator or in a `with`, ends by itself.",
                {"torch.no_grad()": "", "model.eval()": "model.eval()\ntorch.set_grad_enabled(False)"},
            ),
            "gradients_kept": (
                "Every step keeps what a `backward` would need, for the whole text. It is never used: a drawn token has no gradient. The decorator above the "
                "function switches that off.",
                {"torch.no_grad()": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "distribution",
        {
            "dropped_tokens_marked_on_the_cpu": (
                "You mark the tokens that top-p drops in a tensor on the CPU, and scatter indices into it that may be on a GPU. `torch.zeros_like` makes it where they are.",
                {"torch.zeros_like(probabilities)": "torch.zeros(probabilities.shape)"},
            ),
        },
    ),
    *on_devices(
        "sample",
        {
            "drawn_on_the_cpu": (
                "You bring the probabilities to the CPU to draw from them. `torch.multinomial` draws on any device, and a generator on a GPU draws there alone.",
                {"torch.multinomial(rows, 1, generator=generator)": "torch.multinomial(rows.cpu(), 1, generator=generator)"},
            ),
            "noise_made_on_the_cpu": (
                "You draw the noise on the CPU, and the probabilities may be on a GPU. Make it where they are: `torch.empty_like` does, and a generator is there too.",
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
                "You join the tokens on the CPU. So your result is there whatever device the prompt is on, and a model on a GPU refuses the next step.",
                {"torch.cat([tokens, following.unsqueeze(1)], dim=1)": "torch.cat([tokens.cpu(), following.cpu().unsqueeze(1)], dim=1)"},
            ),
        },
    ),
]
