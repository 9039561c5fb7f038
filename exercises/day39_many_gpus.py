"""Day 39 · Many GPUs

Lesson  course lesson 39
Hints   course hint 39     (one more each time; the first gives the steps of one way)
Check   course watch 39    (checks at every save; `course check 39` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.

What is imported from them below:

    Group
        One process's view of a group: its rank r, the size n, and point-to-point messages.
        .send(tensor, to)
            Send a copy of a tensor to process `to`, without waiting until it is received.
        .receive(source)
            Wait for the next tensor from process `source`, in the order in which they were sent.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from variants.parallelism import Group


def ring_all_reduce(tensor: Shaped[Tensor, "*shape"], group: Group) -> Shaped[Tensor, "*shape"]:
    """Return the sum of all processes' tensors in every process, by messages to the next one in a ring.

        result = tensor₀ + tensor₁ + … + tensorₙ₋₁,  elementwise

    Each process sends 2 (n − 1) chunks of N/n elements: about 2N, whatever n. All processes get the same
    bits.

    - `tensor` is this process's summand. All processes pass the same shape and dtype: any shape,
      including 0-d and empty; any number of elements, even fewer than processes; any dtype that
      supports addition; any memory layout. The tensor is not changed.
    - `group.rank` is r, and `group.size` is n. `group.send(tensor, to)` and `group.receive(source)`
      send to a process and receive from one, by its number.
    - The sum has the shape, dtype and device of `tensor`. It does not require a gradient. With n = 1,
      it equals `tensor`.
    - Every element is summed in one process and then copied, so all processes have the same bits. The
      order of summation is up to you.
    - A process sends only to the next one, (r + 1) mod n, and receives only from the previous one. A
      message has at most ⌈N/n⌉ elements, in the dtype of `tensor`, and a process sends at most 2 (n −
      1) such messages' worth of elements.

    Source: Patarasuk & Yuan 2009.
    """
    raise NotImplementedError


def average_gradients(model: nn.Module, group: Group) -> None:
    """Replace each gradient by its mean over all processes, as data parallelism does before a step.

        g ← (g₀ + g₁ + … + gₙ₋₁) / n

    A gradient that is None counts as zeros. Frozen parameters are skipped.

    - `model` has been through `backward` in this process. All processes have the same architecture and
      the same frozen parameters; which parameters have a gradient may differ between processes.
    - `group` is as in `ring_all_reduce`.
    - Return nothing. Afterwards the `.grad` of every parameter with `requires_grad` is the mean, in the
      parameter's shape and dtype, and has the same bits in all processes.
    - A gradient that is None in a process counts as zeros there; this happens if the process's examples
      did not use a layer. If it is None in all processes, it may become zeros or remain None.
    - In half precision nothing overflows if the mean itself can be represented.
    - Frozen parameters keep whatever gradient they have. The values of the parameters are not changed.
    - The number of messages is up to you: one ring per gradient, or one for several concatenated
      gradients, as in `DistributedDataParallel`.

    Source: Li et al. 2020, §3.2.
    """
    raise NotImplementedError


def shard(parameter: Float[Tensor, "*shape"], group: Group) -> Float[Tensor, " piece"]:
    """Return the shard of a parameter that this process stores.

        piece_r = flat[r·k : (r + 1)·k],  k = ⌈N / n⌉,  flat = the N elements in a row, zeros after them

    - `parameter` is the full parameter, the same in all processes, of any shape, including 0-d and
      empty. It is not changed. `group` is as in `ring_all_reduce`; you do not need to send anything.
    - Return `(k,)`, in the dtype and on the device of `parameter`: the elements from r·k on, in the
      order of `flatten`. All shards have the same length, so the last shards may end in zeros, or
      contain only zeros.
    - The shard does not require a gradient. It has its own memory, for k elements only, so the full
      parameter can be freed.

    Source: Rajbhandari et al. 2019, §5.3; the flat, padded parameter: Zhao et al. 2023, *PyTorch FSDP*.
    """
    raise NotImplementedError


def gather(
    piece: Float[Tensor, " piece"], shape: Sequence[int], group: Group
) -> Float[Tensor, "*shape"]:
    """Return the full parameter in every process, from the shards that they store.

        gather(shard(parameter, group), parameter.shape, group) = parameter

    - `piece` is the shard that this process stores, `(k,)`, with the same k and dtype in all processes.
      It is not changed.
    - `shape` is that of the full parameter: a `torch.Size` or a tuple, possibly `()`. It has more than
      (k − 1)·n and at most k·n elements; the rest of the shards is padding.
    - `group` is as in `ring_all_reduce`.
    - Return the concatenated shards, starting with that of process 0, without the padding, in this
      shape, in the dtype and on the device of `piece`. The result does not require a gradient.
    - A process sends only to the next one, one shard at a time, (n − 1)·k elements in total.

    Source: Rajbhandari et al. 2019, §5.3; the second half of the ring of Patarasuk & Yuan 2009.
    """
    raise NotImplementedError
