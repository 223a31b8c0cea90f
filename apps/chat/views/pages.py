"""The chat page. Questions and answers go over the websocket; this is everything around it."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from apps.chat import selectors, services
from apps.chat.errors import UnknownMessage
from apps.chat.feedback import COMMENT_CHARS
from apps.chat.models import Conversation
from apps.chat.suggesting import suggest_questions
from apps.chat.views.conversations import first_listing, missing_as_404, own_or_404
from apps.documents.selectors import collections_for, counts_of
from apps.gateway.service import available_models
from apps.tenants.access import Access, Right, TenantRequest, tenant_page

NIL = uuid.UUID(int=0)  # stands in addresses for an id that the browser fills in


@require_GET
@tenant_page(Right.CHAT)
def home(request: TenantRequest) -> HttpResponse:
    """A new conversation."""
    return _chat_page(request, None)


@require_GET
@tenant_page(Right.CHAT)
def conversation(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """One of one's own conversations."""
    return _chat_page(request, own_or_404(request.access, conversation_id))


@require_GET
@tenant_page(Right.CHAT)
def thread(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """The messages alone: fetched after a break, and when another page has asked."""
    found = own_or_404(request.access, conversation_id)
    return render(request, "chat/_thread.html", _thread_context(request.access, found))


@require_POST
@tenant_page(Right.CHAT)
def branch(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Show another branch: the one that `message` is on. The messages alone come back."""
    found = own_or_404(request.access, conversation_id)
    try:
        message_id = uuid.UUID(request.POST.get("message", ""))
    except ValueError:
        return HttpResponse(status=400)
    with missing_as_404(UnknownMessage):
        services.show_branch(access=request.access, conversation_id=found.id, message_id=message_id)
    found.refresh_from_db()
    return render(request, "chat/_thread.html", _thread_context(request.access, found))


@require_GET
@tenant_page(Right.CHAT)
def answer(request: TenantRequest, answer_id: uuid.UUID) -> HttpResponse:
    """One answer as it is stored: for a page whose stream has nothing of it any more."""
    found = selectors.get_answer(request.access, answer_id)
    if found is None:
        raise Http404
    context = {
        **_thread_context(request.access, None),
        "conversation": found.conversation,
        "view": selectors.view_of(request.access, found),
    }
    return render(request, "chat/_answer.html", context)


@require_GET
@tenant_page(Right.CHAT)
def suggestions(request: TenantRequest) -> HttpResponse:
    """What one may ask of the collections picked: fetched when another is picked."""
    access = request.access
    wanted = request.GET.getlist("collection")
    picked = [each.id for each in collections_for(access) if str(each.id) in wanted]
    context = {"suggestions": suggest_questions(access.tenant.id, picked)}
    return render(request, "chat/_suggestions.html", context)


def _chat_page(request: TenantRequest, current: Conversation | None) -> HttpResponse:
    access = request.access
    collections = list(collections_for(access))
    counts = counts_of(access.tenant.id, [each.id for each in collections])
    has_ready = any(count.ready for count in counts.values())
    picked = _picked(request, current, [each.id for each in collections])
    context: dict[str, Any] = {
        "listing": first_listing(request, current),
        **_thread_context(access, current, _named_leaf(request)),
        "collections": collections,
        "picked": picked,
        "models": available_models(),
        "can_ask": bool(collections),
        "has_ready_documents": has_ready,
        "suggestions": [] if current else suggest_questions(access.tenant.id, picked),
        "question_max_chars": settings.QUESTION_MAX_CHARS,
        "own_limits": selectors.own_limits(access),
    }
    return render(request, "chat/chat.html", context)


def _named_leaf(request: TenantRequest) -> uuid.UUID | None:
    """A message whose branch is to be shown this once, as a search result names it."""
    try:
        return uuid.UUID(request.GET.get("leaf", ""))
    except ValueError:
        return None


def _thread_context(
    access: Access, current: Conversation | None, leaf_id: uuid.UUID | None = None
) -> dict[str, Any]:
    """The messages, and what is filled into the templates of new ones."""
    thread = selectors.thread_of(access, current, leaf_id) if current else []
    return {
        "conversation": current,
        "thread": thread,
        "nil": NIL,
        "comment_max_chars": COMMENT_CHARS,
    }


def _picked(
    request: TenantRequest, current: Conversation | None, open_ids: list[uuid.UUID]
) -> list[uuid.UUID]:
    """The collections ticked at first: the conversation's, the address's, or all."""
    wanted = current.collection_ids if current else request.GET.getlist("collection")
    return [each for each in open_ids if str(each) in wanted] or open_ids
