"""PyTorch's own backward pass of softmax, and autograd for the matrix products around it."""

import math

import torch


def softmax_backward(grad_weights, weights):
    return _of_softmax(torch.tensor(grad_weights), torch.tensor(weights)).numpy()


def attention_backward(grad_output, query, key, value, weights):
    query, key, value, weights = (
        torch.tensor(x, requires_grad=True) for x in (query, key, value, weights)
    )
    grad_weights, grad_value = torch.autograd.grad(
        weights @ value, (weights, value), torch.tensor(grad_output)
    )
    scores = query @ key.mT / math.sqrt(query.size(-1))
    grad_scores = _of_softmax(grad_weights, weights.detach())
    grad_query, grad_key = torch.autograd.grad(scores, (query, key), grad_scores)
    return grad_query.numpy(), grad_key.numpy(), grad_value.numpy()


def _of_softmax(grad_weights, weights):
    return torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
