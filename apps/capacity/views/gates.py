"""Gates of routes: what waits, a gate's start and progress, its figures by slice, overriding it."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.evals.answering import selectors
from apps.evals.answering.claims import UNFINISHED
from apps.evals.answering.judging import DEFAULT_BUDGET, NEEDLE_BUDGET, Budgets, parse_budgets
from apps.evals.answering.starting import PROMPTS, SAMPLE, SAMPLE_MAX, start_gate
from apps.evals.answering.working import stop_gate
from apps.evals.errors import EvalsError
from apps.evals.models import AnswerRun
from apps.gateway.approvals import REASON_MAX_CHARS, RouteState, override, route_states
from apps.gateway.errors import ServingChanged
from apps.telemetry.access import ops_page
from apps.tenants.models import User


class GateForm(forms.Form):
    """What to compare, on which questions, and how much may be lost."""

    route = forms.TypedChoiceField(coerce=int, label="Route")
    task_set = forms.ChoiceField(label="Task set")
    sample = forms.IntegerField(min_value=1, max_value=SAMPLE_MAX, initial=SAMPLE)
    seed = forms.IntegerField(min_value=0, max_value=2**31 - 1, initial=0)
    budget = forms.FloatField(min_value=0, max_value=100, initial=100 * DEFAULT_BUDGET)
    slice_budgets = forms.CharField(required=False, max_length=2000)
    needle = forms.FloatField(min_value=0, max_value=100, initial=100 * NEEDLE_BUDGET)
    rule = forms.ChoiceField(
        choices=[
            ("mean", "the loss itself is within the budget"),
            ("bound", "a loss beyond the budget is ruled out (95 %)"),
        ]
    )
    prompt = forms.ChoiceField(
        required=False, choices=[("", "as it is"), *((name, name) for name in PROMPTS)]
    )
    context_tokens = forms.IntegerField(required=False, min_value=2, max_value=100_000_000)
    max_tokens = forms.IntegerField(required=False, min_value=1, max_value=100_000_000)
    passages = forms.IntegerField(required=False, min_value=1, max_value=1000)

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sets = {
            f"{tenant.id}/{each.id}": (tenant, each) for tenant, each in selectors.task_sets(user)
        }
        self.fields["route"].choices = [  # type: ignore[attr-defined]
            (state.route.id, _route_words(state)) for state in route_states()
        ]
        self.fields["task_set"].choices = [  # type: ignore[attr-defined]
            (key, f"{each.name} ({tenant.name})") for key, (tenant, each) in self.sets.items()
        ]

    def budgets(self) -> Budgets:
        """Raises ValueError."""
        given = self.cleaned_data
        named = given["slice_budgets"].replace(",", "\n").splitlines()
        texts = [_as_share(line) for line in named if line.strip()]
        whole = [f"default={given['budget'] / 100}", f"needle={given['needle'] / 100}"]
        return parse_budgets([*texts, *whole], given["rule"])


@require_GET
@ops_page
def gates(request: HttpRequest) -> HttpResponse:
    """Routes with their right to answer, and the gates of before."""
    context = {
        "routes": [_route(state) for state in route_states()],
        "runs": selectors.newest_gates(),
        "unfinished": UNFINISHED,
        "reason_max": REASON_MAX_CHARS,
    }
    return render(request, "capacity/gates.html", context)


@require_http_methods(["GET", "POST"])
@ops_page
def gate_new(request: HttpRequest) -> HttpResponse:
    """Start a gate."""
    user = _user(request)
    if request.method == "GET":
        form = GateForm(user, initial={"route": request.GET.get("route", "")})
        return render(request, "capacity/gate_new.html", {"form": form})
    form = GateForm(user, request.POST)
    if form.is_valid() and (run := _start(form, user)) is not None:
        return redirect("capacity:gate", run.id)
    return render(request, "capacity/gate_new.html", {"form": form}, status=422)


@require_GET
@ops_page
def gate(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """One gate: progress while it runs, then its figures."""
    return render(request, "capacity/gate.html", _context(_find(gate_id)))


@require_GET
@ops_page
def gate_state(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """How far it is, and the figures when it has ended."""
    return render(request, "capacity/_gate.html", _context(_find(gate_id)))


@require_POST
@ops_page
def gate_stop(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """Stop a gate that has not ended; nothing is approved by it."""
    stop_gate(_find(gate_id).id)
    return redirect("capacity:gate", gate_id)


@require_POST
@ops_page
def override_gate(request: HttpRequest) -> HttpResponse:
    """Put a route in force without its gate, with name and reason."""
    given = request.POST
    try:
        override(
            route_id=int(given.get("route", "")),
            expected=given.get("fingerprint", ""),
            reason=given.get("reason", "").replace("\0", ""),
            user=_user(request),
        )
    except (ValueError, OverflowError) as exc:
        words = str(exc) if str(exc).startswith("Say why") else "There is no such route."
        messages.error(request, words)
    except ServingChanged as exc:
        messages.error(request, str(exc))
    else:
        messages.success(request, "The route is in force. Your name and reason are kept.")
    return redirect("capacity:gates")


def _start(form: GateForm, user: User) -> AnswerRun | None:
    """None: the form says what is wrong."""
    given = form.cleaned_data
    tenant, labelled_set = form.sets[given["task_set"]]
    names = ("prompt", "context_tokens", "max_tokens", "passages")
    try:
        return start_gate(
            tenant=tenant,
            labelled_set=labelled_set,
            route_id=given["route"],
            user=user,
            sample=given["sample"],
            seed=given["seed"],
            budgets=form.budgets(),
            changes={name: given[name] for name in names},
        )
    except (EvalsError, ValueError) as exc:
        form.add_error(None, str(exc))
    return None


def _context(run: AnswerRun) -> dict[str, Any]:
    rows = run.figures.get("rows", [])
    return {
        "run": run,
        "unfinished": run.state in UNFINISHED,
        "changes": selectors.changes_of(run),
        "metrics": selectors.metrics_of(run),
        "failed": [each for each in rows if each["verdict"] == "beyond"],
        "open": [each for each in rows if each["blocks"] and each["verdict"] != "beyond"],
        "grid": selectors.needle_grid(run),
        "depths": selectors.needle_depths(run),
    }


def _route(state: RouteState) -> dict[str, Any]:
    serving = state.serving
    parts = (serving.upstream_model, serving.precision, serving.engine, serving.context_policy)
    return {"state": state, "served": [each for each in parts if each]}


def _route_words(state: RouteState) -> str:
    served = ", ".join(_route(state)["served"])
    where = "in force" if state.in_force else "waits"
    return f"{state.route.id}: {state.route}{f', {served}' if served else ''} ({where})"


def _as_share(line: str) -> str:
    """`tables=5` of a form, in points, as a share; what is no number is told by the reader."""
    name, _, points = line.strip().rpartition("=")
    try:
        return f"{name}={float(points) / 100}"
    except ValueError:
        return line


def _find(gate_id: uuid.UUID) -> AnswerRun:
    found = selectors.get_gate(gate_id)
    if found is None:
        raise Http404
    return found


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - asked by ops_page
    return request.user
