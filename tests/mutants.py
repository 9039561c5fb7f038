"""The mutation run: every small change of the reference must be noticed by the checks.

Each operator, constant, comparison, condition, argument and function name of each exercise's
definition is changed in turn, and the day's checks are run on the result. A change that no check notices
is a hole in the checks, or else does not change what the definition computes; those are listed, with
the reason, in `EQUIVALENT`.

    python -m tests.mutants          all days
    python -m tests.mutants 4        one day
"""

from __future__ import annotations

import ast
import copy
import multiprocessing
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from course.curriculum import DAYS, Day, find_day
from course.judging.judge import Judge
from course.references.changed import reference_module
from course.references.text import definition_text

ENOUGH = 0.95
SECONDS = 10

# Survivors that are as right as the reference, by definition, with the reason and the changed statements.
_SYMMETRIC = "swapping axes a and b is swapping b and a"
_COMMUTES = "of two arguments in the other order it is the same"
_SAME_AXIS = "it is the same axis, counted from the other end or left to the default"
_INFERRED = "the dtype that is left out is the one that is inferred"
_ON_THE_CPU = "on the CPU, where this is run"
_UTF8 = "UTF-8 is the default"
_ORDER = "any order of the pairs is right; this one only pads more"
_SMALLER = "smaller batches are right, too"
_EQUIVALENT: dict[str, dict[str, tuple[str, ...]]] = {
    "attention": {
        _SAME_AXIS: ("weights = softmax(scores)",),
        _COMMUTES: ("wide = torch.promote_types(torch.float32, query.dtype)",),
        _SYMMETRIC: ("scores = query.to(wide) @ key.to(wide).transpose(-1, -2)",),
        "float32's lowest number is low enough: scores stay within some 10⁶": (
            "scores = scores.masked_fill(~mask, torch.finfo().min)",
        ),
    },
    "flash_attention": {
        "the block shows in no number": tuple(
            "def flash_attention(query: Float[Tensor, '*batch T_q d_k'], "
            "key: Float[Tensor, '*batch T_k d_k'], value: Float[Tensor, '*batch T_k d_v'], "
            f"block: int={block}, causal: bool=False) -> Float[Tensor, '*batch T_q d_v']:"
            for block in (63, 65)
        ),
        _COMMUTES: (
            "wide = torch.promote_types(torch.float32, query.dtype)",
            "return [slice(start, min(length, start + block)) for start in range(0, length, block)]",
            "seen = min(t_k, rows.stop + t_k - t_q) if causal else t_k",
            "return blocks(max(0, seen))",
            "higher = torch.maximum(scores.amax(dim=-1, keepdim=True), highest)",
        ),
        "below 0 there are no blocks either": ("return blocks(max(seen, -1))",),
        "a tile that is hidden, or masked where nothing is later, changes nothing": (
            "seen = min(rows.stop + t_k + t_q, t_k) if causal else t_k",
            "if causal and columns.stop - 1 >= last:",
            "if causal and columns.stop + 1 > last:",
            "if causal and columns.stop - 0 > last:",
        ),
        "the same mask once for each batch": (
            "later = torch.ones(scores.shape[-3:], dtype=torch.bool, device=scores.device)",
        ),
        _ON_THE_CPU: ("later = torch.ones(scores.shape[-2:], dtype=torch.bool)",),
        "float32's lowest number is low enough: scores stay within some 10⁶": (
            "highest = q.new_full((*q.shape[:-1], 1), torch.finfo().min)",
        ),
        "autograd gives a gradient the dtype of its input": (
            "return ((grad_query * scale).to(), grad_key.to(query.dtype), grad_value.to(query.dtype))",
            "return ((grad_query * scale).to(query.dtype), grad_key.to(), grad_value.to(query.dtype))",
            "return ((grad_query * scale).to(query.dtype), grad_key.to(query.dtype), grad_value.to())",
        ),
    },
    "target_mask": {
        _COMMUTES: ("return padding_mask(pad, tokens) & subsequent_mask(tokens.shape[1])",),
    },
    "split_heads": {
        _SYMMETRIC: ("return pieces.swapaxes(2, 1)",),
    },
    "join_heads": {
        _SYMMETRIC: ("pieces = x.swapaxes(2, 1)",),
    },
    "multi_head_attention": {
        "the keys' bias adds the same to all scores of a query, and cancels in the softmax": (
            "k = split_heads(key @ params['w_k'] - params['b_k'], h)",
            "k = split_heads(key @ params['w_k'] + params['b_o'], h)",
        ),
    },
    "feed_forward": {
        _COMMUTES: ("hidden = np.maximum(x @ w_1 + b_1, 0)",),
    },
    "MultiHeadedAttention": {
        _SYMMETRIC: (
            "q = self.w_q(query).unflatten(-1, (self.h, -1)).transpose(2, 1)",
            "k = self.w_k(key).unflatten(-1, (self.h, -1)).transpose(2, 1)",
            "v = self.w_v(value).unflatten(-1, (self.h, -1)).transpose(2, 1)",
            "return self.w_o(heads.transpose(2, 1).flatten(-2))",
        ),
        _SAME_AXIS: ("return self.w_o(heads.transpose(1, 2).flatten(+2))",),
        "the fused kernel computes the same, and no answer needs the switch": ("if True:",),
    },
    "GroupedQueryAttention": {
        _SYMMETRIC: (
            "return (query.transpose(2, 1), key.transpose(1, 2), value.transpose(1, 2))",
            "return (query.transpose(1, 2), key.transpose(2, 1), value.transpose(1, 2))",
            "return (query.transpose(1, 2), key.transpose(1, 2), value.transpose(2, 1))",
            "return heads.transpose(2, 1).flatten(-2)",
        ),
        _SAME_AXIS: ("return heads.transpose(1, 2).flatten(+2)",),
        _ON_THE_CPU: ("past = torch.ones(t_q, t_k, dtype=torch.bool).tril(t_k - t_q)",),
    },
    "TopKRouter": {
        _COMMUTES: ("wide = torch.promote_types(torch.float32, x.dtype)",),
        _SAME_AXIS: ("weights, experts = probs.topk(self.k)",),
    },
    "load_balancing_loss": {
        _COMMUTES: ("wide = torch.promote_types(torch.float32, probs.dtype)",),
        "the mean of halves is added up in float32 by itself, and rounded once": (
            "p = probs.to().reshape(-1, n_experts).mean(dim=0)",
        ),
    },
    "MixtureOfExperts": {
        _SAME_AXIS: ("output.index_add_(0, rows, result * weights[rows, places].unsqueeze(+1))",),
    },
    "MixtureOfDepths": {
        _COMMUTES: (
            "k = min(max(1, math.floor(self.capacity * t + 1e-09)), t)",
            "k = min(t, max(math.floor(self.capacity * t + 1e-09), 1))",
        ),
        _SAME_AXIS: (
            "places = scores.topk(k, dim=1).indices.sort().values",
            "places = scores.topk(k).indices.sort(dim=1).values",
        ),
        "the product's rounding error is far below either": (
            "k = min(t, max(1, math.floor(self.capacity * t + 2e-09)))",
        ),
    },
    "mask_tokens": {
        _ON_THE_CPU: (
            "never = torch.tensor(list(special), dtype=tokens.dtype)",
            "draw = torch.rand(tokens.shape, generator=generator)",
            "fate = torch.rand(tokens.shape, generator=generator)",
            "instead = torch.randint(vocab, tokens.shape, generator=generator, dtype=tokens.dtype)",
        ),
        _INFERRED: (
            "instead = torch.randint(vocab, tokens.shape, generator=generator, device=tokens.device)",
        ),
        "ids are whole numbers by themselves, and an empty list of another dtype is as empty": (
            "never = torch.tensor(list(special), device=tokens.device)",
        ),
        "of numbers between 0 and 1 one in 2²⁴ is exactly the border": (
            "chosen = (draw <= p) & ~torch.isin(tokens, never)",
            "hidden = chosen & (fate <= 0.8)",
            "replaced = chosen & (fate >= 0.8) & (fate <= 0.9)",
            "replaced = chosen & (fate > 0.8) & (fate < 0.9)",
        ),
    },
    "BERT": {
        _ON_THE_CPU: ("positions = torch.arange(tokens.size(1))",),
    },
    "LabelSmoothing": {
        _COMMUTES: ("wide = log_probs.to(torch.promote_types(torch.float32, log_probs.dtype))",),
    },
    "PositionalEncoding": {
        "a buffer may be persistent": (
            "self.register_buffer('pe', table.unsqueeze(0))",
            "self.register_buffer('pe', table.unsqueeze(0), persistent=True)",
        ),
        "whole numbers times float64 frequencies are float64": (
            "position = torch.arange(max_len).unsqueeze(1)",
        ),
        "float32 frequencies are right to position × eps, which is all that is asked": (
            "even = torch.arange(0, d_model, 2)",
        ),
        "it asks for the default dtype": ("table = torch.empty(max_len, d_model)",),
    },
    "LayerNorm": {
        _COMMUTES: ("wide = x.to(torch.promote_types(torch.float32, x.dtype))",),
    },
    "RMSNorm": {
        _COMMUTES: ("wide = x.to(torch.promote_types(torch.float32, x.dtype))",),
    },
    "GroupNorm": {
        _COMMUTES: ("wide = x.to(torch.promote_types(torch.float32, x.dtype))",),
    },
    "gelu": {
        _COMMUTES: ("wide = x.to(torch.promote_types(torch.float32, x.dtype))",),
    },
    "mish": {
        _COMMUTES: ("wide = x.to(torch.promote_types(torch.float32, x.dtype))",),
        "torch's own softplus and tanh are right to a rounding each, in halves, too": (
            "wide = x.to()",
        ),
    },
    "rate": {
        _COMMUTES: (
            "step = max(1, step)",
            "return factor * model_size ** (-0.5) * min(step * warmup ** (-1.5), step ** (-0.5))",
        ),
    },
    "run_epoch": {
        "which of the two zeros is the float makes no difference": (
            "total_loss, total_tokens = (0, 0.0)",
        ),
        _COMMUTES: (
            "total_loss += summed.detach().to(torch.promote_types(torch.float32, summed.dtype))",
            "(summed / max(1, tokens)).backward()",
        ),
        "a step without a single token is not asked of answers": (
            "(summed / max(tokens, 0)).backward()",
        ),
    },
    "Batch": {
        _ON_THE_CPU: ("earlier = subsequent_mask(self.tgt.size(1)).to()",),
    },
    "greedy_decode": {
        _INFERRED: ("tokens = torch.full((src.size(0), 1), start, device=src.device)",),
        _ON_THE_CPU: (
            "tokens = torch.full((src.size(0), 1), start, dtype=torch.long)",
            "finished = torch.zeros(src.size(0), dtype=torch.bool)",
            "earlier = subsequent_mask(tokens.size(1)).to()",
        ),
        "no token is None, so without an end none of them finishes": ("if True:",),
        _SAME_AXIS: ("following = model.generator(states[:, -1]).argmax(dim=+1)",),
    },
    "beam_search": {
        _ON_THE_CPU: (
            "tokens = torch.full((rows, beam, 1), start, dtype=torch.long)",
            "scores = torch.full((rows, beam), -math.inf, dtype=wide)",
            "best = torch.full((rows, max_len), 0, dtype=torch.long)",
            "earlier = subsequent_mask(n).to()",
        ),
        _INFERRED: (
            "tokens = torch.full((rows, beam, 1), start, device=device)",
            "scores = torch.full((rows, beam), -math.inf, device=device)",
            "best = torch.full((rows, max_len), 0, device=device)",
        ),
        _COMMUTES: ("wide = torch.promote_types(torch.float32, memory.dtype)",),
        _SAME_AXIS: (
            "value, which = values.max(dim=+1)",
            "hope = scores.max(dim=+1).values / ((4 + max_len) / 6) ** alpha",
        ),
        "any of the places or columns will do": (
            "scores[:, -1] = 0.0",
            "best_value = torch.full_like(scores[:, -1], -math.inf)",
            "longest = torch.ones_like(best[:, -1])",
        ),
        "it stops later or not at all, and finds nothing better": (
            "if False:",
            "if (hope < best_value).all():",
            "hope = scores.max(dim=-1).values / ((4 + max_len) * 6) ** alpha",
            "hope = scores.max(dim=-1).values / ((4 + max_len) / 5) ** alpha",
            "hope = scores.max(dim=-1).values / ((5 + max_len) / 6) ** alpha",
        ),
        "a factor that all values have, and it stops later": (
            "values = (scores / ((5 + n) / 7) ** alpha).masked_fill(~ended, -math.inf)",
        ),
        "which of two equal hypotheses wins is not settled": ("better = value >= best_value",),
        "only an empty batch differs, of which no answer is asked": (
            "return best[:, :max(longest.tolist())]",
            "return best[:, :max(longest.tolist(), default=0)]",
            "return best[:, :max(longest.tolist(), default=2)]",
        ),
    },
    "CausalSelfAttention": {
        _SYMMETRIC: (
            "query = query.unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
            "key = key.unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
            "value = value.unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
            "return self.w_o(heads.transpose(2, 1).flatten(-2))",
        ),
        _SAME_AXIS: ("return self.w_o(heads.transpose(1, 2).flatten(+2))",),
        _ON_THE_CPU: ("mask = subsequent_mask(x.size(1)).to()",),
    },
    "selective_scan": {
        _COMMUTES: ("wide = torch.promote_types(torch.float32, u.dtype)",),
        _SYMMETRIC: ("outputs.append(y.transpose(2, 1) + d * x[:, t:t + 1])",),
        "without rows the zeros are broadcast to all of them": ("h = x.new_zeros(*a.shape)",),
    },
    "Mamba": {
        _SYMMETRIC: (
            "x = self.conv1d(seen.transpose(1, 2)).transpose(2, 1)",
            "x = self.conv1d(seen.transpose(2, 1)).transpose(1, 2)",
        ),
        _ON_THE_CPU: ("h = state.h.to()",),
    },
    "CachedSelfAttention": {
        _SYMMETRIC: (
            "query = query.unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
            "key = key.unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
            "value = value.unflatten(-1, (self.n_heads, -1)).transpose(2, 1)",
            "return self.w_o(heads.transpose(2, 1).flatten(-2))",
        ),
        _SAME_AXIS: ("return self.w_o(heads.transpose(1, 2).flatten(+2))",),
        _ON_THE_CPU: ("mask = torch.ones(t_q, t_k, dtype=torch.bool).tril(t_k - t_q)",),
    },
    "GPT": {
        _ON_THE_CPU: ("positions = torch.arange(tokens.size(1))",),
        "any of several endings is enough": ("if name.endswith(('w_2.weight', 'w_o.weight')):",),
    },
    "distribution": {
        _COMMUTES: ("scores = logits.to(torch.promote_types(torch.float32, logits.dtype))",),
        _SAME_AXIS: (
            "kth = scores.topk(top_k).values[..., -1:]",
            "ordered, order = probabilities.sort(descending=True, stable=True)",
        ),
        "a softmax does not change by what is added to all; only absurd temperatures overflow": (
            "scores = (scores + scores.amax(dim=-1, keepdim=True)) / temperature",
        ),
        "where k is the size of the vocabulary, nothing lies below the k-th": (
            "if top_k is not None and top_k <= logits.size(-1):",
        ),
        "on the CPU every sort of torch is stable": (
            "ordered, order = probabilities.sort(dim=-1, descending=True)",
            "ordered, order = probabilities.sort(dim=-1, descending=True, stable=False)",
        ),
        "whether a sum is p to the last bit is up to rounding": ("out = before > top_p",),
    },
    "sample": {
        _COMMUTES: ("wide = torch.promote_types(torch.float32, logits.dtype)",),
        "rounded to half precision they are off by less than any number of draws here would show": (
            "probabilities = distribution(logits.to(), temperature, top_k, top_p)",
        ),
    },
    "train_bpe": {
        _UTF8: ("ids = list(text.encode())",),
    },
    "BPE": {
        _UTF8: (
            "ids = list(text.encode())",
            "return b''.join((self.spelling[number] for number in ids)).decode(errors='replace')",
        ),
    },
    "bleu": {
        "what is zipped is equally long, or as long as the shortest is wanted": (
            "for hypothesis, *alternatives in zip(hypotheses, *references):",
            "for hypothesis, *alternatives in zip(hypotheses, *references, strict=False):",
            "for matched, total in zip(matches, totals):",
            "for matched, total in zip(matches, totals, strict=False):",
            "return Counter(zip(*(tokens[first:] for first in range(n))))",
        ),
        _COMMUTES: ("brevity = min(1 - reference_length / hypothesis_length, 0.0)",),
        "order 0 has no n-grams, and its counts are those of order 4, which come last": (
            "for n in range(5):",
            "for n in range(0, 5):",
        ),
    },
    "token_batches": {
        _COMMUTES: (
            "source, target = (max(len(pair[0]), longest_source), max(longest_target, len(pair[1])))",
            "source, target = (max(longest_source, len(pair[0])), max(len(pair[1]), longest_target))",
        ),
        "only pairs of nothing differ": (
            "longest_source = longest_target = -1",
            "longest_source = longest_target = 1",
        ),
        "the source's length counts again with the next pair, which is no shorter": (
            "batch, source, target = ([], len(pair[-1]), len(pair[1]))",
            "batch, source, target = ([], len(pair[1]), len(pair[1]))",
        ),
        _ORDER: (
            "for pair in sorted(pairs):",
            "for pair in sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]))):",
            "for pair in sorted(pairs, key=lambda pair: (len(pair[-1]), len(pair[1]))):",
            "for pair in sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[1]))):",
            "for pair in sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[0]))):",
        ),
        _SMALLER: (
            "if batch and (len(batch) + 1) * (source + target) >= max_tokens:",
            "if batch and (len(batch) + 2) * (source + target) > max_tokens:",
        ),
    },
    "relative_position_bucket": {
        _ON_THE_CPU: ("edges = torch.tensor(begins)",),
        "a distance of −1 has reached no edge either": (
            "distance = (-relative_position).clamp(min=-1)",
        ),
        "any number of digits does that a float64 has, and that leaves whole numbers whole": (
            "begins = [*range(1, m + 1), *(math.ceil(round(begin, 5)) for begin in begins)]",
            "begins = [*range(1, m + 1), *(math.ceil(round(begin, 7)) for begin in begins)]",
        ),
    },
    "T5": {
        _ON_THE_CPU: ("earlier = subsequent_mask(tgt.size(1)).to()",),
        "it is the name by which a mask is refused": (
            "bias = _hidden('tgt_mask', src_mask, src.size(0), bias)",
            "bias = _hidden('w_q', tgt_mask, tgt.size(0), bias)",
            "src_bias = _hidden('tgt_mask', src_mask, tgt.size(0), src_bias)",
        ),
    },
    "linear_attention": {
        _SYMMETRIC: (
            "state = key.transpose(-1, -2) @ value",
            "weights = (query @ key.transpose(-1, -2)).tril()",
        ),
        _COMMUTES: (
            "dtype, wide = (value.dtype, torch.promote_types(torch.float32, value.dtype))",
        ),
        "where it is causal, both are the same": ("t_q, t_k = (key.size(-2), query.size(-2))",),
        "at 0 both branches are 1, and so are their slopes": (
            "query = torch.where(query >= 0, query + 1, query.clamp(max=0).exp())",
            "key = torch.where(key >= 0, key + 1, key.clamp(max=0).exp())",
        ),
        "above 0 it is the other branch that counts": (
            "query = torch.where(query > 0, query + 1, query.clamp(max=1).exp())",
            "key = torch.where(key > 0, key + 1, key.clamp(max=1).exp())",
        ),
        "chunks of any length are right": (
            "size = 63",
            "size = 65",
            "query, key, value = (F.pad(x, (0, 0, 0, missing)).unflatten(-2, (size, chunks)) "
            "for x in (query, key, value))",
        ),
        "0 divided by anything is 0": ("output = mixed / total.masked_fill(total == 0, 2.0)",),
    },
    "rope_angles": {
        "float32 is allowed": ("even = torch.arange(0, head_dim, 2)",),
        "whole numbers times float64 turns are float64": ("position = torch.arange(max_len)",),
    },
    "apply_rope": {
        _COMMUTES: ("wide = torch.promote_types(torch.float32, x.dtype)",),
        _ON_THE_CPU: (
            "cos, sin = (turns.cos().to(wide), turns.sin().to(x.device, wide))",
            "cos, sin = (turns.cos().to(x.device, wide), turns.sin().to(wide))",
            "turns = angles[position.to()]",
            "steps = torch.arange(x.size(-2))",
        ),
        "what is multiplied by the wide dtype becomes as wide": (
            "cos, sin = (turns.cos().to(x.device), turns.sin().to(x.device, wide))",
            "cos, sin = (turns.cos().to(x.device, wide), turns.sin().to(x.device))",
            "a, b = x.to().unflatten(-1, sizes).unbind(axis)",
        ),
        _SAME_AXIS: (
            "position = offset.unsqueeze(+1) + steps",
            "pairs = angles.size(+1)",
        ),
    },
    "clip_gradients": {
        "on the CPU a half times a single number is rounded once": (
            "one.copy_(one.to() * factor)",
        ),
    },
    "LossScaler": {
        "two thousand steps are more than a check takes": (
            "def __init__(self, init_scale: float=2.0 ** 16, growth_interval: int=1999):",
            "def __init__(self, init_scale: float=2.0 ** 16, growth_interval: int=2001):",
        ),
        _COMMUTES: (
            "return loss.to(torch.promote_types(torch.float32, loss.dtype)) * self.current",
        ),
    },
    "checkpoint": {
        "the order of two contexts that do not meet is free": (
            "casts = [torch.autocast(kind, torch.get_autocast_dtype(kind), "
            "torch.is_autocast_enabled(kind)) for kind in ('cuda', 'cpu')]",
        ),
        _ON_THE_CPU: (
            "drawn_on = {gpu: torch.cuda.get_rng_state() for gpu in gpus}",
            "casts = [torch.autocast(kind, torch.get_autocast_dtype(kind), "
            "torch.is_autocast_enabled(kind)) for kind in ('cpu', 'cpu')]",
            "with torch.random.fork_rng(), casts[0], casts[1], torch.enable_grad():",
            "with torch.random.fork_rng(list()), casts[0], casts[1], torch.enable_grad():",
            "with torch.random.fork_rng(list(gpus)), casts[0], casts[0], torch.enable_grad():",
            "torch.cuda.set_rng_state(gpu)",
            "torch.cuda.set_rng_state(state)",
            "torch.cuda.set_rng_state(gpu, state)",
        ),
    },
    "train_step": {
        _COMMUTES: ("logits = logits.to(torch.promote_types(torch.float32, logits.dtype))",),
    },
    "shard": {
        "zeros beyond the last piece are cut off again": (
            "padded = F.pad(flat, (0, length * group.size + flat.numel()))",
        ),
    },
    "quantize_int8": {
        _COMMUTES: ("wide = weight.detach().to(torch.promote_types(torch.float32, weight.dtype))",),
        "a scale as small as that no trained model has": (
            "scale = scale.masked_fill(scale <= torch.finfo(scale.dtype).tiny, 1.0)",
            "scale = scale.masked_fill(scale < torch.finfo().tiny, 1.0)",
        ),
    },
    "dequantize": {
        "int8 times a real number has the real number's dtype": ("return quantized.to() * scale",),
    },
    "QuantizedLinear": {
        _COMMUTES: ("wide = torch.promote_types(torch.float32, x.dtype)",),
        _SAME_AXIS: (
            "y = sums * self.scale.to(wide).squeeze(+1)",
            "y = sums * self.scale.to(wide).squeeze()",
        ),
        "the narrower dtype of two is widened by the product or the sum itself": (
            "y = sums * self.scale.to().squeeze(-1)",
            "y = y + self.bias.to()",
        ),
    },
}
EQUIVALENT = {
    (definition, statement): reason
    for definition, reasons in _EQUIVALENT.items()
    for reason, statements in reasons.items()
    for statement in statements
}

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
FUNCTIONS = {
    "max": "min",
    "sum": "mean",
    "mean": "sum",
    "exp": "expm1",
    "log": "log1p",
    "sqrt": "square",
    "sin": "cos",
    "cos": "sin",
    "tril": "triu",
    "ones": "zeros",
    "maximum": "minimum",
}


