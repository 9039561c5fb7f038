"""Published weights in our own classes: folders as transformers writes them, whole and damaged."""

import hashlib
import io
import json
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import safetensors.torch
import tokenizers
import torch
from huggingface_hub import constants

from tests.reference.oracles import randomized
from tests.training.conftest import POETRY, QUIET
from training.errors import Refused
from training.generation.generate import Sampling
from training.models import model_folder
from training.models.hub import folder_of
from training.models.pretrained import Pretrained
from variants.rope import rope_angles

PROMPT = "7 green bottles"
LIKELIEST = Sampling(temperature=0.0)
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 500_000.0}


def published(kind):
    """transformers' model of a kind, with random weights that make it say more than one word."""
    transformers = pytest.importorskip("transformers")
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    if kind == "gpt2":
        sizes = transformers.GPT2Config(
            vocab_size=300, n_positions=64, n_embd=24, n_layer=2, n_head=3, **ends
        )
        model = transformers.GPT2LMHeadModel(sizes).eval()
        for name, parameter in model.named_parameters():
            gain = "ln" in name and "weight" in name
            deviation = 0.1 if "bias" in name else 0.5
            torch.nn.init.normal_(parameter, float(gain), deviation)
        return model
    sizes = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rope_parameters=ROPE,
        tie_word_embeddings=kind == "llama tied",
        **ends,
    )
    return randomized(transformers.LlamaForCausalLM(sizes)).eval()


def tokenizer():
    """Byte pairs, and nothing before a text."""
    result = tokenizers.Tokenizer(tokenizers.models.BPE())
    result.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    result.train_from_iterator(POETRY.splitlines(keepends=True), trainer)
    return result


def written(folder, kind, **how):
    torch.manual_seed(11)
    model = published(kind)
    model.save_pretrained(folder, **how)
    tokenizer().save(str(folder / "tokenizer.json"))
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each kind, written once."""
    root = tmp_path_factory.mktemp("published")
    for kind in ("gpt2", "llama"):
        written(root / kind, kind)
    return root


@pytest.fixture
def copy(folders, tmp_path):
    """A folder that a test may damage."""

    def made(kind="gpt2"):
        return shutil.copytree(folders / kind, tmp_path / kind.replace(" ", "_"))

    return made


# --- What they say --------------------------------------------------------------------------------


@pytest.mark.parametrize("shard", [None, "20KB"], ids=["one file", "shards"])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "llama tied"])
def test_a_greedy_continuation_is_that_of_transformers(kind, shard, tmp_path):
    """Read with the cache on both sides, 32 tokens from the prompt on."""
    how = {"max_shard_size": shard} if shard else {}
    theirs = written(tmp_path, kind, **how)
    assert (tmp_path / model_folder.INDEX).exists() == bool(shard)
    ours = Pretrained.load(tmp_path, "cpu")
    ids = torch.tensor([ours.encode(PROMPT)])
    expected = theirs.generate(ids, max_new_tokens=32, do_sample=False, pad_token_id=0)[0]
    text = "".join(ours.generate(PROMPT, 32, LIKELIEST))
    assert PROMPT + text == ours.decode(expected)
    assert len(set(expected[ids.size(1) :].tolist())) > 4
    with torch.no_grad():
        torch.testing.assert_close(ours.model(expected[None]), theirs(expected[None]).logits)


@pytest.mark.slow
def test_the_command_prints_it(folders, course):
    done = course("generate", "--pretrained", folders / "llama", "--prompt", PROMPT,
                  "--tokens", 8, "--temperature", 0)  # fmt: skip
    ours = Pretrained.load(folders / "llama", "cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout == PROMPT + "".join(ours.generate(PROMPT, 8, LIKELIEST)) + "\n"


def test_a_text_ends_where_the_model_ends_it(copy):
    folder = copy()
    ours = Pretrained.load(folder, "cpu")
    ids = ours.encode(PROMPT)
    following = int(ours.model(torch.tensor([ids]))[0, -1].argmax())
    ends = json.loads((folder / model_folder.ENDS).read_text())
    (folder / model_folder.ENDS).write_text(json.dumps(ends | {"eos_token_id": [1, following]}))
    assert "".join(Pretrained.load(folder, "cpu").generate(PROMPT, 9, LIKELIEST)) == ""


def rewrite(path, **changes):
    """Change keys of a JSON file; None takes one away."""
    entries = (json.loads(path.read_text()) if path.exists() else {}) | changes
    path.write_text(json.dumps({key: value for key, value in entries.items() if value is not None}))


@pytest.mark.parametrize("token", ["</s>", {"__type": "AddedToken", "content": "</s>"}])
def test_the_end_comes_from_the_first_file_that_names_one(copy, token):
    """A file for generating without an end hides no other, and the tokenizer's is the last resort."""
    folder = copy()
    rewrite(folder / model_folder.TOKENIZER_CONFIG, eos_token=token)
    rewrite(folder / model_folder.CONFIG, eos_token_id=5)
    rewrite(folder / model_folder.ENDS, eos_token_id=[6, 7])
    assert Pretrained.load(folder, "cpu").ends == {6, 7}
    rewrite(folder / model_folder.ENDS, eos_token_id=None, temperature=0.6)
    assert Pretrained.load(folder, "cpu").ends == {5}
    rewrite(folder / model_folder.CONFIG, eos_token_id=None)
    assert Pretrained.load(folder, "cpu").ends == {1}
    rewrite(folder / model_folder.TOKENIZER_CONFIG, eos_token="no token of this tokenizer")
    assert Pretrained.load(folder, "cpu").ends == set()


