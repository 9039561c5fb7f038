"""Published corpora, with their files and addresses, and a learner's own sentence pairs."""

from __future__ import annotations

import gzip
import re
import tarfile
from codecs import BOM_UTF8
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from pathlib import Path

from rich.console import Console

from training.data import grammar
from training.data.downloads import File, find
from training.errors import Refused

Pairs = list[tuple[str, str]]

TINY_SHAKESPEARE = File(
    "tinyshakespeare/input.txt",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)

# Elliott et al. 2016, *Multi30K: Multilingual English-German Image Descriptions*; the test set of that
# year. The files of one commit of the authors' repository.
_MULTI30K = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
_MULTI30K_DIGESTS = {
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}
MULTI30K_SPLITS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}

# WMT 2014, English and German: three training corpora (4.5 million pairs; Vaswani et al. 2017,
# §5.1), newstest2013 for validation, newstest2014 for testing.
_STATMT = "http://www.statmt.org/"
WMT14 = {
    "europarl": File(
        "wmt14/training-parallel-europarl-v7.tgz",
        f"{_STATMT}wmt13/training-parallel-europarl-v7.tgz",
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    ),
    "commoncrawl": File(
        "wmt14/training-parallel-commoncrawl.tgz",
        f"{_STATMT}wmt13/training-parallel-commoncrawl.tgz",
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    ),
    "news commentary": File(
        "wmt14/training-parallel-nc-v9.tgz",
        f"{_STATMT}wmt14/training-parallel-nc-v9.tgz",
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
    ),
    "newstest": File(
        "wmt14/dev.tgz",
        "http://data.statmt.org/wmt19/translation-task/dev.tgz",
        "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
    ),
}
WMT14_PARTS = {
    "europarl": "training/europarl-v7.de-en.",
    "commoncrawl": "commoncrawl.de-en.",
    "news commentary": "training/news-commentary-v9.de-en.",
}

# A learner's own file of pairs: a part is held out, and at least some training pairs remain.
HELD_OUT = 0.05  # fraction of the sentences for validation, and the same for testing
MAX_HELD_OUT = (
    1000  # maximum number of held-out sentences: more take long to translate, and add little
)
MIN_SOURCES = 40  # minimum number of different source sentences in a file
MAX_SHOWN = 3  # lines shown in a message

LANGUAGES = {"toy": ("en", "fr"), "multi30k": ("de", "en", "fr"), "wmt14": ("de", "en")}


def read_text(path: Path) -> str:
    """Read a UTF-8 file, with its newlines unchanged.

    Raises:
        Refused: the file is missing, empty, or not UTF-8.
    """
    try:
        return _text(path.read_bytes(), str(path))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def parallel(
    data: str, source: str, target: str, data_dir: Path | None, console: Console
) -> dict[str, Pairs]:
    """Return sentence pairs `(source, target)` by split: `train`, `validation` and `test`.

    Args:
        data: a corpus, or the path of a file of pairs (source left, target right).
        source, target: the languages of a corpus.
        data_dir: the folder to look in before downloading.

    Raises:
        Refused: the corpus, file or language does not exist, files cannot be downloaded or read, or lines
            are not pairs.
    """
    if data not in LANGUAGES:
        return own_pairs(data)
    for side in (source, target):
        if side not in LANGUAGES[data]:
            raise Refused(f"{data} has the languages {', '.join(LANGUAGES[data])}, got {side!r}")
    if data == "toy":
        return {split: _ordered(pairs, source) for split, pairs in grammar.corpus().items()}
    if data == "multi30k":
        return {
            split: _multi30k(name, source, target, data_dir, console)
            for split, name in MULTI30K_SPLITS.items()
        }
    return _wmt14(source, target, data_dir, console)


def own_pairs(data: str) -> dict[str, Pairs]:
    """Split the pairs of a two-column file into `train`, `validation` and `test`.

    Which sentences are held out depends on the sentences only, not on their order. Pairs with the same
    source sentence are in the same split.

    Args:
        data: the path of the file.

    Raises:
        Refused: the file is missing, lines are not pairs, or there are too few.
    """
    try:
        body = Path(data).read_bytes()
    except FileNotFoundError as error:
        raise Refused(
            f"data must be {', '.join(LANGUAGES)} or a file of sentence pairs for translation, got "
            f"{data!r}, which does not exist"
        ) from error
    except OSError as error:
        raise Refused(f"{data} cannot be read: {error.strerror}") from error
    pairs = _columns(body, data)
    sources = sorted(
        {source for source, _ in pairs}, key=lambda sentence: sha256(sentence.encode()).digest()
    )
    if len(sources) < MIN_SOURCES:
        raise Refused(
            f"{data} must have at least {MIN_SOURCES} different source sentences, got {len(sources)}"
        )
    count = min(MAX_HELD_OUT, int(len(sources) * HELD_OUT))
    part_of = dict.fromkeys(sources[:count], "validation")
    part_of |= dict.fromkeys(sources[count : 2 * count], "test")
    parts: dict[str, Pairs] = {"train": [], "validation": [], "test": []}
    for pair in pairs:
        parts[part_of.get(pair[0], "train")].append(pair)
    return parts


