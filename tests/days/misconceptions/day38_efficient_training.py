"""Day 38: norms of what, scales that are never taken back, checkpoints that forget, steps in the wrong order."""

from course.judging.misconceptions import of, on_devices

# The other way to write it, which all these mistakes are made in.
BY_FUNCTION = """
def checkpoint(function, *inputs):
    places = [place for place, one in enumerate(inputs) if isinstance(one, Tensor)]
    gpus = [one.device for one in inputs if isinstance(one, Tensor) and one.is_cuda]
    casts = [
        torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        for kind in ("cpu", "cuda")
    ]
    drawn, on_gpus = torch.get_rng_state(), [torch.cuda.get_rng_state(gpu) for gpu in gpus]

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, nothing, *inputs):
            ctx.others = [None if place in places else one for place, one in enumerate(inputs)]
            ctx.save_for_backward(*(inputs[place] for place in places))
            with torch.no_grad():
                return function(*inputs)

        @staticmethod
        def backward(ctx, *grads):
            again = list(ctx.others)
            for place, one in zip(places, ctx.saved_tensors):
                again[place] = one.detach().requires_grad_(one.requires_grad)
            with torch.random.fork_rng(gpus), casts[0], casts[1], torch.enable_grad():
                torch.set_rng_state(drawn)
                for gpu, state in zip(gpus, on_gpus):
                    torch.cuda.set_rng_state(state, gpu)
                outputs = function(*again)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            pairs = [(one, grad) for one, grad in zip(outputs, grads) if one.requires_grad]
            torch.autograd.backward(*zip(*pairs))
            return (None, *(one.grad if isinstance(one, Tensor) else None for one in again))

    return Again.apply(torch.ones((), requires_grad=True), *inputs)
"""


def by_function(edits: dict[str, str]) -> str:
    """The other way, with something small changed."""
    text = BY_FUNCTION
    for find, put in edits.items():
        assert text.count(find) == 1, find
        text = text.replace(find, put)
    return text


