"""Files on this machine's disk: whole or not at all, and no fault of the disk is a document's."""

from __future__ import annotations

import errno
import os
import uuid
from io import BytesIO
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.documents import files
from apps.documents.errors import FileMissing, StorageUnavailable


def test_a_stored_file_and_the_folders_it_is_in_are_flushed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    sync = os.fsync

    def record(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", record)
    key = files.storage_key(uuid.uuid4(), uuid.uuid4(), "a" * 64)
    with files.receive(BytesIO(b"text")) as received:
        files.store(received, key)
    path = Path(settings.MEDIA_ROOT) / key
    assert flushed[0] == str(received.path)
    assert flushed[1:] == [str(folder) for folder in list(path.parents)[:4]]
    assert flushed[-1] == str(settings.MEDIA_ROOT)
    assert path.read_bytes() == b"text"
    assert not received.path.exists()
    flushed.clear()
    with files.receive(BytesIO(b"more")) as received:
        files.store(received, f"{key}-2")
    assert flushed == [str(received.path), str(path.parent)]


def test_a_disk_that_cannot_be_written_is_said(settings: Settings) -> None:
    Path(settings.MEDIA_ROOT).write_text("not a folder")
    with pytest.raises(StorageUnavailable), files.receive(BytesIO(b"text")):
        pass


def test_a_full_disk_is_said_and_nothing_is_left(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable, match="No space"), files.receive(BytesIO(b"text")):
        pass
    assert list((Path(settings.MEDIA_ROOT) / "incoming").iterdir()) == []


def test_a_decrypted_copy_is_stored_like_an_upload(settings: Settings) -> None:
    key = files.store_bytes(b"text", f"documents/{uuid.uuid4().hex}/un/unlocked")
    with files.local_path(key) as path:
        assert path.read_bytes() == b"text"
    files.remove(key)
    files.remove(key)
    with pytest.raises(FileMissing), files.local_path(key):
        pass
    with pytest.raises(FileMissing):
        files.open_stored(key)
