"""The whole model against nn.Transformer with the weights copied over, and the paper's numbers.

The days' checks compare its parts with PyTorch's (`tests/days/accepted/*/published.py`).
"""

import copy
import io
import math
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from implementation import (
    Batch,
    LabelSmoothing,
    PositionalEncoding,
    greedy_decode,
    make_model,
    rate,
    run_epoch,
    subsequent_mask,
)
from tests.reference.oracles import (
    assert_agree,
    copied,
    gradients,
    hidden,
    randomized,
    torch_decoder,
    torch_encoder,
)

NORMS = pytest.mark.parametrize("norm", ["post", "pre"])
SRC_VOCAB, TGT_VOCAB, N, D_MODEL, D_FF, H = 11, 13, 2, 8, 12, 2
SRC = torch.tensor([[3, 7, 1, 9, 2], [4, 10, 6, 0, 0], [0, 0, 0, 0, 0]])
TGT = torch.tensor([[1, 5, 5, 2], [1, 8, 2, 0], [1, 10, 0, 0]])
SRC_MASK = (SRC != 0).unsqueeze(1)
TGT_MASK = (TGT != 0).unsqueeze(1) & subsequent_mask(4)


def small_model(norm="post", tie=False, dropout=0.0):
    """A model of two small layers a stack."""
    vocab = (TGT_VOCAB, TGT_VOCAB) if tie else (SRC_VOCAB, TGT_VOCAB)
    return make_model(*vocab, N, D_MODEL, D_FF, H, dropout, norm, tie)


class TorchTransformer(nn.Transformer):
    """nn.Transformer with embeddings, positions as a rotation, and log-softmax around it."""

    def __init__(self, norm, tie):
        stack = D_MODEL, H, D_FF, norm, N
        super().__init__(
            D_MODEL,
            H,
            custom_encoder=torch_encoder(*stack),
            custom_decoder=torch_decoder(*stack),
            batch_first=True,
        )
        self.source = nn.Embedding(TGT_VOCAB if tie else SRC_VOCAB, D_MODEL)
        self.target = nn.Embedding(TGT_VOCAB, D_MODEL)
        self.output = nn.Linear(D_MODEL, TGT_VOCAB)
        if tie:
            self.target.weight = self.output.weight = self.source.weight

    def embed(self, table, tokens):
        """Vectors times √d_model, plus the imaginary and real parts of a rotation."""
        frequencies = torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10000) / D_MODEL))
        angles = torch.arange(tokens.size(1)).double().outer(frequencies)
        circle = torch.polar(torch.ones_like(angles), angles)
        positions = torch.stack([circle.imag, circle.real], -1).flatten(1)
        return table(tokens) * math.sqrt(D_MODEL) + positions

    def log_probs(self):
        """Log-probabilities of the next token at every position."""
        states = self(
            self.embed(self.source, SRC),
            self.embed(self.target, TGT),
            src_mask=hidden(SRC_MASK, len(SRC), H, SRC.size(1)),
            tgt_mask=hidden(TGT_MASK, len(TGT), H, TGT.size(1)),
            memory_mask=hidden(SRC_MASK, len(SRC), H, TGT.size(1)),
        )
        return F.log_softmax(self.output(states), dim=-1)


# --- The computation -----------------------------------------------------------------------------


@NORMS
@pytest.mark.parametrize("tie", [False, True], ids=["untied", "tied"])
def test_the_model_is_torchs(norm, tie, float64):
    """Log-probabilities and the gradient of every parameter are nn.Transformer's, padding and all."""
    model = randomized(small_model(norm, tie))
    oracle = copied(model, TorchTransformer(norm, tie))
    actual = model.generator(model(SRC, TGT, SRC_MASK, TGT_MASK))
    expected, upstream = oracle.log_probs(), torch.randn(*TGT.shape, TGT_VOCAB)
    assert_agree(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    assert_agree(
        {name: parameter.grad for name, parameter in model.named_parameters()}, gradients(oracle)
    )


# --- The paper's numbers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "expected", "in_the_paper"),
    [({}, 63_119_496, 65e6), ({"d_model": 1024, "d_ff": 4096, "h": 16}, 214_282_376, 213e6)],
    ids=["base", "big"],
)
def test_the_numbers_of_parameters_are_the_papers(sizes, expected, in_the_paper):
    """With a joint vocabulary of 37000 they are those of table 3, to 5 percent."""
    with torch.device("meta"):
        model = make_model(37000, 37000, tie=True, **sizes)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert expected == pytest.approx(in_the_paper, rel=0.05)


