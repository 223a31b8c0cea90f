"""Whose turn is next: a queue of jobs in the database that is fair between tenants.

Start-time fair queueing over the tenants (Goyal, Vin, Cheng 1997), each document costing one: a
job's turn is one above its tenant's last, or that of the job being served now where the tenant had
none. Five hundred documents of one tenant do not come before another's one; of two tenants that
both have work waiting, neither is ever served more than two documents ahead.

A tenant's turns are given one after another, and jobs are taken one after another, each under an
advisory lock that is the last one its transaction takes: else turns would be given twice, and
several workers that look at once would take more of a tenant's jobs than it may have under way.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

ATTEMPTS_MAX = 3

# The turn being served is that of the latest job under way, and never far behind what waits: a
# long job does not hold it back. Nobody is served between two jobs: what waits is next then.
# OFFSET keeps the planner to the few jobs that are held: by turns, it would read all that wait.
_TURN = """
    GREATEST(
        (SELECT max(turn) + 1 FROM documents_job
            WHERE tenant_id = %(tenant)s AND stage = %(stage)s),
        (SELECT CASE WHEN served IS NULL THEN waiting ELSE GREATEST(served, waiting - 1) END
            FROM (SELECT
                (SELECT max(turn) FROM (SELECT stage, turn FROM documents_job
                    WHERE lease_expires_at > statement_timestamp() OFFSET 0) AS held
                    WHERE stage = %(stage)s) AS served,
                (SELECT min(turn) FROM documents_job
                    WHERE stage = %(stage)s AND attempt = 0) AS waiting) AS queue),
        0)
"""
_LOCK_TURNS = "SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s::text || %(stage)s, 0))"
_SUBMIT = f"""
    INSERT INTO documents_job (tenant_id, document_id, stage, turn, attempt, fence, since)
    VALUES (%(tenant)s, %(document)s, %(stage)s, {_TURN}, 0, 0, statement_timestamp())
    ON CONFLICT (tenant_id, document_id) DO NOTHING
"""  # noqa: S608 - no value is put into the text
_PUT_BACK = f"""
    UPDATE documents_job SET stage = %(stage)s, turn = {_TURN}, attempt = 0, fence = fence + 1,
        lease_expires_at = NULL,
        not_before = statement_timestamp() + make_interval(secs => %(delay_s)s),
        since = CASE WHEN %(still_waits)s THEN since ELSE statement_timestamp() END
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND fence = %(fence)s
"""  # noqa: S608
_LOCK_TAKING = "SELECT pg_advisory_xact_lock(hashtextextended('documents_job', 0))"
# A job on its last attempt is taken while no other such is under way: of several that died with
# their worker, only the one that kills it is given up.
_TAKE = """
    WITH running AS (
        SELECT tenant_id, attempt FROM documents_job WHERE lease_expires_at > statement_timestamp()
    )
    UPDATE documents_job SET attempt = attempt + 1, fence = fence + 1,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s)
    WHERE id = (
        SELECT id FROM documents_job
        WHERE stage = %(stage)s
            AND (lease_expires_at IS NULL OR lease_expires_at <= statement_timestamp())
            AND (not_before IS NULL OR not_before <= statement_timestamp())
            AND tenant_id NOT IN (
                SELECT tenant_id FROM running GROUP BY tenant_id HAVING count(*) >= %(bound)s)
            AND (attempt <> %(last)s - 1
                OR NOT EXISTS (SELECT 1 FROM running WHERE running.attempt = %(last)s))
        ORDER BY turn, id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING id, tenant_id, document_id, stage, attempt, fence, since, not_before IS NOT NULL
"""


@dataclass(frozen=True)
class Claim:
    """A job that was taken: whose it is, and the proof that it is still held."""

    job_id: int
    tenant_id: uuid.UUID
    document_id: uuid.UUID
    stage: str
    attempt: int
    fence: int
    since: datetime  # when it began to wait
    waited: bool  # for something outside, and has not got further since

    @property
    def wait_ms(self) -> float:
        return (timezone.now() - self.since).total_seconds() * 1000


def enter(*, tenant_id: uuid.UUID, document_id: uuid.UUID, stage: str) -> None:
    """Queue a document, in the open transaction; one that is queued already stays as it is."""
    values: dict[str, Any] = {"tenant": tenant_id, "document": document_id, "stage": stage}
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_TURNS, values)
        cursor.execute(_SUBMIT, values)


def put_back(claim: Claim, stage: str, *, delay_s: float | None = None) -> bool:
    """Queue a claimed job anew, for `stage`, with no attempt counted; False when it is not ours.

    With `delay_s` it waits for something outside, and `since` says since when.
    """
    values: dict[str, Any] = {
        "id": claim.job_id,
        "tenant": claim.tenant_id,
        "fence": claim.fence,
        "stage": stage,
        "delay_s": delay_s,
        "still_waits": delay_s is not None and claim.waited,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK_TURNS, values)
        cursor.execute(_PUT_BACK, values)
        return bool(cursor.rowcount == 1)


def take_next(stage: str, *, lease_s: float, tenant_jobs_max: int) -> Claim | None:
    """Take the job whose turn it is; None where none may be taken."""
    values: dict[str, Any] = {
        "stage": stage,
        "lease_s": lease_s,
        "bound": tenant_jobs_max,
        "last": ATTEMPTS_MAX,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK_TAKING)
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    return Claim(*row) if row else None
