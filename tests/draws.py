"""Draw the inputs of the checks at many seeds, without an answer: none may raise.

python -m tests.draws               every day at 200 fresh seeds
python -m tests.draws 20000 35 38   some days at so many seeds, from seed 0 on
"""

from __future__ import annotations

import functools
import multiprocessing
import secrets
import sys
from collections.abc import Iterable, Iterator
from inspect import signature

from course.checks.loading import Check, load_checks
from course.checks.seeing import drawn
from course.curriculum import BY_NUMBER, DAYS
from training.cores import cores

FRESH = 200


def drawings(checks: Iterable[Check]) -> list[Check]:
    """Return one check for each set of fixtures and parameters: more would only draw from more seeds."""
    return list(
        {
            (*signature(check.function).parameters, str(check.parameters)): check
            for check in checks
        }.values()
    )


def faults(day: int, seeds: range) -> Iterator[str]:
    """Yield what raises, with its seed."""
    checks = drawings(load_checks(BY_NUMBER[day]))
    for seed in seeds:
        for check in checks:
            try:
                drawn(check, seed)
            except Exception as error:
                yield f"day {day}, {check.name}, seed {seed}: {type(error).__name__}: {error}"


def _faults(seeds: range, day: int) -> tuple[int, list[str]]:
    return day, list(faults(day, seeds))


def main(arguments: list[str]) -> int:
    """Draw, and print what raises. Returns 1 if something does."""
    first = 0 if arguments else secrets.randbelow(2**31)
    seeds = range(first, first + int(next(iter(arguments), FRESH)))
    days = list(map(int, arguments[1:])) or [day.number for day in DAYS if day.ready]
    count = 0
    with multiprocessing.get_context("spawn").Pool(min(cores(), len(days))) as pool:
        for day, lines in pool.imap_unordered(functools.partial(_faults, seeds), days):
            print(f"day {day}: {len(seeds)} seeds from {first} on", *lines, sep="\n", flush=True)
            count += len(lines)
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
