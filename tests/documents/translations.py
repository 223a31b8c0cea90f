"""Text in many languages, and the legacy encodings they are found in: Django's translations."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import django
from django.conf import settings

XQUAD = Path(settings.BASE_DIR).parent / "shared" / "data" / "retrieval"

WESTERN = ("cp1252", "iso-8859-1")
CENTRAL = ("cp1250", "iso-8859-2")
ENCODINGS = {
    **dict.fromkeys(("de", "fr", "es", "pt", "it", "sv", "nl", "da", "nb", "fi"), WESTERN),
    **dict.fromkeys(("pl", "cs", "hu", "sk", "hr", "ro", "sl"), CENTRAL),
    **dict.fromkeys(("ru", "bg"), ("cp1251", "koi8-r", "iso-8859-5", "cp866")),
    **dict.fromkeys(("lt", "lv", "et"), ("cp1257", "iso-8859-13")),
    "uk": ("cp1251", "koi8-u"), "sr": ("cp1251", "iso-8859-5"), "el": ("cp1253", "iso-8859-7"),
    "tr": ("cp1254", "iso-8859-9"), "he": ("cp1255", "iso-8859-8"), "fa": ("cp1256",),
    "ar": ("cp1256", "iso-8859-6"), "th": ("cp874",), "zh_Hans": ("gb18030", "gbk"),
    "zh_Hant": ("big5",), "ja": ("shift_jis", "euc-jp"), "ko": ("euc-kr", "cp949"),
}  # fmt: skip
_XQUAD_ENCODINGS = {"en": ("cp1252",), "zh": ("gb18030",), "ar": ("cp1256",), "ru": ("koi8-r",)}
_MESSAGE = re.compile(r'^msgstr(?:\[\d\])? ((?:".*"\n?)+)', re.MULTILINE)
_MARKUP = re.compile(r"%\(?\w*\)?[sdr]?|\{\w*\}|<[^>]+>")


@dataclass(frozen=True)
class Sample:
    language: str
    encoding: str
    data: bytes
    text: str


def samples(*, size: int, count: int, languages: Sequence[str] = ()) -> Iterator[Sample]:
    """`count` pieces of about `size` bytes for each language and encoding, the same every time."""
    picker = random.Random(7)  # noqa: S311 - not a secret
    for language, encodings in ENCODINGS.items():
        if languages and language not in languages:
            continue
        for encoding in encodings:
            yield from _pieces(language, encoding, _text(language), size, count, picker)


def xquad_samples(*, size: int, count: int) -> Iterator[Sample]:
    """The same of the XQuAD passages, where they are at hand."""
    picker = random.Random(7)  # noqa: S311 - not a secret
    for language, encodings in _XQUAD_ENCODINGS.items():
        for encoding in encodings:
            with (XQUAD / f"xquad-{language}" / "corpus.jsonl").open(encoding="utf-8") as lines:
                text = "\n".join(json.loads(line)["text"] for line in lines)
            yield from _pieces(language, encoding, text, size, count, picker)


def _pieces(
    language: str, encoding: str, text: str, size: int, count: int, picker: random.Random
) -> Iterator[Sample]:
    found = tries = 0
    while found < count and (tries := tries + 1) < 10 * count:
        at = text.find("\n", picker.randrange(max(1, len(text) - size))) + 1
        data = b""
        for char in text[at : at + size]:
            data += char.encode(encoding, "ignore")
            if len(data) >= size:
                break
        if len(data) > size // 2 and not data.isascii():
            found += 1
            yield Sample(language, encoding, data, data.decode(encoding))


@cache
def _text(language: str) -> str:
    folder = Path(django.__file__).parent
    files = sorted(folder.glob(f"**/locale/{language}/LC_MESSAGES/django.po"))
    messages = dict.fromkeys(each for file in files for each in _messages(file))
    return "\n".join(random.Random(1).sample(list(messages), len(messages)))  # noqa: S311


def _messages(file: Path) -> Iterator[str]:
    for found in _MESSAGE.finditer(file.read_text("utf-8")):
        lines = (line for line in found[1].split("\n") if line.strip())
        text = " ".join(_MARKUP.sub("", "".join(map(ast.literal_eval, lines))).split())
        if len(text) > 15 and "charset" not in text:
            yield text
