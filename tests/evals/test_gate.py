"""Gates of another embedding index: labelled sets decide, real questions are a figure."""

from __future__ import annotations

import numpy as np
import pytest

from apps.chat.models import Conversation, Message, MessageRole
from apps.documents.models import Collection
from apps.evals import gate
from apps.evals.models import EvalRun, LabelledSet
from apps.evals.running import run_next
from apps.inference.types import Vectors
from apps.retrieval import builds
from apps.retrieval.builds import errors, gates
from apps.retrieval.models import EmbeddingModel, IndexBuild
from apps.retrieval.options import SearchOptions
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from tests.evals.labelled import TOPICS, add_question, make_set
from tests.retrieval.building import (
    OtherEmbedder,
    add_ready,
    hand_out,
    make_due,
    make_model,
    start,
    work,
)
from tests.retrieval.conftest import collection, tenant  # noqa: F401 - fixtures
from tests.retrieval.corpus import WordEmbedder

pytestmark = pytest.mark.django_db


class Blind(OtherEmbedder):
    """All texts look the same, so passages are as near as chance has it."""

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = np.eye(1, self.dimensions, dtype=np.float32)[0]
        return vector

    def embed_documents(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        chance = np.random.default_rng(len(texts[0]))
        vectors = chance.standard_normal((len(texts), self.dimensions)).astype(np.float32)
        units: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return units


@pytest.fixture(autouse=True)
def _no_reranker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.inference.registry.get_reranker", lambda spec=None: None)


@pytest.fixture
def model() -> EmbeddingModel:
    return make_model()


@pytest.fixture
def labelled_set(
    collection: Collection,  # noqa: F811
    model: EmbeddingModel,
    monkeypatch: pytest.MonkeyPatch,
) -> LabelledSet:
    hand_out(monkeypatch, WordEmbedder(), OtherEmbedder(), model)
    made = make_set(collection)
    for topic in TOPICS:
        document = add_ready(collection, [f"The {topic} rules are set out here."])
        add_question(made, f"What are the {topic} rules?", document, key=topic)
    return made


def build_through(tenant: Tenant, model: EmbeddingModel) -> IndexBuild:  # noqa: F811
    """Built, and its gates asked until they know."""
    build = start(tenant, model)
    for _ in range(10):
        work()
        EvalRun.objects.update(lease_expires_at=None)
        run_next()
        make_due()
    return IndexBuild.objects.get(id=build.id)


def test_an_index_that_finds_as_much_may_be_put_in_force(
    tenant: Tenant,  # noqa: F811
    labelled_set: LabelledSet,
    model: EmbeddingModel,
) -> None:
    build = build_through(tenant, model)
    result = gates.last_result(build, gate.LABELLED)
    assert result["passed"], result
    assert result["figures"]["questions"] == len(TOPICS)
    [[before, after]] = result["figures"]["runs"]
    runs = {str(run.id): run for run in EvalRun.objects.filter(trigger="gate")}
    assert runs[before].configuration["index"]["id"] == str(build.source_id)
    assert runs[after].configuration["index"]["id"] == str(build.target_id)
    builds.switch(tenant=tenant, user=None, build_id=build.id)


def test_an_index_that_finds_less_is_refused(
    tenant: Tenant,  # noqa: F811
    labelled_set: LabelledSet,
    model: EmbeddingModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand_out(monkeypatch, WordEmbedder(), Blind(), model)
    build = start(tenant, model)
    for topic in range(30):
        text = f"What are the {TOPICS[topic % 8]} rules, asked for the {topic}th time?"
        with tenant_scope(tenant.id):
            document = labelled_set.collection.documents.order_by("created_at")[topic % 8]
        add_question(labelled_set, text, document)
    # What words find, no model of vectors can spoil.
    monkeypatch.setattr(
        "apps.evals.running.options_for", lambda tenant_id: SearchOptions(words=False)
    )
    for _ in range(10):
        work()
        EvalRun.objects.update(lease_expires_at=None)
        run_next()
        make_due()
    build.refresh_from_db()
    result = gates.last_result(build, gate.LABELLED)
    assert not result["passed"]
    assert "falls from" in result["words"]
    with pytest.raises(errors.GateRefused):
        builds.switch(tenant=tenant, user=None, build_id=build.id)


def test_without_a_labelled_set_a_reason_is_needed(
    tenant: Tenant,  # noqa: F811
    collection: Collection,  # noqa: F811
    model: EmbeddingModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand_out(monkeypatch, WordEmbedder(), OtherEmbedder(), model)
    add_ready(collection, ["The pension rules are set out here."])
    build = build_through(tenant, model)
    assert "no labelled set" in gates.last_result(build, gate.LABELLED)["words"]
    with pytest.raises(errors.GateRefused) as caught:
        builds.switch(tenant=tenant, user=None, build_id=build.id)
    assert caught.value.gates == (gate.LABELLED,)
    builds.switch(tenant=tenant, user=None, build_id=build.id, reason="Nothing to compare on yet.")


def test_real_questions_are_searched_in_both_and_refuse_nothing(
    tenant: Tenant,  # noqa: F811
    labelled_set: LabelledSet,
    model: EmbeddingModel,
) -> None:
    user = User.objects.create_user(username="bob")
    with tenant_scope(tenant.id):
        conversation = Conversation.objects.create(tenant=tenant, user=user)
        for text in ("What are the badge rules?", "And for visitors?"):
            Message.objects.create(
                tenant=tenant, conversation=conversation, role=MessageRole.QUESTION, text=text
            )
    build = build_through(tenant, model)
    result = gates.last_result(build, gate.SHADOW)
    assert result["passed"]
    assert result["figures"]["questions"] == 1, "a follow-up does not stand alone"
    assert 0 <= result["figures"]["overlap@10"] <= 1
    assert "badge" not in str(build.gates), "figures only"


def test_a_set_that_is_deleted_meanwhile_is_left_out(
    tenant: Tenant,  # noqa: F811
    labelled_set: LabelledSet,
    model: EmbeddingModel,
) -> None:
    build = start(tenant, model)
    work()
    build.refresh_from_db()
    assert gates.last_result(build, gate.LABELLED)["pending"]
    with tenant_scope(tenant.id):
        LabelledSet.objects.all().delete()
    make_due()
    work()
    build.refresh_from_db()
    assert not gates.last_result(build, gate.LABELLED)["passed"]
    assert not gates.last_result(build, gate.LABELLED)["pending"]
