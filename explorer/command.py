"""`course explore`: the pages, served to the browser of this machine."""

from __future__ import annotations

import os
import socket
import threading
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from course.terminal import display
from course.terminal.arguments import EXERCISES, Answers
from explorer.topics import NoSuchTopic, topic_of

HERE = "127.0.0.1"  # pages run a learner's code: nobody else's business


def explore(
    topic: Annotated[
        str | None, typer.Argument(help="A page, such as softmax; the list of all if left out.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the server; 0 takes a free one.")
    ] = 0,
    answers: Answers = EXERCISES,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Pages to play with, computed by the references and, where you like, by your own answers."""
    try:
        path = f"/{topic_of(topic).name}/" if topic else "/"
    except NoSuchTopic as error:
        raise typer.BadParameter(str(error)) from error
    import uvicorn  # what serves takes a second to import, and a wrong name is told at once

    from explorer.page import ANSWERS
    from explorer.server import application

    os.environ[ANSWERS] = str(answers.resolve())

    with socket.socket() as listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((HERE, port))
        except OSError as error:
            raise typer.BadParameter(f"port {port} cannot be had: {error.strerror}") from error
        listening.listen()
        address = f"http://{HERE}:{listening.getsockname()[1]}{path}"
        display.console().print(f"The explorer is at {address}\nCtrl-C ends it.")
        if browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        # A page that is open would keep it from ending for as long as somebody looks at it.
        settings = uvicorn.Config(application(), log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(settings)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
        os._exit(0)  # the threads of pages that are open would keep the process