def test_weights_keep_their_dtype(copy):
    folder = copy("llama")
    published("llama").bfloat16().save_pretrained(folder)
    ours = Pretrained.load(folder, "cpu")
    assert {weight.dtype for weight in ours.model.parameters()} == {torch.bfloat16}
    assert "".join(ours.generate(PROMPT, 4, LIKELIEST))


def test_what_transformers_would_read_too_is_read(copy):
    """Weights saved as `torch.compile` returns a model, and a config without what is as usual."""
    folder = copy("llama")
    path, config = folder / model_folder.WEIGHTS, folder / model_folder.CONFIG
    expected = Pretrained.load(folder, "cpu").model.state_dict()
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(
        {f"_orig_mod.{name}": tensor for name, tensor in tensors.items()}, path
    )
    entries = {
        key: value for key, value in json.loads(config.read_text()).items() if key != "rms_norm_eps"
    }
    config.write_text(json.dumps(entries))
    ours = Pretrained.load(folder, "cpu").model
    assert all(torch.equal(tensor, expected[name]) for name, tensor in ours.state_dict().items())
    assert ours.config.eps == 1e-6


# --- Relatives of LLaMA ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("Llama", {"rope_parameters": LLAMA3}),
        ("Llama", {"rope_parameters": ROPE | {"rope_type": "linear", "factor": 4.0}}),
        ("Mistral", {"sliding_window": None}),
        ("Mistral", {"sliding_window": 64}),
        ("Llama", {"tie_word_embeddings": True}),
    ],
    ids=["llama3", "linear", "mistral", "mistral with a wide window", "tied"],
)
def test_the_logits_are_those_of_transformers(name, how, tmp_path, monkeypatch):
    """To 1e-10 in float64, where every pair of angles counts."""
    from tests.training.test_gguf_file import logits_in_double

    transformers = pytest.importorskip("transformers")
    sizes = getattr(transformers, f"{name}Config")(
        vocab_size=300, hidden_size=48, intermediate_size=40, num_hidden_layers=2, head_dim=None,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, **how,
    )  # fmt: skip
    theirs = randomized(getattr(transformers, f"{name}ForCausalLM")(sizes)).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    ids = torch.arange(3, 63)[None]
    expected = logits_in_double(theirs, ids, monkeypatch)
    got = Pretrained.load(tmp_path, "cpu").model.double()(ids).detach()
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert expected.std() > 0.1


