"""The kind of machine that computes: on one of the same kind, the same command gives the same numbers."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import torch

INTEL_OR_AMD = "vendor_id", "cpu family", "model"
ARM = "CPU implementer", "CPU part"


def kind_of(device: torch.device) -> str:
    """The GPU's name, or what the CPU can do and its model: by these, libraries choose how to add up.

    A CPU's model by number, where the system has one: the names of virtual machines' CPUs say nothing.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    kind = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:  # not Linux
        return ", ".join(filter(None, [kind, platform.processor()]))
    cpu_info = dict(re.findall(r"^(.+?)\s*: (.+)$", first, re.MULTILINE))
    details = [f"{name} {cpu_info[name]}" for name in (*INTEL_OR_AMD, *ARM) if name in cpu_info]
    return ", ".join([kind, *details])
