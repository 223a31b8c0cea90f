"""Thumbs of the chat on their way into a labelled set."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.chat.models import Citation, Conversation, Feedback, Message, MessageRole
from apps.documents.models import Collection, Document
from apps.evals.models import Label, LabelledQuestion, LabelledSet, Proposal
from apps.evals.services import collect_proposals, create_set
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.evals.uploads import write_document
from tests.retrieval.corpus import delete_document, make_collection

pytestmark = pytest.mark.django_db

TEXT = "The house opens at nine. It closes at five."
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def collection(cast: Cast) -> Collection:
    return make_collection(cast.acme)


@pytest.fixture
def guide(collection: Collection) -> Document:
    return write_document(collection, "guide.md", [TEXT])


@pytest.fixture
def made(collection: Collection) -> LabelledSet:
    return create_set(
        tenant=collection.tenant, collection=collection, user=None, name="Hours",
        origin=LabelledSet.Origin.FEEDBACK,
    )  # fmt: skip


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


def answer(
    tenant: Tenant, user: User, documents: list[Document], *, question: str = "And when?",
    searched_as: str = "When does the house open?",
) -> Message:  # fmt: skip
    """An answer that was given a passage of each document; the first is cited."""
    with tenant_scope(tenant.id):
        conversation = Conversation.objects.create(tenant=tenant, user=user)
        asked = Message.objects.create(
            tenant=tenant, conversation=conversation, role=MessageRole.QUESTION, text=question,
            searched_as=searched_as,
        )  # fmt: skip
        made = Message.objects.create(
            tenant=tenant, conversation=conversation, role=MessageRole.ANSWER, text="At nine. [1]",
            in_reply_to=asked.id,
        )  # fmt: skip
        for marker, document in enumerate(documents, start=1):
            Citation.objects.create(
                tenant=tenant, message=made, marker=marker, cited=marker == 1, document=document,
                document_name=document.name, page_first=1, page_last=1, char_start=0, char_end=24,
                score=1.0,
            )  # fmt: skip
    return made


def thumb(message: Message, user: User, value: int = 1, comment: str = "") -> None:
    with tenant_scope(message.tenant_id):
        Feedback.objects.update_or_create(
            tenant_id=message.tenant_id, message=message, user=user,
            defaults={"thumb": value, "comment": comment},
        )  # fmt: skip


def standing(tenant: Tenant) -> list[tuple[str, int, str, str]]:
    with tenant_scope(tenant.id):
        rows = Proposal.objects.filter(tenant=tenant)
        return list(rows.values_list("question", "thumb", "comment", "state"))


def review(browser: Client, proposal: Proposal, **fields: Any) -> str:
    url = reverse("evals:review", args=["acme", proposal.id])
    response = browser.post(url, fields, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()


def page_of(browser: Client, state: str = "waiting") -> str:
    url = reverse("evals:proposals", args=["acme"])
    return browser.get(f"{url}?state={state}").content.decode()


def only(tenant: Tenant) -> Proposal:
    collect_proposals(tenant=tenant)
    with tenant_scope(tenant.id):
        return Proposal.objects.get(tenant=tenant)


def labels(tenant: Tenant) -> list[tuple[int | None, int | None, int]]:
    with tenant_scope(tenant.id):
        rows = Label.objects.filter(tenant=tenant)
        return sorted(rows.values_list("char_start", "char_end", "grade"))


class TestCollecting:
    def test_a_thumb_is_proposed_once_with_the_question_that_stands_alone(
        self, cast: Cast, guide: Document
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob, comment="good")
        for _ in range(2):
            assert collect_proposals(tenant=cast.acme) == 1
        assert standing(cast.acme) == [("When does the house open?", 1, "good", "waiting")]

    def test_a_proposal_follows_its_thumb(self, cast: Cast, guide: Document) -> None:
        message = answer(cast.acme, cast.bob, [guide])
        thumb(message, cast.bob)
        collect_proposals(tenant=cast.acme)
        thumb(message, cast.bob, -1, "wrong")
        collect_proposals(tenant=cast.acme)
        assert [row[1:] for row in standing(cast.acme)] == [(-1, "wrong", "waiting")]
        with tenant_scope(cast.acme.id):
            Feedback.objects.all().delete()
        assert collect_proposals(tenant=cast.acme) == 0
        assert standing(cast.acme) == []

    def test_what_was_reviewed_stays(self, cast: Cast, guide: Document, carl: Client) -> None:
        message = answer(cast.acme, cast.bob, [guide])
        thumb(message, cast.bob)
        review(carl, only(cast.acme), action="dismiss")
        thumb(message, cast.bob, -1)
        collect_proposals(tenant=cast.acme)
        assert [row[1:] for row in standing(cast.acme)] == [(1, "", "dismissed")]

    def test_another_tenants_thumbs_are_theirs(self, cast: Cast, guide: Document) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob)
        assert collect_proposals(tenant=cast.rival) == 0
        assert standing(cast.rival) == []


class TestReviewing:
    def test_the_page_shows_question_comment_and_passages(
        self, cast: Cast, guide: Document, carl: Client
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob, comment=HOSTILE)
        page = page_of(carl)
        for words in ("When does the house open?", "The house opens at nine.", "&lt;script&gt;"):
            assert words in page
        assert HOSTILE not in page
        assert "bob@example.com" not in page  # who it was is nobody's business here

    def test_nothing_to_review_says_what_would_be(self, cast: Cast, carl: Client) -> None:
        assert "Nothing waits" in page_of(carl)

    def test_taking_makes_a_question_with_labels_and_undo_takes_it_away(
        self, cast: Cast, guide: Document, made: LabelledSet, carl: Client
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide, guide]), cast.bob)
        proposal = only(cast.acme)
        page = review(
            carl, proposal, action="take", set=str(made.id), question="When?",
            **{"grade-1": "2", "grade-2": ""},
        )  # fmt: skip
        assert "Taken into a set" in page
        assert labels(cast.acme) == [(0, 24, 2)]
        with tenant_scope(cast.acme.id):
            assert LabelledQuestion.objects.get(labelled_set=made).text == "When?"
        assert "Undo" in page_of(carl, "taken")
        review(carl, proposal, action="reopen")
        assert labels(cast.acme) == []
        assert [row[3] for row in standing(cast.acme)] == ["waiting"]

    def test_a_new_set_is_made(
        self, cast: Cast, guide: Document, collection: Collection, carl: Client
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob)
        review(
            carl, only(cast.acme), action="take", new_set="Chat",
            new_collection=str(collection.id), **{"grade-1": "1"},
        )  # fmt: skip
        with tenant_scope(cast.acme.id):
            assert LabelledSet.objects.get().origin == LabelledSet.Origin.FEEDBACK
        assert labels(cast.acme) == [(0, 24, 1)]

    def test_a_question_that_the_documents_do_not_answer(
        self, cast: Cast, made: LabelledSet, carl: Client
    ) -> None:
        thumb(answer(cast.acme, cast.bob, []), cast.bob, -1)
        review(carl, only(cast.acme), action="take", set=str(made.id), unanswerable="on")
        with tenant_scope(cast.acme.id):
            assert LabelledQuestion.objects.get(labelled_set=made).unanswerable

    @pytest.mark.parametrize(
        "fields",
        [
            {}, {"action": "eat"}, {"action": "take"}, {"action": "take", "set": "x"},
            {"action": "take", "set": "MADE"}, {"action": "take", "set": "MADE", "grade-1": "9"},
            {"action": "take", "set": "MADE", "grade-7": "2"},
            {"action": "take", "set": "MADE", "grade-1": "2", "question": " "},
            {"action": "take", "set": "MADE", "grade-1": "2", "question": "x" * 100_000},
            {"action": "take", "set": str(uuid.uuid4()), "grade-1": "2"},
            {"action": "take", "new_set": "A", "new_collection": "x", "grade-1": "2"},
            {"action": "take", "new_set": "x" * 300, "grade-1": "2"},
        ],
    )  # fmt: skip
    def test_what_is_missing_is_said_and_nothing_changes(
        self, cast: Cast, guide: Document, made: LabelledSet, carl: Client, fields: dict[str, str]
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob)
        given = {name: value.replace("MADE", str(made.id)) for name, value in fields.items()}
        assert 'role="alert"' in review(carl, only(cast.acme), **given)
        assert labels(cast.acme) == []
        assert [row[3] for row in standing(cast.acme)] == ["waiting"]
        with tenant_scope(cast.acme.id):
            assert LabelledSet.objects.count() == 1

    def test_passages_of_another_collection_do_not_go_into_the_set(
        self, cast: Cast, guide: Document, made: LabelledSet, carl: Client
    ) -> None:
        other = write_document(make_collection(cast.acme, "Else"), "other.md", [TEXT])
        thumb(answer(cast.acme, cast.bob, [guide, other]), cast.bob)
        review(
            carl, only(cast.acme), action="take", set=str(made.id),
            **{"grade-1": "1", "grade-2": "2"},
        )  # fmt: skip
        assert labels(cast.acme) == [(0, 24, 1)]

    def test_a_passage_whose_document_went_is_said_and_not_taken(
        self, cast: Cast, guide: Document, made: LabelledSet, carl: Client
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob)
        proposal = only(cast.acme)
        delete_document(guide)
        assert "is no longer there" in page_of(carl)
        review(carl, proposal, action="take", set=str(made.id), **{"grade-1": "2"})
        assert labels(cast.acme) == []

    def test_the_second_of_two_reviewers_is_told(
        self, cast: Cast, guide: Document, made: LabelledSet, carl: Client
    ) -> None:
        thumb(answer(cast.acme, cast.bob, [guide]), cast.bob)
        proposal = only(cast.acme)
        review(carl, proposal, action="dismiss")
        page = review(
            signed_in(cast.alice), proposal, action="take", set=str(made.id), **{"grade-1": "2"}
        )
        assert "already" in page
        assert labels(cast.acme) == []


@pytest.mark.django_db(transaction=True)
def test_collecting_at_once_makes_one(cast: Cast, guide: Document) -> None:
    thumb(answer(cast.acme, cast.bob, [guide]), cast.bob)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            collect_proposals(tenant=cast.acme)
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
    assert len(standing(cast.acme)) == 1
