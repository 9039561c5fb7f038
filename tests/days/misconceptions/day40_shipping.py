"""Day 40: what goes wrong with eight bits: whose scale, which marks, what is kept, what overflows."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "quantize_int8",
        {
            "small_number_added": (
                "You add a small number to every scale, so that none is 0. Then all steps are a little too wide; only a row of zeros needs care.",
                {"scale = scale.masked_fill(..., 1.0)": "scale = scale + 1e-8"},
            ),
            # --- whose scale it is
            "scale_of_the_whole_matrix": (
                "You have one scale for the whole matrix. One large weight somewhere then makes the steps wide for all rows. Each row has a scale of its own.",
                {"wide.abs().amax(dim=1, keepdim=True)": "wide.abs().amax().expand(len(wide), 1)"},
            ),
            "scale_of_a_column": (
                "You have a scale for each column, that is, for each input. Scales belong to rows, the outputs: only they can wait until the sum is done.",
                {"dim=1": "dim=0"},
            ),
            "scale_without_its_axis": (
                "Your scale has the shape (out,). It keeps the last axis, (out, 1): so it applies to its row when the two are multiplied.",
                {"return _, scale": "return _, scale.squeeze(1)"},
            ),
            # --- how wide a step is
            "largest_without_its_magnitude": (
                "You take the largest weight of a row, not the largest magnitude. A row's largest may be negative, and would lie outside of what int8 can hold.",
                {"wide.abs()": "wide"},
            ),
            "by_128": (
                "You divide by 128. The largest weight becomes 128, which int8 does not have: it turns into −128, the opposite of what it was.",
                {"scale = _ / 127": "scale = _ / 128"},
            ),
            "all_256_values": (
                "Your scale is the largest magnitude / 127.5, so that all 256 values are used, as torch's observers do by themselves. Here they are 255, from −127 "
                "to 127: 0 in the middle, and both sides alike.",
                {"scale = _ / 127": "scale = _ / 127.5", "_.round()": "_.round().clamp(-128, 127)"},
            ),
            "largest_for_scale": (
                "Your integers are right, but what you return beside them is the row's largest magnitude. The scale is the width of one step, so that integer "
                "times scale is the weight.",
                {"return _, scale": "return _, scale * 127"},
            ),
            # --- which step is nearest
            "towards_zero": (
                "You cut the digits behind the point off: turning real numbers into int8 does that by itself. So a weight may be off by a whole step, always "
                "towards 0. Round first.",
                {"_.round()": "_"},
            ),
            "ties_away_from_zero": (
                "Halfway between two integers you go away from 0, as at school. `torch.round` takes the even one, so that ties do not all pull the same way.",
                {"_.round()": "(_.abs() + 0.5).floor().copysign(wide)"},
            ),
            # --- rows of zeros
            "zero_by_zero": (
                "Where a row is all zeros, the scale that you return is 0, or next to nothing. Any positive scale would do, since the integers are 0; use 1.",
                {"scale = scale.masked_fill(..., 1.0)": ""},
            ),
            # --- what comes out
            "scale_first": (
                "You return the scale first. First come the integers, then the scale, in the order in which `dequantize` takes them.",
                {"return _, scale": "return scale, _"},
            ),
            "history_kept": (
                "Your scale remembers the parameter that it came from, and asks for a gradient. Leave the history behind: what is quantized is not trained.",
                {"weight.detach()": "weight"},
            ),
            "weight_changed": (
                "You change the weight that you were given. It stays as it is: divide it into a new tensor.",
                {"wide / scale": "weight.detach().div_(scale)"},
            ),
            "scale_in_halves": (
                "Your scale has the dtype of the weight. It stays in float32 at least: it is one number a row, and each of the row's weights is a multiple of it.",
                {"return _, scale": "return _, scale.to(weight.dtype)"},
            ),
        },
    ),
    *of(
        "dequantize",
        {
            # --- and back
            "divided_on_the_way_back": (
                "You divide by the scale. It is the width of a step: the integer counts the steps, so multiply.",
                {"_ * scale": "_ / scale"},
            ),
            "offset_on_the_way_back": (
                "You shift the integers by 128, as unsigned ones would need it. These have a sign, and 0 stands for 0.",
                {"_ * scale": "(_ - 128) * scale"},
            ),
            "back_to_float32": (
                "Your weights come back in float32, whatever the scale is. They have the dtype of the scale.",
                {"return ...": "return quantized.float() * scale.float()"},
            ),
            "scale_detached": (
                "No gradient reaches the scale. You detach it, or compute without gradients.",
                {"_ * scale": "_ * scale.detach()"},
            ),
        },
    ),
    *of(
        "QuantizedLinear",
        {
            "bias_handed_over_as_it_is": (
                "You hand the bias to the product in its own dtype, and torch refuses another one than that of the sums. After `module.half()`, or for inputs in half precision, the two differ: take the sums' dtype.",
                {"sums = ...": "sums = F.linear(x.to(wide), self.weight.to(wide), self.bias)", "sums * ...": "sums", "if self.bias is not None:\n    _": ""},
            ),
            "weight_kept": (
                "You keep the dequantized matrix once `weight` was asked for. It takes four times the memory of the integers, goes out of date when others are loaded, and writing into it changes it. Compute it in each call.",
                {"weight(): return _": "if 'kept' not in self.__dict__:\n    self.__dict__['kept'] = [_]\nreturn self.kept[0]"},
            ),
            # --- what a layer keeps
            "linear_kept": (
                "You keep the linear layer itself, with all its weights: now there are five bytes a weight instead of four. Keep the integers, the scale, and a "
                "copy of the bias.",
                {"self.register_buffer('scale', scale)": "self.linear = linear\nself.register_buffer('scale', scale)"},
            ),
            "dequantized_once": (
                "After its first call your module keeps the dequantized weights, to save time. They are the memory that quantization should save.",
                {"sums = _": "self.kept = self.quantized.to(wide)\nsums = _"},
            ),
            "scale_no_buffer": (
                "Your scale is not in the state dict: it is a plain attribute, or a buffer that is not persistent, and is not saved with the model. Register "
                "it as a buffer.",
                {"self.register_buffer('scale', scale)": "self.scale = scale"},
            ),
            "integers_not_saved": (
                "Your integers are not in the state dict: they are a plain attribute, or a buffer that is not persistent, and the model is saved without its "
                "weights.",
                {"self.register_buffer('quantized', quantized)": "self.register_buffer('quantized', quantized, persistent=False)"},
            ),
            "scale_a_parameter": (
                "Your scale is a parameter. Whatever goes through the parameters, as an optimizer or a count does, takes it for one of the numbers to be trained. Register it as a buffer.",
                {"self.register_buffer('scale', scale)": "self.scale = nn.Parameter(scale)"},
            ),
            "zeros_for_no_bias": (
                "Where there is no bias you keep zeros. A layer without a bias stays without one: `bias` is None, and is not in the state dict.",
                {"None if ... else _": "linear.weight.new_zeros(len(quantized)) if linear.bias is None else _"},
            ),
            "linear_rounded_in_place": (
                "You write the rounded weights into the linear layer that you were given. It stays as it is.",
                {"bias = _": "linear.weight.data.copy_(dequantize(quantized, scale))\nbias = _"},
            ),
            "weight_in_integers": (
                "Your `weight` is the integers. It is what they stand for, real numbers, as `dequantize` gives them.",
                {"dequantize(_, self.scale)": "_"},
            ),
            # --- what a layer computes
            "scale_forgotten": (
                "You multiply by the integers, and never by the scale. The outputs are hundreds of times too large.",
                {"sums * ...": "sums"},
            ),
            "bias_scaled_too": (
                "You add the bias before you multiply by the scale. The bias is no count of steps: it comes last, as it is.",
                {"sums * ...": "sums", "2: return _": "y = y * self.scale.to(wide).squeeze(-1)\nreturn _"},
            ),
            "bias_forgotten": (
                "You keep the bias and do not add it.",
                {"y = y + self.bias.to(wide)": ""},
            ),
            "inputs_detached": (
                "Your outputs are right, but no gradient reaches the inputs: you detach them, or compute without gradients. The weights are not trained; what is "
                "before them may be.",
                {"x.to(wide)": "x.detach().to(wide)"},
            ),
            "sums_in_halves": (
                "You sum in the dtype of the inputs. Products with integers up to 127 are large: in float16 the sum overflows at 65504, though the output would "
                "not. Compute halves in float32.",
                {"wide = ...": "wide = x.dtype"},
            ),
        },
    ),
]
