"""Files in an S3-compatible store, through django-storages.

botocore's exceptions become this room's here, and nowhere else: a store that does not answer is
StorageUnavailable, and only an object that a reachable bucket does not have is FileNotFoundError.
None of them says a credential.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from storages.backends.s3 import S3Storage

from apps.documents.errors import StorageUnavailable

# A file that is read from the store is spooled to disk from this size on.
_MEMORY_BYTES = 4 * 1024 * 1024


def client_config() -> Config:
    """Short waits and few retries: a job is put back and a person is told, rather than held up."""
    return Config(
        signature_version="s3v4",
        connect_timeout=5,
        read_timeout=30,
        retries={"mode": "standard", "max_attempts": 3},
        # Most S3-compatible servers have no host name for every bucket.
        s3={"addressing_style": "path" if settings.S3_ENDPOINT_URL else "auto"},
    )


def make_client() -> Any:
    """A boto3 client with the instance's own credentials; empty ones: the machine's role."""
    session = boto3.session.Session(
        aws_access_key_id=settings.S3_ACCESS_KEY or None,
        aws_secret_access_key=settings.S3_SECRET_KEY or None,
    )
    return session.client(
        "s3",
        region_name=settings.S3_REGION or None,
        endpoint_url=settings.S3_ENDPOINT_URL or None,
        config=client_config(),
    )


@contextmanager
def translated() -> Iterator[None]:
    """Botocore's errors as StorageUnavailable; what they say may name keys, so it is left out."""
    try:
        yield
    except ClientError as exc:
        code = str(exc.response.get("Error", {}).get("Code", ""))
        raise _unavailable(f"refused ({code[:40]})") from exc
    except BotoCoreError as exc:
        raise _unavailable(f"did not answer ({type(exc).__name__})") from exc


def _unavailable(how: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"The file storage {how}. Nothing is lost; it is tried again by itself. If it lasts, "
        "operations check S3_ENDPOINT_URL, S3_BUCKET and the keys."
    )


class ObjectStorage(S3Storage):  # type: ignore[misc] # untyped
    """`STORAGES["default"]` where S3_BUCKET is set."""

    def get_default_settings(self) -> dict[str, Any]:
        return {
            **super().get_default_settings(),
            "max_memory_size": _MEMORY_BYTES,
            "client_config": client_config(),
        }

    def _open(self, name: str, mode: str = "rb") -> Any:
        with translated():
            try:
                file = super()._open(name, mode)
            except FileNotFoundError:
                self._assert_bucket()
                raise
            if "r" in mode:
                file.file  # noqa: B018 - fetches it: reading it later raises nothing of botocore's
            return file

    def _save(self, name: str, content: Any) -> str:
        with translated():
            return str(super()._save(name, content))

    def delete(self, name: str) -> None:
        with translated():
            super().delete(name)

    def exists(self, name: str) -> bool:
        with translated():
            found = bool(super().exists(name))
            if not found:
                self._assert_bucket()
            return found

    def listdir(self, name: str) -> tuple[list[str], list[str]]:
        with translated():
            folders, names = super().listdir(name)
            return folders, names

    def size(self, name: str) -> int:
        with translated():
            return int(super().size(name))

    def get_modified_time(self, name: str) -> datetime:
        with translated():
            found: datetime = super().get_modified_time(name)
            return found

    def _assert_bucket(self) -> None:
        """Every object of a missing bucket is missing: that is no reason to give documents up."""
        self.connection.meta.client.head_bucket(Bucket=self.bucket_name)
