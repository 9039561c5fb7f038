"""Day 39: what goes wrong around a ring: which chunk goes when, who sends too much, what is padding."""

from course.judging.misconceptions import of, on_devices

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
                "Your sum requires grad if the tensors do, so it keeps their computation graphs in memory. Detach the tensors before you add them.",
                {"tensor.detach()": "tensor"},
            ),
            "own_numbers_every_round": (
                "You add your own numbers in every round, not those that arrive, so your result is your own tensor times the number of processes. Add what "
                "`receive` returned.",
                AROUND.replace("total + travelling", "total + tensor.detach()"),
            ),
            # --- the ring: too much is sent
            "whole_tensor_around_the_ring": (
                "Your sums are right, but the whole tensor travels around the ring: each process sends it n − 1 times, more and more as n grows. Divide the "
                "tensor into n chunks. Each process then sends n − 1 chunks while they are summed, and n − 1 chunks to distribute the sums.",
                AROUND,
            ),
            "everybody_to_everybody": (
                "Your sums are right, but each process sends its whole tensor to all others. In a ring, each process sends only to the next process, one "
                "chunk at a time.",
                TO_EVERYBODY,
            ),
            # --- the ring: rounds and chunks
            "second_lap_left_out": (
                "Each of your processes has one complete chunk, and only partial sums of the others. That is where a reduce-scatter ends; a second phase must "
                "pass the complete chunks to all processes.",
                {"3: size - 1": "0"},
            ),
            "second_lap_adds": (
                "In the second phase you still add. The chunks that arrive are already complete: they should replace your own.",
                {"3: chunks[...] = _": "arriving = (rank - step) % size\nchunks[arriving] = chunks[arriving] + _"},
            ),
            "one_round_too_many": (
                "Your sums are right, but one of your two phases has n rounds. After n − 1 rounds, a chunk has visited every process. The last message is "
                "useless, and a single process would send it to itself.",
                {"2: size - 1": "size"},
            ),
            "one_round_too_few": (
                "You stop one round too early: the last process that a chunk visits never adds its numbers. n processes need n − 1 rounds.",
                {"2: size - 1": "size - 2"},
            ),
            "ring_left_open": (
                "Your ring is a line: the last process has no next process, and the first has no previous process. After process n − 1, the next is process 0.",
                {"(rank + 1) % size, (rank - 1) % size": "rank + 1, rank - 1"},
            ),
            "receives_before_it_sends": (
                "All your processes wait for messages that none of them sends. This is a deadlock, which occurs if every process waits for a message before "
                "it sends. Send first, then receive.",
                {
                    "group.send(chunks[(rank - step) % size], after)": "incoming = group.receive(before)",
                    "chunks[arriving] = _ + ...": "chunks[arriving] = _ + incoming\ngroup.send(chunks[(rank - step) % size], after)",
                },
            ),
            "mean_for_sum": (
                "You divide by the number of processes. An all-reduce returns the sum; the caller can divide it.",
                {"return _": "return _ / size"},
            ),
            # --- the ring: sizes, shapes, memory, dtypes
            "summed_up_in_the_input": (
                "Your sums are right, but you add to the caller's tensor: chunks of a tensor are views, and `+=` writes through them.",
                {"chunks[arriving] = ... + _": "chunks[arriving] += _"},
            ),
            "equal_chunks_only": (
                "Your chunks are the rows of a matrix, so all of them must have the same length. Usually the number of elements is not a multiple of the "
                "number of processes: let the lengths differ by one, or pad.",
                {"_.tensor_split(size)": "_.view(size, -1)"},
            ),
            "left_flat": (
                "Your sum has only one axis. Give it the shape of the tensor.",
                {"_.view(tensor.shape)": "_"},
            ),
            "viewed_flat": (
                "You flatten the tensor with `view`, which raises an error for a transposed tensor, because its memory is not contiguous. `flatten` and `reshape` copy where necessary.",
                {"_.flatten()": "_.view(-1)"},
            ),
        },
    ),
    *of(
        "average_gradients",
        {
            "none_stays_none": (
                "If a process has no gradient, it takes part in your sum, but does not store the result. Every process should have the mean as its gradient, "
                "including this one.",
                {"parameter.grad = _": "mean = _\nif parameter.grad is not None:\n    parameter.grad = mean"},
            ),
            "parameters_averaged_too": (
                "You average the parameters, too. Leave them unchanged: only the optimizer changes parameters.",
                {"parameter.grad = _": "parameter.grad = _\nparameter.data = ring_all_reduce(parameter.data / group.size, group)"},
            ),
            # --- the mean
            "sum_for_mean": (
                "Your gradients are sums over the n processes, so they are n times too large, which acts like a learning rate n times as large. Divide by n.",
                {"gradient / group.size": "gradient"},
            ),
            "divided_by_its_elements": (
                "You divide by the number of elements of the gradient. For a mean over processes, divide by the number of processes, whatever the size of the "
                "tensor.",
                {"gradient / group.size": "gradient / gradient.numel()"},
            ),
            "divided_after_the_sum": (
                "You add up the gradients first and then divide. In float16 the sum of the gradients can overflow even though their mean fits. Divide before "
                "you add.",
                {"ring_all_reduce(..., group)": "ring_all_reduce(gradient, group) / group.size"},
            ),
            "no_gradient_skipped": (
                "Your processes skip parameters for which they have no gradient, but other processes do not skip them. From there on, neighbors add up "
                "different parameters, or wait forever. All processes must go through the same parameters; a missing gradient counts as zeros.",
                {"gradient = ...": "if parameter.grad is None:\n    continue\ngradient = parameter.grad"},
            ),
            "frozen_ones_too": (
                "You average the gradients of frozen parameters, too. An optimizer with momentum or weight decay changes a parameter even if its gradient is "
                "zero. Skip parameters that do not require grad.",
                {"if ...:\n    continue": ""},
            ),
        },
    ),
    *of(
        "shard",
        {
            # --- pieces
            "view_of_the_whole": (
                "Your pieces are right, but they are views of the whole tensor: as long as a piece exists, the memory of the whole tensor stays in use, and "
                "you save nothing. (`contiguous` does not help, because a slice is already contiguous.)",
                {"_.clone()": "_"},
            ),
            "with_history": (
                "Your piece requires grad. If it is connected to the whole parameter by its computation graph, this graph keeps the parameter in memory, "
                "although it should be freed. Detach the piece.",
                {"parameter.detach()": "parameter"},
            ),
            "pieces_not_padded": (
                "Your pieces differ in length. All processes should have pieces of the same length, padded with zeros at the end, so that one buffer fits all "
                "and no process has to ask for a length.",
                {"return ...": "return flat.tensor_split(group.size)[group.rank].clone()"},
            ),
            "length_rounded_down": (
                "You round the length of a piece down, so no process stores the remainder.",
                {"math.ceil(_ / group.size)": "_ // group.size", "F.pad(flat, ...)": "flat"},
            ),
            "dealt_out_in_turn": (
                "You assign the elements to the processes in turn, one at a time. A piece should consist of consecutive elements.",
                {"return ...": "return padded[group.rank :: group.size].clone()"},
            ),
        },
    ),
    *of(
        "gather",
        {
            "piece_itself_when_alone": (
                "A single process returns a view of its piece. Code that writes into the gathered tensor would then change the piece. Return a copy.",
                {"pieces = _": "pieces = _\nif size == 1:\n    return piece.detach()[: math.prod(shape)].view(shape)"},
            ),
            # --- the whole
            "gathered_by_a_sum": (
                "Your gathered tensor is right, but you sum up tensors that are zero except for one piece. The data then travels around the ring twice, but "
                "once is enough.",
                FILLED_AND_SUMMED,
            ),
            "one_piece_missing": (
                "You stop one round too early: one place still holds your own piece. n − 1 pieces must arrive.",
                {"size - 1": "size - 2"},
            ),
            "padding_left_in": (
                "You concatenate the pieces and apply the shape without removing the padding. Keep only as many elements as the shape has.",
                {"_[: math.prod(shape)]": "_"},
            ),
            "whole_left_flat": (
                "Your gathered tensor has only one axis. Give it the shape of the parameter.",
                {"_.view(shape)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "average_gradients",
        {
            "missing_gradient_made_on_the_cpu": (
                "You replace a missing gradient by zeros on the CPU. `torch.zeros_like(parameter)` creates them on the device of the parameter.",
                {"torch.zeros_like(parameter)": "torch.zeros(parameter.shape, dtype=parameter.dtype)"},
            ),
        },
    ),
    *on_devices(
        "shard",
        {
            "padding_made_on_the_cpu": (
                "You pad with zeros that are on the CPU, but the parameter can be on a GPU. `F.pad` and `flat.new_zeros` create them on its device.",
                {"F.pad(flat, (0, _))": "torch.cat([flat, torch.zeros(length * group.size - flat.numel(), dtype=flat.dtype)])"},
            ),
        },
    ),
]
