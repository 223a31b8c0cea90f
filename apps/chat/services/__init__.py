"""Writing conversations."""

from apps.chat.services.answers import finish_answer, store_sources
from apps.chat.services.asking import (
    StartedAnswer,
    clean_question,
    continue_answer,
    restart_answer,
    show_branch,
    start_answer,
)
from apps.chat.services.conversations import (
    archive_conversation,
    pin_conversation,
    rename_conversation,
)
from apps.chat.services.deleting import delete_conversation, purge_deleted, restore_conversation
from apps.chat.services.folders import (
    create_folder,
    delete_folder,
    move_conversation,
    rename_folder,
)
from apps.chat.services.sharing import revoke_share, share_conversation

__all__ = [
    "StartedAnswer",
    "archive_conversation",
    "clean_question",
    "continue_answer",
    "create_folder",
    "delete_conversation",
    "delete_folder",
    "finish_answer",
    "move_conversation",
    "pin_conversation",
    "purge_deleted",
    "rename_conversation",
    "rename_folder",
    "restart_answer",
    "restore_conversation",
    "revoke_share",
    "share_conversation",
    "show_branch",
    "start_answer",
    "store_sources",
]
