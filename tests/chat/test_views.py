"""Chat pages: one's own conversations, and sources on their page."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.chat.models import Citation, Conversation, Message, MessageRole, MessageState
from apps.chat.views.answers import hop_bars
from apps.documents.models import Collection, Document, DocumentState, Page
from apps.telemetry.hops import Trace
from apps.telemetry.models import Span
from apps.telemetry.services import record_trace
from apps.tenants.models import Limit, Measure, Subject, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.services import set_limit
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
PAGES = ("The first page says little.\n", "Staff have 25 days of leave. Nobody else has.\n")
PASSAGE = "Staff have 25 days of leave."


def make_document(
    tenant: Tenant, *, name: str = "handbook.md", open_to_all: bool = True
) -> Document:
    with tenant_scope(tenant.id):
        collection = Collection.objects.create(
            tenant=tenant, name=str(uuid.uuid4()), open_to_all=open_to_all
        )
        document = Document.objects.create(
            tenant=tenant,
            collection=collection,
            path=name,
            name=name,
            kind="text/markdown",
            size_bytes=1,
            sha256=uuid.uuid4().hex * 2,
            storage_key="none",
            state=DocumentState.READY,
            page_count=2,
        )
        start = 0
        for number, text in enumerate(PAGES, start=1):
            Page.objects.create(
                tenant=tenant, document=document, number=number, text=text, char_start=start
            )
            start += len(text)
    return document


def make_answer(
    tenant: Tenant,
    user: User,
    document: Document,
    *,
    question: str = "How much leave?",
    **fields: object,
) -> Citation:
    """A conversation of one exchange; its only source is the second page's first sentence."""
    start = len(PAGES[0])
    values = {"text": "25 days [1].", "kind": "generated", "finished_at": timezone.now(), **fields}
    with tenant_scope(tenant.id):
        conversation = Conversation.objects.create(tenant=tenant, user=user, title=question)
        asked = Message.objects.create(
            tenant=tenant, conversation=conversation, role=MessageRole.QUESTION, text=question
        )
        answer = Message.objects.create(
            tenant=tenant,
            conversation=conversation,
            role=MessageRole.ANSWER,
            in_reply_to=asked.id,
            support=[{"start": 0, "end": 12, "markers": [1], "supported": True}],
            **values,
        )
        return Citation.objects.create(
            tenant=tenant,
            message=answer,
            marker=1,
            cited=True,
            document=document,
            document_name=document.name,
            heading_path="Leave",
            page_first=2,
            page_last=2,
            char_start=start,
            char_end=start + len(PASSAGE),
            score=0.82,
        )


def address(name: str, *ids: object, slug: str = "acme") -> str:
    return reverse(f"chat:{name}", args=[slug, *ids])


def conversation_id(citation: Citation) -> uuid.UUID:
    return citation.message.conversation_id


