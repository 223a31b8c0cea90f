"""Files in an S3-compatible store: the whole walk, and what happens when it is away."""

from __future__ import annotations

import logging
import traceback
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.urls import reverse
from pytest_django import Settings

from apps.documents import files, selectors, services, viewing
from apps.documents.errors import FileMissing, NoPageImage, StorageUnavailable
from apps.documents.ingestion import ingest_next
from apps.documents.models import Collection, Document, DocumentState, Job, Page
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.documents.conftest import Upload, reload
from tests.documents.s3 import ACCESS_KEY, SECRET_KEY, Bucket, store_at, unused_url

pytestmark = pytest.mark.django_db


def local_files(settings: Settings) -> list[Path]:
    return [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]


def test_a_document_goes_the_whole_way_on_s3(
    stored_in_s3: Bucket,
    upload: Upload,
    guide_pdf: bytes,
    tenant: Tenant,
    settings: Settings,
    django_capture_on_commit_callbacks,
) -> None:
    document = upload(guide_pdf, "guide.pdf")
    assert stored_in_s3.keys() == [f"kept/{document.storage_key}"]
    assert local_files(settings) == []
    assert ingest_next()
    document = reload(document)
    assert (document.state, document.page_count) == (DocumentState.INDEXING, 3)
    assert viewing.page_image(document, 2).startswith(b"\x89PNG")
    with tenant_scope(tenant.id):
        page = Page.objects.get(document=document, number=1)
    at = page.text.index("Chapter 1")
    assert viewing.passage_boxes(document, page, at, at + 9)
    with selectors.open_file(document) as file:
        assert file.read() == guide_pdf
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_document(tenant=tenant, document=document, actor=None)
    assert stored_in_s3.keys() == []
    assert local_files(settings) == []


def test_a_large_file_is_sent_in_parts_and_comes_back_whole(
    stored_in_s3: Bucket, upload: Upload
) -> None:
    data = bytes(range(256)) * 4096 * 20  # 20 MiB: over the size of one part
    document = upload(data, "large.txt")
    with files.local_path(document.storage_key) as path:
        assert path.read_bytes() == data
    assert not path.exists()


def test_while_the_store_is_away_a_document_waits_and_says_so(
    stored_in_s3: Bucket, upload: Upload, s3_url: str, settings: Settings
) -> None:
    document = upload(b"Leave is 25 days.")
    store_at(settings, stored_in_s3.name, unused_url())
    assert ingest_next()
    waiting = reload(document)
    assert waiting.state != DocumentState.FAILED
    assert waiting.error_code == "storage_unavailable"
    store_at(settings, stored_in_s3.name, s3_url)
    Job.objects.update(not_before=None)
    assert ingest_next()
    assert reload(document).state == DocumentState.INDEXING
    assert reload(document).error_code == ""


def test_while_the_store_is_away_nothing_is_received_and_nothing_left(
    stored_in_s3: Bucket, tenant: Tenant, collection: Collection, settings: Settings
) -> None:
    store_at(settings, stored_in_s3.name, unused_url())
    with pytest.raises(StorageUnavailable):
        services.receive_upload(
            tenant=tenant, collection=collection, user=None, path="a.txt", file=BytesIO(b"text")
        )
    with tenant_scope(tenant.id):
        assert Document.objects.count() == 0
    assert local_files(settings) == []


def test_a_deletion_stands_though_the_store_is_away(
    stored_in_s3: Bucket,
    upload: Upload,
    tenant: Tenant,
    settings: Settings,
    django_capture_on_commit_callbacks,
) -> None:
    document = upload(b"Leave is 25 days.")
    store_at(settings, stored_in_s3.name, unused_url())
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_document(tenant=tenant, document=document, actor=None)
    with tenant_scope(tenant.id):
        assert not Document.objects.filter(id=document.id).exists()


def test_a_missing_object_fails_its_document_and_a_missing_bucket_does_not(
    stored_in_s3: Bucket, upload: Upload, s3_url: str, settings: Settings
) -> None:
    document = upload(b"Leave is 25 days.")
    store_at(settings, "no-such-bucket", s3_url)
    with pytest.raises(StorageUnavailable):
        files.open_stored(document.storage_key)
    with pytest.raises(StorageUnavailable):
        default_storage.exists(document.storage_key)
    store_at(settings, stored_in_s3.name, s3_url)
    stored_in_s3.delete(f"kept/{document.storage_key}")
    with pytest.raises(FileMissing), files.local_path(document.storage_key):
        pass
    assert ingest_next()
    assert reload(document).error_code == "file_missing"


def test_marks_are_left_out_while_the_store_is_away_and_are_back_with_it(
    stored_in_s3: Bucket, upload: Upload, guide_pdf: bytes, s3_url: str, settings: Settings
) -> None:
    document = upload(guide_pdf, "guide.pdf")
    assert ingest_next()
    document = reload(document)
    with tenant_scope(document.tenant_id):
        page = Page.objects.get(document=document, number=1)
    store_at(settings, stored_in_s3.name, unused_url())
    assert viewing.passage_boxes(document, page, 0, 9) == []
    with pytest.raises(NoPageImage):
        viewing.page_image(document, 1)
    store_at(settings, stored_in_s3.name, s3_url)
    assert viewing.passage_boxes(document, page, 0, 9)


def test_a_download_says_that_the_store_is_away(
    stored_in_s3: Bucket, cast: Cast, settings: Settings
) -> None:
    collection = services.create_collection(tenant=cast.acme, user=None, name="Handbook")
    document = services.receive_upload(
        tenant=cast.acme, collection=collection, user=None, path="a.txt", file=BytesIO(b"text")
    )
    address = reverse("documents:download", args=["acme", collection.id, document.id])
    client = signed_in(cast.bob)
    assert b"".join(client.get(address).streaming_content) == b"text"
    store_at(settings, stored_in_s3.name, unused_url())
    assert client.get(address).status_code == 503


def test_no_credential_is_in_a_message_a_repr_or_a_log(
    stored_in_s3: Bucket,
    upload: Upload,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    document = upload(b"Leave is 25 days.")
    said = [repr(default_storage), repr(default_storage.__class__), str(default_storage)]
    for name, url in (("no-such-bucket", settings.S3_ENDPOINT_URL), ("x" * 10, unused_url())):
        store_at(settings, name, url)
        with pytest.raises(StorageUnavailable) as caught:
            files.open_stored(document.storage_key)
        said += [str(caught.value), *traceback.format_exception(caught.value)]
    text = "".join(said) + caplog.text
    assert SECRET_KEY not in text
    assert ACCESS_KEY not in text
