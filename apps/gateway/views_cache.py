"""A tenant's cache: what is decided about it, and its answers by meaning, one by one."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.gateway.caching import auditing, policy
from apps.gateway.forms import CacheForm
from apps.gateway.models import SemanticHit
from apps.tenants.access import Right, TenantRequest, tenant_page

HITS_A_PAGE = 25


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Right.MANAGE_PEOPLE)
def cache(request: TenantRequest) -> HttpResponse:
    """What is decided, a form to decide otherwise, and the hits."""
    tenant = request.access.tenant
    decided = policy.policy_of(tenant.id)
    form = CacheForm(request.POST or None, initial=vars(decided))
    if not form.is_valid():
        page = Paginator(auditing.hits_of(tenant.id), HITS_A_PAGE).get_page(request.GET.get("page"))
        context = {
            "form": form,
            "decided": decided,
            "judged": auditing.judged(tenant.id),
            "page": page,
            "rows": _rows(request, list(page)),
        }
        return render(request, "gateway/cache.html", context)
    policy.set_policy(tenant=tenant, actor=request.access.user, **form.cleaned_data)
    messages.success(request, "Saved.")
    return redirect("gateway:cache", tenant.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Right.MANAGE_PEOPLE)
def forget_cache(request: TenantRequest) -> HttpResponse:
    """Ask, then forget every answer."""
    if request.method != "POST":
        return render(request, "gateway/forget_cache.html")
    policy.forget_everything(tenant=request.access.tenant, actor=request.access.user)
    messages.success(request, "Every answer that was kept is forgotten.")
    return redirect("gateway:cache", request.access.tenant.slug)


@require_POST
@tenant_page(Right.MANAGE_PEOPLE)
def judge_hit(request: TenantRequest, hit_id: int) -> HttpResponse:
    """Call a hit right or wrong, or take that back."""
    tenant = request.access.tenant
    verdict = request.POST.get("verdict", "")
    if verdict not in auditing.VERDICTS:
        raise Http404
    hit = auditing.judge(tenant=tenant, actor=request.access.user, hit_id=hit_id, verdict=verdict)
    if hit is None:
        raise Http404
    if request.htmx:
        context = {"row": _rows(request, [hit])[0], "judged": auditing.judged(tenant.id)}
        return render(request, "gateway/_hit_judged.html", context)
    return redirect("gateway:cache", tenant.slug)


def _rows(request: TenantRequest, hits: list[SemanticHit]) -> list[dict[str, object]]:
    names = auditing.names_of(request.access.tenant.id, hits)
    return [{"hit": hit, "whose": names[hit.id]} for hit in hits]
