"""Whose turn it is, who holds a job, and that nobody else changes anything."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from time import perf_counter
from typing import TypeVar

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from apps.documents import jobs, sweeping
from apps.documents.models import Collection, Document, DocumentState, Job, Stage
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.worker.test_enqueue import purge
from worker.enqueue import queue_length

pytestmark = pytest.mark.django_db

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    purge()
    yield
    purge()


def make_library(slug: str) -> Collection:
    tenant = Tenant.objects.create(slug=slug, name=slug)
    with tenant_scope(tenant.id):
        return Collection.objects.create(tenant=tenant, name="Library")


def queue(collection: Collection, count: int = 1, stage: Stage = Stage.INGEST) -> list[Document]:
    made = [
        Document(
            tenant_id=collection.tenant_id,
            collection=collection,
            path=f"{uuid.uuid4()}.txt",
            name="a.txt",
            size_bytes=1,
            sha256=uuid.uuid4().hex,
            storage_key="none",
        )
        for _ in range(count)
    ]
    with tenant_scope(collection.tenant_id):
        Document.objects.bulk_create(made)
        for document in made:
            jobs.submit(document, stage)
    return made


def take(lease_s: float | None = None) -> jobs.Claim:
    claim = jobs.take(Stage.INGEST, lease_s=lease_s)
    assert claim is not None
    return claim


def finish(claim: jobs.Claim) -> None:
    with tenant_scope(claim.tenant_id):
        assert jobs.hold(claim)
        jobs.mark_ready(claim)


def serve() -> uuid.UUID | None:
    """One worker's next document, start to end; whose it was."""
    claim = jobs.take(Stage.INGEST)
    if claim is None:
        return None
    finish(claim)
    return claim.tenant_id


def reload(document: Document) -> Document:
    with tenant_scope(document.tenant_id):
        return Document.objects.get(id=document.id)


def expire(**which: object) -> None:
    Job.objects.filter(**which).update(lease_expires_at=timezone.now() - timedelta(seconds=1))


# Fairness


def test_the_only_document_of_a_tenant_is_next_but_one_behind_five_hundred() -> None:
    big, small = make_library("big"), make_library("small")
    queue(big, 500)
    for _ in range(100):
        serve()
    queue(small)
    assert small.tenant_id in [serve(), serve()]


def test_it_is_next_while_another_is_being_served() -> None:
    big, small = make_library("big"), make_library("small")
    queue(big, 50)
    serve()
    held = take()
    queue(small)
    assert serve() == small.tenant_id
    finish(held)


def test_a_tenants_documents_come_in_the_order_they_were_sent() -> None:
    sent = queue(make_library("a"), 20)
    served = []
    while (claim := jobs.take(Stage.INGEST)) is not None:
        served.append(claim.document_id)
        finish(claim)
    assert served == [document.id for document in sent]


@pytest.mark.parametrize("seed", range(6))
def test_of_tenants_that_have_work_waiting_none_is_served_two_more_than_another(
    seed: int, settings: Settings
) -> None:
    """Goyal's theorem 1, with one worker or two: the lead is bounded whatever arrives when."""
    chance = random.Random(seed)  # noqa: S311 - a fixed mix
    settings.TENANT_JOBS_MAX = 9
    libraries = [make_library(f"t{n}") for n in range(4)]
    waiting: Counter[uuid.UUID] = Counter()
    since: dict[tuple[uuid.UUID, uuid.UUID], list[int]] = {}
    under_way: list[jobs.Claim] = []

    def arrive() -> None:
        library = chance.choice(libraries)
        count = chance.choice([1, 1, 2, 15])
        queue(library, count)
        waiting[library.tenant_id] += count

    def start() -> None:
        claim = jobs.take(Stage.INGEST)
        if claim is None:
            assert not +waiting
            return
        under_way.append(claim)
        count_lead(claim.tenant_id)
        waiting[claim.tenant_id] -= 1

    def count_lead(served: uuid.UUID) -> None:
        backlogged = [tenant for tenant in waiting if waiting[tenant] > 0]
        for pair in list(since):
            if not set(pair) <= set(backlogged):
                del since[pair]
        for other in backlogged:
            if other != served:
                low, high = sorted([served, other])
                lead = since.setdefault((low, high), [0, 0, 0])
                lead[0] += 1 if served == low else -1
                lead[1], lead[2] = min(lead[1], lead[0]), max(lead[2], lead[0])
                assert lead[2] - lead[1] <= 3, "more than the bound of two, and the one in service"

    for _ in range(150):
        if chance.random() < 0.25:
            arrive()
        if len(under_way) < 2:
            start()
        if under_way and chance.random() < 0.8:
            finish(under_way.pop(chance.randrange(len(under_way))))


