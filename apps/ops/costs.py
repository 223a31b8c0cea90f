"""The figures of the cost pages: what the ledger says, with the names that go with it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date

from django.utils import timezone

from apps.chat.selectors import conversations_of
from apps.gateway.ledger import selectors
from apps.gateway.ledger.days import month_of
from apps.gateway.ledger.selectors import Dimension, Line, Period, PerUnit, Projection, Sums
from apps.gateway.models import LedgerEntry
from apps.ops.columns import ColumnChart, Figure, columns
from apps.ops.names import Name, Names, OpsNames, TenantNames, hop_words
from apps.ops.periods import Stretch, in_stretches
from apps.tenants.access import Access
from apps.tenants.limits import limits_for
from apps.tenants.models import Measure, Subject
from apps.tenants.money import format_money

ROWS_SHOWN = 25  # of a table; the rest are one line
DEAREST_SHOWN = 20


@dataclass(frozen=True)
class Row:
    """One line of a table; `share` is of the whole period's cost, None where that is nothing."""

    name: Name
    sums: Sums
    share: float | None


@dataclass(frozen=True)
class Table:
    """The period by one dimension, dearest first; `others` are the lines that are not shown."""

    dimension: str
    title: str
    head: str
    note: str
    rows: list[Row]
    others: Row | None = None


@dataclass(frozen=True)
class Heading:
    """What the table of a dimension is called, and what has to be said of it."""

    title: str
    head: str
    note: str = ""


HEADINGS: Mapping[str, Heading] = {
    "tenant": Heading("By organisation", "Organisation"),
    "model": Heading("By model", "Model"),
    "user": Heading(
        "By person", "Person", "Calls with a key are also in the name of whoever made the key."
    ),
    "key": Heading("By API key", "Key"),
    "collection": Heading(
        "By collection",
        "Collection",
        "A question to several collections is one call. Its cost is not divided among them.",
    ),
    "source": Heading("By purpose", "Made for"),
    "upstream": Heading("By upstream", "Upstream"),
    "hop": Heading("By hop", "Hop"),
}
OF_A_TENANT: tuple[Dimension, ...] = ("model", "user", "key", "collection", "source")
OF_ALL: tuple[Dimension, ...] = (
    "tenant", "model", "upstream", "source", "hop", "user", "key", "collection",
)  # fmt: skip


@dataclass(frozen=True)
class Slice:
    """A day, or a month of a long period."""

    stretch: Stretch
    sums: Sums


@dataclass(frozen=True)
class DearCall:
    """One of the dearest calls, and whether whoever looks may open its conversation."""

    entry: LedgerEntry
    person: Name
    key: Name | None
    tenant: Name
    may_open: bool

    @property
    def hop(self) -> str:
        return hop_words(self.entry.hop)

    @property
    def outcome(self) -> str:
        return self.entry.outcome.replace("_", " ")


@dataclass(frozen=True)
class Budget:
    """The running month beside the budget that binds the tenant, if any does."""

    projection: Projection
    limit_micros: int | None
    sums: Sums  # of the month so far

    @property
    def used(self) -> float | None:
        """Share of the budget; None without one, or where it is nothing."""
        return self.projection.spent_micros / self.limit_micros if self.limit_micros else None

    @property
    def projected(self) -> float | None:
        if not self.limit_micros or self.projection.projected_micros is None:
            return None
        return self.projection.projected_micros / self.limit_micros

    @property
    def over_micros(self) -> int:
        """By how much the month will be over it; 0 where it will not, or is not known to be."""
        projected = self.projection.projected_micros
        if self.limit_micros is None or projected is None:
            return 0
        return max(0, projected - self.limit_micros)

    @property
    def is_used_up(self) -> bool:
        return self.limit_micros is not None and self.projection.spent_micros >= self.limit_micros

    @property
    def spent_percent(self) -> float:
        """Where the bar's filling ends; the bar is the budget, or what is projected past it."""
        return self._percent(self.projection.spent_micros)

    @property
    def projected_percent(self) -> float:
        return self._percent(self.projection.projected_micros or self.projection.spent_micros)

    @property
    def limit_percent(self) -> float:
        return self._percent(self.limit_micros or 0)

    def _percent(self, micros: int) -> float:
        spent, projected = self.projection.spent_micros, self.projection.projected_micros or 0
        whole = max(spent, projected, self.limit_micros or 0)
        return round(100 * micros / whole, 2) if whole else 0.0


@dataclass(frozen=True)
class Costs:
    """Everything that a cost page shows of its period."""

    totals: Sums
    per_unit: PerUnit
    slices: list[Slice]
    chart: ColumnChart
    tables: list[Table]

    @property
    def is_empty(self) -> bool:
        return not self.totals.calls

    @property
    def tokens(self) -> int:
        return self.totals.prompt_tokens + self.totals.output_tokens

    @property
    def unpriced(self) -> list[Row]:
        """Upstreams with calls whose cost is not known, for want of a price."""
        tables = (table for table in self.tables if table.dimension == "upstream")
        return [row for table in tables for row in table.rows if row.sums.unpriced_calls]


