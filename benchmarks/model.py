"""Speed of training and decoding with the reference, beside `torch.nn.Transformer`.

The contenders differ in encoder and decoder only: embeddings, positions, output projection, loss, greedy
decoding and Adam are those of `implementation.py`. They have the same batches and alternate. A ratio is the
reference's time over theirs in the same round: below 1 the reference is faster.

    ours                 `make_model`, post-norm, after `fuse`: torch's kernels for attention and norms
    ours, weights kept   the same without: the explicit attention and norms of the lessons
    nn.Transformer       with `batch_first`, and without its two final norms, which post-norm does not have.
                         With the reference's weights it must have the reference's loss, gradient and
                         tokens. When it decodes it may use its fast path through the encoder (but not under
                         autocast on the CPU, where that path fails in torch 2.13)

No contender uses a cache when decoding, and there is no end symbol, so all decode the
same number of tokens. Memory is the peak of a training step beyond what is allocated between steps
(parameters, Adam's moments); it is measured on CUDA only.

Use a quiet machine: mains power, as many threads as real cores (`OMP_NUM_THREADS`), at least 15 rounds. The
range of the ratios shows how quiet it was.

    python benchmarks/model.py                          both sizes, on the CPU
    python benchmarks/model.py --device cuda --dtype bfloat16 --compile --rounds 15 --json model.json
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import frame
import torch
from torch import Tensor, nn

from implementation import (
    Batch,
    EncoderDecoder,
    LabelSmoothing,
    greedy_decode,
    make_model,
    subsequent_mask,
)
from variants.fused import fuse

OURS = "ours"
PACE = ["tokens/s", "ratio", "range"]


@dataclass(frozen=True)
class Size:
    """A model, a batch, and how far to decode."""

    n: int
    d_model: int
    d_ff: int
    h: int
    batch: int
    length: int
    shortest: int
    vocab: int
    decoded: int


SIZES = {
    "copy": Size(2, 64, 256, 4, batch=80, length=10, shortest=10, vocab=11, decoded=10),
    "wide": Size(2, 512, 2048, 8, batch=32, length=64, shortest=48, vocab=8000, decoded=17),
}


@dataclass(frozen=True)
class Setting:
    """The device and the precision."""

    device: torch.device
    dtype: torch.dtype
    compiled: bool

    def cast(self) -> torch.autocast:
        """Return autocast to the dtype, disabled for float32."""
        reduced = self.dtype != torch.float32
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=reduced)


# --- The contenders -------------------------------------------------------------------------------


class TorchEncoder(nn.Module):
    """torch's encoder with our signature."""

    def __init__(self, encoder: nn.TransformerEncoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=~mask.squeeze(1))


