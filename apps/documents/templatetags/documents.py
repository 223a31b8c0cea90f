"""How documents are named and counted on pages."""

from __future__ import annotations

from pathlib import PurePath

from django import template
from django.utils.translation import gettext

from apps.documents.progress import reason_words

register = template.Library()

_LONGEST_SUFFIX = 5  # longer ones are part of a name rather than a kind
_MINUTE_S = 60
_HOUR_S = 3600

register.filter("reason_words", reason_words)


@register.filter
def kind_label(name: str) -> str:
    """The kind of a file as people say it: "PDF" for "report.pdf", "File" without a suffix."""
    suffix = PurePath(name).suffix.lstrip(".")
    return suffix.upper() if 0 < len(suffix) <= _LONGEST_SUFFIX else "File"


@register.filter
def folder(path: str) -> str:
    """The folder a file came in, "" where it was sent by itself."""
    return path.rpartition("/")[0]


@register.simple_tag
def page_range(first: int, last: int) -> str:
    """ "page 3", or "pages 3 to 4"."""
    words = gettext("page %(first)s") if first == last else gettext("pages %(first)s to %(last)s")
    return words % {"first": first, "last": last}


@register.filter
def grouped(number: float) -> str:
    """ "12,345"; below ten with a decimal where there is one."""
    return f"{number:,.1f}" if number < 10 and number % 1 else f"{round(number):,}"


@register.filter
def percent_of(done: int, total: int) -> int:
    """Whole percent; 0 of nothing."""
    return 100 * done // total if total else 0


@register.filter
def time_left(seconds: float) -> str:
    """As exact as an estimate deserves: "about 3 minutes left"."""
    if seconds < _MINUTE_S:
        return "less than a minute left"
    if seconds < 1.5 * _HOUR_S:
        minutes = round(seconds / _MINUTE_S)
        return f"about {minutes} minute{'s' if minutes > 1 else ''} left"
    return f"about {round(seconds / _HOUR_S)} hours left"
