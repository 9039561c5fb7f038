"""Chat templates: a conversation as the one text that a model was trained to read.

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

SECONDS = 10.0  # by the clock; of the CPU, rendering.py allows itself fewer
LONGEST = 2**18  # characters of a template

Message = Mapping[str, str]
"""What somebody said: `role` is system, user or assistant, `content` the text."""


def rendered(template: str, messages: Sequence[Message], specials: Mapping[str, str]) -> str:
    """A conversation as text, up to where the model's next reply begins.

    Args:
        template: the model's.
        messages: the conversation.
        specials: `bos_token` and `eos_token`.

    Raises:
        Refused: the template fails, refuses this conversation, or takes too long or too much.
    """
    if len(template) > LONGEST:
        raise Refused(
            f"The chat template has {len(template)} characters: at most {LONGEST} are read"
        )
    asked = {"template": template, "messages": list(messages), "specials": dict(specials)}
    # -P keeps this folder off the path, where a file of ours could shadow a library.
    command = [sys.executable, "-P", str(Path(__file__).with_name("template_process.py"))]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            start_new_session=True,  # Ctrl-C at the terminal stops a reply, not this
        )
        told = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise Refused(
            "The chat template takes too long or too much memory: it is stopped"
        ) from error
    if "refused" in told:
        raise Refused(f"The chat template cannot be used: {told['refused']}")
    return str(told["text"])
