"""Files of GGUF in our LLaMA: as llama.cpp converts models, in every type of weights, whole and damaged."""

import contextlib
import json

import gguf
import numpy as np
import pytest
import tokenizers
import torch

from tests.training.conftest import QUIET
from tests.training.test_pretrained import LIKELIEST, PROMPT, tokenizer
from training.errors import Refused
from training.models import gguf_file
from training.models.gguf_tokenizer import SPACE, tokenizer_of
from training.models.hub import folder_of
from training.models.pretrained import Pretrained

BLOCK = 32  # weights that share a scale in most types
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
QUANTIZED = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
SUPER = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}  # types of 256 weights, and the bytes of a block


def llama(width=64, d_ff=96, tied=True, **how):
    """A random LLaMA of transformers, of widths that all blocks fit."""
    transformers = pytest.importorskip("transformers")
    from tests.reference.oracles import randomized

    torch.manual_seed(11)
    sizes = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=width,
        intermediate_size=d_ff,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=1,
        **{"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}} | how,
    )
    return randomized(transformers.LlamaForCausalLM(sizes)).eval()


@contextlib.contextmanager
def in_double(monkeypatch):
    """transformers computes angles and norms in float32 whatever the weights are: here in float64."""
    with monkeypatch.context() as patch:
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch, "float32", torch.float64)
        yield


def logits_in_double(theirs, ids, monkeypatch):
    with in_double(monkeypatch), torch.no_grad():
        double = type(theirs)(theirs.config).double().eval()
        double.load_state_dict(theirs.state_dict())
        return double(ids).logits


def permuted(weight, heads):
    """As `LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py does it."""
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


PARTS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
OTHERS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def converted(model):
    """Their weights by llama.cpp's names, queries and keys in its order."""
    config = model.config
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        weight = tensor.numpy()
        if name in OTHERS:
            tensors[OTHERS[name]] = weight
            continue
        _, _, number, rest = name.split(".", 3)
        if rest.startswith(("self_attn.q", "self_attn.k")):
            heads = config.num_attention_heads if "q_proj" in rest else config.num_key_value_heads
            weight = permuted(weight, heads)
        tensors[f"blk.{number}.{PARTS[rest.removesuffix('.weight')]}.weight"] = weight
    return tensors


def facts_of(config, **changes):
    facts = {
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.freq_base": config.rope_parameters["rope_theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
    }
    state = json.loads(tokenizer().to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].get)
    facts |= {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in ("<s>", "</s>") else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in state["merges"]],
    }
    return {key: value for key, value in (facts | changes).items() if value is not None}


def write(path, tensors, facts, kind="F32", architecture="llama"):
    """A file with matrices of one type and gains in float32, as llama.cpp quantizes."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in facts.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    of = gguf.GGMLQuantizationType[kind]
    for name, weight in tensors.items():
        if weight.dtype == np.uint8:
            writer.add_tensor(name, weight, raw_dtype=of)
        elif weight.ndim == 1 or kind == "F32":
            writer.add_tensor(name, weight.astype(np.float32))
        else:
            writer.add_tensor(name, gguf.quantize(weight, of), raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def written(path, kind="F32", model=None, tensors=None, **changes):
    model = model or llama()
    write(path, tensors or converted(model), facts_of(model.config, **changes), kind)
    return model


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.gguf"


# --- What is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "a head"])
def test_the_logits_are_those_of_the_converted_model(file, tied, monkeypatch):
    theirs = written(file, model=llama(tied=tied))
    ids = torch.tensor([[5, 90, 17, 255, 3, 44, 120, 8]])
    ours = Pretrained.load(file, "cpu")
    got = ours.model.double()(ids).detach()
    expected = logits_in_double(theirs, ids, monkeypatch)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert expected.std() > 0.1


@pytest.mark.parametrize("kind", QUANTIZED)
def test_every_type_is_what_the_library_dequantizes(file, kind):
    """Each row by the library's own function, and queries and keys as transformers has them."""
    theirs = written(file, kind)
    weights = gguf_file.read(file).weights
    for name, heads in (("attn_q", 8), ("attn_k", 2), ("attn_v", None), ("ffn_down", None)):
        weight = converted(theirs)[f"blk.1.{name}.weight"]
        of = gguf.GGMLQuantizationType[kind]
        expected = torch.from_numpy(gguf.dequantize(gguf.quantize(weight, of), of))
        ours = gguf_file.LAYER_NAMES[f"{name}.weight"]
        got = weights[f"blocks.1.{ours}"]
        assert got.dtype == torch.float32
        assert torch.equal(
            torch.from_numpy(permuted(got.numpy(), heads)) if heads else got, expected
        )