class TorchDecoder(nn.Module):
    """torch's decoder with our signature. It takes the two masks of the target separately."""

    def __init__(self, decoder: nn.TransformerDecoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.decoder(
            x,
            memory,
            tgt_mask=~subsequent_mask(x.size(1)).to(x.device).squeeze(0),
            tgt_is_causal=True,
            tgt_key_padding_mask=hidden_keys(tgt_mask),
            memory_key_padding_mask=~src_mask.squeeze(1),
        )


def hidden_keys(tgt_mask: Tensor) -> Tensor | None:
    """Return `(B, T)`, True at padding; None when decoding, where there is none."""
    return None if tgt_mask.size(0) == 1 else ~tgt_mask[:, -1]


def our_model(size: Size) -> EncoderDecoder:
    """Return the reference with torch's fused kernels."""
    model = make_model(size.vocab, size.vocab, size.n, size.d_model, size.d_ff, size.h)
    return fuse(model)


def torch_model(size: Size) -> EncoderDecoder:
    """Return the reference with encoder and decoder of `nn.Transformer`."""
    whole = nn.Transformer(
        size.d_model, size.h, size.n, size.n, size.d_ff, dropout=0.1, batch_first=True
    )
    whole.encoder.norm = whole.decoder.norm = None
    model = our_model(size)
    model.encoder, model.decoder = TorchEncoder(whole.encoder), TorchDecoder(whole.decoder)
    return model


def contenders(size: Size) -> dict[str, EncoderDecoder]:
    """Return all contenders by name, the reference first."""
    return {
        OURS: our_model(size),
        "ours, weights kept": fuse(our_model(size), False),
        "nn.Transformer": torch_model(size),
    }


# --- Is the work equal? ---------------------------------------------------------------------------


def copy_weights(ours: EncoderDecoder, theirs: EncoderDecoder) -> None:
    """Copy the reference's weights to an `nn.Transformer`."""
    for name in ("src_embed", "tgt_embed", "generator"):
        getattr(theirs, name).load_state_dict(getattr(ours, name).state_dict())
    our_layers = [*ours.encoder.layers, *ours.decoder.layers]
    their_layers = [*theirs.encoder.encoder.layers, *theirs.decoder.decoder.layers]
    for our_layer, their_layer in zip(our_layers, their_layers, strict=True):
        their_layer.load_state_dict(torch_names(our_layer))


def torch_names(layer: nn.Module) -> dict[str, Tensor]:
    """Return a layer's weights under torch's names."""
    state = {}
    for ours, theirs in (("self_attn", "self_attn"), ("src_attn", "multihead_attn")):
        if hasattr(layer, ours):
            attn = getattr(layer, ours)
            projections = (attn.w_q, attn.w_k, attn.w_v)
            state[f"{theirs}.in_proj_weight"] = torch.cat([part.weight for part in projections])
            state[f"{theirs}.in_proj_bias"] = torch.cat([part.bias for part in projections])
            state[f"{theirs}.out_proj.weight"] = attn.w_o.weight
            state[f"{theirs}.out_proj.bias"] = attn.w_o.bias
    for number, part in enumerate((layer.feed_forward.w_1, layer.feed_forward.w_2), 1):
        state[f"linear{number}.weight"], state[f"linear{number}.bias"] = part.weight, part.bias
    for number, connection in enumerate(layer.sublayer, 1):
        state[f"norm{number}.weight"] = connection.norm.gain
        state[f"norm{number}.bias"] = connection.norm.bias
    return state


def check_agreement(size: Size, setting: Setting, batch: Batch) -> None:
    """Assert that with the same weights `nn.Transformer` has the reference's loss, gradient and tokens."""
    ours, theirs = our_model(size), torch_model(size)
    copy_weights(ours, theirs)
    losses, gradients, decoded = [], [], []
    for model in (ours, theirs):
        model.to(setting.device).eval()  # no dropout
        loss = loss_of(model, batch, LabelSmoothing(size.vocab, 0, 0.1))
        loss.backward()
        losses.append(loss.detach())
        gradients.append(model.src_embed[0].lut.weight.grad)
        decoded.append(decode_once(model, size, batch))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=0)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-6)
    assert (decoded[0] == decoded[1]).float().mean() > 0.99, "greedy decoding differs"


# --- What is timed --------------------------------------------------------------------------------


