"""Thumbs on answers: given, changed, taken back; and what reviewers are shown of them."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.chat.errors import FeedbackRefused
from apps.chat.feedback import COMMENT_CHARS, give_feedback
from apps.chat.models import Citation, Conversation, Feedback, Message, MessageState
from apps.chat.selectors import CitedPlace, feedback_to_review
from apps.tenants.access import find_access
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.chat.test_views import HOSTILE, PAGES, PASSAGE, address, make_answer, make_document

pytestmark = pytest.mark.django_db


@pytest.fixture
def cited(cast: Cast) -> Citation:
    """Bob's answer, with its one source."""
    return make_answer(cast.acme, cast.bob, make_document(cast.acme))


def thumb(user: User, cited: Citation, value: object, **fields: object) -> int:
    url = address("feedback", cited.message_id)
    data = {"thumb": value, **fields}
    return signed_in(user).post(url, data, headers={"HX-Request": "true"}).status_code


def stored(tenant: Tenant) -> list[tuple[int, str]]:
    with tenant_scope(tenant.id):
        return list(Feedback.objects.values_list("thumb", "comment"))


class TestGiving:
    def test_a_thumb_is_given_changed_and_taken_back(self, cast: Cast, cited: Citation) -> None:
        assert thumb(cast.bob, cited, 1) == 200
        assert stored(cast.acme) == [(1, "")]
        assert thumb(cast.bob, cited, 1, comment=" right\r\non ") == 200
        assert stored(cast.acme) == [(1, "right\non")]
        assert thumb(cast.bob, cited, -1) == 200
        assert stored(cast.acme) == [(-1, "right\non")], "a thumb alone leaves the comment"
        assert thumb(cast.bob, cited, 0) == 200
        assert stored(cast.acme) == []
        assert thumb(cast.bob, cited, 0) == 200, "taking back nothing is no fault"

    def test_nobody_but_the_asker_may(self, cast: Cast, cited: Citation) -> None:
        for user in (cast.alice, cast.carl, cast.mallory, cast.olga):
            assert thumb(user, cited, 1) == 404
            assert thumb(user, cited, 0) == 404
        assert stored(cast.acme) == []

    def test_a_question_has_no_thumb(self, cast: Cast, cited: Citation) -> None:
        with tenant_scope(cast.acme.id):
            question = Message.objects.get(role="question")
        url = address("feedback", question.id)
        assert signed_in(cast.bob).post(url, {"thumb": 1}).status_code == 404

    @pytest.mark.parametrize("value", ["", "2", "-2", "up", "1; DROP", "１"])
    def test_anything_but_up_down_and_none_is_refused(
        self, cast: Cast, cited: Citation, value: str
    ) -> None:
        assert thumb(cast.bob, cited, value) == 400
        assert stored(cast.acme) == []

    def test_an_over_long_comment_is_refused_and_nul_is_dropped(
        self, cast: Cast, cited: Citation
    ) -> None:
        assert thumb(cast.bob, cited, 1, comment="x" * (COMMENT_CHARS + 1)) == 400
        assert thumb(cast.bob, cited, 1, comment="\r\n".join("x" * (COMMENT_CHARS // 2))) == 200
        assert thumb(cast.bob, cited, 1, comment="a\x00b") == 200
        assert stored(cast.acme) == [(1, "ab")]

    @pytest.mark.parametrize("state", [MessageState.STREAMING, MessageState.FAILED])
    def test_what_is_not_an_answer_yet_has_no_thumb(self, cast: Cast, state: str) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme), state=state)
        access = find_access(cast.bob, slug="acme")
        assert access is not None
        with pytest.raises(FeedbackRefused):
            give_feedback(access=access, answer_id=cited.message_id, thumb=1)

    def test_without_script_it_leads_back_to_the_answer(self, cast: Cast, cited: Citation) -> None:
        url = address("feedback", cited.message_id)
        answer = signed_in(cast.bob).post(url, {"thumb": 1})
        page = address("conversation", cited.message.conversation_id)
        assert answer.headers["Location"] == f"{page}#answer-{cited.message_id}"
        shown = signed_in(cast.bob).get(page).content.decode()
        assert f'id="answer-{cited.message_id}"' in shown
        assert 'aria-pressed="true"' in shown

    def test_a_comment_is_shown_and_not_run(self, cast: Cast, cited: Citation) -> None:
        comment = f"</textarea>{HOSTILE}"
        assert thumb(cast.bob, cited, -1, comment=comment) == 200
        page = signed_in(cast.bob).get(address("conversation", cited.message.conversation_id))
        assert "<script>alert" not in page.content.decode()
        shown = page.content.decode()
        assert shown.count("</textarea>") == shown.count("<textarea"), "none is broken out of"

    def test_of_a_deleted_conversation_it_is_not_reviewed(
        self, cast: Cast, cited: Citation
    ) -> None:
        thumb(cast.bob, cited, 1)
        signed_in(cast.bob).post(address("delete", cited.message.conversation_id))
        with tenant_scope(cast.acme.id):
            assert list(feedback_to_review(cast.acme.id)) == []


class TestReviewing:
    def test_all_that_a_review_needs_is_there(self, cast: Cast, cited: Citation) -> None:
        other = uuid.uuid4()
        with tenant_scope(cast.acme.id):
            document = cited.document
            assert document is not None
            Conversation.objects.update(collection_ids=[str(other), str(document.collection_id)])
        thumb(cast.bob, cited, -1, comment="It is 30.")
        with tenant_scope(cast.acme.id):
            (given,) = feedback_to_review(cast.acme.id)
        start = len(PAGES[0])
        assert given.message_id == cited.message_id
        assert given.question == "How much leave?"
        assert (given.thumb, given.comment, given.user_id) == (-1, "It is 30.", cast.bob.pk)
        assert given.collection_ids == (document.collection_id, other)
        assert given.citations == (
            CitedPlace(document.id, start, start + len(PASSAGE), cited=True),
        )

    def test_a_follow_up_is_given_as_it_was_searched(self, cast: Cast, cited: Citation) -> None:
        thumb(cast.bob, cited, 1)
        with tenant_scope(cast.acme.id):
            Message.objects.filter(role="question").update(searched_as="How much leave in 2023?")
            (given,) = feedback_to_review(cast.acme.id)
        assert given.question == "How much leave in 2023?"

    def test_places_in_deleted_documents_are_left_out(self, cast: Cast, cited: Citation) -> None:
        thumb(cast.bob, cited, 1)
        with tenant_scope(cast.acme.id):
            assert cited.document is not None
            cited.document.delete()
            (given,) = feedback_to_review(cast.acme.id)
        assert given.citations == ()

    def test_only_what_changed_since_then_and_of_this_tenant(
        self, cast: Cast, cited: Citation
    ) -> None:
        thumb(cast.bob, cited, 1)
        with tenant_scope(cast.acme.id):
            assert list(feedback_to_review(cast.acme.id, since=timezone.now())) == []
            soon = timezone.now() - timedelta(minutes=1)
            assert len(list(feedback_to_review(cast.acme.id, since=soon))) == 1
        with tenant_scope(cast.rival.id):
            assert list(feedback_to_review(cast.rival.id)) == []
            assert list(feedback_to_review(cast.acme.id)) == []


class TestSearchedAs:
    def test_the_asker_sees_what_was_searched(self, cast: Cast, cited: Citation) -> None:
        url = address("conversation", cited.message.conversation_id)
        searched = 'How much <b>leave</b> in "2023"?'
        hidden = '<p class="answer-searched muted small" hidden>'
        before = signed_in(cast.bob).get(url).content.decode().count(hidden)
        with tenant_scope(cast.acme.id):
            Message.objects.filter(role="question").update(searched_as=searched)
        page = signed_in(cast.bob).get(url).content.decode()
        assert "How much &lt;b&gt;leave&lt;/b&gt; in &quot;2023&quot;?" in page
        assert page.count(hidden) == before - 1, "the others are of templates"