@pytest.mark.parametrize("kind", SUPER)
def test_super_blocks_are_read(file, kind):
    """Random bytes with scales that are numbers: the library writes none of these types itself."""
    model = llama(width=256, d_ff=256)
    random = np.random.default_rng(0)
    tensors = {}
    for name, weight in converted(model).items():
        tensors[name] = weight
        if weight.ndim == 2:
            blocks = random.integers(0, 256, (weight.size // 256, SUPER[kind]), dtype=np.uint8)
            scales = slice(208, 210) if kind == "Q6_K" else slice(0, 4)
            halves = random.uniform(0.001, 0.01, (len(blocks), 2)).astype(np.float16).view(np.uint8)
            blocks[:, scales] = halves[:, : scales.stop - scales.start]
            tensors[name] = blocks.reshape(len(weight), -1)
    written(file, kind, model, tensors)
    weights = gguf_file.read(file).weights
    of = gguf.GGMLQuantizationType[kind]
    expected = gguf.dequantize(tensors["blk.0.ffn_up.weight"], of)
    assert torch.equal(weights["blocks.0.feed_forward.w_up.weight"], torch.from_numpy(expected))
    assert torch.equal(weights["head.weight"], weights["embed.weight"])


def test_rows_are_dequantized_a_few_at_a_time(file, monkeypatch):
    written(file, "Q4_1")
    expected = gguf_file.read(file).weights
    monkeypatch.setattr(gguf_file, "AT_ONCE", 200)
    for name, weight in gguf_file.read(file).weights.items():
        assert torch.equal(weight, expected[name]), name


def test_a_greedy_continuation_is_that_of_transformers(file):
    theirs = written(file)
    ours = Pretrained.load(file, "cpu")
    ids = torch.tensor([tokenizer().encode(PROMPT).ids])
    assert ours.encode(PROMPT) == ids[0].tolist()
    expected = theirs.generate(ids, max_new_tokens=32, do_sample=False, pad_token_id=0)[0]
    text = "".join(ours.generate(PROMPT, 32, LIKELIEST))
    assert PROMPT + text == ours.decode(expected)
    assert len(set(expected[ids.size(1) :].tolist())) > 4


@pytest.mark.slow
def test_a_file_is_a_model_for_the_command(file, course):
    written(file)
    assert folder_of(str(file), None, QUIET) == file
    done = course("generate", "--pretrained", file, "--prompt", PROMPT, "--tokens", 5,
                  "--temperature", 0)  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours = Pretrained.load(file, "cpu")
    assert done.stdout == PROMPT + "".join(ours.generate(PROMPT, 5, LIKELIEST)) + "\n"


def test_ends_and_template_come_from_the_metadata(file):
    written(file, **{"tokenizer.ggml.eot_token_id": 7})
    contents = gguf_file.read(file)
    assert contents.ends == {1, 7}
    assert (contents.template, contents.specials) == (
        TEMPLATE,
        {"bos_token": "<s>", "eos_token": "</s>"},
    )


def test_linear_scaling_divides_the_angles(file, monkeypatch):
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
    theirs = llama(rope_parameters=rope)
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    written(file, model=theirs, **scaling)
    ids = torch.arange(5, 35)[None]
    got = Pretrained.load(file, "cpu").model.double()(ids).detach()
    expected = logits_in_double(theirs, ids, monkeypatch)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def test_factors_divide_the_angles(file):
    """LLaMA 3's stretched angles are a tensor, a divisor for each pair."""
    model = llama()
    factors = np.array([1.0, 1.0, 2.0, 8.0], dtype=np.float32)
    written(file, tensors=converted(model) | {gguf_file.FACTORS: factors})
    plain = written(file.with_name("plain.gguf"))
    assert plain is not None
    stretched, usual = (
        Pretrained.load(path, "cpu").model.blocks[1].self_attn.angles
        for path in (file, file.with_name("plain.gguf"))
    )
    torch.testing.assert_close(stretched * torch.from_numpy(factors).double(), usual)
    written(file, tensors=converted(model) | {gguf_file.FACTORS: factors[:2]})
    with pytest.raises(Refused, match=r"rope_freqs\.weight must be 4 numbers above 0"):
        Pretrained.load(file, "cpu")


# --- Tokenizers -----------------------------------------------------------------------------------


def facts_for(**facts):
    return {f"tokenizer.ggml.{name}": value for name, value in facts.items()}.get


def test_digits_are_single_tokens_where_the_model_splits_them():
    tokens = [*pre_alphabet(), "12"]
    facts = {"model": "gpt2", "tokens": tokens, "merges": ["1 2"], "pre": "smollm"}
    assert tokenizer_of(facts_for(**facts)).encode("12").tokens == ["1", "2"]
    assert tokenizer_of(facts_for(**facts | {"pre": "gpt-2"})).encode("12").tokens == ["12"]


def pre_alphabet():
    return sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def test_a_text_begins_with_the_token_for_that():
    tokens = ["<|begin|>", *pre_alphabet()]
    facts = {"model": "gpt2", "tokens": tokens, "token_type": [3] + [1] * (len(tokens) - 1),
             "merges": ["a b"], "pre": "llama-bpe", "bos_token_id": 0}  # fmt: skip
    facts["tokens"] = [*tokens, "ab"]
    facts["token_type"] = [*facts["token_type"], 1]
    assert tokenizer_of(facts_for(**facts)).encode("ab").tokens == ["<|begin|>", "ab"]
    without = facts_for(**facts, add_bos_token=False)
    assert tokenizer_of(without).encode("ab").tokens == ["ab"]


def test_sentencepiece_merges_by_score():
    """Pieces with better scores come first, spaces are ▁, and what has no piece is bytes."""
    pieces = [SPACE, "a", "b", "c", "ab", "bc", f"{SPACE}ab", "abc"]
    scores = [-9.0, -9.0, -9.0, -9.0, -2.0, -1.0, -3.0, -4.0]
    bytes_ = [f"<0x{n:02X}>" for n in range(256)]
    facts = {"model": "llama", "tokens": ["<unk>", "<s>", *bytes_, *pieces],
             "scores": [0.0] * 258 + scores, "token_type": [2, 3] + [6] * 256 + [1] * 8,
             "bos_token_id": 1, "add_bos_token": True}  # fmt: skip
    merged = tokenizer_of(facts_for(**facts))
    encoded = merged.encode("ab abc é")
    assert encoded.tokens == [
        "<s>", f"{SPACE}ab", SPACE, "abc", SPACE, "<0xC3>", "<0xA9>"
    ]  # fmt: skip
    assert merged.decode(encoded.ids) == "ab abc é"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"model": "bert"}, "the tokenizer is of kind 'bert'"),
        ({"pre": "qwen2"}, "tokenizer.ggml.pre is 'qwen2': the ways .* smollm"),
        ({"merges": None}, "merges must be a list of texts"),
        ({"merges": ["no such"]}, "do not make a tokenizer"),
        ({"tokens": [1, 2]}, "tokens must be a list of texts"),
        ({"tokens": ["a", "a"]}, "has a token twice"),
        ({"token_type": [1]}, "one number for each token"),
        ({"model": "llama"}, "scores must have one number for each token"),
        ({"bos_token_id": 999, "add_bos_token": True}, "bos_token_id is 999, and there is no"),
    ],
)
def test_what_makes_no_tokenizer_is_refused(facts, words):
    complete = {
        "model": "gpt2",
        "tokens": [*pre_alphabet(), "12"],
        "merges": ["1 2"],
        "pre": "gpt-2",
    }
    with pytest.raises(Refused, match=words):
        tokenizer_of(facts_for(**complete | facts))


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llama.expert_count": 8}, "a mixture of 8 experts"),
        ({"split.count": 3}, "one of 3 parts of a model"),
        ({"llama.block_count": None}, "llama.block_count must be a whole number above 0, got None"),
        ({"llama.block_count": 3}, "another model: blocks.2"),
        ({"llama.embedding_length": 60}, "head_count must divide embedding_length, got 8 and 60"),
        ({"llama.attention.key_length": 16}, "key_length is 16, and our class computes"),
        ({"llama.rope.dimension_count": 4}, "dimension_count is 4, and our class computes"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "epsilon must be a number above 0"),
        ({"llama.attention.head_count_kv": 3}, "an even number of rows for each of 3 heads"),
        ({"llama.rope.scaling.type": "yarn"}, "scaling.type is 'yarn': our class computes none"),
        ({"tokenizer.chat_template": 7}, "chat_template must be a text, got 7"),
    ],
)  # fmt: skip
def test_a_model_that_our_class_does_not_compute_is_refused(file, changes, words):
    written(file, **changes)
    with pytest.raises(Refused, match=words):
        Pretrained.load(file, "cpu")


