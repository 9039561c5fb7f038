"""What a model is made of: the reference's parts, or a learner's own, which a provider makes of files."""

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
    """What a model is made of, and whose that is."""

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
        """Whose parts they are, in a line for each kind; none where all are the reference's."""
        yield from whose(self.own, self.filled)

    @contextmanager
    def attribute_errors(self, what: str = "raise an error.") -> Iterator[None]:
        """Around what calls the parts: where they are a learner's, an error is told as one of theirs.

        Args:
            what: they did, as the error is told.

        Raises:
            Refused: in place of the error.
        """
        try:
            yield
        except Refused:
            raise
        except (Exception, SystemExit) as error:  # a learner's code may raise anything
            if self.describe is None:
                raise
            told = f"The parts in {self.answers} {what} {self.describe(error)}"
            raise Refused(told) from error


def whose(own: list[str], filled: dict[str, list[str]]) -> Iterator[str]:
    """Whose parts are used, in a line for each kind."""
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
    """Who makes parts of a learner's files."""

    def keep(self, answers: Path, folder: Path) -> None:
        """Copy the files into a folder, so that a run has them whatever becomes of the originals.

        Raises:
            OSError: the copies could not be written.
            Refused: one of them cannot be read.
        """

    def load(self, settings: Settings, folder: Path) -> Parts:
        """Make parts of them.

        Args:
            settings: of the run.
            folder: where it keeps the files.

        Raises:
            Refused: the files are gone, one cannot be loaded, or none of them is used.
        """

    def reasoner(self, answers: str, folder: Path) -> Parts:
        """Make parts of a reasoner of them: a module with everything in `reasoning.parts.PARTS`.

        Args:
            answers: the folder that they come from, as it was named.
            folder: where the run keeps the files.

        Raises:
            Refused: as for `load`.
        """

    def speaker(
        self, answers: Path, model: Path, told: Callable[[str], None]
    ) -> AbstractContextManager[TextGenerator]:
        """Have a published model speak by a learner's parts, in a process of its own.

        Args:
            answers: the folder with the parts.
            model: the folder or file of the model.
            told: hears whose the parts are, in a line for each kind.

        Raises:
            Refused: a part or the model cannot be loaded, or none of the parts is used.
        """


def parts_of(settings: Settings, folder: Path, provider: PartsProvider | None) -> Parts:
    """The parts of a run: the reference's, where it names no learner's.

    Args:
        settings: of the run.
        folder: where it keeps a learner's files.
        provider: who makes parts of them.

    Raises:
        Refused: they are wanted, and cannot be made.
    """
    if not settings.answers:
        return REFERENCES[settings.model]
    return needed(provider).load(settings, folder)


def needed(provider: PartsProvider | None) -> PartsProvider:
    """The provider, where parts of a learner's are wanted.

    Raises:
        Refused: there is none.
    """
    if provider is None:
        raise Refused(
            "This run has parts of a learner's, and this program cannot put them together"
        )
    return provider
