"""Pages about limits: a tenant's own, and what operations give to all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from apps.gateway.alerting.addresses import AddressRefused
from apps.gateway.alerting.sending import NOBODY, recipients_of, send_test, target_of
from apps.gateway.alerting.targets import set_target
from apps.ops import limits as figures
from apps.ops.given_limits import page_of_tenants
from apps.ops.limit_forms import AlertForm, GivenLimitForm, LimitForm
from apps.telemetry.access import ops_page
from apps.tenants import services
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.amounts import amount_as_typed
from apps.tenants.errors import LimitRefused
from apps.tenants.limits import limits_of
from apps.tenants.models import Limit, Measure, Subject, Tenant, User

# A test reaches addresses outside: not as fast as somebody can press.
_TEST_PAUSE_S = 15


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Right.MANAGE_PEOPLE)
def limits(request: TenantRequest) -> HttpResponse:
    """The limits in force with their use, and a form to set one."""
    names = figures.people_and_keys(request.access.tenant.id)
    if request.method != "POST":
        return _limits(request, names, form=LimitForm(names, initial=_asked_for(request)))
    form = LimitForm(names, request.POST)
    if not form.is_valid():
        return _limits(request, names, form=form)
    if form.cleaned_data["amount"] == 0 and not request.POST.get("confirmed"):
        return _ask_about_nothing(request, form, figures.whom(*form.subject, names), _here(request))
    subject, subject_id = form.subject
    try:
        limit = services.set_limit(
            tenant=request.access.tenant,
            actor=request.access.user,
            given_by=Limit.GivenBy.MANAGER,
            subject=subject,
            subject_id=subject_id,
            measure=form.cleaned_data["measure"],
            amount=form.cleaned_data["amount"],
            soft_percent=form.cleaned_data["soft_percent"],
        )
    except LimitRefused as exc:
        form.add_error("amount", str(exc))
        return _limits(request, names, form=form)
    messages.success(request, f"{Measure(limit.measure).label}: the limit is set.")
    return redirect(_here(request))


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Right.MANAGE_PEOPLE)
def remove_limit(request: TenantRequest, limit_id: uuid.UUID) -> HttpResponse:
    """Ask, then take the limit away."""
    tenant = request.access.tenant
    limit = get_object_or_404(limits_of(tenant.id), id=limit_id)
    if limit.given_by != Limit.GivenBy.MANAGER:
        raise PermissionDenied
    if request.method != "POST":
        context = _question(limit, figures.people_and_keys(tenant.id))
        return render(request, "ops/limit_remove.html", {**context, "back": _here(request)})
    services.remove_limit(tenant=tenant, limit_id=limit.id, actor=request.access.user)
    messages.success(request, f"{Measure(limit.measure).label}: the limit is gone.")
    return redirect(_here(request))


@require_POST
@tenant_page(Right.MANAGE_PEOPLE, scoped=False)
def set_alerts(request: TenantRequest) -> HttpResponse:
    """Where alerts go. Not in one transaction: a webhook's name is looked up."""
    form = AlertForm(request.POST)
    if form.is_valid():
        try:
            set_target(
                tenant=request.access.tenant,
                actor=request.access.user,
                mail_managers=form.cleaned_data["mail_managers"],
                emails=form.cleaned_data["emails"],
                webhook_url=form.cleaned_data["webhook_url"],
                new_secret=form.cleaned_data["new_secret"],
            )
        except AddressRefused as exc:
            form.add_error("webhook_url", str(exc))
        else:
            messages.success(request, "Saved.")
            return redirect(_here(request))
    names = figures.people_and_keys(request.access.tenant.id)
    return _limits(request, names, form=LimitForm(names), alert_form=form)


@require_POST
@tenant_page(Right.MANAGE_PEOPLE, scoped=False)
def test_alerts(request: TenantRequest) -> HttpResponse:
    """Mail and call once, now, and say what came of it."""
    tenant = request.access.tenant
    if not cache.add(f"alert-test:{tenant.id}", 1, timeout=_TEST_PAUSE_S):
        messages.warning(request, f"A test was sent just now. Wait {_TEST_PAUSE_S} seconds.")
        return redirect(_here(request))
    mail_error, hook_error = send_test(tenant=tenant)
    _say(request, mail_error, "The test was mailed.", "There is nobody to mail it to.", "Mail")
    if hook_error != NOBODY:
        _say(request, hook_error, "The webhook took the test.", "", "The webhook")
    return redirect(_here(request))


@require_http_methods(["GET", "HEAD", "POST"])
@ops_page
def given_limits(request: HttpRequest) -> HttpResponse:
    """Every organisation with what it was given; with `?tenant=`, one of them and a form."""
    slug = request.GET.get("tenant", "").replace("\x00", "")
    if not slug:
        if request.method == "POST":
            return redirect("ops:given_limits")
        return render(request, "ops/given_limits.html", page_of_tenants(request.GET))
    tenant = get_object_or_404(Tenant, slug=slug)
    if request.method == "POST" and request.POST.get("remove"):
        return _take_back(request, tenant)
    given = limits_of(tenant.id).filter(given_by=Limit.GivenBy.OPS)
    form = GivenLimitForm(
        request.POST if request.method == "POST" else None, initial=_beginning(request, given)
    )
    if form.is_valid():
        done = _give(request, tenant, form)
        if done is not None:
            return done
    context = {"tenant": tenant, "lines": figures.own_lines(tenant), "form": form}
    return render(request, "ops/given_limit.html", context)


