"""Where page images are kept: beside the files, deleted with the document."""

from __future__ import annotations

import uuid
from pathlib import Path

from django.conf import settings


def preview_folder(tenant_id: uuid.UUID, document_id: uuid.UUID) -> Path:
    return Path(settings.MEDIA_ROOT) / "previews" / tenant_id.hex / document_id.hex
