"""Runs: what they measure, and that they go on after whatever happens to their worker."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoDbBlocker, Settings

from apps.documents import services
from apps.documents.models import Collection, Document
from apps.evals import claims, running
from apps.evals.errors import NothingToMeasure
from apps.evals.figures import Result, summarise
from apps.evals.metrics import METRICS
from apps.evals.models import EvalRun, LabelledQuestion, LabelledSet, RunQuestion
from apps.evals.running import cancel_run, run_here, run_next, start_run
from apps.inference import errors
from apps.retrieval.options import SearchOptions
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.evals.labelled import (
    TOPICS,
    add_question,
    make_corpus,
    make_set,
    make_topic_set,
    results_of,
)
from tests.retrieval.conftest import (  # noqa: F401 - fixtures
    collection,
    embedder,
    reranker,
    tenant,
)
from tests.retrieval.corpus import CoverageReranker, WordEmbedder, make_collection

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("embedder", "reranker")]


@pytest.fixture
def corpus(collection: Collection) -> dict[str, Document]:  # noqa: F811
    return make_corpus(collection)


@pytest.fixture
def labelled_set(collection: Collection, corpus: dict[str, Document]) -> LabelledSet:  # noqa: F811
    return make_topic_set(collection, corpus)


def start(labelled_set: LabelledSet, **more: object) -> EvalRun:
    tenant = Tenant.objects.get(id=labelled_set.tenant_id)  # noqa: F811
    trigger = EvalRun.Trigger.MANUAL
    return start_run(tenant=tenant, labelled_set=labelled_set, trigger=trigger, **more)  # type: ignore[arg-type]


def finish(run: EvalRun, *, turns: int = 30) -> EvalRun:
    """As a worker does, message after message."""
    for _ in range(turns):
        if run.state not in claims.UNFINISHED:
            break
        EvalRun.objects.filter(id=run.id).update(lease_expires_at=None)
        run_next()
        run.refresh_from_db()
    return run


def test_a_run_measures_every_stage(labelled_set: LabelledSet) -> None:
    run = finish(start(labelled_set))
    assert (run.state, run.done, run.total) == ("done", len(TOPICS), len(TOPICS))
    stages = run.figures["stages"]
    assert set(stages) == {"bm25", "vectors", "fused", "reranked", "final"}
    assert all(set(values) == set(METRICS) for values in stages.values())
    assert stages["final"]["success@1"] == 1
    assert run.figures["questions"] == len(TOPICS)
    assert run.figures["missed"] == {"first_stage": 0, "placed_badly": 0, "found": len(TOPICS)}
    assert run.figures["hops"]["search"]["count"] == len(TOPICS)
    assert run.figures["degraded"] == {}
    assert run.figures["intervals"]["ndcg@10"] == [1.0, 1.0]
    assert run.finished_at is not None


def test_what_was_found_is_kept_with_places_and_grades(
    labelled_set: LabelledSet, corpus: dict[str, Document]
) -> None:
    run = finish(start(labelled_set))
    topics = {question.id: question.key for question in questions_of(labelled_set)}
    for result in results_of(run):
        _, document, start_char, end_char, _, grade = result.ranked["final"][0]
        assert document == str(corpus[topics[result.question_id]].id)
        assert (end_char > start_char, grade) == (True, 1)
        assert result.metrics["final"]["first_rank"] == 1
        assert set(result.hops) == {"embed", "search", "rerank"}


def questions_of(labelled_set: LabelledSet) -> list[LabelledQuestion]:
    with tenant_scope(labelled_set.tenant_id):
        return list(LabelledQuestion.objects.filter(labelled_set=labelled_set).order_by("key"))


def test_what_cannot_be_answered_is_told_apart_and_what_has_no_label_left_out(
    labelled_set: LabelledSet,
) -> None:
    add_question(labelled_set, "What is the price of zinc?", unanswerable=True)
    add_question(labelled_set, "Who has marked nothing here?")
    run = finish(start(labelled_set))
    assert (run.figures["questions"], run.figures["unanswerable"]) == (len(TOPICS), 1)
    assert run.total == len(TOPICS) + 1
    assert [len(row) for row in run.figures["refusals"]] == [3] * len(run.figures["refusals"])
    assert run.figures["refusals"]


def test_a_grade_of_zero_alone_is_no_answer(
    labelled_set: LabelledSet, corpus: dict[str, Document]
) -> None:
    add_question(labelled_set, "What of parking?", corpus["parking"], grade=0)
    assert start(labelled_set).total == len(TOPICS)


def test_a_set_without_labels_is_refused(collection: Collection) -> None:  # noqa: F811
    labelled_set = make_set(collection)
    add_question(labelled_set, "Who has marked nothing here?")
    with pytest.raises(NothingToMeasure):
        start(labelled_set)
    assert not EvalRun.objects.exists()


def test_slices_have_their_own_figures(
    labelled_set: LabelledSet, corpus: dict[str, Document]
) -> None:
    add_question(labelled_set, "pension rules", corpus["pension"], slices=["short", "money"])
    add_question(labelled_set, "canteen rules", corpus["laptop"], slices=["short"])
    slices = finish(start(labelled_set)).figures["slices"]
    assert slices["short"]["questions"] == 2
    assert slices["money"]["success@1"] == 1
    assert slices["short"]["success@1"] == 0.5


def test_the_same_questions_are_drawn_again_and_a_new_one_changes_little(
    labelled_set: LabelledSet, corpus: dict[str, Document]
) -> None:
    first, again, other = (
        {each.question_id for each in results_of(finish(start(labelled_set, sample=4, seed=seed)))}
        for seed in (1, 1, 2)
    )
    assert first == again != other
    add_question(labelled_set, "More on travel?", corpus["travel"], key="added")
    later = {each.question_id for each in results_of(finish(start(labelled_set, sample=4, seed=1)))}
    assert len(first & later) >= 3


def test_stages_that_nobody_looks_at_are_not_worked_for(
    labelled_set: LabelledSet,
    embedder: WordEmbedder,  # noqa: F811
) -> None:
    before = len(embedder.batches)
    run = finish(start(labelled_set, stages=["bm25"]))
    assert set(run.figures["stages"]) == {"bm25"}
    assert len(embedder.batches) == before
    assert run.figures["hops"]["rerank"]["skipped"] == len(TOPICS)
    assert run.figures["missed"]["found"] == len(TOPICS)
    assert not run.configuration["default"]


def test_a_run_is_of_the_options_it_was_started_with(labelled_set: LabelledSet) -> None:
    run = finish(start(labelled_set, options=SearchOptions(rerank=False, leg_candidates=7)))
    assert run.configuration["options"]["leg_candidates"] == 7
    assert run.configuration["reranker"] == "off"
    assert run.configuration["collection"] == {"documents": len(TOPICS), "chunks": 2 * len(TOPICS)}
    assert set(run.figures["stages"]) == {"bm25", "vectors", "fused", "final"}


def test_a_killed_run_goes_on_where_it_was(
    labelled_set: LabelledSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(labelled_set)
    killed_after(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        run_next()
    run.refresh_from_db()
    assert (run.state, run.done) == ("running", 3)
    run_next()
    run.refresh_from_db()
    assert run.done == 3, "its lease runs on"
    finish(run)
    assert (run.state, run.done, len(results_of(run))) == ("done", len(TOPICS), len(TOPICS))


def killed_after(monkeypatch: pytest.MonkeyPatch, questions: int) -> None:
    asked, ask = [0], running.ask

    def die(*arguments: object) -> RunQuestion:
        asked[0] += 1
        if asked[0] == questions + 1:
            raise KeyboardInterrupt
        return ask(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "ask", die)


def test_a_run_that_kills_its_worker_each_time_is_given_up(
    labelled_set: LabelledSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*arguments: object) -> RunQuestion:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "ask", die)
    run = start(labelled_set)
    for _ in range(claims.ATTEMPTS_MAX):
        with pytest.raises(KeyboardInterrupt):
            run_next()
        EvalRun.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    run_next()
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "kept_crashing")


def test_a_worker_that_was_thought_dead_changes_nothing(labelled_set: LabelledSet) -> None:
    run = start(labelled_set)
    late = claims.take()
    assert late is not None
    EvalRun.objects.update(lease_expires_at=None)
    assert claims.take() is not None
    running.work(late)
    run.refresh_from_db()
    assert (run.done, len(results_of(run))) == (0, 0)


def test_one_run_is_under_way_at_a_time_and_each_has_its_turn(
    labelled_set: LabelledSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SLICE_S", 0.0)
    one, two = start(labelled_set), start(labelled_set)
    claim = claims.take()
    assert claim is not None
    assert claims.take() is None
    claims.give_back(claim, got_further=True)
    for _ in range(4):
        run_next()
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.done, two.done) == (2, 2)


def test_a_cancelled_run_stops_at_the_next_question(
    labelled_set: LabelledSet,
    tenant: Tenant,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, ask = start(labelled_set), running.ask

    def cancelled_meanwhile(*arguments: object) -> RunQuestion:
        cancel_run(tenant=tenant, run_id=run.id)
        return ask(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "ask", cancelled_meanwhile)
    run_next()
    run.refresh_from_db()
    assert (run.state, run.done) == ("cancelled", 0)
    assert not cancel_run(tenant=tenant, run_id=run.id)
    assert claims.take() is None


def test_nobody_cancels_the_run_of_another_tenant(labelled_set: LabelledSet) -> None:
    stranger = Tenant.objects.create(slug="other", name="Other")
    run = start(labelled_set)
    assert not cancel_run(tenant=stranger, run_id=run.id)
    run.refresh_from_db()
    assert run.state == "waiting"


def test_a_run_waits_for_an_embedder_that_is_down(
    labelled_set: LabelledSet,
    embedder: WordEmbedder,  # noqa: F811
) -> None:
    run = start(labelled_set)
    embedder.failures = [errors.Unavailable("down"), errors.Unavailable("down")]
    run_next()
    run.refresh_from_db()
    assert (run.state, run.done) == ("running", 0)
    assert finish(run).figures["degraded"] == {}
    assert run.figures["stages"]["vectors"]["success@1"] == 1


def test_a_question_that_stays_degraded_is_counted_as_such(
    labelled_set: LabelledSet,
    reranker: CoverageReranker,  # noqa: F811
) -> None:
    reranker.failures = [errors.Unavailable("down")] * claims.ATTEMPTS_MAX
    run = finish(start(labelled_set))
    assert run.state == "done"
    assert run.figures["degraded"] == {"reranker_down": 1}


def test_without_an_embedder_a_run_fails_rather_than_measure_something_else(
    labelled_set: LabelledSet,
    embedder: WordEmbedder,  # noqa: F811
) -> None:
    embedder.failures = [errors.Unavailable("down")] * 100
    run = finish(start(labelled_set))
    assert (run.state, run.error_code) == ("failed", "embedder_down")
    assert run.figures == {}


def test_questions_and_documents_deleted_meanwhile_are_left_out(
    labelled_set: LabelledSet,
    corpus: dict[str, Document],
    tenant: Tenant,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "SLICE_S", 0.0)
    run = start(labelled_set)
    run_next()
    done = {each.question_id for each in results_of(run)}
    left = [each for each in questions_of(labelled_set) if each.id not in done]
    with tenant_scope(tenant.id):
        LabelledQuestion.objects.filter(id=left[0].id).delete()
    services.delete_document(tenant=tenant, document=corpus[left[1].key], actor=None)
    finish(run)
    assert (run.state, run.figures["questions"]) == ("done", len(TOPICS) - 2)


def test_a_question_deleted_while_it_is_asked_stops_nothing(
    labelled_set: LabelledSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ask = start(labelled_set), running.ask

    def deleted_meanwhile(plan: object, asked: object) -> RunQuestion:
        result = ask(plan, asked)  # type: ignore[arg-type]
        if not RunQuestion.objects.exists():
            with tenant_scope(labelled_set.tenant_id):
                LabelledQuestion.objects.filter(key="badge").delete()
        return result

    monkeypatch.setattr(running, "ask", deleted_meanwhile)
    assert finish(run).figures["questions"] == len(TOPICS) - 1


def test_a_set_deleted_meanwhile_ends_its_run(
    labelled_set: LabelledSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(labelled_set)
    ask = running.ask

    def deleted_meanwhile(*arguments: object) -> RunQuestion:
        result = ask(*arguments)  # type: ignore[arg-type]
        with tenant_scope(labelled_set.tenant_id):
            LabelledSet.objects.all().delete()
        return result

    monkeypatch.setattr(running, "ask", deleted_meanwhile)
    run_next()
    assert not EvalRun.objects.exists()


def test_labels_follow_a_document_to_its_next_version(
    labelled_set: LabelledSet,
    corpus: dict[str, Document],
    collection: Collection,  # noqa: F811
) -> None:
    replace_document(corpus["parking"])
    run = finish(start(labelled_set))
    assert run.figures["stages"]["final"]["recall@5"] == 1


def replace_document(old: Document) -> Document:
    """Another version under the same path is searched in its place."""
    from tests.evals.labelled import topic_document

    with tenant_scope(old.tenant_id):
        new = topic_document(old.collection, "parking")
        Document.objects.filter(id=old.id).update(state="superseded")
        Document.objects.filter(id=new.id).update(path=old.path, version=2)
    return new


def test_a_range_is_found_again_in_the_next_version_or_dropped(
    labelled_set: LabelledSet, corpus: dict[str, Document]
) -> None:
    from apps.documents.models import Page

    old = corpus["parking"]
    new = replace_document(old)
    with tenant_scope(old.tenant_id):
        for document, text in ((old, "Ask the porter. Then park."), (new, "New. Ask the porter.")):
            Page.objects.create(
                tenant_id=old.tenant_id, document=document, number=1, text=text, char_start=0
            )
    kept = add_question(labelled_set, "Whom to ask?", (old, 0, 15))
    add_question(labelled_set, "And then?", (old, 16, 26))
    run = finish(start(labelled_set))
    assert (run.figures["questions"], run.figures["lost"]) == (len(TOPICS) + 1, 1)
    [result] = [each for each in results_of(run) if each.question_id == kept.id]
    assert result.metrics["final"]["recall@100"] == 1


def test_a_run_reads_only_its_own_tenant(
    labelled_set: LabelledSet, corpus: dict[str, Document]
) -> None:
    stranger = Tenant.objects.create(slug="other", name="Other")
    theirs = make_collection(stranger)
    foreign = make_corpus(theirs, ["pension"])
    run = finish(start(labelled_set))
    seen = {row[1] for each in results_of(run) for row in each.ranked["fused"]}
    assert str(foreign["pension"].id) not in seen
    assert seen <= {str(document.id) for document in corpus.values()}


def test_a_command_sees_its_run_through_in_its_own_process(labelled_set: LabelledSet) -> None:
    told: list[tuple[int, int]] = []
    run = start(labelled_set, held=True)
    assert claims.take() is None, "a worker leaves it alone"
    run = run_here(run, on_progress=lambda done, total: told.append((done, total)))
    assert run.state == "done"
    assert told == [(done, len(TOPICS)) for done in range(1, len(TOPICS) + 1)]


def test_a_run_whose_index_was_dropped_fails(labelled_set: LabelledSet) -> None:
    run = start(labelled_set)
    gone = run.configuration | {"index": {"id": str(uuid.uuid4())}}
    EvalRun.objects.filter(id=run.id).update(configuration=gone)
    run_next()
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "index_gone")


@pytest.mark.django_db(transaction=True)
def test_two_workers_ask_each_question_once(
    labelled_set: LabelledSet, django_db_blocker: DjangoDbBlocker, settings: Settings
) -> None:
    from django.db import connection

    run = start(labelled_set)

    def work() -> None:
        for _ in range(3):
            run_next()
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    run.refresh_from_db()
    assert (run.state, run.done) == ("done", len(TOPICS))
    assert len(results_of(run)) == len(TOPICS)


def test_figures_of_no_question_at_all_are_figures() -> None:
    figures = summarise([], stages=["fused", "final"], limit=10, seed=0)
    assert figures["questions"] == 0
    assert (figures["stages"], figures["intervals"], figures["refusals"]) == ({}, {}, [])


def test_where_a_passage_was_lost_is_told() -> None:
    def result(first: float, last: float) -> Result:
        metrics = {
            "fused": dict.fromkeys(METRICS, 0.0) | {"recall@100": first},
            "final": dict.fromkeys(METRICS, 0.0) | {"success@10": last},
        }
        return Result(metrics, 0.5, 10, {}, (), False, ())

    results = [result(1, 1), result(1, 0), result(0, 0), result(0, 0)]
    figures = summarise(results, stages=["fused", "final"], limit=10, seed=0)
    assert figures["missed"] == {"first_stage": 2, "placed_badly": 1, "found": 1}


def test_runs_are_read_on_their_pages(cast: Cast) -> None:
    """What a run writes is what the pages read: no factory in between."""
    with tenant_scope(cast.acme.id):
        library = Collection.objects.create(tenant=cast.acme, name="Topics")
    theirs = make_topic_set(library, make_corpus(library))
    add_question(theirs, "What is the price of zinc?", unanswerable=True, slices=["metal"])
    before, after = (finish(start(theirs)) for _ in range(2))
    question = results_of(after)[0].question_id
    carl = signed_in(cast.carl)
    for page in (
        *("", f"runs/{after.id}/", f"runs/{after.id}/questions/{question}/"),
        f"compare/{before.id}/{after.id}/",
    ):
        response = carl.get(f"/t/acme/quality/{page}")
        assert response.status_code == 200, page
