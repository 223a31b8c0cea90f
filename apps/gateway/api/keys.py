"""Whose key a request holds, and what that key may use. Cookies and sessions count for nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from apps.gateway.api.errors import ApiError
from apps.gateway.api.exchange import Exchange
from apps.gateway.api.kept_keys import find_key
from apps.gateway.types import Caller, Source
from apps.telemetry.trace_context import Place
from apps.tenants.bearer import bearer_token, refuse_key_in
from apps.tenants.errors import KeyRefused
from apps.tenants.models import ApiKey


@dataclass(frozen=True)
class KeyHolder:
    """A program, by the key it sent."""

    key: ApiKey
    traceparent: str = ""

    def may_use(self, *names: str) -> bool:
        """Whether the key is not limited to models of other names than these."""
        allowed = self.key.model_aliases
        return not allowed or any(name in allowed for name in names)

    def caller(self, collection_ids: tuple[uuid.UUID, ...] = ()) -> Caller:
        """For admission and the ledger.

        A key's calls are the key's and the tenant's, not those of the person who made it: a
        program must not stop because that person has used up a limit of their own.
        """
        return Caller(
            tenant_id=self.key.tenant_id,
            time_zone=self.key.tenant.time_zone,
            source=Source.API,
            key_id=self.key.id,
            collection_ids=collection_ids,
            traceparent=self.traceparent,
        )


async def holder_of(exchange: Exchange) -> KeyHolder:
    """Whoever asks. Raises KeyInAddress, KeyRefused, or ApiError where it may not use models."""
    refuse_key_in(exchange.query_values())
    raw = bearer_token(exchange.headers.get("authorization", ""))
    key = await find_key(raw)
    if key is None:
        raise KeyRefused(sent=True)
    if not key.may_use_models:
        words = (
            "This key may not use models. Have a tenant manager make one with “May use models” "
            "ticked, and use that."
        )
        raise ApiError(403, "models_not_allowed", words)
    place = Place.read(exchange.headers.get("traceparent", ""))
    return KeyHolder(key, str(place) if place else "")
