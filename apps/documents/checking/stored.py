"""Stored files and page images belong to a document each, and the other way round.

Everything goes through Django's storage API, a folder at a time, so that it works on a remote
storage too and memory stays flat. Page images are a cache on this machine's own disk.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from django.core.files.storage import default_storage
from django.db.models import Q
from django.utils import timezone

from apps.documents import files, jobs
from apps.documents.checking.repairs import fail
from apps.documents.checking.types import Finding, Options
from apps.documents.errors import FileMissing
from apps.documents.models import Document, DocumentState
from apps.documents.previews import preview_folder
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

T = TypeVar("T")

_BATCH = 500
_ROOT = "documents"  # the first part of every storage key
_OWNER = re.compile(r"-([0-9a-f]{32})(?:_\w+)?$")  # a storage adds a suffix to a name it has
_MISSING = "The stored file is missing. Delete the document and upload it again."


def files_without_a_document(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Uploads, replaced and unlocked copies that no document of the tenant has."""
    for keys in _batches(_walk(f"{_ROOT}/{tenant_id.hex}")):
        wanted = _keys_wanted(tenant_id, keys)
        for key in keys:
            if key not in wanted and _age_s(key) > options.grace_s:
                yield Finding(
                    "stray_file",
                    key,
                    "A stored file belongs to no document.",
                    tenant_id,
                    partial(_remove_stray, tenant_id, key),
                )


def documents_without_a_file(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Documents whose stored file, or decrypted copy, is gone or not of its size.

    With `deep`, every file's bytes are compared with the hash they were received with.
    """
    for document in _documents(tenant_id):
        wrong = _fault(document, deep=options.deep)
        if wrong is None:
            continue
        kind, words = wrong
        repair = None
        if kind == "missing_file" and document.state in jobs.UNFINISHED:
            repair = partial(_give_up, tenant_id, document.id)
        yield Finding(kind, str(document.id), words, tenant_id, repair)


def previews_without_a_document(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Page images of deleted documents."""
    folder = preview_folder(tenant_id, tenant_id).parent
    for paths in _batches(sorted(folder.iterdir()) if folder.is_dir() else ()):
        known = _known(tenant_id, [_uuid(path.name) for path in paths])
        for path in paths:
            if _uuid(path.name) not in known:
                yield Finding(
                    "stray_preview",
                    f"previews/{tenant_id.hex}/{path.name}",
                    "Page images are kept of a document that is gone.",
                    tenant_id,
                    partial(_remove_previews, tenant_id, path),
                )


def files_of_gone_tenants(options: Options) -> Iterator[Finding]:
    """Stored files and page images under the id of no tenant that there is."""
    for name in _folders(_ROOT):
        if _is_gone(name) and any(
            _age_s(key) > options.grace_s for key in _walk(f"{_ROOT}/{name}")
        ):
            yield Finding(
                "stray_tenant_files",
                f"{_ROOT}/{name}",
                "Files are stored of a tenant that is gone.",
                repair=partial(_remove_tenant_files, name, options.grace_s),
            )
    previews = preview_folder(uuid.UUID(int=0), uuid.UUID(int=0)).parent.parent
    for path in sorted(previews.iterdir()) if previews.is_dir() else ():
        if _is_gone(path.name) and any(each.is_file() for each in path.rglob("*")):
            yield Finding(
                "stray_tenant_previews",
                f"previews/{path.name}",
                "Page images are kept of a tenant that is gone.",
                repair=partial(_remove_tenant_previews, path),
            )


def _remove_stray(tenant_id: uuid.UUID, key: str) -> bool:
    if key not in _keys_wanted(tenant_id, [key]):
        files.remove(key)
    return True


def _remove_previews(tenant_id: uuid.UUID, path: Path) -> bool:
    if not _known(tenant_id, [_uuid(path.name)]):
        _remove_tree(path)
    return True


def _remove_tenant_files(name: str, grace_s: float) -> bool:
    if _is_gone(name):
        for key in _walk(f"{_ROOT}/{name}"):
            if _age_s(key) > grace_s:
                files.remove(key)
    return True


def _remove_tenant_previews(path: Path) -> bool:
    if _is_gone(path.name):
        _remove_tree(path)
    return True


def _remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _give_up(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    return fail(
        tenant_id,
        document_id,
        lambda document: _fault(document, deep=False) is not None,
        code=FileMissing.code,
        message=_MISSING,
    )


def _fault(document: Document, *, deep: bool) -> tuple[str, str] | None:
    """The kind of a finding and its words."""
    for key in filter(None, (document.storage_key, document.unlocked_key)):
        original = key == document.storage_key
        try:
            size = default_storage.size(key)
        except FileNotFoundError:
            return _missing(document)
        if original and size != document.size_bytes:
            words = f"The stored file has {size} bytes; {document.size_bytes} were received."
            return "changed_file", words
        if original and deep and _sha256(key) != document.sha256:
            return "changed_file", "The stored file's bytes are not those that were received."
    return None


def _missing(document: Document) -> tuple[str, str] | None:
    """None where the document says so itself."""
    if document.state == DocumentState.FAILED and document.error_code == FileMissing.code:
        return None
    return "missing_file", f"The document is {document.state}, and its stored file is missing."


def _sha256(key: str) -> str:
    digest = hashlib.sha256()
    with default_storage.open(key, "rb") as data:
        for part in data.chunks():
            digest.update(part)
    return digest.hexdigest()


def _documents(tenant_id: uuid.UUID) -> Iterator[Document]:
    """All of a tenant's, a batch at a time; no transaction is open while one is looked at."""
    last = uuid.UUID(int=0)
    while True:
        with tenant_scope(tenant_id):
            rows = Document.objects.filter(tenant_id=tenant_id, id__gt=last).order_by("id")
            batch = list(rows[:_BATCH])
        if not batch:
            return
        yield from batch
        last = batch[-1].id


def _keys_wanted(tenant_id: uuid.UUID, keys: Iterable[str]) -> set[str]:
    """Those of `keys` that a document names; a key says whose it is."""
    owners = [uuid.UUID(found[1]) for key in keys if (found := _OWNER.search(key))]
    with tenant_scope(tenant_id):
        rows = Document.objects.filter(
            Q(id__in=owners) | Q(storage_key__in=list(keys)), tenant_id=tenant_id
        ).values_list("storage_key", "unlocked_key")
        return {key for row in rows for key in row if key}


def _known(tenant_id: uuid.UUID, ids: Iterable[uuid.UUID | None]) -> set[uuid.UUID | None]:
    with tenant_scope(tenant_id):
        rows = Document.objects.filter(tenant_id=tenant_id, id__in=[each for each in ids if each])
        return set(rows.values_list("id", flat=True))


def _is_gone(tenant: str) -> bool:
    tenant_id = _uuid(tenant)
    return tenant_id is None or not Tenant.objects.filter(id=tenant_id).exists()


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(hex=text)
    except ValueError:
        return None


def _walk(folder: str) -> Iterator[str]:
    """Keys of all files under a folder of the storage."""
    try:
        folders, names = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    yield from (f"{folder}/{name}" for name in sorted(names))
    for each in sorted(folders):
        yield from _walk(f"{folder}/{each}")


def _folders(folder: str) -> list[str]:
    try:
        return sorted(default_storage.listdir(folder)[0])
    except FileNotFoundError:
        return []


def _age_s(key: str) -> float:
    """Since the file was last written; a file that is gone has none."""
    try:
        written = default_storage.get_modified_time(key)
    except FileNotFoundError:
        return -1.0
    return (timezone.now() - written).total_seconds()


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
