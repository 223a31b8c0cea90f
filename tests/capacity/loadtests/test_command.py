"""`manage.py loadtest`: what is typed, told and refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.capacity.loadtests import targets
from apps.capacity.loadtests.conditions import gather_conditions
from apps.capacity.models import LoadTest
from tests.capacity.factories import make_test
from tests.capacity.loadtests.conftest import NULL, StandIn

pytestmark = pytest.mark.django_db

QUICK = ("--duration=1", "--repeats=2", "--requests=40", "--no-self-test")


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> None:
    """The stand-in needs no target: nobody is asked what they are."""

    def gather(target: object, *, typed: dict[str, Any], key: str = "") -> dict[str, Any]:
        return gather_conditions(NULL, typed=typed)

    monkeypatch.setattr("apps.capacity.loadtests.services.gather_conditions", gather)


def loadtest(*arguments: str) -> str:
    out = io.StringIO()
    call_command("loadtest", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def start(*arguments: str) -> str:
    return loadtest("--url=http://127.0.0.1:9/v1", *QUICK, *arguments)


def test_a_sweep_ends_with_a_table() -> None:
    said = start("--rates=1,2", "--promise", "ttft:500", "tpot:50")
    test = LoadTest.objects.get()
    assert (test.state, test.points.count()) == ("done", 4)
    lines = said.splitlines()
    assert any(line.split()[:3] == ["2", "80", "0"] for line in lines)
    assert str(test.id) in said
    assert test.plan["promises"]["ttft_ms"] == 500
    assert test.plan["promises"]["tpot_ms"] == 50


def test_a_knee_is_told_in_a_sentence() -> None:
    said = start("--rates=1,32", "--knee", "--promise", "e2e=3000", "--share=0.9")
    test = LoadTest.objects.get()
    assert test.result["knee"]["found"]
    assert test.plan["mode"] == "knee"
    assert "95 % interval" in said


def test_json_has_vllms_names() -> None:
    told = json.loads(start("--concurrency=2,4", "--json"))
    assert [point["max_concurrency"] for point in told["points"]] == [2, 4, 2, 4]
    point = told["points"][0]
    for name in ("duration", "completed", "failed", "request_throughput", "p99_ttft_ms"):
        assert name in point, name


def test_what_the_figures_hold_for_can_be_typed() -> None:
    start("--rates=1", "--condition=precision=FP8", "--condition=gpus=2", "--hour-price=2.5")
    conditions = LoadTest.objects.get().conditions
    assert (conditions["precision"], conditions["gpus"]) == ("FP8", 2)
    assert conditions["hour_micros"] == 2_500_000


def test_a_trace_is_replayed(tmp_path: Path, stand_in: StandIn) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"t": 0, "in": 50, "out": 5}\n{"t": 1.5, "in": 60, "out": 6}\n')
    start("--rates=1,2", "--arrivals=trace", "--workload", "trace", str(trace))
    job = stand_in.asked[0]["job"]
    assert job["arrivals"] == {"kind": "trace", "load": 1.0}
    assert [row["at_s"] for row in job["workload"]["rows"]] == [0.0, 1.5]


def test_a_key_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    monkeypatch.setenv("LOADTEST_KEY", "sk-secret")
    said = start("--rates=1")
    assert stand_in.asked[0]["env"] == {"LOADTEST_KEY": "sk-secret"}
    assert "sk-secret" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--rates or --concurrency"),
        (("--rates=1", "--concurrency=1"), "--rates or --concurrency"),
        (("--rates=x",), "no number"),
        (("--rates=nan",), "no number"),
        (("--rates=-1",), "greater than 0"),
        (("--rates=0",), "greater than 0"),
        (("--rates=1e999",), "no number"),
        (("--concurrency=1.5",), "whole numbers"),
        (("--rates=1", "--knee"), "give one"),
        (("--rates=1", "--promise", "speed:5"), "no promise"),
        (("--rates=1", "--promise", "ttft:-5"), "greater than 0"),
        (("--rates=1", "--share=1.5"), "share"),
        (("--rates=1", "--repeats=0"), "repeats"),
        (("--rates=1", "--duration=0"), "duration_s"),
        (("--rates=1", "--most-minutes=0.001"), "longer than the whole test"),
        (("--rates=1", "--most-minutes=100000"), "most_s"),
        (("--rates=1", "--workload", "poetry"), "--workload is"),
        (("--rates=1", "--workload", "trace", "/no/such/file"), "cannot be read"),
        (("--rates=1", "--workload", "ledger", "nobody"), "no tenant"),
        (("--rates=1", "--workload", "ledger", "all"), "no complete answer"),
        (("--rates=1", "--arrivals=trace"), "Only a trace"),
        (("--rates=1", "--prompt-tokens=0"), "greater than"),
        (("--rates=1", "--prompt-tokens=1,2,3"), "MEAN"),
        (("--rates=1", "--condition=colour=red"), "NAME=VALUE"),
        (("--rates=1", "--hour-price=-1"), "no price"),
        (("--rates=1", "--as=nobody@example.com"), "nobody of operations"),
        (("--rates=1", "--upstream=openai"), "one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_said_and_nothing_begins(
    arguments: tuple[str, ...], words: str, stand_in: StandIn
) -> None:
    with pytest.raises(CommandError, match=words):
        start(*arguments)
    assert not LoadTest.objects.exists()
    assert stand_in.asked == []


def test_another_host_is_tested_by_name_only() -> None:
    with pytest.raises(CommandError, match="not this machine"):
        loadtest("--url=http://192.0.2.1/v1", "--rates=1", *QUICK)
    loadtest("--url=http://192.0.2.1/v1", "--host=192.0.2.1", "--rates=1", *QUICK)
    assert LoadTest.objects.get().target["host"] == "192.0.2.1"


def test_a_test_that_failed_says_why(stand_in: StandIn) -> None:
    stand_in.behave("down")
    with pytest.raises(CommandError, match=r"Nobody is there\. \(target_down\)") as failed:
        start("--rates=1")
    assert failed.value.returncode == 1


def test_again_repeats_a_test_by_the_beginning_of_its_id() -> None:
    start("--rates=1", "--condition=engine=here")
    first = LoadTest.objects.get()
    loadtest("again", str(first.id)[:8])
    again = LoadTest.objects.exclude(id=first.id).get()
    assert (again.rerun_of_id, again.state) == (first.id, "done")
    assert again.conditions["engine"] == "here"
    assert again.plan["seed"] != first.plan["seed"]


def test_tests_are_listed_shown_and_compared() -> None:
    first = make_test(name="FP16")
    second = make_test(name="FP8\x1b[31m", conditions={"precision": "FP8"})
    assert "FP16" in loadtest("list")
    assert "\x1b" not in loadtest("list")
    assert str(first.id) in loadtest("show", str(first.id))
    said = loadtest("compare", str(first.id), str(second.id))
    assert "What differs" in said
    assert "FP8" in said
    assert "overlap" in said  # the same figures: none is better
    assert len(json.loads(loadtest("compare", str(first.id), str(second.id), "--json"))) == 2


def test_an_empty_list_says_how_to_begin() -> None:
    assert "loadtest --upstream" in loadtest("list")


@pytest.mark.parametrize(
    "arguments",
    [("again",), ("again", "nobody"), ("compare", "a"), ("show", "%"), ("start", "what")],
    ids=" ".join,
)
def test_tests_that_are_not_there_are_said_so(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        loadtest(*arguments)


def test_a_command_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.capacity.loadtests import claims
    from tests.capacity.loadtests.conftest import begin

    begin(1.0)
    assert claims.take() is not None
    with pytest.raises(CommandError, match="under way"):
        start("--rates=1")


def test_upstreams_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_chat_models", list)
    with pytest.raises(CommandError, match="none is configured"):
        loadtest("--upstream=x", "--rates=1")
