"""Training, decoding and shipping on the practice GPU: no CPU tensor sneaks in."""

import pytest
import torch

from course.checks.arrays import PRACTICE
from course.checks.tensors import missing_device
from implementation import Batch, beam_search, greedy_decode
from tests.training.conftest import QUIET, small
from tests.training.test_cached_decoding import (
    LONGEST,
    MODELS,
    WORDS,
    encoder_decoder,
    made,
    sources,
)
from training import devices
from training.data import tasks
from training.data.vocabulary import Languages
from training.devices import ProcessContext
from training.generation.generate import Sampling
from training.inference.trained_model import TrainedModel
from training.loop.monitor import Monitor
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer
from training.models.cached_decoding import CachedEncoderDecoder, cached_forward
from training.models.parts import REFERENCES
from variants.shipping import quantize_model

pytestmark = pytest.mark.skipif(
    missing_device(PRACTICE) is not None, reason="this torch has no practice GPU"
)
COLD = Sampling(temperature=0)
RUNS = [
    ("copy", {}),
    ("arithmetic", {"norm": "pre"}),
    ("translation", {}),
    ("text", {"model": "gpt"}),
    ("text", {"model": "llama", "kv_heads": 1, "dropout": 0.0, "recompute": True}),
]


@pytest.fixture(autouse=True)
def _there(monkeypatch):
    """The device is there, and a run may ask for it."""
    count = devices._count
    monkeypatch.setattr(devices, "_count", lambda kind: 1 if kind == "practice" else count(kind))
    practice = pytest.importorskip("course.checks.practice")
    with practice.running():
        yield


@pytest.fixture
def trained(tmp_path, poem):
    """Train a model for two steps on a device; the trainer, when it is done."""

    def train(task, changes, device):
        settings = small(task, steps=2, validate_every=1, **changes)
        if task == "text":
            settings = small(task, steps=2, validate_every=1, data=str(poem), **changes)
        run = Run.begin(tmp_path / device, settings)
        loaded = tasks.load(settings, QUIET, run.languages())
        run.keep_languages(loaded.languages)
        trainer = Trainer(settings, loaded, run, ProcessContext(torch.device(device)))
        monitor = Monitor(run, settings.steps, 0, QUIET)
        with monitor.showing():
            trainer.train(monitor)
        return trainer

    return train


@pytest.mark.slow
@pytest.mark.parametrize(("task", "changes"), RUNS)
def test_two_steps_are_those_of_the_cpu(trained, task, changes):
    """Two steps and their validation leave the weights and the loss that they leave on the CPU."""
    on_practice, here = (trained(task, changes, device) for device in ("practice", "cpu"))
    for name, parameter in on_practice.objective.parameters.items():
        assert parameter.device.type == "practice"
        torch.testing.assert_close(
            parameter.detach().cpu(), here.objective.parameters[name].detach()
        )
    assert on_practice.validate() == pytest.approx(here.validate(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copy", "translation", "text"])
def test_a_run_is_used_there(trained, task):
    """It translates, with beams as well, and generates what it does on the CPU, quantized or not."""
    run = trained(task, {"model": "gpt"} if task == "text" else {}, "cpu").run
    results = []
    for device in ("cpu", "practice"):
        model = TrainedModel.load(run.folder, device)
        small_one = TrainedModel(
            model.settings, model.languages, quantize_model(model.model), model.device, model.parts
        )
        for user in (model, small_one):
            assert {tensor.device.type for tensor in user.model.state_dict().values()} == {device}
            if task == "text":
                results.append(["".join(user.generate("7 green", 8, COLD))])
            else:
                results.append([user.translate(["1 2 3"], beam)[0] for beam in (1, 3)])
    assert results[:2] == results[2:]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_cache_decodes_there(beam):
    """Keys and values kept on the device give what is decoded without them."""
    settings, model = encoder_decoder("post")
    src, mask = sources()
    expected = _decoded(model, src, mask, beam)
    model, src = model.to("practice"), src.to("practice")
    mask = Batch(src).src_mask
    cached = CachedEncoderDecoder(model, settings, LONGEST, beam)
    for decoder in (model, cached):
        decoded = _decoded(decoder, src, mask, beam)
        assert decoded.device.type == "practice"
        assert torch.equal(decoded.cpu(), expected)


def _decoded(model, src, mask, beam):
    if beam == 1:
        return greedy_decode(model, src, mask, LONGEST, 1, 2)
    return beam_search(model, src, mask, LONGEST, 1, 2, beam)


@pytest.mark.parametrize("changes", MODELS[2:])
def test_a_language_model_reads_there(changes):
    """Token by token with a cache."""
    settings = small("text", layers=2, dropout=0.0, **changes)
    model = made(settings, Languages(WORDS, WORDS, 2)).to("practice")
    ask = cached_forward(model, settings, REFERENCES[settings.model])
    tokens = torch.randint(3, len(WORDS), (1, 5)).to("practice")
    with torch.no_grad():
        for length in range(1, 6):
            assert ask(tokens[:, :length]).device.type == "practice"
