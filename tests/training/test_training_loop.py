"""The trainer: its gradients and rates are the paper's, and a run that stops can always go on."""

import csv
import errno
import math
import os
import signal
import time
from pathlib import Path

import pytest
import torch

import implementation
from tests.training.conftest import QUIET, small
from training import checkpoints
from training.checkpoints import previous, read_state, read_weights
from training.data.batches import Rows
from training.errors import Refused
from training.loop import checkpointer
from training.loop.checkpointer import Unsaved
from training.loop.monitor import COLUMNS, Monitor, read_metrics
from training.loop.run_folder import Run
from training.loop.training_loop import Diverged, Interrupted, Trainer, Window


def monitored(one):
    monitor = Monitor(one.run, one.settings.steps, one.progress.step, QUIET)
    with monitor.showing():
        one.train(monitor)
    return one


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def double():
    """Float64, in which rounding does not hide a mistake."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- A step ---------------------------------------------------------------------------------------


def test_a_step_is_that_of_the_paper_s_adam(trainer, double):
    one = trainer(small(dropout=0.0))
    before = {name: p.detach().clone() for name, p in one.objective.parameters.items()}
    rows = one.task.batch(0)
    one.step([rows], Window())
    batch = implementation.Batch(rows.source, rows.target)
    model = implementation.make_model(11, 11, n=1, d_model=16, d_ff=32, h=2, dropout=0.0)
    model.load_state_dict(before, strict=False)
    adam = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    for group in adam.param_groups:
        group["lr"] = implementation.rate(1, 16, 1.0, 5)
    implementation.run_epoch([batch], model, implementation.LabelSmoothing(11, 0, 0.1), adam)
    for name, parameter in model.named_parameters():
        if "w_k.bias" not in name:  # its gradient is 0, and its step is noise
            torch.testing.assert_close(
                one.objective.parameters[name], parameter, rtol=1e-9, atol=1e-11
            )


def test_batches_accumulated_are_one_large_batch(trainer, double):
    settings = small(dropout=0.0)
    one, other = trainer(settings), trainer(settings)
    parts = [one.task.batch(n) for n in range(3)]
    parts[1] = Rows(parts[1].source[:3], parts[1].target[:3])  # of different sizes
    together = Rows(
        *(torch.cat([getattr(p, side) for p in parts]) for side in ("source", "target"))
    )
    one.step(parts, Window())
    other.step([together], Window())
    for name in one.objective.parameters:
        if "w_k.bias" not in name:
            torch.testing.assert_close(
                one.objective.parameters[name],
                other.objective.parameters[name],
                rtol=1e-9,
                atol=1e-11,
            )


def test_the_gradient_is_cut_to_the_length_that_is_allowed(trainer):
    one = trainer(small(clip=1e-3, factor=0.0))
    lengths = []
    [adam] = one.optimizer.optimizers
    step = adam.step
    adam.step = lambda: (
        lengths.append(
            torch.nn.utils.get_total_norm([p.grad for p in one.objective.parameters.values()])
        )
        or step()
    )
    window = Window()
    one.step([one.task.batch(0)], window)
    assert float(lengths[0]) == pytest.approx(1e-3, rel=1e-3)
    assert float(window.norms[0]) > 0.1  # what is reported is what it was


def test_the_rate_is_the_paper_s_and_falls_to_zero_if_asked_to(trainer):
    one = trainer(small(steps=100, warmup=10))
    assert [one.optimizer.rate(n) for n in (1, 10, 100)] == [
        implementation.rate(n, 16, 1.0, 10) for n in (1, 10, 100)
    ]
    cooled = trainer(small(steps=100, warmup=10, cooldown=0.2))
    assert cooled.optimizer.rate(80) == one.optimizer.rate(80)
    assert cooled.optimizer.rate(81) == one.optimizer.rate(81)
    assert cooled.optimizer.rate(91) == pytest.approx(one.optimizer.rate(91) / 2)
    assert cooled.optimizer.rate(100) == pytest.approx(one.optimizer.rate(100) / 20)


def test_the_running_mean_is_what_is_measured_and_kept(trainer):
    one = trainer(small(ema=0.5, steps=3, validate_every=3, save_every=3))
    seen, step = [], one.step
    start = {name: p.detach().clone() for name, p in one.objective.parameters.items()}

    def watched(group, window):
        step(group, window)
        seen.append({name: p.detach().clone() for name, p in one.objective.parameters.items()})

    one.step = watched
    one.train(None)
    for name, first in start.items():
        mean = first
        for weights in seen:
            mean = 0.5 * mean + 0.5 * weights[name]
        torch.testing.assert_close(one.optimizer.ema[name], mean)
        torch.testing.assert_close(read_weights(one.run.best)[name], mean)
        assert torch.equal(
            one.objective.parameters[name], seen[-1][name]
        )  # put back after measuring


def test_the_mean_of_the_last_checkpoints_is_the_end(trainer):
    one = trainer(small(average_last=2, steps=12, save_every=4))
    kept, save = {}, one.checkpointer.save

    def saved(progress, monitor):
        save(progress, monitor)
        kept[one.progress.step] = {
            n: p.detach().clone() for n, p in one.objective.parameters.items()
        }

    one.checkpointer.save = saved
    one.train(None)
    assert sorted(kept) == [4, 8, 12]
    last = read_weights(one.run.last)
    for name in last:
        torch.testing.assert_close(last[name], (kept[8][name] + kept[12][name]) / 2)
    assert sorted(path.name for path in one.run.folder.glob("step-*")) == [
        "step-00000008.safetensors",
        "step-00000012.safetensors",
    ]


def test_a_snapshot_that_a_full_disk_has_lost_is_not_part_of_the_mean(trainer, monkeypatch):
    """The run ends with the mean of those that were kept, and so does one that goes on."""
    settings = small(average_last=3, steps=12, save_every=4)
    one = trainer(settings)
    write = checkpointer.write_weights

    def sometimes(path, weights):
        if path == one.run.snapshot(8):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, weights)

    monkeypatch.setattr(checkpointer, "write_weights", sometimes)
    said = []
    monkeypatch.setattr(Monitor, "say", lambda self, words: said.append(words))
    monitored(one)
    [words] = said
    assert "step 8 are left out of the average" in words and "No space left on device" in words
    kept = [read_weights(one.run.snapshot(step)) for step in (4, 12)]
    last = read_weights(one.run.last)
    for name in last:
        torch.testing.assert_close(last[name], (kept[0][name] + kept[1][name]) / 2)
    assert trainer(settings, one.run.folder).progress.snapshots == (4, 12)


def test_a_snapshot_that_is_gone_does_not_end_a_resumed_run(trainer):
    settings = small(average_last=3, steps=12, save_every=4)
    one = trainer(settings)
    one.train(None)
    one.run.snapshot(8).unlink()
    again = trainer(settings, one.run.folder)
    assert again.progress.snapshots == (4, 12)
    assert again.checkpointer.notes == [
        "step-00000008.safetensors is missing, and is left out of the average"
    ]
    again.train(None)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_too(trainer, precision):
    one = trainer(small(precision=precision, steps=40, warmup=10, dropout=0.0, validate_every=40))
    first = one.validate()
    one.train(None)
    assert one.progress.best < first - 0.1
    assert all(p.dtype == torch.float32 for p in one.objective.parameters.values())


def test_losses_are_reported_unsmoothed(trainer):
    one = trainer(
        small(dropout=0.0, factor=0.0, smoothing=0.5, steps=10, validate_every=10, save_every=10)
    )
    monitored(one)
    row = read_metrics(one.run)[-1]
    expected = sum(
        float(
            implementation.run_epoch(
                [implementation.Batch(rows.source, rows.target)],
                one.objective._objective.model,
                implementation.LabelSmoothing(11, 0, 0.0),
            )
        )
        for rows in map(one.task.batch, range(10))
    )
    assert row["loss"] == pytest.approx(expected / 10, rel=1e-5)
    assert row["perplexity"] == pytest.approx(math.exp(row["loss"]), rel=1e-5)
    assert row["validation_perplexity"] == pytest.approx(math.exp(row["validation_loss"]), rel=1e-5)


def test_validation_may_be_a_part_spread_evenly(trainer):
    one = trainer(small(validate_tokens=2500))
    some = one._validation()
    whole = one.task.held_out("validation")
    assert len(whole) == 2 and len(some) == 1
    assert trainer(small())._validation()[1].tokens == whole[1].tokens


def test_it_stops_when_nothing_gets_better(trainer):
    one = trainer(small(factor=0.0, validate_every=2, patience=3, steps=1000))
    one.train(None)
    assert one.progress.step == 8  # the first is the best, three follow


# --- Checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ema": 0.9, "accumulate": 2, "clip": 1.0},
        {"average_last": 3},
        {"precision": "fp16"},
        {"norm": "pre", "tie": True},
        {"task": "text", "model": "gpt", "optimizer": "muon", "weight_decay": 0.1},
        {"task": "text", "model": "llama", "kv_heads": 1, "dropout": 0.0},
    ],
)
def test_a_run_that_goes_on_ends_as_one_that_never_stopped(trainer, changes, poem):
    data = str(poem) if "model" in changes else ""
    settings = small(**{"steps": 11, "data": data} | changes)
    whole = monitored(trainer(settings))
    one = trainer(settings)
    folder = one.run.folder
    while not one.finished:  # stopped after every single step
        one.stop.asked = True
        try:
            monitored(one)
        except Interrupted:
            one = trainer(settings, folder)
    ends = [Run(folder), whole.run]
    for name in ("last", "best"):
        assert same(*(read_weights(getattr(run, name)) for run in ends))
    states = [read_state(run.state) for run in ends]
    assert same(states[0].tensors, states[1].tensors)
    if "average_last" not in changes:
        rows = [
            [r["validation_loss"] for r in read_metrics(run) if r["validation_loss"]]
            for run in ends
        ]
        assert rows[0] == rows[1] and len(rows[0]) == 3


def test_a_parameter_without_a_gradient_is_no_obstacle_to_going_on(trainer, monkeypatch):
    """A learner's part may have a parameter that nothing uses: Adam has no moments of it."""
    build = Trainer.build

    def with_one_more(self):
        model = build(self)
        model.unused = torch.nn.Parameter(torch.ones(3))
        return model

    monkeypatch.setattr(Trainer, "build", with_one_more)
    settings = small(steps=8)
    one = trainer(settings)
    one.stop.asked = True
    with pytest.raises(Interrupted):
        one.train(None)
    again = trainer(settings, one.run.folder)
    assert again.progress.step == 1
    again.train(None)
    whole = trainer(settings)
    whole.train(None)
    assert same(*(read_state(run.state).tensors for run in (again.run, whole.run)))


