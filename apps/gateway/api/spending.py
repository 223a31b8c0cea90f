"""A call that gives its result at once: reserved before, booked after, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Generic, Literal, Protocol, TypeVar

from apps.gateway.admission import Admission
from apps.gateway.calling import CallReport
from apps.gateway.calling.catalogue import Catalogue
from apps.gateway.errors import GatewayError
from apps.gateway.service import worst_case
from apps.gateway.types import Call, Model, Outcome, Usage
from apps.inference.errors import InferenceError, TimedOut


class Used(Protocol):
    """A result that says what it took."""

    @property
    def usage(self) -> Usage: ...


U = TypeVar("U", bound=Used)


@dataclass(frozen=True)
class Spent(Generic[U]):
    result: U
    micros: str  # what it cost, for the header


async def spend(
    admission: Admission,
    offer: Catalogue,
    model: Model,
    *,
    hop: Literal["embed", "rerank"],
    prompt_tokens: int,
    work: Callable[[CallReport], Awaitable[U]],
) -> Spent[U]:
    """Do `work` under a reservation for `prompt_tokens` (an upper estimate).

    Raises what `work` raises, and what the reservation does.
    """
    report, began = CallReport(), perf_counter()
    call = Call(hop=hop, model=model.alias)
    # Limits on tokens count what language models read and write: of these only the money.
    worst = replace(worst_case(offer, model, (prompt_tokens, 0)), tokens=0)
    async with admission.reserved(worst) as budget:
        try:
            result = await work(report)
            call = replace(call, usage=result.usage)
        except (InferenceError, GatewayError) as exc:
            outcome = Outcome.TIMED_OUT if isinstance(exc, TimedOut) else Outcome.FAILED
            call = replace(call, outcome=outcome, error_code=exc.code)
            raise
        except asyncio.CancelledError:
            # It may have been done by now: what was sent counts as read.
            usage = Usage(prompt_tokens, estimated=True) if report.upstream else Usage()
            call = replace(call, usage=usage, outcome=admission.broken_off_as)
            raise
        finally:
            call = replace(
                call,
                upstream=report.upstream,
                upstream_model=report.upstream_model,
                queue_ms=report.queue_ms,
                attempts=max(1, report.attempts),
                total_ms=(perf_counter() - began) * 1000,
            )
            await asyncio.shield(budget.settle(call))
    return Spent(result, str(budget.spent_micros))
