"""Published weights under our names: one table per architecture.

A table maps the names in a state dict of Hugging Face's `transformers` to those in our modules, where `{n}`
is the index of a layer. Each function applies one table. The results share their memory with the inputs.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

GPT2 = {
    "wte.weight": "embed.weight",
    "wpe.weight": "positions.weight",
    "h.{n}.ln_1.weight": "blocks.{n}.norm_1.gain",
    "h.{n}.ln_1.bias": "blocks.{n}.norm_1.bias",
    "h.{n}.attn.c_attn.weight": "blocks.{n}.self_attn.w_qkv.weight",
    "h.{n}.attn.c_attn.bias": "blocks.{n}.self_attn.w_qkv.bias",
    "h.{n}.attn.c_proj.weight": "blocks.{n}.self_attn.w_o.weight",
    "h.{n}.attn.c_proj.bias": "blocks.{n}.self_attn.w_o.bias",
    "h.{n}.ln_2.weight": "blocks.{n}.norm_2.gain",
    "h.{n}.ln_2.bias": "blocks.{n}.norm_2.bias",
    "h.{n}.mlp.c_fc.weight": "blocks.{n}.feed_forward.w_1.weight",
    "h.{n}.mlp.c_fc.bias": "blocks.{n}.feed_forward.w_1.bias",
    "h.{n}.mlp.c_proj.weight": "blocks.{n}.feed_forward.w_2.weight",
    "h.{n}.mlp.c_proj.bias": "blocks.{n}.feed_forward.w_2.bias",
    "ln_f.weight": "norm.gain",
    "ln_f.bias": "norm.bias",
}


def gpt2(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `GPT2LMHeadModel` or a `GPT2Model` to that of `variants.gpt.GPT`.

    GPT-2's `Conv1D`s compute x W + b, so their weights are transposed. The tied head is left out, and so are
    the causal masks of old checkpoints.

    Raises:
        ValueError: a name that no GPT-2 has, or a head that is not the embedding.
    """
    weights = {name.removeprefix("transformer."): tensor for name, tensor in published.items()}
    # 1. Leave out the head, which is tied, and the masks.
    _drop_tied(weights, "lm_head.weight", "wte.weight")
    weights = {
        name: tensor
        for name, tensor in weights.items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))
    }
    # 2. Rename, and transpose the weights of Conv1D.
    return {
        _renamed(name, GPT2): tensor.T if re.search(r"\.c_\w+\.weight$", name) else tensor
        for name, tensor in weights.items()
    }


BERT = {
    "embeddings.word_embeddings.weight": "embed.weight",
    "embeddings.position_embeddings.weight": "positions.weight",
    "embeddings.token_type_embeddings.weight": "segments.weight",
    "embeddings.LayerNorm.weight": "norm.gain",
    "embeddings.LayerNorm.bias": "norm.bias",
    "encoder.layer.{n}.attention.self.query.weight": "encoder.layers.{n}.self_attn.w_q.weight",
    "encoder.layer.{n}.attention.self.query.bias": "encoder.layers.{n}.self_attn.w_q.bias",
    "encoder.layer.{n}.attention.self.key.weight": "encoder.layers.{n}.self_attn.w_k.weight",
    "encoder.layer.{n}.attention.self.key.bias": "encoder.layers.{n}.self_attn.w_k.bias",
    "encoder.layer.{n}.attention.self.value.weight": "encoder.layers.{n}.self_attn.w_v.weight",
    "encoder.layer.{n}.attention.self.value.bias": "encoder.layers.{n}.self_attn.w_v.bias",
    "encoder.layer.{n}.attention.output.dense.weight": "encoder.layers.{n}.self_attn.w_o.weight",
    "encoder.layer.{n}.attention.output.dense.bias": "encoder.layers.{n}.self_attn.w_o.bias",
    "encoder.layer.{n}.attention.output.LayerNorm.weight": "encoder.layers.{n}.sublayer.0.norm.gain",
    "encoder.layer.{n}.attention.output.LayerNorm.bias": "encoder.layers.{n}.sublayer.0.norm.bias",
    "encoder.layer.{n}.intermediate.dense.weight": "encoder.layers.{n}.feed_forward.w_1.weight",
    "encoder.layer.{n}.intermediate.dense.bias": "encoder.layers.{n}.feed_forward.w_1.bias",
    "encoder.layer.{n}.output.dense.weight": "encoder.layers.{n}.feed_forward.w_2.weight",
    "encoder.layer.{n}.output.dense.bias": "encoder.layers.{n}.feed_forward.w_2.bias",
    "encoder.layer.{n}.output.LayerNorm.weight": "encoder.layers.{n}.sublayer.1.norm.gain",
    "encoder.layer.{n}.output.LayerNorm.bias": "encoder.layers.{n}.sublayer.1.norm.bias",
    "cls.predictions.transform.dense.weight": "transform.dense.weight",
    "cls.predictions.transform.dense.bias": "transform.dense.bias",
    "cls.predictions.transform.LayerNorm.weight": "transform.norm.gain",
    "cls.predictions.transform.LayerNorm.bias": "transform.norm.bias",
    "cls.predictions.bias": "bias",
}


