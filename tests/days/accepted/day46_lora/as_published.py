"""A linear layer with two more parameters, an A from a uniform distribution, and merging into a copy."""

import torch
from torch import nn
from torch.nn import functional as F


class LoRALinear(nn.Linear):
    def __init__(self, linear, rank, alpha=16.0):
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.requires_grad_(False)
        like = {"dtype": self.weight.dtype, "device": self.weight.device}
        bound = (3 / self.in_features) ** 0.5
        self.a = nn.Parameter(torch.empty(rank, self.in_features, **like).uniform_(-bound, bound))
        self.b = nn.Parameter(torch.zeros(self.out_features, rank, **like))
        self.scaling = alpha / rank

    def forward(self, x):
        return super().forward(x) + F.linear(F.linear(x, self.a), self.scaling * self.b)


def add_lora(model, rank, names, alpha=16.0):
    paths = [
        path
        for path, module in model.named_modules()
        if type(module) is nn.Linear and path.split(".")[-1] in names
    ]
    for path in paths:
        parent, _, last = path.rpartition(".")
        setattr(
            model.get_submodule(parent), last, LoRALinear(model.get_submodule(path), rank, alpha)
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith((".a", ".b")))


def merge_lora(model):
    for path, module in list(model.named_modules()):
        if type(module) is not LoRALinear:
            continue
        update = module.scaling * (module.b.detach() @ module.a.detach())
        state = {"weight": module.weight.detach() + update}
        if module.bias is not None:
            state["bias"] = module.bias
        plain = torch.nn.utils.skip_init(
            nn.Linear, module.in_features, module.out_features, bias="bias" in state
        ).to(update)
        plain.load_state_dict(state)
        parent, _, last = path.rpartition(".")
        setattr(model.get_submodule(parent), last, plain)
