"""Leaving by every door, and not leaving at all."""

from tests.course.hostile.kinds import Kind, before, during, ends, in_one_check, reaches

KINDS = [
    Kind(
        "exits-at-once",
        "Ends the process with the exit code of success, in a check or before any.",
        in_one_check(2, "import os; os._exit(0)") | before(8, "import os; os._exit(0)"),
        {2: "error", 8: "error"},
    ),
    Kind(
        "sys-exit",
        "Asks Python to stop, and pytest.",
        during(2, "import sys; sys.exit(0)")
        | during(8, "import pytest; pytest.exit('all passed', returncode=0)"),
        {2: "error", 8: "error"},
    ),
    ends(
        "pytest-skip",
        "Has the check skipped, by an exception that `except Exception` does not catch.",
        "import pytest; pytest.skip('not today', allow_module_level=True)",
    ),
    Kind(
        "kills-itself",
        "Sends itself SIGKILL, and calls abort().",
        in_one_check(2, "import os; os.kill(os.getpid(), 9)")
        | in_one_check(8, "import os; os.abort()"),
        {2: "error", 8: "error"},
    ),
    ends(
        "crashes",
        "Writes through a null pointer, and has that reported on every file that is open.",
        """
        import ctypes, faulthandler
        for fd in range(3, 64):
            try:
                faulthandler.enable(fd)
            except (OSError, ValueError):
                pass
        ctypes.memset(0, 1, 1)
        """,
    ),
    ends(
        "endless-stack",
        "Recurses through C code until the stack is full.",
        """
        import sys
        sys.setrecursionlimit(10**9)
        def deeper(_): return list(map(deeper, [0]))
        deeper(0)
        """,
    ),
    ends(
        "becomes-another-program",
        "Puts a program in its own place that succeeds.",
        "import os; os.execv('/bin/true', ['true'])",
    ),
    reaches(
        "kills-everybody",
        "Sends SIGKILL to all that it may, to its parent, and to the first process.",
        """
        import os
        for process in (-1, 1, os.getppid()):
            try:
                os.kill(process, 9)
            except OSError:
                pass
        """,
    ),
    ends(
        "stops-itself",
        "Sends itself SIGSTOP: it computes no more, and does not end.",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    ),
    ends(
        "sleeps-for-ever",
        "Waits, which costs no CPU time.",
        "import time; time.sleep(10**6)",
    ),
    ends(
        "blocks-all-signals",
        "Wants to hear of no signal, and computes for ever where no other thread gets a turn.",
        """
        import re, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
        for number in set(range(1, signal.NSIG)) - {9, 19, 32, 33}:
            signal.signal(number, signal.SIG_IGN)
        re.match("(a+)+$", "a" * 64 + "b")
        """,
    ),
    ends(
        "loops-at-exit",
        "Ends, and loops in what is called at the end.",
        """
        import atexit
        def stay():
            while True:
                pass
        atexit.register(stay)
        raise KeyboardInterrupt
        """,
    ),
    Kind(
        "sleeps-when-thrown-away",
        "A result that is right, and takes its time to go.",
        in_one_check(
            2,
            """
            class Sticky(np.ndarray):
                def __del__(self):
                    import time
                    time.sleep(0.5)
            output, weights = right(**inputs)
            return output.view(Sticky), weights.view(Sticky)
            """,
        ),
    ),
    ends(
        "exception-without-words",
        "Raises what ends the process when it is asked for its message.",
        """
        class Mute(Exception):
            def __str__(self):
                import os
                os._exit(0)
        raise Mute
        """,
        day=8,
    ),
]
