"""Lengths out of the ledger and out of traces."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.loadtests import workloads
from apps.capacity.loadtests.workloads import ledger_workload, trace_workload
from tests.cast import Cast
from tests.gateway.entries import booked

pytestmark = pytest.mark.django_db


def ago(**before: float) -> datetime:
    return timezone.now() - timedelta(**before)


def pairs(tenant: object = None, **more: object) -> list[tuple[int, int]]:
    found = ledger_workload(tenant=tenant, **more)  # type: ignore[arg-type]
    return sorted((row.prompt_tokens, row.output_tokens) for row in found.rows)


def test_lengths_stay_together_and_are_of_complete_answers_alone(cast: Cast) -> None:
    booked(cast.acme.id, ago(hours=1), prompt_tokens=100, output_tokens=10)
    booked(cast.acme.id, ago(hours=1), prompt_tokens=900, output_tokens=5)
    booked(cast.acme.id, ago(hours=1), prompt_tokens=1, output_tokens=1, outcome="stopped")
    booked(cast.acme.id, ago(hours=1), prompt_tokens=2, output_tokens=2, upstream="", cache="hit")
    booked(cast.acme.id, ago(hours=1), prompt_tokens=3, output_tokens=0)
    booked(cast.acme.id, ago(hours=1), prompt_tokens=4, output_tokens=4, hop="embed")
    booked(cast.acme.id, ago(days=8), prompt_tokens=5, output_tokens=5)
    assert pairs(cast.acme) == [(100, 10), (900, 5)]
    assert pairs(cast.acme, days=30) == [(5, 5), (100, 10), (900, 5)]


def test_a_tenants_lengths_are_its_own(cast: Cast) -> None:
    booked(cast.acme.id, ago(hours=1), prompt_tokens=100, output_tokens=10)
    booked(cast.rival.id, ago(hours=1), prompt_tokens=200, output_tokens=20)
    assert pairs(cast.acme) == [(100, 10)]
    assert pairs(None) == [(100, 10), (200, 20)]


def test_it_says_of_how_many_answers_and_days(cast: Cast) -> None:
    booked(cast.acme.id, ago(hours=1), prompt_tokens=100, output_tokens=10)
    found = ledger_workload(tenant=cast.acme, days=3)
    assert found.origin == "the ledger of Acme, 1 answers of 3 days"
    assert found.kind == "lengths"
    assert all(row.at_s == 0 for row in found.rows)


def test_a_sample_is_bounded_and_drawn_by_its_seed(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "SAMPLE_MAX", 5)
    for n in range(20):
        booked(cast.acme.id, ago(hours=1), prompt_tokens=n + 1, output_tokens=1)
    first, again = pairs(cast.acme, seed=1), pairs(cast.acme, seed=1)
    assert len(first) == 5
    assert first == again != pairs(cast.acme, seed=2)
    assert "20 answers of 7 days, 5 of them drawn" in ledger_workload(tenant=cast.acme).origin


def test_an_empty_ledger_is_said_so(cast: Cast) -> None:
    with pytest.raises(WorkloadInvalid, match="Acme"):
        ledger_workload(tenant=cast.acme)
    with pytest.raises(WorkloadInvalid):
        ledger_workload(tenant=cast.acme, days=0)


def test_a_trace_keeps_its_times_or_gives_lengths_alone() -> None:
    lines = ['{"at_s": 0, "prompt_tokens": 10, "output_tokens": 2}'] * 2
    kept = trace_workload(lines, name="a.jsonl", keep_times=True)
    drawn = trace_workload(lines, name="a.jsonl", keep_times=False)
    assert (kept.kind, drawn.kind, len(drawn.rows)) == ("trace", "lengths", 2)
    assert "a.jsonl" in kept.origin
