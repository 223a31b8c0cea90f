"""Putting an index in force: gates, one step, the way back, and what is dropped in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.documents.models import Collection, Document, DocumentState
from apps.inference import errors as inference
from apps.inference.types import Vectors
from apps.retrieval import builds
from apps.retrieval.builds import errors, gates
from apps.retrieval.builds.gates import GateResult
from apps.retrieval.indexing import index_next
from apps.retrieval.models import (
    AnnIndex,
    EmbeddingIndex,
    EmbeddingModel,
    IndexBuild,
    SwitchOverride,
)
from apps.retrieval.pipeline import retrieve
from apps.retrieval.selectors import active_index
from apps.telemetry.hops import Trace
from apps.telemetry.models import AuditEvent
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.retrieval.building import (
    OtherEmbedder,
    add_ready,
    hand_out,
    make_due,
    make_model,
    marked_in,
    start,
    state_of,
    vectors_in,
    work,
)
from tests.retrieval.corpus import CoverageReranker, WordEmbedder, make_document

pytestmark = pytest.mark.django_db

State = IndexBuild.State


@pytest.fixture
def model() -> EmbeddingModel:
    return make_model()


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch, model: EmbeddingModel) -> OtherEmbedder:
    stand_in = OtherEmbedder()
    hand_out(monkeypatch, WordEmbedder(), stand_in, model)
    return stand_in


@pytest.fixture(autouse=True)
def _no_reranker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.inference.registry.get_reranker", lambda spec=None: None)


@pytest.fixture(autouse=True)
def _own_gates_only() -> Iterator[None]:
    """Those of other rooms are tested there."""
    kept = dict(gates._CHECKS)
    for name in set(kept) - {gates.COMPLETE, gates.SEARCH_PLAN}:
        del gates._CHECKS[name]
    yield
    gates._CHECKS.clear()
    gates._CHECKS.update(kept)


@pytest.fixture
def build(
    tenant: Tenant, collection: Collection, other: OtherEmbedder, model: EmbeddingModel
) -> IndexBuild:
    """Built, compared, and ready to be put in force."""
    for number in range(3):
        add_ready(collection, [f"cat {number} sat", f"dog {number} ran"])
    made = start(tenant, model)
    work()
    return refreshed(made)


def refreshed(build: IndexBuild) -> IndexBuild:
    return IndexBuild.objects.select_related("source", "target").get(id=build.id)


def switch(build: IndexBuild, *, user: User | None = None, reason: str = "") -> None:
    builds.switch(tenant=build.tenant, user=user, build_id=build.id, reason=reason)


def switch_back(build: IndexBuild) -> None:
    builds.switch_back(tenant=build.tenant, user=None, build_id=build.id)


def make_old(build: IndexBuild) -> None:
    """As if it had been switched long ago."""
    past = timezone.now() - timedelta(days=1)
    IndexBuild.objects.filter(id=build.id).update(
        switched_at=past, keep_until=past, lease_expires_at=None
    )


def ask(tenant: Tenant, collection: Collection, question: str) -> Trace:
    trace = Trace(tenant.id, "answer")
    found = retrieve(
        tenant_id=tenant.id, question=question, collection_ids=[collection.id], trace=trace
    )
    assert found.passages
    assert not found.notices
    return trace


def test_the_model_a_question_is_embedded_with_is_that_of_the_index(
    tenant: Tenant, collection: Collection, build: IndexBuild, other: OtherEmbedder
) -> None:
    before = ask(tenant, collection, "where is the cat")
    assert before.hops[0].attributes["model"] == "words"
    switch(build)
    after = ask(tenant, collection, "where is the cat")
    assert after.hops[0].attributes["model"] == "other-words"
    assert after.hops[0].attributes["index"] == str(build.target_id)
    assert other.asked == ["where is the cat"]


def test_a_question_under_way_stays_with_the_index_it_began_with(
    tenant: Tenant, collection: Collection, build: IndexBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(WordEmbedder):
        def embed_query(self, text: str) -> Vectors:
            vector = super().embed_query(text)
            switch(build)
            return vector

    model = EmbeddingModel.objects.get()
    hand_out(monkeypatch, Slow(), OtherEmbedder(), model)
    trace = ask(tenant, collection, "where is the cat")
    assert trace.hops[0].attributes["model"] == "words"
    assert int(trace.hops[1].attributes["vector_candidates"]) > 0
    assert active_index(tenant.id) == build.target


def test_new_documents_go_to_the_index_in_force_and_to_the_one_that_is_kept(
    tenant: Tenant, collection: Collection, build: IndexBuild
) -> None:
    switch(build)
    late = add_ready(collection, ["a late bird"])
    assert late.id in marked_in(build.target)
    make_due()
    work()
    assert late.id in marked_in(build.source)


def test_a_switch_back_and_forth_loses_nothing(
    tenant: Tenant, collection: Collection, build: IndexBuild
) -> None:
    switch(build)
    add_ready(collection, ["a late bird"])
    make_due()
    work()
    switch_back(build)
    assert active_index(tenant.id) == build.source
    add_ready(collection, ["a later bird"])
    make_due()
    work()
    switch(build)
    assert active_index(tenant.id) == build.target
    assert marked_in(build.source) == marked_in(build.target)
    assert len(marked_in(build.target)) == 5


def test_a_document_being_indexed_during_the_switch_ends_in_the_index_in_force(
    tenant: Tenant, collection: Collection, build: IndexBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed_documents(texts)
            if active_index(tenant.id) == build.source:
                switch(build)
            return vectors

    hand_out(monkeypatch, Late(), OtherEmbedder(), EmbeddingModel.objects.get())
    late = make_document(collection, ["a late bird"])
    while index_next(sleep=lambda _: None):
        pass
    with tenant_scope(tenant.id):
        assert Document.objects.get(id=late.id).state == DocumentState.READY
    assert late.id in marked_in(build.target)
    make_due()
    work()
    assert late.id in marked_in(build.source)


def test_it_is_refused_while_a_document_is_missing(
    tenant: Tenant, collection: Collection, build: IndexBuild
) -> None:
    add_ready(collection, ["a late bird"])
    with pytest.raises(errors.GateRefused) as caught:
        switch(build)
    assert caught.value.gates == (gates.COMPLETE,)
    assert active_index(tenant.id) == build.source


def test_a_gate_is_overridden_with_a_reason_that_is_kept(
    tenant: Tenant, collection: Collection, build: IndexBuild
) -> None:
    add_ready(collection, ["a late bird"])
    user = User.objects.create_user(username="alice")
    with pytest.raises(errors.GateRefused):
        switch(build, reason="   ")
    switch(build, user=user, reason="The old model's server is being shut down.")
    with tenant_scope(tenant.id):
        [given] = SwitchOverride.objects.all()
    assert given.reason == "The old model's server is being shut down."
    assert given.by == user
    assert AuditEvent.objects.filter(action="index.switch_forced", actor_id=user.id).exists()
    make_due()
    work()
    assert len(marked_in(build.target)) == 4, "what was missing is added all the same"


def test_no_reason_is_kept_where_no_gate_refused(tenant: Tenant, build: IndexBuild) -> None:
    switch(build, reason="Just in case.")
    with tenant_scope(tenant.id):
        assert not SwitchOverride.objects.exists()


def test_gates_of_other_rooms_are_asked_until_they_know(
    tenant: Tenant, collection: Collection, other: OtherEmbedder, model: EmbeddingModel
) -> None:
    answers = [
        GateResult("compared", False, "Being compared.", pending=True, figures={"run": "1"}),
        GateResult("compared", False, "It finds less."),
    ]
    seen: list[object] = []

    def compare(build: IndexBuild) -> GateResult:
        seen.append(gates.last_result(build, "compared"))
        return answers.pop(0)

    gates.register("compared", compare, title="Compared")
    add_ready(collection, ["cat sat"])
    build = start(tenant, model)
    work()
    make_due()
    work()
    make_due()
    work()
    assert not answers, "asked twice, and not again once it had answered"
    assert seen[0] == {}
    assert seen[1]["figures"] == {"run": "1"}  # type: ignore[index]
    with pytest.raises(errors.GateRefused) as caught:
        switch(refreshed(build))
    assert caught.value.gates == ("compared",)
    answers.append(GateResult("compared", True, "As good as before."))
    builds.compare_again(tenant=tenant, user=None, build_id=build.id)
    work()
    switch(refreshed(build))


def test_a_large_tenant_is_not_switched_before_its_hnsw_index_is_there(
    tenant: Tenant, build: IndexBuild, settings: Settings
) -> None:
    settings.HNSW_ABOVE_CHUNKS = 3
    with pytest.raises(errors.GateRefused) as caught:
        switch(build)
    assert caught.value.gates == (gates.SEARCH_PLAN,)
    AnnIndex.objects.create(
        tenant=tenant, index=build.target, m=16, ef_construction=64, state=AnnIndex.State.READY
    )
    switch(build)
    assert active_index(tenant.id) == build.target


def test_a_build_that_is_not_ready_is_not_put_in_force(
    tenant: Tenant, collection: Collection, other: OtherEmbedder, model: EmbeddingModel
) -> None:
    add_ready(collection, ["cat sat"])
    build = start(tenant, model)
    with pytest.raises(errors.NotNow):
        switch(build, reason="I want it now.")


def test_the_old_index_is_kept_and_then_dropped(tenant: Tenant, build: IndexBuild) -> None:
    switch(build)
    work()
    assert vectors_in(build.source), "kept for the way back"
    make_old(build)
    work()
    assert state_of(build) == State.DONE
    assert vectors_in(build.source) == {}
    assert list(EmbeddingIndex.objects.filter(tenant=tenant)) == [build.target]
    with pytest.raises(errors.NotNow):
        switch_back(build)
    assert refreshed(build).source is None


def test_switched_back_the_new_index_is_dropped_in_the_end(
    tenant: Tenant, build: IndexBuild
) -> None:
    switch(build)
    switch_back(build)
    make_old(build)
    work()
    assert state_of(build) == State.CANCELLED
    assert list(EmbeddingIndex.objects.filter(tenant=tenant)) == [build.source]


def test_an_index_just_left_is_not_dropped_under_a_question(
    tenant: Tenant, build: IndexBuild
) -> None:
    switch(build)
    builds.drop_now(tenant=tenant, user=None, build_id=build.id)
    work()
    assert state_of(build) == State.SWITCHED
    assert vectors_in(build.source)


def test_dropping_goes_on_where_it_was_killed(
    tenant: Tenant, build: IndexBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(build)
    make_old(build)
    with monkeypatch.context() as patch:

        def die(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("apps.retrieval.builds.dropping._remove_index", die)
        with pytest.raises(KeyboardInterrupt):
            work()
    assert state_of(build) == State.DROPPING
    make_due()
    work()
    assert state_of(build) == State.DONE
    assert list(EmbeddingIndex.objects.filter(tenant=tenant)) == [build.target]


def test_a_document_whose_text_the_model_refuses_does_not_keep_the_old_index_for_ever(
    tenant: Tenant, collection: Collection, build: IndexBuild, other: OtherEmbedder
) -> None:
    other.failures = [inference.Rejected("too odd")] * 20
    add_ready(collection, ["odd"])
    make_due()
    work()
    switch(build, reason="One text is refused by the model.")
    make_old(build)
    work()
    assert state_of(build) == State.DONE


def test_the_reranker_is_by_the_model_of_the_index(
    tenant: Tenant, collection: Collection, build: IndexBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def get_reranker(spec: object = None) -> CoverageReranker:
        asked.append(spec)
        return CoverageReranker()

    monkeypatch.setattr("apps.inference.registry.get_reranker", get_reranker)
    ask(tenant, collection, "where is the cat")
    switch(build)
    ask(tenant, collection, "where is the cat")
    assert asked[0] is None
    assert asked[-1].location == "http://127.0.0.1:9"  # type: ignore[attr-defined]


def test_documents_stay_as_they_are_where_nothing_is_cut_anew(
    tenant: Tenant, build: IndexBuild
) -> None:
    switch(build)
    with tenant_scope(tenant.id):
        assert set(Document.objects.values_list("generation", flat=True)) == {0}


def test_a_changed_setting_is_migrated_to_without_mixing_models(
    tenant: Tenant, collection: Collection, other: OtherEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_ready(collection, ["cat sat", "dog ran"])
    old = active_index(tenant.id)
    before = vectors_in(old)
    hand_out(monkeypatch, other, other, EmbeddingModel.objects.get())  # the settings' own now
    late = add_ready(collection, ["a late bird"])
    build = refreshed(start(tenant, None))
    work()
    assert state_of(build) == State.READY
    assert len(marked_in(build.target)) == 2
    switch(build)
    make_due()
    work()
    assert vectors_in(old) == before, "no vector of the new model in the old index"
    assert late.id in marked_in(active_index(tenant.id))
    make_old(build)
    work()
    assert state_of(build) == State.DONE


def test_a_server_that_serves_another_model_now_is_not_taken_at_its_word(
    tenant: Tenant, collection: Collection, other: OtherEmbedder, model: EmbeddingModel
) -> None:
    add_ready(collection, ["cat sat"])
    build = start(tenant, model)
    other.model_id = "something-else"
    work()
    build = refreshed(build)
    assert build.error_code == "model_changed"
    assert build.state == State.BUILDING
    assert vectors_in(build.target) == {}