def _give(request: HttpRequest, tenant: Tenant, form: GivenLimitForm) -> HttpResponse | None:
    """None where it was refused; the form says why."""
    assert isinstance(request.user, User)  # noqa: S101 - ops_page; for the type checker
    back = f"{reverse('ops:given_limits')}?tenant={tenant.slug}"
    if form.cleaned_data["amount"] == 0 and not request.POST.get("confirmed"):
        return _ask_about_nothing(request, form, tenant.name, back)
    try:
        services.set_limit(
            tenant=tenant,
            actor=request.user,
            given_by=Limit.GivenBy.OPS,
            subject=Subject.TENANT,
            measure=form.cleaned_data["measure"],
            amount=form.cleaned_data["amount"],
            soft_percent=form.cleaned_data["soft_percent"],
        )
    except LimitRefused as exc:
        form.add_error("amount", str(exc))
        return None
    messages.success(request, f"{Measure(form.cleaned_data['measure']).label}: given.")
    return redirect(back)


def _ask_about_nothing(
    request: HttpRequest, form: GivenLimitForm, whom: str, back: str
) -> HttpResponse:
    measure = Measure(form.cleaned_data["measure"]).label
    context = {"form": form, "measure": measure, "whom": whom, "back": back}
    return render(request, "ops/limit_nothing.html", context)


def _take_back(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    assert isinstance(request.user, User)  # noqa: S101
    given = limits_of(tenant.id).filter(given_by=Limit.GivenBy.OPS)
    limit = next((each for each in given if str(each.id) == request.POST["remove"]), None)
    back = f"{reverse('ops:given_limits')}?tenant={tenant.slug}"
    if limit is None:
        return redirect(back)
    if not request.POST.get("confirmed"):
        context = {**_question(limit, {}), "back": back, "given_to": tenant}
        return render(request, "ops/limit_remove.html", context)
    services.remove_limit(tenant=tenant, limit_id=limit.id, actor=request.user)
    messages.success(request, f"{Measure(limit.measure).label}: the limit is gone.")
    return redirect(back)


def _limits(
    request: TenantRequest,
    names: Mapping[tuple[str, str], str],
    *,
    form: LimitForm,
    alert_form: AlertForm | None = None,
) -> HttpResponse:
    tenant = request.access.tenant
    target = target_of(tenant)
    initial = {
        "mail_managers": target.mail_managers,
        "emails": "\n".join(target.emails),
        "webhook_url": target.webhook_url,
    }
    context = {
        "own": figures.own_lines(tenant),
        "members": figures.lines_of(tenant, Subject.MEMBER, names),
        "keys": figures.lines_of(tenant, Subject.KEY, names),
        "form": form,
        "alert_form": alert_form or AlertForm(initial=initial),
        "target": target,
        "recipients": recipients_of(tenant, target),
        "alerts": figures.alerts_of(tenant, names),
    }
    return render(request, "ops/limits.html", context)


def _asked_for(request: TenantRequest) -> dict[str, Any]:
    """What the form begins with: the limit that somebody wants to change."""
    whom = request.GET.get("whom", "tenant").replace("\x00", "")
    subject, _, subject_id = whom.partition(":")
    manager = limits_of(request.access.tenant.id).filter(given_by=Limit.GivenBy.MANAGER)
    limits_of_whom = manager.filter(subject=subject, subject_id=subject_id)
    return {"whom": whom, **_beginning(request, limits_of_whom)}


def _beginning(request: HttpRequest, limits: QuerySet[Limit]) -> dict[str, Any]:
    """The measure that the address asks for, and the limit on it as it is."""
    measure = request.GET.get("measure", "").replace("\x00", "")
    limit = limits.filter(measure=measure).first()
    if limit is None:
        return {"measure": measure}
    amount = amount_as_typed(limit.measure, limit.amount)
    return {"measure": measure, "amount": amount, "soft_percent": limit.soft_percent}


def _question(limit: Limit, names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    return {
        "limit": limit,
        "measure": Measure(limit.measure).label,
        "whom": figures.whom(limit.subject, limit.subject_id, names),
        "amount": figures.amount_words(limit.measure, limit.amount),
    }


def _say(request: TenantRequest, error: str, done: str, nobody: str, what: str) -> None:
    if not error:
        messages.success(request, done)
    elif error == NOBODY:
        messages.warning(request, nobody)
    else:
        messages.error(request, f"{what}: {figures.trouble(error)}.")


def _here(request: TenantRequest) -> str:
    return reverse("ops:limits", args=[request.access.tenant.slug])
