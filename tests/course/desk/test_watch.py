"""`course watch`: a verdict at every save, whatever the editor or the file system does."""

import io
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from rich.console import Console

from course.curriculum import DAYS, find_day
from course.desk import watching
from course.judging.results import CheckResult, DayResult
from course.terminal import display
from course.workers.checking import PendingVerdict

PATIENCE = 120  # seconds by the clock for a verdict, on a machine that is busy


def hear_interrupts():
    """As in a terminal: what a shell starts in the background ignores Ctrl-C, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def watch(project):
    """`course watch 2 --json`, and a function that waits for its next verdict."""
    process = subprocess.Popen(
        [*project.command, "watch", "2", "--json"],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=hear_interrupts if os.name == "posix" else None,
    )
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(
        target=lambda: [lines.put(line) for line in process.stdout], daemon=True
    ).start()

    def verdict(*statuses):
        """Wait until one of these is the verdict: a save may come in two events, each with its own."""
        while True:
            [day] = json.loads(lines.get(timeout=PATIENCE))["days"]
            if day["status"] in statuses:
                return

    verdict.process = process
    yield verdict
    process.kill()
    process.wait()


def test_saves_renames_and_deletions(watch, project, answer):
    """Written in place, replaced by renaming, half-saved, removed, moved away and back."""
    stub = project.exercise.read_text(encoding="utf-8")
    watch("not_started")

    project.exercise.write_text(answer.replace("math.sqrt", ""), encoding="utf-8")
    watch("failed")

    new = project.exercise.with_suffix(".tmp")
    new.write_text(answer, encoding="utf-8")
    new.replace(project.exercise)
    watch("passed")

    project.exercise.write_text(answer[: len(answer) // 2], encoding="utf-8")
    watch("error", "failed")

    project.exercise.unlink()
    watch("not_started")

    project.exercise.write_text(answer, encoding="utf-8")
    watch("passed")

    away = project.exercise.rename(project.root / "away.py")
    watch("not_started")
    away.rename(project.exercise)
    watch("passed")

    project.exercise.write_text("def attention(", encoding="utf-8")
    watch("error")
    project.exercise.write_text(stub, encoding="utf-8")
    watch("not_started")
    assert watch.process.poll() is None


@pytest.mark.slow
def test_it_survives_a_crash_of_the_answer(watch, project, answer):
    """A worker that dies takes nothing with it."""
    watch("not_started")
    spoilt = answer.replace("    scaled =", "    import os; os._exit(3)\n    scaled =")
    project.exercise.write_text(spoilt, encoding="utf-8")
    watch("error")
    project.exercise.write_text(answer, encoding="utf-8")
    watch("passed")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_interrupt_ends_it_and_its_workers(watch):
    """Ctrl-C: exit 0, and no process is left behind."""
    watch("not_started")
    children = psutil.Process(watch.process.pid).children(recursive=True)
    assert children
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(timeout=PATIENCE) == 0
    assert "Traceback" not in watch.process.stderr.read()
    assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []


INTERRUPTED = """\
import course.cli

def import_a_dataclass(**_):
    try:
        exec("raise KeyboardInterrupt")  # as one that comes while a dataclass is made
    except KeyboardInterrupt:
        pass

