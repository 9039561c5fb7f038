"""More of everything than there is: memory, processes, files, output, time."""

from tests.course.hostile.kinds import Kind, before, during, in_one_check

KINDS = [
    Kind(
        "memory-bit-by-bit",
        "Takes memory until there is none; and asks for what no machine has.",
        during(2, "np.ones(2**50)")
        | during(8, "hoard = []\nwhile True: hoard.append(torch.empty(2**26))"),
        {2: "error", 8: "error"},
    ),
    Kind(
        "memory-that-is-shared",
        "Takes memory of a kind that limits on a process do not count.",
        in_one_check(
            8,
            """
            import mmap
            hoard, page = [], bytes(2**26)
            while True:
                hoard.append(mmap.mmap(-1, 2**26))
                hoard[-1].write(page)
            """,
        ),
        {8: "error"},
    ),
    Kind(
        "fills-the-disk",
        "Writes until nothing more can be written; more than a quarter of a gigabyte is too much.",
        before(
            2,
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
    ),
    Kind(
        "odd-files",
        "Makes a file of a terabyte that takes no room, and files by the ten thousands.",
        before(
            2,
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
    ),
    Kind(
        "open-files",
        "Opens files until no more can be opened, and leaves them open.",
        during(8, "while True: globals().setdefault('kept', []).append(open('/dev/null'))"),
        {8: "error"},
    ),
    Kind(
        "a-core-dump",
        "Wants its memory written to the disk, and crashes.",
        in_one_check(
            8,
            """
            import os, resource
            try:
                resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
            except (ValueError, OSError):
                os.abort()
            """,
        ),
        {8: "error"},
    ),
    Kind(
        "fork-bomb",
        "Every process makes two of itself.",
        in_one_check(
            2,
            """
            import os
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
            """,
        ),
        {2: "error"},
    ),
    Kind(
        "thread-bomb",
        "Starts threads until no more can be started, and then some.",
        in_one_check(
            8,
            """
            import threading, time
            for _ in range(10_000):
                threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
            """,
        ),
        {8: "error"},
    ),
    Kind("prints-much", "Prints a megabyte in every call.", during(2, "print('x' * 10**6)")),
    Kind(
        "prints-without-a-line",
        "Writes a quarter of a gigabyte to standard error, without a single line's end.",
        before(2, "import os\nfor _ in range(256): os.write(2, bytes(2**20))"),
    ),
    Kind(
        "a-result-too-large",
        "Gives more than any frame may hold.",
        in_one_check(8, "return torch.zeros(2**25), torch.zeros(2**25)"),
        {8: "error"},
    ),
    Kind(
        "a-result-that-grows",
        "Gives an array that takes eight bytes here, and eight gigabytes when it is copied.",
        in_one_check(8, "return torch.zeros(1).expand(2**31), torch.zeros(1).expand(2**31)"),
        {8: "error"},
    ),
    Kind(
        "a-result-of-many",
        "Gives a list with a hundred thousand things in it.",
        in_one_check(2, "return [0] * 10**5"),
        {2: "failed"},
    ),
    Kind(
        "a-result-nested-deep",
        "Gives a list in a list, a hundred thousand times.",
        in_one_check(
            2,
            """
            nested = []
            for _ in range(10**5):
                nested = [nested]
            return nested, nested
            """,
        ),
        {2: "failed"},
    ),
    Kind(
        "a-result-that-holds-itself",
        "Gives a list that is in itself, twice.",
        in_one_check(2, "ring = []; ring += [ring, ring]; return ring"),
        {2: "failed"},
    ),
    Kind(
        "an-exception-too-long",
        "Raises an exception with a message of a hundred megabytes.",
        in_one_check(8, "raise ValueError('x' * 10**8)"),
        {8: "error"},
    ),
]
