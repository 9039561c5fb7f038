"""What the variants do with bad arguments, a ValueError that names the argument and what was passed, and with
empty inputs.
"""

import dataclasses
import math
import re

import pytest
import torch
from torch import nn

from variants.activations import SwiGLU, gelu
from variants.alibi import alibi_bias, alibi_slopes
from variants.bert import BERT, BERTConfig, mask_tokens
from variants.delta import chunked_delta_rule, delta_rule
from variants.depths import MixtureOfDepths
from variants.dpo import bradley_terry_loss, dpo_loss, sequence_log_probs
from variants.efficient import LossScaler, checkpoint, clip_gradients, train_step
from variants.flash import flash_attention
from variants.gpt import GPT, CausalSelfAttention, GPTConfig
from variants.grouped_query import GroupedQueryAttention
from variants.grpo import policy_loss
from variants.instruction import answer_labels, pack
from variants.interpretability import prefix_matching_score
from variants.kv_cache import CachedGPT, CachedSelfAttention, generate_cached, new_cache
from variants.latent import LatentConfig, MultiHeadLatentAttention
from variants.linear import linear_attention
from variants.llama import LLaMA, LLaMAConfig
from variants.lora import add_lora
from variants.mamba import Mamba, MambaConfig, MambaLM, MambaState, parallel_scan, selective_scan
from variants.moe import MixtureOfExperts, load_balancing_loss
from variants.norms import GroupNorm, RMSNorm
from variants.optimizers import AdamW, Muon, orthogonalize
from variants.parallel_block import ParallelBlock
from variants.parallelism import simulate
from variants.rope import apply_rope, rope_angles
from variants.sampling import distribution, generate, sample
from variants.shipping import QuantizedLinear, dequantize, quantize_int8
from variants.sliding_window import sliding_window_attention, sliding_window_mask
from variants.speculative import accept_draft, speculative_generate
from variants.t5 import T5, T5Config, relative_position_bucket

GPT_SIZES = GPTConfig(vocab=13, context=8, n_layers=2, n_heads=2, d_model=10, d_ff=17, dropout=0.0)
BERT_SIZES = BERTConfig(13, 8, n_layers=2, n_heads=2, d_model=10, d_ff=17, dropout=0.0)
LLAMA_SIZES = LLaMAConfig(13, 12, 2, n_heads=4, n_kv_heads=2, d_model=24, d_ff=17)
LATENT_SIZES = LatentConfig(20, 3, 6, 10, 4, 32)
T5_SIZES = T5Config(23, 3, 3, 10, 5, 29, 0.0, 1e-2, 12, 20)
MAMBA_SIZES = MambaConfig(13, 2, 6, d_state=5, d_conv=4, expand=3, dt_rank=2)
zeros = torch.zeros


def ids(*shape):
    return zeros(shape, dtype=torch.long)


def bools(*shape):
    return torch.ones(shape, dtype=torch.bool)


def each(call, values, words):
    """A row for each value, which the message contains where the words have VALUE."""
    shown = [re.escape(str(value)) for value in values]
    return [
        (lambda value=value: call(value), words.replace("VALUE", text))
        for value, text in zip(values, shown, strict=True)
    ]


def attend(function, *shapes, **how):
    return lambda: function(*(zeros(shape) for shape in shapes), **how)


def scanned(scan, **changed):
    shapes = {"u": (2, 7, 3), "delta": (2, 7, 3), "a": (3, 4)}
    shapes |= {"b": (2, 7, 4), "c": (2, 7, 4), "d": (3,)} | changed
    return lambda: scan(**{name: zeros(shape) for name, shape in shapes.items()})


def delta(form, **changed):
    shapes = {"query": (2, 13, 5), "key": (2, 13, 5), "value": (2, 13, 3), "beta": (2, 13)}
    shapes |= {"decay": (2, 13), "state": (2, 3, 5)} | changed
    return lambda: form(**{name: zeros(shape) for name, shape in shapes.items()})


def bert(**how):
    return BERT(BERT_SIZES)(ids(3, 8), **how)


def llama(**sizes):
    return LLaMA(dataclasses.replace(LLAMA_SIZES, **sizes))


