"""Conversations with a published model: its template, the history, commands, and what does not fit."""

import io
import json

import pytest
from rich.console import Console

from course.terminal import display
from tests.training.test_gguf_file import written
from training.errors import Refused, TooLong
from training.generation import chat_templates
from training.generation.chat_templates import rendered
from training.generation.generate import Sampling
from training.inference.chat import ChatSession, converse
from training.models.model_folder import TOKENIZER_CONFIG
from training.models.pretrained import Pretrained

HI = [{"role": "user", "content": "hi <b>"}]
MARKS = {"bos_token": "<s>", "eos_token": "</s>"}
LIKELIEST = Sampling(temperature=0.0)
TEMPLATE = (
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}"
)


# --- Templates ------------------------------------------------------------------------------------


def test_a_template_makes_the_text_that_transformers_makes():
    """Whitespace, loop controls, filters and functions as in `apply_chat_template`; no tools are None."""
    transformers = pytest.importorskip("transformers")
    from tests.training.test_pretrained import tokenizer

    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(), **MARKS)
    theirs.chat_template = """{{ bos_token }}
    {%- for message in messages %}
        {% if message.role == 'system' %}{% continue %}{% endif %}
        {% generation %}{{ message | tojson(indent=2) }} {{ message.content | trim }}{% endgeneration %}
    {% endfor %}
    {% if tools is not none or documents is not none %}{{ tools }}{% endif %}
    {%- if add_generation_prompt %}a: {{ eos_token }}{% endif %}"""
    talk = [{"role": "system", "content": "x"}, *HI, {"role": "assistant", "content": " é "}]
    expected = theirs.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert rendered(theirs.chat_template, talk, MARKS) == expected
    assert "<b>" in expected and '"x"' not in expected


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% if %}", "cannot be used: Expected an expression"),
        ("{{ raise_exception('only users') }}", "cannot be used: only users"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ cycler.__init__.__globals__.os.system('true') }}", "unsafe|undefined"),
        ("{% include '/etc/passwd' %}", "cannot be used"),
        ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "more than 1048576 characters"),
        ("{{ 'x' * 10 ** 10 }}", "too much memory"),
    ],
)
def test_a_template_that_does_what_it_may_not_is_refused(template, words):
    with pytest.raises(Refused, match=words):
        rendered(template, HI, {})


def test_a_template_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr(chat_templates, "SECONDS", 1.0)
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(Refused, match="too much time or memory"):
        rendered(endless, HI, {})
    with pytest.raises(Refused, match="at most 262144 characters, got 300000"):
        rendered("x" * 300_000, HI, {})


# --- Replies of a model ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("chat") / "model.gguf"
    written(path, **{"tokenizer.chat_template": TEMPLATE, "llama.context_length": 128})
    return path


def test_a_reply_continues_the_rendered_conversation(file):
    """With what was read before kept or not: the same reply as of a model that reads everything."""
    ours = Pretrained.load(file, "cpu")
    talk = [dict(HI[0])]
    for _ in range(3):
        text = rendered(TEMPLATE, talk, {})
        fresh = "".join(Pretrained.load(file, "cpu").generate(text, 7, LIKELIEST))
        reply = "".join(ours.reply(talk, 7, LIKELIEST))
        assert reply == fresh != ""
        talk += [{"role": "assistant", "content": reply}, {"role": "user", "content": "b"}]


