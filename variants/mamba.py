"""Mamba: instead of attention, a state of constant size that selects what it stores and what it forgets.

Attention stores every earlier token and reads all of them for each new one. A recurrence stores a state h
of fixed size: T tokens cost T steps. In earlier layers of this kind every token was treated alike, so they
could be computed as convolutions. Here the token itself decides how far the state moves (Δ), what is
written (B) and what is read (C): the selection. It is no longer a convolution; a parallel scan replaces it.

Three functions compute the recurrence:

    selective_scan      token by token: the definition, and the exercise
    parallel_scan       in chunks of `CHUNK` tokens, from a given state: what the layer runs
    associative_scan    all states of a chunk at once, in ⌈log₂ CHUNK⌉ rounds: what `parallel_scan` runs

Paper: Gu & Dao 2023, *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*,
https://arxiv.org/abs/2312.00752; § and eq. below are its own, names those of its published code in lower
case.

From symbols to names
    B               batch; as a matrix of the paper it is `b`
    T               time: tokens of a text, or of a chunk of it
    D               d_inner, channels inside the layer: expand · d_model. As the paper's skip it is `d`
    N               d_state, numbers of state per channel
    R               dt_rank, width of what Δ is computed from
    V               vocab, tokens in the vocabulary
    A, B, C, D      a, b, c, d: how the state decays, what is written, what is read, the skip connection
    Δ               delta, the step: how much of the present token enters, and how much of the past leaves
    u, y, h         u, y, h: the input of the scan, its output, and the state between
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.norms import RMSNorm

# Tokens that are scanned at once. More would not reduce the work, and would not fit in the CPU's cache.
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
    """Update a state token by token, and read it; each channel has its own N numbers of state.

        h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t u_t,    h_{−1} = 0
        y_t = C_t h_t + D u_t

    Raises:
        ValueError: an argument of a different shape.

    Source: Gu & Dao 2023, §2, eq. 2, and algorithm 2. The paper discretizes by zero-order hold (eq. 4),
    which is exp(Δ A) for A, and (Δ A)⁻¹ (exp(Δ A) − 1) Δ B for B. Its published code has Δ B instead,
    which is the same to first order in Δ; so has this. The skip D is in the code, not in eq. 2.
    """
    _check_scan(u=u, delta=delta, a=a, b=b, c=c, d=d)
    # 1. Upcast half precision: a state is a sum over the entire past.
    wide = torch.promote_types(u.dtype, torch.float32)
    x, delta, a, b, c, d = (tensor.to(wide) for tensor in (u, delta, a, b, c, d))
    # 2. Before the first token the state of every channel is 0.
    h = x.new_zeros(x.size(0), *a.shape)  # (B, D, N)
    outputs = []
    for t in range(x.size(1)):
        # 3. Let the state decay by the step, and write the token into it.
        step = delta[:, t].unsqueeze(-1)  # (B, D, 1)
        update = step * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(-1)  # (B, D, N)
        h = (step * a).exp() * h + update  # (B, D, N)
        # 4. Read it, and add the skip connection.
        with torch.autocast(u.device.type, enabled=False):  # which would round the state
            y = h @ c[:, t].unsqueeze(-1)  # (B, D, 1)
        outputs.append(y.transpose(1, 2) + d * x[:, t : t + 1])  # (B, 1, D)
    # 5. Concatenate the tokens, and cast back to the input's dtype.
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
    """Compute `selective_scan` chunk by chunk, from the state h before the first token (None: zeros).

    Returns:
        y `(B, T, D)` in the dtype of `u`, and the state after the last token, `(B, D, N)`, in float32, or
        in float64 if `u` is in float64. Time and memory grow linearly with T.

    Raises:
        ValueError: an argument of a different shape.

    Source: Gu & Dao 2023, §3.3, has the scan in one kernel; here it is in plain PyTorch.
    """
    _check_scan(u=u, delta=delta, a=a, b=b, c=c, d=d)
    wide = torch.promote_types(u.dtype, torch.float32)
    if h is None:
        h = u.new_zeros(u.size(0), *a.shape, dtype=wide)
    elif h.shape != (u.size(0), *a.shape):
        raise ValueError(f"h must be (B, D, N) = {(u.size(0), *a.shape)}, got {tuple(h.shape)}")
    # 1. Go chunk by chunk, so that one chunk's states at a time are in the CPU's cache.
    a, d, h = a.to(wide), d.to(wide), h.to(wide)
    outputs = []
    for parts in zip(*(tensor.split(CHUNK, dim=1) for tensor in (u, delta, b, c)), strict=True):
        x, step, write, read = (tensor.to(wide) for tensor in parts)
        # 2. Each token multiplies the state by `decay`, and adds `update`.
        decay = (step.unsqueeze(-1) * a).exp()  # (B, t, D, N)
        update = (step * x).unsqueeze(-1) * write.unsqueeze(2)  # (B, t, D, N)
        # 3. The state before the chunk enters with its first token.
        first = update[:, :1] + decay[:, :1] * h.unsqueeze(1)  # (B, 1, D, N)
        states = associative_scan(decay, torch.cat([first, update[:, 1:]], dim=1))
        h = states[:, -1]  # (B, D, N)
        # 4. Read all states, and add the skip connection.
        with torch.autocast(u.device.type, enabled=False):  # which would round the states
            y = (states @ read.unsqueeze(-1)).squeeze(-1) + d * x  # (B, t, D)
        outputs.append(y.to(u.dtype))
    return torch.cat(outputs, dim=1), h  # (B, T, D), (B, D, N)


def associative_scan(
    decay: Float[Tensor, "B T *rest"], update: Float[Tensor, "B T *rest"]
) -> Float[Tensor, "B T *rest"]:
    """Compute all states h_t = decay_t · h_{t−1} + update_t, h_{−1} = 0, in ⌈log₂ T⌉ rounds.

    Two tokens in a row act on the state like a single one: h ↦ p h + x, then h ↦ q h + z, is
    h ↦ p q h + (q x + z). So neighbors are combined, and half as many are left to scan. That returns the
    state after every second token, and one step from each returns the next: work for about 2 T steps, and
    no division, so products of decays may underflow.

    Source: Blelloch 1990, *Prefix Sums and Their Applications*, §1.4 (recurrences).
    """
    if update.size(1) < 2:
        return update
    # 1. Combine tokens 0 and 1, 2 and 3, …, and scan the pairs. An unpaired last token is left for step 2.
    pairs = update.size(1) // 2
    early, late = decay[:, : 2 * pairs : 2], decay[:, 1::2]  # (B, pairs, …) each
    joined = late * update[:, : 2 * pairs : 2] + update[:, 1::2]
    odd = associative_scan(early * late, joined)  # states after tokens 1, 3, 5, …
    # 2. One step from there to tokens 2, 4, …; nothing comes before token 0.
    later = decay[:, 2::2] * odd[:, : update[:, 2::2].size(1)] + update[:, 2::2]
    even = torch.cat([update[:, :1], later], dim=1)  # states after tokens 0, 2, 4, …
    # 3. Interleave both.
    both = torch.stack([even[:, :pairs], odd], dim=2).flatten(1, 2)  # (B, 2 · pairs, …)
    return torch.cat([both, even[:, pairs:]], dim=1)  # (B, T, …)


def _check_scan(**tensors: Tensor) -> None:
    """Check the shapes: many others would broadcast, to a different result."""
    u, a = tuple(tensors["u"].shape), tuple(tensors["a"].shape)
    if len(u) != 3 or len(a) != 2:
        raise ValueError(f"u must be (B, T, D) and a (D, N), got {u} and {a}")
    each = (*u[:2], a[1])
    expected = {"u": u, "delta": u, "a": (u[2], a[1]), "b": each, "c": each, "d": u[2:]}
    for name, tensor in tensors.items():
        if tensor.shape != expected[name]:
            raise ValueError(f"{name} must be {expected[name]}, got {tuple(tensor.shape)}")


# --- Day 37 · The layer (§3.4, figure 3) ----------------------------------------------------------


@dataclass(frozen=True)
class MambaConfig:
    """The sizes of a Mamba. The defaults are those of the smallest published model, with 130M parameters.

    Source: Gu & Dao 2023, §3.4 and §3.6; vocabulary, d_conv and eps: its published code and weights.
    """

    vocab: int = 50280  # V
    n_layers: int = 24
    d_model: int = 768
    d_state: int = 16  # N
    d_conv: int = 4  # tokens that the convolution sees, the present one included
    expand: int = 2
    dt_rank: int = 48  # R: d_model / 16, rounded up. It does not follow d_model by itself
    eps: float = 1e-5  # of every RMSNorm

    @property
    def d_inner(self) -> int:
        """D."""
        return self.expand * self.d_model


class MambaState:
    """What one layer stores of the tokens so far: as much after a million tokens as after one.

    `window` has the last d_conv − 1 inputs of the convolution, the oldest first, and `h` the scan's state.
    Both are zeros before the first token. The state is in float32 at least.
    """

    def __init__(
        self,
        config: MambaConfig,
        batch: int,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ):
        window = torch.zeros(batch, config.d_conv - 1, config.d_inner, device=device, dtype=dtype)
        self.window = window  # (B, d_conv − 1, D)
        wide = torch.promote_types(window.dtype, torch.float32)
        self.h = window.new_zeros(batch, config.d_inner, config.d_state, dtype=wide)  # (B, D, N)


class Mamba(nn.Module):
    """Apply a short convolution, the selective scan and a gate: one layer instead of attention and FFN.

        x, z = x W_in                           both of width D
        x ← SiLU(conv(x))                       each channel by itself, over the last d_conv tokens
        r, B, C = x W_x                         of widths R, N and N
        Δ = softplus(r W_Δ + b_Δ)               of width D
        y = selective_scan(x, Δ, A, B, C, D),   A = −exp(a_log)
        out = (y · SiLU(z)) W_out

    Source: Gu & Dao 2023, §3.4 and figure 3; §3.6 and the published code for the initialization.
    """

    def __init__(self, config: MambaConfig):
        super().__init__()
        d_inner, d_state, rank = config.d_inner, config.d_state, config.dt_rank
        # 1. Store the config. One projection in for both halves, and one out; no biases.
        self.config = config
        self.in_proj = nn.Linear(config.d_model, 2 * d_inner, bias=False)
        self.out_proj = nn.Linear(d_inner, config.d_model, bias=False)
        # 2. The convolution: as many groups as channels, so that channels do not mix.
        self.conv1d = nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner)
        # 3. The projections that make the scan selective: from a token to r, B and C, and from r to Δ.
        self.x_proj = nn.Linear(d_inner, rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(rank, d_inner)
        # 4. What is the same for every token: A, as a logarithm, and the skip connection.
        rates = torch.arange(1.0, d_state + 1)  # (N,)
        self.a_log = nn.Parameter(rates.log().repeat(d_inner, 1))  # (D, N)
        self.d = nn.Parameter(torch.ones(d_inner))  # (D,)
        # 5. Initialize Δ to between 0.001 and 0.1. The inverse of softplus is ln(eˣ − 1).
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        steps = torch.empty(d_inner).uniform_(math.log(1e-3), math.log(0.1)).exp()  # (D,)
        self.dt_proj.bias = nn.Parameter(steps.expm1().log())  # (D,)

    def forward(
        self, x: Float[Tensor, "B T d_model"], state: MambaState | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """Return the output for a text, or for the chunk after what `state` has read, and update `state`.

        Raises:
            ValueError: a state with a different number of rows.
        """
        if state is None:
            state = MambaState(self.config, len(x), device=x.device, dtype=x.dtype)
        if len(state.h) != len(x):
            raise ValueError(f"state must have {len(x)} rows as x, got {len(state.h)}")
        # 1. Project to the scan's input and its gate.
        x, z = self.in_proj(x).chunk(2, dim=-1)  # (B, T, D) each
        # 2. Prepend the convolution's last inputs, and store the new last ones. Convolve: this is causal,
        #    since every output is at the position of its last input.
        extended = torch.cat([state.window.to(x), x], dim=1)  # (B, d_conv − 1 + T, D)
        state.window = extended[:, x.size(1) :].detach().clone()  # (B, d_conv − 1, D)
        x = self.conv1d(extended.transpose(1, 2)).transpose(1, 2)  # (B, T, D)
        x = F.silu(x)
        # 3. Compute each token's step, what it writes and what it reads. The state is sensitive to Δ and A:
        #    they are in float32 at least, under autocast too, as in the published code.
        config, wide = self.config, torch.promote_types(x.dtype, torch.float32)
        r, b, c = self.x_proj(x).split([config.dt_rank, config.d_state, config.d_state], dim=-1)
        with torch.autocast(x.device.type, enabled=False):
            step = self.dt_proj(r.to(self.dt_proj.bias.dtype)).to(wide)  # (B, T, D)
        delta, a = F.softplus(step), -self.a_log.to(wide).exp()  # (B, T, D), (D, N)
        # 4. Scan from the state, and store the new one: a copy, since a view would keep the entire chunk.
        h = state.h.to(x.device)  # (B, D, N)
        y, h = parallel_scan(u=x, delta=delta, a=a, b=b, c=c, d=self.d, h=h)  # (B, T, D), (B, D, N)
        state.h = h.detach().clone()  # (B, D, N)
        # 5. Gate, and project back.
        return self.out_proj(y * F.silu(z))  # (B, T, d_model)


# --- Day 37 · The language model ------------------------------------------------------------------


class MambaBlock(nn.Module):
    """Apply one layer: x + Mamba(RMSNorm(x))."""

    def __init__(self, config: MambaConfig):
        super().__init__()
        self.norm = RMSNorm(config.d_model, config.eps)
        self.mixer = Mamba(config)

    def forward(
        self, x: Float[Tensor, "B T d_model"], state: MambaState | None = None
    ) -> Float[Tensor, "B T d_model"]:
        return x + self.mixer(self.norm(x), state)  # (B, T, d_model)


class MambaLM(nn.Module):
    """Compute the logits of the next token at every position; the embedding matrix is also the head.

    Source: Gu & Dao 2023, §3.4; the head and the initialization: the published code.
    """

    def __init__(self, config: MambaConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.blocks = nn.ModuleList(MambaBlock(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        nn.init.normal_(self.embed.weight, std=0.02)
        with torch.no_grad():  # √n_layers times smaller than PyTorch initializes it
            for block in self.blocks:
                block.mixer.out_proj.weight /= math.sqrt(config.n_layers)

    def new_states(self, batch: int) -> list[MambaState]:
        """Return one state per layer, as before the first token, where the weights are."""
        weight = self.embed.weight
        return [MambaState(self.config, batch, weight.device, weight.dtype) for _ in self.blocks]

    def forward(
        self, tokens: Int[Tensor, "B T"], states: list[MambaState] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return the logits for a text, or for the chunk after what `states` have read, and update these.

        Raises:
            ValueError: states of a different number of layers.
        """
        if states is None:
            states = self.new_states(len(tokens))
        if len(states) != len(self.blocks):
            raise ValueError(f"states must hold n_layers={len(self.blocks)}, got {len(states)}")
        x = self.embed(tokens)  # (B, T, d_model)
        for block, state in zip(self.blocks, states, strict=True):
            x = block(x, state)  # (B, T, d_model)
        return F.linear(self.norm(x), self.embed.weight)  # (B, T, V)