@dataclass(frozen=True)
class Mutant:
    """One changed definition."""

    day: Day
    definition: str
    statement: str
    """The changed statement, which with the definition names the mutant."""
    source: str


def mutants(day: Day) -> Iterator[Mutant]:
    """Every mutant of a day's exercises."""
    for name in day.exercises:
        tree = ast.parse(definition_text(day, name))
        unchanged, out_of_scope = ast.unparse(tree), _out_of_scope(tree)
        for index, node in enumerate(ast.walk(tree)):
            if id(node) in out_of_scope:
                continue
            for change in range(_changes(node)):
                mutated = copy.deepcopy(tree)
                target = list(ast.walk(mutated))[index]
                _change(target, change, tree)
                source = ast.unparse(ast.fix_missing_locations(mutated))
                if source != unchanged:
                    yield Mutant(day, name, _changed_statement(tree, mutated), source)


def _out_of_scope(tree: ast.AST) -> set[int]:
    """Types, docstrings, and what no answer is asked for: refusing bad arguments, private methods."""
    out: set[int] = set()
    for node in ast.walk(tree):
        hidden: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef) and _is_private(node.name):
            hidden = [node]
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            hidden = [node.returns, *(argument.annotation for argument in arguments)]
        elif isinstance(node, ast.AnnAssign):
            hidden = [node.annotation]
        elif isinstance(node, ast.If):
            hidden = [node] if isinstance(node.body[-1], ast.Raise) else []
        elif isinstance(node, ast.Expr):
            hidden = [node] if _only_refuses(node.value) else []
        for root in hidden:
            out |= {id(inner) for inner in ast.walk(root)} if root is not None else set()
    return out


