"""What is searched, of what is written: one spelling for each word.

Pages and chunks keep their text as the document has it, for display and citations. What is
embedded, what BM25 weighs and the question itself go through `normalize` first, so that a word is
found however it was encoded: as a ligature, full-width, decomposed, with a soft hyphen, invisible
characters or directional overrides inside, or cut by a hyphen at the end of a line. Plain ASCII
without such a cut comes out as it went in.
"""

from __future__ import annotations

import re
import unicodedata

# Cut by a hyphen at a line's end: joined, unless the text has the word with its hyphen elsewhere.
# Words are taken from their first letter on only, lest a megabyte of letters be tried at each.
_CUT = re.compile(r"(?<![^\W\d_])([^\W\d_]++)-\n[ \t]*+(?=([^\W\d_]++))")
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]++-(?=([^\W\d_]++))")
_SOFT_CUT = re.compile("\u00ad[ \t]*\n[ \t]*")
_OVERRIDE = re.compile("([\u202d\u202e])([^\u202a-\u202e\u2066-\u2069\n]*)")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Unicode puts letters under marks in order by insertion: a long run of marks would take for ever.
# No script has words with more than a few (UAX #15, stream-safe text, allows 30).
_MARKS_MAX = 30


def _is_ignored(char: str) -> bool:
    """Drawn as nothing: format characters, variation selectors, fillers; and Arabic's stretcher."""
    return (
        unicodedata.category(char) == "Cf"
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0000" <= char <= "\U000e0fff"
        or char in "\u034f\u0640\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    )


def _ranges_of(points: list[int]) -> str:
    """A character class of code points, as ranges."""
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in ranges)


# Neither kind has members beyond.
_ALL = [*range(0x80, 0x20000), *range(0xE0000, 0xE1000)]
_IGNORED = re.compile(f"[{_ranges_of([p for p in _ALL if _is_ignored(chr(p))])}]+")
_MARKS = _ranges_of([p for p in _ALL if unicodedata.combining(chr(p))])
_MANY_MARKS = re.compile(f"([{_MARKS}]{{{_MARKS_MAX}}})[{_MARKS}]+")
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʼ＇", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−﹘﹣－", "-"),
    }
)


def normalize(text: str) -> str:
    """`text` in the one form that is searched; the same when normalised again. Keeps case."""
    if not text.isascii():
        text = _SOFT_CUT.sub("", text)
        text = _OVERRIDE.sub(_as_seen, text)
        text = _MANY_MARKS.sub(r"\1", _IGNORED.sub("", text))
        # Some compatibility forms hold ignorable characters, or quotes, themselves.
        text = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY))
        text = unicodedata.normalize("NFKC", _IGNORED.sub("", text).translate(_TYPOGRAPHY))
    if "-\n" in text:
        whole = {found[0] + found[1] for found in _COMPOUND.finditer(text)}
        text = _CUT.sub(lambda cut: _join(cut, whole), text)
    return _UNFIT.sub(" ", text)


def _join(cut: re.Match[str], whole: set[str]) -> str:
    first, second = cut.groups()
    keeps_hyphen = not second[0].islower() or f"{first}-{second}" in whole
    return f"{first}-" if keeps_hyphen else first


def _as_seen(override: re.Match[str]) -> str:
    """Letters that an override makes run against their nature, as stored and as they show."""
    mark, run = override.groups()
    leftward = sum(unicodedata.bidirectional(char) in {"R", "AL"} for char in run)
    rightward = sum(unicodedata.bidirectional(char) == "L" for char in run)
    turned = rightward > leftward if mark == "\u202e" else leftward > rightward
    return f"{run} {run[::-1]}" if turned else run
