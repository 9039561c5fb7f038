"""Day 18 · Training loop

Lesson  course lesson 18
Hints   course hint 18
Check   course watch 18    (checks at every save; `course check 18` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    Batch(src, tgt=None, pad=0)
        Prepare source and target sequences for training: shifted targets and masks.
    EncoderDecoder(encoder, decoder, src_embed, tgt_embed, generator)
        Encode the source once, then predict each target token from the target tokens before it.
        .encode(src, src_mask)
            From source tokens `(B, S)` to the memory `(B, S, d_model)`.
        .decode(memory, src_mask, tgt, tgt_mask)
            From the memory and target tokens `(B, T)` to states `(B, T, d_model)`.
        called with (src, tgt, src_mask, tgt_mask)
            The decoder's states `(B, T, d_model)` for both sequences.
"""

import itertools
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from implementation import Batch, EncoderDecoder


def run_epoch(
    batches: Iterable[Batch],
    model: EncoderDecoder,
    loss: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    accumulate: int = 1,
) -> float:
    """Go through the batches once: train if there is an optimizer, otherwise only measure the loss.

    A step's gradient is the summed loss of `accumulate` batches over their real tokens.

    Returns:
        The total loss over the total number of real target tokens.

    - `batches` are `Batch`es with targets, perhaps from a generator that can be read only once.
    - `model` is put into training mode if there is an optimizer, otherwise into evaluation mode, in
      which no gradient is computed.
    - `loss` maps log-probabilities `(B·T, V)` and targets `(B·T,)` to their summed loss.
    - `optimizer` steps once after every `accumulate` batches, and once after those left at the end.
      Gradients from before the call have no part in it. `scheduler` steps once after each step of the
      optimizer.
    - `accumulate` is the number of batches whose gradients are added up for one step. k batches
      accumulated give the step that one batch of all their sequences would. Without a real token the
      gradient is 0.
    - Return a float. Losses in half precision are added up in a wider dtype, because half precision may
      not be able to represent their sum.

    Raises:
        ValueError: `accumulate` below 1, or batches without a single token to predict.

    Source: Vaswani et al. 2017, §5.
    """
    # 1. Take a group of batches at a time: its tokens must be known before the first backward.
    # 2. Forward: states, log-probabilities, summed loss.
    # 3. Backward: each batch adds its part of the group's mean loss.
    # 4. One step for the group, and one of the schedule.
    # 5. The mean over tokens, not over batches: a batch counts by what is in it.
    raise NotImplementedError
