"""Chat pages. Questions and answers go over the websocket; this is everything around it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from apps.chat import feedback, selectors, services
from apps.chat.errors import FeedbackRefused, UnknownConversation
from apps.chat.models import Conversation, MessageState
from apps.chat.sources import open_citation
from apps.documents.selectors import collections_for, counts_of, suggest_questions
from apps.gateway.service import available_models
from apps.telemetry.models import Span
from apps.telemetry.selectors import hops_of
from apps.tenants.access import Access, Right, TenantRequest, tenant_page

LISTED_CONVERSATIONS = 200
NIL = uuid.UUID(int=0)  # stands in addresses for an id that the browser fills in
_FEEDBACK = {"comment_max_chars": feedback.COMMENT_CHARS}


@require_GET
@tenant_page(Right.CHAT)
def home(request: TenantRequest) -> HttpResponse:
    """A new conversation."""
    return _chat_page(request, None)


@require_GET
@tenant_page(Right.CHAT)
def conversation(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """One of one's own conversations."""
    return _chat_page(request, _own(request.access, conversation_id))


@require_GET
@tenant_page(Right.CHAT)
def conversation_list(request: TenantRequest) -> HttpResponse:
    """The list alone: fetched when a first question has made a conversation."""
    conversations = selectors.conversations_of(request.access)[:LISTED_CONVERSATIONS]
    current = next((c for c in conversations if str(c.id) == request.GET.get("current")), None)
    context = {"conversations": conversations, "conversation": current}
    return render(request, "chat/_conversation_list.html", context)


@require_GET
@tenant_page(Right.CHAT)
def thread(request: TenantRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """The messages alone: fetched after the connection broke in the middle of an answer."""
    found = _own(request.access, conversation_id)
    return render(request, "chat/_thread.html", _thread_context(request.access, found))


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


@require_GET
@tenant_page(Right.CHAT, scoped=False)
def citation(request: TenantRequest, citation_id: uuid.UUID) -> HttpResponse:
    """A source of an answer, with its passage marked: a part for the panel, or a page."""
    opened = open_citation(request.access, citation_id)
    if opened is None:
        raise Http404
    found = opened.citation
    template = "chat/_citation.html" if request.htmx else "chat/citation.html"
    context = {"opened": opened, "citation": found, "score_percent": round(found.score * 100)}
    return render(request, template, context)


@require_GET
@tenant_page(Right.SEE_HOPS)
def details(request: TenantRequest, answer_id: uuid.UUID) -> HttpResponse:
    """Time, tokens and hops of one of one's own answers."""
    answer = selectors.get_answer(request.access, answer_id)
    if answer is None:
        raise Http404
    hops = hop_bars(hops_of(request.access.tenant.id, answer.id))
    asked = selectors.get_question(request.access, answer)
    labels = {model.alias: model.label for model in available_models()}
    model = labels.get(answer.model, answer.model)
    context = {
        "answer": answer,
        "hops": hops,
        "total_ms": selectors.total_ms_of(answer),
        "model": model,
        "searched_as": asked.searched_as if asked else "",
        "rewritten_by": _rewritten_by(hops),
    }
    return render(request, "chat/_details.html", context)


@require_POST
@tenant_page(Right.CHAT)
def give_feedback(request: TenantRequest, answer_id: uuid.UUID) -> HttpResponse:
    """Put a thumb on one of one's own answers, change it, comment on it, or take it back."""
    access = request.access
    answer = selectors.get_answer(access, answer_id)
    if answer is None:
        raise Http404
    try:
        _take_feedback(request, answer_id)
    except FeedbackRefused as exc:
        return HttpResponse(str(exc), status=400, content_type="text/plain; charset=utf-8")
    if not request.htmx:
        page = reverse("chat:conversation", args=[access.tenant.slug, answer.conversation_id])
        return redirect(f"{page}#answer-{answer_id}")
    given = selectors.get_feedback(access, answer)
    context = {"answer_id": answer_id, "feedback": given, "saved": True, **_FEEDBACK}
    return render(request, "chat/_feedback.html", context)


def _take_feedback(request: TenantRequest, answer_id: uuid.UUID) -> None:
    thumb = feedback.read_thumb(request.POST.get("thumb", ""))
    if thumb is None:
        feedback.withdraw_feedback(access=request.access, answer_id=answer_id)
        return
    feedback.give_feedback(
        access=request.access,
        answer_id=answer_id,
        thumb=thumb,
        comment=request.POST.get("comment"),
    )


def _rewritten_by(hops: list[HopBar]) -> str:
    """ "model" or "rule"; "" where the question was searched for as it was asked."""
    spans = [bar.span for bar in hops if bar.span.hop == "rewrite"]
    return next(
        (str(s.attributes.get("how", "")) for s in spans if s.attributes.get("changed")), ""
    )


@dataclass(frozen=True)
class HopBar:
    """A hop and its place on a time line of 1000 units."""

    span: Span
    start: int
    width: int


def hop_bars(spans: Iterable[Span]) -> list[HopBar]:
    """Lay hops out on one time line, from the first's start to the last's end."""
    spans = list(spans)
    if not spans:
        return []
    began = min(span.started_at for span in spans)
    offsets_ms = [(span.started_at - began).total_seconds() * 1000 for span in spans]
    whole_ms = max(at + span.work_ms for at, span in zip(offsets_ms, spans, strict=True)) or 1.0
    return [
        # At least 4 units wide, so that a short hop can be seen.
        HopBar(
            span,
            min(996, round(1000 * at / whole_ms)),
            max(4, round(1000 * span.work_ms / whole_ms)),
        )
        for at, span in zip(offsets_ms, spans, strict=True)
    ]


def _own(access: Access, conversation_id: uuid.UUID) -> Conversation:
    found = selectors.get_conversation(access, conversation_id)
    if found is None:
        raise Http404
    return found


def _chat_page(request: TenantRequest, current: Conversation | None) -> HttpResponse:
    access = request.access
    collections = list(collections_for(access))
    counts = counts_of(access.tenant.id, [each.id for each in collections])
    has_ready = any(count.ready for count in counts.values())
    picked = _picked(request, current, [each.id for each in collections])
    context: dict[str, Any] = {
        "conversations": selectors.conversations_of(access)[:LISTED_CONVERSATIONS],
        **_thread_context(access, current),
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


def _thread_context(access: Access, current: Conversation | None) -> dict[str, Any]:
    """The messages. One that is being written elsewhere is asked for again until it has ended."""
    thread = selectors.thread_of(access, current) if current else []
    return {
        "conversation": current,
        "thread": thread,
        "is_streaming": any(view.state == MessageState.STREAMING for view in thread),
        "nil": NIL,
        **_FEEDBACK,
    }


def _picked(
    request: TenantRequest, current: Conversation | None, open_ids: list[uuid.UUID]
) -> list[uuid.UUID]:
    """The collections ticked at first: the conversation's, the address's, or all."""
    wanted = current.collection_ids if current else request.GET.getlist("collection")
    return [each for each in open_ids if str(each) in wanted] or open_ids
