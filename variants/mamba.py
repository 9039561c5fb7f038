"""Mamba: in place of attention a state of constant size, which selects what it takes in and what it forgets.

Attention keeps every earlier token, and looks through all of them for each new one. A recurrence keeps a
state h instead, and never looks back: T tokens cost T steps, and a text of any length is held in the same
few numbers. Until Mamba such layers treated every token alike, and were computed as convolutions. Here the
token itself says how far the state moves (Δ), what is written (B) and what is read (C). That is the
selection. It is no convolution any more, and a parallel scan takes its place.

Paper: Gu & Dao 2023, *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*,
https://arxiv.org/abs/2312.00752; § and eq. below are its own, names those of its published code in lower
case.

From symbols to names
    B               batch; as a matrix of the paper it is `b`
    T               time: tokens of a text, or of a chunk of it
    D               d_inner, channels inside the layer: expand · d_model. As the paper's skip it is `d`
    N               d_state, numbers of state that each channel has
    R               dt_rank, width of what Δ is computed from
    V               vocab, tokens in the vocabulary
    A, B, C, D      a, b, c, d: how the state decays, what is written, what is read, what passes by
    Δ               delta, the step: how much of the present token enters, and how much of the past leaves
    u, y, h         u, y, h: what goes into the scan, what comes out, and the state between
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.norms import RMSNorm

# Tokens that are scanned at once. More take no fewer steps in all, and leave the processor's cache.
CHUNK = 64

# --- Day 37 · Selective scan (§2, §3.2) -----------------------------------------------------------


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
    _check_scan(u, delta, a, b, c, d)
    # 1. Widen halves: a state is a sum over the whole past.
    wide = torch.promote_types(u.dtype, torch.float32)
    x, delta, a, b, c, d = (one.to(wide) for one in (u, delta, a, b, c, d))
    # 2. Before the first token the state of every channel is 0.
    h = x.new_zeros(x.size(0), *a.shape)  # (B, D, N)
    outputs = [x[:, :0]]  # (B, 0, D), so that there is something to join where T is 0
    for t in range(x.size(1)):
        # 3. Let the state decay by the step, and write the token into it.
        step = delta[:, t].unsqueeze(-1)  # (B, D, 1)
        written = step * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(-1)  # (B, D, N)
        h = (step * a).exp() * h + written  # (B, D, N)
        # 4. Read it. What passes the state by comes on top.
        y = h @ c[:, t].unsqueeze(-1)  # (B, D, 1)
        outputs.append(y.transpose(1, 2) + d * x[:, t : t + 1])  # (B, 1, D)
    # 5. Join the tokens, and go back to the input's dtype.
    return torch.cat(outputs, dim=1).to(u.dtype)  # (B, T, D)


def parallel_scan(
    u: Float[Tensor, "B T D"],
    delta: Float[Tensor, "B T D"],
    a: Float[Tensor, "D N"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    d: Float[Tensor, " D"],
    h: Float[Tensor, "B D N"] | None = None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
    """The same as `selective_scan`, sooner; and it may start from a state, and hands over the last one.

    Args:
        u, delta, a, b, c, d: as for `selective_scan`.
        h: the state before the first token, `(B, D, N)`; None for zeros.

    Returns:
        y `(B, T, D)` in the dtype of `u`, and the state after the last token, `(B, D, N)`, in float32 or,
        where `u` is float64, in that; where T is 0 that is the state before. A text in any chunks, each
        started from the state that the one before it left, has the outputs of the whole text. Gradients
        are those of `selective_scan`, and go through `h` too. Time and memory grow linearly with T.

    Raises:
        ValueError: an argument of another shape.

    Source: Gu & Dao 2023, §3.3, has the scan in one kernel; here it is in plain PyTorch.
    """
    _check_scan(u, delta, a, b, c, d)
    wide = torch.promote_types(u.dtype, torch.float32)
    if h is None:
        h = u.new_zeros(u.size(0), *a.shape, dtype=wide)
    elif h.shape != (u.size(0), *a.shape):
        raise ValueError(f"h must be (B, D, N) = {(u.size(0), *a.shape)}, not {tuple(h.shape)}")
    # 1. Chunk by chunk, so that no more than one chunk's states are in the processor's cache at a time.
    a, d, h = a.to(wide), d.to(wide), h.to(wide)
    outputs = []
    for parts in zip(*(one.split(CHUNK, dim=1) for one in (u, delta, b, c)), strict=True):
        x, step, write, read = (one.to(wide) for one in parts)
        if x.size(1) > 0:
            # 2. What each token does to the state: multiply it by `decay`, and add `written`.
            decay = (step.unsqueeze(-1) * a).exp()  # (B, t, D, N)
            written = (step * x).unsqueeze(-1) * write.unsqueeze(2)  # (B, t, D, N)
            # 3. The state before the chunk enters by its first token.
            first = written[:, :1] + decay[:, :1] * h.unsqueeze(1)  # (B, 1, D, N)
            states = associative_scan(decay, torch.cat([first, written[:, 1:]], dim=1))
            h = states[:, -1]  # (B, D, N)
            # 4. Read all of them.
            x = (states @ read.unsqueeze(-1)).squeeze(-1) + d * x  # (B, t, D)
        outputs.append(x.to(u.dtype))
    return torch.cat(outputs, dim=1), h  # (B, T, D), (B, D, N)


def associative_scan(
    decay: Float[Tensor, "B T *rest"], written: Float[Tensor, "B T *rest"]
) -> Float[Tensor, "B T *rest"]:
    """All states h_t = decay_t · h_{t−1} + written_t at once, h_{−1} = 0: in ⌈log₂ T⌉ rounds, not in T steps.

    Two tokens in a row do to the state what a single one could do: where the first multiplies it by p and
    adds x, and the second multiplies it by q and adds z, both together multiply it by p·q and add q·x + z.
    So neighbours are joined, and half as many are left to scan. That gives the states after every second
    token; from each of them it is one step to the next. All of it together is work for about 2 T steps,
    and there is no division: products of decays may vanish.

    Source: Blelloch 1990, *Prefix Sums and Their Applications*, §1.4 (recurrences).
    """
    if written.size(1) < 2:
        return written
    # 1. Join the tokens 0 and 1, 2 and 3, …, and scan the pairs. A last one without a partner waits.
    pairs = written.size(1) // 2
    early, late = decay[:, : 2 * pairs : 2], decay[:, 1::2]  # (B, pairs, …) each
    joined = late * written[:, : 2 * pairs : 2] + written[:, 1::2]
    odd = associative_scan(early * late, joined)  # states after tokens 1, 3, 5, …
    # 2. From there one step to the tokens 2, 4, …; nothing comes before token 0.
    later = decay[:, 2::2] * odd[:, : written[:, 2::2].size(1)] + written[:, 2::2]
    even = torch.cat([written[:, :1], later], dim=1)  # states after tokens 0, 2, 4, …
    # 3. Put them in their order again.
    both = torch.stack([even[:, :pairs], odd], dim=2).flatten(1, 2)  # (B, 2 · pairs, …)
    return torch.cat([both, even[:, pairs:]], dim=1)  # (B, T, …)


def _check_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> None:
    """Refuse shapes that do not fit: many would broadcast, and give something else."""
    if u.dim() != 3 or a.dim() != 2:
        raise ValueError(
            f"u must be (B, T, D) and a (D, N), and they are {tuple(u.shape)} and {tuple(a.shape)}"
        )
    state = (*u.shape[:2], a.size(1))
    shapes = {
        "delta": u.shape,
        "a": (u.size(2), a.size(1)),
        "b": state,
        "c": state,
        "d": u.shape[2:],
    }
    for (name, shape), one in zip(shapes.items(), (delta, a, b, c, d), strict=True):
        if one.shape != shape:
            raise ValueError(f"{name} must have shape {tuple(shape)}, and has {tuple(one.shape)}")


# --- Day 37 · The layer (§3.4, figure 3) ----------------------------------------------------------


@dataclass(frozen=True)
class MambaConfig:
    """The sizes of a Mamba. The defaults are those of the smallest published one, of 130 million parameters.

    There is no `context`: a text may be of any length.

    Attributes:
        vocab: V, the number of tokens.
        n_layers: the number of blocks.
        d_model: width of the tokens' vectors.
        d_state: N, the numbers of state that each channel has.
        d_conv: width of the convolution: how many tokens it sees, the present one included.
        expand: how much wider the inside of a layer is than the outside.
        dt_rank: R, the width of what Δ is computed from; d_model / 16, rounded up, as published. It does
            not follow d_model by itself.
        eps: that of every norm.
        d_inner: D = expand · d_model; computed, not given.

    Source: Gu & Dao 2023, §3.4 and §3.6; vocabulary, d_conv and eps: its published code and weights.
    """

    vocab: int = 50280
    n_layers: int = 24
    d_model: int = 768
    d_state: int = 16
    d_conv: int = 4
    expand: int = 2
    dt_rank: int = 48
    eps: float = 1e-5

    @property
    def d_inner(self) -> int:
        return self.expand * self.d_model


class MambaState:
    """What one layer keeps of the tokens that it has read: as much after a million as after one.

    Args:
        config: a `MambaConfig`.
        batch: B, the number of rows.

    Attributes:
        window: the last d_conv − 1 inputs of the convolution, `(B, d_conv − 1, D)`, the oldest first.
        h: the state after the last token, `(B, D, N)`.

    Both are zeros at first, which is what comes before a text, in torch's default dtype and on its default
    device. A layer reads them in the dtype and on the device of its own, and puts new tensors in their place.
    """

    def __init__(self, config: MambaConfig, batch: int):
        self.window = torch.zeros(batch, config.d_conv - 1, config.d_inner)  # (B, d_conv − 1, D)
        self.h = torch.zeros(batch, config.d_inner, config.d_state)  # (B, D, N)


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
        d_inner, d_state, rank = config.d_inner, config.d_state, config.dt_rank
        # 1. Keep the config. One projection in for both halves, and one out; no biases.
        self.config = config
        self.in_proj = nn.Linear(config.d_model, 2 * d_inner, bias=False)
        self.out_proj = nn.Linear(d_inner, config.d_model, bias=False)
        # 2. The convolution: as many groups as channels, so that none sees another.
        self.conv1d = nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner)
        # 3. What makes the scan selective: from a token to its r, B and C, and from r to Δ.
        self.x_proj = nn.Linear(d_inner, rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(rank, d_inner)
        # 4. What is the same for every token: A by its logarithm, and the skip.
        rates = torch.arange(1.0, d_state + 1)  # (N,)
        self.a_log = nn.Parameter(rates.log().repeat(d_inner, 1))  # (D, N)
        self.d = nn.Parameter(torch.ones(d_inner))  # (D,)
        # 5. Start Δ where it has been found to work. The inverse of softplus is ln(eˣ − 1).
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        steps = torch.empty(d_inner).uniform_(math.log(1e-3), math.log(0.1)).exp()  # (D,)
        self.dt_proj.bias = nn.Parameter(steps.expm1().log())  # (D,)

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
        if state is not None and len(state.h) != len(x):
            raise ValueError(f"the state has {len(state.h)} rows, and x has {len(x)}")
        if state is None:
            state = MambaState(self.config, x.size(0))
        # 1. Project into what is scanned, and what gates it.
        x, z = self.in_proj(x).chunk(2, dim=-1)  # (B, T, D) each
        # 2. Put before it what the convolution saw last. Keep the last of that, and convolve: causal,
        #    since every output stands at the last of its inputs.
        seen = torch.cat([state.window.to(x), x], dim=1)  # (B, d_conv − 1 + T, D)
        state.window = seen[:, x.size(1) :].detach().clone()  # (B, d_conv − 1, D)
        if x.size(1) > 0:  # a convolution refuses to have no output
            x = self.conv1d(seen.transpose(1, 2)).transpose(1, 2)  # (B, T, D)
        x = F.silu(x)
        # 3. Let each token say its step, what it writes and what it reads.
        config = self.config
        r, b, c = self.x_proj(x).split([config.dt_rank, config.d_state, config.d_state], dim=-1)
        delta = F.softplus(self.dt_proj(r))  # (B, T, D)
        # 4. Scan on from the state, and keep the new one: copies, since a view would keep the whole chunk.
        h = state.h.to(x.device)  # (B, D, N)
        y, h = parallel_scan(x, delta, -self.a_log.exp(), b, c, self.d, h)  # (B, T, D), (B, D, N)
        state.h = h.detach().clone()  # (B, D, N)
        # 5. Gate, and project back.
        return self.out_proj(y * F.silu(z))  # (B, T, d_model)


# --- Day 37 · The language model ------------------------------------------------------------------


class MambaBlock(nn.Module):
    """One layer: x ← x + Mamba(RMSNorm(x)). It holds `norm` and `mixer`."""

    def __init__(self, config: MambaConfig):
        super().__init__()
        self.norm = RMSNorm(config.d_model, config.eps)
        self.mixer = Mamba(config)

    def forward(
        self, x: Float[Tensor, "B T d_model"], state: MambaState | None = None
    ) -> Float[Tensor, "B T d_model"]:
        return x + self.mixer(self.norm(x), state)  # (B, T, d_model)


class MambaLM(nn.Module):
    """The whole: from the tokens so far to scores of the next one, at every position at once.

    Args:
        config: a `MambaConfig`.

    Attributes:
        config: as given.
        embed: `nn.Embedding(vocab, d_model)`, N(0, 0.02²) at the start; also the head, without a bias.
        blocks: n_layers `MambaBlock`s; `mixer.out_proj` starts smaller by √n_layers than torch starts it.
        norm: the final `RMSNorm(d_model, eps)`.

    Source: Gu & Dao 2023, §3.4; the head and the start: the published code.
    """

    def __init__(self, config: MambaConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.blocks = nn.ModuleList(MambaBlock(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        nn.init.normal_(self.embed.weight, std=0.02)
        with torch.no_grad():
            for block in self.blocks:
                block.mixer.out_proj.weight /= math.sqrt(config.n_layers)

    def new_states(self, batch: int) -> list[MambaState]:
        """What the model keeps of a text before its first token: one state for each layer."""
        return [MambaState(self.config, batch) for _ in self.blocks]

    def forward(
        self, tokens: Int[Tensor, "B T"], states: list[MambaState] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Score what comes next after each token of a chunk.

        Args:
            tokens: ids `(B, T)`: the chunk that follows what the states have read; T may be 0. There is no
                padding.
            states: those of `new_states(B)`, which have read the tokens before these, and then have read
                these too. No gradient passes through them. None: the chunk is the whole text.

        Returns:
            Logits `(B, T, V)`. A text read in any chunks has the logits of the whole, to rounding.

        Raises:
            ValueError: states for another number of layers.
        """
        if states is None:
            states = self.new_states(len(tokens))
        if len(states) != len(self.blocks):
            raise ValueError(f"there are {len(states)} states, and n_layers = {len(self.blocks)}")
        x = self.embed(tokens)  # (B, T, d_model)
        for block, state in zip(self.blocks, states, strict=True):
            x = block(x, state)  # (B, T, d_model)
        return F.linear(self.norm(x), self.embed.weight)  # (B, T, V)
