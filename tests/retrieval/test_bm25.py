"""BM25 in the database against BM25 computed here."""

from __future__ import annotations

import math
import random
import uuid
from collections import Counter
from collections.abc import Sequence

import pytest

from apps.documents.models import Collection
from apps.retrieval import bm25
from apps.retrieval.analysis import terms_of
from apps.tenants.models import Tenant
from tests.retrieval.corpus import chunk_ids, make_collection, make_document, write_rows

pytestmark = pytest.mark.django_db

WORDS = "invoice payment refund customer order delivery address return policy warranty " * 2
WORDS += "battery screen keyboard printer network router cable adapter manual firmware"


def made_up_texts(count: int, seed: int = 1) -> list[str]:
    chance = random.Random(seed)  # noqa: S311 - made-up texts
    return [
        " ".join(chance.choices(WORDS.split(), k=chance.randint(5, 40))) + f" item{n}"
        for n in range(count)
    ]


def reference_scores(texts: Sequence[str], question: str) -> list[float]:
    """Robertson's formula, spelled out."""
    documents = [terms_of(text) for text in texts]
    average = sum(map(len, documents)) / len(documents)
    scores = [0.0] * len(texts)
    for term, asked in Counter(terms_of(question)).items():
        frequency = sum(term in document for document in documents)
        idf = math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
        for n, document in enumerate(documents):
            tf = document.count(term)
            norm = 1.2 * (0.25 + 0.75 * len(document) / average)
            scores[n] += asked * idf * tf * 2.2 / (tf + norm)
    return scores


def search(
    tenant: Tenant, collections: Sequence[Collection], question: str, limit: int = 100
) -> dict[uuid.UUID, float]:
    ids = [collection.id for collection in collections]
    terms = terms_of(question)
    statistics = bm25.read_statistics(tenant_id=tenant.id, collection_ids=ids, terms=terms)
    return bm25.search(
        tenant_id=tenant.id, collection_ids=ids, terms=terms, statistics=statistics, limit=limit
    )


@pytest.mark.parametrize("question", ["battery item3", "refund refund policy item7 item12"])
def test_scores_equal_the_formula(tenant: Tenant, collection: Collection, question: str) -> None:
    texts = made_up_texts(30)
    document = make_document(collection, texts)
    write_rows(document)
    found = search(tenant, [collection], question)
    expected = dict(zip(chunk_ids(document), reference_scores(texts, question), strict=True))
    assert found
    assert found == {chunk: pytest.approx(expected[chunk], rel=1e-4) for chunk in found}
    assert list(found) == sorted(found, key=lambda chunk: -expected[chunk])


def test_statistics_are_those_of_all_collections_searched(tenant: Tenant) -> None:
    halves = [made_up_texts(15, seed=1), made_up_texts(15, seed=2)]
    collections = [make_collection(tenant, name) for name in ("One", "Two")]
    for collection, texts in zip(collections, halves, strict=True):
        write_rows(make_document(collection, texts))
    statistics = bm25.read_statistics(
        tenant_id=tenant.id,
        collection_ids=[collection.id for collection in collections],
        terms=terms_of("battery item3"),
    )
    together = [*halves[0], *halves[1]]
    battery, item = terms_of("battery item3")
    assert statistics.chunk_count == 30
    assert statistics.frequencies[item] == 2
    assert statistics.frequencies[battery] == sum(battery in terms_of(text) for text in together)


def test_only_rarer_terms_find_candidates() -> None:
    statistics = bm25.Statistics(100, {1: 90, 2: 10, 3: 5, 4: 11, 5: 1, 6: 2, 7: 3, 8: 4, 9: 6})
    assert bm25.matching_terms([1, 2, 3, 4, 5, 6, 7, 8, 9], statistics) == [5, 6, 7, 8, 3, 9]


def test_a_question_of_common_words_still_finds_something() -> None:
    statistics = bm25.Statistics(100, {1: 90, 2: 70, 3: 80})
    assert bm25.matching_terms([1, 2, 3], statistics) == [2, 3]


def test_a_word_no_chunk_has_finds_nothing(tenant: Tenant, collection: Collection) -> None:
    write_rows(make_document(collection, made_up_texts(5)))
    assert search(tenant, [collection], "zebra") == {}


def test_an_empty_collection_finds_nothing(tenant: Tenant, collection: Collection) -> None:
    assert search(tenant, [collection], "invoice") == {}


def test_another_tenant_finds_nothing_with_guessed_ids(
    tenant: Tenant, collection: Collection
) -> None:
    write_rows(make_document(collection, made_up_texts(5)))
    rival = Tenant.objects.create(slug="rival", name="Rival")
    statistics = bm25.read_statistics(
        tenant_id=tenant.id, collection_ids=[collection.id], terms=terms_of("item3")
    )
    assert search(rival, [collection], "item3") == {}
    assert not bm25.search(
        tenant_id=rival.id,
        collection_ids=[collection.id],
        terms=terms_of("item3"),
        statistics=statistics,
        limit=10,
    )


def test_a_chunk_with_more_terms_than_a_sparse_vector_holds_is_stored(
    tenant: Tenant, collection: Collection
) -> None:
    write_rows(make_document(collection, [" ".join(f"w{n}" for n in range(20_000)), "other text"]))
    assert len(search(tenant, [collection], "w17")) == 1


def test_a_term_frequency_is_had_back_from_its_weight() -> None:
    for count in (1, 2, 3, 7, 20, 60):
        weight = bm25.document_weights({1: count}, 80, 50.0)[1]
        assert bm25.term_frequency(float(f"{weight:.6g}"), 80, 50.0) == count
