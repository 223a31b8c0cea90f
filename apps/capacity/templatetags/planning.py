"""How a computed figure is said on pages."""

from __future__ import annotations

from django import template

from apps.capacity.arithmetic.derived import Derived
from apps.capacity.planning import saying

register = template.Library()


@register.filter
def shown(derived: Derived | None) -> str:
    """The figure with its unit and its bound; a dash for None."""
    return "–" if derived is None else saying.say(derived)


@register.filter
def shown_value(derived: Derived | None) -> str:
    """The same without "at most" or "at least", where the words beside it say so."""
    return "–" if derived is None else saying.say_value(derived.value, derived.unit)


@register.filter
def digits(value: float) -> str:
    """A number in three digits that count."""
    return saying.digits(value)
