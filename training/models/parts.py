"""The parts of a model: the reference's, or a learner's own, which a provider loads from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import implementation
import variants.gpt
import variants.llama
from training.errors import Refused
from training.settings import Settings

if TYPE_CHECKING:
    from training.generation.text_generator import TextGenerator


@dataclass(frozen=True)
class Parts:
    """The parts of a model, and whose they are."""

    module: ModuleType
    answers: str = ""
    """The folder that a learner's come from, as it was named."""
    own: list[str] = field(default_factory=list)
    """The exercises that are the learner's."""
    filled: dict[str, list[str]] = field(default_factory=dict)
    """What the reference stands in for, by the reason."""
    fingerprint: str = ""
    """Of the files that they were made of: a run must not go on with others."""
    describe: Callable[[BaseException], str] | None = None
    """Tells a learner an error of theirs; the reference's parts have nobody to tell."""

    def lines(self) -> Iterator[str]:
        """Return whose parts they are, in a line for each kind; no lines if all are the reference's."""
        yield from whose(self.own, self.filled)

    @contextmanager
    def attribute_errors(self, what: str = "raise an error.") -> Iterator[None]:
        """Attribute errors within the context to the learner, if the parts are a learner's.

        Args:
            what: what the parts did, for the message.

        Raises:
            Refused: replaces the error.
        """
        try:
            yield
        except Refused:
            raise
        except (Exception, SystemExit) as error:  # a learner's code may raise anything
            if self.describe is None:
                raise
            message = f"The parts in {self.answers} {what} {self.describe(error)}"
            raise Refused(message) from error


def whose(own: list[str], filled: dict[str, list[str]]) -> Iterator[str]:
    """Return whose parts are used, in a line for each kind."""
    if own:
        yield f"Yours ({len(own)}): {', '.join(own)}"
    for reason, names in filled.items():
        yield f"From the reference ({len(names)}), {reason}: {', '.join(names)}"


REFERENCES = {
    "paper": Parts(implementation),
    "gpt": Parts(variants.gpt),
    "llama": Parts(variants.llama),
}
"""The reference's parts, by the setting `model`."""


class PartsProvider(Protocol):
    """An object that loads parts from a learner's files."""

    def keep(self, answers: Path, folder: Path) -> None:
        """Copy the files into a folder, so that a run does not depend on the originals.

        Raises:
            OSError: the copies could not be written.
            Refused: one of them cannot be read.
        """

    def load(self, settings: Settings, folder: Path) -> Parts:
        """Load parts from the files.

        Args:
            folder: the folder with the run's copy of the files.

        Raises:
            Refused: the files are gone, one cannot be loaded, or none of them is used.
        """

    def reasoner(self, answers: str, folder: Path) -> Parts:
        """Load the parts of a reasoner: a module with everything in `reasoning.parts.PARTS`.

        Args:
            answers: the folder of the original files, as the user named it.
            folder: the folder with the run's copy of the files.

        Raises:
            Refused: as for `load`.
        """

    def speaker(
        self, answers: Path, model: Path, report: Callable[[str], None]
    ) -> AbstractContextManager[TextGenerator]:
        """Load a published model that generates text with a learner's parts, in a separate process.

        Args:
            answers: the folder with the parts.
            model: the folder or file of the model.
            report: called with whose the parts are, in a line for each kind.

        Raises:
            Refused: a part or the model cannot be loaded, or none of the parts is used.
        """


def parts_of(settings: Settings, folder: Path, provider: PartsProvider | None) -> Parts:
    """Return the parts of a run: the reference's, unless the run names a learner's.

    Args:
        folder: the folder with the run's copy of a learner's files.
        provider: loads parts from these files.

    Raises:
        Refused: the run needs a learner's parts, which cannot be loaded.
    """
    if not settings.answers:
        return REFERENCES[settings.model]
    return needed(provider).load(settings, folder)


def needed(provider: PartsProvider | None) -> PartsProvider:
    """Return the provider, if a learner's parts are needed.

    Raises:
        Refused: there is no provider.
    """
    if provider is None:
        raise Refused(
            "This run has parts of a learner's, and this program cannot put them together"
        )
    return provider
