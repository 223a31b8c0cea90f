"""BM25 in plain PostgreSQL: document weights as sparse vectors, ranked by inner product.

A chunk's weight for a term is tf·(k1+1) / (tf + k1·(1 − b + b·length/average)), stored in
`ChunkTerms.weights`; the question's vector holds the idf of its terms, so `weights <#> question`
(pgvector's negative inner product) is the negated BM25 score itself. Robertson and Zaragoza 2009;
idf as in Lucene, ln(1 + (N − df + 0.5)/(df + 0.5)), which is never negative.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Sum

from apps.retrieval.analysis import TERM_SPACE
from apps.retrieval.models import CollectionStatistics, TermFrequency

K1 = 1.2
B = 0.75
# pgvector's sparsevec holds at most 16,000 non-zero elements.
MAX_TERMS = 16_000
# Candidates are matched by a question's rarer terms only and scored by all of them: measured to
# cost at most .004 nDCG@10, and the match set is what grows with the corpus.
COMMON_SHARE = 0.10
MATCH_AT_LEAST = 2
MATCH_AT_MOST = 6
DRIFT = 0.20  # of the average length, beyond which a collection is weighed anew


@dataclass(frozen=True)
class Statistics:
    """What BM25 must know of the collections searched, as one body of chunks."""

    chunk_count: int
    frequencies: Mapping[int, int]  # term -> chunks it occurs in; absent where none

    def idf(self, term: int) -> float:
        """Above 0 for every term; greatest for one that no chunk has."""
        frequency = self.frequencies.get(term, 0)
        return math.log1p((self.chunk_count - frequency + 0.5) / (frequency + 0.5))


def read_statistics(
    *,
    tenant_id: uuid.UUID,
    collection_ids: Sequence[uuid.UUID],
    terms: Iterable[int],
    generation: int = 0,
) -> Statistics:
    """N and the document frequencies of `terms`, over the union of the collections.

    Of the chunks of one generation.
    """
    where = {
        "tenant_id": tenant_id,
        "collection_id__in": collection_ids,
        "generation": generation,
    }
    total = CollectionStatistics.objects.filter(**where).aggregate(n=Sum("chunk_count"))["n"]
    counted = (
        TermFrequency.objects.filter(**where, term__in=set(terms), chunk_count__gt=0)
        .values_list("term")
        .annotate(n=Sum("chunk_count"))
    )
    return Statistics(int(total or 0), dict(counted))


def search(
    *,
    tenant_id: uuid.UUID,
    collection_ids: Sequence[uuid.UUID],
    terms: Sequence[int],
    statistics: Statistics,
    limit: int,
    document_ids: Sequence[uuid.UUID] | None = None,
    generation: int = 0,
) -> dict[uuid.UUID, float]:
    """BM25 scores of the best `limit` chunks that share a term with the question, best first.

    With `document_ids`, of those documents only.
    """
    known = [term for term in terms if term in statistics.frequencies]
    if not known:
        return {}
    question = {term: n * statistics.idf(term) for term, n in Counter(known).items()}
    narrowed, only = (
        ("", [])
        if document_ids is None
        else (
            "AND document_id = ANY(%s)",
            [list(document_ids)],
        )
    )
    match = "|".join(f"'{term}'" for term in matching_terms(question, statistics))
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT chunk_id, -(weights <#> %s::sparsevec) AS score
            FROM retrieval_chunkterms
            WHERE tenant_id = %s AND collection_id = ANY(%s) AND generation = %s
                AND terms @@ %s::tsquery {narrowed}
            ORDER BY score DESC, chunk_id LIMIT %s
            """,  # noqa: S608 - words of ours
            [
                sparse_text(question),
                tenant_id,
                list(collection_ids),
                generation,
                match,
                *only,
                limit,
            ],
        )
        return dict(cursor.fetchall())


def matching_terms(terms: Iterable[int], statistics: Statistics) -> list[int]:
    """The rarer of `terms`, rarest first: in at most a tenth of the chunks, two to six of them."""
    rarest = sorted(set(terms), key=lambda term: (statistics.frequencies.get(term, 0), term))
    ceiling = COMMON_SHARE * statistics.chunk_count
    rare = [term for term in rarest if statistics.frequencies.get(term, 0) <= ceiling]
    return (rare if len(rare) >= MATCH_AT_LEAST else rarest[:MATCH_AT_LEAST])[:MATCH_AT_MOST]


def document_weights(counts: Mapping[int, int], length: int, average: float) -> dict[int, float]:
    """A chunk's BM25 weight per term. `length` and `average` count terms, repeats included."""
    norm = K1 * (1 - B + B * length / average)
    return {term: tf * (K1 + 1) / (tf + norm) for term, tf in counts.items()}


def count_terms(terms: Sequence[int]) -> dict[int, int]:
    """How often each term occurs; of a chunk with absurdly many, the first `MAX_TERMS`."""
    counts = Counter(terms)
    if len(counts) <= MAX_TERMS:
        return counts
    return {term: counts[term] for term in list(counts)[:MAX_TERMS]}


def sparse_text(weights: Mapping[int, float]) -> str:
    """pgvector's text form of a sparse vector; term ids are its (1-based) dimensions."""
    elements = ",".join(f"{term}:{weight:.6g}" for term, weight in sorted(weights.items()))
    return f"{{{elements}}}/{TERM_SPACE}"


def average_length(statistics: CollectionStatistics) -> float:
    """Mean terms a chunk, repeats included; at least 1."""
    return max(1.0, statistics.total_length / max(1, statistics.chunk_count))


def has_drifted(tenant_id: uuid.UUID, collection_id: uuid.UUID, generation: int) -> bool:
    """Whether the average length is no longer near the one the stored weights were made with."""
    statistics = CollectionStatistics.objects.get(
        tenant_id=tenant_id, collection_id=collection_id, generation=generation
    )
    used = statistics.weighted_with_average
    return abs(average_length(statistics) - used) > DRIFT * used


def term_frequency(weight: float, length: int, average: float) -> int:
    """How often the term occurred that has this weight: `document_weights` backwards."""
    norm = K1 * (1 - B + B * length / average)
    return max(1, round(weight * norm / (K1 + 1 - weight)))
