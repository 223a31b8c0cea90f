"""Adding one piece of a document to an index: embedded outside of any transaction, then written.

Which passages a piece has, and in which order they are embedded, depends on the document alone:
the vectors come out the same, to the bit, however often the work was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from django.db import IntegrityError, connection
from django.db.models import Min

from apps.documents.chunkings import chunking_of
from apps.documents.models import Chunk, Document
from apps.documents.rechunking import DocumentGone, hold_ready
from apps.documents.services.versions import raise_version
from apps.inference.types import Embedder
from apps.retrieval import indexing, rows
from apps.retrieval.builds import leases, recutting
from apps.retrieval.builds.leases import BuildClaim
from apps.retrieval.builds.selectors import chunks_without_vector
from apps.retrieval.embedding import EMBED_BATCH
from apps.retrieval.models import ChunkTerms, ChunkVector, EmbeddingIndex, IndexedDocument
from apps.retrieval.rows import TermRow
from apps.retrieval.texts import indexed_text
from apps.retrieval.uses import counted
from apps.telemetry.hops import Trace
from apps.telemetry.services import account_for
from apps.tenants.scope import tenant_scope


@dataclass(frozen=True)
class Adding:
    """An index that documents are added to, by whom, and with which model."""

    claim: BuildClaim
    index: EmbeddingIndex
    embedder: Embedder


def add_piece(adding: Adding, document: Document) -> int:
    """Add the document's next piece to the index; with the last one it is marked as in it.

    The number of passages that were embedded. Raises Lost where the build is not ours any more,
    DocumentGone where the document has changed, and InferenceError, DocumentError or SandboxError.
    """
    anew = document.generation != adding.index.generation
    if anew and not _is_cut(adding, document):
        chunking = chunking_of(document.tenant_id, adding.index.generation)
        recutting.cut(document, chunking, on_tick=lambda: leases.renew(adding.claim))
    chunks = _read_piece(adding.index, document)
    texts = [indexed_text(chunk) for chunk in chunks]
    vectors = _embed_accounted(adding, document, chunks, texts)
    terms = rows.term_rows(_language(document), chunks, texts) if anew else []
    try:
        _write(adding, document, chunks, vectors, terms)
    except IntegrityError as exc:  # its passages were replaced meanwhile
        raise DocumentGone from exc
    return len(chunks)


def _is_cut(adding: Adding, document: Document) -> bool:
    """Whether all of its passages of the generation are there: the first are weighed after that."""
    with tenant_scope(document.tenant_id):
        return ChunkTerms.objects.filter(
            tenant_id=document.tenant_id,
            document_id=document.id,
            generation=adding.index.generation,
        ).exists()


def _read_piece(index: EmbeddingIndex, document: Document) -> list[Chunk]:
    """The piece with the first passage that has no vector; as indexing makes pieces."""
    with tenant_scope(document.tenant_id):
        chunks = Chunk.objects.filter(
            tenant_id=document.tenant_id, document_id=document.id, generation=index.generation
        )
        first = chunks_without_vector(index, document).aggregate(first=Min("ordinal"))["first"]
        if first is None:
            return []
        count = chunks.count()
        size = count if count <= indexing.STAGE_ABOVE else indexing.PIECE_CHUNKS
        start = first // size * size
        piece = chunks.filter(ordinal__gte=start, ordinal__lt=start + size)
        # Shortest first: a batch is padded to its longest text.
        return sorted(
            piece.only("id", "text", "heading_path", "token_count", "ordinal"),
            key=lambda chunk: (chunk.token_count, chunk.ordinal),
        )


def _embed_accounted(
    adding: Adding, document: Document, chunks: Sequence[Chunk], texts: Sequence[str]
) -> list[npt.NDArray[np.float16]]:
    """The vectors; what was read is booked with the document's collection."""
    trace = Trace(
        document.tenant_id,
        "ingestion",
        trace_id=document.id,
        collection_ids=(document.collection_id,),
    )
    tokens = sum(chunk.token_count for chunk in chunks)
    with trace.hop("index") as hop, counted(hop, "embed", adding.index.model_id, tokens):
        vectors = _embed(adding, texts)
    account_for(trace)
    return vectors


def _embed(adding: Adding, texts: Sequence[str]) -> list[npt.NDArray[np.float16]]:
    vectors: list[npt.NDArray[np.float16]] = []
    for at in range(0, len(texts), EMBED_BATCH):
        leases.renew(adding.claim)
        embedded = adding.embedder.embed_documents(texts[at : at + EMBED_BATCH])
        vectors.extend(embedded.astype(np.float16))
    return vectors


def _language(document: Document) -> str:
    with tenant_scope(document.tenant_id):
        return rows.language_of(document)


def _write(
    adding: Adding,
    document: Document,
    chunks: Sequence[Chunk],
    vectors: Sequence[npt.NDArray[np.float16]],
    terms: Sequence[TermRow],
) -> None:
    index = adding.index
    with _holding(adding, document, weighing=bool(terms)):
        # What is left of a piece whose passages were replaced one by one is written anew.
        ChunkVector.objects.filter(
            tenant_id=index.tenant_id,
            index=index,
            slot=index.slot,
            chunk_id__in=[chunk.id for chunk in chunks],
        ).delete()
        rows.copy_vectors(document, index, chunks, vectors)
        if terms:
            _write_terms(document, index, terms)
        if not chunks_without_vector(index, document).exists():
            _mark(document, index)


def _write_terms(document: Document, index: EmbeddingIndex, terms: Sequence[TermRow]) -> None:
    average = rows.weighing_average(document, index.generation, [term.length for term in terms])
    ChunkTerms.objects.filter(
        tenant_id=document.tenant_id, chunk_id__in=[term.chunk_id for term in terms]
    ).delete()
    rows.copy_terms(document, index.generation, terms, average)


def _mark(document: Document, index: EmbeddingIndex) -> None:
    chunk_count = Chunk.objects.filter(
        tenant_id=document.tenant_id, document_id=document.id, generation=index.generation
    ).count()
    IndexedDocument.objects.update_or_create(
        tenant_id=document.tenant_id,
        index=index,
        document=document,
        defaults={"chunk_count": chunk_count},
    )
    # Left out when the passages' generation was put in force, for it was not cut yet.
    in_force = EmbeddingIndex.objects.filter(
        tenant_id=index.tenant_id, id=index.id, active=True
    ).exists()
    if in_force and document.generation != index.generation:
        Document.objects.filter(tenant_id=document.tenant_id, id=document.id).update(
            generation=index.generation, chunk_count=chunk_count
        )
    if in_force:  # its vectors are searched from now on
        raise_version(tenant_id=document.tenant_id, collection_id=document.collection_id)


@contextmanager
def _holding(adding: Adding, document: Document, *, weighing: bool) -> Iterator[None]:
    """A transaction that holds collection, document and build, in that order.

    Writing vectors keeps nobody but a deletion out of the collection; weights share an average, so
    they are written by one at a time.
    """
    strength = "FOR NO KEY UPDATE" if weighing else "FOR KEY SHARE"
    with tenant_scope(document.tenant_id):
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT 1 FROM documents_collection WHERE tenant_id = %s AND id = %s {strength}",  # noqa: S608
                [document.tenant_id, document.collection_id],
            )
        hold_ready(document)
        leases.renew(adding.claim)
        yield
