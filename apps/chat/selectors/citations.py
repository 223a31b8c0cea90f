"""The sources of answers."""

from __future__ import annotations

import uuid

from django.urls import reverse

from apps.chat.models import Citation, Message
from apps.chat.rendering import Source
from apps.documents.templatetags.documents import page_range
from apps.tenants.access import Access


def get_citation(access: Access, citation_id: uuid.UUID) -> Citation | None:
    """A source of one of one's own answers, or None."""
    return (
        Citation.objects.select_related("document", "message")
        .filter(
            tenant=access.tenant,
            id=citation_id,
            message__conversation__user=access.user,
            message__conversation__deleted_at=None,
        )
        .first()
    )


def citation_urls(access: Access, citations: dict[int, uuid.UUID]) -> dict[int, tuple[str, str]]:
    """Marker → (id, address) of each source."""
    return {
        marker: (
            str(citation_id),
            reverse("chat:citation", args=[access.tenant.slug, citation_id]),
        )
        for marker, citation_id in citations.items()
    }


def cited_sources(access: Access, answer: Message) -> list[Source]:
    """The sources that an answer cites, by marker."""
    found = Citation.objects.filter(tenant=access.tenant, message_id=answer.id, cited=True)
    return [
        Source(each.marker, each.document_name, page_range(each.page_first, each.page_last))
        for each in found.order_by("marker")
    ]


def citations_by_message(
    tenant_id: uuid.UUID, message_ids: list[uuid.UUID]
) -> dict[uuid.UUID, tuple[Citation, ...]]:
    """The sources of each message, by marker."""
    grouped: dict[uuid.UUID, tuple[Citation, ...]] = {}
    found = Citation.objects.filter(tenant_id=tenant_id, message_id__in=message_ids)
    for citation in found.select_related("document").order_by("marker"):
        grouped[citation.message_id] = (*grouped.get(citation.message_id, ()), citation)
    return grouped
