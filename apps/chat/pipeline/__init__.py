"""The walk of one question: cache → rewrite → embed → search → rerank → assemble → generate."""

from __future__ import annotations

from apps.chat.pipeline.answer import answer_question
from apps.chat.pipeline.types import (
    AnswerRequest,
    Exchange,
    NoticeGiven,
    Outcome,
    PipelineEvent,
    QuestionRewritten,
    SourcesFound,
    TextWritten,
)

__all__ = [
    "AnswerRequest",
    "Exchange",
    "NoticeGiven",
    "Outcome",
    "PipelineEvent",
    "QuestionRewritten",
    "SourcesFound",
    "TextWritten",
    "answer_question",
]
