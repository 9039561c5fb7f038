"""Weights in eight bits: a matrix of integers, and one number a row that says what a step of them is.

A weight of float32 has 32 bits, and a trained model hardly needs eight of them to give its answers. Each row
of a matrix is measured by a ruler of its own, whose 127th mark is the row's largest weight; what is kept
of a weight is the mark nearest to it. A quarter of the bytes has to be stored, sent and read, and nothing has
to be trained again. Inputs and sums stay real numbers (weight-only quantisation).

    quantize_int8, dequantize   there, and back
    QuantizedLinear             what stands for an `nn.Linear`
    QuantizedEmbedding          what stands for an `nn.Embedding`, and for the head that is tied to it
    quantize_model(model)       a copy of a model with these in place of those
    bytes_of(model)             what its tensors take up

`onnx_export.py` writes such a model, or any other, to a file that runs without this code.

From symbols to names
    W               weight, `(out, in)`: row i makes output i
    q               quantized, `(out, in)`, int8
    s               scale, `(out, 1)`, one for each row: the width of a step
    Ŵ               the dequantised weights, s · q
    x, b            input, bias
    V, d_model      rows of an embedding, and their width
"""

import copy

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn

# --- Day 40 · Eight bits --------------------------------------------------------------------------


def quantize_int8(
    weight: Float[Tensor, "out in"],
) -> tuple[Int8[Tensor, "out in"], Float[Tensor, "out 1"]]:
    """Round each row of a matrix to integers from −127 to 127, times a scale of the row's own.

        sᵢ = maxⱼ |Wᵢⱼ| / 127,    qᵢⱼ = round(Wᵢⱼ / sᵢ)

    0 stays 0, and −w becomes −q (symmetric: there is no offset). −128 is left out, which has no
    counterpart. No weight is off by more than half a step: |Wᵢⱼ − sᵢ qᵢⱼ| ≤ sᵢ / 2, to rounding.

    Args:
        weight: W, `(out, in)`, float16, bfloat16, float32 or float64; in is at least 1, and out may be
            0. It may be a parameter, and stays as it is.

    Returns:
        q and s, in that order, on the device of `weight`. q is int8 `(out, in)`: the nearest integers, and
        where two are equally near, the even one, as `torch.round` does. s is `(out, 1)`, positive; float64
        where `weight` is, else float32, also for halves, whose quotients are computed in float32. A row of
        zeros has scale 1 and zeros. (So has a row whose scale would be below the smallest normal number,
        10⁻³⁸ in float32.) Neither has a gradient, or a history.

    Raises:
        ValueError: not two axes, no columns, no floating-point numbers, or infinity or NaN among them.

    Source: Wu et al. 2020, *Integer Quantization for Deep Learning Inference*, §3.1.2 (scale quantization,
    whose s is 1/s here) and §3.2 (a scale for each row); s as a step's width: Jacob et al. 2018,
    *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference*, eq. 1.
    """
    if weight.dim() != 2 or weight.size(1) < 1:
        raise ValueError(
            f"weight must be (out, in) with at least one column, and has shape {tuple(weight.shape)}"
        )
    if not weight.is_floating_point():
        raise ValueError(f"weight must be of floating-point numbers, not {weight.dtype}")
    if not weight.isfinite().all():
        raise ValueError("weight must be finite, and holds infinity or NaN")
    # 1. Leave the history behind, and widen halves.
    wide = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))  # (out, in)
    # 2. A row's scale: its largest magnitude is to become 127. Where all is 0, it is 1.
    scale = wide.abs().amax(dim=1, keepdim=True) / 127  # (out, 1)
    scale = scale.masked_fill(scale < torch.finfo(scale.dtype).tiny, 1.0)  # (out, 1)
    # 3. Count in steps of the scale, and round. None can be beyond 127: nothing has to be cut off.
    return (wide / scale).round().to(torch.int8), scale  # (out, in), (out, 1)


def dequantize(
    quantized: Int8[Tensor, "*rows width"], scale: Float[Tensor, "*rows 1"]
) -> Float[Tensor, "*rows width"]:
    """The weights that the integers stand for.

        Ŵᵢⱼ = sᵢ qᵢⱼ

    Args:
        quantized: q, int8 `(…, in)`, most often `(out, in)`; any axis may be 0.
        scale: s, `(…, 1)`: one for each row.

    Returns:
        Ŵ, of q's shape and the dtype of `scale`. Gradients reach `scale`.

    Raises:
        ValueError: `quantized` is not int8, or `scale` is not q's shape with a last axis of 1.

    Source: Wu et al. 2020, §3.1.2; Jacob et al. 2018, eq. 1, with no offset.
    """
    if quantized.dtype != torch.int8:
        raise ValueError(f"quantized must be int8, not {quantized.dtype}")
    if scale.shape != (*quantized.shape[:-1], 1):
        raise ValueError(
            f"scale must be {(*quantized.shape[:-1], 1)}, one for each row, and has shape "
            f"{tuple(scale.shape)}"
        )
    # 1. From marks to real numbers, each row by its own ruler.
    return quantized.to(scale.dtype) * scale  # (…, in)


