"""`Idempotency-Key`: a request that is sent twice is carried out once.

The key's row comes first, in a transaction of its own: of requests at the same time one gets it,
and the others are told to come back. Whoever got it and died is overtaken once its lock has run
out; the fence keeps it from answering after all. Only what was done is kept, for 24 hours: a
refusal has changed nothing, so the same request may try again.

draft-ietf-httpapi-idempotency-key-header; the status codes are its.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from apps.documents.api.boundary import Answer, ApiRequest
from apps.documents.api.errors import ApiError
from apps.documents.models import Document, IdempotencyKey
from apps.tenants.scope import tenant_scope

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotent-Replayed": "true"}
KEEP = timedelta(hours=24)
# Far above what storing the largest file takes, once it has arrived.
LOCK = timedelta(minutes=2)
_KEY_MAX_CHARS = 255
_RETRY_AFTER_S = 2
# What a document is called, and its content's hash, are read from its row when they are told
# again: they must be gone when the document is.
_OF_THE_ROW = ("path", "name", "sha256", "tags")

_TAKE = """
    INSERT INTO documents_idempotencykey AS known
        (tenant_id, api_key_id, key_hash, fingerprint, fence, locked_until, expires_at, answer)
    VALUES (%(tenant)s, %(api_key)s, %(key)s, %(fingerprint)s, 1,
        clock_timestamp() + %(lock)s, clock_timestamp() + %(keep)s, '{}')
    ON CONFLICT (tenant_id, api_key_id, key_hash) DO UPDATE SET
        fingerprint = excluded.fingerprint, fence = known.fence + 1, status = NULL, answer = '{}',
        locked_until = excluded.locked_until, expires_at = excluded.expires_at
    WHERE known.expires_at <= clock_timestamp() OR (
        known.status IS NULL AND known.locked_until <= clock_timestamp()
        AND known.fingerprint = excluded.fingerprint)
    RETURNING fence
"""


def idempotency_key(request: ApiRequest) -> str | None:
    """The request's key. Raises ApiError."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not 0 < len(key) <= _KEY_MAX_CHARS or not (key.isascii() and key.isprintable()):
        words = f"{HEADER} takes 1 to {_KEY_MAX_CHARS} printable ASCII characters, such as a UUID."
        raise ApiError(400, "bad_idempotency_key", words)
    return key


def once(
    request: ApiRequest, act: Callable[[], Answer], *parts: str, in_one_step: bool = True
) -> Answer:
    """`act`'s answer, or the one that the same request was given before.

    `parts` are what the request asks for, besides its method and address. With `in_one_step` what
    it does and what is remembered of it are one transaction; without, `act` must find out itself
    that it was carried out by someone who died before saying so. Raises ApiError, or what `act`
    does.
    """
    key = idempotency_key(request)
    if key is None:
        return act()
    asked = _hash(request.method or "", request.path, *parts)
    row = IdempotencyKey.objects.filter(
        tenant=request.access.tenant, api_key=request.access.key, key_hash=_hash(key)
    )
    fence = _take(request, _hash(key), asked)
    if fence is None:
        return _answer_of_before(request, row, asked)
    return _carry_out(request, row.filter(fence=fence), act, in_one_step=in_one_step)


def forget_expired() -> int:
    """Delete what is out of date, of all tenants; returns how many that were."""
    return IdempotencyKey.objects.filter(expires_at__lte=timezone.now()).delete()[0]


def _take(request: ApiRequest, key_hash: str, asked: str) -> int | None:
    """The fence of whoever may carry the request out; None: it was taken before."""
    values: dict[str, Any] = {
        "tenant": request.access.tenant.id,
        "api_key": request.access.key.id,
        "key": key_hash,
        "fingerprint": asked,
        "lock": LOCK,
        "keep": KEEP,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    return int(row[0]) if row else None


def _carry_out(
    request: ApiRequest,
    ours: QuerySet[IdempotencyKey],
    act: Callable[[], Answer],
    *,
    in_one_step: bool,
) -> Answer:
    try:
        with tenant_scope(request.access.tenant.id) if in_one_step else nullcontext():
            answer = act()
            kept = ours.update(
                status=answer.status,
                answer=_without_text(answer.body),
                expires_at=timezone.now() + KEEP,
            )
            if in_one_step and not kept:
                raise _under_way()
    except BaseException:
        ours.delete()
        raise
    return answer


def _answer_of_before(request: ApiRequest, row: QuerySet[IdempotencyKey], asked: str) -> Answer:
    known = row.first()
    if known is None:  # it was refused in this very moment
        raise _under_way()
    if known.fingerprint != asked:
        words = f"This {HEADER} was used for another request. Use a new one."
        raise ApiError(422, "idempotency_key_reused", words)
    if known.status is None:
        raise _under_way()
    return Answer(known.status, _with_text(request, known.answer), REPLAYED)


def _under_way() -> ApiError:
    words = "The same request is under way. Ask again soon for its answer."
    headers = {"Retry-After": str(_RETRY_AFTER_S)}
    return ApiError(409, "in_progress", words, headers)


def _without_text(body: dict[str, Any] | None) -> dict[str, Any]:
    document = (body or {}).get("document")
    if document is None:
        return body or {}
    kept = {name: value for name, value in document.items() if name not in _OF_THE_ROW}
    return {**(body or {}), "document": kept}


def _with_text(request: ApiRequest, body: dict[str, Any]) -> dict[str, Any]:
    if "document" not in body:
        return body
    tenant = request.access.tenant
    with tenant_scope(tenant.id):
        row = Document.objects.filter(tenant=tenant, id=body["document"]["id"]).first()
    if row is None:
        words = "This request was carried out; its document has been deleted since."
        raise ApiError(410, "gone", words)
    text = {name: getattr(row, name) for name in _OF_THE_ROW}
    return {**body, "document": {**body["document"], **text}}


def _hash(*parts: str) -> str:
    """SHA-256 in hex of parts, each told by its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
