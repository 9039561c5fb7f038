"""More of everything than there is: memory, processes, files, output, time."""

from tests.course.hostile.kinds import Kind, during, ends, reaches

KINDS = [
    Kind(
        "memory-bit-by-bit",
        "Takes memory until there is none; and asks for what no machine has.",
        during(2, "np.ones(2**50)")
        | during(8, "hoard = []\nwhile True: hoard.append(torch.empty(2**26))"),
        {2: "error", 8: "error"},
    ),
    ends(
        "memory-that-is-shared",
        "Takes memory of a kind that limits on a process do not count.",
        """
        import mmap
        hoard, page = [], bytes(2**26)
        while True:
            hoard.append(mmap.mmap(-1, 2**26))
            hoard[-1].write(page)
        """,
        day=8,
    ),
    reaches(
        "fills-the-disk",
        "Writes until nothing more can be written; more than a quarter of a gigabyte is too much.",
        """
        import os
        written = 0
        for folder in (".", "/tmp", "/dev/shm", "/var/tmp", "/dev"):
            for number in range(1000):
                try:
                    with open(f"{folder}/{number}.bin", "wb") as file:
                        written += file.write(bytes(2**22))
                except OSError:
                    break
        if written > 2**28:
            raise SystemExit(f"{written} bytes were written")
        for folder in (".", "/tmp", "/dev/shm"):
            for name in os.listdir(folder):
                if name.endswith(".bin"):
                    os.remove(f"{folder}/{name}")
        """,
    ),
    reaches(
        "odd-files",
        "Makes a file of a terabyte that takes no room, and files by the ten thousands.",
        """
        import itertools, os, time
        try:
            os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 2**40)
        except OSError:
            pass
        else:
            raise SystemExit("a terabyte was granted")
        until = time.monotonic() + 0.5
        for number in itertools.count():
            try:
                open(f"/tmp/{number}", "w").close()
            except OSError:
                break
            if time.monotonic() > until:
                break
        """,
    ),
    Kind(
        "open-files",
        "Opens files until no more can be opened, and leaves them open.",
        during(8, "while True: globals().setdefault('kept', []).append(open('/dev/null'))"),
        {8: "error"},
    ),
    ends(
        "a-core-dump",
        "Wants its memory written to the disk, and crashes.",
        """
        import os, resource
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
        except (ValueError, OSError):
            os.abort()
        """,
        day=8,
    ),
    ends(
        "fork-bomb",
        "Every process makes two of itself.",
        """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """,
    ),
    ends(
        "thread-bomb",
        "Starts threads until no more can be started, and then some.",
        """
        import threading, time
        for _ in range(10_000):
            threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        """,
        day=8,
    ),
    Kind("prints-much", "Prints a megabyte in every call.", during(2, "print('x' * 10**6)")),
    reaches(
        "prints-without-a-line",
        "Writes a quarter of a gigabyte to standard error, without a single line's end.",
        "import os\nfor _ in range(256): os.write(2, bytes(2**20))",
    ),
    ends(
        "a-result-too-large",
        "Gives more than any frame may hold.",
        "return torch.zeros(2**25), torch.zeros(2**25)",
        day=8,
    ),
    ends(
        "a-result-that-grows",
        "Gives an array that takes eight bytes here, and eight gigabytes when it is copied.",
        "return torch.zeros(1).expand(2**31), torch.zeros(1).expand(2**31)",
        day=8,
    ),
    ends(
        "a-result-that-holds-itself",
        "Gives a list that is in itself, twice.",
        "ring = []; ring += [ring, ring]; return ring",
        status="failed",
    ),
    ends(
        "an-exception-too-long",
        "Raises an exception with a message of a hundred megabytes.",
        "raise ValueError('x' * 10**8)",
        day=8,
    ),
]
