"""The explorer's pages on the site, which cannot run them: a still of each, or an animation."""

from __future__ import annotations

from itertools import product

from explorer.topics import Topic, picture_of


def pictures(topic: Topic, stills: str) -> str:
    """The pictures of a page, of which `site.css` shows the one for the theme and for how much may move.

    Args:
        stills: the folder of the pictures, from where this text stands.
    """
    return "\n\n".join(
        f"```{{image}} {stills}/{picture_of(topic.name, dark, moving)}\n"
        f":alt: The page: {topic.title}\n"
        f":class: {'only-dark' if dark else 'only-light'} {'moving' if moving else 'resting'}\n"
        ":loading: lazy\n```"
        for dark, moving in product((False, True), repeat=2)
    )
