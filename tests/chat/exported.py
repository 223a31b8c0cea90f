"""Conversations as the exporters are given them, without a database."""

from __future__ import annotations

from apps.chat.exporting.kinds import Material
from apps.chat.exporting.types import (
    ExportedCitation,
    ExportedConversation,
    ExportedMessage,
    ExportedSentence,
)

WHEN = "2026-03-01T09:05:00Z"


def message(role: str, text: str, **changes: object) -> ExportedMessage:
    """A message that is shown; `changes` are fields of it."""
    made: dict[str, object] = {
        "id": "",
        "role": role,
        "in_reply_to": None,
        "shown": True,
        "state": "complete",
        "text": text,
        "searched_as": "",
        "comparison": None,
        "continues": None,
        "model": "",
        "kind": "",
        "notices": [],
        "citations": [],
        "sentences": [],
        "prompt_tokens": None,
        "completion_tokens": None,
        "tokens_estimated": False,
        "cost_micros": None,
        "cache": "",
        "follow_ups": [],
        "feedback": None,
        "created_at": WHEN,
        "finished_at": None,
        **changes,
    }
    return made  # type: ignore[return-value]


def citation(number: int, document: str, *, first: int = 3, last: int = 3) -> ExportedCitation:
    return {
        "number": number,
        "cited": True,
        "document": document,
        "document_id": None,
        "heading": "",
        "page_first": first,
        "page_last": last,
        "char_start": 0,
        "char_end": 9,
        "score": 0.5,
    }  # type: ignore[typeddict-item]


def sentence(text: str, words: str, *numbers: int) -> ExportedSentence:
    """That `words` of `text` are supported by these citations, or by none."""
    start = text.index(words)
    return {
        "start": start,
        "end": start + len(words),
        "citations": list(numbers),
        "supported": bool(numbers),
        "reason": "" if numbers else "numbers_differ",
    }


def material(*messages: ExportedMessage, title: str = "Opening hours") -> Material:
    document: ExportedConversation = {
        "format": "ragsite.conversation",
        "version": 1,
        "id": "",
        "title": title,
        "title_by": "rule",
        "collection_ids": [],
        "model": "",
        "leaf_id": None,
        "created_at": WHEN,
        "updated_at": WHEN,
        "exported_at": WHEN,
        "messages": list(messages),
    }
    return Material(document, "Acme", {"small": "Small model"})


def exchange(answer: str, *, question: str = "When?", title: str = "Opening hours") -> Material:
    """One question and its answer."""
    return material(message("question", question), message("answer", answer), title=title)
