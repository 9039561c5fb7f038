"""The state multiplied by I − β k kᵀ, as printed; all chunks solved at once, padded, row by row."""

import torch
import torch.nn.functional as F


def prepared(query, key, value, beta, decay, state):
    wide = torch.promote_types(value.dtype, torch.float32)
    if decay is None:
        decay = torch.ones_like(beta)
    given = [x.to(wide) for x in (query, key, value, beta, decay)]
    if state is None:
        state = torch.einsum("...tv,...tk->...vk", given[2][..., :0, :], given[1][..., :0, :])
    return *given, state.to(given[2])


def delta_rule(query, key, value, beta, decay=None, state=None):
    dtype = value.dtype
    query, key, value, beta, decay, state = prepared(query, key, value, beta, decay, state)
    identity, outputs = torch.eye(key.size(-1)).to(key), []
    for q, k, v, b, a in zip(
        *(x.unbind(-2) for x in (query, key, value)), beta.unbind(-1), decay.unbind(-1), strict=True
    ):
        b, a = b[..., None, None], a[..., None, None]
        erase = identity - b * torch.einsum("...i,...j->...ij", k, k)
        state = a * (state @ erase) + b * torch.einsum("...v,...k->...vk", v, k)
        outputs.append(torch.einsum("...vk,...k->...v", state, q))
    output = torch.stack(outputs, dim=-2) if outputs else value
    return output.to(dtype), state


def chunked_delta_rule(query, key, value, beta, decay=None, state=None, chunk=64):
    dtype, t = value.dtype, value.size(-2)
    query, key, value, beta, decay, state = prepared(query, key, value, beta, decay, state)
    chunk = max(1, min(chunk, t))
    missing = -t % chunk
    query, key, value = (
        F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, chunk)) for x in (query, key, value)
    )
    beta = F.pad(beta, (0, missing)).unflatten(-1, (-1, chunk)).unsqueeze(-1)
    decay = F.pad(decay, (0, missing), value=1.0).unflatten(-1, (-1, chunk)).unsqueeze(-1)

    # Row i of `between` is the row before it, decayed once more, with a 1 on the diagonal.
    since, rows = decay.cumprod(dim=-2), []
    for i in range(chunk):
        row = F.one_hot(torch.tensor(i), chunk).to(decay)
        rows.append(row + decay[..., i, :] * rows[-1] if rows else row.expand_as(decay[..., 0]))
    between = torch.stack(rows, dim=-2)

    # Each row of U and of W, minus what the rows before it have written under its key.
    system = (beta * (key @ key.mT) * between).tril(-1)
    wanted = torch.cat([beta * value, beta * since * key], dim=-1)
    solved = []
    for i in range(chunk):
        row = wanted[..., i, :]
        if i:
            row = row - (system[..., i, :i].unsqueeze(-2) @ torch.stack(solved, dim=-2)).squeeze(-2)
        solved.append(row)
    u, w = torch.stack(solved, dim=-2).split([value.size(-1), key.size(-1)], dim=-1)

    inside, outputs = (query @ key.mT) * between, []
    for n in range(value.size(-3)):
        errors = u[..., n, :, :] - w[..., n, :, :] @ state.mT
        start = since[..., n, :, :] * query[..., n, :, :]
        outputs.append(start @ state.mT + inside[..., n, :, :] @ errors)
        left = between[..., n, -1, :].unsqueeze(-1) * key[..., n, :, :]
        state = since[..., n, -1:, :] * state + errors.mT @ left
    output = torch.cat(outputs, dim=-2) if outputs else value.flatten(-3, -2)
    return output[..., :t, :].to(dtype), state
