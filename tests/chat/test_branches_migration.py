"""Conversations of the release before, which were one line each, as branches."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.chat.models import Conversation
from apps.chat.selectors import branch_of, branches_of
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.old_release import as_superuser, database_at, migrate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True, databases=["default", "owner"]),
]

# Question one, answered twice; question two; question three, both answered once.
ROWS = [("q1", ""), ("a1", "q1"), ("a2", "q1"), ("q2", ""), ("a3", "q2"), ("q3", ""), ("a4", "q3")]


@pytest.fixture
def _before() -> Iterator[None]:
    with database_at(("tenants", "0002_key_scope"), ("chat", "0005_cache")):
        yield


@pytest.mark.usefixtures("_before")
def test_a_question_follows_the_latest_answer_of_the_one_before() -> None:
    tenants = [Tenant.objects.create(slug=slug, name=slug).id for slug in ("old", "other")]
    user = User.objects.create_user(username="olaf").pk
    kept = {tenant: _fill(tenant, user) for tenant in tenants}
    migrate()
    for tenant, (conversation_id, ids) in kept.items():
        names = {key: name for name, key in ids.items()}
        with tenant_scope(tenant):
            conversation = Conversation.objects.get(id=conversation_id)
            line = [names[message.id] for message in branch_of(conversation)]
            branches = branches_of(tenant, conversation_id)
            assert (conversation.leaf_id, conversation.title_by) == (None, "rule")
        assert line == ["q1", "a2", "q2", "a3", "q3", "a4"]
        assert branches.siblings(ids["a2"]) == [ids["a1"], ids["a2"]]


def _fill(tenant: uuid.UUID, user: int) -> tuple[uuid.UUID, dict[str, uuid.UUID]]:
    conversation, ids = uuid.uuid4(), {name: uuid.uuid4() for name, _ in ROWS}
    with as_superuser() as db:
        db.execute(
            "INSERT INTO chat_conversation (id, tenant_id, user_id, title, collection_ids, model, "
            "created_at, updated_at) VALUES (%s, %s, %s, 'Old', '[]', '', now(), now())",
            [conversation, tenant, user],
        )
        for age, (name, parent) in enumerate(ROWS):
            db.execute(
                "INSERT INTO chat_message (id, tenant_id, conversation_id, role, state, text, "
                "searched_as, in_reply_to, model, kind, notices, support, tokens_estimated, cache, "
                "created_at) VALUES (%s, %s, %s, %s, 'complete', 'Said.', '', %s, '', '', '[]', "
                "'[]', false, '', %s)",
                [
                    ids[name],
                    tenant,
                    conversation,
                    "question" if name.startswith("q") else "answer",
                    ids.get(parent),
                    timezone.now() - timedelta(hours=100 - age),
                ],
            )
    return conversation, ids
