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

from apps.documents.errors import EmptyFile, FileMissing, FileTooLarge, StorageUnavailable

NAME_MAX_CHARS = 255
PATH_MAX_CHARS = 500
_READ_BYTES = 1024 * 1024
# Folders whose own names, up to MEDIA_ROOT, are known to be on the disk.
_flushed: set[tuple[str, int]] = set()
_FLUSHED_MAX = 10_000
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


def check_size(size_bytes: int) -> None:
    """Raises EmptyFile or FileTooLarge."""
    if size_bytes == 0:
        raise EmptyFile("The file is empty. Check that it was saved, and upload it again.")
    if size_bytes > settings.UPLOAD_MAX_BYTES:
        raise FileTooLarge(
            f"The file is larger than {settings.UPLOAD_MAX_BYTES // 2**20} MiB, the most that is "
            "accepted. Split it, or have the limit raised."
        )


@contextmanager
def receive(file: Chunked | IO[bytes]) -> Iterator[Received]:
    """Stream an upload to a temporary file, hashing it; it is removed unless `store` took it.

    Raises FileTooLarge as soon as it is one byte over UPLOAD_MAX_BYTES, EmptyFile, and
    StorageUnavailable.
    """
    with _storage_errors():
        handle, name = tempfile.mkstemp(dir=_scratch())
    path = Path(name)
    try:
        with os.fdopen(handle, "wb", buffering=0) as target:
            size, digest = _copy(file, target)
            with _storage_errors():
                os.fsync(target.fileno())
        check_size(size)
        yield Received(path, size, digest)
    finally:
        path.unlink(missing_ok=True)


def _copy(file: Chunked | IO[bytes], target: IO[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    chunks = getattr(file, "chunks", None)
    for data in chunks() if chunks else iter(lambda: file.read(_READ_BYTES), b""):  # type: ignore[union-attr]
        size += len(data)
        check_size(size)
        digest.update(data)
        with _storage_errors():  # not around the reading: a sender who goes away is no fault here
            _write(target, data)
    return size, digest.hexdigest()


def _write(target: IO[bytes], data: bytes) -> None:
    """All of it: an unbuffered file may take a part, and then say that the disk is full."""
    view = memoryview(data)
    while view:
        view = view[target.write(view) :]


class _Moved(File):  # type: ignore[type-arg] # not generic at run time
    """Tells Django's file storage to rename rather than copy: a stored file is a whole file."""

    def temporary_file_path(self) -> str:
        return str(self.name)


def storage_key(tenant_id: uuid.UUID, document_id: uuid.UUID, sha256: str) -> str:
    """Where a document's bytes are kept; nothing of the client's in it."""
    return f"documents/{tenant_id.hex}/{sha256[:2]}/{sha256}-{document_id.hex}"


def store(received: Received, key: str) -> str:
    """Put the file under `key`; returns the key the storage chose.

    When it returns, a loss of power loses nothing. Raises StorageUnavailable, and leaves nothing.
    """
    with _storage_errors():
        with received.path.open("rb") as data:
            chosen = str(default_storage.save(key, _Moved(data, name=str(received.path))))
        if default_storage.size(chosen) != received.size_bytes:
            default_storage.delete(chosen)
            raise StorageUnavailable("The file storage kept only a part of the file. Try again.")
        _flush_folders(chosen)
    return chosen


def store_bytes(data: bytes, key: str) -> str:
    """`receive` and `store` in one, for bytes that are at hand."""
    with receive(ContentFile(data)) as received:
        return store(received, key)


def _flush_folders(key: str) -> None:
    """On a disk, a file's name is safe once its folder is flushed, and the folder's in its own.

    Those above are flushed once per process: a flush takes milliseconds, and there may be 10,000
    files to come.
    """
    path = _path_on_disk(key)
    if path is None:
        return
    folder = path.parent
    _flush(folder)
    identity = (str(folder), folder.stat().st_ino)
    if identity in _flushed:
        return
    while folder not in (Path(settings.MEDIA_ROOT), folder.parent):
        folder = folder.parent
        _flush(folder)
    if len(_flushed) >= _FLUSHED_MAX:
        _flushed.clear()
    _flushed.add(identity)


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(key: str) -> None:
    """Delete the file if it is there. Raises StorageUnavailable."""
    with _storage_errors():
        default_storage.delete(key)


def open_stored(key: str) -> File[Any]:
    """The stored file, open for reading in binary. Raises FileMissing or StorageUnavailable."""
    with _storage_errors():
        return default_storage.open(key, "rb")


@contextmanager
def local_path(key: str) -> Iterator[Path]:
    """The stored file as a path on this machine: its own, or a copy where storage is elsewhere.

    Raises FileMissing or StorageUnavailable.
    """
    path = _path_on_disk(key)
    if path is not None:
        if not path.is_file():
            raise _missing()
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=_scratch()) as copy:
        with open_stored(key) as remote:
            for data in remote.chunks(_READ_BYTES):
                copy.write(data)
        copy.flush()
        yield Path(copy.name)


def _path_on_disk(key: str) -> Path | None:
    """None where storage is not a disk of this machine."""
    try:
        return Path(default_storage.path(key))
    except NotImplementedError:
        return None


def _scratch() -> Path:
    """A folder of this machine for files that are on their way, whatever the storage is."""
    folder = Path(settings.MEDIA_ROOT) / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _storage_errors() -> Iterator[None]:
    """A missing file is the document's fault; any other error is the disk's, and may pass."""
    try:
        yield
    except FileNotFoundError as exc:
        raise _missing() from exc
    except OSError as exc:
        raise StorageUnavailable(
            f"The file storage does not work ({exc.strerror or type(exc).__name__}). Nothing is "
            "lost; it is tried again by itself. If it lasts, operations check the disk."
        ) from exc


def _missing() -> FileMissing:
    return FileMissing("The stored file is missing. Delete the document and upload it again.")


def remove_abandoned(*, older_than_s: float) -> None:
    """Delete temporary files of uploads whose process died."""
    for path in _scratch().glob("*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()
