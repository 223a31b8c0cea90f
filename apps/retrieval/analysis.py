"""From text to BM25 terms: words, stems, bigrams and stable term ids.

The language of a word is that of its script; only among Latin-script languages must it be told
(`detect_language`, or the document's own), and English is assumed where it cannot be. Chinese,
Japanese and the scripts of South-East Asia put no spaces between words: there, overlapping pairs
of characters stand for words.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import Stemmer

from apps.retrieval.normalization import normalize

# pgvector's sparsevec has at most 10^9 dimensions, numbered from 1; a term id is a dimension.
TERM_SPACE = 1_000_000_000
MAX_WORD_CHARS = 64  # of longer "words" (a base64 blob, a megabyte of one letter) the start counts
_SAMPLE_CHARS = 4000  # of a text, for telling its language

_SNOWBALL = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
# Blocks of one script each, and the language taken for it: (first, last, language).
_SCRIPTS = (
    (0x0370, 0x03FF, "el"),
    (0x0400, 0x052F, "ru"),
    (0x0530, 0x058F, "hy"),
    (0x0590, 0x05FF, "he"),
    (0x0600, 0x06FF, "ar"),
    (0x0750, 0x077F, "ar"),
    (0x0900, 0x097F, "hi"),
    (0x0980, 0x09FF, "bn"),
    (0x0B80, 0x0BFF, "ta"),
    (0x0E00, 0x0E7F, "th"),
    (0x0E80, 0x0EFF, "lo"),
    (0x1000, 0x109F, "my"),
    (0x10A0, 0x10FF, "ka"),
    (0x1100, 0x11FF, "ko"),
    (0x1780, 0x17FF, "km"),
    (0x1F00, 0x1FFF, "el"),
    (0x3040, 0x30FF, "ja"),
    (0x3400, 0x4DBF, "zh"),
    (0x4E00, 0x9FFF, "zh"),
    (0xAC00, 0xD7AF, "ko"),
    (0xF900, 0xFAFF, "zh"),
    (0xFB50, 0xFDFF, "ar"),
    (0xFE70, 0xFEFF, "ar"),
    (0x20000, 0x3134F, "zh"),
)
# Words that are frequent in one Latin-script language and rare in the others.
_FUNCTION_WORDS = {
    "de": "der die das und ist nicht ein eine mit für auf wie wer wo wird sind von den dem zu im",
    # Short words that English shares with others stand here too: an English question must not be
    # taken for Portuguese on the strength of "do" and "a".
    "en": "the of and to in is was are what who how when where which did does for that with by a "
    "an i it do can be as at on my no me so we you your this these if or not has have will from "
    "why there they their its about into than then been were would should could may must any all",
    "es": "el la los las de y qué es cuál cómo cuántos cuántas una por para con del fue cuándo "
    "dónde quién se no su en",
    "fr": "le la les de des et est une dans qui que quel quelle pour sur du au aux pas comment où",
    "it": "il la gli e è di che chi della nel una per non con come quando dove quale sono del da",
    "nl": "de het een en van is niet wie wat waar hoe met voor op zijn wordt dat aan er te",
    "pt": "o os a as de e é do da dos das que quem como uma não para com em foi qual onde no na",
    "sv": "och är att det en ett som för inte med på av vem vad var hur den till har om",
}
_FUNCTION_SETS = {name: frozenset(words.split()) for name, words in _FUNCTION_WORDS.items()}

# Python's \w leaves out combining marks, which would cut Hindi and decomposed accents to pieces.
# The last three (soft hyphen, joiners) may stand inside a word and are dropped from it.
_IGNORED = "\u00ad\u200c\u200d"
_MARKS = "".join(
    chr(point)
    for point in range(0x300, 0x20000)
    if unicodedata.category(chr(point)) in ("Mn", "Mc")
)
_WORD = re.compile(rf"[^\W_]+(?:[{_MARKS}{_IGNORED}]+[^\W_]*)*")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
)
_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_DROP_IGNORED = {ord(char): None for char in _IGNORED}


@dataclass(frozen=True)
class Word:
    """A word of a text, `text[start:end]`, and the id of its term, in [1, TERM_SPACE)."""

    start: int
    end: int
    term: int


def terms_of(text: str, language: str = "") -> list[int]:
    """The term ids of `text`, repeats included, in order; of its normal form."""
    latin = language if language in _SNOWBALL else "en"
    return [_term(piece, latin) for _, _, piece in _pieces(normalize(text))]


def words_of(text: str, language: str = "") -> list[Word]:
    """The words of `text`, which is to be normal already, with their offsets.

    `language` (ISO 639-1) matters for Latin script.
    """
    latin = language if language in _SNOWBALL else "en"
    return [Word(start, end, _term(piece, latin)) for start, end, piece in _pieces(text)]


def detect_language(text: str) -> str:
    """ISO 639-1 code of the language `text` seems to be in; "" where nothing tells.

    Scripts tell most languages; Latin-script ones are told by their function words, and only
    when at least two of them say so more often than English's do.
    """
    sample = text[:_SAMPLE_CHARS]
    counts: dict[str, int] = {}
    for char in sample:
        if char.isalpha():
            name = "latin" if char < "\u0250" else _script(ord(char))
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        return ""
    if counts.get("ja", 0) * 10 > sum(counts.values()):
        return "ja"  # kana beside Han
    main = max(counts, key=lambda name: counts[name])
    return _detect_latin(sample) if main == "latin" else main


def _detect_latin(sample: str) -> str:
    words = re.findall(r"[^\W\d_]+", sample.casefold())
    hits = {name: sum(word in known for word in words) for name, known in _FUNCTION_SETS.items()}
    best = max(hits, key=lambda name: (hits[name], name == "en"))
    if best == "en":
        return "en" if hits["en"] else ""
    return best if hits[best] >= 2 and hits[best] > hits["en"] else ""


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, normalised piece): whole words, or bigrams where a script has no spaces."""
    for match in _WORD.finditer(text):
        start, end = match.span()
        raw = match[0]
        if raw.isascii():
            yield start, end, raw[:MAX_WORD_CHARS].lower()
            continue
        word = unicodedata.normalize("NFKC", raw).casefold().translate(_DROP_IGNORED)
        yield from _split(word, start, end)