course.cli.app = import_a_dataclass
course.cli.main()
"""


@pytest.mark.slow
def test_an_interrupt_during_an_import_is_no_way_to_die(project):
    """Python ends a process by SIGINT if executed text was interrupted, though that was dealt with."""
    command = [sys.executable, "-c", INTERRUPTED]
    assert subprocess.run(command, env=project.environment()).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
class TestInATerminal:
    """With a real keyboard and screen."""

    @pytest.fixture
    def terminal(self, project):
        import pexpect

        child = pexpect.spawn(
            project.command[0],
            [*project.command[1:], "watch", "2"],
            cwd=str(project.root),
            env=project.environment(TERM="xterm-256color"),
            dimensions=(50, 100),
            encoding="utf-8",
            timeout=PATIENCE,
        )
        yield child
        child.close(force=True)

    def test_keys(self, terminal, project, answer):
        """r, h, n, p and ? do what the help line says, q ends, and the terminal echoes again."""
        terminal.expect("is yours to write")
        terminal.expect("q quit")
        terminal.send("h")
        terminal.expect("Hint 1 of 5")
        terminal.send("?")
        terminal.expect("without saving")
        terminal.send("n")
        terminal.expect("Day 3")
        terminal.send("p")
        terminal.expect("Day 2")
        terminal.expect("q quit")
        project.exercise.write_text(answer, encoding="utf-8")
        terminal.expect(r"(\d+) of \1 checks pass")
        terminal.expect("★ watertight")
        terminal.expect("n shows the next day")
        terminal.send("r")
        terminal.expect(r"(\d+) of \1 checks pass")
        terminal.expect("★ watertight")
        terminal.send("q")
        terminal.expect("Stopped watching")
        terminal.wait()
        assert terminal.exitstatus == 0

    def test_a_check_that_takes_long_is_shown_and_keys_are_heard(self, terminal, project, answer):
        """What is waited for replaces the old board; a key is answered, and a save ends the wait."""
        project.exercise.write_text(answer, encoding="utf-8")
        terminal.expect("★ watertight")
        terminal.expect("q quit")
        endless = answer.replace("    scaled =", "    while True: pass\n    scaled =")
        project.exercise.write_text(endless, encoding="utf-8")
        terminal.expect_exact("\x1b[2J")  # the old board is gone before anything else is shown
        terminal.expect(r"test_\w+ is running … \d+ s")
        terminal.send("h")
        terminal.expect("Hint 1 of 5")
        project.exercise.write_text(answer, encoding="utf-8")
        terminal.expect("★ watertight")
        project.exercise.write_text(endless, encoding="utf-8")
        terminal.expect(r"test_\w+ is running … \d+ s")
        terminal.send("q")
        terminal.expect("Stopped watching")
        terminal.wait()
        assert terminal.exitstatus == 0

    def test_other_keys_do_nothing(self, terminal):
        """Home, F1, F2, capitals and what is pasted: the first hint is still the first, and day 2 stays."""
        terminal.expect_exact("\x1b[?2004h")  # "please mark what is pasted"
        terminal.expect("q quit")
        for sent in ("\x1b[H", "\x1bOP", "\x1bOQ", "H", "Q", "\x1b[200~npq\x1b[201~"):
            terminal.send(sent)
            time.sleep(0.2)  # one key at a time
        terminal.send("h")
        assert terminal.expect(["Hint 1 of 5", "Hint 2", "Day 1", "Day 3", "Stopped watching"]) == 0
        terminal.send("q")
        terminal.expect_exact("\x1b[?2004l")
        terminal.expect("Stopped watching")

    def test_the_core_is_enough_to_go_on(self, terminal, project, loose):
        """What is only not watertight is an invitation, and the next day may come."""
        terminal.expect("q quit")
        project.exercise.write_text(loose, encoding="utf-8")
        terminal.expect(r"(\d+) of \1 checks pass")
        terminal.expect("An invitation to make `attention` watertight")
        terminal.expect("n shows the next day")

    def test_interrupt_leaves_the_terminal_sound(self, project):
        """After Ctrl-C the shell echoes what is typed, line by line, as before."""
        import pexpect

        shell = pexpect.spawn(
            "/bin/sh",
            cwd=str(project.root),
            env=project.environment(PS1="$ ", TERM="xterm"),
            dimensions=(50, 100),
            encoding="utf-8",
            timeout=PATIENCE,
        )
        shell.sendline("stty -g > before; " + " ".join([*project.command, "watch", "2"]))
        shell.expect("q quit")
        shell.sendintr()
        shell.expect("Stopped watching")
        shell.sendline("stty -g > after; echo do''ne")
        shell.expect("done")
        assert (project.root / "before").read_text() == (project.root / "after").read_text()
        shell.close(force=True)

    def test_the_terminal_goes(self, project):
        """Where a closed window's hang-up is ignored, as under nohup, it ends all the same."""
        import pexpect

        child = pexpect.spawn(
            project.command[0],
            [*project.command[1:], "watch", "2"],
            cwd=str(project.root),
            env=project.environment(TERM="xterm"),
            dimensions=(50, 100),
            ignore_sighup=True,
            timeout=PATIENCE,
        )
        child.expect("q quit")
        process = psutil.Process(child.pid)
        os.close(child.child_fd)
        process.wait(timeout=PATIENCE)


