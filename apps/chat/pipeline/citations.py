"""Citations are earned: each sentence of an answer is matched to the passages that support it.

A marker the model wrote counts only when it names a passage the model was given and that passage
supports the sentence. A sentence without such a marker gets the best passage that supports it;
a sentence that no passage supports is marked as such.

Support is judged on words, not on likeness alone: a fluent sentence about the right subject with
the wrong number, or a "not" too many, is close to its passage in any embedding. So a passage
supports a sentence when one to three of its sentences in a row hold all of the sentence's numbers
and most of its content words, by stem, and agree with it in being negated or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from apps.chat.pipeline.types import Reason, Sentence
from apps.retrieval.analysis import terms_of, words_of
from apps.retrieval.types import Passage

# Share of a sentence's distinct content words that must be found: in the passage's own sentences
# together with its document's name and headings, and in the sentences alone.
SUPPORTED_FROM = 0.6
_IN_SENTENCES_FROM = 0.4
_SENTENCES_IN_A_ROW = 3
MARKER = re.compile(r"\[(\d{1,3})\]")
_RULE_OF_TABLE = re.compile(r"^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$")
_FENCE = re.compile(r"(```|~~~)")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_FORMULAS = {"$$": "$$", "\\[": "\\]"}
_TEX_COMMAND = re.compile(r"\\[A-Za-z]+")
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
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE
)
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


@dataclass(frozen=True)
class _Claim:
    """What a sentence says, or what a few sentences of a passage in a row do."""

    terms: frozenset[int]
    numbers: frozenset[str]
    negated: bool


@dataclass(frozen=True)
class _Evidence:
    """What a passage can vouch for: its sentences, read under its name and headings."""

    title: _Claim
    rows: tuple[_Claim, ...]


def match_sentences(text: str, passages: Sequence[Passage]) -> tuple[Sentence, ...]:
    """Judge every sentence of `text`; offsets are into `text`. Code and formulas between their
    own lines are left alone."""
    return Evidence(passages).judge(text)


class Evidence:
    """Passages, made ready to be asked about sentences: once for an answer that comes in blocks."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._each = [_evidence(p.document_name, p.heading_path, p.text) for p in passages]

    def judge(self, text: str) -> tuple[Sentence, ...]:
        """What `match_sentences` answers."""
        return tuple(
            sentence
            for start, end in split_sentences(text)
            if (sentence := _judge(text, start, end, self._each)) is not None
        )


def _is_table_head(line: str, after: str) -> bool:
    return "|" in line and _RULE_OF_TABLE.match(after.strip()) is not None


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of the sentences of Markdown `text`, markers included, line by line."""
    offset, closing = 0, ""
    lines = text.splitlines(keepends=True)
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        bare = line.strip()
        if closing:
            # A formula ends at an empty line at the latest.
            if bare.startswith(closing) or (closing in _FORMULAS and _ends(bare, closing)):
                closing = ""
        elif fence := _FENCE.match(bare):
            closing = fence[1]
        elif (formula := _FORMULAS.get(bare[:2])) and not bare[2:].endswith(formula):
            closing = formula
        # What names things claims nothing: a heading, and the first row of a table.
        elif not formula and not _HEADING.match(bare) and not _is_table_head(bare, after):
            yield from _split_line(text, offset, offset + len(line.rstrip()))
        offset += len(line)


def _ends(line: str, closing: str) -> bool:
    return not line or closing in line


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
    said = _TEX_COMMAND.sub(" ", MARKER.sub(" ", text[start:end]))
    claim = _Claim(content_terms(said), _numbers(said), _is_negated(said))
    if not claim.terms or said.rstrip(" \"'”’)").endswith(("?", "？")):
        return None
    scores = [_support(claim, each) for each in evidence]
    given = [int(n) for n in MARKER.findall(text[start:end]) if 1 <= int(n) <= len(evidence)]
    earned = [n for n in dict.fromkeys(given) if scores[n - 1] >= SUPPORTED_FROM]
    if not earned and scores and max(scores) >= SUPPORTED_FROM:
        earned = [scores.index(max(scores)) + 1]
    reason = "" if earned else _reason(claim, evidence)
    return Sentence(start, end, tuple(sorted(earned)), supported=bool(earned), reason=reason)


def content_terms(text: str) -> frozenset[int]:
    """Term ids of the distinct words that say something."""
    return frozenset(
        word.term
        for word in words_of(text)
        if word.end - word.start > 1 and text[word.start : word.end].casefold() not in _STOP_WORDS
    )


# Asked for twice an answer, while it is written and at its end: 4 ms for six passages.
@lru_cache(maxsize=64)
def _evidence(document_name: str, heading_path: str, text: str) -> _Evidence:
    sentences = [text[start:end] for start, end in split_sentences(text)]
    rows = {
        " ".join(sentences[first : first + length])
        for length in range(1, _SENTENCES_IN_A_ROW + 1)
        for first in range(max(1, len(sentences) - length + 1))
    }
    title = f"{document_name} {heading_path}"
    return _Evidence(_claim(title), tuple(_claim(row) for row in rows))


def _claim(text: str) -> _Claim:
    return _Claim(frozenset(terms_of(text)), _numbers(text), _is_negated(text))


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))


def _is_negated(text: str) -> bool:
    return _NEGATION.search(text) is not None


def _support(claim: _Claim, evidence: _Evidence) -> float:
    """The best share of the claim's content terms that sentences in a row hold; 0 to 1.

    Rows that lack one of its numbers, or are negated where it is not or the other way round, do
    not count, nor do those that hold little of it without the headings' help.
    """
    return max((_share(claim, evidence.title, row) for row in evidence.rows), default=0.0)


def _share(claim: _Claim, title: _Claim, row: _Claim) -> float:
    if claim.numbers - row.numbers - title.numbers or claim.negated != row.negated:
        return 0.0
    return _word_share(claim, title, row)


def _reason(claim: _Claim, evidence: Sequence[_Evidence]) -> Reason:
    """Why no passage supports the claim: what keeps the nearest from doing so."""
    rows = [(row, each.title) for each in evidence for row in each.rows]
    alike = [(row, title) for row, title in rows if _holds_words(claim, title, row)]
    if any(claim.negated == row.negated for row, _title in alike):
        return "numbers_differ"
    if alike:
        return "negation_differs"
    part = max((len(claim.terms & row.terms) for row, _title in rows), default=0)
    return "words_missing" if part >= _IN_SENTENCES_FROM * len(claim.terms) else "no_passage"


def _holds_words(claim: _Claim, title: _Claim, row: _Claim) -> bool:
    return _word_share(claim, title, row) >= SUPPORTED_FROM


def _word_share(claim: _Claim, title: _Claim, row: _Claim) -> float:
    size = len(claim.terms)
    if len(claim.terms & row.terms) < _IN_SENTENCES_FROM * size:
        return 0.0
    return len(claim.terms & (row.terms | title.terms)) / size
