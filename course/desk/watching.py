"""`course watch`: a verdict at every save."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import watchfiles
from rich.console import Console, RenderableType
from rich.text import Text

from course.checks.answer_files import find_answer
from course.curriculum import DAYS, Day
from course.desk.hints import next_hint
from course.desk.keyboard import CTRL_C, keys_to
from course.desk.state import belongs_on_board, keep_result
from course.desk.verdicts import LOOKING, diagnoses, hint, outcome_of, practice_verdict, verdict
from course.desk.waiting import Waiting
from course.judging.diagnosis import Search
from course.judging.digests import verdict_digest
from course.judging.judge import Judge
from course.judging.results import DayResult, report_json
from course.terminal.display import MAX_PRINTED_LINES
from course.workers.checking import PendingVerdict, day_steps
from course.workers.pool import WorkerPool

SETTLE = 15  # milliseconds without a further event after which a save is complete
EVENT_TIMEOUT = 1000  # milliseconds without an event after which a file is looked at
POLL = 50  # milliseconds between two looks where events never come
POLLED = f"the file is looked at every {POLL} ms."
HALF_SAVED = 0.05  # seconds that an empty file is given to become a full one

KEYS = "r run again · h hint · n next day · p previous day · ? keys · q quit"
HELP = """\
r, Enter  check again without saving
h         one more hint on the first exercise that does not pass
n, p      the next day, the previous day
q, Ctrl-C stop watching; your file stays as it is
Otherwise just save the file."""

AGAIN = {"r", "c-j", "c-m"}  # Enter is either
NEIGHBORS = {"n": 1, "p": -1}
QUIT = {"q", CTRL_C}

ROWS_BELOW = 7  # a blank row and a sentence twice, a notice, the keys, and the row of the cursor

Signature = tuple[int, int, int] | None
Steps = Generator[object, None, None]
"""Pieces of work, some of which yield a function that shows a result."""


class Watch:
    """A day being watched: saves and keys come in, verdicts go out."""

    def __init__(
        self,
        day: Day,
        answers: Path,
        console: Console,
        as_json: bool,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self._answers = answers
        self._console = console
        self._json = as_json
        self._seed = seed
        self._device = device
        self._events: queue.Queue[str] = queue.Queue()
        self._day = day
        self._checked: PendingVerdict | None = None
        self._unprinted: PendingVerdict | None = None
        self._result: DayResult | None = None
        self._mark = ""
        self._moment = ""
        self._has_keys = False
        self._thread: threading.Thread | None = None
        """The last one that worked beside this one."""
        self._noticed = ""

    def run(self) -> None:
        """Check now, and then at every save, until q or Ctrl-C."""
        stop = threading.Event()
        files = threading.Thread(target=self._watch_files, args=(stop,), daemon=True)
        judge = Judge(self._day, self._seed, self._device)
        with WorkerPool(1, judge.torch_on) as pool:
            work = self._work(judge, pool)
            try:
                with keys_to(
                    self._events.put
                ) as self._has_keys:  # what is typed later is the shell's
                    files.start()
                    while (event := self._next_event(work)) not in QUIT:
                        if event == "h":
                            self._hint()
                        elif event == "?":
                            self._console.print(Text(HELP, "quiet"))
                        elif event in NEIGHBORS and (day := self._neighbor(NEIGHBORS[event])):
                            self._day = day
                            judge = Judge(day, self._seed, self._device)
                            work.close()
                            work = self._work(judge, pool)
                        elif event in AGAIN:
                            work.close()
                            work = self._work(judge, pool)
            except KeyboardInterrupt:
                pass
            finally:
                work.close()
                stop.set()
        if not self._json:
            self._console.print(Text("Stopped watching.", "quiet"))

    def _watch_files(self, stop: threading.Event) -> None:
        try:
            for _ in saves(lambda: self._day, self._answers, stop, self._notice):
                self._events.put("r")
        except (
            Exception
        ) as error:  # of any kind: a learner would wait for a verdict that never comes
            self._notice(
                f"Saves are no longer seen ({type(error).__name__}: {error}): start again."
            )

    def _notice(self, words: str) -> None:
        """Print words now, and below every verdict, which clears the screen."""
        self._noticed = words
        self._say(words)

    def _say(self, words: str) -> None:
        if not self._json:
            self._console.print(Text(words, "quiet"))

    def _next_event(self, work: Iterator[object]) -> str:
        """The next event; while there is none, there is work to do."""
        for _ in work:
            if not self._events.empty():
                break
        event = self._events.get()
        while event in AGAIN and not self._events.empty() and self._events.queue[0] in AGAIN:
            event = self._events.get()  # several saves at once are one
        return event

    def _work(self, judge: Judge, pool: WorkerPool) -> Generator[None, None, None]:
        """All there is to do after a save: the verdict, a piece at each step, and the rest in a thread."""
        yield from self._verdict(judge, pool)
        try:
            yield from self._beside(self._afterwards(judge, self._checked))
        finally:  # a newer save has overtaken this one, before it was diagnosed
            self._print_json()

    def _afterwards(self, judge: Judge, checked: PendingVerdict | None) -> Steps:
        """Search for what was misunderstood, and compute what other diagnoses will need, today's and
        tomorrow's. Some steps yield a function that shows a result."""
        if checked is not None:
            yield from self._search(checked, checked.search)
            if checked.awaits_practice:
                search = yield from checked.run_on_practice()
                yield lambda: self._show_practice(checked)
                yield from self._search(checked, search)
            yield self._print_json
        yield from judge.prepare()
        if checked is not None and checked.search is not None and not checked.search.done:
            yield from checked.search.steps()  # what took its time the first time is cached now
            if checked.result.is_named:
                yield lambda: self._show_diagnosis(checked)
        later = [day for day in DAYS if day.ready and day.number > judge.day.number][:1]
        if later and later[0].uses_torch == judge.day.uses_torch:
            yield from Judge(later[0], self._seed, self._device).prepare()

    def _beside(self, steps: Steps) -> Generator[None, None, None]:
        """Run the steps in a thread, and show their results in this one. Closing this generator does not wait
        for a step, which may be an import of torch: the thread ends after its current step."""
        earlier, stopped = self._thread, threading.Event()
        shows: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

        def go() -> None:
            if earlier is not None:
                earlier.join()
            with contextlib.closing(steps):
                for step in itertools.takewhile(lambda _: not stopped.is_set(), steps):
                    if callable(step):
                        shows.put(step)

        self._thread = thread = threading.Thread(target=go, daemon=True)
        thread.start()
        try:
            while thread.is_alive() or not shows.empty():
                with contextlib.suppress(queue.Empty):
                    shows.get(timeout=HALF_SAVED)()
                yield
        finally:
            stopped.set()

    def _verdict(self, judge: Judge, pool: WorkerPool) -> Generator[None, None, None]:
        path = find_answer(judge.day, self._answers)
        if path is not None and path.suffix == ".py" and not _complete(path):
            time.sleep(HALF_SAVED)
        self._mark = verdict_digest(judge.day, path)
        running = day_steps(judge, self._answers, pool)
        keys = KEYS if self._has_keys else ""
        with Waiting(self._console, judge.day, keys) as waiting, contextlib.closing(running):
            while True:
                try:
                    waiting.show(next(running))
                except StopIteration as done:
                    checked: PendingVerdict = done.value
                    break
                yield
        self._moment = time.strftime("%H:%M:%S")
        self._checked = self._unprinted = checked
        self._result = checked.result
        if not self._json:
            self._show()
        pool.refill()  # now, and not while the verdict was being made
        self._keep()

    def _search(self, checked: PendingVerdict, search: Search | None) -> Steps:
        """Look for what was misunderstood, a piece at each step, and give what shows what is found."""
        if search is not None and not search.done:
            yield from search.steps()
            yield lambda: self._show_diagnosis(checked)

    def _show_diagnosis(self, checked: PendingVerdict) -> None:
        self._result = checked.result
        self._keep()
        if self._console.is_terminal:
            self._show()
        elif not self._json:
            if self._result.is_named:
                self._console.print(diagnoses(self._result))
            elif words := outcome_of(checked.searches, self._result):
                self._console.print(words)

    def _show_practice(self, checked: PendingVerdict) -> None:
        """Show what came of the checks on the practice GPU."""
        self._result = checked.result
        self._keep()
        if self._console.is_terminal:
            self._show()
        elif not self._json:
            self._console.print(practice_verdict(self._result, self._seed))

    def _print_json(self) -> None:
        """Print the last verdict as it is now, once."""
        if self._json and self._unprinted is not None:
            print(json.dumps(report_json([self._unprinted.result])), flush=True)
        self._unprinted = None

    def _keep(self) -> None:
        if self._result is not None and belongs_on_board(self._answers, self._seed, self._device):
            keep_result(self._result, self._mark)

    def _show(self) -> None:
        if self._checked is None or self._result is None:
            return
        result, searches = self._result, self._checked.searches
        if self._console.is_terminal:
            self._console.clear()
        self._console.print(self._fitting(result))
        # Off a terminal the line cannot be removed: there it is only printed where an answer to it follows.
        looking = not all(search.done for search in searches)
        if looking and (self._console.is_terminal or result.is_puzzling):
            self._console.print(Text(f"\n{LOOKING}", "quiet"))
        elif not looking and (words := outcome_of(searches, result)):
            self._console.print(Text(f"\n{words}", "quiet"))
        where = self._answers / f"{result.day.stem}.py"
        done = result.status == "passed"
        shows = "Passed: n shows the next day." if self._has_keys else "Passed."
        after = shows if done else f"Watching {where}."
        timing = f" {self._moment}, {result.seconds:.2f} s"
        self._console.print(
            Text.assemble("\n", (after, "passed" if done else ""), (timing, "quiet"))
        )
        if self._noticed and self._console.is_terminal:
            self._console.print(Text(self._noticed, "quiet"))
        if self._has_keys:
            self._console.print(Text(KEYS, "quiet"))

    def _fitting(self, result: DayResult) -> RenderableType:
        """The verdict; what the learner's code printed gives way where the title would leave the screen."""
        full = verdict(result, seed=self._seed)
        rows = len(self._console.render_lines(full, pad=False))
        excess = rows - (self._console.height - ROWS_BELOW)
        if excess <= 0 or not self._console.is_terminal:
            return full
        return verdict(result, max(0, MAX_PRINTED_LINES - excess), self._seed)

    def _hint(self) -> None:
        """One more hint on the first exercise that does not pass."""
        exercise = self._result.next_exercise if self._result else self._day.exercises[0]
        shown = hint(self._day, exercise, *next_hint(self._day, exercise))
        self._console.print(shown, crop=False)

    def _neighbor(self, step: int) -> Day | None:
        ready = [day for day in DAYS if day.ready]
        index = ready.index(self._day) + step
        if 0 <= index < len(ready):
            return ready[index]
        self._say("This is the last day." if step > 0 else "This is the first day.")
        return None


