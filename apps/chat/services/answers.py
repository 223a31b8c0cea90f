"""Storing answers: their sources while they are written, the rest when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from django.utils import timezone

from apps.chat.models import Citation, Message, MessageState
from apps.chat.pipeline.types import Outcome
from apps.chat.services.asking import StartedAnswer
from apps.chat.suggesting import follow_ups_of
from apps.documents.selectors import existing_document_ids
from apps.retrieval.types import Passage
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope


def store_sources(*, access: Access, started: StartedAnswer, passages: Sequence[Passage]) -> None:
    """Store the passages of an answer as places in documents, so that they can be opened."""
    with tenant_scope(access.tenant.id):
        # A document may have been deleted since it was searched.
        existing = existing_document_ids(access.tenant.id, {p.document_id for p in passages})
        Citation.objects.bulk_create(
            Citation(
                id=started.citation_id(marker),
                tenant=access.tenant,
                message_id=started.answer_id,
                marker=marker,
                document_id=passage.document_id if passage.document_id in existing else None,
                document_name=passage.document_name,
                heading_path=passage.heading_path,
                page_first=passage.page_first,
                page_last=passage.page_last,
                char_start=passage.char_start,
                char_end=passage.char_end,
                score=passage.relevance,
            )
            for marker, passage in enumerate(passages, start=1)
        )


def finish_answer(
    *, access: Access, started: StartedAnswer, outcome: Outcome, state: MessageState, trace: Trace
) -> bool:
    """Store what was written, which sources it earned, and what was measured.

    Compare-and-set from `streaming`: an answer ends once; False where it had ended already. A
    whole answer is told what one may go on to ask.
    """
    with tenant_scope(access.tenant.id):
        if state == MessageState.COMPLETE:
            outcome.follow_ups = tuple(follow_ups_of(started.request, outcome))
        record_trace(trace)
        ended = Message.objects.filter(
            tenant=access.tenant, id=started.answer_id, state=MessageState.STREAMING
        ).update(
            state=state,
            text=outcome.text,
            kind=outcome.kind,
            notices=[asdict(notice) for notice in outcome.notices],
            support=[asdict(sentence) for sentence in outcome.sentences],
            prompt_tokens=outcome.prompt_tokens,
            completion_tokens=outcome.completion_tokens,
            tokens_estimated=outcome.tokens_estimated,
            cache=outcome.cache,
            cost_micros=outcome.cost_micros,
            follow_ups=list(outcome.follow_ups),
            finished_at=timezone.now(),
        )
        if not ended:
            return False
        if outcome.searched_as is not None:
            Message.objects.filter(tenant=access.tenant, id=started.question_id).update(
                searched_as=outcome.searched_as
            )
        Citation.objects.filter(
            tenant=access.tenant, message_id=started.answer_id, marker__in=outcome.cited
        ).update(cited=True)
        return True
