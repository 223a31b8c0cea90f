"""The list of one's own conversations: in order, filed, archived, deleted, brought back."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.chat import services
from apps.chat.errors import NameTaken, UnknownConversation, UnknownFolder
from apps.chat.models import Conversation, Folder, Message, TitleBy
from apps.chat.selectors import conversations_of, feedback_to_review, get_answer
from apps.chat.selectors.listing import PAGE, Cursor, Listing, list_conversations, next_page
from apps.chat.services.deleting import UNDO
from apps.chat.streams.keys import user_channel
from apps.evals.gate import _recent_questions
from apps.telemetry.models import AuditEvent
from apps.tenants.access import Access, find_access
from apps.tenants.models import Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, make_user, signed_in
from tests.chat.test_views import address, make_answer, make_document

pytestmark = pytest.mark.django_db

HOSTILE = '"><script>alert(1)</script>'


def access_of(user: User, tenant: Tenant) -> Access:
    access = find_access(user, slug=tenant.slug)
    assert access is not None
    return access


def converse(
    tenant: Tenant, user: User, title: str = "Leave", *, ago: timedelta = timedelta(), **fields: Any
) -> Conversation:
    """A conversation whose last question was asked `ago`."""
    with tenant_scope(tenant.id):
        made = Conversation.objects.create(tenant=tenant, user=user, title=title, **fields)
        at = timezone.now() - ago
        Conversation.objects.filter(id=made.id).update(updated_at=at)
        made.refresh_from_db()
    return made


def listed(access: Access, **asked: Any) -> Listing:
    with tenant_scope(access.tenant.id):
        return list_conversations(access, **asked)


def titles(listing: Listing) -> list[str]:
    return [each.title for section in listing.page.sections for each in section.conversations]


def again(conversation: Conversation) -> Conversation:
    with tenant_scope(conversation.tenant_id):
        return Conversation.objects.get(id=conversation.id)


@pytest.fixture
def bob(cast: Cast) -> Access:
    return access_of(cast.bob, cast.acme)


class TestTheList:
    def test_conversations_stand_below_when_they_were(self, cast: Cast, bob: Access) -> None:
        for title, days in (("now", 0), ("day", 1), ("days", 4), ("old", 40), ("older", 400)):
            converse(cast.acme, cast.bob, title, ago=timedelta(days=days))
        sections = listed(bob).page.sections
        assert [[each.title for each in s.conversations] for s in sections] == [
            *(["now"], ["day"], ["days"], ["old"], ["older"])
        ]
        assert [s.title for s in sections[:3]] == ["Today", "Yesterday", "Last 7 days"]
        month = timezone.now() - timedelta(days=40)
        assert sections[3].title == f"{month:%B %Y}"

    def test_a_day_begins_where_the_tenant_is(
        self, cast: Cast, bob: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At 23:30 UTC it is 13:30 in Kiritimati, and 9:00 UTC was the evening before."""
        now = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
        monkeypatch.setattr(timezone, "now", lambda: now)
        converse(cast.acme, cast.bob, ago=timedelta(hours=14, minutes=30))
        assert listed(bob).page.sections[0].key == "today"
        Tenant.objects.filter(id=cast.acme.id).update(time_zone="Pacific/Kiritimati")
        moved = access_of(cast.bob, cast.acme)
        assert listed(moved).page.sections[0].key == "yesterday"

    def test_pinned_ones_come_first_and_only_there(self, cast: Cast, bob: Access) -> None:
        pinned = converse(cast.acme, cast.bob, "pinned")
        converse(cast.acme, cast.bob, "other")
        services.pin_conversation(access=bob, conversation_id=pinned.id, pinned=True)
        listing = listed(bob)
        assert [each.title for each in listing.pinned] == ["pinned"]
        assert titles(listing) == ["other"]
        services.pin_conversation(access=bob, conversation_id=pinned.id, pinned=False)
        assert sorted(titles(listed(bob))) == ["other", "pinned"]

    def test_archived_ones_are_in_the_archive_and_come_back(self, cast: Cast, bob: Access) -> None:
        made = converse(cast.acme, cast.bob)
        services.archive_conversation(access=bob, conversation_id=made.id, archived=True)
        listing = listed(bob)
        assert titles(listing) == []
        assert listing.archived_count == 1
        assert not listing.is_empty
        assert titles(listed(bob, archive=True)) == ["Leave"]
        services.archive_conversation(access=bob, conversation_id=made.id, archived=False)
        assert titles(listed(bob)) == ["Leave"]

    def test_all_of_a_long_history_is_reached_page_by_page(self, cast: Cast, bob: Access) -> None:
        """More than 200, some at the same moment: none is left out, none comes twice."""
        at = timezone.now()
        with tenant_scope(cast.acme.id):
            Conversation.objects.bulk_create(
                Conversation(tenant=cast.acme, user=cast.bob, title=str(n)) for n in range(260)
            )
            Conversation.objects.filter(title__endswith="7").update(updated_at=at)
        with tenant_scope(cast.acme.id):
            page = list_conversations(bob).page
            seen = [each.title for s in page.sections for each in s.conversations]
            while page.after:
                page = next_page(bob, Cursor.parse(str(page.after)))
                assert page.continues == "today"
                seen += [each.title for s in page.sections for each in s.conversations]
        assert len(seen) == 260
        assert len(set(seen)) == 260

    def test_a_list_fetched_anew_is_as_long_as_it_was(self, cast: Cast, bob: Access) -> None:
        with tenant_scope(cast.acme.id):
            Conversation.objects.bulk_create(
                Conversation(tenant=cast.acme, user=cast.bob, title=str(n)) for n in range(150)
            )
        assert len(titles(listed(bob))) == PAGE
        assert len(titles(listed(bob, at_least=120))) == 120
        page = signed_in(cast.bob).get(address("conversation_list"), {"shown": "120"})
        assert page.content.decode().count('data-conversation="') == 120

    @pytest.mark.parametrize("shown", ["", "-5", "x", "9" * 5000, "१२", "\x00"])
    def test_a_nonsense_length_is_the_first_page(self, cast: Cast, shown: str) -> None:
        response = signed_in(cast.bob).get(address("conversation_list"), {"shown": shown})
        assert response.status_code == 200

    @pytest.mark.parametrize(
        "after", ["", "~", "x~y", "2026-01-01~" + "0" * 32, "\x00", "~" * 9999]
    )
    def test_a_nonsense_cursor_is_the_first_page(self, cast: Cast, after: str) -> None:
        converse(cast.acme, cast.bob)
        response = signed_in(cast.bob).get(address("more"), {"after": after})
        assert "Leave" in response.content.decode()

    def test_nobody_elses_are_in_it(self, cast: Cast, bob: Access) -> None:
        for user in (cast.alice, cast.carl):
            converse(cast.acme, user, "theirs")
        assert listed(bob).is_empty
        page = signed_in(cast.bob).get(address("home")).content.decode()
        assert "Only you can see them." in page

    def test_hostile_titles_and_names_are_shown_and_not_run(self, cast: Cast, bob: Access) -> None:
        converse(cast.acme, cast.bob, HOSTILE)
        services.create_folder(access=bob, name=HOSTILE)
        page = signed_in(cast.bob).get(address("home")).content.decode()
        assert "<script>alert" not in page
        assert not re.search(r"\s(style|on\w+)=", page)


