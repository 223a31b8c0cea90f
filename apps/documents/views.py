"""Documents pages: reading for everybody a collection is open to, changing for corpus admins."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Page as ListPage
from django.core.paginator import Paginator
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.documents import selectors, services, viewing
from apps.documents.errors import DocumentError, DuplicateDocument, FileMissing, NameTaken
from apps.documents.forms import CollectionForm, initial_of
from apps.documents.models import Collection, Document, DocumentState
from apps.tenants.access import Access, Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope

DOCUMENTS_LISTED = 100  # on one screen: it is fetched every second while any is unfinished
PAGES_SHOWN = 20  # of a document, on one screen
FINISHED = (DocumentState.READY, DocumentState.FAILED)
# Page images do not change: a document's bytes are its identity.
PAGE_IMAGE_SECONDS = 24 * 60 * 60
UPLOAD_STATUS = {"too_large": 413, "duplicate": 409}


@require_GET
@tenant_page(Right.READ)
def home(request: TenantRequest) -> HttpResponse:
    """The collections open to this person."""
    collections = selectors.collections_with_counts(request.access)
    return render(request, "documents/home.html", {"collections": collections})


@require_http_methods(["GET", "POST"])
@tenant_page(Right.MANAGE_CORPUS)
def create_collection(request: TenantRequest) -> HttpResponse:
    """A form for a new collection."""
    access = request.access
    form = CollectionForm(request.POST or None, tenant_id=access.tenant.id)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_collection(
                tenant=access.tenant, user=access.user, **form.settings()
            )
        except NameTaken as exc:
            form.add_error("name", str(exc))
        else:
            return redirect("documents:collection", access.tenant.slug, made.id)
    return render(request, "documents/collection_form.html", {"form": form})


@require_http_methods(["GET", "POST"])
@tenant_page(Right.MANAGE_CORPUS)
def edit_collection(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """The same form for one that exists, and the way to delete it."""
    access = request.access
    found = _collection(access, collection_id)
    readers = selectors.reader_ids_of(access.tenant.id, found.id)
    form = CollectionForm(
        request.POST or None, initial=initial_of(found, readers), tenant_id=access.tenant.id
    )
    if request.method == "POST" and form.is_valid():
        try:
            services.update_collection(
                tenant=access.tenant, collection=found, actor=access.user, **form.settings()
            )
        except NameTaken as exc:
            form.add_error("name", str(exc))
        else:
            messages.success(request, "Saved.")
            return redirect("documents:collection", access.tenant.slug, found.id)
    return render(request, "documents/collection_form.html", {"form": form, "collection": found})


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def delete_collection(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """Delete a collection with its documents; its name has to be typed."""
    found = _collection(request.access, collection_id)
    slug = request.access.tenant.slug
    if request.POST.get("confirm", "").strip() != found.name.strip():
        messages.error(request, "Nothing was deleted: the typed name is not the collection's.")
        return redirect("documents:edit_collection", slug, found.id)
    services.delete_collection(
        tenant=request.access.tenant, collection=found, actor=request.access.user
    )
    messages.success(request, f"“{found.name}” and its documents are deleted.")
    return redirect("documents:home", slug)


@require_GET
@tenant_page(Right.READ)
def collection(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """A collection's documents, and the place to drop more."""
    return _documents(request, collection_id, "documents/collection.html")


