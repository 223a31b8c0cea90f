"""Starting a load test: the form, how long it would take, and what becomes of it."""

from __future__ import annotations

from typing import Any, Literal, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from apps.capacity.errors import CapacityError, TargetRefused, WorkloadInvalid
from apps.capacity.load.types import Target, Workload
from apps.capacity.loadtests import services, targets
from apps.capacity.loadtests.workloads import ledger_workload
from apps.capacity.models import LoadTest
from apps.capacity.selectors import newest_knees
from apps.capacity.showing.estimates import Estimate, estimate
from apps.capacity.testing_forms import (
    LoadTestForm,
    PlanForm,
    TargetChoice,
    beginning,
    prefilled,
)
from apps.capacity.testing_forms.choices import GATEWAY, UPSTREAM, host_of, is_loopback
from apps.capacity.testing_forms.tests import ALL_TENANTS, CONDITION_NAMES
from apps.capacity.views.tests import person
from apps.gateway.calling import catalogue
from apps.gateway.errors import GatewayError
from apps.telemetry.access import ops_page
from apps.tenants.models import Tenant

_BOUNDS = ("duration_s", "requests", "most_minutes", "most_requests")
_TENANTS_MAX = 500  # of a list to choose from


@require_http_methods(["GET", "HEAD", "POST"])
@ops_page
def test_new(request: HttpRequest) -> HttpResponse:
    """The form; a plan's page may have filled it in part by its address."""
    if request.method != "POST":
        return _page(request, _form(initial={**_beginning(), **prefilled(request.GET)}))
    form = _form(request.POST, request.FILES)
    if form.is_valid() and (started := _start(request, form)):
        return redirect("capacity:test", started.id)
    return _page(request, form)


@require_GET
@ops_page
def test_bounds(request: HttpRequest) -> HttpResponse:
    """How long what is typed would take, as a part of the form's page."""
    return render(request, "capacity/_bounds.html", {"estimate": _estimate(PlanForm(request.GET))})


def _start(request: HttpRequest, form: LoadTestForm) -> LoadTest | None:
    """None where it was refused; the form says why."""
    try:
        target = _target(form)
        return services.start_test(
            name=form.cleaned_data["name"].strip() or _name(target),
            target=target,
            workload=_workload(form),
            plan=form.cleaned_data["plan"],
            conditions=form.typed_conditions,
            user=person(request),
        )
    except TargetRefused as exc:
        form.add_error("url" if form.chosen is None else "target", str(exc))
    except WorkloadInvalid as exc:
        form.add_error("workload", str(exc))
    except CapacityError as exc:
        form.add_error(None, str(exc))
    return None


def _target(form: LoadTestForm) -> Target:
    cleaned, chosen = form.cleaned_data, form.chosen
    if chosen is None:
        return targets.address_target(
            cleaned["url"].strip(),
            kind=cast(Literal["openai", "tgi"], cleaned["kind"] or "openai"),
            model=cleaned["model"].strip(),
            hosts=form.hosts,
            key_variable=cleaned["key_variable"].strip(),
        )
    if chosen.via == GATEWAY:
        return targets.gateway_target(model=chosen.name, tenant=cleaned["payer"], hosts=form.hosts)
    return targets.upstream_target(chosen.name, hosts=form.hosts)


def _workload(form: LoadTestForm) -> Workload:
    cleaned = form.cleaned_data
    if cleaned["workload"] != "ledger":
        return cast(Workload, cleaned["made_up"])
    slug = cleaned["tenant"]
    tenant = None if slug in ("", ALL_TENANTS) else Tenant.objects.filter(slug=slug).first()
    return ledger_workload(
        tenant=tenant,
        days=cleaned["days"] or 7,
        seed=services.new_seed(),
        shared_prefix_tokens=cleaned["shared_prefix_tokens"] or 0,
    )


def _form(*data: Any, initial: dict[str, Any] | None = None) -> LoadTestForm:
    names = Tenant.objects.order_by("name").values_list("slug", "name")[:_TENANTS_MAX]
    return LoadTestForm(*data, targets=_choices(), tenants=list(names), initial=initial)


def _choices() -> list[TargetChoice]:
    """None where the catalogue cannot be read: an address is left to type."""
    try:
        upstreams = [TargetChoice(UPSTREAM, name, _far(name)) for name in targets.upstream_names()]
        return [*upstreams, *(TargetChoice(GATEWAY, name) for name in targets.model_names())]
    except (TargetRefused, GatewayError):
        return []


def _far(name: str) -> str:
    """The host of an upstream that is not on this machine."""
    upstream = catalogue.current().upstream(name)
    host = host_of(upstream.url) if upstream else None
    return host if host and not is_loopback(host) else ""


def _page(request: HttpRequest, form: LoadTestForm) -> HttpResponse:
    context = {
        "form": form,
        "estimate": _estimate(form if form.is_bound else PlanForm(_as_posted(form))),
        "bounds_errors": any(name in form.errors for name in _BOUNDS),
        "conditions_errors": any(name in form.errors for name in CONDITION_NAMES),
    }
    return render(request, "capacity/test_new.html", context)


def _as_posted(form: LoadTestForm) -> dict[str, Any]:
    """What would be posted if nothing were changed."""
    return {name: form[name].value() for name in PlanForm.base_fields}


def _estimate(form: PlanForm) -> Estimate | None:
    form.is_valid()
    plan = getattr(form, "cleaned_data", {}).get("plan")
    return estimate(plan) if plan else None


def _beginning() -> dict[str, Any]:
    knees = newest_knees(most=1)
    if not knees or knees[0].knee is None:
        return beginning(knee=None)
    return beginning(knee=knees[0].knee.load, arrivals=knees[0].arrivals)


def _name(target: Target) -> str:
    where = target.upstream or (host_of(target.url) or target.kind)
    return f"{target.model} at {where}"[:200] if target.model else where[:200]
