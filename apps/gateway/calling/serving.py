"""What a route serves a model with, as one value: two routes with the same are replicas.

A configuration that no gate has compared must not answer: its fingerprint says whether it is one
that may. Pure functions over rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream

# Part of what is hashed: raised when a field is added, so that old fingerprints match nothing.
_VERSION = 1
# What the context policy is made of: where one of these changes, long contexts are probed too.
CONTEXT_FIELDS = ("context_policy", "context_tokens", "max_tokens", "passages")
# Of the model's, not the route's: they are rehearsed in a gate before the model's row has them.
MODEL_FIELDS = ("prompt", "context_tokens", "max_tokens", "passages")


@dataclass(frozen=True)
class Serving:
    """All that an answer of a route depends on, as far as operations declare it."""

    kind: str  # the upstream's protocol
    # Name and address of the upstream where the route names no model there: what it serves is
    # then whatever that server serves. "" where the model is named, and any server has the same.
    server: str
    upstream_model: str
    precision: str
    engine: str
    context_policy: str
    prompt: str
    context_tokens: int
    max_tokens: int
    passages: int

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits; equal for equal configurations only."""
        told = json.dumps([_VERSION, asdict(self)], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def with_changes(self, changes: Mapping[str, Any]) -> Serving:
        """With other values of the model's own fields (`MODEL_FIELDS`)."""
        return replace(self, **{name: changes[name] for name in MODEL_FIELDS if name in changes})


def serving_of(
    route: GatewayRoute,
    model: GatewayModel | None = None,
    upstream: GatewayUpstream | None = None,
) -> Serving:
    """What a route's rows declare; `model` and `upstream` stand in for rows not saved yet."""
    model, upstream = model or route.model, upstream or route.upstream
    named = route.upstream_model.strip()
    return Serving(
        kind=upstream.kind,
        server="" if named else f"{upstream.name} {upstream.url.rstrip('/')}",
        upstream_model=named,
        precision=route.precision.strip(),
        engine=route.engine.strip(),
        context_policy=route.context_policy.strip(),
        prompt=model.prompt,
        context_tokens=model.context_tokens,
        max_tokens=model.max_tokens,
        passages=model.passages,
    )


def read_serving(data: Mapping[str, Any]) -> Serving:
    """From JSON that `asdict` made. Raises TypeError and KeyError for anything else."""
    return Serving(**{field.name: data[field.name] for field in fields(Serving)})


def differing(before: Serving, after: Serving) -> dict[str, tuple[Any, Any]]:
    """The fields that differ, each before and after."""
    old, new = asdict(before), asdict(after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def changes_context(before: Serving, after: Serving) -> bool:
    """Whether long contexts may be read otherwise than before."""
    return bool(set(differing(before, after)) & set(CONTEXT_FIELDS))
