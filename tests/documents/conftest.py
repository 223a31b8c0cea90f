"""A tenant with a collection, and files to put into it."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.documents import services
from apps.documents.models import Collection, Document
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.documents.s3 import bucket, s3_url, stored_in_s3  # noqa: F401 - fixtures

Upload = Callable[..., Document]


@pytest.fixture(autouse=True)
def _media(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"


@pytest.fixture
def tenant() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def collection(tenant: Tenant) -> Collection:
    return services.create_collection(tenant=tenant, user=None, name="Handbook")


@pytest.fixture
def upload(tenant: Tenant, collection: Collection) -> Upload:
    def put(data: bytes, name: str = "notes.txt") -> Document:
        return services.receive_upload(
            tenant=tenant, collection=collection, user=None, path=name, file=BytesIO(data)
        )

    return put


def reload(document: Document) -> Document:
    with tenant_scope(document.tenant_id):
        return Document.objects.select_related("collection").get(id=document.id)


@pytest.fixture(scope="session")
def guide_pdf() -> bytes:
    """Three pages with chapters, sections, ligatures and a hyphenated word."""
    from fpdf import FPDF

    pdf = FPDF()
    for chapter in range(1, 4):
        pdf.add_page()
        for size, words in (
            (20, f"Chapter {chapter}"),
            (14, f"Section {chapter}.1"),
            (
                11,
                f"The efficient office number {chapter} keeps its records on the upper floor. " * 4,
            ),
            (14, f"Section {chapter}.2"),
            (11, f"Maintenance {chapter} happens in spring, when the river has fallen. " * 4),
        ):
            pdf.set_font("Helvetica", "B" if size > 11 else "", size)
            pdf.multi_cell(0, size * 0.6, words, new_x="LMARGIN", new_y="NEXT")
    return bytes(pdf.output())