def t5(**sizes):
    return lambda: T5(dataclasses.replace(T5_SIZES, **sizes))(ids(1, 2), ids(1, 2), None, None)


def rotated(width=8, offset=0):
    return apply_rope(zeros(2, 3, 5, width), rope_angles(8, 10), offset)


def stepped(batches):
    model = nn.Linear(4, 6)
    optimizer, loss = torch.optim.SGD(model.parameters(), 0.5), nn.CrossEntropyLoss(reduction="sum")
    train_step(model, batches, loss, optimizer, LossScaler(), 1.0)


def scaled(gradient):
    parameter = nn.Parameter(zeros(3, dtype=torch.float32 if gradient is None else gradient))
    parameter.grad = None if gradient is None else torch.ones_like(parameter)
    LossScaler().step(torch.optim.SGD([parameter], lr=1.0))


class OnMps(torch.Tensor):
    is_mps = True


def nan_layer():
    linear = nn.Linear(3, 2)
    nn.init.constant_(linear.weight, math.nan)
    return QuantizedLinear(linear)


def policy(clip=0.2, **changed):
    shapes = {"log_probs": (2, 3), "old_log_probs": (2, 3), "advantages": (2,)} | changed
    tensors = {name: zeros(shape) for name, shape in shapes.items()}
    return lambda: policy_loss(**tensors, mask=bools(2, 3), clip=clip)


def talk(rank, way, other):
    def work(group):
        if group.rank == rank:
            getattr(group, way)(*([torch.ones(1)] if way == "send" else []), other)

    return lambda: simulate(3, work)


def draft(size):
    *shape, new, k = size
    model = CachedGPT(GPT_SIZES)
    return speculative_generate(model, model, ids(*shape), new, k)


def t5_masked(name, mask):
    src, tgt = ids(3, 7), ids(3, 5)
    masks = {"src_mask": bools(3, 1, 7), "tgt_mask": bools(3, 1, 5)} | {name: mask}
    return lambda: T5(T5_SIZES)(src, tgt, **masks)


