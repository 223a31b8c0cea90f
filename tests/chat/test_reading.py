"""What one opens while reading an answer: previews, neighbouring text, copies, figures."""

from __future__ import annotations

import uuid

import pytest

from apps.chat.feedback import REASONS, give_feedback, reasons_in_words
from apps.chat.models import Citation, Feedback, Message
from apps.chat.neighbours import STRETCH_CHARS
from apps.documents.models import Document, Page
from apps.tenants.access import find_access
from apps.tenants.models import User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.chat.test_views import HOSTILE, PAGES, PASSAGE, address, make_answer, make_document

pytestmark = pytest.mark.django_db
TEXT = "Staff have 25 days [1]. The moon is cheese."
SUPPORT = [
    {"start": 0, "end": 23, "markers": [1], "supported": True},
    {"start": 24, "end": 43, "markers": [], "supported": False, "reason": "no_passage"},
]


@pytest.fixture
def cited(cast: Cast) -> Citation:
    """Bob's answer, with its one source."""
    made = make_answer(cast.acme, cast.bob, make_document(cast.acme), text=TEXT)
    with tenant_scope(cast.acme.id):
        Message.objects.filter(id=made.message_id).update(support=SUPPORT)
    return made


def opened(user: User, name: str, target: uuid.UUID, **query: object) -> str:
    response = signed_in(user).get(address(name, target), query)
    assert response.status_code == 200
    return response.content.decode()


class TestPreview:
    def test_it_has_document_page_and_passage(self, cast: Cast, cited: Citation) -> None:
        shown = opened(cast.bob, "preview", cited.id)
        assert "handbook.md" in shown
        assert "Page 2" in shown
        assert PASSAGE in shown
        assert "Nobody else" not in shown

    def test_it_is_for_the_asker_alone(self, cast: Cast, cited: Citation) -> None:
        for user in (cast.alice, cast.carl, cast.mallory):
            assert signed_in(user).get(address("preview", cited.id)).status_code == 404

    def test_a_collection_that_was_closed_shows_no_text(self, cast: Cast, cited: Citation) -> None:
        with tenant_scope(cast.acme.id):
            assert cited.document is not None
            cited.document.collection.open_to_all = False
            cited.document.collection.save()
        shown = opened(cast.bob, "preview", cited.id)
        assert PASSAGE not in shown
        assert "not open to you" in shown

    def test_a_deleted_document_says_so(self, cast: Cast, cited: Citation) -> None:
        with tenant_scope(cast.acme.id):
            Citation.objects.filter(id=cited.id).update(document=None)
        assert "has been deleted" in opened(cast.bob, "preview", cited.id)


def lengthen(document: Document, text: str) -> None:
    with tenant_scope(document.tenant_id):
        Page.objects.filter(document=document, number=2).update(text=text)


class TestNeighbours:
    def test_before_reaches_over_to_the_page_before_and_ends_there(
        self, cast: Cast, cited: Citation
    ) -> None:
        shown = opened(cast.bob, "around", cited.id, way="before", page=2, at=0)
        assert PAGES[0].strip() in shown
        assert "The document begins here." in shown

    def test_after_goes_on_stretch_by_stretch(self, cast: Cast, cited: Citation) -> None:
        assert cited.document is not None
        lengthen(cited.document, "a" * STRETCH_CHARS + "bcd")
        first = opened(cast.bob, "around", cited.id, way="after", page=2, at=0)
        assert "a" * STRETCH_CHARS in first
        assert f"at={STRETCH_CHARS}" in first
        last = opened(cast.bob, "around", cited.id, way="after", page=2, at=STRETCH_CHARS)
        assert ">bcd<" in last
        assert "The document ends here." in last

    def test_text_of_a_document_is_shown_and_not_run(self, cast: Cast, cited: Citation) -> None:
        assert cited.document is not None
        lengthen(cited.document, HOSTILE)
        assert "<script>" not in opened(cast.bob, "around", cited.id, way="after", page=2, at=0)

    @pytest.mark.parametrize(
        "query",
        [
            {"way": "sideways"},
            {"page": "-1"},
            {"page": "9" * 40},
            {"at": "²"},
            {"page": "7"},
            {"way": "before", "page": "1"},
            {"page": "2", "at": "999999"},
        ],
    )
    def test_a_place_that_is_none_is_not_found(
        self, cast: Cast, cited: Citation, query: dict[str, str]
    ) -> None:
        response = signed_in(cast.bob).get(address("around", cited.id), query)
        assert response.status_code == 404

    def test_it_is_for_who_may_read_the_document(self, cast: Cast, cited: Citation) -> None:
        for user in (cast.alice, cast.mallory):
            assert signed_in(user).get(address("around", cited.id)).status_code == 404
        with tenant_scope(cast.acme.id):
            assert cited.document is not None
            cited.document.collection.open_to_all = False
            cited.document.collection.save()
        assert signed_in(cast.bob).get(address("around", cited.id)).status_code == 404


