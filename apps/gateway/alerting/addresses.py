"""Which addresses a webhook may be at: public ones, looked at where the connection is made.

A webhook's address is typed by a tenant manager and called from inside: without this it would
reach the database's port, a cloud's metadata service, or the router's page. A name is resolved
once for a call, all that it resolves to must be public, and the call goes to an address that was
looked at: a name that resolves to another one a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from django.conf import settings

URL_MAX_CHARS = 500
# Translated to an IPv4 address on the way: that one is what counts (RFC 6052).
_NAT64 = IPv6Network("64:ff9b::/96")
# The resolver takes no deadline of its own.
_resolvers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="webhook-dns")


class AddressRefused(Exception):
    """A webhook may not be there. `code` is a word of a fixed set; `str()` is for the person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Target:
    """Where a webhook is, with the address that was looked at."""

    is_tls: bool
    host: str
    port: int
    path: str  # with its query
    address: str


def find_target(url: str, *, timeout_s: float) -> Target:
    """Where `url` leads; raises AddressRefused."""
    is_tls, host, port, path = _split(url)
    found = _resolve(host, port, timeout_s)
    if not settings.WEBHOOK_ALLOW_PRIVATE and not all(is_public(each) for each in found):
        raise AddressRefused(
            "address_refused", "This address is not on the public internet, so it is not called."
        )
    return Target(is_tls, host, port, path, found[0])


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, also behind its other spellings."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or _translated(found)
        if inner is not None:
            return is_public(str(inner))
    return found.is_global and not found.is_multicast and not found.is_reserved


def _translated(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _split(url: str) -> tuple[bool, str, int, str]:
    schemes = ("https", "http") if settings.WEBHOOK_ALLOW_PRIVATE else ("https",)
    words = AddressRefused("bad_address", "Write the whole address: https://example.com/hooks/rag")
    if len(url) > URL_MAX_CHARS or not (url.isascii() and url.isprintable()) or " " in url:
        raise words
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise words from exc
    if parts.scheme not in schemes or not parts.hostname:
        raise words
    if "@" in parts.netloc:
        raise AddressRefused("bad_address", "Leave user name and password out of the address.")
    is_tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return is_tls, parts.hostname, port or (443 if is_tls else 80), path


def _resolve(host: str, port: int, timeout_s: float) -> list[str]:
    """All addresses of a name, at least one."""
    asked = _resolvers.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = asked.result(timeout=timeout_s)
    except (OSError, UnicodeError, TookTooLong) as exc:
        raise AddressRefused(
            "unknown_host", "There is no such host, as far as the site can tell."
        ) from exc
    return [str(each[4][0]) for each in found]
