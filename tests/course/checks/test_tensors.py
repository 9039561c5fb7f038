"""Tensors in checks: arrays and tensors looked at alike, modules given weights by name, gradients."""

import contextlib
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from course.checks import seeing, tensors
from course.checks.arrays import as_numpy, copied, dtype_of, eps_of, nudged, same, upcast
from course.checks.gradients import backward, gradients, named_parameters, wanting_gradients
from course.checks.loading import load_checks
from course.checks.tensors import Build, OperationRecorder, TensorDraw, missing_device
from course.curriculum import DAYS, ROOT
from course.judging.expected import expect
from course.judging.judge import Judge
from course.references.patched import reference_module

HALVES = ["float16", "bfloat16"]


def test_draw_gives_tensors_of_the_dtype():
    """Float32 unless asked otherwise, the same numbers as NumPy's stream, and sizes as they are."""
    draw = TensorDraw(0, "me")
    assert draw.normal(2, 3).dtype == torch.float32
    assert draw.uniform(0, 1, 4, dtype="bfloat16").dtype == torch.bfloat16
    assert draw.weights(2, 5).sum(dim=-1).tolist() == pytest.approx([1, 1])
    assert draw.integers(1, 3, 2, 2).dtype == torch.int64
    assert draw.mask(3, 4).dtype == torch.bool
    assert isinstance(draw.size(1, 5), int)
    assert torch.equal(TensorDraw(1, "me").normal(3), TensorDraw(1, "me").normal(3))
    assert not torch.equal(TensorDraw(1, "me").normal(3), TensorDraw(2, "me").normal(3))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_nudging_moves_by_an_ulp(dtype):
    """As NumPy's spacing has it, for large and small numbers, tensors and arrays."""
    values = np.array([1.0, -3.7, 1e-4, 0.0, 100.0, np.inf]).astype(dtype)
    with np.errstate(invalid="ignore"):
        gap = np.spacing(np.abs(values)).astype(np.float64)
    for array in (values, torch.from_numpy(values)):
        moved = as_numpy(nudged(array, np.random.default_rng(0)))
        assert moved.dtype == values.dtype
        np.testing.assert_array_equal(np.abs(moved[:-1].astype(np.float64) - values[:-1]), gap[:-1])
        assert moved[-1] == np.inf


def test_bfloat16_is_nudged_by_its_own_ulp():
    """Eight bits: the next number after 1 is 1 + 1/128."""
    number = torch.ones(1, dtype=torch.bfloat16)
    assert eps_of("bfloat16") == 1 / 128
    moved = nudged(number, np.random.default_rng(0))
    assert moved.dtype == torch.bfloat16
    assert abs(float(moved) - 1) == 1 / 128


def test_looking_at_tensors():
    """Copies share nothing, NaN equals itself, whole numbers are not upcast."""
    tensor = torch.tensor([1.0, float("nan")])
    other = copied(tensor)
    assert same(tensor, other)
    other[0] = 2
    assert not same(tensor, other)
    assert upcast(tensor).dtype == torch.float64
    assert upcast(torch.arange(3)).dtype == torch.int64
    assert dtype_of(torch.ones(1, dtype=torch.bfloat16)) == "bfloat16"


class Tied(nn.Module):
    """Two owners of one parameter, made in either order."""

    def __init__(self, turned):
        super().__init__()
        first, second = nn.Linear(3, 3), nn.Linear(3, 3)
        second.weight = first.weight
        for name in ["b", "a"] if turned else ["a", "b"]:
            setattr(self, name, first if name == "a" else second)


def build(transform=None):
    return Build(0, "a check", "cpu", transform)


def test_weights_depend_on_names_alone():
    """Whoever wrote a module, in whatever order, it gets the same weights; tied ones once."""
    module, other = build()(Tied, False), build()(Tied, True)
    assert [name for name, _ in sorted(named_parameters(other))] == ["a.bias", "a.weight", "b.bias"]
    for name, parameter in named_parameters(module):
        assert torch.equal(parameter, dict(named_parameters(other))[name])
    assert other.a.weight is other.b.weight


def test_other_names_other_weights():
    """Two matrices of one shape do not get the same numbers; another seed gives others."""
    module = build()(lambda: nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)]))
    assert not torch.equal(module[0].weight, module[1].weight)
    assert not torch.equal(
        Build(1, "a check", "cpu", None)(nn.Linear, 3, 3).weight, module[0].weight
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_the_truth_has_the_rounded_weights(dtype):
    """Upcast is what the half holds, exactly, not what was drawn before it was rounded."""
    half = build()(nn.Linear, 3, 3, dtype=dtype)
    truth = build(upcast)(nn.Linear, 3, 3, dtype=dtype)
    assert truth.weight.dtype == torch.float64
    assert torch.equal(half.weight.double(), truth.weight)


def test_gradients_by_name():
    """Of inputs and of parameters; None where none came, and no entry counts like its neighbor."""
    module = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})
    inputs = wanting_gradients({"x": torch.ones(3, 2), "tokens": torch.arange(3)})
    backward(module["used"](inputs["x"]))
    assert set(gradients(inputs)) == {"x"}
    by_name = gradients(module)
    assert by_name["idle.weight"] is None
    assert by_name["used.bias"].unique().numel() == 2


