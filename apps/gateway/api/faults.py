"""Faults of ours, in the log: type and place only, for a message may hold what somebody asked."""

from __future__ import annotations

import logging
import traceback

from apps.gateway.api.errors import INTERNAL, ApiError, as_api_error

logger = logging.getLogger(__name__)


def told(exc: Exception) -> ApiError:
    """`exc` as the client is told of it; a fault of ours is logged."""
    error = as_api_error(exc)
    if error is None:
        log_fault(exc)
        return INTERNAL
    return error


def log_fault(exc: BaseException) -> None:
    frames = traceback.extract_tb(exc.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    logger.error("API: %s at %s", type(exc).__name__, place)
