"""Keeping a collection in step with a watched folder or prefix.

A run lists what is there, compares it with what was there (`SourceFile`), deletes the documents of
files that have gone and receives those that are new or changed. It works in slices of a few
seconds, so that it never keeps a worker's place for long, and may be killed at any moment: nothing
is remembered of a file before its document is committed, and a document that was committed and not
remembered is recognised by its path and bytes.

Nothing is removed unless it is sure: not when the place cannot be listed in full, and not when
everything, or most of it, would go, before a person has confirmed it (a mount that is gone looks
like an empty folder).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils import timezone

from apps.documents import quotas, services, watching
from apps.documents.errors import (
    DocumentError,
    DuplicateDocument,
    FileChanging,
    PathTaken,
    QuotaExceeded,
)
from apps.documents.files import Chunked
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Document, DocumentState, Source, SourceFile
from apps.documents.sources import open_source
from apps.documents.sources.types import Entry, Listing, Reader, Refusal
from apps.documents.watching import Turn
from apps.tenants.scope import tenant_scope

logger = logging.getLogger(__name__)

SLICE_S = 10.0
_RENEW_S = 5.0
_REFUSALS_KEPT = 50
_HELD_FROM = 10  # documents; of fewer, it is no loss to remove most
_SAME_BYTES = DuplicateDocument.code
# Told by size or content: the same file is refused again. Others are tried again each time.
_LASTING = {"empty", "too_large", _SAME_BYTES}


class _Lost(Exception):
    """The source is gone or another worker has it: stop, and say nothing."""


@dataclass
class Outcome:
    """What a run came to: numbers of files, and why some were not taken."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    same: int = 0  # the bytes of another document
    waiting: int = 0  # being written
    refused: int = 0
    held: int = 0  # documents that go once a person confirms it
    refusals: list[dict[str, str]] = field(default_factory=list)
    code: str = ""  # why the run as a whole did less than it should
    message: str = ""
    unfinished: bool = False
    batch: str = ""

    @classmethod
    def load(cls, stored: dict[str, Any]) -> Outcome:
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})


def sync_next() -> bool:
    """Synchronise the source whose turn it is for a slice; False where none is due."""
    turn = watching.take()
    if turn is None:
        return False
    with tenant_scope(turn.tenant_id):
        source = (
            Source.objects.select_related("tenant", "collection")
            .filter(tenant_id=turn.tenant_id, id=turn.source_id)
            .first()
        )
    if source is not None:
        try:
            _Run(source, turn).work()
        except _Lost:
            logger.info("source %s was taken over or removed", turn.source_id)
    watching.wake_if_due()
    return True


