"""GPT and LLaMA beside nanoGPT and transformers: ratios of CPU seconds, on one thread, alternating.

    python benchmarks/decoders.py                    LLaMA of SmolLM2-135M's size beside transformers'
    python benchmarks/decoders.py --nanogpt DIR      also a training step; DIR has nanoGPT's model.py

Weights are random and the same in both programs. A ratio is the median of the rounds' ratios.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from variants.gpt import GPT, GPTConfig
from variants.hugging_face import llama
from variants.kv_cache import generate_cached
from variants.llama import LLaMA, LLaMAConfig

Program = Callable[[], object]


def ratio(ours: Program, theirs: Program, rounds: int) -> float:
    """Return how many times as many CPU seconds our program takes, after one round that does not count."""
    ratios = []
    for number in range(rounds + 1):
        seconds = []
        for program in (ours, theirs) if number % 2 else (theirs, ours):
            started = time.process_time()
            program()
            seconds.append(time.process_time() - started)
        first, second = seconds
        ratios.append(first / second if number % 2 else second / first)
    return statistics.median(ratios[1:])


def decoders() -> dict[str, tuple[Program, Program]]:
    """Return a forward pass and greedy decoding, of our LLaMA and of that of `transformers`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LLaMAConfig(49152, 2048, 30, 9, 3, 576, 1536, eps=1e-5)
    sizes = {
        "vocab_size": config.vocab,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.eps,
    }
    theirs = LlamaForCausalLM(LlamaConfig(**sizes, eos_token_id=None)).eval()
    ours = LLaMA(config).eval()
    ours.load_state_dict(llama(theirs.state_dict()))
    text, prompt = torch.randint(config.vocab, (1, 256)), torch.randint(config.vocab, (1, 8))
    how = {"max_new_tokens": 64, "do_sample": False, "pad_token_id": 0}

    def forward(model: torch.nn.Module) -> Program:
        return torch.no_grad()(lambda: model(text))

    return {
        "forward of 256 tokens": (forward(ours), forward(theirs)),
        "decoding of 64 tokens": (
            lambda: generate_cached(ours, prompt, 64, temperature=0),
            lambda: theirs.generate(prompt, **how),
        ),
    }


def training(folder: Path) -> tuple[Program, Program]:
    """Return a step of our GPT and of nanoGPT's: 6 layers, 384 wide, 8 rows of 256 tokens, AdamW."""
    sys.path.insert(0, str(folder))
    import model as nanogpt  # type: ignore[import-not-found]

    ours = GPT(GPTConfig(65, 256, 6, 6, 384, 1536, dropout=0.0))
    theirs = nanogpt.GPT(
        nanogpt.GPTConfig(
            block_size=256, vocab_size=65, n_layer=6, n_head=6, n_embd=384, dropout=0.0
        )
    )
    rows = torch.randint(65, (8, 257))
    inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step(loss: Callable[[], torch.Tensor], model: torch.nn.Module) -> Program:
        optimizer = torch.optim.AdamW(model.parameters())

        def program() -> None:
            loss().backward()
            optimizer.step()
            optimizer.zero_grad()

        return program

    return (
        step(lambda: F.cross_entropy(ours(inputs).flatten(0, 1), targets.flatten()), ours),
        step(lambda: theirs(inputs, targets)[1], theirs),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nanogpt", type=Path, metavar="DIR", help="has nanoGPT's model.py")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    programs = decoders()
    if options.nanogpt:
        programs["training step"] = training(options.nanogpt)
    for name, (ours, theirs) in programs.items():
        print(f"{name:22} {ratio(ours, theirs, options.rounds):.2f}", flush=True)