@pytest.fixture
def saves_of(project):
    """Follow day 2's file with `saves`; holds what it said, and waits for the next save it sees."""
    stop, saves, messages = threading.Event(), queue.Queue(), []
    day, folder = find_day("day02"), project.exercise.parent

    def follow():
        for _ in watching.saves(lambda: day, folder, stop, messages.append):
            saves.put(True)

    thread = threading.Thread(target=follow, daemon=True)

    def begin():
        thread.start()
        time.sleep(0.3)
        return saves, messages

    yield begin
    stop.set()
    thread.join(timeout=PATIENCE)
    assert not thread.is_alive()


def test_polling_where_no_events_come(project, monkeypatch, saves_of):
    """A file system that reports nothing is found out by itself, said once, and polled from then on."""

    def deaf(*paths, stop_event, **options):
        while not stop_event.wait(0.05):
            yield set()

    monkeypatch.setattr(watching.watchfiles, "watch", deaf)
    saves, messages = saves_of()
    for text in ("first", "second, longer", "third, longer still"):
        project.exercise.write_text(text, encoding="utf-8")
        saves.get(timeout=PATIENCE)
        time.sleep(0.4)
    assert len(messages) == 1
    assert "looked at every" in messages[0]


@pytest.mark.parametrize(
    "error",
    [
        OSError("OS file watch limit reached."),
        RuntimeError("Error creating recommended watcher: Too many open files (os error 24)"),
        PermissionError("Permission denied"),
    ],
)
def test_polling_where_no_more_can_be_watched(project, monkeypatch, saves_of, error):
    """Other programs hold all inotify watches, or all instances, or the folder is closed: that is said, and
    saves are still seen."""

    def refuse(*paths, **options):
        raise error

    monkeypatch.setattr(watching.watchfiles, "watch", refuse)
    saves, messages = saves_of()
    for text in ("first", "second, longer"):
        project.exercise.write_text(text, encoding="utf-8")
        saves.get(timeout=PATIENCE)
    assert len(messages) == 1
    assert "looked at every" in messages[0]
    assert ("other programs" in messages[0]) == ("many" in str(error) or "limit" in str(error))


def test_events_are_enough_where_they_come(project, saves_of):
    """No polling on an ordinary file system, even when nothing happens for a while."""
    saves, messages = saves_of()
    time.sleep(2.5)
    for text in ("first", "second, longer"):
        project.exercise.write_text(text, encoding="utf-8")
        assert saves.get(timeout=PATIENCE)
        time.sleep(1.2)
    (project.exercise.parent / "other.py").write_text("", encoding="utf-8")
    time.sleep(0.3)
    assert messages == []
    assert saves.empty()


