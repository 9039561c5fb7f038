"""`Batch`, `LabelSmoothing`, `rate` and `run_epoch` against hand-made examples, closed formulas, torch's
losses, and a training loop written out.
"""

import copy
import math
import weakref

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from implementation import (
    Batch,
    LabelSmoothing,
    greedy_decode,
    make_model,
    rate,
    run_epoch,
    subsequent_mask,
)
from tests.reference.oracles import assert_agree

# --- Day 15 · Batch ------------------------------------------------------------------------------


def test_a_batch_by_hand():
    """Two sentences: the target shifted against itself, its mask a triangle without the padding."""
    src = torch.tensor([[5, 6, 7], [8, 0, 0]])
    tgt = torch.tensor([[1, 4, 5, 2], [1, 3, 2, 0]])
    batch = Batch(src, tgt)
    assert batch.src is src
    assert batch.src_mask.tolist() == [[[True, True, True]], [[True, False, False]]]
    assert batch.tgt.tolist() == [[1, 4, 5], [1, 3, 2]]
    assert batch.tgt_y.tolist() == [[4, 5, 2], [3, 2, 0]]
    triangle = [[True, False, False], [True, True, False], [True, True, True]]
    assert batch.tgt_mask.tolist() == [triangle, triangle]
    assert batch.ntokens == 5
    assert (batch.src_mask.dtype, batch.tgt_mask.dtype) == (torch.bool, torch.bool)


@pytest.mark.parametrize("pad", [0, 1, 7, -1])
def test_a_batch_is_a_loop(pad):
    """For any padding id each mask is what a loop over rows, queries and keys says."""
    src = torch.tensor([[5, pad, 7], [pad, pad, pad]])
    tgt = torch.tensor([[3, 4, pad, 2], [pad, 3, 2, pad]])
    batch, time = Batch(src, tgt, pad), range(3)
    assert batch.src_mask.tolist() == [[[token != pad for token in row]] for row in src.tolist()]
    assert batch.tgt_mask.tolist() == [
        [[row[k] != pad and k <= q for k in time] for q in time] for row in tgt.tolist()
    ]
    assert batch.ntokens == sum(token != pad for row in tgt.tolist() for token in row[1:])


def test_a_batch_to_read_only():
    """Without a target its four attributes are None."""
    batch = Batch(torch.tensor([[5, 0]]))
    assert batch.src_mask.tolist() == [[[True, False]]]
    assert [batch.tgt, batch.tgt_y, batch.tgt_mask, batch.ntokens] == [None] * 4


# --- Day 16 · Label smoothing --------------------------------------------------------------------

SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6, 1.0])
PADDINGS = pytest.mark.parametrize("padding_idx", [0, 3, 5])
ROWS, SIZE = 9, 6


def draw_logits(dtype=torch.float64):
    """Logits and targets, among them every class, so the padding too."""
    targets = torch.cat([torch.arange(SIZE), torch.randint(SIZE, (ROWS - SIZE,))])
    return 2 * torch.randn(ROWS, SIZE, dtype=dtype), targets


def wanted(targets, padding_idx, smoothing):
    """The smoothed targets of the rows that count, as a loop over the classes."""
    share = smoothing / (SIZE - 2)
    rows = [
        [0.0 if c == padding_idx else 1 - smoothing if c == target else share for c in range(SIZE)]
        for target in targets.tolist()
        if target != padding_idx
    ]
    return torch.tensor(rows, dtype=torch.float64)


@SMOOTHINGS
@PADDINGS
def test_label_smoothing_is_the_closed_form(padding_idx, smoothing):
    """The sum of q · (log q − log p) in plain Python, and softmax − q as the gradient of the logits."""
    logits, targets = draw_logits()
    logits.requires_grad_()
    loss = LabelSmoothing(SIZE, padding_idx, smoothing)(logits.log_softmax(-1), targets)
    q, real = wanted(targets, padding_idx, smoothing), targets != padding_idx
    log_p = logits.detach().log_softmax(-1)[real]
    divergence = sum(
        share * (math.log(share) - other)
        for share, other in zip(q.flatten().tolist(), log_p.flatten().tolist(), strict=True)
        if share > 0
    )
    assert loss.dim() == 0
    assert loss.item() == pytest.approx(divergence, rel=1e-10, abs=1e-10)
    loss.backward()
    expected = torch.zeros_like(logits)
    expected[real] = log_p.exp() - q
    assert_agree(logits.grad, expected)


