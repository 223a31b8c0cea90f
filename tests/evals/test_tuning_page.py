"""The tuning pages: starting, watching, applying and taking back."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.documents.models import Document, DocumentState
from apps.evals.models import TuneRun
from apps.evals.tuning.charting import depth_chart, fine_axis, recall_chart
from apps.evals.tuning.jobs import start_curve
from apps.retrieval.models import AnnIndex, EmbeddingIndex, SearchProfile
from apps.retrieval.options import EF_SEARCH, options_for
from apps.retrieval.profiles import apply_profile
from tests.cast import Cast, signed_in
from tests.evals.test_tuning import WORDS, depth, point
from tests.retrieval.corpus import make_collection, make_document, write_rows

FIGURES = {
    "recall_low": 0.95,
    "recall_high": 0.999,
    "recall_10": 0.99,
    "p50_ms": 1.5,
    "rows_min": 100,
    "short": 0,
    "questions": 60,
    "build_s": 12.3,
    "size_bytes": 2_000_000,
}
DEPTH_FIGURES = {
    "ndcg_10_low": 0.7,
    "ndcg_10_high": 0.9,
    "p50_ms": 15.0,
    "rerank_p50_ms": 8.0,
    "rerank_p95_ms": 16.0,
    "questions": 25,
}


@pytest.fixture
def browser(cast: Cast) -> Client:
    return signed_in(cast.carl)


@pytest.fixture
def document(cast: Cast) -> Document:
    texts = [f"{a} {b}" for a in WORDS for b in WORDS]
    document = make_document(make_collection(cast.acme), texts, state=DocumentState.READY)
    write_rows(document)
    return document


@pytest.fixture
def done(cast: Cast, document: Document) -> TuneRun:
    """A finished curve that proposes an ef_search of 150."""
    exact = {"kind": "exact", "recall": 1.0, "p95_ms": 20.0}
    points: list[dict[str, Any]] = [
        {**exact, **FIGURES, "build_s": None, "size_bytes": None},
        point(150, 0.985, 2.0, **FIGURES),
        point(200, 0.99, 4.0, **FIGURES, in_force=True),
        point(200, 0.96, 3.0, **FIGURES, storage="bit"),
        depth(50, 10, 0.79, 20, **DEPTH_FIGURES),
        depth(100, 20, 0.8, 50, **DEPTH_FIGURES, in_force=True),
    ]
    return TuneRun.objects.create(
        tenant=cast.acme,
        index_id=EmbeddingIndex.objects.get(tenant=cast.acme).id,
        state=TuneRun.State.DONE,
        points=points,
        done=85,
        total=85,
        proposal={
            "in_force": {"ef_search": 200},
            "rows": 20_000,
            "questions": {"labelled": 25, "live": 0, "passages": 35},
            "changes": {"ef_search": 150},
            "vectors": {"verdict": "cheaper", "point": 1},
            "pipeline": {"verdict": "in_force", "point": 5},
        },
        finished_at=timezone.now(),
    )


def url(name: str, *arguments: object) -> str:
    return reverse(f"evals:{name}", args=["acme", *arguments])


def page(browser: Client, name: str, *arguments: object) -> str:
    response = browser.get(url(name, *arguments))
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.mark.django_db
def test_without_documents_the_page_says_what_to_do(browser: Client) -> None:
    text = page(browser, "tuning")
    assert "Nothing to search yet" in text
    assert "site’s settings are in force" in text


@pytest.mark.django_db
def test_a_curve_is_started_from_the_form(browser: Client, document: Document) -> None:
    assert "searched exactly" in page(browser, "tuning")
    asked = {"goal": "0.95", "k": "10", "ef_search": "100, 300", "leg_candidates": ""}
    response = browser.post(url("tuning"), asked)
    curve = TuneRun.objects.get()
    assert response["Location"] == url("curve", curve.id)
    assert (curve.recall_goal, curve.k) == (0.95, 10)
    assert curve.grid["ef_search"] == [100, 300, EF_SEARCH]
    assert curve.created_by is not None
    assert "Waiting" in page(browser, "curve", curve.id)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"goal": "2"}, "less than or equal to 1"),
        ({"k": "500"}, "candidates of vector search"),
        ({"ef_search": "many"}, "whole numbers"),
        ({"ef_search": "1 2 3=4"}, "whole numbers"),
        ({"storage": "<script>"}, "storage is one of"),
        ({"m": "1"}, "from 2 to 100"),
        ({"ef_search": "9" * 201}, "at most 200 characters"),
    ],
)
def test_what_cannot_be_measured_is_said_in_the_form(
    browser: Client, document: Document, asked: dict[str, str], words: str
) -> None:
    response = browser.post(url("tuning"), {"goal": "0.98", "k": "20", **asked})
    assert response.status_code == 200
    assert words in response.content.decode()
    assert "<script>" not in response.content.decode().split("<main", 1)[1].split("</main", 1)[0]
    assert not TuneRun.objects.exists()


@pytest.mark.django_db
def test_a_second_curve_is_refused_while_one_is_measured(
    browser: Client, cast: Cast, document: Document
) -> None:
    start_curve(tenant=cast.acme, user=None)
    response = browser.post(url("tuning"), {"goal": "0.98", "k": "20"})
    assert "being measured already" in response.content.decode()


@pytest.mark.django_db
def test_progress_is_asked_for_until_the_curve_has_ended(
    browser: Client, cast: Cast, document: Document
) -> None:
    curve = start_curve(tenant=cast.acme, user=None)
    TuneRun.objects.filter(id=curve.id).update(state=TuneRun.State.RUNNING, done=3, total=50)
    response = browser.get(url("curve_state", curve.id))
    assert "hx-get" in response.content.decode()
    assert "HX-Refresh" not in response
    browser.post(url("stop_curve", curve.id))
    response = browser.get(url("curve_state", curve.id))
    assert response["HX-Refresh"] == "true"
    assert "cancelled after 3 of 50" in response.content.decode()


@pytest.mark.django_db
def test_a_curve_shows_chart_table_and_proposal(browser: Client, done: TuneRun) -> None:
    text = page(browser, "curve", done.id)
    assert text.count('class="plot"') == 2
    assert "ef_search 150 is the cheapest that meets the goal" in text
    assert "95 % interval 0.950 to 0.999" in text
    assert "passages of the tenant&#x27;s own in place of questions" in text
    assert "The rule:" in text
    assert text.count("Proposed</span>") == 1  # what stays as it is, is not proposed


@pytest.mark.django_db
def test_the_proposal_is_applied_with_one_click_and_taken_back_with_another(
    browser: Client, cast: Cast, done: TuneRun
) -> None:
    before = apply_profile(
        tenant=cast.acme, user=None, origin="manual", changes={"rerank_candidates": 30}
    )
    response = browser.post(url("use_curve", done.id), follow=True)
    assert "In force now" in response.content.decode()
    assert options_for(cast.acme.id).ef_search == 150
    assert "This is in force" in page(browser, "curve", done.id)
    browser.post(url("use_profile", before.id))
    assert options_for(cast.acme.id).ef_search == EF_SEARCH
    assert options_for(cast.acme.id).rerank_candidates == 30
    browser.post(url("use_settings"))
    assert not SearchProfile.objects.filter(tenant=cast.acme, active=True).exists()
    text = page(browser, "tuning")
    assert text.count(">Restore</button>") == 3  # all profiles; the settings are in force
    assert "Applied" in text


@pytest.mark.django_db
def test_another_point_is_applied_by_hand(browser: Client, cast: Cast, done: TuneRun) -> None:
    browser.post(url("use_curve", done.id), {"point": "3"})
    assert options_for(cast.acme.id).storage == "bit"


@pytest.mark.django_db
@pytest.mark.parametrize("given", ["0", "6", "-1", "99999", "²", "x"])
def test_a_point_that_is_not_there_changes_nothing(
    browser: Client, cast: Cast, done: TuneRun, given: str
) -> None:
    response = browser.post(url("use_curve", done.id), {"point": given})
    assert response.status_code == 302
    assert options_for(cast.acme.id).ef_search == EF_SEARCH


@pytest.mark.django_db
def test_a_curve_of_an_index_no_longer_in_force_is_not_applied(
    browser: Client, cast: Cast, done: TuneRun
) -> None:
    EmbeddingIndex.objects.filter(tenant=cast.acme).update(active=False)
    response = browser.post(url("use_curve", done.id), follow=True)
    assert "embedding index was changed" in response.content.decode()


@pytest.mark.django_db
def test_indexes_being_built_and_failed_curves_are_shown(
    browser: Client, cast: Cast, done: TuneRun
) -> None:
    index = EmbeddingIndex.objects.get(tenant=cast.acme)
    for state, m in (("ready", 16), ("building", 24), ("failed", 32)):
        AnnIndex.objects.create(tenant=cast.acme, index=index, m=m, ef_construction=64, state=state)
    failed = TuneRun.objects.create(
        tenant=cast.acme, index_id=index.id, state="failed", error_code="kept_crashing"
    )
    text = page(browser, "tuning")
    assert "Being built" in text
    assert text.count("badge bad") == 2
    assert "kept crashing" in page(browser, "curve", failed.id)


# Charts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "low", "high"),
    [
        ([0.972, 0.999, 0.98], 0.97, 1.0),
        ([1.0], 0.998, 1.0),
        ([0.0], 0.0, 0.002),
        ([0.2, 0.9], 0.2, 1.0),
    ],
)
def test_an_axis_of_shares_lies_close_around_them(
    shares: list[float], low: float, high: float
) -> None:
    axis = fine_axis(shares)
    assert (pytest.approx(axis.low), pytest.approx(axis.high)) == (low, high)
    assert 2 <= len(axis.ticks) <= 8


def test_a_chart_has_a_line_for_each_index_and_marks_the_goal() -> None:
    points = [point(150, 0.985, 2.0, **FIGURES), point(200, 0.9, 0.0, **FIGURES, storage="bit")]
    chart = recall_chart(points, goal=0.98, k=20)
    assert chart is not None
    assert [line.name for line in chart.lines] == [
        "halfvec, m 16, ef_construction 64",
        "bit, m 16, ef_construction 64",
    ]
    assert [mark.text for mark in chart.marks] == ["goal 0.98"]
    assert all(0 <= p.x <= 100 and 0 <= p.y <= 100 for line in chart.lines for p in line.points)


def test_there_is_no_chart_of_points_that_are_not_measured_yet() -> None:
    point_now = {"kind": "vectors", "samples": []}
    assert recall_chart([point_now], goal=0.98, k=20) is None
    assert depth_chart([{"kind": "pipeline", "samples": []}]) is None
