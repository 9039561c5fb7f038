"""Day 24: what goes wrong between logits and text: what is cut, in which order, and what is drawn from."""

from course.judging.misconceptions import Misconception

# --- Lines of `distribution`
AT_ZERO = "if temperature == 0:"
ONE_HOT = "F.one_hot(logits.argmax(dim=-1), logits.size(-1)).to(logits.dtype)"
WIDEN = "scores = logits.to(torch.promote_types(logits.dtype, torch.float32))"
DIVIDE = "scores = (scores - scores.amax(dim=-1, keepdim=True)) / temperature  # (…, V)"
K_ASKED = "if top_k is not None and top_k < logits.size(-1):"
KTH = "kth = scores.topk(top_k, dim=-1).values[..., -1:]  # (…, 1)"
CUT_K = "scores = scores.masked_fill(scores < kth, -math.inf)  # (…, V)"
SOFTMAX = "probabilities = scores.softmax(dim=-1)  # (…, V)"
P_ASKED = "if top_p is not None and top_p < 1:"
SORT = "ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)  # (…, V)"
BEFORE = "before = F.pad(ordered.cumsum(dim=-1)[..., :-1], (1, 0))  # (…, V), from 0 on"
OUT = "out = before >= top_p  # (…, V), in order of probability"
FIRST = "out[..., 0] = False"
BACK = "out = torch.zeros_like(out).scatter(-1, order, out)  # (…, V), in order of ids"
CUT_P = "probabilities = probabilities.masked_fill(out, 0.0)"
RENORM = "probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)"
NARROW = "return probabilities.to(logits.dtype)"

# --- Lines of `sample`
ASK = "probabilities = distribution(logits.to(wide), temperature, top_k, top_p)  # (…, V)"
ROWS = "rows = probabilities.reshape(-1, logits.size(-1))  # (rows, V)"
DRAW = "torch.multinomial(rows, 1, generator=generator)"
SHAPE = f"{DRAW}.reshape(logits.shape[:-1])"

# --- Lines of `generate`
NO_GRAD = "@torch.no_grad()\n"
MODES = "modes = {module: module.training for module in model.modules()}"
EVAL = "model.eval()"
TIMES = "for _ in range(max_new_tokens):"
READ = "logits = model(tokens[:, -model.config.context :])[:, -1]  # (B, V)"
WINDOW = "tokens[:, -model.config.context :]"
FOLLOW = "following = sample(logits, temperature, top_k, top_p, generator)  # (B,)"
APPEND = "tokens = torch.cat([tokens, following.unsqueeze(1)], dim=1)  # (B, t + 1)"
FINALLY = "finally:"
PUT_BACK = "module.training = training"
RETURN = "return tokens"