class TestFolders:
    def test_a_conversation_moves_in_and_out(self, cast: Cast, bob: Access) -> None:
        made = converse(cast.acme, cast.bob)
        folder = services.create_folder(access=bob, name="  Work \x00\n trips ")
        assert folder.name == "Work trips"
        services.move_conversation(access=bob, conversation_id=made.id, folder_id=folder.id)
        (view,) = listed(bob).folders
        assert (view.count, view.conversations) == (1, ())
        (view,) = listed(bob, open_folders=[str(folder.id)]).folders
        assert [each.title for each in view.conversations] == ["Leave"]
        assert titles(listed(bob)) == []
        services.move_conversation(access=bob, conversation_id=made.id, folder_id=None)
        assert titles(listed(bob)) == ["Leave"]

    def test_a_deleted_folder_leaves_its_conversations(self, cast: Cast, bob: Access) -> None:
        folder = services.create_folder(access=bob, name="Work")
        made = converse(cast.acme, cast.bob, folder=folder)
        services.delete_folder(access=bob, folder_id=folder.id)
        assert again(made).folder_id is None
        assert titles(listed(bob)) == ["Leave"]

    def test_two_of_a_name_are_refused_in_words(self, cast: Cast, bob: Access) -> None:
        services.create_folder(access=bob, name="Work")
        other = services.create_folder(access=bob, name="Play")
        with pytest.raises(NameTaken, match="called “Work” already"):
            services.create_folder(access=bob, name=" Work ")
        with pytest.raises(NameTaken):
            services.rename_folder(access=bob, folder_id=other.id, name="Work")
        client = signed_in(cast.bob)
        response = client.post(address("create_folder"), {"name": "Work"})
        assert response.status_code == 400
        assert "already" in response.content.decode()
        # Another's folder of that name is nobody's business.
        services.create_folder(access=access_of(cast.carl, cast.acme), name="Work")

    @pytest.mark.parametrize("name", ["", "  ", "\x00\x00", "\n"])
    def test_a_folder_needs_a_name(self, bob: Access, name: str) -> None:
        with pytest.raises(NameTaken):
            services.create_folder(access=bob, name=name)

    def test_a_long_name_is_cut(self, bob: Access) -> None:
        assert len(services.create_folder(access=bob, name="x" * 10_000).name) == 60

    def test_anothers_folder_is_unknown(self, cast: Cast, bob: Access) -> None:
        theirs = services.create_folder(access=access_of(cast.carl, cast.acme), name="Theirs")
        made = converse(cast.acme, cast.bob)
        with pytest.raises(UnknownFolder):
            services.move_conversation(access=bob, conversation_id=made.id, folder_id=theirs.id)
        with pytest.raises(UnknownFolder):
            services.delete_folder(access=bob, folder_id=theirs.id)
        client = signed_in(cast.bob)
        for name in ("rename_folder", "delete_folder"):
            assert client.post(address(name, theirs.id), {"name": "x"}).status_code == 404
        moved = client.post(address("move", made.id), {"folder": str(theirs.id)})
        assert moved.status_code == 400
        with tenant_scope(cast.acme.id):
            assert Folder.objects.get(id=theirs.id).name == "Theirs"

    def test_the_current_conversations_folder_is_open_on_its_page(
        self, cast: Cast, bob: Access
    ) -> None:
        folder = services.create_folder(access=bob, name="Work")
        made = converse(cast.acme, cast.bob, folder=folder)
        client = signed_in(cast.bob)
        assert "<details open>" in client.get(address("conversation", made.id)).content.decode()
        assert "<details open>" not in client.get(address("home")).content.decode()
        client.cookies["chat_folders"] = f"{folder.id}.{uuid.uuid4()}.nonsense"
        assert "<details open>" in client.get(address("home")).content.decode()


