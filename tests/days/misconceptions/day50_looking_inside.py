"""Day 50: what goes wrong when one looks into a model, or changes it for a moment."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "logit_lens",
        {
            "not_normalized": (
                "You multiply the residual stream by the embedding matrix without a norm. The model applies its final norm first, so the lens must apply it, "
                "too, at every layer.",
                {"model.norm(_)": "_"},
            ),
            "last_normalized_twice": (
                "Your last logits come from a state that is normalized twice. The output of the final norm is already normalized; you need its input.",
                {"torch.stack(states)": "torch.stack([*states[:-1], model.norm(states[-1])])"},
            ),
            "without_positions": (
                "Your first logits come from the token embeddings alone. The input of the first block also contains the positions.",
                {"torch.stack(states)": "torch.stack([model.embed(tokens), *states[1:]])"},
            ),
            "first_missing": (
                "You have no logits for the state before the first block. N blocks have N + 1 states around them.",
                {"torch.stack(states)": "torch.stack(states[1:])"},
            ),
            "last_missing": (
                "You return no logits for the state after the last block, which are the model's own. N blocks have N + 1 states: one before each block, and "
                "one after the last.",
                {"torch.stack(states)": "torch.stack(states[:-1])"},
            ),
            "embeddings_of_a_llama": (
                "You multiply by a LLaMA's embedding matrix. A LLaMA computes its logits with a separate matrix, `head`.",
                {'getattr(model, "head", model.embed)': "model.embed"},
            ),
            "layers_second": (
                "Your layers are the second axis. Make them the first, so that `logits[n]` has the shape of the model's own result.",
                {"torch.stack(states)": "torch.stack(states, dim=1)"},
            ),
            "dropping": (
                "Your result depends on chance: the model drops activations, because it is in training mode.",
                {"model.eval()": "pass"},
            ),
            "mode_left": (
                "Your logits are right, but the model is in evaluation mode afterwards. A training run that looks inside now and then would continue without dropout.",
                {"module.training = training": "pass"},
            ),
            "one_mode_for_all": (
                "Your logits are right, but afterwards all modules have the mode of the model. Some parts had a different mode: in fine-tuning, frozen parts "
                "are often in evaluation mode.",
                {"module.training = training": "model.train(modes[0][1])"},
            ),
            "hooks_left": (
                "Your logits are right, but your hooks are still there. They run at each later call, and keep its activations in memory.",
                {"hook.remove()": "pass"},
            ),
            "all_hooks_removed": (
                "Your logits are right, but you remove all hooks, including those that you did not register. Each `register_…` method returns a handle that "
                "removes one hook.",
                {"for hook in hooks: _": "for module in model.modules(): module._forward_pre_hooks.clear()"},
            ),
            "left_after_an_error": (
                "Your logits are right, but if the model raises, you do not clean up: your hooks are still there, and the model is in evaluation mode.",
                {
                    "for hook in hooks: _": "for hook in hooks[: len(hooks) * len(states)]: _",
                    "for module, training in modes: _": "for module, training in modes[: len(modes) * len(states)]: _",
                },
            ),
        },
    ),
    *of(
        "patch_activation",
        {
            "in_place": (
                "You write into the tensor that enters the module. This tensor has other uses: the residual connection around a norm reads it, or it holds "
                "the caller's tokens.",
                {"given[0].clone()": "given[0]"},
            ),
            "everywhere": (
                "You replace everything that enters the module, whatever `where` is.",
                {"x[where] = ...": "x[...] = found[0] if found else 0"},
            ),
            "swapped": (
                "You exchanged the two texts: the result is a run on `source`, with numbers from `tokens`.",
                {"2: model(source)": "model(tokens)", "3: model(tokens)": "model(tokens if source is None else source)"},
            ),
            "output_patched": (
                "You replace the output of the module. Replace its input: then you can patch a single head, in front of the output projection that mixes all "
                "heads.",
                {
                    "module.register_forward_pre_hook(record)": "module.register_forward_hook(lambda one, _, out: record(one, (out,)))",
                    "module.register_forward_pre_hook(replace)": "module.register_forward_hook(lambda one, _, out: replace(one, (out,))[0])",
                },
            ),
            "no_ablation": (
                "Without a `source`, you change nothing. The numbers should become 0.",
                {"found[0][where] if found else 0": "found[0][where] if found else x[where]"},
            ),
            "ablation_everywhere": (
                "Without a `source`, everything that enters the module becomes 0 in your code, whatever `where` is. Only x[where] should become 0.",
                {"x[where] = ...": "x[where if found else ...] = found[0][where] if found else 0"},
            ),
            "dropping_in_a_run": (
                "Your result depends on chance: the model drops activations, because it is in training mode.",
                {"model.eval()": "pass"},
            ),
            "mode_left_after_a_patch": (
                "Your logits are right, but the model is in evaluation mode afterwards.",
                {"one.training = training": "pass"},
            ),
            "one_mode_after_a_patch": (
                "Your logits are right, but afterwards all modules have the mode of the model. Some parts had a different mode.",
                {"one.training = training": "model.train(modes[0][1])"},
            ),
            "patch_left": (
                "Your logits are right, but a hook is still there: the next call of the model is patched, too.",
                {
                    "with module.register_forward_pre_hook(record): _": "module.register_forward_pre_hook(record)\n_",
                    "with module.register_forward_pre_hook(replace): _": "module.register_forward_pre_hook(replace)\n_",
                },
            ),
            "nothing_undone_after_an_error": (
                "Your logits are right, but if a run raises, you do not clean up: a hook is still there, and the model is in evaluation mode.",
                {
                    "one.training = training": "pass",
                    "with module.register_forward_pre_hook(record): _": "hook = module.register_forward_pre_hook(record)\n_\nhook.remove()",
                    "with module.register_forward_pre_hook(replace): return model(tokens)": "hook = module.register_forward_pre_hook(replace)\nlogits = model(tokens)\nhook.remove()\nfor one, training in modes:\n    one.training = training\nreturn logits",
                },
            ),
        },
    ),
    *of(
        "prefix_matching_score",
        {
            "same_token": (
                "You add up the weights on earlier places of the *same* token. An induction head attends one place further, to the token that followed, and "
                "predicts that token.",
                {"earlier.roll(1, dims=2)": "earlier"},
            ),
            "matches_itself": (
                "You count each token as an earlier occurrence of itself. Only positions s before t count.",
                {"_.tril(-1)": "_.tril()"},
            ),
            "place_before": (
                "You add up the weights on the tokens *before* the earlier places. Add up the weights on the tokens after them.",
                {"earlier.roll(1, dims=2)": "earlier.roll(-1, dims=2)"},
            ),
            "latest_alone": (
                "You count only the latest earlier place of a token. Add up the weights on the tokens after all of them.",
                {"earlier.roll(1, dims=2)": "(earlier & (earlier.cumsum(dim=2) == earlier.sum(dim=2, keepdim=True))).roll(1, dims=2)"},
            ),
            "first_alone": (
                "You count only the first place of a token. Add up the weights on the tokens after all earlier places.",
                {"earlier.roll(1, dims=2)": "(earlier & (earlier.cumsum(dim=2) == 1)).roll(1, dims=2)"},
            ),
            "own_place_left_out": (
                "You leave out the token's own place. If a token is the same as the token before it, its own place is the one after an earlier place.",
                {"earlier.roll(1, dims=2)": "earlier.roll(1, dims=2).tril(-1)"},
            ),
            "mean_over_all": (
                "You divide by the number of all tokens. Tokens that occur for the first time have nothing to match, so a perfect head would score less than "
                "1.",
                {"count = ...": "count = tokens.numel()"},
            ),
            "mean_over_pairs": (
                "You divide by the number of all pairs of equal tokens. A head divides its weight among the earlier places, so add up these weights, and "
                "divide by the number of repeated tokens.",
                {"count = ...": "count = earlier.sum().clamp(min=1)"},
            ),
            "mean_over_rows": (
                "You take the mean of each row first, and then the mean of these. Each repeated token should count the same, so a row with more repeated "
                "tokens should count more.",
                {"matched.sum(dim=(0, 2)) / count": "(matched.sum(dim=2) / earlier.any(dim=2).sum(dim=1, keepdim=True).clamp(min=1)).mean(dim=0)"},
            ),
            "transposed": (
                "You read the weights by columns, which show what attends *to* a token. Row t holds the weights with which position t attends.",
                {"weights * wanted.unsqueeze(1)": "weights.mT * wanted.unsqueeze(1)"},
            ),
            "nan_if_nothing": (
                "If no token is repeated, you return NaN. Return a score of 0.",
                {"_.clamp(min=1)": "_"},
            ),
        },
    ),
]
