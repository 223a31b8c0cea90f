"""Cutting a ready document anew, beside the chunks that are in force.

The file is read again in the sandbox, for headings and offsets are not stored; its pages stay as
they are. Killed at any point it starts over: its first write removes what an earlier attempt had
written of that generation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from apps.documents.ingestion import Before, insert_chunks, read_sections
from apps.documents.models import Chunk, Chunking, Document, DocumentState
from apps.documents.reading import Section
from apps.tenants.scope import tenant_scope


class DocumentGone(Exception):
    """The document was deleted, superseded or is being read anew: there is nothing to be done."""

    code = "document_gone"


def chunk_again(
    document: Document, chunking: Chunking, *, on_tick: Callable[[], None] = lambda: None
) -> int:
    """Write the document's chunks of `chunking.generation`; how many they are.

    `on_tick` is called while the file is read, and ends it by raising. Raises DocumentGone, a
    DocumentError or a SandboxError.
    """
    pages = chars = chunks = 0
    with closing(read_sections(document, chunking, on_tick=on_tick)) as sections:
        for section in sections:
            _write(document, chunking.generation, section, Before(pages, chars, chunks))
            pages += len(section.pages)
            chars += sum(len(page) for page in section.pages)
            chunks += len(section.passages)
    return chunks


def hold_ready(document: Document) -> None:
    """Hold the document as it was read, ready and of its generation, to the transaction's end.

    Raises DocumentGone.
    """
    held = Document.objects.select_for_update(no_key=True).filter(
        tenant_id=document.tenant_id,
        id=document.id,
        state=DocumentState.READY,
        generation=document.generation,
    )
    if held.only("id").first() is None:
        raise DocumentGone


def _write(document: Document, generation: int, section: Section, before: Before) -> None:
    with tenant_scope(document.tenant_id):
        hold_ready(document)
        if before.pages == 0:
            Chunk.objects.filter(
                tenant_id=document.tenant_id, document_id=document.id, generation=generation
            ).delete()
        insert_chunks(document, generation, section, before)
