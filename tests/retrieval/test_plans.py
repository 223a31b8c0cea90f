"""Which plan a search gets, and what the search hop makes of it."""

from __future__ import annotations

import threading
import uuid
from contextlib import closing
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from apps.documents.models import Collection, Document, DocumentState
from apps.retrieval import bm25, rows, vectors
from apps.retrieval.filters import Narrowed
from apps.retrieval.hops.find import find
from apps.retrieval.hops.state import Search
from apps.retrieval.models import AnnIndex
from apps.retrieval.options import EF_SEARCH, SearchFilter, SearchOptions
from apps.retrieval.plans import SearchPlan, plan_search
from apps.retrieval.snapshots import snapshot
from apps.telemetry.hops import Hop, Trace
from apps.telemetry.metrics import SHORT_SEARCHES
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import (
    WordEmbedder,
    delete_document,
    make_collection,
    make_document,
    write_rows,
)
from tests.retrieval.large import Large, clustered, make_large

pytestmark = pytest.mark.django_db

QUESTION = clustered(1, seed=9)[0]


@pytest.fixture(autouse=True)
def _line(settings: Settings) -> None:
    settings.HNSW_ABOVE_CHUNKS = 50


@pytest.fixture
def large(collection: Collection) -> Large:
    return make_large(collection, 60)


def plan(large: Large, narrowed: Narrowed | None = None, **options: object) -> SearchPlan:
    return plan_search(
        index=large.index,
        options=SearchOptions(**options),  # type: ignore[arg-type]
        collection_ids=[large.collection.id],
        narrowed=narrowed or Narrowed(),
    )


def ready(large: Large, **values: object) -> AnnIndex:
    """A row that says so; there is no index in the database."""
    return AnnIndex.objects.create(
        **{  # type: ignore[misc]
            "tenant": large.tenant, "index": large.index, "m": 16, "ef_construction": 64,
            "state": "ready", **values,
        }
    )  # fmt: skip


def test_few_chunks_are_searched_exactly(collection: Collection) -> None:
    large = make_large(collection, 50)
    ready(large)
    assert plan(large) == SearchPlan("exact", "few chunks", 50)


def test_many_chunks_are_searched_with_the_index_the_options_name(large: Large) -> None:
    ready(large, m=8)
    wanted = ready(large)
    assert plan(large) == SearchPlan(
        "hnsw", "many chunks", 60, ef_search=EF_SEARCH, storage="halfvec", ann_id=wanted.id
    )


def test_where_none_is_ready_search_is_exact_and_says_why(large: Large) -> None:
    ready(large, state="building")
    ready(large, m=8, state="failed")
    assert plan(large) == SearchPlan("exact", "many chunks, but no HNSW index is ready yet", 60)


def test_another_tenants_index_is_not_used(large: Large) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    ready(make_large(make_collection(rival), 60))
    assert plan(large).kind == "exact"


def test_whoever_asks_for_exact_search_gets_it(large: Large) -> None:
    ready(large)
    assert plan(large, exact=True) == SearchPlan("exact", "asked for", 60)


@pytest.mark.parametrize(
    ("ef_search", "candidates", "expected"), [(200, 100, 200), (40, 100, 100), (5000, 10, 1000)]
)
def test_ef_search_is_never_below_the_candidates_nor_above_what_pgvector_takes(
    large: Large, ef_search: int, candidates: int, expected: int
) -> None:
    ready(large)
    assert plan(large, ef_search=ef_search, leg_candidates=candidates).ef_search == expected


def test_a_part_of_a_large_tenant_is_searched_exactly_up_to_a_multiple_of_the_line(
    collection: Collection,
) -> None:
    large = make_large(collection, 400)
    ready(large)
    assert plan(large, Narrowed([large.document.id], 250)) == SearchPlan(
        "exact", "a small part of the chunks", 250
    )
    assert plan(large, Narrowed([large.document.id], 251)).kind == "hnsw"


def test_one_collection_of_a_large_tenant_is_a_part(large: Large) -> None:
    ready(large)
    other = make_large(make_collection(large.tenant, "Other"), 60)
    assert plan(other).reason == "a small part of the chunks"
    assert plan(other).rows == 60


