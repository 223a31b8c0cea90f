"""What the pages about limits show: the limits in force, their use, and what was told of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.gateway.admission.windows import zone
from apps.gateway.models import BudgetAlert
from apps.gateway.using import MEASURED, RuleUse, expanded, uses_of
from apps.tenants.amounts import format_amount
from apps.tenants.limits import LimitRule, limits_of
from apps.tenants.models import Limit, Measure, Subject, Tenant
from apps.tenants.money import format_money
from apps.tenants.selectors import keys_of, members_of

ALERTS_SHOWN = 20
_NO_LIMIT = uuid.UUID(int=0)
_NO_BREAK = "\N{NO-BREAK SPACE}"
# In the order in which people look for them.
MEASURES = (
    Measure.MICROS_PER_MONTH,
    Measure.TOKENS_PER_DAY,
    Measure.DOCUMENTS,
    Measure.STORAGE_BYTES,
    Measure.REQUESTS_PER_MINUTE,
    Measure.TOKENS_PER_MINUTE,
    Measure.CONCURRENT_CALLS,
)
_GONE = {Subject.MEMBER: "Someone who has left", Subject.KEY: "A key that is gone"}
_TROUBLE = {
    "mail_server": "the mail server does not take it",
    "address_refused": "its address is not a public one",
    "unknown_host": "its host is not known",
    "bad_address": "its address cannot be called",
    "timeout": "it did not answer in time",
    "tls": "its certificate is not valid",
    "unreachable": "it cannot be reached",
    "redirect": "it answers with a redirect, which is not followed",
    "bad_answer": "its answer is not HTTP",
}


@dataclass(frozen=True)
class Gauge:
    """A use beside its limit, in words and as a bar in percent of its width."""

    words: str  # "7 of 10 documents (70 %)", "7 documents" where there is no limit
    used: str
    reserved: str  # "" where nothing is
    is_limited: bool
    percent: int
    soft_percent: int
    resets: str  # "" for what never begins anew
    state: str  # "", "near" or "met"

    @property
    def width(self) -> int:
        return min(100, self.percent)


@dataclass(frozen=True)
class OwnLine:
    """One measure of the organisation itself."""

    measure: Measure
    given: str  # by operations
    own: Limit | None  # the managers'
    own_amount: str
    gauge: Gauge | None  # None: counted by the minute
    given_limit: Limit | None = None


@dataclass(frozen=True)
class Line:
    """One limit of members or keys."""

    limit: Limit
    whom: str
    is_general: bool
    measure: str
    amount: str
    gauge: Gauge | None
    nearest: str  # of a general one: who has come closest, "" where nobody has used anything

    @property
    def choice(self) -> str:
        return choice_of(self.limit.subject, self.limit.subject_id)


@dataclass(frozen=True)
class Told:
    """An alert, and what became of telling it."""

    when: str  # where the tenant is
    words: str
    use: str
    is_hard: bool
    mail: str
    hook: str


def choice_of(subject: str, subject_id: str) -> str:
    """Whom a limit is of, as the form has it: "tenant", "member", "member:12"."""
    return f"{subject}:{subject_id}" if subject_id else subject


def people_and_keys(tenant_id: uuid.UUID) -> dict[tuple[str, str], str]:
    """Whom a limit may name, and what they are called."""
    people = {
        (str(Subject.MEMBER), str(member.user_id)): member.user.email
        for member in members_of(tenant_id)
    }
    keys = {
        (str(Subject.KEY), str(key.id)): f"{key.name} ({key.prefix}…)"
        for key in keys_of(tenant_id)
        if key.revoked_at is None
    }
    return people | keys


def own_lines(tenant: Tenant) -> list[OwnLine]:
    """Every measure of the organisation: what is given, what is set, and how much is used."""
    limits = {
        (limit.measure, limit.given_by): limit
        for limit in limits_of(tenant.id).filter(subject=Subject.TENANT)
    }
    pairs = {
        measure: (
            limits.get((measure, Limit.GivenBy.OPS)),
            limits.get((measure, Limit.GivenBy.MANAGER)),
        )
        for measure in MEASURES
    }
    rules = [_tightest(measure, pair) for measure, pair in pairs.items() if measure in MEASURED]
    gauges = {use.rule.measure: _gauge(use, tenant) for use in uses_of(tenant, rules)}
    return [
        OwnLine(
            measure=measure,
            given=_amount(given),
            own=own,
            own_amount=_amount(own),
            gauge=gauges.get(measure),
            given_limit=given,
        )
        for measure, (given, own) in pairs.items()
    ]


def lines_of(tenant: Tenant, subject: Subject, names: Mapping[tuple[str, str], str]) -> list[Line]:
    """The limits of members or of keys, the general ones first."""
    limits = list(limits_of(tenant.id).filter(subject=subject))
    uses = uses_of(tenant, expanded(tenant.id, limits))
    by_limit: dict[uuid.UUID, list[RuleUse]] = {}
    for use in uses:
        by_limit.setdefault(use.rule.id, []).append(use)
    lines = [_line(limit, by_limit.get(limit.id, []), tenant, names) for limit in limits]
    return sorted(lines, key=lambda line: (not line.is_general, line.whom, line.measure))


def alerts_of(tenant: Tenant, names: Mapping[tuple[str, str], str]) -> list[Told]:
    """What was told lately, newest first."""
    rows = BudgetAlert.objects.filter(tenant_id=tenant.id).order_by("-at", "-id")
    return [_told(alert, tenant, names) for alert in rows[:ALERTS_SHOWN]]


def trouble(code: str) -> str:
    """Why something was not told, in words."""
    status = code.removeprefix("http_")
    return _TROUBLE.get(code, f"it answers with status {status}" if status != code else code)


def _line(
    limit: Limit, uses: Sequence[RuleUse], tenant: Tenant, names: Mapping[tuple[str, str], str]
) -> Line:
    is_general = not limit.subject_id
    own = uses[0] if uses and not is_general else None
    return Line(
        limit=limit,
        whom=whom(limit.subject, limit.subject_id, names),
        is_general=is_general,
        measure=str(Measure(limit.measure).label),
        amount=_amount(limit),
        gauge=_gauge(own, tenant) if own else None,
        nearest=_nearest(uses, names) if is_general else "",
    )


def _nearest(uses: Iterable[RuleUse], names: Mapping[tuple[str, str], str]) -> str:
    nearest = max(uses, key=lambda use: use.used, default=None)
    if nearest is None or not nearest.used:
        return ""
    name = whom(nearest.rule.subject, nearest.rule.subject_id, names)
    return f"{name}: {_share(nearest.rule.measure, nearest.used, nearest.rule.amount)}"


def whom(subject: str, subject_id: str, names: Mapping[tuple[str, str], str]) -> str:
    """Whom a limit binds, in words."""
    if subject == Subject.TENANT:
        return "The organisation"
    if not subject_id:
        return "Each member" if subject == Subject.MEMBER else "Each key"
    return names.get((str(subject), subject_id), _GONE[Subject(subject)])


def _tightest(measure: Measure, pair: Iterable[Limit | None]) -> LimitRule:
    """The limit that is met first; where there is none, one of 0 that stands for that."""
    limits = [limit for limit in pair if limit is not None]
    least = min(limits, key=lambda limit: limit.amount, default=None)
    return LimitRule(
        id=least.id if least else _NO_LIMIT,
        subject=Subject.TENANT,
        subject_id="",
        measure=measure,
        amount=least.amount if least else 0,
        soft_percent=least.soft_percent if least else 100,
    )


def _gauge(use: RuleUse, tenant: Tenant) -> Gauge:
    rule = use.rule
    is_limited = rule.id != _NO_LIMIT
    state = "met" if use.is_met else "near" if use.is_near else ""
    used = amount_words(rule.measure, use.used)
    return Gauge(
        words=_share(rule.measure, use.used, rule.amount) if is_limited else used,
        used=used,
        reserved=amount_words(rule.measure, use.reserved) if use.reserved else "",
        is_limited=is_limited,
        percent=use.percent if is_limited else 0,
        soft_percent=rule.soft_percent,
        resets=_moment(use.resets_at, tenant),
        state=state if is_limited else "",
    )


def _told(alert: BudgetAlert, tenant: Tenant, names: Mapping[tuple[str, str], str]) -> Told:
    name = whom(alert.subject, alert.subject_id, names)
    return Told(
        when=_moment(alert.at, tenant),
        words=f"{name}: {Measure(alert.measure).label.lower()}",
        use=_share(alert.measure, alert.used, alert.limit),
        is_hard=alert.threshold == "hard",
        mail=_outcome(alert, alert.mailed_at, alert.mail_error, "Mailed", "Nobody to mail"),
        hook=_outcome(alert, alert.hooked_at, alert.hook_error, "Called", "None is set"),
    )


def _outcome(
    alert: BudgetAlert, done_at: datetime | None, error: str, done: str, nobody: str
) -> str:
    if done_at is not None:
        return done
    if error == "nobody":
        return nobody
    if not error:
        return "In a moment"
    if alert.due_at is None:
        return f"Given up: {trouble(error)}"
    return f"Trying again: {trouble(error)}"


def _amount(limit: Limit | None) -> str:
    return "" if limit is None else amount_words(limit.measure, limit.amount)


def amount_words(measure: str, amount: int) -> str:
    """An amount with its unit on one line; money as the pages of costs write it."""
    if measure == Measure.MICROS_PER_MONTH:
        return format_money(amount)
    return format_amount(measure, amount).replace(" ", _NO_BREAK)


def _share(measure: str, used: int, amount: int) -> str:
    """ "7 of 10 documents (70 %)", the unit said once where it is a noun."""
    words = amount_words(measure, used)
    if measure not in (Measure.MICROS_PER_MONTH, Measure.STORAGE_BYTES):
        words = words.partition(_NO_BREAK)[0]
    percent = used * 100 // amount if amount else 100
    share = "under 1" if used and not percent else str(percent)
    return f"{words} of {amount_words(measure, amount)} ({share}{_NO_BREAK}%)"


def _moment(at: datetime | None, tenant: Tenant) -> str:
    return "" if at is None else f"{at.astimezone(zone(tenant.time_zone)):%-d %b, %H:%M}"
