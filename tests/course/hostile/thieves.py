"""Out of the sandbox: to what is hidden, to others, to what stays, to the network, to more rights."""

from tests.course.hostile.kinds import Kind, before, poses, reaches

# Calls of the kernel that are success if they give 0 or more, by their numbers on x86-64.
CALLS = """
import ctypes, platform

libc = ctypes.CDLL(None, use_errno=True)
room = ctypes.create_string_buffer(4096)

def attempt(**calls):
    for name, arguments in calls.items():
        if platform.machine() == "x86_64" and libc.syscall(*arguments, room, room, room) >= 0:
            raise SystemExit(f"{name} got through")

"""

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
    reaches(
        "into-other-processes",
        "Asks the kernel for other processes' memory, files and events.",
        CALLS
        + """
attempt(
    ptrace=(101, 16, 1, 0, 0),
    process_vm_readv=(310, 1, room, 1, room, 1, 0),
    pidfd_getfd=(438, 3, 0, 0),
    perf_event_open=(298, room, 0, -1, -1, 0),
    kcmp=(312, 1, 2, 0, 0, 0),
    bpf=(321, 0, room, 48),
    userfaultfd=(323, 0),
)
""",
    ),
    reaches(
        "into-the-kernel",
        "Tries its younger parts, where holes are found every year.",
        CALLS
        + """
attempt(
    io_uring_setup=(425, 4, room),
    keyctl=(250, 0, -3, 1),
    add_key=(248, b"user", b"mark", b"x", 1, -3),
    open_by_handle_at=(304, 0, room, 0),
    fsopen=(430, b"ext4", 0),
    quotactl=(179, 0, room, 0, room),
    syslog=(103, 10, 0, 0),
)
""",
    ),
    reaches(
        "more-rights",
        "New user namespaces, mounts, other roots, other users, programs that are root's.",
        CALLS
        + """
import os, subprocess
attempt(
    unshare_users=(272, 0x10000000),
    unshare_mounts=(272, 0x20000),
    mount=(165, b"none", b"/tmp", b"tmpfs", 0, 0),
    umount=(166, b"/proc", 2),
    chroot=(161, b"/tmp"),
    pivot_root=(155, b"/tmp", b"/tmp"),
    clone_users=(56, 0x10000000 | 17, 0, 0, 0),
    setns=(308, 0, 0),
    setuid=(105, 0),
    setgroups=(116, 1, room),
)
for command in ("su -c id", "sudo -n id", "mount -t tmpfs x /tmp", "unshare -Ur id", "bwrap --bind / / id"):
    try:
        done = subprocess.run(command.split(), stdin=subprocess.DEVNULL, capture_output=True)
    except OSError:
        continue
    if done.returncode == 0:
        raise SystemExit(f"{command} got through")
for mode in (0o020666, 0o060666):
    try:
        os.mknod("/tmp/device", mode, os.makedev(1, 1))
    except OSError:
        continue
    raise SystemExit("a device was made")
""",
        day=8,
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
