"""The ring and the shards against torch.distributed in real processes, and what their docstrings promise.

The processes run this file: `python test_parallelism.py FOLDER RANK SIZE …`, one group after the other.
"""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from course.curriculum import ROOT
from variants.parallelism import (
    DistributedGroup,
    average_gradients,
    gather,
    reduce_scatter,
    ring_all_reduce,
    shard,
    simulate,
)

SHAPES = [(7,), (3, 4, 2), (), (0,), (0, 5), (1,), (2,), (12,)]


def drawn(rank, shape, dtype=torch.float64):
    """A tensor of this process's own, the same whenever it is asked for."""
    generator = torch.Generator().manual_seed(39 + 7 * rank)
    return (10 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)


class Model(nn.Module):
    """Sizes that no number of processes divides, a frozen bias, and a branch that some inputs do not take."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)
        self.branch = nn.Linear(7, 3)
        self.first.bias.requires_grad_(False)
        self.double()

    def forward(self, x, branch=False):
        hidden = self.first(x).tanh()
        return self.branch(hidden) if branch else self.second(hidden)


def loss_of(model, rank, rows=4, branch=False):
    options = (branch,) if branch else ()
    return model(drawn(rank, (rows, 5)), *options).square().mean()


def gradients_of(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


# --- In real processes ----------------------------------------------------------------------------


def in_process(folder, rank, *sizes):
    """What `torch.distributed` gives beside what ours gives, in groups of these sizes."""
    import torch.distributed as dist

    for size in (size for size in sizes if rank < size):
        where = f"file://{folder}/meeting{size}"
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
        group = DistributedGroup()
        torch.save(compared(rank, group), folder / f"{size}-{rank}")
        group.finish()
        dist.barrier()
        dist.destroy_process_group()


def compared(rank, group):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    pairs = {}
    for shape in SHAPES:
        for dtype in (torch.float64, torch.float32, torch.int64):
            theirs = drawn(rank, shape, dtype)
            ours = ring_all_reduce(theirs, group)
            dist.all_reduce(theirs)
            pairs[f"sum {shape} {dtype}"] = ours, theirs

    for branch in (False, rank == 0):
        model, ours = Model(), Model()
        wrapped = DistributedDataParallel(model, find_unused_parameters=True)
        loss_of(wrapped, rank, branch=branch).backward()
        loss_of(ours, rank, branch=branch).backward()
        average_gradients(ours, group)
        for name, gradient in gradients_of(model).items():
            pairs[f"{branch} {name}"] = dict(ours.named_parameters())[name].grad, gradient

    for shape in SHAPES:
        complete = drawn(0, shape)
        piece = shard(complete, group)
        pieces = [torch.empty_like(piece) for _ in range(group.size)]
        dist.all_gather(pieces, piece)
        pairs[f"gather {shape}"] = gather(piece, shape, group), complete
        padded = (len(piece) * group.size,)
        pairs[f"pieces {shape}"] = gather(piece, padded, group), torch.cat(pieces)
    return pairs | (sharded(rank, group) if group.size == 2 else {})  # its import takes a second


def sharded(rank, group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh, pairs = init_device_mesh("cpu", (group.size,)), {}
    for shape in SHAPES:
        ours = shard(drawn(0, shape), group)
        theirs = distribute_tensor(drawn(0, shape).flatten(), mesh, [Shard(0)]).to_local()
        pairs[f"shard {shape}"] = ours[: len(theirs)], theirs  # which is not padded
    return pairs | {"sharded step": sharded_step(rank, group, mesh)}


def sharded_step(rank, group, mesh):
    """A step of FSDP2, and one on pieces: gather, backward, average, keep a piece, step."""
    from torch.distributed.fsdp import fully_shard

    theirs, ours = nn.Linear(5, 7).double(), nn.Linear(5, 7).double()
    for model in (theirs, ours):
        model.weight.data, model.bias.data = drawn(0, (7, 5)) / 10, drawn(0, (7,)) / 10
    fully_shard(theirs, mesh=mesh)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.1)
    loss_of(theirs, rank).backward()
    optimizer.step()

    pieces = [nn.Parameter(shard(parameter, group)) for parameter in ours.parameters()]
    for parameter, piece in zip(ours.parameters(), pieces, strict=True):
        parameter.data = gather(piece, parameter.shape, group)
    loss_of(ours, rank).backward()
    average_gradients(ours, group)
    for parameter, piece in zip(ours.parameters(), pieces, strict=True):
        piece.grad = shard(parameter.grad, group)
    torch.optim.Adam(pieces, lr=0.1).step()
    shapes = [parameter.shape for parameter in ours.parameters()]
    complete = [gather(piece, shape, group) for piece, shape in zip(pieces, shapes, strict=True)]
    return (
        torch.cat([parameter.flatten() for parameter in complete]),
        torch.cat(
            [parameter.full_tensor().detach().flatten() for parameter in theirs.parameters()]
        ),
    )


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What three processes saw, and two."""
    folder = tmp_path_factory.mktemp("processes")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(folder), str(rank), "3", "2"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        for process in started:
            _, errors = process.communicate()
            assert process.returncode == 0, errors[-3000:]
    finally:
        for process in started:  # where one fails, the others would wait for it for ever
            process.kill()
    return {
        size: [torch.load(folder / f"{size}-{rank}") for rank in range(size)] for size in (2, 3)
    }


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_it_is_what_torch_distributed_gives(processes, size):
    for pairs in processes[size]:
        assert len(pairs) > 3 * len(SHAPES)
        for name, (ours, theirs) in pairs.items():
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5, msg=lambda s, n=name: n + s)
            if ours.dtype == torch.float64:
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_real_and_simulated_processes_agree_to_the_bit(processes, size):
    def work(group):
        return ring_all_reduce(drawn(group.rank, (3, 4, 2), torch.float32), group)

    simulated = simulate(size, work)
    real = [pairs["sum (3, 4, 2) torch.float32"][0] for pairs in processes[size]]
    assert all(torch.equal(tensor, simulated[0]) for tensor in [*simulated, *real])


