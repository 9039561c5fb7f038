"""Settings: what the shipped configs hold, and what is refused, in which words."""

from pathlib import Path

import pytest

from tests.training.conftest import small
from training.errors import Refused
from training.settings import CONFIGS, TASKS, Settings, config_of, from_yaml, load, parse_changes


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_config_can_be_read_and_written(path, tmp_path):
    settings = load(path)
    (tmp_path / "again.yaml").write_text(settings.as_yaml(), encoding="utf-8")
    assert load(tmp_path / "again.yaml") == settings
    if settings.model != "llama" and path.stem != "multi30k":  # a third matrix; few sentences
        assert settings.d_ff == 4 * settings.d_model


@pytest.mark.parametrize(
    ("task", "layers", "d_model", "heads"),
    [
        ("copy", 2, 64, 4),
        ("sorting", 2, 64, 4),
        ("arithmetic", 3, 128, 8),
        ("shakespeare", 4, 128, 4),
    ],
)
def test_the_default_sizes(task, layers, d_model, heads):
    settings = load(config_of(task, None))
    assert (settings.layers, settings.d_model, settings.heads) == (layers, d_model, heads)


def test_the_paper_has_its_own_configs():
    base, big = load(CONFIGS / "transformer_base.yaml"), load(CONFIGS / "transformer_big.yaml")
    assert (base.layers, base.d_model, base.d_ff, base.heads, base.dropout) == (
        6,
        512,
        2048,
        8,
        0.1,
    )
    assert (big.layers, big.d_model, big.d_ff, big.heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert base.warmup == big.warmup == 4000 and base.smoothing == big.smoothing == 0.1
    assert base.norm == big.norm == "post" and base.factor == big.factor == 1.0


def test_what_is_not_set_is_the_paper_s():
    settings = Settings(task="translation", data="toy")
    assert (settings.layers, settings.d_model, settings.d_ff, settings.heads) == (6, 512, 2048, 8)
    assert (settings.dropout, settings.smoothing, settings.warmup) == (0.1, 0.1, 4000)
    assert (settings.cooldown, settings.clip, settings.weight_decay) == (0, 0, 0)


def test_data_choose_a_config():
    assert config_of("translation", "multi30k").name == "multi30k.yaml"
    assert config_of("translation", "wmt14").name == "transformer_base.yaml"
    assert config_of("translation", "toy").name == "translation.yaml"
    assert config_of("text", "multi30k").name == "text.yaml"


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_config_for_itself(task):
    assert load(config_of(task, None)).task == task


LLAMA = {"task": "text", "smoothing": 0.0, "model": "llama", "dropout": 0.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "coyp"}, "task must be one of copy, .*'coyp' .*'copy'"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"dropout": 1.5}, "dropout must be from 0 to 0.999, got 1.5"),
        ({"factor": float("nan")}, "factor must be at least 0, got nan"),
        ({"factor": float("inf")}, "factor must be at least 0, got inf"),
        ({"norm": "pots"}, "norm must be one of post, pre, got 'pots' .did you mean 'post'"),
        ({"heads": 3}, "heads must divide d_model, got heads=3, d_model=16"),
        ({"ema": 0.9, "average_last": 3}, "average_last and ema cannot be combined"),
        ({"task": "text"}, "smoothing must be 0 for language models"),
        ({"task": "translation", "tie": True, "joint": False}, "tie=true needs a joint vocabulary"),
        ({"task": "translation", "source": "fr"}, "got 'fr' for both"),
        ({"model": "gtp"}, "model must be one of paper, gpt, llama, .*did you mean 'gpt'"),
        ({"model": "gpt"}, "for shakespeare, text and chat, and not for the task copy"),
        (LLAMA | {"dropout": 0.1}, "dropout must be 0 for model=llama"),
        (LLAMA | {"kv_heads": 3}, "kv_heads must divide heads, got kv_heads=3, heads=2"),
        (LLAMA | {"heads": 16}, "d_model / heads must be even"),
        (LLAMA | {"model": "gpt", "kv_heads": 1}, "kv_heads is for model=llama"),
    ],
)
def test_a_value_out_of_range_is_refused(changes, words):
    with pytest.raises(Refused, match=words):
        small().replace(changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("task: copy\ndorpout: 0.1", "no setting 'dorpout' .did you mean 'dropout'"),
        ("task: copy\nlayers: many", "layers must be a whole number, got 'many'"),
        ("task: copy\nlayers: true", "layers must be a whole number, got True"),
        ("task: copy\nlayers: 2.5", "layers must be a whole number, got 2.5"),
        ("task: copy\ncompile: 1", "compile must be true or false, got 1"),
        ("layers: 2", "must set `task:`"),
        ("- copy", "must contain settings"),
        ("task: [", "is not valid YAML"),
        ("", "must contain settings"),
    ],
)
def test_a_config_that_is_none_is_refused(text, words, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match=rf"mine\.yaml.*{words}"):
        load(path)


def test_a_run_from_before_a_setting_was_renamed_is_read():
    assert from_yaml("task: copy\naverage: 3", Path("config.yaml")).average_last == 3


def test_a_config_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refused, match="cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_an_unknown_task_is_refused_with_the_nearest():
    with pytest.raises(Refused, match=r"got 'shakespear' .did you mean 'shakespeare'"):
        config_of("shakespear", None)


def test_changes_are_read_as_the_settings_types():
    changes = parse_changes(
        ["factor=1e-3", "layers=3", "tie=true", "norm=pre", "warmup = 7", "data="]
    )
    assert changes == {
        "factor": 0.001,
        "layers": 3,
        "tie": True,
        "norm": "pre",
        "warmup": 7,
        "data": "",
    }
    assert parse_changes(["dropout=0"]) == {"dropout": 0.0}
    assert parse_changes(["target=no"]) == {"target": "no"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layers", "must be key=value, got 'layers'"),
        ("layrs=2", "no setting 'layrs' .did you mean 'layers'"),
        ("layers=two", "layers must be a whole number, got 'two'"),
        ("layers=[", "layers cannot be"),
    ],
)
def test_a_change_that_is_none_is_refused(text, words):
    with pytest.raises(Refused, match=words):
        parse_changes([text])
