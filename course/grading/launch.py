"""The first thing that runs in a worker's process: it takes its limits and becomes bubblewrap.

Started by `sandbox.py` with the standard library alone, as `python -I -S launch.py SPEC COMMAND…`. It
enters the cgroups, shows what root alone may see where everybody may, stops being root, and hands
over.
"""

import ctypes
import json
import os
import resource
import sys

NEW_MOUNTS = 0x20000  # CLONE_NEWNS
BIND = 0x5000  # MS_BIND | MS_REC
PRIVATE = 0x44000  # MS_PRIVATE | MS_REC


def main() -> None:
    """Do what the specification says, and become the program that it names."""
    spec = json.loads(sys.argv[1])
    for group in spec["cgroups"]:
        with open(os.path.join(group, "cgroup.procs"), "w") as members:  # noqa: PTH118, PTH123
            members.write("0")
    for name, most in spec["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    if spec["drop_to"] is not None:
        _show(spec["shown"])
        os.setgroups([])
        os.setgid(spec["drop_to"])
        os.setuid(spec["drop_to"])
    # Without its environment: in the sandbox bubblewrap itself is process 1, which all there may read.
    os.execve(spec["argv"][0], [*spec["argv"], *sys.argv[2:]], {})


def _show(shown: dict[str, str]) -> None:
    """Mount folders, in this process's mount namespace alone, where a user who is not root can reach them."""
    libc = ctypes.CDLL(None, use_errno=True)
    _demand(libc.unshare(NEW_MOUNTS), "unshare")
    _demand(libc.mount(None, b"/", None, PRIVATE, None), "mount /")
    for source, target in shown.items():
        result = libc.mount(os.fsencode(source), os.fsencode(target), None, BIND, None)
        _demand(result, f"mount {source}")


def _demand(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
