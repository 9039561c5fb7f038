"""Day 39 · Many GPUs

Lesson  course lesson 39
Hints   course hint 39
Check   course watch 39    (checks at every save; `course check 39` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    Group
        One process's view of a group: who it is, how many there are, and a way to send and to receive.
        .send(tensor, to)
            Send a tensor to process `to`, without waiting until that receives it.
        .receive(source)
            Wait for a tensor from process `source`.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from variants.parallelism import Group


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
    # 1. Lay the tensor out flat, and cut it into one chunk for each process; lengths may differ by one.
    # 2. First time around: in each of n − 1 rounds pass one chunk on, the one that came last, and add
    #    your own numbers to the one that comes. Begin with chunk r. Then chunk r + 1 is summed up here.
    # 3. Second time around: pass on the chunk that is summed up, and put the one that comes in place of
    #    your own. Begin with chunk r + 1.
    # 4. Join the chunks, in the tensor's shape.
    raise NotImplementedError


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
    # 2. No gradient counts as zeros.
    # 3. Divide before the sum: of two halves of 40,000 the mean fits into float16, the sum does not.
    raise NotImplementedError


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
    # 2. Zeros at the end, and the piece of this process. A slice is a view, which would keep the whole
    #    in memory: copy it.
    raise NotImplementedError


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
    # 1. Room for all pieces, by the number of the process that keeps them. One's own is there.
    # 2. In n − 1 rounds pass on what came last, one's own at first; what comes is from one further back.
    # 3. Join them, cut the padding off, and give the whole its shape.
    raise NotImplementedError
