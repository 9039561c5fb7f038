"""Speed of published LLaMA weights beside `transformers`, and of a training step of GPT beside nanoGPT's.

    decode 64 after 32      read a prompt of 32 tokens, and generate 64 greedily, with a cache
    forward 256             the logits of 256 tokens, without gradients
    training step           6 layers, width 384, 6 heads, 256 tokens, batch 12: forward, backward, AdamW

The contenders have the same weights, and must generate the same tokens. They alternate, and a ratio is our
CPU time over theirs in the same round: below 1 we are faster.

    python benchmarks/published.py                          random weights of the sizes of SmolLM2-135M
    python benchmarks/published.py --weights FILE.gguf      those in a file or folder
    python benchmarks/published.py --nanogpt DIR            also a training step; DIR has nanoGPT's model.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frame
import torch
from torch import Tensor, nn

from training.models.pretrained import Pretrained
from variants.fused import fuse, last_alone
from variants.gpt import GPT, GPTConfig
from variants.hugging_face import llama_published
from variants.kv_cache import generate_cached
from variants.llama import LLaMA, LLaMAConfig

OURS, TAUGHT = "ours", "ours, as taught"
RANDOM = LLaMAConfig(
    vocab=49152,
    context=2048,
    n_layers=30,
    n_heads=9,
    n_kv_heads=3,
    d_model=576,
    d_ff=1536,
    eps=1e-5,
)
TRAINED = GPTConfig(
    vocab=65, context=256, n_layers=6, n_heads=6, d_model=384, d_ff=1536, dropout=0.0
)
BATCH = 12

Act = Callable[[], Any]


def their_llama(ours: LLaMA) -> Any:
    """Return the same model in `transformers`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = ours.config
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab,
            hidden_size=config.d_model,
            intermediate_size=config.d_ff,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            num_key_value_heads=config.n_kv_heads,
            max_position_embeddings=config.context,
            rms_norm_eps=config.eps,
            rope_theta=config.base,
            tie_word_embeddings=False,
        )
    )
    theirs.load_state_dict(llama_published(ours.state_dict()))
    return theirs.eval()


def using(ours: LLaMA) -> dict[str, dict[str, Act]]:
    """Return what is timed of a LLaMA, by task and contender."""
    taught, fused = fuse(ours, on=False), fuse(_twin(ours))
    theirs = their_llama(ours)
    draw = torch.Generator().manual_seed(0)
    prompt = torch.randint(0, ours.config.vocab, (1, 32), generator=draw)
    text = torch.randint(0, ours.config.vocab, (1, 256), generator=draw)

    def continued() -> Tensor:
        return theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=64,
            max_new_tokens=64,
            pad_token_id=0,
            eos_token_id=None,
        )

    @torch.no_grad()
    def read(model: nn.Module) -> Any:
        return model(text)

    models = {OURS: last_alone(fused), TAUGHT: taught}
    decode = {
        name: lambda model=model: generate_cached(model, prompt, 64, temperature=0)
        for name, model in models.items()
    }
    forward = {OURS: lambda: read(fused), TAUGHT: lambda: read(taught)}
    assert torch.equal(decode[OURS](), continued()), "the tokens differ"
    torch.testing.assert_close(read(fused), read(theirs).logits, rtol=1e-3, atol=1e-2)
    return {
        "decode 64 after 32": {**decode, "transformers": continued},
        "forward 256": {**forward, "transformers": lambda: read(theirs)},
    }


def _twin(model: LLaMA) -> LLaMA:
    """Return a second model with the same weights and angles."""
    with torch.device("meta"):
        twin = LLaMA(model.config)
    twin.load_state_dict(model.state_dict(), assign=True)
    for new, old in zip(twin.blocks, model.blocks, strict=True):
        new.self_attn.angles = old.self_attn.angles
    return twin.eval()


def training(folder: Path) -> dict[str, dict[str, Act]]:
    """Return a training step of our GPT and of nanoGPT's."""
    sys.path.insert(0, str(folder))
    import model as nanogpt

    torch.manual_seed(0)
    theirs = nanogpt.GPT(
        nanogpt.GPTConfig(
            block_size=TRAINED.context,
            vocab_size=TRAINED.vocab,
            n_layer=TRAINED.n_layers,
            n_head=TRAINED.n_heads,
            n_embd=TRAINED.d_model,
            dropout=TRAINED.dropout,
        )
    )
    text = torch.randint(0, TRAINED.vocab, (BATCH, TRAINED.context + 1))
    tokens, wanted = text[:, :-1], text[:, 1:].contiguous()

    def ours(model: nn.Module) -> Tensor:
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())

    taught = GPT(TRAINED)
    return {
        "training step": {
            OURS: _step(fuse(GPT(TRAINED)), ours),
            TAUGHT: _step(taught, ours),
            "nanoGPT": _step(theirs, lambda model: model(tokens, wanted)[1]),
        }
    }


def _step(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> Act:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()

    return step


def main() -> None:
    """Measure and print."""
    parser = frame.options(__doc__, rounds=9)
    parser.add_argument("--weights", type=Path, help="a GGUF file or a folder; random if left out")
    parser.add_argument("--nanogpt", type=Path, help="a folder with nanoGPT's model.py")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = (
        Pretrained.load(arguments.weights, "cpu").model
        if arguments.weights
        else LLaMA(RANDOM).eval()
    )
    where = frame.show_machine(torch.device("cpu"))
    tasks = using(model)
    if arguments.nanogpt:
        tasks |= training(arguments.nanogpt)
    shown = frame.table(["task", "model"], ["s of CPU", "ours / this", "range"])
    figures = {}
    for task, acts in tasks.items():
        figures[task] = frame.summary(frame.timed_in_turns(acts, arguments.rounds), OURS)
        for name, row in figures[task].items():
            cells = (f"{row['ratio']:.2f}", f"{row['ratio_lowest']:.2f}–{row['ratio_highest']:.2f}")
            shown.add_row(task, name, f"{row['seconds']:.3f}", *cells)
    frame.console.print(shown)
    frame.write({"machine": where, "rounds": arguments.rounds, "tasks": figures}, arguments.json)


if __name__ == "__main__":
    main()
