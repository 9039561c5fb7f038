"""Read a published model's `config.json` as one of our configs; refuse features that our classes do not
compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from training.errors import Refused
from training.models.model_folder import CONFIG
from variants.gpt import GPTConfig
from variants.llama import LLaMAConfig
from variants.rope_scaling import linear_divisors, llama3_divisors


def gpt2(config: Mapping[str, Any]) -> GPTConfig:
    _only(
        config,
        activation_function=("gelu_new", "gelu_pytorch_tanh"),
        layer_norm_epsilon=(1e-5,),
        scale_attn_weights=(True,),
        scale_attn_by_inverse_layer_idx=(False,),
        add_cross_attention=(False,),
        tie_word_embeddings=(True,),
    )
    width = _size(config, "n_embd")
    return GPTConfig(
        vocab=_size(config, "vocab_size"),
        context=_size(config, "n_positions"),
        n_layers=_size(config, "n_layer"),
        n_heads=_size(config, "n_head"),
        d_model=width,
        d_ff=4 * width if config.get("n_inner") is None else _size(config, "n_inner"),
        dropout=0.0,
    )


def llama(config: Mapping[str, Any]) -> LLaMAConfig:
    _only(config, hidden_act=("silu",), attention_bias=(False,), mlp_bias=(False,))
    heads, width = _size(config, "num_attention_heads"), _size(config, "hidden_size")
    _only(config, head_dim=(width // heads, None))
    grouped = config.get("num_key_value_heads") is not None
    return LLaMAConfig(
        vocab=_size(config, "vocab_size"),
        context=_size(config, "max_position_embeddings"),
        n_layers=_size(config, "num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=_size(config, "num_key_value_heads") if grouped else heads,
        d_model=width,
        d_ff=_size(config, "intermediate_size"),
        eps=_number({"rms_norm_eps": 1e-6} | dict(config), "rms_norm_eps"),  # as in transformers
        base=_base(config),
    )


def mistral(config: Mapping[str, Any]) -> LLaMAConfig:
    """Read a Mistral's config. A Mistral attends to a window of the text; if the window holds the
    entire context, the model is a LLaMA."""
    context, window = _size(config, "max_position_embeddings"), config.get("sliding_window")
    if window is not None and _size(config, "sliding_window") < context:
        raise Refused(
            f"{CONFIG} has a sliding_window of {window} tokens, and a context of {context}: our class "
            "attends to all tokens before one"
        )
    return llama(config)


def rope_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise Refused(f"{CONFIG} has no table of rope parameters, but {rope!r}")
    return rope


def _base(config: Mapping[str, Any]) -> float:
    """The base of the angles."""
    return _number({"rope_theta": 10000.0} | dict(config) | rope_parameters(config), "rope_theta")


def rope_divisors(config: Mapping[str, Any]) -> Tensor | None:
    """Return the divisors of the angles, if these are scaled for longer texts."""
    rope = rope_parameters(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    head_dim = _size(config, "hidden_size") // _size(config, "num_attention_heads")
    if kind == "default":
        return None
    if kind == "linear":
        return linear_divisors(head_dim, _number(rope, "factor"))
    if kind == "llama3":
        low, high = _number(rope, "low_freq_factor"), _number(rope, "high_freq_factor")
        if not low < high:
            raise Refused(
                f"{CONFIG} must have low_freq_factor < high_freq_factor, got {low}, {high}"
            )
        original = _size(rope, "original_max_position_embeddings")
        factor = _number(rope, "factor")
        return llama3_divisors(head_dim, _base(config), factor, low, high, original)
    raise Refused(f"{CONFIG} has rope_type {kind!r}: our class computes default, linear and llama3")


def _only(config: Mapping[str, Any], **allowed: tuple[Any, ...]) -> None:
    """Refuse what our classes do not compute. What a config leaves out is as usual."""
    for key, values in allowed.items():
        if key in config and config[key] not in values:
            raise Refused(
                f"{CONFIG} has {key} {config[key]!r}, and our class computes {values[0]!r} alone"
            )


def _size(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise Refused(f"{CONFIG} must have {key}, a whole number above 0, and has {value!r}")
    return value


def _number(config: Mapping[str, Any], key: str) -> float:
    value: Any = config.get(key)
    if type(value) not in (int, float) or not value > 0:
        raise Refused(f"{CONFIG} must have {key}, a number above 0, and has {value!r}")
    return float(value)
