"""Published models trained further, whole and by LoRA: folders of transformers', and a file of GGUF."""

import itertools
import json
import re
import shutil

import pytest
import torch
from typer.testing import CliRunner

from course.cli import app
from tests.training.conftest import CPU, POETRY, QUIET
from tests.training.test_gguf_file import TEMPLATE, converted, llama, logits_in_double
from tests.training.test_gguf_file import written as written_gguf
from tests.training.test_pretrained import LLAMA3, tokenizer, written
from tests.training.test_pretrained import published as published_model
from training.checkpoints import read_state, read_weights
from training.data.batches import Rows
from training.data.vocabulary import Published, from_json
from training.errors import Refused
from training.generation.generate import Sampling
from training.inference import hugging_face_folder
from training.inference.evaluation import evaluate
from training.inference.trained_model import TrainedModel
from training.launch import pipeline
from training.launch.options import RunRequest
from training.loop.run_folder import Run
from training.loop.training_loop import Interrupted, Trainer
from training.models.finetuning import PROJECTIONS
from training.models.gguf_file import FACTORS
from training.models.pretrained import Pretrained
from training.settings import CONFIGS, load

COLD = Sampling(temperature=0.0)
PROMPT = "7 green bottles"
SOURCES = ("gpt2", "llama", "llama tied", "llama3", "model.gguf")
WAYS = {"whole": {}, "lora": {"lora": 4}}
MARKS = {'"<s>"': '"<|im_start|>"', '"</s>"': '"<|im_end|>"'}
TALKS = "\n".join(
    json.dumps({"messages": [{"role": "user", "content": f"{n}+1"},
                             {"role": "assistant", "content": f"{n + 1}."}]})
    for n in range(60)
)  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Published models of each kind, and a text."""
    root = tmp_path_factory.mktemp("sources")
    for kind in ("gpt2", "llama", "llama tied"):
        written(root / kind, kind)
    stretched = llama(rope_parameters=LLAMA3)
    stretched.save_pretrained(root / "llama3")
    tokenizer().save(str(root / "llama3" / "tokenizer.json"))
    shutil.copytree(root / "llama", root / "chat")
    marked = re.sub(r'"</?s>"', lambda old: MARKS[old[0]], tokenizer().to_str())
    (root / "chat" / "tokenizer.json").write_text(marked)
    (root / "talks.jsonl").write_text(TALKS, encoding="utf-8")
    chat = {"chat_template": TEMPLATE, "eos_token": "</s>"}
    (root / "llama3" / "tokenizer_config.json").write_text(json.dumps(chat))
    written_gguf(root / "model.gguf")
    (root / "poem.txt").write_text(POETRY, encoding="utf-8")
    return root


@pytest.fixture
def request_for(sources, tmp_path):
    """A run that is asked for."""

    numbers = itertools.count()

    def made(source="llama", **changes):
        usual = {"pretrained": str(sources / source), "data": str(sources / "poem.txt"),
                 "context": 16, "batch": 4, "steps": 6, "factor": 0.3, "warmup": 2,
                 "validate_every": 3, "save_every": 3, "fused": False}  # fmt: skip
        if changes.get("task") == "chat":
            usual["data"] = str(sources / "talks.jsonl")
        settings = load(CONFIGS / "finetuning.yaml").replace(usual | changes)
        return RunRequest(settings, tmp_path / f"run{next(numbers)}")

    return made


def trainer(request, folder=None):
    """That of a new run, or, with `folder`, of one that is there."""
    run = Run(folder) if folder else Run.begin(request.folder, request.settings)
    settings, task, parts, origin = pipeline.prepare(run, request, CPU, QUIET)
    return Trainer(settings, task, run, CPU, parts, origin)


def trained(request):
    loop = trainer(request)
    loop.train(None)
    return loop.run


# --- Before a step, and after some ----------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES)
def test_without_a_learning_rate_it_is_the_published_model(request_for, sources, source, way):
    """Its weights to the bit; and it continues a text with the same one."""
    run = trained(request_for(source, factor=0.0, steps=1, **WAYS[way]))
    ours, theirs = TrainedModel.load(run.folder, "cpu"), Pretrained.load(sources / source, "cpu")
    ids = torch.tensor([theirs.encode(PROMPT)])
    assert ids[0].tolist() == ours.languages.target.encode(PROMPT)
    weights = dict(theirs.model.named_parameters())
    for name, weight in ours.model.named_parameters():
        assert torch.equal(weight, weights[name])
    with torch.no_grad():
        torch.testing.assert_close(ours.model(ids), theirs.model(ids))
    assert ours.context == 64
    texts = ["".join(model.generate(PROMPT, 40, COLD)) for model in (ours, theirs)]
    assert texts[0] == texts[1] != ""
    first, *_ = ours.attention(PROMPT)
    assert torch.allclose(first.weights.sum(-1), torch.tensor(1.0))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES)
def test_it_learns_and_keeps_what_is_frozen(request_for, sources, source, way):
    loop = trainer(request_for(source, steps=30, validate_every=10, **WAYS[way]))
    before = loop.validate()
    loop.train(None)
    assert loop.progress.best < before - 0.2
    published = trainer(request_for(source, factor=0.0, steps=1))
    published.train(None)
    old, new = read_weights(published.run.last), read_weights(loop.run.last)
    assert old.keys() == new.keys()
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    if way == "whole":
        assert changed == old.keys()
    else:
        matrices = {n for n in old if n.split(".")[-2] in PROJECTIONS and n.endswith("weight")}
        assert changed == matrices
    assert ("head.weight" in new) == (source == "llama")  # the others are tied


def test_merged_weights_have_the_loss_of_the_updates(request_for):
    loop = trainer(request_for(lora=4, steps=20, validate_every=20))
    updates = sum(update.numel() for update in loop.objective.parameters.values())
    assert loop.flops_per_token == 4 * loop.size + 2 * updates < 4.5 * loop.size
    loop.train(None)
    model = TrainedModel.load(loop.run.folder, "cpu")
    assert evaluate(model, loop.task, "validation").loss == pytest.approx(
        loop.progress.best, rel=1e-5
    )


def test_a_tied_head_stays_the_embedding(request_for):
    run = trained(request_for("llama tied"))
    model = TrainedModel.load(run.folder, "cpu").model
    assert model.head.weight is model.embed.weight and "head.weight" not in read_weights(run.last)


def test_weights_in_half_precision_are_trained_in_float32(request_for, sources, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = shutil.copytree(sources / "llama", tmp_path / "half")
    half = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    half.save_pretrained(folder)
    weights = read_weights(trained(request_for(folder)).last)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


# --- Conversations --------------------------------------------------------------------------------


def test_a_batch_of_conversations_has_the_loss_of_each_alone(request_for):
    """Packed rows, and rows of one conversation: the answers' losses, summed."""
    loop = trainer(request_for("chat", task="chat", context=64))
    rows, alone = loop.task.batch(0), loop.task._train
    assert rows.target.shape == (4, 64) and loop.task.per_epoch == 8  # two in each row
    epoch = [loop.task.batch(number) for number in range(loop.task.per_epoch)]
    assert sum(rows.tokens for rows in epoch) == sum(int((its != -100).sum()) for _, its in alone)
    with torch.no_grad():
        together = sum(float(loop.objective(rows)[1]) for rows in epoch)
        apart = [Rows(None, tokens[None], labels[None]) for tokens, labels in alone]
        assert together == pytest.approx(sum(float(loop.objective(rows)[1]) for rows in apart))