def make_batch(size: Size, device: torch.device) -> Batch:
    """Return sentences of `shortest` to `length` tokens, the first of full length, padded with 0."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(size.shortest, size.length + 1, (2, size.batch, 1), generator=draw)
    lengths[:, 0] = size.length
    tokens = torch.randint(1, size.vocab, (2, size.batch, size.length), generator=draw)
    tokens[torch.arange(size.length) >= lengths] = 0
    src, tgt = tokens.to(device)
    return Batch(src, tgt)


def loss_of(model: EncoderDecoder, batch: Batch, loss: nn.Module) -> Tensor:
    """Return the mean loss over the real tokens."""
    states = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    log_probs = model.generator(states)
    return loss(log_probs.flatten(0, 1), batch.tgt_y.flatten()) / batch.ntokens


def decode_once(model: EncoderDecoder, size: Size, batch: Batch) -> Tensor:
    """Return the first tokens of a greedy translation."""
    return greedy_decode(model, batch.src, batch.src_mask, size.decoded, start=1)


def training(
    model: EncoderDecoder, size: Size, setting: Setting, batch: Batch
) -> Callable[[], None]:
    """Return a function that takes one training step."""
    loss = LabelSmoothing(size.vocab, 0, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        with setting.cast():
            mean = loss_of(model, batch, loss)
        mean.backward()
        optimizer.step()

    return step


def decoding(
    model: EncoderDecoder, size: Size, setting: Setting, batch: Batch
) -> Callable[[], None]:
    """Return a function that decodes one batch."""

    def decode() -> None:
        model.eval()
        with setting.cast():
            decode_once(model, size, batch)

    return decode


def take_turns(
    acts: dict[str, Callable[[], None]], setting: Setting, rounds: int, turn: float, tokens: int
) -> dict[str, dict[str, float]]:
    """Return the `summary` of all contenders, and the tokens per second of an act of `tokens` tokens."""
    taken = frame.in_long_turns(acts, setting.device, rounds, turn)
    return {
        name: row | {"tokens_per_second": tokens / row["seconds"]}
        for name, row in frame.summary(taken, OURS).items()
    }


def measure(name: str, setting: Setting, rounds: int, turn: float) -> dict[str, dict]:
    """Return all figures of one size, by contender."""
    torch.manual_seed(0)
    size = SIZES[name]
    batch = make_batch(size, setting.device)
    check_agreement(size, setting, batch)
    models = {key: model.to(setting.device) for key, model in contenders(size).items()}
    counts = {key: frame.parameters(model) for key, model in models.items()}
    assert len(set(counts.values())) == 1, counts
    if setting.compiled:
        for model in models.values():
            model.encoder.compile()
            model.decoder.compile()
    steps = {key: training(model, size, setting, batch) for key, model in models.items()}
    decodes = {key: decoding(model, size, setting, batch) for key, model in models.items()}
    trained = take_turns(steps, setting, rounds, turn, int(batch.ntokens))
    decoded = take_turns(decodes, setting, rounds, turn, size.batch * (size.decoded - 1))
    return {
        key: {
            "parameters": counts[key],
            "train": trained[key],
            "decode": decoded[key],
            "peak_bytes": frame.extra_bytes(steps[key], setting.device),
        }
        for key in models
    }


# --- What is printed ------------------------------------------------------------------------------


def show(name: str, figures: dict[str, dict]) -> None:
    """Print a table of training and one of decoding."""
    size = SIZES[name]
    frame.console.print(
        f"\n{name}: {size.n} + {size.n} layers, d_model {size.d_model}, d_ff {size.d_ff}, h {size.h}; "
        f"{size.batch} × {size.length} tokens of {size.vocab}. Ratio: time of ours / time of this"
    )
    trained = frame.table(["train"], [*PACE, "parameters", "peak"])
    decoded = frame.table(["decode"], PACE)
    for key, row in figures.items():
        held = (f"{row['parameters']:,}", frame.in_mib(row["peak_bytes"]))
        trained.add_row(key, *pace(row["train"]), *held)
        decoded.add_row(key, *pace(row["decode"]))
    frame.console.print(trained)
    frame.console.print(decoded)


def pace(told: dict[str, float]) -> tuple[str, str, str]:
    """Return the cells of `PACE`."""
    return (
        f"{told['tokens_per_second']:,.0f}",
        f"{told['ratio']:.2f}",
        f"{told['ratio_lowest']:.2f}–{told['ratio_highest']:.2f}",
    )


def main() -> None:
    """Measure and print."""
    parser = frame.options(__doc__, rounds=9)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument(
        "--turn", type=float, default=0.5, help="seconds of a turn, at least one go"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--compile", action="store_true", help="torch.compile encoders and decoders"
    )
    arguments = parser.parse_args()
    setting = Setting(
        torch.device(arguments.device), getattr(torch, arguments.dtype), arguments.compile
    )

    # nn.Transformer's own fast path warns of its nested tensors.
    warnings.filterwarnings("ignore", message=".*nested tensors is in prototype")
    if setting.device.type == "cpu" and setting.dtype != torch.float32:
        torch.backends.mha.set_fastpath_enabled(False)
    where = frame.show_machine(
        setting.device, dtype=arguments.dtype, compiled=str(arguments.compile)
    )
    sizes = {}
    for name in arguments.sizes:
        sizes[name] = measure(name, setting, arguments.rounds, arguments.turn)
        show(name, sizes[name])
    frame.write({"machine": where, "rounds": arguments.rounds, "sizes": sizes}, arguments.json)


if __name__ == "__main__":
    main()