@PADDINGS
def test_without_smoothing_it_is_torchs_negative_log_likelihood(padding_idx):
    """Smoothing 0 is nll_loss, summed, padding ignored; and it is the default."""
    logits, targets = draw_logits()
    log_probs = logits.log_softmax(-1)
    expected = F.nll_loss(log_probs, targets, ignore_index=padding_idx, reduction="sum")
    assert_agree(LabelSmoothing(SIZE, padding_idx)(log_probs, targets), expected)


@PADDINGS
@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_how_torchs_label_smoothing_differs(padding_idx, smoothing):
    """Torch's ε goes to all V classes, target and padding included: q = 1 − ε + ε/V there, ε/V elsewhere.

    Ours goes to V − 2. With ε = s · V / (V − 2) torch gives every wrong class our share s / (V − 2),
    and the target 1 − s − s / (V − 2): exactly what it gives the padding is what the target lacks. So

        ours = torch's + s / (V − 2) · Σ (log p_padding − log p_target) − rows · H(q)

    where H is the entropy that tells a divergence from a cross-entropy.
    """
    logits, targets = draw_logits()
    log_probs, real = logits.log_softmax(-1), targets != padding_idx
    share = smoothing / (SIZE - 2)
    theirs = F.cross_entropy(
        logits,
        targets,
        ignore_index=padding_idx,
        reduction="sum",
        label_smoothing=share * SIZE,
    )
    of_target = log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)
    moved = share * (log_probs[:, padding_idx] - of_target)[real].sum()
    entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(share)
    ours = LabelSmoothing(SIZE, padding_idx, smoothing)(log_probs, targets)
    assert_agree(ours, theirs + moved - int(real.sum()) * entropy)


def test_the_divergence_is_least_where_it_is_met():
    """A model that says exactly the smoothed targets has loss 0; overconfidence costs."""
    loss, targets = LabelSmoothing(SIZE, 0, 0.4), torch.tensor([2])
    q = wanted(targets, 0, 0.4)
    assert loss(q.log().clamp(min=-1e4), targets).item() == pytest.approx(0, abs=1e-12)
    certain = torch.log_softmax(torch.tensor([[0, 0, 50.0, 0, 0, 0]]), -1)
    assert loss(certain, targets) > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_label_smoothing_in_other_dtypes(dtype):
    """The sum is made in float32 at least, so only the last rounding shows, half an eps; inputs stay."""
    logits, targets = draw_logits(dtype)
    log_probs = logits.log_softmax(-1)
    before = log_probs.clone()
    loss = LabelSmoothing(SIZE, 0, 0.1)(log_probs, targets)
    truth = LabelSmoothing(SIZE, 0, 0.1)(log_probs.double(), targets).item()
    assert loss.dtype == dtype
    u_sum = 2 * ROWS * SIZE * torch.finfo(torch.float32).eps
    assert loss.item() == pytest.approx(truth, rel=torch.finfo(dtype).eps / 2 + u_sum)
    assert torch.equal(log_probs, before)


def test_shares_of_a_large_vocabulary_do_not_vanish_in_halves():
    """With 37000 classes a share, 2.7e-6, is below float16's normal numbers: the loss is float64's anyway."""
    logits, targets = 4 * torch.randn(2, 37000), torch.tensor([5, 20000])
    log_probs = logits.log_softmax(-1).half()
    expected = F.kl_div(
        log_probs.double()[:, 1:],
        torch.full((2, 36999), 0.1 / 36998, dtype=torch.float64).scatter_(
            1, targets.unsqueeze(1) - 1, 0.9
        ),
        reduction="sum",
    )
    loss = LabelSmoothing(37000, 0, 0.1)(log_probs, targets)
    assert loss.item() == pytest.approx(expected.item(), rel=torch.finfo(torch.float16).eps)


# --- Day 17 · Learning rate ----------------------------------------------------------------------


def test_the_papers_learning_rate():
    """The base model's rate peaks at step 4000 with 6.99e-4, and is 1.75e-7 at step 1."""
    assert rate(4000, 512, 1, 4000) == pytest.approx(6.99e-4, rel=1e-3)
    assert rate(4000, 512, 1, 4000) == pytest.approx((512 * 4000) ** -0.5)
    assert rate(1, 512, 1, 4000) == pytest.approx(1.747e-7, rel=1e-3)
    assert rate(100_000, 512, 1, 4000) == pytest.approx(1.398e-4, rel=1e-3)
    rates = [rate(step, 512, 1, 4000) for step in range(1, 12_000)]
    assert max(rates) == rates[3999]


