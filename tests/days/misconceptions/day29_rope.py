"""Wrong answers to day 29, and what they misunderstood."""

from course.judging.misconceptions import Misconception

TABLE, TURN = "rope_angles", "apply_rope"

# What edits find in `rope_angles`.
EXPONENT = "(-even / head_dim)"
RESULT = "return torch.outer(position, theta)"

# What edits find in `apply_rope`.
CUT = "turns = angles[offset : offset + x.size(-2)]"
COUNT = "torch.arange(x.size(-2), device"
START = "position = offset.unsqueeze(-1) + steps"
ROWS = "turns = turns.view(len(turns), *[1] * (x.dim() - 3), *turns.shape[1:])"
WIDE = "wide = torch.promote_types(x.dtype, torch.float32)"
LAYOUT = 'if layout == "interleaved" else'
SPLIT = "x.to(wide).unflatten(-1, sizes)"
STACK = "turned = torch.stack("
FIRST, SECOND = "a * cos - b * sin", "a * sin + b * cos"
BACK = "return turned.flatten(-2).to(x.dtype)"


def repeated(both):
    """Cosines and sines made as wide as x, and then paired as x is."""
    return {
        STACK: f"full = {both}.unflatten(-1, sizes)\n"
        "    cos, cos_b = full.cos().to(x.device, wide).unbind(axis)\n"
        "    sin, sin_b = full.sin().to(x.device, wide).unbind(axis)\n"
        f"    {STACK}",
        SECOND: "a * sin_b + b * cos_b",
    }


