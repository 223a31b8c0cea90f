"""HTTP/1.1 around the one-machine encoder, with TEI's statuses and error bodies."""

from __future__ import annotations

import hmac
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ragsite.stack.encoder_service import EncoderService, TeiError

PAYLOAD_LIMIT_BYTES = 2_000_000  # TEI's default
IDLE_TIMEOUT_S = 300.0  # a kept connection that asks nothing is closed
_ROUTES = {
    "/embed": EncoderService.embed,
    "/embed_all": EncoderService.embed_all,
    "/rerank": EncoderService.rerank,
    "/tokenize": EncoderService.tokenize,
}
_OPEN = {"/", "/health", "/ping"}


class PlainRefusal(Exception):
    """A refusal that TEI's HTTP layer words itself, as plain text or with no body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EncoderServer(ThreadingHTTPServer):
    """Listens on loopback; a thread a connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, service: EncoderService, *, key: str) -> None:
        self.service = service
        self.key = key
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: EncoderServer
    protocol_version = "HTTP/1.1"
    # Head and body leave as two packets; with Nagle's delay the second would wait 40 ms.
    disable_nagle_algorithm = True
    timeout = IDLE_TIMEOUT_S
    wbufsize = 64 * 1024

    def do_GET(self) -> None:
        if self.path in _OPEN:
            self._reply(200, b"")
        elif not self._authorised():
            self._reply(401, b"")
        elif self.path == "/info":
            self._reply_json(200, self.server.service.info())
        elif self.path == "/metrics":
            metrics = self.server.service.metrics().encode()
            self._reply(200, metrics, "text/plain; version=0.0.4; charset=utf-8")
        else:
            self._reply(404, b"")

    def do_POST(self) -> None:
        try:
            body = self._body()  # read in any case: the next request follows it
            if not self._authorised():
                raise PlainRefusal(401, "")
            route = _ROUTES.get(self.path)
            if route is None:
                raise PlainRefusal(404, "")
            self._reply_json(200, route(self.server.service, _decoded(body)))
        except PlainRefusal as refusal:
            self._reply(refusal.status, str(refusal).encode(), "text/plain; charset=utf-8")
        except TeiError as error:
            reply = {"error": str(error), "error_type": error.error_type}
            self._reply_json(error.status, reply)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as exc:
            # The kind of error only: its message may quote the text being encoded.
            sys.stderr.write(f"{self.path} failed: {type(exc).__name__}\n")
            reply = {"error": "the encoder failed; see its log", "error_type": "Backend"}
            self._reply_json(424, reply)

    def _body(self) -> bytes:
        try:
            length = int(self.headers["content-length"])
        except (TypeError, ValueError):
            self.close_connection = True
            raise PlainRefusal(411, "Content-Length is required") from None
        if length < 0 or length > PAYLOAD_LIMIT_BYTES:
            self.close_connection = True
            raise PlainRefusal(413, "Failed to buffer the request body: length limit exceeded")
        return self.rfile.read(length)

    def _authorised(self) -> bool:
        expected = f"Bearer {self.server.key}".encode()
        given = (self.headers["authorization"] or "").encode("latin-1", "replace")
        return not self.server.key or hmac.compare_digest(given, expected)

    def _reply_json(self, status: int, reply: Any) -> None:
        self._reply(status, json.dumps(reply).encode(), "application/json")

    def _reply(self, status: int, body: bytes, content_type: str = "") -> None:
        self.send_response(status)
        if content_type and body:
            self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Requests are not logged: the site measures its own hops."""


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError as exc:
        message = "Failed to parse the request body as JSON"
        raise PlainRefusal(400, message) from exc
    if not isinstance(decoded, dict):
        message = "Failed to deserialize the JSON body into the target type"
        raise PlainRefusal(422, message)
    return decoded
