"""`Generator`, `EncoderDecoder` and `make_model` against nn.Transformer with the weights copied over,
the closed formula for the number of parameters, and the paper.
"""

import copy
import io
import math

import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import nn

from implementation import Embeddings, Generator, make_model, subsequent_mask
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
        """What it says about the next token everywhere."""
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


def test_forward_is_encode_then_decode(float64):
    """The memory can be made once and decoded from again: it is the same computation."""
    model = small_model()
    memory = model.encode(SRC, SRC_MASK)
    assert memory.shape == (*SRC.shape, D_MODEL)
    states = model(SRC, TGT, SRC_MASK, TGT_MASK)
    assert states.shape == (*TGT.shape, D_MODEL)
    assert_agree(model.decode(memory, SRC_MASK, TGT, TGT_MASK), states)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_the_generator_is_torchs_log_softmax(batch, float64):
    """Log-probabilities of any leading dimensions, whose exponentials sum to 1."""
    generator, x = Generator(4, 7), torch.randn(*batch, 4)
    log_probs = generator(x)
    logits = F.linear(x, generator.proj.weight, generator.proj.bias)
    assert_agree(log_probs, F.log_softmax(logits, -1))
    assert_agree(log_probs.exp().sum(-1), torch.ones(batch))


def test_the_generator_survives_logits_of_ten_thousand():
    """Logits of ±1e4 give finite log-probabilities: the gaps themselves."""
    generator = Generator(1, 3)
    generator.proj.load_state_dict(
        {"weight": torch.tensor([[1e4], [0], [-1e4]]), "bias": torch.zeros(3)}
    )
    assert generator(torch.ones(1)).tolist() == [0, -1e4, -2e4]


@NORMS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_model_in_halves(norm, dtype):
    """A model of float16 or bfloat16 says nearly what it says in float64, and its gradients are finite.

    On the way from token to logit lie about 10 roundings a layer of values about 1, on logits below
    about 8: with chance signs, √(10 · 2N) · eps/2 · 8 is what is expected, and three times that allowed.
    """
    model = small_model(norm)
    truth = model.generator(model(SRC, TGT, SRC_MASK, TGT_MASK)).double()
    log_probs = model.to(dtype).generator(model(SRC, TGT, SRC_MASK, TGT_MASK))
    assert log_probs.dtype == dtype
    bound = 3 * math.sqrt(10 * 2 * N) * torch.finfo(dtype).eps / 2 * 8
    torch.testing.assert_close(log_probs.double(), truth, rtol=0, atol=bound)
    log_probs.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# --- Parameters ----------------------------------------------------------------------------------


def size(model):
    """The number of parameters, each counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def formula(src_vocab, tgt_vocab, n, d_model, d_ff, norm, tie):
    """The closed formula, layer by layer."""
    attention = 4 * d_model * (d_model + 1)
    network = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm_size = 2 * d_model
    encoder = n * (attention + network + 2 * norm_size)
    decoder = n * (2 * attention + network + 3 * norm_size)
    finals = 2 * norm_size if norm == "pre" else 0
    tables = (tgt_vocab if tie else src_vocab + 2 * tgt_vocab) * d_model
    return encoder + decoder + finals + tables + tgt_vocab


@NORMS
@pytest.mark.parametrize("tie", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize(("n", "d_model", "d_ff", "h"), [(1, 4, 6, 2), (3, 6, 5, 3), (0, 2, 2, 1)])
def test_the_number_of_parameters_is_the_closed_formula(n, d_model, d_ff, h, norm, tie):
    """No parameter too many, none too few."""
    vocab = (9, 9) if tie else (7, 9)
    model = make_model(*vocab, n, d_model, d_ff, h, norm=norm, tie=tie)
    assert size(model) == formula(*vocab, n, d_model, d_ff, norm, tie)


def test_the_defaults_are_the_papers_base_model():
    """With a joint vocabulary of 37000 it has table 3's 65 million parameters, to 5 percent.

    It is exactly 63,119,496: N = 6, d_model = 512, d_ff = 2048; h = 8, P_drop = 0.1, post-norm.
    """
    with torch.device("meta"):
        model = make_model(37000, 37000, tie=True)
    assert size(model) == formula(37000, 37000, 6, 512, 2048, "post", True) == 63_119_496
    assert size(model) == pytest.approx(65e6, rel=0.05)
    assert model.encoder.layers[0].self_attn.h == 8
    assert model.encoder.layers[0].norm == "post"
    assert dropouts(model) == {0.1}


def test_the_papers_big_model():
    """With d_model = 1024, d_ff = 4096 and 16 heads it has table 3's 213 million, to 5 percent."""
    with torch.device("meta"):
        model = make_model(37000, 37000, d_model=1024, d_ff=4096, h=16, tie=True)
    assert size(model) == pytest.approx(213e6, rel=0.05)


