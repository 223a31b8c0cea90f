"""What a refusal says: which limit, when there is room again, and nobody's figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil

from django.utils.formats import date_format, number_format
from django.utils.translation import gettext, gettext_lazy, ngettext

from apps.gateway.admission import windows
from apps.gateway.admission.rates import Rate, Room, Taken
from apps.gateway.admission.selectors import COUNTED, window_of
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import BudgetExceeded, RateLimited
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject

# Whole phrases: other languages do not put owner and thing together as English does.
_LIMITS: Mapping[str, Mapping[str, object]] = {
    Subject.TENANT: {
        Measure.REQUESTS_PER_MINUTE: gettext_lazy("your organisation's requests a minute"),
        Measure.TOKENS_PER_MINUTE: gettext_lazy("your organisation's tokens a minute"),
        Measure.CONCURRENT_CALLS: gettext_lazy("your organisation's answers at the same time"),
        Measure.MICROS_PER_MONTH: gettext_lazy("your organisation's money for this month"),
        Measure.TOKENS_PER_DAY: gettext_lazy("your organisation's tokens for today"),
    },
    Subject.MEMBER: {
        Measure.REQUESTS_PER_MINUTE: gettext_lazy("your requests a minute"),
        Measure.TOKENS_PER_MINUTE: gettext_lazy("your tokens a minute"),
        Measure.CONCURRENT_CALLS: gettext_lazy("your answers at the same time"),
        Measure.MICROS_PER_MONTH: gettext_lazy("your money for this month"),
        Measure.TOKENS_PER_DAY: gettext_lazy("your tokens for today"),
    },
    # Keys are programs', which are answered in English.
    Subject.KEY: {
        Measure.REQUESTS_PER_MINUTE: "this key's requests a minute",
        Measure.TOKENS_PER_MINUTE: "this key's tokens a minute",
        Measure.CONCURRENT_CALLS: "this key's answers at the same time",
        Measure.MICROS_PER_MONTH: "this key's money for this month",
        Measure.TOKENS_PER_DAY: "this key's tokens for today",
    },
}
_HEADERS = {Measure.REQUESTS_PER_MINUTE: "requests", Measure.TOKENS_PER_MINUTE: "tokens"}
# Before a request that can never fit is worth another thought: limits may be changed.
_NEVER_S = 60.0


def rate_limited(taken: Taken) -> RateLimited:
    """The refusal by one of the rates."""
    rate = taken.refused
    assert rate is not None  # noqa: S101 - only what was refused is put into words
    limit = str(_LIMITS[rate.subject][rate.measure])
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
    places = {
        "Limit": _capitalised(limit),
        "limit": limit,
        "amount": number_format(rate.amount, force_grouping=True),
    }
    if rate.amount == 0:
        words = gettext("%(Limit)s: none are allowed. Ask a manager of your organisation.")
    elif after_s is None:
        places["tokens"] = number_format(rate.n, force_grouping=True)
        words = gettext(
            "This request may need %(tokens)s tokens and %(limit)s are limited to %(amount)s, "
            "so it can never be let through. Make it shorter, or ask for fewer tokens."
        )
    else:
        places["wait"] = _wait_in_words(after_s)
        words = gettext(
            "%(Limit)s are limited to %(amount)s, and that is reached. Try again in %(wait)s."
        )
    return words % places


def _wait_in_words(seconds: float) -> str:
    """Whole seconds, or minutes from two on, rounded up: too early a try is refused again."""
    if seconds <= 120:
        count = max(1, ceil(seconds))
        words = ngettext("%(count)s second", "%(count)s seconds", count)
    else:
        count = ceil(seconds / 60)
        words = ngettext("%(count)s minute", "%(count)s minutes", count)
    return words % {"count": count}


def _capitalised(words: str) -> str:
    return words[0].upper() + words[1:]


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
    limit = str(_LIMITS[subject][kind])
    _, resets_at = window_of(kind, now, time_zone)
    needed = worst.micros if measure == "micros" else worst.tokens
    begins = resets_at.astimezone(windows.zone(time_zone))
    if needed > amount:
        words = gettext(
            "%(Limit)s: this request alone may need more than all of it. Make it shorter. "
            "It begins anew on %(date)s at %(time)s."
        )
    else:
        words = gettext(
            "%(Limit)s: what is left, after answers being written now, is not enough for this "
            "request. It begins anew on %(date)s at %(time)s."
        )
    places = {
        "Limit": _capitalised(limit),
        "date": date_format(begins, "DATE_FORMAT"),
        "time": f"{begins:%H:%M}",
    }
    return BudgetExceeded(
        words % places,
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
