"""Questions that a reader may want to ask, made by rule of what the documents hold."""

from apps.chat.suggesting.follow_ups import follow_ups_of
from apps.chat.suggesting.opening import suggest_questions

__all__ = ["follow_ups_of", "suggest_questions"]
