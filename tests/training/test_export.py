"""`course quantize` and `course export`: what comes of a trained model, in bytes and elsewhere."""

import functools
import re
import shutil
from pathlib import Path

import onnx
import pytest
import torch
from typer.testing import CliRunner

from course.assembly import runs as provider
from course.cli import app
from tests.training.conftest import POETRY, SMALL
from training.checkpoints import read_weights
from training.data.vocabulary import characters
from training.errors import Refused
from training.generation.generate import Sampling
from training.inference import hugging_face_folder
from training.inference.trained_model import TrainedModel
from training.loop.run_folder import Run
from training.models import onnx_models
from training.models.pretrained import Pretrained
from variants.shipping import QuantizedLinear, dequantize

LANGUAGES = ("paper", "gpt", "llama")
KINDS = (*LANGUAGES, "own", "sorting")
COLD = Sampling(temperature=0)
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


def course(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run of each kind: the language models, a LLaMA with a learner's norm, one that answers."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "poem.txt").write_text(POETRY, encoding="utf-8")
    (folder / "answers").mkdir()
    own = folder / "answers" / "day28_norms_and_activations.py"
    own.write_text(OWN_NORM, encoding="utf-8")
    sizes = [f"{key}={value}" for key, value in SMALL.items()]
    more = ["context=24", "batch=8", "warmup=5", "factor=2", "dropout=0"]
    for kind in KINDS:
        task = ["sorting"] if kind == "sorting" else ["text", "--data", folder / "poem.txt"]
        model = {"own": "llama", "sorting": "paper"}.get(kind, kind)
        # three characters a token, so that a vocabulary goes along too
        words = ["vocabulary=300"] if kind == "llama" else []
        changes = [*sizes, *more, f"model={model}", *words]
        answers = ["--answers", folder / "answers"] if kind == "own" else []
        settings = [word for change in changes for word in ("--set", change)]
        done = course("train", *task, "--steps", 40, *settings, *answers, "--out", folder / kind)
        assert done.exit_code == 0, done.output
    return folder


def loaded(path: Path) -> TrainedModel:
    return TrainedModel.load(path, "cpu", provider)


@pytest.fixture(scope="module")
def quantized(trained):
    """The same runs with a byte a weight, and what was said of each."""
    outputs = {}
    for kind in KINDS:
        done = course("quantize", trained / kind)
        assert done.exit_code == 0, done.output
        outputs[kind] = done.output
    return outputs


# --- A byte a weight ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_matrix_is_kept_in_a_byte_a_weight(trained, quantized, kind):
    """What has two axes is int8, and no number of it is off by more than half a step."""
    before, after = (read_weights(Run(trained / folder).best) for folder in (kind, f"{kind}-int8"))
    matrices = [name for name, weight in before.items() if weight.dim() == 2]
    assert matrices
    for name in matrices:
        integers = after[f"{name.removesuffix('weight')}quantized"]
        scale = after[f"{name.removesuffix('weight')}scale"]
        assert integers.dtype == torch.int8
        assert ((dequantize(integers, scale) - before[name]).abs() <= 0.5001 * scale).all()
    assert not any(name.endswith(".weight") and tensor.dim() == 2 for name, tensor in after.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantized_run_is_used_like_another(trained, quantized, kind):
    run = trained / f"{kind}-int8"
    model = loaded(run)
    assert any(isinstance(module, QuantizedLinear) for module in model.model.modules())
    if kind == "sorting":
        assert course("translate", run, "3 1 2").output == f"{model.translate(['3 1 2'], 1)[0]}\n"
    else:
        text = "".join(model.generate("7 green", 12, COLD))
        how = ["--prompt", "7 green", "--tokens", 12, "--temperature", 0]
        assert text and course("generate", run, *how).output == f"7 green{text}\n"
    done = course("evaluate", run)
    assert done.exit_code == 0
    loss = re.search(r"loss +(\d\.\d+)", done.output)[1]
    assert f"{loss}" in quantized[kind]
    picture = trained / "attention.png"
    assert (
        course("attention", run, "3 1 2" if kind == "sorting" else "7", "--out", picture).exit_code
        == 0
    )


def test_what_it_changes_is_told(trained, quantized):
    sizes = [Run(trained / folder).best.stat().st_size for folder in ("gpt", "gpt-int8")]
    output = quantized["gpt"]
    assert re.search(rf"bytes +{sizes[0]:,} +{sizes[1]:,} +× {sizes[1] / sizes[0]:.3f}", output)
    before, after = map(float, re.search(r"loss, validation +([\d.]+) +([\d.]+)", output).groups())
    assert before != after and abs(before - after) < 0.05
    assert re.search(r"64 tokens +[\d.]+ s +[\d.]+ s +× [\d.]+", output)
    assert re.search(r"16 answers +[\d.]+ s", quantized["sorting"])


def test_a_learner_s_parts_go_along(trained, quantized):
    """The quantized run has its own copy of the files, those that were trained."""
    copied = trained / "own-int8" / "answers" / "day28_norms_and_activations.py"
    assert copied.read_text(encoding="utf-8") == OWN_NORM
    assert loaded(trained / "own-int8").parts.own == ["RMSNorm"]
    assert type(loaded(trained / "own-int8").model.norm).forward.__code__.co_filename == str(copied)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["quantize", "nowhere"], "nowhere contains no run"),
        (["quantize", "gpt-int8"], "The weights in gpt-int8 are a byte each already"),
        (["quantize", "gpt", "--out", "llama"], "llama already contains a run"),
        (["quantize", "gpt", "--out", "answers"], "answers already exists, and contains something"),
        (["train", "text", "--resume", "gpt-int8"], "gpt-int8 contains quantized weights"),
        (["export", "gpt", "--onnx", "gpt.pt"], "gpt.pt must end in .onnx"),
        (["export", "gpt", "--onnx", "no/where/gpt.onnx"], "gpt.onnx cannot be written"),
        (["export", "sorting", "--onnx", "sorting.onnx"], "the task sorting asks for answers"),
        (["export", "nowhere", "--onnx", "a.onnx"], "nowhere contains no run"),
        (["generate", "none.onnx"], "There is no file none.onnx"),
        (["generate", "torn.onnx"], "torn.onnx is damaged, or not an ONNX file"),
        (["generate", "foreign.onnx"], "foreign.onnx was not written by course export"),
        (["quantize", "foreign.onnx"], "foreign.onnx contains no run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_refused_in_words(
    trained, quantized, exported, monkeypatch, arguments, words
):
    monkeypatch.chdir(trained)
    exported_file = exported("paper")[0]
    monkeypatch.setattr(
        onnx_models, "export", lambda model, path, **_: shutil.copy(exported_file, path)
    )
    (trained / "torn.onnx").write_bytes(b"\x08\x09torn")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    same = onnx.helper.make_node("Identity", ["x"], ["y"])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([same], "foreign", [value], [out])
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), "foreign.onnx")
    before = sorted(path.name for path in trained.iterdir())
    done = course(*arguments)
    assert done.exit_code == 2 and words in done.output.replace("\n", " ")
    assert "Traceback" not in done.output
    assert sorted(path.name for path in trained.iterdir()) == before  # nothing is left behind


