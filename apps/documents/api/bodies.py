"""What comes in: files, in a form or as they are, and JSON objects."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http import HttpRequest

from apps.documents.api.errors import ApiError
from apps.documents.errors import FileTooLarge
from apps.documents.files import PATH_MAX_CHARS, Chunked, check_size

JSON_MAX_BYTES = 64 * 1024
_FORM_MAX_BYTES = 1024 * 1024  # of a form, besides its file
_READ_BYTES = 1024 * 1024
_TAIL_BYTES = 4096  # enough for a boundary (70 characters) and what little may follow it


@dataclass(frozen=True)
class Sent:
    """A file, the path that it is to have, the batch that it belongs to ("": none), and its tags
    with commas between.
    """

    file: Chunked
    path: str
    batch: str
    tags: str = ""


@contextmanager
def sent_file(request: HttpRequest) -> Iterator[Sent]:
    """The file of a request, for the block: the field `file` of a form, or the whole body.

    Raises ApiError, or FileTooLarge as soon as that is known.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        words = "The body is compressed. Send the file as it is."
        raise ApiError(415, "content_encoding", words)
    announced = request.META.get("CONTENT_LENGTH") or ""
    if announced.isdecimal():
        check_size(max(1, int(announced) - _FORM_MAX_BYTES))
    kind = request.content_type or ""
    if kind.startswith("multipart/"):
        if kind != "multipart/form-data":
            words = "Send multipart/form-data with the field “file”, or the file as the body."
            raise ApiError(415, "content_type", words)
        with _form(request) as (fields, file):
            path = _path(fields.get("path", file.name or ""))
            yield Sent(file, path, fields.get("batch", ""), fields.get("tags", ""))
    else:
        query = request.GET
        yield Sent(
            _Body(request),
            _path(query.get("path")),
            query.get("batch", ""),
            query.get("tags", ""),
        )


@contextmanager
def _form(request: HttpRequest) -> Iterator[tuple[dict[str, str], UploadedFile[Any]]]:
    """The fields of a form, before those of the address, and its one file.

    Django takes a form that ends in the middle of a file for a whole one: here it is refused.
    """
    request.upload_handlers = [_OneFile(request)]
    body = _Tail(request)
    posted, uploaded = request.parse_file_upload(request.META, cast(Any, body))
    arrived = [each for each in uploaded.values() if isinstance(each, UploadedFile)]
    try:
        if not body.has(f"--{(request.content_params or {}).get('boundary', '')}--"):
            words = "The form has no end; nothing was saved. Send it again."
            raise ApiError(400, "incomplete", words)
        if not arrived or "file" not in uploaded:
            words = "No whole file arrived in the field “file”; nothing was saved."
            raise ApiError(400, "no_file", words)
        fields = [*request.GET.items(), *posted.items()]
        yield {name: str(value) for name, value in fields}, arrived[0]
    finally:
        for each in arrived:
            each.close()


class _Tail:
    """Reads a request on, and keeps the end of what was read."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._tail = b""

    def read(self, size: int = -1) -> bytes:
        data = self._request.read(size)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return data

    def has(self, text: str) -> bool:
        """Whether `text` is in the last bytes that were read."""
        return self._tail.find(text.encode("latin-1", "replace")) >= 0


def _path(path: str | None) -> str:
    """`path`, if it can be one. Odd characters are replaced later, as in every upload."""
    if not path:
        words = "Say what the file is called: ?path=folder/name.pdf"
        raise ApiError(400, "path_missing", words)
    parts = path.split("/")
    if len(path) > PATH_MAX_CHARS or not all(part.strip(". ") for part in parts):
        words = (
            f"A path has at most {PATH_MAX_CHARS} characters, and names between its slashes: "
            "folder/name.pdf, without “..”, and without a slash at its ends."
        )
        raise ApiError(422, "bad_path", words)
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        raise ApiError(422, "bad_path", "A path has no control characters.")
    return path


class _Body:
    """The body of a request as a file. Raises ApiError when less came than was announced."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def chunks(self) -> Iterator[bytes]:
        announced, came = self._request.META.get("CONTENT_LENGTH") or "", 0
        while data := self._request.read(_READ_BYTES):
            came += len(data)
            yield data
        if announced.isdecimal() and came != int(announced):
            words = f"{came} bytes came of {int(announced)}; nothing was saved. Send it again."
            raise ApiError(400, "incomplete", words)


class _OneFile(TemporaryFileUploadHandler):
    """Takes one file, and stops reading once it is too large."""

    _seen = 0
    _files = 0

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        self._files += 1
        if self._files > 1:
            raise ApiError(400, "one_file", "Send one file a request.")
        super().new_file(*args, **kwargs)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        self._seen += len(raw_data)
        try:
            check_size(self._seen)
        except FileTooLarge:
            self.file.close()
            raise
        return super().receive_data_chunk(raw_data, start)


def json_object(request: HttpRequest, **kinds: type) -> dict[str, Any]:
    """The JSON object of a request, with no other fields than `kinds`; {} where there is no body.

    Raises ApiError.
    """
    data = request.read(JSON_MAX_BYTES + 1)
    if not data:
        return {}
    if request.content_type != "application/json":
        raise ApiError(415, "content_type", "Send JSON, with Content-Type: application/json.")
    if len(data) > JSON_MAX_BYTES:
        raise ApiError(413, "too_large", f"The body is larger than {JSON_MAX_BYTES // 1024} KiB.")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise ApiError(400, "bad_json", "The body is not JSON.") from exc
    if not isinstance(found, dict):
        raise ApiError(400, "bad_json", "The body is not a JSON object.")
    for name, value in found.items():
        # Not isinstance: true is an int to Python.
        if name not in kinds or type(value) is not kinds[name]:
            known = ", ".join(f"{each} ({kind.__name__})" for each, kind in kinds.items())
            raise ApiError(422, "bad_field", f"The fields here are: {known}.")
    return found
