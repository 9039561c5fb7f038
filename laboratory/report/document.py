"""The report of a study, from its results alone: `report.md`, its pictures, and the page of all studies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import implementation
from laboratory.report import exchange, induction_text, report_pictures, sharpening, tables
from laboratory.report.claims import answers, capital, caveat, counts, headline
from laboratory.report.comparison import Compared
from laboratory.report.digits import number
from laboratory.study import description
from laboratory.study.description import STUDIES, TIMES_RATE, TRIAL_SEEDS, Study
from laboratory.study.measures import BLOCKS
from laboratory.study.results import FILE, Results, read
from laboratory.study.sharpening import read_grid
from training.checkpoints import write_atomically
from training.errors import Refused

NAME = "report.md"
MAX_MISSING = 8  # runs that are named
ADDED_ON = re.compile(r"machine (.+?), torch ")  # the machines of seeds that were added


def write(study: Study, results: Results) -> Path:
    """Write the report and its pictures into the study's folder, and the page of all studies.

    Returns:
        The report's file.

    Raises:
        Refused: results of another study.
        OSError: something could not be written.
    """
    text = report(study, results)
    folder = study.folder
    folder.mkdir(parents=True, exist_ok=True)
    report_pictures.draw(study, results, folder)
    write_atomically(folder / NAME, text.encode())
    if STUDIES in folder.parents:
        write_index()
    return folder / NAME


def write_index() -> None:
    """Write the page of all studies."""
    write_atomically(STUDIES / "README.md", index().encode())


def report(study: Study, results: Results) -> str:
    """Compose the report in Markdown: question, runs, answer, and numbers.

    Raises:
        Refused: results of another study.
    """
    compared = Compared(study, results)
    return "\n\n".join(_paragraphs(compared)) + "\n"


def answer(study: Study, results: Results) -> str:
    """The answer in a sentence.

    Raises:
        Refused: results of another study.
    """
    return headline(Compared(study, results))


def index() -> str:
    """The page of all studies that have results: question, answer, picture."""
    return "\n\n".join(_index()) + "\n"


def found_for(name: str) -> Study:
    """The study of some results: with as many seeds as they have, if they were extended."""
    study = description.read(name)
    try:
        seeds = {cell.seed for cell in read(study.folder).cells}
    except Refused:  # there are none, or they are damaged
        return study
    return description.read(name, len(seeds))


# --- The report -----------------------------------------------------------------------------------


def _paragraphs(compared: Compared) -> Iterator[str]:
    study, results = compared.study, compared.results
    yield f"# {study.question}"
    yield _run(compared)
    if compared.missing:
        named = ", ".join(f"`{name}`" for name in compared.missing[:MAX_MISSING])
        more = len(compared.missing) - MAX_MISSING
        rest = f" and {more} more" if more > 0 else ""
        yield (
            f"**This report covers a part of the study.** {len(compared.missing)} of {len(study.cells)} runs "
            f"are missing: {named}{rest}."
        )
    yield "## The answer"
    if study.answer:
        yield study.answer
    # The differences that a headline names are listed below.
    yield caveat(study) if study.answer else answer(study, results)
    yield "[What was expected, and what may explain the results](reading.md)."
    files = report_pictures.pictures(study, results)
    pictures = [f"![{picture.words}]({picture.file})" for picture in files]
    yield from pictures[:1]
    yield from induction_text.paragraphs(results) if study.of_repeats else ()
    yield from answers(compared)
    yield from exchange.paragraphs(compared) if not study.of_repeats else ()
    yield from pictures[1:]
    yield from _numbers(compared)
    yield from _made(compared)


def _run(compared: Compared) -> str:
    study = compared.study
    variants = (
        f"{len(study.variants)} variants (" + ", ".join(f"`{v}`" for v in study.variants) + ")"
    )
    points = f" at {len(study.points)} points" if len(study.points) > 1 else ""
    return (
        f"{_size(study)} {len(compared.results.cells)} runs: {variants}{points}, with {len(study.seeds)} "
        f"seeds. Equal in all variants: {study.equal}. {study.controls}"
    )


def _size(study: Study) -> str:
    """The models' size and the runs' length, each as a range where they differ in it."""
    used = [cell.settings for cell in study.cells]
    words = {"layers": "layers", "d_model": "width", "steps": "steps"}
    words |= {"context": "context", "batch": "sequences per batch"}

    def told(key: str) -> str:
        values = sorted({getattr(settings, key) for settings in used})
        return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"

    return f"{capital('; '.join(f'{name}: {told(key)}' for key, name in words.items()))}."


def _rates(study: Study, rates: dict[str, float]) -> str:
    tried = study.learning_rates
    ends = {min(tried): " (the smallest tried)", max(tried): " (the largest tried)"}
    chosen = ", ".join(f"`{name}` {rate:g}{ends.get(rate, '')}" for name, rate in rates.items())
    used = [cell.settings for cell in study.cells if dict(cell.point).get(TIMES_RATE, 1) == 1]
    ones = {implementation.rate(s.warmup, s.d_model, s.factor, s.warmup) for s in used}
    peak = " to ".join(dict.fromkeys(f"{rate:.2g}" for rate in (min(ones), max(ones))))
    factors = ", ".join(f"{factor:g}" for factor in tried)
    return (
        f"Learning rates: each variant has the best of the factors {factors}, by the mean of "
        f"{len(TRIAL_SEEDS)} other seeds on the last tenth of the training split, which the trial runs did "
        f"not train on: {chosen}. A factor of 1 is a peak learning rate of {peak}, before decay."
    )


def _sampled(compared: Compared) -> str:
    """What the intervals are over."""
    by_block = [figure for figure in compared.noisy if compared.by_block(figure.name)]
    if not by_block:
        return (
            "The intervals are over seeds alone: another text would move the differences as well."
        )
    words = " and ".join(figure.words for figure in by_block)
    return (
        f"The intervals of {words} are over seeds and text: each run's losses are stored for {BLOCKS} blocks "
        "of the validation split, and seeds and blocks count as two crossed samples, of other seeds and of "
        "other texts like this one."
    )


def _numbers(compared: Compared) -> Iterator[str]:
    study = compared.study
    yield "## Numbers"
    yield (
        "Mean ± standard deviation over the seeds. Differences are paired by seed, with the 95% interval of "
        f"their mean; **bold** differences are claimed. {_sampled(compared)}"
        if compared.compares
        else "Mean ± standard deviation over the seeds."
    )
    yield from counts(compared) if compared.compares else ()
    if levels := compared.results.counted:
        counted = ", ".join(f"{name} {number(level, 3)}" for name, level in levels.items())
        yield f"For comparison, the loss of models that only count characters: {counted}."
    if rates := compared.results.rates:
        yield _rates(study, rates)
    if compared.results.trials:
        yield "The trial runs' loss at each factor, a mean over their seeds (— where one diverged):"
        yield "\n".join(tables.trials(compared.results.trials))
    for figure in compared.noisy:
        yield "\n".join(tables.noisy(compared, figure))
    if compared.exact:
        yield "These figures are the same for every seed:"
        yield "\n".join(tables.exact(compared, compared.exact))
    if compared.timed:
        yield "## Measured times"
        yield (
            "The ranges are over the seeds. **These figures vary** between machines and between runs, so no "
            "difference is claimed."
        )
        yield "\n".join(tables.timed(compared, compared.timed))
    lacking = {
        figure.name: figure.words
        for figure in study.figures
        if any(side.runs and side.spread is None for side in compared.sides(figure.name))
    }
    reasons = [f"{lacking[name]}: {why}" for name, why in study.why.items() if name in lacking]
    if reasons:
        yield "— marks a figure that a variant does not have. " + " ".join(map(capital, reasons))


def _made(compared: Compared) -> Iterator[str]:
    study, origin = compared.study, compared.results.provenance
    yield "## How this was made"
    details = "; ".join(f"{key} {origin[key]}" for key in sorted(origin) if key != "asked")
    same = (
        "No single CPU model gives all of these numbers: seeds were added on a different one."
        if set(ADDED_ON.findall(str(origin.get("extended", "")))) - {origin["machine"]}
        else "On the same CPU model, the command below gives the same numbers."
    )
    yield (
        f"Made with {details}. {same} A different CPU model adds in a different order. This usually changes "
        "only the last digits; where training is unstable, it changes the result."
    )
    yield f"```\ncourse study {study.name}\n```"


# --- The page of all ------------------------------------------------------------------------------


def _index() -> Iterator[str]:
    yield "# Studies"
    yield (
        "Questions about Transformers, answered by models that two cores train in minutes. Each has a report "
        "with spread and intervals, and a page on what papers had led us to expect. Below each question is "
        "its answer, by the study's main figure. **Claimed** is what you can rely on for these "
        "models: a difference on paired seeds, corrected for the number of comparisons. **Bounded** "
        "differences are too small to matter: the entire interval is within a stated margin, without such a "
        "correction. All other differences are **open**: these seeds do not decide. The models are small, "
        "and the answers need not hold for large models."
    )
    yield "`course study` lists the studies, and `course study norms` runs one again."
    for name in description.names():
        study = found_for(name)
        if (study.folder / FILE).exists():
            yield from _entry(study)
    yield from sharpening.entry(read_grid())


def _entry(study: Study) -> Iterator[str]:
    folder = study.folder.relative_to(STUDIES).as_posix()
    yield f"## {study.question}"
    if study.answer:
        yield study.answer
    try:
        results = read(study.folder)
        yield answer(study, results)
    except Refused as error:  # this study is being changed, and the others need not wait
        yield f"There is no answer just now. {error}."
        return
    for picture in report_pictures.pictures(study, results)[:1]:
        yield f"[![{picture.words}]({folder}/{picture.file})]({folder}/{NAME})"
    reading = f"[what was expected, and what may explain it]({study.name}/reading.md)"
    yield f"[The report]({folder}/{NAME}) · {reading}"
