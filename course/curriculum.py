"""The days: their names, their exercises, the paths of their files, and how these are marked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RAISE = "raise NotImplementedError"  # the line of a stub that the learner's code replaces
ANSWER_TAG = "answer"  # on the cells of a notebook that are the answer
YOURS = "COURSE_YOURS"  # in the environment: whose definitions `yours` gives to a lesson
REFERENCE = "reference"  # the value with which the repository executes its own notebooks
MAX_SHOWN_LENGTH = 40  # characters of what was typed, in a message


@dataclass(frozen=True)
class Day:
    """One day of the course. Its stem names it everywhere."""

    number: int
    topic: str
    title: str
    exercises: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def stem(self) -> str:
        return f"day{self.number:02d}_{self.topic}"

    @property
    def uses_torch(self) -> bool:
        """Whether the day's inputs are tensors, perhaps on a GPU; other days have NumPy arrays."""
        return "numpy_reference.py" not in self.references

    @property
    def lesson(self) -> Path:
        return ROOT / "lessons" / f"{self.stem}.ipynb"

    @property
    def stub(self) -> Path:
        return ROOT / "exercises" / f"{self.stem}.py"

    @property
    def hints(self) -> Path:
        return ROOT / "exercises" / "hints" / f"{self.stem}.md"

    @property
    def contracts(self) -> Path:
        return ROOT / "exercises" / "contracts" / f"{self.stem}.md"

    @property
    def solution(self) -> Path:
        return ROOT / "solutions" / f"{self.stem}.ipynb"

    @property
    def checks(self) -> Path:
        return ROOT / "tests" / "days" / f"test_{self.stem}.py"

    @property
    def misconceptions(self) -> Path:
        return ROOT / "tests" / "days" / "misconceptions" / f"{self.stem}.toml"

    @property
    def accepted(self) -> Path:
        """The folder of right answers written differently, a file each."""
        return ROOT / "tests" / "days" / "accepted" / self.stem

    @property
    def ready(self) -> bool:
        """Whether this day is here: a student edition leaves out the checks of days that it does not have."""
        return self.checks.exists()


@dataclass(frozen=True)
class CoursePart:
    """A part of the course with days of one kind."""

    title: str
    days: tuple[Day, ...]


def _part(title: str, reference: str | None, *days: tuple[int, str, str, str, str]) -> CoursePart:
    """A part from rows of (number, topic, title, exercises, references unless the part has one)."""
    return CoursePart(
        title,
        tuple(
            Day(number, topic, name, tuple(exercises.split()), tuple((reference or files).split()))
            for number, topic, name, exercises, files in days
        ),
    )


