"""What flash attention stores for its backward pass, and its kernel for a GPU against day 8's attention."""

import math
import runpy
import sys

import pytest
import torch

from implementation import attention
from variants.flash import flash_attention

# Where Triton is installed, the kernel runs on a GPU, or slowly in Triton's interpreter.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def inputs(batch, t_q, t_k, d_k, d_v, dtype=torch.float64):
    shapes = (t_q, d_k), (t_k, d_k), (t_k, d_v)
    return [torch.randn(*batch, *shape).to(dtype).requires_grad_() for shape in shapes]


def border(t_q, t_k):
    """Query i of T_q sees keys up to T_k − T_q + i."""
    return torch.tensor([[j <= t_k - t_q + i for j in range(t_k)] for i in range(t_q)]).view(
        t_q, t_k
    )


# --- Memory ---------------------------------------------------------------------------------------


def test_what_is_kept_is_a_number_a_query():
    """Beside the inputs and the output."""
    tensors = inputs((2,), 9, 11, 4, 3)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        out = flash_attention(*tensors, block=4)
    shapes = [
        tuple(tensor.shape)
        for tensor in saved
        if tensor.untyped_storage().data_ptr()
        not in {tensor.untyped_storage().data_ptr() for tensor in (*tensors, out)}
    ]
    assert shapes == [(2, 9, 1)]
    expected = (tensors[0] @ tensors[1].mT / 2).logsumexp(dim=-1, keepdim=True)
    torch.testing.assert_close(saved[-1], expected.detach(), rtol=0, atol=1e-12)


# --- The kernel for a GPU -------------------------------------------------------------------------


def test_the_kernel_is_not_imported_by_itself(monkeypatch):
    """Triton is not there on every machine."""
    monkeypatch.delitem(sys.modules, "variants.flash_triton", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)  # importing it fails
    assert "flash_attention" in runpy.run_path(flash_attention.__globals__["__file__"])
    assert "variants.flash_triton" not in sys.modules


@pytest.fixture
def flash_forward(monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")  # before Triton and the kernel are imported
    pytest.importorskip("triton")
    from variants.flash_triton import flash_forward

    return flash_forward


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "sizes", [((2,), 37, 37, 5, 3, 16), ((3,), 5, 13, 2, 6, 64), ((1,), 130, 70, 8, 4, 64)], ids=str
)
def test_the_kernel_is_the_attention_of_day_8(flash_forward, sizes, causal, dtype):
    if DEVICE == "cpu" and dtype == torch.bfloat16:
        pytest.skip("the interpreter computes in NumPy, which has no bfloat16")
    tensors = [tensor.detach().to(DEVICE) for tensor in inputs(*sizes[:-1], dtype)]
    output, log_sum = flash_forward(*tensors, block=sizes[-1], causal=causal)
    mask = border(*sizes[1:3]).bool().to(DEVICE) if causal else None
    expected, _ = attention(*(tensor.double() for tensor in tensors), mask)
    eps = torch.finfo(dtype).eps
    assert output.dtype == dtype and log_sum.dtype == torch.float32
    torch.testing.assert_close(output.double(), expected, rtol=4 * eps, atol=4 * eps)
    scores = tensors[0].double() @ tensors[1].double().mT / math.sqrt(tensors[0].size(-1))
    if causal:
        scores = scores.masked_fill(~mask, -math.inf)
    log_sums = scores.logsumexp(dim=-1)
    log_sums = log_sums.masked_fill(log_sums == -math.inf, math.inf)
    torch.testing.assert_close(log_sum.double(), log_sums, rtol=1e-5, atol=1e-5)


def test_what_the_kernel_does_not_support_is_refused(flash_forward):
    def inputs(dtype=torch.float16, t_k=5, d=4):
        return [torch.zeros(3, t, d, dtype=dtype, device=DEVICE) for t in (4, t_k, 5)]

    with pytest.raises(ValueError, match="inputs must all be"):
        flash_forward(*inputs(torch.float64))
    with pytest.raises(ValueError, match="block"):
        flash_forward(*inputs(), block=48)
    with pytest.raises(ValueError, match="shapes"):
        flash_forward(*inputs(t_k=6))
    with pytest.raises(ValueError, match="d_k and d_v"):
        flash_forward(*inputs(d=257))
    with pytest.raises(ValueError, match="require gradients"):
        flash_forward(*(tensor.requires_grad_() for tensor in inputs()))
