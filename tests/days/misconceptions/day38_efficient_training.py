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
                "You take a `max_norm` of 0 for no limit, as `if max_norm:` does. It leaves nothing of the gradient; `math.inf` is the one that only measures.",
                {"factor = _": "factor = _ if max_norm else torch.ones(())"},
            ),
            # --- clipping: the norm of what
            "each_parameter_by_itself": (
                "You clip each parameter's gradient by its own norm. Then some are shortened and others are not, and the step points somewhere else. All of them "
                "together are one vector, with one norm and one factor.",
                {"_ * factor": "_ * (max_norm / (torch.linalg.vector_norm(one, dtype=widest) + 1e-6)).clamp(max=1.0)"},
            ),
            "numbers_clipped": (
                "You cut off every single number at `max_norm`. That turns the gradient another way: large numbers lose, small ones do not. What is bounded here "
                "is the length, and the direction stays.",
                {"one.copy_(...)": "one.clamp_(-max_norm, max_norm)"},
            ),
            "norms_added_up": (
                "You add up the norms of the parameters. Lengths that point different ways do not add up: their *squares* do.",
                {"torch.linalg.vector_norm(_)": "_.sum()"},
            ),
            "root_forgotten": (
                "You have added up the squares and not taken the root. A norm has the gradients' own unit.",
                {"norm = _": "norm = _.square()"},
            ),
            # --- clipping: the factor
            "short_gradients_lengthened": (
                "Your gradient always ends up as long as `max_norm`: a short one is lengthened. Near a minimum gradients ought to become short. The factor is "
                "never above 1.",
                {"_.clamp(max=1.0)": "_"},
            ),
            "small_number_forgotten": (
                "You divide by the norm alone. The formula adds 10⁻⁶ to it, which also keeps a gradient of zeros from becoming NaN.",
                {"norm + 1e-6": "norm"},
            ),
            "not_finite_left_alone": (
                "Where the norm is not finite you leave the gradients as they are. The formula applies there too, as torch does it; whether the step is taken at "
                "all is the scaler's business.",
                {"norm = _": "norm = _\nif not norm.isfinite():\n    return norm"},
            ),
            # --- clipping: which gradients
            "generator_read_twice": (
                "You go through the parameters twice. `model.parameters()` is a generator: the second time it is empty, so the norm is right and nothing is "
                "clipped. Keep what you need in a list.",
                {"3: gradients": "(one.grad for one in parameters if one.grad is not None)", "one.copy_(...)": "one.mul_(factor)"},
            ),
            "squares_in_halves": (
                "You compute norms in the gradients' own dtype. In float16 a norm is infinite from 65 520 on, and bfloat16 has three digits. Compute them in "
                "float32.",
                {"dtype=widest": ""},
            ),
            "squares_overflow": (
                "You square in half precision before you add up in float32. In float16 the square of 256 is infinite, and that of 0.0001 is 0. Widen first.",
                {"torch.linalg.vector_norm(one, dtype=widest)": "one.square().to(widest).sum().sqrt()"},
            ),
            "norm_in_float32_always": (
                "You compute in float32 also where gradients are in float64, and lose half of their digits.",
                {"widest = ...": "widest = torch.float32", "_.vector_norm(one, dtype=widest)": "_.vector_norm(one.float())"},
            ),
            "nothing_breaks_it": (
                "Where no parameter has a gradient yours raises. There is nothing to measure then: the norm is 0.",
                {"if not gradients:\n    ...": ""},
            ),
            # --- clipping: what is returned
            "norm_after_clipping": (
                "You return the norm after clipping. That is never more than `max_norm`, and hides the spike.",
                {"return norm": "norm = norm * factor\nreturn norm"},
            ),
            "norm_as_a_float": (
                "You return a float. A 0-d tensor is asked for: to make a number of it a GPU would have to finish first.",
                {"return norm": "return norm.item()"},
            ),
        },
    ),
    *of(
        "LossScaler",
        {
            # --- scaling: when to step
            "steps_all_the_same": (
                "You halve the scale after an infinite gradient, but let the optimizer step along it. One such step, and all weights are NaN.",
                {"if self.finite:\n    _": "_"},
            ),
            "nan_overlooked": (
                "You look for infinities, and not for NaN, which is what an infinity becomes one operation later.",
                {"one.isfinite().all()": "~one.isinf().any()"},
            ),
            "last_parameter_decides": (
                "Only the last parameter decides whether a step is taken: for each parameter you forget what you have found before. A single infinite number "
                "anywhere is enough.",
                {"self.finite = _.all()": "self.finite = _[-1]"},
            ),
            # --- scaling: there and back
            "scaled_in_halves": (
                "You multiply a loss in float16 as it is. 65536 is infinite there, and so is the scaled loss. Widen it first.",
                {"loss.to(...)": "loss"},
            ),
            "scaled_down": (
                "You divide the loss by the scale. Small gradients would vanish all the sooner: the loss is *multiplied* on the way in, and the gradients divided "
                "on the way out.",
                {"_ * self.current": "_ / self.current"},
            ),
            "never_unscaled": (
                "Your gradients are never divided by the scale. The optimizer takes steps that are thousands of times too long.",
                {"one.div_(self.current)": ""},
            ),
            "first_group_only": (
                "You unscale the first group of the optimizer only. Parameters may be in several groups, with their own learning rates.",
                {"optimizer.param_groups": "optimizer.param_groups[:1]"},
            ),
            "step_does_not_unscale": (
                "`step` relies on `unscale_` having been called. That is optional: if you have not, `step` does it.",
                {"self.unscale_(optimizer)": "self.finite = torch.tensor(True)"},
            ),
            "unscaled_twice": (
                "`step` unscales also what was unscaled already. Remember, until the next `update`, that it has been done.",
                {"if self.finite is not None:\n    ...": "", "1: if self.finite is None:\n    _": "_"},
            ),
            "step_not_ended": (
                "After `update` you still take the gradients for unscaled, and what was found in the first step for true of all others.",
                {"if self.finite is not None:\n    ...": "", "self.finite = None": "pass"},
            ),
            # --- scaling: the next scale
            "never_halved": (
                "Your scale is never halved. If it is too large the same overflow comes again in the next step, and in all that follow: nothing is learned any more.",
                {"self.current /= 2": ""},
            ),
            "never_doubled": (
                "Your scale never grows again. Each overflow, a chance one too, would halve it for good, until small gradients vanish as if there were none.",
                {"self.current *= 2": ""},
            ),
            "one_step_too_late": (
                "You double one step too late: the step that makes the number full counts.",
                {"self.good_steps == _": "self.good_steps > _"},
            ),
            "good_steps_never_forgotten": (
                "A bad step does not interrupt your count. Only good steps *in a row* let the scale grow.",
                {"update() 1: self.good_steps = 0": ""},
            ),
            "doubled_once": (
                "Your scale is doubled once, and never again: after a change of the scale counting begins again at 0.",
                {"2: self.good_steps = 0": ""},
            ),
        },
    ),
    *of(
        "checkpoint",
        {
            # --- checkpoints: gradients that are lost
            "parameters_forgotten": (
                "You differentiate with respect to the inputs alone. The function has parameters as well, which is what is trained: call `backward` on what was "
                "computed again, and it reaches them too.",
                by_function(
                    {
                        "torch.autograd.backward(*zip(*pairs))\n": "outputs, grads = zip(*pairs)\n            wanted = [one for one in again if isinstance(one, Tensor) and one.requires_grad]\n"
                        "            found = iter(torch.autograd.grad(outputs, wanted, grads, allow_unused=True) if wanted else [])\n",
                        "one.grad if isinstance(one, Tensor) else None for one in again": "next(found) if isinstance(one, Tensor) and one.requires_grad else None for one in again",
                    }
                ),
            ),
            "no_input_no_gradient": (
                "Where no input asks for a gradient autograd sees no reason to call your `backward`, and the parameters get nothing: the first layer of a model, "
                "whose inputs are data, would never learn.",
                by_function({"torch.ones((), requires_grad=True)": "torch.ones(())"}),
            ),
            "inputs_never_asked": (
                "You cut the inputs off from their history, and do not set `requires_grad` again: no gradient reaches what comes before the checkpoint.",
                by_function({"one.detach().requires_grad_(one.requires_grad)": "one.detach()"}),
            ),
            "first_output_only": (
                "You differentiate the first output only. All that the function returns may be part of the loss.",
                by_function({"torch.autograd.backward(*zip(*pairs))": "torch.autograd.backward(*pairs[0])"}),
            ),
            "integers_differentiated": (
                "You differentiate every output. Those that have no gradient, such as indices, have to be left out.",
                by_function({" if one.requires_grad]": "]"}),
            ),
            "always_a_tuple": (
                "A single output comes back in a tuple. What the function returns is what is returned.",
                {"with _:\n    return ...": "with _:\n    outputs = function(*inputs)\nreturn outputs if isinstance(outputs, tuple) else (outputs,)"},
            ),
            # --- checkpoints: the second call
            "other_dropout": (
                "Your second call drops others than the first. Its gradients are those of a network that has never been computed. Put the random state back before "
                "it.",
                {"torch.set_rng_state(drawn_on_cpu)": "pass"},
            ),
            "random_state_left_behind": (
                "After your second call, random numbers continue from where the *checkpoint* was. Each backward pass turns them back, so that the next step drops what "
                "this one has dropped. Afterwards the state must be what it was before.",
                {
                    "with torch.random.fork_rng(list(gpus)), casts[0], casts[1], torch.enable_grad():\n    _": "with casts[0], casts[1], torch.enable_grad():\n"
                    "    _"
                },
            ),
            "first_call_fenced_off": (
                "Your first call puts the random state back, too. So the next layer draws the very same numbers, and all layers drop alike. Only the second call "
                "must leave no trace.",
                {"with _:\n    return ...": "with torch.random.fork_rng(list(gpus)), _:\n    return function(*inputs)"},
            ),
            "seeded_anew": (
                "You give both calls the same seed. They agree with each other, and so do all layers and all steps: everywhere the same is dropped. Note the state "
                "there is, and put *that* back.",
                {"gpus = _": "gpus = _\ntorch.manual_seed(38)"},
            ),
            "autocast_forgotten": (
                "Your second call has whatever autocast there is when `backward` is called, most often none. So its dtype differs from the first call's. Note "
                "the first call's, and put it back.",
                by_function({"casts[0], casts[1], ": ""}),
            ),
            "nothing_forgotten": (
                "You call the function, and autograd keeps everything as ever, so that no memory is saved.",
                {"with ...:\n    return _": "return _"},
            ),
            "gradients_always_enabled": (
                "You enable gradients for the first call too. Where they are disabled, `backward` is never called: simply call the function.",
                {"with _:\n    return ...": "with torch.enable_grad(), _:\n    return function(*inputs)"},
            ),
        },
    ),
    *of(
        "train_step",
        {
            "loss_within_autocast": (
                "Your loss is computed within autocast, which may narrow its products. Autocast is for the model's forward pass alone.",
                {"summed = _": "with torch.autocast(inputs.device.type, dtype, enabled=dtype is not None):\n    summed = _"},
            ),
            # --- the step: what is averaged
            "mean_of_means": (
                "You average the batches' means. A batch with three targets then counts as much as one with three hundred. Divide each sum by the targets of the "
                "whole *group*.",
                {"summed / count": "summed / (targets != -100).sum() / len(group)"},
            ),
            "sums_not_divided": (
                "You differentiate the sum of all losses. The step is the gradient of their mean over the targets of the group.",
                {"summed / count": "summed"},
            ),
            "gaps_counted": (
                "You count all places as targets. At −100 nothing is predicted, and nothing must be counted.",
                {"int((targets != -100).sum())": "targets.numel()"},
            ),
            "results_as_tensors": (
                "You return tensors. Two floats are asked for, to be printed and kept.",
                {"return _, norm.item()": "return torch.tensor(_), norm"},
            ),
            # --- the step: in which order
            "clipped_before_unscaled": (
                "You clip the scaled gradient and unscale it afterwards. `max_norm` is meant for the true one: as it is, what remains is thousands of times "
                "shorter than it may be.",
                {"scaler.unscale_(optimizer)": "", "norm = _": "norm = _\nscaler.unscale_(optimizer)"},
            ),
            "clipped_batch_by_batch": (
                "You clip after each batch of the group. What is bounded is the step, that is, the gradient of the whole group, and nothing else.",
                {"total += _": "clip_gradients([one for each in optimizer.param_groups for one in each['params']], max_norm)\ntotal += _"},
            ),
            "not_clipped": (
                "The norm is measured, and the gradient of the group is not clipped by it.",
                {"norm = ...": "norm = clip_gradients(held, math.inf)"},
            ),
            "not_scaled": (
                "You differentiate the loss as it is, and then divide the gradients by the scale. Scale it first.",
                {"scaler.scale(_)": "_"},
            ),
            "optimizer_asked_directly": (
                "You let the optimizer step yourself. Whether there is a step is the scaler's decision.",
                {"scaler.step(optimizer)": "optimizer.step()"},
            ),
            "scaler_never_updated": (
                "You never call `scaler.update()`. The scale stays what it is, too large or too small.",
                {"scaler.update()": ""},
            ),
            "updated_before_the_step": (
                "You update the scaler before the step. It then no longer knows what it has found in this one's gradients. First the step, then the scale for the "
                "next.",
                {"scaler.update()": "", "norm = _": "norm = _\nscaler.update()"},
            ),
            # --- the step: which gradients
            "cleared_for_each_batch": (
                "You clear the gradients before each batch, so that only the last one's are left when the step comes.",
                {"3: logits = _": "optimizer.zero_grad()\nlogits = _"},
            ),
            "not_cleared_before": (
                "Gradients from before the call are still there, and are added to. Clear them first.",
                {"1: optimizer.zero_grad()": ""},
            ),
            "left_behind": (
                "You leave the gradients where they are after the step. They take up as much memory as the weights, and the next `backward` adds to them.",
                {"6: optimizer.zero_grad()": ""},
            ),
            "group_read_twice": (
                "You go through the batches twice, to count and to compute. A generator is empty the second time. Keep the group in a list.",
                {"list(batches)": "batches"},
            ),
            # --- the step: precision and the model
            "autocast_always_on": (
                "The model computes in half precision also where none is asked for: with `dtype=None` there is no autocast.",
                {"enabled=...": ""},
            ),
            "loss_in_halves": (
                "The loss gets logits in half precision. Exponentials and long sums need more digits than that: widen them first.",
                {"3: logits = ...": "pass"},
            ),
            "training_mode_set": (
                "You put the model into training mode. Its mode is the caller's business.",
                {"group = _": "group = _\nmodel.train()"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "clip_gradients",
        {
            "norm_made_on_the_cpu": (
                "You take each length out as a number and make a new tensor of them, which is on the CPU: the GPU is waited for once a parameter, and your norm is on the wrong device. `torch.stack` joins the lengths where they are.",
                {"torch.stack(lengths)": "torch.tensor([one.item() for one in lengths], dtype=widest)"},
            ),
        },
    ),
]