def test_what_a_killed_run_wrote_after_its_checkpoint_is_gone(trainer):
    settings = small(steps=20, save_every=10, validate_every=3)
    one = trainer(settings)
    save = one.checkpointer.save

    def killed(progress, monitor):
        if progress.step == 20:
            raise KeyboardInterrupt
        save(progress, monitor)

    one.checkpointer.save = killed
    with pytest.raises(KeyboardInterrupt):
        monitored(one)
    assert [row["step"] for row in read_metrics(one.run)][-1] == 20
    again = trainer(settings, one.run.folder)
    assert again.progress.step == 10
    monitored(again)
    steps = [row["step"] for row in read_metrics(one.run)]
    assert steps == sorted(set(steps)) and steps[-1] == 20


def test_a_row_that_a_kill_has_cut_is_no_row_though_its_half_numbers_are_numbers(trainer):
    one = trainer(small(steps=4, validate_every=2))
    monitored(one)
    whole = read_metrics(one.run)
    written = one.run.metrics.read_bytes()
    last = written.splitlines(keepends=True)[-1]
    for cut in range(len("\r\n"), len(last)):
        one.run.metrics.write_bytes(written[:-cut])
        assert read_metrics(one.run) == whole[:-1]


def test_ctrl_c_ends_the_step_and_saves(trainer):
    before = signal.getsignal(signal.SIGINT)
    one = trainer(small(steps=1000))
    step = one.step

    def pressed(group, window):
        step(group, window)
        if one.progress.step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    one.step = pressed
    with pytest.raises(Interrupted, match="after step 7, which is saved"):
        one.train(None)
    assert read_state(one.run.state).facts["progress"]["step"] == 7
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait(trainer):
    one = trainer(small(steps=1000))

    def pressed(group, window):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    one.step = pressed
    with pytest.raises(KeyboardInterrupt):
        one.train(None)