COURSE_PARTS = (
    _part(
        "Attention in NumPy",
        "numpy_reference.py",
        (1, "softmax", "Softmax", "softmax log_softmax", ""),
        (2, "attention", "Attention", "attention", ""),
        (3, "masks", "Masks", "padding_mask subsequent_mask target_mask", ""),
        (
            4,
            "multi_head_attention",
            "Multi-head attention",
            "split_heads join_heads multi_head_attention",
            "",
        ),
        (5, "positional_encoding", "Positional encoding", "positional_encoding", ""),
        (6, "encoder_layer", "Encoder layer", "layer_norm feed_forward encoder_layer", ""),
        (7, "backward", "Backward", "softmax_backward attention_backward", ""),
    ),
    _part(
        "The Transformer in PyTorch",
        "implementation.py",
        (8, "attention", "Attention", "attention", ""),
        (9, "multi_head_attention", "Multi-head attention", "MultiHeadedAttention", ""),
        (
            10,
            "feed_forward_and_embeddings",
            "Feed-forward and embeddings",
            "PositionwiseFeedForward Embeddings PositionalEncoding",
            "",
        ),
        (11, "norm_and_residual", "Norm and residual", "LayerNorm SublayerConnection clones", ""),
        (12, "encoder", "Encoder", "EncoderLayer Encoder", ""),
        (13, "decoder", "Decoder", "subsequent_mask DecoderLayer Decoder", ""),
        (14, "make_model", "The whole model", "Generator EncoderDecoder make_model", ""),
        (15, "batch", "Batch", "Batch", ""),
        (16, "label_smoothing", "Label smoothing", "LabelSmoothing", ""),
        (17, "learning_rate", "Learning rate", "rate", ""),
        (18, "training_loop", "Training loop", "run_epoch", ""),
        (19, "greedy_decoding", "Greedy decoding", "greedy_decode", ""),
        (20, "beam_search", "Beam search", "beam_search", ""),
        (21, "byte_pair_encoding", "Byte-pair encoding", "train_bpe BPE", ""),
        (22, "translation", "Translation", "bleu token_batches", ""),
    ),
    _part(
        "After the paper",
        None,
        (23, "gpt", "GPT", "CausalSelfAttention GPT", "variants/gpt.py"),
        (24, "sampling", "Sampling", "distribution sample generate", "variants/sampling.py"),
        (25, "kv_cache", "KV cache", "KVCache CachedSelfAttention", "variants/kv_cache.py"),
        (26, "bert", "BERT", "mask_tokens BERT", "variants/bert.py"),
        (27, "t5", "T5", "relative_position_bucket T5", "variants/t5.py"),
        (
            28,
            "norms_and_activations",
            "Norms and activations",
            "RMSNorm GroupNorm gelu mish SwiGLU",
            "variants/norms.py variants/activations.py",
        ),
        (29, "rope", "Rotary positions", "rope_angles apply_rope", "variants/rope.py"),
        (30, "alibi", "ALiBi", "alibi_slopes alibi_bias", "variants/alibi.py"),
        (
            31,
            "grouped_query_attention",
            "Grouped-query attention",
            "GroupedQueryAttention",
            "variants/grouped_query.py",
        ),
        (32, "llama", "LLaMA", "LLaMA", "variants/llama.py"),
        (33, "flash_attention", "Flash attention", "flash_attention", "variants/flash.py"),
        (
            34,
            "linear_and_sparse_attention",
            "Linear and sparse attention",
            "linear_attention sliding_window_mask",
            "variants/linear.py variants/sliding_window.py",
        ),
        (
            35,
            "mixture_of_experts",
            "Mixture of experts",
            "TopKRouter load_balancing_loss MixtureOfExperts",
            "variants/moe.py",
        ),
        (
            36,
            "depth",
            "Depth",
            "ParallelBlock MixtureOfDepths",
            "variants/parallel_block.py variants/depths.py",
        ),
        (37, "mamba", "Mamba", "selective_scan Mamba", "variants/mamba.py"),
        (
            38,
            "efficient_training",
            "Efficient training",
            "clip_gradients LossScaler checkpoint train_step",
            "variants/efficient.py",
        ),
        (
            39,
            "many_gpus",
            "Many GPUs",
            "ring_all_reduce average_gradients shard gather",
            "variants/parallelism.py",
        ),
        (
            40,
            "shipping",
            "Shipping",
            "quantize_int8 dequantize QuantizedLinear",
            "variants/shipping.py",
        ),
    ),
    _part(
        "From a language model to one that reasons",
        None,
        (
            41,
            "adamw_and_muon",
            "AdamW and Muon",
            "AdamW orthogonalize Muon",
            "variants/optimizers.py",
        ),
        (
            42,
            "speculative_decoding",
            "Speculative decoding",
            "accept_draft speculative_generate",
            "variants/speculative.py",
        ),
        (
            43,
            "latent_attention",
            "Latent attention",
            "QKNorm MultiHeadLatentAttention",
            "variants/latent.py",
        ),
        (44, "delta_rule", "The delta rule", "delta_rule chunked_delta_rule", "variants/delta.py"),
        (
            45,
            "instruction_tuning",
            "Instruction tuning",
            "chat_tokens answer_labels pack",
            "variants/instruction.py",
        ),
        (46, "lora", "LoRA", "LoRALinear add_lora merge_lora", "variants/lora.py"),
        (
            47,
            "preferences",
            "Preferences",
            "sequence_log_probs bradley_terry_loss dpo_loss",
            "variants/dpo.py",
        ),
        (
            48,
            "reinforcement_learning",
            "Reinforcement learning",
            "group_advantages policy_loss kl_penalty",
            "variants/grpo.py",
        ),
        (
            49,
            "thinking_longer",
            "Thinking longer",
            "majority_vote pass_at_k best_of_n",
            "variants/test_time_compute.py",
        ),
        (
            50,
            "looking_inside",
            "Looking inside",
            "logit_lens patch_activation prefix_matching_score",
            "variants/interpretability.py",
        ),
    ),
)

