"""Pages of zeros for all places at once; the decoder always reads whole pages. Scores are costs, and a place
that has ended costs infinitely much to go on. All that ever ended is kept until the winner is picked."""

import torch
from torch import inf


@torch.no_grad()
def beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6):
    rows, device = src.shape[0], src.device
    page = torch.zeros(rows, beam, max_len, dtype=torch.long, device=device)
    page[..., 0] = start
    if max_len == 1:
        return page[:, 0]
    owner = torch.arange(rows, device=device).repeat_interleave(beam)
    memory, mask = model.encode(src, src_mask)[owner], src_mask[owner]
    place = torch.arange(max_len, device=device)
    sees = (place <= place.unsqueeze(1)).unsqueeze(0)
    cost = torch.tensor([0.0] + [inf] * (beam - 1), dtype=torch.float64).to(device)
    cost = cost.repeat(rows, 1)
    pages, worths = [], []
    for column in range(1, max_len):
        states = model.decode(memory, mask, page.view(-1, max_len), sees)
        log_probs = model.generator(states[:, column - 1])
        total = cost.unsqueeze(2) - log_probs.view(rows, beam, -1).double()
        cost, flat = total.view(rows, -1).topk(beam, largest=False)
        parent, token = divmod(flat.cpu().numpy(), log_probs.shape[1])
        parent = torch.from_numpy(parent).to(device)
        page = torch.take_along_dim(page, parent.unsqueeze(2), dim=1)
        page[:, :, column] = torch.from_numpy(token).to(device)
        over = page[:, :, column] == end
        if column == max_len - 1:
            over[:] = True
        length = ((5 + column) / 6) ** alpha
        pages.append(page.clone())
        worths.append(torch.where(over, -cost / length, -inf))
        cost = torch.where(over, inf, cost)
    worths = torch.cat(worths, dim=1)
    winner = worths.max(dim=1).indices.view(rows, 1, 1)
    chosen = torch.cat(pages, dim=1).take_along_dim(winner, dim=1).squeeze(1)
    column = winner.flatten() // beam + 1
    return chosen[:, : int(column.max()) + 1]
