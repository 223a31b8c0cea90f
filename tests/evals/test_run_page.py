"""A run's page: progress, tables, the curve of refusals, and each question down to its passages."""

from __future__ import annotations

import dataclasses
import re
import uuid

import pytest
from django.test import Client

from apps.documents.models import Chunk, Document, Page
from apps.evals.metrics import STAGES
from apps.evals.models import EvalRun, Label, RunQuestion
from apps.evals.selectors.figures import refusals, suggested_limit
from apps.retrieval.models import SearchProfile
from apps.retrieval.options import options_for
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.evals.shown import FOUND, Shelf, make_shelf, shown_run
from tests.retrieval.corpus import make_document

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


@pytest.fixture
def shelf(cast: Cast) -> Shelf:
    return make_shelf(cast.acme)


def address(run: EvalRun, rest: str = "") -> str:
    return f"/t/acme/quality/runs/{run.id}/{rest}"


def text_of(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def asked_in(page: str, shelf: Shelf) -> list[int]:
    """Numbers of the shelf's questions in the order that a page lists them; 3: unanswerable."""
    ids = [str(each.id) for each in (*shelf.questions, shelf.unanswerable)]
    return [ids.index(found) for found in re.findall(r'questions/([0-9a-f-]{36})/"', page)]


def test_a_waiting_run_is_asked_after_and_can_be_cancelled(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf, state=EvalRun.State.WAITING, done=0, figures={})
    page = text_of(carl, address(run))
    assert "for a worker" in page
    assert 'hx-trigger="every 2s"' in page
    assert "Stage by stage" not in page
    assert carl.post(address(run, "cancel/")).status_code == 302
    run.refresh_from_db()
    assert run.state == EvalRun.State.CANCELLED
    assert "was cancelled" in text_of(carl, address(run))


def test_a_finished_run_is_not_cancelled(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    carl.post(address(run, "cancel/"))
    run.refresh_from_db()
    assert run.state == EvalRun.State.DONE


def test_the_state_asks_for_the_whole_page_once_it_has_ended(carl: Client, shelf: Shelf) -> None:
    running = shown_run(shelf, state=EvalRun.State.RUNNING, done=1, figures={})
    response = carl.get(address(running, "state/"))
    assert "HX-Refresh" not in response.headers
    assert "<strong>1</strong> of 4" in response.content.decode()
    done = shown_run(shelf)
    assert carl.get(address(done, "state/")).headers["HX-Refresh"] == "true"


def test_a_failed_run_gives_its_code_and_no_figures(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf, state=EvalRun.State.FAILED, error_code="embedder_down", done=1)
    page = text_of(carl, address(run))
    assert "<code>embedder_down</code>) after 1 of 4 questions" in page
    assert "Stage by stage" not in page


def test_every_stage_slice_and_hop_has_its_row(carl: Client, shelf: Shelf) -> None:
    page = text_of(carl, address(shown_run(shelf)))
    for words in ("Words (BM25)", "Meaning (vectors)", "Both, fused", "Reranked", "As returned"):
        assert words in page
    assert "boats" in page
    assert "12 ms" in page
    assert "1.5 s" in page
    assert "9 at least, 9.8 on average; 1 of 4 searches returned fewer" in page


def test_it_says_where_passages_were_lost(carl: Client, shelf: Shelf) -> None:
    page = re.sub(r"<[^>]+>", "", text_of(carl, address(shown_run(shelf))))
    assert "Of 3 questions, 1 had a right passage among the first ten" in page
    assert "1 had one that was found, but placed badly" in page
    assert "for 1 it was never found" in page


def test_a_run_of_a_poorer_search_says_so(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf, figures={"degraded": {"reranker_down": 2}, "lost": 1})
    page = text_of(carl, address(run))
    assert "For 2 questions a part of search was down (<code>reranker_down</code>)" in page
    assert "1 more question could not be measured" in page


def test_questions_come_worst_first_and_by_what_became_of_them(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    assert asked_in(text_of(carl, address(run)), shelf) == [2, 1, 0, 3] or asked_in(
        text_of(carl, address(run)), shelf
    ) == [1, 2, 0, 3], "two have an nDCG@10 of 0"
    for outcome, numbers in (
        ("first_stage", [2]),
        ("placed_badly", [1]),
        ("found", [0]),
        ("unanswerable", [3]),
        ("lost", []),
        ("nonsense", [1, 2, 0, 3]),
    ):
        part = text_of(carl, address(run, f"questions/?metric=recall@100&outcome={outcome}"))
        assert part.startswith('<section class="stack" id="questions"')
        assert sorted(asked_in(part, shelf)) == sorted(numbers), outcome


def test_a_metric_further_down_orders_otherwise(carl: Client, shelf: Shelf) -> None:
    part = text_of(carl, address(shown_run(shelf), "questions/?metric=recall@20"))
    assert asked_in(part, shelf)[0] == 2, "the other's passage is at 12"


def test_a_slice_narrows_the_list(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    assert asked_in(text_of(carl, address(run, "questions/?slice=slice 1")), shelf) == [1]
    part = text_of(carl, address(run, "questions/?slice=no%00thing"))
    assert "No question of this run is like that" in part


@pytest.mark.parametrize(
    "query", ["metric=ndcg@10';--&page=x", "page=-5", "page=99999999999", "outcome=%00&slice=%00"]
)
def test_odd_queries_still_list_questions(carl: Client, shelf: Shelf, query: str) -> None:
    assert carl.get(address(shown_run(shelf), f"?{query}")).status_code == 200


def test_the_curve_marks_the_limit_in_force_and_offers_others(carl: Client, shelf: Shelf) -> None:
    page = text_of(carl, address(shown_run(shelf)))
    assert "in force: 0.42" in page
    assert "0.42: refuses 5.0 % of the answerable, 50.0 % of the others (in force)" in page
    assert 'value="0.6000" selected' in page, "where the shares lie furthest apart"
    assert "3 questions with an answer and 1 without" in page


def test_a_limit_is_used_and_taken_back(cast: Cast, carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    assert "Take it back" not in text_of(carl, address(run))
    carl.post(address(run, "limit/"), {"limit": "0.6000"})
    assert options_for(cast.acme.id).not_found_below == 0.6
    active = SearchProfile.objects.get(tenant=cast.acme, active=True)
    assert (active.origin, active.evidence_id) == ("manual", run.id)
    page = text_of(carl, address(run))
    assert "Before, it was 0.42" in page
    carl.post(address(run, "limit/"), {"limit": "0.4200"})
    assert options_for(cast.acme.id).not_found_below == 0.42
    assert "Before, it was 0.60" in text_of(carl, address(run))
    assert SearchProfile.objects.filter(tenant=cast.acme).count() == 2, "the old one is kept"


@pytest.mark.parametrize("limit", ["", "x", "nan", "inf", "-0.1", "1.5"])
def test_a_limit_that_is_none_is_refused_in_words(
    cast: Cast, carl: Client, shelf: Shelf, limit: str
) -> None:
    response = carl.post(address(shown_run(shelf), "limit/"), {"limit": limit}, follow=True)
    assert "0 " in response.content.decode()
    assert 'class="notice error"' in response.content.decode()
    assert not SearchProfile.objects.filter(tenant=cast.acme).exists()


def test_without_unanswerable_questions_there_is_no_curve(carl: Client, shelf: Shelf) -> None:
    page = text_of(carl, address(shown_run(shelf, figures={"refusals": []})))
    assert "Use this limit" not in page
    assert "Mark some questions of this set" in page


def test_a_question_shows_its_labels_ranks_and_passages(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    page = text_of(carl, address(run, f"questions/{shelf.questions[1].id}/"))
    assert "Is the &lt;i&gt;ferry&lt;/i&gt; late?" in page
    assert "Found, placed badly" in page
    assert "The ferry leaves at nine &lt;b&gt;sharp&lt;/b&gt;." in page
    assert "<b>sharp" not in page
    assert "Relevant, grade 1" in page
    row = page[page.index("<tbody>") : page.index("</tbody>")]
    ranks = re.findall(r'<td class="num">(\d+)\.</td>', row)
    assert ranks == ["3", "3", "3", "12", "12"]
    chunk = Chunk.objects.filter(document=shelf.answer).values_list("id", flat=True)
    with tenant_scope(shelf.tenant.id):
        assert f"?passage={chunk.get()}#passage-" in page


def test_a_question_without_an_answer_says_what_should_happen(carl: Client, shelf: Shelf) -> None:
    page = text_of(carl, address(shown_run(shelf), f"questions/{shelf.unanswerable.id}/"))
    assert "it should be refused" in page
    assert "Filler 0." in page


def test_a_deleted_document_is_said_to_be_gone(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    with tenant_scope(shelf.tenant.id):
        Document.objects.filter(id=shelf.fillers.id).delete()
    page = text_of(carl, address(run, f"questions/{shelf.questions[0].id}/"))
    assert "This document was deleted." in page
    assert "Filler" not in page


def test_a_passage_cut_anew_is_read_from_its_pages(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    with tenant_scope(shelf.tenant.id):
        Chunk.objects.filter(document=shelf.answer).delete()
    page = text_of(carl, address(run, f"questions/{shelf.questions[0].id}/"))
    assert "The ferry leaves at nine" in page


def test_a_question_whose_labels_went_is_not_counted_as_found(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    with tenant_scope(shelf.tenant.id):
        Label.objects.filter(question=shelf.questions[0]).delete()
        RunQuestion.objects.filter(run=run, question=shelf.questions[0]).update(metrics={})
    part = text_of(carl, address(run, "questions/?outcome=lost"))
    assert asked_in(part, shelf) == [0]
    assert "This question has no label any more" in text_of(
        carl, address(run, f"questions/{shelf.questions[0].id}/")
    )


def test_a_run_of_the_first_stages_is_judged_by_its_last(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf, configuration={"stages": list(STAGES[:3])})
    part = text_of(carl, address(run, "questions/?outcome=found"))
    assert sorted(asked_in(part, shelf)) == [0, 1], "found by the fused stage"


def test_a_question_that_the_run_did_not_ask_is_not_found(carl: Client, shelf: Shelf) -> None:
    run = shown_run(shelf)
    assert carl.get(address(run, f"questions/{uuid.uuid4()}/")).status_code == 404


def test_other_runs_of_the_set_are_offered_to_compare(carl: Client, shelf: Shelf) -> None:
    run, other = shown_run(shelf), shown_run(shelf, [FOUND] * 3)
    assert f"/t/acme/quality/compare/{other.id}/{run.id}/" in text_of(carl, address(run))


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ([(0.2, 0.0, 0.1), (0.3, 0.0, 0.9), (0.4, 0.5, 1.0)], 0.3),
        ([(0.2, 0, 1), (0.3, 0, 1), (0.4, 0, 1), (0.5, 0.5, 1)], 0.3),  # the middle of a stretch
        ([(0.2, 0.5, 0.5), (0.3, 1.0, 1.0)], 0.42),  # nothing tells them apart
        ([(0.2, 0.5, 0.1)], 0.42),
        ([], 0.42),
    ],
)
def test_the_limit_that_is_proposed_tells_the_kinds_of_questions_apart(
    rows: list[tuple[float, float, float]], limit: float
) -> None:
    curve = refusals({"refusals": rows})
    assert suggested_limit(curve, 0.42) == limit


def test_a_label_on_a_replaced_document_is_shown_where_it_is_now(
    carl: Client, shelf: Shelf
) -> None:
    before = shown_run(shelf)
    newer = replace_document(shelf)
    after = shown_run(dataclasses.replace(shelf, answer=newer))
    for run in (before, after):
        page = text_of(carl, address(run, f"questions/{shelf.questions[0].id}/"))
        assert page.count("Relevant, grade 1") == 5, "in each stage's list"
        assert f"/{newer.id}/?at=1" in page, "the label leads to the version that is searched"


def replace_document(shelf: Shelf) -> Document:
    """The answer's next version, which has the same words further on."""
    newer = make_document(
        shelf.answer.collection, ["News. The ferry leaves at nine."], state="ready"
    )
    with tenant_scope(shelf.tenant.id):
        Document.objects.filter(id=newer.id).update(path=shelf.answer.path, version=2)
        Document.objects.filter(id=shelf.answer.id).update(state="superseded")
        Page.objects.create(
            tenant=shelf.tenant,
            document=newer,
            number=1,
            text="News. The ferry leaves at nine.",
            char_start=0,
        )
    return newer
