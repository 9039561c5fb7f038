"""What a worker may take, and the words for one that took more."""

from __future__ import annotations

MOST_MEMORY = 4 * 2**30
PATIENCE = 5.0  # seconds a check may compute: over ten times what any needs
IDLE = 6.0  # times as long by the clock, for code that waits, or a machine that is busy
STARTING = 60.0  # seconds a worker may take to start; importing torch on a cold disk is slow
MOST_PRINTED = 20_000  # characters kept of what the learner prints

TOO_MUCH = f"Your code took over {MOST_MEMORY // 2**30} GB of memory: is an array far too large?"
CRASHED = "Your code crashed the whole Python process (signal {})."
GIBBERISH = "Your code wrote to the channel that the checks speak through."
