"""How long a published model takes to load, and how much memory, beside `transformers`.

The model is SmolLM2-135M-Instruct: its GGUF file (Q4_1), dequantized to float32, and a folder of the same
weights in float32, which `save_pretrained` of `transformers` writes. Each load is a process of its own, on
one thread. Ours and theirs alternate, each round begins with the other one, and ratios are those of the same
round. The files are in the page cache: each is read once before the first round. `transformers` reads GGUF
only where `accelerate` is installed; without it, the file is loaded by ours alone.

    seconds     of the call that loads weights and tokenizer, imports not included: `Pretrained.load`, and
                `AutoModelForCausalLM.from_pretrained` with `AutoTokenizer.from_pretrained`. The median of the
                rounds' ratios must be at most 1.2.
    peak        the most memory that the process holds while it loads, beyond what it held before, as the
                system counts it (VmHWM, set back right before). Ours must be at most the weights in float32
                and 25% more. The system counts pages of a mapped file that were read and can be read again.

    python benchmarks/pretrained.py
    python benchmarks/pretrained.py --rounds 9 --json pretrained.json

It needs Linux, `transformers`, and the model in the cache, into which
`course generate --pretrained smollm2-135m --tokens 1` brings it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

# A script's own folder comes first, where `training` is another script.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from memory import in_status, start_peak
from rounds import console, in_turns, in_words, machine_with, ratios, show_machine, table, write

from training.data.downloads import cache
from training.data.wheels import SMOLLM2
from training.models.model_folder import TOKENIZER, TOKENIZER_CONFIG
from training.models.pretrained import Pretrained
from variants.hugging_face import llama_published

OURS, THEIRS = "Pretrained.load", "transformers"
SLOWER, LARGER = 1.2, 1.25  # the most that ours may take

Figures = dict[str, float]


def main() -> None:
    """Measure, print and assert."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path)
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # in a process of its own
    given = options.parse_args()

    torch.set_num_threads(1)
    if given.one:
        print(json.dumps(loaded(given.one[0], Path(given.one[1]))))
        return
    file = cache() / SMOLLM2.name
    if not file.exists():
        options.error(f"{SMOLLM2.requirement} is not in the cache")
    facts = {**machine_with(torch.device("cpu")), "load": f"{os.getloadavg()[0]:.1f}"}
    show_machine(facts)
    with tempfile.TemporaryDirectory() as name:
        written(file, Path(name))
        found = {path: measured(path, given.rounds) for path in (file, Path(name))}
    lines = table(["", "program"], ["seconds", "÷ theirs", "peak", "÷ weights"])
    for path, figures in found.items():
        for program, some in figures.items():
            lines.add_row(
                "GGUF" if path == file else "folder",
                program,
                f"{statistics.median(one['seconds'] for one in some):.2f}",
                f"{slower(figures):.2f}" if program == OURS and THEIRS in figures else "",
                in_words(statistics.median(one["peak"] for one in some)),
                f"{statistics.median(one['peak'] / one['weights'] for one in some):.2f}",
            )
    console.print(lines)
    write(
        {"machine": facts, **{path.suffix or "folder": one for path, one in found.items()}},
        given.json,
    )
    for path, figures in found.items():
        check(path, figures)


def check(path: Path, figures: dict[str, list[Figures]]) -> None:
    """What loading has to reach."""
    if THEIRS in figures:
        times = slower(figures)
        assert times <= SLOWER, f"{path} takes {times:.2f} times as long as in transformers"
    larger = max(one["peak"] / one["weights"] for one in figures[OURS])
    assert larger <= LARGER, f"{path} takes {larger:.2f} times the memory of its weights"


def slower(figures: dict[str, list[Figures]]) -> float:
    """Our time over theirs."""
    ours, theirs = ([one["seconds"] for one in figures[name]] for name in (OURS, THEIRS))
    return statistics.median(ratios(ours, theirs))


def written(file: Path, folder: Path) -> None:
    """A folder of the same model, as transformers writes it."""
    import transformers

    found = Pretrained.load(file, "cpu")
    sizes = found.model.config
    config = transformers.LlamaConfig(
        vocab_size=sizes.vocab,
        max_position_embeddings=sizes.context,
        num_hidden_layers=sizes.n_layers,
        num_attention_heads=sizes.n_heads,
        num_key_value_heads=sizes.n_kv_heads,
        hidden_size=sizes.d_model,
        intermediate_size=sizes.d_ff,
        rms_norm_eps=sizes.eps,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.base},
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(llama_published(found.model.state_dict()))
    model.save_pretrained(folder)
    found.tokenizer.save(str(folder / TOKENIZER))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / TOKENIZER_CONFIG).write_text(json.dumps(kind), encoding="utf-8")


def measured(path: Path, rounds: int) -> dict[str, list[Figures]]:
    """The figures of both programs in every round."""
    reads = path.is_dir() or importlib.util.find_spec("accelerate")
    names = (OURS, THEIRS) if reads else (OURS,)
    programs = {name: partial(in_a_process, name, path) for name in names}
    for program in programs.values():
        program()  # the files, and the packages, into the page cache
    return in_turns(programs, rounds)


def in_a_process(program: str, path: Path) -> Figures:
    """`loaded` in a process of its own."""
    command = [sys.executable, __file__, "--one", program, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found: Figures = json.loads(done.stdout)
    return found


def loaded(program: str, path: Path) -> Figures:
    """Load a model, and what that took: seconds, bytes at the peak, and the bytes of its weights."""
    load = ours if program == OURS else theirs
    go = load()  # imports
    before = in_status("VmRSS")
    start_peak()
    began = time.perf_counter()
    model = go(path)
    seconds = time.perf_counter() - began
    most = in_status("VmHWM") - before
    each = {one.data_ptr(): one.nbytes for one in model.parameters()}
    return {"seconds": seconds, "peak": most, "weights": sum(each.values())}


def ours() -> Any:
    """`course generate --pretrained` loads so."""
    import training.models.gguf_file  # noqa: F401  which is imported when it is first used

    return lambda path: Pretrained.load(path, "cpu").model


def theirs() -> Any:
    """As transformers' documentation loads."""
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
