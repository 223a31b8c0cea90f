"""Titles of conversations by the model, once the first question has been answered."""

from apps.chat.titling.titling import title_conversation

__all__ = ["title_conversation"]
