"""The walk of one question: cache → rewrite → embed → search → rerank → assemble → generate."""

from __future__ import annotations

from apps.chat.pipeline.answer import answer_question
from apps.chat.pipeline.asking import answer_trace, ask
from apps.chat.pipeline.types import (
    AnswerEnded,
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
    "AnswerEnded",
    "AnswerRequest",
    "Exchange",
    "NoticeGiven",
    "Outcome",
    "PipelineEvent",
    "QuestionRewritten",
    "SourcesFound",
    "TextWritten",
    "answer_question",
    "answer_trace",
    "ask",
]
