"""What `course check` finds, as `autograding-grading-reporter` takes it: a point for each exercise.

An exercise has its point when its core passes. The result goes to standard output, as a step's output
`result`, and what is wrong to standard error, for whoever reads the log.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections import defaultdict
from typing import Any

Check = dict[str, Any]


def main(days: list[str]) -> None:
    """Check the days, and write down what was found."""
    tests = [
        _test(f"Day {day['day']}: {exercise}", checks)
        for day in _checked(days)["days"]
        for exercise, checks in _core(day["checks"]).items()
    ]
    for test in tests:
        print(test["name"], test["message"] or "passed", sep=": ", file=sys.stderr)
    passed = all(test["status"] == "pass" for test in tests)
    result = {
        "version": 1,
        "status": "pass" if passed else "fail",
        "max_score": len(tests),
        "tests": tests,
    }
    print("result=" + base64.b64encode(json.dumps(result).encode()).decode())


def _checked(days: list[str]) -> dict[str, Any]:
    """The verdict on some days. Ends this process if it could not be asked for; the command says why."""
    command = [sys.executable, "-m", "course.cli", "check", *days, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode not in (0, 1):  # all pass, or some do not
        sys.exit(done.returncode)
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def _core(checks: list[Check]) -> dict[str, list[Check]]:
    """The checks that decide about a day, by exercise."""
    by_exercise = defaultdict(list)
    for check in checks:
        if check["tier"] == "core":
            by_exercise[check["exercise"]].append(check)
    return by_exercise


def _test(name: str, checks: list[Check]) -> dict[str, Any]:
    wrong = [check for check in checks if check["status"] not in ("passed", "skipped")]
    return {
        "name": name,
        "status": "fail" if wrong else "pass",
        "score": 0 if wrong else 1,
        "message": wrong[0]["message"] if wrong else "",
        "line_no": 0,  # of a test in a file, which there is none of
    }


if __name__ == "__main__":
    main(sys.argv[1:])
