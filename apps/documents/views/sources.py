"""Watched folders of a collection: a part of its page, for those who manage the corpus."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.documents import selectors, watching
from apps.documents.errors import SourceError
from apps.documents.forms import SourceForm
from apps.documents.models import Collection, Source
from apps.documents.sources import places_of
from apps.documents.views.lookups import find_collection
from apps.tenants.access import Access, Right, TenantRequest, tenant_page


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def sources(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    """The list, each with what its last run came to: a page of its own, or a part of one."""
    return _answer(request, find_collection(request.access, collection_id))


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def add_source(request: TenantRequest, collection_id: uuid.UUID) -> HttpResponse:
    found = find_collection(request.access, collection_id)
    access = request.access
    form = SourceForm(request.POST, kinds=places_of(access.tenant.slug))
    if form.is_valid():
        try:
            watching.add_source(
                tenant=access.tenant, collection=found, user=access.user, **form.cleaned_data
            )
        except SourceError as exc:
            form.add_error("location", str(exc))
        else:
            return _done(request, found, "Watched from now on.")
    return _answer(request, found, form=form)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def change_source(
    request: TenantRequest, collection_id: uuid.UUID, source_id: uuid.UUID
) -> HttpResponse:
    """`action` is one of run, pause, resume, confirm (with `count`) and remove (with `keep`)."""
    found, source = _find(request.access, collection_id, source_id)
    tenant, actor = request.access.tenant, request.access.user
    action = request.POST.get("action", "")
    if action == "run":
        watching.run_source_now(tenant=tenant, source=source)
    elif action == "pause":
        watching.pause_source(tenant=tenant, source=source, actor=actor)
    elif action == "resume":
        watching.resume_source(tenant=tenant, source=source, actor=actor)
    elif action == "confirm":
        count = _count(request)
        watching.allow_removals(tenant=tenant, source=source, actor=actor, count=count)
    elif action == "remove" and request.POST.get("keep") in ("0", "1"):
        keep = request.POST["keep"] == "1"
        watching.remove_source(tenant=tenant, source=source, actor=actor, keep_documents=keep)
    else:
        return _answer(request, found, status=400)
    return _done(request, found)


def _count(request: TenantRequest) -> int:
    """As many removals as the page showed: if there are more by now, they are asked for again."""
    given = request.POST.get("count", "")
    return int(given) if given.isdecimal() and len(given) < 10 else 0


def _find(
    access: Access, collection_id: uuid.UUID, source_id: uuid.UUID
) -> tuple[Collection, Source]:
    found = find_collection(access, collection_id)
    source = selectors.get_source(access.tenant.id, found.id, source_id)
    if source is None:
        raise Http404
    return found, source


def _done(request: TenantRequest, found: Collection, said: str = "") -> HttpResponse:
    if request.htmx:
        return _answer(request, found)
    if said:
        messages.success(request, said)
    return redirect("documents:sources", request.access.tenant.slug, found.id)


def _answer(
    request: TenantRequest,
    found: Collection,
    *,
    form: SourceForm | None = None,
    status: int = 200,
) -> HttpResponse:
    tenant = request.access.tenant
    places = places_of(tenant.slug)
    listed = selectors.sources_of(tenant.id, found.id)
    context = {
        "collection": found,
        "sources": listed,
        "is_moving": any(each.is_under_way or each.is_waiting for each in listed),
        "places": [place for shown in places.values() for place in shown],
        "form": form or SourceForm(kinds=places),
    }
    template = "documents/_sources.html" if request.htmx else "documents/sources.html"
    response = render(request, template, context, status=status)
    if request.htmx and request.htmx.trigger == "sources-list":
        # Asked for again because something moves: the list of documents has to follow.
        response["HX-Trigger"] = "sources-moved"
    return response
