"""The folder of a run, which is all that using the model needs:

config.yaml         the settings
vocabulary.json     the vocabularies
base.json           the published model's config, in fine-tuning
best.safetensors    the weights with the lowest validation loss
last.safetensors    the weights at the end
last.state          everything that resuming needs; previous.state is the state before
metrics.csv, curves.png, attention.png, compare.png, events.out.tfevents.…
answers/            the learner's own parts, if any
"""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import settings as settings_
from training.checkpoints import Damaged, previous, read_state, temporary_path, write_atomically
from training.data.vocabulary import Languages, languages_from_json
from training.errors import Refused
from training.models.base_model import PublishedConfig, base_from_json
from training.models.parts import PartsProvider, needed
from training.settings import Settings


@dataclass(frozen=True)
class Run:
    """A run, identified by its folder."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def vocabulary(self) -> Path:
        return self.folder / "vocabulary.json"

    @property
    def published(self) -> Path:
        return self.folder / "base.json"

    @property
    def best(self) -> Path:
        return self.folder / "best.safetensors"

    @property
    def last(self) -> Path:
        return self.folder / "last.safetensors"

    @property
    def weights(self) -> Path:
        """The weights to use: the best, or the last if nothing was validated."""
        return self.best if self.best.exists() else self.last

    @property
    def state(self) -> Path:
        return self.folder / "last.state"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.csv"

    @property
    def curves(self) -> Path:
        return self.folder / "curves.png"

    @property
    def attention(self) -> Path:
        return self.folder / "attention.png"

    @property
    def comparison(self) -> Path:
        return self.folder / "compare.png"

    @property
    def answers(self) -> Path:
        return self.folder / "answers"

    @property
    def trained(self) -> bool:
        """Whether the folder has a checkpoint or weights."""
        return any(path.exists() for path in (self.state, previous(self.state), self.best))

    def snapshot(self, step: int) -> Path:
        """The weights at a step, for averaging."""
        return self.folder / f"step-{step:08d}.safetensors"

    @classmethod
    def begin(cls, folder: Path, settings: Settings, provider: PartsProvider | None = None) -> Run:
        """Begin a new run in its own folder.

        Args:
            folder: missing or empty, apart from the partial config of a killed run.
            provider: copies a learner's files, if the settings name any.

        Raises:
            Refused: the folder is not empty, or cannot be written.
        """
        run = cls(folder)
        if run.config.exists():
            again = shlex.join(["course", "train", run.settings().task, "--resume", str(folder)])
            raise Refused(
                f"{folder} already contains a run. To resume it: {again}. "
                "To start a new run, choose a different --out"
            )
        created = not folder.exists()
        try:
            if not created and (
                not folder.is_dir() or set(folder.iterdir()) - {temporary_path(run.config)}
            ):
                raise Refused(f"{folder} already exists, and contains something else")
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"{folder} cannot be written: {error.strerror}") from error
        try:
            if settings.answers:
                needed(provider).keep(Path(settings.answers), run.answers)
            run.keep(settings)
        except (OSError, Refused) as error:
            run.forget(created)
            if isinstance(error, Refused):
                raise
            raise Refused(f"{folder} cannot be written: {error.strerror}") from error
        return run

    def forget(self, created: bool) -> None:
        """Remove the files of a run that failed at the start, and the folder if the run created it."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if created:
            self.folder.rmdir()

    @classmethod
    def found(cls, folder: Path) -> Run:
        """Open an existing run.

        Raises:
            Refused: the folder contains no run.
        """
        run = cls(folder)
        if not run.config.exists():
            raise Refused(f"{folder} contains no run: it has no config.yaml")
        return run

    def settings(self) -> Settings:
        """The settings that the run was begun with.

        Raises:
            Refused: the config is damaged.
        """
        return settings_.load(self.config)

    def keep(self, settings: Settings) -> None:
        """Write the settings.

        Raises:
            OSError: the file could not be written.
        """
        write_atomically(self.config, settings.as_yaml().encode())

    def facts(self) -> dict[str, Any]:
        """Return what the last readable checkpoint records about the run; nothing if there is no
        checkpoint."""
        for path in (self.state, previous(self.state)):
            try:
                return read_state(path).facts
            except (OSError, Damaged):
                continue
        return {}

    def keep_base(self, base: PublishedConfig) -> None:
        """Write the published model's config.

        Raises:
            OSError: the file could not be written.
        """
        write_atomically(
            self.published, json.dumps(base.as_json(), ensure_ascii=False, indent=1).encode()
        )

    def base(self) -> PublishedConfig | None:
        """Read the published model's config; None without fine-tuning.

        Raises:
            Refused: the file is damaged.
        """
        if not self.published.exists():
            return None
        try:
            return base_from_json(json.loads(self.published.read_text(encoding="utf-8")))
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refused(f"{self.published} is damaged: {error}") from error

    def keep_languages(self, languages: Languages) -> None:
        """Write the vocabularies.

        Raises:
            OSError: the file could not be written.
        """
        text = json.dumps(languages.as_json(), ensure_ascii=False, indent=1)
        write_atomically(self.vocabulary, text.encode())

    def languages(self) -> Languages | None:
        """Read the vocabularies; None before they are written.

        Raises:
            Refused: the file is damaged.
        """
        if not self.vocabulary.exists():
            return None
        try:
            return languages_from_json(json.loads(self.vocabulary.read_text(encoding="utf-8")))
        except Exception as error:  # tokenizers raises a plain Exception
            raise Refused(f"{self.vocabulary} is damaged: {error}") from error
