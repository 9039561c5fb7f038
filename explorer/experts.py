"""Mixture of experts: which tokens go to which expert, and what is dropped."""

import marimo

app = marimo.App(
    width="full", app_title="Mixture of experts", css_file="page.css", html_head_file="start.html"
)

with app.setup:
    import hashlib
    from dataclasses import dataclass
    from html import escape

    import marimo as mo
    import numpy as np
    import torch
    from torch import Tensor

    from explorer import page
    from explorer.charts import facts, number
    from variants import moe

    TEXT = "the cat sat on the mat and the dog sat on the cat"
    MAX_TOKENS = 16  # tokens that are routed: their rows fit on the screen
    LETTERS = 12  # of a token that are shown

    EXPERTS = range(3, 9)
    CHOICES = range(1, 4)
    SKEWS = [step / 4 for step in range(13)]
    CAPACITIES = [step / 4 for step in range(2, 13)]
    STEPS = range(41)
    RATE = 1.0  # of the descent: enough for most texts to be spread within its steps

    FEATURES = 6  # of a token, drawn
    # Before them always 1, and behind them the position, which the router cannot see.
    D_MODEL = 1 + FEATURES + 1


@app.cell
def _():
    page.head("experts")
    return


@app.cell
def _():
    controls = page.Controls()
    text = controls.text("text", "tokens", TEXT)
    n_experts = controls.slider("experts", "experts N", EXPERTS, 4)
    k = controls.slider("k", "experts per token, k", CHOICES, 2)
    skew = controls.slider("skew", "router skew", SKEWS, 1.0)
    capacity_factor = controls.slider("capacity", "capacity factor c", CAPACITIES, 1.0)
    step = controls.slider("step", "training steps on the loss", STEPS, 0)
    answers = controls.answers("experts")
    row = page.beside(text, n_experts, k, capacity_factor, skew, step, answers)
    mo.Html(f'<div class="first-wide">{row.text}</div>')
    return answers, capacity_factor, k, n_experts, skew, step, text


@app.cell
def _(answers):
    parts = page.parts("experts", answers.value)
    return (parts,)


@app.cell
def _(k, n_experts, skew, text):
    tokens = vectors(text.value.split()[:MAX_TOKENS])
    trained = descent(tokens, n_experts.value, k.value, skew.value) if len(tokens) else []
    return tokens, trained


@app.function
def vectors(words: list[str]) -> Tensor:
    """The tokens `(tokens, D_MODEL)`: equal words have equal ones, apart from the position at the end."""
    rows = [
        np.random.default_rng([*hashlib.sha256(word.encode()).digest()]).normal(size=FEATURES)
        for word in words
    ]
    return torch.tensor(
        [[1, *features, position] for position, features in enumerate(rows)], dtype=torch.float32
    )


@app.function
def descent(tokens: Tensor, n_experts: int, k: int, skew: float) -> list[Tensor]:
    """The router's weights `(n_experts, D_MODEL)` after 0, 1, 2 … steps down the load-balancing loss."""
    router = moe.TopKRouter(D_MODEL, n_experts, k)
    weight = router.w_r.weight
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) / 2)
        weight[:, 0] = -skew * torch.arange(
            n_experts
        )  # each expert is liked less than the one before
        weight[:, -1] = 0  # the position
    inputs = tokens.clone()
    inputs[:, -1] = 0
    weights = [weight.detach().clone()]
    for _ in STEPS[1:]:
        _, chosen, probs = router(inputs)
        (gradient,) = torch.autograd.grad(moe.load_balancing_loss(probs, chosen), weight)
        with torch.no_grad():
            weight -= RATE * gradient
        weights.append(weight.detach().clone())
    return weights


@app.class_definition
@dataclass(frozen=True)
class Routes:
    """Where the tokens went.

    Attributes:
        weights: of each token's experts, `(tokens, k)`.
        chosen: their numbers, `(tokens, k)`.
        probs: of all experts, `(tokens, n_experts)`.
        taken: of each expert, the positions of the tokens that it computed for.
        room: the capacity of an expert, in tokens.
        lost: positions of the tokens whose output is 0.
    """

    weights: Tensor
    chosen: Tensor
    probs: Tensor
    taken: list[list[int]]
    room: int
    lost: list[int]


@app.function
@torch.no_grad()
def routed(tokens: Tensor, weight: Tensor, k: int, capacity_factor: float) -> Routes:
    """Send the tokens through the reference's layer, and see with what each expert is called."""
    layer = moe.MixtureOfExperts(D_MODEL, D_MODEL, len(weight), k, capacity_factor)
    taken: list[list[int]] = [[] for _ in layer.experts]
    for positions, expert in zip(taken, layer.experts, strict=True):
        expert.register_forward_pre_hook(
            lambda _, inputs, positions=positions: positions.extend(inputs[0][:, -1].int().tolist())
        )
    # How many fit: so many of these tokens an expert takes if all want it.
    layer.router.w_r.weight.zero_()
    layer.router.w_r.weight[0, 0] = 1
    layer(tokens)
    room = len(taken[0])
    for positions in taken:
        positions.clear()
    layer.router.w_r.weight.copy_(weight)
    output = layer(tokens)
    weights, _, _ = layer.router(tokens)
    lost = (output == 0).all(dim=-1).nonzero()[:, 0].tolist()
    return Routes(weights, layer.chosen, layer.probs, taken, room, lost)


