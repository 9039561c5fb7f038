"""Day 39: what goes wrong around a ring: which chunk goes when, who sends too much, what is padding."""

from course.judging.misconceptions import Misconception

RING, AVERAGE, SHARD, GATHER = "ring_all_reduce", "average_gradients", "shard", "gather"

# What edits find in the ring.
NEIGHBOURS = "after, before = (rank + 1) % size, (rank - 1) % size"
CUT = "list(tensor.detach().flatten().tensor_split(size))"
PASS = "group.send(chunks[(rank - step) % size], after)"
ARRIVING = "arriving = (rank - step - 1) % size"
ADD = "chunks[arriving] = chunks[arriving] + group.receive(before)"
PASS_SUM = "group.send(chunks[(rank + 1 - step) % size], after)"
TAKE = "chunks[(rank - step) % size] = group.receive(before)"
FIRST_LAP = f"""\
    for step in range(size - 1):
        {PASS}"""
SECOND_LAP = f"""\
    for step in range(size - 1):
        {PASS_SUM}"""
JOIN = "return torch.cat(chunks).view(tensor.shape)"

# What edits find in the mean.
FROZEN = """\
        if not parameter.requires_grad:
            continue
"""
NONE = "gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad"
MEAN = "parameter.grad = ring_all_reduce(gradient / group.size, group)"

# What edits find in pieces.
FLAT = "flat = parameter.detach().flatten()"
LENGTH = "length = math.ceil(flat.numel() / group.size)"
PAD = "padded = F.pad(flat, (0, length * group.size - flat.numel()))"
PIECE = "return padded[group.rank * length : (group.rank + 1) * length].clone()"

# What edits find in the whole.
SEND_PIECE = "group.send(pieces[(rank - step) % size], (rank + 1) % size)"
RECEIVE_PIECE = "pieces[(rank - step - 1) % size] = group.receive((rank - 1) % size)"
WHOLE = "return torch.cat(pieces)[: math.prod(shape)].view(shape)"

AROUND = """\
def ring_all_reduce(tensor, group):
    total, travelling = tensor.detach().clone(), tensor.detach()
    for _ in range(group.size - 1):
        group.send(travelling, (group.rank + 1) % group.size)
        travelling = group.receive((group.rank - 1) % group.size)
        total = total + travelling
    return total
"""

TO_EVERYBODY = """\
def ring_all_reduce(tensor, group):
    others = [other for other in range(group.size) if other != group.rank]
    for other in others:
        group.send(tensor, other)
    total = tensor.detach().clone()
    for other in others:
        total = total + group.receive(other)
    return total
"""

THROUGH_THE_FIRST = """\
def ring_all_reduce(tensor, group):
    total = tensor.detach().clone()
    if group.rank == 0:
        for other in range(1, group.size):
            total = total + group.receive(other)
        for other in range(1, group.size):
            group.send(total, other)
        return total
    group.send(total, 0)
    return group.receive(0)
"""

ALONG_A_LINE = """\
def ring_all_reduce(tensor, group):
    total, last = tensor.detach().clone(), group.size - 1
    if group.rank > 0:
        total = total + group.receive(group.rank - 1)
    if group.rank < last:
        group.send(total, group.rank + 1)
        total = group.receive(group.rank + 1)
    if group.rank > 0:
        group.send(total, group.rank - 1)
    return total
"""

CHUNKS_TO_THEIR_OWNERS = """\
def ring_all_reduce(tensor, group):
    chunks = list(tensor.detach().flatten().tensor_split(group.size))
    others = [other for other in range(group.size) if other != group.rank]
    for other in others:
        group.send(chunks[other], other)
    mine = chunks[group.rank]
    for other in others:
        mine = mine + group.receive(other)
    for other in others:
        group.send(mine, other)
    chunks[group.rank] = mine
    for other in others:
        chunks[other] = group.receive(other)
    return torch.cat(chunks).view(tensor.shape)
"""

MEAN_OF_THOSE_THAT_HAVE_ONE = """\
def average_gradients(model, group):
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        have = torch.ones(()).to(parameter.device)
        gradient = parameter.grad
        if gradient is None:
            have, gradient = have * 0, torch.zeros_like(parameter)
        count = int(ring_all_reduce(have, group))
        parameter.grad = ring_all_reduce(gradient / max(1, count), group)
"""

FILLED_AND_SUMMED = """\
def gather(piece, shape, group):
    length = piece.numel()
    whole = piece.new_zeros(length * group.size)
    whole[group.rank * length : (group.rank + 1) * length] = piece
    return ring_all_reduce(whole, group)[: math.prod(shape)].view(shape)
"""

