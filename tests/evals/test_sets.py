"""Pages of labelled sets."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from apps.documents.models import Collection, Document
from apps.evals.models import Label, LabelledQuestion, LabelledSet
from apps.evals.selectors import sets
from apps.evals.services import add_question, create_set
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.evals.uploads import sent, write_document
from tests.retrieval.corpus import make_collection

pytestmark = pytest.mark.django_db

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
CSV = "question,document,passage,slices\nWhen does it open?,guide.md,opens at nine,hours\n"


@pytest.fixture
def collection(cast: Cast) -> Collection:
    return make_collection(cast.acme)


@pytest.fixture
def guide(collection: Collection) -> Document:
    return write_document(collection, "rooms/guide.md", ["The house opens at nine."])


@pytest.fixture
def made(collection: Collection) -> LabelledSet:
    return create_set(
        tenant=collection.tenant,
        collection=collection,
        user=None,
        name="Hours",
        origin=LabelledSet.Origin.MARKED,
    )


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


def address(name: str, *ids: object) -> str:
    return reverse(f"evals:{name}", args=["acme", *ids])


def upload(
    browser: Client, where: Collection, csv: str | bytes = CSV, **fields: Any
) -> HttpResponse:
    data = {
        "name": "Hours", "collection": str(where.id), "action": "check",
        "upload": [sent("set.csv", csv)],
    }  # fmt: skip
    return browser.post(address("set_new"), {**data, **fields})  # type: ignore[return-value]


def text_of(response: HttpResponse) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def questions(made: LabelledSet) -> list[LabelledQuestion]:
    with tenant_scope(made.tenant_id):
        rows = LabelledQuestion.objects.filter(tenant_id=made.tenant_id, labelled_set=made)
        return list(rows.order_by("text"))


def test_without_sets_the_page_says_what_to_do(carl: Client, collection: Collection) -> None:
    assert "Start with thirty questions" in text_of(carl.get(address("set_list")))  # type: ignore[arg-type]


def test_without_collections_it_leads_to_the_documents(carl: Client) -> None:
    assert "No collection yet" in text_of(carl.get(address("set_list")))  # type: ignore[arg-type]


def test_a_file_is_looked_at_first_and_nothing_is_saved(
    carl: Client, collection: Collection, guide: Document
) -> None:
    response = upload(carl, collection)
    assert "1 question can be taken" in text_of(response)
    with tenant_scope(collection.tenant_id):
        assert not LabelledSet.objects.exists()


def test_an_import_makes_the_set(carl: Client, collection: Collection, guide: Document) -> None:
    response = upload(carl, collection, action="import")
    with tenant_scope(collection.tenant_id):
        made = LabelledSet.objects.get()
    assert response.headers["Location"] == address("set", made.id)
    page = text_of(carl.get(response.headers["Location"]))  # type: ignore[arg-type]
    assert "Imported: questions 1, labels 1." in page
    assert "When does it open?" in page


def test_htmx_is_sent_to_the_set(carl: Client, collection: Collection, guide: Document) -> None:
    response = carl.post(
        address("set_new"),
        {"name": "A", "collection": str(collection.id), "action": "import",
         "upload": [sent("a.csv", CSV)]},
        headers={"HX-Request": "true"},
    )  # fmt: skip
    assert "/quality/sets/" in response.headers["HX-Redirect"]


def test_problems_are_shown_with_their_lines(carl: Client, collection: Collection) -> None:
    page = text_of(upload(carl, collection, action="import"))
    assert "Nothing of this can be taken" in page
    assert "The collection has no document “guide.md”." in page


@pytest.mark.parametrize(
    "fields",
    [{"upload": []}, {"name": ""}, {"name": "x" * 201}, {"collection": str(uuid.uuid4())},
     {"collection": "; DROP"}, {"upload": [sent("a.csv", CSV)] * 3},
     {"upload": [sent("a.exe", b"MZ")]}, {"upload": [sent("a", CSV)]}],
)  # fmt: skip
def test_a_bad_form_says_so(carl: Client, collection: Collection, fields: dict[str, Any]) -> None:
    response = upload(carl, collection, **fields)
    assert response.status_code in {200, 422}
    assert b'class="notice error"' in response.content


def test_an_upload_into_a_set_replaces_and_adds(
    carl: Client, collection: Collection, guide: Document, made: LabelledSet
) -> None:
    target = address("set_upload", made.id)
    for csv in (CSV, f"{CSV}Who is in?,guide.md,,\n"):
        carl.post(target, {"action": "import", "upload": [sent("a.csv", csv)]})
    assert [each.text for each in questions(made)] == ["When does it open?", "Who is in?"]


def test_hostile_text_is_shown_as_text(
    carl: Client, collection: Collection, made: LabelledSet
) -> None:
    add_question(tenant=made.tenant, labelled_set=made, text=HOSTILE, slices=[HOSTILE[:60]])
    (row,) = questions(made)
    for name, ids in (("set", [made.id]), ("question", [made.id, row.id])):
        page = carl.get(address(name, *ids)).content.decode()
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page
    csv = f'question,document\n"{HOSTILE.replace(chr(34), chr(34) * 2)}",{HOSTILE[:9]}\n'
    assert HOSTILE not in upload(carl, collection, csv).content.decode()


def test_questions_are_filtered_and_paged(
    carl: Client, made: LabelledSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "QUESTIONS_SHOWN", 2)
    for number in range(5):
        add_question(
            tenant=made.tenant, labelled_set=made, text=f"Question {number}?",
            slices=["odd"] if number % 2 else [], unanswerable=number == 4,
        )  # fmt: skip
    seen, after = [], ""
    with tenant_scope(made.tenant_id):
        while True:
            page = sets.questions_page(made, after=after)
            seen += [row.question.text for row in page.rows]
            if not (after := page.after):
                break
    assert seen == [f"Question {number}?" for number in range(4, -1, -1)]
    for query, found in (
        ("slice=odd", "Question 3?"), ("q=QUESTION+2", "Question 2?"),
        ("kind=unanswerable", "Question 4?"), ("kind=unlabelled", "Question 3?"),
    ):  # fmt: skip
        part = carl.get(f"{address('set', made.id)}?{query}", headers={"HX-Request": "true"})
        assert found in part.content.decode()
        assert b"<html" not in part.content


@pytest.mark.parametrize(
    "query",
    ["after=nonsense", "after=2026-01-01_x", "q=%00", "slice=%00", "kind=x", "q=" + "x" * 999],
)
def test_odd_filters_are_no_errors(carl: Client, made: LabelledSet, query: str) -> None:
    assert carl.get(f"{address('set', made.id)}?{query}").status_code == 200


def test_a_question_by_hand(carl: Client, made: LabelledSet) -> None:
    carl.post(
        address("add_question", made.id),
        {"text": " When? ", "reference_answer": "Nine.", "slices": "a, b", "unanswerable": ""},
    )
    (row,) = questions(made)
    assert (row.text, row.reference_answer, row.slices) == ("When?", "Nine.", ["a", "b"])


@pytest.mark.parametrize("text", ["", "   ", "x" * 50_000, "\0"])
def test_a_question_that_is_none_is_refused(carl: Client, made: LabelledSet, text: str) -> None:
    response = carl.post(address("add_question", made.id), {"text": text})
    assert response.status_code == 422
    assert questions(made) == []


def test_a_question_is_changed_and_deleted(carl: Client, made: LabelledSet) -> None:
    row = add_question(tenant=made.tenant, labelled_set=made, text="When?")
    carl.post(address("question", made.id, row.id), {"text": "Who?", "unanswerable": "on"})
    (row,) = questions(made)
    assert (row.text, row.unanswerable) == ("Who?", True)
    carl.post(address("delete_question", made.id, row.id))
    assert questions(made) == []


def test_a_question_in_the_words_of_another_is_refused(carl: Client, made: LabelledSet) -> None:
    row = add_question(tenant=made.tenant, labelled_set=made, text="When?")
    carl.post(address("question", made.id, row.id), {"text": "Who?"})
    add_question(tenant=made.tenant, labelled_set=made, text="When?")  # not the one it was
    assert [each.text for each in questions(made)] == ["When?", "Who?"]
    response = carl.post(address("question", made.id, row.id), {"text": "when?"})
    assert response.status_code == 422
    assert "in these words already" in response.content.decode()


def test_an_answered_question_cannot_be_called_unanswerable(
    carl: Client, made: LabelledSet, guide: Document
) -> None:
    row = add_question(tenant=made.tenant, labelled_set=made, text="When?")
    with tenant_scope(made.tenant_id):
        label = Label.objects.create(tenant_id=made.tenant_id, question=row, document=guide)
    target = address("question", made.id, row.id)
    assert carl.post(target, {"text": "When?", "unanswerable": "on"}).status_code == 422
    carl.post(address("delete_label", made.id, row.id, label.id))
    assert carl.post(target, {"text": "When?", "unanswerable": "on"}).status_code == 302


def test_the_label_page_shows_the_words(carl: Client, made: LabelledSet, guide: Document) -> None:
    row = add_question(tenant=made.tenant, labelled_set=made, text="When?")
    with tenant_scope(made.tenant_id):
        Label.objects.create(
            tenant_id=made.tenant_id, question=row, document=guide, char_start=10, char_end=23
        )
    page = carl.get(address("question", made.id, row.id)).content.decode()
    assert '<p class="labelled-text" dir="auto">opens at nine</p>' in page


def test_a_set_is_renamed_and_taken_out_of_the_night(carl: Client, made: LabelledSet) -> None:
    carl.post(address("edit_set", made.id), {"name": "Times"})
    with tenant_scope(made.tenant_id):
        made.refresh_from_db()
    assert (made.name, made.nightly) == ("Times", False)


def test_a_name_that_is_taken_is_said(
    carl: Client, made: LabelledSet, collection: Collection
) -> None:
    create_set(
        tenant=made.tenant, collection=collection, user=None, name="Else",
        origin=LabelledSet.Origin.MARKED,
    )  # fmt: skip
    response = carl.post(address("edit_set", made.id), {"name": "Else"})
    assert response.status_code == 422
    assert "There is a set named “Else” already" in response.content.decode()


def test_deleting_a_set_needs_its_name(carl: Client, made: LabelledSet) -> None:
    add_question(tenant=made.tenant, labelled_set=made, text="When?")
    carl.post(address("delete_set", made.id), {"confirm": "hours"})
    assert len(questions(made)) == 1
    carl.post(address("delete_set", made.id), {"confirm": "Hours"})
    assert questions(made) == []


def test_an_export_can_be_imported_again(
    carl: Client, collection: Collection, guide: Document
) -> None:
    rows = 'Why?,,,\n"=1+1 ""quoted"", über",rooms/guide.md,,"b;c"\n'
    upload(carl, collection, CSV + rows, action="import")
    with tenant_scope(collection.tenant_id):
        made = LabelledSet.objects.get()
    exported = carl.get(address("export_set", made.id)).content
    carl.post(
        address("set_new"),
        {"name": "Copy", "collection": str(collection.id), "action": "import",
         "upload": [sent("a.jsonl", exported)]},
    )  # fmt: skip
    with tenant_scope(collection.tenant_id):
        copy = LabelledSet.objects.get(name="Copy")
    assert exported.count(b"\n") == 3
    assert sorted(carl.get(address("export_set", copy.id)).content.splitlines()) == sorted(
        exported.splitlines()
    )


def test_members_do_not_see_sets(cast: Cast, made: LabelledSet) -> None:
    assert signed_in(cast.bob).get(address("set", made.id)).status_code == 403
    assert signed_in(cast.mallory).get(address("set", made.id)).status_code == 404
