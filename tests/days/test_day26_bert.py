"""Day 26 · mask_tokens(tokens, mask_id, vocab, special, p=0.15, generator=None) and BERT(config)."""

from dataclasses import replace

import pytest
import torch

from course.checks.authoring import DTYPES, backward, gradients, listed, named, named_parameters
from variants.bert import BERTConfig

MANY = 20_000  # tokens: a share misses the nearer fortieth by 0.025, 7 deviations: less than once in 10⁹ runs

VERY_MANY = 250_000  # a share misses the nearer hundredth by 0.005, 6.2 standard deviations
HUNDREDTHS = "a share that is off by a hundredth shows in no single batch, and in every loss"
KEPT = "whatever a model keeps of one call must still be right in the next"
PADDING = pytest.mark.watertight(
    "published code gives padding no gradient; here the table has no padding index"
)
EVERY = "a rule that spares some tokens is a clue, and a small vocabulary makes it a large one"
ALONE = "the published code chooses as many in each row; here each token is chosen for itself"
ANY_SHAPE = "a corpus that is read piece by piece has rows of any shape, and at times an empty one"


# --- Inputs: texts --------------------------------------------------------------------------------


def text(draw, *shape, vocab, special=0):
    """Tokens of which none is the mask, and so many special ids, each of which the text holds."""
    mask_id, *ids = draw.sizes(0, vocab - 1, 1 + special)
    tokens = draw.integers(0, vocab - 2, *shape)
    tokens = tokens + (tokens >= mask_id)
    if special:
        tokens.view(-1)[draw.normal(tokens.numel()).argsort()[:special]] = torch.tensor(ids)
    return {"tokens": tokens, "mask_id": mask_id, "vocab": vocab, "special": ids}


def one_word(draw, *shape, vocab, special=0):
    """A text that says the same token again and again, none of the special ones."""
    token, mask_id, *ids = draw.sizes(0, vocab - 1, 2 + special)
    tokens = torch.full(shape, token)
    return {"tokens": tokens, "mask_id": mask_id, "vocab": vocab, "special": ids}


@pytest.fixture
def given(draw):
    """A few short rows without special tokens."""
    return text(draw, *draw.sizes(3, 8, 2), vocab=draw.size(9, 14))


@pytest.fixture
def with_special(draw):
    """The same with two or three special ids, anywhere in it."""
    return text(draw, *draw.sizes(3, 8, 2), vocab=draw.size(9, 14), special=draw.size(2, 3))


