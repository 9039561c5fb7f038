"""Day 18: what goes wrong in a training loop, most of it without an error and without a warning."""

from course.judging.misconceptions import of, on_devices

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
MISCONCEPTIONS = [
    *of(
        "run_epoch",
        {
            # --- whole loops, as they are found
            "as_the_annotated_transformer_accumulates": (
                "You accumulate as the Annotated Transformer does: a step whenever the number of the batch, counted from 0, is a multiple of `accumulate`, which "
                "is after the *first* batch of each group; each batch divided by its own tokens alone; and the schedule goes on with every batch. With "
                "`accumulate=1` it does not show.",
                AS_ANNOTATED,
            ),
            "as_tutorials_accumulate": (
                "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0. That is a mean "
                "of means, in which a token of a short batch pulls harder than one of a long batch; and what is left when the batches run out is never stepped.",
                AS_IN_TUTORIALS,
            ),
            "as_tutorials_accumulate_cleared_after_the_step": (
                "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0. That is a mean "
                "of means; what is left when the batches run out is never stepped, and stays in the gradients for the next call, for you clear them only after a "
                "step.",
                in_tutorials((CLEARED_FIRST, "")),
            ),
            "as_tutorials_accumulate_sums": (
                "You divide each batch's summed loss by `accumulate`, and step where `(i + 1) % accumulate` is 0. What a step needs is a mean over the *tokens* of "
                "its group; and what is left when the batches run out is never stepped.",
                in_tutorials(("batch.ntokens / accumulate", "accumulate")),
            ),
            "as_tutorials_accumulate_and_average": (
                "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0; and you return "
                "the mean of the batches' means. Both are means of means, in which a short batch counts as much as a long one; and what is left when the batches "
                "run out is never stepped.",
                in_tutorials(("float(summed)", "float(summed / batch.ntokens)"), ("int(batch.ntokens)", "1")),
            ),
            "as_tutorials_accumulate_and_average_cleared_after_the_step": (
                "You accumulate as many tutorials do: each batch's own mean, divided by `accumulate`, and a step where `(i + 1) % accumulate` is 0; and you return "
                "the mean of the batches' means. Both are means of means; and what is left when the batches run out is never stepped, and stays in the gradients "
                "for the next call.",
                in_tutorials(
                    (CLEARED_FIRST, ""),
                    ("float(summed)", "float(summed / batch.ntokens)"),
                    ("int(batch.ntokens)", "1"),
                ),
            ),
            # --- what the gradient is divided by
            "divided_by_no_tokens": (
                "A group without a single real token divides 0 by 0 in your answer, and one such step makes every parameter NaN. Its gradient is 0.",
                {"max(tokens, 1)": "tokens"},
            ),
            "each_batch_by_no_tokens": (
                "You divide each batch's loss by its own tokens, and then by the number of batches in a step: a mean of means, in which a token of a short batch "
                "pulls harder than one of a long batch. And a batch without a real token divides 0 by 0, which makes every parameter NaN.",
                {"summed / max(tokens, 1)": "summed / batch.ntokens / accumulate"},
            ),
            "each_batch_by_its_own_tokens_and_k": (
                "You divide each batch's loss by its own tokens, and then by the number of batches in a step. That is a mean of means: a token in a short batch "
                "pulls harder than one in a long batch. One large batch would divide everything by *all* its tokens.",
                {"summed / max(tokens, 1)": "summed / max(batch.ntokens, 1) / accumulate"},
            ),
            "each_batch_by_its_own_tokens_and_group": (
                "You divide each batch's loss by its own tokens, and then by the number of batches in its group. The last group is right that way in its size, but "
                "this is still a mean of means: tokens of short batches pull harder than those of long ones.",
                {"summed / max(tokens, 1)": "summed / max(batch.ntokens, 1) / len(group)"},
            ),
            "each_batch_by_its_own_tokens": (
                "Each batch is divided by its own tokens, and the gradients are added up. Then a step of k batches is about k times as long as that of one large "
                "batch. Its loss is a mean over the tokens of the whole group.",
                {"max(tokens, 1)": "max(batch.ntokens, 1)"},
            ),
            "divided_by_k_only": (
                "You divide the summed loss by `accumulate`. What a step needs is a mean over *tokens*: a group of long sentences would otherwise make a longer "
                "step than one of short ones.",
                {"max(tokens, 1)": "accumulate"},
            ),
            "divided_by_tokens_and_k": (
                "You divide by the group's tokens and by `accumulate` as well. The tokens are those of the whole group already: your step is k times too short.",
                {"summed / _": "summed / _ / accumulate"},
            ),
            "not_divided": (
                "Your gradient is that of the summed loss. It grows with every sentence in the group, so the learning rate would mean something else for each "
                "batch size. A step wants the mean over the tokens.",
                {"summed / max(tokens, 1)": "summed"},
            ),
            # --- which tokens
            "source_tokens_counted": (
                "You divide by the tokens of the source. The loss is made of target tokens, so these are what it is a mean over.",
                {"batch.ntokens": "(batch.src != 0).sum()"},
            ),
            "padding_counted": (
                "You count every place of the targets, the padding included. The loss of padding is 0: counted in, it makes the mean look better the more padding "
                "there is.",
                {"batch.ntokens": "batch.tgt_y.numel()"},
            ),
            "padding_counted_in_the_step": (
                "The mean that you return is right, but the gradient is divided by every place of the targets, the padding included, as `loss.mean()` would do. "
                "The more padding there is, the shorter your step.",
                {"max(tokens, 1)": "sum(batch.tgt_y.numel() for batch in group)"},
            ),
            "start_symbols_counted": (
                "You count the tokens that the decoder is given. What the loss is made of are those that it is to *predict*: the same sentence, one further on, "
                "without the start symbol.",
                {"batch.ntokens": "(batch.tgt != 0).sum()"},
            ),
            # --- groups
            "accumulate_ignored": (
                "You take a step after every batch, whatever `accumulate` says.",
                {"list(...)": "list(itertools.islice(remaining, 1))"},
            ),
            "a_step_for_each_batch_of_a_group": (
                "The optimiser steps after each batch of the group, with what is in the gradients by then. It steps once, when the gradients of the whole group "
                "have been added up.",
                {
                    "total_loss += _": "total_loss += _\nif training:\n    optimizer.step()\n    if scheduler is not None:\n        scheduler.step()",
                    "4: if training:\n    ...": "",
                },
            ),
            "last_group_not_stepped": (
                "You step after every `accumulate` batches. When the batches run out before a group is full, its gradients are computed and thrown away: those "
                "sentences are never learnt from.",
                {"4: training": "training and len(group) == accumulate"},
            ),
            "last_group_skipped": (
                "The last group is left out altogether when it is not full, as with an iterator that yields whole groups only. Its sentences are neither learnt "
                "from nor measured.",
                {"tokens = _": "tokens = _\nif len(group) < accumulate:\n    break", "if total_tokens == 0:\n    ...": ""},
            ),
            "one_step_an_epoch": (
                "Your optimiser steps once, at the very end. It steps after every group of `accumulate` batches.",
                {
                    "1: training": "training and total_tokens == 0",
                    "4: if training:\n    ...": "",
                    "return _": "if training:\n    optimizer.step()\n    if scheduler is not None:\n        scheduler.step()\nreturn _",
                },
            ),
            "needs_a_length": (
                "You ask `batches` for its length. They may come from a generator, which has none: it does not know itself how many batches will come.",
                {"iter(batches)": "iter([batches[i] for i in range(len(batches))])"},
            ),
            "read_twice": (
                "You go through `batches` twice, for instance to count the tokens first. A generator can be read only once: the second time there is nothing left.",
                {"remaining = _": "for batch in batches:\n    total_tokens += batch.ntokens\nremaining = _", "total_tokens += tokens": "pass"},
            ),
            # --- gradients
            "never_cleared": (
                "Gradients are never cleared. `backward` adds to what is there already, so every step drags along all the steps before it.",
                {"1: if training:\n    ...": ""},
            ),
            "cleared_before_each_batch": (
                "You clear the gradients before every batch. Then nothing is accumulated: of each group only the last batch has a say. They are cleared once a "
                "group.",
                {"1: if training:\n    ...": "", "states = _": "if training:\n    optimizer.zero_grad()\nstates = _"},
            ),
            "cleared_after_the_step_only": (
                "You clear the gradients after a step, and not before the first one. Whatever somebody else's `backward` left in them becomes part of your first "
                "step.",
                {"1: if training:\n    ...": "", "optimizer.step()": "optimizer.step()\noptimizer.zero_grad()"},
            ),
            "cleared_once_an_epoch": (
                "You clear the gradients at the beginning of the epoch, and then not again: the second group's step contains the first group's gradient, and so on.",
                {"1: training": "training and total_tokens == 0"},
            ),
            "cleared_between_backward_and_step": (
                "You clear the gradients after `backward` and before the step: the optimiser has nothing to go by, and the parameters do not move.",
                {"1: if training:\n    ...": "", "optimizer.step()": "optimizer.zero_grad()\noptimizer.step()"},
            ),
            "gradients_clipped": (
                "You cut long gradients off. Many training scripts do; this function promises the gradient of the mean loss as it is.",
                {"optimizer.step()": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\noptimizer.step()"},
            ),
            # --- the schedule
            "schedule_for_each_batch": (
                "Your schedule goes on after every batch. Warm-up is counted in steps of the *optimiser*: with `accumulate=k` yours would be over k times too "
                "early.",
                {"total_loss += _": "total_loss += _\nif training and scheduler is not None and batch is not group[-1]:\n    scheduler.step()"},
            ),
            "schedule_for_each_batch_and_before_the_step": (
                "Your schedule goes on after every batch, and does so before the optimiser has stepped. It counts steps of the *optimiser*: once a group, when the "
                "step is done.",
                {"total_loss += _": "total_loss += _\nif training and scheduler is not None:\n    scheduler.step()", "if ...:\n    scheduler.step()": ""},
            ),
            "schedule_once_an_epoch": (
                "Your schedule goes on once an epoch. The paper's rate changes with every step of the optimiser.",
                {"if ...:\n    scheduler.step()": "", "return _": "if scheduler is not None:\n    scheduler.step()\nreturn _"},
            ),
            "schedule_before_the_step": (
                "Your schedule goes on before the optimiser has stepped, so the first rate is never used: every step has the next one's.",
                {"optimizer.step()": "", "if _:\n    scheduler.step()": "if _:\n    scheduler.step()\noptimizer.step()"},
            ),
            "schedule_forgotten": (
                "The scheduler never steps: the learning rate is what it was at the beginning.",
                {"if ...:\n    scheduler.step()": ""},
            ),
            # --- modes
            "always_training_mode": (
                "You measure in training mode, so dropout goes on dropping: the loss of a crippled model, another one each time.",
                {"model.train(training)": "model.train()"},
            ),
            "always_evaluation_mode": (
                "You train in evaluation mode, so dropout never drops. Training mode where there is an optimiser, evaluation mode where there is none.",
                {"model.train(training)": "model.eval()"},
            ),
            "training_mode_not_set": (
                "You set evaluation mode where you measure, but not training mode where you train. After the first measurement the model would go on training "
                "without dropout.",
                {"model.train(training)": "if not training:\n    model.eval()"},
            ),
            "mode_not_set": (
                "You leave the model in whatever mode it comes. Training mode where there is an optimiser, evaluation mode where there is none: dropout hears of "
                "nothing else.",
                {"model.train(training)": "pass"},
            ),
            "graph_kept_when_measuring": (
                "Without an optimiser you still compute what a `backward` would need. The result is right; it costs memory and time for gradients that nobody will "
                "ask for. Evaluation mode does not switch that off: it only changes layers such as dropout.",
                {"torch.set_grad_enabled(training)": "torch.set_grad_enabled(True)"},
            ),
            "gradients_when_measuring": (
                "You call `backward` also where there is no optimiser. To measure, the loss alone is needed.",
                {"torch.set_grad_enabled(training)": "torch.enable_grad()", "3: if training:\n    _": "_"},
            ),
            # --- forward
            "generator_forgotten": (
                "The loss gets the decoder's states. They are d_model wide, and no probabilities: `model.generator` makes log-probabilities of them, one for each "
                "token of the vocabulary.",
                {"model.generator(states)": "states"},
            ),
            "probabilities_for_log_probabilities": (
                "The loss gets probabilities. The generator gives *log*-probabilities, and those are what a loss such as `LabelSmoothing` asks for.",
                {"log_probs = _": "log_probs = _.exp()"},
            ),
            "logits_for_log_probabilities": (
                "The loss gets what the generator's projection gives, before its softmax. Call the generator itself, as a whole: it ends in log-probabilities.",
                {"model.generator": "model.generator.proj"},
            ),
            "loss_not_flat": (
                "The loss gets `(B, T, V)` and `(B, T)`. It takes a list of tokens: `(B·T, V)` and `(B·T,)`.",
                {"summed = ...": "summed = loss(log_probs, batch.tgt_y)"},
            ),
            "batch_and_time_exchanged": (
                "Your log-probabilities are laid out position by position and your targets sentence by sentence, so that most tokens are compared with another "
                "one's target. Both must be flattened in the same order.",
                {"log_probs.flatten": "log_probs.transpose(0, 1).flatten"},
            ),
            "own_input_for_target": (
                "You compare the predictions with the tokens that the decoder was given. It would learn to repeat what it has just read. What it is to predict are "
                "those one further on.",
                {"batch.tgt_y": "batch.tgt"},
            ),
            "decoder_reads_its_answers": (
                "The decoder gets the tokens that it is to predict. It can copy them, and the loss falls to 0 without anything being learnt.",
                {"2: batch.tgt": "batch.tgt_y"},
            ),
            "source_mask_forgotten": (
                "The model does not get the source's mask, so it reads padding as if it were words.",
                {"batch.src_mask": "None"},
            ),
            "target_mask_forgotten": (
                "The model does not get the target's mask, so every position sees the ones after it, among them the token that it is to predict.",
                {"batch.tgt_mask": "None"},
            ),
            "sentences_exchanged": (
                "Source and target have changed places: the model takes the source first.",
                {"states = ...": "states = model(batch.tgt, batch.src, batch.src_mask, batch.tgt_mask)"},
            ),
            # --- the result
            "mean_of_batch_means": (
                "You return the mean of the batches' means. A batch of three tokens then counts as much as one of three hundred. Add up the losses and the tokens, "
                "and divide once.",
                {"summed.detach().to(...)": "summed.detach() / max(batch.ntokens, 1)", "total_tokens += tokens": "total_tokens += len(group)"},
            ),
            "mean_of_batch_means_as_numbers": (
                "You return the mean of the batches' means. A batch of three tokens then counts as much as one of three hundred, and one without a real token "
                "divides by zero. Add up the losses and the tokens, and divide once.",
                {"summed.detach().to(...)": "summed.item() / int(batch.ntokens)", "total_tokens += tokens": "total_tokens += len(group)"},
            ),
            "mean_of_batch_means_without_guard": (
                "You return the mean of the batches' means. A batch of three tokens then counts as much as one of three hundred, and one without a real token "
                "makes it NaN. Add up the losses and the tokens, and divide once.",
                {"summed.detach().to(...)": "summed.detach() / batch.ntokens", "total_tokens += tokens": "total_tokens += len(group)"},
            ),
            "means_everywhere": (
                "You work with each batch's own mean, for the gradient and for the result. Both are then means of means, in which a batch of three tokens counts "
                "as much as one of three hundred; and a batch without a real token makes them NaN. Add up losses and tokens, and divide by those of the whole "
                "group, or epoch.",
                {
                    "summed / max(tokens, 1)": "summed / batch.ntokens / len(group)",
                    "summed.detach().to(...)": "summed.detach() / batch.ntokens",
                    "total_tokens += tokens": "total_tokens += len(group)",
                },
            ),
            "mean_of_group_means": (
                "You return the mean of the groups' means. Groups hold unequal numbers of tokens. Add up the losses and the tokens, and divide once.",
                {"summed.detach().to(...)": "summed.detach() / max(tokens, 1)", "total_tokens += tokens": "total_tokens += 1"},
            ),
            "summed_loss_by_batches": (
                "You divide the total loss by the number of batches. The mean is to be one over tokens, whatever the batches' sizes.",
                {"total_tokens += tokens": "total_tokens += len(group)"},
            ),
            "returns_the_sum": (
                "You return the total loss. It depends on how much there is to read; per token it can be compared.",
                {"total_loss / total_tokens": "total_loss"},
            ),
            "returns_the_last_group": (
                "You return the mean of the last group only. The whole epoch is asked for: add up as you go.",
                {
                    "total_loss += ...": "total_loss = summed.detach() + (total_loss if batch is not group[0] else 0)",
                    "total_tokens += tokens": "total_tokens = tokens",
                },
            ),
            "returns_a_tensor": (
                "You return a tensor. A float is asked for: what is kept and printed after every epoch should hold on to nothing on a GPU.",
                {"float(_)": "_"},
            ),
            "total_in_halves": (
                "You add the losses up in the dtype in which they come. Each of them fits into float16; their sum is infinite from 65 520 on. Keep the total in a "
                "wider dtype, or as a float.",
                {"summed.detach().to(...)": "summed.detach()"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "run_epoch",
        {
            "total_kept_on_the_cpu": (
                "You add the losses to a tensor on the CPU; on a GPU they cannot be added there. Begin with the number 0, or take each loss out with `.item()`.",
                {"total_loss, total_tokens = 0.0, 0": "total_loss, total_tokens = torch.zeros(1, dtype=torch.float64), 0"},
            ),
            "mean_through_numpy": (
                "You turn the mean into an array of NumPy, which holds memory of the CPU alone. `float(…)` or `.item()` brings one number from any device.",
                {"float(_)": "float((_).numpy())"},
            ),
        },
    ),
]