TO_ALL_AT_ONCE = """\
def gather(piece, shape, group):
    pieces = [piece.detach()] * group.size
    others = [other for other in range(group.size) if other != group.rank]
    for other in others:
        group.send(piece, other)
    for other in others:
        pieces[other] = group.receive(other)
    return torch.cat(pieces)[: math.prod(shape)].view(shape)
"""

MISCONCEPTIONS = [
    # --- the ring: too much is sent
    Misconception(
        "whole_tensor_around_the_ring",
        RING,
        "Your sums are right, but the whole tensor goes around, at once or in pieces: each process sends it n − 1 times, and with more processes more and more. Cut it into n chunks: of "
        "each, a process then sends every chunk but one to have it summed up, and every chunk but one to hand the sums around.",
        source=AROUND,
    ),
    Misconception(
        "everybody_to_everybody",
        RING,
        "Your sums are right, but each process sends its whole tensor to all the others. In a ring it speaks to the next one alone, and sends a chunk at a time.",
        source=TO_EVERYBODY,
    ),
    Misconception(
        "through_the_first",
        RING,
        "Your sums are right, but they all pass through process 0, which sends n − 1 whole tensors while the others wait. In a ring all have the same share of the work.",
        source=THROUGH_THE_FIRST,
    ),
    Misconception(
        "along_a_line",
        RING,
        "You add up along a line and send the sum back along it: whole tensors, and while one process sends, all others wait. In a ring of chunks all send at the same time.",
        source=ALONG_A_LINE,
    ),
    Misconception(
        "chunks_straight_to_their_owners",
        RING,
        "You send each chunk straight to the process that sums it up, and the sum straight to all. It is no more than a ring sends, but it needs a line between any two "
        "processes. In a ring a chunk is passed on from neighbour to neighbour, and grows on the way.",
        source=CHUNKS_TO_THEIR_OWNERS,
    ),
    # --- the ring: rounds and chunks
    Misconception(
        "second_lap_left_out",
        RING,
        "Each of your processes has one chunk summed up, and of the others what came by half done. That is where a reduce-scatter ends; a second time around hands the finished chunks to all.",
        {
            SECOND_LAP: SECOND_LAP.replace("range(size - 1)", "range(0)"),
        },
    ),
    Misconception(
        "second_lap_adds",
        RING,
        "The second time around you still add. What arrives is finished by then: it takes the place of your own numbers.",
        {TAKE: f"arriving = (rank - step) % size\n        {ADD}"},
    ),
    Misconception(
        "second_lap_begins_with_the_first_chunk",
        RING,
        "The second time around you begin with chunk r again. It is the chunk r + 1 that was summed up in process r: the last one that arrived.",
        {
            PASS_SUM: PASS,
            TAKE: TAKE.replace("(rank - step)", "(rank - step - 1)"),
        },
    ),
    Misconception(
        "own_chunk_every_round",
        RING,
        "In every round you send the same chunk. Pass on the one that came last, with your own numbers added: only so does a chunk visit all processes.",
        {PASS: PASS.replace("(rank - step) % size", "rank")},
    ),
    Misconception(
        "added_to_the_chunk_that_was_sent",
        RING,
        "What arrives is added to the chunk that you have just sent. The process before you sent another one, by one further back: chunk r − step − 1.",
        {ARRIVING: ARRIVING.replace(" - 1)", ")")},
    ),
    Misconception(
        "one_round_too_many",
        RING,
        "Your sums are right, but in one of the two laps you go on for n rounds. After n − 1 a chunk has been everywhere: the last message is for nothing, and a process alone would send it to itself.",
        {FIRST_LAP: FIRST_LAP.replace("size - 1)", "size)")},
    ),
    Misconception(
        "one_round_too_few",
        RING,
        "You stop a round early: the last process that a chunk visits never adds its numbers. n processes need n − 1 rounds.",
        {
            FIRST_LAP: FIRST_LAP.replace("size - 1)", "size - 2)"),
        },
    ),
    Misconception(
        "the_other_way_round",
        RING,
        "You send to the process before you, and count the chunks as if you sent to the next. Both directions make a ring, but the chunk that arrives comes from the other side then.",
        {NEIGHBOURS: "after, before = (rank - 1) % size, (rank + 1) % size"},
    ),
    Misconception(
        "ring_left_open",
        RING,
        "Your ring is a line: the last process has no next one, and the first none before it. Counting goes on at 0 after n − 1.",
        {NEIGHBOURS: "after, before = rank + 1, rank - 1"},
    ),
    Misconception(
        "receives_before_it_sends",
        RING,
        "All your processes wait for a message before they send one, so nobody ever sends: a deadlock. First send, then receive.",
        {
            PASS: "incoming = group.receive(before)",
            ADD: "chunks[arriving] = chunks[arriving] + incoming\n        "
            "group.send(chunks[(rank - step) % size], after)",
        },
    ),
    Misconception(
        "chunks_in_order_of_arrival",
        RING,
        "Every chunk is summed up, and then you join them as they came in, from the chunk that was complete here downwards. Each process has them in another order so. Chunk i belongs at place i.",
        {
            JOIN: "chunks = [chunks[(rank + 1 - step) % size] for step in range(size)]\n    "
            + JOIN,
        },
    ),
    Misconception(
        "mean_for_sum",
        RING,
        "You divide by the number of processes. An all-reduce gives the sum; what it is divided by is up to its caller.",
        {JOIN: "return torch.cat(chunks).view(tensor.shape) / size"},
    ),
    # --- the ring: sizes, shapes, memory, dtypes
    Misconception(
        "summed_up_in_the_input",
        RING,
        "Your sums are right, but you add to the caller's tensor: chunks of a tensor are views of it, and `+=` writes through them.",
        {ADD: "chunks[arriving] += group.receive(before)"},
    ),
    Misconception(
        "equal_chunks_only",
        RING,
        "Your chunks are the rows of a matrix, so they must all be of one length. Most tensors have a number of elements that the processes do not divide: let lengths differ by one, or pad.",
        {CUT: "list(tensor.detach().flatten().view(size, -1))"},
    ),
    Misconception(
        "rest_dropped",
        RING,
        "You round the length of a chunk down, so what the division leaves over is never sent, and every process keeps its own numbers there.",
        {
            CUT: "list(tensor.detach().flatten()[: tensor.numel() // size * size].tensor_split(size))",
            JOIN: "chunks.append(tensor.detach().flatten()[tensor.numel() // size * size :])\n    "
            + JOIN,
        },
    ),
    Misconception(
        "chunk_gives_fewer",
        RING,
        "`chunk` may give fewer chunks than were asked for: 5 elements for 4 processes become 2, 2 and 1. There must be one for each process, an empty one if need be, as `tensor_split` has it.",
        {CUT: "list(tensor.detach().flatten().chunk(size))"},
    ),
    Misconception(
        "left_flat",
        RING,
        "The sum comes back flat. Give it the shape that the tensor has.",
        {JOIN: "return torch.cat(chunks)"},
    ),
    Misconception(
        "viewed_flat",
        RING,
        "You lay the tensor out flat by `view`, which refuses one that lies in memory by columns. `flatten` and `reshape` copy it where they must.",
        {CUT: "list(tensor.detach().view(-1).tensor_split(size))"},
    ),
    Misconception(
        "columns_of_memory",
        RING,
        "You read a tensor that lies in memory by columns in the order of memory, and give the result a shape in the order of rows. `flatten` reads in the order of the axes.",
        {CUT: "list(tensor.detach().as_strided((tensor.numel(),), (1,)).tensor_split(size))"},
    ),
    Misconception(
        "summed_in_float32",
        RING,
        "You add up in float32, and that is what comes back. The sum has the tensors' dtype, whole numbers too.",
        {CUT: "list(tensor.detach().float().flatten().tensor_split(size))"},
    ),
    # --- the mean
    Misconception(
        "sum_for_mean",
        AVERAGE,
        "Your gradients are sums over the processes: n times too large, as if the learning rate were. Divide by n.",
        {MEAN: "parameter.grad = ring_all_reduce(gradient, group)"},
    ),
    Misconception(
        "divided_after_the_sum",
        AVERAGE,
        "You add up, and then divide. In float16 a sum of gradients may overflow whose mean does not: divide before.",
        {MEAN: "parameter.grad = ring_all_reduce(gradient, group) / group.size"},
    ),
    Misconception(
        "divided_twice",
        AVERAGE,
        "You divide by n before the sum and after it. Once is enough.",
        {MEAN: f"{MEAN} / group.size"},
    ),
    Misconception(
        "mean_thrown_away",
        AVERAGE,
        "The gradients are what they were. The mean has to be written into `.grad`: a sum over the processes is returned, and changes nothing that went in. (If you have averaged the parameters: those are the same in all processes already.)",
        {MEAN: "ring_all_reduce(gradient / group.size, group)"},
    ),
    Misconception(
        "no_gradient_skipped",
        AVERAGE,
        "A process leaves out the parameters for which it has no gradient. The others do not: from there on each adds up something else than its neighbour, or waits for ever. "
        "All walk through the same parameters; no gradient counts as zeros.",
        {
            NONE: "if parameter.grad is None:\n            continue\n        gradient = parameter.grad"
        },
    ),
    Misconception(
        "no_gradient_counts_for_nobody",
        AVERAGE,
        "You divide by the number of processes that have a gradient. The loss of the others counts as well, and does not depend on that parameter: their gradient is zero, and divided by n.",
        source=MEAN_OF_THOSE_THAT_HAVE_ONE,
    ),
    Misconception(
        "frozen_ones_too",
        AVERAGE,
        "You average the gradients of frozen parameters too. An optimiser takes a gradient of zeros for one, and moves what has momentum or decays: leave alone what does not require a gradient.",
        {FROZEN: ""},
    ),
    Misconception(
        "frozen_ones_cleared",
        AVERAGE,
        "You clear the gradients of frozen parameters. They are left as they are, with whatever gradient they have.",
        {FROZEN: FROZEN.replace("continue", "parameter.grad = None\n            continue")},
    ),
    Misconception(
        "matrices_only",
        AVERAGE,
        "Biases, and whatever else is no matrix, keep their own process's gradients: the processes drift apart there.",
        {
            "if not parameter.requires_grad:": "if not parameter.requires_grad or parameter.dim() < 2:"
        },
    ),
    # --- pieces
    Misconception(
        "view_of_the_whole",
        SHARD,
        "Your pieces are right, and views of the whole: as long as one of them is there, all of the whole's memory is, and nothing is saved. (`contiguous` does not help: a slice is contiguous already.)",
        {PIECE: PIECE.replace(".clone()", "")},
    ),
    Misconception(
        "with_history",
        SHARD,
        "Your piece still hangs on the whole by its history: it needs a gradient, which would flow into the parameter that is to be let go of.",
        {FLAT: "flat = parameter.flatten()"},
    ),
    Misconception(
        "pieces_not_padded",
        SHARD,
        "Your pieces differ in length. All processes keep equally long ones, with zeros at the end: so that one buffer fits all, and nobody has to ask for a length.",
        {PIECE: "return flat.tensor_split(group.size)[group.rank].clone()"},
    ),
    Misconception(
        "last_piece_shorter",
        SHARD,
        "Your last piece is shorter than the others, or empty. Fill it up with zeros.",
        {PAD: "padded = flat"},
    ),
    Misconception(
        "padded_in_front",
        SHARD,
        "Your zeros stand before the elements. They fill up the end.",
        {
            PAD: PAD.replace(
                "(0, length * group.size - flat.numel())", "(length * group.size - flat.numel(), 0)"
            )
        },
    ),
    Misconception(
        "each_piece_padded",
        SHARD,
        "You cut pieces whose lengths differ by one, and pad each of them. The zeros stand after all the elements: the flat parameter is padded, and then cut.",
        {
            PIECE: "piece = flat.tensor_split(group.size)[group.rank]\n    return F.pad(piece, (0, length - len(piece))).clone()"
        },
    ),
    Misconception(
        "length_rounded_down",
        SHARD,
        "You round the length of a piece down: what the division leaves over is kept by nobody.",
        {LENGTH: "length = flat.numel() // group.size", PAD: "padded = flat"},
    ),
    Misconception(
        "always_one_more",
        SHARD,
        "Your pieces are one element longer than they need to be where the processes divide the number of elements.",
        {LENGTH: "length = flat.numel() // group.size + 1"},
    ),
    Misconception(
        "dealt_out_in_turn",
        SHARD,
        "You deal the elements out like cards, one for each process in turn. A piece is a stretch of neighbours.",
        {PIECE: "return padded[group.rank :: group.size].clone()"},
    ),
    Misconception(
        "flattened_by_columns",
        SHARD,
        "You read the parameter in the order in which it lies in memory. The order is that of `flatten`, whatever the layout.",
        {FLAT: "flat = parameter.detach().as_strided((parameter.numel(),), (1,))"},
    ),
    Misconception(
        "viewed_as_flat",
        SHARD,
        "You lay the parameter out flat by `view`, which refuses one that lies in memory by columns.",
        {FLAT: "flat = parameter.detach().view(-1)"},
    ),
    Misconception(
        "pieces_in_float32",
        SHARD,
        "Your pieces are float32 whatever the parameter is. They have its dtype.",
        {FLAT: "flat = parameter.detach().flatten().float()"},
    ),
    # --- the whole
    Misconception(
        "in_order_of_arrival",
        GATHER,
        "You join the pieces as they come: your own, then that of the process before you, and so on. Each process then has the whole in another order. Piece s belongs at place s.",
        {
            RECEIVE_PIECE: "pieces[step + 1] = group.receive((rank - 1) % size)",
            SEND_PIECE: SEND_PIECE.replace("(rank - step) % size", "step"),
        },
    ),
    Misconception(
        "own_piece_sent_every_round",
        GATHER,
        "In every round you send your own piece, so your neighbour gets it again and again, and nobody else ever does. Pass on what came last.",
        {SEND_PIECE: SEND_PIECE.replace("(rank - step) % size", "rank")},
    ),
    Misconception(
        "counted_forwards",
        GATHER,
        "You put what arrives one place further on in each round. It comes from the process before you, then from the one before that: places count down.",
        {
            RECEIVE_PIECE: RECEIVE_PIECE.replace("(rank - step - 1)", "(rank + step + 1)"),
            SEND_PIECE: SEND_PIECE.replace("(rank - step)", "(rank + step)"),
        },
    ),
    Misconception(
        "gathered_by_a_sum",
        GATHER,
        "Your whole is right, but you sum up tensors that are zero but for one piece: that goes around twice, where once is enough.",
        source=FILLED_AND_SUMMED,
    ),
    Misconception(
        "piece_to_all_at_once",
        GATHER,
        "You send your piece straight to every process. In a ring a process speaks to its neighbour alone, which passes the piece on.",
        source=TO_ALL_AT_ONCE,
    ),
    Misconception(
        "waits_before_it_sends",
        GATHER,
        "All your processes wait for a piece before they send one, so nobody ever sends: a deadlock. First send, then receive.",
        {
            SEND_PIECE: "incoming = group.receive((rank - 1) % size)",
            RECEIVE_PIECE: "pieces[(rank - step - 1) % size] = incoming\n        "
            "group.send(pieces[(rank - step) % size], (rank + 1) % size)",
        },
    ),
    Misconception(
        "one_piece_missing",
        GATHER,
        "You stop a round early: one place still holds your own piece. n − 1 pieces are to come.",
        {"for step in range(size - 1):": "for step in range(size - 2):"},
    ),
    Misconception(
        "padding_left_in",
        GATHER,
        "You join the pieces and give them the shape, padding and all. Only as many elements belong to the whole as the shape has.",
        {WHOLE: "return torch.cat(pieces).view(shape)"},
    ),
    Misconception(
        "padding_cut_from_each",
        GATHER,
        "You shorten every piece. Padding stands only at the end, after the elements of all.",
        {
            WHOLE: "each = math.prod(shape) // size\n    rest = math.prod(shape) - each * size\n    "
            "return torch.cat([one[: each + (i < rest)] for i, one in enumerate(pieces)]).view(shape)"
        },
    ),
    Misconception(
        "front_cut_off",
        GATHER,
        "You cut off the beginning, and keep the padding. It stands at the end.",
        {WHOLE: "return torch.cat(pieces)[len(piece) * size - math.prod(shape) :].view(shape)"},
    ),
    Misconception(
        "dealt_back_in_turn",
        GATHER,
        "You take one element of each piece in turn. A piece is a stretch of neighbours: put them side by side.",
        {WHOLE: "return torch.stack(pieces, 1).flatten()[: math.prod(shape)].view(shape)"},
    ),
    Misconception(
        "whole_left_flat",
        GATHER,
        "The whole comes back flat. Give it its shape.",
        {WHOLE: "return torch.cat(pieces)[: math.prod(shape)]"},
    ),
    Misconception(
        "shape_unpacked",
        GATHER,
        "`view(*shape)` fails for a scalar: its shape is `()`, and `view` without an argument is an error. Hand over the shape as it is.",
        {WHOLE: "return torch.cat(pieces)[: math.prod(shape)].view(*shape)"},
    ),
    Misconception(
        "whole_in_float32",
        GATHER,
        "The whole is float32 whatever the pieces are. It has their dtype.",
        {WHOLE: "return torch.cat(pieces)[: math.prod(shape)].view(shape).float()"},
    ),
]
