"""Ending an answer whose process has died: with what its frames, or its checkpoint, still tell.

Any process may do it, and several may try: the row's state decides which one does.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress

from django.utils.translation import gettext_noop
from redis.exceptions import RedisError

from apps.chat import frames
from apps.chat.metrics import RECOVERED
from apps.chat.models import MessageState
from apps.chat.pipeline.types import Outcome
from apps.chat.services.recovering import Abandoned, end_abandoned
from apps.chat.streams import owning
from apps.chat.streams.evidence import drop_evidence, read_evidence
from apps.chat.streams.keys import MAX_FRAMES, Owned
from apps.chat.streams.log import AnswerLog, is_last, last_kept, read_kept
from apps.chat.streams.writer import append
from apps.retrieval.types import Notice
from apps.tenants.aio import in_thread

logger = logging.getLogger(__name__)

_TRIES = 10
LEFT = Notice(
    "site_restarted",
    gettext_noop(
        "The site was restarted while this answer was being written; what there was is kept."
    ),
)


async def recover(owned: Owned) -> bool:
    """End that answer as interrupted, if nobody has ended it yet; whether this call did."""
    tenant_id, answer_id = owned
    try:
        kept = await read_kept(answer_id, 0, MAX_FRAMES)
    except (RedisError, OSError):
        kept = None  # the checkpoint is what there is
    outcome = outcome_of(kept or [])
    told = outcome.text
    await read_evidence(answer_id, outcome)
    outcome.notices.append(LEFT)
    ended = await in_thread(
        end_abandoned, tenant_id=tenant_id, answer_id=answer_id, outcome=outcome
    )
    if ended is not None:
        RECOVERED.inc()
        logger.warning("answer %s was left by its process; it is kept as interrupted", answer_id)
        if kept and not is_last(kept[-1]):
            # The checkpoint may be ahead of the log.
            rest = outcome.text[len(told) :] if outcome.text.startswith(told) else ""
            await _tell_followers(owned, len(kept), outcome, ended, rest)
    await drop_evidence(answer_id)
    await owning.drop(owned)
    return ended is not None


def outcome_of(kept: list[str]) -> Outcome:
    """What an answer's frames tell of it."""
    outcome = Outcome()
    for text in kept:
        frame = json.loads(text)
        match frame["type"]:
            case "answer.tokens":
                outcome.text += frame["text"]
            case "answer.rewritten":
                outcome.searched_as = frame["searched_as"]
            case "answer.notice":
                outcome.notices.append(Notice(frame["code"], frame["message"]))
    return outcome


async def _tell_followers(
    owned: Owned, seq: int, outcome: Outcome, ended: Abandoned, rest: str
) -> None:
    answer_id = owned[1]
    tokens = [{"type": "answer.tokens", "text": rest}] if rest else []
    notice = {"type": "answer.notice", "code": LEFT.code, "message": LEFT.message}
    last = frames.finished(
        state=MessageState.INTERRUPTED, outcome=outcome, html=ended.html, total_ms=ended.total_ms
    )
    for _ in range(_TRIES):
        log = AnswerLog(owned, base=seq)
        for frame in (*tokens, notice, last):
            log.append(frames.of_answer(frame, answer_id, log.end))
        if await append(log):
            return
        # It lives after all, and has written on meanwhile: it finds that it was overtaken.
        with suppress(RedisError, OSError):
            at, has_ended = await last_kept(answer_id)
            if has_ended:
                return
            seq, tokens = at + 1, []
