"""Gates of routes, through the real pipeline with servers that answer as told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.documents.models import Collection
from apps.evals.answering import claims, judging, working
from apps.evals.answering.judging import Budgets
from apps.evals.answering.working import answer_next, stop_gate, work
from apps.evals.errors import GateImpossible, NothingToMeasure
from apps.evals.models import AnswerResult, AnswerRun, LabelledQuestion
from apps.gateway.calling import catalogue
from apps.gateway.calling.serving import serving_of
from apps.gateway.models import (
    CachedResponse,
    GatewayModel,
    GatewayRoute,
    GatewayUpstream,
    LedgerEntry,
    RouteApproval,
)
from apps.tenants.models import Measure
from apps.tenants.scope import tenant_scope
from tests.evals.gating import NOT_FOUND, Scene, few_will_do, finish, open_scene, well
from tests.evals.labelled import TOPICS, add_question, make_set
from tests.gateway.spending import limit
from tests.real_parts import KEY
from tests.retrieval.conftest import (  # noqa: F401 - fixtures
    collection,
    embedder,
    reranker,
    tenant,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("embedder", "reranker"),
]


@pytest.fixture
def scene(
    collection: Collection,  # noqa: F811
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Scene]:
    few_will_do(monkeypatch)
    settings.TGI_URL = settings.OPENAI_URL = ""
    with open_scene(collection) as opened:
        yield opened


def rows(run: AnswerRun, metric: str = "answer_match") -> dict[str, dict[str, Any]]:
    return {each["slice"]: each for each in run.figures["rows"] if each["metric"] == metric}


def results(run: AnswerRun) -> list[AnswerResult]:
    with tenant_scope(run.tenant_id):
        return list(AnswerResult.objects.filter(tenant_id=run.tenant_id, run=run))


def badly_about(*topics: str) -> Any:
    """As well as before, but for some topics, of which it says something else."""

    def speaks(prompt: str) -> str:
        question = prompt.rpartition("Question:")[2]
        if any(topic in question for topic in topics):
            return "Nobody wrote that down anywhere. [1]"
        return well(prompt)

    return speaks


def test_a_candidate_as_good_as_what_is_in_force_passes_and_is_routed_to(scene: Scene) -> None:
    assert scene.offered() == ["old"]
    run = finish(scene.start())
    assert (run.state, run.verdict, run.error_code) == ("done", "passed", "")
    assert rows(run)["all/every question"]["in_force"] == 1
    assert rows(run, "citation_precision")["all/every question"]["candidate"] == 1
    assert scene.offered() == ["old", "new"]
    assert RouteApproval.objects.get(how="gate").gate_id == run.id


def test_one_that_regresses_in_a_slice_under_a_better_average_fails(scene: Scene) -> None:
    # In force, the whole office slice is wrong; the candidate is right there, and loses one of
    # eight in benefits.
    scene.in_force.speaks = badly_about("laptop", "badge", "travel", "training")
    scene.candidate.speaks = badly_about("really are the pension")
    run = finish(scene.start(budgets=Budgets(default=0.05)))
    assert run.verdict == "failed"
    found = rows(run)
    assert found["all/every question"]["candidate"] > found["all/every question"]["in_force"]
    assert found["own/benefits"]["verdict"] == "beyond"
    assert found["own/office"]["verdict"] == "within"
    assert scene.offered() == ["old"]
    assert not RouteApproval.objects.filter(how="gate").exists()


def test_a_candidate_is_not_offered_while_its_gate_runs(scene: Scene) -> None:
    run = scene.start()
    claim = claims.take()
    assert claim is not None
    work(claim, until=0)
    run.refresh_from_db()
    assert (run.state, run.done) == ("running", 1)
    assert scene.offered() == ["old"]


def test_every_question_is_asked_of_both_and_booked_as_evaluation(scene: Scene) -> None:
    run = finish(scene.start(sample=4))
    assert (run.done, run.total, run.verdict) == (4, 4, "undecided")
    assert scene.in_force.asked == scene.candidate.asked == 4
    booked = LedgerEntry.objects.all()
    assert set(booked.values_list("source", flat=True)) == {"evaluation"}
    assert booked.filter(upstream="new").count() == booked.filter(upstream="old").count() == 4
    assert not CachedResponse.objects.exists()


def test_abstention_is_judged_both_ways(scene: Scene) -> None:
    for topic in TOPICS:
        add_question(
            scene.labelled_set,
            f"Who broke the {topic} rules?",
            unanswerable=True,
            key=f"who {topic}",
        )
    scene.candidate.speaks = lambda prompt: well(prompt).replace(NOT_FOUND, "Somebody is. [1]")
    run = finish(scene.start())
    asked = rows(run, "abstention")
    unanswerable = asked["answers/unanswerable"]
    assert (unanswerable["questions"], unanswerable["in_force"]) == (8, 1)
    assert unanswerable["candidate"] == 0
    assert asked["answers/answerable"]["candidate"] == 1
    assert run.verdict == "failed"


def test_a_gate_goes_on_from_where_it_was_killed(scene: Scene) -> None:
    run = scene.start(sample=4)
    claim = claims.take()
    assert claim is not None
    work(claim, until=0)
    AnswerRun.objects.filter(id=run.id).update(lease_expires_at=timezone.now() - timedelta(hours=1))
    second = claims.take()
    assert second is not None
    assert second.fence == claim.fence + 1
    work(claim, until=10**12)  # the one that was thought dead changes nothing
    run.refresh_from_db()
    assert run.done == 1
    work(second, until=10**12)
    run.refresh_from_db()
    assert (run.state, run.done, len(results(run))) == ("done", 4, 4)


def test_a_gate_is_stopped(scene: Scene) -> None:
    run = scene.start()
    claim = claims.take()
    assert claim is not None
    work(claim, until=0)
    assert stop_gate(run.id)
    work(claim, until=10**12)
    run.refresh_from_db()
    assert (run.state, run.verdict, run.done) == ("cancelled", "", 1)
    assert not stop_gate(run.id)
    assert scene.offered() == ["old"]


def test_only_one_gate_runs_at_a_time(scene: Scene) -> None:
    scene.start()
    scene.start()
    assert claims.take() is not None
    assert claims.take() is None


def change_candidate(scene: Scene) -> None:
    GatewayRoute.objects.filter(id=scene.route.id).update(precision="INT4")


def change_candidates_server(scene: Scene) -> None:
    GatewayUpstream.objects.filter(name="new").update(url=scene.in_force.url)


def change_in_force(scene: Scene) -> None:
    GatewayRoute.objects.filter(id=scene.base.id).update(engine="another")


def change_model(scene: Scene) -> None:
    GatewayModel.objects.filter(alias="large").update(alias="huge")


def withdraw(scene: Scene) -> None:
    RouteApproval.objects.all().delete()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (change_candidate, "candidate_changed"),
        (change_candidates_server, "candidate_changed"),
        (change_in_force, "in_force_changed"),
        (change_model, "in_force_changed"),
        (withdraw, "in_force_changed"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_changes_meanwhile_ends_the_gate_and_approves_nothing(
    scene: Scene, change: Any, code: str
) -> None:
    run = scene.start()
    claim = claims.take()
    assert claim is not None
    work(claim, until=0)
    change(scene)
    finish(run)
    assert (run.state, run.error_code, run.verdict) == ("failed", code, "")
    assert not RouteApproval.objects.filter(how="gate").exists()


def test_a_change_at_the_last_moment_leaves_the_verdict_without_effect(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.start()
    inner = judging.judge

    def judged(*args: Any, **kwargs: Any) -> Any:
        change_in_force(scene)
        return inner(*args, **kwargs)

    monkeypatch.setattr(working, "judge", judged)
    finish(run)
    assert (run.state, run.verdict) == ("done", "outdated")
    assert not RouteApproval.objects.filter(how="gate").exists()


def test_a_route_in_force_needs_no_gate(scene: Scene) -> None:
    with pytest.raises(GateImpossible, match="in force already"):
        scene.start(route_id=scene.base.id)


def test_without_anything_in_force_there_is_nothing_to_compare(scene: Scene) -> None:
    scene.base.delete()
    with pytest.raises(GateImpossible, match="nothing to compare with"):
        scene.start()


@pytest.mark.parametrize(
    "wish",
    [
        {"sample": 0},
        {"sample": 10**9},
        {"seed": -1},
        {"seed": 2**40},
        {"needle_repeats": 0},
        {"route_id": 10**9},
        {"changes": {"alias": "x"}},
        {"changes": {"prompt": "shout"}},
        {"changes": {"context_tokens": 1}},
        {"changes": {"passages": -3}},
        {"changes": {"max_tokens": -3}},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_in_words(scene: Scene, wish: dict[str, Any]) -> None:
    with pytest.raises(GateImpossible):
        scene.start(**wish)
    assert not AnswerRun.objects.exists()


def test_a_set_without_questions_measures_nothing(scene: Scene, collection: Collection) -> None:  # noqa: F811
    with pytest.raises(NothingToMeasure):
        scene.start(labelled_set=make_set(collection, name="Empty"))


def test_a_question_that_is_deleted_meanwhile_is_left_out(scene: Scene) -> None:
    run = scene.start(sample=5)
    with tenant_scope(scene.tenant.id):
        LabelledQuestion.objects.filter(tenant_id=scene.tenant.id, id=run.chosen[0]).delete()
    finish(run)
    assert (run.figures["questions"], run.figures["left_out"]) == (4, 1)


@pytest.mark.slow
def test_new_figures_of_a_model_are_rehearsed_with_needles(scene: Scene) -> None:
    run = finish(scene.start(route_id=scene.base.id, changes={"context_tokens": 4096}))
    assert run.total == 16 + 8
    assert rows(run, "needle_found")["needle/long contexts"]["questions"] == 8
    assert run.verdict == "failed"  # what lies deeper than the new context is lost
    assert {each["side"] for each in run.figures["needles"]} == {"in_force", "candidate"}


@pytest.mark.slow
def test_a_larger_context_passes_and_the_change_takes_nothing_out_of_service(scene: Scene) -> None:
    run = finish(scene.start(route_id=scene.base.id, changes={"context_tokens": 16384}))
    assert run.verdict == "passed", run.figures
    GatewayModel.objects.filter(alias="large").update(context_tokens=16384)
    assert scene.offered() == ["old"]


def test_a_server_that_is_away_fails_the_gate(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "PAUSE_S", 0.0)
    GatewayUpstream.objects.filter(name="new").update(url="http://127.0.0.1:9")
    run = finish(scene.start(sample=3))
    assert (run.state, run.error_code) == ("failed", "generator_down")
    assert not results(run)


def test_a_budget_that_is_used_up_ends_the_gate(scene: Scene) -> None:
    limit(scene.tenant, Measure.TOKENS_PER_DAY, 1)
    run = finish(scene.start(sample=3))
    assert (run.state, run.error_code) == ("failed", "insufficient_quota")


def test_what_is_left_is_taken_up_again_when_the_broker_forgot(scene: Scene) -> None:
    from apps.evals.scheduling import wake_for_runs

    run = scene.start(sample=2)
    assert claims.is_due()
    wake_for_runs()
    answer_next()
    run.refresh_from_db()
    assert run.state == "done"
    assert not claims.is_due()
    catalogue.forget()


@pytest.mark.slow
def test_the_real_engine_passes_a_gate_against_itself(
    scene: Scene, engine_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_KEY_ENGINE", KEY)
    GatewayUpstream.objects.update(
        kind="openai", url=engine_url, key_variable="UPSTREAM_KEY_ENGINE", max_concurrency=1
    )
    GatewayModel.objects.update(prompt="extractive", context_tokens=2048, max_tokens=32, passages=1)
    base = GatewayRoute.objects.select_related("model", "upstream").get(id=scene.base.id)
    RouteApproval.objects.update(fingerprint=serving_of(base).fingerprint)
    run = finish(scene.start(sample=4))
    assert (run.state, run.error_code) == ("done", "")
    # The same engine at temperature 0, asked in turn: no question is answered otherwise.
    assert {row["candidate"] - row["in_force"] for row in run.figures["rows"]} == {0}
    assert all(
        each.answers[side]["text"] for each in results(run) for side in ("in_force", "candidate")
    )
