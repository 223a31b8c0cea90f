"""What the ledger's rows are counted by and what is summed, as SQL.

Rollups are written with these expressions, and what has come since is read with them: the two
cannot mean different things. Every sum is a whole number (times in microseconds), so that sums of
sums are exact in whatever order they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Dimension = Literal[
    "day", "tenant", "model", "user", "key", "collection", "source", "upstream", "hop"
]
ALL = "all"  # the dimension of everything together
CACHE = "cache"  # its keys are hop, result and reason, with CACHE_SEPARATOR between
CACHE_SEPARATOR = "|"
SEVERAL = "several"  # of a call that used more than one collection

# The value of each dimension for one row of the ledger.
KEYS: dict[str, str] = {
    ALL: "''",
    "tenant": "tenant_id::text",
    "model": "model",
    "user": "coalesce(user_id::text, '')",
    "key": "coalesce(key_id::text, '')",
    "collection": f"""CASE cardinality(collection_ids) WHEN 0 THEN ''
        WHEN 1 THEN collection_ids[1]::text ELSE '{SEVERAL}' END""",
    "source": "source",
    "upstream": "upstream",
    "hop": "hop",
    CACHE: f"hop || '{CACHE_SEPARATOR}' || cache || '{CACHE_SEPARATOR}' || cache_reason",
}
assert set(get_args(Dimension)) - {"day"} <= set(KEYS)  # noqa: S101

SUMS: dict[str, str] = {
    "calls": "count(*)",
    "answers": "count(*) FILTER (WHERE hop = 'generate')",
    "prompt_tokens": "sum(prompt_tokens)",
    "cached_tokens": "sum(cached_tokens)",
    "output_tokens": "sum(output_tokens)",
    "cost_micros": "sum(cost_micros)",
    "unpriced_calls": "count(*) FILTER (WHERE upstream <> '' AND price_id IS NULL)",
    "estimated_calls": "count(*) FILTER (WHERE tokens_estimated)",
    "failed": "count(*) FILTER (WHERE outcome IN ('failed', 'timed_out', 'lost'))",
    "saved_micros": "sum(saved_micros)",
    "saved_us": "sum(round(saved_ms * 1000)::bigint)",
    "queue_us": "sum(round(queue_ms * 1000)::bigint)",
    "first_token_us": "coalesce(sum(round(first_token_ms * 1000)::bigint), 0)",
    "first_token_calls": "count(first_token_ms)",
    "total_us": "sum(round(total_ms * 1000)::bigint)",
}


@dataclass(frozen=True)
class Grouping:
    """SQL that sums rows of the ledger by each of several dimensions in one pass."""

    columns: str  # of each row, beside its own: the value of every dimension
    sets: str  # GROUP BY GROUPING SETS (…)
    dimension: str  # which one a group is of
    key: str


def grouping(dimensions: Sequence[str]) -> Grouping:
    """A column that is not in a group's set is null there, and a key never is."""
    names = [name for name in dimensions if name != ALL]
    which = "".join(f"WHEN of_{name} IS NOT NULL THEN '{name}' " for name in names)
    return Grouping(
        columns="".join(f", {KEYS[name]} AS of_{name}" for name in names),
        sets=", ".join("()" if name == ALL else f"(of_{name})" for name in dimensions),
        dimension=f"CASE {which}ELSE '{ALL}' END" if names else f"'{ALL}'",
        key=f"coalesce({', '.join(f'of_{name}' for name in names)}, '')" if names else "''",
    )


def sums_of_rows() -> str:
    """The columns of a query over the ledger."""
    return ", ".join(f"({sql})::bigint AS {name}" for name, sql in SUMS.items())


def sums_of_lines() -> str:
    """The columns of a query over what `sums_of_rows` made, from whichever source."""
    return ", ".join(f"sum({name})::bigint AS {name}" for name in SUMS)
