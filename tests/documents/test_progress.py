"""Counts, throughput and time left, and what they cost with ten thousand documents."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.documents import jobs, progress, selectors, services
from apps.documents.models import Batch, Collection, Document, Stage
from apps.documents.selectors import Wanted
from apps.documents.templatetags.documents import grouped, percent_of, time_left
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

pytestmark = pytest.mark.django_db

NOW = timezone.now()
Make = Callable[..., Document]


@pytest.fixture(autouse=True)
def _scope(tenant: Tenant) -> Iterator[None]:
    with tenant_scope(tenant.id):
        yield


@pytest.fixture
def batch(collection: Collection, tenant: Tenant) -> Batch:
    made = services.open_batch(
        tenant=tenant, collection=collection, user=None, source=Batch.Source.UPLOAD, expected=100
    )
    return age(made, 600)


@pytest.fixture
def make(collection: Collection) -> Make:
    def document(state: str = "received", *, seconds_ago: float = 0, **fields: object) -> Document:
        made = Document.objects.create(
            tenant_id=collection.tenant_id,
            collection=collection,
            **{
                "path": f"{uuid.uuid4()}.txt",
                "name": "a.txt",
                "size_bytes": 1,
                "sha256": uuid.uuid4().hex,
                "storage_key": "none",
                "state": state,
                **fields,
            },
        )
        when = NOW - timedelta(seconds=seconds_ago)
        rows = Document.objects.filter(id=made.id)
        rows.update(created_at=when, updated_at=when, ready_at=when if state == "ready" else None)
        return made

    return document


def age(batch: Batch, seconds: float) -> Batch:
    Batch.objects.filter(id=batch.id).update(created_at=NOW - timedelta(seconds=seconds))
    batch.refresh_from_db()
    return batch


def under_way(collection: Collection, now: datetime = NOW) -> list[progress.BatchProgress]:
    return progress.batches_under_way(collection.tenant_id, collection.id, now=now)


def standing(collection: Collection) -> progress.Standing:
    return progress.standing_of(collection.tenant_id, collection.id)


class TestStanding:
    def test_states_are_counted(self, collection: Collection, make: Make) -> None:
        for state in ("ready", "ready", "received", "parsing", "indexing", "failed"):
            make(state, error_code="damaged" if state == "failed" else "")
        found = standing(collection)
        assert (found.total, found.ready, found.failed, found.unfinished) == (6, 2, 1, 3)
        assert (found.received, found.parsing, found.indexing) == (1, 1, 1)

    def test_an_empty_collection_has_none(self, collection: Collection) -> None:
        assert standing(collection) == progress.Standing({})

    def test_failures_are_grouped_by_reason_the_commonest_first(
        self, collection: Collection, make: Make
    ) -> None:
        for code, message in (("archive", "A"), ("password", "P"), ("password", "P")):
            make("failed", error_code=code, error_message=message)
        groups = standing(collection).failures
        assert [(each.code, each.count, each.message) for each in groups] == [
            ("password", 2, "P"),
            ("archive", 1, "A"),
        ]
        assert groups[0].words == "Needs a password"
        assert not groups[0].is_example

    def test_one_message_of_several_is_called_an_example(
        self, collection: Collection, make: Make
    ) -> None:
        for message in ("cut off", "too deep"):
            make("failed", error_code="damaged", error_message=message)
        (group,) = standing(collection).failures
        assert group.is_example

    def test_what_documents_wait_for_is_told_once(self, collection: Collection, make: Make) -> None:
        for state in ("received", "indexing"):
            make(state, error_code="embedder_unavailable", error_message="The encoder is away.")
        (group,) = standing(collection).waiting
        assert (group.count, group.message) == (2, "The encoder is away.")

    def test_older_versions_are_not_counted(self, collection: Collection, make: Make) -> None:
        make("superseded", path="a.txt", version=1)
        make("ready", path="a.txt", version=2)
        make("indexing", path="a.txt", version=3)
        assert standing(collection).states == {"indexing": 1}

    def test_another_tenants_documents_are_not_counted(
        self, collection: Collection, make: Make
    ) -> None:
        make("ready")
        assert progress.standing_of(uuid.uuid4(), collection.id).total == 0

    @pytest.mark.parametrize("code", ["embedder_unavailable", "", "no such code", "<b>"])
    def test_every_code_has_words(self, code: str) -> None:
        assert progress.reason_words(code)


class TestBatches:
    def test_throughput_is_that_of_the_last_minute(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        for seconds_ago in (5, 20, 59, 61, 300):
            make("ready", batch=batch, seconds_ago=seconds_ago)
        make("failed", batch=batch, seconds_ago=30)
        for _ in range(8):
            make("received", batch=batch, seconds_ago=300)
        (found,) = under_way(collection)
        assert found.per_minute == 4
        assert found.seconds_left == 60 * (8 + 86) / 4  # unfinished ones, and those to come
        assert (found.ready, found.failed, found.finished, found.total) == (5, 1, 6, 14)

    def test_there_is_no_figure_at_first(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        age(batch, 4)
        for _ in range(5):
            make("ready", batch=batch, seconds_ago=1)
        make("received", batch=batch)
        (found,) = under_way(collection)
        assert (found.per_minute, found.seconds_left) == (None, None)

    def test_a_young_batch_is_measured_over_its_own_time(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        age(batch, 30)
        for _ in range(5):
            make("ready", batch=batch, seconds_ago=1)
        make("received", batch=batch)
        assert under_way(collection)[0].per_minute == pytest.approx(10)

    def test_nothing_finished_in_a_minute_is_no_time_left(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        make("received", batch=batch, seconds_ago=300)
        (found,) = under_way(collection)
        assert (found.per_minute, found.seconds_left) == (0, None)

    def test_files_still_to_come_count_while_some_come(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        services.count_unchanged(batch=batch)
        make("received", batch=batch, seconds_ago=10)
        assert under_way(collection)[0].to_come == 98

    def test_files_of_a_page_that_was_closed_are_not_waited_for(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        make("received", batch=batch, seconds_ago=300)
        (found,) = under_way(collection)
        assert (found.to_come, found.expected) == (0, 1)

    def test_a_finished_batch_is_not_under_way(
        self, collection: Collection, make: Make, batch: Batch
    ) -> None:
        make("ready", batch=batch)
        make("superseded", batch=batch)
        make("received")  # in no batch
        assert under_way(collection) == []


class TestTheQueue:
    def test_ones_own_documents_before_it_are_counted(
        self, make: Make, tenant: Tenant, collection: Collection
    ) -> None:
        documents = [make() for _ in range(3)]
        for each in documents:
            jobs.submit(each)
        assert [progress.jobs_before(each) for each in documents] == [0, 1, 2]

    def test_what_is_worked_on_or_done_has_no_place(self, make: Make) -> None:
        running, done = make(), make("ready")
        jobs.submit(running)
        assert jobs.take(Stage.INGEST) is not None
        assert progress.jobs_before(running) is None
        assert progress.jobs_before(done) is None


class TestTheList:
    def listed(self, collection: Collection, **wanted: str) -> list[Document]:
        return list(selectors.documents_of(collection.tenant_id, collection.id, Wanted(**wanted)))

    def test_of_a_path_its_newest_version_is_listed_with_what_answers(
        self, collection: Collection, make: Make
    ) -> None:
        make("superseded", path="a.txt", version=1)
        make("ready", path="a.txt", version=2)
        newest = make("parsing", path="a.txt", version=3)
        (found,) = self.listed(collection)
        assert found.id == newest.id
        assert selectors.answering_versions([found]) == {newest.id: 2}

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"state": "ready"}, {"plan.pdf"}),
            ({"state": "failed"}, {"old.zip", "odd.txt"}),
            ({"state": "unfinished"}, {"sub/new.md"}),
            ({"reason": "archive"}, {"old.zip"}),
            ({"name": "SUB"}, {"sub/new.md"}),
            ({"name": "%"}, set()),
            ({"name": "\x00plan"}, {"plan.pdf"}),
            ({"state": "' OR 1=1"}, {"plan.pdf", "old.zip", "odd.txt", "sub/new.md"}),
        ],
    )
    def test_it_can_be_filtered(
        self, collection: Collection, make: Make, wanted: dict[str, str], expected: set[str]
    ) -> None:
        make("ready", path="plan.pdf")
        make("failed", path="old.zip", error_code="archive")
        make("failed", path="odd.txt", error_code="encoding")
        make("received", path="sub/new.md")
        assert {each.path for each in self.listed(collection, **wanted)} == expected


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute left"),
        (61, "about 1 minute left"),
        (200, "about 3 minutes left"),
        (5300, "about 88 minutes left"),
        (36_000, "about 10 hours left"),
    ],
)
def test_time_left_is_as_exact_as_it_deserves(seconds: float, words: str) -> None:
    assert time_left(seconds) == words


def test_figures_are_grouped() -> None:
    assert [grouped(n) for n in (0, 0.25, 9.5, 12.7, 12_345)] == ["0", "0.2", "9.5", "13", "12,345"]
    assert (percent_of(1, 3), percent_of(0, 0)) == (33, 0)


@pytest.mark.slow
class TestTenThousandDocuments:
    """What a page asks for every two seconds, at the size where it would hurt.

    The planner knows nothing of them: nor does it of ten thousand that came a minute ago.
    """

    COUNT = 10_000

    @pytest.fixture(autouse=True)
    def _documents(self, collection: Collection, batch: Batch) -> None:
        states = ("ready", "ready", "ready", "received", "failed")
        Document.objects.bulk_create(
            Document(
                tenant_id=collection.tenant_id,
                collection=collection,
                batch=batch,
                path=f"folder/{n}.txt",
                name=f"{n}.txt",
                size_bytes=1,
                sha256=f"{n:064}",
                storage_key="none",
                state=states[n % 5],
                error_code="damaged" if n % 5 == 4 else "",
                error_message="Cut off." if n % 5 == 4 else "",
                ready_at=NOW,
            )
            for n in range(self.COUNT)
        )

    @contextmanager
    def at_most(self, limit_s: float) -> Iterator[None]:
        start = time.perf_counter()
        yield
        assert time.perf_counter() - start < limit_s

    def test_counting_takes_little_time(self, collection: Collection) -> None:
        with self.at_most(1):
            found = standing(collection)
        assert (found.total, found.ready, found.failed) == (10_000, 6_000, 2_000)

    def test_the_batch_takes_little_time(self, collection: Collection) -> None:
        with self.at_most(1):
            (found,) = under_way(collection)
        assert (found.total, found.finished) == (10_000, 8_000)

    def test_the_list_takes_little_time_on_its_first_page_and_on_its_last(
        self, collection: Collection
    ) -> None:
        documents = selectors.documents_of(collection.tenant_id, collection.id)
        with self.at_most(1):
            assert len(documents[:50]) == 50
            assert len(documents[9_950:]) == 50