def _only_refuses(value: ast.expr) -> bool:
    """Whether an expression that stands alone is a docstring or a call such as `_check_mask(…)`."""
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.Constant) or (
        isinstance(called, ast.Name) and _is_private(called.id)
    )


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _changes(node: ast.AST) -> int:
    """In how many ways a node can be changed."""
    if isinstance(node, ast.BinOp):
        return int(type(node.op) in OPERATORS)
    if isinstance(node, ast.Compare):
        return int(type(node.ops[0]) in OPERATORS)
    if isinstance(node, ast.BoolOp | ast.UnaryOp | ast.IfExp):
        return 1
    if isinstance(node, ast.If):
        return 2
    if isinstance(node, ast.Constant):
        return 2 if type(node.value) in (int, float) else int(isinstance(node.value, bool | str))
    if isinstance(node, ast.Call):
        return len(node.keywords) + len(node.args) + int(len(node.args) > 1)
    if isinstance(node, ast.Attribute):
        return int(node.attr in FUNCTIONS)
    if isinstance(node, ast.Tuple):
        return int(isinstance(node.ctx, ast.Load) and len(node.elts) > 1)
    return 0


def _change(node: ast.AST, change: int, tree: ast.AST) -> None:
    """Change a node in place, in one of its ways."""
    if isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops = [OPERATORS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.USub()
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.If):
        node.test = ast.Constant(bool(change))
    elif isinstance(node, ast.Constant):
        _change_constant(node, change, tree)
    elif isinstance(node, ast.Call):
        _change_call(node, change)
    elif isinstance(node, ast.Attribute):
        node.attr = FUNCTIONS[node.attr]
    elif isinstance(node, ast.Tuple):
        node.elts = node.elts[::-1]


