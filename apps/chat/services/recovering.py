"""Keeping what is written of an answer safe while it is written, and ending one that was left."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass

from django.utils import timezone

from apps.chat.models import Citation, Message, MessageState
from apps.chat.pipeline.earning import earn_citations
from apps.chat.pipeline.types import Outcome
from apps.chat.rendering import render_answer
from apps.chat.selectors import citation_urls
from apps.tenants.access import find_access
from apps.tenants.scope import tenant_scope


@dataclass(frozen=True)
class Abandoned:
    """An answer that was ended in place of the process that had died."""

    html: str
    cited: tuple[int, ...]
    total_ms: float


def store_checkpoint(*, tenant_id: uuid.UUID, answer_id: uuid.UUID, text: str) -> None:
    """Keep what is written so far of an answer that is still being written."""
    with tenant_scope(tenant_id):
        Message.objects.filter(
            tenant_id=tenant_id, id=answer_id, state=MessageState.STREAMING
        ).update(text=text)


def end_abandoned(
    *, tenant_id: uuid.UUID, answer_id: uuid.UUID, outcome: Outcome
) -> Abandoned | None:
    """Store an answer whose process has died, as interrupted; None where it has ended already.

    `outcome` is what its frames tell; where the last checkpoint has more text, that is kept.
    Citations are matched as after a stop, if `outcome` has what the model was shown.
    """
    with tenant_scope(tenant_id):
        message = (
            Message.objects.select_for_update(of=("self",))
            .select_related("conversation__user", "tenant")
            .filter(tenant_id=tenant_id, id=answer_id, state=MessageState.STREAMING)
            .first()
        )
        if message is None:
            return None
        if len(message.text) > len(outcome.text):
            outcome.text = message.text
        if outcome.given:
            earn_citations(outcome)
        _store(message, outcome)
        return _shown(message, outcome)


def _store(message: Message, outcome: Outcome) -> None:
    message.state = MessageState.INTERRUPTED
    message.text = outcome.text
    message.kind = outcome.kind
    message.notices = [asdict(notice) for notice in outcome.notices]
    message.support = [asdict(sentence) for sentence in outcome.sentences]
    message.finished_at = timezone.now()
    message.save(update_fields=["state", "text", "kind", "notices", "support", "finished_at"])
    if outcome.searched_as and message.in_reply_to is not None:
        Message.objects.filter(tenant_id=message.tenant_id, id=message.in_reply_to).update(
            searched_as=outcome.searched_as
        )
    Citation.objects.filter(
        tenant_id=message.tenant_id, message_id=message.id, marker__in=outcome.cited
    ).update(cited=True)


def _shown(message: Message, outcome: Outcome) -> Abandoned:
    given = Citation.objects.filter(tenant_id=message.tenant_id, message_id=message.id)
    access = find_access(message.conversation.user, slug=message.tenant.slug)
    # Whoever has left the tenant meanwhile has no address to open a source at.
    urls = citation_urls(access, dict(given.values_list("marker", "id"))) if access else {}
    took = (message.finished_at or timezone.now()) - message.created_at
    return Abandoned(
        html=render_answer(outcome.text, outcome.sentences, urls),
        cited=outcome.cited,
        total_ms=took.total_seconds() * 1000,
    )
