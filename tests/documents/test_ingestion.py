"""From an upload to pages and chunks, through the real sandbox."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.documents import ingestion, jobs, services, sweeping
from apps.documents.ingestion import ingest_next
from apps.documents.models import Chunk, Document, DocumentState, Page
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
    assert (document.chunk_count, document.lease_expires_at) == (len(chunks), None)
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
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "scan.png", "unreadable_kind"),
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


def test_a_document_deleted_while_it_is_parsed_leaves_nothing(
    upload: Upload, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(GUIDE, "guide.md")
    parse = ingestion._parse

    def parse_then_delete(*args: object) -> object:
        text = parse(*args)  # type: ignore[arg-type]
        services.delete_document(tenant=tenant, document=document, actor=None)
        return text

    monkeypatch.setattr(ingestion, "_parse", parse_then_delete)
    ingest_next()
    with tenant_scope(tenant.id):
        assert not Document.objects.exists()
        assert not Page.objects.exists()
        assert not Chunk.objects.exists()


def test_a_missing_file_fails_the_document(upload: Upload) -> None:
    document = upload(GUIDE, "guide.md")
    default_storage.delete(document.storage_key)
    assert ingest(document).error_code == "file_missing"


def test_an_attempt_that_was_taken_over_writes_nothing(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(GUIDE, "guide.md")
    chunk = ingestion._chunk

    def chunk_slowly(*args: object) -> object:
        with tenant_scope(document.tenant_id):
            Document.objects.filter(id=document.id).update(attempt=2)
        return chunk(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ingestion, "_chunk", chunk_slowly)
    assert ingest(document).state == DocumentState.CHUNKING
    assert pages_and_chunks(document) == ([], [])


def claim(document: Document, lease_s: int = 60) -> Document | None:
    return jobs.claim(
        tenant_id=document.tenant_id,
        document_id=document.id,
        from_states=(DocumentState.RECEIVED, DocumentState.PARSING),
        to_state=DocumentState.PARSING,
        lease_s=lease_s,
    )


def test_a_held_document_cannot_be_claimed_again(upload: Upload) -> None:
    document = upload(GUIDE)
    assert claim(document) is not None
    assert claim(document) is None


def test_a_document_that_keeps_crashing_is_given_up(upload: Upload) -> None:
    document = upload(GUIDE)
    for _ in range(jobs.ATTEMPTS_MAX):
        assert claim(document, lease_s=-1) is not None
    assert claim(document) is None
    failed = reload(document)
    assert (failed.state, failed.error_code) == (DocumentState.FAILED, "kept_crashing")
    assert "kept crashing" in failed.error_message


def test_a_failed_document_can_be_retried(upload: Upload, tenant: Tenant) -> None:
    document = ingest(upload(os.urandom(4096), "noise.bin"))
    services.retry_document(tenant=tenant, document=document, actor=None)
    again = reload(document)
    assert (again.state, again.attempt, again.error_message) == (DocumentState.RECEIVED, 0, "")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(
        sweeping, "enqueue", lambda name, *, tenant_id, **arguments: names.append(name)
    )
    return names


def age(document: Document, **fields: object) -> None:
    with tenant_scope(document.tenant_id):
        Document.objects.filter(id=document.id).update(
            updated_at=timezone.now() - timedelta(minutes=5), **fields
        )


def test_the_sweeper_sends_again_what_nobody_claimed(upload: Upload, sent: list[str]) -> None:
    age(upload(GUIDE))
    assert sweeping.sweep() == 1
    assert sent == ["documents.ingest_document"]


def test_the_sweeper_sends_a_dead_workers_document_to_its_stage(
    upload: Upload, sent: list[str]
) -> None:
    past = timezone.now() - timedelta(seconds=1)
    age(upload(GUIDE), state=DocumentState.INDEXING, lease_expires_at=past)
    sweeping.sweep()
    assert sent == ["retrieval.index_document"]


def test_the_sweeper_leaves_what_is_new_held_or_finished(upload: Upload, sent: list[str]) -> None:
    upload(b"just arrived")
    claim(upload(b"held by a worker"))
    age(upload(b"finished"), state=DocumentState.READY)
    assert sweeping.sweep() == 0


def test_the_sweeper_does_not_pile_up_on_a_backlog(
    upload: Upload, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    age(upload(GUIDE))
    monkeypatch.setattr(sweeping, "queue_length", lambda queue: 7)
    assert sweeping.sweep() == 0


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

    monkeypatch.setattr(enqueue_module.app, "send_task", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        document = upload(GUIDE)
    assert reload(document).state == DocumentState.RECEIVED