class TestRenaming:
    def test_a_persons_title_stays(self, cast: Cast, bob: Access) -> None:
        made = converse(cast.acme, cast.bob)
        services.rename_conversation(access=bob, conversation_id=made.id, title=" Days \x00 off ")
        found = again(made)
        assert (found.title, found.title_by) == ("Days off", TitleBy.PERSON)

    def test_an_empty_title_is_ignored(self, cast: Cast, bob: Access) -> None:
        made = converse(cast.acme, cast.bob)
        kept = services.rename_conversation(access=bob, conversation_id=made.id, title=" \x00 ")
        assert kept == "Leave"
        assert again(made).title_by == TitleBy.RULE

    def test_its_place_in_the_list_stays(self, cast: Cast, bob: Access) -> None:
        """Renamed, pinned, filed and archived are not asked again."""
        made = converse(cast.acme, cast.bob, ago=timedelta(days=3))
        folder = services.create_folder(access=bob, name="Work")
        services.rename_conversation(access=bob, conversation_id=made.id, title="x")
        services.pin_conversation(access=bob, conversation_id=made.id, pinned=True)
        services.archive_conversation(access=bob, conversation_id=made.id, archived=True)
        services.move_conversation(access=bob, conversation_id=made.id, folder_id=folder.id)
        assert again(made).updated_at == made.updated_at


