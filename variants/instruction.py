"""Instruction tuning: a language model reads a conversation, and learns to write one side of it.

Papers: Ouyang et al. 2022, *Training language models to follow instructions with human feedback*
(InstructGPT); Wei et al. 2022, *Finetuned Language Models are Zero-Shot Learners*. The model and its loss
are those of pretraining. Only the data are new: conversations in a fixed format, of which only the
assistant's tokens are learned, several of them packed into a row.

From symbols to names
    R               rows of a batch
    L               length of each row, in tokens
    T               time: tokens of one conversation
    V               tokens in the vocabulary
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

# --- Day 45 · Instruction tuning ------------------------------------------------------------------


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

    Source: OpenAI 2023, *ChatML*; the chat template published with SmolLM2, without its default system
    message.
    """
    tokens: list[int] = []
    written: list[bool] = []

    def append(ids: list[int], by_assistant: bool = False) -> None:
        tokens.extend(ids)
        written.extend([by_assistant] * len(ids))

    for message in messages:
        by_assistant = message["role"] == "assistant"
        # 1. The header. It is encoded by itself, because a reply is sampled after it, too.
        append([start, *encode(f"{message['role']}\n")])
        # 2. The content and the end token: the assistant must also learn where to stop.
        append([*encode(message["content"]), end], by_assistant)
        # 3. The line break after it belongs to the format.
        append(encode("\n"))
    # 4. Ask for a reply.
    if reply:
        append([start, *encode("assistant\n")])
    return torch.tensor(tokens, dtype=torch.long), torch.tensor(written, dtype=torch.bool)


def answer_labels(
    tokens: Int[Tensor, "*batch T"], written: Bool[Tensor, "*batch T"]
) -> Int[Tensor, "*batch T"]:
    """Return what the model must predict at each position: the next token where it is `written`, else −100.

    The last position has no next token.

    Raises:
        ValueError: different shapes.

    Source: Ouyang et al. 2022, §3.5, for supervised fine-tuning; Shi et al. 2024, *Instruction Tuning With
    Loss Over Instructions*, for the usual loss on the answers alone. −100 is the `ignore_index` of
    `torch.nn.functional.cross_entropy`.
    """
    if tokens.shape != written.shape:
        raise ValueError(
            f"tokens and written must have one shape, got {tuple(tokens.shape)} and "
            f"{tuple(written.shape)}"
        )
    # 1. Nothing is to be predicted, to begin with.
    labels = torch.full_like(tokens, -100)  # (…, T)
    # 2. Position t predicts token t + 1, if the assistant wrote that.
    labels[..., :-1] = tokens[..., 1:].masked_fill(~written[..., 1:], -100)
    return labels


class Packed(NamedTuple):
    """Several conversations in each row; `mask` is True where a position may attend to another.

    A `GPT` or a `LLaMA` reads them as `model(tokens, positions=positions, mask=mask)`.
    """

    tokens: Int[Tensor, "R L"]
    labels: Int[Tensor, "R L"]
    positions: Int[Tensor, "R L"]
    mask: Bool[Tensor, "R L L"]


def pack(
    examples: Sequence[tuple[Int[Tensor, "T"], Int[Tensor, "T"]]], length: int, pad: int
) -> Packed:
    """Pack examples, each of tokens and labels, into rows of `length`; each behaves as if it were alone.

    In the order given, each goes into the first row that has room for it. Positions restart at 0 in each
    example, and a token attends to itself and to earlier tokens of its example. What is left at the end of
    a row is filled with `pad`, which has the label −100, as one more example.

    Raises:
        ValueError: an example longer than `length`.

    Source: Raffel et al. 2020, *Exploring the Limits of Transfer Learning*, §3.1.2 (packing); Krell et al.
    2021, *Efficient Sequence Packing without Cross-contamination*, §3.2 (positions and mask). First fit is
    a rule for bin packing.
    """
    longest = max((len(tokens) for tokens, _ in examples), default=0)
    if longest > length:
        raise ValueError(f"examples must have at most length = {length} tokens, got {longest}")
    # 1. Choose a row for each example, the first that has room, and the place where it begins there.
    used: list[int] = []  # tokens in each row
    places: list[tuple[int, int]] = []
    for tokens, _ in examples:
        row = next((i for i, n in enumerate(used) if n + len(tokens) <= length), len(used))
        if row == len(used):
            used.append(0)
        places.append((row, used[row]))
        used[row] += len(tokens)
    # 2. Begin with rows of padding. `first` is where the example of each position begins.
    device = examples[0][0].device if examples else None
    packed = torch.full((len(used), length), pad, device=device)  # (R, L)
    labels = torch.full_like(packed, -100)  # (R, L)
    first = torch.tensor(used, dtype=torch.long, device=device).unsqueeze(1).repeat(1, length)
    # 3. Write the examples.
    for (row, begin), (tokens, targets) in zip(places, examples, strict=True):
        here = row, slice(begin, begin + len(tokens))
        packed[here], labels[here], first[here] = tokens, targets, begin
    # 4. Positions restart with each example. Attend within it, and to no later token.
    positions = torch.arange(length, device=device) - first  # (R, L)
    causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()  # (L, L)
    mask = (first.unsqueeze(2) == first.unsqueeze(1)) & causal  # (R, L, L)
    return Packed(packed, labels, positions, mask)
