"""Day 18: what goes wrong in a training loop, most of it without an error and without a warning."""

from course.judging.misconceptions import Misconception

MODE = "model.train(training)"
NO_GRADIENT = "torch.set_grad_enabled(training)"
GROUP = "tokens = sum(batch.ntokens for batch in group)"
ZERO = """            if training:
                optimizer.zero_grad()
"""
EACH = """            for batch in group:
"""
FORWARD = "states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)"
GENERATE = "log_probs = model.generator(states)  # (B, T, V)"
LOSS = "summed = loss(log_probs.flatten(0, 1), batch.tgt_y.flatten())"
BACKWARD = "(summed / max(tokens, 1)).backward()"
TOTAL = "total_loss += summed.detach().to(torch.promote_types(summed.dtype, torch.float32))"
EMPTY = """    if total_tokens == 0:
        raise ValueError("batches hold no token to predict")
"""
STEP = """            if training:
                optimizer.step()
                if scheduler is not None:
                    scheduler.step()
"""
SCHEDULE = """                if scheduler is not None:
                    scheduler.step()
"""
TOKENS = "total_tokens += tokens"
RESULT = "return float(total_loss / total_tokens)"

AS_ANNOTATED = """
def run_epoch(batches, model, loss, optimizer=None, scheduler=None, accumulate=1):
    training = optimizer is not None
    model.train(training)
    total_loss, total_tokens = 0.0, 0
    with torch.set_grad_enabled(training):
        for i, batch in enumerate(batches):
            states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            log_probs = model.generator(states)
            summed = loss(log_probs.flatten(0, 1), batch.tgt_y.flatten())
            if training:
                (summed / batch.ntokens).backward()
                if i % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                if scheduler is not None:
                    scheduler.step()
            total_loss += float(summed)
            total_tokens += int(batch.ntokens)
    return total_loss / total_tokens
"""
AS_IN_TUTORIALS = """
def run_epoch(batches, model, loss, optimizer=None, scheduler=None, accumulate=1):
    training = optimizer is not None
    model.train(training)
    total_loss, total_tokens = 0.0, 0
    with torch.set_grad_enabled(training):
        if training:
            optimizer.zero_grad()
        for i, batch in enumerate(batches):
            states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            log_probs = model.generator(states)
            summed = loss(log_probs.flatten(0, 1), batch.tgt_y.flatten())
            if training:
                (summed / batch.ntokens / accumulate).backward()
                if (i + 1) % accumulate == 0:
                    optimizer.step()
                    if scheduler is not None:
                        scheduler.step()
                    optimizer.zero_grad()
            total_loss += float(summed)
            total_tokens += int(batch.ntokens)
    return total_loss / total_tokens
"""


def in_tutorials(*edits):
    """That loop, with some changes."""
    text = AS_IN_TUTORIALS
    for find, put in edits:
        assert text.count(find) == 1, find
        text = text.replace(find, put)
    return text


CLEARED_FIRST = """        if training:
            optimizer.zero_grad()
"""


def once_more(line, deeper=""):
    """A line of the innermost block, and the given one after it."""
    return f"{TOTAL}\n                {line}{deeper}"


