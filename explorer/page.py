"""What all pages have: a head with question and days, controls kept in the address, and whose code runs."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import marimo as mo
from anywidget import AnyWidget
from traitlets import TraitError

from course.curriculum import BY_NUMBER, DAYS
from course.terminal.arguments import EXERCISES
from explorer.answer import Failed, LearnerParts, NotWritten
from explorer.topics import TOPICS, topic_of

REFERENCE, OWN = "the reference", "my exercises"
ANSWERS = "COURSE_ANSWERS"  # in the environment: where the learner's files lie


def head(name: str) -> mo.Html:
    """The page's title and question, what to try, and the way to its days and to the next page."""
    topic = topic_of(name)
    days = " · ".join(
        f'<a href="../day/{number}" target="_blank">Day {number}, {escape(BY_NUMBER[number].title)}</a>'
        for number in topic.days
    )
    following = TOPICS[(TOPICS.index(topic) + 1) % len(TOPICS)]
    return mo.Html(
        f'<header class="head"><nav><a href="../">All pages</a> <span>{days}</span>'
        f'<a class="next" href="../{following.name}/">Next: {escape(following.title)} →</a></nav>'
        f'<h1>{escape(topic.title)}</h1><p class="question">{escape(topic.question)}</p>'
        f'<p class="suggestion"><b>Try:</b> {escape(topic.suggestion)}</p></header>'
    )


class Controls:
    """Controls whose values are kept in the page's address, so that a view can be sent.

    An address that holds what a control cannot take is read as if it held nothing.
    """

    def __init__(self) -> None:
        self._address = mo.query_params()

    def slider(self, name: str, label: str, steps: Sequence[float], value: float) -> Any:
        """A number, one of some steps."""
        stored = self._kept(name, value)
        return mo.ui.slider(
            steps=list(steps),
            value=stored if stored in steps else value,
            label=label,
            show_value=True,
            on_change=self._keep(name),
            full_width=True,
        )

    def choice(
        self,
        name: str,
        label: str,
        options: Sequence[str],
        value: str,
        forgets: Sequence[str] = (),
    ) -> Any:
        """One of some words; the next choice resets the controls that it `forgets`."""
        stored = self._address.get(name, value)  # as it is: one of the words may be a number
        return mo.ui.dropdown(
            list(options),
            value=stored if stored in options else value,
            label=label,
            on_change=self._keep(name, forgets),
            allow_select_none=False,
        )

    def one_of(self, name: str, label: str, options: Sequence[str], value: str) -> Any:
        """One of a few words that are all seen: what a page shows of several things."""
        stored = self._address.get(name, value)
        return mo.ui.radio(
            list(options),
            value=stored if stored in options else value,
            label=label,
            inline=True,
            on_change=self._keep(name),
        )

    def switch(self, name: str, label: str, value: bool = False) -> Any:
        """On or off."""
        stored = self._kept(name, value)
        return mo.ui.switch(value=stored is True, label=label, on_change=self._keep(name))

    def text(self, name: str, label: str, value: str) -> Any:
        """Words, taken when the field is left or Enter is pressed."""
        stored = self._address.get(name)  # as it is: a sentence may be a number
        return mo.ui.text(
            value=stored if isinstance(stored, str) else value,
            label=label,
            on_change=self._keep(name),
            full_width=True,
        )

    def widget(self, widget: AnyWidget, *traits: str) -> Any:
        """An anywidget, of which some traits are kept: those that it refuses are read as if not there."""
        for name in traits:
            with suppress(TraitError):
                setattr(widget, name, self._kept(name, getattr(widget, name)))
            keep = self._keep(name)
            widget.observe(lambda change, keep=keep: keep(change.new), name)
        return mo.ui.anywidget(widget)

    def move(self, name: str, by: int, steps: Sequence[float], value: float) -> float:
        """For a button that moves a slider, which then has to be made again: the step where it begins."""
        stored = self._kept(name, value)
        now = steps.index(stored if stored in steps else value)
        moved = steps[min(max(now + by, 0), len(steps) - 1)]
        self._keep(name)(moved)
        return moved

    def remembered(self, name: str, otherwise: Any) -> Any:
        """What `remember` has put into the address: for what buttons do, and no control holds."""
        return self._kept(name, otherwise)

    def remember(self, name: str, value: Any) -> None:
        """Keep it in the address."""
        self._keep(name)(value)

    def answers(self, topic: str) -> Any:
        """Who computes: the reference or the learner."""
        names = " and ".join(topic_of(topic).exercises)
        return self.choice("answers", f"{names} computed by", (REFERENCE, OWN), REFERENCE)

    def _kept(self, name: str, otherwise: Any) -> Any:
        text = self._address.get(name)
        if text is None:
            return otherwise
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _keep(self, name: str, forgets: Sequence[str] = ()) -> Callable[[Any], None]:
        def keep(value: Any) -> None:
            self._address[name] = value if isinstance(value, str) else json.dumps(value)
            for other in forgets:
                self._address.remove(other)

        return keep


def parts(name: str, chosen: str, number: int | None = None) -> Any:
    """The functions that a page computes with.

    Args:
        name: of the page.
        chosen: `REFERENCE` or `OWN`, the files in the folder that `course explore --answers`
            names, or in `exercises/`.
        number: of the day that they are of; the page's first if left out.
    """
    day = DAYS[(number or topic_of(name).days[0]) - 1]
    reference = importlib.import_module(day.references[0].removesuffix(".py").replace("/", "."))
    answers = Path(os.environ.get(ANSWERS, EXERCISES))
    return reference if chosen == REFERENCE else LearnerParts(reference, day, answers)


def each(parts: Any, name: str, calls: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """What a function of the parts returns for each of many arguments; a learner's own is asked once."""
    if isinstance(parts, LearnerParts):
        return parts.each(name, calls)
    return [getattr(parts, name)(*arguments) for arguments in calls]


def shown(draw: Callable[[], str], using: Any = None) -> mo.Html:
    """What a page draws; or, in its place, what a learner's own function did instead.

    Args:
        draw: makes the page's HTML.
        using: the parts that it computes with, if they may be a learner's.
    """
    try:
        content = draw()
    except Failed as failure:
        heading = (
            "There is nothing to draw yet."
            if isinstance(failure, NotWritten)
            else "Your answer returned nothing that can be drawn."
        )
        return mo.Html(
            f'<div class="failed" role="alert"><strong>{heading}</strong>'
            f"<pre>{escape(str(failure))}</pre>"
            "<p>Save your file, then move any control: it is called again.</p></div>"
        )
    return mo.Html(f'<div class="drawn" aria-live="polite">{_compared(using)}{content}</div>')


def _compared(using: Any) -> str:
    if not isinstance(using, LearnerParts):
        return ""
    differences = ", ".join(
        f"<code>{escape(name)}</code> "
        + (f"differs from the reference by up to {apart:.3g}" if apart > 1e-5 else "is right here")
        for name, apart in using.apart.items()
    )
    return f'<p class="compared">Yours: {differences}.</p>'


def beside(*controls: Any) -> mo.Html:
    """Controls in a row that breaks where it is narrow."""
    return mo.Html(f'<div class="controls">{"".join(control.text for control in controls)}</div>')
