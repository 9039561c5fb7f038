"""Data parallelism: gradients averaged by a ring all-reduce, and parameters sharded over processes.

Each process, one per GPU, trains on its own examples and needs the mean of all gradients before a step. In
a ring the traffic of a process hardly depends on the number of processes. If the model does not fit on one
GPU, each process stores a shard of every parameter and gathers the full parameter where it is used.

Papers: Patarasuk & Yuan 2009, *Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations*;
Li et al. 2020, *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*; Rajbhandari et
al. 2019, *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*.

From symbols to names
    n               group.size, the number of processes
    r               group.rank, this process's number, from 0
    N               elements of a tensor
    g               a gradient, parameter.grad

The code is that of one process, which communicates through a `Group`: that of a process in `simulate`, or a
`DistributedGroup` over `torch.distributed` in a process started by `torchrun`.
"""

import io
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

Result = TypeVar("Result")
Mail = list[list[deque[Tensor]]]  # tensors in transit, by destination and source


class Group(Protocol):
    """One process's view of a group: its rank r, the size n, and point-to-point messages."""

    rank: int
    size: int

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a copy of a tensor to process `to`, without waiting until it is received."""

    def receive(self, source: int) -> Tensor:
        """Wait for the next tensor from process `source`, in the order in which they were sent."""


# --- Day 39 · Many GPUs ---------------------------------------------------------------------------


def ring_all_reduce(tensor: Shaped[Tensor, "*shape"], group: Group) -> Shaped[Tensor, "*shape"]:
    """Return the sum of all processes' tensors in every process, by messages to the next one in a ring.

        result = tensor₀ + tensor₁ + … + tensorₙ₋₁,  elementwise

    Each process sends 2 (n − 1) chunks of N/n elements: about 2N, whatever n. All processes get the same
    bits.

    Source: Patarasuk & Yuan 2009.
    """
    size, rank = group.size, group.rank
    after, before = (rank + 1) % size, (rank - 1) % size
    # 1. Flatten the tensor, and split it into one chunk per process; lengths may differ by one.
    chunks = list(tensor.detach().flatten().tensor_split(size))  # n × (N/n,)
    # 2. First time around the ring: in each of n − 1 rounds send the chunk that arrived last, and add your
    #    own numbers to the one that arrives. Begin with chunk r; in the end you have the sum of chunk r + 1.
    for step in range(size - 1):
        group.send(chunks[(rank - step) % size], after)
        arriving = (rank - step - 1) % size
        chunks[arriving] = chunks[arriving] + group.receive(before)  # (N/n,)
    # 3. Second time around: send the summed chunk that you got last, and replace your own by the one that
    #    arrives. Begin with chunk r + 1.
    for step in range(size - 1):
        group.send(chunks[(rank + 1 - step) % size], after)
        chunks[(rank - step) % size] = group.receive(before)  # (N/n,)
    # 4. Concatenate the chunks in the tensor's shape.
    return torch.cat(chunks).view(tensor.shape)


def average_gradients(model: nn.Module, group: Group) -> None:
    """Replace each gradient by its mean over all processes, as data parallelism does before a step.

        g ← (g₀ + g₁ + … + gₙ₋₁) / n

    A gradient that is None counts as zeros. Frozen parameters are skipped.

    Source: Li et al. 2020, §3.2.
    """
    # 1. All processes visit the parameters in the same order, and skip none for which a different process
    #    may have a gradient.
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        # 2. Replace a missing gradient by zeros.
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        # 3. Divide before summing: in float16 40,000 + 40,000 overflows, and the mean does not.
        parameter.grad = ring_all_reduce(gradient / group.size, group)  # the parameter's shape


def shard(parameter: Float[Tensor, "*shape"], group: Group) -> Float[Tensor, " piece"]:
    """Return the shard of a parameter that this process stores.

        piece_r = flat[r·k : (r + 1)·k],  k = ⌈N / n⌉,  flat = the N elements in a row, zeros after them

    Source: Rajbhandari et al. 2019, §5.3; the flat, padded parameter: Zhao et al. 2023, *PyTorch FSDP*.
    """
    # 1. Compute the length of a shard, rounded up so that all have the same.
    flat = parameter.detach().flatten()  # (N,)
    length = math.ceil(flat.numel() / group.size)
    # 2. Pad with zeros, and return a copy of this process's slice: the slice itself is a view, which would
    #    keep the full parameter in memory.
    padded = F.pad(flat, (0, length * group.size - flat.numel()))  # (n·k,)
    return padded[group.rank * length : (group.rank + 1) * length].clone()  # (k,)


def gather(
    piece: Float[Tensor, " piece"], shape: Sequence[int], group: Group
) -> Float[Tensor, "*shape"]:
    """Return the full parameter in every process, from the shards that they store.

        gather(shard(parameter, group), parameter.shape, group) = parameter

    Source: Rajbhandari et al. 2019, §5.3; the second half of the ring of Patarasuk & Yuan 2009.
    """
    size, rank = group.size, group.rank
    # 1. Make a list of n shards, indexed by process, and enter your own.
    pieces = [piece.detach()] * size  # n × (k,)
    # 2. In n − 1 rounds send the shard that arrived last, your own at first; each arriving shard is that of
    #    the process one further back in the ring.
    for step in range(size - 1):
        group.send(pieces[(rank - step) % size], (rank + 1) % size)
        pieces[(rank - step - 1) % size] = group.receive((rank - 1) % size)  # (k,)
    # 3. Concatenate the shards, cut off the padding, and reshape.
    return torch.cat(pieces)[: math.prod(shape)].view(shape)


def reduce_scatter(tensor: Shaped[Tensor, "*shape"], group: Group) -> Shaped[Tensor, " piece"]:
    """Return this process's shard `(k,)` of the sum of all processes' tensors.

        reduce_scatter(tensor, group) = shard(tensor₀ + tensor₁ + … + tensorₙ₋₁, group), up to rounding

    A process sends (n − 1)·k elements, half as many as in an all-reduce.

    Source: Rajbhandari et al. 2019, §7; the first half of the ring of Patarasuk & Yuan 2009.
    """
    size, rank = group.size, group.rank
    flat = tensor.detach().flatten()  # (N,)
    length = math.ceil(flat.numel() / size)
    chunks = list(F.pad(flat, (0, length * size - flat.numel())).view(size, length))  # n × (k,)
    # Begin one chunk earlier than `ring_all_reduce`, so that the sum of chunk r ends in process r.
    for step in range(size - 1):
        group.send(chunks[(rank - step - 1) % size], (rank + 1) % size)
        arriving = (rank - step - 2) % size
        chunks[arriving] = chunks[arriving] + group.receive((rank - 1) % size)  # (k,)
    return chunks[rank].clone()


# --- Groups: simulated in one process, or real ----------------------------------------------------


def simulate(size: int, work: Callable[[Group], Result]) -> list[Result]:
    """Run `work(group)` in each of `size` simulated processes, and return the results by rank.

    The processes are threads that take turns: each runs until it waits for a tensor that has not been sent
    yet. So every run is the same, including the draws from torch's random numbers.

    Raises:
        RuntimeError: deadlock, or a tensor was sent and never received.
        The error of the lowest rank whose `work` raises.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    mail: Mail = [[deque() for _ in range(size)] for _ in range(size)]
    groups = [SimulatedGroup(rank, mail) for rank in range(size)]
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def run(group: SimulatedGroup) -> None:
        group.turn.acquire()
        try:
            results[group.rank] = work(group)
        except BaseException as error:
            errors[group.rank] = error
        group.ended = True
        group.over.release()

    threads = [threading.Thread(target=run, args=(group,), daemon=True) for group in groups]
    for thread in threads:
        thread.start()
    # 1. Let each process that can resume take a turn, until all have ended. If none can resume, this is a
    #    deadlock, which those that wait raise.
    while waiting := [group for group in groups if not group.ended]:
        able = [group for group in waiting if group.can_resume]
        for group in able or waiting:
            group.deadlocked = not able
            group.turn.release()
            group.over.acquire()
    for thread in threads:
        thread.join()
    # 2. Report a process's own error before the deadlocks that it causes.
    for rank in sorted(errors, key=lambda rank: (groups[rank].deadlocked, rank)):
        raise errors[rank]
    for to, source in itertools.product(range(size), repeat=2):
        if mail[to][source]:
            raise RuntimeError(
                f"process {source} sent process {to} a tensor that it never received"
            )
    return [results[rank] for rank in range(size)]


