"""Day 50 · logit_lens(model, tokens), patch_activation(model, …), prefix_matching_score(weights, tokens)."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from course.checks.authoring import listed
from variants.gpt import GPT, GPTConfig
from variants.interpretability import head_at
from variants.llama import LLaMA, LLaMAConfig

NOTHING = "random text often repeats nothing"
ONE = "a block has one argument, apart from a cache"
LEFT = ("changed hooks", "changed modes", "changed attributes")

# --- Inputs: models -------------------------------------------------------------------------------


@pytest.fixture
def config(draw):
    """A small GPT without dropout."""
    h, d_k = draw.sizes(2, 4, 2)
    return GPTConfig(
        vocab=draw.size(13, 19),
        context=draw.size(7, 9),
        n_layers=draw.size(2, 3),
        n_heads=h,
        d_model=h * d_k,
        d_ff=draw.size(17, 20),
        dropout=0.0,
    )


class Sum(nn.Module):
    """A module with two arguments."""

    def forward(self, x, y):
        return 2 * x + y


class OfASum(nn.Module):
    """A model with such a module."""

    def __init__(self, vocab, width):
        super().__init__()
        self.embed, self.inner = nn.Embedding(vocab, width), Sum()

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.inner(x, x.cos())


@pytest.fixture
def two_texts(draw, config):
    """Two batches of one shape, shorter than the context."""
    b, t = draw.sizes(2, 6, 2)
    return {name: draw.integers(0, config.vocab - 1, b, t) for name in ("tokens", "source")}


@pytest.fixture
def too_long(draw, config):
    """One token more than the model can read."""
    return draw.integers(0, config.vocab - 1, 2, config.context + 1)


@pytest.fixture
def place(draw, config, two_texts):
    """A layer, a head, and a position that is not the last."""
    t = two_texts["tokens"].size(1)
    return {
        "layer": draw.size(0, config.n_layers - 1),
        "head": draw.size(0, config.n_heads - 1),
        "position": draw.size(0, t - 2),
    }


def llama(config):
    """A LLaMA of similar sizes."""
    sizes = vars(config) | {"n_kv_heads": 1, "d_model": 4 * config.n_heads}
    return LLaMAConfig(**{name: size for name, size in sizes.items() if name != "dropout"})


def used(build, config):
    """A model in the middle of a training run, with two frozen parts and a hook of the caller."""
    model = build(GPT, config)
    model.blocks[0].feed_forward.eval()
    model.blocks[-1].self_attn.eval()
    model.norm.register_forward_pre_hook(lambda _, given: None)
    return model


def found_in(model):
    """Hooks, modes and overwritten methods of all modules."""
    return {
        name: (
            len(module._forward_hooks) + len(module._forward_pre_hooks),
            module.training,
            len(vars(module)),
        )
        for name, module in model.named_modules()
    }


def compared(before, model):
    """The modules that are not as they were before."""
    after = found_in(model)
    return {
        what: listed(name or "the model" for name in before if before[name][i] != after[name][i])
        for i, what in enumerate(LEFT)
    }


def left_by(raised, before, model, text):
    """What a call has changed, and the logits without any hooks: one that was left may raise here."""
    observed = compared(before, model) | {"raised": raised}
    for module in model.modules():
        module._forward_pre_hooks.clear()
        module._forward_hooks.clear()
    return observed | {"logits": model(text).detach()}


def raises(call, *arguments):
    """Call it, and return whether it raised."""
    try:
        call(*arguments)
    except NotImplementedError:  # a RuntimeError, too
        raise
    except (ValueError, IndexError, RuntimeError):
        return True
    return False


# --- Inputs: attention ----------------------------------------------------------------------------


def attending(draw, tokens, dtype="float32"):
    """Causal weights for these tokens, and the tokens."""
    b, t = tokens.shape
    weights = draw.weights(b, draw.size(2, 4), t, t, dtype=dtype).tril()
    return {"weights": weights / weights.sum(-1, keepdim=True), "tokens": tokens}


@pytest.fixture
def twice(draw):
    """Rows in which a segment of different tokens comes twice."""
    b, size = draw.sizes(3, 6, 2)
    segments = draw.normal(b, size + 3).argsort(-1)[:, :size]
    return attending(draw, torch.cat([segments, segments], dim=1))


@pytest.fixture
def often(draw):
    """Rows in which four tokens occur several times, and at times twice in a row."""
    tokens = draw.integers(1, 4, draw.size(2, 4), draw.size(9, 12))
    tokens[:, 5] = tokens[:, 4]
    return attending(draw, tokens)


@pytest.fixture
def uneven(draw):
    """A row that repeats one token, beside rows that repeat many."""
    b, t = draw.size(2, 3), draw.size(7, 9)
    tokens = torch.cat([draw.normal(1, t).argsort(-1), draw.integers(0, 2, b, t)])
    tokens[0, t - 2] = tokens[0, 0]
    return attending(draw, tokens)


@pytest.fixture
def once(draw):
    """One row repeats one token."""
    b, t = draw.sizes(3, 7, 2)
    tokens = draw.normal(b, t).argsort(-1)
    tokens[0, -1] = tokens[0, 0]
    return attending(draw, tokens)


@pytest.fixture
def not_repeated(draw, case, dtype):
    """Rows of different tokens."""
    b, t = draw.sizes(2, 6, 2)
    t = 1 if case == "T=1" else t
    return attending(draw, draw.normal(b, t).argsort(-1), dtype)


# --- logit_lens -----------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_every_layer(answer, build, config, two_texts):
    """Logits are read from the residual stream before the first block, and after each block."""
    return {"logits": answer.logit_lens(build(GPT, config), two_texts["tokens"])}


@pytest.mark.constant(*LEFT, "the model is as it was")
def test_lens_leaves_the_model(answer, build, config, two_texts):
    """Dropout is inactive, and after the call each module has its old mode and hooks."""
    model = used(build, replace(config, dropout=0.5))
    before = found_in(model)
    logits = answer.logit_lens(model, two_texts["tokens"])
    return compared(before, model) | {"logits": logits}


@pytest.mark.constant(*LEFT, "raised", "the model is as it was")
def test_lens_after_an_error(answer, build, config, too_long):
    """The model is unchanged, even after an error."""
    model = used(build, config)
    before = found_in(model)
    raised = raises(answer.logit_lens, model, too_long)
    return left_by(raised, before, model, too_long[:, 1:])


def test_lens_of_a_llama(answer, build, config, two_texts):
    """A LLaMA's logits come from a separate matrix."""
    model = build(LLaMA, llama(config))
    return {"logits": answer.logit_lens(model, two_texts["tokens"])}


