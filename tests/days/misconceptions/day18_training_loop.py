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
                "You accumulate as the Annotated Transformer does: you step whenever the index of the batch, counted from 0, is a multiple of `accumulate`, "
                "which is after the *first* batch of each group; you divide each batch's loss by its own tokens; and the scheduler steps after every batch. "
                "With `accumulate=1` the result is right.",
                AS_ANNOTATED,
            ),
            "as_tutorials_accumulate": (
                "You accumulate as many tutorials do: you divide each batch's own mean by `accumulate`, and step where `(i + 1) % accumulate` is 0. This is a "
                "mean of means, in which a token of a short batch has more weight than a token of a long batch. No step follows the batches that remain at "
                "the end.",
                AS_IN_TUTORIALS,
            ),
            # --- what the gradient is divided by
            "divided_by_no_tokens": (
                "A group without a real token divides 0 by 0 in your answer, and one such step makes every parameter NaN. Its gradient should be 0.",
                {"max(tokens, 1)": "tokens"},
            ),
            "each_batch_by_its_own_tokens_and_group": (
                "You divide each batch's loss by its own tokens, and then by the number of batches in its group. This gives the last group the right size, "
                "but it is still a mean of means: tokens of short batches have more weight than tokens of long ones.",
                {"summed / max(tokens, 1)": "summed / max(batch.ntokens, 1) / len(group)"},
            ),
            "each_batch_by_its_own_tokens": (
                "You divide each batch's loss by its own tokens and add the gradients up. So a step of k batches is about k times as long as that of one "
                "large batch. The loss of a group is a mean over the tokens of the entire group.",
                {"max(tokens, 1)": "max(batch.ntokens, 1)"},
            ),
            "divided_by_k_only": (
                "You divide the summed loss by `accumulate`. A step needs the mean over *tokens*: otherwise a group of long sentences makes a longer step "
                "than a group of short ones.",
                {"max(tokens, 1)": "accumulate"},
            ),
            "divided_by_tokens_and_k": (
                "You divide by the group's tokens and also by `accumulate`. The tokens are already those of the entire group, so your step is k times too short.",
                {"summed / _": "summed / _ / accumulate"},
            ),
            "not_divided": (
                "Your gradient is that of the summed loss. It grows with every sentence in the group, so the best learning rate would depend on the batch "
                "size. A step needs the mean over tokens.",
                {"summed / max(tokens, 1)": "summed"},
            ),
            # --- which tokens
            "padding_counted": (
                "You count every position of the targets, including the padding. The loss of padding is 0, so counting it makes the mean smaller, the more "
                "padding there is.",
                {"batch.ntokens": "batch.tgt_y.numel()"},
            ),
            "start_symbols_counted": (
                "You count the tokens of the decoder's input. The loss is a sum over the tokens to *predict*: the same sentence, shifted by one, without the "
                "start symbol.",
                {"batch.ntokens": "(batch.tgt != 0).sum()"},
            ),
            # --- groups
            "accumulate_ignored": (
                "You take a step after every batch, whatever `accumulate` says.",
                {"list(...)": "list(itertools.islice(remaining, 1))"},
            ),
            "last_group_not_stepped": (
                "You step after every `accumulate` batches. If the last group is smaller, no step uses its gradients, so the model does not learn from these "
                "sentences.",
                {"4: training": "training and len(group) == accumulate"},
            ),
            # --- gradients
            "never_cleared": (
                "You never clear the gradients. `backward` adds to the existing gradients, so every step includes the gradients of all steps before it.",
                {"1: if training:\n    ...": ""},
            ),
            "cleared_before_each_batch": (
                "You clear the gradients before every batch. So nothing is accumulated: only the last batch of each group counts. Clear them once per group.",
                {"1: if training:\n    ...": "", "states = _": "if training:\n    optimizer.zero_grad()\nstates = _"},
            ),
            "cleared_after_the_step_only": (
                "You clear the gradients after a step, but not before the first one. Gradients from before the call become part of your first step.",
                {"1: if training:\n    ...": "", "optimizer.step()": "optimizer.step()\noptimizer.zero_grad()"},
            ),
            # --- the schedule
            "schedule_for_each_batch": (
                "Your schedule advances after every batch. Warm-up is counted in *optimizer* steps: with `accumulate=k` yours ends k times too early.",
                {"total_loss += _": "total_loss += _\nif training and scheduler is not None and batch is not group[-1]:\n    scheduler.step()"},
            ),
            "schedule_once_an_epoch": (
                "Your schedule advances once per epoch. The paper's learning rate changes with every optimizer step.",
                {"if ...:\n    scheduler.step()": "", "return _": "if scheduler is not None:\n    scheduler.step()\nreturn _"},
            ),
            "schedule_before_the_step": (
                "Your schedule advances before the optimizer has stepped, so the first learning rate is never used: every step has the next one's.",
                {"optimizer.step()": "", "if _:\n    scheduler.step()": "if _:\n    scheduler.step()\noptimizer.step()"},
            ),
            "gradients_clipped": (
                "You clip the gradients before the step, as many published loops do. That is not in the paper, and here a step uses the gradient as it is; day "
                "38 clips.",
                {"optimizer.step()": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"},
            ),
            # --- modes
            "always_training_mode": (
                "You evaluate in training mode, so dropout is active: you measure a model with dropout, and the loss is different each time.",
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
                "Without an optimizer you still record the operations for a backward pass. The result is right, but the recording costs memory and time. "
                "Evaluation mode does not disable it: it only changes layers such as dropout.",
                {"torch.set_grad_enabled(training)": "torch.set_grad_enabled(True)"},
            ),
            # --- forward
            "generator_forgotten": (
                "The loss gets the decoder's states, which have d_model entries per token. `model.generator` turns them into log-probabilities, one per token "
                "of the vocabulary.",
                {"model.generator(states)": "states"},
            ),
            "logits_for_log_probabilities": (
                "The loss gets logits, the output of the generator's projection. Call the generator itself: it ends with a log-softmax.",
                {"model.generator": "model.generator.proj"},
            ),
            "loss_not_flat": (
                "The loss gets `(B, T, V)` and `(B, T)`. It expects one row per token: `(B·T, V)` and `(B·T,)`.",
                {"summed = ...": "summed = loss(log_probs, batch.tgt_y)"},
            ),
            "own_input_for_target": (
                "You compare the predictions with the decoder's input tokens. The model would learn to repeat its input. The targets are the tokens one "
                "position later.",
                {"batch.tgt_y": "batch.tgt"},
            ),
            "source_mask_forgotten": (
                "The model does not get the source mask, so it attends to padding as if it were words.",
                {"batch.src_mask": "None"},
            ),
            # --- the result
            "mean_of_batch_means": (
                "You return the mean of the batches' means. So a batch of three tokens counts as much as one of three hundred. Add up the losses and the "
                "tokens, and divide once.",
                {"summed.detach().to(...)": "summed.detach() / max(batch.ntokens, 1)", "total_tokens += tokens": "total_tokens += len(group)"},
            ),
            "returns_the_sum": (
                "You return the total loss, which depends on the amount of data. The mean per token can be compared.",
                {"total_loss / total_tokens": "total_loss"},
            ),
            "returns_a_tensor": (
                "You return a tensor instead of a float. A value that is stored and printed after every epoch should not keep memory on a GPU in use.",
                {"float(_)": "_"},
            ),
            "total_in_halves": (
                "You add the losses up in their own dtype. Each of them fits into float16, but the maximum of float16 is 65 504, so the sum can be infinite. "
                "Keep the total in a wider dtype or as a float.",
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
        },
    ),
]
