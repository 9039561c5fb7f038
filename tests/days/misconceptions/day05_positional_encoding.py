"""Day 5: what goes wrong with the positional encoding."""

from course.judging.misconceptions import of

KEPT = """
def positional_encoding(max_len, d_model, kept=[np.empty((0, 0))]):
    if len(kept[0]) != max_len or kept[0].shape[1] < d_model:
        position = np.arange(max_len)[:, np.newaxis]
        even = np.arange(0, d_model, 2)
        angles = position / 10000 ** (even / d_model)
        kept[0] = np.empty((max_len, d_model))
        kept[0][:, 0::2] = np.sin(angles)
        kept[0][:, 1::2] = np.cos(angles[:, : d_model // 2])
    return kept[0][:, :d_model].copy()
"""
MISCONCEPTIONS = of(
    "positional_encoding",
    {
        "wider_table_kept": (
            "You store a table and return slices of it. The rows of a longer table can be reused, but the frequencies depend on d_model, so a narrower table "
            "is not the left part of a wider table. Compute the table in each call.",
            KEPT,
        ),
        "halves_concatenated": (
            "You put all sines on the left and all cosines on the right. The paper interleaves them: each even column holds a sine, and the next column holds "
            "the cosine of the same angle. The table is added to embeddings, so the order of the columns matters.",
            {"table[:, 0::2] = _": "table[:, : even.size] = _", "table[:, 1::2] = _": "table[:, even.size :] = _"},
        ),
        "sine_and_cosine_swapped": (
            "Your even columns hold cosines and your odd columns hold sines: exchange them. Check row 0: it must be 0, 1, 0, 1, …, because sin 0 = 0 comes "
            "first.",
            {"table[:, 0::2] = np.sin(angles)\ntable[:, 1::2] = np.cos(_)": "table[:, 0::2] = np.cos(angles)\ntable[:, 1::2] = np.sin(_)"},
        ),
        "only_sines": (
            "Your odd columns hold sines too, so both numbers of each pair are equal. A sine alone does not determine its angle, because it takes each value "
            "twice per turn. A sine together with its cosine does.",
            {"np.cos": "np.sin"},
        ),
        "exponent_without_two": (
            "Your exponent is half of what it should be: i / d_model instead of 2i / d_model. i counts the pairs, so 2i is the number of the even column. "
            "Without the 2, the longest wavelength is near 100 · 2π, not 10000 · 2π.",
            {"even / d_model": "even / 2 / d_model"},
        ),
        "exponent_doubled": (
            "Your exponent is twice what it should be. In the paper i counts the pairs, and 2i / d_model runs from 0 to nearly 1. If you double the number of "
            "an even column, or divide it by d_model / 2, you get 4i / d_model.",
            {"even / d_model": "2 * even / d_model"},
        ),
        "cosine_with_its_own_exponent": (
            "Each of your columns has its own exponent: that of a cosine is larger than that of the sine next to it. The sine and the cosine of a pair must "
            "have the same angle. Otherwise the pair is not a point on a circle, and a step to the next position is not a rotation.",
            {"np.arange(0, d_model, 2)": "np.arange(d_model)", "np.sin(angles)": "np.sin(angles[:, 0::2])", "_[:, : d_model // 2]": "_[:, 1::2]"},
        ),
        "odd_width_rounded_up": (
            "Your table is right for even widths. For odd widths it has the wavelengths of a table with d_model + 1 columns, probably because the "
            "exponent is divided by d_model + 1.",
            {"even / d_model": "even / (d_model + d_model % 2)"},
        ),
        "last_exponent_is_one": (
            "Your exponents run from 0 to exactly 1, as in libraries that divide by the number of pairs minus 1. In the paper the last exponent, "
            "(d_model − 2) / d_model, is less than 1.",
            {"even / d_model": "even / 2 / max(even.size - 1, 1)"},
        ),
        "exponent_rounded_down": (
            "All your columns have the same wavelength, 2π. Every exponent came out as 0: the fraction 2i / d_model was rounded down to an integer.",
            {"even / d_model": "even // d_model"},
        ),
        "exponent_without_parentheses": (
            "`10000 ** a / b` is (10000 ** a) / b in Python: the exponent of your power is only 2i, and the power is then divided by d_model. The "
            "exponent must be the entire fraction 2i / d_model.",
            {"position / ...": "position / 10000.0**even / d_model"},
        ),
        "exponent_without_d_model": (
            "Your exponent is 2i, not 2i / d_model. The second pair then rotates 10⁸ times more slowly than the first, and nearly all columns are constant.",
            {"10000 ** (even / d_model)": "10000.0**even"},
        ),
        "multiplied": (
            "Your angle is the position times 10000^(2i / d_model). Divide the position by this power instead. With the product, neighboring positions are "
            "many turns apart, and their sines look random.",
            {"position / 10000 ** _": "position * 10000.0 ** _"},
        ),
        "base_1000": (
            "Your base is 1000. The paper's base is 10000, so its longest wavelength is near 10000 · 2π.",
            {"10000": "1000"},
        ),
        "logarithm_of_base_ten": (
            "You wrote the power as exp(x · log 10000) with the base-10 logarithm, which is 4. exp needs the natural logarithm: ln 10000 is 9.21.",
            {"10000 ** (even / d_model)": "np.exp(np.log10(10000) * even / d_model)"},
        ),
        "pairs_from_one": (
            "Your first pair of columns has the exponent 2 / d_model, so you probably count the pairs from 1. The paper's i starts at 0: the first pair "
            "rotates by one radian per position, and the last exponent is less than 1.",
            {"np.arange(0, d_model, 2)": "np.arange(2, d_model + 2, 2)"},
        ),
        "positions_from_one": (
            "Your positions start at 1. The first position is 0, and its row is 0, 1, 0, 1, …",
            {"np.arange(max_len)": "np.arange(1, max_len + 1)"},
        ),
        "first_row_for_padding": (
            "Your first row is all 0, as in tables that reserve position 0 for padding. Here position 0 is an ordinary position: sin 0 is 0, but cos 0 is 1.",
            {"return table": "table[0] = 0\nreturn table"},
        ),
        "position_as_a_fraction": (
            "Your positions are divided by max_len. Positions are integers: the row of position 3 must not change when the table gets longer.",
            {"np.arange(max_len)": "np.arange(max_len) / max_len"},
        ),
        "degrees": (
            "You convert the angles from degrees to radians. They are already in radians, which is what NumPy's sine expects.",
            {"angles = _": "angles = np.radians(_)"},
        ),
        "odd_width_raises": (
            "Your table works only for an even d_model. An odd d_model has one more sine than it has cosines, so leave out the cosine of the last angle.",
            {"angles[...]": "angles"},
        ),
        "odd_width_last_column_empty": (
            "For an odd d_model, your last column is all 0, because d_model // 2 pairs do not reach it. An odd width has one more sine, which has no cosine "
            "next to it.",
            {"np.empty": "np.zeros", "table[:, 0::2] = np.sin(angles)": "table[:, 0 : d_model - 1 : 2] = np.sin(angles[:, : d_model // 2])"},
        ),
        "float32_table": (
            "Your table is float32, which keeps about seven digits. Return float64: the caller can convert the table to float32, but cannot recover lost "
            "digits.",
            {"np.empty(_)": "np.empty(_, dtype=np.float32)"},
        ),
        "float32_angles": (
            "Your table is float64, but its angles were computed in float32. Near position 5000, a float32 angle is off by up to 0.0002, and converting the "
            "table to float64 does not recover the lost digits.",
            {"position / 10000 ** _": "position.astype(np.float32) / np.float32(10000) ** _.astype(np.float32)"},
        ),
        "transposed": (
            "Your table has shape (d_model, max_len). Rows are positions and columns are features, (max_len, d_model), because the table is added to token "
            "vectors with this layout.",
            {"return table": "return table.T"},
        ),
        "batch_axis": (
            "Your table has an axis of length 1 in front, as is common in PyTorch code. Here the shape of the table is (max_len, d_model), and broadcasting "
            "adds the batch axis.",
            {"return table": "return table[np.newaxis]"},
        ),
    },
)
