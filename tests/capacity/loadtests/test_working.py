"""Load tests from begin to end, with a stand-in for the generator."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from django.db.models.functions import Now

from apps.capacity.loadtests import claims, measuring, working
from apps.capacity.loadtests.measuring import read_done
from apps.capacity.loadtests.services import delete_test, run_again, stop_test
from apps.capacity.loadtests.working import run_here, run_next
from apps.capacity.models import LoadPoint, LoadTest
from apps.telemetry.models import AuditEvent
from tests.capacity.loadtests.conftest import WORKLOAD, StandIn, begin, work_off
from tests.cast import Cast

pytestmark = pytest.mark.django_db


def points_of(test: LoadTest) -> list[tuple[str, float, int]]:
    rows = LoadPoint.objects.filter(test=test).order_by("number")
    return [(point.purpose, point.load, point.repeat) for point in rows]


def test_a_sweep_goes_through_all_loads_before_it_repeats_any(stand_in: StandIn) -> None:
    test = work_off(begin(1.0, 2.0))
    assert test.state == "done"
    assert points_of(test) == [
        ("sweep", 1.0, 0),
        ("sweep", 2.0, 0),
        ("sweep", 1.0, 1),
        ("sweep", 2.0, 1),
    ]
    assert (test.result["points"], test.result["ended"]) == (4, "")
    assert "knee" not in test.result
    assert test.progress == {}
    assert test.lease_expires_at is None
    assert test.finished_at is not None


def test_a_point_a_turn(stand_in: StandIn) -> None:
    test = begin(1.0, 2.0)
    for count in (1, 2, 3):
        run_next()
        assert test.points.count() == count
    test.refresh_from_db()
    assert (test.state, test.attempt) == ("running", 0)


def test_a_knee_is_found_and_kept(stand_in: StandIn) -> None:
    test = work_off(begin(0.5, 64.0, mode="knee", repeats=3))
    knee = test.result["knee"]
    assert (test.state, knee["found"]) == ("done", True)
    assert knee["low"] <= 5.0 < knee["high"]
    assert knee["output_per_s"] == pytest.approx(20 * knee["low"])


def test_a_sweep_then_a_search_between_its_loads(stand_in: StandIn) -> None:
    test = work_off(begin(1.0, 4.0, 8.0, mode="sweep+knee"))
    found = points_of(test)
    assert [purpose for purpose, _, _ in found[:6]] == ["sweep"] * 6
    assert all(4.0 <= load <= 8.0 for purpose, load, _ in found if purpose == "knee")
    assert test.result["knee"]["found"]


def test_the_self_test_comes_first_at_the_highest_load_and_counts_in_nothing(
    stand_in: StandIn,
) -> None:
    test = work_off(begin(1.0, 3.0, self_test=True))
    assert points_of(test)[0] == ("self_test", 3.0, 0)
    assert stand_in.asked[0]["job"]["target"]["kind"] == "null"
    assert test.result["points"] == 4
    assert test.result["self_test"]["ttft_p99_ms"] == 300.0


def test_each_point_has_a_seed_of_its_own(stand_in: StandIn) -> None:
    work_off(begin(1.0, 2.0, 3.0))
    seeds = [each["job"]["seed"] for each in stand_in.asked]
    assert len(set(seeds)) == len(seeds) == 6


def test_the_same_plan_asks_the_same_jobs(stand_in: StandIn) -> None:
    for _ in range(2):
        work_off(begin(1.0, 2.0))
    jobs = [each["job"] for each in stand_in.asked]
    assert jobs[:4] == jobs[4:]


def test_records_are_kept_with_their_point(stand_in: StandIn) -> None:
    test = work_off(begin(1.0, repeats=1))
    point = LoadPoint.objects.get(test=test)
    assert json.loads(gzip.decompress(bytes(point.records)))["outcome"] == "complete"


def test_the_generator_gets_no_secret_of_the_site(stand_in: StandIn) -> None:
    work_off(begin(1.0, repeats=1))
    assert stand_in.asked[0]["env"] == {}


def test_a_key_is_in_the_environment_of_the_generator_and_nowhere_else(stand_in: StandIn) -> None:
    test = begin(1.0, repeats=1, held=True)
    test.target = {"kind": "openai", "url": "http://127.0.0.1:9/v1"}
    test.save(update_fields=["target"])
    run_here(test, key="sk-very-secret")
    asked = stand_in.asked[0]
    assert asked["env"] == {"LOADTEST_KEY": "sk-very-secret"}
    assert "secret" not in json.dumps(asked["job"])
    test.refresh_from_db()
    row = {field.name: str(getattr(test, field.name)) for field in LoadTest._meta.fields}
    assert "secret" not in json.dumps(row)


@pytest.mark.parametrize("behaviour", ["garbage", "endless line", "dies", "nan", "nul", "odd"])
def test_a_generator_that_fails_is_tried_again_and_then_told(
    stand_in: StandIn, behaviour: str
) -> None:
    stand_in.behave(behaviour)
    test = work_off(begin(1.0))
    assert (test.state, test.points.count()) == ("failed", 0)
    assert test.error_code == ("generator_died" if behaviour == "dies" else "generator_garbage")
    assert len(stand_in.asked) == claims.ATTEMPTS_MAX
    assert test.result["message"]


def test_a_generator_that_floods_is_cut_off(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.capacity.loadtests.generating.OUTPUT_BYTES_MAX", 1_000_000)
    stand_in.behave("flood")
    assert work_off(begin(1.0)).error_code == "generator_flood"


def test_a_generator_that_hangs_is_ended(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.capacity.loadtests.generating.longest_s", lambda job: 0.3)
    stand_in.behave("deaf")
    assert work_off(begin(1.0)).error_code == "generator_hung"


def test_a_failure_that_passes_costs_one_attempt(stand_in: StandIn) -> None:
    test = begin(1.0, repeats=1)
    stand_in.behave("dies")
    run_next()
    test.refresh_from_db()
    assert (test.state, test.error_code) == ("running", "generator_died")
    stand_in.behave("well")
    test = work_off(test)
    assert (test.state, test.error_code, test.points.count()) == ("done", "", 1)


def test_a_server_that_is_down_fails_the_test_with_words(stand_in: StandIn) -> None:
    stand_in.behave("down")
    test = work_off(begin(1.0))
    assert (test.state, test.error_code) == ("failed", "target_down")
    assert test.result["message"] == "Nobody is there."


def test_what_cannot_be_measured_is_not_tried_again(stand_in: StandIn) -> None:
    stand_in.behave("invalid")
    test = work_off(begin(1.0))
    assert (test.state, test.error_code, len(stand_in.asked)) == ("failed", "workload_invalid", 1)


def test_records_outside_of_the_points_folder_are_not_read(stand_in: StandIn) -> None:
    stand_in.behave("elsewhere")
    test = work_off(begin(1.0, repeats=1))
    assert bytes(LoadPoint.objects.get(test=test).records) == b""


def test_odd_progress_is_left_out(stand_in: StandIn) -> None:
    stand_in.behave("odd progress")
    told: list[dict[str, Any]] = []
    run_here(begin(1.0, repeats=1, held=True), on_progress=told.append)
    assert told
    assert all("<b>" not in each and "sent" not in each for each in told)


def test_progress_says_what_is_under_way(stand_in: StandIn) -> None:
    told: list[dict[str, Any]] = []
    run_here(begin(1.0, 2.0, held=True), on_progress=told.append)
    assert told[0]["purpose"] == "sweep"
    assert (told[0]["load"], told[0]["done"], told[0]["of"]) == (1.0, 0, 4)
    assert told[-1]["done"] == 3
    assert all(each["seconds_left"] >= 0 for each in told)


def test_a_test_that_is_stopped_while_it_waits_never_begins(stand_in: StandIn) -> None:
    test = begin(1.0)
    assert stop_test(test_id=test.id, user=None)
    run_next()
    test.refresh_from_db()
    assert (test.state, stand_in.asked) == ("cancelled", [])


def test_a_test_that_is_stopped_under_way_keeps_what_it_measured(stand_in: StandIn) -> None:
    stand_in.behave("slow")
    test = begin(1.0, mode="knee", held=True)
    test = run_here(test, on_progress=lambda progress: stop_test(test_id=test.id, user=None))
    assert test.state == "cancelled"
    point = LoadPoint.objects.get(test=test)
    assert (point.figures["stopped"], point.figures["requests"]) == (True, 5)
    assert (test.result["ended"], test.result["knee"]["reason"]) == ("stopped", "stopped")
    assert test.lease_expires_at is None
    assert test.finished_at is not None


def test_a_commands_test_is_held_from_point_to_point(stand_in: StandIn) -> None:
    """A worker that took the next point would not have the key that the command was given."""
    test = begin(1.0, 2.0, held=True)
    between: list[object] = []

    def look(progress: dict[str, Any]) -> None:
        between.append(claims.take())

    test = run_here(test, on_progress=look)
    assert test.state == "done"
    assert test.fence == 1
    assert between
    assert set(between) == {None}


def test_whoever_watches_may_stop_it(stand_in: StandIn) -> None:
    stand_in.behave("slow")
    test = run_here(begin(1.0, held=True), on_progress=lambda progress: True)
    assert (test.state, test.points.count()) == ("cancelled", 1)


def test_a_deaf_generator_is_killed_when_its_test_is_stopped(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.capacity.loadtests.generating.STOP_S", 0.2)
    stand_in.behave("deaf")
    test = run_here(begin(1.0, held=True), on_progress=lambda progress: True)
    assert (test.state, test.points.count()) == ("cancelled", 0)


def test_a_test_that_is_deleted_under_way_leaves_nothing(stand_in: StandIn) -> None:
    stand_in.behave("slow")
    test = begin(1.0)

    def delete(progress: dict[str, Any]) -> None:
        LoadTest.objects.filter(id=test.id).delete()

    claim = claims.take()
    assert claim is not None
    working.turn(claim, on_progress=delete)
    assert LoadPoint.objects.count() == LoadTest.objects.count() == 0


def test_a_worker_that_was_thought_dead_writes_nothing(stand_in: StandIn) -> None:
    stand_in.behave("slow")
    test = begin(1.0)
    old = claims.take()
    assert old is not None

    def lose(progress: dict[str, Any]) -> None:
        LoadTest.objects.filter(id=test.id).update(lease_expires_at=None)
        assert claims.take() is not None

    working.turn(old, on_progress=lose)
    test.refresh_from_db()
    assert (test.points.count(), test.fence, test.state) == (0, 2, "running")


def test_a_worker_that_ends_hands_its_test_over(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = begin(1.0)
    stand_in.behave("slow")
    measuring.closing.set()
    try:
        run_next()
    finally:
        measuring.closing.clear()
    test.refresh_from_db()
    assert (test.state, test.attempt, test.points.count()) == ("running", 0, 0)
    stand_in.behave("well")
    assert work_off(test).state == "done"


def test_one_test_at_a_time(stand_in: StandIn) -> None:
    first, second = begin(1.0), begin(1.0)
    claim = claims.take()
    assert claim is not None
    assert claim.test_id == first.id
    assert claims.take() is None
    assert claims.take(second.id) is None
    claims.give_back(claim)
    again = claims.take()
    assert again is not None
    assert again.test_id == first.id


def test_no_test_begins_before_the_generator_of_a_stopped_one_has_ended(
    stand_in: StandIn,
) -> None:
    first, second = begin(1.0), begin(1.0)
    claim = claims.take()
    assert claim is not None
    stop_test(test_id=first.id, user=None)
    assert claims.take() is None
    claims.release(claim)
    taken = claims.take()
    assert taken is not None
    assert taken.test_id == second.id


def test_a_killed_workers_test_goes_on_once_its_lease_has_run_out(stand_in: StandIn) -> None:
    test = begin(1.0, repeats=2)
    run_next()
    claim = claims.take()  # and its worker dies
    assert claim is not None
    run_next()
    assert test.points.count() == 1
    LoadTest.objects.filter(id=test.id).update(lease_expires_at=Now())
    assert work_off(test).state == "done"
    assert points_of(test) == [("sweep", 1.0, 0), ("sweep", 1.0, 1)]


def test_a_test_that_kills_its_workers_is_given_up(stand_in: StandIn) -> None:
    test = begin(1.0)
    for _ in range(claims.ATTEMPTS_MAX):
        assert claims.take() is not None
        LoadTest.objects.filter(id=test.id).update(lease_expires_at=None)
    assert claims.take() is None
    test.refresh_from_db()
    assert (test.state, test.error_code) == ("failed", "kept_crashing")


@pytest.mark.parametrize(
    "hostile",
    [
        {"plan": []},
        {"plan": {"mode": "knee"}},
        {"plan": "x"},
        {"target": {"kind": "openai", "url": 5}},
        {"workload": {"kind": "trace", "rows": []}},
        {"workload": 7},
        {"workload": {**WORKLOAD.model_dump(mode="json"), "rows": [{"at_s": -1}]}},
    ],
    ids=str,
)
def test_rows_that_cannot_be_read_fail_and_stop_nobody_else(
    stand_in: StandIn, hostile: dict[str, Any]
) -> None:
    first, second = begin(1.0, repeats=1), begin(1.0, repeats=1)
    LoadTest.objects.filter(id=first.id).update(**hostile)
    run_next()
    first.refresh_from_db()
    assert (first.state, first.error_code) == ("failed", "unreadable")
    assert work_off(second).state == "done"


@pytest.mark.parametrize("hostile", [[], "x", 7, {"sources": [1]}], ids=str)
def test_odd_conditions_keep_nobody_from_measuring(stand_in: StandIn, hostile: object) -> None:
    test = begin(1.0, repeats=1)
    LoadTest.objects.filter(id=test.id).update(conditions=hostile)
    assert work_off(test).state == "done"
    assert run_again(test_id=test.id, user=None).state == "waiting"


def test_points_that_cannot_be_read_fail_their_test(stand_in: StandIn) -> None:
    test = begin(1.0)
    run_next()
    LoadPoint.objects.filter(test=test).update(figures={"requests": "<b>"})
    assert work_off(test).error_code == "unreadable"


def test_a_row_that_names_another_machine_is_refused(stand_in: StandIn) -> None:
    """Whatever wrote it: no request leaves for a host that nobody has named."""
    test = begin(1.0)
    target = {"kind": "openai", "url": "http://192.0.2.1/v1"}
    LoadTest.objects.filter(id=test.id).update(target=target)
    test = work_off(test)
    assert (test.state, test.error_code, stand_in.asked) == ("failed", "target_refused", [])


def test_time_that_has_run_out_ends_a_test_with_what_it_has(stand_in: StandIn) -> None:
    test = begin(1.0, 64.0, mode="knee", most_s=2.0)
    run_next()
    LoadTest.objects.filter(id=test.id).update(started_at="2020-01-01T00:00Z")
    test = work_off(test)
    assert (test.state, test.result["ended"]) == ("done", "out_of_time")
    assert (test.result["knee"]["found"], test.result["knee"]["low"]) == (False, 1.0)


def test_requests_are_bounded_over_the_whole_test(stand_in: StandIn) -> None:
    test = work_off(begin(100.0, repeats=20, most_requests=100))
    assert test.result["ended"] == "out_of_requests"
    assert test.points.count() == 2  # of 40 requests each: the third would have 20


def test_a_test_is_run_again_with_another_seed_and_what_was_typed(
    stand_in: StandIn, cast: Cast
) -> None:
    first = work_off(begin(1.0, repeats=1, conditions={"engine": "typed here"}))
    again = run_again(test_id=first.id, user=cast.olga)
    assert again.rerun_of == first
    assert again.plan["seed"] != first.plan["seed"]
    assert {**again.plan, "seed": 0} == {**first.plan, "seed": 0}
    assert again.conditions["engine"] == "typed here"
    same = run_again(test_id=first.id, user=cast.olga, same_seed=True)
    assert same.plan == first.plan


def test_a_test_without_a_seed_gets_one(stand_in: StandIn) -> None:
    seeds = {begin(1.0, seed=0).plan["seed"] for _ in range(3)}
    assert len(seeds) == 3
    assert 0 not in seeds


def test_what_people_do_is_in_the_audit_trail(stand_in: StandIn, cast: Cast) -> None:
    test = begin(1.0, user=cast.olga)
    stop_test(test_id=test.id, user=cast.olga)
    assert delete_test(test_id=test.id, user=cast.olga)
    events = AuditEvent.objects.filter(subject_id=str(test.id)).order_by("at")
    assert [(event.action, event.actor_id) for event in events] == [
        ("load_test.started", cast.olga.id),
        ("load_test.stopped", cast.olga.id),
        ("load_test.deleted", cast.olga.id),
    ]


def test_stopping_what_has_ended_changes_nothing(stand_in: StandIn) -> None:
    test = work_off(begin(1.0, repeats=1))
    assert not stop_test(test_id=test.id, user=None)
    test.refresh_from_db()
    assert test.state == "done"


def test_the_machine_and_its_load_are_noted_when_a_test_begins(stand_in: StandIn) -> None:
    test = work_off(begin(1.0, repeats=1))
    client = test.conditions["client"]
    assert client["cores"] >= 1
    assert client["load_average"] >= 0
    assert client["memory_bytes"] > 2**28


def test_figures_come_back_as_they_were_kept(stand_in: StandIn) -> None:
    test = work_off(begin(1.0, repeats=1))
    [done] = read_done(test)
    assert (done.purpose, done.load, done.figures.requests) == ("sweep", 1.0, 40)
