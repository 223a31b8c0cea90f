"""One document: its text with the passages it was cut into, its versions, and what helps it."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import cache_control
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from apps.documents import passages, progress, selectors, services, viewing
from apps.documents.errors import DocumentError, FileMissing
from apps.documents.forms import EncodingForm, PasswordForm
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Document, DocumentState
from apps.documents.recognition import offers_recognition
from apps.documents.views.collections import documents_part
from apps.documents.views.lookups import find_document
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope
from worker.sandbox import SandboxError

# Page images do not change: a document's bytes are its identity.
PAGE_IMAGE_SECONDS = 24 * 60 * 60


@require_GET
@tenant_page(Right.READ)
def document(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """One document: where it stands, and the text of its pages."""
    return _page(request, find_document(request.access, document_id, collection_id))


@require_GET
@tenant_page(Right.READ)
def document_state(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """Where a document stands; asks for the whole page once it is finished."""
    found = find_document(request.access, document_id, collection_id)
    context = _state_context(found, list(selectors.versions_of(found)))
    response = render(request, "documents/_document_state.html", context)
    if found.state not in UNFINISHED:
        response["HX-Refresh"] = "true"
    return response


@require_GET
@tenant_page(Right.READ)
def download(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponseBase:
    """The file as it was uploaded; never shown in the site's own origin."""
    found = find_document(request.access, document_id, collection_id)
    try:
        file = selectors.open_file(found)
    except FileMissing as exc:
        raise Http404 from exc
    response = FileResponse(
        file, as_attachment=True, filename=found.name, content_type="application/octet-stream"
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def retry(request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID) -> HttpResponse:
    """Read a failed document once more; with `ocr`, recognise the text of its pictures."""
    found = find_document(request.access, document_id, collection_id)
    ocr = True if request.POST.get("ocr") and offers_recognition() else None
    try:
        services.retry_document(
            tenant=request.access.tenant, document=found, actor=request.access.user, ocr=ocr
        )
    except DocumentError as exc:
        if not request.htmx:
            messages.error(request, str(exc))
    if request.htmx:
        return documents_part(request, found.collection)
    return _to(request, found)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def decode(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """Read a text with the encoding that was chosen."""
    found = find_document(request.access, document_id, collection_id)
    form = EncodingForm(request.POST)
    if not form.is_valid():
        return _page(request, found, encoding_form=form)
    try:
        services.retry_document(
            tenant=request.access.tenant,
            document=found,
            actor=request.access.user,
            encoding=form.cleaned_data["encoding"],
        )
    except DocumentError as exc:
        messages.error(request, str(exc))
    return _to(request, found)


@sensitive_post_parameters("password")
@require_POST
@tenant_page(Right.MANAGE_CORPUS, scoped=False)
def unlock(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """Open a protected document with its password, which is used as typed and not kept."""
    with tenant_scope(request.access.tenant.id):
        found = find_document(request.access, document_id, collection_id)
    form = PasswordForm(request.POST)
    if form.is_valid():
        try:
            # Out of the scope: opening the file takes seconds.
            services.unlock_document(
                tenant=request.access.tenant,
                document=found,
                actor=request.access.user,
                password=form.cleaned_data["password"],
            )
        except (DocumentError, SandboxError) as exc:
            form.add_error("password", str(exc))
        else:
            return _to(request, found)
    with tenant_scope(request.access.tenant.id):
        return _page(request, found, password_form=form)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def tag(request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID) -> HttpResponse:
    """Replace a document's tags by those typed, with commas between."""
    found = find_document(request.access, document_id, collection_id)
    context: dict[str, Any] = {"document": found, "collection": found.collection}
    try:
        services.set_tags(
            tenant=request.access.tenant,
            document=found,
            actor=request.access.user,
            tags=services.split_tags(request.POST.get("tags", "")),
        )
        context["saved"] = True
    except DocumentError as exc:
        context |= {"error": str(exc), "typed": request.POST.get("tags", "")[:1000]}
    if request.htmx:
        return render(request, "documents/_tags.html", context)
    if "error" in context:
        messages.error(request, context["error"])
    return _to(request, found)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def delete(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """Delete a document in all its versions, and everything made from it."""
    found = find_document(request.access, document_id, collection_id)
    services.delete_document(
        tenant=request.access.tenant, document=found, actor=request.access.user
    )
    messages.success(request, f"“{found.name}” is deleted.")
    return redirect("documents:collection", request.access.tenant.slug, collection_id)


@require_GET
@cache_control(private=True, max_age=PAGE_IMAGE_SECONDS)
@tenant_page(Right.READ, scoped=False)
def page_image(request: TenantRequest, document_id: uuid.UUID, page: int) -> HttpResponse:
    """A page as a PNG, for kinds that have pages to look at."""
    with tenant_scope(request.access.tenant.id):
        found = find_document(request.access, document_id)
    try:
        # Out of the scope: drawing a page takes seconds.
        png = viewing.page_image(found, page)
    except DocumentError as exc:
        raise Http404 from exc
    return HttpResponse(
        png, content_type="image/png", headers={"X-Content-Type-Options": "nosniff"}
    )


@require_GET
@cache_control(private=True, max_age=PAGE_IMAGE_SECONDS)
@tenant_page(Right.READ, scoped=False)
def passage_marks(
    request: TenantRequest, document_id: uuid.UUID, chunk_id: uuid.UUID, page: int
) -> HttpResponse:
    """Where a passage stands on the image of a page: what is laid over it."""
    with tenant_scope(request.access.tenant.id):
        found = find_document(request.access, document_id)
        chunk = selectors.get_chunk(found, chunk_id)
        text = selectors.pages_between(found.tenant_id, found.id, page, page).first()
    if chunk is None or text is None:
        raise Http404
    boxes = viewing.passage_boxes(found, text, chunk.char_start, chunk.char_end)
    return render(request, "documents/_passage_marks.html", {"boxes": boxes})


def _page(request: TenantRequest, found: Document, **forms: Any) -> HttpResponse:
    chunk_id = _uuid(request.GET.get("passage", ""))
    marked = selectors.get_chunk(found, chunk_id) if chunk_id else None
    at = marked.page_first if marked else _number(request.GET.get("at", ""))
    part = passages.read_part(found, part=_number(request.GET.get("part", "")), at=at)
    versions = list(selectors.versions_of(found))
    context = {
        **_state_context(found, versions),
        "part": part,
        "marked": marked,
        "versions": versions,
        "newer": _newer(found, versions),
        "question_max_chars": settings.QUESTION_MAX_CHARS,
        "has_images": viewing.has_page_images(found),
        "is_text": found.kind.startswith("text/"),
        "password_form": PasswordForm(),
        "encoding_form": EncodingForm(initial={"encoding": found.encoding}),
        "offers_recognition": offers_recognition(),
        **forms,
    }
    return render(request, "documents/document.html", context)


def _state_context(found: Document, versions: list[Document]) -> dict[str, Any]:
    unfinished = found.state in UNFINISHED
    ready = [each for each in versions if each.state == DocumentState.READY]
    return {
        "document": found,
        "collection": found.collection,
        "before": progress.jobs_before(found) if unfinished else None,
        "answering": next((each for each in ready if each.version < found.version), None),
    }


def _newer(found: Document, versions: list[Document]) -> Document | None:
    """The version that answers in place of this one, or is to; None where this is the last."""
    later = [each for each in versions if each.version > found.version]
    ready = [each for each in later if each.state == DocumentState.READY]
    return next(iter(ready or later), None)


def _to(request: TenantRequest, found: Document) -> HttpResponse:
    return redirect("documents:document", request.access.tenant.slug, found.collection_id, found.id)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 9 else None


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
