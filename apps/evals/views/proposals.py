"""Reviewing thumbs of the chat: each becomes a labelled question, or is dismissed."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.chat.feedback import reasons_in_words
from apps.chat.selectors import reasons_given
from apps.documents.models import Collection
from apps.documents.selectors import collections_for
from apps.evals import services
from apps.evals.errors import EvalsError, QuestionRefused
from apps.evals.models import LabelledSet, Proposal
from apps.evals.selectors import proposals as selectors
from apps.evals.selectors.proposals import ProposedPassage
from apps.evals.selectors.runs import get_set_for
from apps.evals.services import Marked
from apps.tenants.access import Right, TenantRequest, tenant_page

GRADES = ((2, "Relevant"), (1, "Partly"), (0, "Not relevant"))


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def proposals(request: TenantRequest) -> HttpResponse:
    """What waits to be reviewed, or what was."""
    tenant = request.access.tenant
    waiting = services.collect_proposals(tenant=tenant)
    asked = request.GET.get("state", "")
    state = asked if asked in Proposal.State.values else Proposal.State.WAITING
    rows = Paginator(selectors.proposals(tenant.id, state), selectors.PROPOSALS_SHOWN)
    page = rows.get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": [_row(request, each) for each in page],
        "state": state,
        "states": Proposal.State.choices,
        "waiting": waiting,
        "grades": GRADES,
    }
    return render(request, "evals/proposals.html", context)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def review(request: TenantRequest, proposal_id: uuid.UUID) -> HttpResponse:
    """`action`: "take", "dismiss" or "reopen". To htmx, the proposal as it stands then."""
    proposal = selectors.get_proposal(request.access.tenant.id, proposal_id)
    if proposal is None:
        raise Http404
    problem = ""
    try:
        _review(request, proposal)
    except EvalsError as exc:
        problem = str(exc)
    if request.htmx:
        proposal.refresh_from_db()
        context = {**_row(request, proposal), "problem": problem, "grades": GRADES}
        return render(request, "evals/_proposal.html", context)
    if problem:
        messages.error(request, problem)
    return redirect("evals:proposals", request.access.tenant.slug)


def _review(request: TenantRequest, proposal: Proposal) -> None:
    action = request.POST.get("action")
    tenant, user = request.access.tenant, request.access.user
    if action == "dismiss":
        services.dismiss_proposal(tenant=tenant, proposal=proposal, user=user)
    elif action == "reopen":
        services.reopen_proposal(tenant=tenant, proposal=proposal, user=user)
    elif action == "take":
        _take(request, proposal)
    else:
        raise QuestionRefused("Say whether to take it or to dismiss it.")


def _take(request: TenantRequest, proposal: Proposal) -> None:
    passages = selectors.passages_of(request.access, proposal)
    collection, labelled_set = _target(request)
    graded = _graded(request, passages, collection)
    unanswerable = request.POST.get("unanswerable") == "on"
    if not graded and not unanswerable:
        raise QuestionRefused(
            f"Say of a passage of “{collection.name}” whether it is relevant, or that the "
            "documents do not answer the question."
        )
    services.take_proposal(
        tenant=request.access.tenant,
        proposal=proposal,
        labelled_set=labelled_set or _new_set(request, collection),
        user=request.access.user,
        question=request.POST.get("question", proposal.question),
        grades=graded,
        unanswerable=unanswerable,
    )


def _target(request: TenantRequest) -> tuple[Collection, LabelledSet | None]:
    """The set that was chosen, or the collection that a new one is about.

    Raises QuestionRefused where there is neither.
    """
    if not request.POST.get("new_set", "").strip():
        set_id = _uuid(request.POST.get("set", ""))
        found = get_set_for(request.access, set_id) if set_id else None
        if found is None:
            raise QuestionRefused("Choose the set that the question is to go into, or name one.")
        return found.collection, found
    wanted = _uuid(request.POST.get("new_collection", ""))
    collection = collections_for(request.access).filter(id=wanted).first() if wanted else None
    if collection is None:
        raise QuestionRefused("Choose the collection that the new set is about.")
    return collection, None


def _new_set(request: TenantRequest, collection: Collection) -> LabelledSet:
    return services.create_set(
        tenant=request.access.tenant,
        collection=collection,
        user=request.access.user,
        name=request.POST.get("new_set", ""),
        origin=LabelledSet.Origin.FEEDBACK,
    )


def _graded(
    request: TenantRequest, passages: list[ProposedPassage], collection: Collection
) -> list[tuple[Marked, int]]:
    """Those of the collection that were graded; of two with the same place, the better."""
    grades: dict[Marked, int] = {}
    for each in passages:
        value = request.POST.get(f"grade-{each.marker}", "")
        if value in {"0", "1", "2"} and each.place and each.collection_id == collection.id:
            grades[each.place] = max(int(value), grades.get(each.place, 0))
    return list(grades.items())


def _row(request: TenantRequest, proposal: Proposal) -> dict[str, Any]:
    passages = selectors.passages_of(request.access, proposal)
    collections = selectors.collections_of(request.access, passages)
    return {
        "proposal": proposal,
        "passages": passages,
        "reasons": reasons_in_words(reasons_given(proposal.tenant_id, proposal.answer_id)),
        "sets": selectors.sets_of(request.access, collections),
        "collections": collections,
    }


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
