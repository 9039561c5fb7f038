"""As flash attention does it: the weighted mean is the dot product of the output with its gradient."""

import math

import numpy as np


def softmax_backward(grad_weights, weights):
    weighted = weights * grad_weights
    return weighted - weights * np.sum(weighted, axis=-1)[..., None]


def attention_backward(grad_output, query, key, value, weights):
    output = np.matmul(weights, value)
    mean = np.sum(grad_output * output, axis=-1, keepdims=True)
    grad_scores = weights * (np.matmul(grad_output, np.moveaxis(value, -1, -2)) - mean)
    root = math.sqrt(query.shape[-1])
    grad_query = np.matmul(grad_scores, key / root)
    grad_key = np.moveaxis(np.matmul(np.moveaxis(query / root, -1, -2), grad_scores), -1, -2)
    return grad_query, grad_key, np.matmul(np.moveaxis(weights, -1, -2), grad_output)
