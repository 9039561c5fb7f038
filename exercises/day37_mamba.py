"""Day 37 · Mamba

Lesson  course lesson 37
Hints   course hint 37
Check   course watch 37    (checks at every save; `course check 37` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    MambaConfig(vocab=50280, n_layers=24, d_model=768, d_state=16, d_conv=4, expand=2, dt_rank=48, eps=1e-05)
        The sizes of a Mamba.
    MambaState(config, batch)
        What one layer keeps of the tokens that it has read: as much after a million as after one.
    parallel_scan(u, delta, a, b, c, d, h=None)
        The same as `selective_scan`, sooner; and it may start from a state, and hands over the last one.
        Returns: y `(B, T, D)` in the dtype of `u`, and the state after the last token, `(B, D, N)`, in
        float32 or, where `u` is float64, in that; where T is 0 that is the state before.
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
    """Run a state through a text, token by token; each channel has N numbers of state of its own.

        h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t u_t,    h_{−1} = 0
        y_t = C_t h_t + D u_t

    For channel i and number n of its state, written out:

        h[i, n] ← exp(delta[t, i] · a[i, n]) · h[i, n] + delta[t, i] · b[t, n] · u[t, i]
        y[t, i] = Σ_n c[t, n] · h[i, n] + d[i] · u[t, i]

    Args:
        u: what goes in, `(B, T, D)`; T may be 0.
        delta: the step of each channel at each token, `(B, T, D)`: as it is used, after the softplus. A
            step of 0 leaves the state as it is.
        a: `(D, N)`, negative in Mamba, so that the state decays: as it is used, not its logarithm.
        b: what is written, `(B, T, N)`: one for all channels.
        c: what is read, `(B, T, N)`: one for all channels.
        d: how much of u passes the state by, `(D,)`.

    Returns:
        y `(B, T, D)`, in the dtype of `u`. y_t depends on tokens up to t, t included. float16 and
        bfloat16 are computed in float32, the state too, float64 in float64: the result is right to the
        dtype's rounding. Where Δ A is so low that its exponential is 0 the past is forgotten, without
        NaN, in the gradients too. No argument is changed.

    Raises:
        ValueError: an argument of another shape.

    Source: Gu & Dao 2023, §2, eq. 2, and algorithm 2. The paper discretises by zero-order hold (eq. 4),
    which is exp(Δ A) for A, and (Δ A)⁻¹ (exp(Δ A) − 1) Δ B for B. Its published code has Δ B instead,
    which is the same to first order in Δ; so has this. The skip D is in the code, not in eq. 2.
    """
    # 1. Widen halves: a state is a sum over the whole past.
    # 2. Before the first token the state of every channel is 0.
    # 3. Let the state decay by the step, and write the token into it.
    # 4. Read it. What passes the state by comes on top.
    # 5. Join the tokens, and go back to the input's dtype.
    raise NotImplementedError


class Mamba(nn.Module):
    """The layer in place of attention and feed-forward network: a short convolution, the scan, a gate.

        x, z = x W_in                           both of width D
        x ← SiLU(conv(x))                       each channel by itself, over the last d_conv tokens
        r, B, C = x W_x                         of widths R, N and N
        Δ = softplus(r W_Δ + b_Δ)               of width D
        y = selective_scan(x, Δ, A, B, C, D),   A = −exp(a_log)
        out = (y · SiLU(z)) W_out

    Args:
        config: a `MambaConfig`. D is its `d_inner`, N its `d_state`, R its `dt_rank`.

    Attributes:
        config: as given.
        in_proj: `nn.Linear(d_model, 2 · D, bias=False)`: x first, then the gate z.
        conv1d: `nn.Conv1d(D, D, d_conv, groups=D)`, its weight `(D, 1, d_conv)`, with a bias. The last of a
            channel's d_conv weights belongs to the present token, the first to the oldest.
        x_proj: `nn.Linear(D, R + 2 · N, bias=False)`: r first, then B, then C.
        dt_proj: `nn.Linear(R, D)`.
        a_log: `(D, N)`, the logarithm of −A, so that A is negative whatever is learnt.
        d: `(D,)`, the skip.
        out_proj: `nn.Linear(D, d_model, bias=False)`.

        Nothing else is a parameter, or stands in the state dict. At the start a_log[i, n] = ln(n + 1), n
        counted from 0, for every channel i (A = −1, −2, …, −N: S4D-Real), and d is 1. The weight of
        `dt_proj` is uniform between ±R^−½. Its bias is such that softplus(bias) lies between 0.001 and 0.1,
        drawn for each channel, uniform in its logarithm. All else starts as torch starts it.

    Source: Gu & Dao 2023, §3.4 and figure 3; §3.6 and the published code for the start.
    """

    def __init__(self, config: MambaConfig):
        super().__init__()
        # 1. Keep the config. One projection in for both halves, and one out; no biases.
        # 2. The convolution: as many groups as channels, so that none sees another.
        # 3. What makes the scan selective: from a token to its r, B and C, and from r to Δ.
        # 4. What is the same for every token: A by its logarithm, and the skip.
        # 5. Start Δ where it has been found to work. The inverse of softplus is ln(eˣ − 1).
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B T d_model"], state: MambaState | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; each token knows itself and what came before.

        Args:
            x: a text, or the chunk that follows what `state` has read; T may be 0. Any chunks that make
                up a text give, one after the other, what the whole text gives at once, to rounding.
            state: a `MambaState(config, B)`: what was read before. `state.window` is the last d_conv − 1
                inputs of the convolution, `(B, d_conv − 1, D)`, the oldest first; `state.h` is the state
                after the last token, `(B, D, N)`. A new one holds zeros, which is what comes before a
                text, maybe in another dtype than that of `x`. Afterwards it has read the chunk too: new
                tensors stand in both places, `h` in float32 at least. They hold numbers and no history:
                they need no gradient, and none passes from a chunk into an earlier one. None: the chunk is
                the whole text.

        `parallel_scan(u, delta, a, b, c, d, h)` is given: it returns what `selective_scan` does when it
        starts from the state h, and the state after the last token. That is in float32 at least.

        Raises:
            ValueError: a state of another number of rows.
        """
        # 1. Project into what is scanned, and what gates it.
        # 2. Put before it what the convolution saw last. Keep the last of that, and convolve: causal,
        #    since every output stands at the last of its inputs.
        # 3. Let each token say its step, what it writes and what it reads.
        # 4. Scan on from the state, and keep the new one: copies, since a view would keep the whole chunk.
        # 5. Gate, and project back.
        raise NotImplementedError
