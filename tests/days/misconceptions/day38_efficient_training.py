"""Day 38: norms of what, scales that are never taken back, checkpoints that forget, steps in the wrong order."""

from course.judging.misconceptions import Misconception

CLIP, SCALER, CHECKPOINT, STEP = "clip_gradients", "LossScaler", "checkpoint", "train_step"

# --- clip_gradients
GRADIENTS = "gradients = [one.grad for one in parameters if one.grad is not None]"
LENGTH = "torch.linalg.vector_norm(one, dtype=widest)"
LENGTHS = "torch.stack(lengths)"
NORM = f"norm = torch.linalg.vector_norm({LENGTHS})"
FACTOR = "factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)"
SHORTEN = "one.copy_(one.to(widest) * factor)"
EACH = f"for one in gradients:\n        {SHORTEN}"
CLIPPED = "return norm"

# --- LossScaler
KEPT_SCALE = "self.current = float(init_scale)"
TOLD_SCALE = "return self.current"
SCALED = "loss.to(torch.promote_types(loss.dtype, torch.float32)) * self.current"
TWICE = 'if self.finite is not None:\n            raise RuntimeError("unscale_ was called already since the last update()")\n'
GROUPS = 'for group in optimizer.param_groups for one in group["params"]'
DIVIDE = "one.div_(self.current)"
ONE_FINITE = "one.isfinite().all() for one"
ALL_FINITE = "gradients]).all()"
FIRST = "if self.finite is None:\n            self.unscale_(optimizer)"
IF_FINITE = "if self.finite:\n            optimizer.step()"
HALVE = "self.current /= 2\n            self.good_steps = 0"
COUNT = "self.good_steps += 1"
ENOUGH = "if self.good_steps == self.growth_interval:"
DOUBLE = "self.current *= 2\n                self.good_steps = 0"
FORGET = "# 3. The next step's gradients are not unscaled yet.\n        self.finite = None"

# --- checkpoint
FORK = "torch.random.fork_rng(list(gpus)), "
REPLAY = "torch.set_rng_state(drawn_on_cpu)"
ONCE = "if number not in found:\n            call_again()"
COLLECT = "found[len(found)] = tensor.detach()"
LAST = "with torch.autograd.graph.saved_tensors_hooks(lambda tensor: next(numbers), tensor_of):\n        return function(*inputs)"

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


# --- train_step
GROUP = "group = list(batches)"
TARGETS = "int((targets != -100).sum())"
CLEARED_FIRST = "optimizer.zero_grad()\n    total = 0.0"
CAST = "torch.autocast(inputs.device.type, dtype, enabled=dtype is not None)"
WIDEN = "logits = logits.to(torch.promote_types(logits.dtype, torch.float32))"
LOSS = "loss(logits.flatten(0, -2), targets.flatten())"
BACKWARD = "scaler.scale(summed / count).backward()"
TOTAL = "total += summed.item()"
UNSCALE = "scaler.unscale_(optimizer)"
HELD = 'held = (one for each in optimizer.param_groups for one in each["params"])'
CLIP_ALL = "norm = clip_gradients(held, max_norm)"
UNSCALE_AND_CLIP = f"{UNSCALE}\n    {HELD}\n    {CLIP_ALL}"
STEPPED = "scaler.step(optimizer)\n    scaler.update()"
CLEARED_LAST = "optimizer.zero_grad()\n    return total"
RESULT = "return total / count, norm.item()"

