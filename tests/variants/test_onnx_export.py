"""Exported models in onnxruntime against the same models in torch: any batch, length and past.

Writing a graph takes torch some seconds, whatever its size, so each is written once.
"""

import dataclasses
import functools
import re
import sys

import pytest
import torch
from torch import nn

import implementation
from tests.reference.oracles import randomized
from training.models.architectures import LanguageModel
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import CachedGPT, generate_cached
from variants.llama import LLaMA, LLaMAConfig
from variants.onnx_export import OPSET, GrowingCache, OnnxModel, export
from variants.sampling import generate
from variants.shipping import quantize_model

CONTEXT = 16
GPT_SIZES = GPTConfig(vocab=29, context=CONTEXT, n_layers=2, n_heads=2, d_model=10, d_ff=24)
LLAMA_SIZES = LLaMAConfig(
    vocab=29, context=CONTEXT, n_layers=2, n_heads=4, n_kv_heads=2, d_model=24, d_ff=40
)
CHUNKS = [(1, [1, 1, 1]), (2, [5, 1, 4]), (3, [7, 1]), (4, [16])]


def language_model():
    """The decoder of `training/`, with what makes log-probabilities of its states."""
    layer = implementation.EncoderLayer(
        24,
        implementation.MultiHeadedAttention(2, 24, 0.1),
        implementation.PositionwiseFeedForward(24, 40, 0.1),
        0.1,
    )
    embed = nn.Sequential(
        implementation.Embeddings(24, 29), implementation.PositionalEncoding(24, 0.1, 50)
    )
    return LanguageModel(embed, implementation.Encoder(layer, 1), implementation.Generator(24, 29))


MODELS = {
    "gpt": lambda: GPT(dataclasses.replace(GPT_SIZES, n_layers=1)),
    "cached gpt": lambda: CachedGPT(GPT_SIZES),
    "llama": lambda: LLaMA(dataclasses.replace(LLAMA_SIZES, n_layers=1)),
    "cached llama": lambda: LLaMA(LLAMA_SIZES),
    "small cached llama": lambda: quantize_model(randomized(LLaMA(LLAMA_SIZES))),
    "small paper": lambda: quantize_model(randomized(language_model())),
}
WHOLE = [name for name in MODELS if "cached" not in name]
CACHED = [name for name in MODELS if "cached" in name]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model by its name, and its file; written when first asked for."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    folder, files = tmp_path_factory.mktemp("onnx"), {}

    def exported_once(name):
        if name not in files:
            torch.manual_seed(4)
            model = MODELS[name]()
            if "small" not in name:
                randomized(model)
            file = folder / f"{name}.onnx"
            modes = [module.training for module in model.modules()]
            export(model.train(), file, cache="cached" in name)
            assert [module.training for module in model.modules()] == modes == [True] * len(modes)
            files[name] = model.eval(), file
        return files[name]

    return exported_once


def run(file, **inputs):
    """What the file gives, as tensors."""
    session = OnnxModel(file, CONTEXT).session
    arrays = {name: value.numpy() for name, value in inputs.items()}
    return [torch.from_numpy(array) for array in session.run(None, arrays)]


@torch.no_grad()
def scores(model, *inputs):
    """What torch gives: log-probabilities where there is a generator."""
    states = model(*inputs)
    return model.generator(states) if hasattr(model, "generator") else states


def at_once(names):
    """Mark all models but one as slow: to export and load a graph takes seconds."""
    slow = pytest.mark.slow
    return [name if name == "cached llama" else pytest.param(name, marks=slow) for name in names]