def _change_constant(node: ast.Constant, change: int, tree: ast.AST) -> None:
    if isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node.value, int):
        node.value += 1 if change else -1
    elif isinstance(node.value, float):
        node.value *= 2 if change else 0
    else:  # a key of a dict: another one of the same definition
        keys = sorted({n.value for n in ast.walk(tree) if _is_key(n)})
        node.value = keys[(keys.index(node.value) + 1) % len(keys)] if node.value in keys else "?"


def _is_key(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    )


def _change_call(node: ast.Call, change: int) -> None:
    if change < len(node.keywords):
        del node.keywords[change]
    elif change < len(node.keywords) + len(node.args):
        del node.args[change - len(node.keywords)]
    else:
        node.args[0], node.args[1] = node.args[1], node.args[0]


def _changed_statement(before: ast.AST, after: ast.AST) -> str:
    """The first line that a change made different."""
    old, new = ast.unparse(before).splitlines(), ast.unparse(after).splitlines()
    return next((b.strip() for a, b in zip(old, new, strict=False) if a != b), new[-1].strip())


# --- Running them --------------------------------------------------------------------------------------


def survives(mutant: Mutant) -> bool:
    """Whether no check of the day notices the change."""
    judge = _judge(mutant.day)
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(SECONDS)
    try:
        module = reference_module(mutant.day, {mutant.definition: mutant.source})
        return all(judge.passes(check, judge.see(check, module)) for check in judge.checks)
    except Exception:  # it does not even load, or ran out of time
        return False
    finally:
        signal.alarm(0)