@pytest.mark.parametrize("damage", ["truncated", "changed", "gone"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(trainer, damage):
    settings = small(steps=12)
    one = monitored(trainer(settings))
    end = read_weights(one.run.last)
    body = one.run.state.read_bytes()
    if damage == "gone":
        one.run.state.unlink()
    else:
        one.run.state.write_bytes(body[:-5] if damage == "truncated" else body[:-1] + b"\0\1")
    again = trainer(settings, one.run.folder)
    assert again.progress.step == 8
    assert (damage == "gone") == (not again.checkpointer.notes)
    assert damage == "gone" or "last.state is damaged" in again.checkpointer.notes[0]
    monitored(again)
    assert same(read_weights(one.run.last), end)


def test_two_damaged_checkpoints_are_refused(trainer):
    settings = small(steps=12)
    one = monitored(trainer(settings))
    for path in (one.run.state, previous(one.run.state)):
        path.write_bytes(b"")
    with pytest.raises(Refused, match="no readable checkpoint"):
        trainer(settings, one.run.folder)


def test_other_data_than_it_was_begun_with_are_refused(trainer, poem):
    settings = small("text", data=str(poem), context=16)
    one = monitored(trainer(settings))
    poem.write_text(poem.read_text().replace("green", "brown"))
    with pytest.raises(Refused, match="begun with different data"):
        trainer(settings, one.run.folder)


def test_a_full_disk_is_told_and_the_run_goes_on(trainer, monkeypatch, capsys):
    one = trainer(small(steps=12))
    write, full = checkpointer.write_state, [4, 8]

    def sometimes(path, state):
        if one.progress.step in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, state)

    monkeypatch.setattr(checkpointer, "write_state", sometimes)
    said = []
    monkeypatch.setattr(Monitor, "say", lambda self, words: said.append(words))
    monitored(one)
    assert [words.split(":")[0] for words in said] == [
        "Step 4 could not be saved",
        "Step 8 could not be saved",
        "Step 12 is saved",
    ]
    assert "No space left on device" in said[0]
    assert read_state(one.run.state).facts["progress"]["step"] == 12


def test_metrics_that_cannot_be_written_do_not_end_a_run(trainer, monkeypatch):
    one = trainer(small(steps=12))
    monitor, said = Monitor(one.run, 12, 0, QUIET), []
    monkeypatch.setattr(monitor, "say", said.append)
    monitor._file.close()
    monitor._file = Path("/dev/full").open("w")  # noqa: SIM115 - the monitor closes it
    monitor._csv = csv.DictWriter(monitor._file, COLUMNS)
    with monitor.showing():
        one.train(monitor)
    assert said == ["The metrics of step 4 could not be written: No space left on device"]
    assert read_state(one.run.state).facts["progress"]["step"] == 12


def test_a_disk_that_stays_full_is_an_error_at_the_end(trainer, monkeypatch):
    one = trainer(small(steps=12))
    write = checkpoints.write_state

    def never(path, state):
        if one.progress.step > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, state)

    monkeypatch.setattr(checkpointer, "write_state", never)
    with pytest.raises(Unsaved, match="cannot be written: No space left"):
        one.train(None)
    assert read_state(one.run.state).facts["progress"]["step"] == 4


