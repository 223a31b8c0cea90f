"""Bytes of a text-like file to characters, legacy encodings included."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9_.:-]{2,40})""", re.I)
_USUAL = ("cp1252", "cp1251", "koi8_r", "cp1250", "cp1253", "cp1255", "cp1256")
# The detector's cost grows with what it is shown.
_SAMPLE_BYTES = 256 * 1024


def decode(data: bytes, *, declared: bool = False) -> str:
    """The characters of `data`: by its byte order mark, as UTF-8, as declared, as detected.

    `declared` allows for a charset named in the file itself (HTML, XML), which is believed only
    where the bytes fit it. Bytes that fit nothing become replacement characters.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\x00" in data[:4096] and (wide := _wide(data)):
        return data.decode(wide, errors="replace")
    for candidate in ("utf-8", _declared(data) if declared else None):
        if candidate and (text := _strictly(data, candidate)) is not None:
            return text
    return data.decode(_detected(data[:_SAMPLE_BYTES]), errors="replace")


def _detected(sample: bytes) -> str:
    """The detector's best guess; a usual encoding where it finds that just as likely.

    Between one-byte encodings that differ in a few characters it cannot choose, and names a rare
    one (Mac Cyrillic for Windows Cyrillic).
    """
    matches = from_bytes(sample)
    best = matches.best()
    if best is None:
        return "latin-1"
    as_likely = {match.encoding for match in matches if match.chaos <= best.chaos}
    return next((usual for usual in _USUAL if usual in as_likely), best.encoding)


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: mostly-Latin text has its zero bytes on one side."""
    sample = data[:4096]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) < len(sample) // 8 or min(even, odd) > max(even, odd) // 8:
        return ""
    return "utf-16-be" if even > odd else "utf-16-le"


def _declared(data: bytes) -> str | None:
    found = _DECLARED.search(data[:2048])
    return found.group(1).decode("ascii") if found else None


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError, ValueError):
        return None
