"""Opening a file that is protected by a password, once, for good."""

from __future__ import annotations

from django.conf import settings

from apps.documents import files
from apps.documents.models import Document
from worker.sandbox import Limits, run_sandboxed

# A person is waiting.
_WALL_S = 30.0


def store_unlocked(document: Document, password: str) -> str:
    """Decrypt the file in the sandbox and store the copy; returns its key.

    The password goes to the sandbox through an unnamed file, and nowhere else. Raises
    WrongPassword's code as SandboxRefused, FileMissing, or another SandboxError.
    """
    with files.local_path(document.storage_key) as path:
        data = run_sandboxed(
            "apps.documents.parsing.unlock:unlock_file",
            {"path": str(path), "password": password},
            limits=Limits(
                wall_s=_WALL_S,
                memory_bytes=settings.PARSE_MEMORY_BYTES,
                output_bytes=settings.UPLOAD_MAX_BYTES,
            ),
        )
    return files.store_bytes(data, files.storage_key(document.tenant_id, document.id, "unlocked"))
