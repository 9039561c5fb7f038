"""Wrong answers to day 29, and what they misunderstood."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "rope_angles",
        {
            # --- rope_angles
            "exponent_without_two": (
                "Your exponent is i / d, half of what it should be, so the pairs slow down too little. i counts the pairs, and the formula has 2i.",
                {"-even / head_dim": "-even / 2 / head_dim"},
            ),
            "exponent_doubled": (
                "Your exponent is twice what it should be. `arange(0, head_dim, 2)` holds 0, 2, 4 …: that is the formula's 2i already.",
                {"-even / head_dim": "-2 * even / head_dim"},
            ),
            "pairs_from_1": (
                "Your pairs are counted from 1 with the exponent −2i / d. The paper counts from 1 too, but subtracts 1 in the exponent: the first pair rotates by a "
                "whole radian per position.",
                {"-even / head_dim": "-(even + 2) / head_dim"},
            ),
            "one_subtracted_from_0": (
                "Your exponent is −2(i − 1) / d with pairs counted from 0. The paper writes i − 1 since it counts from 1: subtract 1, or begin at 0, and not both. The "
                "first pair rotates by 1 radian per position.",
                {"-even / head_dim": "-(even - 2) / head_dim"},
            ),
            "base_ignored": (
                "Your base is 10000 whatever the caller asks for. That is only the default: later models use larger ones for longer contexts.",
                {"base ** _": "10000.0 ** _"},
            ),
            "base_of_500000_by_default": (
                "Where the caller names no base, yours is 500000, as in LLaMA 3. The default is the paper's 10000.",
                {"base=10000.0": "base=500000.0"},
            ),
            "positions_from_1": (
                "Your positions start at 1. They are counted from 0, so the first row is all 0: the first token is not rotated.",
                {"torch.arange(max_len, dtype=_)": "torch.arange(1, max_len + 1, dtype=_)"},
            ),
            "one_position_too_many": (
                "Your table has one position too many. `max_len` positions counted from 0 end at max_len − 1.",
                {"2: max_len": "max_len + 1"},
            ),
            "repeated_in_halves": (
                "Your table has each angle twice, one half beside the other, as Hugging Face's has. Wanted is one angle for each pair, `(max_len, head_dim / 2)`: "
                "how the two of a pair lie is the layout's business.",
                {"return _": "return _.repeat(1, 2)"},
            ),
            "repeated_side_by_side": (
                "Your table has each angle twice, side by side. Wanted is one angle for each pair, `(max_len, head_dim / 2)`.",
                {"return _": "return _.repeat_interleave(2, dim=1)"},
            ),
            "cosines_and_sines": (
                "You return cosines and sines. Wanted are the angles themselves; `apply_rope` takes their cosines and sines.",
                {"return _": "angles = _\nreturn angles.cos(), angles.sin()"},
            ),
            "complex_numbers": (
                "You return complex numbers on the unit circle, as LLaMA's first code does. Wanted are their angles, which are real.",
                {"return _": "angles = _\nreturn torch.polar(torch.ones_like(angles), angles)"},
            ),
            "table_in_half_precision": (
                "Your table is in half precision. bfloat16 has not even every whole number above 256: the fast pairs of a long text would point anywhere. Keep "
                "float32 at least.",
                {"return _": "return _.to(torch.bfloat16)"},
            ),
        },
    ),
    *of(
        "apply_rope",
        {
            # --- apply_rope: where a token is
            "offset_ignored": (
                "You ignore the offset: every chunk is rotated as if it were the beginning of the sequence. With a cache, each new token would then be at position 0.",
                {"angles[offset : ...]": "angles[: x.size(-2)]", "_ + steps": "_ + steps - _"},
            ),
            "row_offsets_ignored": (
                "An offset for all rows works in your answer; one for each row is ignored, and all rows begin at position 0.",
                {"_ + steps": "_ + steps - _"},
            ),
            "chunk_at_one_position": (
                "All tokens of a chunk are rotated by the offset's angle. The offset is the position of the first; the others follow, one by one.",
                {"offset + x.size(-2)": "offset + 1", "_ + steps": "_ + 0 * steps"},
            ),
            "last_positions_of_the_table": (
                "You take the last rows of the table. A table may be longer than the sequence: the first token is at `offset`, however long the table is.",
                {"angles[offset : ...]": "angles[angles.size(0) - x.size(-2) :]"},
            ),
            "offset_of_the_first_row_for_all": (
                "All rows get the first row's offset. Where prompts differ in length, each row is at a position of its own.",
                {"offset.unsqueeze": "offset[:1].unsqueeze"},
            ),
            "offset_added_to_the_angles": (
                "You add the offset to the angles. The offset is a number of positions, and one position rotates each pair by an angle of its own: only the first "
                "pair's is 1 radian.",
                {
                    "angles[offset : ...]": "angles[: x.size(-2)] + offset",
                    "rotation = angles[...]": "rotation = angles[steps.to(angles.device)] + offset.view(-1, 1, 1).to(angles.device)",
                },
            ),
            "offset_only_an_int": (
                "Your offset must be a single number. It may also be a tensor with one for each row of the batch.",
                {"_check_offset(x, angles.size(0), offset)": "_check_offset(x, angles.size(0), offset)\noffset = int(offset)"},
            ),
            "row_offsets_over_heads": (
                "Your offsets of the rows meet the axis in front of time, which is that of the heads. Axes are aligned from the right: what belongs to the first "
                "axis of x needs axes of length 1 behind it.",
                {"rotation.view(len(rotation), *_, *rotation.shape[1:])": "rotation.view(*_, *rotation.shape)"},
            ),
            "time_before_heads": (
                "You take the second axis for time, as in (B, T, h, d). Heads have been moved forward here: time is the last axis but one, (B, h, T, d). As it is, "
                "each head is rotated by its number.",
                {
                    "angles[offset : ...]": "angles[offset : offset + x.size(1)].unsqueeze(1)",
                    "steps = ...": "steps = torch.arange(x.size(1), device=offset.device)",
                    "rotation.view(len(rotation), *..., *rotation.shape[1:])": "rotation.unsqueeze(2)",
                },
            ),
            # --- apply_rope: which features are a pair
            "layouts_swapped": (
                'Your layouts are swapped. "interleaved" pairs features 2i and 2i + 1, which are side by side; "halves" pairs i and i + head_dim/2.',
                {"3: 'interleaved'": "'halves'"},
            ),
            "always_interleaved": (
                'Your pairs are always side by side, even where `layout="halves"` is asked for. Weights trained with the one layout are nonsense in the other.',
                {"layout == 'interleaved'": "True"},
            ),
            "always_halves": (
                'Your pairs always lie half a vector apart, also where `layout="interleaved"` is asked for. Weights trained with the one layout are nonsense in '
                "the other.",
                {"layout == 'interleaved'": "False"},
            ),
            "halves_by_default": (
                'Where no layout is named, your pairs lie half a vector apart. The default is the paper\'s, `"interleaved"`.',
                {"layout='interleaved'": "layout='halves'"},
            ),
            "put_back_in_halves": (
                'With `layout="interleaved"` you turn the right pairs, but leave all first features on the left and all second ones on the right. Put each back '
                "where it was. (Scores would not notice, as long as queries and keys do the same.)",
                {"dim=axis": "dim=-2"},
            ),
            "taken_apart_in_halves": (
                'With `layout="interleaved"` you take features i and i + head_dim/2 for a pair, and put them back side by side. The two of a pair lie side by side '
                "before and after.",
                {"....unbind(axis)": "x.to(wide).unflatten(-1, (2, pairs)).unbind(-2)"},
            ),
            "cosines_repeated_in_halves": (
                "With pairs side by side, the two of a pair are rotated by different angles in your answer: you repeat the angles half beside half. Repeat them as "
                "the features lie, each twice in a row.",
                {
                    "a, b = _": "a, b = _\n"
                    "full = torch.cat((rotation, rotation), dim=-1).unflatten(-1, sizes)\n"
                    "cos, cos_b = full.cos().to(x.device, wide).unbind(axis)\n"
                    "sin, sin_b = full.sin().to(x.device, wide).unbind(axis)",
                    "a * sin + b * cos": "a * sin_b + b * cos_b",
                },
            ),
            # --- apply_rope: the turn
            "turned_backwards": (
                "You turn the wrong way: by −mθ. The minus belongs to the first of a pair. (A model trained your way would learn just as well; published weights "
                "expect the paper's way.)",
                {"rotation.sin": "(-rotation).sin"},
            ),
            "cosine_and_sine_swapped": (
                "You have exchanged cosine and sine. At position 0 nothing is rotated: the cosine, which is 1 there, keeps a feature where it is.",
                {"cos, sin = _": "sin, cos = _"},
            ),
            "sines_and_cosines_cut_by_halves": (
                "Your table has sines and cosines side by side, and you cut it in the middle, as `chunk` does. Each half then holds some of both. Take every "
                "other column, or put the two in separate halves first.",
                {
                    "cos, sin = ...": "table = torch.stack((rotation.sin(), rotation.cos()), dim=-1)\nsin, cos = table.flatten(-2).to(x.device, wide).chunk(2, dim=-1)"
                },
            ),
            "minus_forgotten": (
                "Both of your features are sums. A turn has one minus, before the sine in the first of a pair; without it pairs change their length.",
                {"a * cos - b * sin": "a * cos + b * sin"},
            ),
            "turned_first_in_the_second": (
                "The second feature of a pair is computed from the first one after it was rotated. Both need the old values: compute both before you overwrite "
                "either.",
                {"a * cos - b * sin": "a", "a, b = _": "a, b = _\na = a * cos - b * sin"},
            ),
            # --- apply_rope: dtypes, axes, memory
            "result_in_the_angles_dtype": (
                "Your result takes over the dtype of the angles. A float64 table must not make the whole model float64: the result has the dtype of x.",
                {"torch.float32": "rotation.dtype", "_.to(x.dtype)": "_"},
            ),
            "halves_come_back_as_float32": (
                "Half precision comes in and float32 comes out. To turn in float32 is right; the result goes back to the dtype of x.",
                {"_.to(x.dtype)": "_"},
            ),
            "angles_in_half_precision": (
                "You round the angles to the dtype of x before you take cosines. In half precision an angle of 200 is off by up to half a radian. Take cosines and "
                "sines first, and then change the dtype.",
                {"rotation.cos": "rotation.to(x.dtype).cos", "rotation.sin": "rotation.to(x.dtype).sin"},
            ),
            "halves_rotated_as_they_are": (
                "You rotate half precision in half precision: cosines, sines and every product are rounded to three digits, as in Hugging Face's code. Go through float32, and back at the "
                "end.",
                {"wide = ...": "wide = x.dtype"},
            ),
            "cosines_of_float32_angles": (
                "You round the angles to float32 before you take their cosines and sines. Far out, that is off by a visible angle. Take them in the angles' dtype, "
                "and then change it.",
                {"rotation.cos": "rotation.float().cos", "rotation.sin": "rotation.float().sin"},
            ),
            "always_in_float32": (
                "You rotate in float32 whatever the input is. That is right for half precision, but float64 loses more than half of its digits.",
                {"wide = ...": "wide = torch.float32"},
            ),
            "four_axes_only": (
                "Your x must have four axes. There may be any number of axes before time: heads are one more, or there are none.",
                {"wide = ...": "_, _, _, _ = x.shape\nwide = torch.promote_types(x.dtype, torch.float32)"},
            ),
            "x_changed_in_place": (
                "You write into x. Your caller still uses it: the query of one layer would be rotated twice. Return a new tensor.",
                {"_.to(x.dtype)": "x.copy_(_)"},
            ),
            "x_detached": (
                "No gradient passes: x was cut off from where it came from (`.data`, `.detach()`, a `no_grad` around too much). The angles need no gradient, but "
                "the projections before the turn do.",
                {"x.to(wide)": "x.detach().to(wide)"},
            ),
            "complex_view_of_any_memory": (
                "`view_as_complex` wants the two numbers of a pair side by side in memory, and x may be stored differently, for example after a transposition. Make it "
                "contiguous first.",
                {"rotated = _": "if layout == 'interleaved':\n    torch.view_as_complex(x.to(wide).unflatten(-1, sizes))\nrotated = _"},
            ),
            "size_left_open": (
                "You leave a size open with −1 in a reshape. A tensor without tokens has no numbers to work that size out from: name it.",
                {"x.to(wide).unflatten(-1, sizes)": "x.to(wide).reshape(*x.shape[:-1], *((-1, 2) if axis == -1 else (2, -1)))"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "apply_rope",
        {
            "turns_stay_where_the_angles_are": (
                "The angles are on the CPU, and so are their cosines and sines in your code. Move them to `x.device` before you multiply.",
                {"cos, sin = ...": "cos, sin = rotation.cos().to(wide), rotation.sin().to(wide)"},
            ),
            "steps_made_on_the_cpu": (
                "You count the steps on the CPU and add them to offsets that may be on a GPU. `torch.arange` takes `device=offset.device`.",
                {"torch.arange(_, device=offset.device)": "torch.arange(_)"},
            ),
        },
    ),
]
