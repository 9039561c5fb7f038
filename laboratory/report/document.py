"""The report of a study, from its results alone: `report.md`, its pictures, and the page of all studies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import implementation
from laboratory.report import exchange, induction_text, report_pictures, tables
from laboratory.report.claims import answers, caveat, counts, headline
from laboratory.report.comparison import Compared
from laboratory.study import description
from laboratory.study.description import STUDIES, TRIAL_SEEDS, Study
from laboratory.study.results import FILE, Results, read
from training.checkpoints import write_whole
from training.errors import Refused

NAME = "report.md"
MAX_MISSING = 8  # runs that are named
ADDED_ON = re.compile(r"machine (.+?), torch ")  # the machines of seeds that were added


def write(asked: Study, results: Results) -> Path:
    """Write the report and its pictures into the study's folder, and the page of all studies.

    Returns:
        The report's file.

    Raises:
        Refused: results of another study.
        OSError: something could not be written.
    """
    told = report(asked, results)
    folder = asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    report_pictures.draw(asked, results, folder)
    write_whole(folder / NAME, told.encode())
    if STUDIES in folder.parents:
        write_whole(STUDIES / "README.md", index().encode())
    return folder / NAME


def report(asked: Study, results: Results) -> str:
    """Compose the report in Markdown: question, runs, answer, and numbers.

    Raises:
        Refused: results of another study.
    """
    compared = Compared(asked, results)
    return "\n\n".join(_paragraphs(compared)) + "\n"


def answer(asked: Study, results: Results) -> str:
    """The answer in a sentence.

    Raises:
        Refused: results of another study.
    """
    return headline(Compared(asked, results))


def index() -> str:
    """The page of all studies that have results: question, answer, picture."""
    return "\n\n".join(_index()) + "\n"


def found_for(name: str, full: bool = False) -> Study:
    """The study of some results: with as many seeds as they have, if they were extended."""
    asked = description.read(name, full)
    try:
        known = {seen.seed for seen in read(asked.folder).cells}
    except Refused:  # there are none, or they are damaged
        return asked
    return description.read(name, full, len(known))


# --- The report -----------------------------------------------------------------------------------


def _paragraphs(compared: Compared) -> Iterator[str]:
    asked, results = compared.study, compared.results
    yield f"# {asked.question}"
    yield _run(compared)
    if compared.missing:
        named = ", ".join(f"`{one}`" for one in compared.missing[:MAX_MISSING])
        more = len(compared.missing) - MAX_MISSING
        rest = f" and {more} more" if more > 0 else ""
        yield (
            f"**This report covers a part of the study.** {len(compared.missing)} of {len(asked.cells)} runs "
            f"are missing: {named}{rest}."
        )
    reading = "../reading.md" if asked.full else "reading.md"
    yield "## The answer"
    if asked.answer:
        yield asked.answer
    # The differences that a headline names are listed below.
    yield caveat(asked) if asked.answer else answer(asked, results)
    yield f"[What was expected, and what may explain the results]({reading})."
    found = report_pictures.pictures(asked, results)
    pictures = [f"![{one.words}]({one.file})" for one in found]
    yield from pictures[:1]
    yield from induction_text.paragraphs(results) if asked.of_repeats else ()
    yield from answers(compared)
    yield from exchange.paragraphs(compared) if not asked.of_repeats else ()
    yield from pictures[1:]
    yield from _numbers(compared)
    yield from _made(compared)


def _run(compared: Compared) -> str:
    asked = compared.study
    variants = (
        f"{len(asked.variants)} variants (" + ", ".join(f"`{v}`" for v in asked.variants) + ")"
    )
    points = f" at {len(asked.points)} points" if len(asked.points) > 1 else ""
    return (
        f"{_size(asked)} {len(compared.results.cells)} runs: {variants}{points}, with {len(asked.seeds)} "
        f"seeds. Equal in all variants: {asked.equal}. {asked.held}"
    )


def _size(asked: Study) -> str:
    """The models' size and the runs' length, each as a range where they differ in it."""
    used = [cell.settings for cell in asked.cells]
    words = {"layers": "layers", "d_model": "width", "steps": "steps"}
    if asked.cells[0].task == "translation":
        words |= {"batch_tokens": "tokens per batch"}
    else:
        words |= {"context": "context", "batch": "sequences per batch"}

    def told(key: str) -> str:
        values = sorted({getattr(one, key) for one in used})
        return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"

    return f"{_sentence('; '.join(f'{name}: {told(key)}' for key, name in words.items()))}."


def _rates(asked: Study, rates: dict[str, float]) -> str:
    tried = asked.learning_rates
    ends = {min(tried): " (the smallest tried)", max(tried): " (the largest tried)"}
    told = ", ".join(f"`{place}` {rate:g}{ends.get(rate, '')}" for place, rate in rates.items())
    used = [cell.settings for cell in asked.cells]
    ones = {implementation.rate(s.warmup, s.d_model, s.factor, s.warmup) for s in used}
    one = " to ".join(dict.fromkeys(f"{rate:.2g}" for rate in (min(ones), max(ones))))
    return (
        f"Learning rates: each variant has the best of the factors {', '.join(f'{one:g}' for one in tried)}, "
        f"by the mean of {len(TRIAL_SEEDS)} other seeds on the last tenth of the training split, which the "
        f"trial runs did not train on: {told}. A factor of 1 is a peak learning rate of {one}, before decay."
    )


def _numbers(compared: Compared) -> Iterator[str]:
    asked = compared.study
    yield "## Numbers"
    yield (
        "Mean ± standard deviation over the seeds. Differences are paired by seed, with the 95% t interval "
        "of their mean; **bold** differences are claimed."
        if compared.compares
        else "Mean ± standard deviation over the seeds."
    )
    yield from counts(compared) if compared.compares else ()
    if rates := compared.results.rates:
        yield _rates(asked, rates)
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
        for figure in asked.figures
        if any(side.runs and side.spread is None for side in compared.sides(figure.name))
    }
    reasons = [f"{lacking[name]}: {why}" for name, why in asked.why.items() if name in lacking]
    if reasons:
        yield "— marks a figure that a variant does not have. " + " ".join(map(_sentence, reasons))


def _made(compared: Compared) -> Iterator[str]:
    asked, made = compared.study, compared.results.made
    yield "## How this was made"
    told = "; ".join(f"{key} {made[key]}" for key in sorted(made) if key != "asked")
    same = (
        "No single CPU model gives all of these numbers: seeds were added on a different one."
        if set(ADDED_ON.findall(str(made.get("extended", "")))) - {made["machine"]}
        else "On the same CPU model, the command below gives the same numbers."
    )
    yield (
        f"Made with {told}. {same} A different CPU model adds in a different order. This usually changes "
        "only the last digits; where training is unstable, it changes the result."
    )
    yield f"```\ncourse study {asked.name}{' --full' if asked.full else ''}\n```"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


# --- The page of all ------------------------------------------------------------------------------


def _index() -> Iterator[str]:
    yield "# Studies"
    yield (
        "Questions about Transformers, answered by models that two cores train in minutes. Each has a report "
        "with spread and intervals, and a page on what papers had led us to expect. Below each question is "
        "its answer, by the study's main figure. **Claimed** is what you can rely on for these "
        "models: a difference on paired seeds, corrected for the number of comparisons. **Bounded** "
        "differences are too small to matter: the entire interval is within a stated margin (for "
        "regularization, set after the first seeds had run), without such a correction. All other "
        "differences are **open**: these seeds do not decide. The models are small, and the answers need not "
        "hold for large models."
    )
    yield "`course study` lists the studies, and `course study norms` runs one again."
    for name in description.names():
        sizes = (found_for(name), found_for(name, full=True))
        found = [asked for asked in sizes if (asked.folder / FILE).exists()]
        for asked in found:
            yield from _entry(asked, first=asked is found[0])


def _entry(asked: Study, first: bool) -> Iterator[str]:
    folder = asked.folder.relative_to(STUDIES).as_posix()
    if first:
        yield f"## {asked.question}"
    size = "On a GPU, at full size: " if asked.full else ""
    if asked.answer:
        yield asked.answer
    try:
        results = read(asked.folder)
        yield f"{size}{answer(asked, results)}"
    except Refused as error:  # this study is being changed, and the others need not wait
        yield f"{size}There is no answer just now. {error}."
        return
    for picture in report_pictures.pictures(asked, results)[:1]:
        yield f"[![{picture.words}]({folder}/{picture.file})]({folder}/{NAME})"
    reading = f"[what was expected, and what may explain it]({asked.name}/reading.md)"
    yield f"[The report]({folder}/{NAME}) · {reading}"
