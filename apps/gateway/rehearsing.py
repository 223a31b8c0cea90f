"""A route that callers are not offered, as a model that a gate may ask all the same."""

from __future__ import annotations

from typing import cast

from apps.gateway.calling.configured import upstream_of
from apps.gateway.calling.serving import Serving
from apps.gateway.models import GatewayRoute
from apps.gateway.types import Model, PromptStyle, Route


def rehearsed(route: GatewayRoute, serving: Serving) -> Model:
    """The route's model with this route alone, served as `serving` says.

    Calls to it pass limits, budgets and the ledger as any do. Raises ValidationError where the
    upstream cannot be used.
    """
    return Model(
        alias=route.model.alias,
        label=route.model.label,
        context_tokens=serving.context_tokens,
        max_tokens=serving.max_tokens,
        passages=serving.passages,
        prompt=cast(PromptStyle, serving.prompt),
        routes=(Route(upstream_of(route.upstream), route.upstream_model),),
    )
