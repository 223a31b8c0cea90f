"""Receiving files: what is kept, what is refused, and that nothing is half done."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError

from apps.documents import jobs, selectors, services
from apps.documents.errors import (
    CollectionGone,
    DuplicateDocument,
    EmptyFile,
    FileTooLarge,
    NameTaken,
)
from apps.documents.files import clean_name
from apps.documents.models import Collection, CollectionReader, Document
from apps.documents.previews import preview_folder
from apps.telemetry.models import AuditEvent
from apps.tenants.access import Access, find_access
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast
from tests.documents.conftest import Upload

pytestmark = pytest.mark.django_db


def stored_files(settings) -> list[Path]:
    return [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]


def test_the_bytes_are_kept_under_a_key_without_the_clients_name(
    tenant: Tenant, collection: Collection
) -> None:
    file = SimpleUploadedFile("../../etc/passwd.txt", b"hello " * 100)
    document = services.receive_upload(
        tenant=tenant, collection=collection, user=None, path=file.name or "", file=file
    )
    assert document.name == "passwd.txt"
    assert "passwd" not in document.storage_key
    with default_storage.open(document.storage_key) as stored:
        assert stored.read() == b"hello " * 100


def test_the_same_bytes_are_recognised_and_kept_once(upload: Upload, settings) -> None:
    first = upload(b"the same bytes", "one.txt")
    with pytest.raises(DuplicateDocument, match=r"one\.txt") as caught:
        upload(b"the same bytes", "two.txt")
    assert caught.value.document == first
    assert len(stored_files(settings)) == 1


def test_the_same_bytes_may_be_in_two_collections(upload: Upload, tenant: Tenant) -> None:
    upload(b"the same bytes")
    other = services.create_collection(tenant=tenant, user=None, name="Other")
    assert services.receive_upload(
        tenant=tenant, collection=other, user=None, path="b.txt", file=BytesIO(b"the same bytes")
    )


def test_a_file_over_the_limit_is_refused_while_it_streams(
    tenant: Tenant, collection: Collection, settings
) -> None:
    settings.UPLOAD_MAX_BYTES = 10_000
    read = 0

    class Endless:
        def chunks(self) -> Iterator[bytes]:
            nonlocal read
            while True:
                read += 1000
                yield b"x" * 1000

    with pytest.raises(FileTooLarge):
        services.receive_upload(
            tenant=tenant, collection=collection, user=None, path="big", file=Endless()
        )
    assert read <= 11_000
    assert stored_files(settings) == []


def test_an_empty_file_is_refused(upload: Upload, settings) -> None:
    with pytest.raises(EmptyFile):
        upload(b"")
    assert stored_files(settings) == []


def test_an_upload_that_breaks_off_leaves_nothing(
    tenant: Tenant, collection: Collection, settings
) -> None:
    class Broken:
        def chunks(self) -> Iterator[bytes]:
            yield b"the first half"
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        services.receive_upload(
            tenant=tenant, collection=collection, user=None, path="half.txt", file=Broken()
        )
    assert stored_files(settings) == []
    with tenant_scope(tenant.id):
        assert not Document.objects.exists()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("../../../etc/passwd", "passwd"),
        ("a\x00b\r\nc.txt", "abc.txt"),
        ("evil\u202efdp.exe", "evilfdp.exe"),
        ("  spaced   out .txt ", "spaced out .txt"),
        ("", "document"),
        ("...", "document"),
        ("x" * 400 + ".pdf", "x" * 251 + ".pdf"),
        ('<img src="x">.html', "_img src=_x__.html"),
        ("日本語.pdf", "日本語.pdf"),
        ("\ud800bad.txt", "bad.txt"),
    ],
)
def test_names_are_made_harmless(given: str, kept: str) -> None:
    assert clean_name(given) == kept


@pytest.mark.parametrize(("error", "kept"), [(OperationalError, 1), (RuntimeError, 0)])
def test_a_file_stays_only_where_its_row_may_have_been_committed(
    upload: Upload, settings, monkeypatch: pytest.MonkeyPatch, error: type[Exception], kept: int
) -> None:
    def fail(document: Document) -> None:
        raise error("the connection is lost")

    monkeypatch.setattr(jobs, "submit", fail)
    with pytest.raises(error):
        upload(b"words")
    stored = [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]
    assert len(stored) == kept


def test_an_upload_into_a_collection_that_is_deleted_meanwhile_leaves_nothing(
    tenant: Tenant, collection: Collection, upload: Upload, settings
) -> None:
    services.delete_collection(tenant=tenant, collection=collection, actor=None)
    with pytest.raises(CollectionGone):
        upload(b"words")
    assert not [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]


def test_deleting_a_document_removes_its_file_and_previews(
    upload: Upload, tenant: Tenant, settings, django_capture_on_commit_callbacks
) -> None:
    document = upload(b"some words")
    folder = preview_folder(tenant.id, document.id)
    folder.mkdir(parents=True)
    (folder / "1.png").write_bytes(b"png")
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_document(tenant=tenant, document=document, actor=None)
    assert stored_files(settings) == []
    with tenant_scope(tenant.id):
        assert not Document.objects.exists()


def test_deleting_a_collection_removes_its_documents(
    upload: Upload,
    tenant: Tenant,
    collection: Collection,
    settings,
    django_capture_on_commit_callbacks,
) -> None:
    upload(b"some words")
    upload(b"other words")
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_collection(tenant=tenant, collection=collection, actor=None)
    assert stored_files(settings) == []
    with tenant_scope(tenant.id):
        assert not Document.objects.exists()


def test_a_name_taken_is_said_so(tenant: Tenant, collection: Collection) -> None:
    with pytest.raises(NameTaken, match="Handbook"):
        services.create_collection(tenant=tenant, user=None, name=" Handbook ")


def test_what_was_done_is_in_the_audit_trail(upload: Upload, tenant: Tenant) -> None:
    document = upload(b"some words")
    services.delete_document(tenant=tenant, document=document, actor=None)
    events = AuditEvent.objects.filter(tenant_id=tenant.id, subject_id=str(document.id))
    assert {event.action for event in events} == {"document.uploaded", "document.deleted"}


@pytest.fixture
def closed(cast: Cast) -> Collection:
    """A collection of Acme's that is open to nobody yet."""
    return services.create_collection(
        tenant=cast.acme, user=cast.carl, name="Closed", open_to_all=False
    )