# --- ONNX -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(trained, quantized):
    """Write a language model as a file, once: the file, and what was said of it."""
    files = {}

    def write(kind):
        if kind not in files:
            file = trained / f"{kind}.onnx"
            done = course("export", trained / kind, "--onnx", file)
            assert done.exit_code == 0, done.output
            files[kind] = file, done.output
        return files[kind]

    return write


slow = functools.partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", ["paper", "llama-int8", *map(slow, ("gpt", "llama", "own"))])
def test_onnx_runtime_says_the_same(trained, exported, kind):
    """The same text, and the same loss, from the file alone; past the context too."""
    file, output = exported(kind)
    here, from_file = loaded(trained / kind), loaded(file)
    for prompt in ("7", "9 green bottles hanging on the wall, said Zoë 81."):
        texts = ["".join(model.generate(prompt, 40, COLD)) for model in (here, from_file)]
        assert texts[0] == texts[1] and texts[0]
    how = ["--prompt", "7 green", "--tokens", 12, "--seed", 5]
    assert course("generate", file, *how).output == course("generate", trained / kind, *how).output
    measured = [
        float(re.search(r"loss +(\d\.\d+)", course("evaluate", model).output)[1])
        for model in (file, trained / kind)
    ]
    assert measured[0] == pytest.approx(measured[1], abs=1e-4)
    assert f"{measured[0]:.4f}" in output and f"{file.stat().st_size:,}" in output
    assert b".py" not in file.read_bytes() and str(Path.home()).encode() not in file.read_bytes()
    if kind != "own":
        assert_only_what_is_new_is_read(from_file.model)
    if kind == "llama":
        assert_weights_stay_bytes(trained, exported)


def assert_only_what_is_new_is_read(model):
    """The reference's parts keep keys and values; a chunk of one token is scored as in the whole."""
    text = torch.randint(3, 20, (1, 9))
    full = model(text)
    model(text[:, :5])
    assert model(text[:, :6]).shape[1] == 1
    torch.testing.assert_close(model(text)[:, -1], full[:, -1], rtol=1e-4, atol=1e-4)