class TestTheChatPage:
    def test_with_nothing_to_ask_a_corpus_admin_is_sent_to_make_a_collection(
        self, cast: Cast
    ) -> None:
        page = signed_in(cast.carl).get(address("home")).content.decode()
        assert "Nothing to ask yet" in page
        assert reverse("documents:create_collection", args=["acme"]) in page
        assert 'data-can-ask="false"' in page

    def test_with_nothing_to_ask_a_member_is_told_whom_to_ask(self, cast: Cast) -> None:
        page = signed_in(cast.bob).get(address("home")).content.decode()
        assert "no collection is open to you yet" in page

    def test_without_a_ready_document_it_says_so(self, cast: Cast) -> None:
        document = make_document(cast.acme)
        with tenant_scope(cast.acme.id):
            Document.objects.filter(id=document.id).update(state="parsing")
        page = signed_in(cast.bob).get(address("home")).content.decode()
        assert "No document is ready yet" in page

    def test_only_open_collections_can_be_picked(self, cast: Cast) -> None:
        opened = make_document(cast.acme)
        closed = make_document(cast.acme, open_to_all=False)
        page = signed_in(cast.bob).get(address("home")).content.decode()
        assert str(opened.collection_id) in page
        assert str(closed.collection_id) not in page

    def test_the_collection_in_the_address_is_the_one_picked(self, cast: Cast) -> None:
        one, other = make_document(cast.acme), make_document(cast.acme)
        url = f"{address('home')}?collection={other.collection_id}"
        page = signed_in(cast.bob).get(url).content.decode()
        ticked = re.findall(r'value="([^"]+)"[^>]*checked', page)
        assert ticked == [str(other.collection_id)]
        assert str(one.collection_id) in page

    def test_a_thread_shows_question_answer_and_source(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        page = signed_in(cast.bob).get(address("conversation", conversation_id(cited)))
        text = page.content.decode()
        assert "How much leave?" in text
        assert f'class="cite" data-citation="{cited.id}"' in text
        assert address("citation", cited.id) in text

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            (MessageState.STOPPED, "You stopped this answer."),
            (MessageState.INTERRUPTED, "The answer broke off."),
            (MessageState.FAILED, "The answer failed."),
        ],
    )
    def test_how_an_answer_ended_is_said(self, cast: Cast, state: str, words: str) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme), state=state)
        for name in ("conversation", "thread"):
            page = signed_in(cast.bob).get(address(name, conversation_id(cited)))
            assert words in page.content.decode()

    def test_an_answer_being_written_elsewhere_is_marked_to_be_followed(self, cast: Cast) -> None:
        document = make_document(cast.acme)
        cited = make_answer(cast.acme, cast.bob, document, state=MessageState.STREAMING, text="")
        for name in ("conversation", "thread"):
            url = address(name, conversation_id(cited))
            page = signed_in(cast.bob).get(url).content.decode()
            assert f'data-answer="{cited.message_id}" data-state="streaming"' in page
        with tenant_scope(cast.acme.id):
            Message.objects.filter(id=cited.message_id).update(state=MessageState.COMPLETE)
        assert 'data-state="streaming"' not in signed_in(cast.bob).get(url).content.decode()

    def test_notices_are_shown(self, cast: Cast) -> None:
        notices = [{"code": "embedder_down", "message": "Searched by words only."}]
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme), notices=notices)
        page = signed_in(cast.bob).get(address("thread", conversation_id(cited)))
        assert "Searched by words only." in page.content.decode()

    def test_hostile_text_is_shown_and_not_run(self, cast: Cast) -> None:
        document = make_document(cast.acme, name=HOSTILE)
        notices = [{"code": "x", "message": HOSTILE}]
        cited = make_answer(
            cast.acme, cast.bob, document, question=HOSTILE, text=HOSTILE, notices=notices
        )
        bob = signed_in(cast.bob)
        for url in (
            address("home"),
            address("conversation", conversation_id(cited)),
            address("conversation_list"),
            address("citation", cited.id),
        ):
            page = bob.get(url).content.decode()
            assert "<script>alert" not in page, url
            assert "<img src=x" not in page, url

    def test_it_carries_no_inline_script_or_style(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        for url in (
            address("conversation", conversation_id(cited)),
            address("citation", cited.id),
        ):
            page = signed_in(cast.bob).get(url).content.decode()
            assert not re.search(r"<script(?![^>]*\ssrc=)", page), url
            assert not re.search(r"\s(style|on\w+)=", page), url


class TestOnesOwn:
    def test_nobody_else_sees_a_conversation_not_even_their_manager(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        for user, slug in ((cast.alice, "acme"), (cast.mallory, "acme"), (cast.mallory, "rival")):
            client = signed_in(user)
            for name, identifier in (
                ("conversation", conversation_id(cited)),
                ("thread", conversation_id(cited)),
                ("citation", cited.id),
                ("details", cited.message_id),
            ):
                url = address(name, identifier, slug=slug)
                assert client.get(url).status_code == 404, url
            for name in ("rename", "delete"):
                url = address(name, conversation_id(cited), slug=slug)
                assert client.post(url, {"title": "mine"}).status_code == 404, url
        listed = signed_in(cast.alice).get(address("home")).content.decode()
        assert "How much leave?" not in listed

    def test_a_conversation_is_renamed(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        bob = signed_in(cast.bob)
        bob.post(address("rename", conversation_id(cited)), {"title": "  Leave \x00 days "})
        assert "Leave days" in bob.get(address("conversation_list")).content.decode()

    def test_a_conversation_is_deleted(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        bob = signed_in(cast.bob)
        bob.post(address("delete", conversation_id(cited)))
        assert bob.get(address("conversation", conversation_id(cited))).status_code == 404
        assert bob.get(address("citation", cited.id)).status_code == 404


class TestACitation:
    def test_the_passage_is_marked_in_its_page(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        page = signed_in(cast.bob).get(address("citation", cited.id)).content.decode()
        assert f"<mark>{PASSAGE}</mark> Nobody else has." in page
        assert "Page 2" in page
        assert "82 of 100" in page

    def test_the_panel_gets_the_part_alone(self, cast: Cast) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        url = address("citation", cited.id)
        page = signed_in(cast.bob).get(url, headers={"HX-Request": "true"}).content.decode()
        assert PASSAGE in page
        assert "<html" not in page

    def test_a_deleted_document_says_so(self, cast: Cast) -> None:
        document = make_document(cast.acme)
        cited = make_answer(cast.acme, cast.bob, document)
        with tenant_scope(cast.acme.id):
            document.delete()
        page = signed_in(cast.bob).get(address("citation", cited.id)).content.decode()
        assert "has been deleted" in page
        assert PASSAGE not in page

    def test_a_collection_closed_since_then_shows_nothing(self, cast: Cast) -> None:
        document = make_document(cast.acme)
        cited = make_answer(cast.acme, cast.bob, document)
        with tenant_scope(cast.acme.id):
            Collection.objects.filter(id=document.collection_id).update(open_to_all=False)
        page = signed_in(cast.bob).get(address("citation", cited.id)).content.decode()
        assert "not open to you any more" in page
        assert PASSAGE not in page

    def test_a_document_being_read_again_shows_no_wrong_passage(self, cast: Cast) -> None:
        document = make_document(cast.acme)
        cited = make_answer(cast.acme, cast.bob, document)
        with tenant_scope(cast.acme.id):
            Page.objects.filter(document=document).delete()
        page = signed_in(cast.bob).get(address("citation", cited.id)).content.decode()
        assert "not available at the moment" in page


class TestDetails:
    def test_hops_and_tokens_are_shown_to_those_who_may_see_them(self, cast: Cast) -> None:
        cited = make_answer(
            cast.acme, cast.carl, make_document(cast.acme), prompt_tokens=512, completion_tokens=80
        )
        trace = Trace(cast.acme.id, "answer", trace_id=cited.message_id)
        with trace.hop("embed") as hop:
            hop.end_as("degraded")
        record_trace(trace)
        page = signed_in(cast.carl).get(address("details", cited.message_id)).content.decode()
        assert "512 tokens" in page
        assert "embed" in page
        assert "Degraded" in page

    def test_a_member_is_shown_tokens_and_no_hops(self, cast: Cast) -> None:
        cited = make_answer(
            cast.acme, cast.bob, make_document(cast.acme), prompt_tokens=512, completion_tokens=80
        )
        trace = Trace(cast.acme.id, "answer", trace_id=cited.message_id)
        with trace.hop("embed") as hop:
            hop.end_as("degraded")
        record_trace(trace)
        page = signed_in(cast.bob).get(address("details", cited.message_id)).content.decode()
        assert "512 tokens" in page
        assert "embed" not in page
        assert "Degraded" not in page

    def test_hops_lie_on_one_time_line(self) -> None:
        began = datetime(2026, 1, 1, tzinfo=UTC)
        spans = [
            Span(hop="embed", started_at=began, work_ms=100),
            Span(hop="search", started_at=began + timedelta(milliseconds=100), work_ms=300),
            Span(hop="stream", started_at=began + timedelta(milliseconds=400), work_ms=0),
        ]
        bars = [(bar.start, bar.width) for bar in hop_bars(spans)]
        assert bars == [(0, 250), (250, 750), (996, 4)]

    def test_no_hops_are_no_bars(self) -> None:
        assert hop_bars([]) == []


def test_a_member_sees_their_own_limits_and_nobody_elses(cast: Cast) -> None:
    set_limit(
        tenant=cast.acme,
        actor=cast.alice,
        given_by=Limit.GivenBy.MANAGER,
        subject=Subject.MEMBER,
        subject_id=str(cast.bob.id),
        measure=Measure.TOKENS_PER_DAY,
        amount=50_000,
    )
    bobs = signed_in(cast.bob).get("/t/acme/chat/").content.decode()
    carls = signed_in(cast.carl).get("/t/acme/chat/").content.decode()
    assert "0 tokens of 50,000 tokens" in bobs
    assert "own-limits" not in carls
