"""Conversations shown to other members: what of them, to whom, and until when."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.utils import timezone

from apps.chat import services
from apps.chat.errors import UnknownConversation, UnknownMessage
from apps.chat.models import Citation, Conversation, Message, MessageRole, Share
from apps.chat.selectors.shares import get_share, shared_thread, shares_of
from apps.documents.models import Collection, CollectionReader
from apps.telemetry.models import AuditEvent
from apps.tenants.models import Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, make_user, signed_in
from tests.chat.test_conversations import HOSTILE, access_of, converse
from tests.chat.test_views import PASSAGE, address, make_answer, make_document

pytestmark = pytest.mark.django_db

NAME = "secret-plan.md"


def share(cast: Cast, cited: Citation) -> Share:
    return services.share_conversation(
        access=access_of(cast.bob, cast.acme), conversation_id=cited.message.conversation_id
    )


def go_on(cited: Citation, question: str, answer: str, **fields: Any) -> Message:
    """Another exchange after the one that `cited` belongs to."""
    tenant, conversation = cited.tenant, cited.message.conversation
    with tenant_scope(tenant.id):
        asked = Message.objects.create(
            tenant=tenant,
            conversation=conversation,
            role=MessageRole.QUESTION,
            text=question,
            in_reply_to=cited.message_id,
        )
        return Message.objects.create(
            tenant=tenant,
            conversation=conversation,
            role=MessageRole.ANSWER,
            text=answer,
            kind="generated",
            in_reply_to=asked.id,
            finished_at=timezone.now(),
            **fields,
        )


def close(cited: Citation) -> None:
    """The collection of its document is open to nobody in particular any more."""
    with tenant_scope(cited.tenant_id):
        assert cited.document is not None
        Collection.objects.filter(id=cited.document.collection_id).update(open_to_all=False)


@pytest.fixture
def cited(cast: Cast) -> Citation:
    """Bob's conversation, about a document that is open to everyone."""
    return make_answer(cast.acme, cast.bob, make_document(cast.acme, name=NAME))


@pytest.fixture
def rita(cast: Cast) -> User:
    """Another member."""
    return add_member(cast.acme, "rita")


def add_member(tenant: Tenant, name: str) -> User:
    user = make_user(name)
    Membership.objects.create(tenant=tenant, user=user, role=Role.MEMBER)
    return user


