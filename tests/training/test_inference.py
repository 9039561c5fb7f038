"""Using a trained model: what it says is what the reference's decoding says."""

import json
import math
from dataclasses import asdict

import pytest
import sacrebleu
import torch
import torch.nn.functional as F

from implementation import Batch, attention, beam_search, greedy_decode, subsequent_mask
from tests.training.conftest import POETRY, QUIET, small
from training.data import tasks
from training.data.tasks import Translation
from training.data.vocabulary import END, START
from training.errors import Refused
from training.generation import generate
from training.generation.generate import Sampling
from training.inference import trained_model
from training.inference.evaluation import evaluate
from training.inference.plots import draw_attention, draw_curves
from training.inference.trained_model import TrainedModel
from training.launch.options import RunRequest
from training.loop.monitor import Monitor
from training.models.architectures import Objective
from training.models.fused import FusedAttention

COLD = Sampling(temperature=0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A short run of each kind, trained once."""
    from training.devices import ProcessContext
    from training.loop.run_folder import Run
    from training.loop.training_loop import Trainer

    folder = tmp_path_factory.mktemp("runs")
    (folder / "poem.txt").write_text(POETRY, encoding="utf-8")
    trained_runs = {}
    for name, changes in {
        "copy": {"steps": 60, "warmup": 20, "validate_every": 30},
        "arithmetic": {},
        "translation": {"steps": 30},
        "text": {"data": str(folder / "poem.txt"), "vocabulary": 300, "context": 24, "steps": 60},
        "shakespeare": {"context": 24},
        "gpt": {"model": "gpt", "context": 24},
        "llama": {"model": "llama", "kv_heads": 1, "context": 24},
    }.items():
        settings = small("shakespeare" if "model" in changes else name, dropout=0.0, **changes)
        run = Run.begin(folder / name, settings)
        if settings.task == "shakespeare":
            task = tasks.Text(settings, POETRY)
        elif name == "translation":
            pairs = [(f"{a} sees {b}!", f"{a} voit {b} !") for a in "abcdefgh" for b in "ijklmnop"]
            task = Translation(settings, dict.fromkeys(("train", "validation", "test"), pairs))
        else:
            task = tasks.load(settings, QUIET)
        run.keep_languages(task.languages)
        trainer = Trainer(settings, task, run, ProcessContext(torch.device("cpu")))
        monitor = Monitor(run, settings.steps, 0, QUIET)
        with monitor.showing():
            trainer.train(monitor)
        trained_runs[name] = run, task
    return trained_runs


def model_of(runs, name):
    return TrainedModel.load(runs[name][0].folder, "cpu")


# --- From sequence to sequence --------------------------------------------------------------------


def test_answers_come_in_order_whatever_their_lengths(runs):
    model = model_of(runs, "arithmetic")
    questions = ["1+2=", "123+456=", "12+3=", "", "999+1=", "7+8="]
    together = model.translate(questions, beam=1)
    assert together == [model.translate([question], beam=1)[0] for question in questions]
    assert together[3] == ""


@pytest.mark.parametrize("beam", [1, 3])
def test_answers_are_those_of_the_reference_s_decoding(runs, beam):
    model = model_of(runs, "translation")
    text = "a sees k!"
    src = torch.tensor([model.languages.source.encode(text)])
    mask = Batch(src).src_mask
    if beam == 1:
        row = greedy_decode(model.model, src, mask, src.size(1) + 51, START, END)[0].tolist()
    else:
        row = beam_search(model.model, src, mask, src.size(1) + 51, START, END, beam)[0].tolist()
    assert model.translate([text], beam) == [model.languages.target.decode(row)]


def test_the_settings_length_penalty_is_the_usual_one(runs, monkeypatch):
    model, alphas = model_of(runs, "translation"), []
    monkeypatch.setattr(model, "settings", model.settings.replace({"length_penalty": 1.4}))
    monkeypatch.setattr(
        trained_model,
        "beam_search",
        lambda *arguments: alphas.append(arguments[-1]) or beam_search(*arguments),
    )
    model.translate(["a sees k!"])
    model.translate(["a sees k!"], alpha=0.3)
    assert alphas == [1.4, 0.3]


def test_without_an_end_an_answer_is_as_long_as_its_question(runs):
    answers = model_of(runs, "copy").translate(["1 2 3", "5 5 5 5 5"])
    assert [len(answer.split()) for answer in answers] == [3, 5]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("copy", "1 2 11", "'11' is not in the model's vocabulary"),
        ("arithmetic", "two", "'t' is not in the model's vocabulary"),
        ("arithmetic", "1" * 1001, "1001 tokens, and at most 1000"),
        ("text", "hello", "language model: use course generate"),
    ],
)
def test_what_cannot_be_answered_is_refused(runs, name, text, words):
    with pytest.raises(Refused, match=words):
        model_of(runs, name).translate([text])


# --- Language -------------------------------------------------------------------------------------


def test_a_text_goes_on_the_same_with_the_same_seed(runs):
    model = model_of(runs, "text")
    first, same, other = (
        "".join(model.generate("7 green", 40, Sampling(seed=seed))) for seed in (1, 1, 2)
    )
    assert first == same != other and first


@pytest.mark.parametrize("name", ["shakespeare", "gpt", "llama"])
def test_the_likeliest_is_what_no_temperature_and_one_candidate_give(runs, name):
    model = model_of(runs, name)
    cold = "".join(model.generate("bottles", 30, COLD))
    assert (
        cold == "".join(model.generate("bottles", 30, Sampling(top_k=1, seed=3)))
        and len(cold) == 30
    )
    assert cold == "".join(model.generate("bottles", 30, Sampling(top_p=1e-9, seed=4)))


def test_pieces_are_whole_characters(runs, monkeypatch):
    model = model_of(runs, "text")
    ids = iter(model.languages.target.encode("🙂 é"))
    scripted = {"sampler": lambda *how: torch.tensor([next(ids)])}
    monkeypatch.setattr(generate.make_sampler, "__kwdefaults__", scripted)
    count = len(model.languages.target.encode("🙂 é"))
    pieces = list(model.generate("a", count))
    assert "".join(pieces) == "🙂 é" and "🙂" in pieces and count > len(pieces)


@pytest.mark.parametrize("name", ["shakespeare", "gpt", "llama"])
def test_a_prompt_longer_than_the_context_is_cut(runs, name):
    model = model_of(runs, name)
    long, short = POETRY[:200], POETRY[200 - 24 : 200]
    assert list(model.generate(long, 5, COLD)) == list(model.generate(short, 5, COLD))


@pytest.mark.parametrize(
    ("name", "prompt", "words"),
    [
        ("text", "", "The prompt must not be empty"),
        ("shakespeare", "ß", "'ß' is not in the model's vocabulary"),
        ("copy", "1 2", "This model answers: course translate"),
    ],
)
def test_a_prompt_that_cannot_be_gone_on_with_is_refused(runs, name, prompt, words):
    with pytest.raises(Refused, match=words):
        list(model_of(runs, name).generate(prompt))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"top_p": 0.0}, "top-p must be above 0 and at most 1, got 0.0"),
        ({"top_p": math.nan}, "top-p must be above 0 and at most 1, got nan"),
        ({"temperature": math.inf}, "temperature must be a number of at least 0, got inf"),
        ({"temperature": math.nan}, "temperature must be a number of at least 0, got nan"),
    ],
)
def test_a_way_of_drawing_that_there_is_not_is_refused(how, words):
    with pytest.raises(Refused, match=words):
        Sampling(**how)


# --- Measuring ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["copy", "arithmetic", "translation", "text", "shakespeare"])
def test_a_whole_split_is_measured(runs, name):
    run, task = runs[name]
    model = TrainedModel.load(run.folder, "cpu")
    split = task.splits[-1]
    evaluation = evaluate(model, task, split)
    total = tokens = 0
    for rows in task.held_out(split):
        total += float(Objective(model.model, 0.0)(rows.source, rows.target)[1].detach())
        tokens += rows.tokens
    assert evaluation.loss == pytest.approx(total / tokens)
    assert evaluation.perplexity == pytest.approx(math.exp(evaluation.loss))
    assert (evaluation.exact_match is None) == (name in ("text", "shakespeare"))
    assert (evaluation.bleu is None) == (evaluation.signature is None) == (name != "translation")
    json.dumps(asdict(evaluation))
    if evaluation.exact_match is not None:
        sources, references = zip(*task.texts(split), strict=True)
        beam = 4 if name == "translation" else 1
        answers = model.translate(sources, beam)
        right = [a == b for a, b in zip(answers, references, strict=True)]
        assert evaluation.exact_match == sum(right) / len(right)
        assert evaluation.sequences == len(sources)
    if name == "translation":
        assert evaluation.bleu == sacrebleu.corpus_bleu(answers, [list(references)]).score
        assert "tok:13a" in evaluation.signature and "case:mixed" in evaluation.signature


def test_a_split_that_there_is_not_is_refused(runs):
    run, task = runs["text"]
    with pytest.raises(Refused, match="split must be one of validation for text, got 'test'"):
        evaluate(TrainedModel.load(run.folder, "cpu"), task, "test")


# --- Attention, pictures --------------------------------------------------------------------------


def test_attention_is_shown_for_every_layer_and_head(runs):
    maps = model_of(runs, "copy").attention("3 1 4 1 5")
    assert [shown.title for shown in maps] == [
        "encoder 1",
        "decoder 1, own past",
        "decoder 1, source",
    ]
    assert [tuple(shown.weights.shape) for shown in maps] == [(2, 5, 5), (2, 6, 6), (2, 6, 5)]
    for shown in maps:
        assert len(shown.rows) == shown.weights.size(1) and len(
            shown.columns
        ) == shown.weights.size(2)
        torch.testing.assert_close(shown.weights.sum(-1), torch.ones(shown.weights.shape[:2]))
    assert maps[0].rows == ["3", "1", "4", "1", "5"] and maps[1].rows[0] == "<start>"
    assert maps[1].weights.triu(1).abs().max() == 0


def test_looking_changes_no_answer(runs):
    model = model_of(runs, "copy")
    before = model.translate(["3 1 4 1 5"])
    model.attention("3 1 4 1 5")
    assert model.translate(["3 1 4 1 5"]) == before
    assert any(isinstance(module, FusedAttention) for module in model.model.modules())


def test_a_picture_that_fails_does_not_cost_the_measurement(runs, monkeypatch):
    import io

    from rich.console import Console

    from training.launch import pipeline

    def full(*which):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pipeline, "draw_attention", full)
    run, task = runs["copy"]
    screen = io.StringIO()
    run_request = RunRequest(run.settings(), run.folder, device="cpu")
    evaluation = pipeline._measured(run, task, run_request, Console(file=screen, width=500))
    assert evaluation.sequences == 1000
    assert "attention.png could not be drawn: No space left on device" in screen.getvalue()


@pytest.mark.parametrize("name", ["gpt", "llama"])
def test_attention_of_gpt_and_llama_is_what_their_layers_computed(runs, name, monkeypatch):
    """The weights of the queries and keys that the layers hand to PyTorch's kernel."""
    model, computed, kernel = model_of(runs, name), [], F.scaled_dot_product_attention

    def seen(query, key, value, *mask, **how):
        shared = key.repeat_interleave(query.size(1) // key.size(1), dim=1)
        computed.append(attention(query, shared, shared, subsequent_mask(query.size(2)))[1][0])
        return kernel(query, key, value, *mask, **how)

    monkeypatch.setattr(F, "scaled_dot_product_attention", seen)
    (shown,) = model.attention("7 green bottles")
    assert shown.weights.shape == (2, 15, 15)
    assert shown.rows == shown.columns == list("7␣green␣bottles")
    torch.testing.assert_close(shown.weights, computed[0])


@pytest.mark.parametrize("name", ["copy", "text"])
def test_nothing_has_no_attention(runs, name):
    with pytest.raises(Refused, match="The text must not be empty"):
        model_of(runs, name).attention("")


def test_pictures_are_drawn(runs, tmp_path):
    from matplotlib.image import imread

    run, _ = runs["copy"]
    draw_curves(run)
    draw_attention(model_of(runs, "copy").attention("3 1 4 1 5"), tmp_path / "attention.png")
    for picture in (run.curves, tmp_path / "attention.png"):
        pixels = imread(picture)
        assert min(pixels.shape[:2]) > 200 and pixels.std() > 0.05


# --- A run's folder -------------------------------------------------------------------------------


def test_a_folder_moves_to_another_machine(runs, tmp_path):
    run, _ = runs["translation"]
    for name in ("config.yaml", "vocabulary.json", "best.safetensors"):
        (tmp_path / name).write_bytes((run.folder / name).read_bytes())
    texts = ["a sees k!", "b sees i!"]
    assert TrainedModel.load(tmp_path).translate(texts) == model_of(runs, "translation").translate(
        texts
    )


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("config.yaml", None, "contains no run: it has no config.yaml"),
        ("config.yaml", b"task: [", "is not valid YAML"),
        ("vocabulary.json", None, "has no trained model yet"),
        ("vocabulary.json", b'{"target": {"kind": "odd"}}', "vocabulary.json is damaged"),
        ("vocabulary.json", b"{", "vocabulary.json is damaged"),
        ("best.safetensors", None, "has no trained model yet"),
        ("best.safetensors", b"\0" * 20, "best.safetensors is damaged"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(runs, tmp_path, name, body, words):
    run, _ = runs["copy"]
    for file in ("config.yaml", "vocabulary.json", "best.safetensors"):
        (tmp_path / file).write_bytes((run.folder / file).read_bytes())
    if body is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(body)
    with pytest.raises(Refused, match=words):
        TrainedModel.load(tmp_path)