# --- ring_all_reduce ------------------------------------------------------------------------------


def test_no_message_is_longer_than_a_chunk():
    class Measuring:
        def __init__(self, group):
            self.group, self.rank, self.size = group, group.rank, group.size
            self.receive = group.receive

        def send(self, tensor, to):
            lengths.append(tensor.numel())
            assert tensor.dtype == torch.bfloat16
            self.group.send(tensor, to)

    lengths = []
    ours = [drawn(rank, (23,), torch.bfloat16) for rank in range(4)]
    simulate(4, lambda group: ring_all_reduce(ours[group.rank], Measuring(group)))
    assert max(lengths) == 6


# --- shard, gather --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 5])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (), (0,)])
def test_reduce_scatter_leaves_each_process_its_piece_of_the_sum(size, shape):
    def work(group):
        mine = torch.arange(math.prod(shape), dtype=torch.float64).view(shape) + 10 * group.rank
        return reduce_scatter(mine, group), shard(ring_all_reduce(mine, group), group)

    for piece, expected in simulate(size, work):
        torch.testing.assert_close(piece, expected)


# --- simulate -------------------------------------------------------------------------------------


def test_messages_arrive_in_order_and_are_copies():
    def work(group):
        if group.rank == 1:
            return [group.receive(0).item(), group.receive(2).item(), group.receive(0).item()]
        tensor = torch.tensor(float(group.rank))
        group.send(tensor, 1)
        tensor += 10
        if group.rank == 0:
            group.send(tensor, 1)
        return group.sent

    assert simulate(3, work) == [[0, 8, 0], [0.0, 2.0, 10.0], [0, 4, 0]]


def test_who_waits_for_nothing_is_told():
    with pytest.raises(RuntimeError, match="deadlock: process 0 waits for process 2"):
        simulate(3, lambda group: group.receive((group.rank - 1) % 3))
    with pytest.raises(RuntimeError, match="deadlock: process 1 waits for process 0"):
        simulate(2, lambda group: group.receive(0) if group.rank else None)


def test_a_mistake_comes_before_the_deadlock_it_leads_to():
    def work(group):
        if group.rank == 2:
            raise KeyError("own mistake")
        group.receive(2)

    before = threading.active_count()
    with pytest.raises(KeyError, match="own mistake") as caught:
        simulate(3, work)
    assert caught.traceback[-1].name == "work"
    assert threading.active_count() == before


def test_what_nobody_receives_is_told():
    with pytest.raises(RuntimeError, match="process 0 sent process 1 a tensor that it never"):
        simulate(2, lambda group: group.rank or group.send(torch.ones(1), 1))


def test_turns_are_the_same_every_time():
    def work(group):
        numbers = [torch.rand(1).item()]
        group.send(torch.ones(1), (group.rank + 1) % 3)
        group.receive((group.rank - 1) % 3)
        return [*numbers, torch.rand(1).item()]

    torch.manual_seed(1)
    once = simulate(3, work)
    torch.manual_seed(1)
    assert simulate(3, work) == once


if __name__ == "__main__":
    in_process(Path(sys.argv[1]), *map(int, sys.argv[2:]))