@app.function
def lines(words: list[str], routes: Routes) -> str:
    """Tokens on the left, experts with their places on the right, and a line for each choice."""
    row, across, begin = 20, 112, 285
    n_experts = len(routes.taken)
    height = max(row * len(words), 40 * n_experts)
    slot = min(150 / len(words), 18)
    up = [height * (index + 0.5) / len(words) for index in range(len(words))]
    down = [height * (index + 0.5) / n_experts for index in range(n_experts)]
    shapes = []
    for token, (experts, weights) in enumerate(
        zip(routes.chosen.tolist(), routes.weights.tolist(), strict=True)
    ):
        for expert, weight in zip(experts, weights, strict=True):
            kind = f"hue-{expert % 6}" if token in routes.taken[expert] else "dropped"
            shapes.append(
                f'<path class="route {kind}" stroke-width="{1 + 3 * weight:.2f}" '
                f'd="M{across + 5},{up[token]:.1f} C{across + 80},{up[token]:.1f} '
                f'{begin - 75},{down[expert] + 5:.1f} {begin - 4},{down[expert] + 5:.1f}"/>'
            )
    for token, word in enumerate(words):
        shown = word if len(word) <= LETTERS else f"{word[:LETTERS]}…"
        kind = "lost" if token in routes.lost else ""
        shapes.append(
            f'<text class="{kind}" x="{across}" y="{up[token] + 4:.1f}" text-anchor="end">'
            f"{escape(shown)}</text>"
        )
    for expert, (taken, chose) in enumerate(zip(routes.taken, counts(routes), strict=True)):
        shapes.append(f'<text x="{begin}" y="{down[expert] - 6:.1f}">expert {expert}</text>')
        for position in range(max(routes.room, chose)):
            kind = "free" if position < routes.room else "over"
            kind = f"hue-{expert % 6}" if position < len(taken) else kind
            shapes.append(
                f'<rect class="{kind}" x="{begin + position * slot:.1f}" y="{down[expert]:.1f}" '
                f'width="{slot - 2:.1f}" height="11"/>'
            )
    says = f"{len(words)} tokens and the experts that they choose: the table has the numbers"
    return (
        f'<svg class="routes" viewBox="0 -2 445 {height + 4}" role="img" aria-label="{says}">'
        f"{''.join(shapes)}</svg>"
    )


@app.function
def counts(routes: Routes) -> list[int]:
    """How many choices fell on each expert."""
    return [int((routes.chosen == expert).sum()) for expert in range(len(routes.taken))]


@app.function
def shares(routes: Routes) -> str:
    """Of each expert: how many chose it, how many it takes, its share of the choices and the probability."""
    rows = ""
    for expert, (taken, chose) in enumerate(zip(routes.taken, counts(routes), strict=True)):
        f, p = chose / routes.chosen.numel(), routes.probs[:, expert].mean().item()
        bars = "".join(f'<span style="width:{100 * share:.1f}%"></span>' for share in (f, p))
        rows += (
            f'<tr><th scope="row">expert {expert}</th><td>{chose}</td><td>{len(taken)}</td>'
            f'<td>{f:.2f}</td><td>{p:.2f}</td><td class="bar">{bars}</td></tr>'
        )
    names = ("assigned", "processed", "f", "P", "f and P")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<p class="caption">f, blue: fraction of the assignments. P, gray: mean router probability.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="shares of the experts">'
        f'<table class="shares"><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


@app.function
def picture(parts, text: str, tokens: Tensor, weight: Tensor, k: int, capacity_factor: float):
    """The routes of a text's tokens, what each expert has of them, and how uneven that is."""
    words = text.split()
    routes = routed(tokens, weight, k, capacity_factor)
    loss = parts.load_balancing_loss(routes.probs, routes.chosen).item()
    choices, n_experts = routes.chosen.numel(), len(weight)
    dropped = choices - sum(map(len, routes.taken))
    some = (
        f"The first {MAX_TOKENS} of {len(words):,}" if len(words) > MAX_TOKENS else f"{len(tokens)}"
    )
    sentences = [f"{some} tokens make {choices} assignments."]
    if dropped:
        sentences.append(
            f"{dropped} {'is' if dropped == 1 else 'are'} dropped because the expert is full (dashed)."
        )
    if routes.lost:
        is_single = len(routes.lost) == 1
        sentences.append(
            f"{len(routes.lost)} {'token is' if is_single else 'tokens are'} processed by no expert: "
            f"{'its' if is_single else 'their'} output is 0."
        )
    room = f"{routes.room} = ⌈{capacity_factor:g} · {choices} / {n_experts}⌉"
    numbers = facts(
        {
            "load-balancing loss": number(loss),
            "if spread evenly": "1",
            "if all choose the same": f"{n_experts / k:.2f}",
            "capacity of an expert": room if routes.room < len(tokens) else "all tokens",
        }
    )
    return (
        f'<p class="happens">{" ".join(sentences)}</p><div class="routed">'
        f"<div>{lines(words[:MAX_TOKENS], routes)}</div><div>{shares(routes)}{numbers}</div></div>"
    )


@app.cell
def _(capacity_factor, k, parts, step, text, tokens, trained):
    page.shown(
        lambda: (
            picture(parts, text.value, tokens, trained[step.value], k.value, capacity_factor.value)
            if trained
            else '<p class="happens">There is no token to route: type a word.</p>'
        ),
        parts,
    )
    return


@app.cell
def _():
    mo.md(
        r"""
        The router sends each token to the $k$ experts with the largest probabilities; a thicker line is a
        larger weight. Each expert takes as many tokens as its capacity allows, in the order of their
        positions. The loss $N \sum_i f_i P_i$ is small when no expert has both a large share of the tokens
        and a large probability. The training steps minimize this loss alone. With a skew of 1 they spread the
        tokens. From a skew of 2 on, the last expert stays empty: the gradient of its logit is proportional to
        its probability, which is close to 0. The tokens' vectors and the router's initial weights are random.
        """
    )
    return


if __name__ == "__main__":
    app.run()
