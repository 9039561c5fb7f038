"""The models that studies compare: known ones where the recipe says so, and none looks ahead."""

import math

import pytest
import torch
from torch import nn

from laboratory.study.layers import Rotary, Windowed
from laboratory.study.model import Recipe, build, gated_width
from tests.training.conftest import small
from training.data.vocabulary import Languages, Symbols
from training.errors import Refused
from training.models.architectures import Objective, count, recompute_layers
from training.models.architectures import build as build_known
from training.settings import Settings
from variants.activations import SwiGLU
from variants.llama import LLaMA, LLaMAConfig
from variants.mamba import Mamba
from variants.moe import MixtureOfExperts
from variants.rope import apply_rope, rope_angles
from variants.sliding_window import sliding_window_mask

WORDS = Symbols([f"w{n}" for n in range(13)], " ")
ALONE = Languages(None, WORDS, None)
SWIGLU = {"activation": "swiglu"}
LATE = {"positions": "none"}

RECIPES = {
    "the paper's": {},
    "rms": {"normalized_by": "rms"},
    "group": {"normalized_by": "group"},
    "no norm": {"normalized_by": "none"},
    "gelu": {"activation": "gelu"},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "mish": {"activation": "mish"},
    "swish": {"activation": "swish"},
    "geglu": {"activation": "geglu"},
    "bilinear": {"activation": "bilinear"},
    "no final norm": {"final_norm": "none"},
    "a final norm alone": {"normalized_by": "none", "final_norm": "layer"},
    "swiglu": SWIGLU,
    "learned": {"positions": "learned"},
    "t5": {"positions": "t5"},
    "rope": {"positions": "rope"},
    "alibi": {"positions": "alibi"},
    "no positions": LATE,
    "grouped": {"attention": "grouped"},
    "multi-query": {"attention": "multi_query"},
    "grouped, turned": {"attention": "grouped", "positions": "rope"},
    "window": {"attention": "window", "window": 4},
    "window, turned": {"attention": "window", "window": 4, "positions": "rope"},
    "linear": {"attention": "linear"},
    "fused": {"attention": "fused"},
    "convolved": {"attention": "convolved", "positions": "rope"},
    "qk-norm": {"qk_norm": True, "positions": "rope"},
    "seen through a window": {"positions": "rope", "longer": "window"},
    "fused, turned": {"attention": "fused", "positions": "rope"},
    "mamba": {"attention": "mamba", **LATE},
    "experts": {**SWIGLU, "experts": 4},
    "switch": {**SWIGLU, "experts": 4, "renormalized": False},
    "two experts each": {**SWIGLU, "experts": 4, "top_k": 2},
}


def sizes(**changes: object) -> Settings:
    """Of a model that takes a moment."""
    usual = {"layers": 2, "heads": 4, "norm": "pre", "dropout": 0.0, "context": 16, "d_ff": 48}
    return small("shakespeare", **(usual | changes))


def made(recipe: dict[str, object] | None = None, **changes: object):
    torch.manual_seed(0)
    return build(Recipe(**(recipe or {})), sizes(**changes), ALONE).double().eval()


def tokens(rows: int = 3, length: int = 16):
    return torch.randint(0, 13, (rows, length), generator=torch.Generator().manual_seed(1))


