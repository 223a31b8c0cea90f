"""The page of the embedding model: what is shown, and who may do what."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.documents.models import Collection
from apps.inference import errors as inference
from apps.retrieval import builds
from apps.retrieval.models import EmbeddingModel, IndexBuild
from apps.retrieval.selectors import active_index
from tests.cast import Cast, signed_in
from tests.retrieval.building import (
    OtherEmbedder,
    add_ready,
    hand_out,
    make_due,
    make_model,
    start,
    state_of,
    work,
)
from tests.retrieval.corpus import WordEmbedder, make_collection
from tests.retrieval.test_switching import _no_reranker, _own_gates_only  # noqa: F401

pytestmark = pytest.mark.django_db

PAGE = "/t/acme/quality/embedding/"
START = f"{PAGE}start/"


@pytest.fixture
def model() -> EmbeddingModel:
    return make_model("Polyglot")


@pytest.fixture
def other(model: EmbeddingModel, monkeypatch: pytest.MonkeyPatch) -> OtherEmbedder:
    stand_in = OtherEmbedder()
    hand_out(monkeypatch, WordEmbedder(), stand_in, model)
    return stand_in


@pytest.fixture
def shelf(cast: Cast, other: OtherEmbedder) -> Collection:
    made = make_collection(cast.acme)
    add_ready(made, ["cats purr", "dogs bark"])
    return made


@pytest.fixture
def alice(cast: Cast) -> Client:
    return signed_in(cast.alice)


def page(browser: Client) -> str:
    response = browser.get(PAGE)
    assert response.status_code == 200
    return response.content.decode()


def act(browser: Client, build: IndexBuild, action: str, **more: str) -> str:
    """The page that follows."""
    response = browser.post(f"{PAGE}{build.id}/", {"action": action, **more}, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def test_the_index_in_force_is_shown_with_its_figures(alice: Client, shelf: Collection) -> None:
    shown = page(alice)
    assert "words" in shown
    assert "<dt>Passages</dt><dd>2</dd>" in shown
    assert "<dt>Dimensions</dt><dd>64</dd>" in shown


def test_without_documents_the_page_says_what_makes_an_index(alice: Client) -> None:
    assert "the first document makes it" in page(alice)


def test_without_another_model_the_page_says_how_to_add_one(
    alice: Client, shelf: Collection, model: EmbeddingModel
) -> None:
    assert "manage.py embedding_models add" not in page(alice)
    model.delete()
    assert "manage.py embedding_models add" in page(alice)


def test_from_the_start_to_the_switch_and_back(
    alice: Client, cast: Cast, shelf: Collection, model: EmbeddingModel
) -> None:
    answer = alice.post(START, {"model": str(model.id), "passages_per_s": "100"}, follow=True)
    build = IndexBuild.objects.get(tenant=cast.acme)
    assert build.started_by == cast.alice
    shown = answer.content.decode()
    assert "is being built" in shown
    assert "Polyglot" in shown
    assert 'hx-trigger="every 2s"' in shown
    work()
    make_due()
    work()
    shown = page(alice)
    assert "Every document is in it" in shown
    assert "Put in force…" in shown
    assert "hx-trigger" not in shown, "nothing moves"
    assert "from now on" in act(alice, build, "switch")
    index = active_index(cast.acme.id)
    assert index is not None
    assert index.embedder == model
    assert "Switch back…" in page(alice)
    act(alice, build, "back")
    assert state_of(build) == IndexBuild.State.BACK


def test_a_refused_switch_says_which_gate_and_takes_a_reason(
    alice: Client, cast: Cast, shelf: Collection, model: EmbeddingModel
) -> None:
    build = start(cast.acme, model)
    work()
    add_ready(shelf, ["late birds"])
    assert "Not passed: Every document is in it" in act(alice, build, "switch")
    assert state_of(build) == IndexBuild.State.READY
    reason = "<b>It cannot wait</b>"
    shown = act(alice, build, "switch", reason=reason)
    assert state_of(build) == IndexBuild.State.SWITCHED
    assert "&lt;b&gt;It cannot wait&lt;/b&gt;" in shown
    assert reason not in shown


@pytest.mark.parametrize("action", ["pause", "throttle", "cancel"])
def test_a_build_under_way_is_controlled(
    alice: Client, cast: Cast, shelf: Collection, model: EmbeddingModel, action: str
) -> None:
    build = start(cast.acme, model)
    act(alice, build, action, passages_per_s="7.5")
    build.refresh_from_db()
    expected = {"pause": "paused", "cancel": "dropping"}.get(action, "building")
    assert build.state == expected
    if action == "throttle":
        assert build.passages_per_s == 7.5


@pytest.mark.parametrize("action", ["", "explode", "SWITCH"])
def test_an_action_nobody_knows_is_refused(
    alice: Client, cast: Cast, shelf: Collection, model: EmbeddingModel, action: str
) -> None:
    build = start(cast.acme, model)
    response = alice.post(f"{PAGE}{build.id}/", {"action": action})
    assert response.status_code == 400
    assert state_of(build) == IndexBuild.State.BUILDING


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "nonsense"},
        {"model": "00000000-0000-0000-0000-000000000000"},
        {"model": "same"},
        {"model": "same", "chunk_tokens": "3"},
        {"model": "same", "chunk_tokens": "64", "chunk_overlap_tokens": "63"},
        {"model": "same", "chunk_overlap_tokens": "10"},
        {"model": "same", "chunk_tokens": "1e9"},
        {"model": "same", "chunk_tokens": "64", "passages_per_s": "-1"},
        {"model": "same", "chunk_tokens": "64", "passages_per_s": "nan"},
    ],
)
def test_what_cannot_be_built_is_refused_with_words(
    alice: Client, cast: Cast, shelf: Collection, fields: dict[str, str]
) -> None:
    response = alice.post(START, fields)
    assert response.status_code == 400
    assert "errorlist" in response.content.decode()
    assert not IndexBuild.objects.exists()


def test_a_corpus_admin_looks_on(cast: Cast, shelf: Collection, model: EmbeddingModel) -> None:
    build = start(cast.acme, model)
    browser = signed_in(cast.carl)
    shown = page(browser)
    assert "can put it in force" in shown
    assert "data-dialog=" not in shown
    assert browser.post(START, {"model": "own"}).status_code == 403
    assert browser.post(f"{PAGE}{build.id}/", {"action": "pause"}).status_code == 403


def test_only_the_part_is_returned_to_htmx(alice: Client, shelf: Collection) -> None:
    part = alice.get(PAGE, headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div class="stack loose" id="embedding"')


def test_past_changes_are_listed(
    alice: Client, cast: Cast, shelf: Collection, model: EmbeddingModel
) -> None:
    build = start(cast.acme, model)
    builds.cancel_build(tenant=cast.acme, user=None, build_id=build.id)
    work()
    assert "Given up" in page(alice)


def test_a_model_is_added_by_a_command_once_it_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apps.inference.registry.get_embedder", lambda spec=None: OtherEmbedder())
    out = StringIO()
    call_command("embedding_models", "add", "Poly", "http://127.0.0.1:9", "--languages", "*")
    call_command("embedding_models", "list", stdout=out)
    assert out.getvalue() == "Poly: tei http://127.0.0.1:9\n"
    assert EmbeddingModel.objects.get().languages == ["*"]
    with pytest.raises(CommandError, match="already exists"):
        call_command("embedding_models", "add", "Poly", "http://127.0.0.1:8")


def test_a_model_that_does_not_answer_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(spec: object = None) -> OtherEmbedder:
        raise inference.Unavailable("The embedding server does not answer.")

    monkeypatch.setattr("apps.inference.registry.get_embedder", away)
    with pytest.raises(CommandError, match="does not answer"):
        call_command("embedding_models", "add", "Poly", "http://127.0.0.1:9")
    assert not EmbeddingModel.objects.exists()


def test_site_staff_cannot_change_a_model_under_an_index(
    cast: Cast, shelf: Collection, model: EmbeddingModel
) -> None:
    start(cast.acme, model)
    cast.olga.is_staff = cast.olga.is_superuser = True
    cast.olga.save()
    browser = signed_in(cast.olga)
    shown = browser.get(f"/admin/retrieval/embeddingmodel/{model.id}/change/").content.decode()
    assert 'name="location"' in shown
    assert 'name="query_prompt"' not in shown
    deleted = browser.post(f"/admin/retrieval/embeddingmodel/{model.id}/delete/", {"post": "yes"})
    assert deleted.status_code == 403
