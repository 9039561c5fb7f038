"""Weight-only quantization: int8 weights with one scale per row, for a quarter of the memory of float32.

The scale maps a row's largest weight to 127, and every weight is rounded to the nearest integer. Inputs and
sums remain floating-point numbers, and nothing is retrained. `onnx_export.py` writes such a model to a file
that runs without this code.

From symbols to names
    W               weight, `(out, in)`: row i computes output i
    q               quantized, `(out, in)`, int8
    s               scale, `(out, 1)`, one per row: the step between adjacent integers
    Ŵ               the dequantized weights, s · q
    x, b            input, bias
    V, d_model      rows of an embedding matrix, and their width
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
    """Quantize each row of a matrix to integers from −127 to 127; return them and their scales.

        sᵢ = maxⱼ |Wᵢⱼ| / 127,    qᵢⱼ = round(Wᵢⱼ / sᵢ)

    The quantization is symmetric: there is no offset. No weight is off by more than half a step, sᵢ / 2.

    Raises:
        ValueError: `weight` is not a matrix with columns, not floating-point, or not finite.

    Source: Wu et al. 2020, *Integer Quantization for Deep Learning Inference*, §3.1.2 (whose s is 1/s here)
    and §3.2 (a scale per row); s as a step: Jacob et al. 2018, *Quantization and Training of Neural
    Networks for Efficient Integer-Arithmetic-Only Inference*, eq. 1.
    """
    if weight.dim() != 2 or weight.size(1) < 1:
        raise ValueError(f"weight must be (out, in), in at least 1, got {tuple(weight.shape)}")
    if not weight.is_floating_point():
        raise ValueError(f"weight must be floating-point, got {weight.dtype}")
    if not weight.isfinite().all():
        raise ValueError("weight must be finite, got infinity or NaN")
    # 1. Detach the weights, and upcast half precision.
    wide = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))  # (out, in)
    # 2. Compute the scale that maps the largest magnitude of a row to 127. A row of zeros has scale 1.
    scale = wide.abs().amax(dim=1, keepdim=True) / 127  # (out, 1)
    scale = scale.masked_fill(scale < torch.finfo(scale.dtype).tiny, 1.0)  # (out, 1)
    # 3. Divide by the scale, and round. No result can exceed 127, so nothing has to be clipped.
    return (wide / scale).round().to(torch.int8), scale  # (out, in), (out, 1)


def dequantize(
    quantized: Int8[Tensor, "*rows width"], scale: Float[Tensor, "*rows 1"]
) -> Float[Tensor, "*rows width"]:
    """Return the weights that the integers represent, in the dtype of `scale`.

        Ŵᵢⱼ = sᵢ qᵢⱼ

    Raises:
        ValueError: `quantized` is not int8, or `scale` is not q's shape with a last axis of 1.

    Source: Wu et al. 2020, §3.1.2; Jacob et al. 2018, eq. 1, with no offset.
    """
    if quantized.dtype != torch.int8:
        raise ValueError(f"quantized must be int8, got {quantized.dtype}")
    if scale.shape != (*quantized.shape[:-1], 1):
        raise ValueError(f"scale must be {(*quantized.shape[:-1], 1)}, got {tuple(scale.shape)}")
    # 1. Convert the integers, and multiply each row by its scale.
    return quantized.to(scale.dtype) * scale  # (…, in)


class QuantizedLinear(nn.Module):
    """Replace an `nn.Linear` by one whose weights are int8.

        y = (x qᵀ) · s + b,    which is x Ŵᵀ + b

    A row's scale is the same for all inputs, so it multiplies the sum: `out` more products instead of
    `out · in`.

    Source: Wu et al. 2020, §3.2.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # 1. Quantize the weights, and copy the bias. Buffers are saved, but not trained.
        quantized, scale = quantize_int8(linear.weight)  # (out, in), (out, 1)
        bias = None if linear.bias is None else linear.bias.detach().clone()  # (out,)
        self.register_buffer("quantized", quantized)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """Return Ŵ, in the dtype of `scale`."""
        # 1. Dequantize.
        return dequantize(self.quantized, self.scale)  # (out, in)

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        """Map `(…, in)` to `(…, out)`, in the dtype of `x`; half-precision inputs are computed in float32."""
        # 1. Multiply by the integers, and sum over the inputs. Upcast half precision first.
        wide = torch.promote_types(x.dtype, torch.float32)
        sums = F.linear(x.to(wide), self.quantized.to(wide))  # (…, out)
        # 2. Multiply each output by its scale, add the bias, and return to the dtype of x.
        y = sums * self.scale.to(wide).squeeze(-1)  # (…, out)
        if self.bias is not None:
            y = y + self.bias.to(wide)  # (…, out)
        return y.to(x.dtype)


# --- An entire model --------------------------------------------------------------------------------


class QuantizedEmbedding(nn.Module):
    """Replace an `nn.Embedding` by one whose matrix is int8, with a scale per token.

    A tied output head, such as GPT's, multiplies by `weight`, which is Ŵ.
    """

    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        quantized, scale = quantize_int8(embedding.weight)  # (V, d_model), (V, 1)
        self.register_buffer("quantized", quantized)
        self.register_buffer("scale", scale.to(embedding.weight.dtype))
        self.num_embeddings = embedding.num_embeddings

    @property
    def weight(self) -> Float[Tensor, "V d_model"]:
        """Return Ŵ, the full embedding matrix."""
        return dequantize(self.quantized, self.scale)  # (V, d_model)

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d_model"]:
        """Return the embeddings of tokens; only their rows are dequantized."""
        return dequantize(self.quantized[tokens], self.scale[tokens])  # (…, d_model)


def quantize_model(model: nn.Module) -> nn.Module:
    """Return a copy of a model whose `nn.Linear` and `nn.Embedding` layers are int8, for inference only.

    Everything else, such as norms, keeps its dtype. Layers that share a matrix share its integers. The copy's
    state dict loads into `quantize_model` of any model with the same architecture.

    Raises:
        ValueError: a weight is not finite.
    """
    model = copy.deepcopy(model)
    quantized: dict[Tensor, Tensor] = {}  # by weight matrix
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.Linear):
            small: nn.Module = QuantizedLinear(module)
        elif isinstance(module, nn.Embedding):
            small = QuantizedEmbedding(module)
        else:
            continue
        small.train(module.training)
        small.quantized = quantized.setdefault(module.weight, small.quantized)
        model.set_submodule(name, small)
    return model


def bytes_of(model: nn.Module) -> int:
    """Return the number of bytes of a model's state dict, counting shared tensors once."""
    memory = (tensor.untyped_storage() for tensor in model.state_dict().values())
    return sum({storage.data_ptr(): storage.nbytes() for storage in memory}.values())
