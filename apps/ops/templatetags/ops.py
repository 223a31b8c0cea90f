"""How stretches of time are said to operations."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def duration(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@register.filter
def milliseconds(value: float) -> str:
    """ "12 ms", or as `duration` from a second on."""
    return f"{value:.0f} ms" if value < 1000 else duration(value / 1000)


@register.filter
def short_id(identifier: object) -> str:
    """The first eight characters: enough to tell rows of a page apart."""
    return str(identifier)[:8]
