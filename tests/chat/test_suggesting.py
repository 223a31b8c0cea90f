"""Questions made of headings and rows, before the first question and after an answer."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.chat.pipeline.types import AnswerRequest, Exchange, Outcome, Sentence
from apps.chat.suggesting import follow_ups_of, suggest_questions
from apps.chat.suggesting.wording import about_heading, about_row
from apps.documents.models import Chunk, Collection, Document, DocumentState
from apps.retrieval.types import Passage
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.chat.test_citations import passage


@pytest.mark.parametrize(
    ("heading", "language", "question"),
    [
        ("What is a hop?", "en", "What is a hop?"),
        ("3.2 How passages are found", "en", "Can you explain how passages are found?"),
        ("When a server fails", "en", "What happens when a server fails?"),
        ("Add your own documents", "en", "How do I add my own documents?"),
        ("Changing the model", "en", "How does changing the model work?"),
        ("Meeting rooms", "en", "What do the documents say about “Meeting rooms”?"),
        (
            "**Redis** and the store.",
            "en",
            "What do the documents say about “Redis and the store”?",
        ),
        ("Wie man Urlaub beantragt", "de", "Kannst du erklären, wie man Urlaub beantragt?"),
        ("Resturlaub", "de", "Was steht in den Dokumenten über „Resturlaub“?"),
        ("Congés payés", "fr", "Que disent les documents sur « Congés payés » ?"),
        ("Vacaciones pagadas", "es", "¿Qué dicen los documentos sobre «Vacaciones pagadas»?"),
        ("الإجازة السنوية", "ar", "ماذا تقول المستندات عن «الإجازة السنوية»؟"),
        ("年假", "zh", "文档中关于“年假”有哪些内容？"),
        ("Отпуск", "ru", "Отпуск?"),
    ],
)
def test_a_heading_becomes_a_question_in_its_language(
    heading: str, language: str, question: str
) -> None:
    asked = about_heading(heading, language)
    assert asked is not None
    assert asked.text == question


@pytest.mark.parametrize(
    "heading",
    [
        *("Introduction", "Inhalt", "目录", "4.", "x", "2024-11-30", "settings.py", "TGI_URL"),
        *("a" * 71, "<script>alert(1)</script>", "f(x) = {y}", "https://example.com/a b", "---"),
    ],
)
def test_a_heading_that_says_nothing_becomes_none(heading: str) -> None:
    assert about_heading(heading, "en") is None


def test_a_row_of_a_table_is_asked_for_a_cell() -> None:
    asked = about_row("Item: Pear; Price: 3; Stock: 7", "en")
    assert asked is not None
    assert asked.text == "What is “Price” of “Pear”?"


@pytest.mark.parametrize("line", ["Pear", "Id: 7; Price: 3", "Item: ; Price: 3", ""])
def test_a_row_without_a_name_is_not_asked_about(line: str) -> None:
    assert about_row(line, "en") is None


def add(tenant: Tenant, collection: Collection, *chunks: tuple[str, str]) -> Document:
    """A ready document of chunks, each a heading path and a text."""
    document = Document.objects.create(
        tenant=tenant,
        collection=collection,
        path=f"{uuid.uuid4()}.md",
        name="a.md",
        size_bytes=1,
        sha256=uuid.uuid4().hex * 2,
        storage_key=f"test/{uuid.uuid4()}",
        state=DocumentState.READY,
    )
    place = 0
    for ordinal, (path, text) in enumerate(chunks):
        Chunk.objects.create(
            tenant=tenant,
            document=document,
            ordinal=ordinal,
            text=text,
            heading_path=path,
            char_start=place,
            char_end=place + len(text),
            page_first=1,
            page_last=1,
            token_count=5,
        )
        place += len(text)
    return document


@pytest.mark.django_db
class TestAnEmptyChat:
    def test_each_document_has_one_and_those_that_read_best_come_first(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            library = Collection.objects.create(tenant=cast.acme, name="L")
            add(cast.acme, library, ("Guide › Ask a colleague", "Do it."), ("Guide › Rooms", "R."))
            add(cast.acme, library, ("", "Item: Pear; Price: 3\nItem: Fig; Price: 4"))
            add(cast.acme, library, ("Introduction", "Hello."))
            add(cast.acme, library, ("Urlaub", "Der Urlaub ist für alle und wird nicht gekürzt."))
            found = suggest_questions(cast.acme.id, [library.id], limit=4)
        assert found == [
            "How do I ask a colleague?",
            "What is “Price” of “Pear”?",
            "Was steht in den Dokumenten über „Urlaub“?",
        ]

    def test_the_part_follows_what_is_picked(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            one, other = (Collection.objects.create(tenant=cast.acme, name=n) for n in "AB")
            add(cast.acme, one, ("Open the gate", "Pull."))
            add(cast.acme, other, ("Close the gate", "Push."))
        url = reverse("chat:suggestions", args=["acme"])
        page = signed_in(cast.bob).get(url, {"collection": str(other.id)}).content.decode()
        assert "How do I close the gate?" in page
        assert "open the gate" not in page

    def test_a_collection_that_is_closed_to_one_suggests_nothing(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            closed = Collection.objects.create(tenant=cast.acme, name="C", open_to_all=False)
            add(cast.acme, closed, ("Open the gate", "Pull."))
        url = reverse("chat:suggestions", args=["acme"])
        for picked in (str(closed.id), "x", str(uuid.uuid4())):
            page = signed_in(cast.bob).get(url, {"collection": picked}).content.decode()
            assert "data-suggestion" not in page


def found(path: str, document: Document | None = None, place: int = 0) -> Passage:
    return replace(
        passage("Text."),
        chunk_id=uuid.uuid4(),
        heading_path=path,
        char_end=place,
        document_id=document.id if document else uuid.uuid4(),
    )


@pytest.mark.django_db
class TestFollowUps:
    def after(self, cast: Cast, *passages: Passage, **changes: object) -> list[str]:
        """What is suggested after an answer that cites the first of the passages."""
        request = AnswerRequest(
            tenant_id=cast.acme.id, question="How long is leave?", collection_ids=(), model=None
        )
        outcome = Outcome(
            text="25 days.",
            passages=passages,
            sentences=(Sentence(0, 8, (1,), supported=True),),
            kind=changes.pop("kind", "generated"),  # type: ignore[arg-type]
        )
        with tenant_scope(cast.acme.id), CaptureQueriesContext(connection) as queries:
            questions = follow_ups_of(replace(request, **changes), outcome)  # type: ignore[arg-type]
        assert len(queries) <= 1
        return questions

    def test_what_was_found_and_not_cited_comes_before_what_stands_next(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            library = Collection.objects.create(tenant=cast.acme, name="L")
            chunks = ("Leave › Days", "25 days."), ("Leave › Carry over days", "Until March.")
            document = add(cast.acme, library, *chunks)
        questions = self.after(
            cast, found("Leave › Days", document, place=8), found("Travel › Book a train")
        )
        assert questions == [
            "How do I book a train?",
            "What do the documents say about “Carry over days”?",
        ]

    def test_what_was_asked_already_is_not_asked_again(self, cast: Cast) -> None:
        questions = self.after(
            cast,
            found("Leave › Days"),
            found("Leave"),
            found("Travel › Expenses"),
            found("Travel › Expenses"),
            found("Rooms"),
            before=(Exchange("Which rooms are there?"),),
        )
        assert questions == ["What do the documents say about “Expenses”?"]

    def test_there_are_three_at_most(self, cast: Cast) -> None:
        headings = ("Days", "Trains", "Rooms", "Pens", "Lamps")
        assert len(self.after(cast, *map(found, headings))) == 3

    def test_there_are_none_when_nothing_was_found(self, cast: Cast) -> None:
        assert self.after(cast, found("Days"), found("Rooms"), kind="not_found") == []
