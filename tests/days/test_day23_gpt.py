"""Day 23 · CausalSelfAttention(d_model, n_heads, dropout=0.0) and GPT(config)."""

from dataclasses import replace

import pytest
import torch

from course.checks.authoring import (
    FLOAT64,
    HALVES,
    backward,
    gradients,
    listed,
    named_parameters,
    wanting_gradients,
)
from variants.gpt import GPTConfig

EMPTY = "a prompt may be empty, and what comes out is then empty too, not an error"
LOADED = "weights saved after a call must load into a new model, key by key"
KEPT = "whatever a layer keeps of one call must still be right in the next"
ONES = "a batch, a text, a head or a stack of one is where squeezed axes go astray"
LOUD = (
    "in a trained model some scores are very large, and the hidden ones must stay below all of them"
)


def attention_inputs(draw, b, t, h, d_k, **how):
    """What a layer is made from, and the tokens' vectors."""
    return {"d_model": h * d_k, "n_heads": h, "x": draw.normal(b, t, h * d_k, **how)}


def made(build, kind, given, *dropout, **options):
    """The layer of these sizes."""
    return build(kind, given["d_model"], given["n_heads"], *dropout, **options)


def telling(of):
    """The gradients by name. The keys' third of a bias adds the same to all scores of a query: its
    gradient is 0 but for rounding, and left out."""
    named = gradients(of)
    for name in [name for name in named if name.endswith("w_qkv.bias")]:
        if (gradient := named[name]) is not None and gradient.numel() % 3 == 0:
            query, _, value = gradient.chunk(3)
            named[name] = torch.cat([query, value])
    return named


def moved(before, after):
    """Which places of a sequence have changed."""
    apart = (before - after).detach().abs().amax(dim=(0, 2))
    return "".join("●" if far > 1e-4 else "·" for far in apart.tolist())


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def given(draw):
    """B, T, h and d_k, all different."""
    return attention_inputs(draw, *draw.sizes(2, 6, 4))


@pytest.fixture
def one_head(draw):
    """A single head, as wide as the model."""
    b, t, d_model = draw.sizes(3, 6, 3)
    return attention_inputs(draw, b, t, 1, d_model)


@pytest.fixture
def later_changed(draw, given):
    """The same with other vectors from some place on."""
    at = draw.size(1, given["x"].size(1) - 1)
    other = draw.normal(*given["x"].shape)
    return {"at": at, "x": torch.cat([given["x"][:, :at], other[:, at:]], dim=1)}


@pytest.fixture
def again(draw, given):
    """A second batch, longer and of a different size."""
    b, t = draw.sizes(7, 10, 2)
    return draw.normal(b, t, given["d_model"])


@pytest.fixture
def alone(draw):
    """Very many texts of one token, the same for all: its only weight is 1, or dropped."""
    given = attention_inputs(draw, 1, 1, 1, 2)
    return given | {"x": given["x"].expand(4000, 1, 2).clone()}


@pytest.fixture
def loud(draw):
    """Vectors so large that scores reach some 10⁵."""
    return attention_inputs(draw, *draw.sizes(2, 6, 4), scale=200.0)


@pytest.fixture
def at_the_edge(draw, edge):
    """One of the sizes is 1."""
    sizes = dict(zip(("B", "T", "h", "d_k"), draw.sizes(2, 6, 4), strict=True))
    sizes[edge.split("=")[0]] = 1
    return attention_inputs(draw, *sizes.values())


@pytest.fixture
def no_tokens(draw):
    """Texts of length 0."""
    b, h, d_k = draw.sizes(2, 6, 3)
    return attention_inputs(draw, b, 0, h, d_k)


@pytest.fixture
def of_dtype(draw, dtype):
    """The same in other dtypes."""
    return attention_inputs(draw, *draw.sizes(2, 6, 4), dtype=dtype)


@pytest.fixture
def config(draw):
    """A small GPT. No two sizes are alike, and d_ff is not four times d_model."""
    h, d_k = draw.sizes(2, 4, 2)
    return GPTConfig(
        vocab=draw.size(19, 25),
        context=draw.size(7, 9),
        n_layers=2,
        n_heads=h,
        d_model=h * d_k,
        d_ff=h * d_k + draw.size(1, 5),
        dropout=0.0,
    )


