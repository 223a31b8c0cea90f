"""What operations have configured, read from the database and checked once more.

The forms check it too, but rows may be older than a check, and an environment changes without
them: a row that cannot be used is left out and named, and never keeps the others from use.
"""

from __future__ import annotations

import os
from collections.abc import Container, Set
from dataclasses import dataclass, replace
from typing import cast

from django.conf import settings
from django.core.exceptions import ValidationError

from apps.gateway.calling.checks import check_key_variable, check_kinds, check_url
from apps.gateway.calling.serving import serving_of
from apps.gateway.ledger.prices import PriceRule, price_rule
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream, Price, RouteApproval
from apps.gateway.types import Model, ModelKind, PromptStyle, Route, Upstream, UpstreamKind

# Where the settings' own models stand in lists; a configured one before this is the default.
OWN_POSITION = 50


@dataclass(frozen=True)
class Offered:
    """What is left of it beside the settings' own."""

    before: tuple[Model, ...]
    after: tuple[Model, ...]
    upstreams: tuple[Upstream, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Configured:
    """Usable rows, and why the others are not."""

    models: tuple[tuple[int, Model], ...] = ()  # with their positions
    upstreams: tuple[Upstream, ...] = ()
    prices: tuple[PriceRule, ...] = ()
    problems: tuple[str, ...] = ()

    def beside(self, aliases: Set[str], names: Set[str]) -> Offered:
        """Without those whose names the settings' own have: these are not to be shadowed."""
        problems = list(self.problems)
        for upstream in self.upstreams:
            if upstream.name in names:
                problems.append(f"upstream {upstream.name}: the settings have one of that name")
        offered: list[tuple[int, Model]] = []
        for position, model in self.models:
            if model.alias in aliases:
                problems.append(f"model {model.alias}: the settings have one of that name")
                continue
            routes = tuple(r for r in model.routes if r.upstream.name not in names)
            if routes:
                offered.append((position, replace(model, routes=routes)))
            else:
                problems.append(f"model {model.alias}: no upstream that could serve it")
        return Offered(
            before=tuple(model for position, model in offered if position < OWN_POSITION),
            after=tuple(model for position, model in offered if position >= OWN_POSITION),
            upstreams=tuple(u for u in self.upstreams if u.name not in names),
            problems=tuple(problems),
        )


_WAITS = "what it is served with has not passed its gate (Operations, Capacity, Gates)"


def read_configured() -> Configured:
    """All enabled rows and all prices. Uses the ORM."""
    problems: list[str] = []
    upstreams: dict[object, Upstream] = {}
    for row in GatewayUpstream.objects.filter(enabled=True).order_by("name"):
        try:
            upstreams[row.id] = upstream_of(row)
        except ValidationError as exc:
            problems.append(f"upstream {row.name}: {' '.join(exc.messages)}")
    rows = GatewayModel.objects.filter(enabled=True).prefetch_related("routes__upstream")
    # One that comes a moment later counts at the next reading: approvals are only added to.
    approved = frozenset(RouteApproval.objects.values_list("alias", "fingerprint"))
    models = [(row.position, _model(row, upstreams, approved, problems)) for row in rows]
    return Configured(
        models=tuple(models),
        upstreams=tuple(upstreams.values()),
        prices=tuple(price_rule(row) for row in Price.objects.order_by("valid_from", "id")),
        problems=tuple(problems),
    )


def upstream_of(row: GatewayUpstream) -> Upstream:
    """The upstream as calls know it, with its key. Raises ValidationError."""
    check_url(row.url)
    check_key_variable(row.key_variable)
    return Upstream(
        name=row.name,
        kind=cast(UpstreamKind, row.kind),
        url=row.url,
        key=os.environ[row.key_variable] if row.key_variable else "",
        max_concurrency=row.max_concurrency,
        queue_timeout_s=row.queue_timeout_s,
        first_token_timeout_s=row.first_token_timeout_s,
        silence_timeout_s=row.silence_timeout_s,
        deadline_s=row.deadline_s,
    )


def _may_answer(way: GatewayRoute, row: GatewayModel, approved: Container[tuple[str, str]]) -> bool:
    """Whether the route is served as its alias may be; embedding and reranking have gates of
    their own, where an embedding index is built."""
    if row.kind != GatewayModel.Kind.CHAT or settings.ROUTE_GATES == "off":
        return True
    return (row.alias, serving_of(way, row).fingerprint) in approved


def _model(
    row: GatewayModel,
    upstreams: dict[object, Upstream],
    approved: Container[tuple[str, str]],
    problems: list[str],
) -> Model:
    routes: list[Route] = []
    for way in sorted(row.routes.all(), key=lambda way: way.id):
        upstream = upstreams.get(way.upstream_id)
        if upstream is None:
            continue  # disabled, or named as a problem already
        try:
            check_kinds(row.kind, upstream.kind)
        except ValidationError as exc:
            problems.append(f"model {row.alias} at {upstream.name}: {' '.join(exc.messages)}")
            continue
        if not _may_answer(way, row, approved):
            problems.append(f"model {row.alias} at {upstream.name}: {_WAITS}")
            if settings.ROUTE_GATES == "on":
                continue
        routes.append(Route(upstream, way.upstream_model, way.weight))
    return Model(
        alias=row.alias,
        label=row.label,
        context_tokens=row.context_tokens,
        max_tokens=row.max_tokens,
        passages=row.passages,
        prompt=cast(PromptStyle, row.prompt),
        kind=cast(ModelKind, row.kind),
        routes=tuple(routes),
    )