def assert_weights_stay_bytes(trained, exported):
    """The file of the quantized LLaMA is smaller by three bytes for each weight of a matrix."""
    matrices = [
        weight for weight in read_weights(Run(trained / "llama").best).values() if weight.dim() == 2
    ]
    large, small = (exported(kind)[0].stat().st_size for kind in ("llama", "llama-int8"))
    scales = sum(len(matrix) for matrix in matrices)
    saved = 3 * sum(matrix.numel() for matrix in matrices) - 4 * scales
    assert large - small > 0.5 * saved


def test_a_file_is_replaced_whole(trained, exported, monkeypatch):
    """Where writing fails, the file that was there is still that one."""
    file, graph = trained / "kept.onnx", exported("paper")[0]
    file.write_text("what was there")
    monkeypatch.setattr(onnx_models, "write_atomically", _no_room)
    monkeypatch.setattr(onnx_models, "export", lambda model, path, **_: shutil.copy(graph, path))
    done = course("export", trained / "llama", "--onnx", file)
    assert done.exit_code == 2 and "No space left" in done.output
    assert file.read_text() == "what was there"


def _no_room(path, body):
    raise OSError(28, "No space left on device")


def test_without_the_packages_it_says_what_to_install(trained, exported, monkeypatch):
    monkeypatch.setattr(onnx_models, "installed", lambda: False)
    for arguments in (
        ["export", trained / "gpt", "--onnx", "a.onnx"],
        ["generate", exported("paper")[0]],
    ):
        done = course(*arguments)
        assert done.exit_code == 2
        assert "pip install onnx onnxscript onnxruntime" in done.output.replace("\n", " ")


def test_a_file_keeps_no_attention(exported):
    with pytest.raises(Refused, match="has no attention weights"):
        loaded(exported("paper")[0]).attention("7 green")


# --- As transformers has it -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt", "llama", "own"])
def test_transformers_loads_what_is_exported(trained, kind, tmp_path, monkeypatch):
    """The same logits to 1e-10 in float64, the same tokens, and the same text when it is read back."""
    from tests.training.test_gguf_file import logits_in_double

    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "folder"
    done = course("export", trained / kind, "--hugging-face", folder)
    assert done.exit_code == 0, done.output
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    ours = TrainedModel.load(trained / kind, "cpu", provider)
    text = "7 green\nbottles"
    ids = ours.languages.target.encode(text)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert their_tokenizer(text)["input_ids"] == ids
    assert their_tokenizer.decode(ids) == text
    tokens = torch.tensor([ids])
    expected = logits_in_double(theirs, tokens, monkeypatch)
    got = ours.model.double()(tokens).detach()
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    texts = [
        "".join(model.generate(text, 8, COLD))
        for model in (
            TrainedModel.load(trained / kind, "cpu", provider),
            Pretrained.load(folder, "cpu"),
        )
    ]
    assert texts[0] == texts[1] != ""


def test_characters_are_tokens_for_transformers(trained, tmp_path):
    """A vocabulary of characters: the same ids, line breaks too, and no token for what it has not."""
    vocabulary = characters("ab\n é")
    assert hugging_face_folder.tokenizer(vocabulary).encode("a é\nb").ids == vocabulary.encode(
        "a é\nb"
    )
    assert hugging_face_folder.tokenizer(vocabulary).decode(vocabulary.encode("a é\nb")) == "a é\nb"
    course("export", trained / "gpt", "--hugging-face", tmp_path / "gpt")
    hugging_face_folder.tokenizer(vocabulary).save(str(tmp_path / "gpt" / "tokenizer.json"))
    with pytest.raises(Refused, match="The tokenizer cannot encode the prompt"):
        Pretrained.load(tmp_path / "gpt", "cpu").generate("日", 3, COLD)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gpt"], "takes exactly one of --onnx FILE and --hugging-face DIR"),
        (["gpt", "--onnx", "a.onnx", "--hugging-face", "a"], "takes exactly one of"),
        (["paper", "--hugging-face", "a"], "language models with model=gpt or model=llama"),
        (["sorting", "--hugging-face", "a"], "no class for task=sorting, model=paper"),
        (["gpt", "--hugging-face", "gpt"], "gpt already exists"),
        (["gpt", "--hugging-face", "poem.txt"], "poem.txt already exists"),
    ],
)
def test_what_transformers_has_no_class_for_is_not_exported(trained, arguments, words, monkeypatch):
    monkeypatch.chdir(trained)
    done = course("export", *arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert not (trained / "a").exists()


def test_a_model_of_bytes_is_not_exported_as_a_folder(trained, tmp_path):
    course("quantize", trained / "gpt", "--out", tmp_path / "small")
    done = course("export", tmp_path / "small", "--hugging-face", tmp_path / "a")
    assert done.exit_code == 2 and "a byte each: export the run" in " ".join(done.output.split())
