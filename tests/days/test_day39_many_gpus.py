"""Day 39 · ring_all_reduce, average_gradients, shard, gather."""

import math

import pytest
import torch

from course.checks.authoring import DTYPES, backward, gradients, named_parameters, wanting_gradients
from implementation import PositionwiseFeedForward
from variants.parallelism import simulate

EDGES = "a scalar, an empty tensor and a process alone are the ends of every loop"
HISTORY = "what hangs on the history of a tensor keeps all of that in memory"
PARAMETER = "in published code the piece is itself a parameter"
OWN = "whoever gets a result may write into it"
LAYOUT = "a transposed tensor does not lie in memory as it is read"
SAME = "this is 0 whatever goes in"
PADDING = "nothing is left for it but zeros"


def edges(*shapes):
    """Shapes that are watertight."""
    return [pytest.param(shape, marks=pytest.mark.watertight(EDGES)) for shape in shapes]


def summands(draw, size, *shape, **how):
    """A tensor for each process."""
    return [draw.normal(*shape, **how) for _ in range(size)]


def uneven(draw, size):
    """A shape of which `size` processes leave over more than nothing, and less than all but one."""
    while True:
        shape = tuple(draw.sizes(2, 7, 2))
        if 0 < math.prod(shape) % size < size - 1:
            return shape


def cut(draw, size, numbers, **how):
    """The pieces of a tensor of so many elements, one for each process; where zeros would stand at the
    end there are numbers that must not come through."""
    return [draw.normal(math.ceil(numbers / size), **how) for _ in range(size)]


