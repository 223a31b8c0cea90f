"""Documents that come in several parts: offsets, pages and headings go on from one to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.documents import ingestion, reading
from apps.documents.ingestion import ingest_next
from apps.documents.models import Chunk, DocumentState, Page
from apps.documents.reading import Section, load_section, read_file
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload, reload
from tests.documents.test_jobs import expire

SENTENCE = "The river rises in spring and carries sand to the lower fields. "
BEGIN = "# Guide\n\n## Install\n\n"
PARTS = [
    ([BEGIN + SENTENCE * 6, SENTENCE * 5], [(0, 1, "Guide"), (9, 2, "Install")]),
    ([SENTENCE * 7], []),
    (["", SENTENCE * 2 + "\n\n## Use\n\n" + SENTENCE], [(len(SENTENCE) * 2 + 2, 2, "Use")]),
    ([SENTENCE * 3, "The end.", ""], []),
]  # fmt: skip


def parts(*args: object, **options: object) -> Iterator[dict[str, Any]]:
    for number, (pages, headings) in enumerate(PARTS, start=1):
        yield {
            "kind": "text/markdown",
            "language": "en",
            "pages": pages,
            "headings": headings,
            "progress": number / len(PARTS),
        }


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "parse_file", parts)


def read() -> list[Section]:
    options = {"encoding": "", "ocr": False, "tokenizer_file": None}
    items = read_file("/x", "x.md", **options, max_tokens=60, overlap_tokens=10)  # type: ignore[arg-type]
    return [load_section(item) for item in items]


@pytest.fixture
def _no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(function: str, payload: dict[str, Any], **_: object) -> Iterator[Any]:
        payload = payload | {"tokenizer_file": None, "max_tokens": 60, "overlap_tokens": 10}
        yield from read_file(**payload)

    monkeypatch.setattr(ingestion, "run_sandboxed_stream", stream)


def test_passages_are_their_parts_text_at_their_offsets() -> None:
    for section in read():
        text = "".join(section.pages)
        for passage in section.passages:
            assert text[passage.start : passage.end] == passage.text
            assert passage.text.strip()


def test_headings_hold_over_the_parts_that_follow() -> None:
    paths = [{passage.heading_path for passage in section.passages} for section in read()]
    assert paths[0] <= {"Guide", "Guide › Install"}
    assert paths[1] == {"Guide › Install"}
    assert paths[2] == {"Guide › Install", "Guide › Use"}
    assert paths[3] == {"Guide › Use"}


def test_progress_and_times_are_said_with_each() -> None:
    sections = read()
    assert [section.progress for section in sections] == [0.25, 0.5, 0.75, 1.0]
    assert all(section.parse_ms >= 0 and section.chunk_ms > 0 for section in sections)


@pytest.mark.django_db
@pytest.mark.usefixtures("_no_sandbox")
def test_pages_and_chunks_are_numbered_through_the_document(upload: Upload) -> None:
    document = upload(b"anything", "x.md")
    ingest_next()
    document = reload(document)
    with tenant_scope(document.tenant_id):
        pages = list(Page.objects.filter(document=document).order_by("number"))
        chunks = list(Chunk.objects.filter(document=document).order_by("ordinal"))
    whole = "".join(page.text for page in pages)
    expected = [page for part_pages, _ in PARTS for page in part_pages]
    assert [page.text for page in pages] == expected
    assert [page.number for page in pages] == list(range(1, len(expected) + 1))
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert (document.page_count, document.chunk_count) == (len(pages), len(chunks))
    for page in pages:
        assert whole[page.char_start : page.char_start + len(page.text)] == page.text
    for chunk in chunks:
        assert whole[chunk.char_start : chunk.char_end] == chunk.text
        assert page_at(pages, chunk.char_start) == chunk.page_first
        assert page_at(pages, chunk.char_end - 1) == chunk.page_last


def page_at(pages: list[Page], offset: int) -> int:
    return max(page.number for page in pages if page.char_start <= offset)


@pytest.mark.django_db
@pytest.mark.usefixtures("_no_sandbox")
def test_what_an_earlier_attempt_wrote_is_replaced_by_the_first_part(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(b"anything", "x.md")

    def break_off(*args: object, **options: object) -> Iterator[dict[str, Any]]:
        for number, part in enumerate(parts()):
            if number == 3:
                raise SystemExit  # killed
            yield part

    with monkeypatch.context() as patched:
        patched.setattr(reading, "parse_file", break_off)
        with pytest.raises(SystemExit):
            ingest_next()
    broken = reload(document)
    assert (broken.state, broken.progress_done) == (DocumentState.PARSING, 50)
    assert broken.chunk_count > 0
    expire()
    ingest_next()
    done = reload(document)
    assert (done.state, done.page_count) == (DocumentState.INDEXING, 8)
    with tenant_scope(document.tenant_id):
        assert Chunk.objects.filter(document=document).count() == done.chunk_count
