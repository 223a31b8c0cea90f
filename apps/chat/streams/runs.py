"""One answer being written: an owned task, apart from the sockets that follow it.

The task turns the pipeline's events into numbered frames, and stores the answer when it has ended
(however it ended). It goes on to its end whether or not anybody watches; Stop cancels it, and the
end of the process. Cancelling reaches the engine at once: each iterator on the way is closed, and
with it the connection.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, gettext_noop

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
from apps.chat.pipeline.types import PassagesShown
from apps.chat.rendering import LiveBlocks, render_answer
from apps.chat.selectors import citation_urls
from apps.chat.services import StartedAnswer, finish_answer, store_sources
from apps.chat.services.recovering import store_checkpoint
from apps.chat.streams.evidence import drop_evidence, keep_evidence
from apps.chat.streams.keys import Owned
from apps.chat.streams.recovery import LEFT
from apps.chat.titling import title_conversation
from apps.gateway.admission import Admission
from apps.gateway.calling.waiting import InLine, telling_of_waits
from apps.gateway.errors import GatewayError
from apps.gateway.types import Outcome as CallOutcome
from apps.retrieval.types import Notice
from apps.telemetry.hops import Hop
from apps.tenants.access import Access
from apps.tenants.aio import in_thread

if TYPE_CHECKING:
    from apps.chat.streams.process import Streams

logger = logging.getLogger(__name__)

# Tokens are gathered this long before they are sent: 20 frames a second read as smooth, and a
# frame a token (80 a second on a laptop's engine) costs the browser a render each.
FLUSH_S = 0.05
# Text that neither Redis nor its end has kept is lost with the process: no more than this of it.
CHECKPOINT_S = 5.0
FAILED = (
    "internal_error",
    gettext_noop("Something went wrong on our side; it has been logged. Try again."),
)


class AnswerRun:
    """Writes one answer into its log."""

    def __init__(
        self, streams: Streams, access: Access, started: StartedAnswer, *, client_id: str
    ) -> None:
        self.access = access
        self.started = started
        self.answer_id = started.answer_id
        self.owned: Owned = (access.tenant.id, started.answer_id)
        self.outcome = Outcome()
        self.trace = answer_trace(started.caller, started.answer_id)
        self._streams = streams
        self._client_id = client_id
        self._pending = ""  # written, not yet sent
        self._flusher: asyncio.TimerHandle | None = None
        self._stream_ms = 0.0
        self._storing: asyncio.Task[None] | None = None
        self._evidence: asyncio.Task[None] | None = None
        self._blocks: LiveBlocks | None = None  # of what a model writes, once it was shown passages
        self._admission: Admission | None = None
        self._broken_off_as = MessageState.INTERRUPTED
        self._is_writing = False
        self.log = streams.begin(self)
        name = f"answer-{started.answer_id}"
        self._task = asyncio.create_task(self._run(), name=name)

    def stop(self) -> None:
        """End the answer now, as its person wishes; what was written is kept."""
        self._broken_off_as = MessageState.STOPPED
        self._break_off()

    def interrupt(self) -> None:
        """End the answer now, because its process must; what was written is kept."""
        if self._admission is not None:
            self._admission.broken_off_as = CallOutcome.DISCONNECTED
        self.outcome.notices.append(LEFT)
        self._tell_notice(LEFT)
        self._break_off()

    async def wait(self) -> None:
        """Until the answer is stored."""
        await asyncio.wait([self._task])

    def _break_off(self) -> None:
        if self._is_writing:
            self._is_writing = False  # once: what comes after must not be cancelled
            self._task.cancel()

    async def _run(self) -> None:
        began = perf_counter()
        state, failure = MessageState.COMPLETE, None
        self._tell(frames.started(self.started, self._client_id))
        checkpoints = asyncio.create_task(self._keep_checkpoints())
        try:
            self._is_writing = True
            await self._write()
            if self.outcome.interrupted:
                state = MessageState.INTERRUPTED
        except asyncio.CancelledError:
            state = self._broken_off_as
        except GatewayError as exc:
            # Refused: the person is told which limit, and when there is room again.
            state, failure = MessageState.FAILED, (exc.code, str(exc))
            self.outcome.notices.append(Notice(exc.code, str(exc)))
        except Exception as exc:
            logger.error("answer %s failed: %s", self.answer_id, type(exc).__name__)
            logger.debug("trace", exc_info=exc)
            state, failure = MessageState.FAILED, FAILED
        self._is_writing = False
        checkpoints.cancel()
        try:
            await self._finish(state, failure, began)
        finally:
            self._streams.end(self)

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
        with telling_of_waits(self._on_wait):
            async with aclosing(events) as open_events:
                async for event in open_events:
                    self._on_event(event)

    def _note_admission(self, admission: Admission) -> None:
        self._admission = admission

    def _on_wait(self, line: InLine) -> None:
        frame = {"type": "answer.waiting", "hop": "generate", "place": line.place, "of": line.of}
        self._tell(frame)

    def _on_event(self, event: PipelineEvent) -> None:
        if isinstance(event, TextWritten):
            self._gather(event.text)
            self._show_blocks(event.text)
        elif isinstance(event, SourcesFound):
            self._show_sources(event)
        elif isinstance(event, PassagesShown):
            self._evidence = asyncio.create_task(keep_evidence(self.answer_id, self.outcome))
            self._blocks = LiveBlocks(self.outcome, self._citation_urls())
        elif isinstance(event, QuestionRewritten):
            self._tell({"type": "answer.rewritten", "searched_as": event.text})
        elif isinstance(event, NoticeGiven):
            self._tell_notice(event.notice)

    def _tell_notice(self, notice: Notice) -> None:
        message = gettext(notice.message)
        self._tell({"type": "answer.notice", "code": notice.code, "message": message})

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

    def _show_blocks(self, text: str) -> None:
        """Send what of the answer will not change any more as it will be shown."""
        if self._blocks is None or self.outcome.cache:
            return
        for block in self._blocks.add(text):
            self._flush()
            self._tell(
                {
                    "type": "answer.block",
                    "index": block.index,
                    "end": block.end,
                    "html": block.html,
                }
            )

    def _flush_again(self) -> None:
        self._flusher = None
        if self._pending:
            self._flush()
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_again)

    def _flush(self) -> None:
        if self._pending:
            self._tell({"type": "answer.tokens", "text": self._pending})
            self._pending = ""

    def _tell(self, frame: dict[str, Any], *, last: bool = False) -> None:
        if self.log.ended:
            return  # a hop of a thread that was not waited for
        start = perf_counter()
        self.log.append(frames.of_answer(frame, self.answer_id, self.log.end), last=last)
        self._streams.writer.note(self.log)
        self._stream_ms += (perf_counter() - start) * 1000

    async def _keep_checkpoints(self) -> None:
        """Should Redis and this process both be lost, the text so far is not."""
        kept = ""
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            text = self.outcome.text
            if text == kept:
                continue
            try:
                await in_thread(
                    store_checkpoint,
                    tenant_id=self.owned[0],
                    answer_id=self.answer_id,
                    text=text,
                )
                kept = text
            except Exception as exc:
                name = type(exc).__name__
                logger.warning("answer %s has no checkpoint: %s", self.answer_id, name)

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
                logger.error("sources of answer %s not stored: %s", self.answer_id, name)
        with self.trace.hop("stream") as hop:
            hop.set(frames=self.log.end)
        hop.work_ms = self._stream_ms
        html = self._render()
        try:
            stored = await in_thread(
                finish_answer,
                access=self.access,
                started=self.started,
                outcome=self.outcome,
                state=state,
                trace=self.trace,
            )
            if not stored:
                state = MessageState.INTERRUPTED  # another process took this one for dead
        except Exception as exc:
            logger.error("answer %s not stored: %s", self.answer_id, type(exc).__name__)
            state, failure = MessageState.FAILED, FAILED
        last = frames.finished(
            state=state,
            outcome=self.outcome,
            html=html,
            total_ms=(perf_counter() - began) * 1000,
            hops=self.trace.hops if self.access.may_see_hops else None,
            failure=failure,
        )
        self._tell(last, last=True)
        self._streams.soon(title_conversation(self.access, self.started, self.outcome))
        if self._evidence is not None:
            await self._evidence
            await drop_evidence(self.answer_id)

    def _render(self) -> str:
        return render_answer(self.outcome.text, self.outcome.sentences, self._citation_urls())

    def _citation_urls(self) -> dict[int, tuple[str, str]]:
        ids = {n: self.started.citation_id(n) for n in range(1, len(self.outcome.passages) + 1)}
        return citation_urls(self.access, ids)