MISCONCEPTIONS = [
    # --- clipping: the norm of what
    Misconception(
        "each_parameter_by_itself",
        CLIP,
        "You clip each parameter's gradient by its own norm. Then some are shortened and others are not, and the step points somewhere else. All of them "
        "together are one vector, with one norm and one factor.",
        {
            SHORTEN: "one.copy_(one.to(widest) * (max_norm / (torch.linalg.vector_norm(one, dtype=widest) + 1e-6)).clamp(max=1.0))"
        },
    ),
    Misconception(
        "numbers_clipped",
        CLIP,
        "You cut off every single number at `max_norm`. That turns the gradient another way: large numbers lose, small ones do not. What is bounded here is the length, and the direction stays.",
        {SHORTEN: "one.clamp_(-max_norm, max_norm)"},
    ),
    Misconception(
        "largest_number_for_norm",
        CLIP,
        "You take the largest number for the norm. The length of a vector is the root of the sum of the squares of all its numbers.",
        {
            LENGTH: "torch.linalg.vector_norm(one, math.inf, dtype=widest)",
            NORM: f"norm = torch.linalg.vector_norm({LENGTHS}, math.inf)",
        },
    ),
    Misconception(
        "norms_added_up",
        CLIP,
        "You add up the norms of the parameters. Lengths that point different ways do not add up: their *squares* do.",
        {NORM: f"norm = {LENGTHS}.sum()"},
    ),
    Misconception(
        "largest_norm",
        CLIP,
        "You take the largest norm of a parameter for that of the whole. All squares are added up, over all parameters, then comes one root.",
        {NORM: f"norm = {LENGTHS}.max()"},
    ),
    Misconception(
        "root_forgotten",
        CLIP,
        "You have added up the squares and not taken the root. A norm has the gradients' own unit.",
        {NORM: f"{NORM}.square()"},
    ),
    Misconception(
        "mean_of_squares",
        CLIP,
        "You average where you should add up. The norm is the root of the *sum* of all squares: a longer vector may be longer.",
        {NORM: f"{NORM} / sum(one.numel() for one in gradients) ** 0.5"},
    ),
    # --- clipping: the factor
    Misconception(
        "short_gradients_lengthened",
        CLIP,
        "Your gradient always ends up as long as `max_norm`: a short one is lengthened. Near a minimum gradients ought to become short. The factor is never above 1.",
        {FACTOR: "factor = max_norm / (norm + 1e-6)"},
    ),
    Misconception(
        "small_number_forgotten",
        CLIP,
        "You divide by the norm alone. The formula adds 10⁻⁶ to it, which also keeps a gradient of zeros from becoming NaN.",
        {FACTOR: "factor = (max_norm / norm).clamp(max=1.0)"},
    ),
    Misconception(
        "small_number_as_a_floor",
        CLIP,
        "You let the norm be at least 10⁻⁶. The formula *adds* 10⁻⁶.",
        {FACTOR: "factor = (max_norm / norm.clamp(min=1e-6)).clamp(max=1.0)"},
    ),
    Misconception(
        "not_finite_left_alone",
        CLIP,
        "Where the norm is not finite you leave the gradients as they are. The formula applies there too, as torch does it; whether the step is taken at all is the scaler's business.",
        {FACTOR: f"if not norm.isfinite():\n        return norm\n    {FACTOR}"},
    ),
    Misconception(
        "not_finite_made_0",
        CLIP,
        "You make what is not finite 0, and so hide that something went wrong. The formula applies as it is: infinite times 0 is NaN, and may be seen.",
        {SHORTEN: "one.copy_((one.to(widest) * factor).nan_to_num(0.0, 0.0, 0.0))"},
    ),
    # --- clipping: which gradients
    Misconception(
        "generator_read_twice",
        CLIP,
        "You go through the parameters twice. `model.parameters()` is a generator: the second time it is empty, so the norm is right and nothing is clipped. Keep what you need in a list.",
        {
            EACH: "for one in (one.grad for one in parameters if one.grad is not None):\n        one.mul_(factor)"
        },
    ),
    Misconception(
        "gradients_invented",
        CLIP,
        "You give parameters without a gradient one of zeros. An optimiser passes over those that have none; with zeros it would let momentum and weight decay go on.",
        {
            GRADIENTS: "parameters = list(parameters)\n    for one in parameters:\n        one.grad = torch.zeros_like(one) if one.grad is None else one.grad\n    gradients = [one.grad for one in parameters]"
        },
    ),
    Misconception(
        "squares_in_halves",
        CLIP,
        "You compute norms in the gradients' own dtype. In float16 a norm is infinite from 65 520 on, and bfloat16 has three digits. Compute them in float32.",
        {LENGTH: "torch.linalg.vector_norm(one)"},
    ),
    Misconception(
        "squares_overflow",
        CLIP,
        "You square in half precision before you add up in float32. In float16 the square of 256 is infinite, and that of 0.0001 is 0. Widen first.",
        {LENGTH: "one.square().to(widest).sum().sqrt()"},
    ),
    Misconception(
        "factor_in_halves",
        CLIP,
        "You multiply in half precision, by a factor in half precision. A small factor has few digits there, or is 0. Multiply in float32, and round once.",
        {SHORTEN: "one.copy_(one * factor.to(one.dtype))"},
    ),
    Misconception(
        "norm_in_float32_always",
        CLIP,
        "You compute in float32 also where gradients are in float64, and lose half of their digits.",
        {
            "functools.reduce(torch.promote_types, (one.dtype for one in gradients), torch.float32)": "torch.float32",
            LENGTH: "torch.linalg.vector_norm(one.float())",
        },
    ),
    Misconception(
        "nothing_breaks_it",
        CLIP,
        "Where no parameter has a gradient yours raises. There is nothing to measure then: the norm is 0.",
        {"if not gradients:\n        return torch.zeros(())\n": ""},
    ),
    # --- clipping: what is returned
    Misconception(
        "norm_after_clipping",
        CLIP,
        "You return the norm after clipping. That is never more than `max_norm`, and tells nobody that there was a spike.",
        {CLIPPED: f"norm = norm * factor\n    {CLIPPED}"},
    ),
    Misconception(
        "norm_as_a_float",
        CLIP,
        "You return a float. A 0-d tensor is asked for: to make a number of it a GPU would have to finish first.",
        {CLIPPED: "return norm.item()"},
    ),
    Misconception(
        "norm_not_returned",
        CLIP,
        "You return nothing. The norm is what one looks at to see how training goes.",
        {CLIPPED: "return None"},
    ),
    # --- scaling: when to step
    Misconception(
        "steps_all_the_same",
        SCALER,
        "You halve the scale after an infinite gradient, but let the optimiser step along it. One such step, and all weights are NaN.",
        {IF_FINITE: "optimizer.step()"},
    ),
    Misconception(
        "bad_numbers_made_0",
        SCALER,
        "You step with the infinite numbers made 0. All of that gradient is in doubt; and even one of zeros moves an optimiser with a memory. Skip the step.",
        {
            IF_FINITE: 'for group in optimizer.param_groups:\n            for one in group["params"]:\n                if one.grad is not None:\n'
            "                    one.grad.nan_to_num_(0.0, 0.0, 0.0)\n        optimizer.step()"
        },
    ),
    Misconception(
        "nan_overlooked",
        SCALER,
        "You look for infinities, and not for NaN, which is what an infinity becomes one operation later.",
        {ONE_FINITE: "~one.isinf().any() for one"},
    ),
    Misconception(
        "infinities_overlooked",
        SCALER,
        "You look for NaN, and not for infinities. A gradient that has overflowed is infinite first.",
        {ONE_FINITE: "~one.isnan().any() for one"},
    ),
    Misconception(
        "negative_infinity_overlooked",
        SCALER,
        "You compare with +∞. −∞ is no number to step along either.",
        {ONE_FINITE: "(one < math.inf).all() for one"},
    ),
    Misconception(
        "last_parameter_decides",
        SCALER,
        "Only the last parameter decides whether a step is taken: for each parameter you forget what you have found before. A single infinite number anywhere is enough.",
        {ALL_FINITE: "gradients])[-1]"},
    ),
    Misconception(
        "one_good_parameter_is_enough",
        SCALER,
        "You step as soon as one parameter's gradient is finite. All have to be.",
        {ALL_FINITE: "gradients]).any()"},
    ),
    Misconception(
        "looks_again_when_it_steps",
        SCALER,
        "You look at the gradients when the step is taken, instead of when they were unscaled. What has been done to them in between hides that they had overflowed.",
        {
            IF_FINITE: 'held = [one.grad for group in optimizer.param_groups for one in group["params"]]\n'
            "        self.finite = all(bool(one.isfinite().all()) for one in held if one is not None)\n        if self.finite:\n            optimizer.step()"
        },
    ),
    # --- scaling: there and back
    Misconception(
        "scaled_in_halves",
        SCALER,
        "You multiply a loss in float16 as it is. 65536 is infinite there, and so is the scaled loss. Widen it first.",
        {SCALED: "loss * self.current"},
    ),
    Misconception(
        "scaled_loss_without_history",
        SCALER,
        "The loss that you return cannot be differentiated: what it was computed from is lost.",
        {
            SCALED: f"torch.tensor({SCALED}.item(), dtype=torch.promote_types(loss.dtype, torch.float32), requires_grad=True)".replace(
                "* self.current.item()", "* self.current).item()"
            ).replace("torch.tensor(loss", "torch.tensor((loss")
        },
    ),
    Misconception(
        "scaled_down",
        SCALER,
        "You divide the loss by the scale. Small gradients would vanish all the sooner: the loss is *multiplied* on the way in, and the gradients divided on the way out.",
        {SCALED: SCALED.replace("* self", "/ self")},
    ),
    Misconception(
        "starts_at_1",
        SCALER,
        "Your scale is 1 at first. It would take a long time to find one that is of use; a scale that is too large is found out, and halved, in a single step.",
        {"init_scale: float = 2.0**16": "init_scale: float = 1.0"},
    ),
    Misconception(
        "scale_as_a_tensor",
        SCALER,
        "`get_scale` returns a tensor. A float is asked for.",
        {TOLD_SCALE: "return torch.tensor(self.current)"},
    ),
    Misconception(
        "never_unscaled",
        SCALER,
        "Your gradients are never divided by the scale. The optimiser takes steps that are thousands of times too long.",
        {DIVIDE: "pass"},
    ),
    Misconception(
        "multiplied_again",
        SCALER,
        "You multiply the gradients by the scale once more. To unscale is to divide.",
        {DIVIDE: "one.mul_(self.current)"},
    ),
    Misconception(
        "first_group_only",
        SCALER,
        "You unscale the first group of the optimiser only. Parameters may lie in several, with rates of their own.",
        {GROUPS: 'for group in optimizer.param_groups[:1] for one in group["params"]'},
    ),
    Misconception(
        "step_does_not_unscale",
        SCALER,
        "`step` relies on `unscale_` having been called. That is optional: where nobody has, `step` does it.",
        {FIRST: "if self.finite is None:\n            self.finite = torch.tensor(True)"},
    ),
    Misconception(
        "unscaled_twice",
        SCALER,
        "`step` unscales also what was unscaled already. Remember, until the next `update`, that it has been done.",
        {TWICE: "", FIRST: "self.unscale_(optimizer)"},
    ),
    Misconception(
        "step_not_ended",
        SCALER,
        "After `update` you still take the gradients for unscaled, and what was found in the first step for true of all others.",
        {TWICE: "", FORGET: "pass"},
    ),
    # --- scaling: the next scale
    Misconception(
        "never_halved",
        SCALER,
        "Your scale is never halved. If it is too large the same overflow comes again in the next step, and in all that follow: nothing is learnt any more.",
        {HALVE: "self.good_steps = 0"},
    ),
    Misconception(
        "reset_to_the_start",
        SCALER,
        "After an overflow you go back to half of what you started with. What is halved is the scale as it is now.",
        {
            KEPT_SCALE: f"{KEPT_SCALE}\n        self.first = float(init_scale)",
            HALVE: "self.current = self.first / 2\n            self.good_steps = 0",
        },
    ),
    Misconception(
        "never_doubled",
        SCALER,
        "Your scale never grows again. Each overflow, a chance one too, would halve it for good, until small gradients vanish as if there were none.",
        {DOUBLE: "self.good_steps = 0"},
    ),
    Misconception(
        "doubled_at_once",
        SCALER,
        "You double after every good step. So the scale would be too large again at once, and every few steps one would be lost.",
        {ENOUGH: "if self.good_steps > 0:"},
    ),
    Misconception(
        "one_step_too_late",
        SCALER,
        "You double one step too late: the step that makes the number full counts.",
        {ENOUGH: "if self.good_steps > self.growth_interval:"},
    ),
    Misconception(
        "good_steps_never_forgotten",
        SCALER,
        "A bad step does not interrupt your count. Only good steps *in a row* let the scale grow.",
        {HALVE: "self.current /= 2"},
    ),
    Misconception(
        "bad_steps_count_too",
        SCALER,
        "You count all steps, the skipped ones among them. Only good ones in a row let the scale grow.",
        {HALVE: "self.current /= 2\n            self.good_steps += 1"},
    ),
    Misconception(
        "doubled_ever_after",
        SCALER,
        "Once the number is full you double after each further step. After a change of the scale counting begins again.",
        {ENOUGH: "if self.good_steps >= self.growth_interval:", DOUBLE: "self.current *= 2"},
    ),
    Misconception(
        "doubled_once",
        SCALER,
        "Your scale is doubled once, and never again: after a change of the scale counting begins again at 0.",
        {DOUBLE: "self.current *= 2"},
    ),
    # --- checkpoints: gradients that are lost
    Misconception(
        "parameters_forgotten",
        CHECKPOINT,
        "You differentiate with respect to the inputs alone. The function has parameters as well, which is what is trained: call `backward` on what was computed again, and it reaches them too.",
        source=by_function(
            {
                "torch.autograd.backward(*zip(*pairs))\n": "outputs, grads = zip(*pairs)\n            wanted = [one for one in again if isinstance(one, Tensor) and one.requires_grad]\n"
                "            found = iter(torch.autograd.grad(outputs, wanted, grads, allow_unused=True) if wanted else [])\n",
                "one.grad if isinstance(one, Tensor) else None for one in again": "next(found) if isinstance(one, Tensor) and one.requires_grad else None for one in again",
            }
        ),
    ),
    Misconception(
        "no_input_no_gradient",
        CHECKPOINT,
        "Where no input asks for a gradient autograd sees no reason to call your `backward`, and the parameters get nothing: the first layer of a model, whose inputs are data, would never learn.",
        source=by_function({"torch.ones((), requires_grad=True)": "torch.ones(())"}),
    ),
    Misconception(
        "gradients_counted_twice",
        CHECKPOINT,
        "You compute again with the inputs themselves, so `backward` runs on through them into what came before, and then autograd does the same once more. Cut them off from their history first, and let "
        "them ask for gradients anew.",
        source=by_function(
            {
                "again[place] = one.detach().requires_grad_(one.requires_grad)": "again[place] = one\n            for one in ctx.saved_tensors:\n                one.retain_grad() if one.requires_grad else None"
            }
        ),
    ),
    Misconception(
        "inputs_never_asked",
        CHECKPOINT,
        "You cut the inputs off from their history, and do not let them ask for gradients again: nothing reaches what lies before the checkpoint.",
        source=by_function({"one.detach().requires_grad_(one.requires_grad)": "one.detach()"}),
    ),
    Misconception(
        "first_output_only",
        CHECKPOINT,
        "You differentiate the first output only. All that the function returns may be part of the loss.",
        source=by_function(
            {"torch.autograd.backward(*zip(*pairs))": "torch.autograd.backward(*pairs[0])"}
        ),
    ),
    Misconception(
        "integers_differentiated",
        CHECKPOINT,
        "You differentiate every output. Those that have no gradient, such as indices, have to be left out.",
        source=by_function({" if one.requires_grad]": "]"}),
    ),
    Misconception(
        "always_a_tuple",
        CHECKPOINT,
        "A single output comes back in a tuple. What the function returns is what is returned.",
        {
            LAST: LAST.replace(
                "return function(*inputs)",
                "outputs = function(*inputs)\n    return outputs if isinstance(outputs, tuple) else (outputs,)",
            )
        },
    ),
    Misconception(
        "outputs_taken_apart",
        CHECKPOINT,
        "Your outputs come back as a list. What the function returns is what is returned: a tuple stays one.",
        source=by_function(
            {
                "return Again.apply(torch.ones((), requires_grad=True), *inputs)": "outputs = Again.apply(torch.ones((), requires_grad=True), *inputs)\n    return list(outputs) if isinstance(outputs, tuple) else outputs"
            }
        ),
    ),
    Misconception(
        "tensors_alone",
        CHECKPOINT,
        "You hand all inputs to `save_for_backward`, which takes tensors only. Numbers, words and None are inputs too: keep them elsewhere.",
        source=by_function(
            {
                "ctx.save_for_backward(*(inputs[place] for place in places))": "ctx.save_for_backward(*inputs)",
                "zip(places, ctx.saved_tensors)": "enumerate(ctx.saved_tensors)",
            }
        ),
    ),
    # --- checkpoints: the second call
    Misconception(
        "other_dropout",
        CHECKPOINT,
        "Your second call drops others than the first. Its gradients are those of a network that has never been computed. Put the random state back before it.",
        {REPLAY: "pass"},
    ),
    Misconception(
        "random_state_left_behind",
        CHECKPOINT,
        "After your second call random numbers go on from where the *checkpoint* was. Each backward pass turns them back, so that the next step drops what this one has dropped. Afterwards the "
        "state must be what it was before.",
        {FORK: ""},
    ),
    Misconception(
        "first_call_fenced_off",
        CHECKPOINT,
        "Your first call puts the random state back, too. So the next layer draws the very same numbers, and all layers drop alike. Only the second call must leave no trace.",
        {LAST: LAST.replace("with torch", "with torch.random.fork_rng(list(gpus)), torch")},
    ),
    Misconception(
        "seeded_anew",
        CHECKPOINT,
        "You give both calls the same seed. They agree with each other, and so do all layers and all steps: everywhere the same is dropped. Note the state there is, and put *that* back.",
        {
            "drawn_on_cpu = torch.get_rng_state()": "torch.manual_seed(38)\n    drawn_on_cpu = torch.get_rng_state()"
        },
    ),
    Misconception(
        "autocast_forgotten",
        CHECKPOINT,
        "Your second call has whatever autocast there is when `backward` is called, most often none. So it computes in another dtype than the first. Note the first call's, and put it back.",
        source=by_function({"casts[0], casts[1], ": ""}),
    ),
    Misconception(
        "autocast_of_the_usual_dtype",
        CHECKPOINT,
        "You note whether autocast was on, and not to which dtype. The usual one of the device need not be the one that was used.",
        source=by_function(
            {
                "torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))": "torch.is_autocast_enabled(kind)",
                "casts[0], casts[1], ": 'torch.autocast("cpu", enabled=casts[0]), torch.autocast("cuda", enabled=casts[1]), ',
            }
        ),
    ),
    Misconception(
        "nothing_forgotten",
        CHECKPOINT,
        "You call the function, and autograd keeps everything as ever. The results are right; no memory is saved.",
        {LAST: "return function(*inputs)"},
    ),
    Misconception(
        "kept_after_all",
        CHECKPOINT,
        "You keep what autograd hands you, and give it back later: nothing is computed again, and nothing saved. Keep a number in its place.",
        {
            LAST: LAST.replace(
                "lambda tensor: next(numbers), tensor_of",
                "lambda tensor: tensor, lambda tensor: tensor",
            )
        },
    ),
    Misconception(
        "again_for_each_tensor",
        CHECKPOINT,
        "You call the function again for each single tensor that the backward pass asks for. One more call gives them all: keep what it has found.",
        {ONCE: "call_again()"},
    ),
    Misconception(
        "gradients_always_enabled",
        CHECKPOINT,
        "You enable gradients for the first call too. Where they are disabled nobody will call `backward`: simply call the function.",
        {LAST: LAST.replace("with torch", "with torch.enable_grad(), torch")},
    ),
    Misconception(
        "graph_kept_when_measuring",
        CHECKPOINT,
        "You compute the function twice at once: one result for now, and one with its whole history for later. The history is what was to be forgotten.",
        source="""
def checkpoint(function, *inputs):
    state = torch.get_rng_state()
    with torch.no_grad():
        function(*inputs)
    torch.set_rng_state(state)
    return function(*inputs)
""",
    ),
    # --- the step: what is averaged
    Misconception(
        "mean_of_means",
        STEP,
        "You average the batches' means. A batch with three targets then counts as much as one with three hundred. Divide each sum by the targets of the whole *group*.",
        {
            BACKWARD: "scaler.scale(summed / (targets != -100).sum() / len(group)).backward()",
        },
    ),
    Misconception(
        "means_added_up",
        STEP,
        "You add up the batches' means: k batches give a gradient about k times too long. Divide each sum by the targets of the whole group.",
        {BACKWARD: "scaler.scale(summed / (targets != -100).sum()).backward()"},
    ),
    Misconception(
        "sums_divided_by_batches",
        STEP,
        "You divide by the number of batches. The step is the gradient of the mean over *targets*.",
        {BACKWARD: "scaler.scale(summed / len(group)).backward()"},
    ),
    Misconception(
        "sums_not_divided",
        STEP,
        "You differentiate the sum of all losses. The step is the gradient of their mean over the targets of the group.",
        {BACKWARD: "scaler.scale(summed).backward()"},
    ),
    Misconception(
        "gaps_counted",
        STEP,
        "You count all places as targets. Where −100 stands nothing is predicted, and nothing is to be counted.",
        {TARGETS: "targets.numel()"},
    ),
    Misconception(
        "last_batch_told",
        STEP,
        "The loss that you return is the last batch's part only. Add up as you go.",
        {TOTAL: "total = summed.item()"},
    ),
    Misconception(
        "scaled_loss_told",
        STEP,
        "You return the scaled loss. The scale changes from step to step, and the true mean is wanted.",
        {TOTAL: "total += scaler.scale(summed).item()"},
    ),
    Misconception(
        "sum_told",
        STEP,
        "You return the group's summed loss. The mean over its targets is asked for.",
        {RESULT: "return total, norm.item()"},
    ),
    Misconception(
        "mean_of_means_told",
        STEP,
        "You return the mean of the batches' means. Add up losses and targets, and divide once.",
        {
            TOTAL: "total += summed.item() / max(int((targets != -100).sum()), 1)",
            RESULT: "return total / len(group), norm.item()",
        },
    ),
    Misconception(
        "results_as_tensors",
        STEP,
        "You return tensors. Two floats are asked for, to be printed and kept.",
        {RESULT: "return torch.tensor(total / count), norm"},
    ),
    Misconception(
        "loss_alone_returned",
        STEP,
        "You return the loss alone. The norm before clipping is asked for as well: it is the first to show that something goes wrong.",
        {RESULT: "return total / count"},
    ),
    # --- the step: in which order
    Misconception(
        "clipped_before_unscaled",
        STEP,
        "You clip the scaled gradient and unscale it afterwards. `max_norm` is meant for the true one: as it is, what remains is thousands of times shorter than it may be.",
        {UNSCALE_AND_CLIP: f"{HELD}\n    {CLIP_ALL}\n    {UNSCALE}"},
    ),
    Misconception(
        "clipped_while_scaled",
        STEP,
        "You leave unscaling to `scaler.step`, and clip before. So it is the scaled gradient that is clipped. Unscale first.",
        {UNSCALE_AND_CLIP: f"{HELD}\n    {CLIP_ALL}"},
    ),
    Misconception(
        "clipped_batch_by_batch",
        STEP,
        "You clip after each batch of the group. What is bounded is the step, that is, the gradient of the whole group, and nothing else.",
        {
            BACKWARD: f'{BACKWARD}\n        clip_gradients([one for each in optimizer.param_groups for one in each["params"]], max_norm)'
        },
    ),
    Misconception(
        "not_clipped",
        STEP,
        "You never clip: the norm is measured, and nothing comes of it.",
        {CLIP_ALL: "norm = clip_gradients(held, math.inf)"},
    ),
    Misconception(
        "not_scaled",
        STEP,
        "You differentiate the loss as it is, and then divide the gradients by the scale. Scale it first.",
        {BACKWARD: "(summed / count).backward()"},
    ),
    Misconception(
        "optimiser_asked_directly",
        STEP,
        "You let the optimiser step yourself. Whether there is a step is the scaler's decision.",
        {STEPPED: "optimizer.step()\n    scaler.update()"},
    ),
    Misconception(
        "scaler_never_updated",
        STEP,
        "You never call `scaler.update()`. The scale stays what it is, too large or too small.",
        {STEPPED: "scaler.step(optimizer)"},
    ),
    Misconception(
        "updated_before_the_step",
        STEP,
        "You update the scaler before the step. It then no longer knows what it has found in this one's gradients. First the step, then the scale for the next.",
        {STEPPED: "scaler.update()\n    scaler.step(optimizer)"},
    ),
    Misconception(
        "a_step_for_each_batch",
        STEP,
        "The optimiser steps after each batch. The group is to have one step, with the gradients of all its batches added up.",
        {
            TOTAL: f"{TOTAL}\n        {UNSCALE}\n        clip_gradients(model.parameters(), max_norm)\n        scaler.step(optimizer)\n        scaler.update()\n"
            "        norm = clip_gradients(model.parameters(), max_norm)\n        optimizer.zero_grad()",
            UNSCALE_AND_CLIP: "pass",
            STEPPED: "pass",
        },
    ),
    # --- the step: which gradients
    Misconception(
        "cleared_for_each_batch",
        STEP,
        "You clear the gradients before each batch, so that only the last one's are left when the step comes.",
        {WIDEN: f"optimizer.zero_grad()\n        {WIDEN}"},
    ),
    Misconception(
        "not_cleared_before",
        STEP,
        "Gradients from before the call are still there, and are added to. Clear them first.",
        {CLEARED_FIRST: "total = 0.0"},
    ),
    Misconception(
        "left_behind",
        STEP,
        "You leave the gradients where they are after the step. They take up as much memory as the weights, and the next `backward` adds to them.",
        {CLEARED_LAST: "return total"},
    ),
    Misconception(
        "group_read_twice",
        STEP,
        "You go through the batches twice, to count and to compute. A generator is empty the second time. Keep the group in a list.",
        {GROUP: "group = batches"},
    ),
    # --- the step: precision and the model
    Misconception(
        "autocast_never_on",
        STEP,
        "The model computes in float32 whatever is asked for.",
        {CAST: "torch.autocast(inputs.device.type, enabled=False)"},
    ),
    Misconception(
        "autocast_always_on",
        STEP,
        "The model computes in half precision also where none is asked for: with `dtype=None` there is no autocast.",
        {CAST: "torch.autocast(inputs.device.type, dtype)"},
    ),
    Misconception(
        "usual_half",
        STEP,
        "You switch autocast on, and let the device choose the dtype. The caller has chosen.",
        {CAST: "torch.autocast(inputs.device.type, enabled=dtype is not None)"},
    ),
    Misconception(
        "loss_in_halves",
        STEP,
        "The loss gets logits in half precision. Exponentials and long sums need more digits than that: widen them first.",
        {WIDEN: "pass"},
    ),
    Misconception(
        "logits_always_float32",
        STEP,
        "You make float32 of all logits, of float64 too, which loses half of their digits.",
        {WIDEN: "logits = logits.float()"},
    ),
    Misconception(
        "batch_and_time_exchanged",
        STEP,
        "Your logits are laid out position by position and your targets row by row, so most are compared with another one's target.",
        {LOSS: "loss(logits.transpose(0, 1).flatten(0, -2), targets.flatten())"},
    ),
    Misconception(
        "training_mode_set",
        STEP,
        "You put the model into training mode. Its mode is the caller's business.",
        {GROUP: f"{GROUP}\n    model.train()"},
    ),
]
