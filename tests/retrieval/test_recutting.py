"""Passages cut anew: beside the old ones, switched with the index, dropped with it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from pytest_django import Settings

from apps.documents import services
from apps.documents.chunkings import chunking_in_force
from apps.documents.ingestion import ingest_next
from apps.documents.models import Chunk, Chunking, Collection, Document
from apps.retrieval import builds
from apps.retrieval.builds.selectors import progress_of
from apps.retrieval.indexing import index_next
from apps.retrieval.models import (
    ChunkTerms,
    CollectionStatistics,
    EmbeddingModel,
    IndexBuild,
    TermFrequency,
)
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import Trace
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.building import (
    OtherEmbedder,
    hand_out,
    make_due,
    make_model,
    marked_in,
    start,
    state_of,
    vectors_in,
    work,
)
from tests.retrieval.corpus import WordEmbedder
from tests.retrieval.test_switching import make_old, refreshed, switch, switch_back

pytestmark = pytest.mark.django_db

TEXT = "# Guide\n\n" + "\n\n".join(
    f"Section {number} tells of the river, the mill and the road to town. " * 6
    for number in range(8)
)


@pytest.fixture(autouse=True)
def _media(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"


@pytest.fixture(autouse=True)
def _no_reranker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.inference.registry.get_reranker", lambda spec=None: None)


@pytest.fixture
def model() -> EmbeddingModel:
    return make_model()


@pytest.fixture
def document(
    tenant: Tenant,
    collection: Collection,
    model: EmbeddingModel,
    monkeypatch: pytest.MonkeyPatch,
) -> Document:
    hand_out(monkeypatch, WordEmbedder(), OtherEmbedder(), model)
    return add(tenant, collection, "guide.md", TEXT)


def add(tenant: Tenant, collection: Collection, name: str, text: str) -> Document:
    document = services.receive_upload(
        tenant=tenant, collection=collection, user=None, path=name, file=BytesIO(text.encode())
    )
    assert ingest_next()
    assert index_next(sleep=lambda _: None)
    return reload(document)


def reload(document: Document) -> Document:
    with tenant_scope(document.tenant_id):
        return Document.objects.get(id=document.id)


def chunks_of(document: Document, generation: int) -> list[Chunk]:
    with tenant_scope(document.tenant_id):
        chunks = Chunk.objects.filter(document=document, generation=generation)
        return list(chunks.order_by("ordinal"))


def recut(tenant: Tenant, model: EmbeddingModel | None = None) -> IndexBuild:
    made = start(tenant, model, chunk_tokens=40, chunk_overlap_tokens=0)
    work()
    return refreshed(made)


def found(tenant: Tenant, collection: Collection) -> set[object]:
    retrieval = retrieve(
        tenant_id=tenant.id,
        question="where is the river and the mill",
        collection_ids=[collection.id],
        trace=Trace(tenant.id, "answer"),
    )
    assert not retrieval.notices
    return {passage.chunk_id for passage in retrieval.passages}


def test_passages_are_cut_beside_the_old_ones_and_shown_with_the_switch(
    tenant: Tenant, collection: Collection, document: Document
) -> None:
    old = chunks_of(document, 0)
    build = recut(tenant)
    assert build.target is not None
    new = chunks_of(document, build.target.generation)
    assert len(new) > len(old)
    assert max(chunk.token_count for chunk in new) <= 40
    assert set(vectors_in(build.target)) == {chunk.id for chunk in new}
    with tenant_scope(tenant.id):
        progress = progress_of(build)
    assert (progress.passages_done, progress.cut_anew) == (len(old), len(new))
    assert found(tenant, collection) <= {chunk.id for chunk in old}

    switch(build, reason="No set to compare on.")
    assert found(tenant, collection) <= {chunk.id for chunk in new}
    document = reload(document)
    assert (document.generation, document.chunk_count) == (build.target.generation, len(new))
    assert chunking_in_force(tenant.id).max_tokens == 40


def test_labels_hold_for_the_text_is_the_same(tenant: Tenant, document: Document) -> None:
    build = recut(tenant)
    assert build.target is not None
    for chunk in chunks_of(document, build.target.generation):
        assert TEXT[chunk.char_start : chunk.char_end] == chunk.text


def test_both_cuts_get_what_is_added_before_and_after_the_switch(
    tenant: Tenant, collection: Collection, document: Document
) -> None:
    build = recut(tenant)
    assert build.target is not None
    before = add(tenant, collection, "before.md", TEXT.replace("river", "lake"))
    make_due()
    work()
    switch(build, reason="No set to compare on.")
    after = add(tenant, collection, "after.md", TEXT.replace("river", "sea"))
    assert after.generation == build.target.generation
    make_due()
    work()
    for index in (build.source, build.target):
        assert marked_in(index) == {document.id, before.id, after.id}
    assert len(chunks_of(after, 0)) < len(chunks_of(after, build.target.generation))
    switch_back(build)
    assert reload(after).generation == 0
    assert reload(after).chunk_count == len(chunks_of(after, 0))
    assert chunking_in_force(tenant.id).generation == 0


def test_statistics_are_kept_for_each_cut(
    tenant: Tenant, collection: Collection, document: Document
) -> None:
    build = recut(tenant)
    assert build.target is not None
    for generation in (0, build.target.generation):
        statistics = CollectionStatistics.objects.get(collection=collection, generation=generation)
        assert statistics.chunk_count == len(chunks_of(document, generation))


def test_dropping_the_old_cut_leaves_nothing_of_it(
    tenant: Tenant, collection: Collection, document: Document
) -> None:
    build = recut(tenant)
    switch(build, reason="No set to compare on.")
    make_old(build)
    work()
    assert state_of(build) == IndexBuild.State.DONE
    assert chunks_of(document, 0) == []
    for rows in (ChunkTerms, CollectionStatistics, TermFrequency):
        assert not rows.objects.filter(tenant=tenant, generation=0).exists()
    assert found(tenant, collection)


def test_a_build_given_up_leaves_nothing_of_its_cut(tenant: Tenant, document: Document) -> None:
    build = recut(tenant)
    assert build.target is not None
    generation = build.target.generation
    builds.cancel_build(tenant=tenant, user=None, build_id=build.id)
    work()
    assert chunks_of(document, generation) == []
    assert chunks_of(document, 0)
    assert not ChunkTerms.objects.filter(tenant=tenant, generation=generation).exists()
    assert not Chunking.objects.filter(tenant=tenant).exists()


def test_a_file_that_is_gone_keeps_its_passages(
    tenant: Tenant, collection: Collection, document: Document
) -> None:
    default_storage.delete(document.storage_key)
    build = recut(tenant)
    assert build.target is not None
    new = chunks_of(document, build.target.generation)
    assert [chunk.text for chunk in new] == [chunk.text for chunk in chunks_of(document, 0)]
    switch(build, reason="No set to compare on.")
    assert found(tenant, collection)


def test_model_and_cut_may_change_together(
    tenant: Tenant, collection: Collection, document: Document, model: EmbeddingModel
) -> None:
    build = recut(tenant, model)
    assert build.target is not None
    assert (build.target.model_id, build.target.chunk_tokens) == ("other-words", 40)
    switch(build, reason="No set to compare on.")
    assert found(tenant, collection)


def test_a_document_left_out_of_a_switch_is_cut_and_shown_afterwards(
    tenant: Tenant, collection: Collection, document: Document
) -> None:
    build = recut(tenant)
    assert build.target is not None
    late = add(tenant, collection, "late.md", TEXT.replace("river", "lake"))
    switch(build, reason="It cannot wait.")
    assert reload(late).generation == 0
    make_due()
    work()
    late = reload(late)
    assert late.generation == build.target.generation
    assert late.chunk_count == len(chunks_of(late, late.generation))


def test_killed_between_cut_and_vectors_it_goes_on(
    tenant: Tenant, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = start(tenant, None, chunk_tokens=40, chunk_overlap_tokens=0)
    with monkeypatch.context() as patch:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("apps.retrieval.builds.pieces._embed", die)
        with pytest.raises(KeyboardInterrupt):
            work()
    make_due()
    work()
    build = refreshed(made)
    assert build.target is not None
    chunks = chunks_of(document, build.target.generation)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert set(vectors_in(build.target)) == {chunk.id for chunk in chunks}
