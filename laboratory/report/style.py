"""How the laboratory's pictures look: white, so that they are legible on a dark page, as wide as a phone, and
with a mark and a line for each variant besides its color.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator, ScalarFormatter

WIDTH = 5.4  # inches, 389 points: a point is a pixel on a phone
LETTERS = 52  # of a row of the legend; a mark takes six
INK, QUIET = "#1a1a1a", "#8a8a8a"
STYLE: Any = {  # of matplotlib
    "svg.hashsalt": "laboratory",  # the same picture is the same file
    "svg.fonttype": "none",  # text stays text: smaller, and can be searched
    "font.size": 10.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 10.5,
    "legend.fontsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.edgecolor": QUIET,
    "text.parse_math": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
# Okabe & Ito's colors, which are distinguishable for all readers, without the yellow, which is too light
# on white.
COLORS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4a21", "#777777"
MARKS = "s", "^", "D", "v", "P", "X", "p", "*"
LINES = "--", "-.", ":", (0, (6, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 1, 2))


@dataclass(frozen=True)
class Look:
    """How a variant is drawn."""

    color: str
    mark: str
    line: Any


def looks(variants: tuple[str, ...], baseline: str) -> dict[str, Look]:
    """The baseline black, with a circle and a whole line; the others each with their own."""
    rest = [variant for variant in variants if variant != baseline]
    styles = {
        # from the ninth on, a color has another mark
        variant: Look(COLORS[i % 8], MARKS[(i + i // 8) % 8], LINES[i % 7])
        for i, variant in enumerate(rest)
    }
    return {variant: styles.get(variant, Look(INK, "o", "-")) for variant in variants}


def legend(figure: Figure, shown: dict[str, Look], line: bool = True) -> None:
    """Names above all panels, in as many columns as their lengths allow."""
    handles = [
        Line2D([], [], color=look.color, marker=look.mark, linestyle=look.line if line else "")
        for look in shown.values()
    ]
    figure.legend(
        handles,
        list(shown),
        loc="outside upper left",
        ncols=columns(tuple(shown)),
        frameon=False,
        handlelength=2.6,
    )


def columns(names: tuple[str, ...]) -> int:
    """The number of columns in a legend."""
    return max(1, min(len(names), LETTERS // (max(map(len, names)) + 6)))


def logarithmic(axes: Axes, axis: str, values: list[float] | None = None) -> None:
    """A logarithmic axis with plain numbers.

    Args:
        axis: "x" or "y".
        values: where its ticks stand; 1, 2 and 5 times powers of ten if left out.
    """
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    chosen.set_major_locator(FixedLocator(values) if values else LogLocator(subs=(1, 2, 5)))
    chosen.set_minor_locator(NullLocator())
    chosen.set_minor_formatter(NullFormatter())
    plain(axes, axis)


def plain(axes: Axes, axis: str) -> None:
    """Numbers on an axis as people write them: 20k, 3M."""
    (axes.xaxis if axis == "x" else axes.yaxis).set_major_formatter(Plain(useOffset=False))


class Plain(ScalarFormatter):
    """All numbers of an axis with as many decimals, and large ones short."""

    large = False

    def set_locs(self, locs: list[float]) -> None:
        """Where the ticks are."""
        self.large = max(map(abs, locs), default=0) >= 1000
        super().set_locs(locs)

    def __call__(self, x: float, pos: int | None = None) -> str:
        """A tick's label."""
        return short(x) if self.large else super().__call__(x, pos)

    def get_offset(self) -> str:
        """The power of ten at the end of the axis: none if the labels have it."""
        return "" if self.large else super().get_offset()


def short(value: float) -> str:
    """A number in few letters: 1500 is 1.5k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.4g}".replace("-", "−")


def as_svg(figure: Figure) -> bytes:
    """A figure's file; the figure is closed."""
    body = io.BytesIO()
    try:
        figure.savefig(body, format="svg", metadata={"Date": None, "Creator": None})
    finally:
        plt.close(figure)
    return body.getvalue()