def test_a_reply_that_was_stopped_leaves_no_half_read_text(file):
    ours = Pretrained.load(file, "cpu")
    expected = "".join(ours.reply(HI, 9, LIKELIEST))
    layer = ours.model.blocks[1]
    forward, calls = layer.forward, []

    def interrupted(*inputs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return forward(*inputs)

    layer.forward = interrupted
    with pytest.raises(KeyboardInterrupt):
        list(ours.reply([{"role": "user", "content": "other"}], 9, LIKELIEST))
    assert "".join(ours.reply(HI, 9, LIKELIEST)) == expected


def test_a_conversation_that_does_not_fit_is_too_long(file):
    ours = Pretrained.load(file, "cpu")
    with pytest.raises(TooLong, match="the model's context of 128 tokens"):
        ours.reply([{"role": "user", "content": "word " * 100}], 50, LIKELIEST)


def test_a_model_without_a_template_is_refused(file, tmp_path):
    written(tmp_path / "plain.gguf", **{"tokenizer.chat_template": None})
    with pytest.raises(Refused, match="no chat template: course generate continues a text"):
        Pretrained.load(tmp_path / "plain.gguf", "cpu").reply(HI, 5, LIKELIEST)


@pytest.mark.parametrize("where", ["file", "text", "list"])
def test_a_folders_template_is_found(tmp_path, where):
    from tests.training.test_pretrained import written as folder_written

    folder_written(tmp_path, "llama")
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    if where == "file":
        (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    elif where == "text":
        settings["chat_template"] = TEMPLATE
    else:
        named = [{"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}]
        settings["chat_template"] = named
    (tmp_path / TOKENIZER_CONFIG).write_text(json.dumps(settings))
    ours = Pretrained.load(tmp_path, "cpu")
    assert (ours.template, ours.specials) == (TEMPLATE, MARKS)


# --- The conversation -----------------------------------------------------------------------------


class Parrot:
    """Repeats the last message; at most so many messages fit."""

    def __init__(self, most=100):
        self.asked, self.most = [], most

    def reply(self, messages, tokens, sampling):
        if len(messages) > self.most:
            raise TooLong("does not fit")
        self.asked.append(([message["content"] for message in messages], sampling))
        return iter([messages[-1]["content"][:1], messages[-1]["content"][1:]])


def chat_of(speaker, **how):
    printed = []
    console = Console(width=200, record=True, quiet=False, file=io.StringIO(),
                      theme=display.THEME)  # fmt: skip
    return ChatSession(speaker, Sampling(), 9, console, printed.append, **how), printed, console


def hear_all(chat, *lines):
    waiting = iter(lines)

    def ask():
        line = next(waiting, EOFError)
        if isinstance(line, type):
            raise line
        return line

    converse(chat, ask)


def test_a_conversation_has_a_history_until_it_is_reset():
    parrot = Parrot()
    chat, printed, _ = chat_of(parrot, system="Be kind.")
    hear_all(chat, "one", "  ", "two", "/reset", "three", KeyboardInterrupt, "/exit", "never")
    assert [contents for contents, _ in parrot.asked] == [
        ["Be kind.", "one"], ["Be kind.", "one", "one", "two"], ["Be kind.", "three"],
    ]  # fmt: skip
    assert "".join(printed) == "one\ntwo\nthree\n"
    assert [sampling.seed for _, sampling in parrot.asked] == [0, 1, 2]


def test_the_temperature_changes_and_what_is_no_command_is_told():
    parrot = Parrot()
    chat, _, console = chat_of(parrot)
    hear_all(chat, "/temperature 0.25", "x", "/temperature warm", "/temperature -1", "/what")
    assert [sampling.temperature for _, sampling in parrot.asked] == [0.25]
    output = console.export_text()
    assert "/temperature must be a number such as 0.7, got 'warm'" in output
    assert "temperature must be a number of at least 0" in output
    assert "/reset starts a new conversation" in output


def test_a_stopped_reply_is_kept_as_far_as_it_came():
    class Stopped(Parrot):
        def reply(self, messages, tokens, sampling):
            yield from super().reply(messages, tokens, sampling)
            if messages[-1]["content"] == "stop":
                raise KeyboardInterrupt
            yield "!"

    parrot = Stopped()
    chat, printed, _ = chat_of(parrot)
    hear_all(chat, "stop", "on")
    assert "".join(printed) == "stop …\non!\n"
    assert parrot.asked[1][0] == ["stop", "stop", "on"]


def test_a_full_context_drops_the_oldest_messages_and_says_so():
    parrot = Parrot(most=4)
    chat, _, console = chat_of(parrot, system="s")
    hear_all(chat, "1", "2", "3")
    assert parrot.asked[-1][0] == ["s", "2", "2", "3"]
    assert "context is full: the oldest messages are dropped" in console.export_text()
    chat, printed, console = chat_of(Parrot(most=0))
    hear_all(chat, "1")
    assert (printed, "does not fit" in console.export_text()) == ([], True)


def test_the_command_holds_a_conversation(file, course):
    done = course("chat", "--pretrained", file, "--tokens", 5, "--temperature", 0,
                  input="hi\n/reset\nhi\n/exit\n")  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours = Pretrained.load(file, "cpu")
    reply = "".join(ours.reply([{"role": "user", "content": "hi"}], 5, LIKELIEST))
    assert done.stdout == f"{reply}\n{reply}\n"
