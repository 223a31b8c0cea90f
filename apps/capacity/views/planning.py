"""The planner: a model on GPUs in six steps. Its address is the plan."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from apps.capacity.catalogue.selectors import chips, shapes
from apps.capacity.errors import PlanInvalid
from apps.capacity.planning.charting import batch_chart
from apps.capacity.planning.forms import OWN, PlanForm
from apps.capacity.planning.knees import knees_of
from apps.capacity.planning.ledger import LedgerDemand, read_demand
from apps.capacity.planning.plan import Plan, make_plan
from apps.capacity.planning.presets import DEFAULTS, PRESETS
from apps.capacity.planning.wording import words_of
from apps.telemetry.access import ops_page
from apps.tenants.models import Tenant

# Offered while one types; others can be typed all the same.
_TENANTS_OFFERED = 200
_PRICES_SHOWN = 3


@require_GET
@ops_page
@vary_on_headers("HX-Request")
def plan(request: HttpRequest) -> HttpResponse:
    """The form and the plan that the address holds; to htmx, the plan alone."""
    typed = {name: request.GET[name] for name in DEFAULTS if name in request.GET}
    form = PlanForm({**DEFAULTS, **typed}, shapes=shapes(), chips=chips())
    found, planned = (None, None) if not typed else _compute(form)
    context = {
        "form": form,
        "plan": planned,
        "is_begin": not typed,
        "presets": PRESETS,
        "currency": settings.CURRENCY,
        "open_groups": _open_groups(form),
        **_of_ledger(form, found),
        **({**_beside(typed, planned), **words_of(planned)} if planned else {}),
    }
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "capacity/_plan.html", {**context, "is_part": True})
    context["tenants"] = Tenant.objects.order_by("slug").values_list("slug", "name")[
        :_TENANTS_OFFERED
    ]
    return render(request, "capacity/plan.html", context)


def _compute(form: PlanForm) -> tuple[LedgerDemand | None, Plan | None]:
    """The ledger's demand, where it was asked for, and the plan; what cannot be is the form's."""
    if not form.is_valid():
        return None, None
    found = None
    if form.uses_ledger:
        tenant = form.cleaned_data["tenant"]
        found = read_demand(tenant and tenant.id, int(form.cleaned_data["days"]))
        if found is None:
            form.add_error(
                "source", "No answer was written in these days. Choose more days, or type figures."
            )
            return None, None
    try:
        return found, make_plan(form.plan_inputs(found))
    except PlanInvalid as exc:
        form.add_error(None, str(exc))
        return None, None


def _open_groups(form: PlanForm) -> set[str]:
    """What most people fill in, and whatever holds a mistake."""
    always = {"model", "demand", "promises"} | ({"own"} if form["gpu"].value() == OWN else set())
    return always | {key for key, _, fields in form.groups if any(f.errors for f in fields)}


def _of_ledger(form: PlanForm, found: LedgerDemand | None) -> dict[str, Any]:
    if found is None:
        return {}
    tenant = form.cleaned_data["tenant"]
    return {"ledger": found, "ledger_of": tenant.name if tenant else "all organisations"}


def _beside(typed: dict[str, str], planned: Plan) -> dict[str, Any]:
    """What a page shows beside a plan, and addresses of it with something changed."""

    def changed(changes: dict[str, str]) -> str:
        return urlencode({**DEFAULTS, **typed, **changes})

    demand, own = planned.inputs.demand, planned.money.own if planned.money else []
    fixed = {
        "source": "typed",
        "growth": "1",
        "prompt_mean": f"{demand.prompt.mean:.0f}",
        "prompt_p95": f"{demand.prompt.p95:.0f}",
        "output_mean": f"{demand.output.mean:.0f}",
        "output_p95": f"{demand.output.p95:.0f}",
        "peak_per_s": f"{demand.peak_per_s:.6f}",
        "a_day": f"{demand.a_day:.1f}",
        "reuse": f"{100 * demand.prefix_reuse:.1f}",
    }
    return {
        "measured": knees_of(planned.inputs.shape.name),
        "own_first": own[:_PRICES_SHOWN],
        "own_others": own[_PRICES_SHOWN:],
        "chart": batch_chart(planned.phases.rows),
        "fixed_query": changed(fixed),
        "remedies": [(each.words, changed(each.change)) for each in planned.sizing.remedies],
        "rungs": [
            (rung, changed(rung.change) if rung.change else "") for rung in planned.ladder.rungs
        ],
    }
