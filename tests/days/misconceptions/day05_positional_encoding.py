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
            "You store a table and return slices of it. For more positions, the rows of a longer table can be reused, but the frequencies depend on "
            "d_model: a narrower table is not the left part of a wider one. Compute the table in each call.",
            KEPT,
        ),
        "halves_concatenated": (
            "You put all sines on the left and all cosines on the right. The paper interleaves them: a sine in each even column and, right beside it, the "
            "cosine of the same angle. Sums with embeddings care about which column is which.",
            {"table[:, 0::2] = _": "table[:, : even.size] = _", "table[:, 1::2] = _": "table[:, even.size :] = _"},
        ),
        "halves_concatenated_too_wide": (
            "You put all sines on the left and all cosines on the right; the paper interleaves them, each cosine next to its sine. And for an odd width "
            "your table has one column too many, because it includes the cosine of the last sine.",
            {
                "(max_len, d_model)": "(max_len, d_model + d_model % 2)",
                "table[:, 0::2] = _": "table[:, : even.size] = _",
                "table[:, 1::2] = ...": "table[:, even.size :] = np.cos(angles)",
            },
        ),
        "halves_concatenated_too_narrow": (
            "You put all sines on the left and all cosines on the right; the paper interleaves them, each cosine next to its sine. And for an odd width "
            "your table has one column too few: its last sine is missing.",
            {
                "(max_len, d_model)": "(max_len, d_model - d_model % 2)",
                "table[:, 0::2] = np.sin(angles)": "table[:, : d_model // 2] = np.sin(angles[:, : d_model // 2])",
                "table[:, 1::2] = _": "table[:, d_model // 2 :] = _",
            },
        ),
        "sine_and_cosine_swapped": (
            "Your cosines are in the even columns and your sines in the odd ones: exchange them. Check row 0: it must be 0, 1, 0, 1 …, because sin 0 = 0 "
            "comes first.",
            {"table[:, 0::2] = np.sin(angles)\ntable[:, 1::2] = np.cos(_)": "table[:, 0::2] = np.cos(angles)\ntable[:, 1::2] = np.sin(_)"},
        ),
        "only_sines": (
            "Your odd columns hold sines too, so both numbers of each pair are equal. A sine alone does not determine its angle, because it has the same "
            "value twice per turn; with its cosine it does.",
            {"np.cos": "np.sin"},
        ),
        "no_cosines": (
            "Your odd columns are all 0: the cosines are missing.",
            {"np.empty": "np.zeros", "table[:, 1::2] = ...": "pass"},
        ),
        "exponent_without_two": (
            "Your exponent is half of what it should be: i / d_model instead of 2i / d_model. i counts the pairs, so 2i is the number of the even column; "
            "without the 2 the longest wavelength is near 100 · 2π, not 10000 · 2π.",
            {"even / d_model": "even / 2 / d_model"},
        ),
        "exponent_doubled": (
            "Your exponent is twice what it should be. In the paper i counts the pairs, and 2i / d_model runs from 0 to nearly 1. Doubling a column number "
            "that is even already, or dividing it by d_model / 2, gives 4i / d_model.",
            {"even / d_model": "2 * even / d_model"},
        ),
        "exponent_of_each_column_doubled": (
            "Your exponents are twice the column number over d_model, so a cosine and the sine of its pair have different exponents. The paper's i "
            "counts pairs of columns, not columns: both columns of a pair have the exponent 2i / d_model.",
            {"even / d_model": "2 * even / d_model", "angles[_]": "(position / 10000 ** (2 * (even + 1) / d_model))[_]"},
        ),
        "cosine_with_its_own_exponent": (
            "Your cosines have their own exponents, (2i + 1) / d_model. The sine and the cosine of a pair must share one angle. Otherwise the pair is "
            "not a point on a circle, and a step to the next position is not a rotation.",
            {"angles[_]": "(position / 10000 ** ((even + 1) / d_model))[_]"},
        ),
        "cosine_one_pair_further": (
            "Your cosines have the wavelength of the next pair, as if their exponent contained 2i + 2. Sine and cosine of a pair share one angle.",
            {"angles[_]": "(position / 10000 ** ((even + 2) / d_model))[_]"},
        ),
        "exponent_over_floored_half": (
            "Even widths are right; for odd ones your exponent is i / (d_model // 2), and rounding the half down makes it too large. The paper's 2i / d_model "
            "needs no half: divide by d_model itself.",
            {"even / d_model": "even / 2 / np.int64(d_model // 2)"},
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
        "exponent_minus_floored": (
            "Your exponent was negated and then divided with `//`, which rounds −0.3 down to −1: all pairs but the first have one and the same wavelength.",
            {"position / ...": "position * 10000.0 ** (-even // d_model)"},
        ),
        "exponent_without_parentheses": (
            "`10000 ** a / b` is (10000 ** a) / b in Python: the exponent of your power is only 2i, and the power is then divided by d_model. The "
            "exponent must be the entire fraction 2i / d_model.",
            {"position / ...": "position / 10000.0**even / d_model"},
        ),
        "power_over_d_model": (
            "You divide the position by (10000 ** 2i) / d_model, because a power binds tighter than a division. The exponent must be the entire fraction "
            "2i / d_model.",
            {"10000 ** (even / d_model)": "10000.0**even / d_model"},
        ),
        "integer_power_without_parentheses": (
            "`10000 ** a / b` is (10000 ** a) / b in Python: the exponent of your power is only 2i, and the power is then divided by d_model. The "
            "exponent must be the entire fraction 2i / d_model. (Such a large power of integers also overflows, without a warning.)",
            {"position / ...": "position / 10000**even / d_model"},
        ),
        "integer_power_over_d_model": (
            "You divide the position by (10000 ** 2i) / d_model, because a power binds tighter than a division. The exponent must be the entire fraction "
            "2i / d_model. (Such a large power of integers also overflows, without a warning.)",
            {"10000 ** (even / d_model)": "10000**even / d_model"},
        ),
        "integer_power_without_d_model": (
            "Your exponent is 2i, not divided by d_model. The second pair then rotates 10⁸ times more slowly than the first, and for later pairs such a "
            "power of integers overflows, without a warning.",
            {"even / d_model": "even"},
        ),
        "exponent_without_d_model": (
            "Your exponent is 2i, not divided by d_model. The second pair then rotates 10⁸ times more slowly than the first, and nearly all columns are "
            "constant.",
            {"10000 ** (even / d_model)": "10000.0**even"},
        ),
        "multiplied": (
            "Your angle is the position times 10000^(2i / d_model); divide the position by this power instead. With the product, neighboring positions "
            "are many turns apart, and their sines look random.",
            {"position / 10000 ** _": "position * 10000.0 ** _"},
        ),
        "minus_forgotten": (
            "Your angle is the position times exp(ln 10000 · 2i / d_model), so each pair rotates faster than the one before. Each pair should rotate "
            "more slowly: if you multiply by the power, its exponent needs a minus sign.",
            {"position / ...": "position * np.exp(even * np.log(10000) / d_model)"},
        ),
        "base_1000": (
            "Your base is 1000. The paper's is 10000, so that the longest wavelength is near 10000 · 2π.",
            {"10000 ** _": "1000 ** _"},
        ),
        "base_100000": (
            "Your base is 100000, a zero too many. The paper's is 10000.",
            {"10000 ** _": "100000 ** _"},
        ),
        "base_e": (
            "Your base is e. 10000^x is exp(x · ln 10000), but you computed exp(x), so all wavelengths are between 2π and 2π · e.",
            {"10000 ** _": "np.exp(_)"},
        ),
        "logarithm_of_base_ten": (
            "You wrote the power as exp(x · log 10000) with the base-10 logarithm, which is 4. exp needs the natural logarithm: ln 10000 is 9.21.",
            {"10000 ** (even / d_model)": "np.exp(np.log10(10000) * even / d_model)"},
        ),
        "exponential_without_logarithm": (
            "You computed exp(−10000 · 2i / d_model), without the logarithm of 10000: all pairs but the first are constant. 10000^x is exp(x · ln 10000).",
            {"position / ...": "position * np.exp(-10000 * even / d_model)"},
        ),
        "pairs_from_one": (
            "Your first pair of columns has the exponent 2 / d_model, so you probably count the pairs from 1. The paper's i starts at 0: the first pair "
            "rotates by one radian per position, and the last exponent is less than 1.",
            {"np.arange(0, d_model, 2)": "np.arange(2, d_model + 2, 2)"},
        ),
        "sines_in_even_rows": (
            "Your rows alternate: sines at even positions, cosines at odd ones. In PE(pos, 2i) the 2i is a column, so the columns must alternate, at "
            "every position.",
            {
                "table[:, 0::2] = np.sin(angles)": "angles = position / 10000 ** ((np.arange(d_model) - np.arange(d_model) % 2) / d_model)",
                "table[:, 1::2] = ...": "table[0::2], table[1::2] = np.sin(angles[0::2]), np.cos(angles[1::2])",
            },
        ),
        "positions_from_one": (
            "Your positions start at 1. The first one is 0, with the row 0, 1, 0, 1 …",
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
        "full_turns": (
            "Your angles are multiplied by 2π. The angles are in radians already, and the first wavelength is 2π; with the factor it is 1, so the first "
            "pair has the same values at every position.",
            {"position / _": "2 * np.pi * position / _"},
        ),
        "degrees": (
            "You convert the angles from degrees to radians. They are in radians already, which is what NumPy's sine expects.",
            {"angles = _": "angles = np.radians(_)"},
        ),
        "odd_width_raises": (
            "Your table works only for an even d_model. An odd d_model has one more sine than cosines, so leave out the cosine of the last angle.",
            {"angles[...]": "angles"},
        ),
        "odd_width_index_error": (
            "Your loop writes a sine and a cosine for every pair. With an odd d_model there is no column for the cosine of the last pair.",
            """\
def positional_encoding(max_len, d_model):
    table = np.zeros((max_len, d_model))
    for position in range(max_len):
        for column in range(0, d_model, 2):
            angle = position / 10000 ** (column / d_model)
            table[position, column] = math.sin(angle)
            table[position, column + 1] = math.cos(angle)
    return table
""",
        ),
        "odd_width_too_narrow": (
            "For an odd d_model your table has one column too few, because d_model // 2 pairs do not include the last sine. This sine has no cosine.",
            {"(max_len, d_model)": "(max_len, d_model - d_model % 2)", "np.sin(angles)": "np.sin(angles[:, : d_model // 2])"},
        ),
        "odd_width_too_wide": (
            "For an odd d_model your table has one column too many: it includes the cosine of the last sine.",
            {"(max_len, d_model)": "(max_len, d_model + d_model % 2)", "angles[...]": "angles"},
        ),
        "odd_width_last_column_empty": (
            "For an odd d_model your last column is all 0, because d_model // 2 pairs do not reach it. An odd width has one more sine, without its cosine.",
            {"np.empty": "np.zeros", "table[:, 0::2] = np.sin(angles)": "table[:, 0 : d_model - 1 : 2] = np.sin(angles[:, : d_model // 2])"},
        ),
        "float32_table": (
            "Your table is float32, which keeps seven digits. The table should be float64: the caller can convert it to float32, but cannot recover lost "
            "digits.",
            {"np.empty(_)": "np.empty(_, dtype=np.float32)"},
        ),
        "float32_angles": (
            "Your table is float64, but its angles were computed in float32. Near position 5000 a float32 angle is off by up to 0.0002, and converting "
            "the result cannot recover the lost digits.",
            {"position / 10000 ** _": "position.astype(np.float32) / np.float32(10000) ** _.astype(np.float32)"},
        ),
        "transposed": (
            "Your table is (d_model, max_len). Rows are positions and columns are features, (max_len, d_model), because the table is added to token "
            "vectors of this layout.",
            {"return table": "return table.T"},
        ),
        "batch_axis": (
            "Your table has an axis of length 1 in front, as is common in PyTorch code. Here the table is (max_len, d_model); broadcasting adds the "
            "batch axis.",
            {"return table": "return table[np.newaxis]"},
        ),
    },
)
