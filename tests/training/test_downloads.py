"""Files from outside, from a server on this machine that fails in every way that servers fail."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from training.data import downloads
from training.data.downloads import File, find
from training.errors import Refused

ROOT = Path(__file__).parents[2]
CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)  # as long, so that only its bytes tell
HALF = len(CONTENT) // 2
BUFFER = 8192  # bytes that a file object may hold back
LONG = 300.0  # seconds after which a test that waits has failed

# Another program that fetches a file: `sys.argv` is its URL and digest.
PROGRAM = """
import signal, sys
from rich.console import Console
from training.data.downloads import File, find
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may start with Ctrl-C ignored
find(File("data/file.bin", sys.argv[1], sys.argv[2]), None, Console(stderr=True))
"""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def until(condition: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


class Site:
    """A server that answers each request as its script says, and properly once that is used up."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.etag: str | None = '"one"'
        self.date: str | None = None
        self.part = Path()  # where what is fetched grows
        self.requests: list[Message] = []
        self.script: list[Callable[[Answer], None]] = []
        self.gate = threading.Event()  # an answer may wait for it
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("_", (Answer,), {"site": self}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/file.bin"
        serving = {"poll_interval": 0.01}
        threading.Thread(target=self.server.serve_forever, kwargs=serving, daemon=True).start()

    def file(self, sha256: str = digest(CONTENT)) -> File:
        return File("data/file.bin", self.url, sha256)


class Answer(BaseHTTPRequestHandler):
    """One answer."""

    site: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        site = self.site
        site.requests.append(self.headers)
        (site.script.pop(0) if site.script else proper)(self)

    def log_message(self, *_: object) -> None:
        pass

    def begin(self, status: int, **headers: object) -> None:
        self.send_response(status)
        defaults = {"ETag": self.site.etag, "Last-Modified": self.site.date}
        for name, value in {**defaults, **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def fetched(self, count: int) -> None:
        """Wait until so much has come to the other side's disk."""
        until(lambda: self.site.part.exists() and self.site.part.stat().st_size >= count - BUFFER)


def proper(answer: Answer) -> None:
    answer.begin(200, Content_Length=len(answer.site.content))
    answer.wfile.write(answer.site.content)


def half(answer: Answer) -> None:
    """The first half, of what is announced as the whole."""
    answer.close_connection = True
    answer.begin(200, Content_Length=len(CONTENT))
    answer.wfile.write(answer.site.content[:HALF])
    answer.wfile.flush()
    answer.fetched(HALF)


def truncates(answer: Answer) -> None:
    half(answer)


def breaks_a_chunk(answer: Answer) -> None:
    answer.close_connection = True
    answer.begin(200, Transfer_Encoding="chunked")
    answer.wfile.write(b"%x\r\n" % len(CONTENT) + CONTENT[:HALF])


def resets(answer: Answer) -> None:
    half(answer)
    linger = struct.pack("ii", 1, 0)  # close() then sends a reset
    answer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    for stream in (answer.rfile, answer.wfile, answer.connection):
        stream.close()


def stalls(answer: Answer) -> None:
    half(answer)
    answer.site.gate.wait(LONG)


def waits(answer: Answer) -> None:
    """Half at once, and the rest when the gate opens."""
    half(answer)
    answer.site.gate.wait(LONG)
    answer.wfile.write(CONTENT[HALF:])


def wrong(answer: Answer) -> None:
    answer.begin(200, Content_Length=len(OTHER))
    answer.wfile.write(OTHER)


def says(status: int) -> Callable[[Answer], None]:
    return lambda answer: answer.begin(status, Content_Length=0)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no proxy, and little patience."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "WAIT", 0.0)
    monkeypatch.setattr(downloads, "POLL_SECONDS", 0.01)
    return tmp_path / "cache"


@pytest.fixture
def target(cache: Path) -> Path:
    return cache / "data" / "file.bin"


@pytest.fixture
def part(target: Path) -> Path:
    return target.with_name("file.bin.part")


@pytest.fixture
def site(part: Path) -> Iterator[Site]:
    site = Site()
    site.part = part
    yield site
    site.gate.set()
    site.server.shutdown()
    site.server.server_close()


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=60)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_fetched_into_the_cache_and_leaves_nothing_else(
    site: Site, target: Path, console: Console
) -> None:
    assert find(site.file(), None, console) == target
    assert target.read_bytes() == CONTENT
    assert names(target.parent) == {"file.bin"}
    assert said(console) == "Fetching data/file.bin (0.3 MB)\n"


def test_what_is_in_the_cache_is_not_asked_for_again(site: Site, console: Console) -> None:
    paths = {find(site.file(), None, console) for _ in range(3)}
    assert len(paths) == 1
    assert len(site.requests) == 1


def test_a_terminal_is_shown_a_bar(site: Site) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    find(site.file(), None, terminal)
    assert "━" in said(terminal)
    assert "Fetching" not in said(terminal)


def test_the_file_has_its_name_only_when_it_is_whole(
    site: Site, target: Path, console: Console
) -> None:
    here: list[bool] = []

    def looks(answer: Answer) -> None:
        half(answer)
        here.append(target.exists())
        answer.wfile.write(CONTENT[HALF:])

    site.script = [looks]
    find(site.file(), None, console)
    assert here == [False]


def test_a_packed_file_stays_packed(site: Site, target: Path, console: Console) -> None:
    """Even where the server calls its packing the way it travels, as some do with every .gz."""
    packed = gzip.compress(b"words " * 1000)

    def travels_packed(answer: Answer) -> None:
        answer.begin(200, Content_Length=len(packed), Content_Encoding="gzip")
        answer.wfile.write(packed)

    site.script = [travels_packed]
    find(site.file(digest(packed)), None, console)
    assert target.read_bytes() == packed
    assert site.requests[0]["Accept-Encoding"] == "identity"


def test_an_empty_file_is_a_file(site: Site, target: Path, console: Console) -> None:
    site.content = b""
    find(site.file(digest(b"")), None, console)
    assert target.read_bytes() == b""


def moves(answer: Answer) -> None:
    answer.begin(302, Content_Length=0, Location=answer.site.url)


FAULTS = {
    **{
        fault.__name__: (fault,)
        for fault in (truncates, breaks_a_chunk, resets, stalls, moves, wrong)
    },
    "busy": (says(503), says(429)),
}


@pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS)
def test_the_file_arrives_after_a_fault(
    script: tuple[Callable[[Answer], None], ...],
    site: Site,
    target: Path,
    console: Console,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if stalls in script:
        monkeypatch.setattr(downloads, "STALL", 1.0)  # not less: a busy machine is no stall
    site.script = list(script)
    find(site.file(), None, console)
    assert target.read_bytes() == CONTENT
    assert len(site.requests) == len(script) + 1
    assert said(console).count("trying again") == (0 if moves in script else len(script))
    assert names(target.parent) == {"file.bin"}


def test_a_server_that_stays_busy_is_left_alone_in_the_end(site: Site, console: Console) -> None:
    site.script = [says(503)] * 50
    with pytest.raises(Refused, match=r"data/file\.bin could not .* 127\.0\.0\.1: .*503"):
        find(site.file(), None, console)
    assert len(site.requests) == downloads.TRIES


def test_waits_grow(site: Site, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(downloads, "WAIT", 1.0)
    monkeypatch.setattr(time, "sleep", waited.append)
    site.script = [says(503)] * 2
    find(site.file(), None, console)
    assert waited == [2.0, 4.0]


def test_a_file_that_is_always_wrong_is_refused(site: Site, target: Path, console: Console) -> None:
    site.content = OTHER
    with pytest.raises(Refused) as refused:
        find(site.file(), None, console)
    for word in (site.url, digest(CONTENT)[:12], digest(OTHER)[:12]):
        assert word in str(refused.value)
    assert len(site.requests) == downloads.TRIES
    assert names(target.parent) == {"file.bin.lock"}


@pytest.mark.parametrize("status", [401, 404, 410])
def test_a_plain_no_is_final(status: int, site: Site, console: Console) -> None:
    site.script = [says(status)]
    with pytest.raises(Refused, match=rf"127\.0\.0\.1: it answered {status}\."):
        find(site.file(), None, console)
    assert len(site.requests) == 1


def offline_words(refused: str, target: Path) -> None:
    for word in ("data/file.bin", "once", str(target), "--data-dir"):
        assert word in refused


def test_offline(target: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens: it is said at once, without trying again."""
    monkeypatch.setattr(downloads, "WAIT", 1000.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # taken, so that nobody else can listen there
        file = File(
            "data/file.bin", f"http://127.0.0.1:{silent.getsockname()[1]}/", digest(CONTENT)
        )
        with pytest.raises(Refused, match=r"fetched from 127\.0\.0\.1") as refused:
            find(file, None, console)
    offline_words(str(refused.value), target)


def test_no_such_host(target: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(downloads, "WAIT", 1000.0)
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Refused, match=r"from data\.example: .*not known") as refused:
        find(File("data/file.bin", "https://data.example/file.bin", digest(CONTENT)), None, console)
    offline_words(str(refused.value), target)


def test_a_damaged_cache_is_fetched_again(site: Site, target: Path, console: Console) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(OTHER)
    find(site.file(), None, console)
    assert target.read_bytes() == CONTENT
    assert f"{target} is damaged" in said(console)


@pytest.mark.parametrize("location", ["data/file.bin", "file.bin"])
def test_a_data_folder_that_has_the_file(
    location: str, site: Site, tmp_path: Path, console: Console
) -> None:
    path = tmp_path / location
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(CONTENT)
    assert find(site.file(), tmp_path, console) == path
    assert site.requests == []
    assert names(path.parent) - {"data"} == {"file.bin"}


@pytest.mark.parametrize("location", ["data/file.bin", "file.bin"])
def test_a_data_folder_that_has_another_file_is_left_as_it_is(
    location: str, site: Site, tmp_path: Path, console: Console
) -> None:
    path = tmp_path / location
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(OTHER)
    with pytest.raises(Refused) as refused:
        find(site.file(), tmp_path, console)
    for word in (str(path), digest(CONTENT)[:12], digest(OTHER)[:12]):
        assert word in str(refused.value)
    assert path.read_bytes() == OTHER
    assert site.requests == []


def test_a_data_folder_that_lacks_the_file_receives_it(
    site: Site, cache: Path, tmp_path: Path, console: Console
) -> None:
    folder = tmp_path / "new" / "folder"
    assert find(site.file(), folder, console) == folder / "data" / "file.bin"
    assert (folder / "data" / "file.bin").read_bytes() == CONTENT
    assert not cache.exists()
    find(site.file(), folder, console)
    assert len(site.requests) == 1


def test_a_folder_that_cannot_be_made(site: Site, cache: Path, console: Console) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(Refused, match="--data-dir") as refused:
        find(site.file(), None, console)
    assert str(cache / "data") in str(refused.value)
    assert site.requests == []


@contextlib.contextmanager
def room(count: int) -> Iterator[None]:
    """A disk, as it were, on which a file has room for so many bytes."""
    resource = pytest.importorskip("resource")  # not on Windows
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_full_disk(site: Site, target: Path, console: Console) -> None:
    with room(100_000), pytest.raises(Refused, match="make room") as refused:
        find(site.file(), None, console)
    assert str(target.parent) in str(refused.value)
    find(site.file(), None, console)
    assert target.read_bytes() == CONTENT


@contextlib.contextmanager
def program(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """Another program that fetches the file."""
    command = [sys.executable, "-c", PROGRAM, site.url, digest(CONTENT)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    with process:
        try:
            yield process
        finally:
            process.kill()


class Opening(io.StringIO):
    """What is printed, which opens a gate soon after it has this word."""

    def __init__(self, word: str, gate: threading.Event) -> None:
        super().__init__()
        self._word, self._gate = word, gate

    def write(self, text: str) -> int:
        if self._word in text:
            threading.Timer(0.2, self._gate.set).start()  # so that the waiting takes a while
        return super().write(text)


@contextlib.contextmanager
def thread(site: Site) -> Iterator[None]:
    """Another thread that fetches the file."""
    console = Console(file=io.StringIO())
    other = threading.Thread(target=find, args=(site.file(), None, console))
    other.start()
    yield
    other.join(LONG)
    assert not other.is_alive()


@pytest.mark.parametrize("other", [thread, program])
def test_of_two_at_once_one_fetches_and_the_other_waits(
    other: Callable[[Site], contextlib.AbstractContextManager[object]],
    site: Site,
    part: Path,
    target: Path,
) -> None:
    site.script = [waits]
    console = Console(file=Opening("waiting", site.gate), width=200)
    with other(site) as process:
        until(part.exists)
        assert find(site.file(), None, console) == target
        assert target.read_bytes() == CONTENT
        if isinstance(process, subprocess.Popen):
            assert process.wait(LONG) == 0
    assert len(site.requests) == 1
    assert "Fetching" not in said(console)
    assert names(target.parent) == {"file.bin"}


def test_whoever_waits_for_one_that_gives_up_fetches_it(
    site: Site, part: Path, target: Path
) -> None:
    site.script = [stalls]
    console = Console(file=Opening("waiting", site.gate), width=200)
    with program(site) as process:
        until(part.exists)

        def ends() -> None:
            site.gate.wait(LONG)
            process.kill()

        ending = threading.Thread(target=ends)
        ending.start()
        find(site.file(), None, console)
        ending.join()
    assert target.read_bytes() == CONTENT
    assert "waiting" in said(console)
