"""Day 45 · Instruction tuning

Lesson  course lesson 45
Hints   course hint 45     (one more each time; the first gives the steps of one way)
Check   course watch 45    (checks at every save; `course check 45` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    Packed
        Several conversations in each row; `mask` is True where a position may attend to another.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from variants.instruction import Packed


def chat_tokens(
    messages: Sequence[Mapping[str, str]],
    encode: Callable[[str], list[int]],
    start: int,
    end: int,
    reply: bool = False,
) -> tuple[Int[Tensor, "T"], Bool[Tensor, "T"]]:
    """Return the tokens of a conversation, and which of them the assistant has written.

    A message has a `role`, such as system, user or assistant, and a `content`. It becomes

        start  role ⏎  content  end  ⏎

    where ⏎ is a line break. `reply` appends `start assistant ⏎`: what is sampled next is the reply.
    `encode` turns a text into tokens, but never into `start` or `end`: a user who types their names cannot
    end a message.

    - `messages` is a list, which may be empty, of dicts with the strings `role` and `content`. These
      texts may be empty, too, and are encoded unchanged. There can be roles other than system, user and
      assistant; the assistant did not write their messages.
    - `encode` maps a text to a list of ids. It is called with header, content and line break one at a
      time: a header is the role and a line break. `start` and `end` are ids that it never returns.
    - Return two tensors of one length on the CPU: `tokens` (int64) and `written` (bool). `written` is
      True for the content and the end token of the assistant's messages, and False everywhere else.
    - With `reply`, start, `assistant` and a line break follow, whoever wrote the last message;
      `written` is False for them.

    Source: OpenAI 2023, *ChatML*; the chat template published with SmolLM2, without its default system
    message.
    """
    raise NotImplementedError


def answer_labels(
    tokens: Int[Tensor, "*batch T"], written: Bool[Tensor, "*batch T"]
) -> Int[Tensor, "*batch T"]:
    """Return what the model must predict at each position: the next token where it is `written`, else −100.

    The last position has no next token.

    - `tokens` are int64 ids, `(T,)` or rows of a batch, `(…, T)`. `written` has their shape.
    - Return a new tensor with the shape, dtype and device of `tokens`, which is not changed. The label
      of position t is the token at t + 1 if that token is written, otherwise −100. The label of the
      last position is −100.

    Raises:
        ValueError: different shapes.

    Source: Ouyang et al. 2022, §3.5, for supervised fine-tuning; Shi et al. 2024, *Instruction Tuning With
    Loss Over Instructions*, for the usual loss on the answers alone. −100 is the `ignore_index` of
    `torch.nn.functional.cross_entropy`.
    """
    raise NotImplementedError


def pack(
    examples: Sequence[tuple[Int[Tensor, "T"], Int[Tensor, "T"]]], length: int, pad: int
) -> Packed:
    """Pack examples, each of tokens and labels, into rows of `length`; each behaves as if it were alone.

    In the order given, each goes into the first row that has room for it. Positions restart at 0 in each
    example, and a token attends to itself and to earlier tokens of its example. What is left at the end of
    a row is filled with `pad`, which has the label −100, as one more example.

    - `examples` is a list of pairs `(tokens, labels)`, int64 `(T,)` each, such as `chat_tokens` and
      `answer_labels` make them, 1 ≤ T ≤ `length`.
    - In the given order, put each example into the first row that has room for all of it, right after
      the examples already there. R is the resulting number of rows.
    - Return a `Packed`, or a tuple of four tensors on the examples' device: tokens, labels and
      positions, int64 `(R, length)`, and `mask`, bool `(R, length, length)`, True where the position of
      the first index may attend to the position of the second.
    - Positions count from 0 in each example. A position attends to itself and to earlier positions of
      its example.
    - Padding has the token `pad` and the label −100; positions and mask treat it as one more example.
      `pad` may also occur in an example, as an ordinary token or label.

    Raises:
        ValueError: an example longer than `length`.

    Source: Raffel et al. 2020, *Exploring the Limits of Transfer Learning*, §3.1.2 (packing); Krell et al.
    2021, *Efficient Sequence Packing without Cross-contamination*, §3.2 (positions and mask). First fit is
    a rule for bin packing.
    """
    raise NotImplementedError