DISTRIBUTION = [
    # --- temperature
    Misconception(
        "temperature_multiplies",
        "distribution",
        "You multiply by the temperature. The logits are divided by it: a low one makes the differences larger, and so the likely tokens likelier.",
        {DIVIDE: DIVIDE.replace("/ temperature", "* temperature")},
    ),
    Misconception(
        "temperature_ignored",
        "distribution",
        "Your probabilities are the same at every temperature above 0. It has to reach the logits before the softmax.",
        {DIVIDE: DIVIDE.replace("/ temperature", "/ 1.0")},
    ),
    Misconception(
        "temperature_after_the_softmax",
        "distribution",
        "You divide the probabilities by the temperature, so they no longer sum to 1, and their proportions are what they were. It is the logits "
        "that are divided: the softmax turns their differences into ratios.",
        {
            DIVIDE: DIVIDE.replace("/ temperature", "/ 1.0"),
            SOFTMAX: "probabilities = scores.softmax(dim=-1) / temperature",
        },
    ),
    Misconception(
        "temperature_0_divides",
        "distribution",
        "At temperature 0 you divide by 0, and get NaN. The limit has to be made on its own: all probability to the likeliest token.",
        {AT_ZERO: "if False:"},
    ),
    Misconception(
        "temperature_0_is_off",
        "distribution",
        "You take temperature 0 for *no temperature asked for*, and give the plain softmax. 0 is the coldest there is: the likeliest token is certain. "
        "(`if temperature:` is false for 0.)",
        {AT_ZERO: "if temperature == 0:\n        temperature = 1.0\n    if False:"},
    ),
    Misconception(
        "temperature_0_shares_among_equals",
        "distribution",
        "At temperature 0 equally likely tokens share the probability in your answer. One of them gets all of it, that of the lowest id, so that nothing is random at 0.",
        {
            AT_ZERO: "best = logits == logits.amax(dim=-1, keepdim=True)\n    if temperature == 0:\n        return (best / best.sum(dim=-1, keepdim=True)).to(logits.dtype)\n    if False:"
        },
    ),
    Misconception(
        "temperature_0_is_whole_numbers",
        "distribution",
        "At temperature 0 you return whole numbers: `one_hot` makes int64. Probabilities have the dtype of the logits.",
        {ONE_HOT: ONE_HOT.replace(".to(logits.dtype)", "")},
    ),
    # --- top-k
    Misconception(
        "top_k_ignored",
        "distribution",
        "You cut nothing, whatever `top_k` is.",
        {K_ASKED: "if False:"},
    ),
    Misconception(
        "top_k_one_too_many",
        "distribution",
        "You keep k + 1 tokens. Counted from 0, the k-th largest is at index k − 1.",
        {KTH: "kth = scores.sort(dim=-1, descending=True).values[..., top_k : top_k + 1]"},
    ),
    Misconception(
        "top_k_cuts_the_kth",
        "distribution",
        "You cut the k-th largest logit as well, and with k = 1 everything. Only what is *below* it goes.",
        {CUT_K: CUT_K.replace("scores < kth", "scores <= kth")},
    ),
    Misconception(
        "top_k_keeps_the_unlikely",
        "distribution",
        "You keep the k *least* likely tokens.",
        {
            KTH: "kth = scores.topk(top_k, dim=-1, largest=False).values[..., -1:]",
            CUT_K: CUT_K.replace("scores < kth", "scores > kth"),
        },
    ),
    Misconception(
        "top_k_fills_with_0",
        "distribution",
        "You set the logits that are cut to 0. A logit of 0 is a score like any other, and the softmax gives it a share. What can never come has the logit −∞.",
        {CUT_K: CUT_K.replace("-math.inf", "0.0")},
    ),
    Misconception(
        "top_k_not_renormalised",
        "distribution",
        "What top-k leaves does not sum to 1: you cut after the softmax and share out nothing. Cut before it, or divide by what is left.",
        {
            CUT_K: "cut = scores < kth",
            SOFTMAX: SOFTMAX
            + "\n    if top_k is not None and top_k < logits.size(-1):\n        probabilities = probabilities.masked_fill(cut, 0.0)",
        },
    ),
    Misconception(
        "top_k_of_the_whole_batch",
        "distribution",
        "Your k-th largest logit is that of all rows together. Each row keeps its own k likeliest.",
        {
            KTH: "kth = scores.flatten().topk(min(top_k * scores[..., 0].numel(), scores.numel())).values[-1:]"
        },
    ),
    Misconception(
        "top_k_cuts_ties",
        "distribution",
        "Of tokens that tie with the k-th you keep only some: those that `topk` happened to list. They are equally likely, so they all stay, though there are more than k then.",
        {
            CUT_K: "kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, scores.topk(top_k, dim=-1).indices, True)\n"
            "        scores = scores.masked_fill(~kept, -math.inf)"
        },
    ),
    Misconception(
        "top_k_above_the_vocabulary",
        "distribution",
        "Where k is larger than the vocabulary, you ask `topk` for more than there is. All tokens stay then.",
        {K_ASKED: "if top_k is not None:"},
    ),
    # --- top-p
    Misconception(
        "top_p_ignored",
        "distribution",
        "You cut nothing, whatever `top_p` is.",
        {P_ASKED: "if False:"},
    ),
    Misconception(
        "top_p_drops_the_token_that_crosses",
        "distribution",
        "Your nucleus stops short of p: the token with which the sum crosses p is missing. The set is to *reach* p, so that token is in it.",
        {BEFORE: "before = ordered.cumsum(dim=-1)"},
    ),
    Misconception(
        "top_p_can_leave_nothing",
        "distribution",
        "You drop the token that crosses p. Where the likeliest alone is above p, nothing is left, and 0 divided by 0 is NaN. The token that crosses p belongs to the nucleus.",
        {BEFORE: "before = ordered.cumsum(dim=-1)", FIRST: ""},
    ),
    Misconception(
        "top_p_one_too_many",
        "distribution",
        "You keep one token more than it takes to reach p. It is the sum of the tokens *before* one that decides whether it is needed.",
        {BEFORE: "before = F.pad(ordered.cumsum(dim=-1)[..., :-1], (1, 0)).roll(1, dims=-1)"},
    ),
    Misconception(
        "top_p_of_the_unlikely",
        "distribution",
        "You add up from the *least* likely token on, so the tail stays and the likely tokens go. The nucleus begins with the likeliest.",
        {SORT: SORT.replace("descending=True, stable=True", "stable=True")},
    ),
    Misconception(
        "top_p_is_the_share_that_goes",
        "distribution",
        "You take p for the share that is cut. It is the share that stays: 0.9 keeps nine tenths.",
        {OUT: OUT.replace(">= top_p", ">= 1 - top_p")},
    ),
    Misconception(
        "top_p_is_a_threshold",
        "distribution",
        "You keep the tokens whose own probability is p or more. Top-p adds them up from the likeliest on, until their *sum* reaches p.",
        {OUT: "out = ordered < top_p"},
    ),
    Misconception(
        "top_p_not_in_order_of_ids",
        "distribution",
        "Which tokens go is found among the sorted probabilities, and you cut by it as if it were in the order of ids. Each answer has to go back to the token that it is about.",
        {BACK: ""},
    ),
    Misconception(
        "top_p_sent_back_the_wrong_way",
        "distribution",
        "You undo the sorting with the same permutation that made it. `order` says which id stands at each place; to go back you *write* to these ids, you do not read from them.",
        {BACK: "out = out.gather(-1, order)"},
    ),
    Misconception(
        "top_p_returned_sorted",
        "distribution",
        "Your probabilities come in order of size. They belong to ids: entry i is the probability of token i.",
        {BACK: "probabilities = ordered"},
    ),
    Misconception(
        "top_p_not_renormalised",
        "distribution",
        "What the nucleus leaves does not sum to 1. Divide by what is left.",
        {RENORM: ""},
    ),
    Misconception(
        "top_p_before_temperature",
        "distribution",
        "You choose the nucleus before the temperature has done its work. First the temperature, then top-k, then top-p: each sees what the one before has left.",
        {
            SORT: "plain = logits.to(scores.dtype).masked_fill(scores == -math.inf, -math.inf).softmax(dim=-1)\n"
            "        ordered, order = plain.sort(dim=-1, descending=True, stable=True)"
        },
    ),
    Misconception(
        "top_p_before_top_k",
        "distribution",
        "You add up probabilities that top-k has not cut yet. The nucleus is chosen among what top-k has left, after that sums to 1 again: then fewer tokens reach p.",
        {
            CUT_K: "all_scores, scores = scores, scores.masked_fill(scores < kth, -math.inf)",
            SORT: "whole = all_scores.softmax(dim=-1) if top_k is not None and top_k < logits.size(-1) else probabilities\n"
            "        ordered, order = whole.sort(dim=-1, descending=True, stable=True)",
        },
    ),
    Misconception(
        "top_p_of_the_first_row",
        "distribution",
        "All your rows keep as many tokens as the first one. Each row has its own nucleus: one where the model is sure, many where it is not.",
        {
            OUT: "out = (before.reshape(-1, logits.size(-1))[:1] >= top_p).expand(before.reshape(-1, logits.size(-1)).shape).reshape(before.shape).clone()"
        },
    ),
    Misconception(
        "top_p_ties_from_the_end",
        "distribution",
        "Of equally likely tokens you let those of higher ids into the nucleus first. They enter in the order of their ids: sort so that equals stay in order.",
        {
            SORT: "ordered, order = (one.flip(-1) for one in probabilities.sort(dim=-1, stable=True))"
        },
    ),
    Misconception(
        "top_p_0_leaves_nothing",
        "distribution",
        "With p = 0 no token is left in your answer, and 0 divided by 0 is NaN. The likeliest always stays.",
        {FIRST: ""},
    ),
    Misconception(
        "top_p_1_cuts",
        "distribution",
        "With p = 1 you cut tokens. In floating point a sum can reach 1 before its last terms have been added; p = 1 keeps all.",
        {P_ASKED: "if top_p is not None:"},
    ),
    # --- softmax
    Misconception(
        "softmax_over_the_first_axis",
        "distribution",
        "Your probabilities sum to 1 down the batch. Each *row* is a distribution: the vocabulary is the last axis.",
        {SOFTMAX: "probabilities = scores.softmax(dim=0)"},
    ),
    Misconception(
        "exp_overflows",
        "distribution",
        "You take the exponential of the logits as they are: large ones give infinity, and then NaN, small ones 0 divided by 0. A softmax does not change when each row's maximum is subtracted first.",
        {
            DIVIDE: "scores = scores / temperature",
            SOFTMAX: "probabilities = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)",
        },
    ),
    Misconception(
        "changes_the_logits",
        "distribution",
        "Your probabilities are right, but the logits are not what they were: something is done to them in place. They belong to the caller.",
        {DIVIDE: "logits /= temperature\n    scores = logits.to(scores.dtype)"},
    ),
    # --- dtypes
    Misconception(
        "computed_in_half_precision",
        "distribution",
        "You compute in half precision. There a division by a small temperature overflows, and a sum of a thousand probabilities is right to two or three digits: the nucleus ends "
        "somewhere else. Go through float32, and back at the end.",
        {WIDEN: "scores = logits", DIVIDE: "scores = scores / temperature"},
    ),
    Misconception(
        "float32_stays",
        "distribution",
        "You return float32 where the logits are in half precision. Probabilities have the dtype of the logits.",
        {NARROW: "return probabilities"},
    ),
    Misconception(
        "float64_lost",
        "distribution",
        "Your probabilities are right to float32's digits only, though the logits are float64: a step on the way is made in float32.",
        {WIDEN: "scores = logits.float()"},
    ),
]

