"""The state as day 34 has it, keys by values, replaced by a mean; the inverse by repeated squaring."""

import torch


def delta_rule(query, key, value, beta, decay=None, state=None):
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    q, k, v, b = query.to(wide), key.to(wide), value.to(wide), beta.to(wide)
    a = None if decay is None else decay.to(wide)
    memory = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=wide, device=v.device)
    if state is not None:
        memory = memory + state.to(memory).transpose(-1, -2)
    output = []
    for t in range(k.shape[-2]):
        if a is not None:
            memory = memory * a[..., t].unsqueeze(-1).unsqueeze(-1)
        share = b[..., t].unsqueeze(-1)
        old = (memory * k[..., t, :, None]).sum(-2)
        new = share * v[..., t, :] + (1 - share) * old
        memory = (
            memory - k[..., t, :, None] * old[..., None, :] + k[..., t, :, None] * new[..., None, :]
        )
        output.append((memory * q[..., t, :, None]).sum(-2, keepdim=True))
    output = torch.cat(output, -2) if output else v
    return output.to(value.dtype), memory.transpose(-1, -2)


def chunked_delta_rule(query, key, value, beta, decay=None, state=None, chunk=64):
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    alpha = torch.ones_like(beta) if decay is None else decay
    given = [query, key, value, beta.unsqueeze(-1), alpha.unsqueeze(-1)]
    shape = *key.shape[:-2], key.shape[-1], value.shape[-1]
    memory = torch.zeros(shape, dtype=wide, device=value.device)
    if state is not None:
        memory = memory + state.to(memory).transpose(-1, -2)
    output = []
    for piece in zip(*(x.to(wide).split(chunk, -2) for x in given), strict=True):
        q, k, v, b, a = piece
        size = k.shape[-2]
        if size == 0:
            output.append(v)
            continue
        place = torch.arange(size, device=k.device)
        later = place[:, None] > place
        between = a.expand(*a.shape[:-1], size).masked_fill(~later, 1).cumprod(-2)
        between = between.masked_fill(place[:, None] < place, 0)
        since = a.cumprod(-2)
        # (I − L)⁻¹ = (I + L)(I + L²)(I + L⁴)…, since L to the power of the size is 0.
        power = -(b * (k @ k.transpose(-1, -2)) * between).masked_fill(~later, 0)
        errors, reach = b * (v - since * (k @ memory)), 1
        while reach < size:
            errors, power, reach = errors + power @ errors, power @ power, 2 * reach
        seen = (q @ k.transpose(-1, -2)) * between
        output.append(since * (q @ memory) + seen @ errors)
        left = k * between[..., -1, :].unsqueeze(-1)
        memory = since[..., -1:, :] * memory + left.transpose(-1, -2) @ errors
    return torch.cat(output, -2).to(value.dtype), memory.transpose(-1, -2)
