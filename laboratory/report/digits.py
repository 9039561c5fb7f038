"""Numbers with the digits that their spread allows."""

from __future__ import annotations

import math


def places(spread: float, most: int) -> int:
    """How many decimals a number with this spread has.

    The last digit shown is the first one of the spread, or the second if the first is a 1.

    Args:
        spread: a standard deviation, or half an interval; 0 or NaN if there is none.
        most: the maximum; the result if there is no spread.

    Returns:
        Decimals; below 0 where tens, hundreds, … are rounded away.
    """
    if not math.isfinite(spread) or spread <= 0:
        return most
    size = math.floor(math.log10(spread))
    first_is_1 = spread / 10.0**size < 2
    return min(most, first_is_1 - size)


def number(value: float, decimals: int) -> str:
    """A number with this many decimals, a comma at the thousands, and a real minus."""
    if not math.isfinite(value):
        return "—" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    rounded = round(value, decimals) + 0.0  # -0.0 becomes 0.0
    return f"{rounded:,.{max(0, decimals)}f}".replace("-", "−")


def signed(value: float, decimals: int) -> str:
    """A difference, which always has its sign."""
    text = number(value, decimals)
    return f"+{text}" if value > 0 and text.strip("0.,") else text


def significant(value: float, digits: int = 2) -> str:
    """Format a number to this many significant digits."""
    is_finite = math.isfinite(value) and value != 0
    return number(value, digits - 1 - math.floor(math.log10(abs(value))) if is_finite else 0)
