"""Day 40: what goes wrong with eight bits: whose scale, which marks, what is kept, what overflows."""

from course.judging.misconceptions import Misconception

# quantize_int8
WIDEN = "weight.detach().to(torch.promote_types(weight.dtype, torch.float32))"
SCALE = "scale = wide.abs().amax(dim=1, keepdim=True) / 127"
ZEROS = "scale = scale.masked_fill(scale < torch.finfo(scale.dtype).tiny, 1.0)"
STEPS = "(wide / scale).round().to(torch.int8)"
RETURN = f"return {STEPS}, scale"

# dequantize
BACK = "return quantized.to(scale.dtype) * scale"

# QuantizedLinear
INIT = "quantized, scale = quantize_int8(linear.weight)"
COPY = "bias = None if linear.bias is None else linear.bias.detach().clone()"
KEEP_Q = 'self.register_buffer("quantized", quantized)'
KEEP_SCALE = 'self.register_buffer("scale", scale)'
KEEP_BIAS = 'self.register_buffer("bias", bias)'
PROPERTY = "return dequantize(self.quantized, self.scale)"
WIDE = "wide = torch.promote_types(x.dtype, torch.float32)"
SUMS = "sums = F.linear(x.to(wide), self.quantized.to(wide))"
SCALED = "y = sums * self.scale.to(wide).squeeze(-1)"
BIASED = "y = y + self.bias.to(wide)"
OUT = "return y.to(x.dtype)"

