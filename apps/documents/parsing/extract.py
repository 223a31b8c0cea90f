"""The one call into Kreuzberg, and the translation of its errors."""

from __future__ import annotations

from typing import Any, cast

import kreuzberg

from apps.documents.errors import Damaged, PasswordProtected, Unreadable, UnreadableKind


def extract(data: bytes, kind: str, **options: Any) -> kreuzberg.ExtractionResult:
    """Kreuzberg's result for `data`. Raises PasswordProtected or Damaged.

    No cache (documents would be left in a folder) and no "quality" rewriting: text stays as the
    document has it.
    """
    config = kreuzberg.ExtractionConfig(use_cache=False, enable_quality_processing=False, **options)
    try:
        return kreuzberg.extract_bytes_sync(data, kind, config=config)
    except MemoryError:
        raise
    except Exception as exc:
        raise _translate(exc) from exc


def nodes(result: kreuzberg.ExtractionResult) -> list[dict[str, Any]]:
    """The blocks of the document in reading order; empty where the parser made out none."""
    tree = cast(dict[str, Any], result.document or {})
    return list(tree.get("nodes", ()))


def _translate(exc: Exception) -> Unreadable:
    words = str(exc).lower()
    if "password" in words or "encrypt" in words:
        return PasswordProtected(
            "The file is protected by a password. Enter it, or upload a copy without one."
        )
    if isinstance(exc, kreuzberg.ValidationError) or "unsupported" in words:
        return UnreadableKind(
            "The file is of no kind that can be read here. Upload it as PDF, an Office document, "
            "HTML, Markdown, CSV or plain text."
        )
    if "security limit" in words or "exceeds limit" in words:
        return Damaged(
            "The file unpacks to far more than its size, as decompression bombs do, and was "
            "not opened. Split it, or export it as PDF."
        )
    return Damaged(
        "The file cannot be read: it is damaged, or not what its name says. Open it in its "
        "program, save it again, and upload the copy."
    )
