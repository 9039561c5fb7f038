"""Looking inside: what a model predicts halfway, which activation matters, and where its heads look.

Papers: nostalgebraist 2020, *interpreting GPT: the logit lens*; Meng et al. 2022, *Locating and Editing
Factual Associations in GPT*; Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*; Olsson
et al. 2022, *In-context Learning and Induction Heads*. Nothing is trained, and no weight changes: forward
hooks read activations, or replace them, while the model runs.

From symbols to names
    B, T, V         batch, time, tokens in the vocabulary
    N, h            layers, heads of each
    h₀ … h_N        the residual stream: `states`, before the first block and after each
    W_o             the matrix of the logits: `head.weight` in a LLaMA, `embed.weight` in a GPT
    A               weights: what each position attends to, one T × T matrix per head
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from variants.gpt import GPT, GPTConfig
from variants.llama import LLaMA
from variants.sampling import evaluating

# --- Day 50 · Looking inside ----------------------------------------------------------------------


@torch.no_grad()
def logit_lens(model: GPT | LLaMA, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "N+1 B T V"]:
    """Return the logits that a language model would have if it ended after 0, 1, … N of its blocks.

        logitsₙ = norm(hₙ) W_oᵀ,  n = 0 … N

    The norm is the final one, and the last logits are the model's own.

    Raises:
        ValueError: more tokens than `model.config.context`.

    Source: nostalgebraist 2020; Belrose et al. 2023, *Eliciting Latent Predictions from Transformers with the
    Tuned Lens*, §2.
    """
    states: list[Tensor] = []
    modes = [(module, module.training) for module in model.modules()]
    # 1. The residual stream is the input of each block, and at the end that of the final norm.
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))
        for module in (*model.blocks, model.norm)
    ]
    try:
        # 2. Run the model, without dropout.
        model.eval()
        model(tokens)
    finally:
        # 3. Leave the model as it was, also after an error.
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training
    # 4. Read every state as the model reads the last one.
    output = getattr(model, "head", model.embed)  # a GPT is tied
    return F.linear(model.norm(torch.stack(states)), output.weight)  # (N + 1, B, T, V)


@torch.no_grad()
def patch_activation(
    model: nn.Module,
    tokens: Int[Tensor, "B T"],
    source: Int[Tensor, "B T"] | None,
    module: nn.Module,
    where: object = ...,
) -> Tensor:
    """Return `model(tokens)`, computed with some of the numbers that enter `module` replaced.

        x[where] ← x′[where]

    x is the input of `module` on `tokens`, x′ that on `source`. Without a `source`, x[where] becomes 0: this
    is an ablation. `where` is an index, such as `(slice(None), 3)` for position 3 of each row.

    Raises:
        What the model or the index raises.

    Source: Vig et al. 2020, *Investigating Gender Bias in Language Models Using Causal Mediation Analysis*;
    Meng et al. 2022, §2.1 (causal tracing); Heimersheim & Nanda 2024, *How to use and interpret activation
    patching*.
    """
    recorded: list[Tensor] = []
    modes = [(part, part.training) for part in model.modules()]

    def record(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        recorded.append(inputs[0])

    def replace(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        # Other modules may read the same tensor, so the patch goes into a copy.
        x = inputs[0].clone()
        x[where] = recorded[0][where] if recorded else 0
        return (x, *inputs[1:])

    try:
        # 1. Run without dropout.
        model.eval()
        # 2. On `source`, record what enters the module.
        if source is not None:
            with module.register_forward_pre_hook(record):
                model(source)
        # 3. On `tokens`, replace it.
        with module.register_forward_pre_hook(replace):
            return model(tokens)
    finally:
        # 4. Leave the model as it was, also after an error.
        for submodule, training in modes:
            submodule.training = training


def prefix_matching_score(
    weights: Float[Tensor, "B h T T"], tokens: Int[Tensor, "B T"]
) -> Float[Tensor, " h"]:
    """Return the share of its attention that each head gives to what followed the same token earlier.

        score = mean over t of Σ { A[t, s + 1] : s < t, x_s = x_t }

    The mean is over all positions t of all rows whose token x_t occurs earlier in its row. A perfect
    induction head scores 1. If no token occurs twice, the score is 0.

    Raises:
        ValueError: shapes that do not belong together.

    Source: Olsson et al. 2022, "prefix matching", a mean over repetitions of random tokens.
    """
    if weights.dim() != 4 or weights.shape[-2:] != 2 * tokens.shape[-1:]:
        raise ValueError(
            "weights and tokens must be (B, h, T, T) and (B, T), got "
            f"{tuple(weights.shape)} and {tuple(tokens.shape)}"
        )
    # 1. Where the token at t occurs earlier: rows are t, columns s < t.
    earlier = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).tril(-1)  # (B, T, T)
    # 2. The position to attend to is one further.
    next_positions = earlier.roll(1, dims=2)  # (B, T, T)
    # 3. The weight on all of these positions, and a mean over the positions that have one.
    matched = (weights * next_positions.unsqueeze(1)).sum(dim=-1)  # (B, h, T)
    count = earlier.any(dim=2).sum().clamp(min=1)
    return matched.sum(dim=(0, 2)) / count  # (h,)


# --- What it needs --------------------------------------------------------------------------------


def head_at(
    model: GPT | LLaMA, layer: int, head: int, position: int | slice = slice(None)
) -> tuple[nn.Module, tuple[object, ...]]:
    """Return `module` and `where` of what a head outputs, before the output projection."""
    part = model.blocks[layer].self_attn
    width = part.w_o.in_features // part.n_heads
    return part.w_o, (slice(None), position, slice(head * width, (head + 1) * width))


class _Weights(TorchFunctionMode):
    """Within it, `found` collects the weights of each causal `F.scaled_dot_product_attention`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.scaled_dot_product_attention:
            query, key = args[:2]
            key = key.repeat_interleave(query.size(1) // key.size(1), dim=1)  # (B, h, T, d_k)
            scores = query @ key.mT / math.sqrt(query.size(-1))  # (B, h, T, T)
            later = torch.ones_like(scores, dtype=torch.bool).triu(1)
            self.found.append(scores.masked_fill(later, -torch.inf).softmax(dim=-1))
        return function(*args, **(kwargs or {}))


@torch.no_grad()
def attention_weights(
    model: GPT | LLaMA, tokens: Int[Tensor, "B T"]
) -> list[Float[Tensor, "B h T T"]]:
    """Return the weights of each layer, without dropout. The fused kernel does not return them."""
    with evaluating(model), _Weights() as weights:
        model(tokens)
    return weights.found


@torch.no_grad()
def copying_gpt(vocab: int, context: int, sharpness: float = 30.0) -> GPT:
    """Return a GPT with weights set by hand that continues what repeats. Token 0 begins each row.

    The residual stream has a feature for each token, one for each token that came before, and one for each
    position. The head of layer 0 attends to the position before, and writes which token it found. The head
    of layer 1 looks for its own token among these notes, and copies the token at this place: the prediction.

    Source: Elhage et al. 2021, "Induction heads" (the mechanism).
    """
    width = 2 * vocab + context
    token, before, position = torch.eye(width).split([vocab, vocab, context])  # rows are features
    model = GPT(GPTConfig(vocab, context, 2, 1, width, 1, dropout=0.0)).eval()
    for name, parameter in model.named_parameters():
        if not name.endswith("gain"):
            parameter.zero_()
    model.embed.weight.copy_(3 * token)
    model.positions.weight.copy_(3 * position)
    first, second = (block.self_attn for block in model.blocks)
    # A projection is a sum of outer products: from what it reads to what it writes.
    query, key, value = first.w_qkv.weight.chunk(3)
    query.copy_(sharpness * position[:-1].T @ position[1:])  # asks for the position before
    key.copy_(position.T @ position)
    value.copy_(token.T @ token)
    first.w_o.weight.copy_(before.T @ token)
    query, key, value = second.w_qkv.weight.chunk(3)
    query.copy_(sharpness * before.T @ token)  # asks for its own token, as the one before
    key.copy_(before.T @ before)
    value.copy_(token.T @ token)
    second.w_o.weight.copy_(sharpness * token.T @ token)
    return model
