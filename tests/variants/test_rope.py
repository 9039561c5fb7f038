"""Rotary positions against complex multiplication, and against the LLaMA of transformers."""

import cmath

import pytest
import torch

from variants.rope import apply_rope, rope_angles

LAYOUTS = ["interleaved", "halves"]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(29)


def turned(x, positions, base, layout):
    """x (B, h, T, d) with row b's tokens at positions[b], by multiplication with e^(i m θ)."""
    d = x.size(-1)
    if layout == "interleaved":
        numbers = torch.complex(x[..., 0::2], x[..., 1::2])
    else:
        numbers = torch.complex(x[..., : d // 2], x[..., d // 2 :])
    factors = torch.tensor(
        [
            [[cmath.exp(1j * m / base ** (2 * i / d)) for i in range(d // 2)] for m in row]
            for row in positions
        ],
        dtype=torch.complex128,
    )
    numbers = numbers * factors.view(len(positions), 1, x.size(-2), d // 2)
    out = torch.empty_like(x)
    if layout == "interleaved":
        out[..., 0::2], out[..., 1::2] = numbers.real, numbers.imag
    else:
        out[..., : d // 2], out[..., d // 2 :] = numbers.real, numbers.imag
    return out


@pytest.mark.parametrize("base", [10000.0, 500000.0, 10])
@pytest.mark.parametrize("head_dim", [2, 6, 64])
def test_angles_are_position_times_frequency(head_dim, base):
    angles = rope_angles(head_dim, 50, base)
    expected = [[m / base ** (2 * i / head_dim) for i in range(head_dim // 2)] for m in range(50)]
    assert angles.shape == (50, head_dim // 2)
    torch.testing.assert_close(
        angles, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0
    )


def test_angles_of_no_positions():
    assert rope_angles(8, 0).shape == (0, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("head_dim", [2, 6, 16])
@pytest.mark.parametrize("offset", [0, 7, 93])
def test_an_offset_for_all_rows_is_complex_multiplication(layout, head_dim, offset):
    x = torch.randn(3, 2, 7, head_dim, dtype=torch.float64)
    kept = x.clone()
    out = apply_rope(x, rope_angles(head_dim, 100, 50.0), offset, layout)
    expected = turned(x, [range(offset, offset + 7)] * 3, 50.0, layout)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_offset_for_each_row_is_complex_multiplication(layout):
    x = torch.randn(3, 2, 7, 6, dtype=torch.float64, requires_grad=True)
    starts = [0, 93, 11]
    out = apply_rope(x, rope_angles(6, 100), torch.tensor(starts), layout)
    expected = turned(x, [range(start, start + 7) for start in starts], 10000.0, layout)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(out)
    (grad,) = torch.autograd.grad(out, x, direction)
    back = turned(direction, [range(-start, -start - 7, -1) for start in starts], 10000.0, layout)
    torch.testing.assert_close(grad, back, rtol=0, atol=1e-10)  # the gradient is turned back


@pytest.mark.parametrize("offset", [0, 5, [5, 2]])
def test_halves_are_the_llama_of_transformers(offset):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    query = torch.randn(2, 3, 7, 8, dtype=torch.float64, requires_grad=True)
    key = torch.randn(2, 1, 7, 8, dtype=torch.float64, requires_grad=True)
    angles = rope_angles(8, 20)
    given = torch.tensor(offset) if isinstance(offset, list) else offset
    starts = offset if isinstance(offset, list) else [offset] * 2
    both = torch.stack([angles[start : start + 7] for start in starts]).repeat(1, 1, 2)
    theirs = llama.apply_rotary_pos_emb(query, key, both.cos(), both.sin())
    ours = tuple(apply_rope(x, angles, given, "halves") for x in (query, key))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    grads = [
        torch.autograd.grad(q.square().sum() * k.sum(), [query, key]) for q, k in (ours, theirs)
    ]
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-10)


def test_interleaved_is_the_llama_of_transformers_permuted():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    angles = rope_angles(8, 7)
    both = angles.repeat(1, 2).unsqueeze(0)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    theirs, _ = llama.apply_rotary_pos_emb(x[..., order], x[..., order], both.cos(), both.sin())
    torch.testing.assert_close(apply_rope(x, angles)[..., order], theirs, rtol=0, atol=1e-10)


def test_angles_are_the_llama_of_transformers():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=32, num_attention_heads=2, max_position_embeddings=64)
    cos, sin = llama.LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(64).unsqueeze(0))
    angles = rope_angles(16, 64).float().repeat(1, 2)
    torch.testing.assert_close(angles.cos(), cos[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(angles.sin(), sin[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_know_the_distance_only(layout):
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)
    angles = rope_angles(8, 1000)

    def score(m, n):
        turn = [apply_rope(x, angles, at, layout) for x, at in ((query, m), (key, n))]
        return (turn[0] * turn[1]).sum().item()

    assert score(5, 2) == pytest.approx(score(995, 992), abs=1e-10)
    assert score(5, 2) != pytest.approx(score(2, 5), abs=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cut_into_pieces_it_is_the_same(layout):
    x, angles = torch.randn(2, 3, 9, 8), rope_angles(8, 9)
    pieces = [apply_rope(x[:, :, s : s + 4], angles, s, layout) for s in (0, 4, 8)]
    assert torch.equal(torch.cat(pieces, dim=2), apply_rope(x, angles, 0, layout))


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 3, 5, 8), (2, 3, 4, 5, 8)])
def test_any_axes_before_time(shape):
    x, angles = torch.randn(shape), rope_angles(8, 20)
    expected = torch.stack([apply_rope(one, angles, 4) for one in x.view(-1, 5, 8)]).view(shape)
    torch.testing.assert_close(apply_rope(x, angles, 4), expected, rtol=0, atol=0)
    if len(shape) > 2:
        rows = apply_rope(x, angles, torch.tensor([4, 9]))
        assert torch.equal(rows[0], expected[0])
        assert torch.equal(rows[1], apply_rope(x[1], angles, 9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("angle_dtype", [torch.float32, torch.float64])
def test_the_dtype_is_that_of_x(dtype, angle_dtype):
    x, angles = torch.randn(2, 3, 5, 8).to(dtype), rope_angles(8, 3000).to(angle_dtype)
    out = apply_rope(x, angles, 2990)
    assert out.dtype == dtype
    expected = turned(x.double(), [range(2990, 2995)] * 2, 10000.0, "interleaved")
    eps = max(torch.finfo(dtype).eps, 2990 * torch.finfo(angle_dtype).eps)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=4 * eps)


def test_no_tokens_and_no_rows():
    angles = rope_angles(8, 20)
    assert apply_rope(torch.zeros(2, 3, 0, 8), angles, 20).shape == (2, 3, 0, 8)
    assert apply_rope(torch.zeros(2, 3, 0, 8), angles, torch.tensor([0, 20])).shape == (2, 3, 0, 8)
    empty = torch.zeros(0, dtype=torch.long)
    assert apply_rope(torch.zeros(0, 3, 5, 8), angles, empty).shape == (0, 3, 5, 8)


def test_the_first_position_is_not_turned():
    x = torch.randn(2, 3, 1, 8)
    for layout in LAYOUTS:
        assert torch.equal(apply_rope(x, rope_angles(8, 1), layout=layout), x)


@pytest.mark.parametrize("head_dim", [1, 7, 0, -2])
def test_an_odd_head_dim_is_refused(head_dim):
    with pytest.raises(ValueError, match="head_dim must be even"):
        rope_angles(head_dim, 10)


def test_other_bad_tables_are_refused():
    with pytest.raises(ValueError, match="max_len"):
        rope_angles(8, -1)
    with pytest.raises(ValueError, match="base"):
        rope_angles(8, 10, 0.0)


def test_bad_layouts_and_widths_are_refused():
    angles = rope_angles(8, 10)
    with pytest.raises(ValueError, match="layout"):
        apply_rope(torch.zeros(2, 3, 5, 8), angles, layout="neox")
    for head_dim in (2, 4, 7, 16):
        with pytest.raises(ValueError, match="head_dim of 8"):
            apply_rope(torch.zeros(2, 3, 5, head_dim), angles)


@pytest.mark.parametrize("offset", [-1, 6, torch.tensor([0, 6]), torch.tensor([-1, 0])])
def test_positions_without_an_angle_are_refused(offset):
    with pytest.raises(ValueError, match="positions must lie in 0 to 9"):
        apply_rope(torch.zeros(2, 3, 5, 8), rope_angles(8, 10), offset)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1)])
def test_an_offset_of_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match="offset must be an int"):
        apply_rope(
            torch.zeros(2, 3, 5, 8), rope_angles(8, 10), torch.zeros(shape, dtype=torch.long)
        )
    with pytest.raises(ValueError, match="offset must be an int"):
        apply_rope(torch.zeros(5, 8), rope_angles(8, 10), torch.zeros(5, dtype=torch.long))
