"""What a task logs, and what it keeps to itself."""

from __future__ import annotations

import logging
import uuid

import pytest
from celery import Celery

from worker.tasks import TaskFailed, TenantTask

app = Celery("test", broker="memory://", set_as_current=False)
SECRET = "the words of the document"


@app.task(base=TenantTask, name="test.echo", shared=False)
def echo(*, tenant_id: uuid.UUID, document_id: str) -> tuple[object, str]:
    return tenant_id, document_id


@app.task(base=TenantTask, name="test.fail", shared=False)
def fail(*, tenant_id: uuid.UUID) -> None:
    raise RuntimeError(SECRET)


def test_the_tenant_arrives_as_a_uuid() -> None:
    tenant = uuid.uuid4()
    assert echo(tenant_id=str(tenant), document_id="d") == (tenant, "d")


def test_duration_and_identifiers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        echo(tenant_id=str(uuid.uuid4()), document_id="abc")
    assert "test.echo document_id=abc" in caplog.text
    assert "done in" in caplog.text


def test_a_failure_names_its_place_and_not_its_words(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TaskFailed) as caught:
        fail(tenant_id=str(uuid.uuid4()))
    assert SECRET not in caplog.text
    assert SECRET not in str(caught.value)
    assert "RuntimeError in test_tasks.py" in caplog.text


def test_a_message_with_a_malformed_tenant_is_refused() -> None:
    with pytest.raises(ValueError, match="badly formed"):
        echo(tenant_id="not-a-uuid", document_id="d")
