"""A model as a file that runs without this code: ONNX, a graph of operations, and the weights in it.

torch runs a model once with stand-ins for tensors, writes down which operations it calls, and gives them
ONNX's names. A graph knows no Python object: a cache comes in as tensors, and goes out as longer ones.

    export(model, file)               a language model that reads the whole text
    export(model, file, cache=True)   one that is handed the keys and values of what it has read
    OnnxModel(file)                   either of them in onnxruntime, to be asked by `generate` of day 24

What this needs a learner's set-up does not have: `pip install onnx onnxscript onnxruntime`.

From symbols to names
    B, T            batch, time: tokens of a chunk
    T_past, T_k     tokens read before it, and both together
    N, G, d_k       n_layers, heads that keys and values have, and their width
    V               vocab
"""

import contextlib
import copy
import importlib
import itertools
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.kv_cache import new_cache

OPSET = 18
"""ONNX's version of its operations: the one that torch's translations are written in. Any other is made from
it by a converter, which does not know every operation."""

NEEDED = "pip install onnx onnxscript onnxruntime"


class GrowingCache:
    """A `KVCache` for a graph: what each layer holds is a tensor that grows, instead of room that fills.

    Attributes:
        keys, values: a list of N tensors `(B, G, T_k, d_k)`.
        length: T_past: how many tokens were read before this chunk.
    """

    def __init__(
        self, keys: Float[Tensor, "N B G T_past d_k"], values: Float[Tensor, "N B G T_past d_k"]
    ):
        self.keys, self.values = list(keys), list(values)
        self.length = keys.size(3)

    def update(
        self,
        layer: int,
        key: Float[Tensor, "B G T d_k"],
        value: Float[Tensor, "B G T d_k"],
    ) -> tuple[Float[Tensor, "B G T_k d_k"], Float[Tensor, "B G T_k d_k"]]:
        """Append a chunk to one layer, and give back all that it holds."""
        self.keys[layer] = torch.cat((self.keys[layer], key), dim=2)  # (B, G, T_k, d_k)
        self.values[layer] = torch.cat((self.values[layer], value), dim=2)  # (B, G, T_k, d_k)
        return self.keys[layer], self.values[layer]


class WholeText(nn.Module):
    """A model as a function of the tokens alone."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """What it scores, after its `generator` where it has one, as those of `training/` do."""
        return self.scored(self.model(tokens))

    def scored(self, states: Tensor) -> Float[Tensor, "B T V"]:
        """From what the model returns to scores of tokens."""
        return self.model.generator(states) if hasattr(self.model, "generator") else states


class Chunk(WholeText):
    """A model as a function of a chunk's tokens, and of the keys and values of what was read before."""

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        past_keys: Float[Tensor, "N B G T_past d_k"],
        past_values: Float[Tensor, "N B G T_past d_k"],
    ) -> tuple[
        Float[Tensor, "B T V"], Float[Tensor, "N B G T_k d_k"], Float[Tensor, "N B G T_k d_k"]
    ]:
        """The chunk's scores, and all keys and values for the next one."""
        cache = GrowingCache(past_keys, past_values)
        scores = self.scored(self.model(tokens, cache))  # (B, T, V)
        return scores, torch.stack(cache.keys), torch.stack(cache.values)  # (N, B, G, T_k, d_k)