def all_reduced(ring_all_reduce, tensors):
    """What each process gets, and how many numbers it sent, by destination."""

    def work(group):
        result = ring_all_reduce(tensors[group.rank], group)
        return result, [count // tensors[0].element_size() for count in group.sent]

    return simulate(len(tensors), work)


def gathered(gather, pieces, shape):
    """What each process gets, and how many numbers it sent, by destination."""

    def work(group):
        gathered_tensor = gather(pieces[group.rank], shape, group)
        return gathered_tensor, [count // pieces[0].element_size() for count in group.sent]

    return simulate(len(pieces), work)


def results(seen):
    """What each process got, by the process."""
    return {f"result of process {rank}": result for rank, (result, _) in enumerate(seen)}


def beyond(seen, share):
    """How many numbers too many the busiest process sent."""
    return max(0, *(sum(sent) - share for _, sent in seen))


def elsewhere(seen):
    """How many numbers were sent to processes that are no neighbors."""
    size = len(seen)
    return sum(
        count
        for rank, (_, sent) in enumerate(seen)
        for to, count in enumerate(sent)
        if (to - rank) % size not in (1, size - 1)
    )


def pieces_of(shard, parameter, size):
    """Each process's piece, by the process."""
    pieces = simulate(size, lambda group: shard(parameter, group))
    return {f"piece of process {rank}": piece for rank, piece in enumerate(pieces)}


def averaged(average_gradients, models):
    """The gradients of each process's model, after they were averaged."""
    simulate(len(models), lambda group: average_gradients(models[group.rank], group))
    return {f"process {rank}": gradients(model) for rank, model in enumerate(models)}


def replicas(build, batches, **how):
    """The same model in each process, after backward on that process's batch."""
    size = next(iter(batches)).size(-1)
    models = [build(PositionwiseFeedForward, size, size + 2, 0.0, **how) for _ in batches]
    for model, x in zip(models, batches, strict=True):
        backward(model(x))
    return models


# --- Inputs: ring_all_reduce ----------------------------------------------------------------------


@pytest.fixture
def two(draw):
    """Two processes, and an even number of elements."""
    return summands(draw, 2, 2 * draw.size(2, 4))


@pytest.fixture
def several(draw):
    """Three to five processes, and as many elements in each chunk."""
    size = draw.size(3, 5)
    return summands(draw, size, size * draw.size(2, 4))


@pytest.fixture
def many(draw):
    """Enough processes to see who sends what to whom."""
    size = draw.size(5, 6)
    return summands(draw, size, size * draw.size(3, 5))


@pytest.fixture
def of_shape(draw, shape):
    """As many processes and elements as the shape has; of uneven ones the processes leave something over."""
    some = draw.size(3, 5)
    size, shape = {
        "uneven": (some, uneven(draw, some)),
        "alone": (1, (draw.size(2, 5),)),
        "scalar": (3, ()),
        "fewer": (draw.size(4, 6), (draw.size(2, 3),)),
        "one more": (4, (5,)),
        "one row": (3, (1, draw.size(4, 7))),
    }[shape]
    return summands(draw, size, *shape)


@pytest.fixture
def transposed(draw):
    """Tensors that are not contiguous."""
    rows, columns = draw.sizes(3, 6, 2)
    return [tensor.T for tensor in summands(draw, draw.size(2, 4), rows, columns)]


@pytest.fixture
def of_dtype(draw, dtype):
    """Tensors of one dtype."""
    return summands(draw, 3, draw.size(5, 9), dtype=dtype)


# --- Inputs: average_gradients --------------------------------------------------------------------


@pytest.fixture
def pair(draw):
    """A batch for each of two processes."""
    return summands(draw, 2, *draw.sizes(3, 6, 2))


@pytest.fixture
def other_pair(draw, pair):
    """Another batch for each of them."""
    return summands(draw, 2, *pair[0].shape)


@pytest.fixture
def batches(draw):
    """A batch for each of four processes."""
    return summands(draw, 4, *draw.sizes(3, 7, 2))


@pytest.fixture
def left_over(draw, pair):
    """A gradient that a frozen matrix has from before."""
    width = pair[0].size(1)
    return draw.normal(width, width + 2)


@pytest.fixture
def large(draw):
    """Gradients near the largest number of float16, for the first bias of three processes."""
    width = draw.size(3, 5)
    return [draw.uniform(3e4, 5e4, width + 2, dtype="float16") for _ in range(3)]


@pytest.fixture
def batches_of_dtype(draw, dtype):
    """A batch for each of three processes, of one dtype."""
    return summands(draw, 3, *draw.sizes(3, 6, 2), dtype=dtype)


# --- Inputs: shard --------------------------------------------------------------------------------


@pytest.fixture
def even(draw):
    """A number of processes, and a matrix of which it divides the rows and the columns."""
    size = draw.size(2, 4)
    return {"size": size, "parameter": draw.normal(size * draw.size(1, 2), 3 * size)}


@pytest.fixture
def odd(draw):
    """A number of processes, and a matrix that it does not divide."""
    size = draw.size(3, 5)
    return {"size": size, "parameter": draw.normal(*uneven(draw, size))}


@pytest.fixture
def kept_alone(draw):
    """A single process, and a matrix."""
    return {"size": 1, "parameter": draw.normal(*draw.sizes(2, 5, 2))}


@pytest.fixture
def scalar(draw):
    """Three processes, and a parameter without axes."""
    return {"size": 3, "parameter": draw.normal()}


@pytest.fixture
def by_columns(draw):
    """A matrix that is not contiguous."""
    rows, columns = draw.sizes(3, 6, 2)
    return {"size": draw.size(2, 4), "parameter": draw.normal(rows, columns).T}


# --- Inputs: gather -------------------------------------------------------------------------------


@pytest.fixture
def many_pieces(draw):
    """Enough processes to see who sends what to whom."""
    size = draw.size(5, 6)
    shape = (size * draw.size(3, 5),)
    return {"pieces": cut(draw, size, shape[0]), "shape": shape}


@pytest.fixture
def pieces_of_shape(draw, shape):
    """As many pieces and elements as the shape has; of even ones there is no padding."""
    some = draw.size(3, 5)
    size, shape = {
        "even": (some, (some * draw.size(1, 2), 7)),
        "uneven": (some, uneven(draw, some)),
        "alone": (1, (draw.size(2, 5), 3)),
        "scalar": (3, ()),
        "empty": (3, (0, draw.size(2, 5))),
        "fewer": (draw.size(5, 6), (draw.size(2, 4),)),
        "one row": (3, (1, draw.size(4, 7))),
    }[shape]
    return {"pieces": cut(draw, size, math.prod(shape)), "shape": shape}


# --- ring_all_reduce ------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_two_processes(answer, two):
    """Two processes both get the sum of their tensors."""
    return results(all_reduced(answer.ring_all_reduce, two))


def test_several_processes(answer, several):
    """Every process gets the sum of all tensors."""
    return results(all_reduced(answer.ring_all_reduce, several))


@pytest.mark.constant("numbers sent beyond 2 (n − 1) / n of the tensor", SAME)
def test_share(answer, many):
    """No process sends more than 2 (n − 1) / n of the tensor."""
    sums = all_reduced(answer.ring_all_reduce, many)
    size, numbers = len(many), many[0].numel()
    share = 2 * (size - 1) * numbers // size
    return results(sums) | {"numbers sent beyond 2 (n − 1) / n of the tensor": beyond(sums, share)}


@pytest.mark.constant("numbers sent past the neighbors", SAME)
def test_ring(answer, many):
    """A process sends only to its neighbor in the ring."""
    sums = all_reduced(answer.ring_all_reduce, many)
    return results(sums) | {"numbers sent past the neighbors": elsewhere(sums)}


@pytest.mark.constant("processes whose bits differ from those of process 0", SAME)
def test_same_bits(answer, many):
    """All processes get the same bits, so that their models do not drift apart."""
    (first, _), *rest = all_reduced(answer.ring_all_reduce, many)
    same = [result.shape == first.shape and bool((result == first).all()) for result, _ in rest]
    return {
        "processes whose bits differ from those of process 0": len(same) - sum(same),
        "result of process 0": first,
    }


@pytest.mark.watertight(LAYOUT)
def test_layout(answer, transposed):
    """Tensors that are not contiguous are added correctly."""
    return results(all_reduced(answer.ring_all_reduce, transposed))


@pytest.mark.parametrize(
    "shape", ["uneven", *edges("alone", "scalar", "fewer", "one more", "one row")]
)
def test_any_shape(answer, of_shape, shape):
    """The sum has the tensors' shape, even if the number of elements is not a multiple of the number of
    processes."""
    return results(all_reduced(answer.ring_all_reduce, of_shape))


@pytest.mark.watertight(HISTORY)
@pytest.mark.constant("results that need a gradient", SAME)
def test_no_history_of_the_sum(answer, several):
    """The sum does not require a gradient, even if the tensors do."""
    sums = all_reduced(answer.ring_all_reduce, wanting_gradients(several))
    needing = sum(result.requires_grad for result, _ in sums)
    return results(sums) | {"results that need a gradient": needing}


@pytest.mark.watertight(OWN)
@pytest.mark.parametrize("processes", [1, 3])
def test_what_is_written_into_the_sum(answer, several, processes):
    """The sum has its own memory: writing into it changes no process's tensor."""
    tensors = [tensor.clone() for tensor in several[:processes]]
    for result, _ in all_reduced(answer.ring_all_reduce, tensors):
        result.zero_()
    return {f"tensor of process {rank}": tensor for rank, tensor in enumerate(tensors)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """The sum has the tensors' dtype."""
    return results(all_reduced(answer.ring_all_reduce, of_dtype))


# --- average_gradients ----------------------------------------------------------------------------


def test_mean_of_several(answer, build, batches):
    """Every process gets the mean of all gradients."""
    return averaged(answer.average_gradients, replicas(build, batches))


def test_weights_are_left_alone(answer, build, pair):
    """The parameters' values do not change."""
    models = replicas(build, pair)
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.mul_(2.0)  # so that a mean would show
    means = averaged(answer.average_gradients, models)
    return {"parameters": dict(named_parameters(models[1])), "gradients": means["process 1"]}


def test_frozen(answer, build, pair):
    """A parameter that is frozen gets no gradient."""
    models = replicas(build, pair)
    for model in models:
        model.w_1.weight.requires_grad_(False)
        model.w_1.weight.grad = None
    return averaged(answer.average_gradients, models)


@pytest.mark.watertight("a frozen parameter may have a gradient from before it was frozen")
def test_left_over(answer, build, pair, left_over):
    """The gradient of a frozen parameter does not change."""
    models = replicas(build, pair)
    for rank, model in enumerate(models):
        model.w_2.weight.requires_grad_(False)
        model.w_2.weight.grad = left_over * (rank + 1)
    return averaged(answer.average_gradients, models)


@pytest.mark.on_devices
@pytest.mark.watertight("a layer that one process's examples do not reach has no gradient there")
def test_no_gradient(answer, build, batches):
    """If a process has no gradient for a parameter, zeros are averaged instead."""
    models = replicas(build, batches)
    models[0].w_1.weight.grad = None
    models[1].w_2.bias.grad = None
    return averaged(answer.average_gradients, models)


@pytest.mark.watertight("the sum in half precision can overflow although the mean does not")
def test_large_halves(answer, build, large):
    """The mean is right if float16 can represent it."""
    width = large[0].size(0) - 2
    models = [build(PositionwiseFeedForward, width, width + 2, 0.0, dtype="float16") for _ in large]
    for model, gradient in zip(models, large, strict=True):
        model.w_1.bias.grad = gradient.clone()
    return {
        rank: means["w_1.bias"]
        for rank, means in averaged(answer.average_gradients, models).items()
    }


@pytest.mark.watertight("one step is followed by the next")
def test_two_steps(answer, build, pair, other_pair):
    """At the next step, the mean is that of the new gradients."""
    models = replicas(build, pair)
    averaged(answer.average_gradients, models)
    for model, x in zip(models, other_pair, strict=True):
        model.zero_grad()
        backward(model(x))
    return averaged(answer.average_gradients, models)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_gradients(answer, build, batches_of_dtype, dtype):
    """The mean has the parameters' dtype."""
    return averaged(answer.average_gradients, replicas(build, batches_of_dtype, dtype=dtype))


# --- shard ----------------------------------------------------------------------------------------


def test_pieces(answer, even):
    """Process r gets the r-th of n equal pieces of the flat parameter."""
    return pieces_of(answer.shard, even["parameter"], even["size"])


def test_padding(answer, odd):
    """If the number of processes does not divide the number of elements, the end is padded with zeros."""
    return pieces_of(answer.shard, odd["parameter"], odd["size"])


def test_memory(answer, odd):
    """A piece has its own memory, for its elements only, so that the full parameter can be freed."""
    pieces = pieces_of(answer.shard, odd["parameter"], odd["size"])
    sizes = {
        f"numbers held in memory by the {name}": piece.untyped_storage().nbytes()
        // piece.element_size()
        for name, piece in pieces.items()
    }
    return sizes | pieces


@pytest.mark.watertight(PARAMETER)
@pytest.mark.constant("pieces that need a gradient", SAME)
def test_no_history(answer, odd):
    """The piece does not require a gradient, and has no computation graph."""
    parameter = wanting_gradients(odd["parameter"])
    pieces = pieces_of(answer.shard, parameter, odd["size"])
    needing = sum(piece.requires_grad for piece in pieces.values())
    return pieces | {"pieces that need a gradient": needing}


@pytest.mark.watertight(LAYOUT)
def test_layout_of_the_whole(answer, by_columns):
    """A parameter that is not contiguous is cut in the order of its elements."""
    return pieces_of(answer.shard, by_columns["parameter"], by_columns["size"])


@pytest.mark.watertight(EDGES)
@pytest.mark.constant("piece of process 1", "piece of process 2", PADDING)
def test_scalar(answer, scalar):
    """A 0-d parameter counts as one element."""
    return pieces_of(answer.shard, scalar["parameter"], scalar["size"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_pieces(answer, of_dtype, dtype):
    """A piece has the parameter's dtype."""
    return pieces_of(answer.shard, of_dtype[0], len(of_dtype))


# --- gather ---------------------------------------------------------------------------------------


@pytest.mark.constant("numbers sent beyond (n − 1) pieces", "numbers sent past the neighbors", SAME)
def test_share_of_gather(answer, many_pieces):
    """A process sends n − 1 pieces, all to its neighbor."""
    tensors = gathered(answer.gather, **many_pieces)
    share = (len(tensors) - 1) * many_pieces["pieces"][0].numel()
    return results(tensors) | {
        "numbers sent beyond (n − 1) pieces": beyond(tensors, share),
        "numbers sent past the neighbors": elsewhere(tensors),
    }


@pytest.mark.parametrize(
    "shape", ["even", "uneven", *edges("alone", "scalar", "fewer", "empty", "one row")]
)
def test_whole(answer, pieces_of_shape, shape):
    """Every process gets the full parameter, with the pieces in the order of the processes and without
    the padding."""
    return results(gathered(answer.gather, **pieces_of_shape))


@pytest.mark.watertight(OWN)
def test_what_is_written_into_the_whole(answer, kept_alone):
    """The gathered tensor has its own memory, even with a single process, and the piece does not change."""
    piece = kept_alone["parameter"].flatten().clone()
    [(complete, _)] = gathered(answer.gather, [piece], kept_alone["parameter"].shape)
    complete.zero_()
    return {"piece": piece}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_the_whole(answer, of_dtype, dtype):
    """The gathered tensor has the pieces' dtype."""
    shape = (len(of_dtype) * len(of_dtype[0]) - 1,)
    return results(gathered(answer.gather, of_dtype, shape))
