"""Operations see what waits, what got ready, what failed and what was slow; of all tenants."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.documents import jobs
from apps.documents.models import Collection, Document, Job, Stage
from apps.documents.queues import queue_figures
from apps.ops.charts import CHART_HEIGHT, CHART_WIDTH, bars
from apps.ops.templatetags.ops import duration, milliseconds
from apps.telemetry.ingestion import failures, per_minute, slowest
from apps.telemetry.models import Span
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

PAGE = "/ops/ingestion/"


def waiting_document(tenant: Tenant, name: str = "secret-plan.pdf") -> Document:
    with tenant_scope(tenant.id):
        collection, _ = Collection.objects.get_or_create(tenant=tenant, name="Handbook")
        document = Document.objects.create(
            tenant=tenant,
            collection=collection,
            path=f"{uuid.uuid4()}/{name}",
            name=name,
            size_bytes=1,
            sha256=uuid.uuid4().hex,
            storage_key="none",
        )
        jobs.submit(document)
    return document


def span(
    tenant: Tenant, hop: str, *, at: datetime, status: str = "ok", code: str = "", ms: float = 5.0
) -> Span:
    return Span.objects.create(
        tenant_id=tenant.id,
        trace_id=uuid.uuid4(),
        kind="ingestion",
        hop=hop,
        status=status,
        started_at=at,
        work_ms=ms,
        error_code=code,
        attributes={"bytes": 2048, "chunks": 3},
    )


def test_queues_are_counted_over_all_tenants(cast: Cast) -> None:
    waiting_document(cast.acme)
    waiting_document(cast.acme)
    waiting_document(cast.rival)
    held = jobs.take(Stage.INGEST)
    delayed = jobs.take(Stage.INGEST)
    assert held
    assert delayed
    jobs.wait(delayed, delay_s=60, code="x", message="Waits.")
    Job.objects.update(since=timezone.now() - timedelta(seconds=90))
    ingest, index = queue_figures()
    assert (ingest.waiting, ingest.working, ingest.delayed, ingest.tenants) == (1, 1, 1, 2)
    assert ingest.oldest_age_s is not None
    assert 89 < ingest.oldest_age_s < 95
    assert (index.waiting, index.working, index.oldest_age_s) == (0, 0, None)


def test_documents_a_minute_are_counted_in_their_stretch(cast: Cast) -> None:
    now = timezone.now()
    for minutes in (0.5, 0.6, 9.5):
        span(cast.acme, "index", at=now - timedelta(minutes=minutes))
    span(cast.acme, "index", at=now - timedelta(minutes=0.5), status="error")
    span(cast.acme, "parse", at=now - timedelta(minutes=0.5))
    rates = per_minute(now - timedelta(minutes=10), now, buckets=10)
    assert rates == [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert per_minute(now - timedelta(minutes=10), now, buckets=5) == [0.5, 0, 0, 0, 1]


def test_failures_are_grouped_and_slow_files_ordered(cast: Cast) -> None:
    now = timezone.now()
    for _ in range(2):
        span(cast.acme, "parse", at=now, status="error", code="damaged", ms=900)
    span(cast.rival, "index", at=now, status="error", code="embedder_unavailable", ms=1)
    span(cast.rival, "parse", at=now - timedelta(days=2), status="error", code="old")
    since = now - timedelta(hours=1)
    found = [(each.hop, each.code, each.times, each.documents) for each in failures(since)]
    assert found == [("parse", "damaged", 2, 2), ("index", "embedder_unavailable", 1, 1)]
    files = slowest(since, limit=2)
    assert [file.work_ms for file in files] == [900, 900]
    assert (files[0].size_bytes, files[0].pages, files[0].chunks) == (2048, None, 3)


def test_the_page_shows_figures_and_no_name_of_a_document(cast: Cast) -> None:
    waiting_document(cast.acme)
    span(cast.acme, "index", at=timezone.now() - timedelta(minutes=1))
    span(cast.acme, "parse", at=timezone.now(), status="error", code="damaged")
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert "damaged" in page
    assert "<rect" in page
    assert "secret-plan" not in page


def test_an_empty_site_says_so(cast: Cast) -> None:
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert "No document became ready in this time." in page
    assert "No attempt failed in this time." in page


def test_the_part_that_is_fetched_again_is_the_part_alone(cast: Cast) -> None:
    page = signed_in(cast.olga).get(PAGE, headers={"HX-Request": "true"}).content.decode()
    assert page.startswith('<div class="stack loose" id="ingestion"')


@pytest.mark.parametrize("hours", ["1", "168", "", "0", "-1", "9" * 40, "abc"])
def test_any_stretch_of_time_gives_a_page(cast: Cast, hours: str) -> None:
    assert signed_in(cast.olga).get(PAGE, {"hours": hours}).status_code == 200


@pytest.mark.parametrize("who", ["alice", "carl", "bob", "mallory"])
def test_for_others_there_is_no_such_page(cast: Cast, who: str) -> None:
    assert signed_in(getattr(cast, who)).get(PAGE).status_code == 404


def test_a_stranger_is_asked_to_sign_in(cast: Cast) -> None:
    assert signed_in(None).get(PAGE).status_code == 302


def test_bars_fill_the_chart_and_small_figures_are_seen() -> None:
    drawn = bars([0, 1, 1000])
    assert [bar.height for bar in drawn] == [0, 2, CHART_HEIGHT]
    assert drawn[-1].x + drawn[-1].width <= CHART_WIDTH
    assert bars([]) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.44, "0.4 s"), (12, "12 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")],
)
def test_stretches_of_time_are_said_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
    assert milliseconds(seconds * 1000) in {words, "440 ms"}
