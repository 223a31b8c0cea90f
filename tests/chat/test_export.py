"""The export's address: whose conversation, as what kind, under which name."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from urllib.parse import unquote

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.chat.errors import ExportRefused
from apps.chat.exporting.filenames import disposition, file_name
from apps.chat.exporting.kinds import EXPORTERS, Material
from apps.chat.models import Citation, Conversation, Feedback, Message, MessageRole, MessageState
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

TEXT = "It opens at nine. [1]"


def make_conversation(tenant: Tenant, user: User, *, title: str = "Hours") -> Conversation:
    """A question with two answers, the second of them shown."""
    with tenant_scope(tenant.id):
        conversation = Conversation.objects.create(tenant=tenant, user=user, title=title)
        question = Message.objects.create(
            tenant=tenant, conversation=conversation, role=MessageRole.QUESTION, text="When?"
        )
        for text in ("At eight.", TEXT):
            answer = Message.objects.create(
                tenant=tenant,
                conversation=conversation,
                role=MessageRole.ANSWER,
                text=text,
                in_reply_to=question.id,
                model="small",
                kind="generated",
                prompt_tokens=100,
                completion_tokens=5,
                cost_micros=1230,
                support=[{"start": 0, "end": len(TEXT), "markers": [1], "supported": True}]
                if text == TEXT
                else [],
                finished_at=timezone.now() + timedelta(seconds=1),
            )
        Citation.objects.create(
            tenant=tenant,
            message=answer,
            marker=1,
            cited=True,
            document_name="hours.pdf",
            page_first=3,
            page_last=3,
            char_start=10,
            char_end=20,
            score=0.9,
        )
        Feedback.objects.create(
            tenant=tenant, message=answer, user=user, thumb=-1, comment="No", reasons=["wrong"]
        )
    return conversation


def address(conversation: Conversation, kind: str, tenant: str = "acme") -> str:
    return reverse("chat:export", args=[tenant, conversation.id, kind])


@pytest.mark.parametrize(
    ("kind", "suffix", "content_type", "begins"),
    [
        ("markdown", "md", "text/markdown; charset=utf-8", b"# Hours"),
        ("json", "json", "application/json", b"{"),
        ("pdf", "pdf", "application/pdf", b"%PDF-"),
    ],
)
def test_ones_own_conversation_is_a_download(
    cast: Cast, kind: str, suffix: str, content_type: str, begins: bytes
) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    response = signed_in(cast.bob).get(address(conversation, kind))
    assert response.status_code == 200
    assert response["Content-Type"] == content_type
    assert response["Content-Disposition"].startswith(f'attachment; filename="Hours.{suffix}"')
    assert response["Cache-Control"] == "private, no-store"
    assert response.content.startswith(begins)


@pytest.mark.parametrize("kind", EXPORTERS)
@pytest.mark.parametrize("who", ["alice", "carl", "mallory", "olga"])
def test_somebody_elses_conversation_is_not_there(cast: Cast, who: str, kind: str) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    assert signed_in(getattr(cast, who)).get(address(conversation, kind)).status_code == 404


@pytest.mark.parametrize("kind", EXPORTERS)
def test_a_deleted_conversation_is_not_there(cast: Cast, kind: str) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    with tenant_scope(cast.acme.id):
        Conversation.objects.filter(id=conversation.id).update(deleted_at=timezone.now())
    assert signed_in(cast.bob).get(address(conversation, kind)).status_code == 404


@pytest.mark.parametrize("kind", ["docx", "PDF", "..", "json.exe"])
def test_a_kind_that_there_is_not_is_not_found(cast: Cast, kind: str) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    assert signed_in(cast.bob).get(address(conversation, kind)).status_code == 404


def test_exporting_is_reading(cast: Cast) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    assert signed_in(cast.bob).post(address(conversation, "json")).status_code == 405


def test_json_has_all_branches_with_what_is_known_of_them(cast: Cast) -> None:
    conversation = make_conversation(cast.acme, cast.carl)
    data = json.loads(signed_in(cast.carl).get(address(conversation, "json")).content)
    assert (data["format"], data["version"]) == ("ragsite.conversation", 1)
    question, hidden, shown = data["messages"]
    assert [each["shown"] for each in data["messages"]] == [True, False, True]
    assert (hidden["in_reply_to"], shown["in_reply_to"]) == (question["id"], question["id"])
    assert (shown["prompt_tokens"], shown["cost_micros"]) == (100, 1230)
    assert shown["sentences"][0]["citations"] == [1]
    (cited,) = shown["citations"]
    assert (cited["document"], cited["page_first"], cited["char_start"]) == ("hours.pdf", 3, 10)
    assert (shown["feedback"]["thumb"], shown["feedback"]["reasons"]) == ("down", ["wrong"])
    for moment in (data["exported_at"], question["created_at"], shown["finished_at"]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", moment)


def test_tokens_and_cost_are_for_those_who_may_see_them(cast: Cast) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    data = json.loads(signed_in(cast.bob).get(address(conversation, "json")).content)
    shown = data["messages"][-1]
    assert (shown["prompt_tokens"], shown["completion_tokens"], shown["cost_micros"]) == (None,) * 3


def test_markdown_has_the_branch_that_is_shown(cast: Cast) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    text = signed_in(cast.bob).get(address(conversation, "markdown")).content.decode()
    assert "It opens at nine. \\[1\\]" in text
    assert "- \\[1\\] hours.pdf, page 3" in text
    assert "At eight." not in text


def test_both_sides_of_a_comparison_are_shown(cast: Cast) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    with tenant_scope(cast.acme.id):
        answers = Message.objects.filter(conversation=conversation, role=MessageRole.ANSWER)
        answers.update(comparison=uuid.uuid4())
    text = signed_in(cast.bob).get(address(conversation, "markdown")).content.decode()
    assert "At eight." in text
    assert "It opens at nine." in text


def test_an_answer_whose_process_died_is_marked(cast: Cast) -> None:
    conversation = make_conversation(cast.acme, cast.bob)
    with tenant_scope(cast.acme.id):
        long_ago = timezone.now() - timedelta(hours=2)
        Message.objects.filter(conversation=conversation, text=TEXT).update(
            state=MessageState.STREAMING, created_at=long_ago
        )
        Message.objects.filter(conversation=conversation, text="At eight.").delete()
    text = signed_in(cast.bob).get(address(conversation, "markdown")).content.decode()
    assert "This answer broke off." in text


def test_what_cannot_be_made_is_said_on_the_conversations_page(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(material: Material) -> bytes:
        raise ExportRefused("Export it as Markdown instead.")

    monkeypatch.setattr(EXPORTERS["pdf"], "export", refuse)
    conversation = make_conversation(cast.acme, cast.bob)
    response = signed_in(cast.bob).get(address(conversation, "pdf"), follow=True)
    assert response.redirect_chain[0][0].endswith(f"/chat/{conversation.id}/")
    assert "Export it as Markdown instead." in response.content.decode()


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Opening hours", "Opening hours"),
        ("ساعات العمل", "ساعات العمل"),
        ("図書館の時間", "図書館の時間"),
        ("../../etc/passwd", "etc passwd"),
        ('a"b\r\nSet-Cookie: x=1; filename="evil.exe', "a b Set-Cookie x=1; filename= evil.exe"),
        ("CON: a|b?*<>", "CON a b"),
        ("\u202egnp.exe", "gnp.exe"),
        ("  ...  ", "conversation"),
        ("", "conversation"),
        ("-rf ~", "rf"),
        ("a\x00b\u200bc", "abc"),
    ],
)
def test_a_name_is_the_title_without_what_could_harm(title: str, name: str) -> None:
    assert file_name(title, otherwise="conversation") == name


@pytest.mark.parametrize(
    "title", ["Ärger mit Öl", "図書館", 'x"; filename="y', "100 % of; it", "𝕏"]
)
def test_the_header_is_one_line_and_says_the_name_twice(title: str) -> None:
    header = disposition(title, suffix="md", otherwise="conversation")
    found = re.fullmatch(
        r"attachment; filename=\"([A-Za-z0-9 ._-]+\.md)\"; filename\*=UTF-8''([A-Za-z0-9%._~-]+)",
        header,
    )
    assert found
    assert unquote(found[2]) == f"{file_name(title, otherwise='conversation')}.md"


def test_a_very_long_name_is_cut_between_letters() -> None:
    name = file_name("図" * 500, otherwise="conversation")
    assert name == "図" * 40
