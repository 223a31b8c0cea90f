"""The kinds of file that a conversation can be exported as."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from django.utils.translation import gettext as _

from apps.chat.errors import ExportRefused
from apps.chat.exporting.markdown import write_markdown
from apps.chat.exporting.pdf import page_data
from apps.chat.exporting.presenting import sheet_of
from apps.chat.exporting.sheet import Sheet
from apps.chat.exporting.types import ExportedConversation
from worker.sandbox import Limits, SandboxError, run_sandboxed

# A person is waiting, and the site's own memory is at stake. 200 long exchanges take below 4 s.
_LIMITS = Limits(wall_s=40, memory_bytes=1536 * 1024 * 1024, output_bytes=64 * 1024 * 1024)
# More at once would take the processors from those whose answers are being written.
_PDFS_AT_ONCE = 2
_PDF_WAIT_S = 20.0
_pdf_places = threading.BoundedSemaphore(_PDFS_AT_ONCE)


@dataclass(frozen=True)
class Material:
    """What an exporter is given."""

    document: ExportedConversation
    tenant_name: str
    model_labels: Mapping[str, str]


class Exporter(Protocol):
    """One kind of file. `export` takes up to seconds and no database; raises ExportRefused."""

    suffix: str
    content_type: str

    def export(self, material: Material) -> bytes: ...


class Json:
    """All branches, as `types.py` describes."""

    suffix, content_type = "json", "application/json"

    def export(self, material: Material) -> bytes:
        return json.dumps(material.document, ensure_ascii=False, indent=1).encode(errors="replace")


class Markdown:
    """The branch that is shown."""

    suffix, content_type = "md", "text/markdown; charset=utf-8"

    def export(self, material: Material) -> bytes:
        return write_markdown(_sheet(material)).encode(errors="replace")


class Pdf:
    """The branch that is shown, laid out in the sandbox."""

    suffix, content_type = "pdf", "application/pdf"

    def export(self, material: Material) -> bytes:
        if not _pdf_places.acquire(timeout=_PDF_WAIT_S):
            raise ExportRefused(_("Several PDF files are being made. Try again in a minute."))
        try:
            return _typeset(material)
        finally:
            _pdf_places.release()


def _typeset(material: Material) -> bytes:
    try:
        made = run_sandboxed(
            "apps.chat.exporting.typesetting:typeset",
            {"data": page_data(_sheet(material))},
            limits=_LIMITS,
        )
    except SandboxError as exc:
        raise ExportRefused(
            _("This conversation could not be made a PDF. Export it as Markdown instead.")
        ) from exc
    return bytes(made)


def _sheet(material: Material) -> Sheet:
    return sheet_of(
        material.document, tenant_name=material.tenant_name, model_labels=material.model_labels
    )


EXPORTERS: Mapping[str, Exporter] = {"markdown": Markdown(), "json": Json(), "pdf": Pdf()}
