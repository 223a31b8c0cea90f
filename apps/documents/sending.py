"""Files and folders of this machine on their way into a collection.

find → compare → send → follow. Sending the same folder again changes nothing: a file whose bytes
the collection has is left alone. What was sent goes on, whatever becomes of the sender.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from apps.documents import files, services
from apps.documents.errors import DocumentError, DuplicateDocument
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Collection, Document, DocumentState
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from worker.sandbox import SandboxError

UNCHANGED = "unchanged"
_POLL_S = 0.25
_IDS_PER_QUERY = 1000


@dataclass
class Outcome:
    """What became of one file. `state`: that of its document, or UNCHANGED where it was ready."""

    path: str
    state: str = DocumentState.FAILED
    code: str = ""
    message: str = ""
    pages: int = 0
    chunks: int = 0
    version: int = 0
    seconds: float = 0.0  # from sending to the end
    document_id: uuid.UUID | None = None
    began: float = field(default_factory=time.monotonic)

    def take(self, document: Document) -> None:
        """Say how the document stands now."""
        self.document_id, self.version = document.id, document.version
        self.pages, self.chunks = document.page_count, document.chunk_count
        self.state, self.code = document.state, document.error_code
        self.message = document.error_message

    def fail(self, code: str, message: str) -> None:
        self.state, self.code, self.message = DocumentState.FAILED, code, message

    @property
    def unfinished(self) -> bool:
        return self.state in UNFINISHED


@dataclass(frozen=True)
class Item:
    """One file, and the path it is to have in the collection."""

    source: Path
    path: str


@dataclass
class Found:
    """Files to send in their order; what cannot be sent; links that lead out of their folder."""

    items: dict[str, Item] = field(default_factory=dict)
    refused: list[Outcome] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)

    def add(self, source: Path, path: str) -> None:
        clean = files.clean_path(path)
        other = self.items.setdefault(clean, Item(source, clean)).source
        if other != source and not other.samefile(source):
            outcome = Outcome(path)
            outcome.fail(
                "same_path",
                f"“{source}” and “{other}” would both be “{clean}” in the collection. "
                "Rename one of them, or send the folder that holds both.",
            )
            self.refused.append(outcome)

    def refuse(self, error: OSError) -> None:
        outcome = Outcome(str(error.filename))
        outcome.fail("not_sent", f"Could not be opened: {error.strerror}. Check who may read it.")
        self.refused.append(outcome)


def find_files(sources: Iterable[Path]) -> Found:
    """All files below `sources`; those of a folder are known by their paths in it.

    Hidden files and folders in a folder are skipped, as are pipes and devices. A link is followed
    only to a file inside the same folder.
    """
    found = Found()
    for source in sources:
        if not source.is_dir():
            found.add(source, source.name)
            continue
        root = source.resolve()
        for folder, subfolders, names in os.walk(root, onerror=found.refuse):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for name in sorted(name for name in names if not name.startswith(".")):
                path = Path(folder, name)
                if path.is_symlink() and not path.resolve().is_relative_to(root):
                    found.links.append(path)
                elif path.is_file():
                    found.add(path, str(path.relative_to(root)))
    return found


def compare(*, tenant: Tenant, collection: Collection, item: Item) -> Outcome | None:
    """What is known of a file without sending it; None: it has to be sent.

    That is how the document stands that has its bytes, or why it would not be taken.
    """
    outcome = Outcome(item.path)
    try:
        with item.source.open("rb") as file:
            files.check_size(os.fstat(file.fileno()).st_size)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except DocumentError as exc:
        outcome.fail(exc.code, str(exc))
        return outcome
    except OSError as exc:
        outcome.fail("not_sent", f"Could not be read: {exc.strerror}. Check who may read it.")
        return outcome
    with tenant_scope(tenant.id):
        known = (
            Document.objects.filter(tenant=tenant, collection=collection, sha256=sha256)
            .exclude(state=DocumentState.SUPERSEDED)
            .first()
        )
    return _known(outcome, known) if known else None


def send(
    *,
    tenant: Tenant,
    collection: Collection,
    item: Item,
    batch: Batch,
    tags: Sequence[str] = (),
) -> Outcome:
    """Hand one file over; it has arrived when this returns without a failure."""
    outcome = Outcome(item.path)
    try:
        with item.source.open("rb") as file:
            document = services.receive_upload(
                tenant=tenant,
                collection=collection,
                user=None,
                path=item.path,
                file=file,
                batch=batch,
                tags=tags,
            )
    except DuplicateDocument as exc:
        services.count_unchanged(batch=batch)
        return _known(outcome, exc.document)
    except DocumentError as exc:
        outcome.fail(exc.code, str(exc))
    except OSError as exc:
        outcome.fail("not_sent", f"Could not be read or stored: {exc.strerror}. Send it again.")
    else:
        outcome.take(document)
    return outcome


def _known(outcome: Outcome, document: Document) -> Outcome:
    outcome.take(document)
    if document.state == DocumentState.READY:
        outcome.state = UNCHANGED
    if document.path != outcome.path and not outcome.message:
        outcome.code, outcome.message = "duplicate", f"Has the same content as “{document.path}”."
    return outcome


@dataclass(frozen=True)
class Answers:
    """What to say to a document that asks: its password by its path, the encoding of a text."""

    passwords: Mapping[str, str] = field(default_factory=dict)
    encoding: str = ""


class Follower:
    """Watches documents to their end, and answers what they ask, once each."""

    def __init__(self, *, tenant: Tenant, answers: Answers, outcomes: Iterable[Outcome]) -> None:
        self._tenant, self._answers = tenant, answers
        self._asked: set[tuple[uuid.UUID, str]] = set()
        self._watched: dict[uuid.UUID, list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.document_id is not None and outcome.state != UNCHANGED:
                self._watched.setdefault(outcome.document_id, []).append(outcome)

    def retry_failed(self) -> None:
        """Send the documents that have failed before on their way again."""
        for document in self._documents(list(self._watched)):
            if document.state == DocumentState.FAILED:
                services.retry_document(tenant=self._tenant, document=document, actor=None)
                for outcome in self._watched[document.id]:
                    outcome.state, outcome.code, outcome.message = DocumentState.RECEIVED, "", ""

    def follow(self) -> Iterator[int]:
        """Yield, at each look, how many documents have ended since the last; ends with them."""
        while self._watched:
            ended = self._look()
            yield ended
            if not ended:
                time.sleep(_POLL_S)

    def _look(self) -> int:
        before = list(self._watched)
        found = {document.id: document for document in self._documents(before)}
        for document_id in before:
            document = found.get(document_id)
            if document is None:
                self._end(document_id, None)
            elif document.state not in UNFINISHED and not self._answer(document):
                self._end(document_id, document)
        return len(before) - len(self._watched)

    def _end(self, document_id: uuid.UUID, document: Document | None) -> None:
        for outcome in self._watched.pop(document_id):
            if document is not None:
                outcome.take(document)
            else:
                outcome.fail("deleted", "The document was deleted meanwhile.")
            outcome.seconds = time.monotonic() - outcome.began

    def _answer(self, document: Document) -> bool:
        """Whether the document asked for something that is known, and goes on with it."""
        key = (document.id, document.error_code)
        if document.state != DocumentState.FAILED or key in self._asked:
            return False
        self._asked.add(key)
        password = self._answers.passwords.get(document.path)
        try:
            if document.error_code == "password" and password is not None:
                services.unlock_document(
                    tenant=self._tenant, document=document, actor=None, password=password
                )
            elif document.error_code == "encoding" and self._answers.encoding:
                services.retry_document(
                    tenant=self._tenant,
                    document=document,
                    actor=None,
                    encoding=self._answers.encoding,
                )
            else:
                return False
        except (DocumentError, SandboxError) as exc:
            document.error_code, document.error_message = exc.code, str(exc)
            return False
        return True

    def _documents(self, ids: Sequence[uuid.UUID]) -> Iterator[Document]:
        for start in range(0, len(ids), _IDS_PER_QUERY):
            some = ids[start : start + _IDS_PER_QUERY]
            with tenant_scope(self._tenant.id):
                yield from list(Document.objects.filter(tenant=self._tenant, id__in=some))