class TestDeleting:
    def test_it_is_gone_from_everywhere_at_once(self, cast: Cast, bob: Access) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        conversation_id = cited.message.conversation_id
        client = signed_in(cast.bob)
        client.post(address("feedback", cited.message_id), {"thumb": "1"})
        share = services.share_conversation(access=bob, conversation_id=conversation_id)
        with tenant_scope(cast.acme.id):
            assert list(feedback_to_review(cast.acme.id))
        services.delete_conversation(access=bob, conversation_id=conversation_id)
        for name, key in (
            ("conversation", conversation_id),
            ("thread", conversation_id),
            ("share", conversation_id),
            ("citation", cited.id),
            ("shared", share.id),
        ):
            assert client.get(address(name, key)).status_code == 404, name
        for name in ("rename", "pin", "archive", "move", "delete"):
            assert client.post(address(name, conversation_id)).status_code == 404, name
        with tenant_scope(cast.acme.id):
            assert get_answer(bob, cited.message_id) is None
            assert not list(feedback_to_review(cast.acme.id))
        assert "How much leave?" not in client.get(address("home")).content.decode()
        assert "How much leave?" not in client.get(address("search")).content.decode()
        found = client.get(address("search"), {"q": "leave"}).content.decode()
        assert str(conversation_id) not in found

    def test_reviewers_do_not_see_it_either(self, cast: Cast, bob: Access) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        signed_in(cast.bob).post(address("feedback", cited.message_id), {"thumb": "-1"})
        carl = signed_in(cast.carl)
        listing = reverse("evals:proposals", args=["acme"])
        before = carl.get(listing)
        assert before.status_code == 200
        assert "How much leave?" in before.content.decode()
        services.delete_conversation(access=bob, conversation_id=cited.message.conversation_id)
        assert "How much leave?" not in carl.get(listing).content.decode()

    def test_it_is_not_asked_again_to_compare_indexes(self, cast: Cast, bob: Access) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        assert _recent_questions(cast.acme.id) == ["How much leave?"]
        services.delete_conversation(access=bob, conversation_id=cited.message.conversation_id)
        assert _recent_questions(cast.acme.id) == []

    def test_nor_is_it_exported(self, cast: Cast, bob: Access) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        url, client = address("export", cited.message.conversation_id, "json"), signed_in(cast.bob)
        assert client.get(url).status_code == 200
        services.delete_conversation(access=bob, conversation_id=cited.message.conversation_id)
        assert client.get(url).status_code == 404

    def test_undo_brings_it_back_as_it_was(self, cast: Cast, bob: Access) -> None:
        folder = services.create_folder(access=bob, name="Work")
        made = converse(cast.acme, cast.bob, folder=folder, pinned_at=timezone.now())
        services.delete_conversation(access=bob, conversation_id=made.id)
        services.restore_conversation(access=bob, conversation_id=made.id)
        found = again(made)
        assert (found.deleted_at, found.folder_id, found.pinned_at, found.updated_at) == (
            *(None, folder.id, made.pinned_at, made.updated_at),
        )
        services.restore_conversation(access=bob, conversation_id=made.id)  # again is no harm

    def test_when_the_time_is_over_it_is_purged_and_cannot_come_back(
        self, cast: Cast, bob: Access
    ) -> None:
        cited = make_answer(cast.acme, cast.bob, make_document(cast.acme))
        gone = cited.message.conversation
        kept = converse(cast.acme, cast.bob, "kept")
        recent = converse(cast.acme, cast.bob, "recent")
        rivals = converse(cast.rival, cast.mallory, "rivals")
        now = timezone.now()
        for each, ago in ((gone, UNDO), (recent, timedelta()), (rivals, UNDO * 2)):
            with tenant_scope(each.tenant_id):
                Conversation.objects.filter(id=each.id).update(deleted_at=now - ago)
        with pytest.raises(UnknownConversation):
            services.restore_conversation(access=bob, conversation_id=gone.id)
        assert services.purge_deleted() == 2
        assert services.purge_deleted() == 0
        with tenant_scope(cast.acme.id):
            assert set(Conversation.objects.values_list("id", flat=True)) == {kept.id, recent.id}
            assert not Message.objects.filter(conversation_id=gone.id).exists()
        with tenant_scope(cast.rival.id):
            assert not Conversation.objects.exists()

    def test_more_than_a_slice_is_purged(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            Conversation.objects.bulk_create(
                Conversation(tenant=cast.acme, user=cast.bob, deleted_at=timezone.now() - UNDO)
                for _ in range(250)
            )
        assert services.purge_deleted() == 250

    def test_it_is_written_down_who_deleted_and_restored(self, cast: Cast, bob: Access) -> None:
        made = converse(cast.acme, cast.bob)
        services.delete_conversation(access=bob, conversation_id=made.id)
        services.restore_conversation(access=bob, conversation_id=made.id)
        actions = AuditEvent.objects.filter(subject_id=str(made.id))
        assert sorted(actions.values_list("action", "actor_id")) == [
            ("conversation.deleted", cast.bob.id),
            ("conversation.restored", cast.bob.id),
        ]


@pytest.mark.parametrize("name", ["rename", "pin", "archive", "move", "delete", "restore"])
class TestRights:
    def test_nobody_else_touches_a_conversation(self, cast: Cast, name: str) -> None:
        made = converse(cast.acme, cast.bob)
        values = {"title": "mine", "pinned": "1", "archived": "1"}
        for user, slug in ((cast.alice, "acme"), (cast.mallory, "acme"), (cast.mallory, "rival")):
            url = address(name, made.id, slug=slug)
            assert signed_in(user).post(url, values).status_code == 404
        found = again(made)
        assert (found.title, found.pinned_at, found.archived_at, found.deleted_at) == (
            *("Leave", None, None, None),
        )

    def test_its_owner_does(self, cast: Cast, name: str) -> None:
        made = converse(cast.acme, cast.bob)
        client = signed_in(cast.bob)
        assert client.get(address(name, made.id)).status_code == 405
        assert client.post(address(name, made.id)).status_code == 302
        made = converse(cast.acme, cast.bob)
        scripted = client.post(address(name, made.id), headers={"HX-Request": "true"})
        assert scripted.status_code in (200, 204)


def test_other_members_of_the_tenant_have_lists_of_their_own(cast: Cast, bob: Access) -> None:
    rita = make_user("rita")
    Membership.objects.create(tenant=cast.acme, user=rita, role=Role.MEMBER)
    converse(cast.acme, cast.bob)
    assert listed(access_of(rita, cast.acme)).is_empty
    with tenant_scope(cast.acme.id):
        assert conversations_of(bob).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("post", "expected"),
    [
        (("rename", {"title": "Days off"}), ("conversation.titled", "Days off")),
        (("pin", {"pinned": "1"}), ("conversation.listed", None)),
        (("archive", {"archived": "1"}), ("conversation.listed", None)),
        (("move", {"folder": ""}), ("conversation.listed", None)),
        (("delete", {}), ("conversation.listed", None)),
    ],
)
def test_other_pages_of_the_person_are_told(
    cast: Cast, post: tuple[str, dict[str, str]], expected: tuple[str, str | None]
) -> None:
    made = converse(cast.acme, cast.bob)
    client: Client = signed_in(cast.bob)
    with redis.Redis.from_url(settings.REDIS_URL) as store, store.pubsub() as heard:
        heard.subscribe(user_channel(cast.acme.id, cast.bob.pk))
        heard.get_message(timeout=5)  # that it is subscribed
        client.post(address(post[0], made.id), post[1])
        message = heard.get_message(ignore_subscribe_messages=True, timeout=5)
    assert message is not None
    frame = json.loads(message["data"])
    frame = frame.get("frame", frame)
    assert (frame["type"], frame.get("title")) == expected
    assert frame["conversation"] == str(made.id)
