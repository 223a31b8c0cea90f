"""What one opens on an answer, and what one says about it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import cast

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from apps.chat import feedback, selectors
from apps.chat.errors import FeedbackRefused
from apps.chat.neighbours import Place, Way, read_on
from apps.chat.pipeline.types import read_sentence
from apps.chat.rendering import copy_answer
from apps.chat.sources import open_citation, preview_citation
from apps.gateway.service import available_models
from apps.telemetry.models import Span
from apps.telemetry.selectors import hops_of
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.money import format_money


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
@tenant_page(Right.CHAT, scoped=False)
def preview(request: TenantRequest, citation_id: uuid.UUID) -> HttpResponse:
    """A source of an answer in a few words, for the box beside its number."""
    opened = preview_citation(request.access, citation_id)
    if opened is None:
        raise Http404
    context = {"opened": opened, "citation": opened.citation}
    return render(request, "chat/_preview.html", context)


@require_GET
@tenant_page(Right.CHAT, scoped=False)
def around(request: TenantRequest, citation_id: uuid.UUID) -> HttpResponse:
    """The text next to what is shown of a source: `way` "before" or "after" `at` on `page`.

    Without them, how its document begins.
    """
    way = request.GET.get("way", "after")
    if way not in ("before", "after"):
        raise Http404
    place = Place(_number(request, "page", 1), _number(request, "at", 0))
    stretch = read_on(request.access, citation_id, place, cast("Way", way))
    if stretch is None:
        raise Http404
    context = {"stretch": stretch, "way": way, "citation_id": citation_id}
    return render(request, "chat/_around.html", context)


def _number(request: TenantRequest, name: str, default: int) -> int:
    value = request.GET.get(name, str(default))
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise Http404
    return int(value)


@require_GET
@tenant_page(Right.CHAT)
def copy(request: TenantRequest, answer_id: uuid.UUID) -> HttpResponse:
    """An answer for the clipboard, with its citations unless `citations=no`."""
    answer = selectors.get_answer(request.access, answer_id)
    if answer is None:
        raise Http404
    sources = selectors.cited_sources(request.access, answer)
    shown = [] if request.GET.get("citations") == "no" else sources
    sentences = [read_sentence(each) for each in answer.support]
    return JsonResponse(asdict(copy_answer(answer.text, sentences, shown)))


@require_GET
@tenant_page(Right.CHAT)
def details(request: TenantRequest, answer_id: uuid.UUID) -> HttpResponse:
    """Time, model, tokens and cost of one of one's own answers; its hops for who may see them."""
    access = request.access
    answer = selectors.get_answer(access, answer_id)
    if answer is None:
        raise Http404
    hops = hop_bars(hops_of(access.tenant.id, answer.id)) if access.may_see_hops else []
    asked = selectors.get_question(request.access, answer)
    labels = {model.alias: model.label for model in available_models()}
    model = labels.get(answer.model, answer.model)
    context = {
        "answer": answer,
        "hops": hops,
        "total_ms": selectors.total_ms_of(answer),
        "model": model,
        "cost": None if answer.cost_micros is None else format_money(answer.cost_micros),
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
    context = {
        "answer_id": answer_id,
        "feedback": given,
        "saved": True,
        "comment_max_chars": feedback.COMMENT_CHARS,
    }
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
        reasons=request.POST.getlist("reason") if "comment" in request.POST else None,
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
