"""`course explore`: the pages, served to the browser of this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer
from rich.text import Text

from course.terminal import display
from course.terminal.arguments import EXERCISES, Answers
from explorer.topics import NoSuchTopic, topic_of

HERE = "127.0.0.1"  # pages run a learner's code, so only this machine may open them
WARNING = (
    "Everyone who can reach this address can open the pages, and through them call the code of your "
    "answers on this machine. There is no password and no encryption: use --host only in a network that "
    "you trust."
)


def explore(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="PAGE", help="A page, such as softmax; by default the list of all pages."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free port.")
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where the server listens. 0.0.0.0 lets other machines connect, for a container or a remote "
            "machine: only in a network that you trust.",
        ),
    ] = HERE,
    answers: Answers = EXERCISES,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open interactive pages, computed by the references or by your own answers."""
    try:
        path = f"/{topic_of(topic).name}/" if topic else "/"
    except NoSuchTopic as error:
        raise typer.BadParameter(str(error)) from error
    import uvicorn  # what serves takes a second to import, and a wrong name is refused at once

    from explorer.page import ANSWERS
    from explorer.page_server import application

    os.environ[ANSWERS] = str(answers.resolve())

    with _listening(host, port) as listening:
        bound, taken = listening.getsockname()[:2]
        where = ipaddress.ip_address(bound)
        address = f"http://{_name_of(where)}:{taken}{path}"
        display.console().print(f"The explorer is at {address}\nCtrl-C ends it.", soft_wrap=True)
        if not where.is_loopback:
            display.console(stderr=True).print(Text(WARNING, "failed"))
        elif browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        # An open page would keep the server from ending.
        settings = uvicorn.Config(application(), log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(settings)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
        os._exit(0)  # the threads of pages that are open would keep the process


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens at an address, or at that of a name."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise typer.BadParameter(f"there is no address {host!r}", param_hint="--host") from error
    listening = socket.socket(family, kind)
    try:
        if sys.platform != "win32":  # there, two explorers would share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise typer.BadParameter(
            f"port {port} of {host} cannot be had: {error.strerror}", param_hint="--port"
        ) from error
    listening.listen()
    return listening


def _name_of(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as a browser takes it; this machine's name, where it is all addresses."""
    if address.is_unspecified:
        return socket.gethostname()
    return f"[{address}]" if address.version == 6 else str(address)
