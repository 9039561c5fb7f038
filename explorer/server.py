"""The server of the pages: a list of them, each page, and the lesson of each day that they lead to."""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path

import marimo
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route

from course.curriculum import DAYS, Day
from explorer.topics import TOPICS

STYLE = Path(__file__).with_name("page.css")


def application() -> Starlette:
    """All pages under their names, as a web application."""
    pages = marimo.create_asgi_app(quiet=True)
    for topic in TOPICS:
        pages = pages.with_app(path=f"/{topic.name}", root=str(topic.file))
    return Starlette(
        routes=[
            Route("/", _contents),
            Route("/day/{number:int}", _day),
            Mount("/", pages.build()),
        ]
    )


def _contents(_: Request) -> Response:
    listed = "".join(
        f'<li><a href="{topic.name}/">{escape(topic.title)}</a><p>{escape(topic.question)}</p>'
        f"<small>{', '.join(f'day {day}' for day in topic.days)}</small></li>"
        for topic in TOPICS
    )
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>The explorer</title>'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head>"
        f'<body class="contents"><main><h1>The explorer</h1><ul>{listed}</ul></main></body></html>'
    )


def _day(request: Request) -> Response:
    number = request.path_params["number"]
    found = next((day for day in DAYS if day.number == number), None)
    if found is None:
        return HTMLResponse(f"<p>There is no day {number}: they are 1 to {len(DAYS)}.</p>", 404)
    return HTMLResponse(_lesson(found))


@functools.cache
def _lesson(day: Day) -> str:
    """A day's lesson, as it was executed."""
    from nbconvert import HTMLExporter  # takes half a second, and not every visit leads here

    page, _ = HTMLExporter().from_filename(str(day.lesson))
    return str(page)