@settings(database=None, deadline=None, derandomize=True)
@given(step=st.integers(1, 10**6), warmup=st.integers(1, 10**5), size=st.integers(1, 4096))
def test_the_shape_of_the_learning_rate(step, warmup, size):
    """A straight line to the warm-up, then like 1/√step; factor and 1/√d_model scale the whole."""
    peak = (size * warmup) ** -0.5
    expected = peak * step / warmup if step <= warmup else peak * math.sqrt(warmup / step)
    assert rate(step, size, 1, warmup) == pytest.approx(expected, rel=1e-12)
    assert rate(step, size, 2.5, warmup) == pytest.approx(2.5 * expected, rel=1e-12)


def test_steps_are_counted_from_one():
    """Step 0, which schedulers ask for, is taken as step 1."""
    assert rate(0, 512, 1, 4000) == rate(1, 512, 1, 4000) > 0


def test_the_rate_in_a_scheduler():
    """With LambdaLR, which counts from 0, `rate(step + 1, …)` gives the k-th optimizer step rate(k)."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step + 1, 16, 1, 3))
    seen = []
    for _ in range(6):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert seen == [rate(step, 16, 1, 3) for step in range(1, 7)]


# --- Day 18 · Training loop ----------------------------------------------------------------------

VOCAB, LENGTHS = 9, [(4, 5), (6, 3), (2, 7), (5, 4), (3, 2)]


def tiny_model(dropout=0.0):
    return make_model(VOCAB, VOCAB, 1, 8, 16, 2, dropout)


def draw_batches(lengths=LENGTHS):
    """A batch of two sequences for each pair of lengths, the second sequence shorter: uneven tokens."""
    batches = []
    for s, t in lengths:
        src, tgt = torch.randint(1, VOCAB, (2, s)), torch.randint(1, VOCAB, (2, t))
        src[1, s // 2 :] = tgt[1, t // 2 + 1 :] = 0
        batches.append(Batch(src, tgt))
    return batches


def together(batches):
    """One batch of all their sequences, filled up to the longest."""

    def filled(tensors):
        rows = [row for tensor in tensors for row in tensor]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    whole = [torch.cat([batch.tgt, batch.tgt_y[:, -1:]], dim=1) for batch in batches]
    return Batch(filled(batch.src for batch in batches), filled(whole))


def summed_loss(model, batch):
    """The summed cross-entropy of a batch, as torch has it."""
    states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    logits = model.generator.proj(states).flatten(0, 1)
    return F.cross_entropy(logits, batch.tgt_y.flatten(), ignore_index=0, reduction="sum")


def criterion():
    return LabelSmoothing(VOCAB, 0, 0.0)


def assert_same_parameters(model, other):
    assert_agree(dict(model.named_parameters()), dict(other.named_parameters()))


@pytest.mark.parametrize("accumulate", [1, 2, 3, 5, 8])
def test_training_is_a_loop_written_out(accumulate, float64):
    """Groups of `accumulate` batches, the last one perhaps smaller, a step of their mean loss for each."""
    model, batches = tiny_model(), draw_batches()
    by_hand, total, tokens = copy.deepcopy(model), 0.0, 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    mean = run_epoch(iter(batches), model, criterion(), optimizer, accumulate=accumulate)
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        loss = sum(summed_loss(by_hand, batch) for batch in group)
        count = sum(int((batch.tgt_y != 0).sum()) for batch in group)
        gradients = torch.autograd.grad(loss / count, list(by_hand.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(by_hand.parameters(), gradients, strict=True):
                parameter -= 0.5 * gradient
        total, tokens = total + loss.item(), tokens + count
    assert_same_parameters(model, by_hand)
    assert isinstance(mean, float)
    assert mean == pytest.approx(total / tokens, rel=1e-10)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_accumulating_is_one_big_batch(optimizer, float64):
    """Five batches accumulated make the step that one batch of all their sequences makes."""
    model, batches = tiny_model(), draw_batches()
    # The key's bias has a gradient of 0 but for rounding, of which Adam would make whole steps.
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.endswith("w_k.bias"))
    other = copy.deepcopy(model)
    results = [
        run_epoch(data, some, criterion(), optimizer(some.parameters(), lr=0.1), accumulate=k)
        for data, some, k in ((batches, model, 5), ([together(batches)], other, 1))
    ]
    assert_same_parameters(model, other)
    assert results[0] == pytest.approx(results[1], rel=1e-10)


def test_gradients_from_before_have_no_part(float64):
    """What is in `.grad` when the epoch begins changes nothing."""
    model, batches = tiny_model(), draw_batches()
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.grad = torch.full_like(parameter, 1e3)
    for some in (model, other):
        run_epoch(batches, some, criterion(), torch.optim.SGD(some.parameters(), lr=0.1), None, 2)
    assert_same_parameters(model, other)


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 5), (2, 3), (5, 1), (9, 1)])
def test_the_schedule_counts_optimizer_steps(accumulate, steps):
    """The scheduler steps once after each step of the optimizer, the last partial group's as well."""
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    used = []
    optimizer.register_step_pre_hook(lambda *_: used.append(optimizer.param_groups[0]["lr"]))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step + 1, 16, 1, 3))
    run_epoch(draw_batches(), model, criterion(), optimizer, scheduler, accumulate)
    assert used == [rate(step, 16, 1, 3) for step in range(1, steps + 1)]
    assert scheduler.last_epoch == steps


