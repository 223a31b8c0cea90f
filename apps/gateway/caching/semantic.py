"""Answers to questions that mean the same, for tenants that have chosen it.

A question's vector is compared with those of the newest questions of the same scope. What a
cosine cannot see is compared word by word (`sameness`), and a pair that a person has called wrong
is never served again. Every answer given this way is a row to be looked at.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from apps.gateway.caching.sameness import differs_in_substance, folded
from apps.gateway.caching.store import Compared, Entry
from apps.gateway.caching.types import Cacheable
from apps.gateway.models import CachedResponse, SemanticHit
from apps.gateway.types import Caller
from apps.inference import registry
from apps.inference.errors import InferenceError

logger = logging.getLogger(__name__)
# Newest questions of a scope that one is compared with: 0.75 MB of vectors of 384 dimensions.
COMPARED_MAX = 500
# The audit is kept for so long; pairs that were called wrong, for good.
AUDIT_DAYS = 90
_CANDIDATES = """
    SELECT id, question, vector FROM gateway_cachedresponse
    WHERE tenant_id = %s AND scope = %s AND vector_model = %s AND vector IS NOT NULL
        AND expires_at > now()
    ORDER BY created_at DESC LIMIT %s
"""


@dataclass(frozen=True)
class Match:
    """The answer to another question, and how near that one is (cosine)."""

    entry: Entry
    question: str
    similarity: float


def is_comparable(cacheable: Cacheable) -> bool:
    """Whether the question is one of a person, whole, in characters that can be stored."""
    question = cacheable.question
    if not cacheable.comparable or not 0 < len(question) <= settings.QUESTION_MAX_CHARS:
        return False
    return "\0" not in question and not any("\ud800" <= each <= "\udfff" for each in question)


async def embedded(question: str) -> Compared | None:
    """The question with its vector; None where the embedder is down."""
    try:
        return await asyncio.to_thread(_embed, question)
    except InferenceError as exc:
        logger.warning("a question is not compared with others: %s", exc.code)
        return None


def _embed(question: str) -> Compared:
    embedder = registry.get_embedder()
    vector = embedder.embed_query(question).astype("<f4")
    return Compared(question, vector.tobytes(), embedder.model_id)


def nearest(tenant_id: uuid.UUID, scope: bytes, asked: Compared, threshold: float) -> Match | None:
    """The nearest question that may share its answer. In the tenant's scope."""
    with connection.cursor() as cursor:
        cursor.execute(_CANDIDATES, [tenant_id, scope, asked.model, COMPARED_MAX])
        rows = cursor.fetchall()
    near = _near(rows, asked, threshold)
    if not near:
        return None
    wrong = _called_wrong(tenant_id, asked.question)
    for entry_id, question, similarity in near:
        if folded(question) not in wrong and not differs_in_substance(asked.question, question):
            return _match(tenant_id, entry_id, question, similarity)
    return None


def _near(
    rows: Sequence[tuple[uuid.UUID, str, bytes]], asked: Compared, threshold: float
) -> list[tuple[uuid.UUID, str, float]]:
    """Those at least so near, nearest first."""
    question = np.frombuffer(asked.vector, "<f4")
    rows = [row for row in rows if len(row[2]) == len(asked.vector)]
    if not rows:
        return []
    vectors = np.stack([np.frombuffer(row[2], "<f4") for row in rows])
    similarities = vectors @ question
    order = [int(at) for at in np.argsort(-similarities) if similarities[at] >= threshold]
    return [(rows[at][0], rows[at][1], float(similarities[at])) for at in order]


def _called_wrong(tenant_id: uuid.UUID, asked: str) -> set[str]:
    """Questions that were found not to mean the same as this one, whichever was asked first."""
    pairs = SemanticHit.objects.filter(tenant_id=tenant_id, verdict="wrong")
    folded_pairs = [(folded(a), folded(b)) for a, b in pairs.values_list("asked", "answered")]
    this = folded(asked)
    return {b for a, b in folded_pairs if a == this} | {a for a, b in folded_pairs if b == this}


def _match(
    tenant_id: uuid.UUID, entry_id: uuid.UUID, question: str, similarity: float
) -> Match | None:
    row = CachedResponse.objects.filter(tenant_id=tenant_id, id=entry_id).first()
    if row is None:
        return None
    entry = Entry(row.id, row.payload, row.cost_micros, row.total_ms)
    return Match(entry, question, similarity)


def record_hit(caller: Caller, asked: str, match: Match) -> None:
    """For the audit. In the tenant's scope."""
    SemanticHit.objects.create(
        tenant_id=caller.tenant_id,
        response_id=match.entry.id,
        asked=asked,
        answered=match.question,
        similarity=match.similarity,
        user_id=caller.user_id,
        key_id=caller.key_id,
    )


def sweep(tenant_id: uuid.UUID) -> None:
    """Forget hits that nobody has called wrong in AUDIT_DAYS. In the tenant's scope."""
    old = SemanticHit.objects.filter(tenant_id=tenant_id, at__lt=Now() - timedelta(days=AUDIT_DAYS))
    old.exclude(verdict="wrong").delete()
