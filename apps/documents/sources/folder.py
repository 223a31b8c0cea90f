"""Folders of the worker's machine.

A folder that a tenant may watch is written to by people of that tenant, so nothing in it is
trusted: every step is taken from an open folder to a name in it (openat), and never along a link
(O_NOFOLLOW), so that swapping a folder for a link between two looks leads nowhere. What was opened
is looked at again (fstat) before a byte is read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings

from apps.documents.errors import (
    FileChanging,
    FileUnreadable,
    SourceUnreachable,
    TooManyFiles,
)
from apps.documents.files import Chunked
from apps.documents.sources.types import (
    Entry,
    Listing,
    Refusal,
    document_path,
    is_ignored,
    name_apart,
)

_READ_BYTES = 1024 * 1024
_DEPTH_MAX = 64  # folders in folders; one file handle each
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: opening a FIFO would wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class FolderReader:
    """`root` is the operators' and may be a link; nothing of `parts`, nor below, may be one."""

    root: str
    parts: tuple[str, ...]

    def list_files(self) -> Listing:
        listing, found = Listing(), []
        with self._opened() as folder:
            for entry in _walk(folder, "", listing):
                found.append(entry)
                if len(found) > settings.WATCH_FILES_MAX:
                    raise TooManyFiles(
                        f"The folder has more than {settings.WATCH_FILES_MAX:,} files. Watch its "
                        "subfolders one by one, or have WATCH_FILES_MAX raised."
                    )
        for each in name_apart(found):
            (listing.refusals if isinstance(each, Refusal) else listing.entries).append(each)  # type: ignore[arg-type]
        return listing

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            handle = _descend(handle, self.parts)
        except OSError as exc:
            raise SourceUnreachable(
                f"The folder cannot be opened ({exc.strerror}). Check that it is there, mounted, "
                "no link, and open to the worker. Nothing was removed."
            ) from exc
        try:
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def open_file(self, entry: Entry) -> Iterator[Chunked]:
        *folders, name = entry.name.split("/")
        with self._opened() as top:
            try:
                folder = _descend(os.dup(top), folders)
                try:
                    handle = os.open(name, _FILE, dir_fd=folder)
                finally:
                    os.close(folder)
            except FileNotFoundError as exc:
                raise FileChanging("It has just gone.") from exc
            except OSError as exc:
                raise _unreadable(exc) from exc
        try:
            yield _Steady(handle, entry)
        finally:
            os.close(handle)


def _unreadable(exc: OSError) -> FileUnreadable:
    return FileUnreadable(
        f"It cannot be read ({exc.strerror}). Let the worker's user read it; links are not "
        "followed."
    )


def _descend(handle: int, parts: tuple[str, ...] | list[str]) -> int:
    """From an open folder down, closing what is left behind; raises OSError with nothing open."""
    for part in parts:
        try:
            below = os.open(part, _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


def _walk(folder: int, prefix: str, listing: Listing, depth: int = 0) -> Iterator[Entry]:
    """The regular files below; what cannot be told goes to the listing."""
    try:
        with os.scandir(folder) as found:
            names = sorted(each.name for each in found)
    except OSError as exc:
        _incomplete(listing, prefix, exc)
        return
    for name in names:
        if is_ignored(name):
            continue
        path = prefix + name
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as exc:
            _incomplete(listing, path, exc)
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _enter(folder, name, prefix, listing, depth)
        elif stat.S_ISREG(status.st_mode):
            yield Entry(path, document_path(path), status.st_size, _stamp(status))
        else:
            message = "Links, devices and sockets are not followed. Put the file itself here."
            listing.refusals.append(Refusal(document_path(path), "not_a_file", message))


def _enter(folder: int, name: str, prefix: str, listing: Listing, depth: int) -> Iterator[Entry]:
    path = f"{prefix}{name}/"
    if depth >= _DEPTH_MAX:
        message = f"More than {_DEPTH_MAX} folders deep. Move it up."
        listing.refusals.append(Refusal(document_path(path), "too_deep", message))
        return
    try:
        below = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as exc:
        _incomplete(listing, path, exc)
        return
    try:
        yield from _walk(below, path, listing, depth + 1)
    finally:
        os.close(below)


def _incomplete(listing: Listing, path: str, exc: OSError) -> None:
    listing.complete = False
    message = f"It cannot be opened ({exc.strerror}). Let the worker's user read it."
    listing.refusals.append(Refusal(document_path(path), FileUnreadable.code, message))


def _stamp(status: os.stat_result) -> str:
    """Changes with every write and with every rename onto the name."""
    return f"{status.st_mtime_ns}:{status.st_ino}"


@dataclass(frozen=True)
class _Steady:
    """An open file, read only if it is the one that was listed, and at rest."""

    handle: int
    entry: Entry

    def chunks(self) -> Iterator[bytes]:
        """Raises FileChanging, before or after reading, when somebody is writing."""
        self._check()
        os.lseek(self.handle, 0, os.SEEK_SET)
        read = 0
        while data := self._read():
            read += len(data)
            if read > self.entry.size_bytes:  # it may grow for as long as it is read
                break
            yield data
        self._check()
        if read != self.entry.size_bytes:
            raise FileChanging("It changed while it was read.")

    def _read(self) -> bytes:
        try:
            return os.read(self.handle, _READ_BYTES)
        except OSError as exc:
            raise _unreadable(exc) from exc

    def _check(self) -> None:
        status = os.fstat(self.handle)
        if not stat.S_ISREG(status.st_mode):
            raise FileUnreadable("Links, devices and sockets are not followed.")
        if (status.st_size, _stamp(status)) != (self.entry.size_bytes, self.entry.stamp):
            raise FileChanging("It is being written.")
        # The time of the last change of any kind: copying sets the other one back.
        if 0 <= time.time() - max(status.st_mtime, status.st_ctime) < settings.WATCH_SETTLE_S:
            raise FileChanging("It was written a moment ago.")
