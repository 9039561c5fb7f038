"""Day 39: what goes wrong around a ring: which chunk goes when, who sends too much, what is padding."""

from course.judging.misconceptions import of, on_devices

AROUND = """\
def ring_all_reduce(tensor, group):
    total, traveling = tensor.detach().clone(), tensor.detach()
    for _ in range(group.size - 1):
        group.send(traveling, (group.rank + 1) % group.size)
        traveling = group.receive((group.rank - 1) % group.size)
        total = total + traveling
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
FILLED_AND_SUMMED = """\
def gather(piece, shape, group):
    length = piece.numel()
    whole = piece.new_zeros(length * group.size)
    whole[group.rank * length : (group.rank + 1) * length] = piece
    return ring_all_reduce(whole, group)[: math.prod(shape)].view(shape)
"""
MISCONCEPTIONS = [
    *of(
        "ring_all_reduce",
        {
            "sum_with_history": (
                "Your sum needs a gradient where the tensors do: it keeps their history in memory. Detach what you add up.",
                {"tensor.detach()": "tensor"},
            ),
            "own_numbers_every_round": (
                "You add your own numbers in every round, not those that arrive: your result is your own tensor, times the number of processes. Add what `receive` "
                "returned.",
                AROUND.replace("total + traveling", "total + tensor.detach()"),
            ),
            # --- the ring: too much is sent
            "whole_tensor_around_the_ring": (
                "Your sums are right, but the whole tensor goes around, at once or in pieces: each process sends it n − 1 times, and with more processes more and "
                "more. Cut it into n chunks: of each, a process then sends every chunk but one to have it summed up, and every chunk but one to hand the sums "
                "around.",
                AROUND,
            ),
            "everybody_to_everybody": (
                "Your sums are right, but each process sends its whole tensor to all the others. In a ring it speaks to the next one alone, and sends a chunk at a "
                "time.",
                TO_EVERYBODY,
            ),
            # --- the ring: rounds and chunks
            "second_lap_left_out": (
                "Each of your processes has one chunk summed up, and of the others what came by half done. That is where a reduce-scatter ends; a second time "
                "around hands the finished chunks to all.",
                {"3: size - 1": "0"},
            ),
            "second_lap_adds": (
                "The second time around you still add. What arrives is finished by then: it takes the place of your own numbers.",
                {"3: chunks[...] = _": "arriving = (rank - step) % size\nchunks[arriving] = chunks[arriving] + _"},
            ),
            "one_round_too_many": (
                "Your sums are right, but one of your two laps has n rounds. After n − 1 a chunk has been everywhere: the last message is for nothing, "
                "and a process alone would send it to itself.",
                {"2: size - 1": "size"},
            ),
            "one_round_too_few": (
                "You stop a round early: the last process that a chunk visits never adds its numbers. n processes need n − 1 rounds.",
                {"2: size - 1": "size - 2"},
            ),
            "ring_left_open": (
                "Your ring is a line: the last process has no next one, and the first none before it. After n − 1, counting continues at 0.",
                {"(rank + 1) % size, (rank - 1) % size": "rank + 1, rank - 1"},
            ),
            "receives_before_it_sends": (
                "Your processes wait for messages that none of them sends: a deadlock, as there is where all wait for a message before they send one. First "
                "send, then receive.",
                {
                    "group.send(chunks[(rank - step) % size], after)": "incoming = group.receive(before)",
                    "chunks[arriving] = _ + ...": "chunks[arriving] = _ + incoming\ngroup.send(chunks[(rank - step) % size], after)",
                },
            ),
            "mean_for_sum": (
                "You divide by the number of processes. An all-reduce gives the sum; what it is divided by is up to its caller.",
                {"return _": "return _ / size"},
            ),
            # --- the ring: sizes, shapes, memory, dtypes
            "summed_up_in_the_input": (
                "Your sums are right, but you add to the caller's tensor: chunks of a tensor are views of it, and `+=` writes through them.",
                {"chunks[arriving] = ... + _": "chunks[arriving] += _"},
            ),
            "equal_chunks_only": (
                "Your chunks are the rows of a matrix, so they must all be of one length. Most tensors have a number of elements that the processes do not divide: "
                "let lengths differ by one, or pad.",
                {"_.tensor_split(size)": "_.view(size, -1)"},
            ),
            "left_flat": (
                "The sum comes back flat. Give it the shape that the tensor has.",
                {"_.view(tensor.shape)": "_"},
            ),
            "viewed_flat": (
                "You flatten the tensor by `view`, which refuses one that is not contiguous. `flatten` and `reshape` copy it where they must.",
                {"_.flatten()": "_.view(-1)"},
            ),
        },
    ),
    *of(
        "average_gradients",
        {
            "none_stays_none": (
                "Where a process has no gradient you take part in the sum and keep none. The mean is every process's gradient: there, too.",
                {"parameter.grad = _": "mean = _\nif parameter.grad is not None:\n    parameter.grad = mean"},
            ),
            "parameters_averaged_too": (
                "You average the parameters, too. They stay as they are: the step is the optimizer's.",
                {"parameter.grad = _": "parameter.grad = _\nparameter.data = ring_all_reduce(parameter.data / group.size, group)"},
            ),
            # --- the mean
            "sum_for_mean": (
                "Your gradients are sums over the processes: n times too large, as if the learning rate were. Divide by n.",
                {"gradient / group.size": "gradient"},
            ),
            "divided_by_its_elements": (
                "You divide by the number of elements of the gradient. A mean over processes is divided by the number of processes, whatever the size of the "
                "tensor.",
                {"gradient / group.size": "gradient / gradient.numel()"},
            ),
            "divided_after_the_sum": (
                "You add up, and then divide. In float16 a sum of gradients may overflow whose mean does not: divide before.",
                {"ring_all_reduce(..., group)": "ring_all_reduce(gradient, group) / group.size"},
            ),
            "no_gradient_skipped": (
                "A process leaves out the parameters for which it has no gradient. The others do not: from there on each adds up something else than its "
                "neighbor, or waits for ever. All walk through the same parameters; no gradient counts as zeros.",
                {"gradient = ...": "if parameter.grad is None:\n    continue\ngradient = parameter.grad"},
            ),
            "frozen_ones_too": (
                "You average the gradients of frozen parameters too. An optimizer takes a gradient of zeros for one, and moves what has momentum or decays: leave "
                "alone what does not require a gradient.",
                {"if ...:\n    continue": ""},
            ),
        },
    ),
    *of(
        "shard",
        {
            # --- pieces
            "view_of_the_whole": (
                "Your pieces are right, but they are views of the whole: as long as one of them is there, all of the whole's memory is, and nothing is saved. (`contiguous` "
                "does not help: a slice is contiguous already.)",
                {"_.clone()": "_"},
            ),
            "with_history": (
                "Your piece needs a gradient. If it hangs on the whole by its history, the gradient would flow into the parameter that should be freed, and keep it in memory. Detach it.",
                {"parameter.detach()": "parameter"},
            ),
            "pieces_not_padded": (
                "Your pieces differ in length. All processes keep equally long ones, with zeros at the end: so that one buffer fits all, and no process has to ask for a length.",
                {"return ...": "return flat.tensor_split(group.size)[group.rank].clone()"},
            ),
            "length_rounded_down": (
                "You round the length of a piece down: no process keeps the remainder.",
                {"math.ceil(_ / group.size)": "_ // group.size", "F.pad(flat, ...)": "flat"},
            ),
            "dealt_out_in_turn": (
                "You deal the elements out like cards, one for each process in turn. A piece is a stretch of neighbors.",
                {"return ...": "return padded[group.rank :: group.size].clone()"},
            ),
        },
    ),
    *of(
        "gather",
        {
            "piece_itself_when_alone": (
                "A process alone returns a view of its piece. Code that writes into the whole then changes the piece: return a copy.",
                {"pieces = _": "pieces = _\nif size == 1:\n    return piece.detach()[: math.prod(shape)].view(shape)"},
            ),
            # --- the whole
            "gathered_by_a_sum": (
                "Your whole is right, but you sum up tensors that are zero but for one piece: that goes around twice, where once is enough.",
                FILLED_AND_SUMMED,
            ),
            "one_piece_missing": (
                "You stop a round early: one place still holds your own piece. n − 1 pieces are to come.",
                {"size - 1": "size - 2"},
            ),
            "padding_left_in": (
                "You join the pieces and give them the shape, padding and all. Only as many elements belong to the whole as the shape has.",
                {"_[: math.prod(shape)]": "_"},
            ),
            "whole_left_flat": (
                "The whole comes back flat. Give it its shape.",
                {"_.view(shape)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "average_gradients",
        {
            "missing_gradient_made_on_the_cpu": (
                "In place of a gradient that is missing you put zeros on the CPU. `torch.zeros_like(parameter)` makes them where the parameter is.",
                {"torch.zeros_like(parameter)": "torch.zeros(parameter.shape, dtype=parameter.dtype)"},
            ),
        },
    ),
    *on_devices(
        "shard",
        {
            "padding_made_on_the_cpu": (
                "You pad with zeros that are on the CPU, and the parameter may be on a GPU. `F.pad` and `flat.new_zeros` make them where it is.",
                {"F.pad(flat, (0, _))": "torch.cat([flat, torch.zeros(length * group.size - flat.numel(), dtype=flat.dtype)])"},
            ),
        },
    ),
]
