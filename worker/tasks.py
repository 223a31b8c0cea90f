"""The base of every task: what is logged, and what is not."""

from __future__ import annotations

import logging
import traceback
from time import perf_counter
from typing import Any
from uuid import UUID

import celery

logger = logging.getLogger(__name__)


class TaskFailed(Exception):
    """A task ended in an error nobody foresaw; the log names its place, not its words.

    The message of a foreign exception may quote a document (PostgreSQL's do), so neither it nor
    the chain of exceptions reaches Celery's own logging.
    """


class QuietTask(celery.Task):  # type: ignore[type-arg] # not generic at run time
    """Logs the outcome and duration of each run, with identifiers and without text."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        try:
            result = super().__call__(*args, **kwargs)
        except Exception as exc:
            logger.error(
                "%s %s failed after %.0f ms: %s in %s",
                self.name, _ids(kwargs), (perf_counter() - start) * 1000, _kind(exc), _places(exc),
            )  # fmt: skip
            raise TaskFailed(f"{self.name}: {_kind(exc)}") from None
        logger.info(
            "%s %s done in %.0f ms", self.name, _ids(kwargs), (perf_counter() - start) * 1000
        )
        return result


class TenantTask(QuietTask):
    """A task on one tenant's rows: `run(*, tenant_id, …)` receives `tenant_id` as a UUID.

    Messages are JSON, so identifiers travel as strings. The task opens its own short scopes.
    """

    abstract = True

    def __call__(self, *args: Any, tenant_id: str, **kwargs: Any) -> Any:
        return super().__call__(*args, tenant_id=UUID(tenant_id), **kwargs)


def _ids(kwargs: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(kwargs.items()))


def _kind(exc: Exception) -> str:
    return str(getattr(exc, "code", "") or type(exc).__name__)


def _places(exc: Exception) -> str:
    frames = traceback.extract_tb(exc.__traceback__)[-4:]
    return " < ".join(
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames[::-1]
    )