def test_without_an_optimizer_it_only_measures(float64):
    """Evaluation mode, no gradient, no change: the mean is that over tokens, not that of batches' means."""
    model, batches = tiny_model(dropout=0.5), draw_batches()
    before, seen = copy.deepcopy(model.state_dict()), []

    def loss(log_probs, targets):
        seen.append((model.training, log_probs.requires_grad))
        return criterion()(log_probs, targets)

    mean = run_epoch(batches, model, loss)
    assert seen == [(False, False)] * len(batches)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert_agree(model.state_dict(), before)
    losses = [summed_loss(model, batch).item() for batch in batches]
    counts = [int(batch.ntokens) for batch in batches]
    assert mean == pytest.approx(sum(losses) / sum(counts), rel=1e-10)
    of_means = sum(loss / count for loss, count in zip(losses, counts, strict=True)) / len(batches)
    assert mean != pytest.approx(of_means, rel=1e-3)


def test_with_an_optimizer_it_trains_in_training_mode():
    """A model that comes in evaluation mode is put into training mode, and gradients are on."""
    model, seen = tiny_model().eval(), []

    def loss(log_probs, targets):
        seen.append((model.training, log_probs.requires_grad))
        return criterion()(log_probs, targets)

    run_epoch(draw_batches(), model, loss, torch.optim.SGD(model.parameters(), lr=0.1))
    assert seen == [(True, True)] * len(LENGTHS)


def test_the_loss_is_given_flat_log_probabilities():
    """`loss` is called with log-probabilities (B·T, V), whose exponentials sum to 1, and targets (B·T,)."""
    (batch,) = batches = draw_batches([(3, 5)])

    def loss(log_probs, targets):
        assert log_probs.shape == (8, VOCAB)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(8))
        assert torch.equal(targets, batch.tgt_y.flatten())
        return -log_probs.sum()

    run_epoch(batches, tiny_model(), loss)


def test_batches_are_read_once_and_let_go():
    """A one-pass generator will do, and no more than a group of batches is alive at any time."""
    alive = weakref.WeakSet()
    most = 0

    def one_pass():
        nonlocal most
        for lengths in LENGTHS * 2:
            (batch,) = draw_batches([lengths])
            alive.add(batch)
            most = max(most, len(alive))
            yield batch
            del batch

    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run_epoch(one_pass(), model, criterion(), optimizer, accumulate=2)
    assert most <= 2 * 2  # a group, and the next one on its way


class Constant(nn.Module):
    """A model in bfloat16 that finds every token equally likely."""

    def forward(self, src, tgt, src_mask, tgt_mask):
        return torch.zeros(*tgt.shape, VOCAB, dtype=torch.bfloat16)

    def generator(self, states):
        return states.log_softmax(-1)


def test_a_long_epoch_in_bfloat16_keeps_its_sum():
    """The total over many batches is not kept in a half: the mean loss of a know-nothing is log V."""
    (batch,) = draw_batches([(2, 5)])
    mean = run_epoch([batch] * 2000, Constant(), criterion())
    assert mean == pytest.approx(math.log(VOCAB), rel=torch.finfo(torch.bfloat16).eps)


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


def test_the_mask_of_a_batch_is_what_the_model_wants(float64):
    """Padding a batch further changes neither its loss nor its gradient: `together` relies on it."""
    model, (batch,) = tiny_model(), draw_batches([(4, 5)])
    wider = Batch(
        F.pad(batch.src, (0, 3)), F.pad(torch.cat([batch.tgt, batch.tgt_y[:, -1:]], 1), (0, 2))
    )
    assert torch.equal(wider.tgt_mask[:, :4, :4], batch.tgt_mask)
    assert torch.equal(wider.tgt_mask[0, :4, :4], subsequent_mask(4)[0])
    losses = [summed_loss(model, some) for some in (batch, wider)]
    assert_agree(*losses)
    parameters = list(model.parameters())
    assert_agree(*(torch.autograd.grad(loss, parameters) for loss in losses))
