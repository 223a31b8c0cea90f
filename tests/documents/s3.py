"""A real HTTP server that speaks S3, and storage set up on it."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pytest_django import Settings

ACCESS_KEY = "access-key-of-the-tests"
SECRET_KEY = "secret-key-of-the-tests"


@dataclass(frozen=True)
class Bucket:
    """An empty bucket of the server's, and a client to look into it."""

    name: str
    client: Any

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.name)
        return [each["Key"] for each in found.get("Contents", [])]


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_url: str, settings: Settings) -> Bucket:
    """The instance's credentials are set; storage is not."""
    from apps.documents.object_storage import make_client

    settings.S3_ENDPOINT_URL, settings.S3_REGION = s3_url, "us-east-1"
    settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = ACCESS_KEY, SECRET_KEY
    made = Bucket(f"tests-{uuid.uuid4()}", make_client())
    made.client.create_bucket(Bucket=made.name)
    return made


@pytest.fixture
def stored_in_s3(bucket: Bucket, s3_url: str, settings: Settings) -> Bucket:
    """Uploaded files go to the bucket, below `kept/`."""
    settings.S3_BUCKET, settings.S3_PREFIX = bucket.name, "kept"
    store_at(settings, bucket.name, s3_url)
    return bucket


def store_at(settings: Settings, name: str, url: str) -> None:
    settings.S3_ENDPOINT_URL = url
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {
            "BACKEND": "apps.documents.object_storage.ObjectStorage",
            "OPTIONS": {
                "bucket_name": name,
                "endpoint_url": url,
                "region_name": "us-east-1",
                "access_key": ACCESS_KEY,
                "secret_key": SECRET_KEY,
                "location": "kept",
            },
        },
    }


def unused_url() -> str:
    """Nobody listens there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
