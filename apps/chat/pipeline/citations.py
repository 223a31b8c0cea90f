"""Citations are earned: each sentence of an answer is matched to the passages that support it.

A marker the model wrote counts only when it names a passage the model was given and that passage
supports the sentence. A sentence without such a marker gets the best passage that supports it;
a sentence that no passage supports is marked as such.

Support is judged on words, not on likeness alone: a fluent sentence about the right subject with
the wrong number is close to its passage in any embedding. So a passage supports a sentence when it
holds all of the sentence's numbers and most of its content words, by stem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apps.chat.pipeline.types import Sentence
from apps.retrieval.analysis import terms_of, words_of
from apps.retrieval.types import Passage

# Share of a sentence's distinct content words that a supporting passage must hold.
SUPPORTED_FROM = 0.6
MARKER = re.compile(r"\[(\d{1,3})\]")
_FENCE = re.compile(r"^(```|~~~)")
# A sentence ends at closing punctuation (with its markers and quotes) before white space.
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])(?:[\"'”’)\]]|\s?\[\d{1,3}\])*(?=\s|$)|(?<=[。！？])(?:\s?\[\d{1,3}\])*"
)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Dr|Mr|Mrs|Ms|No|approx|Fig)|\b[A-Z])\.$")
_LINE_LEAD = re.compile(r"[\s>#*+\-|]*(?:\d{1,3}[.)]\s+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_STOP_WORDS_TEXT = """
a about above after again all also am an and any are as at be because been before being below
between both but by can could did do does doing down during each few for from further had has have
having he her here hers him his how i if in into is it its just let may me might more most must my
no nor not now of off on once only or other our out over own passage passages document documents
per same she should so some such than that the their them then there these they this those through
to too under until up upon us use used uses using very was we were what when where which while who
whom why will with within would you your according says said state states stated
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


@dataclass(frozen=True)
class _Evidence:
    """What a passage can vouch for."""

    terms: frozenset[int]
    numbers: frozenset[str]


def match_sentences(text: str, passages: Sequence[Passage]) -> tuple[Sentence, ...]:
    """Judge every sentence of `text`; offsets are into `text`. Fenced code is left alone."""
    evidence = [_evidence(passage) for passage in passages]
    return tuple(
        sentence
        for start, end in split_sentences(text)
        if (sentence := _judge(text, start, end, evidence)) is not None
    )


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of the sentences of Markdown `text`, markers included, line by line."""
    offset, fenced = 0, False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line.lstrip()):
            fenced = not fenced
        elif not fenced:
            yield from _split_line(text, offset, offset + len(line.rstrip()))
        offset += len(line)


def _split_line(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    lead = _LINE_LEAD.match(text, start, end)
    begin = lead.end() if lead else start
    for stop in _SENTENCE_END.finditer(text, begin, end):
        if (
            _ABBREVIATION.search(text, max(begin, stop.start() - 8), stop.start())
            and stop.end() < end
        ):
            continue
        if text[begin : stop.end()].strip():
            yield begin, stop.end()
        begin = stop.end()
        while begin < end and text[begin].isspace():
            begin += 1
    if text[begin:end].strip():
        yield begin, end


def _judge(text: str, start: int, end: int, evidence: Sequence[_Evidence]) -> Sentence | None:
    """None for what claims nothing: questions, headings without content words, bare markers."""
    said = MARKER.sub(" ", text[start:end])
    terms = content_terms(said)
    if not terms or said.rstrip(" \"'”’)").endswith(("?", "？")):
        return None
    numbers = frozenset(_NUMBER.findall(said))
    scores = [_support(terms, numbers, each) for each in evidence]
    given = [int(n) for n in MARKER.findall(text[start:end]) if 1 <= int(n) <= len(evidence)]
    earned = [n for n in dict.fromkeys(given) if scores[n - 1] >= SUPPORTED_FROM]
    if not earned and scores and max(scores) >= SUPPORTED_FROM:
        earned = [scores.index(max(scores)) + 1]
    return Sentence(start, end, tuple(sorted(earned)), supported=bool(earned))


def content_terms(text: str) -> frozenset[int]:
    """Term ids of the distinct words that say something."""
    return frozenset(
        word.term
        for word in words_of(text)
        if word.end - word.start > 1 and text[word.start : word.end].casefold() not in _STOP_WORDS
    )


def _evidence(passage: Passage) -> _Evidence:
    said = f"{passage.document_name} {passage.heading_path} {passage.text}"
    return _Evidence(frozenset(terms_of(said)), frozenset(_NUMBER.findall(said)))


def _support(terms: frozenset[int], numbers: frozenset[str], evidence: _Evidence) -> float:
    """Share of the content terms that the passage holds; 0 when it lacks one of the numbers."""
    if numbers - evidence.numbers:
        return 0.0
    return len(terms & evidence.terms) / len(terms)
