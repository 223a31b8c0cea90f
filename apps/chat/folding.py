"""Text as it is searched: without case, accents, vowel marks, and other widths or forms of letters.

PostgreSQL's function `chat_fold` (migration 0008) does the same to the messages that are stored.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Accents (Latin, Greek, Cyrillic), Hebrew points, Arabic vowel marks and tatweel, and characters
# that cannot be seen. Marks that are letters of their own, as in Devanagari, stay.
MARKS = (
    "[\u00ad\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u2060\u20d0-\u20f0\ufe00-\ufe0f\ufe20-\ufe2f\ufeff]+"
)
# Letters that compatibility decomposition leaves alone, and people type otherwise.
LETTERS = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ı": "i",
    "ς": "σ",
    "ى": "ي",
    "ة": "ه",
}
_MARKS = re.compile(MARKS)
_LETTERS = str.maketrans(LETTERS)


def fold(text: str) -> str:
    """`text` as it is compared."""
    lowered = unicodedata.normalize("NFKD", text).lower()
    return _MARKS.sub("", lowered).translate(_LETTERS)


def fold_with_places(text: str) -> tuple[str, list[int]]:
    """`text` folded, and for each of its characters the place in `text` that it comes from."""
    pieces: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        folded = _fold_character(character)
        pieces.append(folded)
        places += [place] * len(folded)
    return "".join(pieces), places


@lru_cache(maxsize=4096)  # a snippet's text is folded letter by letter, and has few different ones
def _fold_character(character: str) -> str:
    return fold(character)