class TestSharing:
    def test_a_member_reads_what_was_shared(self, cast: Cast, cited: Citation, rita: User) -> None:
        found = share(cast, cited)
        page = signed_in(rita).get(address("shared", found.id)).content.decode()
        assert "How much leave?" in page
        assert "25 days" in page
        assert "Shared by bob" in page
        assert address("shared_citation", found.id, cited.id) in page
        # Nothing of it leads to what is the owner's alone.
        for name, key in (("citation", cited.id), ("details", cited.message_id)):
            assert address(name, key) not in page
        assert address("feedback", cited.message_id) not in page
        opened = signed_in(rita).get(address("shared_citation", found.id, cited.id))
        assert PASSAGE in opened.content.decode()

    def test_what_comes_later_is_not_shown_until_the_link_is_updated(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        found, bob = share(cast, cited), signed_in(cast.bob)
        dialog = address("share", cited.message.conversation_id)
        assert "Update the link" not in bob.get(dialog).content.decode()
        go_on(cited, "And sick leave?", "As long as it takes.")
        reader = signed_in(rita)
        assert "sick leave" not in reader.get(address("shared", found.id)).content.decode()
        assert "Update the link" in bob.get(dialog).content.decode()
        assert "Update the link" not in bob.post(dialog).content.decode()
        assert "sick leave" in reader.get(address("shared", found.id)).content.decode()
        with tenant_scope(cast.acme.id):
            assert Share.objects.count() == 1  # the address is the same

    def test_other_branches_are_not_shown(self, cast: Cast, cited: Citation, rita: User) -> None:
        go_on(cited, "The embarrassing question?", "No.")
        shown = go_on(cited, "The good question?", "Yes.")
        with tenant_scope(cast.acme.id):
            Conversation.objects.update(leaf_id=shown.id)
        page = signed_in(rita).get(address("shared", share(cast, cited).id)).content.decode()
        assert "The good question?" in page
        assert "embarrassing" not in page

    def test_both_sides_of_a_comparison_are_shown(self, cast: Cast, cited: Citation) -> None:
        pair = uuid.uuid4()
        last = go_on(cited, "Which?", "The left one.", comparison=pair)
        with tenant_scope(cast.acme.id):
            last.pk = uuid.uuid4()
            last.text = "The right one."
            last.save(force_insert=True)
        found = share(cast, cited)
        with tenant_scope(cast.acme.id):
            texts = [
                view.message.text for view in shared_thread(access_of(cast.bob, cast.acme), found)
            ]
        assert {"The left one.", "The right one."} <= set(texts)

    def test_nothing_asked_is_nothing_to_share(self, cast: Cast) -> None:
        made = converse(cast.acme, cast.bob)
        access = access_of(cast.bob, cast.acme)
        with pytest.raises(UnknownMessage):
            services.share_conversation(access=access, conversation_id=made.id)
        client = signed_in(cast.bob)
        assert "nothing to share yet" in client.get(address("share", made.id)).content.decode()
        assert client.post(address("share", made.id)).status_code == 400

    def test_only_the_owner_shares(self, cast: Cast, cited: Citation) -> None:
        key = cited.message.conversation_id
        for user in (cast.alice, cast.carl, cast.mallory):
            for method in ("get", "post"):
                response = getattr(signed_in(user), method)(address("share", key))
                assert response.status_code == 404
        with pytest.raises(UnknownConversation):
            services.share_conversation(
                access=access_of(cast.alice, cast.acme), conversation_id=key
            )

    def test_it_is_written_down(self, cast: Cast, cited: Citation) -> None:
        found = share(cast, cited)
        share(cast, cited)  # nothing new: nothing to note
        services.revoke_share(access=access_of(cast.bob, cast.acme), share_id=found.id)
        events = AuditEvent.objects.filter(subject_id=str(cited.message.conversation_id))
        assert sorted(events.values_list("action", "actor_id")) == [
            ("conversation.shared", cast.bob.id),
            ("conversation.unshared", cast.bob.id),
        ]

    def test_hostile_text_is_shown_and_not_run(self, cast: Cast, rita: User) -> None:
        document = make_document(cast.acme, name=HOSTILE)
        made = make_answer(cast.acme, cast.bob, document, question=HOSTILE, text=HOSTILE)
        found = share(cast, made)
        for url in (address("shared", found.id), address("shared_citation", found.id, made.id)):
            page = signed_in(rita).get(url).content.decode()
            assert "<script>alert" not in page
            assert not re.search(r"<script(?![^>]*\ssrc=)", page)
            assert not re.search(r"\s(style|on\w+)=", page)


class TestWhoMayRead:
    @pytest.mark.parametrize("name", ["shared", "shared_citation"])
    def test_nobody_of_another_tenant(self, cast: Cast, cited: Citation, name: str) -> None:
        found = share(cast, cited)
        keys = [found.id, cited.id][: 1 if name == "shared" else 2]
        for user, slug in ((cast.mallory, "acme"), (cast.mallory, "rival"), (cast.olga, "acme")):
            assert signed_in(user).get(address(name, *keys, slug=slug)).status_code == 404
        assert signed_in(None).get(address(name, *keys)).status_code == 302

    def test_operations_with_a_grant_do_not_chat(self, cast: Cast, cited: Citation) -> None:
        cast.acme.ops_may_read_text = True
        cast.acme.save()
        found = share(cast, cited)
        assert signed_in(cast.olga).get(address("shared", found.id)).status_code == 403

    def test_nobody_once_it_is_revoked(self, cast: Cast, cited: Citation, rita: User) -> None:
        found, reader, bob = share(cast, cited), signed_in(rita), signed_in(cast.bob)
        assert reader.get(address("shared", found.id)).status_code == 200
        assert reader.post(address("revoke_share", found.id)).status_code == 404
        assert bob.post(address("revoke_share", found.id)).status_code == 302
        for client in (reader, bob):
            assert client.get(address("shared", found.id)).status_code == 404
            cite = address("shared_citation", found.id, cited.id)
            assert client.get(cite).status_code == 404
        assert bob.post(address("revoke_share", found.id)).status_code == 404
        # Shared once more, it has another address.
        assert share(cast, cited).id != found.id

    def test_nobody_while_the_conversation_is_deleted(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        found, reader = share(cast, cited), signed_in(rita)
        bob, key = access_of(cast.bob, cast.acme), cited.message.conversation_id
        services.delete_conversation(access=bob, conversation_id=key)
        assert reader.get(address("shared", found.id)).status_code == 404
        with tenant_scope(cast.acme.id):
            assert not shares_of(bob)
        services.restore_conversation(access=bob, conversation_id=key)
        assert reader.get(address("shared", found.id)).status_code == 200

    def test_nobody_once_its_owner_has_left(self, cast: Cast, cited: Citation, rita: User) -> None:
        found = share(cast, cited)
        Membership.objects.filter(tenant=cast.acme, user=cast.bob).delete()
        assert signed_in(rita).get(address("shared", found.id)).status_code == 404

    def test_ones_own_shares_are_listed_and_no_others(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        found = share(cast, cited)
        assert address("shared", found.id) in (
            signed_in(cast.bob).get(address("shares")).content.decode()
        )
        assert "You share nothing" in signed_in(rita).get(address("shares")).content.decode()

    def test_a_citation_of_another_message_is_not_opened(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        """Neither one of a branch that is not shared nor one of another conversation."""
        found = share(cast, cited)
        other = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        later = go_on(cited, "More?", "More.")
        with tenant_scope(cast.acme.id):
            other_branch = Citation.objects.get(id=cited.id)
            other_branch.pk, other_branch.message = uuid.uuid4(), later
            other_branch.save(force_insert=True)
        for key in (other.id, other_branch.id, uuid.uuid4()):
            url = address("shared_citation", found.id, key)
            assert signed_in(rita).get(url).status_code == 404


class TestSourcesUnderTheirOwnRights:
    def test_a_closed_one_has_neither_name_nor_text(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        found = share(cast, cited)
        close(cited)
        reader = signed_in(rita)
        for url in (address("shared", found.id), address("shared_citation", found.id, cited.id)):
            for headers in ({}, {"HX-Request": "true"}):
                page = reader.get(url, headers=headers).content.decode()
                assert "not open to you" in page
                for kept_back in (NAME, PASSAGE, "Leave", str(cited.document_id)):
                    assert kept_back not in page.replace("How much leave?", ""), kept_back

    def test_who_may_read_the_collection_still_opens_it(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        found = share(cast, cited)
        close(cited)
        with tenant_scope(cast.acme.id):
            assert cited.document is not None
            CollectionReader.objects.create(
                tenant=cast.acme, collection_id=cited.document.collection_id, user=rita
            )
        reader = signed_in(rita)
        assert NAME in reader.get(address("shared", found.id)).content.decode()
        opened = reader.get(address("shared_citation", found.id, cited.id)).content.decode()
        assert PASSAGE in opened

    def test_one_that_was_deleted_has_no_name(
        self, cast: Cast, cited: Citation, rita: User
    ) -> None:
        found = share(cast, cited)
        with tenant_scope(cast.acme.id):
            assert cited.document is not None
            cited.document.delete()
        for url in (address("shared", found.id), address("shared_citation", found.id, cited.id)):
            assert NAME not in signed_in(rita).get(url).content.decode()

    def test_a_quoted_answer_is_as_closed_as_its_documents(self, cast: Cast, rita: User) -> None:
        made = make_answer(
            cast.acme, cast.bob, make_document(cast.acme), kind="quoted", text=f"> {PASSAGE} [1]"
        )
        found, reader = share(cast, made), signed_in(rita)
        assert "25 days of leave" in reader.get(address("shared", found.id)).content.decode()
        close(made)
        page = reader.get(address("shared", found.id)).content.decode()
        assert "25 days of leave" not in page
        assert "so it is not shown" in page

    def test_nearest_passages_that_are_closed_are_not_listed(self, cast: Cast, rita: User) -> None:
        made = make_answer(
            cast.acme,
            cast.bob,
            make_document(cast.acme, name=NAME, open_to_all=False),
            kind="not_found",
            text="Nothing found.",
        )
        page = signed_in(rita).get(address("shared", share(cast, made).id)).content.decode()
        assert NAME not in page
        assert "Nearest passages" not in page


def test_a_long_thread_takes_few_queries(
    cast: Cast, cited: Citation, django_assert_max_num_queries: Any
) -> None:
    for _ in range(20):
        go_on(cited, "And?", "So.")
    access, found = access_of(cast.bob, cast.acme), share(cast, cited)
    with tenant_scope(cast.acme.id), django_assert_max_num_queries(6):
        opened = get_share(access, found.id)
        assert opened is not None
        shared_thread(access, opened)
