"""Which encoding bytes are in, and how sure that is.

The detector (chardet) judges by pairs of characters and often finds several encodings alike that
differ in a few characters. What tells those apart is what no writer writes: a symbol inside a word,
a capital after a small letter, two scripts in one word; and what typography does: quotes at the
ends of words. Where even that leaves two readings alike, the person is asked.

Measured on translations in 36 languages and 30 encodings (`tests/documents/test_encodings.py`).
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import chardet

# What a person may choose from: Python's name, and the words beside it.
ENCODINGS: tuple[tuple[str, str], ...] = (
    ("utf-8", "Unicode (UTF-8)"),
    ("utf-16", "Unicode (UTF-16)"),
    ("cp1252", "Western European (Windows-1252)"),
    ("iso8859-15", "Western European (ISO 8859-15)"),
    ("mac-roman", "Western European (Macintosh)"),
    ("cp850", "Western European (DOS 850)"),
    ("cp1250", "Central European (Windows-1250)"),
    ("iso8859-2", "Central European (ISO 8859-2)"),
    ("cp852", "Central European (DOS 852)"),
    ("cp1251", "Cyrillic (Windows-1251)"),
    ("koi8-r", "Cyrillic (KOI8-R)"),
    ("koi8-u", "Cyrillic (KOI8-U)"),
    ("iso8859-5", "Cyrillic (ISO 8859-5)"),
    ("cp866", "Cyrillic (DOS 866)"),
    ("cp1253", "Greek (Windows-1253)"),
    ("iso8859-7", "Greek (ISO 8859-7)"),
    ("cp1254", "Turkish (Windows-1254)"),
    ("cp1255", "Hebrew (Windows-1255)"),
    ("iso8859-8", "Hebrew (ISO 8859-8)"),
    ("cp1256", "Arabic (Windows-1256)"),
    ("iso8859-6", "Arabic (ISO 8859-6)"),
    ("cp1257", "Baltic (Windows-1257)"),
    ("cp1258", "Vietnamese (Windows-1258)"),
    ("cp874", "Thai (Windows-874)"),
    ("gb18030", "Simplified Chinese (GBK, GB 18030)"),
    ("big5hkscs", "Traditional Chinese (Big5)"),
    ("cp932", "Japanese (Shift JIS)"),
    ("euc_jp", "Japanese (EUC-JP)"),
    ("cp949", "Korean (EUC-KR)"),
)

# Those looked for, the likelier first where the detector finds two alike to the third digit.
_LIKELY = (
    "cp1252", "cp1251", "gb18030", "cp932", "shift_jis_2004", "big5hkscs", "cp949", "euc_kr",
    "euc_jis_2004", "cp1250", "iso8859-2", "cp1256", "cp1255", "cp1253", "cp1254", "cp1257",
    "cp874", "koi8-r", "koi8-u", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8", "iso8859-9",
    "iso8859-13", "iso8859-15", "iso8859-1", "cp1258", "iso2022_jp_2", "iso2022_kr", "hz",
    "cp866", "cp850", "cp852", "cp437", "mac-roman", "mac-cyrillic", "cp500", "johab",
)  # fmt: skip
# The latter differ in a few rare characters, and are looked at only where the former do not fit.
_EXTENDED = {
    "cp932": "shift_jis_2004", "cp949": "euc_kr", "cp1252": "iso8859-1", "cp1254": "iso8859-9",
}  # fmt: skip
_RANKS = {codecs.lookup(name).name: rank for rank, name in enumerate(_LIKELY)}
# Of DOS and the old Macintosh: alike, they lose.
_OF_OLD_SYSTEMS = {"cp437", "cp850", "cp852", "mac-roman", "mac-cyrillic", "johab"}
_SELDOM = 0.985
_ALIKE = 0.9995
# Above this share of the best score, another reading is as good; for a scrap of text, earlier.
_ASK_FROM = 0.985
_ASK_FROM_IN_A_SCRAP = {False: 0.85, True: 0.95}  # True: the other is of an old system
_SCRAP_BYTES = 64
# Below it the detector has little to go by, in a scrap and in any text.
_SCRAP_CONFIDENCE = 0.04
_LEAST_CONFIDENCE = 0.02
_COHERENT_FROM = 0.9
_NOTHING_FITS = 0.1  # what the detector gives its last resort

# Of a table, only the words tell anything. No character's second byte comes after a separator.
_FIGURES = re.compile(rb"(?<=[\n;,\t ])[0-9.,;:%/+ \t-]+")
_LETTER = r"[^\W\d_]"
_OTHER_SCRIPT = "\u0370-\u1cff\u3040-\ud7ff"
_ODD = re.compile(
    "|".join(
        (
            "[\x80-\x84\x86-\x9f\ue000-\uf8ff]",
            f"[A-Za-z][{_OTHER_SCRIPT}]|[{_OTHER_SCRIPT}][A-Za-z]",
            "[a-zß-öø-ÿа-яα-ω](?=[À-ÖØ-ÞĀĂĄĆČĎĐĘĚĹĽŁŃŇŐŒŔŘŚŠŞŤŮŰŸŹŻŽА-ЯΑ-Ω])",
            rf"(?<={_LETTER})[¡-©«-´¶¸»-¿×÷‚„†‡ˆ‰‹›€™˜•\u2190-\u25ff](?={_LETTER})",
            rf"[\u2500-\u259f\u2190-\u23ff](?={_LETTER})|(?<={_LETTER})[\u2500-\u259f]",
            rf"(?<={_LETTER})[≤≥≈±‗¾¨¸∙√ⁿ■‚„†‡ˆ‰‹˜•‘]",
            rf"[¶¢¦¬¤](?={_LETTER})|(?<![\w.,!?…])’(?={_LETTER})",
            "[\uff61-\uff9f](?![\uff61-\uff9f])",
        )
    )
)
_APT = re.compile(
    rf"(?<={_LETTER})’(?={_LETTER})|(?<![^\W_])[“„‘«‹](?=\w)|(?<=[\w.,!?…])[”“’»›](?![^\W_])"
    r"|(?<=\s)[–—](?=\s)|(?<=[a-z])[–—](?=[A-Z])|(?<=\d)[–°](?=[\dC\s])|(?<=\s)[•·](?=\s)"
    r"|[€£](?=\s?\d)|(?<=\d)\s?€"
)
_NOT_ASCII = re.compile("[^\x00-\x7f]")


@dataclass(frozen=True)
class Guess:
    """`sure` is False where another reading of the bytes is about as good."""

    encoding: str
    confidence: float  # the detector's, 0 to 1, adjusted
    sure: bool


@dataclass(frozen=True)
class _Reading:
    encoding: str
    text: str
    score: float  # the detector's confidence, 0 to 1, times how plausible the text is
    oddities: int  # signs that it is misread, less signs that it is not

    @property
    def words(self) -> str:
        return "".join(filter(str.isalnum, self.text))


def guess(sample: bytes) -> Guess | None:
    """The encoding of a text that is not Unicode; None where nothing fits. 32 kB are plenty."""
    sample = _telling(sample)
    readings = list(_readings(sample))
    if not readings:
        return None
    covered = {_EXTENDED.get(reading.encoding) for reading in readings}
    readings = [reading for reading in readings if reading.encoding not in covered]
    top = max(reading.score for reading in readings)
    alike = [reading for reading in readings if reading.score >= top * _ALIKE]
    best = min(alike, key=lambda reading: _RANKS[reading.encoding])
    # Readings that differ in punctuation only are not worth a question.
    words = best.words
    scrap = len(sample) < _SCRAP_BYTES
    sure = not any(
        reading.score >= best.score * _ask_from(reading, scrap=scrap)
        and reading.oddities <= best.oddities
        and reading.words != words
        for reading in readings
    )
    sure = sure and best.score >= (_SCRAP_CONFIDENCE if scrap else _LEAST_CONFIDENCE)
    return Guess(best.encoding, best.score, sure)


def _ask_from(rival: _Reading, *, scrap: bool) -> float:
    if not scrap:
        return _ASK_FROM
    return _ASK_FROM_IN_A_SCRAP[rival.encoding in _OF_OLD_SYSTEMS]


def _telling(sample: bytes) -> bytes:
    """Without figures, and without the repetitions of a table: they are no evidence."""
    if sample.isascii():
        return sample  # in an encoding of seven bits figures may be halves of characters
    sample = _FIGURES.sub(b" ", sample)
    words = dict.fromkeys(sample.split())
    return b" ".join(words) if 2 * sum(map(len, words)) < len(sample) else sample


def _readings(sample: bytes) -> Iterator[_Reading]:
    found = chardet.detect_all(
        # Behind a blank: it takes letters such as "BMP" at the very start for a picture's mark.
        b" " + sample if sample[:1].isalnum() else sample,
        include_encodings=_LIKELY,
        max_bytes=len(sample) + 1,
        prefer_superset=False,
        compat_names=False,
    )
    if [each["confidence"] for each in found] == [_NOTHING_FITS]:
        return
    most = max((each["confidence"] or 0.0 for each in found), default=0.0)
    for each in found:
        confidence = each["confidence"] or 0.0
        if not each["encoding"] or confidence < most / 4:
            continue
        encoding = codecs.lookup(each["encoding"]).name
        text = decode_start(sample, encoding)
        if text is not None and encoding in _RANKS:
            yield _read(encoding, text, confidence)


def _read(encoding: str, text: str, confidence: float) -> _Reading:
    count = max(1, len(_NOT_ASCII.findall(text)))
    odd, apt = len(_ODD.findall(text)), min(count, len(_APT.findall(text)))
    plausibility = max(0.05, 1 - 2 * odd / count) * (1 + 0.1 * apt / count)
    score = confidence * plausibility * (_SELDOM if encoding in _OF_OLD_SYSTEMS else 1)
    return _Reading(encoding, text, score, odd - apt)


def decode_start(sample: bytes, encoding: str) -> str | None:
    """`sample` decoded, but for a character cut off at its end; None where it does not fit."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except (UnicodeError, LookupError):
        return None