def test_older_configurations_stretch_angles_too(copy):
    """transformers 4 wrote `rope_scaling` beside `rope_theta`."""
    folder = copy("llama")
    scaling = {name: value for name, value in LLAMA3.items() if name != "rope_theta"}
    rewrite(folder / model_folder.CONFIG, rope_parameters=None, rope_scaling=scaling,
            rope_theta=10_000.0)  # fmt: skip
    older = Pretrained.load(folder, "cpu").model.blocks[0].self_attn.angles
    rewrite(
        folder / model_folder.CONFIG, rope_parameters=LLAMA3, rope_scaling=None, rope_theta=None
    )
    newer = Pretrained.load(folder, "cpu").model.blocks[0].self_attn.angles
    plain = rope_angles(4, 64)
    assert torch.equal(older, newer) and not torch.equal(older, plain)


# --- What is refused ------------------------------------------------------------------------------


def change(folder, **changes):
    path = folder / model_folder.CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("gpt2", {"model_type": "mamba"}, "of type 'mamba': there are classes for gpt2, llama, mistral"),
        ("gpt2", {"model_type": "llama"}, "must have num_attention_heads, a whole number above 0"),
        ("gpt2", {"activation_function": "relu"}, "activation_function 'relu', .* 'gelu_new' alone"),
        ("gpt2", {"n_layer": 3}, "another model: blocks.2"),
        ("gpt2", {"n_head": 5}, "n_heads must divide d_model, got n_heads=5, d_model=24"),
        ("gpt2", {"n_embd": "wide"}, "must have n_embd, a whole number above 0, and has 'wide'"),
        ("gpt2", {"vocab_size": 200}, "another model: embed.weight"),
        ("llama", {"rope_parameters": ROPE | {"rope_type": "yarn"}}, "rope_type 'yarn': our class"),
        ("llama", {"rope_parameters": ROPE | {"rope_type": "linear"}}, "must have factor, a number"),
        ("llama", {"rope_parameters": LLAMA3 | {"high_freq_factor": 1.0}}, "got 1.0, 1.0"),
        ("llama", {"model_type": "mistral", "sliding_window": 32}, "sliding_window of 32 tokens"),
        ("llama", {"num_key_value_heads": 4}, "n_kv_heads=4, n_heads=6"),
        ("llama", {"attention_bias": True}, "attention_bias True"),
        ("llama", {"head_dim": 8}, "head_dim 8, and our class computes 4 alone"),
        ("llama", {"rms_norm_eps": None}, "rms_norm_eps, a number above 0, and has None"),
        ("llama", {"intermediate_size": 41}, "another model: blocks.0.feed_forward"),
    ],
)  # fmt: skip
def test_a_config_of_another_model_is_refused(copy, kind, changes, words):
    folder = copy(kind)
    change(folder, **changes)
    with pytest.raises(Refused, match=words):
        Pretrained.load(folder, "cpu")


@pytest.mark.parametrize(
    "name", [model_folder.CONFIG, model_folder.TOKENIZER, model_folder.WEIGHTS]
)
@pytest.mark.parametrize("body", [None, b"", b"{", "half", b"[]", b"\xff\xfe\x00"])
def test_a_file_that_is_missing_or_damaged_is_named(copy, name, body):
    folder = copy()
    if body is None:
        (folder / name).unlink()
    else:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2] if body == "half" else body)
    with pytest.raises(Refused, match=name):
        Pretrained.load(folder, "cpu")


def test_a_tokenizer_may_know_more_than_the_model(copy):
    """Padding and added tokens need no row of the embedding until a prompt holds one."""
    folder = copy()
    expected = "".join(Pretrained.load(folder, "cpu").generate(PROMPT, 9, LIKELIEST))
    larger = tokenizer()
    larger.add_tokens([f"word{number}" for number in range(100)])
    larger.save(str(folder / model_folder.TOKENIZER))
    ours = Pretrained.load(folder, "cpu")
    assert "".join(ours.generate(PROMPT, 9, LIKELIEST)) == expected != ""
    words = r"no embedding for the token 'word7' \(id 307\): the tokenizer has 400 .* the model 300"
    with pytest.raises(Refused, match=words):
        list(ours.generate("word7", 9, LIKELIEST))


