"""From an upload to pages and chunks, through the real sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.documents import files, ingestion, jobs, services, sweeping
from apps.documents.errors import StorageUnavailable
from apps.documents.ingestion import ingest_next
from apps.documents.models import Chunk, Collection, Document, DocumentState, Job, Page, Stage
from apps.telemetry.models import Span
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload, reload
from worker import enqueue as enqueue_module

pytestmark = pytest.mark.django_db

GUIDE = b"# Guide\n\nIntro words.\n\n## Install\n\nRun the setup script, then sign in.\n"


def ingest(document: Document) -> Document:
    ingest_next()
    return reload(document)


def pages_and_chunks(document: Document) -> tuple[list[Page], list[Chunk]]:
    with tenant_scope(document.tenant_id):
        pages = Page.objects.filter(document=document).order_by("number")
        chunks = Chunk.objects.filter(document=document).order_by("ordinal")
        return list(pages), list(chunks)


def test_a_document_gets_pages_and_chunks_and_waits_for_indexing(upload: Upload) -> None:
    document = ingest(upload(GUIDE, "guide.md"))
    pages, chunks = pages_and_chunks(document)
    assert document.state == DocumentState.INDEXING
    assert (document.kind, document.page_count) == ("text/markdown", 1)
    assert document.chunk_count == len(chunks)
    job = Job.objects.get(document=document)
    assert (job.stage, job.attempt, job.lease_expires_at) == (Stage.INDEX, 0, None)
    assert "".join(page.text for page in pages) == GUIDE.decode()
    assert [chunk.heading_path for chunk in chunks] == ["Guide", "Guide › Install"]


def test_chunk_texts_are_the_stored_text_at_their_offsets(upload: Upload, guide_pdf: bytes) -> None:
    pages, chunks = pages_and_chunks(ingest(upload(guide_pdf, "guide.pdf")))
    whole = "".join(page.text for page in pages)
    for page in pages:
        assert whole[page.char_start : page.char_start + len(page.text)] == page.text
    for chunk in chunks:
        assert whole[chunk.char_start : chunk.char_end] == chunk.text
        assert pages[chunk.page_first - 1].char_start <= chunk.char_start
    assert {chunk.page_first for chunk in chunks} == {1, 2, 3}
    assert "Chapter 2 › Section 2.1" in {chunk.heading_path for chunk in chunks}


def test_hops_of_an_ingestion_are_found_by_the_documents_id(upload: Upload) -> None:
    document = ingest(upload(GUIDE, "guide.md"))
    spans = Span.objects.filter(tenant_id=document.tenant_id, trace_id=document.id)
    assert [span.hop for span in spans.order_by("id")] == ["receive", "parse", "chunk"]


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"PK\x03\x04rest", "a.zip", "archive"),
        (b" \n\t ", "blank.txt", "empty"),
        (os.urandom(4096), "noise.bin", "unreadable_kind"),
        (b"PK\x03\x04cut off", "report.docx", "damaged"),
        (b"%PDF-1.7\nnothing else", "a.pdf", "damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "scan.png", "no_text"),
    ],
)
def test_what_cannot_be_read_fails_with_a_reason(
    upload: Upload, data: bytes, name: str, code: str
) -> None:
    document = ingest(upload(data, name))
    assert (document.state, document.error_code) == (DocumentState.FAILED, code)
    assert document.error_message.endswith(".")


def test_script_and_nul_bytes_are_only_text(upload: Upload) -> None:
    data = b"Before\x00after <script>alert(1)</script> end of the text\n"
    _, chunks = pages_and_chunks(ingest(upload(data, "notes.txt")))
    assert chunks[0].text == "Before after <script>alert(1)</script> end of the text"


def test_ingesting_twice_makes_nothing_twice(upload: Upload) -> None:
    document = ingest(upload(GUIDE, "guide.md"))
    before = pages_and_chunks(document)
    ingest(document)
    assert pages_and_chunks(document) == before


def while_parsed(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[bool]:
    """Have `act` happen when the sandbox has given its first section; says if it was ended."""
    stream = ingestion.run_sandboxed_stream
    ended: list[bool] = []

    def act_then_go_on(*args: Any, **options: Any) -> Iterator[Any]:
        items = stream(*args, **options)
        try:
            for item in items:
                act()
                yield item
        finally:
            items.close()
            ended.append(True)

    monkeypatch.setattr(ingestion, "run_sandboxed_stream", act_then_go_on)
    return ended


def test_a_document_deleted_while_it_is_parsed_leaves_nothing(
    upload: Upload, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(GUIDE, "guide.md")
    ended = while_parsed(
        monkeypatch,
        lambda: services.delete_document(tenant=tenant, document=document, actor=None),
    )
    ingest_next()
    assert ended == [True]
    with tenant_scope(tenant.id):
        assert not Document.objects.exists()
        assert not Page.objects.exists()
        assert not Chunk.objects.exists()
    span = Span.objects.get(trace_id=document.id, hop="parse")
    assert (span.status, span.error_code) == ("skipped", "document_gone")


def test_a_missing_file_fails_the_document(upload: Upload) -> None:
    document = upload(GUIDE, "guide.md")
    default_storage.delete(document.storage_key)
    assert ingest(document).error_code == "file_missing"


def test_an_attempt_that_was_taken_over_writes_nothing(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(GUIDE, "guide.md")
    taken: list[jobs.Claim | None] = []

    def take_over() -> None:
        Job.objects.filter(document=document).update(lease_expires_at=timezone.now())
        taken.append(jobs.take(Stage.INGEST))

    ended = while_parsed(monkeypatch, take_over)
    assert ingest(document).state == DocumentState.PARSING
    assert pages_and_chunks(document) == ([], [])
    assert ended == [True]
    assert taken[0] is not None
    assert jobs.renew(taken[0])


def test_storage_that_is_away_is_waited_for(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(GUIDE, "guide.md")

    def away(key: str) -> object:
        raise StorageUnavailable("The file storage does not answer.")

    with monkeypatch.context() as patched:
        patched.setattr(files, "local_path", away)
        waits = ingest(document)
    assert (waits.state, waits.error_code) == (DocumentState.PARSING, "storage_unavailable")
    assert not ingest_next()
    Job.objects.filter(document=document).update(not_before=timezone.now())
    assert ingest(document).state == DocumentState.INDEXING


def test_a_reader_that_gives_nothing_fails_the_document(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "run_sandboxed_stream", lambda *_, **__: (x for x in ()))
    assert ingest(upload(GUIDE, "guide.md")).error_code == "crashed"


def test_a_failed_document_can_be_retried(upload: Upload, tenant: Tenant) -> None:
    document = ingest(upload(os.urandom(4096), "noise.bin"))
    assert not Job.objects.exists()
    services.retry_document(tenant=tenant, document=document, actor=None)
    again = reload(document)
    assert (again.state, again.error_code, again.error_message) == (DocumentState.RECEIVED, "", "")
    job = Job.objects.get(document=document)
    assert (job.stage, job.attempt) == (Stage.INGEST, 0)


def test_all_failed_documents_or_those_with_one_reason_are_retried(
    upload: Upload, tenant: Tenant, collection: Collection
) -> None:
    archive = ingest(upload(b"PK\x03\x04rest", "a.zip"))
    noise = ingest(upload(os.urandom(4096), "noise.bin"))
    retry = partial(services.retry_failed, tenant=tenant, collection=collection, actor=None)
    assert retry(code="archive") == 1
    assert reload(archive).state == DocumentState.RECEIVED
    assert reload(noise).state == DocumentState.FAILED
    assert (retry(), retry()) == (1, 0)
    assert Job.objects.count() == 2


def test_abandoned_uploads_are_removed_after_a_day(upload: Upload, settings) -> None:
    incoming = Path(settings.MEDIA_ROOT) / "incoming"
    incoming.mkdir(parents=True)
    (incoming / "old").write_bytes(b"x")
    os.utime(incoming / "old", (1, 1))
    (incoming / "new").write_bytes(b"x")
    sweeping.sweep()
    assert [path.name for path in incoming.iterdir()] == ["new"]


def test_a_dead_broker_does_not_lose_or_refuse_an_upload(
    upload: Upload, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks
) -> None:
    from kombu.exceptions import OperationalError

    def refuse(*args: object, **kwargs: object) -> None:
        raise OperationalError("no broker")

    with monkeypatch.context() as patched:
        patched.setattr(enqueue_module.app, "send_task", refuse)
        with django_capture_on_commit_callbacks(execute=True):
            document = upload(GUIDE)
    assert reload(document).state == DocumentState.RECEIVED
    assert sweeping.sweep() == 1
