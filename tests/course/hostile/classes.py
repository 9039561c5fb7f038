"""Who is in the class, the hostile and the honest; and how it is graded, in one command."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from course.curriculum import BY_NUMBER, DAYS, ROOT
from course.grading.reports.escaping import file_name
from tests.course.hostile import (
    archives,
    bombs,
    couriers,
    exits,
    frames,
    lies,
    sources,
    thieves,
    words,
)
from tests.course.hostile.kinds import GRADED, right

THEMES = (exits, lies, thieves, couriers, bombs, frames, sources, archives, words)
KINDS = [kind for theme in THEMES for kind in theme.KINDS]

# Their names must be found nowhere but in what is their own.
HONEST = {
    "bea-quillfeather": {},
    "gus-thistlewood": {2: right(2).replace("/ math.sqrt(query.shape[-1])", "")},
    "mia-larkspur": {1: right(1).replace("x - x.max(axis=axis, keepdims=True)", "x"), 8: None},
    "tom-ravenscroft": {
        2: DAYS[1].stub.read_text(encoding="utf-8"),
        8: "import maths\n" + right(8),
    },
    "zoe-honeycombe": {},
}

SEED = 20
SECRET = "COURSE_TEST_SECRET"  # in the grader's environment
MARK = "hostile-mark"  # in the name of whatever an attack leaves somewhere


@contextlib.contextmanager
def listeners():
    """Sockets of this machine at which an attack would arrive: two of one port, one of a name."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as local,
    ):
        udp.bind(tcp.getsockname())
        local.bind(f"\0course-hostile-{tcp.getsockname()[1]}")
        local.listen()
        yield tcp, udp, local


def called(sockets):
    """Those at which something has arrived."""
    return select.select(sockets, [], [], 0)[0]


@dataclass
class Class:
    """A class, and what came of grading it.

    Attributes:
        folder: all that the run writes lies in it.
        processes: the ids of all processes that took part in grading.
    """

    folder: Path
    processes: set[int] = field(default_factory=set)
    returncode: int = -1
    printed: str = ""

    def __post_init__(self):
        for path in (self.submissions, self.temporary):
            path.mkdir()

    @property
    def submissions(self):
        return self.folder / "submissions"

    @property
    def out(self):
        return self.folder / "out"

    @property
    def temporary(self):
        return self.folder / "temporary"

    def add_kind(self, kind, port):
        """The submission of a hostile kind."""
        if kind.build is None:
            self.add(kind.learner or kind.name, kind.days, kind.beside, port)
        else:
            kind.build(self.submissions / (kind.learner or kind.name))

    def add(self, learner, days, beside=None, port=0):
        """A folder of right answers but for some days, and of other files; None is not handed in.

        Days beyond `GRADED` are those that are given.
        """
        values = {"ROOT": ROOT, "SUBMISSIONS": self.submissions, "OUT": self.out, "PORT": port}
        exercises = self.submissions / os.fsdecode(learner) / "exercises"
        numbers = {*GRADED, *days}
        files = {f"{BY_NUMBER[n].stem}.py": days.get(n, right(n)) for n in numbers} | (beside or {})
        for name, content in files.items():
            if content is None:
                continue
            (exercises / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                for word, value in values.items():
                    content = content.replace(f"@{word}@", str(value))
                content = content.encode()
            (exercises / name).write_bytes(content)

    def grade(self, jobs, days=GRADED, kill_at=None):
        """Grade it as an instructor would, and note which processes do.

        With `kill_at`, the command is killed as soon as so many learners have a result.
        """
        command = [sys.executable, "-m", "course.cli", "grade", self.submissions, "--out", self.out]
        command += ["--days", ",".join(map(str, days)), "--seed", SEED, "--jobs", jobs]
        environment = {
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            SECRET: "tell nobody",
        }
        with (self.folder / "printed").open("w+b") as printed:
            run = subprocess.Popen(
                list(map(str, command)),
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            try:
                while run.poll() is None:
                    with contextlib.suppress(psutil.Error, subprocess.TimeoutExpired):
                        children = psutil.Process(run.pid).children()
                        self.processes |= {run.pid, *(child.pid for child in children)}
                        run.wait(0.2)
                    if kill_at is not None and len(self.finished()) >= kill_at:
                        run.kill()
            finally:
                run.kill()
            printed.seek(0)
            self.returncode, self.printed = run.returncode, printed.read().decode()

    def finished(self):
        """The learners' results that are there, by the names of their files."""
        return {path.name: path.read_bytes() for path in (self.out / "results").glob("*.json")}

    def result(self, learner):
        """What `results/` says of a learner."""
        path = self.out / "results" / f"{file_name(learner)}.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def page(self, learner):
        """The learner's page of feedback."""
        return (self.out / "feedback" / f"{file_name(learner)}.html").read_text(encoding="utf-8")
