"""Day 18 · Training loop

Lesson  course lesson 18
Hints   course hint 18     (one more each time; the first gives the steps of one way)
Check   course watch 18    (checks at every save; `course check 18` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    Batch(src, tgt=None, pad=0)
        Prepare source and target sequences for training: shifted targets and masks.
    EncoderDecoder(encoder, decoder, src_embed, tgt_embed, generator)
        Encode the source once, then predict each target token from the target tokens before it.
        .encode(src, src_mask)
            Return the memory, the encoder's output for the source tokens.
        .decode(memory, src_mask, tgt, tgt_mask)
            Return the decoder's output for the target tokens.
        called with (src, tgt, src_mask, tgt_mask)
            Return the decoder's output for a source and a target.
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
    """Make one pass over the batches: train if there is an optimizer, otherwise only measure the loss.

    A step's gradient is that of the mean loss over the target tokens of `accumulate` batches, without
    padding. The result is the mean loss over all of them.

    - `batches` are `Batch`es with targets, perhaps from a generator that can be read only once.
    - `model` is put into training mode if there is an optimizer, otherwise into evaluation mode, in
      which no gradient is computed.
    - `loss` maps log-probabilities `(B·T, V)` and targets `(B·T,)` to their summed loss.
    - `optimizer` steps once after every `accumulate` batches, and once after the batches that remain at
      the end. Gradients from before the call are discarded. `scheduler` steps once after each step of
      the optimizer.
    - `accumulate` is the number of batches whose gradients are added up for one step. Accumulating k
      batches has the same result as one batch of all their sequences. Without any real token, the
      gradient is 0.
    - Return a float. Losses in half precision are added up in a wider dtype, because half precision may
      not be able to represent their sum.

    Raises:
        ValueError: `accumulate` below 1, or no token to predict.

    Source: Vaswani et al. 2017, §5.
    """
    raise NotImplementedError
