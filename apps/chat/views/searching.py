"""Search in one's own history."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.chat import selectors
from apps.chat.selectors.searching import search_conversations, words_of
from apps.tenants.access import Right, TenantRequest, tenant_page

RECENT = 8


@require_GET
@tenant_page(Right.CHAT)
def search(request: TenantRequest) -> HttpResponse:
    """What was found, as a part; the latest conversations while nothing is searched for."""
    query = request.GET.get("q", "")
    context = {
        "is_searching": bool(words_of(query)),
        "results": search_conversations(request.access, query),
        "recent": selectors.conversations_of(request.access)[:RECENT],
    }
    return render(request, "chat/_search_results.html", context)