def _complete(path: Path) -> bool:
    """Whether a file has anything in it: some editors empty a file before they write it."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def saves(
    day: Callable[[], Day], folder: Path, stop: threading.Event, say: Callable[[str], None]
) -> Iterator[None]:
    """Yield whenever the day's file in the folder was saved, made, replaced or removed.

    The file system is asked for events. If it sends none (a change in a network or shared folder
    comes without an event) or refuses (other programs already watch too many files), the folder is
    polled from then on, and `say` is called with the reason.
    """
    last = _signatures(folder)

    def changed() -> bool:
        nonlocal last
        before, last = last, _signatures(folder)
        watched = day()
        return last[watched] != before[watched]

    suspicious = False
    try:
        for events in watchfiles.watch(
            folder,
            watch_filter=None,
            debounce=10 * SETTLE,
            step=SETTLE,
            stop_event=stop,
            rust_timeout=EVENT_TIMEOUT,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
        ):
            if saved := changed():
                yield
            if suspicious and not events:
                # Twice in a row a change without an event: this file system sends none.
                say(f"This file system reports no changes: {POLLED}")
                break
            suspicious = saved and not events
    except (OSError, RuntimeError) as error:
        full = any(words in str(error) for words in ("limit", "Too many", "No space"))
        why = "other programs watch as many files as this system allows" if full else error
        say(f"The system reports no changes ({why}): {POLLED}")
    while not stop.wait(POLL / 1000):
        if changed():
            yield


def _signatures(folder: Path) -> dict[Day, Signature]:
    """Those of all days, so that none is out of date when another day comes to be watched."""
    return {day: _signature(day, folder) for day in DAYS if day.ready}


def _signature(day: Day, folder: Path) -> Signature:
    try:
        path = find_answer(day, folder)
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None