def test_another_architecture_is_refused_by_its_name(file):
    model = llama()
    write(file, converted(model), facts_of(model.config), architecture="qwen2")
    with pytest.raises(Refused, match="the architecture is 'qwen2': our class for GGUF files"):
        Pretrained.load(file, "cpu")


def test_weights_that_a_llama_has_not_are_named(file):
    tensors = converted(llama())
    written(file, tensors=tensors | {"blk.0.attn_q.bias": np.ones(64, dtype=np.float32)})
    with pytest.raises(Refused, match=r"'blk\.0\.attn_q\.bias' is not the name of a weight"):
        Pretrained.load(file, "cpu")
    written(
        file, tensors={name: tensor for name, tensor in tensors.items() if "token_embd" not in name}
    )
    with pytest.raises(Refused, match=r"no matrix token_embd\.weight"):
        Pretrained.load(file, "cpu")
    tensors["output_norm.weight"] = np.full(64, np.nan, dtype=np.float32)
    written(file, tensors=tensors)
    with pytest.raises(Refused, match=r"output_norm\.weight holds numbers that are not finite"):
        Pretrained.load(file, "cpu")


def test_a_type_of_weights_that_is_not_read_is_named(file):
    raw = np.zeros((4, 64 // 32 * 18), dtype=np.uint8)
    written(file, "IQ4_NL", tensors={"token_embd.weight": raw})
    with pytest.raises(Refused, match=r"token_embd\.weight is of type IQ4_NL: F32, F16"):
        Pretrained.load(file, "cpu")


def test_a_file_that_is_truncated_anywhere_is_refused(file):
    written(file, "Q8_0")
    body = file.read_bytes()
    for length in [0, 3, 4, 8, 20, *range(24, len(body), len(body) // 40), len(body) - 40]:
        file.write_bytes(body[:length])
        with pytest.raises(Refused, match=r"model\.gguf"):
            Pretrained.load(file, "cpu")


def test_a_file_with_a_damaged_head_is_refused(file):
    """Lengths and types that are other numbers end in words, whatever the library makes of them."""
    written(file, "Q8_0")
    body = file.read_bytes()
    for position in range(4, 400, 9):
        damaged = bytearray(body)
        damaged[position : position + 8] = b"\xff" * 8
        file.write_bytes(damaged)
        with contextlib.suppress(Refused):  # a byte of a name may be any
            Pretrained.load(file, "cpu")
    file.write_bytes(b"GGUX" + body[4:])
    with pytest.raises(Refused, match="is not a GGUF file: it does not begin with GGUF"):
        Pretrained.load(file, "cpu")
