"""Where new text joins the beginning of an answer that broke off: nothing twice, nothing glued."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A model that repeats more than this of what it is to go on from has begun anew.
_LOOK_BACK_CHARS = 240
_WORD = re.compile(r"\S+")


class Seam:
    """Joins what is written to a beginning. Text is held back while it repeats the beginning's end.

    A server that goes on from an open turn repeats nothing, and its first token passes at once
    unless it happens to begin like one of the last words; one that is asked in words often starts
    with the last word or sentence once more.
    """

    def __init__(self, beginning: str) -> None:
        self._tail = beginning[-_LOOK_BACK_CHARS:]
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
        if self._may_repeat():
            return ""
        repeated = self._repeated(said)
        if repeated and self._tail == self._tail.rstrip():
            return said[len(repeated) :]
        return _lead(self._tail, self._held) + said[len(repeated) :].lstrip()

    def _may_repeat(self) -> bool:
        said = self._held.lstrip()
        return any(end.startswith(said) for end in self._ends())

    def _repeated(self, said: str) -> str:
        """The longest run of words at the beginning's end that is said once more."""
        apart = said != self._held or self._tail != self._tail.rstrip()
        for end in self._ends():
            is_whole = not (end[-1].isalnum() and said[len(end) : len(end) + 1].isalnum())
            # Without a space between them "fo" and "four" can only be one word begun again.
            if said.startswith(end) and (is_whole or not (apart or len(end) == 1)):
                return end
        return ""

    def _ends(self) -> Iterator[str]:
        """What the beginning may end with, from one of its last words on; the longest first."""
        text = self._tail.rstrip()
        for word in _WORD.finditer(text):
            end = text[word.start() :]
            if any(character.isalnum() for character in end):
                yield end


def _lead(before: str, after: str) -> str:
    """White space to put between: what `after` has, as far as `before` does not end with it."""
    trailing = before[len(before.rstrip()) :]
    leading = after[: len(after) - len(after.lstrip())]
    if not trailing:
        return leading
    return "\n" * max(0, leading.count("\n") - trailing.count("\n"))
