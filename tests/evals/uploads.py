"""Uploads as people make them, and documents with pages to find passages in."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Mapping, Sequence

from django.core.files.uploadedfile import SimpleUploadedFile

from apps.documents.models import Collection, Document, DocumentState, Page
from apps.tenants.scope import tenant_scope


def sent(name: str, data: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data.encode() if isinstance(data, str) else data)


def lines(*objects: object) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in objects)


def zipped(files: Mapping[str, str | bytes], name: str = "set.zip") -> SimpleUploadedFile:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return SimpleUploadedFile(name, buffer.getvalue())


def write_document(
    collection: Collection,
    path: str,
    pages: Sequence[str] = (),
    *,
    state: str = DocumentState.READY,
    version: int = 1,
) -> Document:
    """A document with the text of its pages."""
    with tenant_scope(collection.tenant_id):
        document = Document.objects.create(
            tenant_id=collection.tenant_id,
            collection=collection,
            path=path,
            name=path.rpartition("/")[2],
            version=version,
            size_bytes=1,
            sha256=uuid.uuid4().hex,
            storage_key="none",
            state=state,
            page_count=len(pages),
        )
        start = 0
        for number, text in enumerate(pages, start=1):
            Page.objects.create(
                tenant_id=collection.tenant_id,
                document=document,
                number=number,
                text=text,
                char_start=start,
            )
            start += len(text) + 1
    return document
