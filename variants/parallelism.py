"""Many processes, one training run: gradients averaged around a ring, parameters kept in pieces.

The loop of day 18 runs in several processes at once, one a GPU. In data parallelism each holds the whole
model and reads examples of its own; before every step all of them need the mean of their gradients. A
ring gets it to them with traffic that does not grow with the number of processes. Where the model itself
is too large, each process keeps a piece of every parameter, and asks for the whole where it is used.

Papers: Patarasuk & Yuan 2009, *Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations*;
Li et al. 2020, *PyTorch Distributed*; Rajbhandari et al. 2019, *ZeRO*, https://arxiv.org/abs/1910.02054.

From symbols to names
    n               group.size, the number of processes
    r               group.rank, the number of one of them, counted from 0
    N               numbers in a tensor
    g               a gradient, parameter.grad

The code is written from the point of view of one process. What it knows of the others is a `Group`:
`simulate` makes one for each of several processes in the memory of this one, `DistributedGroup` stands
on `torch.distributed`, in processes that `torchrun` has started.
"""

import io
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


class Group(Protocol):
    """One process's view of a group: who it is, how many there are, and a way to send and to receive.

    Attributes:
        rank: r, its own number, from 0 to size − 1.
        size: n, the number of processes.
    """

    rank: int
    size: int

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a tensor to process `to`, without waiting until that receives it. What is sent is a copy."""

    def receive(self, source: int) -> Tensor:
        """Wait for a tensor from process `source`. Those of one sender arrive in the order of sending."""


# --- Day 39 · Many GPUs ---------------------------------------------------------------------------


def ring_all_reduce(tensor: Shaped[Tensor, "*shape"], group: Group) -> Shaped[Tensor, "*shape"]:
    """The sum of all processes' tensors, in every process, by messages to the next one in a ring.

        result = tensor₀ + tensor₁ + … + tensorₙ₋₁,  elementwise

    Args:
        tensor: this process's summand. All processes call with the same shape and dtype: any shape, a
            0-d tensor and an empty one too; any number of elements, fewer than processes too; any dtype
            that can be added; any layout in memory.
        group: `group.rank` is r, `group.size` is n, `group.send(tensor, to)` and `group.receive(source)`
            send to and receive from a process, by its number.

    Returns:
        The sum: shape, dtype and device of `tensor`, which stays as it is. The result needs no gradient.
        All processes have the same bits: every element is added up once, and then copied. In which order
        it is added up is open. With n = 1 it equals `tensor`.

        A process sends to the next one alone, (r + 1) mod n, and receives from the one before it. It
        sends N/n elements at a time, rounded up at most, in the dtype of `tensor`, and in all no more
        than 2 (n − 1) times that: about 2N, whatever n.

    Source: Patarasuk & Yuan 2009, *Bandwidth Optimal All-reduce Algorithms for Clusters of
    Workstations*.
    """
    size, rank = group.size, group.rank
    after, before = (rank + 1) % size, (rank - 1) % size
    # 1. Lay the tensor out flat, and cut it into one chunk for each process; lengths may differ by one.
    chunks = list(tensor.detach().flatten().tensor_split(size))  # n × (N/n,)
    # 2. First time around: in each of n − 1 rounds pass one chunk on, the one that came last, and add
    #    your own numbers to the one that comes. Begin with chunk r. Then chunk r + 1 is summed up here.
    for step in range(size - 1):
        group.send(chunks[(rank - step) % size], after)
        arriving = (rank - step - 1) % size
        chunks[arriving] = chunks[arriving] + group.receive(before)  # (N/n,)
    # 3. Second time around: pass on the chunk that is summed up, and put the one that comes in place of
    #    your own. Begin with chunk r + 1.
    for step in range(size - 1):
        group.send(chunks[(rank + 1 - step) % size], after)
        chunks[(rank - step) % size] = group.receive(before)  # (N/n,)
    # 4. Join the chunks, in the tensor's shape.
    return torch.cat(chunks).view(tensor.shape)


def average_gradients(model: nn.Module, group: Group) -> None:
    """Replace each gradient by its mean over all processes, as data parallelism does before a step.

        g ← (g₀ + g₁ + … + gₙ₋₁) / n

    Args:
        model: has been through `backward` in this process. All processes have the same architecture and
            the same parameters frozen; which parameters have a gradient may differ between them.
        group: this process's place among the others, as for `ring_all_reduce`.

    Returns:
        Nothing. Afterwards the `.grad` of every parameter that `requires_grad` is the mean, in its shape
        and dtype, the same bits in all processes. A gradient that is None in a process counts as zeros
        there, as a layer that its examples did not reach; where it is None in all of them, it may
        become zeros or stay None. Half precision does not overflow where the mean itself can be held.
        Parameters that are frozen are left as they are, with whatever gradient they have, and so are the
        parameters' values. How many messages it takes is open: a ring for each gradient, or one for many
        of them laid side by side, as `DistributedDataParallel` does.

    Source: Li et al. 2020, *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, §3.2.
    """
    # 1. All processes walk through the parameters in the same order, and none leaves one out that
    #    another may have a gradient for.
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        # 2. No gradient counts as zeros.
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        # 3. Divide before the sum: of two halves of 40,000 the mean fits into float16, the sum does not.
        parameter.grad = ring_all_reduce(gradient / group.size, group)  # the parameter's shape


def shard(parameter: Float[Tensor, "*shape"], group: Group) -> Float[Tensor, " piece"]:
    """The piece of a parameter that this process keeps.

        piece_r = flat[r·k : (r + 1)·k],  k = ⌈N / n⌉,  flat = the N elements in a row, zeros after them

    Args:
        parameter: the whole, of any shape, 0-d or empty too; the same in all processes.
        group: as for `ring_all_reduce`. Nothing needs to be sent.

    Returns:
        `(k,)`, in dtype and on the device of `parameter`, which stays as it is: of the elements, in the
        order of `flatten`, those from r·k on. All pieces are of one length, so the last ones may end in
        zeros, or be nothing else. The piece needs no gradient, and has memory of its own, k elements
        and no more: the whole can be let go of.

    Source: Rajbhandari et al. 2019, *ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models*, §5.3; the flat, padded parameter: Zhao et al. 2023, *PyTorch FSDP*.
    """
    # 1. How long a piece is: rounded up, so that all are of one length.
    flat = parameter.detach().flatten()  # (N,)
    length = math.ceil(flat.numel() / group.size)
    # 2. Zeros at the end, and the piece of this process. A slice is a view, which would keep the whole
    #    in memory: copy it.
    padded = F.pad(flat, (0, length * group.size - flat.numel()))  # (n·k,)
    return padded[group.rank * length : (group.rank + 1) * length].clone()  # (k,)


def gather(
    piece: Float[Tensor, " piece"], shape: Sequence[int], group: Group
) -> Float[Tensor, "*shape"]:
    """The whole parameter, in every process, from the pieces that all of them keep.

        gather(shard(parameter, group), parameter.shape, group) = parameter

    Args:
        piece: what this process keeps, `(k,)`; the same k and dtype in all processes.
        shape: of the whole: a `torch.Size` or a tuple, `()` too. It has more than (k − 1)·n elements and
            at most k·n, so that the padding is what is over.
        group: as for `ring_all_reduce`.

    Returns:
        The pieces side by side, that of process 0 first, without the padding, in this shape, in dtype and
        on the device of `piece`, which stays as it is. It needs no gradient. A process sends to the next
        one alone, one piece at a time, in all (n − 1)·k elements.

    Source: Rajbhandari et al. 2019, §5.3; the second half of the ring of Patarasuk & Yuan 2009.
    """
    size, rank = group.size, group.rank
    # 1. Room for all pieces, by the number of the process that keeps them. One's own is there.
    pieces = [piece.detach()] * size  # n × (k,)
    # 2. In n − 1 rounds pass on what came last, one's own at first; what comes is from one further back.
    for step in range(size - 1):
        group.send(pieces[(rank - step) % size], (rank + 1) % size)
        pieces[(rank - step - 1) % size] = group.receive((rank - 1) % size)  # (k,)
    # 3. Join them, cut the padding off, and give the whole its shape.
    return torch.cat(pieces)[: math.prod(shape)].view(shape)


def reduce_scatter(tensor: Shaped[Tensor, "*shape"], group: Group) -> Shaped[Tensor, " piece"]:
    """Return this process's piece of the sum of all processes' tensors.

        reduce_scatter(tensor, group) = shard(tensor₀ + tensor₁ + … + tensorₙ₋₁, group), up to rounding

    Args:
        tensor: this process's summand; the same shape and dtype in all processes.
        group: as for `ring_all_reduce`.

    Returns:
        `(k,)`, k = ⌈N / n⌉, padded with zeros like the pieces of `shard`. A process sends to the next one
        alone, (n − 1)·k elements: half of what an all-reduce sends.

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
    """Run `work(group)` in each of `size` simulated processes, and return what each of them returned.

    They take turns: the first runs until it waits for something that nobody has sent yet, then the next.
    So every run is the same, the draws from torch's random numbers included. Each process is a thread with
    the memory of this one: what they share, they share.

    Args:
        size: n, at least 1.
        work: called with a `SimulatedGroup` of its own for each process.

    Raises:
        ValueError: `size` below 1.
        RuntimeError: deadlock, as soon as all processes that have not ended wait for one another; or a
            tensor that was sent and never received.
        What `work` raises in a process is raised here, of several that of the lowest rank.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}")
    mail: Mail = [[deque() for _ in range(size)] for _ in range(size)]
    processes = [_Process(SimulatedGroup(rank, mail), work) for rank in range(size)]
    # 1. A turn for each that has something to go on with, until all have ended. Where none has, nobody
    #    will ever send anything again: those that wait are told so.
    while waiting := [one for one in processes if not one.ended]:
        able = [one for one in waiting if one.group.can_go_on]
        for one in able or waiting:
            one.group.stuck = not able
            one.take_turn()
    # 2. A process's own mistake comes before the deadlocks that it leads to.
    failed = [one for one in processes if one.error]
    for one in sorted(failed, key=lambda one: one.group.stuck):
        raise one.error
    for to, boxes in enumerate(mail):
        for source, box in enumerate(boxes):
            if box:
                raise RuntimeError(
                    f"process {source} sent process {to} a tensor that it never received"
                )
    return [one.result for one in processes]


class SimulatedGroup:
    """A process's group where the others are simulated.

    Attributes:
        rank, size, send, receive: those of a `Group`. A message travels by a copy in memory.
        sent: bytes that this process has sent so far, by destination: a list of `size` numbers.
    """

    def __init__(self, rank: int, mail: "Mail"):
        self.rank, self.size = rank, len(mail)
        self.sent = [0] * self.size
        self.stuck = False
        self.turn, self.over = threading.Semaphore(0), threading.Semaphore(0)
        self._mail = mail
        self._awaits: int | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether it waits for nothing, or for something that has come."""
        return self._awaits is None or len(self._mail[self.rank][self._awaits]) > 0

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a copy of a tensor to process `to`, and go on.

        Raises:
            ValueError: there is no such process, or it is this one.
        """
        self._check(to)
        self._mail[to][self.rank].append(tensor.detach().clone())
        self.sent[to] += tensor.numel() * tensor.element_size()

    def receive(self, source: int) -> Tensor:
        """Wait for the next tensor from process `source`.

        Raises:
            ValueError: there is no such process, or it is this one.
            RuntimeError: it never comes.
        """
        self._check(source)
        box = self._mail[self.rank][source]
        if not box:
            self._awaits = source
            self.over.release()
            self.turn.acquire()
            self._awaits = None
        if self.stuck:
            raise RuntimeError(
                f"deadlock: process {self.rank} waits for process {source}, which sends nothing more"
            )
        return box.popleft()

    def _check(self, other: int) -> None:
        if not 0 <= other < self.size or other == self.rank:
            raise ValueError(
                f"process {self.rank} of {self.size} cannot send to or receive from process {other}"
            )


Mail = list[list[deque[Tensor]]]  # what has been sent to whom, by whom, and not been received yet


class _Process:
    """A simulated process: a thread that runs when it is given a turn."""

    def __init__(self, group: SimulatedGroup, work: Callable[[Group], Result]):
        self.group, self.work = group, work
        self.ended = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def take_turn(self) -> None:
        """Let it go on, until it waits or ends."""
        self.group.turn.release()
        self.group.over.acquire()
        if self.ended:
            self.thread.join()

    def _run(self) -> None:
        self.group.turn.acquire()
        try:
            self.result = self.work(self.group)
        except BaseException as error:
            self.error = error
        self.ended = True
        self.group.over.release()


class DistributedGroup:
    """All processes that `torchrun` has started, over torch.distributed's backend gloo.

    Made after `dist.init_process_group("gloo")`; every process makes one, and calls `finish` before it lets
    go of it. Tensors lie on the CPU, and are sent whole, with shape and dtype. As many as there are processes
    may be on their way from one process; with more it waits for the oldest to be received.

    Attributes:
        rank, size, send, receive: those of a `Group`.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._under_way: deque[list[dist.Work]] = deque()

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a copy of a tensor to process `to`."""
        # 1. As bytes, their number ahead of them: who receives has to know how much room to make.
        packed = io.BytesIO()
        torch.save(tensor.detach().clone(), packed)
        content = torch.frombuffer(packed.getbuffer(), dtype=torch.uint8)  # (bytes,)
        length = torch.tensor([content.numel()])  # (1,)
        # 2. Sending waits for the receiver, so it goes on beside what this process does next.
        self._under_way.append([dist.isend(length, to), dist.isend(content, to)])
        self._wait(self.size)

    def receive(self, source: int) -> Tensor:
        """Wait for the next tensor from process `source`."""
        length = torch.empty(1, dtype=torch.int64)  # (1,)
        dist.recv(length, source)
        content = torch.empty(int(length), dtype=torch.uint8)  # (bytes,)
        dist.recv(content, source)
        return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True)

    def finish(self) -> None:
        """Wait until all that was sent has been received: a process that ends takes its messages along."""
        self._wait(0)

    def _wait(self, most: int) -> None:
        """Wait until no more than so many messages are on their way."""
        while len(self._under_way) > most:
            for one in self._under_way.popleft():
                one.wait()