def read_costs(
    tenant_id: uuid.UUID | None,
    period: Period,
    names: Names,
    *,
    dimensions: Sequence[Dimension],
) -> Costs:
    """The period's figures. `tenant_id` None: of all tenants."""
    lines = selectors.by_each(tenant_id, period, dimensions)
    days = selectors.by(tenant_id, period, "day")
    totals = add_up(line.sums for line in days)
    slices = slices_of(days)
    return Costs(
        totals=totals,
        per_unit=selectors.per_unit(tenant_id, period),
        slices=slices,
        chart=cost_chart(slices),
        tables=[_table(each, found, names, totals) for each, found in lines.items()],
    )


def budget_of(tenant_id: uuid.UUID, time_zone: str) -> Budget:
    """The running month, and the tightest limit of the tenant's money a month."""
    amounts = [
        rule.amount
        for rule in limits_for(tenant_id)
        if rule.measure == Measure.MICROS_PER_MONTH and rule.subject == Subject.TENANT
    ]
    return Budget(
        selectors.projection(tenant_id, time_zone),
        min(amounts, default=None),
        selectors.totals(tenant_id, month_of(timezone.now(), time_zone)),
    )


def dearest_of(access: Access, period: Period) -> list[DearCall]:
    """The tenant's dearest calls; conversations can be opened by whose they are, and no other."""
    entries = _dearest(access.tenant.id, period)
    own = conversations_of(access).filter(id__in=[each.conversation_id for each in entries])
    opened = set(own.values_list("id", flat=True))
    return _dear_calls(entries, TenantNames(access.tenant.id), opened)


def dearest_of_all(period: Period) -> list[DearCall]:
    """The dearest calls of all tenants, for operations."""
    return _dear_calls(_dearest(None, period), OpsNames(), ())


def _dearest(tenant_id: uuid.UUID | None, period: Period) -> list[LedgerEntry]:
    found = selectors.dearest(tenant_id, period, DEAREST_SHOWN)
    return [each for each in found if each.cost_micros]


def _dear_calls(
    entries: Sequence[LedgerEntry], names: Names, opened: Collection[uuid.UUID]
) -> list[DearCall]:
    people = names.of("user", {str(each.user_id or "") for each in entries})
    keys = names.of("key", {str(each.key_id or "") for each in entries})
    tenants = names.of("tenant", {str(each.tenant_id) for each in entries})
    return [
        DearCall(
            entry=each,
            person=people[str(each.user_id or "")],
            key=keys[str(each.key_id or "")] if each.key_id else None,
            tenant=tenants[str(each.tenant_id)],
            may_open=each.conversation_id in opened,
        )
        for each in entries
    ]


def add_up(sums: Iterable[Sums]) -> Sums:
    """All of them together."""
    found = list(sums)
    return Sums(
        **{field.name: sum(getattr(each, field.name) for each in found) for field in fields(Sums)}
    )


def slices_of(days: Sequence[Line]) -> list[Slice]:
    """Days, or months of a long period."""
    found = [(date.fromisoformat(line.key), line.sums) for line in days]
    return [Slice(stretch, add_up(part)) for stretch, part in in_stretches(found)]


def cost_chart(slices: Sequence[Slice]) -> ColumnChart:
    """What each day or month cost."""
    return columns([_figure(each) for each in slices], format_money)


def cost_words(sums: Sums) -> str:
    """What calls cost, as far as it is known: never nothing where nothing is known."""
    if not sums.unpriced_calls:
        return format_money(sums.cost_micros)
    return f"at least {format_money(sums.cost_micros)}" if sums.cost_micros else "not known"


def _figure(each: Slice) -> Figure:
    short = cost_words(each.sums) if each.sums.calls else "no call"
    cost = f"cost {short}" if short == "not known" else short
    answers = f"{each.sums.answers:,} answer{'' if each.sums.answers == 1 else 's'}"
    return Figure(
        parts=(each.sums.cost_micros,),
        words=f"{each.stretch.words}: {cost}{f', {answers}' if each.sums.calls else ''}",
        short=short,
        tick=each.stretch.tick,
        anchor=each.stretch.anchor,
        incomplete=bool(each.sums.unpriced_calls),
    )


def _table(dimension: str, lines: Sequence[Line], names: Names, totals: Sums) -> Table:
    shown, rest = lines[:ROWS_SHOWN], lines[ROWS_SHOWN:]
    if len(rest) == 1:
        shown, rest = lines, []
    known = names.of(dimension, [line.key for line in shown])
    heading = HEADINGS[dimension]

    def row(name: Name, sums: Sums) -> Row:
        share = sums.cost_micros / totals.cost_micros if totals.cost_micros else None
        return Row(name, sums, share)

    return Table(
        dimension=dimension,
        title=heading.title,
        head=heading.head,
        note=heading.note,
        rows=[row(known[line.key], line.sums) for line in shown],
        others=(
            row(Name(f"{len(rest):,} others"), add_up(line.sums for line in rest)) if rest else None
        ),
    )