@pytest.fixture
def tokens(draw, config):
    """A batch shorter than the context, in which token 0 occurs."""
    b, t = draw.sizes(2, 5, 2)
    tokens = draw.integers(0, config.vocab - 1, b, t)
    tokens[0, 0] = 0
    return tokens


@pytest.fixture
def full(draw, config):
    """As many tokens as the model can read."""
    return draw.integers(0, config.vocab - 1, draw.size(2, 4), config.context)


@pytest.fixture
def changed_later(draw, config, full):
    """Another text from some place on."""
    at = draw.size(1, config.context - 1)
    return {"at": at, "tokens": torch.cat([full[:, :at], (full[:, at:] + 1) % config.vocab], 1)}


@pytest.fixture
def vectors(draw, config):
    """Vectors for the inner parts."""
    return draw.normal(*draw.sizes(2, 5, 2), config.d_model)


@pytest.fixture
def edge_of_a_model(draw, config, edge):
    """A model or a text of one."""
    b, t = draw.sizes(2, 5, 2)
    config = {
        "N=1": replace(config, n_layers=1),
        "h=1": replace(config, n_heads=1),
        "d_k=1": replace(config, n_heads=config.d_model),
        "context=1": replace(config, context=1),
    }.get(edge, config)
    b, t = 1 if edge == "B=1" else b, 1 if edge in ("T=1", "context=1") else t
    return {"config": config, "tokens": draw.integers(0, config.vocab - 1, b, t)}


@pytest.fixture
def no_text(draw, config):
    """Texts of length 0."""
    return draw.integers(0, config.vocab - 1, draw.size(2, 5), 0)


@pytest.fixture
def roomy(draw):
    """Matrices of some three thousand numbers and more: their standard deviation is known to 1.3%."""
    return GPTConfig(
        vocab=draw.size(58, 66),
        context=draw.size(55, 57),
        n_layers=draw.size(3, 5),
        n_heads=4,
        d_model=4 * draw.size(14, 15),
        d_ff=draw.size(70, 80),
        dropout=0.0,
    )


# --- CausalSelfAttention --------------------------------------------------------------------------


def test_attention_parameters(answer, build, given):
    """The parameters are two projections with biases: `w_qkv`, three times as wide as the model, and
    `w_o`."""
    return dict(made(build, answer.CausalSelfAttention, given).named_parameters())


def test_one_head(answer, build, one_head):
    """With a single head, each token attends to itself and to earlier tokens."""
    return {"output": made(build, answer.CausalSelfAttention, one_head)(one_head["x"])}


@pytest.mark.on_devices
def test_heads(answer, build, given):
    """Each head attends with its own part of query, key and value; then the heads are joined and mixed."""
    return {"output": made(build, answer.CausalSelfAttention, given)(given["x"])}


def test_no_token_sees_a_later_one(answer, build, given, later_changed):
    """Outputs do not depend on later tokens."""
    layer = made(build, answer.CausalSelfAttention, given)
    before, after = layer(given["x"]), layer(later_changed["x"])
    return {"rows that moved": moved(before, after), "output": after}


def test_second_call_of_attention(answer, build, given, again):
    """A second call, with a longer and larger batch, does not depend on the first."""
    layer = made(build, answer.CausalSelfAttention, given)
    layer(given["x"])
    return {"output": layer(again)}


def test_attention_gradients(answer, build, given):
    """Gradients reach the token vectors and both projections."""
    layer = made(build, answer.CausalSelfAttention, given)
    inputs = wanting_gradients({"x": given["x"]})
    backward(layer(**inputs))
    return {"gradients": gradients(inputs) | telling(layer)}


def test_attention_drops_everything(answer, build, given):
    """In training with p = 1, every weight is dropped: heads return 0, and the output is the bias of
    `w_o`."""
    return {"output": made(build, answer.CausalSelfAttention, given, 1.0)(given["x"])}


def test_attention_drops_nothing_in_evaluation(answer, build, given):
    """In evaluation mode, dropout is inactive, whatever p is."""
    return {"output": made(build, answer.CausalSelfAttention, given, 1.0).eval()(given["x"])}


