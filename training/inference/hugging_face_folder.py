"""Write a model that was trained here as a folder that `transformers` loads, with the files of
`save_pretrained`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from safetensors.torch import save_file
from tokenizers import Regex, decoders, models, pre_tokenizers

from training.data.vocabulary import BytePairs, Published, Symbols, Vocabulary
from training.errors import Refused
from training.inference.trained_model import TrainedModel
from training.models.architectures import is_quantized, state_of
from training.models.base_model import PublishedConfig
from variants.gpt import GPTConfig
from variants.hugging_face import gpt2_published, llama_published
from variants.llama import LLaMAConfig

EPS = 1e-5  # of the norms of GPT-2


def write(folder: Path, model: TrainedModel) -> None:
    """Write a GPT or a LLaMA, completely or not at all.

    Args:
        folder: a new or empty folder.

    Raises:
        Refused: the model is of a different kind, its weights are int8, or the folder is not empty
            or cannot be written.
    """
    kind, weights = model.settings.model, state_of(model.model)
    if not model.settings.of_language or kind not in ("gpt", "llama"):
        raise Refused(
            "--hugging-face is for language models with model=gpt or model=llama: transformers has no "
            f"class for task={model.settings.task}, model={kind}"
        )
    if is_quantized(weights):
        raise Refused("The weights are a byte each: export the run that they come from")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise Refused(f"{folder} already exists: --hugging-face takes a new folder")
    sizes, base = model.model.config, model.base
    if kind == "gpt":
        config, weights = _gpt2(sizes), gpt2_published(weights)
    else:
        config, weights = llama_settings(sizes, base), llama_published(weights)
    draft = folder.with_name(f"{folder.name}.part")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        tokenizer(model.languages.target).save(str(draft / "tokenizer.json"))
        _write(draft / "config.json", config | {"dtype": "float32"})
        _write(draft / "tokenizer_config.json", _tokenizer_config(base))
        if base is not None and base.ends:
            _write(draft / "generation_config.json", {"eos_token_id": base.ends})
        contiguous = {name: weight.cpu().contiguous() for name, weight in weights.items()}
        save_file(contiguous, draft / "model.safetensors", metadata={"format": "pt"})
        if folder.exists():
            folder.rmdir()
        draft.replace(folder)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise Refused(f"{folder} cannot be written: {error.strerror}") from error


def tokenizer(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Return a vocabulary as a tokenizer of Hugging Face's `tokenizers`: byte pairs, or a token for
    each character."""
    if isinstance(vocabulary, Published):
        return vocabulary.tokenizer
    if isinstance(vocabulary, BytePairs):
        return tokenizers.Tokenizer.from_str(json.dumps(vocabulary.as_json()["tokenizer"]))
    assert isinstance(vocabulary, Symbols) and not vocabulary.separator
    numbered = {symbol: number for number, symbol in enumerate(vocabulary.symbols)}
    result = tokenizers.Tokenizer(models.WordLevel(numbered, unk_token=""))
    result.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    result.decoder = decoders.Fuse()
    return result


def _tokenizer_config(base: PublishedConfig | None) -> dict[str, Any]:
    """With the special tokens and the chat template of a published model, where there are any."""
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if base is not None:
        config |= {name: token for name, token in base.specials.items() if token}
        config |= {"chat_template": base.template} if base.template else {}
    return config


def _gpt2(sizes: GPTConfig) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": sizes.vocab,
        "n_positions": sizes.context,
        "n_layer": sizes.n_layers,
        "n_head": sizes.n_heads,
        "n_embd": sizes.d_model,
        "n_inner": sizes.d_ff,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": EPS,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), sizes.dropout),
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def llama_settings(sizes: LLaMAConfig, base: PublishedConfig | None) -> dict[str, Any]:
    rope: Mapping[str, Any] | None = {"rope_type": "default"} if base is None else base.rope
    if rope is None:
        raise Refused(
            "The angles of this model are divided by numbers that a configuration of transformers cannot "
            "say: fine-tune the folder that its file was converted from"
        )
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": sizes.vocab,
        "max_position_embeddings": sizes.context,
        "num_hidden_layers": sizes.n_layers,
        "num_attention_heads": sizes.n_heads,
        "num_key_value_heads": sizes.n_kv_heads,
        "hidden_size": sizes.d_model,
        "intermediate_size": sizes.d_ff,
        "rms_norm_eps": sizes.eps,
        "hidden_act": "silu",
        "rope_parameters": {"rope_type": "default", **rope, "rope_theta": sizes.base},
        "rope_theta": sizes.base,  # as transformers 4 reads it
        "tie_word_embeddings": base is not None and base.tied,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