def first_of(wrong: list[str], separator: str = ", ") -> str:
    """Return the first items of a list for a message, and the number of others."""
    more = f", and {len(wrong) - MAX_SHOWN:,} more" if len(wrong) > MAX_SHOWN else ""
    return separator.join(wrong[:MAX_SHOWN]) + more


def short(text: str) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= 60 else f"{text[:60]}…"


def _columns(body: bytes, name: str) -> Pairs:
    """Return the pairs of a text, without blank lines."""
    pairs: Pairs = []
    wrong: list[str] = []
    for number, line in enumerate(_text(body.removeprefix(BOM_UTF8), name).split("\n"), 1):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) == 2 and all(columns):
            pairs.append((columns[0], columns[1]))
        elif line.strip():
            line = line.rstrip("\r")
            wrong.append(f"line {number} is {short(line)!r}")
    if wrong:
        raise Refused(
            f"{name} must have a sentence, a tab and its translation in each line, and {first_of(wrong)}. "
            "(`cut -f 1,2` keeps the first two columns of more)"
        )
    return pairs


def _ordered(pairs: Pairs, source: str) -> Pairs:
    return pairs if source == "en" else [(french, english) for english, french in pairs]


def _multi30k(
    name: str, source: str, target: str, data_dir: Path | None, console: Console
) -> Pairs:
    sides = []
    for language in (source, target):
        file = f"{name}.{language}"
        digest = _MULTI30K_DIGESTS[file]
        path = find(File(f"multi30k/{file}.gz", f"{_MULTI30K}{file}.gz", digest), data_dir, console)
        sides.append(_lines(gzip.decompress(path.read_bytes()), str(path)))
    return _paired(sides, f"{name}.{source} and {name}.{target}")


def _wmt14(source: str, target: str, data_dir: Path | None, console: Console) -> dict[str, Pairs]:
    paths = {name: find(file, data_dir, console) for name, file in WMT14.items()}
    train: Pairs = []
    for name, stem in WMT14_PARTS.items():
        members = [f"{stem}{language}" for language in (source, target)]
        sides = [_lines(body, member) for member, body in _members(paths[name], members)]
        train += [pair for pair in _paired(sides, stem) if all(pair)]
    tests = {
        "validation": "dev/newstest2013-{}.{}.sgm",
        "test": "dev/newstest2014-deen-{}.{}.sgm",
    }
    splits = {"train": train}
    for split, pattern in tests.items():
        members = [pattern.format("src", source), pattern.format("ref", target)]
        sides = [_segments(body, member) for member, body in _members(paths["newstest"], members)]
        splits[split] = _paired(sides, pattern)
    return splits


def _members(archive: Path, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read files of an archive, in this order."""
    with tarfile.open(archive) as opened:
        for name in names:
            try:
                member = opened.extractfile(name)
            except KeyError:
                member = None
            if member is None:
                raise Refused(f"{archive} does not contain {name}")
            yield name, member.read()


def _segments(body: bytes, name: str) -> list[str]:
    """Return the sentences of a NIST SGM file."""
    segments = re.findall(r"<seg[^>]*>(.*?)</seg>", _text(body, name), flags=re.DOTALL)
    return [unescape(line).strip() for line in segments]


def lines_of(text: str) -> list[str]:
    """Return a text's lines. Only a newline ends one: some WMT sentences contain other characters at which
    Python splits lines."""
    return text.removesuffix("\n").split("\n")


def _lines(body: bytes, name: str) -> list[str]:
    return [line.strip() for line in lines_of(_text(body, name))]


def _text(body: bytes, name: str) -> str:
    if not body:
        raise Refused(f"{name} is empty")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise Refused(
            f"{name} is not UTF-8: byte {error.start} (line {line}) is {body[error.start]:#04x}"
        ) from error


def _paired(sides: list[list[str]], name: str) -> Pairs:
    source, target = sides
    if len(source) != len(target):
        raise Refused(
            f"{name} must have equal numbers of lines, got {len(source)} and {len(target)}"
        )
    if len(source) < 2:
        raise Refused(f"{name} must have more than one training line")
    return list(zip(source, target, strict=True))