@pytest.mark.slow
def test_watch_without_a_day_takes_the_next(project):
    """The first day that does not pass."""
    accepted = sorted((project.root / "tests" / "days" / "accepted" / "day01_softmax").glob("*.py"))
    shutil.copy(accepted[0], project.exercise.parent / "day01_softmax.py")
    process = subprocess.Popen(
        [*project.command, "watch", "--json"],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        [day] = json.loads(process.stdout.readline())["days"]
        assert day["day"] == 2
    finally:
        process.kill()
        process.wait()


def test_what_is_said_of_the_file_system_stays_on_the_screen(tmp_path):
    """A verdict clears the screen."""
    console = Console(file=io.StringIO(), force_terminal=True, theme=display.THEME)
    watch = watching.Watch(DAYS[1], tmp_path, console, as_json=False, seed=0)
    watch._checked = checked = PendingVerdict(DayResult(DAYS[1], (), begun=True))
    watch._result = checked.result
    watch._notice("The file is looked at.")
    watch._show()
    assert console.file.getvalue().count("The file is looked at.") == 2


@pytest.mark.parametrize("rows", [4, 9, 14])
@pytest.mark.parametrize("printed", ["one", "a line\n" * 400, "long " * 2000])
def test_what_is_printed_pushes_no_title_off_the_screen(rows, printed, tmp_path):
    """On 80 by 24, whatever the answer prints and however long the message is that it leaves room for."""
    console = Console(
        file=io.StringIO(), force_terminal=True, width=80, height=24, theme=display.THEME
    )
    watch = watching.Watch(DAYS[1], tmp_path, console, as_json=False, seed=0)
    message = "\n".join(f"Line {number} of what differs." for number in range(rows))
    check = CheckResult("test_it", "attention", "failed", message, "It is right.")
    watch._checked = checked = PendingVerdict(
        DayResult(DAYS[1], (check,), begun=True, printed=printed)
    )
    watch._result = checked.result
    watch._show()
    assert console.file.getvalue().count("\n") < 24
    assert "our code printed" in console.file.getvalue()
    assert ("a line" in console.file.getvalue()) == (printed[0] == "a" and rows < 14)


def test_a_save_waits_for_nothing_that_is_done_beside_it(tmp_path):
    """Whatever step the thread is at, such as the import of torch; what it finds afterwards is not shown."""
    watch = watching.Watch(DAYS[1], tmp_path, Console(quiet=True), as_json=False, seed=0)
    begun, done, shown = threading.Event(), threading.Event(), []

    def steps():
        begun.set()
        done.wait(PATIENCE)  # an import, for example
        yield lambda: shown.append("stale")

    work = watch._beside(steps())
    next(work)
    assert begun.wait(PATIENCE)
    work.close()
    assert not done.is_set()
    later = watch._beside(iter_of(lambda: shown.append("new")))
    done.set()
    for _ in later:
        pass
    assert shown == ["new"]


def iter_of(step):
    yield step


def test_a_save_that_is_overtaken_has_its_line_of_json(tmp_path, monkeypatch, capsys):
    """Whoever reads the lines sees each verdict once, with what was known of it."""
    watch = watching.Watch(DAYS[1], tmp_path, Console(quiet=True), as_json=True, seed=0)

    def verdict(judge, pool):
        watch._checked = watch._unprinted = PendingVerdict(DayResult(DAYS[1], (), begun=True))
        yield

    monkeypatch.setattr(watch, "_verdict", verdict)
    monkeypatch.setattr(watch, "_afterwards", lambda judge, checked: iter_of(watch._print_json))
    for _ in watch._work(None, None):
        pass
    monkeypatch.setattr(
        watch, "_afterwards", lambda judge, checked: (None for _ in itertools.count())
    )
    work = watch._work(None, None)
    next(work), next(work)
    work.close()
    assert [
        line["days"][0]["day"] for line in map(json.loads, capsys.readouterr().out.splitlines())
    ] == [2, 2]


def test_what_ends_the_watching_of_files_is_said(tmp_path, monkeypatch):
    """Nobody waits for verdicts that never come."""
    console = Console(file=io.StringIO(), theme=display.THEME)
    watch = watching.Watch(DAYS[1], tmp_path, console, as_json=False, seed=0)

    def refuse(*arguments):
        raise PermissionError("no access")

    monkeypatch.setattr(watching, "saves", refuse)
    watch._watch_files(threading.Event())
    assert "Saves are no longer seen (PermissionError: no access)" in console.file.getvalue()


def test_a_file_that_cannot_be_looked_at_is_as_good_as_none(tmp_path, monkeypatch):
    """A folder may refuse it for a moment."""

    def refuse(*arguments):
        raise PermissionError("no access")

    monkeypatch.setattr(watching, "find_answer", refuse)
    assert watching._signature(DAYS[1], tmp_path) is None
