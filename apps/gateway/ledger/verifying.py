"""Whether rollups and budget counters say what the ledger says, to the micro."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from apps.gateway.ledger import summing
from apps.gateway.ledger.counters import different_counters
from apps.gateway.ledger.measures import SUMS
from apps.gateway.models import RollupMark, RollupZone

_DERIVED = "derived_ledger"
_LINES = {
    "days": ("day", ("tenant_id", "dimension", "day", "key"), tuple(SUMS)),
    "hours": ("hour", ("tenant_id", "dimension", "hour", "key"), tuple(SUMS)),
    "conversations": ("conversation", ("tenant_id", "day", "conversation_id"), ("cost_micros",)),
}


@dataclass(frozen=True)
class Difference:
    """One line that is not what the ledger says. Micros (or tokens, of a counter of tokens)."""

    table: str  # days, hours, conversations or counters
    where: str  # identifiers
    stored: int | None  # None: there is no such line
    ledger: int | None


def verify() -> list[Difference]:
    """Every line that differs; the roller waits meanwhile, calls do not."""
    return [*_rollups(), *_counters()]


def _rollups() -> list[Difference]:
    with transaction.atomic():
        mark = RollupMark.objects.select_for_update().get_or_create(id=1)[0]
        with connection.cursor() as cursor:
            for name, _, _ in _LINES.values():
                cursor.execute(
                    f"CREATE TEMPORARY TABLE {_DERIVED}{name} "
                    f"(LIKE gateway_ledger{name} INCLUDING ALL) ON COMMIT DROP"
                )
            zones = dict(RollupZone.objects.values_list("tenant_id", "time_zone"))
            for span in summing.Span(0, mark.upto_id, _DERIVED).pieces():
                summing.add(span, zones)
            found = [
                difference
                for table, (name, keys, sums) in _LINES.items()
                for difference in _different(cursor, table, name, keys, sums)
            ]
            for name, _, _ in _LINES.values():
                cursor.execute(f"DROP TABLE {_DERIVED}{name}")
    return found


def _different(
    cursor: Any, table: str, name: str, keys: Sequence[str], sums: Sequence[str]
) -> list[Difference]:
    row_of = {side: ", ".join(f"{side}.{each}" for each in sums) for side in ("stored", "ledger")}
    cursor.execute(
        f"""
        SELECT {", ".join(keys)}, stored.cost_micros, ledger.cost_micros
        FROM gateway_ledger{name} AS stored FULL JOIN {_DERIVED}{name} AS ledger
            USING ({", ".join(keys)})
        WHERE ROW({row_of["stored"]}) IS DISTINCT FROM ROW({row_of["ledger"]})
        ORDER BY {", ".join(keys)}
        """  # noqa: S608 - words of ours
    )
    return [
        Difference(table, " ".join(map(str, where)), stored, ledger)
        for *where, stored, ledger in cursor.fetchall()
    ]


def _counters() -> list[Difference]:
    return [
        Difference("counters", f"{each.tenant_id} {each.where}", each.used, each.ledger)
        for each in different_counters()
    ]