class QuantizedLinear(nn.Module):
    """What stands for an `nn.Linear` whose weights are kept in eight bits.

        y = (x qᵀ) · s + b,    which is x Ŵᵀ + b

    The scale belongs to an output, and so waits until the sum over the inputs is done: `out` products more,
    instead of `out · in`.

    Args:
        linear: the `nn.Linear` that it is made from. It stays as it is, and nothing of it is kept: what
            later becomes of its weights and bias does not show here.

    Attributes:
        quantized: q, int8 `(out, in)`, a buffer.
        scale: s, `(out, 1)`, as `quantize_int8` gives it, a buffer.
        bias: a copy of the linear layer's, `(out,)`, in its dtype, a buffer; None where it has none.
        weight: Ŵ, `(out, in)`, made anew each time it is asked for. (A property: some models multiply by
            a layer's matrix themselves.)

        The first three stand in the state dict, the bias only where there is one, and nothing else. There are
        no parameters. No tensor of real numbers as large as the weights is kept: one is made anew in each
        call, and gone after it.

    Raises:
        ValueError: as `quantize_int8` does.

    Source: Wu et al. 2020, §3.2: a scale for each row of the weights can be taken out of the sum.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # 1. Quantise the weights, and copy the bias. Buffers: they are saved, and not trained.
        quantized, scale = quantize_int8(linear.weight)  # (out, in), (out, 1)
        bias = None if linear.bias is None else linear.bias.detach().clone()  # (out,)
        self.register_buffer("quantized", quantized)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """Ŵ, as `dequantize` gives it, in the dtype of `scale`."""
        # 1. Back to real numbers.
        return dequantize(self.quantized, self.scale)  # (out, in)

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        """From `(…, in)` to `(…, out)`, with any leading axes, or none; each may be 0.

        Returns:
            What `F.linear(x, dequantize(quantized, scale), bias)` gives, to rounding, in the dtype of `x`.
            float16 and bfloat16 are computed in float32: sums of x q go beyond float16's 65504 where the
            outputs do not. float64 is computed in float64. Gradients reach `x`. The scale and the bias may be
            of another dtype than x, as after `module.half()`.
        """
        # 1. Sum over the inputs, by the integers as they are. Halves are widened first.
        wide = torch.promote_types(x.dtype, torch.float32)
        sums = F.linear(x.to(wide), self.quantized.to(wide))  # (…, out)
        # 2. Each output by its own scale, then the bias, and back to the dtype of x.
        y = sums * self.scale.to(wide).squeeze(-1)  # (…, out)
        if self.bias is not None:
            y = y + self.bias.to(wide)  # (…, out)
        return y.to(x.dtype)


# --- A whole model --------------------------------------------------------------------------------


class QuantizedEmbedding(nn.Module):
    """What stands for an `nn.Embedding` whose table is kept in eight bits, a scale for each token.

    Args:
        embedding: the `nn.Embedding` that it is made from.

    Attributes:
        quantized: q, int8 `(V, d_model)`, a buffer.
        scale: s, `(V, 1)`, in the dtype of the embedding's weight, a buffer.
        weight: Ŵ, `(V, d_model)`, made anew each time it is asked for: where the head is tied, as GPT's is,
            the model multiplies by it, and a row of the table is a row of the head.
        num_embeddings: V.

    Raises:
        ValueError: as `quantize_int8` does.
    """

    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        quantized, scale = quantize_int8(embedding.weight)  # (V, d_model), (V, 1)
        self.register_buffer("quantized", quantized)
        self.register_buffer("scale", scale.to(embedding.weight.dtype))
        self.num_embeddings = embedding.num_embeddings

    @property
    def weight(self) -> Float[Tensor, "V d_model"]:
        """The whole table, dequantised."""
        return dequantize(self.quantized, self.scale)  # (V, d_model)

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d_model"]:
        """From tokens `(…)` to their rows `(…, d_model)`; only these are dequantised."""
        return dequantize(self.quantized[tokens], self.scale[tokens])  # (…, d_model)


def quantize_model(model: nn.Module) -> nn.Module:
    """A copy of a model with every `nn.Linear` and `nn.Embedding` inside it in eight bits.

    Args:
        model: such as a `GPT`, a `LLaMA`, or an `EncoderDecoder`. It stays as it is. What it holds beside
            these two kinds, norms above all, is copied in its dtype.

    Returns:
        The copy, with the same names of modules, a `QuantizedLinear` or `QuantizedEmbedding` for each. Where
        two layers share a matrix, as the embedding and the head of the paper's model do, they share its
        integers. It is no longer to be trained. Its state dict loads into `quantize_model` of any model
        of that kind, whatever weights that has.

    Raises:
        ValueError: as `quantize_int8` does.
    """
    model = copy.deepcopy(model)
    kept: dict[Tensor, Tensor] = {}  # a matrix and its integers
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.Linear):
            small: nn.Module = QuantizedLinear(module)
        elif isinstance(module, nn.Embedding):
            small = QuantizedEmbedding(module)
        else:
            continue
        small.train(module.training)
        small.quantized = kept.setdefault(module.weight, small.quantized)
        model.set_submodule(name, small)
    return model


def bytes_of(model: nn.Module) -> int:
    """How many bytes the tensors of a model's state dict take up, shared ones counted once."""
    memory = (tensor.untyped_storage() for tensor in model.state_dict().values())
    return sum({one.data_ptr(): one.nbytes() for one in memory}.values())