def export(model: nn.Module, file: str | Path, cache: bool = False) -> None:
    """Write a language model as ONNX, all in one file.

    Without a cache the file's input is `tokens`, int64 `(batch, time)`, and its output `logits`, `(batch,
    time, V)`. With a cache there are the inputs `past_keys` and `past_values` as well, `(N, batch, G, past,
    d_k)`, and the outputs `present_keys` and `present_values`, `(N, batch, G, past + time, d_k)`, to be
    handed back with the next chunk. At the start of a text `past` is 0. batch, time and past may be of any
    size in each call; past and time together at most the model's context.

    Args:
        model: called as `model(tokens)`, or with a cache as `model(tokens, cache)`, such as a `CachedGPT` or
            a `LLaMA`, whose `config` then tells the cache's sizes; or `quantize_model` of one, whose weights
            stand in the file as int8. A `generator` that it has is applied: the "logits" are then
            log-probabilities. It stays as it is, and may be in training mode; the file computes without
            dropout.
        file: what was there before is replaced.
        cache: whether the file is handed what was read before.

    Raises:
        ModuleNotFoundError: packages are missing; the message says which, and how they are installed.
    """
    for name in ("onnx", "onnxscript"):
        _package(name)
    # 1. A copy, since what is traced leaves its marks, and with its dropout off.
    model = copy.deepcopy(model)
    traced = (Chunk(model) if cache else WholeText(model)).eval()
    # 2. Inputs to trace with. An axis that is named here may have any size in the file.
    weight = next(itertools.chain(model.parameters(), model.buffers()))
    tokens = torch.zeros(2, 3, dtype=torch.int64, device=weight.device)  # (B, T)
    given, sizes = {"tokens": tokens}, {"tokens": {0: "batch", 1: "time"}}
    if cache:
        held = new_cache(model.config, batch=2, max_len=4).keys.to(weight.device)
        for name in ("past_keys", "past_values"):
            given[name] = torch.zeros_like(held)  # (N, B, G, T_past, d_k)
            sizes[name] = {1: "batch", 3: "past"}
    # 3. Write down what happens. Not optimised: that would turn eight bits back into 32. onnxruntime does
    #    it when it reads the file.
    with _quietly():
        torch.onnx.export(
            traced,
            tuple(given.values()),
            file,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(given),
            output_names=["logits", "present_keys", "present_values"][: len(given)],
            dynamic_shapes=tuple(sizes.values()),
            external_data=False,
            optimize=False,
            verbose=False,
        )


class OnnxModel(nn.Module):
    """An exported file in onnxruntime, asked as `generate` of day 24 asks a model.

    Args:
        file: as `export` writes it.
        context: the most tokens that the model reads, which the file does not know: `generate` cuts to it.

    Attributes:
        session: the `onnxruntime.InferenceSession`, on the CPU.
        config: it has `context`, and nothing else.

    Raises:
        ModuleNotFoundError: onnxruntime is missing.
    """

    def __init__(self, file: str | Path, context: int):
        super().__init__()
        self.session = _package("onnxruntime").InferenceSession(
            str(file), providers=["CPUExecutionProvider"]
        )
        self.config = SimpleNamespace(context=context)
        self._read: Tensor | None = None  # the text so far, (B, t)
        self._past: dict = {}  # its keys and values, by the names of the inputs

    def forward(self, tokens: Int[Tensor, "B t"]) -> Float[Tensor, "B T V"]:
        """Logits of the tokens; of a file with a cache, of those that it has not read yet.

        A text that does not go on from the last one, such as one that was cut off on the left, is read from
        its beginning.
        """
        inputs = {"tokens": tokens.numpy()}
        caches = [one for one in self.session.get_inputs() if one.name != "tokens"]
        if caches:
            past = self._held(tokens)
            inputs["tokens"] = tokens[:, past:].numpy()  # (B, T)
            for one in caches:
                n, _, g, _, d_k = one.shape
                empty = torch.zeros(n, len(tokens), g, 0, d_k).numpy()
                inputs[one.name] = self._past[one.name] if past else empty  # (N, B, G, T_past, d_k)
        logits, *present = self.session.run(None, inputs)
        self._read = tokens
        self._past = {one.name: held for one, held in zip(caches, present, strict=True)}
        return torch.from_numpy(logits)  # (B, T, V)

    def _held(self, tokens: Tensor) -> int:
        """How many of the tokens, from the left, the cache holds: those of the last text, or none."""
        if self._read is None or self._read.size(1) >= tokens.size(1):
            return 0
        begins = torch.equal(self._read, tokens[:, : self._read.size(1)])
        return self._read.size(1) if begins else 0


def _package(name: str) -> ModuleType:
    """A package that not everybody has."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} is missing, which ONNX needs here: {NEEDED}") from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says of torchvision, of tables that several layers share, of itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