# --- patch_activation -----------------------------------------------------------------------------


def patched(patch_activation, model, texts, module, *where):
    """The logits after a patch."""
    logits = patch_activation(model, texts["tokens"], texts["source"], module, *where)
    return {"logits": logits}


@pytest.mark.on_devices
def test_residual_stream(answer, build, config, two_texts, place):
    """The input of a block at one position comes from the other run."""
    model = build(GPT, config)
    where = (slice(None), place["position"])
    return patched(answer.patch_activation, model, two_texts, model.blocks[place["layer"]], where)


def test_head(answer, build, config, two_texts, place):
    """The output of one head at one position comes from the other run."""
    model = build(GPT, config)
    return patched(answer.patch_activation, model, two_texts, *head_at(model, **place))


@pytest.mark.constant("runs", "there is one text")
def test_ablation(answer, build, config, two_texts, place):
    """Without a source, the activation becomes 0, and the model runs once."""
    model, runs, texts = build(GPT, config), [], two_texts | {"source": None}
    model.register_forward_pre_hook(lambda *_: runs.append(1))
    observed = patched(answer.patch_activation, model, texts, *head_at(model, **place))
    return observed | {"runs": len(runs)}


def test_whole_input(answer, build, config, two_texts, place):
    """Without an index, everything that enters the module is replaced."""
    model = build(GPT, config)
    return patched(
        answer.patch_activation, model, two_texts, model.blocks[place["layer"]].self_attn
    )


def test_only_this_module(answer, build, config, two_texts, place):
    """The norm of a block reads the patched activation; the residual connection around it does not."""
    model = build(GPT, config)
    norm = model.blocks[place["layer"]].norm_2
    return patched(
        answer.patch_activation, model, two_texts, norm, (slice(None), place["position"])
    )


@pytest.mark.watertight(ONE)
def test_other_arguments(answer, build, config, two_texts):
    """The other arguments of the module are unchanged."""
    model = build(OfASum, config.vocab, config.d_model)
    return patched(answer.patch_activation, model, two_texts, model.inner, (slice(None), 0))


@pytest.mark.constant(*LEFT, "the model is as it was")
def test_patch_leaves_the_model(answer, build, config, two_texts, place):
    """Dropout is inactive, and after the call each module has its old mode and hooks."""
    model = used(build, replace(config, dropout=0.5))
    before, where = found_in(model), (slice(None), place["position"])
    observed = patched(answer.patch_activation, model, two_texts, model.norm, where)
    return compared(before, model) | observed


@pytest.mark.constant(*LEFT, "raised", "the model is as it was")
@pytest.mark.parametrize("case", ["a text too long", "a source too long", "no such position"])
def test_patch_after_an_error(answer, build, config, two_texts, too_long, case):
    """The model is unchanged, even after an error."""
    model, texts = used(build, config), dict(two_texts)
    before = found_in(model)
    if case != "no such position":
        texts["tokens" if case == "a text too long" else "source"] = too_long
    where = (slice(None), config.context)
    raised = raises(patched, answer.patch_activation, model, texts, model.blocks[1], where)
    return left_by(raised, before, model, too_long[:, 1:])


# --- prefix_matching_score ------------------------------------------------------------------------


@pytest.mark.on_devices
def test_twice(answer, twice):
    """For each repeated token, the weight on the token that followed it counts."""
    return {"score": answer.prefix_matching_score(**twice)}


def test_often(answer, often):
    """The weights on all earlier continuations add up, including the token itself if it repeats the
    token before it."""
    return {"score": answer.prefix_matching_score(**often)}


def test_uneven(answer, uneven, once):
    """The mean is over repeated tokens, wherever they are, not over rows or over all tokens."""
    return {
        "score": answer.prefix_matching_score(**uneven),
        "score of one token": answer.prefix_matching_score(**once),
    }


@pytest.mark.watertight(NOTHING)
@pytest.mark.parametrize("dtype", ["float64"])
@pytest.mark.parametrize("case", ["T=1", "all different"])
def test_nothing_repeated(answer, not_repeated):
    """If nothing is repeated, each score is 0, in the dtype of the weights."""
    return {"score": answer.prefix_matching_score(**not_repeated)}