@pytest.mark.parametrize("name", at_once(WHOLE))
def test_it_scores_as_torch_does(exported, name):
    model, file = exported(name)
    for batch, time in ((1, 1), (2, 3), (3, 7), (1, CONTEXT), (5, 2)):
        tokens = torch.randint(29, (batch, time))
        [logits] = run(file, tokens=tokens)
        torch.testing.assert_close(logits, scores(model, tokens), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", at_once(CACHED))
@pytest.mark.parametrize(("batch", "chunks"), CHUNKS)
def test_it_reads_in_chunks_what_torch_reads_at_once(exported, name, batch, chunks):
    model, file = exported(name)
    text = torch.randint(29, (batch, sum(chunks)))
    past = dict.fromkeys(("past_keys", "past_values"), torch.zeros(past_shape(model, batch)))
    outputs = []
    for part in text.split(chunks, dim=1):
        logits, keys, values = run(file, tokens=part, **past)
        past = {"past_keys": keys, "past_values": values}
        outputs.append(logits)
    torch.testing.assert_close(torch.cat(outputs, dim=1), scores(model, text), rtol=1e-4, atol=1e-5)
    with torch.no_grad():  # and what is handed on is what our own cache would hold
        cache = GrowingCache(*torch.zeros(2, *past_shape(model, batch)))
        model(text, cache)
    torch.testing.assert_close(keys, torch.stack(cache.keys), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values, torch.stack(cache.values), rtol=1e-4, atol=1e-5)


def past_shape(model, batch):
    """(N, B, G, 0, d_k)."""
    config = model.config
    heads = getattr(config, "n_kv_heads", config.n_heads)
    return config.n_layers, batch, heads, 0, config.d_model // config.n_heads


@pytest.mark.parametrize("name", at_once(MODELS))
def test_it_writes_the_same_tokens(exported, name):
    model, file = exported(name)
    prompt = torch.randint(29, (3, 4))
    if name == "small paper":  # which has no context of its own
        theirs = generate(OnnxModel(file, 50), prompt, 8, temperature=0)
        for t in range(4, 12):
            assert torch.equal(scores(model, theirs[:, :t])[:, -1].argmax(-1), theirs[:, t])
        return
    expected = generate(model, prompt, CONTEXT + 4, temperature=0)  # beyond the context, cut off
    onnx_model = OnnxModel(file, CONTEXT)
    assert torch.equal(generate(onnx_model, prompt, CONTEXT + 4, temperature=0), expected)
    if name in CACHED:
        assert torch.equal(generate_cached(model, prompt, CONTEXT + 4, temperature=0), expected)
    second = torch.randint(29, (2, 9))  # another text, longer than the first one's prompt
    assert torch.equal(
        generate(onnx_model, second, 5, temperature=0), generate(model, second, 5, temperature=0)
    )


def test_a_cache_is_asked_for_what_is_new_alone(exported):
    _, file = exported("cached gpt")
    onnx_model = OnnxModel(file, CONTEXT)
    text = torch.randint(29, (2, 9))
    assert onnx_model(text[:, :4]).size(1) == 4
    assert onnx_model(text[:, :5]).size(1) == 1
    assert onnx_model(text).size(1) == 4
    assert onnx_model(text).size(1) == 9  # the same once more: from the beginning
    assert onnx_model(text[:1]).size(1) == 9  # another number of rows
    changed = torch.cat([text + 1, text], dim=1) % 29
    assert onnx_model(changed[:, :12]).size(1) == 12


@pytest.mark.parametrize("name", at_once(["small cached llama", "small paper"]))
def test_eight_bits_stay_eight_bits(exported, name):
    onnx = pytest.importorskip("onnx")
    model, file = exported(name)
    graph = onnx.load(file).graph
    matrices = {
        tuple(tensor.dims): tensor.data_type
        for tensor in graph.initializer
        if len(tensor.dims) == 2 and tensor.dims[1] > 1 and "angles" not in tensor.name
    }
    int8 = {tuple(x.shape) for x in model.state_dict().values() if x.dtype == torch.int8}
    assert matrices == dict.fromkeys(int8, onnx.TensorProto.INT8)


def test_the_file(exported):
    onnx = pytest.importorskip("onnx")
    _, file = exported("cached llama")
    assert [path.name for path in file.parent.glob(f"{file.name}*")] == [file.name]  # all in one
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert {value.domain: value.version for value in model.opset_import}[""] == OPSET

    def shapes(places):
        sizes = {}
        for value in places:
            axes = value.type.tensor_type.shape.dim
            names = [" + ".join(sorted(axis.dim_param.split(" + "))) for axis in axes]
            sizes[value.name] = [n or axis.dim_value for n, axis in zip(names, axes, strict=True)]
        return sizes

    assert shapes(model.graph.input) == {
        "tokens": ["batch", "time"],
        "past_keys": [2, "batch", 2, "past", 6],
        "past_values": [2, "batch", 2, "past", 6],
    }
    assert shapes(model.graph.output) == {
        "logits": ["batch", "time", 29],
        "present_keys": [2, "batch", 2, "past + time", 6],
        "present_values": [2, "batch", 2, "past + time", 6],
    }


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named(monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)
    words = re.escape(f"{name} is missing") + ".*pip install onnx onnxscript onnxruntime"
    model = GPT(GPT_SIZES)
    needing = OnnxModel if name == "onnxruntime" else functools.partial(export, model)
    with pytest.raises(ModuleNotFoundError, match=words):
        needing(file=tmp_path / "a.onnx", **({"context": 9} if needing is OnnxModel else {}))
    assert not list(tmp_path.iterdir())