def _split(word: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    exact = len(word) == end - start  # normalisation kept the length, so offsets carry over
    for part in _WORD.finditer(word):  # NFKC may have made separators: "½" is "1⁄2"
        for run in _RUN.finditer(part[0]):
            at = part.start() + run.start()
            piece = run[0]
            if not _IS_UNSPACED.match(piece):
                span = (start + at, start + at + len(piece)) if exact else (start, end)
                yield *span, piece[:MAX_WORD_CHARS]
                continue
            for i in range(max(1, len(piece) - 1)):
                span = (
                    (start + at + i, start + at + min(i + 2, len(piece))) if exact else (start, end)
                )
                yield *span, piece[i : i + 2]


@lru_cache(maxsize=65_536)
def _term(piece: str, latin: str) -> int:
    """Stable over processes and releases: stored rows depend on it."""
    language = latin if piece[0] < "\u0250" else _script(ord(piece[0]))
    stem = piece
    if language in _SNOWBALL and not _IS_UNSPACED.match(piece):
        stem = _stemmer(_SNOWBALL[language]).stemWord(piece) or piece
    digest = hashlib.blake2b(stem.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % (TERM_SPACE - 1) + 1


@lru_cache(maxsize=1024)
def _script(point: int) -> str:
    for first, last, language in _SCRIPTS:
        if first <= point <= last:
            return language
    return "latin" if unicodedata.name(chr(point), "").startswith("LATIN") else "other"


_local = threading.local()


def _stemmer(algorithm: str) -> Stemmer.Stemmer:
    """A stemmer of this thread's own: they keep state while they work."""
    known: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if algorithm not in known:
        known[sys.intern(algorithm)] = Stemmer.Stemmer(algorithm)
    return known[algorithm]