@pytest.mark.slow
def test_a_model_learns_to_answer_and_to_stop(sources, course_here, tmp_path):
    """It continues a run that has learned from text, and is asked by `course chat`, exported or not."""
    (tmp_path / "talks.jsonl").write_text(re.sub(r"[0-9]+\.", "No.", TALKS))
    sizes = ["model=llama", "vocabulary=300", "layers=1", "d_model=32", "heads=2", "d_ff=64"]
    sets = [
        word for setting in ("dropout=0", "context=64", "warmup=5") for word in ("--set", setting)
    ]
    first = [*sets, *(word for setting in sizes for word in ("--set", setting))]
    for command in (
        ["text", "--data", sources / "poem.txt", "--steps", 5, "--out", "base", *first],
        ["chat", "--data", "talks.jsonl", "--from", "base", "--steps", 80, "--out", "a run", *sets],
    ):
        done = course_here("train", *command, "--set", "factor=0.5")
        assert done.exit_code == 0, done.output
    assert "57 training conversations in " in done.output and "3 for validation" in done.output
    assert json.loads(course_here("evaluate", "a run", "--json").stdout)["loss"] < 0.1
    done = course_here("export", "a run", "--hugging-face", "folder")
    assert done.exit_code == 0, done.output
    for model in (["a run"], ["--pretrained", "folder"]):
        command = ["chat", *model, "--tokens", "20", "--temperature", "0"]
        done = CliRunner().invoke(app, command, input="77+1\n")
        assert done.stdout == "No.\n", done.output


