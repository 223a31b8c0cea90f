"""A collection's number rises with whatever changes what may be found in it, and nothing else."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from apps.documents import jobs, services
from apps.documents.models import Collection, CollectionVersion, Document, DocumentState
from apps.documents.selectors import collection_versions
from apps.documents.services.versions import raise_version
from apps.inference import registry
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload, reload
from tests.documents.test_versions import work
from tests.retrieval.corpus import WordEmbedder, make_collection, make_document

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> WordEmbedder:
    stand_in = WordEmbedder()
    monkeypatch.setattr(registry, "get_embedder", lambda: stand_in)
    return stand_in


def version(collection: Collection) -> int:
    return collection_versions(collection.tenant_id, [collection.id])[collection.id]


def update(*documents: Document, **values: object) -> None:
    with tenant_scope(documents[0].tenant_id):
        Document.objects.filter(id__in=[each.id for each in documents]).update(**values)


def ready(collection: Collection) -> Document:
    return make_document(collection, ["Text."], state=DocumentState.READY)


def test_an_empty_collection_has_zero_and_so_has_one_that_is_not_there(
    collection: Collection,
) -> None:
    other = uuid.uuid4()
    found = collection_versions(collection.tenant_id, [collection.id, other])
    assert found == {collection.id: 0, other: 0}


def test_adding_replacing_and_deleting_raise_it(
    upload: Upload, collection: Collection, tenant: Tenant
) -> None:
    seen = [version(collection)]
    for text in (b"The harbour opens at six.\n", b"The harbour opens at ten.\n"):
        document = upload(text)
        work()
        assert reload(document).state == DocumentState.READY
        seen.append(version(collection))
    services.delete_document(tenant=tenant, document=document, actor=None)
    seen.append(version(collection))
    assert seen == sorted(set(seen))


def test_a_file_that_comes_back_withdraws_what_came_after_it(
    upload: Upload, collection: Collection
) -> None:
    upload(b"The harbour opens at six.\n")
    later = upload(b"The harbour opens at ten.\n")
    work()
    before = version(collection)
    upload(b"The harbour opens at six.\n")
    work()
    assert reload(later).state == DocumentState.SUPERSEDED
    assert version(collection) > before


@pytest.mark.parametrize(
    "values",
    [
        {"tags": ["boats"]},
        {"generation": 1},
        {"state": DocumentState.SUPERSEDED},
        {"state": DocumentState.RECEIVED},
        {"state": DocumentState.FAILED},
        {"name": "other.md"},
        {"language": "de"},
        {"kind": "text/plain"},
    ],
    ids=str,
)
def test_a_change_that_shows_raises_it(collection: Collection, values: dict[str, object]) -> None:
    document = ready(collection)
    before = version(collection)
    update(document, **values)
    assert version(collection) == before + 1


@pytest.mark.parametrize(
    "values",
    [
        {"progress_done": 7},
        {"error_code": "x"},
        {"batch_id": None},
        {"state": "ready"},
        {"tags": []},
    ],
    ids=str,
)
def test_a_change_that_does_not_show_leaves_it(
    collection: Collection, values: dict[str, object]
) -> None:
    document = ready(collection)
    before = version(collection)
    update(document, **values)
    assert version(collection) == before


def test_work_on_an_unfinished_document_leaves_it(collection: Collection) -> None:
    document = make_document(collection, ["Text."])
    update(document, state=DocumentState.PARSING, progress_done=50)
    update(document, state=DocumentState.FAILED, error_code="broken")
    assert version(collection) == 0


def test_the_services_tags_raise_it(collection: Collection, tenant: Tenant) -> None:
    document = ready(collection)
    before = version(collection)
    services.set_tags(tenant=tenant, document=document, tags=["boats"], actor=None)
    assert version(collection) > before


def test_it_is_raised_once_for_many_documents_of_a_statement(collection: Collection) -> None:
    documents = [ready(collection) for _ in range(5)]
    before = version(collection)
    update(*documents, tags=["boats"])
    assert version(collection) == before + 1


def test_a_document_that_moves_changes_both_collections(
    collection: Collection, tenant: Tenant
) -> None:
    other, document = make_collection(tenant, "Other"), ready(collection)
    before = version(collection), version(other)
    update(document, collection_id=other.id)
    assert (version(collection), version(other)) == (before[0] + 1, before[1] + 1)


def test_it_is_taken_back_with_its_transaction(collection: Collection) -> None:
    document = ready(collection)
    before = version(collection)
    with tenant_scope(collection.tenant_id):
        point = transaction.savepoint()
        Document.objects.filter(id=document.id).update(tags=["boats"])
        assert version(collection) == before + 1
        transaction.savepoint_rollback(point)
    assert version(collection) == before


def test_it_may_be_raised_without_a_document(collection: Collection) -> None:
    with tenant_scope(collection.tenant_id):
        raise_version(tenant_id=collection.tenant_id, collection_id=collection.id)
    assert version(collection) == 1


def test_changes_one_after_the_other_leave_one_row(collection: Collection) -> None:
    document = ready(collection)
    for number in range(20):
        update(document, tags=[f"tag {number}"])
    assert CollectionVersion.objects.filter(collection_id=collection.id).count() == 1


def test_another_tenants_numbers_are_its_own(collection: Collection) -> None:
    ready(collection)
    rival = Tenant.objects.create(slug="rival", name="Rival")
    assert collection_versions(rival.id, [collection.id]) == {collection.id: 0}


def test_nothing_is_left_of_a_collection_that_is_deleted(
    collection: Collection, tenant: Tenant
) -> None:
    ready(collection)
    kept = ready(make_collection(tenant, "Kept"))
    services.delete_collection(tenant=tenant, collection=collection, actor=None)
    left = CollectionVersion.objects.values_list("collection_id", flat=True)
    assert list(left) == [kept.collection_id]


def test_nothing_is_left_of_a_tenant_that_is_deleted(
    collection: Collection, tenant: Tenant
) -> None:
    ready(collection)
    services.delete_tenant(tenant=tenant, actor=None)
    assert not CollectionVersion.objects.exists()


def together(calls: Sequence[Callable[[], None]]) -> None:
    """Each in a thread and a transaction of its own; raises what any of them raises."""
    failures: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as exc:
            failures.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[call], daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    """Several workers, which finish documents of the same collections at the same time."""

    def test_transactions_that_overlap_do_not_wait_and_are_all_counted(
        self, collection: Collection, tenant: Tenant
    ) -> None:
        """Each holds both numbers, taken in either order, until all of them do."""
        other = make_collection(tenant, "Other")
        pairs = [(ready(collection), ready(other)) for _ in range(3)]
        before = version(collection), version(other)
        all_have_raised = threading.Barrier(3, timeout=10)

        def worker(number: int) -> Callable[[], None]:
            first, second = pairs[number] if number % 2 else pairs[number][::-1]

            def change() -> None:
                with tenant_scope(tenant.id):
                    for document in (first, second):
                        Document.objects.filter(id=document.id).update(tags=["boats"])
                    all_have_raised.wait()

            return change

        together([worker(number) for number in range(3)])
        assert (version(collection), version(other)) == (before[0] + 3, before[1] + 3)

    def test_who_reads_meanwhile_sees_a_number_for_what_is_committed(
        self, collection: Collection
    ) -> None:
        """The one that began first commits last: its change must show too."""
        first, second = ready(collection), ready(collection)
        seen = [version(collection)]
        with tenant_scope(collection.tenant_id):
            Document.objects.filter(id=first.id).update(tags=["boats"])
            together([lambda: update(second, tags=["boats"])])
            together([lambda: seen.append(version(collection))])
        seen.append(version(collection))
        assert seen == [seen[0], seen[0] + 1, seen[0] + 2]

    def test_workers_that_finish_versions_of_the_same_paths_do_not_deadlock(
        self, collection: Collection, tenant: Tenant, settings: Settings
    ) -> None:
        settings.TENANT_JOBS_MAX = 3
        made = [make_document(collection, ["Text."]) for _ in range(12)]
        for number, document in enumerate(made):
            update(document, path=f"{number % 4}.md", version=number // 4 + 1)

        def worker() -> None:
            while claim := jobs.take(jobs.Stage.INDEX):
                with tenant_scope(tenant.id):
                    held = Collection.objects.select_for_update(no_key=True)
                    assert held.filter(id=collection.id)
                    if jobs.hold(claim):
                        jobs.mark_ready(claim)

        together([worker] * 3)
        with tenant_scope(tenant.id):
            states = Document.objects.values_list("state", flat=True)
            assert sorted(states) == ["ready"] * 4 + ["superseded"] * 8
        assert version(collection) > 0
