"""The API behind its real server: what only bytes on a wire can do to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from apps.documents import services
from apps.documents.models import Collection, Document
from apps.tenants.models import KeyScope
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_key
from ragsite.stack.process import free_port
from ragsite.stack.state import BASE_DIR
from tests.cast import Cast

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

LIMIT = 3_000_000


@dataclass(frozen=True)
class Wire:
    """A running server, and a key that may upload."""

    port: int
    raw: str
    collection: Collection
    media: Path

    def uploads(self, path: str = "a.txt") -> str:
        return f"/api/v1/collections/{self.collection.id}/documents?path={path}"

    def head(self, *lines: str, method: str = "POST", target: str = "") -> bytes:
        """The beginning of a request, up to and with the empty line."""
        first = f"{method} {target or self.uploads()} HTTP/1.1"
        known = ("Host: 127.0.0.1", f"Authorization: Bearer {self.raw}", "Connection: close")
        return "\r\n".join([first, *known, *lines, "", ""]).encode()

    def status(self, *parts: bytes) -> int:
        """What the server answers to `parts`; 0 where it just hangs up."""
        with self.connected() as wire:
            answer = b""
            try:
                for part in parts:
                    wire.sendall(part)
                while data := wire.recv(65536):
                    answer += data
            except (BrokenPipeError, ConnectionResetError):
                pass
        return int(answer.split()[1]) if answer else 0

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as wire:
            yield wire

    def is_well(self) -> bool:
        found = self.status(self.head(method="GET", target="/api/v1/collections"))
        return found == 200

    @property
    def documents(self) -> list[str]:
        with tenant_scope(self.collection.tenant_id):
            return list(Document.objects.values_list("path", flat=True).order_by("path"))

    @property
    def leftovers(self) -> list[Path]:
        return list((self.media / "incoming").glob("*"))


@pytest.fixture
def wire(cast: Cast, tmp_path: Path) -> Iterator[Wire]:
    collection = services.create_collection(tenant=cast.acme, user=None, name="Handbook")
    _, raw = create_key(
        tenant=cast.acme, name="k", expires_at=None, actor=cast.alice, scope=KeyScope.MANAGE
    )
    found = Wire(free_port(), raw, collection, tmp_path / "media")
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "daphne", "--bind=127.0.0.1", f"--port={found.port}"),
            *("--verbosity=0", "ragsite.asgi:application"),
        ],
        cwd=BASE_DIR,
        env={**os.environ, "MEDIA_ROOT": str(found.media), "UPLOAD_MAX_BYTES": str(LIMIT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                assert found.is_well()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server did not come up"
                time.sleep(0.2)
        yield found
    finally:
        server.terminate()
        server.wait(30)


def chunked(data: bytes, size: int) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


def test_what_only_bytes_on_a_wire_can_do(wire: Wire) -> None:
    """One server for all of it, in turn: whatever came before must not have hurt it."""
    stream = wire.head("Transfer-Encoding: chunked", target=wire.uploads("chunked.txt"))
    assert wire.status(stream, chunked(b"Hello " * 1000, 7)) == 201
    assert wire.documents == ["chunked.txt"]

    stream = wire.head("Transfer-Encoding: chunked", target=wire.uploads("large.txt"))
    assert wire.status(stream, chunked(b"x" * (LIMIT + 1), 65536)) == 413
    assert wire.status(wire.head(f"Content-Length: {LIMIT + 1}"), b"x" * (LIMIT + 1)) == 413
    assert wire.status(stream, b"zz\r\nnot a length") in (0, 400)
    assert wire.status(wire.head("Content-Length: -5"), b"x") in (0, 400)
    assert wire.status(wire.head("Content-Length: x"), b"x") in (0, 400)
    assert wire.status(wire.head("Content-Length: 1", "Content-Length: 2"), b"xy") in (0, 400)
    assert wire.is_well()

    with wire.connected() as cut:  # a client that goes away in the middle
        cut.sendall(wire.head("Content-Length: 1000", target=wire.uploads("cut.txt")) + b"half")
    assert wire.status(wire.head(f"X-Large: {'x' * 2**20}", "Content-Length: 1"), b"x") in (0, 400)
    assert wire.status(wire.head(*(f"X-{n}: {n}" for n in range(20_000)))) in (0, 400)
    assert wire.is_well()

    for path in (
        "a%00b",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/x",
        "%2Fetc%2Fpasswd",
        "a%0d%0aX",
    ):
        assert wire.status(wire.head("Content-Length: 1", target=wire.uploads(path)), b"x") == 422
    for path in ("%ff%fe", quote("é.txt")):
        head = wire.head(f"Content-Length: {len(path)}", target=wire.uploads(path))
        assert wire.status(head, path.encode()) == 201
    escape = "/api/v1/documents/..%2f..%2fadmin/"
    assert wire.status(wire.head(method="GET", target=escape)) == 404
    assert wire.status(wire.head("Content-Length: 1", method="PUT"), b"x") == 405
    assert wire.status(wire.head(method="HEAD", target="/api/v1/collections")) == 200
    assert wire.status(wire.head(method="OPTIONS")) == 204
    assert wire.is_well()
    assert wire.documents == ["chunked.txt", "é.txt", "\ufffd\ufffd"]
    assert wire.leftovers == []
