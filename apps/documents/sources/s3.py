"""Prefixes of buckets, read with the instance's own credentials.

An object is whole or not there, so nothing has to settle; it is read only while its etag is the
one that was listed (If-Match).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings

from apps.documents.errors import (
    FileChanging,
    FileUnreadable,
    SourceUnreachable,
    TooManyFiles,
)
from apps.documents.files import Chunked
from apps.documents.sources.types import (
    Entry,
    Listing,
    Refusal,
    document_path,
    is_ignored,
    name_apart,
)

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class PrefixReader:
    bucket: str
    prefix: str
    client: Any

    def list_files(self) -> Listing:
        listing, found = Listing(), []
        try:
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix
            )
            for page in pages:
                found += [self._entry(each) for each in page.get("Contents", ())]
                if len(found) > settings.WATCH_FILES_MAX:
                    raise TooManyFiles(
                        f"The prefix has more than {settings.WATCH_FILES_MAX:,} objects. Watch "
                        "longer prefixes, or have WATCH_FILES_MAX raised."
                    )
        except (ClientError, BotoCoreError) as exc:
            raise SourceUnreachable(
                f"The bucket cannot be listed ({_reason(exc)}). Operations check the S3_ settings "
                "and the bucket. Nothing was removed."
            ) from exc
        for each in name_apart(entry for entry in found if _is_wanted(entry)):
            (listing.refusals if isinstance(each, Refusal) else listing.entries).append(each)  # type: ignore[arg-type]
        return listing

    def _entry(self, found: dict[str, Any]) -> Entry:
        name = str(found["Key"])[len(self.prefix) :]
        return Entry(name, document_path(name), int(found["Size"]), str(found["ETag"]).strip('"'))

    @contextmanager
    def open_file(self, entry: Entry) -> Iterator[Chunked]:
        try:
            reply = self.client.get_object(
                Bucket=self.bucket, Key=self.prefix + entry.name, IfMatch=entry.stamp
            )
        except ClientError as exc:
            status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status in (404, 412):
                raise FileChanging("It has just been replaced, or has gone.") from exc
            raise _unreadable(exc) from exc
        except BotoCoreError as exc:
            raise _unreadable(exc) from exc
        body = reply["Body"]
        try:
            yield _Body(body)
        finally:
            body.close()


def _is_wanted(entry: Entry) -> bool:
    """Neither a folder's marker nor hidden."""
    names = entry.name.split("/")
    return bool(names[-1]) and not any(is_ignored(name) for name in names)


def _unreadable(exc: ClientError | BotoCoreError) -> FileUnreadable:
    return FileUnreadable(f"It cannot be read ({_reason(exc)}). Operations check the bucket.")


def _reason(exc: ClientError | BotoCoreError) -> str:
    """Only a code: what the store says may name keys."""
    if isinstance(exc, ClientError):
        return str(exc.response.get("Error", {}).get("Code", ""))[:40]
    return type(exc).__name__


@dataclass(frozen=True)
class _Body:
    body: Any

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self.body.iter_chunks(_READ_BYTES)
        except BotoCoreError as exc:
            raise _unreadable(exc) from exc
