"""What can go wrong with documents.

DocumentError
├── EmptyFile            nothing in it
├── FileTooLarge         over UPLOAD_MAX_BYTES
├── QuotaExceeded        a limit on documents or storage leaves no room for it
├── DuplicateDocument    the collection has these bytes already (carries that document)
├── NameTaken            another collection has that name
├── CollectionGone       its collection was deleted meanwhile
├── NotRetryable         only a failed document can be tried again
├── TagsRefused          too many tags, or one that is too long
├── FileMissing          the stored file is gone
├── StorageUnavailable   the file storage does not answer, or refuses
├── SourceError          a watched folder or prefix of a bucket
│   ├── SourceNotAllowed     outside of what WATCH_ROOTS or WATCH_S3 name
│   ├── SourceTaken          the collection watches it already
│   ├── SourceUnreachable    gone, or cannot be listed
│   ├── TooManyFiles         more than WATCH_FILES_MAX
│   ├── FileChanging         being written: waits for the next run
│   ├── FileUnreadable       there, but cannot be read
│   └── PathTaken            another document has that path
├── NoPageImage          this kind of document has no page images, or this page cannot be drawn
└── Unreadable           the parser declines; the reason is the `code`
    ├── UnreadableKind       no parser for what the file holds
    ├── ArchiveRefused       an archive: its files belong uploaded one by one
    ├── PasswordProtected    needs a password
    ├── WrongPassword        the password does not open it
    ├── EncodingUnclear      its bytes can be read as several texts
    ├── NoTextFound          blank, or only pictures of text
    └── Damaged              of a known kind, but broken

Loaded inside the sandbox too: nothing of Django here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps.documents.models import Document


class DocumentError(Exception):
    """`str()` says what failed and what to do, in words for the person who uploads."""

    code = "document_error"
    retryable = False


class EmptyFile(DocumentError):
    code = "empty"


class FileTooLarge(DocumentError):
    code = "too_large"


class QuotaExceeded(DocumentError):
    """`measure` names what there is no room for: `documents` or `storage_bytes`."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, measure: str) -> None:
        super().__init__(message)
        self.measure = measure


class DuplicateDocument(DocumentError):
    code = "duplicate"

    def __init__(self, message: str, *, document: Document) -> None:
        super().__init__(message)
        self.document = document


class NameTaken(DocumentError):
    code = "name_taken"


class CollectionGone(DocumentError):
    code = "collection_gone"


class NotRetryable(DocumentError):
    code = "not_retryable"


class TagsRefused(DocumentError):
    code = "tags_refused"


class FileMissing(DocumentError):
    code = "file_missing"


class StorageUnavailable(DocumentError):
    code = "storage_unavailable"
    retryable = True


class SourceError(DocumentError):
    code = "source_error"


class SourceNotAllowed(SourceError):
    code = "source_not_allowed"


class SourceTaken(SourceError):
    code = "source_taken"


class SourceUnreachable(SourceError):
    code = "source_unreachable"


class TooManyFiles(SourceError):
    code = "too_many_files"


class FileChanging(SourceError):
    code = "file_changing"


class FileUnreadable(SourceError):
    code = "file_unreadable"


class PathTaken(SourceError):
    code = "path_taken"


class NoPageImage(DocumentError):
    code = "no_page_image"


class Unreadable(DocumentError):
    code = "unreadable"


class UnreadableKind(Unreadable):
    code = "unreadable_kind"


class ArchiveRefused(Unreadable):
    code = "archive"


class PasswordProtected(Unreadable):
    code = "password"


class EncodingUnclear(Unreadable):
    code = "encoding"


class WrongPassword(Unreadable):
    code = "wrong_password"


class NoTextFound(Unreadable):
    code = "no_text"


class Damaged(Unreadable):
    code = "damaged"
