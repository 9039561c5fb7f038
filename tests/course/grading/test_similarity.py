"""Pairs that are more alike than independent work would be."""

import ast
import functools
import math
import random
import re
import tracemalloc

import numpy as np
import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS
from course.grading.analysis import fingerprints
from course.grading.gradebook import GRADED, LearnerResult
from course.grading.similarity import _shared, alike, like_what_is_given
from course.references.stubs import stub_text

NAMES = [f"learner{number:02d}" for number in range(20)]
COMMON, OWN = 60, 40  # fingerprints of the one right way, and of a learner's own


def class_of(copies=()):
    """Learners who have in common what the exercise demands; `copies` have another's own as well."""
    source = random.Random(5)
    demanded = [source.randrange(2**48) for _ in range(COMMON)]
    stub = fingerprints(stub_text(DAYS[7]))[1:]
    own = {name: [source.randrange(2**48) for _ in range(OWN)] for name in NAMES}
    for copy, original in copies:
        own[copy] = own[original][:-5] + own[copy][:5]
    return [
        LearnerResult(
            name,
            GRADED,
            fingerprints={
                "day08_attention.py": [
                    source.randrange(2**48),
                    *source.sample(demanded, 50),
                    *own[name],
                    *stub,
                ],
            },
        )
        for name in NAMES
    ]


def pairs(results, days=(7,)):
    groups = alike(results, [DAYS[index] for index in days])
    return {tuple(group.learners): group for group in groups}


def test_independent_work():
    """What the exercise demands of everybody makes nobody suspect."""
    assert pairs(class_of()) == {}


def test_copies_stand_out():
    """Those who share what is nobody else's are listed, with the days on which they do."""
    copies = pairs(class_of([("learner03", "learner11"), ("learner07", "learner19")]))
    assert set(copies) == {("learner03", "learner11"), ("learner07", "learner19")}
    assert all(pair.days == [8] and pair.share > 0.7 for pair in copies.values())
    assert all(pair.same == [] for pair in copies.values())


@pytest.mark.slow
def test_memory_does_not_grow_with_learners_times_fingerprints():
    """Hostile files have many fingerprints that are nobody else's: no table has a column for each."""
    learners, own = 200, 500
    rows = [np.arange(own * number, own * (number + 1)) for number in range(learners)]
    tracemalloc.start()
    common, weights = _shared(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < learners * learners * own * 4
    assert weights == pytest.approx(common * math.log(learners))
    assert common == pytest.approx(own * np.eye(learners))


def test_the_stub_is_nobodys():
    """A class of stubs accuses nobody; one of the same code to the letter is one group, not 190 pairs."""
    assert pairs(handed_in(DAYS[7], **dict.fromkeys(NAMES, stub_text))) == {}
    [same] = pairs(handed_in(DAYS[7], **dict.fromkeys(NAMES, accepted))).values()
    assert (same.learners, same.days, same.same, same.share) == (NAMES, [8], [8], 1)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 0), (3, 0), (4, 1)])
def test_a_few_learners(count, expected):
    """Of a handful no median says anything; a copy is one all the same."""
    results = class_of([("learner03", "learner01")])[:count]
    assert len(pairs(results)) == expected


def test_refused_and_missing():
    """Who handed in nothing resembles nobody."""
    results = class_of([("learner03", "learner11")])
    results += [LearnerResult("empty", GRADED), LearnerResult("refused", "refused")]
    assert set(pairs(results, days=(7, 8))) == {("learner03", "learner11")}


def handed_in(*days, **texts):
    """A class by what each has handed in, the same for all of these days: a function of the day."""
    return [
        LearnerResult(
            name,
            GRADED,
            fingerprints={f"{day.stem}.py": fingerprints(text(day)) for day in days},
        )
        for name, text in texts.items()
    ]


def solution(day):
    return read_answer(day.solution)


def renamed(text):
    """Other names, as somebody passes it on."""
    for name in ("scores", "query", "weights", "total", "mask"):
        text = re.sub(rf"\b{name}\b", f"my_{name}", text)
    return text


