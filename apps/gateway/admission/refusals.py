"""What a refusal says: which limit, when there is room again, and nobody's figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from apps.gateway.admission import windows
from apps.gateway.admission.rates import Rate, Room, Taken
from apps.gateway.admission.selectors import COUNTED, window_of
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import BudgetExceeded, RateLimited
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject

_WHOSE = {
    Subject.TENANT: "your organisation's",
    Subject.MEMBER: "your",
    Subject.KEY: "this key's",
}
_WHAT = {
    Measure.REQUESTS_PER_MINUTE: "requests a minute",
    Measure.TOKENS_PER_MINUTE: "tokens a minute",
    Measure.CONCURRENT_CALLS: "answers at the same time",
    Measure.MICROS_PER_MONTH: "money for this month",
    Measure.TOKENS_PER_DAY: "tokens for today",
}
_HEADERS = {Measure.REQUESTS_PER_MINUTE: "requests", Measure.TOKENS_PER_MINUTE: "tokens"}
# Before a request that can never fit is worth another thought: limits may be changed.
_NEVER_S = 60.0


def rate_limited(taken: Taken) -> RateLimited:
    """The refusal by one of the rates."""
    rate = taken.refused
    assert rate is not None  # noqa: S101 - only what was refused is put into words
    limit = f"{_WHOSE[rate.subject]} {_WHAT[rate.measure]}"
    after_s = taken.retry_after_s
    refusal = RateLimited(
        _rate_in_words(rate, limit, after_s),
        limit=limit,
        retry_after_s=_NEVER_S if after_s is None else after_s,
        headers=headers_of(taken.rooms),
    )
    refusal.retryable = after_s is not None
    return refusal


def _rate_in_words(rate: Rate, limit: str, after_s: float | None) -> str:
    start = limit[0].upper() + limit[1:]
    if rate.amount == 0:
        return f"{start}: none are allowed. Ask a manager of your organisation."
    if after_s is None:
        return (
            f"This request may need {rate.n:,} tokens and {limit} are limited to {rate.amount:,}, "
            "so it can never be let through. Make it shorter, or ask for fewer tokens."
        )
    wait = duration(max(1.0, after_s))
    return f"{start} are limited to {rate.amount:,}, and that is reached. Try again in {wait}."


def budget_exceeded(
    counter: tuple[str, Subject],
    worst: WorstCase,
    rules: Iterable[LimitRule],
    now: datetime,
    time_zone: str,
) -> BudgetExceeded:
    """The refusal by one of the budgets: `counter` is its measure and whose it is."""
    measure, subject = counter
    kind = next(kind for kind, counted in COUNTED.items() if counted == measure)
    amount = min(rule.amount for rule in rules if rule.measure == kind and rule.subject == subject)
    limit = f"{_WHOSE[subject]} {_WHAT[kind]}"
    _, resets_at = window_of(kind, now, time_zone)
    needed = worst.micros if measure == "micros" else worst.tokens
    begins = resets_at.astimezone(windows.zone(time_zone))
    if needed > amount:
        words = "this request alone may need more than all of it. Make it shorter"
    else:
        words = "what is left, after answers being written now, is not enough for this request"
    return BudgetExceeded(
        f"{limit[0].upper()}{limit[1:]}: {words}. It begins anew on {begins:%-d %B %Y at %H:%M}.",
        limit=limit,
        retry_after_s=(resets_at - now).total_seconds(),
        resets_at=resets_at,
    )


def headers_of(rooms: Iterable[Room]) -> Mapping[str, str]:
    """OpenAI's `x-ratelimit-*` headers, of the tightest limit on requests and on tokens."""
    headers: dict[str, str] = {}
    # The tightest is written last, over the others.
    for room in sorted(rooms, key=lambda room: room.remaining, reverse=True):
        name = _HEADERS.get(room.rate.measure)
        if name is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(room.rate.amount)
            headers[f"x-ratelimit-remaining-{name}"] = str(room.remaining)
            headers[f"x-ratelimit-reset-{name}"] = duration(room.full_in_s)
    return headers


def duration(seconds: float) -> str:
    """A time as OpenAI writes it: 120ms, 1s, 7.66s, 6m0s, 1h0m0s."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms"
    whole, rest = divmod(round(seconds, 2), 60)
    minutes = int(whole)
    last = f"{rest:.2f}".rstrip("0").rstrip(".") + "s"
    if minutes == 0:
        return last
    if minutes < 60:
        return f"{minutes}m{last}"
    return f"{minutes // 60}h{minutes % 60}m{last}"
