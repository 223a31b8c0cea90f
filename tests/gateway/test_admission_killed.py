"""A process that is killed in the middle: its reservations are swept, and the books are right."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import redis
from django.conf import settings
from django.db import connection

from apps.gateway.admission.sweeping import sweep
from apps.gateway.models import LedgerEntry, Reservation
from apps.gateway.types import Outcome
from apps.tenants.models import Measure
from tests.cast import Cast
from tests.gateway.spending import (
    MONEY,
    a_micro_a_token,
    booked,
    counted,
    let_expire,
    limit,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.mark.parametrize("settled", [1, 40])
def test_a_killed_process_leaves_nothing_reserved_and_nothing_unbooked(
    cast: Cast, settled: int
) -> None:
    a_micro_a_token()
    limit(cast.acme, MONEY, 10_000)
    limit(cast.acme, Measure.CONCURRENT_CALLS, 30)
    kill_after(cast, settled)
    used, reserved = counted(cast.acme)
    assert used + reserved <= 10_000
    assert reserved > 0
    let_expire()
    swept = sweep()
    assert swept > 0
    assert not Reservation.objects.exists()
    for subject in ("tenant", "member"):
        assert counted(cast.acme, "micros", subject) == (booked(cast.acme)[0], 0)
        assert counted(cast.acme, "tokens", subject) == (booked(cast.acme)[1], 0)
    assert LedgerEntry.objects.filter(outcome=Outcome.COMPLETE).count() >= settled
    lost = LedgerEntry.objects.filter(outcome=Outcome.LOST)
    # Of what was in flight, what had been noted last is booked; the newest had noted nothing yet.
    assert 0 < lost.count() <= swept
    assert {row.tokens_estimated for row in lost} == {True}
    places = places_of(cast)
    assert all(ends_us / 1_000_000 < time.time() + 31 for ends_us in places)


def kill_after(cast: Cast, settled: int) -> None:
    """Run a process of its own until it has settled so many calls, and kill it there."""
    script = "import django; django.setup(); from tests.gateway.dying import main; main()"
    command = [sys.executable, "-c", script, str(cast.acme.id), str(cast.bob.id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for _ in range(settled):
                assert process.stdout.readline() == "settled\n"
        finally:
            process.kill()
    wait_for_its_last_statements()


def wait_for_its_last_statements() -> None:
    """PostgreSQL carries to its end what a client that is gone had asked for."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state <> %s"
    with connection.cursor() as cursor:
        while True:
            cursor.execute(others, ["idle"])
            if cursor.fetchone() == (0,):
                return
            time.sleep(0.02)


def places_of(cast: Cast) -> list[float]:
    with redis.Redis.from_url(settings.REDIS_URL) as connection:
        key = f"ragsite:gw:rate:concurrent_calls:{cast.acme.id}:tenant:"
        found: list[tuple[bytes, float]] = connection.zrange(key, 0, -1, withscores=True)
    return [ends_us for _, ends_us in found]
