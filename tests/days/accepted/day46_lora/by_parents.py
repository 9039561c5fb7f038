"""Products written out, modules found from their parents, and a merged weight measured from outside."""

import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha=16.0):
        super().__init__()
        self.register_parameter("weight", linear.weight)
        self.register_parameter("bias", linear.bias)
        for one in self.parameters():
            one.requires_grad = False
        d_in = self.weight.size(1)
        self.a = nn.Parameter(torch.empty_like(self.weight[:1]).repeat(rank, 1))
        self.b = nn.Parameter(torch.zeros_like(self.weight[:, :1]).repeat(1, rank))
        nn.init.normal_(self.a, std=1 / math.sqrt(d_in))
        self.rank, self.alpha = rank, alpha

    def forward(self, x):
        small = torch.einsum("...i,ri->...r", x, self.a) * (self.alpha / self.rank)
        y = x @ self.weight.T + small @ self.b.T
        return y if self.bias is None else y + self.bias


def each(module):
    """Parents, names and children, in depth."""
    for name, child in list(module.named_children()):
        yield module, name, child
        yield from each(child)


def add_lora(model, rank, names, alpha=16.0):
    for one in model.parameters():
        one.requires_grad = False
    for parent, name, child in list(each(model)):
        if name in names and isinstance(child, nn.Linear):
            setattr(parent, name, LoRALinear(child, rank, alpha))


def merge_lora(model):
    for parent, name, child in list(each(model)):
        if isinstance(child, LoRALinear):
            with torch.no_grad():
                eye = torch.eye(child.weight.size(1)).to(child.weight)
                weight = (child(eye) - child(torch.zeros_like(eye[:1]))).T.contiguous()
            plain = nn.Linear(*weight.T.shape, bias=child.bias is not None)
            plain.weight = nn.Parameter(weight, requires_grad=False)
            plain.bias = child.bias
            setattr(parent, name, plain)