@pytest.mark.constant("share that was dropped", "it is p, to one digit")
@pytest.mark.parametrize("dropout", ["left out", 0.3])
def test_attention_dropout(answer, build, alone, dropout):
    """A weight is dropped with the given probability (0 by default), and otherwise divided by 1 − p."""
    options = {} if dropout == "left out" else {"dropout": dropout}
    layer = made(build, answer.CausalSelfAttention, alone, **options)
    output = layer(alone["x"]).flatten(0, 1)
    dropped = (output == layer.w_o.bias).all(dim=-1)
    return {
        "share that was dropped": round(dropped.double().mean().item(), 1),
        "output where the weight was kept": output[~dropped][:1],
    }


@pytest.mark.watertight(KEPT)
def test_attention_after_a_training_step(answer, build, given):
    """After its weights have changed, the layer computes with the new weights."""
    layer = made(build, answer.CausalSelfAttention, given)
    layer(given["x"])
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.5)
    return {"output": layer(given["x"])}


@pytest.mark.watertight(ONES)
@pytest.mark.parametrize("edge", ["B=1", "T=1", "h=1", "d_k=1"])
def test_attention_at_the_edge(answer, build, at_the_edge, edge):
    """The result is right for one text, one token, one head, or heads of width 1."""
    return {"output": made(build, answer.CausalSelfAttention, at_the_edge)(at_the_edge["x"])}


@pytest.mark.watertight(EMPTY)
def test_attention_to_nothing(answer, build, no_tokens):
    """Without tokens, the result has shape `(B, 0, d_model)`."""
    return {"output": made(build, answer.CausalSelfAttention, no_tokens)(no_tokens["x"])}


@pytest.mark.watertight(LOUD)
def test_large_scores(answer, build, loud):
    """A later token stays hidden, even among scores of about ±10⁵."""
    return {"output": made(build, answer.CausalSelfAttention, loud)(loud["x"])}


@pytest.mark.watertight(LOADED)
def test_attention_state_dict(answer, build, given):
    """The state dict holds the two projections and nothing else, before a call and after it."""
    layer = made(build, answer.CausalSelfAttention, given)
    layer(given["x"])
    return dict(layer.state_dict())


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_attention_dtype(answer, build, of_dtype, dtype):
    """The output has the dtype of the weights and the inputs."""
    return {"output": made(build, answer.CausalSelfAttention, of_dtype, dtype=dtype)(of_dtype["x"])}


# --- GPT: the parts -------------------------------------------------------------------------------


def test_parameters(answer, build, config):
    """The parameters are two embeddings, the blocks and a final norm; the head is tied to the token
    embedding."""
    model = build(answer.GPT, config)
    shapes = {name: str(tuple(p.shape)) for name, p in named_parameters(model)}
    return {"parameters": shapes, "how many": sum(p.numel() for p in model.parameters())}


def test_config_is_kept(answer, build, config):
    """`config` is stored as given: `generate` reads its `context`."""
    own = build(answer.GPT, config).config
    return {"context": own.context, "vocab": own.vocab}


def test_given_dropout(answer, build, config, tokens, vectors):
    """With p = 1, the sum of the embeddings, every attention weight and every sublayer's output are
    dropped."""
    model = build(answer.GPT, replace(config, dropout=1.0))
    block = model.blocks[-1]
    return {
        "logits": model(tokens),
        "attention of a block": block.self_attn(vectors),
        "a block": block(vectors),
    }


def test_no_dropout_in_evaluation(answer, build, config, tokens):
    """In evaluation mode, dropout is inactive, whatever the config says."""
    return {"logits": build(answer.GPT, replace(config, dropout=1.0)).eval()(tokens)}


# --- GPT: the logits ------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_logits(answer, build, config, tokens):
    """The model maps tokens to the logits of the next token, at every position."""
    return {"logits": build(answer.GPT, config)(tokens)}


def test_full_context(answer, build, config, full):
    """With a full context, every row of the position embedding is used, in order."""
    return {"logits": build(answer.GPT, config)(full)}


