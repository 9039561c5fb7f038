"""The server of the pages: a list of them, each page, and the lesson of each day that they lead to."""

from __future__ import annotations

from html import escape
from pathlib import Path

import marimo
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from course.curriculum import DAYS, LAST_DAY, ROOT
from explorer.topics import STILLS, TOPICS, Topic

SITE = ROOT / ".site" / "html"  # where `make site` writes it
ICON = Path(__file__).with_name("favicon.svg")
FONT = Path(__file__).with_name("font")
STYLE = Path(__file__).with_name("page.css")
THUMBNAILS = Path(__file__).with_name(
    "thumbnails.svg"
)  # one for each page, at the size of the list
LETTERS = Path(marimo.__file__).parent / "_static" / "assets"


def application() -> Starlette:
    """All pages under their names, as a web application."""
    pages = marimo.create_asgi_app(quiet=True)
    for topic in TOPICS:
        pages = pages.with_app(path=f"/{topic.name}", root=str(topic.file))
    return Starlette(
        routes=[
            Route("/", _contents),
            Route("/favicon.svg", lambda _: FileResponse(ICON)),
            Route("/day/{number:int}", _day),
            Route("/paper_notes/{name}", _note),
            Mount("/font", StaticFiles(directory=FONT)),
            Mount("/letters", StaticFiles(directory=LETTERS)),
            Mount("/stills", StaticFiles(directory=STILLS)),
            Mount("/site", StaticFiles(directory=SITE, html=True, check_dir=False)),
            Mount("/", pages.build()),
        ]
    )


def _contents(_: Request) -> Response:
    listed = "".join(
        f'<li><svg class="thumbnail" aria-hidden="true"><use href="#{topic.name}"/></svg>'
        f'<a href="{topic.name}/">{escape(topic.title)}</a><p>{escape(topic.question)}</p>'
        f"<small>{escape(_days(topic))}</small></li>"
        for topic in TOPICS
    )
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        "<title>Transformers from scratch: the explorer</title>"
        '<link rel="icon" href="favicon.svg">'
        f"<style>{STYLE.read_text(encoding='utf-8')}{_letters()}</style></head>"
        f'<body class="contents">{THUMBNAILS.read_text(encoding="utf-8")}'
        '<main><header><h1><img src="favicon.svg" alt=""> Transformers from scratch: the explorer</h1>'
        "<p>Each page answers a question while you move its controls. Every number comes from the course's "
        "reference or, if you like, from your own code. Begin with softmax.</p></header>"
        f"<ul>{listed}</ul></main></body></html>"
    )


def _letters() -> str:
    """The letters of marimo's pages, for a page that is not one of them."""
    weights = {"Regular": 400, "Bold": 700}
    return "".join(
        f'@font-face {{ font-family: "PT Sans"; font-weight: {weight}; src: url("letters/{file.name}") }}'
        for name, weight in weights.items()
        for file in LETTERS.glob(f"PTSans-{name}-*.woff2")
    )


def _days(topic: Topic) -> str:
    days = [str(day) for day in sorted(topic.days)]
    return f"Day {days[0]}" if len(days) == 1 else f"Days {', '.join(days[:-1])} and {days[-1]}"


def _day(request: Request) -> Response:
    """The day's lesson: a page of the site where that is built."""
    number = request.path_params["number"]
    chosen = next((day for day in DAYS if day.number == number), None)
    if chosen is None:
        return HTMLResponse(f"<p>There is no day {number}: they are 1 to {LAST_DAY}.</p>", 404)
    if (SITE / "lessons" / f"{chosen.stem}.html").exists():
        return RedirectResponse(f"../site/lessons/{chosen.stem}.html")
    from explorer.lesson import (
        lesson,  # takes half a second to import, and not every visit leads here
    )

    return HTMLResponse(lesson(chosen))


def _note(request: Request) -> Response:
    from explorer.lesson import note  # as above

    page = note(request.path_params["name"])
    return HTMLResponse(page) if page else HTMLResponse("<p>There is no such note.</p>", 404)
