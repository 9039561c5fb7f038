"""Export of a model to ONNX: a file with a graph of operations and the weights, which runs without this code.

torch traces the model once with stand-ins for tensors, and writes the operations under ONNX's names. A graph
cannot contain Python objects, so a KV cache is passed in and out as tensors.

The exercises do not need these packages: `pip install onnx onnxscript onnxruntime`.

From symbols to names
    B, T            batch, time: tokens of a chunk
    T_past, T_k     tokens before the chunk, and both together
    N, G, d_k       n_layers, key/value heads, and their width
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
"""The version of ONNX's operations that torch exports to without a conversion, which may fail."""

NEEDED = "pip install onnx onnxscript onnxruntime"


class GrowingCache:
    """A `KVCache` for a graph: each layer's tensor grows, instead of filling preallocated memory.

    Attributes:
        keys, values: N tensors `(B, G, T_k, d_k)` each.
        length: T_past, the number of tokens before this chunk.
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
        """Append a chunk to one layer, and return all of its keys and values."""
        self.keys[layer] = torch.cat((self.keys[layer], key), dim=2)  # (B, G, T_k, d_k)
        self.values[layer] = torch.cat((self.values[layer], value), dim=2)  # (B, G, T_k, d_k)
        return self.keys[layer], self.values[layer]


class Traced(nn.Module):
    """A model as a function of tensors alone."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        past_keys: Float[Tensor, "N B G T_past d_k"] | None = None,
        past_values: Float[Tensor, "N B G T_past d_k"] | None = None,
    ) -> tuple[Tensor, ...]:
        """Return logits `(B, T, V)`, and with a past all keys and values, `(N, B, G, T_k, d_k)` each."""
        cache = () if past_keys is None else (GrowingCache(past_keys, past_values),)
        logits = self.model(tokens, *cache)
        if hasattr(self.model, "generator"):
            logits = self.model.generator(logits)
        return logits, *(
            torch.stack(tensor) for layer in cache for tensor in (layer.keys, layer.values)
        )


def export(model: nn.Module, file: str | Path, cache: bool = False) -> None:
    """Write a language model to one ONNX file, in evaluation mode.

    Without a cache, the input is `tokens`, int64 `(batch, time)`, and the output `logits`, `(batch, time,
    V)`. With a cache, there are also the inputs `past_keys` and `past_values`, `(N, batch, G, past, d_k)`,
    and the outputs `present_keys` and `present_values`, `(N, batch, G, past + time, d_k)`, which are the
    next chunk's inputs. At first `past` is 0. Batch, time and past may have any size, with past + time at
    most the model's context.

    Args:
        model: called as `model(tokens)`, or with a cache as `model(tokens, cache)`, such as a `CachedGPT` or
            a `LLaMA`; or `quantize_model` of one, whose weights are int8 in the file. If it has a
            `generator`, `logits` are log-probabilities.

    Raises:
        ModuleNotFoundError: a package is missing.
    """
    for name in ("onnx", "onnxscript"):
        _package(name)
    # 1. Copy the model, which tracing would modify, and disable dropout.
    model = copy.deepcopy(model)
    traced = Traced(model).eval()
    # 2. Make inputs to trace with. The axes named here may have any size in the file.
    weight = next(itertools.chain(model.parameters(), model.buffers()))
    tokens = torch.zeros(2, 3, dtype=torch.int64, device=weight.device)  # (B, T)
    inputs, sizes = {"tokens": tokens}, {"tokens": {0: "batch", 1: "time"}}
    if cache:
        keys = new_cache(model.config, batch=2, max_len=4).keys.to(weight.device)
        for name in ("past_keys", "past_values"):
            inputs[name] = torch.zeros_like(keys)  # (N, B, G, T_past, d_k)
            sizes[name] = {1: "batch", 3: "past"}
    # 3. Export. torch's optimizer would turn int8 weights back into float32; onnxruntime optimizes when it
    #    reads the file.
    with _quietly():
        torch.onnx.export(
            traced,
            tuple(inputs.values()),
            file,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=["logits", "present_keys", "present_values"][: len(inputs)],
            dynamic_shapes=tuple(sizes.values()),
            external_data=False,
            optimize=False,
            verbose=False,
        )


class OnnxModel(nn.Module):
    """An exported file in onnxruntime on the CPU, with the interface that `generate` of day 24 needs.

    Args:
        file: written by `export`.
        context: the maximum number of tokens, to which `generate` truncates; the file does not contain it.

    Raises:
        ModuleNotFoundError: onnxruntime is missing.
    """

    def __init__(self, file: str | Path, context: int):
        super().__init__()
        self.session = _package("onnxruntime").InferenceSession(
            str(file), providers=["CPUExecutionProvider"]
        )
        self.config = SimpleNamespace(context=context)
        self._read: Tensor | None = None  # all tokens so far, (B, t)
        self._past: dict = {}  # their keys and values, by input name

    def forward(self, tokens: Int[Tensor, "B t"]) -> Float[Tensor, "B T V"]:
        """Return logits: of all tokens, or with a cache of those that follow the previous call's.

        Tokens that do not continue the previous call's, as after a truncation, are all read.
        """
        inputs = {"tokens": tokens.numpy()}
        caches = [node for node in self.session.get_inputs() if node.name != "tokens"]
        if caches:
            past = self._cached(tokens)
            inputs["tokens"] = tokens[:, past:].numpy()  # (B, T)
            for entry in caches:
                n, _, g, _, d_k = entry.shape
                empty = torch.zeros(n, len(tokens), g, 0, d_k).numpy()
                inputs[entry.name] = (
                    self._past[entry.name] if past else empty
                )  # (N, B, G, T_past, d_k)
        logits, *present = self.session.run(None, inputs)
        self._read = tokens
        self._past = {node.name: value for node, value in zip(caches, present, strict=True)}
        return torch.from_numpy(logits)  # (B, T, V)

    def _cached(self, tokens: Tensor) -> int:
        """Return the number of leading tokens that are in the cache: all of the previous call's, or none."""
        if self._read is None or self._read.size(1) >= tokens.size(1):
            return 0
        begins = torch.equal(self._read, tokens[:, : self._read.size(1)])
        return self._read.size(1) if begins else 0


def _package(name: str) -> ModuleType:
    """Import an optional package."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} is missing: {NEEDED}") from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporter's warnings on torchvision, shared weights and itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
