"""Citation marks and doubts: put into the Markdown as private-use characters, then made tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape

from django.utils.translation import gettext as _

from apps.chat.pipeline.citations import MARKER, split_sentences
from apps.chat.pipeline.types import Sentence
from apps.chat.rendering.positions import CHIP, CLOSE, OPEN

CitationUrls = Mapping[int, tuple[str, str]]

_CHIP_MARK = re.compile(f"{CHIP}(\\d+){CHIP}")
_CLOSE_MARK = re.compile(f"{CLOSE}([a-z_]*){CLOSE}")
# Code in a line keeps its square brackets.
_CODE_OR_MARKER = re.compile(rf"(`[^`]*`)|[ \t]*{MARKER.pattern}")


def doubt_in_words(reason: str) -> str:
    """Why a sentence counts as unsupported, in words for the reader."""
    words = {
        "no_passage": _("Not in the sources: no passage says this."),
        "numbers_differ": _("Not in the sources: the passages that come near have other numbers."),
        "negation_differs": _("Not in the sources: the passage that comes near says the opposite."),
        "words_missing": _("Not in the sources: the passage that comes near says only part of it."),
    }
    return words.get(reason) or _("Not in the sources: no passage found supports this sentence.")


def put_marks(text: str, sentences: Sequence[Sentence], urls: CitationUrls) -> str:
    """The Markdown with marks for what its sentences earned, and without the model's own."""
    if any(sentence.end > len(text) for sentence in sentences):
        return text  # private-use characters were removed: the offsets no longer hold
    return "".join(_pieces(text, sentences, urls))


def _pieces(text: str, sentences: Sequence[Sentence], urls: CitationUrls) -> Iterator[str]:
    judged = {(sentence.start, sentence.end): sentence for sentence in sentences}
    # A sentence that claims nothing loses the model's markers all the same.
    spans = sorted({*judged, *split_sentences(text)})
    position = 0
    for start, end in spans:
        if start < position:
            continue
        yield text[position:start]
        yield _marked(text, start, end, judged.get((start, end)), urls)
        position = end
    yield text[position:]


def _marked(text: str, start: int, end: int, sentence: Sentence | None, urls: CitationUrls) -> str:
    body = _CODE_OR_MARKER.sub(r"\1", text[start:end]).rstrip()
    if sentence is None:
        return body
    chips = "".join(f"{CHIP}{n}{CHIP}" for n in sentence.markers if n in urls)
    if _in_table(text, start):
        return _mark_row(body, chips)
    if sentence.supported:
        return f"{body}{chips}"
    return f"{OPEN}{body}{CLOSE}{sentence.reason}{CLOSE}"


def _in_table(text: str, position: int) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    return text[line_start : position + 1].lstrip().startswith("|")


def _mark_row(row: str, chips: str) -> str:
    """Chips go into the last cell: behind it, or around several, a mark would break the table."""
    if set(row) <= set("|-: "):
        return row
    return f"{row[:-1].rstrip()}{chips} |" if row.endswith("|") else f"{row}{chips}"


def write_marks(text: str, sentences: Sequence[Sentence], shown: Collection[int]) -> str:
    """The Markdown with the earned markers of `shown` as "[n]", and no doubts: for copies."""
    marked = put_marks(text, sentences, dict.fromkeys(shown, ("", "")))
    return _CHIP_MARK.sub(r" [\1]", _CLOSE_MARK.sub("", marked.replace(OPEN, "")))


def make_tags(html: str, urls: CitationUrls) -> str:
    """The marks in rendered HTML as tags."""
    html = html.replace(OPEN, '<span class="unsupported">')
    html = _CLOSE_MARK.sub(lambda match: _doubt(match[1]), html)
    return _CHIP_MARK.sub(lambda match: _chip(int(match[1]), urls), html)


def _doubt(reason: str) -> str:
    words = escape(doubt_in_words(reason))
    return f'</span><button class="why" data-reason="{reason}" aria-label="{words}">?</button>'


def _chip(marker: int, urls: CitationUrls) -> str:
    if marker not in urls:
        return ""
    citation_id, url = urls[marker]
    return (
        f'<a class="cite" data-citation="{escape(citation_id)}" href="{escape(url)}">{marker}</a>'
    )
