"""Live recall: a share of real questions is searched exactly as well, off their path.

A sample is the question's vector with what the search found. A worker searches exactly and keeps
figures only: identifiers of passages that may be deleted go from the row in the same step.
"""

from __future__ import annotations

import math
import random
import statistics
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from time import perf_counter

import numpy as np
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from pgvector import HalfVector

from apps.retrieval import vectors
from apps.retrieval.hops.state import Search
from apps.retrieval.models import EmbeddingIndex, RecallSample
from apps.telemetry.hops import Trace
from worker.enqueue import wake

CHECKED_AT_ONCE = 50
# Cosines of halves: what is as near as the last row wanted is as good.
_SAME = 1e-5


@dataclass(frozen=True)
class RecallDay:
    """A day's checked samples of one plan."""

    day: date  # UTC
    plan: str  # "exact" or "hnsw"
    samples: int
    recall_10: float  # mean
    low: float  # 95 % interval of that mean
    high: float
    recall: float  # mean, at the rows asked for
    short_share: float  # searches that found fewer rows than exact search did
    search_ms: float  # medians
    exact_ms: float


def offer_sample(search: Search, trace: Trace) -> None:
    """Let chance decide whether this search is checked; it is written once the trace is stored."""
    share = settings.RECALL_SAMPLE_SHARE
    if search.plan is None or random.random() >= share:  # noqa: S311 - not a secret
        return

    def write() -> None:
        _write_sample(search)

    trace.afterwards.append(write)


def _write_sample(search: Search) -> None:
    if search.index is None or search.vector is None or search.plan is None:
        return
    only = search.documents.document_ids
    RecallSample.objects.create(
        tenant_id=search.tenant_id,
        index=search.index,
        question=HalfVector(search.vector),
        collection_ids=list(search.collection_ids),
        document_ids=None if only is None else list(only),
        plan=search.plan.kind,
        ef_search=search.plan.ef_search,
        wanted=search.options.leg_candidates,
        found=list(search.nearest),
        search_ms=search.nearest_ms,
    )
    wake("retrieval.check_recall")


def check_due() -> int:
    """Check the samples that wait, and remove old ones; returns how many were checked.

    Several workers at once take different ones.
    """
    keep = timezone.now() - timedelta(days=settings.RECALL_KEEP_DAYS)
    RecallSample.objects.filter(at__lt=keep).delete()
    checked = 0
    while checked < CHECKED_AT_ONCE and _check_next():
        checked += 1
    return checked


def _check_next() -> bool:
    with transaction.atomic():
        sample = (
            RecallSample.objects.select_for_update(skip_locked=True)
            .filter(exact_rows__isnull=True)
            .order_by("id")
            .first()
        )
        if sample is None:
            return False
        index = EmbeddingIndex.objects.filter(
            tenant_id=sample.tenant_id, id=sample.index_id
        ).first()
        if index is None:
            sample.delete()
        else:
            _check(sample, index)
    return True


def _check(sample: RecallSample, index: EmbeddingIndex) -> None:
    question = np.asarray(sample.question, np.float32)
    start = perf_counter()
    exact = vectors.search(
        index=index,
        collection_ids=sample.collection_ids,
        question=question,
        limit=sample.wanted,
        document_ids=sample.document_ids,
    )
    sample.exact_ms = (perf_counter() - start) * 1000
    # Chunks that are gone have no score, and exact search cannot find them either.
    found = vectors.score(index=index, chunk_ids=sample.found, question=question)
    sample.exact_rows = len(exact)
    sample.found_rows = len(sample.found)
    sample.recall_10 = recall_at(10, found, exact)
    sample.recall = recall_at(sample.wanted, found, exact)
    sample.found, sample.collection_ids, sample.document_ids = [], [], None
    sample.save(
        update_fields=[
            *("exact_ms", "exact_rows", "found_rows", "recall_10", "recall"),
            *("found", "collection_ids", "document_ids"),
        ]
    )


def recall_at(
    k: int, found: Mapping[uuid.UUID, float], exact: Mapping[uuid.UUID, float]
) -> float | None:
    """Which share of the `k` best rows there are was found; None where there are none.

    Both map chunks to cosines. Rows that are as near as the last of the `k` are as good as it:
    copies of a passage stand in for each other.
    """
    due = sorted(exact.values(), reverse=True)[:k]
    if not due:
        return None
    best = sorted(found.values(), reverse=True)[:k]
    good = sum(score >= due[-1] - _SAME for score in best)
    return min(good, len(due)) / len(due)


def recall_over_time(tenant_id: uuid.UUID, since: datetime) -> list[RecallDay]:
    """Recall by day (UTC) and plan, oldest first, of the samples that have been checked."""
    rows = RecallSample.objects.filter(
        tenant_id=tenant_id, at__gte=since, recall_10__isnull=False
    ).order_by("at")
    ordered = sorted(rows, key=_day_and_plan)
    return [
        _summarise(day, plan, list(samples))
        for (day, plan), samples in groupby(ordered, key=_day_and_plan)
    ]


def _day_and_plan(sample: RecallSample) -> tuple[date, str]:
    return (sample.at.date(), sample.plan)


def _summarise(day: date, plan: str, samples: list[RecallSample]) -> RecallDay:
    tens = [each.recall_10 or 0.0 for each in samples]
    mean = statistics.fmean(tens)
    # Of a mean of n figures; of one figure nothing is known but that it is between 0 and 1.
    spread = 1.96 * statistics.stdev(tens) / math.sqrt(len(tens)) if len(tens) > 1 else 1.0
    short = [(each.found_rows or 0) < min(each.wanted, each.exact_rows or 0) for each in samples]
    return RecallDay(
        day=day,
        plan=plan,
        samples=len(samples),
        recall_10=mean,
        low=max(0.0, mean - spread),
        high=min(1.0, mean + spread),
        recall=statistics.fmean(each.recall or 0.0 for each in samples),
        short_share=sum(short) / len(short),
        search_ms=statistics.median(each.search_ms for each in samples),
        exact_ms=statistics.median(each.exact_ms or 0.0 for each in samples),
    )
