"""The training loop: steps, validation, checkpoints. A killed run resumes with the same results.

The recipe is the paper's (Vaswani et al. 2017, §5): Adam with its learning rate, label smoothing, dropout.
A step's random numbers and batches depend on the seed and the step's number only, so a checkpoint consists of
the weights, the optimizer's state, and the step.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from training.data.batches import Rows
from training.data.tasks import Task
from training.devices import ProcessContext
from training.loop.checkpointer import Checkpointer
from training.loop.distributed import (
    DistributedObjective,
    autocast_dtype,
    full_tensor,
    seed_everything,
)
from training.loop.monitor import Monitor, Row, perplexity
from training.loop.optimizer import RunOptimizer
from training.loop.run_folder import Run
from training.loop.signals import StopSignal
from training.models.architectures import Model, Objective, build, count, recompute_layers
from training.models.finetuning import Origin
from training.models.parts import REFERENCES, Parts
from training.settings import Settings
from variants.lora import merged

LOG_EVERY = 10  # steps between two rows of the metrics
WORKERS_FOR_A_GPU = 2  # processes that prepare batches


class Diverged(Exception):
    """The loss or the gradient is not finite."""


class Interrupted(Exception):
    """The run was asked to stop."""


@dataclass
class Window:
    """Metrics since the last row. Tensors stay on the device until they are needed."""

    losses: list[Tensor] = field(default_factory=list)
    """The loss of each step, summed over this process's tokens."""
    tokens: list[int] = field(default_factory=list)
    """The tokens of each step, in all processes."""
    norms: list[Tensor] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)


