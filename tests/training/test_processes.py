"""Two processes under `torchrun` do what one does: DDP and FSDP2 on the CPU, by gloo."""

import json
import os
import subprocess
import sys

import pytest
import torch

from course.curriculum import ROOT
from training.checkpoints import read_weights


def trained(folder, *changes, processes=1, **more):
    launch = [sys.executable]
    if processes > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        launch += ["--max-restarts=1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | more
    done = subprocess.run(
        [*launch, "-m", "tests.training.in_processes", str(folder), *changes],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "losses.json").read_text()), read_weights(folder / "weights")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "alone", "clip=0.5")


@pytest.mark.parametrize("shard", [False, True], ids=["DDP", "FSDP2"])
def test_two_processes_have_the_losses_of_one(shard, alone, tmp_path):
    losses, weights = trained(tmp_path / "two", "clip=0.5", f"shard={shard}".lower(), processes=2)
    # 7 rows a batch: 4 in one process and 3 in the other, so the mean is over tokens, not processes.
    assert losses == pytest.approx(alone[0], rel=1e-10)
    assert losses[-1] < 0.95 * losses[0]
    for name, weight in alone[1].items():
        if "w_k.bias" not in name:  # its gradient is 0, and its step is noise
            torch.testing.assert_close(weights[name], weight, rtol=1e-6, atol=1e-8)


def test_batches_are_accumulated_in_both(tmp_path):
    changes = ("accumulate=3", "steps=10", "shard=false")
    one, _ = trained(tmp_path / "one", *changes)
    two, _ = trained(tmp_path / "two", *changes, processes=2)
    sharded, _ = trained(tmp_path / "sharded", *changes[:2], "shard=true", processes=2)
    assert two == pytest.approx(one, rel=1e-10)
    assert sharded == pytest.approx(one, rel=1e-10)


@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_gpt_and_llama_in_two_processes(model, poem, tmp_path):
    changes = (f"model={model}", f"data={poem}", "layers=2", "context=16", "steps=15")
    one, _ = trained(tmp_path / "one", *changes)
    for shard in ("false", "true"):
        two, _ = trained(tmp_path / shard, *changes, f"shard={shard}", processes=2)
        assert two == pytest.approx(one, rel=1e-10)
    assert one[-1] < one[0]


def test_a_batch_with_fewer_rows_than_processes(tmp_path):
    one, _ = trained(tmp_path / "one", "batch=1", "steps=10")
    two, _ = trained(tmp_path / "two", "batch=1", "steps=10", processes=2)
    assert two == pytest.approx(one, rel=1e-10)


def test_when_a_process_dies_all_go_on_from_the_checkpoint(alone, tmp_path):
    losses, _ = trained(tmp_path / "died", "clip=0.5", processes=2, DIE="yes")
    assert (tmp_path / "died" / "died").exists()
    assert len(losses) == 31  # the second life began after step 20
    assert losses == pytest.approx(alone[0][20:], rel=1e-10)
