"""Two processes under `torchrun` do what one does: DDP and FSDP2 on the CPU, by gloo."""

import json
import os
import subprocess
import sys

import pytest
import torch

from course.curriculum import ROOT
from tests.training import in_processes
from tests.training.conftest import CPU, POETRY
from training.checkpoints import read_weights

LANGUAGE = ("layers=2", "context=16", "steps=15")
CASES = {
    "clip": ("clip=0.5",),
    "accumulate": ("accumulate=3", "steps=10"),
    "fewer rows than processes": ("batch=1", "steps=10"),
    "gpt": ("model=gpt", *LANGUAGE),
    "llama": ("model=llama", *LANGUAGE),
}


def in_two(cases, **more):
    """Train these cases one after another in a pair of processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launch += ["--max-restarts=1", "-m", "tests.training.in_processes"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | more
    done = subprocess.run(
        [*launch, json.dumps({str(folder): changes for folder, changes in cases.items()})],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def losses_of(folder):
    return json.loads((folder / "losses.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "poem.txt").write_text(POETRY, encoding="utf-8")
    return folder


def changes_of(case, folder):
    """The settings of a case; what reads a text reads the poem."""
    return [*CASES[case], *([f"data={folder / 'poem.txt'}"] if "context=16" in CASES[case] else [])]


@pytest.fixture(scope="module")
def alone(folder):
    """Train a case in this process, once."""

    def train(case):
        if not (folder / case).exists():
            torch.set_default_dtype(torch.float64)
            try:
                in_processes.trained(folder / case, changes_of(case, folder), CPU)
            finally:
                torch.set_default_dtype(torch.float32)
        return folder / case

    return train


@pytest.fixture(scope="module")
def pair(folder):
    """Each case by DDP and by FSDP2, in one pair of processes."""
    in_two(
        {
            folder / f"{case} {shard}": [*changes_of(case, folder), f"shard={shard}"]
            for case in CASES
            for shard in ("false", "true")
        }
    )
    return folder


@pytest.mark.parametrize("shard", ["false", "true"], ids=["DDP", "FSDP2"])
@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_losses_of_one(case, shard, alone, pair):
    """7 rows a batch are 4 in one process and 3 in the other: the mean is over tokens, not processes."""
    single, two = alone(case), pair / f"{case} {shard}"
    losses = losses_of(single)
    assert losses_of(two) == pytest.approx(losses, rel=1e-10)
    if case == "clip":
        assert losses[-1] < 0.95 * losses[0]
        weights = read_weights(two / "weights")
        for name, weight in read_weights(single / "weights").items():
            if "w_k.bias" not in name:  # its gradient is 0, and its step is noise
                torch.testing.assert_close(weights[name], weight, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_when_a_process_dies_all_go_on_from_the_checkpoint(alone, tmp_path):
    in_two({tmp_path / "died": CASES["clip"]}, DIE="yes")
    assert (tmp_path / "died" / "died").exists()
    losses = losses_of(tmp_path / "died")
    assert len(losses) == 31  # the second life began after step 20
    assert losses == pytest.approx(losses_of(alone("clip"))[20:], rel=1e-10)
