"""Uploads of labelled questions, as they should be and as they come."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection

from apps.documents.models import Collection, Document, DocumentState
from apps.evals import formats, importing
from apps.evals.errors import (
    PlaceGone,
    SetNameTaken,
    UploadRefused,
    UploadTooLarge,
    UploadUnreadable,
)
from apps.evals.formats import read_upload
from apps.evals.importing import Plan, plan_import
from apps.evals.models import Label, LabelledQuestion, LabelledSet
from apps.evals.services import import_plan
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.evals.uploads import lines, sent, write_document, zipped
from tests.retrieval.corpus import delete_document, make_collection

QUERIES = lines({"_id": "q1", "text": "When does it open?"}, {"_id": "q2", "text": "Who is in?"})
QRELS = "query-id\tcorpus-id\tscore\nq1\tguide\t2\nq2\tguide\t1\n"
CSV = "question,document,passage,grade\nWhen does it open?,guide.md,opens at nine,2\n"


@pytest.fixture
def tenant() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def collection(tenant: Tenant) -> Collection:
    return make_collection(tenant)


@pytest.fixture
def guide(collection: Collection) -> Document:
    pages = ["The house opens at nine.\nIt closes at five.", "The café  is on\nfloor two."]
    return write_document(collection, "rooms/guide.md", pages)


def plan(collection: Collection, *files: object) -> Plan:
    reading = read_upload(files)  # type: ignore[arg-type]
    return plan_import(tenant=collection.tenant, collection=collection, reading=reading)


def take(collection: Collection, *files: object, name: str = "Hours") -> LabelledSet:
    planned = plan(collection, *files)
    return import_plan(
        tenant=collection.tenant, collection=collection, user=None, name=name, plan=planned
    ).labelled_set


def stored(made: LabelledSet) -> dict[str, list[tuple[int | None, int | None, int]]]:
    """Labels by the key of their question, as (start, end, grade)."""
    with tenant_scope(made.tenant_id):
        questions = LabelledQuestion.objects.filter(tenant_id=made.tenant_id, labelled_set=made)
        return {
            each.key: sorted(
                Label.objects.filter(tenant_id=made.tenant_id, question=each).values_list(
                    "char_start", "char_end", "grade"
                )
            )
            for each in questions
        }


# Formats


@pytest.mark.django_db
class TestBeir:
    def test_two_files_are_matched_by_id(self, collection: Collection, guide: Document) -> None:
        made = take(collection, sent("queries.jsonl", QUERIES), sent("test.tsv", QRELS))
        assert stored(made) == {"q1": [(None, None, 2)], "q2": [(None, None, 1)]}

    def test_a_zip_of_the_folder(self, collection: Collection, guide: Document) -> None:
        folder = {
            "set/corpus.jsonl": "never read",
            "set/queries.jsonl": QUERIES,
            "set/qrels/train.tsv": "q1\tnowhere\t1\n",
            "set/qrels/test.tsv": QRELS,
            "__MACOSX/set/queries.jsonl": "junk",
        }
        planned = plan(collection, zipped(folder))
        assert len(planned.questions) == 2
        assert planned.problems.total == 0
        assert "Labels are those of test.tsv." in planned.notes

    @pytest.mark.parametrize("name", ["rooms/guide.md", "rooms/guide", "guide.md", "guide"])
    def test_documents_are_known_by_path_or_name(
        self, collection: Collection, guide: Document, name: str
    ) -> None:
        planned = plan(
            collection, sent("queries.jsonl", QUERIES), sent("test.tsv", f"q1\t{name}\t1\n")
        )
        assert [place.document_id for place in planned.questions[0].labels] == [guide.id]

    def test_a_name_of_two_documents_is_reported(
        self, collection: Collection, guide: Document
    ) -> None:
        write_document(collection, "other/guide.md", ["Else."])
        planned = plan(collection, sent("q.jsonl", QUERIES), sent("test.tsv", "q1\tguide.md\t1\n"))
        assert planned.problems.counts == {"ambiguous_document": 1, "no_label_left": 1}

    def test_what_cannot_be_matched_is_reported(
        self, collection: Collection, guide: Document
    ) -> None:
        qrels = f"{QRELS}q1\tmissing\t1\nq9\tguide\t1\nq1\tguide\tmany\nq1 guide\n"
        planned = plan(collection, sent("q.jsonl", QUERIES), sent("test.tsv", qrels))
        assert planned.problems.counts == {
            "unknown_document": 1, "unknown_question": 1, "bad_row": 2,
        }  # fmt: skip
        assert {each.where for each in planned.problems.first} == {
            "qrels, line 4", "qrels, line 5", "qrels, line 6", "qrels, line 7",
        }  # fmt: skip

    def test_unanswerable_questions_are_kept_and_other_splits_passed_over(
        self, collection: Collection, guide: Document
    ) -> None:
        queries = QUERIES + lines(
            {"_id": "q3", "text": "Why?", "metadata": {"answers": [], "is_impossible": True}}
        )
        planned = plan(collection, sent("q.jsonl", queries), sent("test.tsv", "q1\tguide\t1\n"))
        assert [each.question.unanswerable for each in planned.questions] == [False, True]
        assert planned.notes == ["1 questions without a label in the qrels were passed over."]

    def test_answers_come_along(self, collection: Collection, guide: Document) -> None:
        queries = lines({"_id": "q1", "text": "When?", "metadata": {"answers": ["nine", "9"]}})
        planned = plan(collection, sent("q.jsonl", queries), sent("test.tsv", "q1\tguide\t1\n"))
        assert planned.questions[0].question.answer == "nine\n9"  # either is right

    def test_a_question_that_is_there_twice_is_a_problem(
        self, collection: Collection, guide: Document
    ) -> None:
        planned = plan(collection, sent("q.jsonl", QUERIES + QUERIES), sent("test.tsv", QRELS))
        assert len(planned.questions) == 2
        assert planned.problems.counts == {"bad_row": 2}


@pytest.mark.django_db
class TestCsv:
    def test_a_passage_becomes_a_range(self, collection: Collection, guide: Document) -> None:
        made = take(collection, sent("set.csv", CSV))
        assert list(stored(made).values()) == [[(10, 23, 2)]]

    @pytest.mark.parametrize(
        "passage", ["the cafe is on floor two", "The café is on floor two.", "THE CAFE, IS ON"]
    )
    def test_a_passage_is_found_but_for_spaces_accents_and_case(
        self, collection: Collection, guide: Document, passage: str
    ) -> None:
        (planned,) = plan(
            collection, sent("set.csv", f'question,path,passage\nWhere?,guide.md,"{passage}"\n')
        ).questions
        (place,) = planned.labels
        assert place.start == 44

    @pytest.mark.parametrize(
        ("cells", "code"),
        [
            ("guide.md,opens at ten,,,", "passage_not_found"),
            ("guide.md,…!,,,", "passage_not_found"),
            ("guide.md,,10,9000,", "outside"),
            ("guide.md,,,,7", "no_page"),
            ("guide.md,,12,3,", "bad_row"),
            ("guide.md,,12,,", "bad_row"),
            ("guide.md,,-1,3,", "bad_row"),
            ("guide.md,,1e3,2000,", "bad_row"),
            (",opens at nine,,,", "bad_row"),
        ],
    )
    def test_a_place_that_is_not_there_is_reported(
        self, collection: Collection, guide: Document, cells: str, code: str
    ) -> None:
        head = "question,document,passage,char_start,char_end,page"
        planned = plan(collection, sent("set.csv", f"{head}\nWhen?,{cells}\n"))
        assert code in planned.problems.counts
        assert planned.questions == []

    def test_a_page_and_a_range_are_places(self, collection: Collection, guide: Document) -> None:
        head = "question;document;char_start;char_end;page\n"
        made = take(collection, sent("set.csv", f"{head}A?;guide;4;9;\nB?;guide;;;2\n"))
        assert sorted(stored(made).values()) == [[(4, 9, 1)], [(44, 70, 1)]]

    def test_a_repeated_passage_is_placed_first_and_said(self, collection: Collection) -> None:
        write_document(collection, "twice.md", ["nine and nine"])
        planned = plan(collection, sent("a.csv", "question,document,passage\nA?,twice,nine\n"))
        assert planned.problems.counts == {"passage_repeated": 1}
        assert planned.labels == 1

    def test_several_rows_are_one_question(self, collection: Collection, guide: Document) -> None:
        rows = "A?,guide,opens at nine,1\nA?,guide,closes at five,2\nA?,guide,closes at five,1\n"
        planned = plan(collection, sent("set.csv", f"question,document,passage,grade\n{rows}"))
        assert [sorted(each.labels.values()) for each in planned.questions] == [[1, 2]]
        assert planned.problems.counts == {"two_grades": 1}

    def test_an_id_of_two_questions_is_a_problem(self, collection: Collection) -> None:
        planned = plan(collection, sent("set.csv", "id,question\n1,A?\n1,B?\n"))
        assert planned.problems.counts == {"duplicate_id": 1}

    def test_questions_without_a_document_wait_for_marks(self, collection: Collection) -> None:
        planned = plan(collection, sent("set.csv", "question,unanswerable\nA?,\nB?,yes\nC?,oui\n"))
        assert (planned.unlabelled, planned.unanswerable) == (1, 1)
        assert planned.problems.counts == {"bad_row": 1}

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_encodings_and_ends_of_lines(
        self, collection: Collection, guide: Document, encoding: str, end: str
    ) -> None:
        text = "question,document,passage\nWö?,guide,café\n".replace("\n", end)
        planned = plan(collection, sent("set.csv", text.encode(encoding)))
        assert [each.question.text for each in planned.questions] == ["Wö?"]
        assert planned.labels == 1

    def test_formulas_and_markup_are_text(self, collection: Collection) -> None:
        odd = ['=HYPERLINK("http://x")', "@SUM(A1)", "<script>alert(1)</script>", "{{ 7*7 }}"]
        made = take(collection, sent("a.jsonl", lines(*[{"question": each} for each in odd])))
        with tenant_scope(made.tenant_id):
            texts = LabelledQuestion.objects.filter(tenant_id=made.tenant_id)
            assert set(texts.values_list("text", flat=True)) == set(odd)

    def test_columns_that_are_not_known_are_named(self, collection: Collection) -> None:
        assert plan(collection, sent("set.csv", "question,mood\nA?,good\n")).notes == [
            "Columns that were not used: mood."
        ]

    def test_a_quote_that_is_not_closed_ends_nothing_else(self, collection: Collection) -> None:
        planned = plan(collection, sent("a.csv", 'question\nA?\n"' + "x" * 200_000 + "\nB?\n"))
        assert planned.problems.total > 0
        assert planned.questions[0].question.text == "A?"


@pytest.mark.django_db
class TestJsonl:
    def test_all_fields(self, collection: Collection, guide: Document) -> None:
        row = {
            "id": "1", "question": "When?", "answer": "Nine.", "slices": ["hours", "hours", " "],
            "labels": [{"document": "guide", "char_start": 4, "char_end": 9, "grade": 3}],
        }  # fmt: skip
        made = take(collection, sent("set.jsonl", lines(row)))
        assert stored(made) == {"1": [(4, 9, 3)]}
        with tenant_scope(made.tenant_id):
            question = LabelledQuestion.objects.get(tenant_id=made.tenant_id)
        assert (question.reference_answer, question.slices) == ("Nine.", ["hours"])

    @pytest.mark.parametrize(
        "line",
        [
            "nonsense", "[]", "[" * 100_000, '{"question": 1e999}', '{"question": ""}',
            '{"question": ["a"]}', '{"question": "A?", "labels": {}}',
            '{"question": "A?", "labels": ["guide"]}', '{"question": "A?", "slices": "x"}',
            '{"question": "A?", "labels": [{"document": "guide", "grade": "good"}]}',
            '{"question": "A?", "labels": [{"document": "guide", "grade": -1}]}',
            '{"question": "A?", "labels": [{"document": "guide", "grade": true}]}',
            '{"question": "A?", "labels": [{"document": "guide", "grade": 1.5}]}',
            '{"question": "A?", "labels": [{"document": "", "grade": 1}]}',
            '{"question": "A?", "labels": [{"document": "guide", "char_end": 9e18}]}',
            '{"_id": "1", "text": "of BEIR"}', f'{{"question": "{"x" * 100_000}"}}',
            '{"question": "A?", "id": "' + "k" * 201 + '"}',
        ],
    )  # fmt: skip
    def test_a_bad_line_is_reported_and_the_others_are_taken(
        self, collection: Collection, guide: Document, line: str
    ) -> None:
        planned = plan(collection, sent("a.jsonl", f'{line}\n{{"question": "Good?"}}\n'))
        assert [each.question.text for each in planned.questions] == ["Good?"]
        assert planned.problems.total == 1
        assert planned.problems.first[0].where == "line 1"

    def test_what_postgresql_refuses_is_replaced(self, collection: Collection) -> None:
        made = take(collection, sent("a.jsonl", '{"question": "A\\u0000B \\ud800 C?"}\n'))
        with tenant_scope(made.tenant_id):
            assert LabelledQuestion.objects.get(tenant_id=made.tenant_id).text == "A B   C?"

    def test_an_endless_line_is_skipped(self, collection: Collection) -> None:
        text = '{"question": "' + "x" * 2_500_000 + '"}\n{"question": "Good?"}\n'
        planned = plan(collection, sent("a.jsonl", text))
        assert planned.problems.counts == {"line_too_long": 1}
        assert len(planned.questions) == 1


# Uploads as a whole


@pytest.mark.parametrize(
    "files",
    [
        [],
        [sent("a.pdf", b"%PDF-1.4")],
        [sent("a.csv", CSV), sent("b.csv", CSV)],
        [sent("a.csv", "name,value\na,b\n")],
        [sent("a.csv", b"\xff" * 50)],
        [sent("a.csv", b"")],
        [sent("a.jsonl", b"")],
        [zipped({"readme.txt": "no questions"})],
        [zipped({"queries.jsonl": QUERIES})],
        [zipped({"a/queries.jsonl": QUERIES, "b/queries.jsonl": QUERIES, "test.tsv": QRELS})],
        [sent("a.zip", b"PK\x03\x04 and nothing else")],
        [sent("a.zip", b"PK\x05\x06" + b"\xff" * 18)],
    ],
    ids=lambda files: ",".join(each.name for each in files) or "nothing",
)
def test_an_upload_that_is_none_is_refused(files: list[object]) -> None:
    with pytest.raises(UploadRefused):
        read_upload(files)  # type: ignore[arg-type]


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "UPLOAD_MAX_BYTES", 1_000_000)
    bomb = zipped({"queries.jsonl": b" " * 50_000_000, "qrels/test.tsv": QRELS})
    began = time.monotonic()
    with pytest.raises(UploadTooLarge):
        read_upload([bomb])
    assert time.monotonic() - began < 2


def test_a_zip_of_very_many_files_is_refused() -> None:
    with pytest.raises(UploadTooLarge):
        read_upload([zipped({f"{number:0>60}": b"" for number in range(12_000)})])


def test_an_encrypted_zip_is_refused() -> None:
    data = bytearray(zipped({"queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}).read())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(signature)
        while place >= 0:
            data[place + at] |= 1
            place = data.find(signature, place + 4)
    with pytest.raises(UploadUnreadable):
        read_upload([sent("a.zip", bytes(data))])


def test_more_bytes_than_are_taken_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "UPLOAD_MAX_BYTES", 10)
    with pytest.raises(UploadTooLarge, match=r"corpus\.jsonl"):
        read_upload([sent("a.csv", CSV)])


@pytest.mark.parametrize(("limit", "name"), [(2, "QUESTIONS_MAX"), (2, "LABELS_MAX")])
def test_more_than_is_taken_at_once_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: int, name: str
) -> None:
    monkeypatch.setattr(formats, name, limit)
    rows = "".join(f"Question {number}?,guide\n" for number in range(3))
    with pytest.raises(UploadTooLarge):
        read_upload([sent("a.csv", f"question,document\n{rows}")])


@pytest.mark.django_db
def test_two_hundred_thousand_rows_are_refused_and_say_how_many_are_taken(
    collection: Collection, guide: Document
) -> None:
    rows = "Why?,guide.md\n" * 200_000
    with pytest.raises(UploadTooLarge, match="more than 50,000 labels"):
        plan(collection, sent("a.csv", f"question,document\n{rows}"))


@pytest.mark.django_db
def test_looking_for_passages_has_an_end(
    collection: Collection, guide: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "PLACING_S_MAX", -1.0)
    with pytest.raises(UploadTooLarge, match="char_start"):
        plan(collection, sent("a.csv", CSV))


def test_slices_of_one_question_have_an_end() -> None:
    rows = "".join(f"Why?,slice {number}\n" for number in range(1000))
    reading = read_upload([sent("a.csv", f"question,slices\n{rows}")])
    (question,) = reading.questions.values()
    assert (len(question.slices), reading.problems.total) == (20, 980)


# Writing


@pytest.mark.django_db
def test_a_second_import_replaces_questions_and_their_labels(
    collection: Collection, guide: Document
) -> None:
    take(collection, sent("q.jsonl", QUERIES), sent("test.tsv", QRELS))
    changed = lines({"_id": "q1", "text": "When does it close?"})
    made = take(collection, sent("q.jsonl", changed), sent("test.tsv", "q1\tguide\t3\n"))
    assert stored(made) == {"q1": [(None, None, 3)], "q2": [(None, None, 1)]}
    with tenant_scope(made.tenant_id):
        assert LabelledSet.objects.count() == 1
        assert LabelledQuestion.objects.get(key="q1").text == "When does it close?"


@pytest.mark.django_db
def test_a_preview_writes_nothing_and_says_what_is_replaced(
    collection: Collection, guide: Document
) -> None:
    made = take(collection, sent("q.jsonl", QUERIES), sent("test.tsv", QRELS))
    before = stored(made)
    reading = read_upload([sent("q.jsonl", QUERIES), sent("test.tsv", "q1\tguide\t9\n")])
    planned = plan_import(
        tenant=made.tenant, collection=collection, reading=reading, labelled_set=made
    )
    assert planned.replaced == 1
    assert stored(made) == before


@pytest.mark.django_db
def test_a_name_of_another_collection_is_taken(
    tenant: Tenant, collection: Collection, guide: Document
) -> None:
    take(collection, sent("a.csv", CSV))
    with pytest.raises(SetNameTaken):
        take(make_collection(tenant, "Else"), sent("a.csv", "question\nA?\n"))


@pytest.mark.django_db
def test_labels_point_at_the_version_that_is_searched(collection: Collection) -> None:
    write_document(collection, "a.md", ["old"], state=DocumentState.SUPERSEDED)
    current = write_document(collection, "a.md", ["opens at nine"], version=2)
    write_document(collection, "a.md", [], version=3, state=DocumentState.PARSING)
    (planned,) = plan(collection, sent("a.csv", "question,document\nA?,a.md\n")).questions
    assert [place.document_id for place in planned.labels] == [current.id]


@pytest.mark.django_db
def test_a_document_without_text_cannot_hold_a_range(collection: Collection) -> None:
    write_document(collection, "a.md", state=DocumentState.FAILED)
    planned = plan(collection, sent("a.csv", "question,document,page\nA?,a.md,1\n"))
    assert "not_read" in planned.problems.counts


@pytest.mark.django_db
def test_a_document_that_goes_before_the_import_stops_it_whole(
    collection: Collection, guide: Document
) -> None:
    planned = plan(collection, sent("a.csv", CSV))
    delete_document(guide)
    with pytest.raises(PlaceGone):
        import_plan(
            tenant=collection.tenant, collection=collection, user=None, name="A", plan=planned
        )
    with tenant_scope(collection.tenant_id):
        assert not LabelledSet.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_imports_at_once_take_turns(collection: Collection, guide: Document) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            take(collection, sent("q.jsonl", QUERIES), sent("test.tsv", QRELS))
        except BaseException as exc:
            failures.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with tenant_scope(collection.tenant_id):
        made = LabelledSet.objects.get()
    assert stored(made) == {"q1": [(None, None, 2)], "q2": [(None, None, 1)]}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.django_db
def test_as_many_labels_as_are_taken(collection: Collection) -> None:
    """50,000 labels of 20,000 questions on 1,000 documents."""
    for number in range(1000):
        write_document(collection, f"{number}.md", ["text"])
    queries = lines(*({"_id": str(n), "text": f"Question {n}?"} for n in range(20_000)))
    qrels = "".join(f"{n % 20_000}\t{n % 997}\t1\n" for n in range(50_000))
    began = time.monotonic()
    planned = plan(collection, sent("q.jsonl", queries), sent("test.tsv", qrels))
    assert planned.labels == 50_000
    import_plan(tenant=collection.tenant, collection=collection, user=None, name="A", plan=planned)
    assert time.monotonic() - began < 90
