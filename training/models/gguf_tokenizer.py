"""The tokenizer in the metadata of a GGUF file, as a `tokenizers.Tokenizer`.

Byte-level BPE is stored with its merges, SentencePiece's BPE with a score for each token.
`tokenizer.ggml.pre` names the rule that splits a text before the merges; this file knows the rules
by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from training.errors import Refused

UNKNOWN, CONTROL, USER, BYTE = 2, 3, 4, 6  # types of tokens
SPACE = "▁"

# From the published tokenizer.json of the models; llama.cpp has the same expressions under these names.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _words(*before: Any, use_regex: bool = True) -> Any:
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    return pre_tokenizers.Sequence([*before, bytes_]) if before else bytes_


def _llama3() -> Any:
    return _words(pre_tokenizers.Split(Regex(LLAMA3), "isolated"), use_regex=False)


SPLITS: dict[str, Callable[[], Any]] = {
    "gpt-2": _words,
    "smollm": lambda: _words(pre_tokenizers.Digits(individual_digits=True)),
    "llama3": _llama3,
    "llama-v3": _llama3,
    "llama-bpe": _llama3,
}


def tokenizer_of(fact: Callable[..., Any]) -> Tokenizer:
    """Return the tokenizer of a file.

    Args:
        fact: returns the value of a key of the metadata, or None.

    Raises:
        Refused: the kind is unknown, or the tokens do not form a tokenizer.
    """
    kind = fact("tokenizer.ggml.model")
    makers = {"gpt2": _byte_level, "llama": _sentencepiece}
    if kind not in makers:
        raise Refused(
            f"the tokenizer is of kind {kind!r}: byte-level BPE ('gpt2') and SentencePiece's BPE "
            "('llama') are read"
        )
    tokens, types = fact("tokenizer.ggml.tokens"), fact("tokenizer.ggml.token_type")
    if not _is_list(tokens, str):
        raise Refused("tokenizer.ggml.tokens must be a list of texts")
    types = types or [1] * len(tokens)
    if not _is_list(types, int) or len(types) != len(tokens):
        raise Refused("tokenizer.ggml.token_type must have one number for each token")
    try:
        tokenizer = makers[kind](tokens, types, fact)
    except Refused:
        raise
    except Exception as error:  # tokenizers raises nothing narrower
        raise Refused(f"the tokens and merges do not make a tokenizer: {error}") from error
    for special in (True, False):
        added = [
            AddedToken(token, special=special, normalized=False)
            for token, of in zip(tokens, types, strict=True)
            if of == (CONTROL if special else USER)
        ]
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)
    _begin(tokenizer, fact, usually=kind == "llama" or _split(fact) is _llama3)
    return tokenizer


def _begin(tokenizer: Tokenizer, fact: Callable[..., Any], usually: bool) -> None:
    """Have each text begin with the token for that, where the model wants it."""
    first = fact("tokenizer.ggml.bos_token_id")
    adds_begin = fact("tokenizer.ggml.add_bos_token")
    if not (usually if adds_begin is None else adds_begin) or type(first) is not int:
        return
    if (name := tokenizer.id_to_token(first)) is None:
        raise Refused(f"tokenizer.ggml.bos_token_id is {first}, and there is no such token")
    # Each piece by its place, since a name may hold what a template gives a meaning to.
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["<begin>", "$A"],
        special_tokens=[{"id": "<begin>", "ids": [first], "tokens": [name]}],
    )


def _split(fact: Callable[..., Any]) -> Callable[[], Any] | None:
    return SPLITS.get(str(fact("tokenizer.ggml.pre")))


def _byte_level(tokens: list[str], types: list[int], fact: Callable[..., Any]) -> Tokenizer:
    split = _split(fact)
    if split is None:
        raise Refused(
            f"tokenizer.ggml.pre is {fact('tokenizer.ggml.pre')!r}: the ways to split a text that are "
            f"known are {', '.join(SPLITS)}"
        )
    merges = fact("tokenizer.ggml.merges")
    if not _is_list(merges, str):
        raise Refused("tokenizer.ggml.merges must be a list of texts")
    pairs = [(head, right) for head, _, right in (merge.partition(" ") for merge in merges)]
    keeps_words = split is _llama3  # a word that is a token is not merged from its bytes
    tokenizer = Tokenizer(models.BPE(_numbered(tokens), pairs, ignore_merges=keeps_words))
    tokenizer.pre_tokenizer = split()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(tokens: list[str], types: list[int], fact: Callable[..., Any]) -> Tokenizer:
    scores = fact("tokenizer.ggml.scores")
    if not _is_list(scores, float) or len(scores) != len(tokens):
        raise Refused("tokenizer.ggml.scores must have one number for each token")
    if types.count(BYTE) != 256:
        raise Refused("a SentencePiece tokenizer without its 256 byte tokens cannot be expressed")
    unknown = next((token for token, of in zip(tokens, types, strict=True) if of == UNKNOWN), None)
    vocabulary = _numbered(tokens)
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary,
            _merges(vocabulary, scores),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = fact("tokenizer.ggml.add_space_prefix") is not False
    before = [normalizers.Prepend(SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", SPACE)])
    after = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *after]
    )
    return tokenizer


def _merges(vocabulary: dict[str, int], scores: list[float]) -> list[tuple[str, str]]:
    """The merges that SentencePiece would make, the one with the best score first."""
    pairs: list[tuple[float, int, str, str]] = []
    for token, number in vocabulary.items():
        for cut in range(1, len(token)):
            head, right = token[:cut], token[cut:]
            if head in vocabulary and right in vocabulary:
                pairs.append((-scores[number], number, head, right))
    return [(head, right) for *_, head, right in sorted(pairs, key=lambda pair: pair[:2])]


def _numbered(tokens: list[str]) -> dict[str, int]:
    numbered = {token: number for number, token in enumerate(tokens)}
    if len(numbered) != len(tokens):
        raise Refused("tokenizer.ggml.tokens has a token twice")
    return numbered


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is kind for item in value)
