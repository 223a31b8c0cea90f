"""Requests of programs, which hold a tenant's key instead of a session."""

from __future__ import annotations

import re

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
    if any(
        _IS_KEY.fullmatch(value.strip()) for _, values in request.GET.lists() for value in values
    ):
        raise KeyInAddress
    scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
    raw = raw.strip()
    if scheme.lower() != "bearer" or not raw:
        raise KeyRefused(sent=False)
    key = authenticate_key(raw) if len(raw) <= _KEY_MAX_CHARS else None
    if key is None:
        raise KeyRefused(sent=True)
    return KeyAccess(key)
