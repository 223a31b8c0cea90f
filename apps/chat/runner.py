"""One answer being written: an owned task, apart from the sockets that watch it.

The task turns the pipeline's events into numbered frames, stores the answer when it has ended
(however it ended), and is cancelled by Stop or when nobody watches any more. Cancelling reaches
the engine at once: each iterator on the way is closed, and with it the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from contextlib import aclosing
from time import perf_counter
from typing import Any

from apps.chat import frames
from apps.chat.models import MessageState
from apps.chat.pipeline import (
    NoticeGiven,
    Outcome,
    PipelineEvent,
    QuestionRewritten,
    SourcesFound,
    TextWritten,
    answer_trace,
    ask,
)
from apps.chat.rendering import render_answer
from apps.chat.selectors import citation_urls
from apps.chat.services import StartedAnswer, finish_answer, store_sources
from apps.gateway.admission import Admission
from apps.gateway.errors import GatewayError
from apps.gateway.types import Outcome as CallOutcome
from apps.retrieval.types import Notice
from apps.telemetry.hops import Hop
from apps.tenants.access import Access
from apps.tenants.aio import in_thread

logger = logging.getLogger(__name__)

# Tokens are gathered this long before they are sent: 20 frames a second read as smooth, and a
# frame a token (80 a second on a laptop's engine) costs the browser a render each.
FLUSH_S = 0.05
FAILED = ("internal_error", "Something went wrong on our side; it has been logged. Try again.")

Watcher = Callable[[dict[str, Any]], None]

# Answers being written in this process, by answer id.
_running: dict[uuid.UUID, AnswerRun] = {}


def find_run(answer_id: uuid.UUID) -> AnswerRun | None:
    """The answer being written in this process under that id, if any."""
    return _running.get(answer_id)


def is_answering(conversation_id: uuid.UUID) -> bool:
    """Whether an answer of this conversation is being written in this process."""
    return any(run.started.conversation_id == conversation_id for run in _running.values())


class AnswerRun:
    """Writes one answer and tells its watchers."""

    def __init__(self, access: Access, started: StartedAnswer, *, client_id: str) -> None:
        self.access = access
        self.started = started
        self.outcome = Outcome()
        self.trace = answer_trace(started.caller, started.answer_id)
        self._client_id = client_id
        self._watchers: list[Watcher] = []
        self._sequence = 0
        self._pending = ""  # written, not yet sent
        self._flusher: asyncio.TimerHandle | None = None
        self._stream_ms = 0.0
        self._frames = 0
        self._storing: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._admission: Admission | None = None

    def start(self, watcher: Watcher) -> None:
        """Begin, with the first watcher."""
        self._watchers.append(watcher)
        _running[self.started.answer_id] = self
        self._task = asyncio.create_task(self._run(), name=f"answer-{self.started.answer_id}")

    def stop(self) -> None:
        """End the answer now; what was written is kept."""
        if self._task is not None:
            self._task.cancel()

    async def leave(self, watcher: Watcher) -> None:
        """Stop watching. The last to leave ends the answer, and waits until it is stored."""
        with contextlib.suppress(ValueError):
            self._watchers.remove(watcher)
        if not self._watchers and self._task is not None:
            if self._admission is not None:
                self._admission.broken_off_as = CallOutcome.DISCONNECTED
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        began = perf_counter()
        state, failure = MessageState.COMPLETE, None
        self._announce()
        try:
            await self._write()
            if self.outcome.interrupted:
                state = MessageState.INTERRUPTED
        except asyncio.CancelledError:
            state = MessageState.STOPPED
        except GatewayError as exc:
            # Refused: the person is told which limit, and when there is room again.
            state, failure = MessageState.FAILED, (exc.code, str(exc))
            self.outcome.notices.append(Notice(exc.code, str(exc)))
        except Exception as exc:
            logger.error("answer %s failed: %s", self.started.answer_id, type(exc).__name__)
            logger.debug("trace", exc_info=exc)
            state, failure = MessageState.FAILED, FAILED
        try:
            # A stop that arrives now must not lose what was written.
            await asyncio.shield(self._finish(state, failure, began))
        finally:
            _running.pop(self.started.answer_id, None)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()

        def on_hop(hop: Hop, moment: str) -> None:
            # Hops run in threads; watchers are told from the loop.
            loop.call_soon_threadsafe(self._tell, frames.hop(hop, moment))

        self.trace.listener = on_hop
        started = self.started
        events = ask(
            started.caller,
            started.request,
            self.trace,
            self.outcome,
            on_admitted=self._note_admission,
        )
        async with aclosing(events) as open_events:
            async for event in open_events:
                self._on_event(event)

    def _note_admission(self, admission: Admission) -> None:
        self._admission = admission

    def _on_event(self, event: PipelineEvent) -> None:
        if isinstance(event, TextWritten):
            self._gather(event.text)
        elif isinstance(event, SourcesFound):
            self._show_sources(event)
        elif isinstance(event, QuestionRewritten):
            self._tell({"type": "answer.rewritten", "searched_as": event.text})
        elif isinstance(event, NoticeGiven):
            notice = event.notice
            self._tell({"type": "answer.notice", "code": notice.code, "message": notice.message})

    def _announce(self) -> None:
        self._tell(
            {
                "type": "answer.started",
                "id": self._client_id,
                "conversation": str(self.started.conversation_id),
                "title": self.started.title,
                "question": str(self.started.question_id),
            }
        )

    def _show_sources(self, event: SourcesFound) -> None:
        # Stored while the model begins to write: the first token need not wait for it.
        self._storing = asyncio.create_task(
            in_thread(
                store_sources,
                access=self.access,
                started=self.started,
                passages=event.passages,
            )
        )
        sources = [
            frames.source(marker, self.started.citation_id(marker), passage)
            for marker, passage in enumerate(event.passages, start=1)
        ]
        self._tell({"type": "answer.sources", "sources": sources})

    def _gather(self, text: str) -> None:
        first = not self._pending and self._flusher is None
        self._pending += text
        if first:
            # The first piece after a pause goes at once: it is what the reader waits for.
            self._flush()
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_again)

    def _flush_again(self) -> None:
        self._flusher = None
        if self._pending:
            self._flush()
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_again)

    def _flush(self) -> None:
        if self._pending:
            self._tell({"type": "answer.tokens", "text": self._pending})
            self._pending = ""

    def _tell(self, frame: dict[str, Any]) -> None:
        start = perf_counter()
        frame = {**frame, "answer": str(self.started.answer_id), "seq": self._sequence}
        self._sequence += 1
        for watcher in self._watchers:
            watcher(frame)
        self._frames += 1
        self._stream_ms += (perf_counter() - start) * 1000

    async def _finish(
        self, state: MessageState, failure: tuple[str, str] | None, began: float
    ) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
        self._flush()
        self.trace.listener = None
        if self._storing is not None:
            await asyncio.wait([self._storing])
            if (fault := self._storing.exception()) is not None:
                name = type(fault).__name__
                logger.error("sources of answer %s not stored: %s", self.started.answer_id, name)
        with self.trace.hop("stream") as hop:
            hop.set(frames=self._frames)
        hop.work_ms = self._stream_ms
        html = self._render()
        try:
            await in_thread(
                finish_answer,
                access=self.access,
                started=self.started,
                outcome=self.outcome,
                state=state,
                trace=self.trace,
            )
        except Exception as exc:
            logger.error("answer %s not stored: %s", self.started.answer_id, type(exc).__name__)
            state, failure = MessageState.FAILED, FAILED
        self._tell(self._finished_frame(state, failure, html, (perf_counter() - began) * 1000))

    def _render(self) -> str:
        ids = {n: self.started.citation_id(n) for n in range(1, len(self.outcome.passages) + 1)}
        return render_answer(
            self.outcome.text, self.outcome.sentences, citation_urls(self.access, ids)
        )

    def _finished_frame(
        self, state: MessageState, failure: tuple[str, str] | None, html: str, total_ms: float
    ) -> dict[str, Any]:
        shows_hops = self.access.may_see_hops
        outcome = self.outcome
        tokens = {
            "prompt": outcome.prompt_tokens,
            "completion": outcome.completion_tokens,
            "estimated": outcome.tokens_estimated,
        }
        return {
            "type": "answer.finished",
            "state": str(state),
            "kind": outcome.kind,
            "cache": outcome.cache,
            "html": html,
            "cited": list(outcome.cited),
            "tokens": tokens if shows_hops else None,
            "hops": [frames.hop_figures(hop) for hop in self.trace.hops] if shows_hops else None,
            "total_ms": round(total_ms, 1),
            "error": {"code": failure[0], "message": failure[1]} if failure else None,
        }
