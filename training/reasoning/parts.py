"""The parts of a reasoner and of its training: definitions of the references, or a learner's own."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

PARTS = {
    "variants.llama": ("LLaMA", "LLaMAConfig"),
    "variants.kv_cache": ("generate_cached",),
    "variants.optimizers": ("AdamW",),
    "variants.instruction": ("chat_tokens", "answer_labels"),
    "variants.grpo": (
        "sample_answers",
        "answer_log_probs",
        "group_advantages",
        "policy_loss",
        "kl_penalty",
    ),
}
"""What a reasoner is made of, by the module that has it."""


def parts_from(module: Callable[[str], ModuleType]) -> ModuleType:
    """Return a module with all parts, from the modules that `module` returns by name."""
    joined = ModuleType("reasoner")
    for name, parts in PARTS.items():
        vars(joined).update({part: getattr(module(name), part) for part in parts})
    return joined