def guess_wide(sample: bytes) -> str:
    """UTF-16 or UTF-32 without a byte order mark, or ""."""
    if not sample or (b"\x00" not in sample and _share_of_controls(sample) < 0.02):
        return ""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    quads = [sample[at::4].count(0) for at in range(4)]
    if min(quads[0], quads[1]) > len(sample) // 5 or min(quads[2:]) > len(sample) // 5:
        return _coherent(sample, "utf-32-be", "utf-32-le")
    if max(even, odd) >= len(sample) // 8 and min(even, odd) <= max(even, odd) // 8:
        return "utf-16-be" if even > odd else "utf-16-le"
    return _coherent(sample, "utf-16-le", "utf-16-be")


def _share_of_controls(sample: bytes) -> float:
    return sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample) / len(sample)


def _coherent(sample: bytes, *encodings: str) -> str:
    """The one that gives a text in one or two scripts, as bytes of anything else do not.

    Read in the wrong order of bytes, letters of one script may fall into one as well, but blanks
    and line ends are none any more.
    """
    plain = sum(0x20 <= byte < 0x7F or byte in b"\t\n\r" for byte in sample)
    mostly_plain = plain * 4 > len(sample) * 3
    best, most = "", 0.0
    for encoding in encodings:
        text = decode_start(sample, encoding) or ""
        share, blanks = _coherence(text), sum(map(text.count, " \n"))
        score = share + blanks / max(1, len(text))
        # Pairs of ASCII letters are Han: where most bytes are ASCII, only blanks are evidence.
        if share >= _COHERENT_FROM and score > most and (blanks or not mostly_plain):
            best, most = encoding, score
    return best


def _coherence(text: str) -> float:
    """The share of letters in the two commonest scripts; 0 for what is no text."""
    strange = sum(unicodedata.category(char) in {"Cn", "Co", "Cs"} for char in text)
    strange += sum(ord(char) < 32 and char not in "\t\n\r\f" for char in text)
    scripts = Counter(_script(ord(char)) for char in text if char.isalpha())
    if strange * 50 > len(text) or not scripts:
        return 0.0
    return sum(count for _, count in scripts.most_common(2)) / scripts.total()


def _script(point: int) -> int:
    """Han and Hangul as one each, else the block of 256."""
    if 0x2E80 <= point <= 0x9FFF or 0xF900 <= point <= 0xFAFF or 0xFF00 <= point <= 0xFFEF:
        return 0x4E
    return 0xAC if 0xAC00 <= point <= 0xD7AF else point >> 8