def test_the_papers_learning_rate():
    """The base model's learning rate peaks at step 4000 with 6.99e-4, and is 1.75e-7 at step 1."""
    rates = [rate(step, 512, 1, 4000) for step in range(1, 12_000)]
    assert max(rates) == rates[3999] == pytest.approx(6.99e-4, rel=1e-3)
    assert rates[0] == pytest.approx(1.747e-7, rel=1e-3)
    assert rate(100_000, 512, 1, 4000) == pytest.approx(1.398e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("max_len", "d_model"), [(1, 1), (4, 1), (3, 2), (5, 7), (9, 8), (20, 33), (5000, 512)]
)
def test_positions_are_complex_exponentials(max_len, d_model):
    """Of the table, computed in float64, only the last rounding to float32 is visible: half an ulp of 1."""
    frequencies = np.exp(-np.log(np.longdouble(10000)) * np.arange(0, d_model, 2) / d_model)
    circle = np.exp(1j * np.arange(max_len)[:, None] * frequencies)
    expected = np.stack([circle.imag, circle.real], axis=-1).reshape(max_len, -1)[:, :d_model]
    table = PositionalEncoding(d_model, 0.0, max_len).pe[0]
    half_ulp = torch.finfo(torch.float32).eps / 2
    expected = torch.from_numpy(expected.astype(np.float64))
    torch.testing.assert_close(table.double(), expected, rtol=0, atol=half_ulp)


# --- Copies and files ----------------------------------------------------------------------------


def through_a_file(model):
    """A second model with the first one's state dict, saved and loaded."""
    other, file = small_model(tie=True), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    return other


@pytest.mark.parametrize(
    "change", [through_a_file, copy.deepcopy, nn.Module.double, nn.Module.half]
)
def test_tying_survives_copies_files_and_casts(change):
    """The three matrices are one Parameter, listed once, with the same values; a call before does no harm."""
    model = small_model(tie=True)
    model(TGT, TGT, None, TGT_MASK)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    changed = change(model)
    first = changed.src_embed[0].lut.weight
    assert changed.tgt_embed[0].lut.weight is first and changed.generator.proj.weight is first
    assert sum(parameter is first for parameter in changed.parameters()) == 1
    for parameter, value in zip(changed.parameters(), before, strict=True):
        assert torch.equal(parameter, value.to(parameter.dtype))
    if changed is not model:
        nn.init.zeros_(first)
        assert model.src_embed[0].lut.weight.all()


# --- Training ------------------------------------------------------------------------------------


def test_batches_are_read_once_and_let_go():
    """A one-pass generator will do, and no more than a group of batches is alive at any time."""
    alive, counts = weakref.WeakSet(), []

    def one_pass():
        for length in range(3, 13):
            batch = Batch(torch.ones(2, 4, dtype=torch.long), torch.ones(2, length).long())
            alive.add(batch)
            counts.append(len(alive))
            yield batch
            del batch

    model = small_model(tie=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run_epoch(one_pass(), model, LabelSmoothing(TGT_VOCAB, 0), optimizer, accumulate=2)
    assert max(counts) <= 2 * 2  # a group, and the next one on its way


@pytest.mark.slow
def test_the_copy_task_is_learned():
    """A small model learns to repeat five symbols, and greedy decoding shows it."""
    symbols, model = 8, make_model(8, 8, 1, 32, 64, 4, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step + 1, 32, 1, 60))
    loss = LabelSmoothing(symbols, 0, 0.0)

    def batches(count):
        for _ in range(count):
            src = torch.randint(2, symbols, (64, 5))
            yield Batch(src, torch.cat([torch.ones(64, 1, dtype=torch.long), src], dim=1))

    first = run_epoch(batches(2), model, loss)
    run_epoch(batches(250), model, loss, optimizer, scheduler)
    assert first > 1.5
    assert run_epoch(batches(2), model, loss) < 0.1
    src = torch.tensor([[2, 3, 4, 5, 6], [7, 7, 2, 7, 3]])
    decoded = greedy_decode(model, src, torch.ones(2, 1, 5, dtype=torch.bool), 6, 1)
    assert decoded[:, 1:].tolist() == src.tolist()
