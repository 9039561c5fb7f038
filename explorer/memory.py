"""The KV cache: what it holds, and what makes it large."""

import marimo

app = marimo.App(
    width="full",
    app_title="The KV cache's memory",
    css_file="page.css",
    html_head_file="start.html",
)

with app.setup:
    import math
    from dataclasses import replace
    from html import escape

    import marimo as mo
    import torch

    from explorer import page
    from explorer.charts import beside, facts
    from variants.gpt import GPT, GPTConfig
    from variants.kv_cache import KVCache
    from variants.llama import LLaMA, LLaMAConfig

    # The published sizes. GPT-2: Radford et al. 2019, table 2. LLaMA: Touvron et al. 2023 (February),
    # table 2. LLaMA 2: Touvron et al. 2023 (July), table 1 and §A.2.1. LLaMA 3: Grattafiori et al. 2024,
    # table 3, read to 131,072 tokens (§3.4.2). Vocabularies, and d_ff of 1 and 2: the published weights.
    MODELS = {
        "GPT-2 small": GPTConfig(),
        "GPT-2 XL": GPTConfig(n_layers=48, n_heads=25, d_model=1600, d_ff=6400),
        "LLaMA 7B": LLaMAConfig(),
        "LLaMA 65B": LLaMAConfig(n_layers=80, n_heads=64, n_kv_heads=64, d_model=8192, d_ff=22016),
        "LLaMA 2 70B": LLaMAConfig(
            context=4096, n_layers=80, n_heads=64, n_kv_heads=8, d_model=8192, d_ff=28672
        ),
        "LLaMA 3 8B": LLaMAConfig(
            vocab=128_256,
            context=131_072,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_model=4096,
            d_ff=14336,
        ),
        "LLaMA 3 70B": LLaMAConfig(
            vocab=128_256,
            context=131_072,
            n_layers=80,
            n_heads=64,
            n_kv_heads=8,
            d_model=8192,
            d_ff=28672,
        ),
        "LLaMA 3 405B": LLaMAConfig(
            vocab=128_256,
            context=131_072,
            n_layers=126,
            n_heads=128,
            n_kv_heads=8,
            d_model=16384,
            d_ff=53248,
        ),
    }
    OWN_SIZES = "my own sizes"
    MAX_CONTEXT = 131_072
    OPENING = 8_192  # tokens: the cache is still smaller than the weights
    DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float8": torch.float8_e4m3fn}
    TEXTS = [2**power for power in range(11)]
    LAYERS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128]
    HEADS = [2**power for power in range(8)]
    WIDTHS = [16, 32, 64, 128, 256]


@app.cell
def _():
    page.head("memory")
    return


@app.cell
def _():
    controls = page.Controls()
    # Models differ in their number of key/value heads.
    model = controls.choice(
        "model", "model", [*MODELS, OWN_SIZES], "LLaMA 3 8B", forgets=["kv_heads"]
    )
    texts = controls.slider("texts", "sequences in the batch", TEXTS, 1)
    dtype = controls.choice("dtype", "dtype of the cache", list(DTYPES), "bfloat16")
    page.beside(model, texts, dtype)
    return controls, dtype, model, texts


@app.cell
def _(controls, model):
    layers = controls.slider("layers", "layers", LAYERS, 32)
    heads = controls.slider("heads", "query heads", HEADS, 32)
    width = controls.slider("d_k", "d_k", WIDTHS, 128)
    page.beside(layers, heads, width) if model.value == OWN_SIZES else None
    return heads, layers, width


@app.cell
def _(heads, layers, model, width):
    config = MODELS.get(model.value) or of_sizes(layers.value, heads.value, width.value)
    return (config,)


@app.cell
def _(config, controls):
    length = controls.slider(
        "length", "tokens per sequence", lengths(config), min(config.context, OPENING)
    )
    kv_heads = controls.slider("kv_heads", "key/value heads", divisors(config), published(config))
    page.beside(length, kv_heads)
    return kv_heads, length


