"""A small library with a model server behind it, for tests of the whole answer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_django import Settings

from apps.documents import jobs
from apps.documents.models import Chunk, Collection, Document, DocumentState, Page, Stage
from apps.inference import registry
from apps.retrieval.indexing import index_next
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.contract.tei import TeiDouble
from tests.contract.tgi import TgiDouble

PASSAGES = (
    "Employees receive 25 days of paid leave a year, granted in January.",
    "Travel expenses are refunded within 14 days after the receipts arrive.",
    "The canteen opens at noon and serves lunch until two.",
)
SUPPORTED = "Employees receive 25 days of paid leave a year."


@dataclass
class Library:
    """What there is to ask, and who answers."""

    collection: Collection
    document: Document
    tgi: TgiDouble
    tei: TeiDouble


@contextmanager
def open_library(tenant: Tenant, settings: Settings) -> Iterator[Library]:
    """A tenant with one indexed document; TEI and TGI doubles serve embedder and generator."""
    with TeiDouble() as tei, TgiDouble() as tgi:
        settings.TEI_URL, settings.TGI_URL, settings.RERANKER = tei.url, tgi.url, "off"
        settings.OPENAI_URL = ""
        registry.forget()
        collection, document = add_document(tenant, PASSAGES)
        yield Library(collection, document, tgi, tei)
    registry.forget()


def add_document(
    tenant: Tenant,
    passages: tuple[str, ...],
    *,
    collection: Collection | None = None,
    name: str = "handbook.md",
) -> tuple[Collection, Document]:
    """A chunked document, indexed by the real job, in a collection of its own unless told."""
    text = "\n\n".join(passages)
    with tenant_scope(tenant.id):
        if collection is None:
            collection = Collection.objects.create(tenant=tenant, name=f"Library {uuid.uuid4()}")
        document = Document.objects.create(
            tenant=tenant,
            collection=collection,
            path=name,
            name=name,
            kind="text/markdown",
            size_bytes=len(text),
            sha256=uuid.uuid4().hex * 2,
            storage_key=f"test/{uuid.uuid4()}",
            state=DocumentState.INDEXING,
            page_count=1,
        )
        Page.objects.create(tenant=tenant, document=document, number=1, text=text, char_start=0)
        for ordinal, passage in enumerate(passages):
            start = text.index(passage)
            Chunk.objects.create(
                tenant=tenant,
                document=document,
                ordinal=ordinal,
                text=passage,
                char_start=start,
                char_end=start + len(passage),
                page_first=1,
                page_last=1,
                token_count=20,
            )
        jobs.submit(document, Stage.INDEX)
    assert index_next()
    with tenant_scope(tenant.id):
        document.refresh_from_db()
    assert document.state == DocumentState.READY
    return collection, document
