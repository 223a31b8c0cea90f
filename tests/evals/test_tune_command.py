"""`manage.py tune-search`: what it prints, what it leaves, and how it ends."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.documents.models import Document, DocumentState
from apps.evals.models import TuneRun
from apps.retrieval.options import options_for
from apps.tenants.models import Tenant
from ragsite.stack.parts_for_command import parts_of
from tests.evals.test_tuning import WORDS, label_questions
from tests.retrieval.corpus import (
    CoverageReranker,
    WordEmbedder,
    make_collection,
    make_document,
    write_rows,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch) -> Document:
    from apps.inference import registry

    embedder, reranker = WordEmbedder(), CoverageReranker()
    monkeypatch.setattr(registry, "get_embedder", lambda: embedder)
    monkeypatch.setattr(registry, "get_reranker", lambda: reranker)
    tenant = Tenant.objects.create(slug="acme", name="Acme")
    texts = [f"{a} {b}" for a in WORDS for b in WORDS]
    document = make_document(make_collection(tenant), texts, state=DocumentState.READY)
    write_rows(document)
    return document


def tune(*arguments: str) -> tuple[int, str]:
    """Exit status, and what was printed."""
    out = io.StringIO()
    try:
        call_command("tune-search", *arguments, stdout=out, stderr=io.StringIO())
    except CommandError as exc:
        return exc.returncode, out.getvalue() + str(exc)
    return 0, out.getvalue()


def report(*arguments: str) -> dict[str, Any]:
    status, out = tune(*arguments, "--json")
    assert status == 0, out
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_small_tenant_gets_its_exact_times_and_the_reason(document: Document) -> None:
    status, out = tune()
    assert status == 0
    assert "exact search" in out
    assert "144 passages are searched exactly" in out
    assert "passages of the tenant's own in place of questions" in out
    assert TuneRun.objects.get().state == TuneRun.State.DONE


def test_the_json_holds_every_point_and_what_was_asked(document: Document) -> None:
    label_questions(document)
    found = report("--tenant=acme", "--grid", "leg_candidates=50", "rerank_candidates=5")
    assert {each["kind"] for each in found["points"]} == {"exact", "pipeline"}
    assert found["questions"]["labelled"] == 3
    assert not found["applied"]


def test_the_proposal_is_put_in_force_when_asked(
    document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.evals.tuning import measurement

    label_questions(document)
    wanted = {"changes": {"rerank_candidates": 5}, "vectors": {"verdict": "exact"}}
    wanted["pipeline"] = {"verdict": "no_labels"}
    monkeypatch.setattr(measurement, "propose", lambda *points, **rest: wanted)
    assert report("--apply")["applied"]
    assert options_for(document.tenant_id).rerank_candidates == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tenant=nowhere",),
        ("--goal=0.2",),
        ("--k=0",),
        ("--grid", "colour=1"),
        ("--grid", "ef_search=x"),
        ("--grid", "ef_search"),
    ],
)
def test_wrong_use_ends_with_2_and_measures_nothing(
    document: Document, arguments: tuple[str, ...]
) -> None:
    status, out = tune(*arguments)
    assert status == 2, out
    assert not TuneRun.objects.exists()


def test_with_several_tenants_one_must_be_named(document: Document) -> None:
    Tenant.objects.create(slug="rival", name="Rival")
    assert tune()[0] == 2
    assert tune("--tenant=acme")[0] == 0


def test_a_tenant_without_documents_is_told_so() -> None:
    Tenant.objects.create(slug="acme", name="Acme")
    status, out = tune()
    assert (status, "nothing to search yet" in out) == (2, True)


def test_no_setting_that_meets_the_goal_ends_with_1(
    document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.evals.tuning import measurement

    verdict = {"changes": {}, "vectors": {"verdict": "none_meets", "best": 0}}
    verdict["pipeline"] = {"verdict": "no_labels"}
    monkeypatch.setattr(measurement, "propose", lambda *points, **rest: verdict)
    status, out = tune()
    assert status == 1
    assert "No setting reached recall@20 of 0.98" in out


def test_a_model_that_is_down_ends_the_command_and_nobody_goes_on(document: Document) -> None:
    from apps.inference import registry
    from apps.inference.errors import InferenceError

    label_questions(document)
    registry.get_embedder().failures = [InferenceError("down")]  # type: ignore[attr-defined]
    status, _ = tune()
    assert status == 1
    assert TuneRun.objects.get().state == TuneRun.State.CANCELLED


def test_the_command_starts_the_encoder_and_no_worker() -> None:
    assert parts_of(["tune-search", "--json"]) == ("postgres", "redis", "encoder", "schema")
