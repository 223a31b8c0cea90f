"""From an answer's Markdown to HTML that is safe to show.

The text comes from a model that read hostile documents. HTML in it is escaped by the Markdown
renderer, and the result is cleaned against a short list of tags; images, forms and styles are not
on it. Citation chips and support marks are put in between the two, so the cleaner also repairs
whatever nesting they cut through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

import nh3
from markdown_it import MarkdownIt

from apps.chat.pipeline.citations import MARKER
from apps.chat.pipeline.types import Sentence

# Private-use characters carry positions through the renderer; none may come from the text itself.
_OPEN, _CLOSE, _CHIP = "\ue000", "\ue001", "\ue002"
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_CHIP_MARK = re.compile(f"{_CHIP}(\\d+){_CHIP}")
_SPACED_MARKER = re.compile(rf"[ \t]*{MARKER.pattern}")
UNSUPPORTED_TITLE = "No passage found supports this sentence."

_markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
_TAGS = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "a", "span"),
}


def render_answer(
    text: str, sentences: Sequence[Sentence], citation_urls: Mapping[int, tuple[str, str]]
) -> str:
    """Sanitised HTML of an answer.

    `citation_urls` maps a marker to its citation's id and address. Only markers that a sentence
    earned become links; others that the model wrote disappear.
    """
    marked = _mark(_PRIVATE.sub("", text), sentences, citation_urls)
    html = _markdown.render(marked)
    html = html.replace(
        _OPEN, f'<span class="unsupported" title="{escape(UNSUPPORTED_TITLE)}">'
    ).replace(_CLOSE, "</span>")
    html = _CHIP_MARK.sub(lambda match: _chip(int(match[1]), citation_urls), html)
    return clean(html)


def clean(html: str) -> str:
    """Only the listed tags, our own classes, and links that go to http(s) or to this site."""
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href", "data-citation"}, "span": {"title"}, "ol": {"start"}},
        allowed_classes={"a": {"cite"}, "span": {"unsupported"}},
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
    )


def _mark(
    text: str, sentences: Sequence[Sentence], citation_urls: Mapping[int, tuple[str, str]]
) -> str:
    if len(text) and any(sentence.end > len(text) for sentence in sentences):
        sentences = ()  # private-use characters were removed: the offsets no longer hold
    pieces, position = [], 0
    for sentence in sentences:
        pieces.append(text[position : sentence.start])
        body = _SPACED_MARKER.sub("", text[sentence.start : sentence.end]).rstrip()
        chips = "".join(f"{_CHIP}{n}{_CHIP}" for n in sentence.markers if n in citation_urls)
        if _in_table(text, sentence.start):
            pieces.append(_mark_row(body, chips))
        else:
            pieces.append(f"{body}{chips}" if sentence.supported else f"{_OPEN}{body}{_CLOSE}")
        position = sentence.end
    pieces.append(text[position:])
    return "".join(pieces)


def _in_table(text: str, position: int) -> bool:
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line.lstrip().startswith("|")


def _mark_row(row: str, chips: str) -> str:
    """Chips go into the last cell: behind it, or around several, a mark would break the table."""
    if set(row) <= set("|-: "):
        return row
    return f"{row[:-1]}{chips}|" if row.endswith("|") else f"{row}{chips}"


def _chip(marker: int, citation_urls: Mapping[int, tuple[str, str]]) -> str:
    if marker not in citation_urls:
        return ""
    citation_id, url = citation_urls[marker]
    return (
        f'<a class="cite" data-citation="{escape(citation_id)}" href="{escape(url)}">{marker}</a>'
    )
