"""The questions a curve is measured with: the tenant's own, as far as there are any."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from django.conf import settings
from django.db import connection

from apps.evals.models import LabelledQuestion
from apps.inference.types import Vectors
from apps.retrieval import embedders
from apps.retrieval.analysis import detect_language
from apps.retrieval.models import EmbeddingIndex, RecallSample
from apps.retrieval.normalization import normalize
from apps.tenants.scope import tenant_scope

# A recall of .98 is known to ±.02 with 200 questions, to ±.05 with 50.
PROBES_MAX = 200
# Where the tenant has fewer questions, passages of its own stand in up to this many.
PROBES_ENOUGH = 50


class OtherModel(Exception):
    """The embedding model in use is not the one that the index's vectors are by."""

    code = "index_behind"


@dataclass(frozen=True)
class Probe:
    """A question: its words, or its vector. A passage that stands in for one never finds itself."""

    text: str = ""
    vector: Vectors | None = None
    passage_id: uuid.UUID | None = None


@dataclass(frozen=True)
class Probes:
    """Questions in the order they are asked, the same each time for one curve and corpus."""

    all: list[Probe]
    counts: Mapping[str, int] = field(default_factory=dict)  # by source


def choose_probes(index: EmbeddingIndex, *, seed: uuid.UUID) -> Probes:
    """Labelled questions; then vectors of real ones; then passages of the tenant's own.

    The next source is asked only while there are fewer than PROBES_ENOUGH. Opens its own scope.
    """
    labelled = _labelled(index, seed)
    live = _live(index, PROBES_MAX) if len(labelled) < PROBES_ENOUGH else []
    lack = max(0, PROBES_ENOUGH - len(labelled) - len(live))
    passages = _passages(index, lack, seed) if lack else []
    found = {"labelled": labelled, "live": live, "passages": passages}
    mixed = [probe for probes in found.values() for probe in probes]
    random.Random(seed.int).shuffle(mixed)  # noqa: S311 - an order, the same each time
    return Probes(mixed[:PROBES_MAX], {name: len(each) for name, each in found.items()})


def vector_of(probe: Probe, index: EmbeddingIndex) -> Vectors:
    """The probe's vector, shape (dimensions,).

    Raises an InferenceError where the model is down, and OtherModel.
    """
    if probe.vector is not None:
        return probe.vector
    embedder = embedders.embedder_of(index)
    if (embedder.model_id, embedder.dimensions) != (index.model_id, index.dimensions):
        raise OtherModel
    return embedder.embed_query(probe.text)


def _labelled(index: EmbeddingIndex, seed: uuid.UUID) -> list[Probe]:
    """Those that the index's model knows the language of: others are searched by words."""
    limit = settings.QUESTION_MAX_CHARS
    found: list[Probe] = []
    for text in _texts(index.tenant_id, seed):
        asked = normalize(text[:limit])[:limit]
        if asked.strip() and embedders.knows_language(index, detect_language(asked)):
            found.append(Probe(text=asked))
    return found[:PROBES_MAX]


def _texts(tenant_id: uuid.UUID, seed: uuid.UUID) -> list[str]:
    """Of labelled questions drawn at random; more than are wanted, for some will not do."""
    with tenant_scope(tenant_id):
        rows = LabelledQuestion.objects.filter(tenant_id=tenant_id)
        ids = list(rows.order_by("id").values_list("id", flat=True))
        drawn = random.Random(seed.int).sample(ids, min(len(ids), 2 * PROBES_MAX))  # noqa: S311
        texts = dict(rows.filter(id__in=drawn).values_list("id", "text"))
    return [texts[each] for each in drawn if each in texts]


def _live(index: EmbeddingIndex, most: int) -> list[Probe]:
    """The newest questions that live recall has kept the vectors of."""
    rows = RecallSample.objects.filter(tenant_id=index.tenant_id, index=index).order_by("-id")
    vectors = rows.values_list("question", flat=True)[:most]
    return [Probe(vector=np.asarray(_numbers(vector), np.float32)) for vector in vectors]


def _passages(index: EmbeddingIndex, most: int, seed: uuid.UUID) -> list[Probe]:
    """Passages of the index, drawn by a hash: the same for the same seed."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT chunk_id, embedding::text FROM search.chunkvector
            WHERE tenant_id = %s AND index_id = %s AND slot = %s
            ORDER BY md5(chunk_id::text || %s) LIMIT %s
            """,
            [index.tenant_id, index.id, index.slot, str(seed), most],
        )
        rows = cursor.fetchall()
    return [
        Probe(vector=np.asarray(json.loads(vector), np.float32), passage_id=chunk)
        for chunk, vector in rows
    ]


def _numbers(vector: object) -> object:
    """pgvector's types, or a plain list."""
    return vector.to_list() if hasattr(vector, "to_list") else vector