def access_of(cast: Cast, user: object) -> Access:
    access = find_access(user, slug="acme")  # type: ignore[arg-type]
    assert access is not None
    return access


def names_for(cast: Cast, user: object) -> list[str]:
    with tenant_scope(cast.acme.id):
        return [each.name for each in selectors.collections_for(access_of(cast, user))]


def test_members_see_open_collections_and_those_they_are_named_in(
    cast: Cast, closed: Collection
) -> None:
    services.create_collection(tenant=cast.acme, user=cast.carl, name="Open")
    assert names_for(cast, cast.bob) == ["Open"]
    assert names_for(cast, cast.carl) == ["Closed", "Open"]
    services.update_collection(
        tenant=cast.acme,
        collection=closed,
        actor=cast.carl,
        name="Closed",
        description="",
        open_to_all=False,
        reader_ids=[cast.bob.id, cast.mallory.id],
    )
    assert names_for(cast, cast.bob) == ["Closed", "Open"]


def test_strangers_cannot_be_made_readers(cast: Cast) -> None:
    made = services.create_collection(
        tenant=cast.acme,
        user=cast.carl,
        name="Closed",
        open_to_all=False,
        reader_ids=[cast.bob.id, cast.mallory.id],
    )
    with tenant_scope(cast.acme.id):
        readers = CollectionReader.objects.filter(collection=made)
        assert [reader.user_id for reader in readers] == [cast.bob.id]


def test_a_document_of_a_closed_collection_is_not_found_by_a_member(
    cast: Cast, closed: Collection
) -> None:
    document = services.receive_upload(
        tenant=cast.acme, collection=closed, user=cast.carl, path="a.txt", file=BytesIO(b"words")
    )
    with tenant_scope(cast.acme.id):
        assert selectors.get_document_for(access_of(cast, cast.bob), document.id) is None
        assert selectors.get_document_for(access_of(cast, cast.carl), document.id) == document