@app.cell
def _(config, kv_heads):
    weights = parameters(config, kv_heads.value)
    return (weights,)


@app.function
def of_sizes(layers: int, heads: int, d_k: int) -> LLaMAConfig:
    """A LLaMA of other sizes; the hidden layer is two thirds of 4 · d_model, up to a multiple of 256."""
    d_model = heads * d_k
    d_ff = 256 * math.ceil(8 * d_model / 3 / 256)
    return LLaMAConfig(
        context=MAX_CONTEXT,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=heads,
        d_model=d_model,
        d_ff=d_ff,
    )


@app.function
def lengths(config: GPTConfig | LLaMAConfig) -> list[int]:
    """The powers of two up to what the model can read."""
    return [2**power for power in range(config.context.bit_length())]


@app.function
def divisors(config: GPTConfig | LLaMAConfig) -> list[int]:
    """How many key/value heads there can be: each serves as many query heads."""
    return [number for number in range(1, config.n_heads + 1) if config.n_heads % number == 0]


@app.function
def published(config: GPTConfig | LLaMAConfig) -> int:
    """How many key/value heads the model has; in GPT-2 each query head has its own."""
    return getattr(config, "n_kv_heads", config.n_heads)


@app.function
def parameters(config: GPTConfig | LLaMAConfig, kv_heads: int) -> int:
    """How many numbers the model itself has; a GPT-2 as many as it is published with."""

    def counted(layers: int) -> int:
        changed = replace(config, n_layers=layers)
        if isinstance(changed, LLaMAConfig):
            changed = replace(changed, n_kv_heads=kv_heads)
        with torch.device("meta"):  # shapes without numbers
            model = GPT(changed) if isinstance(changed, GPTConfig) else LLaMA(changed)
        return sum(parameter.numel() for parameter in model.parameters())

    # All blocks are alike. To make 126 of them takes seconds.
    one_layer = counted(1)
    return one_layer + (config.n_layers - 1) * (counted(2) - one_layer)


@app.function
def cache_bytes(
    config: GPTConfig | LLaMAConfig, kv_heads: int, texts: int, length: int, dtype: torch.dtype
) -> int:
    """What the tensors of day 25's cache take up."""
    d_k = config.d_model // config.n_heads
    with torch.device("meta"):  # shapes without numbers: nothing is stored
        cache = KVCache(config.n_layers, texts, kv_heads, length, d_k)
        nothing = torch.empty(texts, kv_heads, 0, d_k, dtype=dtype)
        cache.update(0, nothing, nothing)  # the cache takes the dtype of what it is given
    return cache.keys.nbytes + cache.values.nbytes


