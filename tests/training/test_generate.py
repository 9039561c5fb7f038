"""How tokens are chosen and texts end: min-p, the repetition penalty, and stops."""

import math

import pytest
import torch

from tests.training.test_pretrained import LIKELIEST, PROMPT, written
from training.errors import Refused
from training.generation.generate import Sampling, adjusted, make_sampler, stop_at
from training.models.pretrained import Pretrained

LOGITS = torch.tensor([[2.0, 1.0, -1.0, 0.5]])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_min_p_is_a_share_of_the_likeliest(temperature):
    """As transformers has it, after the temperature."""
    transformers = pytest.importorskip("transformers")
    for min_p in (0.1, 0.3, 0.5, 1.0):
        ours = adjusted(LOGITS, [0], Sampling(temperature, min_p=min_p)) / temperature
        warper = transformers.MinPLogitsWarper(min_p)
        expected = warper(None, LOGITS / temperature)
        assert torch.equal(ours.isinf(), expected.isinf()), min_p
        assert torch.equal(ours[~ours.isinf()], expected[~expected.isinf()])


def test_the_repetition_penalty_is_that_of_transformers():
    transformers = pytest.importorskip("transformers")
    ids = [2, 0, 2]
    processor = transformers.RepetitionPenaltyLogitsProcessor(1.7)
    expected = processor(torch.tensor([ids]), LOGITS.clone())
    got = adjusted(LOGITS, ids, Sampling(repetition_penalty=1.7))
    torch.testing.assert_close(got, expected)
    assert torch.equal(adjusted(LOGITS, ids, Sampling()), LOGITS)


def test_a_penalty_keeps_a_text_from_repeating_itself():
    def ask(tokens):
        return LOGITS.expand(1, tokens.size(1), 4)

    def said(sampling):
        choose, ids = make_sampler(ask, sampling, context=9, device=torch.device("cpu")), [3]
        for _ in range(3):
            ids.append(choose(ids))
        return ids[1:]

    assert said(Sampling(0.0)) == [0, 0, 0]
    assert said(Sampling(0.0, repetition_penalty=100.0)) == [0, 1, 0]


@pytest.mark.parametrize("how", [{"min_p": 1.5}, {"min_p": -0.1}, {"repetition_penalty": 0.0},
                                 {"repetition_penalty": math.inf}])  # fmt: skip
def test_a_way_of_drawing_that_there_is_not_is_refused(how):
    with pytest.raises(Refused, match=r"min-p must be|repetition-penalty must be"):
        Sampling(**how)


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["ab", "cd"], [], "abcd"),
        (["ab", "cd"], ["bc"], "a"),
        (["ab", "ab", "c"], ["abc"], "ab"),
        (["x\n", "\n", "y"], ["\n\n"], "x"),
        (["ab", "cd"], ["d", "b"], "a"),
        (["ab", "c"], ["cd"], "abc"),
        (["aa", "ab"], ["aab"], "a"),
    ],
)
def test_a_text_ends_before_a_stop(pieces, stops, expected):
    assert "".join(stop_at(iter(pieces), stops)) == expected


def test_what_may_begin_a_stop_waits():
    assert next(stop_at(iter(["abc", "d"]), ["cx"])) == "ab"


@pytest.mark.slow
def test_the_command_stops(tmp_path, course):
    written(tmp_path, "llama")
    text = "".join(Pretrained.load(tmp_path, "cpu").generate(PROMPT, 9, Sampling(0.0)))
    stop = text[len(text) // 2 :][:2]
    done = course("generate", "--pretrained", tmp_path, "--prompt", PROMPT, "--tokens", 9,
                  "--temperature", 0, "--stop", stop)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == PROMPT + text[: text.find(stop)] + "\n"


@pytest.mark.slow
def test_a_draft_changes_the_number_of_passes_and_not_the_text(tmp_path, course_here):
    for name, kind in (("mine", "llama"), ("other", "gpt2")):
        written(tmp_path / name, kind)
    expected = PROMPT + "".join(
        Pretrained.load(tmp_path / "mine", "cpu").generate(PROMPT, 10, LIKELIEST)
    )
    how = ["generate", "--pretrained", "mine", "--prompt", PROMPT, "--temperature", 0, "--tokens"]
    done = course_here(*how, 10, "--draft", "mine")
    assert (done.exit_code, done.stdout) == (0, expected + "\n")
    assert "10 tokens in 2 passes of the model: 5.00 tokens per pass" in done.stderr
    assert course_here(*how, 10, "--draft", "lookup").stdout == expected + "\n"
    for options, words in (
        ([900, "--draft", "lookup"], "must fit into the context of both models"),
        ([9, "--draft", "lookup", "--min-p", 0.1], "--draft cannot be used with"),
        ([9, "--draft", "nothing"], "no folder or file nothing"),
    ):
        refused = course_here(*how, *options)
        assert refused.exit_code == 2 and words in " ".join(refused.stderr.split())