class SimulatedGroup:
    """The `Group` of a simulated process; `sent` counts the bytes that it has sent to each process."""

    def __init__(self, rank: int, mail: Mail):
        self.rank, self.size = rank, len(mail)
        self.sent = [0] * self.size
        self.ended = self.deadlocked = False
        self.turn, self.over = threading.Semaphore(0), threading.Semaphore(0)
        self._mail = mail
        self._awaits: int | None = None

    @property
    def can_resume(self) -> bool:
        """Whether the process waits for nothing, or for a tensor that has arrived."""
        return self._awaits is None or len(self._mail[self.rank][self._awaits]) > 0

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a copy of a tensor to process `to`."""
        self._check(to)
        self._mail[to][self.rank].append(tensor.detach().clone())
        self.sent[to] += tensor.numel() * tensor.element_size()

    def receive(self, source: int) -> Tensor:
        """Wait for the next tensor from process `source`; a deadlock is a RuntimeError."""
        self._check(source)
        box = self._mail[self.rank][source]
        if not box:
            self._awaits = source
            self.over.release()
            self.turn.acquire()
            self._awaits = None
        if self.deadlocked:
            raise RuntimeError(
                f"deadlock: process {self.rank} waits for process {source}, which sends nothing more"
            )
        return box.popleft()

    def _check(self, other: int) -> None:
        if not 0 <= other < self.size or other == self.rank:
            raise ValueError(
                f"process {self.rank} of {self.size} cannot send to or receive from process {other}"
            )


class DistributedGroup:
    """The `Group` of a process started by `torchrun`, over torch.distributed's backend gloo, on the CPU.

    Create it after `dist.init_process_group("gloo")`, and call `finish` at the end. A process may have n
    messages in transit; before it sends more, it waits for the oldest.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._in_transit: deque[list[dist.Work]] = deque()

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a copy of a tensor to process `to`."""
        # 1. Send bytes, preceded by their number: the receiver has to allocate a buffer of that size.
        packed = io.BytesIO()
        torch.save(tensor.detach().clone(), packed)
        content = torch.frombuffer(packed.getbuffer(), dtype=torch.uint8)  # (bytes,)
        length = torch.tensor([content.numel()])  # (1,)
        # 2. A send completes only when it is received, so it must not block this process.
        self._in_transit.append([dist.isend(length, to), dist.isend(content, to)])
        self._wait(self.size)

    def receive(self, source: int) -> Tensor:
        """Wait for the next tensor from process `source`."""
        length = torch.empty(1, dtype=torch.int64)  # (1,)
        dist.recv(length, source)
        content = torch.empty(int(length), dtype=torch.uint8)  # (bytes,)
        dist.recv(content, source)
        return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True)

    def finish(self) -> None:
        """Wait until all messages have been received: they are lost when the process ends."""
        self._wait(0)

    def _wait(self, most: int) -> None:
        """Wait until at most `most` messages are in transit."""
        while len(self._in_transit) > most:
            for request in self._in_transit.popleft():
                request.wait()
