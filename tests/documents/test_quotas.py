"""Limits on documents and storage: held however documents come, and given back when they go."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connections

from apps.documents import checking, quotas, services, syncing, watching
from apps.documents.errors import DuplicateDocument, QuotaExceeded
from apps.documents.models import (
    Batch,
    Collection,
    Document,
    DocumentState,
    DocumentUse,
    Source,
    SourceFile,
)
from apps.documents.quotas import stock_of
from apps.tenants.limits import stock_of as stock_of_all
from apps.tenants.models import ApiKey, KeyScope, Limit, Measure, Subject, Tenant
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_key
from tests.cast import Cast, signed_in
from tests.documents.conftest import Upload

TENANT = (Subject.TENANT, "")


def limit(tenant: Tenant, measure: Measure, amount: int, **whom: str) -> Limit:
    values = {"subject": Subject.TENANT, "given_by": "manager", **whom}
    return Limit.objects.create(tenant=tenant, measure=measure, amount=amount, **values)


def have(tenant: Tenant, whom: tuple[Subject, str] = TENANT) -> tuple[int, int]:
    """Documents and bytes, as they are counted."""
    found = stock_of(tenant.id)
    return found.get((*whom, Measure.DOCUMENTS), 0), found.get((*whom, Measure.STORAGE_BYTES), 0)


def stored_files(settings: Any) -> list[Path]:
    return [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]


@pytest.mark.django_db
def test_nothing_is_limited_where_no_limit_is_set(tenant: Tenant, upload: Upload) -> None:
    upload(b"some bytes")
    assert have(tenant) == (1, 10)
    assert stock_of_all(tenant.id)[*TENANT, Measure.DOCUMENTS] == 1


@pytest.mark.django_db
def test_a_document_too_many_is_refused_and_nothing_of_it_is_kept(
    tenant: Tenant, upload: Upload, settings: Any
) -> None:
    limit(tenant, Measure.DOCUMENTS, 2)
    upload(b"one", "1.txt")
    upload(b"two", "2.txt")
    with pytest.raises(QuotaExceeded, match="Your organisation may keep 2 documents, and"):
        upload(b"three", "3.txt")
    assert have(tenant) == (2, 6)
    assert len(stored_files(settings)) == 2


@pytest.mark.django_db
def test_bytes_too_many_are_refused(tenant: Tenant, upload: Upload) -> None:
    limit(tenant, Measure.STORAGE_BYTES, 10)
    upload(b"x" * 10, "1.txt")
    with pytest.raises(QuotaExceeded, match=r"keep 10 bytes, .* this file's 1 byte"):
        upload(b"y", "2.txt")
    assert have(tenant) == (1, 10)


@pytest.mark.django_db
@pytest.mark.parametrize("measure", [Measure.DOCUMENTS, Measure.STORAGE_BYTES])
def test_a_limit_of_nothing_lets_nothing_in(
    tenant: Tenant, upload: Upload, measure: Measure
) -> None:
    limit(tenant, measure, 0)
    with pytest.raises(QuotaExceeded, match="may keep no documents at all"):
        upload(b"x")


@pytest.mark.django_db
def test_a_new_version_is_no_new_document_and_its_bytes_count(
    tenant: Tenant, upload: Upload
) -> None:
    limit(tenant, Measure.DOCUMENTS, 1)
    size = limit(tenant, Measure.STORAGE_BYTES, 7)
    upload(b"one", "a.txt")
    upload(b"more", "a.txt")
    assert have(tenant) == (1, 7), "the version before is kept, and counts"
    with pytest.raises(QuotaExceeded, match="keep 7 bytes"):
        upload(b"!", "a.txt")
    size.delete()
    upload(b"!", "a.txt")
    assert have(tenant) == (1, 8)


@pytest.mark.django_db
def test_a_lowered_limit_deletes_nothing_and_lets_new_versions_in(
    tenant: Tenant, upload: Upload
) -> None:
    for number in range(3):
        upload(f"text {number}".encode(), f"{number}.txt")
    limit(tenant, Measure.DOCUMENTS, 1)
    upload(b"changed", "0.txt")
    assert have(tenant)[0] == 3
    with pytest.raises(QuotaExceeded):
        upload(b"new", "new.txt")


@pytest.mark.django_db
def test_bytes_that_are_there_are_recognised_though_there_is_no_room(
    tenant: Tenant, upload: Upload
) -> None:
    upload(b"the same", "a.txt")
    limit(tenant, Measure.DOCUMENTS, 1)
    with pytest.raises(DuplicateDocument):
        upload(b"the same", "b.txt")


@pytest.mark.django_db
def test_deleting_gives_room_back(tenant: Tenant, collection: Collection, upload: Upload) -> None:
    limit(tenant, Measure.DOCUMENTS, 1)
    upload(b"one", "a.txt")
    document = upload(b"two", "a.txt")
    services.delete_document(tenant=tenant, document=document, actor=None)
    assert have(tenant) == (0, 0)
    upload(b"three", "b.txt")
    services.delete_collection(tenant=tenant, collection=collection, actor=None)
    assert have(tenant) == (0, 0)


@pytest.mark.django_db
def test_a_document_that_failed_counts_until_it_is_deleted(tenant: Tenant, upload: Upload) -> None:
    limit(tenant, Measure.DOCUMENTS, 1)
    document = upload(b"one", "a.txt")
    with tenant_scope(tenant.id):
        Document.objects.update(state=DocumentState.FAILED)
    with pytest.raises(QuotaExceeded):
        upload(b"two", "b.txt")
    services.delete_document(tenant=tenant, document=document, actor=None)
    upload(b"two", "b.txt")


@pytest.mark.django_db
def test_a_deleted_tenant_leaves_no_counts(tenant: Tenant, upload: Upload) -> None:
    upload(b"one")
    services.delete_tenant(tenant=tenant, actor=None)
    assert not DocumentUse.objects.exists()


@pytest.mark.django_db
def test_each_tenant_has_its_own_room(cast: Cast) -> None:
    limit(cast.acme, Measure.DOCUMENTS, 1)
    for tenant in (cast.acme, cast.rival):
        mine = services.create_collection(tenant=tenant, user=None, name="Handbook")
        for number in range(2 if tenant == cast.rival else 1):
            _send(mine, f"{number}".encode())
    assert (have(cast.acme), have(cast.rival)) == ((1, 1), (2, 2))


def _send(collection: Collection, data: bytes, **whom: Any) -> Document:
    return services.receive_upload(
        tenant=collection.tenant,
        collection=collection,
        path=f"{data.decode()}.txt",
        file=BytesIO(data),
        **{"user": None, **whom},
    )


@pytest.fixture
def mine(cast: Cast) -> Collection:
    return services.create_collection(tenant=cast.acme, user=None, name="Handbook")


@pytest.fixture
def key(cast: Cast) -> ApiKey:
    return create_key(
        tenant=cast.acme, name="Key", expires_at=None, actor=cast.carl, scope=KeyScope.MANAGE
    )[0]


@pytest.mark.django_db
def test_a_member_is_held_to_what_they_sent_themselves(cast: Cast, mine: Collection) -> None:
    limit(cast.acme, Measure.DOCUMENTS, 1, subject=Subject.MEMBER)
    limit(cast.acme, Measure.DOCUMENTS, 2, subject=Subject.MEMBER, subject_id=str(cast.alice.id))
    _send(mine, b"1", user=cast.carl)
    with pytest.raises(QuotaExceeded, match="You may keep 1 document, and"):
        _send(mine, b"2", user=cast.carl)
    _send(mine, b"3", user=cast.alice)
    _send(mine, b"4", user=cast.alice)
    with pytest.raises(QuotaExceeded):
        _send(mine, b"5", user=cast.alice)
    _send(mine, b"6")  # by a command: nobody's
    assert have(cast.acme) == (4, 4)
    assert have(cast.acme, (Subject.MEMBER, str(cast.alice.id))) == (2, 2)


@pytest.mark.django_db
def test_a_keys_documents_count_for_who_made_it_too(
    cast: Cast, mine: Collection, key: ApiKey
) -> None:
    limit(cast.acme, Measure.DOCUMENTS, 1, subject=Subject.KEY)
    _send(mine, b"1", user=cast.carl, key_id=key.id)
    with pytest.raises(QuotaExceeded, match="sent with this key may be 1 document"):
        _send(mine, b"2", user=cast.carl, key_id=key.id)
    _send(mine, b"3", user=cast.carl)
    assert have(cast.acme, (Subject.KEY, str(key.id))) == (1, 1)
    assert have(cast.acme, (Subject.MEMBER, str(cast.carl.id))) == (2, 2)


@pytest.mark.django_db
def test_the_words_tell_nobody_elses_figures(cast: Cast, mine: Collection) -> None:
    for number in range(7):
        _send(mine, str(number).encode(), user=cast.alice)
    limit(cast.acme, Measure.DOCUMENTS, 5)
    with pytest.raises(QuotaExceeded) as caught:
        _send(mine, b"x", user=cast.carl)
    assert "7" not in str(caught.value)


# --- Every way in --------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_upload_page_says_why(cast: Cast, mine: Collection) -> None:
    limit(cast.acme, Measure.DOCUMENTS, 1)
    browser = signed_in(cast.carl)
    url = f"/t/acme/documents/{mine.id}/upload/"
    for expected in (201, 413):
        file = SimpleUploadedFile(f"{expected}.txt", str(expected).encode())
        answer = browser.post(url, {"file": file})
        assert answer.status_code == expected
    assert answer.json()["error"]["code"] == "quota_exceeded"


@pytest.mark.django_db
def test_of_a_batch_each_file_is_judged_by_itself(cast: Cast, mine: Collection) -> None:
    limit(cast.acme, Measure.STORAGE_BYTES, 10)
    batch = services.open_batch(
        tenant=cast.acme, collection=mine, user=cast.carl, source=Batch.Source.UPLOAD
    )
    sizes = [4, 20, 5, 3, 1]
    answer = signed_in(cast.carl).post(
        f"/t/acme/documents/{mine.id}/batches/{batch.id}/",
        {
            "file": [SimpleUploadedFile(f"{n}.txt", str(n).encode() * n) for n in sizes],
            "path": [f"{n}.txt" for n in sizes],
        },
    )
    codes = [each.get("error", {}).get("code", "") for each in answer.json()["results"]]
    assert codes == ["", "quota_exceeded", "", "quota_exceeded", ""]
    assert have(cast.acme) == (3, 10)


@pytest.mark.django_db
def test_the_api_answers_413_with_the_code(cast: Cast, mine: Collection) -> None:
    _, raw = create_key(
        tenant=cast.acme, name="Key", expires_at=None, actor=cast.carl, scope=KeyScope.MANAGE
    )
    limit(cast.acme, Measure.DOCUMENTS, 1, subject=Subject.KEY)
    answers = [
        signed_in(None).post(
            f"/api/v1/collections/{mine.id}/documents?path={n}.txt",
            data=str(n),
            content_type="text/plain",
            headers={"Authorization": f"Bearer {raw}"},
        )
        for n in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 413]
    assert answers[1].json()["error"]["code"] == "quota_exceeded"


# --- Watched folders -----------------------------------------------------------------------------


@pytest.fixture
def watched(
    tenant: Tenant, collection: Collection, settings: Any, tmp_path: Path
) -> Callable[[], Source]:
    """The source after a run over `tmp_path/watched`."""
    folder = tmp_path / "watched"
    folder.mkdir()
    settings.WATCH_ROOTS = [f"acme={folder}"]
    settings.WATCH_SETTLE_S = 0.0
    source = watching.add_source(
        tenant=tenant,
        collection=collection,
        user=None,
        kind=Source.Kind.FOLDER,
        location=str(folder),
        every_minutes=15,
    )

    def run() -> Source:
        watching.run_source_now(tenant=tenant, source=source)
        while syncing.sync_next():
            pass
        with tenant_scope(tenant.id):
            return Source.objects.get(id=source.id)

    return run


@pytest.mark.django_db
def test_a_watched_folder_says_that_there_is_no_room_and_goes_on_when_there_is(
    tenant: Tenant, watched: Callable[[], Source], tmp_path: Path
) -> None:
    for number in range(4):
        (tmp_path / "watched" / f"{number}.txt").write_text(f"text {number}")
    bound = limit(tenant, Measure.DOCUMENTS, 2)
    outcome = watched().outcome
    assert (outcome["added"], outcome["refused"]) == (2, 2)
    assert outcome["code"] == "quota_exceeded"
    assert "until there is room" in outcome["message"]
    (tmp_path / "watched" / "0.txt").write_text("a changed text")
    assert watched().outcome["changed"] == 1, "a new version is no new document"
    bound.delete()
    outcome = watched().outcome
    assert (outcome["added"], outcome["refused"], outcome["code"]) == (2, 0, "")
    assert have(tenant)[0] == 4


@pytest.mark.django_db
def test_a_file_without_room_is_not_read_at_every_run(
    tenant: Tenant, watched: Callable[[], Source], tmp_path: Path
) -> None:
    path = tmp_path / "watched" / "a.txt"
    path.write_text("text")
    limit(tenant, Measure.DOCUMENTS, 0)
    watched()
    with tenant_scope(tenant.id):
        before = SourceFile.objects.get()
    path.chmod(0)  # root reads it all the same; its time of access tells
    accessed = path.stat().st_atime_ns
    watched()
    assert path.stat().st_atime_ns == accessed
    with tenant_scope(tenant.id):
        assert SourceFile.objects.get().code == before.code == "quota_exceeded"


# --- At once -------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("measure", [Measure.DOCUMENTS, Measure.STORAGE_BYTES])
def test_of_fifty_at_once_ten_find_room(
    tenant: Tenant, collection: Collection, settings: Any, measure: Measure
) -> None:
    limit(tenant, measure, 10 if measure == Measure.DOCUMENTS else 100)

    def send(number: int) -> bool:
        try:
            _send(collection, f"{number:010}".encode())
        except QuotaExceeded:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(send, range(50)))
    assert sum(done) == 10
    assert have(tenant) == (10, 100)
    assert len(stored_files(settings)) == 10


@pytest.mark.django_db(transaction=True)
def test_those_who_send_and_those_who_delete_do_not_block_each_other_for_good(
    cast: Cast, mine: Collection
) -> None:
    """Members and keys lock their counts in one order; nobody is refused with a deadlock."""
    people = [cast.alice, cast.carl, cast.bob]

    def work(number: int) -> None:
        try:
            document = _send(
                mine,
                f"{number}".encode(),
                user=people[number % 3],
                key_id=uuid.UUID(int=number % 2),
            )
            if number % 2:
                services.delete_document(tenant=cast.acme, document=document, actor=None)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert have(cast.acme)[0] == 20
    assert not _found(cast.acme)


# --- Counting ------------------------------------------------------------------------------------


def _found(tenant: Tenant) -> list[checking.Finding]:
    (check,) = (each for each in checking.CHECKS if each.__name__ == "wrong_counts")
    return list(check(tenant.id, checking.Options()))


@pytest.mark.django_db
def test_counts_that_are_off_are_found_and_made_right(
    cast: Cast, mine: Collection, key: ApiKey
) -> None:
    _send(mine, b"1", user=cast.carl, key_id=key.id)
    _send(mine, b"22", user=cast.carl)
    assert not _found(cast.acme)
    DocumentUse.objects.filter(tenant=cast.acme).update(documents=77)
    DocumentUse.objects.create(
        tenant=cast.acme, subject=Subject.MEMBER, subject_id=str(cast.bob.id), bytes=5
    )
    (finding,) = _found(cast.acme)
    assert finding.kind == "wrong_count"
    assert finding.repair is not None
    assert finding.repair()
    assert not _found(cast.acme)
    assert have(cast.acme) == (2, 3)
    assert have(cast.acme, (Subject.KEY, str(key.id))) == (1, 1)
    assert have(cast.acme, (Subject.MEMBER, str(cast.bob.id))) == (0, 0)


@pytest.mark.django_db
def test_a_count_that_is_too_low_keeps_nothing_from_being_deleted(
    tenant: Tenant, upload: Upload
) -> None:
    document = upload(b"one")
    DocumentUse.objects.update(documents=0, bytes=0)
    services.delete_document(tenant=tenant, document=document, actor=None)
    assert have(tenant) == (0, 0)


@pytest.mark.django_db
def test_asking_for_room_reads_no_documents(
    tenant: Tenant, upload: Upload, django_assert_max_num_queries: Any
) -> None:
    """Two short reads, however many documents there are."""
    upload(b"one")
    limit(tenant, Measure.DOCUMENTS, 5)
    with django_assert_max_num_queries(2) as asked:
        quotas.refuse_without_room(quotas.Addition(tenant.id, 1))
    assert not any('documents_document"' in each["sql"] for each in asked.captured_queries)
