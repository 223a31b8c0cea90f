"""The embedding model of a tenant: the index in force, and the one that is to take its place."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.documents.chunkings import chunking_in_force
from apps.retrieval import builds
from apps.retrieval.build_forms import StartForm, ThrottleForm
from apps.retrieval.builds import selectors
from apps.retrieval.builds.errors import BuildError
from apps.retrieval.builds.gates import titled_results
from apps.retrieval.models import EmbeddingModel, IndexBuild
from apps.retrieval.selectors import active_index
from apps.tenants.access import Access, Right, TenantRequest, tenant_page
from apps.tenants.scope import tenant_scope

State = IndexBuild.State
HISTORY_SHOWN = 10
# Looked at again by itself while something moves.
_MOVING = (State.BUILDING, State.DROPPING)
_DONE = {
    "pause": (builds.pause_build, "Paused."),
    "resume": (builds.resume_build, "It goes on."),
    "compare": (builds.compare_again, "It is compared again."),
    "cancel": (builds.cancel_build, "Given up. The new index is being dropped."),
    "back": (builds.switch_back, "Questions are searched in the old index again."),
    "drop": (builds.drop_now, "The index that is not in force is dropped in a moment."),
}


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def embedding(request: TenantRequest) -> HttpResponse:
    """The index in force, the one that is built or kept, and how to begin one."""
    return _answer(request, StartForm(models=selectors.models_on_offer()))


@require_POST
@tenant_page(Right.MANAGE_PEOPLE, scoped=False)
def start(request: TenantRequest) -> HttpResponse:
    """Begin another index. Not scoped: a model may take its time to answer for the first time."""
    form = StartForm(request.POST, models=selectors.models_on_offer())
    access = request.access
    if form.is_valid():
        try:
            builds.start_build(
                tenant=access.tenant, user=access.user, **form.choice(_in_force(access))
            )
        except BuildError as exc:
            form.add_error(None, str(exc))
        else:
            messages.success(request, "The new index is being built.")
            return redirect("retrieval:embedding", access.tenant.slug)
    with tenant_scope(access.tenant.id):
        return _answer(request, form, status=400)


@require_POST
@tenant_page(Right.MANAGE_PEOPLE, scoped=False)
def change(request: TenantRequest, build_id: uuid.UUID) -> HttpResponse:
    """`action`: pause, resume, throttle, compare, cancel, switch (with `reason`), back or drop."""
    access, action = request.access, request.POST.get("action", "")
    if selectors.get_build(access.tenant.id, build_id) is None:
        raise Http404
    try:
        said = _act(request, build_id, action)
    except BuildError as exc:
        messages.error(request, str(exc))
    else:
        if not said:
            with tenant_scope(access.tenant.id):
                form = StartForm(models=selectors.models_on_offer())
                return _answer(request, form, status=400)
        messages.success(request, said)
    return redirect("retrieval:embedding", access.tenant.slug)


def _act(request: TenantRequest, build_id: uuid.UUID, action: str) -> str:
    """What to tell the person; empty where nobody knows what was asked. Raises a BuildError."""
    who: dict[str, Any] = {
        "tenant": request.access.tenant,
        "user": request.access.user,
        "build_id": build_id,
    }
    if action in _DONE:
        act, said = _DONE[action]
        act(**who)
        return said
    if action == "switch":
        builds.switch(**who, reason=request.POST.get("reason", ""))
        return "Questions are searched in the new index from now on."
    form = ThrottleForm(request.POST)
    if action == "throttle" and form.is_valid():
        builds.throttle_build(**who, passages_per_s=form.cleaned_data["passages_per_s"])
        return "The pace was changed."
    return ""


def _in_force(access: Access) -> EmbeddingModel | None:
    """The named model of the index in force; None for the settings' own."""
    index = active_index(access.tenant.id)
    return index.embedder if index else None


def _answer(request: TenantRequest, form: StartForm, *, status: int = 200) -> HttpResponse:
    tenant_id = request.access.tenant.id
    index = active_index(tenant_id)
    build = selectors.live_build(tenant_id)
    context: dict[str, Any] = {
        "index": index,
        "figures": selectors.index_figures(index) if index else None,
        "chunking": chunking_in_force(tenant_id),
        "own_model": settings.EMBEDDING_MODEL,
        "models": selectors.models_on_offer(),
        "form": form,
        "build": build,
        "history": selectors.past_builds(tenant_id, limit=HISTORY_SHOWN),
    }
    if build is not None:
        gates = titled_results(build)
        context |= {
            "progress": selectors.progress_of(build),
            "gates": gates,
            "passed": bool(gates) and all(gate["passed"] for gate in gates),
            "comparing": build.state == State.READY
            and (not gates or any(gate["pending"] for gate in gates)),
            "overrides": selectors.overrides_of(tenant_id, build.id),
            "throttle_form": ThrottleForm(initial={"passages_per_s": build.passages_per_s}),
        }
        context["is_moving"] = build.state in _MOVING or context["comparing"]
    template = "retrieval/_embedding.html" if request.htmx else "retrieval/embedding.html"
    return render(request, template, context, status=status)
