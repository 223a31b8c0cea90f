"""What a run measures, as JSON: two runs differ by what differs here, or by the documents."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum

from apps import retrieval
from apps.documents.chunking import CHUNKER_VERSION
from apps.documents.models import Document, DocumentState
from apps.evals.metrics import STAGES
from apps.evals.models import LabelledSet
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import SearchOptions

# Passages asked for: what nDCG@10 looks at. The order behind them is read from each stage.
LIMIT = 10


def describe(
    *,
    labelled_set: LabelledSet,
    options: SearchOptions,
    index: EmbeddingIndex | None,
    stages: Sequence[str] | None,
    is_default: bool,
) -> dict[str, Any]:
    """The configuration of a run that starts now. Call inside the tenant's scope.

    `is_default`: as the tenant's questions are searched; such runs are compared over time.
    """
    return {
        "default": is_default,
        "options": _knobs(options),
        "stages": [each for each in STAGES if each in (stages or stages_of(options))],
        "limit": LIMIT,
        "index": _index(index),
        "reranker": _reranker(options),
        "collection": _collection(labelled_set.tenant_id, labelled_set.collection_id),
        "versions": {"chunker": CHUNKER_VERSION, "search_code": code_version()},
    }


def options_of(configuration: Mapping[str, Any]) -> SearchOptions:
    """The options to search with; a knob that a run has not heard of is as by default."""
    known = {field.name for field in fields(SearchOptions)}
    given = {name: value for name, value in configuration["options"].items() if name in known}
    return SearchOptions(**given | {"explain": True})


def stages_of(options: SearchOptions) -> tuple[str, ...]:
    """The stages that a search with these options goes through."""
    skipped = {
        *(() if options.words else ("bm25",)),
        *(() if options.vectors else ("vectors",)),
        *(() if options.rerank else ("reranked",)),
    }
    return tuple(stage for stage in STAGES if stage not in skipped)


def options_through(options: SearchOptions, stages: Sequence[str]) -> SearchOptions:
    """`options` without the work that none of `stages` looks at."""
    wanted = set(stages)
    return replace(
        options,
        words=options.words and wanted != {"vectors"},
        vectors=options.vectors and wanted != {"bm25"},
        rerank=options.rerank and bool(wanted & {"reranked", "final"}),
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between two configurations: `part.knob` to its two values."""
    flat = [_flatten(configuration) for configuration in (before, after)]
    names = sorted({*flat[0], *flat[1]})
    return {
        name: (flat[0].get(name), flat[1].get(name))
        for name in names
        if flat[0].get(name) != flat[1].get(name)
    }


def _flatten(configuration: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in configuration.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _knobs(options: SearchOptions) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if name != "explain"}


def _index(index: EmbeddingIndex | None) -> dict[str, Any] | None:
    if index is None:
        return None
    return {
        "id": str(index.id),
        "model": index.model_id,
        "dimensions": index.dimensions,
        "generation": index.generation,
    }


def _reranker(options: SearchOptions) -> str:
    if not options.rerank:
        return "off"
    names_model = settings.RERANKER == "cross-encoder"
    return f"{settings.RERANKER} {settings.RERANKER_MODEL}" if names_model else settings.RERANKER


def _collection(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> dict[str, int]:
    ready = Document.objects.filter(
        tenant_id=tenant_id, collection_id=collection_id, state=DocumentState.READY
    )
    counts = ready.aggregate(documents=Count("id"), chunks=Sum("chunk_count"))
    return {"documents": counts["documents"], "chunks": counts["chunks"] or 0}


@cache
def code_version() -> str:
    """Of the code that searches: constants of ranking live in it, not in settings."""
    folder = Path(next(iter(retrieval.__path__)))
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.py"), *folder.glob("hops/*.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]
