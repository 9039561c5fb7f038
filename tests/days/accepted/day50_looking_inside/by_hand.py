"""The model's steps one by one, a method that is replaced for a while, and loops over tokens."""

import torch

from variants.llama import rotation_of


def quietly(model, call):
    """Call without dropout, and restore each module's mode."""
    training = {name for name, one in model.named_modules() if one.training}
    try:
        model.eval()
        with torch.no_grad():
            return call()
    finally:
        for name, one in model.named_modules():
            one.training = name in training


def logit_lens(model, tokens):
    x, further = model.embed(tokens), ()
    if hasattr(model, "positions"):
        x = x + model.positions.weight[: tokens.shape[1]]
    else:
        further = (None, 0, rotation_of(model.blocks[0].self_attn, 0, x))
    weights = dict(model.named_parameters())
    output = weights.get("head.weight", weights["embed.weight"])

    def all_layers():
        found = [x]
        for block in model.blocks:
            found.append(block(found[-1], *further))
        return torch.stack([model.norm(one) @ output.T for one in found])

    return quietly(model, all_layers)


def patch_activation(model, tokens, source, module, where=...):
    forward, kept = module.forward, {}

    def recording(x, *others):
        kept["x"] = x
        return forward(x, *others)

    def replacing(x, *others):
        x = torch.clone(x)
        x[where] = torch.zeros_like(x[where]) if source is None else kept["x"][where]
        return forward(x, *others)

    def both_runs():
        try:
            if source is not None:
                module.forward = recording
                model(source)
            module.forward = replacing
            return model(tokens)
        finally:
            vars(module).pop("forward", None)

    return quietly(model, both_runs)


def prefix_matching_score(weights, tokens):
    total, count = torch.zeros_like(weights[0, :, 0, 0]), 0
    for row, attended in zip(tokens.tolist(), weights, strict=True):
        for t, token in enumerate(row):
            after = [s + 1 for s in range(t) if row[s] == token]
            if after:
                total = total + attended[:, t, after].sum(-1)
                count += 1
    return total / max(count, 1)