class _Run:
    """One slice of a run over one source."""

    def __init__(self, source: Source, turn: Turn) -> None:
        self.source, self.turn = source, turn
        self.tenant, self.collection = source.tenant, source.collection
        self.ends = time.monotonic() + SLICE_S
        self.renewed = time.monotonic()
        earlier = Outcome.load(source.outcome)
        self.is_first = not earlier.unfinished
        self.outcome = Outcome() if self.is_first else earlier

    def work(self) -> None:
        if self.is_first:
            self._save(last_started_at=timezone.now())
        self.outcome.unfinished = False
        self.outcome.waiting = 0
        try:
            if self.source.removing:
                self._dismantle()
            else:
                reader = open_source(self.source)
                self._compare(reader, reader.list_files())
        except DocumentError as exc:
            self.outcome.code, self.outcome.message = exc.code, str(exc)
        self._finish()

    # --- Comparing -------------------------------------------------------------------------------

    def _compare(self, reader: Reader, listing: Listing) -> None:
        known, there = self._known(), listing.paths()
        gone = [row for path, row in known.items() if path not in there]
        self._remove(self._allowed(gone, known, listing))
        for entry, row in list(self._wanted(listing.entries, known)):
            if self._is_over():
                return
            self._take(reader, entry, row)
        self._count(listing)

    def _known(self) -> dict[str, SourceFile]:
        with tenant_scope(self.tenant.id):
            return {row.path: row for row in self._files()}

    def _allowed(
        self, gone: list[SourceFile], known: dict[str, SourceFile], listing: Listing
    ) -> list[SourceFile]:
        """Those of the files that have gone that may be acted upon."""
        if not listing.complete:
            self.outcome.code = "incomplete"
            self.outcome.message = (
                "A part could not be read, so nothing was removed. Let the worker's user read it."
            )
            return []
        going = sum(row.document_id is not None for row in gone)
        brought = sum(row.document_id is not None for row in known.values())
        most = brought >= _HELD_FROM and 2 * going > brought
        if going <= self.source.removals_allowed or not (most or not listing.entries):
            return gone
        self.outcome.held = going
        self.outcome.code = "removals_held"
        self.outcome.message = (
            f"{going:,} of {brought:,} documents would be removed, because their files have gone. "
            "They stay until this is confirmed. If the files should be there, check the place."
        )
        return [row for row in gone if row.document_id is None]

    def _wanted(
        self, entries: Sequence[Entry], known: dict[str, SourceFile]
    ) -> Iterator[tuple[Entry, SourceFile | None]]:
        """Files that are new, changed, or may be taken now though they were not before."""
        back = self._bytes_that_left(known)
        for entry in entries:
            row = known.get(entry.path)
            if row is None or (row.size_bytes, row.stamp) != (entry.size_bytes, entry.stamp):
                yield entry, row
                continue
            is_settled = not row.code or row.code in _LASTING
            if not is_settled or row.sha256 in back:
                yield entry, row

    def _bytes_that_left(self, known: dict[str, SourceFile]) -> set[str]:
        """Of files that were the same as another document: those whose other is gone."""
        same = {row.sha256 for row in known.values() if row.code == _SAME_BYTES}
        if not same:
            return set()
        with tenant_scope(self.tenant.id):
            there = Document.objects.filter(
                tenant=self.tenant, collection=self.collection, sha256__in=same
            ).exclude(state=DocumentState.SUPERSEDED)
            return same - set(there.values_list("sha256", flat=True))

    # --- Removing --------------------------------------------------------------------------------

    def _remove(self, rows: Sequence[SourceFile]) -> None:
        for row in rows:
            if self._is_over():
                return
            self._remove_document(row)
            with tenant_scope(self.tenant.id):
                self._files().filter(id=row.id).delete()

    def _remove_document(self, row: SourceFile) -> None:
        """Delete the document, unless a person has put a version of their own over it."""
        newest = self._newest(row.path)
        if newest is not None and newest.id == row.document_id:
            services.delete_document(tenant=self.tenant, document=newest, actor=None)
            self.outcome.removed += 1

    def _dismantle(self) -> None:
        """The source was removed, with its documents: when they are gone, it goes."""
        self._remove(list(self._known().values()))
        if not self.outcome.unfinished:
            with tenant_scope(self.tenant.id):
                Source.objects.filter(tenant=self.tenant, id=self.source.id).delete()

    # --- Taking ----------------------------------------------------------------------------------

    def _take(self, reader: Reader, entry: Entry, row: SourceFile | None) -> None:
        try:
            newest = self._newest_of_ours(entry.path, row)
            self._receive(reader, entry, newest)
        except FileChanging:
            self.outcome.waiting += 1
        except DuplicateDocument as exc:
            self._take_same(entry, exc.document, newest)
        except QuotaExceeded as exc:
            self._note_no_room(entry, row, exc)
        except DocumentError as exc:
            if exc.retryable:
                raise
            self._remember(entry, code=exc.code, message=str(exc))

    def _note_no_room(self, entry: Entry, row: SourceFile | None, exc: QuotaExceeded) -> None:
        """The file is tried again at every run: it comes as soon as there is room."""
        if not self.outcome.code:
            self.outcome.code = exc.code
            self.outcome.message = f"Files are left out until there is room. {exc}"
        known = row is not None and (row.stamp, row.code) == (entry.stamp[:200], exc.code)
        if not known:
            self._remember(entry, code=exc.code, message=str(exc))

    def _receive(self, reader: Reader, entry: Entry, newest: Document | None) -> None:
        if newest is None:  # known before it is read: there may be many, at every run
            quotas.refuse_without_room(quotas.Addition(self.tenant.id, entry.size_bytes))
        with reader.open_file(entry) as file:
            document = services.receive_upload(
                tenant=self.tenant,
                collection=self.collection,
                user=None,
                path=entry.path,
                file=_Watched(file, self._hold),
                batch=self._batch(),
            )
        self._remember(entry, document=document)
        if newest is None:
            self.outcome.added += 1
        else:
            self.outcome.changed += 1

    def _take_same(self, entry: Entry, same: Document, newest: Document | None) -> None:
        """The collection has these bytes: as this very file, or as another document."""
        if newest is None or same.path != entry.path:
            if newest is not None:  # what it was before is nowhere any more
                services.delete_document(tenant=self.tenant, document=newest, actor=None)
                self.outcome.removed += 1
            message = f"The collection has these bytes already, as “{same.path}”."
            self._remember(entry, code=_SAME_BYTES, message=message, sha256=same.sha256)
        elif newest.id != same.id and newest.state in UNFINISHED:
            self.outcome.waiting += 1  # an older version came back while the newer is on its way
        else:
            self._remember(entry, document=newest)

    def _newest_of_ours(self, path: str, row: SourceFile | None) -> Document | None:
        """The document of this path; None where there is none. Raises PathTaken.

        Ours is what this source brought; or what a source brought that is watched no longer, or
        whose worker was killed before it had written that down.
        """
        newest = self._newest(path)
        if newest is None or (row is not None and row.document_id == newest.id):
            return newest
        with tenant_scope(self.tenant.id):
            brought = newest.batch is not None and newest.batch.source == Batch.Source.SYNC
            known = SourceFile.objects.filter(tenant=self.tenant, document=newest)
            if brought and not known.exists():
                return newest
        raise PathTaken(
            "The collection has another document of this name, which stays as it is. Rename the "
            "file, or delete that document."
        )

    def _newest(self, path: str) -> Document | None:
        with tenant_scope(self.tenant.id):
            return (
                Document.objects.select_related("batch")
                .filter(tenant=self.tenant, collection=self.collection, path=path)
                .order_by("-version")
                .first()
            )

    def _remember(
        self,
        entry: Entry,
        *,
        document: Document | None = None,
        code: str = "",
        message: str = "",
        sha256: str = "",
    ) -> None:
        """What the file was and came to. A file that is refused leaves its document as it was."""
        row = SourceFile(
            tenant=self.tenant,
            source=self.source,
            path=entry.path,
            size_bytes=entry.size_bytes,
            stamp=entry.stamp[:200],
            code=code[:60],
            message=message[:500],
            sha256=document.sha256 if document else sha256,
            document=document,
        )
        changed = ["size_bytes", "stamp", "code", "message", "sha256"]
        if document is not None or code == _SAME_BYTES:
            changed.append("document")
        with tenant_scope(self.tenant.id):
            SourceFile.objects.bulk_create(
                [row],
                update_conflicts=True,
                unique_fields=["tenant", "source", "path"],
                update_fields=changed,
            )

    def _batch(self) -> Batch:
        """One for a whole run, opened with its first file."""
        if not self.outcome.batch:
            batch = services.open_batch(
                tenant=self.tenant,
                collection=self.collection,
                user=None,
                source=Batch.Source.SYNC,
            )
            self.outcome.batch = str(batch.id)
        return Batch(
            id=uuid.UUID(self.outcome.batch), tenant=self.tenant, collection=self.collection
        )

    # --- Holding on, and telling -----------------------------------------------------------------

    def _is_over(self) -> bool:
        """Whether the slice has ended. Raises _Lost."""
        self._hold()
        if time.monotonic() > self.ends:
            self.outcome.unfinished = True
        return self.outcome.unfinished

    def _hold(self) -> None:
        if time.monotonic() - self.renewed > _RENEW_S:
            self.renewed = time.monotonic()
            if not watching.renew(self.turn):
                raise _Lost

    def _count(self, listing: Listing) -> None:
        """What was neither added nor changed, at the end of a run."""
        known = self._known()
        refused = [
            Refusal(row.path, row.code, row.message)
            for row in known.values()
            if row.code not in ("", _SAME_BYTES)
        ]
        every = [*listing.refusals, *refused]
        self.outcome.refused = len(every)
        self.outcome.refusals = [asdict(each) for each in every[:_REFUSALS_KEPT]]
        self.outcome.same = sum(row.code == _SAME_BYTES for row in known.values())
        taken = sum(not known[each.path].code for each in listing.entries if each.path in known)
        moved = self.outcome.added + self.outcome.changed
        self.outcome.unchanged = max(0, taken - moved - self.outcome.waiting)

    def _finish(self) -> None:
        if not watching.renew(self.turn):
            raise _Lost
        if self.outcome.unfinished:
            self._save()
            watching.leave(self.turn, due_in_minutes=0)
            return
        confirmed = {"removals_allowed": 0} if self.source.removals_allowed else {}
        self._save(last_finished_at=timezone.now(), **confirmed)
        watching.leave(self.turn, due_in_minutes=self.source.every_minutes)

    def _save(self, **fields: object) -> None:
        with tenant_scope(self.tenant.id):
            Source.objects.filter(tenant=self.tenant, id=self.source.id).update(
                outcome=asdict(self.outcome), **fields
            )

    def _files(self) -> Any:
        return SourceFile.objects.filter(tenant=self.tenant, source=self.source)


@dataclass(frozen=True)
class _Watched:
    """A file that keeps its source held while it is read."""

    file: Chunked
    hold: Any

    def chunks(self) -> Iterator[bytes]:
        for data in self.file.chunks():
            self.hold()
            yield data
