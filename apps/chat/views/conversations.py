"""The list of conversations, and what one does with them."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.chat import selectors, services
from apps.chat.errors import UnknownConversation
from apps.chat.models import Conversation
from apps.tenants.access import Access, Right, TenantRequest, tenant_page

LISTED_CONVERSATIONS = 200


@require_GET
@tenant_page(Right.CHAT)
def conversation_list(request: TenantRequest) -> HttpResponse:
    """The list alone: fetched when a first question has made a conversation."""
    conversations = selectors.conversations_of(request.access)[:LISTED_CONVERSATIONS]
    current = next((c for c in conversations if str(c.id) == request.GET.get("current")), None)
    context = {"conversations": conversations, "conversation": current}
    return render(request, "chat/_conversation_list.html", context)


@require_POST
@tenant_page(Right.CHAT)
def rename(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Give a conversation another title."""
    try:
        services.rename_conversation(
            access=request.access,
            conversation_id=conversation_id,
            title=request.POST.get("title", ""),
        )
    except UnknownConversation as exc:
        raise Http404 from exc
    return redirect("chat:conversation", request.access.tenant.slug, conversation_id)


@require_POST
@tenant_page(Right.CHAT)
def delete(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Remove a conversation with its messages."""
    try:
        services.delete_conversation(access=request.access, conversation_id=conversation_id)
    except UnknownConversation as exc:
        raise Http404 from exc
    messages.success(request, "The conversation is deleted.")
    return redirect("chat:home", request.access.tenant.slug)


def own_or_404(access: Access, conversation_id: uuid.UUID) -> Conversation:
    """One's own conversation; a stranger's is as unknown as one that is not there."""
    found = selectors.get_conversation(access, conversation_id)
    if found is None:
        raise Http404
    return found
