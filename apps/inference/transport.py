"""The one way to a model server: httpx with explicit limits, foreign errors translated once.

A redirect is never followed (it would carry the key elsewhere) and nothing is read from the
environment (no proxy, no .netrc, no HF_TOKEN). Tests hand in an httpx transport of their own.
"""

from __future__ import annotations

import ssl
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

from apps.inference import errors
from apps.inference.connections import KeptConnections
from apps.inference.per_loop import PerLoop
from apps.inference.replies import refusal

CONNECT_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 30.0
POOL_TIMEOUT_S = 10.0
RETRY_AFTER_MAX_S = 3600.0
ERROR_BODY_BYTES = 64 * 1024  # more of a refusal is not read
# Shorter than any server's: uvicorn, under vLLM and SGLang, closes an idle connection after 5 s.
KEEP_ALIVE_S = 4.0
_CONNECTION_LOST = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@dataclass(frozen=True)
class Server:
    """A model server: what messages call it, where it is, its key, how long it may be silent."""

    kind: str  # e.g. "TGI"
    url: str
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    first_timeout_s: float | None = None  # before the first token, where it is not the same
    name: str = ""  # what messages call it in place of its address, which may be nobody's business

    def __post_init__(self) -> None:
        if not self.url:
            raise errors.NotConfigured(f"No address is set for the {self.kind} server.")
        object.__setattr__(self, "url", self.url.rstrip("/"))

    @property
    def root(self) -> str:
        """The address without a trailing `/v1`, where routes outside the OpenAI API live."""
        return self.url.removesuffix("/v1")

    @property
    def where(self) -> str:
        """For messages: its name, or its address without path, query and credentials."""
        if self.name:
            return f"The {self.kind} server {self.name}"
        url = httpx.URL(self.url)
        port = f":{url.port}" if url.port else ""
        return f"The {self.kind} server at {url.scheme}://{url.host}{port}"

    @property
    def headers(self) -> dict[str, str]:
        headers = {"accept-encoding": "identity"}  # compression would hold tokens back
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        return headers

    @property
    def timeout(self) -> httpx.Timeout:
        return httpx.Timeout(
            connect=CONNECT_TIMEOUT_S,
            read=max(self.timeout_s, self.first_timeout_s or 0),
            write=WRITE_TIMEOUT_S,
            pool=POOL_TIMEOUT_S,
        )


def _options() -> dict[str, Any]:
    """What every httpx client here is made with."""
    return {"verify": _tls(), "follow_redirects": False, "trust_env": False}


@cache
def _tls() -> ssl.SSLContext:
    """One context a process: loading the certificates takes longer than a local request."""
    return ssl.create_default_context()


class BlockingClient:
    """Requests from workers and pipeline threads, over one pool of kept connections.

    Lives as long as the embedder or reranker that owns it; its connections are closed with it.
    """

    def __init__(self, server: Server, transport: httpx.BaseTransport | None = None) -> None:
        self.server = server
        self._client = httpx.Client(
            headers=server.headers, timeout=server.timeout, transport=transport, **_options()
        )
        weakref.finalize(self, self._client.close)

    def get(self, path: str) -> Any:
        """Decoded JSON of a GET; raises an InferenceError."""
        return self._json(self._client.build_request("GET", self.server.url + path))

    def post(self, path: str, body: object) -> Any:
        """Decoded JSON of a POST; raises an InferenceError."""
        return self._json(self._client.build_request("POST", self.server.url + path, json=body))

    def _json(self, request: httpx.Request) -> Any:
        with translated(self.server):
            try:
                response = self._client.send(request)
            except _CONNECTION_LOST:
                # Most often a kept connection that the server had closed meanwhile. Everything
                # sent from here is a pure computation, so once more does no harm.
                response = self._client.send(request)
        return decoded(self.server, response)


def _async_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=KeptConnections(_tls(), KEEP_ALIVE_S), **_options())


# To every server: a kept connection saves a call the handshakes, and a client its set-up.
_clients = PerLoop(_async_client, httpx.AsyncClient.aclose)


@asynccontextmanager
async def open_stream(
    server: Server,
    method: str,
    url: str,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[httpx.Response]:
    """The reply to one request, its body still unread.

    Leaving the block before the body's end closes the connection, which is how a server is told
    to stop; after it, the connection is kept for the next call.
    """
    async with _client(transport) as client:
        with translated(server):
            lines = {**server.headers, **(headers or {})}
            request = client.build_request(
                method, url, json=body, headers=lines, timeout=server.timeout
            )
            response = await client.send(request, stream=True)
            try:
                if not response.is_success:
                    raise _refused(server, response, await _start_of(response))
                yield response
            finally:
                await response.aclose()


@asynccontextmanager
async def _client(transport: httpx.AsyncBaseTransport | None) -> AsyncIterator[httpx.AsyncClient]:
    if transport is None:
        yield _clients.get()
    else:
        async with httpx.AsyncClient(transport=transport, **_options()) as client:
            yield client


async def fetch_json(
    server: Server,
    method: str,
    url: str,
    *,
    body: object = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Any:
    """Decoded JSON of one request, None for an empty body; raises an InferenceError."""
    async with open_stream(server, method, url, body=body, transport=transport) as response:
        await response.aread()
    return decoded(server, response) if response.content else None


def decoded(server: Server, response: httpx.Response) -> Any:
    """The JSON of a successful reply."""
    if not response.is_success:
        raise _refused(server, response, response.content)
    try:
        return response.json()
    except ValueError as exc:
        raise errors.ProtocolError(
            f"{server.where} answered with something that is not JSON. "
            "Check that the address is that of the right kind of server."
        ) from exc


@contextmanager
def translated(server: Server) -> Iterator[None]:
    """httpx's exceptions as ours."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as exc:
        raise errors.Unavailable(
            f"{server.where} cannot be reached. Check the address and that it is running."
        ) from exc
    except httpx.PoolTimeout as exc:
        raise errors.Overloaded(
            f"{server.where} has every connection of this process busy. Try again shortly."
        ) from exc
    except httpx.TimeoutException as exc:
        raise timed_out(server) from exc
    except (httpx.DecodingError, httpx.LocalProtocolError) as exc:
        raise errors.ProtocolError(f"{server.where} sent a reply that HTTP cannot read.") from exc
    except httpx.TransportError as exc:
        raise errors.Interrupted(
            f"{server.where} closed the connection before it had answered. Try again."
        ) from exc


def timed_out(server: Server, seconds: float | None = None) -> errors.TimedOut:
    """The error for a server that fell silent."""
    return errors.TimedOut(
        f"{server.where} was silent for {seconds or server.timeout_s:g} s. "
        "Try again; if it repeats, look at the server's load."
    )


def _refused(server: Server, response: httpx.Response, body: bytes) -> errors.InferenceError:
    error = refusal(server.where, response.status_code, body)
    # In seconds; the other form, a date, no model server sends.
    asked = response.headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        error.retry_after_s = min(float(asked), RETRY_AFTER_MAX_S)
    return error


async def _start_of(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= ERROR_BODY_BYTES:
            break
    return body[:ERROR_BODY_BYTES]
