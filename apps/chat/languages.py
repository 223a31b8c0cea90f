"""The language of a socket: what its handshake asks for, chosen as it is for pages.

No middleware of Django's sees a websocket. Tasks and threads take the language along, for it is
kept in the context that they are given a copy of: an answer speaks its asker's language, whoever
else follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation


class ReadersLanguage:
    """ASGI middleware inside which the language of the handshake is the active one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> Any:
        with translation.override(language_of(scope)):
            return await self.inner(scope, receive, send)


def language_of(scope: Mapping[str, Any]) -> str:
    """The language's code: of the cookie, else of `Accept-Language`, else English.

    `scope` has been through Channels' cookie middleware.
    """
    request = HttpRequest()
    request.COOKIES = dict(scope.get("cookies", {}))
    headers = dict(scope.get("headers", []))
    request.META["HTTP_ACCEPT_LANGUAGE"] = headers.get(b"accept-language", b"").decode("latin-1")
    return translation.get_language_from_request(request) or settings.LANGUAGE_CODE