def test_a_long_job_does_not_let_newcomers_pass_those_who_waited() -> None:
    """The turn being served moves on while one job stays."""
    old, new = make_library("old"), make_library("new")
    queue(old, 60)
    long = take()
    for _ in range(40):
        serve()
    queue(new, 30)
    served = [serve() for _ in range(10)]
    assert served.count(old.tenant_id) >= 4
    finish(long)


def test_a_tenant_with_all_its_places_taken_is_passed_over(settings: Settings) -> None:
    settings.TENANT_JOBS_MAX = 2
    big, small = make_library("big"), make_library("small")
    queue(big, 10)
    held = [take(), take()]
    assert jobs.take(Stage.INGEST) is None
    queue(small)
    assert serve() == small.tenant_id
    finish(held[0])
    assert serve() == big.tenant_id


def test_both_stages_count_for_a_tenants_places(settings: Settings) -> None:
    settings.TENANT_JOBS_MAX = 1
    library = make_library("a")
    queue(library, 2)
    queue(library, 1, Stage.INDEX)
    assert jobs.take(Stage.INDEX) is not None
    assert jobs.take(Stage.INGEST) is None


def test_messages_that_were_used_up_in_vain_are_sent_again_when_a_job_ends(
    settings: Settings, django_capture_on_commit_callbacks
) -> None:
    settings.TENANT_JOBS_MAX, settings.WORKER_CONCURRENCY = 1, 3
    library = make_library("a")
    queue(library, 10)
    held = take()
    assert jobs.take(Stage.INGEST) is None  # and so on, until no message is left
    with django_capture_on_commit_callbacks(execute=True):
        finish(held)
        jobs.wake_others(held)
    assert queue_length("ingest") == 1


def test_a_jobs_end_wakes_for_what_has_been_read_before_what_has_not(
    settings: Settings, django_capture_on_commit_callbacks
) -> None:
    settings.TENANT_JOBS_MAX = 2
    library = make_library("a")
    queue(library, 4)
    queue(library, 1, Stage.INDEX)
    held = take()
    purge()
    with django_capture_on_commit_callbacks(execute=True):
        finish(held)
        jobs.wake_others(held)
    assert (queue_length("ingest"), queue_length("index")) == (1, 1)


def test_a_jobs_end_wakes_nobody_while_its_tenant_has_as_many_as_it_may(
    settings: Settings, django_capture_on_commit_callbacks
) -> None:
    settings.TENANT_JOBS_MAX = 2
    queue(make_library("a"), 5)
    held = [take() for _ in range(2)]
    settings.TENANT_JOBS_MAX = 1
    with django_capture_on_commit_callbacks(execute=True):
        finish(held[0])
        jobs.wake_others(held[0])
    assert queue_length("ingest") == 0


def test_the_end_of_a_last_attempt_wakes_whoever_waited_for_it(
    settings: Settings, django_capture_on_commit_callbacks
) -> None:
    settings.WORKER_CONCURRENCY = 2
    queue(make_library("a"))
    queue(make_library("b"), 5)
    held = replace(take(), attempt=jobs.ATTEMPTS_MAX)
    with django_capture_on_commit_callbacks(execute=True):
        finish(held)
        jobs.wake_others(held)
    assert queue_length("ingest") == 2


@pytest.mark.django_db(transaction=True)
def test_workers_that_look_at_once_take_no_more_than_a_tenants_places(settings: Settings) -> None:
    settings.TENANT_JOBS_MAX = 2
    queue(make_library("a"), 30)
    claims = at_once([lambda: jobs.take(Stage.INGEST)] * 8)
    held = [claim for claim in claims if claim is not None]
    assert len(held) == 2
    assert len({claim.document_id for claim in held}) == 2


@pytest.mark.django_db(transaction=True)
def test_uploads_at_once_get_a_turn_each() -> None:
    library = make_library("a")
    at_once([lambda: queue(library, 5)] * 6)
    turns = list(Job.objects.values_list("turn", flat=True))
    assert sorted(turns) == list(range(min(turns), min(turns) + 30))


@pytest.mark.slow
def test_no_step_reads_all_of_ten_thousand_that_wait(settings: Settings) -> None:
    settings.TENANT_JOBS_MAX = 2
    queue_in_bulk(make_library("big"), 10_000)
    small = make_library("small")
    queue(small)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE documents_job")
    assert {take().tenant_id, take().tenant_id, take().tenant_id} > {small.tenant_id}
    spent = min(seconds(lambda: queue(small)) for _ in range(5))
    assert spent < 0.05
    assert min(seconds(serve) for _ in range(5)) < 0.05


