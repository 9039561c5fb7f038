"""What the kind of a machine is known by."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from laboratory.running import machine

CPU = torch.device("cpu")
INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: {model}
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu vme: de

processor\t: 1
model\t\t: 7
"""
ARM = "processor\t: 0\nBogoMIPS\t: 48.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nHardware\t: x\n"


def kind_with(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: text)
    return machine.kind_of(CPU)


def test_models_of_one_name_are_two_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two with the same instructions have ended the same training with other digits."""
    first, other = (kind_with(INTEL.format(model=model), monkeypatch) for model in (143, 167))
    assert first.endswith(", vendor_id GenuineIntel, cpu family 6, model 143")
    assert other == first.replace("143", "167")


def test_arm_numbers_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind_with(ARM, monkeypatch).endswith(", CPU implementer 0x41, CPU part 0xd40")


def test_a_system_without_that_file_names_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: Path, encoding: str) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", nowhere)
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert machine.kind_of(CPU).endswith(", arm")
    monkeypatch.setattr("platform.processor", lambda: "")
    assert "," not in machine.kind_of(CPU)
