"""Day 15 · Batch

Lesson  course lesson 15
Hints   course hint 15     (one more each time; the first gives the steps of one way)
Check   course watch 15    (checks at every save; `course check 15` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    subsequent_mask(size)
        Return the causal mask `(1, size, size)`: True where the key comes no later than the query.
"""

from jaxtyping import Int
from torch import Tensor

from implementation import subsequent_mask


class Batch:
    """Prepare source and target sequences for training: shifted targets and masks.

    Attributes:
        src_mask: `(B, 1, S)`, False at padding.
        tgt, tgt_y: the decoder's input and the tokens it has to predict, both `(B, T − 1)`.
        tgt_mask: `(B, T − 1, T − 1)`, True at keys that are no padding and come no later than the query.
        ntokens: the number of tokens in `tgt_y` without padding.

    - `src` holds source tokens `(B, S)`, short sequences padded with `pad`. The attribute `src` is the
      same tensor.
    - `tgt` holds target tokens `(B, T)`, each from its start symbol to its end symbol; it is None if
      there is only a source.
    - The attribute `tgt` holds all but the last token, and `tgt_y` all but the first.
    - `ntokens` is a 0-d tensor (an int will do).
    - Without a target, `tgt`, `tgt_y`, `tgt_mask` and `ntokens` are None.

    Raises:
        ValueError: a target of fewer than two tokens, or with a different number of rows than the source.

    Source: Vaswani et al. 2017, §3.1 (outputs shifted right) and §5.1.
    """

    def __init__(
        self, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"] | None = None, pad: int = 0
    ):
        raise NotImplementedError