# --- What any run can do --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("llama", {}),
        ("llama tied", {"lora": 3}),
        ("gpt2", {"lora": 3, "dropout": 0.1, "ema": 0.9, "accumulate": 2}),
        ("llama3", {"lora": 3, "average_last": 2}),
        ("model.gguf", {"lora": 3, "precision": "bf16", "recompute": True}),
        ("chat", {"lora": 3, "task": "chat", "context": 48}),
    ],
)
def test_a_run_that_goes_on_ends_as_one_that_never_stopped(request_for, source, changes):
    request = request_for(source, **changes)
    full = trained(request_for(source, **changes))
    going = trainer(request)
    folder = request.folder
    while not going.finished:
        going.stop.signaled = True
        try:
            going.train(None)
        except Interrupted:
            going = trainer(RunRequest(Run(folder).settings(), folder, resumed=True), folder)
    for name in ("last", "best"):
        some, rest = (read_weights(getattr(run, name)) for run in (Run(folder), full))
        assert some.keys() == rest.keys()
        assert all(torch.equal(tensor, rest[name]) for name, tensor in some.items())
    if "lora" in changes:  # nothing else is kept to go on from
        names = [name for name in read_state(full.state).tensors if name.startswith("weights.")]
        assert names and all(name.endswith((".a", ".b")) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_command_fine_tunes_measures_and_goes_on(sources, course_here, tmp_path, way):
    shutil.copytree(sources, "sources")
    sets = ["context=16", "batch=4", "warmup=2", "factor=0.3", "validate_every=4"]
    sets += [f"{key}={value}" for key, value in WAYS[way].items()]
    command = ["text", "--data", "sources/poem.txt", "--from", "sources/llama", "--out", "a run"]
    changes = [word for setting in sets for word in ("--set", setting)]
    done = course_here("train", *command, "--steps", 4, *changes)
    assert done.exit_code == 0, done.output
    words = r"[\d,]+ parameters( \([\d,]+ of them trained\))?, 4 steps"
    assert bool(re.search(words, done.output)[1]) == (way == "lora")
    done = course_here("train", "text", "--resume", "a run", "--steps", 8)
    assert done.exit_code == 0, done.output
    assert read_state(Run(tmp_path / "a run").state).facts["progress"]["step"] == 8
    results = json.loads(course_here("evaluate", "a run", "--json").stdout)
    assert 0 < results["loss_per_byte"] < results["loss"]
    text = course_here("generate", "a run", "--prompt", PROMPT, "--tokens", 5, "--temperature", 0)
    assert text.exit_code == 0 and text.stdout.startswith(PROMPT)


@pytest.mark.slow
def test_it_is_quantized_and_written_as_onnx(request_for, course_here, tmp_path):
    run = trained(request_for("llama tied", lora=4))
    expected = "".join(TrainedModel.load(run.folder, "cpu").generate(PROMPT, 8, COLD))
    done = course_here("quantize", run.folder, "--out", "small")
    assert done.exit_code == 0, done.output
    small = TrainedModel.load(tmp_path / "small", "cpu")
    assert small.model.head.quantized is small.model.embed.quantized
    done = course_here("export", run.folder, "--onnx", "model.onnx")
    assert done.exit_code == 0, done.output
    assert "".join(TrainedModel.load(tmp_path / "model.onnx").generate(PROMPT, 8, COLD)) == expected


@pytest.mark.parametrize("source", SOURCES)
def test_it_is_exported_as_a_folder(request_for, source, tmp_path, monkeypatch):
    """transformers computes the same, and what the published folder had beside its weights is there."""
    transformers = pytest.importorskip("transformers")
    run = trained(request_for(source, lora=4, steps=20))
    ours = TrainedModel.load(run.folder, "cpu")
    hugging_face_folder.write(tmp_path / "folder", ours)
    ids = torch.tensor([ours.languages.target.encode(POETRY[:60])])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    expected = logits_in_double(theirs, ids, monkeypatch)
    torch.testing.assert_close(ours.model.double()(ids), expected, rtol=0, atol=1e-10)
    again = Pretrained.load(tmp_path / "folder", "cpu")
    assert again.ends == {1} and again.model.config == ours.base.config
    assert again.template == (TEMPLATE if source in ("llama3", "model.gguf") else None)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert their_tokenizer(PROMPT)["input_ids"] == ours.languages.target.encode(PROMPT)


def test_angles_that_transformers_has_no_name_for_are_not_exported(request_for, sources, tmp_path):
    model = llama()
    factors = torch.linspace(1, 4, 4).numpy()
    file = tmp_path / "stretched.gguf"
    written_gguf(file, model=model, tensors=converted(model) | {FACTORS: factors})
    run = trained(request_for(file, lora=4))
    assert "".join(TrainedModel.load(run.folder, "cpu").generate(PROMPT, 8, COLD))
    with pytest.raises(Refused, match="a configuration of transformers cannot say"):
        hugging_face_folder.write(tmp_path / "folder", TrainedModel.load(run.folder, "cpu"))


OWN_NORM = """
import torch
from torch import nn

class RMSNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.gain
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_learner_s_parts_are_fine_tuned_too(sources, course_here, tmp_path, way):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "day28_norms_and_activations.py").write_text(OWN_NORM, "utf-8")
    sets = ["context=16", "batch=2", *(f"{key}={value}" for key, value in WAYS[way].items())]
    done = course_here("train", "text", "--data", sources / "poem.txt", "--from", sources / "llama3",
                       "--answers", "mine", "--steps", 2, "--out", "a run",
                       *(word for setting in sets for word in ("--set", setting)))  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Yours (1): RMSNorm" in done.output
    done = course_here("generate", "a run", "--prompt", PROMPT, "--tokens", 5)
    assert done.exit_code == 0, done.output


# --- The tokenizer --------------------------------------------------------------------------------


def test_a_text_is_read_as_the_model_reads_it():
    """Special tokens in a text are tokens; what is decoded is without them, and names show them."""
    words = Published(tokenizer(), 300)
    again = from_json(words.as_json())
    for vocabulary in (words, again):
        ids = vocabulary.encode("7 green\n</s>Zoë")
        assert 1 in ids and vocabulary.decode(ids) == "7 green\nZoë" and len(vocabulary) == 300
        assert vocabulary.names(ids[: ids.index(1) + 1])[-2:] == ["↵", "</s>"]


def test_a_token_without_an_embedding_is_refused(request_for, sources, tmp_path):
    folder = shutil.copytree(sources / "llama", tmp_path / "larger")
    larger = tokenizer()
    larger.add_tokens(["hanging"])
    larger.save(str(folder / "tokenizer.json"))
    words = r"The tokenizer does not fit the model, .* for the token 'hanging' \(id 300\)"
    with pytest.raises(Refused, match=words):
        trainer(request_for(folder))


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["copy", "--from", "llama"], "--from fine-tunes language models, for shakespeare, text and chat,"),
        (["translation", "--from", "llama"], "not for the task translation"),
        (["text", "--set", "lora=8"], "lora=8 updates a published model: it needs --from"),
        (["text", "--from", "llama", "--set", "lora=-1"], "lora must be at least 0, got -1"),
        (["text", "--from", "llama", "--set", "lora=2.5"], "lora must be a whole number, got 2.5"),
        (["text", "--from", "llama", "--set", "lora=all"], "lora must be a whole number, got 'all'"),
        (["text", "--from", "llama", "--set", "layers=3"], "layers is determined by the model in --from"),
        (["text", "--from", "llama", "--set", "vocabulary=400"], "vocabulary is determined by the model"),
        (["text", "--from", "llama", "--set", "context=65"], "context must be at most 64 tokens"),
        (["text", "--from", "llama", "--set", "context=16", "--set", "dropout=0.1"],
         "dropout must be 0 for model=llama"),
        (["text", "--from", "nowhere"], "There is no folder or file nowhere"),
        (["text", "--from", "empty"], "config.json cannot be read"),
        (["chat"], "chat` needs a file of conversations, and a model that it trains further"),
        (["chat", "--from", "llama"], "vocabulary must have tokens around messages: <|im_start|>"),
        (["chat", "--from", "chat", "--set", "context=64"], "poem.txt must have a conversation in each line"),
        (["text", "--set", "pretrained=llama"], "pretrained cannot be changed by --set"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_start_that_is_refused_leaves_nothing_behind(
    sources, course_here, arguments, words, tmp_path
):
    for name in ("llama", "chat", "poem.txt"):
        (tmp_path / name).symlink_to(sources / name)
    (tmp_path / "empty").mkdir()
    more = ["--data", "poem.txt"] if arguments[0] in ("text", "chat") else []
    done = course_here("train", *arguments, *more, "--out", "a run")
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.stderr.split())
    assert not (tmp_path / "a run").exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_has_changed_is_refused(request_for, sources, tmp_path, way):
    """Of another size in any case; with other weights where these are not in the checkpoint."""
    folder = shutil.copytree(sources / "llama", tmp_path / "source")
    request = request_for(folder, **WAYS[way])
    trained(request)
    resumed = RunRequest(Run(request.folder).settings(), request.folder, resumed=True)
    torch.manual_seed(12)
    other = published_model("llama")
    other.save_pretrained(folder)
    if way == "lora":
        with pytest.raises(Refused, match="source has changed since the run was begun with it"):
            trainer(resumed, request.folder)
    else:
        assert trainer(resumed, request.folder).finished
    shutil.rmtree(folder)
    shutil.copytree(sources / "llama3", folder)
    with pytest.raises(Refused, match="source has changed since the run was begun with it"):
        trainer(resumed, request.folder)


def test_a_base_that_is_damaged_is_refused(request_for):
    run = trained(request_for())
    for body in ("{", "[]", '{"kind": "mamba"}', "null"):
        run.published.write_text(body)
        with pytest.raises(Refused, match=r"base\.json is damaged"):
            TrainedModel.load(run.folder, "cpu")
