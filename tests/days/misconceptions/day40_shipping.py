"""Day 40: what goes wrong with eight bits: whose scale, which marks, what is kept, what overflows."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "quantize_int8",
        {
            "small_number_added": (
                "You add a small number to every scale, so that no scale is 0. All steps are then slightly too wide. Only a row of zeros needs special "
                "treatment.",
                {"scale = scale.masked_fill(..., 1.0)": "scale = scale + 1e-8"},
            ),
            # --- whose scale it is
            "scale_of_the_whole_matrix": (
                "You compute one scale for the whole matrix. A single large weight then makes the steps wide for all rows. Each row should have its own scale.",
                {"wide.abs().amax(dim=1, keepdim=True)": "wide.abs().amax().expand(len(wide), 1)"},
            ),
            "scale_of_a_column": (
                "You compute one scale per column, which is one per input. Scales belong to rows, the outputs: only then can you multiply by the scale after "
                "the sum.",
                {"dim=1": "dim=0"},
            ),
            "scale_without_its_axis": (
                "Your scale has the shape (out,). Keep the last axis, (out, 1), so that the scale of a row applies to this row when you multiply.",
                {"return _, scale": "return _, scale.squeeze(1)"},
            ),
            # --- how wide a step is
            "largest_without_its_magnitude": (
                "You take the largest weight of a row, not the largest magnitude. The weight with the largest magnitude can be negative, and would then be "
                "outside the range of int8.",
                {"wide.abs()": "wide"},
            ),
            "by_128": (
                "You divide by 128. If the weight with the largest magnitude is positive, it becomes 128, which int8 cannot represent: it wraps around to −128.",
                {"scale = _ / 127": "scale = _ / 128"},
            ),
            "all_256_values": (
                "Your scale is the largest magnitude / 127.5, which uses all 256 values, as PyTorch's observers do by default. Here there are 255 values, "
                "from −127 to 127, so that the range is symmetric around 0.",
                {"scale = _ / 127": "scale = _ / 127.5", "_.round()": "_.round().clamp(-128, 127)"},
            ),
            "largest_for_scale": (
                "Your integers are right, but you return the row's largest magnitude instead of the scale. The scale is the width of one step, so that "
                "integer times scale is the weight.",
                {"return _, scale": "return _, scale * 127"},
            ),
            # --- which step is nearest
            "towards_zero": (
                "You cut off the digits after the decimal point, which is what a conversion to int8 does by default. A weight can then be off by almost a "
                "whole step, always towards 0. Round first.",
                {"_.round()": "_"},
            ),
            "ties_away_from_zero": (
                "Halfway between two integers, you round away from 0, as taught in school. `torch.round` rounds to the even integer, so that ties do not all "
                "go in the same direction.",
                {"_.round()": "(_.abs() + 0.5).floor().copysign(wide)"},
            ),
            # --- rows of zeros
            "zero_by_zero": (
                "For a row of zeros, the scale that you return is 0, or close to 0. Any positive scale would do, because the integers are 0. Use 1.",
                {"scale = scale.masked_fill(..., 1.0)": ""},
            ),
            # --- what comes out
            "scale_first": (
                "You return the scale first. Return the integers first, then the scale, the order in which `dequantize` takes them.",
                {"return _, scale": "return scale, _"},
            ),
            "history_kept": (
                "Your scale is still connected to the parameter and requires grad. Detach it: a quantized weight is not trained.",
                {"weight.detach()": "weight"},
            ),
            "weight_changed": (
                "You change the weight that was passed in. Leave it unchanged: write the quotient into a new tensor.",
                {"wide / scale": "weight.detach().div_(scale)"},
            ),
            "scale_in_halves": (
                "Your scale has the dtype of the weight. Keep it at least in float32: it is one number per row, and all weights of the row are multiples of "
                "it.",
                {"return _, scale": "return _, scale.to(weight.dtype)"},
            ),
        },
    ),
    *of(
        "dequantize",
        {
            # --- and back
            "divided_on_the_way_back": (
                "You divide by the scale. The scale is the width of a step and the integer counts the steps, so multiply.",
                {"_ * scale": "_ / scale"},
            ),
            "offset_on_the_way_back": (
                "You subtract 128 from the integers, as for unsigned integers. These integers have a sign, and 0 stands for 0.",
                {"_ * scale": "(_ - 128) * scale"},
            ),
            "back_to_float32": (
                "Your weights are always float32, whatever the dtype of the scale is. They should have the dtype of the scale.",
                {"return ...": "return quantized.float() * scale.float()"},
            ),
            "scale_detached": (
                "No gradient reaches the scale, because you detach it or compute under `no_grad`.",
                {"_ * scale": "_ * scale.detach()"},
            ),
        },
    ),
    *of(
        "QuantizedLinear",
        {
            "bias_handed_over_as_it_is": (
                "You pass the bias to the product in its own dtype, but PyTorch requires the dtype of the sums. After `module.half()`, or for inputs in half "
                "precision, the two differ. Cast the bias to the dtype of the sums.",
                {"sums = ...": "sums = F.linear(x.to(wide), self.weight.to(wide), self.bias)", "sums * ...": "sums", "if self.bias is not None:\n    _": ""},
            ),
            "weight_kept": (
                "You store the dequantized matrix once `weight` has been used. It takes four times the memory of the integers, is wrong after other weights "
                "are loaded, and a caller can write into it. Compute it in each call.",
                {"weight(): return _": "if 'kept' not in self.__dict__:\n    self.__dict__['kept'] = [_]\nreturn self.kept[0]"},
            ),
            # --- what a layer keeps
            "linear_kept": (
                "You store the linear layer itself, with all its weights, so you use five bytes per weight instead of four. Store only the integers, the "
                "scale, and a copy of the bias.",
                {"self.register_buffer('scale', scale)": "self.linear = linear\nself.register_buffer('scale', scale)"},
            ),
            "dequantised_once": (
                "After its first call, your module stores the dequantized weights to save time. Their memory is what quantization should save.",
                {"sums = _": "self.kept = self.quantized.to(wide)\nsums = _"},
            ),
            "scale_no_buffer": (
                "Your scale is not in the state dict: it is a plain attribute, or a buffer that is not persistent, so it is not saved with the model. "
                "Register it as a persistent buffer.",
                {"self.register_buffer('scale', scale)": "self.scale = scale"},
            ),
            "integers_not_saved": (
                "Your integers are not in the state dict: they are a plain attribute, or a buffer that is not persistent, so the model is saved without its "
                "weights.",
                {"self.register_buffer('quantized', quantized)": "self.register_buffer('quantized', quantized, persistent=False)"},
            ),
            "scale_a_parameter": (
                "Your scale is a parameter. Code that goes through the parameters, such as an optimizer, treats it as a number to be trained. Register it as "
                "a buffer.",
                {"self.register_buffer('scale', scale)": "self.scale = nn.Parameter(scale)"},
            ),
            "zeros_for_no_bias": (
                "If the linear layer has no bias, you store zeros. Your module should then have no bias either: `bias` is None, and not in the state dict.",
                {"None if ... else _": "linear.weight.new_zeros(len(quantized)) if linear.bias is None else _"},
            ),
            "linear_rounded_in_place": (
                "You write the rounded weights into the linear layer that was passed in. Leave it unchanged.",
                {"bias = _": "linear.weight.data.copy_(dequantize(quantized, scale))\nbias = _"},
            ),
            "weight_in_integers": (
                "Your `weight` returns the integers. It should return the real numbers that they stand for, as `dequantize` computes them.",
                {"dequantize(_, self.scale)": "_"},
            ),
            # --- what a layer computes
            "scale_forgotten": (
                "You multiply by the integers, but never by the scale, so your outputs count steps: each must be multiplied by the width of its row's step.",
                {"sums * ...": "sums"},
            ),
            "bias_scaled_too": (
                "You add the bias before you multiply by the scale. The bias is not a number of steps: add it last, unscaled.",
                {"sums * ...": "sums", "2: return _": "y = y * self.scale.to(wide).squeeze(-1)\nreturn _"},
            ),
            "bias_forgotten": (
                "You store the bias but do not add it.",
                {"y = y + self.bias.to(wide)": ""},
            ),
            "inputs_detached": (
                "Your outputs are right, but no gradient reaches the inputs: you detach them, or compute under `no_grad`. The weights are not trained, but "
                "layers before them can be.",
                {"x.to(wide)": "x.detach().to(wide)"},
            ),
            "sums_in_halves": (
                "You sum in the dtype of the inputs. Products with integers up to 127 are large: in float16 the sum overflows beyond 65504, even though the "
                "output would fit. Compute in float32 for half precision.",
                {"wide = ...": "wide = x.dtype"},
            ),
        },
    ),
]
