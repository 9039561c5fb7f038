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
            "You keep a table and cut narrower ones from it. More positions are more rows of the same, but the frequencies depend on d_model: a narrower table "
            "is not the left part of a wider one. Each call stands for itself.",
            KEPT,
        ),
        "halves_concatenated": (
            "You put all sines on the left and all cosines on the right. The paper interleaves them: a sine in each even column and, right beside it, the "
            "cosine of the same angle. Sums with embeddings care about which column is which.",
            {"table[:, 0::2] = _": "table[:, : even.size] = _", "table[:, 1::2] = _": "table[:, even.size :] = _"},
        ),
        "halves_concatenated_too_wide": (
            "You put all sines on the left and all cosines on the right; the paper interleaves them, each cosine right beside its sine. And an odd width comes "
            "out a column too wide, for its last sine has brought a cosine along.",
            {
                "(max_len, d_model)": "(max_len, d_model + d_model % 2)",
                "table[:, 0::2] = _": "table[:, : even.size] = _",
                "table[:, 1::2] = ...": "table[:, even.size :] = np.cos(angles)",
            },
        ),
        "halves_concatenated_too_narrow": (
            "You put all sines on the left and all cosines on the right; the paper interleaves them, each cosine right beside its sine. And an odd width comes "
            "out a column too narrow: its last sine is missing.",
            {
                "(max_len, d_model)": "(max_len, d_model - d_model % 2)",
                "table[:, 0::2] = np.sin(angles)": "table[:, : d_model // 2] = np.sin(angles[:, : d_model // 2])",
                "table[:, 1::2] = _": "table[:, d_model // 2 :] = _",
            },
        ),
        "sine_and_cosine_swapped": (
            "Your cosines are in the even columns and your sines in the odd ones: exchange them. Position 0 shows it: its row must be 0, 1, 0, 1 …, because "
            "sin 0 = 0 comes first.",
            {"table[:, 0::2] = np.sin(angles)\ntable[:, 1::2] = np.cos(_)": "table[:, 0::2] = np.cos(angles)\ntable[:, 1::2] = np.sin(_)"},
        ),
        "only_sines": (
            "Your odd columns hold sines too, so each pair is one number twice. A sine alone cannot tell a rising wave from a falling one; with its cosine "
            "beside it, every angle of the circle has a pair of its own.",
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
            "Your exponents are twice the column's number over d_model, and a cosine has another exponent than the sine beside it. The i of the paper counts "
            "pairs of columns, not columns: both of a pair have the exponent 2i / d_model.",
            {"even / d_model": "2 * even / d_model", "angles[_]": "(position / 10000 ** (2 * (even + 1) / d_model))[_]"},
        ),
        "cosine_with_its_own_exponent": (
            "Your cosines have exponents of their own, (2i + 1) / d_model. Sine and cosine of a pair share one angle, or they are no point of a circle, and a "
            "step to the next position is no rotation.",
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
            "Even widths are right; an odd one seems to be made as d_model + 1 columns, one of them cut off. That changes every wavelength, for the exponent "
            "was divided by d_model + 1.",
            {"even / d_model": "even / (d_model + d_model % 2)"},
        ),
        "last_exponent_is_one": (
            "Your exponents run from 0 to exactly 1, as in some libraries, which divide by the number of pairs less one. In the paper the last exponent, "
            "(d_model − 2) / d_model, stops short of 1.",
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
            "`10000 ** a / b` is (10000 ** a) / b in Python: your power has the exponent 2i alone, and d_model divides the outcome. The fraction 2i / d_model "
            "as a whole is the exponent.",
            {"position / ...": "position / 10000.0**even / d_model"},
        ),
        "power_over_d_model": (
            "You divide the position by (10000 ** 2i) / d_model: a power binds tighter than a division. The fraction 2i / d_model as a whole is the exponent.",
            {"10000 ** (even / d_model)": "10000.0**even / d_model"},
        ),
        "integer_power_without_parentheses": (
            "`10000 ** a / b` is (10000 ** a) / b in Python: your power has the exponent 2i alone, and d_model divides the outcome. The fraction 2i / "
            "d_model as a whole is the exponent. (Such a large power of integers also overflows, without a warning.)",
            {"position / ...": "position / 10000**even / d_model"},
        ),
        "integer_power_over_d_model": (
            "You divide the position by (10000 ** 2i) / d_model: a power binds tighter than a division. The fraction 2i / d_model as a whole is the "
            "exponent. (Such a large power of integers also overflows, without a warning.)",
            {"10000 ** (even / d_model)": "10000**even / d_model"},
        ),
        "integer_power_without_d_model": (
            "Your exponent is 2i, not divided by d_model. Already the second pair then turns 10⁸ times slower than the first, and further right such a power "
            "of whole numbers overflows, without a word.",
            {"even / d_model": "even"},
        ),
        "exponent_without_d_model": (
            "Your exponent is 2i, not divided by d_model. Already the second pair then turns 10⁸ times slower than the first: nearly all columns stand still.",
            {"10000 ** (even / d_model)": "10000.0**even"},
        ),
        "multiplied": (
            "Your angle is the position times 10000^(2i / d_model); the position must be divided by it. Multiplied, neighbouring positions lie many turns "
            "apart, and their sines look random.",
            {"position / 10000 ** _": "position * 10000.0 ** _"},
        ),
        "minus_forgotten": (
            "Your angle is the position times exp(ln 10000 · 2i / d_model), so the hands get faster from pair to pair. They are to get slower: as a factor, "
            "the power needs a minus in its exponent.",
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
            "Your base is e. 10000^x is exp(x · ln 10000); you took exp(x), so all wavelengths lie between 2π and 2π · e.",
            {"10000 ** _": "np.exp(_)"},
        ),
        "logarithm_of_base_ten": (
            "You wrote the power as exp(x · log 10000) with the logarithm to base 10, which is 4. exp belongs to the natural logarithm: ln 10000 is 9.21.",
            {"10000 ** (even / d_model)": "np.exp(np.log10(10000) * even / d_model)"},
        ),
        "exponential_without_logarithm": (
            "You took exp(−10000 · 2i / d_model), without the logarithm of 10000: all pairs but the first stand still. 10000^x is exp(x · ln 10000).",
            {"position / ...": "position * np.exp(-10000 * even / d_model)"},
        ),
        "pairs_from_one": (
            "Your first pair of columns has the exponent 2 / d_model, so the pairs seem to be counted from 1. The paper's i starts at 0: the first hand turns "
            "by one radian at each position, and the last exponent stays below 1.",
            {"np.arange(0, d_model, 2)": "np.arange(2, d_model + 2, 2)"},
        ),
        "sines_in_even_rows": (
            "Your rows alternate: sines at even positions, cosines at odd ones. In PE(pos, 2i) the 2i is a column, so it is the columns that alternate, at "
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
            "Your first row is all 0, as in tables that keep position 0 for padding. Here position 0 is an ordinary position: sin 0 is 0, but cos 0 is 1.",
            {"return table": "table[0] = 0\nreturn table"},
        ),
        "position_as_a_fraction": (
            "Your positions are divided by max_len. Positions are integers: the row of position 3 must not change when the table gets longer.",
            {"np.arange(max_len)": "np.arange(max_len) / max_len"},
        ),
        "full_turns": (
            "Your angles are multiplied by 2π. They are in radians as they stand, and the first wavelength is 2π; with the factor it is 1, so the first pair "
            "says the same at every position.",
            {"position / _": "2 * np.pi * position / _"},
        ),
        "degrees": (
            "Your angles are turned from degrees into radians. They are in radians as they stand, which is what NumPy's sine expects.",
            {"angles = _": "angles = np.radians(_)"},
        ),
        "odd_width_raises": (
            "Your table works for an even d_model only. An odd one has a sine more than cosines, so the cosines must leave out the last angle.",
            {"angles[...]": "angles"},
        ),
        "odd_width_index_error": (
            "Your loop writes a sine and a cosine for every pair. With an odd d_model the last sine has no cosine beside it: there is no such column.",
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
            "For an odd d_model your table is a column short: d_model // 2 pairs are one column too few. The last sine stands alone, without its cosine.",
            {"(max_len, d_model)": "(max_len, d_model - d_model % 2)", "np.sin(angles)": "np.sin(angles[:, : d_model // 2])"},
        ),
        "odd_width_too_wide": (
            "For an odd d_model your table has a column too many: the last sine has brought its cosine along.",
            {"(max_len, d_model)": "(max_len, d_model + d_model % 2)", "angles[...]": "angles"},
        ),
        "odd_width_last_column_empty": (
            "For an odd d_model your last column is all 0. d_model // 2 pairs do not reach it: an odd width has one more sine, without its cosine.",
            {"np.empty": "np.zeros", "table[:, 0::2] = np.sin(angles)": "table[:, 0 : d_model - 1 : 2] = np.sin(angles[:, : d_model // 2])"},
        ),
        "float32_table": (
            "Your table is float32, which keeps seven digits. The table should be float64: the caller can convert it to float32, but cannot recover lost "
            "digits.",
            {"np.empty(_)": "np.empty(_, dtype=np.float32)"},
        ),
        "float32_angles": (
            "Your table is float64, but its angles were computed in float32. Near position 5000 a float32 angle is off by up to 0.0002, and converting the "
            "result brings no lost digit back.",
            {"position / 10000 ** _": "position.astype(np.float32) / np.float32(10000) ** _.astype(np.float32)"},
        ),
        "transposed": (
            "Your table is (d_model, max_len). Rows are positions and columns are features, (max_len, d_model): it is added to token vectors, which lie like "
            "that.",
            {"return table": "return table.T"},
        ),
        "batch_axis": (
            "Your table has an axis of length 1 in front, as PyTorch code likes it. Here it is (max_len, d_model): broadcasting puts the batch axis there by "
            "itself.",
            {"return table": "return table[np.newaxis]"},
        ),
    },
)