MISCONCEPTIONS = [
    # --- whole loops, as they are found
    Misconception(
        "as_the_annotated_transformer_accumulates",
        "run_epoch",
        "You accumulate as the Annotated Transformer does: a step whenever the number of the batch, counted from 0, is a multiple of `accumulate`, which is after the "
        "*first* batch of each group; each batch divided by its own tokens alone; and the schedule goes on with every batch. With `accumulate=1` it does not show.",
        source=AS_ANNOTATED,
    ),
    Misconception(
        "as_tutorials_accumulate",
        "run_epoch",
        "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0. That is a mean of means, in which a token of "
        "a short batch pulls harder than one of a long batch; and what is left when the batches run out is never stepped.",
        source=AS_IN_TUTORIALS,
    ),
    Misconception(
        "as_tutorials_accumulate_cleared_after_the_step",
        "run_epoch",
        "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0. That is a mean of means; what is left when the "
        "batches run out is never stepped, and stays in the gradients for the next call, for you clear them only after a step.",
        source=in_tutorials((CLEARED_FIRST, "")),
    ),
    Misconception(
        "as_tutorials_accumulate_sums",
        "run_epoch",
        "You divide each batch's summed loss by `accumulate`, and step where `(i + 1) % accumulate` is 0. What a step needs is a mean over the *tokens* of its group; and what is left when the "
        "batches run out is never stepped.",
        source=in_tutorials(("batch.ntokens / accumulate", "accumulate")),
    ),
    Misconception(
        "as_tutorials_accumulate_and_average",
        "run_epoch",
        "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0; and you return the mean of the batches' means. Both are "
        "means of means, in which a short batch counts as much as a long one; and what is left when the batches run out is never stepped.",
        source=in_tutorials(
            ("float(summed)", "float(summed / batch.ntokens)"), ("int(batch.ntokens)", "1")
        ),
    ),
    Misconception(
        "as_tutorials_accumulate_and_average_cleared_after_the_step",
        "run_epoch",
        "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0; and you return the mean of the batches' means. Both are "
        "means of means; and what is left when the batches run out is never stepped, and stays in the gradients for the next call.",
        source=in_tutorials(
            (CLEARED_FIRST, ""),
            ("float(summed)", "float(summed / batch.ntokens)"),
            ("int(batch.ntokens)", "1"),
        ),
    ),
    # --- what the gradient is divided by
    Misconception(
        "divided_by_no_tokens",
        "run_epoch",
        "A group without a single real token divides 0 by 0 in your answer, and one such step makes every parameter NaN. Its gradient is 0.",
        {BACKWARD: "(summed / tokens).backward()"},
    ),
    Misconception(
        "each_batch_by_no_tokens",
        "run_epoch",
        "You divide each batch's loss by its own tokens, and then by the number of batches in a step: a mean of means, in which a token of a short batch pulls harder than one of a long batch. And a "
        "batch without a real token divides 0 by 0, which makes every parameter NaN.",
        {BACKWARD: "(summed / batch.ntokens / accumulate).backward()"},
    ),
    Misconception(
        "each_batch_by_its_own_tokens_and_k",
        "run_epoch",
        "You divide each batch's loss by its own tokens, and then by the number of batches in a step. That is a mean of means: a "
        "token in a short batch pulls harder than one in a long batch. One large batch would divide everything by *all* its tokens.",
        {BACKWARD: "(summed / max(batch.ntokens, 1) / accumulate).backward()"},
    ),
    Misconception(
        "each_batch_by_its_own_tokens_and_group",
        "run_epoch",
        "You divide each batch's loss by its own tokens, and then by the number of batches in its group. The last group is right "
        "that way in its size, but this is still a mean of means: tokens of short batches pull harder than those of long ones.",
        {BACKWARD: "(summed / max(batch.ntokens, 1) / len(group)).backward()"},
    ),
    Misconception(
        "each_batch_by_its_own_tokens",
        "run_epoch",
        "Each batch is divided by its own tokens, and the gradients are added up. Then a step of k batches is about k times as long as "
        "that of one large batch. Its loss is a mean over the tokens of the whole group.",
        {BACKWARD: "(summed / max(batch.ntokens, 1)).backward()"},
    ),
    Misconception(
        "divided_by_k_only",
        "run_epoch",
        "You divide the summed loss by `accumulate`. What a step needs is a mean over *tokens*: a group of long sentences would "
        "otherwise make a longer step than one of short ones.",
        {BACKWARD: "(summed / accumulate).backward()"},
    ),
    Misconception(
        "divided_by_tokens_and_k",
        "run_epoch",
        "You divide by the group's tokens and by `accumulate` as well. The tokens are those of the whole group already: "
        "your step is k times too short.",
        {BACKWARD: "(summed / max(tokens, 1) / accumulate).backward()"},
    ),
    Misconception(
        "not_divided",
        "run_epoch",
        "Your gradient is that of the summed loss. It grows with every sentence in the group, so the learning rate "
        "would mean something else for each batch size. A step wants the mean over the tokens.",
        {BACKWARD: "summed.backward()"},
    ),
    # --- which tokens
    Misconception(
        "source_tokens_counted",
        "run_epoch",
        "You divide by the tokens of the source. The loss is made of target tokens, so these are what it is a mean over.",
        {GROUP: "tokens = sum((batch.src != 0).sum() for batch in group)"},
    ),
    Misconception(
        "padding_counted",
        "run_epoch",
        "You count every place of the targets, the padding included. The loss of padding is 0: counted in, it makes "
        "the mean look better the more padding there is.",
        {GROUP: "tokens = sum(batch.tgt_y.numel() for batch in group)"},
    ),
    Misconception(
        "padding_counted_in_the_step",
        "run_epoch",
        "The mean that you return is right, but the gradient is divided by every place of the targets, the padding included, as `loss.mean()` would do. The "
        "more padding there is, the shorter your step.",
        {BACKWARD: "(summed / sum(batch.tgt_y.numel() for batch in group)).backward()"},
    ),
    Misconception(
        "start_symbols_counted",
        "run_epoch",
        "You count the tokens that the decoder is given. What the loss is made of are those that it is to *predict*: the same "
        "sentence, one further on, without the start symbol.",
        {GROUP: "tokens = sum((batch.tgt != 0).sum() for batch in group)"},
    ),
    # --- groups
    Misconception(
        "accumulate_ignored",
        "run_epoch",
        "You take a step after every batch, whatever `accumulate` says.",
        {"itertools.islice(remaining, accumulate)": "itertools.islice(remaining, 1)"},
    ),
    Misconception(
        "a_step_for_each_batch_of_a_group",
        "run_epoch",
        "The optimiser steps after each batch of the group, with what is in the gradients by then. It steps once, when "
        "the gradients of the whole group have been added up.",
        {
            STEP: "",
            TOTAL: once_more(
                "if training:",
                "\n                    optimizer.step()\n                    if scheduler is not None:\n                        scheduler.step()",
            ),
        },
    ),
    Misconception(
        "last_group_not_stepped",
        "run_epoch",
        "You step after every `accumulate` batches. When the batches run out before a group is full, its gradients "
        "are computed and thrown away: those sentences are never learnt from.",
        {STEP: STEP.replace("if training:", "if training and len(group) == accumulate:")},
    ),
    Misconception(
        "last_group_skipped",
        "run_epoch",
        "The last group is left out altogether when it is not full, as with an iterator that yields whole groups only. Its sentences are "
        "neither learnt from nor measured.",
        {
            GROUP: GROUP + "\n            if len(group) < accumulate:\n                break",
            EMPTY: "",
        },
    ),
    Misconception(
        "one_step_an_epoch",
        "run_epoch",
        "Your optimiser steps once, at the very end. It steps after every group of `accumulate` batches.",
        {
            ZERO: ZERO.replace("if training:", "if training and total_tokens == 0:"),
            STEP: "",
            RESULT: "if training:\n        optimizer.step()\n        if scheduler is not None:\n            scheduler.step()\n    "
            + RESULT,
        },
    ),
    Misconception(
        "needs_a_length",
        "run_epoch",
        "You ask `batches` for its length. They may come from a generator, which has none: it does not know itself "
        "how many batches will come.",
        {
            "remaining = iter(batches)": "remaining = iter([batches[i] for i in range(len(batches))])"
        },
    ),
    Misconception(
        "read_twice",
        "run_epoch",
        "You go through `batches` twice, for instance to count the tokens first. A generator can be read only once: the second time there is nothing left.",
        {
            "total_loss, total_tokens = 0.0, 0": "total_loss, total_tokens = 0.0, 0\n    for batch in batches:\n        total_tokens += batch.ntokens",
            TOKENS: "pass",
        },
    ),
    # --- gradients
    Misconception(
        "never_cleared",
        "run_epoch",
        "Gradients are never cleared. `backward` adds to what is there already, so every step drags along all the steps before it.",
        {ZERO: ""},
    ),
    Misconception(
        "cleared_before_each_batch",
        "run_epoch",
        "You clear the gradients before every batch. Then nothing is accumulated: of each group only the last batch has a say. They are "
        "cleared once a group.",
        {
            ZERO: "",
            EACH: EACH
            + "                if training:\n                    optimizer.zero_grad()\n",
        },
    ),
    Misconception(
        "cleared_after_the_step_only",
        "run_epoch",
        "You clear the gradients after a step, and not before the first one. Whatever somebody else's `backward` left in them "
        "becomes part of your first step.",
        {
            ZERO: "",
            "                optimizer.step()\n": "                optimizer.step()\n                optimizer.zero_grad()\n",
        },
    ),
    Misconception(
        "cleared_once_an_epoch",
        "run_epoch",
        "You clear the gradients at the beginning of the epoch, and then not again: the second group's step contains the first group's gradient, and so on.",
        {ZERO: ZERO.replace("if training:", "if training and total_tokens == 0:")},
    ),
    Misconception(
        "cleared_between_backward_and_step",
        "run_epoch",
        "You clear the gradients after `backward` and before the step: the optimiser has nothing to go by, and the parameters do not move.",
        {
            ZERO: "",
            "                optimizer.step()\n": "                optimizer.zero_grad()\n                optimizer.step()\n",
        },
    ),
    Misconception(
        "gradients_clipped",
        "run_epoch",
        "You cut long gradients off. Many training scripts do; this function promises the gradient of the mean loss as it is.",
        {
            "                optimizer.step()\n": "                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n                optimizer.step()\n"
        },
    ),
    # --- the schedule
    Misconception(
        "schedule_for_each_batch",
        "run_epoch",
        "Your schedule goes on after every batch. Warm-up is counted in steps of the *optimiser*: with `accumulate=k` yours would be over k times too early.",
        {
            TOTAL: once_more(
                "if training and scheduler is not None and batch is not group[-1]:",
                "\n                    scheduler.step()",
            )
        },
    ),
    Misconception(
        "schedule_for_each_batch_and_before_the_step",
        "run_epoch",
        "Your schedule goes on after every batch, and does so before the optimiser has stepped. It counts steps of the *optimiser*: once a group, when the "
        "step is done.",
        {
            SCHEDULE: "",
            TOTAL: once_more(
                "if training and scheduler is not None:", "\n                    scheduler.step()"
            ),
        },
    ),
    Misconception(
        "schedule_once_an_epoch",
        "run_epoch",
        "Your schedule goes on once an epoch. The paper's rate changes with every step of the optimiser.",
        {
            SCHEDULE: "",
            RESULT: "if scheduler is not None:\n        scheduler.step()\n    " + RESULT,
        },
    ),
    Misconception(
        "schedule_before_the_step",
        "run_epoch",
        "Your schedule goes on before the optimiser has stepped, so the first rate is never used: every step has the next one's.",
        {
            SCHEDULE: "",
            "                optimizer.step()\n": SCHEDULE + "                optimizer.step()\n",
        },
    ),
    Misconception(
        "schedule_forgotten",
        "run_epoch",
        "The scheduler never steps: the learning rate is what it was at the beginning.",
        {SCHEDULE: ""},
    ),
    # --- modes
    Misconception(
        "always_training_mode",
        "run_epoch",
        "You measure in training mode, so dropout goes on dropping: the loss of a crippled model, another one each time.",
        {MODE: "model.train()"},
    ),
    Misconception(
        "always_evaluation_mode",
        "run_epoch",
        "You train in evaluation mode, so dropout never drops. Training mode where there is an optimiser, evaluation mode where there is none.",
        {MODE: "model.eval()"},
    ),
    Misconception(
        "training_mode_not_set",
        "run_epoch",
        "You set evaluation mode where you measure, but not training mode where you train. After the first measurement "
        "the model would go on training without dropout.",
        {MODE: "if not training:\n        model.eval()"},
    ),
    Misconception(
        "mode_not_set",
        "run_epoch",
        "You leave the model in whatever mode it comes. Training mode where there is an optimiser, evaluation mode where there is "
        "none: dropout hears of nothing else.",
        {MODE: "pass"},
    ),
    Misconception(
        "graph_kept_when_measuring",
        "run_epoch",
        "Without an optimiser you still compute what a `backward` would need. The result is right; it costs memory and time for "
        "gradients that nobody will ask for. Evaluation mode does not switch that off: it only changes layers such as dropout.",
        {NO_GRADIENT: "torch.set_grad_enabled(True)"},
    ),
    Misconception(
        "gradients_when_measuring",
        "run_epoch",
        "You call `backward` also where there is no optimiser. To measure, the loss alone is needed.",
        {
            NO_GRADIENT: "torch.enable_grad()",
            f"                if training:\n                    {BACKWARD}": f"                {BACKWARD}",
        },
    ),
    # --- forward
    Misconception(
        "generator_forgotten",
        "run_epoch",
        "The loss gets the decoder's states. They are d_model wide, and no probabilities: `model.generator` makes log-probabilities "
        "of them, one for each token of the vocabulary.",
        {GENERATE: "log_probs = states"},
    ),
    Misconception(
        "probabilities_for_log_probabilities",
        "run_epoch",
        "The loss gets probabilities. The generator gives *log*-probabilities, and those are what a loss such as `LabelSmoothing` asks for.",
        {GENERATE: "log_probs = model.generator(states).exp()"},
    ),
    Misconception(
        "logits_for_log_probabilities",
        "run_epoch",
        "The loss gets what the generator's projection gives, before its softmax. Call the generator itself, as a whole: it ends in log-probabilities.",
        {GENERATE: "log_probs = model.generator.proj(states)"},
    ),
    Misconception(
        "loss_not_flat",
        "run_epoch",
        "The loss gets `(B, T, V)` and `(B, T)`. It takes a list of tokens: `(B·T, V)` and `(B·T,)`.",
        {LOSS: "summed = loss(log_probs, batch.tgt_y)"},
    ),
    Misconception(
        "batch_and_time_exchanged",
        "run_epoch",
        "Your log-probabilities are laid out position by position and your targets sentence by sentence, so that most tokens are compared with another one's "
        "target. Both must be flattened in the same order.",
        {LOSS: LOSS.replace("log_probs.flatten", "log_probs.transpose(0, 1).flatten")},
    ),
    Misconception(
        "own_input_for_target",
        "run_epoch",
        "You compare the predictions with the tokens that the decoder was given. It would learn to repeat what it has just read. What it is to predict "
        "are those one further on.",
        {LOSS: LOSS.replace("tgt_y", "tgt")},
    ),
    Misconception(
        "decoder_reads_its_answers",
        "run_epoch",
        "The decoder gets the tokens that it is to predict. It can copy them, and the loss falls to 0 without anything being learnt.",
        {FORWARD: FORWARD.replace("batch.tgt,", "batch.tgt_y,")},
    ),
    Misconception(
        "source_mask_forgotten",
        "run_epoch",
        "The model does not get the source's mask, so it reads padding as if it were words.",
        {FORWARD: FORWARD.replace("batch.src_mask", "None")},
    ),
    Misconception(
        "target_mask_forgotten",
        "run_epoch",
        "The model does not get the target's mask, so every position sees the ones after it, among them the token that it is to predict.",
        {FORWARD: FORWARD.replace("batch.tgt_mask", "None")},
    ),
    Misconception(
        "sentences_exchanged",
        "run_epoch",
        "Source and target have changed places: the model takes the source first.",
        {FORWARD: "states = model(batch.tgt, batch.src, batch.src_mask, batch.tgt_mask)"},
    ),
    # --- the result
    Misconception(
        "mean_of_batch_means",
        "run_epoch",
        "You return the mean of the batches' means. A batch of three tokens then counts as much as one of three hundred. Add up the losses and "
        "the tokens, and divide once.",
        {
            TOTAL: "total_loss += summed.detach() / max(batch.ntokens, 1)",
            TOKENS: "total_tokens += len(group)",
        },
    ),
    Misconception(
        "mean_of_batch_means_as_numbers",
        "run_epoch",
        "You return the mean of the batches' means. A batch of three tokens then counts as much as one of three hundred, and one without a real token divides by zero. Add up the "
        "losses and the tokens, and divide once.",
        {
            TOTAL: "total_loss += summed.item() / int(batch.ntokens)",
            TOKENS: "total_tokens += len(group)",
        },
    ),
    Misconception(
        "mean_of_batch_means_without_guard",
        "run_epoch",
        "You return the mean of the batches' means. A batch of three tokens then counts as much as one of three hundred, and one without a real token makes it NaN. Add up the "
        "losses and the tokens, and divide once.",
        {
            TOTAL: "total_loss += summed.detach() / batch.ntokens",
            TOKENS: "total_tokens += len(group)",
        },
    ),
    Misconception(
        "means_everywhere",
        "run_epoch",
        "You work with each batch's own mean, for the gradient and for the result. Both are then means of means, in which a batch of three tokens counts as much as one of three hundred; and a batch "
        "without a real token makes them NaN. Add up losses and tokens, and divide by those of the whole group, or epoch.",
        {
            BACKWARD: "(summed / batch.ntokens / len(group)).backward()",
            TOTAL: "total_loss += summed.detach() / batch.ntokens",
            TOKENS: "total_tokens += len(group)",
        },
    ),
    Misconception(
        "mean_of_group_means",
        "run_epoch",
        "You return the mean of the groups' means. Groups hold unequal numbers of tokens. Add up the losses and the tokens, and divide once.",
        {TOTAL: "total_loss += summed.detach() / max(tokens, 1)", TOKENS: "total_tokens += 1"},
    ),
    Misconception(
        "summed_loss_by_batches",
        "run_epoch",
        "You divide the total loss by the number of batches. The mean is to be one over tokens, whatever the batches' sizes.",
        {TOKENS: "total_tokens += len(group)"},
    ),
    Misconception(
        "returns_the_sum",
        "run_epoch",
        "You return the total loss. It depends on how much there is to read; per token it can be compared.",
        {RESULT: "return float(total_loss)"},
    ),
    Misconception(
        "returns_the_last_group",
        "run_epoch",
        "You return the mean of the last group only. The whole epoch is asked for: add up as you go.",
        {
            TOTAL: "total_loss = summed.detach() + (total_loss if batch is not group[0] else 0)",
            TOKENS: "total_tokens = tokens",
        },
    ),
    Misconception(
        "returns_a_tensor",
        "run_epoch",
        "You return a tensor. A float is asked for: what is kept and printed after every epoch should hold on to nothing on a GPU.",
        {RESULT: "return total_loss / total_tokens"},
    ),
    Misconception(
        "total_in_halves",
        "run_epoch",
        "You add the losses up in the dtype in which they come. Each of them fits into float16; their sum is infinite from 65 520 on. "
        "Keep the total in a wider dtype, or as a float.",
        {TOTAL: "total_loss += summed.detach()"},
    ),
]
