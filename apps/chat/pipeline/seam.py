"""Where new text joins the beginning of an answer that broke off: nothing twice, nothing glued."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\S+")


class Seam:
    """Joins what is written to a beginning. Text is held back while it repeats the beginning's end.

    A server that goes on from an open turn repeats nothing, and its first token passes at once
    unless it happens to begin like one of the last words. llama.cpp sends the beginning first, and
    a model that is asked in words often starts with the last word or sentence once more.
    """

    def __init__(self, beginning: str) -> None:
        self._before = beginning
        self._text = beginning.rstrip()
        self._words = tuple(_beginnings(self._text))
        self._held = ""
        self._is_joined = not beginning

    def join(self, text: str) -> str:
        """What of `text`, and of what was held back before, is to be shown now."""
        if self._is_joined:
            return text
        self._held += text
        if not self._held.strip() or self._may_repeat():
            return ""
        return self.rest()

    def rest(self) -> str:
        """What is held back still: nothing more comes."""
        if self._is_joined:
            return ""
        self._is_joined = True
        said = self._held.lstrip()
        repeated = self._repeated(said)
        if repeated and self._before == self._text:
            return said[len(repeated) :]
        return _lead(self._before, self._held) + said[len(repeated) :].lstrip()

    def _may_repeat(self) -> bool:
        said = self._held.lstrip()
        return any(self._text.startswith(said, place) for place in self._words)

    def _repeated(self, said: str) -> str:
        """The longest run of words at the beginning's end that is said once more."""
        apart = said != self._held or self._before != self._text
        for place in self._words:
            end = self._text[place:]
            is_whole = not (end[-1].isalnum() and said[len(end) : len(end) + 1].isalnum())
            # Without a space between them "fo" and "four" can only be one word begun again.
            if said.startswith(end) and (is_whole or not (apart or len(end) == 1)):
                return end
        return ""


def _beginnings(text: str) -> Iterator[int]:
    """Where words begin, the first of all first; what ends a text without a letter is none."""
    last = max((place for place, each in enumerate(text) if each.isalnum()), default=-1)
    return (word.start() for word in _WORD.finditer(text) if word.start() <= last)


def _lead(before: str, after: str) -> str:
    """White space to put between: what `after` has, as far as `before` does not end with it."""
    trailing = before[len(before.rstrip()) :]
    leading = after[: len(after) - len(after.lstrip())]
    if not trailing:
        return leading
    return "\n" * max(0, leading.count("\n") - trailing.count("\n"))
