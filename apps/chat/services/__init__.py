"""Writing conversations."""

from apps.chat.services.answers import finish_answer, store_sources
from apps.chat.services.asking import (
    StartedAnswer,
    clean_question,
    continue_answer,
    restart_answer,
    start_answer,
)
from apps.chat.services.conversations import delete_conversation, rename_conversation

__all__ = [
    "StartedAnswer",
    "clean_question",
    "continue_answer",
    "delete_conversation",
    "finish_answer",
    "rename_conversation",
    "restart_answer",
    "start_answer",
    "store_sources",
]
