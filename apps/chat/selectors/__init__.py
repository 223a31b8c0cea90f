"""Reading conversations."""

from apps.chat.selectors.branches import Branches, branches_of, shown_path
from apps.chat.selectors.citations import citation_urls, cited_sources, get_citation
from apps.chat.selectors.conversations import (
    OwnLimit,
    conversations_of,
    get_conversation,
    own_limits,
)
from apps.chat.selectors.feedback import (
    CitedPlace,
    FeedbackGiven,
    feedback_to_review,
    get_feedback,
    reasons_given,
)
from apps.chat.selectors.history import earlier_than, exchanges_of, turns_of
from apps.chat.selectors.passages import passages_of
from apps.chat.selectors.threads import (
    MessageView,
    branch_of,
    get_answer,
    get_question,
    state_of,
    thread_of,
    total_ms_of,
    view_of,
)

__all__ = [
    "Branches",
    "CitedPlace",
    "FeedbackGiven",
    "MessageView",
    "OwnLimit",
    "branch_of",
    "branches_of",
    "citation_urls",
    "cited_sources",
    "conversations_of",
    "earlier_than",
    "exchanges_of",
    "feedback_to_review",
    "get_answer",
    "get_citation",
    "get_conversation",
    "get_feedback",
    "get_question",
    "own_limits",
    "passages_of",
    "reasons_given",
    "shown_path",
    "state_of",
    "thread_of",
    "total_ms_of",
    "turns_of",
    "view_of",
]
