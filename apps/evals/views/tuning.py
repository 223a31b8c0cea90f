"""The curve page: measuring recall against latency, applying what is proposed, going back."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.evals.models import TuneRun
from apps.evals.tuning.applying import apply_curve, curves_of, get_curve
from apps.evals.tuning.builds import NotReady
from apps.evals.tuning.charting import depth_chart, recall_chart
from apps.evals.tuning.errors import TuningError
from apps.evals.tuning.forms import TuneForm
from apps.evals.tuning.jobs import UNFINISHED, cancel_curve, start_curve
from apps.evals.tuning.measuring import survey
from apps.evals.tuning.proposing import EXACT, PIPELINE, RULE, VECTORS
from apps.evals.tuning.wording import changes_of, failure_of, label_of, questions_of, verdict_of
from apps.retrieval.ann import AnnState, ann_states
from apps.retrieval.errors import RetrievalError
from apps.retrieval.models import AnnIndex, SearchProfile
from apps.retrieval.options import options_for
from apps.retrieval.profiles import profiles_of, restore_profile, restore_settings
from apps.tenants.access import Right, TenantRequest, tenant_page

PROFILES_SHOWN = 50
BUILT_BY = ("storage", "m", "ef_construction")  # what makes another HNSW index


@require_http_methods(["GET", "POST"])
@tenant_page(Right.MANAGE_CORPUS)
def tuning(request: TenantRequest) -> HttpResponse:
    """How the tenant is searched, the curves there are, and the form that starts another."""
    tenant = request.access.tenant
    form = TuneForm(request.POST or None, in_force=options_for(tenant.id))
    if request.method == "POST" and form.is_valid():
        try:
            curve = start_curve(
                tenant=tenant,
                user=request.access.user,
                goal=form.cleaned_data["goal"],
                k=form.cleaned_data["k"],
                grid=form.cleaned_data["grid"],
            )
        except TuningError as exc:
            form.add_error(None, str(exc))
        else:
            return redirect("evals:curve", tenant.slug, curve.id)
    return render(request, "evals/tuning.html", _overview(request, form))


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def curve(request: TenantRequest, curve_id: uuid.UUID) -> HttpResponse:
    """One curve: its progress while it is measured, then chart, table and proposal."""
    found = _find(request, curve_id)
    return render(request, "evals/curve.html", _shown(found))


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def curve_state(request: TenantRequest, curve_id: uuid.UUID) -> HttpResponse:
    """How far it is; asks for the whole page once it has ended."""
    found = _find(request, curve_id)
    response = render(request, "evals/_curve_state.html", _shown(found))
    if found.state not in UNFINISHED:
        response["HX-Refresh"] = "true"
    return response


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def stop_curve(request: TenantRequest, curve_id: uuid.UUID) -> HttpResponse:
    """Cancel a curve that has not ended."""
    found = _find(request, curve_id)
    access = request.access
    cancel_curve(tenant=access.tenant, user=access.user, curve_id=found.id)
    return redirect("evals:curve", access.tenant.slug, found.id)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def use_curve(request: TenantRequest, curve_id: uuid.UUID) -> HttpResponse:
    """Search as the curve proposes, or as the posted point of it."""
    found = _find(request, curve_id)
    access = request.access
    point = _place(request.POST["point"]) if "point" in request.POST else None
    try:
        apply_curve(tenant=access.tenant, user=access.user, curve=found, point=point)
    except (TuningError, RetrievalError) as exc:
        messages.error(request, str(exc))
        return redirect("evals:curve", access.tenant.slug, found.id)
    messages.success(request, "In force now. What was in force before is kept below.")
    return redirect("evals:tuning", access.tenant.slug)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def use_profile(request: TenantRequest, profile_id: uuid.UUID) -> HttpResponse:
    """Search again as an earlier profile says."""
    access = request.access
    try:
        restore_profile(tenant=access.tenant, user=access.user, profile_id=profile_id)
    except RetrievalError as exc:
        raise Http404 from exc
    messages.success(request, "Restored. What was in force before is kept below.")
    return redirect("evals:tuning", access.tenant.slug)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def use_settings(request: TenantRequest) -> HttpResponse:
    """Search as the site's settings say."""
    access = request.access
    restore_settings(tenant=access.tenant, user=access.user)
    messages.success(request, "The site's settings are in force. Earlier profiles are kept below.")
    return redirect("evals:tuning", access.tenant.slug)


def _find(request: TenantRequest, curve_id: uuid.UUID) -> TuneRun:
    found = get_curve(request.access.tenant.id, curve_id)
    if found is None:
        raise Http404
    return found


def _place(words: str) -> int:
    """A place in the points; -1, which no point has, for what is none."""
    return int(words) if words.isascii() and words.isdigit() and len(words) < 5 else -1


def _overview(request: TenantRequest, form: TuneForm) -> dict[str, Any]:
    tenant_id = request.access.tenant.id
    ground = survey(tenant_id)
    profiles = profiles_of(tenant_id, most=PROFILES_SHOWN)
    curves = curves_of(tenant_id)
    return {
        "form": form,
        "in_force": options_for(tenant_id),
        "active": next((profile for profile in profiles if profile.active), None),
        "ground": ground,
        "anns": ann_states(tenant_id),
        "curves": curves,
        "curve_ids": {each.id for each in curves},
        "profiles": profiles,
        "unfinished": UNFINISHED,
    }


def _building(curve: TuneRun) -> list[AnnState]:
    """The HNSW indexes that an unfinished curve waits for."""
    if curve.error_code != NotReady.code or curve.state not in UNFINISHED:
        return []
    return [
        each
        for each in ann_states(curve.tenant_id)
        if each.ann.index_id == curve.index_id and each.ann.state == AnnIndex.State.BUILDING
    ]


def _shown(curve: TuneRun) -> dict[str, Any]:
    """Tables hold each point with its place, by which it is applied."""
    points = [(n, label_of(point), point) for n, point in enumerate(curve.points)]
    measured = [row for row in points if "p95_ms" in row[2]]
    parts = [curve.proposal.get(part, {}) for part in (VECTORS, PIPELINE)]
    chosen = {part.get("point") for part in parts if part.get("verdict") != "in_force"}
    return {
        "curve": curve,
        "unfinished": curve.state in UNFINISHED,
        "failure": failure_of(curve),
        "building": _building(curve),
        "questions": questions_of(curve),
        "verdict": verdict_of(curve),
        "changes": changes_of(curve),
        "needs_index": bool(set(BUILT_BY) & set(curve.proposal.get("changes", {}))),
        "rule": RULE,
        "chosen": chosen,
        "vectors": [row for row in measured if row[2]["kind"] in (EXACT, VECTORS)],
        "depths": [row for row in measured if row[2]["kind"] == PIPELINE],
        "chart": recall_chart(curve.points, goal=curve.recall_goal, k=curve.k),
        "depth_chart": depth_chart(curve.points),
        "active": SearchProfile.objects.filter(tenant_id=curve.tenant_id, active=True).first(),
    }
