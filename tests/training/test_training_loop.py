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


def monitored(loop):
    monitor = Monitor(loop.run, loop.settings.steps, loop.progress.step, QUIET)
    with monitor.showing():
        loop.train(monitor)
    return loop


def same(first: dict, other: dict) -> bool:
    return first.keys() == other.keys() and all(
        torch.equal(first[name], other[name]) for name in first
    )


@pytest.fixture
def double():
    """Float64, in which rounding does not hide a mistake."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- A step ---------------------------------------------------------------------------------------


def test_a_step_is_that_of_the_paper_s_adam(trainer, double):
    loop = trainer(small(dropout=0.0))
    before = {name: p.detach().clone() for name, p in loop.objective.parameters.items()}
    rows = loop.task.batch(0)
    loop.step([rows], Window())
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
                loop.objective.parameters[name], parameter, rtol=1e-9, atol=1e-11
            )


def test_batches_accumulated_are_one_large_batch(trainer, double):
    settings = small(dropout=0.0)
    loop, other = trainer(settings), trainer(settings)
    parts = [loop.task.batch(n) for n in range(3)]
    parts[1] = Rows(parts[1].source[:3], parts[1].target[:3])  # of different sizes
    together = Rows(
        *(torch.cat([getattr(p, side) for p in parts]) for side in ("source", "target"))
    )
    loop.step(parts, Window())
    other.step([together], Window())
    for name in loop.objective.parameters:
        if "w_k.bias" not in name:
            torch.testing.assert_close(
                loop.objective.parameters[name],
                other.objective.parameters[name],
                rtol=1e-9,
                atol=1e-11,
            )


def test_the_gradient_is_cut_to_the_length_that_is_allowed(trainer):
    loop = trainer(small(clip=1e-3, factor=0.0))
    lengths = []
    [adam] = loop.optimizer.optimizers
    step = adam.step
    adam.step = lambda: (
        lengths.append(
            torch.nn.utils.get_total_norm([p.grad for p in loop.objective.parameters.values()])
        )
        or step()
    )
    window = Window()
    loop.step([loop.task.batch(0)], window)
    assert float(lengths[0]) == pytest.approx(1e-3, rel=1e-3)
    assert float(window.norms[0]) > 0.1  # what is reported is what it was


def test_the_rate_is_the_paper_s_and_falls_to_zero_if_asked_to(trainer):
    loop = trainer(small(steps=100, warmup=10))
    assert [loop.optimizer.rate(n) for n in (1, 10, 100)] == [
        implementation.rate(n, 16, 1.0, 10) for n in (1, 10, 100)
    ]
    cooled = trainer(small(steps=100, warmup=10, cooldown=0.2))
    assert cooled.optimizer.rate(80) == loop.optimizer.rate(80)
    assert cooled.optimizer.rate(81) == loop.optimizer.rate(81)
    assert cooled.optimizer.rate(91) == pytest.approx(loop.optimizer.rate(91) / 2)
    assert cooled.optimizer.rate(100) == pytest.approx(loop.optimizer.rate(100) / 20)


def test_the_running_mean_is_what_is_measured_and_kept(trainer):
    loop = trainer(small(ema=0.5, steps=3, validate_every=3, save_every=3))
    weights_seen, step = [], loop.step
    start = {name: p.detach().clone() for name, p in loop.objective.parameters.items()}

    def watched(group, window):
        step(group, window)
        weights_seen.append(
            {name: p.detach().clone() for name, p in loop.objective.parameters.items()}
        )

    loop.step = watched
    loop.train(None)
    for name, first in start.items():
        mean = first
        for weights in weights_seen:
            mean = 0.5 * mean + 0.5 * weights[name]
        torch.testing.assert_close(loop.optimizer.ema[name], mean)
        torch.testing.assert_close(read_weights(loop.run.best)[name], mean)
        assert torch.equal(
            loop.objective.parameters[name], weights_seen[-1][name]
        )  # put back after measuring


def test_the_mean_of_the_last_checkpoints_is_the_end(trainer):
    loop = trainer(small(average_last=2, steps=12, save_every=4))
    snapshots, save = {}, loop.checkpointer.save

    def saved(progress, monitor):
        save(progress, monitor)
        snapshots[loop.progress.step] = {
            n: p.detach().clone() for n, p in loop.objective.parameters.items()
        }

    loop.checkpointer.save = saved
    loop.train(None)
    assert sorted(snapshots) == [4, 8, 12]
    last = read_weights(loop.run.last)
    for name in last:
        torch.testing.assert_close(last[name], (snapshots[8][name] + snapshots[12][name]) / 2)
    assert sorted(path.name for path in loop.run.folder.glob("step-*")) == [
        "step-00000008.safetensors",
        "step-00000012.safetensors",
    ]


def test_a_snapshot_that_a_full_disk_has_lost_is_not_part_of_the_mean(trainer, monkeypatch):
    """The run ends with the mean of those that were kept, and so does one that goes on."""
    settings = small(average_last=3, steps=12, save_every=4)
    loop = trainer(settings)
    write = checkpointer.write_weights

    def sometimes(path, weights):
        if path == loop.run.snapshot(8):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, weights)

    monkeypatch.setattr(checkpointer, "write_weights", sometimes)
    messages = []
    monkeypatch.setattr(Monitor, "say", lambda self, words: messages.append(words))
    monitored(loop)
    [words] = messages
    assert "step 8 are left out of the average" in words and "No space left on device" in words
    snapshots = [read_weights(loop.run.snapshot(step)) for step in (4, 12)]
    last = read_weights(loop.run.last)
    for name in last:
        torch.testing.assert_close(last[name], (snapshots[0][name] + snapshots[1][name]) / 2)
    assert trainer(settings, loop.run.folder).progress.snapshots == (4, 12)


def test_a_snapshot_that_is_gone_does_not_end_a_resumed_run(trainer):
    settings = small(average_last=3, steps=12, save_every=4)
    loop = trainer(settings)
    loop.train(None)
    loop.run.snapshot(8).unlink()
    again = trainer(settings, loop.run.folder)
    assert again.progress.snapshots == (4, 12)
    assert again.checkpointer.notes == [
        "step-00000008.safetensors is missing, and is left out of the average"
    ]
    again.train(None)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_too(trainer, precision):
    loop = trainer(small(precision=precision, steps=40, warmup=10, dropout=0.0, validate_every=40))
    first = loop.validate()
    loop.train(None)
    assert loop.progress.best < first - 0.1
    assert all(p.dtype == torch.float32 for p in loop.objective.parameters.values())


def test_losses_are_reported_unsmoothed(trainer):
    loop = trainer(
        small(dropout=0.0, factor=0.0, smoothing=0.5, steps=10, validate_every=10, save_every=10)
    )
    monitored(loop)
    row = read_metrics(loop.run)[-1]
    expected = sum(
        float(
            implementation.run_epoch(
                [implementation.Batch(rows.source, rows.target)],
                loop.objective._objective.model,
                implementation.LabelSmoothing(11, 0, 0.0),
            )
        )
        for rows in map(loop.task.batch, range(10))
    )
    assert row["loss"] == pytest.approx(expected / 10, rel=1e-5)
    assert row["perplexity"] == pytest.approx(math.exp(row["loss"]), rel=1e-5)
    assert row["validation_perplexity"] == pytest.approx(math.exp(row["validation_loss"]), rel=1e-5)


def test_validation_may_be_a_part_spread_evenly(trainer):
    loop = trainer(small(validate_tokens=2500))
    some = loop._validation()
    full = loop.task.held_out("validation")
    assert len(full) == 2 and len(some) == 1
    assert trainer(small())._validation()[1].tokens == full[1].tokens


def test_it_stops_when_nothing_gets_better(trainer):
    loop = trainer(small(factor=0.0, validate_every=2, patience=3, steps=1000))
    loop.train(None)
    assert loop.progress.step == 8  # the first is the best, three follow


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
    full = monitored(trainer(settings))
    loop = trainer(settings)
    folder = loop.run.folder
    while not loop.finished:  # stopped after every single step
        loop.stop.signaled = True
        try:
            monitored(loop)
        except Interrupted:
            loop = trainer(settings, folder)
    ends = [Run(folder), full.run]
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
    loop = trainer(settings)
    loop.stop.signaled = True
    with pytest.raises(Interrupted):
        loop.train(None)
    again = trainer(settings, loop.run.folder)
    assert again.progress.step == 1
    again.train(None)
    full = trainer(settings)
    full.train(None)
    assert same(*(read_state(run.state).tensors for run in (again.run, full.run)))


def test_what_a_killed_run_wrote_after_its_checkpoint_is_gone(trainer):
    settings = small(steps=20, save_every=10, validate_every=3)
    loop = trainer(settings)
    save = loop.checkpointer.save

    def killed(progress, monitor):
        if progress.step == 20:
            raise KeyboardInterrupt
        save(progress, monitor)

    loop.checkpointer.save = killed
    with pytest.raises(KeyboardInterrupt):
        monitored(loop)
    assert [row["step"] for row in read_metrics(loop.run)][-1] == 20
    again = trainer(settings, loop.run.folder)
    assert again.progress.step == 10
    monitored(again)
    steps = [row["step"] for row in read_metrics(loop.run)]
    assert steps == sorted(set(steps)) and steps[-1] == 20


def test_a_row_that_a_kill_has_cut_is_no_row_though_its_half_numbers_are_numbers(trainer):
    loop = trainer(small(steps=4, validate_every=2))
    monitored(loop)
    rows = read_metrics(loop.run)
    body = loop.run.metrics.read_bytes()
    last = body.splitlines(keepends=True)[-1]
    for cut in range(len("\r\n"), len(last)):
        loop.run.metrics.write_bytes(body[:-cut])
        assert read_metrics(loop.run) == rows[:-1]


def test_ctrl_c_ends_the_step_and_saves(trainer):
    before = signal.getsignal(signal.SIGINT)
    loop = trainer(small(steps=1000))
    step = loop.step

    def pressed(group, window):
        step(group, window)
        if loop.progress.step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    loop.step = pressed
    with pytest.raises(Interrupted, match="after step 7, which is saved"):
        loop.train(None)
    assert read_state(loop.run.state).facts["progress"]["step"] == 7
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait(trainer):
    loop = trainer(small(steps=1000))

    def pressed(group, window):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    loop.step = pressed
    with pytest.raises(KeyboardInterrupt):
        loop.train(None)


@pytest.mark.parametrize("damage", ["truncated", "changed", "gone"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(trainer, damage):
    settings = small(steps=12)
    loop = monitored(trainer(settings))
    end = read_weights(loop.run.last)
    body = loop.run.state.read_bytes()
    if damage == "gone":
        loop.run.state.unlink()
    else:
        loop.run.state.write_bytes(body[:-5] if damage == "truncated" else body[:-1] + b"\0\1")
    again = trainer(settings, loop.run.folder)
    assert again.progress.step == 8
    assert (damage == "gone") == (not again.checkpointer.notes)
    assert damage == "gone" or "last.state is damaged" in again.checkpointer.notes[0]
    monitored(again)
    assert same(read_weights(loop.run.last), end)


def test_two_damaged_checkpoints_are_refused(trainer):
    settings = small(steps=12)
    loop = monitored(trainer(settings))
    for path in (loop.run.state, previous(loop.run.state)):
        path.write_bytes(b"")
    with pytest.raises(Refused, match="no readable checkpoint"):
        trainer(settings, loop.run.folder)


def test_other_data_than_it_was_begun_with_are_refused(trainer, poem):
    settings = small("text", data=str(poem), context=16)
    loop = monitored(trainer(settings))
    poem.write_text(poem.read_text().replace("green", "brown"))
    with pytest.raises(Refused, match="begun with different data"):
        trainer(settings, loop.run.folder)


def test_a_full_disk_is_told_and_the_run_goes_on(trainer, monkeypatch, capsys):
    loop = trainer(small(steps=12))
    write, full = checkpointer.write_state, [4, 8]

    def sometimes(path, state):
        if loop.progress.step in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, state)

    monkeypatch.setattr(checkpointer, "write_state", sometimes)
    messages = []
    monkeypatch.setattr(Monitor, "say", lambda self, words: messages.append(words))
    monitored(loop)
    assert [words.split(":")[0] for words in messages] == [
        "Step 4 could not be saved",
        "Step 8 could not be saved",
        "Step 12 is saved",
    ]
    assert "No space left on device" in messages[0]
    assert read_state(loop.run.state).facts["progress"]["step"] == 12


def test_metrics_that_cannot_be_written_do_not_end_a_run(trainer, monkeypatch):
    loop = trainer(small(steps=12))
    monitor, messages = Monitor(loop.run, 12, 0, QUIET), []
    monkeypatch.setattr(monitor, "say", messages.append)
    monitor._file.close()
    monitor._file = Path("/dev/full").open("w")  # noqa: SIM115 - the monitor closes it
    monitor._csv = csv.DictWriter(monitor._file, COLUMNS)
    with monitor.showing():
        loop.train(monitor)
    assert messages == ["The metrics of step 4 could not be written: No space left on device"]
    assert read_state(loop.run.state).facts["progress"]["step"] == 12


def test_a_disk_that_stays_full_is_an_error_at_the_end(trainer, monkeypatch):
    loop = trainer(small(steps=12))
    write = checkpoints.write_state

    def never(path, state):
        if loop.progress.step > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, state)

    monkeypatch.setattr(checkpointer, "write_state", never)
    with pytest.raises(Unsaved, match="cannot be written: No space left"):
        loop.train(None)
    assert read_state(loop.run.state).facts["progress"]["step"] == 4


def test_a_disk_that_was_always_full_has_no_last_checkpoint(trainer, monkeypatch):
    def never(path, state):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    loop = trainer(small(steps=12))
    monkeypatch.setattr(checkpointer, "write_state", never)
    messages = []
    monkeypatch.setattr(Monitor, "say", lambda self, words: messages.append(words))
    with pytest.raises(Unsaved, match="There is no checkpoint"):
        monitored(loop)
    assert "The run continues" in messages[0] and "last checkpoint" not in messages[0]


# --- When it goes wrong ---------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_and_names_the_step(trainer):
    loop = trainer(small(steps=12))
    step = loop.step

    def poisoned(group, window):
        if loop.progress.step == 5:
            with torch.no_grad():
                next(iter(loop.objective.parameters.values())).fill_(math.nan)
        step(group, window)

    loop.step = poisoned
    with pytest.raises(Diverged, match="In step 6 the loss is nan"):
        loop.train(None)
    state = read_state(loop.run.state)
    assert state.facts["progress"]["step"] == 4
    assert all(torch.isfinite(tensor).all() for tensor in state.tensors.values())


def test_a_gradient_that_is_no_number_never_reaches_a_checkpoint(trainer):
    loop = trainer(small(steps=12))
    clip = loop.optimizer._clip

    def poisoned():
        if loop.progress.step == 7:
            next(iter(loop.objective.parameters.values())).grad.fill_(math.inf)
        return clip()

    loop.optimizer._clip = poisoned
    with pytest.raises(Diverged, match="In step 8 the gradient's norm is inf"):
        loop.train(None)
    assert read_state(loop.run.state).facts["progress"]["step"] == 4


def test_weight_decay_is_for_matrices(trainer):
    """Without a gradient the decay is all that moves a parameter: biases and norms stay."""
    optimizer = trainer(small(weight_decay=0.5, factor=0.1))
    before = {name: p.detach().clone() for name, p in optimizer.optimizer.parameters.items()}
    for parameter in optimizer.optimizer.parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.optimizer.step(1)
    for name, parameter in optimizer.optimizer.parameters.items():
        factor = 1 - 0.5 * optimizer.optimizer.rate(1) if parameter.ndim > 1 else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor)


@pytest.mark.parametrize("changes", [{}, {"task": "text", "model": "gpt"}])
def test_muon_is_for_the_matrices_of_layers(trainer, poem, changes):
    """AdamW trains embeddings, output layers, biases and norms. Without Muon it trains all."""
    settings = small(**{"optimizer": "muon", "data": str(poem) if changes else ""} | changes)
    optimizer = trainer(settings).optimizer
    adam, muon = optimizer.optimizers
    numbers = [sum(len(group["params"]) for group in o.param_groups) for o in (adam, muon)]
    assert sum(numbers) == len(optimizer.parameters) and numbers[1] == len(optimizer.hidden) > 0
    for name, parameter in optimizer.parameters.items():
        in_a_layer = "layers" in name or "blocks" in name
        assert (name in optimizer.hidden) == (in_a_layer and parameter.ndim == 2), name
        assert (name in optimizer.hidden) <= any(
            part in name for part in ("w_", "self_attn", "src_attn")
        )


def test_muon_wants_entire_matrices():
    for other in ({"shard": True}, {"lora": 8, "pretrained": "smollm2-135m"}):
        with pytest.raises(Refused, match="optimizer=muon needs entire matrices"):
            small("text", optimizer="muon", **other)


# --- What is kept of it ---------------------------------------------------------------------------


def test_metrics_are_a_table_with_every_column(trainer):
    loop = monitored(trainer(small(steps=20, validate_every=7)))
    with loop.run.metrics.open() as file:
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
    assert float(rows[-1]["learning_rate"]) == pytest.approx(loop.optimizer.rate(20))
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

    loop = monitored(trainer(small(steps=20, validate_every=10)))
    events = EventAccumulator(str(loop.run.folder))
    events.Reload()
    values = {event.step: event.value for event in events.Scalars("loss")}
    rows = {int(row["step"]): row["loss"] for row in read_metrics(loop.run)}
    assert values.keys() == rows.keys()
    assert all(values[step] == pytest.approx(rows[step], rel=1e-6) for step in rows)


def test_a_folder_holds_all_that_using_the_model_needs(trainer):
    loop = monitored(trainer(small(steps=12)))
    names = {path.name for path in loop.run.folder.iterdir() if "tfevents" not in path.name}
    assert names == {
        "config.yaml",
        "vocabulary.json",
        "best.safetensors",
        "last.safetensors",
        "last.state",
        "previous.state",
        "metrics.csv",
    }
    assert loop.run.settings() == loop.settings