def test_planning_takes_two_queries(
    large: Large, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ready(large)
    with django_assert_num_queries(2):
        plan(large)


def search_of(large: Large, **options: object) -> Search:
    return Search(
        tenant_id=large.tenant.id,
        question="anything",
        collection_ids=[large.collection.id],
        limit=8,
        language="",
        options=SearchOptions(**options),  # type: ignore[arg-type]
        narrowed=SearchFilter(),
        index=large.index,
        vector=QUESTION,
    )


def hop_of(search: Search) -> Hop:
    with Trace(search.tenant_id, "answer").hop("search") as hop:
        find(search, hop)
    return hop


@pytest.fixture
def three_rows_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HNSW search that loses rows, as one may whose filter matches one row in many."""
    real = vectors.statements

    def lossy(**arguments: object) -> list[vectors.Statement]:
        if arguments["plan"] and arguments["plan"].kind == "hnsw":  # type: ignore[attr-defined]
            arguments["limit"] = 3
        return real(**arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(vectors, "statements", lossy)


@pytest.mark.usefixtures("three_rows_are_found")
def test_fewer_rows_than_there_are_is_counted_and_searched_again_exactly(large: Large) -> None:
    ready(large)
    before = SHORT_SEARCHES._value.get()
    search = search_of(large, leg_candidates=20, explain=True)
    hop = hop_of(search)
    assert hop.attributes["plan"] == "hnsw"
    assert (hop.attributes["rows"], hop.attributes["short_rows"]) == (3, 17)
    assert SHORT_SEARCHES._value.get() == before + 1
    assert [chunk for chunk, _ in search.orders["vectors"]] == large.nearest(QUESTION, 20)


@pytest.mark.usefixtures("three_rows_are_found")
def test_all_rows_that_there_are_is_not_short(collection: Collection, settings: Settings) -> None:
    settings.HNSW_ABOVE_CHUNKS = 2
    large = make_large(collection, 3)
    ready(large)
    assert "short_rows" not in hop_of(search_of(large)).attributes


def test_the_span_says_the_plan_why_and_what_each_leg_cost(large: Large) -> None:
    ready(large)
    attributes = hop_of(search_of(large)).attributes
    assert attributes["plan"] == "hnsw"
    assert attributes["plan_reason"] == "many chunks"
    assert (attributes["ef_search"], attributes["searchable"], attributes["rows"]) == (
        EF_SEARCH,
        60,
        60,
    )
    assert attributes["only_vectors_share"] == 1.0
    assert attributes["only_words_share"] == 0.0
    assert {"words_ms", "vectors_ms", "text_ms"} <= attributes.keys()


def test_settings_of_an_hnsw_search_do_not_stay(large: Large) -> None:
    ready(large)
    hop_of(search_of(large))
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_sort")
        assert cursor.fetchone() == ("on",)


@pytest.mark.django_db(transaction=True)
def test_a_search_sees_one_moment_and_cannot_write(collection: Collection) -> None:
    large = make_large(collection, 60)
    with snapshot(large.tenant.id), connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("repeatable read",)
        cursor.execute("SHOW transaction_read_only")
        assert cursor.fetchone() == ("on",)


@pytest.mark.django_db(transaction=True)
def test_a_version_that_becomes_ready_in_the_middle_is_not_mixed_with_the_one_before(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_document(collection, ["The old warranty lasts a year.", "Old refunds are slow."])
    index = write_rows(old)
    search_words = bm25.search

    def swap() -> None:
        with closing(connection), tenant_scope(collection.tenant_id):
            write_rows(make_document(collection, ["The new warranty lasts two years."]))
            Document.objects.filter(id=old.id).update(state=DocumentState.SUPERSEDED)
            rows.remove(collection.tenant_id, [old.id])

    def search_words_and_swap(**arguments: Any) -> dict[uuid.UUID, float]:
        found = search_words(**arguments)
        other = threading.Thread(target=swap)
        other.start()
        other.join()
        return found

    monkeypatch.setattr(bm25, "search", search_words_and_swap)
    search = Search(
        tenant_id=collection.tenant_id,
        question="warranty",
        collection_ids=[collection.id],
        limit=8,
        language="en",
        options=SearchOptions(),
        narrowed=SearchFilter(),
        index=index,
        vector=WordEmbedder().embed_query("warranty"),
    )
    with Trace(collection.tenant_id, "answer").hop("search") as hop:
        found = find(search, hop)
    assert [chunk.document_id for _, chunk in found] == [old.id, old.id]
    assert found[0][0].bm25_score
    monkeypatch.undo()
    with Trace(collection.tenant_id, "answer").hop("search") as hop:
        (only,) = find(search, hop)
    assert only[1].document_id != old.id


def test_a_deleted_document_is_not_counted_as_searchable(large: Large) -> None:
    gone = make_large(large.collection, 30, seed=2)
    assert plan(large).rows == 90
    delete_document(gone.document)
    search = search_of(large)
    hop_of(search)
    assert len(search.nearest) == 60
