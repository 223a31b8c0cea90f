"""The two files of a BEIR folder that are needed, out of a zip. Bounded: zips may be bombs."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from apps.evals.errors import UploadTooLarge, UploadUnreadable

# Of the list of a zip's files: some 15,000 names. Python reads all of it before anything else.
_LIST_MAX_BYTES = 1024 * 1024
_END = b"PK\x05\x06"
_END_BYTES = 22
_COMMENT_MAX_BYTES = 65_535
_BLOCK_BYTES = 1024 * 1024
_SPLITS = ("test", "dev", "validation", "train")  # the first that is there is taken
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError,
    NotImplementedError, ValueError, struct.error,
)  # fmt: skip


def is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in {b"PK\x03\x04", _END}


def unpack_beir(path: Path, *, most: int) -> tuple[Path, Path, str]:
    """Its queries and one split of its qrels as files beside it, and which split that is.

    Nothing else is unpacked, and of both no more than `most` bytes. Raises UploadTooLarge or
    UploadUnreadable.
    """
    _check_list(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
            queries, qrels = _queries_of(names), _qrels_of(names)
            found = (path.with_name("queries.jsonl"), path.with_name("qrels.tsv"))
            for name, target in zip((queries, qrels), found, strict=True):
                with archive.open(name) as source, target.open("wb") as file:
                    _copy(source, file, most)
    except _BROKEN as exc:
        raise UploadUnreadable(
            "This zip cannot be opened: it is broken, encrypted or packed in an unusual way. "
            "Pack the folder again."
        ) from exc
    return *found, f"Labels are those of {PurePosixPath(qrels).name}."


def _check_list(path: Path) -> None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END_BYTES - _COMMENT_MAX_BYTES))
        tail = file.read()
    last = tail[-_END_BYTES:]
    is_plain = last.startswith(_END) and last.endswith(b"\0\0")
    at = len(tail) - _END_BYTES if is_plain else tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise UploadUnreadable("This zip is cut off. Send it again.")
    if struct.unpack_from("<L", tail, at + 12)[0] > _LIST_MAX_BYTES:
        raise UploadTooLarge(
            "This zip holds too many files. Pack only queries.jsonl and the qrels."
        )


def _queries_of(names: list[str]) -> str:
    found = [name for name in names if PurePosixPath(name).name.casefold() == "queries.jsonl"]
    if len(found) == 1:
        return found[0]
    raise UploadUnreadable(
        "There has to be one queries.jsonl in the zip of a BEIR folder, and there "
        f"{'is none' if not found else f'are {len(found)}'}."
    )


def _qrels_of(names: list[str]) -> str:
    found = {PurePosixPath(name).stem.casefold(): name for name in names if name.endswith(".tsv")}
    chosen = next((found[split] for split in _SPLITS if split in found), None)
    if chosen is None and len(found) == 1:
        chosen = next(iter(found.values()))
    if chosen is None:
        raise UploadUnreadable("There is no qrels/test.tsv in the zip of a BEIR folder.")
    return chosen


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> None:
    while data := source.read(_BLOCK_BYTES):
        most -= len(data)
        if most < 0:
            raise UploadTooLarge("What is packed in this zip is too large. Send a part of it.")
        target.write(data)
