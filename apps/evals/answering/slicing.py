"""Which slices a question is in, and a bounded sample that leaves none of them too small."""

from __future__ import annotations

import hashlib
import unicodedata
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A kind, then a name. Named by people; what decides whether there is an answer; read off the text.
ALL = "all/every question"
OWN, ANSWERS, AUTO = "own", "answers", "auto"
ANSWERABLE, UNANSWERABLE = f"{ANSWERS}/answerable", f"{ANSWERS}/unanswerable"
FEW = 30  # questions: below, chance alone moves a mean by more than most budgets
_LONG_CHARS, _LONG_CHARS_DENSE = 60, 20  # SQuAD's questions are 60 characters long in the middle
_DENSE = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"}


@dataclass(frozen=True)
class Drawn:
    """A question that may be asked."""

    id: uuid.UUID
    key: str
    slices: tuple[str, ...]


def slices_of(*, text: str, own: Iterable[str], labels: int, unanswerable: bool) -> tuple[str, ...]:
    """All slices of a question, `kind/name`. `labels`: how many places answer it."""
    script = script_of(text)
    longest = _LONG_CHARS_DENSE if script in _DENSE else _LONG_CHARS
    length = "long question" if len(text) > longest else "short question"
    found = [ALL, UNANSWERABLE if unanswerable else ANSWERABLE]
    found += [f"{OWN}/{name}" for name in own]
    if not unanswerable:
        found.append(f"{AUTO}/{'several labels' if labels > 1 else 'one label'}")
    found += [f"{AUTO}/{length}", f"{AUTO}/script {script.capitalize()}"]
    return tuple(dict.fromkeys(found))


def script_of(text: str) -> str:
    """That of most letters, by Unicode's names: LATIN, CJK, ARABIC; NONE without a letter."""
    counted = Counter(
        unicodedata.name(char, "NONE").split()[0].split("-")[0] for char in text if char.isalpha()
    )
    return counted.most_common(1)[0][0] if counted else "NONE"


def draw(questions: Sequence[Drawn], *, sample: int, seed: int) -> list[uuid.UUID]:
    """At most `sample` of them: rare slices first, up to FEW each, then by a hash of seed and key.

    The mean over such a sample is that of the questions asked, not of the set.
    """
    ordered = sorted(questions, key=lambda each: (_hash(seed, each.key), str(each.id)))
    sizes = Counter(name for each in ordered for name in each.slices)
    taken: dict[uuid.UUID, Drawn] = {}
    for name, _ in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        have = sum(name in each.slices for each in taken.values())
        for each in ordered:
            if have >= FEW or len(taken) >= sample:
                break
            if name in each.slices and each.id not in taken:
                taken[each.id] = each
                have += 1
    for each in ordered:
        if len(taken) >= sample:
            break
        taken.setdefault(each.id, each)
    return [each.id for each in ordered if each.id in taken]


def _hash(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()
