"""The class as JUnit XML, which build servers show: a suite a learner, a case a check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from course.checks.arrays import PRACTICE
from course.checks.loading import WATERTIGHT
from course.grading.gradebook import GRADED, LearnerResult
from course.grading.reports.escaping import one_line, shortened, visible
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass
from course.judging.results import BROKEN


def write_junit(path: Path, graded: GradedClass) -> None:
    """Write the file, a learner at a time."""
    with whole_file(path) as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="course grade">\n')
        for result in graded.results:
            file.write(tostring(_suite(result), encoding="unicode") + "\n")
        file.write("</testsuites>\n")


def _suite(result: LearnerResult) -> Element:
    suite = Element("testsuite", name=one_line(result.learner))
    if result.verdict != GRADED:
        case = SubElement(suite, "testcase", classname="submission", name=result.verdict)
        _add(case, "error", result.verdict, result.reason)
    for day in result.days:
        for check in day["checks"]:
            _add_check(suite, day["stem"], check)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    return suite


def _add_check(suite: Element, stem: str, check: Mapping[str, Any]) -> None:
    where, seconds = f"{stem}.{check['exercise']}", f"{check['seconds']:.4f}"
    on = f" on {check['device']}" if check["device"] == PRACTICE else ""
    name = f"{check['name']}{on}"
    case = SubElement(suite, "testcase", classname=where, name=name, time=seconds)
    status = check["status"]
    wrong = "error" if status in BROKEN else "failure" if status == "failed" else ""
    if wrong and check["tier"] == WATERTIGHT:
        _add(case, "skipped", WATERTIGHT, check["message"])  # an invitation breaks no build
    elif status != "passed":
        _add(case, wrong or "skipped", status, check["message"])


def _add(case: Element, tag: str, status: str, message: str) -> None:
    """Why a case did not pass; what is not started is skipped, as pytest has it."""
    first, _, _ = message.partition("\n")
    element = SubElement(case, tag, type=status, message=one_line(shortened(first, most=200)))
    element.text = visible(shortened(message))