def test_an_adapter_is_no_model(tmp_path):
    base = {"peft_type": "LORA", "base_model_name_or_path": "some/model"}
    (tmp_path / model_folder.ADAPTER).write_text(json.dumps(base))
    with pytest.raises(
        Refused, match=r"a LoRA adapter: .* the weights of 'some/model', not a model"
    ):
        Pretrained.load(tmp_path, "cpu")


@pytest.mark.parametrize("name", model_folder.SLOW_TOKENIZERS)
def test_a_slow_tokenizer_is_to_be_converted(copy, name):
    folder = copy()
    (folder / model_folder.TOKENIZER).rename(folder / name)
    with pytest.raises(Refused, match=rf"has {name} and no tokenizer\.json. Convert it once"):
        Pretrained.load(folder, "cpu")


@pytest.mark.parametrize("name", [model_folder.TOKENIZER, model_folder.WEIGHTS, "model.gguf"])
def test_a_pointer_of_git_lfs_is_no_file(copy, name):
    folder = copy()
    (folder / name).write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    )
    path = folder / name if name.endswith("gguf") else folder
    with pytest.raises(Refused, match=rf"{name} is a git-lfs pointer, .* `git lfs pull`"):
        Pretrained.load(path, "cpu")


def test_a_pickle_is_not_read(copy):
    folder = copy()
    (folder / model_folder.WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(Refused, match=r"pytorch_model\.bin is a pickle, which may run code"):
        Pretrained.load(folder, "cpu")


def test_weights_that_are_no_numbers_of_a_kind_are_refused(copy):
    from safetensors.torch import load_file, save_file

    folder = copy()
    weights = load_file(folder / model_folder.WEIGHTS)
    save_file(weights | {"x": torch.ones(2, dtype=torch.int8)}, folder / model_folder.WEIGHTS)
    with pytest.raises(Refused, match=r"holds x as torch\.int8"):
        Pretrained.load(folder, "cpu")
    save_file(weights | {"h.0.extra.weight": torch.ones(2)}, folder / model_folder.WEIGHTS)
    with pytest.raises(Refused, match=r"is not a gpt2 model: 'h\.0\.extra\.weight'"):
        Pretrained.load(folder, "cpu")


def test_a_llama_without_its_head_is_refused(copy):
    from safetensors.torch import load_file, save_file

    folder = copy("llama")
    weights = load_file(folder / model_folder.WEIGHTS)
    del weights["lm_head.weight"]
    save_file(weights, folder / model_folder.WEIGHTS)
    with pytest.raises(Refused, match=r"is not a llama model: there is no lm_head\.weight"):
        Pretrained.load(folder, "cpu")


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "x.bin", 7])
def test_an_index_names_only_files_beside_it(copy, file):
    folder = copy()
    (folder / model_folder.WEIGHTS).unlink()
    index = {"weight_map": {"transformer.wte.weight": file}}
    (folder / model_folder.INDEX).write_text(json.dumps(index))
    with pytest.raises(Refused, match=r"which is not a \.safetensors file beside it"):
        Pretrained.load(folder, "cpu")