# --- What holds for all of them -------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_no_token_sees_a_later_one(recipe):
    model = made(recipe)
    before = tokens()
    after = before.clone()
    after[:, 9] = (before[:, 9] + 1) % 13
    with torch.no_grad():
        log_probs, changed = (model.generator(model(text)) for text in (before, after))
    torch.testing.assert_close(changed[:, :9], log_probs[:, :9], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(changed[:, 9:], log_probs[:, 9:], atol=1e-4)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_it_learns_and_every_parameter_gets_a_gradient(recipe):
    model = made(recipe).train()
    rows = tokens(rows=8)
    summed, _ = Objective(model, 0.0)(None, rows)
    (summed / rows.numel() + model.auxiliary()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_gpu_says_the_same(recipe):
    model = made(recipe)
    here = model.generator(model(tokens()))
    on_gpu = model.cuda().generator(model(tokens().cuda()))
    torch.testing.assert_close(on_gpu.cpu(), here, rtol=1e-6, atol=1e-6)
    long = tokens(length=16 if recipe.get("positions") == "learned" else 70)
    assert model(long.cuda()).isfinite().all()


@pytest.mark.parametrize(
    "recipe",
    [
        entry
        for entry in RECIPES.values()
        if entry.get("positions") != "learned" and "longer" not in entry
    ],
    ids=[name for name in RECIPES if name not in ("learned", "seen through a window")],
)
def test_it_reads_more_than_it_was_trained_on(recipe):
    model = made(recipe)
    long = tokens(length=70)
    with torch.no_grad():
        torch.testing.assert_close(model(long)[:, :16], model(long[:, :16]), rtol=1e-9, atol=1e-9)
    assert model.longest is None or model.longest > 70


@pytest.mark.parametrize("longer", ["linear", "llama3", "yarn", "window"])
def test_a_text_of_the_trained_length_is_read_as_ever_and_a_longer_one_is_not(longer):
    unchanged, changed = (made({"positions": "rope", "longer": kind}) for kind in ("kept", longer))
    text = tokens(length=40)
    with torch.no_grad():
        assert torch.equal(changed(text[:, :16]), unchanged(text[:, :16]))
        assert not torch.allclose(changed(text)[:, 20:], unchanged(text)[:, 20:], atol=1e-4)


def test_positions_are_interpolated():
    stretched = Rotary(8, 16, "linear").double()
    x = torch.randn(1, 2, 64, 8, dtype=torch.float64)  # four times the trained length
    closer = apply_rope(x, rope_angles(8, 64) / 4, layout="halves")
    torch.testing.assert_close(stretched(x), closer, rtol=1e-5, atol=1e-5)


def test_yarn_sharpens_and_keeps_the_fast_angles():
    x = torch.ones(1, 1, 4096, 8, dtype=torch.float64)
    rotated = Rotary(8, 1024, "yarn").double()(x)
    temperature = 0.1 * math.log(4) + 1
    torch.testing.assert_close(rotated.norm(dim=-1), temperature * x.norm(dim=-1))
    unscaled = apply_rope(x, rope_angles(8, 4096).float(), layout="halves")[..., 0]
    torch.testing.assert_close(rotated[..., 0] / temperature, unscaled, rtol=1e-4, atol=1e-4)


def test_a_window_hides_what_is_farther_than_any_trained_distance():
    model = made({"positions": "rope", "longer": "window"}, layers=1)
    text = tokens(length=40)
    changed = text.clone()
    changed[:, 0] = (text[:, 0] + 1) % 13
    with torch.no_grad():
        same = (model(text) == model(changed)).all(dim=-1).all(dim=0)
    assert not same[:15].any() and same[15:].all()


def test_the_fused_kernel_is_full_attention():
    full, fused = (made({"attention": kind, "positions": "rope"}) for kind in ("full", "fused"))
    with torch.no_grad():
        torch.testing.assert_close(fused(tokens()), full(tokens()), rtol=1e-9, atol=1e-9)


def test_qk_norm_makes_scores_independent_of_the_size_of_queries():
    model = made({"qk_norm": True})
    with torch.no_grad():
        before = model(tokens())
        model.blocks[0].self_attn.w_q.weight.mul_(100)
        torch.testing.assert_close(model(tokens()), before, rtol=1e-3, atol=1e-3)


def test_learned_positions_end():
    model = made({"positions": "learned"})
    assert model.longest == 16
    with pytest.raises(Refused, match="ends at 16 tokens, and there are 17"):
        model(tokens(length=17))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_matrices_start_as_the_known_model_s_do(norm):
    torch.manual_seed(0)
    settings = sizes(norm=norm, d_model=64, d_ff=256)
    ours, reference = build(Recipe(), settings, ALONE), build_known(settings, ALONE)
    theirs = dict(reference.named_parameters())
    for name, parameter in ours.named_parameters():
        if parameter.dim() == 2:
            other = theirs[name.replace("blocks", "decoder.layers")]
            assert parameter.std().item() == pytest.approx(other.std().item(), rel=0.1), name


@pytest.mark.parametrize("other", [SWIGLU, {"positions": "t5"}, {**SWIGLU, "experts": 4}])
def test_variants_share_their_initial_weights(other):
    weights, other_weights = made().state_dict(), made(other).state_dict()
    shared = [name for name in weights.keys() & other_weights.keys() if weights[name].ndim > 1]
    assert "blocks.1.self_attn.w_q.weight" in shared and "generator.proj.weight" in shared
    assert all(torch.equal(weights[name], other_weights[name]) for name in shared)
    assert not torch.equal(weights["blocks.0.self_attn.w_q.weight"], weights[shared_name(1)])
    different = build(Recipe(), sizes(seed=1), ALONE).double().state_dict()
    assert not torch.equal(different[shared_name(1)], weights[shared_name(1)])


def shared_name(layer):
    return f"blocks.{layer}.self_attn.w_q.weight"


@pytest.mark.parametrize(("activation", "gate"), [("geglu", nn.GELU()), ("bilinear", None)])
def test_a_gate_is_multiplied_into_the_other_projection(activation, gate):
    network = made({"activation": activation}).blocks[0].feed_forward
    x = torch.randn(3, 5, network.w_up.in_features, dtype=torch.float64)
    opened = gate(network.w_gate(x)) if gate else network.w_gate(x)
    torch.testing.assert_close(network(x), network.w_down(opened * network.w_up(x)))


def test_layers_can_be_recomputed():
    model, again = made().train(), made().train()
    recompute_layers(again)
    for decoder in (model, again):
        Objective(decoder, 0.0)(None, tokens())[0].backward()
    for mine, theirs in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_tied_output_is_the_embedding():
    model = made(tie=True)
    assert model.generator.proj.weight is model.embed[0].lut.weight
    assert model.embed[0].lut.weight.std().item() == pytest.approx(16**-0.5, rel=0.3)


# --- Known models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_it_is_the_decoder_of_training_without_biases_in_attention(norm):
    settings = sizes(norm=norm)
    reference = build_known(settings, ALONE).double().eval()
    weights = reference.state_dict()
    renamed = {}
    for name, weight in weights.items():
        if ".self_attn." in name and name.endswith("bias"):
            weight.zero_()
        else:
            renamed[name.replace("decoder.layers", "blocks").replace("decoder.norm", "norm")] = (
                weight
            )
    model = made(norm=norm)
    model.load_state_dict(renamed)
    with torch.no_grad():
        torch.testing.assert_close(
            model.generator(model(tokens())), reference.generator(reference(tokens()))
        )


def test_it_is_llama():
    settings = sizes(d_ff=48)
    config = LLaMAConfig(13, 16, 2, 4, 2, 16, 32, eps=1e-5)
    torch.manual_seed(3)
    reference = LLaMA(config).double()
    for weight in reference.parameters():  # its start is nearly that of a model that says nothing
        nn.init.normal_(weight, std=0.3)
    recipe = Recipe(normalized_by="rms", positions="rope", attention="grouped", groups=2, **SWIGLU)
    model = build(recipe, settings, ALONE).double()
    weights = {
        name.replace("attention_norm", "sublayer.0.norm").replace(
            "ffn_norm", "sublayer.1.norm"
        ): weight
        for name, weight in reference.state_dict().items()
    }
    weights["embed.0.lut.weight"] = weights.pop("embed.weight") / math.sqrt(16)
    weights["generator.proj.weight"] = weights.pop("head.weight")
    weights["generator.proj.bias"] = torch.zeros(13)
    model.load_state_dict(weights)
    log_probs = model.generator(model(tokens()))
    # Angles are kept in float32.
    torch.testing.assert_close(log_probs, reference(tokens()).log_softmax(-1), rtol=1e-5, atol=1e-5)


def test_a_window_is_the_masked_attention_of_so_many_earlier_tokens():
    torch.manual_seed(0)
    layer = Windowed(16, 4, 6, nn.Identity()).double()
    x = torch.randn(2, 150, 16, dtype=torch.float64)
    query, key, value = layer.project(x)
    visible = sliding_window_mask(150, 6).tril()
    scores = (query @ key.mT / 2).masked_fill(~visible, -math.inf)
    heads = scores.softmax(-1) @ value
    torch.testing.assert_close(layer(x), layer.w_o(heads.transpose(1, 2).flatten(-2)))


def test_alibi_and_t5_add_to_the_scaled_scores():
    for positions in ("alibi", "t5"):
        layer = made({"positions": positions}).blocks[0].self_attn
        x = torch.randn(2, 20, 16, dtype=torch.float64)
        query, key, value = layer.project(x)
        scores = query @ key.mT / 2 + layer.bias(20)
        scores = scores.masked_fill(torch.ones(20, 20).triu(1).bool(), -math.inf)
        heads = (scores.softmax(-1) @ value).transpose(1, 2).flatten(-2)
        torch.testing.assert_close(layer(x), layer.w_o(heads))
    assert layer.bias(20)[:, 19, 0].ne(layer.bias(20)[:, 19, 18]).all()  # it tells distances apart


def test_a_table_of_t5_is_shared_by_all_layers():
    model = made({"positions": "t5"})
    first, second = (block.self_attn.bias for block in model.blocks)
    assert first is second
    assert count(model) == count(made(LATE)) + 32 * 4


# --- Parts that were compared by nothing but themselves -------------------------------------------


def test_grouped_heads_are_fewer_parameters():
    d_model, d_k = 16, 4
    lost = {"grouped": 2, "multi_query": 3}
    for kind, heads in lost.items():
        fewer = count(made()) - count(made({"attention": kind}))
        assert fewer == 2 * 2 * d_model * heads * d_k  # layers, keys and values


def test_a_gated_network_has_as_many_parameters():
    settings = {"d_model": 64, "d_ff": 256}
    relu, swiglu = (made(recipe, **settings) for recipe in ({}, SWIGLU))
    assert count(swiglu) == pytest.approx(count(relu), rel=0.01)
    assert swiglu.blocks[0].feed_forward.w_up.out_features == 171  # ⅔ of 256


def test_switch_s_single_expert_counts_by_its_probability_and_so_teaches_the_router():
    recipe = {**SWIGLU, "experts": 4, "top_k": 1, "balance": 0.0}
    slopes = []
    for renormalized in (True, False):
        model = made({**recipe, "renormalized": renormalized})
        model(tokens()).square().sum().backward()
        router = model.blocks[0].feed_forward.router
        weights, experts, probs = router(torch.randn(3, 16))
        expected = torch.ones(3, 1) if renormalized else probs.gather(-1, experts)
        torch.testing.assert_close(weights, expected)
        slopes.append(router.w_r.weight.grad.abs().max())
    assert slopes[0] < 1e-3 * slopes[1]


@pytest.mark.parametrize(("experts", "top_k"), [(4, 1), (4, 2), (8, 1), (8, 2)])
def test_a_token_s_experts_multiply_as_often_as_the_one_network(experts, top_k):
    recipe = Recipe(**SWIGLU, experts=experts, top_k=top_k)
    single = SwiGLU(64, gated_width(Recipe(**SWIGLU), 384))
    mixture = build(recipe, sizes(d_model=64, d_ff=384), ALONE).blocks[0].feed_forward
    assert isinstance(mixture, MixtureOfExperts)
    assert top_k * count(mixture.experts[0]) == count(single)  # a weight is a multiply-add
    assert len(mixture.experts) == experts
    mixture(torch.randn(2, 5, 64))
    assert mixture.chosen.shape == (2, 5, top_k)


def test_the_balance_is_the_weighted_sum_over_the_layers():
    recipe = {**SWIGLU, "experts": 4, "top_k": 2}
    model = made({**recipe, "balance": 0.5})
    model(tokens())
    expected = 0.0
    for block in model.blocks:
        mixture = block.feed_forward
        chosen = torch.nn.functional.one_hot(mixture.chosen, 4).double().mean(dim=(0, 1, 2))
        expected += 0.5 * 4 * (chosen * mixture.probs.mean(dim=(0, 1))).sum().item()
    assert model.auxiliary().item() == pytest.approx(expected)
    free = made({**recipe, "balance": 0.0})
    free(tokens())
    assert free.auxiliary().item() == 0
    assert made().auxiliary().item() == 0


def test_norms_stand_where_the_settings_say():
    pre, post, none = made(), made(norm="post"), made({"normalized_by": "none"})
    assert isinstance(post.norm, nn.Identity)
    assert not isinstance(pre.norm, nn.Identity)
    assert count(pre) - count(post) == 2 * 16
    assert count(post) - count(none) == 2 * 2 * 2 * 16
    assert count(pre) - count(made({"normalized_by": "rms"})) == (2 * 2 + 1) * 16


def test_two_mamba_blocks_stand_for_a_layer():
    model = made({"attention": "mamba", **LATE}, d_model=64, d_ff=256)
    mixers = [module for module in model.modules() if isinstance(module, Mamba)]
    assert len(mixers) == 4
    projections = [weight for mixer in mixers for weight in (mixer.in_proj, mixer.out_proj)]
    layer = made(d_model=64, d_ff=256).blocks[0]
    matrices = [module for module in layer.modules() if isinstance(module, nn.Linear)]
    assert sum(matrix.weight.numel() for matrix in projections) == 2 * sum(
        linear.weight.numel() for linear in matrices
    )
    # Its steps start where it was found to work: Gu & Dao 2023, §3.6.
    steps = nn.functional.softplus(mixers[0].dt_proj.bias)
    assert 0.0009 < float(steps.min()) < float(steps.max()) < 0.11


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"attention": "ful"}, r"attention must be one of full, .*did you mean 'full'"),
        ({"activation": "swigly"}, "did you mean 'swiglu'"),
        ({"experts": -1}, "experts must be at least 0, got -1"),
        ({"attention": "mamba"}, "positions=none, not sinusoid"),
        ({"attention": "mamba", **LATE, **SWIGLU, "experts": 2}, "experts must be 0"),
        ({"attention": "linear", "positions": "t5"}, "attention=full alone shows"),
        ({"attention": "fused", "positions": "alibi"}, "attention=full alone shows"),
        ({"attention": "linear", "positions": "rope"}, "needs positive features"),
        ({"attention": "window", "window": 5}, "window must be even, got 5"),
        ({"experts": 2}, "experts are of activation=swiglu, not relu"),
        ({**SWIGLU, "experts": 2, "top_k": 3}, "top_k must be at most experts=2, got 3"),
    ],
)
def test_recipes_that_are_none(recipe, words):
    with pytest.raises(Refused, match=words):
        Recipe(**recipe)


@pytest.mark.parametrize(
    ("recipe", "changes", "words"),
    [
        ({}, {"model": "gpt"}, "model must be paper, not gpt"),
        ({"attention": "mamba", **LATE}, {"norm": "post"}, "norm must be pre"),
        ({"positions": "rope"}, {"d_model": 12}, "must be even, got 3"),
        (
            {"attention": "grouped", "groups": 3},
            {},
            "groups must divide heads, got groups=3, heads=4",
        ),
        ({"normalized_by": "group"}, {"d_model": 18, "heads": 2}, "must divide d_model = 18"),
    ],
)
def test_sizes_that_do_not_go_with_a_recipe(recipe, changes, words):
    with pytest.raises(Refused, match=words):
        made(recipe, **changes)
