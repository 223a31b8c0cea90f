"""How a tenant's documents are cut into chunks, and which chunks are in force."""

from __future__ import annotations

import uuid

from django.conf import settings

from apps.documents.models import Chunking


def chunking_in_force(tenant_id: uuid.UUID) -> Chunking:
    """How new documents are cut; not saved where it is the settings' way, generation 0."""
    found = Chunking.objects.filter(tenant_id=tenant_id, in_force=True).first()
    return found or _by_settings(tenant_id, 0)


def chunking_of(tenant_id: uuid.UUID, generation: int) -> Chunking:
    """How chunks of `generation` are cut."""
    found = Chunking.objects.filter(tenant_id=tenant_id, generation=generation).first()
    return found or _by_settings(tenant_id, generation)


def _by_settings(tenant_id: uuid.UUID, generation: int) -> Chunking:
    return Chunking(
        tenant_id=tenant_id,
        generation=generation,
        max_tokens=settings.CHUNK_TOKENS,
        overlap_tokens=settings.CHUNK_OVERLAP_TOKENS,
    )
