"""Half precision and autocast: the result is that of float64 on the same inputs, up to a few roundings.

The days' checks allow an answer a multiple of the reference's own error; here that error has a bound.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from implementation import LabelSmoothing, LayerNorm, MultiHeadedAttention, attention, make_model
from variants.activations import SwiGLU, gelu, mish
from variants.bert import BERT, BERTConfig
from variants.delta import chunked_delta_rule, delta_rule
from variants.depths import MixtureOfDepths
from variants.dpo import dpo_loss, sequence_log_probs
from variants.flash import flash_attention
from variants.gpt import CausalSelfAttention
from variants.grouped_query import GroupedQueryAttention
from variants.grpo import group_advantages, kl_penalty, policy_loss
from variants.linear import linear_attention
from variants.llama import LLaMA, LLaMAConfig
from variants.mamba import Mamba, MambaConfig, parallel_scan, selective_scan
from variants.moe import MixtureOfExperts, TopKRouter, load_balancing_loss
from variants.norms import GroupNorm, RMSNorm
from variants.parallel_block import ParallelBlock
from variants.rope import apply_rope, rope_angles
from variants.sampling import distribution
from variants.shipping import QuantizedLinear
from variants.sliding_window import sliding_window_attention
from variants.t5 import T5, T5Config

HALVES = [torch.float16, torch.bfloat16]


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64)


def heads():
    """Queries, keys and values, (B, T, d) with T_q ≠ T_k and d_v ≠ d_k; every query has a key."""
    return normal(8, 33, 5), normal(8, 47, 5), normal(8, 47, 3)


def masked_heads():
    return *heads(), (torch.rand(8, 33, 47) < 0.6).index_fill(2, torch.tensor([0]), True)


def squares():
    return normal(2, 70, 5), normal(2, 70, 5), normal(2, 70, 3)


def long_sums():
    """1,500 keys, whose sum of features float16 could not represent, nor bfloat16 count."""
    return normal(2, 9, 5), normal(2, 1500, 5) + 20, normal(2, 1500, 3) + 20


def far_queries():
    """Scores of ±80,000, which float16 cannot represent."""
    return 400 * torch.ones(2, 2), 200 * torch.tensor([[1.0, 1], [1, 1], [-1, -1]]), normal(3, 2)


def delta_inputs():
    key = F.normalize(normal(2, 150, 5), dim=-1)
    return normal(2, 150, 5), key, normal(2, 150, 3), *torch.rand(2, 2, 150).double()


def scan_inputs():
    """Two hundred tokens that the state adds up: in half precision the sum would stop growing."""
    u, b, c = normal(2, 200, 3).abs(), normal(2, 200, 4).abs(), normal(2, 200, 4).abs()
    delta, a = 0.05 * torch.rand(2, 200, 3), -0.01 * torch.rand(3, 4)
    return u, delta.double(), a.double(), b, c, normal(3)


def experts():
    probs = torch.rand(70_000, 3).softmax(-1).double()
    return probs, probs.argmax(-1, keepdim=True)


def smoothed(vocab):
    return normal(9, vocab).log_softmax(-1), torch.arange(9)


def policies():
    return 0.3 * normal(3, 200), 0.3 * normal(3, 200)


def policy():
    return *policies(), normal(3), torch.rand(3, 200) < 0.8


def tokens():
    return (torch.randint(13, (3, 8)),)


def pair_of_texts():
    return *tokens(), *tokens(), None, None


def depths():
    layer = MixtureOfDepths(CausalSelfAttention(6, 2), 6, 0.5)
    layer.router.weight.data = torch.eye(1, 6)
    return layer


def far_apart():
    """Scores so far apart that rounding chooses no others."""
    x = normal(2, 8, 6)
    x[..., 0] = torch.stack([torch.randperm(8), torch.randperm(8)]) / 4
    return (x,)


# Name: the module or function, its inputs, and the allowed error in roundings of the largest result.
ROWS = {
    "attention": (lambda: attention, masked_heads, 1),
    "attention, far": (lambda: attention, far_queries, 1),
    "layer norm": (lambda: LayerNorm(64), lambda: (300 * normal(8, 64),), 1),
    "label smoothing": (lambda: LabelSmoothing(60, 0, 0.1), lambda: smoothed(60), 1),
    "label smoothing of 37000": (lambda: LabelSmoothing(37000, 0, 0.1), lambda: smoothed(37000), 1),
    "rms norm": (lambda: RMSNorm(64, 1e-5), lambda: (300 * normal(8, 64),), 1),
    "group norm": (lambda: GroupNorm(4, 64, 1e-5), lambda: (300 * normal(8, 64),), 1),
    "gelu": (lambda: lambda x: gelu(x, "none"), lambda: (normal(500) - 3,), 1),
    "gelu, tanh": (lambda: lambda x: gelu(x, "tanh"), lambda: (normal(500) - 3,), 1),
    "mish": (lambda: mish, lambda: (normal(500) - 3,), 1),
    "swiglu": (lambda: SwiGLU(16, 24), lambda: (normal(40, 16),), 4),
    "flash": (lambda: lambda *x: flash_attention(*x, block=8, causal=True), heads, 1),
    "flash, far": (lambda: flash_attention, far_queries, 1),
    "linear": (lambda: linear_attention, long_sums, 1),
    "linear, causal": (lambda: lambda *x: linear_attention(*x, causal=True), squares, 1),
    "window": (lambda: lambda *x: sliding_window_attention(*x, 4, 1), squares, 2),
    "causal": (lambda: CausalSelfAttention(16, 4), lambda: (normal(2, 9, 16),), 8),
    "heads": (lambda: MultiHeadedAttention(4, 16, 0.0), lambda: (normal(2, 9, 16),) * 3, 8),
    "grouped": (lambda: GroupedQueryAttention(12, 6, 2), lambda: (normal(2, 5, 12),), 8),
    "parallel": (lambda: ParallelBlock(12, 3, 17), lambda: (normal(2, 5, 12),), 8),
    "depths": (depths, far_apart, 8),
    "rope": (
        lambda: lambda x: apply_rope(x, rope_angles(8, 3000), 2990),
        lambda: (normal(5, 8),),
        1,
    ),
    "distribution": (lambda: lambda x: distribution(x, 0.7, 9, 0.9), lambda: (normal(40, 11),), 1),
    "delta": (lambda: delta_rule, delta_inputs, 1),
    "delta in chunks": (lambda: chunked_delta_rule, delta_inputs, 1),
    "selective scan": (lambda: selective_scan, scan_inputs, 1),
    "parallel scan": (lambda: parallel_scan, scan_inputs, 1),
    "mamba": (lambda: Mamba(MambaConfig(13, 2, 6, 5, 4, 3, 2)), lambda: (normal(2, 9, 6),), 8),
    "router": (lambda: TopKRouter(64, 8, 2), lambda: (4 * normal(2000, 64),), 1),
    "mixture": (lambda: MixtureOfExperts(16, 24, 4, 2), lambda: (normal(40, 16),), 4),
    "balance": (lambda: load_balancing_loss, experts, 1),
    "int8": (lambda: QuantizedLinear(nn.Linear(64, 9)), lambda: (normal(3, 64),), 1),
    "answers": (lambda: sequence_log_probs, lambda: (normal(900, 50), torch.arange(900) % 50), 1),
    "dpo": (lambda: lambda x: dpo_loss(*x, beta=0.3), lambda: (50 * normal(4, 6),), 1),
    "advantages": (lambda: group_advantages, lambda: (torch.tensor([1e-4, 2e-4]).double(),), 1),
    "policy": (lambda: policy_loss, policy, 1),
    "penalty": (lambda: kl_penalty, lambda: (*policies(), torch.rand(3, 200) < 0.8), 1),
    "bert": (lambda: BERT(BERTConfig(13, 8, 2, 2, 10, 17, 0.0)), tokens, 16),
    "t5": (lambda: T5(T5Config(13, 2, 2, 16, 5, 24, 0.0)), pair_of_texts, 16),
    "llama": (lambda: LLaMA(LLaMAConfig(13, 8, 2, 4, 2, 24, 17)), tokens, 16),
    "paper": (lambda: make_model(13, 13, 2, 8, 12, 2, 0.0), pair_of_texts, 16),
}
# What computes in float32 within autocast as well.
WIDE = ["flash", "linear", "linear, causal", "delta", "delta in chunks"]
WIDE += ["selective scan", "parallel scan", "router"]


def results(output):
    """The floating-point tensors of an output."""
    outputs = output if isinstance(output, tuple) else (output,)
    return [tensor for tensor in outputs if tensor.is_floating_point()]


def cast(inputs, dtype):
    return [x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs]


def assert_rounded(outputs, expected, roundings, dtype):
    """Each tensor is as close to the truth as the roundings allow; of a float32 result, as twenty do."""
    for output, truth in zip(outputs, expected, strict=True):
        assert output.dtype in (dtype, torch.float32)
        allowed = roundings if output.dtype == dtype else 20
        bound = allowed * torch.finfo(output.dtype).eps * truth.abs().max().item()
        torch.testing.assert_close(output.double(), truth, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(("make", "draw", "roundings"), ROWS.values(), ids=ROWS)
def test_half_precision_is_the_exact_result_rounded(make, draw, roundings, dtype):
    part, inputs = make(), cast(draw(), dtype)
    exact = part
    if isinstance(part, nn.Module):
        exact = copy.deepcopy(part.to(dtype)).double()
    outputs, expected = results(part(*inputs)), results(exact(*cast(inputs, torch.float64)))
    assert_rounded(outputs, expected, roundings, dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["attention", "flash", "linear, causal", "delta"])
def test_gradients_in_half_precision_are_the_exact_ones_rounded(name, dtype):
    make, draw, _ = ROWS[name]
    inputs, gradients = cast(draw(), dtype), []
    for wide in (dtype, torch.float64):
        floats = [x.requires_grad_() for x in cast(inputs, wide) if x.is_floating_point()]
        masks = [x for x in inputs if not x.is_floating_point()]
        output = results(make()(*floats, *masks))[0]
        gradients.append(torch.autograd.grad(output, floats, torch.ones_like(output)))
    assert_rounded(*gradients, 8, dtype)


@pytest.mark.parametrize("name", WIDE)
def test_autocast_narrows_nothing(name):
    make, draw, _ = ROWS[name]
    part, inputs = make(), cast(draw(), torch.float32)
    expected = results(part(*inputs))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(results(part(*inputs)), expected)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast_does_not_narrow_the_scores_of_heads(dtype):
    """A score that half precision cannot represent is harmless, with a mask and without."""
    layer, x = MultiHeadedAttention(2, 16, 0.0), torch.randn(2, 5, 16)
    with torch.no_grad():
        layer.w_q.weight.mul_(300.0)
        layer.w_k.weight.mul_(300.0)
    for mask in (None, torch.ones(2, 5, 5, dtype=torch.bool).tril()):
        with torch.autocast("cpu", dtype=dtype):
            output = layer(x, x, x, mask)
        assert output.isfinite().all()
        assert layer.weights.sum(dim=-1).sub(1).abs().max() < 8 * torch.finfo(dtype).eps


def test_norms_are_accurate_far_from_zero():
    """With mean 1000 and standard deviation 0.1 in float32, only the mean is rounded: two ulps of 1000."""
    x = (1000 + 0.1 * torch.randn(8, 512)).float()
    for norm, expected in [
        (LayerNorm(512), F.layer_norm(x.double(), (512,))),
        (GroupNorm(4, 512, 1e-5), F.group_norm(x.double(), 4)),
    ]:
        torch.testing.assert_close(norm(x).double(), expected, rtol=0, atol=2 * 2**-14 / 0.1)


def test_tiny_temperatures_and_probabilities_keep_their_tokens():
    """Logits over 1e-37 overflow nothing; top_p = 1 keeps tokens that a sum rounds away."""
    assert distribution(torch.tensor([50.0, 90, -90]), temperature=1e-37).tolist() == [0, 1, 0]
    assert distribution(torch.tensor([0.0, -18, -19, -20]), top_p=1.0).count_nonzero() == 4