SAMPLE = [
    Misconception(
        "takes_the_likeliest",
        "sample",
        "You take the likeliest token each time. To *draw* is to take each token as often as its probability says.",
        {DRAW: "rows.argmax(dim=-1)"},
    ),
    Misconception(
        "one_draw_for_all_rows",
        "sample",
        "You draw once, and every row gets the same token. Each row has a draw of its own.",
        {
            SHAPE: "torch.multinomial(rows[:1], 1, generator=generator).expand(len(rows), 1).reshape(logits.shape[:-1])"
        },
    ),
    Misconception(
        "one_draw_for_each_first_row",
        "sample",
        "Rows that lie along the last axis of the batch share a draw in your answer. Each row has one of its own, wherever it lies.",
        {
            SHAPE: "torch.multinomial(rows, 1, generator=generator).reshape(logits.shape[:-1])[..., :1].expand(logits.shape[:-1]).clone() if logits.dim() > 2 else torch.multinomial(rows, 1, generator=generator).reshape(logits.shape[:-1])"
        },
    ),
    Misconception(
        "all_that_stay_are_equal",
        "sample",
        "All tokens that can come are drawn equally often. The probabilities are not only a list of what is allowed.",
        {ROWS: "rows = (probabilities.reshape(-1, logits.size(-1)) > 0).to(wide)"},
    ),
    Misconception(
        "softmax_twice",
        "sample",
        "You apply a softmax to what are probabilities already. All tokens then come about equally often, those of probability 0 too.",
        {ROWS: "rows = probabilities.softmax(dim=-1).reshape(-1, logits.size(-1))"},
    ),
    Misconception(
        "sample_without_temperature",
        "sample",
        "The temperature does not get to `distribution`.",
        {ASK: ASK.replace("temperature", "1.0")},
    ),
    Misconception(
        "sample_without_top_k",
        "sample",
        "`top_k` does not get to `distribution`.",
        {ASK: ASK.replace("top_k", "None")},
    ),
    Misconception(
        "sample_without_top_p",
        "sample",
        "`top_p` does not get to `distribution`.",
        {ASK: ASK.replace(", top_p", ", None")},
    ),
    Misconception(
        "generator_ignored",
        "sample",
        "You draw from torch's own state, whatever generator you are given. It has to be handed on to what draws.",
        {DRAW: "torch.multinomial(rows, 1)"},
    ),
    Misconception(
        "seeded_inside",
        "sample",
        "You seed the randomness inside, so every call draws the same. Where it comes from is the caller's affair; a draw only moves it on.",
        {
            ROWS: ROWS
            + "\n    torch.manual_seed(0) if generator is None else generator.manual_seed(0)"
        },
    ),
    Misconception(
        "generator_made_inside",
        "sample",
        "Without a generator you make a new one, which begins at the same place each time: every call draws the same, and `torch.manual_seed` has no say. None means torch's own.",
        {ROWS: ROWS + "\n    generator = generator or torch.Generator(logits.device)"},
    ),
    Misconception(
        "one_axis_in_front",
        "sample",
        "You hand `multinomial` the probabilities as they are. It knows one axis in front of the vocabulary, or none; the logits may have more. Lay their rows in one line first, and give the "
        "ids the shape of the axes in front.",
        {ROWS: "rows = probabilities", SHAPE: f"{DRAW}.squeeze(-1)"},
    ),
    Misconception(
        "keeps_the_axis_of_the_draw",
        "sample",
        "Your ids have an axis of length 1 at their end: `multinomial` leaves it, for the number of draws. One id a row is asked for, in the shape of the axes in front.",
        {SHAPE: f"{DRAW}.reshape(*logits.shape[:-1], 1)"},
    ),
    Misconception(
        "all_ones_squeezed",
        "sample",
        "You squeeze every axis of length 1. A batch of one row gives a batch of one id: only the last axis goes.",
        {SHAPE: f"{SHAPE}.squeeze()"},
    ),
    Misconception(
        "flat_ids",
        "sample",
        "Your ids lie in one line. They have the shape of the logits without the vocabulary's axis.",
        {SHAPE: f"{DRAW}.flatten()"},
    ),
    Misconception(
        "ids_in_the_dtype_of_the_logits",
        "sample",
        "Your ids are no integers. An id is int64, the dtype that an embedding looks up by.",
        {SHAPE: f"{SHAPE}.to(logits.dtype)"},
    ),
]