def idle(text):
    """An assignment without effect after each other one."""
    return re.sub(r"^( +)\w+ = .*[^(\[{,]$", r"\g<0>\n\1_ = 0", text, flags=re.MULTILINE)


def wrapped(text):
    """Each name that is read is taken from a tuple."""
    tree = ast.parse(text)
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.Name)]:
        if isinstance(node.ctx, ast.Load):
            node.id = f"({node.id}, 0)[0]"
    return ast.unparse(tree)


class OneOperationALine(ast.NodeTransformer):
    """Cut the expressions of assignments and returns into variables, and note each line in a list."""

    def __init__(self):
        self.before = []

    def visit_BinOp(self, node):
        self.generic_visit(node)
        name = f"t{id(node)}"
        self.before += [ast.Assign([ast.Name(name, ast.Store())], node)]
        self.before += ast.parse(f"_seen.append({len(self.before)})").body
        return ast.Name(name, ast.Load())

    def visit_Assign(self, node):
        self.before = []
        node.value = self.visit(node.value)
        return [*self.before, node]

    def visit_Return(self, node):
        self.before = []
        self.generic_visit(node)
        return [*self.before, node]


def one_operation_a_line(text):
    tree = OneOperationALine().visit(ast.parse(text))
    return "_seen = []\n" + ast.unparse(ast.fix_missing_locations(tree))


def as_functions(text):
    """Products as calls of `operator.matmul`."""
    return "import operator\n" + re.sub(r"(\w+) @ (\w+)(?=[\n)])", r"operator.matmul(\1, \2)", text)


ATTACKS = {
    "one operation a line": one_operation_a_line,
    "operators as functions": as_functions,
    "renamed": renamed,
    "idle": idle,
    "wrapped": wrapped,
    "all": lambda text: wrapped(idle(renamed(text))),
    "more": lambda text: text + read_answer(DAYS[20].solution),
}


def accepted(day, which=0):
    return read_answer(sorted(day.accepted.glob("*.py"))[which])


def another(day):
    return accepted(day, 1)


def test_the_worked_solution_is_recognized():
    """Who handed it in is listed, however it is disguised; who wrote an own one is not."""
    days = DAYS[1:3]
    copies = {"ada": solution}
    copies |= {f"by {name}": lambda day, a=a: a(solution(day)) for name, a in ATTACKS.items()}
    rest = dict.fromkeys(("eve", "fay", "gil", "hal"), accepted) | {"ivo": stub_text}
    results = handed_in(*days, **copies, **rest)
    matches = like_what_is_given(results, list(days))
    assert [(match.learner, match.what, match.days) for match in matches] == [
        *((name, "the worked solution", [2, 3]) for name in sorted(copies)),
        ("ivo", "the stub", [2, 3]),
    ]
    assert matches[0].share == 1


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("number", [2, 8, 9])
def test_a_copy_of_one_day_is_listed(attack, number):
    """In a class of five, with nothing else in common, and however it is disguised."""
    days = [DAYS[number - 1], DAYS[number]]

    def copied(day):
        return ATTACKS[attack](accepted(day)) if day is days[0] else stub_text(day)

    results = handed_in(*days, ada=accepted, ben=copied, cy=solution, dee=stub_text, eve=another)
    [pair] = pairs(results, [number - 1, number]).values()
    assert (pair.learners, pair.days) == (["ada", "ben"], [number])
    assert pair.share > 0.9


def test_one_line_can_be_written_in_one_way():
    """The solution of a day that is a line long says nothing about who handed in the same line."""
    [day] = DAYS[16:17]
    results = handed_in(day, ada=solution)
    assert like_what_is_given(results, [day]) == []


@pytest.mark.parametrize("day", [day for day in DAYS if day.ready], ids=lambda day: day.stem)
def test_right_answers_are_not_the_solution(day):
    """No accepted answer to any day is taken for the worked solution, or for a copy of another."""
    texts = {path.stem: functools.partial(read_answer, path) for path in day.accepted.glob("*.py")}
    results = handed_in(day, **{name: lambda _, read=read: read() for name, read in texts.items()})
    assert like_what_is_given(results, [day]) == []
    assert alike(results, [day]) == []
