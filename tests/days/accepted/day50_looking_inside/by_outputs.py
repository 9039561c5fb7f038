"""Hooks on outputs, a mask for the patch, and einsum."""

from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def undisturbed(model):
    """Within it, the model is in evaluation mode, and hooks that are given to the stack are removed later."""
    with ExitStack() as stack, torch.no_grad():
        for one in model.modules():
            stack.callback(setattr, one, "training", one.training)
        for one in model.modules():
            one.training = False
        yield stack


def logit_lens(model, tokens):
    with undisturbed(model) as stack:
        kept = []
        first = model.dropout if hasattr(model, "dropout") else model.embed
        for part in [first, *model.blocks]:
            hook = part.register_forward_hook(lambda _, __, out: kept.append(out.clone()))
            stack.callback(hook.remove)
        model(tokens)
        output = getattr(model, "head", model.embed)
        return torch.stack([model.norm(x) @ output.weight.mT for x in kept])


def patch_activation(model, tokens, source, module, where=...):
    with undisturbed(model) as stack:
        seen = []

        def hook(_, given):
            first = given[0]
            seen.append(first)
            if source is not None and len(seen) == 1:
                return None
            mask = torch.zeros_like(first, dtype=torch.bool)
            mask[where] = True
            other = seen[0] if len(seen) == 2 else torch.zeros_like(first)
            return torch.where(mask, other, first), *given[1:]

        handle = module.register_forward_pre_hook(hook, prepend=True)
        stack.callback(handle.remove)
        if source is not None:
            model(source)
        return model(tokens)


def prefix_matching_score(weights, tokens):
    t = torch.arange(tokens.shape[1], device=tokens.device)
    same = tokens[:, :, None] == tokens[:, None, :]
    same = (same & (t[:, None] > t)).to(weights.dtype)
    after = torch.zeros_like(same)
    after[:, :, 1:] = same[:, :, :-1]
    repeated = same.sum(-1) > 0
    found = torch.einsum("bhts,bts->h", weights, after)
    return found / repeated.sum() if repeated.any() else torch.zeros_like(found)
