"""Day 45 beside the published chat template, and packed rows beside their examples one at a time."""

import pytest
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.generation.chat_templates import chatml, rendered
from variants.gpt import GPT, GPTConfig
from variants.instruction import answer_labels, chat_tokens, pack
from variants.llama import LLaMA, LLaMAConfig

# Published with SmolLM2-135M-Instruct, without the default system message.
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)
TALK = [
    {"role": "system", "content": "You answer in one word."},
    {"role": "user", "content": "Which way is up?\n\nThink."},
    {"role": "assistant", "content": "north"},
    {"role": "user", "content": "No!"},
]


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level BPE as GPT-2's, with the two markers as special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    markers = [AddedToken(marker, special=True) for marker in ("<|im_start|>", "<|im_end|>")]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=markers,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        [turn["content"] + "\n" + turn["role"] for turn in TALK] * 9, trainer
    )
    return tokenizer


def test_it_is_the_published_template(tokenizer):
    """Token for token, and what is marked reads as the answers with their end tokens."""
    text = rendered(TEMPLATE, TALK, {"bos_token": "", "eos_token": ""})
    tokens, answered = chat_tokens(TALK, lambda text: tokenizer.encode(text).ids, 0, 1, reply=True)
    assert tokens.tolist() == tokenizer.encode(text).ids
    marked = tokenizer.decode(tokens[answered].tolist(), skip_special_tokens=False)
    assert marked == "north<|im_end|>"
    assert rendered(chatml("<|im_start|>", "<|im_end|>"), TALK, {}) == text


@pytest.mark.parametrize(
    "model",
    [GPT(GPTConfig(50, 16, 2, 2, 8, 32, dropout=0.0)), LLaMA(LLaMAConfig(50, 16, 2, 4, 2, 16, 24))],
    ids=["gpt", "llama"],
)
def test_packed_rows_are_their_examples_one_by_one(model):
    """Losses, and the gradients of all weights, in float64 and with weights that matter."""
    generator = torch.Generator().manual_seed(45)
    model.double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    examples = []
    for size in (5, 9, 3, 7, 2, 16, 4):
        tokens = torch.randint(50, (size,), generator=generator)
        answered = torch.rand(size, generator=generator) < 0.6
        examples.append((tokens, answer_labels(tokens, answered)))
    packed = pack(examples, 16, pad=0)
    assert len(packed.tokens) == 3

    def gradients(loss):
        return loss, torch.autograd.grad(loss, list(model.parameters()))

    logits = model(packed.tokens, positions=packed.positions, mask=packed.mask)
    loss, packed_gradients = gradients(summed(logits, packed.labels))
    alone, single_gradients = gradients(
        sum(summed(model(tokens[None]), labels[None]) for tokens, labels in examples)
    )
    torch.testing.assert_close(loss, alone)
    torch.testing.assert_close(packed_gradients, single_gradients)


def summed(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
