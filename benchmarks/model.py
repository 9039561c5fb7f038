"""Training and decoding with the reference, beside `torch.nn.Transformer`: a part of `on_gpu.py`.

The two differ in encoder and decoder only: embeddings, positions, output projection, loss, greedy decoding,
Adam and batches are those of `implementation.py`. Ours is `make_model`, post-norm, after `fuse`;
theirs has `batch_first`, and not its two final norms, which post-norm does not have (`tests/reference`
compares their results). Neither uses a cache when decoding, and there is no end symbol, so both decode the
same number of tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import frame
import torch
from torch import Tensor, nn

from implementation import (
    Batch,
    EncoderDecoder,
    LabelSmoothing,
    greedy_decode,
    make_model,
    subsequent_mask,
)
from variants.fused import fuse

Acts = dict[str, Callable[[], object]]


class Size(NamedTuple):
    """A model, a batch, and how far to decode."""

    n: int
    d_model: int
    d_ff: int
    h: int
    batch: int
    length: int
    shortest: int
    vocab: int
    decoded: int


SIZES = {
    "width 64": Size(2, 64, 256, 4, batch=80, length=10, shortest=10, vocab=11, decoded=10),
    "width 512": Size(2, 512, 2048, 8, batch=32, length=64, shortest=48, vocab=8000, decoded=17),
}
TOY = Size(1, 16, 16, 2, batch=2, length=4, shortest=3, vocab=11, decoded=3)


class TorchEncoder(nn.Module):
    """torch's encoder with our signature."""

    def __init__(self, encoder: nn.TransformerEncoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=~mask.squeeze(1))


class TorchDecoder(nn.Module):
    """torch's decoder with our signature. It takes the two masks of the target separately."""

    def __init__(self, decoder: nn.TransformerDecoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        decoding = tgt_mask.size(0) == 1  # there is no padding then
        return self.decoder(
            x,
            memory,
            tgt_mask=~subsequent_mask(x.size(1)).to(x.device).squeeze(0),
            tgt_is_causal=True,
            tgt_key_padding_mask=None if decoding else ~tgt_mask[:, -1],
            memory_key_padding_mask=~src_mask.squeeze(1),
        )


def contenders(
    size: Size, device: torch.device, dtype: torch.dtype
) -> Iterator[tuple[str, Acts, int]]:
    """Yield training and decoding: what theirs and ours do, and the tokens of it."""
    # nn.Transformer's own fast path warns of its nested tensors.
    warnings.filterwarnings("ignore", message=".*nested tensors is in prototype")
    ours, theirs = (
        make_model(size.vocab, size.vocab, size.n, size.d_model, size.d_ff, size.h)
        for _ in range(2)
    )
    whole = nn.Transformer(
        size.d_model, size.h, size.n, size.n, size.d_ff, dropout=0.1, batch_first=True
    )
    whole.encoder.norm = whole.decoder.norm = None
    theirs.encoder, theirs.decoder = TorchEncoder(whole.encoder), TorchDecoder(whole.decoder)
    assert frame.parameters(ours) == frame.parameters(theirs)
    batch = make_batch(size, device)
    models = {"nn.Transformer": theirs.to(device), "ours": fuse(ours).to(device)}
    steps = {name: training(model, size, batch, dtype) for name, model in models.items()}
    decodes = {name: decoding(model, size, batch, dtype) for name, model in models.items()}
    yield "training", steps, int(batch.ntokens)
    yield "decoding", decodes, size.batch * (size.decoded - 1)


def make_batch(size: Size, device: torch.device) -> Batch:
    """Return sentences of `shortest` to `length` tokens, the first of full length, padded with 0."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(size.shortest, size.length + 1, (2, size.batch, 1), generator=draw)
    lengths[:, 0] = size.length
    tokens = torch.randint(1, size.vocab, (2, size.batch, size.length), generator=draw)
    tokens[torch.arange(size.length) >= lengths] = 0
    src, tgt = tokens.to(device)
    return Batch(src, tgt)


def training(
    model: EncoderDecoder, size: Size, batch: Batch, dtype: torch.dtype
) -> Callable[[], None]:
    """Return a function that takes one training step."""
    loss = LabelSmoothing(size.vocab, 0, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        with torch.autocast(batch.src.device.type, dtype, enabled=dtype != torch.float32):
            states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            summed = loss(model.generator(states).flatten(0, 1), batch.tgt_y.flatten())
        (summed / batch.ntokens).backward()
        optimizer.step()

    return step


def decoding(
    model: EncoderDecoder, size: Size, batch: Batch, dtype: torch.dtype
) -> Callable[[], None]:
    """Return a function that decodes one batch."""

    def decode() -> None:
        model.eval()
        with torch.autocast(batch.src.device.type, dtype, enabled=dtype != torch.float32):
            greedy_decode(model, batch.src, batch.src_mask, size.decoded, start=1)

    return decode
