"""Page images and the boxes of a passage, on a real PDF in the real sandbox."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from apps.documents import services, viewing
from apps.documents.errors import NoPageImage
from apps.documents.ingestion import ingest_next
from apps.documents.models import Document, Page
from apps.documents.previews import preview_folder
from apps.documents.rendering import align
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload, reload

pytestmark = pytest.mark.django_db


@pytest.fixture
def guide(upload: Upload, guide_pdf: bytes) -> Document:
    document = upload(guide_pdf, "guide.pdf")
    ingest_next()
    return reload(document)


def offsets_of(document: Document, number: int, words: str) -> tuple[int, int]:
    page = Page.objects.get(document=document, number=number)
    start = page.char_start + page.text.index(words)
    return start, start + len(words)


def boxes_of(document: Document, number: int, words: str) -> list[viewing.Box]:
    with tenant_scope(document.tenant_id):
        page = Page.objects.get(document=document, number=number)
        return viewing.passage_boxes(document, page, *offsets_of(document, number, words))


def test_a_page_is_drawn_and_kept(guide: Document) -> None:
    png = viewing.page_image(guide, 2)
    image = Image.open(BytesIO(png))
    assert image.format == "PNG"
    assert image.width == pytest.approx(8.27 * 110, abs=3)
    assert (preview_folder(guide.tenant_id, guide.id) / "2.png").read_bytes() == png


def test_an_image_drawn_while_its_document_is_deleted_is_not_kept(
    guide: Document, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    render = viewing._render

    def render_slowly(document: Document, page_number: int) -> bytes:
        png = render(document, page_number)
        with django_capture_on_commit_callbacks(execute=True):
            services.delete_document(tenant=guide.tenant, document=guide, actor=None)
        return png

    monkeypatch.setattr(viewing, "_render", render_slowly)
    viewing.page_image(guide, 2)
    assert not preview_folder(guide.tenant_id, guide.id).exists()


def test_the_box_lies_where_the_ink_is(guide: Document) -> None:
    (box,) = boxes_of(guide, 2, "Chapter 2")
    image = Image.open(BytesIO(viewing.page_image(guide, 2))).convert("L")
    area = (
        int(box.x * image.width),
        int(box.y * image.height),
        int((box.x + box.width) * image.width) + 1,
        int((box.y + box.height) * image.height) + 1,
    )
    assert image.crop(area).getextrema()[0] < 64  # dark letters
    assert box.y < 0.1
    assert box.height < 0.04


def test_a_passage_over_lines_has_a_box_a_line(guide: Document) -> None:
    page_one = boxes_of(guide, 1, "The efficient office number 1 keeps its records on the upper")
    assert len(page_one) >= 1
    assert all(0 <= box.x <= 1 and 0 < box.width <= 1 for box in page_one)


def test_the_second_section_is_below_the_first(guide: Document) -> None:
    (first,) = boxes_of(guide, 1, "Section 1.1")
    (second,) = boxes_of(guide, 1, "Section 1.2")
    assert second.y > first.y


@pytest.mark.parametrize("page", [0, 4, 999])
def test_there_is_no_image_of_a_page_that_is_not(guide: Document, page: int) -> None:
    with pytest.raises(NoPageImage):
        viewing.page_image(guide, page)


def test_other_kinds_have_no_images_and_no_boxes(upload: Upload) -> None:
    document = upload(b"plain words in a file", "a.txt")
    ingest_next()
    document = reload(document)
    with pytest.raises(NoPageImage):
        viewing.page_image(document, 1)
    assert boxes_of(document, 1, "plain words") == []


def test_a_damaged_file_gives_no_image_and_no_error_of_its_own(guide: Document) -> None:
    from django.core.files.base import ContentFile
    from django.core.files.storage import default_storage

    default_storage.delete(guide.storage_key)
    default_storage.save(guide.storage_key, ContentFile(b"%PDF-1.4 broken"))
    with pytest.raises(NoPageImage):
        viewing.page_image(guide, 1)
    assert boxes_of(guide, 1, "Chapter 1") == []


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("an efficient office", "an e\ufb03cient o\ufb03ce"),
        ("a hyphenated word", "a hyphen-\r\nated word"),
        ("soft hyphenated", "soft hy\u00adphenated"),
        ("wide   blanks", "wide blanks"),
        ("FULL width", "ＦＵＬＬ width"),
    ],
)
def test_texts_are_aligned_across_their_differences(text: str, drawn: str) -> None:
    around = "before " + drawn + " after"
    found = align("before " + text + " after", 7, 7 + len(text), list(around))
    assert around[found[0] : found[-1] + 1] == drawn


def test_of_two_occurrences_the_nearer_is_taken() -> None:
    text = "again " * 3
    found = align(text, 12, 17, list(text))
    assert found == [12, 13, 14, 15, 16]


def test_a_passage_that_differs_in_part_is_found_by_its_longest_runs() -> None:
    drawn = list("The river rises in spring XX and carries sand to the lower fields.")
    text = "The river rises in spring and carries much sand to the lower fields."
    assert len(align(text, 0, len(text), drawn)) > 40


def test_a_passage_that_is_not_there_is_not_found() -> None:
    assert align("entirely other words here", 0, 25, list("nothing of that kind, 123")) == []
