"""The limits of a worker, and the messages if it exceeds them."""

from __future__ import annotations

import sys

MAX_MEMORY = 4 * 2**30
# CPU seconds of the learner's own code in one check: over ten times what any needs.
PATIENCE = 5.0
# CPU seconds of the entire process, for a worker whose own clock does not stop it: a loop in C, or a lie.
BACKSTOP = 3 * PATIENCE
# Seconds by the clock, for a machine that is busy. Only Linux tells who is kept waiting from who sleeps.
WAITING = (30 if sys.platform == "linux" else 6) * PATIENCE
NAP = 5.0  # seconds that code may sleep in one check: it should compute
# Seconds for a day, computed and slept: each check may be slow without exceeding its own limit.
MAX_DAY_SECONDS = 120.0
MAX_SLEEP_SECONDS = 2 * NAP
STARTING = 60.0  # seconds a worker may take to start; importing torch on a cold disk is slow
MAX_PRINTED = 20_000  # characters kept of what the learner prints

TOO_LONG = "Your code was still running after {:g} seconds: is there an endless loop?"
TOO_MUCH = f"Your code took over {MAX_MEMORY // 2**30} GB of memory: is an array far too large?"
CRASHED = "Your code crashed the whole Python process (signal {})."
GIBBERISH = "Your code wrote to the channel that the checks speak through."
LOST_GPU = "Your code stopped the GPU, most often by an index out of range."
LOST = "The process that runs your code was lost. Check again, or try `course doctor`."
