"""The quality page: newest figures, history, what changed, alerts and starting a run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.evals.models import Alert, EvalRun
from apps.tenants.models import Tenant
from tests.cast import Cast, signed_in
from tests.evals.labelled import make_set
from tests.evals.shown import FOUND, NEVER_FOUND, Shelf, make_shelf, shown_run
from tests.retrieval.corpus import make_collection

pytestmark = pytest.mark.django_db

PAGE = "/t/acme/quality/"


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


@pytest.fixture
def shelf(cast: Cast) -> Shelf:
    return make_shelf(cast.acme)


def text_of(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def made_ago(run: EvalRun, days: float) -> EvalRun:
    EvalRun.objects.filter(id=run.id).update(created_at=timezone.now() - timedelta(days=days))
    return run


def fell(tenant: Tenant, run: EvalRun | None = None, **fields: object) -> Alert:
    return Alert.objects.create(
        tenant=tenant,
        kind=Alert.Kind.METRIC_FELL,
        run=run,
        metric="ndcg@10",
        figures={"before": 0.9, "after": 0.8, "low": -0.15, "high": -0.05, "questions": 120},
        **fields,
    )


def test_a_room_without_sets_says_how_to_make_one(carl: Client) -> None:
    page = text_of(carl, PAGE)
    assert "Nothing is measured yet" in page
    assert "Make a labelled set first" in page


def test_a_set_without_labels_says_that_there_is_nothing_to_measure(
    cast: Cast, carl: Client
) -> None:
    make_set(make_collection(cast.acme))
    page = text_of(carl, PAGE)
    assert "No question of this set has a passage yet" in page
    assert "Run now" not in page


def test_a_set_without_runs_offers_one(carl: Client, shelf: Shelf) -> None:
    page = text_of(carl, PAGE)
    assert "This set has not been run yet" in page
    assert "Run now" in page
    assert page.count("csrfmiddlewaretoken") >= 2, "a form without its token starts nothing"
    assert "3 questions with an answer, 1 without" in page


def test_means_stand_with_their_interval_and_their_number_of_questions(
    carl: Client, shelf: Shelf
) -> None:
    run = shown_run(shelf, [FOUND, FOUND, NEVER_FOUND])
    page = text_of(carl, PAGE)
    assert "0.667" in page
    assert "0.567 to 0.767" in page
    assert "Mean of 3 questions" in page
    assert f"/t/acme/quality/runs/{run.id}/" in page
    assert "<circle" not in page, "one run is no line"


def test_the_history_is_a_chart_of_links_and_a_table(carl: Client, shelf: Shelf) -> None:
    old = made_ago(shown_run(shelf), 2)
    new = shown_run(shelf, [FOUND] * 3)
    page = text_of(carl, PAGE)
    assert page.count('class="point"') == 6, "two runs, three metrics"
    assert page.index(f'<th scope="row"><a href="/t/acme/quality/runs/{new.id}/"') < page.index(
        f'<th scope="row"><a href="/t/acme/quality/runs/{old.id}/"'
    )
    assert "style=" not in page


def test_runs_that_searched_otherwise_or_failed_are_listed_and_no_more(
    carl: Client, shelf: Shelf
) -> None:
    shown_run(shelf, trigger=EvalRun.Trigger.GATE)
    shown_run(shelf, configuration={"default": False})
    shown_run(shelf, state=EvalRun.State.FAILED, error_code="embedder_down")
    page = text_of(carl, PAGE)
    assert "This set has not been run yet" in page
    assert '<span class="badge">other settings</span>' in page
    assert '<span class="badge bad">failed</span>' in page
    assert "The last run failed (<code>embedder_down</code>)" in page


def test_what_changed_names_the_difference_and_the_configuration(
    carl: Client, shelf: Shelf
) -> None:
    made_ago(shown_run(shelf, [NEVER_FOUND] * 3, configuration={"reranker": "off"}), 1)
    shown_run(shelf, [FOUND] * 3)
    part = text_of(carl, f"{PAGE}sets/{shelf.labelled_set.id}/change/")
    assert part.startswith("<section")
    assert "Better, beyond chance" in part
    assert "+1.000" in part
    assert "Reranker off → late-interaction" in part
    assert "3 questions changed" in part


def test_of_one_run_nothing_has_changed(carl: Client, shelf: Shelf) -> None:
    shown_run(shelf)
    assert "There is one run only" in text_of(carl, f"{PAGE}sets/{shelf.labelled_set.id}/change/")


def test_a_run_under_way_shows_how_far_it_is_and_asks_again(carl: Client, shelf: Shelf) -> None:
    shown_run(shelf, state=EvalRun.State.RUNNING, done=2, figures={})
    part = text_of(carl, f"{PAGE}sets/{shelf.labelled_set.id}/card/")
    assert "<strong>2</strong> of 4 questions" in part
    assert 'hx-trigger="every 3s"' in part
    assert "Run now" not in part


def test_an_alert_is_seen_and_opened_again(cast: Cast, carl: Client, shelf: Shelf) -> None:
    alert = fell(cast.acme, shown_run(shelf))
    page = text_of(carl, PAGE)
    assert "nDCG@10 fell" in page
    assert "0.900 to 0.800, a difference between −0.150 and −0.050 (95 %), on 120 questions" in page
    url = f"{PAGE}alerts/{alert.id}/"
    part = carl.post(url, headers={"HX-Request": "true"}).content.decode()
    assert "Seen by carl@example.com" in part
    alert.refresh_from_db()
    assert alert.seen_by == cast.carl
    assert carl.post(url, {"undo": "1"}).status_code == 302
    alert.refresh_from_db()
    assert alert.seen_at is None


def test_an_alert_seen_long_ago_is_in_the_list_of_all_only(cast: Cast, carl: Client) -> None:
    fell(cast.acme, seen_at=timezone.now() - timedelta(days=1), seen_by=cast.alice)
    assert "nDCG@10 fell" not in text_of(carl, PAGE)
    assert "Seen by alice@example.com" in text_of(carl, f"{PAGE}alerts/")


def test_each_kind_of_alert_has_its_own_words(cast: Cast, carl: Client, shelf: Shelf) -> None:
    before, after = shown_run(shelf), shown_run(shelf)
    fallen = fell(cast.acme, after)
    Alert.objects.filter(id=fallen.id).update(figures={"before_run": str(before.id)})
    Alert.objects.create(
        tenant=cast.acme, kind=Alert.Kind.ROWS_MISSING, figures={"short": 3, "count": 41}
    )
    Alert.objects.create(
        tenant=cast.acme,
        kind=Alert.Kind.RECALL_LOW,
        figures={"after": 0.9, "low": 0.85, "high": 0.95, "goal": 0.98, "samples": 60},
    )
    page = text_of(carl, PAGE)
    assert f'/t/acme/quality/compare/{before.id}/{after.id}/">See what changed' in page
    assert "3 of 41 by the HNSW index" in page
    assert "recall@10 is 0.900 (0.850 to 0.950) over 60 checked searches" in page
    assert "the goal is 0.980" in page


def test_whoever_saw_an_alert_first_stays_noted(cast: Cast, carl: Client) -> None:
    alert = fell(cast.acme, seen_at=timezone.now(), seen_by=cast.alice)
    carl.post(f"{PAGE}alerts/{alert.id}/")
    alert.refresh_from_db()
    assert alert.seen_by == cast.alice


def test_starting_a_run_leads_to_its_page(carl: Client, shelf: Shelf) -> None:
    response = carl.post(f"{PAGE}sets/{shelf.labelled_set.id}/run/")
    run = EvalRun.objects.get()
    assert response.headers["Location"] == f"/t/acme/quality/runs/{run.id}/"
    assert (run.trigger, run.total, run.configuration["default"]) == ("manual", 4, True)


def test_stages_that_are_left_out_are_not_searched(carl: Client, shelf: Shelf) -> None:
    carl.post(
        f"{PAGE}sets/{shelf.labelled_set.id}/run/",
        {"switches": "1", "words": "on", "vectors": "on", "sample": "2"},
    )
    run = EvalRun.objects.get()
    assert run.sample == 2
    assert run.configuration["options"]["rerank"] is False
    assert run.configuration["options"]["words"] is True
    assert run.configuration["default"] is False


@pytest.mark.parametrize("sample", ["-1", "x", "", "9" * 40, "0"])
def test_a_sample_that_is_no_number_means_all(carl: Client, shelf: Shelf, sample: str) -> None:
    carl.post(f"{PAGE}sets/{shelf.labelled_set.id}/run/", {"sample": sample})
    assert EvalRun.objects.get().sample is None


def test_a_set_with_nothing_to_measure_is_refused_in_words(cast: Cast, carl: Client) -> None:
    empty = make_set(make_collection(cast.acme))
    response = carl.post(f"{PAGE}sets/{empty.id}/run/", follow=True)
    assert "no question that can be measured" in response.content.decode()
    assert not EvalRun.objects.exists()


def test_names_are_escaped(cast: Cast, carl: Client) -> None:
    make_set(make_collection(cast.acme), name="<script>alert(1)</script>")
    assert "<script>alert" not in text_of(carl, PAGE)


def test_sets_of_another_tenant_are_not_shown(cast: Cast, carl: Client) -> None:
    theirs = make_shelf(cast.rival)
    fell(cast.rival)
    page = text_of(carl, PAGE)
    assert "Nothing is measured yet" in page
    assert "fell" not in page
    assert carl.get(f"{PAGE}sets/{theirs.labelled_set.id}/card/").status_code == 404