def test_backward_of_what_wants_none():
    """A detached output is no error: its gradients are missing, which is what is seen."""
    inputs = wanting_gradients({"x": torch.ones(2)})
    backward(inputs["x"].detach() * 2)
    assert gradients(inputs) == {"x": None}


def test_noting_sees_every_result():
    """Forward and backward, and of fresh memory nothing, in parts and copies neither."""
    maxima = []
    with OperationRecorder(lambda value: maxima.append(float(value.abs().max()))):
        x = torch.full((2,), 3.0, requires_grad=True)
        (x * x * 100).sum().backward()
        room = torch.empty(3, 2)
        room[0] = 1.0
        rest = room[1:].double()
    assert rest.isnan().all()
    defined = [value for value in maxima if not math.isnan(value)]
    assert max(defined) == 1800
    assert 600 in defined


# --- The same in a day ----------------------------------------------------------------------------

DAY = DAYS[7]


def test_a_check_of_tensors_is_seeded():
    """Whatever is drawn within a check is drawn again the next time, and nothing is left behind."""
    judge = Judge(DAY)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    judge.truth.run(judge.checks[0], reference_module(DAY))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_check_on_a_device_gives_back_that_device_s_generators(monkeypatch, device):
    """Not CUDA's, where the check is on another kind of device."""
    forked = []

    @contextlib.contextmanager
    def noted(devices=None, *, device_type):
        forked.append((devices, device_type))
        yield

    monkeypatch.setattr(torch.random, "fork_rng", noted)
    with seeing._seeded(load_checks(DAY)[0], 0, device):
        pass
    assert forked == [(None, device)]


def test_gradients_are_computed_after_a_check():
    """An answer that switches gradients off for good does so within its check alone."""
    day = DAYS[23]
    judge = Judge(day)
    [forgetful] = [
        mistake for mistake in judge.truth.misconceptions if mistake.id == "gradients_off_for_good"
    ]
    for check in judge.checks:
        if check.name == "test_gradients_afterwards":
            judge.truth.run(check, forgetful.module(day))
    assert torch.is_grad_enabled()


def test_half_precision_is_held_to_float32():
    """The tolerance of a half is a few of its roundings of the result, whatever came up on the way."""
    check = next(check for check in load_checks(DAY) if check.name == "test_dtype[bfloat16]")
    expected = expect(check, reference_module(DAY), 0)
    assert 0 < expected.tolerance["weights"] <= 8 * eps_of("bfloat16")


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_checks_are_skipped(project):
    """Each says why, the day is skipped, nothing counts, and the exit code is that of not passing."""
    assert missing_device("cuda") == "no CUDA GPU here"
    day = project.check("8", "--device", "cuda")
    assert day["status"] == "skipped"
    assert {check["status"] for check in day["checks"]} == {"skipped"}
    assert "no CUDA GPU here" in day["checks"][0]["message"]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_only_checks_of_tensors_are_skipped(project):
    """Day 10 has both kinds: those that take no tensor are checked, and the others are counted."""
    stem = DAYS[9].stem
    accepted = sorted((ROOT / "tests" / "days" / "accepted" / stem).glob("*.py"))
    shutil.copy(accepted[0], project.root / "exercises" / f"{stem}.py")
    day = project.check("10", "--device", "cuda")
    assert {check["status"] for check in day["checks"]} == {"passed", "skipped"}
    done = project.course("check", "10", "--device", "cuda")
    skipped = [check for check in day["checks"] if check["status"] == "skipped"]
    count = f"{len(skipped)} of {len(day['checks'])} checks"
    assert f"Skipped: no CUDA GPU here ({count})." in done.stdout
    assert "Traceback" not in done.stderr


def test_a_judge_looks_at_no_skipped_check(monkeypatch):
    """On no day is anything computed on a device that is not here."""
    monkeypatch.setattr(tensors, "missing_device", lambda device: "no GPU here")
    for day in DAYS:
        judge = Judge(day, device="cuda")
        looked = []
        monkeypatch.setattr(judge.truth, "observe_reference", looked.append)
        list(judge.observing_reference())
        assert {check.name for check in looked} == {
            check.name for check in judge.checks if judge._device(check) == "cpu"
        }


@pytest.mark.slow
def test_numpy_days_know_the_cpu_alone(project):
    """`--device cuda` changes nothing there, and `course check` says so."""
    day = project.check("2", "--device", "cuda")
    assert {check["device"] for check in day["checks"]} == {"cpu"}
    assert day["status"] == "not_started"
    output = project.course("check", "2", "--device", "cuda").stdout
    assert "Checked on the CPU: no check of day 2 can run on cuda." in output


@pytest.mark.parametrize("name", ["_setup_privateuseone_for_python_backend", "_DummyBackendModule"])
def test_a_torch_without_the_private_parts_lacks_the_practice_gpu_alone(name):
    """Days are checked on the CPU, whatever is renamed."""
    code = f"""
from torch.utils import backend_registration
del backend_registration.{name}
from course.checks.tensors import missing_device
print(missing_device("practice"), missing_device("cpu"))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "knows no devices written in Python None" in done.stdout
