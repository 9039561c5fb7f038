"""The model that ships with the explorer: small, what its config makes, and right where the pages use it."""

from __future__ import annotations

import hashlib

import pytest
import torch

from explorer.shipped_model import ENCODER, FOLDER, PAST, SOURCE, AttentionLayer, Head, Trained
from training.inference.trained_model import TrainedModel
from training.settings import CONFIGS, load

MAX_BYTES = 2_000_000
DIGEST = "b4cee3f6accd5ec9417136f3ee8b9831968a307159ad742430bf8650545175e2"
RIGHT = {
    "The red car is old, but it is not clean.": "La voiture rouge est vieille, mais elle n'est pas propre.",
    "The young girl does not see the black cat.": "La jeune fille ne voit pas le chat noir.",
    "The cats that we saw are black.": "Les chats que nous avons vus sont noirs.",
    "The king's horses drink the cold water.": "Les chevaux du roi boivent l'eau froide.",
    "Why do you look for the blue key?": "Pourquoi est-ce que tu cherches la clé bleue ?",
}
CAR, TRANSLATED = next(iter(RIGHT.items()))


@pytest.fixture(scope="module")
def trained() -> Trained:
    return Trained()


def test_it_is_small_and_whole() -> None:
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert set(files) == {"README.md", "config.yaml", "vocabulary.json", "best.safetensors"}
    assert sum(files.values()) < MAX_BYTES


def test_it_is_what_its_config_makes() -> None:
    assert load(FOLDER / "config.yaml") == load(CONFIGS / "explorer.yaml")
    weights = (FOLDER / "best.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == DIGEST


@pytest.mark.parametrize("beam", [1, 4])
def test_it_translates(beam: int) -> None:
    assert TrainedModel.load(FOLDER, "cpu").translate(list(RIGHT), beam) == list(RIGHT.values())


def test_a_head_that_is_off_is_zero_before_the_output_projection(trained: Trained) -> None:
    """Held against the model with that head's columns of `w_o` set to 0: the same to rounding."""
    head = Head(AttentionLayer(ENCODER, 2), 3)
    off = trained.losses(CAR, TRANSLATED, [head])
    changed = Trained()
    w_o = changed.attentions[head.place].w_o
    with torch.no_grad():
        w_o.weight.unflatten(1, (4, -1))[:, head.number - 1] = 0
    assert off.each == pytest.approx(changed.losses(CAR, TRANSLATED).each, rel=1e-4, abs=1e-5)
    assert trained.translation(CAR, [head]) == changed.translation(CAR)
    assert trained.losses(CAR, TRANSLATED).mean < off.mean  # and it is on again


def test_losses_are_those_of_the_reference(trained: Trained) -> None:
    model = TrainedModel.load(FOLDER, "cpu")
    source = torch.tensor([model.languages.source.encode(CAR)])
    target = torch.tensor([[1, *model.languages.target.encode(TRANSLATED), 2]])
    with torch.no_grad():
        mask = torch.ones(1, target.size(1) - 1, target.size(1) - 1).tril().bool()
        states = model.model(source, target[:, :-1], None, mask)
        scores = model.model.generator.proj(states)[0]
    expected = torch.nn.functional.cross_entropy(scores, target[0, 1:], reduction="none")
    losses = trained.losses(CAR, TRANSLATED)
    assert losses.each == pytest.approx(expected.tolist(), abs=1e-5)
    assert losses.tokens[-1] == "<end>"


def test_one_head_knows_what_it_stands_for(trained: Trained) -> None:
    """What the page begins with: `it` looks at `car`, and without that head the car is masculine."""
    agreeing = Head(AttentionLayer(ENCODER, 2), 3)
    attention = trained.maps(CAR)[agreeing.place]
    weights = attention.weights[agreeing.number - 1]
    assert weights[attention.rows.index("␣it"), attention.columns.index("␣car")] > 0.9
    assert trained.translation(CAR, [agreeing]) == TRANSLATED.replace("elle", "il")


def test_without_the_decoders_look_at_the_source_nothing_is_known_of_it(trained: Trained) -> None:
    off = [head for head in trained.heads if head.place.kind == SOURCE]
    assert len(off) == 8
    answers = {trained.translation(sentence, off) for sentence in RIGHT}
    assert len(answers) == 1


def test_the_past_is_never_ahead(trained: Trained) -> None:
    maps = trained.maps(CAR)
    assert set(maps) == set(trained.attentions)
    for sublayer, attention in maps.items():
        assert attention.weights.sum(-1).sub(1).abs().max() < 1e-5
        assert (sublayer.kind == PAST) == bool((attention.weights.triu(1) == 0).all())
