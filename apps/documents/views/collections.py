"""Collections: their list, their forms, and the documents of one as they stand."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.documents import progress, selectors, services
from apps.documents.errors import NameTaken
from apps.documents.forms import CollectionForm, initial_of
from apps.documents.models import Collection
from apps.documents.recognition import offers_recognition
from apps.documents.selectors import Wanted
from apps.documents.views.lookups import find_collection
from apps.tenants.access import Right, TenantRequest, tenant_page

DOCUMENTS_LISTED = 50  # on one screen: it is fetched every other second while any is unfinished
_FILTER_MAX_CHARS = 200


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
    found = find_collection(access, collection_id)
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
    found = find_collection(request.access, collection_id)
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
    found = find_collection(request.access, collection_id)
    return documents_part(request, found, template="documents/collection.html")


@require_GET
@tenant_page(Right.READ)
def document_list(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """Counts and table alone: fetched again while a document is on its way, and when filtered."""
    found = find_collection(request.access, collection_id)
    response = documents_part(request, found)
    if request.GET.get("filtered"):
        response["HX-Replace-Url"] = _address(request, found)
    return response


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def retry_failed(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """Read all failed documents once more, or those that failed for one reason."""
    found = find_collection(request.access, collection_id)
    services.retry_failed(
        tenant=request.access.tenant,
        collection=found,
        actor=request.access.user,
        code=request.POST.get("code", ""),
    )
    if request.htmx:
        return documents_part(request, found)
    return redirect("documents:collection", request.access.tenant.slug, found.id)


def documents_part(
    request: TenantRequest, found: Collection, template: str = "documents/_documents.html"
) -> HttpResponse:
    """The collection's documents as they stand, as far as the address says which to list."""
    tenant_id = request.access.tenant.id
    wanted = _wanted(request)
    standing = progress.standing_of(tenant_id, found.id)
    listed = Paginator(selectors.documents_of(tenant_id, found.id, wanted), DOCUMENTS_LISTED)
    if not wanted:
        listed.count = standing.total  # counted already
    documents = listed.get_page(request.GET.get("page"))
    answering = selectors.answering_versions(list(documents))
    for each in documents:
        each.answering = answering.get(each.id)  # type: ignore[attr-defined]
    batches = progress.batches_under_way(tenant_id, found.id) if standing.unfinished else []
    context = {
        "collection": found,
        "documents": documents,
        "standing": standing,
        "batches": batches,
        "wanted": wanted,
        "wanted_words": progress.reason_words(wanted.reason) if wanted.reason else "",
        "query": _query(wanted),
        "offers_recognition": offers_recognition(),
        "upload_max_bytes": settings.UPLOAD_MAX_BYTES,
        "upload_max_files": settings.UPLOAD_MAX_FILES,
    }
    return render(request, template, context)


def _wanted(request: TenantRequest) -> Wanted:
    """As asked for in the address; a button's form may hold it too."""
    asked = {name: request.GET.get(name, "")[:_FILTER_MAX_CHARS] for name in _FILTERS}
    return Wanted(**{field: asked[name] for name, field in _FILTERS.items()})


_FILTERS = {"state": "state", "q": "name", "reason": "reason"}


def _query(wanted: Wanted) -> str:
    """The filter as it stands in an address, ready to be added to."""
    given = {name: getattr(wanted, field) for name, field in _FILTERS.items()}
    return urlencode({name: value for name, value in given.items() if value})


def _address(request: TenantRequest, found: Collection) -> str:
    query = _query(_wanted(request))
    address = reverse("documents:collection", args=[request.access.tenant.slug, found.id])
    return f"{address}?{query}" if query else address