DAYS = tuple(day for part in COURSE_PARTS for day in part.days)
BY_NUMBER = {day.number: day for day in DAYS}
LAST_DAY = DAYS[-1].number


class NoSuchDay(ValueError):
    """The text names no day, or several."""


def find_day(text: str) -> Day:
    """Return the day meant by `8`, `day08`, `day08_attention` or a topic such as `decoder`.

    Raises:
        NoSuchDay: no day fits, or several do; the message names what is allowed.
    """
    word = text.strip().lower().replace("-", "_").replace(" ", "_")
    if match := re.fullmatch(r"(?:day)?(\d+)", word):
        return _numbered(match[1])
    if re.fullmatch(r"(day|[\d\W_])*", word):  # no topic, and so perhaps a range
        raise NoSuchDay(f"One day is wanted, such as 8 or day08, got '{_short(text)}'.")
    fitting = [day for day in DAYS if word == day.stem] or [
        day for day in DAYS if word and word in day.stem
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(f"{day.number} ({day.stem})" for day in fitting)
        raise NoSuchDay(f"'{text}' fits several days: {names}. Say which by its number.")
    raise NoSuchDay(
        f"No day is called '{_short(text)}'. Use a number from 1 to {LAST_DAY}, a name such as "
        "day08, or a topic such as decoder; `course` lists them all."
    )


def find_days(text: str) -> list[Day]:
    """Return the days meant by a day, by a range such as `8-14`, or by several of these, `1-3,8`.

    Raises:
        NoSuchDay: as for one day; a range is not two days, or ends before it begins.
    """
    return [day for part in text.split(",") for day in _range(part)]


def _range(text: str) -> list[Day]:
    if not re.fullmatch(r"(day|[\d\W_])*", text.strip().lower()):
        return [find_day(text)]
    ends = re.fullmatch(r"(?:day)?(\d+)(?:\s*-\s*(?:day)?(\d+))?", text.strip().lower())
    if not ends:
        raise NoSuchDay(
            f"Days are given as 8, 8-14 or 1-3,8, from 1 to {LAST_DAY}, got '{_short(text)}'."
        )
    first, last = (_numbered(end) for end in (ends[1], ends[2] or ends[1]))
    if first.number > last.number:
        correct = f"{last.number}-{first.number}"
        raise NoSuchDay(f"'{text}' ends before it begins: did you mean {correct}?")
    return [day for day in DAYS if first.number <= day.number <= last.number]


def _numbered(digits: str) -> Day:
    """The day with this number, which may have any length."""
    number = digits.lstrip("0") or "0"
    day = next((day for day in DAYS if str(day.number) == number), None)
    if day is None:
        raise NoSuchDay(f"There is no day {_short(number)}: the days are 1 to {LAST_DAY}.")
    return day


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


def module_of(file: str) -> str:
    """Return the name under which a reference file is imported: `variants/gpt.py` is `variants.gpt`."""
    return file.removesuffix(".py").replace("/", ".")


def day_of_definition(file: str, name: str) -> Day | None:
    """Return the day whose exercise is the definition `name` of the reference `file`, if there is one."""
    return next((day for day in DAYS if file in day.references and name in day.exercises), None)
