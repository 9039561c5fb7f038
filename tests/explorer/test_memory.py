"""The page of the KV cache: what it shows is what day 25's cache holds, and what published models are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from explorer.memory import DTYPES, MODELS, cache_bytes, of_sizes, parameters, said
from tests.browser import sync_api
from tests.explorer.conftest import View
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import new_cache
from variants.llama import LLaMA, LLaMAConfig

Open = Callable[..., sync_api.Page]
LLAMA_3 = MODELS["LLaMA 3 8B"]


def held(config: GPTConfig | LLaMAConfig, texts: int, length: int, dtype: torch.dtype) -> int:
    """What a model's cache takes up that has read texts: with real tensors, layer by layer."""
    cache = new_cache(config, texts, length)
    shape = texts, cache.keys.size(2), length, cache.keys.size(4)
    for layer in range(config.n_layers):
        cache.update(layer, torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
    assert cache.length == length
    return sum(part.numel() * part.element_size() for part in (cache.keys, cache.values))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize(("kv_heads", "texts", "length"), [(4, 1, 1), (2, 3, 7), (1, 2, 16)])
def test_what_a_real_cache_holds(
    kv_heads: int, texts: int, length: int, dtype: torch.dtype
) -> None:
    config = LLaMAConfig(n_layers=3, n_heads=4, n_kv_heads=kv_heads, d_model=32)
    expected = held(config, texts, length, dtype)
    assert cache_bytes(config, kv_heads, texts, length, dtype) == expected
    assert expected == 2 * 3 * kv_heads * 8 * length * texts * dtype.itemsize


def test_what_a_model_leaves_in_its_cache() -> None:
    config = GPTConfig(vocab=9, context=8, n_layers=2, n_heads=2, d_model=8, d_ff=8)
    cache = new_cache(config, 3, 5)
    GPT(config)(torch.zeros(3, 5, dtype=torch.long), cache)
    expected = cache.keys.nbytes + cache.values.nbytes
    assert cache_bytes(config, 2, 3, 5, torch.float32) == expected


@pytest.mark.parametrize(
    ("name", "count"),  # the lessons of days 25 and 32, and the published weights
    [
        ("GPT-2 small", 124_439_808),
        ("GPT-2 XL", 1_557_611_200),
        ("LLaMA 7B", 6_738_415_616),
        ("LLaMA 65B", 65_285_660_672),
        ("LLaMA 2 70B", 68_976_648_192),
        ("LLaMA 3 8B", 8_030_261_248),
        ("LLaMA 3 70B", 70_553_706_496),
        ("LLaMA 3 405B", 405_853_388_800),
    ],
)
def test_the_published_models(name: str, count: int) -> None:
    config = MODELS[name]
    assert parameters(config, getattr(config, "n_kv_heads", config.n_heads)) == count


def test_parameters_of_a_stack_are_those_of_the_whole_model() -> None:
    gpt = GPTConfig(vocab=9, context=8, n_layers=5, n_heads=2, d_model=8, d_ff=8)
    llama = of_sizes(layers=5, heads=4, d_k=8)
    shared = replace(llama, n_kv_heads=2)
    for config, kv_heads, complete in (
        (gpt, 1, GPT(gpt)),
        (llama, 4, LLaMA(llama)),
        (llama, 2, LLaMA(shared)),
    ):
        assert parameters(config, kv_heads) == sum(
            parameter.numel() for parameter in complete.parameters()
        )


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (2, "2 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1 KiB"),
        (1017 * 2**20 + 7, "1,017 MiB"),
        (3 * 2**29 + 5, "1.5 GiB"),
        (320 * 2**10, "320 KiB"),
        (2**50, "1,024 TiB"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert said(size) == words


def is_shown(
    page: sync_api.Page, config: LLaMAConfig, *sizes: int, dtype: str = "bfloat16"
) -> None:
    """The total is the cache's, and the product of the numbers beside it."""
    expected = cache_bytes(config, *sizes, DTYPES[dtype])
    sync_api.expect(page.locator(".total b")).to_have_text(f"{expected:,}")
    factors = page.locator(".product b").all_inner_texts()
    assert math.prod(int(text.replace(",", "")) for text in factors) == expected
    assert page.locator(".sizes").first.locator(".number").all_inner_texts()[1] == said(expected)


def test_every_control_moves_what_is_drawn(opened: Open) -> None:
    page = opened("memory/")
    is_shown(page, LLAMA_3, 8, 1, 8_192)
    page.get_by_role("slider", name="sequences in").press("ArrowRight")
    is_shown(page, LLAMA_3, 8, 2, 8_192)
    page.get_by_role("slider", name="tokens per").press("ArrowLeft")
    is_shown(page, LLAMA_3, 8, 2, 4_096)
    page.get_by_role("slider", name="key/value heads").press("ArrowLeft")
    is_shown(page, LLAMA_3, 4, 2, 4_096)
    page.get_by_label("dtype").select_option("float8")
    is_shown(page, LLAMA_3, 4, 2, 4_096, dtype="float8")
    # Another model has its own heads, and its own context.
    page.get_by_label("model").select_option("LLaMA 65B")
    is_shown(page, MODELS["LLaMA 65B"], 64, 2, 2_048, dtype="float8")
    page.wait_for_url(lambda address: "kv_heads" not in address and "LLaMA+65B" in address)
    page.get_by_label("model").select_option("my own sizes")
    sizes = {"layers": 32, "heads": 32, "d_k": 128}
    for slider, name, value in (
        ("layers", "layers", 24),
        ("d_k", "d_k", 64),
        ("query heads", "heads", 16),
    ):
        page.get_by_role("slider", name=slider).press("ArrowLeft")
        sizes[name] = value
        is_shown(page, of_sizes(**sizes), sizes["heads"], 2, 4_096, dtype="float8")


def test_what_would_be_is_what_the_cache_would_hold(viewed: Callable[[str], View]) -> None:
    tables = viewed("memory/?model=LLaMA+2+70B&length=512&texts=4").html.select(".sizes")[1:]
    assert len(tables) == 3
    for table in tables:
        names = [cell.get_text() for cell in table.select("th")]
        sizes = [cell.get_text() for cell in table.select(".number")]
        assert len(names) >= 3
        for name, size in zip(names, sizes, strict=True):
            changed = {"kv": 8, "length": 512, "dtype": "bfloat16"}
            caption = table.caption.get_text()
            key = "dtype" if "dtype" in caption else "length" if "lengths" in caption else "kv"
            changed[key] = name if key == "dtype" else int(name.replace(",", ""))
            dtype = DTYPES[changed["dtype"]]
            config = MODELS["LLaMA 2 70B"]
            assert size == said(cache_bytes(config, changed["kv"], 4, changed["length"], dtype))
        assert len(table.select(".now")) == 1


def test_an_address_is_a_view(viewed: Callable[[str], View]) -> None:
    total = cache_bytes(LLAMA_3, 1, 1, 8_192, torch.bfloat16)
    assert viewed("memory/?kv_heads=1").texts(".total b") == [f"{total:,}"]


def test_the_picture_is_filled_as_the_cache_is(viewed: Callable[[str], View]) -> None:
    """The share of its area that is colored is that of the heads, times that of the tokens."""
    html = viewed("memory/?model=LLaMA+2+70B&length=1024&kv_heads=16").html
    ground, *_, stored = html.select(".cached rect")[:5]
    shares = [float(stored[side]) / float(ground[side]) for side in ("width", "height")]
    assert shares == [1024 / 4096, 16 / 64]