GENERATE = [
    # --- what the model reads
    Misconception(
        "reads_the_beginning",
        "generate",
        "Of a text that is longer than its context you give the model the *first* tokens. It never sees what it has just written. The last `context` tokens are the ones to go on from.",
        {WINDOW: "tokens[:, : model.config.context]"},
    ),
    Misconception(
        "context_ignored",
        "generate",
        "You give the model the whole text, however long. It can read `model.config.context` tokens at once, no more: it has no positions for them.",
        {WINDOW: "tokens"},
    ),
    Misconception(
        "context_one_too_short",
        "generate",
        "You leave out one token more than you have to: of a longer text the model reads the last `context` tokens, all of them.",
        {WINDOW: "tokens[:, -max(model.config.context - 1, 1) :]"},
    ),
    Misconception(
        "last_token_alone",
        "generate",
        "You give the model the last token only. It keeps nothing from earlier calls, so it must read the text each time. (How to spare it that is tomorrow's day.)",
        {WINDOW: "tokens[:, -1:]"},
    ),
    Misconception(
        "prompt_cut",
        "generate",
        "You cut the text itself down to the context. Only the model reads less: the result holds the whole prompt, and all that follows.",
        {
            READ: "tokens = tokens[:, -model.config.context :]\n            logits = model(tokens)[:, -1]"
        },
    ),
    Misconception(
        "only_the_prompt_is_cut",
        "generate",
        "The model is given the prompt each time, without what has been added since. It writes the same token again and again. What was drawn goes back in.",
        {MODES: MODES + "\n    prompt = tokens", WINDOW: "prompt[:, -model.config.context :]"},
    ),
    # --- what is drawn from
    Misconception(
        "asks_the_first_position",
        "generate",
        "You draw from the logits of position 0, which has seen the first token alone. The last position has seen all that the model reads.",
        {")[:, -1]  # (B, V)": ")[:, 0]  # (B, V)"},
    ),
    Misconception(
        "asks_the_position_before_the_last",
        "generate",
        "You draw from the position before the last. What it predicts is there already; the last position is about the token that is missing.",
        {")[:, -1]  # (B, V)": ")[:, -2:][:, 0]  # (B, V)"},
    ),
    Misconception(
        "one_continuation_for_all",
        "generate",
        "Every row goes on as the first one does. Each has a prompt of its own, and a token of its own.",
        {
            FOLLOW: "following = sample(logits, temperature, top_k, top_p, generator)[:1].expand(len(tokens))"
        },
    ),
    Misconception(
        "draws_from_probabilities",
        "generate",
        "You hand `sample` probabilities. It takes logits, and makes probabilities of them itself: a second softmax flattens everything, and what could never come comes.",
        {FOLLOW: FOLLOW.replace("(logits,", "(logits.softmax(dim=-1),")},
    ),
    Misconception(
        "generate_without_temperature",
        "generate",
        "The temperature does not get to `sample`.",
        {FOLLOW: FOLLOW.replace("temperature", "1.0")},
    ),
    Misconception(
        "generate_without_top_k",
        "generate",
        "`top_k` does not get to `sample`.",
        {FOLLOW: FOLLOW.replace("top_k", "None")},
    ),
    Misconception(
        "generate_without_top_p",
        "generate",
        "`top_p` does not get to `sample`.",
        {FOLLOW: FOLLOW.replace("top_p", "None")},
    ),
    Misconception(
        "generate_without_generator",
        "generate",
        "The generator does not get to `sample`, so torch's own state decides.",
        {FOLLOW: FOLLOW.replace(", generator)", ")")},
    ),
    Misconception(
        "always_greedy",
        "generate",
        "You take the likeliest token at every step. That is temperature 0; here it is drawn.",
        {FOLLOW: "following = logits.argmax(dim=-1)"},
    ),
    Misconception(
        "same_state_at_every_step",
        "generate",
        "Each of your steps draws from the generator as it was at the beginning. It has to move on, or a text repeats its own luck.",
        {
            MODES: MODES + "\n    begin = None if generator is None else generator.get_state()",
            FOLLOW: "if generator is not None:\n                generator.set_state(begin)\n            "
            + FOLLOW,
        },
    ),
    # --- what is returned
    Misconception(
        "without_the_prompt",
        "generate",
        "You return what follows the prompt, without the prompt.",
        {RETURN: "return tokens[:, tokens.size(1) - max_new_tokens :]"},
    ),
    Misconception(
        "one_too_few",
        "generate",
        "You add one token less than `max_new_tokens`.",
        {TIMES: "for _ in range(max_new_tokens - 1):"},
    ),
    Misconception(
        "one_too_many",
        "generate",
        "You add one token more than `max_new_tokens`.",
        {TIMES: "for _ in range(max_new_tokens + 1):"},
    ),
    Misconception(
        "counts_the_prompt",
        "generate",
        "You count the prompt among the new tokens. `max_new_tokens` says how many are *added*.",
        {TIMES: "for _ in range(max_new_tokens - tokens.size(1)):"},
    ),
    Misconception(
        "as_long_as_the_context",
        "generate",
        "You stop when the text is as long as the model's context. It can grow on: the model reads its end.",
        {
            TIMES: "for _ in range(min(max_new_tokens, max(model.config.context - tokens.size(1), 0))):"
        },
    ),
    # --- the model
    Misconception(
        "dropout_on",
        "generate",
        "The model is asked in the mode that it happens to be in. In training mode dropout removes parts of every step: the text is worse than the model is.",
        {EVAL: ""},
    ),
    Misconception(
        "left_in_evaluation_mode",
        "generate",
        "Your model stays in evaluation mode. A training that looks at a sample now and then goes on without dropout, and nobody notices.",
        {PUT_BACK: "pass"},
    ),
    Misconception(
        "put_into_training_mode_at_the_end",
        "generate",
        "You end with `model.train()`, whatever mode the model was in; and where something raises on the way, it stays in evaluation mode. Remember each module's mode at the "
        "beginning, and put it back in a `finally`.",
        {
            PUT_BACK: "pass",
            FINALLY: "except ZeroDivisionError:\n        pass\n    else:\n        model.train()",
        },
    ),
    Misconception(
        "put_into_training_mode",
        "generate",
        "You put the model into training mode at the end, whatever mode it was in. Remember the mode, and put that back.",
        {PUT_BACK: "module.training = True"},
    ),
    Misconception(
        "parts_lose_their_modes",
        "generate",
        "You put the model as a whole back into its mode, and its parts with it. A part may have been in another one, such as a frozen part in evaluation mode: remember each module's.",
        {
            PUT_BACK: "pass",
            RETURN: "return tokens",
            FINALLY: "finally:\n        model.train(modes[model])",
        },
    ),
    Misconception(
        "modes_lost_by_an_error",
        "generate",
        "Where something raises on the way, your model stays in evaluation mode: the line that puts it back is never reached. `finally` is.",
        {FINALLY: "except ZeroDivisionError:\n        pass\n    else:"},
    ),
    Misconception(
        "parts_lose_their_modes_and_an_error_all",
        "generate",
        "You put the model as a whole back into its mode, and its parts with it, though a part may have been in another; and where something raises on the way, nothing is put back at all. "
        "Remember each module's mode, and put it back in a `finally`.",
        {
            PUT_BACK: "pass",
            FINALLY: "except ZeroDivisionError:\n        pass\n    else:\n        model.train(modes[model])",
        },
    ),
    Misconception(
        "gradients_kept",
        "generate",
        "Every step keeps what a `backward` would need, for the whole text. Nobody will ask: a drawn token has no gradient. The decorator above the function switches that off.",
        {NO_GRAD: ""},
    ),
]

MISCONCEPTIONS = [*DISTRIBUTION, *SAMPLE, *GENERATE]
