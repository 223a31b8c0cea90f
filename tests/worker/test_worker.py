"""A real worker process on the real queue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from apps.documents import services
from apps.documents.models import Document, DocumentState
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

MEMORY_IDLE_BYTES = 250 * 2**20


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = tmp_path / "worker.log"
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "worker.celery",
        "worker",
        "-Q",
        "ingest,maintenance",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--without-gossip", "--without-mingle", "-l", "info"],
            cwd=settings.BASE_DIR, env=os.environ, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    wait_until(lambda: b"ready." in log.read_bytes())
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0, log.read_text()


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.05)


def test_an_upload_is_ingested_by_a_worker_that_stays_small(
    worker: subprocess.Popen[bytes],
) -> None:
    tenant = Tenant.objects.create(slug="acme", name="Acme")
    collection = services.create_collection(tenant=tenant, user=None, name="Handbook")
    document = services.receive_upload(
        tenant=tenant,
        collection=collection,
        user=None,
        path="a.md",
        file=BytesIO(b"# A\n\nwords\n"),
    )

    def chunked() -> bool:
        with tenant_scope(tenant.id):
            return Document.objects.get(id=document.id).state == DocumentState.INDEXING

    wait_until(chunked)
    parent = psutil.Process(worker.pid)
    family = [parent, *parent.children(recursive=True)]
    # Proportional: a library mapped into both processes takes its room once.
    assert sum(each.memory_full_info().pss for each in family) < MEMORY_IDLE_BYTES
