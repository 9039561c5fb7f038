"""A published model computed by a learner's parts, in a worker."""

import itertools
import os
import subprocess
import sys

import pytest

from course.assembly import runs
from course.curriculum import BY_NUMBER, DAYS, ROOT
from course.references.text import reference
from tests.training.test_chat import HI, TEMPLATE
from tests.training.test_gguf_file import written
from tests.training.test_pretrained import PROMPT
from tests.training.test_pretrained import written as folder_written
from training.errors import Refused, TooLong
from training.generation.generate import Sampling
from training.models.pretrained import Pretrained

LIKELIEST = Sampling(temperature=0.0)
FIVE = "import torch\ndef sample(logits, *how):\n    return torch.full(logits.shape[:-1], 5)\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("spoken") / "model.gguf"
    written(path, **{"tokenizer.chat_template": TEMPLATE})
    return path


@pytest.fixture
def answers(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    return folder


def solve(folder, *numbers):
    """The references as a learner's answers of some days."""
    for day in (BY_NUMBER[number] for number in numbers):
        text = "\n".join(reference(file).source for file in day.references)
        (folder / f"{day.stem}.py").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_solutions_say_what_the_reference_says(file, answers, tmp_path, kind):
    solve(answers, *range(23, 33))
    model = file
    if kind == "gpt2":
        (model := tmp_path / "gpt2").mkdir()
        folder_written(model, kind)
    lines = []
    with runs.speaker(answers, model, lines.append) as speaker:
        text = "".join(speaker.generate(PROMPT, 9, LIKELIEST))
    assert text == "".join(Pretrained.load(model, "cpu").generate(PROMPT, 9, LIKELIEST)) != ""
    names = {"sample", "distribution", "KVCache"} | (
        {"LLaMA", "RMSNorm", "GroupedQueryAttention"}
        if kind == "llama"
        else {"CachedSelfAttention", "GPT"}
    )
    assert lines[0].startswith("Yours (") and names <= set(lines[0].split(": ")[1].split(", "))


def test_a_learners_part_is_what_speaks(file, answers):
    """Its sampler takes one token alone; the others are the reference's, and named."""
    (answers / f"{DAYS[23].stem}.py").write_text(FIVE)
    lines = []
    with runs.speaker(answers, file, lines.append) as speaker:
        text = "".join(speaker.reply(HI, 4, LIKELIEST))
        assert text == Pretrained.load(file, "cpu").decode([5] * 4)
        with pytest.raises(TooLong, match="the model's context of 64 tokens"):
            speaker.reply([{"role": "user", "content": "word " * 100}], 50, LIKELIEST)
        begun = list(itertools.islice(speaker.reply(HI, 9, LIKELIEST), 2))
        assert begun and "".join(speaker.reply(HI, 4, LIKELIEST)) == text
    assert lines[0] == "Yours (1): sample"
    assert any(line.startswith("From the reference") and "LLaMA" in line for line in lines[1:])


@pytest.mark.parametrize(
    ("number", "zeros"),
    [
        (8, "attention = lambda query, *rest: (0 * query, None)"),
        (
            31,
            "GroupedQueryAttention.attend = lambda self, q, k, v: 0 * q.transpose(1, 2).flatten(2)",
        ),
    ],
)
def test_a_learners_attention_attends(file, answers, number, zeros):
    """The learner's own attention runs: if it returns zeros, the model generates a different text."""
    solve(answers, number)
    path = answers / f"{BY_NUMBER[number].stem}.py"
    said = []
    for mistake in ("", zeros):
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{mistake}\n", encoding="utf-8")
        with runs.speaker(answers, file, lambda line: None) as speaker:
            said.append("".join(speaker.generate(PROMPT, 9, LIKELIEST)))
    assert (
        said[0] == "".join(Pretrained.load(file, "cpu").generate(PROMPT, 9, LIKELIEST)) != said[1]
    )


def test_an_error_in_a_part_is_told_by_its_line(file, answers):
    (answers / f"{DAYS[23].stem}.py").write_text(FIVE.replace("torch.full", "torch.filled"))
    with runs.speaker(answers, file, lambda line: None) as speaker:
        pieces = speaker.generate(PROMPT, 4, LIKELIEST)
        with pytest.raises(Refused, match=r"raise an error\.(.|\n)*filled(.|\n)*course check 24"):
            list(pieces)


def test_a_part_that_ends_the_process_is_told_of(file, answers):
    ending = "import os\ndef sample(logits, *how):\n    os._exit(3)\n"
    (answers / f"{DAYS[23].stem}.py").write_text(ending)
    with runs.speaker(answers, file, lambda line: None) as speaker:
        with pytest.raises(Refused, match=r"ended the whole Python process \(exit code 3\)"):
            list(speaker.generate(PROMPT, 4, LIKELIEST))
        with pytest.raises(Refused, match="has ended: begin again"):
            speaker.generate(PROMPT, 4, LIKELIEST)


def test_what_cannot_be_used_is_refused(file, answers, tmp_path):
    with (
        pytest.raises(Refused, match=r"No part of this model is yours"),
        runs.speaker(answers, file, lambda line: None),
    ):
        pass
    (answers / f"{DAYS[23].stem}.py").write_text(FIVE)
    (tmp_path / "broken.gguf").write_bytes(file.read_bytes()[:5000])
    with (
        pytest.raises(Refused, match=r"broken\.gguf is damaged or truncated"),
        runs.speaker(answers, tmp_path / "broken.gguf", lambda line: None),
    ):
        pass


@pytest.mark.slow
def test_the_command_says_whose_the_parts_are(file, answers, tmp_path):
    (answers / f"{DAYS[23].stem}.py").write_text(FIVE)
    command = [sys.executable, "-m", "course.cli", "generate", "--pretrained", file, "--answers",
               answers, "--prompt", PROMPT, "--tokens", "3"]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Yours (1): sample" in done.stderr
    assert done.stdout == PROMPT + Pretrained.load(file, "cpu").decode([5] * 3) + "\n"