ROWS = [
    *each(lambda v: gelu(zeros(3), v), ["erf", "", None, True], '"none" or "tanh"'),
    *each(lambda sizes: SwiGLU(*sizes), [(0, 4), (4, 0), (-1, 4)], "at least 1"),
    *each(alibi_slopes, [0, -1], "n_heads"),
    *each(lambda n: alibi_bias(n, 2, 2), [0, -1], "n_heads"),
    *each(lambda t: alibi_bias(4, *t), [(3, 2), (-1, 2), (1, 0), (-2, -1)], "t_q must lie in"),
    # BERT and its masks
    *each(lambda v: mask_tokens(ids(3), v, 13, ()), [-1, 13], "mask_id must be.*got VALUE"),
    *each(lambda v: mask_tokens(ids(3, 8), 4, 13, (0, v)), [-1, 13], "special.*0 to 12.*VALUE"),
    *each(lambda p: mask_tokens(ids(3), 4, 13, (), p), [-0.1, 1.1, math.nan], "p must be.*VALUE"),
    (lambda: BERT(BERT_SIZES)(ids(3, 9)), r"tokens.*context = 8.*9"),
    *each(lambda shape: bert(segments=ids(*shape)), [(8,), (3, 7), (3, 1)], "segments.*VALUE"),
    *each(lambda mask: bert(mask=mask), [bools(3, 8), bools(3, 1, 8) + 0.0], "mask must"),
    *each(lambda t: bert(mask=bools(3, 1, t)), [1, 7], "mask must (be|broadcast)"),
    *each(lambda n: BERT(BERTConfig(13, 8, 2, n, 10, 17)), [3, 0, 20], "divide d_model.*VALUE"),
    # the delta rule
    *(
        (delta(form, **{name: shape}), f"{name} must be")
        for form in (delta_rule, chunked_delta_rule)
        for name, shape in {
            "query": (2, 13, 1),
            "value": (2, 1, 3),
            "beta": (2, 1),
            "decay": (2, 1),
            "state": (2, 3, 1),
        }.items()
    ),
    (delta(lambda **x: chunked_delta_rule(**x, chunk=0)), "chunk must be at least 1, got 0"),
    *each(lambda c: MixtureOfDepths(nn.Identity(), 4, c), [0, -0.5, 1.001, math.nan], "capacity"),
    # efficient training
    *each(lambda v: clip_gradients([], v), [-1e-9, -math.inf, math.nan], "max_norm.*VALUE"),
    *each(lambda v: LossScaler(init_scale=v), [0.0, -2.0, math.inf, math.nan], "init_scale"),
    (lambda: LossScaler(growth_interval=0), "growth_interval"),
    *each(stepped, [[], [(torch.ones(2, 4), torch.full((2,), -100))]], "must have a target"),
    (  # an Apple GPU, whose random state is not restored
        lambda: checkpoint(torch.sin, zeros(2).as_subclass(OnMps)),
        "must be on the CPU or on CUDA, got a tensor on mps",
    ),
    (lambda: scaled(torch.float16), "float16"),
    (lambda: scaled(None), "gradient"),
    # flash attention
    *each(lambda b: flash_attention(*zeros(3, 5, 4), block=b), [0, -1], "block must be at least 1"),
    (attend(flash_attention, (3, 4), (2, 5, 4), (2, 5, 4)), "leading dimensions"),
    (attend(flash_attention, (2, 3, 4), (1, 5, 4), (1, 5, 4)), "leading dimensions"),
    (attend(flash_attention, (2, 3, 4), (2, 5, 4), (1, 5, 4)), "leading dimensions"),
    (attend(flash_attention, (2, 3, 4), (2, 5, 3), (2, 5, 4)), "same width"),
    (attend(flash_attention, (2, 3, 4), (2, 5, 4), (2, 6, 4)), "same length"),
    (attend(flash_attention, (4,), (5, 4), (5, 4)), r"must be \(…, T, d\)"),
    *each(
        lambda dtypes: flash_attention(*(zeros(3, 4, dtype=dtype) for dtype in dtypes)),
        [
            (torch.float32, torch.float32, torch.float16),
            (torch.float64, torch.float32, torch.float64),
            (torch.int64,) * 3,
            (torch.complex64,) * 3,
        ],
        "same floating-point dtype",
    ),
    # GPT, its cache and its samples
    (lambda: GPT(GPT_SIZES)(ids(3, 9)), r"tokens.*context = 8.*9"),
    *(
        (lambda make=make, sizes=sizes: make(*sizes), f"n_heads.*{sizes[1]}.*{sizes[0]}")
        for make in (
            CausalSelfAttention,
            CachedSelfAttention,
            lambda d_model, n_heads: GPT(GPTConfig(d_model=d_model, n_heads=n_heads)),
        )
        for sizes in [(10, 3), (10, 0), (10, -2), (4, 8)]
    ),
    (  # by default all layers would write into the first layer of the cache
        lambda: CachedSelfAttention(10, 2)(zeros(2, 1, 10), new_cache(GPT_SIZES, 2, 5)),
        "layer must be 0 to [0-9]+, got None",
    ),
    *(
        (lambda draw=draw, how=how: draw(zeros(2, 11), **how), f"{name}.*{value}")
        for draw in (distribution, sample)
        for name, values in {
            "temperature": (-1e-9, -1, math.nan, math.inf),
            "top_k": (0, -3),
            "top_p": (-0.1, 1.1, math.nan),
        }.items()
        for value in values
        for how in ({name: value}, {"temperature": 0, name: value})
    ),
    *(
        (lambda make=make, a=a: make(GPT(GPT_SIZES), ids(2, a[0]), a[1], **a[2]), words)
        for make in (generate, generate_cached)
        for words, a in {
            "empty prompt": (0, 3, {}),
            "max_new_tokens.*-1": (4, -1, {}),
            "temperature": (4, 3, {"temperature": -1.0}),
            "top_k": (4, 3, {"top_k": 0}),
            "top_p": (4, 3, {"top_p": 1.5}),
        }.items()
    ),
    *each(draft, [(2, 3, 1, 4), (1, 0, 1, 4), (1, 3, -1, 4), (1, 3, 1, 0), (1, 3, 6, 4)], "must"),
    *each(lambda n: accept_draft(ids(2), zeros(2, 3), zeros(n, n + 1)), [2, 3], r"\(k \+ 1, V\)"),
    # grouped queries and LLaMA
    *each(lambda n: GroupedQueryAttention(12, 6, n), [0, -1, 4], "n_kv_heads must divide n_heads"),
    *each(lambda n: GroupedQueryAttention(12, n, 1), [5, 0, 24], "n_heads must divide d_model"),
    (attend(GroupedQueryAttention(12, 6, 2).attend, (2, 6, 4, 2), (2, 2, 3, 2), (2, 2, 3, 2)), "4"),
    *each(lambda n: llama(n_heads=n), [5, 7, 0, -4], "n_heads must divide.*n_heads=VALUE"),
    *each(lambda n: llama(n_kv_heads=n), [3, 0], "n_kv_heads must divide n_heads.*=VALUE"),
    (lambda: llama(n_heads=8, n_kv_heads=8), "head_dim must be even.*3"),
    *each(lambda d: rope_angles(d, 10), [1, 7, 0, -2], "head_dim must be even"),
    (lambda: rope_angles(8, -1), "max_len"),
    (lambda: rope_angles(8, 10, 0.0), "base"),
    (lambda: apply_rope(zeros(2, 3, 5, 8), rope_angles(8, 10), layout="neox"), "layout"),
    *each(rotated, [2, 4, 7, 16], "head_dim of 8"),
    *each(lambda n: rotated(offset=n), [-1, 6], "positions must lie in 0 to 9"),
    *each(lambda n: rotated(offset=torch.tensor([0, n])), [-1, 6], "positions must lie in 0 to 9"),
    *each(lambda shape: rotated(offset=ids(*shape)), [(), (1,), (2, 1)], "offset must be an int"),
    (lambda: apply_rope(zeros(5, 8), rope_angles(8, 10), ids(5)), "offset must be an int"),
    (attend(MultiHeadLatentAttention(LATENT_SIZES), (2, 9, 20), (2, 30, 14)), "positions"),
    # looking inside, instruction tuning
    (attend(prefix_matching_score, (1, 2, 3, 3), (1, 4)), r"got \(1, 2, 3, 3\) and \(1, 4\)"),
    (lambda: pack([(ids(2), ids(2))], 1, 0), "at most length = 1 tokens, got 2"),
    (lambda: answer_labels(ids(2), bools(1)), r"one shape, got \(2,\) and \(1,\)"),
    # linear attention and windows
    *each(lambda t: linear_attention(zeros(t, 5), *zeros(2, 4, 5), True), [3, 5], "VALUE queries"),
    *each(
        lambda a: sliding_window_mask(*a), [(-1, 2, 1), (5, -1, 1), (5, 2, -1)], "at least 0.*-1"
    ),
    *each(
        lambda a: sliding_window_attention(*zeros(3, 7, 5), *a), [(-1, 0), (0, -1)], "least 0.*-1"
    ),
    *each(lambda t: sliding_window_attention(zeros(t, 5), *zeros(2, 7, 5), 2), [6, 8], "VALUE and"),
    # low-rank updates
    (lambda: add_lora(GPT(GPT_SIZES), 0, ("w_qkv",)), "rank must be at least 1, got 0"),
    (lambda: add_lora(GPT(GPT_SIZES), 2, ("w_q", "embed")), "a linear layer's, got w_q, embed"),
    # Mamba
    *(
        (scanned(scan, **{name: shape}), rf"\b{name} .*\({shape[0]},")
        for scan in (selective_scan, parallel_scan)
        for name, shape in [
            *(
                ("u", (7, 3)),
                ("delta", (2, 7, 1)),
                ("delta", (2, 3, 7)),
                ("a", (4,)),
                ("a", (1, 4)),
            ),
            *(
                ("a", (4, 3)),
                ("b", (2, 7, 1)),
                ("b", (2, 4, 7)),
                ("c", (2, 1, 4)),
                ("c", (1, 7, 4)),
            ),
            *(("d", (1,)), ("d", (7, 3))),
        ]
    ),
    *each(lambda h: scanned(parallel_scan, h=h)(), [(1, 3, 4), (2, 4, 3), (2, 3)], "h must be"),
    (lambda: Mamba(MAMBA_SIZES)(zeros(3, 3, 6), MambaState(MAMBA_SIZES, 2)), "3 rows as x, got 2"),
    *each(lambda n: MambaLM(MAMBA_SIZES)(ids(2, 5), [None] * n), [0, 1, 4], "=2, got VALUE"),
    # the mixture of experts
    *each(lambda s: load_balancing_loss(zeros(6, 4), ids(*s)), [(2, 2), (2, 3, 2)], "same tokens"),
    *each(lambda n: MixtureOfExperts(*n), [(0, 5, 4, 2), (6, 5, 0, 2)], "d_model and n_experts"),
    (lambda: MixtureOfExperts(6, 0, 4, 2), "d_model and d_ff must be at least 1"),
    *each(lambda k: MixtureOfExperts(6, 5, 4, k), [0, 5], "k must be from 1 to.* k=VALUE"),
    *each(lambda c: MixtureOfExperts(6, 5, 4, 2, c), [0.0, -1.0, math.nan], "capacity.*VALUE"),
    # norms and blocks
    *each(lambda n: GroupNorm(n, 8, 1e-5), [3, 16, 0, -2], "groups must divide features"),
    (lambda: RMSNorm(0, 1e-5), "at least 1"),
    *each(lambda n: RMSNorm(8, 1e-5)(zeros(3, n)), [1, 4, 16], "x must have 8 features, got VALUE"),
    *each(lambda n: GroupNorm(2, 8, 1e-5)(zeros(3, n)), [1, 4, 16], "8 features, got VALUE"),
    *each(lambda n: ParallelBlock(6, n, 9), [0, 4, 12], "n_heads must divide d_model"),
    # optimizers
    (lambda: AdamW([zeros(2, 2)], lr=-1.0), "lr must be at least 0"),
    (lambda: AdamW([zeros(2, 2)], betas=(0.9, 1.0)), "betas must be"),
    (lambda: Muon([zeros(2, 2)], momentum=1.0), "momentum must be"),
    (lambda: Muon([zeros(3)]), r"2 dimensions, got the shape \(3,\)"),
    (lambda: orthogonalize(zeros(3)), "2 dimensions, got 1"),
    (lambda: orthogonalize(zeros(2, 2), -1), "steps must be at least 0"),
    # many GPUs
    *(
        (talk(1, way, other), f"process 1 of 3 cannot .* process {other}")
        for way in ("send", "receive")
        for other in (-1, 3, 1)
    ),
    (lambda: simulate(0, lambda group: None), "size must be at least 1, got 0"),
    # preferences and rewards
    (policy(log_probs=(2, 1)), r"log_probs must have the shape of mask, \(2, 3\), got \(2, 1\)"),
    (policy(old_log_probs=(3,)), "old_log_probs must have the shape"),
    (policy(advantages=(2, 3)), r"one per answer, \(2,\), got \(2, 3\)"),
    (policy(clip=-1), "clip must be at least 0, got -1"),
    (lambda: sequence_log_probs(zeros(2, 3, 4), ids(3)), r"labels must have the shape \(2, 3\)"),
    (lambda: bradley_terry_loss(zeros(3), zeros(2)), r"one shape, got \(3,\) and \(2,\)"),
    (attend(dpo_loss, (3,), (3,), (3,), (2,)), r"one shape, got \(3,\), \(3,\), \(3,\), \(2,\)"),
    (lambda: dpo_loss(*zeros(4, 3), beta=0), "beta must be positive, got 0"),
    # eight bits
    *each(quantize_int8, [torch.ones(4), torch.ones(2, 3, 4), torch.ones(2, 0)], "must be"),
    (lambda: quantize_int8(ids(2, 3)), "torch.int64"),
    *each(lambda v: quantize_int8(zeros(2, 3) + v), [math.inf, math.nan], "infinity or NaN"),
    (nan_layer, "infinity or NaN"),
    (lambda: dequantize(ids(3, 5), torch.ones(3, 1)), "must be int8"),
    *each(lambda s: dequantize(zeros(3, 5).char(), zeros(s)), [(3,), (1, 5)], "scale must be"),
    # T5
    *(
        (
            lambda a=a: relative_position_bucket(ids(3), a[0], a[1], 128),
            f"num_buckets.*at least {a[2]}.*got {a[1]}",
        )
        for a in [(True, 3, 4), (True, 0, 4), (False, 1, 2)]
    ),
    *(
        (
            lambda a=a: relative_position_bucket(ids(3), a[0], 32, a[2]),
            rf"max_distance.*above {a[1]}\b.*got {a[2]}",
        )
        for a in [(True, 8, 8), (True, 8, 0), (False, 16, 16), (False, 16, 0)]
    ),
    *(
        (t5_masked(name, mask), f"{name}.*{words}")
        for name, t in {"src_mask": 7, "tgt_mask": 5}.items()
        for mask, words in [
            (bools(3, 1, t).long(), "boolean.*int64"),
            *(
                (bools(*shape), "must be")
                for shape in [(3, t), (3, 1, 1, t), (3, 1, t - 1), (2, 1, t), (3, 2, t)]
            ),
        ]
    ),
    (
        lambda: T5(T5_SIZES).decode(zeros(3, 7, 10), bools(3, 1, 6), ids(3, 5), None),
        "src_mask must",
    ),
    (t5(num_buckets=3), "num_buckets"),
    (t5(max_distance=6), "max_distance"),
]


