"""Labelled sets: their list, making them by upload, and the questions of one."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.documents.models import Collection
from apps.documents.selectors import collections_for
from apps.evals import services
from apps.evals.errors import EvalsError
from apps.evals.formats import UPLOAD_MAX_BYTES, read_upload
from apps.evals.forms import QuestionForm, SetForm, UploadForm, initial_of
from apps.evals.importing import Plan, plan_import
from apps.evals.models import LabelledQuestion, LabelledSet
from apps.evals.places import text_between
from apps.evals.selectors import sets as selectors
from apps.evals.selectors.runs import sets_for
from apps.evals.views.lookups import find_question, find_set
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope

_FILTER_MAX_CHARS = 200
_LABEL_CHARS_SHOWN = 2000


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def set_list(request: TenantRequest) -> HttpResponse:
    """The labelled sets, with how many questions each has."""
    found = list(sets_for(request.access))
    counts = selectors.set_counts(request.access.tenant.id, [each.id for each in found])
    rows = [(each, counts[each.id]) for each in found]
    has_collections = bool(rows) or collections_for(request.access).exists()
    return render(request, "evals/sets.html", {"rows": rows, "has_collections": has_collections})


@require_http_methods(["GET", "POST"])
@tenant_page(Right.MANAGE_CORPUS, scoped=False)
def set_new(request: TenantRequest) -> HttpResponse:
    """Upload questions: looked at first, and taken once that is confirmed."""
    return _upload(request, None)


@require_http_methods(["GET", "POST"])
@tenant_page(Right.MANAGE_CORPUS, scoped=False)
def set_upload(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """Upload more questions into a set, or newer versions of those that it has."""
    with tenant_scope(request.access.tenant.id):
        found = find_set(request.access, set_id)
    return _upload(request, found)


def _upload(request: TenantRequest, labelled_set: LabelledSet | None) -> HttpResponse:
    """Out of a scope: reading and placing thousands of passages takes seconds."""
    context: dict[str, Any] = {"labelled_set": labelled_set, "most_mib": UPLOAD_MAX_BYTES // 2**20}
    status = 200
    with tenant_scope(request.access.tenant.id):
        context["form"] = form = _upload_form(request, labelled_set)
        is_valid = request.method == "POST" and form.is_valid()
    if request.method == "POST":
        status = 200 if is_valid or request.htmx else 422
    if is_valid:
        try:
            context["plan"] = plan = _plan(request, form)
            if request.POST.get("action") == "import" and plan.questions:
                return _imported(request, form, plan)
        except EvalsError as exc:
            form.add_error(None, str(exc))
    template = "evals/_upload_preview.html" if request.htmx else "evals/set_new.html"
    with tenant_scope(request.access.tenant.id):
        return render(request, template, context, status=status)


def _upload_form(request: TenantRequest, labelled_set: LabelledSet | None) -> UploadForm:
    collections = collections_for(request.access)
    data = request.POST.copy()
    if labelled_set is not None:
        data["name"], data["collection"] = labelled_set.name, str(labelled_set.collection_id)
    if request.method == "POST":
        return UploadForm(
            data, {"upload": request.FILES.getlist("upload")}, collections=collections
        )
    initial = {"collection": request.GET.get("collection", "")}
    return UploadForm(initial=initial, collections=collections)


def _plan(request: TenantRequest, form: UploadForm) -> Plan:
    tenant = request.access.tenant
    reading = read_upload(form.cleaned_data["upload"])
    with tenant_scope(tenant.id):
        known = LabelledSet.objects.filter(
            tenant=tenant,
            name=form.cleaned_data["name"],
            collection=form.cleaned_data["collection"],
        ).first()
    return plan_import(
        tenant=tenant,
        collection=form.cleaned_data["collection"],
        reading=reading,
        labelled_set=known,
    )


def _imported(request: TenantRequest, form: UploadForm, plan: Plan) -> HttpResponse:
    collection: Collection = form.cleaned_data["collection"]
    done = services.import_plan(
        tenant=request.access.tenant,
        collection=collection,
        user=request.access.user,
        name=form.cleaned_data["name"],
        plan=plan,
    )
    left = f" Problems: {plan.problems.total:,}." if plan.problems.total else ""
    messages.success(
        request, f"Imported: questions {done.questions:,}, labels {done.labels:,}.{left}"
    )
    address = reverse("evals:set", args=[request.access.tenant.slug, done.labelled_set.id])
    if request.htmx:
        return HttpResponse(headers={"HX-Redirect": address})
    return redirect(address)


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def labelled_set(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """A set with its questions; to htmx, the questions alone."""
    found = find_set(request.access, set_id)
    template = "evals/_questions.html" if request.htmx else "evals/set.html"
    return _set_page(request, found, template=template)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def edit_set(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """Rename a set, and switch its nightly run on or off."""
    found = find_set(request.access, set_id)
    form = SetForm(request.POST)
    if not form.is_valid():
        return _set_page(request, found, set_form=form, status=422)
    try:
        services.update_set(
            tenant=request.access.tenant,
            labelled_set=found,
            actor=request.access.user,
            **form.cleaned_data,
        )
    except EvalsError as exc:
        form.add_error("name", str(exc))
        return _set_page(request, found, set_form=form, status=422)
    messages.success(request, "Saved.")
    return _to_set(request, found)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def delete_set(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """Delete a set with its questions and runs; its name has to be typed."""
    found = find_set(request.access, set_id)
    if request.POST.get("confirm", "").strip() != found.name.strip():
        messages.error(request, "Nothing was deleted: the typed name is not the set's.")
        return _to_set(request, found)
    services.delete_set(tenant=request.access.tenant, labelled_set=found, actor=request.access.user)
    messages.success(request, f"“{found.name}” is deleted.")
    return redirect("evals:set_list", request.access.tenant.slug)


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def export_set(request: TenantRequest, set_id: uuid.UUID) -> HttpResponseBase:
    """The set as JSON lines, as an upload takes them."""
    found = find_set(request.access, set_id)
    body = "".join(f"{line}\n" for line in selectors.export_lines(found))
    return HttpResponse(
        body,
        content_type="application/jsonl; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="labelled-set-{found.id}.jsonl"',
            "X-Content-Type-Options": "nosniff",
        },
    )


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def add_question(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """A question by hand; its passages are marked on the search page."""
    found = find_set(request.access, set_id)
    form = QuestionForm(request.POST)
    if not form.is_valid():
        return _set_page(request, found, question_form=form, status=422)
    made = services.add_question(
        tenant=request.access.tenant, labelled_set=found, **form.cleaned_data
    )
    return redirect("evals:question", request.access.tenant.slug, found.id, made.id)


@require_http_methods(["GET", "POST"])
@tenant_page(Right.MANAGE_CORPUS)
def question(request: TenantRequest, set_id: uuid.UUID, question_id: uuid.UUID) -> HttpResponse:
    """One question with its labels, to read and to change."""
    found, row = find_question(request.access, set_id, question_id)
    form = QuestionForm(request.POST if request.method == "POST" else None, initial=initial_of(row))
    status = 200
    if request.method == "POST":
        if form.is_valid() and _saved(request, row, form):
            messages.success(request, "Saved.")
            return redirect("evals:question", request.access.tenant.slug, found.id, row.id)
        status = 422
    context = {"labelled_set": found, "question": row, "form": form, "labels": _labels(row)}
    return render(request, "evals/question.html", context, status=status)


def _saved(request: TenantRequest, row: LabelledQuestion, form: QuestionForm) -> bool:
    try:
        services.update_question(tenant=request.access.tenant, question=row, **form.cleaned_data)
    except EvalsError as exc:
        form.add_error(None, str(exc))
        return False
    return True


def _labels(row: LabelledQuestion) -> list[dict[str, Any]]:
    """Labels with the text they point at."""
    labels = list(selectors.labels_of(row.tenant_id, [row.id]))
    places = {
        each.id: (
            each.document_id,
            each.char_start,
            min(each.char_end, each.char_start + _LABEL_CHARS_SHOWN),
        )
        for each in labels
        if each.char_start is not None and each.char_end is not None
    }
    texts = text_between(row.tenant_id, places.values())
    return [
        {"label": each, "text": texts.get(places[each.id], "") if each.id in places else ""}
        for each in labels
    ]


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def delete_question(
    request: TenantRequest, set_id: uuid.UUID, question_id: uuid.UUID
) -> HttpResponse:
    """Delete a question with its labels."""
    found, row = find_question(request.access, set_id, question_id)
    services.delete_question(tenant=request.access.tenant, question=row)
    messages.success(request, "The question is deleted.")
    return _to_set(request, found)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def delete_label(
    request: TenantRequest, set_id: uuid.UUID, question_id: uuid.UUID, label_id: int
) -> HttpResponse:
    """Take a label of a question away."""
    found, row = find_question(request.access, set_id, question_id)
    services.delete_label(tenant=request.access.tenant, question=row, label_id=label_id)
    return redirect("evals:question", request.access.tenant.slug, found.id, row.id)


def _set_page(
    request: TenantRequest,
    found: LabelledSet,
    *,
    template: str = "evals/set.html",
    status: int = 200,
    **forms: Any,
) -> HttpResponse:
    wanted = selectors.Wanted(
        words=request.GET.get("q", "")[:_FILTER_MAX_CHARS],
        slice=request.GET.get("slice", "")[:_FILTER_MAX_CHARS],
        kind=request.GET.get("kind", "")[:_FILTER_MAX_CHARS],
    )
    given = {"q": wanted.words, "slice": wanted.slice, "kind": wanted.kind}
    context = {
        "labelled_set": found,
        "counts": selectors.set_counts(found.tenant_id, [found.id])[found.id],
        "page": selectors.questions_page(found, wanted, after=request.GET.get("after", "")),
        "wanted": wanted,
        "query": urlencode({name: value for name, value in given.items() if value}),
        "slices": selectors.slices_of_set(found),
        "kinds": selectors.KINDS,
        "set_form": SetForm(initial={"name": found.name, "nightly": found.nightly}),
        "question_form": QuestionForm(),
        **forms,
    }
    return render(request, template, context, status=status)


def _to_set(request: TenantRequest, found: LabelledSet) -> HttpResponse:
    return redirect("evals:set", request.access.tenant.slug, found.id)
