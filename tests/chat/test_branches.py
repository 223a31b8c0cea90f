"""A conversation as a tree: what is shown of it, and that no stored mess loses a message."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.chat import selectors
from apps.chat.models import Conversation, Message, MessageRole, MessageState
from apps.chat.selectors.branches import Branches, Node, shown_path
from apps.tenants.access import Access, find_access
from apps.tenants.scope import tenant_scope
from tests.cast import Cast

Q, A = MessageRole.QUESTION, MessageRole.ANSWER
_FIRST = datetime(2026, 11, 30, tzinfo=UTC)


def tree(*rows: tuple[str, str]) -> Branches:
    """Messages in order of time, each with the one it follows ("" for none), named by letters."""
    return Branches(
        Node(
            id=key(name),
            role=Q if name.startswith("q") else A,
            in_reply_to=key(parent) if parent else None,
            comparison=key("pair") if name.endswith("|") else None,
            created_at=_FIRST + timedelta(seconds=place),
        )
        for place, (name, parent) in enumerate(rows)
    )


def key(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


def path(branches: Branches, leaf: str = "") -> list[str]:
    names = {key(f"{kind}{n}{end}"): f"{kind}{n}{end}" for kind in "qa" for n in range(9)
             for end in ("", "|")}  # fmt: skip
    return [names[each] for each in shown_path(branches, key(leaf) if leaf else None)]


class TestWhatIsShown:
    def test_without_a_choice_it_is_the_branch_that_was_written_in_last(self) -> None:
        branches = tree(("q1", ""), ("a1", "q1"), ("q2", "a1"), ("a2", "q2"), ("a3", "q1"))
        assert path(branches) == ["q1", "a3"]

    def test_a_chosen_message_is_shown_with_what_leads_to_it_and_its_newest_end(self) -> None:
        branches = tree(
            ("q1", ""), ("a1", "q1"), ("q2", "a1"), ("a2", "q2"), ("q3", "a1"), ("a3", "q3"),
            ("a4", "q2"), ("a5", "q1"),
        )  # fmt: skip
        assert path(branches, "a1") == ["q1", "a1", "q2", "a4"]
        assert path(branches, "a3") == ["q1", "a1", "q3", "a3"]

    def test_edits_of_the_first_question_are_branches_too(self) -> None:
        branches = tree(("q1", ""), ("a1", "q1"), ("q2", ""), ("a2", "q2"))
        assert branches.siblings(key("q2")) == [key("q1"), key("q2")]
        assert path(branches, "q1") == ["q1", "a1"]

    def test_a_comparison_is_one_branch_named_by_the_side_that_was_gone_on_from(self) -> None:
        branches = tree(
            ("q1", ""), ("a1|", "q1"), ("a2|", "q1"), ("q2", "a2|"), ("a3", "q2"), ("a4", "q1")
        )
        assert branches.siblings(key("a1|")) == [key("a2|"), key("a4")]
        assert path(branches, "a2|") == ["q1", "a2|", "q2", "a3"]

    def test_the_other_side_can_be_chosen_to_go_on_with(self) -> None:
        branches = tree(("q1", ""), ("a1|", "q1"), ("a2|", "q1"), ("q2", "a2|"), ("a3", "q2"))
        assert path(branches, "a1|") == ["q1", "a1|"]

    def test_an_unknown_leaf_shows_the_latest(self) -> None:
        assert path(tree(("q1", ""), ("a1", "q1")), "a8") == ["q1", "a1"]

    def test_an_empty_conversation_shows_nothing(self) -> None:
        assert path(tree()) == []


class TestBrokenChains:
    def test_a_message_whose_parent_is_gone_follows_the_one_before_it(self) -> None:
        branches = tree(("q1", ""), ("a1", "q1"), ("q2", "a8"), ("a2", "q2"))
        assert path(branches) == ["q1", "a1", "q2", "a2"]

    def test_a_ring_is_cut_and_nothing_of_it_is_lost(self) -> None:
        branches = tree(("q1", ""), ("a1", "q1"), ("q2", "a2"), ("a2", "q2"), ("q3", "q3"))
        assert path(branches, "q1") == ["q1", "a1", "q2", "a2", "q3"]

    def test_nothing_but_a_ring_is_shown_from_its_oldest(self) -> None:
        assert path(tree(("q1", "a1"), ("a1", "q1"))) == ["q1", "a1"]

    def test_an_answer_without_a_question_is_shown(self) -> None:
        assert path(tree(("a1", ""))) == ["a1"]
        assert path(tree(("q1", ""), ("a1", ""))) == ["q1", "a1"]

    @pytest.mark.parametrize("seed", range(20))
    def test_every_message_is_on_some_branch_whatever_is_stored(self, seed: int) -> None:
        names = [f"{'qa'[(seed + n) % 2]}{n}" for n in range(9)]
        rows = [(name, names[(7 * n + seed * n * n + 3) % 9]) for n, name in enumerate(names)]
        branches = tree(*rows)
        assert all(name in path(branches, name) for name in names)


@pytest.fixture
def access(cast: Cast) -> Access:
    found = find_access(cast.bob, slug="acme")
    assert found is not None
    return found


@pytest.mark.django_db
class TestQueries:
    def test_reading_takes_as_many_for_a_long_conversation_as_for_a_short_one(
        self, access: Access
    ) -> None:
        with tenant_scope(access.tenant.id):
            counts = [_queries(access, exchanges) for exchanges in (1, 250)]
        assert counts[0] == counts[1] <= 6

    def test_a_conversation_with_fifty_branches_shows_one_of_them(self, access: Access) -> None:
        with tenant_scope(access.tenant.id):
            conversation = _conversation(access, 5)
            first = Message.objects.filter(conversation=conversation).earliest("created_at")
            answers = [_message(access, conversation, A, first.id) for _ in range(50)]
            conversation.leaf_id = answers[20].id
            view = selectors.thread_of(access, conversation)[-1]
        assert view.message == answers[20]
        assert (view.position, len(view.siblings)) == (22, 51)
        assert (view.previous, view.next) == (answers[19].id, answers[21].id)


@pytest.mark.django_db
def test_both_sides_of_a_comparison_stand_in_one_entry(access: Access) -> None:
    with tenant_scope(access.tenant.id):
        conversation = _conversation(access, 0)
        asked = _message(access, conversation, Q, None)
        pair = uuid.uuid4()
        sides = [_message(access, conversation, A, asked.id, comparison=pair) for _ in range(2)]
        question, answer = selectors.thread_of(access, conversation)
    assert question.message == asked
    assert [each.message for each in answer.compared] == sides
    assert answer.siblings == (sides[0].id,)


def _queries(access: Access, exchanges: int) -> int:
    conversation = _conversation(access, exchanges)
    with CaptureQueriesContext(connection) as queries:
        thread = selectors.thread_of(access, conversation)
    assert len(thread) == 2 * exchanges
    return len(queries)


def _conversation(access: Access, exchanges: int) -> Conversation:
    conversation = Conversation.objects.create(tenant=access.tenant, user=access.user, title="T")
    rows, before = [], None
    now = datetime.now(UTC) - timedelta(hours=1)
    for role in (Q, A) * exchanges:
        rows.append(_row(access, conversation, role, before))
        before = rows[-1].id
    Message.objects.bulk_create(rows)
    for place, row in enumerate(rows):
        row.created_at = now + timedelta(milliseconds=place)
    Message.objects.bulk_update(rows, ["created_at"])
    return conversation


def _row(
    access: Access, conversation: Conversation, role: str, before: uuid.UUID | None
) -> Message:
    return Message(
        tenant=access.tenant,
        conversation=conversation,
        role=role,
        text="Said.",
        in_reply_to=before,
        state=MessageState.COMPLETE,
    )


def _message(
    access: Access,
    conversation: Conversation,
    role: str,
    before: uuid.UUID | None,
    *,
    comparison: uuid.UUID | None = None,
) -> Message:
    message = _row(access, conversation, role, before)
    message.comparison = comparison
    message.save()
    return message
