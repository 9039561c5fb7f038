"""One query after another: its row's Jacobian by `np.diag`, and outer products added up for key and value."""

import math

import numpy as np


def softmax_backward(grad_weights, weights):
    grad_scores = np.zeros_like(weights)
    for row in np.ndindex(*weights.shape[:-1]):
        w = weights[row]
        grad_scores[row] = (np.diag(w) - np.outer(w, w)) @ grad_weights[row]
    return grad_scores


def attention_backward(grad_output, query, key, value, weights):
    root = math.sqrt(key.shape[-1])
    grad_query, grad_key, grad_value = (np.zeros_like(array) for array in (query, key, value))
    for place in np.ndindex(*query.shape[:-1]):
        sequence = place[:-1]
        grad_scores = softmax_backward(value[sequence] @ grad_output[place], weights[place])
        grad_query[place] = grad_scores @ key[sequence] / root
        grad_key[sequence] += np.outer(grad_scores, query[place]) / root
        grad_value[sequence] += np.outer(weights[place], grad_output[place])
    return grad_query, grad_key, grad_value
