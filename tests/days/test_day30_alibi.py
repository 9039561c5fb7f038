"""Day 30 · alibi_slopes(n_heads), alibi_bias(n_heads, t_q, t_k)."""

import pytest
import torch

NO_QUERIES = "an empty chunk of queries, whose bias still has its three axes"
DEFAULT = "whoever changes torch's default dtype expects tensors of it"


def sizes_of(n_heads, t_q, t_k):
    """The three sizes, by the names that the answer knows."""
    return {"n_heads": n_heads, "t_q": t_q, "t_k": t_k}


def no_power_of_two(draw, low, high):
    """A number of heads between two powers of two."""
    return draw.choice([n for n in range(low, high + 1) if n & (n - 1)])


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def powers(draw):
    """Fewer heads than the paper's example of 8, and more."""
    few = draw.choice([2, 4])
    many = draw.choice([16, 32, 64])
    return {"few heads": few, "many heads": many}


@pytest.fixture
def between(draw):
    """Numbers of heads between two powers of two: a few above the lower, nearly the upper."""
    power = draw.choice([8, 16, 32])
    above = power + draw.size(2, power // 4)
    below = 2 * power - draw.size(1, power // 4)
    return {"a few above a power of two": above, "a few below the next": below}


@pytest.fixture
def published(draw):
    """As many heads as models have whose number is no power of two: 13, 70 and 176 billion parameters."""
    return draw.choice([40, 48, 56, 71, 80, 112])


@pytest.fixture
def whole(draw):
    """As many queries as keys, as in training; another number of heads."""
    t = draw.size(5, 9)
    return sizes_of(draw.choice([2, 4]), t, t)


@pytest.fixture
def uneven(draw):
    """Heads between two powers of two."""
    t_q, t_k = draw.size(2, 4), draw.size(6, 9)
    return sizes_of(no_power_of_two(draw, 3, 15), t_q, t_k)


@pytest.fixture
def chunk(draw):
    """Some queries, the last of many keys: what a cache has kept comes before them."""
    t_q, t_k = draw.size(2, 4), draw.size(6, 11)
    return sizes_of(draw.choice([2, 4, 8]), t_q, t_k)


@pytest.fixture
def newest(draw):
    """One query and very many keys: the next token of a long text."""
    return sizes_of(draw.choice([2, 4, 8]), 1, draw.size(1500, 3000))


@pytest.fixture
def one_head(draw):
    """A single head."""
    return sizes_of(1, draw.size(2, 4), draw.size(5, 9))


@pytest.fixture
def nobody_asks(draw):
    """No queries, with keys and without."""
    n_heads, t_k = draw.size(3, 6), draw.size(7, 9)
    return {"keys": sizes_of(n_heads, 0, t_k), "nothing": sizes_of(n_heads, 0, 0)}


# --- Slopes ---------------------------------------------------------------------------------------


def test_power_of_two(answer, powers):
    """For 2, 4, 8, 16 … heads, the slopes fall by the same factor from head to head, down to 1/256."""
    return {f"slopes of {name}": answer.alibi_slopes(n) for name, n in powers.items()}


def test_between_powers_of_two(answer, between):
    """Other numbers of heads take the slopes of the next lower power of two, then every other one of
    the next higher power."""
    return {f"slopes, {name}": answer.alibi_slopes(n) for name, n in between.items()}


def test_published_numbers_of_heads(answer, published):
    """The slopes are right for large numbers of heads that are not a power of two."""
    return {"slopes": answer.alibi_slopes(published)}


@pytest.mark.watertight(DEFAULT)
def test_default_dtype(answer, published):
    """Slopes have torch's default dtype, even if it is float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return {"slopes": answer.alibi_slopes(published)}
    finally:
        torch.set_default_dtype(usual)


# --- The bias -------------------------------------------------------------------------------------


def test_bias(answer, whole):
    """Each head's bias is minus its slope times the distance, in both directions."""
    return {"bias": answer.alibi_bias(**whole)}


def test_bias_of_any_number_of_heads(answer, uneven):
    """The heads are in the order of their slopes, for any number of heads."""
    return {"bias": answer.alibi_bias(**uneven)}


def test_queries_are_the_last(answer, chunk):
    """If there are fewer queries than keys, the queries are the last positions."""
    return {"bias": answer.alibi_bias(**chunk)}


def test_the_newest_token(answer, newest):
    """The next token of a long text is at the last position, and the penalty grows linearly with the
    distance."""
    return {"bias": answer.alibi_bias(**newest)}


def test_bias_of_one_head(answer, one_head):
    """With one head, the bias keeps its three axes."""
    return {"bias": answer.alibi_bias(**one_head)}


@pytest.mark.watertight(NO_QUERIES)
def test_no_queries(answer, nobody_asks):
    """Without queries, the result is an empty tensor of the right shape."""
    return {f"bias with {name}": answer.alibi_bias(**sizes) for name, sizes in nobody_asks.items()}