class Trainer:
    """Train a model, as one of the run's processes.

    Args:
        parts: the model's parts; the reference's if omitted.
        origin: the published model to fine-tune, if any.

    Raises:
        Refused: the checkpoint belongs to a different run, or none can be read.
    """

    def __init__(
        self,
        settings: Settings,
        task: Task,
        run: Run,
        context: ProcessContext,
        parts: Parts | None = None,
        origin: Origin | None = None,
    ):
        self.settings, self.task, self.run, self.context = settings, task, run, context
        self.parts = parts or REFERENCES[settings.model]
        self.base = origin.base if origin else None
        seed_everything(settings.seed, "model")
        model = self.build()
        if origin is not None:
            origin.begin(model, settings)
        if settings.recompute:
            recompute_layers(model)
        self.size = count(model)
        self.autocast_dtype = autocast_dtype(settings, context.device)
        self.objective = DistributedObjective(self.build_loss(model), settings, context)
        self.optimizer = RunOptimizer(self.objective.parameters, settings, context.device)
        self.checkpointer = Checkpointer(
            run,
            settings,
            context,
            self.optimizer,
            data=task.fingerprint,
            parts=self.parts.fingerprint,
            frozen=origin.fingerprint if origin and settings.lora else "",
            finished=self.finished_weights,
        )
        self.progress = self.checkpointer.resume()
        self.stop = StopSignal(context)

    @property
    def flops_per_token(self) -> int:
        """Return the operations of a step per target token (Kaplan et al. 2020, section 2.1).

        Each parameter costs 2 in the forward and 2 in the backward pass, and 2 more for its gradient if it is
        trained. A parameter of an encoder is counted as if the source had as many tokens as the target.
        """
        trained: int = sum(parameter.numel() for parameter in self.objective.parameters.values())
        return 4 * self.size + 2 * trained

    def build(self) -> Model:
        """Build the model, with its initial weights."""
        return build(self.settings, self.task.languages, self.parts, self.base)

    def finished_weights(self, trained: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights to use: LoRA's updates are merged. Every process must call this."""
        if not self.settings.lora:
            return trained
        frozen = {name: full_tensor(tensor) for name, tensor in self.objective.frozen.items()}
        return merged(frozen | trained)

    def build_loss(self, model: Model) -> Objective:
        """Build the objective that training minimizes."""
        return Objective(model, self.settings.smoothing)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or early stopping applies."""
        patience = self.settings.patience
        early = 0 < patience <= self.progress.since_best
        return early or self.progress.step >= self.settings.steps

    def train(self, monitor: Monitor | None) -> None:
        """Train to the end.

        Raises:
            Diverged: the loss is not finite; the last good checkpoint is kept.
            Interrupted: by Ctrl-C or SIGTERM; the step was finished and saved.
            Unsaved: the last checkpoint could not be written.
        """
        settings, progress = self.settings, self.progress
        started = time.perf_counter() - progress.seconds
        window = Window()
        with self.stop.handle_signals():
            groups = self.groups()
            while not self.finished:
                self.step(next(groups), window)
                progress.step += 1
                progress.seconds = time.perf_counter() - started
                stopping = self.stop.requested()
                validated = None
                last = progress.step == settings.steps
                if progress.step % settings.validate_every == 0 or last:
                    self._watch(window)
                    paused = time.perf_counter()
                    validated = self.validate()
                    self.checkpointer.keep_best(progress, validated)
                    window.began += time.perf_counter() - paused
                saving = progress.step % settings.save_every == 0 or self.finished or stopping
                logging = progress.step % LOG_EVERY == 0 or validated is not None or saving
                if logging or (self.context.world_size == 1 and self.context.device.type == "cpu"):
                    row = self._row(window, validated)
                    if monitor is not None:
                        monitor.show(row)
                        if logging:
                            monitor.keep(row)
                if saving:
                    self.checkpointer.save(progress, monitor)
                if logging:
                    window = Window()
                if stopping and not self.finished:
                    self.checkpointer.refuse_unsaved()
                    raise Interrupted(f"Stopped after step {progress.step}, which is saved.")
        if settings.average_last and progress.snapshots:
            self.checkpointer.take_mean(progress.snapshots)
            self.checkpointer.keep_best(progress, self.validate())
        self.checkpointer.keep_last()

    def validate(self) -> float:
        """Return the loss per token on the validation split, without label smoothing."""
        self.objective.train(False)
        with self.optimizer.ema_weights(), torch.no_grad():
            total, tokens = 0.0, 0.0
            for rows in self._validation():
                mine = rows.share(self.context.rank, self.context.world_size)
                if mine.counted or self.settings.shard:
                    on_device = mine.to(self.context.device)
                    with self._autocast(), self.parts.attribute_errors():
                        _, plain = self.objective(on_device)
                    total += float(plain) * mine.counted
                    tokens += mine.tokens
        total, tokens = self.context.total(total, tokens)
        return total / tokens

    # --- A step -----------------------------------------------------------------------------------

    def groups(self) -> Iterator[list[Rows]]:
        """Yield the batches of each step, prepared in advance where a GPU would wait for them."""
        accumulate = self.settings.accumulate
        first = self.progress.step * accumulate
        on_gpu = self.context.device.type == "cuda"
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

    def step(self, group: list[Rows], window: Window) -> None:
        """Take an optimizer step along the gradient of the mean loss over all tokens of the group, in all
        processes."""
        number, world = self.progress.step + 1, self.context.world_size
        seed_everything(self.settings.seed, "step", number, self.context.rank)
        tokens = sum(rows.tokens for rows in group)
        self.objective.train(True)
        losses: list[Tensor] = []
        for rows in group:
            mine = rows.share(self.context.rank, world)
            on_device = mine.to(self.context.device)
            last = self.objective.syncing(rows is group[-1])
            with last, self._autocast(), self.parts.attribute_errors():
                summed, plain = self.objective(on_device)
                # DDP averages gradients over processes, but the mean is over tokens.
                share = world / max(tokens, 1) if mine.counted else 0.0
                self.optimizer.backward(summed * share)
            losses.append(plain * mine.counted)
        norm = self.optimizer.step(number)
        window.losses.append(torch.stack(losses).sum())
        window.tokens.append(tokens)
        window.norms.append(norm)

    def _autocast(self) -> torch.autocast:
        dtype = self.autocast_dtype
        return torch.autocast(
            self.context.device.type, dtype or torch.bfloat16, enabled=dtype is not None
        )

    # --- Metrics ----------------------------------------------------------------------------------

    def _row(self, window: Window, validated: float | None) -> Row:
        loss = self._watch(window)
        seconds = time.perf_counter() - window.began
        pace = sum(window.tokens) / seconds
        peak = self.context.peak_flops
        return Row(
            step=self.progress.step,
            seconds=self.progress.seconds,
            loss=loss,
            perplexity=perplexity(loss),
            validation_loss=validated,
            validation_perplexity=None if validated is None else perplexity(validated),
            learning_rate=self.optimizer.rate(self.progress.step),
            gradient_norm=float(window.norms[-1]),
            tokens_per_second=pace,
            memory_bytes=self.context.peak_memory,
            mfu=None
            if peak is None
            else pace * self.flops_per_token / (peak * self.context.world_size),
        )

    def _watch(self, window: Window) -> float:
        """Return the mean loss since the last row, the same in all processes, which stop at the same step.

        Raises:
            Diverged: a loss or a gradient is not finite.
        """
        losses = self.context.total(*map(float, window.losses))
        norms = list(map(float, window.norms))
        first = self.progress.step - len(losses) + 1
        for number, (loss, norm) in enumerate(zip(losses, norms, strict=True), first):
            # In float16 a step with an infinite gradient is skipped, and the loss scale lowered.
            if not math.isfinite(loss) or not (
                math.isfinite(norm) or self.autocast_dtype is torch.float16
            ):
                gradient = f"gradient's norm is {norm}"
                wrong = gradient if math.isfinite(loss) else f"loss is {loss}"
                raise Diverged(f"In step {number} the {wrong}")
        return sum(losses) / max(sum(window.tokens), 1)

    def _validation(self) -> list[Rows]:
        """Return the validation split, or batches spread evenly over it."""
        batches = self.task.held_out("validation")
        most = self.settings.validate_tokens
        total = sum(rows.tokens for rows in batches)
        if not most or total <= most:
            return batches
        stride = total / most
        return [batches[int(i * stride)] for i in range(max(1, int(len(batches) / stride)))]


class _Numbered(Dataset[Rows]):
    """A task's batches, for `DataLoader`."""

    def __init__(self, task: Task):
        self._task = task

    def __getitem__(self, number: int) -> Rows:
        return self._task.batch(number)
