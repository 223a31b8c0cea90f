"""Search without an answer: the passages of a question, stage by stage, and marking them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from apps.documents.models import Chunk
from apps.documents.selectors import collections_for, kinds_in, tags_in
from apps.evals import services
from apps.evals.errors import EvalsError, PlaceGone, SetGone
from apps.evals.forms import SearchForm
from apps.evals.models import LabelledSet
from apps.evals.selectors import marks
from apps.evals.selectors.runs import get_set_for, sets_for
from apps.evals.services import Marked
from apps.retrieval.options import options_for
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Passage, Retrieval
from apps.telemetry.hops import Trace
from apps.telemetry.services import account_for
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope

PASSAGES_SHOWN = 20
GRADES = (
    (2, "Relevant", "answers the question"),
    (1, "Partly", "helps to answer it"),
    (0, "Not relevant", "looked at, and no answer"),
)
_NARROWING = {"collection", "collections", "kinds", "tags", "added_from", "added_to"}
_SESSION_KEY = "evals.set"
_KIND_NAMES = {
    "application/pdf": "PDF",
    "text/plain": "Plain text",
    "text/markdown": "Markdown",
    "text/html": "Web page",
    "text/csv": "CSV",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PowerPoint",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "Excel",
}


@dataclass
class _Marking:
    """Which set passages are marked into, for which question."""

    sets: list[LabelledSet]
    chosen: LabelledSet | None
    question: str
    problem: str = ""
    is_new: bool = False  # a new set is being named
    grades: dict[uuid.UUID, int] = field(default_factory=dict)  # by chunk
    unanswerable: bool = False
    labels: int = 0


@require_GET
@tenant_page(Right.READ)
def search(request: TenantRequest) -> HttpResponse:
    """The form alone."""
    _remember(request, request.GET.get("set", ""))
    picked = request.GET.get("collection", "")
    context = _context(request, _form(request, initial={"collections": [picked]}))
    return render(request, "evals/search.html", context)


@require_POST  # a question does not belong in an address, nor in a log of addresses
@tenant_page(Right.READ, scoped=False)
def search_results(request: TenantRequest) -> HttpResponse:
    """The passages that suit the question; to htmx, the passages alone."""
    return _searched(request)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def marking(request: TenantRequest) -> HttpResponse:
    """Choose the set that passages are marked into, or make one; all the marks follow."""
    _remember(request, request.POST.get("set", ""))
    if request.POST.get("set") != "new":
        return _marks(request, "")
    if request.htmx.trigger == "marking-set":
        # Its name may be half typed already: the panel with the field is left as it is.
        return _marks(request, "", panel=False)
    return _marks(request, _make_set(request))


@require_POST
@tenant_page(Right.MANAGE_CORPUS, scoped=False)
def mark(request: TenantRequest) -> HttpResponse:
    """Grade a passage for the question, take that back, or say that nothing answers it.

    `mark` is "<chunk>:<grade>", "<chunk>:" to take it back, "none:1" or "none:" for unanswerable.
    """
    with tenant_scope(request.access.tenant.id):
        problem = _mark(request)
        if request.htmx:
            return _marks(request, problem)
    return _searched(request, problem)


def _mark(request: TenantRequest) -> str:
    """What went wrong, in words; "" where nothing did."""
    chosen = _chosen(request)
    target, _, value = request.POST.get("mark", "").partition(":")
    question = request.POST.get("asked", "")
    if chosen is None:
        return "Choose the set to mark into first."
    if value not in {"", "0", "1", "2"}:
        return "There is no such grade."
    tenant = request.access.tenant
    try:
        if target == "none":
            services.mark_unanswerable(
                tenant=tenant, labelled_set=chosen, question=question, unanswerable=value == "1"
            )
            return ""
        services.mark_passage(
            tenant=tenant,
            labelled_set=chosen,
            user=request.access.user,
            question=question,
            passage=_marked(request, chosen, target),
            grade=int(value) if value else None,
        )
    except EvalsError as exc:
        return str(exc)
    return ""


def _marked(request: TenantRequest, chosen: LabelledSet, chunk_id: str) -> Marked:
    """The passage as it stands; a set takes those of its own collection. Raises PlaceGone."""
    chunk = marks.chunk_of(request.access, _uuid(chunk_id))
    if chunk is None:
        raise PlaceGone("This passage is no longer there. Search again.")
    if chunk.document.collection_id != chosen.collection_id:
        raise SetGone(f"“{chosen.name}” is of another collection than this passage.")
    return Marked(chunk.document_id, chunk.char_start, chunk.char_end)


def _make_set(request: TenantRequest) -> str:
    collections = collections_for(request.access)
    wanted = _uuid(request.POST.get("new_collection", ""))
    collection = collections.filter(id=wanted).first() if wanted else None
    if collection is None:
        return "Choose the collection that the new set is about."
    try:
        made = services.create_set(
            tenant=request.access.tenant,
            collection=collection,
            user=request.access.user,
            name=request.POST.get("new_set", ""),
            origin=LabelledSet.Origin.MARKED,
        )
    except EvalsError as exc:
        return str(exc)
    _remember(request, str(made.id))
    return ""


def _marks(request: TenantRequest, problem: str, *, panel: bool = True) -> HttpResponse:
    """All marks of the passages that are shown, each to its place; and the panel above them."""
    chunk_ids = [_uuid(each) for each in request.POST.getlist("chunk")[:PASSAGES_SHOWN]]
    chunks = marks.chunks_of(request.access, [each for each in chunk_ids if each])
    context = {
        "marking": _marking(request, chunks, request.POST.get("asked", ""), problem),
        "passages": chunks,
        "grades": GRADES,
        "collections": list(collections_for(request.access)),
        "panel": panel,
    }
    return render(request, "evals/_search_marks.html", context)


def _searched(request: TenantRequest, problem: str = "") -> HttpResponse:
    tenant_id = request.access.tenant.id
    with tenant_scope(tenant_id):
        _remember(request, request.POST.get("set", ""))
        form = _form(request, data=_asked_again(request) if problem or _is_mark(request) else None)
        is_valid = form.is_valid()
        open_ids = list(collections_for(request.access).values_list("id", flat=True))
        limit = options_for(tenant_id).not_found_below
    found: Retrieval | None = None
    # Measured for this page, and not stored.
    trace = Trace(tenant_id, "answer", source="evaluation", user_id=request.access.user.id)
    if is_valid:
        # Out of the scope: the models may be slow.
        picked = [each.id for each in form.cleaned_data["collections"]]
        trace.collection_ids = tuple(picked or open_ids)
        found = retrieve(
            tenant_id=tenant_id,
            question=form.cleaned_data["question"],
            collection_ids=picked or open_ids,
            narrowed=form.narrowed(),
            trace=trace,
            limit=PASSAGES_SHOWN,
        )
        account_for(trace)
    with tenant_scope(tenant_id):
        context = _context(request, form)
        if found is not None:
            context |= _found(request, form, found, problem)
            context |= {"hops": trace.hops, "limit": limit}
            best = max((each.relevance for each in found.passages), default=0.0)
            context["is_doubtful"] = best < limit
        template = "evals/_search_results.html" if request.htmx else "evals/search.html"
        return render(request, template, context)


def _found(
    request: TenantRequest, form: SearchForm, found: Retrieval, problem: str
) -> dict[str, Any]:
    question = form.cleaned_data["question"]
    documents = marks.documents_of(request.access, {each.document_id for each in found.passages})
    rows: list[dict[str, Any]] = [
        {"passage": each, "document": documents[each.document_id]}
        for each in found.passages
        if each.document_id in documents
    ]
    chunks = [_as_chunk(row["passage"], row["document"]) for row in rows]
    context: dict[str, Any] = {"found": found, "rows": rows, "asked": question, "grades": GRADES}
    if request.access.may_manage_corpus:
        context["marking"] = _marking(request, chunks, question, problem)
        for row, chunk in zip(rows, chunks, strict=True):
            row["chunk"] = chunk
    return context


def _as_chunk(passage: Passage, document: Any) -> Chunk:
    return Chunk(
        id=passage.chunk_id,
        document=document,
        char_start=passage.char_start,
        char_end=passage.char_end,
    )


def _marking(request: TenantRequest, chunks: list[Chunk], question: str, problem: str) -> _Marking:
    chosen = _chosen(request)
    found = _Marking(list(sets_for(request.access)), chosen, question, problem)
    found.is_new = chosen is None and request.session.get(_SESSION_KEY) == "new"
    if chosen is not None and question:
        standing = marks.marks_of(chosen, question, chunks)
        found.grades, found.unanswerable = standing.grades, standing.unanswerable
        found.labels = standing.labels
    for chunk in chunks:
        chunk.grade = found.grades.get(chunk.id)  # type: ignore[attr-defined]
        chunk.can_be_marked = (  # type: ignore[attr-defined]
            chosen is not None and chunk.document.collection_id == chosen.collection_id
        )
    return found


def _context(request: TenantRequest, form: SearchForm) -> dict[str, Any]:
    asked = [*request.POST.items(), *request.GET.items()]
    return {
        "form": form,
        "collections": list(form.fields["collections"].queryset),  # type: ignore[attr-defined]
        # What narrows a search is not hidden.
        "is_narrowed": any(value for name, value in asked if name in _NARROWING),
    }


def _form(request: TenantRequest, *, data: Any = None, initial: Any = None) -> SearchForm:
    collections = collections_for(request.access)
    tenant_id = request.access.tenant.id
    ids = list(collections.values_list("id", flat=True))
    kinds = [(kind, _KIND_NAMES.get(kind, kind)) for kind in kinds_in(tenant_id, ids)]
    given = data or (request.POST if request.method == "POST" else None)
    return SearchForm(
        given, initial=initial, collections=collections, kinds=kinds, tags=tags_in(tenant_id, ids)
    )


def _is_mark(request: HttpRequest) -> bool:
    return "mark" in request.POST


def _asked_again(request: HttpRequest) -> Any:
    """What was marked is of the question that was asked, whatever has been typed since."""
    data = request.POST.copy()
    data["question"] = data.get("asked", "")
    return data


def _remember(request: TenantRequest, set_id: str) -> None:
    """The set that was chosen last stays chosen, for this person in this session."""
    if set_id in {"none", "new"} or _uuid(set_id):
        request.session[_SESSION_KEY] = set_id


def _chosen(request: TenantRequest) -> LabelledSet | None:
    set_id = _uuid(request.POST.get("set", "")) or _uuid(request.session.get(_SESSION_KEY, ""))
    if set_id is None or not request.access.may(Right.MANAGE_CORPUS):
        return None
    return get_set_for(request.access, set_id)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
