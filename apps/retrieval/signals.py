"""What a question and a passage have in common, apart from their vectors. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from apps.retrieval.analysis import Word
from apps.retrieval.bm25 import Statistics

Span = tuple[int, int]

_SENTENCE_END = re.compile(r"[.!?…][\"”’)\]]*\s|[。！？।]|\n")
# Years, amounts, part numbers; shorter ones are as often "3 reasons" as something to be found.
_NUMBER_DIGITS = 3
_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
_PLAIN_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_GENITIVE = re.compile(r"['’]s$")


def coverage(words: Sequence[Word], present: AbstractSet[int], statistics: Statistics) -> float:
    """Share of the question's words that a text with the terms `present` has, weighed by idf.

    `words` may hold several stems of one word (the same offsets): any of them counts. 0 to 1.
    """
    weights = _weights(words, statistics)
    total = sum(weights.values())
    covered = {(word.start, word.end) for word in words if word.term in present}
    return sum(weights[span] for span in covered) / total if total else 0.0


def closeness(
    words: Sequence[Word], text: str, text_words: Sequence[Word], statistics: Statistics
) -> float:
    """Of the question's words that the text has, the share that two sentences in a row have.

    Weighed by idf; 1 where the text has none. The first line, mostly a heading, goes with every
    sentence. Words from all over a passage make no answer.
    """
    weights = _weights(words, statistics)
    said = _spans_by_sentence(words, text, text_words)
    covered: set[Span] = set().union(*said.values())
    total = sum(weights[span] for span in covered)
    if not total:
        return 1.0
    first = said.get(0, set())
    rows = (first | spans | said.get(at + 1, set()) for at, spans in said.items())
    return max(sum(weights[span] for span in row) for row in rows) / total


def _spans_by_sentence(
    words: Sequence[Word], text: str, text_words: Sequence[Word]
) -> dict[int, set[Span]]:
    """Which words of the question each sentence of the text has, by the sentence's number."""
    asked: dict[int, set[Span]] = defaultdict(set)
    for word in words:
        asked[word.term].add((word.start, word.end))
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    said: dict[int, set[Span]] = defaultdict(set)
    for word in text_words:
        if word.term in asked:
            said[bisect_right(ends, word.start)] |= asked[word.term]
    return said


def number_share(question: str, text: str) -> float:
    """Share of the question's numbers of three digits or more that the text has; 1 without any."""
    return _share(_numbers(question), _numbers(text))


def name_share(question: str, text: str, language: str) -> float:
    """Share of the question's capitalised words that the text has, in any case; 1 without any.

    English alone writes names, and little else, so. A sentence's first word says nothing, nor do
    any where most words are capitals.
    """
    found = list(_PLAIN_WORD.finditer(question))
    words = [match[0] for match in found]
    starts = [question[: match.start()].rstrip() for match in found]
    names = {
        word
        for word, before in zip(words, starts, strict=True)
        if word[0].isupper() and len(word) > 1 and before and before[-1] not in ".?!:;"
    }
    if language != "en" or 2 * len(names) > len(words):
        return 1.0
    folded = text.casefold()
    return _mean(_GENITIVE.sub("", name).casefold() in folded for name in names)


def _weights(words: Sequence[Word], statistics: Statistics) -> dict[Span, float]:
    weights: dict[Span, float] = {}
    for word in words:
        span = (word.start, word.end)
        weights[span] = max(weights.get(span, 0.0), statistics.idf(word.term))
    return weights


def _numbers(text: str) -> set[str]:
    """Digits only, as ASCII: separators differ between languages."""
    found = (
        "".join(str(unicodedata.digit(char)) for char in match if char.isdigit())
        for match in _NUMBER.findall(text)
    )
    return {digits for digits in found if len(digits) >= _NUMBER_DIGITS}


def _share(wanted: AbstractSet[str], present: AbstractSet[str]) -> float:
    return _mean(each in present for each in wanted)


def _mean(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 1.0
