"""fsck's checks of files, jobs, texts and versions: damage is found, repaired, and then gone."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage, default_storage
from django.utils import timezone

from apps.documents import checking, files, jobs, services
from apps.documents.checking import Finding, Options, stored
from apps.documents.ingestion import ingest_next
from apps.documents.models import Chunk, Collection, Document, DocumentState, Job, Page, Stage
from apps.documents.previews import preview_folder
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload, reload

pytestmark = pytest.mark.django_db

GUIDE = b"# Guide\n\nIntro words.\n\n## Install\n\nRun the setup script, then sign in.\n"
NOW = Options(grace_s=-1)  # files are strays from their first moment on


class Remote:
    """A storage that is no disk of this machine."""

    def __init__(self) -> None:
        self._kept = InMemoryStorage()

    def path(self, name: str) -> str:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)


def findings(tenant: Tenant, options: Options = NOW) -> list[Finding]:
    """Of every check, the one of gone tenants included."""

    def run() -> Iterator[Finding]:
        for check in checking.CHECKS:
            yield from check(tenant.id, options)
        yield from checking.files_of_gone_tenants(options)

    return list(run())


def kinds(tenant: Tenant, options: Options = NOW) -> list[str]:
    return [finding.kind for finding in findings(tenant, options)]


def repair(tenant: Tenant) -> list[str]:
    """Repair what can be; the kinds that were found."""
    found = findings(tenant)
    for finding in found:
        if finding.repair is not None:
            assert finding.repair()
    return [finding.kind for finding in found]


@pytest.fixture
def ready(upload: Upload) -> Callable[..., Document]:
    """Uploads a file and brings it to "ready", the search tables left out."""

    def make(data: bytes = GUIDE, name: str = "guide.md") -> Document:
        document = upload(data, name)
        finish(document)
        return reload(document)

    return make


def finish(document: Document) -> None:
    """Parse and chunk it, and say that it was indexed."""
    ingest_next()
    claim = jobs.take(Stage.INDEX)
    assert claim is not None
    with tenant_scope(document.tenant_id):
        jobs.mark_ready(claim)


def change(document: Document, **fields: object) -> None:
    with tenant_scope(document.tenant_id):
        Document.objects.filter(id=document.id).update(**fields)


def test_a_sound_corpus_has_no_findings(ready: Callable[..., Document], tenant: Tenant) -> None:
    ready()
    ready(b"# Guide\n\nNew words.\n")
    ready(b"One line.", "notes.txt")
    assert kinds(tenant, Options(deep=True, grace_s=-1)) == []


def test_an_unfinished_document_is_no_finding(upload: Upload, tenant: Tenant) -> None:
    upload(GUIDE)
    assert kinds(tenant) == []


def test_a_file_without_a_document_is_removed(upload: Upload, tenant: Tenant) -> None:
    kept = upload(GUIDE)
    strays = [
        files.storage_key(tenant.id, uuid.uuid4(), "ab" * 32),
        # An unlocked copy, and a second copy, of a document that names neither.
        files.storage_key(tenant.id, kept.id, "unlocked"),
        f"documents/{tenant.id.hex}/odd/name",
    ]
    for key in strays:
        default_storage.save(key, ContentFile(b"bytes"))
    assert repair(tenant) == ["stray_file"] * 3
    assert kinds(tenant) == []
    assert [default_storage.exists(key) for key in strays] == [False] * 3
    assert default_storage.exists(kept.storage_key)


def test_a_file_gets_its_time_to_be_committed(tenant: Tenant) -> None:
    key = files.storage_key(tenant.id, uuid.uuid4(), "ab" * 32)
    default_storage.save(key, ContentFile(b"bytes"))
    assert kinds(tenant, Options()) == []
    old = timezone.now().timestamp() - 3601
    os.utime(default_storage.path(key), (old, old))
    assert kinds(tenant, Options()) == ["stray_file"]


def test_a_file_whose_document_came_meanwhile_is_kept(tenant: Tenant, upload: Upload) -> None:
    document = upload(GUIDE)
    change(document, storage_key="elsewhere")
    found = [finding for finding in findings(tenant) if finding.kind == "stray_file"]
    change(document, storage_key=document.storage_key)
    assert found[0].repair is not None
    found[0].repair()
    assert default_storage.exists(document.storage_key)


def test_files_of_a_gone_tenant_are_removed(tenant: Tenant) -> None:
    gone = uuid.uuid4()
    default_storage.save(files.storage_key(gone, gone, "ab" * 32), ContentFile(b"bytes"))
    images = preview_folder(gone, gone)
    images.mkdir(parents=True)
    (images / "1.png").write_bytes(b"png")
    assert repair(tenant) == ["stray_tenant_files", "stray_tenant_previews"]
    assert kinds(tenant) == []
    assert not images.exists()


def test_previews_without_a_document_are_removed(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    document = ready()
    for owner in (document.id, uuid.uuid4()):
        folder = preview_folder(tenant.id, owner)
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(b"png")
    assert repair(tenant) == ["stray_preview"]
    assert kinds(tenant) == []
    assert (preview_folder(tenant.id, document.id) / "1.png").exists()


def test_an_unfinished_document_without_its_file_fails(upload: Upload, tenant: Tenant) -> None:
    document = upload(GUIDE)
    default_storage.delete(document.storage_key)
    assert repair(tenant) == ["missing_file"]
    failed = reload(document)
    assert (failed.state, failed.error_code) == (DocumentState.FAILED, "file_missing")
    assert not Job.objects.exists()
    assert kinds(tenant) == []


def test_a_ready_document_without_its_file_is_reported(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    document = ready()
    default_storage.delete(document.storage_key)
    assert repair(tenant) == ["missing_file"]
    assert kinds(tenant) == ["missing_file"]
    assert reload(document).state == DocumentState.READY


def test_a_lost_unlocked_copy_is_reported(ready: Callable[..., Document], tenant: Tenant) -> None:
    change(ready(), unlocked_key=files.storage_key(tenant.id, uuid.uuid4(), "unlocked"))
    assert kinds(tenant) == ["missing_file"]


@pytest.mark.parametrize(("written", "shallow"), [(b"short", ["changed_file"]), (b"#", [])])
def test_a_file_that_changed_is_reported(
    ready: Callable[..., Document], tenant: Tenant, written: bytes, shallow: list[str]
) -> None:
    document = ready()
    path = Path(default_storage.path(document.storage_key))
    same_size = written + path.read_bytes()[:-1] if len(written) == 1 else written
    path.write_bytes(same_size)
    assert kinds(tenant) == shallow
    assert kinds(tenant, Options(deep=True)) == ["changed_file"]


def test_an_unfinished_document_without_a_job_gets_one(upload: Upload, tenant: Tenant) -> None:
    document = upload(GUIDE)
    Job.objects.all().delete()
    assert repair(tenant) == ["no_job"]
    assert kinds(tenant) == []
    finish(document)
    assert reload(document).state == DocumentState.READY


def test_a_chunked_document_without_a_job_goes_on_to_be_indexed(
    upload: Upload, tenant: Tenant
) -> None:
    upload(GUIDE)
    ingest_next()
    Job.objects.all().delete()
    repair(tenant)
    assert Job.objects.get().stage == Stage.INDEX


def test_a_job_that_is_there_stays_as_it_is(upload: Upload, tenant: Tenant) -> None:
    document = upload(GUIDE)
    Job.objects.all().delete()
    found = findings(tenant)
    with tenant_scope(tenant.id):
        jobs.submit(document)
    assert jobs.take(Stage.INGEST) is not None
    assert found[0].repair is not None
    found[0].repair()
    assert Job.objects.get().fence == 1


def test_the_job_of_a_finished_document_goes(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    document = ready()
    with tenant_scope(tenant.id):
        jobs.submit(document)
    assert repair(tenant) == ["needless_job"]
    assert kinds(tenant) == []
    assert reload(document).state == DocumentState.READY


def test_the_job_of_a_document_retried_meanwhile_stays(upload: Upload, tenant: Tenant) -> None:
    document = upload(GUIDE)
    change(document, state=DocumentState.FAILED)
    found = findings(tenant)
    change(document, state=DocumentState.RECEIVED)
    assert [finding.kind for finding in found] == ["needless_job"]
    assert found[0].repair is not None
    found[0].repair()
    assert Job.objects.count() == 1


def shorten_a_chunk(document: Document) -> None:
    chunk = Chunk.objects.filter(document=document).first()
    assert chunk is not None
    Chunk.objects.filter(id=chunk.id).update(text=chunk.text[:-1])


def move_a_chunk(document: Document) -> None:
    Chunk.objects.filter(document=document, ordinal=0).update(page_first=2, page_last=2)


def lose_a_chunk(document: Document) -> None:
    Chunk.objects.filter(document=document, ordinal=0).delete()


def renumber_a_chunk(document: Document) -> None:
    Chunk.objects.filter(document=document, ordinal=1).update(ordinal=9)


def shift_a_page(document: Document) -> None:
    Page.objects.filter(document=document, number=2).update(char_start=1)


def lose_a_page(document: Document) -> None:
    Page.objects.filter(document=document, number=3).delete()


def change_a_page(document: Document) -> None:
    page = Page.objects.get(document=document, number=2)
    Page.objects.filter(id=page.id).update(text=page.text.upper())


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (shorten_a_chunk, "changed_chunks"),
        (move_a_chunk, "changed_chunks"),
        (lose_a_chunk, "broken_chunks"),
        (renumber_a_chunk, "broken_chunks"),
        (shift_a_page, "broken_pages"),
        (lose_a_page, "broken_pages"),
        (change_a_page, "changed_chunks"),
    ],
)
def test_a_document_whose_text_is_damaged_is_read_again(
    ready: Callable[..., Document],
    tenant: Tenant,
    guide_pdf: bytes,
    damage: Callable[[Document], None],
    kind: str,
) -> None:
    sound, document = ready(), ready(guide_pdf, "guide.pdf")
    with tenant_scope(tenant.id):
        damage(document)
    assert kind in repair(tenant)
    assert reload(document).state == DocumentState.RECEIVED
    assert reload(sound).state == DocumentState.READY
    finish(document)
    assert reload(document).state == DocumentState.READY
    assert kinds(tenant) == []


def test_damage_that_was_made_good_meanwhile_is_left_alone(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    document = ready()
    change(document, chunk_count=7)
    found = findings(tenant)
    change(document, chunk_count=document.chunk_count)
    for finding in found:
        assert finding.repair is not None
        finding.repair()
    assert reload(document).state == DocumentState.READY


def test_the_text_of_an_old_version_cannot_be_had_back(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    old = ready()
    ready(b"# Guide\n\nNew words.\n")
    with tenant_scope(tenant.id):
        shorten_a_chunk(old)
    [finding] = findings(tenant)
    assert (finding.kind, finding.repair) == ("changed_chunks", None)


def test_an_old_version_beside_a_new_one_is_superseded(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    old = ready()
    ready(b"# Guide\n\nNew words.\n")
    change(old, state=DocumentState.READY)
    assert repair(tenant) == ["old_version"]
    assert reload(old).state == DocumentState.SUPERSEDED
    assert kinds(tenant) == []


def test_another_tenants_documents_are_not_looked_at(
    ready: Callable[..., Document], tenant: Tenant
) -> None:
    change(ready(), chunk_count=7)
    rival = Tenant.objects.create(slug="rival", name="Rival")
    assert kinds(rival) == []
    assert kinds(tenant) == ["broken_chunks"]


def test_a_storage_without_paths_is_checked_alike(
    tenant: Tenant, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote()
    for module in (files, stored):
        monkeypatch.setattr(module, "default_storage", remote)
    document = services.receive_upload(
        tenant=tenant, collection=collection, user=None, path="a.md", file=BytesIO(GUIDE)
    )
    finish(document)
    stray = files.storage_key(tenant.id, uuid.uuid4(), "ab" * 32)
    remote.save(stray, ContentFile(b"bytes"))
    assert repair(tenant) == ["stray_file"]
    assert kinds(tenant, Options(deep=True)) == []
    assert not remote.exists(stray)


def test_findings_name_no_text(ready: Callable[..., Document], tenant: Tenant) -> None:
    document = ready(GUIDE, "secret name.md")
    change(document, chunk_count=7, page_count=3, created_at=timezone.now() - timedelta(days=1))
    said = " ".join(f"{each.subject} {each.words}" for each in findings(tenant))
    assert "secret" not in said
    assert "setup" not in said
