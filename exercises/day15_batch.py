"""Day 15 · Batch

Lesson  course lesson 15
Hints   course hint 15
Check   course watch 15    (checks at every save; `course check 15` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    subsequent_mask(size)
        Which keys come no later than the query: no position may read what it is to predict.
        Returns: `(1, size, size)`, True on the diagonal and below it: row i is query i.
"""

from jaxtyping import Int
from torch import Tensor

from implementation import subsequent_mask


class Batch:
    """Source and target sequences side by side, with what the model needs to train on them.

    Args:
        src: source tokens `(B, S)`, short sequences filled up with `pad`.
        tgt: target tokens `(B, T)`, each from its start symbol to its end symbol; None to only read.
        pad: the id of padding.

    Attributes:
        src: as given.
        src_mask: `(B, 1, S)`, True at real tokens.
        tgt: what the decoder is given, `(B, T − 1)`: all but the last token.
        tgt_y: what it is to predict, `(B, T − 1)`: all but the first token.
        tgt_mask: `(B, T − 1, T − 1)`, True at real keys that come no later than the query.
        ntokens: the number of real tokens in `tgt_y`, a 0-d tensor (an int will do).

        The last four are None where there is no target.

    Raises:
        ValueError: a target without room for a start symbol and one token, or with other rows than
            the source.

    Source: Vaswani et al. 2017, §3.1 (outputs shifted right) and §5.1.
    """

    def __init__(
        self, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"] | None = None, pad: int = 0
    ):
        # 1. The source, and which of its keys are real.
        # 2. The target twice, shifted against itself by one.
        # 3. A query sees the real keys up to itself.
        # 4. Losses are means over the real tokens that are to be predicted.
        raise NotImplementedError
