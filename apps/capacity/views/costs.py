"""What tokens cost on a measured machine, the memo of it, and its price in the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_GET, require_http_methods

from apps.capacity.economics.amortising import FORMULA
from apps.capacity.economics.charting import month_chart
from apps.capacity.economics.choices import SHARES, Choices
from apps.capacity.economics.costing import Costs, compute
from apps.capacity.economics.forms import CostsForm, currency_note, test_id_of
from apps.capacity.economics.markdown import memo_markdown
from apps.capacity.economics.measured import Measured
from apps.capacity.economics.memo import write_memo
from apps.capacity.economics.rates import cost_per_mtok
from apps.capacity.economics.selectors import OLD_DAYS, read_measured, tests_with_a_knee
from apps.capacity.economics.services import measured_price, set_measured_price, upstream_names
from apps.capacity.errors import PlanInvalid
from apps.telemetry.access import ops_page


@dataclass(frozen=True)
class Asked:
    """The form as it was sent, and what came of it."""

    form: CostsForm
    measured: Measured | None
    costs: Costs | None
    query: str


@require_GET
@ops_page
def costs(request: HttpRequest) -> HttpResponse:
    """Tables, chart and form."""
    asked = _asked(request.GET)
    context: dict[str, Any] = {
        "form": asked.form,
        "measured": asked.measured,
        "costs": asked.costs,
        "query": asked.query,
        "currency": settings.CURRENCY,
        "currency_note": currency_note(),
        "old_days": OLD_DAYS,
        "today": timezone.now().date(),
        "amortising": FORMULA,
    }
    if asked.costs:
        context["month"] = month_chart(asked.costs)
    return render(request, "capacity/costs.html", context)


@require_GET
@ops_page
def memo(request: HttpRequest) -> HttpResponse:
    """One page to print."""
    asked = _asked(request.GET)
    context: dict[str, Any] = {"query": asked.query, "currency": settings.CURRENCY}
    if asked.costs:
        context["memo"] = write_memo(asked.costs, today=timezone.now().date())
    return render(request, "capacity/memo.html", context)


@require_GET
@ops_page
def memo_as_markdown(request: HttpRequest) -> HttpResponse:
    """The same as Markdown; 404 where there is nothing to write of."""
    asked = _asked(request.GET)
    if asked.costs is None:
        raise Http404
    today = timezone.now().date()
    text = memo_markdown(write_memo(asked.costs, today=today))
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="cost-memo-{today}.md"'
    patch_cache_control(response, private=True, no_store=True)
    return response


@require_http_methods(["GET", "POST"])
@ops_page
def set_price(request: HttpRequest) -> HttpResponse:
    """Shows what would be set, and sets it when that is confirmed."""
    asked = _asked(request.GET)
    if asked.costs is None:
        return redirect("capacity:costs")
    choices = asked.costs.choices
    chosen = request.POST if request.method == "POST" else request.GET
    share = _share(chosen.get("share", ""), choices)
    try:
        price = measured_price(choices.measured, choices.hour, share)
        if request.method == "POST":
            return _set(request, asked, price)
    except PlanInvalid as exc:
        messages.error(request, str(exc))
        return redirect(f"{reverse('capacity:costs')}?{asked.query}")
    context = {
        "costs": asked.costs,
        "price": price,
        "hour": choices.hour,
        "read_micros": cost_per_mtok(choices.hour.micros, price.input_tokens_per_s),
        "written_micros": cost_per_mtok(choices.hour.micros, price.output_tokens_per_s),
        "share": share,
        "shares": sorted({*SHARES, choices.busy}, reverse=True),
        "upstreams": upstream_names(),
        "query": asked.query,
        "kept": [(name, value) for name, value in request.GET.items() if name != "share"],
    }
    return render(request, "capacity/cost_price.html", context)


def _set(request: HttpRequest, asked: Asked, price: Any) -> HttpResponse:
    upstream = request.POST.get("upstream", "")
    set_measured_price(
        price=price,
        upstream=upstream,
        upstream_model=request.POST.get("upstream_model", "")[:200].strip(),
        actor=request.user,  # type: ignore[arg-type]
    )
    messages.success(
        request,
        f"Calls to {upstream} are booked at this price from now on. What is booked keeps its cost.",
    )
    return redirect(f"{reverse('capacity:costs')}?{asked.query}")


def _asked(query: QueryDict) -> Asked:
    """Without a test, the newest with a knee; one that there is not is 404."""
    wanted = query.get("test", "")
    test_id = test_id_of(wanted) if wanted else None
    measured = read_measured(test_id)
    if wanted and (test_id is None or measured is None):
        raise Http404
    form = CostsForm(query, tests=tests_with_a_knee(), measured=measured)
    costs = None
    if measured is not None and form.is_valid():
        try:
            choices = form.choices()
            costs = compute(choices) if choices else None
        except PlanInvalid as exc:
            form.add_error(None, str(exc))
    return Asked(form, measured, costs, query.urlencode())


def _share(text: str, choices: Choices) -> Fraction:
    """In percent; the knee itself for what is no share that was offered."""
    offered = {f"{float(100 * share):g}": share for share in (*SHARES, choices.busy)}
    return offered.get(text, Fraction(1))
