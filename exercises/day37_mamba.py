"""Day 37 · Mamba

Lesson  course lesson 37
Hints   course hint 37     (one more each time; the first gives the steps of one way)
Check   course watch 37    (checks at every save; `course check 37` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    MambaConfig(vocab=50280, n_layers=24, d_model=768, d_state=16, d_conv=4, expand=2, dt_rank=48, eps=1e-05)
        The sizes of a Mamba.
    MambaState(config, batch, device=None, dtype=None)
        What one layer stores of the tokens so far: as much after a million tokens as after one.
    parallel_scan(u, delta, a, b, c, d, h=None)
        Compute `selective_scan` chunk by chunk, from the state h before the first token (None: zeros).
        Returns: y `(B, T, D)` in the dtype of `u`, and the state after the last token, `(B, D, N)`, in
        float32, or in float64 if `u` is in float64.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from variants.mamba import MambaConfig, MambaState, parallel_scan


def selective_scan(
    u: Float[Tensor, "B T D"],
    delta: Float[Tensor, "B T D"],
    a: Float[Tensor, "D N"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    d: Float[Tensor, " D"],
) -> Float[Tensor, "B T D"]:
    """Update a state token by token, and read it; each channel has its own N numbers of state.

        h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t u_t,    h_{−1} = 0
        y_t = C_t h_t + D u_t

    - For channel i and entry n of its state, written out:

          h[i, n] ← exp(delta[t, i] · a[i, n]) · h[i, n] + delta[t, i] · b[t, n] · u[t, i]
          y[t, i] = Σ_n c[t, n] · h[i, n] + d[i] · u[t, i]

    - `u` is the input, `(B, T, D)`, T ≥ 1.
    - `delta` is the step of each channel at each token, `(B, T, D)`, used as given: the softplus has
      already been applied. A step of 0 does not change the state.
    - `a`, `(D, N)`, is used as given: it is not a logarithm. In Mamba it is negative, so that the state
      decays.
    - `b`, `(B, T, N)`, decides what a token writes, and `c`, `(B, T, N)`, what it reads, both for all
      channels. `d`, `(D,)`, is the skip connection.
    - Return y, `(B, T, D)`, in the dtype of `u`. y_t depends on the tokens up to and including t.
    - float16 and bfloat16 are computed in float32, including the state; float64 in float64. The result
      is correct to the dtype's rounding.
    - If Δ A is so low that its exponential is 0, the past is forgotten, without NaN, in the gradients
      too.
    - No argument is changed.

    Raises:
        ValueError: an argument of a different shape.

    Source: Gu & Dao 2023, §2, eq. 2, and algorithm 2. The paper discretizes by zero-order hold (eq. 4),
    which is exp(Δ A) for A, and (Δ A)⁻¹ (exp(Δ A) − 1) Δ B for B. Its published code has Δ B instead,
    which is the same to first order in Δ; so has this. The skip D is in the code, not in eq. 2.
    """
    raise NotImplementedError


class Mamba(nn.Module):
    """Apply a short convolution, the selective scan and a gate: one layer instead of attention and FFN.

        x, z = x W_in                           both of width D
        x ← SiLU(conv(x))                       each channel by itself, over the last d_conv tokens
        r, B, C = x W_x                         of widths R, N and N
        Δ = softplus(r W_Δ + b_Δ)               of width D
        y = selective_scan(x, Δ, A, B, C, D),   A = −exp(a_log)
        out = (y · SiLU(z)) W_out

    - D is `config.d_inner`, N `config.d_state` and R `config.dt_rank`. `config` is stored as given.
    - `in_proj` is `nn.Linear(d_model, 2 · D, bias=False)`: x first, then the gate z.
    - `conv1d` is `nn.Conv1d(D, D, d_conv, groups=D)`, with a weight `(D, 1, d_conv)` and a bias. The
      last of a channel's d_conv weights belongs to the present token, the first to the oldest.
    - `x_proj` is `nn.Linear(D, R + 2 · N, bias=False)`: r first, then B, then C. `dt_proj` is
      `nn.Linear(R, D)`.
    - `a_log`, `(D, N)`, is the logarithm of −A, so that A stays negative. `d`, `(D,)`, is the skip
      connection.
    - `out_proj` is `nn.Linear(D, d_model, bias=False)`.
    - Nothing else is a parameter or in the state dict.
    - a_log[i, n] is initialized to ln(n + 1), n counted from 0, for every channel i (A = −1, −2, …, −N:
      S4D-Real), and d to 1. The weight of `dt_proj` is uniform between ±R^−½. Its bias is such that
      softplus(bias) is between 0.001 and 0.1, drawn for each channel, uniform in its logarithm. All
      other parameters have PyTorch's default initialization.

    Source: Gu & Dao 2023, §3.4 and figure 3; §3.6 and the published code for the initialization.
    """

    def __init__(self, config: MambaConfig):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B T d_model"], state: MambaState | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """Return the output for a text, or for the chunk after what `state` has read, and update `state`.

        - `(B, T, d_model)` keeps its shape and dtype, T ≥ 1. Each output depends on its own token and
          on those before it.
        - Without a state, `x` is an entire text. With a state, it is the chunk that follows what the state
          has read. However a text is cut into chunks, reading them in order returns the outputs of the
          entire text, up to rounding.
        - `state` is a `MambaState(config, B)`. `state.window`, `(B, d_conv − 1, D)`, has the last d_conv −
          1 inputs of the convolution, the oldest first; `state.h`, `(B, D, N)`, is the state after the last
          token. Both are zeros before the first token, perhaps in a dtype, or on a device, other than that
          of `x`.
        - After the call, the state has read the chunk too: both attributes are new tensors, `h` at least in
          float32. They do not require a gradient, and no gradient passes from a chunk to an earlier one.
          The old tensors are not changed.
        - `parallel_scan(u, delta, a, b, c, d, h)` is given. It returns what `selective_scan` would return
          if it began with the state h, and also the state after the last token, at least in float32.
        - The published code has Δ and A in float32 when the rest is in half precision: it adds
          `dt_proj.bias` and takes the softplus in float32. Your answer may do so, but need not.

        Raises:
            ValueError: a state with a different number of rows.
        """
        raise NotImplementedError
