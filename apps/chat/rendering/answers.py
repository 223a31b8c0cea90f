"""An answer as HTML.

Citation marks and doubts are put in between Markdown and cleaner, so the cleaner also repairs
whatever nesting they cut through.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from apps.chat.pipeline.types import Sentence
from apps.chat.rendering.cleaning import clean
from apps.chat.rendering.markdown import markdown
from apps.chat.rendering.marks import CitationUrls, make_tags, put_marks
from apps.chat.rendering.positions import PRIVATE

# About twenty times the longest answer a model is asked for; more than that is shown as it is.
LONGEST_MARKDOWN = 200_000


def render_answer(text: str, sentences: Sequence[Sentence], citation_urls: CitationUrls) -> str:
    """Sanitised HTML of an answer, or of finished blocks of one.

    `citation_urls` maps a marker to its citation's id and address. Only markers that a sentence
    earned become links; others that the model wrote disappear.
    """
    text = PRIVATE.sub("", text)
    if len(text) > LONGEST_MARKDOWN:
        return clean(f"<pre>{escape(text)}</pre>")
    html = markdown.render(put_marks(text, sentences, citation_urls))
    return clean(make_tags(html, citation_urls))
