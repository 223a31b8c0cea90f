"""The exported conversation: the shape of the JSON file, version 1, described in docs/api.md.

Times are ISO 8601 in UTC, ids are UUIDs as text, offsets count characters.
"""

from __future__ import annotations

from typing import TypedDict

FORMAT = "ragsite.conversation"
VERSION = 1


class ExportedCitation(TypedDict):
    """A passage that an answer was given, as a place: the text is the document's."""

    number: int  # the [n] of the answer
    cited: bool  # the answer used it
    document: str  # its name
    document_id: str | None  # None: deleted since
    heading: str
    page_first: int
    page_last: int
    char_start: int
    char_end: int
    score: float


class ExportedSentence(TypedDict):
    """A sentence of an answer, `text[start:end]`, and the citations that support it."""

    start: int
    end: int
    citations: list[int]
    supported: bool
    reason: str  # why it is not


class ExportedNotice(TypedDict):
    code: str
    message: str


class ExportedFeedback(TypedDict):
    """One's own thumb."""

    thumb: str  # "up" or "down"
    reasons: list[str]
    comment: str
    given_at: str


class ExportedMessage(TypedDict):
    """A question or an answer. What only answers have is empty or None in a question."""

    id: str
    role: str  # "question" or "answer"
    in_reply_to: str | None  # the message before it; several with the same are branches
    shown: bool  # on the branch that is shown
    state: str
    text: str
    searched_as: str
    comparison: str | None
    continues: str | None
    model: str
    kind: str
    notices: list[ExportedNotice]
    citations: list[ExportedCitation]
    sentences: list[ExportedSentence]
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_estimated: bool
    cost_micros: int | None
    cache: str
    follow_ups: list[str]
    feedback: ExportedFeedback | None
    created_at: str
    finished_at: str | None


class ExportedConversation(TypedDict):
    format: str
    version: int
    id: str
    title: str
    title_by: str
    collection_ids: list[str]
    model: str
    leaf_id: str | None  # the last message of the branch that is shown
    created_at: str
    updated_at: str
    exported_at: str
    messages: list[ExportedMessage]  # of all branches, oldest first