def test_a_disk_that_was_always_full_has_no_last_checkpoint(trainer, monkeypatch):
    def never(path, state):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    one = trainer(small(steps=12))
    monkeypatch.setattr(checkpointer, "write_state", never)
    said = []
    monkeypatch.setattr(Monitor, "say", lambda self, words: said.append(words))
    with pytest.raises(Unsaved, match="There is no checkpoint"):
        monitored(one)
    assert "The run continues" in said[0] and "last checkpoint" not in said[0]


# --- When it goes wrong ---------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_and_names_the_step(trainer):
    one = trainer(small(steps=12))
    step = one.step

    def poisoned(group, window):
        if one.progress.step == 5:
            with torch.no_grad():
                next(iter(one.objective.parameters.values())).fill_(math.nan)
        step(group, window)

    one.step = poisoned
    with pytest.raises(Diverged, match="In step 6 the loss is nan"):
        one.train(None)
    found = read_state(one.run.state)
    assert found.facts["progress"]["step"] == 4
    assert all(torch.isfinite(tensor).all() for tensor in found.tensors.values())


def test_a_gradient_that_is_no_number_never_reaches_a_checkpoint(trainer):
    one = trainer(small(steps=12))
    clip = one.optimizer._clip

    def poisoned():
        if one.progress.step == 7:
            next(iter(one.objective.parameters.values())).grad.fill_(math.inf)
        return clip()

    one.optimizer._clip = poisoned
    with pytest.raises(Diverged, match="In step 8 the gradient's norm is inf"):
        one.train(None)
    assert read_state(one.run.state).facts["progress"]["step"] == 4


