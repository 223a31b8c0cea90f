"""Questions and answers stored as branches, and the addresses that show them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.chat.errors import UnknownConversation, UnknownMessage
from apps.chat.models import Message
from apps.chat.services import restart_answer, show_branch
from apps.gateway.calling import catalogue
from apps.gateway.service import available_models
from apps.gateway.types import Model
from apps.tenants.access import Access, find_access
from apps.tenants.aio import in_scope, in_thread
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.chat.asking import access_of, asked, begin, given, read
from tests.chat.library import SUPPORTED, Library, open_library
from tests.contract.tgi import Behaviour
from tests.world import furnish

FIRST = "How many days of paid leave do employees receive?"


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=tuple(f"{word} " for word in SUPPORTED.split()))
        yield opened


@pytest.mark.django_db(transaction=True)
class TestAsking:
    async def test_a_question_after_an_earlier_answer_sees_that_branch_alone(
        self, cast: Cast, library: Library
    ) -> None:
        access = await access_of(cast.bob)
        first = await asked(access, library)
        other = await asked(access, library, question="When does the canteen open?", **first.place)
        edited = await asked(access, library, question="When is lunch served?", **first.place)
        assert [turn.content for turn in edited.started.request.history] == [
            FIRST,
            first.message.text,
        ]
        assert [each.question for each in edited.started.request.before] == [FIRST]
        assert edited.started.after == other.started.after == first.message.id

    async def test_the_new_answer_is_the_one_that_is_shown(
        self, cast: Cast, library: Library
    ) -> None:
        access = await access_of(cast.bob)
        first = await asked(access, library)
        assert first.message.conversation.leaf_id == first.message.id
        again = await in_thread(
            restart_answer, access=access, answer_id=first.message.id, model_alias=""
        )
        made = await given(access, again)
        assert made.message.conversation.leaf_id == made.message.id
        assert made.message.in_reply_to == first.message.in_reply_to

    async def test_what_a_question_follows_must_be_an_answer_of_its_conversation(
        self, cast: Cast, library: Library
    ) -> None:
        access = await access_of(cast.bob)
        first, other = await asked(access, library), await asked(access, library)
        conversation = first.started.conversation_id
        for after in (other.message.id, first.started.question_id, uuid.uuid4()):
            with pytest.raises(UnknownMessage):
                await begin(access, library, conversation_id=conversation, after=after)
        with pytest.raises(UnknownMessage):
            await begin(access, library, after=first.message.id)

        def count() -> int:
            return Message.objects.count()

        assert await in_scope(cast.acme.id, count) == 4

    async def test_two_models_answer_one_question_side_by_side(
        self, cast: Cast, library: Library, settings: Settings
    ) -> None:
        settings.OPENAI_URL = f"{library.tgi.url}/v1"
        access = await access_of(cast.bob)
        models = [model.alias for model in await in_thread(_models)]
        assert len(models) == 2
        one, two = await begin(access, library, model_aliases=models)
        assert one.comparison == two.comparison is not None
        assert (one.question_id, one.model, two.model) == (two.question_id, *models)
        assert (await read(access, one.answer_id)).conversation.leaf_id == one.answer_id

    async def test_a_model_that_is_named_twice_answers_once(
        self, cast: Cast, library: Library
    ) -> None:
        access = await access_of(cast.bob)
        (only,) = await begin(access, library, model_aliases=["tgi", "", "tgi"])
        assert only.comparison is None


def _models() -> list[Model]:
    catalogue.forget()
    return available_models()


@pytest.mark.django_db
class TestShowing:
    def test_showing_a_branch_needs_a_message_of_ones_own_conversation(self, cast: Cast) -> None:
        own = furnish(cast.acme, manager=cast.alice, member=cast.bob)
        access, carl = (_access(cast, name) for name in ("bob", "carl"))
        conversation: uuid.UUID = own["conversation_id"]  # type: ignore[assignment]
        with pytest.raises(UnknownMessage):
            show_branch(access=access, conversation_id=conversation, message_id=uuid.uuid4())
        with pytest.raises(UnknownConversation):
            show_branch(
                access=carl,
                conversation_id=conversation,
                message_id=own["message_id"],  # type: ignore[arg-type]
            )

    def test_the_thread_comes_back_with_the_branch_and_stays_so(self, cast: Cast) -> None:
        own = furnish(cast.acme, manager=cast.alice, member=cast.bob)
        with tenant_scope(cast.acme.id):
            old = Message.objects.get(id=str(own["answer_id"]))
            new = Message.objects.create(
                tenant=cast.acme,
                conversation=old.conversation,
                role="answer",
                text="Another.",
                in_reply_to=old.in_reply_to,
            )
        browser = signed_in(cast.bob)
        thread = reverse("chat:thread", args=["acme", own["conversation_id"]])
        assert f"answer-{new.id}" in browser.get(thread).content.decode()
        for message in (old, new):
            for shown in (
                self.show(browser, own, message.id),
                browser.get(thread).content.decode(),
            ):
                assert f'id="answer-{message.id}"' in shown
                assert f'data-siblings="{old.id} {new.id}"' in shown

    def test_what_is_no_message_is_not_found(self, cast: Cast) -> None:
        own = furnish(cast.acme, manager=cast.alice, member=cast.bob)
        url = reverse("chat:branch", args=["acme", own["conversation_id"]])
        for message, status in (("", 400), ("x", 400), (str(uuid.uuid4()), 404)):
            assert signed_in(cast.bob).post(url, {"message": message}).status_code == status

    def test_one_answer_is_shown_as_it_is_stored(self, cast: Cast) -> None:
        own = furnish(cast.acme, manager=cast.alice, member=cast.bob)
        url = reverse("chat:answer", args=["acme", own["answer_id"]])
        page = signed_in(cast.bob).get(url)
        assert f'id="answer-{own["answer_id"]}"' in page.content.decode()
        assert signed_in(cast.carl).get(url).status_code == 404

    def show(self, browser: Client, own: dict[str, object], message: uuid.UUID) -> str:
        url = reverse("chat:branch", args=["acme", own["conversation_id"]])
        return browser.post(url, {"message": str(message)}).content.decode()


def _access(cast: Cast, name: str) -> Access:
    found = find_access(getattr(cast, name), slug="acme")
    assert found is not None
    return found
