"""An index built beside the one in force: everything in it, killed or not, and out of the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.documents.models import Collection, Document, DocumentState, Job, Stage
from apps.inference import errors as inference
from apps.retrieval import builds, indexing
from apps.retrieval.builds import building, errors, leases
from apps.retrieval.builds.selectors import progress_of
from apps.retrieval.models import (
    EmbeddingIndex,
    EmbeddingModel,
    IndexBuild,
    IndexedDocument,
)
from apps.retrieval.selectors import active_index
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.building import (
    OTHER_DIMENSIONS,
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
from tests.retrieval.corpus import (
    WordEmbedder,
    chunk_ids,
    delete_document,
    make_collection,
    make_document,
)

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


@pytest.fixture
def documents(other: OtherEmbedder, collection: Collection) -> list[Document]:
    return [
        add_ready(collection, [f"cat {number} sat", f"dog {number} ran"]) for number in range(3)
    ]


def refreshed(build: IndexBuild) -> IndexBuild:
    return IndexBuild.objects.select_related("source", "target").get(id=build.id)


def test_every_document_gets_a_vector_by_the_other_model(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    work()
    build = refreshed(build)
    assert build.state == State.READY
    assert build.target is not None
    assert build.target.dimensions == OTHER_DIMENSIONS
    found = vectors_in(build.target)
    assert set(found) == {chunk for document in documents for chunk in chunk_ids(document)}
    assert marked_in(build.target) == {document.id for document in documents}
    assert active_index(tenant.id) == build.source, "not in force by itself"


def test_a_document_that_becomes_ready_later_goes_into_both(
    tenant: Tenant, collection: Collection, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    work()
    late = add_ready(collection, ["a late bird"])
    make_due()
    work()
    build = refreshed(build)
    assert late.id in marked_in(build.source)
    assert late.id in marked_in(build.target)


@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_killed_at_any_piece_the_vectors_are_the_same(
    tenant: Tenant,
    collection: Collection,
    other: OtherEmbedder,
    model: EmbeddingModel,
    monkeypatch: pytest.MonkeyPatch,
    killed_at: int,
) -> None:
    monkeypatch.setattr(indexing, "STAGE_ABOVE", 4)
    monkeypatch.setattr(indexing, "PIECE_CHUNKS", 4)
    add_ready(collection, [f"word {number} of {number % 3}" for number in range(11)])
    calm = start(tenant, model)
    work()
    expected = vectors_in(refreshed(calm).target)
    builds.cancel_build(tenant=tenant, user=None, build_id=calm.id)
    work()

    other.texts.clear()
    build = start(tenant, model)
    pieces = iter(range(1, 100))

    def die() -> None:
        if next(pieces) == killed_at:
            raise KeyboardInterrupt

    other.before_batch = die
    with pytest.raises(KeyboardInterrupt):
        work()
    other.before_batch = lambda: None
    make_due()  # the lease of the killed worker has run out
    work()
    assert vectors_in(refreshed(build).target) == expected
    assert len(other.texts) == 11, "what was written before the kill is not done again"


def test_a_worker_thought_dead_writes_nothing_more(
    tenant: Tenant, documents: list[Document], other: OtherEmbedder, model: EmbeddingModel
) -> None:
    build = start(tenant, model)

    def taken_over() -> None:
        other.before_batch = lambda: None
        make_due()
        assert leases.take() is not None

    other.before_batch = taken_over
    assert builds.tend_next()
    assert vectors_in(refreshed(build).target) == {}


def test_of_two_workers_one_gets_the_build(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    start(tenant, model)
    assert leases.take() is not None
    assert leases.take() is None


def test_while_documents_wait_a_build_does_one_piece_and_gives_way(
    tenant: Tenant, collection: Collection, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    make_document(collection, ["waits to be indexed"])
    assert builds.tend_next()
    build = refreshed(build)
    assert len(marked_in(build.target)) == 1, "one, so that it does not starve"
    assert build.lease_expires_at is not None
    assert not builds.tend_next(), "as long as the piece took, others have the worker"


def test_the_throttle_holds_a_build_back(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model, passages_per_s=0.1)
    assert builds.tend_next()
    build = refreshed(build)
    assert len(marked_in(build.target)) == 1
    assert build.lease_expires_at is not None
    waits = (build.lease_expires_at - timezone.now()).total_seconds()
    assert 15 < waits <= 20, "two passages at a tenth a second"


def test_a_model_that_is_away_is_waited_for_and_said_so(
    tenant: Tenant, documents: list[Document], other: OtherEmbedder, model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    other.failures = [inference.Unavailable("down")]
    assert builds.tend_next()
    assert refreshed(build).error_code == "embedder_unavailable"
    make_due()
    work()
    assert state_of(build) == State.READY
    assert refreshed(build).error_code == ""


def test_a_text_that_the_model_refuses_holds_up_no_other(
    tenant: Tenant, documents: list[Document], other: OtherEmbedder, model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    other.failures = [inference.Rejected("too odd")]
    builds.tend_next()
    build = refreshed(build)
    assert len(marked_in(build.target)) == 2
    assert build.error_code == "embedder_rejected"


def test_deleting_a_document_meanwhile_does_no_harm(
    tenant: Tenant, documents: list[Document], other: OtherEmbedder, model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    left = [documents[1].id, documents[2].id]

    def delete() -> None:
        other.before_batch = lambda: None
        for document in documents[:1]:
            delete_document(document)

    other.before_batch = delete
    work()
    make_due()
    work()
    assert marked_in(refreshed(build).target) == set(left)
    assert state_of(build) == State.READY


def test_a_document_read_anew_meanwhile_gets_vectors_of_its_new_passages(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    work()
    document = documents[0]
    with tenant_scope(tenant.id):
        document.chunks.all().delete()
        document.chunks.create(
            tenant=tenant, ordinal=0, text="quite other words", char_start=0, char_end=9,
            page_first=1, page_last=1, token_count=3,
        )  # fmt: skip
        Document.objects.filter(id=document.id).update(state=DocumentState.INDEXING, chunk_count=1)
        Job.objects.create(
            tenant=tenant, document=document, stage=Stage.INDEX, turn=0, since=timezone.now()
        )
    assert indexing.index_next(sleep=lambda _: None)
    make_due()
    work()
    [chunk] = chunk_ids(document)
    assert chunk in vectors_in(refreshed(build).target)


def test_a_mark_without_its_vectors_is_taken_back_before_the_build_is_done(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    lost = chunk_ids(documents[0])[0]
    IndexedDocument.objects.create(
        tenant=tenant, index_id=build.target_id, document=documents[0], chunk_count=2
    )
    work()
    assert lost in vectors_in(refreshed(build).target)
    assert state_of(build) == State.READY


def test_pausing_stops_within_a_batch_and_resuming_goes_on(
    tenant: Tenant, documents: list[Document], other: OtherEmbedder, model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    other.before_batch = lambda: builds.pause_build(tenant=tenant, user=None, build_id=build.id)
    assert builds.tend_next()
    assert marked_in(refreshed(build).target) == set()
    assert not builds.tend_next(), "a paused build is not worked on"
    other.before_batch = lambda: None
    builds.resume_build(tenant=tenant, user=None, build_id=build.id)
    work()
    assert state_of(build) == State.READY


def test_a_cancelled_build_leaves_nothing_behind(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    work()
    target = refreshed(build).target
    builds.cancel_build(tenant=tenant, user=None, build_id=build.id)
    work()
    assert state_of(build) == State.CANCELLED
    assert vectors_in(target) == {}
    assert EmbeddingIndex.objects.filter(tenant=tenant).count() == 1
    again = start(tenant, model)
    work()
    assert state_of(again) == State.READY


def test_progress_is_in_passages_with_the_time_left(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    build = start(tenant, model)
    IndexBuild.objects.filter(id=build.id).update(chunks_done=2, embed_s=4.0)
    with tenant_scope(tenant.id):
        progress = progress_of(refreshed(build))
    assert (progress.passages, progress.documents, progress.documents_done) == (6, 3, 0)
    assert progress.passages_per_s == 0.5
    assert progress.seconds_left == 8.0
    work()
    with tenant_scope(tenant.id):
        progress = progress_of(refreshed(build))
    assert (progress.passages_done, progress.documents_done, progress.percent) == (6, 3, 100)


def test_one_build_at_a_time(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    start(tenant, model)
    with pytest.raises(errors.BuildUnderWay):
        start(tenant, model, chunk_tokens=64)


def test_the_index_in_force_is_not_built_again(tenant: Tenant, documents: list[Document]) -> None:
    with pytest.raises(errors.NothingToChange):
        start(tenant, None)


def test_without_a_document_there_is_nothing_to_build(
    tenant: Tenant, other: OtherEmbedder, model: EmbeddingModel
) -> None:
    with pytest.raises(errors.NoIndexYet):
        start(tenant, model)


@pytest.mark.parametrize(
    ("tokens", "overlap"), [(31, 0), (8001, 0), (64, 32), (64, -1), (-5, 0), (0, 0)]
)
def test_passages_that_cannot_be_cut_are_refused(
    tenant: Tenant, documents: list[Document], tokens: int, overlap: int
) -> None:
    with pytest.raises(errors.LengthsInvalid):
        start(tenant, None, chunk_tokens=tokens, chunk_overlap_tokens=overlap)


def test_a_model_that_does_not_answer_is_told_at_once(
    tenant: Tenant,
    documents: list[Document],
    model: EmbeddingModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Away(OtherEmbedder):
        @property
        def model_id(self) -> str:  # type: ignore[override]
            raise inference.Unavailable("The embedding server does not answer.")

    hand_out(monkeypatch, WordEmbedder(), Away(), model)
    with pytest.raises(errors.ModelUnreachable, match="does not answer"):
        start(tenant, model)


@pytest.mark.parametrize(
    "act",
    [
        builds.pause_build,
        builds.resume_build,
        builds.cancel_build,
        builds.drop_now,
        builds.compare_again,
        builds.switch,
        builds.switch_back,
    ],
)
def test_another_tenants_build_cannot_be_touched(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel, act: Callable[..., object]
) -> None:
    build = start(tenant, model)
    rival = Tenant.objects.create(slug="rival", name="Rival")
    before = refreshed(build).state
    with pytest.raises(errors.NotNow):
        act(tenant=rival, user=None, build_id=build.id)
    assert refreshed(build).state == before


def test_only_the_tenants_own_documents_are_built(
    tenant: Tenant, documents: list[Document], model: EmbeddingModel
) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    add_ready(make_collection(rival), ["not to be read"])
    build = start(tenant, model)
    work()
    assert marked_in(refreshed(build).target) == {document.id for document in documents}


def test_the_longest_waiting_build_is_next(tenant: Tenant, documents: list[Document]) -> None:
    assert building.SLICE_S > 0
    first = IndexBuild.objects.create(tenant=tenant, source_label="a", target_label="b")
    rival = Tenant.objects.create(slug="rival", name="Rival")
    second = IndexBuild.objects.create(tenant=rival, source_label="a", target_label="b")
    IndexBuild.objects.filter(id=first.id).update(
        lease_expires_at=timezone.now() - timedelta(seconds=1)
    )
    claim = leases.take()
    assert claim is not None
    assert claim.build_id == second.id
