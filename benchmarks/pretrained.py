"""Time and memory of loading a published model, beside `transformers`.

SmolLM2-135M-Instruct: its GGUF file (Q4_1), dequantized to float32, and a folder of the same weights in
float32, written by `save_pretrained` of `transformers`. Each load is a process of its own, on one thread.
The programs alternate, and ratios are of the same round. The files are in the page cache. `transformers`
reads GGUF only if `accelerate` is installed.

    seconds     of the call that loads weights and tokenizer, without imports: `Pretrained.load`, and
                `AutoModelForCausalLM.from_pretrained` with `AutoTokenizer.from_pretrained`. The median
                ratio must be at most 1.2.
    peak        peak memory while loading, beyond what the process held before (VmHWM), over the weights
                in float32; ours at most 1.25. Pages of a mapped file count, although they can be dropped.

    python benchmarks/pretrained.py

It needs Linux, `transformers`, and the model in the cache, which
`course generate --pretrained smollm2-135m --tokens 1` downloads.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import frame
import torch

from training.data.downloads import cache
from training.data.wheels import SMOLLM2
from training.inference.hugging_face_folder import _llama
from training.models.model_folder import TOKENIZER, TOKENIZER_CONFIG
from training.models.pretrained import Pretrained
from variants.hugging_face import llama_published

OURS, THEIRS = "Pretrained.load", "transformers"
SLOWER, LARGER = 1.2, 1.25  # the most that ours may take


def main() -> None:
    """Measure, print and assert."""
    parser = frame.options(__doc__, rounds=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.one:
        print(json.dumps(loaded(args.one[0], Path(args.one[1]))))
        return
    file = cache() / SMOLLM2.name
    if not file.exists():
        parser.error(f"{SMOLLM2.requirement} is not in the cache")
    frame.show_machine(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as name:
        written(file, Path(name))
        for path in (file, Path(name)):
            compared("GGUF" if path == file else "folder", path, args.rounds)


def compared(title: str, path: Path, rounds: int) -> None:
    """Load a model with both programs; print and assert what loading must reach."""
    reads = path.is_dir() or importlib.util.find_spec("accelerate")
    names = (OURS, THEIRS) if reads else (OURS,)
    programs = {name: partial(frame.in_a_process, __file__, name, str(path)) for name in names}
    for program in programs.values():
        program()  # the files, and the packages, into the page cache
    taken = frame.in_turns(programs, rounds)
    seconds, peaks = (
        {name: [sample[i] for sample in taken[name]] for name in names} for i in (0, 1)
    )
    slower = frame.compare(title, seconds, names[-1])[OURS]
    for name, some in peaks.items():
        frame.console.print(f"{name}: peak {statistics.median(some):.2f} times the weights")
    assert slower <= SLOWER, f"{title}: {slower:.2f} times as long as in transformers"
    assert max(peaks[OURS]) <= LARGER, f"{title}: {max(peaks[OURS]):.2f} times the weights"


def written(file: Path, folder: Path) -> None:
    """Write a folder of the same model with transformers."""
    import transformers

    pretrained = Pretrained.load(file, "cpu")
    config = transformers.LlamaConfig(
        **_llama(pretrained.model.config, None) | {"tie_word_embeddings": True}
    )
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(llama_published(pretrained.model.state_dict()))
    model.save_pretrained(folder)
    pretrained.tokenizer.save(str(folder / TOKENIZER))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / TOKENIZER_CONFIG).write_text(json.dumps(kind), encoding="utf-8")


def loaded(program: str, path: Path) -> tuple[float, float]:
    """Load a model. Return the seconds, and the bytes at the peak over those of its weights."""
    load = ours() if program == OURS else theirs()  # imports
    before = frame.start_peak()
    began = time.perf_counter()
    model = load(path)
    seconds = time.perf_counter() - began
    most = frame.peak() - before
    return seconds, most / frame.storages(model.parameters())


def ours() -> Any:
    """Return the loader of `course generate --pretrained`."""
    import training.models.gguf_file  # noqa: F401  which is imported when it is first used

    return lambda path: Pretrained.load(path, "cpu").model


def theirs() -> Any:
    """Return the loader of transformers' documentation."""
    import gguf  # noqa: F401
    import transformers
    from transformers.models.llama import modeling_llama  # noqa: F401  likewise

    def load(path: Path) -> Any:
        how: dict[str, Any] = {"gguf_file": path.name} if path.is_file() else {}
        folder = path.parent if path.is_file() else path
        transformers.AutoTokenizer.from_pretrained(folder, **how)
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **how)

    return load


if __name__ == "__main__":
    main()
