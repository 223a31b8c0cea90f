"""Taking files: one by one, or many in a batch."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, JsonResponse
from django.views.decorators.http import require_POST

from apps.documents import selectors, services
from apps.documents.errors import DocumentError, DuplicateDocument
from apps.documents.models import Batch, Collection
from apps.documents.views.lookups import find_collection
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope

UPLOAD_STATUS = {
    "too_large": 413,
    "quota_exceeded": 413,
    "duplicate": 409,
    "storage_unavailable": 503,
}
_NO_FILE = {
    "code": "no_file",
    "message": "No whole file arrived; nothing was saved. Choose the file again.",
}


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def open_batch(request: TenantRequest, collection_id: uuid.UUID) -> JsonResponse:
    """Announce `expected` files. Answers `{"batch": {"id"}}` (201)."""
    found = find_collection(request.access, collection_id)
    expected = request.POST.get("expected", "")
    batch = services.open_batch(
        tenant=request.access.tenant,
        collection=found,
        user=request.access.user,
        source=Batch.Source.UPLOAD,
        expected=int(expected) if expected.isdecimal() and len(expected) < 10 else 0,
    )
    return JsonResponse({"batch": {"id": str(batch.id)}}, status=201)


@require_POST
@tenant_page(Right.MANAGE_CORPUS, scoped=False)
def send_files(
    request: TenantRequest, collection_id: uuid.UUID, batch_id: uuid.UUID
) -> JsonResponse:
    """Take some files of a batch: fields `file`, and `path` for each in the same order.

    Answers `{"results": [...]}` in that order, each `{"document": {...}}`, with `"unchanged": true`
    where the bytes were there already, or `{"error": {"code", "message"}}`. Each file is stored by
    itself: one that is refused takes nothing of the others along.
    """
    with tenant_scope(request.access.tenant.id):
        found = find_collection(request.access, collection_id)
        batch = selectors.get_batch(request.access.tenant.id, found.id, batch_id)
    if batch is None:
        raise Http404
    files, paths = request.FILES.getlist("file"), request.POST.getlist("path")
    if not files or len(files) != len(paths):
        return JsonResponse({"error": _NO_FILE}, status=400)
    results = [
        _take_of_batch(request, found, batch, file, path)
        for file, path in zip(files, paths, strict=True)
    ]
    return JsonResponse({"results": results})


def _take_of_batch(
    request: TenantRequest, found: Collection, batch: Batch, file: UploadedFile[Any], path: str
) -> dict[str, Any]:
    try:
        return _take(request, found, file, path, batch)
    except DuplicateDocument as exc:
        services.count_unchanged(batch=batch)
        same = {"id": str(exc.document.id), "path": exc.document.path}
        return {"document": same, "unchanged": True}
    except DocumentError as exc:
        return {"error": {"code": exc.code, "message": str(exc)}}


@require_POST
@tenant_page(Right.MANAGE_CORPUS, scoped=False)
def upload(request: TenantRequest, collection_id: uuid.UUID) -> JsonResponse:
    """Take one file. Answers `{"document": {...}}` (201) or `{"error": {code, message}}`."""
    with tenant_scope(request.access.tenant.id):
        found = find_collection(request.access, collection_id)
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        return JsonResponse({"error": _NO_FILE}, status=400)
    try:
        taken = _take(request, found, file, request.POST.get("path") or file.name or "")
    except DocumentError as exc:
        error = {"code": exc.code, "message": str(exc)}
        if isinstance(exc, DuplicateDocument):
            error["document"] = str(exc.document.id)
        return JsonResponse({"error": error}, status=UPLOAD_STATUS.get(exc.code, 400))
    return JsonResponse(taken, status=201)


def _take(
    request: TenantRequest,
    found: Collection,
    file: UploadedFile[Any],
    path: str,
    batch: Batch | None = None,
) -> dict[str, Any]:
    document = services.receive_upload(
        tenant=request.access.tenant,
        collection=found,
        user=request.access.user,
        path=path,
        file=file,
        batch=batch,
    )
    body = {
        "id": str(document.id),
        "name": document.name,
        "state": document.state,
        "version": document.version,
    }
    return {"document": body}
