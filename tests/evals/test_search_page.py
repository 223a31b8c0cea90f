"""The search page: passages for every reader, marks for who manages the corpus."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.documents.models import Chunk, Collection, CollectionReader, Document
from apps.documents.services import set_tags
from apps.evals import services
from apps.evals.errors import QuestionRefused
from apps.evals.models import Label, LabelledQuestion, LabelledSet
from apps.evals.services import Marked, create_set, mark_passage
from apps.retrieval.options import SearchFilter
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.retrieval.conftest import embedder, reranker  # noqa: F401 - fixtures
from tests.retrieval.corpus import (
    chunk_ids,
    delete_document,
    make_collection,
    make_document,
    write_rows,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("embedder", "reranker")]

QUESTION = "When does the house open?"
TEXTS = ["The house does open at nine.", "The garden closes at five."]


@pytest.fixture
def collection(cast: Cast) -> Collection:
    return make_collection(cast.acme)


@pytest.fixture
def guide(collection: Collection) -> Document:
    document = make_document(collection, TEXTS)
    write_rows(document)
    return document


@pytest.fixture
def made(collection: Collection) -> LabelledSet:
    return create_set(
        tenant=collection.tenant, collection=collection, user=None, name="Hours",
        origin=LabelledSet.Origin.MARKED,
    )  # fmt: skip


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


def address(name: str, *ids: object) -> str:
    return reverse(f"evals:{name}", args=["acme", *ids])


def ask(browser: Client, question: str = QUESTION, **fields: Any) -> str:
    return browser.post(
        address("search_results"), {"question": question, **fields}
    ).content.decode()


def press(
    browser: Client, made: LabelledSet, mark: object, *, htmx: bool = True, **fields: Any
) -> str:
    data = {"set": str(made.id), "asked": QUESTION, "mark": str(mark), **fields}
    headers = {"HX-Request": "true"} if htmx else {}
    response = browser.post(address("mark"), data, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def labels(made: LabelledSet) -> list[tuple[int | None, int | None, int]]:
    with tenant_scope(made.tenant_id):
        rows = Label.objects.filter(tenant_id=made.tenant_id, question__labelled_set=made)
        return sorted(rows.values_list("char_start", "char_end", "grade"))


def texts(made: LabelledSet) -> list[str]:
    with tenant_scope(made.tenant_id):
        rows = LabelledQuestion.objects.filter(tenant_id=made.tenant_id, labelled_set=made)
        return list(rows.values_list("text", flat=True))


class TestSearching:
    def test_passages_come_with_the_scores_of_each_stage(self, cast: Cast, guide: Document) -> None:
        page = ask(signed_in(cast.bob))
        assert TEXTS[0] in page
        assert "Words (BM25)" in page

    def test_only_who_may_sees_hop_times(self, cast: Cast, guide: Document, carl: Client) -> None:
        assert "found-hops" not in ask(signed_in(cast.bob))
        assert "found-hops" in ask(carl)

    def test_only_who_manages_the_corpus_marks(
        self, cast: Cast, guide: Document, made: LabelledSet, carl: Client
    ) -> None:
        assert 'id="marking"' not in ask(signed_in(cast.bob), set=str(made.id))
        assert 'id="marking"' in ask(carl, set=str(made.id))
        response = signed_in(cast.bob).post(address("mark"), {"mark": "none:1"})
        assert response.status_code == 403

    def test_a_collection_that_is_not_open_is_not_searched(
        self, cast: Cast, guide: Document, collection: Collection
    ) -> None:
        with tenant_scope(collection.tenant_id):
            Collection.objects.filter(id=collection.id).update(open_to_all=False)
        bob = signed_in(cast.bob)
        assert TEXTS[0] not in ask(bob)
        assert TEXTS[0] not in ask(bob, collections=[str(collection.id)])
        with tenant_scope(collection.tenant_id):
            CollectionReader.objects.create(
                tenant_id=collection.tenant_id, collection=collection, user=cast.bob
            )
        assert TEXTS[0] in ask(bob)

    def test_the_chosen_collections_alone_are_searched(
        self, cast: Cast, guide: Document, carl: Client
    ) -> None:
        other = make_collection(cast.acme, "Else")
        assert TEXTS[0] not in ask(carl, collections=[str(other.id)])

    def test_filters_reach_the_search(
        self, carl: Client, guide: Document, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_tags(tenant=guide.tenant, document=guide, actor=None, tags=["New", "old"])
        with tenant_scope(guide.tenant_id):
            Document.objects.filter(id=guide.id).update(kind="application/pdf")
        given: list[SearchFilter] = []

        def retrieve(**arguments: Any) -> Any:
            given.append(arguments["narrowed"])
            raise KeyError

        monkeypatch.setattr("apps.evals.views.search.retrieve", retrieve)
        today = timezone.now().date()
        with pytest.raises(KeyError):
            ask(
                carl, kinds=["application/pdf"], tags=["new"], added_from=today.isoformat(),
                added_to=today.isoformat(),
            )  # fmt: skip
        assert given == [
            SearchFilter(
                kinds=("application/pdf",), tags=("new",), added_from=today, added_to=today
            )
        ]

    @pytest.mark.parametrize(
        "fields",
        [
            {"question": ""}, {"question": "  "}, {"question": "x" * 100_000},
            {"question": "\0"}, {"collections": ["nonsense"]}, {"kinds": ["image/evil"]},
            {"tags": ["unheard-of"]}, {"added_from": "yesterday"},
            {"added_from": "2026-02-02", "added_to": "2026-01-01"},
            {"collections": [str(uuid.uuid4())]},
        ],
    )  # fmt: skip
    def test_what_cannot_be_searched_is_said(
        self, carl: Client, guide: Document, fields: dict[str, Any]
    ) -> None:
        page = ask(carl, **{"question": QUESTION, **fields})
        assert 'class="notice error"' in page
        assert TEXTS[0] not in page

    def test_what_is_asked_is_shown_as_text(self, carl: Client, guide: Document) -> None:
        assert "<script>alert" not in ask(carl, '"><script>alert(1)</script> house')

    def test_a_question_is_in_no_address(self, carl: Client, guide: Document) -> None:
        assert carl.get(address("search_results")).status_code == 405
        assert QUESTION not in carl.get(f"{address('search')}?question={QUESTION}").content.decode()

    def test_operations_with_a_grant_search(self, cast: Cast, guide: Document) -> None:
        Tenant.objects.filter(id=cast.acme.id).update(ops_may_read_text=True)
        assert TEXTS[0] in ask(signed_in(cast.olga))

    def test_without_a_collection_the_page_says_so(self, carl: Client) -> None:
        assert "Nothing to search yet" in carl.get(address("search")).content.decode()


class TestMarking:
    @pytest.mark.parametrize("htmx", [True, False])
    def test_a_mark_is_a_label_and_pressed_again_it_goes(
        self, carl: Client, guide: Document, made: LabelledSet, htmx: bool
    ) -> None:
        chunk = chunk_ids(guide)[0]
        page = press(carl, made, f"{chunk}:2", htmx=htmx, chunk=[str(chunk)])
        assert 'aria-pressed="true"' in page
        assert labels(made) == [(0, len(TEXTS[0]), 2)]
        assert texts(made) == [QUESTION]
        press(carl, made, f"{chunk}:1", htmx=htmx)
        assert labels(made) == [(0, len(TEXTS[0]), 1)]
        press(carl, made, f"{chunk}:", htmx=htmx)
        assert (labels(made), texts(made)) == ([], [])

    def test_marks_are_there_when_it_is_asked_again(
        self, carl: Client, guide: Document, made: LabelledSet
    ) -> None:
        press(carl, made, f"{chunk_ids(guide)[0]}:0")
        page = ask(carl, "  when does the  HOUSE open? ", set=str(made.id))
        assert page.count('aria-pressed="true"') == 1
        assert "Not relevant</button>" in page
        assert 'aria-pressed="true"' not in ask(carl, "Who is in?", set=str(made.id))

    def test_marks_outlive_another_cutting(
        self, carl: Client, guide: Document, made: LabelledSet
    ) -> None:
        """Half of the shorter is enough; a mark then changes the label that is there."""
        first = chunk_ids(guide)[0]
        press(carl, made, f"{first}:2")
        with tenant_scope(guide.tenant_id):
            Chunk.objects.filter(id=first).update(char_start=5, char_end=40)
        assert 'aria-pressed="true"' in ask(carl, set=str(made.id))
        press(carl, made, f"{first}:1")
        assert labels(made) == [(0, len(TEXTS[0]), 1)]

    def test_a_question_without_an_answer(
        self, carl: Client, guide: Document, made: LabelledSet
    ) -> None:
        assert 'aria-pressed="true" id="mark-none"' in press(carl, made, "none:1")
        with tenant_scope(made.tenant_id):
            assert LabelledQuestion.objects.get(labelled_set=made).unanswerable
        press(carl, made, f"{chunk_ids(guide)[0]}:1")
        with tenant_scope(made.tenant_id):
            assert not LabelledQuestion.objects.get(labelled_set=made).unanswerable
        assert "A passage is marked as an answer" in press(carl, made, "none:1")

    def test_taking_unanswerable_back_leaves_nothing(self, carl: Client, made: LabelledSet) -> None:
        press(carl, made, "none:1")
        press(carl, made, "none:")
        assert texts(made) == []

    def test_a_question_that_holds_more_stays(
        self, carl: Client, guide: Document, made: LabelledSet
    ) -> None:
        services.add_question(
            tenant=made.tenant, labelled_set=made, text=QUESTION, reference_answer="Nine."
        )
        chunk = chunk_ids(guide)[0]
        press(carl, made, f"{chunk}:2")
        press(carl, made, f"{chunk}:")
        assert texts(made) == [QUESTION]

    @pytest.mark.parametrize(
        "mark",
        [
            "",
            ":",
            "x:2",
            "8012d38c-2ee9-47af-b138-03a8e2099c5c:2",
            "none:9",
            "none:-1",
            "none:²",
            "a:b:c",
        ],
    )
    def test_a_mark_that_is_none_is_refused(
        self, carl: Client, guide: Document, made: LabelledSet, mark: str
    ) -> None:
        assert 'role="alert"' in press(carl, made, mark)
        assert labels(made) == []

    def test_a_passage_that_went_is_said(
        self, carl: Client, guide: Document, made: LabelledSet
    ) -> None:
        (chunk, *_) = chunk_ids(guide)
        delete_document(guide)
        assert "no longer there" in press(carl, made, f"{chunk}:2")

    def test_a_set_takes_passages_of_its_own_collection(
        self, cast: Cast, carl: Client, guide: Document
    ) -> None:
        other = create_set(
            tenant=cast.acme, collection=make_collection(cast.acme, "Else"), user=None,
            name="Else", origin=LabelledSet.Origin.MARKED,
        )  # fmt: skip
        chunk = chunk_ids(guide)[0]
        assert "of another collection" in press(carl, other, f"{chunk}:2")
        assert labels(other) == []
        assert "Of another collection" in ask(carl, set=str(other.id))

    def test_a_set_of_another_tenant_is_not_there(
        self, cast: Cast, carl: Client, guide: Document
    ) -> None:
        theirs = create_set(
            tenant=cast.rival, collection=make_collection(cast.rival), user=None, name="Theirs",
            origin=LabelledSet.Origin.MARKED,
        )  # fmt: skip
        assert "Choose the set" in press(carl, theirs, f"{chunk_ids(guide)[0]}:2")
        assert labels(theirs) == []

    def test_a_new_set_is_made_and_chosen(
        self, carl: Client, guide: Document, collection: Collection
    ) -> None:
        data = {
            "set": "new", "new_set": "Fresh", "new_collection": str(collection.id),
            "asked": QUESTION, "chunk": [str(each) for each in chunk_ids(guide)],
        }  # fmt: skip
        for _ in range(2):  # pressed twice
            page = carl.post(address("marking"), data, headers={"HX-Request": "true"})
        with tenant_scope(collection.tenant_id):
            made = LabelledSet.objects.get()
        assert f'value="{made.id}" selected' in page.content.decode()
        assert page.content.decode().count('hx-swap-oob="true"') == 3
        assert f'value="{made.id}" selected' in ask(carl)  # remembered

    def test_a_new_set_is_to_be_named(self, carl: Client, guide: Document) -> None:
        page = carl.post(address("marking"), {"set": "new", "new_set": ""}).content.decode()
        assert 'role="alert"' in page

    def test_a_name_that_is_being_typed_is_left_alone(self, carl: Client, guide: Document) -> None:
        """Choosing "a new set" shows its field at once; the answer comes when one is typing."""
        page = carl.post(
            address("marking"),
            {"set": "new"},
            headers={"hx-request": "true", "hx-trigger": "marking-set"},
        ).content.decode()
        assert 'id="marking"' not in page

    @pytest.mark.parametrize(
        "fields", [{"new_set": "x" * 300}, {"new_collection": ""}, {"new_collection": "x"}]
    )
    def test_a_new_set_that_cannot_be_made_is_said(
        self, carl: Client, collection: Collection, fields: dict[str, str]
    ) -> None:
        data = {"set": "new", "new_set": "Fresh", "new_collection": str(collection.id), **fields}
        assert b'role="alert"' in carl.post(address("marking"), data).content

    @pytest.mark.parametrize("text", ["", "\0", "x" * 100_000])
    def test_no_question_no_mark(self, made: LabelledSet, guide: Document, text: str) -> None:
        with pytest.raises(QuestionRefused):
            mark_passage(
                tenant=made.tenant, labelled_set=made, user=None, question=text,
                passage=Marked(guide.id, 0, 5), grade=2,
            )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_marks_at_once_are_one_question(guide: Document, made: LabelledSet) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for _ in range(5):
                for grade in (2, None, 1):
                    mark_passage(
                        tenant=made.tenant, labelled_set=made, user=None, question=QUESTION,
                        passage=Marked(guide.id, 1000 * number, 1000 * number + 9), grade=grade,
                    )  # fmt: skip
        except BaseException as exc:
            failures.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number % 2,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert texts(made) == [QUESTION]
    assert labels(made) == [(0, 9, 1), (1000, 1009, 1)]
