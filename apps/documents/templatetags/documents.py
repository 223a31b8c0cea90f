"""How documents are named to people."""

from __future__ import annotations

from pathlib import PurePath

from django import template

register = template.Library()

_LONGEST_SUFFIX = 5  # longer ones are part of a name rather than a kind


@register.filter
def kind_label(name: str) -> str:
    """The kind of a file as people say it: "PDF" for "report.pdf", "File" without a suffix."""
    suffix = PurePath(name).suffix.lstrip(".")
    return suffix.upper() if 0 < len(suffix) <= _LONGEST_SUFFIX else "File"


@register.simple_tag
def page_range(first: int, last: int) -> str:
    """ "page 3", or "pages 3 to 4"."""
    return f"page {first}" if first == last else f"pages {first} to {last}"
