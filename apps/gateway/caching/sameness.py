"""Whether two questions of nearly the same meaning ask for the same thing after all.

What vectors of meaning hardly tell apart: another number, another name, a negation, another thing
in quotation marks, the opposite word, another language. One difference of these is enough; that
two questions are kept apart for nothing only costs a call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from apps.gateway.caching.wordlists import (
    ASKED_FOR,
    LANGUAGES,
    NEGATING_PREFIXES,
    NEGATIONS,
    NUMBERS,
    OPENERS,
    OPPOSITES,
    ORDERED,
)

_WORD = re.compile(r"\w+(?:['’.,:/&-]\w+)*")
_QUOTED = re.compile(r"“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|\"([^\"]+)\"|‘([^’]+)’|`([^`]+)`")
_THOUSANDS = re.compile(r"(?<=\d)[,'’](?=\d{3}\b)")
_ENDINGS = ("'s", "’s", "ing", "ed", "es", "s", "e")
_APART_MAX = 20
_HOW = re.compile(r"\bhow (many|much|long|often|far|old|soon|late|early|big|large|high)\b")


def differs_in_substance(one: str, other: str) -> bool:
    """Whether the questions differ in something that an answer hangs on."""
    words, others = _words(one), _words(other)
    return (
        _numbers(words) != _numbers(others)
        or _negations(words) != _negations(others)
        or _quoted(one) != _quoted(other)
        or _names(one) - set(others) != set()
        or _names(other) - set(words) != set()
        or _asked_for(one, words) != _asked_for(other, others)
        or _swapped(set(words) - set(others), set(others) - set(words))
        or _other_language(_language(one), _language(other))
    )


def folded(question: str) -> str:
    """The question without its case, spacing and final mark."""
    return " ".join(question.casefold().split()).rstrip(" ?!.")


def _words(question: str) -> list[str]:
    plain = _THOUSANDS.sub("", question.casefold())
    return [_root(word) for word in _WORD.findall(plain)]


def _root(word: str) -> str:
    """Without the commonest endings: `allowed` and `allows` are one word here."""
    if any(map(str.isdigit, word)) or word in NEGATIONS:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def _numbers(words: Sequence[str]) -> Counter[str]:
    """Whatever has a digit in it, numbers in words, and ordinals."""
    return Counter(
        _NUMBER_ROOTS.get(word, word)
        for word in words
        if word in _NUMBER_ROOTS or word in _ORDERED_ROOTS or any(map(str.isdigit, word))
    )


def _negations(words: Sequence[str]) -> int:
    return sum(word in NEGATIONS or word.endswith(("n't", "n’t")) for word in words)


def _quoted(question: str) -> set[str]:
    return {"".join(groups).casefold().strip() for groups in _QUOTED.findall(question)}


def _names(question: str) -> set[str]:
    """Capitalised words, but not the one that opens a sentence unless it is no common one."""
    found = set()
    for sentence in re.split(r"(?<=[.!?:])\s+", question):
        for at, word in enumerate(_WORD.findall(sentence)):
            if word[0].isupper() and not (at == 0 and word.casefold() in OPENERS):
                found.add(_root(_THOUSANDS.sub("", word.casefold())))
    return found - {"i"}


def _asked_for(question: str, words: Sequence[str]) -> set[str]:
    return (set(words) & _ASKED_ROOTS) | set(_HOW.findall(question.casefold()))


def _swapped(only: set[str], only_other: set[str]) -> bool:
    """Whether a word has been put in the place of its opposite, or of one spelt much like it.

    Questions that have more than a few words apart are not looked at any closer.
    """
    if max(len(only), len(only_other)) > _APART_MAX:
        return True
    for a in only:
        for b in only_other:
            if _near_in_spelling(a, b) or _negates(a, b) or _negates(b, a):
                return True
            if frozenset((a, b)) in _OPPOSITE_ROOTS:
                return True
    return False


def _negates(a: str, b: str) -> bool:
    return any(a == prefix + b for prefix in NEGATING_PREFIXES)


def _near_in_spelling(a: str, b: str) -> bool:
    """`Anna` and `Hanna`, `affect` and `effect`: one letter apart, of long words two."""
    most = 1 if max(len(a), len(b)) <= 7 else 2
    if min(len(a), len(b)) < 3 or abs(len(a) - len(b)) > most:
        return False
    row = list(range(len(b) + 1))
    for at, letter in enumerate(a, start=1):
        before, row = row, [at]
        for to, other in enumerate(b, start=1):
            row.append(min(before[to] + 1, row[-1] + 1, before[to - 1] + (letter != other)))
    return row[-1] <= most


def _other_language(one: str, other: str) -> bool:
    return bool(one and other) and one != other


def _language(question: str) -> str:
    """By its commonest words; "" where none of them is there."""
    words = set(_WORD.findall(question.casefold()))
    shares = {language: len(words & telling) for language, telling in LANGUAGES.items()}
    best = max(shares, key=lambda language: shares[language])
    return best if shares[best] else ""


_NUMBER_ROOTS = {_root(word): number for word, number in NUMBERS.items()}
_ORDERED_ROOTS = {_root(word) for word in ORDERED}
_ASKED_ROOTS = {_root(word) for word in ASKED_FOR}
_OPPOSITE_ROOTS = {frozenset(map(_root, pair)) for pair in OPPOSITES}
