"""Wrong answers to day 29, and what they misunderstood."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "rope_angles",
        {
            # --- rope_angles
            "exponent_without_two": (
                "Your exponent is i / d, half of what it should be, so the pairs slow down too little from one to the next. i counts the pairs, and the "
                "formula has 2i.",
                {"-even / head_dim": "-even / 2 / head_dim"},
            ),
            "exponent_doubled": (
                "Your exponent is twice what it should be. `arange(0, head_dim, 2)` holds 0, 2, 4, …, which is already the formula's 2i.",
                {"-even / head_dim": "-2 * even / head_dim"},
            ),
            "pairs_from_1": (
                "You count the pairs from 1 and use the exponent −2i / d. The paper counts from 1, too, but subtracts 1 in the exponent: the first pair "
                "rotates by one whole radian per position.",
                {"-even / head_dim": "-(even + 2) / head_dim"},
            ),
            "one_subtracted_from_0": (
                "You count the pairs from 0 and use the exponent −2(i − 1) / d. The paper writes i − 1 because it counts from 1. Subtract 1, or count from 0, "
                "but not both: the first pair rotates by 1 radian per position.",
                {"-even / head_dim": "-(even - 2) / head_dim"},
            ),
            "base_ignored": (
                "Your base is 10000 whatever the caller passes. That is only the default: later models use larger bases for longer contexts.",
                {"base ** _": "10000.0 ** _"},
            ),
            "base_of_500000_by_default": (
                "If the caller passes no base, you use 500000, as in LLaMA 3. Here the default is the paper's 10000.",
                {"base=10000.0": "base=500000.0"},
            ),
            "positions_from_1": (
                "Your positions start at 1. They should start at 0, so that the first row is all 0 and the first token is not rotated.",
                {"torch.arange(max_len, dtype=_)": "torch.arange(1, max_len + 1, dtype=_)"},
            ),
            "one_position_too_many": (
                "Your table has one position too many. `max_len` positions counted from 0 end at max_len − 1.",
                {"2: max_len": "max_len + 1"},
            ),
            "repeated_in_halves": (
                "Your table contains each angle twice, in its left and its right half, as in Hugging Face's code. Return one angle per pair, `(max_len, "
                "head_dim / 2)`. Where the two features of a pair are stored is decided later, by `layout`.",
                {"return _": "return _.repeat(1, 2)"},
            ),
            "repeated_side_by_side": (
                "Your table contains each angle twice, side by side. Return one angle per pair, `(max_len, head_dim / 2)`.",
                {"return _": "return _.repeat_interleave(2, dim=1)"},
            ),
            "cosines_and_sines": (
                "You return cosines and sines. Return the angles themselves; `apply_rope` computes their cosines and sines.",
                {"return _": "angles = _\nreturn angles.cos(), angles.sin()"},
            ),
            "complex_numbers": (
                "You return complex numbers on the unit circle, as LLaMA's first code does. Return their angles, which are real.",
                {"return _": "angles = _\nreturn torch.polar(torch.ones_like(angles), angles)"},
            ),
            "table_in_half_precision": (
                "Your table is in half precision. bfloat16 cannot represent every whole number above 256, so the fast pairs of a long text would point "
                "anywhere. Use at least float32.",
                {"return _": "return _.to(torch.bfloat16)"},
            ),
        },
    ),
    *of(
        "apply_rope",
        {
            # --- apply_rope: where a token is
            "offset_ignored": (
                "You ignore the offset: every chunk is rotated as if it were the start of the sequence. With a cache, each new token would then be at "
                "position 0.",
                {"angles[offset : ...]": "angles[: x.size(-2)]", "_ + steps": "_ + steps - _"},
            ),
            "row_offsets_ignored": (
                "A single offset works in your answer, but with one offset per row you ignore the offsets, and all rows start at position 0.",
                {"_ + steps": "_ + steps - _"},
            ),
            "chunk_at_one_position": (
                "You rotate all tokens of a chunk by the angle of the offset. The offset is the position of the chunk's first token; each later token is one "
                "position further.",
                {"offset + x.size(-2)": "offset + 1", "_ + steps": "_ + 0 * steps"},
            ),
            "last_positions_of_the_table": (
                "You take the last rows of the table. A table can be longer than the sequence: the first token is at position `offset`, however long the "
                "table is.",
                {"angles[offset : ...]": "angles[angles.size(0) - x.size(-2) :]"},
            ),
            "offset_of_the_first_row_for_all": (
                "All rows get the first row's offset. Where prompts differ in length, each row has its own position.",
                {"offset.unsqueeze": "offset[:1].unsqueeze"},
            ),
            "offset_added_to_the_angles": (
                "You add the offset to the angles. The offset is a number of positions, and each position rotates each pair by that pair's own angle: only "
                "for the first pair is this angle 1 radian.",
                {
                    "angles[offset : ...]": "angles[: x.size(-2)] + offset",
                    "rotation = angles[...]": "rotation = angles[steps.to(angles.device)] + offset.view(-1, 1, 1).to(angles.device)",
                },
            ),
            "offset_only_an_int": (
                "Your function accepts only a single number as the offset. The offset can also be a tensor, with one entry for each row of the batch.",
                {"_check_offset(x, angles.size(0), offset)": "_check_offset(x, angles.size(0), offset)\noffset = int(offset)"},
            ),
            "row_offsets_over_heads": (
                "Your row offsets line up with the axis before time, which is the axis of the heads. Axes are aligned from the right: offsets for the first "
                "axis of x need further axes of length 1 after them.",
                {"rotation.view(len(rotation), *_, *rotation.shape[1:])": "rotation.view(*_, *rotation.shape)"},
            ),
            "time_before_heads": (
                "You treat the second axis as time, as in (B, T, h, d). Here the heads come first, (B, h, T, d), and time is the second-to-last axis. In your "
                "answer each head is rotated by its number.",
                {
                    "angles[offset : ...]": "angles[offset : offset + x.size(1)].unsqueeze(1)",
                    "steps = ...": "steps = torch.arange(x.size(1), device=offset.device)",
                    "rotation.view(len(rotation), *..., *rotation.shape[1:])": "rotation.unsqueeze(2)",
                },
            ),
            # --- apply_rope: which features are a pair
            "layouts_swapped": (
                'You swapped the layouts. "interleaved" pairs features 2i and 2i + 1, which are side by side; "halves" pairs i and i + head_dim/2.',
                {"3: 'interleaved'": "'halves'"},
            ),
            "always_interleaved": (
                'Your pairs are always side by side, even with `layout="halves"`. Weights trained with one layout predict far worse with the other.',
                {"layout == 'interleaved'": "True"},
            ),
            "always_halves": (
                'Your pairs are always half a vector apart, even with `layout="interleaved"`. Weights trained with one layout predict far worse with the other.',
                {"layout == 'interleaved'": "False"},
            ),
            "halves_by_default": (
                'If the caller passes no layout, your pairs are half a vector apart. Here the default is the paper\'s layout, `"interleaved"`.',
                {"layout='interleaved'": "layout='halves'"},
            ),
            "put_back_in_halves": (
                'With `layout="interleaved"` you rotate the right pairs, but leave all first features on the left and all second features on the right. Put '
                "each feature back in its place. (Scores would be the same, as long as queries and keys are treated alike.)",
                {"dim=axis": "dim=-2"},
            ),
            "taken_apart_in_halves": (
                'With `layout="interleaved"` you pair features i and i + head_dim/2, and then put the two side by side. The features of a pair should be side '
                "by side before and after the rotation.",
                {"....unbind(axis)": "x.to(wide).unflatten(-1, (2, pairs)).unbind(-2)"},
            ),
            "cosines_repeated_in_halves": (
                "In your answer, the two features of an adjacent pair are rotated by different angles: you repeat the list of angles as a whole. Repeat each "
                "angle twice in a row, in the order of the features.",
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
                "You rotate in the wrong direction: by −mθ. The minus belongs to the first feature of a pair. (A model trained your way would learn just as "
                "well, but published weights expect the paper's direction.)",
                {"rotation.sin": "(-rotation).sin"},
            ),
            "cosine_and_sine_swapped": (
                "You swapped cosine and sine. At position 0 nothing may be rotated: the cosine, which is 1 there, must multiply the feature itself.",
                {"cos, sin = _": "sin, cos = _"},
            ),
            "sines_and_cosines_cut_by_halves": (
                "Your table has sines and cosines side by side, but you cut it in the middle, as `chunk` does. Each half then holds some sines and some "
                "cosines. Take every other column, or store the two in separate halves first.",
                {
                    "cos, sin = ...": "table = torch.stack((rotation.sin(), rotation.cos()), dim=-1)\nsin, cos = table.flatten(-2).to(x.device, wide).chunk(2, dim=-1)"
                },
            ),
            "minus_forgotten": (
                "Both of your features are sums. A rotation has one minus, before the sine in the first feature of a pair. Without it, pairs change their "
                "length.",
                {"a * cos - b * sin": "a * cos + b * sin"},
            ),
            "turned_first_in_the_second": (
                "You compute the second feature of a pair from the first feature after it was rotated. Both need the old values: compute both before you "
                "overwrite either.",
                {"a * cos - b * sin": "a", "a, b = _": "a, b = _\na = a * cos - b * sin"},
            ),
            # --- apply_rope: dtypes, axes, memory
            "result_in_the_angles_dtype": (
                "Your result gets the dtype of the angles. It should have the dtype of x: a float64 table must not make the whole model float64.",
                {"torch.float32": "rotation.dtype", "_.to(x.dtype)": "_"},
            ),
            "halves_come_back_as_float32": (
                "For half precision you return float32. Rotating in float32 is right, but cast the result back to the dtype of x.",
                {"_.to(x.dtype)": "_"},
            ),
            "angles_in_half_precision": (
                "You round the angles to the dtype of x before you take their cosines. In bfloat16, an angle near 200 is off by up to half a radian. Take "
                "cosines and sines first, then change the dtype.",
                {"rotation.cos": "rotation.to(x.dtype).cos", "rotation.sin": "rotation.to(x.dtype).sin"},
            ),
            "halves_rotated_as_they_are": (
                "You rotate half precision in half precision, as Hugging Face's code does: cosines, sines and every product are rounded to about three "
                "digits. Compute in float32, and cast the result back.",
                {"wide = ...": "wide = x.dtype"},
            ),
            "cosines_of_float32_angles": (
                "You round the angles to float32 before you take their cosines and sines. At large positions this error is visible. Take cosines and sines in "
                "the dtype of the angles, then change the dtype.",
                {"rotation.cos": "rotation.float().cos", "rotation.sin": "rotation.float().sin"},
            ),
            "always_in_float32": (
                "You always rotate in float32. That is right for half precision, but float64 loses more than half of its digits.",
                {"wide = ...": "wide = torch.float32"},
            ),
            "four_axes_only": (
                "Your function requires an x with four axes. There can be any number of axes before time, with or without an axis for the heads.",
                {"wide = ...": "_, _, _, _ = x.shape\nwide = torch.promote_types(x.dtype, torch.float32)"},
            ),
            "x_changed_in_place": (
                "You write into x. The caller still uses x, and a query of one layer could be rotated twice. Return a new tensor.",
                {"_.to(x.dtype)": "x.copy_(_)"},
            ),
            "x_detached": (
                "No gradient flows back to x, because x was detached (`.data`, `.detach()`, or too much code under `no_grad`). The angles need no gradient, "
                "but the projections before the rotation do.",
                {"x.to(wide)": "x.detach().to(wide)"},
            ),
            "complex_view_of_any_memory": (
                "`view_as_complex` requires the two numbers of a pair side by side in memory, but x can be stored differently, for example after a "
                "transposition. Make it contiguous first.",
                {"rotated = _": "if layout == 'interleaved':\n    torch.view_as_complex(x.to(wide).unflatten(-1, sizes))\nrotated = _"},
            ),
            "size_left_open": (
                "You leave a size open with −1 in a reshape. In a tensor without tokens this size cannot be inferred, so pass it.",
                {"x.to(wide).unflatten(-1, sizes)": "x.to(wide).reshape(*x.shape[:-1], *((-1, 2) if axis == -1 else (2, -1)))"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "apply_rope",
        {
            "turns_stay_where_the_angles_are": (
                "The angles are on the CPU, and so are your cosines and sines. Move them to `x.device` before you multiply.",
                {"cos, sin = ...": "cos, sin = rotation.cos().to(wide), rotation.sin().to(wide)"},
            ),
            "steps_made_on_the_cpu": (
                "You create the steps on the CPU and add them to offsets that can be on a GPU. `torch.arange` takes `device=offset.device`.",
                {"torch.arange(_, device=offset.device)": "torch.arange(_)"},
            ),
        },
    ),
]
