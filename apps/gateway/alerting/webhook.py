"""Calling a webhook: one signed POST, within a deadline, to an address that was looked at."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

import orjson

from apps.gateway.alerting.addresses import AddressRefused, Target, find_target

DEADLINE_S = 5.0
SIGNATURE = "Ragsite-Signature"


class WebhookFailed(Exception):
    """It was not taken. `code` is a word of a fixed set, or `http_` and the status."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def call_webhook(url: str, secret: str, payload: dict[str, Any]) -> None:
    """POST `payload` as JSON; raises WebhookFailed unless the answer is a 2xx.

    The answer's body is not read, and redirects are not followed: they would lead where nobody
    looked.
    """
    ends = time.monotonic() + DEADLINE_S
    try:
        target = find_target(url, timeout_s=DEADLINE_S)
    except AddressRefused as exc:
        raise WebhookFailed(exc.code) from exc
    body = orjson.dumps(payload)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "ragsite",
        SIGNATURE: sign(secret, body, int(time.time())),
        "Connection": "close",
    }
    status = _post(target, body, headers, ends - time.monotonic())
    if 300 <= status < 400:
        raise WebhookFailed("redirect")
    if not 200 <= status < 300:
        raise WebhookFailed(f"http_{status}")


def sign(secret: str, body: bytes, at: int) -> str:
    """`t=<seconds>,v1=<hex>`: HMAC-SHA-256 over the time, a point and the body.

    The time is signed with it, so that a call that was overheard is of no use later.
    """
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


class _Connection(http.client.HTTPConnection):
    """To the address that was looked at; the certificate has to be the name's.

    A timeout bounds each wait, and the clock their sum: an answer may come a byte at a time.
    """

    def __init__(self, target: Target, timeout_s: float) -> None:
        super().__init__(target.host, target.port, timeout=timeout_s)
        self.target = target
        self.is_late = False
        self._clock = threading.Timer(timeout_s, self._cut)
        self._clock.daemon = True
        self._clock.start()

    def connect(self) -> None:
        address = (self.target.address, self.target.port)
        self.sock = socket.create_connection(address, self.timeout)
        if self.target.is_tls:
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.target.host, do_handshake_on_connect=False
            )
        # What the clock could not cut, for it was not there yet.
        if self.is_late:
            raise TimeoutError
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.do_handshake()

    def close(self) -> None:
        self._clock.cancel()
        super().close()

    def _cut(self) -> None:
        """From the clock's thread: whatever is waited for ends now."""
        self.is_late = True
        if self.sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


def _post(target: Target, body: bytes, headers: dict[str, str], timeout_s: float) -> int:
    """The status of the answer."""
    if timeout_s <= 0:
        raise WebhookFailed("timeout")
    connection = _Connection(target, timeout_s)
    try:
        connection.request("POST", target.path, body, headers)
        with connection.getresponse() as answer:
            return answer.status
    except (OSError, http.client.HTTPException, ValueError) as exc:
        raise WebhookFailed("timeout" if connection.is_late else _kind(exc)) from exc
    finally:
        connection.close()


def _kind(exc: Exception) -> str:
    match exc:
        case TimeoutError():
            return "timeout"
        case ssl.SSLError():
            return "tls"
        case OSError():
            return "unreachable"
    return "bad_answer"