def test_layers_share_nothing():
    """No two parameters lie in the same memory, and no two matrices start equal, not even of the clones."""
    parameters = list(small_model().parameters())
    assert len({parameter.data_ptr() for parameter in parameters}) == len(parameters)
    matrices = [parameter for parameter in parameters if parameter.dim() == 2]
    assert len({matrix.sum().item() for matrix in matrices}) == len(matrices)


@pytest.mark.parametrize("tie", [False, True], ids=["untied", "tied"])
def test_matrices_start_xavier_uniform(tie):
    """By Kolmogorov and Smirnov's test each is uniform within ±√(6 / (fan in + fan out)), unless tied."""
    model = make_model(90, 90, 2, 64, 96, 4, tie=tie)
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if tie:
        linears.remove(model.generator.proj)
    assert len(linears) == 2 * (4 + 2) + 2 * (8 + 2) + (not tie)
    for linear in linears:
        weight, bound = linear.weight.detach(), math.sqrt(6 / sum(linear.weight.shape))
        assert weight.abs().max() <= bound
        uniform = scipy.stats.uniform(-bound, 2 * bound)
        assert scipy.stats.kstest(weight.flatten(), uniform.cdf).pvalue > 1e-4


@pytest.mark.parametrize("tie", [False, True], ids=["untied", "tied"])
def test_tables_start_as_embeddings(tie):
    """The tables stay N(0, 1/d_model), a tied one as well: Xavier passes them over."""
    model = make_model(300, 300, 1, 64, 96, 4, tie=tie)
    for embed in (model.src_embed, model.tgt_embed):
        table = embed[0].lut.weight.detach().flatten()
        assert scipy.stats.kstest(table, scipy.stats.norm(0, 1 / 8).cdf).pvalue > 1e-3


# --- Tying ---------------------------------------------------------------------------------------


def tied_matrices(model):
    """Source table, target table and output projection."""
    return model.src_embed[0].lut.weight, model.tgt_embed[0].lut.weight, model.generator.proj.weight


def assert_tied(model):
    """The three are one Parameter, listed once, and the generator's bias is none of it."""
    first, *others = tied_matrices(model)
    assert all(other is first for other in others)
    assert sum(parameter is first for parameter in model.parameters()) == 1
    assert model.generator.proj.bias.shape == (TGT_VOCAB,)


def test_tying_makes_one_parameter():
    """With `tie` the three matrices are one Parameter; without, as by default, they are three."""
    assert_tied(small_model(tie=True))
    by_default = make_model(TGT_VOCAB, TGT_VOCAB, N, D_MODEL, D_FF, H)
    assert len({id(matrix) for matrix in tied_matrices(by_default)}) == 3


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_tied_parameter_moves_as_one(optimizer, float64):
    """A step of an optimizer moves all three, once: by SGD exactly the rate times the whole gradient."""
    model = small_model(tie=True)
    before = tied_matrices(model)[0].detach().clone()
    steps = optimizer(model.parameters(), lr=0.01)
    model.generator(model(SRC, TGT, SRC_MASK, TGT_MASK)).square().sum().backward()
    steps.step()
    assert_tied(model)
    table = tied_matrices(model)[0]
    assert not torch.equal(table, before)
    if optimizer is torch.optim.SGD:
        assert_agree(table.detach(), before - 0.01 * table.grad)