@require_GET
@tenant_page(Right.READ)
def document_list(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """The table alone: fetched again while a document is on its way."""
    return _documents(request, collection_id, "documents/_documents.html")


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def upload(request: TenantRequest, collection_id: uuid.UUID) -> JsonResponse:
    """Take one file. Answers `{"document": {...}}` (201) or `{"error": {code, message}}`."""
    found = _collection(request.access, collection_id)
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        message = "No whole file arrived; nothing was saved. Choose the file again."
        return JsonResponse({"error": {"code": "no_file", "message": message}}, status=400)
    try:
        document = services.receive_upload(
            tenant=request.access.tenant,
            collection=found,
            user=request.access.user,
            path=file.name or "",
            file=file,
        )
    except DocumentError as exc:
        error = {"code": exc.code, "message": str(exc)}
        if isinstance(exc, DuplicateDocument):
            error["document"] = str(exc.document.id)
        return JsonResponse({"error": error}, status=UPLOAD_STATUS.get(exc.code, 400))
    body = {"id": str(document.id), "name": document.name, "state": document.state}
    return JsonResponse({"document": body}, status=201)


@require_GET
@tenant_page(Right.READ)
def document(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """One document: where it stands, and the text of its pages."""
    found = _document(request.access, document_id, collection_id)
    pages = Paginator(selectors.pages_of(request.access.tenant.id, found.id), PAGES_SHOWN)
    context = {
        "document": found,
        "collection": found.collection,
        "pages": pages.get_page(_part(request)),
        "has_images": viewing.has_page_images(found),
    }
    return render(request, "documents/document.html", context)


@require_GET
@tenant_page(Right.READ)
def document_state(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """Where a document stands; asks for the whole page once it is finished."""
    found = _document(request.access, document_id, collection_id)
    context = {"document": found, "collection": found.collection}
    response = render(request, "documents/_document_state.html", context)
    if found.state in FINISHED:
        response["HX-Refresh"] = "true"
    return response


@require_GET
@tenant_page(Right.READ)
def download(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponseBase:
    """The file as it was uploaded; never shown in the site's own origin."""
    found = _document(request.access, document_id, collection_id)
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
    """Read a failed document once more."""
    found = _document(request.access, document_id, collection_id)
    try:
        services.retry_document(
            tenant=request.access.tenant, document=found, actor=request.access.user
        )
    except DocumentError as exc:
        if not request.htmx:
            messages.error(request, str(exc))
    if request.htmx:
        return _documents(request, collection_id, "documents/_documents.html")
    return redirect("documents:document", request.access.tenant.slug, collection_id, document_id)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def delete(
    request: TenantRequest, collection_id: uuid.UUID, document_id: uuid.UUID
) -> HttpResponse:
    """Delete a document and everything made from it."""
    found = _document(request.access, document_id, collection_id)
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
        found = _document(request.access, document_id)
    try:
        # Out of the scope: drawing a page takes seconds.
        png = viewing.page_image(found, page)
    except DocumentError as exc:
        raise Http404 from exc
    return HttpResponse(
        png, content_type="image/png", headers={"X-Content-Type-Options": "nosniff"}
    )


def _collection(access: Access, collection_id: uuid.UUID) -> Collection:
    found = selectors.get_collection_for(access, collection_id)
    if found is None:
        raise Http404
    return found


def _document(
    access: Access, document_id: uuid.UUID, collection_id: uuid.UUID | None = None
) -> Document:
    found = selectors.get_document_for(access, document_id)
    if found is None or collection_id not in (None, found.collection_id):
        raise Http404
    return found


def _documents(request: TenantRequest, collection_id: uuid.UUID, template: str) -> HttpResponse:
    found = _collection(request.access, collection_id)
    documents = selectors.documents_of(request.access.tenant.id, found.id)
    shown: ListPage[Document] = Paginator(documents, DOCUMENTS_LISTED).get_page(
        request.GET.get("page")
    )
    context = {
        "collection": found,
        "documents": shown,
        "unfinished": any(each.state not in FINISHED for each in shown),
        "upload_max_bytes": settings.UPLOAD_MAX_BYTES,
        "upload_max_files": settings.UPLOAD_MAX_FILES,
    }
    return render(request, template, context)


def _part(request: TenantRequest) -> str | int | None:
    """The part of a document to show: asked for by its number, or by a page that it holds."""
    at = request.GET.get("at", "")
    if at.isdecimal() and len(at) < 9:
        return (max(1, int(at)) - 1) // PAGES_SHOWN + 1
    return request.GET.get("part")
