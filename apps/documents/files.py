"""Uploaded files on their way to storage, and back."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
import unicodedata
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from django.conf import settings
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from apps.documents.errors import EmptyFile, FileMissing, FileTooLarge

NAME_MAX_CHARS = 255
PATH_MAX_CHARS = 500
_READ_BYTES = 1024 * 1024
# Direction marks and invisible characters make `evil‮fdp.exe` read as `evilexe.pdf`.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FORBIDDEN = re.compile(r'[<>:"|?*]')


class Chunked(Protocol):
    """What an upload looks like: Django's files do."""

    def chunks(self) -> Iterable[bytes]: ...


@dataclass(frozen=True)
class Received:
    """A file wholly on disk, its bytes flushed; not yet stored under its key."""

    path: Path
    size_bytes: int
    sha256: str


def clean_name(name: str) -> str:
    """A name fit to be shown and to be offered for download; never used as a path."""
    name = unicodedata.normalize("NFC", name).replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(char for char in name if unicodedata.category(char) not in _HIDDEN)
    name = " ".join(_FORBIDDEN.sub("_", name).split()).strip(". ")
    stem, dot, suffix = name.rpartition(".")
    if len(name) > NAME_MAX_CHARS and dot and len(suffix) <= 10:
        return stem[: NAME_MAX_CHARS - len(suffix) - 1].rstrip() + dot + suffix
    return name[:NAME_MAX_CHARS] or "document"


def clean_path(path: str) -> str:
    """A relative path of clean names, at most PATH_MAX_CHARS long: the end of a longer one.

    Never used as a path of this machine.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part.strip(". ")]
    names = [clean_name(part) for part in parts] or [clean_name("")]
    while len("/".join(names)) > PATH_MAX_CHARS and len(names) > 1:
        names.pop(0)
    return "/".join(names)


@contextmanager
def receive(file: Chunked | IO[bytes]) -> Iterator[Received]:
    """Stream an upload to a temporary file, hashing it; it is removed unless `store` took it.

    Raises FileTooLarge as soon as it is one byte over UPLOAD_MAX_BYTES, and EmptyFile.
    """
    incoming = Path(settings.MEDIA_ROOT) / "incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=incoming)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as target:
            size, digest = _copy(file, target)
            target.flush()
            os.fsync(target.fileno())
        if size == 0:
            raise EmptyFile("The file is empty. Check that it was saved, and upload it again.")
        yield Received(path, size, digest)
    finally:
        path.unlink(missing_ok=True)


def _copy(file: Chunked | IO[bytes], target: IO[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    chunks = getattr(file, "chunks", None)
    for data in chunks() if chunks else iter(lambda: file.read(_READ_BYTES), b""):  # type: ignore[union-attr]
        size += len(data)
        if size > settings.UPLOAD_MAX_BYTES:
            raise FileTooLarge(
                f"The file is larger than {settings.UPLOAD_MAX_BYTES // 2**20} MiB, the most that "
                "is accepted. Split it, or have the limit raised."
            )
        digest.update(data)
        target.write(data)
    return size, digest.hexdigest()


class _Moved(File):  # type: ignore[type-arg] # not generic at run time
    """Tells Django's file storage to rename rather than copy: a stored file is a whole file."""

    def temporary_file_path(self) -> str:
        return str(self.name)


def storage_key(tenant_id: uuid.UUID, document_id: uuid.UUID, sha256: str) -> str:
    """Where a document's bytes are kept; nothing of the client's in it."""
    return f"documents/{tenant_id.hex}/{sha256[:2]}/{sha256}-{document_id.hex}"


def store(received: Received, key: str) -> str:
    """Put the file under `key`; returns the key the storage chose."""
    with received.path.open("rb") as data:
        return str(default_storage.save(key, _Moved(data, name=str(received.path))))


def store_bytes(data: bytes, key: str) -> str:
    """Put `data` under `key`; returns the key the storage chose."""
    return str(default_storage.save(key, ContentFile(data)))


def remove(key: str) -> None:
    """Delete the file if it is there."""
    default_storage.delete(key)


def open_stored(key: str) -> File[Any]:
    """The stored file, open for reading in binary. Raises FileMissing."""
    try:
        return default_storage.open(key, "rb")
    except OSError as exc:
        raise _missing() from exc


@contextmanager
def local_path(key: str) -> Iterator[Path]:
    """The stored file as a path on this machine: its own, or a copy where storage is elsewhere."""
    try:
        path = Path(default_storage.path(key))
    except NotImplementedError:
        with open_stored(key) as remote, tempfile.NamedTemporaryFile() as copy:
            for data in remote.chunks():
                copy.write(data)
            copy.flush()
            yield Path(copy.name)
        return
    if not path.is_file():
        raise _missing()
    yield path


def _missing() -> FileMissing:
    return FileMissing("The stored file is missing. Delete the document and upload it again.")


def remove_abandoned(*, older_than_s: float) -> None:
    """Delete temporary files of uploads whose process died."""
    incoming = Path(settings.MEDIA_ROOT) / "incoming"
    for path in incoming.glob("*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()
