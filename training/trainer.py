"""The training loop: steps, validation, checkpoints. A run that was killed goes on as if it had not been.

The recipe is the paper's (Vaswani et al. 2017, §5): Adam with its rate, smoothed labels, dropout. What a
step draws and which batches it sees depend on the seed and the step's number alone, so that a checkpoint
needs weights, the optimiser's state, and a count.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import implementation
from training.batches import Rows
from training.checkpoints import (
    Damaged,
    State,
    previous,
    read_state,
    read_weights,
    write_state,
    write_weights,
)
from training.devices import Place, Wrapped, autocast_to, fill, length, seed_everything, whole
from training.errors import Refused
from training.model import Model, Objective, build, count, recompute_layers
from training.monitor import Monitor, Row, perplexity
from training.parts import blamed, fingerprint
from training.run import Run
from training.settings import Settings
from training.tasks import Task

LOG_EVERY = 10  # steps between two rows of the metrics
WORKERS_FOR_A_GPU = 2  # processes that make batches ahead


class Diverged(Exception):
    """The loss is no number any more."""


class Interrupted(Exception):
    """Somebody wants it to end."""


class Unsaved(Exception):
    """What was reached in the end could not be written."""


@dataclass
class Progress:
    """Where a run stands. All of it is in the state."""

    step: int = 0
    seconds: float = 0.0
    best: float = math.inf
    since_best: int = 0
    snapshots: tuple[int, ...] = ()

    @property
    def as_facts(self) -> dict[str, Any]:
        facts = dict(vars(self))
        return facts | {"best": None if math.isinf(self.best) else self.best}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Progress:
        best = math.inf if facts["best"] is None else facts["best"]
        return cls(
            facts["step"], facts["seconds"], best, facts["since_best"], tuple(facts["snapshots"])
        )


@dataclass
class Window:
    """What has been seen since the last row. Numbers stay on the device until somebody asks."""

    losses: list[Tensor] = field(default_factory=list)
    """Of each step, summed over this process's tokens."""
    tokens: list[int] = field(default_factory=list)
    """Of each step, all processes' together."""
    norms: list[Tensor] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)


