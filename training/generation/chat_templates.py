"""Chat templates: a conversation as the text format that a model was fine-tuned on.

A template is a Jinja program that comes with the weights, so it is untrusted. It is rendered by
`template_process.py` in jinja2's sandbox, in a separate process with limited time, memory and output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from training.errors import Refused

SECONDS = 10.0  # of wall time; template_process.py limits its CPU time to less
MAX_TEMPLATE_LENGTH = 2**18  # maximum length of a template, in characters

Message = Mapping[str, str]
"""One message: `role` is system, user or assistant, `content` the text."""


def chatml(start: str, end: str) -> str:
    """Return the template of day 45's format, with these tokens before and after each message."""
    return (
        f"{{% for one in messages %}}{start}{{{{ one['role'] }}}}\n{{{{ one['content'] }}}}{end}\n"
        f"{{% endfor %}}{{% if add_generation_prompt %}}{start}assistant\n{{% endif %}}"
    )


def rendered(template: str, messages: Sequence[Message], specials: Mapping[str, str]) -> str:
    """Render a conversation as text, up to where the model's next reply begins.

    Args:
        template: the model's.
        specials: `bos_token` and `eos_token`.

    Raises:
        Refused: the template fails, rejects this conversation, or exceeds its time or memory.
    """
    if len(template) > MAX_TEMPLATE_LENGTH:
        raise Refused(
            f"The chat template must have at most {MAX_TEMPLATE_LENGTH} characters, got {len(template)}"
        )
    request = {"template": template, "messages": list(messages), "specials": dict(specials)}
    # -P keeps this folder off the path, so that no file of ours shadows a library.
    command = [sys.executable, "-P", str(Path(__file__).with_name("template_process.py"))]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            start_new_session=True,  # Ctrl-C at the terminal must not end this process
        )
        reply = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise Refused("The chat template was stopped: it took too much time or memory") from error
    if "refused" in reply:
        raise Refused(f"The chat template cannot be used: {reply['refused']}")
    return str(reply["text"])
