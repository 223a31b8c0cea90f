"""The list of conversations, and what one does with them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.chat import selectors, services
from apps.chat.errors import ChatError, UnknownConversation, UnknownFolder
from apps.chat.models import Conversation
from apps.chat.selectors.listing import (
    Cursor,
    Listing,
    list_conversations,
    next_page,
    read_count,
)
from apps.tenants.access import Access, Right, TenantRequest, tenant_page


@require_GET
@tenant_page(Right.CHAT)
def conversation_list(request: TenantRequest) -> HttpResponse:
    """The list alone: as it is now, with the folders open and as far down as it was."""
    access, asked = request.access, request.GET
    listing = list_conversations(
        access,
        open_folders=_open_folders(request),
        at_least=read_count(asked.get("shown", "")),
        archive=asked.get("archive") == "1",
    )
    context = {"listing": listing, "conversation": _named(access, asked.get("current", ""))}
    return render(request, "chat/_conversation_list.html", context)


def first_listing(request: TenantRequest, current: Conversation | None) -> Listing:
    """The list as a page shows it first: with the current conversation's folder open."""
    own = [str(current.folder_id)] if current and current.folder_id else []
    return list_conversations(request.access, open_folders=[*_open_folders(request), *own])


@require_GET
@tenant_page(Right.CHAT)
def more_conversations(request: TenantRequest) -> HttpResponse:
    """The conversations below the last one shown; the first ones where that is not known."""
    after = Cursor.parse(request.GET.get("after", ""))
    page = next_page(request.access, after, archive=request.GET.get("archive") == "1")
    context = {"page": page, "conversation": _named(request.access, request.GET.get("current", ""))}
    return render(request, "chat/_conversation_page.html", context)


@require_POST
@tenant_page(Right.CHAT)
def rename(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """Give a conversation another title; answers the one that it has now."""
    with missing_as_404():
        title = services.rename_conversation(
            access=request.access,
            conversation_id=conversation_id,
            title=request.POST.get("title", ""),
        )
    if request.htmx:
        return HttpResponse(title, content_type="text/plain; charset=utf-8")
    return redirect("chat:conversation", request.access.tenant.slug, conversation_id)


@require_POST
@tenant_page(Right.CHAT)
def pin(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """Keep a conversation above the others, or no longer."""
    with missing_as_404():
        services.pin_conversation(
            access=request.access,
            conversation_id=conversation_id,
            pinned=request.POST.get("pinned") == "1",
        )
    return done(request)


@require_POST
@tenant_page(Right.CHAT)
def archive(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """Put a conversation out of the list, or back."""
    with missing_as_404():
        services.archive_conversation(
            access=request.access,
            conversation_id=conversation_id,
            archived=request.POST.get("archived") == "1",
        )
    return done(request)


@require_POST
@tenant_page(Right.CHAT)
def move(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """Put a conversation into a folder, or into none."""
    try:
        with missing_as_404():
            services.move_conversation(
                access=request.access,
                conversation_id=conversation_id,
                folder_id=_uuid(request.POST.get("folder", "")),
            )
    except UnknownFolder as exc:
        return refused(exc)
    return done(request)


@require_POST
@tenant_page(Right.CHAT)
def delete(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """Hide a conversation with its messages; it is gone for good when it is too late to undo."""
    with missing_as_404():
        services.delete_conversation(access=request.access, conversation_id=conversation_id)
    if not request.htmx:
        messages.success(request, _("The conversation is deleted."))
    return done(request)


@require_POST
@tenant_page(Right.CHAT)
def restore(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """Bring back a conversation that was deleted a moment ago."""
    with missing_as_404():
        services.restore_conversation(access=request.access, conversation_id=conversation_id)
    return done(request)


def done(request: TenantRequest) -> HttpResponseBase:
    """Nothing to say to a script, which fetches the list anew; the page to a form."""
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("chat:home", request.access.tenant.slug)


@contextmanager
def missing_as_404(kind: type[ChatError] = UnknownConversation) -> Iterator[None]:
    """What a service does not find of one's own is not there for the page either."""
    try:
        yield
    except kind as exc:
        raise Http404 from exc


def refused(exc: Exception) -> HttpResponse:
    """Why not, in words for the person."""
    return HttpResponse(str(exc), status=400, content_type="text/plain; charset=utf-8")


def own_or_404(access: Access, conversation_id: uuid.UUID) -> Conversation:
    """One's own conversation; a stranger's is as unknown as one that is not there."""
    found = selectors.get_conversation(access, conversation_id)
    if found is None:
        raise Http404
    return found


def _open_folders(request: TenantRequest) -> list[str]:
    """The folders that were left open, as the page's script keeps them in a cookie."""
    return request.COOKIES.get("chat_folders", "").split(".")


def _named(access: Access, text: str) -> Conversation | None:
    identifier = _uuid(text)
    return selectors.get_conversation(access, identifier) if identifier else None


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