MISCONCEPTIONS = [
    *of(
        "clip_gradients",
        {
            "zero_for_no_limit": (
                "You treat a `max_norm` of 0 as no limit, as `if max_norm:` does. With a limit of 0, nothing of the gradient remains. A limit of `math.inf` "
                "only measures the norm.",
                {"factor = _": "factor = _ if max_norm else torch.ones(())"},
            ),
            # --- clipping: the norm of what
            "each_parameter_by_itself": (
                "You clip each parameter's gradient by its own norm. Some gradients then become shorter and others do not, which changes the direction of the "
                "step. Treat all gradients as one vector, with one norm and one factor.",
                {"_ * factor": "_ * (max_norm / (torch.linalg.vector_norm(one, dtype=widest) + 1e-6)).clamp(max=1.0)"},
            ),
            "numbers_clipped": (
                "You clip every single number at `max_norm`. That changes the direction of the gradient: large numbers shrink, but small numbers do not. "
                "Limit the length of the whole gradient, and keep its direction.",
                {"one.copy_(...)": "one.clamp_(-max_norm, max_norm)"},
            ),
            "norms_added_up": (
                "You add up the norms of the parameters. Add up their *squares* instead, and take the root of the sum.",
                {"torch.linalg.vector_norm(_)": "_.sum()"},
            ),
            "root_forgotten": (
                "You added up the squares but did not take the root. A norm has the same unit as the gradients.",
                {"norm = _": "norm = _.square()"},
            ),
            # --- clipping: the factor
            "short_gradients_lengthened": (
                "Your gradient always ends up with the length `max_norm`: you make short gradients longer. Near a minimum, gradients should be short. The "
                "factor must never exceed 1.",
                {"_.clamp(max=1.0)": "_"},
            ),
            "small_number_forgotten": (
                "You divide by the norm alone. The formula adds 10⁻⁶ to it, which also prevents NaN for a gradient of zeros.",
                {"norm + 1e-6": "norm"},
            ),
            "not_finite_left_alone": (
                "If the norm is not finite, you leave the gradients unchanged. Apply the formula in this case, too, as PyTorch does. The scaler decides "
                "whether to take the step.",
                {"norm = _": "norm = _\nif not norm.isfinite():\n    return norm"},
            ),
            # --- clipping: which gradients
            "generator_read_twice": (
                "You iterate over the parameters twice. `model.parameters()` is a generator, which is empty the second time: the norm is right, but nothing "
                "is clipped. Store what you need in a list.",
                {"3: gradients": "(one.grad for one in parameters if one.grad is not None)", "one.copy_(...)": "one.mul_(factor)"},
            ),
            "squares_in_halves": (
                "You compute norms in the gradients' own dtype. In float16 a norm is infinite from 65,520 on, and bfloat16 has only three digits. Compute "
                "norms in float32.",
                {"dtype=widest": ""},
            ),
            "squares_overflow": (
                "You square in half precision before you add up in float32. In float16 the square of 256 is infinite, and that of 0.0001 is 0. Upcast first.",
                {"torch.linalg.vector_norm(one, dtype=widest)": "one.square().to(widest).sum().sqrt()"},
            ),
            "norm_in_float32_always": (
                "You always compute in float32, so float64 gradients lose half of their digits.",
                {"widest = ...": "widest = torch.float32", "_.vector_norm(one, dtype=widest)": "_.vector_norm(one.float())"},
            ),
            "nothing_breaks_it": (
                "If no parameter has a gradient, your function raises an error. In this case the norm is 0.",
                {"if not gradients:\n    ...": ""},
            ),
            # --- clipping: what is returned
            "norm_after_clipping": (
                "You return the norm after clipping, which is never more than `max_norm` and hides the spike. Return the norm before clipping.",
                {"return norm": "norm = norm * factor\nreturn norm"},
            ),
            "norm_as_a_float": (
                "You return a float. Return a tensor with 0 axes: converting it to a number makes the program wait for the GPU.",
                {"return norm": "return norm.item()"},
            ),
        },
    ),
    *of(
        "LossScaler",
        {
            # --- scaling: when to step
            "steps_all_the_same": (
                "You halve the scale after an infinite gradient, but the optimizer still takes the step. One such step makes the weights NaN.",
                {"if self.finite:\n    _": "_"},
            ),
            "nan_overlooked": (
                "You check for infinities but not for NaN. An infinity often becomes NaN one operation later.",
                {"one.isfinite().all()": "~one.isinf().any()"},
            ),
            "last_parameter_decides": (
                "Only the last parameter decides whether a step is taken: for each parameter you overwrite what you found before. A single infinite number in "
                "any gradient must be enough to skip the step.",
                {"self.finite = _.all()": "self.finite = _[-1]"},
            ),
            # --- scaling: there and back
            "scaled_in_halves": (
                "You multiply a float16 loss in its own dtype. 65,536 overflows to infinity in float16, and so does the scaled loss. Upcast the loss first.",
                {"loss.to(...)": "loss"},
            ),
            "scaled_down": (
                "You divide the loss by the scale, so small gradients vanish even sooner. *Multiply* the loss by the scale, and divide the gradients by it "
                "afterwards.",
                {"_ * self.current": "_ / self.current"},
            ),
            "never_unscaled": (
                "You never divide your gradients by the scale. The optimizer receives gradients that are too large by this factor.",
                {"one.div_(self.current)": ""},
            ),
            "first_group_only": (
                "You unscale only the first group of the optimizer. Parameters can be in several groups, each with its own learning rate.",
                {"optimizer.param_groups": "optimizer.param_groups[:1]"},
            ),
            "step_does_not_unscale": (
                "Your `step` assumes that the caller has called `unscale_`. That call is optional: without it, `step` must unscale the gradients itself.",
                {"self.unscale_(optimizer)": "self.finite = torch.tensor(True)"},
            ),
            "unscaled_twice": (
                "Your `step` unscales gradients that are already unscaled. Remember until the next `update` that they are.",
                {"if self.finite is not None:\n    ...": "", "1: if self.finite is None:\n    _": "_"},
            ),
            "step_not_ended": (
                "After `update`, you still treat the gradients as unscaled, and what you found in the first step as true of all later steps.",
                {"if self.finite is not None:\n    ...": "", "self.finite = None": "pass"},
            ),
            # --- scaling: the next scale
            "never_halved": (
                "Your scale is never halved. If it is too large, the same overflow occurs again in every later step, and the model learns nothing.",
                {"self.current /= 2": ""},
            ),
            "never_doubled": (
                "Your scale never grows again. Each overflow, even a rare one, then halves it permanently, until small gradients vanish again.",
                {"self.current *= 2": ""},
            ),
            "one_step_too_late": (
                "You double the scale one step too late. The step that completes the required number counts, too.",
                {"self.good_steps == _": "self.good_steps > _"},
            ),
            "good_steps_never_forgotten": (
                "A bad step does not reset your count. The scale should grow only after good steps *in a row*.",
                {"update() 1: self.good_steps = 0": ""},
            ),
            "doubled_once": (
                "Your scale doubles once and never again. After a change of the scale, the count must restart at 0.",
                {"2: self.good_steps = 0": ""},
            ),
        },
    ),
    *of(
        "checkpoint",
        {
            # --- checkpoints: gradients that are lost
            "parameters_forgotten": (
                "You differentiate only with respect to the inputs. The function also has parameters, which are what you train: call `backward` on the "
                "recomputed output, which reaches the parameters, too.",
                by_function(
                    {
                        "torch.autograd.backward(*zip(*pairs))\n": "outputs, grads = zip(*pairs)\n            wanted = [one for one in again if isinstance(one, Tensor) and one.requires_grad]\n"
                        "            found = iter(torch.autograd.grad(outputs, wanted, grads, allow_unused=True) if wanted else [])\n",
                        "one.grad if isinstance(one, Tensor) else None for one in again": "next(found) if isinstance(one, Tensor) and one.requires_grad else None for one in again",
                    }
                ),
            ),
            "no_input_no_gradient": (
                "If no input requires grad, autograd never calls your `backward`, and the parameters get no gradient. The first layer of a model, whose "
                "inputs are data, would never learn.",
                by_function({"torch.ones((), requires_grad=True)": "torch.ones(())"}),
            ),
            "inputs_never_asked": (
                "You detach the inputs and do not set `requires_grad` again, so no gradient reaches what comes before the checkpoint.",
                by_function({"one.detach().requires_grad_(one.requires_grad)": "one.detach()"}),
            ),
            "first_output_only": (
                "You differentiate only the first output. All outputs of the function can be part of the loss.",
                by_function({"torch.autograd.backward(*zip(*pairs))": "torch.autograd.backward(*pairs[0])"}),
            ),
            "integers_differentiated": (
                "You differentiate every output. Leave out those without a gradient, such as indices.",
                by_function({" if one.requires_grad]": "]"}),
            ),
            "always_a_tuple": (
                "You return a single output in a tuple. Return exactly what the function returns.",
                {"with _:\n    return ...": "with _:\n    outputs = function(*inputs)\nreturn outputs if isinstance(outputs, tuple) else (outputs,)"},
            ),
            # --- checkpoints: the second call
            "other_dropout": (
                "Your second call draws a different dropout mask than the first, so its gradients are those of a network that was never computed. Restore the "
                "random state before the second call.",
                {"torch.set_rng_state(drawn_on_cpu)": "pass"},
            ),
            "random_state_left_behind": (
                "After your second call, random numbers continue from the state at the *checkpoint*. Each backward pass resets them, so the next step drops "
                "the same values as this one. Afterwards, restore the state from before the second call.",
                {
                    "with torch.random.fork_rng(list(gpus)), casts[0], casts[1], torch.enable_grad():\n    _": "with casts[0], casts[1], torch.enable_grad():\n"
                    "    _"
                },
            ),
            "first_call_fenced_off": (
                "Your first call also restores the random state, so the next layer draws the same numbers, and all layers have the same dropout mask. Only "
                "the second call must leave the random state unchanged.",
                {"with _:\n    return ...": "with torch.random.fork_rng(list(gpus)), _:\n    return function(*inputs)"},
            ),
            "seeded_anew": (
                "You set the same seed for both calls. They agree with each other, but all layers and all steps then drop the same values, too. Save the "
                "current random state, and restore *that*.",
                {"gpus = _": "gpus = _\ntorch.manual_seed(38)"},
            ),
            "autocast_forgotten": (
                "Your second call uses whatever autocast is active when `backward` is called, usually none, so its dtype differs from the first call's. Save "
                "the autocast state of the first call, and restore it.",
                by_function({"casts[0], casts[1], ": ""}),
            ),
            "nothing_forgotten": (
                "You call the function, and autograd stores everything as usual, so you save no memory.",
                {"with ...:\n    return _": "return _"},
            ),
            "gradients_always_enabled": (
                "You enable gradients for the first call, too. Where the caller disabled them, `backward` is never called, so simply call the function.",
                {"with _:\n    return ...": "with torch.enable_grad(), _:\n    return function(*inputs)"},
            ),
        },
    ),
    *of(
        "train_step",
        {
            "loss_within_autocast": (
                "You compute the loss within autocast, which can round its products. Use autocast only for the model's forward pass.",
                {"summed = _": "with torch.autocast(inputs.device.type, dtype, enabled=dtype is not None):\n    summed = _"},
            ),
            # --- the step: what is averaged
            "mean_of_means": (
                "You average the batches' means, so a batch with three targets counts as much as a batch with three hundred. Divide each sum by the number of "
                "targets in the whole *group*.",
                {"summed / count": "summed / (targets != -100).sum() / len(group)"},
            ),
            "sums_not_divided": (
                "You differentiate the sum of all losses. The step needs the gradient of their mean over the targets of the group.",
                {"summed / count": "summed"},
            ),
            "gaps_counted": (
                "You count all positions as targets. At a label of −100 nothing is predicted, so do not count it.",
                {"int((targets != -100).sum())": "targets.numel()"},
            ),
            "results_as_tensors": (
                "You return tensors. Return two floats, which can be printed and stored.",
                {"return _, norm.item()": "return torch.tensor(_), norm"},
            ),
            # --- the step: in which order
            "clipped_before_unscaled": (
                "You clip the scaled gradient and unscale it afterwards. `max_norm` refers to the true gradient: yours ends up shorter "
                "than the limit allows, by the factor of the scale.",
                {"scaler.unscale_(optimizer)": "", "norm = _": "norm = _\nscaler.unscale_(optimizer)"},
            ),
            "clipped_batch_by_batch": (
                "You clip after each batch of the group. Clip only once, before the step: the gradient of the whole group.",
                {"total += _": "clip_gradients([one for each in optimizer.param_groups for one in each['params']], max_norm)\ntotal += _"},
            ),
            "not_clipped": (
                "You measure the norm, but do not clip the gradient of the group by it.",
                {"norm = ...": "norm = clip_gradients(held, math.inf)"},
            ),
            "not_scaled": (
                "You differentiate the unscaled loss, but divide the gradients by the scale. Scale the loss first.",
                {"scaler.scale(_)": "_"},
            ),
            "optimiser_asked_directly": (
                "You call the optimizer's `step` yourself. The scaler must decide whether to take a step.",
                {"scaler.step(optimizer)": "optimizer.step()"},
            ),
            "scaler_never_updated": (
                "You never call `scaler.update()`, so the scale never changes, even if it is too large or too small.",
                {"scaler.update()": ""},
            ),
            "updated_before_the_step": (
                "You update the scaler before the step, so it no longer knows what it found in this step's gradients. Take the step first, then update the "
                "scale for the next one.",
                {"scaler.update()": "", "norm = _": "norm = _\nscaler.update()"},
            ),
            # --- the step: which gradients
            "cleared_for_each_batch": (
                "You clear the gradients before each batch, so only the gradients of the last batch are left for the step.",
                {"3: logits = _": "optimizer.zero_grad()\nlogits = _"},
            ),
            "not_cleared_before": (
                "Your backward pass adds to gradients from before the call. Clear them first.",
                {"1: optimizer.zero_grad()": ""},
            ),
            "left_behind": (
                "You leave the gradients in place after the step. They take up as much memory as the weights, and the next `backward` adds to them.",
                {"6: optimizer.zero_grad()": ""},
            ),
            "group_read_twice": (
                "You iterate over the batches twice, to count and to compute. A generator is empty the second time. Store the group in a list.",
                {"list(batches)": "batches"},
            ),
            # --- the step: precision and the model
            "autocast_always_on": (
                "The model computes in half precision even if none is requested: with `dtype=None` there should be no autocast.",
                {"enabled=...": ""},
            ),
            "loss_in_halves": (
                "The loss gets logits in half precision. Exponentials and long sums need more digits: upcast the logits first.",
                {"3: logits = ...": "pass"},
            ),
            "training_mode_set": (
                "You put the model into training mode. The caller chooses the mode, so leave it unchanged.",
                {"group = _": "group = _\nmodel.train()"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "clip_gradients",
        {
            "norm_made_on_the_cpu": (
                "You convert each norm to a number and create a new tensor from them, on the CPU. The program waits for the GPU once per parameter, and your "
                "result is on the wrong device. `torch.stack` keeps the norms on their device.",
                {"torch.stack(lengths)": "torch.tensor([one.item() for one in lengths], dtype=widest)"},
            ),
        },
    ),
]
