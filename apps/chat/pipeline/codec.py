"""An answer's events as they are kept in the response cache, and back."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any

from apps.chat.pipeline.types import (
    AnswerEnded,
    NoticeGiven,
    PassagesShown,
    PipelineEvent,
    QuestionRewritten,
    SourcesFound,
    TextWritten,
    read_sentence,
)
from apps.gateway.caching import Made
from apps.retrieval.types import Passage, StageScores


class AnswerCodec:
    """What may be given again is a whole answer that nothing degraded."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._took_ms = 0.0

    async def timed(
        self, events: AsyncGenerator[PipelineEvent, None]
    ) -> AsyncGenerator[PipelineEvent, None]:
        """The events as they come, and how long they took from the question on."""
        async with aclosing(events) as opened:
            async for event in opened:
                self._took_ms = (perf_counter() - self._began) * 1000
                yield event

    def encode(self, events: Sequence[PipelineEvent]) -> Made | None:
        if any(isinstance(event, NoticeGiven) for event in events) or not events:
            return None
        ended = events[-1]
        if not isinstance(ended, AnswerEnded) or ended.interrupted or ended.kind == "quoted":
            return None
        found = next((e for e in events if isinstance(e, SourcesFound)), None)
        if found is None:
            return None
        shown = next((e for e in events if isinstance(e, PassagesShown)), None)
        asked = next((e.text for e in events if isinstance(e, QuestionRewritten)), "")
        payload = {
            "searched_as": asked,
            "passages": [_passage(p) for p in found.passages],
            "given": shown.given if shown else 0,
            "prompt_tokens": shown.prompt_tokens if shown else 0,
            "widened": [_passage(p) for p in shown.widened] if shown else [],
            "ended": dataclasses.asdict(ended),
        }
        return Made(payload, ended.cost_micros, self._took_ms)

    def decode(self, payload: Any) -> list[PipelineEvent]:
        try:
            return _events(payload)
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError("not a cached answer of this version") from exc


def _events(payload: dict[str, Any]) -> list[PipelineEvent]:
    events: list[PipelineEvent] = []
    if payload["searched_as"]:
        events.append(QuestionRewritten(payload["searched_as"]))
    events.append(SourcesFound(tuple(_read_passage(p) for p in payload["passages"])))
    if payload["given"]:
        widened = tuple(_read_passage(p) for p in payload["widened"])
        events.append(PassagesShown(payload["given"], widened, payload["prompt_tokens"]))
    ended = {**payload["ended"], "cost_micros": 0}
    ended["sentences"] = tuple(read_sentence(each) for each in ended["sentences"])
    events.append(TextWritten(ended["text"]))
    events.append(AnswerEnded(**ended))
    return events


def _passage(passage: Passage) -> dict[str, Any]:
    data = dataclasses.asdict(passage)
    return {**data, "chunk_id": str(passage.chunk_id), "document_id": str(passage.document_id)}


def _read_passage(data: dict[str, Any]) -> Passage:
    stages = data["stages"]
    return Passage(
        **{
            **data,
            "chunk_id": uuid.UUID(data["chunk_id"]),
            "document_id": uuid.UUID(data["document_id"]),
            "stages": StageScores(**stages) if stages else None,
        }
    )
