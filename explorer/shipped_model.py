"""The model that ships with the explorer: its translations, its heads' weights, and the loss without each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from implementation import Batch, MultiHeadedAttention
from training.data.vocabulary import END, PAD, START
from training.inference.trained_model import AttentionMap, TrainedModel

FOLDER = Path(__file__).with_name("model")
ENCODER, PAST, SOURCE = "encoder self-attention", "decoder self-attention", "cross-attention"
KINDS = (ENCODER, PAST, SOURCE)


class AttentionLayer(NamedTuple):
    """One attention of the model: its kind, and its layer counted from 1."""

    kind: str
    layer: int


class Head(NamedTuple):
    """One head of an attention, counted from 1."""

    place: AttentionLayer
    number: int


class Losses(NamedTuple):
    """What each token of a text costs: −ln of the probability that it is given."""

    tokens: list[str]
    each: list[float]

    @property
    def mean(self) -> float:
        return sum(self.each) / len(self.each)


class Trained:
    """The model, to be asked with some of its heads switched off. Not for two threads at once."""

    def __init__(self) -> None:
        self._using = TrainedModel.load(FOLDER, "cpu")
        self.attentions = dict(_attentions(self._using.model))

    @property
    def heads(self) -> list[Head]:
        """All of them, attention by attention."""
        return [
            Head(sublayer, number)
            for sublayer, attention in self.attentions.items()
            for number in range(1, attention.h + 1)
        ]

    def pieces(self, sentence: str) -> int:
        """How many tokens a sentence is read as."""
        return len(self._words.source.encode(sentence))

    def translation(self, sentence: str, off: Collection[Head] = ()) -> str:
        """The most likely token at each step, until the end."""
        with self._without(off):
            (answer,) = self._using.translate([sentence], beam=1)
        return answer

    def maps(self, sentence: str, off: Collection[Head] = ()) -> dict[AttentionLayer, AttentionMap]:
        """What every head looks at, in a sentence and in its translation as it comes out now."""
        with self._without(off):
            attention = self._using.attention(sentence)
        return dict(zip(self.attentions, attention, strict=True))

    def losses(self, sentence: str, translation: str, off: Collection[Head] = ()) -> Losses:
        """What the tokens of a given translation cost, the one that ends it included."""
        read = self._words.source.encode(sentence)
        target = [*self._words.target.encode(translation), END]
        batch = Batch(torch.tensor([read]), torch.tensor([[START, *target]]), pad=PAD)
        with self._without(off), torch.no_grad():
            model = self._using.model
            states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            log_probs = model.generator(states)[0]  # (T, V)
        each = -log_probs[range(len(target)), target]  # (T,)
        return Losses(self._words.target.names(target), each.tolist())

    def costs(self, sentence: str, translation: str) -> dict[Head, float]:
        """By how much a token of this translation costs more on average, without each head alone."""
        full_loss = self.losses(sentence, translation).mean
        return {
            head: self.losses(sentence, translation, [head]).mean - full_loss for head in self.heads
        }

    @property
    def _words(self) -> Any:
        return self._using.languages

    @contextmanager
    def _without(self, off: Collection[Head]) -> Iterator[None]:
        """Some heads' outputs are 0, where `w_o` takes those of all heads in."""
        with ExitStack() as stack:
            for sublayer, attention in self.attentions.items():
                numbers = [head.number for head in off if head.place == sublayer]
                if numbers:
                    hook = attention.w_o.register_forward_pre_hook(_silencing(numbers, attention.h))
                    stack.callback(hook.remove)
            yield


def _attentions(model: Any) -> Iterator[tuple[AttentionLayer, MultiHeadedAttention]]:
    """Every attention sublayer of an encoder-decoder, in the order of `TrainedModel.attention`."""
    for number, layer in enumerate(model.encoder.layers, 1):
        yield AttentionLayer(ENCODER, number), layer.self_attn
    for number, layer in enumerate(model.decoder.layers, 1):
        yield AttentionLayer(PAST, number), layer.self_attn
        yield AttentionLayer(SOURCE, number), layer.src_attn


def _silencing(numbers: Sequence[int], h: int) -> Any:
    """A hook: of what enters a projection, the part of these heads is 0."""
    on = torch.tensor([float(number not in numbers) for number in range(1, h + 1)])

    def silence(projection: nn.Linear, inputs: tuple[Tensor]) -> Tensor:
        return inputs[0] * on.repeat_interleave(projection.in_features // h)  # (B, T, d_model)

    return silence