class Trainer:
    """One process's part in a run.

    Args:
        settings: what to do.
        task: what to learn.
        run: where to keep it.
        place: on which device, among how many processes.
        parts: where the model's parts come from.

    Raises:
        Refused: a checkpoint that is of another run, or of which nothing can be read.
    """

    def __init__(
        self,
        settings: Settings,
        task: Task,
        run: Run,
        place: Place,
        parts: ModuleType = implementation,
    ):
        self.settings, self.task, self.run, self.place = settings, task, run, place
        self.parts = parts
        seed_everything(settings.seed, "model")
        model = self.build()
        if settings.recompute:
            recompute_layers(model)
        self.size = count(model)
        self.objective = Wrapped(Objective(model, settings.smoothing), settings, place)
        self.parameters = self.objective.parameters
        # lr is set before every step. Fused: on the CPU the plain loop takes longer than a small model.
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=0.0,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.half = autocast_to(settings, place.device)
        self.scaler = torch.amp.GradScaler(place.device.type, enabled=self.half is torch.float16)
        self.ema = (
            {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
            if settings.ema
            else {}
        )
        self.progress = Progress()
        self.stopping = False
        self.unsaved: OSError | None = None
        self.told: list[str] = []
        """What there was to say about the checkpoint that it goes on from."""
        self._go_on()

    def build(self) -> Model:
        """The model that is trained, with the weights it starts from."""
        return build(self.settings, self.task.languages, self.parts)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or it has stopped early."""
        patience = self.settings.patience
        early = 0 < patience <= self.progress.since_best
        return early or self.progress.step >= self.settings.steps

    def train(self, monitor: Monitor | None) -> None:
        """Go on to the end.

        Raises:
            Diverged: the loss is no number any more; the last good checkpoint is kept.
            Interrupted: by Ctrl-C or SIGTERM; the step was finished and saved.
            Unsaved: the last checkpoint could not be written.
        """
        settings, progress = self.settings, self.progress
        started = time.monotonic() - progress.seconds
        window = Window()
        with self._interruptible():
            groups = self._groups()
            while not self.finished:
                self._step(next(groups), window)
                progress.step += 1
                progress.seconds = time.monotonic() - started
                stopping = self._asked_to_stop()
                validated = None
                last = progress.step == settings.steps
                if progress.step % settings.validate_every == 0 or last:
                    self._watch(window)
                    paused = time.monotonic()
                    validated = self.validate()
                    self._keep_best(validated)
                    window.began += time.monotonic() - paused
                saving = progress.step % settings.save_every == 0 or self.finished or stopping
                logging = progress.step % LOG_EVERY == 0 or validated is not None or saving
                if logging or (self.place.world == 1 and self.place.device.type == "cpu"):
                    row = self._row(window, validated)
                    if monitor is not None:
                        monitor.show(row)
                        if logging:
                            monitor.keep(row)
                if saving:
                    self._save(monitor)
                if logging:
                    window = Window()
                if stopping and not self.finished:
                    self._refuse_unsaved()
                    raise Interrupted(f"Stopped after step {progress.step}, which is saved.")
        self._finish()
        self._refuse_unsaved()

    def validate(self) -> float:
        """The loss per token on the validation split, unsmoothed, by the weights that would be used."""
        self.objective.train(False)
        with self._shown_weights(), torch.no_grad():
            total, tokens = 0.0, 0.0
            for rows in self._validation():
                mine = rows.share(self.place.rank, self.place.world)
                if mine.counted or self.settings.shard:
                    on_device = mine.to(self.place.device)
                    with self._autocast(), blamed(self.settings.answers):
                        _, plain = self.objective(on_device.source, on_device.target)
                    total += float(plain) * mine.counted
                    tokens += mine.tokens
        total, tokens = self.place.total(total, tokens)
        return total / tokens

    # --- A step -----------------------------------------------------------------------------------

    def _groups(self) -> Iterator[list[Rows]]:
        """The batches of each step from here on, made ahead where a GPU would wait for them."""
        accumulate = self.settings.accumulate
        first = self.progress.step * accumulate
        on_gpu = self.place.device.type == "cuda"
        loader = DataLoader(
            _Numbered(self.task),
            sampler=range(first, self.settings.steps * accumulate),
            batch_size=None,
            num_workers=WORKERS_FOR_A_GPU if on_gpu else 0,
            pin_memory=on_gpu,
        )
        batches = iter(loader)
        while group := list(itertools.islice(batches, accumulate)):
            yield group

    def _step(self, group: list[Rows], window: Window) -> None:
        """One step of the optimiser. Its gradient is that of the mean loss over all tokens of the
        group, on however many devices they lie."""
        number, world = self.progress.step + 1, self.place.world
        seed_everything(self.settings.seed, "step", number, self.place.rank)
        tokens = sum(rows.tokens for rows in group)
        self.objective.train(True)
        losses: list[Tensor] = []
        for rows in group:
            mine = rows.share(self.place.rank, world)
            on_device = mine.to(self.place.device)
            last = self.objective.syncing(rows is group[-1])
            with last, self._autocast(), blamed(self.settings.answers):
                summed, plain = self.objective(on_device.source, on_device.target)
                # Gradients are averaged over the processes, and a mean is over tokens.
                share = world / max(tokens, 1) if mine.counted else 0.0
                self.scaler.scale(summed * share).backward()  # type: ignore[no-untyped-call]
            losses.append(plain * mine.counted)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.rate(number)
        self.scaler.unscale_(self.optimizer)
        norm = self._clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        for name, mean in self.ema.items():
            mean.lerp_(self.parameters[name].detach(), 1 - self.settings.ema)
        window.losses.append(torch.stack(losses).sum())
        window.tokens.append(tokens)
        window.norms.append(norm)

    def rate(self, number: int) -> float:
        """The learning rate of a step, counted from 1: the paper's, falling to 0 at the end if asked to."""
        settings = self.settings
        rate = implementation.rate(number, settings.d_model, settings.factor, settings.warmup)
        cooling = settings.cooldown * settings.steps
        return rate * min(1.0, (settings.steps - number + 1) / cooling) if cooling else rate

    def _clip(self) -> Tensor:
        """The gradient's length; the gradient is cut to what is allowed."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        norm = length(gradients)
        if self.settings.clip:
            nn.utils.clip_grads_with_norm_(self.parameters.values(), self.settings.clip, norm)
        return norm

    def _autocast(self) -> torch.autocast:
        return torch.autocast(
            self.place.device.type, self.half or torch.bfloat16, enabled=self.half is not None
        )

    # --- What is seen of it -----------------------------------------------------------------------

    def _row(self, window: Window, validated: float | None) -> Row:
        loss = self._watch(window)
        seconds = time.monotonic() - window.began
        pace = sum(window.tokens) / seconds
        peak = self.place.peak_flops
        return Row(
            step=self.progress.step,
            seconds=self.progress.seconds,
            loss=loss,
            perplexity=perplexity(loss),
            validation_loss=validated,
            validation_perplexity=None if validated is None else perplexity(validated),
            learning_rate=self.rate(self.progress.step),
            gradient_norm=float(window.norms[-1]),
            tokens_per_second=pace,
            memory_bytes=self.place.memory,
            mfu=None if peak is None else pace * 6 * self.size / (peak * self.place.world),
        )

    def _watch(self, window: Window) -> float:
        """The mean loss since the last row. All processes see the same, and stop at the same step.

        Raises:
            Diverged: a loss, or a gradient, that is no number.
        """
        losses = self.place.total(*map(float, window.losses))
        norms = list(map(float, window.norms))
        first = self.progress.step - len(losses) + 1
        for number, (loss, norm) in enumerate(zip(losses, norms, strict=True), first):
            # In float16 a gradient that is too long is skipped, and the scale lowered.
            if not math.isfinite(loss) or not (math.isfinite(norm) or self.scaler.is_enabled()):
                gradient = f"gradient's norm is {norm}"
                wrong = gradient if math.isfinite(loss) else f"loss is {loss}"
                raise Diverged(f"In step {number} the {wrong}")
        return sum(losses) / max(sum(window.tokens), 1)

    def _validation(self) -> list[Rows]:
        """The validation split, or batches spread evenly over it."""
        batches = self.task.held_out("validation")
        most = self.settings.validate_tokens
        total = sum(rows.tokens for rows in batches)
        if not most or total <= most:
            return batches
        stride = total / most
        return [batches[int(i * stride)] for i in range(max(1, int(len(batches) / stride)))]

    # --- What is kept -----------------------------------------------------------------------------

    @contextmanager
    def _shown_weights(self) -> Iterator[None]:
        """The running mean in place of the weights, where there is one."""
        if not self.ema:
            yield
            return
        own = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        try:
            for name, mean in self.ema.items():
                self.parameters[name].data.copy_(mean)
            yield
        finally:
            for name, parameter in own.items():
                self.parameters[name].data.copy_(parameter)

    def _weights(self) -> dict[str, Tensor]:
        """The weights that would be used, whole. All processes have to ask."""
        return {name: whole(tensor) for name, tensor in (self.ema or self.parameters).items()}

    def _keep_best(self, validated: float) -> None:
        progress = self.progress
        if validated < progress.best:
            weights = self._weights()
            failed = self._writing(lambda: write_weights(self.run.best, weights))
            progress.since_best = 0
            if failed is None:  # else what is on the disk is still the best that can be had
                progress.best = validated
        else:
            progress.since_best += 1

    def _save(self, monitor: Monitor | None) -> None:
        """Write the state. Where that fails, the last one stays, and the run goes on."""
        settings, progress = self.settings, self.progress
        regular = progress.step % settings.save_every == 0 or progress.step == settings.steps
        if settings.average and regular:  # not wherever somebody stopped it
            weights = self._weights()
            self._writing(lambda: write_weights(self.run.snapshot(progress.step), weights))
            kept = (*progress.snapshots, progress.step)
            progress.snapshots = kept[-settings.average :]
        state = self._state()
        before = self.unsaved
        self.unsaved = self._writing(lambda: write_state(self.run.state, state))
        if self.unsaved is not None and monitor is not None:
            monitor.say(
                f"Step {progress.step} could not be saved: {self.unsaved.strerror}. "
                f"{'The last checkpoint is kept, and the' if self.run.state.exists() else 'The'} "
                "run goes on"
            )
        if self.unsaved is None:
            if before is not None and monitor is not None:
                monitor.say(f"Step {progress.step} is saved")
            self._forget(progress.snapshots)

    def _state(self) -> State:
        """Everything, whole. All processes have to ask."""
        tensors = {f"weights.{name}": whole(one) for name, one in self.parameters.items()}
        tensors |= {f"ema.{name}": whole(one) for name, one in self.ema.items()}
        for name, parameter in self.parameters.items():
            for part, value in self.optimizer.state[parameter].items():
                tensors[f"optimizer.{part}.{name}"] = whole(value)
        facts = {
            "progress": self.progress.as_facts,
            "scaler": self.scaler.state_dict(),
            "data": self.task.fingerprint,
            "parts": fingerprint(self.run.answers),
        }
        return State(tensors, facts)

    def _go_on(self) -> None:
        """Take up the last checkpoint, or the one before it where the last is damaged."""
        for path in (self.run.state, previous(self.run.state)):
            try:
                state = read_state(path)
            except FileNotFoundError:
                continue
            except (OSError, Damaged) as error:
                self.told.append(f"{error}; the checkpoint before it is used")
                continue
            self._take(state)
            return
        if self.told:
            raise Refused(f"{self.run.folder} holds no checkpoint that can be read: {self.told[0]}")

    def _take(self, state: State) -> None:
        if state.facts["data"] != self.task.fingerprint:
            raise Refused(
                f"{self.run.folder} was begun with other data: what is there now has changed since"
            )
        if state.facts.get("parts", "") != fingerprint(self.run.answers):
            raise Refused(f"{self.run.answers} has changed since the run was begun with it")
        tensors = state.tensors
        for name, parameter in self.parameters.items():
            fill(parameter, tensors[f"weights.{name}"])
            if name in self.ema:
                fill(self.ema[name], tensors[f"ema.{name}"])
            moments = {
                part: torch.zeros_like(parameter.detach()) for part in ("exp_avg", "exp_avg_sq")
            }
            for part, moment in moments.items():
                fill(moment, tensors[f"optimizer.{part}.{name}"])
            step = tensors[f"optimizer.step.{name}"].to(self.place.device)
            self.optimizer.state[parameter] = {"step": step, **moments}
        self.scaler.load_state_dict(state.facts["scaler"])
        self.progress = Progress.of(state.facts["progress"])

    def _finish(self) -> None:
        """The weights of the end: where asked for, the mean of the last checkpoints, as in §6.1."""
        if self.settings.average and self.progress.snapshots:
            some = [read_weights(self.run.snapshot(step)) for step in self.progress.snapshots]
            for name, parameter in self.parameters.items():
                fill(parameter, torch.stack([weights[name] for weights in some]).mean(dim=0))
            self._keep_best(self.validate())
        weights = self._weights()
        failed = self._writing(lambda: write_weights(self.run.last, weights))
        self.unsaved = failed or self.unsaved

    def _writing(self, write: Callable[[], None]) -> OSError | None:
        """Let the process that leads write, and the others wait. What went wrong, all of them know."""
        failed: OSError | None = None
        if self.place.leads:
            try:
                write()
            except OSError as error:
                failed = error
        (wrong,) = self.place.total(failed is not None and (failed.errno or errno.EIO))
        return OSError(int(wrong), os.strerror(int(wrong))) if wrong else None

    def _refuse_unsaved(self) -> None:
        if self.unsaved is not None:
            kept = "What came after the last checkpoint is lost"
            raise Unsaved(
                f"{self.run.folder} cannot be written: {self.unsaved.strerror}. "
                f"{kept if self.run.state.exists() else 'There is no checkpoint yet'}"
            )

    def _forget(self, kept: tuple[int, ...]) -> None:
        """Delete snapshots that no mean will need."""
        if self.place.leads:
            wanted = {self.run.snapshot(step) for step in kept}
            for path in self.run.folder.glob("step-*.safetensors"):
                if path not in wanted:
                    path.unlink(missing_ok=True)

    # --- When it is to end ------------------------------------------------------------------------

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM let the step end and save; a second Ctrl-C does not wait."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stopping and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.stopping = True

        before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _asked_to_stop(self) -> bool:
        """Whether any process was."""
        if self.place.world == 1:
            return self.stopping
        return self.place.total(self.stopping)[0] > 0


class _Numbered(Dataset[Rows]):
    """A task's batches, for torch's loader."""

    def __init__(self, task: Task):
        self._task = task

    def __getitem__(self, number: int) -> Rows:
        return self._task.batch(number)
