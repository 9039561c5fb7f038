"""The curve of days 45 to 49: how many held-out sums the model that they share answers right."""

from __future__ import annotations

import matplotlib.pyplot as plt

SHARES = {44: 0.0, 45: 0.812, 46: 0.854, 47: 0.91, 48: 0.976, 49: 0.978}
"""After each day, as its lesson printed it; before day 45, after pretraining alone."""
WORDS = ("pretrained", "45: tuned", "46: LoRA", "47: preferences", "48: rewards", "49: votes")


def growth(day: int, share: float) -> None:
    """Draw the points of earlier days as stored, and this day's share as measured."""
    points = {**{before: SHARES[before] for before in SHARES if before < day}, day: share}
    print(f"day {day}: {share:.1%} of the 500 held-out sums are right")
    _, panel = plt.subplots(figsize=(6.4, 3), layout="constrained")
    panel.plot(list(points), list(points.values()), "o-", color="#0072B2", lw=2)
    for place, value in points.items():
        panel.annotate(
            f"{value:.0%}", (place, value), (0, 7), textcoords="offset points", ha="center"
        )
    panel.set_xticks(range(44, 50), [word.replace(": ", "\n") for word in WORDS])
    panel.set(ylabel="share right", xlabel="day", ylim=(-0.05, 1.15), xlim=(43.6, 49.4))
    plt.show()