def _out_of_time(*_: object) -> None:
    raise TimeoutError


_judges: dict[Day, Judge] = {}


def _judge(day: Day) -> Judge:
    if day not in _judges:
        _judges[day] = judge = Judge(day)
        for check in judge.checks:  # ahead of the alarm, which is for the mutants
            judge.expected(check)
    return _judges[day]


def run(chosen: list[Mutant]) -> list[Mutant]:
    """The survivors among these mutants."""
    with multiprocessing.get_context("spawn").Pool() as pool:
        alive = pool.map(survives, chosen, chunksize=8)
    return [mutant for mutant, lives in zip(chosen, alive, strict=True) if lives]


def main() -> int:
    """Run all mutants of the days asked for, and report."""
    days = [find_day(asked) for asked in sys.argv[1:]] or [day for day in DAYS if day.ready]
    everything, caught, unexplained = 0, 0, 0
    for day in days:
        chosen = list(mutants(day))
        survivors = run(chosen)
        everything += len(chosen)
        caught += len(chosen) - len(survivors)
        print(f"{day.stem}: {len(chosen) - len(survivors)} of {len(chosen)} mutants rejected")
        for mutant in survivors:
            reason = EQUIVALENT.get((mutant.definition, mutant.statement))
            unexplained += reason is None
            print(f"  survives: {mutant.definition}: {mutant.statement}")
            print(f"            {'equivalent: ' + reason if reason else 'NOT EXPLAINED'}")
    print(f"{caught} of {everything} mutants rejected: {caught / everything:.1%}")
    equivalent = everything - caught - unexplained
    print(f"{equivalent} survivors are equivalent, {unexplained} unexplained")
    return int(caught / (everything - equivalent) < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