@pytest.fixture
def long_text(draw):
    """Some twenty thousand tokens of a large vocabulary, with special ones."""
    rows = draw.size(130, 150)
    return text(draw, rows, MANY // rows, vocab=draw.size(2000, 3000), special=3)


@pytest.fixture
def very_long_text(draw):
    """A quarter of a million tokens."""
    rows = draw.size(400, 500)
    return text(draw, rows, VERY_MANY // rows, vocab=2 * draw.size(1000, 1500))


@pytest.fixture
def p(draw):
    """A probability in twentieths."""
    return draw.size(4, 16) / 20


@pytest.fixture
def square(draw):
    """One token in rows and columns so long that no two should have the same fate."""
    return one_word(draw, *draw.sizes(130, 160, 2), vocab=1000)


@pytest.fixture
def line(draw, shape):
    """One token over and over, in a single row or in a single column."""
    along = MANY + draw.size(0, 99)
    return one_word(draw, *((1, along) if shape == "a row" else (along, 1)), vocab=draw.size(9, 40))


@pytest.fixture
def with_special_ids(draw):
    """One token over and over, and special ids that stand nowhere in the text."""
    return one_word(draw, draw.size(1, 9), MANY // 5, vocab=draw.size(9, 20), special=3)


@pytest.fixture
def two_tokens(draw):
    """A vocabulary of the mask and one token."""
    return one_word(draw, MANY + draw.size(0, 99), vocab=2)


@pytest.fixture
def of_axes(draw, axes):
    """Tokens with so many axes, or with an empty one."""
    shape = (draw.size(2, 9), 0) if axes == "an empty one" else draw.sizes(2, 5, axes)
    return text(draw, *shape, vocab=draw.size(9, 14))


@pytest.fixture
def state(draw):
    """Where a generator begins."""
    return draw.size(0, 10**6)


def masked(mask_tokens, given, **how):
    """Inputs and labels."""
    sizes = given["mask_id"], given["vocab"], given["special"]
    return mask_tokens(given["tokens"], *sizes, **how)


def twentieths(which):
    """The share of True, in twentieths."""
    return round(20 * which.double().mean().item()) if which.numel() else "of none"


def hundredths(which):
    """The share of True, in hundredths."""
    return round(100 * which.double().mean().item())


def sizes_of(tensor):
    """The shape as a list."""
    return list(tensor.shape)


# --- Inputs: models -------------------------------------------------------------------------------


def small(draw, **more):
    """The sizes of a small model, no two alike, without dropout."""
    heads, d_k = draw.sizes(2, 4, 2)
    d_ff, context, vocab = draw.size(13, 17), draw.size(8, 11), draw.size(18, 25)
    sizes = {"vocab": vocab, "context": context, "n_layers": 2, "n_heads": heads}
    sizes |= {"d_model": heads * d_k, "d_ff": d_ff, "dropout": 0.0, "eps": 1e-5, "segments": 3}
    return BERTConfig(**sizes | more)


def pair(draw, config, rows, length):
    """Texts of pairs of sentences: tokens, of which some have the id 0, and a segment for each."""
    tokens = draw.integers(0, config.vocab - 1, rows, length)
    tokens[:, length // 2 :][:, :1] = 0
    return {"tokens": tokens, "segments": draw.integers(0, config.segments - 1, rows, length)}


def with_texts(draw, **more):
    """A small model's config, and texts that are shorter than its context."""
    config = small(draw, **more)
    return {"config": config, "texts": pair(draw, config, *draw.sizes(3, 6, 2))}


@pytest.fixture
def config(draw):
    """A small model of two layers."""
    return small(draw)


@pytest.fixture
def bare(draw):
    """A model that has no layers, embeddings and head, and texts for it."""
    return with_texts(draw, n_layers=0)


@pytest.fixture
def large_eps(draw):
    """A model whose norms have an ε that shows, and texts for it."""
    return with_texts(draw, eps=draw.uniform(0.1, 0.3).item())


@pytest.fixture
def dropping(draw):
    """A model that drops everything, and texts for it."""
    return with_texts(draw, dropout=1.0)


@pytest.fixture
def texts(draw, config):
    """Texts that are shorter than the context."""
    return pair(draw, config, *draw.sizes(3, 6, 2))


@pytest.fixture
def full_texts(draw, config):
    """Texts that are as long as the context."""
    return pair(draw, config, draw.size(2, 4), config.context)


@pytest.fixture
def at_the_edge(draw, config, edge):
    """One text, or texts of one token or of none."""
    rows, length = draw.sizes(2, 6, 2)
    axis, size = edge.split("=")
    return pair(draw, config, *((int(size), length) if axis == "B" else (rows, int(size))))


@pytest.fixture
def padded(draw, config):
    """Texts of several lengths, the longest as long as the context, and a mask for their padding."""
    given = pair(draw, config, 3, config.context)
    lengths = torch.tensor([config.context, *draw.sizes(3, config.context - 1, 2)])
    return given | {"mask": (torch.arange(config.context) < lengths[:, None]).unsqueeze(1)}


@pytest.fixture
def under_a_mask(draw, config, shape):
    """A mask with or without axes of its own for the batch and for the queries."""
    rows, length = draw.sizes(3, 6, 2)
    sizes = {"B": rows, "T": length, "1": 1}
    mask = draw.mask(*(sizes[axis] for axis in shape.split()))
    return pair(draw, config, rows, length) | {"mask": mask}


@pytest.fixture
def halving(draw):
    """A model without layers that drops one half, and has more tokens than features."""
    config = small(draw, dropout=0.5, n_layers=0)
    return replace(config, vocab=config.d_model + draw.size(8, 12))


@pytest.fixture
def many_texts(draw, halving):
    """Enough texts that the share that is dropped is near its probability, of the last tokens."""
    given = pair(draw, halving, draw.size(300, 340), halving.context)
    return given | {"tokens": given["tokens"] % (halving.vocab - halving.d_model) + halving.d_model}


@pytest.fixture
def vectors(draw, dropping):
    """Vectors for its parts."""
    return draw.normal(*draw.sizes(2, 5, 2), dropping["config"].d_model)


@pytest.fixture
def roomy(draw):
    """A model whose smallest matrix has several hundred numbers."""
    d_model = 4 * draw.size(6, 8)
    sizes = {"vocab": 3 * d_model, "context": d_model + draw.size(1, 5), "segments": 30}
    return BERTConfig(n_layers=2, n_heads=4, d_model=d_model, d_ff=2 * d_model - 3, **sizes)


def telling(model):
    """The gradients by name, without those of the keys' biases: they are 0, and what is seen of them is
    rounding."""
    return {n: g for n, g in gradients(model).items() if not n.endswith("w_k.bias")}


# --- mask_tokens: what is asked for ---------------------------------------------------------------


@pytest.mark.on_devices
def test_nothing_chosen(answer, given):
    """With p = 0, the text does not change, and every label is −100."""
    return named(masked(answer.mask_tokens, given, p=0.0), "inputs", "labels", first="labels")


def test_everything_chosen(answer, given):
    """With p = 1, every token is a target: the labels are the original text."""
    _, labels = masked(answer.mask_tokens, given, p=1.0)
    return {"labels": labels}


def test_special_tokens(answer, with_special):
    """Special tokens are never targets and never changed, even with p = 1."""
    inputs, labels = masked(answer.mask_tokens, with_special, p=1.0)
    return {"labels": labels, "inputs at special tokens": inputs[labels == -100]}


@pytest.mark.constant(
    "twentieths changed without being asked for",
    "twentieths of the labels that are not the token",
    "what is not asked for stays, and what is asked for is the token that stood there",
)
def test_the_rest_stays(answer, long_text, p):
    """A token that is not a target does not change; a label is the original token."""
    tokens = long_text["tokens"]
    inputs, labels = masked(answer.mask_tokens, long_text, p=p)
    unchosen = labels == -100
    return {
        "twentieths changed without being asked for": twentieths((inputs != tokens)[unchosen]),
        "twentieths of the labels that are not the token": twentieths(
            (labels != tokens)[~unchosen]
        ),
        "shape": sizes_of(inputs),
    }


def test_share_chosen(answer, long_text, p):
    """Each token is chosen with probability p."""
    _, labels = masked(answer.mask_tokens, long_text, p=p)
    return {"twentieths chosen": twentieths(labels != -100)}


@pytest.mark.constant("twentieths chosen", "it is 15%")
def test_share_chosen_by_default(answer, long_text):
    """By default, p is 0.15, as in the paper."""
    _, labels = masked(answer.mask_tokens, long_text)
    return {"twentieths chosen": twentieths(labels != -100), "shape": sizes_of(labels)}


# --- mask_tokens: what becomes of it --------------------------------------------------------------


@pytest.mark.constant(
    "twentieths hidden", "twentieths replaced", "twentieths kept", "80%, 10% and 10%"
)
@pytest.mark.parametrize("p", [1.0, 0.5])
def test_what_becomes_of_the_chosen(answer, long_text, p):
    """Of the chosen tokens, 80% become the mask, 10% a random token, and 10% do not change."""
    tokens = long_text["tokens"]
    inputs, labels = masked(answer.mask_tokens, long_text, p=p)
    chosen = labels != -100
    hidden, unchanged = inputs == long_text["mask_id"], inputs == tokens
    return {
        "twentieths hidden": twentieths(hidden[chosen]),
        "twentieths replaced": twentieths(~(hidden | unchanged)[chosen]),
        "twentieths kept": twentieths(unchanged[chosen]),
        "shape": sizes_of(inputs),
    }


@pytest.mark.parametrize("shape", ["a row", "a column"])
def test_random_tokens(answer, line, shape):
    """The random tokens are drawn separately, from the entire vocabulary."""
    inputs, _ = masked(answer.mask_tokens, line, p=1.0)
    return {"tokens that come": inputs.unique()}


def test_each_token_has_a_fate_of_its_own(answer, square):
    """Rows and columns do not share draws, either for the choice or for the replacement."""
    inputs, _ = masked(answer.mask_tokens, square, p=1.0)
    _, labels = masked(answer.mask_tokens, square, p=0.5)
    return {
        "rows chosen differently": len(labels.unique(dim=0)),
        "columns chosen differently": labels.unique(dim=1).size(1),
        "rows with different inputs": len(inputs.unique(dim=0)),
        "columns with different inputs": inputs.unique(dim=1).size(1),
    }


@pytest.mark.constant(
    "chooses the same again from the same state",
    "the same inputs again",
    "chooses the same from the next state",
    "touches torch's own state",
    "the generator alone decides",
)
@pytest.mark.parametrize("whose", ["given", "torch's own"])
def test_generator(answer, long_text, state, device, whose):
    """Equal generator states give equal results; without a generator, torch's global one is used."""
    generator = torch.Generator(device) if whose == "given" else None
    begin = generator.manual_seed if generator else torch.manual_seed
    begin(state)
    own = torch.get_rng_state()
    first = masked(answer.mask_tokens, long_text, generator=generator)
    second = masked(answer.mask_tokens, long_text, generator=generator)
    touched = not torch.equal(torch.get_rng_state(), own)
    torch.manual_seed(state + 1)
    begin(state)
    again = masked(answer.mask_tokens, long_text, generator=generator)
    return {
        "chooses the same again from the same state": torch.equal(first[1], again[1]),
        "the same inputs again": torch.equal(first[0], again[0]),
        "chooses the same from the next state": torch.equal(first[1], second[1]),
        "touches torch's own state": touched,
        "shape": sizes_of(first[0]),
    }


@pytest.mark.watertight(HUNDREDTHS)
@pytest.mark.constant(
    "hundredths chosen",
    "hundredths hidden",
    "hundredths replaced",
    "hundredths kept",
    "twentieths of the random tokens in the lower half of the vocabulary",
    "15%, and of them 80%, 10% and 10%; each token is as likely",
)
def test_shares_to_a_hundredth(answer, very_long_text):
    """The shares are right to a hundredth: 15% are chosen, of which 80%, 10% and 10% are treated in the
    three ways."""
    given = very_long_text
    _, labels = masked(answer.mask_tokens, given)
    inputs, _ = masked(answer.mask_tokens, given, p=1.0)
    hidden, unchanged = inputs == given["mask_id"], inputs == given["tokens"]
    replaced = ~(hidden | unchanged)
    return {
        "hundredths chosen": hundredths(labels != -100),
        "hundredths hidden": hundredths(hidden),
        "hundredths replaced": hundredths(replaced),
        "hundredths kept": hundredths(unchanged),
        "twentieths of the random tokens in the lower half of the vocabulary": twentieths(
            inputs[replaced] < given["vocab"] // 2
        ),
        "shape": sizes_of(labels),
    }


@pytest.mark.watertight(
    "the text is masked again in the next epoch, and labels are shifted in place"
)
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_new_tensors(answer, given, p):
    """Text, inputs and labels do not share memory."""
    tokens = given["tokens"].clone()
    inputs, labels = masked(answer.mask_tokens, given | {"tokens": tokens}, p=p)
    was = labels.clone()
    inputs.fill_(-1)
    observed = {"labels": labels - was, "text": tokens.clone()}
    labels.fill_(-2)
    return observed | {"text afterwards": tokens}


@pytest.mark.watertight(ALONE)
@pytest.mark.parametrize("shape", ["a column"])
def test_rows_of_one_token(answer, line, p, shape):
    """Each token is chosen independently: all tokens of a row may be chosen, or none."""
    _, labels = masked(answer.mask_tokens, line, p=p)
    return {"twentieths chosen": twentieths(labels != -100)}


@pytest.mark.watertight(EVERY)
@pytest.mark.constant("twentieths hidden", "80%, and half of the random 10%")
def test_two_tokens(answer, two_tokens):
    """A random token may be any of the V tokens, including the mask and the original token."""
    inputs, _ = masked(answer.mask_tokens, two_tokens, p=1.0)
    hidden = inputs == two_tokens["mask_id"]
    return {"twentieths hidden": twentieths(hidden), "shape": sizes_of(inputs)}


@pytest.mark.watertight(EVERY)
def test_random_tokens_may_be_special(answer, with_special_ids):
    """A random token may be a special token, although special tokens are never chosen."""
    inputs, _ = masked(answer.mask_tokens, with_special_ids, p=1.0)
    return {"tokens that come": inputs.unique()}


@pytest.mark.watertight(ANY_SHAPE)
@pytest.mark.parametrize("axes", [0, 1, 3, "an empty one"])
def test_axes(answer, of_axes, axes):
    """Tokens of any shape can be masked, including a single token and none at all."""
    inputs, labels = masked(answer.mask_tokens, of_axes, p=1.0)
    return {"labels": labels, "labels in the inputs' shape": labels.reshape(inputs.shape)}


@pytest.mark.watertight("special ids are naturally a set, and some tokenizers return them as a set")
@pytest.mark.parametrize("kind", ["tuple", "set"])
def test_special_ids_of_another_kind(answer, with_special, kind):
    """The special ids may be a list, a tuple or a set."""
    given = with_special | {"special": {"tuple": tuple, "set": set}[kind](with_special["special"])}
    return {"labels": masked(answer.mask_tokens, given, p=1.0)[1]}


# --- BERT: from text to scores --------------------------------------------------------------------


def test_parameters(answer, config):
    """Seven parts hold all parameters; the head has a transform and a bias, but no matrix with V rows."""
    model = answer.BERT(config)
    return {"parameters": {name: str(tuple(p.shape)) for name, p in named_parameters(model)}}


def test_embedding_and_head(answer, build, bare):
    """Three vectors are added and normalized; a state is transformed and compared with every embedding."""
    return {"logits": build(answer.BERT, bare["config"])(**bare["texts"])}


def test_both_sides(answer, build, config, texts):
    """Every position attends to earlier and to later positions."""
    model = build(answer.BERT, config)
    logits = model(texts["tokens"])
    counts = []
    for position in (0, -1):
        other = texts["tokens"].clone()
        other[:, position] = (other[:, position] + 1) % config.vocab
        moved = (model(other) - logits).abs().amax(dim=(0, 2)) > 1e-5
        counts.append(int(moved.sum()))
    return {"positions that see the first token": counts[0], "that see the last": counts[1]}


@pytest.mark.on_devices
def test_model(answer, build, config, texts):
    """Without `segments`, every token is in segment 0."""
    model = build(answer.BERT, config)
    return {"logits": model(texts["tokens"])}


@pytest.mark.parametrize("given", ["segments", "as long as the context", "padding"])
def test_texts(answer, build, config, texts, full_texts, padded, given):
    """The vectors of segment and position are added to each token's vector, at every position; padding
    is hidden from every query, in every layer."""
    inputs = {"segments": texts, "as long as the context": full_texts, "padding": padded}[given]
    return {"logits": build(answer.BERT, config)(**inputs)}


@pytest.mark.parametrize("shape", ["1 1 T", "1 T T", "B T T"])
def test_mask(answer, build, config, under_a_mask, shape):
    """A mask may have a batch axis and a query axis of length 1."""
    model = build(answer.BERT, config)
    return {"logits": model(**under_a_mask)}


def test_second_call(answer, build, config, texts, full_texts):
    """A second call, with texts of a different length, does not depend on the first."""
    model = build(answer.BERT, config)
    model(**texts)
    return {"logits": model(**full_texts)}


@pytest.mark.parametrize("token_0", ["left out", pytest.param("read", marks=PADDING)])
def test_gradients(answer, build, config, texts, token_0):
    """Gradients reach every parameter; the tied matrix gets the sum from both its uses."""
    model = build(answer.BERT, config)
    backward(model(texts["tokens"].clamp(min=int(token_0 == "left out")), texts["segments"]))
    return {"gradients": telling(model)}


@pytest.mark.watertight(KEPT)
def test_after_a_training_step(answer, build, config, texts):
    """After its weights have changed, the model computes with the new weights, forward and backward."""
    model = build(answer.BERT, config)
    model(**texts)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    logits = model(**texts)
    backward(logits)
    return {"logits": logits, "gradients": telling(model)}


@pytest.mark.watertight("published weights belong to the ε with which they were trained")
def test_eps(answer, build, large_eps):
    """Every norm uses the config's ε: those of the embedding, the layers, and the head."""
    return {"logits": build(answer.BERT, large_eps["config"])(**large_eps["texts"])}


@pytest.mark.watertight("a batch or a text of one, or of none, where squeezing goes wrong")
@pytest.mark.parametrize("edge", ["B=1", "T=1", "T=0", "B=0"])
def test_at_the_edge(answer, build, config, at_the_edge, edge):
    """The result is right for one text, texts of one token, and no texts."""
    model = build(answer.BERT, config)
    return {"logits": model(**at_the_edge)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, config, padded, dtype):
    """Logits have the dtype of the weights."""
    model = build(answer.BERT, config, dtype=dtype)
    return {"logits": model(**padded)}


# --- BERT: dropout --------------------------------------------------------------------------------


@pytest.mark.constant("the same twice", "nothing is drawn at random")
def test_no_dropout(answer, build, config, texts):
    """With dropout 0, two calls in training mode give the same result: no part has its own dropout."""
    model = build(answer.BERT, config)
    once, again = model(**texts), model(**texts)
    return {"the same twice": torch.equal(once, again), "logits": once}


@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_dropout_of_everything(answer, build, dropping, mode):
    """With dropout 1, the embedding is 0 after its norm, and every sublayer adds 0; in evaluation mode,
    dropout is inactive."""
    model = build(answer.BERT, dropping["config"]).train(mode == "training")
    return {"logits": model(**dropping["texts"])}


@pytest.mark.constant("not dropped", "with probability 1 every part drops what it can")
def test_dropout_in_the_layers(answer, build, dropping, vectors):
    """The config's dropout reaches attention weights and both residuals of every layer."""
    model = build(answer.BERT, dropping["config"])
    return {"not dropped": listed(_not_dropped(model, vectors)), "d_model": vectors.size(-1)}


def _not_dropped(model, x):
    """The parts that leave more than a bias, or a norm of what came in."""
    for index, layer in enumerate(model.encoder.layers):
        bias = layer.self_attn.w_o.bias.expand(*x.shape[:-1], -1)
        if not torch.equal(layer.self_attn(x, x, x), bias):
            yield f"layers.{index}.self_attn"
        for number, connection in enumerate(layer.sublayer):
            if not torch.equal(connection(x, lambda y: y + 1), connection.norm(x)):
                yield f"layers.{index}.sublayer.{number}"


@pytest.mark.watertight("with dropout twice, or before the norm, more is lost than the config says")
@pytest.mark.constant("tenths dropped", "it is the config's dropout")
def test_dropout_of_the_embedding(answer, build, halving, many_texts):
    """Dropout is applied once to the normalized sum, and the remaining values are scaled up."""
    model = build(answer.BERT, halving)
    model.transform = torch.nn.Identity()
    with torch.no_grad():
        model.bias.zero_()
        model.embed.weight[: halving.d_model].fill_(0.0).fill_diagonal_(1.0)
    dropped = model(**many_texts)[
        ..., : halving.d_model
    ]  # compared with rows of an identity matrix
    complete = model.eval()(**many_texts)[..., : halving.d_model]
    return {
        "tenths dropped": round(10 * (dropped == 0).double().mean().item()),
        "what is not dropped": torch.where(dropped == 0, complete, dropped * 0.5),
    }


# --- BERT: the start ------------------------------------------------------------------------------


@pytest.mark.constant("start wrong", "what starts wrong: nothing")
def test_start(answer, roomy):
    """Matrices have standard deviation 0.02, biases are 0, gains are 1; no two matrices are equal."""
    started = dict(answer.BERT(roomy).named_parameters())
    return {
        "start wrong": listed(_wrong_starts(started)),
        "parameters": sum(p.numel() for p in started.values()),
    }


def _wrong_starts(started):
    """The names of those that start wrong, and what is wrong with them; cut off or not, both pass."""
    for name, parameter in started.items():
        first = started.get(name.replace("layers.1.", "layers.0."))
        if parameter.dim() == 1:
            expected = 1 if name.endswith("gain") else 0
            fault = "" if (parameter == expected).all() else f"not {expected}"
        elif fault := _fault(float(parameter.detach().square().mean().sqrt())):
            pass
        elif "layers.1." in name and torch.equal(parameter, first):
            fault = "equal to the first layer's"
        if fault:
            yield f"{name} ({fault})"
    every = torch.cat([p.detach().flatten() for p in started.values() if p.dim() == 2])
    if (
        every.square().mean().sqrt() > 0.0208 or every.mean().abs() > 0.0015
    ):  # 6 standard errors away
        yield "all matrices together (too wide, or not around 0)"


def _fault(deviation):
    """What is wrong with the standard deviation of several hundred numbers. Cut off it is 0.0176; 0.014 is 7
    standard errors away."""
    bounds = {"too narrow": 0.014, "": 0.0235, "too wide": 0.5}
    return next((words for words, end in bounds.items() if deviation < end), "far too wide")


@pytest.mark.watertight(
    "published code truncates the normal distribution, which avoids rare outliers"
)
@pytest.mark.constant("beyond two deviations", "nothing")
def test_start_is_cut_off(answer, roomy):
    """Initial weights are within two standard deviations of 0, which is 0.04."""
    started = dict(answer.BERT(roomy).named_parameters())
    far = [n for n, p in started.items() if p.dim() == 2 and p.abs().max() > 0.0401]
    return {
        "beyond two deviations": listed(far),
        "parameters": sum(p.numel() for p in started.values()),
    }


@pytest.mark.watertight("a saved model has to load under the usual names")
def test_state_dict(answer, build, config, texts):
    """The state dict holds each parameter once, and nothing else, before a call and after it."""
    model = build(answer.BERT, config)
    model(**texts)
    return dict(model.state_dict())
