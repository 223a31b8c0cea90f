"""Words of the parts around an answer."""

from __future__ import annotations

from django import template

from apps.chat.feedback import REASONS
from apps.chat.models import Feedback

register = template.Library()


@register.simple_tag
def feedback_reasons(feedback: Feedback) -> list[tuple[str, str, bool]]:
    """Code, words and whether it was chosen, of every reason there is for this thumb."""
    reasons = REASONS[1 if feedback.thumb > 0 else -1]
    return [(code, str(words), code in feedback.reasons) for code, words in reasons.items()]
