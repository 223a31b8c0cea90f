"""Where answers are kept: a table under row-level security. Call inside the tenant's scope.

Times are the database's: the clock of a web machine may jump.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import orjson
from django.conf import settings
from django.db import connection

from apps.gateway.caching.keys import Keys
from apps.gateway.caching.policy import Policy, forget
from apps.gateway.caching.types import Made
from apps.gateway.models import CachedResponse
from apps.gateway.types import Caller

_POLICY = """
    SELECT {columns} FROM (SELECT %(tenant)s::uuid AS tenant_id) AS asked
    LEFT JOIN gateway_cachepolicy AS policy ON policy.tenant_id = asked.tenant_id
"""
_FIND = (
    _POLICY.format(
        columns="policy.enabled, policy.semantic, policy.semantic_threshold, policy.epoch, "
        "kept.id, kept.payload::text, kept.cost_micros, kept.total_ms"
    )
    + """
    LEFT JOIN gateway_cachedresponse AS kept ON kept.tenant_id = asked.tenant_id
        AND kept.key = %(key)s AND kept.expires_at > now()
    """
)
# What was begun before everything was forgotten, or the cache was switched off, is not kept.
_PUT = (
    "INSERT INTO gateway_cachedresponse (id, tenant_id, key, scope, question, vector, "
    "vector_model, payload, collection_ids, cost_micros, total_ms, created_at, expires_at) "
    + _POLICY.format(
        columns="%(id)s, asked.tenant_id, %(key)s, %(scope)s, %(question)s, %(vector)s, "
        "%(vector_model)s, %(payload)s::jsonb, %(collections)s::uuid[], %(cost)s, %(total_ms)s, "
        "now(), now() + make_interval(secs => %(ttl_s)s)"
    )
    + """
    WHERE coalesce(policy.enabled, true) AND coalesce(policy.epoch, 0) = %(epoch)s
    ON CONFLICT (tenant_id, key) DO UPDATE SET
        id = excluded.id, question = excluded.question, vector = excluded.vector,
        vector_model = excluded.vector_model, payload = excluded.payload,
        collection_ids = excluded.collection_ids,
        cost_micros = excluded.cost_micros, total_ms = excluded.total_ms,
        created_at = excluded.created_at, expires_at = excluded.expires_at
    """
)
# By the index on expiry, whose order is that of age. What another holds, that one sees to.
_BOUND = """
    DELETE FROM gateway_cachedresponse WHERE tenant_id = %(tenant)s AND id IN (
        SELECT id FROM gateway_cachedresponse WHERE tenant_id = %(tenant)s
        ORDER BY expires_at DESC OFFSET %(most)s FOR UPDATE SKIP LOCKED
    )
"""
_SWEEP = """
    DELETE FROM gateway_cachedresponse WHERE tenant_id = %(tenant)s AND id IN (
        SELECT id FROM gateway_cachedresponse
        WHERE tenant_id = %(tenant)s AND expires_at <= now() FOR UPDATE SKIP LOCKED
    )
"""


@dataclass(frozen=True)
class Entry:
    """An answer as it is kept."""

    id: uuid.UUID
    payload: Any  # JSON
    cost_micros: int
    total_ms: float


@dataclass(frozen=True)
class Compared:
    """A question that others may be compared with."""

    question: str
    vector: bytes  # float32, little-endian, unit length
    model: str


def find(tenant_id: uuid.UUID, key: bytes) -> tuple[Policy, Entry | None]:
    """The tenant's policy, and the answer stored under `key`: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND, {"tenant": tenant_id, "key": key})
        (*policy, entry_id, payload, cost_micros, total_ms) = cursor.fetchone()
    entry = None
    if entry_id is not None:
        entry = Entry(entry_id, orjson.loads(payload), cost_micros, total_ms)
    return Policy.of_row(*policy), entry


def packed(made: Made) -> str | None:
    """The payload as it is stored; None where it cannot be, or is too large."""
    try:
        text = orjson.dumps(made.payload)
    except TypeError:  # a lone surrogate, or no JSON
        return None
    # PostgreSQL keeps no NUL in text.
    if len(text) > settings.RESPONSE_CACHE_MAX_BYTES or b"\\u0000" in text:
        return None
    return text.decode()


def put(
    caller: Caller,
    epoch: int,
    keys: Keys,
    made: Made,
    payload: str,
    compared: Compared | None,
) -> bool:
    """Keep an answer, instead of an older one under the same key; whether it was kept.

    It is not where the policy is no longer of `epoch`. The tenant's oldest answers go where there
    are more than RESPONSE_CACHE_MAX_ENTRIES.
    """
    row: dict[str, Any] = {
        "id": uuid.uuid4(),
        "tenant": caller.tenant_id,
        "collections": list(caller.collection_ids),
        "epoch": epoch,
        "key": keys.entry,
        "scope": keys.scope,
        "question": compared.question if compared else "",
        "vector": compared.vector if compared else None,
        "vector_model": compared.model if compared else "",
        "payload": payload,
        "cost": made.cost_micros,
        "total_ms": made.total_ms,
        "ttl_s": settings.RESPONSE_CACHE_TTL_S,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PUT, row)
        if not cursor.rowcount:
            return False
        most = settings.RESPONSE_CACHE_MAX_ENTRIES
        cursor.execute(_BOUND, {"tenant": caller.tenant_id, "most": most})
    return True


def drop(tenant_id: uuid.UUID, entry_id: uuid.UUID) -> None:
    CachedResponse.objects.filter(tenant_id=tenant_id, id=entry_id).delete()


def forget_collection(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> None:
    """Forget the answers that may quote its documents."""
    forget(
        CachedResponse.objects.filter(tenant_id=tenant_id, collection_ids__contains=[collection_id])
    )


def sweep(tenant_id: uuid.UUID) -> int:
    """Forget what has expired; how many entries that were."""
    with connection.cursor() as cursor:
        cursor.execute(_SWEEP, {"tenant": tenant_id})
        return int(cursor.rowcount)