def test_no_logit_sees_a_later_token(answer, build, config, full, changed_later):
    """Logits do not depend on later tokens."""
    model = build(answer.GPT, config)
    before, after = model(full), model(changed_later["tokens"])
    return {"rows that moved": moved(before, after), "logits": after}


def test_second_call(answer, build, config, tokens, full):
    """A second call, with a longer text, does not depend on the first."""
    model = build(answer.GPT, config)
    model(tokens)
    return {"logits": model(full)}


def test_tied_for_good(answer, build, config, tokens):
    """When the token embedding changes, as in each training step, the head changes, too."""
    model = build(answer.GPT, config)
    model(tokens)
    with torch.no_grad():
        model.embed.weight.mul_(-2.0)
    return {"logits": model(tokens)}


def test_gradients(answer, build, config, tokens):
    """Gradients reach every parameter; the token embedding gets them from input and head."""
    model = build(answer.GPT, config)
    backward(model(tokens))
    return {"gradients": telling(model)}


# --- GPT: the start -------------------------------------------------------------------------------


@pytest.mark.constant("not as GPT-2 starts", "start equal", "what starts wrong: nothing")
def test_start(answer, roomy):
    """Weights have standard deviation 0.02, matrices that write to the residual stream 0.02 / √(2 N),
    and biases are 0."""
    parameters = {name: p.detach() for name, p in answer.GPT(roomy).named_parameters()}
    wrong = {name: fault(name, p, roomy.n_layers) for name, p in parameters.items()}
    return {
        "not as GPT-2 starts": listed(f"{name}: {word}" for name, word in wrong.items() if word),
        "start equal": listed(equal_to_the_first_block(parameters)),
        "parameters": sum(p.numel() for p in parameters.values()),
    }


def fault(name, parameter, n_layers):
    """How a parameter starts wrong. A right one is 10% off less than once in 10¹² times."""
    if parameter.dim() == 1:
        expected = 1.0 if name.endswith("gain") else 0.0
        return "" if (parameter == expected).all() else f"not {expected:.0f}"
    into_the_shortcut = name.endswith(("w_o.weight", "w_2.weight"))
    expected = 0.02 / (2 * n_layers) ** 0.5 if into_the_shortcut else 0.02
    times = float(parameter.square().mean().sqrt()) / expected
    if 0.9 < times < 1.1:
        return ""
    return f"{'far ' if not 0.25 < times < 2 else ''}too {'wide' if times > 1 else 'narrow'}"


def equal_to_the_first_block(parameters):
    """The matrices of second blocks that equal those of the first."""
    for name, parameter in parameters.items():
        first = parameters.get(name.replace("blocks.1.", "blocks.0."))
        if "blocks.1." in name and parameter.dim() == 2 and torch.equal(parameter, first):
            yield name


# --- GPT: beyond the core -------------------------------------------------------------------------


@pytest.mark.watertight(ONES)
@pytest.mark.parametrize("edge", ["B=1", "T=1", "N=1", "h=1", "d_k=1", "context=1"])
def test_at_the_edge(answer, build, edge_of_a_model, edge):
    """The result is right for one text, one token, one block, one head, heads of width 1, or a context
    of one token."""
    return {"logits": build(answer.GPT, edge_of_a_model["config"])(edge_of_a_model["tokens"])}


@pytest.mark.watertight(KEPT)
def test_after_a_training_step(answer, build, config, tokens):
    """After its weights have changed, the model computes with the new weights, forward and backward."""
    model = build(answer.GPT, config)
    model(tokens)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    logits = model(tokens)
    backward(logits)
    return {"logits": logits, "gradients": telling(model)}


@pytest.mark.watertight(EMPTY)
def test_empty_text(answer, build, config, no_text):
    """Without tokens, the logits have shape `(B, 0, V)`."""
    return {"logits": build(answer.GPT, config)(no_text)}


@pytest.mark.watertight(LOADED)
def test_state_dict(answer, build, config, tokens):
    """The state dict holds embeddings, blocks and norm, and nothing else, before a call and after it."""
    model = build(answer.GPT, config)
    model(tokens)
    return dict(model.state_dict())


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_dtype(answer, build, config, tokens, dtype):
    """The logits have the dtype of the weights."""
    return {"logits": build(answer.GPT, config, dtype=dtype)(tokens)}
