"""The split on which a learning rate is chosen: a part of the training split."""

from __future__ import annotations

from training.data.tasks import Text
from training.settings import Settings


class Selection(Text):
    """The training split of a text in place of all of it: nine tenths are learned, the last is held out.

    The validation split, on which results are reported, is not read.
    """

    def __init__(self, settings: Settings, text: Text):
        learned = text.languages.target.decode(text.learned.tolist())
        super().__init__(settings, learned, text.languages)
