"""One run: how it goes, what came out, and each question in it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.evals.claims import UNFINISHED
from apps.evals.metrics import METRICS
from apps.evals.models import EvalRun, RunQuestion
from apps.evals.running import cancel_run
from apps.evals.selectors import figures, runs
from apps.evals.selectors.rankings import read_question
from apps.retrieval.errors import RetrievalError
from apps.retrieval.options import options_for
from apps.retrieval.profiles import apply_profile
from apps.tenants.access import Access, Right, TenantRequest, tenant_page

QUESTIONS_A_PAGE = 50


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def run(request: TenantRequest, run_id: uuid.UUID) -> HttpResponse:
    """A run: progress while it works, then its tables, curve and questions."""
    found = find_run(request.access, run_id)
    context = {"run": found, "unfinished": found.state in UNFINISHED}
    if found.state == EvalRun.State.DONE:
        context |= _figures(found) | _questions(request, found)
    return render(request, "evals/run.html", context)


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def run_state(request: TenantRequest, run_id: uuid.UUID) -> HttpResponse:
    """How far it is; asks for the whole page once it has ended."""
    found = find_run(request.access, run_id)
    unfinished = found.state in UNFINISHED
    context = {"run": found, "unfinished": unfinished}
    response = render(request, "evals/_run_state.html", context)
    if not unfinished:
        response["HX-Refresh"] = "true"
    return response


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def run_questions(request: TenantRequest, run_id: uuid.UUID) -> HttpResponse:
    """The list of a run's questions, narrowed and ordered as asked."""
    found = find_run(request.access, run_id)
    context = {"run": found, **_questions(request, found)}
    return render(request, "evals/_run_questions.html", context)


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def run_question(request: TenantRequest, run_id: uuid.UUID, question_id: uuid.UUID) -> HttpResponse:
    """One question: its labels, and what each stage of the run put where."""
    found = find_run(request.access, run_id)
    result = find_result(found, question_id)
    context = {"run": found, "shown": read_question(request.access, found, result)}
    return render(request, "evals/run_question.html", context)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def stop_run(request: TenantRequest, run_id: uuid.UUID) -> HttpResponse:
    """Cancel a run that has not ended; what it found stays until the set goes."""
    found = find_run(request.access, run_id)
    cancel_run(tenant=request.access.tenant, run_id=found.id)
    return redirect("evals:run", request.access.tenant.slug, found.id)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def use_limit(request: TenantRequest, run_id: uuid.UUID) -> HttpResponse:
    """Answer "not in your documents" below the chosen limit from now on."""
    found = find_run(request.access, run_id)
    access = request.access
    try:
        limit = float(request.POST.get("limit", ""))
        apply_profile(
            tenant=access.tenant,
            user=access.user,
            origin="manual",
            changes={"not_found_below": limit},
            evidence_id=found.id,
        )
    except ValueError:
        messages.error(request, "Choose a limit between 0 and 1.")
    except RetrievalError as exc:
        messages.error(request, str(exc))
    else:
        messages.success(request, f"Questions are refused below {limit:.2f} from now on.")
    return redirect("evals:run", access.tenant.slug, found.id)


def find_run(access: Access, run_id: uuid.UUID) -> EvalRun:
    """The run, or 404."""
    found = runs.get_run_for(access, run_id)
    if found is None:
        raise Http404
    return found


def find_result(found: EvalRun, question_id: uuid.UUID) -> RunQuestion:
    """What the run found for the question, or 404."""
    result = runs.get_result(found, question_id)
    if result is None:
        raise Http404
    return result


def _figures(found: EvalRun) -> dict[str, Any]:
    in_force = options_for(found.tenant_id).not_found_below
    curve = figures.refusals(found.figures)
    return {
        "metrics": METRICS,
        "headlines": figures.headlines(found.figures),
        "stages": figures.stage_rows(found.figures),
        "slices": figures.slice_rows(found.figures),
        "hops": figures.hop_rows(found.figures),
        "missed": figures.missed(found.figures),
        "rows": found.figures.get("rows"),
        "degraded": sorted(found.figures.get("degraded", {}).items()),
        "refusals": figures.refusals_to_choose(curve, in_force),
        "refusal_chart": figures.refusal_chart(curve, in_force),
        "suggested_limit": figures.suggested_limit(curve, in_force),
        "limit_in_force": in_force,
        "earlier_limit": runs.earlier_limit(found.tenant_id),
        "configuration": runs.settings_of(found),
        "others": runs.others_to_compare(found),
    }


@dataclass(frozen=True)
class ResultRow:
    """A line of the list of questions."""

    result: RunQuestion
    outcome: str
    value: float | None
    first_rank: int | None


def _questions(request: TenantRequest, found: EvalRun) -> dict[str, Any]:
    wanted = _wanted(request)
    # The lists of passages are long, and not shown here.
    results = runs.results_of(found, wanted).defer("ranked", "hops")
    page = Paginator(results, QUESTIONS_A_PAGE).get_page(request.GET.get("page"))
    return {
        "wanted": wanted,
        "page": page,
        "result_rows": [_row(found, each, wanted.metric) for each in page],
        "all_metrics": METRICS,
        "slice_names": sorted(found.figures.get("slices", {})),
        "outcomes": runs.OUTCOMES.items(),
    }


def _wanted(request: TenantRequest) -> runs.WantedResults:
    metric, outcome = request.GET.get("metric", ""), request.GET.get("outcome", "")
    return runs.WantedResults(
        metric=metric if metric in METRICS else runs.WantedResults.metric,
        slice=request.GET.get("slice", "").replace("\0", ""),
        outcome=outcome if outcome in runs.OUTCOMES else "",
    )


def _row(found: EvalRun, result: RunQuestion, metric: str) -> ResultRow:
    final = result.metrics.get(runs.last_stage(found), {})
    outcome = runs.OUTCOMES[runs.outcome_of(found, result)]
    return ResultRow(result, outcome, final.get(metric), final.get("first_rank"))