@pytest.mark.parametrize(("call", "words"), ROWS, ids=[words for _, words in ROWS])
def test_it_is_refused(call, words):
    """By a ValueError that names the argument, what is allowed, and what was passed."""
    with pytest.raises(ValueError, match=words):
        call()


def test_a_scaler_refuses_calls_in_another_order():
    parameter, scaler = nn.Parameter(torch.ones(3)), LossScaler()
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="at most once"):
        scaler.unscale_(optimizer)
    scaler.update()
    scaler.unscale_(optimizer)


def test_flash_attention_has_no_mask_and_no_second_derivative():
    inputs = [torch.randn(3, 4, requires_grad=True) for _ in range(3)]
    with pytest.raises(TypeError, match="mask"):
        flash_attention(*inputs, mask=bools(3, 3))
    loss = flash_attention(*inputs).square().sum()
    (gradient,) = torch.autograd.grad(loss, inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("call", "vocab"),
    [
        *(
            (lambda m=m, config=config: m(dataclasses.replace(config, n_layers=0))(ids(3, 8)), 13)
            for m, config in [(GPT, GPT_SIZES), (BERT, BERT_SIZES), (LLaMA, LLAMA_SIZES)]
        ),
        (
            lambda: T5(dataclasses.replace(T5_SIZES, n_layers=0))(ids(3, 7), ids(3, 8), None, None),
            23,
        ),
    ],
)
def test_a_model_of_no_layers_is_defined(call, vocab):
    assert call().shape == (3, 8, vocab)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        *(
            (lambda m=m, c=c: m(c)(ids(0, 8)), (0, 8, 13))
            for m, c in [(GPT, GPT_SIZES), (LLaMA, LLAMA_SIZES)]
        ),
        (lambda: CausalSelfAttention(6, 2)(zeros(0, 5, 6)), (0, 5, 6)),
        (lambda: GroupedQueryAttention(6, 2, 1)(zeros(0, 5, 6)), (0, 5, 6)),
        (
            attend(flash_attention, (0, 2, 3, 3), (0, 2, 4, 3), (0, 2, 4, 2), causal=True),
            (0, 2, 3, 2),
        ),
        (attend(linear_attention, (0, 5, 5), (0, 5, 5), (0, 5, 3), causal=True), (0, 5, 3)),
        (lambda: apply_rope(zeros(0, 3, 5, 8), rope_angles(8, 20), ids(0)), (0, 3, 5, 8)),
        (lambda: pack([], 4, 0).mask, (0, 4, 4)),
        (lambda: generate(GPT(GPT_SIZES), ids(0, 3), 4), (0, 7)),
        (lambda: generate_cached(GPT(GPT_SIZES), ids(2, 3), 0), (2, 3)),
    ],
)
def test_what_is_empty_is_defined(call, shape):
    """Beside what the days' checks have at their edges: no rows, no examples, no new tokens."""
    assert call().shape == shape
