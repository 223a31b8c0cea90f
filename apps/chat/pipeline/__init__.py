"""The walk of one question: cache → embed → search → rerank → assemble → generate."""

from __future__ import annotations

from apps.chat.pipeline.answer import answer_question
from apps.chat.pipeline.types import (
    AnswerRequest,
    NoticeGiven,
    Outcome,
    PipelineEvent,
    SourcesFound,
    TextWritten,
)

__all__ = [
    "AnswerRequest",
    "NoticeGiven",
    "Outcome",
    "PipelineEvent",
    "SourcesFound",
    "TextWritten",
    "answer_question",
]
