"""Day 18 · Training loop

Lesson  course lesson 18
Hints   course hint 18
Check   course watch 18    (checks at every save; `course check 18` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    Batch(src, tgt=None, pad=0)
        Source and target sequences side by side, with what the model needs to train on them.
    EncoderDecoder(encoder, decoder, src_embed, tgt_embed, generator)
        The whole: read the source once, then predict each target token from those before it.
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
    """Go through the batches once: train where there is an optimiser, else only measure.

    Args:
        batches: `Batch`es with targets, perhaps from a generator that can be read only once.
        model: an `EncoderDecoder`. It is put into training mode where there is an optimiser, else
            into evaluation mode, in which no gradient is computed.
        loss: from log-probabilities `(B·T, V)` and targets `(B·T,)` to their summed loss.
        optimizer: steps once after every `accumulate` batches, and once after those left at the end.
            Gradients from before the call have no part in it.
        scheduler: steps once after each step of the optimiser.
        accumulate: batches whose gradients are added up for one step. A step's gradient is the
            group's summed loss over the group's real tokens, so that k batches accumulated give the
            step that one batch of all their sequences would; without a real token it is 0.

    Returns:
        The total loss over the total number of real target tokens, a float. Losses that come in half
        precision are added up in a wider dtype, for their sum may be too large for a half.

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
