"""The project's own documentation as a collection, ingested by the real worker."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.files import File

from apps.documents import services
from apps.documents.models import Collection, Document, DocumentState
from apps.tenants.scope import tenant_scope
from ragsite.stack.demo.people import Demo

NAME = "ragsite documentation"
_FAILED = DocumentState.FAILED
_ENDED = (DocumentState.READY, _FAILED)
_POLL_S = 0.2


@dataclass(frozen=True)
class Changes:
    """What bringing the collection up to date did, by document name."""

    uploaded: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: int


def ensure_collection(demo: Demo) -> Collection:
    """The collection, made on first use."""
    with tenant_scope(demo.tenant.id):
        found = Collection.objects.filter(tenant=demo.tenant, name=NAME).first()
        return found or services.create_collection(
            tenant=demo.tenant,
            name=NAME,
            description="How this site works: written for its users.",
            open_to_all=True,
            user=demo.corpus_admin,
        )


def bring_up_to_date(demo: Demo, collection: Collection, folder: Path) -> Changes:
    """Make the collection hold the Markdown files of `folder` as they are now.

    A file whose bytes the collection has is left alone; a changed one is the next version of its
    predecessor, which old answers go on citing and labels follow.
    """
    files = {path.name: path for path in sorted(folder.glob("*.md"))}
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    known = _documents(demo, collection)
    useless = [each for each in known if each.name not in files or each.state == _FAILED]
    for document in useless:
        services.delete_document(tenant=demo.tenant, document=document, actor=demo.corpus_admin)
    kept = {each.name for each in known if hashes.get(each.name) == each.sha256} - {
        each.name for each in useless
    }
    new = [name for name in files if name not in kept]
    for name in new:
        _upload(demo, collection, files[name])
    gone = tuple(document.name for document in useless if document.name not in files)
    return Changes(uploaded=tuple(new), deleted=gone, unchanged=len(kept))


def _upload(demo: Demo, collection: Collection, path: Path) -> None:
    with path.open("rb") as file:
        services.receive_upload(
            tenant=demo.tenant,
            collection=collection,
            user=demo.corpus_admin,
            path=path.name,
            file=File(file, name=path.name),
        )


def wait_until_ingested(
    demo: Demo, collection: Collection, *, timeout_s: float = 900.0
) -> Iterator[Document]:
    """Yield each unfinished document as it becomes ready or fails.

    Raises TimeoutError when the worker makes nothing ready or failed for `timeout_s`.
    """
    waiting = {document.id for document in _documents(demo, collection) if not _ended(document)}
    deadline = time.monotonic() + timeout_s
    while waiting:
        for document in _documents(demo, collection):
            if document.id in waiting and _ended(document):
                waiting.remove(document.id)
                deadline = time.monotonic() + timeout_s
                yield document
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{len(waiting)} documents are still not ingested; see the worker's log"
            )
        time.sleep(_POLL_S)


def _documents(demo: Demo, collection: Collection) -> list[Document]:
    """The newest versions; older ones are superseded, or soon will be."""
    with tenant_scope(demo.tenant.id):
        rows = Document.objects.filter(tenant=demo.tenant, collection=collection)
        return list(rows.order_by("path", "-version").distinct("path"))


def _ended(document: Document) -> bool:
    return document.state in _ENDED
