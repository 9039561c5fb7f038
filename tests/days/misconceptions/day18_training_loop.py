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
MISCONCEPTIONS = [
    *of(
        "run_epoch",
        {
            # --- whole loops, as they are found
            "as_the_annotated_transformer_accumulates": (
                "You accumulate like the Annotated Transformer. You step when the batch index, from 0, is a multiple of `accumulate`, which is after the "
                "*first* batch of each group. You divide each batch's loss by its own tokens, and the scheduler steps after every batch. Only with "
                "`accumulate=1` is the result right.",
                AS_ANNOTATED,
            ),
            "as_tutorials_accumulate": (
                "You accumulate as many tutorials do: you divide each batch's own mean by `accumulate`, and step where `(i + 1) % accumulate` is 0. This is a "
                "mean of means, in which a token of a short batch has more weight than a token of a long batch. The batches that remain at the end get no "
                "step.",
                AS_IN_TUTORIALS,
            ),
            # --- what the gradient is divided by
            "divided_by_no_tokens": (
                "For a group without any real token you divide 0 by 0, and one such step makes every parameter NaN. The gradient of such a group should be 0.",
                {"max(tokens, 1)": "tokens"},
            ),
            "each_batch_by_its_own_tokens_and_group": (
                "You divide each batch's loss by its own tokens, and then by the number of batches in its group. The last group then has the right scale, but "
                "the result is still a mean of means: tokens of short batches have more weight than tokens of long batches.",
                {"summed / max(tokens, 1)": "summed / max(batch.ntokens, 1) / len(group)"},
            ),
            "each_batch_by_its_own_tokens": (
                "You divide each batch's loss by its own tokens and add the gradients, so a step over k batches has a gradient about k times too large. The "
                "loss of a group is the mean over the tokens of the entire group.",
                {"max(tokens, 1)": "max(batch.ntokens, 1)"},
            ),
            "divided_by_k_only": (
                "You divide the summed loss by `accumulate`. A step needs the mean over *tokens*. Otherwise a group of long sentences has a larger gradient "
                "than a group of short sentences.",
                {"max(tokens, 1)": "accumulate"},
            ),
            "divided_by_tokens_and_k": (
                "You divide by the group's tokens and also by `accumulate`. The tokens are already those of the entire group, so your gradient is too small "
                "by a factor of `accumulate`.",
                {"summed / _": "summed / _ / accumulate"},
            ),
            "not_divided": (
                "Your gradient is that of the summed loss. It grows with every sentence in the group, so the best learning rate would depend on the batch "
                "size. A step needs the mean over tokens.",
                {"summed / max(tokens, 1)": "summed"},
            ),
            # --- which tokens
            "padding_counted": (
                "You count every position of the targets, including the padding. Padding has a loss of 0, so the more padding there is, the smaller your mean "
                "becomes.",
                {"batch.ntokens": "batch.tgt_y.numel()"},
            ),
            "start_symbols_counted": (
                "You count the tokens of the decoder's input. The loss is a sum over the tokens to *predict*: the same sentence, shifted by one position, "
                "without the start symbol.",
                {"batch.ntokens": "(batch.tgt != 0).sum()"},
            ),
            # --- groups
            "accumulate_ignored": (
                "You take a step after every batch, whatever `accumulate` is.",
                {"list(...)": "list(itertools.islice(remaining, 1))"},
            ),
            "last_group_not_stepped": (
                "You step only after every `accumulate` batches. If the last group is smaller, no step uses its gradients, so the model does not learn from "
                "its sentences.",
                {"4: training": "training and len(group) == accumulate"},
            ),
            # --- gradients
            "never_cleared": (
                "You never clear the gradients. `backward` adds to the existing gradients, so every step also uses the gradients of all earlier steps.",
                {"1: if training:\n    ...": ""},
            ),
            "cleared_before_each_batch": (
                "You clear the gradients before every batch, so nothing is accumulated: only the last batch of each group counts. Clear the gradients once "
                "per group.",
                {"1: if training:\n    ...": "", "states = _": "if training:\n    optimizer.zero_grad()\nstates = _"},
            ),
            "cleared_after_the_step_only": (
                "You clear the gradients after a step, but not before the first step. Gradients from before the call become part of your first step.",
                {"1: if training:\n    ...": "", "optimizer.step()": "optimizer.step()\noptimizer.zero_grad()"},
            ),
            # --- the schedule
            "schedule_for_each_batch": (
                "Your schedule advances after every batch. Warm-up is counted in *optimizer* steps: with `accumulate=k`, your warm-up ends k times too early.",
                {"total_loss += _": "total_loss += _\nif training and scheduler is not None and batch is not group[-1]:\n    scheduler.step()"},
            ),
            "schedule_once_an_epoch": (
                "Your schedule advances once per epoch. The paper's learning rate changes with every optimizer step.",
                {"if ...:\n    scheduler.step()": "", "return _": "if scheduler is not None:\n    scheduler.step()\nreturn _"},
            ),
            "schedule_before_the_step": (
                "Your schedule advances before the optimizer has stepped. The first learning rate is never used, and every step uses the learning rate of the "
                "next step.",
                {"optimizer.step()": "", "if _:\n    scheduler.step()": "if _:\n    scheduler.step()\noptimizer.step()"},
            ),
            "gradients_clipped": (
                "You clip the gradients before the step, as many published loops do. The paper does not mention clipping, and here a step uses the gradient "
                "as it is. Day 38 adds clipping.",
                {"optimizer.step()": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"},
            ),
            # --- modes
            "always_training_mode": (
                "You evaluate in training mode, so dropout is active, and the loss is different each time.",
                {"model.train(training)": "model.train()"},
            ),
            "always_evaluation_mode": (
                "You train in evaluation mode, so dropout is inactive. Use training mode with an optimizer and evaluation mode without one.",
                {"model.train(training)": "model.eval()"},
            ),
            "training_mode_not_set": (
                "You set evaluation mode for evaluation, but not training mode for training. After the first evaluation the model would continue to train "
                "without dropout.",
                {"model.train(training)": "if not training:\n    model.eval()"},
            ),
            "graph_kept_when_measuring": (
                "Without an optimizer, you still record the operations for a backward pass. The result is right, but the recording costs memory and time. "
                "Evaluation mode does not disable it; that mode only changes layers such as dropout.",
                {"torch.set_grad_enabled(training)": "torch.set_grad_enabled(True)"},
            ),
            # --- forward
            "generator_forgotten": (
                "The loss gets the decoder's states, which have d_model entries per token. `model.generator` turns them into log-probabilities, one for each "
                "entry of the vocabulary.",
                {"model.generator(states)": "states"},
            ),
            "logits_for_log_probabilities": (
                "The loss gets logits, the output of the generator's projection. Call the generator itself, which ends with a log-softmax.",
                {"model.generator": "model.generator.proj"},
            ),
            "loss_not_flat": (
                "The loss gets tensors of shapes `(B, T, V)` and `(B, T)`. It expects one row per token: `(B·T, V)` and `(B·T,)`.",
                {"summed = ...": "summed = loss(log_probs, batch.tgt_y)"},
            ),
            "own_input_for_target": (
                "You compare the predictions with the decoder's input tokens. The model would learn to repeat its input. The targets are shifted by one "
                "position.",
                {"batch.tgt_y": "batch.tgt"},
            ),
            "source_mask_forgotten": (
                "The model does not get the source mask, so it attends to padding as if padding were words.",
                {"batch.src_mask": "None"},
            ),
            # --- the result
            "mean_of_batch_means": (
                "You return the mean of the batches' means, so a batch of three tokens counts as much as a batch of three hundred. Add up the losses and the "
                "tokens, and divide once.",
                {"summed.detach().to(...)": "summed.detach() / max(batch.ntokens, 1)", "total_tokens += tokens": "total_tokens += len(group)"},
            ),
            "returns_the_sum": (
                "You return the total loss, which depends on the amount of data. The mean per token can be compared between runs.",
                {"total_loss / total_tokens": "total_loss"},
            ),
            "returns_a_tensor": (
                "You return a tensor instead of a float. A value that is stored after every epoch should not keep GPU memory in use.",
                {"float(_)": "_"},
            ),
            "total_in_halves": (
                "You add up the losses in their own dtype. Each loss fits into float16, but the largest float16 number is 65,504, so the sum can become "
                "infinite. Keep the total in a wider dtype or as a float.",
                {"summed.detach().to(...)": "summed.detach()"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "run_epoch",
        {
            "total_kept_on_the_cpu": (
                "You add the losses to a tensor on the CPU, which fails for losses on a GPU. Start with the number 0, or convert each loss with `.item()`.",
                {"total_loss, total_tokens = 0.0, 0": "total_loss, total_tokens = torch.zeros(1, dtype=torch.float64), 0"},
            ),
        },
    ),
]
