"""The process that renders an untrusted template: JSON on standard input, JSON on standard output.

It imports nothing of the project, and limits itself before it reads the template.
"""

import contextlib
import json
import sys
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 5
MEMORY = 2**29  # memory limit, in bytes
MAX_RESULT_LENGTH = 2**20  # maximum length of the result, in characters


def limit() -> None:
    """Limit this process's CPU time and memory, except on Windows."""
    if sys.platform == "win32":
        return
    import resource

    for kind, most in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_DATA, MEMORY)):
        # Fails where the system's own limit is lower already, or where the system has no such limit.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def refuse(message: str) -> NoReturn:
    """Reject a conversation; templates call this function."""
    raise TemplateError(message)


class Generation(Extension):
    """`{% generation %}` marks the text that a model is trained to generate; its contents are rendered
    unchanged."""

    tags = {"generation"}  # noqa: RUF012 - a set is what jinja2 declares

    def parse(self, parser: Parser) -> list[Node]:
        """Return the statements up to `{% endgeneration %}`."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def to_json(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    """Implement transformers' filter `tojson`, which escapes neither tags nor other alphabets."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def render(template: str, messages: list[dict[str, str]], specials: dict[str, str]) -> str:
    """Render a conversation like `apply_chat_template` of transformers.

    Raises:
        TemplateError: the template is invalid, breaks the sandbox's rules, or rejects the conversation.
        ValueError: the text is too long.
    """
    world = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    world.globals |= {
        "raise_exception": refuse,
        "strftime_now": lambda how: datetime.now().strftime(how),
    }
    world.filters["tojson"] = to_json
    parts, length = [], 0
    # Templates ask whether `tools` is None, and not always whether it is defined.
    offered = {"tools": None, "documents": None, "add_generation_prompt": True}
    variables = specials | offered | {"messages": messages}
    for part in world.from_string(template).generate(variables):
        parts.append(part)
        length += len(part)
        if length > MAX_RESULT_LENGTH:
            raise ValueError(f"its result has more than {MAX_RESULT_LENGTH} characters")
    return "".join(parts)


def main() -> None:
    """Answer one request."""
    limit()
    request = json.loads(sys.stdin.buffer.read())
    reply: dict[str, Any]
    try:
        reply = {"text": render(**request)}
    except MemoryError:
        reply = {"refused": "it takes too much memory"}
    except Exception as error:  # a template can raise any exception
        reply = {"refused": str(error) or type(error).__name__}
    sys.stdout.buffer.write(json.dumps(reply).encode())


if __name__ == "__main__":
    main()
