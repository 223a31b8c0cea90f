"""The page that plans retrieval."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.capacity.retrieval_planning.charting import latency_chart
from apps.capacity.retrieval_planning.deciding import decide
from apps.capacity.retrieval_planning.forms import RetrievalForm
from apps.capacity.retrieval_planning.measured import curves_of, measured_dimensions
from apps.capacity.retrieval_planning.planning import Plan, make_plan
from apps.capacity.retrieval_planning.stored import stored_bytes
from apps.telemetry.access import ops_page


@require_GET
@ops_page
def plan_retrieval(request: HttpRequest) -> HttpResponse:
    """Bytes by formula, time by measurement, and whether one PostgreSQL keeps the promise."""
    form = RetrievalForm(request.GET.dict(), stored=stored_bytes())
    context: dict[str, object] = {"form": form, "measured_dimensions": measured_dimensions()}
    if form.is_valid():
        wish = form.wish()
        curves = curves_of(wish.dimensions, wish.ef_search)
        plan = make_plan(wish, curves)
        context |= {
            "plan": plan,
            "curves": curves,
            "chart": latency_chart(plan, curves) if curves else None,
            "decision": decide(plan),
            "points": (*curves.exact, *curves.hnsw) if curves else (),
            "latency_words": _band_words(plan),
        }
    context["is_part"] = bool(request.htmx)  # type: ignore[attr-defined]
    template = "capacity/_retrieval.html" if context["is_part"] else "capacity/retrieval.html"
    return render(request, template, context)


def _band_words(plan: Plan) -> str:
    latency = plan.latency
    if latency is None:
        return ""
    return (
        f"Between {latency.low_ms:.3g} and {latency.high_ms:.3g} ms by the line's 95 % band, "
        "each asked alone."
    )