def test_a_shard_that_lacks_what_its_index_says_is_named(tmp_path):
    written(tmp_path, "gpt2", max_shard_size="20KB")
    index = json.loads((tmp_path / model_folder.INDEX).read_text())
    first, *_, other = sorted(set(index["weight_map"].values()))
    shutil.copyfile(tmp_path / first, tmp_path / other)
    with pytest.raises(
        Refused, match=f"{other} has no .*, which model.safetensors.index.json says"
    ):
        Pretrained.load(tmp_path, "cpu")
    (tmp_path / other).unlink()
    with pytest.raises(Refused, match=f"{other} cannot be read"):
        Pretrained.load(tmp_path, "cpu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "takes one model: RUN, FILE, or --pretrained"),
        (["run", "--pretrained", "gpt2"], "takes one model: RUN, FILE, or --pretrained"),
        (
            ["--pretrained", "nothing"],
            "no folder or file nothing, and a published model is one of smollm2-135m, gpt2,",
        ),
        (["--pretrained", "../up/down"], "no folder or file ../up/down"),
    ],
)
def test_what_is_no_model_is_refused(course_here, arguments, words):
    done = course_here("generate", *arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


# --- What is fetched ------------------------------------------------------------------------------


COMMIT = "0123456789" * 4


class Hub(SimpleHTTPRequestHandler):
    """The parts of the hub's HTTP interface that a download uses; `site` is the folder that it serves."""

    site: Path
    requests: list[str]

    def log_message(self, *words):
        pass

    def send_head(self):
        self.requests.append(self.path)
        kind, *parts = self.path.partition("?")[0].strip("/").split("/")
        if kind == "api" and not (self.site / parts[2]).is_dir():
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if kind == "api":  # models/owner/model/revision/main or …/tree/COMMIT
            files = [path for path in (self.site / parts[2]).iterdir() if path.is_file()]
            answer = {"id": "/".join(parts[1:3]), "sha": COMMIT}
            if parts[3] == "tree":
                answer = [self.entry(path) for path in files]
            return self.sent(json.dumps(answer).encode(), "application/json", '"tree"')
        path = self.site / parts[0] / parts[-1]  # owner/model/resolve/COMMIT/file
        return self.sent(path.read_bytes(), "application/octet-stream", f'"{self.digest(path)}"')

    def sent(self, body, kind, etag):
        self.send_response(200)
        headers = {"Content-Length": len(body), "Content-Type": kind, "ETag": etag}
        for name, value in (headers | {"X-Repo-Commit": COMMIT}).items():
            self.send_header(name, str(value))
        self.end_headers()
        return io.BytesIO(body)

    @staticmethod
    def digest(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def entry(self, path):
        size, digest = path.stat().st_size, self.digest(path)
        large = {"oid": digest, "size": size, "pointerSize": 1}
        return {"type": "file", "path": path.name, "size": size, "oid": digest[:40], "lfs": large}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on this machine: the folder of its models by name, and the requests that it received."""
    handler = type("Handler", (Hub,), {"site": tmp_path / "site", "requests": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at(f"http://127.0.0.1:{server.server_port}", monkeypatch)
    yield handler.site, handler.requests
    server.shutdown()


def at(address, monkeypatch):
    """Let the hub's library use this address."""
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.mark.parametrize("shard", [None, "20KB"], ids=["one file", "shards"])
def test_a_name_is_downloaded_once(hub, tmp_path, shard):
    site, requests = hub
    written(site / "gpt2", "gpt2", **({"max_shard_size": shard} if shard else {}))
    (site / "gpt2" / "pytorch_model.bin").write_bytes(b"pickled")
    cache = tmp_path / "cache"
    folder = folder_of("gpt2", cache, QUIET)
    assert cache in folder.parents
    assert {path.name for path in folder.iterdir()} == {
        path.name for path in (site / "gpt2").iterdir() if path.suffix != ".bin"
    }
    assert "".join(Pretrained.load(folder, "cpu").generate(PROMPT, 3, LIKELIEST))
    requests.clear()
    assert folder_of("gpt2", cache, QUIET) == folder
    assert requests == []


def test_a_model_that_the_hub_does_not_have(hub, tmp_path):
    with pytest.raises(
        Refused, match="The Hugging Face hub has no model some/modle, or it is private"
    ):
        folder_of("some/modle", tmp_path, QUIET)


def test_offline_it_says_what_to_pass_instead(tmp_path, monkeypatch):
    at("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(Refused) as refused:
        folder_of("gpt2", tmp_path, QUIET)
    message = str(refused.value)
    assert "openai-community/gpt2 could not be downloaded" in message
    assert "pass a folder with config.json, tokenizer.json and model.safetensors" in message