MISCONCEPTIONS = [
    # --- whose scale it is
    Misconception(
        "scale_of_the_whole_matrix",
        "quantize_int8",
        "You have one scale for the whole matrix. One large weight somewhere then makes the steps wide for all rows. Each row has a scale of its own.",
        {SCALE: "scale = wide.abs().amax().expand(len(wide), 1) / 127"},
    ),
    Misconception(
        "scale_of_a_column",
        "quantize_int8",
        "You have a scale for each column, that is, for each input. Scales belong to rows, the outputs: only they can wait until the sum is done.",
        {SCALE: "scale = wide.abs().amax(dim=0, keepdim=True) / 127"},
    ),
    Misconception(
        "scale_without_its_axis",
        "quantize_int8",
        "Your scale has the shape (out,). It keeps the last axis, (out, 1): so it stands beside its row when the two are multiplied.",
        {RETURN: f"return {STEPS}, scale.squeeze(1)"},
    ),
    # --- how wide a step is
    Misconception(
        "largest_without_its_magnitude",
        "quantize_int8",
        "You take the largest weight of a row, not the largest magnitude. A row's largest may be negative, and would lie outside of what int8 can hold.",
        {SCALE: "scale = wide.amax(dim=1, keepdim=True) / 127"},
    ),
    Misconception(
        "range_shared_out",
        "quantize_int8",
        "You share out the way from a row's smallest weight to its largest. That fits with an offset. Without one, 0 has to stay 0, and the larger of the two sides decides.",
        {
            SCALE: "scale = (wide.amax(dim=1, keepdim=True) - wide.amin(dim=1, keepdim=True)) / 254",
            STEPS: "(wide / scale).round().clamp(-127, 127).to(torch.int8)",
        },
    ),
    Misconception(
        "by_128",
        "quantize_int8",
        "You divide by 128. The largest weight becomes 128, which int8 does not have: it turns into −128, the opposite of what it was.",
        {SCALE: SCALE.replace("127", "128")},
    ),
    Misconception(
        "by_128_and_cut_off",
        "quantize_int8",
        "You divide by 128, and cut off what is beyond −128 and 127. So a row's largest weight is off by a whole step if it is positive, and not if it is negative. "
        "Here −128 is not used, and both sides are alike.",
        {
            SCALE: SCALE.replace("127", "128"),
            STEPS: "(wide / scale).round().clamp(-128, 127).to(torch.int8)",
        },
    ),
    Misconception(
        "all_256_values",
        "quantize_int8",
        "Your scale is the largest magnitude / 127.5, so that all 256 values are used, as torch's observers do by themselves. Here they are 255, from −127 to 127: 0 in the middle, and both sides alike.",
        {
            SCALE: SCALE.replace("127", "127.5"),
            STEPS: "(wide / scale).round().clamp(-128, 127).to(torch.int8)",
        },
    ),
    Misconception(
        "cut_off_at_three_deviations",
        "quantize_int8",
        "Your steps follow the row's deviation, and what is far out is cut off. That can be a good idea; but then a weight may be off by more than half a step. Here the largest magnitude decides.",
        {
            SCALE: "scale = 3 * wide.square().mean(dim=1, keepdim=True).sqrt() / 127",
            STEPS: "(wide / scale).round().clamp(-127, 127).to(torch.int8)",
        },
    ),
    Misconception(
        "largest_for_scale",
        "quantize_int8",
        "Your integers are right, but what you return beside them is the row's largest magnitude. The scale is the width of one step, so that integer times scale is the weight.",
        {RETURN: f"return {STEPS}, scale * 127"},
    ),
    Misconception(
        "steps_in_one",
        "quantize_int8",
        "Your integers are right, but your scale is its own inverse: how many steps there are in 1, not how wide a step is.",
        {RETURN: f"return {STEPS}, 1 / scale"},
    ),
    # --- which step is nearest
    Misconception(
        "towards_zero",
        "quantize_int8",
        "You cut the digits behind the point off: turning real numbers into int8 does that by itself. So a weight may be off by a whole step, always towards 0. Round first.",
        {STEPS: "(wide / scale).to(torch.int8)"},
    ),
    Misconception(
        "always_down",
        "quantize_int8",
        "You round down, so all weights get a little smaller, half a step on the average, and the sums with them. Take the nearest integer.",
        {".round()": ".floor()"},
    ),
    Misconception(
        "ties_away_from_zero",
        "quantize_int8",
        "Halfway between two integers you go away from 0, as at school. `torch.round` takes the even one, so that ties do not all pull the same way.",
        {STEPS: "((wide / scale).abs() + 0.5).floor().copysign(wide).to(torch.int8)"},
    ),
    Misconception(
        "ties_upwards",
        "quantize_int8",
        "You add ½ and round down, so that halfway between two integers you always go up. `torch.round` takes the even one.",
        {STEPS: "(wide / scale + 0.5).floor().to(torch.int8)"},
    ),
    # --- rows of zeros
    Misconception(
        "zero_by_zero",
        "quantize_int8",
        "Where a row is all zeros your scale is 0, or next to nothing, and 0 is divided by it. Any positive scale would do, since the integers are 0; it is to be 1.",
        {f"{ZEROS}  # (out, 1)\n": "\n"},
    ),
    # --- what comes out
    Misconception(
        "scale_first",
        "quantize_int8",
        "You return the scale first. First come the integers, then the scale, in the order in which `dequantize` takes them.",
        {RETURN: f"return scale, {STEPS}"},
    ),
    Misconception(
        "unsigned",
        "quantize_int8",
        "Your integers are unsigned, moved up by 128. Then every product with them needs a correction. int8 has a sign.",
        {STEPS: "((wide / scale).round() + 128).to(torch.uint8)"},
    ),
    Misconception(
        "still_real_numbers",
        "quantize_int8",
        "Your integers are whole numbers, but still stored as real ones: four bytes each. Turn them into int8.",
        {STEPS: "(wide / scale).round()"},
    ),
    Misconception(
        "history_kept",
        "quantize_int8",
        "Your scale remembers the parameter that it came from, and asks for a gradient. Leave the history behind: what is quantised is not trained.",
        {".detach()": ""},
    ),
    Misconception(
        "weight_changed",
        "quantize_int8",
        "You change the weight that you were given. It stays as it is: divide it into a new tensor.",
        {STEPS: "weight.detach().div_(scale).round().to(torch.int8)"},
    ),
    Misconception(
        "quotients_in_halves",
        "quantize_int8",
        "You compute in the dtype of the weight. In half precision a quotient near 127 is off by up to a quarter of a step, in bfloat16, and the scale has three digits. Widen to float32 first.",
        {WIDEN: "weight.detach()"},
    ),
    Misconception(
        "scale_in_halves",
        "quantize_int8",
        "Your scale has the dtype of the weight. It stays in float32 at least: it is one number a row, and each of the row's weights is a multiple of it.",
        {RETURN: f"return {STEPS}, scale.to(weight.dtype)"},
    ),
    Misconception(
        "all_in_float32",
        "quantize_int8",
        "You compute in float32, whatever you are given. A float64 matrix is to have a float64 scale.",
        {WIDEN: "weight.detach().float()"},
    ),
    # --- and back
    Misconception(
        "divided_on_the_way_back",
        "dequantize",
        "You divide by the scale. It is the width of a step: so many steps, times that.",
        {BACK: "return quantized.to(scale.dtype) / scale"},
    ),
    Misconception(
        "another_127",
        "dequantize",
        "You divide by 127 once more. That is in the scale already.",
        {BACK: f"{BACK} / 127"},
    ),
    Misconception(
        "offset_on_the_way_back",
        "dequantize",
        "You shift the integers by 128, as unsigned ones would need it. These have a sign, and 0 stands for 0.",
        {BACK: "return (quantized.to(scale.dtype) - 128) * scale"},
    ),
    Misconception(
        "scale_lies_across",
        "dequantize",
        "You lay the scale across the columns. The scale of a row multiplies all of that row.",
        {BACK: "return quantized.to(scale.dtype) * scale.squeeze(-1)"},
    ),
    Misconception(
        "back_to_float32",
        "dequantize",
        "Your weights come back in float32, whatever the scale is. They have the dtype of the scale.",
        {BACK: "return quantized.float() * scale.float()"},
    ),
    Misconception(
        "scale_detached",
        "dequantize",
        "No gradient reaches the scale. You detach it, or compute without gradients.",
        {BACK: "return quantized.to(scale.dtype) * scale.detach()"},
    ),
    # --- what a layer keeps
    Misconception(
        "linear_kept",
        "QuantizedLinear",
        "You keep the linear layer itself, with all its weights: now there are five bytes a weight instead of four. Keep the integers, the scale, and a copy of the bias.",
        {KEEP_Q: f"{KEEP_Q}\n        self.linear = linear"},
    ),
    Misconception(
        "dequantised_and_kept",
        "QuantizedLinear",
        "You keep the dequantised weights beside the integers. The state dict does not show it, but the memory does: five bytes a weight. Make them anew in each call.",
        {KEEP_Q: f"{KEEP_Q}\n        self.kept = dequantize(quantized, scale)"},
    ),
    Misconception(
        "dequantised_once",
        "QuantizedLinear",
        "After its first call your module keeps the dequantised weights, to save time. They are what was to be saved.",
        {SUMS: f"self.kept = self.quantized.to(wide)\n        {SUMS}"},
    ),
    Misconception(
        "scale_no_buffer",
        "QuantizedLinear",
        "Your scale is a plain attribute. It is not saved with the model, and does not move with it to another device. Register it as a buffer.",
        {KEEP_SCALE: "self.scale = scale"},
    ),
    Misconception(
        "integers_not_saved",
        "QuantizedLinear",
        "Your integers are no persistent buffer: the model is saved without its weights.",
        {KEEP_Q: 'self.register_buffer("quantized", quantized, persistent=False)'},
    ),
    Misconception(
        "bias_no_buffer",
        "QuantizedLinear",
        "Your bias is a plain attribute. It is not saved with the model. Register it as a buffer.",
        {KEEP_BIAS: "self.bias = bias"},
    ),
    Misconception(
        "scale_a_parameter",
        "QuantizedLinear",
        "Your scale is a parameter, so an optimiser would change it, and weight decay shrink all weights with it. Register it as a buffer.",
        {KEEP_SCALE: "self.scale = nn.Parameter(scale)"},
    ),
    Misconception(
        "bias_a_parameter",
        "QuantizedLinear",
        "Your bias is a parameter. What is quantised is not trained: everything is a buffer.",
        {KEEP_BIAS: "self.bias = None if bias is None else nn.Parameter(bias)"},
    ),
    Misconception(
        "zeros_for_no_bias",
        "QuantizedLinear",
        "Where there is no bias you keep zeros. A layer without a bias stays without one: `bias` is None, and is not in the state dict.",
        {
            COPY: "bias = linear.weight.new_zeros(len(quantized)) if linear.bias is None else linear.bias.detach().clone()"
        },
    ),
    Misconception(
        "bias_shared",
        "QuantizedLinear",
        "Your bias is still the linear layer's own memory: when that layer is trained on, or cleared, yours changes with it. Copy it.",
        {".detach().clone()": ".detach()"},
    ),
    Misconception(
        "bias_in_float32",
        "QuantizedLinear",
        "Your bias is in float32, whatever the linear layer's is. It is a copy, in its dtype.",
        {".detach().clone()": ".detach().float().clone()"},
    ),
    Misconception(
        "linear_rounded_in_place",
        "QuantizedLinear",
        "You write the rounded weights into the linear layer that you were given. It stays as it is.",
        {
            INIT: f"{INIT}\n        linear.weight.data.copy_(dequantize(quantized, scale))",
        },
    ),
    Misconception(
        "weight_in_integers",
        "QuantizedLinear",
        "Your `weight` is the integers. It is what they stand for, real numbers, as `dequantize` gives them.",
        {PROPERTY: "return self.quantized"},
    ),
    # --- what a layer computes
    Misconception(
        "scale_forgotten",
        "QuantizedLinear",
        "You multiply by the integers, and never by the scale. The outputs are hundreds of times too large.",
        {SCALED: "y = sums"},
    ),
    Misconception(
        "bias_scaled_too",
        "QuantizedLinear",
        "You add the bias before you multiply by the scale. The bias is no count of steps: it comes last, as it is.",
        {
            SCALED: "y = sums",
            BIASED: "y = y + self.bias.to(wide)\n        y = y * self.scale.to(wide).squeeze(-1)",
        },
    ),
    Misconception(
        "bias_forgotten",
        "QuantizedLinear",
        "You keep the bias and do not add it.",
        {BIASED: "pass"},
    ),
    Misconception(
        "scale_a_column",
        "QuantizedLinear",
        "Your scale, (out, 1), is multiplied as it is. The outputs lie along the last axis, and so must the scales.",
        {SCALED: "y = sums * self.scale.to(wide)"},
    ),
    Misconception(
        "scale_on_the_inputs",
        "QuantizedLinear",
        "You multiply the inputs by the scale. It belongs to the outputs: there is one for each row, and no row for an input.",
        {
            SUMS: "sums = F.linear(x.to(wide) * self.scale.to(wide).squeeze(-1), self.quantized.to(wide))",
            SCALED: "y = sums",
        },
    ),
    Misconception(
        "inputs_rounded_too",
        "QuantizedLinear",
        "You round the inputs to eight bits as well. On hardware that multiplies integers this is the next step; here only the weights are rounded, and the inputs stay as they are.",
        {
            SUMS: "step = x.to(wide).abs().amax(dim=-1, keepdim=True) / 127\n"
            "        sums = F.linear((x.to(wide) / step).round() * step, self.quantized.to(wide))"
        },
    ),
    Misconception(
        "leading_axes_merged",
        "QuantizedLinear",
        "You merge all leading axes into one, and do not take it apart again. (…, in) becomes (…, out).",
        {SUMS: SUMS.replace("x.to(wide)", "x.to(wide).reshape(-1, x.size(-1))")},
    ),
    Misconception(
        "inputs_detached",
        "QuantizedLinear",
        "Your outputs are right, but no gradient reaches the inputs: you detach them, or compute without gradients. The weights are not trained; what is before them may be.",
        {SUMS: SUMS.replace("x.to(wide)", "x.detach().to(wide)")},
    ),
    Misconception(
        "sums_in_halves",
        "QuantizedLinear",
        "You sum in the dtype of the inputs. Products with integers up to 127 are large: in float16 the sum overflows at 65504, though the output would not. Compute halves in float32.",
        {WIDE: "wide = x.dtype"},
    ),
    Misconception(
        "sums_in_float32",
        "QuantizedLinear",
        "You sum in float32, whatever the inputs are. float64 keeps its sixteen digits only if no step is in float32.",
        {WIDE: "wide = torch.float32"},
    ),
    Misconception(
        "output_widened",
        "QuantizedLinear",
        "Your output has the dtype that you computed in. It goes back to that of the inputs.",
        {OUT: "return y"},
    ),
    Misconception(
        "output_in_the_dtype_of_the_scale",
        "QuantizedLinear",
        "Your output has the dtype of the scale. It has that of the inputs, whatever the scale's is.",
        {OUT: "return y.to(self.scale.dtype)"},
    ),
]