@app.function
def said(size: float) -> str:
    """A number of bytes to three digits or to the whole, in the largest unit that it fills."""
    power = min(int(math.log2(size)) // 10, 4)
    filled = size / 1024**power
    digits = f"{filled:.3g}" if filled < 999.5 else f"{filled:,.0f}"
    return f"{digits} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


@app.function
def bars(rows: dict[str, int], caption: str, most: int, now: str | None = None) -> str:
    """Sizes as bars, of which one that is `most` is longest; the row that holds `now` is marked."""
    body = "".join(
        f'<tr class="{"now" if name == now else ""}"><th scope="row">{escape(name)}</th>'
        f'<td class="bar"><span style="width:{100 * size / most:.2f}%"></span></td>'
        f'<td class="number">{said(size)}</td></tr>'
        for name, size in rows.items()
    )
    return f'<table class="bars sizes"><caption>{escape(caption)}</caption><tbody>{body}</tbody></table>'


@app.function
def product(factors: dict[str, int], total: int) -> str:
    """The numbers that are multiplied, each above its name, and what comes of it."""
    shown = "".join(
        f"<span><b>{number:,}</b><small>{escape(name)}</small></span>"
        for name, number in factors.items()
    )
    return f'<p class="product">{shown}</p><p class="total">= <b>{total:,}</b> bytes = {said(total)}</p>'


@app.function
def filled(config: GPTConfig | LLaMAConfig, kv_heads: int, length: int) -> str:
    """One layer's keys and values: what is stored, of all heads and all tokens that the model can read."""
    width, height = 250, 110
    across, down = width * length / config.context, height * kv_heads / config.n_heads
    shapes = []
    for x, name in ((24, "K"), (306, "V")):
        shapes += [
            f'<rect x="{x + shift}" y="{32 - shift}" width="{width}" height="{height}"/>'
            for shift in (12, 8, 4, 0)  # the layers behind it
        ]
        shapes.append(
            f'<rect class="stored" x="{x}" y="32" width="{max(across, 2):.1f}" height="{max(down, 2):.1f}"/>'
            f'<text x="{x - 16}" y="{32 + height / 2 + 5}">{name}</text>'
            f'<text x="{x}" y="160">{length:,} of {config.context:,} tokens →</text>'
        )
    heads = f"{kv_heads} of {config.n_heads} heads ↓"
    says = f"one of {config.n_layers} layers: {heads.removesuffix(' ↓')}, {length:,} tokens"
    return (
        f'<svg class="cached" viewBox="0 0 574 166" role="img" aria-label="{says}">{"".join(shapes)}'
        f'<text x="24" y="14">one of {config.n_layers} layers, {heads}</text></svg>'
    )


@app.function
def picture(
    config: GPTConfig | LLaMAConfig,
    weights: int,
    kv_heads: int,
    texts: int,
    length: int,
    dtype: str,
) -> str:
    """The cache beside the weights, what it is a product of, and what it would be with other sizes."""

    def size(heads: int = kv_heads, tokens: int = length, kind: str = dtype) -> int:
        return cache_bytes(config, heads, texts, tokens, DTYPES[kind])

    total, model = size(), weights * torch.bfloat16.itemsize
    steps = lengths(config)
    first = max(min(steps.index(length) - 2, len(steps) - 5), 0)
    by_length = {f"{step:,}": size(tokens=step) for step in steps[first : first + 5]}
    by_heads = {str(heads): size(heads=heads) for heads in divisors(config)}
    by_dtype = {kind: size(kind=kind) for kind in DTYPES}
    most = max(*by_length.values(), *by_heads.values(), *by_dtype.values())
    scale = f"(bars up to {said(most)})"
    factors = {
        "keys, values": 2,
        "layers": config.n_layers,
        "kv heads": kv_heads,
        "d_k": config.d_model // config.n_heads,
        "tokens": length,
        "sequences": texts,
        "bytes each": DTYPES[dtype].itemsize,
    }
    outgrown = model * texts // total + 1
    summary = facts(
        {
            "per token": said(total / texts / length),
            "per sequence": said(total / texts),
            "the cache outgrows the weights with": f"{outgrown:,} sequence{'s' if outgrown > 1 else ''}",
        }
    )
    return beside(
        bars({"weights": model, "cache": total}, "In memory", max(model, total), "cache")
        + filled(config, kv_heads, length)
        + product(factors, total)
        + summary
        + bars(by_dtype, f"The cache with other dtypes {scale}", most, dtype),
        bars(by_length, f"The cache with other sequence lengths {scale}", most, f"{length:,}")
        + bars(
            by_heads,
            f"The cache with other numbers of key/value heads {scale}",
            most,
            str(kv_heads),
        ),
    )


@app.cell
def _(config, dtype, kv_heads, length, texts, weights):
    page.shown(
        lambda: picture(config, weights, kv_heads.value, texts.value, length.value, dtype.value)
    )
    return


@app.cell
def _():
    mo.md(
        r"""
        To compute the next token, a model needs the keys and values of all tokens before it, in every layer.
        The cache stores them, so that they are not computed again. It grows with each token and each
        sequence, while all sequences share the weights, here in bfloat16. Queries are not stored, so the
        number of query heads does not matter. Query heads that share keys and values (day 31) make the cache
        smaller.
        """
    )
    return


if __name__ == "__main__":
    app.run()
