"""The operations of the API: parse, make one call, answer."""

from __future__ import annotations

import codecs
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from apps.documents import files, services
from apps.documents.api import queries, shapes
from apps.documents.api.bodies import json_object, sent_file
from apps.documents.api.boundary import Answer, ApiRequest
from apps.documents.api.errors import ApiError, not_found
from apps.documents.api.idempotency import idempotency_key, once
from apps.documents.api.openapi import DOCUMENT
from apps.documents.errors import DuplicateDocument
from apps.documents.models import Batch, Collection, Document
from apps.documents.selectors import counts_of
from apps.tenants.scope import tenant_scope

_EXPECTED_MAX = 2**31 - 1


def openapi(request: HttpRequest) -> HttpResponse:
    """The description of the API; it says nothing of any tenant."""
    return JsonResponse(DOCUMENT)


def list_collections(request: ApiRequest) -> Answer:
    tenant = request.access.tenant
    with tenant_scope(tenant.id):
        found = list(queries.collections_of(request.access))
        counts = counts_of(tenant.id, [each.id for each in found])
    objects = [shapes.collection_object(each, counts[each.id]) for each in found]
    return Answer(body={"collections": objects})


def list_documents(request: ApiRequest, collection_id: uuid.UUID) -> Answer:
    asked = {name: request.GET.get(name, "") for name in ("state", "path", "cursor", "limit")}
    with tenant_scope(request.access.tenant.id):
        collection = queries.collection_of(request.access, collection_id)
        page = queries.documents_page(collection, **asked)
    objects = [shapes.document_object(each) for each in page.documents]
    return Answer(body={"documents": objects, "next": page.next or None})


def upload_document(request: ApiRequest, collection_id: uuid.UUID) -> Answer:
    """201: received. 200: the collection has these bytes, or had them under another path."""
    collection = _collection(request, collection_id)
    with sent_file(request) as sent:
        batch = _batch(request, collection, sent.batch)
        tags = services.split_tags(sent.tags)
        receive = partial(_receive, request, collection, sent.path, batch, tags)
        if idempotency_key(request) is None:
            return receive(sent.file)
        # What is asked for must be known before it is done: a form's own bytes differ each time.
        with files.receive(sent.file) as received, received.path.open("rb") as file:
            asked = (sent.path, sent.batch, ",".join(tags), received.sha256)
            return once(request, partial(receive, file), *asked, in_one_step=False)


def _receive(
    request: ApiRequest,
    collection: Collection,
    path: str,
    batch: Batch | None,
    tags: list[str],
    file: Any,
) -> Answer:
    try:
        document = services.receive_upload(
            tenant=request.access.tenant,
            collection=collection,
            user=request.access.user,
            path=path,
            file=file,
            batch=batch,
            tags=tags,
            key_id=request.access.key.id,
        )
    except DuplicateDocument as exc:
        if batch is not None:
            services.count_unchanged(batch=batch)
        body = {"document": shapes.document_object(exc.document), "unchanged": True}
        return Answer(body=body)
    location = f"/api/v1/documents/{document.id}"
    body = {"document": shapes.document_object(document), "unchanged": False}
    return Answer(201, body, {"Location": location})


def get_document(request: ApiRequest, document_id: uuid.UUID) -> Answer:
    return Answer(body={"document": shapes.document_object(_document(request, document_id))})


def delete_document(request: ApiRequest, document_id: uuid.UUID) -> Answer:
    document = _document(request, document_id)
    services.delete_document(
        tenant=request.access.tenant, document=document, actor=request.access.user
    )
    return Answer(204)


def retry_document(request: ApiRequest, document_id: uuid.UUID) -> Answer:
    """Read a document again, and in another way where the body says how."""
    given = json_object(request, encoding=str, ocr=bool)
    _check_encoding(given.get("encoding"))
    retry = partial(
        services.retry_document,
        tenant=request.access.tenant,
        document=_document(request, document_id),
        actor=request.access.user,
        **given,
    )
    asked = [f"{name}={value}" for name, value in sorted(given.items())]
    return once(request, partial(_sent_again, request, document_id, retry), *asked)


def give_password(request: ApiRequest, document_id: uuid.UUID) -> Answer:
    """Open a document that is protected by a password, which is kept nowhere, nor its hash."""
    password = json_object(request, password=str).get("password")
    if password is None:
        raise ApiError(422, "bad_field", 'Send the password: {"password": "…"}.')
    unlock = partial(
        services.unlock_document,
        tenant=request.access.tenant,
        document=_document(request, document_id),
        actor=request.access.user,
        password=password,
    )
    # Opening the file takes seconds: not in a transaction.
    return once(request, partial(_sent_again, request, document_id, unlock), in_one_step=False)


def _sent_again(request: ApiRequest, document_id: uuid.UUID, send: Callable[[], None]) -> Answer:
    send()
    return Answer(202, {"document": shapes.document_object(_document(request, document_id))})


def create_batch(request: ApiRequest) -> Answer:
    given = json_object(request, collection_id=str, expected=int)
    expected = given.get("expected", 0)
    if not 0 <= expected <= _EXPECTED_MAX:
        raise ApiError(422, "bad_field", f"expected is a number from 0 to {_EXPECTED_MAX}.")
    collection = _collection(request, _uuid(given.get("collection_id", "")))
    opened = partial(_opened_batch, request, collection, expected)
    return once(request, opened, str(collection.id), str(expected))


def _opened_batch(request: ApiRequest, collection: Collection, expected: int) -> Answer:
    batch = services.open_batch(
        tenant=request.access.tenant,
        collection=collection,
        user=request.access.user,
        source=Batch.Source.API,
        expected=expected,
    )
    body = {"batch": _batch_object(request, batch.id)}
    return Answer(201, body, {"Location": f"/api/v1/batches/{batch.id}"})


def get_batch(request: ApiRequest, batch_id: uuid.UUID) -> Answer:
    return Answer(body={"batch": _batch_object(request, batch_id)})


def _batch_object(request: ApiRequest, batch_id: uuid.UUID) -> dict[str, Any]:
    with tenant_scope(request.access.tenant.id):
        batch = queries.batch_of(request.access, batch_id)
        return shapes.batch_object(batch, queries.batch_counts(batch))


def _collection(request: ApiRequest, collection_id: uuid.UUID) -> Collection:
    with tenant_scope(request.access.tenant.id):
        return queries.collection_of(request.access, collection_id)


def _document(request: ApiRequest, document_id: uuid.UUID) -> Document:
    with tenant_scope(request.access.tenant.id):
        return queries.document_of(request.access, document_id)


def _batch(request: ApiRequest, collection: Collection, batch_id: str) -> Batch | None:
    if not batch_id:
        return None
    with tenant_scope(request.access.tenant.id):
        batch = queries.batch_of(request.access, _uuid(batch_id))
    if batch.collection_id != collection.id:
        raise ApiError(422, "other_collection", "This batch belongs to another collection.")
    return batch


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as exc:
        raise not_found() from exc


def _check_encoding(name: str | None) -> None:
    """Raises ApiError for a name that Python does not know."""
    try:
        codecs.lookup(name or "utf-8")
    except (LookupError, ValueError) as exc:
        words = "There is no such encoding. Use a name such as cp1252 or shift_jis."
        raise ApiError(422, "bad_encoding", words) from exc
