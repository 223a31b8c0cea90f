"""Two workers, and a person, at the same time: on connections of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from apps.capacity.errors import LoadTestRunning
from apps.capacity.loadtests import claims
from apps.capacity.loadtests.services import delete_test, stop_test
from apps.capacity.loadtests.working import run_next
from apps.capacity.models import LoadPoint, LoadTest
from tests.capacity.loadtests.conftest import StandIn, begin

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*works: Callable[[], object]) -> list[object]:
    """What each returns, or its exception; all of them begin together."""
    barrier = threading.Barrier(len(works))
    results: list[object] = [None] * len(works)

    def run(place: int, work: Callable[[], object]) -> None:
        try:
            barrier.wait()
            results[place] = work()
        except Exception as exc:
            results[place] = exc
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_workers_take_one_test_between_them(stand_in: StandIn) -> None:
    for _ in range(2):
        begin(1.0)
    taken = at_once(*[claims.take] * 4)
    assert sum(claim is not None for claim in taken) == 1


def test_two_workers_measure_each_point_once(stand_in: StandIn) -> None:
    test = begin(1.0, 2.0, repeats=2)
    for _ in range(6):
        assert at_once(run_next, run_next) == [None, None]
    test.refresh_from_db()
    assert test.state == "done"
    numbers = LoadPoint.objects.filter(test=test).values_list("number", flat=True)
    assert sorted(numbers) == [0, 1, 2, 3]
    assert len(stand_in.asked) == 4


def test_two_commands_begin_one_test_between_them(stand_in: StandIn) -> None:
    results = at_once(*[lambda: begin(1.0, held=True)] * 3)
    refused = [each for each in results if isinstance(each, LoadTestRunning)]
    assert len(refused) == 2
    assert LoadTest.objects.count() == 1


def test_a_test_is_stopped_once_and_deleted_once(stand_in: StandIn) -> None:
    test = begin(1.0)
    stops = at_once(*[lambda: stop_test(test_id=test.id, user=None)] * 3)
    assert sorted(map(str, stops)) == ["False", "False", "True"]
    deletions = at_once(*[lambda: delete_test(test_id=test.id, user=None)] * 3)
    assert sorted(map(str, deletions)) == ["False", "False", "True"]


def test_a_test_under_way_is_not_deleted(stand_in: StandIn) -> None:
    test = begin(1.0)
    with pytest.raises(LoadTestRunning, match="Stop it"):
        delete_test(test_id=test.id, user=None)
    claim = claims.take()
    assert claim is not None
    stop_test(test_id=test.id, user=None)
    with pytest.raises(LoadTestRunning):  # its generator has not ended yet
        delete_test(test_id=test.id, user=None)
    claims.release(claim)
    assert delete_test(test_id=test.id, user=None)


def test_a_stop_while_a_worker_measures_ends_its_generator(stand_in: StandIn) -> None:
    stand_in.behave("slow")
    test = begin(1.0)

    def stop_soon() -> bool:
        while not LoadTest.objects.filter(id=test.id, progress__has_key="sent").exists():
            threading.Event().wait(0.02)
        return stop_test(test_id=test.id, user=None)

    assert at_once(run_next, stop_soon) == [None, True]
    test.refresh_from_db()
    assert (test.state, test.points.count(), test.progress) == ("cancelled", 1, {})
    assert test.lease_expires_at is None
