"""Starting to build an index beside the one in force."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Max

from apps.documents.chunkings import chunking_of
from apps.documents.models import Chunking
from apps.inference.errors import InferenceError
from apps.retrieval import embedders, slots
from apps.retrieval.builds import errors
from apps.retrieval.builds.selectors import ready_passages
from apps.retrieval.models import EmbeddingIndex, EmbeddingModel, IndexBuild
from apps.retrieval.selectors import active_index
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

TEND_TASK = "retrieval.tend_builds"
SHORTEST_TOKENS, LONGEST_TOKENS = 32, 8000


@dataclass(frozen=True)
class _Identity:
    """What the model says it is."""

    model_id: str
    dimensions: int


def start_build(
    *,
    tenant: Tenant,
    user: User | None,
    model: EmbeddingModel | None,
    chunk_tokens: int | None = None,
    chunk_overlap_tokens: int | None = None,
    passages_per_s: float | None = None,
) -> IndexBuild:
    """Begin an index by `model` (None: the settings' own) for all of the tenant's documents.

    With `chunk_tokens`, passages are cut anew to that length, sharing `chunk_overlap_tokens`
    (default: in the proportion of today's). A worker does the work, at `passages_per_s` at most.
    Raises a BuildError.
    """
    found = _ask(model)
    _check_lengths(chunk_tokens, chunk_overlap_tokens)
    with tenant_scope(tenant.id):
        source = active_index(tenant.id)
        if source is None:
            raise errors.NoIndexYet
        try:
            with transaction.atomic():
                target = _target(
                    source, model, found, tokens=chunk_tokens, overlap=chunk_overlap_tokens
                )
                build = IndexBuild.objects.create(
                    tenant=tenant,
                    source=source,
                    target=target,
                    source_label=label_of(source),
                    target_label=label_of(target),
                    passages_per_s=passages_per_s,
                    started_by=user,
                )
        except IntegrityError as exc:  # one at a time
            raise errors.BuildUnderWay from exc
        record_audit(
            action="index.build_started",
            tenant_id=tenant.id,
            actor_id=user.id if user else None,
            subject_id=build.id,
        )
        wake(TEND_TASK)
    return build


def label_of(index: EmbeddingIndex) -> str:
    """What an index is called once it may be gone."""
    name = index.embedder.label if index.embedder else index.model_id
    cut = f", passages of {index.chunk_tokens} tokens" if index.chunk_tokens else ""
    return f"{name}{cut}"[:200]


def _ask(model: EmbeddingModel | None) -> _Identity:
    """A remote model answers here for the first time, a local one is loaded."""
    try:
        embedder = embedders.embedder_by(model)
        return _Identity(embedder.model_id, embedder.dimensions)
    except InferenceError as exc:
        raise errors.ModelUnreachable(f"The model cannot be used. {exc}") from exc


def _check_lengths(tokens: int | None, overlap: int | None) -> None:
    if tokens is None:
        return
    if not SHORTEST_TOKENS <= tokens <= LONGEST_TOKENS or not 0 <= (overlap or 0) * 2 < tokens:
        raise errors.LengthsInvalid


def _target(
    source: EmbeddingIndex,
    model: EmbeddingModel | None,
    found: _Identity,
    *,
    tokens: int | None,
    overlap: int | None,
) -> EmbeddingIndex:
    """The index to build: a new row, or one left over by a change of the settings."""
    chunking = _cut_anew(source, tokens, overlap) if tokens else None
    query_prompt = model.query_prompt if model else settings.EMBEDDING_QUERY_PROMPT
    key = {
        "tenant_id": source.tenant_id,
        "model_id": found.model_id,
        "dimensions": found.dimensions,
        "query_prompt": query_prompt,
        "document_prompt": model.document_prompt if model else "",
        "chunker_version": source.chunker_version,
        "generation": chunking.generation if chunking else source.generation,
    }
    existing = EmbeddingIndex.objects.filter(**key).first()
    if existing is not None and existing.active:
        raise errors.NothingToChange
    if existing is not None:
        existing.embedder = model
        existing.save(update_fields=["embedder"])
        return existing
    return EmbeddingIndex.objects.create(
        **key,
        embedder=model,
        chunk_tokens=chunking.max_tokens if chunking else source.chunk_tokens,
        chunk_overlap_tokens=(chunking.overlap_tokens if chunking else source.chunk_overlap_tokens),
        slot=slots.choose_slot(chunk_count=_passages_to_come(source, chunking)),
    )


def _cut_anew(source: EmbeddingIndex, tokens: int, overlap: int | None) -> Chunking:
    tenant_id = source.tenant_id
    if overlap is None:
        now = chunking_of(tenant_id, source.generation)
        overlap = tokens * now.overlap_tokens // now.max_tokens
    return Chunking.objects.create(
        tenant_id=tenant_id,
        generation=1 + _newest_generation(tenant_id),
        max_tokens=tokens,
        overlap_tokens=overlap,
    )


def _newest_generation(tenant_id: uuid.UUID) -> int:
    """No number comes twice while anything of it may still be there."""
    newest = [
        rows.filter(tenant_id=tenant_id).aggregate(n=Max("generation"))["n"] or 0
        for rows in (EmbeddingIndex.objects, Chunking.objects)
    ]
    return max(newest)


def _passages_to_come(source: EmbeddingIndex, chunking: Chunking | None) -> int:
    passages = ready_passages(source.tenant_id)
    if chunking is None:
        return passages
    now = chunking_of(source.tenant_id, source.generation)
    return passages * now.max_tokens // chunking.max_tokens
