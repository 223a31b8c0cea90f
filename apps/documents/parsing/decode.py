"""Bytes of a text-like file to characters, legacy encodings included.

In order: the encoding a person chose, a byte order mark, UTF-16 without one, UTF-8 (a few broken
bytes are a few broken characters), what the file declares, what the bytes look like. Where those
can be read in two ways, EncodingUnclear: a wrong guess would make the text unfindable in silence.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.documents.errors import EncodingUnclear
from apps.documents.parsing.encodings import ENCODINGS, Guess, guess, guess_wide

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9_.:-]{2,40})""", re.I)
_HIGH = re.compile(rb"[\x80-\xff]")
_SEVEN_BIT = (b"\x1b$", b"\x1b(", b"~{")  # ISO 2022 and HZ, which look like ASCII
BLOCK_BYTES = 1024 * 1024
_HEAD_BYTES = 4096
_SAMPLE_BYTES = 32 * 1024
_SAMPLE_PER_BLOCK_BYTES = 4096
# UTF-8 with one broken character in so many whole ones is still UTF-8.
_WHOLE_PER_BROKEN = 20
# Fewer bytes than one in so many that are not ASCII: nothing hinges on them.
_RARE = 10_000

_UNCLEAR = (
    "How the characters of this file are encoded cannot be told for sure. Choose the encoding on "
    "the document's page, or save the file as UTF-8 and upload it again."
)
# What is declared as the former is written in the latter, more often than not.
_SUPERSETS = {
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030",
    "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949", "tis-620": "cp874",
}  # fmt: skip
_OFFERED = {codecs.lookup(code).name: code for code, _ in ENCODINGS}

Blocks = Callable[[], Iterable[bytes]]


@dataclass
class _Survey:
    """All of a file, read as if it were UTF-8."""

    size: int = 0
    high: int = 0  # bytes that are not ASCII
    whole: int = 0  # characters of several bytes
    broken: int = 0
    sample: bytes = b""  # of the places that are not ASCII


def decode(data: bytes, *, declared: bool = False, encoding: str = "") -> str:
    """The characters of `data`; what does not fit its encoding becomes U+FFFD.

    `declared` allows for a charset named in the file itself (HTML, XML), which is believed only
    where the bytes fit it. `encoding` is one that a person chose, used as said. Raises
    EncodingUnclear.
    """
    name = _find(lambda: _slices(data), declared=declared, chosen=encoding)
    return data.decode(name, errors="replace")


def peek(data: bytes) -> str:
    """The characters of a file's beginning, guessed where it cannot be told."""
    try:
        return decode(data)
    except EncodingUnclear:
        found = guess(data[:_SAMPLE_BYTES])
        return data.decode(found.encoding if found else "latin-1", errors="replace")


def find_encoding(path: Path, *, chosen: str = "") -> str:
    """The encoding of a text file of any size, as Python names it. Raises EncodingUnclear."""
    return _find(lambda: _blocks(path), declared=False, chosen=chosen)


def _slices(data: bytes) -> Iterator[bytes]:
    return (data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _find(blocks: Blocks, *, declared: bool, chosen: str) -> str:
    first = next(iter(blocks()), b"")
    if chosen:
        return _offered(chosen, first)
    for mark, encoding in _BOMS:
        if first.startswith(mark):
            return encoding
    if wide := guess_wide(first[:_HEAD_BYTES]):
        return wide
    survey = _survey(blocks())
    if survey.broken == 0 and not survey.sample:
        return "utf-8"
    if survey.broken * _WHOLE_PER_BROKEN <= survey.whole and survey.whole:
        return "utf-8"
    if declared and (name := _declared(first)) and _broken(blocks(), name) == 0:
        return name
    return _legacy(blocks, survey)


def _offered(name: str, first: bytes) -> str:
    try:
        code = _OFFERED[codecs.lookup(name).name]
    except (LookupError, ValueError):
        raise EncodingUnclear(
            "The encoding chosen for this file is not known here. Choose another one on the "
            "document's page."
        ) from None
    if code == "utf-16" and not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-be" if guess_wide(first[:_HEAD_BYTES]) == "utf-16-be" else "utf-16-le"
    return code


def _survey(blocks: Iterable[bytes]) -> _Survey:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found = _Survey()
    for block in blocks:
        found.size += len(block)
        if block.isascii() and not decoder.getstate()[0]:
            if not found.sample and any(mark in block for mark in _SEVEN_BIT):
                found.sample = block[:_SAMPLE_BYTES]
            continue
        _count(found, decoder.decode(block), block)
    if decoder.getstate()[0] and found.whole == 0:
        found.broken += 1  # otherwise it is the last of many, cut off
    return found


def _count(found: _Survey, text: str, block: bytes) -> None:
    broken = text.count("\ufffd") - block.count(b"\xef\xbf\xbd")
    found.broken += max(0, broken)
    found.whole += len(text) - len(text.encode("ascii", "ignore")) - max(0, broken)
    found.high += len(block) - len(block.decode("ascii", "ignore"))
    high = _HIGH.search(block)
    if high and (room := _SAMPLE_BYTES - len(found.sample)) > 0:
        start = 0 if not found.sample and high.start() < _HEAD_BYTES else high.start()
        at = max(start, block.rfind(b"\n", 0, high.start()) + 1)
        take = room if not found.sample else min(room, _SAMPLE_PER_BLOCK_BYTES)
        found.sample += block[at : at + take]


def _legacy(blocks: Blocks, survey: _Survey) -> str:
    found = guess(survey.sample)
    if survey.broken == 0:
        return found.encoding if found and found.sure and _is_seven_bit(found) else "utf-8"
    if found and found.sure and _fits(blocks, found.encoding):
        return found.encoding
    if survey.high * _RARE <= survey.size:
        return "utf-8"
    raise EncodingUnclear(_UNCLEAR)


def _is_seven_bit(found: Guess) -> bool:
    return found.encoding.startswith(("iso2022", "hz"))


def _fits(blocks: Blocks, encoding: str) -> bool:
    """Whether all of the file, not only the sample, is in `encoding`, but for a stray byte."""
    broken = _broken(blocks(), encoding)
    return broken <= 1 or broken * _RARE <= sum(map(len, blocks()))


def _broken(blocks: Iterable[bytes], encoding: str) -> int:
    """How many characters do not fit; -1 for no encoding of text at all."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        return sum(decoder.decode(block).count("\ufffd") for block in blocks)
    except (LookupError, UnicodeError, ValueError, AttributeError):
        return -1


def _declared(first: bytes) -> str:
    """What the file says of itself, as browsers understand it."""
    found = _DECLARED.search(first[:2048])
    name = found.group(1).decode("ascii") if found else ""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    # Codecs such as "hex" are of no text, and a declaration that could be read is in no wide one.
    if not info._is_text_encoding or info.name.startswith(("utf-7", "utf-16", "utf-32")):
        return ""
    return _SUPERSETS.get(info.name, info.name)