def queue_in_bulk(collection: Collection, count: int) -> None:
    first = queue(collection)[0]
    with tenant_scope(collection.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO documents_document (id, tenant_id, collection_id, path, version, name, "
            "kind, size_bytes, sha256, storage_key, unlocked_key, encoding, ocr, state, "
            "progress_done, progress_total, error_code, error_message, page_count, chunk_count, "
            "language, tags, created_at, updated_at) "
            "SELECT gen_random_uuid(), tenant_id, collection_id, 'bulk/' || n, 1, name, kind, 1, "
            "n::text, storage_key, '', '', false, state, 0, 0, '', '', 0, 0, '', '{}', "
            "now(), now() "
            "FROM documents_document, generate_series(1, %s) AS n WHERE id = %s",
            [count - 1, first.id],
        )
        cursor.execute(
            "INSERT INTO documents_job (tenant_id, document_id, stage, turn, attempt, fence, since)"
            " SELECT tenant_id, id, 'ingest', row_number() OVER (), 0, 0, now() "
            "FROM documents_document WHERE path LIKE 'bulk/%%'"
        )


def seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


# Holding


def take_over(claim: jobs.Claim) -> jobs.Claim:
    """The lease of `claim` runs out, and another worker takes its job."""
    expire(document_id=claim.document_id)
    return take()


WRITES: dict[str, Callable[[jobs.Claim], object]] = {
    "begin": lambda claim: jobs.begin(claim, DocumentState.INDEXING),
    "renew": jobs.renew,
    "report_progress": lambda claim: jobs.report_progress(claim, done=7, total=9),
    "pass_on": lambda claim: jobs.pass_on(claim, Stage.INDEX),
    "give_turn": jobs.give_turn,
    "wait": lambda claim: jobs.wait(claim, delay_s=60, code="away", message="Away."),
    "mark_failed": lambda claim: jobs.mark_failed(claim, code="bad", message="Bad."),
    "note_further": jobs.note_further,
    "crash": lambda claim: crash(claim),
}


def crash(claim: jobs.Claim) -> None:
    with pytest.raises(ZeroDivisionError), jobs.noting_crashes(claim):
        raise ZeroDivisionError


def state_of(document: Document) -> tuple[object, ...]:
    with tenant_scope(document.tenant_id):
        return (
            Document.objects.filter(id=document.id).values().get(),
            list(Job.objects.filter(document=document).values()),
        )


@pytest.mark.parametrize("write", sorted(WRITES))
def test_a_worker_thought_dead_changes_nothing(write: str) -> None:
    (document,) = queue(make_library("a"))
    dead = take()
    alive = take_over(dead)
    jobs.begin(alive, DocumentState.PARSING)
    before = state_of(document)
    WRITES[write](dead)
    assert state_of(document) == before
    assert jobs.renew(alive)


@pytest.mark.parametrize("write", sorted(WRITES))
def test_nor_when_the_document_was_failed_and_sent_again_meanwhile(write: str) -> None:
    """The new job counts its takings from the start: the old proof must not fit it."""
    library = make_library("a")
    (document,) = queue(library)
    dead = take()
    jobs.mark_failed(take_over(dead), code="bad", message="Bad.")
    with tenant_scope(library.tenant_id):
        Document.objects.filter(id=document.id).update(state=DocumentState.RECEIVED)
        jobs.submit(document)
    take()
    before = state_of(document)
    WRITES[write](dead)
    assert state_of(document) == before


@pytest.mark.parametrize("write", sorted(WRITES))
def test_nor_after_it_has_handed_the_job_on(write: str) -> None:
    (document,) = queue(make_library("a"))
    claim = take()
    assert jobs.pass_on(claim, Stage.INDEX)
    before = state_of(document)
    WRITES[write](claim)
    assert state_of(document) == before


def test_a_held_job_cannot_be_taken_again_until_its_lease_is_over() -> None:
    queue(make_library("a"))
    claim = take()
    assert jobs.take(Stage.INGEST) is None
    expire()
    again = take()
    assert (again.document_id, again.attempt) == (claim.document_id, 2)


def test_renewing_keeps_it(settings: Settings) -> None:
    settings.JOB_LEASE_S = 60.0
    queue(make_library("a"))
    claim = take(lease_s=0.001)
    assert jobs.renew(claim)
    assert jobs.take(Stage.INGEST) is None


def test_a_worker_whose_lease_is_over_still_holds_what_nobody_took() -> None:
    queue(make_library("a"))
    claim = take(lease_s=-1)
    assert jobs.renew(claim)


# Poison


def test_a_document_that_keeps_crashing_is_given_up_with_the_reason() -> None:
    (document,) = queue(make_library("a"))
    for attempt in range(1, jobs.ATTEMPTS_MAX + 1):
        claim = take()
        assert claim.attempt == attempt
        jobs.begin(claim, DocumentState.PARSING)
        crash(claim)
        expire()
    assert jobs.take(Stage.INGEST) is None
    failed = reload(document)
    assert (failed.state, failed.error_code) == (DocumentState.FAILED, "kept_crashing")
    assert "(ZeroDivisionError)" in failed.error_message
    assert not Job.objects.exists()


def test_a_worker_that_is_killed_each_time_leaves_a_reason_too() -> None:
    (document,) = queue(make_library("a"))
    for _ in range(jobs.ATTEMPTS_MAX):
        take(lease_s=-1)
    assert jobs.take(Stage.INGEST) is None
    assert "kept crashing and was given up" in reload(document).error_message


def test_only_the_one_that_kills_its_worker_is_given_up(settings: Settings) -> None:
    """Three threads of a worker die with it, again and again: two of the three are innocent."""
    settings.TENANT_JOBS_MAX = 3
    documents = queue(make_library("a"), 3)
    poison = documents[1].id
    for _ in range(12):
        claims = [claim for claim in (jobs.take(Stage.INGEST) for _ in range(3)) if claim]
        if poison in [claim.document_id for claim in claims]:
            expire()
        else:
            for claim in claims:
                finish(claim)
    assert [reload(document).state for document in documents] == [
        DocumentState.READY,
        DocumentState.FAILED,
        DocumentState.READY,
    ]


def test_getting_further_is_a_new_first_attempt() -> None:
    queue(make_library("a"))
    for _ in range(10):
        jobs.note_further(take())
        expire()
    assert take().attempt == 2


def test_a_job_of_a_finished_document_goes_and_the_document_stays() -> None:
    library = make_library("a")
    (document,) = queue(library)
    with tenant_scope(library.tenant_id):
        Document.objects.filter(id=document.id).update(state=DocumentState.READY)
    assert jobs.begin(take(), DocumentState.PARSING) is None
    assert reload(document).state == DocumentState.READY
    assert not Job.objects.exists()


# Waiting and giving way


def test_what_waits_is_due_again_later_behind_the_others_and_keeps_its_attempts() -> None:
    first, second = queue(make_library("a"), 2)
    claim = take()
    assert jobs.wait(claim, delay_s=60, code="away", message="Away.")
    assert reload(first).error_message == "Away."
    assert take().document_id == second.id
    assert jobs.take(Stage.INGEST) is None
    Job.objects.filter(document=first).update(not_before=timezone.now())
    again = take()
    assert (again.document_id, again.attempt, again.waited) == (first.id, 1, True)
    jobs.begin(again, DocumentState.PARSING)
    assert reload(first).error_message == ""


def test_patience_is_counted_from_the_first_time_it_had_to_wait() -> None:
    (document,) = queue(make_library("a"))
    long_ago = timezone.now() - timedelta(seconds=jobs.PATIENCE_S + 60)
    Job.objects.update(since=long_ago)  # in the queue only
    assert jobs.wait(take(), delay_s=0, code="away", message="Away.")
    assert Job.objects.get().since > long_ago
    Job.objects.update(since=long_ago)
    claim = take()
    assert not jobs.wait(claim, delay_s=0, code="away", message="Away.")
    assert jobs.renew(claim)
    assert reload(document).state == DocumentState.RECEIVED


def test_giving_way_lets_those_who_wait_go_first() -> None:
    large, small = make_library("large"), make_library("small")
    queue(large)
    claim = take()
    queue(small, 2)
    assert jobs.give_turn(claim)
    assert [serve() for _ in range(3)].index(large.tenant_id) in (1, 2)


# The sweeper


def test_the_sweeper_wakes_workers_for_what_no_message_is_queued_for(
    django_capture_on_commit_callbacks,
) -> None:
    library = make_library("a")
    queue(library, 3)
    queue(library, 2, Stage.INDEX)
    take()
    purge()  # Redis lost its data
    with django_capture_on_commit_callbacks(execute=True):
        assert sweeping.sweep() == 4
    assert (queue_length("ingest"), queue_length("index")) == (2, 2)
    assert sweeping.sweep() == 0


def test_the_sweeper_finds_what_a_dead_worker_held() -> None:
    queue(make_library("a"))
    take()
    assert sweeping.sweep() == 0
    expire()
    assert sweeping.sweep() == 1


def test_a_backlog_is_not_sent_all_at_once() -> None:
    queue(make_library("a"), 100)
    assert sweeping.sweep() == 32


def test_a_sweep_without_a_broker_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queue(make_library("a"))
    monkeypatch.setattr(jobs, "queue_length", lambda queue: None)
    assert sweeping.sweep() == 0


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls give that are made at the same moment, each in its own thread."""
    results: list[T] = []
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> None:
        try:
            barrier.wait()
            results.append(call())
        except BaseException as exc:
            failures.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    return results
