"""How right an answer is: its words, its citations, and whether it should have been given.

Words as SQuAD 1.1 compares them (Rajpurkar 2016, evaluate-v1.1.py): case, punctuation, English
articles and spaces do not count; of several reference answers the best counts. A model that
answers in sentences hardly ever matches exactly, so what is judged is whether the reference stands
in the answer; exact match and F1 are kept beside it.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from apps.evals.matching import Found, Labelled

# What a gate judges, each from 0 to 1, more is better.
JUDGED = ("answer_match", "citation_precision", "abstention")
SHOWN = ("exact_match", "token_f1", "citation_recall")
_ARTICLES = {"a", "an", "the"}
_MARKER = re.compile(r"\[\d{1,3}\]")
# Scripts that put no spaces between words: each character is a word there.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


@dataclass(frozen=True)
class Given:
    """An answer, as it is scored."""

    text: str
    abstained: bool  # said that the documents do not answer
    cited: tuple[Found, ...] = ()  # passages, by where they lie


def score(
    given: Given, *, references: Sequence[str], labels: Sequence[Labelled], unanswerable: bool
) -> dict[str, float]:
    """The metrics that apply, by name. Without reference answers there is no answer match; a
    question that cannot be answered has neither that nor citations."""
    found = {"abstention": float(given.abstained == unanswerable)}
    if unanswerable:
        return found
    if references:
        found |= score_words(given, references)
    relevant = [label for label in labels if label.grade > 0]
    if relevant:
        found |= score_citations(given.cited, relevant)
    return found


def score_words(given: Given, references: Sequence[str]) -> dict[str, float]:
    """Of the best reference; an answer that abstains matches none."""
    if given.abstained:
        return {"answer_match": 0.0, "exact_match": 0.0, "token_f1": 0.0}
    words = words_of(given.text)
    wanted = [words_of(each) for each in references]
    return {
        "answer_match": float(any(_stands_in(each, words) for each in wanted)),
        "exact_match": float(any(each == words for each in wanted)),
        "token_f1": max(token_f1(each, words) for each in wanted),
    }


def score_citations(cited: Sequence[Found], labels: Sequence[Labelled]) -> dict[str, float]:
    """Precision: cited passages that overlap a label ÷ cited; recall: labels that are cited ÷ all.

    An answer that cites nothing has shown nothing: precision 0, not left out.
    """
    right = sum(any(overlaps(label, each) for label in labels) for each in cited)
    met = sum(any(overlaps(label, each) for each in cited) for label in labels)
    return {
        "citation_precision": right / len(cited) if cited else 0.0,
        "citation_recall": met / len(labels),
    }


def overlaps(label: Labelled, passage: Found) -> bool:
    """Whether they share a character; a label without a range is all of its document."""
    if label.document_id != passage.document_id:
        return False
    if label.start is None or label.end is None:
        return True
    return min(label.end, passage.end) > max(label.start, passage.start)


def references_of(text: str) -> list[str]:
    """Reference answers, one a line; those without a word are none."""
    return [line for line in text.splitlines() if words_of(line)]


def words_of(text: str) -> list[str]:
    """Normalised words: without markers, case, punctuation and articles."""
    plain = unicodedata.normalize("NFKC", _MARKER.sub(" ", text)).casefold()
    kept = "".join(_kept(char) for char in plain)
    return [word for word in kept.split() if word not in _ARTICLES]


def token_f1(wanted: Sequence[str], words: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, each counted as often as it stands."""
    shared = sum((Counter(wanted) & Counter(words)).values())
    return 2 * shared / (len(wanted) + len(words)) if shared else 0.0


def _stands_in(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """As a run of whole words."""
    size = len(wanted)
    return size > 0 and any(
        list(words[at : at + size]) == list(wanted) for at in range(len(words) - size + 1)
    )


def _kept(char: str) -> str:
    kind = unicodedata.category(char)
    if kind[0] in "LN":
        return f" {char} " if unicodedata.name(char, "").startswith(_UNSPACED) else char
    # Vowel signs belong to their word (Devanagari, Thai); what else there is parts words, but for
    # what stands within one: SQuAD takes "o'clock" for one word.
    return char if kind[0] == "M" else "" if char in "'’" else " "


def place(chunk_id: uuid.UUID, document_id: uuid.UUID, start: int, end: int) -> Found:
    """A cited passage by where it lies."""
    return Found(chunk_id, document_id, start, end, 0.0)
