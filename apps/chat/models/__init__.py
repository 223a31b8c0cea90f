"""Conversations, messages, citations, feedback and shares. All are under row-level security."""

from apps.chat.models.conversations import Conversation, Folder, TitleBy
from apps.chat.models.feedback import Feedback
from apps.chat.models.messages import Citation, Message, MessageRole, MessageState
from apps.chat.models.sharing import Share

__all__ = [
    "Citation",
    "Conversation",
    "Feedback",
    "Folder",
    "Message",
    "MessageRole",
    "MessageState",
    "Share",
    "TitleBy",
]