class TestCopy:
    def test_with_citations_it_has_their_numbers_and_their_list(
        self, cast: Cast, cited: Citation
    ) -> None:
        copied = signed_in(cast.bob).get(address("copy", cited.message_id)).json()
        assert "Staff have 25 days. [1] The moon is cheese." in copied["markdown"]
        assert "- [1] handbook.md, page 2" in copied["markdown"]
        assert "<li>[1] handbook.md, page 2</li>" in copied["html"]

    def test_without_there_is_no_trace_of_them(self, cast: Cast, cited: Citation) -> None:
        url = address("copy", cited.message_id)
        copied = signed_in(cast.bob).get(url, {"citations": "no"}).json()
        assert copied["markdown"] == "Staff have 25 days. The moon is cheese."
        assert "[1]" not in copied["html"]

    def test_a_hostile_name_stays_text(self, cast: Cast, cited: Citation) -> None:
        with tenant_scope(cast.acme.id):
            Citation.objects.update(document_name="[x](javascript:alert(1)) <script>")
        html = signed_in(cast.bob).get(address("copy", cited.message_id)).json()["html"]
        assert "<script>" not in html
        assert "<a" not in html

    def test_it_is_the_askers_alone(self, cast: Cast, cited: Citation) -> None:
        for user in (cast.alice, cast.mallory):
            assert signed_in(user).get(address("copy", cited.message_id)).status_code == 404


def test_everyone_sees_their_answers_cost_and_only_some_its_hops(
    cast: Cast, cited: Citation
) -> None:
    shown = opened(cast.bob, "details", cited.message_id)
    assert "not known" in shown
    assert "Nothing was measured" not in shown, "which is for who may see hops"
    with tenant_scope(cast.acme.id):
        Message.objects.filter(id=cited.message_id).update(cost_micros=1230)
    assert "0.00123" in opened(cast.bob, "details", cited.message_id)


def test_a_stored_answer_says_why_a_sentence_is_doubted(cast: Cast, cited: Citation) -> None:
    shown = opened(cast.bob, "conversation", cited.message.conversation_id)
    assert 'data-reason="no_passage"' in shown


class TestReasons:
    def give(self, cast: Cast, cited: Citation, **fields: object) -> list[str]:
        url = address("feedback", cited.message_id)
        assert signed_in(cast.bob).post(url, fields).status_code == 302
        with tenant_scope(cast.acme.id):
            return list(Feedback.objects.get().reasons)

    def test_known_ones_of_this_thumb_are_kept(self, cast: Cast, cited: Citation) -> None:
        given = self.give(
            cast, cited, thumb=-1, comment="", reason=["badly_written", "wrong", "right", "x" * 99]
        )
        assert given == ["wrong", "badly_written"]

    def test_a_thumb_alone_leaves_them_and_its_turn_drops_them(
        self, cast: Cast, cited: Citation
    ) -> None:
        assert self.give(cast, cited, thumb=-1, comment="", reason=["wrong"]) == ["wrong"]
        assert self.give(cast, cited, thumb=-1) == ["wrong"]
        assert self.give(cast, cited, thumb=1) == []

    def test_they_are_shown_again(self, cast: Cast, cited: Citation) -> None:
        self.give(cast, cited, thumb=1, comment="", reason=["clear"])
        shown = opened(cast.bob, "conversation", cited.message.conversation_id)
        assert f'id="reason-clear-{cited.message_id}" checked' in shown

    def test_reviewers_see_them_in_words(self, cast: Cast, cited: Citation) -> None:
        access = find_access(cast.bob, slug="acme")
        assert access is not None
        give_feedback(
            access=access, answer_id=cited.message_id, thumb=-1, reasons=["old_information"]
        )
        page = signed_in(cast.carl).get("/t/acme/quality/proposals/").content.decode()
        assert "Old information" in page

    def test_every_code_has_words(self) -> None:
        codes = [code for each in REASONS.values() for code in each]
        assert len(reasons_in_words(codes)) == len(codes) == len(set(codes))
        assert reasons_in_words(["no_such"]) == []
