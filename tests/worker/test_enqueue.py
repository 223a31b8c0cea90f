"""Messages go out after the commit, to the right queue, and a dead broker is no error."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

import pytest
from celery import Celery
from django.db import transaction

from worker import enqueue as enqueue_module
from worker.celery import INDEX, INGEST, MAINTENANCE, app, broker_url
from worker.enqueue import enqueue, queue_length, wake

pytestmark = pytest.mark.django_db

TENANT = uuid.uuid4()


def purge() -> None:
    """Empty all queues; declared first, as a worker does: what is bound wrongly shows only then."""
    with app.connection_for_write() as connection:
        for queue in app.conf.task_queues:
            queue(connection.default_channel).declare()
            connection.default_channel.queue_purge(queue.name)


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    purge()
    yield
    purge()


@pytest.mark.parametrize(
    ("task", "queue"),
    [
        ("documents.ingest_next", INGEST),
        ("retrieval.index_next", INDEX),
        ("documents.sweep", MAINTENANCE),
    ],
)
def test_a_task_goes_to_its_queue(
    task: str, queue: str, django_capture_on_commit_callbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        enqueue(task, tenant_id=TENANT, document_id=str(uuid.uuid4()))
    lengths = {name: queue_length(name) for name in (INGEST, INDEX, MAINTENANCE)}
    assert lengths == {INGEST: 0, INDEX: 0, MAINTENANCE: 0} | {queue: 1}


def test_waking_says_nothing_but_that_there_is_work(django_capture_on_commit_callbacks) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        wake("documents.ingest_next")
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get(INGEST, no_ack=True)
    assert json.loads(message.body)[:2] == [[], {}]


def test_nothing_is_sent_when_the_transaction_is_undone(
    django_capture_on_commit_callbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        enqueue("documents.ingest_next", tenant_id=TENANT, document_id="x")
        transaction.set_rollback(True)
    assert queue_length(INGEST) == 0


@pytest.fixture
def _dead_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = Celery("dead", broker="redis://127.0.0.1:1/0", set_as_current=False)
    dead.conf.update(app.conf.table(), broker_url="redis://127.0.0.1:1/0")
    monkeypatch.setattr(enqueue_module, "app", dead)


@pytest.mark.usefixtures("_dead_broker")
def test_a_dead_broker_is_logged_and_soon(
    django_capture_on_commit_callbacks, caplog: pytest.LogCaptureFixture
) -> None:
    start = time.monotonic()
    with django_capture_on_commit_callbacks(execute=True):
        enqueue("documents.ingest_next", tenant_id=TENANT, document_id="x")
    assert time.monotonic() - start < 5
    assert "sweeper" in caplog.text


@pytest.mark.usefixtures("_dead_broker")
def test_a_dead_broker_cannot_be_asked() -> None:
    assert queue_length(INGEST) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("redis://:secret@host:6379/2", "redis://:secret@host:6379/2"),
        ("rediss://host/0", "rediss://host/0"),
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock"),
    ],
)
def test_redis_addresses_are_put_as_kombu_wants_them(given: str, expected: str) -> None:
    assert broker_url(given) == expected
