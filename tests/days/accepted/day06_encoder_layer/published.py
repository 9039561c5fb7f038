"""PyTorch's own layer norm, linear layers, and encoder layer with the weights copied over."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def layer_norm(x, gain, bias, eps=1e-5):
    x, gain, bias = map(torch.tensor, (x, gain, bias))
    return F.layer_norm(x, gain.shape, gain, bias, eps).numpy()


def feed_forward(x, w_1, b_1, w_2, b_2):
    x, w_1, b_1, w_2, b_2 = map(torch.tensor, (x, w_1, b_1, w_2, b_2))
    return F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2).numpy()


def encoder_layer(x, params, h, mask=None):
    d_model, d_ff = params["w_1"].shape
    weights = {name: torch.tensor(weight.T) for name, weight in params.items()}
    x = torch.tensor(x)
    layer = nn.TransformerEncoderLayer(
        d_model, h, d_ff, dropout=0.0, batch_first=True, dtype=x.dtype
    )
    state = {
        "self_attn.in_proj_weight": torch.cat([weights[f"w_{name}"] for name in "qkv"]),
        "self_attn.in_proj_bias": torch.cat([weights[f"b_{name}"] for name in "qkv"]),
        "self_attn.out_proj.weight": weights["w_o"],
        "self_attn.out_proj.bias": weights["b_o"],
    }
    for i in (1, 2):
        state |= {f"linear{i}.weight": weights[f"w_{i}"], f"linear{i}.bias": weights[f"b_{i}"]}
        state |= {f"norm{i}.weight": weights[f"gain_{i}"], f"norm{i}.bias": weights[f"bias_{i}"]}
    layer.load_state_dict(state)
    if mask is not None:  # PyTorch's is True at what is hidden, and has a row for each head
        mask = np.broadcast_to(mask, (len(x), x.shape[1], x.shape[1]))
        mask = ~torch.tensor(mask).repeat_interleave(h, dim=0)
    return layer(x, src_mask=mask).detach().numpy()
