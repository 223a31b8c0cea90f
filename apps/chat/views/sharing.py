"""Sharing one's own conversations, and reading those of others."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.chat import services
from apps.chat.errors import UnknownMessage
from apps.chat.models import Share
from apps.chat.selectors.shares import (
    current_leaf,
    get_share,
    get_shared_citation,
    share_of,
    shared_thread,
    shares_of,
)
from apps.chat.sources import open_place
from apps.chat.views.conversations import done, missing_as_404, own_or_404, refused
from apps.tenants.access import Access, Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope


@require_http_methods(["GET", "POST"])
@tenant_page(Right.CHAT)
def share(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Say what sharing means, and do it (POST): a part for the dialog."""
    access = request.access
    conversation = own_or_404(access, conversation_id)
    if request.method == "POST":
        try:
            with missing_as_404():
                services.share_conversation(access=access, conversation_id=conversation_id)
        except UnknownMessage as exc:
            return refused(exc)
    found = share_of(access, conversation)
    leaf = current_leaf(access, conversation)
    context = {
        "conversation": conversation,
        "share": found,
        "address": _address(request, found) if found else "",
        "has_newer": bool(found and found.leaf_id != leaf),
        "is_empty": leaf is None,
        "was_changed": request.method == "POST",
    }
    return render(request, "chat/_share.html", context)


@require_GET
@tenant_page(Right.CHAT)
def own_shares(request: TenantRequest) -> HttpResponse:
    """What one shares, with the way to stop: a part for the dialog."""
    return render(request, "chat/_shares.html", {"shares": shares_of(request.access)})


@require_POST
@tenant_page(Right.CHAT)
def revoke(request: TenantRequest, share_id: uuid.UUID) -> HttpResponseBase:
    """Stop sharing."""
    if not services.revoke_share(access=request.access, share_id=share_id):
        raise Http404
    return done(request)


@require_GET
@tenant_page(Right.CHAT)
def shared(request: TenantRequest, share_id: uuid.UUID) -> HttpResponse:
    """A conversation that a member has shared, to read."""
    access = request.access
    found = _share_or_404(access, share_id)
    context = {
        "share": found,
        "title": found.conversation.title,
        "is_own": found.user_id == access.user.pk,
        "thread": shared_thread(access, found),
    }
    return render(request, "chat/shared.html", context)


@require_GET
@tenant_page(Right.CHAT, scoped=False)
def shared_citation(
    request: TenantRequest, share_id: uuid.UUID, citation_id: uuid.UUID
) -> HttpResponse:
    """A source of a shared answer on its page, where it is open to the reader."""
    access = request.access
    with tenant_scope(access.tenant.id):
        found = _share_or_404(access, share_id)
        citation = get_shared_citation(access, found, citation_id)
    if citation is None:
        raise Http404
    opened = open_place(access, citation)
    context = {
        "share": found,
        "opened": opened,
        "citation": citation,
        "is_open": opened.document is not None,
        "score_percent": round(citation.score * 100),
    }
    template = "chat/_shared_citation.html" if request.htmx else "chat/shared_citation.html"
    return render(request, template, context)


def _share_or_404(access: Access, share_id: uuid.UUID) -> Share:
    found = get_share(access, share_id)
    if found is None:
        raise Http404
    return found


def _address(request: TenantRequest, found: Share) -> str:
    path = reverse("chat:shared", args=[request.access.tenant.slug, found.id])
    return request.build_absolute_uri(path)