def test_weight_decay_is_for_matrices(trainer):
    """Without a gradient the decay is all that moves a parameter: biases and norms stay."""
    one = trainer(small(weight_decay=0.5, factor=0.1))
    before = {name: p.detach().clone() for name, p in one.optimizer.parameters.items()}
    for parameter in one.optimizer.parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    one.optimizer.step(1)
    for name, parameter in one.optimizer.parameters.items():
        kept = 1 - 0.5 * one.optimizer.rate(1) if parameter.ndim > 1 else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * kept)


@pytest.mark.parametrize("changes", [{}, {"task": "text", "model": "gpt"}])
def test_muon_is_for_the_matrices_of_layers(trainer, poem, changes):
    """AdamW trains embeddings, output layers, biases and norms. Without Muon it trains all."""
    settings = small(**{"optimizer": "muon", "data": str(poem) if changes else ""} | changes)
    one = trainer(settings).optimizer
    adam, muon = one.optimizers
    numbers = [sum(len(group["params"]) for group in o.param_groups) for o in (adam, muon)]
    assert sum(numbers) == len(one.parameters) and numbers[1] == len(one.hidden) > 0
    for name, parameter in one.parameters.items():
        in_a_layer = "layers" in name or "blocks" in name
        assert (name in one.hidden) == (in_a_layer and parameter.ndim == 2), name
        assert (name in one.hidden) <= any(part in name for part in ("w_", "self_attn", "src_attn"))


def test_muon_wants_entire_matrices():
    for other in ({"shard": True}, {"lora": 8, "pretrained": "smollm2-135m"}):
        with pytest.raises(Refused, match="optimizer=muon needs entire matrices"):
            small("text", optimizer="muon", **other)


# --- What is kept of it ---------------------------------------------------------------------------


def test_metrics_are_a_table_with_every_column(trainer):
    one = monitored(trainer(small(steps=20, validate_every=7)))
    with one.run.metrics.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [4, 7, 8, 10, 12, 14, 16, 20]
    assert [bool(row["validation_loss"]) for row in rows] == [
        False,
        True,
        False,
        False,
        False,
        True,
        False,
        True,
    ]
    assert float(rows[-1]["learning_rate"]) == pytest.approx(one.optimizer.rate(20))
    assert all(
        float(row["tokens_per_second"]) > 0 and float(row["gradient_norm"]) > 0 for row in rows
    )
    assert all(row["mfu"] == "" and row["memory_bytes"] == "" for row in rows)


def test_a_step_shorter_than_a_coarse_tick_has_a_rate(trainer, monkeypatch):
    """Before Python 3.13 `time.monotonic` moves every 16 ms on Windows, and small models are faster."""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    rows = read_metrics(monitored(trainer(small(steps=2))).run)
    assert all(float(row["tokens_per_second"]) > 0 for row in rows)


def test_tensorboard_has_the_same(trainer):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    one = monitored(trainer(small(steps=20, validate_every=10)))
    events = EventAccumulator(str(one.run.folder))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("loss")}
    rows = {int(row["step"]): row["loss"] for row in read_metrics(one.run)}
    assert found.keys() == rows.keys()
    assert all(found[step] == pytest.approx(rows[step], rel=1e-6) for step in rows)


def test_a_folder_holds_all_that_using_the_model_needs(trainer):
    one = monitored(trainer(small(steps=12)))
    names = {path.name for path in one.run.folder.iterdir() if "tfevents" not in path.name}
    assert names == {
        "config.yaml",
        "vocabulary.json",
        "best.safetensors",
        "last.safetensors",
        "last.state",
        "previous.state",
        "metrics.csv",
    }
    assert one.run.settings() == one.settings
