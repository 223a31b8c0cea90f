"""Looking at a document: page images, and where a passage stands on them."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from apps.documents import files
from apps.documents.errors import FileMissing, NoPageImage, StorageUnavailable
from apps.documents.models import Document, Page
from apps.documents.previews import preview_folder
from apps.tenants.scope import tenant_scope
from worker.sandbox import Limits, SandboxError, run_sandboxed

logger = logging.getLogger(__name__)

_PDF = "application/pdf"
# A person is waiting, and the site's own memory is at stake.
_LIMITS = Limits(wall_s=15, memory_bytes=1024 * 1024 * 1024, output_bytes=32 * 1024 * 1024)


@dataclass(frozen=True)
class Box:
    """A rectangle on a page, in fractions of its width and height from the top left, 0 to 1."""

    x: float
    y: float
    width: float
    height: float


def has_page_images(document: Document) -> bool:
    """Whether pages of this kind of document can be drawn."""
    return document.kind == _PDF


def page_image(document: Document, page_number: int) -> bytes:
    """The page (from 1) as PNG at about 110 dpi; drawn once, then kept on disk.

    Raises NoPageImage for other kinds than PDF and for pages that cannot be drawn.
    """
    if not has_page_images(document) or not 1 <= page_number <= max(1, document.page_count):
        raise NoPageImage("This document has no image of that page.")
    cached = preview_folder(document.tenant_id, document.id) / f"{page_number}.png"
    try:
        return cached.read_bytes()
    except FileNotFoundError:
        png = _render(document, page_number)
        _keep(cached, png)
        _remove_if_deleted(document)
        return png


def passage_boxes(document: Document, page: Page, char_start: int, char_end: int) -> list[Box]:
    """Where the text from `char_start` to `char_end` (offsets in the whole text) is on `page`.

    Empty for kinds without page images, where nothing was found, and where the page cannot be
    read: a mark is a help, never a reason for an error. Takes up to seconds and no database.
    """
    if not has_page_images(document):
        return []
    start = max(0, char_start - page.char_start)
    end = min(len(page.text), char_end - page.char_start)
    if start >= end:
        return []
    key = document.readable_key
    try:
        return list(_find(document.tenant_id, key, page.number, page.text, start, end))
    except StorageUnavailable as exc:
        logger.warning("no boxes on a page of %s: %s", key, exc.code)
        return []


@lru_cache(maxsize=64)
def _find(
    tenant_id: uuid.UUID, storage_key: str, number: int, text: str, start: int, end: int
) -> tuple[Box, ...]:
    """Cached: a citation is opened again and again. The tenant is part of the key."""
    payload = {"page_number": number, "text": text, "start": start, "end": end}
    try:
        with files.local_path(storage_key) as path:
            found = run_sandboxed(
                "apps.documents.rendering:find_boxes",
                {"path": str(path), **payload},
                limits=_LIMITS,
            )
        return tuple(Box(*map(float, box)) for box in found)
    except (SandboxError, FileMissing) as exc:
        logger.warning("no boxes on a page of %s: %s", storage_key, exc.code)
    except (TypeError, ValueError):  # a reply is what a file made of the reader
        logger.warning("no boxes on a page of %s: odd reply", storage_key)
    return ()


def _render(document: Document, page_number: int) -> bytes:
    try:
        with files.local_path(document.readable_key) as path:
            png = run_sandboxed(
                "apps.documents.rendering:render_page",
                {"path": str(path), "page_number": page_number},
                limits=_LIMITS,
            )
    except (SandboxError, FileMissing, StorageUnavailable) as exc:
        logger.warning("page %d of %s not drawn: %s", page_number, document.id, exc.code)
        raise NoPageImage("The page cannot be drawn.") from exc
    return bytes(png)


def _remove_if_deleted(document: Document) -> None:
    """A document deleted while its page was drawn is to leave no image behind."""
    with tenant_scope(document.tenant_id):
        rows = Document.objects.filter(tenant_id=document.tenant_id, id=document.id)
        if rows.exists():
            return
    shutil.rmtree(preview_folder(document.tenant_id, document.id), ignore_errors=True)


def _keep(path: Path, png: bytes) -> None:
    """Write whole or not at all: another request may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as target:
        target.write(png)
    os.replace(name, path)
