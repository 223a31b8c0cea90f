"""Requests of programs, which hold a tenant's key instead of a session."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.http import HttpRequest

from apps.tenants.access import KeyAccess
from apps.tenants.errors import KeyInAddress, KeyRefused
from apps.tenants.services.keys import PREFIX, authenticate_key

_KEY_MAX_CHARS = 200
_IS_KEY = re.compile(rf"{PREFIX}[\w-]{{30,}}")


def key_access(request: HttpRequest) -> KeyAccess:
    """The access that the request's bearer key gives (RFC 6750, section 2.1).

    Cookies count for nothing. Raises KeyInAddress or KeyRefused.
    """
    refuse_key_in(value for _, values in request.GET.lists() for value in values)
    key = authenticate_key(bearer_token(request.headers.get("Authorization", "")))
    if key is None:
        raise KeyRefused(sent=True)
    return KeyAccess(key)


def refuse_key_in(query_values: Iterable[str]) -> None:
    """Raise KeyInAddress where one of an address's values is a key."""
    if any(_IS_KEY.fullmatch(value.strip()) for value in query_values):
        raise KeyInAddress


def bearer_token(authorization: str) -> str:
    """The text that the header holds behind `Bearer`. Raises KeyRefused for what can be no key."""
    scheme, _, raw = authorization.partition(" ")
    raw = raw.strip()
    if scheme.lower() != "bearer" or not raw:
        raise KeyRefused(sent=False)
    if len(raw) > _KEY_MAX_CHARS:
        raise KeyRefused(sent=True)
    return raw