def test_tying_survives_a_state_dict():
    """Saved to a file and loaded into another tied model, it is one Parameter with the saved values."""
    model, other, file = small_model(tie=True), small_model(tie=True), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    assert_tied(other)
    assert all(map(torch.equal, model.parameters(), other.parameters()))


@pytest.mark.parametrize(
    "change", [copy.deepcopy, lambda model: model.double(), lambda model: model.half()]
)
def test_tying_survives_copies_and_casts(change):
    """A deep copy, and a model of another dtype, are tied as well."""
    assert_tied(change(small_model(tie=True)))


def test_a_deep_copy_shares_nothing_with_its_original():
    """Training the copy leaves the original as it was."""
    model = small_model(tie=True)
    twin = copy.deepcopy(model)
    nn.init.zeros_(twin.generator.proj.weight)
    assert tied_matrices(model)[0].all()


# --- Dropout -------------------------------------------------------------------------------------


def dropouts(model):
    """Every probability that occurs in a Dropout."""
    return {module.p for module in model.modules() if isinstance(module, nn.Dropout)}


@NORMS
def test_no_dropout_means_none_anywhere(norm):
    """With dropout 0 two passes in training mode are equal to the bit."""
    model = small_model(norm).train()
    assert dropouts(model) == {0.0}
    assert torch.equal(model(SRC, TGT, SRC_MASK, TGT_MASK), model(SRC, TGT, SRC_MASK, TGT_MASK))


def test_dropout_is_everywhere():
    """Every attention, network, connection and embedding of the model drops with the same probability."""
    model = small_model(dropout=0.3)
    assert dropouts(model) == {0.3}
    count = sum(isinstance(module, nn.Dropout) for module in model.modules())
    assert count == N * (1 + 1 + 2) + N * (2 + 1 + 3) + 2


def test_dropout_is_for_training_only():
    """Two passes in training mode differ, in evaluation mode they are equal to the bit."""
    model, inputs = small_model(dropout=0.3), (SRC, TGT, SRC_MASK, TGT_MASK)
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


# --- What the masks are for ----------------------------------------------------------------------


@NORMS
def test_no_position_sees_the_future_or_the_padding(norm, float64):
    """No state depends on later target tokens, nor on what stands where the source is padding."""
    model = randomized(small_model(norm))
    states = model(SRC, TGT, SRC_MASK, TGT_MASK)
    later, padded = TGT.clone(), SRC.clone()
    later[:, 2:] = 7
    padded[1, 3:] = 5
    future = model(SRC, later, SRC_MASK, TGT_MASK)
    assert_agree(future[:, :2], states[:, :2])
    assert not torch.allclose(future[0, 2:], states[0, 2:])
    assert_agree(model(padded, TGT, SRC_MASK, TGT_MASK), states)


def test_a_source_shorter_or_longer_than_the_target_makes_no_difference_in_shape():
    """States have the target's length whatever the source's, down to a single token of each."""
    model = small_model()
    for s, t in [(1, 1), (1, 5), (6, 1)]:
        src, tgt = torch.ones(2, s, dtype=torch.long), torch.ones(2, t, dtype=torch.long)
        assert model(src, tgt, None, subsequent_mask(t)).shape == (2, t, D_MODEL)


def test_both_embeddings_are_a_table_and_positions():
    """`src_embed` and `tgt_embed` are nn.Sequential(Embeddings, PositionalEncoding) of their vocabularies."""
    model = small_model()
    for embed, vocab in ((model.src_embed, SRC_VOCAB), (model.tgt_embed, TGT_VOCAB)):
        assert isinstance(embed, nn.Sequential)
        assert isinstance(embed[0], Embeddings)
        assert embed[0].lut.weight.shape == (vocab, D_MODEL)
        assert embed[1].pe.shape == (1, 5000, D_MODEL)
