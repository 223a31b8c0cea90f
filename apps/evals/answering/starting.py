"""Starting a gate: which route, against what, on which questions, with which budgets."""

from __future__ import annotations

import hashlib
import inspect
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db.models import Count, Q

from apps.chat.pipeline import prompts
from apps.chat.pipeline.cache import PIPELINE_VERSION
from apps.evals.answering.judging import Budgets
from apps.evals.answering.needles import REPEATS, Cell, grid
from apps.evals.answering.slicing import Drawn, draw, slices_of
from apps.evals.configuration import code_version
from apps.evals.errors import GateImpossible, NothingToMeasure
from apps.evals.models import AnswerRun, LabelledSet
from apps.evals.questions import measurable
from apps.gateway.approvals import RouteState, route_states
from apps.gateway.calling.serving import MODEL_FIELDS, Serving, changes_context
from apps.retrieval.fingerprint import answer_fingerprint
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

ANSWER_NEXT = "evals.answer_next"
SAMPLE, SAMPLE_MAX = 200, 2000
PROMPTS = ("instruct", "extractive")


def start_gate(
    *,
    tenant: Tenant,
    labelled_set: LabelledSet,
    route_id: int,
    user: User | None,
    sample: int = SAMPLE,
    seed: int = 0,
    budgets: Budgets | None = None,
    changes: Mapping[str, Any] | None = None,
    needle_repeats: int = REPEATS,
    held: bool = False,
) -> AnswerRun:
    """A gate of the route, for a worker to take up; `held`: for `work_here` in this process.

    `changes`: other values of the model's own fields (prompt, context_tokens, max_tokens,
    passages), to be compared before the model's row has them. Raises GateImpossible and
    NothingToMeasure.
    """
    candidate, in_force, serving = sides_of(route_id, changes or {})
    _check(sample, seed, needle_repeats)
    cells = (
        grid(_room(in_force.serving), _room(serving), repeats=needle_repeats)
        if changes_context(in_force.serving, serving)
        else []
    )
    with tenant_scope(tenant.id):
        chosen = draw(_questions(labelled_set), sample=sample, seed=seed)
        if not chosen:
            raise NothingToMeasure(
                "The set has no question that can be measured. Mark passages that answer its "
                "questions, or say that a question has no answer in the collection."
            )
        run = AnswerRun.objects.create(
            tenant=tenant,
            set_id=labelled_set.id,
            collection_id=labelled_set.collection_id,
            alias=candidate.route.model.alias,
            candidate=_told(candidate, serving),
            in_force=_told(in_force, in_force.serving),
            fingerprint=serving.fingerprint,
            chosen=chosen,
            sample=sample,
            seed=seed,
            budgets=(budgets or Budgets()).as_json(),
            probe=[asdict(cell) for cell in cells],
            conditions=_conditions(tenant.id),
            total=len(chosen) + len(cells),
            created_by=user,
        )
        if not held:
            wake(ANSWER_NEXT)
    return run


def sides_of(route_id: int, changes: Mapping[str, Any]) -> tuple[RouteState, RouteState, Serving]:
    """The candidate, the route in force beside it, and what the candidate would be served with.

    Of several in force, the one with the highest weight; of these the oldest. Raises
    GateImpossible.
    """
    found = route_states(id=route_id)
    if not found:
        raise GateImpossible("There is no such route of a chat model.")
    [candidate] = found
    serving = _changed(candidate.serving, changes)
    beside = [state for state in route_states(model_id=candidate.route.model_id) if state.in_force]
    if any(state.serving == serving for state in beside):
        raise GateImpossible("This configuration is in force already: there is nothing to compare.")
    if not beside:
        raise GateImpossible(
            "No route of this model is in force, so there is nothing to compare with. Put the "
            "route in force that answered until now, or override the gate with a reason."
        )
    return candidate, min(beside, key=lambda each: (-each.route.weight, each.route.id)), serving


def cells_of(run: AnswerRun) -> list[Cell]:
    return [Cell(**each) for each in run.probe]


def _changed(serving: Serving, changes: Mapping[str, Any]) -> Serving:
    given = {name: value for name, value in changes.items() if value not in (None, "")}
    if unknown := set(given) - set(MODEL_FIELDS):
        raise GateImpossible(f"Not a field of a model: {', '.join(sorted(unknown))}.")
    changed = serving.with_changes(given)
    if changed.prompt not in PROMPTS:
        raise GateImpossible("The prompt is instruct or extractive.")
    if changed.max_tokens < 1 or changed.passages < 1:
        raise GateImpossible("Longest answer and passages are at least 1.")
    if changed.context_tokens <= changed.max_tokens:
        raise GateImpossible("The longest answer must leave room for a prompt.")
    return changed


def _check(sample: int, seed: int, needle_repeats: int) -> None:
    if not 1 <= sample <= SAMPLE_MAX:
        raise GateImpossible(f"Ask 1 to {SAMPLE_MAX:,} questions.")
    if not 0 <= seed <= 2**31 - 1:
        raise GateImpossible("The seed is a number from 0 to 2,147,483,647.")
    if not 1 <= needle_repeats <= 10:
        raise GateImpossible("Each cell of the needle grid is tried 1 to 10 times.")


def _room(serving: Serving) -> int:
    return serving.context_tokens - serving.max_tokens


def _told(state: RouteState, serving: Serving) -> dict[str, Any]:
    upstream = state.route.upstream
    return {
        "route": state.route.id,
        "upstream": upstream.name,
        "url": upstream.url,
        "serving": asdict(serving),
    }


def _questions(labelled_set: LabelledSet) -> list[Drawn]:
    counted = measurable(labelled_set).annotate(places=Count("labels", Q(labels__grade__gt=0)))
    rows = counted.values_list("id", "key", "text", "slices", "places", "unanswerable")
    return [
        Drawn(
            row[0], row[1], slices_of(text=row[2], own=row[3], labels=row[4], unanswerable=row[5])
        )
        for row in rows
    ]


def _conditions(tenant_id: uuid.UUID) -> dict[str, Any]:
    """What else an answer depends on: the same for both sides, another on another day."""
    text = inspect.getsource(prompts)
    return {
        "prompts": hashlib.sha256(text.encode()).hexdigest()[:12],
        "pipeline": PIPELINE_VERSION,
        "search_code": code_version(),
        "search": answer_fingerprint(tenant_id),
    }