MISCONCEPTIONS = [
    # --- rope_angles
    Misconception(
        "exponent_without_two",
        TABLE,
        "Your exponent is i / d, half of what it should be, so the pairs slow down too little. i counts the pairs, and the "
        "formula has 2i.",
        {EXPONENT: "(-even / 2 / head_dim)"},
    ),
    Misconception(
        "exponent_doubled",
        TABLE,
        "Your exponent is twice what it should be. `arange(0, head_dim, 2)` holds 0, 2, 4 …: that is the formula's 2i already.",
        {EXPONENT: "(-2 * even / head_dim)"},
    ),
    Misconception(
        "pairs_from_1",
        TABLE,
        "Your pairs are counted from 1 with the exponent −2i / d. The paper counts from 1 too, but subtracts 1 in the exponent: the first "
        "pair turns by a whole radian a step.",
        {EXPONENT: "(-(even + 2) / head_dim)"},
    ),
    Misconception(
        "last_exponent_is_one",
        TABLE,
        "Your exponents run from 0 to exactly −1. The last one, −(d − 2) / d, stops short of it: divide by d, not by the last even number.",
        {EXPONENT: "(-even / max(head_dim - 2, 1))"},
    ),
    Misconception(
        "exponent_positive",
        TABLE,
        "Your pairs turn faster and faster from the first to the last. The exponent is negative: the first pair is the fastest.",
        {EXPONENT: "(even / head_dim)"},
    ),
    Misconception(
        "base_ignored",
        TABLE,
        "Your base is 10000 whatever the caller asks for. That is only the default: later models have larger ones, to reach further.",
        {"base **": "10000.0 **"},
    ),
    Misconception(
        "base_of_1000_by_default",
        TABLE,
        "Where the caller names no base, yours is 1000. The default is 10000: a zero is missing.",
        {"base: float = 10000.0": "base: float = 1000.0"},
    ),
    Misconception(
        "base_of_500000_by_default",
        TABLE,
        "Where the caller names no base, yours is 500000, as in LLaMA 3. The default is the paper's 10000.",
        {"base: float = 10000.0": "base: float = 500000.0"},
    ),
    Misconception(
        "positions_from_1",
        TABLE,
        "Your positions start at 1. They are counted from 0, so the first row is all 0: the first token is not turned.",
        {"torch.arange(max_len, dtype": "torch.arange(1, max_len + 1, dtype"},
    ),
    Misconception(
        "one_position_too_many",
        TABLE,
        "Your table has one position too many. `max_len` positions counted from 0 end at max_len − 1.",
        {"torch.arange(max_len, dtype": "torch.arange(max_len + 1, dtype"},
    ),
    Misconception(
        "whole_turns",
        TABLE,
        "Your angles are 2π times too large: the first pair makes a whole turn at each step, which is none. θ is in radians already.",
        {RESULT: f"{RESULT} * 6.283185307179586"},
    ),
    Misconception(
        "repeated_in_halves",
        TABLE,
        "Your table has each angle twice, one half beside the other, as Hugging Face's has. Wanted is one angle for each pair, "
        "`(max_len, head_dim / 2)`: how the two of a pair lie is the layout's business.",
        {RESULT: f"{RESULT}.repeat(1, 2)"},
    ),
    Misconception(
        "repeated_side_by_side",
        TABLE,
        "Your table has each angle twice, side by side. Wanted is one angle for each pair, `(max_len, head_dim / 2)`.",
        {RESULT: f"{RESULT}.repeat_interleave(2, dim=1)"},
    ),
    Misconception(
        "pairs_by_positions",
        TABLE,
        "Your table has a row for each pair. It needs a row for each position, and a column for each pair.",
        {RESULT: "return torch.outer(theta, position)"},
    ),
    Misconception(
        "cosines_and_sines",
        TABLE,
        "You return cosines and sines. Wanted are the angles themselves; `apply_rope` takes their cosines and sines.",
        {RESULT: "angles = torch.outer(position, theta)\n    return angles.cos(), angles.sin()"},
    ),
    Misconception(
        "complex_numbers",
        TABLE,
        "You return complex numbers on the unit circle, as LLaMA's first code does. Wanted are their angles, which are real.",
        {
            RESULT: "angles = torch.outer(position, theta)\n    return torch.polar(torch.ones_like(angles), angles)"
        },
    ),
    Misconception(
        "table_in_half_precision",
        TABLE,
        "Your table is in half precision. bfloat16 has not even every whole number above 256: the fast pairs of a long text would "
        "point anywhere. Keep float32 at least.",
        {RESULT: f"{RESULT}.to(torch.bfloat16)"},
    ),
    # --- apply_rope: where a token is
    Misconception(
        "offset_ignored",
        TURN,
        "You ignore the offset: every chunk is turned as if it were the beginning of the text. With a cache each new token would then "
        "stand at position 0.",
        {CUT: "turns = angles[: x.size(-2)]", START: f"{START} - offset.unsqueeze(-1)"},
    ),
    Misconception(
        "row_offsets_ignored",
        TURN,
        "An offset for all rows works in your answer; one for each row is ignored, and all rows begin at position 0.",
        {START: f"{START} - offset.unsqueeze(-1)"},
    ),
    Misconception(
        "offset_lost_after_a_cache",
        TURN,
        "A single token is always turned as the first of a text, that is, not at all. What a cache holds came before it: its position is the "
        "offset.",
        {
            CUT: "turns = angles[offset : offset + x.size(-2)] if x.size(-2) > 1 else angles[:1]",
        },
    ),
    Misconception(
        "chunk_at_one_position",
        TURN,
        "All tokens of a chunk are turned by the offset's angle. The offset is the position of the first; the others follow, one by one.",
        {
            CUT: "turns = angles[offset : offset + 1]",
            START: "position = offset.unsqueeze(-1) + 0 * steps",
        },
    ),
    Misconception(
        "offset_off_by_one",
        TURN,
        "Your tokens stand one position too far. The offset is the position of the first token itself, not of the one before.",
        {
            CUT: "turns = angles[offset + 1 : offset + 1 + x.size(-2)]",
            START: f"{START} + 1",
        },
    ),
    Misconception(
        "last_positions_of_the_table",
        TURN,
        "You take the last rows of the table. A table may reach further than the text: the first token is at `offset`, however long the table is.",
        {CUT: "turns = angles[angles.size(0) - x.size(-2) :]"},
    ),
    Misconception(
        "offset_of_the_first_row_for_all",
        TURN,
        "All rows get the first row's offset. Where prompts differ in length, each row is at a position of its own.",
        {START: "position = offset[:1].unsqueeze(-1) + steps"},
    ),
    Misconception(
        "row_offset_subtracted",
        TURN,
        "You subtract each row's offset from the positions, as one does for padding on the left. An offset is what came before the chunk: it is "
        "added.",
        {START: "position = steps - offset.unsqueeze(-1)"},
    ),
    Misconception(
        "offset_only_an_int",
        TURN,
        "Your offset must be a single number. It may also be a tensor with one for each row of the batch.",
        {"# 1. The angle": "offset = int(offset)\n    # 1. The angle"},
    ),
    Misconception(
        "row_offsets_over_heads",
        TURN,
        "Your offsets of the rows meet the axis in front of time, which is that of the heads. Axes are aligned from the right: what belongs to the first "
        "axis of x needs axes of length 1 behind it.",
        {ROWS: "turns = turns.view(*[1] * (x.dim() - 3), *turns.shape)"},
    ),
    Misconception(
        "always_one_head_axis",
        TURN,
        "With an offset for each row you always make room for exactly one axis between batch and time. There may be none, or two: count the axes of x.",
        {ROWS: "turns = turns.unsqueeze(1)"},
    ),
    Misconception(
        "row_offsets_over_time",
        TURN,
        "You add offsets of rows to steps of time entry by entry. Every row has every step: a column plus a row makes the table of all positions.",
        {START: "position = offset + steps", ROWS: "pass"},
    ),
    Misconception(
        "time_before_heads",
        TURN,
        "You take the second axis for time, as in (B, T, h, d). Heads have been moved forward here: time is the last axis but one, (B, h, T, d). As it is, "
        "each head is turned by its number.",
        {
            CUT: "turns = angles[offset : offset + x.size(1)].unsqueeze(1)",
            COUNT: "torch.arange(x.size(1), device",
            ROWS: "turns = turns.unsqueeze(2)",
        },
    ),
    # --- apply_rope: which features are a pair
    Misconception(
        "layouts_swapped",
        TURN,
        'Your layouts are swapped. "interleaved" pairs features 2i and 2i + 1, which lie side by side; "halves" pairs i and i + head_dim/2.',
        {LAYOUT: 'if layout == "halves" else'},
    ),
    Misconception(
        "always_interleaved",
        TURN,
        'Your pairs always lie side by side, also where `layout="halves"` is asked for. Weights trained with the one layout are nonsense in the other.',
        {LAYOUT: "if True else"},
    ),
    Misconception(
        "always_halves",
        TURN,
        'Your pairs always lie half a vector apart, also where `layout="interleaved"` is asked for. Weights trained with the one layout are nonsense in the other.',
        {LAYOUT: "if False else"},
    ),
    Misconception(
        "halves_by_default",
        TURN,
        'Where no layout is named, your pairs lie half a vector apart. The default is the paper\'s, `"interleaved"`.',
        {'layout: str = "interleaved"': 'layout: str = "halves"'},
    ),
    Misconception(
        "put_back_in_halves",
        TURN,
        'With `layout="interleaved"` you turn the right pairs, but leave all first features on the left and all second ones on the right. '
        "Put each back where it was. (Scores would not notice, as long as queries and keys do the same.)",
        {"dim=axis": "dim=-2"},
    ),
    Misconception(
        "put_back_side_by_side",
        TURN,
        'With `layout="halves"` you turn the right pairs, but put the two of a pair side by side. Put each back where it was: half a vector '
        "apart.",
        {"dim=axis": "dim=-1"},
    ),
    Misconception(
        "taken_apart_in_halves",
        TURN,
        'With `layout="interleaved"` you take features i and i + head_dim/2 for a pair, and put them back side by side. The two of a pair lie side by side '
        "before and after.",
        {
            SPLIT + ".unbind(axis)": "x.to(wide).unflatten(-1, (2, pairs)).unbind(-2)",
        },
    ),
    Misconception(
        "cosines_repeated_in_halves",
        TURN,
        "With pairs side by side, the two of a pair are turned by different angles in your answer: you repeat the angles half beside half. Repeat them as the "
        "features lie, each twice in a row.",
        repeated("torch.cat((turns, turns), dim=-1)"),
    ),
    Misconception(
        "cosines_repeated_side_by_side",
        TURN,
        "With pairs half a vector apart, the two of a pair are turned by different angles in your answer: you repeat each angle twice in a row. Repeat "
        "them as the features lie, half beside half.",
        repeated("turns.repeat_interleave(2, dim=-1)"),
    ),
    # --- apply_rope: the turn
    Misconception(
        "turned_backwards",
        TURN,
        "You turn the wrong way: by −mθ. The minus belongs to the first of a pair. (A model trained your way would learn just as well; published weights "
        "expect the paper's way.)",
        {"turns.sin()": "(-turns).sin()"},
    ),
    Misconception(
        "cosine_and_sine_swapped",
        TURN,
        "You have exchanged cosine and sine. At position 0 nothing is turned: the cosine, which is 1 there, keeps a feature where it is.",
        {"cos, sin = turns": "sin, cos = turns"},
    ),
    Misconception(
        "minus_forgotten",
        TURN,
        "Both of your features are sums. A turn has one minus, before the sine in the first of a pair; without it pairs change their length.",
        {FIRST: "a * cos + b * sin"},
    ),
    Misconception(
        "minus_in_both",
        TURN,
        "Both of your features are differences. A turn has one minus, before the sine in the first of a pair; with two pairs change their length.",
        {SECOND: "b * cos - a * sin"},
    ),
    Misconception(
        "mirrored",
        TURN,
        "You mirror pairs instead of turning them. They keep their length; but at position 0, where nothing is to change, the second of each pair changes its sign.",
        {FIRST: "a * cos + b * sin", SECOND: "a * sin - b * cos"},
    ),
    Misconception(
        "turned_first_in_the_second",
        TURN,
        "The second feature of a pair is computed from the first one after it was turned. Both need the old values: compute both before you "
        "overwrite either.",
        {
            STACK: f"a = {FIRST}\n    {STACK}",
            f"({FIRST}, ": "(a, ",
        },
    ),
    # --- apply_rope: dtypes, axes, memory
    Misconception(
        "result_in_the_angles_dtype",
        TURN,
        "Your result takes over the dtype of the angles. A float64 table must not make the whole model float64: the result has the dtype of x.",
        {
            WIDE: "wide = torch.promote_types(x.dtype, turns.dtype)",
            BACK: "return turned.flatten(-2)",
        },
    ),
    Misconception(
        "halves_come_back_as_float32",
        TURN,
        "Half precision comes in and float32 comes out. To turn in float32 is right; the result goes back to the dtype of x.",
        {BACK: "return turned.flatten(-2)"},
    ),
    Misconception(
        "angles_in_half_precision",
        TURN,
        "You round the angles to the dtype of x before you take cosines. In half precision an angle of 200 is off by up to half a radian. "
        "Take cosines and sines first, and then change the dtype.",
        {
            "turns.cos()": "turns.to(x.dtype).cos()",
            "turns.sin()": "turns.to(x.dtype).sin()",
        },
    ),
    Misconception(
        "always_in_float32",
        TURN,
        "You turn in float32 whatever comes in. That is right for halves, but float64 loses half its digits on the way.",
        {WIDE: "wide = torch.float32"},
    ),
    Misconception(
        "four_axes_only",
        TURN,
        "Your x must have four axes. Any number of axes may stand before time: heads come as one more, or not at all.",
        {WIDE: f"_, _, _, _ = x.shape\n    {WIDE}"},
    ),
    Misconception(
        "x_changed_in_place",
        TURN,
        "You write into x. Whoever called you still has it: the query of one layer would be turned twice. Return something new.",
        {BACK: "return x.copy_(turned.flatten(-2))"},
    ),
    Misconception(
        "x_detached",
        TURN,
        "No gradient passes: x was cut off from where it came from (`.data`, `.detach()`, a `no_grad` around too much). The angles need no "
        "gradient, but the projections before the turn do.",
        {SPLIT: "x.detach().to(wide).unflatten(-1, sizes)"},
    ),
    Misconception(
        "complex_view_of_any_memory",
        TURN,
        "`view_as_complex` wants the two numbers of a pair side by side in memory, and x may lie there otherwise, after a transposition. Make it "
        "contiguous first.",
        {
            STACK: 'if layout == "interleaved":\n'
            f"        torch.view_as_complex({SPLIT})\n"
            f"    {STACK}",
        },
    ),
    Misconception(
        "size_left_open",
        TURN,
        "You leave a size open with −1 in a reshape. A tensor without tokens has no numbers to work that size out from: name it.",
        {
            SPLIT: "x.to(wide).reshape(*x.shape[:-1], *((-1, 2) if axis == -1 else (2, -1)))",
        },
    ),
]