def bert(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `BertForMaskedLM` or `BertForPreTraining` to that of `variants.bert.BERT`.

    Old checkpoints call a LayerNorm's parameters `gamma` and `beta`. It leaves out the tied matrix of the
    head, next-sentence prediction (`pooler`, `seq_relationship`), and the position ids of old checkpoints.

    Raises:
        ValueError: a name that no BERT has, a head whose matrix is not the embedding, or whose biases differ.
    """
    weights = {}
    for name, tensor in published.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        weights[name.removeprefix("bert.")] = tensor
    # 1. Leave out tied copies.
    _drop_tied(weights, "cls.predictions.decoder.weight", "embeddings.word_embeddings.weight")
    _drop_tied(weights, "cls.predictions.decoder.bias", "cls.predictions.bias")
    # 2. Leave out what our model does not have, and rename.
    unused = ("pooler.", "cls.seq_relationship.", "embeddings.position_ids")
    return {
        _renamed(name, BERT): tensor
        for name, tensor in weights.items()
        if not name.startswith(unused)
    }


T5 = {
    "shared.weight": "embed.weight",
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": "encoder_bias.weight",
    "encoder.block.{n}.layer.0.SelfAttention.q.weight": "encoder.layers.{n}.self_attn.w_q.weight",
    "encoder.block.{n}.layer.0.SelfAttention.k.weight": "encoder.layers.{n}.self_attn.w_k.weight",
    "encoder.block.{n}.layer.0.SelfAttention.v.weight": "encoder.layers.{n}.self_attn.w_v.weight",
    "encoder.block.{n}.layer.0.SelfAttention.o.weight": "encoder.layers.{n}.self_attn.w_o.weight",
    "encoder.block.{n}.layer.0.layer_norm.weight": "encoder.layers.{n}.sublayer.0.norm.weight",
    "encoder.block.{n}.layer.1.DenseReluDense.wi.weight": "encoder.layers.{n}.feed_forward.w_1.weight",
    "encoder.block.{n}.layer.1.DenseReluDense.wi_0.weight": "encoder.layers.{n}.feed_forward.w_gate.weight",
    "encoder.block.{n}.layer.1.DenseReluDense.wi_1.weight": "encoder.layers.{n}.feed_forward.w_1.weight",
    "encoder.block.{n}.layer.1.DenseReluDense.wo.weight": "encoder.layers.{n}.feed_forward.w_2.weight",
    "encoder.block.{n}.layer.1.layer_norm.weight": "encoder.layers.{n}.sublayer.1.norm.weight",
    "encoder.final_layer_norm.weight": "encoder.norm.weight",
    "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": "decoder_bias.weight",
    "decoder.block.{n}.layer.0.SelfAttention.q.weight": "decoder.layers.{n}.self_attn.w_q.weight",
    "decoder.block.{n}.layer.0.SelfAttention.k.weight": "decoder.layers.{n}.self_attn.w_k.weight",
    "decoder.block.{n}.layer.0.SelfAttention.v.weight": "decoder.layers.{n}.self_attn.w_v.weight",
    "decoder.block.{n}.layer.0.SelfAttention.o.weight": "decoder.layers.{n}.self_attn.w_o.weight",
    "decoder.block.{n}.layer.0.layer_norm.weight": "decoder.layers.{n}.sublayer.0.norm.weight",
    "decoder.block.{n}.layer.1.EncDecAttention.q.weight": "decoder.layers.{n}.src_attn.w_q.weight",
    "decoder.block.{n}.layer.1.EncDecAttention.k.weight": "decoder.layers.{n}.src_attn.w_k.weight",
    "decoder.block.{n}.layer.1.EncDecAttention.v.weight": "decoder.layers.{n}.src_attn.w_v.weight",
    "decoder.block.{n}.layer.1.EncDecAttention.o.weight": "decoder.layers.{n}.src_attn.w_o.weight",
    "decoder.block.{n}.layer.1.layer_norm.weight": "decoder.layers.{n}.sublayer.1.norm.weight",
    "decoder.block.{n}.layer.2.DenseReluDense.wi.weight": "decoder.layers.{n}.feed_forward.w_1.weight",
    "decoder.block.{n}.layer.2.DenseReluDense.wi_0.weight": "decoder.layers.{n}.feed_forward.w_gate.weight",
    "decoder.block.{n}.layer.2.DenseReluDense.wi_1.weight": "decoder.layers.{n}.feed_forward.w_1.weight",
    "decoder.block.{n}.layer.2.DenseReluDense.wo.weight": "decoder.layers.{n}.feed_forward.w_2.weight",
    "decoder.block.{n}.layer.2.layer_norm.weight": "decoder.layers.{n}.sublayer.2.norm.weight",
    "decoder.final_layer_norm.weight": "decoder.norm.weight",
}


def t5(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `T5ForConditionalGeneration`, gated or not, to that of `variants.t5.T5`.

    It leaves out the tied head, both stacks' copies of the embedding, and the cross-attention bias of old
    checkpoints, which nothing reads.

    Raises:
        ValueError: a name that no T5 has, or a head that is not the embedding, as in T5 1.1.
    """
    weights = dict(published)
    # 1. Leave out tied copies, and what nothing reads.
    for double in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        _drop_tied(weights, double, "shared.weight")
    weights.pop("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", None)
    # 2. Rename.
    return {_renamed(name, T5): tensor for name, tensor in weights.items()}


LLAMA = {
    "embed_tokens.weight": "embed.weight",
    "layers.{n}.input_layernorm.weight": "blocks.{n}.attention_norm.gain",
    "layers.{n}.self_attn.q_proj.weight": "blocks.{n}.self_attn.w_q.weight",
    "layers.{n}.self_attn.k_proj.weight": "blocks.{n}.self_attn.w_k.weight",
    "layers.{n}.self_attn.v_proj.weight": "blocks.{n}.self_attn.w_v.weight",
    "layers.{n}.self_attn.o_proj.weight": "blocks.{n}.self_attn.w_o.weight",
    "layers.{n}.post_attention_layernorm.weight": "blocks.{n}.ffn_norm.gain",
    "layers.{n}.mlp.gate_proj.weight": "blocks.{n}.feed_forward.w_gate.weight",
    "layers.{n}.mlp.up_proj.weight": "blocks.{n}.feed_forward.w_up.weight",
    "layers.{n}.mlp.down_proj.weight": "blocks.{n}.feed_forward.w_down.weight",
    "norm.weight": "norm.gain",
    "lm_head.weight": "head.weight",
}


def llama(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `LlamaForCausalLM` or a `LlamaModel` to that of `variants.llama.LLaMA`.

    If there is no head (`tie_word_embeddings`), it is the embedding; the model then has it twice, and
    training would move the two apart. The frequencies of old checkpoints are left out.

    Raises:
        ValueError: a name that no LLaMA has, such as a bias.
    """
    # 1. Rename, without what we compute ourselves.
    weights = {
        _renamed(name.removeprefix("model."), LLAMA): tensor
        for name, tensor in published.items()
        if not name.endswith(".rotary_emb.inv_freq")
    }
    # 2. A tied head is the embedding.
    if "embed.weight" in weights:
        weights.setdefault("head.weight", weights["embed.weight"])
    return weights


def gpt2_published(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `variants.gpt.GPT` to that of a `GPT2LMHeadModel`: the inverse of `gpt2`.

    The head is left out, since it is the embedding. Linear weights are copied, as (in, out).

    Raises:
        ValueError: a name that no GPT has.
    """
    inverse = {our: their for their, our in GPT2.items()}
    renamed = {_renamed(name, inverse): tensor for name, tensor in ours.items()}
    return {
        f"transformer.{name}": tensor.T.contiguous()
        if re.search(r"\.c_\w+\.weight$", name)
        else tensor
        for name, tensor in renamed.items()
    }


def llama_published(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `variants.llama.LLaMA` to that of a `LlamaForCausalLM`.

    Raises:
        ValueError: a name that no LLaMA has.
    """
    inverse = {our: their for their, our in LLAMA.items()}
    renamed = {_renamed(name, inverse): tensor for name, tensor in ours.items()}
    return {
        name if name.startswith("lm_head.") else f"model.{name}": tensor
        for name, tensor in renamed.items()
    }


MIXTRAL_MOE = {
    "gate.weight": "router.w_r.weight",
    "experts.{n}.w1.weight": "experts.{n}.w_gate.weight",
    "experts.{n}.w3.weight": "experts.{n}.w_up.weight",
    "experts.{n}.w2.weight": "experts.{n}.w_down.weight",
}


def mixtral_moe(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `MixtralSparseMoeBlock` to that of `variants.moe.MixtureOfExperts`.

    `{n}` is the index of an expert, as in files on the hub (after `block_sparse_moe.`). From version 5.0,
    `transformers` stores all experts in one tensor: `gate_up_proj` (n_experts, 2 · d_ff, d_model), an
    expert's gate above its up projection, and `down_proj`.

    Raises:
        ValueError: a name that no such block has.
    """
    weights = dict(published)
    # 1. Split what is stored for all experts at once.
    for stacked, apart in (("gate_up_proj", ("w1", "w3")), ("down_proj", ("w2",))):
        for number, matrix in enumerate(weights.pop(f"experts.{stacked}", ())):
            for name, part in zip(apart, matrix.chunk(len(apart)), strict=True):
                weights[f"experts.{number}.{name}.weight"] = part
    # 2. Rename.
    return {_renamed(name, MIXTRAL_MOE): tensor for name, tensor in weights.items()}


MAMBA = {
    "embeddings.weight": "embed.weight",
    "layers.{n}.norm.weight": "blocks.{n}.norm.gain",
    "layers.{n}.mixer.in_proj.weight": "blocks.{n}.mixer.in_proj.weight",
    "layers.{n}.mixer.conv1d.weight": "blocks.{n}.mixer.conv1d.weight",
    "layers.{n}.mixer.conv1d.bias": "blocks.{n}.mixer.conv1d.bias",
    "layers.{n}.mixer.x_proj.weight": "blocks.{n}.mixer.x_proj.weight",
    "layers.{n}.mixer.dt_proj.weight": "blocks.{n}.mixer.dt_proj.weight",
    "layers.{n}.mixer.dt_proj.bias": "blocks.{n}.mixer.dt_proj.bias",
    "layers.{n}.mixer.A_log": "blocks.{n}.mixer.a_log",
    "layers.{n}.mixer.D": "blocks.{n}.mixer.d",
    "layers.{n}.mixer.out_proj.weight": "blocks.{n}.mixer.out_proj.weight",
    "norm_f.weight": "norm.gain",
}


def mamba(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the state dict of a `MambaForCausalLM` or a `MambaModel` to that of `variants.mamba.MambaLM`.

    In the authors' files, the name is `embedding`, not `embeddings`. The tied head is left out.

    Raises:
        ValueError: a name that no Mamba has, or a head that is not the embedding.
    """
    weights = {
        name.removeprefix("backbone.").replace("embedding.", "embeddings."): tensor
        for name, tensor in published.items()
    }
    # 1. Leave out the head, which is tied, and rename.
    _drop_tied(weights, "lm_head.weight", "embeddings.weight")
    return {_renamed(name, MAMBA): tensor for name, tensor in weights.items()}


def _drop_tied(weights: dict[str, Tensor], double: str, single: str) -> None:
    """Leave out a copy of a tied matrix. A file may have it under either name, or both."""
    tied = weights.pop(double, None)
    if tied is not None and not torch.equal(tied, weights.setdefault(single, tied)):
        raise ValueError(f"{double} must equal {single}: they are tied in our model")


def _renamed(name: str, table: Mapping[str, str]) -> str:
    """Return our name for a published one, with the layer's index carried over."""
    if name in table:  # a name that only a certain layer has
        return table[name]
    number = re.search(r"\.(\d+)\.", name)
    pattern = name if number is None else name.replace(number[0], ".{n}.", 1)
    if pattern not in table:
        raise ValueError(f"{name!r} is not the name of a weight in this architecture")
    return table[pattern] if number is None else table[pattern].replace("{n}", number[1])
