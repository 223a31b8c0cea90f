"""Which configurations of an alias may answer: the first, those that passed, and those overridden.

A route is in force where its fingerprint, computed from its row as it is now, is among its alias's
approvals. Nothing is stored on the route: whoever changes a field of it has, by that, a route that
waits, whatever the order of two saves was.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import IntegrityError, transaction

from apps.gateway.calling import catalogue
from apps.gateway.calling.serving import Serving, serving_of
from apps.gateway.errors import ServingChanged
from apps.gateway.models import GatewayModel, GatewayRoute, RouteApproval
from apps.telemetry.services import record_audit
from apps.tenants.models import User

REASON_MIN_CHARS, REASON_MAX_CHARS = 10, 500
_CHANGED = (
    "The route or its model has been changed since. Look at what it is served with now, and "
    "decide again."
)


@dataclass(frozen=True)
class RouteState:
    """A route, what it is served with, and by what right; `approval` None: it waits."""

    route: GatewayRoute
    serving: Serving
    approval: RouteApproval | None

    @property
    def in_force(self) -> bool:
        return self.approval is not None


def note_first(*, instance: GatewayRoute, raw: bool = False, **_: object) -> None:
    """The first configuration that an alias ever has is in force: nothing to compare it with.

    Called whenever a route is saved. `raw`: by a fixture, whose rows bring their approvals.
    """
    if raw:
        return
    route = instance
    alias = route.model.alias
    if route.model.kind != GatewayModel.Kind.CHAT:
        return
    if RouteApproval.objects.filter(alias=alias).exists():
        return
    serving = serving_of(route)
    first = RouteApproval(
        alias=alias,
        fingerprint=serving.fingerprint,
        serving=asdict(serving),
        how=RouteApproval.How.FIRST,
    )
    # Of two at once, one is the first, by the unique key; the other waits.
    RouteApproval.objects.bulk_create([first], ignore_conflicts=True)


def approve_passed(
    *, alias: str, serving: Serving, baseline: Serving, gate_id: uuid.UUID, user: User | None
) -> RouteApproval:
    """A configuration that was compared with `baseline` and passed: exactly that one.

    Raises ServingChanged where no route has the baseline any more: what it was compared with is
    not what answers now. The rows are held meanwhile.
    """
    with transaction.atomic():
        routes = _held(alias)
        if baseline not in [serving_of(each) for each in routes] or not is_approved(
            alias, baseline
        ):
            raise ServingChanged(
                "The configuration in force was changed while the gate ran, so the comparison "
                "says nothing of the one that answers now. Run the gate again."
            )
        return _give(
            alias, serving, RouteApproval.How.GATE, user, gate_id=gate_id, action="route.passed"
        )


def override(*, route_id: int, expected: str, reason: str, user: User) -> RouteApproval:
    """Put a route in force without its gate. Name and reason are kept.

    `expected`: the fingerprint that the person decided on. Raises ServingChanged where the route
    has another by now, and ValueError where the reason says too little.
    """
    words = " ".join(reason.split())
    if not REASON_MIN_CHARS <= len(words) <= REASON_MAX_CHARS:
        raise ValueError(
            f"Say why in {REASON_MIN_CHARS} to {REASON_MAX_CHARS} characters: it is kept with "
            "your name."
        )
    with transaction.atomic():
        alias = GatewayRoute.objects.filter(id=route_id).values_list("model__alias", flat=True)
        route = next((each for each in _held(alias.first()) if each.id == route_id), None)
        if route is None or serving_of(route).fingerprint != expected:
            raise ServingChanged(_CHANGED)
        return _give(
            route.model.alias,
            serving_of(route),
            RouteApproval.How.OVERRIDE,
            user,
            reason=words,
            action="route.gate_overridden",
        )


def is_approved(alias: str, serving: Serving) -> bool:
    """Whether the alias may be served so."""
    return RouteApproval.objects.filter(alias=alias, fingerprint=serving.fingerprint).exists()


def approved_of(aliases: Iterable[str]) -> set[tuple[str, str]]:
    """(alias, fingerprint) of all approvals of these aliases."""
    given = RouteApproval.objects.filter(alias__in=list(aliases))
    return set(given.values_list("alias", "fingerprint"))


def route_states(**filters: Any) -> list[RouteState]:
    """Routes of chat models with their right to answer, by alias."""
    routes = list(
        GatewayRoute.objects.filter(model__kind=GatewayModel.Kind.CHAT, **filters)
        .select_related("model", "upstream")
        .order_by("model__position", "model__alias", "id")
    )
    given = {
        (each.alias, each.fingerprint): each
        for each in RouteApproval.objects.filter(alias__in={r.model.alias for r in routes})
    }
    found = []
    for route in routes:
        serving = serving_of(route)
        approval = given.get((route.model.alias, serving.fingerprint))
        found.append(RouteState(route, serving, approval))
    return found


def would_serve(model: GatewayModel, routes: Iterable[GatewayRoute]) -> bool:
    """Whether one of `routes`, as they would be saved, is in force."""
    prints = {serving_of(route, model).fingerprint for route in routes}
    return RouteApproval.objects.filter(alias=model.alias, fingerprint__in=prints).exists()


def _held(alias: str | None) -> list[GatewayRoute]:
    """The alias's routes, locked with their model until the transaction ends."""
    bool(GatewayModel.objects.select_for_update().filter(alias=alias))
    routes = GatewayRoute.objects.select_for_update(of=("self",)).filter(model__alias=alias)
    return list(routes.select_related("model", "upstream").order_by("id"))


def _give(
    alias: str,
    serving: Serving,
    how: str,
    user: User | None,
    *,
    action: str,
    **grounds: Any,
) -> RouteApproval:
    try:
        with transaction.atomic():
            given = RouteApproval.objects.create(
                alias=alias,
                fingerprint=serving.fingerprint,
                serving=asdict(serving),
                how=how,
                given_by=user,
                given_name=user.email if user else "",
                **grounds,
            )
    except IntegrityError:  # it was given meanwhile, on grounds of its own
        given = RouteApproval.objects.get(alias=alias, fingerprint=serving.fingerprint)
    record_audit(
        action=action, tenant_id=None, actor_id=user.pk if user else None, subject_id=given.pk
    )
    transaction.on_commit(catalogue.forget)
    return given
