"""Saying to a person's open pages, from synchronous code, what has happened."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

from django.http import HttpRequest
from redis.exceptions import RedisError

from apps.chat.streams import keys
from apps.chat.streams.process import session_mark
from apps.gateway.redis import blocking

logger = logging.getLogger(__name__)

_TIMEOUT_S = 1.0


def tell_user(tenant_id: uuid.UUID, user_id: int, frame: dict[str, Any]) -> None:
    """Say `frame` to all pages that this person has open, in whichever process.

    To be called after the commit. Quiet where Redis is away: pages read anew what they show.
    """
    _publish(keys.user_channel(tenant_id, user_id), {"frame": frame})


def tell_signed_out(session_key: str) -> None:
    """Have the sockets of that session closed."""
    _publish(keys.CONTROL, {"signed_out": session_mark(session_key)})


def on_signed_out(*, request: HttpRequest | None = None, **_: object) -> None:
    """Django's signal: somebody signs out, in whichever tab."""
    if request is not None and request.session.session_key:
        tell_signed_out(request.session.session_key)


def _publish(channel: str, message: dict[str, Any]) -> None:
    try:
        with blocking(_TIMEOUT_S) as connection:
            connection.publish(channel, json.dumps(message))
    except (RedisError, OSError) as exc:
        logger.warning("open pages were not told: %s", type(exc).__name__)
